/* ladder.c - see espalier/kit/ladder.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/ladder.h>

espl_status
espl_ladder_init(struct espl_ladder *ladder, const struct espl_host *host, struct espl_error *error)
{
	uint64_t room;

	ESPL_ASSERT(host != NULL);
	memset(ladder, 0, sizeof *ladder);
	ladder->group = ESPL_NONE;
	ladder->host = host;
	ladder->space = (const struct espl_space *)host->service(host, ESPL_SPACE);
	ladder->first = (const struct espl_first *)host->service(host, ESPL_FIRST);
	if (ladder->space == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "this host offers no search space");
	room = (uint64_t)ladder->space->param_count + 1;
	ladder->unit = (double *)calloc((size_t)room, sizeof *ladder->unit);
	ladder->values = (double *)calloc((size_t)room, sizeof *ladder->values);
	if (ladder->unit == NULL || ladder->values == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	ladder->magic = ESPL_LADDER_MAGIC;
	return ESPL_OK;
}

void
espl_ladder_free(struct espl_ladder *ladder)
{
	ladder->magic = 0;
	free(ladder->rungs);
	free(ladder->scores);
	free(ladder->spares);
	free(ladder->unit);
	free(ladder->values);
	ladder->rungs = NULL;
	ladder->scores = ladder->spares = NULL;
	ladder->unit = ladder->values = NULL;
}

espl_status
espl_ladder_rung(struct espl_ladder *ladder, uint32_t trials, uint64_t until,
    struct espl_error *error)
{
	uint32_t n = ladder->rung_count;
	struct espl_rung *rungs;

	ESPL_ASSERT(ladder != NULL && ladder->magic == ESPL_LADDER_MAGIC);
	if (trials == 0 || until == 0 ||
	    (n > 0 &&
		(until <= ladder->rungs[n - 1].until ||
		    (trials > ladder->rungs[n - 1].trials && !ladder->grows))))
		return espl_fail(error, ESPL_E_BUG, "rung %u does not follow from the last", n);
	rungs = (struct espl_rung *)realloc(ladder->rungs, ((size_t)n + 1) * sizeof *rungs);
	if (rungs == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	rungs[n].until = until;
	rungs[n].trials = trials;
	rungs[n].zero = 0;
	ladder->rungs = rungs;
	ladder->rung_count = n + 1;
	if (trials > ladder->widest)
		ladder->widest = trials;
	return ESPL_OK;
}

espl_status
espl_ladder_spec(const struct espl_ladder *ladder, struct espl_spec_sink *sink,
    struct espl_error *error)
{
	uint32_t i, n = ladder->rung_count;
	struct espl_stage *stages = (struct espl_stage *)calloc((size_t)n + 1, sizeof *stages);
	const struct espl_stage **list =
	    (const struct espl_stage **)calloc((size_t)n + 1, sizeof *list);
	struct espl_bracket bracket;
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec spec;
	espl_status status = ESPL_E_NOMEM;

	ESPL_ASSERT(ladder != NULL && ladder->magic == ESPL_LADDER_MAGIC && n > 0);
	if (stages != NULL && list != NULL) {
		for (i = 0; i < n; i++) {
			stages[i].size = (uint32_t)sizeof stages[i];
			stages[i].trials = ladder->rungs[i].trials;
			stages[i].iterations =
			    ladder->rungs[i].until - (i > 0 ? ladder->rungs[i - 1].until : 0);
			list[i] = &stages[i];
		}
		memset(&bracket, 0, sizeof bracket);
		bracket.size = (uint32_t)sizeof bracket;
		bracket.stage_count = n;
		bracket.stages = list;
		memset(&spec, 0, sizeof spec);
		spec.size = (uint32_t)sizeof spec;
		spec.bracket_count = 1;
		spec.brackets = &brackets;
		status = sink->spec(sink, &spec);
	}
	free(stages);
	free(list);
	return status == ESPL_OK ? status : espl_fail(error, status, "the host rejected the spec");
}

/* Opens the group of ladder->stage. */
static espl_status
espl_ladder_group(struct espl_ladder *ladder, struct espl_search_sink *sink)
{
	struct espl_group group;

	ESPL_ASSERT(ladder->stage < ladder->rung_count);
	memset(&group, 0, sizeof group);
	group.size = (uint32_t)sizeof group;
	group.bracket = ladder->bracket;
	group.stage = ladder->stage;
	ladder->begun = ladder->failed = 0;
	return sink->begin(sink, &group, &ladder->group);
}

