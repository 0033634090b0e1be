/* call_search.c - calling the algorithm: its spec, its next groups, reports and ends.
 *
 * Ids are known before anything is applied: the k-th new trial of a call gets the next id but
 * k, so a sink can answer with it and the applied op will agree.
 */
#include <string.h>

#include "base/assert.h"
#include "policy/call_private.h"

_Static_assert(ESPL_JUDGE_TRIALS_MAX == ESPL__TRIALS_MAX, "one limit of trials");

struct search_call {
	struct espl_search_sink sink;
	struct espl__call call;
	uint64_t groups; /* the next id, counting what this call began */
	uint64_t groups_before;
};

/* ---- what the judge asks ------------------------------------------------------------------- */

static const struct espl_trial *
find_trial(void *ctx, uint64_t id, uint32_t *marks)
{
	const struct search_call *s = ctx;
	const struct espl__trial *t = espl__trial_at(s->call.caller->trials, id);

	*marks = 0;
	if (t == NULL)
		return NULL;
	*marks |= t->dropped ? ESPL_JUDGE_DROPPED : 0;
	*marks |= t->stamp == s->call.caller->stamp ? ESPL_JUDGE_CONTINUED : 0;
	*marks |= t->can_save ? ESPL_JUDGE_CAN_SAVE : 0;
	return &t->pub;
}

static int
takes_trials(void *ctx, uint64_t id)
{
	const struct search_call *s = ctx;
	const struct espl__trial_group *g;

	if (id >= s->groups_before)
		return id < s->groups && !s->call.caller->closed[id - s->groups_before];
	g = espl__group_at(s->call.caller->trials, id);
	return g != NULL && (g->flags & ESPL_GROUP_OPEN) != 0 && g->stamp != s->call.caller->stamp;
}

/* ---- the sink ------------------------------------------------------------------------------ */

static espl_status
sink_begin(struct espl_search_sink *sink, const struct espl_group *group, uint64_t *id)
{
	struct search_call *s = (struct search_call *)sink;
	struct espl__caller *c = s->call.caller;
	const struct espl__op op = { .type = ESPL__OP_BEGIN, .as.group = *group };
	espl_status status =
	    espl__call_take(&s->call, espl_judge_begin(&s->call.judge, group), &op);
	uint64_t begun = s->groups - s->groups_before;

	if (status != ESPL_OK)
		return status;
	ESPL__GROW(c->closed, c->closed_cap, begun + 1);
	c->closed[begun] = 0;
	if (id != NULL)
		*id = s->groups;
	s->groups++;
	return ESPL_OK;
}

static espl_status
sink_add(struct espl_search_sink *sink, uint64_t group, const struct espl_start *start,
    uint64_t *id)
{
	struct search_call *s = (struct search_call *)sink;
	struct espl__op op = { .type = ESPL__OP_ADD, .as.add = { group, *start } };
	const char *why = espl_judge_add(&s->call.judge, group, start);

	if (why != NULL)
		return espl__call_refuse(&s->call, why);
	if (start->how == ESPL_CONTINUE)
		op.as.add.start.values = NULL;
	if (start->how == ESPL_FRESH)
		op.as.add.start.trial = ESPL_NONE;
	espl__call_record(&s->call, &op);
	if (id != NULL)
		*id = start->how == ESPL_CONTINUE ? start->trial : s->call.judge.trials;
	if (start->how == ESPL_CONTINUE)
		espl__trial_at(s->call.caller->trials, start->trial)->stamp = s->call.caller->stamp;
	else
		s->call.judge.trials++;
	return ESPL_OK;
}

static espl_status
sink_close(struct espl_search_sink *sink, uint64_t group)
{
	struct search_call *s = (struct search_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_CLOSE, .as.id = group };
	espl_status status =
	    espl__call_take(&s->call, espl_judge_close(&s->call.judge, group), &op);

	if (status == ESPL_OK && group >= s->groups_before)
		s->call.caller->closed[group - s->groups_before] = 1;
	else if (status == ESPL_OK)
		espl__group_at(s->call.caller->trials, group)->stamp = s->call.caller->stamp;
	return status;
}

static espl_status
sink_finish(struct espl_search_sink *sink)
{
	struct search_call *s = (struct search_call *)sink;
	const struct espl__op op = { .type = ESPL__OP_FINISH };
	espl_status status = espl__call_take(&s->call, espl_judge_finish(&s->call.judge), &op);

	if (status == ESPL_OK)
		s->call.judge.finished = 1;
	return status;
}

static espl_status
sink_verdict(struct espl_search_sink *sink, uint64_t trial, espl_verdict verdict)
{
	struct espl__call *call = &((struct search_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_VERDICT, .as.verdict = { trial, verdict } };

	return espl__call_take(call, espl_judge_verdict(&call->judge, trial, verdict), &op);
}

static espl_status
sink_drop(struct espl_search_sink *sink, uint64_t trial)
{
	struct espl__call *call = &((struct search_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_DROP, .as.id = trial };

	return espl__call_take(call, espl_judge_drop(&call->judge, trial), &op);
}

static espl_status
sink_hint(struct espl_search_sink *sink, uint64_t trial, double weight, uint32_t gpus_min,
    uint32_t gpus_max)
{
	struct espl__call *call = &((struct search_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_HINT,
		.as.hint = { trial, weight, gpus_min, gpus_max } };

	return espl__call_take(call,
	    espl_judge_hint(&call->judge, trial, weight, gpus_min, gpus_max), &op);
}

static espl_status
sink_wake(struct espl_search_sink *sink, espl_time at)
{
	struct espl__call *call = &((struct search_call *)sink)->call;
	const struct espl__op op = { .type = ESPL__OP_WAKE, .as.at = at };

	return espl__call_take(call, espl_judge_wake(&call->judge, at), &op);
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
	ESPL__GROW(c->scratch, c->scratch_cap, c->params + 1);
	s->call.judge.ctx = s;
	s->call.judge.trial = find_trial;
	s->call.judge.takes = takes_trials;
	s->call.judge.space = c->space;
	s->call.judge.scratch = c->scratch;
	s->call.judge.trials = c->trials->trials.count;
	s->call.judge.no_saves = c->no_saves;
}

espl_status
espl__call_next_group(struct espl__caller *c, struct espl__instance *i,
    const struct espl_search_view *view, struct espl__diag *diag)
{
	const struct espl_algorithm_ops *ops = (const struct espl_algorithm_ops *)i->ops;
	struct search_call s;

	begin_call(&s, c, i, "next_group");
	s.call.judge.asking = 1;
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
	const char *why = espl_judge_spec(&s->call.judge, spec);

	if (why != NULL)
		return espl__call_refuse(&s->call, why);
	s->call.judge.declared = 1;
	brackets = espl__arena_alloc(s->arena, spec->bracket_count * sizeof *brackets);
	for (uint32_t b = 0; b < spec->bracket_count; b++) {
		struct espl_bracket *copy = espl__arena_alloc(s->arena, sizeof *copy);
		const struct espl_stage **stages;

		*copy = *spec->brackets[b];
		stages = espl__arena_alloc(s->arena, copy->stage_count * sizeof *stages);
		for (uint32_t k = 0; k < copy->stage_count; k++) {
			struct espl_stage *stage = espl__arena_alloc(s->arena, sizeof *stage);
			*stage = *spec->brackets[b]->stages[k];
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
