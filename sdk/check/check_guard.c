/* check_guard.c - see check_kit.h.
 *
 * If a policy forks, both processes would continue the check, so an atfork handler ends the child
 * at once. Children started in other ways are found at the end by their resource usage, or because
 * they still run.
 */
#include "base/assert.h"
#include "check/check_kit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

#define OUTPUT_MAX ((off_t)1 << 20)
#define MEMORY_MAX ((uint64_t)4 << 30)
#define MEMORY_NEAR ((uint64_t)64 << 20)
#define LIVES 14
#define WARM 9 /* malloc keeps what was freed, a few pieces of each size */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* they reserve more address space than any limit */
#else
#define SANITIZED 0
#endif

static struct espl__check_shared *watched;
static uint64_t memory_end; /* bytes of address space; 0: no limit was set */
static int may_fork;

/* ---- bounds ------------------------------------------------------------------------------ */

int
espl__guard_open(void)
{
	int fd = memfd_create("check-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 &&
	    (ftruncate(fd, OUTPUT_MAX) != 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)) {
		(void)close(fd);
		fd = -1;
	}
	return fd;
}

static void
end_at_birth(void)
{
	if (may_fork)
		return;
	if (watched->forks++ == 0)
		memcpy(watched->forked_in, watched->step, sizeof watched->forked_in);
	_exit(0);
}

static void
limit_memory(void)
{
	struct rlimit limit;
	uint64_t pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f != NULL && fscanf(f, "%" SCNu64, &pages) != 1)
		pages = 0;
	if (f != NULL)
		(void)fclose(f);
	if (getrlimit(RLIMIT_AS, &limit) != 0 || SANITIZED)
		return;
	limit.rlim_cur = pages * (uint64_t)sysconf(_SC_PAGESIZE) + MEMORY_MAX;
	if ((limit.rlim_max == RLIM_INFINITY || limit.rlim_cur < limit.rlim_max) &&
	    setrlimit(RLIMIT_AS, &limit) == 0)
		memory_end = limit.rlim_cur;
}

/* What it logs, again and again, says nothing of whether it keeps the rules. */
static void
drop_line(void *ctx, espl_level level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)text;
}

void
espl__guard_enter(struct espl__check_shared *shared, int output)
{
	watched = shared;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpgid(0, 0);
	/* what is tried keeps no run on this machine from its slots */
	(void)setenv("ESPALIER_SLOTS", "", 1);
	espl__log_to(drop_line, NULL, ESPL_ERROR);
	(void)pthread_atfork(NULL, NULL, end_at_birth);
	if (output >= 0 && (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0))
		_exit(1);
	limit_memory();
}

void
espl__guard_kind(espl_kind kind)
{
	/* it does not decide, and may have helpers of its own */
	may_fork = kind == ESPL_TRAINABLE;
}

/* ---- what it did ------------------------------------------------------------------------- */

