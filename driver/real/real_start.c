/* real_start.c - starting gangs: the messages to their agents, and their order.
 *
 * A gang on several nodes first reserves a port for its rendezvous on rank 0's node. A gang whose
 * node has lost its agent waits for the next one.
 */
#include "base/assert.h"
#include "real/real.h"
#include "input/run_files.h"
#include "input/run_groups.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/fill.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/trials.h"
#include "plugin/registry.h"

static void
set_environment(struct espl__rkind *kind, const struct espl__trial_config *trial)
{
	const struct espl__node *env = trial->env, *from = trial->env_from;
	uint32_t given = env != NULL ? env->child_count : 0,
		 names = from != NULL ? from->child_count : 0, i;

	char *dirs = trial->trainable != NULL ? espl__plugins_given() : NULL;

	kind->environment = espl__alloc((size_t)(given + names + 3) * sizeof *kind->environment);
	kind->environment[kind->environment_count++] =
	    espl__format("ESPALIER_EXPERIMENT=%s", kind->of->config->name);
	if (dirs != NULL) /* the worker looks for the trainable where we found it */
		kind->environment[kind->environment_count++] =
		    espl__format("ESPALIER_PLUGIN_PATH=%s", dirs);
	free(dirs);
	for (i = 0; i < names; i++) {
		const char *name = from->children[i]->text, *value = getenv(name);

		if (value != NULL) /* it was there when the run began: see espl__inputs_env */
			kind->environment[kind->environment_count++] =
			    espl__format("%s=%s", name, value);
	}
	for (i = 0; i < given; i++) {
		const struct espl__node *node = env->children[i];

		kind->environment[kind->environment_count++] = espl__env_removes(node)
		    ? espl__strdup(node->name)
		    : espl__format("%s=%s", node->name, node->text);
	}
}

static const char *
find_name(void *ctx, const char *name)
{
	const struct espl__rkind *kind = ctx;

	if (espl__node_get(kind->of->config->space, name) != NULL)
		return "";
	return espl__fill_variable(name) != NULL ? "" : NULL;
}

/* The agent knows no names of parameters, but those of the values that it gets. */
static void
guard_words(struct espl__rkind *kind, const struct espl__trial_config *trial)
{
	kind->command = espl__alloc((trial->command_count + 1) * sizeof *kind->command);
	for (uint32_t i = 0; i < trial->command_count; i++) {
		struct espl__buf word = { NULL, 0, 0 };

		espl__fill_guard(trial->command[i], find_name, kind, &word);
		kind->command[i] = espl__strdup(espl__buf_text(&word));
		espl__buf_free(&word);
	}
}

static espl_status
fill_kind(struct espl__rkind *kind, struct espl__diag *diag)
{
	const struct espl__run_config *config = kind->of->config;
	const struct espl__trial_config *trial = &config->trial;
	const struct espl__node *node = espl__node_get(config->algorithm.group, "iterations_max");
	struct espl__buf text = { NULL, 0, 0 };
	uint32_t i;

	if (trial->trainable == NULL && trial->command_count == 0) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, config->path, 0,
		    "there is no program to run");
		espl__hint(diag,
		    "trial = { trainable = \"...\"; } or trial = { command = [ \"...\" ]; }");
		return ESPL_E_CONFIG;
	}
	kind->layout = (struct espl__listen_layout)ESPL__LISTEN_LAYOUT_INIT;
	if (config->resource == NULL && node != NULL && node->type == ESPL__INT && node->i > 0)
		kind->iterations_max = (uint64_t)node->i;
	for (i = 0; trial->options != NULL && i < trial->options->child_count; i++)
		espl__node_print(trial->options->children[i], 0, &text);
	kind->options = espl__strdup(espl__buf_text(&text));
	kind->setup_count = trial->setup != NULL ? trial->setup->child_count : 0;
	kind->setup = espl__alloc((kind->setup_count + 1) * sizeof *kind->setup);
	for (i = 0; i < kind->setup_count; i++)
		kind->setup[i] = trial->setup->children[i]->text;
	espl__buf_free(&text);
	guard_words(kind, trial);
	set_environment(kind, trial);
	return ESPL_OK;
}

