/* explain.c - the life of a trial, or of the run, from results.db: the decisions, their times and
 * reasons.
 */
#include "base/assert.h"
#include "report/wait_times.h"

#include <math.h>
#include <string.h>

/* Rows of all tables that mention the trial, by time; within an instant in the order of `rank`: a
 * report precedes its consequences. Notes of the executor that repeat a decision or a start in
 * other words are left out. kind: 0 report, 1 gang ended, 2 decision, 3 note, 4 gang starts, 5 a
 * text that was attached to the trial. */
static const char life_sql[] =
    "SELECT at_s, 0 AS kind, iteration AS n, metric AS x, '' AS who, '' AS text, gpus AS a, "
    "packing AS b,"
    "  0 AS rank FROM reports WHERE trial = ?1"
    " UNION ALL SELECT ended_s, 1, id, NULL, '', text, NULL, NULL, 1 FROM gangs"
    "  WHERE trial = ?1 AND ended_s IS NOT NULL AND text IS NOT NULL AND NOT EXISTS"
    "  (SELECT 1 FROM notes WHERE subject = 'trial' AND subject_id = ?1 AND at_s = ended_s"
    "   AND instr(notes.text, gangs.text) > 0)"
    " UNION ALL SELECT at_s, 2, id, NULL, what, '', group_id, NULL,"
    "  CASE WHEN what IN ('displaced', 'retried') THEN 4 ELSE 2 END FROM decisions"
    "  WHERE trial = ?1 AND what IN ('created', 'promoted', 'budget', 'displaced', 'retried')"
    " UNION ALL SELECT at_s, 3, id, NULL, who, text, NULL, NULL, 3 FROM notes"
    "  WHERE subject = 'trial' AND subject_id = ?1 AND NOT (who = 'executor' AND (text LIKE 'is "
    "created to train %'"
    "   OR text LIKE 'is cloned%' OR text LIKE 'is continued %' OR text LIKE 'gang % starts on %'))"
    " UNION ALL SELECT at_s, 5, 0, NULL, key, text, NULL, NULL, 3 FROM trial_notes WHERE trial = ?1"
    " UNION ALL SELECT from_s, 4, id, running_s, coalesce((SELECT group_concat(host, ', ') FROM"
    "  nodes WHERE id IN (SELECT json_extract(value, '$[0]') FROM json_each(stays.slots))), ''),"
    "  stays.slots, stays.gpus, stays.packing, 5"
    "  FROM gangs JOIN stays ON gang = id AND number = 0 WHERE gangs.trial = ?1"
    " ORDER BY 1, rank, 3";

/* reports in a row */
struct spell {
	uint32_t count;
	double last_s, first, last, best;
	int64_t from, to;
};

struct story {
	struct espl__reading *r;
	struct espl__buf *b;
	uint64_t trial;
	/* a plain job, which has no metric to compare */
	int job;
	struct spell spell;
};

static void
print_time(struct story *s, double at)
{
	char time[32];

	espl__print(s->b, "  %8s  ", espl__format_seconds(at, time));
}

static void
end_spell(struct story *s)
{
	struct spell *w = &s->spell;
	const char *metric = s->r->totals.metric;
	char first[32], last[32], best[32];

	if (w->count == 0)
		return;
	print_time(s, w->last_s);
	if (s->job) {
		espl__print(s->b, "completed iteration %lld\n", (long long)w->to);
	} else if (w->count == 1) {
		espl__print(s->b, "iteration %lld: ", (long long)w->to);
		espl__print_clean(s->b, metric);
		espl__print(s->b, " %s\n", espl__format_metric(w->last, last));
	} else {
		espl__print(s->b, "iterations %lld to %lld: ", (long long)w->from,
		    (long long)w->to);
		espl__print_clean(s->b, metric);
		espl__print(s->b, " from %s to %s", espl__format_metric(w->first, first),
		    espl__format_metric(w->last, last));
		if (!isnan(w->best) && w->best != w->last)
			espl__print(s->b, ", at best %s", espl__format_metric(w->best, best));
		espl__print(s->b, "\n");
	}
	memset(w, 0, sizeof *w);
}

