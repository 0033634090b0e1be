/* milp_cbc.h - an oracle for allocator milp: the same problem as a mixed-integer linear program,
 * solved by CBC.
 */
#ifndef MILP_CBC_H
#define MILP_CBC_H
#include <stdint.h>
#include <espalier/abi.h>
#include "milp_problem.h"

/* ---- program --------------------------------------------------------------------------------- */

/* A decision as a mixed-integer linear program, in either of two formulations.
 *
 * Served demand is counted in what the job's least width serves in a step, so that the coefficients
 * are the speeds of the widths.
 *   binaries  one binary for each job, step and width
 *   paper     the paper's (15) to (20): an integer number of nodes, and for each width two
 *             binaries: whether it is at most, and at least, that width
 */

enum milp_formulation { MILP_BINARIES, MILP_PAPER };

/* maximize; rows are low <= sum <= high */
struct milp_form {
	uint32_t column_count, column_room, row_count, row_room, entry_count, entry_room;
	uint32_t kind, failed;     /* failed 1: out of memory */
	double *low, *high, *gain; /* of the columns */
	uint8_t *integer;
	double *row_low, *row_high;
	uint32_t *row_from; /* [row_count + 1], into entries */
	uint32_t *entry;    /* columns */
	double *factor;
};

/* big_m: of the paper's formulation, at least; what the widths need is added.  0: out of memory. */
int milp_form_make(struct milp_form *, const struct milp_problem *, enum milp_formulation,
    double big_m);
void milp_form_free(struct milp_form *);
/* A plan as values of the columns, and back; the latter takes the nearest choice. */
void milp_form_write(const struct milp_form *, const struct milp_problem *, const uint8_t *choice,
    double *columns);
void milp_form_read(const struct milp_form *, const struct milp_problem *, const double *columns,
    uint8_t *choice);

/* ---- CBC ------------------------------------------------------------------------------------- */

/* Solves the program above with CBC.
 *
 * CBC may abort the process, exceed its time limit by far, or call a feasible problem infeasible:
 * call this in a child process (milp_by_cbc in tests/unit/test_milp_case.c).
 */

struct milp_cbc {
	enum milp_formulation formulation;
	uint32_t nodes;    /* of branch and bound, at most */
	double big_m, gap; /* gap: the part of the objective that is good enough */
	double limit_s;    /* elapsed; 0: none */
};

/* 1: configure found CBC. */
int milp_cbc_there(void);
/* Improves a plan that the heuristic made.  ESPL_E_UNSUPPORTED: no CBC here; ESPL_E_REMOTE: it
 * found nothing, or nothing that is true; ESPL_E_NOMEM.  The plan is then as before. */
espl_status milp_cbc_solve(const struct milp_problem *, const struct milp_cbc *, struct milp_plan *,
    struct espl_error *);

#endif
