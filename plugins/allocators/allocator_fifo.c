/* allocator_fifo.c - first in, first out, without elasticity: a started item keeps its GPUs until
 * it ends.
 *
 * What a cluster does that resizes nobody, and so what elasticity is measured against.  Each item
 * takes one fixed number of GPUs, and nobody overtakes who is first in the queue unless the user
 * allows it.
 */
#include <stdlib.h>
#include <string.h>
#include "pool.h"

enum { GPUS, OFFER, TAKE, OVERTAKE };
enum { LEAST, MOST };

static const struct espl_option options[] = {
	POOL_OPTIONS("jobs"),
	{ .name = "take",
	    .help = "number of GPUs of a job that accepts a range: the minimum or the maximum",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "least|most",
	    .fallback = "least" },
	{ .name = "overtake",
	    .help = "start later jobs that fit while the first in the queue does not",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false" },
};

#define FIFO_MAGIC 0x0ef013c2u

struct fifo {
	uint32_t magic; /* FIFO_MAGIC */
	const char *offer_name;
	uint32_t gpus_max, offer; /* offer: ESPL_ANY: not chosen yet */
	uint32_t most, overtake;
	struct espl_roster roster;
};

static void
destroy(void *self)
{
	struct fifo *fifo = self;

	ESPL_ASSERT(fifo != NULL && fifo->magic == FIFO_MAGIC);
	fifo->magic = 0;
	espl_roster_free(&fifo->roster);
	free(fifo);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct fifo *fifo = calloc(1, sizeof *fifo);

	(void)host;
	if (fifo == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	fifo->magic = FIFO_MAGIC;
	fifo->gpus_max = (uint32_t)config->values[GPUS].as.i;
	if (config->values[OFFER].source != ESPL_UNSET)
		fifo->offer_name = config->values[OFFER].as.s;
	fifo->most = config->values[TAKE].as.i == MOST;
	fifo->overtake = config->values[OVERTAKE].as.i != 0;
	fifo->offer = ESPL_ANY;
	*self = fifo;
	return ESPL_OK;
}

/* What the item takes on a cluster of `total` GPUs; 0: it cannot run there. */
static uint32_t
share_of_item(const struct fifo *fifo, const struct espl_item *item, const struct espl_entry *entry,
    uint32_t total)
{
	uint32_t most = entry->most < total ? entry->most : total, fit;

	ESPL_ASSERT(entry->id == item->id);
	if (!fifo->most)
		return entry->least <= total ? entry->least : 0;
	fit = espl_useful(item, fifo->roster.per_node, most);
	return fit > 0 ? fit : entry->least <= total ? entry->least : 0;
}

/* Fewer GPUs than are granted (nodes were lost): those that started last go back to the queue. */
static espl_status
preempt_latest(struct fifo *fifo, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t total)
{
	struct espl_roster *roster = &fifo->roster;
	espl_status status = ESPL_OK;

	while (espl_roster_used(roster) > total && status == ESPL_OK) {
		uint32_t i, last = ESPL_ANY;

		for (i = 0; i < roster->count; i++)
			if (espl_roster_at(roster, i)->gpus > 0 &&
			    (last == ESPL_ANY ||
				view->items[i]->started >= view->items[last]->started))
				last = i;
		ESPL_ASSERT(last != ESPL_ANY);
		status = espl_roster_grant(roster, sink, last, 0, 1);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

static espl_status
serve_queue(struct fifo *fifo, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t total)
{
	struct espl_roster *roster = &fifo->roster;
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = espl_roster_waiting(roster, 0);
	     i < roster->count && status != ESPL_E_NOMEM && espl_roster_used(roster) < total;
	     i = espl_roster_waiting(roster, i + 1)) {
		uint32_t gpus =
		    share_of_item(fifo, view->items[i], espl_roster_at(roster, i), total);

		if (gpus == 0)
			continue; /* it can never run here: it does not block the queue */
		if (espl_roster_used(roster) + gpus <= total)
			status = espl_roster_grant(roster, sink, i, gpus, 1);
		else if (!fifo->overtake)
			break;
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct fifo *fifo = self;
	espl_status status;
	uint64_t limit, aimed;
	uint32_t total;

	ESPL_ASSERT(fifo != NULL && fifo->magic == FIFO_MAGIC);
	if (!pool_begin(view, &(struct pool_wish){ fifo->offer_name, OFFER, fifo->gpus_max, GPUS },
		&fifo->offer, &fifo->roster, &limit, &status, error))
		return status;
	aimed = pool_useful(&fifo->roster, limit);
	status = pool_aim(view, sink, fifo->offer, limit, &aimed, error);
	if (status != ESPL_OK)
		return status;
	total = pool_total(view, fifo->offer, aimed);
	if (espl_roster_used(&fifo->roster) > total) {
		status = preempt_latest(fifo, view, sink, total);
		(void)sink->wake_at(sink, view->now); /* no item is granted twice in one answer */
	} else {
		status = serve_queue(fifo, view, sink, total);
	}
	return status == ESPL_OK ? status : espl_fail(error, status, "out of memory");
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
};

ESPL_PLUGIN(allocator, fifo) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "fifo"),
	.version = "0.1",
	.summary = "first in, first out: a started job keeps its GPUs until it ends",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
