/* items.c - items: how allocators and the placer see a trial, from its first grant to its end. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/items_inner.h"
#include "exec/items_tiers.h"

/* ---- what an item is made of ----------------------------------------------------------------- */

/* What an item is made of, and shows its allocator: limits, work, progress. */

enum { UNLIMITED_GPUS_MAX = 1024 }; /* of a trial, where neither user nor cloud sets a limit */

/* ---- jobs --------------------------------------------------------------------------------- */

static double
job_left(const struct espl__trial *t, uint64_t iteration)
{
	const struct espl__search *s = t->search;
	double served = (double)iteration * espl__jobs_iteration_s(s->jobs, t->pub.id);

	return espl__workload_left(&s->jobs->list, (uint32_t)t->pub.id, served,
	    s->exec->caller.calls);
}

static void
fill_job(const struct espl__trial *t, struct espl_item *i)
{
	const struct espl__jobs *jobs = t->search->jobs;
	const struct espl__job *job = &jobs->list.jobs[t->pub.id];
	uint64_t potential = espl__cluster_potential(t->search->exec);
	uint64_t most = (uint64_t)job->nodes_max * jobs->unit;

	if (most > potential)
		most = potential - potential % jobs->unit;
	i->flags &= ~ESPL_ITEM_OPEN;
	i->unit = jobs->unit;
	i->packing_max = 1;
	i->gpus_min = job->nodes_min * jobs->unit;
	i->gpus_max = most > i->gpus_min ? (uint32_t)most : i->gpus_min;
	i->scaling = jobs->scaling[t->pub.id];
	i->scaling_count = jobs->scaling_count[t->pub.id];
	i->packing = NULL;
	i->packing_count = 0;
	i->work_total_s = job->eta_s;
}

/* ---- all ---------------------------------------------------------------------------------- */

static void
fill_model(const struct espl__search *s, struct espl_item *i)
{
	const struct espl__profile *p = s->inputs->profile;

	i->work_s = NAN;
	i->resize_s = i->start_s = i->boundary_s = NAN;
	if (p == NULL || p->guessed)
		return;
	i->scaling = p->scaling;
	i->scaling_count = p->scaling_count;
	i->packing = p->packing;
	i->packing_count = p->packing_count;
	i->start_s = espl__latency_mean(&p->start) + espl__latency_mean(&p->checkpoint) +
	    espl__latency_mean(&p->restore);
	i->resize_s = s->sums.resized > 0 ? s->sums.resized_s / (double)s->sums.resized
	    : s->in_place && p->resizes   ? espl__latency_mean(&p->resize)
					  : i->start_s;
	i->boundary_s = espl__latency_mean(&p->iteration) / 2;
}

/* What every item begins with. */
static struct espl__item *
new_record(struct espl__exec *x, struct espl__tier *tier)
{
	struct espl__item *item = x->items.spare_count > 0 ? x->items.spare[--x->items.spare_count]
							   : espl__pool_add(&x->items.pool);

	ESPL__CHECK(x, EXEC);
	memset(item, 0, sizeof *item);
	item->tier = tier;
	item->pub.size = (uint32_t)sizeof item->pub;
	item->pub.id = x->items.next++;
	item->pub.trial = item->pub.group = ESPL_NONE;
	item->pub.arrived = x->now;
	item->pub.started = ESPL_NEVER;
	item->pub.granted.packing = 1;
	item->pub.offer = item->pub.gpu = ESPL_ANY;
	return item;
}

static void
fill_limits(const struct espl__search *s, struct espl_item *i, uint32_t gpus_min, uint32_t gpus_max)
{
	const struct espl__trial_config *c = &s->config->trial;
	uint64_t potential = espl__cluster_potential(s->exec);
	uint32_t widest = espl__exec_follows(s->exec, ESPL__RULES_SUPPLY)
	    ? espl__sold_widest(&s->exec->fleet, c, s->inputs->profile)
	    : c->gpus_max;

	/* Without any limit, a trial that scales would be granted every node that can be named. */
	if (potential >= UINT32_MAX / 2 && widest == ESPL_ANY)
		potential = UNLIMITED_GPUS_MAX;
	if (potential > s->config->gpus_limit)
		potential = s->config->gpus_limit;
	i->gpus_min = gpus_min > c->gpus_min && gpus_min <= c->gpus_max ? gpus_min : c->gpus_min;
	i->gpus_max =
	    gpus_max > 0 && gpus_max < widest && gpus_max >= i->gpus_min ? gpus_max : widest;
	if (i->gpus_max > potential)
		i->gpus_max = (uint32_t)potential;
	if (i->gpus_max < i->gpus_min)
		i->gpus_max = i->gpus_min;
	i->unit = 1;
	i->packing_max = c->packing_max;
}

