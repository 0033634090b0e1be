/* pool_sim.c - see pool_sim.h. */
#include "pool_sim.h"
#include <espalier/util.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "testkit.h"

#define FAR 1e300

/* a job that is here */
struct one {
	struct espl_item item;
	const struct espl__job *job;
	struct pool_fate *fate;
	uint32_t index, held;   /* of the workload; nodes in force */
	uint32_t next, changed; /* nodes as answered by the running call */
	double left, served;    /* of what it will really do */
	double speed, then;     /* now, and from `grows` on */
	double grows, trained;  /* instant, or FAR; seconds on nodes */
	double ends;            /* instant, if nothing changes */
};
struct world {
	const struct pool_sim *sim;
	struct pool_sums *sums;
	struct pool_fate *fates;
	struct espl_kit *kit;
	const struct espl_allocator_ops *ops;
	void *self;
	struct one **here; /* by (arrived, id) */
	const struct espl_item **items, **changed;
	const struct espl_node **nodes;
	struct espl_node node;
	struct espl_offer *offers[1];
	uint32_t targets[1];
	uint64_t *gone;
	uint32_t count, gone_count, arrived, why;
	double now, last, wake, busy;
	double *starved; /* [job]: waited while jobs did not outnumber nodes */
};
struct sink {
	struct espl_alloc_sink pub;
	struct world *world;
};

static void ESPL_PRINTF(2, 3) wrong(struct world *w, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	if (w->sums->wrong++ == 0)
		(void)vsnprintf(w->sums->why, sizeof w->sums->why, format, list);
	va_end(list);
}

/* ---- jobs --------------------------------------------------------------------------------- */

static double
speed(const struct world *w, const struct one *o, uint32_t nodes)
{
	return espl__job_speed(o->job, nodes, w->sim->doubling);
}

/* When it ends, if nothing changes: the first whole second at which it is. */
static void
foresee(struct one *o, double now)
{
	double at = now, left = o->left, before;

	o->ends = FAR;
	if (o->grows < FAR) {
		before = (o->grows - now) * o->speed;
		if (before >= left)
			at = now + left / o->speed;
		else if (o->then > 0)
			at = o->grows + (left - before) / o->then;
		o->ends = at;
	} else if (o->speed > 0) {
		o->ends = now + left / o->speed;
	}
	if (o->job->fate == ESPL__FATE_BUG && o->held > 0) {
		at = now + o->job->fate_at_s - o->trained;
		o->ends = at < o->ends ? at : o->ends;
	}
	o->ends = ceil(o->ends - 1e-6);
}

static void
serve(struct one *o, double from, double to)
{
	double before = o->grows < to ? (o->grows > from ? o->grows : from) : to;
	double done = (before - from) * o->speed + (to - before) * o->then;

	o->served += done;
	o->left -= done;
	if (o->held > 0)
		o->trained += to - from;
	if (o->grows <= to) {
		o->speed = o->then;
		o->grows = FAR;
	}
	o->fate->node_s += (to - from) * o->held;
}

static void
arrive(struct world *w)
{
	const struct espl__job *job = &w->sim->workload->jobs[w->arrived];
	struct one *o = calloc(1, sizeof *o);
	double eta = w->sim->workload->redraw > 0 ? job->work_s : job->eta_s;

	o->job = job;
	o->index = w->arrived++;
	o->fate = &w->fates[o->index];
	*o->fate = (struct pool_fate){ .arrived = job->arrives_s, .started = FAR, .ended = FAR };
	o->left = job->fate == ESPL__FATE_TERMINATED ? job->fate_at_s : job->work_s;
	o->grows = FAR;
	o->item.size = (uint32_t)sizeof o->item;
	o->item.id = o->index;
	o->item.experiment = o->item.trial = o->item.group = ESPL_NONE;
	o->item.bracket = o->item.stage = ESPL_ANY;
	o->item.arrived = (espl_time)(w->now * 1e9);
	o->item.started = ESPL_NEVER;
	o->item.work_total_s = eta;
	o->item.gpus_min = job->nodes_min;
	o->item.gpus_max = job->nodes_max;
	o->item.unit = o->item.packing_max = 1;
	o->item.scaling = job->scaling;
	o->item.scaling_count = job->scaling_count;
	o->item.granted.packing = 1;
	o->item.offer = o->item.gpu = ESPL_ANY;
	o->item.weight = job->weight;
	o->item.resize_s = o->item.start_s = w->sim->delay_s;
	o->item.boundary_s = 0;
	o->item.flags = ESPL_ITEM_INPLACE;
	o->changed = 1;
	foresee(o, w->now);
	w->here[w->count++] = o;
	w->why |= ESPL_WHY_ARRIVAL;
}

