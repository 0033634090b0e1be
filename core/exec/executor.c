/* executor.c - one round of a run: events, decisions, what follows.
 *
 * The order is fixed (see sdk algorithm.h): events, algorithm, allocator, placer, effects.  What
 * the policies answer is compared with the journal's record while a run is replayed.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "exec/state.h"

struct espl__effect *
espl__exec_effect(struct espl__exec *x, enum espl__effect_type type)
{
	struct espl__effect *e;

	ESPL__GROW(x->effects, x->effect_cap, x->effect_count + 1);
	e = &x->effects[x->effect_count++];
	memset(e, 0, sizeof *e);
	e->type = type;
	return e;
}

void
espl__exec_wind_up(struct espl__exec *x, enum espl__run_end how, const char *format, ...)
{
	va_list list;
	char text[512];

	if (x->ending != 0)
		return;
	va_start(list, format);
	(void)vsnprintf(text, sizeof text, format, list);
	va_end(list);
	x->ending = how;
	free(x->end_text);
	x->end_text = espl__strdup(text);
	espl__exec_note(x, ESPL_ABOUT_RUN, 0, "the run ends: %s", text);
}

int
espl__exec_hears(const struct espl__search *s)
{
	return s->ending == 0 && (s->exec->ending == 0 || s->exec->ending == ESPL__RUN_INTERRUPTED);
}

/* ---- making and freeing --------------------------------------------------------------------- */

static espl_status
make_instances(struct espl__exec *x, struct espl__diag *diag)
{
	const struct espl__run_config *c = x->config;
	espl_status status;

	status = espl__instance_create(ESPL_ALLOCATOR, c->allocator.use, c->allocator.group,
	    &x->env, &x->top.allocator, diag);
	if (status == ESPL_OK)
		status = espl__instance_create(ESPL_PLACER, c->placer.use, c->placer.group, &x->env,
		    &x->placer, diag);
	return status;
}

void
espl__exec_turn(struct espl__exec *x, struct espl__search *s)
{
	x->caller.params = s->trials.params;
	x->caller.space = s->algorithm != NULL ? espl__space_view(s->space) : NULL;
	x->caller.trials = &s->trials;
	x->caller.no_saves = !s->saves;
}

espl_status
espl__exec_new(const struct espl__exec_setup *setup, struct espl__exec **out,
    struct espl__diag *diag)
{
	struct espl__search_setup own = { .config = setup->config,
		.space = setup->space,
		.profile = setup->profile,
		.earlier = setup->earlier,
		.jobs = setup->jobs };
	struct espl__exec *x = espl__alloc(sizeof *x);
	espl_status status;

	x->setup = *setup;
	x->config = setup->config;
	x->timer = x->top.wake_at = ESPL_NEVER;
	x->cloud_waits = 1;
	espl__fleet_init(&x->fleet);
	espl__pool_init(&x->items_pool, sizeof(struct espl__item));
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
	if (!setup->config->pool || setup->jobs != NULL) /* a pool's number 0 are its plain jobs */
		status = espl__search_add(x, &own, diag);
	for (uint32_t i = 0; status == ESPL_OK && i < setup->entry_count; i++)
		status = espl__search_add(x, &setup->entries[i], diag);
	if (status == ESPL_OK)
		status = make_instances(x, diag);
	for (uint32_t i = 0; status == ESPL_OK && i < x->search_count; i++)
		status = espl__search_declare(x->searches[i], diag);
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
	free(x->items_free);
	free(x->gangs_view);
	free(x->place_list);
	free(x->place_view);
	free(x->pending);
	free(x->awaiting);
	free(x->give_up);
	free(x->collect);
	free(x->effects);
	free(x->computing);
	free(x->end_text);
	free(x->last_failure);
	espl__lease_records_free(x);
}

