/* cloudio.c - the I/O of cloud plugins: child processes, timers, secrets; HTTP is in
 * cloudio_http.c. */
#include "base/assert.h"
#include "real/cloudio.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <espalier/util.h>
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tick.h"
#include "real/cloudio_private.h"

#define KEEP_MAX (1u << 20) /* of a child's output */
#define HASTE_MS 10

struct espl__io_timer {
	struct espl__io_timer *next;
	struct espl__cloudio *owner;
	uv_timer_t timer;
	uint64_t cookie;
};

struct espl__io_child {
	struct espl__io_child *next;
	struct espl__cloudio *owner;
	uv_process_t process;
	uv_pipe_t out, err;
	uv_timer_t limit;
	uint64_t cookie;
	espl__io_answer *answer; /* NULL: the plugin's on_child */
	struct espl__buf output, errors;
	char scratch[65536];
	int handles, streams; /* handles open; streams not yet at their end */
	int exited, late, cancelled, answered, started;
	espl_status status;
	int32_t code;
};

/* ---- timers ---- */

static void
timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void
timer_unlink(struct espl__io_timer *timer)
{
	struct espl__io_timer **at = &timer->owner->timers;

	while (*at != timer)
		at = &(*at)->next;
	*at = timer->next;
	uv_close((uv_handle_t *)&timer->timer, timer_closed);
}

static void
on_timer(uv_timer_t *handle)
{
	struct espl__io_timer *timer = handle->data;
	struct espl__cloudio *io = timer->owner;
	uint64_t cookie = timer->cookie;

	timer_unlink(timer);
	if (io->instance == NULL || !ESPL_HAS(struct espl_cloud_ops, io->ops, on_timer))
		return;
	io->setup.enter(io->setup.ctx);
	io->answering = 1;
	io->ops->on_timer(io->instance->self, cookie);
	io->answering = 0;
}

/* The plugin is to be called at once, in ms: a bit later if each such call leads to the next. */
static uint64_t
wait_a_bit(struct espl__cloudio *io)
{
	io->haste.called = (uint8_t)io->answering;
	io->answering = 0;
	if (!espl__haste_counts(&io->haste, espl__tick(), 1))
		return 0;
	if (!io->haste_said)
		espl__log(ESPL_WARN,
		    "%s asked %u times to be called again at once; from now on its timers and "
		    "children take %d ms at least (times are in nanoseconds)",
		    io->instance != NULL ? io->instance->who : "the cloud", ESPL__HASTE_MOST,
		    HASTE_MS);
	io->haste_said = 1;
	return HASTE_MS;
}

static espl_status
refuse_timer(struct espl__cloudio *io, espl_span after)
{
	if (!io->negative_said)
		espl__log(ESPL_WARN,
		    "%s misbehaves: a timer after %.9g s, which is in the past; times are in "
		    "nanoseconds",
		    io->instance != NULL ? io->instance->who : "the cloud", (double)after / 1e9);
	io->negative_said = 1;
	return ESPL_E_REJECTED;
}

static espl_status
io_timer(const struct espl_io *service, espl_span after, uint64_t cookie)
{
	struct espl__cloudio *io = service->ctx;
	struct espl__io_timer *timer;
	uint64_t wait_ms;

	if (io->dead)
		return ESPL_E_REJECTED;
	if (after < 0)
		return refuse_timer(io, after);
	timer = espl__alloc(sizeof *timer);
	timer->owner = io;
	timer->cookie = cookie;
	(void)uv_timer_init(io->setup.loop, &timer->timer);
	timer->timer.data = timer;
	timer->next = io->timers;
	io->timers = timer;
	uv_update_time(io->setup.loop);
	wait_ms = (uint64_t)(after / 1000000 + (after % 1000000 != 0));
	(void)uv_timer_start(&timer->timer, on_timer,
	    after < ESPL__HASTE_SPAN ? wait_a_bit(io) + wait_ms : wait_ms, 0);
	return ESPL_OK;
}

/* ---- children ---- */

static void
child_answer(struct espl__io_child *child)
{
	struct espl__cloudio *io = child->owner;
	struct espl_child reply = ESPL_INIT(struct espl_child);

	if (child->cancelled || child->answered || io->dead)
		return;
	if (child->answer == NULL &&
	    (io->instance == NULL || !ESPL_HAS(struct espl_cloud_ops, io->ops, on_child)))
		return;
	child->answered = 1;
	reply.status = child->status;
	reply.cookie = child->cookie;
	reply.exit_code = child->code;
	reply.out = espl__buf_text(&child->output);
	reply.err = espl__buf_text(&child->errors);
	reply.out_size = child->output.size;
	reply.err_size = child->errors.size;
	if (child->answer != NULL) {
		child->answer(io, &reply);
		return;
	}
	io->setup.enter(io->setup.ctx);
	io->answering = 1;
	io->ops->on_child(io->instance->self, &reply);
	io->answering = 0;
}

