/* searches_decisions.h - what the algorithm decides about trials, and what reports and failures
 * mean for their search.
 */
#ifndef ESPL__EXEC_SEARCHES_DECISIONS_H
#define ESPL__EXEC_SEARCHES_DECISIONS_H
#include "exec/state.h"

/* searches_decisions.c */
/* Takes the answer of a call of its algorithm (see espl__exec_answer). */
espl_status espl__search_answer(struct espl__search *, espl_status, struct espl__diag *why,
    struct espl__reader *, struct espl__diag *);
espl_status espl__search_apply(struct espl__exec *, struct espl__search *, struct espl__reader *,
    struct espl__diag *);
espl_status espl__trial_over(struct espl__exec *, struct espl__trial *, espl_end,
    struct espl__diag *);
espl_status espl__trial_verdict(struct espl__exec *, struct espl__trial *, espl_verdict,
    int at_boundary, struct espl__diag *);
/* Of what the algorithm decides about (searches_seeds.h): it ended, of which the algorithm is
 * notified; before that, it failed for good. */
espl_status espl__config_ended(struct espl__exec *, struct espl__trial *, espl_end,
    struct espl__diag *);
void espl__config_failed(struct espl__exec *, struct espl__trial *);
void espl__group_show(const struct espl__search *s, const struct espl__trial_group *g, int ended);

/* searches_reports.c */
espl_status espl__search_report(struct espl__exec *, const struct espl__event *,
    struct espl__diag *);
/* It has a new loss: is it the best? */
void espl__config_scored(struct espl__exec *, struct espl__trial *);
/* The algorithm gets a report of it. */
espl_status espl__search_observe(struct espl__search *, struct espl__trial *,
    const struct espl_observation *, struct espl__diag *);
#endif
