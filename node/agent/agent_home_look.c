/* agent_home_look.c - whether the private directory of an agent is still there.
 *
 * Caches and temporary directories are cleaned by others: what was there a moment ago may be gone,
 * and a trial would save, or wait for a file, for nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"

#define LOOK_EVERY (INT64_C(10) * 1000000000)

struct look {
	struct espl__task task;
	char *path;
	int fd, gone;
};

static void
run_look(struct espl__task *job)
{
	struct look *l = (struct look *)job;

	l->gone = espl__home_is_gone(l->fd, l->path);
}

static void
end_look(struct espl__agent *a, struct espl__task *job)
{
	struct look *l = (struct look *)job;

	a->home_busy = 0;
	a->home_at = espl__tick() + LOOK_EVERY;
	if (l->gone)
		a->home_lost = 1;
	free(l->path);
	free(l);
}

/* A part of it may be removed alone. */
static void
look_at_gangs(struct espl__agent *a)
{
	struct stat st;

	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];

		if (g->saving.fd >= 0 && !g->saving_now && !g->ending &&
		    fstat(g->saving.fd, &st) == 0 && st.st_nlink == 0)
			espl__gang_excuse(g, "saving: its directory on this node was removed");
	}
}

int64_t
espl__home_tend(struct espl__agent *a, int64_t now)
{
	struct look *l;

	ESPL__CHECK(a, AGENT);
	if (a->mover == NULL || !a->own_dir || a->ending)
		return 0;
	if (a->home_lost) {
		espl__agent_log(a, ESPL_ERROR,
		    "the directory of this node's checkpoints and files, '%s', was removed; "
		    "starting again",
		    a->dir);
		espl__agent_end(a, 3);
		return 0;
	}
	if (a->home_busy)
		return 0;
	if (now < a->home_at)
		return a->home_at;
	look_at_gangs(a);
	l = espl__alloc(sizeof *l);
	l->task = (struct espl__task){ run_look, end_look };
	l->path = espl__strdup(a->dir);
	l->fd = a->home_fd;
	a->home_busy = 1;
	espl__agent_job(a, &l->task);
	return 0;
}
