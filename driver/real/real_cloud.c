/* real_cloud.c - the cloud plugin of a run: made, started, and its words turned into events. */
#include "base/assert.h"
#include "real/real.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/mem.h"
#include "plugin/instance.h"
#include "plugin/registry.h"

static void
enter(void *ctx)
{
	espl__real_enter(ctx);
}

static const struct espl_latency *
copy_latency(struct espl__arena *arena, const struct espl_latency *from)
{
	struct espl_latency *to;
	double *samples;

	if (from == NULL)
		return NULL;
	to = espl__arena_alloc(arena, sizeof *to);
	memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
	to->size = (uint32_t)sizeof *to;
	if (to->samples_s != NULL && to->sample_count > 0) {
		samples = espl__arena_alloc(arena, to->sample_count * sizeof *samples);
		memcpy(samples, from->samples_s, to->sample_count * sizeof *samples);
		to->samples_s = samples;
	}
	return to;
}

static const char *
text_or_empty(const char *text)
{
	return text != NULL ? text : "";
}

/* Number of an offer: in order of first sight, as the executor counts. */
static uint32_t
find_offer(const struct espl__real *real, const char *name, const char *market)
{
	uint32_t i;

	for (i = 0; i < real->offer_count; i++)
		if (strcmp(real->offers[i].name, name) == 0 &&
		    strcmp(real->offers[i].market, market) == 0)
			return i;
	return ESPL_ANY;
}

static uint32_t
add_offer(struct espl__real *real, const char *name, const char *market)
{
	uint32_t number = find_offer(real, name, market);

	if (number != ESPL_ANY)
		return number;
	ESPL__GROW(real->offers, real->offer_cap, real->offer_count + 1);
	real->offers[real->offer_count].name = espl__strdup(name);
	real->offers[real->offer_count].market = espl__strdup(market);
	return real->offer_count++;
}

static int
has_gpus(const char *gpu_type)
{
	return gpu_type != NULL && gpu_type[0] != '\0' && strcmp(gpu_type, "cpu") != 0;
}

static espl_status
on_offer(const struct espl_cloud_events *events, const struct espl_offer *offer)
{
	struct espl__real *real = events->ctx;
	struct espl__arena *arena = espl__real_arena(real);
	struct espl_offer *copy;

	if (offer->name == NULL || offer->name[0] == '\0' || offer->gpus == 0)
		return ESPL_E_REJECTED;
	copy = espl__arena_alloc(arena, sizeof *copy);
	memcpy(copy, offer, offer->size < sizeof *copy ? offer->size : sizeof *copy);
	copy->size = (uint32_t)sizeof *copy;
	copy->name = espl__arena_strdup(arena, offer->name);
	copy->market = espl__arena_strdup(arena, text_or_empty(offer->market));
	copy->gpu_type = espl__arena_strdup(arena, text_or_empty(offer->gpu_type));
	copy->zone = espl__arena_strdup(arena, text_or_empty(offer->zone));
	copy->provision = copy_latency(arena, offer->provision);
	copy->init = copy_latency(arena, offer->init);
	if (copy->price_hour > 0)
		copy->flags |= ESPL_OFFER_CANARY;
	copy->number = add_offer(real, copy->name, copy->market);
	real->gpus_offered |= has_gpus(copy->gpu_type);
	espl__real_event(real, ESPL__EV_OFFER)->as.offer = copy;
	return ESPL_OK;
}

static espl_status
on_prices(const struct espl_cloud_events *events, const char *offer, const char *market,
    const struct espl_price *prices, uint32_t count)
{
	struct espl__real *real = events->ctx;
	uint32_t i, number = find_offer(real, offer, text_or_empty(market));

	if (number == ESPL_ANY)
		return ESPL_E_UNKNOWN;
	for (i = 0; i < count; i++) {
		struct espl__event *event = espl__real_event(real, ESPL__EV_PRICE);

		event->as.price.offer = number;
		event->as.price.price = prices[i];
	}
	return ESPL_OK;
}

