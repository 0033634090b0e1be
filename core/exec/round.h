/* round.h - the steps of a round, in round.c's order. */
#ifndef ESPL__EXEC_ROUND_H
#define ESPL__EXEC_ROUND_H
#include "base/buf.h"
#include "exec/executor.h"

/* What a policy decided last, for a panic. */
#define ESPL__LAST_DECISIONS 8u
struct espl__last_decision {
	espl_time at;
	const char *by; /* the instance's name; lives as long as the executor */
	uint8_t type;   /* enum espl__op_type of the first operation */
};

struct espl__rounds {
	espl_time timer;
	espl_time node_timer; /* the part of it that espl__cluster_next asked for */
	uint32_t idle_wakes;  /* wake-ups of policies in a row without any effect */
	uint8_t only_alarms;  /* in this round nothing has happened but that time has passed */
	espl_time instant;    /* of the last rounds: */
	uint32_t at_instant;  /* that there were without progress */
	uint64_t progress;    /* as it was in the last one */
	uint8_t ended;
	enum espl__run_end ending; /* being wound up; 0: no */
	uint8_t user_stops;        /* INTERRUPTED: that is what the user asked for */
	char *end_text;
	const struct espl_experiment **experiments; /* those that allocators are shown */
	uint32_t experiments_cap;
	struct espl_offer *offers; /* as allocators see them: limits of equal ones together */
	const struct espl_offer **offer_list;
	uint32_t offers_cap, offer_list_cap;

	/* its answers and effects */
	struct espl__buf decisions, ops;
	struct espl__reader recorded;
	uint8_t replaying, accept;
	uint64_t recorded_seq; /* of the frame ahead; UINT64_MAX none */
	const void *recorded_ops;
	size_t recorded_size;
	uint64_t call_seq;
	struct espl__last_decision last[ESPL__LAST_DECISIONS]; /* a ring */
	uint32_t last_count;                                   /* ever */
	struct espl__effect *effects;
	uint32_t effect_count, effect_cap;
};

/* Events of an instant, one by one; the first calls the others (round_events.c). */
espl_status espl__round_event(struct espl__exec *, const struct espl__event *, struct espl__diag *);
void espl__round_node(struct espl__exec *, const struct espl__event *);
void espl__round_unfit(struct espl__exec *, const struct espl__event *);
void espl__round_drain(struct espl__exec *, const struct espl__event *);
void espl__round_gpu(struct espl__exec *, const struct espl__event *);
void espl__round_no_route(struct espl__exec *, const struct espl__event *);
espl_status espl__round_gang_ended(struct espl__exec *, const struct espl__event *,
    struct espl__diag *);
void espl__round_resume(struct espl__exec *); /* a new driver */
/* EXTEND of a run that is complete: RESUME, which follows, finds it interrupted. */
void espl__round_reopen(struct espl__exec *);
void espl__round_continue(struct espl__exec *); /* REOPEN came */
/* The steps after them, in this order. */
void espl__round_alarms(struct espl__exec *); /* what is due at x->now */
espl_status espl__round_allocate(struct espl__exec *, struct espl__diag *);
void espl__round_settle(struct espl__exec *); /* replies to reports; what can start starts */
void espl__round_end(struct espl__exec *);    /* the end of the run; nodes follow targets */
void espl__round_haste(struct espl__exec *);  /* ends a policy that would never let time pass */
void espl__round_timer(struct espl__exec *);  /* when to be woken next */
/* Brings news of the cluster to all that plan with it. */
void espl__round_news(struct espl__exec *);
/* Nodes have changed: all policies that decide about them are called again. */
void espl__round_mark_nodes(struct espl__exec *);
#endif
