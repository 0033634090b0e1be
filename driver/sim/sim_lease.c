/* sim_lease.c - simulated nodes: requested, booting, ready, under notice, ended.
 *
 * Quotas, machines that others have, market prices above the maximum price, random revocations and
 * wall-time limits are terms of the offer; everything else that happens to a node comes from the
 * fault script.
 */
#include <math.h>
#include <string.h>
#include "base/assert.h"
#include "model/ledger.h"
#include "sim/sim_impl.h"

static struct espl__sim_lease *
lease_at(struct espl__sim *sim, uint64_t lease)
{
	if (lease >= sim->lease_count) {
		ESPL__GROW(sim->leases, sim->lease_cap, lease + 1);
		memset(sim->leases + sim->lease_count, 0,
		    (size_t)(lease + 1 - sim->lease_count) * sizeof *sim->leases);
		sim->lease_count = lease + 1;
	}
	return &sim->leases[lease];
}

static void
link_lease(struct espl__sim *sim, uint64_t lease, uint32_t offer, espl_money max_price_hour)
{
	struct espl__sim_lease *l = lease_at(sim, lease);
	struct espl__sim_offer *o = &sim->offers[offer];

	ESPL__ASSERT(l->state == 0);
	*l = (struct espl__sim_lease){ .state = ESPL_NODE_REQUESTED,
		.offer = offer,
		.max_price_hour = max_price_hour,
		.ends_at = ESPL_NEVER,
		.machine = ESPL_ANY,
		.before = ESPL_NONE,
		.after = o->first };
	if (o->first != ESPL_NONE)
		sim->leases[o->first].before = lease;
	o->first = lease;
	o->alive++;
}

static struct espl__event *
report_node(struct espl__sim *sim, uint64_t lease)
{
	const struct espl__sim_lease *l = &sim->leases[lease];
	struct espl__event *event = espl__sim_add_event(sim, ESPL__EV_NODE);

	event->as.node.lease = lease;
	event->as.node.state = l->state;
	event->as.node.gpus = ESPL_ANY;
	event->as.node.ends_at = ESPL_NEVER;
	event->as.node.charged = -1;
	return event;
}

static void
report_retry(struct espl__sim *sim, uint64_t lease)
{
	const struct espl__sim_fault *fault =
	    espl__sim_fault_lease(sim, ESPL__FAULT_NO_CAPACITY, lease);
	struct espl__event *event;

	if (fault == NULL || fault->retry_after <= 0)
		return;
	event = espl__sim_add_event(sim, ESPL__EV_RETRY);
	event->as.retry.lease = lease;
	event->as.retry.after = fault->retry_after;
}

static void
report_why(struct espl__sim *sim, uint64_t lease, const char *text)
{
	struct espl__event *why = espl__sim_add_event(sim, ESPL__EV_NODE_WHY);

	why->as.node_why.lease = lease;
	why->as.node_why.text = text;
}

/* A provider does not start a machine whose price is above the maximum. */
static int
exceeds_price(const struct espl__sim_offer *o, espl_money max_price_hour)
{
	return o->price_count > 0 && max_price_hour > 0 && o->terms.price_hour > max_price_hour;
}

static void
begin_lease(struct espl__sim *sim, uint64_t lease)
{
	const struct espl_offer *terms = &sim->offers[sim->leases[lease].offer].terms;
	double seconds = espl__sim_draw(terms->provision,
	    espl__sim_key(sim->seed, "lease", 0, lease), ESPL__SIM_PROVISION, 0);

	seconds *= espl__sim_fault_boot(&sim->faults, terms->name, sim->now);
	espl__sim_heap_add(&sim->heap, espl__sim_after(sim, seconds), ESPL__DUE_BOOT, lease, 0);
}

static void
request_lease(struct espl__sim *sim, uint64_t lease)
{
	enum espl__sim_answer answer = espl__sim_supply_ask(sim, lease);

	if (answer == ESPL__SIM_GIVEN)
		begin_lease(sim, lease);
	else if (answer == ESPL__SIM_REFUSED)
		espl__sim_heap_add(&sim->heap, sim->now, ESPL__DUE_ENDED, lease, ESPL_BY_CAPACITY);
}

/* As often as requests of this run were. */
static int
is_refused(const struct espl__sim *sim, uint64_t lease)
{
	double part = sim->offers[sim->leases[lease].offer].refused;
	struct espl__rng rng;

	if (!(part > 0))
		return 0;
	espl__sim_stream(&rng, espl__sim_key(sim->seed, "lease", 0, lease), ESPL__SIM_TAKEN, 0);
	return espl__rng_uniform(&rng) < part;
}

void
espl__sim_serve(struct espl__sim *sim, uint32_t offer)
{
	uint64_t lease;

	ESPL__CHECK(sim, SIM);
	while ((lease = espl__sim_supply_next(sim, offer)) != ESPL_NONE)
		begin_lease(sim, lease);
}

