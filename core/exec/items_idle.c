/* items_idle.c - nothing is held idle while a trial that fits waits.
 *
 * Allocators and placers decide which trial runs where, and may be wrong about what there is: they
 * grant GPUs of nodes that are never delivered, or wait for nodes that do not come.  Whatever they
 * say, a trial that has waited for ESPL__IDLE_PAUSE beside idle slots that it could use is started
 * there: one with a grant on the widest part of it that fits (the grant stays, so that the trial
 * grows as soon as the placer finds room), one without a grant on the least that is legal.
 *
 * A function of the events alone, as everything in the executor: a replay does the same.
 */
#include "base/assert.h"
#include "base/text.h"
#include "model/profile.h"
#include "exec/effects.h"
#include "exec/items_idle.h"
#include "exec/items_inner.h"
#include "exec/items_tiers.h"

#define DUE_MOST 600.0 /* seconds that a plan may wait for a node, however slow its offer is */
/* If a re-plan comes at the end of the pause, it takes effect before trials are helped. */
#define PLAN_GRACE (5 * ESPL_SECOND)
#define HELPED_MOST 6u /* doublings of the pause, if its allocator takes back what it was given */

/* ---- what could be used ------------------------------------------------------------------- */

/* May the item's trial run on this node, and are slots free there? */
static uint32_t
count_idle(const struct espl__exec *x, const struct espl__item *item, const struct espl__machine *n)
{
	const struct espl_gang *view = &item->view;
	uint64_t owner = view->owner;

	/* without a grant it has no owner yet: its bracket's nodes are for it as well */
	if (item->pub.granted.gpus == 0 && n->pub.owner == (ESPL_OWNER_BRACKET | item->pub.bracket))
		owner = n->pub.owner;
	if (n->pub.state != ESPL_NODE_READY || n->pub.owner != owner || n->releasing ||
	    (n->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE)) !=
		0 ||
	    espl__item_shuns(x, item, n->pub.id) ||
	    (item->pub.granted.gpus > 0 && !espl__item_may_use(x, item, n->pub.offer)))
		return 0;
	return n->pub.gpus_idle;
}

/* The next idle GPUs of the node become slots; returns how many. */
static uint32_t
take_gpus(const struct espl__machine *n, uint32_t count, struct espl_slot *slots)
{
	uint32_t taken = 0;

	for (uint32_t i = 0; i < n->pub.gpu_count && taken < count; i++)
		if (n->gpus[i].occupant_count == 0 && !n->gpus[i].pub.blocked)
			slots[taken++] = (struct espl_slot){ n->pub.id, i, 1 };
	return taken;
}

static uint32_t
round_down(uint32_t gpus, uint32_t unit)
{
	return unit > 1 ? gpus - gpus % unit : gpus;
}

static uint32_t
find_least(const struct espl__item *item)
{
	uint32_t unit = item->pub.unit > 0 ? item->pub.unit : 1,
		 least = item->pub.gpus_min > 0 ? item->pub.gpus_min : 1;

	return least % unit == 0 ? least : least - least % unit + unit;
}

/* The node with the most idle GPUs for it, the oldest of several; one that the provider may soon
 * take back only if none is safer. */
static const struct espl__machine *
find_node(const struct espl__exec *x, const struct espl__item *item)
{
	const struct espl__machine *best = NULL;
	uint32_t most = 0;

	for (uint32_t i = 0; i < x->fleet.placeable_count; i++) {
		const struct espl__machine *n =
		    espl__machine_at(&x->fleet, x->fleet.placeable[i]->id);
		uint32_t idle = count_idle(x, item, n);
		int safer = best != NULL && (best->pub.flags & ESPL_NODE_AT_RISK) != 0 &&
		    (n->pub.flags & ESPL_NODE_AT_RISK) == 0;

		if (idle == 0 || (best != NULL && !safer && idle <= most))
			continue;
		if (best != NULL && !safer &&
		    (n->pub.flags & ~best->pub.flags & ESPL_NODE_AT_RISK) != 0)
			continue;
		best = n;
		most = idle;
	}
	return best;
}

/* GPUs over several nodes of one offer, of at most `most`: of whole idle nodes if the trial must
 * not straddle nodes.  slots: NULL, or where they go. */
static uint32_t
spread(const struct espl__exec *x, const struct espl__item *item, uint32_t offer, uint32_t most,
    struct espl_slot *slots)
{
	int whole = (item->pub.flags & ESPL_ITEM_COLOCATE) != 0;
	uint32_t gpus = 0, size = x->fleet.offers[offer]->gpus;

