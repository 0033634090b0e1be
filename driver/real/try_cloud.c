/* try_cloud.c - the configured cloud without a run: started to see whether it works, which machines
 * it has, or to release some.
 */
#include "real/try_cloud.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/calling.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tick.h"
#include "plugin/registry.h"
#include "real/cloudio.h"

#define LIST_LIMIT (120 * ESPL_SECOND)
#define RELEASE_PAUSE (5 * ESPL_SECOND)

struct offer_price {
	char *name, *market;
	espl_money price_hour;
};

struct espl__visit {
	const struct espl__run_config *config;
	uv_loop_t loop;
	int looping;
	uv_timer_t tick; /* so that a wait with a limit ends */
	struct espl__pids pids;
	struct espl__cloudio *io;
	struct espl__instance *cloud;
	struct espl__host_env env;
	struct espl_cloud_events events;
	espl_time now;
	int lists; /* machines are listed or released: ESPL_VISIT */
	struct espl_visit about;
	uint64_t asked; /* the request that is waited for; 0: start */
	int done;
	espl_status status;
	char text[800];
	struct offer_price *offers;
	uint32_t offer_count, offer_cap;
	struct espl__owned *list;
	uint32_t count, cap;
	/* while machines are released */
	uint8_t *waits; /* [count] for the end of this one */
	void (*ended)(void *ctx, const struct espl__owned *);
	void *ended_ctx;
};

/* ---- what the cloud reports ---- */

static char *
copy_text(const char *text)
{
	return text != NULL && text[0] != '\0' ? espl__strdup(text) : NULL;
}

static struct offer_price *
find_price(const struct espl__visit *v, const char *offer, const char *market)
{
	for (uint32_t i = 0; offer != NULL && market != NULL && i < v->offer_count; i++)
		if (strcmp(v->offers[i].name, offer) == 0 &&
		    strcmp(v->offers[i].market, market) == 0)
			return &v->offers[i];
	return NULL;
}

static espl_status
take_offer(const struct espl_cloud_events *events, const struct espl_offer *offer)
{
	struct espl__visit *v = events->ctx;
	const char *market = offer->market != NULL ? offer->market : "";
	struct offer_price *price;

	if (offer->name == NULL)
		return ESPL_E_REJECTED;
	price = find_price(v, offer->name, market);
	if (price == NULL) {
		ESPL__GROW(v->offers, v->offer_cap, v->offer_count + 1);
		price = &v->offers[v->offer_count++];
		price->name = espl__strdup(offer->name);
		price->market = espl__strdup(market);
	}
	price->price_hour = offer->price_hour;
	return ESPL_OK;
}

static espl_status
take_prices(const struct espl_cloud_events *events, const char *offer, const char *market,
    const struct espl_price *prices, uint32_t count)
{
	struct offer_price *price = find_price(events->ctx, offer, market);

	if (price != NULL && count > 0)
		price->price_hour = prices[count - 1].usd_hour;
	return ESPL_OK;
}

static void
add_owned(struct espl__visit *v, const struct espl_node_event *event)
{
	const struct offer_price *price = find_price(v, event->offer, event->market);
	struct espl__owned *o;

	ESPL__GROW(v->list, v->cap, v->count + 1);
	o = &v->list[v->count++];
	*o = (struct espl__owned){ .token = copy_text(event->token),
		.run = copy_text(event->run),
		.id = copy_text(event->provider_id),
		.address = copy_text(event->address),
		.offer = copy_text(event->offer),
		.market = copy_text(event->market),
		.state = event->state,
		.billed_utc_s = event->billed_utc_s,
		.price_hour = price != NULL ? price->price_hour : -1,
		.charged = -1 };
}

static espl_status
take_node(const struct espl_cloud_events *events, const struct espl_node_event *given)
{
	struct espl__visit *v = events->ctx;
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	memcpy(&event, given, given->size < sizeof event ? given->size : sizeof event);
	if (v->waits == NULL) {
		if (v->asked != 0 && !v->done &&
		    (event.state < ESPL_NODE_ENDED || event.run != NULL))
			add_owned(v, &event);
		return ESPL_OK;
	}
	if (event.state == ESPL_NODE_ENDED && event.lease < v->count && v->waits[event.lease]) {
		v->waits[event.lease] = 0;
		v->list[event.lease].charged = event.charged;
		v->ended(v->ended_ctx, &v->list[event.lease]);
	}
	return ESPL_OK;
}

static void
take_done(const struct espl_cloud_events *events, uint64_t what, espl_status status,
    const char *text)
{
	struct espl__visit *v = events->ctx;

	if (what != v->asked || v->done)
		return;
	v->done = 1;
	v->status = status;
	(void)snprintf(v->text, sizeof v->text, "%s", text != NULL ? text : "");
}

