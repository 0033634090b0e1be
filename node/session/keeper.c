/* keeper.c - the node's end of a session: the keeper, which runs the agent, and the relays between
 * it and successive channels. The decisions of the keeper are in keep.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "session/keep.h"

#define MS ESPL__SESSION_MS
#define STEP ((size_t)256 << 10)
#define WORD ESPL__KEEP_WORD
#define HANDSHAKE 2000 /* ms for a line from a relay */
#define ACCEPT_PAUSE (500 * MS)
#define ANSWER 20000           /* ms for the keeper's, whose node may be swapping */
#define LATE (-2)              /* no such line came in that time */
#define OLD_LIMIT (25000 * MS) /* for the keeper of an earlier session to end */
#define SAVING_LIMIT (ESPL__SESSION_LEAVE + ESPL__SESSION_AGENT + ESPL__SESSION_CLOSE)
#define LAST_LIMIT (60000 * MS) /* for the command of an orphaned session */

struct keeper {
	struct espl__keep keep;
	int door, relay; /* listening; the present connection, -1 none */
	int64_t
	    admit_at; /* tick: it could not accept, for want of descriptors, and waits until then */
	int to, from; /* the agent's standard input and output, -1 closed */
	pid_t agent;
};

/* What is known of a session only when it begins: LINGER_MS, or LINGER_MS:WORD,WORD... with the
 * words of the last command in hexadecimal digits, so that no shell on the way sees any other. */
struct terms {
	int64_t linger;
	char *last[ESPL__SESSION_WORDS + 1]; /* NULL-terminated; none: no command */
};

static volatile sig_atomic_t terminated;

static void
on_term(int number)
{
	(void)number;
	terminated = 1;
}

/* ---- names -------------------------------------------------------------------------------- */

/* In the abstract name space: nothing is left behind, and no directory needs to be shared. */
static socklen_t
name_socket(struct sockaddr_un *address, const char *lease)
{
	int length;

	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "espalier-%ld-%s",
	    (long)getuid(), lease);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Anybody can bind or connect to such a name: the other end must be the same user. */
static int
is_own(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid();
}

/* A line from a socket, without its newline; -1: its end, or too long; or LATE. */
static int
read_line(int fd, char *to, size_t room, int limit_ms)
{
	size_t size = 0;
	int64_t until = espl__tick() + limit_ms * MS;

	while (size + 1 < room && espl__tick() < until) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t got;

		if (poll(&p, 1, limit_ms) <= 0)
			continue;
		got = read(fd, to + size, 1); /* what follows the line is not ours */
		if (got <= 0)
			return -1;
		if (to[size] == '\n') {
			to[size] = '\0';
			return 0;
		}
		size++;
	}
	return size + 1 < room ? LATE : -1;
}

/* ---- terms -------------------------------------------------------------------------------- */

/* One word, up to a comma or the end; returns what follows, or NULL. */
static const char *
read_word(const char *text, char **to)
{
	size_t digits = strspn(text, "0123456789abcdef"), size = digits / 2;
	unsigned byte;

	if (digits % 2 != 0 || (text[digits] != ',' && text[digits] != '\0'))
		return NULL;
	*to = espl__alloc(size + 1);
	for (size_t i = 0; i < size; i++) {
		(void)sscanf(text + 2 * i, "%2x", &byte);
		(*to)[i] = (char)byte;
	}
	(*to)[size] = '\0';
	return text + digits;
}

static int
read_terms(const char *text, struct terms *terms)
{
	const char *at = strchr(text, ':');
	char number[24];
	int count = 0;

	memset(terms, 0, sizeof *terms);
	(void)snprintf(number, sizeof number, "%.*s", (int)strcspn(text, ":"), text);
	if (espl__session_number(number, &terms->linger) != 0)
		return -1;
	while (at != NULL && *at != '\0' && count < (int)ESPL__SESSION_WORDS)
		at = read_word(at + 1, &terms->last[count++]);
	return strchr(text, ':') == NULL || (at != NULL && *at == '\0') ? 0 : -1;
}

/* ---- the keeper --------------------------------------------------------------------------- */

