/* fleet.c - nodes and occupants; every public number is recomputed where an occupant changes.
 *
 * Cost: O(packing) per change of an occupant, O(GPUs of the node) per state change, O(nodes) to
 * rebuild the list.
 */
#include "model/fleet.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "model/profile.h"

void
espl__fleet_init(struct espl__fleet *f)
{
	memset(f, 0, sizeof *f);
	espl__pool_init(&f->nodes, sizeof(struct espl__machine *));
}

static void
node_free(struct espl__machine *n)
{
	for (uint32_t i = 0; i < n->seen; i++)
		free(n->gpus[i].occupants);
	free(n->gpus);
	free(n->gpu_list);
	n->magic = 0;
	free(n);
}

void
espl__fleet_free(struct espl__fleet *f)
{
	for (uint64_t i = 0; i < f->nodes.count; i++)
		node_free(*(struct espl__machine **)espl__pool_at(&f->nodes, i));
	espl__pool_free(&f->nodes);
	espl__arena_free(&f->arena);
	free(f->offers);
	free(f->targets);
	free(f->lost);
	free(f->target_price);
	free(f->live);
	free(f->placeable);
}

static const struct espl_latency *
keep_latency(struct espl__fleet *f, const struct espl_latency *latency)
{
	struct espl_latency *copy;

	if (latency == NULL)
		return NULL;
	copy = espl__arena_alloc(&f->arena, sizeof *copy);
	*copy = *latency;
	if (latency->sample_count > 0) {
		double *samples =
		    espl__arena_alloc(&f->arena, latency->sample_count * sizeof *samples);
		memcpy(samples, latency->samples_s, latency->sample_count * sizeof *samples);
		copy->samples_s = samples;
	}
	return copy;
}

uint32_t
espl__fleet_offer(struct espl__fleet *f, const struct espl_offer *offer)
{
	const char *name = offer->name != NULL ? offer->name : "";
	const char *market = offer->market != NULL ? offer->market : "";
	struct espl_offer *kept = NULL;
	uint32_t number;

	for (number = 0; number < f->offer_count; number++)
		if (strcmp(f->offers[number]->name, name) == 0 &&
		    strcmp(f->offers[number]->market, market) == 0) {
			kept = f->offers[number];
			break;
		}
	if (kept == NULL) {
		ESPL__GROW(f->offers, f->offer_cap, f->offer_count + 1);
		ESPL__GROW(f->targets, f->target_cap, f->offer_count + 1);
		ESPL__GROW(f->lost, f->lost_cap, f->offer_count + 1);
		ESPL__GROW(f->target_price, f->price_cap, f->offer_count + 1);
		kept = espl__arena_alloc(&f->arena, sizeof *kept);
		f->targets[f->offer_count] = f->lost[f->offer_count] = 0;
		f->target_price[f->offer_count] = 0;
		f->offers[f->offer_count++] = kept;
	}
	*kept = *offer;
	kept->number = number;
	kept->name = espl__arena_strdup(&f->arena, name);
	kept->market = espl__arena_strdup(&f->arena, market);
	kept->gpu_type =
	    espl__arena_strdup(&f->arena, offer->gpu_type != NULL ? offer->gpu_type : "");
	kept->zone = espl__arena_strdup(&f->arena, offer->zone != NULL ? offer->zone : "");
	kept->provision = keep_latency(f, offer->provision);
	kept->init = keep_latency(f, offer->init);
	return number;
}

static int
is_placeable(const struct espl__machine *n)
{
	return n->pub.state == ESPL_NODE_READY || n->pub.state == ESPL_NODE_NOTICE;
}

static int
is_usable(const struct espl__machine *n)
{
	return n->pub.state == ESPL_NODE_READY &&
	    (n->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) == 0;
}

