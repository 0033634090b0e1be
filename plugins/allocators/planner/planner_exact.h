/* planner_exact.h - the cheapest plan within a deadline, proven. */
#ifndef PLANNER_EXACT_H
#define PLANNER_EXACT_H
#include "planner_drive.h"

struct planner_exact {
	uint32_t fair, zero; /* fair: only factors and multiples of a stage's trials */
};

/* A planner_solve; ctx: struct planner_exact. */
espl_status planner_exact_solve(void *ctx, struct planner_problem *, double deadline_s,
    struct planner_answer *);

#endif
