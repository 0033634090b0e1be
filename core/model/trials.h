/* trials.h - trials and trial groups of one experiment, and the only place their states change.
 *
 *   WAITING <-> RUNNING -> PAUSED -> WAITING (continued)      PAUSED, RUNNING -> ENDED
 *   WAITING, RUNNING -> FAILED.  ENDED and FAILED are final.
 * Records keep their addresses; a trial costs sizeof(struct espl__trial) + 8 bytes a parameter.
 */
#ifndef ESPL__TRIALS_H
#define ESPL__TRIALS_H
#include <espalier/algorithm.h>
#include "base/mem.h"

#define ESPL__TRIALS_MAX 1000000u /* of an experiment: docs/architecture.md, Limits */

struct espl__earlier;
struct espl__item;    /* exec/items.h: what the allocator sees of an active trial */
struct espl__gang;    /* exec/gangs.h: its processes */
struct espl__search;  /* exec/searches.h: the owner of the trials */
struct espl__repeats; /* exec/searches_configs.h: what the trials of a configuration reported */

/* Where a program is.  An iteration of the executor is one of the program, or with
 * algorithm.resource a unit of the resource. */
struct espl__mark {
	uint64_t step;   /* the program's own number */
	double resource; /* used until then */
};

/* A way in which a trial has failed (exec/searches_faults.c). */
struct espl__way {
	struct espl__way *next; /* the one before */
	uint64_t iteration;     /* the last that the attempt reported */
	uint64_t reports;       /* that it made, the last time */
	uint32_t times;
	const char *sum; /* the reason: what it has in common with others of its kind */
};

/* A text with a name that the trial, or its user, has attached to it (base/notes.h). */
struct espl__trial_note {
	struct espl__trial_note *next; /* attached later */
	char *key, *text;
};

struct espl__trial {
	struct espl_trial pub;       /* what plugins see */
	struct espl__item *item;     /* while it has a budget to train; else NULL */
	struct espl__gang *gang;     /* its processes, perhaps on their way out; else NULL */
	struct espl__search *search; /* that it belongs to */
	/* clone without its own checkpoint: the trial whose checkpoint to load; NONE */
	uint64_t source;
	uint64_t source_checkpoint; /* of the source */
	/* of its own checkpoint, and of source_checkpoint: what the program calls that iteration,
	 * and how much of the resource it had used */
	struct espl__mark mark, source_mark;
	uint64_t began;          /* iteration of its parent from which a clone trains; 0 */
	uint32_t clones_waiting; /* clones that still need a checkpoint of this one */
	struct espl_share last;  /* on what it started last */
	uint64_t gpu_memory;     /* bytes seen in use per GPU; 0 unknown */
	/* of its iterations that were timed: by the clock, by the profile */
	double took_s, expected_s;
	espl_span trained; /* with processes, in gangs that are gone and before a resize */
	uint32_t attempts, failures;
	uint32_t lost;      /* nodes in a row that went away under it; */
	uint64_t lost_at;   /* with this as its checkpoint */
	uint32_t stamp;     /* of the policy call that continued it last */
	uint8_t dropped;    /* will never be continued or cloned */
	uint8_t unsaved;    /* ended at its budget, but its last checkpoint was lost */
	uint8_t save_asked; /* a clone, the algorithm or a node at risk wants one */
	uint8_t verdict;    /* espl_verdict to carry out at the next boundary, 0 none */
	uint8_t displaced;  /* its gang gave its slots back while it was training */
	uint8_t restarts;   /* a resize in place has failed: no other is tried */
	/* its processes are at pub.iteration: a checkpoint can be made, or is being made */
	uint8_t can_save;
	uint8_t itself;    /* said that it is complete */
	uint8_t cut;       /* its experiment ended before it: by a failure or a limit */
	uint8_t finish;    /* enum espl__finish, as counted */
	uint8_t concluded; /* it has been counted as ended, or failed */
	uint8_t measured;  /* one of its reports had a finite loss: */
	double lowest;     /* the least of them */
	uint8_t scored;    /* one of its reports had the metric */
	uint8_t unwanted;  /* the user has stopped it while it was paused */
	uint8_t held;      /* its retry waits until other configurations have been tried */
	/* config.asked: made, but not handed out to a client.  Algorithms make a trial ahead, so
	 * that something asks for GPUs; users do not see it yet. */
	uint8_t unasked;
	/* experiment.require (exec/searches_require.c) */
	double *required; /* the last values of its metrics, NaN unknown; NULL: none are required */
	const char *unscored;   /* before that: what its first report lacks; NULL */
	uint64_t failed_on;     /* node of its last failure; NONE */
	espl_time failed_at;    /* when that was */
	struct espl__way *ways; /* in which it has failed, the newest first */
	struct espl__trial_note *notes;
	uint64_t loss_on[2]; /* the last machines lost under it, the newest first; NONE */
	uint64_t config;  /* searches_configs.h: number of its configuration; NONE: confirms it */
	uint64_t seed_of; /* it has the seed of the trial with this number */
	uint32_t fold;    /* of those that confirm, from 1; else 0 */
	/* with experiment.seeds, of a configuration as the algorithm sees it; NULL: it is trained
	 */
	struct espl__repeats *repeats;
};
/* What became of a trial that trains no more; 0: it trains, waits, is paused or failed. */
enum espl__finish { ESPL__FINISH_COMPLETED = 1, ESPL__FINISH_EARLY };
struct espl__trial_group {
	uint64_t id;
	uint32_t flags; /* ESPL_GROUP_OPEN while more may come */
	uint32_t bracket, stage, concurrency;
	uint64_t trials, active; /* added; of these waiting or running */
	uint64_t running;
	uint32_t stamp; /* of the policy call that closed it */
	/* with a plan: when its barrier has passed; NEVER not known */
	espl_time over_at;
	uint8_t asked;        /* taken out of the list of ended ones */
	uint8_t end_reported; /* its end is, or was, reported to the algorithm */
	/* begun closed: closes when the answer that began it is done */
	uint8_t will_close;
};
struct espl__trials {
	struct espl__search *search; /* theirs */
	struct espl__pool trials, groups;
	struct espl__arena values;
	uint32_t params; /* doubles per configuration */
	uint64_t running, waiting, paused, ended, failed;
	/* train no more and did not fail; of these, stopped early */
	uint64_t finished, early;
	uint64_t unfinished; /* ended with their experiment */
	uint64_t concluded;  /* have been completed, stopped early or failed; rises only */
	uint64_t full;       /* iterations of a trial that is never stopped; 0 unknown */
	uint8_t settled;     /* no trial is continued any more */
	uint8_t mirror;      /* its groups end with those of another */
	struct espl__trial_group **open_ended; /* closed groups whose end is not reported yet */
	uint32_t ended_count, ended_cap;
};
/* It is about to end with its experiment: unfinished. */
void espl__trial_cut(struct espl__trials *, struct espl__trial *);
/* Seed of a trial's own random numbers, the same in every world. */
uint64_t espl__trial_seed(uint64_t run_seed, uint64_t trial);
void espl__trials_init(struct espl__trials *, uint32_t params);
void espl__trials_free(struct espl__trials *);
struct espl__trial *espl__trial_at(const struct espl__trials *, uint64_t id); /* NULL unknown */
struct espl__trial_group *espl__group_at(const struct espl__trials *,
    uint64_t id); /* NULL unknown */