static espl_status
espl_ladder_start(struct espl_ladder *ladder, struct espl_search_sink *sink, espl_how how,
    uint64_t trial, uint64_t done, const double *values)
{
	uint64_t before = ladder->stage > 0 ? ladder->rungs[ladder->stage - 1].until : 0;
	struct espl_start start;
	espl_status status;

	ESPL_ASSERT(ladder->begun < ladder->widest);
	memset(&start, 0, sizeof start);
	start.size = (uint32_t)sizeof start;
	start.how = how;
	start.trial = trial;
	start.values = values;
	start.budget = done + (ladder->rungs[ladder->stage].until - before);
	start.tag = ladder->stage;
	status = sink->add(sink, ladder->group, &start, &trial);
	if (status == ESPL_OK)
		ladder->begun++;
	return status;
}

espl_status
espl_ladder_begin(struct espl_ladder *ladder, struct espl_search_sink *sink,
    struct espl_error *error)
{
	uint32_t i, n;
	espl_status status;

	ESPL_ASSERT(ladder->magic == ESPL_LADDER_MAGIC && ladder->group == ESPL_NONE);
	ESPL_ASSERT(ladder->rung_count > 0);
	n = ladder->rungs[0].trials;
	free(ladder->scores); /* of an attempt that ran out of memory */
	free(ladder->spares);
	ladder->scores = (struct espl_climber *)calloc(ladder->widest, sizeof *ladder->scores);
	ladder->spares = (struct espl_climber *)calloc(ladder->widest, sizeof *ladder->spares);
	if (ladder->scores == NULL || ladder->spares == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u trials",
		    ladder->widest);
	status = espl_ladder_group(ladder, sink);
	for (i = 0; i < n && status == ESPL_OK; i++) {
		const double *values = ladder->values;

		if (ladder->source != NULL)
			status = ladder->source(ladder->source_ctx, &values, error);
		else if (ladder->first != NULL && i < ladder->first->count)
			values = ladder->first->at(ladder->first, i);
		else
			status =
			    espl_draw(ladder->host, ladder->space, ladder->unit, ladder->values);
		if (status == ESPL_OK)
			status = espl_ladder_start(ladder, sink, ESPL_FRESH, ESPL_NONE, 0, values);
	}
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status, "the first rung was refused at trial %u", i);
}

void
espl_ladder_ended(struct espl_ladder *ladder, const struct espl_trial *trial, espl_end how)
{
	espl_ladder_ended_as(ladder, trial, how, trial->loss);
}

void
espl_ladder_ended_as(struct espl_ladder *ladder, const struct espl_trial *trial, espl_end how,
    double loss)
{
	ESPL_ASSERT(ladder->magic == ESPL_LADDER_MAGIC && trial != NULL);
	if (trial->group != ladder->group)
		return;
	ladder->failed += how == ESPL_END_FAILED;
	if (how == ESPL_END_BUDGET && ladder->scores != NULL && ladder->waiting < ladder->widest) {
		ladder->scores[ladder->waiting].score.loss = loss;
		ladder->scores[ladder->waiting].score.trial = trial->id;
		ladder->scores[ladder->waiting].done = trial->budget;
		ladder->waiting++;
	}
}

/* Promoted trials failed: as many of the next best train in their place. */
static espl_status
espl_ladder_replace(struct espl_ladder *ladder, struct espl_search_sink *sink)
{
	uint32_t left = ladder->failed;
	espl_status status = espl_ladder_group(ladder, sink);

	ESPL_ASSERT(ladder->spare_count <= ladder->widest);
	for (; left > 0 && ladder->spare_next < ladder->spare_count && status == ESPL_OK; left--) {
		const struct espl_climber *spare = &ladder->spares[ladder->spare_next++];

		status = espl_ladder_start(ladder, sink, ESPL_CONTINUE, spare->score.trial,
		    spare->done, NULL);
	}
	return status;
}

/* Those not promoted are kept until the rung above them is complete. */
static espl_status
espl_ladder_drop_spares(struct espl_ladder *ladder, struct espl_search_sink *sink)
{
	espl_status status = ESPL_OK;

	while (ladder->spare_next < ladder->spare_count && status == ESPL_OK)
		status = sink->drop(sink, ladder->spares[ladder->spare_next++].score.trial);
	ladder->spare_next = ladder->spare_count = 0;
	return status;
}