	for (uint32_t i = 0; i < x->fleet.placeable_count && gpus < most; i++) {
		const struct espl__machine *n =
		    espl__machine_at(&x->fleet, x->fleet.placeable[i]->id);
		uint32_t idle = count_idle(x, item, n), left = most - gpus;

		if (n->pub.offer != offer || idle == 0 ||
		    (whole && (idle != n->pub.gpu_count || idle != size || idle > left)))
			continue;
		if (idle > left)
			idle = left;
		gpus += slots != NULL ? take_gpus(n, idle, slots + gpus) : idle;
	}
	return gpus;
}

/* The widest legal place on idle slots, of at most `most` GPUs.  A trial that is meant for one
 * machine is not spread over several.  0: there is none. */
static uint32_t
find_place(struct espl__exec *x, const struct espl__item *item, uint32_t most,
    struct espl_slot **slots)
{
	const struct espl__machine *n = find_node(x, item);
	uint32_t unit = item->pub.unit, least = find_least(item), one = 0, gpus, size = 0;

	if (n == NULL || least > most)
		return 0;
	one = count_idle(x, item, n);
	one = round_down(one < most ? one : most, unit);
	*slots = espl__arena_alloc(&x->ops_arena, most * sizeof **slots);
	size = x->fleet.offers[n->pub.offer]->gpus;
	for (uint32_t o = 0; o < x->fleet.offer_count && (most > size || one < least); o++) {
		uint32_t wide =
		    !x->fleet.no_route && (item->pub.granted.gpus > size || least > size)
		    ? round_down(spread(x, item, o, most, NULL), unit)
		    : 0;

		if (wide <= one || wide < least)
			continue;
		gpus = spread(x, item, o, wide, *slots);
		return gpus == wide ? wide : 0;
	}
	return one >= least ? take_gpus(n, one, *slots) : 0;
}

/* A part of a GPU, for a trial that was granted one. */
static uint32_t
find_part(struct espl__exec *x, const struct espl__item *item, struct espl_slot **slots)
{
	uint32_t packing = item->pub.granted.packing;

	*slots = espl__arena_alloc(&x->ops_arena, sizeof **slots);
	for (uint32_t i = 0; i < x->fleet.placeable_count; i++) {
		const struct espl__machine *n =
		    espl__machine_at(&x->fleet, x->fleet.placeable[i]->id);

		if (count_idle(x, item, n) == 0)
			continue;
		if (take_gpus(n, 1, *slots) == 1) {
			(*slots)->packing = packing;
			return 1;
		}
	}
	return 0;
}

/* ---- who waits ---------------------------------------------------------------------------- */

/* Its trial has neither processes nor a place. */
static int
is_waiting(const struct espl__item *item)
{
	return item->trial != NULL && item->trial->gang == NULL && item->target_count == 0;
}

/* GPUs that this tier may still grant, by the limits of the user, of the experiment and of the
 * share that it divides. */
static uint64_t
room_of(const struct espl__exec *x, const struct espl__item *item)
{
	const struct espl__tier *tier = item->tier;
	const struct espl__search *s =
	    item->trial != NULL ? item->trial->search : item->whole->search;
	uint64_t used = espl__tier_gpus(tier), most = x->config->gpus_limit, room;

	if (tier->inner != NULL)
		most = espl__inner_share(tier->inner);
	else if (tier->gpus_most > 0 && tier->gpus_most < most)
		most = tier->gpus_most;
	room = used < most ? most - used : 0;
	if (x->config->pool && item->trial != NULL && s->config->gpus_limit != ESPL_ANY) {
		double left = s->config->gpus_limit - x->items.granted[s->number] + 1e-9;
		uint64_t whole = left >= 1 ? (uint64_t)left : 0;

		room = whole < room ? whole : room;
	}
	return room;
}

/* When the nodes that a plan waits for should be there; 0: it waits for none. */
static espl_time
find_due(const struct espl__exec *x)
{
	espl_time due = 1;

	if (x->config->pool || x->searches.list[0]->experiment.plan == NULL)
		return 0;
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		const struct espl_offer *offer = x->fleet.offers[n->pub.offer];
		espl_time then =
		    n->asked_at + (espl_span)(espl__offer_wait_s(offer, DUE_MOST) * 1e9);

		if (n->pub.state < ESPL_NODE_READY && (n->pub.flags & ESPL_NODE_RETIRING) == 0 &&
		    then > due)
			due = then;
	}
	return due;
}

/* From when on its pause counts. */
static espl_time
counts_from(const struct espl__item *item, espl_time due)
{
	if (due == 0)
		return item->stands_since;
	return (item->stands_since > due ? item->stands_since : due) + PLAN_GRACE;
}

