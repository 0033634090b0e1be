/* espalier SDK: allocator.h - how many GPUs each trial gets, and how big the cluster is.
 *
 * One instance per run.  An answer is a list of changes that is applied as a whole: an item that is
 * not mentioned keeps its grant, and an offer that is not mentioned keeps its target.  An answer
 * grants each item at most once (ESPL_GRANT_QUEUED does not count).  The host checks this and the
 * sum after the call has returned; it discards an answer that does not fit as a whole, and the
 * previous one stays in force.
 *
 * Grant what exists: a requested node may be refused, or wait in a queue for days.  A trial that
 * has waited for ten seconds beside idle GPUs that it could use is started on them by the host, on
 * a part of its grant, or without one on its least.  Two names of options mean the same in every
 * allocator: `gpus` (an integer above 0) is the most that it grants, which the host keeps as well;
 * `offer` (a string) says that it leases one offer: others of equal shape then stand in for it.
 */
#ifndef ESPALIER_ALLOCATOR_H
#define ESPALIER_ALLOCATOR_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#include <espalier/host.h>
#include <espalier/model.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- offline ------------------------------------------------------------------------------ */

struct espl_plan_view {
	uint32_t size;
	uint32_t gpus_max; /* most GPUs of the whole cluster; ESPL_ANY: no limit */
	const struct espl_experiment *experiment; /* spec is not NULL */
	const struct espl_offer *const *offers;   /* [number] */
	uint32_t offer_count;                     /* at least 1 */
	uint32_t outcome_count; /* results of computations that this instance submitted */
	const struct espl_outcome *const *outcomes;
};
struct espl_plan_sink {
	uint32_t size, zero;
	/* The last plan that is accepted counts.  The host predicts it again (ESPL_AFRESH) and
	 * refuses a plan that does not meet the deadline and the budget (E_REJECTED). */
	espl_status (*plan)(struct espl_plan_sink *, const struct espl_plan *);
	/* To be called before returning ESPL_E_INFEASIBLE: the shortest deadline and the lowest
	 * budget that are feasible; NaN unknown. */
	espl_status (*least)(struct espl_plan_sink *, double deadline_s, double budget_usd);
};

/* ---- online ------------------------------------------------------------------------------- */

#define ESPL_ITEM_OPEN 0x001u    /* its group will grow */
#define ESPL_ITEM_RUNNING 0x002u /* training now; else queued, starting or preempted */
/* between an old grant and `granted`; may be granted again, and then changes a second time
 * (ESPL_WHY_SETTLED) */
#define ESPL_ITEM_CHANGING 0x004u
#define ESPL_ITEM_INPLACE 0x010u    /* is resized without ending its processes */
#define ESPL_ITEM_EVICTED 0x020u    /* some of its GPUs are lost or under notice */
#define ESPL_ITEM_NO_SAVE 0x040u    /* cannot checkpoint: preempting loses all its work */
#define ESPL_ITEM_EXPERIMENT 0x080u /* represents a whole experiment (experiment.inner) */
#define ESPL_ITEM_COLOCATE 0x100u   /* grants must fit one node, or be whole nodes */
/* 0x008u and 0x200u: reserved */

/* Anything that has work left: a trial of any experiment, a plain job, or an experiment.  An item
 * lives from the trial's start to its budget; a promoted trial becomes a new item.
 *
 * The item of an experiment exists while the experiment has trials to train.  Its limits, unit,
 * scaling (of all its trials together) and work change with them; it is then listed as changed, and
 * it gives up GPUs that it can no longer use without a call of the allocator.  Its grant is a share
 * in whole GPUs, without flags except ESPL_GRANT_QUEUED, and the experiment's own allocator divides
 * it.  That allocator sees a cluster as large as the share (gpus, gpus_limit of the experiment;
 * offers have no nodes_max); its targets do not change the cluster, and its retire, claim and plan
 * are refused. */