/* Takes the node's part out of the totals (sign -1) or puts it in (+1). */
static void
adjust_totals(struct espl__fleet *f, struct espl__machine *n, int sign)
{
	uint32_t idle = 0, open = 0, good;

	for (uint32_t i = 0; i < n->pub.gpu_count; i++) {
		idle += n->gpus[i].occupant_count == 0 && !n->gpus[i].pub.blocked;
		open += !n->gpus[i].pub.blocked;
	}
	good = (n->pub.flags & ESPL_NODE_QUARANTINED) != 0 ? 0 : open;
	if ((n->pub.flags & ESPL_NODE_UNREACHABLE) != 0) { /* only its gangs count */
		open -= idle;
		idle = 0;
	}
	n->pub.gpus_idle = is_usable(n) ? idle : 0;
	if (is_usable(n)) {
		f->gpus += (uint32_t)sign * open;
		f->gpus_idle += (uint32_t)sign * idle;
	}
	if (is_placeable(n))
		f->gpus_held += (uint32_t)sign * n->pub.gpu_count;
	if (n->live && (n->pub.flags & ESPL_NODE_RETIRING) != 0)
		f->retiring += (uint32_t)sign;
	else if (n->live && good < n->offered)
		f->lost[n->stands_for] += (uint32_t)sign * (n->offered - good);
}

static void
list_anew(struct espl__fleet *f)
{
	uint32_t live = 0, ready = 0;

	for (uint32_t i = 0; i < f->live_count; i++) {
		struct espl__machine *n = espl__machine_at(f, f->live[i]->id);
		if (!n->live)
			continue;
		f->live[live++] = &n->pub;
		if (is_placeable(n)) {
			ESPL__GROW(f->placeable, f->placeable_cap, ready + 1);
			f->placeable[ready++] = &n->pub;
		}
	}
	f->live_count = live;
	f->placeable_count = ready;
}

static void
make_gpus(struct espl__machine *n, uint32_t count)
{
	if (count > n->seen) {
		n->gpus = espl__realloc(n->gpus, count, sizeof *n->gpus);
		n->gpu_list = espl__realloc(n->gpu_list, count, sizeof *n->gpu_list);
		memset(n->gpus + n->seen, 0, (count - n->seen) * sizeof *n->gpus);
		n->seen = count;
	}
	for (uint32_t i = 0; i < n->seen; i++) {
		n->gpus[i].pub.size = (uint32_t)sizeof n->gpus[i].pub;
		n->gpu_list[i] = &n->gpus[i].pub;
	}
	n->pub.gpu_count = count;
	n->pub.gpus = n->gpu_list;
}

void
espl__machine_forgive(struct espl__machine *n, uint64_t reports)
{
	uint32_t left = 0, elsewhere = 0;

	for (uint32_t i = 0; i < ESPL__MACHINE_FAILED && n->failed[i] != ESPL_NONE; i++) {
		if (n->failed_reports[i] < reports)
			continue;
		n->failed[left] = n->failed[i];
		n->failed_reports[left] = n->failed_reports[i];
		elsewhere |= ((n->elsewhere >> i) & 1) << left++;
	}
	while (left < ESPL__MACHINE_FAILED)
		n->failed[left++] = ESPL_NONE;
	n->elsewhere = elsewhere;
}

struct espl__machine *
espl__machine_lease(struct espl__fleet *f, uint32_t offer, espl_money max_price_hour)
{
	struct espl__machine **place = espl__pool_add(&f->nodes);
	struct espl__machine *n = espl__alloc(sizeof *n);

	n->magic = ESPL__MACHINE_MAGIC;
	ESPL__ASSERT(offer < f->offer_count);
	*place = n;
	n->live = 1;
	for (uint32_t i = 0; i < ESPL__MACHINE_FAILED; i++)
		n->failed[i] = ESPL_NONE;
	n->pub.size = (uint32_t)sizeof n->pub;
	n->pub.state = ESPL_NODE_REQUESTED;
	n->pub.id = f->nodes.count - 1;
	n->pub.offer = n->stands_for = offer;
	n->pub.owner = n->suspect = ESPL_NONE;
	n->pub.ready_at = ESPL_NEVER;
	n->pub.billed_from = ESPL_NEVER;
	n->pub.ends_at = ESPL_NEVER;
	n->pub.max_price_hour = max_price_hour;
	make_gpus(n, f->offers[offer]->gpus);
	n->offered = n->pub.gpu_count;
	ESPL__GROW(f->live, f->live_cap, f->live_count + 1);
	f->live[f->live_count++] = &n->pub;
	return n;
}

