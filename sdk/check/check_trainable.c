/* check_trainable.c - check-plugin for trainables: a trial on this machine's CPU, alone: does the
 * same seed give the same result, and does a restored trial continue as if it had not been stopped?
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <espalier/trainable.h>

#include "base/file.h"
#include "base/mem.h"
#include "check/check_kit.h"
#include "check/lone_trial.h"
#include "plugin/instance.h"

#define STEPS 3u

struct run {
	struct espl__check *check;
	struct espl__instance *instance;
	const struct espl_trainable_ops *ops;
	void *trial;
	struct espl_comm comm;
	struct espl_device device;
	struct espl_trial_context context;
	struct espl_report_sink report;
	struct espl__buf state;
	int finished;
	uint64_t metrics;
};

/* ---- sinks ------------------------------------------------------------------------- */

#define OF(sink_, member_) ((struct run *)(void *)((char *)(sink_)-offsetof(struct run, member_)))

static espl_status
report_metric(struct espl_report_sink *sink, const char *name, double value)
{
	struct run *run = OF(sink, report);

	run->metrics++;
	(void)espl__check_call(run->check, name, &value, sizeof value);
	return ESPL_OK;
}

static espl_status
report_finished(struct espl_report_sink *sink)
{
	OF(sink, report)->finished = 1;
	return ESPL_OK;
}

/* ---- a trial ----------------------------------------------------------------------- */

static struct espl_error
new_error(void)
{
	struct espl_error error = ESPL_INIT(struct espl_error);

	error.option = error.row = ESPL_ANY;
	return error;
}

/* Names that the trainables of the distribution know, and common ones. */
static const struct espl_setting settings[] = {
	{ "lr", "0.05", 0.05 },
	{ "learning_rate", "0.05", 0.05 },
	{ "momentum", "0.9", 0.9 },
	{ "x0", "0.5", 0.5 },
	{ "x1", "0.5", 0.5 },
	{ "x2", "0.5", 0.5 },
	{ "x3", "0.5", 0.5 },
	{ "x4", "0.5", 0.5 },
	{ "x5", "0.5", 0.5 },
	{ "c0", "1", 1 },
	{ "c1", "0", 0 },
};

static int
open_run(struct run *run, struct espl__check *check, const char *scratch, int tell)
{
	struct espl_error error = new_error();
	espl_status status;

	memset(run, 0, sizeof *run);
	run->check = check;
	run->ops = (const struct espl_trainable_ops *)(const void *)check->plugin->desc->ops;
	espl__lone_comm_init(&run->comm);
	run->device = (struct espl_device){ .size = (uint32_t)sizeof run->device,
		.kind = ESPL_CPU,
		.packing = 1,
		.threads = 1,
		.uuid = "" };
	run->context = (struct espl_trial_context){ .size = (uint32_t)sizeof run->context,
		.setting_count = (uint32_t)(sizeof settings / sizeof settings[0]),
		.settings = settings,
		.seed = 42,
		.budget = STEPS + 1,
		.iterations_max = STEPS + 1,
		.device = &run->device,
		.comm = &run->comm,
		.scratch = scratch };
	run->report = (struct espl_report_sink){ .size = (uint32_t)sizeof run->report,
		.metric = report_metric,
		.finished = report_finished };
	run->instance = espl__check_create(check, 7);
	if (run->instance == NULL)
		return 0;
	espl__check_step(check, "open");
	status = run->ops->open(run->instance->self, &run->context, &run->trial, &error);
	if (status == ESPL_OK)
		return 1;
	run->trial = NULL;
	if (tell)
		espl__check_ok(check,
		    "open rejected a generated trial (%s), so step, save and load were not tested",
		    error.text[0] != '\0' ? error.text : "without a message");
	return 0;
}

static void
close_run(struct run *run)
{
	espl__check_step(run->check, "close");
	if (run->trial != NULL)
		run->ops->close(run->trial);
	espl__instance_destroy(run->instance);
	espl__buf_free(&run->state);
}

static int
run_step(struct run *run, uint64_t iteration)
{
	struct espl_error error = new_error();
	espl_status status;

	espl__check_step(run->check, "step %llu", (unsigned long long)iteration);
	run->metrics = 0;
	status = run->ops->step(run->trial, iteration, &run->report, &error);
	if (status != ESPL_OK) {
		espl__check_error(run->check, "step %llu: %s (status %d)",
		    (unsigned long long)iteration, error.text, (int)status);
		return 0;
	}
	if (run->metrics == 0)
		espl__check_error(run->check, "step %llu did not report a metric on rank 0",
		    (unsigned long long)iteration);
	return 1;
}

static int
save_or_load(struct run *run, int load)
{
	struct espl_error error = new_error();
	size_t left = 0;
	espl_status status;

	espl__check_step(run->check, load ? "load" : "save");
	status = load
	    ? espl__lone_load(run->ops, run->trial, run->state.data, run->state.size, &left, &error)
	    : espl__lone_save(run->ops, run->trial, &run->state, &error);
	if (status == ESPL_OK && left > 0)
		espl__check_error(run->check, "load: read %zu bytes of %zu", run->state.size - left,
		    run->state.size);
	if (status == ESPL_OK)
		return 1;
	espl__check_error(run->check, "%s: %s (status %d)", load ? "load" : "save", error.text,
	    (int)status);
	return 0;
}

/* Trains, saves, trains one step more; digests of both. */
static int
train_and_save(struct espl__check *check, const char *scratch, int tell, uint64_t *trained,
    uint64_t *last, struct espl__buf *state)
{
	struct run run;
	int good;

	espl__check_begin(check);
	good = open_run(&run, check, scratch, tell);
	for (uint64_t i = 1; good && i <= STEPS && !run.finished; i++)
		good = run_step(&run, i);
	*trained = check->digest;
	if (good)
		good = save_or_load(&run, 0);
	if (good && state != NULL)
		espl__put(state, run.state.data, run.state.size);
	espl__check_begin(check);
	if (good && !run.finished)
		good = run_step(&run, STEPS + 1);
	*last = check->digest;
	close_run(&run);
	return good;
}

void
espl__check_trainable(struct espl__check *check)
{
	char scratch[] = "/tmp/espalier-check-XXXXXX";
	struct espl__buf state = { NULL, 0, 0 };
	uint64_t one, two, last, again = 0;
	struct run run;

	if (check->plugin->desc->caps & ESPL_NEED_CUDA) {
		espl__check_ok(check, "it needs CUDA, so trials were not tested");
		return;
	}
	if (mkdtemp(scratch) == NULL) {
		espl__check_error(check, "cannot create a directory in /tmp");
		return;
	}
	if (train_and_save(check, scratch, 1, &one, &last, &state)) {
		if (train_and_save(check, scratch, 0, &two, &again, NULL) && one == two &&
		    last == again)
			espl__check_ok(check,
			    "deterministic: training twice with the same seed gives the same "
			    "result");
		else
			espl__check_error(check,
			    "not deterministic: training twice with the same seed gives different "
			    "results");
		espl__check_begin(check);
		if (open_run(&run, check, scratch, 0)) {
			espl__put(&run.state, state.data, state.size);
			if (save_or_load(&run, 1) && run_step(&run, STEPS + 1)) {
				if (check->digest == last)
					espl__check_ok(check,
					    "a restored trial continues like one that was never "
					    "stopped");
				else
					espl__check_error(check,
					    "a restored trial continues differently; some of its "
					    "state is not saved");
			}
		}
		close_run(&run);
	}
	espl__buf_free(&state);
	(void)espl__tree_remove(scratch, NULL);
}
