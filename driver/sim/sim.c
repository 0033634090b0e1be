/* sim.c - the simulated world: a virtual clock, and the effects of the real world turned into
 * scheduled events.
 *
 * All events due at one instant make one round, in order of entry. Orders of the executor that take
 * no time are reported in the next round of the same instant.
 */
#include <math.h>
#include <string.h>
#include "base/assert.h"
#include "base/text.h"
#include "plugin/instance.h"
#include "sim/sim_impl.h"
#include "driver/worlds.h"

enum { TURNS_MAX = 4000000 };
/* a search that has stood so long stands for good */
#define BARREN_MAX (30 * 86400 * ESPL_SECOND)

/* ---- used by all parts --------------------------------------------------------------- */

/* ---- rounds -------------------------------------------------------------------------- */

static void
clear_round(struct espl__sim *sim)
{
	sim->metric_count = 0;
	for (uint32_t i = 0; i < sim->delivered_count; i++)
		espl__compute_free(sim->delivered[i]);
	sim->delivered_count = 0;
	espl__batch_clear(&sim->round);
}

/* Reports name their metrics by count alone until the array stands still. */
static void
give_round(struct espl__sim *sim, struct espl__round *round)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < sim->round.count; i++)
		if (sim->round.list[i].type == ESPL__EV_REPORT) {
			sim->round.list[i].as.report.metrics = sim->metrics + at;
			at += sim->round.list[i].as.report.count;
		}
	ESPL__ASSERT(at == sim->metric_count);
	round->now = sim->now;
	round->events = sim->round.list;
	round->count = sim->round.count;
}

static void
outcome_due(struct espl__sim *sim, uint64_t number)
{
	struct espl__compute *job = sim->jobs[number];

	espl__sim_add_event(sim, ESPL__EV_OUTCOME)->as.outcome = espl__compute_outcome(job);
	ESPL__GROW(sim->delivered, sim->delivered_cap, sim->delivered_count + 1);
	sim->delivered[sim->delivered_count++] = job;
	sim->jobs[number] = NULL;
}

/* What its gangs do from now on becomes known at the end (espl__sim_gang_due). */
static void
cut_node(struct espl__sim *sim, uint32_t number)
{
	const struct espl__sim_fault *fault = &sim->faults.list[number];
	struct espl__sim_lease *lease = &sim->leases[fault->node];
	struct espl__event *e;

	if (lease->state < ESPL_NODE_READY || lease->cut_until > sim->now)
		return;
	lease->cut_until = espl__sim_after(sim, (double)fault->length / 1e9);
	e = espl__sim_add_event(sim, ESPL__EV_REACH);
	e->as.reach.lease = fault->node;
	e->as.reach.text = "fault script";
	espl__sim_heap_add(&sim->heap, lease->cut_until, ESPL__DUE_REACH, fault->node, number);
}

static void
join_node(struct espl__sim *sim, uint64_t lease, uint32_t number)
{
	struct espl__event *e;
	char span[32];

	if (!espl__sim_alive(sim, lease))
		return;
	e = espl__sim_add_event(sim, ESPL__EV_REACH);
	e->as.reach.lease = lease;
	e->as.reach.reachable = 1;
	e->as.reach.text =
	    espl__sim_text(sim, espl__format_short(sim->faults.list[number].length, span));
}

static void
fault_due(struct espl__sim *sim, uint64_t number)
{
	const struct espl__sim_fault *fault = &sim->faults.list[number];
	espl_span notice = fault->notice;

	if (fault->kind == ESPL__FAULT_STOP) {
		sim->stop = 1;
		return;
	}
	if (!espl__sim_alive(sim, fault->node))
		return; /* it was never leased, or is gone already */
	if (fault->kind == ESPL__FAULT_NODE_LOST) {
		espl__sim_lease_end(sim, fault->node, ESPL_BY_FAULT);
		return;
	}
	if (fault->kind == ESPL__FAULT_AT_RISK) {
		struct espl__event *e = espl__sim_add_event(sim, ESPL__EV_RISK);

		e->as.node_why.lease = fault->node;
		e->as.node_why.text = "fault script";
		return;
	}
	if (fault->kind == ESPL__FAULT_UNREACHABLE) {
		cut_node(sim, (uint32_t)number);
		return;
	}
	if (fault->kind == ESPL__FAULT_GPU_LOST) {
		if (sim->leases[fault->node].state >=
		    ESPL_NODE_READY) /* booting makes all of them good */
			espl__sim_lose_gpus(sim, fault->node, fault->gpu);
		return;
	}
	if (notice < 0)
		notice = sim->offers[sim->leases[fault->node].offer].terms.notice;
	espl__sim_lease_notice(sim, fault->node, notice, ESPL_BY_PROVIDER);
}

