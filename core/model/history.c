/* history.c - the append-only list of observations behind the service ESPL_HISTORY.
 *
 * Records are packed in a pool; `at` unpacks into one struct that is valid until the next call.
 */
#include "base/assert.h"
#include "model/earlier.h"
#include "model/trials.h"

#include <math.h>
#include <string.h>

struct record {
	uint64_t trial, iteration;
	espl_time at;
	double loss, iteration_s;
	const double *metrics;
	uint64_t before;                     /* index + 1 of the trial's previous record, 0 none */
	uint32_t metric_count, gpus_packing; /* gpus << 16 | packing */
};

#define ESPL__HISTORY_MAGIC 0x6f6e7473u
struct espl__history {
	struct espl_history view;
	uint32_t magic; /* ESPL__HISTORY_MAGIC */
	const struct espl__trials *trials;
	const struct espl__earlier *earlier; /* or NULL */
	uint64_t before;                     /* how many observations it holds */
	struct espl__pool records;
	struct espl__arena metrics;
	uint64_t *last; /* per trial: index + 1 of its newest record */
	uint64_t last_cap;
	struct espl_observation seen;
	struct espl_point *points;
	uint32_t point_cap;
	const double *const *first;
	uint32_t first_count;
};

static uint64_t
count(const struct espl_history *view)
{
	const struct espl__history *h = view->ctx;

	return h->before + h->records.count;
}

static const struct espl_observation *
at(const struct espl_history *view, uint64_t index)
{
	struct espl__history *h = view->ctx;
	const struct record *r;
	struct espl_observation *o = &h->seen;
	const struct espl__trial *trial;

	if (index < h->before) {
		espl__earlier_at(h->earlier, index, o);
		return o;
	}
	index -= h->before;
	if (index >= h->records.count)
		return NULL;
	r = espl__pool_at(&h->records, index);
	trial = espl__trial_at(h->trials, r->trial);
	memset(o, 0, sizeof *o);
	o->size = (uint32_t)sizeof *o;
	o->trial = r->trial;
	o->iteration = r->iteration;
	o->loss = r->loss;
	o->metrics = r->metrics;
	o->metric_count = r->metric_count;
	o->values = trial != NULL ? trial->pub.values : NULL;
	o->at = r->at;
	o->iteration_s = r->iteration_s;
	o->share.gpus = r->gpus_packing >> 16;
	o->share.packing = r->gpus_packing & 0xffff;
	return o;
}

static const struct espl_trial *
trial_of(const struct espl_history *view, uint64_t id)
{
	const struct espl__history *h = view->ctx;
	const struct espl__trial *trial = espl__trial_at(h->trials, id);

	return trial != NULL ? &trial->pub : NULL;
}

/* The records of its ancestors, up to the iteration where the clone began, come first. */
static uint32_t
curve(const struct espl_history *view, uint64_t id, uint32_t metric,
    const struct espl_point **points)
{
	struct espl__history *h = view->ctx;
	uint64_t limit = UINT64_MAX;
	uint32_t n = 0;

	while (id != ESPL_NONE && id < h->trials->trials.count) {
		const struct espl__trial *trial = espl__trial_at(h->trials, id);
		uint64_t index = id < h->last_cap ? h->last[id] : 0;
		uint64_t first = limit;

		while (index != 0) {
			const struct record *r = espl__pool_at(&h->records, index - 1);
			if (r->iteration < limit && metric < r->metric_count) {
				ESPL__GROW(h->points, h->point_cap, n + 1);
				h->points[n].x = (double)r->iteration;
				h->points[n++].y = r->metrics[metric];
				first = r->iteration;
			}
			index = r->before;
		}
		limit = first;
		id = trial->pub.parent;
	}
	for (uint32_t i = 0; i < n / 2; i++) {
		struct espl_point p = h->points[i];
		h->points[i] = h->points[n - 1 - i];
		h->points[n - 1 - i] = p;
	}
	*points = h->points;
	return n;
}

static const double *
first_point(const struct espl_history *view, uint32_t index)
{
	const struct espl__history *h = view->ctx;

	return index < h->first_count ? h->first[index] : NULL;
}

struct espl__history *
espl__history_new(const struct espl__trials *trials, const struct espl__earlier *earlier)
{
	struct espl__history *h = espl__alloc(sizeof *h);

	h->magic = ESPL__HISTORY_MAGIC;
	h->trials = trials;
	h->earlier = earlier;
	h->before = earlier != NULL ? espl__earlier_count(earlier) : 0;
	espl__pool_init(&h->records, sizeof(struct record));
	h->view.size = (uint32_t)sizeof h->view;
	h->view.ctx = h;
	h->view.count = count;
	h->view.at = at;
	h->view.trial = trial_of;
	h->view.curve = curve;
	h->view.first = first_point;
	return h;
}

void
espl__history_free(struct espl__history *h)
{
	if (h == NULL)
		return;
	espl__pool_free(&h->records);
	espl__arena_free(&h->metrics);
	free(h->last);
	free(h->points);
	h->magic = 0;
	free(h);
}

const struct espl_history *
espl__history_view(struct espl__history *h)
{
	ESPL__CHECK(h, HISTORY);
	return &h->view;
}

void
espl__history_add(struct espl__history *h, const struct espl_observation *o)
{
	struct record *r = espl__pool_add(&h->records);
	double *metrics = espl__arena_alloc(&h->metrics, o->metric_count * sizeof *metrics);
	uint64_t had = h->last_cap;

	ESPL__CHECK(h, HISTORY);
	memcpy(metrics, o->metrics, o->metric_count * sizeof *metrics);
	r->trial = o->trial;
	r->iteration = o->iteration;
	r->at = o->at;
	r->loss = o->loss;
	r->iteration_s = o->iteration_s;
	r->metrics = metrics;
	r->metric_count = o->metric_count;
	r->gpus_packing = o->share.gpus << 16 | (o->share.packing & 0xffff);
	ESPL__GROW(h->last, h->last_cap, o->trial + 1);
	if (h->last_cap > had)
		memset(h->last + had, 0, (h->last_cap - had) * sizeof *h->last);
	r->before = h->last[o->trial];
	h->last[o->trial] = h->records.count;
}

void
espl__history_first(struct espl__history *h, const double *const *points, uint32_t n)
{
	ESPL__CHECK(h, HISTORY);
	h->first = points;
	h->first_count = n;
}
