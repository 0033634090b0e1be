/* agent_loop.c - the main loop (wait, receive, act, send) and the shutdown. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent_gpu.h"
#include "agent/agent_warm.h"
#include "agent/sweep.h"

#define MS INT64_C(1000000)
#define LAST_WAIT (15000 * MS) /* for processes and disks at the end */

#define CONTROL (1u << 30)
#define COURIER 1u
#define SETUP 2u
#define WARM 3u
#define DOOR 4u

struct polled {
	uint64_t gang;
	uint32_t rank; /* ESPL_ANY: the report socket; + CONTROL: the rank's own */
};

struct polls {
	struct pollfd *fds;
	struct polled *what;
	uint32_t count, cap, what_cap;
	int full; /* built while the outbox was full */
};

static void
watch_fd(struct polls *p, int fd, short events, uint64_t gang, uint32_t rank)
{
	ESPL__ASSERT(p->count <= p->cap);
	ESPL__GROW(p->fds, p->cap, p->count + 1);
	ESPL__GROW(p->what, p->what_cap, p->count + 1);
	p->fds[p->count] = (struct pollfd){ .fd = fd, .events = events };
	p->what[p->count].gang = gang;
	p->what[p->count++].rank = rank;
}

/* The first four are the agent's own. */
static void
rebuild_polls(struct espl__agent *a, struct polls *p)
{
	int fd;

	p->count = 0;
	watch_fd(p, a->ending ? -1 : a->in, POLLIN, 0, 0);
	watch_fd(p, -1, POLLOUT, 0, 0);
	watch_fd(p, a->signals, POLLIN, 0, 0);
	watch_fd(p, a->jobs_out, POLLIN, 0, 0);
	for (uint32_t i = 0; (fd = espl__gpus_fd(a, i)) >= 0; i++)
		watch_fd(p, fd, POLLIN, ESPL_NONE, 0);
	for (uint32_t i = 0; (fd = espl__courier_fd(a, i)) >= 0; i++)
		watch_fd(p, fd, POLLIN, ESPL_NONE, COURIER);
	for (uint32_t i = 0; (fd = espl__setup_fd(a, i)) >= 0; i++)
		watch_fd(p, fd, POLLIN, ESPL_NONE, SETUP);
	for (uint32_t i = 0; (fd = espl__warm_fd(a, i)) >= 0; i++)
		watch_fd(p, fd, POLLIN, ESPL_NONE, WARM);
	for (uint32_t i = 0; i < a->reserved_count; i++)
		if (a->reserved[i].word != 0)
			watch_fd(p, a->reserved[i].fd, POLLIN, ESPL_NONE, DOOR);
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];
		short events = p->full || g->saving_now || !g->start_reported ? 0 : POLLIN;

		if (g->out.size > 0)
			events |= POLLOUT;
		if (g->report >= 0 && events != 0)
			watch_fd(p, g->report, events, g->start.gang, ESPL_ANY);
		for (uint32_t j = 0; j < g->start.rank_count; j++)
			if (g->ranks[j].link >= 0)
				watch_fd(p, g->ranks[j].link, POLLIN, g->start.gang, j);
		for (uint32_t j = 0; j < g->start.rank_count && !p->full && g->start_reported; j++)
			if (g->ranks[j].control >= 0)
				watch_fd(p, g->ranks[j].control, POLLIN, g->start.gang,
				    j + CONTROL);
	}
}

static void
look_at_gang(struct espl__agent *a, const struct pollfd *p, uint64_t gang, uint32_t rank)
{
	struct espl__agent_gang *g = espl__gang_find(a, gang);

	ESPL__CHECK(a, AGENT);
	if (gang == ESPL_NONE && rank == COURIER)
		espl__courier_receive(a, p->fd);
	else if (gang == ESPL_NONE && rank == SETUP)
		espl__setup_receive(a, p->fd);
	else if (gang == ESPL_NONE && rank == WARM)
		espl__warm_receive(a, p->fd);
	else if (gang == ESPL_NONE && rank == DOOR)
		espl__reach_answer(a, p->fd);
	else if (gang == ESPL_NONE)
		espl__gpus_receive(a, p->fd);
	if (g == NULL)
		return;
	if (rank != ESPL_ANY && rank >= CONTROL) {
		if (g->ranks[rank - CONTROL].control == p->fd)
			espl__control_read(&g->ranks[rank - CONTROL]);
		return;
	}
	if (rank != ESPL_ANY) {
		if (g->ranks[rank].link == p->fd)
			espl__gang_note(&g->ranks[rank]);
		return;
	}
	if (g->report != p->fd)
		return;
	if ((p->revents & POLLOUT) != 0)
		espl__report_write(g);
	if ((p->revents & (POLLIN | POLLHUP | POLLERR)) != 0)
		espl__report_read(g);
}

