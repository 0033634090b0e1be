/* verb_results.c - status, best, explain, export: commands that read results.db. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ids.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "report/results_read.h"

static int
print_and_close(struct espl__reading *r, struct espl__buf *text)
{
	int status = espl__cli_print(text);

	espl__buf_free(text);
	espl__reading_free(r);
	return status;
}

/* What a run waits for that has nothing yet to train on, in the words of its cloud. */
static espl_status
put_waits(struct espl__reading *r, struct espl__buf *text, struct espl__diag *diag)
{
	sqlite3_stmt *st;
	int more;

	if (!r->running || r->totals.waiting == 0 || r->totals.running > 0 || r->totals.gpus > 0)
		return ESPL_OK;
	st = espl__reading_query(r,
	    "SELECT text FROM notes WHERE subject = 'run' AND text LIKE 'cloud ''%' "
	    "ORDER BY rowid DESC LIMIT 1",
	    -1, -1, diag);
	if (st == NULL)
		return ESPL_E_REMOTE;
	more = espl__reading_next(r, st, diag);
	if (more == 1) {
		espl__print(text, "  waits   ");
		espl__print_clean(text, (const char *)sqlite3_column_text(st, 0));
		espl__print(text, "\n");
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

static espl_status
status_text(struct espl__reading *r, const struct espl__args *args, struct espl__buf *text,
    struct espl__diag *diag)
{
	espl_status status;
	char left[32], *command;

	espl__totals_text(&r->totals, 1, text);
	espl__totals_logs_text(&r->totals, args->positional[0], text);
	if (r->running && r->totals.deadline_s > r->totals.jct_s)
		espl__print(text, "  left    %s to the deadline\n",
		    espl__format_seconds(r->totals.deadline_s - r->totals.jct_s, left));
	status = put_waits(r, text, diag);
	if (status == ESPL_OK)
		status = espl__reading_groups(r, text, diag);
	command = espl__cli_resume(args, args->positional[0]);
	if (!r->running && strcmp(r->totals.status, "interrupted") == 0 && !r->totals.simulated)
		espl__print(text, "\n  resume with: %s\n", command);
	if (!r->running && strcmp(r->totals.status, "failed") == 0 && !r->totals.simulated &&
	    !r->totals.over)
		espl__print(text, "\n  after fixing the cause, resume with: %s\n", command);
	free(command);
	return status;
}

/* Prints the status once.  *running: is the run still in progress? */
static int
status_once(const struct espl__args *args, int clear, int *running)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__reading *r;
	size_t line;

	*running = 0;
	if (espl__reading_open(args->positional[0], &r, &diag) != ESPL_OK)
		return espl__cli_fail(&diag);
	*running = r->running;
	if (clear)
		espl__print(&text, "\033[H\033[2J");
	if (espl__arg(args, "json") != NULL) {
		espl__totals_json(&r->totals, "status", 1, &text);
		espl__print(&text, "\n");
		return print_and_close(r, &text);
	}
	if (status_text(r, args, &text, &diag) != ESPL_OK) {
		espl__buf_free(&text);
		espl__reading_free(r);
		return espl__cli_fail(&diag);
	}
	line = strcspn(espl__buf_text(&text), "\n") + 1;
	if (espl__arg(args, "quiet") != NULL && line < text.size)
		text.size = line;
	return print_and_close(r, &text);
}

int
espl__verb_status(const struct espl__args *args)
{
	int clear = isatty(STDOUT_FILENO) && espl__arg(args, "json") == NULL, status, running;

	if (espl__arg(args, "quiet") != NULL && espl__arg(args, "json") != NULL)
		return espl__cli_usage(args, "--quiet and --json exclude each other");
	if (espl__arg(args, "watch") == NULL)
		return status_once(args, 0, &running);
	for (;;) {
		status = status_once(args, clear, &running);
		if (!running || status != ESPL__EXIT_DONE)
			return status;
		(void)sleep(1);
	}
}

/* The best `most` trials of an experiment (0: the run's only one); as a list of JSON objects, or a
 * line each. */
static espl_status
best_list(struct espl__reading *r, int64_t experiment, int64_t most, int json, struct espl__buf *b,
    struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    r->totals.maximize
		? "SELECT id, metric, iteration, params, state FROM trials WHERE id >> 40 = ?1 AND "
		  "metric IS NOT NULL"
		  " ORDER BY state = 'failed', iteration DESC, metric DESC, id LIMIT ?2"
		: "SELECT id, metric, iteration, params, state FROM trials WHERE id >> 40 = ?1 AND "
		  "metric IS NOT NULL"
		  " ORDER BY state = 'failed', iteration DESC, metric, id LIMIT ?2",
	    experiment, most, diag);
	char name[48], number[32];
	int more = -1;

	if (st != NULL && !json) {
		espl__print(b, "%7s  %9s  %12s  %-13s parameters\n", "trial", "iteration",
		    r->totals.metric != NULL ? r->totals.metric : "metric", "state");
	}
	while (st != NULL && (more = espl__reading_next(r, st, diag)) == 1) {
		const char *params = (const char *)sqlite3_column_text(st, 3),
			   *state = (const char *)sqlite3_column_text(st, 4);
		int64_t id = sqlite3_column_int64(st, 0);

		if (json) {
			espl__json_open(b, NULL, '{');
			espl__json_int(b, "trial", (int64_t)((uint64_t)id & ESPL__TRIAL_NUMBER));
			espl__json_real(b, "metric", sqlite3_column_double(st, 1));
			espl__json_int(b, "iteration", sqlite3_column_int64(st, 2));
			espl__json_text(b, "state", state);
			espl__json_raw(b, "params", params != NULL ? params : "{}");
			espl__print(b, "}");
		} else {
			espl__print(b, "%7s  %9lld  %12s  %-13s ",
			    espl__trial_name((uint64_t)id, name), sqlite3_column_int64(st, 2),
			    espl__format_metric(sqlite3_column_double(st, 1), number), state);
			espl__print_params(b, params, "  ");
			espl__print(b, "\n");
		}
	}
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

/* A pool has as many as it has experiments. */
static espl_status
best_of_each(struct espl__reading *r, int64_t most, struct espl__buf *b, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;
	int64_t number;

	for (number = 1; status == ESPL_OK && espl__reading_turn(r, number); number++) {
		espl__print(b, "%lld ", (long long)number);
		espl__print_clean(b, r->totals.experiment);
		espl__print(b, "\n");
		if (most > 0)
			status = best_list(r, number, most, 0, b, diag);
		else
			espl__totals_best_text(&r->totals, 2, b);
	}
	if (number == 1)
		espl__print(b, "best    none (plain jobs are not compared)\n");
	return status;
}

int
espl__verb_best(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__reading *r;
	int64_t most;
	int none, exit_status;
	espl_status status = espl__arg_number(args, "top", 1, 1000000, 0, &most, &diag);

	if (status != ESPL_OK || espl__reading_open(args->positional[0], &r, &diag) != ESPL_OK)
		return espl__cli_fail(&diag);
	if (espl__arg(args, "json") != NULL) {
		espl__totals_json(&r->totals, "best", 0, &text);
		if (most > 0 && !espl__reading_pool(r)) {
			text.size--; /* the object goes on */
			espl__json_open(&text, "top", '[');
			status = best_list(r, 0, most, 1, &text, &diag);
			espl__print(&text, "]}");
		}
		espl__print(&text, "\n");
	} else if (espl__reading_pool(r)) {
		status = best_of_each(r, most, &text, &diag);
	} else if (most > 0) {
		status = best_list(r, 0, most, 0, &text, &diag);
	} else {
		espl__totals_best_text(&r->totals, 0, &text);
	}
	if (status == ESPL_OK) {
		none = r->totals.best < 0 && !espl__reading_pool(r);
		exit_status = print_and_close(r, &text);
		return exit_status == 0 && none ? 1 : exit_status;
	}
	espl__buf_free(&text);
	espl__reading_free(r);
	return espl__cli_fail(&diag);
}

/* "3", or "1/3": trial 3 of experiment 1 of a pool. */
static int
trial_of(const char *text, int64_t *trial)
{
	const char *slash = strchr(text, '/');
	char *head = slash != NULL ? espl__format("%.*s", (int)(slash - text), text) : NULL;
	int64_t search = 0;
	int bad =
	    head != NULL && (espl__parse_int(head, &search) < 0 || search < 0 || search > 1000000);

	free(head);
	if (bad || espl__parse_int(slash != NULL ? slash + 1 : text, trial) < 0 || *trial < 0 ||
	    (uint64_t)*trial > ESPL__TRIAL_NUMBER)
		return -1;
	if (search > 0)
		*trial += search << ESPL__TRIAL_BITS;
	return 0;
}

/* A plain job of a pool may be asked for by its name. */
static int
job_of(struct espl__reading *r, const char *name, int64_t *trial)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT id FROM jobs WHERE name = ?1 AND arrived_s IS NOT NULL", -1, -1, NULL);
	int found = st != NULL && sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC) == SQLITE_OK &&
	    espl__reading_next(r, st, NULL) == 1;

	if (found)
		*trial = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	return found;
}

