/* espalier SDK: draft/market.h - a draft: what allocators will use where prices vary.
 *
 * No host implements it yet, and names and meaning may change.  The numbers are taken and the
 * fields below have their places in the ABI, but:
 * - a service that is asked for here fails the instance (E_BUG);
 * - sink->watch_prices and grants with a flag of here are refused (E_REJECTED);
 * - the reasons and item flags of here are never set;
 * - `history` and `owned` of espl_cloud_ops are never called by a run.
 */
#ifndef ESPALIER_DRAFT_MARKET_H
#define ESPALIER_DRAFT_MARKET_H
#include <espalier/allocator.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Service for allocators: struct espl_market. */
#define ESPL_MARKET "espl.market/0"

/* In simulation it answers from the trace, never beyond now. */
struct espl_market {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Records covering [from, to), oldest first, the first one in force at `from` if known.
	 * *prices is valid until the entry returns.  E_UNKNOWN: none. */
	espl_status (*history)(const struct espl_market *, uint32_t offer, espl_time from,
	    espl_time to, const struct espl_price **prices, uint32_t *count);
	/* Time-weighted mean of held prices, micro-dollars per hour; NaN if unknown. */
	double (*mean)(const struct espl_market *, uint32_t offer, espl_time from, espl_time to);
};

/* The price of an offer changed that sink->watch_prices(sink, offer, 1) named. */
#define ESPL_WHY_PRICE 0x020u

/* of struct espl_item */
#define ESPL_ITEM_ALONE 0x008u     /* packed, but nothing else is on its GPU */
#define ESPL_ITEM_OWN_NODES 0x200u /* holds nodes of its own (ESPL_GRANT_OWN_NODES) */

/* of struct espl_grant.  The item's own nodes: leased for it at max_price_hour, released when it
 * leaves them; outside the targets.  SpotTune's one machine per trial. */
#define ESPL_GRANT_OWN_NODES 0x1u
#define ESPL_GRANT_RENEW 0x2u /* own nodes: a fresh lease, even on the same offer */

#ifdef __cplusplus
}
#endif
#endif
