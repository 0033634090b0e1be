/* espalier SDK: market.h - what machines have cost so far, and how often they were taken back.
 *
 * Service ESPL_MARKET, for allocators.  It answers from what clouds reported (`prices` of
 * espl_cloud_events) and from what became of the run's own leases, both journaled, and never from
 * a record of later than now: so a replay and a simulation on recorded prices see the same.
 *
 * Where an allocator decides on a price, it sets max_price_hour of its target, which holds for the
 * nodes leased from then on; a grant bound to an offer (espl_grant.offer) says where a trial runs.
 * To move one to another offer: raise that offer's target, and once a node of it is READY, grant
 * the item on that offer, lower the old target and retire the old node, in one answer.  The trial
 * trains where it is until its next iteration boundary, saves, and continues on the new node.
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
	double hours;      /* node-hours that the rate rests on */
	uint64_t observed; /* of these revocations, in this run */
};

struct espl_market {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Records covering [from, to), oldest first, the first one in force at `from` if known.
	 * *prices is valid until the entry returns.  E_UNKNOWN: none. */
	espl_status (*history)(const struct espl_market *, uint32_t offer, espl_time from,
	    espl_time to, const struct espl_price **prices, uint32_t *count);
	/* Time-weighted mean of held prices over [from, to), micro-dollars per hour, as far as it
	 * is known; the price at `from` where both are equal.  An offer without records has the
	 * price that it is sold at.  NaN: unknown. */
	double (*mean)(const struct espl_market *, uint32_t offer, espl_time from, espl_time to);
	/* E_UNKNOWN: no such offer. */
	espl_status (*hazard)(const struct espl_market *, uint32_t offer, struct espl_hazard *);
};

#ifdef __cplusplus
}
#endif
#endif
