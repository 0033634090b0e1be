/* items_within.h - trials that stay within one machine, as machines cannot reach each other. */
#ifndef ESPL__EXEC_ITEMS_WITHIN_H
#define ESPL__EXEC_ITEMS_WITHIN_H
#include "exec/state.h"

/* All of them do from now on. */
void espl__items_within(struct espl__exec *);
/* Its gang has ended since: if that was on several machines, it gets another place. */
void espl__item_within(struct espl__exec *, struct espl__item *);
/* Would these slots scatter it over machines?  1: it gets fewer, if that is enough for it, and must
 * be placed again. */
int espl__item_strays(struct espl__exec *, struct espl__item *, const struct espl_slot *,
    uint32_t count);
#endif
