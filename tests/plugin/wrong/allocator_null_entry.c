/* A mandatory entry was forgotten. */
#include "wrong.h"

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops) };

ESPL_PLUGIN(allocator, null_entry) = { ESPL_HEAD(ESPL_ALLOCATOR, "null_entry"), .ops = &ops.head,
	WRONG_REST };
