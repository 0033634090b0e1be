/* questions.c - what reports and the driver ask about a run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/text.h"
#include "exec/state.h"
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
	if (s->session->earlier != NULL)
		espl__print(&text, " %u %llu", (unsigned)s->config->warm_best,
		    (unsigned long long)espl__earlier_digest(s->session->earlier));
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

int
espl__exec_ended(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return x->round.ended;
}

uint32_t
espl__exec_metric(const struct espl__exec *x, const char *name)
{
	ESPL__CHECK(x, EXEC);
	return espl__names_find(&x->searches.metrics, name);
}

const char *
espl__exec_metric_name(const struct espl__exec *x, uint32_t metric)
{
	ESPL__CHECK(x, EXEC);
	return metric < x->searches.metrics.count ? x->searches.metrics.names[metric] : NULL;
}

uint32_t
espl__exec_metric_count(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return x->searches.metrics.count;
}

uint64_t
espl__exec_trial_restores(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;
	const struct espl__trial *t = number < x->searches.count
	    ? espl__trial_at(&x->searches.list[number]->trials, trial & ESPL__TRIAL_NUMBER)
	    : NULL;

	ESPL__CHECK(x, EXEC);
	return t != NULL ? espl__trial_restores(t) : 0;
}

const char *
espl__exec_trial_word(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;
	const struct espl__trial *t = number < x->searches.count
	    ? espl__trial_at(&x->searches.list[number]->trials, trial & ESPL__TRIAL_NUMBER)
	    : NULL;

	ESPL__CHECK(x, EXEC);
	return t != NULL ? espl__trial_word(&x->searches.list[number]->trials, t) : NULL;
}

uint64_t
espl__exec_trial_began(const struct espl__exec *x, uint64_t trial)
{
	uint64_t number = trial >> ESPL__TRIAL_BITS;
	const struct espl__trial *t = number < x->searches.count
	    ? espl__trial_at(&x->searches.list[number]->trials,
		  trial & ((UINT64_C(1) << ESPL__TRIAL_BITS) - 1))
	    : NULL;

	ESPL__CHECK(x, EXEC);
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
	s->best_checkpoint = best != NULL && !of->config->asked ? best->pub.checkpoint : 0;
}

void
espl__exec_summary(const struct espl__exec *x, struct espl__exec_summary *s)
{
	memset(s, 0, sizeof *s);
	s->how = x->round.ended ? x->round.ending : 0;
	if (x->round.end_text != NULL &&
	    !(x->round.ending == ESPL__RUN_INTERRUPTED && x->round.user_stops))
		(void)snprintf(s->text, sizeof s->text, "%s", x->round.end_text);
	s->over = espl__exec_idle(x) || x->searches.futile;
	if (x->searches.last_failure != NULL)
		(void)snprintf(s->failure, sizeof s->failure, "%s", x->searches.last_failure);
	for (uint32_t i = 0; i < x->searches.count; i++)
		sum_up(x->searches.list[i], s);
	s->best = ESPL_NONE;
	s->best_loss = NAN;
	if (!x->config->pool)
		best_of(x->searches.list[0], s);
	s->now = x->now;
	s->cost = espl__ledger_total(x->ledger, x->now);
	s->refunded = espl__ledger_refunds(x->ledger).usd;
	s->refunded_gpu_s = espl__ledger_refunds(x->ledger).gpu_s;
	s->budget = x->config->budget;
	s->gpu_s = x->cluster.gpu_s;
	s->busy_gpu_s = x->gangs.busy_gpu_s;
	s->resizes = x->gangs.resizes;
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
	s->decision_times = x->caller.times;
	s->call_times = x->caller.call_times;
	espl__jobs_sum(x, &s->jobs);
}

/* ---- questions ---------------------------------------------------------------------------- */

espl_time
espl__exec_now(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return x->now;
}

uint32_t
espl__exec_brackets(const struct espl__exec *x, uint64_t search)
{
	const struct espl_spec *spec =
	    search < x->searches.count ? x->searches.list[search]->experiment.spec : NULL;

	ESPL__CHECK(x, EXEC);
	return spec != NULL ? spec->bracket_count : 0;
}

const struct espl__session *
espl__exec_search_of(const struct espl__exec *x, uint64_t number)
{
	ESPL__CHECK(x, EXEC);
	return number < x->searches.count ? x->searches.list[number]->session : NULL;
}

uint64_t
espl__exec_searches(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return x->searches.count;
}

int
espl__exec_pool(const struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	return x->config->pool;
}

int
espl__exec_has_come(const struct espl__exec *x, uint64_t number)
{
	ESPL__CHECK(x, EXEC);
	return number >= x->searches.count || x->searches.list[number]->come;
}
