/* rung_table.c - see espalier/kit/rung_table.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/rung_table.h>

espl_status
espl_rung_table_init(struct espl_rung_table *table, const struct espl_host *host,
    struct espl_error *error)
{
	espl_status status;

	ESPL_ASSERT(host != NULL);
	memset(table, 0, sizeof *table);
	table->group = ESPL_NONE;
	table->host = host;
	status =
	    espl_tried_init(&table->tried, host, !espl_follows(host, ESPL_RULES_UNIQUE), error);
	if (status != ESPL_OK)
		return status;
	table->space = table->tried.space;
	table->first = (const struct espl_first *)host->service(host, ESPL_FIRST);
	table->sampling = (const struct espl_sampling *)host->service(host, ESPL_SAMPLING);
	table->values =
	    (double *)calloc((size_t)table->space->param_count + 1, sizeof *table->values);
	if (table->values == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	table->magic = ESPL_RUNG_TABLE_MAGIC;
	return ESPL_OK;
}

void
espl_rung_table_free(struct espl_rung_table *table)
{
	table->magic = 0;
	free(table->rungs);
	free(table->scores);
	free(table->spares);
	free(table->values);
	espl_tried_free(&table->tried);
	table->rungs = NULL;
	table->scores = table->spares = NULL;
	table->values = NULL;
}

espl_status
espl_rung_table_limit(struct espl_rung_table *table, const struct espl_value *option,
    uint64_t trials, uint64_t *limit, struct espl_error *error)
{
	espl_status status;

	ESPL_ASSERT(table != NULL && table->magic == ESPL_RUNG_TABLE_MAGIC);
	table->tried.repeats = (uint32_t)espl_tried_repeats(table->host, option);
	status = espl_tried_limit(&table->tried, trials, limit, error);
	table->wanted = trials;
	table->limit = *limit;
	return status;
}

espl_status
espl_rung_table_add(struct espl_rung_table *table, uint32_t trials, uint64_t until,
    struct espl_error *error)
{
	uint32_t n = table->rung_count;
	struct espl_rung *rungs;

	ESPL_ASSERT(table != NULL && table->magic == ESPL_RUNG_TABLE_MAGIC);
	if (trials == 0 || until == 0 ||
	    (n > 0 &&
		(until <= table->rungs[n - 1].until ||
		    (trials > table->rungs[n - 1].trials && !table->grows))))
		return espl_fail(error, ESPL_E_BUG, "rung %u does not continue the previous one",
		    n);
	rungs = (struct espl_rung *)realloc(table->rungs, ((size_t)n + 1) * sizeof *rungs);
	if (rungs == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	rungs[n].until = until;
	rungs[n].trials = trials;
	rungs[n].zero = 0;
	table->rungs = rungs;
	table->rung_count = n + 1;
	if (trials > table->widest)
		table->widest = trials;
	return ESPL_OK;
}

espl_status
espl_rung_table_spec(const struct espl_rung_table *table, struct espl_spec_sink *sink,
    struct espl_error *error)
{
	uint32_t i, n = table->rung_count;
	struct espl_stage *stages = (struct espl_stage *)calloc((size_t)n + 1, sizeof *stages);
	const struct espl_stage **list =
	    (const struct espl_stage **)calloc((size_t)n + 1, sizeof *list);
	struct espl_bracket bracket;
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec spec;
	espl_status status = ESPL_E_NOMEM;

	ESPL_ASSERT(table != NULL && table->magic == ESPL_RUNG_TABLE_MAGIC && n > 0);
	if (stages != NULL && list != NULL) {
		for (i = 0; i < n; i++) {
			stages[i].size = (uint32_t)sizeof stages[i];
			stages[i].trials = table->rungs[i].trials;
			stages[i].iterations =
			    table->rungs[i].until - (i > 0 ? table->rungs[i - 1].until : 0);
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

/* Opens the group of table->stage. */
static espl_status
espl_rung_table_group(struct espl_rung_table *table, struct espl_search_sink *sink)
{
	struct espl_group group;

	ESPL_ASSERT(table->stage < table->rung_count);
	memset(&group, 0, sizeof group);
	group.size = (uint32_t)sizeof group;
	group.bracket = table->bracket;
	group.stage = table->stage;
	group.flags = table->filling ? ESPL_GROUP_OPEN : 0;
	table->begun = table->failed = 0;
	return sink->begin(sink, &group, &table->group);
}

