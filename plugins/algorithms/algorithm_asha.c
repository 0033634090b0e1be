/* algorithm_asha.c - ASHA: asynchronous successive halving (Li et al., MLSys 2020).
 *
 * Promotion, the paper's Algorithm 2: whenever another trial could run, the best trial that is in
 * the best 1/eta of its rung and was not promoted yet is promoted, from the highest rung down; if
 * there is none, a new configuration starts at the bottom. Trials pause at their rungs. Stopping,
 * the form that other tuners call ASHA: trials start with the whole budget, and a trial that is not
 * in the best 1/eta of those that have passed a rung stops there. No trial ever waits, but a
 * stopped trial never resumes.
 *
 * Beyond the paper: the last rung is at iterations_max, whatever the powers of eta are. A failed
 * trial counts as the worst one of the rung that it was training for, and NaN is never promoted.
 * With several brackets (the paper runs one or loops over them), a new configuration goes to the
 * bracket that is furthest behind Hyperband's proportions. Stopping keeps the best ceil(n / eta),
 * so the first trial always continues; promotion floor(n / eta), as in the paper. The paper's
 * search has no end. With `trials`, when all have been created and none runs or can be promoted
 * before the last rung was reached, the best of the highest rung continues (to_end).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "rungs.h"

enum { TRIALS, ITERATIONS_MIN, ITERATIONS_MAX, ETA, BRACKETS, MODE, TO_END, REPEATS, SAMPLER };
enum { PROMOTION, STOPPING };

static const struct espl_option options[] = {
	SHARED_OPTION_TRIALS,
	SHARED_OPTIONS_CUTS("", "3"),
	{ .name = "brackets",
	    .help = "number of brackets; bracket k skips the k lowest rungs (as in Hyperband, a "
		    "hedge against misleading early losses)",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "64" },
	{ .name = "mode",
	    .help =
		"promotion: a trial pauses at each rung until it is in the rung's top 1/eta (the "
		"paper); stopping: a trial continues unless it is outside the rung's top 1/eta",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "promotion|stopping",
	    .fallback = "promotion" },
	{ .name = "to_end",
	    .help = "when all 'trials' have been started and no more can be promoted, train the "
		    "best one to iterations_max; false: end the search",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true" },
	ESPL_TRIED_OPTION,
	ESPL_SAMPLER_OPTION,
};

struct bracket {
	struct rungs rungs;
	double weight; /* its part of the new configurations */
	uint64_t made;
};
#define ASHA_MAGIC 0x34ab8a4bu

struct asha {
	uint32_t magic; /* ASHA_MAGIC */
	struct shared shared;
	struct bracket *brackets;
	uint32_t bracket_count;
	uint32_t stopping, to_end;
	uint8_t *next; /* stopping: by trial, the rung it will pass next */
	uint64_t next_room;
};

/* A trial's tag: its bracket, and (promotion) the rung for which it trains. */
static uint64_t
tag_of(uint32_t bracket, uint32_t rung)
{
	return (uint64_t)bracket << 8 | rung;
}
static uint32_t
tag_bracket(uint64_t tag)
{
	return (uint32_t)(tag >> 8);
}
static uint32_t
tag_rung(uint64_t tag)
{
	return (uint32_t)(tag & 0xff);
}

static void
destroy(void *self)
{
	struct asha *asha = self;
	uint32_t i;

	ESPL_ASSERT(asha != NULL && asha->magic == ASHA_MAGIC);
	asha->magic = 0;
	for (i = 0; i < asha->bracket_count; i++)
		rungs_free(&asha->brackets[i].rungs);
	free(asha->brackets);
	shared_free(&asha->shared);
	free(asha->next);
	free(asha);
}

/* Bracket i begins at the i-th rung of the first one.  Weights are Hyperband's numbers of
 * configurations, (S + 1) / (s + 1) * eta^s with s = S - i. */
