/* agent_launch.c - makes a gang's processes: ports, programs, descriptors, supervisors. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/address.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/mem.h"
#include "agent/agent.h"
#include "agent/agent_sup.h"
#include "agent/agent_warm.h"
#include "checkpoint/checkpoint.h"

/* ---- ports ------------------------------------------------------------------------------- */

static int
listen_at(const struct sockaddr *address, socklen_t size, uint32_t *port)
{
	struct sockaddr_storage got;
	socklen_t got_size = sizeof got;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), high,
	    one = 1;

	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	close(fd);
	if (high < 0)
		return -1;
	if (setsockopt(high, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
	    bind(high, address, size) != 0 || listen(high, 512) != 0 ||
	    getsockname(high, (struct sockaddr *)&got, &got_size) != 0) {
		int code = errno;

		close(high);
		errno = code;
		return -1;
	}
	*port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
						: ((struct sockaddr_in *)&got)->sin_port);
	return high;
}

/* Listens on a free port of `host`; where that is no address of this machine (it is known to
 * others by another one), on all of them. */
static int
listen_on(const char *host, uint32_t *port)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct addrinfo *found = NULL;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_ANY) } };
	int fd = -1;

	if (host[0] != '\0' && getaddrinfo(host, "0", &want, &found) == 0) {
		for (struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
			if (!espl__is_inward(host, a->ai_addr))
				fd = listen_at(a->ai_addr, a->ai_addrlen, port);
		freeaddrinfo(found);
	}
	return fd >= 0 ? fd : listen_at((struct sockaddr *)&any, sizeof any, port);
}

static struct espl__reserved *
find_reserved(struct espl__agent *a, uint64_t number)
{
	for (uint32_t i = 0; i < a->reserved_count; i++)
		if (a->reserved[i].number == number)
			return &a->reserved[i];
	return NULL;
}

static void
forget_reserved(struct espl__agent *a, struct espl__reserved *r)
{
	a->changed |= r->word != 0;
	*r = a->reserved[--a->reserved_count];
}

void
espl__agent_close_doors(struct espl__agent *a)
{
	ESPL__CHECK(a, AGENT);
	for (uint32_t i = a->reserved_count; i > 0; i--)
		if (a->reserved[i - 1].word != 0)
			espl__agent_unreserve(a, a->reserved[i - 1].number);
}

void
espl__agent_unreserve(struct espl__agent *a, uint64_t number)
{
	struct espl__reserved *r = find_reserved(a, number);

	ESPL__CHECK(a, AGENT);
	if (r == NULL)
		return;
	close(r->fd);
	forget_reserved(a, r);
}

void
espl__agent_reserve(struct espl__agent *a, uint64_t number, uint64_t word)
{
	struct espl__reserved *r = find_reserved(a, number);
	size_t mark;

	ESPL__CHECK(a, AGENT);
	if (r == NULL) {
		ESPL__GROW(a->reserved, a->reserved_cap, a->reserved_count + 1);
		r = &a->reserved[a->reserved_count];
		r->number = number;
		r->word = word;
		r->port = 0;
		a->changed |= word != 0;
		r->fd = listen_on(a->address, &r->port);
		if (r->fd < 0)
			espl__agent_log(a, ESPL_ERROR, "cannot reserve a port: %s",
			    strerror(errno));
		else
			a->reserved_count++;
	}
	mark = espl__frame_begin(&a->outbox, ESPL__MSG_PORT);
	espl__put_v64(&a->outbox, number);
	espl__put_u32(&a->outbox, r->fd < 0 ? 0 : r->port);
	espl__frame_end(&a->outbox, mark);
}

