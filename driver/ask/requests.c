/* requests.c - what a line of a client asks for, and what it is answered. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "ask/ask.h"
#include "base/assert.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/notes.h"
#include "base/text.h"
#include "config.h"
#include "model/trials.h"
#include "report/totals.h"

#define ASK_MOST 100000 /* trials of one request */

/* ---- answers ------------------------------------------------------------------------------ */

static void refuse_request(struct espl__ask_client *, const char *format, ...) ESPL_PRINTF(2, 3);

static void
refuse_request(struct espl__ask_client *client, const char *format, ...)
{
	va_list list;
	char text[400];

	va_start(list, format);
	(void)vsnprintf(text, sizeof text, format, list);
	va_end(list);
	espl__json_open(&client->output, NULL, '{');
	espl__json_text(&client->output, "error", text);
	espl__print(&client->output, "}\n");
}

/* A member of a request that is a whole number; `otherwise` where it is absent.  -1: refused. */
static int
read_count(struct espl__ask_client *client, const json_t *request, const char *name, int64_t least,
    int64_t most, int64_t *value)
{
	const json_t *member = json_object_get(request, name);

	if (member == NULL)
		return 0;
	if (!json_is_integer(member) || json_integer_value(member) < least ||
	    json_integer_value(member) > most) {
		refuse_request(client, "'%s' must be a whole number from %lld to %lld", name,
		    (long long)least, (long long)most);
		return -1;
	}
	*value = json_integer_value(member);
	return 1;
}

/* People's loops count from 0. */
static int
is_zero(const json_t *member)
{
	return json_is_integer(member) && json_integer_value(member) == 0;
}

static const char *
run_word(const struct espl__asking *ask)
{
	struct espl__exec_summary summary;

	espl__exec_summary(ask->world.exec, &summary);
	return summary.how != 0 ? espl__run_end_name(summary.how) : "waiting";
}

/* ---- ask ---------------------------------------------------------------------------------- */

/* The iteration up to which a client is to train.  With a resource that is the next one. */
static uint64_t
until_of(const struct espl__asking *ask, const struct espl__ask_trial *t)
{
	return ask->inputs->config->resource == NULL ? t->budget : t->iteration + 1;
}

/* By what it differs from other trials with its values. */
static void
put_seed(const struct espl__asking *ask, uint64_t trial, struct espl__buf *b)
{
	const struct espl__trial_info info = espl__exec_trial_info(ask->world.exec, trial);

	if (info.config != ESPL_NONE)
		espl__json_int(b, "configuration", (int64_t)info.config);
	espl__json_key(b, "seed");
	espl__print(b, "%" PRIu64, espl__trial_seed(ask->inputs->config->seed, info.seed_of));
	if (info.fold > 0)
		espl__json_int(b, "fold", info.fold);
}

static void
put_trial(const struct espl__asking *ask, const struct espl__ask_trial *t, struct espl__buf *b)
{
	espl__json_open(b, NULL, '{');
	espl__json_int(b, "trial", (int64_t)t->trial);
	espl__json_key(b, "params");
	espl__space_json(ask->inputs->space, t->values, b);
	espl__json_int(b, "iteration", (int64_t)t->iteration);
	espl__json_int(b, "until", (int64_t)until_of(ask, t));
	if (ask->inputs->config->seeds > 1 || ask->inputs->config->confirm > 0)
		put_seed(ask, t->trial, b);
	if (t->iteration > 0 && t->source != t->trial)
		espl__json_int(b, "source", (int64_t)t->source);
	espl__print(b, "}");
}

static void
answer_ask(struct espl__asking *ask, struct espl__ask_client *client, uint64_t count)
{
	struct espl__buf *b = &client->output;
	const struct espl__ask_trial *t;
	uint64_t given = 0;

	espl__json_open(b, NULL, '{');
	espl__json_open(b, "trials", '[');
	for (; given < count && (t = espl__ask_hand(ask, client)) != NULL; given++)
		put_trial(ask, t, b);
	espl__print(b, "]");
	espl__json_text(b, "status", given == count ? "running" : run_word(ask));
	espl__json_int(b, "open", (int64_t)ask->out);
	espl__print(b, "}\n");
	if (given < count)
		ask->dry = 1;
}

