/* static_plan.c - the cheapest static plan of a run, for its report.
 *
 * The search runs in a separate process: after a long run it may take hours, and a page must not
 * wait for that. Its result is a file, which later pages use, too.
 */
#include "base/assert.h"
#include "cli/static_plan.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/tick.h"
#include "cli/plan.h"

#define LOOK_S 3                     /* of processor time */
#define LOOK_MOST (30 * ESPL_SECOND) /* in all: a file may never come to its end */

struct answer {
	double jct_s, cost_usd;
	uint32_t stage_count, zero;
	char why_not[512];
};

int
espl__static_plan_asked(struct espl__reading *r)
{
	ESPL__CHECK(r, READING);
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT 1 FROM predictions WHERE cost_usd IS NOT NULL LIMIT 1", -1, -1, NULL);
	int planned = st != NULL && espl__reading_next(r, st, NULL) == 1;

	(void)sqlite3_finalize(st);
	return planned;
}

int
espl__static_plan_open(void)
{
	return memfd_create("plan", MFD_CLOEXEC);
}

static void
look_for_plan(const char *path, FILE *to)
{
	struct espl__plan_ask how = { .allocator = "static" };
	struct espl__plan_answer found;
	struct espl__inputs inputs;
	struct espl__arena arena = { NULL };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct answer answer;

	memset(&answer, 0, sizeof answer);
	memset(&found, 0, sizeof found);
	if (espl__inputs_load(path, NULL, 0, 0, &inputs, &diag) != ESPL_OK) {
		(void)snprintf(answer.why_not, sizeof answer.why_not, "%s", diag.text);
	} else {
		/* no size is given: it looks for the cheapest */
		inputs.config->allocator.group = NULL;
		espl__plan_find(&inputs, &how, &arena, &found);
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
await_look(pid_t pid)
{
	const struct timespec pause = { 0, 5000000 };
	int64_t until = espl__tick() + LOOK_MOST;
	pid_t ended;
	int status;

	while (((ended = waitpid(pid, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) &&
	    espl__tick() < until)
		(void)nanosleep(&pause, NULL);
	if (ended != 0)
		return;
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}

void
espl__static_plan_find(const char *config_path, int fd)
{
	/* the end of time dumps core */
	struct rlimit time = { LOOK_S, LOOK_S + 1 }, core = { 0, 0 };
	struct answer answer = { .stage_count = 0 };
	pid_t pid, parent = getpid();
	struct stat st;
	int is_file = lstat(config_path, &st) == 0 && S_ISREG(st.st_mode);
	FILE *to;

	/* What holds until the search has found something. */
	(void)snprintf(answer.why_not, sizeof answer.why_not, "%s",
	    is_file ? "the search for a static plan took too long (`espalier plan --compare` has "
		      "no time limit)"
		    : "the configuration of the run is not a regular file");
	if (pwrite(fd, &answer, sizeof answer, 0) != (ssize_t)sizeof answer || !is_file)
		return;
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
		    lseek(fd, 0, SEEK_SET) == 0 && (to = fdopen(fd, "w")) != NULL &&
		    setrlimit(RLIMIT_CORE, &core) == 0 && setrlimit(RLIMIT_CPU, &time) == 0)
			look_for_plan(config_path, to);
		_exit(1);
	}
	if (pid > 0)
		await_look(pid);
}

void
espl__static_plan_read(int fd, struct espl__arena *arena, struct espl__report_fixed *to)
{
	ESPL__ASSERT(to != NULL);
	struct answer answer;
	size_t size;

	if (pread(fd, &answer, sizeof answer, 0) != (ssize_t)sizeof answer) {
		to->why_not = "out of memory";
		return;
	}
	answer.why_not[sizeof answer.why_not - 1] = '\0';
	to->why_not = answer.why_not[0] != '\0' ? espl__arena_strdup(arena, answer.why_not) : NULL;
	size = answer.stage_count * sizeof *to->stages;
	to->stages = espl__arena_alloc(arena, size + sizeof *to->stages);
	to->stage_count = answer.stage_count;
	to->jct_s = answer.jct_s;
	to->cost_usd = answer.cost_usd;
	if (to->why_not == NULL && pread(fd, to->stages, size, sizeof answer) != (ssize_t)size)
		to->why_not = "the search for a static plan did not finish";
}
