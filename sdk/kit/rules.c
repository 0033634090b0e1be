/* rules.c - see espalier/kit/rules.h. */
#include <inttypes.h>
#include <stdio.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/rules.h>
#include "judge.h"

#define RESERVED_FLAGS 0x3u /* of grants */

int
espl_takes(const struct espl_item *item, uint32_t gpus)
{
	ESPL_ASSERT(item != NULL && item->gpus_min <= item->gpus_max);
	return gpus >= item->gpus_min && gpus <= item->gpus_max &&
	    (item->unit <= 1 || gpus % item->unit == 0);
}

/* How many items may be on its GPU. */
static uint32_t
sharers_max(const struct espl_item *item)
{
	if (item->gpus_min > 1)
		return 1;
	return item->packing_max < ESPL_JUDGE_SHARERS_MAX ? item->packing_max
							  : ESPL_JUDGE_SHARERS_MAX;
}

const char *
espl_grant_wrong(const struct espl_grant *grant, const struct espl_item *item, uint32_t offer_count,
    char *text, size_t size)
{
	uint32_t gpus = grant->share.gpus, parts = grant->share.packing;
	char most[16] = "any number", unit[32] = "";
	const char *s = gpus == 1 ? "" : "s";

	ESPL_ASSERT(grant != NULL && text != NULL && size > 0);
	ESPL_ASSERT(item == NULL || item->id == grant->item);
	if (item == NULL) {
		(void)snprintf(text, size,
		    "%" PRIu32 " GPU%s for item %" PRIu64 ", which does not exist", gpus, s,
		    grant->item);
	} else if (grant->size == 0) {
		(void)snprintf(text, size,
		    "%" PRIu32 " GPU%s for item %" PRIu64
		    ", whose size is not set: begin with ESPL_INIT",
		    gpus, s, grant->item);
	} else if (parts == 0 || (parts > 1 && gpus != 1)) {
		(void)snprintf(text, size,
		    "gpus %" PRIu32 " with packing %" PRIu32 " for item %" PRIu64
		    ": it is N whole GPUs with packing 1, or 1 GPU divided by its packing",
		    gpus, parts, grant->item);
	} else if (parts > 1 && parts > sharers_max(item)) {
		(void)snprintf(text, size,
		    "1/%" PRIu32 " of a GPU for item %" PRIu64
		    ", which shares one with at most %" PRIu32 " in all",
		    parts, grant->item, sharers_max(item));
	} else if (parts == 1 && gpus != 0 && !espl_takes(item, gpus)) {
		if (item->gpus_max != ESPL_ANY)
			(void)snprintf(most, sizeof most, "%" PRIu32, item->gpus_max);
		if (item->unit > 1)
			(void)snprintf(unit, sizeof unit, " in multiples of %" PRIu32, item->unit);
		(void)snprintf(text, size,
		    "%" PRIu32 " GPU%s for item %" PRIu64 ", which takes %" PRIu32 " to %s%s", gpus,
		    s, grant->item, item->gpus_min, most, unit);
	} else if ((item->flags & ESPL_ITEM_EXPERIMENT) != 0 &&
	    (grant->flags & ~ESPL_GRANT_QUEUED) != 0) {
		(void)snprintf(text, size,
		    "%" PRIu32 " GPU%s with flags 0x%" PRIx32 " for item %" PRIu64
		    ", which is an experiment: they are for trials",
		    gpus, s, (uint32_t)grant->flags, grant->item);
	} else if (grant->offer != ESPL_ANY && grant->offer >= offer_count) {
		(void)snprintf(text, size,
		    "%" PRIu32 " GPU%s of offer %" PRIu32
		    ", which does not exist, for item %" PRIu64,
		    gpus, s, grant->offer, grant->item);
	} else if ((grant->flags & RESERVED_FLAGS) != 0) {
		(void)snprintf(text, size,
		    "%" PRIu32 " GPU%s for item %" PRIu64 " with the flags 0x%" PRIx32
		    ", which are reserved",
		    gpus, s, grant->item, (uint32_t)(grant->flags & RESERVED_FLAGS));
	} else {
		return NULL;
	}
	return text;
}

const char *
espl_target_wrong(const struct espl_target *target, const struct espl_offer *const *offers,
    uint32_t offer_count, char *text, size_t size)
{
	ESPL_ASSERT(target != NULL && text != NULL && size > 0);
	ESPL_ASSERT(offers != NULL || offer_count == 0);
	if (target->size == 0)
		(void)snprintf(text, size,
		    "%" PRIu32 " node%s, whose size is not set: begin with ESPL_INIT",
		    target->nodes, target->nodes == 1 ? "" : "s");
	else if (target->offer >= offer_count)
		(void)snprintf(text, size,
		    "%" PRIu32 " node%s of offer %" PRIu32 ", which does not exist", target->nodes,
		    target->nodes == 1 ? "" : "s", target->offer);
	else if (target->nodes >
	    offers[target->offer]->nodes_max) /* ESPL_ANY: no number is above it */
		(void)snprintf(text, size,
		    "%" PRIu32 " node%s of offer %" PRIu32 ", which has at most %" PRIu32
		    " (nodes_max)",
		    target->nodes, target->nodes == 1 ? "" : "s", target->offer,
		    offers[target->offer]->nodes_max);
	else
		return NULL;
	return text;
}

const char *
espl_wake_wrong(espl_time at, espl_time now, char *text, size_t size)
{
	ESPL_ASSERT(text != NULL && size > 0);
	if (at >= now)
		return NULL;
	(void)snprintf(text, size,
	    "%.9g s, which is in the past (it is %.9g s now); times are in nanoseconds",
	    (double)at / 1e9, (double)now / 1e9);
	return text;
}
