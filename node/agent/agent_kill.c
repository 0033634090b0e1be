/* agent_kill.c - how a gang is ended or called off, and which rank is blamed.
 *
 * What is left of it afterwards is the work of agent_gang.c.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"
#include "agent/agent_sup.h"

#define MS INT64_C(1000000)
#define GIVE_UP (10000 * MS) /* SIGKILL works at once, unless a disk or driver hangs */

struct espl__agent_gang *
espl__gang_find(const struct espl__agent *a, uint64_t id)
{
	ESPL__CHECK(a, AGENT);
	return espl__map_get(&a->by_id, id);
}

static void
order_ranks(struct espl__agent_gang *g, char what)
{
	for (uint32_t i = 0; i < g->start.rank_count; i++) {
		struct espl__agent_rank *r = &g->ranks[i];

		if (r->link < 0)
			continue;
		if (r->state != ESPL__RANK_EXITED)
			r->by_us = 1;
		/* A full socket holds an order already; a broken one ends by itself. */
		while (send(r->link, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
			;
	}
}

void
espl__gang_together(struct espl__agent_gang *g)
{
	ESPL__CHECK(g, AGENT_GANG);
	if (!g->prepared)
		return;
	g->prepared = g->start.together = 0;
	g->steps->claimed(g, NULL);
}

/* It need not wait for a checkpoint, for files, for its node to be set up or for other nodes. */
static void
forget_fetch(struct espl__agent_gang *g)
{
	espl__gang_together(g);
	if (!g->fetching && g->fetch_at == 0 && g->setup == NULL)
		return;
	g->setup = NULL;
	g->fetching = g->lacks_files = 0;
	g->fetch_at = 0;
	g->steps->prepared(g, NULL);
}

void
espl__gang_kill_now(struct espl__agent_gang *g)
{
	ESPL__CHECK(g, AGENT_GANG);
	if (g->killing)
		return;
	g->killing = 1;
	g->kill_at = 0;
	g->give_up_at = espl__tick() + GIVE_UP;
	order_ranks(g, ESPL__SUP_KILL);
}

void
espl__gang_kill(struct espl__agent_gang *g, uint64_t grace_ms)
{
	int64_t at;

	ESPL__CHECK(g, AGENT_GANG);
	if (grace_ms > UINT64_C(86400000))
		grace_ms = UINT64_C(86400000);
	at = espl__tick() + (int64_t)grace_ms * MS;
	if (!g->launched || grace_ms == 0) {
		g->ending = 1;
		if (g->launched)
			espl__gang_kill_now(g);
		else
			forget_fetch(g);
		return;
	}
	if (!g->ending) {
		g->ending = 1;
		order_ranks(g, ESPL__SUP_TERM);
	}
	if (!g->killing && (g->kill_at == 0 || at < g->kill_at))
		g->kill_at = at;
}

void
espl__gang_excuse(struct espl__agent_gang *g, const char *text)
{
	struct espl__agent_rank *r = &g->ranks[g->culprit >= 0 ? g->culprit : 0];

	ESPL__CHECK(g, AGENT_GANG);
	g->culprit = (int)r->index;
	free(r->text);
	r->text = espl__strdup(text);
	espl__gang_kill(g, 0);
}

void
espl__rank_fail(struct espl__agent_rank *r, const char *format, ...)
{
	char text[600];
	va_list args;

	ESPL__ASSERT(r == &r->gang->ranks[r->index]);
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (r->text == NULL)
		r->text = espl__strdup(text);
	r->code = 127;
	if (r->gang->culprit < 0)
		r->gang->culprit = (int)r->index;
}
