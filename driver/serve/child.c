/* child.c - forks processes that hold nothing of the server's. */
#include "base/assert.h"
#include "serve/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tick.h"

enum { OUT = 3, KEPT, FIRST_OTHER };

/* Connections of clients would stay open as long as the child lives. */
static void
close_others(int from)
{
	struct rlimit limit;

	if (syscall(SYS_close_range, (unsigned)from, ~0u, 0) == 0 ||
	    getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	for (int fd = from; (rlim_t)fd < limit.rlim_cur; fd++)
		(void)close(fd);
}

/* `out` and `kept` get numbers of their own; all else is closed. */
static void
settle_child(struct espl__child *c, int *kept, int ours, pid_t parent)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ };
	int high = *kept >= 0 ? fcntl(*kept, F_DUPFD, FIRST_OTHER) : -1;
	int zero = open("/dev/null", O_RDONLY);

	(void)setpgid(0, 0); /* what it starts is ended with it */
	if ((*kept >= 0 && high < 0) || dup2(c->out, OUT) < 0 ||
	    (high >= 0 && dup2(high, KEPT) < 0) || dup2(zero, STDIN_FILENO) < 0)
		_exit(1);
	c->out = OUT;
	*kept = high >= 0 ? KEPT : -1;
	close_others(high >= 0 ? FIRST_OTHER : KEPT);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		(void)signal(numbers[i], SIG_DFL);
	if (ours && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
		_exit(1);
}

int
espl__child_fork(struct espl__child *c, int *kept, int ours)
{
	ESPL__ASSERT(c->pid == 0 && c->out < 0);
	pid_t parent = getpid();

	c->out = memfd_create("output", MFD_CLOEXEC);
	if (c->out < 0)
		return -1;
	c->since = espl__tick();
	c->pid = fork();
	if (c->pid == 0) {
		settle_child(c, kept, ours, parent);
		return 1;
	}
	if (c->pid > 0) {
		(void)setpgid(c->pid, c->pid);
		return 0;
	}
	(void)close(c->out);
	*c = (struct espl__child){ .out = -1 };
	return -1;
}

int
espl__child_check(struct espl__child *c)
{
	ESPL__ASSERT(c->pid > 0);
	int status = 0;
	pid_t ended = waitpid(c->pid, &status, WNOHANG);

	if (ended == 0 || (ended < 0 && errno == EINTR))
		return 1;
	c->pid = 0;
	c->took = espl__tick() - c->since;
	c->well = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return 0;
}

void
espl__child_kill(struct espl__child *c)
{
	if (c->pid <= 0)
		return;
	(void)kill(-c->pid, SIGKILL);
	(void)kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	c->well = 0;
	c->took = espl__tick() - c->since;
}

void
espl__child_end(struct espl__child *c)
{
	espl__child_kill(c);
	if (c->out >= 0)
		(void)close(c->out);
	*c = (struct espl__child){ .out = -1 };
}
