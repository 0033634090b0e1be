/* items_lists.c - the lists that items are in: those of an allocator, those of the placer, and
 * those that wait for their gang to start or to move.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/items_lists.h"

void
espl__list_remove(void *list, uint32_t *count, const void *what)
{
	void **at = list;
	uint32_t to = 0;

	for (uint32_t i = 0; i < *count; i++)
		if (at[i] != what)
			at[to++] = at[i];
	*count = to;
}

/* ---- of an allocator ---------------------------------------------------------------------- */

static uint64_t
find_item_index(const struct espl__tier *tier, uint64_t id)
{
	uint64_t low = tier->items_from, high = tier->items_from + tier->items_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (tier->items[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct espl__item *
espl__item_at(const struct espl__tier *tier, uint64_t id)
{
	uint64_t at = find_item_index(tier, id);

	if (at == tier->items_from + tier->items_count || tier->items[at]->id != id)
		return NULL;
	return (struct espl__item *)(uintptr_t)tier->items[at];
}

const struct espl_item *
espl__item_lookup(void *tier, uint64_t id)
{
	struct espl__item *item = espl__item_at(tier, id);

	return item != NULL ? &item->pub : NULL;
}

void
espl__tier_add(struct espl__tier *tier, struct espl__item *item)
{
	if (tier->items_from > 0 && tier->items_from + tier->items_count == tier->items_cap) {
		memmove(tier->items, tier->items + tier->items_from,
		    tier->items_count * sizeof *tier->items);
		tier->items_from = 0;
	}
	ESPL__GROW(tier->items, tier->items_cap, tier->items_from + tier->items_count + 1);
	tier->items[tier->items_from + tier->items_count++] = &item->pub;
}

void
espl__tier_remove(struct espl__tier *tier, const struct espl__item *item)
{
	uint64_t at = find_item_index(tier, item->pub.id), left = at - tier->items_from;
	uint64_t right = tier->items_count - left - 1;

	ESPL__ASSERT(tier->items[at] == &item->pub);
	if (left < right) {
		memmove(tier->items + tier->items_from + 1, tier->items + tier->items_from,
		    left * sizeof *tier->items);
		tier->items_from++;
	} else {
		memmove(tier->items + at, tier->items + at + 1, right * sizeof *tier->items);
	}
	tier->items_count--;
	if (item->alloc_changed)
		espl__list_remove(tier->changed, &tier->changed_count, &item->pub);
}

void
espl__item_changed(struct espl__item *item, uint32_t why)
{
	struct espl__tier *tier = item->tier;

	tier->why |= why;
	if (item->alloc_changed)
		return;
	item->alloc_changed = 1;
	ESPL__GROW(tier->changed, tier->changed_cap, tier->changed_count + 1);
	tier->changed[tier->changed_count++] = &item->pub;
}

void
espl__item_gone(struct espl__tier *tier, uint64_t id, const struct espl__trial *t)
{
	if (tier->gone_count == tier->gone_cap) {
		ESPL__GROW(tier->gone, tier->gone_cap, tier->gone_count + 1);
		tier->gone_of = espl__realloc(tier->gone_of, tier->gone_cap, sizeof *tier->gone_of);
	}
	tier->gone_of[tier->gone_count] = t != NULL ? espl__trial_uid(t) : ESPL_NONE;
	tier->gone[tier->gone_count++] = id;
	tier->why |= ESPL_WHY_DEPARTURE;
}

/* ---- of the placer ------------------------------------------------------------------------ */

/* Index of the first gang of an item with at least this id: the list is in order of ids. */
static uint32_t
find_gang(const struct espl__exec *x, uint64_t id)
{
	uint32_t low = 0, high = x->items.gangs_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (x->items.gangs_view[middle]->item < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct espl__item *
espl__item_granted(const struct espl__exec *x, uint64_t id)
{
	uint32_t at;

	ESPL__CHECK(x, EXEC);
	at = find_gang(x, id);
	return at < x->items.gangs_count && x->items.gangs_view[at]->item == id
	    ? espl__item_of_gang(x->items.gangs_view[at])
	    : NULL;
}

const struct espl_gang *
espl__item_gang(void *exec, uint64_t id)
{
	struct espl__item *item = espl__item_granted(exec, id);

	return item != NULL ? &item->view : NULL;
}

void
espl__items_ungranted(struct espl__exec *x, struct espl__item *item)
{
	uint32_t at;

	if (!item->in_gangs)
		return;
	item->in_gangs = 0;
	at = find_gang(x, item->pub.id);
	ESPL__ASSERT(at < x->items.gangs_count && x->items.gangs_view[at] == &item->view);
	x->items.gangs_count--;
	memmove(&x->items.gangs_view[at], &x->items.gangs_view[at + 1],
	    (x->items.gangs_count - at) * sizeof *x->items.gangs_view);
}

void
espl__items_granted(struct espl__exec *x, struct espl__item *item)
{
	uint32_t at;

	if (item->in_gangs)
		return;
	item->in_gangs = 1;
	ESPL__GROW(x->items.gangs_view, x->items.gangs_cap, x->items.gangs_count + 1);
	for (at = x->items.gangs_count; at > 0 && x->items.gangs_view[at - 1]->item > item->pub.id;
	     at--)
		x->items.gangs_view[at] = x->items.gangs_view[at - 1];
	x->items.gangs_view[at] = &item->view;
	x->items.gangs_count++;
}

void
espl__item_look(struct espl__exec *x, struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	if (item->place_changed)
		return;
	item->place_changed = 1;
	ESPL__GROW(x->items.place_list, x->items.place_cap, x->items.place_count + 1);
	x->items.place_list[x->items.place_count++] = item;
}

/* ---- of those whose gang is to start or to move ------------------------------------------- */

void
espl__item_pending(struct espl__exec *x, struct espl__item *item)
{
	ESPL__CHECK(x, EXEC);
	if (item->pending)
		return;
	item->pending = 1;
	ESPL__GROW(x->items.pending, x->items.pending_cap, x->items.pending_count + 1);
	x->items.pending[x->items.pending_count++] = item;
}

void
espl__items_settle(struct espl__exec *x, int (*waits)(struct espl__exec *, struct espl__item *))
{
	uint32_t left = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->items.pending_count; i++) {
		struct espl__item *item = x->items.pending[i];

		item->pending = waits(x, item) != 0;
		if (item->pending)
			x->items.pending[left++] = item;
	}
	x->items.pending_count = left;
}
