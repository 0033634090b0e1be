/* record_sink.c - algorithms under test: sinks that check and write down, trials that answer.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <espalier/kit/rules.h>
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

static int
has_ended(const struct kit_trial *trial)
{
	return trial->pub.state == ESPL_TRIAL_ENDED || trial->pub.state == ESPL_TRIAL_FAILED;
}

/* More than is tried here: nothing is wrong with it. */
static const char *
is_full(struct espl_kit *kit)
{
	kit->full = 1;
	return espl__kit_why(kit, KIT_QUIET, "the kit takes no more");
}

static espl_status
sink_begin(struct espl_search_sink *sink, const struct espl_group *group, uint64_t *id)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why =
	    espl__kit_handed(kit, "begin", group, sizeof *group, sizeof *group, group->zero);
	char where[48] = "";

	if (why == NULL && (!kit->asking || kit->finished))
		why = espl__kit_why(kit, KIT_REFUSED, "a group is started %s",
		    kit->finished ? "after finish" : "outside next_group");
	if (why == NULL && kit->group_count >= kit->group_limit)
		why = is_full(kit);
	if (group->bracket != ESPL_ANY)
		(void)snprintf(where, sizeof where, " bracket=%u stage=%u", group->bracket,
		    group->stage);
	if (why == NULL) {
		kit->groups =
		    espl__kit_more(kit, kit->groups, kit->group_count, sizeof *kit->groups);
		kit->groups[kit->group_count] = (struct kit_group){ group->flags, 0, 0, 1 };
		if (id != NULL)
			*id = kit->group_count;
		kit->group_count++;
	}
	return espl__kit_told(kit, why, "begin group=%" PRIu64 "%s%s",
	    kit->group_count - (why == NULL), where, group->flags & ESPL_GROUP_OPEN ? " open" : "");
}

static int
group_takes(const struct espl_kit *kit, uint64_t id)
{
	return id < kit->group_count &&
	    (kit->groups[id].fresh || (kit->groups[id].flags & ESPL_GROUP_OPEN) != 0);
}

/* A configuration is good if the space would leave it as it is. */
static int
is_good(const struct espl_kit *kit, const double *values)
{
	double copy[256];
	uint32_t i, missing, count = kit->space.param_count;

	if (count > 256)
		espl__kit_stop("the kit supports at most 256 parameters");
	for (i = 0; i < count; i++)
		copy[i] = values[i];
	if (kit->space.snap(&kit->space, copy, &missing) != ESPL_OK)
		return 0;
	for (i = 0; i < count; i++)
		if (isnan(copy[i]) ? !isnan(values[i])
				   : !(fabs(copy[i] - values[i]) <= 1e-9 * fabs(copy[i])))
			return 0;
	return 1;
}

static const char *
continue_wrong(struct espl_kit *kit, const struct espl_start *start)
{
	const struct kit_trial *trial = trial_at(kit, start->trial);

	if (trial == NULL || trial->pub.state != ESPL_TRIAL_RESTING || trial->dropped)
		return espl__kit_why(kit, KIT_REFUSED, "trial %" PRIu64 " is continued, which %s",
		    start->trial,
		    trial == NULL        ? "does not exist"
			: trial->dropped ? "was dropped"
					 : "is not paused");
	if (start->budget <= trial->pub.iteration)
		return espl__kit_why(kit, KIT_REFUSED,
		    "trial %" PRIu64 " is continued to a budget of %" PRIu64
		    " iterations, which it has reached",
		    start->trial, start->budget);
	return NULL;
}

static const char *
start_wrong(struct espl_kit *kit, uint64_t group, const struct espl_start *start)
{
	const struct kit_trial *source = trial_at(kit, start->trial);

	if (!kit->asking || kit->finished)
		return espl__kit_why(kit, KIT_REFUSED, "a trial is added %s",
		    kit->finished ? "after finish" : "outside next_group");
	if (!group_takes(kit, group))
		return espl__kit_why(kit, KIT_REFUSED,
		    "to group %" PRIu64 ", which is closed or does not exist", group);
	if (start->how < ESPL_FRESH || start->how > ESPL_CLONE)
		return espl__kit_why(kit, KIT_REFUSED,
		    "a start (how %u) that is not fresh, continued or cloned", start->how);
	if (start->budget == 0)
		return espl__kit_why(kit, KIT_REFUSED,
		    "a budget of 0 iterations, in group %" PRIu64, group);
	if (start->how == ESPL_CONTINUE)
		return continue_wrong(kit, start);
	if (start->how == ESPL_CLONE && source == NULL)
		return espl__kit_why(kit, KIT_REFUSED,
		    "trial %" PRIu64 " is cloned, which does not exist", start->trial);
	if (start->values != NULL ? !is_good(kit, start->values) : start->how == ESPL_FRESH)
		return espl__kit_why(kit, KIT_GRAVE, "the configuration is outside of the space");
	return kit->trial_count >= kit->trial_limit ? is_full(kit) : NULL;
}

/* A clone of a checkpoint that is neither kept nor where its source stands: as the host, the kit
 * says that it is unknown, which is no mistake. */
