/* real_resize.c - a gang changes its ranks while they live: the driver's part.
 *
 * Ranks that stay learn their new slots at once, and new ranks are started, while the gang trains.
 * When all new ranks are ready, the next "continue" becomes "resize". The resize is complete when
 * the new rank 0 says so and all leaving ranks are gone. New ranks are a separate part of the gang,
 * even on a node that already has one.
 *
 * Whether the nodes of a gang on several reach each other is tried before new ranks are started,
 * and once more before "resize" is sent: the iteration in between may take an hour, and ranks that
 * have closed their communicator cannot return to it.
 */
#include "base/assert.h"
#include "real/real.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

static const char *
address_of(const struct espl__real *real, const struct espl__part *part)
{
	const struct espl__rlease *lease = espl__real_lease(real, part->lease);

	return lease != NULL && lease->address != NULL && lease->address[0] != '\0' ? lease->address
										    : "127.0.0.1";
}

/* ---- who will be who ---- */

static int
same_slot(const struct espl_slot *a, const struct espl_slot *b)
{
	return a->node == b->node && a->gpu == b->gpu;
}

static const struct espl__rmember *
find_member(const struct espl__rgang *gang, const struct espl_slot *slot)
{
	for (uint32_t r = 0; r < gang->world; r++)
		if (same_slot(&gang->members[r].slot, slot))
			return &gang->members[r];
	return NULL;
}

static uint32_t
joining_part(struct espl__rgang *gang, uint64_t lease, uint64_t wing)
{
	struct espl__part *part;

	for (uint32_t p = 0; p < gang->part_count; p++)
		if (gang->parts[p].lease == lease && gang->parts[p].wing == wing)
			return p;
	ESPL__GROW(gang->parts, gang->part_cap, gang->part_count + 1);
	part = &gang->parts[gang->part_count];
	memset(part, 0, sizeof *part);
	part->lease = lease;
	part->wing = wing;
	part->started = 1;
	gang->started++;
	return gang->part_count++;
}

static uint32_t
first_rank(const struct espl__rgang *gang, uint64_t lease)
{
	const struct espl__rasked *a = gang->asked;
	uint32_t at = 0, least = UINT32_MAX;

	ESPL__CHECK(gang, RGANG);
	ESPL__ASSERT(a != NULL);
	for (uint32_t i = 0; i < a->count; i++)
		at |= same_slot(&a->slots[i], &gang->members[0].slot);
	for (uint32_t i = 0; i < a->count; i++) {
		uint32_t rank = same_slot(&a->slots[i], &gang->members[0].slot) ? 0 : at++;

		if (a->slots[i].node == lease && rank < least)
			least = rank;
	}
	return least != UINT32_MAX ? least : 0; /* it leaves: the old rank 0 */
}

/* Rank 0 stays rank 0 if it can; the others are numbered in the order of their slots. */
static void
assign_slots(struct espl__rgang *gang, const struct espl__rasked *asked)
{
	uint32_t count = asked->count, at = 0;
	uint64_t wing = gang->id | (uint64_t)gang->generation << 40;

	gang->coming_world = count;
	gang->coming = espl__alloc(count * sizeof *gang->coming);
	for (uint32_t i = 0; i < count; i++)
		at |= same_slot(&asked->slots[i], &gang->members[0].slot);
	for (uint32_t i = 0; i < count; i++) {
		const struct espl_slot *slot = &asked->slots[i];
		const struct espl__rmember *old = find_member(gang, slot);
		uint32_t rank = old == &gang->members[0] ? 0 : at++;

		if (old != NULL) {
			gang->coming[rank] = *old;
			continue;
		}
		gang->coming[rank].slot = *slot;
		gang->coming[rank].part = joining_part(gang, slot->node, wing);
	}
	for (uint32_t r = 0; r < count; r++) { /* those that come, by rank within their part */
		struct espl__part *part = &gang->parts[gang->coming[r].part];

		if (part->wing != wing)
			continue;
		gang->coming[r].index = part->count++;
		part->live++;
		gang->expected++;
	}
}

/* ---- what the agents are told ---- */

struct change {
	struct espl__meeting meet;
	uint64_t *nodes;
	uint32_t node_count;
};

static uint32_t
node_number(const struct change *c, uint64_t lease)
{
	for (uint32_t i = 0; i < c->node_count; i++)
		if (c->nodes[i] == lease)
			return i;
	return c->node_count; /* one that is left */
}