static espl_status
make_brackets(struct asha *asha, const struct espl_config *config, struct espl_error *error)
{
	uint64_t first = (uint64_t)config->values[ITERATIONS_MIN].as.i;
	uint64_t last = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	uint64_t eta = (uint64_t)config->values[ETA].as.i;
	uint32_t i, k, wanted = (uint32_t)config->values[BRACKETS].as.i, all = 1;
	uint64_t until = first;
	char text[80];

	ESPL_ASSERT(eta >= 2 && wanted > 0);
	if (first > last)
		return shared_check_range(first, last, ITERATIONS_MIN, error);
	for (; until <= last / eta; until *= eta)
		all++;
	if (wanted > all) {
		(void)snprintf(text, sizeof text,
		    "'brackets' = %u is more than the number of rungs", wanted);
		return espl_hint(error, espl_blame(error, BRACKETS, text),
		    "from %llu to %llu iterations there %s %u with eta = %llu",
		    (unsigned long long)first, (unsigned long long)last, all == 1 ? "is" : "are",
		    all, (unsigned long long)eta);
	}
	asha->brackets = calloc(wanted, sizeof *asha->brackets);
	if (asha->brackets == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (i = 0; i < wanted; i++, first *= eta) {
		struct bracket *bracket = &asha->brackets[asha->bracket_count++];
		espl_status status =
		    rungs_init(&bracket->rungs, first, last, eta, asha->stopping, error);

		if (status != ESPL_OK)
			return status;
		bracket->weight = (double)all / (double)(all - i);
		for (k = i + 1; k < all; k++)
			bracket->weight *= (double)eta;
	}
	return ESPL_OK;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct asha *asha = calloc(1, sizeof *asha);
	espl_status status;

	if (asha == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	asha->magic = ASHA_MAGIC;
	asha->stopping = config->values[MODE].as.i == STOPPING;
	asha->to_end = config->values[TO_END].as.i != 0;
	status = shared_init(&asha->shared, host, (uint64_t)config->values[TRIALS].as.i, TRIALS,
	    espl_tried_repeats(host, &config->values[REPEATS]), error);
	if (status == ESPL_OK)
		status = make_brackets(asha, config, error);
	if (status != ESPL_OK) {
		destroy(asha);
		return status;
	}
	*self = asha;
	return ESPL_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Room for the trials made so far.  Ids are dense. */
static espl_status
know_trial(struct asha *asha, uint64_t trial, struct espl_error *error)
{
	uint64_t room = trial + trial / 2 + 64;
	uint8_t *next;

	if (trial < asha->next_room)
		return ESPL_OK;
	next = realloc(asha->next, (size_t)room);
	if (next == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %llu trials",
		    (unsigned long long)room);
	memset(next + asha->next_room, 0, (size_t)(room - asha->next_room));
	asha->next = next;
	asha->next_room = room;
	return ESPL_OK;
}

/* Stopping: every rung that the trial has passed since its last report. The last rung is its end.
 */
static espl_status
on_report(void *self, const struct espl_trial *trial, const struct espl_observation *seen,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct asha *asha = self;
	struct rungs *rungs = &asha->brackets[tag_bracket(trial->tag)].rungs;
	espl_status status;
	uint8_t *next;

	ESPL_ASSERT(asha != NULL && asha->magic == ASHA_MAGIC);
	ESPL_ASSERT(tag_bracket(trial->tag) < asha->bracket_count);
	if (!asha->stopping)
		return ESPL_OK;
	status = know_trial(asha, trial->id, error);
	if (status != ESPL_OK)
		return status;
	next = &asha->next[trial->id];
	while (*next + 1u < rungs->count && seen->iteration >= rungs->rungs[*next].until) {
		int top;

		status = rungs_record(rungs, *next, trial->id, seen->loss, 0, &top, error);
		if (status != ESPL_OK)
			return status;
		*next = top ? (uint8_t)(*next + 1) : UINT8_MAX;
		if (!top)
			return sink->verdict(sink, trial->id, ESPL_STOP);
	}
	return ESPL_OK;
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct asha *asha = self;
	struct rungs *rungs = &asha->brackets[tag_bracket(trial->tag)].rungs;
	uint32_t rung = tag_rung(trial->tag);
	double loss = how == ESPL_END_FAILED ? NAN : trial->loss;
	espl_status status;

	ESPL_ASSERT(asha != NULL && asha->magic == ASHA_MAGIC);
	ESPL_ASSERT(tag_bracket(trial->tag) < asha->bracket_count);
	status = espl_sampling_ended(asha->shared.sampling, trial, how, error);
	if (status != ESPL_OK ||
	    (how != ESPL_END_BUDGET && how != ESPL_END_ITSELF && how != ESPL_END_FAILED))
		return status; /* it has reached no rung */
	if (asha->stopping) {
		status = know_trial(asha, trial->id, error);
		if (status != ESPL_OK || how == ESPL_END_BUDGET ||
		    asha->next[trial->id] + 1u >= rungs->count)
			return status;
		rung = asha->next[trial->id];
		asha->next[trial->id] = UINT8_MAX;
	}
	ESPL_ASSERT(rung < rungs->count);
	status = rungs_record(rungs, rung, trial->id, loss, how == ESPL_END_BUDGET, NULL, error);
	if (status == ESPL_OK && how == ESPL_END_BUDGET && isnan(loss))
		status = sink->drop(sink, trial->id); /* no rank brings it back */
	return status;
}

/* ---- work ------------------------------------------------------------------------------------ */

/* From a rung to the next one. */
static espl_status
go_on(struct asha *asha, uint32_t bracket, uint64_t trial, uint32_t rung,
    struct espl_search_sink *sink)
{
	struct espl_start start = ESPL_INIT(struct espl_start);

	ESPL_ASSERT(
	    bracket < asha->bracket_count && rung + 1 < asha->brackets[bracket].rungs.count);
	start.how = ESPL_CONTINUE;
	start.trial = trial;
	start.budget = asha->brackets[bracket].rungs.rungs[rung + 1].until;
	start.tag = tag_of(bracket, rung + 1);
	return sink->add(sink, asha->shared.group, &start, &trial);
}

/* The best trial that may be promoted. */
static espl_status
promote_best(struct asha *asha, struct espl_search_sink *sink, int *done)
{
	uint32_t i, rung;
	uint64_t trial;

	for (i = 0; i < asha->bracket_count; i++) {
		*done = rungs_promote(&asha->brackets[i].rungs, &trial, &rung);
		if (*done)
			return go_on(asha, i, trial, rung, sink);
	}
	return ESPL_OK;
}

/* No trial is running, all have been started and none can be promoted: the search ends, unless none
 * has reached the last rung yet. Then the best of those that trained furthest continues. */
static espl_status
end_search(struct asha *asha, struct espl_search_sink *sink)
{
	uint64_t trial, until, furthest = 0;
	uint32_t i, rung, chosen = 0;
	double loss, least = 0;

	for (i = 0; i < asha->bracket_count; i++) {
		struct rungs *rungs = &asha->brackets[i].rungs;

		if (!asha->to_end || asha->stopping || rungs_ended(rungs))
			return sink->finish(sink);
		if (!rungs_rest(rungs, &trial, &rung, &loss))
			continue;
		until = rungs->rungs[rung].until;
		if (until > furthest || (until == furthest && loss < least)) {
			furthest = until;
			least = loss;
			chosen = i;
		}
	}
	if (furthest == 0 || !rungs_force(&asha->brackets[chosen].rungs, &trial, &rung))
		return sink->finish(sink);
	return go_on(asha, chosen, trial, rung, sink);
}

/* The bracket that is furthest behind its share; the first of equals. */
static uint32_t
choose_bracket(const struct asha *asha)
{
	uint32_t i, least = 0;

	for (i = 1; i < asha->bracket_count; i++) {
		const struct bracket *a = &asha->brackets[i], *b = &asha->brackets[least];

		if ((double)(a->made + 1) / a->weight < (double)(b->made + 1) / b->weight)
			least = i;
	}
	return least;
}

static espl_status
add_one(struct asha *asha, struct espl_search_sink *sink, struct espl_error *error)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	uint32_t i = choose_bracket(asha);
	const struct rungs *rungs = &asha->brackets[i].rungs;
	espl_status status = shared_values(&asha->shared, NULL, NULL, &start.values, error);
	uint64_t trial;

	start.how = ESPL_FRESH;
	start.budget = rungs->rungs[asha->stopping ? rungs->count - 1 : 0].until;
	start.tag = tag_of(i, 0);
	if (status == ESPL_OK)
		status = sink->add(sink, asha->shared.group, &start, &trial);
	if (status == ESPL_OK) {
		shared_count(&asha->shared);
		asha->brackets[i].made++;
		status = espl_sampling_started(asha->shared.sampling, trial, start.budget,
		    start.values, error);
	}
	return status;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct asha *asha = self;
	uint64_t want = shared_room(&asha->shared, view),
		 active = (uint64_t)view->running + view->waiting;
	const struct rungs *rungs = &asha->brackets[0].rungs;
	espl_status status;

	ESPL_ASSERT(asha != NULL && asha->magic == ASHA_MAGIC);
	ESPL_ASSERT(asha->shared.trials == 0 || asha->shared.added <= asha->shared.trials);
	if (asha->shared.group == ESPL_NONE)
		shared_tell_rungs(asha->shared.host, &rungs->rungs[0].until, sizeof rungs->rungs[0],
		    rungs->count, "");
	status = espl_tried_reserve(&asha->shared.tried, want + 1, error);
	if (status == ESPL_OK)
		status = shared_begin(&asha->shared, 0, sink);
	/* some trial must ask for GPUs, or none will ever be leased */
	if (want == 0 && active == 0)
		want = 1;
	for (; want > 0 && status == ESPL_OK; want--, active++) {
		int done = 0;

		status = promote_best(asha, sink, &done);
		if (done || status != ESPL_OK)
			continue;
		if (asha->shared.trials > 0 && asha->shared.added == asha->shared.trials)
			return active > 0 ? ESPL_OK : end_search(asha, sink);
		status = add_one(asha, sink, error);
		if (status == ESPL_E_LIMIT) { /* all have been tried: as if all were started */
			shared_exhausted(&asha->shared);
			return active > 0 ? ESPL_OK : end_search(asha, sink);
		}
	}
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "trial %llu was rejected",
				       (unsigned long long)asha->shared.added);
}

static espl_status
extend(void *self, const struct espl_extension *more, struct espl_error *error)
{
	struct asha *asha = self;

	ESPL_ASSERT(asha != NULL && asha->magic == ASHA_MAGIC);
	return shared_extend(&asha->shared, more, error);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_report = on_report,
	.on_trial_end = on_trial_end,
	.extend = extend,
};

ESPL_PLUGIN(algorithm, asha) = {
	ESPL_HEAD(ESPL_ALGORITHM, "asha"),
	.version = "0.1",
	.summary = "ASHA: asynchronous successive halving, promoting or stopping",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
