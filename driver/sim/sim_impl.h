/* sim_impl.h - what the files of the simulated world share: its state and the parts' entries.
 *
 * sim.c        the world's operations: rounds, effects, the virtual clock
 * sim_agenda.c what is due and when, events for the executor, draws
 * sim_cloud.c  offers and prices, described by the cloud plugin
 * sim_lease.c  nodes: booting, ready, under notice, ended
 * sim_supply.c machines that a provider has, which others want, too
 * sim_gang.c   gangs: starting, training, saving, ending
 * sim_train.c  where metrics come from: a C trainable in process, or recorded curves
 * sim_state.c  checkpoints of trainables that have state
 * sim_fault.c  the fault script
 * sim_rest.c   the world that continues a run from its present state, by what was learned of it
 *
 * Nothing is kept for a trial that does not run, except the checkpoints of trainables that have
 * state.  Random numbers are not taken from running streams but made from what they are for
 * (trial, iteration, attempt; lease): no draw depends on the order of events, and the same
 * iteration of a trial takes equally long under every allocator.
 */
#ifndef ESPL__SIM_IMPL_H
#define ESPL__SIM_IMPL_H
#include <espalier/trainable.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "input/input.h"
#include "model/jobs.h"
#include "driver/compute.h"
#include "run/world.h"
#include "sim/learned.h"

/* ---- what is due --------------------------------------------------------------------- */

enum espl__sim_due_type {
	ESPL__DUE_GANG = 1,  /* ref: slot of the pool, mark: its epoch */
	ESPL__DUE_BOOT,      /* ref: lease */
	ESPL__DUE_READY,     /* ref: lease */
	ESPL__DUE_NOTICE,    /* ref: lease: the provider wants it back */
	ESPL__DUE_EXPIRY,    /* ref: lease: notice of its wall-time limit */
	ESPL__DUE_ENDED,     /* ref: lease, mark: reason */
	ESPL__DUE_SUPPLY,    /* ref: offer: one of its machines becomes free */
	ESPL__DUE_WAITED,    /* ref: lease: it has waited for a machine long enough */
	ESPL__DUE_TAKEN,     /* ref: lease: others want its machine */
	ESPL__DUE_REACH,     /* ref: lease, mark: number of the fault that ends */
	ESPL__DUE_PRICE,     /* ref: offer: its next record */
	ESPL__DUE_LOG,       /* ref: offer: the next interruption of its log */
	ESPL__DUE_FAULT,     /* ref: number of the fault */
	ESPL__DUE_OUTCOME,   /* ref: number of the computation */
	ESPL__DUE_FAILED,    /* ref: of `failed`: a computation that is not made */
	ESPL__DUE_JOB,       /* ref: number of the job that comes */
	ESPL__DUE_EXPERIMENT /* ref: number of the search that comes */
};
struct espl__sim_due {
	espl_time at;
	uint64_t seq, ref;
	uint32_t type, mark;
};
struct espl__sim_heap {
	struct espl__sim_due *list;
	size_t count, cap;
	uint64_t seq;
};

void espl__sim_heap_add(struct espl__sim_heap *, espl_time at, enum espl__sim_due_type,
    uint64_t ref, uint32_t mark);
const struct espl__sim_due *espl__sim_heap_top(const struct espl__sim_heap *); /* NULL: empty */
struct espl__sim_due espl__sim_heap_take(struct espl__sim_heap *);

/* ---- offers, leases ------------------------------------------------------------------ */

struct espl__sim_offer {
	struct espl_offer terms;   /* deep copy, memory from the world's arena */
	struct espl_price *prices; /* by `from`, rising */
	uint32_t price_count, price_cap;
	uint32_t next; /* first record that is not yet told */
	uint32_t log_count, log_next;
	struct espl_interruption *log; /* by time */
	double refused;                /* part of the requests that get nothing */
	double hazard_hour;            /* in truth, which terms need not say; NaN: none */
	uint32_t alive;                /* leases not ended */
	uint64_t first;                /* list of them, ESPL_NONE: empty */
	struct espl_supply supply;     /* machines ESPL_ANY: no end of them */
	struct espl__sim_machine *machines;
	uint32_t waiting;    /* leases that wait for a machine */
	espl_time supply_at; /* DUE_SUPPLY that is due first; ESPL_NEVER: none */
};
/* One that the provider has: free, or in use by others, in turns, whoever leases it. */
struct espl__sim_machine {
	uint64_t lease;  /* ESPL_NONE: not ours */
	espl_time until; /* when its present turn ends */
	uint32_t turns;  /* before this one */
	uint8_t taken;   /* in use by others */
};
struct espl__sim_lease {
	espl_node_state state; /* 0: never asked for */
	uint32_t offer, gangs; /* gangs with a rank on it */
	espl_money max_price_hour;
	espl_time ends_at, cut_until; /* unreachable until then */
	uint64_t before, after;       /* in the offer's list */
	uint32_t machine;             /* ESPL_ANY: of an offer with no end of them, or it waits */
	uint8_t waits;                /* for a machine */
};

