/* machines.c - what a run knows of its machines, as `espalier nodes DIR` shows it. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "report/results_read.h"

static const char machines_sql[] =
    "SELECT machine, offer, node, health, failures, reported_s, failed_s, avoid_until_s, why,"
    " (SELECT state FROM nodes WHERE id = node) FROM machines ORDER BY offer, node, machine";

enum column { MACHINE, OFFER, NODE, HEALTH, FAILURES, REPORTED, FAILED, UNTIL, WHY, STATE };

static const char *
text_of(sqlite3_stmt *st, int column)
{
	const char *text = (const char *)sqlite3_column_text(st, column);

	return text != NULL ? text : "";
}

/* "avoided" is so only until a time. */
static const char *
health_of(const struct espl__reading *r, sqlite3_stmt *st)
{
	const char *word = text_of(st, HEALTH);

	return strcmp(word, "avoided") == 0 && r->totals.jct_s >= espl__reading_real(st, UNTIL)
	    ? "good"
	    : word;
}

static void
put_json(const struct espl__reading *r, sqlite3_stmt *st, struct espl__buf *b)
{
	espl__json_open(b, NULL, '{');
	espl__json_text(b, "machine", text_of(st, MACHINE));
	espl__json_text(b, "offer", text_of(st, OFFER));
	espl__json_int(b, "lease", sqlite3_column_int64(st, NODE));
	espl__json_text(b, "state", text_of(st, STATE));
	espl__json_text(b, "health", health_of(r, st));
	espl__json_int(b, "failures", sqlite3_column_int64(st, FAILURES));
	espl__json_real(b, "reported_s", espl__reading_real(st, REPORTED));
	espl__json_real(b, "failed_s", espl__reading_real(st, FAILED));
	espl__json_real(b, "avoid_until_s", espl__reading_real(st, UNTIL));
	espl__json_text(b, "why", text_of(st, WHY));
	espl__print(b, "}");
}

static void
put_text(const struct espl__reading *r, sqlite3_stmt *st, int first, struct espl__buf *b)
{
	double failed = espl__reading_real(st, FAILED);
	char ago[32];

	if (first)
		espl__print(b, "%-24s  %-16s  %5s  %-9s  %-8s  %s\n", "machine of this run",
		    "offer", "lease", "state", "health", "last failure");
	espl__print(b, "%-24.60s  %-16.40s  %5lld  %-9s  %-8s  ", text_of(st, MACHINE),
	    text_of(st, OFFER), (long long)sqlite3_column_int64(st, NODE), text_of(st, STATE),
	    health_of(r, st));
	if (isnan(failed)) {
		espl__print(b, "none");
	} else {
		(void)espl__format_short((int64_t)((r->totals.jct_s - failed) * 1e9), ago);
		espl__print(b, "%s ago: ", ago);
		espl__print_clean(b, text_of(st, WHY));
	}
	espl__print(b, "\n");
}

int
espl__reading_machines(struct espl__reading *r, int json, struct espl__buf *b)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	sqlite3_stmt *st = espl__reading_query(r, machines_sql, -1, -1, &diag);
	int count = 0;

	while (st != NULL && espl__reading_next(r, st, &diag) == 1) {
		if (json)
			put_json(r, st, b);
		else
			put_text(r, st, count == 0, b);
		count++;
	}
	(void)sqlite3_finalize(st);
	return count;
}
