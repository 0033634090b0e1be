/* verb_stop.c - stop: ends a run as Ctrl-C does, from outside. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/run_dir.h"
#include "report/results_read.h"

#define WITHIN 100 /* tenths of a second that its end is waited for */

/* The process is opened before its lock is looked at again: its number may have been given to
 * another one meanwhile. */
static espl_status
signal_driver(const char *given, const char *lock, struct espl__diag *diag)
{
	pid_t pid = espl__lock_owner(lock);
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	espl_status status = ESPL_OK;

	if (pid == 0) {
		status = espl__fail(diag, ESPL_E_CONFIG, "the run in '%s' is not running", given);
		espl__hint(diag, "see `espalier status %s`", given);
	} else if (pid < 0) {
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "the driver of '%s' is on another machine, or in another container", given);
		espl__hint(diag, "stop it there");
	} else if (fd < 0 || espl__lock_owner(lock) != pid ||
	    syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) != 0) {
		status = espl__fail_errno(diag, "cannot stop the driver of '%s' (process %ld)",
		    given, (long)pid);
	}
	if (fd >= 0)
		(void)close(fd);
	return status;
}

int
espl__verb_stop(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	const char *given = args->positional[0];
	char *dir, *lock, *command;
	espl_status status = espl__run_dir_find(given, &dir, &diag);
	int held = 1;

	lock = espl__format("%s/lock", dir);
	if (status == ESPL_OK)
		status = signal_driver(given, lock, &diag);
	for (int i = 0; status == ESPL_OK && i < WITHIN && (held = espl__run_held(dir)) != 0; i++)
		(void)usleep(100000);
	command = espl__cli_resume(args, given);
	if (status == ESPL_OK && held)
		printf("%s: stopping; trials are saving their state\n", given);
	else if (status == ESPL_OK)
		printf("%s: stopped; continue with `%s`\n", given, command);
	free(command);
	free(lock);
	free(dir);
	return status == ESPL_OK ? ESPL__EXIT_DONE : espl__cli_fail(&diag);
}
