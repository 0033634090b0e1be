/* espalier kit: rules.h - what a host takes from an allocator.  espalier, its check-plugin and the
 * testkit all judge answers with these, and a policy may before it answers.  They judge a grant or
 * a target by itself: sums, items granted twice, and whether a COLOCATE item's GPUs can be had on
 * one node are seen when the whole answer is there. */
#ifndef ESPALIER_KIT_RULES_H
#define ESPALIER_KIT_RULES_H
#include <espalier/allocator.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Whole GPUs that an item takes: from its least to its most, in its unit. */
int espl_takes(const struct espl_item *item, uint32_t gpus);
/* Checks a grant. The error, written into text, or NULL: it is valid. item: the item that it names,
 * NULL if there is none. The caller checks that each item has at most one grant in an answer. */
const char *espl_grant_wrong(const struct espl_grant *grant, const struct espl_item *item,
    uint32_t offer_count, char *text, size_t size);
/* The same of a target. */
const char *espl_target_wrong(const struct espl_target *target,
    const struct espl_offer *const *offers, uint32_t offer_count, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
