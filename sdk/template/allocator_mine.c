/* allocator_mine.c - an allocator to begin with: minimum grants, first come, first served.
 *
 * It holds a cluster of a given size and grants each trial its minimum in order of arrival; a
 * trial for which no GPU is left waits.  It shows all that an allocator must do: set a target of
 * nodes, and make grants whose sum fits it.  Each call walks over all items, which is fast enough
 * for hundreds; for 100,000, espalier/kit/roster.h follows the changes only.
 *
 *	cc -shared -fPIC $(pkg-config --cflags espalier) -o allocator_mine.so allocator_mine.c
 */
#include <stdlib.h>
#include <espalier/allocator.h>
#include <espalier/util.h>

enum { NODES };

static const struct espl_option options[] = {
	{ .name = "nodes",
	    .help = "number of machines",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "100000" },
};

struct mine {
	uint32_t nodes;
};

static void
destroy(void *self)
{
	free(self);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct mine *mine = calloc(1, sizeof *mine);

	(void)host;
	if (mine == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	mine->nodes = (uint32_t)config->values[NODES].as.i;
	*self = mine;
	return ESPL_OK;
}

/* An answer is a set of changes: an item that is not mentioned keeps its grant, an offer its
 * target.  Grants may be given before the nodes are there: they are served as nodes come. */
static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	const struct mine *mine = self;
	uint32_t i, nodes, total, lost, used = 0;
	espl_status status = ESPL_OK;

	if (view->offer_count == 0 || view->item_count == 0)
		return ESPL_OK; /* nothing to buy, or nothing to do */
	nodes = mine->nodes < view->offers[0]->nodes_max ? mine->nodes : view->offers[0]->nodes_max;
	total = nodes * view->offers[0]->gpus;
	/* no trial runs on GPUs that are set aside */
	lost = view->gpus_lost != NULL ? view->gpus_lost[0] : 0;
	total -= lost < total ? lost : total;
	if (view->targets[0] != nodes) {
		struct espl_target target = ESPL_INIT(struct espl_target);

		target.offer = 0;
		target.nodes = nodes;
		status = sink->target(sink, &target);
		if (status != ESPL_OK)
			return espl_fail(error, status, "the request for %u nodes was rejected",
			    nodes);
	}
	for (i = 0; i < view->item_count; i++)
		used += view->items[i]->granted.gpus;
	for (i = 0; i < view->item_count; i++) {
		const struct espl_item *item = view->items[i];
		struct espl_grant grant = ESPL_INIT(struct espl_grant);

		if (item->granted.gpus > 0)
			continue;
		if (used + item->gpus_min > total)
			break; /* first come, first served: stop here */
		grant.item = item->id;
		grant.share.gpus = item->gpus_min;
		grant.share.packing = 1; /* c: a c-th of one GPU */
		grant.offer = ESPL_ANY;
		status = sink->grant(sink, &grant);
		if (status == ESPL_E_REJECTED)
			continue; /* the host has said why in its log */
		if (status != ESPL_OK)
			return espl_fail(error, status, "granting failed");
		used += item->gpus_min;
	}
	return ESPL_OK;
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
};

ESPL_PLUGIN(allocator, mine) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "mine"),
	.version = "0.1",
	.summary = "first come, first served, with the minimum number of GPUs each",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
