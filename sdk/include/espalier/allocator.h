/* espalier SDK: allocator.h - how many GPUs each trial gets, and how big the cluster is.
 *
 * One instance per run.  An answer is a transaction of changes: an item that is not mentioned
 * keeps its grant, an offer that is not mentioned keeps its target.  An item is granted at most
 * once in an answer (ESPL_GRANT_QUEUED does not count).  The host checks that and the sum after
 * the call returns; an answer that does not fit is refused whole and the last one stands.
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
	uint32_t gpus_max;                        /* of the whole cluster; ESPL_ANY: no limit */
	const struct espl_experiment *experiment; /* spec is not NULL */
	const struct espl_offer *const *offers;   /* [number] */
	uint32_t offer_count;                     /* at least 1 */
	uint32_t outcome_count;                   /* of computations this instance submitted */
	const struct espl_outcome *const *outcomes;
};
struct espl_plan_sink {
	uint32_t size, zero;
	/* The last one accepted counts; the host predicts it again (ESPL_AFRESH) and refuses what
	 * does not meet deadline and budget (E_REJECTED). */
	espl_status (*plan)(struct espl_plan_sink *, const struct espl_plan *);
	/* Before returning ESPL_E_INFEASIBLE: the shortest deadline and the lowest budget that
	 * suffice; NaN unknown. */
	espl_status (*least)(struct espl_plan_sink *, double deadline_s, double budget_usd);
};

/* ---- online ------------------------------------------------------------------------------- */

#define ESPL_ITEM_OPEN 0x001u    /* its group will grow */
#define ESPL_ITEM_RUNNING 0x002u /* training now; else queued, starting or preempted */
#define ESPL_ITEM_CHANGING \
	0x004u                      /* between an old grant and `granted`; may be granted again, \
				     * and then changes a second time (ESPL_WHY_SETTLED) */
#define ESPL_ITEM_INPLACE 0x010u    /* resizes without losing its processes */
#define ESPL_ITEM_EVICTED 0x020u    /* some of its GPUs are lost or under notice */
#define ESPL_ITEM_NO_SAVE 0x040u    /* cannot checkpoint: preempting loses all its work */
#define ESPL_ITEM_EXPERIMENT 0x080u /* represents a whole experiment (experiment.inner) */
#define ESPL_ITEM_COLOCATE 0x100u   /* grants must fit one node, or be whole nodes */
/* 0x008u and 0x200u: reserved */

/* Anything with work left: a trial of any experiment, a plain job, an experiment.  An item
 * lives from the trial's start to its budget; a promoted trial becomes a new item.
 *
 * The item of an experiment exists while the experiment has trials to train.  Its limits, unit,
 * scaling (of all its trials together) and work change with them, and it is then listed as changed;
 * it returns by itself what it can no longer use.  Its grant is a share in whole GPUs, without
 * flags except ESPL_GRANT_QUEUED, and the experiment's own allocator divides it.  That allocator
 * sees a cluster as large as the share (gpus, gpus_limit of the experiment; offers have no
 * nodes_max); its targets have no effect outside, and retire, claim and plan are refused. */
struct espl_item {
	uint32_t size;
	uint32_t flags;
	uint64_t id;                 /* unique in the run, rising by arrival */
	uint64_t experiment;         /* its id; NONE: plain job */
	uint64_t trial, group;       /* of the experiment; NONE: not a trial */
	uint32_t bracket, stage;     /* ESPL_ANY: not declared */
	espl_time arrived;           /* when its trial was started or continued */
	espl_time started;           /* first time on GPUs; NEVER */
	double elapsed_s;            /* time on GPUs so far (ModelArts' elapsed time) */
	double work_s;               /* left, seconds on `unit` GPUs; NaN unknown */
	double work_total_s;         /* as estimated at arrival; overrun floors need it */
	uint64_t iterations_left;    /* to its budget */
	uint32_t gpus_min, gpus_max; /* of a grant; gpus_max ESPL_ANY: no limit */
	uint32_t unit;               /* grants of whole GPUs come in multiples of it */
	uint32_t packing_max;        /* 1: never shares */
	/* On the profile's hardware (elsewhere: model->speed), x from unit / 1 upwards. */
	const struct espl_point *scaling;      /* x GPUs, y throughput, `unit` GPUs = 1 */
	const struct espl_point *packing;      /* x trials on a GPU, y total throughput */
	uint32_t scaling_count, packing_count; /* 0: not measured */
	struct espl_share granted;             /* the grant in force */
	uint32_t offer;                        /* it is bound to, or ANY */
	uint32_t node_count;
	const uint64_t *nodes;     /* ids of the nodes that it runs on now, [node_count] */
	double weight;             /* user's and algorithm's, multiplied */
	double resize_s;           /* pause of one change, measured */
	double boundary_s;         /* expected time to its next iteration boundary */
	double start_s;            /* a start elsewhere: save, start, restore */
	uint64_t gpu_memory_bytes; /* seen in use per GPU; 0 unknown */
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
	const struct espl_experiment *const *experiments; /* that run, by id */
	const struct espl_offer *const *offers;           /* [number] */
	const struct espl_node *const *nodes;             /* by id, in any state */
	const uint32_t *targets;                          /* nodes wanted, [offer number] */
	const struct espl_outcome *const *outcomes;       /* with ESPL_WHY_OUTCOME */
	uint32_t item_count, changed_count, experiment_count, offer_count, node_count,
	    outcome_count;
	/* usable: READY and not retiring; of an unreachable node those in use */
	uint32_t gpus;
	uint32_t gpus_idle;   /* of these, whole and free */
	const uint64_t *gone; /* items that left since the last call: with `changed` an
			       * allocator can keep its own books in O(changes).  With a plan in
			       * force an item is also listed as gone when its GPUs are free */
	uint32_t gone_count;
	uint32_t gpus_granted;     /* GPUs that grants in force take: whole ones, and for
				    * each packing degree c the number of 1/c / c, rounded up */
	const uint32_t *gpus_lost; /* missing GPUs of the nodes that count for the target: set
				    * aside, or never found; [offer number];
				    * NULL: none */
};

