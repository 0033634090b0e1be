/* serve.h - `espalier serve`: the report of runs as live pages, on this machine alone. */
#ifndef ESPL__SERVE_H
#define ESPL__SERVE_H
#include <stdio.h>
#include "base/diag.h"

/* borrowed until espl__serve returns */
struct espl__serve_setup {
	const char *const *dirs; /* run directories, and directories of them */
	uint32_t count;
	uint16_t port;             /* 0: any free port */
	int control;               /* may the page cancel, submit and stop? */
	const char *plugin_path;   /* for the commands that do; NULL: none */
	const volatile int *ended; /* not 0: return */
	/* Writes the data of a page as JSON; called in a process of its own.  `kept` is a file for
	 * what later pages of the same run can use; it is empty at first. */
	void (*draw)(const char *dir, int kept, FILE *to);
	/* The address to open, when pages are served. */
	void (*ready)(const char *address, uint16_t port, uint32_t runs);
};
espl_status espl__serve(const struct espl__serve_setup *, struct espl__diag *);
#endif
