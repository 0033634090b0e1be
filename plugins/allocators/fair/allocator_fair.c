/* allocator_fair.c - equal shares, kept equal as trials come and go.
 *
 * When the set of trials changes, each trial is due floor(GPUs / trials); the earliest get the
 * remainder.  Trials that differ in weight or limits get a part by weight (fair_divide.c).
 * Resizing costs, so by default running trials shrink only for those that wait, and grow only
 * into GPUs for which no trial waits.  Where there are more trials than GPUs
 * each gets the least it can take, or shares a GPU, and the rest queues: then a call costs
 * O(what changed).
 */
#include <math.h>
#include <stdlib.h>
#include "fair_divide.h"
#include "../pool.h"

enum { GPUS, OFFER, RESIZE, PACKING };
enum { STAGE, ALWAYS };

static const struct espl_option options[] = {
	POOL_OPTIONS("trials"),
	{ .name = "resize",
	    .help = "stage: shrink running trials only for waiting ones, and grow them only into "
		    "idle GPUs; always: make shares equal at every change",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "stage|always",
	    .fallback = "stage" },
	{ .name = "packing",
	    .help = "maximum number of trials per GPU, used while there are more trials than GPUs "
		    "and the profile predicts a gain; 1: no sharing",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "64" },
};

#define FAIR_MAGIC 0x654da529u

struct fair {
	uint32_t magic; /* FAIR_MAGIC */
	const struct espl_host *host;
	const char *offer_name;
	uint32_t gpus_max; /* 0 no limit of ours */
	uint32_t offer;    /* ESPL_ANY: not chosen yet */
	uint32_t always, packing;
	uint32_t degree;  /* of sharing in this crowd; 0: no crowd */
	uint64_t room;    /* of shares */
	uint32_t *shares; /* due to each item; scratch behind */
	struct espl_roster roster;
};

