/* agent_reach.c - can this node reach the one where the ranks of a gang meet?
 *
 * This is tried before ranks are launched.  Otherwise they would wait for each other until their
 * own limits expire, while the machines cost money.  The driver also asks for it when a machine
 * joins.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"

#define MS INT64_C(1000000)
/* Without the time of a slow name server, so that a gang that cannot meet is reported in 15 s. */
#define TRY_FOR (12000 * MS)
/* Between two connections, and between two looks at `off`. */
#define PAUSE_MS 200

struct reach {
	struct espl__task task;
	uint64_t id; /* of a gang, or of a question of the driver */
	char *address;
	uint32_t port;
	const atomic_int *off; /* 1: canceled */
	char why[200];         /* "": it is reached */
};

/* ---- in its thread ------------------------------------------------------------------------ */

static int
is_wanted(const struct reach *r)
{
	return atomic_load(r->off) == 0;
}

/* 0, or an errno. */
static int
connect_until(const struct reach *r, const struct addrinfo *to, int64_t until)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), code = 0;
	/* The port is another program's next: no connection may linger there. */
	struct linger none = { .l_onoff = 1, .l_linger = 0 };
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t size = sizeof code;

	if (fd <
	    0) /* for want of descriptors or memory nothing is known: the ranks will find out */
		return errno == EAFNOSUPPORT ? errno : 0;
	if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
		code = errno;
	if (code == EINPROGRESS) {
		while (is_wanted(r) && espl__tick() < until && poll(&p, 1, PAUSE_MS) <= 0)
			;
		if (p.revents == 0)
			code = ETIMEDOUT;
		else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0)
			code = errno;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close(fd);
	return code;
}

static void
run_reach(struct espl__task *task)
{
	struct reach *r = (struct reach *)task;
	struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *found = NULL, *a;
	int64_t until = espl__tick() + TRY_FOR;
	int code = ETIMEDOUT, unknown;
	char port[16];

	(void)snprintf(port, sizeof port, "%u", (unsigned)r->port);
	for (;;) {
		unknown = getaddrinfo(r->address, port, &want, &found);
		for (a = found; unknown == 0 && a != NULL && code != 0; a = a->ai_next)
			code = connect_until(r, a, until);
		if (unknown == 0)
			freeaddrinfo(found);
		if ((unknown == 0 && code == 0) || !is_wanted(r) || espl__tick() >= until)
			break;
		(void)poll(NULL, 0, PAUSE_MS); /* the refusal may be temporary */
	}
	if (unknown != 0)
		(void)snprintf(r->why, sizeof r->why, "%s", gai_strerror(unknown));
	else if (code != 0)
		(void)snprintf(r->why, sizeof r->why, "%s", strerror(code));
}

/* ---- in the loop -------------------------------------------------------------------------- */

static void
begin_reach(struct espl__agent *a, uint64_t id, const char *address, uint32_t port,
    const atomic_int *off, void (*done)(struct espl__agent *, struct espl__task *))
{
	struct reach *r = espl__alloc(sizeof *r);

	r->task = (struct espl__task){ run_reach, done };
	r->id = id;
	r->address = espl__strdup(address);
	r->port = port;
	r->off = off;
	espl__agent_job(a, &r->task);
}

static void
free_reach(struct reach *r)
{
	free(r->address);
	free(r);
}

static void
gang_tried(struct espl__agent *a, struct espl__task *task)
{
	struct reach *r = (struct reach *)task;
	struct espl__agent_gang *g = espl__gang_find(a, r->id);
	char why[400];

	ESPL__ASSERT(g != NULL && g->jobs > 0); /* it does not end before its jobs have */
	g->jobs--;
	(void)snprintf(why, sizeof why, "network: %s:%u: %s", r->address, (unsigned)r->port,
	    r->why);
	g->steps->reached(g, r->why[0] != '\0' ? why : NULL);
	free_reach(r);
}

int
espl__reach_try(struct espl__agent_gang *g)
{
	const struct espl__start *t = &g->start;
	int joins = t->join.generation > 0, here;
	const char *address = joins ? t->join.door : t->master;
	uint32_t port = joins ? t->join.port : t->port;

	ESPL__CHECK(g, AGENT_GANG);
	here = joins ? strcmp(address, g->agent->address) == 0 : !t->together || t->node_rank == 0;
	if (g->ending || port == 0 || here)
		return 0;
	g->jobs++;
	begin_reach(g->agent, t->gang, address, port, &g->reach_off, gang_tried);
	return 1;
}

static void
question_tried(struct espl__agent *a, struct espl__task *task)
{
	struct reach *r = (struct reach *)task;
	size_t mark = espl__frame_begin(&a->outbox, ESPL__MSG_TRIED);

	espl__put_v64(&a->outbox, r->id);
	espl__put_str(&a->outbox, r->why);
	espl__frame_end(&a->outbox, mark);
	free_reach(r);
}

void
espl__reach_ask(struct espl__agent *a, uint64_t id, const char *address, uint32_t port)
{
	ESPL__CHECK(a, AGENT);
	begin_reach(a, id, address, port, &a->reach_off, question_tried);
}
