/* sim_train.c - where simulated trials get their metrics: a C trainable evaluated in this process,
 * or recorded curves.  Their checkpoints are in sim_state.c.
 */
#include <math.h>
#include <string.h>
#include "base/assert.h"
#include "check/lone_trial.h"
#include "model/trials.h"
#include "plugin/instance.h"
#include "sim/sim_impl.h"

enum { METRICS_MAX = 1024, TEXT_ROOM = 320 };

const struct espl_trainable_ops *
espl__sim_ops(const struct espl__sim_gang *gang)
{
	return (const struct espl_trainable_ops *)(const void *)gang->source->trainable->ops;
}

/* ---- opening and closing the sources ------------------------------------------------- */

static espl_status
open_curves(struct espl__sim_source *source, struct espl__diag *diag)
{
	espl_status status =
	    espl__curves_of(&source->of->config->trial, source->of->space, &source->curves, diag);
	uint32_t count;

	if (status != ESPL_OK)
		return status;
	count = espl__curves_metric_count(source->curves);
	source->curve_metrics = espl__realloc(NULL, count + 1, sizeof *source->curve_metrics);
	for (uint32_t i = 0; i < count; i++)
		source->curve_metrics[i] = ESPL_ANY;
	return ESPL_OK;
}

static espl_status
open_trainable(struct espl__sim *sim, struct espl__sim_source *source, struct espl__diag *diag)
{
	const struct espl__trial_config *trial = &source->of->config->trial;
	struct espl__host_env env = sim->env;
	const struct espl__plugin *plugin;
	const struct espl_trainable_ops *ops;
	const struct espl__node *last;
	espl_status status;

	status = espl__plugin_find(ESPL_TRAINABLE, trial->trainable, &plugin, diag);
	if (status != ESPL_OK)
		return status;
	if (plugin->desc->caps & ESPL_NEED_CUDA) {
		espl__fail(diag, ESPL_E_CONFIG,
		    "trainable '%s' needs a GPU and cannot be evaluated in a simulation",
		    trial->trainable);
		espl__hint(diag, "record its learning curves and give them as trial.curves");
		return ESPL_E_CONFIG;
	}
	env.seed = source->seed;
	env.directory = source->of->config->directory;
	status = espl__instance_of(plugin, trial->options, &env, &source->trainable, diag);
	if (status != ESPL_OK)
		return status;
	ops = (const struct espl_trainable_ops *)(const void *)source->trainable->ops;
	if (!ESPL_HAS(struct espl_trainable_ops, ops, open) ||
	    !ESPL_HAS(struct espl_trainable_ops, ops, step))
		return espl__fail(diag, ESPL_E_CONFIG, "trainable '%s' lacks open or step",
		    trial->trainable);
	source->stateful = ESPL_HAS(struct espl_trainable_ops, ops, regions) ||
	    (ESPL_HAS(struct espl_trainable_ops, ops, save) &&
		ESPL_HAS(struct espl_trainable_ops, ops, load));
	last = espl__node_get(source->of->config->algorithm.group, "iterations_max");
	source->iterations_max = source->of->config->resource == NULL && last != NULL &&
		last->type == ESPL__INT && last->i > 0
	    ? (uint64_t)last->i
	    : 0;
	sim->device = (struct espl_device){ .size = (uint32_t)sizeof sim->device,
		.kind = ESPL_CPU,
		.packing = 1,
		.threads = 1,
		.uuid = "" };
	espl__lone_comm_init(&sim->comm);
	return ESPL_OK;
}

