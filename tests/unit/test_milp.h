/* test_milp.h - problems for the tests and the bench of allocator milp. */
#ifndef TEST_MILP_H
#define TEST_MILP_H
#include "milp_problem.h"

/* The generator of the test: 64 bits of state, the same numbers everywhere. */
double milp_draw(uint64_t *state);
/* Log-normal demands in node-minutes: mean about 230, at least 5. */
double milp_draw_demand(uint64_t *state);
/* Jobs of 1 to 16 nodes, where each doubling keeps 0.8 of a node's speed; five steps of five
 * minutes. */
struct milp_problem milp_make(uint32_t nodes, uint32_t count, const double *node_minutes);
struct milp_problem milp_make_random(uint32_t nodes, uint32_t count, uint64_t seed);
void milp_free(struct milp_problem *);
/* The plan of an engine; `kind` 0: the heuristic with a bound, 1: exact, with so many steps of
 * work. */
struct milp_plan milp_solve(const struct milp_problem *, int kind, uint32_t effort);
/* The value that CBC finds in a child process, and what it took of processor time; NaN: it found
 * none. */
double milp_by_cbc(const struct milp_problem *, int paper, double limit_s, double *took_s,
    int *proven);
#endif