void
espl__item_add(struct espl__item *item)
{
	espl__tier_add(item->tier, item);
	espl__item_changed(item, ESPL_WHY_ARRIVAL);
}

void
espl__item_progress(struct espl__exec *x, struct espl__item *item, uint64_t iteration)
{
	const struct espl__profile *p = item->trial->search->inputs->profile;
	const struct espl_share one = { 1, 1 };
	uint64_t budget = item->trial->pub.budget;

	ESPL__CHECK(x, EXEC);
	item->pub.iterations_left = budget > iteration ? budget - iteration : 0;
	if (item->trial->search->jobs != NULL)
		item->pub.work_s = job_left(item->trial, iteration);
	else if (p != NULL && !p->guessed)
		item->pub.work_s = (double)item->pub.iterations_left *
		    espl__profile_iteration_s(p, one) *
		    (item->trial->expected_s > 0 && item->trial->took_s > 0
			    ? item->trial->took_s / item->trial->expected_s
			    : 1);
	if (item->counted)
		espl__inner_count(item, 1);
	if (item->trial->gang != NULL)
		item->pub.elapsed_s = item->pub.started == ESPL_NEVER
		    ? 0
		    : (double)(x->now - item->pub.started) / 1e9;
}

struct espl__item *
espl__item_new(struct espl__exec *x, struct espl__trial *t, double weight, uint32_t gpus_min,
    uint32_t gpus_max)
{
	const struct espl__search *s = t->search;
	struct espl__item *item = new_record(x, s->tier);
	const struct espl__trial_group *g = espl__group_at(&s->trials, t->pub.group);
	struct espl_item *i = &item->pub;

	item->trial = t;
	i->experiment = s->jobs == NULL ? s->number : ESPL_NONE;
	if (s->jobs == NULL) {
		i->trial = t->pub.id;
		i->group = t->pub.group;
	}
	i->bracket = g->bracket;
	i->stage = g->stage;
	i->weight = s->config->weight * (weight > 0 ? weight : 1.0);
	i->flags = ((g->flags & ESPL_GROUP_OPEN) && !g->will_close ? ESPL_ITEM_OPEN : 0) |
	    (s->config->trial.colocate ? ESPL_ITEM_COLOCATE : 0) |
	    (s->saves ? 0 : ESPL_ITEM_NO_SAVE) | (s->in_place ? ESPL_ITEM_INPLACE : 0);
	i->gpu_memory_bytes = item->view.gpu_memory_bytes = t->gpu_memory;
	fill_limits(s, i, gpus_min, gpus_max);
	fill_model(s, i);
	if (s->jobs != NULL)
		fill_job(t, i);
	espl__item_progress(x, item, espl__trial_restores(t));
	if (s->jobs == NULL)
		i->work_total_s = i->work_s;
	item->view.size = (uint32_t)sizeof item->view;
	item->view.item = i->id;
	item->view.offer = ESPL_ANY;
	item->view.owner = ESPL_NONE;
	item->view.flags =
	    ESPL_GANG_UNPLACED | (s->config->trial.colocate ? ESPL_GANG_COLOCATE : 0);
	item->view.move_s = i->start_s;
	x->items.count++;
	espl__inner_count(item, 1);
	espl__item_add(item);
	return item;
}

