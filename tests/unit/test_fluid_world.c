/* test_fluid_world.c - runs a group of trials through allocator and placer; see test_fluid.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "testkit.h"
#include "test_fluid.h"

#define NOT_YET (-1.0)

struct body {
	struct espl_item item;
	struct espl_gang gang;
	struct espl_slot *slots; /* [GPUs] */
	uint64_t *nodes;         /* [GPUs] */
	double left;             /* of h1 */
	double paused;           /* until */
	uint32_t trial;          /* of the group */
	int here, told, over;    /* told: its grant is new */
};
struct world {
	struct espl_alloc_sink alloc_sink;
	struct espl_place_sink place_sink;
	const struct group *group;
	struct course *course;
	struct espl_kit *allocator, *placer; /* for making the instances */
	struct espl_experiment experiment;
	const struct espl_experiment *experiments[1];
	struct espl_offer offer;
	const struct espl_offer *offers[1];
	struct espl_node *nodes;
	struct espl_gpu *gpus;
	const struct espl_gpu **gpu_list;
	const struct espl_node **node_list;
	struct body *bodies;
	const struct espl_item **items;
	const struct espl_gang **gangs, **changed;
	uint64_t *gone, *granted; /* granted: items, in order of their grants */
	struct espl_point *scaling, *packing;
	uint32_t targets[1], gone_count, granted_count, per_node, node_count, live, lost;
	double now, wake;
	espl_status failed;
};

static double
later(double a, double b)
{
	return a > b ? a : b;
}

/* ---- sinks ------------------------------------------------------------------------------- */

static struct body *
body_of(struct world *w, uint64_t item)
{
	return item < w->group->count && w->bodies[item].here ? &w->bodies[item] : NULL;
}

static void
complain(struct world *w, const char *format, ...)
{
	va_list list;

	if (w->course->why[0] != '\0')
		return;
	va_start(list, format);
	(void)vsnprintf(w->course->why, sizeof w->course->why, format, list);
	va_end(list);
}

static espl_status
on_grant(struct espl_alloc_sink *sink, const struct espl_grant *grant)
{
	struct world *w = (struct world *)(void *)sink;
	struct body *b = body_of(w, grant->item);

	if (b == NULL || grant->share.packing == 0 || grant->share.packing > b->item.packing_max ||
	    grant->share.gpus > b->item.gpus_max ||
	    (grant->share.packing > 1 && grant->share.gpus != 1)) {
		complain(w, "a grant that may not be");
		return ESPL_E_REJECTED;
	}
	if (w->course->gpus[b->trial] == 0) {
		w->course->gpus[b->trial] = grant->share.gpus;
		w->course->packing[b->trial] = grant->share.packing;
	}
	if ((grant->flags & ESPL_GRANT_QUEUED) != 0)
		return ESPL_OK;
	b->item.granted = b->gang.share = grant->share;
	b->told = 1;
	if ((grant->flags & ESPL_GRANT_YIELD) != 0)
		b->gang.flags |= ESPL_GANG_YIELDS;
	w->granted[w->granted_count++] = grant->item;
	return ESPL_OK;
}

static espl_status
on_target(struct espl_alloc_sink *sink, const struct espl_target *target)
{
	(void)sink;
	(void)target;
	return ESPL_OK; /* this world's machines stay */
}

static espl_status
on_wake(struct espl_alloc_sink *sink, espl_time at)
{
	struct world *w = (struct world *)(void *)sink;

	if ((double)at / 1e9 < w->wake)
		w->wake = (double)at / 1e9;
	return ESPL_OK;
}

static espl_status
on_objective(struct espl_alloc_sink *sink, double value, double bound, const char *status)
{
	(void)sink, (void)value, (void)bound, (void)status;
	return ESPL_OK;
}