static void
hear_ask(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	int64_t count = 1;

	if (read_count(client, request, "n", 1, ASK_MOST, &count) < 0)
		return;
	if ((uint64_t)count <= ask->queue.count || ask->dry || ask->ended) {
		answer_ask(ask, client, (uint64_t)count);
		return;
	}
	espl__ask_event(ask, ESPL__EV_ASK)->as.count = (uint64_t)count - ask->queue.count;
	ask->request = (struct espl__ask_request){ .what = ESPL__ASK_TRIALS,
		.client = client,
		.count = (uint64_t)count };
	ask->urgent = 1;
}

/* ---- tell and fail ------------------------------------------------------------------------ */

/* Of a trial that was paused, the client will perhaps get more to train. */
static int
is_over(const char *word)
{
	return strcmp(word, "completed") == 0 || strcmp(word, "stopped early") == 0 ||
	    strcmp(word, "unfinished") == 0 || strcmp(word, "failed") == 0;
}

static void
answer_tell(struct espl__asking *ask, struct espl__ask_client *client, uint64_t trial,
    enum espl__directive directive, uint32_t dropped)
{
	const struct espl__ask_trial *t = espl__map_get(&ask->by_trial, trial + 1);
	const char *word = espl__exec_trial_info(ask->world.exec, trial).word;
	struct espl__buf *b = &client->output;
	int goes_on = t != NULL && t->holder == client;

	espl__json_open(b, NULL, '{');
	espl__json_int(b, "trial", (int64_t)trial);
	espl__json_text(b, "verdict", goes_on ? "continue" : is_over(word) ? "stop" : "pause");
	espl__json_text(b, "state", word);
	if (goes_on)
		espl__json_int(b, "until", (int64_t)until_of(ask, t));
	if (goes_on && directive == ESPL__CHECKPOINT)
		espl__json_bool(b, "save", 1);
	if (dropped > 0)
		espl__json_int(b, "dropped", dropped);
	espl__print(b, "}\n");
}

/* The search ended before this trial, by what other trials had found or by a limit: its client
 * could not know, and learns it from the answer. */
static int
was_left(const struct espl__asking *ask, uint64_t trial)
{
	const char *word = espl__exec_trial_info(ask->world.exec, trial).word;

	return ask->ended && word != NULL && strcmp(word, "unfinished") == 0;
}

/* The trial that a request names, if it is open. */
static struct espl__ask_trial *
find_trial(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	int64_t id = -1;
	struct espl__ask_trial *t;
	const struct espl_trial *known;

	if (read_count(client, request, "trial", 0, INT64_MAX, &id) < 0)
		return NULL;
	if (id < 0) {
		refuse_request(client, "'trial' is missing: the number that `ask` gave");
		return NULL;
	}
	t = espl__map_get(&ask->by_trial, (uint64_t)id + 1);
	if (t != NULL)
		return t;
	known = id < INT64_C(1) << ESPL__TRIAL_BITS
	    ? espl__exec_trial(ask->world.exec, (uint64_t)id)
	    : NULL;
	if (known == NULL)
		refuse_request(client, "no such trial: %lld", (long long)id);
	else if (json_is_true(json_object_get(request, "again")) || was_left(ask, (uint64_t)id))
		answer_tell(ask, client, (uint64_t)id, 0, 0);
	else
		refuse_request(client, "trial %lld is not open: it is %s, at iteration %llu",
		    (long long)id, espl__exec_trial_info(ask->world.exec, (uint64_t)id).word,
		    (unsigned long long)known->iteration);
	return NULL;
}

/* The value of the objective; -1: refused. */
static int
read_objective(const struct espl__asking *ask, struct espl__ask_client *client,
    const struct espl__ask_trial *t, const json_t *request, double *number)
{
	const struct espl__run_config *config = ask->inputs->config;
	const json_t *value = json_object_get(request, "value");
	char name[48];

	if (value == NULL)
		value = json_object_get(json_object_get(request, "metrics"), config->metric);
	if (value == NULL || espl__metric_number(value, number) != 0) {
		refuse_request(client,
		    "'value' must be a number, or null if the result is not a number");
		return -1;
	}
	if (espl__metric_is_too_good(*number, config->maximize)) {
		espl__log(ESPL_WARN, ESPL__METRIC_TOO_GOOD, espl__trial_name(t->trial, name),
		    *number < 0 ? "-inf" : "inf", config->metric);
		*number = NAN;
	}
	return 0;
}