void
espl__sim_acquire(struct espl__sim *sim, uint64_t lease, uint32_t offer, espl_money max_price_hour)
{
	const struct espl__sim_fault *fault;
	const struct espl__sim_offer *o;

	ESPL__CHECK(sim, SIM);
	ESPL__ASSERT(offer < sim->offer_count);
	o = &sim->offers[offer];
	link_lease(sim, lease, offer, max_price_hour);
	fault = espl__sim_fault_lease(sim, ESPL__FAULT_NO_CAPACITY, lease);
	if ((o->terms.nodes_max != ESPL_ANY && o->alive > o->terms.nodes_max) ||
	    exceeds_price(o, max_price_hour))
		espl__sim_heap_add(&sim->heap, sim->now, ESPL__DUE_ENDED, lease, ESPL_BY_CAPACITY);
	else if (fault != NULL)
		espl__sim_heap_add(&sim->heap, sim->now, ESPL__DUE_ENDED, lease, fault->reason);
	else if (is_refused(sim, lease))
		espl__sim_heap_add(&sim->heap, sim->now, ESPL__DUE_ENDED, lease, ESPL_BY_CAPACITY);
	else
		request_lease(sim, lease);
}

void
espl__sim_release(struct espl__sim *sim, uint64_t lease)
{
	ESPL__CHECK(sim, SIM);
	if (espl__sim_alive(sim, lease))
		espl__sim_heap_add(&sim->heap, sim->now, ESPL__DUE_ENDED, lease, ESPL_BY_USER);
}

/* ---- states -------------------------------------------------------------------------- */

static void
finish_boot(struct espl__sim *sim, uint64_t lease)
{
	struct espl__sim_lease *l = &sim->leases[lease];
	const struct espl_offer *terms = &sim->offers[l->offer].terms;
	const struct espl__sim_fault *fails =
	    espl__sim_fault_lease(sim, ESPL__FAULT_BOOT_FAILS, lease);
	double seconds = espl__sim_draw(terms->init, espl__sim_key(sim->seed, "lease", 0, lease),
	    ESPL__SIM_INIT, 0);

	l->state = ESPL_NODE_BOOTING;
	if (terms->lease_max > 0)
		l->ends_at = espl__sim_after(sim, (double)terms->lease_max / 1e9);
	espl__sim_supply_tell(sim, lease);
	report_node(sim, lease);
	seconds *= espl__sim_fault_boot(&sim->faults, terms->name, sim->now);
	if (fails != NULL && fails->length > 0)
		seconds = (double)fails->length / 1e9;
	if (fails != NULL)
		espl__sim_heap_add(&sim->heap, espl__sim_after(sim, seconds), ESPL__DUE_ENDED,
		    lease, ESPL__BY_GIVING_UP);
	else
		espl__sim_heap_add(&sim->heap, espl__sim_after(sim, seconds), ESPL__DUE_READY,
		    lease, 0);
}

void
espl__sim_lose_gpus(struct espl__sim *sim, uint64_t lease, uint32_t gpu)
{
	uint32_t count = sim->offers[sim->leases[lease].offer].terms.gpus;
	uint32_t from = gpu == ESPL_ANY ? 0 : gpu, to = gpu == ESPL_ANY ? count : gpu + 1;

	ESPL__CHECK(sim, SIM);
	for (uint32_t i = from; i < to && i < count; i++) {
		struct espl__event *e = espl__sim_add_event(sim, ESPL__EV_GPU);

		e->as.gpu.what = ESPL__GPU_ASIDE;
		e->as.gpu.id = lease;
		e->as.gpu.number = i;
		e->as.gpu.text = "a fault in the script";
	}
}

/* How it will end, if nobody releases it before. */
static void
wait_end(struct espl__sim *sim, uint64_t lease)
{
	const struct espl__sim_lease *l = &sim->leases[lease];
	const struct espl_offer *terms = &sim->offers[l->offer].terms;

	if (l->ends_at != ESPL_NEVER) {
		espl_time notice = l->ends_at - terms->notice;

		espl__sim_heap_add(&sim->heap, notice > sim->now ? notice : sim->now,
		    ESPL__DUE_EXPIRY, lease, 0);
	}
	if ((terms->flags & ESPL_OFFER_REVOCABLE) && sim->offers[l->offer].hazard_hour > 0.0) {
		struct espl__rng rng;
		double u;

		espl__sim_stream(&rng, espl__sim_key(sim->seed, "lease", 0, lease),
		    ESPL__SIM_HAZARD, 0);
		u = espl__rng_uniform(&rng);
		espl__sim_heap_add(&sim->heap,
		    espl__sim_after(sim, -log1p(-u) / sim->offers[l->offer].hazard_hour * 3600.0),
		    ESPL__DUE_NOTICE, lease, 0);
	}
}

