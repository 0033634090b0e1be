/* round.c - one round of a run: events, decisions, what follows.
 *
 * The order is fixed (see sdk algorithm.h): events, algorithm, allocator, placer, effects.  What
 * the policies answer is compared with the journal's record while a run is replayed.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/answers.h"
#include "exec/items_inner.h"
#include "exec/searches_plan.h"
#include "exec/searches_trials.h"
#include "exec/state.h"

/* ---- making and freeing --------------------------------------------------------------------- */

static espl_status
make_instances(struct espl__exec *x, struct espl__diag *diag)
{
	const struct espl__run_config *c = x->config;
	espl_status status;

	status = espl__instance_create(ESPL_ALLOCATOR, c->allocator.use, c->allocator.group,
	    &x->env, &x->items.top.allocator, diag);
	if (status == ESPL_OK)
		status = espl__instance_create(ESPL_PLACER, c->placer.use, c->placer.group, &x->env,
		    &x->items.placer, diag);
	return status;
}

espl_status
espl__exec_new(const struct espl__exec_setup *setup, struct espl__exec **out,
    struct espl__diag *diag)
{
	const struct espl__session *session = setup->session;
	struct espl__exec *x = espl__alloc(sizeof *x);
	espl_status status;

	x->magic = ESPL__EXEC_MAGIC;
	x->setup = *setup;
	x->config = session->config;
	x->round.timer = x->items.top.wake_at = ESPL_NEVER;
	x->cluster.cloud_waits = 1;
	espl__fleet_init(&x->fleet);
	espl__market_init(&x->market, &x->fleet, &x->now);
	espl__pool_init(&x->items.pool, sizeof(struct espl__item));
	x->ledger = espl__ledger_new();
	x->caller.fleet = &x->fleet;
	x->caller.least_s = x->caller.least_usd = NAN;
	x->caller.tick = setup->tick;
	x->env.seed = x->config->seed;
	x->env.utc_start_s = setup->utc_start_s;
	x->env.verbose = setup->verbose;
	x->env.simulated = setup->simulated;
	x->env.now = &x->now;
	x->env.directory = x->config->directory;
	x->env.ctx = x;
	x->env.service = espl__exec_service;
	x->env.note = espl__exec_plugin_note;
	espl__exec_model_init(x);
	for (struct espl__observer *o = setup->observers; o != NULL; o = o->next)
		o->exec = x;
	espl__exec_compute_init(x);
	status = ESPL_OK;
	if (!session->config->pool ||
	    session->jobs != NULL) /* a pool's number 0 are its plain jobs */
		status = espl__search_add(x, session, diag);
	for (uint32_t i = 0; status == ESPL_OK && i < session->entry_count; i++)
		status = espl__search_add(x, &session->entries[i], diag);
	if (status == ESPL_OK)
		status = make_instances(x, diag);
	for (uint32_t i = 0; status == ESPL_OK && i < x->searches.count; i++)
		status = espl__search_declare(x->searches.list[i], diag);
	if (status != ESPL_OK) {
		espl__exec_free(x);
		return status;
	}
	*out = x;
	return ESPL_OK;
}

static void
free_lists(struct espl__exec *x)
{
	free(x->items.spare);
	free(x->items.gangs_view);
	free(x->items.place_list);
	free(x->items.place_view);
	free(x->items.pending);
	free(x->gangs.awaiting);
	free(x->cluster.give_up);
	free(x->searches.collect);
	free(x->round.effects);
	free(x->searches.computing);
	free(x->round.end_text);
	free(x->searches.last_failure);
	espl__lease_records_free(x);
}

void
espl__exec_free(struct espl__exec *x)
{
	if (x == NULL)
		return;
	if (espl__panic_context_arg == x)
		espl__panic_context = NULL;
	for (uint32_t i = 0; i < x->searches.count; i++) {
		espl__instance_destroy(x->searches.list[i]->algorithm);
		x->searches.list[i]->algorithm = NULL;
		espl__inner_still(x->searches.list[i]->tier->inner);
	}
	espl__tier_free(&x->items.top);
	espl__instance_destroy(x->items.placer);
	while (x->gangs.first != NULL) {
		struct espl__gang *g = x->gangs.first;
		x->gangs.first = g->next;
		free(g->slots);
		free(g->onto);
		free(g->fault);
		free(g);
	}
	espl__map_free(&x->gangs.map);
	for (uint64_t i = 0; i < x->items.pool.count; i++) {
		struct espl__item *item = espl__pool_at(&x->items.pool, i);
		free(item->target);
		free(item->nodes);
	}
	espl__pool_free(&x->items.pool);
	free_lists(x);
	for (uint32_t i = 0; i < x->searches.count; i++)
		espl__search_free(x->searches.list[i]);
	free(x->searches.list);
	free(x->round.experiments);
	espl__ledger_free(x->ledger);
	espl__market_free(&x->market);
	espl__fleet_free(&x->fleet);
	espl__names_free(&x->searches.metrics);
	espl__caller_free(&x->caller);
	espl__buf_free(&x->round.decisions);
	espl__buf_free(&x->round.ops);
	espl__arena_free(&x->ops_arena);
	espl__arena_free(&x->arena);
	x->magic = 0;
	free(x);
}

/* ---- a round ------------------------------------------------------------------------------ */

