/* record_sink.c - algorithms under test: a sink that asks the judge and writes down, and what
 * becomes of an answer when the entry has returned.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit.h"

struct search_sink {
	struct espl_search_sink pub;
	struct espl_kit *kit;
};
struct spec_sink {
	struct espl_spec_sink pub;
	struct espl_kit *kit;
};

static struct espl_kit *
kit_of(struct espl_search_sink *sink)
{
	return ((struct search_sink *)(void *)sink)->kit;
}

static struct kit_trial *
trial_at(const struct espl_kit *kit, uint64_t id)
{
	return id < kit->trial_count ? kit->trials[id] : NULL;
}

static int
is_training(const struct kit_trial *trial)
{
	return trial->pub.state == ESPL_TRIAL_WAITING || trial->pub.state == ESPL_TRIAL_RUNNING;
}

/* More than is tried here: nothing is wrong with it. */
static const char *
is_full(struct espl_kit *kit)
{
	kit->full = 1;
	return espl__kit_why(kit, KIT_QUIET, "the kit takes no more");
}

/* ---- what the judge asks ----------------------------------------------------------------- */

static const struct espl_trial *
known_trial(void *ctx, uint64_t id, uint32_t *marks)
{
	const struct espl_kit *kit = ctx;
	const struct kit_trial *trial = trial_at(kit, id);

	*marks = 0;
	if (trial == NULL)
		return NULL;
	*marks |= trial->dropped ? ESPL_JUDGE_DROPPED : 0;
	*marks |= trial->continued == kit->stamp ? ESPL_JUDGE_CONTINUED : 0;
	*marks |= trial->reported == kit->round ? ESPL_JUDGE_CAN_SAVE : 0;
	return &trial->pub;
}

static int
takes_trials(void *ctx, uint64_t id)
{
	const struct espl_kit *kit = ctx;

	return id < kit->groups_new && kit->groups[id].closed != kit->stamp &&
	    (id >= kit->group_count || (kit->groups[id].flags & ESPL_GROUP_OPEN) != 0);
}

static void
know_search(struct espl_kit *kit, int asking)
{
	struct espl_judge *judge = espl__kit_judge(kit);

	judge->trial = known_trial;
	judge->takes = takes_trials;
	judge->space = &kit->space;
	if (kit->scratch == NULL)
		kit->scratch = espl__kit_alloc(kit, (kit->space.param_count + 1) * sizeof(double));
	judge->scratch = kit->scratch;
	judge->trials = kit->trial_count;
	judge->asking = asking;
	judge->finished = kit->finished;
	judge->no_saves = (kit->experiment.flags & ESPL_EXPERIMENT_NO_SAVE) != 0;
	kit->answer_count = 0;
	kit->trials_new = kit->trial_count;
	kit->groups_new = kit->group_count;
}

/* ---- the sink ---------------------------------------------------------------------------- */

static void
record(struct espl_kit *kit, const struct kit_answer *answer)
{
	if (kit->answer_count == kit->answer_room) {
		uint64_t room = kit->answer_room > 0 ? 2 * kit->answer_room : 16;
		struct kit_answer *list = realloc(kit->answers, (size_t)room * sizeof *list);

		if (list == NULL)
			espl__kit_stop("out of memory");
		kit->answers = list;
		kit->answer_room = room;
	}
	kit->answers[kit->answer_count++] = *answer;
}

static espl_status
sink_begin(struct espl_search_sink *sink, const struct espl_group *group, uint64_t *id)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "begin", group, sizeof *group);
	char where[48] = "";

	if (why == NULL)
		why = espl_judge_begin(&kit->judge, group);
	if (why == NULL && kit->groups_new >= kit->group_limit)
		why = is_full(kit);
	if (group->bracket != ESPL_ANY)
		(void)snprintf(where, sizeof where, " bracket=%u stage=%u", group->bracket,
		    group->stage);
	if (why == NULL) {
		kit->groups =
		    espl__kit_more(kit, kit->groups, kit->groups_new, sizeof *kit->groups);
		kit->groups[kit->groups_new] = (struct kit_group){ .flags = group->flags };
		if (id != NULL)
			*id = kit->groups_new;
		kit->groups_new++;
	}
	return espl__kit_told(kit, why, "begin group=%" PRIu64 "%s%s",
	    kit->groups_new - (why == NULL), where, group->flags & ESPL_GROUP_OPEN ? " open" : "");
}