struct espl__item *
espl__item_whole(struct espl__search *s, struct espl__inner *inner)
{
	struct espl__item *item = new_record(s->exec, &s->exec->items.top);
	struct espl_item *i = &item->pub;

	ESPL__CHECK(s, SEARCH);
	item->whole = inner;
	i->experiment = s->number;
	i->bracket = i->stage = ESPL_ANY;
	i->packing_max = i->unit = 1;
	i->weight = s->config->weight;
	fill_model(s, i);
	i->scaling = i->packing = NULL;
	i->scaling_count = i->packing_count = 0;
	return item;
}

void
espl__item_redraw(struct espl__item *item, uint64_t iteration)
{
	item->pub.work_s = job_left(item->trial, iteration);
	espl__item_changed(item, 0);
}

void
espl__item_hint(struct espl__item *item, double weight, uint32_t gpus_min, uint32_t gpus_max)
{
	const struct espl__search *s = item->trial->search;
	const struct espl__run_config *c = s->config;
	struct espl_item *i = &item->pub;

	i->weight = c->weight * (weight == 0 ? 1.0 : weight);
	if (gpus_min >= c->trial.gpus_min && gpus_min <= c->trial.gpus_max)
		i->gpus_min = gpus_min;
	if (gpus_max >= i->gpus_min &&
	    gpus_max <= espl__sold_widest(&s->exec->fleet, &c->trial, s->inputs->profile))
		i->gpus_max = gpus_max;
	espl__inner_count(item, 1);
	espl__item_changed(item, ESPL_WHY_HINT);
}

void
espl__item_memory(struct espl__item *item, uint64_t bytes)
{
	item->pub.gpu_memory_bytes = item->view.gpu_memory_bytes = bytes;
	espl__item_changed(item, 0);
}

void
espl__item_resized(struct espl__item *item, double took_s)
{
	item->pub.resize_s = took_s;
}

/* ---- items apart ----------------------------------------------------------------------------- */

/* Items that must stay away from a node, or from all others.
 *
 * What failed on a node is tried again on another one: only then it is known what is at fault. What
 * may have brought down two nodes is tried where it can do no harm: a node that is empty becomes
 * its own (espl_node.owner), until it is gone; several do if none is as wide as it is. */

#define AVOID_MOST (600 * ESPL_SECOND)
#define AVOID_IDLE (60 * ESPL_SECOND) /* where that node is idle, and no other one is */

static int
is_usable(const struct espl_node *n)
{
	return n->state == ESPL_NODE_READY &&
	    (n->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE)) == 0;
}

int
espl__item_may_use(const struct espl__exec *x, const struct espl__item *item, uint32_t offer)
{
	uint32_t its = item->view.offer;

	if (its == ESPL_ANY || its == offer)
		return 1;
	return espl__exec_follows(x, ESPL__RULES_LOSSES) && espl__fleet_leased(&x->fleet, its) == 0;
}

static int
suits_item(const struct espl__exec *x, const struct espl__item *item, const struct espl_node *n)
{
	uint32_t gpus = item->pub.granted.gpus > 0 ? item->pub.granted.gpus : item->pub.gpus_min;

	return is_usable(n) && n->gpu_count >= gpus && espl__item_may_use(x, item, n->offer);
}

/* ---- away from a node --------------------------------------------------------------------- */

static int still_avoids(const struct espl__exec *, const struct espl__item *);

void
espl__item_avoid(struct espl__item *item, uint64_t node, espl_time failed_at)
{
	struct espl__exec *x = item->trial->search->exec;

	ESPL__CHECK(x, EXEC);
	if (node == ESPL_NONE)
		return;
	item->view.avoid = node + 1;
	item->avoid_since = failed_at;
	item->avoid_over = 0;
	item->avoid_until = x->now + AVOID_MOST;
	/* its place is free for another */
	if (item->target_count > 0 && espl__exec_follows(x, ESPL__RULES_ROW) &&
	    still_avoids(x, item)) {
		espl__item_target(x, item, NULL, 0);
		espl__items_freed(x, 1);
	}
	if (item->avoids)
		return;
	item->avoids = 1;
	ESPL__GROW(x->items.avoiding, x->items.avoiding_cap, x->items.avoiding_count + 1);
	x->items.avoiding[x->items.avoiding_count++] = item;
}

