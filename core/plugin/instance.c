/* instance.c - a plugin at work: its options checked, its files read, its host table made. */
#include "base/assert.h"
#include "plugin/instance.h"

#include <math.h>
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
		{ ESPL_SPACE, FOR(ESPL_ALGORITHM) | FOR(ESPL_SAMPLER) },
		{ ESPL_EXPERIMENT, FOR(ESPL_ALGORITHM) | FOR(ESPL_SAMPLER) },
		{ ESPL_HISTORY, FOR(ESPL_ALGORITHM) | FOR(ESPL_SAMPLER) },
		{ ESPL_FIRST, FOR(ESPL_ALGORITHM) | FOR(ESPL_SAMPLER) },
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

	if (id != NULL && strcmp(id, ESPL_SAMPLING) == 0)
		return instance->sampler != NULL ? &instance->sampling : NULL;
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

/* ---- a sampler, for the plugin that asks it ------------------------------------------ */

/* The calls come from within an entry of the algorithm, which goes on afterwards. */
static espl_status
sampling_tell(const struct espl_sampling *sampling, const struct espl_sample *sample,
    struct espl_error *error)
{
	const struct espl__instance *outer = sampling->ctx, *sampler = outer->sampler;
	const struct espl_sampler_ops *ops = (const struct espl_sampler_ops *)sampler->ops;
	espl_status status;

	ESPL__CHECK(sampler, INSTANCE);
	espl__instance_calls(sampler, "tell");
	status = ops->tell(sampler->self, sample, error);
	espl__instance_calls(outer, "(sampler)");
	return status;
}

static espl_status
check_values(const struct espl__instance *sampler, const double *values, uint32_t count,
    struct espl_error *error)
{
	const struct espl_space *space = sampler->host.service(&sampler->host, ESPL_SPACE);
	size_t params = space != NULL ? space->param_count : 0;
	double *copy = espl__alloc((params + 1) * sizeof *copy);
	int good = 1;

	for (uint32_t k = 0; k < count && good && params > 0; k++) {
		uint32_t missing;

		memcpy(copy, &values[k * params], params * sizeof *copy);
		good = space->snap(space, copy, &missing) == ESPL_OK;
		for (size_t i = 0; good && i < params; i++)
			good = isnan(copy[i]) ? isnan(values[k * params + i])
					      : fabs(copy[i] - values[k * params + i]) <=
				1e-9 * (fabs(copy[i]) + 1e-300);
	}
	free(copy);
	return good ? ESPL_OK
		    : espl_fail(error, ESPL_E_BUG, "%s gave a configuration outside of the space",
			  sampler->who);
}

static espl_status
sampling_ask(const struct espl_sampling *sampling, const struct espl_wish *wish, double *values,
    struct espl_error *error)
{
	const struct espl__instance *outer = sampling->ctx, *sampler = outer->sampler;
	const struct espl_sampler_ops *ops = (const struct espl_sampler_ops *)sampler->ops;
	espl_status status;

	ESPL__CHECK(sampler, INSTANCE);
	espl__instance_calls(sampler, "ask");
	status = ops->ask(sampler->self, wish, values, error);
	espl__instance_calls(outer, "(sampler)");
	return status == ESPL_OK ? check_values(sampler, values, wish->count, error) : status;
}

/* The plugin that an option chooses, made for this instance. */
static espl_status
make_inner(struct espl__instance *instance, const struct espl__node *group, struct espl__diag *diag)
{
	const struct espl_plugin *desc = instance->plugin->desc;
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; i < desc->option_count && status == ESPL_OK; i++) {
		const struct espl_option *option =
		    espl__option_at(desc->options, desc->option_size, i);
		const struct espl_value *value = &instance->values->config.values[i];
		const struct espl__node *node = espl__node_get(group, option->name);
		struct espl__diag inner = ESPL__DIAG_INIT;

		if (option->type != ESPL_OPT_PLUGIN || value->source == ESPL_UNSET ||
		    instance->sampler != NULL)
			continue;
		status = espl__instance_create(ESPL_SAMPLER, value->as.s,
		    node != NULL && node->type == ESPL__GROUP ? node : NULL, instance->env,
		    &instance->sampler, &inner);
		if (status == ESPL_OK)
			continue;
		instance->sampler = NULL;
		if (inner.file[0] == '\0' && node != NULL)
			espl__fail_at(diag, status, node->file, node->line, "%s", inner.text);
		else
			espl__fail_at(diag, status, inner.file[0] != '\0' ? inner.file : NULL,
			    inner.line, "%s", inner.text);
		if (inner.hint[0] != '\0')
			espl__hint(diag, "%s", inner.hint);
	}
	instance->sampling = (struct espl_sampling){ .size = (uint32_t)sizeof instance->sampling,
		.ctx = instance,
		.tell = sampling_tell,
		.ask = sampling_ask };
	return status;
}

espl_status
espl__instance_of(const struct espl__plugin *plugin, const struct espl__node *group,
    const struct espl__host_env *env, struct espl__instance **to, struct espl__diag *diag)
{
	static const char *const known[] = { "use", NULL };
	static const char *const cloud_known[] = { "use", "patience", "linger", "after_linger",
		"give_up", NULL };
	static const char *const algorithm_known[] = { "use", "resource", "resource_step", NULL };
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
	    trainable                          ? NULL
		: desc->kind == ESPL_CLOUD     ? cloud_known
		: desc->kind == ESPL_ALGORITHM ? algorithm_known
					       : known,
	    instance->who, espl__kind_name(desc->kind), &instance->values, diag);
	if (status == ESPL_OK)
		status = espl__files_read(instance, diag);
	if (status == ESPL_OK && env->secrets)
		status = espl__secrets_read(instance, diag);
	if (status == ESPL_OK)
		status = make_inner(instance, group, diag);
	if (status == ESPL_OK) {
		make_host(instance);
		status = create_instance(instance, group, diag);
	}
	if (status != ESPL_OK) {
		espl__instance_destroy(instance->sampler);
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
	espl__instance_destroy(instance->sampler);
	espl__files_free(instance);
	espl__values_free(instance->values);
	instance->magic = 0;
	free(instance);
}
