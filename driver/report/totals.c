/* totals.c - the numbers of a run: taken from the executor, printed for programs (totals_text.c:
 * for people). */
#include "report/totals.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* clang-format off */
#define FIELD(name_, type_) { #name_, type_, offsetof(struct espl__totals, name_) }
/* clang-format on */
const struct espl__total_field espl__total_fields[] = { FIELD(status, ESPL__TOTAL_TEXT),
	FIELD(text, ESPL__TOTAL_TEXT), FIELD(failure, ESPL__TOTAL_TEXT),
	FIELD(causes, ESPL__TOTAL_TEXT), FIELD(experiment, ESPL__TOTAL_TEXT),
	FIELD(metric, ESPL__TOTAL_TEXT), FIELD(best_params, ESPL__TOTAL_TEXT),
	FIELD(experiments, ESPL__TOTAL_TEXT), FIELD(maximize, ESPL__TOTAL_INT),
	FIELD(simulated, ESPL__TOTAL_INT), FIELD(over, ESPL__TOTAL_INT),
	FIELD(on_cpu, ESPL__TOTAL_INT), FIELD(trials, ESPL__TOTAL_INT),
	FIELD(completed, ESPL__TOTAL_INT), FIELD(early, ESPL__TOTAL_INT),
	FIELD(failed, ESPL__TOTAL_INT), FIELD(running, ESPL__TOTAL_INT),
	FIELD(waiting, ESPL__TOTAL_INT), FIELD(unfinished, ESPL__TOTAL_INT),
	FIELD(failed_attempts, ESPL__TOTAL_INT), FIELD(ever, ESPL__TOTAL_INT),
	FIELD(ever_iteration, ESPL__TOTAL_INT), FIELD(ever_metric, ESPL__TOTAL_REAL),
	FIELD(ever_s, ESPL__TOTAL_REAL), FIELD(best, ESPL__TOTAL_INT),
	FIELD(best_iteration, ESPL__TOTAL_INT), FIELD(best_checkpoint, ESPL__TOTAL_INT),
	FIELD(resizes, ESPL__TOTAL_INT), FIELD(moves, ESPL__TOTAL_INT),
	FIELD(nodes, ESPL__TOTAL_INT), FIELD(nodes_peak, ESPL__TOTAL_INT),
	FIELD(nodes_leaked, ESPL__TOTAL_INT), FIELD(gpus, ESPL__TOTAL_INT),
	FIELD(gpus_busy, ESPL__TOTAL_INT), FIELD(reports, ESPL__TOTAL_INT),
	FIELD(decisions, ESPL__TOTAL_INT), FIELD(calls, ESPL__TOTAL_INT),
	FIELD(confirmed, ESPL__TOTAL_TEXT), FIELD(seeds, ESPL__TOTAL_INT),
	FIELD(best_first, ESPL__TOTAL_INT), FIELD(best_counted, ESPL__TOTAL_INT),
	FIELD(best_spread, ESPL__TOTAL_REAL), FIELD(best_metric, ESPL__TOTAL_REAL),
	FIELD(deadline_s, ESPL__TOTAL_REAL), FIELD(budget_usd, ESPL__TOTAL_REAL),
	FIELD(jct_s, ESPL__TOTAL_REAL), FIELD(cost_usd, ESPL__TOTAL_REAL),
	FIELD(gpu_s, ESPL__TOTAL_REAL), FIELD(busy_gpu_s, ESPL__TOTAL_REAL),
	FIELD(refunded_usd, ESPL__TOTAL_REAL), FIELD(refunded_gpu_s, ESPL__TOTAL_REAL),
	FIELD(selected_s, ESPL__TOTAL_REAL), FIELD(selected_usd, ESPL__TOTAL_REAL),
	FIELD(decision_median_us, ESPL__TOTAL_REAL), FIELD(decision_p95_us, ESPL__TOTAL_REAL),
	FIELD(decision_max_us, ESPL__TOTAL_REAL), FIELD(call_median_us, ESPL__TOTAL_REAL),
	FIELD(call_p95_us, ESPL__TOTAL_REAL), FIELD(call_max_us, ESPL__TOTAL_REAL),
	FIELD(jobs, ESPL__TOTAL_INT), FIELD(jobs_arrived, ESPL__TOTAL_INT),
	FIELD(jobs_to_come, ESPL__TOTAL_INT), FIELD(jobs_done, ESPL__TOTAL_INT),
	FIELD(jobs_failed, ESPL__TOTAL_INT), FIELD(jobs_cancelled, ESPL__TOTAL_INT),
	FIELD(queue_mean_s, ESPL__TOTAL_REAL), FIELD(queue_p95_s, ESPL__TOTAL_REAL),
	FIELD(queue_max_s, ESPL__TOTAL_REAL), FIELD(total_mean_s, ESPL__TOTAL_REAL),
	FIELD(total_p95_s, ESPL__TOTAL_REAL), FIELD(total_max_s, ESPL__TOTAL_REAL),
	FIELD(makespan_s, ESPL__TOTAL_REAL), FIELD(usd_s, ESPL__TOTAL_REAL) };