static espl_status
espl_rung_table_start(struct espl_rung_table *table, struct espl_search_sink *sink, espl_how how,
    uint64_t trial, uint64_t done, const double *values, struct espl_error *error)
{
	uint64_t before = table->stage > 0 ? table->rungs[table->stage - 1].until : 0;
	struct espl_start start;
	espl_status status;

	ESPL_ASSERT(table->begun < table->widest);
	memset(&start, 0, sizeof start);
	start.size = (uint32_t)sizeof start;
	start.how = how;
	start.trial = trial;
	start.values = values;
	start.budget = done + (table->rungs[table->stage].until - before);
	start.tag = table->stage;
	status = sink->add(sink, table->group, &start, &trial);
	if (status != ESPL_OK)
		return status;
	table->begun++;
	return how == ESPL_FRESH
	    ? espl_sampling_started(table->sampling, trial, start.budget, values, error)
	    : ESPL_OK;
}

/* One more configuration into table->values: of the user's points, or a random one. */
static espl_status
espl_rung_table_values(struct espl_rung_table *table, const double **values,
    struct espl_error *error)
{
	espl_status status =
	    espl_tried_first(&table->tried, table->first, &table->first_next, values, error);

	if (status == ESPL_OK && *values == NULL) {
		*values = table->values;
		status = espl_tried_new(&table->tried,
		    table->sampling != NULL ? espl_sampling_draw : NULL,
		    (void *)(uintptr_t)table->sampling, table->values, error);
	}
	/* The table has no more than the space: of two with one hash one is repeated.  A plugin
	 * that has not asked for the limit gets repeats. */
	if (status == ESPL_E_LIMIT)
		status = ESPL_OK;
	if (status == ESPL_OK && ++table->made == table->limit && table->wanted > table->limit)
		espl_logf(table->host, ESPL_INFO, ESPL_TRIED_ALL, (unsigned long long)table->made);
	return status;
}

/* Adds up to `more` trials to the first rung. */
static espl_status
espl_rung_table_draw(struct espl_rung_table *table, uint64_t more, struct espl_search_sink *sink,
    struct espl_error *error)
{
	espl_status status = ESPL_OK;

	for (; more > 0 && table->begun < table->rungs[0].trials && status == ESPL_OK; more--) {
		const double *values = table->values;

		if (table->source != NULL)
			status = table->source(table->source_ctx, &values, error);
		else
			status = espl_rung_table_values(table, &values, error);
		if (status == ESPL_OK)
			status = espl_rung_table_start(table, sink, ESPL_FRESH, ESPL_NONE, 0,
			    values, error);
	}
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status, "the first rung was refused at trial %u", table->begun);
}

espl_status
espl_rung_table_begin(struct espl_rung_table *table, struct espl_search_sink *sink,
    struct espl_error *error)
{
	uint32_t n;
	espl_status status;

