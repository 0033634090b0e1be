/* testkit.h - espalier's test kit: a plugin under test, without espalier.
 *
 * A kit is a host made of glass: it has a clock that you set, a random stream that you seed, a
 * search space, machines and trials that you make, and sinks that check every call as the real
 * host does and write it down as a line of text.  A test does something and compares the text:
 *
 *	struct espl_kit *kit = espl_kit_new(1);
 *	espl_kit_real(kit, "lr", 1e-4, 1e-1, ESPL_LOG, 0);
 *	espl_kit_open(kit, espl_kit_load(kit, "./algorithm_mine.so"), "trials=4", &error);
 *	espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 2);
 *	puts(espl_kit_log(kit));		// begin group=0 open ...  add group=0 trial=0 ...
 *	espl_kit_free(kit);
 *
 * Build with `pkg-config --cflags --libs espalier-testkit`.  Everything belongs to the kit and
 * lives until espl_kit_free unless said otherwise.  Out of memory, or a mistake of the test's
 * own (an unknown id), ends the program with a message.
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

/* The seed begins the random stream.  Time stands at 0. */
ESPL_EXPORT struct espl_kit *espl_kit_new(uint64_t seed);
/* Closes the plugin, if one is open, and frees everything.  NULL is fine. */
ESPL_EXPORT void espl_kit_free(struct espl_kit *);
/* Sets the instant that host->now returns and views carry. */
ESPL_EXPORT void espl_kit_set_time(struct espl_kit *, espl_time);
/* 1: notes are wanted (they appear in the log), 0 (as made): they are not. */
ESPL_EXPORT void espl_kit_set_verbose(struct espl_kit *, int);
/* 1: sinks refuse every call from now on; 0 (as made): those that the host would refuse. */
ESPL_EXPORT void espl_kit_set_refusing(struct espl_kit *, int);
/* Offers a service of your own, or (NULL) hides one of the kit's: ESPL_SPACE, ESPL_EXPERIMENT,
 * ESPL_FIRST.  Before espl_kit_open. */
ESPL_EXPORT void espl_kit_set_service(struct espl_kit *, const char *id, const void *service);
/* What host->file answers for an option; the bytes are copied.  row and column: ESPL_ANY unless
 * the option is a TABLE. */
ESPL_EXPORT void espl_kit_set_file(struct espl_kit *, uint32_t option, uint32_t row,
    uint32_t column, const void *bytes, uint64_t size);
/* The experiment as the plugin sees it, for you to change: no deadline, no budget, one metric
 * "loss", no limit of GPUs. */
ESPL_EXPORT struct espl_experiment *espl_kit_experiment(struct espl_kit *);

/* Loads KIND_NAME.so.  NULL: the log says why. */
ESPL_EXPORT const struct espl_plugin *espl_kit_load(struct espl_kit *, const char *path);
/* Checks the descriptor, reads options ("trials=4 rungs=cumulative stages=(32,1)(10,3)
 * file='a b'"; what is missing takes its default) and calls create.  The status is create's, or
 * ESPL_E_CONFIG for options the host would refuse; error may be NULL. */
ESPL_EXPORT espl_status espl_kit_open(struct espl_kit *, const struct espl_plugin *,
    const char *options, struct espl_error *error);
ESPL_EXPORT void espl_kit_close(struct espl_kit *);
ESPL_EXPORT void *espl_kit_self(struct espl_kit *); /* what create made */

/* ---- what was said ----------------------------------------------------------------------- */

/* Every sink call, log line and note since the last clear, one line each; refused calls begin
 * with '!', and an answer that was thrown away as a whole ends with "!! why".  Valid until the
 * next call of the kit. */
ESPL_EXPORT const char *espl_kit_log(const struct espl_kit *);
ESPL_EXPORT void espl_kit_clear(struct espl_kit *);             /* log and both counters */
ESPL_EXPORT uint32_t espl_kit_calls(const struct espl_kit *);   /* sink calls */
ESPL_EXPORT uint32_t espl_kit_refused(const struct espl_kit *); /* of them, refused */

/* ---- the search space (before espl_kit_open) --------------------------------------------- */

ESPL_EXPORT void espl_kit_real(struct espl_kit *, const char *name, double low, double high,
    espl_scale, double quantum);
