/* Grants every item one GPU of two nodes, and makes one mistake a call: the option says which.
 * Built again as allocator_twice and allocator_elsewhere, whose mistakes are these unless told
 * otherwise. */
#include "wrong.h"

#ifndef NAME
#define NAME slips
#define TEXT "slips"
#define MISTAKE "over"
#endif

enum { OVER, UNKNOWN, TWICE, BEYOND, ELSEWHERE, NONE, WATCH, OWN };
static const struct espl_option options[] = {
	{ .name = "mistake",
	    .help = "which one",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = MISTAKE,
	    .choices = "over|unknown|twice|beyond|elsewhere|none|watch|own" },
};
struct slips {
	int64_t mistake;
};
static struct slips one[8];
static int next;

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)error;
	one[next % 8].mistake = config->values[0].as.i;
	(void)host;
	*self = &one[next++ % 8];
	return ESPL_OK;
}

static void
grant(struct espl_alloc_sink *sink, uint64_t item, uint32_t gpus, uint32_t flags)
{
	struct espl_grant g = ESPL_INIT(struct espl_grant);

	g.flags = flags;
	g.item = item;
	g.share.gpus = gpus;
	g.share.packing = 1;
	g.offer = ESPL_ANY;
	(void)sink->grant(sink, &g);
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	const struct slips *s = self;
	struct espl_target t = ESPL_INIT(struct espl_target);
	uint32_t used = 0;

	(void)error;
	if (view->item_count == 0)
		return ESPL_OK;
	t.nodes = 2;
	(void)sink->target(sink, &t);
	for (uint32_t i = 0; i < view->item_count && used < 2 * view->offers[0]->gpus; i++, used++)
		if (view->items[i]->granted.gpus == 0)
			grant(sink, view->items[i]->id, 1, 0);
	if (s->mistake == OVER)
		grant(sink, view->items[0]->id, 1000, 0);
	else if (s->mistake == UNKNOWN)
		grant(sink, 123456, 1, 0);
	else if (s->mistake == TWICE)
		grant(sink, view->items[0]->id, 1, 0);
	else if (s->mistake == BEYOND)
		grant(sink, view->items[view->item_count - 1]->id, view->items[0]->gpus_max, 0);
	else if (s->mistake == WATCH) { /* and another mistake once a price has changed */
		(void)sink->watch_prices(sink, 0, 1);
		if ((view->why & ESPL_WHY_PRICE) != 0)
			grant(sink, 777777, 1, 0);
		else if (view->now == 0) /* once: only so many are told */
			(void)sink->watch_prices(sink, 9, 1);
	} else if (s->mistake == OWN)
		grant(sink, view->items[0]->id, 1, 0x1u); /* reserved */
	else if (s->mistake == ELSEWHERE) { /* takes for granted that there are two offers */
		t.offer = 1;
		t.nodes = 0;
		(void)sink->target(sink, &t);
	}
	return ESPL_OK;
}

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate };

#define MAKE(name_) ESPL_PLUGIN(allocator, name_)
MAKE(NAME) = { ESPL_HEAD(ESPL_ALLOCATOR, TEXT), ESPL_OPTIONS(options), .ops = &ops.head,
	.version = "1", .summary = "a broken plugin for the tests", .create = create,
	.destroy = wrong_destroy };
