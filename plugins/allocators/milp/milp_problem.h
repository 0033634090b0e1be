/* milp_problem.h - one decision of allocator milp as numbers: jobs, the widths each may have, the
 * steps of the horizon, what a plan is worth, and how plans are found.
 *
 * A plan gives every job a width in every step; no step takes more than `total`.  A job's progress
 * is the part of its demand served so far, at most 1, and it earns its weight times that in every
 * step: the paper's objective, in which what is served early counts in all later steps again.
 */
#ifndef MILP_PROBLEM_H
#define MILP_PROBLEM_H
#include <stdint.h>
#include <stdlib.h>
#include <espalier/kit/assert.h>
#include <espalier/abi.h>

#define MILP_WIDTHS 20u /* of a job, at most */
#define MILP_STEPS 12u  /* of the horizon, at most */
#define MILP_CLOSE 1e-9 /* objectives that differ by a smaller part are the same */

struct milp_job {
	uint32_t count; /* of widths, at least 1 */
	uint32_t zero;
	double weight;               /* above 0 */
	uint32_t width[MILP_WIDTHS]; /* rising */
	double rate[MILP_WIDTHS];    /* part of the demand served in a step; rising */
	double first[MILP_WIDTHS];   /* the same in the first step */
};
struct milp_problem {
	uint32_t total; /* that all jobs may take together in a step */
	uint32_t steps; /* from 1 to MILP_STEPS */
	uint32_t job_count, zero;
	struct milp_job *jobs;
};

enum milp_status { MILP_HEURISTIC, MILP_BOUNDED, MILP_OPTIMAL };
struct milp_plan {
	uint8_t *choice;     /* [job * steps + step]: index into the job's widths */
	double value, bound; /* of the objective; bound: no plan is worth more */
	enum milp_status status;
	uint32_t zero;
	uint64_t spent; /* steps of work of the exact search */
};

/* Progress made in a step on a width, by its index. */
static inline double
milp_gain(const struct milp_job *job, uint32_t step, uint32_t choice)
{
	return step == 0 ? job->first[choice] : job->rate[choice];
}

/* What a job earns with these choices, [steps]. */
double allocator_milp_worth(const struct milp_job *, const uint8_t *choice, uint32_t steps);
/* The sum over all jobs, in their order. */
double allocator_milp_value(const struct milp_problem *, const uint8_t *choice);
/* What each step takes, into used[steps]; 1: no step takes more than there is. */
int allocator_milp_used(const struct milp_problem *, const uint8_t *choice, uint64_t *used);
/* Room for the choices, all of them the least; 0: out of memory. */
int allocator_milp_plan_init(struct milp_plan *, const struct milp_problem *);
void allocator_milp_plan_free(struct milp_plan *);

/* ---- heuristic ------------------------------------------------------------------------------- */

/* The heuristic: the step up with the best gain per node, as long as one fits. */

/* A plan for a feasible problem, in the room that allocator_milp_plan_init made; its bound is not
 * known. 0: out of memory. */
int allocator_milp_marginal(const struct milp_problem *, struct milp_plan *);

/* ---- prices ---------------------------------------------------------------------------------- */

/* The best sequences of widths of one job, where nodes have a price in each step.
 *
 * A sequence's profit is what it earns less what its nodes cost.  Found by depth-first search, cut
 * off by two bounds: every step as if the job were never done, and as if it were done from here on.
 * After a job is done only its least width is looked at, and no width above the first that ends it:
 * others cost more and earn no more.  Prices must not be negative.
 */

struct milp_seq {
	uint8_t choice[MILP_STEPS];
	double profit;
};

/* Takes a sequence; answers the least profit that is of interest from now on. */
typedef double milp_take(void *ctx, const uint8_t *choice, double profit, double least);

/* widths of a job that are looked at in a search; 5 widths in 5 steps need 3905 */
#define MILP_LOOKS 40000u

/* Hands over every sequence of at least that profit.  Returns a bound of what was not looked at,
 * which is less than any profit (-INFINITY) unless there is too much. */
double allocator_milp_sequences(const struct milp_problem *, const struct milp_job *,
    const double *price, double least, milp_take *, void *ctx);
/* The most profitable one of more than `above`, into *best; 0: none was found.  *bound (may be
 * NULL): no sequence's profit exceeds both it and what was found. */
int allocator_milp_best(const struct milp_problem *, const struct milp_job *, const double *price,
    double above, struct milp_seq *best, double *bound);
/* An upper bound of the objective from these prices: what the nodes cost and every job's best
 * profit. */
double allocator_milp_bound(const struct milp_problem *, const double *price);

/* ---- relaxation ------------------------------------------------------------------------------ */

/* Prices of nodes in each step at which the linear relaxation over sequences is
 * optimal.
 *
 * Column generation: the master problem chooses a mix of sequences for every job so that no step
 * takes more than there is; its prices make milp_price.c find sequences that it lacks.  Any prices
 * give a valid bound, so stopping early only makes it less tight.
 */

/* Starts from a feasible plan's choices.  price[steps] is written, none negative.  0: out of
 * memory. */
int allocator_milp_dual(const struct milp_problem *, const uint8_t *start, double *price);

/* ---- steps ----------------------------------------------------------------------------------- */

/* Jobs that are not done within the horizon whatever they get: each step by itself.
 *
 * For such jobs the loss of a sequence is the sum of losses of its steps, so all of them together
 * are one knapsack for each step: table[u] is the least loss they can have in it with u nodes,
 * those that stay unused included.
 */

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

/* ---- exact ----------------------------------------------------------------------------------- */

/* The best plan, proven, or with a bound on its distance from the best. */

/* Improves a plan of the heuristic (allocator_milp_marginal), and bounds it.  effort: steps of work
 * at most, apart from those that end a search that was cut off; 0: only bound it.  gap: the part of
 * the objective that is good enough to stop.  0: out of memory; the plan is then as good as before.
 */
int allocator_milp_exact(const struct milp_problem *, uint32_t effort, double gap,
    struct milp_plan *);

#endif
