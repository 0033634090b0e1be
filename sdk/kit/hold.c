/* hold.c - see espalier/kit/hold.h. */
#include <espalier/kit/assert.h>
#include <espalier/kit/hold.h>

static int
espl_hold_is_ready(const struct espl_node *n)
{
	return n->state == ESPL_NODE_READY &&
	    (n->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE)) == 0;
}

uint32_t
espl_hold_ready(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner)
{
	uint32_t i, ready = 0;

	for (i = 0; i < view->node_count; i++)
		ready += view->nodes[i]->offer == offer && view->nodes[i]->owner == owner &&
		    espl_hold_is_ready(view->nodes[i]);
	return ready;
}

uint32_t
espl_hold_count(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner)
{
	uint32_t i, held = 0;

	for (i = 0; i < view->node_count; i++)
		held += view->nodes[i]->offer == offer && view->nodes[i]->owner == owner &&
		    (view->nodes[i]->flags & ESPL_NODE_RETIRING) == 0;
	return held;
}

uint32_t
espl_hold_spare(const struct espl_alloc_view *view, uint32_t offer)
{
	uint64_t lost = view->gpus_lost != NULL ? view->gpus_lost[offer] : 0,
		 each = view->offers[offer]->gpus;

	ESPL_ASSERT(offer < view->offer_count);
	return each > 0 ? (uint32_t)((lost + each - 1) / each) : 0;
}

espl_status
espl_hold_claim(const struct espl_alloc_view *view, struct espl_alloc_sink *sink, uint32_t offer,
    uint32_t bracket, uint32_t count, uint32_t *next, uint32_t *taken, uint32_t *ready)
{
	espl_status status = ESPL_OK;

	ESPL_ASSERT(offer < view->offer_count && *next <= view->node_count);
	for (; count > 0 && *next < view->node_count && status == ESPL_OK; (*next)++) {
		const struct espl_node *n = view->nodes[*next];

		if (n->offer != offer || n->owner != ESPL_NONE || n->state == ESPL_NODE_NOTICE ||
		    (n->flags & ESPL_NODE_RETIRING) != 0)
			continue;
		status = sink->claim(sink, n->id, bracket);
		*ready += (uint32_t)espl_hold_is_ready(n);
		*taken += 1;
		count--;
	}
	return status;
}

espl_status
espl_hold_pass_on(const struct espl_alloc_view *view, struct espl_alloc_sink *sink, uint32_t offer,
    uint64_t owner, uint32_t bracket, uint32_t count, uint32_t *ready)
{
	espl_status status = ESPL_OK;
	uint32_t i;

	ESPL_ASSERT(offer < view->offer_count && bracket < ESPL_ANY);

	for (i = view->node_count; i > 0 && count > 0 && status == ESPL_OK; i--) {
		const struct espl_node *n = view->nodes[i - 1];

		if (n->offer != offer || n->owner != owner || !espl_hold_is_ready(n) ||
		    n->gpus_idle < n->gpu_count)
			continue;
		status = sink->claim(sink, n->id, bracket);
		*ready += status == ESPL_OK;
		count--;
	}
	return status == ESPL_E_REJECTED ? ESPL_OK : status;
}

static int
espl_hold_awaits(const struct espl_node *n)
{
	return n->state == ESPL_NODE_REQUESTED || n->state == ESPL_NODE_BOOTING;
}

static int
espl_hold_is_empty(const struct espl_node *n)
{
	return (n->flags & ESPL_NODE_RETIRING) == 0 &&
	    (espl_hold_awaits(n) || (espl_hold_is_ready(n) && n->gpus_idle == n->gpu_count));
}

uint32_t
espl_hold_empty(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner)
{
	uint32_t i, empty = 0;

	for (i = 0; i < view->node_count; i++)
		empty += view->nodes[i]->offer == offer && view->nodes[i]->owner == owner &&
		    espl_hold_is_empty(view->nodes[i]);
	return empty;
}

