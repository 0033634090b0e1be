/* state.h - the executor's own state, shared by its files and nobody else.
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
#include "model/history.h"
#include "model/jobs.h"
#include "model/ledger.h"
#include "model/trials.h"
#include "policy/call.h"
#include "policy/model_service.h"

struct espl__tier;
struct espl__inner;
struct espl__item {
	struct espl_item pub;      /* first: the allocator sees it */
	struct espl_gang view;     /* the placer sees it */
	struct espl__tier *tier;   /* whose allocator decides about it */
	struct espl__trial *trial; /* NULL: it stands for a whole experiment, namely */
	struct espl__inner *whole; /* this one */
	struct espl_slot *target;  /* the placement in force (= view.slots) */
	uint32_t target_count, target_cap;
	uint64_t *nodes; /* of the target, distinct (= pub.nodes) */
	uint32_t node_cap;
	uint32_t stamp;        /* of the answer that mentioned it last */
	uint8_t alloc_changed; /* stands in tier->changed */
	uint8_t place_changed; /* stands in exec->place_changed */
	uint8_t pending;       /* stands in exec->pending */
	uint8_t in_gangs;      /* stands in exec->gangs_view */
	uint8_t counted;       /* in the sums of its experiment (exec_inner.c), as: */
	uint32_t counted_least, counted_most;
	double counted_work;
};

/* A clone whose source's checkpoint is not kept yet, with what its item will need. */
struct espl__waiter {
	struct espl__trial *trial;
	uint64_t wanted; /* iteration of that checkpoint; 0: whichever comes first */
	double weight;
	uint32_t gpus_min, gpus_max;
};

enum espl__gang_state { ESPL__GANG_STARTING = 1, ESPL__GANG_RUNNING, ESPL__GANG_LEAVING };
struct espl__gang {
	uint64_t id;
	struct espl__trial *trial;
	enum espl__gang_state state;
	struct espl_share share;
	struct espl_slot *slots; /* share.gpus of them: the seats held */
	struct espl_slot *onto;  /* the seats it is going over to, held as well; NULL none */
	uint32_t onto_count;
	uint64_t iteration;               /* last reported by this gang; what it began from */
	uint64_t budget;                  /* as told */
	espl_time began, heard, saved_at; /* start; last sign of life; last checkpoint */
	uint8_t awaiting;                 /* a report wants its reply */
	uint8_t killed;
	uint8_t reported; /* any report came */
	/* with a plan: its item's id, told as gone when the GPUs are free; else NONE */
	uint64_t leaves;
	/* a report was heard: the next one tells how long an iteration takes */
	uint8_t warmed;
	uint8_t sharers;    /* trials on its GPU at its last report, itself included */
	uint8_t hopeless;   /* it failed in a way that is certain to happen again */
	uint8_t quiet_told; /* that it has not reported for long */
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
	struct espl__search *search; /* whose algorithm asked; NULL: */
	struct espl__tier *tier;     /* its allocator did */
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
	struct espl__inner *inner; /* whose share it is; NULL: the cluster */
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

/* What belongs to one experiment.  The plain jobs of a pool are the trials of a search that has no
 * algorithm: the executor itself begins them when they arrive. */
struct espl__search {
	struct espl__exec *exec;
	uint32_t number;
	const struct espl__run_config *config;
	const struct espl__space *space;
	const struct espl__profile *profile;
	const struct espl__earlier *earlier; /* a warm start's observations; NULL none */
	struct espl__search_setup setup;
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

	/* the plan (exec_plan.c) */
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
	uint8_t come;      /* has arrived */
	uint8_t over;      /* in a pool: nothing of it is left to be done */
	uint8_t finished;  /* the algorithm said so */
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