/* Says so once in a run. */
static void
warn_of_dropped(struct espl__asking *ask, const struct espl__ask_trial *t,
    const struct espl__metrics_read *read)
{
	char name[48];

	if (ask->dropped_said || read->dropped == 0)
		return;
	ask->dropped_said = 1;
	espl__log(ESPL_WARN, ESPL__METRICS_DROPPED, espl__trial_name(t->trial, name),
	    espl__metrics_limit(read), read->first_dropped);
}

/* The numbers of a report, the objective first; names become known now. */
static const struct espl__metric *
accept_metrics(struct espl__asking *ask, double objective, const struct espl__metrics_read *read,
    uint32_t *count)
{
	struct espl__metric *list =
	    espl__arena_alloc(&ask->batch[ask->filling].arena, (read->count + 1) * sizeof *list);

	*count = 0;
	list[(*count)++] = (struct espl__metric){ .value = objective };
	for (uint32_t i = 0; i < read->count; i++) {
		const struct espl__metric_read *m = &read->list[i];

		if (strcmp(m->name, ask->inputs->config->metric) == 0)
			continue;
		if (m->number == ESPL_ANY)
			espl__ask_event(ask, ESPL__EV_METRIC)->as.metric =
			    espl__ask_text(ask, m->name);
		list[(*count)++] = (struct espl__metric){ .value = m->value,
			.metric = espl__names_add(&ask->metrics, m->name) };
	}
	return list;
}

/* The numbers of a report, the objective first; NULL: refused, and nothing has changed. */
static const struct espl__metric *
read_metrics(struct espl__asking *ask, struct espl__ask_client *client,
    const struct espl__ask_trial *t, const json_t *request, uint32_t *count, uint32_t *dropped)
{
	const json_t *others = json_object_get(request, "metrics");
	const struct espl__metric *list = NULL;
	struct espl__metrics_read read;
	double objective;

	if (others != NULL && !json_is_object(others)) {
		refuse_request(client, "'metrics' must be an object of numbers");
		return NULL;
	}
	if (espl__metrics_read(others, ask->inputs->config->metric, &ask->metrics, &read) != 0) {
		if (read.wrong == ESPL__METRICS_NO_NUMBER)
			refuse_request(client, "metric '%.100s' must be a number", read.wrong_name);
		else
			refuse_request(client, "a metric's name is 1 to %u bytes long, not %zu",
			    ESPL__METRIC_NAME, strlen(read.wrong_name));
	} else if (read_objective(ask, client, t, request, &objective) == 0) {
		list = accept_metrics(ask, objective, &read, count);
		warn_of_dropped(ask, t, &read);
		*dropped = read.dropped;
	}
	espl__metrics_free(&read);
	return list;
}

static void
report_trial(struct espl__asking *ask, struct espl__ask_client *client, struct espl__ask_trial *t,
    uint64_t iteration, const struct espl__metric *metrics, uint32_t count)
{
	struct espl__event *event;

	espl__ask_hold(ask, t, client); /* also of another client: the first result counts */
	event = espl__ask_event(ask, ESPL__EV_REPORT);
	event->as.report.gang = t->gang;
	event->as.report.iteration = iteration;
	event->as.report.metrics = metrics;
	event->as.report.count = count;
	if (ask->inputs->config->trial.checkpoint) { /* the client has its state */
		event = espl__ask_event(ask, ESPL__EV_SAVED);
		event->as.saved.gang = t->gang;
		event->as.saved.iteration = iteration;
	}
	t->iteration = iteration;
	ask->unsynced = 1;
	ask->dry = 0;
	ask->urgent = 1;
	ask->request = (struct espl__ask_request){ .what = ESPL__ASK_TELL,
		.client = client,
		.trial = t->trial };
}

