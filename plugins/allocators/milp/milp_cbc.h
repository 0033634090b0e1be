/* milp_cbc.h - the program of milp_form.h given to the solver CBC.
 *
 * CBC may abort the process, run for ever, or take a feasible problem for an infeasible one: all
 * this is for a child process (ESPL_COMPUTE).  Its library is opened there and nowhere else.
 */
#ifndef MILP_CBC_H
#define MILP_CBC_H
#include <espalier/abi.h>
#include "milp_form.h"

struct milp_cbc {
	enum milp_formulation formulation;
	uint32_t nodes;    /* of branch and bound, at most */
	double big_m, gap; /* gap: the part of the objective that is good enough */
	double limit_s;    /* elapsed; 0: none */
};

/* 1: this version was built with CBC. */
int allocator_milp_cbc_there(void);
/* Improves a plan that the heuristic made.  ESPL_E_UNSUPPORTED: no CBC here; ESPL_E_REMOTE: it
 * found nothing, or nothing that is true; ESPL_E_NOMEM.  The plan is then as before. */
espl_status allocator_milp_cbc(const struct milp_problem *, const struct milp_cbc *,
    struct milp_plan *, struct espl_error *);

#endif
