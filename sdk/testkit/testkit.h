/* testkit.h - espalier's test kit: tests a plugin without espalier.
 *
 * A kit is a host that a test controls: it has a clock that you set, a random stream that you seed,
 * a search space, machines and trials that you make, and sinks that check every call as the real
 * host does and log it as a line of text.  A test calls an entry and compares the log:
 *
 *	struct espl_kit *kit = espl_kit_new(1);
 *	espl_kit_real(kit, "lr", 1e-4, 1e-1, ESPL_LOG, 0);
 *	espl_kit_open(kit, espl_kit_load(kit, "./algorithm_mine.so"), "trials=4", &error);
 *	espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2);
 *	puts(espl_kit_log(kit));		// begin group=0 open ...  add group=0 trial=0 ...
 *	espl_kit_free(kit);
 *
 * Build with `pkg-config --cflags --libs espalier-testkit`.  Everything belongs to the kit and
 * lives until espl_kit_free unless said otherwise.  If there is no memory, or the test itself makes
 * a mistake (an unknown id), the program ends with a message.
 */
#ifndef ESPALIER_TESTKIT_H
#define ESPALIER_TESTKIT_H
#include <espalier/algorithm.h>
#include <espalier/allocator.h>
#include <espalier/cloud.h>
#include <espalier/placer.h>
#ifdef __cplusplus
extern "C" {
#endif

struct espl_kit;

/* ---- the host ---------------------------------------------------------------------------- */

/* Creates a kit.  The seed starts the random stream; the time is 0. */
ESPL_EXPORT struct espl_kit *espl_kit_new(uint64_t seed);
/* Closes the plugin, if one is open, and frees everything.  NULL is allowed. */
ESPL_EXPORT void espl_kit_free(struct espl_kit *);
/* Sets the instant that host->now returns and views carry. */
ESPL_EXPORT void espl_kit_set_time(struct espl_kit *, espl_time);
/* 1: notes appear in the log; 0 (the default): they do not. */
ESPL_EXPORT void espl_kit_set_verbose(struct espl_kit *, int);
/* 1: sinks refuse every call from now on; 0 (the default): only calls that the host would refuse.
 */
ESPL_EXPORT void espl_kit_set_refusing(struct espl_kit *, int);
/* Offers a service of your own, or (NULL) hides one of the kit's: ESPL_SPACE, ESPL_EXPERIMENT,
 * ESPL_FIRST.  Before espl_kit_open. */
ESPL_EXPORT void espl_kit_set_service(struct espl_kit *, const char *id, const void *service);
/* Sets what host->file returns for an option; the bytes are copied.  row and column: ESPL_ANY
 * unless the option is a TABLE. */
ESPL_EXPORT void espl_kit_set_file(struct espl_kit *, uint32_t option, uint32_t row,
    uint32_t column, const void *bytes, uint64_t size);
/* The experiment that the plugin sees, which you may change.  By default it has no deadline, no
 * budget, one metric "loss" and no limit of GPUs. */
ESPL_EXPORT struct espl_experiment *espl_kit_experiment(struct espl_kit *);

/* Loads KIND_NAME.so.  NULL: the log says why. */
ESPL_EXPORT const struct espl_plugin *espl_kit_load(struct espl_kit *, const char *path);
/* Checks the descriptor, reads options ("trials=4 rungs=cumulative stages=(32,1)(10,3) file='a b'";
 * others have their defaults) and calls create.  Returns the status of create, or ESPL_E_CONFIG for
 * options that the host would refuse; error may be NULL. */
ESPL_EXPORT espl_status espl_kit_open(struct espl_kit *, const struct espl_plugin *,
    const char *options, struct espl_error *error);
ESPL_EXPORT void espl_kit_close(struct espl_kit *);
ESPL_EXPORT void *espl_kit_self(struct espl_kit *); /* what create returned in *self */

/* ---- the log ----------------------------------------------------------------------- */

/* Every sink call, log line and note since the last clear, one line each; refused calls begin with
 * '!', and an answer that is discarded as a whole ends with "!! REASON".  Valid until the next call
 * of the kit. */
ESPL_EXPORT const char *espl_kit_log(const struct espl_kit *);
ESPL_EXPORT void espl_kit_clear(struct espl_kit *);             /* log and both counters */
ESPL_EXPORT uint32_t espl_kit_calls(const struct espl_kit *);   /* sink calls */
ESPL_EXPORT uint32_t espl_kit_refused(const struct espl_kit *); /* refused ones among them */

/* ---- the search space (before espl_kit_open) --------------------------------------------- */

ESPL_EXPORT void espl_kit_real(struct espl_kit *, const char *name, double low, double high,
    espl_scale, double quantum);
ESPL_EXPORT void espl_kit_int(struct espl_kit *, const char *name, int64_t low, int64_t high,
    espl_scale);
/* labels: "sgd|adam" */
ESPL_EXPORT void espl_kit_choice(struct espl_kit *, const char *name, const char *labels);
/* Makes the last parameter active only if an earlier one, its parent, has this value (the index of
 * a label).  Called several times with one parent: if it has any of these values. */
ESPL_EXPORT void espl_kit_when(struct espl_kit *, const char *parent, double value);
/* Adds a configuration to try first: one double for each parameter; copied. */
ESPL_EXPORT void espl_kit_first(struct espl_kit *, const double *values);
ESPL_EXPORT const struct espl_space *espl_kit_space(struct espl_kit *);
/* Keeps all reports from now on, and offers them as ESPL_HISTORY (without curves).  Call it before
 * espl_kit_open. */
ESPL_EXPORT void espl_kit_keep_history(struct espl_kit *);

/* ---- algorithms -------------------------------------------------------------------------- */

/* Logs "spec bracket=B stage=S trials=N iterations=I" for each stage. */
ESPL_EXPORT espl_status espl_kit_spec(struct espl_kit *);
/* Calls next_group: why it is called, which group ended (or ESPL_NONE), how many trials could
 * start. */
ESPL_EXPORT espl_status espl_kit_ask(struct espl_kit *, uint32_t why, uint64_t group,
    uint32_t want);
/* Calls on_report for one iteration of a trial, which becomes RUNNING and gets this loss.  Verdicts
 * are logged, and take effect: STOP and PAUSE at once, but without on_trial_end, for which you call
 * espl_kit_end. */
ESPL_EXPORT espl_status espl_kit_report(struct espl_kit *, uint64_t trial, uint64_t iteration,
    double loss);
/* Calls on_trial_end.  BUDGET: the trial is at its budget with this loss, and becomes PAUSED.
 * STOPPED and PAUSED are also allowed, once, for a trial that a verdict has already stopped or
 * paused. */
ESPL_EXPORT espl_status espl_kit_end(struct espl_kit *, uint64_t trial, espl_end how, double loss);
ESPL_EXPORT uint64_t espl_kit_trials(const struct espl_kit *); /* number of trials so far */
ESPL_EXPORT const struct espl_trial *espl_kit_trial(const struct espl_kit *, uint64_t id);
/* Returns how many trials of the group have not ended; *open: whether it is open. */
ESPL_EXPORT uint32_t espl_kit_group_left(const struct espl_kit *, uint64_t group, int *open);
ESPL_EXPORT int espl_kit_finished(const struct espl_kit *);
/* Runs a whole search with room for `slots` trials at once.  In each round every running trial
 * trains one iteration; loss returns a trial's loss at an iteration.  ESPL_E_LIMIT: the search was
 * not finished after `rounds` rounds, or for three rounds no trial ran and no wake_at was pending.
 */
ESPL_EXPORT espl_status espl_kit_search(struct espl_kit *, uint32_t slots, uint64_t rounds,
    double (*loss)(void *ctx, const struct espl_trial *, uint64_t iteration), void *ctx);

/* ---- machines and trials for allocators and placers -------------------------------------- */

/* Adds an offer and returns its number.  nodes_max ESPL_ANY: no limit. */
ESPL_EXPORT uint32_t espl_kit_offer(struct espl_kit *, const char *name, uint32_t gpus,
    uint32_t nodes_max, double usd_hour);
ESPL_EXPORT struct espl_offer *espl_kit_offer_at(struct espl_kit *, uint32_t number);
/* Adds a node and returns its id; ids begin at 0. */
ESPL_EXPORT uint64_t espl_kit_node(struct espl_kit *, uint32_t offer, espl_node_state);
/* Changes a node's state.  ESPL_NODE_ENDED removes it from the views, and gangs on it MUST move. */
ESPL_EXPORT void espl_kit_node_state(struct espl_kit *, uint64_t node, espl_node_state);
/* Sets ESPL_NODE_* flags, and the item that owns the node (ESPL_NONE: none). */
ESPL_EXPORT void espl_kit_node_flags(struct espl_kit *, uint64_t node, uint32_t flags,
    uint64_t owner);
ESPL_EXPORT void espl_kit_block(struct espl_kit *, uint64_t node, uint32_t gpu);
/* Number of nodes of the offer that are held: neither ENDED nor given up. */
ESPL_EXPORT uint32_t espl_kit_nodes(const struct espl_kit *, uint32_t offer);
/* Adds READY nodes until each offer has as many as its target. */
ESPL_EXPORT void espl_kit_provision(struct espl_kit *);
/* Adds a trial that has work left, arrived now and has unit 1.  Returns its id; ids rise. */
ESPL_EXPORT uint64_t espl_kit_item(struct espl_kit *, uint32_t gpus_min, uint32_t gpus_max);
/* The item, which you may change; it is listed as changed in the next view.  Change its grant with
 * espl_kit_grant. */
ESPL_EXPORT struct espl_item *espl_kit_item_at(struct espl_kit *, uint64_t id);
ESPL_EXPORT void espl_kit_leave(struct espl_kit *, uint64_t item);

/* Calls allocate with a view of everything that happened since the last call.  The answer is
 * checked as a whole: grants within the items' limits, no item twice, in total no more GPUs than
 * the targets have, no target beyond nodes_max.  If it does not fit, the status is ESPL_E_REJECTED
 * and nothing changes. */
ESPL_EXPORT espl_status espl_kit_allocate(struct espl_kit *);
/* Calls plan with the spec of espl_kit_experiment, and logs the stages.  gpus_max: the limit of the
 * whole cluster. */
ESPL_EXPORT espl_status espl_kit_plan(struct espl_kit *, uint32_t gpus_max);
/* Sets a grant or target without an allocator. */
ESPL_EXPORT void espl_kit_grant(struct espl_kit *, uint64_t item, uint32_t gpus, uint32_t packing);
ESPL_EXPORT void espl_kit_set_target(struct espl_kit *, uint32_t offer, uint32_t nodes);
ESPL_EXPORT uint32_t espl_kit_target(const struct espl_kit *, uint32_t offer);

/* Calls place, with one gang for each item that has a grant.  The answer is checked as a whole: as
 * many slots as granted, on READY nodes that the gang may use, no GPU blocked or given more than
 * its share, and gangs with ESPL_GANG_COLOCATE on one node or on whole nodes.  Nodes that are given
 * up leave when they are empty; until then they are RETIRING, and their gangs MUST move.
 * ESPL_E_REJECTED: the answer does not fit; do not call place on this kit again. */
ESPL_EXPORT espl_status espl_kit_place(struct espl_kit *);
/* Locks a gang, which must then not be moved, or unlocks it. */
ESPL_EXPORT void espl_kit_lock(struct espl_kit *, uint64_t item, int locked);
/* The gang of an item.  You may change its owner and offer; the rest follows from the item and its
 * slots. */
ESPL_EXPORT struct espl_gang *espl_kit_gang_at(struct espl_kit *, uint64_t item);
/* Places a gang without a placer; the slots are copied. */
ESPL_EXPORT void espl_kit_put(struct espl_kit *, uint64_t item, const struct espl_slot *,
    uint32_t count);
/* The slots of an item's gang; count 0: it has none. */
ESPL_EXPORT const struct espl_slot *espl_kit_slots(const struct espl_kit *, uint64_t item,
    uint32_t *count);
/* Sets how many nodes of the offer are above target in the next call of place. */
ESPL_EXPORT void espl_kit_surplus(struct espl_kit *, uint32_t offer, uint32_t nodes);
/* Number of gangs that the last call of place moved. */
ESPL_EXPORT uint32_t espl_kit_moved(const struct espl_kit *);

/* ---- clouds ------------------------------------------------------------------------------ */

/* A cloud under test has no network and starts no processes.  The test acts as the provider with
 * these functions; what an answer points to must stay valid until the next call. */
struct espl_kit_provider {
	uint32_t size, zero;
	void *ctx;
	/* Performs the request and fills in its answer, which is preset to status OK, code 200 or
	 * exit_code 0, and an empty body.  NULL: such requests fail.  Status E_BUSY means that the
	 * request has not ended: the function is called again a second later, until the request's
	 * limit, and whole lines of the body are delivered if the request has `lines`. */
	void (*http)(void *ctx, const struct espl_http *, struct espl_http_reply *);
	void (*child)(void *ctx, const struct espl_spawn *, struct espl_child *);
	const char *(*secret)(void *ctx, const char *name); /* NULL, or returning NULL: unknown */
	/* For espl_kit_trouble: reset makes the provider forget everything; machines returns how
	 * many machines cost money now. */
	void (*reset)(void *ctx);
	uint32_t (*machines)(void *ctx);
};
/* Call it before espl_kit_open; the struct must stay valid.  A new provider has no leases. */
ESPL_EXPORT void espl_kit_set_provider(struct espl_kit *, const struct espl_kit_provider *);

typedef uint32_t espl_kit_fault;
enum {
	ESPL_KIT_LOSE_REQUEST = 1, /* it never reaches the provider; the cloud gets a failure */
	ESPL_KIT_LOSE_ANSWER,      /* it is performed; the cloud gets a failure */
	ESPL_KIT_BUSY,             /* it is refused: code 503, or exit status 1 */
	ESPL_KIT_KILL_BEFORE,      /* espalier is killed before the request leaves, and resumed */
	ESPL_KIT_KILL_AFTER        /* espalier is killed before the answer arrives, and resumed */
};
/* Sets a fault for one request (HTTP or child): 1 is the next one, 0 none. */
ESPL_EXPORT void espl_kit_set_fault(struct espl_kit *, uint32_t request, espl_kit_fault);
/* Adds another fault, counted from the same request; at most 4 in all. */
ESPL_EXPORT void espl_kit_add_fault(struct espl_kit *, uint32_t request, espl_kit_fault);

ESPL_EXPORT espl_time espl_kit_time(const struct espl_kit *);
/* Lets time pass: requests are answered, timers expire, and leases that are being released are
 * released again, as a run does, until they end. */
ESPL_EXPORT void espl_kit_wait(struct espl_kit *, espl_span);

/* These call describe, start and owned.  What the cloud reports is checked against the contract of
 * espalier/cloud.h and logged: "offer 0 box own gpus=8 price=2.5", "node lease=0 READY id=m-1
 * address=10.0.0.7", "done OK". */
ESPL_EXPORT espl_status espl_kit_describe(struct espl_kit *);
ESPL_EXPORT espl_status espl_kit_start(struct espl_kit *);
ESPL_EXPORT espl_status espl_kit_owned(struct espl_kit *, const char *run);
/* Waits at most this long until the last of these calls done, and returns the status of done;
 * E_BUSY: done was not called. */
ESPL_EXPORT espl_status espl_kit_wait_done(struct espl_kit *, espl_span limit);
/* Leases `count` machines of an offer (as numbered in the log) with one call of acquire, and
 * returns the number of the first lease.  The run is called "kit" and the tokens "espl-kit-0",
 * "espl-kit-1", ... */
ESPL_EXPORT uint64_t espl_kit_acquire(struct espl_kit *, uint32_t offer, uint32_t count);
/* Calls acquire again with the same token, as after a crash of the driver. */
ESPL_EXPORT espl_status espl_kit_acquire_again(struct espl_kit *, uint64_t lease);
ESPL_EXPORT espl_status espl_kit_release(struct espl_kit *, uint64_t lease);
/* Calls reach and logs the command: "reach lease=0 ssh host". */
ESPL_EXPORT espl_status espl_kit_reach(struct espl_kit *, uint64_t lease);
/* Simulates that espalier is killed and resumed: starts a new instance with the same options; then
 * leases are adopted, or acquired again if nothing was reported about them. */
ESPL_EXPORT void espl_kit_restart(struct espl_kit *);
/* Waits at most this long until the lease has reached this state or ENDED.  Returns 1, or 0 if it
 * has not. */
ESPL_EXPORT int espl_kit_wait_node(struct espl_kit *, uint64_t lease, espl_node_state, espl_span);
/* What the cloud has reported about the lease. */
ESPL_EXPORT const struct espl_lease *espl_kit_lease(struct espl_kit *, uint64_t lease);
ESPL_EXPORT espl_reason espl_kit_reason(struct espl_kit *, uint64_t lease); /* ENDED; else 0 */
ESPL_EXPORT espl_span espl_kit_retry_after(struct espl_kit *, uint64_t lease);

/* Runs the whole life of two leases again and again, each time with one fault at one request, for
 * every request and every fault: all leases must end, and no machine may be left.  The provider
 * must have reset and machines.  If something is wrong the status is ESPL_E_REJECTED and the log
 * holds the run that failed; its last line begins with "!!".  Otherwise the log says how many
 * faults there were. */
ESPL_EXPORT espl_status espl_kit_trouble(struct espl_kit *, const struct espl_plugin *,
    const char *options);

#ifdef __cplusplus
}
#endif
#endif
