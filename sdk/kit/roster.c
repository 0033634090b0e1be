/* roster.c - see espalier/kit/roster.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include <espalier/kit/array.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/roster.h>

/* ---- which grants are legal -------------------------------------------------------------- */

static uint32_t
espl_common_multiple(uint32_t a, uint32_t b)
{
	uint32_t x = a, y = b;

	ESPL_ASSERT(a > 0 && b > 0);
	while (y != 0) {
		uint32_t rest = x % y;

		x = y;
		y = rest;
	}
	return a / x * b;
}

uint32_t
espl_fit(const struct espl_item *item, uint32_t per_node, uint32_t most)
{
	uint32_t unit = item->unit > 0 ? item->unit : 1, fit;

	ESPL_ASSERT(item->gpus_min <= item->gpus_max);
	if (most > item->gpus_max)
		most = item->gpus_max;
	fit = most - most % unit;
	if ((item->flags & ESPL_ITEM_COLOCATE) != 0 && per_node > 0 && fit > per_node) {
		fit = most - most % espl_common_multiple(unit, per_node);
		if (fit == 0)
			fit = per_node - per_node % unit;
	}
	return fit >= item->gpus_min ? fit : 0;
}

/* The smallest legal grant of at least `from` GPUs; 0: none. */
static uint32_t
espl_least_from(const struct espl_item *item, uint32_t per_node, uint32_t from)
{
	uint32_t unit = item->unit > 0 ? item->unit : 1;
	uint32_t min = item->gpus_min > from ? item->gpus_min : from > 0 ? from : 1;
	uint64_t least = ((uint64_t)min + unit - 1) / unit * unit;

	if ((item->flags & ESPL_ITEM_COLOCATE) != 0 && per_node > 0 && least > per_node) {
		uint32_t step = espl_common_multiple(unit, per_node);

		least = ((uint64_t)min + step - 1) / step * step;
	}
	return least <= item->gpus_max ? (uint32_t)least : 0;
}

uint32_t
espl_least(const struct espl_item *item, uint32_t per_node)
{
	return espl_least_from(item, per_node, 0);
}

uint64_t
espl_side_by_side(uint32_t gpus, uint32_t nodes, uint32_t per_node)
{
	if (gpus == 0 || per_node == 0)
		return 0;
	if (gpus <= per_node)
		return (uint64_t)(per_node / gpus) * nodes;
	return nodes / ((gpus + per_node - 1) / per_node);
}

uint64_t
espl_room_for(uint32_t count, uint32_t each, uint64_t gpus, uint32_t per_node)
{
	uint64_t nodes;

	if (each == 0 || each > per_node || per_node % each == 0)
		return gpus;
	nodes = ((uint64_t)count + per_node / each - 1) / (per_node / each);
	return nodes * per_node > gpus ? nodes * per_node : gpus;
}

uint32_t
espl_nodes_for(const struct espl_alloc_view *view, uint32_t number, uint64_t limit, uint64_t *gpus)
{
	ESPL_ASSERT(number < view->offer_count && view->offers[number]->gpus > 0);
	const struct espl_offer *offer = view->offers[number];
	uint64_t each = offer->gpus, lost = view->gpus_lost != NULL ? view->gpus_lost[number] : 0;
	uint64_t nodes = (*gpus + lost + each - 1) / each;
	uint64_t most = limit / each + (limit % each != 0), there;

	if (nodes > most)
		nodes = most;
	if (nodes > offer->nodes_max) /* ESPL_ANY: none; no target is above it */
		nodes = offer->nodes_max;
	there = nodes * each > lost ? nodes * each - lost : 0;
	if (*gpus > there)
		*gpus = there;
	return (uint32_t)nodes;
}

uint32_t
espl_find_offer(const struct espl_offer *const *offers, uint32_t count, const char *name)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (offers[i] != NULL && (offers[i]->flags & ESPL_OFFER_GONE) == 0 &&
		    offers[i]->gpus > 0 &&
		    (name == NULL || name[0] == '\0' || strcmp(offers[i]->name, name) == 0))
			return i;
	return ESPL_ANY;
}

