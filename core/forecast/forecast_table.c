/* forecast_table.c - sampled latencies of stages, and how long each layout takes.
 *
 * Draws belong to the stage and the trial, whatever the allocation: plans are compared by the same
 * luck.  All is made when first asked for and depends on the setup alone.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "forecast/forecast_impl.h"

#define TIMINGS_MAX ((size_t)64 << 20) /* bytes of remembered timings */

#define WARMS 4u /* ESPL__WARM_*, and both or none */

enum { TRAIN, AGAIN, START, RESTORE, SAVE, SYNC, PARTS = 64 }; /* streams of a stage */

/* ---- stages -------------------------------------------------------------------------- */

/* Adds draws of `count` trials from `first` on to [samples][trials], made where it is NULL; nothing
 * where all are the same. */
static double *
draw_trials(struct espl__forecast *f, const struct espl__stage_table *t, const struct espl__dist *d,
    uint32_t times, uint32_t what, uint32_t first, uint32_t count, double *into)
{
	uint32_t trials = t->stage->trials;

	if (d->kind == ESPL_CONSTANT)
		return into;
	if (into == NULL)
		into = espl__alloc((size_t)t->samples * trials * sizeof *into);
	for (uint32_t k = first; k < first + count; k++)
		for (uint32_t i = 0; i < times; i++)
			espl__dist_spread(d, f->normal,
			    espl__subkey(espl__subkey(t->key, k), (uint64_t)i * PARTS + what),
			    t->samples, f->order, into + k, trials);
	return into;
}

/* A constant part of a sum of which another part is random. */
static void
add_constant(double *into, const struct espl__stage_table *t, uint32_t first, uint32_t count,
    double value)
{
	for (uint32_t s = 0; into != NULL && s < t->samples; s++)
		for (uint32_t k = first; k < first + count; k++)
			into[(size_t)s * t->stage->trials + k] += value;
}

static void
draw_stage(struct espl__forecast *f, struct espl__stage_table *t)
{
	uint32_t trials = t->stage->trials, at = 0;

	t->samples = !t->random && f->sync.kind == ESPL_CONSTANT
	    ? 1
	    : espl__samples_for(f, t->random ? trials : 1);
	t->train_s = draw_trials(f, t, &t->train.one, t->train.times, TRAIN, 0, trials, NULL);
	t->leave_s = draw_trials(f, t, &f->checkpoint, 1, SAVE, 0, trials, NULL);
	t->enter_s = draw_trials(f, t, &f->start, 1, START, 0, trials, NULL);
	for (uint32_t i = 0; i < t->cohort_count; at += t->cohorts[i++].trials) {
		const struct espl__cohort *c = &t->cohorts[i];

		t->again_s = draw_trials(f, t, &c->again.one, c->again.times, AGAIN, at, c->trials,
		    t->again_s);
		if (c->restores)
			t->enter_s =
			    draw_trials(f, t, &f->restore, 1, RESTORE, at, c->trials, t->enter_s);
	}
	if (f->start.kind == ESPL_CONSTANT)
		add_constant(t->enter_s, t, 0, trials, f->start.mean);
	at = 0;
	for (uint32_t i = 0; i < t->cohort_count; at += t->cohorts[i++].trials) {
		const struct espl__cohort *c = &t->cohorts[i];

		if (c->again.one.kind == ESPL_CONSTANT)
			add_constant(t->again_s, t, at, c->trials, espl__sum_mean(&c->again));
		if (c->restores && f->restore.kind == ESPL_CONSTANT)
			add_constant(t->enter_s, t, at, c->trials, f->restore.mean);
	}
	if (f->sync.kind == ESPL_CONSTANT)
		return;
	t->sync_s = espl__alloc(t->samples * sizeof *t->sync_s);
	espl__dist_spread(&f->sync, f->normal, espl__subkey(espl__subkey(t->key, UINT64_MAX), SYNC),
	    t->samples, f->order, t->sync_s, 1);
}

/* ---- how long a stage takes ---------------------------------------------------------- */

