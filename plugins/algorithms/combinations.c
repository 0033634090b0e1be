/* combinations.c - every combination of the parameters' values, once; see combinations.h.
 *
 * An odometer with one digit a parameter.  A parameter that its conditions switch off turns no
 * digit, so no configuration comes twice; conditions look back only, so the digits before a
 * parameter already say whether it is on.  Memory is O(parameters), whatever the grid's size.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>
#include "combinations.h"

#define COMBINATIONS_MAX 1000000u /* as many trials as an experiment may have */
#define TURNS_MAX 10000000u       /* forbidden ones included */

/* one parameter */
struct combinations_axis {
	double *points; /* values, if they are picked; NULL: computed */
	uint64_t count; /* how many values */
	uint64_t digit; /* the present one */
};
/* Value number `digit` of a parameter. */
static double
value_of_digit(const struct combinations *all, uint32_t param, uint64_t digit)
{
	const struct espl_param *p = all->space->params[param];

	ESPL_ASSERT(param < all->space->param_count && digit < all->axes[param].count);
	if (all->axes[param].points != NULL)
		return all->axes[param].points[digit];
	if (p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL)
		return (double)digit;
	return p->low + (double)digit * (p->quantum > 0 ? p->quantum : 1.0);
}

/* Picks `points` values evenly on the parameter's scale; coarse ones may fall together. */
static espl_status
pick_points(struct combinations *all, uint32_t param, uint64_t points, struct espl_error *error)
{
	struct combinations_axis *axis = &all->axes[param];
	uint64_t i;

	ESPL_ASSERT(points > 0 && axis->points == NULL);
	axis->points = calloc((size_t)points, sizeof *axis->points);
	if (axis->points == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (i = 0; i < points; i++) {
		double u = points == 1 ? 0.5 : (double)i / (double)(points - 1);
		double value = all->space->value(all->space, param, u);

		if (axis->count == 0 || value != axis->points[axis->count - 1])
			axis->points[axis->count++] = value;
	}
	return ESPL_OK;
}

static espl_status
make_axes(struct combinations *all, uint64_t points, uint64_t most, struct espl_error *error)
{
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0; i < all->space->param_count && status == ESPL_OK; i++) {
		const struct espl_param *p = all->space->params[i];
		int labels = p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL;

		if (p->levels == 0)
			status = pick_points(all, i, points, error);
		else if (!labels && most > 0 && p->levels > most)
			status = pick_points(all, i, most, error);
		else
			all->axes[i].count = p->levels;
	}
	return status;
}

/* The configuration that the odometer shows; inactive parameters become NaN. */
static espl_status
read_odometer(struct combinations *all, struct espl_error *error)
{
	uint32_t i, missing = ESPL_ANY;
	espl_status status;

	for (i = 0; i < all->space->param_count; i++)
		all->values[i] = value_of_digit(all, i, all->axes[i].digit);
	status = all->space->snap(all->space, all->values, &missing);
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status, "the space rejected a configuration of the grid");
}

/* Turns to the next combination, the last parameter fastest; sets over behind the last. */
static espl_status
turn_odometer(struct combinations *all, struct espl_error *error)
{
	uint32_t i = all->space->param_count;

	if (!all->begun) {
		all->begun = 1;
		return read_odometer(all, error);
	}
	while (i-- > 0) {
		struct combinations_axis *axis = &all->axes[i];

		if (!isnan(all->values[i]) && axis->digit + 1 < axis->count) {
			axis->digit++;
			return read_odometer(all, error);
		}
		axis->digit = 0;
	}
	all->over = 1;
	return ESPL_OK;
}

static int
hash_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* A duplicate of one of the user's points, or forbidden. */
static int
is_left_out(const struct combinations *all)
{
	uint64_t hash;

	if (!espl_space_allows(all->space, all->values))
		return 1;
	if (all->seen_count == 0)
		return 0;
	hash = all->space->hash(all->space, all->values);
	return bsearch(&hash, all->seen, all->seen_count, sizeof hash, hash_order) != NULL;
}

