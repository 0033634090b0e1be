/* algorithm_pbt.c - population based training (Jaderberg et al., arXiv:1711.09846): members train
 * side by side; at every interval the worse ones continue from a better one's weights (exploit, an
 * ESPL_CLONE), with a configuration near the better one's (explore).
 *
 * Asynchronous: a member is ranked when it reaches its interval, against the losses that the others
 * had at theirs; the source's checkpoint is that of its last ranking. Rankings are spread evenly
 * over the interval, so that not all members save, and copy, at once. Synchronous: all members
 * pause at the interval, then all are ranked. In either form the members of one round are ranked
 * together, because their order of arrival is random.
 *
 * Departures from the paper: members that fail or report NaN are always replaced; where GPUs are
 * fewer than members, a member that is an interval ahead of one still waiting for a GPU gives up
 * its GPU until that one is served; further populations may follow, each ranked by itself.
 * Truncation prefers a source whose checkpoint is of its last interval. Memory is O(population),
 * whatever the number of trials.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include "pbt.h"
#include "../shared.h"

enum {
	POPULATION,
	POPULATIONS,
	ITERATIONS_MAX,
	INTERVAL,
	MODE,
	EXPLOIT,
	QUANTILE,
	RESAMPLE,
	DOWN,
	UP,
	KEEP,
	REPEATS
};
enum { ASYNC, SYNC };
enum { TRUNCATION, TOURNAMENT };
#define STAGES_MAX 100000u      /* of a spec: beyond it none is declared */
#define MEMBERS_ENOUGH 1000001u /* a space with as many is as good as infinite */

static const struct espl_option options[] = {
	{ .name = "population",
	    .help = "number of members in the population",
	    .type = ESPL_OPT_INT,
	    .fallback = "10",
	    .min = "2",
	    .max = "100000" },
	{ .name = "populations",
	    .help = "number of populations trained one after another, each with new members; 0: as "
		    "many as the deadline or the budget allows",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "0",
	    .max = "1000000" },
	{ .name = "iterations_max",
	    .help = "number of iterations per member, including those of its ancestors",
	    .type = ESPL_OPT_INT,
	    .min = "2",
	    .max = "1000000000000",
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "interval",
	    .help = "number of iterations between two evaluations of a member",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "1000000000000",
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "mode",
	    .help = "async: evaluate each member when it reaches its interval; sync: evaluate all "
		    "together when the last one has reached it",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "async|sync",
	    .fallback = "async" },
	{ .name = "exploit",
	    .help = "truncation: a member of the worst quantile copies the weights of one of the "
		    "best; tournament: each member copies the weights of a random other member if "
		    "that one is better",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "truncation|tournament",
	    .fallback = "truncation" },
	{ .name = "quantile",
	    .help = "fraction of the population that counts as worst and as best, for truncation; "
		    "at most 0.5",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.25",
	    .min = "0",
	    .max = "0.5" },
	{ .name = "resample",
	    .help = "probability that a parameter is resampled instead of perturbed",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.25",
	    .min = "0",
	    .max = "1" },
	{ .name = "perturb_down",
	    .help = "factor for numbers in half of the perturbations",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.8",
	    .min = "0.001",
	    .max = "1" },
	{ .name = "perturb_up",
	    .help = "factor for numbers in the other half of the perturbations",
	    .type = ESPL_OPT_REAL,
	    .fallback = "1.2",
	    .min = "1",
	    .max = "1000" },
	{ .name = "keep",
	    .help = "comma-separated names of parameters that are copied with the weights and "
		    "never perturbed, such as the width of a network",
	    .type = ESPL_OPT_STRING,
	    .fallback = "" },
	ESPL_TRIED_OPTION,
};

/* ---- making ------------------------------------------------------------------------------- */

static void
destroy(void *self)
{
	struct pbt *pbt = self;

	ESPL_ASSERT(pbt != NULL && pbt->magic == PBT_MAGIC);
	pbt->magic = 0;
	free(pbt->members);
	free(pbt->scores);
	free(pbt->rank);
	free(pbt->values);
	free(pbt->next);
	espl_tried_free(&pbt->tried);
	free(pbt->explore.keep);
	free(pbt);
}