static void
print_values(const struct espl_kit *kit, const double *values, char *text, size_t room)
{
	size_t used = 0;
	uint32_t i;

	text[0] = '\0';
	for (i = 0; values != NULL && i < kit->space.param_count && used + 40 < room; i++)
		if (!isnan(values[i]))
			used += (size_t)snprintf(text + used, room - used, " %.20s=%.6g",
			    kit->space.params[i]->name, values[i]);
}

/* Of the running call: it is there for others when the entry has returned. */
static struct kit_trial *
new_trial(struct espl_kit *kit, const struct espl_start *start)
{
	struct kit_trial *trial = espl__kit_alloc(kit, sizeof *trial);
	const struct kit_trial *source =
	    start->how == ESPL_CLONE ? trial_at(kit, start->trial) : NULL;
	size_t size = kit->space.param_count * sizeof(double);
	double *values = espl__kit_alloc(kit, size + sizeof *values);

	memcpy(values, start->values != NULL ? start->values : source->pub.values, size);
	trial->pub.size = (uint32_t)sizeof trial->pub;
	trial->pub.id = kit->trials_new;
	trial->pub.parent = source != NULL ? source->pub.id : ESPL_NONE;
	trial->pub.iteration = source != NULL
	    ? (start->checkpoint != 0 ? start->checkpoint : source->pub.checkpoint)
	    : 0;
	trial->pub.values = values;
	trial->pub.loss = NAN;
	kit->trials = espl__kit_more(kit, kit->trials, kit->trials_new, sizeof *kit->trials);
	kit->trials[kit->trials_new++] = trial;
	kit->judge.trials++;
	return trial;
}

static espl_status
sink_add(struct espl_search_sink *sink, uint64_t group, const struct espl_start *start,
    uint64_t *id)
{
	static const char *const hows[] = { "?", "fresh", "continue", "clone" };
	struct espl_kit *kit = kit_of(sink);
	struct kit_answer answer = { .act = KIT_ADD, .group = group, .start = *start };
	struct kit_trial *trial = NULL;
	char values[512], source[48] = "";
	const char *why;
	espl_status status;
	int unknown;

	answer.start.values = NULL; /* where they are does not matter */
	(void)espl__kit_heard(kit, "group", &group, sizeof group);
	if (start->values != NULL)
		(void)espl__kit_heard(kit, "values", start->values,
		    kit->space.param_count * sizeof *start->values);
	why = espl__kit_heard(kit, "add", &answer.start, sizeof answer.start);
	if (why == NULL)
		why = espl_judge_add(&kit->judge, group, start);
	unknown = why != NULL && !kit->refusing && kit->judge.status == ESPL_E_UNKNOWN;
	if (unknown)
		kit->weight = KIT_QUIET;
	if (why == NULL && start->how != ESPL_CONTINUE && kit->trials_new >= kit->trial_limit)
		why = is_full(kit);
	if (why == NULL) {
		trial = start->how == ESPL_CONTINUE ? trial_at(kit, start->trial)
						    : new_trial(kit, start);
		trial->continued = kit->stamp;
		answer.id = trial->pub.id;
		record(kit, &answer);
		if (id != NULL)
			*id = trial->pub.id;
	}
	if (start->how == ESPL_CLONE)
		(void)snprintf(source, sizeof source, " of=%" PRIu64, start->trial);
	print_values(kit, start->values, values, sizeof values);
	status = espl__kit_told(kit, why,
	    "add group=%" PRIu64 " trial=%" PRIu64 " %s%s budget=%" PRIu64 "%s", group,
	    trial != NULL ? trial->pub.id : start->trial,
	    hows[start->how <= ESPL_CLONE ? start->how : 0], source, start->budget, values);
	return unknown ? ESPL_E_UNKNOWN : status;
}

