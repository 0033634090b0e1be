/* sim_supply.c - the machines that a provider has of an offer, which others want, too.
 *
 * A machine is free and in use by others in turns, whose lengths depend on the seed, the offer and
 * the machine alone.  The first one that is free is given: as long as nobody else takes it, a
 * machine that was returned comes again.  While it is leased, the turn of others means a notice if
 * the offer is revocable, else they wait.  Requests that find none free wait in order, if at all.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/assert.h"
#include "exec/questions.h"
#include "sim/sim_impl.h"

/* ---- turns --------------------------------------------------------------------------- */

static double
draw_turn(const struct espl__sim *sim, uint32_t offer, uint32_t number)
{
	const struct espl__sim_offer *o = &sim->offers[offer];
	const struct espl__sim_machine *m = &o->machines[number];
	struct espl__rng rng;

	espl__sim_stream(&rng, espl__sim_key(sim->seed, "machine", offer, number), ESPL__SIM_TURN,
	    m->turns);
	return -log1p(-espl__rng_uniform(&rng)) * (m->taken ? o->supply.taken_s : o->supply.free_s);
}

void
espl__sim_supply_begin(struct espl__sim *sim, uint32_t offer)
{
	struct espl__sim_offer *o = &sim->offers[offer];

	ESPL__CHECK(sim, SIM);
	if (o->supply.machines == ESPL_ANY)
		return;
	o->machines = espl__alloc((o->supply.machines + (size_t)1) * sizeof *o->machines);
	for (uint32_t i = 0; i < o->supply.machines; i++) {
		struct espl__sim_machine *m = &o->machines[i];
		struct espl__rng rng;

		m->lease = ESPL_NONE;
		m->until = ESPL_NEVER;
		if (!(o->supply.taken_s > 0.0))
			continue;
		espl__sim_stream(&rng, espl__sim_key(sim->seed, "machine", offer, i),
		    ESPL__SIM_TAKEN, 0);
		m->taken = espl__rng_uniform(&rng) * (o->supply.free_s + o->supply.taken_s) <
		    o->supply.taken_s;
		m->until = (espl_time)(draw_turn(sim, offer, i) * 1e9) + 1;
	}
}

/* Lets its turns pass until now. */
static struct espl__sim_machine *
machine_now(struct espl__sim *sim, uint32_t offer, uint32_t number)
{
	struct espl__sim_machine *m = &sim->offers[offer].machines[number];

	while (m->until <= sim->now) {
		m->taken = !m->taken;
		m->turns++;
		m->until += (espl_time)(draw_turn(sim, offer, number) * 1e9) + 1;
	}
	return m;
}

/* ---- who gets one -------------------------------------------------------------------- */

/* The executor asks for another one, if there is one. */
static int
is_avoided(const struct espl__sim *sim, uint32_t offer, uint32_t number)
{
	const char *list[64], *name;
	char room[ESPL__SIM_NAME];
	uint32_t count;

	if (sim->head.exec == NULL)
		return 0;
	count = espl__exec_avoid(sim->head.exec, offer, list, 64);
	name = espl__sim_machine_name(sim, offer, number, room);
	for (uint32_t i = 0; i < count && i < 64; i++)
		if (strcmp(list[i], name) == 0)
			return 1;
	return 0;
}

/* The first that is free; one that is to be avoided if there is no other.  ESPL_ANY: none is. */
static uint32_t
free_machine(struct espl__sim *sim, uint32_t offer)
{
	uint32_t avoided = ESPL_ANY;

	for (uint32_t i = 0; i < sim->offers[offer].supply.machines; i++) {
		const struct espl__sim_machine *m = machine_now(sim, offer, i);

		if (m->lease != ESPL_NONE || m->taken)
			continue;
		if (!is_avoided(sim, offer, i))
			return i;
		if (avoided == ESPL_ANY)
			avoided = i;
	}
	return avoided;
}

static void
give_machine(struct espl__sim *sim, uint64_t lease, uint32_t number)
{
	struct espl__sim_lease *l = &sim->leases[lease];
	const struct espl__sim_offer *o = &sim->offers[l->offer];
	struct espl__sim_machine *m = machine_now(sim, l->offer, number);

	ESPL__ASSERT(m->lease == ESPL_NONE && l->machine == ESPL_ANY);
	m->lease = lease;
	l->machine = number;
	if ((o->terms.flags & ESPL_OFFER_REVOCABLE) && m->until != ESPL_NEVER && !m->taken)
		espl__sim_heap_add(&sim->heap, m->until, ESPL__DUE_TAKEN, lease, 0);
}

