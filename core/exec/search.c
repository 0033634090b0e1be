/* search.c - a search: one experiment with its algorithm, or the plain jobs of a pool without one.
 *
 * Made when the run begins, or when its experiment arrives; what its algorithm is lent is here.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "exec/state.h"
#include "model/sold.h"

/* ---- what algorithm and allocator are lent ------------------------------------------------ */

static const double *
first_at(const struct espl_first *f, uint32_t index)
{
	const struct espl__search *s = f->ctx;

	return index < s->first_count ? s->first[index] : NULL;
}

static espl_status
submit(const struct espl_compute *c, const struct espl_compute_request *request, uint64_t *token,
    struct espl_error *error)
{
	struct espl__exec *x = c->ctx;
	struct espl__diag diag = ESPL__DIAG_INIT;
	espl_status status = espl__caller_submit(&x->caller, request, token, &diag);

	if (status != ESPL_OK && error != NULL && error->status == ESPL_OK) {
		error->status = status;
		(void)snprintf(error->text, sizeof error->text, "%.200s", diag.text);
	}
	return status;
}

static void
cancel(const struct espl_compute *c, uint64_t token)
{
	struct espl__exec *x = c->ctx;

	for (uint32_t i = 0; i < x->computing_count; i++)
		if (x->computing[i].token == token) {
			x->computing[i] = x->computing[--x->computing_count];
			return;
		}
}

void
espl__exec_compute_init(struct espl__exec *x)
{
	x->compute.size = (uint32_t)sizeof x->compute;
	x->compute.ctx = x;
	x->compute.submit = submit;
	x->compute.cancel = cancel;
}

const void *
espl__exec_service(void *ctx, struct espl__instance *i, const char *id)
{
	struct espl__exec *x = ctx;

	if (i->plugin->desc->kind != ESPL_ALLOCATOR)
		return NULL;
	if (strcmp(id, ESPL_COMPUTE) == 0)
		return &x->compute;
	if (strcmp(id, ESPL_MODEL) == 0)
		return x->config->pool ? &x->model : &x->searches[0]->model.pub;
	return NULL;
}

const void *
espl__search_service(void *ctx, struct espl__instance *i, const char *id)
{
	struct espl__search *s = ctx;

	if (strcmp(id, ESPL_COMPUTE) == 0)
		return &s->exec->compute;
	if (strcmp(id, ESPL_MODEL) == 0)
		return &s->model.pub;
	if (i->plugin->desc->kind != ESPL_ALGORITHM)
		return NULL;
	if (strcmp(id, ESPL_SPACE) == 0)
		return espl__space_view(s->space);
	if (strcmp(id, ESPL_EXPERIMENT) == 0)
		return &s->experiment;
	if (strcmp(id, ESPL_FIRST) == 0)
		return &s->first_service;
	if (strcmp(id, ESPL_HISTORY) == 0) {
		if (s->history == NULL)
			s->history = espl__history_new(&s->trials, s->earlier);
		espl__history_first(s->history, s->first, s->first_count);
		i->wants_history = 1;
		return espl__history_view(s->history);
	}
	return NULL;
}

/* ---- the user's points -------------------------------------------------------------------- */

static int
is_first(const struct espl__search *s, const double *values)
{
	const struct espl_space *view = espl__space_view(s->space);
	uint64_t hash = view->hash(view, values);

	for (uint32_t i = 0; i < s->first_count; i++)
		if (view->hash(view, s->first[i]) == hash)
			return 1;
	return 0;
}

/* The best of a warm start, behind the user's own points. */
static void
best_points(struct espl__search *s)
{
	uint32_t own = s->first_count;
	const double *values;

	for (uint32_t rank = 0; s->first_count - own < s->config->warm_best; rank++) {
		values = espl__earlier_best(s->earlier, rank);
		if (values == NULL)
			return;
		if (!is_first(s, values))
			s->first[s->first_count++] = values;
	}
}