static void
hear_tell(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	struct espl__ask_trial *t = find_trial(ask, client, request);
	const struct espl__metric *metrics;
	int64_t iteration = t != NULL ? (int64_t)until_of(ask, t) : 0;
	uint32_t count, dropped;

	if (t == NULL)
		return;
	if (is_zero(json_object_get(request, "iteration"))) {
		refuse_request(client,
		    "iterations are numbered 1, 2, 3, ...: 0 is not one (pass epoch + 1)");
		return;
	}
	if (read_count(client, request, "iteration", 1, ESPL__ITERATION_MOST, &iteration) < 0)
		return;
	if ((uint64_t)iteration <= t->iteration) {
		if (json_is_true(json_object_get(request, "again")))
			answer_tell(ask, client, t->trial,
			    (uint64_t)iteration == t->iteration &&
				    espl__exec_trial_info(ask->world.exec, t->trial).save_asked
				? ESPL__CHECKPOINT
				: 0,
			    0);
		else
			refuse_request(client,
			    "trial %llu already has a result at iteration %llu; the next is %llu",
			    (unsigned long long)t->trial, (unsigned long long)t->iteration,
			    (unsigned long long)t->iteration + 1);
		return;
	}
	if ((uint64_t)iteration > t->budget) {
		refuse_request(client, "trial %llu trains until iteration %llu, not %lld",
		    (unsigned long long)t->trial, (unsigned long long)t->budget,
		    (long long)iteration);
		return;
	}
	metrics = read_metrics(ask, client, t, request, &count, &dropped);
	if (metrics == NULL)
		return;
	report_trial(ask, client, t, (uint64_t)iteration, metrics, count);
	ask->request.dropped = dropped;
}

static void
hear_fail(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	struct espl__ask_trial *t = find_trial(ask, client, request);
	const json_t *text = json_object_get(request, "text");
	struct espl__event *event;

	if (t == NULL)
		return;
	if (text != NULL && !json_is_string(text)) {
		refuse_request(client, "'text' must be a string: why the trial failed");
		return;
	}
	espl__ask_hold(ask, t, client);
	event = espl__ask_event(ask, ESPL__EV_ENDED);
	event->as.ended.gang = t->gang;
	event->as.ended.how = ESPL__END_FAILED;
	event->as.ended.node = ESPL_NONE;
	event->as.ended.text =
	    espl__ask_text(ask, text != NULL ? json_string_value(text) : "the client says so");
	ask->request = (struct espl__ask_request){ .what = ESPL__ASK_FAIL,
		.client = client,
		.trial = t->trial };
	espl__ask_remove(ask, t);
	ask->unsynced = 1;
	ask->dry = 0;
	ask->urgent = 1;
}

/* ---- notes -------------------------------------------------------------------------------- */

/* Whether the trial may have a note of this name, beside the new ones of this request. */
static int
has_room(const struct espl__asking *ask, uint64_t trial, const char *key, uint32_t *fresh)
{
	const struct espl__trial_note *note = espl__exec_trial_notes(ask->world.exec, trial);
	uint32_t count = 0;

	for (; note != NULL && strcmp(note->key, key) != 0; note = note->next)
		count++;
	if (note == NULL && count + *fresh >= ESPL__NOTES_MOST)
		return 0;
	*fresh += note == NULL;
	return 1;
}

/* One text.  0, or 1: it is beyond a limit. */
static int
take_note(struct espl__asking *ask, uint64_t trial, const char *key, const char *text,
    uint32_t *fresh)
{
	const char *why = espl__note_misnamed(key);
	size_t length = espl__note_length(text);
	struct espl__event *event;
	char name[48], *copy;

	if (why == NULL && !has_room(ask, trial, key, fresh))
		why = espl__notes_full;
	if (why != NULL && !ask->notes_dropped)
		espl__log(ESPL_WARN, ESPL__NOTES_DROPPED, espl__trial_name(trial, name), why, key);
	else if (why == NULL && text[length] != '\0' && !ask->notes_cut)
		espl__log(ESPL_WARN, ESPL__NOTES_CUT, espl__trial_name(trial, name), key);
	ask->notes_dropped |= why != NULL;
	ask->notes_cut |= text[length] != '\0';
	if (why != NULL)
		return 1;
	copy = espl__arena_alloc(&ask->batch[ask->filling].arena, length + 1);
	memcpy(copy, text, length);
	event = espl__ask_event(ask, ESPL__EV_TRIAL_NOTE);
	event->as.trial_note.trial = trial;
	event->as.trial_note.key = espl__ask_text(ask, key);
	event->as.trial_note.text = copy;
	return text[length] != '\0';
}

