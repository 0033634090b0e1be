/* agent_reach.c - can this node reach others, as ranks of a gang on several nodes must?
 *
 * The driver has doors opened on these nodes, and each of them try those of the others, before the
 * ranks of a gang are started and when a machine joins.  Otherwise ranks would wait for each other
 * until their own limits expire, while the machines cost money.
 *
 * A door sends a word that only the driver could know: something else may listen at its address, or
 * accept any connection on the way there.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
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
/* So that what cannot be reached is reported within 15 s. */
#define TRY_FOR (12000 * MS)
/* Between two connections, and between two looks at `off`. */
#define PAUSE_MS 200
#define DOORS_MOST 1024u

struct target {
	char *address;
	uint32_t port;
	uint64_t word; /* that is sent there; 0: any */
};
struct reach {
	struct espl__task task;
	uint64_t id; /* the driver's */
	struct target *targets;
	uint32_t count, failed; /* failed: index of the one that is not reached */
	const atomic_int *off;  /* 1: canceled */
	int64_t until;
	char why[200]; /* "": all are reached */
};

/* ---- doors -------------------------------------------------------------------------------- */

/* What it sends fits into the buffer of the socket, so a visitor that reads nothing costs nothing.
 */
void
espl__reach_answer(struct espl__agent *a, int door)
{
	uint8_t text[ESPL__DOOR_BYTES] = { 0 };
	int room = 4 * (int)sizeof text, fd;

	ESPL__CHECK(a, AGENT);
	for (uint32_t i = 0; i < a->reserved_count; i++)
		if (a->reserved[i].fd == door)
			for (int k = 0; k < 8; k++)
				text[k] = (uint8_t)(a->reserved[i].word >> 8 * k);
	while ((fd = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
		(void)send(fd, text, sizeof text, MSG_NOSIGNAL);
		close(fd);
	}
}

/* ---- names, in a thread of their own: getaddrinfo has no limit ------------------------------ */

struct lookup {
	char *name, port[16];
	struct addrinfo *found;
	int code;
	atomic_int done, users;
};

static void
leave_lookup(struct lookup *l)
{
	if (atomic_fetch_sub(&l->users, 1) > 1)
		return;
	if (l->found != NULL)
		freeaddrinfo(l->found);
	free(l->name);
	free(l);
}

static void *
run_lookup(void *p)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM };
	struct lookup *l = p;

	l->code = getaddrinfo(l->name, l->port, &want, &l->found);
	if (l->code != 0)
		l->found = NULL;
	atomic_store(&l->done, 1);
	leave_lookup(l);
	return NULL;
}

static struct lookup *
begin_lookup(const struct target *t)
{
	struct lookup *l = espl__alloc(sizeof *l);
	pthread_attr_t attr;
	pthread_t thread;

	l->name = espl__strdup(t->address);
	(void)snprintf(l->port, sizeof l->port, "%u", (unsigned)t->port);
	atomic_init(&l->done, 0);
	atomic_init(&l->users, 2);
	if (pthread_attr_init(&attr) != 0) {
		(void)run_lookup(l); /* it blocks for as long as the system lets it */
		return l;
	}
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, run_lookup, l) != 0)
		(void)run_lookup(l);
	(void)pthread_attr_destroy(&attr);
	return l;
}

/* ---- in the thread of a try ----------------------------------------------------------------- */

static int
is_wanted(const struct reach *r, int64_t until)
{
	return atomic_load(r->off) == 0 && espl__tick() < until;
}

static int
await_socket(const struct reach *r, int fd, short events, int64_t until)
{
	struct pollfd p = { .fd = fd, .events = events };

	while (is_wanted(r, until))
		if (poll(&p, 1, PAUSE_MS) > 0)
			return 0;
	return ETIMEDOUT;
}

/* What the door sends has arrived: NULL, or what is wrong. */
static const char *
read_word(const struct reach *r, int fd, uint64_t word, int64_t until)
{
	uint8_t text[4096];
	uint64_t got = 0;
	size_t size = 0;

	while (size < ESPL__DOOR_BYTES) {
		ssize_t n = recv(fd, text, sizeof text, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			if (await_socket(r, fd, POLLIN, until) != 0)
				return size == 0
				    ? "it connects, but nothing is received"
				    : "it connects, but great packets are lost on the way (MTU)";
			continue;
		}
		if (n <= 0)
			return "it connects, and is disconnected";
		for (ssize_t i = 0; i < n && size + (size_t)i < 8; i++)
			got |= (uint64_t)text[i] << 8 * (size + (size_t)i);
		size += (size_t)n;
		if (size >= 8 && got != word)
			return "another program answers there";
	}
	return NULL;
}

