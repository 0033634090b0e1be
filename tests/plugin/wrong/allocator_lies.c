/* Loads well, but grants more than there is, never twice the same, and takes no refusal. */
#include "wrong.h"

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	static uint32_t calls; /* what a plugin must not have */
	struct espl_grant grant = ESPL_INIT(struct espl_grant);

	(void)self;
	(void)error;
	for (uint32_t i = 0; i < view->item_count; i++) {
		grant.item = view->items[i]->id;
		grant.share.gpus = view->items[i]->gpus_max;
		grant.share.packing = 1;
		grant.offer = ESPL_ANY;
		grant.max_price_hour = ++calls;
		while (sink->grant(sink, &grant) != ESPL_OK)
			;
	}
	return ESPL_OK;
}

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate };

ESPL_PLUGIN(allocator, lies) = { ESPL_HEAD(ESPL_ALLOCATOR, "lies"), .ops = &ops.head, WRONG_REST };
