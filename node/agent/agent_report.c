/* agent_report.c - rank 0's report socket: forwards its lines to the driver unchanged, and replies
 * back.
 *
 * It parses only {"saved": n}, because it completes the checkpoint, and recognizes {"notes": ...},
 * which has no reply.  A rank may write anything: what is not a line of at most 64 KiB ends only
 * its own gang.
 */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/tick.h"
#include "agent/agent.h"

#define READ_STEP ((size_t)64 << 10)
#define REPLY_LIMIT ((size_t)1 << 20) /* unread answers a rank may let gather */

static void
close_report(struct espl__agent_gang *g)
{
	if (g->report >= 0)
		close(g->report);
	g->report = -1;
	g->agent->changed = 1;
}

void
espl__report_garbage(struct espl__agent_gang *g, const char *format, ...)
{
	struct espl__buf *out = &g->agent->outbox;
	char text[600];
	va_list args;
	size_t mark;

	ESPL__CHECK(g, AGENT_GANG);
	if (g->spoilt)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	g->spoilt = 1;
	espl__buf_clear(&g->in);
	mark = espl__frame_begin(out, ESPL__MSG_GARBAGE);
	espl__put_v64(out, g->start.gang);
	espl__put_str(out, text);
	espl__frame_end(out, mark);
	espl__agent_keep(g, mark);
	close_report(g);
	espl__gang_kill(g, g->start.grace_ms);
}

static void
forward_line(struct espl__agent_gang *g, enum espl__message type, const uint8_t *line, size_t size)
{
	struct espl__buf *out = &g->agent->outbox;
	size_t mark = espl__frame_begin(out, type);

	espl__put_v64(out, g->start.gang);
	espl__put_bytes(out, line, size);
	espl__frame_end(out, mark);
	espl__agent_keep(g, mark);
	if (g->agent->leaving != NULL && type == ESPL__MSG_LINE)
		espl__report_reply(g, "pause");
}

/* Only {"notes": ...}, which has no answer? */
static int
is_note(const uint8_t *line, size_t size)
{
	json_t *object;
	int is;

	if (memmem(line, size, "\"notes\"", 7) == NULL)
		return 0;
	object = json_loadb((const char *)line, size, JSON_REJECT_DUPLICATES, NULL);
	is = json_object_get(object, "notes") != NULL && json_object_size(object) == 1;
	json_decref(object);
	return is;
}

/* {"saved": n} and nothing else: its n.  0: a line like any other (the driver judges it);
 * -1: it means to be one and is wrong. */
static int64_t
saved_in(const uint8_t *line, size_t size)
{
	json_t *object = json_loadb((const char *)line, size, JSON_REJECT_DUPLICATES, NULL);
	json_t *saved = json_object_get(object, "saved");
	int64_t n = 0;

	if (saved != NULL) {
		n = json_is_integer(saved) && json_object_size(object) == 1
		    ? json_integer_value(saved)
		    : -1;
		if (n < 1 || n > INT64_C(1) << 53)
			n = -1;
	}
	json_decref(object);
	return n;
}

/* 1: continue with the next line. */
static int
take_line(struct espl__agent_gang *g, const uint8_t *line, size_t size)
{
	int64_t saved = 0;

	if (size > ESPL__REPORT_LINE) {
		espl__report_garbage(g, "a line of its reports is longer than %zu bytes",
		    ESPL__REPORT_LINE);
		return 0;
	}
	if (memchr(line, 0, size) != NULL) {
		espl__report_garbage(g, "its reports are binary data, not lines of JSON");
		return 0;
	}
	if (size == 0 || (size == 1 && line[0] == '\r'))
		return 1;
	if (memmem(line, size, "\"saved\"", 7) != NULL)
		saved = saved_in(line, size);
	if (saved == 0) {
		forward_line(g, is_note(line, size) ? ESPL__MSG_NOTE : ESPL__MSG_LINE, line, size);
		return 1;
	}
	if (saved < 0)
		espl__report_garbage(g, "'%.*s' should be {\"saved\": N}, where N is the iteration",
		    (int)(size < 80 ? size : 80), (const char *)line);
	else
		espl__files_save(g, (uint64_t)saved);
	return 0;
}