struct espl__trial_group *espl__group_new(struct espl__trials *, const struct espl_group *);
/* values are copied; NULL: shares those of `parent`.  WAITING, in the group. */
struct espl__trial *espl__trial_new(struct espl__trials *, struct espl__trial_group *,
    const double *values, struct espl__trial *parent);
/* PAUSED -> WAITING in (perhaps another) group with a new budget. */
void espl__trial_continue(struct espl__trials *, struct espl__trial *, struct espl__trial_group *);
/* PAUSED -> WAITING in the same group, which has ended and does not count it again. */
void espl__trial_again(struct espl__trials *, struct espl__trial *);
/* Any legal change; asserts legality, keeps the counts, and notes ended groups. */
void espl__trial_state(struct espl__trials *, struct espl__trial *, espl_trial_state);
/* PAUSED, and never continued again. */
void espl__trial_drop(struct espl__trials *, struct espl__trial *);
uint64_t espl__trial_restores(
    const struct espl__trial *); /* the iteration at which a start resumes */
struct espl__mark espl__trial_restores_mark(const struct espl__trial *);
/* What its program calls the iteration of its checkpoint; 0: it has none. */
uint64_t espl__trial_kept(const struct espl__trial *);
/* The search has ended: none of its trials will train again. alike: they were to train equally far;
 * 0: each is complete at its own budget. */
void espl__trials_settle(struct espl__trials *, int alike);
/* The search goes on after all: paused trials may be continued again. */
void espl__trials_unsettle(struct espl__trials *);
/* "running", "paused", "completed", "stopped early", ...: the state in words for people and
 * results. */
const char *espl__trial_word(const struct espl__trials *, const struct espl__trial *);
/* Replaces the note of this name, or adds one. 0; -1: it has as many others as it may have. */
int espl__trial_note(struct espl__trial *, const char *key, const char *text);
/* Whether espl__trial_note would. */
int espl__trial_takes_note(const struct espl__trial *, const char *key);
void espl__group_close(struct espl__trials *, struct espl__trial_group *);
/* The oldest closed group without active trials whose end is not reported yet; marks it. */
struct espl__trial_group *espl__group_next_ended(struct espl__trials *);

/* ---- history.c ------------------------------------------------------------------------------- */

/* Observations for algorithms that asked for them, kept compactly.
 *
 * 40 bytes and 8 a further metric for each observation; curves are chained per trial.
 */

struct espl__history;
/* earlier: observations that precede the first one of this run; NULL none */
struct espl__history *espl__history_new(const struct espl__trials *,
    const struct espl__earlier *earlier);
void espl__history_free(struct espl__history *);
const struct espl_history *espl__history_view(struct espl__history *);
/* metrics: by metric number, NaN where not reported; [0] is the objective, raw. */
void espl__history_add(struct espl__history *, const struct espl_observation *);
/* The user's first points: count arrays of params doubles, borrowed. */
void espl__history_first(struct espl__history *, const double *const *points, uint32_t count);
#endif