static espl_status
check_options(const struct pbt *pbt, uint64_t populations, struct espl_error *error)
{
	const struct espl_experiment *experiment = pbt->host->service(pbt->host, ESPL_EXPERIMENT);
	char text[160];

	ESPL_ASSERT(pbt->size > 0 && pbt->interval > 0);
	if (experiment != NULL && (experiment->flags & ESPL_EXPERIMENT_NO_SAVE) != 0)
		return espl_hint(error,
		    espl_fail(error, ESPL_E_CONFIG,
			"population-based training copies checkpoints, but trial.checkpoint is "
			"false"),
		    "remove trial.checkpoint = false");
	if (pbt->interval >= pbt->iterations) {
		(void)snprintf(text, sizeof text,
		    "'interval' = %llu must be less than 'iterations_max' = %llu",
		    (unsigned long long)pbt->interval, (unsigned long long)pbt->iterations);
		return espl_hint(error, espl_blame(error, INTERVAL, text),
		    "members are compared after each interval; 1/10 or 1/20 of iterations_max is "
		    "usual");
	}
	if (pbt->fresh_max > 1000000000)
		return espl_hint(error,
		    espl_blame(error, POPULATIONS,
			"'population' times 'populations' exceeds the limit of a search"),
		    "the maximum is 1000000000");
	if (populations == 0 && !shared_has_end(pbt->host))
		return shared_endless(error, POPULATIONS, "'populations'");
	return ESPL_OK;
}

/* `names` -> explore.keep. */
static espl_status
read_keep(struct pbt *pbt, const char *names, struct espl_error *error)
{
	char name[128], text[192];

	for (names += strspn(names, ", "); *names != '\0'; names += strspn(names, ", ")) {
		size_t length = strcspn(names, ", ");
		uint32_t param = ESPL_ANY;

		(void)snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0,
		    names);
		param = pbt->space->find(pbt->space, name);
		if (param == ESPL_ANY) {
			(void)snprintf(text, sizeof text, "'keep': the space has no parameter '%s'",
			    name);
			return espl_hint(error, espl_blame(error, KEEP, text),
			    "write the names of parameters, separated by commas: keep = \"width, "
			    "layers\"");
		}
		pbt->explore.keep[param] = 1;
		names += length;
	}
	return ESPL_OK;
}

/* New members are all different: a space with few configurations makes smaller populations, and
 * fewer of them.  (What explore makes of a member may have been tried: its weights differ.) */
static espl_status
limit_members(struct pbt *pbt, struct espl_error *error)
{
	uint64_t most = pbt->fresh_max > 0 ? pbt->fresh_max : MEMBERS_ENOUGH, limit;
	espl_status status = espl_tried_limit(&pbt->tried, most, &limit, error);

	if (status != ESPL_OK || limit == most)
		return status;
	pbt->wanted = most;
	if (limit < pbt->size)
		pbt->size = (uint32_t)limit;
	pbt->fresh_max = limit / pbt->size * pbt->size;
	return ESPL_OK;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct pbt *pbt = calloc(1, sizeof *pbt);
	uint64_t populations = (uint64_t)config->values[POPULATIONS].as.i;
	size_t params;
	espl_status status;

	if (pbt == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	pbt->magic = PBT_MAGIC;
	pbt->host = host;
	pbt->first = host->service(host, ESPL_FIRST);
	pbt->size = (uint32_t)config->values[POPULATION].as.i;
	pbt->fresh_max = populations * pbt->size;
	pbt->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	pbt->interval = (uint64_t)config->values[INTERVAL].as.i;
	pbt->sync = config->values[MODE].as.i == SYNC;
	pbt->tournament = config->values[EXPLOIT].as.i == TOURNAMENT;
	pbt->quantile = config->values[QUANTILE].as.r;
	pbt->explore.resample = config->values[RESAMPLE].as.r;
	pbt->explore.down = config->values[DOWN].as.r;
	pbt->explore.up = config->values[UP].as.r;
	pbt->group = ESPL_NONE;
	status = espl_tried_init(&pbt->tried, host,
	    espl_tried_repeats(host, &config->values[REPEATS]), error);
	pbt->space = pbt->tried.space;
	if (status == ESPL_OK)
		status = check_options(pbt, populations, error);
	if (status == ESPL_OK)
		status = limit_members(pbt, error);
	if (status == ESPL_OK) {
		params = (size_t)pbt->space->param_count + 1;
		pbt->members = calloc(pbt->size, sizeof *pbt->members);
		pbt->scores = calloc(pbt->size, sizeof *pbt->scores);
		pbt->rank = calloc(pbt->size, sizeof *pbt->rank);
		pbt->values = calloc(pbt->size * params, sizeof *pbt->values);
		pbt->next = calloc(params, sizeof *pbt->next);
		pbt->explore.keep = calloc(params, sizeof *pbt->explore.keep);
		if (pbt->members == NULL || pbt->scores == NULL || pbt->rank == NULL ||
		    pbt->values == NULL || pbt->next == NULL || pbt->explore.keep == NULL)
			status = espl_fail(error, ESPL_E_NOMEM, "out of memory for %u members",
			    pbt->size);
		else
			status = read_keep(pbt, config->values[KEEP].as.s, error);
	}
	if (status != ESPL_OK) {
		destroy(pbt);
		return status;
	}
	*self = pbt;
	return ESPL_OK;
}

/* A synchronous population is a bracket: every interval a stage of all members. */
static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	const struct pbt *pbt = self;
	uint64_t count = (pbt->iterations + pbt->interval - 1) / pbt->interval;
	uint64_t brackets = pbt->fresh_max / pbt->size;
	struct espl_stage full = ESPL_INIT(struct espl_stage), last = ESPL_INIT(struct espl_stage);
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	struct espl_spec declared = ESPL_INIT(struct espl_spec);
	const struct espl_stage **stages;
	const struct espl_bracket **list;
	espl_status status = ESPL_E_NOMEM;
	uint64_t i;

	ESPL_ASSERT(pbt != NULL && pbt->magic == PBT_MAGIC);
	if (!pbt->sync || brackets == 0 || count * brackets > STAGES_MAX)
		return ESPL_OK;
	full.trials = last.trials = pbt->size;
	full.iterations = pbt->interval;
	last.iterations = pbt->iterations - (count - 1) * pbt->interval;
	stages = (const struct espl_stage **)calloc((size_t)count, sizeof *stages);
	list = (const struct espl_bracket **)calloc((size_t)brackets, sizeof *list);
	if (stages != NULL && list != NULL) {
		for (i = 0; i < count; i++)
			stages[i] = i + 1 < count ? &full : &last;
		for (i = 0; i < brackets; i++)
			list[i] = &bracket;
		bracket.stage_count = (uint32_t)count;
		bracket.stages = stages;
		declared.bracket_count = (uint32_t)brackets;
		declared.brackets = list;
		status = sink->spec(sink, &declared);
	}
	free(stages);
	free(list);
	return status == ESPL_OK ? status : espl_fail(error, status, "the spec was rejected");
}