/* ---- gangs --------------------------------------------------------------------------- */

enum espl__sim_phase {
	ESPL__SIM_FREE = 0,
	ESPL__SIM_STARTING,
	ESPL__SIM_TRAINING,
	ESPL__SIM_WAITING,
	ESPL__SIM_SAVING,
	ESPL__SIM_HUNG,
	ESPL__SIM_ENDING,
	ESPL__SIM_RESIZING
};
/* The trials of one search; made when the first of them is about to train. */
struct espl__sim_source {
	const struct espl__inputs *of;
	uint64_t seed; /* of its trials */
	struct espl__curves *curves;
	uint32_t *curve_metrics; /* metric of the curves -> number, ESPL_ANY: not yet told */
	struct espl__instance *trainable;
	uint64_t iterations_max; /* 0: the trial's budget */
	int stateful;
	/* the profile's, or as they were observed */
	const struct espl_latency *start, *restore, *save, *resize;
};
/* How long its trials take in this world, whatever policies are told. */
static inline const struct espl__profile *
espl__sim_profile(const struct espl__inputs *of)
{
	return of->truth != NULL ? of->truth : of->profile;
}
struct espl__sim_gang {
	struct espl__sim_source *source;
	uint64_t id, trial, iteration, budget;
	uint32_t experiment, attempt, slot, epoch;
	uint32_t next_free;
	uint32_t row; /* of the curves */
	uint8_t phase, finished, last_save, how;
	uint8_t up;             /* of a learned run: its start has passed */
	uint8_t no_route;       /* it ends as its ranks cannot meet */
	uint8_t killed;         /* asked to save and to leave, until kill_at */
	espl_time due, kill_at; /* due: of the pending instant */
	struct espl_share share;
	/* length of an iteration relative to one on one GPU; of a job: changed by faults only */
	double ratio;
	uint64_t gpu;     /* the one it shares, as a key of `sharers` */
	uint64_t key;     /* of all draws of the trial */
	uint64_t *leases; /* that it stands on, each once */
	uint32_t lease_count, lease_cap;
	struct espl_slot *next; /* where it goes at its next boundary, NULL none */
	uint32_t next_count;
	double iteration_s; /* what is left of the iteration at hand takes */
	double done_s;      /* of a job: work of that iteration before it was resized */
	char *text;         /* why it fails, or NULL */
	void *body;         /* the trainable's trial, NULL: none open */
	struct espl_trial_context context;
	struct espl__settings settings;
};

/* ---- checkpoints of trainables with state -------------------------------------------- */

struct espl__sim_blob {
	struct espl__sim_blob *next; /* of the same trial */
	uint64_t iteration, size;
	uint8_t data[];
};

/* ---- faults -------------------------------------------------------------------------- */

enum espl__sim_fault_kind {
	ESPL__FAULT_NODE_LOST = 0,
	ESPL__FAULT_NOTICE,
	ESPL__FAULT_AT_RISK,
	ESPL__FAULT_UNREACHABLE,
	ESPL__FAULT_SLOW_BOOT,
	ESPL__FAULT_NO_CAPACITY,
	ESPL__FAULT_BOOT_FAILS,
	ESPL__FAULT_TRIAL_FAILS,
	ESPL__FAULT_TRIAL_LOST,
	ESPL__FAULT_NAN,
	ESPL__FAULT_HANG,
	ESPL__FAULT_CRASH_RATE,
	ESPL__FAULT_BAD_CONFIGURATION,
	ESPL__FAULT_SLOW,
	ESPL__FAULT_BAD_CHECKPOINT,
	ESPL__FAULT_GPU_LOST,
	ESPL__FAULT_STOP,
	ESPL__FAULT_NO_NOTICE,
	ESPL__FAULT_BAD_GPU,
	ESPL__FAULT_NO_ROUTE,
	ESPL__FAULT_KILLS_NODE
};
struct espl__sim_fault {
	enum espl__sim_fault_kind kind;
	uint32_t left; /* times it may still strike; ESPL_ANY: always */
	espl_time at, from, to;
	espl_span notice;                /* -1: the offer's */
	espl_span length;                /* of a cut, or of a boot in vain; 0: as an offer has it */
	espl_reason reason;              /* of a refusal */
	espl_span retry_after;           /* 0: unknown */
	uint32_t gpu;                    /* ESPL_ANY: all of the node */
	int silent;                      /* of a bad configuration: it hangs */
	uint64_t trial, node, iteration; /* ESPL_NONE: any */
	double factor, probability;
	char *offer, *metric, *machine; /* NULL: any */
	char *text;                     /* what the provider says of the node */
};
struct espl__sim_faults {
	struct espl__sim_fault *list;
	uint32_t count, cap;
};

