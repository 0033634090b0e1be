/* verb_report.c - report: a run as one page of HTML, plan against reality. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/plan.h"
#include "report/report_html.h"

/* ---- the plan to compare with ------------------------------------------------------------------- */

static void
take_answer(const struct espl__plan_answer *a, struct espl__arena *arena, struct espl__report_fixed *to)
{
	if (a->status == ESPL_E_INFEASIBLE || (a->status == ESPL_OK && !a->meets)) {
		to->why_not = "none keeps the deadline and the budget";
		return;
	}
	if (a->status != ESPL_OK) {
		to->why_not = espl__arena_strdup(arena, a->diag.text);
		return;
	}
	to->jct_s = a->jct_s.mean;
	to->cost_usd = a->cost_usd.mean;
	to->stages = espl__arena_alloc(arena, (a->row_count + (size_t)1) * sizeof *to->stages);
	for (; to->stage_count < a->row_count; to->stage_count++) {
		const struct espl__plan_row *row = &a->rows[to->stage_count];

		to->stages[to->stage_count] = (struct espl__report_stage){ row->starts_s, row->ends_s, row->cost_usd };
	}
}

/* The cheapest static plan for what the run was configured to do; only a run that was planned has
 * what it takes to know.  0: there is nothing to say. */
static int
find_fixed(struct espl__reading *r, const char *dir, struct espl__arena *arena, struct espl__report_fixed *to)
{
	struct espl__plan_ask    how = { .allocator = "static" };
	struct espl__plan_answer answer;
	struct espl__session     session;
	struct espl__diag        diag = ESPL__DIAG_INIT;
	sqlite3_stmt *st = espl__reading_query(r, "SELECT 1 FROM predictions WHERE cost_usd IS NOT NULL LIMIT 1",
	                                       -1, -1, NULL);
	int   planned = st != NULL && espl__reading_next(r, st, NULL) == 1;
	char *path = espl__format("%s/run.cfg", dir);

	(void)sqlite3_finalize(st);
	memset(to, 0, sizeof *to);
	if (planned && espl__session_load(path, NULL, 0, ESPL__NEED_SEARCH, &session, &diag) != ESPL_OK) {
		to->why_not = espl__arena_strdup(arena, diag.text);
	} else if (planned) {
		session.config->allocator.group = NULL;		/* no size is given: it looks for the cheapest */
		espl__plan_find(&session, &how, arena, &answer);
		take_answer(&answer, arena, to);
		espl__session_free(&session);
	}
	free(path);
	return planned;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Beside OUT and renamed, so that OUT is never half a page.  out NULL: standard output. */
static espl_status
write_page(struct espl__reading *r, const struct espl__report_fixed *fixed, const char *out,
           struct espl__diag *diag)
{
	char *temporary = out != NULL ? espl__format("%s.%ld", out, (long)getpid()) : NULL;
	FILE *to = out != NULL ? fopen(temporary, "we") : stdout;
	espl_status status;
	int   broken;

	if (to == NULL) {
		status = espl__fail(diag, ESPL_E_CONFIG, "cannot write '%s': %s", out, strerror(errno));
		espl__hint(diag, "-o FILE.html writes elsewhere");
	} else {
		status = espl__report_html(r, fixed, to, diag);
		broken = fflush(to) != 0 || ferror(to);
		if (out != NULL)
			broken |= fclose(to) != 0;
		if (status == ESPL_OK && broken)
			status = espl__fail_errno(diag, "cannot write %s", out != NULL ? out : "the output");
		if (status == ESPL_OK && out != NULL && rename(temporary, out) < 0)
			status = espl__fail_errno(diag, "cannot make '%s'", out);
		if (status != ESPL_OK && out != NULL)
			(void)unlink(temporary);
	}
	free(temporary);
	return status;
}

int
espl__verb_report(const struct espl__args *args)
{
	struct espl__diag         diag = ESPL__DIAG_INIT;
	struct espl__arena        arena = { NULL };
	struct espl__report_fixed fixed;
	struct espl__reading     *r;
	const char *dir = args->positional[0], *given = espl__arg(args, "output");
	char       *out;
	espl_status status;
	int         has_fixed;

	if (espl__reading_open(dir, &r, &diag) != ESPL_OK)
		return espl__cli_fail(&diag);
	has_fixed = find_fixed(r, dir, &arena, &fixed);
	out = given != NULL && strcmp(given, "-") == 0 ? NULL
	      : given != NULL ? espl__strdup(given) : espl__format("%s/report.html", dir);
	status = write_page(r, has_fixed ? &fixed : NULL, out, &diag);
	if (status == ESPL_OK && given == NULL)
		printf("%s\n", out);
	free(out);
	espl__arena_free(&arena);
	espl__reading_free(r);
	return status == ESPL_OK ? ESPL__EXIT_DONE : espl__cli_fail(&diag);
}
