/* ship.c - see ship.h. */
#include "session/ship.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/tick.h"
#include "session/session.h"

#define STEP ((size_t)64 << 10)
#define NOTE_EVERY INT64_C(5000000000)

struct ship {
	struct espl__buf spec, in;
	pid_t child;
	int to, from;
	int greeted, started;
	int64_t noted; /* tick of the last note to the driver */
};

static _Noreturn void
run_command(char **command, int in, int out)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(in, 0) == 0 && dup2(out, 1) == 1)
		execvp(command[0], command);
	fprintf(stderr, "cannot start '%s': %s\n", command[0], strerror(errno));
	_exit(127);
}

static int
start_command(struct ship *s, char **command)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return -1;
	s->child = fork();
	if (s->child == 0)
		run_command(command, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	s->to = in[1];
	s->from = out[0];
	return s->child < 0 ? -1 : 0;
}

static int
end_command(struct ship *s)
{
	int status = 0;

	if (s->to >= 0)
		close(s->to);
	close(s->from);
	while (waitpid(s->child, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The path of the file with this digest; NULL: there is none. */
static const char *
find_file(const struct ship *s, const char *digest)
{
	const char *at = (const char *)s->spec.data, *end = at + s->spec.size;

	for (at += strlen(at) + 1; at < end;) {
		const char *path = at + strlen(at) + 1;

		if (path >= end)
			break;
		if (strcmp(at, digest) == 0)
			return path;
		at = path + strlen(path) + 1;
	}
	return NULL;
}

static int
send_file(struct ship *s, const char *digest)
{
	static uint8_t bytes[STEP];
	const char *path = find_file(s, digest);
	int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t got = -1;

	if (fd < 0) {
		fprintf(stderr, "cannot send '%s': %s\n", path != NULL ? path : digest,
		    path != NULL ? strerror(errno) : "it is not known");
		return -1;
	}
	while ((got = read(fd, bytes, sizeof bytes)) > 0 &&
	    espl__write_all(s->to, bytes, (size_t)got) == 0) {
		if (espl__tick() - s->noted < NOTE_EVERY)
			continue;
		s->noted = espl__tick();
		fprintf(stderr, ESPL__SHIP_NOTE "\n");
	}
	close(fd);
	return 0; /* if the command has ended, its last words are still to be read */
}

/* 0; or -1: it cannot start the agent. */
static int
take_line(struct ship *s, const char *line)
{
	if (!s->greeted) { /* a login shell may have printed something before */
		s->greeted = strcmp(line, "espalier-ship") == 0;
		return 0;
	}
	if (strcmp(line, "start") == 0)
		s->started = 1;
	else if (strncmp(line, "need ", 5) == 0)
		return send_file(s, line + 5);
	else if (strncmp(line, "note ", 5) == 0)
		fprintf(stderr, ESPL__SHIP_NOTE "%s\n", line + 5);
	else if (strncmp(line, "refuse ", 7) == 0)
		fprintf(stderr, ESPL__SHIP_REFUSED "%s\n", line + 7);
	else
		fprintf(stderr, "%s\n", line);
	return 0;
}

static int
take_lines(struct ship *s)
{
	char *line = (char *)s->in.data, *end;
	size_t left = s->in.size;
	int bad = 0;

	while (!bad && !s->started && left > 0 && (end = memchr(line, '\n', left)) != NULL) {
		*end++ = '\0';
		bad = take_line(s, line);
		left -= (size_t)(end - line);
		line = end;
	}
	if (left > 0)
		memmove(s->in.data, line, left);
	s->in.size = left;
	return bad;
}

/* Until the agent is started; -1: it is not. */
static int
serve_script(struct ship *s)
{
	const char *script = (const char *)s->spec.data;

	if (espl__write_all(s->to, script, strlen(script)) != 0 && errno != EPIPE)
		return -1;
	while (!s->started) {
		ssize_t got;

		espl__buf_reserve(&s->in, STEP);
		got = read(s->from, s->in.data + s->in.size, STEP);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 || s->in.size > STEP)
			return -1;
		s->in.size += (size_t)got;
		if (take_lines(s) != 0)
			return -1;
	}
	return espl__write_all(1, s->in.data, s->in.size);
}

static void
relay_channel(struct ship *s)
{
	for (int open = 1; open;) {
		struct pollfd fds[2] = { { .fd = s->to >= 0 ? 0 : -1, .events = POLLIN },
			{ .fd = s->from, .events = POLLIN } };

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents != 0 && !espl__session_pass(0, s->to)) {
			close(s->to);
			s->to = -1;
		}
		if (fds[1].revents != 0)
			open = espl__session_pass(s->from, 1);
	}
}

int
espl__session_ship(int argc, char **argv)
{
	struct ship s = { .to = -1, .from = -1 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	int status;

	if (argc < 2) {
		fprintf(stderr, "espalier-agent: usage: --ship FILE COMMAND...\n");
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (espl__file_read(argv[0], ESPL__SHIP_LIMIT, &s.spec, &diag) != ESPL_OK ||
	    s.spec.size == 0 || s.spec.data[s.spec.size - 1] != '\0') {
		fprintf(stderr, "cannot read '%s': %s\n", argv[0], diag.text);
		return 1;
	}
	if (start_command(&s, argv + 1) != 0) {
		fprintf(stderr, "cannot start '%s': %s\n", argv[1], strerror(errno));
		return 1;
	}
	if (serve_script(&s) == 0)
		relay_channel(&s);
	status = end_command(&s);
	if (status == 0 && !s.greeted)
		(void)fprintf(stderr, ESPL__SESSION_DEAF "\n");
	espl__buf_free(&s.spec);
	espl__buf_free(&s.in);
	return status != 0 || s.started ? status : 1;
}
