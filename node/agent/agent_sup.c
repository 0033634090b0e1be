/* agent_sup.c - the supervisor of one rank.
 *
 * Being a subreaper it inherits every orphan its rank leaves, however often that forked: so it
 * knows by waitpid alone when nothing is left, and by ancestry what to kill.  It is forked from
 * an agent that may have threads at that moment, and therefore takes no lock and no heap.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_sup.h"
#include "agent/sweep.h"

#define AGENT_HANGS 30 /* s: more than an agent takes to end everything */

struct exec_failure {
	int32_t what, code;
};

static void
on_child(int sig)
{
	(void)sig; /* only interrupts ppoll */
}

static void
report_agent(int link, enum espl__sup_what what, int32_t value)
{
	struct espl__sup_note note = { (int32_t)what, value };
	ssize_t sent;

	do /* a failure means that the agent is gone: poll will say so */
		sent = send(link, &note, sizeof note, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
}

static _Noreturn void
give_up(int pipe, enum espl__sup_what what)
{
	struct exec_failure failure = { (int32_t)what, errno };

	while (write(pipe, &failure, sizeof failure) < 0 && errno == EINTR)
		;
	_exit(127);
}

static void
plain_signals(void)
{
	struct sigaction plain;
	sigset_t none;

	memset(&plain, 0, sizeof plain);
	plain.sa_handler = SIG_DFL;
	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &plain, NULL); /* KILL and STOP refuse, rightly */
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the rank's process, up to its exec.  `out`: where it prints. */
static _Noreturn void
exec_rank(const struct espl__sup *s, pid_t above, int out, int pipe)
{
	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != above)
		_exit(127);
	plain_signals();
	if (s->file_max > 0) {
		struct rlimit limit = { (rlim_t)s->file_max, (rlim_t)s->file_max };

		if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
			give_up(pipe, ESPL__SUP_NO_LIMIT);
	}
	if (s->dir[0] != '\0' && chdir(s->dir) != 0 && (!s->anywhere || chdir("/") != 0))
		give_up(pipe, ESPL__SUP_NO_FOLDER);
	if (dup2(out, 1) < 0 || dup2(out, 2) < 0 ||
	    (s->report >= 0 && dup2(s->report, ESPL__FD_REPORT) < 0) ||
	    (s->listen >= 0 && dup2(s->listen, ESPL__FD_LISTEN) < 0) ||
	    (s->key >= 0 && dup2(s->key, ESPL__FD_KEY) < 0))
		give_up(pipe, ESPL__SUP_NO_FORK);
	execve(s->path, s->argv, s->env);
	give_up(pipe, ESPL__SUP_NO_EXEC);
}

static void
private_signals(sigset_t *waiting)
{
	struct sigaction action;
	sigset_t blocked;

	memset(&action, 0, sizeof action);
	sigemptyset(&action.sa_mask);
	action.sa_handler = SIG_IGN;
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGHUP, &action, NULL);
	(void)sigaction(SIGPIPE, &action, NULL);
	action.sa_handler = on_child;
	(void)sigaction(SIGCHLD, &action, NULL);
	sigemptyset(waiting); /* SIGCHLD comes only while ppoll waits */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	(void)sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* Descriptors that the supervisor keeps, in order; the rest are the agent's and other ranks'. */
static void
keep_only(const struct espl__sup *s, int link)
{
	int keep[6] = { link, s->log, s->report, s->listen, s->key, s->channel };

	for (int i = 1; i < 6; i++)
		for (int j = i; j > 0 && keep[j] < keep[j - 1]; j--) {
			int other = keep[j];

			keep[j] = keep[j - 1];
			keep[j - 1] = other;
		}
	espl__close_others(keep, 6);
}

/* The pipe closes at exec, or brings the reason why there was none. */
static pid_t
start_rank(const struct espl__sup *s, int out, int link)
{
	struct exec_failure failure;
	pid_t rank, self = getpid();
	ssize_t got;
	int ends[2], high;

	if (pipe2(ends, O_CLOEXEC) != 0 || (high = fcntl(ends[1], F_DUPFD_CLOEXEC, 10)) < 0) {
		report_agent(link, ESPL__SUP_NO_FORK, errno);
		return -1;
	}
	close(ends[1]);
	rank = fork();
	if (rank == 0)
		exec_rank(s, self, out, high);
	close(high);
	if (rank < 0) {
		report_agent(link, ESPL__SUP_NO_FORK, errno);
		return -1;
	}
	do
		got = read(ends[0], &failure, sizeof failure);
	while (got < 0 && errno == EINTR);
	close(ends[0]);
	if (got == (ssize_t)sizeof failure) {
		report_agent(link, (enum espl__sup_what)failure.what, failure.code);
		(void)waitpid(rank, NULL, 0);
		return -1;
	}
	report_agent(link, ESPL__SUP_RUNS, (int32_t)rank);
	return rank;
}

