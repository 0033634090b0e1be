/* Loads well and sells, but knows no machine again, ends no lease, and says done twice or never. */
#include <stdlib.h>
#include <espalier/cloud.h>
#include "wrong.h"

struct lies {
	const struct espl_cloud_events *events;
};

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)host;
	(void)config;
	*self = calloc(1, sizeof(struct lies));
	return *self != NULL ? ESPL_OK : espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

static espl_status
describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	struct espl_offer offer = ESPL_INIT(struct espl_offer);

	(void)self;
	(void)error;
	offer.number = ESPL_ANY;
	offer.gpus = offer.cpus = offer.nodes_max = 1;
	offer.name = offer.market = "all";
	offer.gpu_type = offer.zone = "";
	offer.provision = offer.init = &none;
	return events->offer(events, &offer);
}

static espl_status
start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	espl_status status = describe(self, events, error);

	((struct lies *)self)->events = events;
	events->done(events, 0, ESPL_OK, "");
	events->done(events, 0, ESPL_OK, "");
	return status;
}

static espl_status
acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	static uint32_t machines;
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);
	struct lies *lies = self;
	char id[16];

	(void)count;
	(void)error;
	(void)snprintf(id, sizeof id, "m%u", machines++);
	event.lease = list[0]->lease;
	event.state = ESPL_NODE_READY;
	event.provider_id = id;
	event.gpus = ESPL_ANY;
	event.at = event.ends_at = ESPL_NEVER;
	return lies->events->node(lies->events, &event);
}

static espl_status
forget(void *self, const struct espl_lease *const *list, uint32_t count, struct espl_error *error)
{
	(void)self;
	(void)list;
	(void)count;
	(void)error;
	return ESPL_OK;
}

static espl_status
owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	const struct lies *lies = self;
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	(void)run;
	(void)what;
	(void)error;
	event.lease = ESPL_NONE;
	event.state = ESPL_NODE_READY;
	(void)lies->events->node(lies->events, &event);
	event.token = "espl-other-1";
	event.run = "other";
	(void)lies->events->node(lies->events, &event);
	return ESPL_OK;
}

static espl_status
reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)lease;
	(void)sink;
	(void)error;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = { ESPL_TABLE(struct espl_cloud_ops), .start = start,
	.acquire = acquire, .release = forget, .adopt = forget, .owned = owned, .reach = reach,
	.describe = describe };

ESPL_PLUGIN(cloud, lies) = { ESPL_HEAD(ESPL_CLOUD, "lies"), .version = "1",
	.summary = "a broken plugin for the tests", .ops = &ops.head, .create = create,
	.destroy = free };
