/* samples.c - points, results, and how good a configuration is; see samples.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "portable.h"
#include "samples.h"

#define GRAIN 0x1.0p40 /* what a library's logarithm says beyond is not the same everywhere */
#define ENOUGH 8u      /* results at one iteration, and one for each parameter */

/* ---- axes ------------------------------------------------------------------------------------ */

static double
level_value(const struct espl_param *p, uint32_t level)
{
	if (p->type == ESPL_ORDINAL)
		return level;
	return p->low + level * (p->quantum > 0 ? p->quantum : 1.0);
}

/* Where the levels of an ordered parameter lie. */
static espl_status
lay_axis(struct samples *s, uint32_t i)
{
	const struct espl_param *p = s->space->params[i];
	struct samples_axis *axis = &s->axes[i];
	uint32_t k;

	axis->may_be_off = p->when_count > 0;
	s->conditional |= axis->may_be_off;
	if (p->type == ESPL_CHOICE)
		axis->labels = p->label_count;
	if (p->type == ESPL_CHOICE || p->levels == 0 || p->levels > SAMPLES_LEVELS_MAX)
		return ESPL_OK;
	axis->levels = (uint32_t)p->levels;
	axis->middles = calloc(axis->levels, sizeof *axis->middles);
	axis->edges = calloc((size_t)axis->levels + 1, sizeof *axis->edges);
	if (axis->middles == NULL || axis->edges == NULL)
		return ESPL_E_NOMEM;
	for (k = 0; k < s->axis_count; k++)
		s->configuration[k] = NAN;
	for (k = 0; k < axis->levels; k++) {
		s->configuration[i] = level_value(p, k);
		if (s->space->to_unit(s->space, s->configuration, s->unit) != ESPL_OK)
			return ESPL_E_BUG;
		axis->middles[k] = floor(s->unit[i] * GRAIN + 0.5) / GRAIN;
	}
	for (k = 1; k < axis->levels; k++)
		axis->edges[k] = 0.5 * (axis->middles[k - 1] + axis->middles[k]);
	axis->edges[axis->levels] = 1;
	return ESPL_OK;
}

espl_status
samples_init(struct samples *s, const struct espl_host *host, struct espl_error *error)
{
	const struct espl_experiment *experiment = host->service(host, ESPL_EXPERIMENT);
	espl_status status;
	size_t room;
	uint32_t i;

	memset(s, 0, sizeof *s);
	s->host = host;
	status = espl_tried_init(&s->tried, host, 0, error);
	if (status != ESPL_OK)
		return status;
	s->space = s->tried.space;
	s->axis_count = s->space->param_count;
	if (experiment != NULL && (experiment->flags & ESPL_EXPERIMENT_EARLIER) != 0)
		s->earlier = host->service(host, ESPL_HISTORY);
	room = (size_t)s->axis_count + 1;
	s->axes = calloc(room, sizeof *s->axes);
	s->unit = calloc(room, sizeof *s->unit);
	s->configuration = calloc(room, sizeof *s->configuration);
	s->rest = calloc(room * SAMPLES_REST_MAX, sizeof *s->rest);
	if (s->axes == NULL || s->unit == NULL || s->configuration == NULL || s->rest == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (i = 0; i < s->axis_count && status == ESPL_OK; i++)
		status = lay_axis(s, i);
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "the space cannot be laid out");
}

void
samples_free(struct samples *s)
{
	uint32_t i;

	for (i = 0; s->axes != NULL && i < s->axis_count; i++) {
		free(s->axes[i].middles);
		free(s->axes[i].edges);
	}
	espl_tried_free(&s->tried);
	free(s->axes);
	free(s->points);
	free(s->values);
	free(s->objectives);
	free(s->shortfalls);
	free(s->states);
	free(s->ranking);
	free(s->pending);
	free(s->rows);
	free(s->results);
	free(s->unit);
	free(s->configuration);
	free(s->rest);
}

/* ---- points ---------------------------------------------------------------------------------- */

uint32_t
samples_cell(const struct samples_axis *axis, double u)
{
	uint32_t low = 0, high = axis->levels;

	ESPL_ASSERT(axis->levels > 0);
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (u >= axis->edges[middle])
			low = middle;
		else
			high = middle;
	}
	return low;
}

espl_status
samples_point(struct samples *s, const double *values, double *point)
{
	espl_status status = s->space->to_unit(s->space, values, s->unit);
	uint32_t i;

	for (i = 0; i < s->axis_count && status == ESPL_OK; i++)
		point[i] = isnan(values[i]) ? NAN
		    : s->axes[i].labels > 0 ? values[i]
					    : floor(s->unit[i] * GRAIN + 0.5) / GRAIN;
	return status;
}