/* Of any trial that was handed out, also of one that has ended. */
static void
hear_note(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	json_t *notes = json_object_get(request, "notes"), *note;
	int wrong = !json_is_object(notes);
	int64_t id = -1, dropped = 0;
	uint32_t fresh = 0;
	const char *key, *why = NULL;

	json_object_foreach (notes, key, note)
		wrong |= !json_is_string(note);
	if (read_count(client, request, "trial", 0, INT64_MAX, &id) < 0)
		return;
	if (wrong)
		why = "'notes' must be an object of names and texts";
	else if (id < 0 || id >= INT64_C(1) << ESPL__TRIAL_BITS ||
	    espl__exec_trial(ask->world.exec, (uint64_t)id) == NULL ||
	    espl__exec_trial_info(ask->world.exec, (uint64_t)id).unasked)
		why = "no such trial";
	else if (ask->ended)
		why = "the search has ended, so notes cannot be added here; write them before the "
		      "last result, or with `espalier trial note` when the study is closed";
	if (why != NULL) {
		refuse_request(client, "%s", why);
		return;
	}
	json_object_foreach (notes, key, note)
		dropped += take_note(ask, (uint64_t)id, key, json_string_value(note), &fresh);
	ask->unsynced = ask->urgent = 1;
	espl__json_open(&client->output, NULL, '{');
	espl__json_int(&client->output, "trial", id);
	if (dropped > 0)
		espl__json_int(&client->output, "dropped", dropped);
	espl__print(&client->output, "}\n");
}

void
espl__ask_answer(struct espl__asking *ask)
{
	struct espl__ask_request request = ask->request;

	ESPL__CHECK(ask, ASK);
	ask->request = (struct espl__ask_request){ .what = ESPL__ASK_NOTHING };
	if (request.client != NULL && request.what == ESPL__ASK_LOOK)
		request.look(ask, request.client, request.looked);
	json_decref(request.looked);
	if (request.client == NULL || request.what == ESPL__ASK_LOOK)
		return;
	if (request.what == ESPL__ASK_TRIALS)
		answer_ask(ask, request.client, request.count);
	else if (request.what != ESPL__ASK_NOTHING)
		answer_tell(ask, request.client, request.trial, request.directive, request.dropped);
}

/* ---- what is known ------------------------------------------------------------------------ */

static int
compare_items(const void *a, const void *b)
{
	const struct espl__ask_trial *const *p = a, *const *q = b;

	return ((*p)->item > (*q)->item) - ((*p)->item < (*q)->item);
}

/* A client that reconnects, or that has lost answers: it has these trials, as far as no other
 * client has them, and no others. */
static void
hear_hold(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	const json_t *list = json_object_get(request, "trials"), *member;
	struct espl__buf *b = &client->output;
	int64_t number = 0;
	int numbered = read_count(client, request, "number", 0, INT64_MAX, &number);
	int wrong = !json_is_array(list);
	struct espl__ask_trial **held;
	size_t i, count = 0;

	if (numbered < 0)
		return;
	json_array_foreach (list, i, member)
		wrong |= !json_is_integer(member) || json_integer_value(member) < 0;
	if (wrong) {
		refuse_request(client, "'trials' must be a list of numbers of trials");
		return;
	}
	espl__ask_return(ask, client);
	held = espl__alloc((json_array_size(list) + 1) * sizeof *held);
	espl__json_open(b, NULL, '{');
	espl__json_open(b, "held", '[');
	json_array_foreach (list, i, member) {
		json_int_t id = json_integer_value(member);
		struct espl__ask_trial *t = espl__map_get(&ask->by_trial, (uint64_t)id + 1);

		if (t == NULL || t->holder != NULL || t->claimed)
			continue;
		t->claimed = 1;
		held[count++] = t;
		espl__json_int(b, NULL, id);
	}
	espl__print(b, "]");
	/* In order, each goes to the end of the client's list: else a long list takes long. */
	if (count > 0)
		qsort(held, count, sizeof *held, compare_items);
	for (i = 0; i < count; i++) {
		held[i]->claimed = 0;
		espl__ask_hold(ask, held[i], client);
	}
	free(held);
	if (numbered)
		espl__json_int(b, "number", number);
	espl__print(b, "}\n");
}

