/* earlier.c - see earlier.h. */
#include "base/assert.h"
#include "model/earlier_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "model/space_impl.h"

/* ---- the order of the best ---------------------------------------------------------------- */

struct rank {
	uint64_t furthest;
	double loss;
	uint32_t config;
};

static int
by_rank(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->furthest != y->furthest)
		return x->furthest > y->furthest ? -1 : 1;
	if (x->loss != y->loss)
		return x->loss < y->loss ? -1 : 1;
	return x->config < y->config ? -1 : x->config > y->config;
}

static void
rank_configs(struct espl__earlier *e)
{
	const struct espl_space *view = espl__space_view(e->space);
	struct rank *all = espl__realloc(NULL, e->config_count + (size_t)1, sizeof *all);
	struct espl__map known = { 0 };
	uint32_t count = 0;

	for (uint32_t i = 0; i < e->config_count; i++)
		if (e->configs[i].fits && !isnan(e->configs[i].loss))
			all[count++] =
			    (struct rank){ e->configs[i].furthest, e->configs[i].loss, i };
	qsort(all, count, sizeof *all, by_rank);
	e->ranked = espl__alloc((count + (size_t)1) * sizeof *e->ranked);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t hash = view->hash(view, espl__earlier_values(e, all[i].config));

		if (espl__map_get(&known, hash) != NULL)
			continue;
		espl__map_set(&known, hash, e);
		e->ranked[e->ranked_count++] = all[i].config;
	}
	espl__map_free(&known);
	free(all);
}

static void
digest_seen(struct espl__earlier *e)
{
	struct espl__buf b = { NULL, 0, 0 };

	for (uint64_t i = 0; i < e->seen_count; i++) {
		const struct espl__earlier_seen *s = &e->seen[i];

		espl__put_v64(&b, s->iteration);
		espl__put_f64(&b, s->loss);
		for (uint32_t p = 0; p < e->params; p++)
			espl__put_f64(&b, espl__earlier_values(e, s->config)[p]);
		e->digest = espl__digest(e->digest, b.data, b.size);
		espl__buf_clear(&b);
	}
	espl__buf_free(&b);
}

void
espl__earlier_index(struct espl__earlier *e)
{
	rank_configs(e);
	digest_seen(e);
}

void
espl__earlier_free(struct espl__earlier *e)
{
	if (e == NULL)
		return;
	free(e->metric);
	free(e->configs);
	free(e->values);
	free(e->seen);
	free(e->ranked);
	e->magic = 0;
	free(e);
}

/* ---- asking ------------------------------------------------------------------------------- */

uint64_t
espl__earlier_count(const struct espl__earlier *e)
{
	ESPL__CHECK(e, EARLIER);
	return e->seen_count;
}

void
espl__earlier_at(const struct espl__earlier *e, uint64_t index, struct espl_observation *o)
{
	const struct espl__earlier_seen *s = &e->seen[index];

	ESPL__CHECK(e, EARLIER);
	memset(o, 0, sizeof *o);
	o->size = (uint32_t)sizeof *o;
	o->flags = ESPL_OBSERVED_EARLIER;
	o->trial = ESPL_NONE;
	o->iteration = s->iteration;
	o->loss = s->loss;
	o->metrics = &s->raw;
	o->metric_count = 1;
	o->values = espl__earlier_values(e, s->config);
	o->iteration_s = NAN;
	o->share.packing = 1;
}

const double *
espl__earlier_best(const struct espl__earlier *e, uint32_t rank_of)
{
	ESPL__CHECK(e, EARLIER);
	return rank_of < e->ranked_count ? espl__earlier_values(e, e->ranked[rank_of]) : NULL;
}

uint32_t
espl__earlier_configs(const struct espl__earlier *e)
{
	ESPL__CHECK(e, EARLIER);
	return e->config_count;
}

uint32_t
espl__earlier_skipped(const struct espl__earlier *e, const char **why)
{
	ESPL__CHECK(e, EARLIER);
	if (why != NULL)
		*why = e->why;
	return e->skipped;
}

uint64_t
espl__earlier_digest(const struct espl__earlier *e)
{
	ESPL__CHECK(e, EARLIER);
	return e->digest;
}
