/* assert.c - the end of a process that met a programmer's error, with what helps to find it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/calling.h"

void (*espl__panic_context)(void *ctx, char *text, size_t room);
void *espl__panic_context_arg;

_Noreturn void
espl__panic(const char *file, int line, const char *what)
{
	static volatile int panicking;
	static char more[4096];
	char text[512];
	int length;

	espl__calling_reported = 1;
	espl__calling_end(); /* the fault is the host's, not that of a plugin that called it */
	length = snprintf(text, sizeof text, "espalier: panic: %s:%d: %.300s\n", file, line, what);
	if (length > 0 && write(STDERR_FILENO, text, strlen(text)) < 0)
		abort();
	if (!panicking) {
		panicking = 1;
		if (espl__panic_context != NULL)
			espl__panic_context(espl__panic_context_arg, more, sizeof more);
		if (write(STDERR_FILENO, more, strlen(more)) < 0)
			abort();
	}
	abort();
}