espl_status espl__sim_faults_load(const char *path, struct espl__sim_faults *, struct espl__diag *);
void espl__sim_faults_free(struct espl__sim_faults *);
struct espl__sim;
/* A fault of this kind that hits the gang at this iteration (counted), or NULL. */
struct espl__sim_fault *espl__sim_fault_gang(struct espl__sim *, enum espl__sim_fault_kind,
    const struct espl__sim_gang *, uint64_t iteration);
/* Product of the factors of the slow-boot faults in force. */
double espl__sim_fault_boot(const struct espl__sim_faults *, const char *offer, espl_time now);
/* A fault of this kind that hits the lease, its machine included; NULL: none. */
const struct espl__sim_fault *espl__sim_fault_lease(const struct espl__sim *,
    enum espl__sim_fault_kind, uint64_t lease);
/* Factor on the length of an iteration. */
double espl__sim_fault_slow(const struct espl__sim *, const struct espl__sim_gang *);

/* ---- the world ----------------------------------------------------------------------- */

#define ESPL__SIM_MAGIC 0x706a6e23u
struct espl__sim {
	struct espl__world head;
	uint32_t magic; /* ESPL__SIM_MAGIC */
	const struct espl__run_config *config;
	const struct espl__inputs *own; /* of the run; NULL: nothing trains */
	struct espl__learned *learned;  /* the rest of a run is drawn from it; NULL: ordinary */
	uint64_t seed;
	espl_time now;
	struct espl__sim_heap heap;
	espl_time timer; /* ESPL_NEVER: none */
	int opening;     /* 1: EV_START is due, 2: EV_RESUME */
	int ended;
	int stop_sent;
	volatile int stop;     /* set by a signal handler */
	uint32_t turns;        /* rounds at this very instant */
	espl_time barren_from; /* last instant of anything but a request refused */

	/* The round that is being composed; metrics by index until it is complete. */
	struct espl__batch round;
	struct espl__metric *metrics;
	uint32_t metric_count, metric_cap;
	struct espl__names names; /* of metrics, in order of their first report */

	struct espl__arena arena; /* offers */
	struct espl__sim_offer *offers;
	uint32_t offer_count, offer_cap;
	struct espl__sim_lease *leases;
	uint64_t lease_count, lease_cap;
	struct espl__lease_info *adopted; /* of a resumed run */
	uint32_t adopted_count;

	struct espl__pool gangs;
	struct espl__map by_id;   /* gang id -> struct espl__sim_gang */
	struct espl__map sharers; /* GPU -> how many gangs share it, as a pointer */
	uint32_t free_gang;       /* ESPL_ANY: none */
	uint32_t live_gangs;

	struct espl__sim_faults faults;
	struct espl__compute **jobs; /* by number; NULL once delivered */
	uint32_t job_count, job_cap;
	struct espl_outcome **failed; /* computations that are not made, in the arena */
	uint32_t failed_count, failed_cap;
	struct espl__compute **delivered; /* outcomes of the last round live in these */
	uint32_t delivered_count, delivered_cap;

	const struct espl__jobs *workload; /* NULL: there are no plain jobs */
	double *trained_s;                 /* [job], on however many nodes */

	/* sim_train.c */
	struct espl__sim_source **sources; /* by number of the search; NULL: not made yet */
	uint32_t source_count, source_cap;
	struct espl__host_env env;
	struct espl__map blobs; /* trial -> struct espl__sim_blob list */
	struct espl_device device;
	struct espl_comm comm;
	struct espl__buf scratch;
};