static void
handle_due(struct espl__sim *sim, const struct espl__sim_due *due)
{
	switch ((enum espl__sim_due_type)due->type) {
	case ESPL__DUE_GANG: espl__sim_gang_due(sim, due); break;
	case ESPL__DUE_BOOT:
	case ESPL__DUE_READY:
	case ESPL__DUE_NOTICE:
	case ESPL__DUE_EXPIRY:
	case ESPL__DUE_TAKEN:
	case ESPL__DUE_WAITED:
	case ESPL__DUE_ENDED: espl__sim_lease_due(sim, due); break;
	case ESPL__DUE_SUPPLY: espl__sim_serve(sim, (uint32_t)due->ref); break;
	case ESPL__DUE_REACH: join_node(sim, due->ref, due->mark); break;
	case ESPL__DUE_PRICE: espl__sim_price_due(sim, due->ref); break;
	case ESPL__DUE_LOG: espl__sim_log_due(sim, due->ref); break;
	case ESPL__DUE_FAULT: fault_due(sim, due->ref); break;
	case ESPL__DUE_OUTCOME: outcome_due(sim, due->ref); break;
	case ESPL__DUE_FAILED:
		espl__sim_add_event(sim, ESPL__EV_OUTCOME)->as.outcome = sim->failed[due->ref];
		break;
	case ESPL__DUE_JOB: espl__sim_job_due(sim, due->ref); break;
	case ESPL__DUE_EXPERIMENT:
		espl__sim_add_event(sim, ESPL__EV_EXPERIMENT)->as.number = due->ref;
		break;
	}
}

/* Refused, or about to be: nothing comes of it. */
static int
is_barren(const struct espl__sim_due *due)
{
	return (due->type == ESPL__DUE_ENDED &&
		   (due->mark == ESPL_BY_CAPACITY || due->mark == ESPL_BY_QUOTA)) ||
	    due->type == ESPL__DUE_WAITED || due->type == ESPL__DUE_SUPPLY;
}

static espl_status
next_instant(struct espl__sim *sim, struct espl__diag *diag)
{
	const struct espl__sim_due *top = espl__sim_heap_top(&sim->heap);
	espl_time at = top != NULL && top->at < sim->timer ? top->at : sim->timer;

	if (at == ESPL_NEVER) {
		espl__fail(diag, ESPL_E_BUG,
		    "the simulation is stuck: no trial is running, no node is starting and no "
		    "timer is set, but the search has not ended");
		espl__hint(diag,
		    "does the cloud offer enough GPUs for a trial, and is trial.report_limit set? "
		    "--dir keeps what the plugins decided, for `espalier explain`");
		return ESPL_E_BUG;
	}
	if (top == NULL && at - sim->barren_from > BARREN_MAX) {
		espl__fail(diag, ESPL_E_BUG, "no trial has run and no node has started for %d days",
		    (int)(BARREN_MAX / ESPL_SECOND / 86400));
		espl__hint(diag,
		    "check for a fault no-capacity without an end, and for prices above the "
		    "maximum");
		return ESPL_E_BUG;
	}
	if (at > sim->now)
		sim->turns = 0;
	else if (++sim->turns > TURNS_MAX)
		return espl__fail(diag, ESPL_E_BUG,
		    "the virtual clock does not advance: %d rounds at the same time (%.9g s)",
		    TURNS_MAX, (double)sim->now / 1e9);
	if (at > sim->now)
		sim->now = at;
	while ((top = espl__sim_heap_top(&sim->heap)) != NULL && top->at <= sim->now) {
		struct espl__sim_due due = espl__sim_heap_take(&sim->heap);

		if (!is_barren(&due))
			sim->barren_from = sim->now;
		handle_due(sim, &due);
	}
	if (sim->timer <= sim->now) {
		sim->timer = ESPL_NEVER;
		espl__sim_add_event(sim, ESPL__EV_TIMER);
	}
	return ESPL_OK;
}

