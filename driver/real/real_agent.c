/* real_agent.c - one espalier-agent and the channel to it: start, frames, end.
 *
 * All failures end the same way: the channel is closed, the process is waited for (and killed if it
 * does not exit), all handles are closed; then the lease is informed.
 */
#include "base/assert.h"
#include "real/real.h"
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"
#include "node/session/session.h"
#include "plugin/instance.h"

#define HEARTBEAT_MS 3000u
#define SILENT_MOST (30 * ESPL__REAL_SECOND)
#define GPUS_MAX 4096u /* of a machine; more is not believed */
#define READ_ROOM 262144u
#define CHUNKS ((size_t)128 << 10) /* of moving checkpoints, given to the channel at once */
/* a second apart; a process that waits for a dead disk does not die */
#define KILLS_MOST 30
#define LAST_READS 64
#define CLOCK_OFF 60 /* seconds that a clock may be off without a word */
#define BROKEN_LIMIT (2 * ESPL__REAL_SECOND)
#define OUTPUT_LIMIT \
	(200 * INT64_C(1000000)) /* after the exit: another process may hold the pipe */

static void
agent_closed(uv_handle_t *handle)
{
	struct espl__ragent *agent = handle->data;

	if (--agent->handles > 0)
		return;
	agent->real->agent_events->closed(agent);
	agent->real->agent_events->gone(agent->real, agent->lease, agent);
	espl__buf_free(&agent->in);
	espl__buf_free(&agent->out);
	espl__buf_free(&agent->flight);
	espl__buf_free(&agent->text);
	espl__buf_free(&agent->late);
	free(agent);
}

static void
close_once(void *handle)
{
	uv_handle_t *h = handle;

	if (h->type != UV_UNKNOWN_HANDLE && !uv_is_closing(h))
		uv_close(h, agent_closed);
}

static void
close_all(struct espl__ragent *agent)
{
	agent->state = ESPL__AGENT_GONE;
	agent->deadline = 0;
	close_once(&agent->to);
	close_once(&agent->from);
	close_once(&agent->log);
	close_once(&agent->process);
}

static void
signal_agent(struct espl__ragent *agent, int number)
{
	pid_t pid = (pid_t)agent->process.pid;

	if (!agent->exited && pid > 1) {
		agent->signalled = 1;
		(void)kill(-pid, number); /* its process group: a wrapper such as ssh, too */
		(void)kill(pid, number);
	}
}

void
espl__agent_close(struct espl__ragent *agent)
{
	ESPL__CHECK(agent, RAGENT);
	if (agent->state >= ESPL__AGENT_CLOSING)
		return;
	if (agent->session)
		espl__agent_send(agent, ESPL__MSG_BYE, NULL);
	espl__agents_flush(agent->real);
	if (agent->state >= ESPL__AGENT_CLOSING) /* the flush found it broken */
		return;
	agent->state = ESPL__AGENT_CLOSING;
	agent->deadline = espl__tick() + ESPL__REAL_CLOSE_LIMIT;
	close_once(&agent->to); /* the end of the channel: it ends all and exits */
	if (agent->exited && agent->eof)
		close_all(agent);
}

void
espl__agent_break(struct espl__ragent *agent, const char *format, ...)
{
	va_list list;

	ESPL__CHECK(agent, RAGENT);
	if (agent->broken || agent->state >= ESPL__AGENT_CLOSING)
		return;
	va_start(list, format);
	(void)vsnprintf(agent->why, sizeof agent->why, format, list);
	va_end(list);
	agent->broken = 1;
	espl__buf_clear(&agent->out);
	espl__agent_close(agent);
	if (agent->state == ESPL__AGENT_CLOSING)
		agent->deadline = espl__tick() + BROKEN_LIMIT;
}

void
espl__agent_kill(struct espl__ragent *agent)
{
	ESPL__CHECK(agent, RAGENT);
	espl__agent_close(agent);
	if (agent->state == ESPL__AGENT_GONE)
		return;
	signal_agent(agent, SIGKILL);
}

/* ---- what it says ---- */

