/* state.h - the executor's own state, shared only by its files.
 *
 * One executor holds one fleet, one ledger and one allocator, and any number of searches: an
 * ordinary run has one, a pool one for each experiment and one for its plain jobs.
 *
 * Ownership: everything hangs on struct espl__exec and is freed by espl__exec_free.  Items live
 * while a trial has a budget to train; gangs while processes exist, from START to ENDED.
 */
#ifndef ESPL__EXEC_STATE_H
#define ESPL__EXEC_STATE_H
#include <stddef.h>

#include "base/map.h"
#include "exec/executor.h"
#include "model/fleet.h"
#include "model/trials.h"
#include "model/jobs.h"
#include "model/ledger.h"
#include "model/market.h"
#include "policy/call.h"
#include "policy/model_service.h"

struct espl__tier;
struct espl__inner;
struct espl__item {
	struct espl_item pub;      /* first: the allocator sees it */
	struct espl_gang view;     /* the placer sees it */
	struct espl__tier *tier;   /* the one whose allocator decides about it */
	struct espl__trial *trial; /* NULL: it stands for a whole experiment: */
	struct espl__inner *whole; /* this one */
	struct espl_slot *target;  /* the placement in force (= view.slots) */
	uint32_t target_count, target_cap;
	uint64_t *nodes; /* of the target, distinct (= pub.nodes) */
	uint32_t node_cap;
	uint32_t stamp;        /* of the answer that mentioned it last */
	uint8_t alloc_changed; /* is in tier->changed */
	uint8_t place_changed; /* is in exec->place_changed */
	uint8_t pending;       /* is in exec->pending */
	uint8_t in_gangs;      /* is in exec->gangs_view */
	uint8_t counted;       /* in the sums of its experiment (items.c), as: */
	uint32_t counted_least, counted_most;
	double counted_work;
};

/* A clone that waits for its source's checkpoint, with what its item will need. */
struct espl__waiter {
	struct espl__trial *trial;
	uint64_t wanted; /* iteration of that checkpoint; 0: whichever comes first */
	double weight;
	uint32_t gpus_min, gpus_max;
};

enum espl__gang_state { ESPL__GANG_STARTING = 1, ESPL__GANG_RUNNING, ESPL__GANG_LEAVING };
#define ESPL__GANG_MAGIC 0x63656a63u
struct espl__gang {
	uint32_t magic; /* ESPL__GANG_MAGIC */
	uint64_t id;
	struct espl__trial *trial;
	enum espl__gang_state state;
	struct espl_share share;
	struct espl_slot *slots; /* share.gpus of them: the seats held */
	struct espl_slot *onto;  /* the slots it is moving to, held as well; NULL: none */
	uint32_t onto_count;
	uint64_t iteration;               /* last reported by this gang; what it began from */
	uint64_t budget;                  /* as told */
	espl_time began, heard, saved_at; /* start; last sign of life; last checkpoint */
	uint8_t awaiting;                 /* a report wants its reply */
	uint8_t killed;
	uint8_t outlived; /* the driver that started it; cleared by EV_RESUME */
	uint8_t told;     /* enum espl__directive of its last reply; 0: none yet */
	uint8_t reported; /* any report came */
	/* with a plan: the id of its item, reported as gone when the GPUs are free; else NONE */
	uint64_t leaves;
	/* it has reported: the next report gives the time of an iteration */
	uint8_t warmed;
	uint8_t sharers;    /* trials on its GPU at its last report, itself included */
	uint8_t hopeless;   /* it failed in a way that is certain to happen again */
	uint8_t quiet_told; /* the warning about a missing report was given */
	/* its trial's budget is reached: it leaves, unless kept warm */
	uint8_t over;
	char *fault;                      /* why the executor ends it as failed, or NULL */
	struct espl__gang *prev, *next;   /* all gangs, by id */
	struct espl__gang *older, *newer; /* by last sign of life */
};

