/* verb_pool.c - submit, cancel, queue: requests to a pool, and its state.
 *
 * A request is put into the pool's directory and answered there by its driver (real/spool.c); if
 * there is none, it waits for `espalier resume`.  The command holds a lock beside the request while
 * it waits for the answer, so that the driver knows whether anything waits.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/run_dir.h"
#include "report/results_read.h"
#include "run/journal.h"

#define ANSWER_WITHIN 100 /* tenths of a second that an answer is waited for */

/* One that has ended hears nothing any more. */
static espl_status
goes_on(const char *given, const char *dir, struct espl__diag *diag)
{
	struct espl__reading *r;
	espl_status status = ESPL_OK;

	if (espl__run_held(dir) || espl__reading_open(dir, &r, NULL) != ESPL_OK)
		return ESPL_OK; /* it cannot be told here; the driver that resumes it can */
	if (strcmp(r->totals.status, "interrupted") != 0 &&
	    (strcmp(r->totals.status, "failed") != 0 || r->totals.over)) {
		status = espl__fail(diag, ESPL_E_CONFIG, "the pool in '%s' has ended: %s", given,
		    r->totals.status);
		espl__hint(diag,
		    "a pool ends when all its experiments and jobs have ended; start another one");
	}
	espl__reading_free(r);
	return status;
}

/* A real pool's directory: E_CONFIG with a hint where it is none. */
static espl_status
find_pool(const char *given, char **dir, struct espl__diag *diag)
{
	struct espl__run_config *config = NULL;
	struct espl__journal_reader *reader = NULL;
	struct espl__journal_header header = { .simulated = 0 };
	char *path, *journal;
	espl_status status = espl__run_dir_find(given, dir, diag);

	if (status != ESPL_OK)
		return status;
	path = espl__format("%s/run.cfg", *dir);
	journal = espl__format("%s/journal", *dir);
	status = espl__run_load(path, NULL, 0, ESPL__NEED_TRIAL, &config, diag);
	if (status == ESPL_OK && !config->pool) {
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' is not a pool but the run of a single experiment", given);
		espl__hint(diag, "a pool's configuration has a group 'experiments' or 'workload'");
	}
	if (status == ESPL_OK && espl__journal_open(journal, &reader, &header, NULL) == ESPL_OK)
		espl__journal_reader_free(reader);
	if (status == ESPL_OK && header.simulated)
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "the pool in '%s' was simulated and has already ended", given);
	if (status == ESPL_OK)
		status = goes_on(given, *dir, diag);
	espl__run_free(config);
	free(path);
	free(journal);
	return status;
}

/* A unique name for a request, in order of submission. */
static char *
request_name(const char *kind)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return espl__format("%s-%lld%09ld-%ld", kind, (long long)now.tv_sec, now.tv_nsec,
	    (long)getpid());
}

/* Made before the request: DIR/spool, and .ID.asker, which is locked until the descriptor is
 * closed. */
static espl_status
begin_asking(const char *dir, const char *request, int *asker, struct espl__diag *diag)
{
	char *spool = espl__format("%s/spool", dir),
	     *path = espl__format("%s/.%s.asker", spool, request);
	espl_status status = espl__dir_make(spool, diag);

	if (status == ESPL_OK)
		status = espl__lock(path, asker, diag);
	free(spool);
	free(path);
	return status;
}

static void
end_asking(const char *dir, const char *request, int asker)
{
	char *path = espl__format("%s/spool/.%s.asker", dir, request);

	if (asker >= 0) {
		(void)unlink(path);
		(void)close(asker);
	}
	free(path);
}

/* The driver's answer: "accepted" or "refused", and on the next line the name or the reason.
 * Returns the exit status. */
static int
report_answer(const char *path, const char *what, const char *name)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	const char *line;
	int result = ESPL__EXIT_DONE;

	if (espl__file_read(path, 65536, &text, &diag) != ESPL_OK) {
		result = espl__cli_fail(&diag);
	} else {
		line = strchr(espl__buf_text(&text), '\n');
		line = line != NULL ? line + 1 : "";
		if (strncmp(espl__buf_text(&text), "accepted", 8) == 0) {
			printf("%s: %.*s\n", what, (int)strcspn(line, "\n"), line);
		} else {
			(void)espl__fail(&diag, ESPL_E_CONFIG, "'%s' was not %s: %.*s", name, what,
			    (int)strcspn(line, "\n"), line);
			result = espl__cli_fail(&diag);
		}
		(void)unlink(path);
	}
	espl__buf_free(&text);
	return result;
}

/* Waits for the driver's word, and ends the asking.  Returns the exit status. */
static int
wait_for_answer(const char *dir, const char *request, int asker, const char *what, const char *name)
{
	char *path = espl__format("%s/spool/%s.answer", dir, request),
	     *asked = espl__format("%s/spool/%s", dir, request);
	int result = ESPL__EXIT_DONE, held = 1;
	struct espl__diag diag = ESPL__DIAG_INIT;

	for (int i = 0;
	     i < ANSWER_WITHIN && access(path, R_OK) != 0 && (held = espl__run_held(dir)) != 0; i++)
		(void)usleep(100000);
	/* an answer written so far is read, a later one is removed by the driver */
	end_asking(dir, request, asker);
	if (access(path, R_OK) == 0) {
		result = report_answer(path, what, name);
		if (result != ESPL__EXIT_DONE) /* the owner of the pool may have had no right to */
			(void)espl__tree_remove(asked, NULL);
		/* the pool ended meanwhile and will not read requests any more */
	} else if (!held && goes_on(dir, dir, &diag) != ESPL_OK) {
		(void)espl__tree_remove(asked, NULL);
		result = espl__cli_fail(&diag);
	} else {
		printf("%s: not yet %s; %s\n", name, what,
		    held ? "the pool's driver has not replied yet"
			 : "no driver is running; `espalier resume` will process the request");
	}
	free(asked);
	free(path);
	return result;
}

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
	char *dir = NULL, *request = request_name("submit");
	int result, asker = -1;
	espl_status status;

	memset(&inputs, 0, sizeof inputs);
	status = find_pool(args->positional[0], &dir, &diag);
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
		status = begin_asking(dir, request, &asker, &diag);
	}
	if (status == ESPL_OK)
		status = put_experiment(&inputs, dir, request, &diag);
	if (status == ESPL_OK) {
		result = wait_for_answer(dir, request, asker, "submitted", inputs.config->name);
	} else {
		end_asking(dir, request, asker);
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
	struct espl__diag diag = ESPL__DIAG_INIT;
	const char *name = args->positional[1];
	char *dir = NULL, *request = request_name("cancel"), *path;
	espl_status status = find_pool(args->positional[0], &dir, &diag);
	int result, asker = -1;

	path = espl__format("%s/spool/%s", dir, request);
	if (status == ESPL_OK)
		status = begin_asking(dir, request, &asker, &diag);
	if (status == ESPL_OK)
		status = espl__file_write_private(path, name, strlen(name), &diag);
	if (status == ESPL_OK) {
		result = wait_for_answer(dir, request, asker, "cancelled", name);
	} else {
		end_asking(dir, request, asker);
		result = espl__cli_fail(&diag);
	}
	free(path);
	free(request);
	free(dir);
	return result;
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
