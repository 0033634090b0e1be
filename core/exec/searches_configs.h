/* searches_configs.h - experiment.seeds: configurations, and the trials that each has of them.
 *
 * The algorithm decides about configurations (search->configs), the executor trains trials
 * (search->trials): number k of the former has the trials k * seeds to k * seeds + seeds - 1, which
 * differ in their seed alone.  Without experiment.seeds both are the same objects.
 */
#ifndef ESPL__EXEC_SEARCHES_CONFIGS_H
#define ESPL__EXEC_SEARCHES_CONFIGS_H
#include "exec/state.h"

struct espl__seed_report {
	uint64_t iteration; /* 0: none */
	double loss, iteration_s;
	double *metrics;
	uint32_t metric_count;
};

/* What a trial has reported that its configuration has not. */
struct espl__seed_reports {
	struct espl__seed_report *list;
	uint32_t from, count, cap;
	struct espl__seed_report last; /* that its configuration has */
	uint8_t left_out;              /* it counts no more */
};

struct espl__repeats {
	uint64_t first;                /* trial; the others follow */
	struct espl__seed_reports *of; /* [seeds] */
	struct espl_share share;       /* of the last report */
	double spread;
	uint32_t counted; /* trials of which the last mean is */
	uint8_t verdict;  /* espl_verdict that its trials carry out, 0 none */
};

void espl__search_seeds_init(struct espl__search *);
void espl__search_seeds_free(struct espl__search *);
/* What was declared counts configurations; plans and predictions count trials. */
espl_status espl__search_seeds_spec(struct espl__search *, struct espl__diag *);

/* NULL: it confirms one (searches_confirm.h). */
struct espl__trial *espl__config_of(const struct espl__trial *);
struct espl__trial *espl__config_trial(const struct espl__trial *config, uint32_t which);
const char *espl__config_name(const struct espl__trial *config,
    char to[64]);                                              /* "trial 3", "trials 6 to 8" */
uint64_t espl__search_best(const struct espl__search *);       /* a trial of the best; NONE */
uint64_t espl__config_shown(const struct espl__trial *config); /* one that stands for all */
/* Standard deviation of the loss over the trials of the best; NaN: it has one.  *count: how many
 * its mean is of. */
double espl__search_best_spread(const struct espl__search *, uint32_t *count);

/* With experiment.seeds > 1: it is new, or continued; its trials follow. */
struct espl__trial *espl__config_starts(struct espl__search *, uint64_t group,
    const struct espl_start *);
int espl__trial_is_active(const struct espl__trial *); /* it waits or runs; also a configuration */
int espl__config_trains(const struct espl__trial *config); /* one of its trials does */
void espl__config_forget_report(struct espl__seed_report *);
void espl__config_forget(struct espl__seed_reports *); /* all of them */

void espl__trial_seed_turns(const struct espl__trial *); /* its state has changed */
void espl__trial_seed_stops(const struct espl__trial *); /* it ended with its experiment */
#endif
