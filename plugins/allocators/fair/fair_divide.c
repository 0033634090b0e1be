/* fair_divide.c - shares for items that differ; see fair_divide.h.
 *
 * Each share is a common level times the item's weight, clipped to its limits; the level at which
 * the shares add up to all GPUs is found by bisection.  Rounded down to legal grants these leave a
 * rest, which goes to the earliest of those that lost by it, a step each.
 */
#include "fair_divide.h"

#include <stdlib.h>

#define HALVINGS 60

int
allocator_fair_alike(const struct espl_roster *roster, const struct espl_alloc_view *view)
{
	const struct espl_entry *first = espl_roster_at(roster, 0);
	uint32_t i;

	ESPL_ASSERT(roster->count > 0 && roster->count == view->item_count);
	for (i = 1; i < roster->count; i++) {
		const struct espl_entry *entry = espl_roster_at(roster, i);

		if (entry->least != first->least || entry->most != first->most ||
		    view->items[i]->weight < view->items[0]->weight ||
		    view->items[i]->weight > view->items[0]->weight)
			return 0;
	}
	return 1;
}

static double
at_level(const struct espl_entry *entry, const struct espl_item *item, double level)
{
	double share = level * item->weight;

	if (share > entry->most)
		share = entry->most;
	return share > entry->least ? share : entry->least;
}

static double
find_level(const struct espl_roster *roster, const struct espl_alloc_view *view, double total)
{
	double low = 0, high = total, sum;
	uint32_t i, n;

	for (i = 0; i < roster->count; i++)
		if (view->items[i]->weight * high < total)
			high = total / view->items[i]->weight;
	for (n = 0; n < HALVINGS; n++) {
		double middle = low + (high - low) / 2;

		for (sum = 0, i = 0; i < roster->count && sum <= total; i++)
			sum += at_level(espl_roster_at(roster, i), view->items[i], middle);
		if (sum <= total)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The next faster grant above `share`, of at most `most` more; `share` if there is none. */
static uint32_t
next_step(const struct espl_entry *entry, const struct espl_item *item, uint32_t per_node,
    uint32_t share, uint64_t more)
{
	uint32_t gpus;

	for (gpus = share + 1; gpus - share <= more && gpus <= entry->most; gpus++)
		if (espl_useful(item, per_node, gpus) == gpus)
			return gpus;
	return share;
}

static int
larger_first(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x > y ? -1 : x < y;
}

/* Do these gangs stand side by side, each on one node or on whole ones?  The widest are placed
 * first. */
static int
side_by_side(uint32_t *gangs, uint32_t count, uint32_t *free, uint64_t total, uint32_t per_node)
{
	uint32_t nodes = (uint32_t)((total + per_node - 1) / per_node),
		 whole = (uint32_t)(total / per_node), i, n, used = 0;

	for (n = 0; n < nodes; n++)
		free[n] = n < whole ? per_node : (uint32_t)(total % per_node);
	qsort(gangs, count, sizeof *gangs, larger_first);
	for (i = 0; i < count; i++) {
		if (gangs[i] >= per_node) {
			uint32_t takes = (gangs[i] + per_node - 1) / per_node;

			if (whole - used < takes)
				return 0;
			for (n = 0; n < takes; n++)
				free[used++] = 0;
			continue;
		}
		for (n = used; n < nodes && free[n] < gangs[i]; n++)
			;
		if (n == nodes)
			return 0;
		free[n] -= gangs[i];
	}
	return 1;
}

int
allocator_fair_divide(const struct espl_roster *roster, const struct espl_alloc_view *view,
    uint64_t total, uint32_t *shares, uint32_t *room)
{
	double level = find_level(roster, view, (double)total);
	uint64_t used = 0;
	uint32_t i, gangs = 0;

	for (i = 0; i < roster->count; i++) {
		const struct espl_entry *entry = espl_roster_at(roster, i);
		double due = at_level(entry, view->items[i], level) * (1 + 1e-12);
		uint32_t fit = espl_useful(view->items[i], roster->per_node,
		    due < (double)UINT32_MAX ? (uint32_t)due : UINT32_MAX);

		shares[i] = fit > entry->least ? fit : entry->least;
		used += shares[i];
	}
	/* first those that are due a part of a step */
	for (i = 0; i < 2 * roster->count && used < total; i++) {
		uint32_t at = i % roster->count, more;
		const struct espl_entry *entry = espl_roster_at(roster, at);

		if (i < roster->count &&
		    at_level(entry, view->items[at], level) < shares[at] + 1e-9)
			continue;
		more =
		    next_step(entry, view->items[at], roster->per_node, shares[at], total - used);
		used += more - shares[at];
		shares[at] = more;
	}
	for (i = 0; i < roster->count; i++)
		if ((view->items[i]->flags & ESPL_ITEM_COLOCATE) != 0)
			room[gangs++] = shares[i];
	return gangs == 0 ||
	    side_by_side(room, gangs, room + roster->count, total, roster->per_node);
}