void
espl__report_take(struct espl__agent_gang *g)
{
	size_t at = 0;

	ESPL__CHECK(g, AGENT_GANG);
	while (!g->spoilt && !g->saving_now && at < g->in.size) {
		const uint8_t *line = g->in.data + at;
		const uint8_t *end = memchr(line, '\n', g->in.size - at);
		size_t size = end == NULL ? g->in.size - at : (size_t)(end - line);

		if (end == NULL && size <= ESPL__REPORT_LINE)
			break;
		at += size + 1;
		if (!take_line(g, line, size) && g->spoilt)
			return;
	}
	if (g->spoilt || at == 0)
		return;
	memmove(g->in.data, g->in.data + at, g->in.size - at);
	g->in.size -= at;
}

void
espl__report_read(struct espl__agent_gang *g)
{
	ssize_t got;

	ESPL__CHECK(g, AGENT_GANG);
	if (g->report < 0 || g->saving_now)
		return;
	espl__buf_reserve(&g->in, READ_STEP);
	got = recv(g->report, g->in.data + g->in.size, READ_STEP, MSG_DONTWAIT);
	if (got > 0) {
		g->in.size += (size_t)got;
		espl__report_take(g);
	} else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
		uint64_t grace =
		    g->start.grace_ms > ESPL__AGENT_GRACE ? g->start.grace_ms : ESPL__AGENT_GRACE;

		close_report(g);
		if (g->ranks[g->leader].leaves)
			return;
		g->mute_at = espl__tick() + (int64_t)grace * 1000000; /* it may be leaving */
	}
}

void
espl__report_mute(struct espl__agent_gang *g)
{
	struct espl__buf *out = &g->agent->outbox;
	size_t mark;

	ESPL__CHECK(g, AGENT_GANG);
	g->mute_at = 0;
	if (g->ending || g->ranks[g->leader].state != ESPL__RANK_RUNS)
		return;
	mark = espl__frame_begin(out, ESPL__MSG_CLOSED);
	espl__put_v64(out, g->start.gang);
	espl__frame_end(out, mark);
}

int
espl__report_drained(struct espl__agent_gang *g)
{
	ESPL__CHECK(g, AGENT_GANG);
	if (!g->start_reported)
		close_report(g);
	while (g->report >= 0 && !g->saving_now) {
		size_t before = g->in.size;
		ssize_t got;

		espl__buf_reserve(&g->in, READ_STEP);
		got = recv(g->report, g->in.data + before, READ_STEP, MSG_DONTWAIT);
		if (got > 0) {
			g->in.size += (size_t)got;
			espl__report_take(g);
		} else if (got == 0 || errno != EINTR) {
			close_report(g); /* there is no writer left */
		}
	}
	return !g->saving_now;
}

/* ---- answers ----------------------------------------------------------------------------- */

/* Sends from the front of `bytes`; how much went, or -1 when the rank does not listen any more. */
static ssize_t
send_some(int fd, const void *bytes, size_t size)
{
	ssize_t sent;

	do
		sent = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 && errno == EAGAIN ? 0 : sent;
}

void
espl__report_write(struct espl__agent_gang *g)
{
	ssize_t sent;

	ESPL__CHECK(g, AGENT_GANG);
	if (g->report < 0 || g->out.size == 0)
		return;
	sent = send_some(g->report, g->out.data, g->out.size);
	if (sent < 0 || (size_t)sent == g->out.size) {
		espl__buf_clear(&g->out);
		g->agent->changed = 1;
		return;
	}
	memmove(g->out.data, g->out.data + sent, g->out.size - (size_t)sent);
	g->out.size -= (size_t)sent;
}

void
espl__report_reply(struct espl__agent_gang *g, const char *line)
{
	int waiting = g->out.size > 0;

	ESPL__CHECK(g, AGENT_GANG);
	if (g->report < 0)
		return;
	if (g->out.size > REPLY_LIMIT) {
		espl__report_garbage(g, "it does not read the replies to its reports");
		return;
	}
	espl__put(&g->out, line, strlen(line));
	espl__put_u8(&g->out, '\n');
	if (!waiting)
		espl__report_write(g);
	if (g->out.size > 0)
		g->agent->changed = 1;
}