/* empty: only nodes on which no trial stands. */
static espl_status
espl_hold_let_go(const struct espl_alloc_view *view, struct espl_alloc_sink *sink, uint32_t offer,
    uint64_t owner, uint32_t count, int empty)
{
	uint64_t last = 0;
	espl_time from = INT64_MIN;
	espl_status status = ESPL_OK;
	uint32_t k;

	ESPL_ASSERT(offer < view->offer_count);
	for (k = view->node_count; k > 0 && count > 0 && status == ESPL_OK; k--) {
		const struct espl_node *n = view->nodes[k - 1];

		if (n->offer != offer || n->owner != owner ||
		    (n->flags & ESPL_NODE_RETIRING) != 0 || !espl_hold_awaits(n))
			continue;
		status = sink->retire(sink, n->id);
		count--;
	}
	for (; count > 0 && status == ESPL_OK; count--) {
		const struct espl_node *oldest = NULL;
		uint32_t i;

		for (i = 0; i < view->node_count; i++) {
			const struct espl_node *n = view->nodes[i];

			if (n->offer != offer || n->owner != owner ||
			    (n->flags & ESPL_NODE_RETIRING) != 0 || espl_hold_awaits(n) ||
			    (empty && !espl_hold_is_empty(n)) || n->billed_from < from ||
			    (n->billed_from == from && n->id <= last))
				continue;
			if (oldest == NULL || n->billed_from < oldest->billed_from)
				oldest = n;
		}
		if (oldest == NULL)
			break;
		from = oldest->billed_from;
		last = oldest->id;
		status = sink->retire(sink, oldest->id);
	}
	return status;
}

espl_status
espl_hold_retire(const struct espl_alloc_view *view, struct espl_alloc_sink *sink, uint32_t offer,
    uint64_t owner, uint32_t count)
{
	return espl_hold_let_go(view, sink, offer, owner, count, 0);
}

espl_status
espl_hold_retire_empty(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint64_t owner, uint32_t count)
{
	return espl_hold_let_go(view, sink, offer, owner, count, 1);
}

double
espl_hold_longest(const struct espl_latency *latency)
{
	double longest = 0.0;
	uint32_t i;

	if (latency == NULL)
		return 0.0;
	ESPL_ASSERT(latency->kind != ESPL_EMPIRICAL || latency->sample_count == 0 ||
	    latency->samples_s != NULL);
	for (i = 0; latency->kind == ESPL_EMPIRICAL && i < latency->sample_count; i++)
		longest = latency->samples_s[i] > longest ? latency->samples_s[i] : longest;
	return longest > 0 ? longest : latency->mean_s + 4 * latency->sd_s;
}

espl_status
espl_hold_least(struct espl_roster *r, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, uint32_t number)
{
	const struct espl_offer *offer = view->offers[number];
	uint64_t room, limit = 0, gpus;
	espl_status status = espl_roster_sync(r, view, offer->gpus);
	uint32_t i, nodes;

	ESPL_ASSERT(number < view->offer_count);
	if (status != ESPL_OK || offer->gpus == 0)
		return status;
	for (i = 0; i < view->experiment_count; i++)
		limit += view->experiments[i]->gpus_limit;
	if (offer->nodes_max != ESPL_ANY && (uint64_t)offer->nodes_max * offer->gpus < limit)
		limit = (uint64_t)offer->nodes_max * offer->gpus;
	gpus = r->least < limit ? r->least : limit;
	nodes = (uint32_t)((gpus + offer->gpus - 1) / offer->gpus);
	room = (uint64_t)nodes * offer->gpus < limit ? (uint64_t)nodes * offer->gpus : limit;
	if (view->targets[number] != nodes && r->count > 0) {
		struct espl_target target = ESPL_INIT(struct espl_target);

		target.offer = number;
		target.nodes = nodes;
		status = sink->target(sink, &target);
	}
	ESPL_ASSERT(nodes <= offer->nodes_max);
	for (i = espl_roster_waiting(r, 0); i < r->count && status == ESPL_OK;
	     i = espl_roster_waiting(r, i + 1)) {
		struct espl_entry *entry = espl_roster_at(r, i);

		if (entry->least == 0)
			continue;
		if (espl_roster_used_with(r, i, entry->least, 1) > room)
			break;
		status = espl_roster_grant(r, sink, i, entry->least, 1);
	}
	return status;
}
