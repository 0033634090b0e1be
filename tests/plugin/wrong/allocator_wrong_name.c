/* Calls itself otherwise than its file. */
#include "wrong.h"

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = wrong_allocate };

ESPL_PLUGIN(allocator, wrong_name) = { ESPL_HEAD(ESPL_ALLOCATOR, "other"), .ops = &ops.head,
	WRONG_REST };