/* Nothing here depends on it, but certificates, times of files and what trials log do. */
static void
compare_clocks(const struct espl__ragent *agent, uint64_t theirs)
{
	int64_t now = (int64_t)time(NULL), off;
	char span[32];

	if (theirs == 0 || theirs > UINT32_MAX)
		return;
	off = (int64_t)theirs - now;
	if (off < CLOCK_OFF && off > -CLOCK_OFF)
		return;
	espl__log(ESPL_WARN,
	    "node %llu: its clock is %s %s the clock of this machine: set it, or certificates and "
	    "times of files may be refused there",
	    (unsigned long long)agent->lease->id,
	    espl__format_short((off < 0 ? -off : off) * ESPL__REAL_SECOND, span),
	    off < 0 ? "behind" : "ahead of");
}

static int
hello_back(struct espl__ragent *agent, struct espl__reader *reader)
{
	char version[64];
	uint32_t protocol = espl__get_u32(reader);
	uint64_t seen;

	espl__get_str(reader, version, sizeof version);
	agent->gpus = espl__get_u32(reader);
	agent->cpus = espl__get_u32(reader);
	(void)espl__get_v64(reader);
	seen = protocol == ESPL__WIRE_PROTOCOL ? espl__get_u64(reader) : 0;
	if (reader->bad || agent->gpus > GPUS_MAX)
		return -1;
	espl__clean_text(version);
	if (protocol != ESPL__WIRE_PROTOCOL) {
		agent->refused = 1;
		espl__agent_break(agent,
		    "it has an espalier-agent of version %s, which speaks protocol %u, not %u",
		    version, protocol, ESPL__WIRE_PROTOCOL);
		return 0;
	}
	if (agent->state != ESPL__AGENT_HELLO)
		return 0;
	compare_clocks(agent, reader->at < reader->end ? espl__get_u64(reader) : 0);
	if (seen != agent->real->token)
		agent->real->agent_events->private(agent);
	agent->state = ESPL__AGENT_READY;
	agent->deadline = 0;
	agent->last_line[0] = agent->reason[0] = '\0'; /* nothing to do with what may come */
	agent->reason_weight = 0;
	agent->real->agent_events->hello(agent->real, agent->lease);
	return 0;
}

static int
log_message(struct espl__ragent *agent, struct espl__reader *reader)
{
	espl_level level = espl__get_u8(reader);
	size_t size;
	const char *text = espl__get_bytes(reader, &size);

	if (reader->bad)
		return -1;
	if (level < ESPL_DEBUG || level > ESPL_ERROR)
		level = ESPL_INFO;
	espl__log(level, "node %llu: %.*s", (unsigned long long)agent->lease->id,
	    (int)(size < 2000 ? size : 2000), text != NULL ? text : "");
	return 0;
}

static int
risk_message(struct espl__ragent *agent, struct espl__reader *reader)
{
	char text[200];

	espl__get_str(reader, text, sizeof text);
	if (reader->bad || reader->at != reader->end)
		return -1;
	espl__clean_text(text);
	agent->real->agent_events->risk(agent->real, agent->lease, text);
	return 0;
}

static int
take_frame(struct espl__ragent *agent, uint8_t type, struct espl__reader *reader)
{
	if (type == ESPL__MSG_HELLO_BACK)
		return hello_back(agent, reader);
	if (espl__is_tree(type) || type == ESPL__MSG_TAIL) /* before: what the last driver's were */
		return agent->state == ESPL__AGENT_HELLO
		    ? 0
		    : agent->real->agent_events->moves(agent, type, reader);
	/* An agent repeats in its state what it sent before it knew this driver. */
	if (agent->state == ESPL__AGENT_HELLO && type != ESPL__MSG_LOG)
		return agent->real->rejoining ? 0 : -1;
	if (type == ESPL__MSG_PONG)
		return 0;
	if (type == ESPL__MSG_LOG)
		return log_message(agent, reader);
	if (type == ESPL__MSG_RISK)
		return risk_message(agent, reader);
	if (agent->real->rejoining)
		return agent->real->agent_events->state(agent->lease, type, reader);
	switch (type) {
	case ESPL__MSG_GPU:
		return agent->real->agent_events->gpu(agent->real, agent->lease, reader);
	default: return agent->real->agent_events->gang(agent->real, agent->lease, type, reader);
	}
}

static void
take_frames(struct espl__ragent *agent)
{
	size_t from = 0;

	while (!agent->broken) {
		struct espl__reader reader;
		uint8_t type;
		size_t used;
		int got = espl__frame_get(&agent->in, from, &type, &reader, &used);

		if (got == 0)
			break;
		if (got < 0) {
			espl__agent_break(agent,
			    "it sent data that is not a message of espalier-agent");
			break;
		}
		if (take_frame(agent, type, &reader) != 0)
			espl__agent_break(agent, "it sent an invalid message of type %u", type);
		from += used;
	}
	if (from > 0) {
		memmove(agent->in.data, agent->in.data + from, agent->in.size - from);
		agent->in.size -= from;
	}
}

