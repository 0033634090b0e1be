/* agent_courier.c - directories that are copied to or from a bucket: an espalier-courier for each
 * (courier/courier.h), whose lines are relayed between it and the driver.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"
#include "transfer/mover.h"

#define READ_STEP 4096
#define LINE_MOST 6000

struct espl__courier_run {
	struct espl__courier_run *next;
	struct espl__move *move;
	pid_t pid;
	int to, from; /* its standard streams; to -1: closed */
	int reported; /* it has reported how it ends */
	struct espl__buf text;
};

/* ---- the process -------------------------------------------------------------------------- */

static _Noreturn void
exec_courier(const char *program, const char *place, int in, int out)
{
	const char *const argv[] = { "espalier-courier", place, NULL };
	sigset_t none;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(in, 0) == 0 && dup2(out, 1) == 1)
		(void)execv(program, (char *const *)(uintptr_t)argv);
	_exit(127);
}

static int
start_courier(struct espl__agent *a, struct espl__courier_run *c, const char *place)
{
	char *program = espl__format("%s/espalier-courier", a->libexec);
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, failed;

	failed = pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 ? errno : 0;
	if (failed == 0) {
		c->pid = fork();
		if (c->pid == 0)
			exec_courier(program, place, in[0], out[1]);
		failed = c->pid < 0 ? errno : 0;
	}
	free(program);
	if (in[0] >= 0)
		close(in[0]);
	if (out[1] >= 0)
		close(out[1]);
	c->to = in[1];
	c->from = out[0];
	if (failed == 0 && fcntl(c->from, F_SETFL, O_NONBLOCK) != 0)
		failed = errno;
	errno = failed;
	return failed == 0 ? 0 : -1;
}

/* ---- how it ends -------------------------------------------------------------------------- */

/* The driver reports uploads to the bucket; we report downloads from it. */
static void
end_move(struct espl__courier_run *c, espl_status how, const char *why)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__move *move = c->move;

	c->reported = 1;
	if (how != ESPL_OK && espl__move_view(move).outgoing) {
		char *line = espl__format("failed 1 %s", why);

		espl__move_send_line(move, line);
		free(line);
		return;
	}
	if (how != ESPL_OK)
		(void)espl__fail(&diag, how, "%s", why);
	espl__move_stored(move, &diag, espl__tick()); /* frees it */
}

void
espl__courier_gone(void *agent, struct espl__move *move)
{
	struct espl__agent *a = agent;
	struct espl__courier_run *c = *espl__move_slot(move), **at = &a->couriers;

	if (c == NULL)
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->pid > 0 && !c->reported)
		(void)kill(c->pid,
		    SIGKILL); /* its partial output is discarded; otherwise it exits by itself */
	if (c->to >= 0)
		close(c->to);
	if (c->from >= 0)
		close(c->from);
	a->changed = 1;
	espl__buf_free(&c->text);
	free(c);
}

/* ---- lines -------------------------------------------------------------------------------- */

void
espl__courier_line(void *agent, struct espl__move *move, const char *line)
{
	struct espl__agent *a = agent;
	struct espl__courier_run *c = *espl__move_slot(move);
	char *text;

	if (c == NULL) {
		c = espl__alloc(sizeof *c);
		c->move = move;
		c->next = a->couriers;
		a->couriers = c;
		a->changed = 1;
		*espl__move_slot(move) = c;
		if (start_courier(a, c, espl__move_view(move).place) != 0) {
			char *why =
			    espl__format("cannot start espalier-courier: %s", strerror(errno));

			end_move(c, ESPL__COURIER_DIED, why);
			free(why);
			return;
		}
	}
	text = espl__format("%s\n", line);
	if (c->to >= 0 && espl__write_all(c->to, text, strlen(text)) != 0) {
		close(c->to); /* it is dead: its end of file is read next */
		c->to = -1;
	}
	memset(text, 0, strlen(text));
	free(text);
}

/* 0: the move is over, and `c` with it. */
static int
pass_on(struct espl__courier_run *c, const char *line)
{
	int failed = strncmp(line, "failed ", 7) == 0;

	if (c->reported)
		return 1;
	if (strcmp(line, "done") == 0) {
		end_move(c, ESPL_OK, "");
		return 0;
	}
	if (failed && !espl__move_view(c->move).outgoing) {
		end_move(c,
		    line[7] == '2'       ? ESPL_E_CONFIG
			: line[7] == '3' ? ESPL_E_REMOTE
					 : ESPL__COURIER_REFUSED,
		    strlen(line) > 9 ? line + 9 : "");
		return 0;
	}
	c->reported = failed;
	espl__move_send_line(c->move, line);
	return 1;
}

int
espl__courier_fd(const struct espl__agent *a, uint32_t index)
{
	for (const struct espl__courier_run *c = a->couriers; c != NULL; c = c->next)
		if (c->from >= 0 && index-- == 0)
			return c->from;
	return -1;
}

pid_t
espl__courier_pid(const struct espl__agent *a, uint32_t index)
{
	for (const struct espl__courier_run *c = a->couriers; c != NULL; c = c->next)
		if (c->pid > 0 && index-- == 0)
			return c->pid;
	return 0;
}

static void
take_lines(struct espl__courier_run *c)
{
	char *end;

	while (c->text.size > 0 && (end = memchr(c->text.data, '\n', c->text.size)) != NULL) {
		size_t used = (size_t)(end - (char *)c->text.data) + 1;

		*end = '\0';
		if (!pass_on(c, (const char *)c->text.data))
			return;
		memmove(c->text.data, c->text.data + used, c->text.size - used);
		c->text.size -= used;
	}
}

void
espl__courier_receive(struct espl__agent *a, int fd)
{
	struct espl__courier_run *c = a->couriers;
	ssize_t got;

	while (c != NULL && c->from != fd)
		c = c->next;
	if (c == NULL)
		return;
	espl__buf_reserve(&c->text, READ_STEP);
	got = read(fd, c->text.data + c->text.size, READ_STEP);
	if (got > 0 && c->text.size + (size_t)got < LINE_MOST + READ_STEP) {
		c->text.size += (size_t)got;
		take_lines(c);
		return;
	}
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	close(c->from);
	c->from = -1;
	a->changed = 1;
	if (!c->reported)
		end_move(c, ESPL__COURIER_DIED, "espalier-courier ended before it was done");
}