/* NULL, or why it is not reached, which is valid until the next call. */
static const char *
visit(const struct reach *r, const struct target *t, const struct addrinfo *to, int64_t until)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), code = 0;
	/* The port is another program's next: no connection may linger there. */
	struct linger none = { .l_onoff = 1, .l_linger = 0 };
	socklen_t size = sizeof code;
	const char *why = NULL;

	if (fd <
	    0) /* for want of descriptors or memory nothing is known: the ranks will find out */
		return errno == EAFNOSUPPORT ? strerror(errno) : NULL;
	if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
		code = errno;
	if (code == EINPROGRESS && (code = await_socket(r, fd, POLLOUT, until)) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0)
		code = errno;
	if (code != 0)
		why = strerror(code);
	else if (t->word != 0)
		why = read_word(r, fd, t->word, until);
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	close(fd);
	return why;
}

/* Each of its addresses has an equal share of the time that is left. */
static const char *
visit_any(const struct reach *r, const struct target *t, const struct addrinfo *found)
{
	const char *why = "it has no address";
	int left = 0;

	for (const struct addrinfo *a = found; a != NULL; a = a->ai_next)
		left++;
	for (const struct addrinfo *a = found; a != NULL && why != NULL; a = a->ai_next, left--) {
		int64_t now = espl__tick();

		why = visit(r, t, a, now + (r->until - now) / left);
	}
	return why;
}

static const char *
try_target(const struct reach *r, const struct target *t)
{
	struct lookup *l = begin_lookup(t);
	const char *why;

	for (int ms = 1; atomic_load(&l->done) == 0 && is_wanted(r, r->until); ms += ms < 20)
		(void)poll(NULL, 0, ms);
	if (atomic_load(&l->done) == 0)
		why = "its name is not resolved in time";
	else
		why = l->code != 0 ? gai_strerror(l->code) : visit_any(r, t, l->found);
	leave_lookup(l);
	return why;
}

static void
run_reach(struct espl__task *task)
{
	struct reach *r = (struct reach *)task;

	r->until = espl__tick() + TRY_FOR;
	for (uint32_t i = 0; i < r->count && r->why[0] == '\0'; i++) {
		const char *why = try_target(r, &r->targets[i]);

		while (why != NULL && is_wanted(r, r->until)) { /* it may be temporary */
			const char *before = why;

			(void)poll(NULL, 0, PAUSE_MS);
			why = try_target(r, &r->targets[i]);
			if (why != NULL && !is_wanted(r, r->until)) /* it was cut short */
				why = before;
		}
		r->failed = i;
		(void)snprintf(r->why, sizeof r->why, "%s", why != NULL ? why : "");
	}
}

/* ---- in the loop -------------------------------------------------------------------------- */

static void
free_reach(struct reach *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		free(r->targets[i].address);
	free(r->targets);
	free(r);
}

static void
report_try(struct espl__agent *a, struct espl__task *task)
{
	struct reach *r = (struct reach *)task;
	size_t mark = espl__frame_begin(&a->outbox, ESPL__MSG_TRIED);

	espl__put_v64(&a->outbox, r->id);
	espl__put_v64(&a->outbox, r->failed);
	espl__put_str(&a->outbox, r->why);
	espl__frame_end(&a->outbox, mark);
	free_reach(r);
}

int
espl__reach_try(struct espl__agent *a, struct espl__reader *in)
{
	struct reach *r = espl__alloc(sizeof *r);
	uint64_t count;
	char address[300];

	ESPL__CHECK(a, AGENT);
	r->task = (struct espl__task){ run_reach, report_try };
	r->off = &a->reach_off;
	r->id = espl__get_v64(in);
	count = espl__get_v64(in);
	if (count > DOORS_MOST)
		in->bad = 1;
	r->targets = espl__alloc((in->bad ? 1 : count + 1) * sizeof *r->targets);
	while (!in->bad && r->count < count) {
		struct target *t = &r->targets[r->count++];

		espl__get_str(in, address, sizeof address);
		t->address = espl__strdup(address);
		t->port = espl__get_u32(in);
		t->word = espl__get_u64(in);
		in->bad |= t->port == 0 || t->port > UINT16_MAX || address[0] == '\0';
	}
	if (in->bad || in->at != in->end) {
		free_reach(r);
		return -1;
	}
	espl__agent_job(a, &r->task);
	return 0;
}
