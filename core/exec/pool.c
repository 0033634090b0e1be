/* pool.c - all searches of an executor together: who has come, who is over, what each may and does
 * cost.
 *
 * An ordinary run is a pool of one search that is there from the beginning.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "exec/state.h"

/* ---- coming and going --------------------------------------------------------------------- */

/* One that was submitted.  If its plugins do not want it, it has come and has failed. */
static espl_status
submitted(struct espl__exec *x, uint64_t number, struct espl__diag *diag)
{
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__search_setup setup;
	struct espl__search *s;
	espl_status status = espl__exec_load(x, number, &setup, diag);

	if (status != ESPL_OK)
		return status;
	status = espl__search_add(x, &setup, &why);
	s = x->searches[number];
	if (status == ESPL_OK)
		status = espl__search_declare(s, &why);
	if (status == ESPL_OK)
		return ESPL_OK;
	s->come = s->over = s->finished = 1;
	s->ending = ESPL__RUN_FAILED;
	s->end_text = espl__strdup(why.text);
	s->experiment.arrived = s->ended = x->now;
	espl__exec_show_search(s);
	return ESPL_OK;
}

espl_status
espl__search_arrive(struct espl__exec *x, uint64_t number, struct espl__diag *given)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__search *s;

	if (x->config->pool && number == x->search_count && submitted(x, number, given) != ESPL_OK)
		return given != NULL ? given->status : ESPL_E_CONFIG;
	if (number >= x->search_count || x->searches[number]->come)
		return ESPL_OK; /* a journal of another pool */
	s = x->searches[number];
	s->come = 1;
	s->why |= ESPL_ASK_START | ESPL_ASK_CAPACITY;
	s->experiment.arrived = x->now;
	if (s->config->deadline != ESPL_NEVER)
		s->experiment.deadline = x->now + s->config->deadline;
	espl__exec_note(x, ESPL_ABOUT_RUN, 0, "experiment '%s' has come", s->config->name);
	if (x->cloud_ready && espl__search_suits(s, &diag) != ESPL_OK)
		espl__search_wind_up(s, ESPL__RUN_FAILED, "%s", diag.text);
	espl__exec_show_search(s);
	return ESPL_OK;
}

/* Its trials stop where they are; their processes may save. */
static void
stop_trial(struct espl__exec *x, struct espl__trial *t)
{
	if (t->item != NULL)
		espl__item_free(x, t->item);
	t->item = NULL;
	t->verdict = 0;
	if (t->gang != NULL) {
		t->gang->over = 1;
		espl__exec_kill(x, t->gang, t->search->config->trial.grace, NULL);
	}
	espl__trial_state(&t->search->trials, t, ESPL_TRIAL_ENDED);
	if (t->search->jobs != NULL)
		espl__job_ended(t);
	espl__exec_collect_later(x, t);
	espl__exec_show(x, t);
}

static void
stop_all(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	const struct espl__tier *tier = s->tier;

	for (uint32_t i = 0; i < s->waiter_count; i++)
		stop_trial(x, s->waiters[i].trial);
	s->waiter_count = 0;
	for (uint64_t i = tier->items_from + tier->items_count; i > tier->items_from; i--) {
		struct espl__item *item = (struct espl__item *)(uintptr_t)tier->items[i - 1];

		if (item->trial == NULL || item->trial->search != s)
			continue;
		stop_trial(x, item->trial);
		i = tier->items_from + tier->items_count + 1; /* the list has moved */
	}
}

static void
cancel_job(struct espl__search *s, uint64_t number)
{
	struct espl__trial *t = espl__trial_at(&s->trials, number);

	s->job_states[number].cancelled = 1;
	s->jobs_cancelled++;
	espl__exec_note(s->exec, ESPL_ABOUT_TRIAL, number, "job '%s' is cancelled by the user",
	    s->jobs->list.jobs[number].name);
	if (t != NULL)
		stop_trial(s->exec, t);
	else
		espl__jobs_skip(s);
}

