/* near.c - the driver's end of a session: runs the command that reaches the node, again and again.
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

#include "base/mem.h"
#include "base/tick.h"
#include "session/session.h"

#define MS ESPL__SESSION_MS
#define FIRST_PAUSE (250 * MS)
#define LONGEST_PAUSE (10000 * MS)
#define GREETING_LIMIT (30000 * MS) /* of a later connection; the driver limits the first */

struct near {
	struct espl__stream stream;
	char **command; /* ended by a word for --keep, and NULL */
	int last;       /* index of that word */
	char *first;    /* what it is until the keeper has greeted us */
	int64_t patience;
	pid_t child; /* that reaches the node; 0: none now */
	int to, from;
	int met;         /* the keeper has greeted us, at least once */
	int64_t heard;   /* tick at which the channel last brought something */
	int64_t said;    /* ... at which it was last sent an ACK */
	int64_t lost_at; /* since then there is no connection; 0: there is */
	int64_t next;    /* tick of the next attempt */
	int64_t pause;
	int64_t close_by; /* the driver has closed its channel; 0: it has not */
	int status;       /* of the child, as exit would say */
};

/* Between three and five quarters of the span, so that many sessions do not return as one. */
static int64_t
vary(int64_t span)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
		return span;
	return span * 3 / 4 + span / 2 * (random % 1000) / 1000;
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
	n->command[n->last] = n->met ? again : n->first;
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
	espl__stream_connect(&n->stream);
	n->heard = n->said = espl__tick();
	return 0;
}

static void
close_channel(struct near *n)
{
	int status = 0;

	if (n->child == 0)
		return;
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
	n->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	n->child = 0;
}

/* 0: it will be tried again; else the exit status. */
static int
lose_channel(struct near *n, const char *why)
{
	int64_t now = espl__tick();
	int was_open = n->stream.open;

	close_channel(n);
	if (!n->met)
		return n->status != 0 ? n->status : 1;
	if (n->status == ESPL__SESSION_GONE)
		return ESPL__SESSION_GONE; /* the relay has said so */
	if (n->close_by != 0)
		return 1;
	if (n->lost_at == 0) {
		n->lost_at = now;
		fprintf(stderr, ESPL__SESSION_LOST "%s\n", why);
	}
	if (was_open)
		n->pause = FIRST_PAUSE;
	n->next = now + vary(n->pause);
	n->pause = n->pause * 2 < LONGEST_PAUSE ? n->pause * 2 : LONGEST_PAUSE;
	n->stream.open = 0;
	return 0;
}

static int
hear_channel(struct near *n)
{
	int got = espl__session_feed(n->from, &n->stream);

	if (got < 0)
		return lose_channel(n, "its channel closed");
	if (got == 0)
		return 0;
	n->heard = espl__tick();
	if (n->stream.open) {
		n->met = 1;
		if (n->lost_at != 0)
			fprintf(stderr, ESPL__SESSION_FOUND "\n");
		n->lost_at = 0;
	}
	return 0;
}

/* What time alone brings about; 0, or the exit status. */
static int
tend_channel(struct near *n, int64_t now)
{
	if (n->close_by != 0 && (now >= n->close_by || n->child == 0)) {
		close_channel(n);
		return 1;
	}
	if (n->lost_at != 0 && now - n->lost_at >= n->patience) {
		close_channel(n);
		fprintf(stderr, "no connection for %lld s, giving up\n",
		    (long long)(n->patience / (1000 * MS)));
		return 4;
	}
	if (n->child == 0)
		return now >= n->next && open_channel(n) != 0 ? lose_channel(n, strerror(errno))
							      : 0;
	if (n->stream.open && now - n->heard >= ESPL__SESSION_SILENT)
		return lose_channel(n, "no response for 15 s");
	if (n->met && !n->stream.open && now - n->heard >= GREETING_LIMIT)
		return lose_channel(n, "no response for 30 s");
	if (n->stream.open && now - n->said >= ESPL__SESSION_ALIVE) {
		n->said = now;
		espl__stream_ack(&n->stream);
	}
	return 0;
}

static void
end_input(struct near *n)
{
	espl__stream_end(&n->stream);
	if (n->close_by == 0)
		n->close_by = espl__tick() + ESPL__SESSION_CLOSE;
}

/* One turn; -1: go on, else the exit status. */
static int
turn_session(struct near *n)
{
	struct pollfd fds[4] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
	int64_t now = espl__tick();
	int status = tend_channel(n, now);

	if (status != 0)
		return status;
	espl__stream_pump(&n->stream);
	if (n->child != 0 && n->stream.out.size > 0 &&
	    espl__session_write(n->to, &n->stream.out) != 0)
		espl__buf_clear(&n->stream.out); /* its end will be read */
	if (n->stream.ready.size > 0 && espl__session_write(1, &n->stream.ready) != 0) {
		espl__buf_clear(&n->stream.ready); /* the driver is gone */
		end_input(n);
	}
	if (espl__stream_done(&n->stream) && n->stream.out.size == 0) {
		close_channel(n);
		return 0;
	}
	if (espl__stream_room(&n->stream) > 0)
		fds[0] = (struct pollfd){ .fd = 0, .events = POLLIN };
	if (n->stream.ready.size > 0)
		fds[1] = (struct pollfd){ .fd = 1, .events = POLLOUT };
	if (n->child != 0)
		fds[2] = (struct pollfd){ .fd = n->from, .events = POLLIN };
	if (n->child != 0 && n->stream.out.size > 0)
		fds[3] = (struct pollfd){ .fd = n->to, .events = POLLOUT };
	if (poll(fds, 4, n->child == 0 ? 50 : 500) < 0)
		return -1;
	if (fds[0].revents != 0 && espl__session_read(0, &n->stream) < 0)
		end_input(n);
	status = fds[2].revents != 0 ? hear_channel(n) : 0;
	return status != 0 ? status : -1;
}

int
espl__session_connect(int argc, char **argv)
{
	struct near n = { .to = -1, .from = -1, .pause = FIRST_PAUSE };
	int status = -1;

	if (argc < 3 || espl__session_number(argv[0], &n.patience) != 0) {
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
	espl__stream_init(&n.stream);
	while (status < 0)
		status = turn_session(&n);
	espl__stream_free(&n.stream);
	free(n.command);
	return status;
}