void
espl__exec_free(struct espl__exec *x)
{
	if (x == NULL)
		return;
	for (uint32_t i = 0; i < x->search_count; i++) {
		espl__instance_destroy(x->searches[i]->algorithm);
		x->searches[i]->algorithm = NULL;
		espl__inner_still(x->searches[i]->tier->inner);
	}
	espl__tier_free(&x->top);
	espl__instance_destroy(x->placer);
	while (x->gang_first != NULL) {
		struct espl__gang *g = x->gang_first;
		x->gang_first = g->next;
		free(g->slots);
		free(g->onto);
		free(g->fault);
		free(g);
	}
	espl__map_free(&x->gang_map);
	for (uint64_t i = 0; i < x->items_pool.count; i++) {
		struct espl__item *item = espl__pool_at(&x->items_pool, i);
		free(item->target);
		free(item->nodes);
	}
	espl__pool_free(&x->items_pool);
	free_lists(x);
	for (uint32_t i = 0; i < x->search_count; i++)
		espl__search_free(x->searches[i]);
	free(x->searches);
	free(x->experiments);
	espl__ledger_free(x->ledger);
	espl__fleet_free(&x->fleet);
	espl__names_free(&x->metrics);
	espl__caller_free(&x->caller);
	espl__buf_free(&x->decisions);
	espl__buf_free(&x->ops);
	espl__arena_free(&x->ops_arena);
	espl__arena_free(&x->arena);
	free(x);
}

/* ---- answers ------------------------------------------------------------------------------ */

static void
next_recorded(struct espl__exec *x)
{
	x->recorded_seq = UINT64_MAX;
	if (x->replaying && x->recorded.at < x->recorded.end) {
		x->recorded_seq = espl__get_v64(&x->recorded);
		x->recorded_ops = espl__get_bytes(&x->recorded, &x->recorded_size);
		if (x->recorded.bad)
			x->recorded_seq = UINT64_MAX;
	}
}

static void
describe_first(struct espl__exec *x, const void *ops, size_t size, struct espl__buf *text)
{
	struct espl__reader r = espl__reader(ops, size);
	struct espl__op op;

	if (size == 0 || espl__op_get(&r, x->caller.params, &x->ops_arena, &op) != 1)
		espl__print(text, "nothing");
	else
		espl__op_print(&op, text);
}

/* The first op in which two answers differ, told in words. */
static espl_status
differs(struct espl__exec *x, struct espl__instance *i, struct espl__diag *diag)
{
	const uint8_t *a = x->recorded_seq == x->call_seq ? x->recorded_ops : NULL,
		      *b = x->caller.ops.data;
	size_t na = a != NULL ? x->recorded_size : 0, nb = x->caller.ops.size;
	struct espl__reader ra = espl__reader(a, na), rb = espl__reader(b, nb);
	struct espl__buf before = { 0 }, after = { 0 };
	espl_status status;

	for (;;) {
		struct espl__reader sa = ra, sb = rb;
		struct espl__op op;
		if (espl__op_get(&ra, x->caller.params, &x->ops_arena, &op) != 1 ||
		    espl__op_get(&rb, x->caller.params, &x->ops_arena, &op) != 1 ||
		    ra.at - sa.at != rb.at - sb.at ||
		    memcmp(sa.at, sb.at, (size_t)(ra.at - sa.at)) != 0) {
			describe_first(x, sa.at, (size_t)(sa.end - sa.at), &before);
			describe_first(x, sb.at, (size_t)(sb.end - sb.at), &after);
			break;
		}
	}
	status = espl__fail(diag, ESPL_E_BUG,
	    "%s decides otherwise than the journal says, at %.3f s: then it chose to %s, now to %s",
	    i->who, (double)x->now / 1e9, espl__buf_text(&before), espl__buf_text(&after));
	espl__hint(diag,
	    "the plugin, its options or a library changed since; `espalier resume --accept` goes "
	    "on from the recorded decisions");
	espl__buf_free(&before);
	espl__buf_free(&after);
	return status;
}

static int
failed_for_good(struct espl__exec *x, struct espl__search *s, struct espl__instance *i,
    espl_status status)
{
	uint8_t *failures = i == x->placer ? &x->placer_failures
	    : i == x->top.allocator        ? &x->top.failures
	    : i == s->algorithm            ? &s->failures
					   : &s->tier->failures;

	if (status == ESPL_OK || status == ESPL_E_BUSY) {
		if (status == ESPL_OK)
			*failures = 0;
		return 0;
	}
	++*failures;
	return x->setup.simulated || *failures >= 2 || status == ESPL_E_CONFIG;
}

