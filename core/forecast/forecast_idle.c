/* forecast_idle.c - planning.release = "idle": when the nodes of a stage come free, and what a plan
 * costs then.
 *
 * Trials are placed as the executor places them: in order, on the fullest node that has room, of
 * these on the oldest.  When the last one has been placed, each node goes as soon as it is empty,
 * as long as the next stage has enough.  Which nodes go differs from sample to sample, so that the
 * leases of each sample are followed one by one.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "forecast/forecast_impl.h"

#define TIE 1e-9 /* seconds: the executor's instants are whole nanoseconds */

/* ---- slots --------------------------------------------------------------------------- */

int
espl__slot_layout_of(const struct espl__forecast *f, const struct espl__step *step,
    struct espl__slot_layout *layout)
{
	uint32_t per_node = step->terms->offer->gpus, gpus = step->view.gpus_per_trial;

	if (step->terms->function || step->warm != 0 || step->floor >= step->view.nodes)
		return 0;
	if (gpus > per_node ? gpus % per_node != 0 : !f->setup.colocate && per_node % gpus != 0)
		return 0; /* trials may straddle nodes */
	layout->nodes = step->view.nodes;
	layout->slots = step->view.slots;
	layout->each = gpus > per_node ? gpus / per_node : 1;
	layout->room = gpus > per_node ? 1 : per_node / gpus;
	layout->units = layout->nodes / layout->each;
	layout->entries = layout->units + (layout->units * layout->each < layout->nodes);
	return 1;
}

/* A trial that runs. */
struct espl__runner {
	double end;
	uint32_t trial, unit;
};

static int
ends_before(const struct espl__runner *a, const struct espl__runner *b)
{
	return a->end < b->end || (a->end <= b->end && a->trial < b->trial);
}