espl_status
espl_choose_offer(const struct espl_offer *const *offers, uint32_t count, const char *name,
    uint32_t option, uint32_t *number, struct espl_error *error)
{
	char text[200], hint[200] = "";
	size_t size = 0;
	uint32_t i;

	ESPL_ASSERT(number != NULL && (offers != NULL || count == 0));
	*number = espl_find_offer(offers, count, name);
	if (*number != ESPL_ANY || name == NULL || name[0] == '\0')
		return ESPL_OK;
	for (i = 0; i < count; i++) {
		if (offers[i] == NULL)
			continue;
		if (strcmp(offers[i]->name, name) == 0 && offers[i]->gpus > 0)
			return ESPL_OK;
		if (offers[i]->gpus > 0 && size < sizeof hint)
			size += (size_t)snprintf(hint + size, sizeof hint - size, "%s'%s'",
			    size > 0 ? ", " : "", offers[i]->name);
	}
	(void)snprintf(text, sizeof text, "the cloud has no offer '%.100s' with GPUs", name);
	if (error != NULL && error->status == ESPL_OK)
		(void)snprintf(error->hint, sizeof error->hint, "it offers %s%s",
		    size > 0 ? hint : "none", size >= sizeof hint ? " ..." : "");
	return espl_blame(error, option, text);
}

int
espl_offer_is_lost(const struct espl_alloc_view *view, uint32_t number)
{
	uint32_t i;

	ESPL_ASSERT(number < view->offer_count);
	for (i = 0; i < view->node_count; i++)
		if (view->nodes[i]->offer == number)
			return 0;
	return (view->offers[number]->flags & ESPL_OFFER_GONE) != 0;
}

double
espl_throughput(const struct espl_item *item, uint32_t gpus)
{
	const struct espl_point *p = item->scaling;
	double x = gpus;
	uint32_t low = 1, high = item->scaling_count; /* the first point that x is not beyond */

	ESPL_ASSERT(item->scaling_count == 0 || (p != NULL && p[0].x > 0));
	if (item->scaling_count == 0)
		return x / (item->unit > 0 ? item->unit : 1);
	if (x <= p[0].x)
		return p[0].y * x / p[0].x;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (x <= p[middle].x)
			high = middle;
		else
			low = middle + 1;
	}
	if (low >= item->scaling_count)
		return p[item->scaling_count - 1].y;
	return p[low - 1].y +
	    (p[low].y - p[low - 1].y) * (x - p[low - 1].x) / (p[low].x - p[low - 1].x);
}

uint32_t
espl_useful(const struct espl_item *item, uint32_t per_node, uint32_t most)
{
	const struct espl_point *p = item->scaling;
	uint32_t i, k, widest = espl_fit(item, per_node, most), best = widest;
	double speed;

	if (best == 0 || item->scaling_count == 0)
		return best;
	speed = espl_throughput(item, best);
	/* Between two points speed is linear: only next to a peak, or to where a level stretch
	 * begins, can there be a faster grant than the widest, or a smaller one as fast. */
	for (i = 0; i < item->scaling_count; i++) {
		if (!(p[i].x < (double)widest) || (i > 0 && p[i].y <= p[i - 1].y) ||
		    (i + 1 < item->scaling_count && p[i + 1].y > p[i].y))
			continue;
		for (k = 0; k < 2; k++) {
			uint32_t x =
			    (uint32_t)p[i].x + (k == 1 && (double)(uint32_t)p[i].x < p[i].x);
			uint32_t gpus = k == 0 ? espl_fit(item, per_node, x)
					       : espl_least_from(item, per_node, x);
			double then = espl_throughput(item, gpus);

			if (gpus == 0 || gpus > widest || then < speed)
				continue;
			if (then > speed || gpus < best) {
				best = gpus;
				speed = then;
			}
		}
	}
	return best;
}

/* ---- the list ---------------------------------------------------------------------------- */

void
espl_roster_free(struct espl_roster *roster)
{
	free(roster->room);
	free(roster->touched);
	memset(roster, 0, sizeof *roster);
}

/* Adds an entry to the sums, or takes it out (sign -1). */
static void
espl_roster_count(struct espl_roster *roster, const struct espl_entry *entry, int sign)
{
	uint32_t one = sign < 0 ? UINT32_MAX : 1; /* modulo 2^32: adds or subtracts */
	uint64_t wide = sign < 0 ? UINT64_MAX : 1;
	uint64_t most = entry->most == ESPL_ANY ? UINT64_C(1) << 32 : entry->most;

	/* What is taken out was counted in. */
	ESPL_ASSERT(sign > 0 || (roster->least >= entry->least && roster->most >= most));
	roster->least += wide * entry->least;
	roster->most += wide * most;
	if (entry->gpus == 0)
		return;
	ESPL_ASSERT(sign > 0 || roster->granted > 0);
	roster->granted += one;
	if (entry->packing > 1) {
		ESPL_ASSERT(sign > 0 || roster->packed > 0);
		roster->packed += one;
		roster->sharers[entry->packing < ESPL_ROSTER_PACKING ? entry->packing
								     : ESPL_ROSTER_PACKING] += one;
		return;
	}
	ESPL_ASSERT(sign > 0 || roster->whole >= entry->gpus);
	roster->whole += wide * entry->gpus;
	if (entry->gpus == 1)
		roster->wholes += one;
	if (!entry->fixed && entry->gpus > entry->least)
		roster->excess += wide * (entry->gpus - entry->least);
}

