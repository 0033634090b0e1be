/* Nothing is wrong with it: its provider is far away, it needs a table to know where, and it says
 * so when nobody answers.  Whatever comes after that breaks. */
#include <stdlib.h>
#include <espalier/cloud.h>
#include "wrong.h"

static const struct espl_option columns[] = {
	{ .name = "address", .help = "where it is", .type = ESPL_OPT_STRING },
};
static const struct espl_option options[] = {
	{ .name = "providers",
	    .help = "all there are",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = 1 },
};

struct far {
	const struct espl_io *io;
	const struct espl_cloud_events *events;
	int tries;
};

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	const struct espl_table *table = config->values[0].as.table;
	struct far *far;

	if (config->values[0].source == ESPL_UNSET || table->row_count == 0 ||
	    table->cells[0].source == ESPL_UNSET)
		return espl_blame(error, 0, "no provider, or no address");
	far = calloc(1, sizeof *far);
	if (far == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	far->io = host->service(host, ESPL_IO);
	*self = far;
	return ESPL_OK;
}

static espl_status
ask(struct far *far)
{
	struct espl_http request = ESPL_INIT(struct espl_http);

	request.method = "GET";
	request.url = "https://far.example/";
	return far->io->http(far->io, &request, NULL);
}

static espl_status
start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct far *far = self;

	(void)error;
	far->events = events;
	return ask(far);
}

static void
on_http(void *self, const struct espl_http_reply *reply)
{
	struct far *far = self;

	if (far->tries++ < 3) /* later once more */
		(void)far->io->timer(far->io, 60 * ESPL_SECOND, 1);
	else
		far->events->done(far->events, 0, reply->status, reply->text);
}

static void
on_timer(void *self, uint64_t cookie)
{
	(void)cookie;
	(void)ask(self);
}

static espl_status
describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	(void)self;
	(void)events;
	(void)error;
	return ESPL_E_UNKNOWN;
}

static espl_status
acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	(void)self;
	(void)list;
	(void)count;
	(void)error;
	abort();
}

static espl_status
leases(void *self, const struct espl_lease *const *list, uint32_t count, struct espl_error *error)
{
	(void)self;
	(void)list;
	(void)count;
	(void)error;
	abort();
}

static espl_status
reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)lease;
	(void)sink;
	(void)error;
	abort();
}

static const struct espl_cloud_ops ops = { ESPL_TABLE(struct espl_cloud_ops), .start = start,
	.acquire = acquire, .release = leases, .adopt = leases, .reach = reach,
	.describe = describe, .on_http = on_http, .on_timer = on_timer };

ESPL_PLUGIN(cloud, far) = { ESPL_HEAD(ESPL_CLOUD, "far"), .version = "1", .summary = "far away",
	.caps = ESPL_NEED_IO, ESPL_OPTIONS(options), .ops = &ops.head, .create = create,
	.destroy = free };