static void
enter_plugin(void *ctx)
{
	struct espl__visit *v = ctx;

	v->now = espl__tick();
}

static const void *
give_service(void *ctx, struct espl__instance *instance, const char *id)
{
	const struct espl__visit *v = ctx;

	(void)instance;
	if (strcmp(id, ESPL_VISIT) == 0)
		return v->lists ? &v->about : NULL;
	return strcmp(id, ESPL_IO) == 0 ? espl__cloudio_service(v->io) : NULL;
}

static const struct espl_cloud_ops *
ops_of(const struct espl__visit *v)
{
	return (const struct espl_cloud_ops *)(const void *)v->cloud->ops;
}

/* ---- begin and end ---- */

static void
on_tick(uv_timer_t *timer)
{
	enter_plugin(timer->data);
}

static void
start_cloud(struct espl__visit *v)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	error.option = error.row = ESPL_ANY;
	v->events = (struct espl_cloud_events){ .size = (uint32_t)sizeof v->events,
		.ctx = v,
		.offer = take_offer,
		.prices = take_prices,
		.node = take_node,
		.done = take_done };
	enter_plugin(v);
	espl__instance_calls(v->cloud, "start");
	status = ops_of(v)->start(v->cloud->self, &v->events, &error);
	espl__calling_end();
	if (status != ESPL_OK)
		take_done(&v->events, 0, status, error.text);
	while (!v->done && uv_run(&v->loop, UV_RUN_ONCE) != 0)
		;
	if (!v->done)
		take_done(&v->events, 0, ESPL_E_BUG, "it neither started nor failed");
}

static espl_status
fail_cloud(const struct espl__visit *v, espl_status status, const char *text,
    struct espl__diag *diag)
{
	const struct espl__section *section = &v->config->cloud;
	char who[120];

	(void)snprintf(who, sizeof who, "cloud '%s'", section->use);
	return espl__diag_said(diag, status,
	    section->group != NULL ? section->group->file : v->config->path,
	    section->group != NULL ? section->group->line : 0, who, text);
}

static void
clear_list(struct espl__visit *v)
{
	while (v->count > 0) {
		struct espl__owned *o = &v->list[--v->count];

		free(o->token);
		free(o->run);
		free(o->id);
		free(o->address);
		free(o->offer);
		free(o->market);
	}
}

void
espl__visit_end(struct espl__visit *v)
{
	if (v == NULL)
		return;
	if (v->io != NULL)
		espl__cloudio_cancel_all(v->io);
	for (int i = 0; v->io != NULL && i < 2000 && espl__cloudio_busy(v->io); i++)
		if (uv_run(&v->loop, UV_RUN_NOWAIT) != 0)
			(void)usleep(1000);
	if (v->cloud != NULL)
		espl__instance_destroy(v->cloud);
	if (v->looping)
		uv_close((uv_handle_t *)&v->tick, NULL);
	for (int i = 0; v->looping && i < 1000 && uv_loop_close(&v->loop) == UV_EBUSY; i++)
		(void)uv_run(&v->loop, UV_RUN_NOWAIT);
	espl__cloudio_free(v->io);
	espl__pids_free(&v->pids);
	clear_list(v);
	free(v->list);
	for (uint32_t i = 0; i < v->offer_count; i++) {
		free(v->offers[i].name);
		free(v->offers[i].market);
	}
	free(v->offers);
	free(v);
}

static espl_status
begin_visit(const struct espl__run_config *config, int lists, const char *dir, int idle,
    struct espl__visit **visit, struct espl__diag *diag)
{
	const struct espl__section *section = &config->cloud;
	struct espl__visit *v;
	struct espl__cloudio_setup setup = { .group = section->group, .enter = enter_plugin };
	const struct espl__plugin *plugin;
	espl_status status = espl__plugin_find(ESPL_CLOUD,
	    section->use != NULL ? section->use : "local", &plugin, diag);

	*visit = NULL;
	if (status != ESPL_OK || (plugin->desc->caps & ESPL_NEED_IO) == 0)
		return status;
	v = espl__alloc(sizeof *v);
	v->config = config;
	v->lists = lists;
	v->about = (struct espl_visit){ .size = (uint32_t)sizeof v->about,
		.folder = dir,
		.idle = idle != 0 };
	setup.loop = &v->loop;
	setup.pids = &v->pids;
	setup.ctx = v;
	v->env = (struct espl__host_env){ .seed = config->seed,
		.secrets = 1,
		.now = &v->now,
		.directory = config->directory,
		.ctx = v,
		.service = give_service };
	if (uv_loop_init(&v->loop) != 0) {
		free(v);
		return espl__fail(diag, ESPL_E_REMOTE, "cannot start the event loop");
	}
	v->looping = 1;
	(void)uv_timer_init(&v->loop, &v->tick);
	v->tick.data = v;
	status = espl__cloudio_new(&setup, &v->io, diag);
	if (status == ESPL_OK)
		status = espl__instance_of(plugin, section->group, &v->env, &v->cloud, diag);
	if (status == ESPL_OK) {
		espl__cloudio_bind(v->io, v->cloud);
		start_cloud(v);
		status = v->status;
		if (status != ESPL_OK)
			(void)fail_cloud(v, status, v->text, diag);
	}
	if (status == ESPL_OK)
		*visit = v;
	else
		espl__visit_end(v);
	return status;
}

