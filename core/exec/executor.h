/* executor.h - the deterministic core: events in, decisions and effects out.
 *
 * One round: all events of an instant; then the algorithm's next_group once (and once for each
 * group that ended), the allocator once, the placer once; then what follows from it as effects.
 * No I/O, no clock, no randomness of its own.  The world pumps it; replay pumps it too.
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
#include "model/profile.h"
#include "model/space.h"
#include "plugin/instance.h"

struct espl__exec;
struct espl__earlier;
struct espl__jobs;

/* A configuration file with all that it names, loaded: an experiment or a pool.  The driver's
 * session.c fills it; it outlives the executor. */
struct espl__session {
	struct espl__run_config *config;
	struct espl__space *space;
	struct espl__profile *profile;
	struct espl__earlier *earlier; /* a warm start's observations; NULL none */
	struct espl__jobs *jobs;       /* a pool's plain jobs; NULL none */
	espl_time arrives;             /* in a pool: the world decides when */
	struct espl__session *entries; /* a pool's experiments */
	uint32_t entry_count;
	/* to a running pool, in order of number, from `dir`, the run directory; NULL: not yet */
	struct espl__session **submitted;
	uint32_t submitted_count, submitted_cap;
	char *dir;
};
struct espl__exec_setup {
	struct espl__session *session;
	/* An experiment that was submitted to a running pool: the search of this number.  Asked
	 * again at a replay, so it lies in the run's folder. */
	espl_status (*load)(struct espl__session *pool, uint64_t number,
	    const struct espl__session **, struct espl__diag *);
	int64_t utc_start_s;              /* calendar of time 0, journaled */
	int simulated, verbose;           /* verbose: notes are wanted */
	struct espl__observer *observers; /* list, may be NULL */
	int64_t (*tick)(void);            /* for statistics of decisions; NULL: none are kept */
	int plan_only;                    /* ends as soon as the plan is made */
	/* plan_only: GPUs per stage, or one number for all; searches nothing */
	const uint32_t *plan_gpus;
	uint32_t plan_gpus_count;
};
/* Loads and creates algorithm, allocator and placer and asks for the spec.  Messages of bad
 * options with FILE:LINE. */
espl_status espl__exec_new(const struct espl__exec_setup *, struct espl__exec **,
    struct espl__diag *);
void espl__exec_free(struct espl__exec *);

/* One round at `now` (never earlier than the last).  `recorded`: during replay the journaled
 * decisions of this round (see espl__exec_decisions), else NULL.  With `accept` the recorded
 * ones are applied whatever the plugins say now.
 * ESPL_E_BUG: the plugins' answers differ from the recorded ones (diag names plugin and
 * decision), or a policy failed for good. */
espl_status espl__exec_round(struct espl__exec *, espl_time now, const struct espl__event *,
    uint32_t count, const struct espl__buf *recorded, int accept, struct espl__diag *);
/* Of the last round; valid until the next. */
const struct espl__effect *espl__exec_effects(const struct espl__exec *, uint32_t *count);
/* All answers of the policies in the last round, encoded; empty if none decided anything. */
const struct espl__buf *espl__exec_decisions(const struct espl__exec *);

/* What must hold between runs of one folder: digest of space, options, files, plugin versions. */
uint64_t espl__exec_digest(const struct espl__exec *);
int espl__exec_ended(const struct espl__exec *);     /* FX_END was given */
espl_time espl__exec_now(const struct espl__exec *); /* of the last round */
/* DEADLINE or BUDGET: that ended the run, for everybody and for good; else 0. */
enum espl__run_end espl__exec_cut(const struct espl__exec *);
/* Brackets that the algorithm of this search (0, or a pool's experiment) has declared; 0: none. */
uint32_t espl__exec_brackets(const struct espl__exec *, uint64_t search);
/* Name -> number of metrics known so far (EV_METRIC); ESPL_ANY unknown. */
uint32_t espl__exec_metric(const struct espl__exec *, const char *name);
const char *espl__exec_metric_name(const struct espl__exec *, uint32_t metric);
uint32_t espl__exec_metric_count(const struct espl__exec *);
/* Offers by number, NULL beyond the last; leases that have not ended (for the world at resume). */
const struct espl_offer *espl__exec_offer(const struct espl__exec *, uint32_t number);
/* The most that one of the trials or jobs needs at least. */
uint32_t espl__exec_gpus_min(const struct espl__exec *);
/* "GPU", "GPUs", or of a run on CPUs "slot", "slots". */
static inline const char *
espl__slots_word(int64_t on_cpu, int64_t count)
{
	return on_cpu ? (count == 1 ? "slot" : "slots") : count == 1 ? "GPU" : "GPUs";
}
struct espl__lease_info {
	uint64_t lease;
	uint32_t offer;
	espl_node_state state;
	espl_money max_price_hour;
};
uint32_t espl__exec_leases(const struct espl__exec *, struct espl__lease_info *, uint32_t room);
/* The gangs of a run that lost its driver, as recorded in the journal. */
struct espl__gang_info {
	uint64_t gang, trial; /* trial: with its search, as espl__trial_uid says */
	uint32_t gpus;
	const struct espl_slot *slots;         /* [gpus] */
	uint64_t iteration, budget;            /* last reported (or begun from); as told */
	enum espl__directive told;             /* its last reply; 0: none */
	int started, awaiting, killed, moving; /* moving: it moves to other slots */
};
/* By number, at most `room`; returns how many there are.  Valid until the next round. */
uint32_t espl__exec_gangs(const struct espl__exec *, struct espl__gang_info *, uint32_t room);
int espl__exec_on_cpu(const struct espl__exec *); /* what counts as a GPU is a slot of a CPU */
const struct espl_trial *espl__exec_trial(const struct espl__exec *,
    uint64_t trial); /* NULL unknown */