void
espl__search_cancel(struct espl__exec *x, uint64_t number, uint64_t trial)
{
	struct espl__search *s = number < x->search_count ? x->searches[number] : NULL;

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

void
espl__search_wind_up(struct espl__search *s, enum espl__run_end how, const char *format, ...)
{
	struct espl__exec *x = s->exec;
	char text[512];
	va_list list;

	va_start(list, format);
	(void)vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (!x->config->pool) {
		espl__exec_wind_up(x, how, "%s", text);
		return;
	}
	if (s->ending != 0 || s->over)
		return;
	s->ending = how;
	s->end_text = espl__strdup(text);
	s->finished = 1;
	s->wake_at = s->barrier_at = ESPL_NEVER;
	if (how == ESPL__RUN_FAILED)
		espl__exec_warn(x, ESPL_ABOUT_RUN, 0, "experiment '%s' failed: %s", s->config->name,
		    text);
	else
		espl__exec_note(x, ESPL_ABOUT_RUN, 0, "experiment '%s' ends: %s", s->config->name,
		    text);
	stop_all(s);
	espl__exec_show_search(s);
}

/* Every trial that was given the largest budget has failed: 1, and that budget. */
static int
largest_budget_failed(const struct espl__search *s, uint64_t *budget)
{
	int good = 1;

	*budget = 0;
	for (uint64_t i = 0; i < s->trials.trials.count && s->failed > 0; i++) {
		const struct espl__trial *t = espl__trial_at(&s->trials, i);

		if (t->pub.budget > *budget)
			good = 0;
		if (t->pub.budget >= *budget)
			good |= t->pub.state != ESPL_TRIAL_FAILED;
		*budget = t->pub.budget > *budget ? t->pub.budget : *budget;
	}
	return !good;
}

int
espl__search_came_to_nothing(const struct espl__search *s, char *why, size_t room)
{
	uint64_t budget;

	if (s->best == ESPL_NONE)
		(void)snprintf(why, room, "no trial reported a number as its '%.100s'",
		    s->config->metric);
	else if (largest_budget_failed(s, &budget))
		(void)snprintf(why, room, "every trial that was to train %llu iteration%s failed",
		    (unsigned long long)budget, budget == 1 ? "" : "s");
	else
		return 0;
	return 1;
}

void
espl__search_closed(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	char why[200];

	s->over = 1;
	s->ended = x->now;
	espl__search_settle(s);
	if (s->ending == 0 && s->jobs == NULL && espl__search_came_to_nothing(s, why, sizeof why)) {
		s->ending = ESPL__RUN_FAILED;
		s->end_text = espl__strdup(why);
	} else if (s->ending == 0) {
		s->ending = ESPL__RUN_DONE;
	}
	if (s->jobs == NULL)
		espl__exec_note(x, ESPL_ABOUT_RUN, 0, "experiment '%s' is over", s->config->name);
	espl__exec_show_search(s);
}

/* ---- all of them -------------------------------------------------------------------------- */

uint32_t
espl__searches_open(const struct espl__exec *x)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < x->search_count; i++)
		open += x->searches[i]->ending == 0;
	return open;
}

int
espl__exec_idle(const struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->search_count; i++)
		if (!espl__search_idle(x->searches[i]))
			return 0;
	return 1;
}

int
espl__exec_to_come(const struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->search_count; i++) {
		const struct espl__search *s = x->searches[i];

		if (!s->over && (!s->come || (s->jobs != NULL && !s->finished)))
			return 1;
	}
	return 0;
}

/* Somebody left, or was resized: whoever waits for GPUs may begin more. */
void
espl__exec_capacity(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->search_count; i++)
		if (!x->searches[i]->finished && x->searches[i]->come)
			x->searches[i]->why |= ESPL_ASK_CAPACITY;
}

espl_time
espl__search_next(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	for (uint32_t i = 0; i < x->search_count; i++) {
		const struct espl__search *s = x->searches[i];

		at = s->wake_at < at ? s->wake_at : at;
		at = s->barrier_at < at ? s->barrier_at : at;
	}
	return at;
}

/* ---- limits ------------------------------------------------------------------------------- */

/* Everybody pays for what is held by the GPU time that was used. */
void
espl__search_spent(struct espl__exec *x)
{
	espl_money total = espl__ledger_total(x->ledger, x->now);

	for (uint32_t i = 0; i < x->search_count; i++) {
		struct espl__search *s = x->searches[i];

		s->experiment.spent = x->search_count == 1 ? total
		    : x->busy_gpu_s > 0
		    ? (espl_money)((double)total * (s->busy_gpu_s / x->busy_gpu_s))
		    : 0;
	}
}