static void
depart(struct world *w, uint32_t i)
{
	struct one *o = w->here[i];

	o->fate->ended = w->now;
	/* What it did in the second in which it ended may be more than was left, but not by more
	 * than that. */
	if (o->job->fate != ESPL__FATE_BUG &&
	    (o->left > 1e-6 * o->job->work_s || o->left < -o->speed - 1e-6 * o->job->work_s))
		wrong(w, "%s ended with %g s of work left", o->job->name, o->left);
	w->gone[w->gone_count++] = o->index;
	memmove(w->here + i, w->here + i + 1, (w->count - i - 1) * sizeof *w->here);
	w->count--;
	w->why |= ESPL_WHY_DEPARTURE;
	free(o);
}

/* ---- the allocator ------------------------------------------------------------------------ */

static struct world *
world_of(struct espl_alloc_sink *sink)
{
	return ((struct sink *)(void *)sink)->world;
}

static struct one *
find(struct world *w, uint64_t id)
{
	uint32_t low = 0, high = w->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (w->here[middle]->item.id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < w->count && w->here[low]->item.id == id ? w->here[low] : NULL;
}

static espl_status
sink_grant(struct espl_alloc_sink *sink, const struct espl_grant *grant)
{
	struct world *w = world_of(sink);
	struct one *o = find(w, grant->item);
	uint32_t g = grant->share.gpus;

	if (o == NULL || grant->share.packing != 1 ||
	    (g > 0 && (g < o->item.gpus_min || g > o->item.gpus_max))) {
		wrong(w, "%u nodes for item %u were refused", g, (unsigned)grant->item);
		return ESPL_E_REJECTED;
	}
	o->next = g;
	return ESPL_OK;
}

static espl_status
sink_target(struct espl_alloc_sink *sink, const struct espl_target *target)
{
	if (target->nodes > world_of(sink)->sim->nodes)
		wrong(world_of(sink), "a target of %u nodes", target->nodes);
	world_of(sink)->targets[0] = target->nodes;
	return ESPL_OK;
}

static espl_status
sink_retire(struct espl_alloc_sink *sink, uint64_t node)
{
	(void)sink, (void)node;
	return ESPL_OK;
}

static espl_status
sink_plan(struct espl_alloc_sink *sink, uint64_t experiment, const struct espl_plan *plan)
{
	(void)sink, (void)experiment, (void)plan;
	return ESPL_E_REJECTED;
}

static espl_status
sink_wake(struct espl_alloc_sink *sink, espl_time at)
{
	struct world *w = world_of(sink);

	if (espl_seconds(at) < w->wake)
		w->wake = espl_seconds(at);
	return ESPL_OK;
}

static espl_status
sink_watch(struct espl_alloc_sink *sink, uint32_t offer, uint32_t on)
{
	(void)sink, (void)offer, (void)on;
	return ESPL_OK;
}

static espl_status
sink_objective(struct espl_alloc_sink *sink, double value, double bound, const char *status)
{
	if (!isnan(bound) && value > bound * (1 + 1e-9) + 1e-9)
		wrong(world_of(sink), "an objective of %g above its bound %g (%s)", value, bound,
		    status);
	return ESPL_OK;
}

static espl_status
sink_horizon(struct espl_alloc_sink *sink, uint64_t item, const uint32_t *gpus, uint32_t steps)
{
	(void)sink, (void)item, (void)gpus, (void)steps;
	return ESPL_OK;
}

/* The item as it is told now. */
static void
tell(const struct world *w, struct one *o)
{
	uint64_t draw =
	    w->sim->redraw_s > 0 ? (uint64_t)(w->now / w->sim->redraw_s) : w->sums->decisions;

	o->item.work_s = espl__workload_left(w->sim->workload, o->index, o->served, draw);
	o->item.elapsed_s = o->trained;
	o->item.granted.gpus = o->held;
	o->item.flags = ESPL_ITEM_INPLACE | (o->held > 0 ? ESPL_ITEM_RUNNING : 0);
	o->next = o->held;
}

/* What was answered comes into force. */
static void
take(struct world *w)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < w->count; i++)
		sum += w->here[i]->next;
	if (sum > w->sim->nodes)
		wrong(w, "%u nodes granted of %u at %g s", (unsigned)sum, w->sim->nodes, w->now);
	for (i = 0; i < w->count; i++) {
		struct one *o = w->here[i];
		double was = o->speed;

		o->changed = 0;
		if (o->next == o->held)
			continue;
		if (o->held > 0) {
			w->sums->resizes++;
			o->fate->resizes++;
		}
		if (o->item.started == ESPL_NEVER) {
			o->item.started = (espl_time)(w->now * 1e9);
			o->fate->started = w->now;
		}
		o->held = o->next;
		o->fate->most = o->held > o->fate->most ? o->held : o->fate->most;
		o->then = speed(w, o, o->held);
		o->changed = 1;
		o->grows = FAR;
		if (o->then > was && w->sim->delay_s > 0)
			o->grows = w->now + w->sim->delay_s;
		else
			o->speed = o->then;
		foresee(o, w->now);
	}
}