int
espl__item_shuns(const struct espl__exec *x, const struct espl__item *item, uint64_t node)
{
	const struct espl__machine *n = espl__machine_at(&x->fleet, node);

	if (!item->avoids || item->view.avoid != node + 1 ||
	    !espl__exec_follows(x, ESPL__RULES_ROW))
		return 0;
	/* several trials failed there, and none has got further since: no place for a second try */
	return x->now < item->avoid_since + AVOID_IDLE || n->failed[1] != ESPL_NONE;
}

void
espl__items_got_further(const struct espl__exec *x, const struct espl__gang *g)
{
	for (uint32_t i = 0; i < x->items.avoiding_count; i++) {
		struct espl__item *item = x->items.avoiding[i];

		if (item->trial->ways->reports + 1 != g->reports)
			continue;
		for (uint32_t k = 0; k < g->share.gpus; k++)
			item->avoid_over |= g->slots[k].node == item->view.avoid - 1;
	}
}

/* Is there another node for it, and has no trial got as far on that one since? */
static int
still_avoids(const struct espl__exec *x, const struct espl__item *item)
{
	const struct espl__machine *n = espl__machine_at(&x->fleet, item->view.avoid - 1);

	if (x->now >= item->avoid_until || n == NULL || !n->live ||
	    (espl__exec_follows(x, ESPL__RULES_ROW) ? item->avoid_over
						    : n->worked_at > item->avoid_since))
		return 0;
	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->id != item->view.avoid - 1 &&
		    suits_item(x, item, x->fleet.live[i]) &&
		    x->fleet.live[i]->owner == item->view.owner)
			return 1;
	return 0;
}

static void
stop_avoiding(struct espl__exec *x, struct espl__item *item)
{
	item->avoids = 0;
	item->view.avoid = 0;
	if (item->pub.granted.gpus == 0 || item->target_count > 0)
		return;
	espl__item_look(x, item);
	espl__items_ask_placer(x, ESPL_WHY_NODES);
}

/* One that has its place has no need to avoid any other. */
static void
look_at_avoiding(struct espl__exec *x)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < x->items.avoiding_count; i++) {
		struct espl__item *item = x->items.avoiding[i];

		if (item->target_count == 0 && still_avoids(x, item))
			x->items.avoiding[left++] = item;
		else
			stop_avoiding(x, item);
	}
	x->items.avoiding_count = left;
}

/* ---- alone -------------------------------------------------------------------------------- */

void
espl__item_apart(struct espl__item *item)
{
	struct espl__exec *x = item->trial->search->exec;

	ESPL__CHECK(x, EXEC);
	/* with a plan, the nodes have owners already */
	if (item->apart || item->view.owner != ESPL_NONE)
		return;
	item->apart = 1;
	item->view.owner = item->pub.id;
	ESPL__GROW(x->items.apart, x->items.apart_cap, x->items.apart_count + 1);
	x->items.apart[x->items.apart_count++] = item;
	espl__item_look(x, item);
}

/* The node to become its own next: an empty one that has room for its whole grant.  Where no
 * machine is that wide, busy ones included, it gets several: the widest of those that are empty.
 * NULL: none. */
static struct espl__machine *
find_empty_node(const struct espl__exec *x, const struct espl__item *item)
{
	struct espl__machine *widest = NULL;
	int suits = !espl__exec_follows(x, ESPL__RULES_LOSSES);

	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		int empty = n->pub.owner == ESPL_NONE && n->occupants == 0;

		if (suits_item(x, item, &n->pub) && empty)
			return n;
		suits |= suits_item(x, item, &n->pub);
		if (empty && is_usable(&n->pub) && espl__item_may_use(x, item, n->pub.offer) &&
		    (widest == NULL || n->pub.gpu_count > widest->pub.gpu_count))
			widest = n;
	}
	return suits ? NULL : widest;
}

/* GPUs of the nodes that are its own. */
static uint32_t
count_own(const struct espl__exec *x, const struct espl__item *item)
{
	uint32_t gpus = 0;

	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		const struct espl_node *n = x->fleet.live[i];

		if (n->owner == item->pub.id && is_usable(n) &&
		    espl__item_may_use(x, item, n->offer))
			gpus += n->gpu_count;
	}
	return gpus;
}

