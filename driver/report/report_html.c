/* report_html.c - the page of `espalier report` as a whole: its frame and its parts. */
#include "base/assert.h"
#include "report/report_html_impl.h"

#include <string.h>

#include "config.h"

static void
begin_page(struct espl__html *h)
{
	espl__print(&h->b,
	    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
	    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>");
	espl__html_text(&h->b, h->r->totals.experiment, 100);
	espl__print(&h->b, " - espalier</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n",
	    espl__html_style);
}

static void
send_html(struct espl__html *h, FILE *to)
{
	(void)fwrite(h->b.data, 1, h->b.size, to);
	espl__buf_clear(&h->b);
}

espl_status
espl__report_html(struct espl__reading *r, const struct espl__report_fixed *fixed, int log_scale,
    FILE *to, struct espl__diag *diag)
{
	struct espl__html h = { .r = r,
		.fixed = fixed,
		.diag = diag,
		.only = -1,
		.log_scale = log_scale };
	espl_status status = espl__html_load(&h);

	ESPL__CHECK(r, READING);
	if (status == ESPL_OK) {
		begin_page(&h);
		espl__html_head(&h);
		if (h.node_count > 0 || h.stage_count > 0)
			espl__html_gantt(&h);
		send_html(&h, to);
		status = espl__html_pool(&h);
	}
	if (status == ESPL_OK) {
		espl__html_lines(&h);
		send_html(&h, to);
		status = espl__html_gpus(&h);
	}
	if (status == ESPL_OK)
		status = espl__html_each_search(&h, espl__html_curves);
	if (status == ESPL_OK) {
		espl__html_stages(&h);
		status = espl__html_trouble(&h);
	}
	if (status == ESPL_OK)
		status = espl__html_each_search(&h, espl__html_trials);
	if (status == ESPL_OK) {
		espl__print(&h.b,
		    "<footer>espalier %s, from results.db%s</footer>\n</main>\n</body>\n</html>\n",
		    PACKAGE_VERSION, r->running ? " while the run was in progress" : "");
		send_html(&h, to);
	}
	espl__html_free(&h);
	return status;
}