static void
free_kind(struct espl__rkind *kind)
{
	if (kind == NULL)
		return;
	for (uint32_t i = 0; i < kind->environment_count; i++)
		free(kind->environment[i]);
	free(kind->environment);
	for (uint32_t i = 0; kind->command != NULL && kind->command[i] != NULL; i++)
		free(kind->command[i]);
	free(kind->command);
	free(kind->setup);
	free(kind->options);
	free(kind->metrics);
	free(kind->directory);
	free(kind);
}

/* What a search's trials run; made when the first of them starts. */
static struct espl__rkind *
kind_of(struct espl__real *real, uint32_t number, struct espl__diag *diag)
{
	struct espl__rkind *kind;

	if (number < real->kind_count && real->kinds[number] != NULL)
		return real->kinds[number];
	kind = espl__alloc(sizeof *kind);
	kind->of = real->config->pool ? espl__exec_search_of(real->world.exec, number) : real->own;
	if (kind->of == NULL || fill_kind(kind, diag) != ESPL_OK) {
		free_kind(kind);
		return NULL;
	}
	if (kind->of->config->trial.files != NULL)
		kind->directory = kind->of->config == real->config
		    ? espl__format("%s/" ESPL__RUN_FILES, real->dir)
		    : espl__format("%s/experiments/%" PRIu32 "/" ESPL__RUN_FILES, real->dir,
			  number);
	ESPL__GROW(real->kinds, real->kind_cap, number + 1);
	while (real->kind_count <= number)
		real->kinds[real->kind_count++] = NULL;
	real->kinds[number] = kind;
	return kind;
}

espl_status
espl__real_gangs_new(struct espl__real *real, struct espl__diag *diag)
{
	if (!real->config->pool && kind_of(real, 0, diag) == NULL)
		return diag != NULL && diag->status != ESPL_OK ? diag->status : ESPL_E_CONFIG;
	return ESPL_OK;
}

void
espl__real_kinds_free(struct espl__real *real)
{
	ESPL__CHECK(real, REAL);
	for (uint32_t i = 0; i < real->kind_count; i++)
		free_kind(real->kinds[i]);
	free(real->kinds);
	espl__real_ship_free(real);
}

/* ---- the start ---- */

static void
make_parts(struct espl__rgang *gang, struct espl__start_plan *plan, const struct espl__effect *fx)
{
	uint32_t i, p, at = 0, count = fx->as.start.share.gpus;

	gang->parts = espl__alloc((count + 1) * sizeof *gang->parts);
	gang->part_cap = count + 1;
	gang->members = espl__alloc((count + 1) * sizeof *gang->members);
	gang->world = count;
	plan->ranks = espl__alloc((count + 1) * sizeof *plan->ranks);
	for (i = 0; i < count; i++) {
		for (p = 0; p < gang->part_count; p++)
			if (gang->parts[p].lease == fx->as.start.slots[i].node)
				break;
		if (p == gang->part_count)
			gang->parts[gang->part_count++].lease = fx->as.start.slots[i].node;
		gang->parts[p].count++;
	}
	for (p = 0; p < gang->part_count; p++) {
		uint32_t local = 0;

		gang->parts[p].wing = gang->id;
		gang->parts[p].live = gang->parts[p].count;
		gang->parts[p].first = at;
		for (i = 0; i < count; i++) {
			if (fx->as.start.slots[i].node != gang->parts[p].lease)
				continue;
			gang->members[i] =
			    (struct espl__rmember){ p, local, fx->as.start.slots[i] };
			plan->ranks[at].rank = i;
			plan->ranks[at].local_rank = local++;
			plan->ranks[at++].gpu = fx->as.start.slots[i].gpu;
		}
	}
}

