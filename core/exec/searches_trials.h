/* searches_trials.h - trials: their course, their best results and checkpoints. */
#ifndef ESPL__EXEC_SEARCHES_TRIALS_H
#define ESPL__EXEC_SEARCHES_TRIALS_H
#include "exec/state.h"

/* It got its GPUs, after which its stage may begin to train. */
void espl__trial_trains(struct espl__search *, const struct espl__trial *);
/* Changes its state, and notes since when its stage stands still. */
void espl__trial_turns(struct espl__trial *, espl_trial_state);
void espl__trial_runs(struct espl__trial *); /* its processes do */
/* Its processes have ended and it has work left: `why` its allocator is called. */
void espl__trial_wait(struct espl__trial *, uint32_t why);
/* It has nothing to train any more: frees its item; its processes leave. */
void espl__trial_leave(struct espl__exec *, struct espl__trial *);
void espl__trial_saved(struct espl__exec *, struct espl__trial *, uint64_t iteration,
    struct espl__mark);
void espl__trial_collect_later(struct espl__exec *, struct espl__trial *);
void espl__config_collect_later(struct espl__exec *, const struct espl__trial *config);
void espl__searches_collect(struct espl__exec *);
int espl__trial_unsaved(const struct espl__trial *);
void espl__trial_mark_unsaved(struct espl__trial *);
int espl__search_salvage(struct espl__search *); /* trains lost last checkpoints again: 1 if any */
/* Tells the observers, unless it is unasked. */
void espl__trial_show(struct espl__exec *, struct espl__trial *);
void espl__trial_unasked(struct espl__trial *); /* it is new, and so */
void espl__trial_handed(struct espl__trial *);  /* a client gets it: from now on it is shown */
void espl__search_settle(struct espl__search *);
const struct espl_trial *espl__trial_shown(const struct espl__trial *,
    struct espl_trial *room); /* as observers see it */
/* It is, whatever others have reported and will. */
void espl__trial_best_is(struct espl__trial *, uint64_t iteration, double loss);
void espl__trial_best(struct espl__exec *, struct espl__trial *, uint64_t iteration, double loss);
void espl__trial_train_again(struct espl__exec *,
    struct espl__trial *); /* a paused one that lost its checkpoint */

/* ---- clones ---------------------------------------------------------------------------------- */

void espl__clone_begin(struct espl__exec *, struct espl__trial *, const struct espl_start *);
void espl__clone_wait(struct espl__exec *, const struct espl__waiter *);
void espl__clone_gone(const struct espl__trial *);
int espl__clone_waits(const struct espl__trial *);
int espl__clone_wants(const struct espl__trial *source, uint64_t iteration); /* saved there? */
void espl__clone_let_in(struct espl__exec *x, struct espl__trial *t, uint64_t checkpoint,
    const struct espl__waiter *w);
#endif