static espl_status
sink_close(struct espl_search_sink *sink, uint64_t group)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "close", &group, sizeof group);

	if (why == NULL)
		why = espl_judge_close(&kit->judge, group);
	if (why != NULL && kit->full && group >= kit->groups_new)
		why = is_full(kit);
	if (why == NULL) {
		kit->groups[group].closed = kit->stamp;
		record(kit, &(struct kit_answer){ .act = KIT_CLOSE, .group = group });
	}
	return espl__kit_told(kit, why, "close group=%" PRIu64, group);
}

static espl_status
sink_finish(struct espl_search_sink *sink)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "finish", "", 0);

	if (why == NULL)
		why = espl_judge_finish(&kit->judge);
	if (why == NULL) {
		kit->judge.finished = 1;
		record(kit, &(struct kit_answer){ .act = KIT_FINISH });
	}
	return espl__kit_told(kit, why, "finish");
}

static espl_status
sink_verdict(struct espl_search_sink *sink, uint64_t id, espl_verdict verdict)
{
	static const char *const names[] = { "?", "save", "pause", "stop" };
	struct espl_kit *kit = kit_of(sink);
	uint64_t bytes[2] = { id, verdict };
	const char *why = espl__kit_heard(kit, "verdict", bytes, sizeof bytes);

	if (why == NULL)
		why = espl_judge_verdict(&kit->judge, id, verdict);
	if (why == NULL)
		record(kit,
		    &(struct kit_answer){ .act = KIT_VERDICT, .id = id, .verdict = verdict });
	return espl__kit_told(kit, why, "verdict trial=%" PRIu64 " %s", id,
	    names[verdict <= ESPL_STOP ? verdict : 0]);
}

static espl_status
sink_drop(struct espl_search_sink *sink, uint64_t id)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "drop", &id, sizeof id);

	if (why == NULL)
		why = espl_judge_drop(&kit->judge, id);
	if (why == NULL)
		record(kit, &(struct kit_answer){ .act = KIT_DROP, .id = id });
	return espl__kit_told(kit, why, "drop trial=%" PRIu64, id);
}

static espl_status
sink_hint(struct espl_search_sink *sink, uint64_t id, double weight, uint32_t gpus_min,
    uint32_t gpus_max)
{
	struct espl_kit *kit = kit_of(sink);
	double bytes[4] = { (double)id, weight, gpus_min, gpus_max };
	const char *why = espl__kit_heard(kit, "hint", bytes, sizeof bytes);

	if (why == NULL)
		why = espl_judge_hint(&kit->judge, id, weight, gpus_min, gpus_max);
	return espl__kit_told(kit, why, "hint trial=%" PRIu64 " weight=%.6g gpus=%u..%u", id,
	    weight, gpus_min, gpus_max);
}

static espl_status
sink_wake(struct espl_search_sink *sink, espl_time at)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "wake_at", &at, sizeof at);

	if (why == NULL)
		why = espl_judge_wake(&kit->judge, at);
	if (why == NULL)
		record(kit, &(struct kit_answer){ .act = KIT_WAKE, .at = at });
	return espl__kit_told(kit, why, "wake_at %.9g s", (double)at / 1e9);
}

/* ---- what becomes of the answer ---------------------------------------------------------- */

static void
leave_group(struct espl_kit *kit, struct kit_trial *trial, espl_trial_state state)
{
	if (is_training(trial))
		kit->groups[trial->pub.group].left--;
	trial->pub.state = state;
}

static void
pass_verdict(struct espl_kit *kit, struct kit_trial *trial, espl_verdict verdict)
{
	if (verdict == ESPL_STOP && trial->pub.state < ESPL_TRIAL_ENDED) {
		leave_group(kit, trial, ESPL_TRIAL_ENDED);
		trial->untold = 1;
	} else if (is_training(trial)) {
		trial->pub.checkpoint = trial->pub.iteration;
		if (verdict == ESPL_SAVE)
			return;
		leave_group(kit, trial, ESPL_TRIAL_PAUSED);
		trial->untold = 1;
	}
}

