/* espalier kit: hold.h - holding nodes: which of them are ready, which are released first
 * when there are too many, and how many are held without a plan.
 */
#ifndef ESPALIER_KIT_HOLD_H
#define ESPALIER_KIT_HOLD_H
#include <espalier/kit/roster.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Number of an owner's usable nodes of an offer (ESPL_NONE: nodes without an owner). */
uint32_t espl_hold_ready(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner);
/* Number of an owner's nodes of an offer, ready or not, except those that are being released. */
uint32_t espl_hold_count(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner);
/* Number of additional nodes that make up for the unusable GPUs of an offer. */
uint32_t espl_hold_spare(const struct espl_alloc_view *view, uint32_t offer);
/* Claims up to `count` nodes without an owner for a bracket, from *next of the view on.  Adds to
 * *taken, and the usable ones to *ready. */
espl_status espl_hold_claim(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint32_t bracket, uint32_t count, uint32_t *next, uint32_t *taken,
    uint32_t *ready);
/* Transfers up to `count` idle nodes, the newest first, from an owner to a bracket.  Adds to
 * *ready. */
espl_status espl_hold_pass_on(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint64_t owner, uint32_t bracket, uint32_t count, uint32_t *ready);
/* Retires an owner's nodes: first those that are not ready yet, then those that have been billed
 * longest and have used up most of their minimum charge. */
espl_status espl_hold_retire(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint64_t owner, uint32_t count);
/* Number of an owner's nodes of an offer that can be released without displacing a trial. */
uint32_t espl_hold_empty(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner);
/* Like espl_hold_retire, but only for such nodes. */
espl_status espl_hold_retire_empty(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint64_t owner, uint32_t count);
/* The longest that a latency can be expected to take. */
double espl_hold_longest(const struct espl_latency *latency);
/* Without a plan: grants each trial the minimum that it can run on, in order of arrival. */
espl_status espl_hold_least(struct espl_roster *r, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, uint32_t number);

#ifdef __cplusplus
}
#endif
#endif