static espl_status
allocate(struct world *w)
{
	struct sink sink = { .pub = { .size = (uint32_t)sizeof sink.pub,
				 .grant = sink_grant,
				 .target = sink_target,
				 .retire = sink_retire,
				 .plan = sink_plan,
				 .wake_at = sink_wake,
				 .watch_prices = sink_watch,
				 .objective = sink_objective,
				 .horizon = sink_horizon },
		.world = w };
	struct espl_alloc_view view = ESPL_INIT(struct espl_alloc_view);
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct timespec from, to;
	espl_status status;
	uint32_t used = 0, i;
	double ms;

	for (i = 0; i < w->count; i++) {
		struct one *o = w->here[i];

		tell(w, o);
		used += o->held;
		w->items[i] = &o->item;
		if (o->changed)
			w->changed[view.changed_count++] = &o->item;
	}
	view.why = w->why;
	view.now = (espl_time)(w->now * 1e9);
	view.items = w->items;
	view.changed = w->changed;
	view.offers = (const struct espl_offer *const *)w->offers;
	view.nodes = w->nodes;
	view.targets = w->targets;
	view.item_count = w->count;
	view.offer_count = 1;
	view.node_count = view.gpus = w->sim->nodes;
	view.gpus_idle = w->sim->nodes - used;
	view.gpus_granted = used;
	view.gone = w->gone;
	view.gone_count = w->gone_count;
	w->wake = FAR;
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	status = w->ops->allocate(w->self, &view, &sink.pub, &error);
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	ms = 1e3 * (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
	w->sums->decisions++;
	w->sums->decide_ms += ms;
	w->sums->decide_max_ms = ms > w->sums->decide_max_ms ? ms : w->sums->decide_max_ms;
	w->why = w->gone_count = 0;
	if (status != ESPL_OK)
		wrong(w, "allocate: %s", error.text);
	else
		take(w);
	return status;
}

/* ---- time --------------------------------------------------------------------------------- */

/* Seconds in which somebody waits although there is a node for everybody. */
static void
count_waits(struct world *w, double from, double to)
{
	uint32_t i;

	for (i = 0; i < w->count; i++) {
		w->busy += (to - from) * w->here[i]->held;
		if (w->here[i]->held == 0 && w->count <= w->sim->nodes)
			w->starved[w->here[i]->index] += to - from;
	}
}

static double
next_instant(const struct world *w)
{
	const struct espl__workload *load = w->sim->workload;
	double next = w->wake < FAR ? ceil(w->wake - 1e-6) : FAR;
	uint32_t i;

	if (w->arrived < load->count && ceil(load->jobs[w->arrived].arrives_s - 1e-6) < next)
		next = ceil(load->jobs[w->arrived].arrives_s - 1e-6);
	for (i = 0; i < w->count; i++)
		next = w->here[i]->ends < next ? w->here[i]->ends : next;
	return next > w->now ? next : w->now;
}

static espl_status
run(struct world *w)
{
	const struct espl__workload *load = w->sim->workload;
	espl_status status = ESPL_OK;
	uint32_t i;

	while ((w->arrived < load->count || w->count > 0) && status == ESPL_OK) {
		double next = next_instant(w);

		if (next >= FAR / 2) {
			wrong(w, "%u jobs wait for ever at %g s", w->count, w->now);
			return ESPL_E_INFEASIBLE;
		}
		count_waits(w, w->now, next);
		for (i = 0; i < w->count; i++)
			serve(w->here[i], w->now, next);
		w->now = next;
		for (i = w->count; i-- > 0;)
			if (w->here[i]->ends <= w->now)
				depart(w, i);
		while (
		    w->arrived < load->count && load->jobs[w->arrived].arrives_s <= w->now + 1e-6)
			arrive(w);
		if (w->wake <= w->now)
			w->why |= ESPL_WHY_TIME;
		if (w->why != 0)
			status = allocate(w);
	}
	return status;
}

/* ---- sums --------------------------------------------------------------------------------- */

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
quantile(double *values, uint32_t count, double at)
{
	uint32_t i = (uint32_t)(at * count);

	qsort(values, count, sizeof *values, by_size);
	return values[i < count ? i : count - 1];
}

static void
sum_up(struct world *w)
{
	const struct espl__workload *load = w->sim->workload;
	struct pool_sums *s = w->sums;
	double *total = calloc(3 * (size_t)load->count, sizeof *total),
	       *queue = total + load->count;
	double *slow = queue + load->count;
	uint32_t i, longest = 0;

	s->jobs = load->count;
	for (i = 0; i < load->count; i++) {
		const struct pool_fate *f = &w->fates[i];
		const struct espl__job *job = &load->jobs[i];

		total[i] = f->ended - f->arrived;
		queue[i] = (f->started < FAR ? f->started : f->ended) - ceil(f->arrived - 1e-6);
		slow[i] = total[i] /
		    (job->work_s / espl__job_speed(job, job->nodes_max, w->sim->doubling));
		s->total_s += total[i] / load->count;
		s->queue_s += queue[i] / load->count;
		s->makespan_s = f->ended > s->makespan_s ? f->ended : s->makespan_s;
		s->crowded_s = w->starved[i] > s->crowded_s ? w->starved[i] : s->crowded_s;
		longest = job->work_s > load->jobs[longest].work_s ? i : longest;
	}
	s->longest_s = total[longest];
	s->total_p95 = quantile(total, load->count, 0.95);
	s->queue_p95 = quantile(queue, load->count, 0.95);
	s->queue_max = queue[load->count - 1];
	s->slowdown_p99 = quantile(slow, load->count, 0.99);
	s->busy = w->busy / (s->makespan_s * w->sim->nodes);
	s->decide_ms /= s->decisions > 0 ? s->decisions : 1;
	free(total);
}

static espl_status
set_up(struct world *w)
{
	const struct pool_sim *sim = w->sim;
	struct espl_error error = ESPL_INIT(struct espl_error);
	uint32_t i, count = sim->workload->count;

	w->kit = espl_kit_new(1);
	(void)espl_kit_offer(w->kit, "node", 1, sim->nodes, 1.0);
	w->offers[0] = espl_kit_offer_at(w->kit, 0);
	if (espl_kit_open(w->kit, sim->plugin, sim->options, &error) != ESPL_OK) {
		wrong(w, "options '%s': %s", sim->options, error.text);
		return ESPL_E_CONFIG;
	}
	w->self = espl_kit_self(w->kit);
	w->ops = (const struct espl_allocator_ops *)(const void *)sim->plugin->ops;
	w->here = calloc(count + 1u, sizeof *w->here);
	w->items = calloc(count + 1u, sizeof *w->items);
	w->changed = calloc(count + 1u, sizeof *w->changed);
	w->gone = calloc(count + 1u, sizeof *w->gone);
	w->starved = calloc(count + 1u, sizeof *w->starved);
	w->nodes = calloc(sim->nodes + 1u, sizeof *w->nodes);
	w->node.size = (uint32_t)sizeof w->node;
	w->node.state = ESPL_NODE_READY;
	w->node.gpu_count = 1;
	w->node.owner = ESPL_NONE;
	w->node.ends_at = ESPL_NEVER;
	for (i = 0; i < sim->nodes; i++)
		w->nodes[i] = &w->node;
	w->wake = FAR;
	return ESPL_OK;
}

espl_status
pool_sim_run(const struct pool_sim *sim, struct pool_sums *sums, struct pool_fate *fates)
{
	struct world w = { .sim = sim, .sums = sums };
	espl_status status;
	uint32_t i;

	memset(sums, 0, sizeof *sums);
	w.fates = fates != NULL ? fates : calloc(sim->workload->count + 1u, sizeof *fates);
	status = set_up(&w);
	if (status == ESPL_OK)
		status = run(&w);
	if (status == ESPL_OK)
		sum_up(&w);
	for (i = 0; i < w.count; i++)
		free(w.here[i]);
	espl_kit_free(w.kit);
	free(w.here);
	free(w.items);
	free(w.changed);
	free(w.gone);
	free(w.starved);
	free(w.nodes);
	if (fates == NULL)
		free(w.fates);
	return status;
}