ESPL_EXPORT void espl_kit_int(struct espl_kit *, const char *name, int64_t low, int64_t high,
    espl_scale);
/* labels: "sgd|adam" */
ESPL_EXPORT void espl_kit_choice(struct espl_kit *, const char *name, const char *labels);
/* The parameter made last is active only when an earlier one has this value (a label's index).
 * Several of one parent: any of them. */
ESPL_EXPORT void espl_kit_when(struct espl_kit *, const char *parent, double value);
/* A configuration to be tried first, as many doubles as there are parameters; copied. */
ESPL_EXPORT void espl_kit_first(struct espl_kit *, const double *values);
ESPL_EXPORT const struct espl_space *espl_kit_space(struct espl_kit *);
/* Keeps all reports from now on, and offers them as ESPL_HISTORY, in which every curve is empty.
 * Before espl_kit_open. */
ESPL_EXPORT void espl_kit_keep_history(struct espl_kit *);

/* ---- algorithms -------------------------------------------------------------------------- */

/* Logs "spec bracket=B stage=S trials=N iterations=I" for each stage. */
ESPL_EXPORT espl_status espl_kit_spec(struct espl_kit *);
/* next_group: why, which group ended (ESPL_NONE), how many trials could start. */
ESPL_EXPORT espl_status espl_kit_ask(struct espl_kit *, uint32_t why, uint64_t group,
    uint32_t want);
/* on_report of one iteration: the trial is RUNNING and gets the loss; verdicts are logged and
 * kept (STOP and PAUSE take effect at once, without on_trial_end: call espl_kit_end for that). */
ESPL_EXPORT espl_status espl_kit_report(struct espl_kit *, uint64_t trial, uint64_t iteration,
    double loss);
/* on_trial_end.  BUDGET: the trial is at its budget with this loss, and RESTING.  STOPPED and
 * PAUSED also of a trial to which a verdict has done that already, once. */
ESPL_EXPORT espl_status espl_kit_end(struct espl_kit *, uint64_t trial, espl_end how, double loss);
ESPL_EXPORT uint64_t espl_kit_trials(const struct espl_kit *); /* made so far */
ESPL_EXPORT const struct espl_trial *espl_kit_trial(const struct espl_kit *, uint64_t id);
/* Trials of the group that still train, and whether it is open. */
ESPL_EXPORT uint32_t espl_kit_group_left(const struct espl_kit *, uint64_t group, int *open);
ESPL_EXPORT int espl_kit_finished(const struct espl_kit *);
/* A whole search with room for `slots` trials at once, one iteration of every running trial per
 * round, until it is finished; loss returns a trial's loss at an iteration.  ESPL_E_LIMIT: after
 * `rounds` rounds it was not, or in three rounds nothing trained and no wake_at was to come. */
ESPL_EXPORT espl_status espl_kit_search(struct espl_kit *, uint32_t slots, uint64_t rounds,
    double (*loss)(void *ctx, const struct espl_trial *, uint64_t iteration), void *ctx);

/* ---- machines and trials for allocators and placers -------------------------------------- */

/* Something the cloud sells; the number it got.  nodes_max ESPL_ANY: no limit. */
ESPL_EXPORT uint32_t espl_kit_offer(struct espl_kit *, const char *name, uint32_t gpus,
    uint32_t nodes_max, double usd_hour);
ESPL_EXPORT struct espl_offer *espl_kit_offer_at(struct espl_kit *, uint32_t number);
/* A node; its id, from 0. */
ESPL_EXPORT uint64_t espl_kit_node(struct espl_kit *, uint32_t offer, espl_node_state);
/* Another state; ESPL_NODE_ENDED takes it out of the views, and gangs on it MUST move. */
ESPL_EXPORT void espl_kit_node_state(struct espl_kit *, uint64_t node, espl_node_state);
/* ESPL_NODE_* flags, and the item that owns it (ESPL_NONE: none). */
ESPL_EXPORT void espl_kit_node_flags(struct espl_kit *, uint64_t node, uint32_t flags,
    uint64_t owner);