/* 0x1u and 0x2u: reserved */
#define ESPL_GRANT_AT_ONCE 0x4u /* do not wait for the iteration boundary */
#define ESPL_GRANT_QUEUED \
	0x8u /* for reports: it waits, and is to get this share.  Not \
	      * a grant, and not counted as one */
#define ESPL_GRANT_YIELD \
	0x10u /* it is to make room: to move to a part of another GPU, \
	       * if there is one (ESPL_GANG_YIELDS) */
/* on nodes that its bracket owns (claim); else on those without an owner */
#define ESPL_GRANT_BRACKET 0x20u
struct espl_grant {
	uint32_t size;
	uint32_t flags;          /* ESPL_GRANT_* */
	uint64_t item;           /* its id */
	struct espl_share share; /* gpus 0: preempt, or keep queued */
	uint32_t offer;          /* must run on this one; ANY: on any */
	uint32_t zero;
	espl_money max_price_hour; /* reserved, 0: the target says it */
};
struct espl_target {
	uint32_t size;
	uint32_t offer; /* its number */
	uint32_t nodes; /* to hold, starting and idle ones included */
	uint32_t zero;
	espl_money max_price_hour; /* of nodes yet to be leased; 0: none */
};
struct espl_alloc_sink {
	uint32_t size, zero;
	/* E_REJECTED everywhere: no such item, offer or node, or numbers outside their limits. */
	/* At most one for each item in an answer, else the whole of it is refused.
	 * Grants may exceed what is READY up to the targets: they are then kept and served as
	 * nodes come.  Shrinking is done before growing, whatever the order of calls. */
	espl_status (*grant)(struct espl_alloc_sink *, const struct espl_grant *);
	/* How many nodes of an offer to hold from now on: at most its nodes_max. */
	espl_status (*target)(struct espl_alloc_sink *, const struct espl_target *);
	/* Drain and release this node; if only a target shrinks, the placer chooses the node.
	 * Nodes under notice are retired by the host, except those that cost less if their
	 * provider ends them (a refund, no minimum charge). */
	espl_status (*retire)(struct espl_alloc_sink *, uint64_t node);
	/* Replace the plan in force (re-planning; checked like plan's). */
	espl_status (
	    *plan)(struct espl_alloc_sink *, uint64_t experiment, const struct espl_plan *);
	/* Be called (ESPL_WHY_TIME) at this instant; the earliest one wins, once. */
	espl_status (*wake_at)(struct espl_alloc_sink *, espl_time);
	/* on 1: be called (ESPL_WHY_PRICE) whenever the offer's price changes, from now on; 0: no
	 * more.  Refused where others control the cluster. */
	espl_status (*watch_prices)(struct espl_alloc_sink *, uint32_t offer, uint32_t on);
	/* For reports: value and proven bound of the policy's own objective, NaN none; status
	 * is one word ("optimal", "bounded", "heuristic"). */
	espl_status (
	    *objective)(struct espl_alloc_sink *, double value, double bound, const char *status);
	/* For reports: GPUs that a rolling horizon plans for the item, [0] being now. */
	espl_status (*horizon)(struct espl_alloc_sink *, uint64_t item, const uint32_t *gpus,
	    uint32_t steps);
	/* Reserves a node for a bracket; it counts for the target as before.  Only grants of the
	 * bracket with ESPL_GRANT_BRACKET run there.  E_REJECTED: no such node, or a gang holds
	 * slots on it. */
	espl_status (*claim)(struct espl_alloc_sink *, uint64_t node, uint32_t bracket);
};

struct espl_allocator_ops {
	struct espl_ops head;
	/* Mandatory.  Once a round, if one of ESPL_WHY_* happened. */
	espl_status (*allocate)(void *self, const struct espl_alloc_view *,
	    struct espl_alloc_sink *, struct espl_error *);
	/* Optional.  Before the run, for an experiment with a spec.  ESPL_E_INFEASIBLE: nothing
	 * meets deadline and budget; ESPL_E_BUSY after submitting a computation: called again
	 * with it. */
	espl_status (*plan)(void *self, const struct espl_plan_view *, struct espl_plan_sink *,
	    struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
