/* planner_net.h - the choices of every stage that are worth a look, and what leads from one to the
 * next.
 *
 * Of all allocations with the same nodes only the fastest can be in a best plan (billed by
 * GPU-seconds: those where none is both faster and cheaper), and those that let trials go on in
 * their gangs.  A plan is a path: one choice of each stage.  Going from one to the next costs
 * nothing where nodes are given back; where new ones come, a wait and money that is a sum of one
 * part of the earlier and one of the later choice.  So the best successors are minima over the
 * front and the back of the sorted list, not over pairs.
 */
#ifndef PLANNER_NET_H
#define PLANNER_NET_H
#include "planner_value.h"

struct planner_choice {
	uint32_t gpus, nodes;
	/* GPUs of each, if trials may come or go on in them; else 0 */
	uint32_t gangs;
	/* the same, begun afresh: itself unless trials go on into it */
	uint32_t base;
	/* the next stage's choice that goes on in its gangs, or NONE */
	uint32_t onward;
	uint32_t above;              /* of the next stage: the first choice with more nodes */
	uint32_t from;               /* of the stage before: the first with as many nodes */
	double time_s, cost_usd;     /* from the begin of its training to its barrier's end */
	double wait_s, wait_usd;     /* added if the next choice has more nodes: its part */
	double come_usd;             /* added if the choice before has fewer: its part */
	double onward_s, onward_usd; /* saved if `onward` follows */
};
struct planner_row {
	struct planner_choice *choices;
	uint32_t count, room;
}; /* by nodes */

struct planner_net {
	struct planner_problem *problem;
	struct planner_row *rows;    /* [stage_count] */
	uint32_t row_count, widest;  /* widest: choices of a row */
	uint32_t fair;               /* only factors and multiples of the stage's trials */
	uint32_t linear;             /* the best path costs the sum of its parts, no more */
	struct planner_choice start; /* of what is held before the first stage */
};

/* ESPL_E_NOMEM; ESPL_E_INFEASIBLE: a stage has no choice. */
espl_status planner_net_make(struct planner_net *, struct planner_problem *, int fair);
void planner_net_free(struct planner_net *);
/* A choice that does as well as these GPUs; if there is none, one with about as many nodes. */
uint32_t planner_net_find(const struct planner_net *, uint32_t stage, uint32_t gpus);

static inline int
planner_is_fair(uint32_t gpus, uint32_t trials)
{
	return gpus >= trials ? gpus % trials == 0 : trials % gpus == 0;
}

#endif
