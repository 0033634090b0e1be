/* questions.c - what reports and the driver ask about a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/cluster_health.h"
#include "exec/questions.h"
#include "exec/searches_configs.h"
#include "exec/searches_confirm.h"
#include "exec/searches_require.h"
#include "exec/searches_end.h"
#include "exec/searches_jobs.h"
#include "model/earlier.h"

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
	if (i->sampler != NULL)
		d = digest_instance(d, i->sampler); /* it has none itself */
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
	/* Runs without them have the digest that they always had. */
	if (s->config->has_target)
		espl__print(&text, " target %.17g", s->config->target);
	if (s->config->resource != NULL)
		espl__print(&text, " resource %s %.17g", s->config->resource,
		    s->config->resource_step);
	if (s->config->no_better > 0)
		espl__print(&text, " patience %llu", (unsigned long long)s->config->no_better);
	if (s->config->seeds > 1)
		espl__print(&text, " seeds %u", s->config->seeds);
	if (s->config->confirm > 0)
		espl__print(&text, " confirm %u", s->config->confirm);
	if (s->inputs->earlier != NULL)
		espl__print(&text, " %u %llu", (unsigned)s->config->warm_best,
		    (unsigned long long)espl__earlier_digest(s->inputs->earlier));
	if (s->jobs != NULL)
		espl__workload_print(&s->jobs->list, &text);
	d = espl__digest(d, text.data, text.size);
	espl__buf_free(&text);
	return d;
}

uint64_t
espl__exec_digest(const struct espl__exec *x)
{
	const struct espl__search *s = x->searches.list[0];
	uint64_t d = s->algorithm != NULL ? digest_instance(0, s->algorithm) : 0;

	ESPL__CHECK(x, EXEC);
	d = digest_search(digest_instance(digest_instance(d, x->items.top.allocator),
			      x->items.placer),
	    s);
	for (uint32_t i = 1; i < x->searches.count; i++)
		d = digest_search(digest_instance(d, x->searches.list[i]->algorithm),
		    x->searches.list[i]);
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->tier != &x->items.top)
			d = digest_instance(d, x->searches.list[i]->tier->allocator);
	return d;
}

void
espl__exec_plan_info(const struct espl__exec *x, struct espl__exec_plan_info *info)
{
	const struct espl__search *s = x->searches.list[0];

	ESPL__CHECK(x, EXEC);
	info->plan = s->experiment.plan;
	info->rows = s->plan_rows;
	info->result = &s->plan_result;
	info->spec = s->experiment.spec;
	info->least_s = x->caller.least_s;
	info->least_usd = x->caller.least_usd;
}

struct espl__exec_view
espl__exec_view(const struct espl__exec *x)
{
	const struct espl__search *jobs = espl__jobs_search(x);

	ESPL__CHECK(x, EXEC);
	return (struct espl__exec_view){ .now = x->now,
		.ended = x->round.ended,
		.cut = espl__searches_cut(x),
		.pool = x->config->pool,
		.searches = x->searches.count,
		.metrics = &x->searches.metrics,
		.workload = jobs != NULL ? jobs->jobs : NULL,
		.jobs_come = jobs != NULL ? jobs->trials.trials.count : 0 };
}

static struct espl__trial *
find_trial(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;

	ESPL__CHECK(x, EXEC);
	return number < x->searches.count
	    ? espl__trial_at(&x->searches.list[number]->trials, trial & ESPL__TRIAL_NUMBER)
	    : NULL;
}

const struct espl_trial *
espl__exec_trial(const struct espl__exec *x, uint64_t trial)
{
	const struct espl__trial *t = find_trial(x, trial);

	return t != NULL ? &t->pub : NULL;
}

