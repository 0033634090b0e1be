/* cluster.h - nodes: what is held and what could be, leases. */
#ifndef ESPL__EXEC_CLUSTER_H
#define ESPL__EXEC_CLUSTER_H
#include "exec/state.h"

/* cluster.c */
void espl__exec_let_go(struct espl__exec *);
/* needed: nodes are, by some search; else all are above the targets. */
void espl__exec_give_ups(struct espl__exec *, int needed);
void espl__exec_gpu_time(struct espl__exec *);            /* accounts up to now */
uint64_t espl__exec_potential(const struct espl__exec *); /* GPUs that could ever be held */
void espl__exec_show_node(struct espl__exec *, struct espl__machine *, const char *why);
/* What the placer left: see cluster.c. */
void espl__cluster_retire(struct espl__exec *x, int needed);
void espl__cluster_release(struct espl__exec *x);

/* cluster_leases.c */
void espl__lease_nodes(struct espl__exec *);
void espl__lease_ready(struct espl__exec *, const struct espl__machine *);
/* Shows policies the offers whose pause has ended. */
void espl__lease_show_offers(struct espl__exec *);
void espl__lease_proved(struct espl__exec *,
    struct espl__machine *); /* a trial reported from there */
void espl__lease_ended(struct espl__exec *, const struct espl__machine *, espl_reason,
    const char *why);
espl_time espl__lease_retry_at(const struct espl__exec *); /* NEVER: no offer pauses */
/* The lease is about to end; the provider has named the earliest time for the next request. */
void espl__lease_retry(struct espl__exec *, uint64_t lease, espl_span after);
void espl__lease_forget_retries(struct espl__exec *);
void espl__lease_records_reset(struct espl__exec *);
void espl__lease_records_free(struct espl__exec *);
#endif
