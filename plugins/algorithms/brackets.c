/* brackets.c - the table of brackets, and the walk up each of them.
 *
 * Brackets begin and are filled in order of their numbers, so only one of them can be part filled.
 * A trial's tag is the number of its bracket; a group is one rung of one bracket.
 */
#include <stdlib.h>
#include <string.h>
#include "brackets.h"

#define WIDEST 1000000u   /* configurations in one bracket */
#define ENOUGH 1000001u   /* configurations: a space with as many is as good as infinite */
#define DECLARED_MAX 300u /* brackets: planners take their time squared */

struct brackets_bracket {
	const struct brackets_kind *kind;
	/* of those that may be promoted: [trials of the first rung] */
	struct espl_score *scores;
	struct espl_score *spares; /* not promoted into this rung, best first: the next best takes
				    * the place of a promoted trial that failed */
	uint64_t group;            /* of the running rung, the newest */
	uint32_t stage;            /* the running rung */
	uint32_t added, ended;     /* trials of the group */
	uint32_t failed;           /* of them, for good */
	uint32_t waiting;          /* trials of the rung that have a score */
	uint32_t spare_next, spare_count; /* spares still there: [next, count) */
	uint32_t due; /* 1: the group has ended, but the end is not reported yet */
};

/* ---- the table ------------------------------------------------------------------------------- */

/* base^power, or UINT64_MAX if that is too much. */
static uint64_t
power_of(uint64_t base, uint32_t power)
{
	uint64_t result = 1;

	ESPL_ASSERT(base > 0);
	for (; power > 0; power--) {
		if (result > UINT64_MAX / base)
			return UINT64_MAX;
		result *= base;
	}
	return result;
}

/* Configurations that start in bracket s of 0..most; more than WIDEST if there are too many. */
static uint64_t
count_configurations(const struct brackets_setup *setup, uint32_t most, uint32_t s)
{
	uint64_t power = power_of(setup->eta, s), rungs = (uint64_t)most + 1,
		 parts = (uint64_t)s + 1;

	ESPL_ASSERT(s <= most);
	if (power > WIDEST)
		return power;
	if (setup->rule == BRACKETS_PAPER)
		return (rungs * power + parts - 1) / parts;
	return (rungs + (setup->rule == BRACKETS_ROUNDED_UP ? parts - 1 : 0)) / parts * power;
}

/* How many rungs there are below the last. */
static uint32_t
rungs_below(const struct brackets_setup *setup)
{
	uint64_t most = setup->iterations_max, at = setup->iterations_min, times = most / at;
	uint32_t count = 0;

	ESPL_ASSERT(setup->eta >= 2 && setup->iterations_min <= setup->iterations_max);
	if (setup->anchored)
		for (; at < most; count++)
			at = at > most / setup->eta ? most : at * setup->eta;
	else
		for (; times >= setup->eta; count++)
			times /= setup->eta;
	return count;
}

/* Where rung k of 0..most ends. */
static uint64_t
rung_end(const struct brackets_setup *setup, uint32_t most, uint32_t k)
{
	ESPL_ASSERT(k <= most);
	if (setup->anchored && k < most)
		return setup->iterations_min * power_of(setup->eta, k);
	return setup->iterations_max / power_of(setup->eta, most - k);
}

/* One row, of S = most: n configurations train to rung S - s, one in eta of them to the next, ...
 * A rung for one trial is the last. */