static void
free_own_nodes(struct espl__exec *x, uint64_t id)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		if (n->pub.owner != id)
			continue;
		n->pub.owner = ESPL_NONE;
		espl__items_freed(x, 1);
	}
}

static void
look_at_apart(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->items.apart_count; i++) {
		struct espl__item *item = x->items.apart[i];
		struct espl__machine *n;

		if (item->target_count > 0)
			continue;
		if (item->pub.granted.gpus == 0) { /* others may use them meanwhile */
			if (espl__exec_follows(x, ESPL__RULES_LOSSES))
				free_own_nodes(x, item->pub.id);
			continue;
		}
		while (count_own(x, item) < item->pub.granted.gpus) {
			n = find_empty_node(x, item);
			if (n == NULL)
				break;
			n->pub.owner = n->suspect = item->pub.id;
			espl__item_look(x, item);
			espl__items_ask_placer(x, ESPL_WHY_NODES);
		}
	}
}

static void
join_others(struct espl__exec *x, struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	if (item->avoids)
		espl__list_remove(x->items.avoiding, &x->items.avoiding_count, item);
	if (item->apart) {
		espl__list_remove(x->items.apart, &x->items.apart_count, item);
		free_own_nodes(x, item->pub.id);
	}
	item->avoids = item->apart = 0;
}

void
espl__items_part(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (x->items.avoiding_count > 0)
		look_at_avoiding(x);
	if (x->items.apart_count > 0)
		look_at_apart(x);
}

espl_time
espl__items_part_at(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->items.avoiding_count; i++) {
		const struct espl__item *item = x->items.avoiding[i];
		espl_time idle = item->avoid_since + AVOID_IDLE;

		if (item->avoid_until < at)
			at = item->avoid_until;
		if (idle > x->now && idle < at && espl__exec_follows(x, ESPL__RULES_ROW))
			at = idle;
	}
	return at;
}

/* ---- grants and placements ------------------------------------------------------------------- */

void
espl__items_init(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->items.top.wake_at = ESPL_NEVER;
	x->items.standing.act_at = ESPL_NEVER;
	espl__pool_init(&x->items.pool, sizeof(struct espl__item));
}

espl_status
espl__items_open(struct espl__exec *x, struct espl__diag *diag)
{
	const struct espl__run_config *c = x->config;
	espl_status status = espl__instance_create(ESPL_ALLOCATOR, c->allocator.use,
	    c->allocator.group, &x->env, &x->items.top.allocator, diag);

	ESPL__CHECK(x, EXEC);
	if (status == ESPL_OK) {
		espl__tier_limit(&x->items.top);
		status = espl__instance_create(ESPL_PLACER, c->placer.use, c->placer.group, &x->env,
		    &x->items.placer, diag);
	}
	return status;
}

void
espl__items_free(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint64_t i = 0; i < x->items.pool.count; i++) {
		struct espl__item *item = espl__pool_at(&x->items.pool, i);
		free(item->target);
		free(item->nodes);
	}
	espl__pool_free(&x->items.pool);
	free(x->items.granted);
	free(x->items.spare);
	free(x->items.gangs_view);
	free(x->items.place_list);
	free(x->items.place_view);
	free(x->items.pending);
	free(x->items.avoiding);
	free(x->items.apart);
}

/* ---- grants and places -------------------------------------------------------------------- */

static void
list_nodes(struct espl__item *item)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < item->target_count; i++) {
		if (n > 0 && item->nodes[n - 1] == item->target[i].node)
			continue;
		ESPL__GROW(item->nodes, item->node_cap, n + 1);
		item->nodes[n++] = item->target[i].node;
	}
	item->pub.nodes = item->nodes;
	item->pub.node_count = n;
	item->pub.gpu = item->target_count == 1 ? item->target[0].gpu : ESPL_ANY;
}

/* A trial that waits or is paused holds no GPU, and there may be a hundred thousand of them. */
static void
free_target(struct espl__item *item)
{
	free(item->target);
	free(item->nodes);
	item->target = NULL;
	item->nodes = NULL;
	item->target_cap = item->node_cap = 0;
}