/* Finds the gang's port.  *fd: a listening socket for rank 0 of a trainable, else -1. */
static int
meeting_point(struct espl__agent_gang *g, int *fd)
{
	struct espl__reserved *r = find_reserved(g->agent, g->start.gang);

	*fd = -1;
	g->port = g->start.port;
	if (r != NULL) {
		*fd = r->fd;
		forget_reserved(g->agent, r);
	} else if (g->leads && g->start.port == 0 && g->start.join.generation == 0) {
		/* Ranks that join a trainable later may come from another node. */
		*fd = listen_on(g->start.nodes > 1 ? g->agent->address
			: g->start.argc > 0 || strcmp(g->agent->address, "127.0.0.1") == 0
			? "127.0.0.1"
			: "",
		    &g->port);
		if (*fd < 0) {
			espl__rank_fail(&g->ranks[0],
			    "cannot find a port for the gang's rendezvous: %s", strerror(errno));
			return -1;
		}
	}
	if (*fd >= 0 && g->start.argc > 0) { /* a command's rank 0 binds it by itself */
		close(*fd);
		*fd = -1;
	}
	return 0;
}

/* ---- processes --------------------------------------------------------------------------- */

/* Where espalier-listen reads what the program prints. */
static int
listened_to(const char *metrics)
{
	json_t *spec = json_loads(metrics, 0, NULL);
	const char *from = json_string_value(json_object_get(spec, "from"));
	int fd = from != NULL && strcmp(from, "stderr") == 0 ? 2 : 1;

	json_decref(spec);
	return fd;
}

/* Words, environment and descriptors of a rank.  -1: its program is nowhere. */
static int
make_launch(struct espl__agent_rank *r, const struct espl__sup *s, struct espl__launch *l)
{
	const struct espl__start *t = &r->gang->start;

	l->dir = s->dir;
	l->anywhere = s->anywhere;
	l->log = s->log;
	l->report = s->report;
	l->file_max = s->file_max;
	l->log_limit = s->log_limit;
	if (t->trainable != NULL) {
		l->path = espl__format("%s/espalier-worker", r->gang->agent->libexec);
		espl__words_add(&l->words, espl__strdup(l->path));
		espl__words_add(&l->words, espl__strdup(t->trainable));
		return 0;
	}
	l->listens = t->metrics[0] != '\0' && s->report >= 0;
	l->listens_to = l->listens ? listened_to(t->metrics) : 0;
	l->path = espl__agent_words(r, &l->env, l->listens, &l->words);
	return l->path != NULL ? 0 : -1;
}

static void
start_cold(struct espl__agent_rank *r, struct espl__sup *s, const struct espl__launch *l)
{
	s->path = l->path;
	s->argv = l->words.list;
	s->env = l->env.list;
	r->sup = espl__sup_start(s, &r->link);
	if (r->sup < 0)
		espl__rank_fail(r, "cannot create a process: %s", strerror(errno));
	else
		r->state = ESPL__RANK_STARTING;
}

static void
spawn_rank(struct espl__agent_rank *r, struct espl__sup *s)
{
	const struct espl__start *t = &r->gang->start;
	struct espl__launch l = { .path = NULL };

	espl__env_make(r, s->report >= 0, s->listen >= 0, &l.env);
	if (make_launch(r, s, &l) != 0) {
		espl__rank_fail(r, "cannot run '%s': not found in PATH%s", t->argv[0],
		    strchr(t->argv[0], ' ') != NULL
			? " (write each word of a command as a separate element)"
			: "");
	} else if (espl__warm_start(r, &l)) {
		r->sup = 0; /* not known yet */
		r->state = ESPL__RANK_STARTING;
		espl__launch_keep(r, &l);
	} else {
		start_cold(r, s, &l);
	}
	espl__launch_free(&l);
}

void
espl__launch_cold(struct espl__agent_rank *r)
{
	const struct espl__launch *l = r->launch;
	struct espl__sup s = { .dir = l->dir,
		.anywhere = l->anywhere,
		.log = l->log,
		.report = l->report,
		.listen = -1,
		.key = -1,
		.channel = r->gang->agent->in,
		.file_max = l->file_max,
		.log_limit = l->log_limit };

	ESPL__CHECK(r->gang, AGENT_GANG);
	close(r->link);
	r->link = -1;
	r->gang->agent->changed = 1;
	if (l->log < 0)
		espl__rank_fail(r, "cannot create a process: %s", strerror(EMFILE));
	else
		start_cold(r, &s, l);
	espl__launch_forget(r);
}