static void
add_report(struct story *s, sqlite3_stmt *st)
{
	struct spell *w = &s->spell;
	double metric = espl__reading_real(st, 3);

	w->last_s = sqlite3_column_double(st, 0);
	w->to = sqlite3_column_int64(st, 2);
	w->last = metric;
	if (w->count++ == 0) {
		w->from = w->to;
		w->first = w->best = metric;
	}
	if (isnan(w->best) || (s->r->totals.maximize ? metric > w->best : metric < w->best))
		w->best = metric;
}

/* Its rank among the trials that had reached the iteration by then. */
static void
print_rank(struct story *s, int64_t iteration, double at)
{
	static const char better_sql[] =
	    "SELECT count(*), sum(metric IS NOT NULL AND (own IS NULL OR"
	    " CASE WHEN ?2 THEN metric > own ELSE metric < own END)) FROM reports, (SELECT metric "
	    "AS own FROM reports WHERE trial = ?1 AND iteration = ?3)"
	    " WHERE iteration = ?3 AND at_s <= ?4 AND trial >> 40 = ?1 >> 40";
	sqlite3_stmt *st =
	    espl__reading_query(s->r, better_sql, (int64_t)s->trial, s->r->totals.maximize, NULL);
	int64_t all;

	if (st == NULL)
		return;
	(void)sqlite3_bind_int64(st, 3, iteration);
	(void)sqlite3_bind_double(st, 4, at);
	if (espl__reading_next(s->r, st, NULL) == 1 && (all = sqlite3_column_int64(st, 0)) > 1)
		espl__print(s->b, "rank %lld of the %lld trials that had reached iteration %lld",
		    sqlite3_column_int64(st, 1) + 1, (long long)all, (long long)iteration);
	else
		espl__print(s->b, "the only trial that had reached iteration %lld",
		    (long long)iteration);
	(void)sqlite3_finalize(st);
}

static void
report_decision(struct story *s, sqlite3_stmt *row)
{
	sqlite3_stmt *st = espl__reading_query(s->r,
	    "SELECT d.iteration, d.budget, t.parent"
	    " FROM decisions d JOIN trials t ON t.id = d.trial WHERE d.id = ?1",
	    sqlite3_column_int64(row, 2), -1, NULL);
	const char *what = (const char *)sqlite3_column_text(row, 4);
	double at = sqlite3_column_double(row, 0);
	long long iteration, budget;
	char group[48], parent[48];

	if (st == NULL || espl__reading_next(s->r, st, NULL) != 1) {
		(void)sqlite3_finalize(st);
		return;
	}
	iteration = sqlite3_column_int64(st, 0);
	budget = sqlite3_column_int64(st, 1);
	espl__reading_group_name(s->r, sqlite3_column_int64(row, 6), group);
	print_time(s, at);
	if (strcmp(what, "created") == 0) {
		if (s->job)
			espl__print(s->b, "arrives, to train up to iteration %lld", budget);
		else if (espl__reading_pool(s->r))
			espl__print(s->b, "created in %s, to train up to iteration %lld", group,
			    budget);
		else
			espl__print(s->b,
			    "created by algorithm '%s' in %s, to train up to iteration %lld",
			    s->r->algorithm != NULL ? s->r->algorithm : "?", group, budget);
		if (sqlite3_column_type(st, 2) != SQLITE_NULL)
			espl__print(s->b, ", cloned from trial %s at iteration %lld",
			    espl__trial_name((uint64_t)sqlite3_column_int64(st, 2), parent),
			    iteration);
	} else if (strcmp(what, "promoted") == 0) {
		espl__print(s->b, "promoted to %s, to train up to iteration %lld: ", group, budget);
		print_rank(s, iteration, at);
	} else if (strcmp(what, "budget") == 0) {
		espl__print(s->b, "budget raised to iteration %lld", budget);
	} else if (strcmp(what, "displaced") == 0) {
		espl__print(s->b, "waits for %s at iteration %lld",
		    espl__slots_word(s->r->totals.on_cpu, 0), iteration);
	} else {
		espl__print(s->b, "is retried");
	}
	espl__print(s->b, "\n");
	(void)sqlite3_finalize(st);
}

