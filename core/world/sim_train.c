/* sim_train.c - where simulated trials get their metrics: a C trainable evaluated in this process,
 * or recorded curves; and the checkpoints of trainables that have state.
 *
 * A trainable without regions and without save has no state but its iteration: its checkpoints
 * cost nothing and can always be restored.  The others' are kept in memory until they are
 * collected; after a resume they are gone, and a trial that needs one ends with NO_CHECKPOINT.
 */
#include <math.h>
#include <string.h>
#include "base/assert.h"
#include "model/trials.h"
#include "plugin/instance.h"
#include "world/sim_impl.h"

enum { METRICS_MAX = 1024, TEXT_ROOM = 320 };

static const struct espl_trainable_ops *
ops_of(const struct espl__sim_gang *gang)
{
	return (const struct espl_trainable_ops *)(const void *)gang->source->trainable->ops;
}

/* ---- opening and closing the sources ------------------------------------------------- */

static espl_status
open_curves(struct espl__sim_source *source, struct espl__diag *diag)
{
	espl_status status = espl__curves_load(source->of->config->trial.curves, source->of->space,
	                                       &source->curves, diag);
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
		           "trainable '%s' needs a GPU and cannot be evaluated in a "
		           "simulation", trial->trainable);
		espl__hint(diag, "record its learning curves and give them as trial.curves");
		return ESPL_E_CONFIG;
	}
	env.seed = source->seed;
	env.directory = source->of->config->directory;
	status = espl__instance_of(plugin, trial->options, &env, &source->trainable, diag);
	if (status != ESPL_OK)
		return status;
	ops = (const struct espl_trainable_ops *)(const void *)source->trainable->ops;
	if (!ESPL_HAS(struct espl_trainable_ops, ops, open)
	    || !ESPL_HAS(struct espl_trainable_ops, ops, step))
		return espl__fail(diag, ESPL_E_CONFIG, "trainable '%s' lacks open or step",
		                  trial->trainable);
	source->stateful = ESPL_HAS(struct espl_trainable_ops, ops, regions)
	    || (ESPL_HAS(struct espl_trainable_ops, ops, save)
	        && ESPL_HAS(struct espl_trainable_ops, ops, load));
	last = espl__node_get(source->of->config->algorithm.group, "iterations_max");
	source->iterations_max = last != NULL && last->type == ESPL__INT && last->i > 0
	    ? (uint64_t)last->i : 0;
	sim->device = (struct espl_device){
		.size = (uint32_t)sizeof sim->device, .kind = ESPL_CPU, .packing = 1, .threads = 1,
		.uuid = ""
	};
	espl__sim_comm_init(&sim->comm);
	return ESPL_OK;
}