/* CPU threads for one rank on a node of this offer, and whether its slots are GPUs. */
static uint32_t
threads_of(const struct espl__real *real, const struct espl__rlease *lease, uint32_t packing,
    int *device_gpu)
{
	const struct espl_offer *offer = espl__exec_offer(real->world.exec, lease->offer);
	uint32_t threads = 0;

	*device_gpu = 0;
	if (offer != NULL) {
		*device_gpu = offer->gpu_type != NULL && offer->gpu_type[0] != '\0' &&
		    strcmp(offer->gpu_type, "cpu") != 0;
		threads = offer->gpus > 0 ? offer->cpus / offer->gpus : 0;
	}
	threads /= packing > 0 ? packing : 1;
	return threads > 0 ? threads : 1;
}

/* A trainable for which the user named neither a directory nor files: the one of the configuration
 * file is not on a node that shares nothing with this machine. */
static int
needs_no_directory(const struct espl__rkind *kind)
{
	const struct espl__run_config *config = kind->of->config;
	const struct espl__trial_config *trial = &config->trial;

	return trial->trainable != NULL && kind->directory == NULL && kind->setup_count == 0 &&
	    (trial->directory == NULL || strcmp(trial->directory, config->directory) == 0);
}

void
espl__real_start_fill(struct espl__real *real, const struct espl__rgang *gang,
    const struct espl__rlease *lease, const double *values, struct espl__start *start,
    struct espl__buf *params)
{
	const struct espl__rkind *kind = gang->kind;
	const struct espl__run_config *config = kind->of->config;
	const struct espl__trial_config *trial = &config->trial;
	const struct espl__trial_info info = espl__exec_trial_info(real->world.exec, gang->trial);

	ESPL__CHECK(gang, RGANG);
	ESPL__CHECK(lease, RLEASE);
	espl__space_json(kind->of->space, values, params);
	start->gang = gang->id;
	espl__real_key(real, "gang", gang->id, start->key);
	start->trial = gang->trial;
	start->master =
	    lease->address != NULL && lease->address[0] != '\0' ? lease->address : "127.0.0.1";
	start->sharing = trial->sharing;
	start->threads = threads_of(real, lease, start->packing, &start->device_gpu);
	start->argv = trial->trainable == NULL ? (const char *const *)kind->command : NULL;
	start->argc = trial->trainable == NULL ? trial->command_count : 0;
	start->metrics = kind->metrics != NULL ? kind->metrics : trial->metrics;
	start->trainable = trial->trainable;
	start->options = kind->options;
	start->params = espl__buf_text(params);
	start->directory = kind->directory != NULL ? kind->directory
	    : trial->directory != NULL             ? trial->directory
						   : config->directory;
	start->anywhere = needs_no_directory(kind);
	start->setup = kind->setup;
	start->setup_count = kind->setup_count;
	start->env = (const char *const *)kind->environment;
	start->env_count = kind->environment_count;
	start->torchrun = kind->torchrun;
	start->warm = trial->warm;
	start->budget = gang->budget;
	start->iterations_max = kind->iterations_max > 0 ? kind->iterations_max : gang->budget;
	start->seed = espl__trial_seed(config->seed, info.seed_of & ESPL__TRIAL_NUMBER);
	start->fold = info.fold;
	start->file_max = trial->file_max;
	start->log_limit = trial->log_limit;
	start->grace_ms = (uint64_t)(trial->grace / 1000000);
}

static void
fill_plan(struct espl__real *real, struct espl__rgang *gang, const struct espl__effect *fx)
{
	struct espl__start *start = &gang->plan->start;

	start->packing = fx->as.start.share.packing;
	espl__real_start_fill(real, gang, espl__real_lease(real, gang->parts[0].lease),
	    fx->as.start.values, start, &gang->plan->params);
	start->world = fx->as.start.share.gpus;
	start->nodes = gang->part_count;
	start->attempt = fx->as.start.attempt;
	start->iteration = fx->as.start.iteration;
	start->source = gang->source;
	start->checkpoint = gang->checkpoint;
}

