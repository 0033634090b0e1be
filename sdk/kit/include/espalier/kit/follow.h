/* espalier kit: follow.h - carrying out a plan.
 *
 * A planner answers before the run how many GPUs each stage gets.  During the run this code sets
 * the targets and makes the grants that a plan calls for (RubberBand 4.4): nodes are requested when
 * a stage begins (or ahead of it, planning.acquire_ahead), its trials start when all of them are
 * ready, and nodes that the next stage does not need are released at once, the oldest first; with
 * planning.release = "idle" even within the stage, once no trial waits and the node is empty. If
 * nodes do not arrive within twice the expected time, at most ten minutes, or have been refused for
 * ten seconds, the stage begins on those that are ready and adds the others later.  A stage whose
 * offer is gone, and on whose nodes that are left no trial fits, goes on with another offer, on
 * about as many GPUs.  A call costs O(changes + nodes).
 *
 * Without a plan (the algorithm declares no stages, or the length of a trial is not known) each
 * trial gets the minimum that it can run on, and the cluster is as large as there are trials.
 *
 * Use: a struct espl_follow, all zero but `model` and `stays`, in the instance; call espl_follow in
 * allocate, espl_follow_free in destroy.  A planner that re-plans when a run deviates from its plan
 * calls espl_follow_strays and espl_follow_waits first, passes a better plan to the sink, and calls
 * espl_follow_again instead of espl_follow.
 */
#ifndef ESPALIER_KIT_FOLLOW_H
#define ESPALIER_KIT_FOLLOW_H
#include <espalier/kit/hold.h>
#ifdef __cplusplus
extern "C" {
#endif

struct espl_followed {
	uint64_t id;
	uint32_t gone, granted;
}; /* an item of the running stage */
/* a bracket */
struct espl_follow_at {
	struct espl_followed *items;       /* of the running stage, in order of arrival */
	const struct espl_plan_stage *row; /* of the running stage; NULL before the first */
	uint32_t count, size;              /* items */
	uint32_t next;                     /* all items before this one have had a grant */
	uint32_t busy;                     /* items that have a grant and are not gone */
	uint32_t stage;
	uint32_t begun;         /* 1: its trials may start */
	uint32_t active;        /* 1: its stage has work */
	uint32_t ahead;         /* nodes held for the stage after it */
	uint32_t each;          /* GPUs of a trial: the plan's, or fewer */
	uint32_t held, claimed; /* nodes that it owns: ready ones, and those claimed in this call */
	uint32_t keep;          /* nodes to hold until the stage ends; ESPL_ANY: as planned */
	uint32_t freed;         /* other nodes, released in this call */
	/* planning.release: 1: trials of the stage are on unplanned nodes, or straddle nodes */
	uint32_t strewn, zero;
	espl_time lacks_since; /* since when it lacks nodes; NEVER: it has enough */
	espl_time ask_at;      /* when to request the next stage's nodes; NEVER: not set */
	espl_time wait_until;  /* for the stage's nodes; NEVER: not waiting */
	/* since when nodes are missing that are not even on their way; NEVER: none are */
	espl_time short_since;
	/* while the planned offer is gone `row` points to `instead`, which stands for `planned` */
	struct espl_plan_stage instead;
	const struct espl_plan_stage *planned;
	/* espl_follow_waits: when it may say so again, how often it has, with how many nodes ready
	 */
	espl_time say_at;
	uint32_t said, said_ready;
};
/* all zero to begin with */
struct espl_follow {
	struct espl_follow_at *at; /* [count], by bracket */
	uint32_t count;
	uint32_t stays;                 /* 1: the user wants the planned offer, gone or not */
	uint64_t seen;                  /* items below this id are known */
	const struct espl_model *model; /* for acquire_ahead and espl_follow_strays; may be NULL */
	const struct espl_plan *plan;   /* that `ends` belongs to */
	/* [plan->stage_count] seconds from `from`, as predicted; NULL unknown */
	double *ends;
	/* the same, from a stage's begin until the next one's nodes are requested */
	double *asks;
	double sd_s;    /* of the whole job's time */
	espl_time from; /* when that plan came into force */
	/* items below this id were looked at by espl_follow_strays */
	uint64_t strays_seen;
	struct espl_roster roster; /* without a plan */
};

void espl_follow_free(struct espl_follow *f);
/* Call it in allocate.  offer: the one to use without a plan. */
espl_status espl_follow(struct espl_follow *f, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, uint32_t offer, struct espl_error *error);

/* Returns whether a stage has waited for nodes longer than expected.  *offer: the offer of those
 * nodes.  While none comes, it says so again once for each offer, and then after pauses that
 * double, up to ten minutes: for the same nodes the same would be planned.
 */
int espl_follow_waits(struct espl_follow *f, const struct espl_alloc_view *view, uint32_t *offer);
/* Returns whether a stage begins in this call at a time that differs by more than 5 % (and three
 * standard deviations) from the prediction.  *bracket: its bracket. */
int espl_follow_strays(struct espl_follow *f, const struct espl_alloc_view *view,
    uint32_t *bracket);
/* Call it after passing a new plan to the sink.  The plan is in force in the next call, which
 * follows at once. */
espl_status espl_follow_again(struct espl_follow *f, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