void
espl__sim_supply_tell(struct espl__sim *sim, uint64_t lease)
{
	const struct espl__sim_lease *l = &sim->leases[lease];
	struct espl__event *event;
	char name[ESPL__SIM_NAME];

	ESPL__CHECK(sim, SIM);
	if (l->machine == ESPL_ANY)
		return;
	event = espl__sim_add_event(sim, ESPL__EV_MACHINE);
	event->as.node_why.lease = lease;
	event->as.node_why.text =
	    espl__sim_text(sim, espl__sim_machine_name(sim, l->offer, l->machine, name));
}

/* Wakes those who wait when the next machine becomes free, if that is known. */
static void
await_supply(struct espl__sim *sim, uint32_t offer)
{
	struct espl__sim_offer *o = &sim->offers[offer];
	espl_time at = ESPL_NEVER;

	for (uint32_t i = 0; i < o->supply.machines; i++) {
		const struct espl__sim_machine *m = machine_now(sim, offer, i);

		if (m->lease == ESPL_NONE && m->taken && m->until < at)
			at = m->until;
	}
	if (at == ESPL_NEVER || o->supply_at <= at)
		return;
	o->supply_at = at;
	espl__sim_heap_add(&sim->heap, at, ESPL__DUE_SUPPLY, offer, 0);
}

static uint64_t
first_waiting(const struct espl__sim *sim, uint32_t offer)
{
	uint64_t first = ESPL_NONE;

	for (uint64_t lease = sim->offers[offer].first; lease != ESPL_NONE;
	     lease = sim->leases[lease].after)
		if (sim->leases[lease].waits && lease < first)
			first = lease;
	return first;
}

uint64_t
espl__sim_supply_next(struct espl__sim *sim, uint32_t offer)
{
	struct espl__sim_offer *o = &sim->offers[offer];
	uint32_t number;
	uint64_t lease;

	ESPL__CHECK(sim, SIM);
	if (o->supply_at <= sim->now)
		o->supply_at = ESPL_NEVER;
	if (o->waiting == 0)
		return ESPL_NONE;
	number = free_machine(sim, offer);
	if (number == ESPL_ANY) {
		await_supply(sim, offer);
		return ESPL_NONE;
	}
	lease = first_waiting(sim, offer);
	ESPL__ASSERT(lease != ESPL_NONE);
	sim->leases[lease].waits = 0;
	o->waiting--;
	give_machine(sim, lease, number);
	return lease;
}

enum espl__sim_answer
espl__sim_supply_ask(struct espl__sim *sim, uint64_t lease)
{
	struct espl__sim_lease *l = &sim->leases[lease];
	struct espl__sim_offer *o = &sim->offers[l->offer];
	uint32_t number;

	ESPL__CHECK(sim, SIM);
	if (o->supply.machines == ESPL_ANY)
		return ESPL__SIM_GIVEN;
	number = o->waiting > 0 ? ESPL_ANY : free_machine(sim, l->offer);
	if (number != ESPL_ANY) {
		give_machine(sim, lease, number);
		return ESPL__SIM_GIVEN;
	}
	if (o->supply.wait == 0)
		return ESPL__SIM_REFUSED;
	l->waits = 1;
	o->waiting++;
	espl__sim_heap_add(&sim->heap, espl__sim_after(sim, (double)o->supply.wait / 1e9),
	    ESPL__DUE_WAITED, lease, 0);
	await_supply(sim, l->offer);
	return ESPL__SIM_WAITS;
}

void
espl__sim_supply_adopt(struct espl__sim *sim, uint64_t lease, const char *machine)
{
	const struct espl__sim_lease *l = &sim->leases[lease];
	const struct espl__sim_offer *o = &sim->offers[l->offer];
	char name[ESPL__SIM_NAME];

	ESPL__CHECK(sim, SIM);
	if (o->supply.machines == ESPL_ANY || machine == NULL)
		return;
	for (uint32_t i = 0; i < o->supply.machines; i++)
		if (o->machines[i].lease == ESPL_NONE &&
		    strcmp(espl__sim_machine_name(sim, l->offer, i, name), machine) == 0) {
			give_machine(sim, lease, i);
			return;
		}
}

void
espl__sim_supply_return(struct espl__sim *sim, uint64_t lease)
{
	struct espl__sim_lease *l = &sim->leases[lease];
	struct espl__sim_offer *o = &sim->offers[l->offer];

	ESPL__CHECK(sim, SIM);
	if (l->waits) {
		l->waits = 0;
		o->waiting--;
	}
	if (l->machine != ESPL_ANY)
		o->machines[l->machine].lease = ESPL_NONE;
	l->machine = ESPL_ANY;
}
