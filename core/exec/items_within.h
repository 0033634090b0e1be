/* items_within.h - trials that stay within one machine. */
#ifndef ESPL__EXEC_ITEMS_WITHIN_H
#define ESPL__EXEC_ITEMS_WITHIN_H
#include "exec/state.h"

/* The fleet's machines cannot reach each other, as of now (why, for people).  Ends searches and
 * jobs that need several. */
void espl__items_within(struct espl__exec *, const char *why);
/* What it gets of a grant of `gpus` on nodes of this offer (ESPL_ANY: any); 0: they are too small.
 */
uint32_t espl__item_width(const struct espl__exec *, const struct espl__item *, uint32_t offer,
    uint32_t gpus);
/* Would these slots scatter it over machines that cannot reach each other?  1: it gets fewer, if
 * that is enough for it, and must be placed again. */
int espl__item_strays(struct espl__exec *, struct espl__item *, const struct espl_slot *,
    uint32_t count);
/* Its gang has ended since: if that was on several machines, it gets another place. */
void espl__item_within(struct espl__exec *, struct espl__item *);
#endif
