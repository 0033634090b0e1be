/* call_search.c - calling the algorithm: its spec, its next groups, reports and ends.
 *
 * Ids are known before anything is applied: the k-th new trial of a call gets the next id but
 * k, so a sink can answer with it and the applied op will agree.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "policy/call_private.h"

#define FEW_PARAMS 64u /* a copy of their values is on the stack */
#define SPEC_BRACKETS_MOST 100000u

struct search_call {
	struct espl_search_sink sink;
	struct espl__call call;
	uint64_t groups, trials; /* next ids, counting what this call made */
	uint64_t groups_before;
	int building; /* begin, add, close, finish are allowed */
	int finished;
};

static struct espl__trial *
find_trial(struct search_call *s, uint64_t id)
{
	return espl__trial_at(s->call.caller->trials, id);
}

static int
is_final(const struct espl__trial *t)
{
	return t->pub.state == ESPL_TRIAL_ENDED || t->pub.state == ESPL_TRIAL_FAILED;
}

static espl_status
sink_begin(struct espl_search_sink *sink, const struct espl_group *group, uint64_t *id)
{
	struct search_call *s = (struct search_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_BEGIN, .as.group = *group };

	if (!s->building || s->finished)
		return espl__call_refuse(&s->call, "a group started %s",
		    s->finished ? "after finish" : "outside next_group");
	espl__call_record(&s->call, &op);
	if (id != NULL)
		*id = s->groups;
	s->groups++;
	return ESPL_OK;
}

static int
group_takes(const struct search_call *s, uint64_t id)
{
	const struct espl__trial_group *g;

	if (id >= s->groups_before)
		return id < s->groups;
	g = espl__group_at(s->call.caller->trials, id);
	return g != NULL && (g->flags & ESPL_GROUP_OPEN) != 0;
}

/* A configuration must be what the space makes of it: within bounds, on its steps, NaN exactly
 * where inactive. */
static int
values_good(const struct espl__caller *c, const double *values)
{
	double room[FEW_PARAMS], *copy = room;
	uint32_t missing;
	int good;

	if (c->space == NULL)
		return 1;
	if (c->params > FEW_PARAMS)
		copy = espl__alloc(c->params * sizeof *copy);
	memcpy(copy, values, c->params * sizeof *copy);
	good = c->space->snap(c->space, copy, &missing) == ESPL_OK;
	for (uint32_t i = 0; good && i < c->params; i++)
		good = isnan(copy[i])
		    ? isnan(values[i])
		    : fabs(copy[i] - values[i]) <= 1e-9 * (fabs(copy[i]) + 1e-300);
	if (copy != room)
		free(copy);
	return good;
}

static const char *
start_wrong(struct search_call *s, const struct espl_start *start)
{
	struct espl__trial *t = NULL;

	if (start->how < ESPL_FRESH || start->how > ESPL_CLONE)
		return "a start that is not fresh, continued or cloned";
	if (start->budget == 0)
		return "a start with a budget of 0 iterations";
	if (start->how == ESPL_FRESH && start->values == NULL)
		return "a fresh start without a configuration";
	if (start->how != ESPL_CONTINUE && start->values != NULL &&
	    !values_good(s->call.caller, start->values))
		return "a configuration outside of the space";
	if (start->how == ESPL_FRESH)
		return NULL;
	t = find_trial(s, start->trial);
	if (t == NULL)
		return "a start from a trial that does not exist";
	if (start->how == ESPL_CONTINUE) {
		if (t->pub.state != ESPL_TRIAL_RESTING)
			return "continuing a trial that is not paused";
		if (t->stamp == s->call.caller->stamp)
			return "continuing a trial twice";
		if (t->dropped)
			return "continuing a trial that was dropped";
		if (start->budget <= t->pub.iteration)
			return "continuing a trial to a budget that it has already reached";
		t->stamp = s->call.caller->stamp;
	} else if (s->call.caller->no_saves) {
		return "a clone although trials do not save checkpoints (trial.checkpoint)";
	}
	return NULL;
}

