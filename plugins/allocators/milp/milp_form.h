/* milp_form.h - a decision as a mixed-integer linear program, in either of two formulations.
 *
 * Served demand is counted in what the job's least width serves in a step, so that the coefficients
 * are the speeds of the widths.
 *   binaries  one binary for each job, step and width
 *   paper     the paper's (15) to (20): an integer number of nodes, and for each width two binaries
 * that tell whether it is at most, and at least, that width
 */
#ifndef MILP_FORM_H
#define MILP_FORM_H
#include "milp_problem.h"

enum milp_formulation { MILP_BINARIES, MILP_PAPER };

/* maximise; rows are low <= sum <= high */
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
int allocator_milp_form(struct milp_form *, const struct milp_problem *, enum milp_formulation,
    double big_m);
void allocator_milp_form_free(struct milp_form *);
/* A plan as values of the columns, and back; the latter takes the nearest choice. */
void allocator_milp_form_write(const struct milp_form *, const struct milp_problem *,
    const uint8_t *choice, double *columns);
void allocator_milp_form_read(const struct milp_form *, const struct milp_problem *,
    const double *columns, uint8_t *choice);

#endif