ESPL_EXPORT void espl_kit_block(struct espl_kit *, uint64_t node, uint32_t gpu);
/* Nodes of the offer that are held: not ENDED, not given up. */
ESPL_EXPORT uint32_t espl_kit_nodes(const struct espl_kit *, uint32_t offer);
/* Makes READY nodes until each offer has as many as its target. */
ESPL_EXPORT void espl_kit_provision(struct espl_kit *);
/* A trial with work left; its id, rising.  It arrived now, its unit is 1. */
ESPL_EXPORT uint64_t espl_kit_item(struct espl_kit *, uint32_t gpus_min, uint32_t gpus_max);
/* For you to change; it counts as altered in the next view.  Not its grant: espl_kit_grant. */
ESPL_EXPORT struct espl_item *espl_kit_item_at(struct espl_kit *, uint64_t id);
ESPL_EXPORT void espl_kit_leave(struct espl_kit *, uint64_t item);

/* allocate with a view of all that happened since the last call.  The answer is checked as a
 * whole: grants within the items' limits, no item twice, together no more GPUs than the
 * targets hold, no target beyond nodes_max.  If it does not fit the status is ESPL_E_REJECTED and
 * nothing changes. */
ESPL_EXPORT espl_status espl_kit_allocate(struct espl_kit *);
/* plan, against espl_kit_experiment's spec; logs the stages.  gpus_max: of the whole cluster. */
ESPL_EXPORT espl_status espl_kit_plan(struct espl_kit *, uint32_t gpus_max);
/* Sets a grant or target without an allocator. */
ESPL_EXPORT void espl_kit_grant(struct espl_kit *, uint64_t item, uint32_t gpus, uint32_t packing);
ESPL_EXPORT void espl_kit_set_target(struct espl_kit *, uint32_t offer, uint32_t nodes);
ESPL_EXPORT uint32_t espl_kit_target(const struct espl_kit *, uint32_t offer);

/* place, with one gang for each item that has a grant.  The answer is checked as a whole: slots
 * as granted, nodes READY and the gang's to use, no GPU beyond its share or blocked, gangs that
 * are to be colocated on one node or on whole nodes.  Nodes given up leave when they are empty;
 * until then they are RETIRING, and their gangs MUST move.  ESPL_E_REJECTED: it does not fit, and
 * this kit is of no further use for placing. */
ESPL_EXPORT espl_status espl_kit_place(struct espl_kit *);
/* A locked gang may not be moved. */
ESPL_EXPORT void espl_kit_lock(struct espl_kit *, uint64_t item, int locked);
/* For you to change owner and offer; the rest follows from the item and its slots. */
ESPL_EXPORT struct espl_gang *espl_kit_gang_at(struct espl_kit *, uint64_t item);
/* Puts a gang somewhere without a placer; the slots are copied. */
ESPL_EXPORT void espl_kit_put(struct espl_kit *, uint64_t item, const struct espl_slot *,
    uint32_t count);
/* Where an item's gang stands; count 0: nowhere. */
ESPL_EXPORT const struct espl_slot *espl_kit_slots(const struct espl_kit *, uint64_t item,
    uint32_t *count);
/* In the next call of place, this many nodes of the offer are above target. */
ESPL_EXPORT void espl_kit_surplus(struct espl_kit *, uint32_t offer, uint32_t nodes);
/* Gangs that the last call of place moved from one place to another. */
ESPL_EXPORT uint32_t espl_kit_moved(const struct espl_kit *);

/* ---- clouds ------------------------------------------------------------------------------ */

/* A cloud under test reaches nothing outside.  The test plays the provider with these functions;
 * what an answer points at must stay until the next call. */
struct espl_kit_provider {
	uint32_t size, zero;
	void *ctx;
	/* Performs the request and fills in its answer.  Before the call status is OK and code 200,
	 * or exit_code 0, and the body is empty.  NULL: such requests fail.  With status E_BUSY it
	 * has not ended: it is performed again a second later, until its limit, and whole lines of
	 * the body are handed over if the request has `lines`. */
	void (*http)(void *ctx, const struct espl_http *, struct espl_http_reply *);
	void (*child)(void *ctx, const struct espl_spawn *, struct espl_child *);
	const char *(*secret)(void *ctx, const char *name); /* NULL, or returns NULL: unknown */
	/* For espl_kit_trouble: forgets everything; how many machines cost money now. */
	void (*reset)(void *ctx);
	uint32_t (*machines)(void *ctx);
};
/* Before espl_kit_open; it must stay.  A new provider forgets the leases. */
ESPL_EXPORT void espl_kit_set_provider(struct espl_kit *, const struct espl_kit_provider *);