static espl_status
open_source(struct espl__sim *sim, struct espl__sim_source *source, struct espl__diag *diag)
{
	const struct espl__run_config   *config = source->of->config;
	const struct espl__trial_config *trial = &config->trial;

	if (source->of->jobs != NULL)
		return ESPL_OK;		/* how long jobs take is known; they report nothing */
	if (trial->curves != NULL)
		return open_curves(source, diag);
	if (trial->trainable != NULL)
		return open_trainable(sim, source, diag);
	if (trial->command_count > 0)
		espl__fail(diag, ESPL_E_CONFIG,
		           "%s: a command cannot be simulated: what it would report is "
		           "not known", config->path);
	else
		espl__fail(diag, ESPL_E_CONFIG,
		           "%s: nothing to simulate: neither trial.trainable nor "
		           "trial.curves is given", config->path);
	espl__hint(diag, "trial.curves replays recorded curves, trial.trainable trains in process: "
	           "give one in the file, or --set 'trial={ curves=\"FILE.csv\"; }'");
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

struct espl__sim_source *
espl__sim_source(struct espl__sim *sim, uint32_t number, struct espl__diag *diag)
{
	struct espl__sim_source *source;

	if (number < sim->source_count && sim->sources[number] != NULL)
		return sim->sources[number];
	source = espl__alloc(sizeof *source);
	source->of = sim->config->pool ? espl__exec_search_of(sim->head.exec, number) : &sim->own;
	source->seed = sim->config->pool && source->of != NULL ? source->of->config->seed : sim->seed;
	if (source->of == NULL || open_source(sim, source, diag) != ESPL_OK) {
		close_source(source);
		return NULL;
	}
	ESPL__GROW(sim->sources, sim->source_cap, number + 1);
	while (sim->source_count <= number)
		sim->sources[sim->source_count++] = NULL;
	sim->sources[number] = source;
	return source;
}

void
espl__sim_train_free(struct espl__sim *sim)
{
	for (size_t i = 0; i < sim->blobs.cap; i++) {
		struct espl__sim_blob *blob = sim->blobs.used[i] ? sim->blobs.values[i] : NULL, *next;

		for (; blob != NULL; blob = next) {
			next = blob->next;
			free(blob);
		}
	}
	espl__map_free(&sim->blobs);
	espl__buf_free(&sim->scratch);
	for (uint32_t i = 0; i < sim->source_count; i++)
		close_source(sim->sources[i]);
	free(sim->sources);
}

/* ---- failures ------------------------------------------------------------------------ */

static int
broken(struct espl__sim_gang *gang, const char *doing, espl_status status,
       const struct espl_error *error)
{
	free(gang->text);
	gang->text = error->text[0] != '\0' ? espl__format("%s: %.240s", doing, error->text)
	    : espl__format("%s: failed with status %d", doing, (int)status);
	return -1;
}

static void
clear_error(struct espl_error *error)
{
	*error = (struct espl_error){ .size = (uint32_t)sizeof *error, .option = ESPL_ANY,
	                              .row = ESPL_ANY };
}

/* ---- state --------------------------------------------------------------------------- */

static uint64_t
blob_key(uint32_t experiment, uint64_t trial)
{
	return ((uint64_t)experiment << 40) + trial;
}

struct save_sink { struct espl_byte_sink head; struct espl__buf *to; };
struct load_source { struct espl_byte_source head; const uint8_t *at; };
struct region_sink {
	struct espl_region_sink head;
	struct espl__buf *to;
	struct espl__reader from;
	int restore;
};

static espl_status
write_bytes(struct espl_byte_sink *head, const void *bytes, uint64_t count)
{
	espl__put(((struct save_sink *)(void *)head)->to, bytes, (size_t)count);
	return ESPL_OK;
}

static espl_status
read_bytes(struct espl_byte_source *head, void *bytes, uint64_t count)
{
	struct load_source *source = (struct load_source *)(void *)head;

	if (count > head->left)
		return ESPL_E_LIMIT;
	if (count > 0)
		memcpy(bytes, source->at, (size_t)count);
	source->at += count;
	head->left -= count;
	return ESPL_OK;
}

/* Regions one after another, each with its size: enough, as a trial's are always the same. */
static espl_status
take_region(struct espl_region_sink *head, const char *name, void *data, uint64_t bytes,
            espl_device_kind where)
{
	struct region_sink *sink = (struct region_sink *)(void *)head;
	const void *from;
	size_t size;

	(void)name;
	if (where != ESPL_CPU)
		return ESPL_E_UNSUPPORTED;
	if (!sink->restore) {
		espl__put_bytes(sink->to, data, (size_t)bytes);
		return ESPL_OK;
	}
	from = espl__get_bytes(&sink->from, &size);
	if (from == NULL || size != bytes)
		return ESPL_E_LIMIT;
	if (size > 0)
		memcpy(data, from, size);
	return ESPL_OK;
}

static int
saves_itself(const struct espl__sim_gang *gang)
{
	return ESPL_HAS(struct espl_trainable_ops, ops_of(gang), save)
	    && ESPL_HAS(struct espl_trainable_ops, ops_of(gang), load);
}

int
espl__sim_body_save(struct espl__sim *sim, struct espl__sim_gang *gang, uint64_t *bytes)
{
	struct espl_error error;
	struct espl__sim_blob *blob;
	espl_status status;
	uint64_t key;

	*bytes = 0;
	if (!gang->source->stateful || gang->body == NULL)
		return 0;
	clear_error(&error);
	espl__buf_clear(&sim->scratch);
	if (saves_itself(gang)) {
		struct save_sink sink = { { (uint32_t)sizeof sink.head, 0, write_bytes },
		                          &sim->scratch };

		status = ops_of(gang)->save(gang->body, &sink.head, &error);
	} else {
		struct region_sink sink = { .head = { (uint32_t)sizeof sink.head, 0, take_region },
		                            .to = &sim->scratch };

		status = ops_of(gang)->regions(gang->body, &sink.head, &error);
	}
	if (status != ESPL_OK)
		return broken(gang, "saving", status, &error);
	espl__sim_collect_one(sim, gang->experiment, gang->trial, gang->iteration);
	blob = espl__alloc(sizeof *blob + sim->scratch.size);
	blob->iteration = gang->iteration;
	blob->size = *bytes = sim->scratch.size;
	if (blob->size > 0)
		memcpy(blob->data, sim->scratch.data, sim->scratch.size);
	key = blob_key(gang->experiment, gang->trial);
	blob->next = espl__map_get(&sim->blobs, key);
	espl__map_set(&sim->blobs, key, blob);
	return 0;
}

static int
restore(struct espl__sim_gang *gang, const struct espl__sim_blob *blob)
{
	struct espl_error error;
	espl_status status;

	clear_error(&error);
	if (saves_itself(gang)) {
		struct load_source source = {
			{ (uint32_t)sizeof source.head, 0, read_bytes, blob->size }, blob->data
		};

		status = ops_of(gang)->load(gang->body, &source.head, &error);
	} else {
		struct region_sink sink = { .head = { (uint32_t)sizeof sink.head, 0, take_region },
		                            .from = espl__reader(blob->data, blob->size),
		                            .restore = 1 };

		status = ops_of(gang)->regions(gang->body, &sink.head, &error);
	}
	return status == ESPL_OK ? 0 : broken(gang, "restoring", status, &error);
}

/* others: all checkpoints of the trial but that one go; else that one alone. */
static void
remove_blobs(struct espl__sim *sim, uint64_t key, uint64_t iteration, int others)
{
	struct espl__sim_blob *blob = espl__map_get(&sim->blobs, key), *kept = NULL, *next;

	if (blob == NULL)
		return;
	for (; blob != NULL; blob = next) {
		next = blob->next;
		if ((blob->iteration == iteration) == (others != 0)) {
			blob->next = kept;
			kept = blob;
		} else {
			free(blob);
		}
	}
	if (kept != NULL)
		espl__map_set(&sim->blobs, key, kept);
	else
		espl__map_remove(&sim->blobs, key);
}

void
espl__sim_collect(struct espl__sim *sim, uint32_t experiment, uint64_t trial, uint64_t keep)
{
	remove_blobs(sim, blob_key(experiment, trial), keep, 1);
}

void
espl__sim_collect_one(struct espl__sim *sim, uint32_t experiment, uint64_t trial,
                      uint64_t iteration)
{
	remove_blobs(sim, blob_key(experiment, trial), iteration, 0);
}

/* ---- a trial's body ------------------------------------------------------------------ */

static int
open_body(struct espl__sim *sim, struct espl__sim_gang *gang, const double *values)
{
	struct espl_error error;
	espl_status status;
	uint64_t seed;

	seed = espl__trial_seed(gang->source->seed, gang->trial);
	espl__space_settings(gang->source->of->space, values, &gang->settings);
	gang->context = (struct espl_trial_context){
		.size = (uint32_t)sizeof gang->context, .setting_count = gang->settings.count,
		.settings = gang->settings.list, .trial = gang->trial, .seed = seed,
		.budget = gang->budget,
		.iterations_max = gang->source->iterations_max > 0 ? gang->source->iterations_max : gang->budget,
		.device = &sim->device, .comm = &sim->comm, .scratch = ""
	};
	clear_error(&error);
	status = ops_of(gang)->open(gang->source->trainable->self, &gang->context, &gang->body, &error);
	if (status == ESPL_OK)
		return 0;
	gang->body = NULL;
	return broken(gang, "cannot begin", status, &error);
}

int
espl__sim_body_open(struct espl__sim *sim, struct espl__sim_gang *gang, const double *values,
                    uint64_t source, uint64_t checkpoint)
{
	const struct espl__sim_blob *blob;

	if (checkpoint > 0
	    && espl__sim_fault_gang(&sim->faults, ESPL__FAULT_BAD_CHECKPOINT, gang, checkpoint,
	                            sim->now) != NULL) {
		gang->text = espl__strdup("fault script: bad-checkpoint");
		return ESPL__END_NO_CHECKPOINT;
	}
	if (gang->source->of->jobs != NULL)
		return 0;
	if (gang->source->curves != NULL) {
		gang->row = espl__curves_nearest(gang->source->curves, values);
		return 0;
	}
	if (open_body(sim, gang, values) != 0)
		return ESPL__END_FAILED;
	if (!gang->source->stateful || checkpoint == 0)
		return 0;
	blob = espl__map_get(&sim->blobs, blob_key(gang->experiment, source));
	while (blob != NULL && blob->iteration != checkpoint)
		blob = blob->next;
	if (blob == NULL) {
		gang->text = espl__format("checkpoint %llu of trial %llu is not there",
		                          (unsigned long long)checkpoint,
		    (unsigned long long)source);
		return ESPL__END_NO_CHECKPOINT;
	}
	return restore(gang, blob) == 0 ? 0 : ESPL__END_FAILED;
}

void
espl__sim_body_close(struct espl__sim_gang *gang)
{
	if (gang->body != NULL && ESPL_HAS(struct espl_trainable_ops, ops_of(gang), close))
		ops_of(gang)->close(gang->body);
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
	int      finished;
};

static uint32_t
number_of(struct espl__sim *sim, const char *name)
{
	uint32_t known = sim->names.count, number = espl__names_add(&sim->names, name);

	if (number == known)
		espl__sim_tell(sim, ESPL__EV_METRIC)->as.metric.name = sim->names.names[number];
	return number;
}

static void
add_metric(struct espl__sim *sim, uint32_t number, double value, const struct espl__sim_fault *nan)
{
	if (nan != NULL && (nan->metric == NULL
	                    || strcmp(nan->metric, sim->names.names[number]) == 0))
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
		if (sim->metrics[i].metric == number) {	/* said twice: the later one counts */
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

static void
step_curves(struct espl__sim *sim, const struct espl__sim_gang *gang,
            const struct espl__sim_fault *nan)
{
	uint32_t count = espl__curves_metric_count(gang->source->curves);

	for (uint32_t i = 0; i < count; i++) {
		if (gang->source->curve_metrics[i] == ESPL_ANY)
			gang->source->curve_metrics[i] = number_of(sim, espl__curves_metric(gang->source->curves, i));
		add_metric(sim, gang->source->curve_metrics[i],
		           espl__curves_value(gang->source->curves, gang->row, i, gang->iteration), nan);
	}
}

int
espl__sim_body_step(struct espl__sim *sim, struct espl__sim_gang *gang,
                    const struct espl__sim_fault *nan,
                    uint32_t *count)
{
	uint32_t first = sim->metric_count;
	struct espl_error error;
	espl_status status;

	if (gang->source->curves != NULL) {
		step_curves(sim, gang, nan);
	} else if (gang->source->of->jobs == NULL) {
		struct report_sink sink = {
			.head = { (uint32_t)sizeof sink.head, 0, on_metric, on_finished },
			.sim = sim, .nan = nan, .first = first
		};

		clear_error(&error);
		status = ops_of(gang)->step(gang->body, gang->iteration, &sink.head, &error);
		gang->finished = (uint8_t)sink.finished;
		if (status != ESPL_OK) {
			sim->metric_count = first;
			return broken(gang, "training", status, &error);
		}
	}
	*count = sim->metric_count - first;
	return 0;
}

double
espl__sim_iteration_s(struct espl__sim *sim, const struct espl__sim_gang *gang, uint64_t iteration)
{
	if (gang->source->of->jobs != NULL)
		return espl__sim_job_iteration_s(sim, gang);
	if (gang->source->curves != NULL) {
		double seconds = espl__curves_seconds(gang->source->curves, gang->row, iteration);

		if (!isnan(seconds))
			return seconds;
	}
	return espl__sim_draw(&gang->source->of->profile->iteration, gang->key, ESPL__SIM_ITERATION, iteration);
}

uint64_t
espl__sim_last_iteration(const struct espl__sim_gang *gang)
{
	return gang->source->curves != NULL ? espl__curves_last(gang->source->curves, gang->row) : UINT64_MAX;
}
