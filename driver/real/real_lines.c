/* real_lines.c - lines that rank 0 writes on its report descriptor: one JSON object a line.
 *
 * Reports reach the executor one at a time per gang; those that are repeated after a restart, or
 * contain nothing new, are answered here. Any other line that is not a report ends the gang.
 */
#include "base/assert.h"
#include "real/real.h"
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/notes.h"

#define HELD_MAX 1024u /* reports that did not wait for their answer */
#define HELD_BYTES (4 * ESPL__REPORT_LINE)

static void
refuse_garbage(struct espl__real *real, struct espl__rgang *gang, const char *reason,
    const char *text, size_t size)
{
	char shown[64];
	uint32_t i, count = 0;

	for (i = 0; i < size && count < 60; i++)
		shown[count++] = isprint((unsigned char)text[i]) ? text[i] : '?';
	shown[count] = '\0';
	espl__real_gang_break(real, gang, "rank 0: %s: %s", reason, shown);
}

struct report {
	uint64_t iteration;
	uint32_t count;
	struct espl__metric *metrics;
	int finished;
	char wrong[ESPL__METRIC_NAME + 64]; /* why it is none */
};

static int ESPL_PRINTF(2, 3) wrong(struct report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(report->wrong, sizeof report->wrong, format, args);
	va_end(args);
	for (char *c = report->wrong; *c != '\0'; c++)
		if (!isprint((unsigned char)*c))
			*c = '?';
	return -1;
}

/* Says so once in a run: trials report the same metrics again and again. */
static void
warn_of_dropped(struct espl__real *real, const struct espl__rgang *gang,
    const struct espl__metrics_read *read)
{
	char name[48];

	if (real->dropped_said || read->dropped == 0)
		return;
	real->dropped_said = 1;
	espl__log(ESPL_WARN, ESPL__METRICS_DROPPED, espl__trial_name(gang->trial, name),
	    espl__metrics_limit(read), read->first_dropped);
}

/* The value of the objective, where it cannot win without having been earned. */
static double
judge_objective(const struct espl__rgang *gang, double value)
{
	const struct espl__run_config *config = gang->kind->of->config;
	char name[48];

	if (!espl__metric_is_too_good(value, config->maximize))
		return value;
	espl__log(ESPL_WARN, ESPL__METRIC_TOO_GOOD, espl__trial_name(gang->trial, name),
	    value < 0 ? "-inf" : "inf", config->metric);
	return NAN;
}

/* The report is accepted: its names become known. */
static void
accept_metrics(struct espl__real *real, const struct espl__rgang *gang,
    const struct espl__metrics_read *read, struct report *report)
{
	const char *objective = gang->kind->of->config->metric;

	report->metrics =
	    espl__arena_alloc(espl__real_arena(real), (read->count + 1) * sizeof *report->metrics);
	for (uint32_t i = 0; i < read->count; i++) {
		const struct espl__metric_read *m = &read->list[i];

		if (m->number == ESPL_ANY)
			espl__real_event(real, ESPL__EV_METRIC)->as.metric =
			    espl__arena_strdup(espl__real_arena(real), m->name);
		report->metrics[report->count++] =
		    (struct espl__metric){ .metric = espl__names_add(&real->metrics, m->name),
			    .value = strcmp(m->name, objective) == 0
				? judge_objective(gang, m->value)
				: m->value };
	}
	warn_of_dropped(real, gang, read);
}

static int
read_metrics(struct espl__real *real, const struct espl__rgang *gang, const json_t *metrics,
    struct report *report)
{
	const char *objective = gang->kind->of->config->metric;
	struct espl__metrics_read read;
	int got = espl__metrics_read(metrics, objective[0] != '\0' ? objective : NULL,
	    &real->metrics, &read);

	if (got == 0)
		accept_metrics(real, gang, &read, report);
	else if (read.wrong == ESPL__METRICS_NO_NAME)
		(void)wrong(report, "its report has a metric without a name");
	else if (read.wrong == ESPL__METRICS_LONG_NAME)
		(void)wrong(report, "its report has a metric whose name is longer than %u bytes",
		    ESPL__METRIC_NAME);
	else
		(void)wrong(report, "the metric '%s' in its report is not a number",
		    read.wrong_name);
	espl__metrics_free(&read);
	return got;
}