static void
from_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct espl__ragent *agent = handle->data;

	(void)suggested;
	espl__buf_reserve(&agent->in, READ_ROOM);
	*buf = uv_buf_init((char *)agent->in.data + agent->in.size, READ_ROOM);
}

static void
from_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
	struct espl__ragent *agent = stream->data;

	(void)buf;
	if (got > 0) {
		agent->last_received = espl__tick();
		agent->in.size += (size_t)got;
		if (agent->broken)
			espl__buf_clear(&agent->in);
		else
			take_frames(agent);
		return;
	}
	if (got == 0)
		return;
	agent->eof = 1;
	(void)uv_read_stop(stream);
	if (agent->exited)
		close_all(agent);
	else
		espl__agent_break(agent,
		    agent->state == ESPL__AGENT_HELLO ? "it could not be reached"
						      : "its channel closed");
}

static void
log_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct espl__ragent *agent = handle->data;

	(void)suggested;
	espl__buf_reserve(&agent->text, 4096);
	*buf = uv_buf_init((char *)agent->text.data + agent->text.size, 4096);
}

/* Status lines of the driver's end of a session about its connection; 0: the line is not one. */
static int
note_reach(struct espl__ragent *agent, const char *line, size_t length)
{
	const size_t lost = sizeof ESPL__SESSION_LOST - 1, found = sizeof ESPL__SESSION_FOUND - 1;
	int64_t tick = espl__tick();
	char why[200];

	if (agent->session && length == sizeof ESPL__SESSION_SAVING - 1 &&
	    memcmp(line, ESPL__SESSION_SAVING, length) == 0) {
		agent->real->agent_events->saving(agent->lease);
		return 1;
	}
	if (!agent->session || agent->state != ESPL__AGENT_READY)
		return 0;
	if (length > lost && memcmp(line, ESPL__SESSION_LOST, lost) == 0) {
		(void)snprintf(why, sizeof why, "%.*s", (int)(length - lost), line + lost);
		if (agent->lost_at == 0)
			agent->real->agent_events->reach(agent->real, agent->lease, why, 0);
		agent->lost_at = tick;
		return 1;
	}
	if (length == found && memcmp(line, ESPL__SESSION_FOUND, found) == 0) {
		if (agent->lost_at != 0)
			agent->real->agent_events->reach(agent->real, agent->lease, NULL,
			    tick - agent->lost_at);
		agent->lost_at = 0;
		agent->last_received = tick;
		return 1;
	}
	return 0;
}

/* How well a line explains that the agent has ended: what our own programs say, then what others
 * say, then what only passes on that something has ended. */
enum { LINE_REMARK = 1, LINE_ECHO, LINE_OTHER, LINE_OWN };
static int
weigh_line(const char *line)
{
	static const char *const echoes[] = { "Exited with exit code", "srun: Terminating",
		"srun: Job step aborted", "srun: error: Timed out waiting", "*** STEP", "*** JOB",
		"slurmstepd: error: ***", "Force Terminated", "Killed by signal",
		"command terminated with exit code", "Shared connection to",
		"client_loop: send disconnect", "mux_client_" };
	static const char *const remarks[] = { "Warning: Permanently added",
		"Pseudo-terminal will not be allocated" };
	size_t length = strlen(line);

	for (size_t i = 0; i < sizeof remarks / sizeof remarks[0]; i++)
		if (strncmp(line, remarks[i], strlen(remarks[i])) == 0)
			return LINE_REMARK;
	for (size_t i = 0; i < sizeof echoes / sizeof echoes[0]; i++)
		if (strstr(line, echoes[i]) != NULL)
			return LINE_ECHO;
	/* srun: "srun: error: NODE: task 0: Killed" */
	if (strncmp(line, "srun: error: ", 13) == 0 && strstr(line, ": task") != NULL)
		return LINE_ECHO;
	/* ssh, when the command at the other end has ended */
	if (strncmp(line, "Connection to ", 14) == 0 && length > 8 &&
	    strcmp(line + length - 8, " closed.") == 0)
		return LINE_ECHO;
	return strncmp(line, "espalier", 8) == 0 && strstr(line, "error: ") != NULL ? LINE_OWN
										    : LINE_OTHER;
}

