/* verb_report.c - report: a run as one page of HTML, plan against reality. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/static_plan.h"

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
	int planned, fd;

	if (espl__reading_open(dir, &r, &diag) != ESPL_OK)
		return espl__cli_fail(&diag);
	planned = espl__static_plan_asked(r);
	fd = espl__static_plan_open();
	config = espl__format("%s/run.cfg", dir);
	if (planned) {
		espl__static_plan_find(config, fd);
		espl__static_plan_read(fd, &arena, &fixed);
	}
	if (fd >= 0)
		(void)close(fd);
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
