/* real_reach.c - can machines reach each other?  Ranks of one trial on several machines must, in
 * both directions.
 *
 * It is tried among the nodes of a gang before its ranks are started, before a resize begins and
 * before its ranks change; and, where trials may span machines, when one joins, between it and the
 * first that is in use.  Each node listens on a port, its door, and connects to the doors of the
 * other nodes.  If a connection fails, an event reports it to the executor, which keeps each trial
 * on one machine from then on.
 */
#include "base/assert.h"
#include "real/real.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"

/* Numbers of tries, among those of gangs, whose first bit is not used: then that of the driver. */
#define TRY (UINT64_C(1) << 63)
/* An agent that answers, but not this, is broken; tries themselves take 15 s. */
#define LIMIT (60 * ESPL__REAL_SECOND)

struct espl__rdoor {
	uint64_t lease;
	uint32_t port; /* 0: none could be opened */
	int opened, tried;
};
struct espl__rtry {
	struct espl__rtry *next;
	uint64_t number, word;
	uint64_t gang; /* ESPL_NONE: a machine joins, and `then` is NULL */
	const struct espl__reach_then *then;
	struct espl__rdoor *doors;
	uint32_t count, opened, tried;
	int64_t until; /* tick */
};

int
espl__real_reach_is_try(uint64_t number)
{
	return (number & TRY) != 0;
}

static struct espl__ragent *
agent_of(const struct espl__real *real, uint64_t lease)
{
	const struct espl__rlease *l = espl__real_lease(real, lease);

	return l != NULL && l->agent != NULL && l->agent->state < ESPL__AGENT_CLOSING ? l->agent
										      : NULL;
}

static const char *
address_of(const struct espl__real *real, uint64_t lease)
{
	const struct espl__rlease *l = espl__real_lease(real, lease);

	return l != NULL && l->address != NULL && l->address[0] != '\0' ? l->address : "127.0.0.1";
}

static const char *
name_node(const struct espl__real *real, uint64_t lease, char name[160])
{
	const struct espl__rlease *l = espl__real_lease(real, lease);
	const char *host = l == NULL ? NULL : l->machine != NULL ? l->machine : l->provider_id;

	(void)snprintf(name, 160, host != NULL ? "node %llu (%.100s)" : "node %llu",
	    (unsigned long long)lease, host);
	return name;
}

/* ---- a try -------------------------------------------------------------------------------- */

static struct espl__rtry *
find_try(const struct espl__real *real, uint64_t number)
{
	struct espl__rtry *t = real->tries;

	while (t != NULL && t->number != number)
		t = t->next;
	return t;
}

static struct espl__rdoor *
find_door(const struct espl__rtry *t, uint64_t lease)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (t->doors[i].lease == lease)
			return &t->doors[i];
	return NULL;
}

static struct espl__rtry *
new_try(struct espl__real *real, uint64_t gang)
{
	struct espl__rtry *t = espl__alloc(sizeof *t);
	uint8_t key[ESPL__GANG_KEY];

	t->number = TRY | (real->number & 0x7fffff) << 40 | ++real->tried;
	espl__real_key(real, "door", t->number, key);
	memcpy(&t->word, key, sizeof t->word);
	t->word |= 1; /* 0 is none */
	t->gang = gang;
	t->until = espl__tick() + LIMIT;
	t->next = real->tries;
	real->tries = t;
	return t;
}

static void
add_door(struct espl__rtry *t, uint64_t lease)
{
	t->doors = espl__realloc(t->doors, t->count + (size_t)1, sizeof *t->doors);
	t->doors[t->count++] = (struct espl__rdoor){ .lease = lease };
}

static void
begin_try(const struct espl__real *real, const struct espl__rtry *t)
{
	struct espl__buf payload = { NULL, 0, 0 };

	espl__put_v64(&payload, t->number);
	espl__put_u64(&payload, t->word);
	for (uint32_t i = 0; i < t->count; i++) {
		struct espl__ragent *agent = agent_of(real, t->doors[i].lease);

		if (agent != NULL) /* else: its end ends the try */
			espl__agent_send(agent, ESPL__MSG_RESERVE, &payload);
	}
	espl__buf_free(&payload);
}

/* Closes its doors and forgets it. */
static void
end_try(struct espl__real *real, struct espl__rtry *t)
{
	struct espl__buf payload = { NULL, 0, 0 };
	struct espl__rtry **at = &real->tries;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	espl__put_v64(&payload, t->number);
	espl__put_v64(&payload, 0);
	for (uint32_t i = 0; i < t->count; i++) {
		struct espl__ragent *agent = agent_of(real, t->doors[i].lease);

		if (agent != NULL)
			espl__agent_send(agent, ESPL__MSG_KILL, &payload);
	}
	espl__buf_free(&payload);
	free(t->doors);
	free(t);
}

