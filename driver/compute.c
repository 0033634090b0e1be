/* compute.c - computations of policies in child processes, with a limit in time and memory.
 *
 * The reply of a child is one frame: status, size of the error's text, size of the output, then
 * both.  Anything else (a signal, an exit before the frame was whole) is ESPL_E_REMOTE.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tick.h"
#include "plugin/instance.h"
#include "driver/compute.h"

enum { OUT_FD = 3, FRAME_HEAD = 16 };
#define OUTPUT_MAX ((size_t)256 << 20)
#define MEMORY_FALLBACK (UINT64_C(2) << 30)

#define ESPL__COMPUTE_MAGIC 0x64686a77u
struct espl__compute {
	uint32_t magic; /* ESPL__COMPUTE_MAGIC */
	pid_t pid;      /* 0: no child (left) */
	int fd;
	int64_t began, deadline; /* of espl__tick */
	struct espl__buf in;
	struct espl_outcome outcome;
	void *output; /* aligned copy */
	char what[32];
};

/* ---- the child ----------------------------------------------------------------------- */

struct out_sink {
	struct espl_byte_sink head;
	struct espl__buf *to;
};

static espl_status
take_output(struct espl_byte_sink *head, const void *bytes, uint64_t count)
{
	struct out_sink *sink = (struct out_sink *)(void *)head;

	if (count > OUTPUT_MAX || sink->to->size + count > OUTPUT_MAX)
		return ESPL_E_LIMIT;
	espl__put(sink->to, bytes, (size_t)count);
	return ESPL_OK;
}

static espl_status
run_plugin(const struct espl__run_config *config, espl_kind kind,
    const struct espl_compute_request *request, int simulated, struct espl__buf *out,
    struct espl__diag *diag)
{
	static const espl_time zero;
	const struct espl__section *section =
	    kind == ESPL_ALGORITHM ? &config->algorithm : &config->allocator;
	struct espl__host_env env = { .seed = config->seed,
		.simulated = simulated,
		.now = &zero,
		.directory = config->directory };
	struct out_sink sink = { { (uint32_t)sizeof(struct espl_byte_sink), 0, take_output }, out };
	struct espl_error error = ESPL_INIT(struct espl_error);
	const struct espl_compute_ops *ops;
	struct espl__instance *instance;
	espl_status status;

	error.option = error.row = ESPL_ANY;
	status = espl__instance_create(kind, section->use, section->group, &env, &instance, diag);
	if (status != ESPL_OK)
		return status;
	ops = instance->plugin->desc->extension != NULL
	    ? instance->plugin->desc->extension(instance->self, ESPL_COMPUTE)
	    : NULL;
	if (ops == NULL || !ESPL_HAS(struct espl_compute_ops, ops, run))
		return espl__fail(diag, ESPL_E_UNSUPPORTED,
		    "%s submits a computation but has no extension to run it", instance->who);
	status = ops->run(instance->self, request->input, request->input_size, &sink.head, &error);
	if (status != ESPL_OK)
		return espl__diag_plugin(diag, instance->who, status, &error);
	return ESPL_OK;
}

/* The memory limit counts from what the driver already has; sanitizers reserve far more. */
static void
limit_memory(uint64_t bytes)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	struct rlimit limit;
	unsigned long long pages[6] = { 0 };
	FILE *file = fopen("/proc/self/statm", "re");

	if (file != NULL) {
		if (fscanf(file, "%llu %llu %llu %llu %llu %llu", &pages[0], &pages[1], &pages[2],
			&pages[3], &pages[4], &pages[5]) != 6)
			pages[5] = 0;
		fclose(file);
	}
	limit.rlim_cur = (rlim_t)pages[5] * (rlim_t)sysconf(_SC_PAGESIZE);
	limit.rlim_cur += bytes > 0 ? bytes : MEMORY_FALLBACK;
	limit.rlim_max = limit.rlim_cur;
	(void)setrlimit(RLIMIT_DATA, &limit);
#else
	(void)bytes;
#endif
}

/* Everything inherited that is not ours to use: signals, descriptors, standard output (which
 * with --json must stay clean). */