/* sim.c */
struct espl__sim *espl__sim_make(const struct espl__run_config *, uint64_t seed);
void espl__sim_fail_compute(struct espl__sim *, uint64_t token);
/* sim_agenda.c */
/* A new event of the round, zeroed; valid until the next one. */
struct espl__event *espl__sim_add_event(struct espl__sim *, enum espl__event_type);
const char *espl__sim_text(struct espl__sim *, const char *); /* copy that lives for the round */
/* now + seconds, saturated. */
espl_time espl__sim_after(const struct espl__sim *, double seconds);
/* The random stream for one purpose: `key` identifies the object, `what` the quantity, `n` the
 * occurrence. */
enum {
	ESPL__SIM_START = 1,
	ESPL__SIM_RESTORE,
	ESPL__SIM_ITERATION,
	ESPL__SIM_SAVE,
	ESPL__SIM_CRASH,
	ESPL__SIM_PROVISION,
	ESPL__SIM_INIT,
	ESPL__SIM_HAZARD,
	ESPL__SIM_RESIZE,
	ESPL__SIM_LOG,
	ESPL__SIM_TAKEN,
	ESPL__SIM_TURN,
	ESPL__SIM_STRUCK,
	ESPL__SIM_BAD
};
void espl__sim_stream(struct espl__rng *, uint64_t key, uint32_t what, uint64_t n);
double espl__sim_draw(const struct espl_latency *, uint64_t key, uint32_t what, uint64_t n);
uint64_t espl__sim_key(uint64_t seed, const char *kind, uint32_t experiment, uint64_t id);
#define ESPL__SIM_NAME 160u
/* What the provider calls a machine of an offer; ESPL_ANY: "", they have no names. */
const char *espl__sim_machine_name(const struct espl__sim *, uint32_t offer, uint32_t number,
    char room[ESPL__SIM_NAME]);
/* sim_cloud.c */
espl_status espl__sim_describe(struct espl__sim *, struct espl__diag *);
void espl__sim_tell_offers(struct espl__sim *); /* OFFERs, PRICEs so far, CLOUD */
/* A resumed run has already received these events. */
void espl__sim_skip_prices(struct espl__sim *, espl_time now);
void espl__sim_price_due(struct espl__sim *, uint64_t offer);
void espl__sim_log_due(struct espl__sim *, uint64_t offer);
void espl__sim_cloud_free(struct espl__sim *);
/* sim_lease.c */
void espl__sim_acquire(struct espl__sim *, uint64_t lease, uint32_t offer,
    espl_money max_price_hour);
void espl__sim_adopt(struct espl__sim *, const struct espl__lease_info *);
/* It is in this state, and no event says so. */
void espl__sim_lease_stands(struct espl__sim *, const struct espl__lease_info *);
void espl__sim_release(struct espl__sim *, uint64_t lease);
void espl__sim_lease_due(struct espl__sim *, const struct espl__sim_due *);
/* NOTICE now, the end `notice` later. */
void espl__sim_lease_notice(struct espl__sim *, uint64_t lease, espl_span notice, espl_reason);
/* Sets one of its GPUs aside, or all of them (ESPL_ANY). */
void espl__sim_lose_gpus(struct espl__sim *, uint64_t lease, uint32_t gpu);
/* ENDED now, gangs on it first. */
void espl__sim_lease_end(struct espl__sim *, uint64_t lease, espl_reason);
/* The price rose: ends every lease of the offer that does not pay it. */
void espl__sim_outbid(struct espl__sim *, uint32_t offer, espl_money usd_hour);
/* A record of the log: each node of the offer with this probability. */
void espl__sim_interrupt(struct espl__sim *, uint32_t offer, uint32_t number, double share);
int espl__sim_alive(const struct espl__sim *, uint64_t lease);
void espl__sim_serve(struct espl__sim *, uint32_t offer); /* those who wait */
/* sim_supply.c */
void espl__sim_supply_begin(struct espl__sim *, uint32_t offer);
/* What becomes of a request: it is given a machine, if the offer has no end of them without one;
 * waits for one; or is refused. */