static _Noreturn void
run_agent(int in, int out)
{
	char name[] = "espalier-agent";
	char *argv[] = { name, NULL };

	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGHUP, SIG_DFL);
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(in, 0) == 0 && dup2(out, 1) == 1)
		execv("/proc/self/exe", argv);
	fprintf(stderr, "cannot start espalier-agent: %s\n", strerror(errno));
	_exit(127);
}

static int
start_agent(struct keeper *k)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return -1;
	k->agent = fork();
	if (k->agent == 0)
		run_agent(in[0], out[1]);
	close(in[0]);
	close(out[1]);
	k->to = in[1];
	k->from = out[0];
	espl__session_nonblocking(k->to);
	espl__session_nonblocking(k->from);
	espl__session_widen(k->to);
	espl__session_widen(k->from);
	return k->agent < 0 ? -1 : 0;
}

/* What was decided of the descriptors. */
static void
close_ends(struct keeper *k)
{
	if (!k->keep.relay && k->relay >= 0) {
		close(k->relay);
		k->relay = -1;
	}
	if (!k->keep.in && k->to >= 0) {
		close(k->to);
		k->to = -1;
	}
}

static void
admit_relay(struct keeper *k)
{
	char line[WORD + 10];
	int fd = accept4(k->door, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0 && errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
		k->admit_at = espl__tick() + ACCEPT_PAUSE;
	if (fd < 0)
		return;
	if (!is_own(fd) || read_line(fd, line, sizeof line, HANDSHAKE) != 0 ||
	    !espl__keep_admit(&k->keep, line, espl__tick())) {
		if (k->keep.kill_at != 0)
			(void)espl__write_all(fd,
			    k->keep.leaving && k->keep.in ? "saving\n" : "ending\n", 7);
		close(fd);
		return;
	}
	if (k->relay >= 0)
		close(k->relay); /* the channel behind it may be half open */
	k->relay = fd;
	if (espl__write_all(fd, "go\n", 3) != 0)
		espl__keep_lose(&k->keep);
	espl__session_nonblocking(fd);
}

static void
hear_relay(struct keeper *k)
{
	static uint8_t bytes[STEP];
	ssize_t got = read(k->relay, bytes, sizeof bytes);

	if (got > 0)
		(void)espl__keep_receive(&k->keep, bytes, (size_t)got, espl__tick());
	else if (got == 0 || (errno != EINTR && errno != EAGAIN))
		espl__keep_lose(&k->keep);
}

static void
take_output(struct keeper *k)
{
	static uint8_t bytes[STEP];
	ssize_t got = read(k->from, bytes, sizeof bytes);

	if (got > 0)
		espl__keep_send(&k->keep, bytes, (size_t)got);
	if (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN)))
		return;
	close(k->from);
	k->from = -1;
	espl__keep_ended(&k->keep, espl__tick());
}

/* Input for the agent, which may have ended by itself. */
static void
pass_input(struct keeper *k)
{
	espl__keep_pass(&k->keep, espl__tick());
	close_ends(k);
	if (k->to < 0 || k->keep.down.size == 0)
		return;
	if (espl__session_write(k->to, &k->keep.down) != 0)
		espl__keep_end(&k->keep, espl__tick());
	espl__keep_pass(&k->keep, espl__tick());
	close_ends(k);
}

static void
tend_keeper(struct keeper *k, int64_t now)
{
	if (terminated) {
		espl__keep_end(&k->keep, now);
		k->keep.claimed = 1;
	}
	if (espl__keep_tend(&k->keep, now))
		(void)kill(k->agent, SIGKILL);
	if (k->relay >= 0 && k->keep.stream.out.size > 0 &&
	    espl__session_write(k->relay, &k->keep.stream.out) != 0)
		espl__keep_lose(&k->keep);
	close_ends(k);
}

/* 0: it is over.  The linger time is judged by a time before the wait: a keeper that did not run
 * for a while must first hear what came meanwhile. */