static void
take_totals(const struct espl__asking *ask, struct espl__totals *totals)
{
	struct espl__exec_summary summary;
	struct espl__buf params = { NULL, 0, 0 };
	const struct espl_trial *best;

	espl__totals_init(totals, ask->inputs->config, 0);
	espl__exec_summary(ask->world.exec, &summary);
	espl__totals_take(totals, &summary);
	best = summary.best != ESPL_NONE ? espl__exec_trial(ask->world.exec, summary.best) : NULL;
	if (best == NULL)
		return;
	espl__space_json(ask->inputs->space, best->values, &params);
	espl__totals_set(&totals->best_params, espl__buf_text(&params));
	espl__buf_free(&params);
}

/* What a client needs to know of the run that it has opened. */
static void
hear_about(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	const struct espl__run_config *config = ask->inputs->config;
	struct espl__buf *b = &client->output;

	(void)request;
	espl__json_open(b, NULL, '{');
	espl__json_text(b, "dir", ask->dir);
	espl__json_text(b, "experiment", config->name);
	espl__json_text(b, "metric", config->metric);
	espl__json_text(b, "goal", config->maximize ? "maximize" : "minimize");
	espl__json_text(b, "algorithm", config->algorithm.use);
	espl__json_int(b, "seed", (int64_t)config->seed);
	espl__json_text(b, "version", PACKAGE_VERSION);
	espl__print(b, "}\n");
}

static void
hear_status(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	struct espl__totals totals;

	(void)request;
	take_totals(ask, &totals);
	espl__totals_json(&totals, "status", 1, &client->output);
	espl__print(&client->output, "\n");
	espl__totals_free(&totals);
}

static void
hear_best(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	struct espl__buf *b = &client->output;
	struct espl__totals totals;

	(void)request;
	take_totals(ask, &totals);
	espl__json_open(b, NULL, '{');
	if (totals.best < 0) {
		espl__json_text(b, "best", NULL);
	} else {
		espl__json_open(b, "best", '{');
		espl__json_int(b, "trial", totals.best);
		espl__json_real(b, "metric", totals.best_metric);
		espl__json_int(b, "iteration", totals.best_iteration);
		if (totals.seeds > 1)
			espl__json_real(b, "spread", totals.best_spread);
		espl__json_raw(b, "params", totals.best_params);
		espl__print(b, "}");
	}
	espl__print(b, "}\n");
	espl__totals_free(&totals);
}

static void
put_notes(const struct espl__asking *ask, uint64_t trial, struct espl__buf *b)
{
	const struct espl__trial_note *note = espl__exec_trial_notes(ask->world.exec, trial);

	if (note == NULL)
		return;
	espl__json_open(b, "notes", '{');
	for (; note != NULL; note = note->next)
		espl__json_text(b, note->key, note->text);
	espl__print(b, "}");
}

static void
hear_trials(struct espl__asking *ask, struct espl__ask_client *client, const json_t *request)
{
	const struct espl__run_config *config = ask->inputs->config;
	struct espl__buf *b = &client->output;
	const struct espl_trial *t;
	struct espl__trial_info info;
	int64_t from = 0, count = 1000;

	if (read_count(client, request, "from", 0, INT64_MAX, &from) < 0 ||
	    read_count(client, request, "n", 1, ASK_MOST, &count) < 0)
		return;
	espl__json_open(b, NULL, '{');
	espl__json_open(b, "trials", '[');
	for (int64_t id = from; count > 0 && id < INT64_C(1) << ESPL__TRIAL_BITS; id++) {
		t = espl__exec_trial(ask->world.exec, (uint64_t)id);
		if (t == NULL)
			break;
		info = espl__exec_trial_info(ask->world.exec, (uint64_t)id);
		if (info.unasked)
			continue;
		count--;
		espl__json_open(b, NULL, '{');
		espl__json_int(b, "trial", id);
		espl__json_text(b, "state", info.word);
		espl__json_int(b, "iteration", (int64_t)t->iteration);
		espl__json_real(b, "metric", config->maximize ? -info.loss : info.loss);
		espl__json_key(b, "params");
		espl__space_json(ask->inputs->space, t->values, b);
		put_notes(ask, (uint64_t)id, b);
		espl__print(b, "}");
	}
	espl__print(b, "]}\n");
}

