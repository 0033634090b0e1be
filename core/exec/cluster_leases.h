/* cluster_leases.h - leases, and the targets that they follow. */
#ifndef ESPL__EXEC_CLUSTER_LEASES_H
#define ESPL__EXEC_CLUSTER_LEASES_H
#include "exec/state.h"

/* cluster_leases.c */
void espl__lease_nodes(struct espl__exec *);
/* The node is in this state now, with `gpus` as found (READY; ESPL_ANY: as offered). */
void espl__lease_state(struct espl__exec *, struct espl__machine *, espl_node_state, uint32_t gpus);
/* Shows policies the offers whose pause has ended. */
void espl__lease_show_offers(struct espl__exec *);
void espl__lease_proved(struct espl__exec *,
    struct espl__machine *); /* a trial reported from there */
void espl__lease_ended(struct espl__exec *, const struct espl__machine *, espl_reason,
    const char *why);
/* It is of no use: set aside, and released once its trials have left.  0: as far as is known, no
 * other machine can be had. */
int espl__lease_unfit(struct espl__exec *, struct espl__machine *, enum espl__health_fault,
    const char *why);
/* Its machine is known: one on which trials failed is not used while others of the offer work. */
void espl__lease_on_machine(struct espl__exec *, struct espl__machine *);
/* The user chose another offer. */
int espl__cluster_is_unwanted(const struct espl__exec *, uint32_t offer);
/* How long a request of this offer may stay open while none of it has been delivered and
 * another offer is left; 0: as long as any. */
espl_span espl__cluster_queue_limit(const struct espl__exec *, uint32_t offer);
/* Another machine could be leased instead of this one. */
int espl__lease_replaces(const struct espl__exec *, const struct espl__machine *);
void espl__lease_alarm(struct espl__exec *); /* gives up nodes that never start */
/* A new driver, which may forgive: the user may have fixed why offers failed. */
void espl__lease_resume(struct espl__exec *, int forgive);
espl_time espl__lease_retry_at(const struct espl__exec *); /* NEVER: no offer pauses */
/* The lease is about to end; the provider has named the earliest time for the next request. */
void espl__lease_retry(struct espl__exec *, uint64_t lease, espl_span after);
void espl__lease_forget_retries(struct espl__exec *);
/* The cloud has described it, again if the run was resumed: one that was given up stays so. */
void espl__lease_offered(struct espl__exec *, uint32_t offer);

/* cluster_clocks.c: how long a lease may stay in a state before READY. */
espl_time espl__cluster_next(const struct espl__exec *); /* NEVER: nothing to wait for */
/* For how long the node may stay in its state; 0: there is no limit. */
espl_span espl__cluster_limit(const struct espl__exec *, const struct espl__machine *);
void espl__cluster_clock(struct espl__exec *); /* states of nodes have changed */

/* cluster_targets.c; needed: nodes are, by some search; else all are above the targets. */
/* What the placer may give up, by offer. */
void espl__cluster_give_ups(struct espl__exec *, int needed);
/* The placer gives this node up.  1: there are more than targets ask for, and it is released. */
int espl__cluster_give_up(struct espl__exec *, struct espl__machine *);
/* Releases nodes under notice, and quarantined ones where others can be leased: both are replaced.
 */
void espl__cluster_let_go(struct espl__exec *);
/* Releases and leases nodes, if anything has changed. */
void espl__cluster_follow(struct espl__exec *, int needed);
#endif
