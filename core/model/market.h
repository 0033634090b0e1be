/* market.h - price records and revocations by offer: the service ESPL_MARKET (espalier/market.h).
 */
#ifndef ESPL__MARKET_H
#define ESPL__MARKET_H
#include <espalier/cloud.h>
#include <espalier/market.h>
#include "model/fleet.h"

/* what is known of one offer */
struct espl__market_offer {
	struct espl_price *prices; /* by `from`, each once */
	uint32_t count, cap;
	uint32_t watched; /* an allocator is to be called when the price changes */
	uint32_t zero;
	uint64_t observed; /* revocations for other reasons than the price */
	double hours;      /* that ended leases were ready for */
};
#define ESPL__MARKET_MAGIC 0x6d6b7431u
struct espl__market {
	struct espl_market pub;
	uint32_t magic; /* ESPL__MARKET_MAGIC */
	const struct espl__fleet *fleet;
	const espl_time *now;
	struct espl__market_offer *offers;
	uint32_t count, cap;
};
void espl__market_init(struct espl__market *, const struct espl__fleet *, const espl_time *now);
void espl__market_free(struct espl__market *);
/* 1: it is the latest of its offer; 0: of the past, or known already. */
int espl__market_price(struct espl__market *, uint32_t offer, const struct espl_price *);
void espl__market_watch(struct espl__market *, uint32_t offer, uint32_t on);
int espl__market_watched(const struct espl__market *, uint32_t offer);
/* Records why a lease ended. Call it before the fleet drops the machine. */
void espl__market_ended(struct espl__market *, const struct espl__machine *, espl_reason);
#endif