static void
round_begin(struct espl__exec *x, espl_time now, const struct espl__buf *recorded, int accept)
{
	ESPL__ASSERT(now >= x->now);
	espl__exec_gpu_time(x);
	x->now = now;
	espl__exec_gpu_time(x);
	x->round.effect_count = 0;
	espl__buf_reset(&x->round.decisions);
	espl__arena_free(&x->ops_arena);
	x->round.call_seq = 0;
	x->items.seats_freed = 0;
	x->searches.places = 0;
	x->round.replaying = recorded != NULL;
	x->round.accept = accept != 0;
	x->round.recorded = espl__reader(recorded != NULL ? recorded->data : NULL,
	    recorded != NULL ? recorded->size : 0);
	espl__answers_next(x);
	/* Summing all leases in every round would cost more than the round: once a second is
	 * enough. */
	if (now - x->searches.spent_at >= ESPL_SECOND || x->cluster.dirty) {
		espl__search_spent(x);
		x->searches.spent_at = now;
	}
}

/* For espl__panic: must not allocate. */
static void
print_state(void *ctx, char *text, size_t room)
{
	const struct espl__exec *x = ctx;
	uint32_t count =
	    x->round.last_count < ESPL__LAST_DECISIONS ? x->round.last_count : ESPL__LAST_DECISIONS;
	size_t used = 0;

	(void)snprintf(text, room, "espalier: seed %llu, %.3f s into the run%s; last decisions:\n",
	    (unsigned long long)x->config->seed, (double)x->now / 1e9,
	    x->round.replaying ? " (replayed)" : "");
	for (uint32_t i = x->round.last_count - count; i != x->round.last_count; i++) {
		const struct espl__last_decision *d = &x->round.last[i % ESPL__LAST_DECISIONS];

		used = strlen(text);
		(void)snprintf(text + used, room - used, "espalier: %.3f s, %.100s: %s\n",
		    (double)d->at / 1e9, d->by, espl__op_word(d->type));
	}
}

espl_status
espl__exec_round(struct espl__exec *x, espl_time now, const struct espl__event *events,
    uint32_t count, const struct espl__buf *recorded, int accept, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	espl__panic_context = print_state;
	espl__panic_context_arg = x;
	round_begin(x, now, recorded, accept);
	for (uint32_t i = 0; i < count && status == ESPL_OK; i++)
		status = espl__exec_event(x, &events[i], diag);
	espl__exec_alarms(x);
	for (uint32_t i = 0; i < x->searches.count && status == ESPL_OK && x->round.ending == 0;
	     i++)
		status = espl__exec_plan(x->searches.list[i], diag);
	if (status == ESPL_OK && x->round.ending == 0)
		status = espl__exec_search(x, diag);
	if (x->cluster.dirty)
		espl__exec_let_go(x); /* release first: a node about to be replaced must not be
					 leased again as well */
	if (status == ESPL_OK && x->round.ending == 0)
		status = espl__exec_allocate(x, diag);
	if (x->cluster.dirty)
		espl__exec_give_ups(x, !espl__exec_needs_no_nodes(x));
	if (status == ESPL_OK && x->round.ending == 0)
		status = espl__exec_place(x, diag);
	if (status != ESPL_OK)
		return status;
	espl__exec_settle(x);
	espl__exec_collect(x);
	espl__exec_cluster(x);
	espl__exec_timer(x);
	if (x->round.replaying && x->round.recorded_seq != UINT64_MAX && !x->round.accept)
		return espl__fail(diag, ESPL_E_BUG,
		    "replay mismatch at %.3f s: the journal contains decisions that no plugin "
		    "makes now",
		    (double)now / 1e9);
	return ESPL_OK;
}

const struct espl__effect *
espl__exec_effects(const struct espl__exec *x, uint32_t *count)
{
	ESPL__CHECK(x, EXEC);
	*count = x->round.effect_count;
	return x->round.effects;
}

const struct espl__buf *
espl__exec_decisions(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return &x->round.decisions;
}

const struct espl_offer *
espl__exec_offer(const struct espl__exec *x, uint32_t number)
{
	ESPL__CHECK(x, EXEC);
	return number < x->fleet.offer_count ? x->fleet.offers[number] : NULL;
}

uint32_t
espl__exec_leases(const struct espl__exec *x, struct espl__lease_info *list, uint32_t room)
{
	uint32_t n = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->fleet.live_count; i++, n++) {
		if (n < room) {
			list[n].lease = x->fleet.live[i]->id;
			list[n].offer = x->fleet.live[i]->offer;
			list[n].state = x->fleet.live[i]->state;
			list[n].max_price_hour = x->fleet.live[i]->max_price_hour;
		}
	}
	return n;
}

uint32_t
espl__exec_gangs(const struct espl__exec *x, struct espl__gang_info *list, uint32_t room)
{
	uint32_t n = 0;

	ESPL__CHECK(x, EXEC);
	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next, n++)
		if (n < room)
			list[n] = (struct espl__gang_info){ .gang = g->id,
				.trial = espl__trial_uid(g->trial),
				.gpus = g->share.gpus,
				.slots = g->slots,
				.iteration = g->iteration,
				.budget = g->budget,
				.told = (enum espl__directive)g->told,
				.started = g->state != ESPL__GANG_STARTING,
				.awaiting = g->awaiting,
				.killed = g->killed || g->fault != NULL,
				.moving = g->onto_count > 0 };
	return n;
}

const struct espl_trial *
espl__exec_trial(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;
	const struct espl__trial *t = number < x->searches.count
	    ? espl__trial_at(&x->searches.list[number]->trials, trial & ESPL__TRIAL_NUMBER)
	    : NULL;

	ESPL__CHECK(x, EXEC);
	return t != NULL ? &t->pub : NULL;
}
