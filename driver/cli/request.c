/* request.c - requests to the driver of a run: what is put into its directory, and the answer.
 *
 * The driver looks for them there (real/spool.c); if there is none, a request waits for `espalier
 * resume`.  The command holds a lock beside the request while it waits for the answer, so that the
 * driver knows whether anything waits.
 */
#include "cli/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/run_dir.h"
#include "input/input.h"
#include "report/results_read.h"
#include "run/journal.h"

#define ANSWER_WITHIN 100 /* tenths of a second that an answer is waited for */

/* One that has ended hears nothing any more. */
static espl_status
goes_on(const char *given, const char *dir, int pool, struct espl__diag *diag)
{
	struct espl__reading *r;
	espl_status status = ESPL_OK;

	if (espl__run_held(dir) || espl__reading_open(dir, &r, NULL) != ESPL_OK)
		return ESPL_OK; /* it cannot be told here; the driver that resumes it can */
	if (strcmp(r->totals.status, "interrupted") != 0 &&
	    (strcmp(r->totals.status, "failed") != 0 || r->totals.over)) {
		status = espl__fail(diag, ESPL_E_CONFIG, "the %s in '%s' has ended: %s",
		    pool ? "pool" : "run", given, r->totals.status);
		if (pool)
			espl__hint(diag,
			    "a pool ends when all its experiments and jobs have ended; start "
			    "another one");
	}
	espl__reading_free(r);
	return status;
}

espl_status
espl__request_find(const char *given, int pool, char **dir, struct espl__diag *diag)
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
	if (espl__run_dir_asked(*dir))
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "the trials of '%s' are evaluated by clients: it takes no requests", given);
	if (status == ESPL_OK)
		status = espl__run_load(path, NULL, 0, ESPL__NEED_TRIAL, &config, diag);
	if (status == ESPL_OK && pool && !config->pool) {
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' is not a pool but the run of a single experiment", given);
		espl__hint(diag, "a pool's configuration has a group 'experiments' or 'workload'");
	}
	if (status == ESPL_OK && espl__journal_open(journal, &reader, &header, NULL) == ESPL_OK)
		espl__journal_reader_free(reader);
	if (status == ESPL_OK && header.simulated)
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "the %s in '%s' was simulated and has already ended", pool ? "pool" : "run",
		    given);
	if (status == ESPL_OK)
		status = goes_on(given, *dir, config->pool, diag);
	espl__run_free(config);
	free(path);
	free(journal);
	return status;
}

char *
espl__request_name(const char *kind)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return espl__format("%s-%lld%09ld-%ld", kind, (long long)now.tv_sec, now.tv_nsec,
	    (long)getpid());
}

espl_status
espl__request_begin(const char *dir, const char *request, int *asker, struct espl__diag *diag)
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

void
espl__request_end(const char *dir, const char *request, int asker)
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

	if (espl__file_read(path, 131072, &text, &diag) != ESPL_OK) {
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

int
espl__request_wait(const char *dir, const char *request, int asker, const char *what,
    const char *name)
{
	char *path = espl__format("%s/spool/%s.answer", dir, request),
	     *asked = espl__format("%s/spool/%s", dir, request);
	int result = ESPL__EXIT_DONE, held = 1;
	struct espl__diag diag = ESPL__DIAG_INIT;

	for (int i = 0;
	     i < ANSWER_WITHIN && access(path, R_OK) != 0 && (held = espl__run_held(dir)) != 0; i++)
		(void)usleep(100000);
	/* an answer written so far is read, a later one is removed by the driver */
	espl__request_end(dir, request, asker);
	if (access(path, R_OK) == 0) {
		result = report_answer(path, what, name);
		if (result != ESPL__EXIT_DONE) /* the owner of the pool may have had no right to */
			(void)espl__tree_remove(asked, NULL);
		/* the pool ended meanwhile and will not read requests any more */
	} else if (!held && goes_on(dir, dir, 0, &diag) != ESPL_OK) {
		(void)espl__tree_remove(asked, NULL);
		result = espl__cli_fail(&diag);
	} else {
		printf("%s: not yet %s; %s\n", name, what,
		    held ? "the driver has not replied yet"
			 : "no driver is running; `espalier resume` will process the request");
	}
	free(asked);
	free(path);
	return result;
}

int
espl__request_send(const char *given, int pool, const char *kind, const char *name,
    const char *what)
{
	return espl__request_send_text(given, pool, kind, name, name, what);
}

int
espl__request_send_text(const char *given, int pool, const char *kind, const char *text,
    const char *name, const char *what)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *dir = NULL, *request = espl__request_name(kind), *path;
	espl_status status = espl__request_find(given, pool, &dir, &diag);
	int result, asker = -1;

	path = espl__format("%s/spool/%s", dir, request);
	if (status == ESPL_OK)
		status = espl__request_begin(dir, request, &asker, &diag);
	if (status == ESPL_OK)
		status = espl__file_write_private(path, text, strlen(text), &diag);
	if (status == ESPL_OK) {
		result = espl__request_wait(dir, request, asker, what, name);
	} else {
		espl__request_end(dir, request, asker);
		result = espl__cli_fail(&diag);
	}
	free(path);
	free(request);
	free(dir);
	return result;
}
