/* check_search.c - check-plugin for algorithms: a toy executor that trains made-up trials, four at
 * a time, and records what the algorithm does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "check/check_guard.h"

#define ROUNDS_MAX 3000
#define TRIALS_MAX 2000u /* a script ends when there are more */
#define AT_ONCE 4

struct toy_trial {
	struct espl_trial view;
	double values[3];
};
struct toy_observation {
	struct espl_observation view;
	double values[3], metric;
};
struct toy_group {
	uint32_t waiting;
	int open, fresh, asked;
}; /* fresh: begun in this call */

struct search {
	struct espl__check *check;
	struct espl__instance *instance;
	const struct espl_algorithm_ops *ops;
	struct espl_search_sink sink;
	struct toy_trial *trials[TRIALS_MAX];
	uint32_t trial_count;
	struct toy_group groups[TRIALS_MAX];
	uint32_t group_count;
	const struct espl_observation **observations;
	uint64_t observation_cap;
	int finished, in_next, count_only, full;
	espl_time wake;
	espl_verdict verdicts[TRIALS_MAX];
};

static struct search *
of(struct espl_search_sink *sink)
{
	return (struct search *)(void *)((char *)sink - offsetof(struct search, sink));
}

/* ---- sinks ------------------------------------------------------------------------- */

static espl_status
sink_begin(struct espl_search_sink *sink, const struct espl_group *group, uint64_t *number)
{
	struct search *s = of(sink);
	uint32_t bytes[4] = { group->flags, group->bracket, group->stage, group->concurrency };
	espl_status status = espl__check_call(s->check, "begin", bytes, sizeof bytes);

	if (!espl__check_struct(s->check, "begin", group->size, sizeof *group, group->zero))
		return ESPL_E_REJECTED;
	if (!s->in_next)
		return espl__check_refuse(s->check, "begin: a group is begun outside next_group");
	s->full |= s->group_count == TRIALS_MAX;
	if (status != ESPL_OK || s->full)
		return ESPL_E_REJECTED;
	s->groups[s->group_count].open = (group->flags & ESPL_GROUP_OPEN) != 0;
	s->groups[s->group_count].fresh = 1;
	s->groups[s->group_count].waiting = 0;
	s->groups[s->group_count].asked = 0;
	*number = s->group_count++;
	return ESPL_OK;
}

/* The configuration of a start, checked against the made-up space. */
static int
values_fit(const struct espl__check *check, const double *values)
{
	double copy[3];
	uint32_t missing;

	memcpy(copy, values, sizeof copy);
	return check->space.snap(&check->space, copy, &missing) == ESPL_OK &&
	    memcmp(copy, values, sizeof copy) == 0;
}

static espl_status
begin_trial(struct search *s, uint64_t group, const struct espl_start *start, uint64_t *number)
{
	const struct toy_trial *source = NULL;
	const double *values = start->values;
	struct toy_trial *t;

	if (start->how == ESPL_CLONE) {
		if (start->trial >= s->trial_count)
			return ESPL_E_UNKNOWN;
		source = s->trials[start->trial];
		if (start->checkpoint != 0 && start->checkpoint != source->view.checkpoint &&
		    start->checkpoint != source->view.iteration)
			return ESPL_E_UNKNOWN;
		values = values != NULL ? values : source->values;
	}
	if (start->budget == 0)
		return espl__check_refuse(s->check, "add: a budget of 0 iterations, in group %llu",
		    (unsigned long long)group);
	if (values == NULL || !values_fit(s->check, values)) {
		espl__check_error(s->check, "add: the configuration does not lie in the space");
		return ESPL_E_REJECTED;
	}
	if (s->trial_count == TRIALS_MAX) {
		s->full = 1; /* more than is tried here */
		return ESPL_E_REJECTED;
	}
	t = s->trials[s->trial_count] = espl__alloc(sizeof *t);
	memcpy(t->values, values, sizeof t->values);
	t->view = (struct espl_trial){ .size = (uint32_t)sizeof t->view,
		.state = ESPL_TRIAL_WAITING,
		.id = s->trial_count,
		.tag = start->tag,
		.group = group,
		.parent = source != NULL ? source->view.id : ESPL_NONE,
		.iteration = source != NULL ? source->view.checkpoint : 0,
		.budget = start->budget,
		.loss = NAN,
		.values = t->values };
	t->view.checkpoint = t->view.iteration;
	*number = s->trial_count++;
	return ESPL_OK;
}

