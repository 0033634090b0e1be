/* replay_table.h - a schedule of configurations, read from CSV: from, until, and a column a
 * parameter.
 */
#ifndef REPLAY_TABLE_H
#define REPLAY_TABLE_H
#include <espalier/algorithm.h>

struct replay_table {
	uint64_t *until; /* [rows], rising: row i counts up to this iteration */
	double *values;  /* [rows][params] */
	uint32_t rows;
};

/* Each row must begin where the one before it ends, the first at 0, and hold a configuration of the
 * space.  ESPL_E_CONFIG, with file (name: as the user wrote it), line and column in the message.
 * Also after a failure it must be freed. */
espl_status replay_read(struct replay_table *, const char *name, const char *text, uint64_t size,
    const struct espl_space *, struct espl_error *);
void replay_free(struct replay_table *);
#endif
