/* round.c - one round of a run: events, decisions, what follows.
 *
 * The order is fixed (see sdk algorithm.h): events, algorithm, allocator, placer, effects.  What
 * the policies answer is compared with the journal's record while a run is replayed.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/items.h"
#include "exec/items_idle.h"
#include "exec/items_place.h"
#include "exec/items_tiers.h"
#include "exec/searches_end.h"
#include "exec/searches_plan.h"
#include "exec/searches_trials.h"

/* ---- making and freeing --------------------------------------------------------------------- */

espl_status
espl__exec_new(const struct espl__exec_setup *setup, struct espl__exec **out,
    struct espl__diag *diag)
{
	const struct espl__inputs *inputs = setup->inputs;
	struct espl__exec *x = espl__alloc(sizeof *x);
	espl_status status;

	x->magic = ESPL__EXEC_MAGIC;
	x->setup = *setup;
	x->config = inputs->config;
	x->round.timer = ESPL_NEVER;
	espl__fleet_init(&x->fleet);
	espl__market_init(&x->market, &x->fleet, &x->now);
	x->ledger = espl__ledger_new();
	x->caller.fleet = &x->fleet;
	x->caller.least_s = x->caller.least_usd = NAN;
	x->caller.tick = setup->tick;
	x->caller.now = espl__exec_follows(x, ESPL__RULES_SUPPLY) ? &x->now : NULL;
	x->env.seed = x->config->seed;
	x->env.utc_start_s = setup->utc_start_s;
	x->env.verbose = setup->verbose;
	x->env.rules = setup->rules;
	x->env.simulated = setup->simulated;
	x->env.now = &x->now;
	x->env.directory = x->config->directory;
	x->env.ctx = x;
	x->env.service = espl__searches_service;
	x->env.note = espl__searches_plugin_note;
	espl__cluster_init(x);
	espl__items_init(x);
	espl__searches_init(x);
	for (struct espl__observer *o = setup->observers; o != NULL; o = o->next)
		o->exec = x;
	status = ESPL_OK;
	if (!inputs->config->pool ||
	    inputs->jobs != NULL) /* a pool's number 0 are its plain jobs */
		status = espl__search_add(x, inputs, diag);
	for (uint32_t i = 0; status == ESPL_OK && i < inputs->entry_count; i++)
		status = espl__search_add(x, &inputs->entries[i], diag);
	if (status == ESPL_OK)
		status = espl__items_open(x, diag);
	for (uint32_t i = 0; status == ESPL_OK && i < x->searches.count; i++)
		status = espl__search_declare(x->searches.list[i], diag);
	if (status != ESPL_OK) {
		espl__exec_free(x);
		return status;
	}
	*out = x;
	return ESPL_OK;
}

void
espl__exec_free(struct espl__exec *x)
{
	if (x == NULL)
		return;
	if (espl__panic_context_arg == x)
		espl__panic_context = NULL;
	espl__searches_still(x);
	espl__tier_free(&x->items.top);
	espl__instance_destroy(x->items.placer);
	espl__gangs_free(x);
	espl__items_free(x);
	espl__cluster_free(x);
	espl__searches_free(x);
	free(x->round.experiments);
	free(x->round.offers);
	free(x->round.offer_list);
	free(x->round.effects);
	free(x->round.end_text);
	espl__ledger_free(x->ledger);
	espl__market_free(&x->market);
	espl__fleet_free(&x->fleet);
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
	espl__cluster_gpu_time(x);
	x->now = now;
	espl__cluster_gpu_time(x);
	x->round.effect_count = 0;
	espl__buf_reset(&x->round.decisions);
	espl__arena_free(&x->ops_arena);
	x->round.call_seq = 0;
	espl__items_freed(x, 0);
	espl__searches_begin(x);
	x->round.replaying = recorded != NULL;
	x->round.accept = accept != 0;
	x->round.recorded = espl__reader(recorded != NULL ? recorded->data : NULL,
	    recorded != NULL ? recorded->size : 0);
	espl__answers_next(x);
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
	x->round.only_alarms = 1;
	for (uint32_t i = 0; i < count && status == ESPL_OK; i++) {
		x->round.only_alarms &= events[i].type == ESPL__EV_TIMER;
		status = espl__round_event(x, &events[i], diag);
		espl__searches_goals(x);
	}
	espl__round_alarms(x);
	for (uint32_t i = 0; i < x->searches.count && status == ESPL_OK && x->round.ending == 0;
	     i++)
		status = espl__search_plan(x->searches.list[i], diag);
	if (status == ESPL_OK && x->round.ending == 0)
		status = espl__searches_ask(x, diag);
	espl__searches_goals(x); /* the algorithm may have given up trials */
	if (x->cluster.dirty)
		espl__cluster_let_go(x); /* release first: a node about to be replaced must not be
					 leased again as well */
	if (status == ESPL_OK && x->round.ending == 0)
		status = espl__round_allocate(x, diag);
	if (x->cluster.dirty)
		espl__cluster_give_ups(x, !espl__searches_need_no_nodes(x));
	espl__items_part(x);
	if (status == ESPL_OK && x->round.ending == 0)
		status = espl__items_place(x, diag);
	if (status != ESPL_OK)
		return status;
	if (x->round.ending == 0)
		espl__items_fill(x);
	espl__round_settle(x);
	espl__searches_collect(x);
	espl__round_end(x);
	espl__round_haste(x);
	espl__round_timer(x);
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
