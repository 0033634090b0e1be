/* check.c - check-plugin: the file is loaded and tried in a child process, so that a crash or an
 * endless loop becomes a line of the report.
 */
#include "check/check.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/check_kit.h"

#define LIMIT_S 120u /* of all that is tried, in wall-clock time */

static void
try_life(struct espl__check *check)
{
	struct espl__instance *one, *two;

	espl__check_world(check, 0);
	one = espl__check_create(check, 1);
	if (one == NULL) {
		espl__check_close(check);
		return;
	}
	two = espl__check_create(check, 2);
	espl__check_step(check, "destroy");
	espl__instance_destroy(one); /* the elder first: they may share nothing */
	espl__instance_destroy(two);
	one = espl__check_create(check, 3);
	espl__check_step(check, "destroy");
	espl__instance_destroy(one);
	espl__check_close(check);
	if (two != NULL && one != NULL)
		espl__check_ok(check,
		    "create and destroy: several instances can exist at once and in turn");
}

static void
try_plugin(struct espl__check *check)
{
	const struct espl_plugin *desc = check->plugin->desc;

	espl__check_ok(check, "loads: %s '%s' %s, ABI %u.%u, %u options",
	    espl__kind_name(desc->kind), desc->name, desc->version, desc->abi >> 16,
	    desc->abi & 0xffff, desc->option_count);
	espl__check_symbols(check, check->plugin->path);
	espl__check_watch_calls(check);
	espl__check_init(check);
	try_life(check);
	switch (desc->kind) {
	case ESPL_ALGORITHM: espl__check_search(check); break;
	case ESPL_ALLOCATOR: espl__check_alloc(check); break;
	case ESPL_CLOUD: espl__check_cloud(check); break;
	case ESPL_PLACER: espl__check_place(check); break;
	case ESPL_SAMPLER: espl__check_sampler(check); break;
	default: espl__check_trainable(check);
	}
	espl__check_calls(check);
	espl__tree_free(check->tree);
}

static void
in_child(const char *path, FILE *out, struct espl__check_shared *shared, int output)
{
	struct espl__check check = { .magic = ESPL__CHECK_MAGIC, .out = out, .shared = shared };
	struct espl__diag diag = ESPL__DIAG_INIT;

	(void)alarm(LIMIT_S);
	espl__check_step(&check, "loading the file");
	espl__guard_enter(shared, output);
	if (espl__plugin_open(path, &check.plugin, &diag) == ESPL_OK) {
		espl__guard_kind(check.plugin->desc->kind);
		try_plugin(&check);
		espl__guard_leave(&check, output);
	} else {
		espl__check_error(&check, "%s", diag.text);
		snprintf(shared->hint, sizeof shared->hint, "%.399s", diag.hint);
	}
	if (fflush(out) != 0)
		shared->errors++;
	shared->finished = 1;
	_exit(shared->errors > 0 || shared->refused.times > 0);
}

static void
report_finding(const struct espl__check_finding *finding, const char *before, FILE *out)
{
	fprintf(out, "error %s%s", before, finding->text);
	if (finding->view[0] != '\0')
		fprintf(out, " (%s: %s", finding->times > 1 ? "first with" : "with", finding->view);
	if (finding->times > 1)
		fprintf(out, "%s%u times", finding->view[0] != '\0' ? "; " : " (", finding->times);
	fprintf(out, "%s\n", finding->view[0] != '\0' || finding->times > 1 ? ")" : "");
}

/* What was found, each once. */
static void
report_findings(const struct espl__check_shared *shared, FILE *out)
{
	struct espl__check_finding refused = shared->refused;
	char before[80];

	for (unsigned i = 0; i < shared->finding_count; i++)
		report_finding(&shared->findings[i], "", out);
	if (shared->finding_count == ESPL__CHECK_FINDINGS)
		fprintf(out, "error more than %u different errors; there may be others\n",
		    ESPL__CHECK_FINDINGS);
	if (refused.times > 0) {
		snprintf(before, sizeof before,
		    "%u call%s of its sinks %s rejected%s: ", refused.times,
		    refused.times == 1 ? "" : "s", refused.times == 1 ? "is" : "are",
		    refused.times == 1 ? "" : ", the first");
		refused.times = 1;
		report_finding(&refused, before, out);
	}
	if (shared->hint[0] != '\0')
		fprintf(out, "hint: %s\n", shared->hint);
}

/* What became of the child, if it did not get to the end. */
static void
report_end(const struct espl__check_shared *shared, int status, FILE *out)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		fprintf(out, "error %s: did not return within %u s\n", shared->step, LIMIT_S);
	else if (WIFSIGNALED(status))
		fprintf(out, "error %s: killed by signal %d (%s)\n", shared->step, WTERMSIG(status),
		    strsignal(WTERMSIG(status)));
	else
		fprintf(out, "error %s: terminated the process with status %d\n", shared->step,
		    WEXITSTATUS(status));
}

int
espl__check_plugin(const char *path, FILE *out)
{
	struct espl__check_shared *shared;
	pid_t child;
	int status = 0, bad, output;

	shared =
	    mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		fprintf(out, "error cannot allocate memory for the check: %s\n", strerror(errno));
		return 1;
	}
	fflush(NULL);
	output = espl__guard_open();
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	child = fork();
	if (child == 0)
		in_child(path, out, shared, output);
	if (child < 0) {
		fprintf(out, "error cannot create a process for the check: %s\n", strerror(errno));
		(void)munmap(shared, sizeof *shared);
		if (output >= 0)
			(void)close(output);
		return 1;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	espl__guard_close(child, output, !shared->finished);
	bad = shared->errors > 0 || shared->refused.times > 0 || !shared->finished;
	report_findings(shared, out);
	if (!shared->finished)
		report_end(shared, status, out);
	(void)munmap(shared, sizeof *shared);
	return bad;
}