/* Is the checkpoint that a clone needs stored, or can it still be requested? */
static int
can_clone(const struct espl__trial *t, uint64_t checkpoint)
{
	int here = t->can_save ||
	    (t->pub.state == ESPL_TRIAL_RESTING && t->pub.iteration > 0 && !t->dropped);

	if (checkpoint == 0)
		return t->pub.checkpoint > 0 || here || t->pub.state == ESPL_TRIAL_WAITING ||
		    t->pub.state == ESPL_TRIAL_RUNNING;
	return t->pub.checkpoint == checkpoint || (here && t->pub.iteration == checkpoint);
}

static espl_status
sink_add(struct espl_search_sink *sink, uint64_t group, const struct espl_start *start,
    uint64_t *id)
{
	struct search_call *s = (struct search_call *)sink;
	struct espl__op op = { .type = ESPL__OP_ADD, .as.add = { group, *start } };
	const char *wrong;

	if (!s->building || s->finished)
		return espl__call_refuse(&s->call, "a trial added %s",
		    s->finished ? "after finish" : "outside next_group");
	if (!group_takes(s, group))
		return espl__call_refuse(&s->call,
		    "a trial added to group %llu, which is closed or does not exist", LLU(group));
	if (start->how != ESPL_CONTINUE && s->trials >= ESPL__TRIALS_MAX)
		return espl__call_refuse(&s->call, "a trial beyond the limit of %u per experiment",
		    ESPL__TRIALS_MAX);
	wrong = start_wrong(s, start);
	if (wrong != NULL && start->how == ESPL_FRESH)
		return espl__call_refuse(&s->call, "%s (in group %llu)", wrong, LLU(group));
	if (wrong != NULL)
		return espl__call_refuse(&s->call, "%s (trial %llu, budget %llu)", wrong,
		    LLU(start->trial), LLU(start->budget));
	if (start->how == ESPL_CLONE && !can_clone(find_trial(s, start->trial), start->checkpoint))
		return ESPL_E_UNKNOWN;
	if (start->how == ESPL_CONTINUE)
		op.as.add.start.values = NULL;
	if (start->how == ESPL_FRESH)
		op.as.add.start.trial = ESPL_NONE;
	espl__call_record(&s->call, &op);
	if (id != NULL)
		*id = start->how == ESPL_CONTINUE ? start->trial : s->trials;
	if (start->how != ESPL_CONTINUE)
		s->trials++;
	return ESPL_OK;
}

static espl_status
sink_close(struct espl_search_sink *sink, uint64_t group)
{
	struct search_call *s = (struct search_call *)sink;
	struct espl__op op = { .type = ESPL__OP_CLOSE, .as.id = group };

	if (!s->building || !group_takes(s, group))
		return espl__call_refuse(&s->call, "closing group %llu, which is not open",
		    LLU(group));
	espl__call_record(&s->call, &op);
	return ESPL_OK;
}

static espl_status
sink_finish(struct espl_search_sink *sink)
{
	struct search_call *s = (struct search_call *)sink;
	struct espl__op op = { .type = ESPL__OP_FINISH };

	if (!s->building)
		return espl__call_refuse(&s->call, "finish outside next_group");
	s->finished = 1;
	espl__call_record(&s->call, &op);
	return ESPL_OK;
}

static espl_status
sink_verdict(struct espl_search_sink *sink, uint64_t trial, espl_verdict verdict)
{
	struct search_call *s = (struct search_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_VERDICT, .as.verdict = { trial, verdict } };
	struct espl__trial *t = find_trial(s, trial);

	if (verdict < ESPL_SAVE || verdict > ESPL_STOP)
		return espl__call_refuse(&s->call, "an unknown verdict %u on trial %llu", verdict,
		    LLU(trial));
	if (t == NULL || is_final(t))
		return espl__call_refuse(&s->call,
		    "a verdict on trial %llu, which has ended or does not exist", LLU(trial));
	espl__call_record(&s->call, &op);
	return ESPL_OK;
}

