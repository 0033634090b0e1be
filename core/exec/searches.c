/* searches.c - the searches of a run: adding, declaring, arriving, cancelling, freeing them. */
#include <espalier/trainable.h>
#include <espalier/util.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_inner.h"
#include "exec/items_tiers.h"
#include "exec/questions.h"
#include "exec/searches_configs.h"
#include "exec/searches_require.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"
#include "exec/searches_jobs.h"
#include "exec/searches_plan.h"
#include "model/earlier.h"
#include "plugin/registry.h"

/* ---- what concerns all -------------------------------------------------------------------- */

void
espl__searches_begin(struct espl__exec *x)
{
	espl_money total;

	ESPL__CHECK(x, EXEC);
	x->searches.places = 0;
	/* Summing all leases in every round would cost more than the round: once a second is
	 * enough. */
	if (x->now - x->searches.spent_at < ESPL_SECOND && !x->cluster.dirty)
		return;
	x->searches.spent_at = x->now;
	total = espl__ledger_total(x->ledger, x->now);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];

		s->experiment.spent = x->searches.count == 1 ? total
		    : x->gangs.busy_gpu_s > 0
		    ? (espl_money)((double)total * (s->sums.busy_gpu_s / x->gangs.busy_gpu_s))
		    : 0;
	}
}

void
espl__searches_begun(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->come)
			x->searches.list[i]->why |= ESPL_ASK_START | ESPL_ASK_CAPACITY;
}

void
espl__searches_capacity(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (!x->searches.list[i]->finished && x->searches.list[i]->come)
			x->searches.list[i]->why |= ESPL_ASK_CAPACITY;
}

void
espl__searches_asked(struct espl__exec *x, uint64_t count)
{
	const struct espl__trials *trials = &x->searches.list[0]->trials;

	x->searches.places =
	    trials->running + trials->waiting - x->searches.list[0]->faults.held_count + count;
	espl__searches_capacity(x);
}

void
espl__search_stale(struct espl__search *s, int whole)
{
	espl__model_service_stale(&s->model, whole);
}

void
espl__searches_stale(struct espl__exec *x, int whole)
{
	for (uint32_t i = 0; i < x->searches.count; i++)
		espl__search_stale(x->searches.list[i], whole);
}

void
espl__searches_widths(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		struct espl__search *s = x->searches.list[i];

		s->experiment.gpus_max =
		    espl__sold_widest(&x->fleet, &s->config->trial, s->inputs->profile);
	}
	espl__searches_stale(x, 1);
}

void
espl__searches_forgive(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->searches.count; i++) {
		x->searches.list[i]->failures = 0;
		espl__search_faults_forgive(x->searches.list[i]);
	}
	espl__tiers_forgive(x);
}

int
espl__search_gets_results(const struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	return s->ending == 0 &&
	    (s->exec->round.ending == 0 || s->exec->round.ending == ESPL__RUN_INTERRUPTED);
}

void
espl__search_turn(struct espl__search *s)
{
	struct espl__caller *c = &s->exec->caller;

	ESPL__CHECK(s, SEARCH);
	c->params = s->trials.params;
	c->space = s->algorithm != NULL ? espl__space_view(s->inputs->space) : NULL;
	c->trials = s->configs;
	c->no_saves = !s->saves || s->apart; /* no clones */
}

/* ---- coming and going --------------------------------------------------------------------- */

/* A submitted experiment. If its plugins reject it, it has arrived and failed. */
static espl_status
add_submitted(struct espl__exec *x, uint64_t number, struct espl__diag *diag)
{
	struct espl__diag why = ESPL__DIAG_INIT;
	const struct espl__inputs *inputs;
	struct espl__search *s;
	espl_status status = espl__exec_load(x, number, &inputs, diag);

	if (status != ESPL_OK)
		return status;
	status = espl__search_add(x, inputs, &why);
	s = x->searches.list[number];
	if (status == ESPL_OK)
		status = espl__search_declare(s, &why);
	if (status == ESPL_OK)
		return ESPL_OK;
	s->come = s->over = s->finished = 1;
	s->ending = ESPL__RUN_FAILED;
	s->end_text = espl__strdup(why.text);
	s->experiment.arrived = s->ended = x->now;
	espl__search_show(s);
	return ESPL_OK;
}