static void
make_ready(struct espl__sim *sim, uint64_t lease)
{
	struct espl__sim_lease *l = &sim->leases[lease];
	const struct espl__sim_fault *bad;

	l->state = ESPL_NODE_READY;
	report_node(sim, lease)->as.node.ends_at = l->ends_at;
	bad = espl__sim_fault_lease(sim, ESPL__FAULT_BAD_GPU, lease);
	if (bad != NULL)
		espl__sim_lose_gpus(sim, lease, bad->gpu);
	wait_end(sim, lease);
}

void
espl__sim_lease_notice(struct espl__sim *sim, uint64_t lease, espl_span notice, espl_reason reason)
{
	struct espl__sim_lease *l = &sim->leases[lease];

	ESPL__CHECK(sim, SIM);
	if (reason == ESPL_BY_PROVIDER && l->state == ESPL_NODE_READY &&
	    espl__sim_fault_lease(sim, ESPL__FAULT_NO_NOTICE, lease) != NULL)
		notice = 0;
	if (l->state == ESPL_NODE_REQUESTED) {
		espl__sim_lease_end(sim, lease, ESPL_BY_CAPACITY);
	} else if (l->state == ESPL_NODE_BOOTING || (l->state == ESPL_NODE_READY && notice <= 0)) {
		espl__sim_lease_end(sim, lease, reason);
	} else if (l->state == ESPL_NODE_READY) {
		l->state = ESPL_NODE_NOTICE;
		l->ends_at = espl__sim_after(sim, (double)notice / 1e9);
		report_node(sim, lease)->as.node.ends_at = l->ends_at;
		espl__sim_heap_add(&sim->heap, l->ends_at, ESPL__DUE_ENDED, lease, reason);
	}
}

void
espl__sim_lease_end(struct espl__sim *sim, uint64_t lease, espl_reason reason)
{
	struct espl__sim_lease *l = &sim->leases[lease];
	struct espl__sim_offer *o = &sim->offers[l->offer];

	ESPL__CHECK(sim, SIM);
	if (!espl__sim_alive(sim, lease))
		return;
	if (l->gangs > 0)
		espl__sim_gangs_lost(sim, lease);
	if (l->before != ESPL_NONE)
		sim->leases[l->before].after = l->after;
	else
		o->first = l->after;
	if (l->after != ESPL_NONE)
		sim->leases[l->after].before = l->before;
	o->alive--;
	l->state = ESPL_NODE_ENDED;
	espl__sim_supply_return(sim, lease);
	espl__sim_serve(sim, l->offer);
	if (reason == ESPL__BY_GIVING_UP)
		report_why(sim, lease, "fault script: boot-fails");
	else if (reason == ESPL__BY_REFUSAL)
		report_why(sim, lease, "fault script: no-capacity, refused for good");
	if (reason == ESPL_BY_CAPACITY || reason == ESPL_BY_QUOTA)
		report_retry(sim, lease);
	report_node(sim, lease)->as.node.reason = reason;
}

