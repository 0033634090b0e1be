/* items_new.h - what an item is made of, and shows its allocator. */
#ifndef ESPL__EXEC_ITEMS_NEW_H
#define ESPL__EXEC_ITEMS_NEW_H
#include "exec/state.h"

struct espl__item *espl__item_new(struct espl__exec *, struct espl__trial *, double weight,
    uint32_t gpus_min, uint32_t gpus_max);
/* That of a whole experiment: to be filled, then added. */
struct espl__item *espl__item_whole(struct espl__search *, struct espl__inner *);
void espl__item_add(struct espl__item *);
/* Iterations and work left, counted from the trial's present state. */
void espl__item_progress(struct espl__exec *, struct espl__item *, uint64_t iteration);
/* Draws the estimate of a job's work again. */
void espl__item_redraw(struct espl__item *, uint64_t iteration);
/* Of the algorithm; 0: none. */
void espl__item_hint(struct espl__item *, double weight, uint32_t gpus_min, uint32_t gpus_max);
void espl__item_memory(struct espl__item *, uint64_t bytes); /* seen in use per GPU */
void espl__item_resized(struct espl__item *, double took_s); /* in place, on average */
#endif