static void
make_change(const struct espl__real *real, const struct espl__rgang *gang, struct change *c)
{
	const struct espl__part *old = &gang->parts[gang->members[0].part];
	const struct espl__part *first = &gang->parts[gang->coming[0].part];

	c->nodes = espl__alloc((gang->coming_world + 1) * sizeof *c->nodes);
	c->node_count = 0;
	for (uint32_t r = 0; r < gang->coming_world; r++)
		if (node_number(c, gang->coming[r].slot.node) == c->node_count)
			c->nodes[c->node_count++] = gang->coming[r].slot.node;
	c->meet = (struct espl__meeting){
		.generation = gang->generation,
		.moved = !same_slot(&gang->coming[0].slot, &gang->members[0].slot),
		.door = address_of(real, old),
		.port = gang->port,
		.master = address_of(real, first),
		.world = gang->coming_world,
	};
}

/* The number of new ranks below `rank` (all: coming_world) on this node. */
static uint32_t
count_on(const struct espl__rgang *gang, uint64_t lease, uint32_t rank)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < rank; r++)
		n += gang->coming[r].slot.node == lease;
	return n;
}

static void
send_slots(struct espl__real *real, struct espl__rgang *gang, struct change *c, uint32_t p)
{
	struct espl__part *part = &gang->parts[p];
	struct espl__ragent *agent = espl__real_part_agent(real, part);
	struct espl__start_rank *ranks = espl__alloc((part->live + 1) * sizeof *ranks);
	struct espl__rank_slots s = { .gang = part->wing, .meet = c->meet, .ranks = ranks };
	struct espl__buf payload = { NULL, 0, 0 };

	part->leaves = 0;
	for (uint32_t index = 0; index < part->count; index++)
		for (uint32_t r = 0; r < gang->world; r++) {
			const struct espl__rmember *m = &gang->members[r];
			uint32_t to = 0;

			if (m->part != p || m->index != index)
				continue;
			while (
			    to < gang->coming_world && !same_slot(&gang->coming[to].slot, &m->slot))
				to++;
			part->leaves += to == gang->coming_world;
			ranks[s.count++] = (struct espl__start_rank){ to,
				count_on(gang, part->lease, to), m->slot.gpu };
		}
	s.meet.node = node_number(c, part->lease);
	s.meet.local_world = count_on(gang, part->lease, gang->coming_world);
	espl__rank_slots_put(&s, &payload);
	if (agent != NULL)
		espl__agent_send(agent, ESPL__MSG_SLOTS, &payload);
	espl__buf_free(&payload);
	free(ranks);
}

static void
send_start(struct espl__real *real, struct espl__rgang *gang, const struct change *c, uint32_t p,
    const struct espl__rasked *asked)
{
	struct espl__part *part = &gang->parts[p];
	struct espl__ragent *agent = espl__real_part_agent(real, part);
	struct espl__start_rank *ranks = espl__alloc((part->count + 1) * sizeof *ranks);
	struct espl__start start = { .packing = asked->packing };
	struct espl__buf payload = { NULL, 0, 0 }, params = { NULL, 0, 0 };

	espl__real_start_fill(real, gang, espl__real_lease(real, part->lease), asked->values,
	    &start, &params);
	start.gang = part->wing;
	start.of = gang->id;
	start.world = gang->coming_world;
	start.nodes = c->node_count;
	start.node_rank = node_number(c, part->lease);
	start.attempt = asked->attempt;
	start.iteration = gang->last;
	start.join = c->meet;
	start.master = c->meet.master;
	start.join.node = start.node_rank;
	start.join.local_world = count_on(gang, part->lease, gang->coming_world);
	start.local_first = start.join.local_world - part->count;
	for (uint32_t r = 0; r < gang->coming_world; r++)
		if (gang->coming[r].part == p) {
			ranks[start.rank_count] = (struct espl__start_rank){ r, start.rank_count,
				gang->coming[r].slot.gpu };
			start.rank_count++;
		}
	start.ranks = ranks;
	espl__map_set(&real->gang_map, part->wing, gang);
	espl__start_put(&start, &payload);
	if (agent != NULL)
		espl__agent_send(agent, ESPL__MSG_START, &payload);
	espl__buf_free(&payload);
	espl__buf_free(&params);
	free(ranks);
}

