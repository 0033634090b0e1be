/* real_reach.c - can machines reach each other?  Ranks of one trial on several machines must.
 *
 * It is tried when a machine joins, from there to the first that is in use, where trials may span
 * machines; and by agents before they launch ranks that meet elsewhere.  Either way the executor is
 * told that they cannot, and keeps trials within machines from then on.
 */
#include "base/assert.h"
#include "real/real.h"
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Numbers of tries, among those of gangs, whose first bits are not used: the two leases. */
#define TRY (UINT64_C(1) << 63)
#define LEASES (UINT64_C(1) << 31)

int
espl__real_reach_is_try(uint64_t number)
{
	return (number & TRY) != 0;
}

static struct espl__rlease *
door_of(const struct espl__real *real, uint64_t number)
{
	return espl__real_lease(real, (number & ~TRY) % LEASES);
}

static struct espl__rlease *
joiner_of(const struct espl__real *real, uint64_t number)
{
	return espl__real_lease(real, (number & ~TRY) / LEASES);
}

static int
answers(const struct espl__rlease *lease)
{
	return lease != NULL && !lease->ended && !lease->releasing && lease->agent != NULL &&
	    lease->agent->state == ESPL__AGENT_READY && lease->lost_at == 0;
}

static const char *
name_node(const struct espl__rlease *lease, char name[160])
{
	const char *host = lease->machine != NULL ? lease->machine : lease->provider_id;

	(void)snprintf(name, 160, host != NULL ? "node %llu (%.100s)" : "node %llu",
	    (unsigned long long)lease->id, host);
	return name;
}

static void
tell_no_route(struct espl__real *real, const struct espl__rlease *lease, uint64_t gang,
    const char *who, const struct espl__rlease *door, const char *where)
{
	struct espl__event *event = espl__real_event(real, ESPL__EV_NO_ROUTE);
	char text[600], from[160], to[160];

	(void)snprintf(text, sizeof text, "%s%s cannot reach %s at %.200s", who,
	    name_node(lease, from), name_node(door, to), where);
	event->as.no_route.lease = lease->id;
	event->as.no_route.gang = gang;
	event->as.no_route.text = espl__arena_strdup(espl__real_arena(real), text);
}

/* ---- a machine joins ---------------------------------------------------------------------- */

void
espl__real_reach_join(struct espl__real *real, struct espl__rlease *lease)
{
	struct espl__buf payload = { NULL, 0, 0 };

	ESPL__CHECK(real, REAL);
	ESPL__CHECK(lease, RLEASE);
	if (lease->door != 0 || lease->id >= LEASES || !espl__exec_spans(real->world.exec))
		return;
	for (uint32_t i = 0; i < real->lease_count; i++) {
		struct espl__rlease *door = real->leases[i];

		if (door == lease || !answers(door) || door->id >= LEASES)
			continue;
		lease->door = TRY | (lease->id * LEASES + door->id);
		espl__put_v64(&payload, lease->door);
		espl__agent_send(door->agent, ESPL__MSG_RESERVE, &payload);
		espl__buf_free(&payload);
		return;
	}
}

static void
close_door(struct espl__real *real, uint64_t number)
{
	struct espl__rlease *door = door_of(real, number);
	struct espl__buf payload = { NULL, 0, 0 };

	if (!answers(door))
		return;
	espl__put_v64(&payload, number);
	espl__put_v64(&payload, 0);
	espl__agent_send(door->agent, ESPL__MSG_KILL, &payload);
	espl__buf_free(&payload);
}

/* The door is open at this port. */
static void
try_door(struct espl__real *real, uint64_t number, uint32_t port)
{
	struct espl__rlease *lease = joiner_of(real, number), *door = door_of(real, number);
	struct espl__buf payload = { NULL, 0, 0 };

	if (!answers(lease) || lease->door != number || port == 0) {
		close_door(real, number);
		return;
	}
	espl__put_v64(&payload, number);
	espl__put_str(&payload,
	    door->address != NULL && door->address[0] != '\0' ? door->address : "127.0.0.1");
	espl__put_u32(&payload, port);
	espl__agent_send(lease->agent, ESPL__MSG_TRY, &payload);
	espl__buf_free(&payload);
}

int
espl__real_reach_message(struct espl__real *real, struct espl__rlease *from, uint8_t type,
    uint64_t number, struct espl__reader *reader)
{
	char why[300], where[420];
	uint32_t port;

	ESPL__CHECK(from, RLEASE);
	if (type == ESPL__MSG_PORT && from == door_of(real, number)) {
		port = espl__get_u32(reader);
		if (reader->bad || port > UINT16_MAX)
			return -1;
		try_door(real, number, port);
		return 0;
	}
	if (type != ESPL__MSG_TRIED || from != joiner_of(real, number) || from->door != number)
		return 0; /* nobody waits for it any more */
	espl__get_str(reader, why, sizeof why);
	if (reader->bad)
		return -1;
	espl__clean_text(why);
	if (why[0] != '\0' && answers(door_of(real, number))) {
		const char *address = door_of(real, number)->address;

		(void)snprintf(where, sizeof where, "%.99s: %s",
		    address != NULL && address[0] != '\0' ? address : "127.0.0.1", why);
		tell_no_route(real, from, ESPL_NONE, "", door_of(real, number), where);
	}
	close_door(real, number);
	return 0;
}

void
espl__real_reach_gone(struct espl__real *real, struct espl__rlease *lease)
{
	ESPL__CHECK(lease, RLEASE);
	if (lease->door != 0)
		close_door(real, lease->door);
	lease->door = 0;
}

/* ---- ranks of a gang ---------------------------------------------------------------------- */

void
espl__real_reach_failed(struct espl__real *real, const struct espl__rgang *gang,
    const struct espl__rank_end *end)
{
	int resizes = gang->resize != ESPL__STEADY;
	const struct espl__part *first = &gang->parts[resizes ? gang->members[0].part : 0];
	const struct espl__rlease *lease = espl__real_lease(real, end->lease),
				  *door = espl__real_lease(real, first->lease);
	char who[40];

	ESPL__CHECK(gang, RGANG);
	if (lease == NULL || door == NULL)
		return;
	(void)snprintf(who, sizeof who, "rank %u on ", (unsigned)end->rank);
	tell_no_route(real, lease, resizes ? gang->id : ESPL_NONE, who, door,
	    end->text + strlen(ESPL__REACH_PREFIX));
}
