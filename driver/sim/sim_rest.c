/* sim_rest.c - the world that continues a run from its present state: nodes and gangs as they
 * stand, and everything else as it was observed (learned.h).
 *
 * Prices stay as they are. Computations that are under way fail, and new ones as well: what they
 * would answer is not known, and policies have a way without them.
 */
#include <math.h>
#include <string.h>
#include "base/assert.h"
#include "plugin/instance.h"
#include "sim/sim_impl.h"
#include "driver/worlds.h"

/* Offers as the run knows them. */
static void
take_offers(struct espl__sim *sim, const struct espl__exec *exec)
{
	static const struct espl_latency none = { .size = (uint32_t)sizeof none,
		.kind = ESPL_CONSTANT };
	const struct espl_offer *terms;

	for (uint32_t i = 0; (terms = espl__exec_offer(exec, i)) != NULL; i++) {
		const struct espl_latency *seen = espl__learned_provision(sim->learned, i);
		struct espl__sim_offer *offer;

		ESPL__GROW(sim->offers, sim->offer_cap, i + 1);
		sim->offer_count = i + 1;
		offer = &sim->offers[i];
		memset(offer, 0, sizeof *offer);
		offer->terms = *terms;
		offer->first = ESPL_NONE;
		offer->supply.machines = ESPL_ANY;
		offer->supply_at = ESPL_NEVER;
		if (seen != NULL)
			offer->terms.provision = seen;
		if (seen != NULL || offer->terms.init == NULL)
			offer->terms.init = &none;
		if (offer->terms.provision == NULL)
			offer->terms.provision = &none;
		offer->hazard_hour = espl__learned_hazard(sim->learned, i, terms);
		offer->refused = espl__learned_refused(sim->learned, i);
	}
}

static void
take_leases(struct espl__sim *sim, const struct espl__exec *exec)
{
	uint32_t count = espl__exec_leases(exec, NULL, 0);
	struct espl__lease_info *list = espl__alloc((count + (size_t)1) * sizeof *list);

	(void)espl__exec_leases(exec, list, count);
	for (uint32_t i = 0; i < count; i++)
		espl__sim_lease_stands(sim, &list[i]);
	free(list);
}

static espl_status
take_gangs(struct espl__sim *sim, const struct espl__exec *exec, struct espl__diag *diag)
{
	uint32_t count = espl__exec_gangs(exec, NULL, 0);
	struct espl__gang_info *list = espl__alloc((count + (size_t)1) * sizeof *list);
	espl_status status = ESPL_OK;

	(void)espl__exec_gangs(exec, list, count);
	for (uint32_t i = 0; i < count && status == ESPL_OK; i++)
		status = espl__sim_gang_stands(sim, &list[i], diag);
	free(list);
	return status;
}

static void
fail_computations(struct espl__sim *sim, const struct espl__exec *exec)
{
	uint32_t count = espl__exec_computing(exec, NULL, 0);
	uint64_t *tokens = espl__alloc((count + (size_t)1) * sizeof *tokens);

	(void)espl__exec_computing(exec, tokens, count);
	for (uint32_t i = 0; i < count; i++)
		espl__sim_fail_compute(sim, tokens[i]);
	free(tokens);
}

espl_status
espl__world_rest(const struct espl__inputs *inputs, struct espl__exec *exec,
    struct espl__learned *learned, uint64_t seed, struct espl__world **world,
    struct espl__diag *diag)
{
	struct espl__exec_view view = espl__exec_view(exec);
	struct espl__sim *sim = espl__sim_make(inputs->config, seed);
	espl_status status;

	sim->own = inputs;
	sim->learned = learned;
	sim->head.exec = exec;
	sim->now = sim->barren_from = view.now;
	sim->timer = espl__exec_timer(exec);
	for (uint32_t i = 0; i < view.metrics->count; i++)
		espl__names_add(&sim->names, view.metrics->names[i]);
	espl__learned_future(learned, seed);
	take_offers(sim, exec);
	take_leases(sim, exec);
	espl__sim_arrivals(sim);
	status = take_gangs(sim, exec, diag);
	fail_computations(sim, exec);
	if (status == ESPL_OK)
		*world = &sim->head;
	else
		sim->head.ops->close(&sim->head, 1, NULL);
	return status;
}