espl_status
espl_ladder_climb(struct espl_ladder *ladder, struct espl_search_sink *sink,
    struct espl_error *error)
{
	uint32_t i, keep, newcomers, count = ladder->waiting;
	struct espl_climber *scores;
	espl_status status;

	ESPL_ASSERT(ladder->magic == ESPL_LADDER_MAGIC && !ladder->over);
	ESPL_ASSERT(ladder->waiting <= ladder->widest);
	ESPL_ASSERT(ladder->spare_next <= ladder->spare_count);
	if (ladder->failed > 0 && ladder->spare_next < ladder->spare_count) {
		status = espl_ladder_replace(ladder, sink);
		return status == ESPL_OK
		    ? status
		    : espl_fail(error, status, "rung %u was refused", ladder->stage);
	}
	status = espl_ladder_drop_spares(ladder, sink);
	if (status != ESPL_OK)
		return espl_fail(error, status, "a drop was refused");
	ladder->over = 1;
	ladder->waiting = 0;
	if (ladder->stage + 1 >= ladder->rung_count || count == 0)
		return ESPL_OK;
	ladder->over = 0;
	ladder->stage++;
	keep = ladder->rungs[ladder->stage].trials;
	newcomers = keep > ladder->rungs[ladder->stage - 1].trials
	    ? keep - ladder->rungs[ladder->stage - 1].trials
	    : 0;
	if (keep > count)
		keep = count; /* some failed: on with what is left */
	qsort(ladder->scores, count, sizeof *ladder->scores, espl_score_order);
	status = espl_ladder_group(ladder, sink);
	for (i = 0; i < keep && status == ESPL_OK; i++)
		status = espl_ladder_start(ladder, sink, ESPL_CONTINUE,
		    ladder->scores[i].score.trial, ladder->scores[i].done, NULL);
	scores = ladder->scores;
	ladder->scores = ladder->spares;
	ladder->spares = scores;
	ladder->spare_next = keep;
	ladder->spare_count = count;
	for (i = 0; i < newcomers && status == ESPL_OK; i++) {
		status = espl_draw(ladder->host, ladder->space, ladder->unit, ladder->values);
		if (status == ESPL_OK)
			status = espl_ladder_start(ladder, sink, ESPL_FRESH, ESPL_NONE, 0,
			    ladder->values);
	}
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "rung %u was refused", ladder->stage);
}

/* ---- a plugin that is one ladder: its instance is a struct espl_ladder -------------------- */

void
espl_ladder_alone_destroy(void *self)
{
	espl_ladder_free((struct espl_ladder *)self);
	free(self);
}

espl_status
espl_ladder_alone_create(const struct espl_host *host, const struct espl_config *config,
    espl_ladder_lay *lay, void **self, struct espl_error *error)
{
	struct espl_ladder *ladder = (struct espl_ladder *)malloc(sizeof *ladder);
	espl_status status;

	if (ladder == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	status = espl_ladder_init(ladder, host, error);
	if (status == ESPL_OK)
		status = lay(ladder, config, error);
	if (status != ESPL_OK) {
		espl_ladder_alone_destroy(ladder);
		return status;
	}
	*self = ladder;
	return ESPL_OK;
}

espl_status
espl_ladder_alone_spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	return espl_ladder_spec((const struct espl_ladder *)self, sink, error);
}

espl_status
espl_ladder_alone_on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	(void)sink;
	(void)error;
	espl_ladder_ended((struct espl_ladder *)self, trial, how);
	return ESPL_OK;
}

espl_status
espl_ladder_alone_next_group(void *self, const struct espl_search_view *view,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct espl_ladder *ladder = (struct espl_ladder *)self;
	espl_status status;

	ESPL_ASSERT(ladder != NULL && ladder->magic == ESPL_LADDER_MAGIC);
	if (ladder->over)
		return ESPL_OK;
	if (ladder->group == ESPL_NONE)
		return espl_ladder_begin(ladder, sink, error);
	if ((view->why & ESPL_ASK_GROUP) == 0 || view->group != ladder->group)
		return ESPL_OK; /* the rung is not complete */
	status = espl_ladder_climb(ladder, sink, error);
	if (status == ESPL_OK && ladder->over)
		status = sink->finish(sink);
	return status;
}