/* ---- asynchronous ------------------------------------------------------------------------- */

/* Those that may be sources save: the better half, all of them in a tournament. */
static espl_status
save_sources(struct pbt *pbt, struct espl_search_sink *sink)
{
	const struct standing *s;
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0; i < pbt->size && status == ESPL_OK; i++) {
		struct member *m = &pbt->members[i];

		if ((m->flags & MEMBER_READY) == 0)
			continue;
		s = pbt_standing(pbt, m->population);
		m->saved = 0;
		if (isnan(m->loss) || (!pbt->tournament && pbt->rank[i] - s->from > s->count / 2))
			continue;
		m->saved = m->iteration;
		status = sink->verdict(sink, m->trial, ESPL_SAVE);
	}
	return status;
}

static espl_status
look_at(struct pbt *pbt, uint32_t index, struct espl_search_sink *sink, struct espl_error *error)
{
	struct member *m = &pbt->members[index];
	uint32_t source = pbt_source(pbt, index);
	espl_status status;

	ESPL_ASSERT(source == ESPL_ANY || (source < pbt->size && source != index));
	if (source == ESPL_ANY) {
		uint64_t behind = pbt_standing(pbt, m->population)->behind;

		if (pbt->most >= pbt->size - pbt->over || behind >= m->iteration ||
		    m->iteration - behind < pbt->interval)
			return ESPL_OK;
		m->saved = m->iteration;
		return sink->verdict(sink, m->trial, ESPL_PAUSE);
	}
	status = sink->verdict(sink, m->trial, ESPL_STOP);
	if (status == ESPL_OK)
		status = pbt_clone(pbt, index, source, sink, error);
	pbt_unrank(pbt, index);
	return status;
}

/* All members that reached an interval since the last call, in order of members, not of arrival. */
static espl_status
look_async(struct pbt *pbt, struct espl_search_sink *sink, struct espl_error *error)
{
	espl_status status;
	uint32_t i;

	pbt_rank(pbt);
	status = save_sources(pbt, sink);
	for (i = 0; i < pbt->size && status == ESPL_OK; i++) {
		struct member *m = &pbt->members[i];

		if ((m->flags & MEMBER_FAILED) != 0) {
			status = pbt_replace(pbt, i, sink, error);
		} else if ((m->flags & MEMBER_PAUSED) != 0) {
			status = pbt_go_on(pbt, i, sink);
		} else if ((m->flags & MEMBER_READY) != 0) {
			m->flags &= (uint16_t)~MEMBER_READY;
			status = look_at(pbt, i, sink, error);
		}
		/* A member that has finished makes room for one of the next population. */
		if ((m->flags & MEMBER_OVER) == 0 ||
		    (pbt->fresh_max > 0 && pbt->fresh == pbt->fresh_max))
			continue;
		pbt->over--;
		if (status == ESPL_OK)
			status = pbt_new(pbt, i, sink);
	}
	return status;
}