espl_status
espl__exec_answer(struct espl__exec *x, struct espl__search *s, struct espl__instance *i,
    espl_status status, struct espl__diag *why, struct espl__reader *r, struct espl__diag *diag)
{
	int same = 1;

	/* What only the offers show, before anything was begun: the user's to mend, as any option.
	 */
	if (status == ESPL_E_CONFIG && !x->replaying && x->fleet.nodes.count == 0) {
		if (diag != NULL)
			*diag = *why;
		return status;
	}
	if (failed_for_good(x, s, i, status)) {
		const char *text = why->text[0] != '\0' ? why->text : i->who;

		if (s != NULL)
			espl__search_wind_up(s, ESPL__RUN_FAILED, "%s", text);
		else
			espl__exec_wind_up(x, ESPL__RUN_FAILED, "%s", text);
	} else if (status != ESPL_OK && status != ESPL_E_BUSY) {
		espl__exec_warn(x, ESPL_ABOUT_RUN, 0,
		    "%s; its answer is thrown away, the last one stands", why->text);
	}
	espl__buf_reset(&x->ops);
	if (x->replaying) {
		if (x->recorded_seq == x->call_seq)
			same = x->recorded_size == x->caller.ops.size &&
			    memcmp(x->recorded_ops, x->caller.ops.data, x->recorded_size) == 0;
		else
			same = x->caller.ops.size == 0;
		if (!same && !x->accept)
			return differs(x, i, diag);
		x->diverged |= (uint8_t)!same;
	}
	if (same)
		espl__put(&x->ops, x->caller.ops.data, x->caller.ops.size);
	else if (x->recorded_seq == x->call_seq)
		espl__put(&x->ops, x->recorded_ops, x->recorded_size);
	if (x->replaying && x->recorded_seq == x->call_seq)
		next_recorded(x);
	if (x->ops.size > 0) {
		espl__put_v64(&x->decisions, x->call_seq);
		espl__put_bytes(&x->decisions, x->ops.data, x->ops.size);
	}
	x->call_seq++;
	espl__buf_reset(&x->caller.ops);
	*r = espl__reader(x->ops.data, x->ops.size);
	return ESPL_OK;
}

int
espl__exec_next_op(struct espl__exec *x, struct espl__reader *r, struct espl__op *op)
{
	int got = espl__op_get(r, x->caller.params, &x->ops_arena, op);

	if (got < 0)
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "the journal's record of a decision is damaged");
	return got == 1;
}

/* ---- a round ------------------------------------------------------------------------------ */

static void
round_begin(struct espl__exec *x, espl_time now, const struct espl__buf *recorded, int accept)
{
	ESPL__ASSERT(now >= x->now);
	espl__exec_gpu_time(x);
	x->now = now;
	espl__exec_gpu_time(x);
	x->effect_count = 0;
	espl__buf_reset(&x->decisions);
	espl__arena_free(&x->ops_arena);
	x->call_seq = 0;
	x->seats_freed = 0;
	x->replaying = recorded != NULL;
	x->accept = accept != 0;
	x->recorded = espl__reader(recorded != NULL ? recorded->data : NULL,
	    recorded != NULL ? recorded->size : 0);
	next_recorded(x);
	/* Summing all leases in every round would cost more than the round: once a second is
	 * enough. */
	if (now - x->spent_at >= ESPL_SECOND || x->cluster_dirty) {
		espl__search_spent(x);
		x->spent_at = now;
	}
}

espl_status
espl__exec_round(struct espl__exec *x, espl_time now, const struct espl__event *events,
    uint32_t count, const struct espl__buf *recorded, int accept, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	round_begin(x, now, recorded, accept);
	for (uint32_t i = 0; i < count && status == ESPL_OK; i++)
		status = espl__exec_event(x, &events[i], diag);
	espl__exec_alarms(x);
	for (uint32_t i = 0; i < x->search_count && status == ESPL_OK && x->ending == 0; i++)
		status = espl__exec_plan(x->searches[i], diag);
	if (status == ESPL_OK && x->ending == 0)
		status = espl__exec_search(x, diag);
	if (x->cluster_dirty)
		espl__exec_let_go(x); /* who is replaced is not made up for besides */
	if (status == ESPL_OK && x->ending == 0)
		status = espl__exec_allocate(x, diag);
	if (x->cluster_dirty)
		espl__exec_give_ups(x);
	if (status == ESPL_OK && x->ending == 0)
		status = espl__exec_place(x, diag);
	if (status != ESPL_OK)
		return status;
	espl__exec_settle(x);
	espl__exec_collect(x);
	espl__exec_cluster(x);
	espl__exec_timer(x);
	if (x->replaying && x->recorded_seq != UINT64_MAX && !x->accept)
		return espl__fail(diag, ESPL_E_BUG,
		    "the journal holds decisions at %.3f s that nobody makes now",
		    (double)now / 1e9);
	return ESPL_OK;
}

