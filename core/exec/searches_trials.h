/* searches_trials.h - trials: results, checkpoints, clones, and what the algorithm decides
 * about them.
 */
#ifndef ESPL__EXEC_SEARCHES_TRIALS_H
#define ESPL__EXEC_SEARCHES_TRIALS_H
#include "exec/state.h"

/* searches_trials.c */
void espl__exec_trains(struct espl__search *, const struct espl__trial *);
void espl__exec_drop(struct espl__exec *, struct espl__trial *);
void espl__exec_saved(struct espl__exec *, struct espl__trial *, uint64_t iteration);
void espl__exec_collect_later(struct espl__exec *, struct espl__trial *);
void espl__exec_collect(struct espl__exec *);
int espl__exec_unsaved(const struct espl__trial *);
void espl__exec_mark_unsaved(struct espl__trial *);
int espl__exec_salvage(struct espl__search *); /* trains lost last checkpoints again: 1 if any */
void espl__exec_show(struct espl__exec *, struct espl__trial *);
void espl__search_settle(struct espl__search *);
const struct espl_trial *espl__exec_shown(const struct espl__trial *,
    struct espl_trial *room); /* as observers see it */
void espl__exec_best(struct espl__exec *, struct espl__trial *, uint64_t iteration, double loss);
void espl__exec_train_again(struct espl__exec *,
    struct espl__trial *); /* a paused one that lost its checkpoint */
void espl__clone_begin(struct espl__exec *, struct espl__trial *, const struct espl_start *);
void espl__clone_wait(struct espl__exec *, const struct espl__waiter *);
void espl__clone_gone(const struct espl__trial *);
int espl__clone_waits(const struct espl__trial *);
int espl__clone_wants(const struct espl__trial *source, uint64_t iteration); /* saved there? */
void espl__clone_let_in(struct espl__exec *x, struct espl__trial *t, uint64_t checkpoint,
    const struct espl__waiter *w);

/* searches_decisions.c */
espl_status espl__exec_apply_search(struct espl__exec *, struct espl__search *,
    struct espl__reader *, struct espl__diag *);
espl_status espl__exec_trial_over(struct espl__exec *, struct espl__trial *, espl_end,
    struct espl__diag *);
espl_status espl__exec_verdict(struct espl__exec *, struct espl__trial *, espl_verdict,
    int at_boundary, struct espl__diag *);
void espl__group_show(const struct espl__search *s, const struct espl__trial_group *g, int ended);
#endif