enum espl__sim_answer { ESPL__SIM_GIVEN = 1, ESPL__SIM_WAITS, ESPL__SIM_REFUSED };
enum espl__sim_answer espl__sim_supply_ask(struct espl__sim *, uint64_t lease);
/* Gives a machine to the first lease that waits, if one is free: its number, or ESPL_NONE. */
uint64_t espl__sim_supply_next(struct espl__sim *, uint32_t offer);
/* A resumed run's lease has the one of this name. */
void espl__sim_supply_adopt(struct espl__sim *, uint64_t lease, const char *machine);
void espl__sim_supply_tell(struct espl__sim *, uint64_t lease);   /* which one it is */
void espl__sim_supply_return(struct espl__sim *, uint64_t lease); /* it ends */
/* sim_gang.c */
espl_status espl__sim_start(struct espl__sim *, const struct espl__effect *, struct espl__diag *);
espl_status espl__sim_reply(struct espl__sim *, const struct espl__effect *, struct espl__diag *);
/* It is in this state, and no event says so. */
espl_status espl__sim_gang_stands(struct espl__sim *, const struct espl__gang_info *,
    struct espl__diag *);
void espl__sim_resize(struct espl__sim *, const struct espl__effect *);
void espl__sim_kill(struct espl__sim *, uint64_t gang, espl_span grace);
void espl__sim_gang_due(struct espl__sim *, const struct espl__sim_due *);
void espl__sim_gangs_lost(struct espl__sim *, uint64_t lease); /* ENDED(LOST) now */
void espl__sim_gangs_free(struct espl__sim *);
/* sim_train.c */
/* The trial of a gang as espl__learned knows it. */
uint64_t espl__sim_learned_trial(const struct espl__sim_gang *);
/* What a search's trials are; made at the first call.  NULL: failed. */
struct espl__sim_source *espl__sim_source(struct espl__sim *, uint32_t number, struct espl__diag *);
void espl__sim_train_free(struct espl__sim *);
/* Opens the trial's body and restores it. 0, or the way the gang will end; text to gang->text. */
int espl__sim_body_open(struct espl__sim *, struct espl__sim_gang *, const double *values,
    uint64_t source, uint64_t checkpoint);
void espl__sim_body_close(struct espl__sim_gang *);
/* Opens the body of a C trainable as its seed and settings make it; 0, or -1 (text to gang->text).
 */
int espl__sim_body_begin(struct espl__sim *, struct espl__sim_gang *, const double *values);
/* -1, and what went wrong to gang->text. */
int espl__sim_body_broken(struct espl__sim_gang *, const char *doing, espl_status,
    const struct espl_error *);
const struct espl_trainable_ops *espl__sim_ops(const struct espl__sim_gang *);
/* Empty, without clearing all of its text: one is needed at every step. */
static inline void
espl__sim_no_error(struct espl_error *error)
{
	error->size = (uint32_t)sizeof *error;
	error->status = ESPL_OK;
	error->option = error->row = ESPL_ANY;
	error->text[0] = error->hint[0] = '\0';
}
/* One iteration: its metrics go to sim->metrics, EV_METRIC for new names.  `nan`: a fault that
 * makes some of them NaN, or NULL.  0, or -1 (text to gang->text). */
int espl__sim_body_step(struct espl__sim *, struct espl__sim_gang *,
    const struct espl__sim_fault *nan, uint32_t *count);
/* Seconds that an iteration takes on one GPU. */
double espl__sim_iteration_s(struct espl__sim *, const struct espl__sim_gang *, uint64_t iteration);
uint64_t espl__sim_last_iteration(const struct espl__sim *, const struct espl__sim_gang *);
/* sim_state.c */
void espl__sim_state_free(struct espl__sim *);
/* Saves the present state as a checkpoint. 0 and its size, or -1 (text to gang->text). */
int espl__sim_body_save(struct espl__sim *, struct espl__sim_gang *, uint64_t *bytes);
void espl__sim_collect(struct espl__sim *, uint32_t experiment, uint64_t trial, uint64_t keep);
/* sim_jobs.c */
void espl__sim_job_due(struct espl__sim *,
    uint64_t number);                        /* it comes, and the next is waited for */
void espl__sim_arrivals(struct espl__sim *); /* of those who have not come yet */
/* Seconds until it reports, or reaches the end that the workload has for it. */
double espl__sim_job_iteration_s(const struct espl__sim *, const struct espl__sim_gang *);
void espl__sim_job_trained(struct espl__sim *, struct espl__sim_gang *);
/* Ends the current iteration, for now, at the end of the step that the job is in. Seconds until
 * then; negative: the end of the iteration comes first, and nothing is changed. */
double espl__sim_job_cut(struct espl__sim *, struct espl__sim_gang *);
#endif
