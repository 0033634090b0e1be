/* round.h - the steps of a round, in round.c's order. */
#ifndef ESPL__EXEC_ROUND_H
#define ESPL__EXEC_ROUND_H
#include "exec/state.h"

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
