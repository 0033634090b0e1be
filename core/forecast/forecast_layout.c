/* forecast_layout.c - how a stage's trials stand on its GPUs.  Shared with the executor. */
#include <espalier/kit/roster.h>
#include "forecast/forecast.h"

#define NODES_MAX (1u << 20) /* of a stage */

/* The least share that is legal and at least `min`: on one node or on whole ones. */
static uint64_t
least_share(uint32_t min, uint32_t per_node, int colocate)
{
	if (!colocate || min <= per_node)
		return min;
	return ((uint64_t)min + per_node - 1) / per_node * per_node;
}

/* The largest share of at most q GPUs with which all trials stand side by side; 0: none. */
static uint64_t
widest_share(uint64_t q, uint32_t trials, uint64_t nodes, uint32_t per_node, int colocate)
{
	uint64_t whole = nodes / trials, each = (trials + nodes - 1) / nodes;

	if (!colocate)
		return q < nodes * per_node / trials ? q : nodes * per_node / trials;
	if (whole > q / per_node)
		whole = q / per_node;
	if (whole > 0)
		return whole * per_node;
	return q < per_node / each ? q : per_node / each;
}

int
espl__plan_layout(const struct espl_offer *offer, uint32_t trials, uint32_t gpus, uint32_t gpus_min,
    uint32_t gpus_max, int colocate, struct espl__forecast_stage *stage)
{
	uint32_t per_node = offer->gpus, min = gpus_min > 0 ? gpus_min : 1;
	uint64_t nodes, least, share, room;

	if (per_node == 0 || trials == 0 || gpus == 0)
		return -1;
	nodes = stage->nodes > 0 ? stage->nodes : ((uint64_t)gpus + per_node - 1) / per_node;
	if (nodes > NODES_MAX || nodes > offer->nodes_max)
		return -1;
	least = least_share(min, per_node, colocate);
	share = stage->gpus_per_trial;
	if (share == 0) {
		share = gpus / trials;
		if (share > gpus_max)
			share = gpus_max;
		if (share > least)
			share = widest_share(share, trials, nodes, per_node, colocate);
		if (share < least)
			share = least;
	}
	if (share < min || share > gpus_max ||
	    (colocate && share > per_node && share % per_node != 0))
		return -1;
	room = colocate ? espl_side_by_side((uint32_t)share, (uint32_t)nodes, per_node)
			: nodes * per_node / share;
	if (room > gpus / share)
		room = gpus / share;
	if (room > trials)
		room = trials;
	if (room == 0)
		return -1;
	stage->gpus = gpus;
	stage->gpus_per_trial = (uint32_t)share;
	stage->nodes = (uint32_t)nodes;
	stage->slots = (uint32_t)room;
	return 0;
}

int
espl__plan_goes_on(const struct espl__forecast_stage *before, uint32_t trials_before,
    const struct espl__forecast_stage *after, uint32_t trials_after)
{
	return before->offer == after->offer && before->nodes == after->nodes &&
	    before->gpus_per_trial == after->gpus_per_trial && trials_after <= trials_before &&
	    before->slots == trials_before && after->slots == trials_after;
}
