/* fold.h - warnings that repeat: the first is shown at once, then how often it came.
 *
 * Two warnings are of one kind if they come from the same source (what stands before the first
 * colon) and differ only in words with digits: numbers, times, ids.  If many sources say the same,
 * only the first few are shown.  Other lines pass.  May be used from any thread.
 */
#ifndef ESPL__FOLD_H
#define ESPL__FOLD_H
#include "base/log.h"

struct espl__fold;
/* to NULL: standard error. */
struct espl__fold *espl__fold_new(espl__log_fn *to, void *ctx);
/* A line at an instant (base/tick.h). */
void espl__fold_line(struct espl__fold *, int64_t now, espl_level, const char *text);
/* Says what was folded in the last minutes, where that is due. */
void espl__fold_tick(struct espl__fold *, int64_t now);
void espl__fold_free(struct espl__fold *, int64_t now); /* says what was folded */
#endif