static int
detach_child(int fd, pid_t parent)
{
	static const int reset[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD, SIGWINCH,
		SIGUSR1 };
	const struct rlimit none = { 0, 0 };
	sigset_t empty;
	int null;

	for (size_t i = 0; i < sizeof reset / sizeof reset[0]; i++)
		signal(reset[i], SIG_DFL);
	sigemptyset(&empty);
	sigprocmask(SIG_SETMASK, &empty, NULL);
	(void)setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		return -1;
	(void)setrlimit(RLIMIT_CORE, &none);
	if (fd != OUT_FD && dup2(fd, OUT_FD) < 0)
		return -1;
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		return -1;
	return close_range(OUT_FD + 1, ~0U, 0);
}

static _Noreturn void
run_child(const struct espl__run_config *config, espl_kind kind,
    const struct espl_compute_request *request, int simulated, int fd, pid_t parent)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf out = { 0 }, frame = { 0 };
	espl_status status;
	size_t text;

	if (detach_child(fd, parent) != 0)
		_exit(126);
	espl__log_to(NULL, NULL, ESPL_WARN);
	limit_memory(request->memory_limit);
	status = run_plugin(config, kind, request, simulated, &out, &diag);
	if (status != ESPL_OK)
		espl__buf_clear(&out);
	text = strlen(diag.text);
	espl__put_u32(&frame, (uint32_t)status);
	espl__put_u32(&frame, (uint32_t)text);
	espl__put_u64(&frame, out.size);
	espl__put(&frame, diag.text, text);
	if (espl__write_all(OUT_FD, frame.data, frame.size) != 0 ||
	    espl__write_all(OUT_FD, out.data, out.size) != 0)
		_exit(125);
	_exit(0);
}

/* ---- the parent ---------------------------------------------------------------------- */

static void
finish_job(struct espl__compute *job, espl_status status, const char *text)
{
	if (job->pid > 0) {
		int how;

		(void)kill(-job->pid, SIGKILL);
		(void)kill(job->pid, SIGKILL);
		while (waitpid(job->pid, &how, 0) < 0 && errno == EINTR)
			;
		job->pid = 0;
	}
	if (job->fd >= 0)
		close(job->fd);
	job->fd = -1;
	job->deadline = INT64_MAX;
	job->outcome.status = status;
	job->outcome.took = espl__tick() - job->began;
	if (text != NULL)
		espl__log(ESPL_WARN, "computation '%s': %s", job->what, text);
}

struct espl__compute *
espl__compute_start(const struct espl__run_config *config, espl_kind kind, uint64_t token,
    const struct espl_compute_request *request, int simulated)
{
	struct espl__compute *job = espl__alloc(sizeof *job);
	pid_t parent = getpid();
	int ends[2];

	job->magic = ESPL__COMPUTE_MAGIC;
	job->fd = -1;
	job->began = espl__tick();
	job->deadline = request->limit > 0 && job->began < INT64_MAX - request->limit
	    ? job->began + request->limit
	    : INT64_MAX;
	job->outcome.size = (uint32_t)sizeof job->outcome;
	job->outcome.token = token;
	snprintf(job->what, sizeof job->what, "%s", request->what != NULL ? request->what : "");
	if (kind != ESPL_ALGORITHM && kind != ESPL_ALLOCATOR) {
		finish_job(job, ESPL_E_UNSUPPORTED,
		    "only algorithms and allocators may request one");
		return job;
	}
	if (pipe2(ends, O_CLOEXEC) != 0) {
		finish_job(job, ESPL_E_REMOTE, strerror(errno));
		return job;
	}
	job->fd = ends[0];
	job->pid = fork();
	if (job->pid == 0)
		run_child(config, kind, request, simulated, ends[1], parent);
	close(ends[1]);
	if (job->pid < 0) {
		job->pid = 0;
		finish_job(job, ESPL_E_REMOTE, strerror(errno));
	} else if (fcntl(job->fd, F_SETFL, O_NONBLOCK) != 0) {
		finish_job(job, ESPL_E_REMOTE, strerror(errno));
	}
	return job;
}

