/* items_inner.h - experiments of a pool that divide their share themselves. */
#ifndef ESPL__EXEC_ITEMS_INNER_H
#define ESPL__EXEC_ITEMS_INNER_H
#include "exec/state.h"

/* The tier of a new search: the cluster's, or its own. */
espl_status espl__tier_new(struct espl__search *, struct espl__tier **, struct espl__diag *);
void espl__inner_still(
    struct espl__inner *); /* destroys its allocator; before freeing what the host lent it */
void espl__inner_free(struct espl__inner *);
void espl__inner_look(struct espl__exec *); /* brings the items that stand for them up to date */
void espl__inner_grant(struct espl__item *,
    const struct espl_grant *); /* by the pool's allocator */
void espl__inner_view(struct espl__inner *,
    struct espl_alloc_view *); /* of all, cut to the share */
void espl__inner_target(struct espl__inner *, const struct espl_target *);
void espl__inner_cut(struct espl__inner *); /* takes grants back that exceed the share */
#endif
