/* inputs.c - loads a configuration and holds it against the plugins that it names. */
#include "base/assert.h"
#include "cli/inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ask/ask.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/variables.h"
#include "exec/questions.h"
#include "input/input.h"
#include "input/run_files.h"
#include "input/run_groups.h"
#include "input/workload_input.h"
#include "model/earlier.h"
#include "model/fleet.h"
#include "model/requirements.h"
#include "policy/call.h"

/* The pool's settings for an experiment override those in its file. */
static espl_status
take_entry(struct espl__inputs *pool, const struct espl__entry *entry, struct espl__diag *diag)
{
	struct espl__inputs *s = &pool->entries[pool->entry_count];
	espl_status status = espl__inputs_load(entry->path, NULL, 0, ESPL__NEED_TRIAL, s, diag);

	if (status != ESPL_OK)
		return status;
	pool->entry_count++;
	if (s->config->pool)
		return espl__fail_at(diag, ESPL_E_CONFIG, entry->node->file, entry->node->line,
		    "'%s' is itself a pool", entry->path);
	if (entry->name != NULL)
		s->config->name = entry->name;
	if (entry->weight > 0)
		s->config->weight = entry->weight;
	if (entry->gpus_max > 0)
		s->config->gpus_limit = entry->gpus_max;
	if (entry->inner >= 0)
		s->config->inner = entry->inner;
	for (uint32_t i = 0; i + 1 < pool->entry_count; i++) {
		if (strcmp(pool->entries[i].config->name, s->config->name) != 0)
			continue;
		(void)espl__fail_at(diag, ESPL_E_CONFIG, entry->node->file, entry->node->line,
		    "two experiments of the pool are called '%s'", s->config->name);
		espl__hint(diag, "rename one of them here: name = \"...\"");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; pool->jobs != NULL && i < pool->jobs->list.count; i++) {
		if (strcmp(pool->jobs->list.jobs[i].name, s->config->name) != 0)
			continue;
		(void)espl__fail_at(diag, ESPL_E_CONFIG, entry->node->file, entry->node->line,
		    "an experiment and a plain job of the pool are both called '%s'",
		    s->config->name);
		espl__hint(diag,
		    "`espalier cancel` needs different names; rename the experiment here: name = "
		    "\"...\"");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
load_entries(struct espl__inputs *s, struct espl__diag *diag)
{
	uint32_t count = s->config->entry_count;
	espl_status status = ESPL_OK;

	s->entries = espl__alloc(count * sizeof *s->entries);
	for (uint32_t i = 0; i < count && status == ESPL_OK; i++) {
		status = take_entry(s, &s->config->entries[i], diag);
		s->entries[i].arrives = s->config->entries[i].arrives;
	}
	return status;
}

espl_status
espl__inputs_load(const char *path, const char *const *sets, uint32_t set_count,
    enum espl__need need, struct espl__inputs *s, struct espl__diag *diag)
{
	espl_status status;

	memset(s, 0, sizeof *s);
	status = espl__run_load(path, sets, set_count, need, &s->config, diag);
	if (status == ESPL_OK && s->config->pool)
		status = espl__jobs_load(s->config, &s->jobs, diag);
	if (status == ESPL_OK)
		status = s->jobs != NULL ? espl__jobs_space(s->jobs, &s->space, diag)
					 : espl__space_parse(s->config->space, &s->space, diag);
	if (status == ESPL_OK)
		status = espl__space_forbid(s->space, s->config->forbid, diag);
	if (status == ESPL_OK)
		status =
		    espl__requirements_parse(s->config->require, s->space, &s->requirements, diag);
	if (status == ESPL_OK)
		status = espl__profile_load(s->config->trial.profile, s->config->directory,
		    &s->profile, diag);
	if (status == ESPL_OK && s->config->truth != NULL)
		status =
		    espl__profile_load(s->config->truth, s->config->directory, &s->truth, diag);
	if (status == ESPL_OK)
		status = espl__inputs_warm(s, diag);
	if (status == ESPL_OK)
		status = espl__inputs_curves(s, diag);
	if (status == ESPL_OK && s->config->entry_count > 0)
		status = load_entries(s, diag);
	/* A file that cannot be read is the user's to mend, whatever the system calls it. */
	if (status == ESPL_E_REMOTE || status == ESPL_E_LIMIT) {
		status = ESPL_E_CONFIG;
		if (diag != NULL)
			diag->status = status;
	}
	if (status != ESPL_OK)
		espl__inputs_free(s);
	return status;
}

espl_status
espl__inputs_next_seed(struct espl__inputs *s, struct espl__diag *diag)
{
	struct espl__jobs *jobs = NULL;
	espl_status status;

	ESPL__CHECK(s->config, RUN_CONFIG);
	s->config->seed++;
	for (uint32_t i = 0; i < s->entry_count; i++)
		s->entries[i].config->seed++;
	if (s->jobs == NULL)
		return ESPL_OK;
	status = espl__jobs_load(s->config, &jobs, diag);
	if (status != ESPL_OK)
		return status;
	jobs->tree = s->jobs->tree; /* the space is made of it */
	s->jobs->tree = NULL;
	espl__jobs_free(s->jobs);
	s->jobs = jobs;
	return ESPL_OK;
}

void
espl__inputs_free(struct espl__inputs *s)
{
	for (uint32_t i = 0; i < s->entry_count; i++)
		espl__inputs_free(&s->entries[i]);
	for (uint32_t i = 0; i < s->submitted_count; i++) {
		espl__inputs_free(s->submitted[i]);
		free(s->submitted[i]);
	}
	free(s->submitted);
	free(s->dir);
	free(s->entries);
	espl__earlier_free(s->earlier);
	espl__profile_free(s->profile);
	espl__profile_free(s->truth);
	espl__requirements_free(s->requirements);
	espl__space_free(s->space);
	espl__jobs_free(s->jobs);
	espl__run_free(s->config);
	memset(s, 0, sizeof *s);
}

/* Where a failure names no place, the line that named the plugin is it. */
static espl_status
at_use(struct espl__diag *diag, espl_status status, const struct espl__node *group,
    const char *name)
{
	const struct espl__node *node = espl__node_get(group, name);

	if (status != ESPL_OK && diag != NULL && diag->file[0] == '\0' && node != NULL &&
	    node->file != NULL) {
		(void)snprintf(diag->file, sizeof diag->file, "%s", node->file);
		diag->line = node->line;
	}
	return status;
}

static espl_status
check_trial(const struct espl__inputs *s, struct espl__diag *diag)
{
	struct espl__curves *curves = NULL;
	espl_status status = ESPL_OK;

	if (s->config->trial.trainable != NULL)
		status = espl__inputs_check_trainable(s, diag);
	if (status == ESPL_OK && s->config->trial.curves != NULL && s->space != NULL) {
		status = espl__curves_of(&s->config->trial, s->space, &curves, diag);
		espl__curves_free(curves);
	}
	return status;
}

static void
add_offer(void *ctx, const struct espl_offer *offer)
{
	(void)espl__fleet_offer(ctx, offer);
}

static const struct espl_item *
find_item(void *ctx, uint64_t id)
{
	const struct espl_item *item = ctx;

	return id == item->id ? item : NULL;
}

/* A trial that is ready to start; in a pool as wide as the widest of all. */
static void
make_item(const struct espl__inputs *s, uint64_t gpus, struct espl_item *item)
{
	const struct espl__trial_config *trial = &s->config->trial;

	item->iterations_left = 1;
	item->work_s = item->work_total_s =
	    s->profile->guessed ? NAN : espl__latency_mean(&s->profile->iteration);
	item->started = ESPL_NEVER;
	item->bracket = item->stage = item->offer = item->gpu = ESPL_ANY;
	item->weight = s->config->weight;
	item->granted.packing = 1;
	item->unit = 1;
	item->gpus_min = espl__inputs_least(s);
	item->gpus_max = trial->gpus_max < gpus ? trial->gpus_max : (uint32_t)gpus;
	if (item->gpus_max < item->gpus_min) /* others of the pool are wider */
		item->gpus_max = item->gpus_min;
	item->packing_max = trial->packing_max;
	item->scaling = s->profile->scaling;
	item->scaling_count = s->profile->scaling_count;
	item->packing = s->profile->packing;
	item->packing_count = s->profile->packing_count;
	item->flags = trial->colocate ? ESPL_ITEM_COLOCATE : 0;
}

void
espl__describe_experiment(const struct espl__inputs *s, struct espl_experiment *e)
{
	memset(e, 0, sizeof *e);
	espl__experiment_of(s->config, e);
	e->metrics = &s->config->metric;
	e->metric_count = 1;
}

/* Whether the allocator accepts the offers and the needs of a trial. It is called as when the first
 * trial arrives; the rest of its answer is ignored. */
static espl_status
ask_allocator(const struct espl__inputs *s, struct espl__fleet *fleet, struct espl__diag *diag)
{
	static const espl_time zero = 0;
	struct espl__host_env env = { .seed = s->config->seed,
		.now = &zero,
		.directory = s->config->directory };
	struct espl_alloc_view view = ESPL_INIT(struct espl_alloc_view);
	struct espl_item item = ESPL_INIT(struct espl_item);
	struct espl_experiment experiment;
	const struct espl_item *items[] = { &item };
	const struct espl_experiment *experiments[] = { &experiment };
	struct espl__caller caller;
	struct espl__instance *allocator;
	struct espl__diag why = ESPL__DIAG_INIT;

	if (espl__instance_create(ESPL_ALLOCATOR, s->config->allocator.use,
		s->config->allocator.group, &env, &allocator, NULL) != ESPL_OK)
		return ESPL_OK; /* it wants more than there is here */
	make_item(s, espl__sold_gpus(fleet, s->config->gpus_limit), &item);
	espl__describe_experiment(s, &experiment);
	memset(&caller, 0, sizeof caller);
	caller.fleet = fleet;
	caller.item = find_item;
	caller.items_ctx = &item;
	view.offer_count = fleet->offer_count;
	view.why = ESPL_WHY_NODES | ESPL_WHY_ARRIVAL;
	view.items = view.changed = items;
	view.item_count = view.changed_count = 1;
	view.experiments = experiments;
	view.experiment_count = 1;
	view.offers = (const struct espl_offer *const *)fleet->offers;
	view.targets = fleet->targets;
	(void)espl__call_allocate(&caller, allocator, &view, &why);
	espl__caller_free(&caller);
	if (why.status != ESPL_E_CONFIG)
		espl__inputs_tell_gpus(s, fleet, allocator->values);
	espl__instance_destroy(allocator);
	if (why.status != ESPL_E_CONFIG)
		return ESPL_OK;
	if (diag != NULL)
		*diag = why;
	return ESPL_E_CONFIG;
}

/* What the cloud sells: can a trial ever run on it? */
static espl_status
check_offers(const struct espl__inputs *s, struct espl__diag *diag)
{
	struct espl__fleet fleet;
	uint32_t count;
	espl_status status;

	espl__fleet_init(&fleet);
	status = espl__inputs_offers(s, add_offer, &fleet, &count, diag);
	if (status == ESPL_OK && count > 0 && !s->config->pool)
		status = espl__sold_suits(&fleet, s->config, diag);
	for (uint32_t i = 0; i < s->entry_count && status == ESPL_OK && count > 0; i++)
		status = espl__sold_suits(&fleet, s->entries[i].config, diag);
	if (status == ESPL_OK && count > 0)
		status = espl__inputs_jobs_suit(s, &fleet, diag);
	if (status == ESPL_OK && count > 0)
		status = ask_allocator(s, &fleet, diag);
	espl__fleet_free(&fleet);
	return status;
}

/* Is there something that a trial of this experiment, or a job, can run? */
static espl_status
check_trainable(const struct espl__inputs *s, struct espl__diag *diag)
{
	const struct espl__node *at = espl__node_get(espl__tree_root(s->config->tree), "trial");

	if (s->config->trial.trainable != NULL || s->config->trial.command_count > 0)
		return ESPL_OK;
	if (at == NULL)
		at = s->config->workload;
	(void)espl__fail_at(diag, ESPL_E_CONFIG, at != NULL ? at->file : s->config->path,
	    at != NULL ? at->line : 0, "the configuration does not say how to run a %s",
	    s->jobs != NULL ? "job" : "trial");
	espl__hint(diag,
	    "trial = { trainable = \"...\"; }; or trial = { command = [ \"...\" ]; };");
	return ESPL_E_CONFIG;
}

espl_status
espl__inputs_alone(const struct espl__inputs *s, struct espl__diag *diag)
{
	ESPL__CHECK(s->config, RUN_CONFIG);
	if (!s->config->pool)
		return ESPL_OK;
	(void)espl__fail_at(diag, ESPL_E_CONFIG, s->config->path, 0,
	    "this is a pool; only a single experiment can be planned or profiled");
	espl__hint(diag,
	    "give the file of one of its experiments, or simulate the pool with `espalier simulate "
	    "%s`",
	    s->config->path);
	return ESPL_E_CONFIG;
}

espl_status
espl__inputs_submitted(struct espl__inputs *pool, uint64_t number,
    const struct espl__inputs **inputs, struct espl__diag *diag)
{
	struct espl__inputs *s;
	uint64_t first = (uint64_t)pool->entry_count + 1, at = number - first;
	espl_status status;
	char *path;

	ESPL__ASSERT(number >= first);
	if (pool->dir == NULL || number < first || at > pool->submitted_count)
		return espl__fail(diag, ESPL_E_CONFIG, "the pool has no experiment %llu",
		    (unsigned long long)number);
	/* A rejected experiment's number is used for the next one. */
	path = espl__format("%s/experiments/%llu/run.cfg", pool->dir, (unsigned long long)number);
	s = espl__alloc(sizeof *s);
	status = espl__inputs_load(path, NULL, 0, ESPL__NEED_TRIAL, s, diag);
	free(path);
	if (status == ESPL_OK)
		status = espl__inputs_check_entry(s, diag);
	if (status == ESPL_OK)
		status = espl__inputs_env(s, diag);
	if (status != ESPL_OK) {
		espl__inputs_free(s);
		free(s);
		return status;
	}
	if (at < pool->submitted_count) {
		espl__inputs_free(pool->submitted[at]);
		free(pool->submitted[at]);
		pool->submitted_count = (uint32_t)at;
	}
	ESPL__GROW(pool->submitted, pool->submitted_cap, pool->submitted_count + 1);
	pool->submitted[pool->submitted_count++] = s;
	*inputs = s;
	return ESPL_OK;
}

espl_status
espl__inputs_check_entry(const struct espl__inputs *s, struct espl__diag *diag)
{
	const struct espl__plugin *plugin;
	espl_status status;

	ESPL__CHECK(s->config, RUN_CONFIG);
	if (s->config->pool)
		return espl__fail_at(diag, ESPL_E_CONFIG, s->config->path, 0,
		    "this file describes a pool, not an experiment");
	status = espl__plugin_find(ESPL_ALGORITHM, s->config->algorithm.use, &plugin, diag);
	(void)at_use(diag, status, s->config->algorithm.group, "use");
	if (status == ESPL_OK && s->config->inner) {
		status = espl__plugin_find(ESPL_ALLOCATOR, s->config->allocator.use, &plugin, diag);
		(void)at_use(diag, status, s->config->allocator.group, "use");
	}
	if (status == ESPL_OK)
		status = check_trainable(s, diag);
	return status == ESPL_OK ? check_trial(s, diag) : status;
}

espl_status
espl__inputs_check(struct espl__inputs *s, int simulated, struct espl__diag *diag)
{
	const struct espl__run_config *c = s->config;
	struct espl__exec_setup setup = { .inputs = s, .simulated = simulated };
	const struct espl__section *sections[] = { &c->algorithm, &c->allocator, &c->cloud,
		&c->placer };
	struct espl__exec *exec = NULL;
	struct espl__exec_plan_info info;
	const struct espl__plugin *plugin;
	espl_status status = ESPL_OK;
	espl_kind kind;

	ESPL__CHECK(s->config, RUN_CONFIG);
	for (kind = c->pool ? ESPL_ALLOCATOR : ESPL_ALGORITHM;
	     kind <= ESPL_PLACER && status == ESPL_OK; kind++) {
		const struct espl__section *section = sections[kind - ESPL_ALGORITHM];

		status = espl__plugin_find(kind, section->use, &plugin, diag);
		(void)at_use(diag, status, section->group, "use");
	}
	if (status == ESPL_OK)
		status = check_trial(s, diag);
	if (status == ESPL_OK && !simulated)
		status = espl__run_copy_files(c, NULL, diag);
	for (uint32_t i = 0; i < s->entry_count && status == ESPL_OK; i++) {
		const struct espl__inputs *e = &s->entries[i];

		status = espl__plugin_find(ESPL_ALGORITHM, e->config->algorithm.use, &plugin, diag);
		(void)at_use(diag, status, e->config->algorithm.group, "use");
		if (status == ESPL_OK)
			status = check_trial(e, diag);
		if (status == ESPL_OK && !simulated)
			status = espl__run_copy_files(e->config, NULL, diag);
	}
	if (status == ESPL_OK)
		status = espl__inputs_first(s, diag);
	if (status == ESPL_OK)
		status = espl__exec_new(&setup, &exec, diag);
	if (status == ESPL_OK) {
		espl__exec_plan_info(exec, &info);
		status = espl__inputs_first_fits(s, info.spec, diag);
		espl__exec_free(exec);
	}
	return status == ESPL_OK ? check_offers(s, diag) : status;
}

espl_status
espl__inputs_real(const struct espl__inputs *s, struct espl__diag *diag)
{
	const struct espl__plugin *plugin;
	espl_status status = espl__plugin_find(ESPL_CLOUD, s->config->cloud.use, &plugin, diag);

	ESPL__CHECK(s->config, RUN_CONFIG);
	if (status != ESPL_OK)
		return at_use(diag, status, s->config->cloud.group, "use");
	for (uint32_t i = 0; i < s->entry_count; i++) {
		status = check_trainable(&s->entries[i], diag);
		if (status != ESPL_OK)
			return status;
	}
	if (s->config->workload != NULL && check_trainable(s, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	if (s->config->trial.curves != NULL) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "recorded curves can be simulated, not run");
		(void)at_use(diag, ESPL_E_CONFIG,
		    espl__node_get(espl__tree_root(s->config->tree), "trial"), "curves");
	} else if ((plugin->desc->caps & ESPL_CAP_SIMULATED) != 0) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "cloud '%s' has no machines to run on",
		    s->config->cloud.use);
		(void)at_use(diag, ESPL_E_CONFIG, s->config->cloud.group, "use");
	} else {
		return ESPL_OK;
	}
	espl__hint(diag, "use `espalier simulate %s`", s->config->path);
	return ESPL_E_CONFIG;
}