/* The user's points, checked against the space before anything runs. */
static espl_status
first_points(struct espl__search *s, struct espl__diag *diag)
{
	const struct espl__node *list = s->config->first;
	struct espl__arena *arena = &s->exec->arena;
	uint32_t count, room;

	s->first_service.size = (uint32_t)sizeof s->first_service;
	s->first_service.ctx = s;
	s->first_service.at = first_at;
	count = list != NULL ? list->child_count : 0;
	room = s->earlier != NULL ? s->config->warm_best : 0;
	if (room > 0 && room > espl__earlier_configs(s->earlier))
		room = espl__earlier_configs(s->earlier);
	s->first = espl__arena_alloc(arena, (count + room + (size_t)1) * sizeof *s->first);
	for (uint32_t i = 0; i < count; i++) {
		double *values = espl__arena_alloc(arena, (s->trials.params + 1) * sizeof *values);
		espl_status status = espl__space_point(s->space, list->children[i], values, diag);
		if (status != ESPL_OK)
			return status;
		s->first[i] = values;
	}
	s->first_count = count;
	if (s->earlier != NULL)
		best_points(s);
	s->first_service.count = s->first_count;
	return ESPL_OK;
}

/* ---- the experiment ----------------------------------------------------------------------- */

/* Metrics as the algorithm sees them: its objective first, the others as they were named. */
void
espl__search_metric(struct espl__search *s)
{
	const struct espl__names *names = &s->exec->metrics;
	uint32_t n = 0;

	s->experiment.metrics = (const char *const *)names->names;
	s->experiment.metric_count = names->count;
	if (s->objective == 0 || s->objective == ESPL_ANY)
		return;
	ESPL__GROW(s->metrics, s->metrics_cap, names->count);
	s->metrics[n++] = names->names[s->objective];
	for (uint32_t i = 0; i < names->count; i++)
		if (i != s->objective)
			s->metrics[n++] = names->names[i];
	s->experiment.metrics = s->metrics;
}

static void
make_experiment(struct espl__search *s)
{
	const struct espl__run_config *c = s->config;
	struct espl_experiment *e = &s->experiment;

	e->size = (uint32_t)sizeof *e;
	e->flags = (c->maximize ? ESPL_EXPERIMENT_MAXIMIZE : 0) |
	    (c->warm ? ESPL_EXPERIMENT_WARM : 0) | (c->acquire_ahead ? ESPL_EXPERIMENT_AHEAD : 0) |
	    (c->queue_chain ? ESPL_EXPERIMENT_CHAIN : 0) |
	    (s->saves ? 0 : ESPL_EXPERIMENT_NO_SAVE) |
	    (s->earlier != NULL ? ESPL_EXPERIMENT_EARLIER : 0);
	e->id = s->number;
	e->name = c->name;
	s->objective =
	    c->metric[0] != '\0' ? espl__names_add(&s->exec->metrics, c->metric) : ESPL_ANY;
	e->gpus_limit = c->gpus_limit;
	e->gpus_min = c->trial.gpus_min;
	e->gpus_max = c->trial.gpus_max;
	e->arrived = s->exec->now;
	e->deadline = c->deadline;
	e->budget = c->budget;
	e->risk = c->risk;
	e->weight = c->weight;
	e->data_gb = c->data_gb;
}

static void
make_standing(struct espl__search *s)
{
	const struct espl_spec *spec = s->experiment.spec;
	struct espl__arena *arena = &s->exec->arena;

	if (spec == NULL)
		return;
	s->standing = espl__arena_alloc(arena, spec->bracket_count * sizeof *s->standing);
	s->standing_list = espl__arena_alloc(arena, spec->bracket_count * sizeof *s->standing_list);
	for (uint32_t b = 0; b < spec->bracket_count; b++) {
		s->standing[b].size = (uint32_t)sizeof s->standing[b];
		s->standing[b].bracket = b;
		s->standing[b].stage_started = s->standing[b].trains_since = ESPL_NEVER;
		s->standing[b].trials_left = spec->brackets[b]->stages[0]->trials;
		s->standing_list[b] = &s->standing[b];
	}
	s->experiment.standing = s->standing_list;
	s->experiment.standing_count = spec->bracket_count;
}

/* ---- making and freeing ------------------------------------------------------------------- */

static espl_status
make_algorithm(struct espl__search *s, struct espl__diag *diag)
{
	espl_status status = first_points(s, diag);

	if (status == ESPL_OK)
		status = espl__instance_create(ESPL_ALGORITHM, s->config->algorithm.use,
		    s->config->algorithm.group, &s->env, &s->algorithm, diag);
	return status;
}

