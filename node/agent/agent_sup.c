/* agent_sup.c - the supervisor of one rank.
 *
 * Being a subreaper it inherits every orphan its rank leaves, however often that forked: so it
 * knows by waitpid alone when nothing is left, and by ancestry what to kill.  It is forked from
 * an agent that may have threads at that moment, and therefore takes no lock and no heap.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

#include "base/text.h"
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

/* The pipe closes when the rank runs, or brings the reason why it does not. */
static pid_t
await_rank(pid_t rank, int pipe, int link)
{
	struct exec_failure failure;
	ssize_t got;

	do
		got = read(pipe, &failure, sizeof failure);
	while (got < 0 && errno == EINTR);
	close(pipe);
	if (got == (ssize_t)sizeof failure) {
		report_agent(link, (enum espl__sup_what)failure.what, failure.code);
		(void)waitpid(rank, NULL, 0);
		return -1;
	}
	report_agent(link, ESPL__SUP_RUNS, (int32_t)rank);
	return rank;
}

static pid_t
start_rank(const struct espl__sup *s, int out, int link)
{
	pid_t rank, self = getpid();
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
	return await_rank(rank, ends[0], link);
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

static void
begin_supervising(sigset_t *waiting)
{
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	/* Not through prctl(): a sanitizer wraps it with a lock.  If another thread of the agent
	 * held that lock during the fork, the call would never return here. */
	(void)syscall(SYS_prctl, PR_SET_NAME, "espalier-rank", 0, 0, 0);
	private_signals(waiting);
	(void)setsid();
}

static _Noreturn void
supervise_rank(const struct espl__sup *s, int link)
{
	static struct espl__tap tap; /* not on a stack that may be small */
	sigset_t waiting;
	int32_t code = 0;
	int out = s->log;
	pid_t rank, agent = getppid();

	begin_supervising(&waiting);
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

/* ---- a rank that was forked before its supervisor ----------------------------------------- */

enum adopt_word {
	ADOPT_LINK,
	ADOPT_LOG,
	ADOPT_TAP,     /* the rank's output, -1: it writes to the log itself */
	ADOPT_CHANNEL, /* the agent's, from the driver */
	ADOPT_GO,      /* the rank waits for a byte from there */
	ADOPT_SAID,    /* await_rank */
	ADOPT_RANK,
	ADOPT_LOG_LIMIT,
	ADOPT_WORDS
};

static int
read_adopt_words(int argc, char **argv, int64_t words[ADOPT_WORDS])
{
	if (argc != ADOPT_WORDS)
		return -1;
	for (int i = 0; i < ADOPT_WORDS; i++)
		if (espl__parse_int(argv[i], &words[i]) != 0 || words[i] < -1 ||
		    (i < ADOPT_RANK && (words[i] > INT_MAX || (words[i] < 3 && i != ADOPT_TAP))))
			return -1;
	return words[ADOPT_RANK] > 1 ? 0 : -1;
}

/* The agent must know of us before the rank does anything: it starts a rank of which it has not
 * heard once more. */
static int
introduce_self(int link, int go)
{
	struct espl__sup_note note = { ESPL__SUP_ADOPTED, (int32_t)getpid() };
	ssize_t done;

	do
		done = send(link, &note, sizeof note, MSG_NOSIGNAL);
	while (done < 0 && errno == EINTR);
	if (done != (ssize_t)sizeof note)
		return -1;
	do
		done = write(go, "", 1);
	while (done < 0 && errno == EINTR);
	close(go);
	return done == 1 ? 0 : -1;
}

int
espl__sup_adopt(int argc, char **argv)
{
	static struct espl__tap tap;
	int64_t words[ADOPT_WORDS];
	int32_t code = 0;
	sigset_t waiting;
	pid_t rank;
	int link, channel;

	if (read_adopt_words(argc, argv, words) != 0)
		return 2;
	begin_supervising(&waiting);
	for (int i = 0; i < ADOPT_RANK; i++)
		if (words[i] >= 0)
			(void)fcntl((int)words[i], F_SETFD, FD_CLOEXEC);
	link = (int)words[ADOPT_LINK];
	channel = (int)words[ADOPT_CHANNEL];
	tap.from = (int)words[ADOPT_TAP];
	tap.log = tap.from >= 0 ? (int)words[ADOPT_LOG] : -1;
	tap.limit = words[ADOPT_LOG_LIMIT];
	if (tap.from < 0)
		close((int)words[ADOPT_LOG]);
	else
		(void)fcntl(tap.from, F_SETFL, O_NONBLOCK);
	if (introduce_self(link, (int)words[ADOPT_GO]) != 0)
		return 1; /* the rank ends with us */
	rank = await_rank((pid_t)words[ADOPT_RANK], (int)words[ADOPT_SAID], link);
	if (rank < 0)
		return 0;
	/* No process is our parent's agent: if that hangs, another supervisor ends it. */
	watch_rank(&tap, link, channel, -1, rank, &waiting, &code);
	espl__tap_read(&tap);
	espl__tap_close(&tap, code != 0);
	return 0;
}

/* ---- for the agent ------------------------------------------------------------------------ */

int
espl__sup_link(int *ours, int *theirs)
{
	int ends[2], failed = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	*ours = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
	*theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
	if (*ours < 0 || *theirs < 0 || fcntl(*ours, F_SETFL, O_NONBLOCK) != 0)
		failed = errno;
	close(ends[0]);
	close(ends[1]);
	if (failed == 0)
		return 0;
	if (*ours >= 0)
		close(*ours);
	if (*theirs >= 0)
		close(*theirs);
	errno = failed;
	return -1;
}

pid_t
espl__sup_start(const struct espl__sup *s, int *link)
{
	int ours, theirs, failed;
	pid_t pid;

	if (espl__sup_link(&ours, &theirs) != 0)
		return -1;
	pid = fork();
	if (pid == 0)
		supervise_rank(s, theirs);
	failed = errno;
	close(theirs);
	if (pid < 0) {
		close(ours);
		errno = failed;
		return -1;
	}
	*link = ours;
	return pid;
}