/* With which iteration a gang began, and what was trained before and is trained again. */
static void
print_from(struct story *s, int64_t gang)
{
	sqlite3_stmt *st = espl__reading_query(s->r,
	    "SELECT from_iteration, coalesce((SELECT max(iteration) FROM reports r"
	    " WHERE r.trial = g.trial AND at_s <= starting_s), 0) FROM gangs g WHERE id = ?1",
	    gang, -1, NULL);
	int64_t from, reached;

	if (st != NULL && espl__reading_next(s->r, st, NULL) == 1) {
		from = sqlite3_column_int64(st, 0);
		reached = sqlite3_column_int64(st, 1);
		if (from > 0 || reached > 0)
			espl__print(s->b, ", from iteration %lld", (long long)from);
		if (reached == from + 1)
			espl__print(s->b, " (iteration %lld again)", (long long)reached);
		else if (reached > from)
			espl__print(s->b, " (iterations %lld to %lld again)", (long long)from + 1,
			    (long long)reached);
	}
	(void)sqlite3_finalize(st);
}

static void
report_start(struct story *s, sqlite3_stmt *row)
{
	double at = sqlite3_column_double(row, 0), running = espl__reading_real(row, 3);
	int gpus = sqlite3_column_int(row, 6), packing = sqlite3_column_int(row, 7);
	int64_t on_cpu = s->r->totals.on_cpu;
	const char *hosts = (const char *)sqlite3_column_text(row, 4);
	char time[32];

	print_time(s, at);
	espl__print(s->b, "starts as gang %lld on ", sqlite3_column_int64(row, 2));
	if (packing > 1)
		espl__print(s->b, "1/%d of a %s", packing, espl__slots_word(on_cpu, 1));
	else
		espl__print(s->b, "%d %s", gpus, espl__slots_word(on_cpu, gpus));
	espl__print(s->b, ", [node, %s] %s", espl__slots_word(on_cpu, 1),
	    (const char *)sqlite3_column_text(row, 5));
	if (hosts[0] != '\0') {
		espl__print(s->b, " (");
		espl__print_clean(s->b, hosts);
		espl__print(s->b, ")");
	}
	print_from(s, sqlite3_column_int64(row, 2));
	if (running - at > 0.0005)
		espl__print(s->b, ", running %s later", espl__format_seconds(running - at, time));
	espl__print(s->b, "\n");
}

static void
print_note_name(struct story *s, const char *key)
{
	espl__print(s->b, "note ");
	espl__print_clean(s->b, key);
	espl__print(s->b, ": ");
}

static void
report_row(struct story *s, sqlite3_stmt *st)
{
	const char *who = (const char *)sqlite3_column_text(st, 4);
	const char *text = (const char *)sqlite3_column_text(st, 5);
	int kind = sqlite3_column_int(st, 1);

	if (kind == 0) {
		add_report(s, st);
		return;
	}
	end_spell(s);
	if (kind == 2) {
		report_decision(s, st);
	} else if (kind == 4) {
		report_start(s, st);
	} else {
		print_time(s, sqlite3_column_double(st, 0));
		if (kind == 1)
			espl__print(s->b, "gang %lld ended: ", sqlite3_column_int64(st, 2));
		else if (kind == 5)
			print_note_name(s, who);
		else if (who[0] != '\0' && strcmp(who, "executor") != 0)
			espl__print(s->b, "%s: ", who);
		espl__print_clean(s->b, text);
		espl__print(s->b, "\n");
	}
}

