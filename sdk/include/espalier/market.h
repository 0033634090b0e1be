/* espalier SDK: market.h - what machines have cost so far, and how often they were interrupted.
 *
 * Service ESPL_MARKET, for allocators.  Its answers are based on what clouds reported (`prices` of
 * espl_cloud_events) and on how the run's own leases ended, both journaled, and never on a record
 * later than now: so a replay and a simulation on recorded prices see the same.
 *
 * An allocator sets a maximum price with max_price_hour of a target; it applies to nodes leased
 * from then on.  It chooses where a trial runs with a grant that is bound to an offer
 * (espl_grant.offer).  To move one to another offer: raise that offer's target, and once a node of
 * it is READY, grant the item on that offer, lower the old target and retire the old node, in one
 * answer.  The trial keeps training where it is until its next iteration boundary, saves, and
 * continues on the new node.
 */
#ifndef ESPALIER_MARKET_H
#define ESPALIER_MARKET_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#include <espalier/host.h>
#ifdef __cplusplus
extern "C" {
#endif

/* caller-owned, size set by the caller: revocations of an offer's nodes that its price does not
 * explain, those in the offer (hazard_hour, hazard_hours) and those of this run together */
struct espl_hazard {
	uint32_t size, zero;
	double rate_hour;  /* per node-hour; NaN: nothing is known */
	double hours;      /* node-hours that the rate is based on */
	uint64_t observed; /* revocations among these that this run observed */
};

struct espl_market {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Records covering [from, to), oldest first, the first one in force at `from` if known.
	 * *prices is valid until the entry returns.  E_UNKNOWN: none. */
	espl_status (*history)(const struct espl_market *, uint32_t offer, espl_time from,
	    espl_time to, const struct espl_price **prices, uint32_t *count);
	/* Time-weighted mean of held prices over [from, to), micro-dollars per hour, as far as it
	 * is known; the price at `from` where both are equal.  For an offer without records: its
	 * current price.  NaN: unknown. */
	double (*mean)(const struct espl_market *, uint32_t offer, espl_time from, espl_time to);
	/* E_UNKNOWN: no such offer. */
	espl_status (*hazard)(const struct espl_market *, uint32_t offer, struct espl_hazard *);
};

#ifdef __cplusplus
}
#endif
#endif
