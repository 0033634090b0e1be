/* fluid_probe.h - the tables of allocator fluid where the profile has none: measured as trials run.
 *
 * How long an iteration takes on one GPU is seen in the first iterations.  What comes after is
 * tried once: one GPU is filled with one trial more than was measured, one trial gets twice as many
 * GPUs, and until both have been timed nobody else is packed or scaled that far.
 */
#ifndef FLUID_PROBE_H
#define FLUID_PROBE_H
#include <espalier/allocator.h>
#include "fluid_curve.h"

#define FLUID_STEPS 22u /* widths 1, 2, 4, ... that are tried */

/* all zero to begin with */
struct fluid_probe {
	struct espl_point scaling[FLUID_STEPS], packing[FLUID_PACKING_MAX];
	uint32_t scaling_count, packing_count; /* 0: not even one GPU was timed */
	double iteration_s;                    /* measured on `unit` GPUs; 0: not yet */
	uint64_t experiment;
	uint64_t trial;       /* item that holds try_wide, while it does */
	uint32_t try_wide;    /* width to be timed next; 0: none */
	uint32_t try_packing; /* trials on a GPU to be timed next; 0: none */
	uint32_t tried;       /* number under way or done: not begun again */
	uint32_t zero;
};

/* Reads what was measured so far.  model may be NULL: nothing was. */
void allocator_fluid_probe_read(struct fluid_probe *, const struct espl_model *,
    const struct fluid_rules *, const struct espl_item *, uint64_t experiment);
#endif