static int
report_socket(int *ours, int *theirs)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	*theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
	close(ends[1]);
	*ours = ends[0];
	return *theirs < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ? -1 : 0;
}

static int
gpus_exist(struct espl__agent_gang *g)
{
	const struct espl__start *t = &g->start;

	for (uint32_t i = 0; i < t->rank_count && t->device_gpu && g->agent->gpus != NULL; i++)
		if (t->ranks[i].gpu >= g->agent->slots) {
			espl__rank_fail(&g->ranks[i],
			    "the node does not have GPU %" PRIu32
			    "; its number of GPUs is %" PRIu32,
			    t->ranks[i].gpu, g->agent->slots);
			return 0;
		}
	return 1;
}

/* A pipe that holds the gang's key, for one reader: in the environment, the rank's children and
 * whatever it prints would have it too. */
static int
key_pipe(const struct espl__agent_gang *g)
{
	int ends[2], high = -1;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	if (espl__write_all(ends[1], g->start.key, sizeof g->start.key) == 0)
		high = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
	close(ends[0]);
	close(ends[1]);
	return high;
}

static void
launch_ranks(struct espl__agent_gang *g, int listen_fd)
{
	struct espl__sup s = { .dir = g->start.directory,
		.anywhere = g->start.anywhere,
		.report = -1,
		.listen = -1,
		.key = -1,
		.channel = g->agent->in,
		.file_max = g->start.file_max,
		.log_limit = g->start.log_limit };

	s.log = espl__files_log(g);
	if (s.log < 0)
		espl__rank_fail(&g->ranks[0], "cannot open the trial's log: %s", strerror(errno));
	else if ((g->log_from = lseek(s.log, 0, SEEK_END)) < 0)
		g->log_from = 0;
	for (uint32_t i = 0; i < g->start.rank_count && g->culprit < 0; i++) {
		int first = g->leads && i == 0;

		s.report = -1;
		s.listen = first ? listen_fd : -1;
		/* Any rank of a trainable may come to lead. */
		if ((first || g->start.trainable != NULL) &&
		    report_socket(first ? &g->report : &g->ranks[i].control, &s.report) != 0) {
			espl__rank_fail(&g->ranks[i], "cannot create a socket for its reports: %s",
			    strerror(errno));
		} else if (g->start.trainable != NULL && (s.key = key_pipe(g)) < 0) {
			espl__rank_fail(&g->ranks[i], "cannot pass on the key of its gang: %s",
			    strerror(errno));
		} else {
			spawn_rank(&g->ranks[i], &s);
		}
		if (s.report >= 0)
			close(s.report);
		if (s.key >= 0)
			close(s.key);
		s.key = -1;
	}
	if (s.log >= 0)
		close(s.log);
}

int
espl__gang_launch(struct espl__agent_gang *g)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	char name[48];
	int listen_fd;

	ESPL__CHECK(g, AGENT_GANG);
	g->launched = 1;
	g->agent->changed = 1;
	if (!gpus_exist(g) || meeting_point(g, &listen_fd) != 0)
		return -1;
	if (espl__files_make(g, &diag) != ESPL_OK) {
		espl__rank_fail(&g->ranks[0], "cannot create the trial's files: %s",
		    espl__reason(&diag));
		espl__agent_log(g->agent, ESPL_ERROR, "trial %s: %s",
		    espl__trial_name(g->start.trial, name), diag.text);
	} else {
		launch_ranks(g, listen_fd);
	}
	if (listen_fd >= 0)
		close(listen_fd);
	return g->culprit < 0 ? 0 : -1;
}
