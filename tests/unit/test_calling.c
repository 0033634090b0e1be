/* test_calling.c - what is said when a process dies in a plugin, and when it does not. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/calling.h"

static char said[4000]; /* by the last child on standard error */

/* In a process of its own, as the program is when it begins: whatever the tests' runner or a
 * sanitizer handles is let go.  Returns the status of wait. */
static int
in_child(void (*act)(void))
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	int ends[2], status = 0;
	size_t size = 0;
	ssize_t got;
	pid_t pid;

	cr_assert_eq(pipe(ends), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
			(void)signal(numbers[i], SIG_DFL);
		if (dup2(ends[1], STDERR_FILENO) < 0)
			_exit(99);
		act();
		_exit(98);
	}
	cr_assert_gt(pid, 0);
	close(ends[1]);
	while (size < sizeof said - 1 &&
	    (got = read(ends[0], said + size, sizeof said - 1 - size)) > 0)
		size += (size_t)got;
	said[size] = '\0';
	close(ends[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void
call(void)
{
	espl__calling_watch();
	espl__calling_begin("placer 'p'", "place", "/somewhere/placer_p.so");
}

static void
bus(void)
{
	call();
	(void)raise(SIGBUS);
}
static void
illegal(void)
{
	call();
	(void)kill(getpid(), SIGILL);
}
static void
leave(void)
{
	call();
	exit(0);
}
static void
host_crash(void)
{
	call();
	espl__calling_end();
	(void)raise(SIGBUS);
}
static void
host_abort(void)
{
	espl__calling_watch();
	abort();
}
static void
now(void)
{
	_exit(0);
}

static void
host_leaves(void)
{
	(void)atexit(now); /* what a sanitizer would look for then is no matter here */
	call();
	espl__calling_end();
	exit(0);
}

static void
host_panic(void)
{
	call();
	ESPL__WRONG("the host's own");
}

static void
builtin(void)
{
	espl__calling_watch();
	espl__calling_begin("placer 'p'", "place", "(builtin)");
	abort();
}

static void
own_handler(int number)
{
	(void)number;
	_exit(42);
}

static void
handled(void)
{
	(void)signal(SIGBUS, own_handler);
	bus();
}

static void
in_grandchild(void)
{
	int status = 0;
	pid_t pid;

	call();
	pid = fork();
	if (pid == 0)
		abort();
	if (waitpid(pid, &status, 0) != pid)
		_exit(1);
	_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 0 : 2);
}

static int
died_of(int status, int number)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == number;
}

static int
left(int status, int with)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == with;
}

Test(calling, a_plugin_that_crashes_is_named)
{
	cr_assert(died_of(in_child(bus), SIGBUS));
	cr_assert_str_eq(said,
	    "espalier: error: placer 'p' crashed in place (signal 7, bus error)\n"
	    "hint: try `espalier check-plugin /somewhere/placer_p.so`; after fixing the plugin, "
	    "continue the run with `espalier resume`\n");
	cr_assert(died_of(in_child(illegal), SIGILL));
	cr_assert_not_null(strstr(said, "(signal 4, illegal instruction)"));
	cr_assert(died_of(in_child(builtin), SIGABRT));
	cr_assert_not_null(strstr(said, "report the crash"));
}

Test(calling, one_that_exits_is_an_error)
{
	cr_assert(left(in_child(leave), 1));
	cr_assert_not_null(
	    strstr(said, "espalier: error: placer 'p' terminated the program in place"));
}

Test(calling, nobody_else_is_blamed)
{
	cr_assert(died_of(in_child(host_crash), SIGBUS));
	cr_assert_str_eq(said, "");
	cr_assert(left(in_child(host_leaves), 0));
	cr_assert_str_eq(said, "");
	cr_assert(died_of(in_child(host_panic), SIGABRT));
	cr_assert_not_null(strstr(said, "the host's own"));
	cr_assert_null(strstr(said, "placer"));
	cr_assert_null(strstr(said, "a library"), "one message is enough");
	cr_assert(died_of(in_child(host_abort), SIGABRT));
	cr_assert_not_null(strstr(said, "espalier: error: aborted"));
	cr_assert(left(in_child(handled), 42), "a handler that is there stays");
	cr_assert_str_eq(said, "");
	cr_assert(left(in_child(in_grandchild), 0), "it dies of its signal");
	cr_assert_str_eq(said, "", "a child has its parent to speak for it");
}