espl_status
espl__visit_begin(const struct espl__run_config *config, const char *dir, int idle,
    struct espl__visit **visit, struct espl__diag *diag)
{
	return begin_visit(config, 1, dir, idle, visit, diag);
}

espl_status
espl__try_cloud(const struct espl__run_config *config, struct espl__diag *diag)
{
	struct espl__visit *v;
	espl_status status = begin_visit(config, 0, NULL, 0, &v, diag);

	espl__visit_end(v);
	return status;
}

/* ---- machines ---- */

espl_status
espl__visit_owned(struct espl__visit *v, const char *run, struct espl__owned **list,
    uint32_t *count, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	int64_t until = espl__tick() + LIST_LIMIT;
	espl_status status;

	*count = 0;
	clear_list(v);
	if (!ESPL_HAS(struct espl_cloud_ops, ops_of(v), owned))
		return fail_cloud(v, ESPL_E_UNSUPPORTED, "it cannot list its machines", diag);
	v->asked++;
	v->done = 0;
	enter_plugin(v);
	espl__instance_calls(v->cloud, "owned");
	status = ops_of(v)->owned(v->cloud->self, run, v->asked, &error);
	espl__calling_end();
	if (status != ESPL_OK)
		take_done(&v->events, v->asked, status, error.text);
	(void)uv_timer_start(&v->tick, on_tick, 100, 100);
	while (!v->done && espl__tick() < until)
		(void)uv_run(&v->loop, UV_RUN_ONCE);
	(void)uv_timer_stop(&v->tick);
	if (!v->done)
		take_done(&v->events, v->asked, ESPL_E_LIMIT, "no list of machines within 2 min");
	if (v->status != ESPL_OK)
		return fail_cloud(v, v->status, v->text, diag);
	*list = v->list;
	*count = v->count;
	return ESPL_OK;
}

static void
release_one(struct espl__visit *v, uint32_t i)
{
	const struct espl__owned *o = &v->list[i];
	struct espl_lease view = ESPL_INIT(struct espl_lease);
	const struct espl_lease *pointer = &view;
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	view.state = o->state;
	view.lease = i;
	view.token = o->token;
	view.offer = o->offer != NULL ? o->offer : "";
	view.market = o->market != NULL ? o->market : "";
	view.provider_id = o->id;
	view.address = o->address;
	enter_plugin(v);
	espl__instance_calls(v->cloud, "release");
	status = ops_of(v)->release(v->cloud->self, &pointer, 1, &error);
	espl__calling_end();
	if (status != ESPL_OK)
		espl__log(ESPL_WARN, "%s: releasing a machine failed, retrying: %s", v->cloud->who,
		    error.text);
}

espl_status
espl__visit_release(struct espl__visit *v, const uint8_t *chosen, espl_span limit,
    void (*ended)(void *ctx, const struct espl__owned *), void *ctx, struct espl__diag *diag)
{
	int64_t until = espl__tick() + limit, again = 0;
	uint32_t i, left = 0;

	v->waits = espl__alloc(v->count + 1);
	v->ended = ended;
	v->ended_ctx = ctx;
	for (i = 0; i < v->count; i++)
		v->waits[i] = chosen[i] && v->list[i].token != NULL;
	(void)uv_timer_start(&v->tick, on_tick, 100, 100);
	do {
		int due = espl__tick() >= again;

		again = due ? espl__tick() + RELEASE_PAUSE : again;
		for (i = left = 0; i < v->count; i++) {
			if (due && v->waits[i])
				release_one(v, i);
			left += v->waits[i];
		}
		if (left > 0)
			(void)uv_run(&v->loop, UV_RUN_ONCE);
	} while (left > 0 && espl__tick() < until);
	(void)uv_timer_stop(&v->tick);
	free(v->waits);
	v->waits = NULL;
	if (left > 0)
		return espl__fail(diag, ESPL_E_LIMIT, "%u machines could not be released yet",
		    (unsigned)left);
	return ESPL_OK;
}