static int
is_limited(const struct espl__search *s)
{
	return s->come && s->algorithm != NULL && s->ending == 0 && !espl__search_idle(s);
}

void
espl__search_alarms(struct espl__exec *x)
{
	for (uint32_t i = 0; x->config->pool && i < x->search_count; i++) {
		struct espl__search *s = x->searches[i];

		if (!is_limited(s))
			continue;
		if (x->now > s->experiment.deadline)
			espl__search_wind_up(s, ESPL__RUN_DEADLINE, "its deadline is reached");
		else if (s->experiment.spent >= s->experiment.budget)
			espl__search_wind_up(s, ESPL__RUN_BUDGET, "its budget is spent");
	}
}

/* Nobody's share can grow faster than what the whole cluster costs. */
espl_time
espl__search_limits_at(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	for (uint32_t i = 0; x->config->pool && i < x->search_count; i++) {
		const struct espl__search *s = x->searches[i];
		double rate, left;

		if (!is_limited(s) || x->ending != 0)
			continue;
		if (s->experiment.deadline != ESPL_NEVER && s->experiment.deadline + 1 < at)
			at = s->experiment.deadline + 1;
		rate = s->experiment.budget != INT64_MAX ? espl__ledger_rate(x->ledger) : 0;
		left = (double)(s->experiment.budget - s->experiment.spent);
		if (rate > 0 && left / rate < 1e9) {
			espl_time then =
			    x->now + ESPL_SECOND + (espl_time)(left > 0 ? left / rate * 1e9 : 0);
			at = then < at ? then : at;
		}
	}
	return at;
}

/* ---- the execution model, for allocators -------------------------------------------------- */

static const struct espl_model *
model_of(const struct espl_model *m, uint64_t experiment)
{
	const struct espl__exec *x = m->ctx;

	return experiment < x->search_count && x->searches[experiment]->algorithm != NULL
	    ? &x->searches[experiment]->model.pub
	    : NULL;
}

static espl_status
speed(const struct espl_model *m, const struct espl_speed_query *q, struct espl_speed *out)
{
	const struct espl_model *of = model_of(m, q->experiment);

	return of != NULL ? of->speed(of, q, out) : ESPL_E_UNKNOWN;
}

static espl_status
overheads(const struct espl_model *m, uint64_t experiment, uint32_t offer,
    struct espl_overheads *out)
{
	const struct espl_model *of = model_of(m, experiment);

	return of != NULL ? of->overheads(of, experiment, offer, out) : ESPL_E_UNKNOWN;
}

static espl_status
stage(const struct espl_model *m, const struct espl_stage_query *q, struct espl_cell *cells)
{
	const struct espl_model *of = model_of(m, q->experiment);

	return of != NULL ? of->stage(of, q, cells) : ESPL_E_UNKNOWN;
}

static espl_status
predict(const struct espl_model *m, const struct espl_plan *plan, const struct espl_predict *how,
    struct espl_prediction *out, struct espl_error *error)
{
	const struct espl_model *of = model_of(m, how->experiment);

	return of != NULL ? of->predict(of, plan, how, out, error) : ESPL_E_UNSUPPORTED;
}

void
espl__exec_model_init(struct espl__exec *x)
{
	x->model = (struct espl_model){ .size = (uint32_t)sizeof x->model,
		.ctx = x,
		.speed = speed,
		.overheads = overheads,
		.stage = stage,
		.predict = predict };
}

/* ---- questions ---------------------------------------------------------------------------- */

espl_time
espl__exec_now(const struct espl__exec *x)
{
	return x->now;
}

enum espl__run_end
espl__exec_cut(const struct espl__exec *x)
{
	return x->ended && (x->ending == ESPL__RUN_DEADLINE || x->ending == ESPL__RUN_BUDGET)
	    ? x->ending
	    : 0;
}

uint32_t
espl__exec_brackets(const struct espl__exec *x, uint64_t search)
{
	const struct espl_spec *spec =
	    search < x->search_count ? x->searches[search]->experiment.spec : NULL;

	return spec != NULL ? spec->bracket_count : 0;
}

