/* allocator_probe.c - a plugin for the tests that shows what its host gave it: `extension` answers
 * with a struct of its own.
 */
#include <stdlib.h>

#include "probe.h"

static const struct espl_option columns[] = {
	{ .name = "count",
	    .help = "how many",
	    .type = ESPL_OPT_INT,
	    .flags = ESPL_OPT_REQUIRED,
	    .min = "1" },
	{ .name = "price", .help = "in dollars", .type = ESPL_OPT_MONEY, .fallback = "0.50" },
	{ .name = "file", .help = "a file", .type = ESPL_OPT_PATH },
};
static const struct espl_option options[] = {
	[PROBE_FLAG] = { .name = "flag",
	    .help = "a flag",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true" },
	[PROBE_COUNT] = { .name = "count",
	    .help = "a count",
	    .type = ESPL_OPT_INT,
	    .fallback = "3",
	    .min = "1",
	    .max = "10" },
	[PROBE_RATIO] = { .name = "ratio",
	    .help = "a ratio",
	    .type = ESPL_OPT_REAL,
	    .min = "0",
	    .max = "1" },
	[PROBE_MODE] = { .name = "mode",
	    .help = "a mode",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "first|best|last",
	    .fallback = "best" },
	[PROBE_PERIOD] = { .name = "period",
	    .help = "a period",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "1m30s" },
	[PROBE_SIZE] = { .name = "size",
	    .help = "a size",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "4KiB" },
	[PROBE_PRICE] = { .name = "price", .help = "a price", .type = ESPL_OPT_MONEY },
	[PROBE_TABLE] = { .name = "table",
	    .help = "a table",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = 3 },
	[PROBE_FILE] = { .name = "file", .help = "a file", .type = ESPL_OPT_PATH },
	[PROBE_DELAY] = { .name = "delay",
	    .help = "a delay",
	    .type = ESPL_OPT_LATENCY,
	    .fallback = "{ dist = \"normal\"; mean = \"2s\"; sd = \"500ms\"; }" },
	[PROBE_KEY] = { .name = "api_key",
	    .help = "a key",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_SECRET },
};

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct probe *probe = calloc(1, sizeof *probe);

	if (probe == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	probe->host = host;
	probe->config = config;
	probe->first_random = host->random(host);
	*self = probe;
	return ESPL_OK;
}

static void
destroy(void *self)
{
	free(self);
}

static const void *
extension(void *self, const char *id)
{
	(void)id;
	return self;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)view;
	(void)sink;
	(void)error;
	return ESPL_OK;
}

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate };

ESPL_PLUGIN(allocator, probe) = { ESPL_HEAD(ESPL_ALLOCATOR, "probe"), ESPL_OPTIONS(options),
	.ops = &ops.head, .version = "1.2", .summary = "shows the tests what its host gave it",
	.create = create, .destroy = destroy, .extension = extension };
