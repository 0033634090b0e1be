/* verb_report.c - report: a run as one page of HTML, plan against reality. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/static_plan.h"

/* What write_page is to write. */
struct page {
	struct espl__reading *run;
	const struct espl__report_fixed *fixed;
	int log_scale;
};

static espl_status
write_page(void *ctx, FILE *to, struct espl__diag *diag)
{
	const struct page *page = ctx;

	return espl__report_html(page->run, page->fixed, page->log_scale, to, diag);
}

int
espl__verb_report(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__arena arena = { NULL };
	struct espl__report_fixed fixed = { .why_not = NULL };
	struct espl__reading *r;
	struct page page;
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
	page = (struct page){ r, planned ? &fixed : NULL, espl__arg(args, "log") != NULL };
	/* A link that somebody put there is replaced, and nothing written through it. */
	status = given != NULL ? espl__cli_write(out, write_page, &page, &diag)
			       : espl__cli_write_new(out, write_page, &page, &diag);
	if (status == ESPL_OK && given == NULL)
		printf("%s\n", out);
	free(out);
	free(config);
	espl__arena_free(&arena);
	espl__reading_free(r);
	return status == ESPL_OK ? ESPL__EXIT_DONE : espl__cli_fail(&diag);
}