/* ---- synchronous -------------------------------------------------------------------------- */

static espl_status
open_group(struct pbt *pbt, struct espl_search_sink *sink)
{
	struct espl_group group = ESPL_INIT(struct espl_group);
	uint64_t stages = (pbt->iterations + pbt->interval - 1) / pbt->interval;
	int declared =
	    pbt->sync && pbt->fresh_max > 0 && stages * (pbt->fresh_max / pbt->size) <= STAGES_MAX;

	group.flags = pbt->sync ? 0 : ESPL_GROUP_OPEN;
	group.bracket = declared ? pbt->population : ESPL_ANY;
	group.stage = declared ? pbt->stage : ESPL_ANY;
	group.concurrency = pbt->size;
	return sink->begin(sink, &group, &pbt->group);
}

static espl_status
begin_population(struct pbt *pbt, struct espl_search_sink *sink)
{
	espl_status status;
	uint32_t i;

	ESPL_ASSERT(pbt->fresh % pbt->size == 0);
	pbt->population = (uint32_t)(pbt->fresh / pbt->size);
	pbt->stage = 0;
	pbt->until = pbt->interval;
	pbt->over = 0;
	status = open_group(pbt, sink);
	for (i = 0; i < pbt->size && status == ESPL_OK; i++)
		status = pbt_new(pbt, i, sink);
	return status;
}

/* All members are paused. The worst are replaced first, so that a source is unchanged since the
 * ranking; replaced trials are dropped at the end. */
static espl_status
next_stage(struct pbt *pbt, struct espl_search_sink *sink, struct espl_error *error)
{
	espl_status status;
	uint32_t i;

	ESPL_ASSERT(pbt->sync && pbt->until < pbt->iterations);
	pbt_rank(pbt);
	ESPL_ASSERT(pbt->scored <= pbt->size);
	pbt->stage++;
	pbt->until = pbt->iterations - pbt->until > pbt->interval ? pbt->until + pbt->interval
								  : pbt->iterations;
	status = open_group(pbt, sink);
	for (i = 0; i < pbt->size && status == ESPL_OK; i++)
		if ((pbt->members[i].flags & MEMBER_FAILED) != 0)
			status = pbt_replace(pbt, i, sink, error);
		else if ((pbt->members[i].flags & (MEMBER_PAUSED | MEMBER_SCORED)) == MEMBER_PAUSED)
			status = pbt_go_on(pbt, i, sink);
	for (i = pbt->scored; i > 0 && status == ESPL_OK; i--) {
		uint32_t index = pbt->scores[i - 1].member, source = pbt_source(pbt, index);

		status = source == ESPL_ANY ? pbt_go_on(pbt, index, sink)
					    : pbt_clone(pbt, index, source, sink, error);
	}
	for (i = 0; i < pbt->scored && status == ESPL_OK; i++)
		if (pbt->members[pbt->scores[i].member].trial != pbt->scores[i].of.trial)
			status = sink->drop(sink, pbt->scores[i].of.trial);
	return status;
}

static espl_status
look_sync(struct pbt *pbt, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	espl_status status = ESPL_OK;

	if ((view->why & ESPL_ASK_GROUP) == 0 || view->group != pbt->group)
		return ESPL_OK; /* some still train */
	if (pbt->until == pbt->iterations)
		pbt->over = pbt->size;
	if (pbt->over < pbt->size)
		status = next_stage(pbt, sink, error);
	if (status == ESPL_OK && pbt->over == pbt->size &&
	    (pbt->fresh_max == 0 || pbt->fresh < pbt->fresh_max))
		status = begin_population(pbt, sink);
	return status;
}

/* ---- the entries -------------------------------------------------------------------------- */

static struct member *
member_of(struct pbt *pbt, const struct espl_trial *trial)
{
	struct member *m = trial->tag < pbt->size ? &pbt->members[trial->tag] : NULL;

	return m != NULL && m->trial == trial->id && (m->flags & MEMBER_TRAINS) != 0 ? m : NULL;
}

/* Looks at a member up to an iteration: the first after a whole interval, and its share of another.
 */