static void
begin_trial(struct espl_kit *kit, const struct kit_answer *answer)
{
	struct kit_trial *trial = kit->trials[answer->id];

	trial->untold = 0;
	trial->pub.state = ESPL_TRIAL_WAITING;
	trial->pub.group = answer->group;
	trial->pub.tag = answer->start.tag;
	trial->pub.budget = answer->start.budget;
	kit->groups[answer->group].left++;
}

static void
take_one(struct espl_kit *kit, const struct kit_answer *answer)
{
	uint64_t i;

	switch (answer->act) {
	case KIT_ADD: begin_trial(kit, answer); break;
	case KIT_CLOSE: kit->groups[answer->group].flags &= ~ESPL_GROUP_OPEN; break;
	case KIT_FINISH:
		for (i = 0; i < kit->group_count; i++)
			kit->groups[i].flags &= ~ESPL_GROUP_OPEN;
		kit->finished = 1;
		break;
	case KIT_VERDICT: pass_verdict(kit, kit->trials[answer->id], answer->verdict); break;
	case KIT_DROP: kit->trials[answer->id]->dropped = 1; break;
	case KIT_WAKE:
		if (answer->at < kit->wake)
			kit->wake = answer->at;
		break;
	}
}

/* An entry has returned: its answer takes effect, or is discarded if the entry has failed. */
static espl_status
returned(struct espl_kit *kit, const void *view, espl_status status, const struct espl_error *error)
{
	uint64_t i;

	status = espl__kit_returned(kit, view, status, error);
	if (status != ESPL_OK) {
		kit->trials_new = kit->trial_count;
		kit->groups_new = kit->group_count;
		return status;
	}
	kit->trial_count = kit->trials_new;
	kit->group_count = kit->groups_new;
	for (i = 0; i < kit->answer_count; i++)
		take_one(kit, &kit->answers[i]);
	return status;
}

static void
sink_make(struct search_sink *sink, struct espl_kit *kit)
{
	memset(sink, 0, sizeof *sink);
	sink->pub.size = (uint32_t)sizeof sink->pub;
	sink->pub.begin = sink_begin;
	sink->pub.add = sink_add;
	sink->pub.close = sink_close;
	sink->pub.finish = sink_finish;
	sink->pub.verdict = sink_verdict;
	sink->pub.drop = sink_drop;
	sink->pub.hint = sink_hint;
	sink->pub.wake_at = sink_wake;
	sink->kit = kit;
}

static const struct espl_algorithm_ops *
open_algorithm(struct espl_kit *kit, struct espl_error *error)
{
	return (const void *)espl__kit_ops(kit, ESPL_ALGORITHM, error);
}

static espl_status
sink_spec(struct espl_spec_sink *sink, const struct espl_spec *spec)
{
	struct espl_kit *kit = ((struct spec_sink *)(void *)sink)->kit;
	const char *why =
	    espl__kit_heard(kit, "spec", &spec->bracket_count, sizeof spec->bracket_count);
	uint32_t b, s;

	if (why == NULL)
		why = espl_judge_spec(&kit->judge, spec);
	if (why != NULL)
		return espl__kit_told(kit, why, "spec");
	kit->judge.declared = 1;
	kit->brackets = spec->bracket_count;
	for (b = 0; b < spec->bracket_count; b++)
		for (s = 0; s < spec->brackets[b]->stage_count; s++)
			(void)espl__kit_told(kit, NULL,
			    "spec bracket=%u stage=%u trials=%u iterations=%" PRIu64, b, s,
			    spec->brackets[b]->stages[s]->trials,
			    spec->brackets[b]->stages[s]->iterations);
	return ESPL_OK;
}

