/* interrupt.c - counts the signals by which a user stops a verb. */
#include "cli/cli.h"

#include <signal.h>
#include <string.h>

volatile int espl__interrupts;

static void
on_signal(int number)
{
	if (espl__interrupts < 2) {
		espl__interrupts++;
		return;
	}
	/* A policy that never returns would never check the flag. Agents kill the trials when we
	 * are gone.
	 */
	(void)signal(number, SIG_DFL);
	(void)raise(number);
}

void
espl__interrupt_catch(void)
{
	struct sigaction action;
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	size_t i;

	memset(&action, 0, sizeof action);
	(void)sigemptyset(&action.sa_mask);
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		struct sigaction before;

		/* What nohup, or a shell's background job, has chosen to ignore stays ignored. */
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			(void)sigaction(numbers[i], &action, NULL);
	}
	/* These come back as errors of write, which are handled. */
	action.sa_handler = SIG_IGN;
	(void)sigaction(SIGPIPE, &action, NULL);
	(void)sigaction(SIGXFSZ, &action, NULL);
}
