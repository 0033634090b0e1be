/* pool.h - what allocators have in common that divide a cluster among the items that are there: two
 * options, how many GPUs there are, and which widths a job may have.
 *
 * Widths are the least that is legal for the item and its unit times powers of two.  Where such a
 * power is no faster than a narrower grant, the fastest narrower one takes its place.
 */
#ifndef POOL_H
#define POOL_H
#include <math.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/roster.h>
#include <espalier/util.h>

#define POOL_WIDTHS 20u

/* The first two options of such an allocator.  items_: "jobs" or "trials". */
/* clang-format off */
#define POOL_OPTIONS(items_) \
	{ .name = "gpus", \
	  .help = "maximum number of GPUs; 0: as many as the cloud offers and the " items_ \
		  " can use", \
	  .type = ESPL_OPT_INT, .fallback = "0", .min = "0", .max = "1000000" }, \
	{ .name = "offer", .help = "name of the cloud offer to lease; default: the first", \
	  .type = ESPL_OPT_STRING }
/* clang-format on */

/* GPUs that may be held, by the limits of cloud, experiments and user (gpus_max, 0: none). */
static inline uint64_t
pool_allowed(const struct espl_alloc_view *view, const struct espl_offer *offer, uint32_t gpus_max)
{
	uint64_t limit = UINT64_MAX, experiments = 0;
	uint32_t i;

	if (gpus_max > 0)
		limit = gpus_max;
	if (offer->nodes_max != ESPL_ANY && (uint64_t)offer->nodes_max * offer->gpus < limit)
		limit = (uint64_t)offer->nodes_max * offer->gpus;
	for (i = 0; i < view->experiment_count; i++) {
		uint32_t most = view->experiments[i]->gpus_limit;

		experiments += most == ESPL_ANY ? UINT64_C(1) << 32 : most;
	}
	if (view->experiment_count > 0 && experiments < UINT64_C(1) << 32 && experiments < limit)
		limit = experiments;
	return limit;
}

/* what the user set; which option a message blames */
struct pool_wish {
	const char *offer_name; /* NULL: the first */
	uint32_t offer_option, gpus_max, gpus_option;
};

/* How every call begins: the offer is chosen (*offer; ESPL_ANY before), the roster follows the
 * view, and *limit is what may be held.  0: there is nothing to decide, or *status says what is
 * wrong. */
static inline int
pool_begin(const struct espl_alloc_view *view, const struct pool_wish *wish, uint32_t *offer,
    struct espl_roster *roster, uint64_t *limit, espl_status *status, struct espl_error *error)
{
	*status = ESPL_OK;
	if (*offer != ESPL_ANY && espl_offer_is_lost(view, *offer))
		*offer = ESPL_ANY;
	if (*offer == ESPL_ANY)
		*status = espl_choose_offer(view->offers, view->offer_count, wish->offer_name,
		    wish->offer_option, offer, error);
	if (*status != ESPL_OK || *offer == ESPL_ANY)
		return 0; /* or nothing is sold now */
	*status = espl_roster_sync(roster, view, view->offers[*offer]->gpus);
	if (*status != ESPL_OK)
		*status = espl_fail(error, *status, "out of memory");
	else if (roster->count > 0 && view->node_count == 0)
		*status = espl_roster_within(roster, wish->gpus_max, wish->gpus_option, error);
	if (*status != ESPL_OK || roster->count == 0)
		return 0;
	ESPL_ASSERT(roster->count == view->item_count);
	*limit = pool_allowed(view, view->offers[*offer], wish->gpus_max);
	return 1;
}

/* GPUs to hold: all that the items can use, within the limit; where there is no limit at all, no
 * more than they need. */
static inline uint64_t
pool_useful(const struct espl_roster *roster, uint64_t limit)
{
	uint64_t use = roster->most;

	if (limit == UINT64_MAX && use >= UINT64_C(1) << 32)
		use = roster->least;
	return use < limit ? use : limit;
}

/* A node is late when it has not come this long after it was expected. */
#define POOL_LATE (2 * ESPL_SECOND)

/* Requested, and neither here nor on its way when it was expected: it may be refused, or queue for
 * days, and nothing can be planned with it. */
static inline int
pool_is_late(const struct espl_alloc_view *view, const struct espl_node *node)
{
	return node->state == ESPL_NODE_REQUESTED && node->ready_at != ESPL_NEVER &&
	    view->now > node->ready_at + POOL_LATE;
}

