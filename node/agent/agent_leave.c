/* agent_leave.c - the end of an agent that no driver has come back to within the linger time.
 *
 * A trial that waits for a reply pauses at once, any other at its next report; each has its grace
 * period to save.  Reports and checkpoints that no driver has acknowledged are written to
 * RUN/left/NODE-EPOCH, in the form of wire.h.  A later resume reads them there.
 *
 * If this node does not see the run directory, a checkpoint needs a driver that receives it or
 * signs its URLs: nothing could be kept, and trials are killed at once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"
#include "session/session.h"

void
espl__leave_begin(struct espl__agent *a, const char *epoch)
{
	ESPL__CHECK(a, AGENT);
	if (a->leaving != NULL || a->ending)
		return;
	a->leaving = espl__strdup(epoch);
	a->leave_at = espl__tick();
	if (a->mover != NULL) {
		espl__agent_end(a, 0);
		return;
	}
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];

		if (!g->launched)
			espl__gang_kill(g, 0);
		else if (espl__backlog_waits(&g->backlog))
			espl__report_reply(g, "pause");
	}
}

int64_t
espl__leave_tend(struct espl__agent *a, int64_t now)
{
	int64_t next = 0;

	if (a->leaving == NULL || a->ending)
		return 0;
	if (a->gang_count == 0) {
		espl__agent_end(a, 0);
		return 0;
	}
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];
		int64_t most = ESPL__SESSION_LEAVE / ESPL__SESSION_MS, until;

		if (g->ending)
			continue;
		if (g->start.grace_ms < (uint64_t)most)
			most = (int64_t)g->start.grace_ms;
		until = a->leave_at + most * ESPL__SESSION_MS;
		if (now >= until)
			espl__gang_kill(g, 0);
		else
			next = next == 0 || until < next ? until : next;
	}
	return next;
}

void
espl__leave_write(const struct espl__agent *a)
{
	char *dir, *path;

	ESPL__CHECK(a, AGENT);
	if (a->leaving == NULL || a->past.size == 0 || a->mover != NULL || a->own_dir)
		return;
	dir = espl__format("%s/left", a->dir);
	path = espl__format("%s/%" PRIu64 "-%s", dir, a->node, a->leaving);
	if (espl__dir_make(dir, NULL) == ESPL_OK) /* else that is lost: nobody can be told */
		(void)espl__file_write(path, a->past.data, a->past.size, NULL);
	free(path);
	free(dir);
}
