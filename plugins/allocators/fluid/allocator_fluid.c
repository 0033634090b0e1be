/* allocator_fluid.c - Fluid (MLSys'21): trials share GPUs or spread over several, by what they have
 * left.
 *
 * The trials of one round are planned together; a trial that does not fit waits in that order. When
 * no trial waits, GPUs that become free go to running trials.  mode = "paper" follows the paper's
 * two algorithms, "improved" begins with the first and then makes all end at the same time
 * (fluid_balance.c).  A call costs O(trials on GPUs), however many wait.
 */
#include <math.h>
#include <stdlib.h>

#include "fluid.h"
#include "../pool.h"

enum { GPUS, OFFER, MODE, RESIZE, PROBE, BENEFIT, GAIN, DEGREE };

static const struct espl_option options[] = {
	POOL_OPTIONS("trials"),
	{ .name = "mode",
	    .help = "improved: let all trials of a group end together; paper: StaticFluid and "
		    "DynamicFluid as published",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "improved|paper",
	    .fallback = "improved" },
	{ .name = "resize",
	    .help = "change the shares of running trials when GPUs become free; false: keep the "
		    "initial shares",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true" },
	{ .name = "probe",
	    .help = "if the profile has no table, test with one trial at a time whether sharing "
		    "and scaling help",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true" },
	{ .name = "benefit",
	    .help = "minimum fraction of its GPU time that sharing with one more trial must save",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.1",
	    .min = "0",
	    .max = "1" },
	{ .name = "gain",
	    .help = "minimum fraction of a trial's time that one more GPU must save",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1" },
	{ .name = "degree",
	    .help = "limit of the GPUs per trial: from the measured table, or the paper's d < 1 / "
		    "(beta - 1)",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "table|paper",
	    .fallback = "table" },
};

static void
destroy(void *self)
{
	struct fluid *fluid = self;
	uint32_t i;

	ESPL_ASSERT(fluid != NULL && fluid->magic == FLUID_MAGIC);
	fluid->magic = 0;
	for (i = 0; i < fluid->curve_room; i++) {
		free(fluid->curves[i]->whole);
		free(fluid->curves[i]);
	}
	free(fluid->curves);
	free(fluid->runners);
	free(fluid->queue);
	allocator_fluid_pool_free(&fluid->pool);
	espl_roster_free(&fluid->roster);
	free(fluid);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct fluid *fluid = calloc(1, sizeof *fluid);

	if (fluid == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	fluid->magic = FLUID_MAGIC;
	fluid->host = host;
	fluid->model = host->service(host, ESPL_MODEL);
	fluid->gpus_max = (uint32_t)config->values[GPUS].as.i;
	if (config->values[OFFER].source != ESPL_UNSET)
		fluid->offer_name = config->values[OFFER].as.s;
	fluid->paper = config->values[MODE].as.i == 1;
	fluid->resize = config->values[RESIZE].as.i != 0;
	fluid->probing = config->values[PROBE].as.i != 0;
	fluid->rules.benefit = config->values[BENEFIT].as.r;
	fluid->rules.gain = config->values[GAIN].as.r;
	fluid->rules.by_beta = config->values[DEGREE].as.i == 1;
	fluid->offer = ESPL_ANY;
	fluid->probe.trial = ESPL_NONE;
	fluid->typical_s = NAN;
	*self = fluid;
	return ESPL_OK;
}

/* ---- the cluster ------------------------------------------------------------------------- */

/* GPUs there are, and that are expected; all that is aimed at before there are any.  More than
 * anybody can use counts, too: shares are parts of it. */
static uint32_t
count_present_gpus(const struct espl_alloc_view *view, uint64_t aimed, uint64_t limit)
{
	uint64_t gpus = pool_present(view);

	if (gpus == 0)
		gpus = aimed;
	gpus = gpus < limit ? gpus : limit;
	return gpus < UINT32_MAX ? (uint32_t)gpus : UINT32_MAX - 1;
}

/* ---- the answer -------------------------------------------------------------------------- */

/* The differences, wider and longer trials first: a placer may fill GPUs in this order. */
static espl_status
grant_all(struct fluid *fluid, const struct espl_alloc_view *view, struct espl_alloc_sink *sink)
{
	struct fluid_pool *pool = &fluid->pool;
	espl_status status = ESPL_OK;
	uint32_t i, n = 0;

	/* The pool holds the runners, in their order. */
	ESPL_ASSERT(pool->count == fluid->runner_count);
	for (i = 0; i < pool->count; i++) {
		const struct fluid_trial *t = &pool->trials[i];

		if (t->gpus != t->had_gpus || t->packing != t->had_packing || t->yields)
			pool->order[n++] = i;
		if (i < fluid->runner_count && t->end < 1e9) {
			fluid->runners[i].since = view->now;
			fluid->runners[i].ends = view->now + (espl_time)(t->end * 1e9);
		}
	}
	allocator_fluid_sort(pool, pool->order, n, 1);
	for (i = 0; i < n && status != ESPL_E_NOMEM; i++) {
		const struct fluid_trial *t = &pool->trials[pool->order[i]];

		status = espl_roster_grant_as(&fluid->roster, sink, t->index, t->gpus, t->packing,
		    t->yields && t->had_gpus > 0 ? ESPL_GRANT_YIELD : 0);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

/* One trial twice as wide as was measured, on GPUs that are idle. */
static void
try_wider(struct fluid *fluid)
{
	struct fluid_pool *pool = &fluid->pool;
	struct fluid_trial *best = NULL;
	uint32_t i, wide = fluid->probe.try_wide;

	for (i = 0; i < pool->count; i++) {
		struct fluid_trial *t = &pool->trials[i];

		if (t->id == fluid->probe.trial && t->packing == 1 && t->gpus == wide)
			return; /* it is under way */
		if (t->item->scaling_count == 0 && !t->fixed && t->packing == 1 && t->gpus < wide &&
		    t->gpus > 0 && pool->idle >= wide - t->gpus && wide <= t->item->gpus_max &&
		    espl_fit(t->item, t->per_node, wide) == wide &&
		    allocator_fluid_places_with(pool, i, wide, 0) &&
		    (best == NULL || t->work > best->work))
			best = t;
	}
	if (!fluid->probing || wide == 0 || best == NULL)
		return;
	ESPL_ASSERT(pool->idle >= wide - best->gpus);
	pool->idle -= wide - best->gpus;
	best->gpus = wide;
	fluid->probe.trial = best->id;
}

/* A trial timed on more GPUs than are worthwhile returns to its previous width. */
static void
end_try(struct fluid *fluid)
{
	struct fluid_pool *pool = &fluid->pool;
	uint32_t i, fit;

	for (i = 0; i < pool->count; i++) {
		struct fluid_trial *t = &pool->trials[i];

		if (t->id != fluid->probe.trial || t->item->scaling_count > 0 || t->fixed ||
		    t->packing > 1 || t->gpus <= t->most || t->gpus == fluid->probe.try_wide)
			continue;
		fit = allocator_fluid_fit(t, t->most);
		t->gpus = fit > 0 ? fit : t->least;
		t->moved = 1;
	}
}

static int
has_open_item(const struct fluid_pool *pool)
{
	uint32_t i;

	for (i = 0; i < pool->count; i++)
		if ((pool->trials[i].item->flags & ESPL_ITEM_OPEN) != 0)
			return 1;
	return 0;
}

/* Trials that keep their width: without `resize`, all running ones; in an open group, new ones,
 * because the next trials may need the idle GPUs. */
static void
hold_still(struct fluid *fluid, int open)
{
	uint32_t i;

	for (i = 0; i < fluid->pool.count; i++) {
		struct fluid_trial *t = &fluid->pool.trials[i];

		if (t->had_gpus > 0 ? !fluid->resize : open && !fluid->paper)
			t->fixed = 1;
	}
}

/* GPUs are idle, or owed, while somebody changes: when that is done there may be something to do.
 * So there may when two can exchange their GPUs. */
static espl_status
look_again(const struct fluid_pool *pool, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink)
{
	double wait = 0, last = 0;
	uint32_t i;

	for (i = 0; i < pool->count; i++) {
		const struct fluid_trial *t = &pool->trials[i];

		if ((pool->owed > 0 || (t->item->flags & ESPL_ITEM_CHANGING) != 0) && t->eps > wait)
			wait = t->eps;
		last = t->end > last ? t->end : last;
	}
	if (pool->idle == 0 && pool->owed == 0 && pool->node_count == 0)
		wait = 0;
	wait = wait > 0 && wait < pool->exchange ? wait : pool->exchange;
	if (!(wait > 0) || !(wait < 1e8) || !(last < 1e8))
		return ESPL_OK;
	wait = 1.05 * (wait > last / 1000 ? wait : last / 1000); /* not for every trifle */
	return sink->wake_at(sink, view->now + (espl_time)(wait * 1e9));
}

/* Everybody has something: GPUs that are idle, or not well used, change hands. */
static espl_status
rearrange_gpus(struct fluid *fluid, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink)
{
	struct fluid_pool *pool = &fluid->pool;
	uint32_t coming = view->gpus > 0 && view->gpus < pool->total ? pool->total - view->gpus : 0;
	int open = has_open_item(pool);

	if (pool->owed > 0)
		return look_again(pool, view, sink);
	pool->idle -= pool->idle < coming ? pool->idle : coming; /* only what is there */
	hold_still(fluid, open);
	if (!fluid->paper)
		allocator_fluid_balance(pool, open);
	else if (fluid->resize)
		allocator_fluid_dynamic(pool);
	if (fluid->resize)
		try_wider(fluid);
	return fluid->resize ? look_again(pool, view, sink) : ESPL_OK;
}

/* ---- the entry --------------------------------------------------------------------------- */

/* The pool holds the runners, in their order. */
static espl_status
fill_pool(struct fluid *fluid, const struct espl_alloc_view *view, uint32_t total)
{
	struct fluid_pool *pool = &fluid->pool;
	espl_status status =
	    allocator_fluid_pool_room(pool, fluid->roster.count - fluid->roster.fresh + 1);
	uint32_t i;
	uint64_t experiment = view->experiment_count > 0 ? view->experiments[0]->id : ESPL_NONE;

	pool->count = pool->shelf_count = fluid->curve_count = 0;
	pool->total = total;
	pool->displaced = 0;
	pool->exchange = INFINITY;
	if (status == ESPL_OK)
		status = allocator_fluid_floor(pool, view, fluid->offer);
	allocator_fluid_probe_read(&fluid->probe, fluid->model, &fluid->rules, view->items[0],
	    experiment);
	for (i = fluid->roster.fresh; i < fluid->roster.count && status == ESPL_OK; i++)
		if (espl_roster_at(&fluid->roster, i)->gpus > 0)
			status = allocator_fluid_add_runner(fluid,
			    (struct place){ view->items[i]->id, view->items[i]->arrived });
	for (i = 0; i < fluid->runner_count && status == ESPL_OK; i++)
		status = allocator_fluid_add_trial(fluid, view,
		    allocator_fluid_index(fluid, fluid->runners[i].place));
	if (status != ESPL_OK)
		return status;
	ESPL_ASSERT(pool->count == fluid->runner_count);
	allocator_fluid_guess_work(fluid);
	end_try(fluid);
	allocator_fluid_pool_sit(pool);
	if (allocator_fluid_granted(pool) > total)
		allocator_fluid_shrink(pool);
	return ESPL_OK;
}

static espl_status
decide_shares(struct fluid *fluid, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t total)
{
	espl_status status = allocator_fluid_keep_runners(fluid, view);

	if (status == ESPL_OK)
		status = fill_pool(fluid, view, total);
	if (status == ESPL_OK)
		status = allocator_fluid_serve(fluid, view);
	if (status == ESPL_OK)
		status = allocator_fluid_admit(fluid, view);
	if (status == ESPL_OK)
		status = allocator_fluid_serve(fluid, view);
	if (status == ESPL_OK && fluid->head == fluid->tail)
		status = rearrange_gpus(fluid, view, sink);
	if (status == ESPL_OK)
		status = grant_all(fluid, view, sink);
	return status == ESPL_OK ? allocator_fluid_tell_queue(fluid, view, sink) : status;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct fluid *fluid = self;
	espl_status status;
	uint64_t limit, aimed;
	uint32_t before = fluid->roster.per_node;
	int goes;

	ESPL_ASSERT(fluid->magic == FLUID_MAGIC);
	goes =
	    pool_begin(view, &(struct pool_wish){ fluid->offer_name, OFFER, fluid->gpus_max, GPUS },
		&fluid->offer, &fluid->roster, &limit, &status, error);

	if (fluid->roster.per_node != before) /* another offer: the roster is new, and so are all */
		fluid->head = fluid->tail = fluid->runner_count = 0;
	if (fluid->broken || status != ESPL_OK || fluid->roster.count == 0) {
		fluid->head = fluid->tail = fluid->runner_count = fluid->roster.fresh = 0;
		fluid->broken = status != ESPL_OK;
	}
	if (!goes)
		return status;
	fluid->limit = limit;
	aimed = pool_useful(&fluid->roster, limit);
	status = pool_aim(view, sink, fluid->offer, limit, &aimed, error);
	if (status == ESPL_OK) {
		status = decide_shares(fluid, view, sink, count_present_gpus(view, aimed, limit));
		fluid->broken = status != ESPL_OK;
	}
	return status == ESPL_OK ? status : espl_fail(error, status, "out of memory");
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
};

ESPL_PLUGIN(allocator, fluid) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "fluid"),
	.version = "0.1",
	.summary = "share GPUs or spread over several so that a group of trials ends as early as "
		   "possible (Fluid)",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