static espl_status
sink_drop(struct espl_search_sink *sink, uint64_t trial)
{
	struct search_call *s = (struct search_call *)sink;
	struct espl__op op = { .type = ESPL__OP_DROP, .as.id = trial };
	struct espl__trial *t = find_trial(s, trial);

	if (t == NULL)
		return espl__call_refuse(&s->call, "a drop of trial %llu, which does not exist",
		    LLU(trial));
	if (t->pub.state == ESPL_TRIAL_WAITING || t->pub.state == ESPL_TRIAL_RUNNING)
		return espl__call_refuse(&s->call,
		    "a drop of trial %llu, which is still running (stop it first)", LLU(trial));
	espl__call_record(&s->call, &op);
	return ESPL_OK;
}

static espl_status
sink_hint(struct espl_search_sink *sink, uint64_t trial, double weight, uint32_t gpus_min,
    uint32_t gpus_max)
{
	struct search_call *s = (struct search_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_HINT,
		.as.hint = { trial, weight, gpus_min, gpus_max } };

	if (trial >= s->trials || !(weight >= 0) || isinf(weight) ||
	    (gpus_max != 0 && gpus_min > gpus_max))
		return espl__call_refuse(&s->call,
		    "an invalid hint for trial %llu with weight %g and %u to %u GPUs", LLU(trial),
		    weight, gpus_min, gpus_max);
	espl__call_record(&s->call, &op);
	return ESPL_OK;
}

static espl_status
sink_wake(struct espl_search_sink *sink, espl_time at)
{
	struct search_call *s = (struct search_call *)sink;
	const espl_time *now = s->call.caller->now;

	return espl__call_wake(&s->call, at, now != NULL ? *now : at);
}

static void
begin_call(struct search_call *s, struct espl__caller *c, struct espl__instance *i,
    const char *entry)
{
	s->sink = (struct espl_search_sink){ .size = (uint32_t)sizeof s->sink,
		.begin = sink_begin,
		.add = sink_add,
		.close = sink_close,
		.finish = sink_finish,
		.verdict = sink_verdict,
		.drop = sink_drop,
		.hint = sink_hint,
		.wake_at = sink_wake };
	espl__call_begin(&s->call, c, i, entry);
	s->groups = s->groups_before = c->trials->groups.count;
	s->trials = c->trials->trials.count;
	s->building = s->finished = 0;
}

espl_status
espl__call_next_group(struct espl__caller *c, struct espl__instance *i,
    const struct espl_search_view *view, struct espl__diag *diag)
{
	const struct espl_algorithm_ops *ops = (const struct espl_algorithm_ops *)i->ops;
	struct search_call s;

	begin_call(&s, c, i, "next_group");
	s.building = 1;
	espl__calling_asked("trials", (int64_t)view->trials, "wanted", view->want, "second",
	    view->now / ESPL_SECOND);
	return espl__call_end(&s.call, ops->next_group(i->self, view, &s.sink, &s.call.error),
	    diag);
}

static void
begin_of_trial(struct search_call *s, struct espl__caller *c, struct espl__instance *i,
    const char *entry, const struct espl_trial *trial)
{
	begin_call(s, c, i, entry);
	espl__calling_asked("trial", (int64_t)trial->id, "iteration", (int64_t)trial->iteration,
	    NULL, 0);
}

espl_status
espl__call_report(struct espl__caller *c, struct espl__instance *i, const struct espl_trial *trial,
    const struct espl_observation *observation, struct espl__diag *diag)
{
	const struct espl_algorithm_ops *ops = (const struct espl_algorithm_ops *)i->ops;
	struct search_call s;

	ESPL__CHECK(i, INSTANCE);
	if (!ESPL_HAS(struct espl_algorithm_ops, ops, on_report)) {
		espl__buf_clear(&c->ops);
		return ESPL_OK;
	}
	begin_of_trial(&s, c, i, "on_report", trial);
	return espl__call_end(&s.call,
	    ops->on_report(i->self, trial, observation, &s.sink, &s.call.error), diag);
}

espl_status
espl__call_trial_end(struct espl__caller *c, struct espl__instance *i,
    const struct espl_trial *trial, espl_end how, struct espl__diag *diag)
{
	const struct espl_algorithm_ops *ops = (const struct espl_algorithm_ops *)i->ops;
	struct search_call s;

	ESPL__CHECK(i, INSTANCE);
	if (!ESPL_HAS(struct espl_algorithm_ops, ops, on_trial_end)) {
		espl__buf_clear(&c->ops);
		return ESPL_OK;
	}
	begin_of_trial(&s, c, i, "on_trial_end", trial);
	return espl__call_end(&s.call,
	    ops->on_trial_end(i->self, trial, how, &s.sink, &s.call.error), diag);
}