static void
child_closed(uv_handle_t *handle)
{
	struct espl__io_child *child = handle->data;
	struct espl__io_child **at;

	if (--child->handles > 0)
		return;
	child_answer(child);
	for (at = &child->owner->children; *at != NULL; at = &(*at)->next) {
		if (*at == child) {
			*at = child->next;
			break;
		}
	}
	espl__buf_free(&child->output);
	espl__buf_free(&child->errors);
	free(child);
}

static void
close_once(void *handle)
{
	uv_handle_t *h = handle;

	if (h->type != UV_UNKNOWN_HANDLE && !uv_is_closing(h))
		uv_close(h, child_closed);
}

static void
child_close_all(struct espl__io_child *child)
{
	close_once(&child->out);
	close_once(&child->err);
	close_once(&child->limit);
	close_once(&child->process);
}

/* It has exited and its output has ended; or some time has passed, if another process holds it
 * open. */
static void
child_done(struct espl__io_child *child)
{
	if (child->exited && child->streams == 0)
		child_close_all(child);
}

static void
child_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct espl__io_child *child = handle->data;

	(void)suggested;
	*buf = uv_buf_init(child->scratch, sizeof child->scratch);
}

static void
child_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
	struct espl__io_child *child = stream->data;
	struct espl__buf *to =
	    stream == (uv_stream_t *)&child->out ? &child->output : &child->errors;

	if (got > 0) {
		size_t room = KEEP_MAX - to->size, part = (size_t)got < room ? (size_t)got : room;

		espl__put(to, buf->base, part);
		return;
	}
	if (got == 0)
		return;
	child->streams--;
	close_once(stream);
	child_done(child);
}

static void
child_kill(struct espl__io_child *child)
{
	pid_t pid = (pid_t)child->process.pid;

	if (child->started && pid > 1)
		(void)kill(-pid, SIGKILL); /* its own group: see UV_PROCESS_DETACHED */
}

static void
child_limit(uv_timer_t *timer)
{
	struct espl__io_child *child = timer->data;

	if (child->exited) { /* output held open by others: enough waited */
		child_close_all(child);
		return;
	}
	child->late = 1;
	child->status = ESPL_E_LIMIT;
	child_kill(child);
}

static void
child_exit(uv_process_t *process, int64_t status, int signal)
{
	struct espl__io_child *child = process->data;

	child->exited = 1;
	child->code = signal != 0 ? -signal : (int32_t)status;
	if (child->owner->setup.pids != NULL)
		espl__pids_remove(child->owner->setup.pids, (pid_t)process->pid);
	child_kill(child); /* what it left running in its group */
	if (!uv_is_closing((uv_handle_t *)&child->limit))
		(void)uv_timer_start(&child->limit, child_limit, 500, 0);
	child_done(child);
}

static void
child_start_failed(uv_timer_t *timer)
{
	child_close_all(timer->data);
}

/* NULL-terminated environment: ours and the additions; later ones replace earlier ones. */
static char **
merge_env(const struct espl_spawn *spawn)
{
	extern char **environ;
	size_t have = 0, count = 0;
	uint32_t i;
	char **list;

	while (environ[have] != NULL)
		have++;
	list = espl__alloc((have + spawn->env_count + 1) * sizeof *list);
	for (have = 0; environ[have] != NULL; have++) {
		const char *equals = strchr(environ[have], '=');
		size_t name = equals != NULL ? (size_t)(equals - environ[have]) + 1 : 0;
		int replaced = 0;

		for (i = 0; i < spawn->env_count && name > 0; i++)
			replaced |= strncmp(environ[have], spawn->env[i], name) == 0;
		if (!replaced)
			list[count++] = environ[have];
	}
	for (i = 0; i < spawn->env_count; i++)
		list[count++] = (char *)(uintptr_t)spawn->env[i];
	return list;
}

/* Standard input as a file that is complete before the child exists.  Through a pipe, a driver that
 * is killed between the start and the write would leave a child that acts on an empty request: a
 * provider's command would then make, or end, a machine without a name.  Returns a descriptor, or
 * a negative errno. */