static void
begin_change(struct espl__real *real, struct espl__rgang *gang, const struct espl__rasked *asked)
{
	struct change c;
	int missing = 0;

	gang->generation++;
	gang->expected = 0;
	gang->changed = 0;
	assign_slots(gang, asked);
	make_change(real, gang, &c);
	for (uint32_t p = 0; p < gang->part_count; p++) {
		struct espl__part *part = &gang->parts[p];
		int comes = part->wing == (gang->id | (uint64_t)gang->generation << 40);

		if (part->ended)
			continue;
		missing |= espl__real_part_agent(real, part) == NULL;
		if (comes)
			send_start(real, gang, &c, p, asked);
		else
			send_slots(real, gang, &c, p);
	}
	free(c.nodes);
	if (missing) { /* a node went away in this very moment */
		gang->lost = 1;
		for (uint32_t p = 0; p < gang->part_count; p++)
			if (!gang->parts[p].ended &&
			    espl__real_part_agent(real, &gang->parts[p]) == NULL) {
				gang->parts[p].ended = 1;
				gang->ended++;
			}
		espl__real_gang_kill_parts(real, gang, 0);
	}
}

/* ---- what is asked for ---- */

/* Ranks, old and new, would meet from several machines. */
static int
needs_network(const struct espl__rgang *gang, const struct espl__rasked *asked)
{
	uint64_t first = gang->members[0].slot.node;

	for (uint32_t r = 1; r < gang->world; r++)
		if (gang->members[r].slot.node != first)
			return 1;
	for (uint32_t i = 0; i < asked->count; i++)
		if (asked->slots[i].node != first)
			return 1;
	return 0;
}

static struct espl__rasked *
keep_asked(const struct espl__rgang *gang, const struct espl__effect *fx)
{
	struct espl__rasked *a = espl__alloc(sizeof *a);
	size_t count = fx->as.resize.share.gpus, values = espl__space_count(gang->kind->of->space);

	a->slots = espl__alloc((count + 1) * sizeof *a->slots);
	memcpy(a->slots, fx->as.resize.slots, count * sizeof *a->slots);
	a->values = espl__alloc((values + 1) * sizeof *a->values);
	if (values > 0)
		memcpy(a->values, fx->as.resize.values, values * sizeof *a->values);
	a->count = (uint32_t)count;
	a->packing = fx->as.resize.share.packing;
	a->attempt = fx->as.resize.attempt;
	return a;
}

static void
resize_tried(struct espl__real *real, struct espl__rgang *gang, int met)
{
	struct espl__rasked *asked = gang->asked;

	ESPL__CHECK(gang, RGANG);
	ESPL__ASSERT(asked != NULL && gang->resize == ESPL__PREPARING);
	if (!met) { /* the gang goes on as it is */
		espl__real_resize_off(real, gang);
		return;
	}
	gang->asked = NULL;
	begin_change(real, gang, asked);
	free(asked->slots);
	free(asked->values);
	free(asked);
}

static const struct espl__reach_then then = { resize_tried, first_rank };

void
espl__real_resize(struct espl__real *real, const struct espl__effect *fx)
{
	struct espl__rgang *gang = espl__real_gang(real, fx->as.resize.gang);

	if (gang == NULL || gang->killed || gang->broken != NULL || gang->directive != 0 ||
	    gang->resize != ESPL__STEADY)
		return; /* its end is on the way */
	gang->resize = ESPL__PREPARING;
	gang->asked = keep_asked(gang, fx);
	if (needs_network(gang, gang->asked))
		espl__real_reach_gang(real, gang, gang->asked->slots, gang->asked->count, &then);
	else
		resize_tried(real, gang, 1);
}

/* ---- what becomes of it ---- */

static void
commit(struct espl__real *real, struct espl__rgang *gang, uint64_t budget)
{
	char text[64];

	gang->resize = ESPL__CHANGING;
	(void)snprintf(text, sizeof text,
	    budget > 0 ? "resize %" PRIu32 " %" PRIu64 : "resize %" PRIu32, gang->generation,
	    budget);
	espl__real_send_line(real, gang, text);
}

static void
tried_again(struct espl__real *real, struct espl__rgang *gang, int met)
{
	uint64_t budget = gang->granted;

	ESPL__CHECK(gang, RGANG);
	ESPL__ASSERT(gang->confirming && gang->resize == ESPL__PREPARING);
	gang->confirming = 0;
	gang->waiting = 0;
	if (met) {
		commit(real, gang, budget);
	} else {
		espl__real_resize_off(real, gang);
		espl__real_send_reply(real, gang, ESPL__CONTINUE, budget);
	}
	espl__real_lines_held(real, gang);
}

static uint32_t
first_coming(const struct espl__rgang *gang, uint64_t lease)
{
	uint32_t r = 0;

	ESPL__CHECK(gang, RGANG);
	while (r < gang->coming_world && gang->coming[r].slot.node != lease)
		r++;
	return r < gang->coming_world ? r : 0; /* it leaves: the old rank 0 */
}