static espl_status
open_source(struct espl__sim *sim, struct espl__sim_source *source, struct espl__diag *diag)
{
	const struct espl__run_config *config = source->of->config;
	const struct espl__trial_config *trial = &config->trial;
	const struct espl__node *group = espl__node_get(espl__tree_root(config->tree), "trial"),
				*at = espl__node_get(group, "command");

	if (source->of->jobs != NULL || sim->learned != NULL)
		return ESPL_OK; /* how long jobs take is known; they report nothing */
	if (trial->curves != NULL)
		return open_curves(source, diag);
	if (trial->trainable != NULL)
		return open_trainable(sim, source, diag);
	if (at == NULL)
		at = group;
	(void)espl__fail_at(diag, ESPL_E_CONFIG, at != NULL ? at->file : config->path,
	    at != NULL ? at->line : 0, "%s",
	    trial->command_count > 0
		? "cannot simulate a command because its reports are unknown"
		: "nothing to simulate: neither trial.trainable nor trial.curves is set");
	espl__hint(diag,
	    "set trial.curves to replay the learning curves of a CSV file or a run, or "
	    "trial.trainable to train in the process%s",
	    sim->config->pool ? "" : ", or use --curves-from RUN");
	return ESPL_E_CONFIG;
}

static void
close_source(struct espl__sim_source *source)
{
	if (source == NULL)
		return;
	espl__instance_destroy(source->trainable);
	espl__curves_free(source->curves);
	free(source->curve_metrics);
	free(source);
}

/* What takes time besides iterations. */
static void
take_times(const struct espl__sim *sim, struct espl__sim_source *source)
{
	static const struct espl_latency none = { .size = (uint32_t)sizeof none,
		.kind = ESPL_CONSTANT };
	const struct espl__learned *learned = sim->learned;
	const struct espl__profile *p = espl__sim_profile(source->of);

	source->start = p != NULL ? &p->start : &none;
	source->restore = p != NULL ? &p->restore : &none;
	source->save = p != NULL ? &p->checkpoint : &none;
	source->resize = p != NULL ? &p->resize : &none;
	if (learned == NULL || source->of->jobs != NULL)
		return;
	source->restore = espl__learned_span(learned, ESPL__SPAN_WARM, source->start);
	source->start = espl__learned_span(learned, ESPL__SPAN_START, &none);
	source->save = espl__learned_span(learned, ESPL__SPAN_SAVE, source->save);
	source->resize = espl__learned_span(learned, ESPL__SPAN_RESIZE, source->resize);
}

struct espl__sim_source *
espl__sim_source(struct espl__sim *sim, uint32_t number, struct espl__diag *diag)
{
	struct espl__sim_source *source;

	ESPL__CHECK(sim, SIM);
	if (number < sim->source_count && sim->sources[number] != NULL)
		return sim->sources[number];
	source = espl__alloc(sizeof *source);
	source->of = sim->config->pool ? espl__exec_search_of(sim->head.exec, number) : sim->own;
	source->seed =
	    sim->config->pool && source->of != NULL ? source->of->config->seed : sim->seed;
	if (source->of == NULL || open_source(sim, source, diag) != ESPL_OK) {
		close_source(source);
		return NULL;
	}
	take_times(sim, source);
	ESPL__GROW(sim->sources, sim->source_cap, number + 1);
	while (sim->source_count <= number)
		sim->sources[sim->source_count++] = NULL;
	sim->sources[number] = source;
	return source;
}

void
espl__sim_train_free(struct espl__sim *sim)
{
	ESPL__CHECK(sim, SIM);
	espl__buf_free(&sim->scratch);
	for (uint32_t i = 0; i < sim->source_count; i++)
		close_source(sim->sources[i]);
	free(sim->sources);
}

/* ---- failures ------------------------------------------------------------------------ */

int
espl__sim_body_broken(struct espl__sim_gang *gang, const char *doing, espl_status status,
    const struct espl_error *error)
{
	free(gang->text);
	gang->text = error->text[0] != '\0'
	    ? espl__format("%s: %.240s", doing, error->text)
	    : espl__format("%s: failed with status %d", doing, (int)status);
	return -1;
}

/* ---- a trial's body ------------------------------------------------------------------ */

