/* executor.h - the deterministic core: events in, decisions and effects out.
 *
 * One round: all events of an instant; then the algorithm's next_group once (and once for each
 * group that ended), the allocator once, the placer once; then the resulting effects. It has no
 * I/O, no clock and no randomness. The world calls it, and so does a replay.
 */
#ifndef ESPL__EXECUTOR_H
#define ESPL__EXECUTOR_H
#include <espalier/algorithm.h>
#include "base/ids.h"
#include "base/tick.h"
#include "config/run.h"
#include "exec/effect.h"
#include "exec/event.h"
#include "forecast/forecast.h"
#include "model/health.h"
#include "model/profile.h"
#include "model/space.h"
#include "plugin/instance.h"

struct espl__exec;
struct espl__earlier;
struct espl__jobs;
struct espl__requirements;
struct espl__search_summary;

/* What a run reads: a configuration file and the files that it names, loaded; an experiment or a
 * pool. driver/cli/inputs.c fills it; it outlives the executor. */
struct espl__inputs {
	struct espl__run_config *config;
	struct espl__space *space;
	struct espl__requirements *requirements; /* experiment.require; NULL none */
	struct espl__profile *profile;
	struct espl__profile *truth;   /* of the simulated world; NULL: `profile` */
	struct espl__earlier *earlier; /* a warm start's observations; NULL none */
	struct espl__jobs *jobs;       /* a pool's plain jobs; NULL none */
	espl_time arrives;             /* in a pool: the world decides when */
	struct espl__inputs *entries;  /* a pool's experiments */
	uint32_t entry_count;
	/* to a running pool, in order of number, from `dir`, the run directory; NULL: not yet */
	struct espl__inputs **submitted;
	uint32_t submitted_count, submitted_cap;
	char *dir;
};
struct espl__exec_setup {
	struct espl__inputs *inputs;
	/* An experiment that was submitted to a running pool: the search of this number.  Asked
	 * again at a replay, so it lies in the run directory. */
	espl_status (*load)(struct espl__inputs *pool, uint64_t number,
	    const struct espl__inputs **, struct espl__diag *);
	int64_t utc_start_s;    /* calendar of time 0, journaled */
	int simulated, verbose; /* verbose: notes are wanted */
	/* The journal format that the run began with, whose rules it keeps; 0: the newest. */
	uint32_t rules;
	struct espl__observer *observers; /* list, may be NULL */
	int64_t (*tick)(void);            /* for statistics of decisions; NULL: none are kept */
	int plan_only;                    /* ends as soon as the plan is made */
	/* plan_only: GPUs per stage, or one number for all; searches nothing */
	const uint32_t *plan_gpus;
	uint32_t plan_gpus_count;
};
/* searches.c: an experiment as its file describes it; nothing that a run adds. */
void espl__experiment_of(const struct espl__run_config *, struct espl_experiment *);
/* "GPU", "GPUs", or of a run on CPUs "slot", "slots". */
static inline const char *
espl__slots_word(int64_t on_cpu, int64_t count)
{
	return on_cpu ? (count == 1 ? "slot" : "slots") : count == 1 ? "GPU" : "GPUs";
}

/* Loads and creates algorithm, allocator and placer and asks for the spec.  Messages of bad
 * options with FILE:LINE. */
espl_status espl__exec_new(const struct espl__exec_setup *, struct espl__exec **,
    struct espl__diag *);
void espl__exec_free(struct espl__exec *);

/* One round at `now` (never earlier than the last). `recorded`: during replay the journaled
 * decisions of this round (see espl__exec_decisions), else NULL. With `accept` the recorded ones
 * are applied whatever the plugins answer now. ESPL_E_BUG: the plugins' answers differ from the
 * recorded ones (diag names plugin and decision), or a policy failed permanently. */
espl_status espl__exec_round(struct espl__exec *, espl_time now, const struct espl__event *,
    uint32_t count, const struct espl__buf *recorded, int accept, struct espl__diag *);
/* Of the last round; valid until the next. */
const struct espl__effect *espl__exec_effects(const struct espl__exec *, uint32_t *count);
/* All answers of the policies in the last round, encoded; empty if none decided anything. */
const struct espl__buf *espl__exec_decisions(const struct espl__exec *);

/* For the world at resume: leases that have not ended. */
struct espl__lease_info {
	uint64_t lease;
	uint32_t offer;
	espl_node_state state;
	espl_money max_price_hour;
	const char *machine; /* that it is on; NULL unknown */
	espl_time since;     /* when it came into its state */
	espl_time ends_at;   /* as in struct espl_node */
	int releasing;       /* a release was asked for */
};
uint32_t espl__exec_leases(const struct espl__exec *, struct espl__lease_info *, uint32_t room);
/* The gangs of a run that lost its driver, as recorded in the journal. */
struct espl__gang_info {
	uint64_t gang, trial; /* trial: with its search, as espl__trial_uid says */
	uint32_t gpus;
	const struct espl_slot *slots;  /* [gpus] */
	uint64_t iteration, budget;     /* last reported (or begun from); as last sent in a reply */
	enum espl__directive directive; /* its last reply; 0: none */
	int started, awaiting, killed, moving; /* moving: it moves to other slots */
	struct espl_share share;
	const struct espl_slot *onto; /* [onto_count], where it moves to; NULL: it does not */
	uint32_t onto_count, attempt; /* attempt: starts of its trial so far, from 0 */
	espl_time began, last_seen;   /* its start, its last sign of life */
	int reported;                 /* any report came */
};
/* By number, at most `room`; returns how many there are.  Valid until the next round. */
uint32_t espl__exec_gangs(const struct espl__exec *, struct espl__gang_info *, uint32_t room);
/* What the world still owes: the instant of EV_TIMER, NEVER none; the computations under way, at
 * most `room` tokens (returns how many there are). */
