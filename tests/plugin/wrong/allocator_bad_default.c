/* An option whose default breaks its own limit. */
#include "wrong.h"

static const struct espl_option options[] = {
	{ .name = "period",
	    .help = "time between two decisions",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5s",
	    .min = "10s" },
};
static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = wrong_allocate };

ESPL_PLUGIN(allocator, bad_default) = { ESPL_HEAD(ESPL_ALLOCATOR, "bad_default"),
	ESPL_OPTIONS(options), .ops = &ops.head, WRONG_REST };