/* No trial and no job: what else a pool has of that name, and where its trials are. */
static int
no_story(struct espl__reading *r, const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	const char *name = args->positional[1];
	sqlite3_stmt *st;

	if (!espl__reading_pool(r))
		return espl__cli_usage(args, "'%s' is not a trial number", name);
	st = espl__reading_query(r, "SELECT id FROM experiments WHERE name = ?1", -1, -1, NULL);
	if (st != NULL && sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC) == SQLITE_OK &&
	    espl__reading_next(r, st, NULL) == 1) {
		(void)espl__fail(&diag, ESPL_E_CONFIG,
		    "'%s' is an experiment; name one of its trials", name);
		espl__hint(&diag, "its trials are %lld/0, %lld/1, ...",
		    (long long)sqlite3_column_int64(st, 0), (long long)sqlite3_column_int64(st, 0));
	} else {
		(void)espl__fail(&diag, ESPL_E_CONFIG,
		    "'%s' is neither a trial number nor a plain job that has arrived", name);
		espl__hint(&diag,
		    "the trials of experiment 1 are 1/0, 1/1, ...; `espalier queue %s` lists "
		    "experiments and jobs",
		    args->positional[0]);
	}
	(void)sqlite3_finalize(st);
	return espl__cli_fail(&diag);
}