static espl_status
continue_trial(struct search *s, uint64_t group, const struct espl_start *start)
{
	unsigned long long id = start->trial;
	struct toy_trial *t;

	if (start->trial >= s->trial_count)
		return espl__check_refuse(s->check,
		    "add: trial %llu is continued, which does not exist", id);
	t = s->trials[start->trial];
	if (t->view.state != ESPL_TRIAL_RESTING)
		return espl__check_refuse(s->check,
		    "add: trial %llu is continued, which is not resting", id);
	if (start->budget <= t->view.iteration)
		return espl__check_refuse(s->check,
		    "add: trial %llu is continued to a budget of %llu iterations, which it has "
		    "reached",
		    id, (unsigned long long)start->budget);
	t->view.state = ESPL_TRIAL_WAITING;
	t->view.budget = start->budget;
	t->view.tag = start->tag;
	t->view.group = group;
	return ESPL_OK;
}

static espl_status
sink_add(struct espl_search_sink *sink, uint64_t group, const struct espl_start *start,
    uint64_t *number)
{
	struct search *s = of(sink);
	uint64_t bytes[6] = { group, start->how, start->trial, start->checkpoint, start->budget,
		start->tag };
	espl_status status = espl__check_call(s->check, "add", bytes, sizeof bytes);
	uint64_t given = 0;

	if (!espl__check_struct(s->check, "add", start->size, sizeof *start, 0))
		return ESPL_E_REJECTED;
	if (start->values != NULL)
		status = espl__check_call(s->check, "values", start->values, 3 * sizeof(double));
	if (s->count_only) {
		if (number != NULL)
			*number = s->check->calls;
		return s->check->calls > ESPL__CHECK_CALLS / 2 ? ESPL_E_REJECTED : status;
	}
	if (status != ESPL_OK || s->full)
		return ESPL_E_REJECTED;
	if (!s->in_next)
		return espl__check_refuse(s->check, "add: a trial is added outside next_group");
	if (group >= s->group_count || !(s->groups[group].open || s->groups[group].fresh))
		return espl__check_refuse(s->check,
		    "add: to group %llu, which is closed or does not exist",
		    (unsigned long long)group);
	if (start->how < ESPL_FRESH || start->how > ESPL_CLONE)
		return espl__check_refuse(s->check,
		    "add: a start (how %u) that is neither fresh, nor continued, nor cloned",
		    start->how);
	status = start->how == ESPL_CONTINUE ? continue_trial(s, group, start)
					     : begin_trial(s, group, start, &given);
	if (status != ESPL_OK)
		return status;
	if (start->how == ESPL_CONTINUE)
		given = start->trial;
	s->groups[group].waiting++;
	if (number != NULL)
		*number = given;
	return ESPL_OK;
}

static espl_status
sink_close(struct espl_search_sink *sink, uint64_t group)
{
	struct search *s = of(sink);
	espl_status status = espl__check_call(s->check, "close", &group, sizeof group);

	if (status != ESPL_OK)
		return status;
	if (!s->in_next || group >= s->group_count ||
	    !(s->groups[group].open || s->groups[group].fresh))
		return s->full ? ESPL_E_REJECTED
			       : espl__check_refuse(s->check, "close: group %llu is not open",
				     (unsigned long long)group);
	s->groups[group].open = 0;
	return ESPL_OK;
}