static espl_status
sim_next(struct espl__world *world, struct espl__round *round, struct espl__diag *diag)
{
	struct espl__sim *sim = (struct espl__sim *)world;

	clear_round(sim);
	if (sim->opening != 0) {
		int resumed = sim->opening == 2;

		sim->opening = 0;
		/* An adopted lease reports its state; put what begins the run before it. */
		if (resumed) {
			espl__sim_add_event(sim, ESPL__EV_RESUME);
			espl__sim_add_event(sim, ESPL__EV_CLOUD)->as.cloud.text = "";
			for (uint64_t i = 0; i < sim->adopted_count; i++)
				espl__sim_adopt(sim, &sim->adopted[i]);
		} else {
			espl__sim_add_event(sim, ESPL__EV_START);
			espl__sim_tell_offers(sim);
		}
	}
	while (sim->round.count == 0) {
		if (sim->stop && !sim->stop_sent) {
			sim->stop_sent = 1;
			espl__sim_add_event(sim, ESPL__EV_STOP);
			break;
		}
		if (sim->ended)
			break; /* only time would pass */
		if (next_instant(sim, diag) != ESPL_OK)
			return ESPL_E_BUG;
	}
	give_round(sim, round);
	return ESPL_OK;
}

/* ---- operations ---------------------------------------------------------------------- */

static void
remember_leases(struct espl__sim *sim)
{
	uint32_t room = 64, count;

	do {
		room *= 2;
		sim->adopted = espl__realloc(sim->adopted, room, sizeof *sim->adopted);
		count = espl__exec_leases(sim->head.exec, sim->adopted, room);
	} while (count >= room);
	sim->adopted_count = count;
}

static espl_status
sim_begin(struct espl__world *world, int resumed, espl_time now, struct espl__diag *diag)
{
	struct espl__sim *sim = (struct espl__sim *)world;

	sim->now = sim->barren_from = now;
	sim->opening = resumed ? 2 : 1;
	if (sim->head.exec != NULL) {
		const struct espl__names *known = espl__exec_view(sim->head.exec).metrics;

		for (uint32_t i = 0; i < known->count; i++)
			espl__names_add(&sim->names, known->names[i]);
		if (resumed)
			remember_leases(sim);
	}
	if (resumed)
		espl__sim_skip_prices(sim, now);
	/* An ordinary run's was opened when the world was made; where nothing trains there is none.
	 */
	for (uint32_t i = 0; sim->config->pool && sim->own != NULL &&
	     espl__exec_search_of(sim->head.exec, i) != NULL;
	     i++)
		if (espl__sim_source(sim, i, diag) == NULL)
			return diag != NULL && diag->status != ESPL_OK ? diag->status
								       : ESPL_E_CONFIG;
	espl__sim_arrivals(sim);
	for (uint32_t i = 0; i < sim->faults.count; i++) {
		const struct espl__sim_fault *fault = &sim->faults.list[i];

		if (fault->at != ESPL_NEVER && (fault->at > now || (!resumed && fault->at == now)))
			espl__sim_heap_add(&sim->heap, fault->at, ESPL__DUE_FAULT, i, 0);
	}
	return ESPL_OK;
}

void
espl__sim_fail_compute(struct espl__sim *sim, uint64_t token)
{
	struct espl_outcome *lost;

	ESPL__CHECK(sim, SIM);
	lost = espl__arena_alloc(&sim->arena, sizeof *lost);
	*lost = (struct espl_outcome){ .size = (uint32_t)sizeof *lost,
		.status = ESPL_E_REMOTE,
		.token = token };
	ESPL__GROW(sim->failed, sim->failed_cap, sim->failed_count + 1);
	sim->failed[sim->failed_count++] = lost;
	espl__sim_heap_add(&sim->heap, sim->now, ESPL__DUE_FAILED, sim->failed_count - 1, 0);
}

static void
run_compute(struct espl__sim *sim, const struct espl__effect *effect)
{
	const struct espl_compute_request *request = effect->as.compute.request;
	struct espl__compute *job = espl__compute_start(effect->as.compute.config,
	    effect->as.compute.kind, effect->as.compute.token, request, 1);

	espl__compute_wait(job);
	espl__compute_assume(job, request->assumed > 0 ? request->assumed : 0);
	ESPL__GROW(sim->jobs, sim->job_cap, sim->job_count + 1);
	sim->jobs[sim->job_count] = job;
	espl__sim_heap_add(&sim->heap, espl__sim_after(sim, (double)request->assumed / 1e9),
	    ESPL__DUE_OUTCOME, sim->job_count++, 0);
}

