/* price_grid.c - see price_grid.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "interrupt.h"
#include "price_grid.h"

void
espl_grid_free(struct espl_price_grid *grid)
{
	free(grid->minutes);
	free(grid->rises);
	memset(grid, 0, sizeof *grid);
}

uint32_t
espl_price_after(const struct espl_price *prices, uint32_t count, espl_time at)
{
	uint32_t low = 0, high = count;

	ESPL_ASSERT(prices != NULL || count == 0);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (prices[middle].from <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

espl_money
espl_price_at(const struct espl_price *prices, uint32_t count, espl_time at)
{
	uint32_t next = espl_price_after(prices, count, at);

	return next > 0 ? prices[next - 1].usd_hour : -1;
}

/* Rounds towards the past: times may be negative. */
static int64_t
minute_of(espl_time at)
{
	return at / ESPL_MINUTE - (at % ESPL_MINUTE < 0);
}

static espl_status
make_room(struct espl_price_grid *grid, uint32_t count)
{
	uint32_t room = grid->room > 0 ? grid->room : 1024;
	void *at;

	if (count <= grid->room)
		return ESPL_OK;
	while (room < count)
		room = room > UINT32_MAX / 2 ? count : room * 2;
	at = realloc(grid->minutes, room * sizeof *grid->minutes);
	if (at == NULL)
		return ESPL_E_NOMEM;
	grid->minutes = (struct espl_minute *)at;
	at = realloc(grid->rises, room * sizeof *grid->rises);
	if (at == NULL)
		return ESPL_E_NOMEM;
	grid->rises = (espl_money *)at;
	grid->room = room;
	return ESPL_OK;
}

/* Takes over a record; nothing happens if it repeats the price. */
static void
take_record(struct espl_price_grid *grid, const struct espl_price *record)
{
	ESPL_ASSERT(record->from >= grid->read_to || grid->count == 0);
	ESPL_ASSERT(record->usd_hour >= 0);
	grid->read_to = record->from;
	if (record->usd_hour != grid->price) {
		grid->price = record->usd_hour;
		grid->set_at = record->from;
		grid->changes++;
	}
}

/* Drops minutes that nothing asks for, now and then. */
static void
drop_old(struct espl_price_grid *grid)
{
	uint32_t surplus = grid->count - (grid->keep < grid->count ? grid->keep : grid->count);

	if (grid->keep == 0 || surplus < grid->keep + 1024)
		return;
	memmove(grid->minutes, grid->minutes + surplus, grid->keep * sizeof *grid->minutes);
	grid->count = grid->keep;
	grid->first += surplus;
	if (surplus < grid->risen)
		memmove(grid->rises, grid->rises + surplus,
		    (grid->risen - surplus) * sizeof *grid->rises);
	grid->risen = surplus < grid->risen ? grid->risen - surplus : 0;
}

/* The highest price of the hour after each minute; it is looked for anew only when its last minute
 * has passed. */
static void
find_rises(struct espl_price_grid *grid)
{
	const struct espl_minute *minutes = grid->minutes;
	uint32_t top_at = 0;
	espl_money top = -1;

	for (; grid->risen + ESPL_GRID_HOUR < grid->count; grid->risen++) {
		uint32_t last = grid->risen + ESPL_GRID_HOUR;
		uint32_t i = top_at > grid->risen ? last : grid->risen + 1;

		if (i < last)
			top = -1;
		for (; i <= last; i++)
			if (minutes[i].top >= top) {
				top = minutes[i].top;
				top_at = i;
			}
		grid->rises[grid->risen] = top - minutes[grid->risen].price;
	}
}

/* Begins with the first record's minute, or where what is kept begins. */
static uint32_t
begin_grid(struct espl_price_grid *grid, const struct espl_price *prices, uint32_t count,
    int64_t last)
{
	int64_t first = minute_of(prices[0].from - 1) + 1;
	uint32_t next;

	if (grid->keep > 0 && first < last - grid->keep)
		first = last - grid->keep;
	next = espl_price_after(prices, count, first * ESPL_MINUTE);
	grid->first = first;
	grid->count = grid->risen = 0;
	grid->changes = 0;
	grid->price = prices[next - 1].usd_hour;
	grid->set_at = grid->read_to = prices[next - 1].from;
	return next;
}

espl_status
espl_grid_extend(struct espl_price_grid *grid, const struct espl_price *prices, uint32_t count,
    espl_time now)
{
	int64_t last = minute_of(now), minute;
	uint32_t next, known = espl_price_after(prices, count, now);

	if (grid->count > 0 && grid->keep > 0 && known > 0 &&
	    last - (grid->first + grid->count) > (int64_t)grid->keep)
		grid->count = grid->risen = 0; /* nothing of it is asked for any more */
	if (grid->count == 0) {
		if (known == 0 || minute_of(prices[0].from - 1) + 1 > last)
			return ESPL_OK;
		next = begin_grid(grid, prices, known, last);
	} else {
		next = espl_price_after(prices, known, grid->read_to);
	}
	minute = grid->first + grid->count;
	if (minute > last)
		return ESPL_OK;
	if (last - grid->first >= UINT32_MAX / 2 ||
	    make_room(grid, (uint32_t)(last - grid->first + 1)) != ESPL_OK)
		return ESPL_E_NOMEM;
	for (; minute <= last; minute++) {
		struct espl_minute *m = &grid->minutes[grid->count];

		m->top = grid->price;
		for (; next < known && prices[next].from <= minute * ESPL_MINUTE; next++) {
			take_record(grid, &prices[next]);
			m->top = grid->price > m->top ? grid->price : m->top;
		}
		m->price = grid->price;
		m->set_at = grid->set_at;
		m->changes = grid->changes;
		m->price_sum = grid->count > 0 ? m[-1].price_sum + m[-1].price : 0;
		grid->count++;
	}
	find_rises(grid);
	drop_old(grid);
	return ESPL_OK;
}

uint32_t
espl_grid_exceeding(const struct espl_price_grid *grid, uint32_t end, uint32_t window,
    espl_money margin, uint32_t *of)
{
	uint32_t from = end > window ? end - window : 0, found = 0;

	ESPL_ASSERT(end <= grid->risen);
	for (uint32_t i = from; i < end; i++)
		found += grid->rises[i] > margin;
	*of = end - from;
	return found;
}
