/* forecast_table.c - sampled latencies of stages, and how long each layout takes.
 *
 * Draws belong to the stage and the trial, whatever the allocation: plans are compared by the same
 * luck.  All is made when first asked for and depends on the setup alone.
 */
#include "base/hash.h"
#include "model/forecast_impl.h"

#define TIMINGS_MAX ((size_t)64 << 20)	/* bytes of remembered timings                        */

enum { TRAIN, AGAIN, START, RESTORE, SAVE, SYNC, PARTS = 64 };	/* streams of a stage */

uint32_t
espl__samples_for(const struct espl__forecast *f, uint64_t draws_each)
{
	uint32_t samples = f->samples;

	while (samples > ESPL__SAMPLES_MIN && samples * draws_each > ESPL__DRAWS_MAX)
		samples /= 2;
	return samples;
}

/* ---- stages -------------------------------------------------------------------------- */

/* Draws of a stage's trials, [samples][trials]; NULL where all are the same. */
static double *
draw_trials(struct espl__forecast *f, const struct espl__stage_table *t, const struct espl__dist *d,
            uint32_t times, uint32_t what, double *into)
{
	uint32_t trials = t->stage->trials;

	if (d->kind == ESPL_CONSTANT)
		return into;
	if (into == NULL)
		into = espl__alloc((size_t)t->samples * trials * sizeof *into);
	for (uint32_t k = 0; k < trials; k++)
		for (uint32_t i = 0; i < times; i++)
			espl__dist_spread(d, f->normal, espl__subkey(espl__subkey(t->key, k),
			                  (uint64_t)i * PARTS + what), t->samples, f->order,
			                  into + k, trials);
	return into;
}

/* A constant part of a sum of which another part is random. */
static void
add(double *into, size_t count, double value)
{
	if (into != NULL)
		for (size_t i = 0; i < count; i++)
			into[i] += value;
}

static void
draw_stage(struct espl__forecast *f, struct espl__stage_table *t)
{
	size_t count;
	double constant = 0.0;

	t->samples = !t->random && f->sync.kind == ESPL_CONSTANT ? 1
	             : espl__samples_for(f, t->random ? t->stage->trials : 1);
	count = (size_t)t->samples * t->stage->trials;
	t->train_s = draw_trials(f, t, &t->train.one, t->train.times, TRAIN, NULL);
	t->again_s = draw_trials(f, t, &t->again.one, t->again.times, AGAIN, NULL);
	t->leave_s = draw_trials(f, t, &f->checkpoint, 1, SAVE, NULL);
	t->enter_s = draw_trials(f, t, &f->start, 1, START, NULL);
	if (f->start.kind == ESPL_CONSTANT)
		constant = f->start.mean;
	if (t->restores) {
		t->enter_s = draw_trials(f, t, &f->restore, 1, RESTORE, t->enter_s);
		if (f->restore.kind == ESPL_CONSTANT)
			constant += f->restore.mean;
	}
	add(t->enter_s, count, constant);
	if (f->sync.kind == ESPL_CONSTANT)
		return;
	t->sync_s = espl__alloc(t->samples * sizeof *t->sync_s);
	espl__dist_spread(&f->sync, f->normal, espl__subkey(espl__subkey(t->key, UINT64_MAX), SYNC),
	                  t->samples, f->order, t->sync_s, 1);
}

/* ---- how long a stage takes ---------------------------------------------------------- */

/* The least of a heap has grown: it goes down to where it belongs.  heap[count] is infinite. */
static void
sink(double *heap, uint32_t count, uint32_t at)
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
		for (uint32_t k = slots / 2; k-- > 0; )
			sink(heap, slots, k);
		for (uint32_t k = slots; k < trials; k++) {
			heap[0] = trials_s[k] += heap[0];
			sink(heap, slots, 0);
		}
	}
	for (uint32_t k = 0; k < trials; k++)
		end = trials_s[k] > end ? trials_s[k] : end;
	return end;
}

/* What a trial takes, part by part: constants, and what differs. */
struct parts {
	double constant, ratio;
	const double *train, *again, *enter, *leave;
};

static struct parts
parts_of(const struct espl__forecast *f, const struct espl__stage_table *t, uint32_t gpus,
         uint32_t warm)
{
	struct espl_share share = { gpus, 1 };
	struct parts p = { .train = t->train_s };

	p.ratio = f->setup.speed / espl__profile_speed(f->setup.profile, share);
	if (t->train_s == NULL)
		p.constant += p.ratio * espl__sum_mean(&t->train);
	if ((warm & ESPL__WARM_BEFORE) == 0) {
		p.again = t->again_s;
		p.enter = t->enter_s;
		if (t->again_s == NULL)
			p.constant += p.ratio * espl__sum_mean(&t->again);
		if (t->enter_s == NULL)
			p.constant += f->start.mean + (t->restores ? f->restore.mean : 0.0);
	}
	p.constant += espl__saves_on_the_way(f, t, gpus, warm) * f->checkpoint.mean;
	if ((warm & ESPL__WARM_AFTER) == 0) {
		p.leave = t->leave_s;
		if (t->leave_s == NULL)
			p.constant += f->checkpoint.mean;
	}
	return p;
}

/* Fills trials_s for one sample; returns their sum. */
static double
fill_trials(const struct parts *p, uint32_t sample, uint32_t trials, double *trials_s)
{
	size_t at = (size_t)sample * trials;
	double sum = 0.0;

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
	for (uint32_t k = 0; k < trials; k++)
		sum += trials_s[k];
	return sum;
}