struct espl__machine *
espl__machine_at(const struct espl__fleet *f, uint64_t lease)
{
	return lease < f->nodes.count ? *(struct espl__machine **)espl__pool_at(&f->nodes, lease)
				      : NULL;
}

const char *
espl__node_state_word(espl_node_state state)
{
	static const char *const words[] = { "unknown", "requested", "booting", "ready", "notice",
		"ended" };

	return words[state <= ESPL_NODE_ENDED ? state : 0];
}

void
espl__machine_state(struct espl__fleet *f, struct espl__machine *n, espl_node_state state,
    uint32_t gpus)
{
	ESPL__CHECK(n, MACHINE);
	ESPL__ASSERT(n->live);
	adjust_totals(f, n, -1);
	if (state == ESPL_NODE_READY && gpus != ESPL_ANY && gpus != n->pub.gpu_count) {
		ESPL__ASSERT(n->occupants == 0);
		make_gpus(n, gpus);
	}
	if (state == ESPL_NODE_BOOTING || state == ESPL_NODE_REQUESTED)
		ESPL__ASSERT(n->occupants == 0);
	for (uint32_t i = 0; state == ESPL_NODE_BOOTING && i < n->seen; i++)
		n->gpus[i].pub.blocked = 0;
	n->pub.state = state;
	if (state == ESPL_NODE_ENDED)
		n->live = 0;
	adjust_totals(f, n, 1);
	list_anew(f);
}

void
espl__machine_flag(struct espl__fleet *f, struct espl__machine *n, uint32_t set, uint32_t clear)
{
	ESPL__CHECK(n, MACHINE);
	adjust_totals(f, n, -1);
	n->pub.flags = (n->pub.flags & ~clear) | set;
	adjust_totals(f, n, 1);
}

void
espl__fleet_block(struct espl__fleet *f, struct espl__machine *n, uint32_t gpu)
{
	ESPL__CHECK(n, MACHINE);
	ESPL__ASSERT(n->live && gpu < n->pub.gpu_count);
	adjust_totals(f, n, -1);
	n->gpus[gpu].pub.blocked = 1;
	adjust_totals(f, n, 1);
}

uint32_t
espl__fleet_nodes(const struct espl__fleet *f, uint32_t offer, int retiring_too)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->live_count; i++) {
		const struct espl__machine *node = espl__machine_at(f, f->live[i]->id);
		if (node->stands_for == offer &&
		    (retiring_too ||
			(!node->releasing && (node->pub.flags & ESPL_NODE_RETIRING) == 0)))
			n++;
	}
	return n;
}

uint32_t
espl__fleet_leased(const struct espl__fleet *f, uint32_t offer)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->live_count; i++)
		n += f->live[i]->offer == offer;
	return n;
}

void
espl__machine_stand(struct espl__fleet *f, struct espl__machine *n, uint32_t offer)
{
	ESPL__CHECK(n, MACHINE);
	ESPL__ASSERT(offer < f->offer_count);
	adjust_totals(f, n, -1);
	n->stands_for = offer;
	adjust_totals(f, n, 1);
}

struct espl__gpu *
espl__gpu_at(const struct espl__fleet *f, const struct espl_slot *slot, struct espl__machine **node)
{
	struct espl__machine *n = espl__machine_at(f, slot->node);

	if (node != NULL)
		*node = n;
	return n != NULL && slot->gpu < n->pub.gpu_count ? &n->gpus[slot->gpu] : NULL;
}