/* The nodes of its gang reach each other, as far as is known; or they do not. */
static void
settle_try(struct espl__real *real, struct espl__rtry *t, int met)
{
	struct espl__rgang *gang = t->gang != ESPL_NONE ? espl__real_gang(real, t->gang) : NULL;

	const struct espl__reach_then *then = t->then;

	end_try(real, t);
	if (gang != NULL)
		then->tried(real, gang, met);
}

struct target {
	uint64_t lease, word; /* word 0: it sends none */
	uint32_t port;
};

/* What a node is asked to try, in this order: the doors of the others; then, in a resize, that of
 * rank 0, where new ranks join, and which answers nobody yet.  0: there are no more. */
static int
nth_target(const struct espl__real *real, const struct espl__rtry *t, uint64_t from, uint64_t index,
    struct target *to)
{
	const struct espl__rgang *gang =
	    t->gang != ESPL_NONE ? espl__real_gang(real, t->gang) : NULL;

	for (uint32_t i = 0; i < t->count; i++) {
		if (t->doors[i].lease == from || t->doors[i].port == 0 || index-- > 0)
			continue;
		*to = (struct target){ t->doors[i].lease, t->word, t->doors[i].port };
		return 1;
	}
	if (index > 0 || gang == NULL || (gang->asked == NULL && gang->coming == NULL) ||
	    gang->port == 0)
		return 0;
	*to = (struct target){ gang->parts[gang->members[0].part].lease, 0, gang->port };
	return to->lease != from;
}

/* All doors are open. */
static void
ask_to_try(const struct espl__real *real, const struct espl__rtry *t)
{
	struct espl__buf payload = { NULL, 0, 0 };

	for (uint32_t i = 0; i < t->count; i++) {
		uint64_t from = t->doors[i].lease, count = 0;
		struct espl__ragent *agent = agent_of(real, from);
		struct target to;

		while (nth_target(real, t, from, count, &to))
			count++;
		espl__buf_clear(&payload);
		espl__put_v64(&payload, t->number);
		espl__put_v64(&payload, count);
		for (uint64_t k = 0; nth_target(real, t, from, k, &to); k++) {
			espl__put_str(&payload, address_of(real, to.lease));
			espl__put_u32(&payload, to.port);
			espl__put_u64(&payload, to.word);
		}
		if (agent != NULL)
			espl__agent_send(agent, ESPL__MSG_TRY, &payload);
	}
	espl__buf_free(&payload);
}

static void
tell_no_route(struct espl__real *real, const struct espl__rtry *t, uint64_t from, uint64_t index,
    const char *why)
{
	const struct espl__rgang *gang =
	    t->gang != ESPL_NONE ? espl__real_gang(real, t->gang) : NULL;
	char text[600], who[40] = "", name[160], there[160];
	struct espl__event *event;
	struct target to;

	if (!nth_target(real, t, from, index, &to))
		return; /* it was not asked: the ranks will find out */
	if (gang != NULL)
		(void)snprintf(who, sizeof who, "rank %u on ", (unsigned)t->then->rank(gang, from));
	(void)snprintf(text, sizeof text, "%s%s cannot reach %s at %.99s:%u: %.150s", who,
	    name_node(real, from, name), name_node(real, to.lease, there),
	    address_of(real, to.lease), (unsigned)to.port, why);
	event = espl__real_event(real, ESPL__EV_NO_ROUTE);
	event->as.no_route.lease = from;
	event->as.no_route.gang = gang != NULL && gang->plan == NULL ? gang->id : ESPL_NONE;
	event->as.no_route.text = espl__arena_strdup(espl__real_arena(real), text);
}

int
espl__real_reach_message(struct espl__real *real, const struct espl__rlease *from, uint8_t type,
    uint64_t number, struct espl__reader *reader)
{
	struct espl__rtry *t = find_try(real, number);
	struct espl__rdoor *door = t != NULL ? find_door(t, from->id) : NULL;
	uint64_t index;
	char why[300];

	ESPL__CHECK(from, RLEASE);
	if (door == NULL)
		return 0; /* nobody waits for it any more */
	if (type == ESPL__MSG_PORT && !door->opened) {
		door->port = espl__get_u32(reader);
		if (reader->bad || door->port > UINT16_MAX)
			return -1;
		door->opened = 1;
		if (++t->opened == t->count)
			ask_to_try(real, t);
		return 0;
	}
	if (type != ESPL__MSG_TRIED || t->opened < t->count || door->tried)
		return 0;
	index = espl__get_v64(reader);
	espl__get_str(reader, why, sizeof why);
	if (reader->bad)
		return -1;
	door->tried = 1;
	espl__clean_text(why);
	if (why[0] != '\0') {
		tell_no_route(real, t, from->id, index, why);
		settle_try(real, t, 0);
	} else if (++t->tried == t->count) {
		settle_try(real, t, 1);
	}
	return 0;
}