static void
time_samples(struct espl__forecast *f, const struct espl__stage_table *t, const struct parts *p,
             uint32_t gpus, uint32_t slots, uint32_t warm, struct espl__timing *timing)
{
	uint32_t trials = t->stage->trials;
	double   rounds = (double)(((uint64_t)trials + slots - 1) / slots);
	int      differ = p->train != NULL || p->again != NULL || p->enter != NULL || p->leave != NULL;

	if (differ) {
		ESPL__GROW(f->trials_s, f->trials_cap, trials);
		ESPL__GROW(f->slots_s, f->slots_cap, (size_t)slots + 1);
	}
	for (uint32_t s = 0; s < t->samples; s++) {
		double seconds = p->constant * rounds, sum = p->constant * trials;

		if (differ) {
			sum = fill_trials(p, s, trials, f->trials_s);
			seconds = espl__queue(f->trials_s, trials, slots, f->setup.chain, f->slots_s);
		}
		timing->seconds[s] = seconds + (t->sync_s != NULL ? t->sync_s[s] : f->sync.mean);
		if ((warm & ESPL__WARM_AFTER) != 0)	/* all began at once, and none leaves its GPUs */
			sum = timing->seconds[s] * trials;
		timing->busy_s[s] = sum * gpus;
		timing->mean += timing->seconds[s];
		timing->busy += timing->busy_s[s];
	}
}

static struct espl__timing *
make_timing(struct espl__forecast *f, struct espl__stage_table *t, uint32_t gpus, uint32_t slots,
            uint32_t warm)
{
	struct espl__timing *timing = espl__arena_alloc(&f->timings, sizeof *timing);
	struct parts p;
	double squares = 0.0;

	if (t->samples == 0)
		draw_stage(f, t);
	f->timing_bytes += sizeof *timing;
	timing->seconds = timing->one;
	if (t->samples > 1) {
		timing->seconds = espl__arena_alloc(&f->timings, 2 * (size_t)t->samples *
		                                    sizeof *timing->seconds);
		f->timing_bytes += 2 * (size_t)t->samples * sizeof *timing->seconds;
	}
	timing->busy_s = timing->seconds + t->samples;
	p = parts_of(f, t, gpus, warm);
	time_samples(f, t, &p, gpus, slots, warm, timing);
	timing->mean /= t->samples;
	timing->busy /= t->samples;
	for (uint32_t s = 0; s < t->samples; s++)
		squares += (timing->seconds[s] - timing->mean) * (timing->seconds[s] - timing->mean);
	timing->sd = t->samples > 1 ? sqrt(squares / (t->samples - 1)) : 0.0;
	return timing;
}

const struct espl__timing *
espl__timing(struct espl__forecast *f, uint32_t table, uint32_t gpus, uint32_t slots, uint32_t warm)
{
	struct espl__stage_table *t = &f->tables[table];
	uint64_t key = (uint64_t)gpus << 32 | slots;
	struct espl__timing *timing = espl__map_get(&t->timings[warm], key);

	if (timing == NULL) {
		timing = make_timing(f, t, gpus, slots, warm);
		espl__map_set(&t->timings[warm], key, timing);
	}
	return timing;
}

void
espl__timings_trim(struct espl__forecast *f)
{
	if (f->timing_bytes <= TIMINGS_MAX)
		return;
	for (uint32_t i = 0; i < f->table_count; i++)
		for (uint32_t warm = 0; warm < 4; warm++) {
			espl__map_free(&f->tables[i].timings[warm]);
			memset(&f->tables[i].timings[warm], 0, sizeof f->tables[i].timings[warm]);
		}
	espl__arena_free(&f->timings);
	memset(&f->timings, 0, sizeof f->timings);
	f->timing_bytes = 0;
}

/* ---- begin and end ------------------------------------------------------------------- */

static void
init_stage(struct espl__forecast *f, uint32_t index, uint32_t bracket, uint32_t number)
{
	const struct espl_bracket *b = f->setup.spec->brackets[bracket];
	struct espl__stage_table *t = &f->tables[index];
	struct { uint64_t seed, bracket, stage; } name = { f->setup.seed, bracket, number };

	t->stage = b->stages[number];
	t->bracket = bracket;
	t->number = number;
	t->key = espl__digest(f->setup.seed, &name, sizeof name);
	for (uint32_t i = 0; i < number; i++)
		t->earlier += (double)b->stages[i]->iterations;
	t->restores = f->setup.checkpoint && number > 0;
	espl__sum_of(&f->iteration, (double)t->stage->iterations, &t->train);
	espl__sum_of(&f->iteration, f->setup.checkpoint ? 0.0 : t->earlier, &t->again);
	t->random = espl__sum_random(&t->train) || espl__sum_random(&t->again) ||
	            f->start.kind != ESPL_CONSTANT || f->checkpoint.kind != ESPL_CONSTANT ||
	            (t->restores && f->restore.kind != ESPL_CONSTANT);
}

void
espl__tables_init(struct espl__forecast *f)
{
	uint32_t index = 0;

	for (uint32_t i = 0; i < f->setup.offer_count; i++)
		espl__terms_init(f, i);
	for (uint32_t b = 0; b < f->setup.spec->bracket_count; b++) {
		f->first_table[b] = index;
		for (uint32_t i = 0; i < f->setup.spec->brackets[b]->stage_count; i++)
			init_stage(f, index++, b, i);
	}
}

void
espl__tables_free(struct espl__forecast *f)
{
	for (uint32_t i = 0; i < f->setup.offer_count; i++)
		espl__terms_free(&f->terms[i]);
	for (uint32_t i = 0; i < f->table_count; i++) {
		struct espl__stage_table *t = &f->tables[i];

		for (uint32_t warm = 0; warm < 4; warm++)
			espl__map_free(&t->timings[warm]);
		free(t->train_s);
		free(t->again_s);
		free(t->enter_s);
		free(t->leave_s);
		free(t->sync_s);
	}
	espl__arena_free(&f->timings);
}
