/* totals.c - the numbers of a run: taken from the executor, printed for programs (totals_text.c:
 * for people). */
#include "report/totals.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

/* clang-format off */
#define FIELD(name_, type_) { #name_, type_, offsetof(struct espl__totals, name_) }
/* clang-format on */
const struct espl__total_field espl__total_fields[] = { FIELD(status, ESPL__TOTAL_TEXT),
	FIELD(text, ESPL__TOTAL_TEXT), FIELD(failure, ESPL__TOTAL_TEXT),
	FIELD(experiment, ESPL__TOTAL_TEXT), FIELD(metric, ESPL__TOTAL_TEXT),
	FIELD(best_params, ESPL__TOTAL_TEXT), FIELD(experiments, ESPL__TOTAL_TEXT),
	FIELD(maximize, ESPL__TOTAL_INT), FIELD(simulated, ESPL__TOTAL_INT),
	FIELD(over, ESPL__TOTAL_INT), FIELD(on_cpu, ESPL__TOTAL_INT),
	FIELD(trials, ESPL__TOTAL_INT), FIELD(completed, ESPL__TOTAL_INT),
	FIELD(early, ESPL__TOTAL_INT), FIELD(failed, ESPL__TOTAL_INT),
	FIELD(running, ESPL__TOTAL_INT), FIELD(waiting, ESPL__TOTAL_INT),
	FIELD(best, ESPL__TOTAL_INT), FIELD(best_iteration, ESPL__TOTAL_INT),
	FIELD(best_checkpoint, ESPL__TOTAL_INT), FIELD(resizes, ESPL__TOTAL_INT),
	FIELD(nodes, ESPL__TOTAL_INT), FIELD(nodes_peak, ESPL__TOTAL_INT),
	FIELD(nodes_leaked, ESPL__TOTAL_INT), FIELD(gpus, ESPL__TOTAL_INT),
	FIELD(gpus_busy, ESPL__TOTAL_INT), FIELD(reports, ESPL__TOTAL_INT),
	FIELD(decisions, ESPL__TOTAL_INT), FIELD(calls, ESPL__TOTAL_INT),
	FIELD(best_metric, ESPL__TOTAL_REAL), FIELD(deadline_s, ESPL__TOTAL_REAL),
	FIELD(budget_usd, ESPL__TOTAL_REAL), FIELD(jct_s, ESPL__TOTAL_REAL),
	FIELD(cost_usd, ESPL__TOTAL_REAL), FIELD(gpu_s, ESPL__TOTAL_REAL),
	FIELD(busy_gpu_s, ESPL__TOTAL_REAL), FIELD(decision_median_us, ESPL__TOTAL_REAL),
	FIELD(decision_p95_us, ESPL__TOTAL_REAL), FIELD(decision_max_us, ESPL__TOTAL_REAL),
	FIELD(call_median_us, ESPL__TOTAL_REAL), FIELD(call_p95_us, ESPL__TOTAL_REAL),
	FIELD(call_max_us, ESPL__TOTAL_REAL), FIELD(jobs, ESPL__TOTAL_INT),
	FIELD(jobs_arrived, ESPL__TOTAL_INT), FIELD(jobs_to_come, ESPL__TOTAL_INT),
	FIELD(jobs_done, ESPL__TOTAL_INT), FIELD(jobs_failed, ESPL__TOTAL_INT),
	FIELD(jobs_cancelled, ESPL__TOTAL_INT), FIELD(queue_mean_s, ESPL__TOTAL_REAL),
	FIELD(queue_p95_s, ESPL__TOTAL_REAL), FIELD(queue_max_s, ESPL__TOTAL_REAL),
	FIELD(total_mean_s, ESPL__TOTAL_REAL), FIELD(total_p95_s, ESPL__TOTAL_REAL),
	FIELD(total_max_s, ESPL__TOTAL_REAL), FIELD(makespan_s, ESPL__TOTAL_REAL) };
const uint32_t espl__total_field_count = sizeof espl__total_fields / sizeof espl__total_fields[0];

/* A folder within the run's. */
void
espl__totals_put_checkpoint(struct espl__buf *b, uint64_t trial, int64_t iteration)
{
	char *folder = espl__trial_folder("", trial);

	espl__print(b, "%s/checkpoint-%lld", folder + 1, (long long)iteration);
	free(folder);
}

void
espl__totals_set(char **field, const char *text)
{
	char *copy = espl__strdup(text);

	free(*field);
	*field = copy;
}

