/* A table of entries that ends before the mandatory one. */
#include "wrong.h"

static const struct espl_allocator_ops ops = { .head = { (uint32_t)sizeof(struct espl_ops), 0 },
	.allocate = wrong_allocate };

ESPL_PLUGIN(allocator, short_table) = { ESPL_HEAD(ESPL_ALLOCATOR, "short_table"), .ops = &ops.head,
	WRONG_REST };