static espl_status
sink_finish(struct espl_search_sink *sink)
{
	struct search *s = of(sink);
	espl_status status = espl__check_call(s->check, "finish", "", 0);

	if (status == ESPL_OK && !s->in_next)
		return espl__check_refuse(s->check, "finish: it is called outside next_group");
	if (status == ESPL_OK)
		s->finished = 1;
	return status;
}

static espl_status
sink_verdict(struct espl_search_sink *sink, uint64_t trial, espl_verdict verdict)
{
	struct search *s = of(sink);
	uint64_t bytes[2] = { trial, verdict };
	espl_status status = espl__check_call(s->check, "verdict", bytes, sizeof bytes);

	if (status != ESPL_OK)
		return status;
	if (verdict < ESPL_SAVE || verdict > ESPL_STOP)
		return espl__check_refuse(s->check,
		    "verdict: %u on trial %llu: there is none of this number", verdict,
		    (unsigned long long)trial);
	if (trial >= s->trial_count || s->trials[trial]->view.state == ESPL_TRIAL_ENDED)
		return espl__check_refuse(s->check,
		    "verdict: on trial %llu, which has ended or does not exist",
		    (unsigned long long)trial);
	s->verdicts[trial] = verdict;
	return ESPL_OK;
}

static espl_status
sink_drop(struct espl_search_sink *sink, uint64_t trial)
{
	struct search *s = of(sink);
	espl_status status = espl__check_call(s->check, "drop", &trial, sizeof trial);

	if (status != ESPL_OK)
		return status;
	if (trial >= s->trial_count)
		return espl__check_refuse(s->check, "drop: there is no trial %llu",
		    (unsigned long long)trial);
	if (s->trials[trial]->view.state == ESPL_TRIAL_WAITING ||
	    s->trials[trial]->view.state == ESPL_TRIAL_RUNNING)
		return espl__check_refuse(s->check, "drop: trial %llu still trains (stop it first)",
		    (unsigned long long)trial);
	if (s->trials[trial]->view.state == ESPL_TRIAL_RESTING)
		s->trials[trial]->view.state = ESPL_TRIAL_ENDED;
	return ESPL_OK;
}

static espl_status
sink_hint(struct espl_search_sink *sink, uint64_t trial, double weight, uint32_t low, uint32_t high)
{
	struct search *s = of(sink);
	double bytes[4] = { (double)trial, weight, low, high };
	espl_status status = espl__check_call(s->check, "hint", bytes, sizeof bytes);

	if (status == ESPL_OK && !s->count_only &&
	    (trial >= s->trial_count || !(weight >= 0) || isinf(weight) ||
		(high != 0 && low > high)))
		return espl__check_refuse(s->check,
		    "hint: trial %llu, weight %g, %u to %u GPUs: no such trial, or impossible "
		    "numbers",
		    (unsigned long long)trial, weight, low, high);
	return status;
}

static espl_status
sink_wake(struct espl_search_sink *sink, espl_time at)
{
	struct search *s = of(sink);
	espl_status status = espl__check_call(s->check, "wake_at", &at, sizeof at);

	if (status == ESPL_OK && at < s->wake)
		s->wake = at;
	return status;
}

/* ---- calls ------------------------------------------------------------------------- */

static void
fill_error(struct espl_error *error)
{
	*error = (struct espl_error)ESPL_INIT(struct espl_error);
	error->option = error->row = ESPL_ANY;
}

static void
ask(struct search *s, uint32_t why, uint64_t group, uint32_t want)
{
	struct espl_error error;
	struct espl_search_view view = { .size = (uint32_t)sizeof view,
		.why = why,
		.now = s->check->now,
		.group = group,
		.trials = s->trial_count,
		.want = want,
		.gpus = want,
		.gpus_max = want };
	espl_status status;

	fill_error(&error);
	for (uint32_t i = 0; i < s->trial_count; i++)
		view.waiting += s->trials[i]->view.state == ESPL_TRIAL_WAITING;
	s->in_next = 1;
	status = s->ops->next_group(s->instance->self, &view, &s->sink, &error);
	s->in_next = 0;
	for (uint32_t g = 0; g < s->group_count; g++)
		s->groups[g].fresh = 0;
	if (!s->full)
		(void)espl__check_returned(s->check, "next_group", status, &error);
}

