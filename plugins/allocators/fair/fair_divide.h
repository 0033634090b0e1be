/* fair_divide.h - what is due to each of several items that differ: by weight, within what each can
 * take. */
#ifndef FAIR_DIVIDE_H
#define FAIR_DIVIDE_H
#include <espalier/kit/assert.h>
#include <espalier/kit/roster.h>

/* 1: weight, least and most are the same for all items, so that equal shares suffice. */
int allocator_fair_alike(const struct espl_roster *, const struct espl_alloc_view *);

/* Shares of `total` GPUs into shares[entry]: in proportion to the weights, within the least and
 * the most of each item; what an item cannot use goes to the others (weighted max-min fairness).
 * `room`: scratch for as many numbers as there are items and nodes together.  0: gangs that must
 * not straddle nodes would not fit side by side; no share is written then. */
int allocator_fair_divide(const struct espl_roster *, const struct espl_alloc_view *,
    uint64_t total, uint32_t *shares, uint32_t *room);

#endif