/* Reaps all that have ended. 1: no child is left. *code: the rank's exit code, once it has ended.
 */
static int
reap_children(int link, pid_t rank, int *rank_gone, int32_t *code)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid == 0 || (pid < 0 && errno == EINTR))
			return 0;
		if (pid < 0)
			return 1;
		if (pid != rank || *rank_gone)
			continue;
		*rank_gone = 1;
		*code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
		report_agent(link, ESPL__SUP_EXITED, *code);
	}
}

/* 1: everything is to be killed. */
static int
heed_orders(int link, pid_t rank, int rank_gone)
{
	for (;;) {
		char order;
		ssize_t got = recv(link, &order, 1, MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return 0;
		if (got <= 0 || order == ESPL__SUP_KILL)
			return 1;
		if (rank_gone) /* its number may be another's by now */
			(void)espl__sweep(getpid(), NULL, 0, SIGTERM);
		else
			(void)kill(-rank, SIGTERM);
	}
}

static int64_t
seconds_now(void)
{
	struct timespec t = { 0, 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* The driver has been gone since then, and its agent has not killed us: it is stopped, or hangs. */
static int
agent_hangs(int64_t since, pid_t agent)
{
	if (seconds_now() - since < AGENT_HANGS)
		return 0;
	if (getppid() == agent)
		(void)kill(agent, SIGKILL);
	return 1;
}

/* Until nothing is left of the rank and of what descends from it. */
static void
watch_rank(struct espl__tap *tap, int link, int channel, pid_t agent, pid_t rank,
    const sigset_t *waiting, int32_t *code)
{
	static const struct timespec second = { 1, 0 };
	struct timespec soon = { 0, 2000000 };
	int64_t alone_since = 0;
	int rank_gone = 0, killing = 0;

	while (!reap_children(link, rank, &rank_gone, code)) {
		struct pollfd p[3] = { { .fd = killing ? -1 : link, .events = POLLIN },
			{ .fd = tap->from, .events = POLLIN }, { .fd = channel, .events = 0 } };
		int n = ppoll(p, 3, killing ? &soon : alone_since > 0 ? &second : NULL, waiting);

		if (n > 0 && p[1].revents != 0)
			espl__tap_read(tap);
		if (n > 0 && p[0].revents != 0 && heed_orders(link, rank, rank_gone))
			killing = 1;
		if (n > 0 && p[2].revents != 0) {
			channel = -1;
			alone_since = seconds_now();
		}
		if (alone_since > 0 && !killing && agent_hangs(alone_since, agent))
			killing = 1;
		if (!killing)
			continue;
		if (!rank_gone)
			(void)kill(-rank, SIGKILL);
		(void)espl__sweep(getpid(), NULL, 0, SIGKILL);
		if (soon.tv_nsec < 100000000) /* what a disk holds up dies later */
			soon.tv_nsec *= 2;
	}
}

static _Noreturn void
supervise_rank(const struct espl__sup *s, int link)
{
	static struct espl__tap tap; /* not on a stack that may be small */
	sigset_t waiting;
	int32_t code = 0;
	int out = s->log;
	pid_t rank, agent = getppid();

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	/* The call itself: a sanitizer's wrapper takes a lock that a thread of the agent's may have
	 * held when this child was made, and would then wait for ever. */
	(void)syscall(SYS_prctl, PR_SET_NAME, "espalier-rank", 0, 0, 0);
	private_signals(&waiting);
	(void)setsid();
	keep_only(s, link);
	tap.from = tap.log = -1;
	if (s->log_limit > 0 && espl__tap_open(&tap, s->log, s->log_limit, &out) != 0) {
		report_agent(link, ESPL__SUP_NO_FORK, errno);
		_exit(0);
	}
	rank = start_rank(s, out, link);
	if (rank < 0)
		_exit(0);
	if (s->report >= 0)
		close(s->report);
	if (s->listen >= 0)
		close(s->listen);
	if (s->key >= 0)
		close(s->key);
	close(out);
	watch_rank(&tap, link, s->channel, agent, rank, &waiting, &code);
	espl__tap_read(&tap);
	espl__tap_close(&tap, code != 0);
	_exit(0);
}

pid_t
espl__sup_start(const struct espl__sup *s, int *link)
{
	int ends[2], mine, theirs, failed = 0;
	pid_t pid = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	mine = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
	theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
	if (mine < 0 || theirs < 0 || fcntl(mine, F_SETFL, O_NONBLOCK) != 0)
		failed = errno;
	close(ends[0]);
	close(ends[1]);
	if (failed == 0) {
		pid = fork();
		if (pid == 0)
			supervise_rank(s, theirs);
		failed = pid < 0 ? errno : 0;
	}
	if (theirs >= 0)
		close(theirs);
	if (failed != 0) {
		if (mine >= 0)
			close(mine);
		errno = failed;
		return -1;
	}
	*link = mine;
	return pid;
}