static void
ended(struct search *s, struct toy_trial *t, espl_trial_state state, espl_end how)
{
	struct espl_error error;
	espl_status status;

	t->view.state = state;
	t->view.checkpoint = t->view.iteration;
	s->groups[t->view.group].waiting--;
	if (!ESPL_HAS(struct espl_algorithm_ops, s->ops, on_trial_end))
		return;
	fill_error(&error);
	status = s->ops->on_trial_end(s->instance->self, &t->view, how, &s->sink, &error);
	(void)espl__check_returned(s->check, "on_trial_end", status, &error);
}

static void
report(struct search *s, struct toy_trial *t)
{
	struct toy_observation *o = espl__alloc(sizeof *o);
	struct espl__check *check = s->check;
	struct espl_error error;
	struct espl__extent parts[2];
	espl_status status;
	uint64_t before;

	t->view.iteration++;
	t->view.loss = fabs(log(t->values[0]) - log(0.01)) + t->values[2] * 0.1 +
	    5.0 / (double)(t->view.iteration + 1);
	memcpy(o->values, t->values, sizeof o->values);
	o->metric = t->view.loss;
	o->view = (struct espl_observation){ .size = (uint32_t)sizeof o->view,
		.trial = t->view.id,
		.iteration = t->view.iteration,
		.loss = t->view.loss,
		.metrics = &o->metric,
		.metric_count = 1,
		.values = o->values,
		.at = check->now,
		.iteration_s = 10,
		.share = { 1, 1 } };
	ESPL__GROW(s->observations, s->observation_cap, check->observation_count + 1);
	s->observations[check->observation_count++] = &o->view;
	check->observations = s->observations;
	if (!ESPL_HAS(struct espl_algorithm_ops, s->ops, on_report))
		return;
	fill_error(&error);
	parts[0] = (struct espl__extent){ o, sizeof *o };
	parts[1] = (struct espl__extent){ t->values, sizeof t->values };
	before = espl__parts_digest(parts, 2);
	status = s->ops->on_report(s->instance->self, &t->view, &o->view, &s->sink, &error);
	espl__parts_same(check, "on_report", parts, 2, before);
	(void)espl__check_returned(check, "on_report", status, &error);
}

/* One iteration of the first few trials that may train; how many did. */
static int
train(struct search *s)
{
	int trained = 0;

	for (uint32_t i = 0; i < s->trial_count && trained < AT_ONCE; i++) {
		struct toy_trial *t = s->trials[i];
		espl_verdict verdict;

		if (t->view.state != ESPL_TRIAL_WAITING && t->view.state != ESPL_TRIAL_RUNNING)
			continue;
		trained++;
		t->view.state = ESPL_TRIAL_RUNNING;
		report(s, t);
		verdict = s->verdicts[i];
		s->verdicts[i] = 0;
		if (verdict == ESPL_STOP)
			ended(s, t, ESPL_TRIAL_ENDED, ESPL_END_STOPPED);
		else if (t->view.iteration >= t->view.budget)
			ended(s, t, ESPL_TRIAL_RESTING, ESPL_END_BUDGET);
		else if (verdict == ESPL_PAUSE)
			ended(s, t, ESPL_TRIAL_RESTING, ESPL_END_PAUSED);
		else if (verdict == ESPL_SAVE)
			t->view.checkpoint = t->view.iteration;
	}
	return trained;
}