int
espl__call_can_extend(const struct espl__instance *i)
{
	const struct espl_algorithm_ops *ops = (const struct espl_algorithm_ops *)i->ops;

	ESPL__CHECK(i, INSTANCE);
	return ESPL_HAS(struct espl_algorithm_ops, ops, extend);
}

espl_status
espl__call_extend(struct espl__caller *c, struct espl__instance *i, const struct espl_extension *e,
    struct espl__diag *diag)
{
	const struct espl_algorithm_ops *ops = (const struct espl_algorithm_ops *)i->ops;
	struct search_call s;

	ESPL__ASSERT(espl__call_can_extend(i) && e->trials > 0);
	begin_call(&s, c, i, "extend");
	espl__calling_asked("trials", (int64_t)e->trials, "own", e->values != NULL, NULL, 0);
	return espl__call_end(&s.call, ops->extend(i->self, e, &s.call.error), diag);
}

/* ---- spec ---------------------------------------------------------------------------------- */

struct spec_call {
	struct espl_spec_sink sink;
	struct espl__call call;
	struct espl__arena *arena;
	struct espl_spec *kept;
};

static espl_status
sink_spec(struct espl_spec_sink *sink, const struct espl_spec *spec)
{
	struct spec_call *s = (struct spec_call *)sink;
	const struct espl_bracket **brackets;

	if (spec->bracket_count == 0 || spec->bracket_count > SPEC_BRACKETS_MOST)
		return espl__call_refuse(&s->call,
		    "a spec of %u brackets, which must be between 1 and %u",
		    (unsigned)spec->bracket_count, SPEC_BRACKETS_MOST);
	brackets = espl__arena_alloc(s->arena, spec->bracket_count * sizeof *brackets);
	for (uint32_t b = 0; b < spec->bracket_count; b++) {
		struct espl_bracket *copy = espl__arena_alloc(s->arena, sizeof *copy);
		const struct espl_stage **stages;

		if (spec->brackets[b]->stage_count == 0)
			return espl__call_refuse(&s->call, "bracket %u of a spec without stages",
			    b);
		*copy = *spec->brackets[b];
		stages = espl__arena_alloc(s->arena, copy->stage_count * sizeof *stages);
		for (uint32_t k = 0; k < copy->stage_count; k++) {
			struct espl_stage *stage = espl__arena_alloc(s->arena, sizeof *stage);
			*stage = *spec->brackets[b]->stages[k];
			if (stage->trials == 0 || stage->iterations == 0)
				return espl__call_refuse(&s->call,
				    "stage %u of bracket %u of a spec without trials or iterations",
				    k, b);
			stages[k] = stage;
		}
		copy->stages = stages;
		brackets[b] = copy;
	}
	s->kept = espl__arena_alloc(s->arena, sizeof *s->kept);
	*s->kept = *spec;
	s->kept->brackets = brackets;
	return ESPL_OK;
}

espl_status
espl__call_spec(struct espl__caller *c, struct espl__instance *i, struct espl__arena *arena,
    const struct espl_spec **spec, struct espl__diag *diag)
{
	const struct espl_algorithm_ops *ops = (const struct espl_algorithm_ops *)i->ops;
	struct spec_call s;
	espl_status status;

	ESPL__CHECK(i, INSTANCE);
	*spec = NULL;
	if (!ESPL_HAS(struct espl_algorithm_ops, ops, spec))
		return ESPL_OK;
	s.sink = (struct espl_spec_sink){ .size = (uint32_t)sizeof s.sink, .spec = sink_spec };
	s.arena = arena;
	s.kept = NULL;
	espl__call_begin(&s.call, c, i, "spec");
	status = espl__call_end(&s.call, ops->spec(i->self, &s.sink, &s.call.error), diag);
	if (status == ESPL_OK)
		*spec = s.kept;
	return status;
}