/* The last of the lines that explain most. */
static void
keep_reason(struct espl__ragent *agent, const char *said)
{
	int weight = weigh_line(said + 2);

	if (weight < agent->reason_weight)
		return;
	agent->reason_weight = weight;
	(void)snprintf(agent->reason, sizeof agent->reason, "%s", said);
}

/* A command that is tried again may fail with the same words many times: they are printed once.
 * What tells only of the end is no line of its own, and is the reason only if there is no other. */
static void
log_line(struct espl__ragent *agent, const char *line, int length)
{
	char said[sizeof agent->last_line];

	(void)snprintf(said, sizeof said, ": %.*s", length, line);
	keep_reason(agent, said);
	if (strcmp(said, agent->last_line) == 0)
		return;
	memcpy(agent->last_line, said, sizeof said);
	/* The end of the agent is reported with its reason. */
	if (weigh_line(said + 2) == LINE_ECHO)
		return;
	espl__log(ESPL_WARN, "node %llu: %.*s", (unsigned long long)agent->lease->id, length, line);
}

/* Lines of its standard error: ssh and the loader speak there. */
static void
take_log(struct espl__ragent *agent)
{
	char *line = (char *)agent->text.data, *end;
	size_t left = agent->text.size;

	while (left > 0 && ((end = memchr(line, '\n', left)) != NULL || left > 4000)) {
		size_t length = end != NULL ? (size_t)(end - line) : left;

		if (!note_reach(agent, line, length) && !espl__real_ship_line(agent, line, length))
			log_line(agent, line, (int)length);
		length += end != NULL;
		line += length;
		left -= length;
	}
	if (left > 0)
		memmove(agent->text.data, line, left);
	agent->text.size = left;
}

static void
log_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
	struct espl__ragent *agent = stream->data;

	(void)buf;
	if (got < 0) {
		(void)uv_read_stop(stream);
		return;
	}
	agent->text.size += (size_t)got;
	take_log(agent);
}

/* Its last words may still be in the pipe when its end is known. */
static void
drain_log(struct espl__ragent *agent)
{
	uv_os_fd_t fd;
	ssize_t got;

	if (uv_is_closing((uv_handle_t *)&agent->log) ||
	    uv_fileno((uv_handle_t *)&agent->log, &fd) != 0)
		return;
	for (int turns = 0; turns < LAST_READS; turns++) {
		espl__buf_reserve(&agent->text, 4096);
		got = read(fd, agent->text.data + agent->text.size, 4096);
		if (got <= 0)
			return;
		agent->text.size += (size_t)got;
		take_log(agent);
	}
}

static void
agent_exit(uv_process_t *process, int64_t status, int number)
{
	struct espl__ragent *agent = process->data;

	espl__pids_remove(&agent->real->pids, (pid_t)process->pid);
	agent->exited = 1;
	drain_log(agent);
	if (!agent->signalled && !agent->refused &&
	    (agent->state < ESPL__AGENT_CLOSING || (agent->broken && agent->eof))) {
		if (number != 0)
			(void)snprintf(agent->why, sizeof agent->why,
			    "espalier-agent was killed by signal %d%s", number, agent->reason);
		else if (agent->why[0] == '\0' || status != 0)
			(void)snprintf(agent->why, sizeof agent->why,
			    "espalier-agent exited with status %d%s", (int)status, agent->reason);
	}
	if (agent->state < ESPL__AGENT_CLOSING) {
		agent->state = ESPL__AGENT_CLOSING;
		close_once(&agent->to);
	}
	agent->deadline = espl__tick() + OUTPUT_LIMIT;
	if (agent->eof)
		close_all(agent);
}

/* ---- what it is told ---- */

void
espl__agent_send(struct espl__ragent *agent, enum espl__message type,
    const struct espl__buf *payload)
{
	ESPL__CHECK(agent, RAGENT);
	if (agent->state >= ESPL__AGENT_CLOSING)
		return;
	espl__frame_put(&agent->out, type, payload != NULL ? payload->data : NULL,
	    payload != NULL ? payload->size : 0);
}

static void
on_written(uv_write_t *request, int status)
{
	struct espl__ragent *agent = request->data;

	agent->writing = 0;
	espl__buf_clear(&agent->flight);
	if (status < 0 && status != UV_ECANCELED)
		espl__agent_break(agent, "its channel broke: %s", uv_strerror(status));
}