static espl_status
on_node(const struct espl_cloud_events *events, const struct espl_node_event *event)
{
	struct espl_node_event copy = ESPL_INIT(struct espl_node_event);

	/* a plugin built for an older header knows fewer members */
	memcpy(&copy, event, event->size < sizeof copy ? event->size : sizeof copy);
	espl__real_lease_event(events->ctx, &copy);
	return ESPL_OK;
}

static void
on_done(const struct espl_cloud_events *events, uint64_t what, espl_status status, const char *text)
{
	struct espl__real *real = events->ctx;
	struct espl__event *event;

	if (what != 0)
		espl__real_owned_done(real, what, status, text_or_empty(text));
	if (what != 0 || real->cloud_up || real->cloud_failed)
		return;
	real->cloud_up = status == ESPL_OK;
	real->cloud_failed = status != ESPL_OK;
	event = espl__real_event(real, ESPL__EV_CLOUD);
	event->as.cloud.status = status;
	event->as.cloud.text = espl__arena_strdup(espl__real_arena(real), text_or_empty(text));
	if (!real->cloud_up)
		return;
	espl__real_owned_ask(real);
	espl__real_leases_ask(real);
}

static const void *
service(void *ctx, struct espl__instance *instance, const char *id)
{
	struct espl__real *real = ctx;

	(void)instance;
	if (strcmp(id, ESPL_IO) == 0)
		return espl__cloudio_service(real->io);
	if (strcmp(id, ESPL_RUN) == 0)
		return &real->about;
	return NULL;
}

/* Notes go into the journal: those that repeat, or alternate, would make it grow without end. */
static int
is_new_note(struct espl__real *real, const char *text)
{
	const uint32_t most = sizeof real->notes / sizeof real->notes[0];
	uint64_t digest = espl__digest(0, text, strlen(text));

	for (uint32_t i = 0; i < real->note_count && i < most; i++)
		if (real->notes[i] == digest)
			return 0;
	real->notes[real->note_count++ % most] = digest;
	return 1;
}

static void
note(void *ctx, struct espl__instance *instance, espl_subject about, uint64_t id, const char *text)
{
	struct espl__real *real = ctx;
	char *said = espl__format("%s: %.1000s", instance->who, text);

	(void)about;
	(void)id;
	if (is_new_note(real, said))
		espl__real_event(real, ESPL__EV_NOTE)->as.text =
		    espl__arena_strdup(espl__real_arena(real), said);
	free(said);
}

espl_status
espl__real_cloud_new(struct espl__real *real, struct espl__diag *diag)
{
	const struct espl__section *section = &real->config->cloud;
	const char *use = section->use != NULL ? section->use : "local";
	struct espl__cloudio_setup setup;
	const struct espl__plugin *plugin;
	espl_status status;

	ESPL__CHECK(real, REAL);
	status = espl__plugin_find(ESPL_CLOUD, use, &plugin, diag);
	if (status != ESPL_OK)
		return status;
	if (plugin->desc->caps & ESPL_CAP_SIMULATED) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG,
		    section->group != NULL ? section->group->file : real->config->path,
		    section->group != NULL ? section->group->line : 0,
		    "cloud '%s' exists only in simulations", use);
		espl__hint(diag, "use `espalier simulate`, or cloud = { use = \"local\"; }");
		return ESPL_E_CONFIG;
	}
	memset(&setup, 0, sizeof setup);
	setup.loop = &real->loop;
	setup.group = section->group;
	setup.pids = &real->pids;
	setup.enter = enter;
	setup.ctx = real;
	status = espl__cloudio_new(&setup, &real->io, diag);
	if (status != ESPL_OK)
		return status;
	real->env.seed = real->config->seed;
	real->env.utc_start_s = (int64_t)time(NULL);
	real->env.now = &real->env_now;
	real->env.directory = real->config->directory;
	real->about =
	    (struct espl_run){ .size = (uint32_t)sizeof real->about, .folder = real->dir };
	real->env.ctx = real;
	real->env.service = service;
	real->env.note = note;
	real->env.verbose = 1;
	real->env.secrets = 1;
	status = espl__instance_of(plugin, section->group, &real->env, &real->cloud, diag);
	if (status != ESPL_OK)
		return status;
	real->ops = (const struct espl_cloud_ops *)(const void *)real->cloud->ops;
	espl__cloudio_bind(real->io, real->cloud);
	real->events = (struct espl_cloud_events){ .size = (uint32_t)sizeof real->events,
		.ctx = real,
		.offer = on_offer,
		.prices = on_prices,
		.node = on_node,
		.done = on_done };
	return ESPL_OK;
}

