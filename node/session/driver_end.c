/* driver_end.c - the driver's end of a session: runs the command that reaches the node, again and
 * again. What it decides is in link.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "session/link.h"

#define STEP ((size_t)256 << 10)

struct near {
	struct espl__link link;
	char **command; /* ended by a word for --keep, and NULL */
	int last;       /* index of that word */
	char *first;    /* what it is until the keeper has greeted us */
	pid_t child;    /* that reaches the node; 0: none now */
	int to, from;
};

static uint32_t
draw_random(void)
{
	uint32_t random = 500;

	(void)!getrandom(&random, sizeof random, 0);
	return random;
}

static _Noreturn void
run_command(char **command, int in, int out)
{
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpgid(0, 0); /* wrappers end with what they run */
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(in, 0) == 0 && dup2(out, 1) == 1)
		execvp(command[0], command);
	fprintf(stderr, "cannot run '%s': %s\n", command[0], strerror(errno));
	_exit(127);
}

static int
open_channel(struct near *n)
{
	static char again[] = "again";
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) != 0)
		return -1;
	if (pipe2(out, O_CLOEXEC) != 0) {
		close(in[0]);
		close(in[1]);
		return -1;
	}
	n->command[n->last] = n->link.met ? again : n->first;
	n->child = fork();
	if (n->child == 0)
		run_command(n->command, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	n->to = in[1];
	n->from = out[0];
	espl__session_nonblocking(n->to);
	espl__session_nonblocking(n->from);
	espl__session_widen(n->to);
	espl__session_widen(n->from);
	if (n->child < 0) {
		n->child = 0;
		close(n->to);
		close(n->from);
		return -1;
	}
	espl__link_opened(&n->link, espl__tick());
	return 0;
}

/* Ends the command; its status, as exit would say. */
static int
close_channel(struct near *n)
{
	int status = 0;

	if (n->child == 0)
		return 0;
	close(n->to);
	close(n->from);
	for (int i = 0; i < 100 && waitpid(n->child, &status, WNOHANG) == 0; i++) {
		if (i == 50)
			(void)kill(-n->child, SIGTERM);
		(void)poll(NULL, 0, 2);
	}
	(void)kill(-n->child, SIGKILL);
	(void)kill(n->child, SIGKILL);
	(void)waitpid(n->child, &status, 0);
	n->child = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* -1: it is tried again; else the exit status. */
static int
lose_channel(struct near *n, const char *why)
{
	int status = close_channel(n);

	if (status == 0 && !n->link.met && !n->link.insists)
		(void)fprintf(stderr, ESPL__SESSION_DEAF "\n");
	return espl__link_lost(&n->link, status, why, draw_random(), espl__tick());
}

static int
hear_channel(struct near *n)
{
	static uint8_t bytes[STEP];
	ssize_t got = read(n->from, bytes, sizeof bytes);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return -1;
	if (got <= 0 || espl__link_receive(&n->link, bytes, (size_t)got, espl__tick()) != 0)
		return lose_channel(n, "its channel closed");
	return -1;
}

/* What is due; -1: go on, else the exit status. */
static int
tend_channel(struct near *n)
{
	switch (espl__link_tend(&n->link, espl__tick())) {
	case ESPL__LINK_OPEN: return open_channel(n) != 0 ? lose_channel(n, strerror(errno)) : -1;
	case ESPL__LINK_CLOSE: return lose_channel(n, n->link.why);
	case ESPL__LINK_EXIT: (void)close_channel(n); return n->link.status;
	default: return -1;
	}
}

static void
write_all(struct near *n)
{
	struct espl__stream *s = &n->link.stream;

	if (n->child != 0 && s->out.size > 0 && espl__session_write(n->to, &s->out) != 0)
		espl__buf_clear(&s->out); /* its end will be read */
	if (s->ready.size > 0 && espl__session_write(1, &s->ready) != 0) {
		espl__buf_clear(&s->ready); /* the driver is gone */
		espl__link_end(&n->link, espl__tick());
	}
	if (n->link.news.size > 0)
		(void)espl__write_all(2, n->link.news.data, n->link.news.size);
	espl__buf_clear(&n->link.news);
}

/* One turn; -1: go on, else the exit status. */
static int
turn_session(struct near *n)
{
	struct pollfd fds[4] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
	struct espl__stream *s = &n->link.stream;
	int status = tend_channel(n);

	write_all(n);
	if (status < 0 && espl__link_done(&n->link)) {
		(void)close_channel(n);
		status = 0;
	}
	if (status >= 0)
		return status;
	if (espl__stream_room(s) > 0)
		fds[0] = (struct pollfd){ .fd = 0, .events = POLLIN };
	if (s->ready.size > 0)
		fds[1] = (struct pollfd){ .fd = 1, .events = POLLOUT };
	if (n->child != 0)
		fds[2] = (struct pollfd){ .fd = n->from, .events = POLLIN };
	if (n->child != 0 && s->out.size > 0)
		fds[3] = (struct pollfd){ .fd = n->to, .events = POLLOUT };
	if (poll(fds, 4, n->child == 0 ? 50 : 500) < 0)
		return -1;
	if (fds[0].revents != 0 && espl__session_read(0, s) < 0)
		espl__link_end(&n->link, espl__tick());
	return fds[2].revents != 0 ? hear_channel(n) : -1;
}

int
espl__session_connect(int argc, char **argv)
{
	struct near n = { .to = -1, .from = -1 };
	int64_t patience;
	int status = -1;

	if (argc < 3 || espl__session_number(argv[0], &patience) != 0) {
		fprintf(stderr,
		    "espalier-agent: usage: --connect PATIENCE_MS new|rejoin COMMAND...\n");
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	n.command = espl__alloc((size_t)(argc + 1) * sizeof *n.command);
	memcpy(n.command, argv + 2, (size_t)(argc - 2) * sizeof *n.command);
	n.last = argc - 2;
	n.first = argv[1];
	espl__session_nonblocking(0);
	espl__session_nonblocking(1);
	espl__link_init(&n.link, patience, strcmp(n.first, "rejoin") == 0);
	while (status < 0)
		status = turn_session(&n);
	espl__link_free(&n.link);
	free(n.command);
	return status;
}
