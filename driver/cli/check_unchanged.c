/* check_unchanged.c - check: programs that are not changed: their command line, their output. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/fill.h"
#include "base/mem.h"
#include "cli/inputs.h"
#include "input/run_groups.h"
#include "listen/listen.h"
#include "listen/follow.h"

#define LOG_MAX ((size_t)256 << 20)
#define SHOWN 5u /* reports */

struct example {
	struct espl__settings settings;
	const struct espl__run_config *config;
	char iterations[32], trial[160];
};

/* What is known only when a trial starts is made up. */
static const char *
find_setting(void *ctx, const char *name)
{
	static const char *const made_up[][2] = { { "trial", "0" }, { "run", "DIR" },
		{ "output", "DIR/trials/0/output" }, { "seed", "1" } };
	struct example *e = ctx;
	const struct espl__node *most =
	    espl__node_get(e->config->algorithm.group, "iterations_max");

	for (uint32_t i = 0; i < e->settings.count; i++)
		if (strcmp(e->settings.list[i].name, name) == 0)
			return e->settings.list[i].text;
	for (size_t i = 0; i < sizeof made_up / sizeof made_up[0]; i++)
		if (strcmp(made_up[i][0], name) == 0)
			return made_up[i][1];
	if (strcmp(name, "experiment") == 0)
		return e->config->name;
	if (strcmp(name, "trial_name") == 0) {
		(void)snprintf(e->trial, sizeof e->trial, "%s-trial-0", e->config->name);
		return e->trial;
	}
	if (strcmp(name, "iterations") != 0)
		return NULL;
	(void)snprintf(e->iterations, sizeof e->iterations, "%lld",
	    most != NULL && most->type == ESPL__INT ? (long long)most->i : 1LL);
	return e->iterations;
}

/* As a shell would read it, and without anything that a terminal would obey. */
static void
put_word(const char *word, struct espl__buf *b)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_=./:,+@%{}";
	int quoted = word[0] == '\0' || word[strspn(word, plain)] != '\0';

	espl__print(b, " %s", quoted ? "'" : "");
	for (const char *p = word; *p != '\0'; p++) {
		if (*p == '\'')
			espl__print(b, "'\\''");
		else
			espl__put_u8(b, (unsigned char)*p < ' ' || *p == 0x7f ? '?' : (uint8_t)*p);
	}
	espl__print(b, "%s", quoted ? "'" : "");
}

/* The middle of every range. */
static void
put_example(const struct espl__inputs *s, struct espl__buf *b)
{
	const struct espl__trial_config *t = &s->config->trial;
	const struct espl_space *space = espl__space_view(s->space);
	double *unit = espl__alloc((space->param_count + 1) * sizeof *unit),
	       *values = espl__alloc((space->param_count + 1) * sizeof *values);
	struct example e = { { NULL, 0, NULL }, s->config, "", "" };
	struct espl__buf word = { NULL, 0, 0 };

	for (uint32_t i = 0; i < space->param_count; i++)
		unit[i] = 0.5;
	if (space->from_unit(space, unit, values) == ESPL_OK) {
		espl__space_settings(s->space, values, &e.settings);
		espl__print(b, "  example    ");
		for (uint32_t i = 0; i < t->command_count; i++) {
			espl__buf_clear(&word);
			if (espl__fill(t->command[i], find_setting, &e, &word, NULL) == 0 &&
			    (word.size > 0 || t->command[i][0] == '\0'))
				put_word(espl__buf_text(&word), b);
		}
		espl__print(b, "\n");
		espl__settings_free(&e.settings);
	}
	espl__buf_free(&word);
	free(unit);
	free(values);
}