int
espl__verb_explain(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__reading *r;
	int64_t trial = -1;
	int status,
	    named = args->positional[1] != NULL && trial_of(args->positional[1], &trial) < 0;

	if (espl__reading_open(args->positional[0], &r, &diag) != ESPL_OK)
		return espl__cli_fail(&diag);
	if (named && !job_of(r, args->positional[1], &trial)) {
		status = no_story(r, args);
		espl__reading_free(r);
		return status;
	}
	if (trial < 0)
		espl__explain_run(r, &text);
	if (trial < 0 || espl__explain(r, (uint64_t)trial, &text, &diag) == ESPL_OK)
		return print_and_close(r, &text);
	status = espl__cli_fail(&diag);
	espl__buf_free(&text);
	espl__reading_free(r);
	return status;
}

/* ---- export --------------------------------------------------------------------------------- */

struct export
{
	struct espl__reading *run;
	const char *table; /* of CSV; NULL: all tables, as JSON */
};

static espl_status
write_tables(void *ctx, FILE *to, struct espl__diag *diag)
{
	const struct export *wanted = ctx;

	return wanted->table == NULL ? espl__export_json(wanted->run, to, diag)
				     : espl__export_csv(wanted->run, wanted->table, to, diag);
}

static int
export_events(struct espl__reading *r, const char *out)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *dir = out != NULL ? espl__strdup(out) : espl__format("%s/tensorboard", r->dir);
	espl_status status = espl__export_tensorboard(r, dir, &diag);

	if (status == ESPL_OK && out == NULL)
		printf("%s\n", dir);
	free(dir);
	return status == ESPL_OK ? ESPL__EXIT_DONE : espl__cli_fail(&diag);
}

int
espl__verb_export(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct export wanted = { NULL, NULL };
	struct espl__reading *r;
	const char *format = espl__arg(args, "format"), *out = espl__arg(args, "output");
	const char *table = espl__arg(args, "table");
	int status;

	if (format == NULL)
		return espl__cli_usage(args, "--format is missing; use csv, json or tensorboard");
	if (strcmp(format, "csv") != 0 && strcmp(format, "json") != 0 &&
	    strcmp(format, "tensorboard") != 0)
		return espl__cli_usage(args, "unknown format '%s'; use csv, json or tensorboard",
		    format);
	if (table != NULL && strcmp(format, "csv") != 0)
		return espl__cli_usage(args, "--table applies only to csv");
	if (espl__reading_open(args->positional[0], &r, &diag) != ESPL_OK)
		return espl__cli_fail(&diag);
	if (strcmp(format, "tensorboard") == 0) {
		status = export_events(r, out);
		espl__reading_free(r);
		return status;
	}
	if (out != NULL && strcmp(out, "-") == 0)
		out = NULL;
	if (strcmp(format, "csv") == 0)
		wanted.table = table != NULL ? table : "trials";
	wanted.run = r;
	status = espl__cli_write(out, write_tables, &wanted, &diag) == ESPL_OK
	    ? ESPL__EXIT_DONE
	    : espl__cli_fail(&diag);
	espl__reading_free(r);
	return status;
}
