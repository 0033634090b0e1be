/* calling.c - reports which plugin crashed or exited, before the process ends.
 *
 * The handler may run after a stack overflow or with a corrupt heap: it has its own stack and calls
 * only write().
 */
#include "base/calling.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { EXITED_STATUS = 1 };       /* of docs/cli.md: the run failed */
enum { LOOK_S = 5, LONG_S = 10 }; /* of the processor's time */

volatile struct espl__calling espl__calling;
volatile int espl__calling_reported;

static const struct {
	int number;
	const char *name;
} crashes[] = { { SIGSEGV, "segmentation fault" }, { SIGBUS, "bus error" },
	{ SIGFPE, "arithmetic error" }, { SIGILL, "illegal instruction" }, { SIGABRT, "aborted" } };
static pid_t watched; /* children that were forked have their parents to speak for them */
/* Room for the largest of register files (AVX-512, AMX), which a signal puts there. */
static char handler_stack[1 << 16] __attribute__((aligned(16)));

struct line {
	char text[1024];
	size_t size;
};

static void
append_text(struct line *line, const char *text)
{
	while (*text != '\0' && line->size < sizeof line->text - 1)
		line->text[line->size++] = *text++;
}

static void
add_number(struct line *line, int number)
{
	char digits[12], *at = digits + sizeof digits - 1;

	*at = '\0';
	do
		*--at = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	append_text(line, at);
}

static void
write_line(struct line *line)
{
	const char *from = line->text;
	ssize_t wrote;

	line->text[line->size++] = '\n';
	while (line->size > 0 && (wrote = write(STDERR_FILENO, from, line->size)) > 0) {
		from += wrote;
		line->size -= (size_t)wrote;
	}
	line->size = 0;
}

static void
write_hint(struct line *line, const char *path)
{
	append_text(line, "hint: ");
	if (path[0] == '(') {
		append_text(line, "this plugin is part of espalier; please report the crash");
	} else {
		append_text(line, "try `espalier check-plugin ");
		append_text(line, path);
		append_text(line,
		    "`; after fixing the plugin, continue the run with `espalier resume`");
	}
	write_line(line);
}

/* No plugin's: libuv ends the process where the system gives it no thread or pipe, and says
 * nothing. */
static void
say_aborted(struct line *line)
{
	append_text(line,
	    "espalier: error: aborted; a library does this if the system refuses to create a "
	    "thread or a pipe or to allocate memory");
	write_line(line);
	append_text(line,
	    "hint: check the limits with `ulimit -a`; `espalier resume` continues an interrupted "
	    "run");
	write_line(line);
}

static void
on_crash(int number, siginfo_t *info, void *context)
{
	const struct espl__calling now = { .who = espl__calling.who,
		.what = espl__calling.what,
		.path = espl__calling.path };
	/* A kill -ABRT from another process, for a core dump, is not a crash. */
	int own = info->si_code > 0 || info->si_pid == watched;
	struct line line = { .size = 0 };

	(void)context;
	espl__calling_end();
	if (now.who != NULL && own && getpid() == watched) {
		append_text(&line, "espalier: error: ");
		append_text(&line, now.who);
		append_text(&line, " crashed in ");
		append_text(&line, now.what);
		append_text(&line, " (signal ");
		add_number(&line, number);
		for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
			if (crashes[i].number == number) {
				append_text(&line, ", ");
				append_text(&line, crashes[i].name);
			}
		append_text(&line, ")");
		write_line(&line);
		write_hint(&line, now.path);
	} else if (number == SIGABRT && own && getpid() == watched && !espl__calling_reported) {
		say_aborted(&line);
	}
	/* The default action is back.  A fault is met again where it was, so that a core dump shows
	 * its place; what was only sent is not. */
	if (info->si_code <= 0)
		(void)raise(number);
}

static void
say_long(const struct espl__calling *now, int seconds)
{
	struct line line = { .size = 0 };

	append_text(&line, "espalier: warning: ");
	append_text(&line, now->who);
	append_text(&line, " has been computing for ");
	add_number(&line, seconds);
	append_text(&line, " s without returning from ");
	append_text(&line, now->what);
	for (int i = 0; i < ESPL__ASKED && now->asked[i].name != NULL; i++) {
		append_text(&line, i == 0 ? " (" : ", ");
		append_text(&line, now->asked[i].name);
		append_text(&line, " ");
		add_number(&line,
		    now->asked[i].value < 0               ? 0
			: now->asked[i].value > INT32_MAX ? INT32_MAX
							  : (int)now->asked[i].value);
	}
	append_text(&line, now->asked[0].name != NULL ? ")" : "");
	append_text(&line,
	    seconds == LONG_S ? "; if it does not return, interrupt three times" : "");
	write_line(&line);
}

/* Every LOOK_S of processor time: is the same call still under way? */
static void
on_time(int signal_number)
{
	static unsigned number;
	static int seconds, next;
	struct espl__calling now;

	(void)signal_number;
	if (espl__calling.who == NULL || espl__calling.number != number) {
		number = espl__calling.number;
		seconds = 0;
		next = LONG_S;
		return;
	}
	seconds += LOOK_S;
	if (seconds < next || getpid() != watched)
		return;
	next *= 10;
	memcpy(&now, (const void *)(uintptr_t)&espl__calling, sizeof now);
	if (now.who != NULL)
		say_long(&now, seconds);
}

static void
watch_time(void)
{
	struct itimerval every = { { LOOK_S, 0 }, { LOOK_S, 0 } };
	struct sigaction action, before;

	memset(&action, 0, sizeof action);
	(void)sigemptyset(&action.sa_mask);
	action.sa_handler = on_time;
	action.sa_flags = (int)(SA_RESTART | SA_ONSTACK);
	if (sigaction(SIGVTALRM, NULL, &before) == 0 && before.sa_handler == SIG_DFL &&
	    sigaction(SIGVTALRM, &action, NULL) == 0)
		(void)setitimer(ITIMER_VIRTUAL, &every, NULL);
}

static void
on_exit_of_all(void)
{
	const struct espl__calling now = { .who = espl__calling.who,
		.what = espl__calling.what,
		.path = espl__calling.path };
	struct line line = { .size = 0 };

	if (now.who == NULL || getpid() != watched)
		return;
	espl__calling_end();
	(void)fflush(NULL);
	append_text(&line, "espalier: error: ");
	append_text(&line, now.who);
	append_text(&line, " terminated the program in ");
	append_text(&line, now.what);
	append_text(&line, " (a plugin must return and must not call exit)");
	write_line(&line);
	write_hint(&line, now.path);
	_exit(EXITED_STATUS);
}

void
espl__calling_watch(void)
{
	struct sigaction action, before;
	stack_t stack = { .ss_sp = handler_stack, .ss_size = sizeof handler_stack }, other;
	static int registered;

	watched = getpid();
	if (!registered)
		registered = atexit(on_exit_of_all) == 0;
	if (sigaltstack(NULL, &other) == 0 && (other.ss_flags & SS_DISABLE) != 0)
		(void)sigaltstack(&stack, NULL);
	memset(&action, 0, sizeof action);
	(void)sigemptyset(&action.sa_mask);
	action.sa_sigaction = on_crash;
	action.sa_flags = (int)(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
	for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
		if (sigaction(crashes[i].number, NULL, &before) == 0 &&
		    (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL)
			(void)sigaction(crashes[i].number, &action, NULL);
	watch_time();
}