struct espl__trial_info
espl__exec_trial_info(const struct espl__exec *x, uint64_t trial)
{
	const struct espl__trial *t = find_trial(x, trial), *whole;

	if (t == NULL)
		return (struct espl__trial_info){ .loss = NAN, .meets = -1, .seed_of = trial };
	whole = t->search->apart ? espl__config_of(t) : t;
	return (struct espl__trial_info){ .word = espl__trial_word(&t->search->trials, t),
		.restores = espl__trial_restores(t),
		.began = t->began > 0 ? t->source_mark.step : 0,
		.save_asked = t->save_asked,
		.unasked = t->unasked,
		.kept = espl__trial_kept(t),
		.loss = t->pub.objective,
		.meets = whole != NULL ? espl__trial_meets(whole) : -1,
		.seed_of = t->seed_of,
		.fold = t->fold,
		.config = t->search->seeds > 1 ? t->config : ESPL_NONE };
}

uint32_t
espl__exec_avoid(const struct espl__exec *x, uint32_t offer, const char **names, uint32_t room)
{
	ESPL__CHECK(x, EXEC);
	return espl__health_avoided(&x->cluster.health, offer,
	    espl__cluster_failing_since(x, offer), x->now, names, room);
}

static const struct espl__machine *
find_node(const struct espl__exec *x, const char *name)
{
	const struct espl__machine *found = NULL;
	int64_t lease;

	if (name[0] >= '0' && name[0] <= '9' && espl__parse_int(name, &lease) == 0)
		return espl__machine_at(&x->fleet, (uint64_t)lease);
	for (uint64_t i = 0; i < x->fleet.nodes.count; i++) { /* the newest of that name */
		const struct espl__machine *n = espl__machine_at(&x->fleet, i);

		if ((n->machine != NULL && strcmp(n->machine, name) == 0) ||
		    (n->host != NULL && strcmp(n->host, name) == 0))
			found = n;
	}
	return found;
}

const char *
espl__exec_drains(const struct espl__exec *x, const char *name, int on, uint64_t *lease)
{
	const struct espl__machine *n = find_node(x, name);
	int drained;

	ESPL__CHECK(x, EXEC);
	if (n == NULL)
		return "this run has no such node or machine";
	drained = espl__cluster_is_drained(x, n);
	if (!n->live && n->machine == NULL && !drained)
		return "that node has ended, and its provider has not named its machine";
	if (drained == on)
		return on ? "it is drained already" : "it is not drained";
	*lease = n->pub.id;
	return NULL;
}

const struct espl__space *
espl__exec_space(const struct espl__exec *x, uint64_t number)
{
	ESPL__CHECK(x, EXEC);
	ESPL__ASSERT(number < x->searches.count);
	return x->searches.list[number]->inputs->space;
}

const struct espl_offer *
espl__exec_offer(const struct espl__exec *x, uint32_t number)
{
	ESPL__CHECK(x, EXEC);
	return number < x->fleet.offer_count ? x->fleet.offers[number] : NULL;
}

int
espl__exec_spans(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		const struct espl__search *s = x->searches.list[i];
		uint32_t widest = s->jobs != NULL
		    ? ESPL_ANY
		    : espl__sold_widest(&x->fleet, &s->config->trial, s->inputs->profile);

		for (uint32_t k = 0; k < x->fleet.offer_count && !x->fleet.no_route; k++)
			if (widest > x->fleet.offers[k]->gpus && x->fleet.offers[k]->gpus > 0)
				return 1;
	}
	return 0;
}

int
espl__exec_has_ranks(const struct espl__exec *x, const struct espl__inputs *of)
{
	ESPL__CHECK(x, EXEC);
	ESPL__ASSERT(of != NULL && of->config != NULL);
	if (!espl__run_may_have_ranks(of->config))
		return 0;
	/* Where the file leaves it open, machines of one GPU each decide. */
	return of->config->trial.gpus_max != ESPL_ANY ||
	    espl__sold_widest(&x->fleet, &of->config->trial, of->profile) > 1;
}