/* Waits briefly for the child. 1: it has ended, and *how says how; 0: it must be killed. */
static int
reap_soon(struct espl__compute *job, int *how)
{
	const struct timespec pause = { 0, 5000000 };

	for (int i = 0; i < 100 && job->pid > 0; i++) {
		pid_t got = waitpid(job->pid, how, WNOHANG);

		if (got == job->pid) {
			job->pid = 0;
			return 1;
		}
		if (got < 0 && errno != EINTR)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* The pipe is closed: what came must be one whole frame. */
static void
read_frame(struct espl__compute *job)
{
	struct espl__reader r = espl__reader(job->in.data, job->in.size);
	espl_status status = (espl_status)espl__get_u32(&r);
	uint32_t text = espl__get_u32(&r);
	uint64_t size = espl__get_u64(&r);
	char why[600];

	if (r.bad || job->in.size - FRAME_HEAD < text || job->in.size - FRAME_HEAD - text != size) {
		int how = 0;

		if (!reap_soon(job, &how))
			snprintf(why, sizeof why, "its process closed its pipe without an answer");
		else if (WIFSIGNALED(how))
			snprintf(why, sizeof why, "its process was killed by signal %d",
			    WTERMSIG(how));
		else
			snprintf(why, sizeof why, "its process exited early with status %d",
			    WEXITSTATUS(how));
		finish_job(job, ESPL_E_REMOTE, why);
		return;
	}
	if (status != ESPL_OK) {
		snprintf(why, sizeof why, "%.*s", (int)text,
		    (const char *)job->in.data + FRAME_HEAD);
		finish_job(job, status, why);
		return;
	}
	finish_job(job, ESPL_OK, NULL);
	job->output = espl__alloc((size_t)size);
	if (size > 0)
		memcpy(job->output, job->in.data + FRAME_HEAD + text, (size_t)size);
	job->outcome.output = job->output;
	job->outcome.output_size = size;
}

int
espl__compute_step(struct espl__compute *job)
{
	ESPL__CHECK(job, COMPUTE);
	while (job->fd >= 0) {
		ssize_t got;

		espl__buf_reserve(&job->in, 64 << 10);
		got = read(job->fd, job->in.data + job->in.size, 64 << 10);
		if (got > 0) {
			job->in.size += (size_t)got;
			if (job->in.size > OUTPUT_MAX + 4096)
				finish_job(job, ESPL_E_LIMIT, "its output is too large");
		} else if (got == 0) {
			read_frame(job);
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			if (espl__tick() < job->deadline)
				return 0;
			finish_job(job, ESPL_E_LIMIT, NULL);
		} else if (errno != EINTR) {
			finish_job(job, ESPL_E_REMOTE, strerror(errno));
		}
	}
	espl__buf_free(&job->in);
	return 1;
}

void
espl__compute_wait(struct espl__compute *job)
{
	ESPL__CHECK(job, COMPUTE);
	while (!espl__compute_step(job)) {
		struct pollfd fd = { .fd = job->fd, .events = POLLIN };
		int64_t left_ms = job->deadline == INT64_MAX
		    ? 1000
		    : (job->deadline - espl__tick()) / 1000000 + 1;

		(void)poll(&fd, 1, left_ms < 0 ? 0 : left_ms > 1000 ? 1000 : (int)left_ms);
	}
}

int
espl__compute_fd(const struct espl__compute *job)
{
	ESPL__CHECK(job, COMPUTE);
	return job->fd;
}

pid_t
espl__compute_pid(const struct espl__compute *job)
{
	ESPL__CHECK(job, COMPUTE);
	return job->pid;
}

int64_t
espl__compute_deadline(const struct espl__compute *job)
{
	ESPL__CHECK(job, COMPUTE);
	return job->deadline;
}

const struct espl_outcome *
espl__compute_outcome(const struct espl__compute *job)
{
	ESPL__CHECK(job, COMPUTE);
	return &job->outcome;
}

void
espl__compute_assume(struct espl__compute *job, espl_span took)
{
	ESPL__CHECK(job, COMPUTE);
	job->outcome.took = took;
}

void
espl__compute_free(struct espl__compute *job)
{
	if (job == NULL)
		return;
	if (job->fd >= 0 || job->pid > 0)
		finish_job(job, ESPL_E_REMOTE, NULL);
	espl__buf_free(&job->in);
	free(job->output);
	job->magic = 0;
	free(job);
}
