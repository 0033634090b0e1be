/* planner_improve.h - making a plan better by small changes: a stage to another choice, and one
 * stage up while another goes down. */
#ifndef PLANNER_IMPROVE_H
#define PLANNER_IMPROVE_H
#include "planner_net.h"

/* the best plan so far */
struct planner_found {
	struct planner_value value;
	struct planner_value tried; /* the last path's, whatever became of it */
	uint32_t *path;             /* [row_count]: choices begun afresh */
	uint32_t *gpus;             /* [row_count]: scratch */
	uint32_t known, zero;       /* 0: none yet */
	uint64_t looked;            /* plans evaluated */
};

espl_status planner_found_make(struct planner_found *, const struct planner_net *);
void planner_found_free(struct planner_found *);
/* Takes the path if it ends in time_s and is better than what is known; tells whether. */
int planner_found_try(struct planner_found *, const struct planner_net *, const uint32_t *path,
    double time_s);
/* Until no small change makes it better, or the effort is spent.  pairs: two stages at once too. */
void planner_improve(struct planner_found *, const struct planner_net *, double time_s, int pairs);

#endif