static espl_time
act_at(const struct espl__item *item, espl_time due)
{
	espl_span pause = ESPL__IDLE_PAUSE
	    << (item->helped < HELPED_MOST ? item->helped : HELPED_MOST);

	if (item->pub.granted.gpus == 0 && item->helped == 0 && item->tier->helped)
		pause = 0;
	return counts_from(item, due) + pause;
}

/* ---- help --------------------------------------------------------------------------------- */

static void
settle_on(struct espl__exec *x, struct espl__item *item, const struct espl_slot *slots,
    uint32_t gpus)
{
	uint64_t trial = espl__trial_uid(item->trial);
	uint32_t granted = item->pub.granted.gpus;
	const struct espl__machine *n = espl__machine_at(&x->fleet, slots[0].node);

	if (granted == 0) {
		item->view.owner = n->pub.owner;
		item->helped += item->helped < HELPED_MOST;
		item->tier->helped = 1;
		espl__exec_note(x, ESPL_ABOUT_TRIAL, trial,
		    "starts on %u idle %s, which %s does not grant it", (unsigned)gpus,
		    espl__exec_unit(x, gpus), item->tier->allocator->who);
		espl__item_grant(x, item, (struct espl_share){ gpus, 1 }, ESPL_ANY);
		espl__item_changed(item, 0);
	} else if (gpus < granted) {
		int stays = (item->pub.flags & (ESPL_ITEM_NO_SAVE | ESPL_ITEM_INPLACE)) ==
		    ESPL_ITEM_NO_SAVE;

		espl__exec_note(x, ESPL_ABOUT_TRIAL, trial,
		    "starts on %u of the %u %s that it is granted: there are no more%s",
		    (unsigned)gpus, (unsigned)granted, espl__exec_unit(x, granted),
		    stays ? "" : ", and grows when there are");
		if (stays) /* to grow it would lose its work */
			espl__item_narrow(x, item, gpus);
	} else {
		espl__exec_note(x, ESPL_ABOUT_TRIAL, trial,
		    "starts on idle slots, for which %s finds no place", x->items.placer->who);
	}
	espl__item_target(x, item, slots, gpus);
	x->items.standing.started++;
}

/* What would have to come for its whole grant. */
static void
describe_missing(const struct espl__exec *x, char *text, size_t room)
{
	char span[32];

	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		if (n->pub.state >= ESPL_NODE_READY || (n->pub.flags & ESPL_NODE_RETIRING) != 0)
			continue;
		(void)snprintf(text, room, "node %llu, requested %s ago, is %s",
		    (unsigned long long)n->pub.id, espl__format_short(x->now - n->asked_at, span),
		    n->pub.state == ESPL_NODE_REQUESTED ? "not there yet" : "booting");
		return;
	}
	for (uint32_t i = 0; i < x->cluster.record_count; i++) {
		const struct espl__offer_record *r = &x->cluster.records[i];

		if (r->retry_at == ESPL_NEVER || r->retry_at <= x->now)
			continue;
		(void)snprintf(text, room, "offer '%.80s' has no more and is asked again in %s",
		    x->fleet.offers[i]->name, espl__format_short(r->retry_at - x->now, span));
		return;
	}
	(void)snprintf(text, room, "no other node is on its way");
}

static void
explain_wait(struct espl__exec *x, const struct espl__item *item)
{
	char missing[160];

	if (item->trial == NULL || item->pub.granted.gpus == 0)
		return;
	describe_missing(x, missing, sizeof missing);
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial),
	    "waits: it is granted %u %s, and %u are idle; %s", (unsigned)item->pub.granted.gpus,
	    espl__exec_unit(x, item->pub.granted.gpus), (unsigned)x->fleet.gpus_idle, missing);
}

/* It waits beside slots that it could use, as it did at the last look, or from now on. */
static void
stand(struct espl__exec *x, struct espl__item *item, espl_time due)
{
	struct espl__standing *s = &x->items.standing;
	espl_time since;

	if (item->stood_look + 1 != s->looks) {
		item->stands_since = x->now;
		explain_wait(x, item);
	}
	item->stood_look = s->looks;
	since = counts_from(item, due);
	if ((double)(x->now - since) / 1e9 > s->longest_s)
		s->longest_s = (double)(x->now - since) / 1e9;
}

/* Is it time for the item?  1: it stands, and not yet. */
static int
help_item(struct espl__exec *x, struct espl__item *item, uint32_t most, espl_time due)
{
	struct espl__standing *s = &x->items.standing;
	struct espl_slot *slots = NULL;
	uint32_t gpus = item->pub.granted.packing > 1 ? find_part(x, item, &slots)
						      : find_place(x, item, most, &slots);
	espl_time at;

	if (gpus == 0)
		return 0;
	stand(x, item, due);
	at = act_at(item, due);
	if (at > x->now || !espl__exec_follows(x, ESPL__RULES_SUPPLY)) {
		s->act_at = at < s->act_at ? at : s->act_at;
		return 1;
	}
	settle_on(x, item, slots, gpus);
	return 0;
}

