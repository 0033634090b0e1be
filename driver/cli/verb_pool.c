/* verb_pool.c - submit, cancel, queue: requests to a pool, and its state. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/request.h"
#include "cli/run_dir.h"
#include "report/results_read.h"
#include "run/journal.h"

/* The experiment with copies of all files that it names, in a directory of the spool. */
static espl_status
put_experiment(const struct espl__inputs *s, const char *dir, const char *request,
    struct espl__diag *diag)
{
	char *draft = espl__format("%s/spool/.%s", dir, request),
	     *to = espl__format("%s/spool/%s", dir, request);
	espl_status status = espl__dir_make_private(draft, diag);

	if (status == ESPL_OK)
		status = espl__run_dir_write(s, draft, diag);
	if (status == ESPL_OK && rename(draft, to) != 0)
		status = espl__fail_errno(diag, "cannot create '%s'", to);
	if (status != ESPL_OK)
		(void)espl__tree_remove(draft, NULL);
	free(draft);
	free(to);
	return status;
}

int
espl__verb_submit(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__inputs inputs;
	const char **sets;
	uint32_t count = espl__arg_all(args, "set", &sets);
	char *dir = NULL, *request = espl__request_name("submit");
	int result, asker = -1;
	espl_status status;

	memset(&inputs, 0, sizeof inputs);
	status = espl__request_find(args->positional[0], 1, &dir, &diag);
	if (status == ESPL_OK)
		status = espl__inputs_load(args->positional[1], sets, count, ESPL__NEED_TRIAL,
		    &inputs, &diag);
	if (status == ESPL_OK)
		status = espl__inputs_check_entry(&inputs, &diag);
	if (status == ESPL_OK && inputs.config->trial.curves != NULL) {
		status = espl__fail_at(&diag, ESPL_E_CONFIG, inputs.config->path, 0,
		    "recorded curves can be simulated, not run");
	}
	if (status == ESPL_OK) {
		espl__inputs_env_report(&inputs);
		status = espl__request_begin(dir, request, &asker, &diag);
	}
	if (status == ESPL_OK)
		status = put_experiment(&inputs, dir, request, &diag);
	if (status == ESPL_OK) {
		result = espl__request_wait(dir, request, asker, "submitted", inputs.config->name);
	} else {
		espl__request_end(dir, request, asker);
		result = espl__cli_fail(&diag);
	}
	if (inputs.config != NULL)
		espl__inputs_free(&inputs);
	free(sets);
	free(request);
	free(dir);
	return result;
}

int
espl__verb_cancel(const struct espl__args *args)
{
	return espl__request_send(args->positional[0], 1, "cancel", args->positional[1],
	    "cancelled");
}

static int
is_asked(const struct dirent *entry)
{
	return strchr(entry->d_name, '.') == NULL;
}

/* The pool has not ended, but no driver is running: explains why no trial is running and which
 * requests wait. */
static void
explain_no_driver(const char *given, struct espl__buf *b)
{
	char *spool = espl__format("%s/spool", given);
	struct dirent **list = NULL;
	int count = scandir(spool, &list, is_asked, NULL);

	espl__print(b, "\n  no driver is running; continue with `espalier resume %s`", given);
	if (count > 0)
		espl__print(b, ", which will also process %d request%s that wait%s", count,
		    count == 1 ? "" : "s", count == 1 ? "s" : "");
	espl__print(b, "\n");
	for (int i = 0; i < count; i++)
		free(list[i]);
	free(list);
	free(spool);
}

int
espl__verb_queue(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__reading *r;
	espl_status status = espl__reading_open(args->positional[0], &r, &diag);
	int result, json = espl__arg(args, "json") != NULL;

	if (status == ESPL_OK)
		status = espl__reading_queue(r, json, &text, &diag);
	if (status == ESPL_OK && !json && strcmp(r->totals.status, "interrupted") == 0)
		explain_no_driver(args->positional[0], &text);
	result = status == ESPL_OK ? espl__cli_print(&text) : espl__cli_fail(&diag);
	espl__buf_free(&text);
	espl__reading_free(r);
	return result;
}
