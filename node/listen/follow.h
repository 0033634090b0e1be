/* follow.h - files of metrics that a program writes while it trains, as lines of JSON.
 *
 * CSV: each row is {"COLUMN": "CELL", ...}, without the empty cells.  JSON: each line as it is.
 * TensorBoard: each event with scalars is {"step": N, "TAG": VALUE, ...}.
 *
 * The files are those that match a glob pattern, now or later; of files that are there already only
 * what is added counts, as an earlier attempt may have left them.  If a program
 * rewrites a file, for example to add a column, the file is read from the start, and the rows that
 * were read before are skipped.
 */
#ifndef ESPL__LISTEN_FOLLOW_H
#define ESPL__LISTEN_FOLLOW_H
#include <stddef.h>

#include "base/buf.h"

enum espl__follow_kind { ESPL__FOLLOW_CSV, ESPL__FOLLOW_JSON, ESPL__FOLLOW_EVENTS };
/* By the name: tfevents, .csv, or else JSON. */
enum espl__follow_kind espl__follow_kind_of(const char *pattern);

struct espl__follow;
/* `from_now`: what is in the files already does not count. */
struct espl__follow *espl__follow_new(const char *pattern, int from_now);
void espl__follow_free(struct espl__follow *);
/* The next line; `final`: the program has ended, so one that lacks its end counts too.  1: `to`,
 * cleared first, is it; 0: there is none now.  Looks into each file once. */
int espl__follow_next(struct espl__follow *, int final, struct espl__buf *to);
/* Files that were found; and what is wrong with one, or NULL: said once. */
size_t espl__follow_files(const struct espl__follow *);
const char *espl__follow_trouble(struct espl__follow *);
#endif
