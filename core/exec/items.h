/* items.h - the items that represent trials to allocators and the placer. */
#ifndef ESPL__EXEC_ITEMS_H
#define ESPL__EXEC_ITEMS_H
#include "exec/state.h"

/* jobs.c */
espl_status espl__jobs_init(struct espl__search *, const struct espl__jobs *);
void espl__job_item(const struct espl__trial *, struct espl_item *);
double espl__job_left(const struct espl__trial *,
    uint64_t iteration); /* work, as allocators see it */
void espl__job_started(const struct espl__trial *);
void espl__job_ended(const struct espl__trial *);
/* The search that holds the plain jobs; NULL: none. */
struct espl__search *espl__jobs_search(const struct espl__exec *x);

/* items.c */
uint64_t espl__trial_restores(
    const struct espl__trial *); /* the iteration at which a start resumes */
struct espl__item *espl__item_new(struct espl__exec *, struct espl__trial *, double weight,
    uint32_t gpus_min, uint32_t gpus_max);
void espl__item_free(struct espl__exec *, struct espl__item *);
void espl__item_gone(struct espl__tier *, uint64_t id,
    const struct espl__trial *); /* the allocator sees it in its next view */
struct espl__item *espl__item_whole(struct espl__search *,
    struct espl__inner *); /* to be filled, then added */
void espl__item_add(struct espl__item *);
struct espl__item *espl__item_at(const struct espl__tier *, uint64_t id);
const struct espl_item *espl__item_lookup(void *tier, uint64_t id);
struct espl__item *espl__item_granted(const struct espl__exec *,
    uint64_t id); /* NULL: it has no grant */
const struct espl_item *espl__item_placed(void *exec, uint64_t id);
void espl__item_changed(struct espl__item *, uint32_t why);
void espl__item_settled(struct espl__exec *,
    struct espl__item *); /* it trains on its granted GPUs */
void espl__item_progress(struct espl__exec *, struct espl__item *, uint64_t iteration);
void espl__item_grant(struct espl__exec *, struct espl__item *, struct espl_share, uint32_t offer);
void espl__item_target(struct espl__exec *, struct espl__item *, const struct espl_slot *,
    uint32_t count);
void espl__item_look(struct espl__exec *, struct espl__item *); /* the placer must */
void espl__item_pending(struct espl__exec *, struct espl__item *);
uint64_t espl__tier_gpus(const struct espl__tier *); /* that grants in force take */
void espl__tier_free(struct espl__tier *);           /* lists and allocator */
struct espl__search *espl__inner_search(const struct espl__inner *);
uint32_t espl__inner_share(const struct espl__inner *); /* GPUs */
void espl__inner_count(struct espl__item *,
    int there); /* an item of a trial was added, changed or (0) removed */
void espl__inner_granted(struct espl__item *); /* its share has changed */
#endif