	ESPL_ASSERT(table->magic == ESPL_RUNG_TABLE_MAGIC && table->group == ESPL_NONE);
	ESPL_ASSERT(table->rung_count > 0);
	n = table->rungs[0].trials;
	free(table->scores); /* of an attempt that ran out of memory */
	free(table->spares);
	table->scores = (struct espl_rung_score *)calloc(table->widest, sizeof *table->scores);
	table->spares = (struct espl_rung_score *)calloc(table->widest, sizeof *table->spares);
	if (table->scores == NULL || table->spares == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u trials", table->widest);
	if (table->wanted > table->limit)
		espl_logf(table->host, ESPL_WARN, ESPL_TRIED_FEW, (unsigned long long)table->limit,
		    (unsigned long long)table->wanted);
	/* Asked for the whole rung at once, a model would have no results to learn from. */
	table->filling = table->sampling != NULL && table->source == NULL &&
	    espl_follows(table->host, ESPL_RULES_SAMPLERS);
	status = espl_tried_reserve(&table->tried, n, error);
	if (status == ESPL_OK)
		status = espl_rung_table_group(table, sink);
	return status == ESPL_OK && !table->filling ? espl_rung_table_draw(table, n, sink, error)
						    : status;
}

void
espl_rung_table_trial_ended(struct espl_rung_table *table, const struct espl_trial *trial,
    espl_end how)
{
	espl_rung_table_trial_ended_as(table, trial, how, trial->loss);
}

void
espl_rung_table_trial_ended_as(struct espl_rung_table *table, const struct espl_trial *trial,
    espl_end how, double loss)
{
	ESPL_ASSERT(table->magic == ESPL_RUNG_TABLE_MAGIC && trial != NULL);
	if (trial->group != table->group)
		return;
	table->failed += how == ESPL_END_FAILED;
	if (how == ESPL_END_BUDGET && table->scores != NULL && table->waiting < table->widest) {
		table->scores[table->waiting].score.loss = loss;
		table->scores[table->waiting].score.trial = trial->id;
		table->scores[table->waiting].done = trial->budget;
		table->waiting++;
	}
}

/* Promoted trials failed: as many of the next best train in their place. */
static espl_status
espl_rung_table_replace(struct espl_rung_table *table, struct espl_search_sink *sink,
    struct espl_error *error)
{
	uint32_t left = table->failed;
	espl_status status = espl_rung_table_group(table, sink);

	ESPL_ASSERT(table->spare_count <= table->widest);
	for (; left > 0 && table->spare_next < table->spare_count && status == ESPL_OK; left--) {
		const struct espl_rung_score *spare = &table->spares[table->spare_next++];

		status = espl_rung_table_start(table, sink, ESPL_CONTINUE, spare->score.trial,
		    spare->done, NULL, error);
	}
	return status;
}

/* Those not promoted are kept until the rung above them is complete. */
static espl_status
espl_rung_table_drop_spares(struct espl_rung_table *table, struct espl_search_sink *sink)
{
	espl_status status = ESPL_OK;

	while (table->spare_next < table->spare_count && status == ESPL_OK)
		status = sink->drop(sink, table->spares[table->spare_next++].score.trial);
	table->spare_next = table->spare_count = 0;
	return status;
}

espl_status
espl_rung_table_promote(struct espl_rung_table *table, struct espl_search_sink *sink,
    struct espl_error *error)
{
	uint32_t i, keep, newcomers, count = table->waiting;
	struct espl_rung_score *scores;
	espl_status status;