static espl_status
on_place(struct espl_place_sink *sink, uint64_t item, const struct espl_slot *slots, uint32_t count)
{
	struct world *w =
	    (struct world *)(void *)((char *)sink - offsetof(struct world, place_sink));
	struct body *b = body_of(w, item);
	uint32_t i;
	int same;

	if (b == NULL || (count > 0 && count != b->item.granted.gpus)) {
		complain(w, "a place that may not be");
		return ESPL_E_REJECTED;
	}
	same = count == b->gang.slot_count && memcmp(slots, b->slots, count * sizeof *slots) == 0;
	if (!same && w->course->started[b->trial] != NOT_YET && count > 0) {
		b->paused = w->now + w->group->eps;
		w->course->changes++;
	}
	if (count > 0)
		memcpy(b->slots, slots, count * sizeof *slots);
	b->gang.slot_count = count;
	b->gang.flags &= ~(uint32_t)ESPL_GANG_UNPLACED;
	b->gang.flags |= count > 0 ? 0 : ESPL_GANG_UNPLACED;
	if (count > 0 && w->course->started[b->trial] == NOT_YET) {
		w->course->started[b->trial] = w->now;
		b->item.started = (espl_time)(w->now * 1e9);
	}
	b->item.node_count = 0;
	for (i = 0; i < count; i++)
		if (i == 0 || slots[i].node != slots[i - 1].node)
			b->nodes[b->item.node_count++] = slots[i].node;
	b->item.gpu = count == 1 ? slots[0].gpu : ESPL_ANY;
	return ESPL_OK;
}

static espl_status
on_give_up(struct espl_place_sink *sink, uint64_t node)
{
	(void)sink, (void)node;
	return ESPL_OK;
}

/* ---- making ------------------------------------------------------------------------------ */

static void *
room(size_t count, size_t size)
{
	void *at = calloc(count + 1, size);

	if (at == NULL)
		abort();
	return at;
}

static void
make_tables(struct world *w)
{
	const struct group *g = w->group;
	uint32_t i;

	w->scaling = room(g->gpus, sizeof *w->scaling);
	w->packing = room(g->c, sizeof *w->packing);
	for (i = 0; i < g->gpus; i++)
		w->scaling[i] = (struct espl_point){ i + 1, (i + 1) / pow(g->beta, i) };
	for (i = 0; i < g->c; i++)
		w->packing[i] = (struct espl_point){ i + 1, (i + 1) / pow(g->alpha, i) };
}

static void
make_nodes(struct world *w)
{
	uint32_t i;

	w->per_node = w->group->per_node > 0 ? w->group->per_node : 1;
	w->node_count = w->group->gpus / w->per_node;
	w->offer = (struct espl_offer)ESPL_INIT(struct espl_offer);
	w->offer.name = "node";
	w->offer.gpus = w->per_node;
	w->offer.nodes_max = w->targets[0] = w->node_count;
	w->offers[0] = &w->offer;
	w->nodes = room(w->node_count, sizeof *w->nodes);
	w->node_list = room(w->node_count, sizeof *w->node_list);
	w->gpus = room(w->group->gpus, sizeof *w->gpus);
	w->gpu_list = room(w->group->gpus, sizeof *w->gpu_list);
	for (i = 0; i < w->group->gpus; i++) {
		w->gpus[i].size = (uint32_t)sizeof *w->gpus;
		w->gpu_list[i] = &w->gpus[i];
	}
	for (i = 0; i < w->node_count; i++) {
		w->nodes[i] = (struct espl_node){ .size = (uint32_t)sizeof *w->nodes,
			.state = ESPL_NODE_READY,
			.id = i,
			.gpu_count = w->per_node,
			.gpus = w->gpu_list + (size_t)i * w->per_node,
			.owner = ESPL_NONE,
			.ends_at = ESPL_NEVER };
		w->node_list[i] = &w->nodes[i];
	}
}

static void
make_bodies(struct world *w)
{
	const struct group *g = w->group;
	uint32_t k;

	for (k = 0; k < g->count; k++) {
		struct body *b = &w->bodies[k];
		uint32_t trial = w->course->order != NULL ? w->course->order[k] : k;

		b->trial = trial;
		b->here = 1;
		b->left = g->h1[trial];
		b->slots = room(g->gpus, sizeof *b->slots);
		b->nodes = room(g->gpus, sizeof *b->nodes);
		b->item = (struct espl_item){ .size = (uint32_t)sizeof b->item,
			.id = k,
			.trial = k,
			.group = w->course->apart ? k : 0,
			.started = ESPL_NEVER,
			.gpus_min = 1,
			.gpus_max = g->d[trial] > 0 ? g->d[trial] : g->gpus,
			.unit = 1,
			.packing_max = g->c,
			.scaling = w->scaling,
			.packing = w->packing,
			.scaling_count = g->gpus,
			.packing_count = g->c,
			.granted = { 0, 1 },
			.offer = ESPL_ANY,
			.nodes = b->nodes,
			.weight = 1,
			.resize_s = g->eps,
			.boundary_s = 0,
			.start_s = 0,
			.gpu = ESPL_ANY,
			.flags = (w->course->open ? ESPL_ITEM_OPEN : 0) |
			    (w->course->colocate ? ESPL_ITEM_COLOCATE : 0) };
		if (b->item.gpus_max > g->gpus)
			b->item.gpus_max = g->gpus;
		b->gang = (struct espl_gang){ .size = (uint32_t)sizeof b->gang,
			.item = k,
			.flags =
			    ESPL_GANG_UNPLACED | (w->course->colocate ? ESPL_GANG_COLOCATE : 0),
			.share = { 0, 1 },
			.offer = ESPL_ANY,
			.owner = ESPL_NONE,
			.slots = b->slots };
		w->course->started[trial] = w->course->ended[trial] = NOT_YET;
		w->course->gpus[trial] = 0;
	}
	w->live = g->count;
}

