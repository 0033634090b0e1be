/* Is of another kind than its file says. */
#include "wrong.h"

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = wrong_allocate };

ESPL_PLUGIN(allocator, wrong_kind) = { ESPL_HEAD(ESPL_PLACER, "wrong_kind"), .ops = &ops.head,
	WRONG_REST };
