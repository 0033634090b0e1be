/* searches_plan.h - plans, and what policies may ask of the host. */
#ifndef ESPL__EXEC_SEARCHES_PLAN_H
#define ESPL__EXEC_SEARCHES_PLAN_H
#include "exec/state.h"

/* searches_ask.c */
espl_status espl__searches_ask(struct espl__exec *, struct espl__diag *); /* asks all algorithms */

/* searches_plan.c */
void espl__search_plan_init(struct espl__search *);
void espl__search_plan_free(struct espl__search *);
espl_status espl__search_plan(struct espl__search *, struct espl__diag *);
void espl__search_take_plan(struct espl__search *, const struct espl_plan *, int from_now);
int espl__trial_waits_warm(const struct espl__exec *,
    const struct espl__trial *); /* in its processes, at the barrier */
struct espl__trial_group *espl__search_group_over(struct espl__search *); /* NULL none */

/* searches_services.c */
/* A computation of the call just made, of the search's algorithm or (search NULL) the tier's
 * allocator. */
void espl__searches_submit(struct espl__exec *, struct espl__search *, struct espl__tier *,
    uint64_t token);
const void *espl__search_service(void *ctx, struct espl__instance *,
    const char *id); /* of the search's algorithm */
const void *espl__searches_service(void *ctx, struct espl__instance *,
    const char *id); /* of the allocator */
/* EV_OUTCOME: a computation has ended. */
void espl__searches_outcome(struct espl__exec *x, const struct espl__event *e);

void espl__searches_plugin_note(void *exec, struct espl__instance *, espl_subject, uint64_t id,
    const char *text);
void espl__search_plugin_note(void *search, struct espl__instance *, espl_subject, uint64_t id,
    const char *text);
#endif