typedef uint32_t espl_kit_fault;
enum {
	ESPL_KIT_LOSE_REQUEST = 1, /* never reaches the provider; the cloud gets a failure */
	ESPL_KIT_LOSE_ANSWER,      /* is performed; the cloud gets a failure */
	ESPL_KIT_BUSY,             /* is refused: code 503, or exit status 1 */
	ESPL_KIT_KILL_BEFORE,      /* espalier is killed before the request leaves, and resumed */
	ESPL_KIT_KILL_AFTER        /* espalier is killed before the answer arrives, and resumed */
};
/* What happens to one request (HTTP or child): 1 is the next one; 0: to none. */
ESPL_EXPORT void espl_kit_set_fault(struct espl_kit *, uint32_t request, espl_kit_fault);
/* One more, counted from the same request; at most 4 in all. */
ESPL_EXPORT void espl_kit_add_fault(struct espl_kit *, uint32_t request, espl_kit_fault);

ESPL_EXPORT espl_time espl_kit_time(const struct espl_kit *);
/* Lets time pass: requests are answered, timers expire, and leases that are being released are
 * released again, as a run does, until they end. */
ESPL_EXPORT void espl_kit_wait(struct espl_kit *, espl_span);

/* describe, start, owned.  What the cloud reports is checked against the contract of
 * espalier/cloud.h and logged: "offer 0 box own gpus=8 price=2.5", "node lease=0 READY id=m-1
 * address=10.0.0.7", "done OK". */
ESPL_EXPORT espl_status espl_kit_describe(struct espl_kit *);
ESPL_EXPORT espl_status espl_kit_start(struct espl_kit *);
ESPL_EXPORT espl_status espl_kit_owned(struct espl_kit *, const char *run);
/* Waits at most so long for done of the last of these.  Its status; E_BUSY: there was none. */
ESPL_EXPORT espl_status espl_kit_wait_done(struct espl_kit *, espl_span limit);
/* Leases `count` machines of an offer (as numbered in the log) in one call; the number of the
 * first lease.  The run is called "kit" and the tokens
 * "espl-kit-0", "espl-kit-1", ... */
ESPL_EXPORT uint64_t espl_kit_acquire(struct espl_kit *, uint32_t offer, uint32_t count);
/* Once more, with the same token, as if the driver had died. */
ESPL_EXPORT espl_status espl_kit_acquire_again(struct espl_kit *, uint64_t lease);
ESPL_EXPORT espl_status espl_kit_release(struct espl_kit *, uint64_t lease);
/* Logs the command: "reach lease=0 ssh host". */
ESPL_EXPORT espl_status espl_kit_reach(struct espl_kit *, uint64_t lease);
/* espalier is killed and resumed: a new instance on the same options is started; then leases are
 * adopted, or acquired again if nothing was reported of them. */
ESPL_EXPORT void espl_kit_restart(struct espl_kit *);
/* Waits until the lease has reached this state or ENDED, at most so long: 1, or 0. */
ESPL_EXPORT int espl_kit_wait_node(struct espl_kit *, uint64_t lease, espl_node_state, espl_span);
/* What the cloud has reported of it. */
ESPL_EXPORT const struct espl_lease *espl_kit_lease(struct espl_kit *, uint64_t lease);
ESPL_EXPORT espl_reason espl_kit_reason(struct espl_kit *, uint64_t lease); /* ENDED; else 0 */
ESPL_EXPORT espl_span espl_kit_retry_after(struct espl_kit *, uint64_t lease);

/* Takes the cloud through the life of two leases again and again, each time with one fault at one
 * request, for every request and every fault: all leases must end, and no machine may be left.
 * The provider must have reset and machines.  If something is wrong the status is
 * ESPL_E_REJECTED, and the log holds that life; its last line begins with "!!".  Else the
 * log says how many faults there were. */
ESPL_EXPORT espl_status espl_kit_trouble(struct espl_kit *, const struct espl_plugin *,
    const char *options);

#ifdef __cplusplus
}
#endif
#endif