uint32_t
espl__exec_leases(const struct espl__exec *x, struct espl__lease_info *list, uint32_t room)
{
	uint32_t n = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->fleet.live_count; i++, n++) {
		const struct espl__machine *m = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		if (n < room) {
			list[n].lease = m->pub.id;
			list[n].offer = m->pub.offer;
			list[n].state = m->pub.state;
			list[n].max_price_hour = m->pub.max_price_hour;
			list[n].machine = m->machine;
			list[n].since = m->since;
			list[n].ends_at = m->pub.ends_at;
			list[n].releasing = m->releasing;
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
				.iteration = g->mark.step,
				.budget = espl__gang_budget(g),
				.directive = (enum espl__directive)g->directive,
				.started = g->state != ESPL__GANG_STARTING,
				.awaiting = g->awaiting,
				.killed = g->killed || g->fault != NULL,
				.moving = g->onto_count > 0,
				.share = g->share,
				.onto = g->onto,
				.onto_count = g->onto_count,
				.attempt = g->trial->attempts > 0 ? g->trial->attempts - 1 : 0,
				.began = g->began,
				.last_seen = g->last_seen,
				.reported = g->reported };
	return n;
}

espl_time
espl__exec_timer(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return x->round.timer;
}

uint32_t
espl__exec_computing(const struct espl__exec *x, uint64_t *tokens, uint32_t room)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.computing_count && i < room; i++)
		tokens[i] = x->searches.computing[i].token;
	return x->searches.computing_count;
}

void
espl__exec_unobserved(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->setup.observers = NULL;
}

const struct espl_market *
espl__exec_market(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return &x->market.pub;
}

const struct espl_model *
espl__exec_model(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return &x->searches.model;
}

int
espl__exec_named(const struct espl__exec *x, const char *name, uint64_t *number, uint64_t *trial)
{
	ESPL__CHECK(x, EXEC);
	*trial = ESPL_NONE;
	for (*number = 0; *number < x->searches.count; ++*number) {
		const struct espl__search *s = x->searches.list[*number];

		if (s->jobs == NULL && strcmp(s->config->name, name) == 0)
			return 1;
		for (uint32_t i = 0; s->jobs != NULL && i < s->jobs->list.count; i++)
			if (strcmp(s->jobs->list.jobs[i].name, name) == 0) {
				*trial = i;
				return 1;
			}
	}
	return 0;
}

int
espl__exec_named_trial(const struct espl__exec *x, const char *name, uint64_t *number,
    uint64_t *trial)
{
	const char *slash = strrchr(name, '/'), *digits = slash != NULL ? slash + 1 : name;
	char *experiment = espl__format("%.*s", (int)(slash != NULL ? slash - name : 0), name);
	int found = !x->config->pool && slash == NULL;
	int64_t id;

	ESPL__CHECK(x, EXEC);
	*number = 0;
	if (x->config->pool && slash != NULL)
		found = espl__exec_named(x, experiment, number, trial);
	free(experiment);
	if (!found || espl__parse_int(digits, &id) != 0 || id < 0)
		return 0;
	*trial = (uint64_t)id;
	return 1;
}

int
espl__exec_job_cancelled(const struct espl__exec *x, uint64_t number)
{
	const struct espl__search *s = espl__jobs_search(x);

	return s != NULL && number < s->jobs->list.count && s->job_states[number].cancelled;
}

/* Without the trials that no client has got. They are handed out in about the order in which they
 * were made, so that these are the last ones. */
static void
leave_unasked(const struct espl__search *of, struct espl__exec_summary *s)
{
	uint64_t left = of->unasked;

	for (uint64_t i = of->trials.trials.count; i > 0 && left > 0; i--) {
		const struct espl__trial *t = espl__trial_at(&of->trials, i - 1);

		if (!t->unasked)
			continue;
		left--;
		s->trials--;
		s->finished -= t->finish != 0;
		s->early -= t->finish == ESPL__FINISH_EARLY;
		s->failed -= t->pub.state == ESPL_TRIAL_FAILED;
		s->waiting -= t->pub.state == ESPL_TRIAL_WAITING;
		s->unfinished -= t->cut;
	}
	ESPL__ASSERT(left == 0);
}