/* Keeps the layout of a program's output that espalier-listen found, and passes it to trials that
 * start later. */
static void
learn_layout(const struct espl__rgang *gang, const json_t *array)
{
	struct espl__rkind *kind = gang->kind;
	const char *metrics = kind->of->config->trial.metrics;
	struct espl__listen_layout layout, known = kind->layout;
	struct espl__buf text = { NULL, 0, 0 };
	int64_t values[ESPL__LISTEN_LAYOUT_SIZE];

	if (metrics == NULL || !json_is_array(array) ||
	    json_array_size(array) != ESPL__LISTEN_LAYOUT_SIZE)
		return;
	for (size_t i = 0; i < ESPL__LISTEN_LAYOUT_SIZE; i++) {
		double value = json_number_value(json_array_get(array, i));

		values[i] = value >= -1 && value <= UINT32_MAX ? (int64_t)value : -2;
	}
	if (espl__listen_layout_read(values, &layout) != 0 ||
	    !espl__listen_layout_learn(&kind->layout, &layout))
		return;
	free(kind->metrics);
	kind->metrics = espl__listen_spec_known(metrics, &kind->layout);
	if (((known.each > 0 && known.first >= 0) || known.amounts) &&
	    known.trailing == kind->layout.trailing)
		return; /* it was said */
	if ((kind->layout.each > 0 && kind->layout.first >= 0) || kind->layout.amounts) {
		espl__listen_layout_say(&kind->layout, &text);
		espl__log(ESPL_INFO, "the output of trials is read so: %s", espl__buf_text(&text));
	}
	espl__buf_free(&text);
}

/* How many lines that look like metrics espalier-listen has not used in this attempt. */
static void
learn_unused(struct espl__real *real, struct espl__rgang *gang, const json_t *count)
{
	double given = json_number_value(count);
	uint64_t more;

	if (!(given > (double)gang->unused && given <= (double)ESPL__ITERATION_MOST))
		return;
	more = (uint64_t)given - gang->unused;
	gang->unused = (uint64_t)given;
	if (real->unused == 0)
		real->unused_trial = gang->trial;
	if (real->unused_trial == gang->trial)
		real->unused += more;
	else
		real->unused_others += more;
}

void
espl__real_lines_report(const struct espl__real *real)
{
	char name[48], others[64] = "", experiment[48] = "";

	ESPL__CHECK(real, REAL);
	if (real->unused == 0)
		return;
	if (real->config->pool)
		(void)snprintf(experiment, sizeof experiment, "experiments/%llu/",
		    (unsigned long long)(real->unused_trial >> ESPL__TRIAL_BITS));
	if (real->unused_others > 0)
		(void)snprintf(others, sizeof others, ", and %llu of other trials",
		    (unsigned long long)real->unused_others);
	espl__log(ESPL_WARN,
	    "trial %s: %llu line%s that look%s like metrics %s not used%s; lines of espalier in "
	    "its "
	    "log say why: %strials/%llu/log",
	    espl__trial_name(real->unused_trial, name), (unsigned long long)real->unused,
	    real->unused == 1 ? "" : "s", real->unused == 1 ? "s" : "",
	    real->unused == 1 ? "was" : "were", others, experiment,
	    (unsigned long long)(real->unused_trial & ESPL__TRIAL_NUMBER));
}

/* 1: a report; 0: a line for the agent ({"saved": n}); -1: neither, for the reason report->wrong.
 */