struct espl_item {
	uint32_t size;
	uint32_t flags;
	uint64_t id;                 /* unique in the run, rising by arrival */
	uint64_t experiment;         /* its id; NONE: plain job */
	uint64_t trial, group;       /* of the experiment; NONE: not a trial */
	uint32_t bracket, stage;     /* ESPL_ANY: not declared */
	espl_time arrived;           /* when its trial was started or continued */
	espl_time started;           /* when it first ran on GPUs; NEVER: not yet */
	double elapsed_s;            /* time on GPUs so far (ModelArts' elapsed time) */
	double work_s;               /* work left, in seconds on `unit` GPUs; NaN unknown */
	double work_total_s;         /* all its work, as estimated at arrival */
	uint64_t iterations_left;    /* iterations left to its budget */
	uint32_t gpus_min, gpus_max; /* limits of a grant; gpus_max ESPL_ANY: no limit */
	uint32_t unit;               /* grants of whole GPUs come in multiples of it */
	uint32_t packing_max;        /* 1: never shares */
	/* Measured on the profile's hardware (for other hardware see model->speed); x begins at
	 * `unit` or at 1. */
	const struct espl_point *scaling;      /* x GPUs, y throughput, `unit` GPUs = 1 */
	const struct espl_point *packing;      /* x trials on a GPU, y total throughput */
	uint32_t scaling_count, packing_count; /* 0: not measured */
	struct espl_share granted;             /* the grant in force */
	uint32_t offer;                        /* the offer that it is bound to, or ANY */
	uint32_t node_count;
	const uint64_t *nodes;     /* ids of the nodes that it runs on now, [node_count] */
	double weight;             /* the user's weight times the algorithm's */
	double resize_s;           /* measured length of the pause at a resize */
	double boundary_s;         /* expected time to its next iteration boundary */
	double start_s;            /* time to move it: save, start, restore */
	uint64_t gpu_memory_bytes; /* measured use per GPU; 0 unknown */
	uint32_t gpu;              /* of nodes[0], if it runs on one GPU or a part of it: items
				    * with the same two share it; else ESPL_ANY */
	uint32_t zero;
};

struct espl_alloc_view {
	uint32_t size;
	uint32_t why; /* all that happened in this round */
	espl_time now;
	/* Lists have item_count, changed_count, ... elements. */
	const struct espl_item *const *items;             /* all, by (arrived, id) */
	const struct espl_item *const *changed;           /* new or altered since the last call */
	const struct espl_experiment *const *experiments; /* those that run, by id */
	const struct espl_offer *const *offers;           /* [number] */
	const struct espl_node *const *nodes;             /* by id, in any state */
	const uint32_t *targets;                          /* nodes wanted, [offer number] */
	const struct espl_outcome *const *outcomes;       /* with ESPL_WHY_OUTCOME */
	uint32_t item_count, changed_count, experiment_count, offer_count, node_count,
	    outcome_count;
	/* usable GPUs: of nodes that are READY and not retiring; of an unreachable node only those
	 * in use */
	uint32_t gpus;
	uint32_t gpus_idle;   /* whole and free GPUs among these */
	const uint64_t *gone; /* items that left since the last call: with these and `changed` an
			       * allocator can update its own records in O(changes).  With a plan in
			       * force an item is also listed here when its GPUs are free */
	uint32_t gone_count;
	uint32_t gpus_granted;     /* GPUs that grants in force take: whole ones, and for
				    * each packing degree c the number of 1/c / c, rounded up */
	const uint32_t *gpus_lost; /* GPUs missing on the nodes that count for the target: set
				    * aside, or never found; [offer number]; NULL: none */
};

/* 0x1u and 0x2u: reserved */
#define ESPL_GRANT_AT_ONCE 0x4u /* do not wait for the iteration boundary */
/* for reports: the item waits for this share.  Not a grant, and not counted as one */
#define ESPL_GRANT_QUEUED 0x8u
/* the item should make room by moving to a part of another GPU, if there is one (ESPL_GANG_YIELDS)
 */
