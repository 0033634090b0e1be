/* planner_greedy.h - RubberBand's planner (EuroSys'21, Algorithm 2), as printed and repaired.
 *
 * It begins with the best cluster of one size and takes GPUs from one stage after another, always
 * where the money saved for a second lost is the most.  As printed it takes the fewest GPUs that
 * leave a factor or a multiple of the stage's trials, and stops when the best step is too slow.
 * With whole-node prices that is nearly always at once: one GPU fewer rarely frees a node. Repaired
 * it looks at steps to fewer nodes, near and far, leaves out what is too slow, begins with two and
 * three times the size too, and ends with small changes up and down.
 */
#ifndef PLANNER_GREEDY_H
#define PLANNER_GREEDY_H
#include "planner_drive.h"

struct planner_greedy {
	uint32_t literal;
	uint32_t starts; /* 1: the best size; 2: twice that too; ... */
};

/* A planner_solve; ctx: struct planner_greedy. */
espl_status planner_greedy_solve(void *ctx, struct planner_problem *, double deadline_s,
    struct planner_answer *);

#endif