espl_status
samples_decode(struct samples *s, double *point, double *values)
{
	espl_status status;
	uint32_t i;

	for (i = 0; i < s->axis_count; i++) {
		double u = point[i];

		if (s->axes[i].labels > 0)
			u = (u + 0.5) / s->axes[i].labels;
		else if (s->axes[i].levels > 0)
			u = s->axes[i].middles[samples_cell(&s->axes[i], u)];
		s->unit[i] = u < 0 ? 0 : u > 1 ? 1 : u;
	}
	status = s->space->from_unit(s->space, s->unit, values);
	return status == ESPL_OK ? samples_point(s, values, point) : status;
}

double
samples_draw_axis(const struct samples *s, uint32_t axis)
{
	double u = espl_uniform(s->host);

	return s->axes[axis].labels > 0 ? floor(u * s->axes[axis].labels) : u;
}

espl_status
samples_uniform(struct samples *s, double *point, double *values)
{
	espl_status status = espl_draw(s->host, s->space, s->unit, values);

	return status == ESPL_OK ? samples_point(s, values, point) : status;
}

/* Marsaglia's polar method. */
double
samples_normal(const struct espl_host *host)
{
	double x, y, square;

	do {
		x = 2 * espl_uniform(host) - 1;
		y = 2 * espl_uniform(host) - 1;
		square = x * x + y * y;
	} while (square >= 1 || square == 0);
	return x * sqrt(-2 * portable_log(square) / square);
}

/* ---- results --------------------------------------------------------------------------------- */

static int
grow_array(void *array, size_t count, size_t size)
{
	void **at = array, *larger = realloc(*at, count * size);

	if (larger != NULL)
		*at = larger;
	return larger != NULL;
}

static espl_status
make_room(struct samples *s, uint64_t trial, struct espl_error *error)
{
	size_t room = (size_t)s->count + s->count / 2 + 32;
	size_t results = (size_t)s->result_count + s->result_count / 2 + 32;
	int made = 1;

	if (s->count == s->room) {
		made =
		    grow_array(&s->points, room * (s->axis_count + (size_t)1), sizeof *s->points) &&
		    grow_array(&s->values, room, sizeof *s->values) &&
		    grow_array(&s->objectives, room, sizeof *s->objectives) &&
		    grow_array(&s->shortfalls, room, sizeof *s->shortfalls) &&
		    grow_array(&s->states, room, sizeof *s->states) &&
		    grow_array(&s->ranking, room, sizeof *s->ranking) &&
		    grow_array(&s->pending, room, sizeof *s->pending);
		s->room = made ? (uint32_t)room : s->room;
	}
	if (made && s->result_count == s->result_room) {
		made = grow_array(&s->results, results, sizeof *s->results);
		s->result_room = made ? (uint32_t)results : s->result_room;
	}
	if (made && trial != ESPL_NONE && trial >= s->row_room) {
		room = (size_t)trial + (size_t)trial / 2 + 64;
		made = room < UINT32_MAX && grow_array(&s->rows, room, sizeof *s->rows);
		if (made) {
			memset(s->rows + s->row_room, 0, (room - s->row_room) * sizeof *s->rows);
			s->row_room = (uint32_t)room;
		}
	}
	return made ? ESPL_OK
		    : espl_fail(error, ESPL_E_NOMEM, "out of memory for %u results", s->count);
}

static espl_status
add_row(struct samples *s, uint64_t trial, const double *values, struct espl_error *error)
{
	espl_status status = make_room(s, trial, error);

	if (status != ESPL_OK)
		return status;
	status = samples_point(s, values, &s->points[(size_t)s->count * s->axis_count]);
	if (status != ESPL_OK)
		return espl_fail(error, status, "a configuration does not belong to this space");
	status = espl_tried_add(&s->tried, values, NULL, error);
	if (status != ESPL_OK)
		return status;
	s->objectives[s->count] = s->shortfalls[s->count] = NAN;
	s->states[s->count] = ESPL_SAMPLE_PENDING;
	s->values[s->count] = INFINITY;
	s->pending[s->pending_count++] = s->count;
	if (trial != ESPL_NONE)
		s->rows[trial] = s->count + 1;
	s->count++;
	return ESPL_OK;
}

static int
is_before(const struct samples *s, uint32_t row, uint32_t other)
{
	return s->values[row] != s->values[other] ? s->values[row] < s->values[other] : row < other;
}

/* Takes a row out of the ranking, if it is there. */
static void
unrank_row(struct samples *s, uint32_t row)
{
	uint32_t i;

	for (i = 0; i < s->ranked; i++)
		if (s->ranking[i] == row) {
			memmove(&s->ranking[i], &s->ranking[i + 1],
			    (--s->ranked - i) * sizeof *s->ranking);
			s->finite -= isfinite(s->values[row]) ? 1 : 0;
			return;
		}
}