static espl_status
sim_apply(struct espl__world *world, const struct espl__effect *effects, uint32_t count,
    struct espl__diag *diag)
{
	struct espl__sim *sim = (struct espl__sim *)world;
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; i < count && status == ESPL_OK; i++) {
		const struct espl__effect *effect = &effects[i];

		switch (effect->type) {
		case ESPL__FX_ACQUIRE:
			espl__sim_acquire(sim, effect->as.acquire.lease, effect->as.acquire.offer,
			    effect->as.acquire.max_price_hour);
			break;
		case ESPL__FX_RELEASE: espl__sim_release(sim, effect->as.lease); break;
		case ESPL__FX_START: status = espl__sim_start(sim, effect, diag); break;
		case ESPL__FX_REPLY: status = espl__sim_reply(sim, effect, diag); break;
		case ESPL__FX_RESIZE: espl__sim_resize(sim, effect); break;
		case ESPL__FX_KILL:
			espl__sim_kill(sim, effect->as.kill.gang, effect->as.kill.grace);
			break;
		case ESPL__FX_COLLECT:
			espl__sim_collect(sim, effect->as.collect.experiment,
			    effect->as.collect.trial, effect->as.collect.keep);
			break;
		case ESPL__FX_TIMER:
			sim->timer = effect->as.at > sim->now ? effect->as.at : sim->now;
			break;
		case ESPL__FX_COMPUTE:
			if (sim->learned != NULL)
				espl__sim_fail_compute(sim, effect->as.compute.token);
			else
				run_compute(sim, effect);
			break;
		case ESPL__FX_END: sim->ended = 1; break;
		}
	}
	return status;
}

static void
sim_stop(struct espl__world *world)
{
	((struct espl__sim *)world)->stop = 1;
}

static void
sim_close(struct espl__world *world, int at_once, struct espl__buf *left)
{
	struct espl__sim *sim = (struct espl__sim *)world;

	(void)at_once, (void)left; /* nothing of it is outside this process */
	clear_round(sim);
	espl__sim_gangs_free(sim);
	espl__sim_state_free(sim);
	espl__sim_train_free(sim);
	espl__sim_cloud_free(sim);
	espl__sim_faults_free(&sim->faults);
	for (uint32_t i = 0; i < sim->job_count; i++)
		espl__compute_free(sim->jobs[i]);
	free(sim->jobs);
	free(sim->trained_s);
	free(sim->delivered);
	free(sim->failed);
	free(sim->leases);
	free(sim->adopted);
	free(sim->heap.list);
	espl__batch_free(&sim->round);
	free(sim->metrics);
	espl__names_free(&sim->names);
	free(sim);
}

static const struct espl__world_ops sim_ops = { .begin = sim_begin,
	.next = sim_next,
	.apply = sim_apply,
	.stop = sim_stop,
	.close = sim_close };

struct espl__sim *
espl__sim_make(const struct espl__run_config *config, uint64_t seed)
{
	struct espl__sim *sim = espl__alloc(sizeof *sim);

	sim->magic = ESPL__SIM_MAGIC;
	sim->head.ops = &sim_ops;
	sim->config = config;
	sim->seed = seed;
	sim->timer = ESPL_NEVER;
	sim->free_gang = ESPL_ANY;
	sim->env = (struct espl__host_env){ .seed = seed,
		.simulated = 1,
		.now = &sim->now,
		.directory = config->directory };
	if (config->metric[0] != '\0')
		espl__names_add(&sim->names, config->metric); /* the executor's number 0 */
	espl__pool_init(&sim->gangs, sizeof(struct espl__sim_gang));
	return sim;
}

static espl_status
finish_making(struct espl__sim *sim, espl_status status, struct espl__world **world)
{
	if (status != ESPL_OK)
		sim_close(&sim->head, 1, NULL);
	else
		*world = &sim->head;
	return status;
}

espl_status
espl__world_sim(const struct espl__inputs *inputs, uint64_t seed, const char *faults,
    struct espl__world **world, struct espl__diag *diag)
{
	struct espl__sim *sim = espl__sim_make(inputs->config, seed);
	espl_status status = ESPL_OK;

	sim->own = inputs;
	if (faults != NULL)
		status = espl__sim_faults_load(faults, &sim->faults, diag);
	if (status == ESPL_OK && !inputs->config->pool && espl__sim_source(sim, 0, diag) == NULL)
		status = diag != NULL && diag->status != ESPL_OK ? diag->status : ESPL_E_CONFIG;
	if (status == ESPL_OK)
		status = espl__sim_describe(sim, diag);
	return finish_making(sim, status, world);
}

espl_status
espl__world_sold(const struct espl__run_config *config, uint64_t seed, struct espl__world **world,
    struct espl__diag *diag)
{
	struct espl__sim *sim = espl__sim_make(config, seed);

	return finish_making(sim, espl__sim_describe(sim, diag), world);
}