static void
send_starts(struct espl__real *real, struct espl__rgang *gang, uint32_t port)
{
	struct espl__buf payload = { NULL, 0, 0 };
	uint32_t p;

	for (p = 0; p < gang->part_count; p++) {
		struct espl__ragent *agent = espl__real_part_agent(real, &gang->parts[p]);

		gang->plan->start.port = port;
		gang->plan->start.together = gang->part_count > 1;
		gang->plan->start.node_rank = p;
		gang->plan->start.ranks = gang->plan->ranks + gang->parts[p].first;
		gang->plan->start.rank_count = gang->parts[p].count;
		espl__buf_clear(&payload);
		espl__start_put(&gang->plan->start, &payload);
		gang->parts[p].answer_by = espl__tick() + ESPL__REAL_START_LIMIT;
		if (agent != NULL) /* else: the end of that agent ends the gang */
			espl__agent_send(agent, ESPL__MSG_START, &payload);
	}
	espl__buf_free(&payload);
	espl__real_plan_free(gang);
}

/* On several nodes: there is a port, and they reach each other. */
static void
start_together(struct espl__real *real, struct espl__rgang *gang)
{
	if (gang->plan->met && gang->plan->start.port > 0)
		send_starts(real, gang, gang->plan->start.port);
}

void
espl__real_start_port(struct espl__real *real, struct espl__rgang *gang, uint32_t port)
{
	ESPL__CHECK(gang, RGANG);
	if (gang->plan == NULL)
		return;
	gang->plan->start.port = port;
	if (port > 0) {
		start_together(real, gang);
		return;
	}
	gang->broken = espl__strdup("rank 0: no free port for the rendezvous of the gang");
	espl__real_gang_finish(real, gang); /* nothing was started */
}

static void
start_tried(struct espl__real *real, struct espl__rgang *gang, int met)
{
	ESPL__CHECK(gang, RGANG);
	ESPL__ASSERT(gang->plan != NULL);
	if (met) {
		gang->plan->met = 1;
		start_together(real, gang);
		return;
	}
	gang->unmet = 1;
	espl__real_gang_kill_parts(real, gang, 0); /* its port is free again */
	espl__real_gang_finish(real, gang);
}

static uint32_t
first_rank(const struct espl__rgang *gang, uint64_t lease)
{
	ESPL__CHECK(gang, RGANG);
	for (uint32_t r = 0; r < gang->world; r++)
		if (gang->members[r].slot.node == lease)
			return r;
	return 0;
}

static const struct espl__reach_then then = { start_tried, first_rank };

static void
begin_together(struct espl__real *real, struct espl__rgang *gang)
{
	struct espl__buf payload = { NULL, 0, 0 };
	struct espl_slot *slots = espl__alloc(gang->world * sizeof *slots);

	gang->plan->begun = 1;
	espl__put_v64(&payload, gang->id);
	espl__put_u64(&payload, 0);
	espl__agent_send(espl__real_part_agent(real, &gang->parts[0]), ESPL__MSG_RESERVE, &payload);
	espl__buf_free(&payload);
	for (uint32_t r = 0; r < gang->world; r++)
		slots[r] = gang->members[r].slot;
	espl__real_reach_gang(real, gang, slots, gang->world, &then);
	free(slots);
}

/* Starts if all its nodes have an agent; otherwise waits for the one that is being restarted. */
static void
begin_gang(struct espl__real *real, struct espl__rgang *gang)
{
	for (uint32_t p = 0; p < gang->part_count; p++)
		if (espl__real_part_agent(real, &gang->parts[p]) == NULL)
			return;
	if (gang->part_count == 1)
		send_starts(real, gang, 0);
	else if (!gang->plan->begun)
		begin_together(real, gang);
}

void
espl__real_gangs_agent(struct espl__real *real)
{
	struct espl__rgang *gang;

	ESPL__CHECK(real, REAL);
	for (gang = real->gangs; gang != NULL; gang = gang->next)
		if (gang->plan != NULL)
			begin_gang(real, gang);
}