static void
rank_row(struct samples *s, uint32_t row)
{
	uint32_t low = 0, high = s->ranked;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (is_before(s, s->ranking[middle], row))
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&s->ranking[low + 1], &s->ranking[low], (s->ranked - low) * sizeof *s->ranking);
	s->ranking[low] = row;
	s->ranked++;
	s->finite += isfinite(s->values[row]) ? 1 : 0;
}

/* What came of a row. */
static void
take_result(struct samples *s, uint32_t row, espl_sample_state state, uint64_t iteration,
    double loss)
{
	uint32_t i;

	if (s->states[row] == ESPL_SAMPLE_PENDING) {
		for (i = 0; i < s->pending_count && s->pending[i] != row; i++)
			;
		ESPL_ASSERT(i < s->pending_count);
		memmove(&s->pending[i], &s->pending[i + 1],
		    (--s->pending_count - i) * sizeof *s->pending);
	} else {
		unrank_row(s, row);
	}
	s->states[row] = (uint8_t)state;
	s->values[row] = state == ESPL_SAMPLE_SEEN && isfinite(loss) ? loss : (double)INFINITY;
	rank_row(s, row);
	if (state != ESPL_SAMPLE_SEEN)
		return;
	s->results[s->result_count++] =
	    (struct samples_result){ .iteration = iteration, .loss = s->values[row], .row = row };
	if (s->iteration != 0 && s->iteration != iteration)
		s->several = 1;
	s->iteration = iteration;
	s->stale = s->several;
}

espl_status
samples_tell(struct samples *s, const struct espl_sample *sample, struct espl_error *error)
{
	espl_status status = make_room(s, sample->trial, error);

	if (status != ESPL_OK)
		return status;
	if (s->rows[sample->trial] == 0)
		status = add_row(s, sample->trial, sample->values, error);
	if (status == ESPL_OK && sample->state != ESPL_SAMPLE_PENDING)
		take_result(s, s->rows[sample->trial] - 1, sample->state, sample->iteration,
		    sample->loss);
	if (status == ESPL_OK && sample->size > offsetof(struct espl_sample, shortfall)) {
		s->objectives[s->rows[sample->trial] - 1] = sample->objective;
		s->shortfalls[s->rows[sample->trial] - 1] = sample->shortfall;
	}
	return status;
}

espl_status
samples_expect(struct samples *s, const double *values, struct espl_error *error)
{
	return add_row(s, ESPL_NONE, values, error);
}

/* They are the last rows, and the last that are pending. */
void
samples_withdraw(struct samples *s, uint32_t count)
{
	ESPL_ASSERT(count <= s->pending_count && count <= s->count);
	s->pending_count -= count;
	s->count -= count;
}

/* Which row has the configuration with this hash: a map that lives while they are read. */
struct samples_map {
	uint64_t *hashes;
	uint32_t *rows;
	uint64_t room;
};

static uint64_t
find_place(const struct samples_map *map, uint64_t hash)
{
	uint64_t at = (hash ^ hash >> 32) & (map->room - 1);

	while (map->rows[at] != 0 && map->hashes[at] != hash)
		at = (at + 1) & (map->room - 1);
	return at;
}

static espl_status
take_earlier(struct samples *s, const struct samples_map *map, const struct espl_observation *o,
    struct espl_error *error)
{
	uint64_t hash = s->space->hash(s->space, o->values), at = find_place(map, hash);
	espl_status status = make_room(s, ESPL_NONE, error);

	if (status == ESPL_OK && map->rows[at] == 0) {
		status = add_row(s, ESPL_NONE, o->values, error);
		map->hashes[at] = hash;
		map->rows[at] = s->count;
	}
	if (status == ESPL_OK)
		take_result(s, map->rows[at] - 1, ESPL_SAMPLE_SEEN, o->iteration, o->loss);
	return status;
}

espl_status
samples_earlier(struct samples *s, struct espl_error *error)
{
	const struct espl_history *history = s->earlier;
	const struct espl_observation *o;
	struct samples_map map = { .room = 64 };
	espl_status status = ESPL_OK;
	uint64_t at, count = 0;

	s->earlier = NULL;
	if (history == NULL)
		return ESPL_OK;
	while ((o = history->at(history, count)) != NULL && (o->flags & ESPL_OBSERVED_EARLIER) != 0)
		count++;
	while (map.room < 2 * (count + 1))
		map.room *= 2;
	map.hashes = calloc((size_t)map.room, sizeof *map.hashes);
	map.rows = calloc((size_t)map.room, sizeof *map.rows);
	if (map.hashes == NULL || map.rows == NULL)
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (at = 0; at < count && status == ESPL_OK; at++)
		status = take_earlier(s, &map, history->at(history, at), error);
	free(map.hashes);
	free(map.rows);
	if (status == ESPL_OK && count > 0)
		espl_logf(s->host, ESPL_INFO,
		    "the model starts with %llu observation%s of an earlier run",
		    (unsigned long long)count, count == 1 ? "" : "s");
	return status;
}