const struct espl__search_setup *
espl__exec_search_of(const struct espl__exec *x, uint64_t number)
{
	return number < x->search_count ? &x->searches[number]->setup : NULL;
}

uint64_t
espl__exec_searches(const struct espl__exec *x)
{
	return x->search_count;
}

espl_status
espl__exec_load(const struct espl__exec *x, uint64_t number, struct espl__search_setup *setup,
    struct espl__diag *diag)
{
	memset(setup, 0, sizeof *setup);
	if (x->setup.load == NULL)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "experiment %llu of the pool cannot be read here", (unsigned long long)number);
	return x->setup.load(x->setup.load_ctx, number, setup, diag);
}

int
espl__exec_named(const struct espl__exec *x, const char *name, uint64_t *number, uint64_t *trial)
{
	*trial = ESPL_NONE;
	for (*number = 0; *number < x->search_count; ++*number) {
		const struct espl__search *s = x->searches[*number];

		if (s->jobs == NULL && strcmp(s->config->name, name) == 0)
			return 1;
		for (uint32_t i = 0; s->jobs != NULL && i < s->jobs->list.count; i++)
			if (strcmp(s->jobs->list.jobs[i].name, name) == 0) {
				*trial = i;
				return 1;
			}
	}
	return 0;
}

const char *
espl__exec_cancels(const struct espl__exec *x, uint64_t number, uint64_t trial)
{
	const struct espl__search *s = number < x->search_count ? x->searches[number] : NULL;
	const struct espl__trial *t;

	if (!x->config->pool || s == NULL || (trial == ESPL_NONE) != (s->jobs == NULL))
		return "there is no such experiment or job";
	if (trial == ESPL_NONE)
		return s->ending != 0 || s->over ? "it has ended already" : NULL;
	if (trial >= s->jobs->list.count)
		return "there is no such experiment or job";
	if (s->job_states[trial].cancelled)
		return "it is cancelled already";
	t = espl__trial_at(&s->trials, trial);
	return t != NULL && t->item == NULL ? "it has ended already" : NULL;
}

int
espl__exec_pool(const struct espl__exec *x)
{
	return x->config->pool;
}

int
espl__exec_has_come(const struct espl__exec *x, uint64_t number)
{
	return number >= x->search_count || x->searches[number]->come;
}

int
espl__exec_search_sum(const struct espl__exec *x, uint64_t number, struct espl__search_summary *to)
{
	const struct espl__search *s = number < x->search_count ? x->searches[number] : NULL;
	enum espl__run_end cut = espl__exec_cut(x);

	memset(to, 0, sizeof *to);
	if (s == NULL || s->jobs != NULL)
		return 0;
	to->name = s->config->name;
	to->metric = s->config->metric;
	to->maximize = s->config->maximize;
	to->text = s->end_text;
	to->how = s->over ? s->ending : 0;
	/* it ended with the pool, if not by its own limits at the same time */
	if (cut != 0 && !s->over) {
		to->how = s->ending != 0 ? s->ending : cut;
		to->text = s->ending != 0       ? s->end_text
		    : cut == ESPL__RUN_DEADLINE ? "the pool's deadline is reached"
						: "the pool's budget is spent";
	}
	to->come = s->come;
	to->arrived = s->come ? s->experiment.arrived : ESPL_NEVER;
	to->ended = cut != 0 && !s->over ? x->now : s->ended;
	to->trials = s->trials.trials.count;
	to->completed = s->trials.finished;
	to->early = s->trials.early;
	to->failed = s->failed;
	to->running = s->trials.running;
	to->waiting = s->trials.waiting;
	to->best = s->best;
	to->best_iteration = s->best_iteration;
	to->best_loss = s->best_loss;
	to->gpu_s = s->busy_gpu_s;
	to->spent = s->experiment.spent;
	for (const struct espl__gang *g = x->gang_first; g != NULL; g = g->next)
		to->gpus += g->trial->search == s ? g->share.gpus : 0;
	return 1;
}

void
espl__exec_show_search(const struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	struct espl__search_summary sum;

	if (x->setup.observers == NULL || !x->config->pool ||
	    !espl__exec_search_sum(x, s->number, &sum))
		return;
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->experiment != NULL)
			o->experiment(o->ctx, x->now, s->number, &sum);
}
