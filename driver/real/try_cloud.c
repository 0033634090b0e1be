/* try_cloud.c - starts the configured cloud without a run, to see whether it works. */
#include "real/try_cloud.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/calling.h"
#include "plugin/registry.h"
#include "real/cloudio.h"

struct attempt {
	uv_loop_t loop;
	struct espl__pids pids;
	struct espl__cloudio *io;
	struct espl__instance *cloud;
	struct espl_cloud_events events;
	int done;
	espl_status status;
	char text[800];
};

static espl_status
take_offer(const struct espl_cloud_events *events, const struct espl_offer *offer)
{
	(void)events, (void)offer;
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
	struct attempt *a = events->ctx;

	if (what != 0 || a->done)
		return;
	a->done = 1;
	a->status = status;
	(void)snprintf(a->text, sizeof a->text, "%s", text != NULL ? text : "");
}

static void
enter_plugin(void *ctx)
{
	(void)ctx;
}

static const void *
give_service(void *ctx, struct espl__instance *instance, const char *id)
{
	const struct attempt *a = ctx;

	(void)instance;
	return strcmp(id, ESPL_IO) == 0 ? espl__cloudio_service(a->io) : NULL;
}

static void
start_cloud(struct attempt *a)
{
	const struct espl_cloud_ops *ops = (const struct espl_cloud_ops *)a->cloud->ops;
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	error.option = error.row = ESPL_ANY;
	a->events = (struct espl_cloud_events){ .size = (uint32_t)sizeof a->events,
		.ctx = a,
		.offer = take_offer,
		.prices = take_prices,
		.node = take_node,
		.done = take_done };
	espl__instance_calls(a->cloud, "start");
	status = ops->start(a->cloud->self, &a->events, &error);
	espl__calling_end();
	if (status != ESPL_OK)
		take_done(&a->events, 0, status, error.text);
	while (!a->done && uv_run(&a->loop, UV_RUN_ONCE) != 0)
		;
	if (!a->done)
		take_done(&a->events, 0, ESPL_E_BUG, "it neither started nor failed");
}

static void
end_attempt(struct attempt *a)
{
	espl__cloudio_cancel_all(a->io);
	for (int i = 0; i < 2000 && espl__cloudio_busy(a->io); i++)
		if (uv_run(&a->loop, UV_RUN_NOWAIT) != 0)
			(void)usleep(1000);
	if (a->cloud != NULL)
		espl__instance_destroy(a->cloud);
	for (int i = 0; i < 1000 && uv_loop_close(&a->loop) == UV_EBUSY; i++)
		(void)uv_run(&a->loop, UV_RUN_NOWAIT);
	espl__cloudio_free(a->io);
	espl__pids_free(&a->pids);
}

espl_status
espl__try_cloud(const struct espl__run_config *config, struct espl__diag *diag)
{
	static const espl_time zero = 0;
	const struct espl__section *section = &config->cloud;
	struct attempt a = { .status = ESPL_OK };
	struct espl__cloudio_setup setup = { .loop = &a.loop,
		.group = section->group,
		.pids = &a.pids,
		.enter = enter_plugin,
		.ctx = &a };
	struct espl__host_env env = { .seed = config->seed,
		.now = &zero,
		.directory = config->directory,
		.ctx = &a,
		.service = give_service };
	const struct espl__plugin *plugin;
	espl_status status = espl__plugin_find(ESPL_CLOUD, section->use, &plugin, diag);

	if (status != ESPL_OK || (plugin->desc->caps & ESPL_NEED_IO) == 0)
		return status;
	if (uv_loop_init(&a.loop) != 0)
		return espl__fail(diag, ESPL_E_REMOTE, "cannot start the event loop");
	status = espl__cloudio_new(&setup, &a.io, diag);
	if (status == ESPL_OK)
		status = espl__instance_of(plugin, section->group, &env, &a.cloud, diag);
	if (status == ESPL_OK) {
		espl__cloudio_bind(a.io, a.cloud);
		start_cloud(&a);
		status = a.status;
		if (status != ESPL_OK)
			(void)espl__fail_at(diag, status,
			    section->group != NULL ? section->group->file : config->path,
			    section->group != NULL ? section->group->line : 0, "cloud '%s': %s",
			    section->use, a.text);
	}
	end_attempt(&a);
	return status;
}