/* Reads an item into its entry (whose sums are taken out); `want` stays. */
static void
espl_roster_read(struct espl_roster *roster, struct espl_entry *entry, const struct espl_item *item)
{
	entry->id = item->id;
	entry->arrived = item->arrived;
	entry->gpus = item->granted.gpus;
	entry->packing = item->granted.packing > 0 ? item->granted.packing : 1;
	entry->least = espl_least(item, roster->per_node);
	entry->most = item->gpus_max;
	if (roster->widest != NULL)
		entry->most = roster->widest(item, roster->per_node);
	else if (item->scaling_count > 0)
		entry->most = espl_useful(item, roster->per_node, item->gpus_max);
	entry->fixed = (item->flags & ESPL_ITEM_NO_SAVE) != 0 ? 1 : 0;
}

uint32_t
espl_roster_find(const struct espl_roster *roster, uint64_t id, espl_time arrived)
{
	uint32_t low = 0, high = roster->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct espl_entry *entry = espl_roster_at(roster, middle);

		if (entry->arrived < arrived || (entry->arrived == arrived && entry->id < id))
			low = middle + 1;
		else
			high = middle;
	}
	return low < roster->count && espl_roster_at(roster, low)->id == id ? low : ESPL_ANY;
}

static void
espl_roster_remove(struct espl_roster *roster, uint32_t index)
{
	struct espl_entry *at = espl_roster_at(roster, 0);

	ESPL_ASSERT(index < roster->count);
	espl_roster_count(roster, &at[index], -1);
	if (index < roster->count / 2) { /* the running ones are in front: move those */
		memmove(at + 1, at, (size_t)index * sizeof *at);
		roster->head++;
	} else {
		memmove(at + index, at + index + 1,
		    (size_t)(roster->count - index - 1) * sizeof *at);
	}
	roster->count--;
	roster->gone++;
	if (index < roster->cursor)
		roster->cursor--;
}

static espl_status
espl_roster_append(struct espl_roster *roster, const struct espl_item *item)
{
	struct espl_entry *entry;

	ESPL_ASSERT(roster->head + roster->count <= roster->size);
	if (roster->head + roster->count == roster->size) {
		if (roster->head > roster->size / 2) {
			memmove(roster->room, espl_roster_at(roster, 0),
			    roster->count * sizeof *roster->room);
			roster->head = 0;
		} else {
			entry = (struct espl_entry *)espl_array_grow(roster->room, &roster->size,
			    roster->size + 1, sizeof *entry);
			if (entry == NULL)
				return ESPL_E_NOMEM;
			roster->room = entry;
		}
	}
	entry = espl_roster_at(roster, roster->count);
	entry->want = 0;
	espl_roster_read(roster, entry, item);
	espl_roster_count(roster, entry, 1);
	roster->count++;
	return ESPL_OK;
}

/* First index at which list and view differ, up to the shorter one's end. */
static uint32_t
espl_roster_differ(const struct espl_roster *roster, const struct espl_alloc_view *view,
    uint32_t low)
{
	uint32_t high = roster->count < view->item_count ? roster->count : view->item_count;

	/* Both are in the same order and newcomers are last, so up to the first departure
	 * all agree and behind it none does. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (espl_roster_at(roster, middle)->id == view->items[middle]->id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
espl_roster_refresh(struct espl_roster *roster, const struct espl_alloc_view *view, uint32_t index)
{
	struct espl_entry *entry = espl_roster_at(roster, index);

	ESPL_ASSERT(index < view->item_count && view->items[index]->id == entry->id);
	espl_roster_count(roster, entry, -1);
	espl_roster_read(roster, entry, view->items[index]);
	espl_roster_count(roster, entry, 1);
	if (entry->gpus == 0 && index < roster->cursor)
		roster->cursor = index;
}

espl_status
espl_roster_sync(struct espl_roster *roster, const struct espl_alloc_view *view, uint32_t per_node)
{
	uint32_t i, at = 0;
	espl_status status = ESPL_OK;

	roster->gone = 0;
	if (roster->per_node != per_node || roster->broken) { /* from the beginning */
		while (roster->count > 0)
			espl_roster_remove(roster, roster->count - 1);
		roster->per_node = per_node;
	}
	roster->broken = 1;
	for (;;) {
		at = espl_roster_differ(roster, view, at);
		if (at >= roster->count)
			break;
		espl_roster_remove(roster, at);
	}
	roster->fresh = roster->count;
	for (i = roster->count; i < view->item_count && status == ESPL_OK; i++)
		status = espl_roster_append(roster, view->items[i]);
	/* What the host says counts, also of grants it may have refused since. */
	for (i = 0; i < roster->touched_count && status == ESPL_OK; i++) {
		at = espl_roster_find(roster, roster->touched[i].id, roster->touched[i].arrived);
		if (at < roster->fresh)
			espl_roster_refresh(roster, view, at);
	}
	roster->touched_count = 0;
	for (i = 0; i < view->changed_count && status == ESPL_OK; i++) {
		at = espl_roster_find(roster, view->changed[i]->id, view->changed[i]->arrived);
		if (at < roster->fresh)
			espl_roster_refresh(roster, view, at);
	}
	roster->broken = status != ESPL_OK;
	/* From here on an index of the roster is one of the view. */
	ESPL_ASSERT(roster->broken || roster->count == view->item_count);
	return status;
}