/* ---- requests ----------------------------------------------------------------------------- */

static const struct verb {
	const char *name;
	const char *members[8]; /* but `op`; ended by NULL */
	espl__ask_hear *hear;
	int looks; /* at the trials as the last round left them */
} verbs[] = {
	{ "ask", { "n" }, hear_ask, 0 },
	{ "tell", { "trial", "value", "iteration", "metrics", "again" }, hear_tell, 0 },
	{ "fail", { "trial", "text", "again" }, hear_fail, 0 },
	{ "hold", { "trials", "number" }, hear_hold, 0 },
	{ "about", { NULL }, hear_about, 0 },
	{ "best", { NULL }, hear_best, 1 },
	{ "status", { NULL }, hear_status, 1 },
	{ "trials", { "from", "n" }, hear_trials, 1 },
	{ "note", { "trial", "notes" }, hear_note, 1 },
};
#define VERBS (sizeof verbs / sizeof verbs[0])

static const struct verb *
find_verb(struct espl__ask_client *client, const json_t *request)
{
	const char *op = json_string_value(json_object_get(request, "op")), *names[VERBS], *near;

	if (op == NULL) {
		refuse_request(client, "a request is an object with 'op', like {\"op\": \"ask\"}");
		return NULL;
	}
	for (size_t i = 0; i < VERBS; i++) {
		if (strcmp(verbs[i].name, op) == 0)
			return &verbs[i];
		names[i] = verbs[i].name;
	}
	near = espl__nearest(op, names, VERBS);
	refuse_request(client, "unknown request '%.50s'%s%s%s", op,
	    near != NULL ? "; did you mean '"
			 : "; use ask, tell, fail, note, best, status or trials",
	    near != NULL ? near : "", near != NULL ? "'?" : "");
	return NULL;
}

static int
knows_members(struct espl__ask_client *client, const struct verb *verb, const json_t *request)
{
	const char *name;
	json_t *member;

	json_object_foreach ((json_t *)(uintptr_t)request, name, member) {
		int known = strcmp(name, "op") == 0;

		for (uint32_t i = 0; !known && verb->members[i] != NULL; i++)
			known = strcmp(verb->members[i], name) == 0;
		if (known)
			continue;
		refuse_request(client, "'%s' knows no '%.50s'", verb->name, name);
		return 0;
	}
	return 1;
}

static void
hear_request(struct espl__asking *ask, struct espl__ask_client *client, const struct verb *verb,
    json_t *request)
{
	if (!verb->looks || ask->ended || ask->batch[ask->filling].count == 0) {
		verb->hear(ask, client, request);
		return;
	}
	ask->request = (struct espl__ask_request){ .what = ESPL__ASK_LOOK,
		.client = client,
		.look = verb->hear,
		.looked = json_incref(request) };
	ask->urgent = 1;
}

void
espl__ask_handle(struct espl__asking *ask, struct espl__ask_client *client, const char *line,
    size_t size)
{
	json_error_t error;
	json_t *request;
	const struct verb *verb;

	ESPL__CHECK(ask, ASK);
	if (line == NULL) {
		refuse_request(client,
		    "the request is longer than %zu bytes, the most that one line may have",
		    ESPL__REPORT_LINE);
		return;
	}
	if (strspn(line, " \t\r") == size) /* a line that is empty, not one that begins with NUL */
		return;
	request = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error);
	if (request == NULL) {
		refuse_request(client, "not valid JSON: %s", error.text);
		return;
	}
	verb = find_verb(client, request);
	if (verb != NULL && knows_members(client, verb, request))
		hear_request(ask, client, verb, request);
	json_decref(request);
}
