/* record_sink.c - algorithms under test: sinks that check and write down, trials that answer.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
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
trains(const struct kit_trial *trial)
{
	return trial->pub.state == ESPL_TRIAL_WAITING || trial->pub.state == ESPL_TRIAL_RUNNING;
}

static espl_status
sink_begin(struct espl_search_sink *sink, const struct espl_group *group, uint64_t *id)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = !kit->asking ? "begun outside next_group"
	    : kit->finished            ? "begun after finish"
				       : NULL;
	char where[48] = "";

	if (group->bracket != ESPL_ANY)
		(void)snprintf(where, sizeof where, " bracket=%u stage=%u", group->bracket,
		    group->stage);
	if (why == NULL) {
		kit->groups =
		    espl__kit_more(kit, kit->groups, kit->group_count, sizeof *kit->groups);
		kit->groups[kit->group_count].flags = group->flags;
		kit->groups[kit->group_count].left = kit->groups[kit->group_count].told = 0;
		if (id != NULL)
			*id = kit->group_count;
		kit->group_count++;
	}
	return espl__kit_told(kit, why, "begin group=%" PRIu64 "%s%s",
	    kit->group_count - (why == NULL), where, group->flags & ESPL_GROUP_OPEN ? " open" : "");
}

/* A configuration is good if the space would leave it as it is. */
static int
is_good(const struct espl_kit *kit, const double *values)
{
	double copy[256];
	uint32_t i, missing, count = kit->space.param_count;

	if (count > 256)
		espl__kit_stop("the kit's space holds 256 parameters at most");
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
start_wrong(struct espl_kit *kit, uint64_t group, const struct espl_start *start)
{
	const struct kit_trial *trial = trial_at(kit, start->trial);

	if (!kit->asking || kit->finished)
		return "added outside next_group or after finish";
	if (group >= kit->group_count)
		return "there is no such group";
	if (start->budget == 0)
		return "a budget of 0 iterations";
	if (start->how < ESPL_FRESH || start->how > ESPL_CLONE)
		return "neither fresh, nor continued, nor cloned";
	if (start->how == ESPL_FRESH && start->values == NULL)
		return "fresh without a configuration";
	if (start->how != ESPL_CONTINUE && start->values != NULL && !is_good(kit, start->values))
		return "a configuration outside the space";
	if (start->how == ESPL_FRESH)
		return NULL;
	if (trial == NULL)
		return "there is no such trial";
	if (start->how == ESPL_CONTINUE && trial->pub.state != ESPL_TRIAL_RESTING)
		return "continued, but not resting";
	if (start->how == ESPL_CONTINUE && trial->dropped)
		return "continued, but dropped";
	if (start->how == ESPL_CONTINUE && start->budget <= trial->pub.iteration)
		return "continued to a budget that it has reached";
	return NULL;
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
	const char *why = start_wrong(kit, group, start);
	char values[512], source[48] = "";
	struct kit_trial *trial = NULL;

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
	return espl__kit_told(kit, why,
	    "add group=%" PRIu64 " trial=%" PRIu64 " %s%s budget=%" PRIu64 "%s", group,
	    trial != NULL ? trial->pub.id : start->trial,
	    hows[start->how <= ESPL_CLONE ? start->how : 0], source, start->budget, values);
}

static espl_status
sink_close(struct espl_search_sink *sink, uint64_t group)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = !kit->asking ? "closed outside next_group"
	    : group >= kit->group_count || (kit->groups[group].flags & ESPL_GROUP_OPEN) == 0
	    ? "the group is not open"
	    : NULL;

	if (why == NULL)
		kit->groups[group].flags &= ~ESPL_GROUP_OPEN;
	return espl__kit_told(kit, why, "close group=%" PRIu64, group);
}