	ESPL_ASSERT(table->magic == ESPL_RUNG_TABLE_MAGIC && !table->over);
	ESPL_ASSERT(table->waiting <= table->widest);
	ESPL_ASSERT(table->spare_next <= table->spare_count);
	if (table->failed > 0 && table->spare_next < table->spare_count) {
		status = espl_rung_table_replace(table, sink, error);
		return status == ESPL_OK
		    ? status
		    : espl_fail(error, status, "rung %u was refused", table->stage);
	}
	status = espl_tried_reserve(&table->tried, table->widest, error);
	if (status == ESPL_OK)
		status = espl_rung_table_drop_spares(table, sink);
	if (status != ESPL_OK)
		return espl_fail(error, status, "a drop was refused");
	table->over = 1;
	table->waiting = 0;
	if (table->stage + 1 >= table->rung_count || count == 0)
		return ESPL_OK;
	table->over = 0;
	table->stage++;
	keep = table->rungs[table->stage].trials;
	newcomers = keep > table->rungs[table->stage - 1].trials
	    ? keep - table->rungs[table->stage - 1].trials
	    : 0;
	if (keep > count)
		keep = count; /* some failed: on with what is left */
	qsort(table->scores, count, sizeof *table->scores, espl_score_order);
	status = espl_rung_table_group(table, sink);
	for (i = 0; i < keep && status == ESPL_OK; i++)
		status = espl_rung_table_start(table, sink, ESPL_CONTINUE,
		    table->scores[i].score.trial, table->scores[i].done, NULL, error);
	scores = table->scores;
	table->scores = table->spares;
	table->spares = scores;
	table->spare_next = keep;
	table->spare_count = count;
	for (i = 0; i < newcomers && status == ESPL_OK; i++) {
		const double *values = table->values;

		status = espl_rung_table_values(table, &values, error);
		if (status == ESPL_OK)
			status = espl_rung_table_start(table, sink, ESPL_FRESH, ESPL_NONE, 0,
			    values, error);
	}
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "rung %u was refused", table->stage);
}

/* ---- a plugin that is one rung table (its instance) ---------------------------------------- */

void
espl_rung_table_plugin_destroy(void *self)
{
	espl_rung_table_free((struct espl_rung_table *)self);
	free(self);
}

espl_status
espl_rung_table_plugin_create(const struct espl_host *host, const struct espl_config *config,
    espl_rung_table_fill *fill, void **self, struct espl_error *error)
{
	struct espl_rung_table *table = (struct espl_rung_table *)malloc(sizeof *table);
	espl_status status;

	if (table == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	status = espl_rung_table_init(table, host, error);
	if (status == ESPL_OK)
		status = fill(table, config, error);
	if (status != ESPL_OK) {
		espl_rung_table_plugin_destroy(table);
		return status;
	}
	*self = table;
	return ESPL_OK;
}

espl_status
espl_rung_table_plugin_spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	return espl_rung_table_spec((const struct espl_rung_table *)self, sink, error);
}

espl_status
espl_rung_table_plugin_on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct espl_rung_table *table = (struct espl_rung_table *)self;

	(void)sink;
	espl_rung_table_trial_ended(table, trial, how);
	return espl_sampling_ended(table->sampling, trial, how, error);
}

/* The first rung with a sampler: a configuration is drawn when it could train at once. */
static espl_status
espl_rung_table_draw_lazily(struct espl_rung_table *table, const struct espl_search_view *view,
    struct espl_search_sink *sink, struct espl_error *error)
{
	uint64_t room = espl_sampling_room(table->host, view, table->rungs[0].trials);
	espl_status status;

	/* Something must ask for GPUs, or there will never be any. */
	if (room == 0 && view->running == 0 && view->waiting == 0)
		room = 1;
	status = espl_rung_table_draw(table, room, sink, error);
	if (status != ESPL_OK || table->begun < table->rungs[0].trials)
		return status;
	table->filling = 0;
	return sink->close(sink, table->group);
}

espl_status
espl_rung_table_plugin_next_group(void *self, const struct espl_search_view *view,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct espl_rung_table *table = (struct espl_rung_table *)self;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(table != NULL && table->magic == ESPL_RUNG_TABLE_MAGIC);
	if (table->over)
		return ESPL_OK;
	if (table->group == ESPL_NONE) {
		status = espl_rung_table_begin(table, sink, error);
		if (status != ESPL_OK || !table->filling)
			return status;
	}
	if (table->filling)
		return espl_rung_table_draw_lazily(table, view, sink, error);
	if ((view->why & ESPL_ASK_GROUP) == 0 || view->group != table->group)
		return ESPL_OK; /* the rung is not complete */
	status = espl_rung_table_promote(table, sink, error);
	if (status == ESPL_OK && table->over)
		status = sink->finish(sink);
	return status;
}
