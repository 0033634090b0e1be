/* instance.c - a plugin at work: its options checked, its files read, its host table made. */
#include "base/assert.h"
#include "plugin/instance.h"

#include <stdlib.h>
#include <string.h>

#include <espalier/algorithm.h>
#include <espalier/cloud.h>
#include <espalier/util.h>

#include "base/log.h"
#include "base/mem.h"

/* ---- the host table ---------------------------------------------------------------- */

static espl_time
host_now(const struct espl_host *host)
{
	const struct espl__instance *instance = host->ctx;

	return instance->env->now != NULL ? *instance->env->now : 0;
}

static uint64_t
host_random(const struct espl_host *host)
{
	struct espl__instance *instance = host->ctx;

	return espl__rng_next(&instance->rng);
}

static espl_level log_least = ESPL_DEBUG;

void
espl__instance_log_from(espl_level least)
{
	log_least = least;
}

static void
host_log(const struct espl_host *host, espl_level level, const char *text)
{
	const struct espl__instance *instance = host->ctx;

	ESPL__CHECK(instance, INSTANCE);
	if (text == NULL)
		return;
	if (level < ESPL_DEBUG || level > ESPL_ERROR)
		level = ESPL_INFO;
	if (level >= log_least)
		espl__log(level, "%s: %s", instance->who, text);
}

static void
host_note(const struct espl_host *host, espl_subject about, uint64_t id, const char *text)
{
	struct espl__instance *instance = host->ctx;

	if (instance->env->verbose && instance->env->note != NULL && text != NULL)
		instance->env->note(instance->env->ctx, instance, about, id, text);
}

/* Who may ask for what: the table of host.h. */
static int
may_ask(espl_kind kind, const char *id)
{
	static const struct {
		const char *id;
		uint32_t kinds;
	} services[] = {
#define FOR(kind_) (1u << (kind_))
		{ ESPL_SPACE, FOR(ESPL_ALGORITHM) },
		{ ESPL_EXPERIMENT, FOR(ESPL_ALGORITHM) },
		{ ESPL_HISTORY, FOR(ESPL_ALGORITHM) },
		{ ESPL_FIRST, FOR(ESPL_ALGORITHM) },
		{ ESPL_MODEL, FOR(ESPL_ALGORITHM) | FOR(ESPL_ALLOCATOR) },
		{ ESPL_MARKET, FOR(ESPL_ALLOCATOR) },
		{ ESPL_COMPUTE, FOR(ESPL_ALGORITHM) | FOR(ESPL_ALLOCATOR) },
		{ ESPL_IO, FOR(ESPL_CLOUD) },
		{ ESPL_RUN, FOR(ESPL_CLOUD) },
		{ ESPL_VISIT, FOR(ESPL_CLOUD) },
	};

	for (size_t i = 0; i < sizeof services / sizeof services[0]; i++)
		if (strcmp(services[i].id, id) == 0)
			return (services[i].kinds & FOR(kind)) != 0;
	return 0;
}

static const void *
host_service(const struct espl_host *host, const char *id)
{
	struct espl__instance *instance = host->ctx;

	if (id == NULL || !may_ask(instance->plugin->desc->kind, id) ||
	    instance->env->service == NULL)
		return NULL;
	return instance->env->service(instance->env->ctx, instance, id);
}

static espl_status
host_file(const struct espl_host *host, uint32_t option, uint32_t row, uint32_t column,
    const void **bytes, uint64_t *size, struct espl_error *error)
{
	const struct espl__instance *instance = host->ctx;
	uint64_t length = 0;
	const void *found = espl__files_get(instance, option, row, column, &length);

	if (found == NULL)
		return espl_fail(error, ESPL_E_UNKNOWN, "option %u is not the name of a file",
		    option);
	*bytes = found;
	*size = length;
	return ESPL_OK;
}

static void
make_host(struct espl__instance *instance)
{
	struct espl_host *host = &instance->host;
	char stream[200];

	host->size = (uint32_t)sizeof *host;
	host->abi = ESPL_ABI;
	host->ctx = instance;
	host->now = host_now;
	host->random = host_random;
	host->log = host_log;
	host->note = host_note;
	host->service = host_service;
	host->file = host_file;
	host->utc_start_s = instance->env->utc_start_s;
	host->verbose = (uint32_t)(instance->env->verbose != 0);
	host->simulated = (uint32_t)(instance->env->simulated != 0);
	host->rules = instance->env->rules;
	snprintf(stream, sizeof stream, "%s/%s/%s", espl__kind_name(instance->plugin->desc->kind),
	    instance->plugin->desc->name, instance->values->config.instance);
	espl__rng_seed(&instance->rng, instance->env->seed, stream);
}

