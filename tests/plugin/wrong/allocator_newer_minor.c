/* Made for headers newer than ours. */
#include "wrong.h"

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = wrong_allocate };

ESPL_PLUGIN(allocator, newer_minor) = { .magic = ESPL_MAGIC,
	.abi = ESPL_ABI + 1,
	.size = (uint32_t)sizeof(struct espl_plugin),
	.kind = ESPL_ALLOCATOR,
	.name = "newer_minor",
	.ops = &ops.head,
	WRONG_REST };