espl_status
espl_roster_within(const struct espl_roster *roster, uint32_t most, uint32_t option,
    struct espl_error *error)
{
	uint32_t i, least = ESPL_ANY;
	char text[80];

	for (i = 0; i < roster->count && least > most; i++)
		if (espl_roster_at(roster, i)->least < least)
			least = espl_roster_at(roster, i)->least;
	if (most == 0 || least <= most || roster->count == 0)
		return ESPL_OK;
	(void)snprintf(text, sizeof text, "it may hold %u GPU%s, and a trial needs %u", most,
	    most == 1 ? "" : "s", least);
	return espl_blame(error, option, text);
}

uint64_t
espl_roster_used(const struct espl_roster *roster)
{
	uint64_t used = roster->whole;
	uint32_t c;

	for (c = 2; roster->packed > 0 && c <= ESPL_ROSTER_PACKING; c++)
		used += (roster->sharers[c] + c - 1) / c;
	return used;
}

uint64_t
espl_roster_used_with(struct espl_roster *roster, uint32_t index, uint32_t gpus, uint32_t packing)
{
	struct espl_entry *entry = espl_roster_at(roster, index), was = *entry;
	uint64_t used;

	ESPL_ASSERT(index < roster->count);
	espl_roster_count(roster, entry, -1);
	entry->gpus = gpus;
	entry->packing = packing;
	espl_roster_count(roster, entry, 1);
	used = espl_roster_used(roster);
	espl_roster_count(roster, entry, -1);
	*entry = was;
	espl_roster_count(roster, entry, 1);
	return used;
}

uint32_t
espl_roster_waiting(struct espl_roster *roster, uint32_t from)
{
	uint32_t i = from < roster->cursor ? roster->cursor : from;
	int all = i == roster->cursor;

	ESPL_ASSERT(roster->cursor <= roster->count);
	while (i < roster->count && espl_roster_at(roster, i)->gpus > 0)
		i++;
	if (all)
		roster->cursor = i;
	return i;
}

espl_status
espl_roster_grant_as(struct espl_roster *roster, struct espl_alloc_sink *sink, uint32_t index,
    uint32_t gpus, uint32_t packing, uint32_t flags)
{
	struct espl_entry *entry = espl_roster_at(roster, index);
	struct espl_touch *more;
	struct espl_grant grant;
	espl_status status;

	ESPL_ASSERT(index < roster->count && !roster->broken);
	ESPL_ASSERT(packing > 0 || gpus == 0);
	more = (struct espl_touch *)espl_array_grow(roster->touched, &roster->touched_size,
	    roster->touched_count + 1, sizeof *more);
	if (more == NULL)
		return ESPL_E_NOMEM;
	roster->touched = more;
	memset(&grant, 0, sizeof grant);
	grant.size = (uint32_t)sizeof grant;
	grant.flags = flags;
	grant.item = entry->id;
	grant.share.gpus = gpus;
	grant.share.packing = packing;
	grant.offer = ESPL_ANY;
	status = sink->grant(sink, &grant);
	if (status != ESPL_OK)
		return status;
	roster->touched[roster->touched_count].id = entry->id;
	roster->touched[roster->touched_count].arrived = entry->arrived;
	roster->touched_count++;
	espl_roster_count(roster, entry, -1);
	entry->gpus = gpus;
	entry->packing = packing;
	espl_roster_count(roster, entry, 1);
	if (gpus == 0 && index < roster->cursor)
		roster->cursor = index;
	return ESPL_OK;
}

espl_status
espl_roster_grant(struct espl_roster *roster, struct espl_alloc_sink *sink, uint32_t index,
    uint32_t gpus, uint32_t packing)
{
	return espl_roster_grant_as(roster, sink, index, gpus, packing, 0);
}
