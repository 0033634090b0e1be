/* espalier kit: hold.h - holding nodes: which of them are ready, which go first when there are
 * too many, and how many are held where there is no plan.
 */
#ifndef ESPALIER_KIT_HOLD_H
#define ESPALIER_KIT_HOLD_H
#include <espalier/kit/roster.h>
#ifdef __cplusplus
extern "C" {
#endif

/* An owner's nodes of an offer (ESPL_NONE: those that are nobody's) that can be used now. */
uint32_t espl_hold_ready(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner);
/* An owner's nodes of an offer, whether they are there yet or not, but for those that go. */
uint32_t espl_hold_count(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner);
/* Nodes that make up for those GPUs of an offer that nobody can use. */
uint32_t espl_hold_spare(const struct espl_alloc_view *view, uint32_t offer);
/* Makes up to `count` nodes that are nobody's a bracket's own, from *next of the view on.  Adds to
 * *taken, and those that can be used at once to *ready. */
espl_status espl_hold_claim(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint32_t bracket, uint32_t count, uint32_t *next, uint32_t *taken,
    uint32_t *ready);
/* Hands up to `count` idle nodes over, the youngest first: those of an owner become a bracket's.
 * Adds to *ready. */
espl_status espl_hold_pass_on(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint64_t owner, uint32_t bracket, uint32_t count, uint32_t *ready);
/* Of an owner's nodes first those that are not there yet.  Then those whose bill began first, which
 * have paid most of their minimum charge. */
espl_status espl_hold_retire(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint64_t owner, uint32_t count);
/* An owner's nodes of an offer that can go without a trial losing its place. */
uint32_t espl_hold_empty(const struct espl_alloc_view *view, uint32_t offer, uint64_t owner);
/* As espl_hold_retire, but of these alone. */
espl_status espl_hold_retire_empty(const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, uint64_t owner, uint32_t count);
/* The longest that a latency can be expected to take. */
double espl_hold_longest(const struct espl_latency *latency);
/* Without a plan: the least that each trial can run on, in order of arrival. */
espl_status espl_hold_least(struct espl_roster *r, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, uint32_t number);

#ifdef __cplusplus
}
#endif
#endif
