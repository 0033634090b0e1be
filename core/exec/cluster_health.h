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
/* A new driver: every machine may be leased at once. */
void espl__cluster_forgive_machines(struct espl__exec *);
#endif