static int
turn_keeper(struct keeper *k)
{
	struct pollfd fds[4];
	int64_t now = espl__tick();

	fds[0] = (struct pollfd){ .fd = now >= k->admit_at ? k->door : -1, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = k->relay,
		.events = (short)(POLLIN | (k->keep.stream.out.size > 0 ? POLLOUT : 0)) };
	fds[2] =
	    (struct pollfd){ .fd = espl__keep_reads(&k->keep) ? k->from : -1, .events = POLLIN };
	fds[3] = (struct pollfd){ .fd = k->keep.down.size > 0 ? k->to : -1, .events = POLLOUT };
	if (poll(fds, 4, 500) > 0) {
		if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
			hear_relay(k);
		if (fds[0].revents != 0)
			admit_relay(k);
		if (fds[2].revents != 0)
			take_output(k);
		pass_input(k);
	}
	tend_keeper(k, now);
	return !espl__keep_over(&k->keep, now);
}

/* Output is discarded: no driver is connected.  Closes descriptors inherited from the agent's
 * command, such as the lock of a host. */
static _Noreturn void
run_words(char **words)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	(void)dup2(0, 2);
	(void)setsid();
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGHUP, SIG_DFL);
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGPIPE, SIG_DFL);
	execvp(words[0], words);
	_exit(127);
}

/* Tells a relay that it comes too late. */
static void
refuse_relay(int door)
{
	struct pollfd p = { .fd = door, .events = POLLIN };
	int fd = poll(&p, 1, 50) > 0 ? accept4(door, NULL, NULL, SOCK_CLOEXEC) : -1;
	char line[WORD + 10];

	if (fd < 0)
		return;
	if (is_own(fd) && read_line(fd, line, sizeof line, HANDSHAKE) == 0)
		(void)espl__write_all(fd, "last\n", 5);
	close(fd);
}

/* Nothing of the run is left on the node, and no driver has come for it. */
static void
run_last(int door, char **words, const char *lease)
{
	int64_t until = espl__tick() + LAST_LIMIT;
	pid_t pid;

	(void)setenv("ESPALIER_LEASE", lease, 1);
	pid = fork();
	if (pid == 0)
		run_words(words);
	/* A process that even SIGKILL does not end (a dead disk) is left behind. */
	while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 &&
	    espl__tick() < until + ESPL__SESSION_CLOSE) {
		if (espl__tick() >= until)
			(void)kill(-pid, SIGKILL);
		refuse_relay(door);
	}
}

static _Noreturn void
keep_session(int door, const char *lease, const char *id, struct terms *terms)
{
	struct keeper k = { .door = door, .relay = -1, .to = -1, .from = -1 };
	int null = open("/dev/null", O_RDWR);

	(void)setsid(); /* the end of a channel's session is none of ours */
	(void)chdir("/");
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, on_term);
	if (espl__keep_init(&k.keep, id, terms->linger, espl__tick()) != 0 || null < 0 ||
	    dup2(null, 0) < 0 || dup2(null, 1) < 0 || start_agent(&k) != 0)
		_exit(1);
	if (null > 2)
		close(null);
	k.keep.last = terms->last[0] != NULL;
	while (turn_keeper(&k))
		;
	(void)kill(k.agent, SIGKILL); /* if it did not end by itself */
	(void)waitpid(k.agent, NULL, 0);
	if (k.keep.last && espl__keep_orphaned(&k.keep, espl__tick()))
		run_last(door, terms->last, lease);
	_exit(0);
}

/* ---- the relay ---------------------------------------------------------------------------- */

/* A keeper for a new session; returns its process, or -1 with errno. */
static pid_t
start_keeper(const char *lease, const char *id, struct terms *terms)
{
	struct sockaddr_un address;
	socklen_t size = name_socket(&address, lease);
	int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;

	if (door < 0)
		return -1;
	if (bind(door, (struct sockaddr *)&address, size) != 0 || listen(door, 8) != 0) {
		close(door);
		return -1;
	}
	pid = fork();
	if (pid == 0)
		keep_session(door, lease, id, terms);
	close(door);
	return pid;
}

/* Connects to the keeper of a lease; -1: there is none. */
static int
find_keeper(const char *lease)
{
	struct sockaddr_un address;
	socklen_t size = name_socket(&address, lease);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, size) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

enum answer { NONE, GO, ENDING, SAVING, LAST, HUNG };