/* Its report is answered when the nodes have tried; 0: the ranks meet on one. */
static int
try_again(struct espl__real *real, struct espl__rgang *gang, uint64_t budget)
{
	static const struct espl__reach_then again = { tried_again, first_coming };
	struct espl_slot *slots = espl__alloc((gang->coming_world + 1) * sizeof *slots);
	int wide = 0;

	for (uint32_t r = 0; r < gang->coming_world; r++) {
		slots[r] = gang->coming[r].slot;
		wide |= slots[r].node != gang->members[0].slot.node;
	}
	if (wide) {
		gang->confirming = gang->waiting = 1;
		gang->granted = budget;
		espl__real_reach_gang(real, gang, slots, gang->coming_world, &again);
	}
	free(slots);
	return wide;
}

int
espl__real_resize_now(struct espl__real *real, struct espl__rgang *gang, uint64_t budget)
{
	ESPL__CHECK(gang, RGANG);
	if (gang->resize != ESPL__PREPARING || gang->asked != NULL || gang->expected > 0)
		return 0;
	/* one that has lost a node is about to end */
	if (gang->lost || !try_again(real, gang, budget))
		commit(real, gang, budget);
	return 1;
}

void
espl__real_resize_off(struct espl__real *real, struct espl__rgang *gang)
{
	struct espl__buf payload = { NULL, 0, 0 };

	ESPL__CHECK(gang, RGANG);
	if (gang->resize != ESPL__PREPARING)
		return;
	gang->resize = ESPL__STEADY;
	if (gang->asked != NULL) { /* nothing was changed yet */
		espl__real_reach_drop(real, gang->id);
		espl__real_asked_free(gang);
		return;
	}
	if (gang->confirming)
		espl__real_reach_drop(real, gang->id);
	gang->confirming = 0;
	free(gang->coming);
	gang->coming = NULL;
	for (uint32_t p = 0; p < gang->part_count; p++) {
		struct espl__part *part = &gang->parts[p];
		struct espl__ragent *agent = espl__real_part_agent(real, part);
		int comes = part->wing == (gang->id | (uint64_t)gang->generation << 40);
		struct espl__rank_slots none = { .gang = part->wing };

		if (part->ended || agent == NULL)
			continue;
		part->leaves = 0;
		part->off = comes;
		espl__buf_clear(&payload);
		if (comes) {
			espl__put_v64(&payload, part->wing);
			espl__put_v64(&payload, 0);
			espl__agent_send(agent, ESPL__MSG_KILL, &payload);
		} else {
			espl__rank_slots_put(&none, &payload);
			espl__agent_send(agent, ESPL__MSG_SLOTS, &payload);
		}
	}
	espl__buf_free(&payload);
}

static void
done_when_all_left(struct espl__real *real, struct espl__rgang *gang)
{
	struct espl__event *event;

	if (!gang->changed)
		return;
	for (uint32_t p = 0; p < gang->part_count; p++)
		if (gang->parts[p].leaves > 0)
			return;
	gang->resize = ESPL__STEADY;
	gang->changed = 0;
	event = espl__real_event(real, ESPL__EV_RESIZED);
	event->as.resized.gang = gang->id;
	event->as.resized.took = gang->took;
	espl__real_lines_held(real, gang);
}

void
espl__real_resize_left(struct espl__real *real, struct espl__rgang *gang, struct espl__part *part)
{
	part->live -= part->leaves;
	part->leaves = 0;
	done_when_all_left(real, gang);
}

int
espl__real_resize_line(struct espl__real *real, struct espl__rgang *gang, const char *text,
    size_t size)
{
	char line[200];
	uint32_t generation, port;
	int64_t took;

	ESPL__CHECK(gang, RGANG);
	if (gang->generation == 0 || size >= sizeof line)
		return 0;
	memcpy(line, text, size);
	line[size] = '\0';
	if (sscanf(line, "{\"ready\": %" SCNu32 "}", &generation) == 1) {
		if (generation == gang->generation && gang->resize == ESPL__PREPARING &&
		    gang->expected > 0)
			gang->expected--;
		return 1;
	}
	if (sscanf(line, "{\"resized\": %" SCNu32 ", \"port\": %" SCNu32 ", \"took\": %" SCNd64 "}",
		&generation, &port, &took) != 3)
		return 0;
	if (generation != gang->generation || gang->resize != ESPL__CHANGING ||
	    gang->coming == NULL)
		return 1;
	gang->port = port;
	gang->took = took;
	gang->changed = 1;
	free(gang->members);
	gang->members = gang->coming;
	gang->coming = NULL;
	gang->world = gang->coming_world;
	done_when_all_left(real, gang);
	return 1;
}