static int
has_checkpoint(const struct espl_kit *kit, const struct espl_start *start)
{
	const struct espl_trial *source = &kit->trials[start->trial]->pub;

	return start->checkpoint == 0 || start->checkpoint == source->checkpoint ||
	    start->checkpoint == source->iteration;
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
	trial->pub.id = kit->trial_count;
	trial->pub.parent = source != NULL ? source->pub.id : ESPL_NONE;
	trial->pub.iteration = source != NULL
	    ? (start->checkpoint != 0 ? start->checkpoint : source->pub.checkpoint)
	    : 0;
	trial->pub.values = values;
	trial->pub.loss = NAN;
	kit->trials = espl__kit_more(kit, kit->trials, kit->trial_count, sizeof *kit->trials);
	kit->trials[kit->trial_count++] = trial;
	return trial;
}

static espl_status
sink_add(struct espl_search_sink *sink, uint64_t group, const struct espl_start *start,
    uint64_t *id)
{
	static const char *const hows[] = { "?", "fresh", "continue", "clone" };
	struct espl_kit *kit = kit_of(sink);
	struct espl_start args = *start;
	struct kit_trial *trial = NULL;
	char values[512], source[48] = "";
	const char *why;
	espl_status status;
	int unknown;

	args.values = NULL; /* where they are does not matter */
	(void)espl__kit_heard(kit, "group", &group, sizeof group);
	if (start->values != NULL)
		(void)espl__kit_heard(kit, "values", start->values,
		    kit->space.param_count * sizeof *start->values);
	why = espl__kit_handed(kit, "add", &args, sizeof args, sizeof args, 0);
	if (why == NULL)
		why = start_wrong(kit, group, start);
	unknown = why == NULL && start->how == ESPL_CLONE && !has_checkpoint(kit, start);
	if (unknown)
		why = espl__kit_why(kit, KIT_QUIET, "there is no such checkpoint");
	if (why == NULL) {
		trial = start->how == ESPL_CONTINUE ? trial_at(kit, start->trial)
						    : new_trial(kit, start);
		trial->untold = 0;
		trial->pub.state = ESPL_TRIAL_WAITING;
		trial->pub.group = group;
		trial->pub.tag = start->tag;
		trial->pub.budget = start->budget;
		kit->groups[group].left++;
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

	if (why == NULL && (!kit->asking || !group_takes(kit, group)))
		why = kit->full && group >= kit->group_count
		    ? is_full(kit)
		    : espl__kit_why(kit, KIT_REFUSED, "group %" PRIu64 " is not open", group);
	if (why == NULL)
		kit->groups[group].flags &= ~ESPL_GROUP_OPEN;
	return espl__kit_told(kit, why, "close group=%" PRIu64, group);
}

static espl_status
sink_finish(struct espl_search_sink *sink)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "finish", "", 0);
	uint64_t i;

	if (why == NULL && !kit->asking)
		why = "it is called outside next_group";
	if (why == NULL) {
		for (i = 0; i < kit->group_count; i++)
			kit->groups[i].flags &= ~ESPL_GROUP_OPEN;
		kit->finished = 1;
	}
	return espl__kit_told(kit, why, "finish");
}

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
	if (verdict == ESPL_STOP) {
		leave_group(kit, trial, ESPL_TRIAL_ENDED);
		trial->untold = 1;
	} else if (is_training(trial)) {
		trial->pub.checkpoint = trial->pub.iteration;
		if (verdict == ESPL_SAVE)
			return;
		leave_group(kit, trial, ESPL_TRIAL_RESTING);
		trial->untold = 1;
	}
}

static espl_status
sink_verdict(struct espl_search_sink *sink, uint64_t id, espl_verdict verdict)
{
	static const char *const names[] = { "?", "save", "pause", "stop" };
	struct espl_kit *kit = kit_of(sink);
	struct kit_trial *trial = trial_at(kit, id);
	uint64_t bytes[2] = { id, verdict };
	const char *why = espl__kit_heard(kit, "verdict", bytes, sizeof bytes);

	if (why == NULL && (verdict < ESPL_SAVE || verdict > ESPL_STOP))
		why = espl__kit_why(kit, KIT_REFUSED,
		    "%u on trial %" PRIu64 ": there is none of this number", verdict, id);
	else if (why == NULL && (trial == NULL || has_ended(trial)))
		why = espl__kit_why(kit, KIT_REFUSED,
		    "on trial %" PRIu64 ", which has ended or does not exist", id);
	if (why == NULL)
		pass_verdict(kit, trial, verdict);
	return espl__kit_told(kit, why, "verdict trial=%" PRIu64 " %s", id,
	    names[verdict <= ESPL_STOP ? verdict : 0]);
}

static espl_status
sink_drop(struct espl_search_sink *sink, uint64_t id)
{
	struct espl_kit *kit = kit_of(sink);
	struct kit_trial *trial = trial_at(kit, id);
	const char *why = espl__kit_heard(kit, "drop", &id, sizeof id);

	if (why == NULL && trial == NULL)
		why = espl__kit_why(kit, KIT_REFUSED, "there is no trial %" PRIu64, id);
	else if (why == NULL && is_training(trial))
		why = espl__kit_why(kit, KIT_REFUSED,
		    "trial %" PRIu64 " is still running (stop it first)", id);
	if (why == NULL)
		trial->dropped = 1;
	return espl__kit_told(kit, why, "drop trial=%" PRIu64, id);
}