/* Offers that are there from the start and have no GPU are no use to a trainable that computes on
 * GPUs alone. */
static espl_status
gpus_wanted(const struct espl__real *real, struct espl__diag *diag)
{
	const struct espl__trial_config *trial = &real->config->trial;
	const struct espl__plugin *plugin;
	const struct espl__node *named =
	    espl__node_get(espl__node_get(espl__tree_root(real->config->tree), "trial"),
		"trainable");

	if (trial->trainable == NULL || real->offer_count == 0 || real->gpus_offered)
		return ESPL_OK;
	if (espl__plugin_find(ESPL_TRAINABLE, trial->trainable, &plugin, NULL) != ESPL_OK ||
	    !(plugin->desc->caps & ESPL_NEED_CUDA))
		return ESPL_OK;
	(void)espl__fail_at(diag, ESPL_E_CONFIG, named != NULL ? named->file : NULL,
	    named != NULL ? named->line : 0, "trainable '%s' needs GPUs, but %s has none",
	    trial->trainable, real->cloud->who);
	espl__hint(diag,
	    "check that the driver is installed (nvidia-smi) and that cloud.device is not \"cpu\"");
	return ESPL_E_CONFIG;
}

espl_status
espl__real_cloud_start(struct espl__real *real, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	const struct espl__node *group = real->config->cloud.group;
	struct espl__diag own = ESPL__DIAG_INIT;
	const struct espl_offer *offer;
	uint32_t i;
	espl_status status;

	ESPL__CHECK(real, REAL);
	error.option = error.row = ESPL_ANY;
	for (i = 0; (offer = espl__exec_offer(real->world.exec, i)) != NULL; i++) {
		(void)add_offer(real, offer->name, text_or_empty(offer->market));
		real->gpus_offered |= has_gpus(offer->gpu_type);
	}
	espl__real_enter(real);
	status = real->ops->start(real->cloud->self, &real->events, &error);
	if (status == ESPL_OK || real->cloud_up || real->cloud_failed)
		return status == ESPL_OK ? gpus_wanted(real, diag) : ESPL_OK;
	if (status == ESPL_E_CONFIG) {
		(void)espl__diag_plugin(&own, real->cloud->who, status, &error);
		espl__values_blame(real->cloud->values, &error, &own);
		if (own.file[0] == '\0' && group != NULL)
			(void)espl__fail_at(diag, status, group->file, group->line, "%s", own.text);
		else
			(void)espl__fail_at(diag, status, own.file[0] != '\0' ? own.file : NULL,
			    own.line, "%s", own.text);
		if (own.hint[0] != '\0')
			espl__hint(diag, "%s", own.hint);
		return status;
	}
	on_done(&real->events, 0, status, error.text);
	return ESPL_OK;
}

void
espl__real_cloud_free(struct espl__real *real)
{
	uint32_t i;
	int turns;

	ESPL__CHECK(real, REAL);
	if (real->io != NULL) {
		espl__cloudio_cancel_all(real->io);
		for (turns = 0; turns < 2000 && espl__cloudio_busy(real->io); turns++) {
			(void)uv_run(&real->loop, UV_RUN_NOWAIT);
			if (espl__cloudio_busy(real->io))
				(void)usleep(1000);
		}
	}
	espl__instance_destroy(real->cloud);
	real->cloud = NULL;
	for (i = 0; i < real->offer_count; i++) {
		free(real->offers[i].name);
		free(real->offers[i].market);
	}
	free(real->offers);
	real->offers = NULL;
	real->offer_count = 0;
}
