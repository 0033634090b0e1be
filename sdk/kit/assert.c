/* assert.c - see espalier/kit/assert.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <espalier/kit/assert.h>

void
espl_assert_failed(const char *file, int line, const char *condition)
{
	char text[512];
	ssize_t written;

	(void)snprintf(text, sizeof text, "espalier: plugin: assertion failed: %s:%d: %.300s\n",
	    file, line, condition);
	written = write(STDERR_FILENO, text, strlen(text));
	(void)written;
	abort();
}
