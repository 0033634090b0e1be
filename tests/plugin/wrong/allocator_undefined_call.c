/* Calls a function that nobody has. */
#include "wrong.h"

void espalier_function_that_nobody_has(void);

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	espalier_function_that_nobody_has();
	return wrong_allocate(self, view, sink, error);
}

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate };

ESPL_PLUGIN(allocator, undefined_call) = { ESPL_HEAD(ESPL_ALLOCATOR, "undefined_call"),
	.ops = &ops.head, WRONG_REST };