/* The user's points, the same one twice counted once, are tried before the grid. */
static espl_status
note_first(struct combinations *all, struct espl_error *error)
{
	uint32_t i, kept = 0;

	if (all->first == NULL || all->first->count == 0)
		return ESPL_OK;
	all->seen = calloc(all->first->count, sizeof *all->seen);
	if (all->seen == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (i = 0; i < all->first->count; i++)
		all->seen[i] = all->space->hash(all->space, all->first->at(all->first, i));
	qsort(all->seen, all->first->count, sizeof *all->seen, hash_order);
	for (i = 0; i < all->first->count; i++)
		if (kept == 0 || all->seen[i] != all->seen[kept - 1])
			all->seen[kept++] = all->seen[i];
	all->seen_count = kept;
	return ESPL_OK;
}

/* Runs the odometer once through, so that the size is known before anything trains. */
static espl_status
count_all(struct combinations *all, struct espl_error *error)
{
	espl_status status = turn_odometer(all, error);
	uint32_t i, turns = 0;

	all->total = all->seen_count;
	for (; status == ESPL_OK && !all->over; status = turn_odometer(all, error)) {
		all->total += is_left_out(all) ? 0 : 1;
		if (all->total > COMBINATIONS_MAX || turns++ == TURNS_MAX) {
			return espl_hint(error,
			    espl_fail(error, ESPL_E_CONFIG,
				"the grid has more than %u configurations", COMBINATIONS_MAX),
			    "lower 'points', set 'levels_max', set a quantum for parameters, or "
			    "use 'random'");
		}
	}
	all->begun = all->over = 0;
	for (i = 0; i < all->space->param_count; i++)
		all->axes[i].digit = 0;
	return status;
}

espl_status
combinations_init(struct combinations *all, const struct espl_host *host, uint64_t points,
    uint64_t levels_max, struct espl_error *error)
{
	espl_status status = ESPL_OK;
	size_t count;

	ESPL_ASSERT(all != NULL && host != NULL && points > 0);
	memset(all, 0, sizeof *all);
	all->space = host->service(host, ESPL_SPACE);
	all->first = host->service(host, ESPL_FIRST);
	if (all->space == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED,
		    "this host does not provide the search space");
	count = (size_t)all->space->param_count + 1;
	all->axes = calloc(count, sizeof *all->axes);
	all->values = calloc(count, sizeof *all->values);
	if (all->axes == NULL || all->values == NULL)
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	if (status == ESPL_OK)
		status = make_axes(all, points, levels_max, error);
	if (status == ESPL_OK)
		status = note_first(all, error);
	if (status == ESPL_OK)
		status = count_all(all, error);
	return status;
}

void
combinations_free(struct combinations *all)
{
	for (uint32_t i = 0; all->axes != NULL && i < all->space->param_count; i++)
		free(all->axes[i].points);
	free(all->axes);
	free(all->values);
	free(all->seen);
	memset(all, 0, sizeof *all);
}

/* Was point `index` of the user's already listed before? */
static int
is_repeat(const struct combinations *all, uint32_t index)
{
	uint64_t hash = all->space->hash(all->space, all->first->at(all->first, index));
	uint32_t i;

	ESPL_ASSERT(index < all->first->count);
	for (i = 0; i < index; i++)
		if (all->space->hash(all->space, all->first->at(all->first, i)) == hash)
			return 1;
	return 0;
}

espl_status
combinations_next(struct combinations *all, const double **values, struct espl_error *error)
{
	espl_status status;

	*values = NULL;
	while (all->first != NULL && all->given < all->first->count) {
		uint32_t index = all->given++;

		if (!is_repeat(all, index)) {
			*values = all->first->at(all->first, index);
			return ESPL_OK;
		}
	}
	do {
		status = turn_odometer(all, error);
	} while (status == ESPL_OK && !all->over && is_left_out(all));
	if (status == ESPL_OK && !all->over)
		*values = all->values;
	return status;
}