struct espl__job_state {
	espl_time arrived, started, ended; /* NEVER: not yet */
	uint8_t cancelled;                 /* by the user, perhaps before it came */
};
struct espl__search;
struct espl__pending_compute {
	uint64_t token;
	struct espl__search *search; /* its algorithm asked; NULL: */
	struct espl__tier *tier;     /* the allocator of this tier did */
};
/* for the next view of one instance */
struct espl__outcomes {
	const struct espl_outcome **list;
	uint32_t count, cap;
	struct espl__arena arena;
};

/* What one allocator decides about: the cluster, or, of a pool's experiment with an allocator of
 * its own, that experiment's share. */
struct espl__tier {
	struct espl__inner *inner; /* the share that it divides; NULL: the cluster */
	struct espl__instance *allocator;
	struct espl__outcomes outcomes;
	uint32_t why;                   /* what its next call is for */
	espl_time wake_at;              /* when it wants to be called; NEVER */
	uint8_t failures;               /* in a row */
	const struct espl_item **items; /* live ones by id, from items_from on */
	uint64_t items_from, items_count, items_cap;
	const struct espl_item **changed;
	uint32_t changed_count, changed_cap;
	uint64_t *gone, *gone_of; /* items, and the trials (espl__trial_uid) they stood for */
	uint32_t gone_count, gone_cap;
	uint64_t granted_whole;     /* GPUs of grants in force */
	uint32_t granted_parts[65]; /* grants of 1/c, by c */
};

/* An experiment of a pool whose share its own allocator divides. */
#define ESPL__INNER_POINTS 40u /* of the curve: doublings, and the two ends of each law */

#define ESPL__INNER_MAGIC 0x6c6b6b60u
struct espl__inner {
	struct espl__tier tier; /* of its trials */
	uint32_t magic;         /* ESPL__INNER_MAGIC */
	struct espl__search *search;
	struct espl__item *item;           /* in the pool's tier; NULL: nothing to train */
	struct espl_experiment experiment; /* as its allocator sees it: limited to the share */
	const struct espl_experiment *shown;
	uint32_t *targets; /* as its allocator asked; the machines are the pool's */
	uint32_t targets_cap;
	struct espl_offer *offers; /* the pool's, without nodes_max: the share alone limits */
	const struct espl_offer **offer_list;
	uint32_t offers_cap, offer_list_cap;
	uint64_t most;        /* sum of what the trials can use */
	uint32_t least;       /* of their least grants */
	uint32_t least_count; /* trials that have it; 0: it has to be looked up */
	double work_s;        /* sum of their work */
	uint64_t unknown;     /* trials of which it is not known */
	espl_time started;    /* when it was granted anything first; NEVER */
	uint32_t curve_trials, curve_most, curve_unit; /* that the curve was made for */
	struct espl_point curve[ESPL__INNER_POINTS];
};

/* Gangs in a row that ended before they reported anything. */
struct espl__unstarted {
	uint32_t count, different; /* of them; different trials */
	uint64_t until;            /* gangs below this number ran when the row began */
	uint64_t trials[3];        /* NONE: unused */
	uint64_t node;             /* of the last one */
	uint8_t one_node;          /* all were on it */
};

/* Trials in a row that failed at the same iteration with the same words. */
struct espl__alike {
	char *text;
	uint64_t iteration, trials[3];
	uint32_t count; /* of trials */
};

#define ESPL__SEARCH_MAGIC 0x75636774u
/* What belongs to one experiment.  The plain jobs of a pool are the trials of a search that has no
 * algorithm: the executor itself begins them when they arrive. */
struct espl__search {
	uint32_t magic; /* ESPL__SEARCH_MAGIC */
	struct espl__exec *exec;
	uint32_t number;
	const struct espl__session *session;
	const struct espl__run_config *config; /* session's */
	struct espl__host_env env;
	struct espl__instance *algorithm; /* NULL: the jobs of a workload */
	struct espl__tier *tier;          /* that its trials' items are in */
	struct espl__trials trials;
	struct espl__history *history; /* NULL until asked for */
	uint32_t objective;            /* its number among the executor's metrics */
	const char **metrics;          /* the executor's, the objective first; NULL: they are */
	uint32_t metrics_cap;
	struct espl_experiment experiment;
	struct espl_standing *standing;
	const struct espl_standing **standing_list;
	const double **first; /* the user's first points */
	uint32_t first_count;
	struct espl_first first_service;
	struct espl__outcomes outcomes;