/* GPUs of the nodes that are ready, that are starting, and that are expected. */
static inline uint64_t
pool_present(const struct espl_alloc_view *view)
{
	uint64_t gpus = view->gpus;
	uint32_t i;

	for (i = 0; i < view->node_count; i++)
		if (view->nodes[i]->state < ESPL_NODE_READY &&
		    !pool_is_late(view, view->nodes[i]) &&
		    (view->nodes[i]->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) == 0)
			gpus += view->offers[view->nodes[i]->offer]->gpus;
	return gpus;
}

/* Does the provider deliver what is requested?  Not while a node is late, or while fewer are held
 * and requested than were asked for, since the others have been refused. */
static inline int
pool_delivers(const struct espl_alloc_view *view, uint32_t number)
{
	uint64_t asked = (uint64_t)view->targets[number] * view->offers[number]->gpus, held = 0;
	uint32_t i;

	for (i = 0; i < view->node_count; i++) {
		if (pool_is_late(view, view->nodes[i]))
			return 0;
		held += view->offers[view->nodes[i]->offer]->gpus;
	}
	return held >= asked;
}

/* GPUs to divide: those there are and those that are expected, nodes that are asked for in this
 * very call included if the provider delivers.  Before there are any, all that is aimed at: trials
 * are granted what the first nodes will have. */
static inline uint32_t
pool_total(const struct espl_alloc_view *view, uint32_t number, uint64_t aimed)
{
	uint64_t gpus = pool_present(view),
		 asked = (uint64_t)view->targets[number] * view->offers[number]->gpus;
	uint64_t lost = view->gpus_lost != NULL ? view->gpus_lost[number] : 0;

	ESPL_ASSERT(number < view->offer_count && view->targets != NULL);
	asked -= lost < asked ? lost : asked;
	if (aimed > asked && pool_delivers(view, number))
		gpus += aimed - asked;
	if (gpus == 0 || gpus > aimed)
		gpus = aimed;
	return gpus < UINT32_MAX ? (uint32_t)gpus : UINT32_MAX - 1;
}

/* Asks for nodes enough for *gpus GPUs, within the limit; *gpus becomes what can be used of them.
 */
static inline espl_status
pool_aim(const struct espl_alloc_view *view, struct espl_alloc_sink *sink, uint32_t number,
    uint64_t limit, uint64_t *gpus, struct espl_error *error)
{
	struct espl_target target = ESPL_INIT(struct espl_target);
	espl_status status;

	target.offer = number;
	target.nodes = espl_nodes_for(view, number, limit, gpus);
	if (view->targets[number] == target.nodes)
		return ESPL_OK;
	status = sink->target(sink, &target);
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "%u nodes of '%s' were refused",
				       target.nodes, view->offers[number]->name);
}

/* The item's widths of at most `most`, rising, each faster than every narrower grant; returns how
 * many. 0: its least does not fit. */
static inline uint32_t
pool_widths(const struct espl_item *item, uint32_t per_node, uint32_t most, uint32_t *width)
{
	uint64_t k = item->unit > 0 ? item->unit : 1;
	uint32_t count = 0, least = espl_least(item, per_node);

	if (least == 0 || least > most)
		return 0;
	width[count++] = least;
	for (; k <= item->gpus_max && k <= most && count < POOL_WIDTHS; k *= 2) {
		uint32_t gpus = espl_fit(item, per_node, (uint32_t)k) == k
		    ? espl_useful(item, per_node, (uint32_t)k)
		    : 0;

		if (gpus > width[count - 1])
			width[count++] = gpus;
	}
	ESPL_ASSERT(width[count - 1] <= most);
	return count;
}

/* The widest of them, for the roster: no more is leased for it.  ESPL_ANY: no limit. */
static inline uint32_t
pool_widest(const struct espl_item *item, uint32_t per_node)
{
	uint32_t width[POOL_WIDTHS], count = pool_widths(item, per_node, ESPL_ANY, width);

	if (item->scaling_count == 0 && item->gpus_max == ESPL_ANY)
		return ESPL_ANY;
	return count > 0 ? width[count - 1] : 0;
}

/* Throughput on that many GPUs, unit GPUs being 1: of the profile, or, where there is none, a
 * doubling keeps that part of the speed per GPU. */
static inline double
pool_speed(const struct espl_item *item, uint32_t gpus, double doubling)
{
	double x = (double)gpus / (item->unit > 0 ? item->unit : 1);

	return item->scaling_count > 0 ? espl_throughput(item, gpus) : x * pow(doubling, log2(x));
}

#endif
