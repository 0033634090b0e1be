/* fair_divide.h - what is due to each of several items that differ: by weight, within what each can
 * take. */
#ifndef FAIR_DIVIDE_H
#define FAIR_DIVIDE_H
#include <espalier/kit/assert.h>
#include <espalier/kit/roster.h>

/* Is that the same for all of them: weight, least and most?  Then equal shares say it all. */
int allocator_fair_alike(const struct espl_roster *, const struct espl_alloc_view *);

/* Shares of `total` GPUs into shares[entry]: in proportion to the weights, but nobody gets less
 * than its least or more than its most, and what one cannot use is the others' (weighted max-min
 * fairness).  `room` lends scratch for as many numbers as there are items and nodes together.  0:
 * gangs that must not straddle nodes would not stand side by side so; nothing is told then. */
int allocator_fair_divide(const struct espl_roster *, const struct espl_alloc_view *,
    uint64_t total, uint32_t *shares, uint32_t *room);

#endif