/* 1: all of it is written. */
static int
write_output(struct espl__ragent *agent)
{
	uv_buf_t buf = uv_buf_init((char *)agent->out.data, (unsigned)agent->out.size);
	struct espl__buf swap;
	int sent = uv_try_write((uv_stream_t *)&agent->to, &buf, 1);

	if (sent < 0 && sent != UV_EAGAIN) {
		espl__buf_clear(&agent->out);
		espl__agent_break(agent, "its channel broke: %s", uv_strerror(sent));
		return 0;
	}
	if (sent == (int)agent->out.size) {
		espl__buf_clear(&agent->out);
		return 1;
	}
	swap = agent->flight;
	agent->flight = agent->out;
	agent->out = swap;
	espl__buf_clear(&agent->out);
	sent = sent < 0 ? 0 : sent;
	buf = uv_buf_init((char *)agent->flight.data + sent,
	    (unsigned)(agent->flight.size - (size_t)sent));
	agent->request.data = agent;
	agent->writing =
	    uv_write(&agent->request, (uv_stream_t *)&agent->to, &buf, 1, on_written) == 0;
	if (!agent->writing)
		espl__agent_break(agent, "its channel broke");
	return 0;
}

/* Chunks come last, and only while the channel takes them at once. */
static void
flush_output(struct espl__ragent *agent)
{
	do {
		if (agent->writing || agent->state >= ESPL__AGENT_CLOSING ||
		    (agent->out.size > 0 && !write_output(agent)) || agent->mover == NULL)
			return;
	} while (espl__mover_pump(agent->mover, &agent->out, CHUNKS, espl__tick()) > 0);
}

void
espl__agents_flush(struct espl__real *real)
{
	uint32_t i;

	ESPL__CHECK(real, REAL);
	for (i = 0; i < real->lease_count; i++)
		if (real->leases[i]->agent != NULL)
			flush_output(real->leases[i]->agent);
}

static void
tick_agent(struct espl__ragent *agent, int64_t tick)
{
	if (agent->deadline != 0 && tick >= agent->deadline) {
		if (agent->state == ESPL__AGENT_HELLO) {
			espl__agent_break(agent, "espalier-agent did not answer within 60 s");
		} else if (agent->exited) {
			close_all(agent);
		} else if (agent->state == ESPL__AGENT_CLOSING && agent->kills++ < KILLS_MOST) {
			signal_agent(agent, SIGKILL);
			agent->deadline = tick + ESPL__REAL_SECOND;
		} else if (agent->state == ESPL__AGENT_CLOSING) {
			espl__log(ESPL_ERROR,
			    "node %llu: process %ld cannot be killed (is it waiting for a disk?) "
			    "and keeps running",
			    (unsigned long long)agent->lease->id, (long)agent->process.pid);
			close_all(agent);
		}
		return;
	}
	if (agent->state != ESPL__AGENT_READY)
		return;
	if (agent->lost_at != 0) { /* the session has its own limit, unless it hangs itself */
		if (tick - agent->lost_at > agent->real->config->patience + SILENT_MOST)
			espl__agent_break(agent, "unreachable for too long");
	} else if (tick - agent->last_received > SILENT_MOST) {
		espl__agent_break(agent, "no response for %d s",
		    (int)(SILENT_MOST / ESPL__REAL_SECOND));
	} else if (tick - agent->pinged >= HEARTBEAT_MS * INT64_C(1000000)) {
		agent->pinged = tick;
		espl__agent_send(agent, ESPL__MSG_PING, NULL);
	}
}

void
espl__agents_tick(struct espl__real *real, int64_t tick)
{
	uint32_t i;

	ESPL__CHECK(real, REAL);
	for (i = 0; i < real->lease_count; i++)
		if (real->leases[i]->agent != NULL)
			tick_agent(real->leases[i]->agent, tick);
}

void
espl__agents_held(struct espl__real *real, int64_t late)
{
	ESPL__CHECK(real, REAL);
	for (uint32_t i = 0; i < real->lease_count; i++) {
		struct espl__ragent *agent = real->leases[i]->agent;

		if (agent == NULL)
			continue;
		agent->last_received += late;
		agent->pinged += late;
		if (agent->deadline != 0)
			agent->deadline += late;
		if (agent->lost_at != 0)
			agent->lost_at += late;
	}
}