static void
sum_up(const struct espl__search *of, struct espl__exec_summary *s)
{
	s->trials += of->trials.trials.count;
	s->finished += of->trials.finished;
	s->early += of->trials.early;
	s->failed += of->failed;
	s->running += of->trials.running;
	s->waiting += of->trials.waiting - espl__search_parked(of);
	s->unfinished += of->trials.unfinished + espl__search_parked(of);
	leave_unasked(of, s);
}

static void
count_offers(const struct espl__exec *x, struct espl__exec_summary *s)
{
	for (uint32_t i = 0; i < x->fleet.offer_count; i++) {
		const struct espl_offer *offer = x->fleet.offers[i];

		if (offer == NULL || offer->gpus == 0)
			continue;
		s->offers++;
		s->interruptible |=
		    (offer->flags & ESPL_OFFER_REVOCABLE) != 0 && offer->hazard_hour > 0;
	}
}

void
espl__exec_summary(const struct espl__exec *x, struct espl__exec_summary *s)
{
	const struct espl__search *of = x->searches.list[0];
	const struct espl__trial *best;

	memset(s, 0, sizeof *s);
	s->how = x->round.ended ? x->round.ending : 0;
	if (x->round.end_text != NULL &&
	    !(x->round.ending == ESPL__RUN_INTERRUPTED && x->round.user_stops))
		(void)snprintf(s->text, sizeof s->text, "%s", x->round.end_text);
	s->found = s->how == ESPL__RUN_DONE && !x->config->pool && of->goal.ended;
	s->over =
	    (espl__searches_idle(x) && !espl__exec_reopens(x)) || x->searches.futile || s->found;
	if (x->searches.last_failure != NULL)
		(void)snprintf(s->failure, sizeof s->failure, "%s", x->searches.last_failure);
	for (uint32_t i = 0; i < x->searches.count; i++)
		sum_up(x->searches.list[i], s);
	s->best = x->config->pool ? ESPL_NONE : espl__search_best(of);
	s->best_loss = x->config->pool ? NAN : of->best_loss;
	s->seeds = of->seeds;
	s->best_first = s->best != ESPL_NONE
	    ? espl__config_trial(espl__trial_at(of->configs, of->best), 0)->pub.id
	    : ESPL_NONE;
	if (!x->config->pool)
		espl__search_confirmation(of, &s->confirmation);
	s->best_spread = espl__search_best_spread(of, &s->best_counted);
	s->best_iteration = x->config->pool ? 0 : of->best_iteration;
	s->lowest = of->lowest;
	if (x->config->pool)
		espl__lowest_init(&s->lowest);
	best = espl__trial_at(&of->trials, s->best);
	s->best_checkpoint = best != NULL && !of->config->asked ? espl__trial_kept(best) : 0;
	s->now = x->now;
	s->cost = espl__ledger_total(x->ledger, x->now);
	s->refunded = espl__ledger_refunds(x->ledger).usd;
	s->refunded_gpu_s = espl__ledger_refunds(x->ledger).gpu_s;
	s->promoted_at = x->searches.promoted_at;
	s->promoted_cost = x->searches.promoted_cost;
	s->budget = x->config->budget;
	s->gpu_s =
	    x->cluster.gpu_s + (double)(x->now - x->cluster.gpu_since) / 1e9 * x->fleet.gpus_held;
	s->usd_s = x->round.ended ? 0 : espl__ledger_rate(x->ledger) * 1e-6;
	s->busy_gpu_s = x->gangs.busy_gpu_s;
	s->resizes = x->gangs.resizes;
	s->moves = x->gangs.moves;
	s->failed_attempts = x->searches.failed_attempts;
	s->standing_s = x->items.standing.total_s;
	s->standing_longest_s = x->items.standing.longest_s;
	s->standing_late_s = x->items.standing.late_s;
	s->standing_started = x->items.standing.started;
	s->nodes = x->fleet.placeable_count;
	s->nodes_peak = x->cluster.nodes_peak;
	s->nodes_leaked = x->round.ended ? x->fleet.live_count : 0;
	s->gpus = x->fleet.gpus_held;
	s->gpus_busy = x->gangs.gpus_busy;
	s->on_cpu = espl__exec_on_cpu(x);
	s->reports = x->searches.reports;
	s->decisions = x->caller.decisions;
	s->calls = x->caller.calls;
	s->least_s = x->caller.least_s;
	s->least_usd = x->caller.least_usd;
	if (!isnan(s->least_s) || !isnan(s->least_usd))
		count_offers(x, s);
	s->decision_times = x->caller.times;
	s->call_times = x->caller.call_times;
	espl__jobs_sum(x, &s->jobs);
}