	/* the plan (searches_plan.c) */
	struct espl__model_service model;
	struct espl__forecast_stage *plan_rows; /* as laid out and predicted, in the arena */
	struct espl__forecast_result plan_result;
	uint32_t plan_count;
	uint32_t *stand_next, stand_next_cap; /* lent to the model's forecasts from now on */
	double *stand_past;
	uint32_t stand_past_cap;
	struct espl__forecast_node *stand_held;
	uint32_t stand_held_cap;
	struct espl__trial_group **barred; /* ended, but their barrier has not passed */
	uint32_t barred_count, barred_cap;
	espl_time barrier_at; /* when the next one will; NEVER */

	uint32_t why;      /* what the next call of the algorithm is for */
	espl_time wake_at; /* when it wants to be called; NEVER */
	uint8_t come;      /* it has arrived */
	uint8_t over;      /* in a pool: it has completed */
	uint8_t finished;  /* the algorithm called finish */
	uint8_t planned;   /* the allocator was asked for a plan, if it makes any */
	uint8_t in_place;  /* gangs are resized while they live */
	/* trial.checkpoint, until the program turns out to make none */
	uint8_t saves;
	uint8_t saved;    /* a checkpoint of one of its trials was complete */
	uint8_t reported; /* one of its trials reported the metric */
	struct espl__unstarted unstarted;
	struct espl__alike alike;
	uint8_t failures;             /* of the algorithm, in a row */
	struct espl__waiter *waiters; /* clones that cannot begin yet */
	uint32_t waiter_count, waiter_cap;
	struct espl__trial **unsaved;
	uint32_t unsaved_count, unsaved_cap;

	uint32_t gang_count;       /* of its trials */
	double granted;            /* GPUs, parts counted as such */
	enum espl__run_end ending; /* in a pool: it is being wound up; 0: no */
	char *end_text;
	espl_time ended; /* NEVER: not yet */

	/* instead of an algorithm */
	const struct espl__jobs *jobs;      /* NULL: there is one */
	struct espl__job_state *job_states; /* by number of the trial */
	uint32_t jobs_cancelled;

	/* statistics */
	uint64_t best, best_iteration, failed;
	uint64_t best_failed; /* of the trials that failed for good; NONE */
	uint64_t resized;     /* in place */
	double resized_s;     /* and what that took together */
	double best_loss, busy_gpu_s;
	double longest_s; /* an iteration took, at most */
};

/* Results of leasing nodes of one offer. */
struct espl__offer_record {
	espl_time retry_at;      /* no lease before this time; NEVER: at once */
	espl_time not_before;    /* the provider's word for the next pause; NEVER: none */
	espl_time refused_since; /* no capacity, or over the quota; NEVER: it is not */
	uint64_t last_refused;   /* lease */
	uint32_t refused;        /* leases in a row, since a node was ready last */
	/* tries in a row that failed before a report from their node; their leases */
	uint32_t failed, lost;
	char *reason; /* of the last one */
	uint8_t closed;
	uint8_t hidden; /* from policies, until retry_at */
};

/* What a policy decided last, for a panic. */
#define ESPL__LAST_DECISIONS 8u
struct espl__last_decision {
	espl_time at;
	const char *by; /* the instance's name; lives as long as the executor */
	uint8_t type;   /* enum espl__op_type of the first operation */
};

#define ESPL__EXEC_MAGIC 0x617c6167u
struct espl__exec {
	struct espl__exec_setup setup;
	uint32_t magic;                        /* ESPL__EXEC_MAGIC */
	const struct espl__run_config *config; /* of the run, or of the pool */
	struct espl__arena arena;              /* lives as long as the executor */
	struct espl__host_env env;
	struct espl__instance *placer;
	struct espl__tier top; /* of the whole cluster */
	struct espl__caller caller;
	struct espl__search **searches; /* by number */
	uint32_t search_count, search_cap;
	const struct espl_experiment **experiments; /* those that allocators are shown */
	uint32_t experiments_cap;
	struct espl__fleet fleet;
	struct espl__ledger *ledger;
	struct espl__market market;
	struct espl__offer_record *offer_records; /* [number of the offer] (cluster_leases.c) */
	uint32_t offer_record_count, offer_record_cap;
	char *node_why; /* why the node of this lease is about to end; NULL */
	uint64_t node_why_lease;
	espl_time node_why_at;
	struct espl__names metrics; /* of all searches, as they were named */
	struct espl_compute compute;
	struct espl_model model; /* of whichever search is asked about */
	struct espl__pending_compute *computing;
	uint32_t computing_count, computing_cap;