/* ---- start ---- */

/* Starts argv with pipes on its three streams; 0 or libuv's error. */
static int
spawn_agent(struct espl__ragent *agent, char **argv)
{
	uv_process_options_t options;
	uv_stdio_container_t stdio[3];

	memset(&options, 0, sizeof options);
	stdio[0].flags = UV_CREATE_PIPE | UV_READABLE_PIPE;
	stdio[0].data.stream = (uv_stream_t *)&agent->to;
	stdio[1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
	stdio[1].data.stream = (uv_stream_t *)&agent->from;
	stdio[2].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
	stdio[2].data.stream = (uv_stream_t *)&agent->log;
	options.file = argv[0];
	options.args = argv;
	options.flags = UV_PROCESS_DETACHED; /* a Ctrl-C at the terminal is the driver's alone */
	options.stdio_count = 3;
	options.stdio = stdio;
	options.exit_cb = agent_exit;
	agent->handles++;
	return uv_spawn(&agent->real->loop, &agent->process, &options);
}

static int
is_here(const char *address)
{
	return address == NULL || address[0] == '\0' || strncmp(address, "127.", 4) == 0 ||
	    strcmp(address, "localhost") == 0 || strcmp(address, "::1") == 0;
}

static void
send_hello(struct espl__ragent *agent)
{
	struct espl__buf payload = { NULL, 0, 0 };
	const char *address = agent->lease->address;

	agent->here = is_here(address);
	espl__put_u32(&payload, ESPL__WIRE_PROTOCOL);
	espl__put_str(&payload, agent->real->dir);
	espl__put_u64(&payload, agent->real->token);
	espl__put_u64(&payload, agent->lease->id);
	espl__put_str(&payload, address != NULL && address[0] != '\0' ? address : "127.0.0.1");
	/* An agent here sees our end at once, and may wait while we are stopped (Ctrl-Z). */
	/* In a session the keeper listens for signs of life. */
	espl__put_u32(&payload, agent->here || agent->session ? 0 : HEARTBEAT_MS);
	espl__agent_send(agent, ESPL__MSG_HELLO, &payload);
	espl__buf_free(&payload);
}

static struct espl__ragent *
new_agent(struct espl__real *real, struct espl__rlease *lease)
{
	struct espl__ragent *agent = espl__alloc(sizeof *agent);

	agent->magic = ESPL__RAGENT_MAGIC;
	agent->real = real;
	agent->lease = lease;
	agent->state = ESPL__AGENT_HELLO;
	agent->born = agent->last_received = agent->pinged = espl__tick();
	agent->deadline = agent->born + ESPL__REAL_HELLO_LIMIT;
	(void)uv_pipe_init(&real->loop, &agent->to, 0);
	(void)uv_pipe_init(&real->loop, &agent->from, 0);
	(void)uv_pipe_init(&real->loop, &agent->log, 0);
	agent->handles = 3;
	agent->to.data = agent->from.data = agent->log.data = agent->process.data = agent;
	lease->agent = agent;
	return agent;
}

void
espl__agent_start(struct espl__real *real, struct espl__rlease *lease)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__ragent *agent;
	espl_status status;
	char **argv;
	int failed = 0;

	ESPL__CHECK(real, REAL);
	ESPL__CHECK(lease, RLEASE);
	if (lease->agent != NULL)
		return;
	agent = new_agent(real, lease);
	status = espl__real_agent_command(agent, &argv, &diag);
	if (status == ESPL_OK)
		failed = spawn_agent(agent, argv);
	if (status != ESPL_OK || failed != 0) {
		(void)snprintf(agent->why, sizeof agent->why, "cannot start '%.200s': %.290s",
		    argv[0], status != ESPL_OK ? diag.text : uv_strerror(failed));
		agent->exited = agent->eof = agent->broken = 1;
		close_all(agent);
	} else {
		espl__pids_add(&real->pids, (pid_t)agent->process.pid);
		(void)uv_read_start((uv_stream_t *)&agent->from, from_alloc, from_read);
		(void)uv_read_start((uv_stream_t *)&agent->log, log_alloc, log_read);
		send_hello(agent);
		real->agent_events->started(real);
		flush_output(agent);
	}
	for (uint32_t i = 0; argv[i] != NULL; i++)
		free(argv[i]);
	free(argv);
}