/* ---- environment ----------------------------------------------------------------------------- */

/* The environment of trials: what must be set, and what looks like a secret. */

static espl_status
check_names(const struct espl__node *names, struct espl__diag *diag)
{
	for (uint32_t i = 0; names != NULL && i < names->child_count; i++) {
		const struct espl__node *name = names->children[i];

		if (getenv(name->text) != NULL)
			continue;
		espl__fail_at(diag, ESPL_E_CONFIG, name->file, name->line,
		    "trial.env_from: '%s' is not set in this environment", name->text);
		espl__hint(diag, "export %s, or remove the name", name->text);
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

espl_status
espl__inputs_env(const struct espl__inputs *s, struct espl__diag *diag)
{
	espl_status status = check_names(s->config->trial.env_from, diag);

	for (uint32_t i = 0; i < s->entry_count && status == ESPL_OK; i++)
		status = check_names(s->entries[i].config->trial.env_from, diag);
	return status;
}

/* A name's last word says what the value is: MAX_TOKENS is a number, AUTHOR a name. */
static int
ends_in(const char *name, const char *word)
{
	size_t size = strlen(name), length = strlen(word);

	return size >= length && strcasecmp(name + size - length, word) == 0 &&
	    (size == length || name[size - length - 1] == '_');
}

/* A URL with a password: scheme://user:password@host */
static int
has_password(const char *text)
{
	const char *user = strstr(text, "://"), *at;

	if (user == NULL)
		return 0;
	user += 3;
	at = user + strcspn(user, "@/?# ");
	return *at == '@' && memchr(user, ':', (size_t)(at - user)) != NULL;
}

/* By its name, by how keys of well-known services begin, or as a URL with a password. */
static int
looks_secret(const struct espl__node *value)
{
	static const char *const names[] = { "TOKEN", "SECRET", "PASSWORD", "PGPASSWORD", "PGPASS",
		"PASSWD", "PWD", "PASSPHRASE", "KEY", "APIKEY", "CREDENTIAL", "CREDENTIALS",
		"AUTH" };
	static const char *const values[] = { "AKIA", "ghp_", "github_pat_", "glpat-", "hf_", "sk-",
		"xox", "-----BEGIN" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (ends_in(value->name, names[i]) &&
		    strcmp(value->name, "PWD") != 0) /* the shell's own */
			return 1;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		if (strncmp(value->text, values[i], strlen(values[i])) == 0)
			return 1;
	return has_password(value->text);
}

/* The user's word counts, and is repeated where trials may disturb one another by it. */
static void
report_conflict(const struct espl__run_config *config, const char *option, const char *name,
    int removed)
{
	const char *does = removed ? "removes" : "replaces";

	if (espl__variable_of(name) == ESPL__VARIABLE_TORCHRUN &&
	    strncmp(name, "TORCHELASTIC_", strlen("TORCHELASTIC_")) != 0 &&
	    config->trial.torchrun != 0 && espl__run_may_have_ranks(config))
		espl__log(ESPL_WARN,
		    "trial.%s %s %s in every rank; the ranks of a trial on several GPUs find one "
		    "another by it",
		    option, does, name);
	else if (strcmp(name, "CUDA_VISIBLE_DEVICES") == 0)
		espl__log(ESPL_WARN,
		    "trial.%s %s CUDA_VISIBLE_DEVICES: every trial sees the same GPUs, whatever "
		    "espalier gives it",
		    option, does);
}

void
espl__inputs_env_report(const struct espl__inputs *s)
{
	const struct espl__node *env = s->config->trial.env, *from = s->config->trial.env_from;

	for (uint32_t i = 0; env != NULL && i < env->child_count; i++) {
		const struct espl__node *value = env->children[i];

		report_conflict(s->config, "env", value->name, espl__env_removes(value));
		if (!espl__env_removes(value) && looks_secret(value))
			espl__log(ESPL_WARN,
			    "trial.env.%s looks like a secret, but the run directory stores it; "
			    "`env_from = [ \"%s\" ]` takes it from the environment instead",
			    value->name, value->name);
	}
	for (uint32_t i = 0; from != NULL && i < from->child_count; i++)
		if (espl__node_get(env, from->children[i]->text) == NULL) /* else env counts */
			report_conflict(s->config, "env_from", from->children[i]->text, 0);
	for (uint32_t i = 0; i < s->entry_count; i++)
		espl__inputs_env_report(&s->entries[i]);
}

/* What runs trials is of no interest: each takes one slot of as many as are asked for. */
void
espl__inputs_asked(struct espl__run_config *config)
{
	static const struct espl_latency nothing = { .kind = ESPL_CONSTANT };
	struct espl__trial_config *trial = &config->trial;
	struct espl_value *retries =
	    (struct espl_value *)(uintptr_t)&config->trial_values->config.values[TRIAL_RETRIES];

	config->asked = 1;
	config->allocator = (struct espl__section){ "fifo", NULL };
	config->placer = (struct espl__section){ "scatter", NULL };
	config->cloud = (struct espl__section){ ESPL__ASK_CLOUD, NULL };
	config->gpus_limit = ESPL_ANY;
	config->warm = config->queue_chain = config->release_idle = config->acquire_ahead = 0;
	config->sync = &nothing;
	trial->files = trial->env = trial->env_from = NULL;
	trial->torchrun = -1;
	trial->gpus_min = trial->gpus_max = trial->packing_max = 1;
	trial->checkpoint_every = trial->report_limit = trial->save_limit = 0;
	trial->time_limit = 0;
	/* A client that says that a trial failed has tried. What is written into run.cfg counts
	 * when the study is opened again. */
	if (retries->source <= ESPL_FALLBACK)
		retries->as.i = trial->retries = 0;
}