static void
report_output(struct espl__check *check, int output)
{
	char text[4096], line[200];
	off_t size;
	ssize_t got;

	ESPL__ASSERT(output >= 0);
	(void)fflush(stdout);
	size = lseek(output, 0, SEEK_CUR);
	got = size > 0
	    ? pread(output, text, size < (off_t)sizeof text - 1 ? (size_t)size : sizeof text - 1, 0)
	    : 0;
	if (got <= 0)
		return;
	text[got] = '\0';
	(void)snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
	for (char *c = line; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	if (may_fork)
		espl__check_ok(check, "it prints: %s", line);
	else
		espl__check_error(check,
		    "it prints to standard output or standard error (%s); use host->log instead",
		    line);
}

/* A plugin that copes with a failed allocation may still have taken all there was. */
static void
report_memory(struct espl__check *check)
{
	struct espl__buf text = { NULL, 0, 0 };
	const char *peak;

	if (memory_end > 0 &&
	    espl__file_read("/proc/self/status", 1 << 20, &text, NULL) == ESPL_OK &&
	    (peak = strstr(espl__buf_text(&text), "VmPeak:")) != NULL &&
	    strtoull(peak + strlen("VmPeak:"), NULL, 10) * 1024 > memory_end - MEMORY_NEAR)
		espl__check_error(check, "it uses all the memory that it may: %u GiB",
		    (unsigned)(MEMORY_MAX >> 30));
	espl__buf_free(&text);
}

void
espl__guard_leave(struct espl__check *check, int output)
{
	struct rusage used;
	int children =
	    watched->forks == 0 && getrusage(RUSAGE_CHILDREN, &used) == 0 && used.ru_maxrss > 0;

	ESPL__ASSERT(watched == check->shared);
	check->view = NULL;
	if (output >= 0)
		report_output(check, output);
	report_memory(check);
	if (may_fork)
		return;
	children |= watched->forks == 0 && (waitpid(-1, NULL, WNOHANG) >= 0);
	if (watched->forks > 0)
		espl__check_error(check,
		    "%s: forks (%u times); a policy must not start processes, a cloud must use "
		    "espl_io",
		    watched->forked_in, (unsigned)watched->forks);
	else if (children)
		espl__check_error(check,
		    "it starts processes; a policy must not start any, a cloud must use espl_io");
}

/* Orphans of the child are ours, since we are their reaper. */
static int
kill_children(void)
{
	char path[64];
	struct espl__buf text = { NULL, 0, 0 };
	char *at, *end;
	int found = 0;

	(void)snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
	if (espl__file_read(path, 1 << 20, &text, NULL) == ESPL_OK) {
		at = (char *)(uintptr_t)espl__buf_text(&text);
		for (long pid; (pid = strtol(at, &end, 10)) > 0 && end != at; at = end, found++)
			(void)kill((pid_t)pid, SIGKILL);
	}
	espl__buf_free(&text);
	return found;
}

void
espl__guard_close(pid_t child, int output, int show)
{
	char text[4096];
	off_t size, at = 0;

	ESPL__ASSERT(child > 0);
	(void)kill(-child, SIGKILL);
	for (int i = 0; i < 100 && kill_children() > 0; i++)
		while (waitpid(-1, NULL, 0) > 0)
			;
	(void)prctl(PR_SET_CHILD_SUBREAPER, 0);
	size = output >= 0 && show ? lseek(output, 0, SEEK_CUR) : 0;
	while (at < size) {
		ssize_t got = pread(output, text,
		    size - at < (off_t)sizeof text ? (size_t)(size - at) : sizeof text, at);

		if (got <= 0 || espl__write_all(STDERR_FILENO, text, (size_t)got) != 0)
			break;
		at += got;
	}
	if (output >= 0)
		(void)close(output);
}

/* ---- leaks ------------------------------------------------------------------------------- */

static uint64_t
heap_bytes(void)
{
#if __GLIBC_PREREQ(2, 33)
	struct mallinfo2 m = mallinfo2();

	return (uint64_t)m.uordblks + m.hblkhd;
#else
	return 0;
#endif
}

void
espl__check_leaks(struct espl__check *check, void (*life)(struct espl__check *))
{
	uint64_t least = UINT64_MAX;

	ESPL__CHECK(check, CHECK);
	ESPL__ASSERT(life != NULL);
	if (espl__check_found(check) > 0) /* they would be counted again */
		return;
	for (int i = 0; i < LIVES && least > 0; i++) {
		uint64_t before, now;

		before = heap_bytes();
		life(check);
		now = heap_bytes();
		if (i >= WARM && now <= before)
			least = 0;
		else if (i >= WARM && now - before < least)
			least = now - before;
	}
	if (least > 0 && least != UINT64_MAX)
		espl__check_error(check,
		    "it leaks: %" PRIu64
		    " bytes are not freed per instance that is created, called and destroyed",
		    least);
	else if (heap_bytes() > 0)
		espl__check_ok(check, "destroy frees all memory of an instance");
}
