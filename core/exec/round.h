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
	uint32_t idle_wakes; /* wake-ups of policies in a row without any effect */
	uint8_t ended;
	enum espl__run_end ending; /* being wound up; 0: no */
	uint8_t user_stops;        /* INTERRUPTED: that is what the user asked for */
	char *end_text;
	const struct espl_experiment **experiments; /* those that allocators are shown */
	uint32_t experiments_cap;

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

/* round_search.c */
espl_status espl__exec_search(struct espl__exec *, struct espl__diag *);
espl_status espl__clones_look(struct espl__search *, struct espl__diag *);

/* round_alloc.c */
void espl__tiers_alarm(struct espl__exec *);           /* allocators whose wake_at has passed */
espl_time espl__tiers_next(const struct espl__exec *); /* when the first wants to be; NEVER */
espl_status espl__exec_allocate(struct espl__exec *, struct espl__diag *);

/* round_place.c */
espl_status espl__exec_place(struct espl__exec *, struct espl__diag *);

/* round_gangs.c */
void espl__exec_settle(struct espl__exec *);

/* round_gang_end.c */
espl_status espl__gang_ended(struct espl__exec *, const struct espl__event *, struct espl__diag *);
void espl__gang_lacks_metric(struct espl__exec *, struct espl__gang *,
    const struct espl__event *report);

/* round_nodes.c */
void espl__exec_gpu(struct espl__exec *, const struct espl__event *);
void espl__exec_node(struct espl__exec *, const struct espl__event *, struct espl__diag *);
void espl__exec_resume(struct espl__exec *);

/* round_end.c */
int espl__inner_stuck(struct espl__exec
	*); /* no progress is possible; 1: ended an experiment that grants nothing of its share */
void espl__exec_stall(struct espl__exec *);
void espl__exec_cluster(struct espl__exec *);

/* round_alarms.c */
void espl__exec_alarms(struct espl__exec *); /* what is due at x->now */
void espl__exec_timer(struct espl__exec *);  /* when to be woken next */

/* round_events.c */
espl_status espl__exec_event(struct espl__exec *, const struct espl__event *, struct espl__diag *);
#endif