static espl_status
sink_hint(struct espl_search_sink *sink, uint64_t id, double weight, uint32_t gpus_min,
    uint32_t gpus_max)
{
	struct espl_kit *kit = kit_of(sink);
	double bytes[4] = { (double)id, weight, gpus_min, gpus_max };
	const char *why = espl__kit_heard(kit, "hint", bytes, sizeof bytes);

	if (why == NULL &&
	    (trial_at(kit, id) == NULL || !(weight >= 0) || isinf(weight) ||
		(gpus_max != 0 && gpus_min > gpus_max)))
		why = espl__kit_why(kit, KIT_REFUSED,
		    "trial %" PRIu64
		    ", weight %g, %u to %u GPUs: no such trial, or impossible numbers",
		    id, weight, gpus_min, gpus_max);
	return espl__kit_told(kit, why, "hint trial=%" PRIu64 " weight=%.6g gpus=%u..%u", id,
	    weight, gpus_min, gpus_max);
}

static espl_status
sink_wake(struct espl_search_sink *sink, espl_time at)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = espl__kit_heard(kit, "wake_at", &at, sizeof at);
	char text[200];

	if (why == NULL && espl_wake_wrong(at, kit->now, text, sizeof text) != NULL)
		why = espl__kit_why(kit, KIT_REFUSED, "%s", text);
	if (why == NULL && at < kit->wake)
		kit->wake = at;
	return espl__kit_told(kit, why, "wake_at %.9g s", (double)at / 1e9);
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

static const char *
spec_wrong(struct espl_kit *kit, const struct espl_spec *spec)
{
	uint32_t b, s;

	if (spec->bracket_count == 0)
		return espl__kit_why(kit, KIT_REFUSED, "it has no brackets");
	for (b = 0; b < spec->bracket_count; b++) {
		if (spec->brackets[b]->stage_count == 0)
			return espl__kit_why(kit, KIT_REFUSED, "bracket %u has no stages", b);
		for (s = 0; s < spec->brackets[b]->stage_count; s++)
			if (spec->brackets[b]->stages[s]->trials == 0 ||
			    spec->brackets[b]->stages[s]->iterations == 0)
				return espl__kit_why(kit, KIT_REFUSED,
				    "stage %u of bracket %u has no trials or no iterations", s, b);
	}
	return NULL;
}

static espl_status
sink_spec(struct espl_spec_sink *sink, const struct espl_spec *spec)
{
	struct espl_kit *kit = ((struct spec_sink *)(void *)sink)->kit;
	const char *why =
	    espl__kit_heard(kit, "spec", &spec->bracket_count, sizeof spec->bracket_count);
	uint32_t b, s;

	if (why == NULL)
		why = spec_wrong(kit, spec);
	if (why != NULL)
		return espl__kit_told(kit, why, "spec");
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
	espl__kit_call(kit, "spec", NULL);
	return espl__kit_returned(kit, NULL, ops->spec(kit->self, &sink.pub, &error), &error);
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
	kit->asking = 1;
	espl__kit_call(kit, "next_group", &view);
	status = ops->next_group(kit->self, &view, &sink.pub, &error);
	kit->asking = 0;
	for (i = kit->group_count; i > 0 && kit->groups[i - 1].fresh; i--)
		kit->groups[i - 1].fresh = 0;
	return espl__kit_returned(kit, &view, status, &error);
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

	trial->pub.state = ESPL_TRIAL_RUNNING;
	trial->pub.iteration = iteration;
	trial->pub.loss = loss;
	here.pub.trial = id;
	here.pub.iteration = iteration;
	here.pub.loss = loss;
	here.pub.metric_count = 1;
	here.pub.values = trial->pub.values;
	here.pub.at = kit->now;
	here.pub.iteration_s = (double)kit->round / 1e9;
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
	espl__kit_call(kit, "on_report", &seen->pub);
	status = ops->on_report(kit->self, &trial->pub, &seen->pub, &sink.pub, &error);
	return espl__kit_returned(kit, &seen->pub, status, &error);
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

	trial->untold = 0;
	trial->pub.loss = loss;
	if (how == ESPL_END_BUDGET)
		trial->pub.iteration = trial->pub.budget;
	if (how != ESPL_END_FAILED && !told)
		trial->pub.checkpoint = trial->pub.iteration;
	leave_group(kit, trial,
	    how == ESPL_END_BUDGET || how == ESPL_END_PAUSED ? ESPL_TRIAL_RESTING
		: how == ESPL_END_FAILED                     ? ESPL_TRIAL_FAILED
							     : ESPL_TRIAL_ENDED);
	if (!ESPL_HAS(struct espl_algorithm_ops, ops, on_trial_end))
		return ESPL_OK;
	sink_make(&sink, kit);
	espl__kit_call(kit, "on_trial_end", NULL);
	return espl__kit_returned(kit, NULL,
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