/* ---- asking ------------------------------------------------------------------------------ */

static void
count_gpus(struct world *w)
{
	uint32_t i, k;

	for (i = 0; i < w->group->gpus; i++)
		w->gpus[i].residents = w->gpus[i].packing = 0;
	for (i = 0; i < w->group->count; i++)
		for (k = 0; w->bodies[i].here && k < w->bodies[i].gang.slot_count; k++) {
			const struct espl_slot *s = &w->bodies[i].slots[k];
			struct espl_gpu *gpu = &w->gpus[s->node * w->per_node + s->gpu];

			if (gpu->residents++ > 0 && gpu->packing != s->packing)
				w->course->crowded = 1;
			gpu->packing = s->packing;
			if (gpu->residents > s->packing)
				w->course->crowded = 1;
		}
	for (i = 0; i < w->node_count; i++)
		for (w->nodes[i].gpus_idle = k = 0;
		     k < w->per_node && w->nodes[i].state == ESPL_NODE_READY; k++)
			w->nodes[i].gpus_idle += w->gpus[i * w->per_node + k].residents == 0;
}

/* ---- losing nodes ------------------------------------------------------------------------ */

static int
on_lost(const struct world *w, const struct body *b)
{
	uint32_t k;

	for (k = 0; k < b->gang.slot_count; k++)
		if (w->nodes[b->slots[k].node].state != ESPL_NODE_READY)
			return 1;
	return 0;
}

/* The last nodes are about to go: trials that run there must leave. */
static uint32_t
lose(struct world *w)
{
	uint32_t i;

	for (i = 0; i < w->course->lose && w->lost + 1 < w->node_count; i++)
		w->nodes[w->node_count - ++w->lost].state = ESPL_NODE_NOTICE;
	for (i = 0; i < w->group->count; i++)
		if (w->bodies[i].here && on_lost(w, &w->bodies[i]))
			w->bodies[i].gang.flags |= ESPL_GANG_MUST;
	return ESPL_WHY_NODES | ESPL_WHY_NOTICE;
}

/* Who was granted nothing is gone from its GPUs, and who had to move has moved. */
static void
check_lost(struct world *w)
{
	uint32_t i;

	for (i = 0; i < w->group->count; i++) {
		struct body *b = &w->bodies[i];

		if (b->here && on_lost(w, b)) {
			w->course->held_lost = 1;
			complain(w, "trial %u stays on a node that is lost at %g", i, w->now);
		}
		b->gang.flags &= ~(uint32_t)ESPL_GANG_MUST;
	}
}