espl_status
espl__search_arrive(struct espl__exec *x, uint64_t number, struct espl__diag *given)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__search *s;

	ESPL__CHECK(x, EXEC);
	if (x->config->pool && number == x->searches.count &&
	    add_submitted(x, number, given) != ESPL_OK)
		return given != NULL ? given->status : ESPL_E_CONFIG;
	if (number >= x->searches.count || x->searches.list[number]->come)
		return ESPL_OK; /* a journal of another pool */
	s = x->searches.list[number];
	s->come = 1;
	s->why |= ESPL_ASK_START | ESPL_ASK_CAPACITY;
	s->experiment.arrived = x->now;
	if (s->config->deadline != ESPL_NEVER)
		s->experiment.deadline = x->now + s->config->deadline;
	espl__exec_note(x, ESPL_ABOUT_RUN, 0, "experiment '%s' arrived", s->config->name);
	if (x->cluster.cloud_ready && espl__search_suits(s, &diag) != ESPL_OK)
		espl__search_wind_up(s, ESPL__RUN_FAILED, "%s", diag.text);
	espl__search_show(s);
	return ESPL_OK;
}

static void
cancel_job(struct espl__search *s, uint64_t number)
{
	struct espl__trial *t = espl__trial_at(&s->trials, number);

	s->job_states[number].cancelled = 1;
	s->jobs_cancelled++;
	espl__exec_note(s->exec, ESPL_ABOUT_TRIAL, number, "job '%s' was cancelled by the user",
	    s->jobs->list.jobs[number].name);
	if (t != NULL)
		espl__trial_stop(s->exec, t);
	else
		espl__jobs_skip(s);
}

void
espl__search_cancel(struct espl__exec *x, uint64_t number, uint64_t trial)
{
	struct espl__search *s = number < x->searches.count ? x->searches.list[number] : NULL;

	ESPL__CHECK(x, EXEC);
	if (espl__exec_cancels(x, number, trial) != NULL)
		return; /* it has ended meanwhile */
	if (trial != ESPL_NONE) {
		cancel_job(s, trial);
		return;
	}
	if (!s->come)
		s->experiment.arrived = x->now;
	s->come = 1;
	espl__search_wind_up(s, ESPL__RUN_CANCELLED, "cancelled by the user");
}

/* ---- limits ------------------------------------------------------------------------------- */

espl_status
espl__exec_load(const struct espl__exec *x, uint64_t number, const struct espl__inputs **inputs,
    struct espl__diag *diag)
{
	ESPL__CHECK(x, EXEC);
	if (x->setup.load == NULL)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "cannot read experiment %llu of the pool here", (unsigned long long)number);
	return x->setup.load(x->setup.inputs, number, inputs, diag);
}

const char *
espl__exec_cancels(const struct espl__exec *x, uint64_t number, uint64_t trial)
{
	const struct espl__search *s = number < x->searches.count ? x->searches.list[number] : NULL;
	const struct espl__trial *t;

	if (!x->config->pool || s == NULL || (trial == ESPL_NONE) != (s->jobs == NULL))
		return "no such experiment or job";
	if (trial == ESPL_NONE)
		return s->ending != 0 || s->over ? "it has already ended" : NULL;
	if (trial >= s->jobs->list.count)
		return "no such experiment or job";
	if (s->job_states[trial].cancelled)
		return "it is already cancelled";
	t = espl__trial_at(&s->trials, trial);
	return t != NULL && t->item == NULL ? "it has already ended" : NULL;
}

/* ---- what algorithm and allocator are lent ------------------------------------------------ */

static const double *
first_at(const struct espl_first *f, uint32_t index)
{
	const struct espl__search *s = f->ctx;

	return index < s->first_count ? s->first[index] : NULL;
}

/* ---- the user's points -------------------------------------------------------------------- */

