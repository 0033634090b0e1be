/* items_lists.h - the lists that items are in. */
#ifndef ESPL__EXEC_ITEMS_LISTS_H
#define ESPL__EXEC_ITEMS_LISTS_H
#include "exec/state.h"

/* of an allocator: items that exist, that changed since its last call, that are gone */
struct espl__item *espl__item_at(const struct espl__tier *, uint64_t id);
const struct espl_item *espl__item_lookup(void *tier, uint64_t id);
void espl__tier_add(struct espl__tier *, struct espl__item *);
void espl__tier_remove(struct espl__tier *, const struct espl__item *);
void espl__item_changed(struct espl__item *, uint32_t why);
void espl__item_gone(struct espl__tier *, uint64_t id,
    const struct espl__trial *); /* the allocator sees it in its next view */

/* of the placer: items with a grant, and of them those that it must look at */
struct espl__item *espl__item_granted(const struct espl__exec *,
    uint64_t id); /* NULL: it has no grant */
const struct espl_gang *espl__item_gang(void *exec, uint64_t id);
void espl__items_granted(struct espl__exec *, struct espl__item *);
void espl__items_ungranted(struct espl__exec *, struct espl__item *);
void espl__item_look(struct espl__exec *, struct espl__item *);

/* of items whose gang must start or move; settle: keeps those that still wait */
void espl__item_pending(struct espl__exec *, struct espl__item *);
void espl__items_settle(struct espl__exec *,
    int (*waits)(struct espl__exec *, struct espl__item *));

void espl__list_remove(void *list, uint32_t *count, const void *what);

static inline struct espl__item *
espl__item_of_gang(const struct espl_gang *view)
{
	return (struct espl__item *)((char *)(uintptr_t)view - offsetof(struct espl__item, view));
}
#endif