static void
take_signals(struct espl__agent *a)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;

	while (read(a->signals, &info, sizeof info) == (ssize_t)sizeof info)
		if (info.ssi_signo != SIGCHLD)
			espl__agent_end(a, 0);
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		espl__gpus_reaped(a, pid, status);
}

static int
wait_ms(const struct espl__agent *a, int64_t next, int64_t now)
{
	int64_t until = next;

	if (a->heartbeat_ns > 0 && !a->ending) {
		int64_t silent = a->heard_at + 10 * a->heartbeat_ns;

		until = until == 0 || silent < until ? silent : until;
	}
	if (a->ending && (until == 0 || until > now + 20 * MS))
		until = now + 20 * MS;
	if (until == 0)
		return -1;
	return until <= now
	    ? 0
	    : (int)((until - now) / MS > 60000 ? 60000 : (until - now + MS - 1) / MS);
}

/* The driver is gone, or never reads. */
static void
end_if_unread(struct espl__agent *a)
{
	if (a->unread)
		espl__agent_end(a, 1);
}

static void
turn_loop(struct espl__agent *a, struct polls *p)
{
	int64_t now = espl__tick(), next = espl__gpus_tend(a, now), more = espl__gang_tend(a, now);
	int64_t third = espl__relay_tend(a, now), fourth = espl__imds_tend(a, now);
	int64_t fifth = espl__leave_tend(a, now), sixth = espl__setup_tend(a, now);
	int64_t seventh = espl__home_tend(a, now), eighth = espl__warm_tend(a, now);
	int full = espl__agent_unsent(a) > ESPL__AGENT_OUTBOX;

	next = next == 0 || (more != 0 && more < next) ? more : next;
	next = next == 0 || (third != 0 && third < next) ? third : next;
	next = next == 0 || (fourth != 0 && fourth < next) ? fourth : next;
	next = next == 0 || (fifth != 0 && fifth < next) ? fifth : next;
	next = next == 0 || (sixth != 0 && sixth < next) ? sixth : next;
	next = next == 0 || (seventh != 0 && seventh < next) ? seventh : next;
	next = next == 0 || (eighth != 0 && eighth < next) ? eighth : next;
	espl__agent_flush(a);
	end_if_unread(a);
	if (a->changed || full != p->full) {
		a->changed = 0;
		p->full = full;
		rebuild_polls(a, p);
	}
	ESPL__ASSERT(p->count >= 4); /* the agent's own */
	p->fds[1].fd = espl__agent_unsent(a) > 0 ? a->out : -1;
	if (poll(p->fds, p->count, wait_ms(a, next, now)) < 0)
		return; /* EINTR; or no memory for a moment: tried again */
	if (p->fds[0].revents != 0)
		espl__agent_receive(a);
	for (uint32_t i = 4; i < p->count; i++)
		if (p->fds[i].revents != 0)
			look_at_gang(a, &p->fds[i], p->what[i].gang, p->what[i].rank);
	if (p->fds[2].revents != 0)
		take_signals(a);
	if (p->fds[3].revents != 0)
		espl__jobs_finish(a);
	if (a->heartbeat_ns > 0 && !a->ending &&
	    espl__tick() - a->heard_at > 10 * a->heartbeat_ns) {
		espl__agent_log(a, ESPL_ERROR, "no message from the driver for too long");
		espl__agent_end(a, 1);
	}
	end_if_unread(a);
}

static void
last_words(struct espl__agent *a)
{
	int64_t until = espl__tick() + 2000 * MS;

	while (espl__agent_unsent(a) > 0 && espl__tick() < until) {
		struct pollfd p = { .fd = a->out, .events = POLLOUT };

		if (poll(&p, 1, 50) < 0 && errno != EINTR)
			break;
		espl__agent_flush(a);
	}
	for (until = espl__tick() + 3000 * MS; espl__tick() < until; poll(NULL, 0, 2)) {
		(void)espl__sweep(getpid(), NULL, 0, SIGKILL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			break;
	}
	if (a->mover != NULL)
		espl__home_leave(a);
	else if (a->own_dir)
		(void)espl__tree_remove(a->dir, NULL);
}

void
espl__agent_run(struct espl__agent *a)
{
	struct polls p = { NULL, NULL, 0, 0, 0, 0 };
	int64_t until = 0;

	ESPL__CHECK(a, AGENT);
	a->changed = 1;
	while (!a->ending ||
	    ((a->gang_count > 0 || a->jobs > 0 || !espl__gpus_over(a)) && espl__tick() < until)) {
		turn_loop(a, &p);
		if (a->ending && until == 0)
			until = espl__tick() + LAST_WAIT;
	}
	espl__leave_write(a);
	last_words(a);
	free(p.fds);
	free(p.what);
}