int
espl__sim_body_begin(struct espl__sim *sim, struct espl__sim_gang *gang, const double *values)
{
	struct espl_error error;
	espl_status status;
	uint64_t seed, seed_of = gang->trial;

	ESPL__CHECK(sim, SIM);
	if (sim->head.exec != NULL) /* a test may play the world alone */
		seed_of = espl__exec_trial_info(sim->head.exec,
		    (uint64_t)gang->experiment << ESPL__TRIAL_BITS | gang->trial)
			      .seed_of;
	seed = espl__trial_seed(gang->source->seed, seed_of);
	espl__space_settings(gang->source->of->space, values, &gang->settings);
	gang->context = (struct espl_trial_context){ .size = (uint32_t)sizeof gang->context,
		.setting_count = gang->settings.count,
		.settings = gang->settings.list,
		.trial = gang->trial,
		.seed = seed,
		.budget = gang->budget,
		.iterations_max =
		    gang->source->iterations_max > 0 ? gang->source->iterations_max : gang->budget,
		.device = &sim->device,
		.comm = &sim->comm,
		.scratch = "" };
	espl__sim_no_error(&error);
	status = espl__sim_ops(gang)->open(gang->source->trainable->self, &gang->context,
	    &gang->body, &error);
	if (status == ESPL_OK)
		return 0;
	gang->body = NULL;
	return espl__sim_body_broken(gang, "cannot start", status, &error);
}

void
espl__sim_body_close(struct espl__sim_gang *gang)
{
	if (gang->body != NULL && ESPL_HAS(struct espl_trainable_ops, espl__sim_ops(gang), close))
		espl__sim_ops(gang)->close(gang->body);
	gang->body = NULL;
	if (gang->settings.list != NULL)
		espl__settings_free(&gang->settings);
}

/* ---- an iteration -------------------------------------------------------------------- */

struct report_sink {
	struct espl_report_sink head;
	struct espl__sim *sim;
	const struct espl__sim_fault *nan;
	uint32_t first;
	int finished;
};

static uint32_t
number_of(struct espl__sim *sim, const char *name)
{
	uint32_t known = sim->names.count, number = espl__names_add(&sim->names, name);

	if (number == known)
		espl__sim_add_event(sim, ESPL__EV_METRIC)->as.metric = sim->names.names[number];
	return number;
}

static void
add_metric(struct espl__sim *sim, uint32_t number, double value, const struct espl__sim_fault *nan)
{
	if (nan != NULL &&
	    (nan->metric == NULL || strcmp(nan->metric, sim->names.names[number]) == 0))
		value = NAN;
	ESPL__GROW(sim->metrics, sim->metric_cap, sim->metric_count + 1);
	sim->metrics[sim->metric_count++] = (struct espl__metric){ number, 0, value };
}

static espl_status
on_metric(struct espl_report_sink *head, const char *name, double value)
{
	struct report_sink *sink = (struct report_sink *)(void *)head;
	struct espl__sim *sim = sink->sim;
	uint32_t number;

	if (name == NULL || name[0] == '\0')
		return ESPL_E_REJECTED;
	if (sim->metric_count - sink->first >= METRICS_MAX)
		return ESPL_E_LIMIT;
	number = number_of(sim, name);
	for (uint32_t i = sink->first; i < sim->metric_count; i++)
		if (sim->metrics[i].metric == number) { /* said twice: the later one counts */
			if (sink->nan == NULL)
				sim->metrics[i].value = value;
			return ESPL_OK;
		}
	add_metric(sim, number, value, sink->nan);
	return ESPL_OK;
}

static espl_status
on_finished(struct espl_report_sink *head)
{
	((struct report_sink *)(void *)head)->finished = 1;
	return ESPL_OK;
}

uint64_t
espl__sim_learned_trial(const struct espl__sim_gang *gang)
{
	return (uint64_t)gang->experiment << ESPL__TRIAL_BITS | gang->trial;
}