const struct espl__effect *
espl__exec_effects(const struct espl__exec *x, uint32_t *count)
{
	*count = x->effect_count;
	return x->effects;
}

const struct espl__buf *
espl__exec_decisions(const struct espl__exec *x)
{
	return &x->decisions;
}

/* ---- questions ---------------------------------------------------------------------------- */

static uint64_t
digest_text(uint64_t d, const char *text)
{
	return espl__digest(d, text, strlen(text) + 1);
}

/* The plugin's identity and its options as resolved, secrets apart. */
static uint64_t
digest_instance(uint64_t d, const struct espl__instance *i)
{
	struct espl__buf text = { 0 };

	d = digest_text(digest_text(d, i->who),
	    i->plugin->desc->version != NULL ? i->plugin->desc->version : "");
	for (uint32_t k = 0; k < i->values->config.count; k++)
		(void)espl__values_print(i->values, k, &text);
	d = espl__digest(d, text.data, text.size);
	espl__buf_free(&text);
	return espl__digest(d, &i->files_digest, sizeof i->files_digest);
}

static uint64_t
digest_search(uint64_t d, const struct espl__search *s)
{
	struct espl__buf text = { 0 };

	if (s->config->space != NULL)
		espl__node_print(s->config->space, 0, &text);
	espl__print(&text, "%s %d %u %u %u %llu", s->config->metric, s->config->maximize,
	    (unsigned)s->config->trial.gpus_min, (unsigned)s->config->trial.gpus_max,
	    (unsigned)s->config->trial.packing_max, (unsigned long long)s->config->seed);
	if (s->earlier != NULL)
		espl__print(&text, " %u %llu", (unsigned)s->config->warm_best,
		    (unsigned long long)espl__earlier_digest(s->earlier));
	if (s->jobs != NULL)
		espl__workload_print(&s->jobs->list, &text);
	d = espl__digest(d, text.data, text.size);
	espl__buf_free(&text);
	return d;
}

uint64_t
espl__exec_digest(const struct espl__exec *x)
{
	const struct espl__search *s = x->searches[0];
	uint64_t d = s->algorithm != NULL ? digest_instance(0, s->algorithm) : 0;

	d = digest_search(digest_instance(digest_instance(d, x->top.allocator), x->placer), s);
	for (uint32_t i = 1; i < x->search_count; i++)
		d = digest_search(digest_instance(d, x->searches[i]->algorithm), x->searches[i]);
	for (uint32_t i = 0; i < x->search_count; i++)
		if (x->searches[i]->tier != &x->top)
			d = digest_instance(d, x->searches[i]->tier->allocator);
	return d;
}

void
espl__exec_plan_info(const struct espl__exec *x, struct espl__exec_plan_info *info)
{
	const struct espl__search *s = x->searches[0];

	info->plan = s->experiment.plan;
	info->rows = s->plan_rows;
	info->result = &s->plan_result;
	info->spec = s->experiment.spec;
	info->least_s = x->caller.least_s;
	info->least_usd = x->caller.least_usd;
}

int
espl__exec_ended(const struct espl__exec *x)
{
	return x->ended;
}

uint32_t
espl__exec_metric(const struct espl__exec *x, const char *name)
{
	return espl__names_find(&x->metrics, name);
}

const char *
espl__exec_metric_name(const struct espl__exec *x, uint32_t metric)
{
	return metric < x->metrics.count ? x->metrics.names[metric] : NULL;
}

uint32_t
espl__exec_metric_count(const struct espl__exec *x)
{
	return x->metrics.count;
}

const struct espl_offer *
espl__exec_offer(const struct espl__exec *x, uint32_t number)
{
	return number < x->fleet.offer_count ? x->fleet.offers[number] : NULL;
}

