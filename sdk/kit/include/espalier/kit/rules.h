/* espalier kit: rules.h - which grants, targets and instants a host accepts from a policy.
 * espalier, check-plugin and the test kit all check answers with these functions, and a policy may
 * call them before it answers.  They check a grant or a target by itself.  Sums, items granted
 * twice, and whether the GPUs of a COLOCATE item fit on one node are checked when the answer is
 * complete. */
#ifndef ESPALIER_KIT_RULES_H
#define ESPALIER_KIT_RULES_H
#include <espalier/allocator.h>
#ifdef __cplusplus
extern "C" {
#endif

/* May an item have this many whole GPUs?  They must be within its limits, and a multiple of its
 * unit. */
int espl_takes(const struct espl_item *item, uint32_t gpus);
/* Checks a grant.  Returns the error, written into text, or NULL if it is valid.  item: the item
 * that it names, NULL if there is none. The caller checks that each item has at most one grant in
 * an answer. */
const char *espl_grant_wrong(const struct espl_grant *grant, const struct espl_item *item,
    uint32_t offer_count, char *text, size_t size);
/* The same for a target. */
const char *espl_target_wrong(const struct espl_target *target,
    const struct espl_offer *const *offers, uint32_t offer_count, char *text, size_t size);
/* The same for the instant of a wake_at, which must not lie before `now`.  Policies that ask for
 * `now`, or for an instant that is only just later, again and again, although nothing changes, end
 * the run. */
const char *espl_wake_wrong(espl_time at, espl_time now, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