static void
ask_allocator(struct world *w, uint32_t why)
{
	const struct espl_allocator_ops *ops =
	    (const void *)allocator_fluid_LTX_espalier_plugin.ops;
	uint32_t gpus = w->group->gpus - w->lost * w->per_node;
	struct espl_alloc_view view = { .size = (uint32_t)sizeof view,
		.why = why,
		.now = (espl_time)(w->now * 1e9),
		.items = w->items,
		.changed = w->items,
		.experiments = w->experiments,
		.offers = w->offers,
		.nodes = w->node_list,
		.targets = w->targets,
		.experiment_count = 1,
		.offer_count = 1,
		.node_count = w->node_count,
		.gpus = gpus,
		.gone = w->gone,
		.gone_count = w->gone_count };
	struct espl_error error = ESPL_INIT(struct espl_error);
	uint64_t whole = 0, parts[65] = { 0 }, i;
	clock_t began;

	count_gpus(w);
	for (i = 0; i < w->node_count; i++)
		view.gpus_idle += w->nodes[i].gpus_idle;
	for (i = 0; i < w->group->count; i++)
		if (w->bodies[i].here) {
			struct espl_item *item = &w->bodies[i].item;

			item->work_s = w->bodies[i].left;
			item->flags &= ~(uint32_t)(ESPL_ITEM_CHANGING | ESPL_ITEM_RUNNING);
			item->flags |= w->bodies[i].paused > w->now ? ESPL_ITEM_CHANGING
			    : item->started != ESPL_NEVER && item->granted.gpus > 0
			    ? ESPL_ITEM_RUNNING
			    : 0;
			w->items[view.item_count++] = item;
		}
	view.changed_count = view.item_count;
	w->granted_count = 0;
	espl_kit_set_time(w->allocator, view.now);
	began = clock();
	if (ops->allocate(espl_kit_self(w->allocator), &view, &w->alloc_sink, &error) != ESPL_OK)
		complain(w, "allocate: %s", error.text);
	w->course->slowest_s =
	    later(w->course->slowest_s, (double)(clock() - began) / CLOCKS_PER_SEC);
	w->gone_count = 0;
	for (i = 0; i < w->group->count; i++)
		if (w->bodies[i].here && w->bodies[i].item.granted.packing > 1)
			parts[w->bodies[i].item.granted.packing]++;
		else if (w->bodies[i].here)
			whole += w->bodies[i].item.granted.gpus;
	for (i = 2; i <= 64; i++)
		whole += (parts[i] + i - 1) / i;
	if (whole > gpus) {
		w->course->crowded = 1;
		complain(w, "%u GPUs granted of %u at %g", (unsigned)whole, gpus, w->now);
	}
}

/* Those that were granted something, and those that must go where they sit. */
static uint32_t
list_changed(struct world *w)
{
	uint32_t i, k, n = 0;

	for (i = 0; i < w->granted_count; i++)
		w->changed[n++] = &body_of(w, w->granted[i])->gang;
	for (i = 0; i < w->group->count; i++) {
		const struct espl_gang *gang = &w->bodies[i].gang;

		if (!w->bodies[i].here || (gang->flags & ESPL_GANG_MUST) == 0 ||
		    gang->share.gpus == 0)
			continue;
		for (k = 0; k < n && w->changed[k] != gang; k++)
			;
		if (k == n)
			w->changed[n++] = gang;
	}
	return n;
}

static void
ask_placer(struct world *w)
{
	const struct espl_placer_ops *ops = (const void *)placer_pack_LTX_espalier_plugin.ops;
	struct espl_place_view view = { .size = (uint32_t)sizeof view,
		.why = ESPL_WHY_ARRIVAL,
		.now = (espl_time)(w->now * 1e9),
		.gangs = w->gangs,
		.changed = w->changed,
		.nodes = w->node_list,
		.node_count = w->node_count };
	struct espl_error error = ESPL_INIT(struct espl_error);
	uint32_t i;

	for (i = 0; i < w->group->count; i++) {
		struct body *b = &w->bodies[i];

		if (b->here && b->item.granted.gpus > 0) {
			w->gangs[view.gang_count++] = &b->gang;
		} else if (b->gang.slot_count > 0) { /* it waits again */
			b->gang.slot_count = b->item.node_count = 0;
			b->gang.flags |= ESPL_GANG_UNPLACED;
		}
	}
	count_gpus(w);
	view.changed_count = list_changed(w);
	if (ops->place(espl_kit_self(w->placer), &view, &w->place_sink, &error) != ESPL_OK)
		complain(w, "place: %s", error.text);
	for (i = 0; i < w->group->count; i++)
		w->bodies[i].gang.flags &= ~ESPL_GANG_YIELDS;
	check_lost(w);
	count_gpus(w);
}

/* ---- running ----------------------------------------------------------------------------- */

static double
speed(const struct world *w, const struct body *b)
{
	const struct group *g = w->group;
	const struct espl_slot *s = b->slots;
	uint32_t n = b->gang.slot_count, others;

	if (n == 0 || b->paused > w->now)
		return 0;
	if (s->packing == 1)
		return n / pow(g->beta, n - 1.0);
	others = w->course->hard ? s->packing - 1
				 : w->gpus[s->node * w->per_node + s->gpu].residents - 1;
	return pow(g->alpha, -(double)others);
}

