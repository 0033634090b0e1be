/* verb_list.c - list: the runs in a directory, and how far each is. */
#include <string.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "report/results_read.h"
#include "report/runs.h"

static void
put_text(const char *name, int width, const struct espl__totals *t, struct espl__buf *b)
{
	char time[32];

	espl__print(b, "%-*s  %-11s %8s  %6lld  %9lld  ", width, name, t->status,
	    espl__format_seconds(t->jct_s, time), (long long)t->trials,
	    (long long)espl__totals_finished(t));
	if (t->best >= 0) {
		espl__print_clean(b, t->metric);
		espl__totals_best_metric(t, b);
	} else {
		espl__print(b, "-");
	}
	espl__print(b, "\n");
}

static void
put_json(const char *name, const struct espl__totals *t, struct espl__buf *b)
{
	struct espl__buf object = { NULL, 0, 0 };

	espl__totals_json(t, "run", 1, &object);
	espl__print(b, "{\"dir\": ");
	espl__print_json(b, name);
	espl__print(b, ", %s\n", espl__buf_text(&object) + 1);
	espl__buf_free(&object);
}

int
espl__verb_list(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__runs runs = { NULL, 0, 0 };
	espl_status status = ESPL_OK;
	int json = espl__arg(args, "json") != NULL, width = (int)strlen("run"), result;

	for (uint32_t i = 0; status == ESPL_OK && i < (args->count > 0 ? args->count : 1); i++)
		status = espl__runs_find(&runs, args->count > 0 ? args->positional[i] : ".", &diag);
	for (uint32_t i = 0; i < runs.count; i++)
		width = (int)strlen(runs.names[i]) > width ? (int)strlen(runs.names[i]) : width;
	if (status == ESPL_OK && runs.count > 0 && !json)
		espl__print(&b, "%-*s  %-11s %8s  %6s  %9s  best\n", width, "run", "status", "time",
		    "trials", "finished");
	for (uint32_t i = 0; status == ESPL_OK && i < runs.count; i++) {
		struct espl__diag why = ESPL__DIAG_INIT;
		struct espl__reading *r;

		if (espl__reading_open(runs.names[i], &r, &why) != ESPL_OK) {
			espl__diag_print(stderr, &why);
			continue;
		}
		if (json)
			put_json(runs.names[i], &r->totals, &b);
		else
			put_text(runs.names[i], width, &r->totals, &b);
		espl__reading_free(r);
	}
	if (status == ESPL_OK && runs.count == 0 && !json)
		espl__print(&b, "no runs found\n");
	result = status == ESPL_OK ? espl__cli_print(&b) : espl__cli_fail(&diag);
	espl__runs_free(&runs);
	espl__buf_free(&b);
	return result;
}