int
espl__gpu_fits(const struct espl__gpu *g, const void *owner, uint32_t packing, int held)
{
	uint32_t others = 0;

	if (g->pub.blocked)
		return 0;
	for (uint32_t i = 0; i < g->occupant_count; i++) {
		const struct espl__occupant *o = &g->occupants[i];

		if (o->owner == owner || !(held ? o->held : o->reserved))
			continue;
		if ((held ? o->held_packing : o->packing) != packing)
			return 0;
		others++;
	}
	return others < packing;
}

uint32_t
espl__gpu_reserved(const struct espl__gpu *g, uint32_t *packing)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < g->occupant_count; i++)
		if (g->occupants[i].reserved) {
			*packing = g->occupants[i].packing;
			count++;
		}
	return count;
}

int
espl__gpu_is_wanted(const struct espl__gpu *g, const void *owner)
{
	for (uint32_t i = 0; i < g->occupant_count; i++)
		if (g->occupants[i].owner != owner && g->occupants[i].reserved)
			return 1;
	return 0;
}

static void
gpu_public(struct espl__gpu *g)
{
	uint32_t held = 0;

	g->pub.residents = g->occupant_count;
	g->pub.packing = g->occupant_count > 0
	    ? g->occupants[0].held ? g->occupants[0].held_packing : g->occupants[0].packing
	    : 0;
	for (uint32_t i = 0; i < g->occupant_count; i++) {
		held += g->occupants[i].held;
		if (g->occupants[i].reserved)
			g->pub.packing = g->occupants[i].packing;
	}
	for (uint32_t i = 0; i < g->occupant_count; i++)
		if (g->occupants[i].held)
			ESPL__ASSERT(held <= g->occupants[i].held_packing);
}

void
espl__gpu_occupy(struct espl__fleet *f, const struct espl_slot *slot, const void *owner, int held,
    int reserved)
{
	struct espl__machine *n;
	struct espl__gpu *g = espl__gpu_at(f, slot, &n);
	struct espl__occupant *occupant = NULL;

	ESPL__ASSERT(g != NULL && n->live);
	adjust_totals(f, n, -1);
	for (uint32_t i = 0; i < g->occupant_count; i++)
		if (g->occupants[i].owner == owner)
			occupant = &g->occupants[i];
	if (occupant == NULL) {
		ESPL__GROW(g->occupants, g->occupant_cap, g->occupant_count + 1);
		occupant = &g->occupants[g->occupant_count++];
		memset(occupant, 0, sizeof *occupant);
		occupant->owner = owner;
		n->occupants++;
	}
	if (held)
		occupant->held_packing = slot->packing;
	if (reserved)
		occupant->packing = slot->packing;
	occupant->held |= (uint8_t)(held != 0);
	n->used |= occupant->held;
	occupant->reserved |= (uint8_t)(reserved != 0);
	gpu_public(g);
	adjust_totals(f, n, 1);
}

void
espl__gpu_vacate(struct espl__fleet *f, const struct espl_slot *slot, const void *owner, int held,
    int reserved)
{
	struct espl__machine *n;
	struct espl__gpu *g = espl__gpu_at(f, slot, &n);

	ESPL__ASSERT(g != NULL);
	for (uint32_t i = 0; i < g->occupant_count; i++) {
		struct espl__occupant *occupant = &g->occupants[i];
		if (occupant->owner != owner)
			continue;
		if (n->live)
			adjust_totals(f, n, -1);
		if (held)
			occupant->held = 0;
		if (reserved)
			occupant->reserved = 0;
		if (!occupant->held && !occupant->reserved) {
			*occupant = g->occupants[--g->occupant_count];
			n->occupants--;
		}
		gpu_public(g);
		if (n->live)
			adjust_totals(f, n, 1);
		return;
	}
}

double
espl__offer_wait_s(const struct espl_offer *offer, double most)
{
	double wait = most;

	if (offer->provision != NULL && offer->init != NULL)
		wait = espl__latency_mean(offer->provision) + espl__latency_mean(offer->init);
	return wait < most ? wait : most;
}