static int
is_first(const struct espl__search *s, const double *values)
{
	const struct espl_space *view = espl__space_view(s->inputs->space);
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
		values = espl__earlier_best(s->inputs->earlier, rank);
		if (values == NULL)
			return;
		if (!is_first(s, values) &&
		    espl_space_allows(espl__space_view(s->inputs->space), values))
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
	room = s->inputs->earlier != NULL ? s->config->warm_best : 0;
	if (room > 0 && room > espl__earlier_configs(s->inputs->earlier))
		room = espl__earlier_configs(s->inputs->earlier);
	s->first = espl__arena_alloc(arena, (count + room + (size_t)1) * sizeof *s->first);
	for (uint32_t i = 0; i < count; i++) {
		double *values = espl__arena_alloc(arena, (s->trials.params + 1) * sizeof *values);
		espl_status status =
		    espl__space_point(s->inputs->space, list->children[i], values, diag);
		if (status != ESPL_OK)
			return status;
		s->first[i] = values;
	}
	s->first_count = count;
	if (s->inputs->earlier != NULL)
		best_points(s);
	s->first_service.count = s->first_count;
	return ESPL_OK;
}

/* ---- the experiment ----------------------------------------------------------------------- */

/* Metrics as the algorithm sees them: its objective first, the others as they were named. */
static void
list_metrics(struct espl__search *s)
{
	const struct espl__names *names = &s->exec->searches.metrics;
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

void
espl__searches_metric(struct espl__exec *x, const char *name)
{
	ESPL__CHECK(x, EXEC);
	(void)espl__names_add(&x->searches.metrics, name);
	for (uint32_t i = 0; i < x->searches.count; i++)
		list_metrics(x->searches.list[i]);
}

void
espl__experiment_of(const struct espl__run_config *c, struct espl_experiment *e)
{
	ESPL__CHECK(c, RUN_CONFIG);
	e->size = (uint32_t)sizeof *e;
	e->flags = (c->maximize ? ESPL_EXPERIMENT_MAXIMIZE : 0) |
	    (c->warm ? ESPL_EXPERIMENT_WARM : 0) | (c->acquire_ahead ? ESPL_EXPERIMENT_AHEAD : 0) |
	    (c->queue_chain ? ESPL_EXPERIMENT_CHAIN : 0) |
	    (c->release_idle ? ESPL_EXPERIMENT_IDLE : 0);
	e->name = c->name;
	e->gpus_limit = c->gpus_limit;
	e->deadline = c->deadline;
	e->budget = c->budget;
	e->risk = c->risk;
	e->weight = c->weight;
	e->data_gb = c->data_gb;
}

static void
make_experiment(struct espl__search *s)
{
	const struct espl__run_config *c = s->config;
	struct espl_experiment *e = &s->experiment;

	espl__experiment_of(c, e);
	e->flags |= (s->saves ? 0 : ESPL_EXPERIMENT_NO_SAVE) |
	    (s->inputs->earlier != NULL ? ESPL_EXPERIMENT_EARLIER : 0);
	e->id = s->number;
	s->objective = c->metric[0] != '\0' ? espl__names_add(&s->exec->searches.metrics, c->metric)
					    : ESPL_ANY;
	espl__search_require(s);
	e->gpus_min = c->trial.gpus_min;
	e->gpus_max = c->trial.gpus_max;
	e->arrived = s->exec->now;
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
	s->pauses = espl__arena_alloc(arena, spec->bracket_count * sizeof *s->pauses);
	for (uint32_t b = 0; b < spec->bracket_count; b++) {
		s->pauses[b] = (struct espl__search_pause){ ESPL_NEVER, 0 };
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
espl__search_add(struct espl__exec *x, const struct espl__inputs *inputs, struct espl__diag *diag)
{
	struct espl__search *s = espl__alloc(sizeof *s);
	espl_status status;

	s->magic = ESPL__SEARCH_MAGIC;
	ESPL__GROW(x->searches.list, x->searches.cap, x->searches.count + 1);
	s->exec = x;
	s->number = x->searches.count;
	x->searches.list[x->searches.count++] = s;
	s->inputs = inputs;
	s->come = !x->config->pool || inputs->jobs != NULL;
	s->planned = x->config->pool != 0; /* plans are for one experiment alone */
	s->ended = ESPL_NEVER;
	s->config = inputs->config;
	s->saves = inputs->config->trial.checkpoint != 0;
	if (inputs->profile != NULL && !inputs->profile->guessed)
		s->longest_s = espl__profile_iteration_s(inputs->profile,
		    (struct espl_share){ inputs->config->trial.gpus_min, 1 });
	s->wake_at = s->barrier_at = ESPL_NEVER;
	s->best = s->best_failed = ESPL_NONE;
	espl__search_goal_init(s);
	s->best_loss = NAN;
	espl__lowest_init(&s->lowest);
	s->env = x->env;
	s->env.seed = inputs->config->seed;
	s->env.directory = inputs->config->directory;
	s->env.ctx = s;
	s->env.service = espl__search_service;
	s->env.note = espl__search_plugin_note;
	espl__trials_init(&s->trials, espl__space_count(inputs->space));
	s->trials.search = s;
	espl__search_seeds_init(s);
	make_experiment(s);
	for (uint32_t i = 0; i < x->searches.count; i++)
		list_metrics(x->searches.list[i]);
	espl__search_plan_init(s);
	s->tier = &x->items.top;
	status = inputs->jobs == NULL ? make_algorithm(s, diag) : espl__jobs_init(s, inputs->jobs);
	return status == ESPL_OK ? espl__tier_new(s, &s->tier, diag) : status;
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

/* A simulation knows what it takes from the profile alone. */
static int
can_resize(const struct espl__search *s)
{
	const struct espl__trial_config *trial = &s->config->trial;
	int simulated = s->exec->setup.simulated;
	const struct espl__plugin *plugin;
	const struct espl_trainable_ops *ops;

	if (!trial->in_place ||
	    (simulated && (s->inputs->profile == NULL || !s->inputs->profile->resizes)))
		return 0;
	if (simulated && s->jobs != NULL)
		return 1;
	if (trial->trainable == NULL)
		return simulated && trial->curves != NULL;
	if (espl__plugin_find(ESPL_TRAINABLE, trial->trainable, &plugin, NULL) != ESPL_OK)
		return 0; /* starting it reports the error */
	ops = (const struct espl_trainable_ops *)(const void *)plugin->desc->ops;
	return ESPL_HAS(struct espl_trainable_ops, ops, resize);
}

/* The algorithm's declared shape; the instance exists, and whatever else the run needs. */
espl_status
espl__search_declare(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	espl_status status = ESPL_OK;

	ESPL__CHECK(s, SEARCH);
	espl__search_turn(s);
	s->trials.full = s->configs->full = full_iterations(s);
	if (s->algorithm != NULL)
		status =
		    espl__call_spec(&x->caller, s->algorithm, &x->arena, &s->experiment.spec, diag);
	if (status == ESPL_OK)
		status = espl__search_seeds_spec(s, diag);
	make_standing(s);
	s->in_place = (uint8_t)can_resize(s);
	return status;
}

espl_status
espl__search_suits(struct espl__search *s, struct espl__diag *diag)
{
	ESPL__CHECK(s, SEARCH);
	if (espl__exec_follows(s->exec, ESPL__RULES_SUPPLY))
		s->experiment.gpus_max =
		    espl__sold_widest(&s->exec->fleet, &s->config->trial, s->inputs->profile);
	return s->jobs != NULL ? espl__sold_suits_jobs(s->jobs, espl__cluster_potential(s->exec),
				     s->exec->config->cloud.use, diag)
			       : espl__sold_suits(&s->exec->fleet, s->config, diag);
}

static void
free_search(struct espl__search *s)
{
	espl__instance_destroy(s->algorithm);
	espl__inner_free(s->tier->inner);
	espl__search_plan_free(s);
	espl__outcomes_free(&s->outcomes);
	espl__history_free(s->history);
	espl__search_seeds_free(s);
	espl__trials_free(&s->trials);
	free(s->metrics);
	free(s->end_text);
	espl__search_faults_free(s);
	free(s->job_states);
	free(s->waiters);
	free(s->unsaved);
	free(s->unwanted);
	s->magic = 0;
	free(s);
}

void
espl__searches_still(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		espl__instance_destroy(x->searches.list[i]->algorithm);
		x->searches.list[i]->algorithm = NULL;
		espl__inner_still(x->searches.list[i]->tier->inner);
	}
}

void
espl__searches_free(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++)
		free_search(x->searches.list[i]);
	free(x->searches.list);
	free(x->searches.collect);
	free(x->searches.computing);
	free(x->searches.last_failure);
	espl__names_free(&x->searches.metrics);
}