uint32_t
espl__exec_gpus_min(const struct espl__exec *x)
{
	uint64_t least = 1;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.count; i++) {
		const struct espl__search *s = x->searches.list[i];

		if (s->over)
			continue;
		if (s->jobs == NULL && s->config->trial.gpus_min > least)
			least = s->config->trial.gpus_min;
		for (uint32_t k = 0; s->jobs != NULL && k < s->jobs->list.count; k++)
			if ((uint64_t)s->jobs->list.jobs[k].nodes_min * s->jobs->unit > least)
				least = (uint64_t)s->jobs->list.jobs[k].nodes_min * s->jobs->unit;
	}
	return least < ESPL_ANY ? (uint32_t)least : ESPL_ANY;
}

uint32_t
espl__exec_brackets(const struct espl__exec *x, uint64_t search)
{
	const struct espl_spec *spec =
	    search < x->searches.count ? x->searches.list[search]->experiment.spec : NULL;

	return spec != NULL ? spec->bracket_count : 0;
}

const struct espl__inputs *
espl__exec_search_of(const struct espl__exec *x, uint64_t number)
{
	ESPL__CHECK(x, EXEC);
	return number < x->searches.count ? x->searches.list[number]->inputs : NULL;
}

int
espl__exec_has_come(const struct espl__exec *x, uint64_t number)
{
	return number >= x->searches.count || x->searches.list[number]->come;
}

/* ---- what an ending run waits for --------------------------------------------------------- */

#define WAITS_NAMED 4u /* nodes */

static uint32_t
count_gangs_on(const struct espl__exec *x, uint64_t node)
{
	uint32_t count = 0;

	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next) {
		int here = 0;

		for (uint32_t i = 0; i < g->share.gpus && !here; i++)
			here = g->slots[i].node == node;
		count += (uint32_t)here;
	}
	return count;
}

static void
put_wait(const struct espl__exec *x, const struct espl_node *node, struct espl__buf *to)
{
	uint32_t gangs = count_gangs_on(x, node->id);
	int lost = (node->flags & ESPL_NODE_UNREACHABLE) != 0;

	espl__print(to, "node %llu", (unsigned long long)node->id);
	if (lost)
		espl__print(to, ", which cannot be reached");
	if (gangs > 0)
		espl__print(to, "%s %u trial%s to %s", lost ? " and has" : ", for", gangs,
		    gangs == 1 ? "" : "s", lost ? "end" : "save and end");
	else if (!lost)
		espl__print(to, " to be released");
}

int
espl__exec_waits(const struct espl__exec *x, struct espl__buf *to)
{
	uint32_t count = x->fleet.live_count;
	int lost = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < count; i++) {
		lost |= (x->fleet.live[i]->flags & ESPL_NODE_UNREACHABLE) != 0;
		if (i >= WAITS_NAMED)
			continue;
		espl__print(to, "%s", i == 0 ? "" : "; ");
		put_wait(x, x->fleet.live[i], to);
	}
	if (count > WAITS_NAMED)
		espl__print(to, "; and %u more", count - WAITS_NAMED);
	if (count == 0)
		espl__print(to, "what is still under way");
	return lost;
}
