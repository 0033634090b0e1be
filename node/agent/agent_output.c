/* agent_output.c - what the agent sends to its driver.
 *
 * Frames are collected in the outbox and sent with one write per iteration of the loop. The frames
 * that a driver must not miss are kept, for one that resumes.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "agent/agent.h"

#define PAST_LIMIT ((size_t)1 << 18)
#define MOVED_MOST ((size_t)256 << 10) /* what is sent stays in the outbox up to here */
#define OUT_LIMIT ((size_t)256 << 20)  /* more unread output than this: the driver is gone */

size_t
espl__agent_unsent(const struct espl__agent *a)
{
	ESPL__ASSERT(a->outbox_at <= a->outbox.size);
	return a->outbox.size - a->outbox_at;
}

void
espl__agent_log(struct espl__agent *a, espl_level level, const char *format, ...)
{
	char text[700];
	va_list args;
	size_t mark;

	ESPL__CHECK(a, AGENT);
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	mark = espl__frame_begin(&a->outbox, ESPL__MSG_LOG);
	espl__put_u8(&a->outbox, (uint8_t)level);
	espl__put_str(&a->outbox, text);
	espl__frame_end(&a->outbox, mark);
}

void
espl__agent_flush(struct espl__agent *a)
{
	ESPL__CHECK(a, AGENT);
	while (espl__agent_unsent(a) > 0) {
		ssize_t sent = write(a->out, a->outbox.data + a->outbox_at, espl__agent_unsent(a));

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			break;
		if (sent < 0) { /* the reader is gone, so stop writing */
			a->outbox_at = a->outbox.size;
			a->unread = 1;
			break;
		}
		a->outbox_at += (size_t)sent;
	}
	if (espl__agent_unsent(a) == 0) {
		espl__buf_clear(&a->outbox);
		a->outbox_at = 0;
	} else if (a->outbox_at > MOVED_MOST) {
		memmove(a->outbox.data, a->outbox.data + a->outbox_at, espl__agent_unsent(a));
		a->outbox.size -= a->outbox_at;
		a->outbox_at = 0;
	}
	if (espl__agent_unsent(a) > OUT_LIMIT)
		a->unread = 1;
}

/* ---- what a driver that resumes wants to know --------------------------------------------- */

void
espl__agent_keep(struct espl__agent_gang *g, size_t mark)
{
	const struct espl__buf *out = &g->agent->outbox;

	ESPL__CHECK(g, AGENT_GANG);
	ESPL__ASSERT(mark <= out->size);
	espl__backlog_keep(&g->backlog, out->data + mark, out->size - mark);
}

void
espl__agent_put_state(const struct espl__agent_gang *g, struct espl__buf *to)
{
	int whole =
	    g->slots_generation == 0 && g->start.nodes == 1 && g->start.join.generation == 0;

	espl__backlog_state(&g->backlog, g->start.gang, whole ? g->start.rank_count : 0, to);
}

void
espl__agent_gang_over(struct espl__agent_gang *g)
{
	struct espl__buf *past = &g->agent->past;

	ESPL__CHECK(g, AGENT_GANG);
	if (past->size > PAST_LIMIT && g->agent->leaving == NULL) /* those are long known */
		espl__buf_clear(past);
	espl__agent_put_state(g, past);
}
