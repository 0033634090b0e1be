/* ledger.h - every lease's money in integer micro-dollars.
 *
 * A lease is charged from its billing start, rounded up to billing_step, at the price in force
 * (segments for markets), at least minimum_charge if the user ends it, nothing if the provider
 * ends it within refund_before; data once per lease; FUNCTION billing charges busy GPU time
 * instead.  Conservation: total == sum over leases, asserted on every change.
 */
#ifndef ESPL__LEDGER_H
#define ESPL__LEDGER_H
#include <espalier/cloud.h>

/* Why a lease ended, beyond the SDK's reasons: we released a node that could not be used; REFUSAL:
 * and the next one of its offer could not be used either. It is charged like a released node,
 * including the minimum. */
#define ESPL__BY_GIVING_UP ((espl_reason)256)
#define ESPL__BY_REFUSAL ((espl_reason)257)

struct espl__ledger;
struct espl__ledger *espl__ledger_new(void);
void espl__ledger_free(struct espl__ledger *);
/* lease numbers are dense from 0.  Terms are copied from the offer. */
void espl__ledger_open(struct espl__ledger *, uint64_t lease, const struct espl_offer *,
    double data_gb, espl_time requested);
/* The machine reached this state (BOOTING, READY): billing may begin now. */
void espl__ledger_state(struct espl__ledger *, uint64_t lease, espl_node_state, espl_time);
/* The market's price of the offer changed (all its open leases). */
void espl__ledger_price(struct espl__ledger *, uint32_t offer, espl_time from, espl_money usd_hour);
/* FUNCTION billing: this many whole-GPU-nanoseconds were used on the lease. */
void espl__ledger_busy(struct espl__ledger *, uint64_t lease, int64_t gpu_ns);
void espl__ledger_close(struct espl__ledger *, uint64_t lease, espl_time at, espl_reason,
    espl_money provider_says /* -1 unknown */);
/* What it will have cost if it ends at this time for this reason. */
espl_money espl__ledger_due(const struct espl__ledger *, uint64_t lease, espl_time at, espl_reason);
espl_money espl__ledger_lease(const struct espl__ledger *, uint64_t lease, espl_time now);
espl_money espl__ledger_total(const struct espl__ledger *, espl_time now); /* O(open leases) */
/* Micro-dollars per second that open leases cost at present prices. */
double espl__ledger_rate(const struct espl__ledger *);
/* Leases that were free because the provider ended them early: what they would have cost. */
struct espl__refunds {
	espl_money usd;
	double gpu_s;
};
struct espl__refunds espl__ledger_refunds(const struct espl__ledger *);
espl_time espl__ledger_billed_from(const struct espl__ledger *,
    uint64_t lease); /* NEVER before it */
#endif