void
espl__item_target(struct espl__exec *x, struct espl__item *item, const struct espl_slot *slots,
    uint32_t count)
{
	int was_unplaced = item->pub.granted.gpus > 0 && item->target_count == 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < item->target_count; i++)
		espl__gpu_vacate(&x->fleet, &item->target[i], item->trial, 0, 1);
	if (item->target_count > 0)
		x->items.slots_freed = 1;
	ESPL__GROW(item->target, item->target_cap, count);
	if (count > 0)
		memcpy(item->target, slots, count * sizeof *slots);
	else
		free_target(item);
	item->target_count = count;
	for (uint32_t i = 0; i < count; i++)
		espl__gpu_occupy(&x->fleet, &item->target[i], item->trial, 0, 1);
	list_nodes(item);
	item->view.slots = item->target;
	item->view.slot_count = count;
	if (count == 0)
		item->view.flags |= ESPL_GANG_UNPLACED;
	else
		item->view.flags &= ~(ESPL_GANG_UNPLACED | ESPL_GANG_MUST);
	if (item->pub.granted.gpus > 0) {
		x->items.unplaced += count == 0;
		x->items.unplaced -= (uint32_t)was_unplaced;
		if (count == 0)
			espl__item_look(x, item);
	}
	espl__item_pending(x, item);
}

void
espl__item_grant(struct espl__exec *x, struct espl__item *item, struct espl_share share,
    uint32_t offer)
{
	int had = item->pub.granted.gpus > 0;

	ESPL__CHECK(x, EXEC);
	item->pub.offer = offer;
	item->view.offer = offer;
	if (share.gpus == item->pub.granted.gpus && share.packing == item->pub.granted.packing)
		return;
	espl__tier_count(item->tier, item->pub.granted, -1);
	espl__tier_count(item->tier, share, 1);
	if (item->trial == NULL) {
		item->pub.granted = share;
		espl__inner_granted(item);
		return;
	}
	x->items.granted[item->trial->search->number] += (double)share.gpus / share.packing -
	    (double)item->pub.granted.gpus / item->pub.granted.packing;
	if (had && item->target_count == 0)
		x->items.unplaced--;
	item->pub.granted = share;
	item->view.share = share;
	if (share.gpus > 0 && item->target_count == 0)
		x->items.unplaced++;
	if (share.gpus == 0) {
		espl__item_target(x, item, NULL, 0);
		espl__items_ungranted(x, item);
	} else {
		espl__items_granted(x, item);
		espl__item_look(x, item);
	}
	x->items.place_why |= ESPL_WHY_ARRIVAL;
}

int
espl__item_slots_span(const struct espl_slot *slots, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (slots[i].node != slots[0].node)
			return 1;
	return 0;
}

int
espl__item_runs_on_several(const struct espl__item *item)
{
	const struct espl__gang *g = item->trial->gang;

	return g != NULL && g->state == ESPL__GANG_RUNNING &&
	    espl__item_slots_span(g->slots, g->share.gpus);
}

/* What it gets of a grant on nodes of this offer (ESPL_ANY: any): where machines cannot reach each
 * other, no more than one has.  0: they are too small for it. */
static uint32_t
width_within(const struct espl__exec *x, const struct espl__item *item, uint32_t offer,
    uint32_t gpus)
{
	uint32_t node;

	if (!x->fleet.no_route || item->trial == NULL || offer >= x->fleet.offer_count)
		return gpus;
	node = x->fleet.offers[offer]->gpus;
	if (gpus <= node || (espl__item_runs_on_several(item) && gpus == item->pub.granted.gpus))
		return gpus;
	node -= node % item->pub.unit;
	return node >= item->pub.gpus_min ? node : 0;
}

