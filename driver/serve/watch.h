/* watch.h - the runs that are served: what each is doing now, and the data of its page.
 *
 * A run is looked at once a second while a page is open, and read only when its files have
 * changed: its totals immediately (about sixty rows), its page in a process of its own, again when
 * ten times as long has passed as the last page took, at least a second.  So a page of a huge run
 * takes a tenth of a processor, and nothing while nothing happens.
 */
#ifndef ESPL__WATCH_H
#define ESPL__WATCH_H
#include <stddef.h>
#include "base/buf.h"
#include "serve/serve.h"

struct espl__watch;
/* E_CONFIG: a directory cannot be read. */
espl_status espl__watch_open(const struct espl__serve_setup *, struct espl__watch **,
    struct espl__diag *);
void espl__watch_free(struct espl__watch *);
/* Somebody watches: the list of all, the page of one. */
void espl__watch_all(struct espl__watch *);
void espl__watch_one(struct espl__watch *, uint32_t run);
/* To be called several times a second. */
void espl__watch_tick(struct espl__watch *);

uint32_t espl__watch_count(const struct espl__watch *); /* only grows; a run keeps its number */
const char *espl__watch_dir(const struct espl__watch *, uint32_t run);
/* What a run is doing, as a JSON object: `run` its number, `dir`, and what `status --json` prints,
 * or error and hint.  Grows with every change: `rows` of any, `row` of this one. */
const char *espl__watch_row(struct espl__watch *, uint32_t run);
uint64_t espl__watch_rows_version(const struct espl__watch *);
uint64_t espl__watch_row_version(const struct espl__watch *, uint32_t run);
/* The data of its page: a descriptor of your own, of a file that never changes, -1 there is none
 * yet; and how many pages there have been. */
int espl__watch_page(const struct espl__watch *, uint32_t run, size_t *size);
uint64_t espl__watch_page_version(const struct espl__watch *, uint32_t run);
#endif
