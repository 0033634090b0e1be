/* mps_ask.c - a question to nvidia-cuda-mps-control: lines in, an answer and an exit status out.
 *
 * The program is forked here, not run through the C library's shell call: the agent may have
 * threads, its loop may not wait, and a daemon that hangs makes the program hang.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tick.h"
#include "agent/agent_gpu.h"

#define ANSWER_MAX ((size_t)64 << 10)

/* In the child, up to its exec: no heap, no lock. */
static _Noreturn void
exec_program(const char *path, char *const *env, int in, int out)
{
	char *const argv[] = { (char *)(uintptr_t)path, NULL };
	struct sigaction plain;
	sigset_t none;

	(void)syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)setsid();
	memset(&plain, 0, sizeof plain);
	plain.sa_handler = SIG_DFL;
	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &plain, NULL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(out, 2) >= 0)
		execve(path, argv, env);
	_exit(127);
}

static void
close_two(const int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

int
espl__ask_begin(struct espl__ask *q, const char *path, char *const *env, const char *text,
    int64_t limit_ns)
{
	int in[2], out[2], failed;

	if (pipe2(in, O_CLOEXEC) != 0)
		return -1;
	if (pipe2(out, O_CLOEXEC | O_NONBLOCK) != 0) {
		failed = errno;
		close_two(in);
		errno = failed;
		return -1;
	}
	/* A few lines fit into a pipe, so the writer never blocks. */
	failed = write(in[1], text, strlen(text)) == (ssize_t)strlen(text) ? 0 : EIO;
	/* Only the agent's end may not block. */
	if (failed == 0 && fcntl(out[1], F_SETFL, 0) != 0)
		failed = errno;
	if (failed == 0) {
		q->pid = fork();
		if (q->pid == 0)
			exec_program(path, env, in[0], out[1]);
		failed = q->pid < 0 ? errno : 0;
	}
	close_two(in);
	close(out[1]);
	if (failed != 0) {
		close(out[0]);
		q->pid = 0;
		errno = failed;
		return -1;
	}
	q->out = out[0];
	q->gone = 0;
	q->code = -1;
	q->until = espl__tick() + limit_ns;
	espl__buf_clear(&q->text);
	return 0;
}

static void
close_output(struct espl__ask *q)
{
	if (q->out >= 0)
		close(q->out);
	q->out = -1;
}

void
espl__ask_read(struct espl__ask *q)
{
	while (q->out >= 0) {
		ssize_t got;

		espl__buf_reserve(&q->text, 4096);
		got = read(q->out, q->text.data + q->text.size, 4096);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got > 0)
			q->text.size += (size_t)got;
		if (got <= 0 || q->text.size > ANSWER_MAX)
			close_output(q);
	}
}

int
espl__ask_done(struct espl__ask *q, int64_t now)
{
	/* its output is in the pipe, even if another process holds that open */
	if (q->gone) {
		espl__ask_read(q);
		close_output(q);
		return 1;
	}
	if (now < q->until)
		return 0;
	(void)kill(q->pid, SIGKILL);
	q->code = -1;
	close_output(q);
	return 1;
}

void
espl__ask_end(struct espl__ask *q)
{
	if (q->pid > 0 && !q->gone)
		(void)kill(q->pid, SIGKILL);
	close_output(q);
	espl__buf_free(&q->text);
	q->pid = 0;
}
