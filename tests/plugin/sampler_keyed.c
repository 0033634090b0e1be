/* sampler_keyed.c - a sampler with a secret and a file among its options, as one that asks a
 * service has; its own suggestions are the middle of the space.
 */
#include <espalier/sampler.h>
#include <espalier/util.h>

static const struct espl_option options[] = {
	{ .name = "key", .help = "API key", .type = ESPL_OPT_STRING, .flags = ESPL_OPT_SECRET },
	{ .name = "prior", .help = "file of what is known", .type = ESPL_OPT_PATH },
};

struct keyed {
	const struct espl_space *space;
};
static struct keyed only;

static espl_status
tell(void *self, const struct espl_sample *sample, struct espl_error *error)
{
	(void)self;
	(void)sample;
	(void)error;
	return ESPL_OK;
}

static espl_status
ask(void *self, const struct espl_wish *wish, double *values, struct espl_error *error)
{
	const struct espl_space *space = ((const struct keyed *)self)->space;
	uint32_t i, k, missing;
	espl_status status = ESPL_OK;

	(void)error;
	for (i = 0; i < wish->count && status == ESPL_OK; i++, values += space->param_count) {
		for (k = 0; k < space->param_count; k++)
			values[k] = space->value(space, k, 0.5);
		status = space->snap(space, values, &missing);
	}
	return status;
}

static const struct espl_sampler_ops ops = {
	ESPL_TABLE(struct espl_sampler_ops),
	.tell = tell,
	.ask = ask,
};

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)config;
	(void)error;
	only.space = host->service(host, ESPL_SPACE);
	*self = &only;
	return ESPL_OK;
}

static void
destroy(void *self)
{
	(void)self;
}

ESPL_PLUGIN(sampler, keyed) = {
	ESPL_HEAD(ESPL_SAMPLER, "keyed"),
	.version = "1",
	.summary = "a sampler with a secret and a file",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
