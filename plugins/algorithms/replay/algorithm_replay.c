/* algorithm_replay.c - trains one trial along a schedule: the one that population based training
 * found.
 *
 * `espalier export DIR --format csv --table schedule` writes the schedule of a run's best trial: a
 * line for each stretch of iterations, with its parameters.  Where a line ends the trial is cloned
 * from its own checkpoint there, with the parameters of the next one (so it is a trial a line, each
 * the only child of the one before).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>
#include "replay_table.h"

enum { SCHEDULE, ITERATIONS_MAX };

static const struct espl_option options[] = {
	{ .name = "schedule",
	    .help =
		"CSV file with the columns from, until (iterations) and every parameter of the "
		"search space, as `espalier export DIR --format csv --table schedule` writes it",
	    .type = ESPL_OPT_PATH,
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "iterations_max",
	    .help = "the last iteration reported to trials that ask for it, for example for their "
		    "own learning rate schedule; 0: the end of the schedule",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "1000000000000" },
};

#define REPLAY_MAGIC 0x22bfeb0fu

struct replay {
	uint32_t magic; /* REPLAY_MAGIC */
	const struct espl_space *space;
	struct replay_table table;
	uint64_t group, trial; /* the trial of the line that trains */
	uint32_t line;         /* its number; rows: all are done */
	int finished;
	const struct espl_host *host;
	const struct espl_first *first; /* NULL: the user has none; they play no part */
};

static void
destroy(void *self)
{
	struct replay *replay = self;

	ESPL_ASSERT(replay != NULL && replay->magic == REPLAY_MAGIC);
	replay->magic = 0;
	replay_free(&replay->table);
	free(replay);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	const struct espl_experiment *experiment = host->service(host, ESPL_EXPERIMENT);
	struct replay *replay = calloc(1, sizeof *replay);
	const void *bytes;
	uint64_t size, last = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	espl_status status;

	if (replay == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	replay->magic = REPLAY_MAGIC;
	replay->host = host;
	replay->space = host->service(host, ESPL_SPACE);
	replay->first = host->service(host, ESPL_FIRST);
	replay->group = ESPL_NONE;
	status = replay->space == NULL
	    ? espl_fail(error, ESPL_E_UNSUPPORTED, "this host does not provide the search space")
	    : host->file(host, SCHEDULE, ESPL_ANY, ESPL_ANY, &bytes, &size, error);
	if (status == ESPL_OK) {
		status = replay_read(&replay->table, config->values[SCHEDULE].as.s, bytes, size,
		    replay->space, error);
		if (status == ESPL_E_CONFIG && error != NULL)
			error->option = SCHEDULE;
		if (status == ESPL_E_CONFIG)
			(void)espl_hint(error, status,
			    "create it with `espalier export DIR --format csv --table schedule`");
	}
	ESPL_ASSERT(status != ESPL_OK || replay->table.rows > 0);
	if (status == ESPL_OK && last > 0 && last < replay->table.until[replay->table.rows - 1])
		status = espl_hint(error,
		    espl_blame(error, ITERATIONS_MAX,
			"the schedule is longer than 'iterations_max'"),
		    "it ends at %llu",
		    (unsigned long long)replay->table.until[replay->table.rows - 1]);
	if (status == ESPL_OK && replay->table.rows > 1 && experiment != NULL &&
	    (experiment->flags & ESPL_EXPERIMENT_NO_SAVE) != 0)
		status = espl_hint(error,
		    espl_fail(error, ESPL_E_CONFIG,
			"a schedule needs checkpoints, but trial.checkpoint is false"),
		    "remove trial.checkpoint = false");
	if (status != ESPL_OK) {
		destroy(replay);
		return status;
	}
	*self = replay;
	return ESPL_OK;
}

/* The trial of a line: new, or going on from that of the line before. */
static espl_status
add_line(struct replay *replay, uint32_t line, struct espl_search_sink *sink)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	struct espl_group group = ESPL_INIT(struct espl_group);
	uint64_t before = replay->trial;
	espl_status status;

	ESPL_ASSERT(line < replay->table.rows);
	group.bracket = 0;
	group.stage = line;
	group.concurrency = 1;
	status = sink->begin(sink, &group, &replay->group);
	start.how = line == 0 ? ESPL_FRESH : ESPL_CLONE;
	start.values = replay->table.values + (size_t)line * replay->space->param_count;
	start.budget = replay->table.until[line];
	start.tag = line;
	if (line > 0) {
		start.trial = before;
		start.checkpoint = replay->table.until[line - 1];
	}
	if (status == ESPL_OK)
		status = sink->add(sink, replay->group, &start, &replay->trial);
	if (status == ESPL_OK && line > 0)
		status = sink->drop(sink, before);
	replay->line = line;
	return status;
}

/* Stages of one trial, as many as lines. */
static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct replay *replay = self;
	uint32_t i, n = replay->table.rows;
	struct espl_stage *stages = calloc(n, sizeof *stages);
	const struct espl_stage **list = (const struct espl_stage **)calloc(n, sizeof *list);
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec declared = ESPL_INIT(struct espl_spec);
	espl_status status = ESPL_E_NOMEM;

	ESPL_ASSERT(replay != NULL && replay->magic == REPLAY_MAGIC);
	ESPL_ASSERT(n > 0);
	if (stages != NULL && list != NULL) {
		for (i = 0; i < n; i++) {
			stages[i].size = (uint32_t)sizeof stages[i];
			stages[i].trials = 1;
			stages[i].iterations =
			    replay->table.until[i] - (i > 0 ? replay->table.until[i - 1] : 0);
			list[i] = &stages[i];
		}
		bracket.stage_count = n;
		bracket.stages = list;
		declared.bracket_count = 1;
		declared.brackets = &brackets;
		status = sink->spec(sink, &declared);
	}
	free(stages);
	free(list);
	return status == ESPL_OK ? status : espl_fail(error, status, "the spec was rejected");
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct replay *replay = self;

	ESPL_ASSERT(replay != NULL && replay->magic == REPLAY_MAGIC);
	(void)sink;
	(void)error;
	if (trial->id != replay->trial)
		return ESPL_OK;
	/* What failed, or says that it is complete, has no more to come. */
	if (how != ESPL_END_BUDGET)
		replay->line = replay->table.rows;
	return ESPL_OK;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct replay *replay = self;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(replay != NULL && replay->magic == REPLAY_MAGIC);
	ESPL_ASSERT(replay->line <= replay->table.rows);
	if (replay->finished ||
	    (replay->group != ESPL_NONE &&
		((view->why & ESPL_ASK_GROUP) == 0 || view->group != replay->group)))
		return ESPL_OK;
	if (replay->group == ESPL_NONE) {
		if (replay->first != NULL && replay->first->count > 0)
			espl_logf(replay->host, ESPL_WARN,
			    "ignoring the configurations to try first; the schedule determines "
			    "what is trained");
		status = add_line(replay, 0, sink);
	} else if (replay->line + 1 < replay->table.rows) {
		status = add_line(replay, replay->line + 1, sink);
	} else {
		replay->finished = 1;
		status = sink->finish(sink);
	}
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status, "line %u of the schedule was rejected", replay->line + 2);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_trial_end = on_trial_end,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, replay) = {
	ESPL_HEAD(ESPL_ALGORITHM, "replay"),
	.version = "0.1",
	.summary = "train one trial along a schedule of parameters, such as one found by pbt",
	.caps = ESPL_CAP_PURE | ESPL_CAP_NEEDS_SAVES,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
