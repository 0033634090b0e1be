/* items_place.h - asking the placer. */
#ifndef ESPL__EXEC_ITEMS_PLACE_H
#define ESPL__EXEC_ITEMS_PLACE_H
#include "exec/state.h"

espl_status espl__items_place(struct espl__exec *, struct espl__diag *);
/* Items with a target on this node, or GPU of it (ESPL_ANY: any), need a new one. */
void espl__items_evict(struct espl__exec *, uint64_t node, uint32_t gpu, int lost);
/* Is its whole place free for it? */
int espl__item_is_clear(const struct espl__exec *, const struct espl__item *);

static inline void
espl__items_ask_placer(struct espl__exec *x, uint32_t why)
{
	x->items.place_why |= why;
}

/* 1: slots came free in this round, so that the placer may look again. */
static inline void
espl__items_freed(struct espl__exec *x, int freed)
{
	x->items.slots_freed = (uint8_t)freed;
}
#endif
