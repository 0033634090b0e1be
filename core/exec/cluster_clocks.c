/* cluster_clocks.c - limits how long a lease may stay in a state before READY.
 *
 * A cloud has shorter limits where it knows why a machine does not come; these hold whatever the
 * reason is.  A queue may be long, but not while another offer may have machines; and a machine
 * that was promised comes soon.
 */
#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/state.h"

#define REQUEST_LIMIT (7 * 86400 * ESPL_SECOND)
#define BOOT_LIMIT (3600 * ESPL_SECOND)
#define USUAL_TIMES 10.0 /* of what its offer says that it takes */

static espl_span
usual(const struct espl_latency *latency)
{
	double sum = 0;

	if (latency == NULL)
		return 0;
	for (uint32_t i = 0; i < latency->sample_count; i++)
		sum += latency->samples_s[i] / latency->sample_count;
	sum = latency->sample_count > 0 ? sum : latency->mean_s;
	return sum > 0 && sum < 1e6 ? (espl_span)(sum * 1e9 * USUAL_TIMES) : 0;
}

/* The first time; then twice as long each time, since all offers may have queues. */
#define QUEUE_LIMIT (600 * ESPL_SECOND)
#define QUEUE_DOUBLES 10u

/* A machine of the offer is there, or on its way. */
static int
delivers(const struct espl__exec *x, uint32_t offer)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->offer == offer &&
		    x->fleet.live[i]->state > ESPL_NODE_REQUESTED)
			return 1;
	return 0;
}

espl_span
espl__cluster_queue_limit(const struct espl__exec *x, uint32_t offer)
{
	uint32_t refused = offer < x->cluster.record_count ? x->cluster.records[offer].refused : 0;

	ESPL__CHECK(x, EXEC);
	if (!espl__exec_follows(x, ESPL__RULES_QUEUES) || delivers(x, offer))
		return 0;
	for (uint32_t i = 0; i < x->fleet.offer_count; i++)
		if (i != offer && !espl__cluster_is_unwanted(x, i) &&
		    !espl__cluster_is_unwanted(x, offer) &&
		    ((x->fleet.offers[i]->flags & ESPL_OFFER_GONE) == 0 ||
			(i < x->cluster.record_count && x->cluster.records[i].hidden)))
			return QUEUE_LIMIT << (refused < QUEUE_DOUBLES ? refused : QUEUE_DOUBLES);
	return 0;
}

espl_span
espl__cluster_limit(const struct espl__exec *x, const struct espl__machine *n)
{
	const struct espl_offer *offer;

	ESPL__CHECK(n, MACHINE);
	offer = x->fleet.offers[n->pub.offer];

	if (!espl__exec_follows(x, ESPL__RULES_SUPPLY)) /* nor did the run when it began */
		return 0;
	if (n->releasing || n->unfit != NULL || (n->pub.flags & ESPL_NODE_RETIRING) != 0)
		return 0;
	if (n->pub.state == ESPL_NODE_REQUESTED) {
		espl_span queue = espl__cluster_queue_limit(x, n->pub.offer);

		return (queue > 0 && queue < REQUEST_LIMIT ? queue : REQUEST_LIMIT) +
		    usual(offer->provision);
	}
	return n->pub.state == ESPL_NODE_BOOTING ? BOOT_LIMIT + usual(offer->init) : 0;
}

void
espl__cluster_clock(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.clock_at = ESPL_NEVER;
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		espl_span limit = espl__cluster_limit(x, n);

		if (limit > 0 && n->since + limit < x->cluster.clock_at)
			x->cluster.clock_at = n->since + limit;
	}
}

espl_time
espl__cluster_next(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return x->cluster.cloud_waits ? ESPL_NEVER : x->cluster.clock_at;
}