static int
read_report(struct espl__real *real, struct espl__rgang *gang, json_t *root, struct report *report)
{
	json_t *iteration = json_object_get(root, "iteration"),
	       *metrics = json_object_get(root, "metrics");

	if (!json_is_object(root))
		return wrong(report, "its report is not a JSON object");
	if (iteration == NULL)
		return json_object_get(root, "saved") != NULL
		    ? 0
		    : wrong(report, "its report has no 'iteration'");
	report->iteration = espl__iteration_of(json_number_value(iteration));
	if (report->iteration == 0)
		return wrong(report,
		    "the 'iteration' in its report is not a positive whole number%s",
		    json_is_number(iteration) && json_number_value(iteration) == 0
			? ": they are numbered 1, 2, 3, ... (pass epoch + 1)"
			: "");
	report->finished = json_is_true(json_object_get(root, "finished"));
	learn_layout(gang, json_object_get(root, "layout"));
	learn_unused(real, gang, json_object_get(root, "unused"));
	if (metrics == NULL)
		return 1;
	if (!json_is_object(metrics))
		return wrong(report,
		    "the 'metrics' in its report are not an object of names and numbers");
	return read_metrics(real, gang, metrics, report) == 0 ? 1 : -1;
}

static void
warn_once(struct espl__rgang *gang, const struct report *report, const char *what)
{
	char name[48];

	if (gang->warned)
		return;
	gang->warned = 1;
	espl__log(ESPL_WARN, "trial %s reported iteration %llu %s; ignoring the report",
	    espl__trial_name(gang->trial, name), (unsigned long long)report->iteration, what);
}

static void
take_report(struct espl__real *real, struct espl__rgang *gang, const struct report *report)
{
	struct espl__event *event;

	gang->finished |= report->finished;
	if (report->iteration <= gang->last) {
		if (!report->finished || report->iteration < gang->last)
			warn_once(gang, report,
			    report->iteration <= gang->begun ? "from which it had started"
							     : "twice");
		espl__real_send_reply(real, gang,
		    gang->killed || gang->directive ? ESPL__PAUSE : ESPL__CONTINUE, 0);
		return;
	}
	if (gang->directive != 0) { /* it was asked to exit, but continued */
		warn_once(gang, report,
		    "after the request to exit (use `for i in run.iterations()`, or leave the loop "
		    "with `if verdict.end: break`)");
		espl__real_leave_soon(gang);
		espl__real_send_reply(real, gang, gang->directive, 0);
		return;
	}
	if (report->iteration > gang->budget) { /* the search asked for nothing there */
		espl__real_gang_break(real, gang,
		    "rank 0 reported iteration %llu, beyond its budget of %llu",
		    (unsigned long long)report->iteration, (unsigned long long)gang->budget);
		return;
	}
	gang->last = report->iteration;
	event = espl__real_event(real, ESPL__EV_REPORT);
	event->as.report.gang = gang->id;
	event->as.report.iteration = report->iteration;
	event->as.report.count = report->count;
	event->as.report.metrics = report->metrics;
	if (gang->killed) /* the kill was the answer; this wakes it up */
		espl__real_send_reply(real, gang, ESPL__PAUSE, 0);
	else
		gang->waiting = 1;
}

static void
hold_line(struct espl__real *real, struct espl__rgang *gang, const char *text, size_t size)
{
	if (gang->held_count >= HELD_MAX || gang->held.size + size > HELD_BYTES) {
		espl__real_gang_break(real, gang, "rank 0 reports without waiting for the replies");
		return;
	}
	espl__put_bytes(&gang->held, text, size);
	gang->held_count++;
}

static const char *
why_not_json(const json_error_t *error)
{
	switch (json_error_code(error)) {
	case json_error_duplicate_key: return "its report contains a duplicate name";
	case json_error_numeric_overflow:
		return "a number in its report exceeds 1.8e308, the largest possible one (inf is "
		       "allowed)";
	default: return "its report is not valid JSON";
	}
}

static void
parse_line(struct espl__real *real, struct espl__rgang *gang, const char *text, size_t size)
{
	struct espl__buf quoted = { NULL, 0, 0 };
	size_t length = size;
	const char *clean = espl__json_quote(text, &length, &quoted);
	struct report report;
	json_error_t error;
	json_t *root =
	    json_loadb(clean, length, JSON_DECODE_INT_AS_REAL | JSON_REJECT_DUPLICATES, &error);
	int got;

	memset(&report, 0, sizeof report);
	got = root != NULL ? read_report(real, gang, root, &report)
			   : wrong(&report, "%s", why_not_json(&error));
	if (got < 0)
		refuse_garbage(real, gang, report.wrong, text, size);
	else if (got > 0)
		take_report(real, gang, &report);
	json_decref(root);
	espl__buf_free(&quoted);
}

