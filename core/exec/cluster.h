/* cluster.h - nodes: what is held and what could be, leases. */
#ifndef ESPL__EXEC_CLUSTER_H
#define ESPL__EXEC_CLUSTER_H
#include "exec/executor.h"
#include "model/fleet.h"

/* Results of leasing nodes of one offer. */
struct espl__offer_record {
	espl_time retry_at;      /* no lease before this time; NEVER: at once */
	espl_time not_before;    /* the provider's word for the next pause; NEVER: none */
	espl_time refused_since; /* no capacity, or over the quota; NEVER: it is not */
	uint64_t last_refused;   /* lease */
	uint32_t refused;        /* leases in a row, since a node was ready last */
	/* tries in a row that failed before a report from their node; their leases */
	uint32_t failed, lost;
	char *reason; /* of the last one */
	uint8_t closed;
	uint8_t hidden; /* from policies, until retry_at */
};

struct espl__cluster {
	struct espl__offer_record *records; /* [number of the offer] (cluster_leases.c) */
	uint32_t record_count, record_cap;
	char *node_why; /* why the node of this lease is about to end; NULL */
	uint64_t node_why_lease;
	espl_time node_why_at;
	struct espl_give_up *give_up; /* nodes above the targets, by offer */
	uint32_t give_up_count, give_up_cap;
	uint8_t cloud_ready; /* EV_CLOUD came */
	uint8_t cloud_waits; /* it is still to come */
	uint8_t dirty;       /* targets, nodes or what they are for changed */
	uint8_t surplus;     /* nodes above target that still hold trials */
	uint8_t leased;      /* since unused was counted last */
	uint32_t unused;     /* times in a row that nodes ended before any trial ran there */
	uint32_t nodes_peak;
	double gpu_s; /* held, up to: */
	espl_time gpu_since;
};

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