/* ---- several iterations ---------------------------------------------------------------------- */

static int
result_order(const void *a, const void *b)
{
	const struct samples_result *x = a, *y = b;

	if (x->iteration != y->iteration)
		return x->iteration < y->iteration ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static int
number_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The iteration at which configurations are compared: the last one with enough results, or else the
 * one with the most.  Results are sorted. */
static uint64_t
choose_iteration(const struct samples *s, uint32_t *from, uint32_t *until)
{
	uint32_t i, k, most = 0, enough = s->axis_count + 1 > ENOUGH ? s->axis_count + 1 : ENOUGH;

	*from = *until = 0;
	for (i = 0; i < s->result_count; i = k) {
		for (k = i;
		     k < s->result_count && s->results[k].iteration == s->results[i].iteration; k++)
			;
		if (k - i >= enough || k - i > most) {
			most = k - i >= enough ? enough : k - i;
			*from = i;
			*until = k;
		}
	}
	return s->results[*from].iteration;
}

/* By how much losses differ, in the middle, between an iteration and the chosen one, of those
 * configurations that have both. */
static double
shift_of(const struct samples *s, uint32_t from, uint32_t until, double *room)
{
	uint32_t i, pairs = 0;

	for (i = from; i < until; i++) {
		double there = s->values[s->results[i].row], here = s->results[i].loss;

		if (!isnan(there) && isfinite(there) && isfinite(here))
			room[pairs++] = there - here;
	}
	if (pairs == 0)
		return 0;
	qsort(room, pairs, sizeof *room, number_order);
	return 0.5 * (room[(pairs - 1) / 2] + room[pairs / 2]);
}

/* Every configuration's loss at the chosen iteration: its own, or that at the nearest other one
 * that it has, shifted.  `seen` tells which are their own while others are estimated. */
static void
estimate_values(struct samples *s, double *own, double *room)
{
	uint32_t from, until, i, k, row;

	s->iteration = choose_iteration(s, &from, &until);
	for (row = 0; row < s->count; row++)
		s->values[row] = NAN;
	for (i = from; i < until; i++)
		s->values[s->results[i].row] = s->results[i].loss;
	memcpy(own, s->values, s->count * sizeof *own);
	for (i = 0; i < s->result_count; i = k) {
		double shift;

		for (k = i;
		     k < s->result_count && s->results[k].iteration == s->results[i].iteration; k++)
			;
		if (i == from)
			continue;
		memcpy(room, s->values, s->count * sizeof *room);
		memcpy(s->values, own, s->count * sizeof *own);
		shift = shift_of(s, i, k, room + s->count);
		memcpy(s->values, room, s->count * sizeof *room);
		for (; i < k; i++) {
			row = s->results[i].row;
			if (isnan(own[row]) &&
			    (s->results[i].iteration < s->iteration || isnan(s->values[row])))
				s->values[row] = s->results[i].loss + shift;
		}
	}
	for (row = 0; row < s->count; row++)
		if (!isfinite(s->values[row]) || s->states[row] == ESPL_SAMPLE_FAILED)
			s->values[row] = INFINITY;
}

struct samples_place {
	double value;
	uint32_t row, zero;
};

static int
place_order(const void *a, const void *b)
{
	const struct samples_place *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

espl_status
samples_rank(struct samples *s, struct espl_error *error)
{
	struct samples_place *places;
	double *room;
	uint32_t i, n = 0;

	if (!s->stale)
		return ESPL_OK;
	room = calloc(3 * (size_t)s->count + s->result_count + 1, sizeof *room);
	places = calloc((size_t)s->count + 1, sizeof *places);
	if (room == NULL || places == NULL) {
		free(room);
		free(places);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u results", s->count);
	}
	qsort(s->results, s->result_count, sizeof *s->results, result_order);
	estimate_values(s, room, room + s->count);
	s->finite = 0;
	for (i = 0; i < s->count; i++)
		if (s->states[i] != ESPL_SAMPLE_PENDING) {
			places[n++] = (struct samples_place){ .value = s->values[i], .row = i };
			s->finite += isfinite(s->values[i]) ? 1 : 0;
		}
	ESPL_ASSERT(n == s->ranked);
	qsort(places, n, sizeof *places, place_order);
	for (i = 0; i < n; i++)
		s->ranking[i] = places[i].row;
	s->stale = 0;
	free(room);
	free(places);
	return ESPL_OK;
}
