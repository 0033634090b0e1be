/* cluster.h - nodes: what is held and what could be, leases. */
#ifndef ESPL__EXEC_CLUSTER_H
#define ESPL__EXEC_CLUSTER_H
#include "exec/executor.h"
#include "model/fleet.h"
#include "model/health.h"
#include "model/trials.h"

/* Results of leasing nodes of one offer. */
struct espl__offer_record {
	espl_time retry_at;      /* no lease before this time; NEVER: at once */
	espl_time not_before;    /* the provider's word for the next pause; NEVER: none */
	espl_time refused_since; /* no capacity, or over the quota; NEVER: it is not */
	uint64_t last_refused;   /* lease */
	uint32_t refused;        /* leases in a row, since a node was ready last */
	/* tries in a row that failed before a report from their node; their leases */
	uint32_t failed, lost;
	espl_time failing_since; /* the first of these; NEVER: none */
	uint64_t suspect;        /* that the last of them was lost with; NONE */
	char *reason;            /* of the last one */
	uint8_t closed;
	uint8_t hidden;   /* from policies, until retry_at */
	uint8_t answered; /* an agent has joined from one of its machines */
};

struct espl__cluster {
	struct espl__offer_record *records; /* [number of the offer] (cluster_leases.c) */
	uint32_t record_count, record_cap;
	struct espl__health_book health; /* of machines (cluster_health.c) */
	char *node_why;                  /* why the node of this lease is about to end; NULL */
	uint64_t node_why_lease;
	espl_time node_why_at;
	struct espl_give_up *give_up; /* nodes above the targets, by offer */
	uint32_t give_up_count, give_up_cap;
	uint8_t cloud_ready; /* EV_CLOUD came */
	uint8_t cloud_waits; /* it is still to come */
	uint8_t dirty;       /* targets, nodes or what they are for changed */
	uint8_t surplus;     /* nodes above target that still hold trials */
	uint8_t leased;      /* since unused was counted last */
	uint8_t offers_changed;
	uint32_t unused; /* times in a row that nodes ended before any trial ran there */
	uint32_t nodes_peak;
	uint32_t interrupted;      /* nodes that were interrupted since a trial saved or ended */
	uint64_t interrupted_gang; /* id of the first gang to begin after the first of these */
	espl_time interrupted_since;
	espl_time clock_at; /* when a node has been in a state before READY for too long; NEVER */
	double gpu_s;       /* held, up to: */
	espl_time gpu_since;
};

void espl__cluster_init(struct espl__exec *);
void espl__cluster_free(struct espl__exec *);
/* 1: the offers that policies see have changed since the last call. */
int espl__cluster_take_news(struct espl__exec *);
void espl__cluster_gpu_time(struct espl__exec *);            /* accounts up to now */
uint64_t espl__cluster_potential(const struct espl__exec *); /* GPUs that could ever be held */
void espl__cluster_show_node(struct espl__exec *, struct espl__machine *, const char *why);
/* ---- cluster_sources.c: offers of equal shape share a target ---- */

/* May nodes of other offers count toward a target? */
int espl__cluster_pools(const struct espl__exec *);
/* Nodes of this other offer can do what those of `offer` do, and the user allows it. */
int espl__cluster_is_source(const struct espl__exec *, uint32_t offer, uint32_t source);
/* nodes_max of an offer and its sources together. */
uint32_t espl__cluster_room(const struct espl__exec *, uint32_t offer);
/* A lease of the offer ended.  If it is gone, with its last node, then those that stood in for its
 * nodes count for their own offers. */
void espl__cluster_own_up(struct espl__exec *, uint32_t offer);

/* Targets, nodes or what they are for changed. */
void espl__cluster_mark(struct espl__exec *);
void espl__cluster_used(struct espl__exec *); /* a trial runs on its nodes */
/* EV_CLOUD: the offers are known. */
espl_status espl__cluster_cloud(struct espl__exec *, const struct espl__event *,
    struct espl__diag *);
/* Since when leases of the offer have failed in a row; NEVER: they do not. */
espl_time espl__cluster_failing_since(const struct espl__exec *, uint32_t offer);
void espl__cluster_paid_off(struct espl__exec *); /* a trial saved or ended */
/* EV_NODE_WHY: why this lease is about to end. */
void espl__cluster_node_why(struct espl__exec *, uint64_t lease, const char *text);
/* A gang failed on this node before it reported. */
void espl__cluster_failed_on(struct espl__exec *, const struct espl__gang *, uint64_t lease);
/* A gang has reported for the first time: its nodes work. If several trials that failed on another
 * node work here, that node is at fault, not the trials. 1: it is now set aside. */
int espl__cluster_worked(struct espl__exec *, const struct espl__gang *, uint64_t since);
#endif