	/* in place of an algorithm */
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

/* What leasing nodes of one offer came to. */
struct espl__offer_record {
	espl_time retry_at;      /* none is leased before; NEVER: at once */
	espl_time refused_since; /* no capacity, or over the quota; NEVER: it is not */
	uint64_t last_refused;   /* lease */
	uint32_t refused;        /* leases in a row, since a node was ready last */
	/* leases in a row that failed before a report from their node; for one reason */
	uint32_t failed, alike;
	char *reason; /* of the last one */
	uint8_t closed;
};

struct espl__exec {
	struct espl__exec_setup setup;
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
	struct espl__offer_record *offer_records; /* [number of the offer] (exec_lease.c) */
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
	struct espl__item **place_list; /* whose place the placer must look at */
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

	/* what the next calls are for */
	uint32_t place_why;
	uint8_t cloud_ready; /* EV_CLOUD came */
	uint8_t cloud_waits; /* it is still to come */
	uint8_t seats_freed; /* in this round: the placer may look again */
	uint8_t ended;
	uint8_t cluster_dirty;     /* targets, nodes or what they are for changed */
	uint8_t surplus;           /* nodes above target that are still sat on */
	uint8_t leased;            /* since unused was counted last */
	uint32_t idle_wakes;       /* policies woke up as they had asked, and nothing moved */
	uint32_t unused;           /* times in a row that nodes went which nobody had sat on */
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
	uint8_t replaying, accept, diverged;
	uint64_t recorded_seq; /* of the frame ahead; UINT64_MAX none */
	const void *recorded_ops;
	size_t recorded_size;
	uint64_t call_seq;
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

/* executor.c */
struct espl__effect *espl__exec_effect(struct espl__exec *, enum espl__effect_type);
/* exec_note.c: reasons; those of plugins for the whole run (ctx: executor), and of one experiment's
 * (ctx: search) */
void espl__exec_note(struct espl__exec *, espl_subject, uint64_t id, const char *format, ...)
    ESPL_PRINTF(4, 5);
/* The same, and a warning in the log. */
void espl__exec_warn(struct espl__exec *, espl_subject, uint64_t id, const char *format, ...)
    ESPL_PRINTF(4, 5);
void espl__exec_plugin_note(void *exec, struct espl__instance *, espl_subject, uint64_t id,
    const char *text);
void espl__search_plugin_note(void *search, struct espl__instance *, espl_subject, uint64_t id,
    const char *text);
/* Ends the run: how, and for RUN_FAILED why (the first reason stands). */
void espl__exec_wind_up(struct espl__exec *, enum espl__run_end, const char *format, ...)
    ESPL_PRINTF(3, 4);
/* Does the algorithm hear of results?  What comes while an interrupted run stops, too: it is
 * resumed. */
int espl__exec_hears(const struct espl__search *);
/* Calls of an algorithm are made for its search: from here on until the next one. */
void espl__exec_turn(struct espl__exec *, struct espl__search *);
/* Takes the answer of the call just made: compares or replaces it by the recorded one, journals
 * it, and sets the reader.  `search`: the algorithm's, NULL for allocator and placer.  `status` of
 * the call; BUSY and failures leave an empty answer.  Not OK: the run cannot go on. */
espl_status espl__exec_answer(struct espl__exec *, struct espl__search *, struct espl__instance *,
    espl_status, struct espl__diag *why, struct espl__reader *, struct espl__diag *);
int espl__exec_next_op(struct espl__exec *, struct espl__reader *, struct espl__op *);

/* exec_event.c */
espl_status espl__exec_event(struct espl__exec *, const struct espl__event *, struct espl__diag *);
/* exec_end.c */
espl_status espl__gang_ended(struct espl__exec *, const struct espl__event *, struct espl__diag *);
void espl__gang_lacks_metric(struct espl__exec *, struct espl__gang *,
    const struct espl__event *report);
/* exec_search.c */
espl_status espl__exec_search(struct espl__exec *, struct espl__diag *);
espl_status espl__exec_apply_search(struct espl__exec *, struct espl__search *,
    struct espl__reader *, struct espl__diag *);
/* A computation of the call just made, of the search's algorithm or (search NULL) the tier's
 * allocator. */
void espl__exec_submit(struct espl__exec *, struct espl__search *, struct espl__tier *,
    uint64_t token);
/* search.c */
void espl__exec_trains(struct espl__search *, const struct espl__trial *);
espl_status espl__search_add(struct espl__exec *, const struct espl__search_setup *,
    struct espl__diag *);
espl_status espl__search_declare(struct espl__search *,
    struct espl__diag *); /* allocator and placer are there */
void espl__search_free(struct espl__search *);
void espl__exec_show_search(const struct espl__search *);
espl_status espl__search_arrive(struct espl__exec *, uint64_t number, struct espl__diag *);
void espl__search_cancel(struct espl__exec *, uint64_t number, uint64_t trial);
/* Ends it: an ordinary run with it, a pool goes on with the others. */
void espl__search_wind_up(struct espl__search *, enum espl__run_end, const char *format, ...)
    ESPL_PRINTF(3, 4);
void espl__search_closed(struct espl__search *); /* nothing of it trains any more */
int espl__search_came_to_nothing(const struct espl__search *, char *why,
    size_t room);                              /* 1: why is written */
void espl__search_alarms(struct espl__exec *); /* deadlines and budgets of a pool's experiments */
espl_time espl__search_limits_at(const struct espl__exec *); /* when one of them may be due */
const void *espl__search_service(void *ctx, struct espl__instance *,
    const char *id); /* of the search's algorithm */
const void *espl__exec_service(void *ctx, struct espl__instance *,
    const char *id); /* of the allocator */
espl_status espl__search_suits(const struct espl__search *,
    struct espl__diag *);                      /* can its trials ever run? */
void espl__exec_capacity(struct espl__exec *); /* GPUs came free: algorithms are asked */
void espl__exec_model_init(struct espl__exec *);
void espl__exec_compute_init(struct espl__exec *);
void espl__search_metric(struct espl__search *);    /* the executor knows one more */
int espl__search_idle(const struct espl__search *); /* finished, and nothing is left to train */
uint32_t espl__searches_open(const struct espl__exec *); /* those that are not being wound up */
int espl__exec_to_come(const struct espl__exec *);       /* will somebody arrive? */
int espl__exec_idle(const struct espl__exec *);          /* all are, and nobody is to come */
void espl__search_spent(struct espl__exec *);            /* each one's part of what was spent */
espl_time espl__search_next(const struct espl__exec *);  /* the first alarm of any; NEVER none */
/* exec_jobs.c: the jobs of a workload */
espl_status espl__jobs_init(struct espl__search *, const struct espl__jobs *);
void espl__job_arrive(struct espl__exec *, const struct espl__event *);
void espl__jobs_skip(
    struct espl__search *); /* those next that were cancelled come, and have ended */
void espl__job_item(const struct espl__trial *, struct espl_item *);
double espl__job_left(const struct espl__trial *,
    uint64_t iteration); /* work, as allocators are told */
void espl__job_started(const struct espl__trial *);
void espl__job_ended(const struct espl__trial *);
void espl__jobs_sum(const struct espl__exec *, struct espl__jobs_summary *);
void espl__jobs_look(struct espl__exec *); /* estimates that are drawn anew */
/* exec_plan.c */
void espl__exec_plan_init(struct espl__search *);
void espl__exec_plan_free(struct espl__search *);
espl_status espl__exec_plan(struct espl__search *, struct espl__diag *);
void espl__exec_take_plan(struct espl__search *, const struct espl_plan *, int from_now);
const struct espl__forecast_stage *espl__exec_planned(const struct espl__search *, uint32_t bracket,
    uint32_t stage); /* NULL none */
int espl__exec_waits_warm(const struct espl__exec *,
    const struct espl__trial *); /* in its processes, at the barrier */
struct espl__trial_group *espl__exec_group_over(struct espl__search *); /* NULL none */
/* exec_trial.c */
espl_status espl__exec_trial_over(struct espl__exec *, struct espl__trial *, espl_end,
    struct espl__diag *);
espl_status espl__exec_verdict(struct espl__exec *, struct espl__trial *, espl_verdict,
    int at_boundary, struct espl__diag *);
void espl__exec_drop(struct espl__exec *, struct espl__trial *);
void espl__exec_saved(struct espl__exec *, struct espl__trial *, uint64_t iteration);
void espl__exec_collect_later(struct espl__exec *, struct espl__trial *);
void espl__exec_collect(struct espl__exec *);
int espl__exec_unsaved(const struct espl__trial *);
void espl__exec_mark_unsaved(struct espl__trial *);
int espl__exec_salvage(struct espl__search *); /* trains lost last checkpoints again: 1 if any */
void espl__exec_show(struct espl__exec *, struct espl__trial *);
void espl__search_settle(struct espl__search *);
const char *espl__exec_unit(const struct espl__exec *, uint64_t count); /* "GPU", "slots", ... */
const struct espl_trial *espl__exec_shown(const struct espl__trial *,
    struct espl_trial *room); /* as observers see it */
void espl__exec_best(struct espl__exec *, struct espl__trial *, uint64_t iteration, double loss);
void espl__exec_train_again(struct espl__exec *,
    struct espl__trial *); /* one at rest whose checkpoint was lost */
/* exec_clone.c */
void espl__clone_begin(struct espl__exec *, struct espl__trial *, const struct espl_start *);
void espl__clone_wait(struct espl__exec *, const struct espl__waiter *);
void espl__clone_gone(const struct espl__trial *);
int espl__clone_waits(const struct espl__trial *);
int espl__clone_wants(const struct espl__trial *source, uint64_t iteration); /* saved there? */
espl_status espl__clones_look(struct espl__search *, struct espl__diag *);
uint64_t espl__trial_restores(const struct espl__trial *); /* the iteration a start goes on from */
/* exec_items.c */
struct espl__item *espl__item_new(struct espl__exec *, struct espl__trial *, double weight,
    uint32_t gpus_min, uint32_t gpus_max);
void espl__item_free(struct espl__exec *, struct espl__item *);
void espl__item_gone(struct espl__tier *, uint64_t id,
    const struct espl__trial *); /* the allocator is told */
struct espl__item *espl__item_whole(struct espl__search *,
    struct espl__inner *); /* to be filled, then added */
void espl__item_add(struct espl__item *);
struct espl__item *espl__item_at(const struct espl__tier *, uint64_t id);
const struct espl_item *espl__item_lookup(void *tier, uint64_t id);
struct espl__item *espl__item_granted(const struct espl__exec *,
    uint64_t id); /* NULL: it has no grant */
const struct espl_item *espl__item_placed(void *exec, uint64_t id);
void espl__item_changed(struct espl__item *, uint32_t why);
void espl__item_settled(struct espl__exec *,
    struct espl__item *); /* it trains on what it was granted */
void espl__item_progress(struct espl__exec *, struct espl__item *, uint64_t iteration);
void espl__item_grant(struct espl__exec *, struct espl__item *, struct espl_share, uint32_t offer);
void espl__item_target(struct espl__exec *, struct espl__item *, const struct espl_slot *,
    uint32_t count);
void espl__item_look(struct espl__exec *, struct espl__item *); /* the placer must */
void espl__item_pending(struct espl__exec *, struct espl__item *);
uint64_t espl__tier_gpus(const struct espl__tier *); /* that grants in force take */
void espl__tier_free(struct espl__tier *);           /* lists and allocator */
/* exec_inner.c: experiments whose share of a pool is divided by an allocator of their own */
espl_status espl__inner_new(struct espl__search *,
    struct espl__diag *);                     /* if it is one: then it has a tier of its own */
void espl__inner_still(struct espl__inner *); /* its allocator ends, before what that was lent */
void espl__inner_free(struct espl__inner *);
struct espl__search *espl__inner_search(const struct espl__inner *);
uint32_t espl__inner_share(const struct espl__inner *); /* GPUs */
void espl__inner_count(struct espl__item *,
    int there);                             /* a trial's item came, changed, or (0) goes */
void espl__inner_look(struct espl__exec *); /* brings the items that stand for them up to date */
void espl__inner_grant(struct espl__item *,
    const struct espl_grant *);                /* by the pool's allocator */
void espl__inner_granted(struct espl__item *); /* its share is another */
void espl__inner_view(struct espl__inner *,
    struct espl_alloc_view *); /* of all, cut to the share */
void espl__inner_target(struct espl__inner *, const struct espl_target *);
void espl__inner_cut(struct espl__inner *);
int espl__inner_stuck(
    struct espl__exec *); /* nothing moves: 1: one that grants nothing of its share was ended */
/* exec_alloc.c, exec_place.c */
void espl__exec_why(struct espl__exec *, uint32_t why); /* all allocators are to be asked */
void espl__tiers_alarm(struct espl__exec *);            /* those that want to be called now */
espl_time espl__tiers_next(const struct espl__exec *);  /* when the first wants to be; NEVER */
espl_status espl__exec_allocate(struct espl__exec *, struct espl__diag *);
espl_status espl__exec_place(struct espl__exec *, struct espl__diag *);
/* exec_gang.c */
void espl__exec_settle(struct espl__exec *);
struct espl__gang *espl__exec_gang(const struct espl__exec *, uint64_t id);
void espl__gang_heard(struct espl__exec *, struct espl__gang *);
void espl__exec_kill(struct espl__exec *, struct espl__gang *, espl_span grace, const char *fault);
void espl__gang_free(struct espl__exec *, struct espl__gang *); /* seats, lists, accounts */
int espl__gang_matches(const struct espl__gang *, const struct espl__item *);
void espl__gang_account(struct espl__exec *,
    struct espl__gang *); /* GPU time since it was done last */
int espl__seats_clear(const struct espl__exec *,
    const struct espl__item *); /* is its whole place free for it? */
/* exec_resize.c */
int espl__exec_in_place(
    const struct espl__search *); /* can its gangs be resized while they live? */
int espl__gang_resize(struct espl__exec *, struct espl__gang *,
    const struct espl__item *); /* 1: it is asked for */
void espl__gang_resized(struct espl__exec *, const struct espl__event *);
void espl__gang_resize_off(struct espl__exec *,
    struct espl__gang *); /* gives the seats back that it did not come to */
/* exec_gpu.c */
void espl__exec_gpu(struct espl__exec *, const struct espl__event *);
/* exec_stall.c */
void espl__exec_stall(struct espl__exec *);
void espl__exec_fails(struct espl__exec *, const char *what); /* the last failure is added */
/* exec_alarm.c */
void espl__exec_alarms(struct espl__exec *); /* what is due at x->now */
void espl__exec_timer(struct espl__exec *);  /* when to be woken next */
void espl__exec_interrupt(struct espl__exec *, const char *format, ...)
    ESPL_PRINTF(2, 3); /* not for the search's fault */
/* exec_lease.c */
void espl__lease_nodes(struct espl__exec *);
void espl__lease_ready(struct espl__exec *, const struct espl__machine *);
int espl__exec_alike(const char *,
    const char *); /* texts, numbers aside: ports, processes, descriptors */
void espl__lease_proved(struct espl__exec *,
    struct espl__machine *); /* a trial reported from there */
void espl__lease_ended(struct espl__exec *, const struct espl__machine *, espl_reason,
    const char *why);
espl_time espl__lease_retry_at(const struct espl__exec *); /* NEVER: no offer pauses */
void espl__lease_forget_retries(struct espl__exec *);
void espl__lease_records_reset(struct espl__exec *);
void espl__lease_records_free(struct espl__exec *);
/* exec_cluster.c */
int espl__exec_needs_no_nodes(const struct espl__exec *);
void espl__exec_cluster(struct espl__exec *);
void espl__exec_let_go(struct espl__exec *);
void espl__exec_give_ups(struct espl__exec *);
void espl__exec_node(struct espl__exec *, const struct espl__event *, struct espl__diag *);
void espl__exec_resume(struct espl__exec *);
void espl__exec_gpu_time(struct espl__exec *);            /* accounts up to now */
uint64_t espl__exec_potential(const struct espl__exec *); /* GPUs that could ever be held */
void espl__exec_show_node(struct espl__exec *, struct espl__machine *, const char *why);
#endif
