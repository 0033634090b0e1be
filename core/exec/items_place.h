/* items_place.h - asking the placer. */
#ifndef ESPL__EXEC_ITEMS_PLACE_H
#define ESPL__EXEC_ITEMS_PLACE_H
#include "exec/state.h"

espl_status espl__items_place(struct espl__exec *, struct espl__diag *);
/* Items with a target on this node, or GPU of it (ESPL_ANY: any), need a new one. */
void espl__items_evict(struct espl__exec *, uint64_t node, uint32_t gpu, int lost);
/* Is its whole place free for it? */
int espl__item_is_clear(const struct espl__exec *, const struct espl__item *);

/* ---- trials within one machine --------------------------------------------------------------- */

/* All of them do from now on. */
void espl__items_within(struct espl__exec *);
/* Its gang has ended since: if that was on several machines, it gets another place. */
void espl__item_within(struct espl__exec *, struct espl__item *);
#endif
