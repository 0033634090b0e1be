/* items_apart.h - items that must stay away from a node, or from all others. */
#ifndef ESPL__EXEC_ITEMS_APART_H
#define ESPL__EXEC_ITEMS_APART_H
#include "exec/state.h"

/* It is placed on another node than this one (NONE: on any), if another one is of use to it: until
 * a trial works on that node, and at most for ten minutes. */
void espl__item_avoid(struct espl__item *, uint64_t node, espl_time failed_at);
/* It is placed on a node where nothing else runs, and nothing is placed beside it. */
void espl__item_apart(struct espl__item *);
void espl__item_join(struct espl__exec *, struct espl__item *); /* neither of both any more */
/* Before the placer is asked: who may use which nodes now. */
void espl__items_part(struct espl__exec *);
espl_time espl__items_part_at(const struct espl__exec *); /* when that changes by itself; NEVER */
#endif