/* Groups that have ended ask for the next, all others for more. */
static void
ask_round(struct search *s, int trained)
{
	int asked = 0;
	uint32_t groups = s->group_count;

	for (uint32_t g = 0; g < groups; g++) {
		if (s->groups[g].waiting > 0 || s->groups[g].asked || s->groups[g].open)
			continue;
		s->groups[g].asked = 1;
		asked = 1;
		ask(s, ESPL_ASK_GROUP | ESPL_ASK_RESULT, g, AT_ONCE);
	}
	if (!asked)
		ask(s, ESPL_ASK_RESULT | ESPL_ASK_CAPACITY, ESPL_NONE,
		    (uint32_t)(AT_ONCE - (trained < AT_ONCE ? trained : AT_ONCE)));
}

/* ---- scripts ----------------------------------------------------------------------- */

static const struct espl_trial *
find_trial(struct espl__check *check, uint64_t trial)
{
	struct search *s = check->search;

	return s != NULL && trial < s->trial_count ? &s->trials[trial]->view : NULL;
}

static struct search *
open_search(struct espl__check *check, uint64_t seed, int refuse)
{
	struct search *s = espl__alloc(sizeof *s);

	s->check = check;
	s->sink = (struct espl_search_sink){ .size = (uint32_t)sizeof s->sink,
		.begin = sink_begin,
		.add = sink_add,
		.close = sink_close,
		.finish = sink_finish,
		.verdict = sink_verdict,
		.drop = sink_drop,
		.hint = sink_hint,
		.wake_at = sink_wake };
	s->wake = ESPL_NEVER;
	s->ops = (const struct espl_algorithm_ops *)(const void *)check->plugin->desc->ops;
	check->search = s;
	check->trial = find_trial;
	check->observation_count = 0;
	check->now = 0;
	espl__check_begin(check, refuse);
	s->instance = espl__check_create(check, seed);
	return s;
}

static void
close_search(struct search *s)
{
	s->check->view = NULL;
	espl__check_step(s->check, "destroy");
	espl__instance_destroy(s->instance);
	for (uint64_t i = 0; i < s->check->observation_count; i++)
		free((void *)s->observations[i]);
	free(s->observations);
	for (uint32_t i = 0; i < s->trial_count; i++)
		free(s->trials[i]);
	s->check->observation_count = 0;
	s->check->search = NULL;
	free(s);
}

/* A whole search.  Returns 1 if it could be tried. */
static int
run_search(struct espl__check *check, uint64_t seed, uint64_t *digest)
{
	struct search *s = open_search(check, seed, 0);
	int idle = 0, made = s->instance != NULL;

	if (made) {
		espl__check_step(check, "next_group, the first call");
		check->view = "the first call";
		ask(s, ESPL_ASK_START, ESPL_NONE, AT_ONCE);
		if (s->trial_count == 0 && !s->finished && s->wake == ESPL_NEVER)
			espl__check_error(check,
			    "next_group: its first answer starts nothing, so nothing ever happens");
	}
	espl__check_step(check, "a search of made-up trials");
	check->view = "a search of made-up trials";
	for (int round = 0; made && round < ROUNDS_MAX && idle < 3; round++) {
		int trained = train(s);

		if (s->full || (trained == 0 && s->finished))
			break;
		check->now += 10 * ESPL_SECOND;
		if (s->wake <= check->now) {
			s->wake = ESPL_NEVER;
			ask(s, ESPL_ASK_TIME, ESPL_NONE, AT_ONCE);
		} else if (trained == 0 && s->wake != ESPL_NEVER) {
			check->now = s->wake;
		} else if (!s->finished) {
			ask_round(s, trained);
		}
		idle = trained == 0 && s->wake == ESPL_NEVER ? idle + 1 : 0;
	}
	if (made && idle >= 3 && !s->finished && !s->full)
		espl__check_error(check,
		    "next_group: nothing trains, nothing is asked for, and the search is not "
		    "finished");
	*digest = check->digest;
	close_search(s);
	return made;
}

