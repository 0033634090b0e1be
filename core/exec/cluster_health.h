/* cluster_health.h - machines: what the executor enters into their ledger. */
#ifndef ESPL__EXEC_CLUSTER_HEALTH_H
#define ESPL__EXEC_CLUSTER_HEALTH_H
#include "exec/state.h"

/* EV_MACHINE: the lease is on this machine. */
void espl__cluster_machine(struct espl__exec *, uint64_t lease, const char *machine);
/* The machine of this lease failed: it is avoided for a while. */
void espl__cluster_fails(struct espl__exec *, const struct espl__machine *, enum espl__health_fault,
    const char *why);
/* A trial reported from there. */
void espl__cluster_works(struct espl__exec *, const struct espl__machine *);
/* It is avoided because trials failed on its machine. */
int espl__cluster_trials_failed(struct espl__exec *, const struct espl__machine *);
/* Until when the machine of this lease is avoided; NEVER: it is not. */
espl_time espl__cluster_avoided_until(struct espl__exec *, const struct espl__machine *);
/* The user holds the machine of this lease out, or gives it back. */
void espl__cluster_drain(struct espl__exec *, struct espl__machine *, int on);
int espl__cluster_is_drained(const struct espl__exec *, const struct espl__machine *);
/* A new driver: nodes are as good as new, but what the user holds out stays out. */
void espl__cluster_again(struct espl__exec *);
void espl__cluster_forgive_machines(struct espl__exec *); /* they may be leased at once */
#endif