/* Those that have been granted what is not there. */
static uint32_t
help_granted(struct espl__exec *x, espl_time due)
{
	uint32_t waiting = 0;

	for (uint32_t i = 0; i < x->items.gangs_count && x->items.unplaced > 0; i++) {
		struct espl__item *item = espl__item_of_gang(x->items.gangs_view[i]);

		if (is_waiting(item) && x->fleet.gpus_idle > waiting)
			waiting += (uint32_t)help_item(x, item, item->pub.granted.gpus, due);
	}
	return waiting;
}

/* A whole experiment of a pool without a share: it gets the least one, which its own allocator
 * then divides. */
static int
help_experiment(struct espl__exec *x, struct espl__item *item)
{
	espl_time at;

	if (item->pub.granted.gpus > 0 || item->pub.gpus_min > x->fleet.gpus_idle ||
	    item->pub.gpus_min > room_of(x, item))
		return 0;
	stand(x, item, 0);
	at = act_at(item, 0);
	if (at > x->now || !espl__exec_follows(x, ESPL__RULES_SUPPLY)) {
		x->items.standing.act_at =
		    at < x->items.standing.act_at ? at : x->items.standing.act_at;
		return 1;
	}
	item->helped += item->helped < HELPED_MOST;
	espl__exec_note(x, ESPL_ABOUT_RUN, 0,
	    "experiment '%s' gets %u idle %s, which %s does not grant it",
	    item->whole->search->config->name, (unsigned)item->pub.gpus_min,
	    espl__exec_unit(x, item->pub.gpus_min), item->tier->allocator->who);
	espl__item_grant(x, item, (struct espl_share){ item->pub.gpus_min, 1 }, ESPL_ANY);
	espl__item_changed(item, 0);
	item->whole->tier.wake_at = x->now;
	x->items.standing.started++;
	return 0;
}

/* Those that its allocator has granted nothing, in order of arrival.  Slots that are collected for
 * one that came earlier, and that the existing nodes can take, are not idle. */
static uint32_t
help_queue(struct espl__exec *x, struct espl__tier *tier, espl_time due)
{
	uint32_t waiting = 0;

	for (uint64_t i = tier->items_from;
	     i < tier->items_from + tier->items_count && x->fleet.gpus_idle > waiting; i++) {
		struct espl__item *item = (struct espl__item *)(uintptr_t)tier->items[i];
		uint32_t least = find_least(item);

		if (item->trial == NULL) {
			waiting += (uint32_t)help_experiment(x, item);
			continue;
		}
		if (!is_waiting(item) || least > x->fleet.gpus)
			continue;
		if (item->pub.granted.gpus > 0) { /* see help_granted */
			if (item->stood_look != x->items.standing.looks)
				break;
			continue;
		}
		if (least > room_of(x, item)) {
			if (item->trial->search->config->gpus_limit == ESPL_ANY)
				break;
			continue;
		}
		waiting += (uint32_t)help_item(x, item, least, due);
		if (item->target_count == 0 && item->stood_look != x->items.standing.looks)
			break;
	}
	return waiting;
}

/* ---- in each round ------------------------------------------------------------------------ */

espl_time
espl__items_fill_at(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return espl__exec_follows(x, ESPL__RULES_SUPPLY) ? x->items.standing.act_at : ESPL_NEVER;
}

/* Figures of the time up to now, with those that stood at the last look. */
static void
account(struct espl__exec *x)
{
	struct espl__standing *s = &x->items.standing;
	double passed = (double)(x->now - s->seen_at) / 1e9;

	if (s->count > 0)
		s->total_s += passed;
	if (s->count > 0 && s->act_at != ESPL_NEVER && x->now > s->act_at)
		s->late_s +=
		    (double)(x->now - (s->act_at > s->seen_at ? s->act_at : s->seen_at)) / 1e9;
	s->seen_at = x->now;
}

void
espl__items_fill(struct espl__exec *x)
{
	struct espl__standing *s = &x->items.standing;
	espl_time due;

	ESPL__CHECK(x, EXEC);
	account(x);
	s->act_at = ESPL_NEVER;
	s->count = 0;
	s->looks++;
	if (x->fleet.gpus_idle == 0 || !x->cluster.cloud_ready || x->cluster.cloud_waits ||
	    x->items.count == 0)
		return;
	due = find_due(x);
	s->count = help_granted(x, due);
	s->count += help_queue(x, &x->items.top, due);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->tier->inner != NULL && !x->searches.list[i]->over)
			s->count += help_queue(x, x->searches.list[i]->tier, 0);
}