/* The objective as the trial would print it, and beside it what it printed last. */
static void
step_learned(struct espl__sim *sim, const struct espl__sim_gang *gang)
{
	const struct espl__run_config *config = gang->source->of->config;
	uint64_t trial = espl__sim_learned_trial(gang);
	double loss = espl__learned_loss(sim->learned, trial, gang->iteration);
	uint32_t objective = number_of(sim, config->metric), count;
	const struct espl__metric *others = espl__learned_metrics(sim->learned, trial, &count);

	add_metric(sim, objective, config->maximize ? -loss : loss, NULL);
	for (uint32_t i = 0; i < count; i++)
		if (others[i].metric != objective)
			add_metric(sim, others[i].metric, others[i].value, NULL);
}

static void
step_curves(struct espl__sim *sim, const struct espl__sim_gang *gang,
    const struct espl__sim_fault *nan)
{
	uint32_t count = espl__curves_metric_count(gang->source->curves);

	for (uint32_t i = 0; i < count; i++) {
		if (gang->source->curve_metrics[i] == ESPL_ANY)
			gang->source->curve_metrics[i] =
			    number_of(sim, espl__curves_metric(gang->source->curves, i));
		add_metric(sim, gang->source->curve_metrics[i],
		    espl__curves_value(gang->source->curves, gang->row, i, gang->iteration), nan);
	}
}

int
espl__sim_body_step(struct espl__sim *sim, struct espl__sim_gang *gang,
    const struct espl__sim_fault *nan, uint32_t *count)
{
	uint32_t first = sim->metric_count;
	struct espl_error error;
	espl_status status;

	ESPL__CHECK(sim, SIM);
	if (sim->learned != NULL) {
		if (gang->source->of->jobs == NULL)
			step_learned(sim, gang);
	} else if (gang->source->curves != NULL) {
		step_curves(sim, gang, nan);
	} else if (gang->source->of->jobs == NULL) {
		struct report_sink sink = { .head = { (uint32_t)sizeof sink.head, 0, on_metric,
						on_finished },
			.sim = sim,
			.nan = nan,
			.first = first };

		espl__sim_no_error(&error);
		status = espl__sim_ops(gang)->step(gang->body, gang->iteration, &sink.head, &error);
		gang->finished = (uint8_t)sink.finished;
		if (status != ESPL_OK) {
			sim->metric_count = first;
			return espl__sim_body_broken(gang, "training", status, &error);
		}
	}
	*count = sim->metric_count - first;
	return 0;
}

static uint32_t
offer_of(const struct espl__sim *sim, const struct espl__sim_gang *gang)
{
	return gang->lease_count > 0 && gang->leases[0] < sim->lease_count
	    ? sim->leases[gang->leases[0]].offer
	    : ESPL_ANY;
}

double
espl__sim_iteration_s(struct espl__sim *sim, const struct espl__sim_gang *gang, uint64_t iteration)
{
	if (gang->source->of->jobs != NULL)
		return espl__sim_job_iteration_s(sim, gang);
	if (sim->learned != NULL)
		return espl__learned_iteration_s(sim->learned, espl__sim_learned_trial(gang),
		    iteration, gang->share, offer_of(sim, gang));
	if (gang->source->curves != NULL) {
		double seconds = espl__curves_seconds(gang->source->curves, gang->row, iteration);

		if (!isnan(seconds))
			return seconds;
	}
	return espl__sim_draw(&espl__sim_profile(gang->source->of)->iteration, gang->key,
	    ESPL__SIM_ITERATION, iteration);
}

uint64_t
espl__sim_last_iteration(const struct espl__sim *sim, const struct espl__sim_gang *gang)
{
	if (sim->learned != NULL && gang->source->of->jobs == NULL)
		return espl__learned_last(sim->learned, espl__sim_learned_trial(gang));
	return gang->source->curves != NULL ? espl__curves_last(gang->source->curves, gang->row)
					    : UINT64_MAX;
}