uint64_t
espl__real_line_iteration(const char *text, size_t size)
{
	struct espl__buf quoted = { NULL, 0, 0 };
	size_t length = size;
	const char *clean = espl__json_quote(text, &length, &quoted);
	json_t *root = json_loadb(clean, length, JSON_DECODE_INT_AS_REAL, NULL);
	const json_t *iteration = json_object_get(root, "iteration");
	uint64_t number = espl__iteration_of(json_number_value(iteration));

	json_decref(root);
	espl__buf_free(&quoted);
	return number;
}

/* ---- notes --------------------------------------------------------------------------------- */

static void
take_note(struct espl__real *real, const struct espl__rgang *gang, const char *key,
    const char *text)
{
	const char *why = espl__note_misnamed(key);
	size_t length = espl__note_length(text);
	struct espl__event *event;
	char name[48], *copy;

	if (why != NULL && !real->notes_dropped)
		espl__log(ESPL_WARN, ESPL__NOTES_DROPPED, espl__trial_name(gang->trial, name), why,
		    key);
	else if (why == NULL && text[length] != '\0' && !real->notes_cut)
		espl__log(ESPL_WARN, ESPL__NOTES_CUT, espl__trial_name(gang->trial, name), key);
	real->notes_dropped |= why != NULL;
	real->notes_cut |= text[length] != '\0';
	if (why != NULL)
		return;
	event = espl__real_event(real, ESPL__EV_TRIAL_NOTE);
	event->as.trial_note.trial = gang->trial;
	event->as.trial_note.key = espl__arena_strdup(espl__real_arena(real), key);
	copy = espl__arena_alloc(espl__real_arena(real), length + 1);
	memcpy(copy, text, length);
	event->as.trial_note.text = copy;
}

void
espl__real_line_note(struct espl__real *real, struct espl__rgang *gang, const char *text,
    size_t size)
{
	json_t *root = json_loadb(text, size, 0, NULL), *notes = json_object_get(root, "notes"),
	       *note;
	int wrong = !json_is_object(notes);
	const char *key;

	ESPL__CHECK(gang, RGANG);
	json_object_foreach (notes, key, note)
		wrong |= !json_is_string(note);
	if (wrong && gang->broken == NULL)
		refuse_garbage(real, gang, "its notes are not an object of names and texts", text,
		    size);
	else if (gang->broken == NULL)
		json_object_foreach (notes, key, note)
			take_note(real, gang, key, json_string_value(note));
	json_decref(root);
}

/* ---- lines --------------------------------------------------------------------------------- */

void
espl__real_line(struct espl__real *real, struct espl__rgang *gang, const char *text, size_t size)
{
	ESPL__CHECK(gang, RGANG);
	while (size > 0 && isspace((unsigned char)text[size - 1]))
		size--;
	if (gang->broken != NULL || size == 0)
		return;
	if (gang->waiting || gang->held_count > 0 || gang->started < gang->part_count ||
	    gang->resize == ESPL__CHANGING)
		hold_line(real, gang, text, size);
	else
		parse_line(real, gang, text, size);
}

void
espl__real_lines_held(struct espl__real *real, struct espl__rgang *gang)
{
	struct espl__reader reader = espl__reader(gang->held.data, gang->held.size);
	size_t used;

	while (gang->held_count > 0 && !gang->waiting && gang->broken == NULL) {
		size_t size;
		const char *text = espl__get_bytes(&reader, &size);

		if (reader.bad)
			break;
		gang->held_count--;
		parse_line(real, gang, text, size);
	}
	used = gang->held.size > 0 ? (size_t)(reader.at - gang->held.data) : 0;
	if (used > 0) {
		memmove(gang->held.data, gang->held.data + used, gang->held.size - used);
		gang->held.size -= used;
	}
	if (gang->over && gang->held_count == 0)
		espl__real_gang_finish(real, gang);
}