void
espl__check_words(const struct espl__inputs *s, struct espl__buf *b)
{
	const struct espl__trial_config *t = &s->config->trial;
	struct espl__arena arena = { NULL };
	int named = 0;

	for (uint32_t i = 0; i < t->command_count; i++)
		named |= espl__fill_any(t->command[i]);
	if (named && s->space != NULL)
		put_example(s, b);
	if (t->metrics != NULL)
		espl__print(b,
		    "  metrics     read from the output; no checkpoints, so a trial that is %s\n"
		    "              trains again from iteration 0\n",
		    espl__unsaved_trials(espl__inputs_spec(s, &arena)));
	espl__arena_free(&arena);
}

/* 1: it is counted; the first ones are shown. */
static uint64_t
put_report(uint64_t count, const struct espl__buf *report, struct espl__buf *b)
{
	if (count < SHOWN)
		espl__print(b, "              %.*s", (int)report->size, (const char *)report->data);
	return 1;
}

static uint64_t
try_line(struct espl__listen *listen, const char *line, size_t size, uint64_t before,
    struct espl__buf *b)
{
	struct espl__buf report = { NULL, 0, 0 };
	uint64_t count = 0;

	for (int got = espl__listen_line(listen, line, size, &report); got;
	     got = espl__listen_more(listen, &report))
		count += put_report(before + count, &report, b);
	espl__buf_free(&report);
	return count;
}

static uint64_t
try_lines(struct espl__listen *listen, const struct espl__buf *log, struct espl__buf *b)
{
	const char *p = (const char *)log->data, *end = p + log->size;
	uint64_t count = 0;

	while (p < end) {
		size_t n = 0;

		while (p + n < end && p[n] != '\n' && p[n] != '\r')
			n++;
		count += try_line(listen, p, n, count, b);
		p += n + 1;
	}
	return count;
}

/* Of trial.metrics.file. */
static uint64_t
try_file(struct espl__listen *listen, const char *path, struct espl__buf *b)
{
	struct espl__follow *tail = espl__follow_new(path, 0);
	struct espl__buf line = { NULL, 0, 0 };
	uint64_t count = 0;
	const char *trouble;

	while (espl__follow_next(tail, 1, &line))
		count += try_line(listen, espl__buf_text(&line), line.size, count, b);
	if ((trouble = espl__follow_trouble(tail)) != NULL)
		espl__print(b, "              %s\n", trouble);
	espl__follow_free(tail);
	espl__buf_free(&line);
	return count;
}

/* What was concluded, and what looks wrong. */
static void
put_reading(const struct espl__listen *listen, uint64_t most, struct espl__buf *b)
{
	const struct espl__listen_layout *layout = espl__listen_found(listen);
	const struct espl__listen_counts *n = espl__listen_counts(listen);
	const char *margin = "              ";

	if (layout->amounts || layout->trailing || layout->begins > 0) {
		espl__print(b, "%s", margin);
		espl__listen_layout_say(layout, b);
		espl__print(b, "\n");
	}
	if (n->before > 0)
		espl__print(b, "%s%llu value%s from before the training left out\n", margin,
		    (unsigned long long)n->before, n->before == 1 ? "" : "s");
	if (n->late > 0)
		espl__print(b, "%s%llu value%s of an iteration that was complete left out\n",
		    margin, (unsigned long long)n->late, n->late == 1 ? "" : "s");
	if (n->restarts > 0)
		espl__print(b,
		    "%swarning: after iteration %llu it counts from the beginning again: a second "
		    "training\n%sis left out\n",
		    margin, (unsigned long long)n->restarts, margin);
	if (n->falling > 0)
		espl__print(b,
		    "%swarning: the numbers of iterations fall: an iteration before the last one\n"
		    "%sthat was named is left out\n",
		    margin, margin);
	if (n->grouped != NULL)
		espl__print(b,
		    "%swarning: '%s' is not read as a number: print the metric with all\n%sits "
		    "digits, and nothing between them\n",
		    margin, n->grouped, margin);
	if (n->beyond > 0)
		espl__print(b,
		    "%swarning: it has %llu iterations more than the search's %llu; if its "
		    "numbers are\n%ssteps, set trial.metrics.per_iteration\n",
		    margin, (unsigned long long)n->beyond, (unsigned long long)most, margin);
	if (most > 0 && n->unnamed > most)
		espl__print(b,
		    "%swarning: %llu lines with the metric, but the search has %llu iterations: "
		    "no\n%snumber of an iteration was found, so each line counts as one\n",
		    margin, (unsigned long long)n->unnamed, (unsigned long long)most, margin);
	if (n->hard > 0)
		espl__print(b,
		    "%sthe pattern takes too many steps on %llu lines, which are ignored\n", margin,
		    (unsigned long long)n->hard);
}