static espl_status
sink_finish(struct espl_search_sink *sink)
{
	struct espl_kit *kit = kit_of(sink);
	uint64_t i;

	if (!kit->asking)
		return espl__kit_told(kit, "outside next_group", "finish");
	for (i = 0; i < kit->group_count; i++)
		kit->groups[i].flags &= ~ESPL_GROUP_OPEN;
	kit->finished = 1;
	return espl__kit_told(kit, NULL, "finish");
}

static void
leave_group(struct espl_kit *kit, struct kit_trial *trial, espl_trial_state state)
{
	if (trains(trial))
		kit->groups[trial->pub.group].left--;
	trial->pub.state = state;
}

static espl_status
sink_verdict(struct espl_search_sink *sink, uint64_t id, espl_verdict verdict)
{
	static const char *const names[] = { "?", "save", "pause", "stop" };
	struct espl_kit *kit = kit_of(sink);
	struct kit_trial *trial = trial_at(kit, id);
	const char *why = verdict < ESPL_SAVE || verdict > ESPL_STOP ? "there is no such verdict"
	    : trial == NULL || !trains(trial)                        ? "the trial does not train"
								     : NULL;

	if (why == NULL && verdict == ESPL_SAVE)
		trial->pub.checkpoint = trial->pub.iteration;
	else if (why == NULL) {
		leave_group(kit, trial,
		    verdict == ESPL_STOP ? ESPL_TRIAL_ENDED : ESPL_TRIAL_RESTING);
		trial->untold = 1;
		trial->pub.checkpoint =
		    verdict == ESPL_PAUSE ? trial->pub.iteration : trial->pub.checkpoint;
	}
	return espl__kit_told(kit, why, "verdict trial=%" PRIu64 " %s", id,
	    names[verdict <= ESPL_STOP ? verdict : 0]);
}

static espl_status
sink_drop(struct espl_search_sink *sink, uint64_t id)
{
	struct espl_kit *kit = kit_of(sink);
	struct kit_trial *trial = trial_at(kit, id);
	const char *why = trial == NULL ? "there is no such trial"
	    : trains(trial)             ? "it still trains"
					: NULL;

	if (why == NULL)
		trial->dropped = 1;
	return espl__kit_told(kit, why, "drop trial=%" PRIu64, id);
}

static espl_status
sink_hint(struct espl_search_sink *sink, uint64_t id, double weight, uint32_t gpus_min,
    uint32_t gpus_max)
{
	struct espl_kit *kit = kit_of(sink);
	const char *why = trial_at(kit, id) == NULL                    ? "there is no such trial"
	    : !(weight >= 0) || (gpus_max != 0 && gpus_min > gpus_max) ? "impossible"
								       : NULL;

	return espl__kit_told(kit, why, "hint trial=%" PRIu64 " weight=%.6g gpus=%u..%u", id,
	    weight, gpus_min, gpus_max);
}

