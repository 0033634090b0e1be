/* brackets.h - Hyperband's brackets: many runs of successive halving, each with a different
 * trade-off between the number of configurations and the length of the first rung.
 *
 * The caller supplies configurations (random: hyperband; a model: bohb).  A bracket is synchronous:
 * its rung ends when every trial of it has ended; the best by (loss, id) are promoted.  `order` and
 * `lazy` determine when brackets begin and when configurations are drawn.
 *
 * Use: brackets_init in create; brackets_spec, brackets_next and brackets_ended in the entries
 * spec, next_group and on_trial_end; brackets_free in destroy.
 */
#ifndef BRACKETS_H
#define BRACKETS_H
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include "shared.h"

/* Configurations in bracket s of 0..S (S rungs of cuts at most), which skips the S - s lowest
 * rungs. */
enum {
	BRACKETS_PAPER, /* ceil((S+1) eta^s / (s+1)): Hyperband (JMLR 2018), Algorithm 1 */
	/* floor((S+1) / (s+1)) eta^s: its first version, BOHB and HpBandSter */
	BRACKETS_WHOLE,
	BRACKETS_ROUNDED_UP /* ceil((S+1) / (s+1)) eta^s: Syne Tune */
};
/* When a bracket begins. */
enum {
	BRACKETS_SEQUENCE, /* when the previous one has ended (the paper) */
	BRACKETS_BESIDE,   /* all at once */
	BRACKETS_OVERLAP   /* when another trial could run and no running bracket has one (the BOHB
			      paper, 4.2: parallelization) */
};

/* The options that such a search begins with. */
/* clang-format off */
#define BRACKETS_OPTIONS \
	{ .name = "trials", .help = "total number of configurations; 0: determined by " \
	  "'passes'", .type = ESPL_OPT_INT, .fallback = "0", .min = "0", .max = "1000000" }, \
	{ .name = "passes", .help = "number of times through all brackets, unless 'trials' is " \
	  "set; 0: until the deadline or the budget is reached", .type = ESPL_OPT_INT, \
	  .fallback = "1", .min = "0", .max = "1000000000" }, \
	SHARED_OPTIONS_CUTS("; see 'rungs'", "3"), \
	{ .name = "rungs", .help = "position of the rungs; scaled: at iterations_max / eta^k " \
	  "(the paper), so the first may be later than iterations_min; anchored: at " \
	  "iterations_min * eta^k and at iterations_max, as in asha and sha", \
	  .type = ESPL_OPT_CHOICE, \
	  .choices = "scaled|anchored", .fallback = "scaled" }, \
	ESPL_TRIED_OPTION
/* clang-format on */
enum {
	BRACKETS_TRIALS,
	BRACKETS_PASSES,
	BRACKETS_ITERATIONS_MIN,
	BRACKETS_ITERATIONS_MAX,
	BRACKETS_ETA,
	BRACKETS_RUNGS,
	BRACKETS_REPEATS,
	BRACKETS_OPTION_COUNT
};

#define BRACKETS_MAGIC 0x62726b74u

struct brackets_setup {
	uint64_t iterations_min, iterations_max; /* of one trial; min <= max, both >= 1 */
	uint64_t eta;                            /* >= 2 */
	uint64_t trials; /* configurations in all: the last bracket has what is left; 0: as
			  * many as `passes` needs */
	uint64_t passes; /* times through all kinds of brackets, unless trials are given; 0: no
			  * end */
	/* 1: rungs at iterations_min * eta^k; 0: at iterations_max / eta^k */
	uint32_t anchored;
	uint32_t kinds;       /* only the first (widest) so many kinds of brackets; 0: all */
	uint32_t rule, order; /* BRACKETS_* */
	uint32_t lazy;        /* 1: a configuration is drawn when it could train at once, so that it
			       * may depend on all results until then; 0: when its bracket begins */
	uint32_t repeats;     /* 1: a configuration may be tried twice */
	uint32_t zero;
};

struct brackets_rung {
	uint64_t until;
	uint32_t trials, zero;
}; /* cumulative iterations */
/* one row of the table; shared by the brackets of all passes */
struct brackets_kind {
	struct brackets_rung *rungs;
	uint32_t rung_count;
	uint32_t s; /* the paper's s: rungs but one */
};
struct brackets_bracket; /* one that runs */

/* A new configuration for this kind of bracket into values.  Called for each configuration that
 * the user has not given, in order of trial ids; again if it was tried before. */
typedef espl_status brackets_source(void *ctx, uint32_t kind, double *values, struct espl_error *);

struct brackets_home {
	uint64_t group, bracket;
};
/* the plugin's; fields may be read, the functions write them */
struct brackets {
	const struct espl_host *host;
	const struct espl_space *space;
	const struct espl_first *first;       /* the user's points, or NULL */
	const struct espl_sampling *sampling; /* NULL: draws are the source's, or uniform */
	struct brackets_setup setup;
	brackets_source *source;
	void *ctx;
	struct brackets_kind *kinds; /* [kind_count], widest first */
	uint32_t kind_count;
	uint32_t shorter; /* 1: the last bracket is not whole: `rest` */
	struct brackets_kind rest;
	uint64_t total;               /* brackets there will be; UINT64_MAX: no end */
	uint64_t made, starts;        /* configurations so far; starts: promotions, too */
	uint64_t begun, filled, over; /* brackets */
	uint64_t due; /* of them, those with a rung that has ended and is not handled yet */
	struct espl_tried tried;        /* the configurations that were made */
	uint64_t wanted;                /* what was asked for; 0: the space has as many */
	uint32_t first_next, zero;      /* of the user's points: the next one */
	double *values;                 /* room for one configuration */
	struct brackets_bracket **live; /* [begun]; NULL: ended */
	uint64_t live_room;
	struct brackets_home *homes; /* of groups, rising */
	uint64_t home_count, home_room;
	int rungs_logged, finished;
	uint32_t magic; /* BRACKETS_MAGIC between init and free */
};

/* values: of BRACKETS_OPTIONS; fills in what they say.  ESPL_E_CONFIG: iterations_min is above
 * iterations_max. */
espl_status brackets_read(const struct espl_value *values, struct brackets_setup *,
    struct espl_error *);
/* source NULL: the sampler's draws, or uniform ones.  ESPL_E_UNSUPPORTED: no space; ESPL_E_NOMEM;
 * ESPL_E_CONFIG, with no option named in the error: a bracket has too many trials, or the search
 * has no end (trials and passes are 0) and the experiment has neither a deadline nor a budget, or
 * its brackets run concurrently. After a failure brackets_free must be called as well. */
espl_status brackets_init(struct brackets *, const struct espl_host *,
    const struct brackets_setup *, brackets_source *source, void *ctx, struct espl_error *);
void brackets_free(struct brackets *);
/* All brackets of the search, if they have an end and follow one another or run side by side; with
 * BRACKETS_OVERLAP their begins are not known, so nothing is declared. */
espl_status brackets_spec(const struct brackets *, struct espl_spec_sink *, struct espl_error *);
/* In next_group; calls finish when the last bracket has ended. */
espl_status brackets_next(struct brackets *, const struct espl_search_view *,
    struct espl_search_sink *, struct espl_error *);
/* In on_trial_end.  Only a trial that reached its budget can be promoted. */
void brackets_ended(struct brackets *, const struct espl_trial *, espl_end);

#endif