/* ---- its life ---------------------------------------------------------------------- */

static espl_status
create_instance(struct espl__instance *instance, const struct espl__node *group,
    struct espl__diag *diag)
{
	const struct espl_plugin *desc = instance->plugin->desc;
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct espl__diag inner = ESPL__DIAG_INIT;
	espl_status status;

	error.option = error.row = ESPL_ANY;
	espl__instance_calls(instance, "create");
	status = desc->create(&instance->host, &instance->values->config, &instance->self, &error);
	espl__calling_end();
	if (status == ESPL_OK)
		return ESPL_OK;
	instance->self = NULL; /* nothing was made: there is nothing to destroy */
	espl__diag_plugin(&inner, instance->who, status, &error);
	espl__values_blame(instance->values, &error, &inner);
	if (inner.file[0] == '\0' && group != NULL) /* no option to blame: all of the group */
		espl__fail_at(diag, inner.status, group->file, group->line, "%s", inner.text);
	else
		espl__fail_at(diag, inner.status, inner.file[0] != '\0' ? inner.file : NULL,
		    inner.line, "%s", inner.text);
	if (inner.hint[0] != '\0')
		espl__hint(diag, "%s", inner.hint);
	return inner.status;
}

espl_status
espl__instance_of(const struct espl__plugin *plugin, const struct espl__node *group,
    const struct espl__host_env *env, struct espl__instance **to, struct espl__diag *diag)
{
	static const char *const known[] = { "use", NULL };
	static const char *const cloud_known[] = { "use", "patience", "linger", "after_linger",
		"give_up", NULL };
	const struct espl_plugin *desc = plugin->desc;
	struct espl__instance *instance = espl__alloc(sizeof *instance);
	int trainable = desc->kind == ESPL_TRAINABLE;
	espl_status status;

	ESPL__ASSERT(desc != NULL && env != NULL);
	instance->magic = ESPL__INSTANCE_MAGIC;
	*to = NULL;
	instance->plugin = plugin;
	instance->env = env;
	instance->ops = desc->ops;
	snprintf(instance->who, sizeof instance->who, "%s '%s'", espl__kind_name(desc->kind),
	    desc->name);
	status = espl__schema_resolve(desc->options, desc->option_count, desc->option_size, group,
	    trainable                      ? NULL
		: desc->kind == ESPL_CLOUD ? cloud_known
					   : known,
	    instance->who, espl__kind_name(desc->kind), &instance->values, diag);
	if (status == ESPL_OK)
		status = espl__files_read(instance, diag);
	if (status == ESPL_OK && env->secrets)
		status = espl__secrets_read(instance, diag);
	if (status == ESPL_OK) {
		make_host(instance);
		status = create_instance(instance, group, diag);
	}
	if (status != ESPL_OK) {
		espl__files_free(instance);
		espl__values_free(instance->values);
		free(instance);
		return status;
	}
	*to = instance;
	return ESPL_OK;
}

espl_status
espl__instance_create(espl_kind kind, const char *name, const struct espl__node *group,
    const struct espl__host_env *env, struct espl__instance **to, struct espl__diag *diag)
{
	const struct espl__plugin *plugin;
	struct espl__diag inner = ESPL__DIAG_INIT;
	const struct espl__node *use = espl__node_get(group, "use");
	espl_status status = espl__plugin_find(kind, name, &plugin, &inner);

	*to = NULL;
	if (status == ESPL_OK)
		return espl__instance_of(plugin, group, env, to, diag);
	/* Not found: the user's line is the place.  Broken: the file is. */
	if (inner.file[0] != '\0' || use == NULL)
		espl__fail_at(diag, status, inner.file[0] != '\0' ? inner.file : NULL, inner.line,
		    "%s", inner.text);
	else
		espl__fail_at(diag, status, use->file, use->line, "%s", inner.text);
	if (inner.hint[0] != '\0')
		espl__hint(diag, "%s", inner.hint);
	return status;
}

void
espl__instance_destroy(struct espl__instance *instance)
{
	if (instance == NULL)
		return;
	espl__instance_calls(instance, "destroy");
	instance->plugin->desc->destroy(instance->self);
	espl__calling_end();
	espl__files_free(instance);
	espl__values_free(instance->values);
	instance->magic = 0;
	free(instance);
}
