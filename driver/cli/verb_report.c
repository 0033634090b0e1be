/* verb_report.c - report: a run as one page of HTML, plan against reality. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/plan.h"
#include "report/report_html.h"

/* ---- the plan to compare with -------------------------------------------------------------------
 *
 * The cheapest static plan is looked for anew.  In a process of its own: a search for it may take
 * hours where the run itself was long, and a page is not to wait for that.
 */
#define LOOK_S 3 /* of processor time */

struct answer {
	double jct_s, cost_usd;
	uint32_t stage_count, zero;
	char why_not[512];
};

static void
look_for_plan(const char *path, FILE *to)
{
	struct espl__plan_ask how = { .allocator = "static" };
	struct espl__plan_answer found;
	struct espl__session session;
	struct espl__arena arena = { NULL };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct answer answer;

	memset(&answer, 0, sizeof answer);
	memset(&found, 0, sizeof found);
	if (espl__session_load(path, NULL, 0, 0, &session, &diag) != ESPL_OK) {
		(void)snprintf(answer.why_not, sizeof answer.why_not, "%s", diag.text);
	} else {
		/* no size is given: it looks for the cheapest */
		session.config->allocator.group = NULL;
		espl__plan_find(&session, &how, &arena, &found);
		if (found.status == ESPL_E_INFEASIBLE || (found.status == ESPL_OK && !found.meets))
			(void)snprintf(answer.why_not, sizeof answer.why_not, "%s",
			    "no static plan meets the deadline and the budget");
		else if (found.status != ESPL_OK)
			(void)snprintf(answer.why_not, sizeof answer.why_not, "%s",
			    found.diag.text);
		answer.jct_s = found.jct_s.mean;
		answer.cost_usd = found.cost_usd.mean;
		answer.stage_count = answer.why_not[0] == '\0' ? found.row_count : 0;
	}
	(void)fwrite(&answer, sizeof answer, 1, to);
	for (uint32_t i = 0; i < answer.stage_count; i++) {
		const struct espl__plan_row *row = &found.rows[i];
		struct espl__report_stage stage = { row->starts_s, row->ends_s, row->cost_usd };

		(void)fwrite(&stage, sizeof stage, 1, to);
	}
	(void)fflush(to);
	_exit(0); /* all else is the parent's */
}

static void
read_answer(FILE *from, struct espl__arena *arena, struct espl__report_fixed *to)
{
	struct answer answer;

	to->why_not = "the search for a static plan took too long (`espalier plan --compare` has "
		      "no time limit)";
	if (fread(&answer, sizeof answer, 1, from) != 1)
		return;
	if (answer.why_not[0] != '\0') {
		to->why_not = espl__arena_strdup(arena, answer.why_not);
		return;
	}
	to->stages =
	    espl__arena_alloc(arena, (answer.stage_count + (size_t)1) * sizeof *to->stages);
	to->stage_count = (uint32_t)fread(to->stages, sizeof *to->stages, answer.stage_count, from);
	to->jct_s = answer.jct_s;
	to->cost_usd = answer.cost_usd;
	if (to->stage_count == answer.stage_count)
		to->why_not = NULL;
}

static void
find_fixed(const char *path, struct espl__arena *arena, struct espl__report_fixed *to)
{
	/* the end of time dumps core */
	struct rlimit time = { LOOK_S, LOOK_S + 1 }, core = { 0, 0 };
	int ends[2], status;
	pid_t pid;
	FILE *from, *out;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		to->why_not = espl__arena_strdup(arena, strerror(errno));
		return;
	}
	from = fdopen(ends[0], "r");
	out = fdopen(ends[1], "w");
	pid = from != NULL && out != NULL ? fork() : -1;
	if (pid == 0) {
		if (setrlimit(RLIMIT_CORE, &core) == 0 && setrlimit(RLIMIT_CPU, &time) == 0)
			look_for_plan(path, out);
		_exit(1);
	}
	if (pid < 0)
		to->why_not = espl__arena_strdup(arena, strerror(errno));
	if (out != NULL)
		(void)fclose(out);
	else
		(void)close(ends[1]);
	if (pid > 0)
		read_answer(from, arena, to);
	if (from != NULL)
		(void)fclose(from);
	else
		(void)close(ends[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}

/* Only a run that was planned has what it takes to know. */
static int
was_planned(struct espl__reading *r)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT 1 FROM predictions WHERE cost_usd IS NOT NULL LIMIT 1", -1, -1, NULL);
	int planned = st != NULL && espl__reading_next(r, st, NULL) == 1;

	(void)sqlite3_finalize(st);
	return planned;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* Beside OUT and renamed, so that OUT is never half a page.  out NULL: standard output. */
static espl_status
write_page(struct espl__reading *r, const struct espl__report_fixed *fixed, int log_scale,
    const char *out, struct espl__diag *diag)
{
	char *temporary = out != NULL ? espl__format("%s.%ld", out, (long)getpid()) : NULL;
	FILE *to = out != NULL ? fopen(temporary, "we") : stdout;
	espl_status status;
	int broken;

	if (to == NULL) {
		status =
		    espl__fail(diag, ESPL_E_CONFIG, "cannot write '%s': %s", out, strerror(errno));
		espl__hint(diag, "choose another file with -o FILE.html");
	} else {
		status = espl__report_html(r, fixed, log_scale, to, diag);
		broken = fflush(to) != 0 || ferror(to);
		if (out != NULL)
			broken |= fclose(to) != 0;
		if (status == ESPL_OK && broken)
			status = espl__fail_errno(diag, "cannot write %s",
			    out != NULL ? out : "the output");
		if (status == ESPL_OK && out != NULL && rename(temporary, out) < 0)
			status = espl__fail_errno(diag, "cannot create '%s'", out);
		if (status != ESPL_OK && out != NULL)
			(void)unlink(temporary);
	}
	free(temporary);
	return status;
}

int
espl__verb_report(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__arena arena = { NULL };
	struct espl__report_fixed fixed = { .why_not = NULL };
	struct espl__reading *r;
	const char *dir = args->positional[0], *given = espl__arg(args, "output");
	char *out, *config;
	espl_status status;
	int planned;

	if (espl__reading_open(dir, &r, &diag) != ESPL_OK)
		return espl__cli_fail(&diag);
	planned = was_planned(r);
	config = espl__format("%s/run.cfg", dir);
	if (planned)
		find_fixed(config, &arena, &fixed);
	out = given != NULL && strcmp(given, "-") == 0 ? NULL
	    : given != NULL                            ? espl__strdup(given)
						       : espl__format("%s/report.html", dir);
	status = write_page(r, planned ? &fixed : NULL, espl__arg(args, "log") != NULL, out, &diag);
	if (status == ESPL_OK && given == NULL)
		printf("%s\n", out);
	free(out);
	free(config);
	espl__arena_free(&arena);
	espl__reading_free(r);
	return status == ESPL_OK ? ESPL__EXIT_DONE : espl__cli_fail(&diag);
}
