/* items_new.c - what an item is made of, and shows its allocator: limits, work, progress. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/items_inner.h"
#include "exec/items_lists.h"
#include "exec/items_new.h"

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