/* Goes on to the next instant at which something happens; 0: nothing will. */
static int
advance(struct world *w)
{
	double step = w->wake - w->now;
	uint32_t i;

	for (i = 0; i < w->group->count; i++) {
		const struct body *b = &w->bodies[i];
		double v = b->here ? speed(w, b) : 0;

		if (b->here && b->paused > w->now && b->paused - w->now < step)
			step = b->paused - w->now;
		if (v > 0 && b->left / v < step)
			step = b->left / v;
	}
	if (!(step < INFINITY))
		return 0;
	for (i = 0; i < w->group->count; i++)
		if (w->bodies[i].here)
			w->bodies[i].left -= step * speed(w, &w->bodies[i]);
	w->now += step;
	for (i = 0; i < w->group->count; i++) /* what is over but for rounding is over */
		if (w->bodies[i].paused > 0 && w->bodies[i].paused < w->now * (1 + 1e-12))
			w->bodies[i].paused = 0;
	return 1;
}

static uint32_t
retire(struct world *w)
{
	uint32_t i, why = 0;

	for (i = 0; i < w->group->count; i++) {
		struct body *b = &w->bodies[i];

		if (!b->here || b->left > 1e-9 * w->group->h1[b->trial])
			continue;
		b->here = 0;
		w->course->ended[b->trial] = w->course->makespan = w->now;
		w->gone[w->gone_count++] = b->item.id;
		w->live--;
		why |= ESPL_WHY_DEPARTURE;
	}
	if (w->wake <= w->now) {
		w->wake = INFINITY;
		why |= ESPL_WHY_TIME;
	}
	return why;
}

static void
free_world(struct world *w)
{
	uint32_t i;

	for (i = 0; i < w->group->count; i++) {
		free(w->bodies[i].slots);
		free(w->bodies[i].nodes);
	}
	espl_kit_free(w->allocator);
	espl_kit_free(w->placer);
	free(w->nodes);
	free(w->node_list);
	free(w->gpus);
	free((void *)(uintptr_t)w->gpu_list);
	free(w->bodies);
	free((void *)(uintptr_t)w->items);
	free((void *)(uintptr_t)w->gangs);
	free((void *)(uintptr_t)w->changed);
	free(w->gone);
	free(w->granted);
	free(w->scaling);
	free(w->packing);
}

static void
open_policies(struct world *w, const char *options)
{
	struct espl_error error = ESPL_INIT(struct espl_error);

	w->allocator = espl_kit_new(1);
	w->placer = espl_kit_new(1);
	if (espl_kit_open(w->allocator, &allocator_fluid_LTX_espalier_plugin, options, &error) !=
		ESPL_OK ||
	    espl_kit_open(w->placer, &placer_pack_LTX_espalier_plugin, "", &error) != ESPL_OK)
		complain(w, "open: %s", error.text);
	w->experiment = *espl_kit_experiment(w->allocator);
	w->experiments[0] = &w->experiment;
	w->alloc_sink = (struct espl_alloc_sink){ .size = (uint32_t)sizeof w->alloc_sink,
		.grant = on_grant,
		.target = on_target,
		.wake_at = on_wake,
		.objective = on_objective };
	w->place_sink = (struct espl_place_sink){ .size = (uint32_t)sizeof w->place_sink,
		.place = on_place,
		.give_up = on_give_up };
}

void
fluid_run(const struct group *g, const char *options, struct course *course)
{
	struct world w = { .group = g, .course = course, .wake = INFINITY };
	uint32_t why = ESPL_WHY_ARRIVAL, steps = 0;

	course->why[0] = '\0';
	course->makespan = course->slowest_s = 0;
	course->changes = course->crowded = course->stuck = course->held_lost = 0;
	w.bodies = room(g->count, sizeof *w.bodies);
	w.items = room(g->count, sizeof *w.items);
	w.gangs = room(g->count, sizeof *w.gangs);
	w.changed = room(g->count, sizeof *w.changed);
	w.gone = room(g->count, sizeof *w.gone);
	w.granted = room((size_t)g->count * 2, sizeof *w.granted);
	make_tables(&w);
	make_nodes(&w);
	make_bodies(&w);
	open_policies(&w, options);
	while (course->why[0] == '\0' && w.live > 0 && ++steps < 100000 &&
	    (course->events == 0 || steps <= course->events)) {
		if (course->lose > 0 && steps == course->lose_at)
			why |= lose(&w);
		if (why != 0) {
			ask_allocator(&w, why);
			ask_placer(&w);
		}
		if (!advance(&w))
			break;
		why = retire(&w);
	}
	course->stuck = w.live > 0;
	free_world(&w);
}