static espl_status
sink_wake(struct espl_search_sink *sink, espl_time at)
{
	return espl__kit_told(kit_of(sink), NULL, "wake_at %.9g s", (double)at / 1e9);
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
algorithm(struct espl_kit *kit, struct espl_error *error)
{
	if (kit->plugin == NULL || kit->plugin->kind != ESPL_ALGORITHM)
		espl__kit_stop("no algorithm is open");
	memset(error, 0, sizeof *error);
	error->size = (uint32_t)sizeof *error;
	error->option = error->row = ESPL_ANY;
	return (const struct espl_algorithm_ops *)(const void *)kit->plugin->ops;
}

static espl_status
returned(struct espl_kit *kit, espl_status status, const struct espl_error *error)
{
	if (status != ESPL_OK)
		espl__kit_say(kit, "!! status %d: %s", status, error->text);
	return status;
}

static espl_status
sink_spec(struct espl_spec_sink *sink, const struct espl_spec *spec)
{
	struct espl_kit *kit = ((struct spec_sink *)(void *)sink)->kit;
	uint32_t b, s;

	if (spec->bracket_count == 0)
		return espl__kit_told(kit, "no brackets", "spec");
	for (b = 0; b < spec->bracket_count; b++)
		for (s = 0; s < spec->brackets[b]->stage_count; s++) {
			const struct espl_stage *stage = spec->brackets[b]->stages[s];

			(void)espl__kit_told(kit,
			    stage->trials == 0 || stage->iterations == 0 ? "an empty stage" : NULL,
			    "spec bracket=%u stage=%u trials=%u iterations=%" PRIu64, b, s,
			    stage->trials, stage->iterations);
		}
	return ESPL_OK;
}

espl_status
espl_kit_spec(struct espl_kit *kit)
{
	struct espl_error error;
	const struct espl_algorithm_ops *ops = algorithm(kit, &error);
	struct spec_sink sink = { { (uint32_t)sizeof sink.pub, 0, sink_spec }, kit };

	if (!ESPL_HAS(struct espl_algorithm_ops, ops, spec))
		return ESPL_OK;
	return returned(kit, ops->spec(kit->self, &sink.pub, &error), &error);
}

espl_status
espl_kit_ask(struct espl_kit *kit, uint32_t why, uint64_t group, uint32_t want)
{
	struct espl_search_view view = ESPL_INIT(struct espl_search_view);
	struct search_sink sink;
	struct espl_error error;
	const struct espl_algorithm_ops *ops = algorithm(kit, &error);
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
	status = ops->next_group(kit->self, &view, &sink.pub, &error);
	kit->asking = 0;
	return returned(kit, status, &error);
}

static struct kit_trial *
training(struct espl_kit *kit, uint64_t id)
{
	struct kit_trial *trial = trial_at(kit, id);

	if (trial == NULL || !trains(trial))
		espl__kit_stop("the trial does not exist, or does not train");
	return trial;
}

espl_status
espl_kit_report(struct espl_kit *kit, uint64_t id, uint64_t iteration, double loss)
{
	struct kit_trial *trial = training(kit, id);
	struct espl_observation seen = ESPL_INIT(struct espl_observation);
	struct search_sink sink;
	struct espl_error error;
	const struct espl_algorithm_ops *ops = algorithm(kit, &error);

	trial->pub.state = ESPL_TRIAL_RUNNING;
	trial->pub.iteration = iteration;
	trial->pub.loss = loss;
	if (!ESPL_HAS(struct espl_algorithm_ops, ops, on_report))
		return ESPL_OK;
	seen.trial = id;
	seen.iteration = iteration;
	seen.loss = loss;
	seen.metrics = &loss;
	seen.metric_count = 1;
	seen.values = trial->pub.values;
	seen.at = kit->now;
	seen.iteration_s = 1.0;
	seen.share.gpus = seen.share.packing = 1;
	sink_make(&sink, kit);
	return returned(kit, ops->on_report(kit->self, &trial->pub, &seen, &sink.pub, &error),
	    &error);
}

/* A trial that a verdict has stopped or paused: only the algorithm does not know yet. */
static struct kit_trial *
stopped(struct espl_kit *kit, uint64_t id, espl_end how)
{
	struct kit_trial *trial = trial_at(kit, id);

	return trial != NULL && trial->untold && !trains(trial) &&
		how == (trial->pub.state == ESPL_TRIAL_ENDED ? ESPL_END_STOPPED : ESPL_END_PAUSED)
	    ? trial
	    : NULL;
}

espl_status
espl_kit_end(struct espl_kit *kit, uint64_t id, espl_end how, double loss)
{
	int told = stopped(kit, id, how) != NULL;
	struct kit_trial *trial = told ? trial_at(kit, id) : training(kit, id);
	struct search_sink sink;
	struct espl_error error;
	const struct espl_algorithm_ops *ops = algorithm(kit, &error);

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
	return returned(kit, ops->on_trial_end(kit->self, &trial->pub, how, &sink.pub, &error),
	    &error);
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