static enum answer
ask_keeper(int fd, const char *id, const char *what)
{
	char line[WORD + 10];
	int length = snprintf(line, sizeof line, "%s %s\n", id, what), got;

	if (espl__write_all(fd, line, (size_t)length) != 0)
		return NONE;
	got = read_line(fd, line, sizeof line, ANSWER);
	if (got != 0)
		return got == LATE ? HUNG : NONE;
	return strcmp(line, "go") == 0    ? GO
	    : strcmp(line, "ending") == 0 ? ENDING
	    : strcmp(line, "saving") == 0 ? SAVING
	    : strcmp(line, "last") == 0   ? LAST
					  : NONE;
}

/* Connects to the session's keeper, and starts it if the session is new; -1: not available; LATE:
 * there is a keeper, but it does not answer, for example because the node swaps. */
static int
join_session(const char *lease, const char *id, struct terms *terms, const char *what)
{
	int64_t until = espl__tick() + OLD_LIMIT;
	int fresh = strcmp(what, "new") == 0, end = strcmp(what, "end") == 0;
	int rejoin = strcmp(what, "rejoin") == 0, saves = 0;
	struct pollfd driver = { .fd = STDIN_FILENO };
	enum answer answer;

	do {
		int fd = find_keeper(lease);

		answer = NONE;
		if (fd >= 0 && !is_own(fd)) {
			fprintf(stderr, "another user holds the name of this session\n");
			close(fd);
			return -1;
		}
		if (fd >= 0)
			answer = ask_keeper(fd, id, what);
		if (answer == GO)
			return fd;
		if (fd >= 0)
			close(fd);
		if (answer == LAST && !end) {
			fprintf(stderr,
			    "the session on this node has ended, and the command of "
			    "'cloud.after_linger' is running\n");
			return -1;
		}
		if (rejoin && answer == SAVING && !saves) {
			fprintf(stderr, ESPL__SESSION_SAVING "\n");
			saves = 1;
			until = espl__tick() + SAVING_LIMIT;
		}
		/* What its agent leaves is there when it has ended. */
		if (!(fresh || end || (rejoin && (answer == ENDING || answer == SAVING))) ||
		    (end && fd < 0) || answer == LAST)
			break;
		if (fd < 0 && start_keeper(lease, id, terms) < 0 && errno != EADDRINUSE) {
			fprintf(stderr, "cannot start the keeper of a session: %s\n",
			    strerror(errno));
			return -1;
		}
		if (saves && poll(&driver, 1, 0) > 0 && (driver.revents & (POLLHUP | POLLERR)) != 0)
			return -1; /* the driver that waited is gone */
		if (fd >= 0)       /* an earlier session is ending */
			(void)poll(NULL, 0, 50);
	} while (espl__tick() < until);
	if ((end || saves) && espl__tick() < until)
		return -1;
	if (answer == HUNG && !fresh && !end) {
		fprintf(stderr, "the session on this node does not answer\n");
		return LATE;
	}
	fprintf(stderr, "%s\n",
	    fresh || end || saves ? "an earlier session on this node does not end"
				  : "the session on this node is gone (was it restarted?)");
	return -1;
}

int
espl__session_keep(int argc, char **argv)
{
	struct terms terms;
	int fd, open = 1;

	if (argc != 4 || strlen(argv[0]) > WORD || strlen(argv[1]) > WORD ||
	    strpbrk(argv[1], " \n") != NULL || read_terms(argv[2], &terms) != 0 ||
	    (strcmp(argv[3], "new") != 0 && strcmp(argv[3], "again") != 0 &&
		strcmp(argv[3], "rejoin") != 0 && strcmp(argv[3], "end") != 0)) {
		fprintf(stderr,
		    "espalier-agent: usage: --keep LEASE EPOCH[.DRIVER] LINGER_MS[:WORD,...] "
		    "new|again|rejoin|end\n");
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	fd = join_session(argv[0], argv[1], &terms, argv[3]);
	if (fd < 0)
		return strcmp(argv[3], "end") == 0 ? 0 : fd == LATE ? 1 : ESPL__SESSION_GONE;
	while (open) {
		struct pollfd fds[2] = { { .fd = 0, .events = POLLIN },
			{ .fd = fd, .events = POLLIN } };

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents != 0)
			open = espl__session_pass(0, fd);
		if (open && fds[1].revents != 0)
			open = espl__session_pass(fd, 1);
	}
	return 0;
}