void
espl__totals_init(struct espl__totals *t, const struct espl__run_config *config, int simulated)
{
	memset(t, 0, sizeof *t);
	t->best = -1;
	t->best_metric = t->deadline_s = t->budget_usd = NAN;
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

void
espl__totals_take(struct espl__totals *t, const struct espl__exec_summary *s)
{
	espl__totals_set(&t->status, espl__run_end_name(s->how));
	espl__totals_set(&t->text,
	    (s->how == ESPL__RUN_FAILED || s->how == ESPL__RUN_INTERRUPTED) && s->text[0] != '\0'
		? s->text
		: NULL);
	espl__totals_set(&t->failure, s->failed > 0 && s->failure[0] != '\0' ? s->failure : NULL);
	t->over = s->over;
	t->on_cpu = s->on_cpu;
	t->trials = (int64_t)s->trials;
	t->completed = (int64_t)s->completed;
	t->early = (int64_t)s->early;
	t->failed = (int64_t)s->failed;
	t->running = (int64_t)s->running;
	t->waiting = (int64_t)s->waiting;
	t->best = s->best == ESPL_NONE ? -1 : (int64_t)s->best;
	t->best_metric = s->best == ESPL_NONE ? NAN
	    : t->maximize                     ? 0.0 - s->best_loss
					      : s->best_loss;
	t->best_iteration = (int64_t)s->best_iteration;
	t->best_checkpoint = (int64_t)s->best_checkpoint;
	t->jct_s = (double)s->now / 1e9;
	t->cost_usd = (double)s->cost / 1e6;
	t->gpu_s = s->gpu_s;
	t->busy_gpu_s = s->busy_gpu_s;
	t->resizes = (int64_t)s->resizes;
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

static void
put_text(struct espl__buf *b, const char *name, const char *text)
{
	espl__print(b, ", \"%s\": ", name);
	if (text == NULL)
		espl__print(b, "null");
	else
		espl__print_json(b, text);
}

static void
put_int(struct espl__buf *b, const char *name, int64_t value)
{
	espl__print(b, ", \"%s\": %lld", name, (long long)value);
}

static void
put_real(struct espl__buf *b, const char *name, double value)
{
	espl__print(b, ", \"%s\": ", name);
	espl__print_number(b, value);
}

/* middle: what the first of them is. */
static void
put_spread(struct espl__buf *b, const char *name, const char *middle, double first, double p95,
    double max)
{
	espl__print(b, ", \"%s\": {\"%s\": ", name, middle);
	espl__print_number(b, first);
	put_real(b, "p95", p95);
	put_real(b, "max", max);
	espl__print(b, "}");
}

static void
put_best(const struct espl__totals *t, struct espl__buf *b)
{
	if (t->best < 0) {
		espl__print(b, ", \"best\": null");
		return;
	}
	espl__print(b, ", \"best\": {\"trial\": %lld", (long long)t->best);
	put_real(b, "metric", t->best_metric);
	put_int(b, "iteration", t->best_iteration);
	espl__print(b,
	    ", \"params\": %s, \"checkpoint\": ", t->best_params != NULL ? t->best_params : "{}");
	if (t->best_checkpoint > 0 && !t->simulated) {
		espl__print(b, "\"");
		espl__totals_put_checkpoint(b, (uint64_t)t->best, t->best_checkpoint);
		espl__print(b, "\"}");
	} else {
		espl__print(b, "null}");
	}
}

static void
put_jobs(const struct espl__totals *t, struct espl__buf *b)
{
	espl__print(b,
	    ", \"jobs\": {\"count\": %lld, \"arrived\": %lld, \"done\": %lld, \"failed\": %lld, "
	    "\"cancelled\": %lld",
	    (long long)t->jobs, (long long)t->jobs_arrived, (long long)t->jobs_done,
	    (long long)t->jobs_failed, (long long)t->jobs_cancelled);
	put_spread(b, "queue_s", "mean", t->queue_mean_s, t->queue_p95_s, t->queue_max_s);
	put_spread(b, "total_s", "mean", t->total_mean_s, t->total_p95_s, t->total_max_s);
	put_real(b, "makespan_s", t->makespan_s);
	espl__print(b, "}");
}

void
espl__totals_json(const struct espl__totals *t, const char *event, int more, struct espl__buf *b)
{
	espl__print(b, "{\"event\": ");
	espl__print_json(b, event);
	put_text(b, "status", t->status);
	put_text(b, "experiment", t->experiment);
	put_int(b, "trials", t->trials);
	put_int(b, "completed", t->completed);
	put_int(b, "stopped_early", t->early);
	put_int(b, "failed", t->failed);
	if (t->failure != NULL)
		put_text(b, "failure", t->failure);
	put_best(t, b);
	put_real(b, "jct_s", t->jct_s);
	put_real(b, "cost_usd", t->cost_usd);
	put_real(b, "gpu_s", t->gpu_s);
	put_real(b, "busy_gpu_s", t->busy_gpu_s);
	put_int(b, "resizes", t->resizes);
	put_int(b, "nodes_peak", t->nodes_peak);
	put_int(b, "nodes_leaked", t->nodes_leaked);
	put_int(b, "decisions", t->decisions);
	put_spread(b, "decision_us", "median", t->decision_median_us, t->decision_p95_us,
	    t->decision_max_us);
	put_int(b, "calls", t->calls);
	put_spread(b, "call_us", "median", t->call_median_us, t->call_p95_us, t->call_max_us);
	if (t->jobs > 0)
		put_jobs(t, b);
	if (t->experiments != NULL)
		espl__print(b, ", \"experiments\": %s", t->experiments);
	if (t->text != NULL)
		put_text(b, "error", t->text);
	if (more) {
		put_text(b, "metric", t->metric);
		put_text(b, "goal", t->maximize ? "maximize" : "minimize");
		put_int(b, "running", t->running);
		put_int(b, "paused", espl__totals_paused(t));
		put_int(b, "waiting", t->waiting);
		put_int(b, "reports", t->reports);
		put_int(b, "nodes", t->nodes);
		put_int(b, "gpus", t->gpus);
		put_int(b, "gpus_busy", t->gpus_busy);
		put_real(b, "deadline_s", t->deadline_s);
		put_real(b, "budget_usd", t->budget_usd);
	}
	espl__print(b, "}");
}

void
espl__infeasible_json(double least_s, double least_usd, struct espl__buf *b)
{
	const char *gap = "";

	espl__print(b, "{\"feasible\": false, \"least\": {");
	if (!isnan(least_s)) {
		espl__print(b, "\"jct_s\": ");
		espl__print_number(b, least_s);
		gap = ", ";
	}
	if (!isnan(least_usd)) {
		espl__print(b, "%s\"cost_usd\": ", gap);
		espl__print_number(b, least_usd);
	}
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
	const struct espl__session *of = espl__exec_search_of(exec, number);
	uint64_t id = number << ESPL__TRIAL_BITS | s->best;
	const struct espl_trial *best = s->best == ESPL_NONE ? NULL : espl__exec_trial(exec, id);

	espl__print(b, "{\"name\": ");
	espl__print_json(b, s->name);
	put_text(b, "status", espl__experiment_state(s));
	put_int(b, "number", (int64_t)number);
	put_real(b, "arrived_s", s->arrived == ESPL_NEVER ? NAN : (double)s->arrived / 1e9);
	put_real(b, "ended_s", s->ended == ESPL_NEVER ? NAN : (double)s->ended / 1e9);
	put_int(b, "trials", (int64_t)s->trials);
	put_int(b, "completed", (int64_t)s->completed);
	put_int(b, "stopped_early", (int64_t)s->early);
	put_int(b, "failed", (int64_t)s->failed);
	if (best == NULL) {
		espl__print(b, ", \"best\": null");
	} else {
		espl__print(b, ", \"best\": {\"trial\": %llu", (unsigned long long)s->best);
		put_real(b, "metric", s->maximize ? 0.0 - s->best_loss : s->best_loss);
		put_int(b, "iteration", (int64_t)s->best_iteration);
		espl__print(b, ", \"params\": ");
		espl__space_json(of->space, best->values, b);
		espl__print(b, ", \"checkpoint\": ");
		if (best->checkpoint > 0 && !simulated) {
			espl__print(b, "\"");
			espl__totals_put_checkpoint(b, id, (int64_t)best->checkpoint);
			espl__print(b, "\"}");
		} else {
			espl__print(b, "null}");
		}
	}
	put_real(b, "gpu_s", s->gpu_s);
	put_real(b, "cost_usd", (double)s->spent / 1e6);
	if (s->text != NULL)
		put_text(b, "text", s->text);
	espl__print(b, "}");
}

void
espl__totals_experiments(struct espl__totals *t, const struct espl__exec *exec)
{
	struct espl__search_summary s;
	struct espl__buf b = { NULL, 0, 0 };

	for (uint64_t i = 0; espl__exec_search_of(exec, i) != NULL; i++) {
		if (!espl__exec_pool(exec) || !espl__exec_search_sum(exec, i, &s))
			continue;
		espl__print(&b, b.size == 0 ? "[" : ", ");
		put_experiment(exec, i, &s, t->simulated != 0, &b);
	}
	if (b.size > 0)
		espl__print(&b, "]");
	espl__totals_set(&t->experiments, b.size > 0 ? espl__buf_text(&b) : NULL);
	espl__buf_free(&b);
}

/* ---- text ---------------------------------------------------------------------------------- */

int64_t
espl__totals_paused(const struct espl__totals *t)
{
	return t->trials - t->completed - t->failed - t->running - t->waiting;
}
