/* link.c - see link.h. */
#include "session/link.h"

#include <string.h>

#include "base/assert.h"

#define MS ESPL__SESSION_MS
#define FIRST_PAUSE (250 * MS)
#define LONGEST_PAUSE (10000 * MS)
#define FIRST_TRIES 5u
#define TURNED_AWAY (5000 * MS)     /* later: not because others came first */
#define GREETING_LIMIT (30000 * MS) /* of a later connection; the driver limits the first */

void
espl__link_init(struct espl__link *l, int64_t patience, int insists)
{
	memset(l, 0, sizeof *l);
	l->magic = ESPL__LINK_MAGIC;
	l->patience = patience;
	l->insists = insists;
	l->pause = FIRST_PAUSE;
	espl__stream_init(&l->stream);
}

void
espl__link_free(struct espl__link *l)
{
	ESPL__CHECK(l, LINK);
	espl__stream_free(&l->stream);
	espl__buf_free(&l->news);
	l->magic = 0;
}

/* Between three and five quarters of the span, so that many sessions do not return as one. */
static int64_t
vary_span(int64_t span, uint32_t random)
{
	return span * 3 / 4 + span / 2 * (random % 1000) / 1000;
}

void
espl__link_opened(struct espl__link *l, int64_t now)
{
	ESPL__CHECK(l, LINK);
	ESPL__ASSERT(!l->channel);
	l->channel = 1;
	l->received_at = l->acked_at = now;
	espl__stream_connect(&l->stream);
}

/* Nothing of the command has reached the node: a second attempt can do no harm. */
static int
was_turned_away(const struct espl__link *l, int status, int64_t now)
{
	return status == ESPL__SESSION_UNREACHED && !l->heard && l->close_by == 0 &&
	    now - l->received_at < TURNED_AWAY;
}

int
espl__link_lost(struct espl__link *l, int status, const char *why, uint32_t random, int64_t now)
{
	int was_open = l->stream.open;

	ESPL__CHECK(l, LINK);
	l->channel = 0;
	l->stream.open = 0;
	espl__buf_clear(&l->stream.out);
	if (!l->met && !l->insists) {
		if (!was_turned_away(l, status, now) || ++l->tries >= FIRST_TRIES)
			return status != 0 ? status : 1;
		l->pause *= 2;
		l->next = now + vary_span(l->pause, random);
		return -1;
	}
	if (status == ESPL__SESSION_GONE)
		return ESPL__SESSION_GONE; /* the relay has printed why */
	if (l->close_by != 0)
		return 1;
	if (l->lost_at == 0) {
		l->lost_at = now;
		if (l->met)
			espl__print(&l->news, ESPL__SESSION_LOST "%s\n", why);
	}
	if (was_open)
		l->pause = FIRST_PAUSE;
	l->next = now + vary_span(l->pause, random);
	l->pause = l->pause * 2 < LONGEST_PAUSE ? l->pause * 2 : LONGEST_PAUSE;
	return -1;
}

int
espl__link_receive(struct espl__link *l, const void *bytes, size_t count, int64_t now)
{
	ESPL__CHECK(l, LINK);
	ESPL__ASSERT(l->channel);
	if (espl__stream_feed(&l->stream, bytes, count) != 0)
		return -1;
	l->received_at = now;
	l->heard = 1;
	if (!l->stream.open)
		return 0;
	if (l->met && l->lost_at != 0)
		espl__print(&l->news, ESPL__SESSION_FOUND "\n");
	l->met = 1;
	l->lost_at = 0;
	return 0;
}

void
espl__link_end(struct espl__link *l, int64_t now)
{
	ESPL__CHECK(l, LINK);
	espl__stream_end(&l->stream);
	if (l->close_by == 0)
		l->close_by = now + ESPL__SESSION_CLOSE;
}

static enum espl__link_order
exit_with(struct espl__link *l, int status)
{
	l->status = status;
	return ESPL__LINK_EXIT;
}

static enum espl__link_order
close_silent(struct espl__link *l, const char *why)
{
	l->why = why;
	return ESPL__LINK_CLOSE;
}

int
espl__link_done(const struct espl__link *l)
{
	ESPL__CHECK(l, LINK);
	return espl__stream_done(&l->stream) && l->stream.out.size == 0;
}

enum espl__link_order
espl__link_tend(struct espl__link *l, int64_t now)
{
	/* The keeper's linger time may be as short as the patience. */
	int64_t alive =
	    l->patience / 3 < ESPL__SESSION_ALIVE ? l->patience / 3 : ESPL__SESSION_ALIVE;

	ESPL__CHECK(l, LINK);
	if (espl__link_done(l))
		return exit_with(l, 0);
	if (l->close_by != 0 && (now >= l->close_by || !l->channel))
		return exit_with(l, 1);
	if (l->lost_at != 0 && now - l->lost_at >= l->patience) {
		espl__print(&l->news, "no connection for %lld s, giving up\n",
		    (long long)(l->patience / (1000 * MS)));
		return exit_with(l, 4);
	}
	if (!l->channel)
		return now >= l->next ? ESPL__LINK_OPEN : ESPL__LINK_WAIT;
	if (l->stream.open && now - l->received_at >= ESPL__SESSION_SILENT)
		return close_silent(l, "no response for 15 s");
	if (l->met && !l->stream.open && now - l->received_at >= GREETING_LIMIT)
		return close_silent(l, "no response for 30 s");
	if (l->stream.open && now - l->acked_at >= alive) {
		l->acked_at = now;
		espl__stream_ack(&l->stream);
	}
	espl__stream_pump(&l->stream);
	return ESPL__LINK_WAIT;
}
