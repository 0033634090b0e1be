/* searches_require.h - what experiment.require makes of the reports of a trial. */
#ifndef ESPL__SEARCHES_REQUIRE_H
#define ESPL__SEARCHES_REQUIRE_H
#include "exec/event.h"
#include "exec/searches.h"

void espl__search_require(struct espl__search *); /* its metrics get their numbers */
/* A report of the trial, which may be the best no more; before espl__trial_compared(). */
void espl__trial_required(struct espl__exec *, struct espl__trial *, const struct espl__event *);
/* With experiment.seeds: of the mean over those of its trials that count. */
void espl__config_required(struct espl__exec *, struct espl__trial *config);
/* The loss as algorithms see it: ESPL_LOSS_UNMET or more if something that is required does not
 * hold.  What is not known yet counts as met there. */
double espl__trial_compared(const struct espl__trial *, double loss);
/* The loss if all that is required is known to hold, else NaN: only such a trial is the best. */
double espl__trial_eligible(const struct espl__trial *, double loss);
/* 1 all holds, 0 something does not, -1 it is not known, or nothing is required. */
int espl__trial_meets(const struct espl__trial *);
/* Returns 1 if no trial is best because of experiment.require, with the reason in text; else 0. */
int espl__search_unmet(const struct espl__search *, char *text, size_t room);
#endif
