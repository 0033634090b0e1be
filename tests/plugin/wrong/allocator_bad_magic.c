/* A descriptor that does not begin like one. */
#include "wrong.h"

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = wrong_allocate };

ESPL_PLUGIN(allocator, bad_magic) = { .magic = 0x12345678,
	.abi = ESPL_ABI,
	.size = (uint32_t)sizeof(struct espl_plugin),
	.kind = ESPL_ALLOCATOR,
	.name = "bad_magic",
	.ops = &ops.head,
	WRONG_REST };