espl_status
espl__search_add(struct espl__exec *x, const struct espl__search_setup *setup,
    struct espl__diag *diag)
{
	struct espl__search *s = espl__alloc(sizeof *s);
	espl_status status;

	ESPL__GROW(x->searches, x->search_cap, x->search_count + 1);
	s->exec = x;
	s->number = x->search_count;
	x->searches[x->search_count++] = s;
	s->setup = *setup;
	s->come = !x->config->pool || setup->jobs != NULL;
	s->planned = x->config->pool != 0; /* plans are for one experiment alone */
	s->ended = ESPL_NEVER;
	s->config = setup->config;
	s->saves = setup->config->trial.checkpoint != 0;
	s->space = setup->space;
	s->profile = setup->profile;
	if (setup->profile != NULL && !setup->profile->guessed)
		s->longest_s = espl__profile_iteration_s(setup->profile,
		    (struct espl_share){ setup->config->trial.gpus_min, 1 });
	s->earlier = setup->earlier;
	s->wake_at = s->barrier_at = ESPL_NEVER;
	s->best = s->best_failed = ESPL_NONE;
	s->best_loss = NAN;
	s->env = x->env;
	s->env.seed = setup->config->seed;
	s->env.directory = setup->config->directory;
	s->env.ctx = s;
	s->env.service = espl__search_service;
	s->env.note = espl__search_plugin_note;
	espl__trials_init(&s->trials, espl__space_count(setup->space));
	s->trials.search = s;
	make_experiment(s);
	for (uint32_t i = 0; i < x->search_count; i++)
		espl__search_metric(x->searches[i]);
	espl__exec_plan_init(s);
	s->tier = &x->top;
	status = setup->jobs == NULL ? make_algorithm(s, diag) : espl__jobs_init(s, setup->jobs);
	return status == ESPL_OK ? espl__inner_new(s, diag) : status;
}

/* Every algorithm calls the last iteration of a trial that is never stopped `iterations_max`; 0: it
 * has none. */
static uint64_t
full_iterations(const struct espl__search *s)
{
	const struct espl__values *values = s->algorithm != NULL ? s->algorithm->values : NULL;

	for (uint32_t i = 0; values != NULL && i < values->config.count; i++) {
		const struct espl_option *option =
		    espl__option_at(values->options, values->option_size, i);

		if (option->type == ESPL_OPT_INT && strcmp(option->name, "iterations_max") == 0 &&
		    values->config.values[i].as.i > 0)
			return (uint64_t)values->config.values[i].as.i;
	}
	return 0;
}

/* The algorithm's declared shape; its instance is there, and whatever else the run needs. */
espl_status
espl__search_declare(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	espl_status status = ESPL_OK;

	espl__exec_turn(x, s);
	s->trials.full = full_iterations(s);
	if (s->algorithm != NULL)
		status =
		    espl__call_spec(&x->caller, s->algorithm, &x->arena, &s->experiment.spec, diag);
	make_standing(s);
	s->in_place = (uint8_t)espl__exec_in_place(s);
	return status;
}

espl_status
espl__search_suits(const struct espl__search *s, struct espl__diag *diag)
{
	return s->jobs != NULL ? espl__sold_suits_jobs(s->jobs, espl__exec_potential(s->exec),
				     s->exec->config->cloud.use, diag)
			       : espl__sold_suits(&s->exec->fleet, s->config, diag);
}

int
espl__search_idle(const struct espl__search *s)
{
	return s->over ||
	    (s->finished && s->trials.running + s->trials.waiting == 0 && s->waiter_count == 0);
}

void
espl__search_free(struct espl__search *s)
{
	if (s == NULL)
		return;
	espl__instance_destroy(s->algorithm);
	espl__inner_free(s->tier->inner);
	espl__exec_plan_free(s);
	free(s->outcomes.list);
	espl__arena_free(&s->outcomes.arena);
	espl__history_free(s->history);
	espl__trials_free(&s->trials);
	free(s->metrics);
	free(s->end_text);
	free(s->alike.text);
	free(s->job_states);
	free(s->waiters);
	free(s->unsaved);
	free(s);
}