static int
open_input(const struct espl_spawn *spawn)
{
	const char *data = spawn->input;
	uint64_t done = 0;
	int fd = memfd_create("espalier-input", MFD_CLOEXEC), failed;

	while (fd >= 0 && done < spawn->input_size) {
		ssize_t put = write(fd, data + done, spawn->input_size - done);

		if (put > 0) {
			done += (uint64_t)put;
		} else if (put == 0 || errno != EINTR) {
			failed = put == 0 ? EIO : errno;
			(void)close(fd);
			return -failed;
		}
	}
	if (fd < 0)
		return -errno;
	if (lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	failed = errno;
	(void)close(fd);
	return -failed;
}

static int
child_spawn(struct espl__io_child *child, const struct espl_spawn *spawn)
{
	uv_process_options_t options;
	uv_stdio_container_t stdio[3];
	uint32_t i;
	char **argv, **env;
	int failed, input = open_input(spawn);

	if (input < 0)
		return input;
	memset(&options, 0, sizeof options);
	argv = espl__alloc((spawn->argc + 1) * sizeof *argv);
	for (i = 0; i < spawn->argc; i++)
		argv[i] = (char *)(uintptr_t)spawn->argv[i];
	env = merge_env(spawn);
	stdio[0].flags = UV_INHERIT_FD;
	stdio[0].data.fd = input;
	stdio[1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
	stdio[1].data.stream = (uv_stream_t *)&child->out;
	stdio[2].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
	stdio[2].data.stream = (uv_stream_t *)&child->err;
	options.file = spawn->argv[0];
	options.args = argv;
	options.env = env;
	options.flags = UV_PROCESS_DETACHED;
	options.stdio_count = 3;
	options.stdio = stdio;
	options.exit_cb = child_exit;
	failed = uv_spawn(child->owner->setup.loop, &child->process, &options);
	(void)close(input);
	free(argv);
	free(env);
	return failed;
}

espl_status
espl__io_spawn(struct espl__cloudio *io, const struct espl_spawn *spawn, espl__io_answer *answer,
    struct espl_error *error)
{
	struct espl__io_child *child;
	int failed;

	if (io->dead)
		return espl_fail(error, ESPL_E_REJECTED, "the run is closing");
	if (spawn->argc == 0 || spawn->argv == NULL)
		return espl_fail(error, ESPL_E_BUG, "a spawn request without a program");
	child = espl__alloc(sizeof *child);
	child->owner = io;
	child->cookie = spawn->cookie;
	child->answer = answer;
	(void)uv_pipe_init(io->setup.loop, &child->out, 0);
	(void)uv_pipe_init(io->setup.loop, &child->err, 0);
	(void)uv_timer_init(io->setup.loop, &child->limit);
	child->out.data = child->err.data = child->limit.data = child->process.data = child;
	child->handles = 4;
	child->next = io->children;
	io->children = child;
	failed = child_spawn(child, spawn);
	if (failed != 0) {
		if (child->process.type == UV_UNKNOWN_HANDLE)
			child->handles--; /* it did not get as far as that */
		child->status = ESPL_E_REMOTE;
		child->exited = 1;
		child->code = -1;
		espl__print(&child->errors, "cannot start '%s': %s", spawn->argv[0],
		    uv_strerror(failed));
		(void)uv_timer_start(&child->limit, child_start_failed, wait_a_bit(io), 0);
		return ESPL_OK; /* told by on_child, from the loop */
	}
	child->started = 1;
	if (io->setup.pids != NULL)
		espl__pids_add(io->setup.pids, (pid_t)child->process.pid);
	child->streams = 2;
	(void)uv_read_start((uv_stream_t *)&child->out, child_alloc, child_read);
	(void)uv_read_start((uv_stream_t *)&child->err, child_alloc, child_read);
	if (spawn->limit > 0)
		(void)uv_timer_start(&child->limit, child_limit,
		    (uint64_t)(spawn->limit / 1000000) + 1, 0);
	return ESPL_OK;
}

static espl_status
io_spawn(const struct espl_io *service, const struct espl_spawn *spawn, struct espl_error *error)
{
	return espl__io_spawn(service->ctx, spawn, NULL, error);
}

/* ---- the rest ---- */

static void
io_cancel(const struct espl_io *service, uint64_t cookie)
{
	struct espl__cloudio *io = service->ctx;
	struct espl__io_timer *timer, *next;
	struct espl__io_child *child;

	for (timer = io->timers; timer != NULL; timer = next) {
		next = timer->next;
		if (timer->cookie == cookie)
			timer_unlink(timer);
	}
	for (child = io->children; child != NULL; child = child->next) {
		if (child->answer == NULL && child->cookie == cookie && !child->answered) {
			child->cancelled = 1;
			if (!child->exited)
				child_kill(child);
		}
	}
	espl__http_cancel(io->http, cookie, 0);
}

static int64_t
io_utc_ns(const struct espl_io *service)
{
	struct timespec now;

	(void)service;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Does the user's group name this text as a value anywhere? */
static int
mentions_text(const struct espl__node *node, const char *text)
{
	uint32_t i;

	if (node == NULL)
		return 0;
	if (node->type == ESPL__STRING)
		return strcmp(node->text, text) == 0;
	for (i = 0; i < node->child_count; i++)
		if (mentions_text(node->children[i], text))
			return 1;
	return 0;
}

/* "env:NAME": the environment of this process.  "file:PATH": only if the user's cloud group has
 * exactly that text as a value; trailing line ends are dropped. */
static espl_status
io_secret(const struct espl_io *service, const char *name, const char **value)
{
	struct espl__cloudio *io = service->ctx;

	*value = NULL;
	if (strncmp(name, "env:", 4) == 0) {
		*value = getenv(name + 4);
		return *value != NULL ? ESPL_OK : ESPL_E_UNKNOWN;
	}
	if (strncmp(name, "file:", 5) != 0 || !mentions_text(io->setup.group, name))
		return ESPL_E_UNKNOWN;
	espl__buf_clear(&io->secret);
	if (espl__file_read(name + 5, 65536, &io->secret, NULL) != ESPL_OK)
		return ESPL_E_UNKNOWN;
	while (io->secret.size > 0 &&
	    (io->secret.data[io->secret.size - 1] == '\n' ||
		io->secret.data[io->secret.size - 1] == '\r'))
		io->secret.size--;
	*value = espl__buf_text(&io->secret);
	return ESPL_OK;
}

static espl_status
io_http(const struct espl_io *service, const struct espl_http *request, struct espl_error *error)
{
	struct espl__cloudio *io = service->ctx;

	if (io->dead)
		return espl_fail(error, ESPL_E_REJECTED, "the run is closing");
	return espl__http_submit(io->http, request, error);
}

espl_status
espl__cloudio_new(const struct espl__cloudio_setup *setup, struct espl__cloudio **out,
    struct espl__diag *diag)
{
	struct espl__cloudio *io = espl__alloc(sizeof *io);
	espl_status status;

	io->magic = ESPL__CLOUDIO_MAGIC;
	io->setup = *setup;
	status = espl__http_new(io, &io->http, diag);
	if (status != ESPL_OK) {
		free(io);
		return status;
	}
	io->io = (struct espl_io){ .size = (uint32_t)sizeof io->io,
		.ctx = io,
		.http = io_http,
		.spawn = io_spawn,
		.timer = io_timer,
		.cancel = io_cancel,
		.utc_ns = io_utc_ns,
		.secret = io_secret };
	*out = io;
	return ESPL_OK;
}

const struct espl_io *
espl__cloudio_service(struct espl__cloudio *io)
{
	ESPL__CHECK(io, CLOUDIO);
	return &io->io;
}

void
espl__cloudio_bind(struct espl__cloudio *io, struct espl__instance *instance)
{
	ESPL__CHECK(io, CLOUDIO);
	ESPL__CHECK(instance, INSTANCE);
	io->instance = instance;
	io->ops = (const struct espl_cloud_ops *)(const void *)instance->ops;
}

void
espl__cloudio_cancel_all(struct espl__cloudio *io)
{
	struct espl__io_child *child;

	if (io == NULL)
		return;
	io->dead = 1;
	io->instance = NULL;
	while (io->timers != NULL)
		timer_unlink(io->timers);
	for (child = io->children; child != NULL; child = child->next) {
		child->cancelled = 1;
		if (!child->exited)
			child_kill(child);
	}
	espl__http_stop(io->http);
}

int
espl__cloudio_busy(const struct espl__cloudio *io)
{
	return io != NULL && (io->children != NULL || espl__http_busy(io->http));
}

void
espl__cloudio_free(struct espl__cloudio *io)
{
	if (io == NULL)
		return;
	espl__http_free(io->http);
	espl__io_keys_free(io);
	espl__buf_free(&io->secret);
	io->magic = 0;
	free(io);
}