struct espl__rgang *
espl__real_gang_again(struct espl__real *real, const struct espl__gang_info *info)
{
	struct espl__rkind *kind = kind_of(real, (uint32_t)(info->trial >> ESPL__TRIAL_BITS), NULL);
	struct espl__rgang *gang;
	struct espl__part *part;

	ESPL__CHECK(real, REAL);
	if (kind == NULL || info->gpus == 0 || espl__real_gang(real, info->gang) != NULL)
		return NULL;
	gang = espl__alloc(sizeof *gang);
	gang->magic = ESPL__RGANG_MAGIC;
	gang->kind = kind;
	gang->id = info->gang;
	gang->trial = info->trial;
	gang->begun = gang->last = info->iteration;
	gang->budget = info->budget;
	gang->source = ESPL_NONE;
	gang->directive =
	    info->directive == ESPL__PAUSE || info->directive == ESPL__STOP ? info->directive : 0;
	gang->waiting = info->awaiting;
	gang->world = info->gpus;
	gang->part_count = gang->part_cap = 1;
	part = gang->parts = espl__alloc(sizeof *gang->parts);
	part->lease = info->slots[0].node;
	part->wing = gang->id;
	part->count = part->live = info->gpus;
	if (info->started) /* else its agent has yet to say so */
		part->started = (int)(gang->started = 1);
	else
		part->answer_by = espl__tick() + ESPL__REAL_START_LIMIT;
	gang->members = espl__alloc(info->gpus * sizeof *gang->members);
	for (uint32_t i = 0; i < info->gpus; i++)
		gang->members[i] = (struct espl__rmember){ 0, i, info->slots[i] };
	gang->next = real->gangs;
	if (gang->next != NULL)
		gang->next->prev = gang;
	real->gangs = gang;
	espl__map_set(&real->gang_map, gang->id, gang);
	return gang;
}

static void
note_unsaved(const struct espl__real *real, const struct espl__rkind *kind)
{
	struct espl__exec_plan_info info = { .spec = NULL };

	if (kind->of->config->trial.metrics == NULL)
		return;
	if (!real->config->pool)
		espl__exec_plan_info(real->world.exec, &info);
	espl__log(ESPL_INFO,
	    "trials whose metrics are read from their output save no checkpoints: one that is %s "
	    "trains again from iteration 0",
	    espl__unsaved_trials(info.spec));
}

/* When its first trial starts: what is offered is known. */
static void
begin_kind(const struct espl__real *real, struct espl__rkind *kind)
{
	int asked = kind->of->config->trial.torchrun;

	kind->started = 1;
	kind->torchrun = asked >= 0 ? asked : espl__exec_has_ranks(real->world.exec, kind->of);
	note_unsaved(real, kind);
}

espl_status
espl__real_start(struct espl__real *real, const struct espl__effect *fx, struct espl__diag *diag)
{
	struct espl__rkind *kind = kind_of(real, fx->as.start.experiment, diag);
	struct espl__rgang *gang;
	uint32_t p;

	ESPL__CHECK(real, REAL);
	if (kind == NULL)
		return diag != NULL && diag->status != ESPL_OK ? diag->status : ESPL_E_CONFIG;
	if (!kind->started)
		begin_kind(real, kind);
	gang = espl__alloc(sizeof *gang);
	gang->magic = ESPL__RGANG_MAGIC;
	gang->kind = kind;
	gang->id = fx->as.start.gang;
	gang->trial = (uint64_t)fx->as.start.experiment << ESPL__TRIAL_BITS | fx->as.start.trial;
	gang->begun = gang->last = fx->as.start.iteration;
	gang->budget = fx->as.start.budget;
	gang->source = (uint64_t)fx->as.start.experiment << ESPL__TRIAL_BITS | fx->as.start.source;
	gang->checkpoint = fx->as.start.checkpoint;
	gang->plan = espl__alloc(sizeof *gang->plan);
	make_parts(gang, gang->plan, fx);
	gang->next = real->gangs;
	if (gang->next != NULL)
		gang->next->prev = gang;
	real->gangs = gang;
	espl__map_set(&real->gang_map, gang->id, gang);
	for (p = 0; p < gang->part_count; p++) {
		struct espl__rlease *lease = espl__real_lease(real, gang->parts[p].lease);

		gang->lost |= lease == NULL || lease->ended || lease->releasing;
	}
	if (gang->lost || gang->part_count == 0) { /* a machine went away in this very moment */
		gang->lost = 1;
		espl__real_gang_finish(real, gang);
		return ESPL_OK;
	}
	fill_plan(real, gang, fx);
	begin_gang(real, gang);
	return ESPL_OK;
}