const uint32_t espl__total_field_count = sizeof espl__total_fields / sizeof espl__total_fields[0];

void
espl__totals_set(char **field, const char *text)
{
	char *copy = espl__strdup(text);

	free(*field);
	*field = copy;
}

int
espl__total_applies(const struct espl__totals *t, const struct espl__total_field *f)
{
	if (f->offset == offsetof(struct espl__totals, confirmed))
		return t->confirmed != NULL;
	return t->seeds > 1 ||
	    (f->offset != offsetof(struct espl__totals, seeds) &&
		f->offset != offsetof(struct espl__totals, best_first) &&
		f->offset != offsetof(struct espl__totals, best_counted) &&
		f->offset != offsetof(struct espl__totals, best_spread));
}

void
espl__totals_init(struct espl__totals *t, const struct espl__run_config *config, int simulated)
{
	memset(t, 0, sizeof *t);
	t->best = t->ever = -1;
	t->ever_metric = t->ever_s = NAN;
	t->best_metric = t->best_spread = t->deadline_s = t->budget_usd = NAN;
	t->simulated = simulated;
	t->status = espl__strdup("running");
	if (config == NULL)
		return;
	t->experiment = espl__strdup(config->name);
	t->metric = espl__strdup(config->metric);
	t->maximize = config->maximize;
	if (config->deadline != ESPL_NEVER)
		t->deadline_s = (double)config->deadline / 1e9;
	if (config->budget != INT64_MAX)
		t->budget_usd = (double)config->budget / 1e6;
}

void
espl__totals_free(struct espl__totals *t)
{
	uint32_t i;

	for (i = 0; i < espl__total_field_count; i++) {
		if (espl__total_fields[i].type == ESPL__TOTAL_TEXT)
			espl__totals_set((char **)(void *)((char *)t +
					     espl__total_fields[i].offset),
			    NULL);
	}
	free(t->outlook);
	t->outlook = NULL;
}

void
espl__totals_pass(struct espl__totals *t, double seconds)
{
	t->jct_s += seconds;
	t->cost_usd += t->usd_s * seconds;
	t->gpu_s += (double)t->gpus * seconds;
}

const char *
espl__run_end_name(enum espl__run_end how)
{
	switch (how) {
	case ESPL__RUN_DONE: return "done";
	case ESPL__RUN_DEADLINE: return "deadline";
	case ESPL__RUN_BUDGET: return "budget";
	case ESPL__RUN_INTERRUPTED: return "interrupted";
	case ESPL__RUN_FAILED: return "failed";
	case ESPL__RUN_CANCELLED: return "cancelled";
	}
	return "running";
}

static void
take_lowest(struct espl__totals *t, const struct espl__lowest *lowest)
{
	int none = lowest->trial == ESPL_NONE;

	t->ever = none ? -1 : (int64_t)lowest->trial;
	t->ever_iteration = (int64_t)lowest->iteration;
	t->ever_metric = none ? NAN : t->maximize ? 0.0 - lowest->loss : lowest->loss;
	t->ever_s = none ? NAN : (double)lowest->at / 1e9;
}