struct toy_spec {
	struct espl_spec_sink sink;
	struct espl__check *check;
	uint32_t brackets;
};

static espl_status
sink_spec(struct espl_spec_sink *sink, const struct espl_spec *spec)
{
	struct toy_spec *s = (struct toy_spec *)(void *)sink;

	if (spec->bracket_count == 0)
		return espl__check_refuse(s->check, "spec: it has no brackets");
	for (uint32_t b = 0; b < spec->bracket_count; b++) {
		if (spec->brackets[b]->stage_count == 0)
			return espl__check_refuse(s->check, "spec: bracket %u has no stages", b);
		for (uint32_t i = 0; i < spec->brackets[b]->stage_count; i++)
			if (spec->brackets[b]->stages[i]->trials == 0 ||
			    spec->brackets[b]->stages[i]->iterations == 0)
				return espl__check_refuse(s->check,
				    "spec: stage %u of bracket %u has no trials or no iterations",
				    i, b);
	}
	s->brackets = spec->bracket_count;
	return ESPL_OK;
}

static void
try_spec(struct espl__check *check, struct espl__instance *instance)
{
	const struct espl_algorithm_ops *ops = (const void *)instance->ops;
	struct toy_spec spec = { { .size = (uint32_t)sizeof spec.sink, .spec = sink_spec }, check,
		0 };
	struct espl_error error;
	espl_status status;

	if (!ESPL_HAS(struct espl_algorithm_ops, ops, spec))
		return;
	fill_error(&error);
	espl__check_step(check, "spec");
	status = ops->spec(instance->self, &spec.sink, &error);
	if (status == ESPL_E_UNKNOWN)
		espl__check_ok(check,
		    "spec: it says that its shape is not known beforehand: nothing can be planned");
	else if (espl__check_returned(check, "spec", status, &error) && spec.brackets > 0)
		espl__check_ok(check, "spec: a shape is declared, of %u bracket%s", spec.brackets,
		    spec.brackets == 1 ? "" : "s");
	else if (status == ESPL_OK)
		espl__check_ok(check,
		    "spec: it returns OK but declares no shape: nothing can be planned");
}

static void
try_edges(struct espl__check *check)
{
	struct search *s = open_search(check, 1, 0);

	if (s->instance == NULL) {
		close_search(s);
		return;
	}
	try_spec(check, s->instance);
	espl__check_step(check, "next_group, with room for nothing");
	check->view = "room for nothing";
	ask(s, ESPL_ASK_START, ESPL_NONE, 0);
	espl__check_ok(check, "next_group: returns when there is room for nothing");
	close_search(s);
	s = open_search(check, 1, 0);
	espl__check_step(check, "next_group, with room for 100000 trials");
	check->view = "room for 100000 trials";
	s->count_only = 1;
	ask(s, ESPL_ASK_START, ESPL_NONE, 100000);
	espl__check_ok(check, "next_group: returns when there is room for 100000 trials");
	close_search(s);
	s = open_search(check, 1, 1);
	espl__check_step(check, "next_group, every call refused");
	for (int i = 0; i < 10; i++)
		ask(s, i == 0 ? ESPL_ASK_START : ESPL_ASK_RESULT | ESPL_ASK_CAPACITY, ESPL_NONE,
		    AT_ONCE);
	espl__check_ok(check, "next_group: returns when every call is refused");
	close_search(s);
}

static void
live(struct espl__check *check)
{
	uint64_t digest;

	(void)run_search(check, 7, &digest);
}

void
espl__check_search(struct espl__check *check)
{
	uint64_t one, two;

	if (!run_search(check, 7, &one))
		return;
	(void)run_search(check, 7, &two);
	if (one != two)
		espl__check_error(check,
		    "the same seed and the same results led to other decisions: it is not "
		    "deterministic");
	else
		espl__check_ok(check, "the same seed leads to the same decisions");
	try_edges(check);
	espl__check_leaks(check, live);
}
