/* tried.c - see espalier/kit/tried.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/tried.h>

#define DRAWS 16u      /* of the caller, before they are uniform */
#define NARROW 100000u /* numbers in a range; one with fewer is walked to its end */
#define UNIFORM 100u   /* draws, before the walk: few points are left then */
#define SPARSE 100000u /* draws where the user forbids combinations of an infinite space */
#define TURNS \
	1000000u /* of a walk through a space with forbidden combinations, before it gives up */

int
espl_tried_repeats(const struct espl_host *host, const struct espl_value *option)
{
	return option->as.i != 0 || !espl_follows(host, ESPL_RULES_UNIQUE);
}

espl_status
espl_tried_init(struct espl_tried *tried, const struct espl_host *host, int repeats,
    struct espl_error *error)
{
	size_t count;

	ESPL_ASSERT(host != NULL);
	memset(tried, 0, sizeof *tried);
	tried->magic = ESPL_TRIED_MAGIC;
	tried->host = host;
	tried->space = (const struct espl_space *)host->service(host, ESPL_SPACE);
	tried->repeats = repeats != 0;
	if (tried->space == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED,
		    "this host does not provide the search space");
	count = (size_t)tried->space->param_count + 1;
	tried->digits = (uint64_t *)calloc(count, sizeof *tried->digits);
	tried->values = (double *)calloc(count, sizeof *tried->values);
	tried->unit = (double *)calloc(count, sizeof *tried->unit);
	return tried->digits != NULL && tried->values != NULL && tried->unit != NULL
	    ? espl_tried_reserve(tried, 1, error)
	    : espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

void
espl_tried_free(struct espl_tried *tried)
{
	free(tried->hashes);
	free(tried->digits);
	free(tried->values);
	free(tried->unit);
	memset(tried, 0, sizeof *tried);
}

/* ---- the set --------------------------------------------------------------------------------- */

static uint64_t
espl_tried_hash(const struct espl_tried *tried, const double *values)
{
	uint64_t hash = tried->space->hash(tried->space, values);

	return hash != 0 ? hash : 1; /* 0 is a free place */
}

/* The place of a hash, or the free one where it belongs; there is always a free one. */
static uint64_t
espl_tried_place(const uint64_t *hashes, uint64_t room, uint64_t hash)
{
	uint64_t at = (hash ^ hash >> 32) & (room - 1);

	while (hashes[at] != 0 && hashes[at] != hash)
		at = (at + 1) & (room - 1);
	return at;
}

int
espl_tried_has(const struct espl_tried *tried, const double *values)
{
	uint64_t hash;

	ESPL_ASSERT(tried->magic == ESPL_TRIED_MAGIC);
	if (!espl_space_allows(tried->space, values))
		return 1;
	if (tried->count == 0)
		return 0;
	hash = espl_tried_hash(tried, values);
	return tried->hashes[espl_tried_place(tried->hashes, tried->room, hash)] == hash;
}

espl_status
espl_tried_reserve(struct espl_tried *tried, uint64_t more, struct espl_error *error)
{
	uint64_t room = tried->room > 0 ? tried->room : 64, i;
	uint64_t *hashes;

	ESPL_ASSERT(tried->magic == ESPL_TRIED_MAGIC);
	while (!tried->repeats && tried->count + more > room - room / 4)
		room *= 2;
	if (room == tried->room)
		return ESPL_OK;
	hashes = (uint64_t *)calloc((size_t)room, sizeof *hashes);
	if (hashes == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %llu configurations",
		    (unsigned long long)room);
	for (i = 0; i < tried->room; i++)
		if (tried->hashes[i] != 0)
			hashes[espl_tried_place(hashes, room, tried->hashes[i])] = tried->hashes[i];
	free(tried->hashes);
	tried->hashes = hashes;
	tried->room = room;
	return ESPL_OK;
}

espl_status
espl_tried_add(struct espl_tried *tried, const double *values, int *added, struct espl_error *error)
{
	espl_status status;
	uint64_t hash, at;

	ESPL_ASSERT(tried->magic == ESPL_TRIED_MAGIC);
	if (added != NULL)
		*added = 1;
	if (tried->repeats)
		return ESPL_OK;
	status = espl_tried_reserve(tried, 1, error);
	if (status != ESPL_OK)
		return status;
	hash = espl_tried_hash(tried, values);
	at = espl_tried_place(tried->hashes, tried->room, hash);
	if (tried->hashes[at] == hash) {
		if (added != NULL)
			*added = 0;
		return ESPL_OK;
	}
	tried->hashes[at] = hash;
	tried->count++;
	return ESPL_OK;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* Maps doubles to integers that keep their order; adjacent doubles get adjacent integers. */
static uint64_t
espl_tried_rank(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits >> 63 != 0 ? ~bits : bits | UINT64_C(1) << 63;
}

static double
espl_tried_at_rank(uint64_t rank)
{
	uint64_t bits = rank >> 63 != 0 ? rank & ~(UINT64_C(1) << 63) : ~rank;
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* How many values the walk visits for a parameter.  A very narrow continuous range has only a few
 * doubles; unless they are counted, the walk never ends. */
static uint64_t
espl_tried_digits(const struct espl_param *p)
{
	uint64_t numbers;

	if (p->levels > 0)
		return p->levels;
	numbers = espl_tried_rank(p->high) - espl_tried_rank(p->low) + 1;
	return numbers <= NARROW ? numbers : UINT64_MAX;
}

/* Value number `digit` of a parameter.  Of a continuous one the digits' bits in reverse order: they
 * divide the range more and more finely, and come to no end. */
static double
espl_tried_value(const struct espl_space *space, uint32_t param, uint64_t digit)
{
	const struct espl_param *p = space->params[param];
	uint64_t bits = digit + 1;
	double u = 0, part = 0.5;

	if (p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL)
		return (double)digit;
	if (p->levels > 0)
		return p->low + (double)digit * (p->quantum > 0 ? p->quantum : 1.0);
	if (espl_tried_digits(p) != UINT64_MAX)
		return espl_tried_at_rank(espl_tried_rank(p->low) + digit);
	for (; bits > 0; bits >>= 1, part /= 2)
		u += (double)(bits & 1) * part;
	return space->value(space, param, u);
}

/* The configuration that the digits say; parameters that are off become NaN. */
static espl_status
espl_tried_read(const struct espl_space *space, const uint64_t *digits, double *values,
    struct espl_error *error)
{
	uint32_t i, missing = ESPL_ANY;
	espl_status status;

	for (i = 0; i < space->param_count; i++)
		values[i] = espl_tried_value(space, i, digits[i]);
	status = space->snap(space, values, &missing);
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status, "the space rejected one of its configurations");
}

/* Turns to the next one, the last parameter fastest; a parameter that is off turns no digit, so
 * none comes twice.  *over is set behind the last. */
static espl_status
espl_tried_turn(const struct espl_space *space, uint64_t *digits, double *values, uint32_t *begun,
    uint32_t *over, struct espl_error *error)
{
	uint32_t i = space->param_count;

	if (!*begun) {
		*begun = 1;
		return espl_tried_read(space, digits, values, error);
	}
	while (i-- > 0) {
		if (!isnan(values[i]) && digits[i] + 1 < espl_tried_digits(space->params[i])) {
			digits[i]++;
			return espl_tried_read(space, digits, values, error);
		}
		digits[i] = 0;
	}
	*over = 1;
	return ESPL_OK;
}

/* A lower bound of the number of configurations: the parameters without conditions alone; `most` of
 * an infinite space. */
static uint64_t
espl_tried_least(const struct espl_space *space, uint64_t most)
{
	uint64_t least = 1;
	uint32_t i;

	for (i = 0; i < space->param_count; i++) {
		uint64_t levels = space->params[i]->levels;

		if (levels == 0)
			return most;
		if (space->params[i]->when_count == 0)
			least = least > most / levels ? most : least * levels;
	}
	return least < most ? least : most;
}

static int
espl_tried_has_rules(const struct espl_space *space)
{
	return ESPL_KNOWS(struct espl_space, space, allowed) && space->allowed != NULL;
}

static int
espl_tried_is_infinite(const struct espl_space *space)
{
	for (uint32_t i = 0; i < space->param_count; i++)
		if (space->params[i]->levels == 0)
			return 1;
	return 0;
}

/* Whether that is plain without a walk.  Of forbidden combinations only a walk can tell how many
 * are left, and only of a finite space. */
static int
espl_tried_has_at_least(const struct espl_space *space, uint64_t most)
{
	return espl_tried_has_rules(space) ? espl_tried_is_infinite(space)
					   : espl_tried_least(space, most) == most;
}

/* a walk of its own, from the first configuration */
struct espl_tried_walk {
	uint64_t *digits;
	double *values;
	uint32_t begun, over;
};

static espl_status
espl_tried_walk_init(struct espl_tried_walk *walk, const struct espl_space *space,
    struct espl_error *error)
{
	size_t count = (size_t)space->param_count + 1;

	memset(walk, 0, sizeof *walk);
	walk->digits = (uint64_t *)calloc(count, sizeof *walk->digits);
	walk->values = (double *)calloc(count, sizeof *walk->values);
	return walk->digits != NULL && walk->values != NULL
	    ? ESPL_OK
	    : espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

static void
espl_tried_walk_free(struct espl_tried_walk *walk)
{
	free(walk->digits);
	free(walk->values);
}

espl_status
espl_tried_limit(const struct espl_tried *tried, uint64_t most, uint64_t *limit,
    struct espl_error *error)
{
	struct espl_tried_walk walk;
	uint32_t forbidden = 0;
	espl_status status;

	ESPL_ASSERT(tried->magic == ESPL_TRIED_MAGIC);
	*limit = most;
	if (tried->repeats || espl_tried_has_at_least(tried->space, most))
		return ESPL_OK;
	status = espl_tried_walk_init(&walk, tried->space, error);
	for (*limit = 0; status == ESPL_OK && *limit < most;) {
		status = espl_tried_turn(tried->space, walk.digits, walk.values, &walk.begun,
		    &walk.over, error);
		if (status != ESPL_OK || walk.over)
			break;
		if (espl_space_allows(tried->space, walk.values))
			++*limit;
		else if (++forbidden == TURNS)
			*limit = most; /* not counted to the end */
	}
	espl_tried_walk_free(&walk);
	return status;
}

espl_status
espl_tried_rest(const struct espl_tried *tried, uint32_t most, double *values, uint32_t *count,
    struct espl_error *error)
{
	size_t params = tried->space->param_count;
	struct espl_tried_walk walk;
	espl_status status;
	uint64_t all;
	uint32_t turns = 0;

	ESPL_ASSERT(tried->magic == ESPL_TRIED_MAGIC);
	*count = 0;
	/* What was tried is walked past: so many points may be in the way. */
	all = (uint64_t)most + tried->count + 1;
	if (tried->repeats || espl_tried_has_at_least(tried->space, all))
		return ESPL_OK;
	status = espl_tried_walk_init(&walk, tried->space, error);
	while (status == ESPL_OK && *count <= most) {
		if (!espl_tried_has_rules(tried->space) || turns++ < TURNS) {
			status = espl_tried_turn(tried->space, walk.digits, walk.values,
			    &walk.begun, &walk.over, error);
		} else {
			*count = most + 1; /* more than can be known */
			break;
		}
		if (status != ESPL_OK || walk.over)
			break;
		if (espl_tried_has(tried, walk.values))
			continue;
		if (*count < most && params > 0)
			memcpy(&values[*count * params], walk.values, params * sizeof *values);
		++*count;
	}
	if (*count > most)
		*count = 0;
	espl_tried_walk_free(&walk);
	return status;
}

/* ---- new configurations ---------------------------------------------------------------------- */

static espl_status
espl_tried_too_few(struct espl_error *error)
{
	return espl_hint(error,
	    espl_fail(error, ESPL_E_CONFIG,
		"no configuration was found that is neither forbidden nor tried"),
	    "experiment.forbid leaves too little of the space");
}

static espl_status
espl_tried_next(struct espl_tried *tried, double *values, struct espl_error *error)
{
	espl_status status = ESPL_OK;
	uint32_t turns = 0;

	while (status == ESPL_OK && !tried->over) {
		if (espl_tried_has_rules(tried->space) && turns++ == TURNS)
			return espl_tried_too_few(error);
		status = espl_tried_turn(tried->space, tried->digits, tried->values, &tried->begun,
		    &tried->over, error);
		if (status == ESPL_OK && !tried->over && !espl_tried_has(tried, tried->values)) {
			if (tried->space->param_count > 0)
				memcpy(values, tried->values,
				    tried->space->param_count * sizeof *values);
			return espl_tried_add(tried, values, NULL, error);
		}
	}
	return status == ESPL_OK ? ESPL_E_LIMIT : status;
}

espl_status
espl_tried_new(struct espl_tried *tried, espl_tried_draw *draw, void *ctx, double *values,
    struct espl_error *error)
{
	espl_status status;
	uint32_t i, draws = DRAWS + UNIFORM;
	int added;

	ESPL_ASSERT(tried->magic == ESPL_TRIED_MAGIC);
	if (espl_tried_has_rules(tried->space) && espl_tried_is_infinite(tried->space))
		draws = SPARSE;
	for (i = 0; i < draws; i++) {
		status = draw != NULL && i < DRAWS
		    ? draw(ctx, values, error)
		    : espl_draw(tried->host, tried->space, tried->unit, values);
		if (status == ESPL_OK && !espl_space_allows(tried->space, values))
			continue;
		if (status == ESPL_OK)
			status = espl_tried_add(tried, values, &added, error);
		if (status != ESPL_OK || added)
			return status;
	}
	if (draws == SPARSE)
		return espl_tried_too_few(error);
	return espl_tried_next(tried, values, error);
}

espl_status
espl_tried_first(struct espl_tried *tried, const struct espl_first *first, uint32_t *next,
    const double **values, struct espl_error *error)
{
	espl_status status = ESPL_OK;
	int added = 0;

	*values = NULL;
	while (status == ESPL_OK && !added && first != NULL && *next < first->count) {
		*values = first->at(first, (*next)++);
		status = espl_tried_add(tried, *values, &added, error);
	}
	if (!added)
		*values = NULL;
	return status;
}