static int
compare_numbers(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Gives notice to these leases in the order of their numbers. */
static void
notice_all(struct espl__sim *sim, uint64_t *list, uint32_t count, espl_span notice)
{
	if (count > 1)
		qsort(list, count, sizeof *list, compare_numbers);
	for (uint32_t i = 0; i < count; i++)
		espl__sim_lease_notice(sim, list[i], notice, ESPL_BY_PROVIDER);
	free(list);
}

void
espl__sim_outbid(struct espl__sim *sim, uint32_t offer, espl_money usd_hour)
{
	const struct espl__sim_offer *o = &sim->offers[offer];
	uint64_t *list = NULL;
	uint32_t count = 0, cap = 0;

	ESPL__CHECK(sim, SIM);
	if (!(o->terms.flags & ESPL_OFFER_REVOCABLE))
		return;
	for (uint64_t lease = o->first; lease != ESPL_NONE; lease = sim->leases[lease].after)
		if (sim->leases[lease].max_price_hour > 0 &&
		    sim->leases[lease].max_price_hour < usd_hour) {
			ESPL__GROW(list, cap, count + 1);
			list[count++] = lease;
		}
	notice_all(sim, list, count, o->terms.notice);
}

void
espl__sim_interrupt(struct espl__sim *sim, uint32_t offer, uint32_t number, double share)
{
	const struct espl__sim_offer *o = &sim->offers[offer];
	uint64_t *list = NULL;
	uint32_t count = 0, cap = 0;

	ESPL__CHECK(sim, SIM);
	for (uint64_t lease = o->first; lease != ESPL_NONE; lease = sim->leases[lease].after) {
		struct espl__rng rng;

		espl__sim_stream(&rng, espl__sim_key(sim->seed, "lease", 0, lease), ESPL__SIM_LOG,
		    number);
		if (sim->leases[lease].state == ESPL_NODE_REQUESTED ||
		    espl__rng_uniform(&rng) >= share)
			continue;
		ESPL__GROW(list, cap, count + 1);
		list[count++] = lease;
	}
	notice_all(sim, list, count, o->terms.notice);
}

void
espl__sim_lease_due(struct espl__sim *sim, const struct espl__sim_due *due)
{
	struct espl__sim_lease *l = &sim->leases[due->ref];
	espl_span notice = sim->offers[l->offer].terms.notice;

	ESPL__CHECK(sim, SIM);
	switch ((enum espl__sim_due_type)due->type) {
	case ESPL__DUE_BOOT:
		if (l->state == ESPL_NODE_REQUESTED)
			finish_boot(sim, due->ref);
		break;
	case ESPL__DUE_READY:
		if (l->state == ESPL_NODE_BOOTING)
			make_ready(sim, due->ref);
		break;
	case ESPL__DUE_NOTICE:
		if (l->state == ESPL_NODE_READY)
			espl__sim_lease_notice(sim, due->ref, notice, ESPL_BY_PROVIDER);
		break;
	case ESPL__DUE_WAITED:
		if (l->waits)
			espl__sim_lease_end(sim, due->ref, ESPL_BY_CAPACITY);
		break;
	case ESPL__DUE_TAKEN:
		espl__sim_lease_notice(sim, due->ref, notice, ESPL_BY_PROVIDER);
		break;
	case ESPL__DUE_EXPIRY:
		if (l->state == ESPL_NODE_READY)
			espl__sim_lease_notice(sim, due->ref, l->ends_at - sim->now,
			    ESPL_BY_EXPIRY);
		break;
	default: espl__sim_lease_end(sim, due->ref, due->mark); break;
	}
}

/* A resumed run's lease continues from its state in the journal. */
void
espl__sim_adopt(struct espl__sim *sim, const struct espl__lease_info *info)
{
	ESPL__CHECK(sim, SIM);
	if (info->state == ESPL_NODE_ENDED || info->offer >= sim->offer_count)
		return;
	link_lease(sim, info->lease, info->offer, info->max_price_hour);
	if (info->state == ESPL_NODE_REQUESTED) {
		request_lease(sim, info->lease);
	} else if (info->state == ESPL_NODE_BOOTING) {
		espl__sim_supply_adopt(sim, info->lease, info->machine);
		finish_boot(sim, info->lease);
	} else {
		const struct espl_offer *terms = &sim->offers[info->offer].terms;

		espl__sim_supply_adopt(sim, info->lease, info->machine);
		if (terms->lease_max > 0)
			lease_at(sim, info->lease)->ends_at =
			    espl__sim_after(sim, (double)terms->lease_max / 1e9);
		make_ready(sim, info->lease);
		if (info->state == ESPL_NODE_NOTICE)
			espl__sim_lease_notice(sim, info->lease, terms->notice, ESPL_BY_PROVIDER);
	}
}

void
espl__sim_lease_stands(struct espl__sim *sim, const struct espl__lease_info *info)
{
	const struct espl_offer *terms;
	double seconds;

	ESPL__CHECK(sim, SIM);
	if (info->state == ESPL_NODE_ENDED || info->offer >= sim->offer_count)
		return;
	link_lease(sim, info->lease, info->offer, info->max_price_hour);
	terms = &sim->offers[info->offer].terms;
	sim->leases[info->lease].state = info->state;
	sim->leases[info->lease].ends_at = info->ends_at;
	seconds = espl__sim_draw(terms->provision,
	    espl__sim_key(sim->seed, "lease", 0, info->lease), ESPL__SIM_PROVISION, 0);
	seconds -= (double)(sim->now - info->since) / 1e9;
	seconds = seconds > 1 ? seconds : 1;
	if (info->releasing)
		espl__sim_heap_add(&sim->heap, espl__sim_after(sim, 1), ESPL__DUE_ENDED,
		    info->lease, ESPL_BY_USER);
	else if (info->state == ESPL_NODE_REQUESTED)
		espl__sim_heap_add(&sim->heap, espl__sim_after(sim, seconds), ESPL__DUE_BOOT,
		    info->lease, 0);
	else if (info->state == ESPL_NODE_BOOTING)
		espl__sim_heap_add(&sim->heap, espl__sim_after(sim, seconds), ESPL__DUE_READY,
		    info->lease, 0);
	else if (info->state == ESPL_NODE_NOTICE)
		espl__sim_heap_add(&sim->heap,
		    info->ends_at > sim->now && info->ends_at != ESPL_NEVER ? info->ends_at
									    : sim->now,
		    ESPL__DUE_ENDED, info->lease, ESPL_BY_PROVIDER);
	else
		wait_end(sim, info->lease);
}
