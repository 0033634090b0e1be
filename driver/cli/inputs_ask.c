/* inputs_ask.c - queries plugins about a configuration before anything has been started: the
 * cloud's offers, the algorithm's shape. Nothing runs meanwhile, so a cloud that must
 * ask its provider for its offers is refused.
 */
#include <string.h>
#include <espalier/cloud.h>

#include "base/assert.h"
#include "cli/inputs.h"
#include "policy/call.h"

struct offers {
	espl__offer_fn *each;
	void *ctx;
	uint32_t count;
};

static espl_status
take_offer(const struct espl_cloud_events *events, const struct espl_offer *offer)
{
	struct offers *o = events->ctx;

	o->count++;
	if (o->each != NULL)
		o->each(o->ctx, offer);
	return ESPL_OK;
}

static espl_status
take_prices(const struct espl_cloud_events *events, const char *offer, const char *market,
    const struct espl_price *prices, uint32_t count)
{
	(void)events, (void)offer, (void)market, (void)prices, (void)count;
	return ESPL_OK;
}

static espl_status
take_node(const struct espl_cloud_events *events, const struct espl_node_event *event)
{
	(void)events, (void)event;
	return ESPL_OK;
}

static void
take_done(const struct espl_cloud_events *events, uint64_t what, espl_status status,
    const char *text)
{
	(void)events, (void)what, (void)status, (void)text;
}

/* io: requests are refused; describe makes none. */
static espl_status
no_http(const struct espl_io *io, const struct espl_http *request, struct espl_error *error)
{
	(void)io, (void)request, (void)error;
	return ESPL_E_UNSUPPORTED;
}

static espl_status
no_spawn(const struct espl_io *io, const struct espl_spawn *request, struct espl_error *error)
{
	(void)io, (void)request, (void)error;
	return ESPL_E_UNSUPPORTED;
}

static espl_status
no_timer(const struct espl_io *io, espl_span after, uint64_t cookie)
{
	(void)io, (void)after, (void)cookie;
	return ESPL_E_UNSUPPORTED;
}

static void
no_cancel(const struct espl_io *io, uint64_t cookie)
{
	(void)io, (void)cookie;
}

static int64_t
no_clock(const struct espl_io *io)
{
	(void)io;
	return 0;
}

static espl_status
no_secret(const struct espl_io *io, const char *name, const char **value)
{
	(void)io, (void)name, (void)value;
	return ESPL_E_UNKNOWN;
}

static const struct espl_io idle_io = { .size = (uint32_t)sizeof(struct espl_io),
	.http = no_http,
	.spawn = no_spawn,
	.timer = no_timer,
	.cancel = no_cancel,
	.utc_ns = no_clock,
	.secret = no_secret };

static const void *
cloud_service(void *ctx, struct espl__instance *instance, const char *id)
{
	(void)ctx, (void)instance;
	return strcmp(id, ESPL_IO) == 0 ? &idle_io : NULL;
}

espl_status
espl__inputs_offers(const struct espl__inputs *s, espl__offer_fn *each, void *ctx, uint32_t *count,
    struct espl__diag *diag)
{
	static const espl_time zero = 0;
	struct espl__host_env env = { .seed = s->config->seed,
		.now = &zero,
		.directory = s->config->directory,
		.service = cloud_service };
	struct offers offers = { each, ctx, 0 };
	struct espl_cloud_events events = { .size = (uint32_t)sizeof events,
		.ctx = &offers,
		.offer = take_offer,
		.prices = take_prices,
		.node = take_node,
		.done = take_done };
	struct espl_error error = ESPL_INIT(struct espl_error);
	const struct espl_cloud_ops *ops;
	struct espl__instance *cloud;
	espl_status status;

	ESPL__CHECK(s->config, RUN_CONFIG);
	ESPL__ASSERT(count != NULL);
	*count = 0;
	status = espl__instance_create(ESPL_CLOUD, s->config->cloud.use, s->config->cloud.group,
	    &env, &cloud, diag);
	if (status != ESPL_OK)
		return status;
	ops = (const struct espl_cloud_ops *)cloud->ops;
	error.option = error.row = ESPL_ANY;
	espl__instance_calls(cloud, "describe");
	status = ops->describe(cloud->self, &events, &error);
	espl__calling_end();
	*count = offers.count;
	if (status == ESPL_E_UNKNOWN)
		status = ESPL_OK;
	else if (status != ESPL_OK) {
		(void)espl__diag_plugin(diag, cloud->who, status, &error);
		espl__values_blame(cloud->values, &error, diag);
	}
	espl__instance_destroy(cloud);
	return status;
}

static const void *
algorithm_service(void *ctx, struct espl__instance *instance, const char *id)
{
	const struct espl__inputs *s = ctx;

	(void)instance;
	return strcmp(id, ESPL_SPACE) == 0 ? espl__space_view(s->space) : NULL;
}

const struct espl_spec *
espl__inputs_spec(const struct espl__inputs *s, struct espl__arena *arena)
{
	static const espl_time zero = 0;
	struct espl__inputs copy = *s;
	struct espl__host_env env = { .seed = s->config->seed,
		.now = &zero,
		.ctx = &copy,
		.directory = s->config->directory,
		.service = algorithm_service };
	struct espl__caller caller;
	struct espl__instance *algorithm;
	const struct espl_spec *spec = NULL;

	ESPL__CHECK(s->config, RUN_CONFIG);
	if (espl__instance_create(ESPL_ALGORITHM, s->config->algorithm.use,
		s->config->algorithm.group, &env, &algorithm, NULL) != ESPL_OK)
		return NULL;
	memset(&caller, 0, sizeof caller);
	caller.space = espl__space_view(s->space);
	caller.params = espl__space_count(s->space);
	if (espl__call_spec(&caller, algorithm, arena, &spec, NULL) != ESPL_OK)
		spec = NULL;
	espl__caller_free(&caller);
	espl__instance_destroy(algorithm);
	return spec;
}