espl_status
espl_kit_spec(struct espl_kit *kit)
{
	struct espl_error error;
	const struct espl_algorithm_ops *ops = open_algorithm(kit, &error);
	struct spec_sink sink = { { (uint32_t)sizeof sink.pub, 0, sink_spec }, kit };

	if (!ESPL_HAS(struct espl_algorithm_ops, ops, spec))
		return ESPL_OK;
	(void)espl__kit_judge(kit);
	espl__kit_call(kit, "spec", NULL);
	return espl__kit_returned(kit, NULL, ops->spec(kit->self, &sink.pub, &error), &error);
}

/* In a round the events of an instant come first, then the algorithm is asked.  A trial that has
 * reported waits for its reply until the round is over. */
static void
begin_round(struct espl_kit *kit)
{
	kit->round++;
	kit->round_at = kit->now;
	kit->round_over = 0;
}

static void
take_event(struct espl_kit *kit)
{
	if (kit->round_over || kit->now != kit->round_at)
		begin_round(kit);
}

espl_status
espl_kit_ask(struct espl_kit *kit, uint32_t why, uint64_t group, uint32_t want)
{
	struct espl_search_view view = ESPL_INIT(struct espl_search_view);
	struct search_sink sink;
	struct espl_error error;
	const struct espl_algorithm_ops *ops = open_algorithm(kit, &error);
	espl_status status;
	uint64_t i;

	sink_make(&sink, kit);
	view.why = why;
	view.now = kit->now;
	view.group = group;
	view.trials = kit->trial_count;
	view.want = want;
	for (i = 0; i < kit->trial_count; i++) {
		view.running += kit->trials[i]->pub.state == ESPL_TRIAL_RUNNING;
		view.waiting += kit->trials[i]->pub.state == ESPL_TRIAL_WAITING;
	}
	view.gpus = view.running;
	view.gpus_max = kit->experiment.gpus_limit;
	if (kit->now != kit->round_at)
		begin_round(kit);
	know_search(kit, 1);
	espl__kit_call(kit, "next_group", &view);
	status = ops->next_group(kit->self, &view, &sink.pub, &error);
	kit->round_over = 1;
	return returned(kit, &view, status, &error);
}

static struct kit_trial *
training_trial(struct espl_kit *kit, uint64_t id)
{
	struct kit_trial *trial = trial_at(kit, id);

	if (trial == NULL || !is_training(trial))
		espl__kit_stop("the trial does not exist or is not running");
	return trial;
}

espl_status
espl_kit_report(struct espl_kit *kit, uint64_t id, uint64_t iteration, double loss)
{
	struct kit_trial *trial = training_trial(kit, id);
	struct kit_seen here = { ESPL_INIT(struct espl_observation), loss }, *seen = &here;
	struct search_sink sink;
	struct espl_error error;
	const struct espl_algorithm_ops *ops = open_algorithm(kit, &error);
	espl_status status;

	take_event(kit);
	trial->reported = kit->round;
	trial->pub.state = ESPL_TRIAL_RUNNING;
	trial->pub.iteration = iteration;
	trial->pub.loss = loss;
	here.pub.trial = id;
	here.pub.iteration = iteration;
	here.pub.loss = loss;
	here.pub.metric_count = 1;
	here.pub.values = trial->pub.values;
	here.pub.at = kit->now;
	here.pub.iteration_s = (double)kit->pace / 1e9;
	here.pub.share.gpus = here.pub.share.packing = 1;
	if (kit->keeps) {
		seen = espl__kit_alloc(kit, sizeof *seen);
		*seen = here;
		kit->seen = espl__kit_more(kit, kit->seen, kit->seen_count, sizeof *kit->seen);
		kit->seen[kit->seen_count++] = &seen->pub;
	}
	seen->pub.metrics = &seen->metric;
	if (!ESPL_HAS(struct espl_algorithm_ops, ops, on_report))
		return ESPL_OK;
	sink_make(&sink, kit);
	know_search(kit, 0);
	espl__kit_call(kit, "on_report", &seen->pub);
	status = ops->on_report(kit->self, &trial->pub, &seen->pub, &sink.pub, &error);
	return returned(kit, &seen->pub, status, &error);
}