static void
destroy(void *self)
{
	struct fair *fair = self;

	ESPL_ASSERT(fair != NULL && fair->magic == FAIR_MAGIC);
	fair->magic = 0;
	espl_roster_free(&fair->roster);
	free(fair->shares);
	free(fair);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct fair *fair = calloc(1, sizeof *fair);

	if (fair == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	fair->magic = FAIR_MAGIC;
	fair->host = host;
	fair->gpus_max = (uint32_t)config->values[GPUS].as.i;
	if (config->values[OFFER].source != ESPL_UNSET)
		fair->offer_name = config->values[OFFER].as.s;
	fair->always = config->values[RESIZE].as.i == ALWAYS;
	fair->packing = (uint32_t)config->values[PACKING].as.i;
	fair->offer = ESPL_ANY;
	*self = fair;
	return ESPL_OK;
}

/* ---- the cluster ------------------------------------------------------------------------- */

/* GPUs to hold: all that the items can use, within the limit. */
static uint64_t
cluster_size(const struct fair *fair, const struct espl_alloc_view *view, uint64_t limit)
{
	const struct espl_roster *roster = &fair->roster;
	uint64_t use = roster->most;

	ESPL_ASSERT(view->item_count > 0 && roster->count == view->item_count);
	if ((view->items[0]->flags & ESPL_ITEM_COLOCATE) == 0 ||
	    (limit == UINT64_MAX && use >= UINT64_C(1) << 32))
		return pool_useful(roster, limit);
	use = espl_room_for(roster->count, espl_roster_at(roster, 0)->most, use, roster->per_node);
	return use < limit ? use : limit;
}

/* ---- more trials than GPUs --------------------------------------------------------------- */

/* How many may share a GPU, by the profile: as long as each one more adds throughput, at most
 * `most` and no more than it takes to reach `need`. */
static uint32_t
worthwhile_packing(const struct espl_item *item, uint32_t most, uint64_t need)
{
	uint32_t i, best = 1;
	double last = 1.0;

	most = most < item->packing_max ? most : item->packing_max;
	for (i = 0; i < item->packing_count && best < need; i++) {
		if (item->packing[i].x <= 1.0) {
			last = item->packing[i].y;
			continue;
		}
		if (item->packing[i].x > (double)most || item->packing[i].y <= last)
			break;
		last = item->packing[i].y;
		best = (uint32_t)item->packing[i].x;
	}
	return best;
}

/* Takes GPUs back from those that have more than the least, the latest first. */
static espl_status
shrink_all(struct fair *fair, struct espl_alloc_sink *sink)
{
	struct espl_roster *roster = &fair->roster;
	espl_status status = ESPL_OK;
	uint32_t i = roster->count;

	while (i-- > 0 && roster->excess > 0 && status != ESPL_E_NOMEM) {
		struct espl_entry *entry = espl_roster_at(roster, i);

		if (entry->packing == 1 && !entry->fixed && entry->gpus > entry->least)
			status = espl_roster_grant(roster, sink, i, entry->least, 1);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

/* An item may be granted once in an answer. */
static int
is_granted(const struct espl_entry *entry, const struct espl_item *item)
{
	ESPL_ASSERT(entry->id == item->id);
	return entry->gpus != item->granted.gpus || entry->packing != item->granted.packing;
}

/* Lets a running trial accept neighbors on its GPU; *from moves down.  1: one did. */
static int
open_gpu(struct fair *fair, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t *from)
{
	struct espl_roster *roster = &fair->roster;

	ESPL_ASSERT(*from <= roster->count);
	while (roster->wholes > 0 && *from > 0) {
		struct espl_entry *entry = espl_roster_at(roster, --*from);

		if (entry->gpus == 1 && entry->packing == 1 && entry->least == 1 &&
		    !is_granted(entry, view->items[*from]) &&
		    worthwhile_packing(view->items[*from], fair->degree, fair->degree) ==
			fair->degree &&
		    espl_roster_grant(roster, sink, *from, 1, fair->degree) == ESPL_OK)
			return 1;
	}
	return 0;
}

static espl_status
serve_queue(struct fair *fair, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint64_t total)
{
	struct espl_roster *roster = &fair->roster;
	uint32_t i = espl_roster_waiting(roster, 0), opened = roster->count;
	espl_status status = ESPL_OK;

	if (roster->excess > 0 && (i < roster->count || espl_roster_used(roster) > total))
		status = shrink_all(fair, sink);
	while (i < roster->count && status != ESPL_E_NOMEM) {
		struct espl_entry *entry = espl_roster_at(roster, i);
		uint32_t packing = 1;

		if (entry->least == 1 && fair->degree > 1 &&
		    worthwhile_packing(view->items[i], fair->degree, fair->degree) == fair->degree)
			packing = fair->degree;
		if (entry->least == 0 || entry->least > total) {
			i = espl_roster_waiting(roster, i + 1); /* can never run here */
			continue;
		}
		while (espl_roster_used_with(roster, i, entry->least, packing) > total)
			if (packing == 1 || !open_gpu(fair, view, sink, &opened))
				return ESPL_OK;
		status = espl_roster_grant(roster, sink, i, entry->least, packing);
		i = espl_roster_waiting(roster, i + 1);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

/* ---- GPUs for all trials ----------------------------------------------------------------- */

static int
larger_first(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x > y ? -1 : x < y;
}

/* Equal shares of gangs that must not straddle nodes.  Fewer gangs than nodes: whole nodes each.
 * Else every node is divided among its gangs, so that all of them stand side by side. */
static void
divide_nodes(uint32_t *shares, uint32_t count, uint64_t total, uint32_t per_node)
{
	uint32_t nodes = (uint32_t)((total + per_node - 1) / per_node), i, k = 0, at;

	ESPL_ASSERT(count > 0 && per_node > 0);
	if (count < nodes) {
		nodes = (uint32_t)(total / per_node);
		for (i = 0; i < count; i++)
			shares[i] = (nodes / count + (i < nodes % count)) * per_node;
		return;
	}
	for (i = 0; i < nodes; i++) {
		uint64_t before = (uint64_t)i * per_node;
		uint32_t gpus = total - before < per_node ? (uint32_t)(total - before) : per_node;
		uint32_t gangs = count / nodes + (i < count % nodes);

		for (at = 0; at < gangs; at++)
			shares[k++] = gpus / gangs + (at < gpus % gangs);
	}
	ESPL_ASSERT(k == count);
	qsort(shares, count, sizeof *shares, larger_first);
}

/* Computes the fair share of each item; the earliest items get the GPUs left over. */
static espl_status
divide_gpus(struct fair *fair, const struct espl_alloc_view *view, uint64_t total)
{
	struct espl_roster *roster = &fair->roster;
	uint32_t i, count = roster->count;
	uint64_t need = 2 * (uint64_t)count + total / roster->per_node + 1;

	ESPL_ASSERT(count > 0 && count == view->item_count);
	if (need > fair->room) {
		uint32_t *more = realloc(fair->shares, (size_t)need * 2 * sizeof *more);

		if (more == NULL)
			return ESPL_E_NOMEM;
		fair->shares = more;
		fair->room = need * 2;
	}
	if (!allocator_fair_alike(roster, view) &&
	    allocator_fair_divide(roster, view, total, fair->shares, fair->shares + count))
		return ESPL_OK;
	if ((view->items[0]->flags & ESPL_ITEM_COLOCATE) != 0)
		divide_nodes(fair->shares, count, total, roster->per_node);
	else
		for (i = 0; i < count; i++)
			fair->shares[i] = (uint32_t)(total / count) + (i < total % count);
	for (i = 0; i < count; i++) {
		struct espl_entry *entry = espl_roster_at(roster, i);
		uint32_t most = fair->shares[i] < entry->most ? fair->shares[i] : entry->most;
		uint32_t fit = espl_useful(view->items[i], roster->per_node, most);

		fair->shares[i] = fit > entry->least ? fit : entry->least;
	}
	return ESPL_OK;
}

/* Does growing pay before the trial ends?  Unknown: yes. */
static int
growth_pays(const struct espl_item *item, uint32_t gpus, uint32_t more)
{
	double now = espl_throughput(item, gpus), then = espl_throughput(item, more);

	ESPL_ASSERT(gpus < more);
	if (then <= now)
		return 0;
	if (isnan(item->work_s) || isnan(item->resize_s))
		return 1;
	return item->work_s / now - item->work_s / then > item->resize_s;
}

/* Takes from those above their due until `need` GPUs are free, the latest first. */
static espl_status
shrink_items(struct fair *fair, struct espl_alloc_sink *sink, uint64_t total, uint64_t need)
{
	struct espl_roster *roster = &fair->roster;
	espl_status status = ESPL_OK;
	uint32_t i = roster->count;

	while (i-- > 0 && status != ESPL_E_NOMEM) {
		struct espl_entry *entry = espl_roster_at(roster, i);

		if (!fair->always && espl_roster_used(roster) + need <= total)
			break;
		if (entry->packing == 1 && !entry->fixed && entry->gpus > fair->shares[i])
			status = espl_roster_grant(roster, sink, i, fair->shares[i], 1);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

static espl_status
grow_items(struct fair *fair, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint64_t total)
{
	struct espl_roster *roster = &fair->roster;
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0; i < roster->count && status != ESPL_E_NOMEM; i++) {
		struct espl_entry *entry = espl_roster_at(roster, i);
		const struct espl_item *item = view->items[i];
		uint64_t used = espl_roster_used(roster);
		uint32_t more = fair->shares[i];

		if (used >= total && roster->packed == 0)
			break;
		if (entry->gpus == 0 || (entry->packing == 1 && entry->gpus >= more) ||
		    (entry->fixed && (item->flags & ESPL_ITEM_INPLACE) == 0) ||
		    (item->flags & ESPL_ITEM_CHANGING) != 0)
			continue;
		while (more > 0 && espl_roster_used_with(roster, i, more, 1) > total)
			more = espl_useful(item, roster->per_node, more - 1);
		if (more > entry->gpus ? growth_pays(item, entry->gpus, more)
				       : entry->packing > 1 && more == entry->gpus)
			status = espl_roster_grant(roster, sink, i, more, 1);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

static espl_status
spread_gpus(struct fair *fair, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint64_t total)
{
	struct espl_roster *roster = &fair->roster;
	espl_status status = divide_gpus(fair, view, total);
	uint32_t i, waiting = espl_roster_waiting(roster, 0);
	uint64_t need = 0;

	for (i = waiting; i < roster->count; i++)
		need += espl_roster_at(roster, i)->gpus == 0 ? fair->shares[i] : 0;
	if (status == ESPL_OK && (need > 0 || fair->always || espl_roster_used(roster) > total))
		status = shrink_items(fair, sink, total, need);
	for (i = waiting; i < roster->count && status != ESPL_E_NOMEM;
	     i = espl_roster_waiting(roster, i + 1)) {
		uint32_t share = fair->shares[i];

		while (share > 0 && espl_roster_used_with(roster, i, share, 1) > total)
			share = espl_useful(view->items[i], roster->per_node, share - 1);
		if (share > 0)
			status = espl_roster_grant(roster, sink, i, share, 1);
	}
	if (status != ESPL_E_NOMEM && espl_roster_waiting(roster, 0) == roster->count)
		status = grow_items(fair, view, sink, total);
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

/* ---- the entry --------------------------------------------------------------------------- */

/* Can all items have their least side by side? */
static int
fits_side_by_side(const struct fair *fair, const struct espl_alloc_view *view, uint64_t total)
{
	const struct espl_roster *roster = &fair->roster;
	uint32_t nodes = (uint32_t)((total + roster->per_node - 1) / roster->per_node);

	if (roster->least > total)
		return 0;
	return (view->items[0]->flags & ESPL_ITEM_COLOCATE) == 0 ||
	    espl_side_by_side(espl_roster_at(roster, 0)->least, nodes, roster->per_node) >=
	    roster->count;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct fair *fair = self;
	espl_status status;
	uint64_t limit, total;

	ESPL_ASSERT(fair != NULL && fair->magic == FAIR_MAGIC);
	if (!pool_begin(view, &(struct pool_wish){ fair->offer_name, OFFER, fair->gpus_max, GPUS },
		&fair->offer, &fair->roster, &limit, &status, error))
		return status;
	total = cluster_size(fair, view, limit);
	status = pool_aim(view, sink, fair->offer, limit, &total, error);
	if (status != ESPL_OK)
		return status;
	total = pool_total(view, fair->offer, total);
	if (fits_side_by_side(fair, view, total)) {
		fair->degree = 0;
		status = spread_gpus(fair, view, sink, total);
	} else {
		/* Trials that share a GPU must have the same degree: it stays as long as the set of
		 * trials does. */
		if (total > 0 && (fair->degree == 0 || fair->roster.fresh == 0)) {
			uint64_t crowd = (fair->roster.count + total - 1) / total;

			fair->degree = worthwhile_packing(view->items[0], fair->packing, crowd);
		}
		status = serve_queue(fair, view, sink, total);
	}
	return status == ESPL_OK ? status : espl_fail(error, status, "out of memory");
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
};

ESPL_PLUGIN(allocator, fair) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "fair"),
	.version = "0.1",
	.summary = "equal shares of the GPUs, rebalanced as trials start and end",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
