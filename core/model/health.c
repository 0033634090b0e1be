/* health.c - the ledger of machines. */
#include "model/health.h"

#include <string.h>

#include "base/assert.h"

/* A machine that was avoided is tried again: somebody may have repaired it. */
#define AVOID_FIRST (300 * ESPL_SECOND)
#define AVOID_MOST (4 * 3600 * ESPL_SECOND)

void
espl__health_free(struct espl__health_book *book)
{
	for (uint32_t i = 0; i < book->count; i++) {
		free(book->list[i]->why);
		free(book->list[i]);
	}
	free(book->list);
	espl__arena_free(&book->arena);
	memset(book, 0, sizeof *book);
}

static int
is_same(const struct espl__health *h, uint32_t offer, const char *machine, uint64_t lease)
{
	if (machine == NULL || h->machine == NULL)
		return machine == h->machine && h->lease == lease;
	return h->offer == offer && strcmp(h->machine, machine) == 0;
}

struct espl__health *
espl__health_of(struct espl__health_book *book, uint32_t offer, const char *machine, uint64_t lease)
{
	struct espl__health *h;

	for (uint32_t i = 0; i < book->count; i++)
		if (is_same(book->list[i], offer, machine, lease)) {
			book->list[i]->lease = lease;
			return book->list[i];
		}
	h = espl__alloc(sizeof *h);
	h->machine = espl__arena_strdup(&book->arena, machine);
	h->offer = offer;
	h->lease = lease;
	h->reported_at = h->failed_at = h->avoid_until = ESPL_NEVER;
	ESPL__GROW(book->list, book->cap, book->count + 1);
	book->list[book->count++] = h;
	return h;
}

void
espl__health_fails(struct espl__health *h, enum espl__health_fault fault, const char *why,
    espl_time now)
{
	espl_span pause = AVOID_FIRST;

	ESPL__ASSERT(fault != ESPL__HEALTH_GOOD);
	h->failures++;
	for (uint32_t i = 1; i < h->failures && pause < AVOID_MOST; i++)
		pause *= 2;
	h->avoid_until = now + (pause < AVOID_MOST ? pause : AVOID_MOST);
	h->failed_at = now;
	h->fault = fault;
	if (h->why != why) {
		free(h->why);
		h->why = espl__strdup(why);
	}
}

void
espl__health_works(struct espl__health *h, espl_time now)
{
	if (h->reported_at == ESPL_NEVER)
		h->reported_at = now;
	espl__health_forgive(h);
}

void
espl__health_forgive(struct espl__health *h)
{
	h->failures = 0;
	h->fault = ESPL__HEALTH_GOOD;
	h->avoid_until = ESPL_NEVER;
}

void
espl__health_drain(struct espl__health_book *book, struct espl__health *h, int drained)
{
	if (h->drained == (drained != 0))
		return;
	h->drained = drained != 0;
	book->drained += drained ? 1u : UINT32_MAX;
}

int
espl__health_is_avoided(const struct espl__health *h, espl_time since, espl_time now)
{
	return h->failures > 0 && (now < h->avoid_until || h->failed_at >= since);
}

uint32_t
espl__health_avoided(const struct espl__health_book *book, uint32_t offer, espl_time since,
    espl_time now, const char **names, uint32_t room)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < book->count; i++) {
		const struct espl__health *h = book->list[i];

		if (h->offer != offer || h->machine == NULL ||
		    (!h->drained && !espl__health_is_avoided(h, since, now)))
			continue;
		if (count < room)
			names[count] = h->machine;
		count++;
	}
	return count;
}

uint32_t
espl__health_failed_since(const struct espl__health_book *book, uint32_t offer, espl_time since)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < book->count; i++)
		count += book->list[i]->offer == offer && book->list[i]->failures > 0 &&
		    book->list[i]->failed_at >= since;
	return count;
}

const char *
espl__health_word(const struct espl__health *h, espl_time now)
{
	return h->drained                                 ? "drained"
	    : espl__health_is_avoided(h, ESPL_NEVER, now) ? "avoided"
							  : "good";
}