/* A trial that a verdict has stopped or paused: only the algorithm does not know yet. */
static struct kit_trial *
stopped_trial(struct espl_kit *kit, uint64_t id, espl_end how)
{
	struct kit_trial *trial = trial_at(kit, id);

	return trial != NULL && trial->untold && !is_training(trial) &&
		how == (trial->pub.state == ESPL_TRIAL_ENDED ? ESPL_END_STOPPED : ESPL_END_PAUSED)
	    ? trial
	    : NULL;
}

espl_status
espl_kit_end(struct espl_kit *kit, uint64_t id, espl_end how, double loss)
{
	int told = stopped_trial(kit, id, how) != NULL;
	struct kit_trial *trial = told ? trial_at(kit, id) : training_trial(kit, id);
	struct search_sink sink;
	struct espl_error error;
	const struct espl_algorithm_ops *ops = open_algorithm(kit, &error);

	take_event(kit);
	trial->untold = 0;
	trial->pub.loss = loss;
	if (how == ESPL_END_BUDGET)
		trial->pub.iteration = trial->pub.budget;
	if (how != ESPL_END_FAILED && !told)
		trial->pub.checkpoint = trial->pub.iteration;
	leave_group(kit, trial,
	    how == ESPL_END_BUDGET || how == ESPL_END_PAUSED ? ESPL_TRIAL_PAUSED
		: how == ESPL_END_FAILED                     ? ESPL_TRIAL_FAILED
							     : ESPL_TRIAL_ENDED);
	if (!ESPL_HAS(struct espl_algorithm_ops, ops, on_trial_end))
		return ESPL_OK;
	sink_make(&sink, kit);
	know_search(kit, 0);
	espl__kit_call(kit, "on_trial_end", NULL);
	return returned(kit, NULL,
	    ops->on_trial_end(kit->self, &trial->pub, how, &sink.pub, &error), &error);
}

uint64_t
espl_kit_trials(const struct espl_kit *kit)
{
	return kit->trial_count;
}

const struct espl_trial *
espl_kit_trial(const struct espl_kit *kit, uint64_t id)
{
	return id < kit->trial_count ? &kit->trials[id]->pub : NULL;
}

uint32_t
espl_kit_group_left(const struct espl_kit *kit, uint64_t group, int *open)
{
	if (group >= kit->group_count)
		espl__kit_stop("there is no such group");
	if (open != NULL)
		*open = (kit->groups[group].flags & ESPL_GROUP_OPEN) != 0;
	return kit->groups[group].left;
}

int
espl_kit_finished(const struct espl_kit *kit)
{
	return kit->finished;
}

/* ---- history ----------------------------------------------------------------------------- */

static uint64_t
history_count(const struct espl_history *history)
{
	return ((const struct espl_kit *)history->ctx)->seen_count;
}

static const struct espl_observation *
history_at(const struct espl_history *history, uint64_t index)
{
	const struct espl_kit *kit = history->ctx;

	return index < kit->seen_count ? kit->seen[index] : NULL;
}

static const struct espl_trial *
history_trial(const struct espl_history *history, uint64_t trial)
{
	return espl_kit_trial(history->ctx, trial);
}

static uint32_t
history_curve(const struct espl_history *history, uint64_t trial, uint32_t metric,
    const struct espl_point **points)
{
	(void)history;
	(void)trial;
	(void)metric;
	*points = NULL;
	return 0;
}

static const double *
history_first(const struct espl_history *history, uint32_t index)
{
	const struct espl_kit *kit = history->ctx;

	return kit->first.at(&kit->first, index);
}

void
espl_kit_keep_history(struct espl_kit *kit)
{
	kit->keeps = 1;
	kit->history = (struct espl_history){ .size = (uint32_t)sizeof kit->history,
		.ctx = kit,
		.count = history_count,
		.at = history_at,
		.trial = history_trial,
		.curve = history_curve,
		.first = history_first };
}
