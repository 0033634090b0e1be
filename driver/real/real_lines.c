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
#include <string.h>
#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#define HELD_MAX 1024u /* reports that did not wait for their answer */
#define HELD_BYTES (1u << 20)
#define NAMES_MAX 1024u  /* different metrics in a run */
#define METRICS_MAX 256u /* in one report */
#define NAME_LENGTH 128u
#define ITERATION_MAX 9007199254740992.0

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

/* 0, or -1 if this is no number. */
static int
number_of(const json_t *value, double *number)
{
	const char *text;

	if (json_is_number(value)) {
		*number = json_number_value(value);
		return 0;
	}
	text = json_string_value(value);
	if (text == NULL)
		return -1;
	if (strcasecmp(text, "nan") == 0)
		*number = NAN;
	else if (strcasecmp(text, "inf") == 0 || strcasecmp(text, "infinity") == 0 ||
	    strcasecmp(text, "+inf") == 0)
		*number = INFINITY;
	else if (strcasecmp(text, "-inf") == 0 || strcasecmp(text, "-infinity") == 0)
		*number = -INFINITY;
	else
		return -1;
	return 0;
}

struct report {
	uint64_t iteration;
	uint32_t count;
	struct espl__metric *metrics;
	int finished;
	char wrong[NAME_LENGTH + 64]; /* why it is none */
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

/* Adds a metric to the report. 0; -1: it is not a valid metric. */
static int
read_metric(struct espl__real *real, const char *name, const json_t *value, struct report *report)
{
	struct espl__metric *metric = &report->metrics[report->count];

	if (name[0] == '\0')
		return wrong(report, "its report has a metric without a name");
	if (strlen(name) > NAME_LENGTH)
		return wrong(report, "its report has a metric whose name is longer than %u bytes",
		    NAME_LENGTH);
	if (number_of(value, &metric->value) != 0)
		return wrong(report, "the metric '%s' in its report is not a number", name);
	metric->metric = espl__names_find(&real->metrics, name);
	if (metric->metric == ESPL_ANY) {
		if (real->metrics.count >= NAMES_MAX)
			return wrong(report,
			    "its report exceeds the limit of %u different metrics per run",
			    NAMES_MAX);
		metric->metric = espl__names_add(&real->metrics, name);
		espl__real_event(real, ESPL__EV_METRIC)->as.metric =
		    espl__arena_strdup(espl__real_arena(real), name);
	}
	report->count++;
	return 0;
}

/* 1: a report; 0: a line for the agent ({"saved": n}); -1: neither, for the reason report->wrong.
 */
static int
read_report(struct espl__real *real, json_t *root, struct report *report)
{
	json_t *iteration = json_object_get(root, "iteration"),
	       *metrics = json_object_get(root, "metrics"), *value;
	const char *name;
	double number;

	if (!json_is_object(root))
		return wrong(report, "its report is not a JSON object");
	if (iteration == NULL)
		return json_object_get(root, "saved") != NULL
		    ? 0
		    : wrong(report, "its report has no 'iteration'");
	number = json_is_number(iteration) ? json_number_value(iteration) : 0.0;
	if (!(number >= 1.0 && number <= ITERATION_MAX) || floor(number) != number)
		return wrong(report,
		    "the 'iteration' in its report is not a positive whole number");
	report->iteration = (uint64_t)number;
	report->finished = json_is_true(json_object_get(root, "finished"));
	if (metrics == NULL)
		return 1;
	if (!json_is_object(metrics))
		return wrong(report,
		    "the 'metrics' in its report are not an object of names and numbers");
	if (json_object_size(metrics) > METRICS_MAX)
		return wrong(report, "its report has more than %u metrics", METRICS_MAX);
	report->metrics = espl__arena_alloc(espl__real_arena(real),
	    (json_object_size(metrics) + 1) * sizeof *report->metrics);
	json_object_foreach (metrics, name, value)
		if (read_metric(real, name, value, report) != 0)
			return -1;
	return 1;
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
	got = root != NULL ? read_report(real, root, &report)
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
	double number = json_is_number(iteration) ? json_number_value(iteration) : 0.0;

	json_decref(root);
	espl__buf_free(&quoted);
	return number >= 1.0 && number <= ITERATION_MAX ? (uint64_t)number : 0;
}

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