/* ---- who tries ---------------------------------------------------------------------------- */

static int
answers(const struct espl__rlease *lease)
{
	return !lease->ended && !lease->releasing && lease->lost_at == 0 && lease->agent != NULL &&
	    lease->agent->state == ESPL__AGENT_READY;
}

void
espl__real_reach_join(struct espl__real *real, const struct espl__rlease *lease)
{
	ESPL__CHECK(real, REAL);
	ESPL__CHECK(lease, RLEASE);
	if (!espl__exec_spans(real->world.exec))
		return;
	for (uint32_t i = 0; i < real->lease_count; i++) {
		struct espl__rtry *t;

		if (real->leases[i] == lease || !answers(real->leases[i]))
			continue;
		t = new_try(real, ESPL_NONE);
		add_door(t, real->leases[i]->id);
		add_door(t, lease->id);
		begin_try(real, t);
		return;
	}
}

void
espl__real_reach_gang(struct espl__real *real, const struct espl__rgang *gang,
    const struct espl_slot *slots, uint32_t count, const struct espl__reach_then *then)
{
	struct espl__rtry *t = new_try(real, gang->id);

	ESPL__CHECK(real, REAL);
	t->then = then;
	for (uint32_t i = 0; i < count; i++)
		if (find_door(t, slots[i].node) == NULL)
			add_door(t, slots[i].node);
	/* In a resize it hands its state over to the new ranks. */
	if (gang->plan == NULL && find_door(t, gang->parts[gang->members[0].part].lease) == NULL)
		add_door(t, gang->parts[gang->members[0].part].lease);
	begin_try(real, t);
}

void
espl__real_reach_drop(struct espl__real *real, uint64_t gang)
{
	struct espl__rtry *t = real->tries, *next;

	ESPL__CHECK(real, REAL);
	for (; t != NULL; t = next) {
		next = t->next;
		if (t->gang == gang)
			end_try(real, t);
	}
}

void
espl__real_reach_gone(struct espl__real *real, const struct espl__rlease *lease)
{
	struct espl__rtry *t = real->tries;

	ESPL__CHECK(lease, RLEASE);
	while (t != NULL) {
		const struct espl__rgang *gang =
		    t->gang != ESPL_NONE ? espl__real_gang(real, t->gang) : NULL;

		if (find_door(t, lease->id) == NULL) {
			t = t->next;
			continue;
		}
		if (gang != NULL && gang->plan != NULL)
			end_try(real, t); /* the gang ends with its node */
		else
			settle_try(real, t, 1); /* a resize finds that the node is gone */
		t = real->tries;
	}
}

void
espl__real_reach_tick(struct espl__real *real, int64_t tick, int64_t since)
{
	ESPL__CHECK(real, REAL);
	for (struct espl__rtry *t = real->tries; t != NULL; t = t->next) {
		int away = 0;

		for (uint32_t i = 0; i < t->count; i++) {
			const struct espl__ragent *agent = agent_of(real, t->doors[i].lease);

			away |= agent != NULL && agent->lost_at != 0;
		}
		if (away)
			t->until += since;
		for (uint32_t i = 0; tick >= t->until && i < t->count; i++) {
			struct espl__ragent *agent = agent_of(real, t->doors[i].lease);

			if (agent != NULL && (!t->doors[i].opened || t->opened == t->count) &&
			    !t->doors[i].tried)
				espl__agent_break(agent,
				    "it did not say whether it reaches the other nodes of a trial");
		}
		if (tick >= t->until)
			t->until = tick + LIMIT;
	}
}

void
espl__real_reach_held(struct espl__real *real, int64_t late)
{
	ESPL__CHECK(real, REAL);
	for (struct espl__rtry *t = real->tries; t != NULL; t = t->next)
		t->until += late;
}

void
espl__real_reach_free(struct espl__real *real)
{
	ESPL__CHECK(real, REAL);
	while (real->tries != NULL) {
		struct espl__rtry *t = real->tries;

		real->tries = t->next;
		free(t->doors);
		free(t);
	}
}