#define ESPL_GRANT_YIELD 0x10u
/* runs on nodes that its bracket owns (claim); else on nodes without an owner */
#define ESPL_GRANT_BRACKET 0x20u
struct espl_grant {
	uint32_t size;
	uint32_t flags;          /* ESPL_GRANT_* */
	uint64_t item;           /* its id */
	struct espl_share share; /* gpus 0: preempt it, or keep it queued */
	uint32_t offer;          /* it must run on this offer; ANY: on any */
	uint32_t zero;
	espl_money max_price_hour; /* reserved, 0; see espl_target */
};
struct espl_target {
	uint32_t size;
	uint32_t offer; /* its number */
	uint32_t nodes; /* nodes to hold, including those that are starting or idle */
	uint32_t zero;
	espl_money max_price_hour; /* for nodes leased from now on; 0: none */
};
struct espl_alloc_sink {
	uint32_t size, zero;
	/* E_REJECTED everywhere: no such item, offer, node or experiment, numbers outside their
	 * limits, or a struct that does not begin with its size or whose field `zero` is not 0. */
	/* At most one grant for each item in an answer, or the whole answer is refused.  Grants may
	 * exceed the GPUs of READY nodes, up to the targets: they are kept, and satisfied as nodes
	 * become ready.  Items shrink before others grow, whatever the order of calls. */
	espl_status (*grant)(struct espl_alloc_sink *, const struct espl_grant *);
	/* Sets how many nodes of an offer to hold from now on: at most its nodes_max. */
	espl_status (*target)(struct espl_alloc_sink *, const struct espl_target *);
	/* Drains and releases this node; if only a target shrinks, the placer chooses the node.
	 * The host retires nodes under notice, except those that cost less if their provider ends
	 * them (a refund, no minimum charge). */
	espl_status (*retire)(struct espl_alloc_sink *, uint64_t node);
	/* Replaces the plan in force (re-planning); it is checked like an answer of plan. */
	espl_status (
	    *plan)(struct espl_alloc_sink *, uint64_t experiment, const struct espl_plan *);
	/* Asks to be called (ESPL_WHY_TIME) at this instant, in nanoseconds like view->now.  Of
	 * several, only the earliest is kept.  E_REJECTED: it is before now.  now itself: again in
	 * a round of its own.  A policy that is called soon again and again, although nothing
	 * changes, ends the run. */
	espl_status (*wake_at)(struct espl_alloc_sink *, espl_time);
	/* on 1: asks to be called (ESPL_WHY_PRICE) whenever the offer's price changes, from now on;
	 * 0: no longer.  Refused for the allocator of an experiment in a pool. */
	espl_status (*watch_prices)(struct espl_alloc_sink *, uint32_t offer, uint32_t on);
	/* For reports: value and proven bound of the policy's own objective (NaN: none); status is
	 * one word ("optimal", "bounded", "heuristic") of at most 63 bytes. */
	espl_status (
	    *objective)(struct espl_alloc_sink *, double value, double bound, const char *status);
	/* For reports: the numbers of GPUs that a rolling horizon plans for the item; [0] is now.
	 * At most 10,000 steps. */
	espl_status (*horizon)(struct espl_alloc_sink *, uint64_t item, const uint32_t *gpus,
	    uint32_t steps);
	/* Reserves a node for a bracket; it still counts for the target.  Only grants of the
	 * bracket with ESPL_GRANT_BRACKET run there.  E_REJECTED: no such node, or a gang holds
	 * or has reserved slots on it. */
	espl_status (*claim)(struct espl_alloc_sink *, uint64_t node, uint32_t bracket);
};

struct espl_allocator_ops {
	struct espl_ops head;
	/* Mandatory.  Called once a round, if one of ESPL_WHY_* happened. */
	espl_status (*allocate)(void *self, const struct espl_alloc_view *,
	    struct espl_alloc_sink *, struct espl_error *);
	/* Optional.  Called before the run, for an experiment with a spec.  ESPL_E_INFEASIBLE: no
	 * plan meets the deadline and the budget; ESPL_E_BUSY after submitting a computation:
	 * called again with its outcome. */
	espl_status (*plan)(void *self, const struct espl_plan_view *, struct espl_plan_sink *,
	    struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