static void
job_head(struct story *s, sqlite3_stmt *trial)
{
	sqlite3_stmt *st = espl__reading_query(s->r,
	    "SELECT name, CASE WHEN status IN ('deadline', 'budget')"
	    " THEN 'ended by the ' || status ELSE status END, started_s - arrived_s FROM jobs "
	    "WHERE id = ?1",
	    (int64_t)s->trial, -1, NULL);
	char waited[32];

	espl__print(s->b, "plain job ");
	if (st != NULL && espl__reading_next(s->r, st, NULL) == 1) {
		espl__print_clean(s->b, (const char *)sqlite3_column_text(st, 0));
		espl__print(s->b, ": %s at iteration %lld of %lld",
		    (const char *)sqlite3_column_text(st, 1), sqlite3_column_int64(trial, 1),
		    sqlite3_column_int64(trial, 2));
		if (sqlite3_column_type(st, 2) != SQLITE_NULL)
			espl__print(s->b, ", started after %s",
			    espl__format_seconds(sqlite3_column_double(st, 2), waited));
	}
	(void)sqlite3_finalize(st);
}

/* How long a plain job waited for its first GPUs, and why. */
static espl_status
job_wait(struct story *s, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(s->r,
	    "SELECT arrived_s, ended_s FROM jobs WHERE id = ?1", (int64_t)s->trial, -1, diag);
	struct espl__waits *w = NULL;
	struct espl__wait wait;
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status = ESPL_E_REMOTE;
	double ended;
	char time[32];
	int got = st != NULL ? espl__reading_next(s->r, st, diag) : -1;

	if (got >= 0)
		status = got == 0 ? ESPL_OK : espl__waits_open(s->r, &w, diag);
	if (w != NULL) {
		ended = espl__reading_real(st, 1);
		espl__waits_first(w, ESPL__WAITS_JOB(s->trial), espl__reading_real(st, 0),
		    isnan(ended) ? s->r->totals.jct_s : ended, &wait);
		espl__wait_text(&wait, &text);
	}
	if (text.size > 0) {
		espl__print(s->b, "  waited %s: ", espl__format_seconds(wait.all_s, time));
		espl__print_clean(s->b, espl__buf_text(&text));
		espl__print(s->b, "\n");
	}
	(void)sqlite3_finalize(st);
	espl__buf_free(&text);
	espl__waits_free(w);
	return status;
}

static espl_status
report_head(struct story *s, struct espl__diag *diag)
{
	struct espl__reading *r = s->r;
	espl_status status;
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT state, iteration, budget, metric, params, group_id, gpu_s, cost_usd FROM "
	    "trials WHERE id = ?1",
	    (int64_t)s->trial, -1, diag);
	char number[32], group[48], name[48];

	if (st == NULL)
		return ESPL_E_REMOTE;
	if (espl__reading_next(r, st, diag) != 1) {
		(void)sqlite3_finalize(st);
		(void)espl__fail(diag, ESPL_E_UNKNOWN, "there is no trial %s in this run",
		    espl__trial_name(s->trial, name));
		if (espl__reading_pool(r))
			espl__hint(diag,
			    "the trials of experiment 1 are 1/0, 1/1, ..., the plain jobs 0, 1, "
			    "...; see `espalier queue`");
		else if (r->totals.trials > 0)
			espl__hint(diag, "the trials are 0 to %lld",
			    (long long)r->totals.trials - 1);
		return ESPL_E_UNKNOWN;
	}
	espl__reading_group_name(r, sqlite3_column_int64(st, 5), group);
	if (s->job) {
		job_head(s, st);
	} else {
		espl__print(s->b, "trial %s of ", espl__trial_name(s->trial, name));
		espl__print_clean(s->b, r->totals.experiment);
		espl__print(s->b, ": %s in %s at iteration %lld of %lld, ",
		    (const char *)sqlite3_column_text(st, 0), group, sqlite3_column_int64(st, 1),
		    sqlite3_column_int64(st, 2));
		espl__print_clean(s->b, r->totals.metric);
		espl__print(s->b, " %s", espl__format_metric(espl__reading_real(st, 3), number));
	}
	if (r->totals.best == (int64_t)s->trial)
		espl__print(s->b, "; the best of the %s",
		    espl__reading_pool(r) ? "experiment" : "run");
	espl__print(s->b, "\n  ");
	espl__print_params(s->b, (const char *)sqlite3_column_text(st, 4), "  ");
	espl__print(s->b, "\n  ");
	if (sqlite3_column_int64(st, 1) > 0 && !s->job) {
		print_rank(s, sqlite3_column_int64(st, 1), 1e300);
		espl__print(s->b, "\n  ");
	}
	espl__print(s->b, "%s of %s time",
	    espl__format_seconds(sqlite3_column_double(st, 6), number),
	    espl__slots_word(r->totals.on_cpu, 1));
	if (sqlite3_column_double(st, 7) > 0)
		espl__print(s->b, ", $%.4f", sqlite3_column_double(st, 7));
	espl__print(s->b, "\n");
	(void)sqlite3_finalize(st);
	status = s->job ? job_wait(s, diag) : ESPL_OK;
	espl__print(s->b, "\n");
	return status;
}