	espl_time now, timer;
	espl_time spent_at; /* when what was spent was summed last */

	/* items */
	struct espl__pool items_pool;
	struct espl__item **items_free;
	uint32_t items_free_count, items_free_cap;
	uint64_t item_next, item_count;      /* the next id; trials' items there are */
	const struct espl_gang **gangs_view; /* all with a grant, by item */
	uint32_t gangs_count, gangs_cap;
	struct espl__item **place_list; /* those that the placer must check */
	uint32_t place_count, place_cap;
	const struct espl_gang **place_view;
	uint32_t place_view_cap;
	uint32_t unplaced;           /* items with a grant and no target */
	struct espl__item **pending; /* to be started, or to be moved by their gang */
	uint32_t pending_count, pending_cap;
	uint32_t stamp; /* rises with every answer of allocator and placer */

	/* gangs */
	struct espl__map gang_map;
	struct espl__gang *gang_first, *gang_last, *oldest, *newest;
	uint64_t gang_next;
	uint32_t gang_count;
	/* what ended the run is in its configuration: resume would end so, too */
	int futile;
	struct espl__gang **awaiting;
	uint32_t awaiting_count, awaiting_cap;

	uint64_t places; /* config.asked: trials that clients hold or want; 0: nothing is wanted */

	/* what the next calls are for */
	uint32_t place_why;
	uint8_t cloud_ready; /* EV_CLOUD came */
	uint8_t cloud_waits; /* it is still to come */
	uint8_t seats_freed; /* in this round: the placer may look again */
	uint8_t ended;
	uint8_t cluster_dirty;     /* targets, nodes or what they are for changed */
	uint8_t surplus;           /* nodes above target that still hold trials */
	uint8_t leased;            /* since unused was counted last */
	uint32_t idle_wakes;       /* wake-ups of policies in a row without any effect */
	uint32_t unused;           /* times in a row that nodes ended before any trial ran there */
	uint8_t placer_failures;   /* in a row */
	enum espl__run_end ending; /* being wound up; 0: no */
	uint8_t user_stops;        /* INTERRUPTED: that is what the user asked for */
	char *end_text;
	struct espl_give_up *give_up;
	uint32_t give_up_count, give_up_cap;

	struct espl__trial **collect; /* checkpoints to look at when the round is over */
	uint32_t collect_count, collect_cap;

	/* the round's answers and effects */
	struct espl__buf decisions, ops;
	struct espl__arena ops_arena;
	struct espl__reader recorded;
	uint8_t replaying, accept;
	uint64_t recorded_seq; /* of the frame ahead; UINT64_MAX none */
	const void *recorded_ops;
	size_t recorded_size;
	uint64_t call_seq;
	struct espl__last_decision last[ESPL__LAST_DECISIONS]; /* a ring */
	uint32_t last_count;                                   /* ever */
	struct espl__effect *effects;
	uint32_t effect_count, effect_cap;
	char *last_failure; /* text of the last failed gang */

	/* statistics */
	uint64_t resizes, reports;
	double gpu_s, busy_gpu_s;
	espl_time gpu_since;
	uint32_t nodes_peak, gpus_busy;
};

/* A trial's id everywhere but in its own search: that of an ordinary run's trial is its number. */
static inline uint64_t
espl__trial_uid(const struct espl__trial *t)
{
	return (uint64_t)t->search->number << ESPL__TRIAL_BITS | t->pub.id;
}

static inline struct espl__item *
espl__item_of_gang(const struct espl_gang *view)
{
	return (struct espl__item *)((char *)(uintptr_t)view - offsetof(struct espl__item, view));
}
#endif