void
espl__item_take(struct espl__exec *x, struct espl__item *item, const struct espl_grant *g)
{
	struct espl_share share = g->share;

	share.gpus = width_within(x, item, g->offer, share.gpus);
	if (share.gpus > 0 && item->pub.granted.gpus == 0)
		item->tier->helped = 0;
	item->view.owner = (g->flags & ESPL_GRANT_BRACKET) != 0
	    ? ESPL_OWNER_BRACKET | item->pub.bracket
	    : item->apart ? item->pub.id
			  : ESPL_NONE;
	espl__item_grant(x, item, share, g->offer);
	if ((g->flags & ESPL_GRANT_YIELD) != 0 && share.gpus > 0) {
		item->view.flags |= ESPL_GANG_YIELDS;
		espl__item_look(x, item);
		x->items.place_why |= ESPL_WHY_ARRIVAL;
	}
}

void
espl__item_keep(struct espl__exec *x, struct espl__item *item, const struct espl__gang *g,
    uint64_t owner)
{
	item->view.owner = owner;
	espl__item_grant(x, item, g->share, ESPL_ANY);
	espl__item_target(x, item, g->slots, g->share.gpus);
	espl__item_runs(x, item);
	espl__item_progress(x, item, g->iteration);
}

void
espl__item_narrow(struct espl__exec *x, struct espl__item *item, uint32_t gpus)
{
	item->pub.gpus_max = gpus;
	espl__inner_count(item, 1);
	espl__item_grant(x, item, (struct espl_share){ gpus, 1 }, item->pub.offer);
	espl__item_changed(item, ESPL_WHY_NODES);
	item->tier->wake_at = x->now;
}

/* ---- what becomes of it ------------------------------------------------------------------- */

void
espl__item_runs(const struct espl__exec *x, struct espl__item *item)
{
	if (item->pub.started == ESPL_NEVER)
		item->pub.started = x->now;
	item->pub.flags = (item->pub.flags | ESPL_ITEM_RUNNING) & ~ESPL_ITEM_EVICTED;
}

/* Allocators do not touch items that are changing. If GPUs are left they are asked again now;
 * where all GPUs are granted, that would only cost time. */
void
espl__item_settled(struct espl__exec *x, struct espl__item *item)
{
	const struct espl_share *has = &item->pub.granted;
	int more = has->packing > 1 || has->gpus < item->pub.gpus_max;
	uint64_t gpus =
	    item->tier->inner != NULL ? espl__inner_share(item->tier->inner) : x->fleet.gpus;
	uint64_t used = espl__tier_gpus(item->tier);

	ESPL__CHECK(x, EXEC);
	item->pub.flags &= ~ESPL_ITEM_CHANGING;
	item->view.flags &= ~ESPL_GANG_LOCKED;
	espl__item_changed(item,
	    (more && used < gpus) || (item->tier->inner != NULL && used > gpus) ? ESPL_WHY_SETTLED
										: 0);
}

void
espl__item_wait(struct espl__exec *x, struct espl__item *item, uint32_t why)
{
	ESPL__CHECK(x, EXEC);
	item->pub.flags &= ~(ESPL_ITEM_RUNNING | ESPL_ITEM_CHANGING);
	item->view.flags &= ~ESPL_GANG_LOCKED;
	espl__item_progress(x, item, espl__trial_restores(item->trial));
	espl__item_changed(item, why);
	if (item->target_count > 0)
		espl__item_pending(x, item);
}

void
espl__item_free(struct espl__exec *x, struct espl__item *item, int gone)
{
	const struct espl_share nothing = { 0, 1 };

	ESPL__CHECK(x, EXEC);
	espl__item_grant(x, item, nothing, ESPL_ANY);
	if (item->trial != NULL)
		x->items.count--;
	join_others(x, item);
	espl__inner_count(item, 0);
	espl__tier_remove(item->tier, item);
	if (item->place_changed)
		espl__list_remove(x->items.place_list, &x->items.place_count, item);
	if (item->pending)
		espl__list_remove(x->items.pending, &x->items.pending_count, item);
	if (gone)
		espl__item_gone(item->tier, item->pub.id, item->trial);
	ESPL__ASSERT(item->target == NULL && item->nodes == NULL);
	ESPL__GROW(x->items.spare, x->items.spare_cap, x->items.spare_count + 1);
	x->items.spare[x->items.spare_count++] = item;
}
