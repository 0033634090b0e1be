/* worker_main.c - espalier-worker NAME: one rank of a trial that is a trainable, not a command.
 *
 * Started by espalier-agent with the environment of docs/trial-protocol.md. Errors are printed on
 * standard error, which is the trial's log. Exit status: 0 done, 2 started wrongly, 3 failed, 75
 * another rank of the gang was lost.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "node/wire.h"
#include "worker/worker.h"

static volatile sig_atomic_t wish;

static void
on_term(int sig)
{
	(void)sig;
	wish = 1;
}

int
main(int argc, char **argv)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct sigaction term;
	espl_status status;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		printf("espalier-worker %s\n", PACKAGE_VERSION);
		return 0;
	}
	if (argc != 2 || argv[1][0] == '-' || getenv("ESPALIER_TRIAL") == NULL) {
		fprintf(stderr,
		    "usage: espalier-worker NAME (started by espalier-agent, which passes "
		    "everything else in the environment)\n");
		return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	memset(&term, 0, sizeof term);
	term.sa_handler = on_term; /* without SA_RESTART: a wait for an answer ends */
	sigemptyset(&term.sa_mask);
	if (sigaction(SIGTERM, &term, NULL) != 0) {
		perror("espalier-worker");
		return 3;
	}
	status = espl__worker_run(argv[1], &wish, &diag);
	if (status == ESPL_OK)
		return 0;
	espl__diag_print(stderr, &diag);
	return status == ESPL_E_PEER ? ESPL__EXIT_PEER : 3;
}