uint32_t
espl__exec_leases(const struct espl__exec *x, struct espl__lease_info *list, uint32_t room)
{
	uint32_t n = 0;

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

const struct espl_trial *
espl__exec_trial(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;
	const struct espl__trial *t = number < x->search_count
	    ? espl__trial_at(&x->searches[number]->trials, trial & ESPL__TRIAL_NUMBER)
	    : NULL;

	return t != NULL ? &t->pub : NULL;
}

int
espl__exec_on_cpu(const struct espl__exec *x)
{
	uint32_t cpu = 0;

	for (uint32_t i = 0; i < x->fleet.offer_count; i++)
		cpu += x->fleet.offers[i]->gpu_type != NULL &&
		    strcmp(x->fleet.offers[i]->gpu_type, "cpu") == 0;
	return cpu > 0 && cpu == x->fleet.offer_count;
}

uint64_t
espl__exec_trial_restores(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;
	const struct espl__trial *t = number < x->search_count
	    ? espl__trial_at(&x->searches[number]->trials, trial & ESPL__TRIAL_NUMBER)
	    : NULL;

	return t != NULL ? espl__trial_restores(t) : 0;
}

const char *
espl__exec_trial_word(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;
	const struct espl__trial *t = number < x->search_count
	    ? espl__trial_at(&x->searches[number]->trials, trial & ESPL__TRIAL_NUMBER)
	    : NULL;

	return t != NULL ? espl__trial_word(&x->searches[number]->trials, t) : NULL;
}

uint64_t
espl__exec_trial_began(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;
	const struct espl__trial *t = number < x->search_count
	    ? espl__trial_at(&x->searches[number]->trials,
		  trial & ((UINT64_C(1) << ESPL__TRIAL_BITS) - 1))
	    : NULL;

	return t != NULL ? t->began : 0;
}

static void
sum_up(const struct espl__search *of, struct espl__exec_summary *s)
{
	s->trials += of->trials.trials.count;
	s->completed += of->trials.finished;
	s->early += of->trials.early;
	s->failed += of->failed;
	s->running += of->trials.running;
	s->waiting += of->trials.waiting;
}

static void
best_of(const struct espl__search *of, struct espl__exec_summary *s)
{
	const struct espl__trial *best = espl__trial_at(&of->trials, of->best);

	s->best = of->best;
	s->best_loss = of->best_loss;
	s->best_iteration = of->best_iteration;
	s->best_checkpoint = best != NULL ? best->pub.checkpoint : 0;
}

void
espl__exec_summary(const struct espl__exec *x, struct espl__exec_summary *s)
{
	memset(s, 0, sizeof *s);
	s->how = x->ended ? x->ending : 0;
	if (x->end_text != NULL && !(x->ending == ESPL__RUN_INTERRUPTED && x->user_stops))
		(void)snprintf(s->text, sizeof s->text, "%s", x->end_text);
	s->over = espl__exec_idle(x) || x->futile;
	if (x->last_failure != NULL)
		(void)snprintf(s->failure, sizeof s->failure, "%s", x->last_failure);
	for (uint32_t i = 0; i < x->search_count; i++)
		sum_up(x->searches[i], s);
	s->best = ESPL_NONE;
	s->best_loss = NAN;
	if (!x->config->pool)
		best_of(x->searches[0], s);
	s->now = x->now;
	s->cost = espl__ledger_total(x->ledger, x->now);
	s->budget = x->config->budget;
	s->gpu_s = x->gpu_s;
	s->busy_gpu_s = x->busy_gpu_s;
	s->resizes = x->resizes;
	s->nodes = x->fleet.placeable_count;
	s->nodes_peak = x->nodes_peak;
	s->nodes_leaked = x->ended ? x->fleet.live_count : 0;
	s->gpus = x->fleet.gpus_held;
	s->gpus_busy = x->gpus_busy;
	s->on_cpu = espl__exec_on_cpu(x);
	s->reports = x->reports;
	s->decisions = x->caller.decisions;
	s->calls = x->caller.calls;
	s->least_s = x->caller.least_s;
	s->least_usd = x->caller.least_usd;
	s->decision_times = x->caller.times;
	s->call_times = x->caller.call_times;
	espl__jobs_sum(x, &s->jobs);
}