static void
push(struct espl__runner *heap, uint32_t *count, struct espl__runner runner)
{
	uint32_t at = (*count)++;

	for (; at > 0 && ends_before(&runner, &heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = runner;
}

static struct espl__runner
pop(struct espl__runner *heap, uint32_t *count)
{
	struct espl__runner first = heap[0], last = heap[--*count];
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < *count) {
		child += child + 1 < *count && ends_before(&heap[child + 1], &heap[child]);
		if (!ends_before(&heap[child], &last))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

/* What happens in one sample of a stage. */
struct scene {
	const struct espl__slot_layout *layout;
	struct espl__runner *heap;
	uint32_t *busy;  /* [units] trials that run there */
	double *ends;    /* [units] of the last one that did */
	uint32_t count;  /* in the heap */
	uint32_t likely; /* unit with room, where there is but one */
	uint32_t vacant; /* units with room */
};

static uint32_t
find_fullest(const struct scene *s)
{
	uint32_t best = ESPL_ANY;

	if (s->vacant == 1 && s->busy[s->likely] < s->layout->room)
		return s->likely;
	for (uint32_t u = 0; u < s->layout->units; u++)
		if (s->busy[u] < s->layout->room &&
		    (best == ESPL_ANY || s->busy[u] > s->busy[best]))
			best = u;
	return best;
}

static void
place_trial(struct scene *s, uint32_t trial, double now, double length)
{
	uint32_t unit = find_fullest(s);

	if (++s->busy[unit] == s->layout->room)
		s->vacant--;
	else
		s->likely = unit;
	push(s->heap, &s->count, (struct espl__runner){ now + length, trial, unit });
}

static struct espl__runner
remove_trial(struct scene *s)
{
	struct espl__runner gone = pop(s->heap, &s->count);

	if (s->busy[gone.unit]-- == s->layout->room) {
		s->vacant++;
		s->likely = gone.unit;
	}
	s->ends[gone.unit] = gone.end;
	return gone;
}

/* Of a chain those follow whose predecessors have just gone, in order. */
static uint32_t
place_followers(struct scene *s, const struct espl__runner *gone, uint32_t count,
    const double *lengths, uint32_t trials)
{
	uint32_t placed = 0;

	for (uint32_t i = 0; i < count; i++)
		if (gone[i].trial + s->layout->slots < trials) {
			uint32_t next = gone[i].trial + s->layout->slots;

			place_trial(s, next, gone[i].end, lengths[next]);
			placed++;
		}
	return placed;
}

/* Entries in order of the instants at which they come free; of equal ones the oldest first. */
static void
sort_entries(double *until, uint32_t *entry, uint32_t count)
{
	for (uint32_t gap = count / 2; gap > 0; gap /= 2)
		for (uint32_t i = gap; i < count; i++) {
			double t = until[i];
			uint32_t e = entry[i], k = i;

			for (; k >= gap &&
			     (until[k - gap] > t || (until[k - gap] >= t && entry[k - gap] > e));
			     k -= gap) {
				until[k] = until[k - gap];
				entry[k] = entry[k - gap];
			}
			until[k] = t;
			entry[k] = e;
		}
}

void
espl__vacate(struct espl__forecast *f, const struct espl__slot_layout *layout,
    const double *lengths, uint32_t trials, double *until, uint32_t *entry)
{
	struct scene s = { .layout = layout, .vacant = layout->units };
	struct espl__runner *gone;
	uint32_t next = 0, n;
	double last = 0.0; /* when the last trial was placed */

	ESPL__CHECK(f, FORECAST);
	ESPL__GROW(f->runners, f->runners_cap, 2 * (size_t)layout->slots + 1);
	ESPL__GROW(f->unit_busy, f->unit_busy_cap, layout->units);
	ESPL__GROW(f->unit_ends, f->unit_ends_cap, layout->units);
	s.heap = f->runners;
	gone = s.heap + layout->slots;
	s.busy = f->unit_busy;
	s.ends = f->unit_ends;
	memset(s.busy, 0, layout->units * sizeof *s.busy);
	memset(s.ends, 0, layout->units * sizeof *s.ends);
	for (; next < trials && next < layout->slots; next++)
		place_trial(&s, next, 0.0, lengths[next]);
	while (s.count > 0) {
		gone[0] = remove_trial(&s);
		for (n = 1; s.count > 0 && s.heap[0].end <= gone[0].end + TIE; n++)
			gone[n] = remove_trial(&s);
		if (next == trials)
			continue;
		last = gone[n - 1].end;
		if (f->setup.chain) {
			next += place_followers(&s, gone, n, lengths, trials);
			continue;
		}
		for (; n > 0 && next < trials; n--, next++)
			place_trial(&s, next, last, lengths[next]);
	}
	for (uint32_t u = 0; u < layout->entries; u++) {
		until[u] = u < layout->units && s.ends[u] > last ? s.ends[u] : last;
		entry[u] = u;
	}
	sort_entries(until, entry, layout->entries);
}

/* ---- by stage ------------------------------------------------------------------------ */

const struct espl__vacancy *
espl__vacancy(struct espl__forecast *f, const struct espl__step *step)
{
	struct espl__stage_table *t = &f->tables[step->table];
	struct {
		struct espl__slot_layout layout;
		uint32_t gpus, kind;
	} name;
	struct espl__vacancy *v;
	uint64_t key;
	uint32_t trials = t->stage->trials;

	ESPL__CHECK(f, FORECAST);
	memset(&name, 0, sizeof name);
	name.layout = step->layout;
	name.gpus = step->view.gpus_per_trial;
	name.kind = step->terms->kind;
	key = espl__digest(0, &name, sizeof name);
	v = espl__map_get(&t->vacancies, key);
	if (v != NULL)
		return v;
	v = espl__arena_alloc(&f->timings, sizeof *v);
	v->entries = step->layout.entries;
	v->until =
	    espl__arena_alloc(&f->timings, (size_t)t->samples * v->entries * sizeof *v->until);
	v->entry =
	    espl__arena_alloc(&f->timings, (size_t)t->samples * v->entries * sizeof *v->entry);
	f->timing_bytes +=
	    sizeof *v + (size_t)t->samples * v->entries * (sizeof *v->until + sizeof *v->entry);
	ESPL__GROW(f->trials_s, f->trials_cap, trials);
	for (uint32_t s = 0; s < t->samples; s++) {
		espl__trial_lengths(f, t, step->terms, name.gpus, s, f->trials_s);
		espl__vacate(f, &step->layout, f->trials_s, trials,
		    v->until + (size_t)s * v->entries, v->entry + (size_t)s * v->entries);
	}
	espl__map_set(&t->vacancies, key, v);
	return v;
}

/* ---- the bill ------------------------------------------------------------------------ */

/* Leases of one sample: oldest first. */
struct books {
	struct espl__forecast *f;
	uint32_t count;
	double total;
};

/* The lease ends, and the rest of its price is due: the step has paid for its time already. */
static void
close_lease(struct books *b, struct espl__lease *lease, struct espl__step *step, double end)
{
	double length = end - lease->from, usd;

	lease->over = 1;
	if (!step->terms->stepped)
		return;
	usd = step->terms->usd_s * (espl__charged(step->terms, length) - length - lease->surplus);
	step->cost_sum += usd;
	b->total += usd;
}

static void
drop_closed(struct books *b)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->count; i++)
		if (!b->f->leases[i].over)
			b->f->leases[n++] = b->f->leases[i];
	b->count = n;
}

/* What the step before held and this one does not need goes, the oldest first. */
static void
give_back_oldest(struct books *b, uint32_t index)
{
	struct espl__step *step = &b->f->steps[index];
	uint32_t spare = step->first || step[-1].terms != step->terms ? b->count
	    : b->count > step->kept                                   ? b->count - step->kept
								      : 0;

	for (uint32_t i = 0; i < spare; i++)
		close_lease(b, &b->f->leases[i], step - 1, b->f->moments[index - 1].end);
	drop_closed(b);
}

static void
take_leases(struct books *b, uint32_t index)
{
	struct espl__forecast *f = b->f;
	const struct espl__step *step = &f->steps[index];
	const struct espl__moment *m = &f->moments[index];

	ESPL__GROW(f->leases, f->leases_cap,
	    (size_t)b->count + step->fresh + f->setup.held_count + 1);
	for (uint32_t i = 0; step->first && i < f->setup.held_count; i++) {
		double past = f->setup.held[i].billed_s;

		if (f->taker[i] != index + 1)
			continue;
		f->leases[b->count++] = (struct espl__lease){ .from = past > 0 ? -past : 0.0,
			.surplus = past > 0 ? espl__charged(step->terms, past) - past : 0.0 };
	}
	for (uint32_t j = 0; j < step->fresh; j++)
		f->leases[b->count++] =
		    (struct espl__lease){ .from = m->rows == NULL ? m->base
								  : m->base + m->rows[j][m->at] };
}

/* The time for which a lease is held in a step, until an instant. */
static double
held_s(const struct books *b, const struct espl__step *step, const struct espl__moment *m,
    uint32_t lease, double until)
{
	return until - (lease + step->fresh < b->count ? m->begin : b->f->leases[lease].from);
}

/* The lease of node `node` of a step; where nodes are missing, the stage has begun and some went
 * before: then the oldest that is left. */
static uint32_t
lease_of(const struct books *b, const struct espl__step *step, uint32_t node)
{
	uint32_t i = 0;

	if (b->count == step->view.nodes)
		return node;
	while (b->f->leases[i].over)
		i++;
	return i;
}

/* Nodes that come free while the step lasts.  Returns for how long these were held in it. */
static double
release_idle(struct books *b, struct espl__step *step, const struct espl__moment *m)
{
	uint32_t left = b->count, gone = step->view.nodes > left ? step->view.nodes - left : 0;
	double seconds = 0.0;

	for (uint32_t e = 0; e < step->layout.entries; e++) {
		uint32_t each = step->layout.each, k = m->entry[e] * each;
		uint32_t end = m->entry[e] < step->layout.units ? k + each : step->layout.nodes;
		double at = fmin(fmax(m->train + m->until[e], m->begin), m->end);

		for (; k < end && left > step->floor; k++) {
			uint32_t lease;

			if (gone > 0) {
				gone--;
				continue;
			}
			lease = lease_of(b, step, k);
			seconds += held_s(b, step, m, lease, at);
			close_lease(b, &b->f->leases[lease], step, at);
			left--;
		}
	}
	return seconds;
}

static void
pay_step(struct books *b, uint32_t index)
{
	struct espl__step *step = &b->f->steps[index];
	const struct espl__moment *m = &b->f->moments[index];
	double usd = step->fresh * step->terms->data_usd, seconds = 0.0;

	if (m->until != NULL)
		seconds = release_idle(b, step, m);
	for (uint32_t i = 0; i < b->count; i++)
		if (!b->f->leases[i].over)
			seconds += held_s(b, step, m, i, m->end);
	usd += step->terms->usd_s * (step->terms->function ? m->busy : seconds);
	step->begin_sum += m->begin;
	step->end_sum += m->end;
	step->cost_sum += usd;
	b->total += usd;
	drop_closed(b);
}

void
espl__bill_idle(struct espl__forecast *f, double *jct, double *cost)
{
	struct books b = { .f = f };
	double last = 0.0;

	ESPL__CHECK(f, FORECAST);
	for (uint32_t i = 0; i < f->step_count; i++) {
		if (i > 0)
			give_back_oldest(&b, i);
		take_leases(&b, i);
		pay_step(&b, i);
		last = f->moments[i].end > last ? f->moments[i].end : last;
	}
	for (uint32_t i = 0; i < b.count; i++)
		close_lease(&b, &f->leases[i], &f->steps[f->step_count - 1],
		    f->moments[f->step_count - 1].end);
	*jct = last;
	*cost = b.total;
}