espl_time espl__exec_timer(const struct espl__exec *);
uint32_t espl__exec_computing(const struct espl__exec *, uint64_t *tokens, uint32_t room);
/* Observers see nothing of what follows: it is a rehearsal. */
void espl__exec_unobserved(struct espl__exec *);
/* Digest of what stays the same while a run is resumed: space, options, files, plugin versions. */
uint64_t espl__exec_digest(const struct espl__exec *);
/* Loads the experiment with this number, through the setup. */
espl_status espl__exec_load(const struct espl__exec *, uint64_t number,
    const struct espl__inputs **, struct espl__diag *);

/* ---- observers ------------------------------------------------------------------------------- */

/* Observers see what the executor does: results.db, the live view, --json.
 *
 * Called from within the executor's step, in order, also during replay (replaying says so).
 * An observer must not fail and may not call back.  Every entry may be NULL.
 */

/* What became of a gang. */
enum espl__gang_phase {
	ESPL__PHASE_STARTING = 1,
	ESPL__PHASE_RUNNING,
	ESPL__PHASE_RESIZED, /* in place */
	ESPL__PHASE_ENDED
};

#define ESPL__CONFIRM_MOST 3u
/* What experiment.confirm has shown.  Intervals: of 95 %; losses are turned: less is better. */
struct espl__confirmation {
	uint32_t folds; /* trainings of each; 0: nothing was confirmed */
	uint32_t count;
	uint32_t winner; /* of list; ESPL_ANY: most trainings of each failed */
	uint64_t first;  /* the first of the trials: fold by fold, one of each of the list */
	struct espl__confirmed {
		uint64_t trial;    /* that stands for the configuration */
		double searched;   /* its loss in the search */
		double mean, half; /* in `counted` trainings, and half of its interval */
		uint32_t counted;
		/* by how much it is worse than the winner in the same folds; NaN unknown */
		double worse, worse_half;
	} list[ESPL__CONFIRM_MOST]; /* the best of the search first */
};
/* The mean of what the trials of a configuration reported. */
struct espl__config_report {
	uint64_t number;       /* of the configuration, with its search as espl__trial_uid says */
	uint64_t first, shown; /* its first trial; the one that stands for it */
	uint32_t seeds;        /* its trials */
	uint32_t counted;      /* those of which it is the mean */
	uint64_t iteration;
	double loss, spread; /* spread: standard deviation; NaN: of one trial */
};

struct espl__observer {
	void *ctx;
	struct espl__observer *next;
	const struct espl__exec *exec; /* set when it is made: what a trial is of may be asked */
	/* A trial was made or changed state, budget, iteration, checkpoint or rung. */
	void (*trial)(void *ctx, espl_time now, const struct espl_trial *);
	void (*report)(void *ctx, espl_time now, const struct espl_trial *, uint64_t iteration,
	    double loss, const struct espl__metric *, uint32_t count, struct espl_share);
	/* A gang came into this phase, on these slots. */
	void (*gang)(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase,
	    struct espl_share, const struct espl_slot *, const char *text);
	/* It was resized in place, and did not train for `took`. A call of gang with the new slots
	 * follows.
	 */
	void (*resized)(void *ctx, espl_time now, uint64_t gang, double took_s);
	/* The end of a gang counts against its trial's retries; a call of trial with its new state
	 * follows.
	 */
	void (*failure)(void *ctx, espl_time now, const struct espl_trial *);
	/* host: what the provider calls the machine; NULL before that is known. */
	void (*node)(void *ctx, espl_time now, const struct espl_node *, const struct espl_offer *,
	    const char *host, espl_money charged, const char *why);
	/* What is known of a machine changed. */
	void (*machine)(void *ctx, espl_time now, const struct espl__health *,
	    const struct espl_offer *);
	/* A group was begun or ended. */
	void (*group)(void *ctx, espl_time now, uint64_t group, uint32_t bracket, uint32_t stage,
	    int ended);
	/* A plan is in force, with its prediction, from the start of the run or from now on. */
	void (*plan)(void *ctx, espl_time now, const struct espl__forecast_stage *, uint32_t count,
	    const struct espl__forecast_result *, const struct espl_plan *);
	/* An experiment of a pool arrived, is ending, or has ended. */
	void (*experiment)(void *ctx, espl_time now, uint64_t number,
	    const struct espl__search_summary *);
	/* Reasons, by policies (note) and by the executor, for `explain`. */
	void (*note)(void *ctx, espl_time now, const char *who, espl_subject, uint64_t id,
	    const char *text);
	void (*end)(void *ctx, espl_time now, enum espl__run_end, const char *text);
	/* A text was attached to a trial, or replaced. */
	void (*trial_note)(void *ctx, espl_time now, const struct espl_trial *, const char *key,
	    const char *text);
	/* With experiment.seeds: all trials of a configuration have passed an iteration. */
	void (*config)(void *ctx, espl_time now, const struct espl__config_report *);
};
#endif
