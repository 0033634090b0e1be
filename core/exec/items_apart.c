/* items_apart.c - items that must stay away from a node, or from all others.
 *
 * What failed on a node is tried again on another one: only then it is known what is at fault. What
 * may have brought down two nodes is tried where it can do no harm: a node that is empty becomes
 * its own (espl_node.owner), until it is gone.
 */
#include "base/assert.h"
#include "exec/items_apart.h"
#include "exec/items_lists.h"
#include "exec/items_place.h"

#define AVOID_MOST (600 * ESPL_SECOND)

static int
is_usable(const struct espl_node *n)
{
	return n->state == ESPL_NODE_READY &&
	    (n->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE)) == 0;
}

static int
suits_item(const struct espl__item *item, const struct espl_node *n)
{
	uint32_t gpus = item->pub.granted.gpus > 0 ? item->pub.granted.gpus : item->pub.gpus_min;

	return is_usable(n) && n->gpu_count >= gpus &&
	    (item->view.offer == ESPL_ANY || item->view.offer == n->offer);
}

/* ---- away from a node --------------------------------------------------------------------- */

void
espl__item_avoid(struct espl__item *item, uint64_t node, espl_time failed_at)
{
	struct espl__exec *x = item->trial->search->exec;

	ESPL__CHECK(x, EXEC);
	if (node == ESPL_NONE)
		return;
	item->view.avoid = node + 1;
	item->avoid_since = failed_at;
	item->avoid_until = x->now + AVOID_MOST;
	if (item->avoids)
		return;
	item->avoids = 1;
	ESPL__GROW(x->items.avoiding, x->items.avoiding_cap, x->items.avoiding_count + 1);
	x->items.avoiding[x->items.avoiding_count++] = item;
}

/* Is there another node for it, and has none of the trials on that one worked since? */
static int
still_avoids(const struct espl__exec *x, const struct espl__item *item)
{
	const struct espl__machine *n = espl__machine_at(&x->fleet, item->view.avoid - 1);

	if (x->now >= item->avoid_until || n == NULL || !n->live ||
	    n->worked_at > item->avoid_since)
		return 0;
	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->id != item->view.avoid - 1 &&
		    suits_item(item, x->fleet.live[i]) &&
		    x->fleet.live[i]->owner == item->view.owner)
			return 1;
	return 0;
}

static void
stop_avoiding(struct espl__exec *x, struct espl__item *item)
{
	item->avoids = 0;
	item->view.avoid = 0;
	if (item->pub.granted.gpus == 0 || item->target_count > 0)
		return;
	espl__item_look(x, item);
	espl__items_ask_placer(x, ESPL_WHY_NODES);
}

/* One that has its place has no need to avoid any other. */
static void
look_at_avoiding(struct espl__exec *x)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < x->items.avoiding_count; i++) {
		struct espl__item *item = x->items.avoiding[i];

		if (item->target_count == 0 && still_avoids(x, item))
			x->items.avoiding[left++] = item;
		else
			stop_avoiding(x, item);
	}
	x->items.avoiding_count = left;
}

/* ---- alone -------------------------------------------------------------------------------- */

void
espl__item_apart(struct espl__item *item)
{
	struct espl__exec *x = item->trial->search->exec;

	ESPL__CHECK(x, EXEC);
	/* with a plan, the nodes have owners already */
	if (item->apart || item->view.owner != ESPL_NONE)
		return;
	item->apart = 1;
	item->view.owner = item->pub.id;
	ESPL__GROW(x->items.apart, x->items.apart_cap, x->items.apart_count + 1);
	x->items.apart[x->items.apart_count++] = item;
	espl__item_look(x, item);
}

/* A node that is its own already, or that is empty and may become it; NULL: none. */
static struct espl__machine *
find_own_node(const struct espl__exec *x, const struct espl__item *item)
{
	struct espl__machine *empty = NULL;

	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		if (!suits_item(item, &n->pub))
			continue;
		if (n->pub.owner == item->pub.id)
			return n;
		if (empty == NULL && n->pub.owner == ESPL_NONE && n->occupants == 0)
			empty = n;
	}
	return empty;
}

static void
free_own_nodes(struct espl__exec *x, uint64_t id)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		if (n->pub.owner != id)
			continue;
		n->pub.owner = ESPL_NONE;
		espl__items_freed(x, 1);
	}
}

static void
look_at_apart(struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->items.apart_count; i++) {
		struct espl__item *item = x->items.apart[i];
		struct espl__machine *n;

		if (item->pub.granted.gpus == 0 || item->target_count > 0)
			continue;
		n = find_own_node(x, item);
		if (n == NULL || n->pub.owner == item->pub.id)
			continue;
		n->pub.owner = n->suspect = item->pub.id;
		espl__item_look(x, item);
		espl__items_ask_placer(x, ESPL_WHY_NODES);
	}
}

void
espl__item_join(struct espl__exec *x, struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	if (item->avoids)
		espl__list_remove(x->items.avoiding, &x->items.avoiding_count, item);
	if (item->apart) {
		espl__list_remove(x->items.apart, &x->items.apart_count, item);
		free_own_nodes(x, item->pub.id);
	}
	item->avoids = item->apart = 0;
}

void
espl__items_part(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (x->items.avoiding_count > 0)
		look_at_avoiding(x);
	if (x->items.apart_count > 0)
		look_at_apart(x);
}

espl_time
espl__items_part_at(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->items.avoiding_count; i++)
		if (x->items.avoiding[i]->avoid_until < at)
			at = x->items.avoiding[i]->avoid_until;
	return at;
}
