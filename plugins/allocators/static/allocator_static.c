/* allocator_static.c - one cluster size for the whole run, divided evenly stage by stage.
 *
 * The baseline of RubberBand (EuroSys'21, 3.2): nodes are leased once; when a stage's trials
 * arrive they share the GPUs evenly, and a trial keeps its share until the stage's end.  What
 * a trial leaves goes to those that wait.  A call costs O(what changed), however many wait.
 */
#include "static.h"
#include "../pool.h"

static const struct espl_option options[] = {
	{ .name = "gpus",
	    .help = "number of GPUs of the cluster; 0: the cheapest size that meets deadline and "
		    "budget, or as many as the widest stage can use",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "1000000" },
	{ .name = "offer",
	    .help = "name of the cloud offer to lease; default: the best, or the first if nothing "
		    "can be predicted",
	    .type = ESPL_OPT_STRING },
	{ .name = "gpus_max",
	    .help = "maximum number of GPUs when the cheapest size is searched for; 0: the limit "
		    "of the cloud",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "1000000" },
};

static void
destroy(void *self)
{
	struct fixed *fixed = self;

	ESPL_ASSERT(fixed != NULL && fixed->magic == FIXED_MAGIC);
	fixed->magic = 0;
	espl_roster_free(&fixed->roster);
	espl_follow_free(&fixed->follow);
	free(fixed);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct fixed *fixed = calloc(1, sizeof *fixed);

	if (fixed == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	fixed->magic = FIXED_MAGIC;
	fixed->host = host;
	fixed->option = (uint32_t)config->values[STATIC_GPUS].as.i;
	fixed->gpus_max = (uint32_t)config->values[STATIC_MOST].as.i;
	if (config->values[STATIC_OFFER].source != ESPL_UNSET)
		fixed->offer_name = config->values[STATIC_OFFER].as.s;
	fixed->follow.stays = fixed->offer_name != NULL;
	fixed->offer = ESPL_ANY;
	*self = fixed;
	return ESPL_OK;
}

/* ---- grants ------------------------------------------------------------------------------- */

/* What each of `count` trials like this one gets of `pool` GPUs, so that all stand side by side
 * on the nodes; the least if they cannot. */
static uint32_t
divide_pool(const struct fixed *fixed, const struct espl_item *item, uint32_t least, uint64_t pool,
    uint32_t count, uint32_t nodes)
{
	uint32_t per_node = fixed->roster.per_node;
	uint32_t share = espl_useful(item, per_node, least_of(pool / count, UINT32_MAX));

	ESPL_ASSERT(count > 0 && share <= pool);
	if ((item->flags & ESPL_ITEM_COLOCATE) == 0)
		return share > least ? share : least;
	while (share > least && espl_side_by_side(share, nodes, per_node) < count)
		share = espl_useful(item, per_node, share - 1);
	return share > least ? share : least;
}

/* Gives newly arrived trials their share, which they get when GPUs are free. In a group that keeps
 * growing each trial starts on the minimum, so that the next ones find room. */
static void
give_shares(struct fixed *fixed, const struct espl_alloc_view *view, uint64_t total, uint32_t nodes)
{
	struct espl_roster *roster = &fixed->roster;
	uint64_t pool = total;
	uint32_t i, count = roster->count - roster->fresh;

	if (roster->fresh > 0) { /* other trials are running: only the GPUs that they leave */
		uint64_t used = espl_roster_used(roster);

		pool = used < total && espl_roster_waiting(roster, 0) >= roster->fresh
		    ? total - used
		    : 0;
		nodes = (uint32_t)((pool + roster->per_node - 1) / roster->per_node);
	}
	for (i = roster->fresh; i < roster->count; i++) {
		struct espl_entry *entry = espl_roster_at(roster, i);
		const struct espl_item *item = view->items[i];

		entry->want = entry->least;
		if ((item->flags & ESPL_ITEM_OPEN) == 0 && entry->least > 0)
			entry->want = divide_pool(fixed, item, entry->least, pool, count, nodes);
	}
}

/* A promoted trial may arrive with the GPUs it had: to its new share at once. */
static espl_status
adjust_warm(struct fixed *fixed, struct espl_alloc_sink *sink, uint64_t total)
{
	struct espl_roster *roster = &fixed->roster;
	espl_status status = ESPL_OK;
	uint32_t i, pass;

	for (pass = 0; pass < 2 && roster->granted > 0; pass++) /* shrink first, then grow */
		for (i = roster->fresh; i < roster->count && status != ESPL_E_NOMEM; i++) {
			struct espl_entry *entry = espl_roster_at(roster, i);

			if (entry->gpus == 0 || entry->want == 0 ||
			    (entry->gpus == entry->want && entry->packing == 1) ||
			    (pass == 0 && entry->want > entry->gpus))
				continue;
			if (espl_roster_used_with(roster, i, entry->want, 1) <= total)
				status = espl_roster_grant(roster, sink, i, entry->want, 1);
		}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

/* GPUs were set aside: an item granted more than all remaining GPUs gets its minimum. */
static espl_status
fit_in(struct fixed *fixed, struct espl_alloc_sink *sink, uint64_t total)
{
	struct espl_roster *roster = &fixed->roster;
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0; i < roster->count && status != ESPL_E_NOMEM; i++) {
		struct espl_entry *entry = espl_roster_at(roster, i);

		if (entry->gpus > total && entry->gpus > entry->least)
			status = espl_roster_grant(roster, sink, i, entry->least, 1);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

/* The queue, in order of arrival: nobody overtakes. */
static espl_status
serve_queue(struct fixed *fixed, struct espl_alloc_sink *sink, uint64_t total)
{
	struct espl_roster *roster = &fixed->roster;
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = espl_roster_waiting(roster, 0); i < roster->count && status != ESPL_E_NOMEM;
	     i = espl_roster_waiting(roster, i + 1)) {
		struct espl_entry *entry = espl_roster_at(roster, i);
		uint32_t want = entry->want > 0 ? entry->want : entry->least;

		if (want == 0 || entry->least > total)
			continue; /* can never run here */
		if (want > total)
			want = entry->least;
		if (espl_roster_used_with(roster, i, want, 1) > total)
			break;
		status = espl_roster_grant(roster, sink, i, want, 1);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

/* Chooses the offer; another one when it is lost: its nodes may be smaller, so that every trial
 * gets another share. */
static espl_status
follow_offer(struct fixed *fixed, const struct espl_alloc_view *view, struct espl_error *error)
{
	uint32_t before = fixed->offer;
	espl_status status = ESPL_OK;

	if (fixed->offer != ESPL_ANY && espl_offer_is_lost(view, fixed->offer))
		fixed->offer = ESPL_ANY;
	if (fixed->offer == ESPL_ANY)
		status = espl_choose_offer(view->offers, view->offer_count, fixed->offer_name,
		    STATIC_OFFER, &fixed->offer, error);
	if (status != ESPL_OK || fixed->offer == ESPL_ANY)
		return status; /* or nothing is sold now */
	status = espl_roster_sync(&fixed->roster, view, view->offers[fixed->offer]->gpus);
	if (status != ESPL_OK)
		return espl_fail(error, status, "out of memory");
	if (before != fixed->offer) {
		fixed->gpus = 0;
		fixed->roster.fresh = 0;
	}
	return ESPL_OK;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct fixed *fixed = self;
	const struct espl_offer *offer;
	espl_status status;
	uint64_t total;
	uint32_t nodes;

	ESPL_ASSERT(fixed != NULL && fixed->magic == FIXED_MAGIC);
	if (view->experiment_count == 1 && view->experiments[0]->plan != NULL)
		return espl_follow(&fixed->follow, view, sink, ESPL_ANY, error);
	status = follow_offer(fixed, view, error);
	if (status != ESPL_OK || fixed->offer == ESPL_ANY || fixed->roster.count == 0)
		return status;
	offer = view->offers[fixed->offer];
	if (fixed->gpus == 0) {
		status = espl_roster_within(&fixed->roster, fixed->option, STATIC_GPUS, error);
		if (status != ESPL_OK)
			return status;
		allocator_static_choose_size(fixed, view);
	}
	total = least_of(fixed->gpus,
	    allocator_static_ceiling(offer, view->experiments, view->experiment_count));
	nodes = espl_nodes_for(view, fixed->offer, total, &total);
	if (view->targets[fixed->offer] != nodes) {
		struct espl_target target = ESPL_INIT(struct espl_target);

		target.offer = fixed->offer;
		target.nodes = nodes;
		status = sink->target(sink, &target);
		if (status != ESPL_OK)
			return espl_fail(error, status,
			    "the request for %u nodes of '%s' was rejected", nodes, offer->name);
	}
	total = pool_total(view, fixed->offer, total);
	nodes = (uint32_t)((total + offer->gpus - 1) / offer->gpus);
	if (fixed->roster.fresh < fixed->roster.count) {
		give_shares(fixed, view, total, nodes);
		status = adjust_warm(fixed, sink, total);
	}
	if (status == ESPL_OK && espl_roster_used(&fixed->roster) > total)
		status = fit_in(fixed, sink, total);
	if (status == ESPL_OK)
		status = serve_queue(fixed, sink, total);
	return status == ESPL_OK ? status : espl_fail(error, status, "out of memory");
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
	.plan = allocator_static_plan,
};

ESPL_PLUGIN(allocator, static) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "static"),
	.version = "0.1",
	.summary = "a fixed cluster size for the whole run, divided evenly in each stage",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
