/* searches_seeds.h - experiment.seeds: the trials of a configuration as one, for the algorithm. */
#ifndef ESPL__EXEC_SEARCHES_SEEDS_H
#define ESPL__EXEC_SEARCHES_SEEDS_H
#include "exec/state.h"

/* All with experiment.seeds > 1. */
espl_status espl__config_verdict(struct espl__exec *, struct espl__trial *config, espl_verdict,
    struct espl__diag *);
/* Its gang has reported; loss as compared, metrics in the experiment's order. */
espl_status espl__trial_seed_reports(struct espl__exec *, struct espl__trial *,
    const struct espl_observation *, struct espl__diag *);
espl_status espl__trial_seed_over(struct espl__exec *, struct espl__trial *, espl_end,
    struct espl__diag *);
#endif