/* In a second pass, if only the whole output shows that its first value is untrained. */
static espl_status
read_output(const struct espl__inputs *s, const struct espl__buf *log, uint64_t most,
    const char *path, struct espl__buf *b, struct espl__diag *diag)
{
	const struct espl__listen_layout *layout;
	struct espl__listen *listen = NULL;
	struct espl__buf lines = { NULL, 0, 0 }, report = { NULL, 0, 0 };
	char *file = NULL, *spec = espl__strdup(s->config->trial.metrics);
	uint64_t count = 0;
	int from, again = 0;
	espl_status status;

	do {
		espl__listen_free(listen);
		espl__buf_clear(&lines);
		status = espl__listen_new_json(spec, &listen, &from, &file, diag);
		if (status != ESPL_OK)
			break;
		espl__listen_begin(listen, 0, UINT64_MAX, most);
		count =
		    file != NULL ? try_file(listen, path, &lines) : try_lines(listen, log, &lines);
		for (int got = espl__listen_end(listen, &report); got;
		     got = espl__listen_more(listen, &report))
			count += put_report(count, &report, &lines);
		free(file);
		layout = espl__listen_found(listen);
		again = !again && (layout->first == 1 || layout->trailing);
		if (again) {
			struct espl__listen_layout first = ESPL__LISTEN_LAYOUT_INIT;
			char *known;

			first.first = layout->first;
			first.trailing = layout->trailing;
			known = espl__listen_spec_known(spec, &first);
			free(spec);
			spec = known;
		}
	} while (again);
	if (status == ESPL_OK) {
		espl__print(b, "  output      %llu report%s in '%s'%s\n", (unsigned long long)count,
		    count == 1 ? "" : "s", path, count > SHOWN ? "; the first are" : "");
		espl__put(b, lines.data, lines.size);
		put_reading(listen, most, b);
	}
	if (status == ESPL_OK && count == 0) {
		const char *grouped = espl__listen_counts(listen)->grouped;

		status = espl__fail(diag, ESPL_E_CONFIG, "'%s': %s", path,
		    s->config->trial.metrics_missed);
		if (grouped != NULL)
			espl__hint(diag,
			    "'%s' is not read as a number: print the metric with all its digits, "
			    "and nothing between them",
			    grouped);
	}
	espl__listen_free(listen);
	espl__buf_free(&lines);
	espl__buf_free(&report);
	free(spec);
	return status;
}

espl_status
espl__check_output(const struct espl__inputs *s, const char *path, struct espl__buf *b,
    struct espl__diag *diag)
{
	const struct espl__node *most = s->config->resource == NULL
	    ? espl__node_get(s->config->algorithm.group, "iterations_max")
	    : NULL;
	struct espl__buf log = { NULL, 0, 0 };
	espl_status status;

	if (path == NULL)
		return ESPL_OK;
	if (s->config->trial.metrics == NULL) {
		espl__fail(diag, ESPL_E_CONFIG,
		    "--output needs trial.metrics in the configuration");
		espl__hint(diag, "metrics = { from = \"stdout\"; pattern = \"loss: {loss}\"; };");
		return ESPL_E_CONFIG;
	}
	status = espl__file_read(path, LOG_MAX, &log, diag);
	if (status == ESPL_OK)
		status = read_output(s, &log,
		    most != NULL && most->type == ESPL__INT && most->i > 0 ? (uint64_t)most->i : 0,
		    path, b, diag);
	espl__buf_free(&log);
	return status;
}