static uint64_t
count_looks(const struct pbt *pbt, uint64_t member, uint64_t iteration)
{
	uint64_t share =
	    pbt->interval / pbt->size * member + pbt->interval % pbt->size * member / pbt->size;

	ESPL_ASSERT(member < pbt->size);
	return iteration < pbt->interval + share ? 0 : (iteration - share) / pbt->interval;
}

static espl_status
on_report(void *self, const struct espl_trial *trial, const struct espl_observation *seen,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct pbt *pbt = self;
	struct member *m = member_of(pbt, trial);
	uint64_t before;

	ESPL_ASSERT(pbt != NULL && pbt->magic == PBT_MAGIC);
	(void)sink;
	(void)error;
	if (m == NULL)
		return ESPL_OK;
	ESPL_ASSERT(seen->iteration > 0);
	before = m->iteration < seen->iteration ? m->iteration : seen->iteration - 1;
	m->iteration = seen->iteration;
	m->flags &= (uint16_t)~MEMBER_ASKED;
	if (!pbt->sync && seen->iteration < pbt->iterations &&
	    count_looks(pbt, trial->tag, seen->iteration) > count_looks(pbt, trial->tag, before)) {
		m->loss = seen->loss;
		m->failures = 0;
		m->flags |= MEMBER_SCORED | MEMBER_READY;
	}
	return ESPL_OK;
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct pbt *pbt = self;
	struct member *m = member_of(pbt, trial);

	ESPL_ASSERT(pbt != NULL && pbt->magic == PBT_MAGIC);
	(void)sink;
	(void)error;
	if (m == NULL)
		return ESPL_OK; /* its place was taken */
	m->iteration = trial->iteration;
	if (how == ESPL_END_BUDGET && pbt->sync) {
		m->loss = trial->loss;
		m->saved = trial->iteration;
		m->failures = 0;
		m->flags = MEMBER_PAUSED | MEMBER_SCORED;
	} else if (how == ESPL_END_PAUSED) {
		m->saved = trial->iteration;
		m->flags = (uint16_t)(MEMBER_PAUSED | (m->flags & MEMBER_SCORED));
	} else if (how == ESPL_END_FAILED) {
		m->failures++;
		m->flags = MEMBER_FAILED;
	} else {
		pbt_over(pbt, m);
	}
	return ESPL_OK;
}

/* More configurations to be tried first than there will ever be new members. */
static void
report_first(const struct pbt *pbt)
{
	if (pbt->first != NULL && pbt->fresh_max > 0 && pbt->first->count > pbt->fresh_max)
		espl_logf(pbt->host, ESPL_WARN,
		    "only %llu of the %u configurations to try first become members",
		    (unsigned long long)pbt->fresh_max, pbt->first->count);
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct pbt *pbt = self;
	espl_status status = ESPL_OK;
	uint32_t i;

	ESPL_ASSERT(pbt != NULL && pbt->magic == PBT_MAGIC);
	ESPL_ASSERT(pbt->over <= pbt->size);
	if (pbt->finished)
		return ESPL_OK;
	if (view->running > pbt->most)
		pbt->most = view->running;
	if (pbt->group == ESPL_NONE) {
		report_first(pbt);
		if (pbt->wanted > 0)
			espl_logf(pbt->host, ESPL_WARN, ESPL_TRIED_FEW,
			    (unsigned long long)pbt->fresh_max, (unsigned long long)pbt->wanted);
	}
	status = espl_tried_reserve(&pbt->tried, pbt->size, error);
	if (status != ESPL_OK)
		return status;
	if (pbt->group == ESPL_NONE && pbt->sync) {
		status = begin_population(pbt, sink);
	} else if (pbt->group == ESPL_NONE) {
		status = open_group(pbt, sink);
		for (i = 0; i < pbt->size && status == ESPL_OK; i++)
			status = pbt_new(pbt, i, sink);
	} else {
		status =
		    pbt->sync ? look_sync(pbt, view, sink, error) : look_async(pbt, sink, error);
	}
	if (status == ESPL_OK && pbt->over == pbt->size) {
		pbt->finished = 1;
		status = sink->finish(sink);
	}
	return status == ESPL_OK ? status : espl_fail(error, status, "the population was rejected");
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_report = on_report,
	.on_trial_end = on_trial_end,
	.spec = spec,
};

ESPL_PLUGIN(algorithm, pbt) = {
	ESPL_HEAD(ESPL_ALGORITHM, "pbt"),
	.version = "0.1",
	.summary =
	    "population-based training: worse members continue from the weights of better ones",
	.caps = ESPL_CAP_PURE | ESPL_CAP_NEEDS_SAVES,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
