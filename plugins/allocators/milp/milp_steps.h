/* milp_steps.h - jobs that are not done within the horizon whatever they get: each step by itself.
 *
 * For such jobs the loss of a sequence is the sum of losses of its steps, so all of them together
 * are one knapsack for each step: table[u] is the least loss they can have in it with u nodes,
 * those that stay unused included.
 */
#ifndef MILP_STEPS_H
#define MILP_STEPS_H
#include "milp_problem.h"

struct milp_step {
	double *table;   /* [total + 1] */
	uint8_t *unused; /* [total + 1]: 1: best with a node fewer */
	uint8_t *only;   /* [member]: its choice if it has but one, else 255 */
	uint8_t *taken;  /* [member * (total + 1) + nodes]: the choice */
};
/* all zero to begin with */
struct milp_steps {
	uint32_t count, room; /* members */
	uint32_t *members;    /* jobs, rising */
	struct milp_step step[MILP_STEPS];
};

/* 1: within this loss no sequence of the job ends it. */
int allocator_milp_steps_fits(const struct milp_problem *, const struct milp_job *,
    const double *price, double radius);
int allocator_milp_steps_add(struct milp_steps *, uint32_t job); /* 0: out of memory */
/* Makes the tables.  0: out of memory. */
int allocator_milp_steps_fill(struct milp_steps *, const struct milp_problem *, const double *price,
    double radius);
/* Writes the members' choices in a step where they may have so many nodes. */
void allocator_milp_steps_choose(const struct milp_steps *, const struct milp_problem *,
    uint32_t step, uint32_t nodes, uint8_t *choice);
void allocator_milp_steps_free(struct milp_steps *);

#endif