static void
take_best(struct espl__totals *t, const struct espl__exec_summary *s)
{
	t->best = s->best == ESPL_NONE ? -1 : (int64_t)s->best;
	t->best_metric = s->best == ESPL_NONE ? NAN
	    : t->maximize                     ? 0.0 - s->best_loss
					      : s->best_loss;
	t->best_iteration = (int64_t)s->best_iteration;
	t->best_checkpoint = (int64_t)s->best_checkpoint;
	t->seeds = s->seeds;
	t->best_first = (int64_t)s->best_first;
	t->best_counted = s->best_counted;
	t->best_spread = s->best_spread;
	free(t->confirmed);
	t->confirmed = espl__confirmed_json(&s->confirmation, t->maximize != 0);
}

void
espl__totals_take(struct espl__totals *t, const struct espl__exec_summary *s)
{
	espl__totals_set(&t->status, espl__run_end_name(s->how));
	espl__totals_set(&t->text,
	    (s->how == ESPL__RUN_FAILED || s->how == ESPL__RUN_INTERRUPTED || s->found) &&
		    s->text[0] != '\0'
		? s->text
		: NULL);
	espl__totals_set(&t->failure, s->failed > 0 && s->failure[0] != '\0' ? s->failure : NULL);
	t->over = s->over;
	t->on_cpu = s->on_cpu;
	t->trials = (int64_t)s->trials;
	t->completed = (int64_t)(s->finished - s->early);
	t->early = (int64_t)s->early;
	t->failed = (int64_t)s->failed;
	t->running = (int64_t)s->running;
	t->waiting = (int64_t)s->waiting;
	t->unfinished = (int64_t)s->unfinished;
	t->failed_attempts = (int64_t)s->failed_attempts;
	take_lowest(t, &s->lowest);
	if (s->found || s->how == ESPL__RUN_DEADLINE || s->how == ESPL__RUN_BUDGET) {
		/* none of those that it did not wait for will be continued */
		t->unfinished += t->running + t->waiting;
		t->running = t->waiting = 0;
	}
	take_best(t, s);
	t->jct_s = (double)s->now / 1e9;
	t->cost_usd = (double)s->cost / 1e6;
	t->gpu_s = s->gpu_s;
	t->busy_gpu_s = s->busy_gpu_s;
	t->usd_s = s->usd_s;
	t->refunded_usd = s->refunded > 0 ? (double)s->refunded / 1e6 : NAN;
	t->refunded_gpu_s = s->refunded > 0 ? s->refunded_gpu_s : NAN;
	t->selected_s = s->promoted_at > 0 ? (double)s->promoted_at / 1e9 : NAN;
	t->selected_usd = s->promoted_at > 0 ? (double)s->promoted_cost / 1e6 : NAN;
	t->resizes = (int64_t)s->resizes;
	t->moves = (int64_t)s->moves;
	t->nodes = s->nodes;
	t->nodes_peak = s->nodes_peak;
	t->nodes_leaked = s->nodes_leaked;
	t->gpus = s->gpus;
	t->gpus_busy = s->gpus_busy;
	t->reports = (int64_t)s->reports;
	t->decisions = (int64_t)s->decisions;
	t->decision_median_us = espl__quantiles_at(&s->decision_times, 0.5) / 1e3;
	t->decision_p95_us = espl__quantiles_at(&s->decision_times, 0.95) / 1e3;
	t->decision_max_us = (double)s->decision_times.max / 1e3;
	t->calls = (int64_t)s->calls;
	t->call_median_us = espl__quantiles_at(&s->call_times, 0.5) / 1e3;
	t->call_p95_us = espl__quantiles_at(&s->call_times, 0.95) / 1e3;
	t->call_max_us = (double)s->call_times.max / 1e3;
	t->jobs = s->jobs.jobs;
	t->jobs_arrived = s->jobs.arrived;
	t->jobs_to_come = s->jobs.to_come;
	t->jobs_done = s->jobs.done;
	t->jobs_failed = s->jobs.failed;
	t->jobs_cancelled = s->jobs.cancelled;
	t->queue_mean_s = s->jobs.queue_s.mean;
	t->queue_p95_s = s->jobs.queue_s.p95;
	t->queue_max_s = s->jobs.queue_s.max;
	t->total_mean_s = s->jobs.total_s.mean;
	t->total_p95_s = s->jobs.total_s.p95;
	t->total_max_s = s->jobs.total_s.max;
	t->makespan_s = s->jobs.makespan_s;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* middle: what the first of them is. */
static void
put_spread(struct espl__buf *b, const char *name, const char *middle, double first, double p95,
    double max)
{
	espl__json_open(b, name, '{');
	espl__json_real(b, middle, first);
	espl__json_real(b, "p95", p95);
	espl__json_real(b, "max", max);
	espl__print(b, "}");
}

/* The trial's last checkpoint; of a simulated one there is none. */
static void
put_checkpoint(struct espl__buf *b, uint64_t trial, int64_t iteration, int simulated)
{
	espl__json_key(b, "checkpoint");
	if (iteration <= 0 || simulated) {
		espl__print(b, "null");
		return;
	}
	espl__print(b, "\"");
	espl__totals_put_checkpoint(b, trial, iteration);
	espl__print(b, "\"");
}

/* The metric is a mean: of how many trials, which, and how far they are apart. */
static void
put_seeds(const struct espl__totals *t, struct espl__buf *b)
{
	espl__json_real(b, "spread", t->best_spread);
	espl__json_int(b, "counted", t->best_counted);
	espl__json_open(b, "trials", '[');
	for (int64_t i = 0; i < t->seeds; i++)
		espl__json_int(b, NULL, t->best_first + i);
	espl__print(b, "]");
}

static void
put_best(const struct espl__totals *t, struct espl__buf *b)
{
	if (t->best < 0) {
		espl__json_text(b, "best", NULL);
		return;
	}
	espl__json_open(b, "best", '{');
	espl__json_int(b, "trial", t->best);
	espl__json_real(b, "metric", t->best_metric);
	espl__json_int(b, "iteration", t->best_iteration);
	if (t->seeds > 1)
		put_seeds(t, b);
	espl__json_raw(b, "params", t->best_params != NULL ? t->best_params : "{}");
	put_checkpoint(b, (uint64_t)t->best, t->best_checkpoint, t->simulated != 0);
	espl__print(b, "}");
}

/* The best value of all reports. */
static void
put_ever(struct espl__buf *b, int64_t trial, double metric, int64_t iteration, double at_s)
{
	if (trial < 0) {
		espl__json_text(b, "best_ever", NULL);
		return;
	}
	espl__json_open(b, "best_ever", '{');
	espl__json_int(b, "trial", trial);
	espl__json_real(b, "metric", metric);
	espl__json_int(b, "iteration", iteration);
	espl__json_real(b, "at_s", at_s);
	espl__print(b, "}");
}

static void
put_jobs(const struct espl__totals *t, struct espl__buf *b)
{
	espl__json_open(b, "jobs", '{');
	espl__json_int(b, "count", t->jobs);
	espl__json_int(b, "arrived", t->jobs_arrived);
	espl__json_int(b, "done", t->jobs_done);
	espl__json_int(b, "failed", t->jobs_failed);
	espl__json_int(b, "cancelled", t->jobs_cancelled);
	put_spread(b, "queue_s", "mean", t->queue_mean_s, t->queue_p95_s, t->queue_max_s);
	put_spread(b, "total_s", "mean", t->total_mean_s, t->total_p95_s, t->total_max_s);
	espl__json_real(b, "makespan_s", t->makespan_s);
	espl__print(b, "}");
}

static void
put_forecast(const struct espl__totals *t, struct espl__buf *b)
{
	struct espl__buf text = { NULL, 0, 0 };

	if (espl__totals_outlook(t) == NULL)
		return;
	espl__outlook_json(t->outlook, &text);
	espl__json_raw(b, "forecast", espl__buf_text(&text));
	espl__buf_free(&text);
}

static void
put_sentence(const struct espl__totals *t, struct espl__buf *b)
{
	struct espl__buf text = { NULL, 0, 0 };

	espl__totals_sentence(t, &text);
	espl__json_text(b, "sentence", espl__buf_text(&text));
	espl__buf_free(&text);
}

void
espl__totals_json(const struct espl__totals *t, const char *event, int more, struct espl__buf *b)
{
	espl__print(b, "{");
	espl__json_text(b, "event", event);
	espl__json_text(b, "status", t->status);
	espl__json_text(b, "experiment", t->experiment);
	espl__json_int(b, "trials", t->trials);
	espl__json_int(b, "completed", t->completed);
	espl__json_int(b, "stopped_early", t->early);
	espl__json_int(b, "failed", t->failed);
	if (t->unfinished > 0)
		espl__json_int(b, "unfinished", t->unfinished);
	espl__json_int(b, "finished", espl__totals_finished(t));
	espl__json_int(b, "failed_attempts", t->failed_attempts);
	espl__json_text(b, "outcome", espl__totals_outcome(t));
	if (t->failure != NULL)
		espl__json_text(b, "failure", t->failure);
	put_best(t, b);
	if (t->confirmed != NULL)
		espl__json_raw(b, "confirmed", t->confirmed);
	put_ever(b, t->ever, t->ever_metric, t->ever_iteration, t->ever_s);
	espl__json_real(b, "jct_s", t->jct_s);
	espl__json_real(b, "cost_usd", t->cost_usd);
	espl__json_real(b, "gpu_s", t->gpu_s);
	espl__json_real(b, "busy_gpu_s", t->busy_gpu_s);
	if (t->refunded_usd > 0) {
		espl__json_real(b, "refunded_usd", t->refunded_usd);
		espl__json_real(b, "refunded_gpu_s", t->refunded_gpu_s);
	}
	if (t->selected_s > 0) {
		espl__json_real(b, "selected_s", t->selected_s);
		espl__json_real(b, "selected_usd", t->selected_usd);
	}
	put_sentence(t, b);
	put_forecast(t, b);
	espl__json_int(b, "resizes", t->resizes);
	espl__json_int(b, "moves", t->moves);
	espl__json_int(b, "nodes_peak", t->nodes_peak);
	espl__json_int(b, "nodes_leaked", t->nodes_leaked);
	espl__json_int(b, "decisions", t->decisions);
	put_spread(b, "decision_us", "median", t->decision_median_us, t->decision_p95_us,
	    t->decision_max_us);
	espl__json_int(b, "calls", t->calls);
	put_spread(b, "call_us", "median", t->call_median_us, t->call_p95_us, t->call_max_us);
	if (t->jobs > 0)
		put_jobs(t, b);
	if (t->experiments != NULL)
		espl__json_raw(b, "experiments", t->experiments);
	if (t->text != NULL)
		espl__json_text(b, strcmp(t->status, "done") == 0 ? "reason" : "error", t->text);
	if (more) {
		espl__json_text(b, "metric", t->metric);
		espl__json_text(b, "goal", t->maximize ? "maximize" : "minimize");
		espl__json_int(b, "running", t->running);
		espl__json_int(b, "paused", espl__totals_paused(t));
		espl__json_int(b, "waiting", t->waiting);
		espl__json_int(b, "reports", t->reports);
		espl__json_int(b, "nodes", t->nodes);
		espl__json_int(b, "gpus", t->gpus);
		espl__json_int(b, "gpus_busy", t->gpus_busy);
		espl__json_real(b, "deadline_s", t->deadline_s);
		espl__json_real(b, "budget_usd", t->budget_usd);
	}
	espl__print(b, "}");
}

void
espl__infeasible_json(double least_s, double least_usd, struct espl__buf *b)
{
	espl__print(b, "{\"feasible\": false, \"least\": {");
	if (!isnan(least_s))
		espl__json_real(b, "jct_s", least_s);
	if (!isnan(least_usd))
		espl__json_real(b, "cost_usd", least_usd);
	espl__print(b, "}}\n");
}

const char *
espl__experiment_state(const struct espl__search_summary *s)
{
	if (s->how != 0)
		return espl__run_end_name(s->how);
	return !s->come      ? "to come"
	    : s->running > 0 ? "running"
	    : s->waiting > 0 ? "waiting"
			     : "idle";
}

static void
put_experiment(const struct espl__exec *exec, uint64_t number, const struct espl__search_summary *s,
    int simulated, struct espl__buf *b)
{
	const struct espl__inputs *of = espl__exec_search_of(exec, number);
	uint64_t id = number << ESPL__TRIAL_BITS | s->best;
	const struct espl_trial *best = s->best == ESPL_NONE ? NULL : espl__exec_trial(exec, id);

	espl__json_open(b, NULL, '{');
	espl__json_text(b, "name", s->name);
	espl__json_text(b, "status", espl__experiment_state(s));
	espl__json_int(b, "number", (int64_t)number);
	espl__json_real(b, "arrived_s", s->arrived == ESPL_NEVER ? NAN : (double)s->arrived / 1e9);
	espl__json_real(b, "ended_s", s->ended == ESPL_NEVER ? NAN : (double)s->ended / 1e9);
	espl__json_int(b, "trials", (int64_t)s->trials);
	espl__json_int(b, "completed", (int64_t)(s->finished - s->early));
	espl__json_int(b, "stopped_early", (int64_t)s->early);
	espl__json_int(b, "failed", (int64_t)s->failed);
	espl__json_int(b, "finished", (int64_t)s->finished);
	if (s->unfinished > 0)
		espl__json_int(b, "unfinished", (int64_t)s->unfinished);
	if (best == NULL) {
		espl__json_text(b, "best", NULL);
	} else {
		espl__json_open(b, "best", '{');
		espl__json_int(b, "trial", (int64_t)s->best);
		espl__json_real(b, "metric", s->maximize ? 0.0 - s->best_loss : s->best_loss);
		espl__json_int(b, "iteration", (int64_t)s->best_iteration);
		if (s->seeds > 1)
			espl__json_real(b, "spread", s->best_spread);
		espl__json_key(b, "params");
		espl__space_json(of->space, best->values, b);
		put_checkpoint(b, id, (int64_t)espl__exec_trial_info(exec, id).kept, simulated);
		espl__print(b, "}");
	}
	put_ever(b, s->lowest.trial == ESPL_NONE ? -1 : (int64_t)s->lowest.trial,
	    s->maximize ? 0.0 - s->lowest.loss : s->lowest.loss, (int64_t)s->lowest.iteration,
	    (double)s->lowest.at / 1e9);
	espl__json_real(b, "gpu_s", s->gpu_s);
	espl__json_real(b, "cost_usd", (double)s->spent / 1e6);
	if (s->text != NULL)
		espl__json_text(b, "text", s->text);
	espl__print(b, "}");
}

void
espl__totals_experiments(struct espl__totals *t, const struct espl__exec *exec)
{
	struct espl__search_summary s;
	struct espl__buf b = { NULL, 0, 0 };

	for (uint64_t i = 0; espl__exec_search_of(exec, i) != NULL; i++) {
		if (!espl__exec_view(exec).pool || !espl__exec_search_sum(exec, i, &s))
			continue;
		if (b.size == 0)
			espl__print(&b, "[");
		put_experiment(exec, i, &s, t->simulated != 0, &b);
	}
	if (b.size > 0)
		espl__print(&b, "]");
	espl__totals_set(&t->experiments, b.size > 0 ? espl__buf_text(&b) : NULL);
	espl__buf_free(&b);
}