static espl_status
make_kind(const struct brackets_setup *setup, struct brackets_kind *kind, uint32_t most, uint32_t s,
    uint64_t n, struct espl_error *error)
{
	uint32_t i;

	ESPL_ASSERT(s <= most && n > 0);
	kind->s = s;
	kind->rungs = calloc((size_t)s + 1, sizeof *kind->rungs);
	if (kind->rungs == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (i = 0; i <= s; i++, n = n / setup->eta > 1 ? n / setup->eta : 1) {
		struct brackets_rung *rung = &kind->rungs[kind->rung_count++];

		rung->trials = (uint32_t)n;
		rung->until = rung_end(setup, most, n == 1 ? most : most - s + i);
		if (rung->until == setup->iterations_max)
			break;
	}
	return ESPL_OK;
}

static espl_status
refuse_width(struct espl_error *error)
{
	return espl_hint(error,
	    espl_fail(error, ESPL_E_CONFIG,
		"a bracket would start with more than %u configurations", WIDEST),
	    "raise 'iterations_min' or 'eta', or set 'trials'");
}

static espl_status
make_kinds(struct brackets *b, struct espl_error *error)
{
	const struct brackets_setup *setup = &b->setup;
	uint32_t most = rungs_below(setup), count;
	espl_status status = ESPL_OK;

	count = setup->kinds > 0 && setup->kinds <= most ? setup->kinds : most + 1;
	b->kinds = calloc(count, sizeof *b->kinds);
	if (b->kinds == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	while (b->kind_count < count && status == ESPL_OK) {
		uint32_t s = most - b->kind_count;
		uint64_t n = count_configurations(setup, most, s);

		if (n > WIDEST && (setup->trials == 0 || setup->trials > WIDEST))
			return refuse_width(error);
		if (n > WIDEST)
			n = WIDEST + 1; /* it will never be whole */
		status = make_kind(setup, &b->kinds[b->kind_count++], most, s, n, error);
	}
	return status;
}

/* The number of brackets, and the number of configurations left for the last one. */
static espl_status
count_brackets(struct brackets *b, struct espl_error *error)
{
	uint64_t pass = 0, left = b->setup.trials;
	uint32_t i;

	ESPL_ASSERT(b->kind_count > 0);
	if (b->setup.trials == 0) {
		b->total = b->setup.passes == 0 || b->setup.passes > UINT64_MAX / b->kind_count - 1
		    ? UINT64_MAX
		    : b->setup.passes * b->kind_count;
		return ESPL_OK;
	}
	for (i = 0; i < b->kind_count; i++)
		pass += b->kinds[i].rungs[0].trials;
	b->total = left / pass * b->kind_count;
	left %= pass;
	for (i = 0; left > 0 && left >= b->kinds[i].rungs[0].trials; i++, b->total++)
		left -= b->kinds[i].rungs[0].trials;
	if (left == 0)
		return ESPL_OK;
	b->shorter = 1;
	b->total++;
	return make_kind(&b->setup, &b->rest, b->kinds[0].s, b->kinds[i].s, left, error);
}

static const struct brackets_kind *
kind_of(const struct brackets *b, uint64_t bracket)
{
	ESPL_ASSERT(bracket < b->total);
	return b->shorter && bracket + 1 == b->total ? &b->rest
						     : &b->kinds[bracket % b->kind_count];
}

static int
is_declared(const struct brackets *b)
{
	return b->setup.order != BRACKETS_OVERLAP && b->total <= DECLARED_MAX;
}

/* ---- the instance ---------------------------------------------------------------------------- */

espl_status
brackets_read(const struct espl_value *values, struct brackets_setup *setup,
    struct espl_error *error)
{
	setup->trials = (uint64_t)values[BRACKETS_TRIALS].as.i;
	setup->passes = (uint64_t)values[BRACKETS_PASSES].as.i;
	setup->iterations_min = (uint64_t)values[BRACKETS_ITERATIONS_MIN].as.i;
	setup->iterations_max = (uint64_t)values[BRACKETS_ITERATIONS_MAX].as.i;
	setup->eta = (uint64_t)values[BRACKETS_ETA].as.i;
	setup->anchored = values[BRACKETS_RUNGS].as.i == 1;
	setup->repeats = values[BRACKETS_REPEATS].as.i != 0;
	return shared_check_range(setup->iterations_min, setup->iterations_max,
	    BRACKETS_ITERATIONS_MIN, error);
}

/* A search that would make more configurations than the space has ends when all have been made. */
static espl_status
limit_trials(struct brackets *b, struct espl_error *error)
{
	uint64_t pass = 0, most = b->setup.trials, limit;
	espl_status status;
	uint32_t i;

	for (i = 0; i < b->kind_count; i++)
		pass += b->kinds[i].rungs[0].trials;
	if (most == 0)
		most = b->setup.passes == 0 || b->setup.passes > ENOUGH / pass
		    ? ENOUGH
		    : b->setup.passes * pass;
	status = espl_tried_limit(&b->tried, most, &limit, error);
	if (status != ESPL_OK || limit == most)
		return status;
	b->wanted = most;
	b->setup.trials = limit;
	return ESPL_OK;
}

espl_status
brackets_init(struct brackets *b, const struct espl_host *host, const struct brackets_setup *setup,
    brackets_source *source, void *ctx, struct espl_error *error)
{
	espl_status status;

	ESPL_ASSERT(
	    host != NULL && setup->rule <= BRACKETS_ROUNDED_UP && setup->order <= BRACKETS_OVERLAP);
	memset(b, 0, sizeof *b);
	b->magic = BRACKETS_MAGIC;
	b->host = host;
	b->setup = *setup;
	b->source = source;
	b->ctx = ctx;
	status = espl_tried_init(&b->tried, host,
	    setup->repeats || !espl_follows(host, ESPL_RULES_UNIQUE), error);
	if (status != ESPL_OK)
		return status;
	b->space = b->tried.space;
	b->first = host->service(host, ESPL_FIRST);
	b->sampling = host->service(host, ESPL_SAMPLING);
	if (b->sampling != NULL && espl_follows(host, ESPL_RULES_SAMPLERS))
		b->setup.lazy = 1; /* a model needs results between draws */
	b->values = calloc((size_t)b->space->param_count + 1, sizeof *b->values);
	if (b->values == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	status = make_kinds(b, error);
	if (status == ESPL_OK)
		status = limit_trials(b, error);
	if (status == ESPL_OK)
		status = count_brackets(b, error);
	if (status == ESPL_OK && setup->order == BRACKETS_BESIDE && b->total > DECLARED_MAX)
		return espl_hint(error,
		    espl_fail(error, ESPL_E_CONFIG, "at most %u brackets can run side by side",
			DECLARED_MAX),
		    "use order = \"overlap\", which supports any number, or lower 'trials' or "
		    "'passes'");
	if (status != ESPL_OK || b->total != UINT64_MAX)
		return status;
	return shared_has_end(host) ? ESPL_OK
				    : shared_endless(error, ESPL_ANY, "'trials' or 'passes'");
}

static void
free_bracket(struct brackets_bracket *bracket)
{
	if (bracket != NULL) {
		free(bracket->scores);
		free(bracket->spares);
	}
	free(bracket);
}

void
brackets_free(struct brackets *b)
{
	uint64_t i;

	for (i = 0; i < b->begun; i++)
		free_bracket(b->live[i]);
	for (i = 0; i < b->kind_count; i++)
		free(b->kinds[i].rungs);
	free(b->rest.rungs);
	free(b->kinds);
	free(b->live);
	free(b->homes);
	espl_tried_free(&b->tried);
	free(b->values);
	memset(b, 0, sizeof *b);
}

espl_status
brackets_spec(const struct brackets *b, struct espl_spec_sink *sink, struct espl_error *error)
{
	struct espl_stage *stages;
	const struct espl_stage **stage_list;
	struct espl_bracket *list;
	const struct espl_bracket **bracket_list;
	struct espl_spec spec = ESPL_INIT(struct espl_spec);
	espl_status status = ESPL_E_NOMEM;
	size_t i, n = 0, room = b->kinds[0].s + (size_t)1;
	uint32_t k;

	ESPL_ASSERT(b != NULL && b->magic == BRACKETS_MAGIC);
	if (!is_declared(b))
		return ESPL_OK;
	stages = calloc((size_t)b->total * room, sizeof *stages);
	stage_list = calloc((size_t)b->total * room, sizeof *stage_list);
	list = calloc((size_t)b->total, sizeof *list);
	bracket_list = calloc((size_t)b->total, sizeof *bracket_list);
	if (stages != NULL && stage_list != NULL && list != NULL && bracket_list != NULL) {
		for (i = 0; i < b->total; i++) {
			const struct brackets_kind *kind = kind_of(b, i);

			list[i].size = (uint32_t)sizeof list[i];
			list[i].stage_count = kind->rung_count;
			list[i].stages = &stage_list[n];
			bracket_list[i] = &list[i];
			for (k = 0; k < kind->rung_count; k++, n++) {
				stages[n].size = (uint32_t)sizeof stages[n];
				stages[n].trials = kind->rungs[k].trials;
				stages[n].iterations =
				    kind->rungs[k].until - (k > 0 ? kind->rungs[k - 1].until : 0);
				stage_list[n] = &stages[n];
			}
		}
		spec.flags = b->setup.order == BRACKETS_BESIDE ? ESPL_SPEC_PARALLEL : 0;
		spec.bracket_count = (uint32_t)b->total;
		spec.brackets = bracket_list;
		status = sink->spec(sink, &spec);
	}
	free(stages);
	free(stage_list);
	free(list);
	free(bracket_list);
	return status == ESPL_OK ? status : espl_fail(error, status, "the spec was rejected");
}

/* ---- rungs ----------------------------------------------------------------------------------- */

/* Room for one bracket and one group more. */
static espl_status
make_room(struct brackets *b, struct espl_error *error)
{
	uint64_t lives = b->begun + b->begun / 2 + 8,
		 homes = b->home_count + b->home_count / 2 + 16;
	void *more;

	if (b->begun == b->live_room) {
		more = realloc(b->live, (size_t)lives * sizeof *b->live);
		if (more == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		b->live = more;
		b->live_room = lives;
	}
	if (b->home_count == b->home_room) {
		more = realloc(b->homes, (size_t)homes * sizeof *b->homes);
		if (more == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		b->homes = more;
		b->home_room = homes;
	}
	return ESPL_OK;
}

static espl_status
begin_rung(struct brackets *b, uint64_t number, uint32_t flags, struct espl_search_sink *sink)
{
	struct brackets_bracket *bracket = b->live[number];
	struct espl_group group = ESPL_INIT(struct espl_group);
	espl_status status;

	ESPL_ASSERT(bracket != NULL && b->home_count < b->home_room);
	group.flags = flags;
	group.bracket = is_declared(b) ? (uint32_t)number : ESPL_ANY;
	group.stage = is_declared(b) ? bracket->stage : ESPL_ANY;
	status = sink->begin(sink, &group, &bracket->group);
	if (status != ESPL_OK)
		return status;
	/* group_ended searches by number.  Groups of an answer that failed half way were never
	 * made, and their numbers are used again. */
	while (b->home_count > 0 && b->homes[b->home_count - 1].group >= bracket->group)
		b->home_count--;
	bracket->added = bracket->ended = bracket->failed = bracket->due = 0;
	b->homes[b->home_count].group = bracket->group;
	b->homes[b->home_count++].bracket = number;
	return ESPL_OK;
}

static espl_status
add_trial(struct brackets *b, uint64_t number, struct espl_search_sink *sink, espl_how how,
    uint64_t trial, const double *values, struct espl_error *error)
{
	struct brackets_bracket *bracket = b->live[number];
	struct espl_start start = ESPL_INIT(struct espl_start);
	espl_status status;

	ESPL_ASSERT(bracket->stage < bracket->kind->rung_count);
	ESPL_ASSERT(bracket->added < bracket->kind->rungs[bracket->stage].trials);
	start.how = how;
	start.trial = trial;
	start.values = values;
	start.budget = bracket->kind->rungs[bracket->stage].until;
	start.tag = number;
	status = sink->add(sink, bracket->group, &start, &trial);
	if (status != ESPL_OK)
		return status;
	bracket->added++;
	b->starts++;
	return how == ESPL_FRESH && b->source == NULL
	    ? espl_sampling_started(b->sampling, trial, start.budget, values, error)
	    : ESPL_OK;
}

static espl_status
draw_values(void *ctx, double *values, struct espl_error *error)
{
	struct brackets *b = ctx;

	ESPL_ASSERT(b != NULL && b->magic == BRACKETS_MAGIC);
	if (b->source == NULL && b->sampling == NULL)
		return espl_draw(b->host, b->space, b->tried.unit, values);
	if (b->source == NULL)
		return espl_sampling_draw((void *)(uintptr_t)b->sampling, values, error);
	return b->source(b->ctx, (uint32_t)(b->filled % b->kind_count), values, error);
}

/* One configuration more for the bracket that is being filled. */
static espl_status
add_new(struct brackets *b, struct espl_search_sink *sink, struct espl_error *error)
{
	struct brackets_bracket *bracket = b->live[b->filled];
	const double *values;
	espl_status status = espl_tried_first(&b->tried, b->first, &b->first_next, &values, error);

	ESPL_ASSERT(b->filled < b->begun && bracket->stage == 0);
	if (status == ESPL_OK && values == NULL) {
		values = b->values;
		status = espl_tried_new(&b->tried, draw_values, b, b->values, error);
	}
	if (status == ESPL_E_LIMIT)
		/* Brackets hold as many as the space has: of two with one hash one is repeated. */
		status = ESPL_OK;
	if (status == ESPL_OK)
		status = add_trial(b, b->filled, sink, ESPL_FRESH, ESPL_NONE, values, error);
	if (status != ESPL_OK)
		return status;
	b->made++;
	if (b->wanted > 0 && b->made == b->setup.trials)
		espl_logf(b->host, ESPL_INFO, ESPL_TRIED_ALL, (unsigned long long)b->made);
	if (bracket->added < bracket->kind->rungs[0].trials)
		return ESPL_OK;
	if (b->setup.lazy)
		status = sink->close(sink, bracket->group);
	b->filled++;
	return status;
}

/* The next bracket, and its configurations unless they are drawn one by one. */
static espl_status
begin_bracket(struct brackets *b, struct espl_search_sink *sink, struct espl_error *error)
{
	const struct brackets_kind *kind = kind_of(b, b->begun);
	struct brackets_bracket *bracket;
	espl_status status = make_room(b, error);

	if (status == ESPL_OK)
		status = espl_tried_reserve(&b->tried, kind->rungs[0].trials, error);
	if (status != ESPL_OK)
		return status;
	bracket = calloc(1, sizeof *bracket);
	if (bracket != NULL) {
		bracket->scores = calloc(kind->rungs[0].trials, sizeof *bracket->scores);
		bracket->spares = calloc(kind->rungs[0].trials, sizeof *bracket->spares);
	}
	if (bracket == NULL || bracket->scores == NULL || bracket->spares == NULL) {
		free_bracket(bracket);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u trials",
		    kind->rungs[0].trials);
	}
	bracket->kind = kind;
	b->live[b->begun++] = bracket;
	status = begin_rung(b, b->begun - 1, b->setup.lazy ? ESPL_GROUP_OPEN : 0, sink);
	while (status == ESPL_OK && !b->setup.lazy && b->filled < b->begun)
		status = add_new(b, sink, error);
	return status;
}

/* Promoted trials failed: as many of the next best train in their place, in a further group. */
static espl_status
replace_failed(struct brackets *b, uint64_t number, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct brackets_bracket *bracket = b->live[number];
	uint32_t left = bracket->failed;
	espl_status status = make_room(b, error);

	ESPL_ASSERT(bracket->spare_count <= bracket->kind->rungs[0].trials);
	if (status == ESPL_OK)
		status = begin_rung(b, number, 0, sink);
	for (; left > 0 && bracket->spare_next < bracket->spare_count && status == ESPL_OK; left--)
		status = add_trial(b, number, sink, ESPL_CONTINUE,
		    bracket->spares[bracket->spare_next++].trial, NULL, error);
	return status;
}

/* The rung's group has ended: failed trials are replaced, or the best are promoted, or the bracket
 * is over. Those not promoted are kept until the rung above them is complete. */
static espl_status
climb_rung(struct brackets *b, uint64_t number, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct brackets_bracket *bracket = b->live[number];
	struct espl_score *scores = bracket->scores;
	uint32_t i, keep, count = bracket->waiting;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(count <= bracket->kind->rungs[bracket->stage].trials);
	ESPL_ASSERT(b->over < b->begun && b->due >= bracket->due);
	b->due -= bracket->due;
	bracket->due = 0;
	if (bracket->failed > 0 && bracket->spare_next < bracket->spare_count)
		return replace_failed(b, number, sink, error);
	while (bracket->spare_next < bracket->spare_count && status == ESPL_OK)
		status = sink->drop(sink, bracket->spares[bracket->spare_next++].trial);
	bracket->waiting = 0;
	if (status != ESPL_OK)
		return status;
	if (bracket->stage + 1 >= bracket->kind->rung_count || count == 0) {
		free_bracket(bracket);
		b->live[number] = NULL;
		b->over++;
		return ESPL_OK;
	}
	qsort(scores, count, sizeof *scores, espl_score_order);
	bracket->stage++;
	keep = bracket->kind->rungs[bracket->stage].trials;
	if (keep > count)
		keep = count; /* some failed: on with what is left */
	status = make_room(b, error);
	if (status == ESPL_OK)
		status = begin_rung(b, number, 0, sink);
	for (i = 0; i < keep && status == ESPL_OK; i++)
		status = add_trial(b, number, sink, ESPL_CONTINUE, scores[i].trial, NULL, error);
	bracket->scores = bracket->spares;
	bracket->spares = scores;
	bracket->spare_next = keep;
	bracket->spare_count = count;
	return status;
}

void
brackets_ended(struct brackets *b, const struct espl_trial *trial, espl_end how)
{
	struct brackets_bracket *bracket = trial->tag < b->begun ? b->live[trial->tag] : NULL;

	ESPL_ASSERT(b->magic == BRACKETS_MAGIC);
	if (bracket == NULL || trial->group != bracket->group)
		return;
	ESPL_ASSERT(bracket->ended < bracket->added);
	bracket->ended++;
	bracket->failed += how == ESPL_END_FAILED;
	if (how == ESPL_END_BUDGET) {
		ESPL_ASSERT(bracket->waiting < bracket->kind->rungs[0].trials);
		bracket->scores[bracket->waiting].loss = trial->loss;
		bracket->scores[bracket->waiting].trial = trial->id;
		bracket->waiting++;
	}
	if (bracket->ended == bracket->added && (bracket->stage > 0 || trial->tag < b->filled)) {
		bracket->due = 1;
		b->due++;
	}
}

/* ---- the walk -------------------------------------------------------------------------------- */

static espl_status
group_ended(struct brackets *b, uint64_t group, struct espl_search_sink *sink,
    struct espl_error *error)
{
	uint64_t low = 0, high = b->home_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (b->homes[middle].group < group)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == b->home_count || b->homes[low].group != group ||
	    b->live[b->homes[low].bracket] == NULL ||
	    b->live[b->homes[low].bracket]->group != group)
		return ESPL_OK;
	return climb_rung(b, b->homes[low].bracket, sink, error);
}

/* May another bracket begin now? */
static int
may_begin(const struct brackets *b, uint64_t want)
{
	if (b->begun == b->total)
		return 0;
	switch (b->setup.order) {
	case BRACKETS_SEQUENCE: return b->over == b->begun;
	case BRACKETS_BESIDE: return 1;
	default: return want > 0 && b->filled == b->begun && b->due == 0;
	}
}

/* How many trials may begin now. */
static uint64_t
room_of(const struct brackets *b, const struct espl_search_view *view)
{
	uint64_t passes = b->total / b->kind_count, trials = 0;
	uint32_t i;

	if (b->source == NULL && b->sampling == NULL)
		return view->want;
	for (i = 0; i < b->kind_count; i++) {
		uint64_t each = b->kinds[i].rungs[0].trials;

		trials += each * (passes < ESPL_SAMPLING_ENDLESS ? passes : ESPL_SAMPLING_ENDLESS);
		trials += i < b->total % b->kind_count ? each : 0;
	}
	return espl_sampling_room(b->host, view,
	    trials < ESPL_SAMPLING_ENDLESS ? trials : ESPL_SAMPLING_ENDLESS);
}

/* Where the rungs really are: those of the widest bracket. */
static void
report_rungs(struct brackets *b)
{
	const struct brackets_kind *kind = &b->kinds[0];

	b->rungs_logged = 1;
	if (b->wanted > 0)
		espl_logf(b->host, ESPL_WARN, ESPL_TRIED_FEW, (unsigned long long)b->setup.trials,
		    (unsigned long long)b->wanted);
	shared_tell_rungs(b->host, &kind->rungs[0].until, sizeof kind->rungs[0], kind->rung_count,
	    kind->rungs[0].until == b->setup.iterations_min
		? ""
		: "; use rungs = \"anchored\" to start at iterations_min");
}

espl_status
brackets_next(struct brackets *b, const struct espl_search_view *view,
    struct espl_search_sink *sink, struct espl_error *error)
{
	uint64_t want = room_of(b, view), before = b->starts;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(b != NULL && b->magic == BRACKETS_MAGIC);
	ESPL_ASSERT(b->filled <= b->begun && b->over <= b->begun && b->begun <= b->total);
	if (b->finished)
		return ESPL_OK;
	if (!b->rungs_logged)
		report_rungs(b);
	if ((view->why & ESPL_ASK_GROUP) != 0)
		status = group_ended(b, view->group, sink, error);
	/* Something must ask for GPUs, or there will never be any. */
	if (want == 0 && view->running == 0 && view->waiting == 0 && b->due == 0)
		want = 1;
	while (status == ESPL_OK) {
		uint64_t left = want > b->starts - before ? want - (b->starts - before) : 0;

		if (b->filled < b->begun && b->setup.lazy && left > 0)
			status = add_new(b, sink, error);
		else if (may_begin(b, left))
			status = begin_bracket(b, sink, error);
		else
			break;
	}
	if (status == ESPL_OK && b->over == b->total) {
		b->finished = 1;
		status = sink->finish(sink);
	}
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status, "trial %llu was rejected", (unsigned long long)b->made);
}