/* Which node or group a note is about, unless its text begins with that.  Offers have names, which
 * notes give. */
static void
name_subject(struct espl__buf *b, sqlite3_stmt *st)
{
	const char *text = (const char *)sqlite3_column_text(st, 2),
		   *subject = (const char *)sqlite3_column_text(st, 3);
	char name[48];

	if (strcmp(subject, "node") != 0 && strcmp(subject, "group") != 0)
		return;
	(void)snprintf(name, sizeof name, "%.10s %lld", subject,
	    (long long)sqlite3_column_int64(st, 4));
	if (strncmp(text, name, strlen(name)) != 0)
		espl__print(b, "%s ", name);
}

/* Notes about the run by time.  A note that a plugin repeats word for word is one row, at its first
 * time; the executor's notes are never merged. */
static const char run_sql[] =
    "SELECT min(at_s) AS at, who, text, subject, subject_id, count(*), max(at_s) FROM notes"
    " WHERE subject IN ('run', 'node', 'offer', 'group')"
    " GROUP BY who, text, subject, subject_id, CASE WHEN who = 'executor' THEN id END"
    " ORDER BY at, min(id)";

/* What was decided for the run as a whole: its plans, its nodes, the sizes asked for, its end. */
void
espl__explain_run(struct espl__reading *r, struct espl__buf *b)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	sqlite3_stmt *st = espl__reading_query(r, run_sql, -1, -1, &diag);
	char time[32];

	ESPL__CHECK(r, READING);
	espl__print_clean(b, r->totals.experiment);
	espl__print(b,
	    ": decisions about the run (see `espalier explain DIR TRIAL` for a trial)\n\n");
	while (st != NULL && espl__reading_next(r, st, &diag) == 1) {
		const char *who = (const char *)sqlite3_column_text(st, 1);

		espl__print(b, "  %8s  ", espl__format_seconds(sqlite3_column_double(st, 0), time));
		if (strcmp(who, "executor") != 0) {
			espl__print_clean(b, who);
			espl__print(b, ": ");
		}
		name_subject(b, st);
		espl__print_clean(b, (const char *)sqlite3_column_text(st, 2));
		if (sqlite3_column_int64(st, 5) > 1)
			espl__print(b, " (%lld times, last at %s)", sqlite3_column_int64(st, 5),
			    espl__format_seconds(sqlite3_column_double(st, 6), time));
		espl__print(b, "\n");
	}
	(void)sqlite3_finalize(st);
}

espl_status
espl__explain(struct espl__reading *r, uint64_t trial, struct espl__buf *b, struct espl__diag *diag)
{
	struct story s = { .r = r,
		.b = b,
		.trial = trial,
		.job = espl__reading_pool(r) && trial <= ESPL__TRIAL_NUMBER };
	sqlite3_stmt *st;
	espl_status status;
	int more;

	if (espl__reading_pool(r))
		(void)espl__reading_turn(r, (int64_t)(trial >> ESPL__TRIAL_BITS));
	status = report_head(&s, diag);
	if (status != ESPL_OK)
		return status;
	st = espl__reading_query(r, life_sql, (int64_t)trial, -1, diag);
	if (st == NULL)
		return ESPL_E_REMOTE;
	while ((more = espl__reading_next(r, st, diag)) == 1)
		report_row(&s, st);
	end_spell(&s);
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}