/* "running", "paused", "completed", "stopped early", ...; NULL unknown. */
const char *espl__exec_trial_word(const struct espl__exec *, uint64_t trial);
uint64_t espl__exec_trial_restores(const struct espl__exec *,
    uint64_t trial); /* from where a start trains */
uint64_t espl__exec_trial_began(const struct espl__exec *,
    uint64_t trial); /* iteration of its parent; 0: no clone */

/* The plain jobs of a workload; only those that began, or have ended, count in the times. */
struct espl__job_times {
	double mean, p95, max;
}; /* NaN: there is none yet */
struct espl__jobs_summary {
	/* jobs is 0 without a workload */
	uint32_t jobs, arrived, to_come, done, failed, cancelled;
	/* until it was given GPUs; until it was done */
	struct espl__job_times queue_s, total_s;
	double makespan_s; /* when the last one was done */
};
/* Searches by number: in an ordinary run 0 alone; NULL beyond the last.  Whether it has arrived, so
 * that no EV_EXPERIMENT is needed. */
const struct espl__session *espl__exec_search_of(const struct espl__exec *, uint64_t number);
int espl__exec_pool(const struct espl__exec *); /* is it one? */
/* Loads the experiment with this number, through the setup. */
espl_status espl__exec_load(const struct espl__exec *, uint64_t number,
    const struct espl__session **, struct espl__diag *);
uint64_t espl__exec_searches(const struct espl__exec *); /* how many there are */
/* Finds a pool's experiment (trial NONE) or plain job (its number) by name.  0: there is none. */
int espl__exec_named(const struct espl__exec *, const char *name, uint64_t *number,
    uint64_t *trial);
/* Can it still be cancelled?  NULL, or why not. */
const char *espl__exec_cancels(const struct espl__exec *, uint64_t number, uint64_t trial);
int espl__exec_has_come(const struct espl__exec *, uint64_t number);
/* an experiment of a pool */
struct espl__search_summary {
	const char *name, *metric;
	const char *text;       /* why it ended so; NULL none */
	enum espl__run_end how; /* 0 while it runs */
	int come, maximize;
	espl_time arrived, ended; /* NEVER: not yet */
	uint64_t trials, completed, early, failed, running, waiting;
	uint64_t best, best_iteration; /* best: its number in the experiment, NONE */
	double best_loss, gpu_s;
	espl_money spent;
	uint32_t gpus; /* that its trials hold now */
};
/* 0: there is no such experiment (the plain jobs are not one). */
int espl__exec_search_sum(const struct espl__exec *, uint64_t number,
    struct espl__search_summary *);
/* The workload (NULL: none), and how many of its jobs have arrived. */
const struct espl__jobs *espl__exec_workload(const struct espl__exec *);
uint64_t espl__exec_jobs_come(const struct espl__exec *);
int espl__exec_job_cancelled(const struct espl__exec *, uint64_t number);

struct espl__exec_summary {
	enum espl__run_end how; /* 0 while it runs */
	/* why it failed, or what interrupted it; "": the user did */
	char text[512];
	/* the search is complete: there is nothing to resume */
	int over;
	char failure[512]; /* the last failure of a trial; "": none */
	uint64_t trials, failed, running, waiting;
	/* train no more and did not fail; of these, stopped early */
	uint64_t completed, early;
	uint64_t best;            /* trial, ESPL_NONE none */
	double best_loss;         /* turned: less is better */
	uint64_t best_iteration;  /* at which best_loss was reported */
	uint64_t best_checkpoint; /* of the best trial, 0 none */
	espl_time now;
	espl_money cost, budget, refunded; /* refunded: not in cost */
	double refunded_gpu_s;             /* held by nodes that were free */
	double gpu_s, busy_gpu_s;          /* held by nodes; used by gangs */
	uint64_t resizes;
	uint32_t nodes, nodes_peak, nodes_leaked; /* held now; leases not ended at the end */
	uint32_t gpus, gpus_busy;
	int on_cpu;                         /* espl__exec_on_cpu */
	uint64_t reports, decisions, calls; /* calls of policies, and what they answered */
	double least_s, least_usd; /* after ESPL_E_INFEASIBLE: what would do; NaN unknown */
	struct espl__quantiles decision_times, call_times;
	struct espl__jobs_summary jobs;
};
/* The plan in force with its prediction; NULL: none.  After a failed search for one
 * (ESPL_E_INFEASIBLE) `least_*` say what would do, NaN where it is not known. */
struct espl__exec_plan_info {
	const struct espl_plan *plan;
	const struct espl__forecast_stage *rows; /* [plan->stage_count] */
	const struct espl__forecast_result *result;
	const struct espl_spec *spec;
	double least_s, least_usd;
};
void espl__exec_plan_info(const struct espl__exec *, struct espl__exec_plan_info *);
void espl__exec_summary(const struct espl__exec *, struct espl__exec_summary *);
/* One online decision of the allocator on a given view (espalier allocate) is in policy/. */

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
	void (*node)(void *ctx, espl_time now, const struct espl_node *, const struct espl_offer *,
	    espl_money charged, const char *why);
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
};
#endif
