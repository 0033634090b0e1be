/* real_state.c - what all parts of the real world share: the events for the executor, the clock,
 * and the tables of leases and gangs.
 */
#include "base/assert.h"
#include "real/real.h"
#include <inttypes.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/tick.h"
#include "plugin/instance.h"

struct espl__event *
espl__real_event(struct espl__real *real, enum espl__event_type type)
{
	ESPL__CHECK(real, REAL);
	return espl__batch_add(&real->batch[real->filling], type);
}

struct espl__arena *
espl__real_arena(struct espl__real *real)
{
	ESPL__CHECK(real, REAL);
	return &real->batch[real->filling].arena;
}

espl_time
espl__real_clock(const struct espl__real *real)
{
	ESPL__CHECK(real, REAL);
	return real->base + (espl__tick() - real->base_tick);
}

void
espl__real_enter(struct espl__real *real)
{
	ESPL__CHECK(real, REAL);
	if (real->begun)
		real->env_now = espl__real_clock(real);
	real->about.gpus_min = espl__exec_gpus_min(real->world.exec);
}

struct espl__rlease *
espl__real_lease(const struct espl__real *real, uint64_t id)
{
	uint32_t low = 0, high = real->lease_count;

	ESPL__CHECK(real, REAL);
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (real->leases[mid]->id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < real->lease_count && real->leases[low]->id == id ? real->leases[low] : NULL;
}

void
espl__real_lease_view(const struct espl__rlease *lease, struct espl_lease *view)
{
	ESPL__CHECK(lease, RLEASE);
	memset(view, 0, sizeof *view);
	view->size = (uint32_t)sizeof *view;
	view->state = lease->cloud != 0 ? lease->cloud : ESPL_NODE_REQUESTED;
	view->lease = lease->id;
	view->token = lease->token;
	view->offer = lease->offer_name;
	view->market = lease->market;
	view->provider_id = lease->provider_id;
	view->address = lease->address;
	view->detail = lease->detail;
}

void
espl__real_key(const struct espl__real *real, const char *what, uint64_t number,
    uint8_t key[ESPL__GANG_KEY])
{
	struct hmac_sha256_ctx ctx;
	char text[40];

	ESPL__CHECK(real, REAL);
	(void)snprintf(text, sizeof text, "%s %" PRIu64, what, number);
	hmac_sha256_set_key(&ctx, sizeof real->secret, real->secret);
	hmac_sha256_update(&ctx, strlen(text), (const uint8_t *)text);
	hmac_sha256_digest(&ctx, ESPL__GANG_KEY, key);
}

struct espl__rgang *
espl__real_gang(const struct espl__real *real, uint64_t id)
{
	ESPL__CHECK(real, REAL);
	return espl__map_get(&real->gang_map, id);
}

struct espl__ragent *
espl__real_part_agent(const struct espl__real *real, const struct espl__part *part)
{
	struct espl__rlease *lease = espl__real_lease(real, part->lease);

	if (lease == NULL || lease->agent == NULL || lease->agent->state >= ESPL__AGENT_CLOSING)
		return NULL;
	return lease->agent;
}

int
espl__real_gang_is_on(const struct espl__rgang *gang, uint64_t lease)
{
	ESPL__CHECK(gang, RGANG);
	for (uint32_t p = 0; p < gang->part_count; p++)
		if (gang->parts[p].lease == lease && !gang->parts[p].ended)
			return 1;
	return 0;
}

int
espl__real_gang_unreachable(const struct espl__real *real, const struct espl__rgang *gang)
{
	ESPL__CHECK(gang, RGANG);
	for (uint32_t p = 0; p < gang->part_count; p++) {
		const struct espl__ragent *agent = espl__real_part_agent(real, &gang->parts[p]);

		if (agent != NULL && agent->lost_at != 0)
			return 1;
	}
	return 0;
}

void
espl__real_plan_free(struct espl__rgang *gang)
{
	ESPL__CHECK(gang, RGANG);
	if (gang->plan == NULL)
		return;
	espl__buf_free(&gang->plan->params);
	free(gang->plan->ranks);
	free(gang->plan);
	gang->plan = NULL;
}

void
espl__real_asked_free(struct espl__rgang *gang)
{
	ESPL__CHECK(gang, RGANG);
	if (gang->asked == NULL)
		return;
	free(gang->asked->slots);
	free(gang->asked->values);
	free(gang->asked);
	gang->asked = NULL;
}

void
espl__real_gang_free(struct espl__real *real, struct espl__rgang *gang)
{
	uint32_t i;

	ESPL__CHECK(real, REAL);
	(void)espl__map_remove(&real->gang_map, gang->id);
	for (i = 0; i < gang->part_count; i++)
		(void)espl__map_remove(&real->gang_map, gang->parts[i].wing);
	if (gang->prev != NULL)
		gang->prev->next = gang->next;
	else
		real->gangs = gang->next;
	if (gang->next != NULL)
		gang->next->prev = gang->prev;
	espl__real_plan_free(gang);
	espl__real_asked_free(gang);
	for (i = 0; i < gang->end_count; i++) {
		free(gang->ends[i].text);
		free(gang->ends[i].said);
	}
	free(gang->ends);
	free(gang->parts);
	free(gang->members);
	free(gang->coming);
	free(gang->broken);
	espl__buf_free(&gang->held);
	gang->magic = 0;
	free(gang);
}