/* The least of a heap has grown: it goes down to where it belongs.  heap[count] is infinite. */
static void
sift_down(double *heap, uint32_t count, uint32_t at)
{
	double value = heap[at];
	uint32_t child;

	while ((child = 2 * at + 1) < count) {
		child += heap[child + 1] < heap[child];
		if (heap[child] >= value)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = value;
}

double
espl__queue(double *trials_s, uint32_t trials, uint32_t slots, int chain, double *heap)
{
	double end = 0.0;

	if (slots < trials && chain) {
		for (uint32_t k = slots; k < trials; k++)
			trials_s[k] += trials_s[k - slots];
	} else if (slots < trials) {
		memcpy(heap, trials_s, slots * sizeof *heap);
		heap[slots] = INFINITY;
		for (uint32_t k = slots / 2; k-- > 0;)
			sift_down(heap, slots, k);
		for (uint32_t k = slots; k < trials; k++) {
			heap[0] = trials_s[k] += heap[0];
			sift_down(heap, slots, 0);
		}
	}
	for (uint32_t k = 0; k < trials; k++)
		end = trials_s[k] > end ? trials_s[k] : end;
	return end;
}

/* What a trial takes, part by part: constants, and what differs. */
struct parts {
	double constant, ratio; /* constant: of the first cohort */
	const double *train, *again, *enter, *leave;
	const struct espl__terms *terms;
	uint32_t gpus;
};

/* What is the same for all trials of a cohort. */
static double
constant_of(const struct espl__forecast *f, const struct espl__stage_table *t,
    const struct espl__cohort *c, const struct parts *p, uint32_t warm)
{
	double constant = 0.0;

	if (t->train_s == NULL)
		constant += p->ratio * espl__sum_mean(&t->train);
	if ((warm & ESPL__WARM_BEFORE) == 0) {
		if (t->again_s == NULL)
			constant += p->ratio * espl__sum_mean(&c->again);
		if (t->enter_s == NULL)
			constant += f->start.mean + (c->restores ? f->restore.mean : 0.0);
	}
	constant += espl__saves_on_the_way(f, t, p->terms, (int)c->restores, p->gpus, warm) *
	    f->checkpoint.mean;
	if ((warm & ESPL__WARM_AFTER) == 0 && t->leave_s == NULL)
		constant += f->checkpoint.mean;
	return constant;
}

static struct parts
parts_of(const struct espl__forecast *f, const struct espl__stage_table *t,
    const struct espl__terms *terms, uint32_t gpus, uint32_t warm)
{
	struct parts p = { .train = t->train_s, .terms = terms, .gpus = gpus };

	p.ratio = espl__ratio(f, terms, gpus);
	if ((warm & ESPL__WARM_BEFORE) == 0) {
		p.again = t->again_s;
		p.enter = t->enter_s;
	}
	if ((warm & ESPL__WARM_AFTER) == 0)
		p.leave = t->leave_s;
	p.constant = constant_of(f, t, &t->cohorts[0], &p, warm);
	return p;
}

/* Cohorts after the first differ from it by this. */
static void
add_cohorts(const struct espl__forecast *f, const struct espl__stage_table *t,
    const struct parts *p, uint32_t warm, double *trials_s)
{
	uint32_t at = t->cohorts[0].trials;

	for (uint32_t i = 1; i < t->cohort_count; i++) {
		double more = constant_of(f, t, &t->cohorts[i], p, warm) - p->constant;

		for (uint32_t k = 0; k < t->cohorts[i].trials; k++)
			trials_s[at++] += more;
	}
}

/* Fills trials_s for one sample. */
static void
fill_trials(const struct parts *p, uint32_t sample, uint32_t trials, double *trials_s)
{
	size_t at = (size_t)sample * trials;

	for (uint32_t k = 0; k < trials; k++)
		trials_s[k] = p->constant;
	if (p->train != NULL)
		for (uint32_t k = 0; k < trials; k++)
			trials_s[k] += p->ratio * p->train[at + k];
	if (p->again != NULL)
		for (uint32_t k = 0; k < trials; k++)
			trials_s[k] += p->ratio * p->again[at + k];
	if (p->enter != NULL)
		for (uint32_t k = 0; k < trials; k++)
			trials_s[k] += p->enter[at + k];
	if (p->leave != NULL)
		for (uint32_t k = 0; k < trials; k++)
			trials_s[k] += p->leave[at + k];
}

void
espl__trial_lengths(const struct espl__forecast *f, const struct espl__stage_table *t,
    const struct espl__terms *terms, uint32_t gpus, uint32_t sample, double *trials_s)
{
	struct parts p = parts_of(f, t, terms, gpus, 0);

	fill_trials(&p, sample, t->stage->trials, trials_s);
	add_cohorts(f, t, &p, 0, trials_s);
}

static void
time_samples(struct espl__forecast *f, const struct espl__stage_table *t, const struct parts *p,
    uint32_t slots, uint32_t warm, struct espl__timing *timing)
{
	uint32_t trials = t->stage->trials;
	double rounds = (double)(((uint64_t)trials + slots - 1) / slots);
	int differ = p->train != NULL || p->again != NULL || p->enter != NULL || p->leave != NULL ||
	    t->cohort_count > 1;

	if (differ) {
		ESPL__GROW(f->trials_s, f->trials_cap, trials);
		ESPL__GROW(f->slots_s, f->slots_cap, (size_t)slots + 1);
	}
	for (uint32_t s = 0; s < t->samples; s++) {
		double seconds = p->constant * rounds, sum = p->constant * trials;

		if (differ) {
			fill_trials(p, s, trials, f->trials_s);
			add_cohorts(f, t, p, warm, f->trials_s);
			sum = 0.0;
			for (uint32_t k = 0; k < trials; k++)
				sum += f->trials_s[k];
			seconds =
			    espl__queue(f->trials_s, trials, slots, f->setup.chain, f->slots_s);
		}
		timing->seconds[s] = seconds + (t->sync_s != NULL ? t->sync_s[s] : f->sync.mean);
		if ((warm & ESPL__WARM_AFTER) !=
		    0) /* all keep their GPUs; those not promoted then save */
			sum = timing->seconds[s] * trials + t->leavers * f->checkpoint.mean;
		timing->busy_s[s] = sum * p->gpus;
		timing->mean += timing->seconds[s];
		timing->busy += timing->busy_s[s];
	}
}

static struct espl__timing *
make_timing(struct espl__forecast *f, struct espl__stage_table *t, const struct espl__terms *terms,
    uint32_t gpus, uint32_t slots, uint32_t warm)
{
	struct espl__timing *timing = espl__arena_alloc(&f->timings, sizeof *timing);
	struct parts p;
	double squares = 0.0;

	if (t->samples == 0)
		draw_stage(f, t);
	f->timing_bytes += sizeof *timing;
	timing->seconds = timing->one;
	if (t->samples > 1) {
		timing->seconds = espl__arena_alloc(&f->timings,
		    2 * (size_t)t->samples * sizeof *timing->seconds);
		f->timing_bytes += 2 * (size_t)t->samples * sizeof *timing->seconds;
	}
	timing->busy_s = timing->seconds + t->samples;
	p = parts_of(f, t, terms, gpus, warm);
	time_samples(f, t, &p, slots, warm, timing);
	timing->mean /= t->samples;
	timing->busy /= t->samples;
	for (uint32_t s = 0; s < t->samples; s++)
		squares +=
		    (timing->seconds[s] - timing->mean) * (timing->seconds[s] - timing->mean);
	timing->sd = t->samples > 1 ? sqrt(squares / (t->samples - 1)) : 0.0;
	return timing;
}

const struct espl__timing *
espl__timing(struct espl__forecast *f, uint32_t table, const struct espl__terms *terms,
    uint32_t gpus, uint32_t slots, uint32_t warm)
{
	struct espl__stage_table *t = &f->tables[table];
	uint64_t key = (uint64_t)gpus << 32 | slots;
	struct espl__map *timings = &t->timings[terms->kind * WARMS + warm];
	struct espl__timing *timing = espl__map_get(timings, key);

	ESPL__CHECK(f, FORECAST);
	if (timing == NULL) {
		timing = make_timing(f, t, terms, gpus, slots, warm);
		espl__map_set(timings, key, timing);
	}
	return timing;
}

void
espl__timings_trim(struct espl__forecast *f)
{
	ESPL__CHECK(f, FORECAST);
	if (f->timing_bytes <= TIMINGS_MAX)
		return;
	for (uint32_t i = 0; i < f->table_count; i++) {
		for (uint32_t k = 0; k < f->kind_count * WARMS; k++) {
			espl__map_free(&f->tables[i].timings[k]);
			memset(&f->tables[i].timings[k], 0, sizeof f->tables[i].timings[k]);
		}
		espl__map_free(&f->tables[i].vacancies);
		memset(&f->tables[i].vacancies, 0, sizeof f->tables[i].vacancies);
	}
	espl__arena_free(&f->timings);
	memset(&f->timings, 0, sizeof f->timings);
	f->timing_bytes = 0;
}

/* ---- begin and end ------------------------------------------------------------------- */

/* The trials of the stage: those of the previous stage that have trained furthest, and new ones.
 * Which ones are promoted matters only without checkpoints; that these are is a guess.
 */
static void
init_cohorts(struct espl__forecast *f, struct espl__stage_table *t)
{
	const struct espl__stage_table *before = t->number > 0 ? t - 1 : NULL;
	uint32_t left = t->stage->trials, n = 0;

	t->cohorts = espl__alloc(
	    (before != NULL ? before->cohort_count + (size_t)1 : 1) * sizeof *t->cohorts);
	for (uint32_t i = 0; before != NULL && i < before->cohort_count && left > 0; i++, n++) {
		const struct espl__cohort *from = &before->cohorts[i];

		t->cohorts[n].trials = from->trials < left ? from->trials : left;
		t->cohorts[n].earlier = from->earlier + (double)before->stage->iterations;
		t->cohorts[n].restores = f->setup.checkpoint != 0;
		left -= t->cohorts[n].trials;
	}
	if (left > 0)
		t->cohorts[n++].trials = left;
	t->cohort_count = n;
	for (uint32_t i = 0; i < n; i++) {
		struct espl__cohort *c = &t->cohorts[i];

		espl__sum_of(&f->iteration, f->setup.checkpoint ? 0.0 : c->earlier, &c->again);
		t->random |= espl__sum_random(&c->again) ||
		    (c->restores && f->restore.kind != ESPL_CONSTANT);
	}
}

static void
init_stage(struct espl__forecast *f, uint32_t index, uint32_t bracket, uint32_t number)
{
	const struct espl_bracket *b = f->setup.spec->brackets[bracket];
	struct espl__stage_table *t = &f->tables[index];
	struct {
		uint64_t seed, bracket, stage;
	} name = { f->setup.seed, bracket, number };

	t->stage = b->stages[number];
	t->timings = espl__alloc(f->kind_count * (size_t)WARMS * sizeof *t->timings);
	if (number + 1 < b->stage_count && t->stage->trials > b->stages[number + 1]->trials)
		t->leavers = t->stage->trials - b->stages[number + 1]->trials;
	t->bracket = bracket;
	t->number = number;
	t->key = espl__digest(f->setup.seed, &name, sizeof name);
	espl__sum_of(&f->iteration, (double)t->stage->iterations, &t->train);
	t->random = espl__sum_random(&t->train) || f->start.kind != ESPL_CONSTANT ||
	    f->checkpoint.kind != ESPL_CONSTANT;
	init_cohorts(f, t);
}

/* Offers whose GPUs are as fast share their timings. */
static void
init_kinds(struct espl__forecast *f)
{
	for (uint32_t i = 0; i < f->setup.offer_count; i++) {
		const struct espl_offer *offer = f->setup.offers[i];
		struct espl__terms *terms = &f->terms[i];
		uint32_t k = 0;

		terms->speed = espl__profile_type_speed(f->setup.profile,
		    offer != NULL ? offer->gpu_type : NULL);
		while (f->terms[k].speed != terms->speed)
			k++;
		terms->kind = k < i ? f->terms[k].kind : f->kind_count++;
	}
	if (f->kind_count == 0)
		f->kind_count = 1;
}

void
espl__tables_init(struct espl__forecast *f)
{
	uint32_t index = 0;

	ESPL__CHECK(f, FORECAST);
	for (uint32_t i = 0; i < f->setup.offer_count; i++)
		espl__terms_init(f, i);
	init_kinds(f);
	for (uint32_t b = 0; b < f->setup.spec->bracket_count; b++) {
		f->first_table[b] = index;
		for (uint32_t i = 0; i < f->setup.spec->brackets[b]->stage_count; i++)
			init_stage(f, index++, b, i);
	}
}

void
espl__tables_free(struct espl__forecast *f)
{
	ESPL__CHECK(f, FORECAST);
	for (uint32_t i = 0; i < f->setup.offer_count; i++)
		espl__terms_free(&f->terms[i]);
	for (uint32_t i = 0; i < f->table_count; i++) {
		struct espl__stage_table *t = &f->tables[i];

		for (uint32_t k = 0; k < f->kind_count * WARMS; k++)
			espl__map_free(&t->timings[k]);
		free(t->timings);
		espl__map_free(&t->vacancies);
		free(t->cohorts);
		free(t->train_s);
		free(t->again_s);
		free(t->enter_s);
		free(t->leave_s);
		free(t->sync_s);
	}
	espl__arena_free(&f->timings);
}
