/* Looks at the clock, the environment and its own number in the system. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "wrong.h"

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	(void)self, (void)view, (void)sink, (void)error;
	return time(NULL) < 0 || getenv("NO_SUCH_NAME") != NULL || getpid() < 0 ? ESPL_E_BUG
										: ESPL_OK;
}

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate };

ESPL_PLUGIN(allocator, clocky) = { ESPL_HEAD(ESPL_ALLOCATOR, "clocky"), .ops = &ops.head,
	.option_size = sizeof(struct espl_option), .caps = ESPL_CAP_PURE, WRONG_REST };
