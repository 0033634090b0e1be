/* sim_agenda.c - the schedule of the simulated world (a binary heap ordered by time and order of
 * entry), the events for the executor, and random draws.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "sim/sim_impl.h"

static int
is_before(const struct espl__sim_due *a, const struct espl__sim_due *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

void
espl__sim_heap_add(struct espl__sim_heap *heap, espl_time at, enum espl__sim_due_type type,
    uint64_t ref, uint32_t mark)
{
	struct espl__sim_due due = { .at = at,
		.seq = heap->seq++,
		.ref = ref,
		.type = type,
		.mark = mark };
	size_t i = heap->count++;

	ESPL__GROW(heap->list, heap->cap, heap->count);
	while (i > 0 && is_before(&due, &heap->list[(i - 1) / 2])) {
		heap->list[i] = heap->list[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap->list[i] = due;
}

const struct espl__sim_due *
espl__sim_heap_top(const struct espl__sim_heap *heap)
{
	return heap->count > 0 ? &heap->list[0] : NULL;
}

struct espl__sim_due
espl__sim_heap_take(struct espl__sim_heap *heap)
{
	struct espl__sim_due top, last;
	size_t i = 0;

	ESPL__ASSERT(heap->count > 0);
	top = heap->list[0];
	last = heap->list[--heap->count];
	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    is_before(&heap->list[child + 1], &heap->list[child]))
			child++;
		if (!is_before(&heap->list[child], &last))
			break;
		heap->list[i] = heap->list[child];
		i = child;
	}
	if (heap->count > 0)
		heap->list[i] = last;
	return top;
}

struct espl__event *
espl__sim_add_event(struct espl__sim *sim, enum espl__event_type type)
{
	ESPL__CHECK(sim, SIM);
	return espl__batch_add(&sim->round, type);
}

const char *
espl__sim_text(struct espl__sim *sim, const char *text)
{
	ESPL__CHECK(sim, SIM);
	if (text == NULL || text[0] == '\0')
		return "";
	return espl__arena_strdup(&sim->round.arena, text);
}

espl_time
espl__sim_after(const struct espl__sim *sim, double seconds)
{
	double ns = seconds * 1e9;

	ESPL__CHECK(sim, SIM);
	if (!(ns > 0.0))
		return sim->now;
	if (ns >= 9.2e18 - (double)sim->now)
		return ESPL_NEVER - 1;
	return sim->now + (espl_time)(ns + 0.5);
}

void
espl__sim_stream(struct espl__rng *rng, uint64_t key, uint32_t what, uint64_t n)
{
	const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t state =
	    espl__mix_bits(espl__mix_bits(key + golden * (what + 1)) + golden * (n + 1));

	for (int i = 0; i < 4; i++)
		rng->s[i] = espl__split_mix(&state);
	rng->s[0] |= 1; /* never the all-zero state */
}

double
espl__sim_draw(const struct espl_latency *latency, uint64_t key, uint32_t what, uint64_t n)
{
	struct espl__rng rng;

	espl__sim_stream(&rng, key, what, n);
	return espl__latency_draw(latency, &rng);
}

/* A slash and the number before `end`, without printf: every start of a trial needs a name. */
static char *
write_part(char *end, uint64_t number)
{
	do
		*--end = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	*--end = '/';
	return end;
}

uint64_t
espl__sim_key(uint64_t seed, const char *kind, uint32_t experiment, uint64_t id)
{
	struct espl__rng rng;
	char room[80], *name = room + sizeof room - 1;
	size_t length = strlen(kind);

	ESPL__ASSERT(length < 32);
	*name = '\0';
	name = write_part(name, id);
	if (experiment > 0)
		name = write_part(name, experiment);
	name -= length;
	memcpy(name, kind, length);
	name -= 4;
	memcpy(name, "sim/", 4);
	espl__rng_seed(&rng, seed, name);
	return espl__rng_next(&rng);
}

int
espl__sim_alive(const struct espl__sim *sim, uint64_t lease)
{
	ESPL__CHECK(sim, SIM);
	return lease < sim->lease_count && sim->leases[lease].state != 0 &&
	    sim->leases[lease].state != ESPL_NODE_ENDED;
}

const char *
espl__sim_machine_name(const struct espl__sim *sim, uint32_t offer, uint32_t number,
    char room[ESPL__SIM_NAME])
{
	const struct espl_offer *terms;

	ESPL__CHECK(sim, SIM);
	if (number == ESPL_ANY)
		return "";
	terms = &sim->offers[offer].terms;
	(void)snprintf(room, ESPL__SIM_NAME, "%.70s-%.70s-%u", terms->name, terms->market,
	    (unsigned)number);
	return room;
}
