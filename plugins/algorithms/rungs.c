/* rungs.c - ASHA's rungs as heaps: which trials are in the best 1/eta, without ever sorting a rung.
 *
 * A rung is divided into `top`, a heap with its worst result in front, and `others`, a heap with
 * its best in front. A new result is added to the heap where it belongs; then the boundary is moved
 * by at most one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/array.h>
#include "rungs.h"

#define RUNGS_MOST 64u /* 2^63 iterations are more than there are */

/* The trial's id above three flags. */
struct rungs_result {
	double loss;
	uint64_t mark;
};
#define IN_TOP UINT64_C(1)
/* has a place in the heap `ready`, perhaps an outdated one */
#define IN_READY UINT64_C(2)
#define SETTLED UINT64_C(4) /* promoted, or never to be promoted */
#define ID_SHIFT 3

/* ---- heaps ----------------------------------------------------------------------------------- */

/* The first 32 bits of a number that is ordered as the loss is, NaN last: most comparisons need no
 * more, and so no look at results that are far apart in memory. */
static uint32_t
key_of(double loss)
{
	uint64_t bits;

	if (isnan(loss))
		return UINT32_MAX;
	if (loss == 0)
		loss = 0; /* -0 equals 0 */
	memcpy(&bits, &loss, sizeof bits);
	bits = (bits & UINT64_C(1) << 63) != 0 ? ~bits : bits | UINT64_C(1) << 63;
	return (uint32_t)(bits >> 32);
}

/* Is a ahead of b?  Less loss, then NaN, ties by id. */
static int
is_ahead(const struct rungs_rung *rung, struct rungs_place a, struct rungs_place b)
{
	const struct rungs_result *x, *y;

	if (a.key != b.key)
		return a.key < b.key;
	x = &rung->results[a.item];
	y = &rung->results[b.item];
	if (!isnan(x->loss) && !isnan(y->loss) && x->loss != y->loss)
		return x->loss < y->loss;
	return x->mark >> ID_SHIFT < y->mark >> ID_SHIFT;
}

/* Does a come out of the heap before b?  worst: 1 if the worst is to be in front. */
static int
comes_before(const struct rungs_rung *rung, int worst, struct rungs_place a, struct rungs_place b)
{
	return worst ? is_ahead(rung, b, a) : is_ahead(rung, a, b);
}

static void
push_place(const struct rungs_rung *rung, struct rungs_heap *heap, int worst,
    struct rungs_place place)
{
	uint32_t at = heap->count++;

	ESPL_ASSERT(at < heap->room);
	while (at > 0 && comes_before(rung, worst, place, heap->places[(at - 1) / 2])) {
		heap->places[at] = heap->places[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap->places[at] = place;
}

static struct rungs_place
pop_place(const struct rungs_rung *rung, struct rungs_heap *heap, int worst)
{
	struct rungs_place first = heap->places[0], last = heap->places[--heap->count];
	uint32_t at = 0;

	ESPL_ASSERT(heap->count < heap->room);
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    comes_before(rung, worst, heap->places[child + 1], heap->places[child]))
			child++;
		if (!comes_before(rung, worst, heap->places[child], last))
			break;
		heap->places[at] = heap->places[child];
		at = child;
	}
	heap->places[at] = last; /* the heap has room for it even when it is empty now */
	return first;
}

/* Room for `more` places beyond those there are. */
static espl_status
reserve_places(struct rungs_heap *heap, uint32_t more)
{
	struct rungs_place *places =
	    espl_array_grow(heap->places, &heap->room, heap->count + more, sizeof *places);

	if (places == NULL)
		return ESPL_E_NOMEM;
	heap->places = places;
	return ESPL_OK;
}

/* ---- rungs ----------------------------------------------------------------------------------- */

espl_status
rungs_init(struct rungs *rungs, uint64_t first, uint64_t last, uint64_t eta, uint32_t round_up,
    struct espl_error *error)
{
	uint64_t until = first;

	ESPL_ASSERT(first > 0 && first <= last && eta >= 2);
	memset(rungs, 0, sizeof *rungs);
	rungs->magic = RUNGS_MAGIC;
	rungs->eta = eta;
	rungs->round_up = round_up;
	rungs->rungs = calloc(RUNGS_MOST + 1, sizeof *rungs->rungs);
	if (rungs->rungs == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	while (until < last && rungs->count < RUNGS_MOST) {
		rungs->rungs[rungs->count++].until = until;
		until = until > last / eta ? last : until * eta;
	}
	rungs->rungs[rungs->count++].until = last;
	return ESPL_OK;
}

void
rungs_free(struct rungs *rungs)
{
	uint32_t i;

	for (i = 0; i < rungs->count; i++) {
		free(rungs->rungs[i].results);
		free(rungs->rungs[i].top.places);
		free(rungs->rungs[i].others.places);
		free(rungs->rungs[i].ready.places);
	}
	free(rungs->rungs);
	memset(rungs, 0, sizeof *rungs);
}

/* Room for one result, so that nothing can fail half way. */
static espl_status
make_room(struct rungs_rung *rung, struct espl_error *error)
{
	struct rungs_result *results;

	if (rung->count >= UINT32_MAX / 4)
		return espl_fail(error, ESPL_E_LIMIT, "a rung holds at most %u results",
		    UINT32_MAX / 4);
	results = espl_array_grow(rung->results, &rung->room, rung->count + 1, sizeof *results);
	if (results == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	rung->results = results;
	if (reserve_places(&rung->top, 1) != ESPL_OK ||
	    reserve_places(&rung->others, 1) != ESPL_OK ||
	    reserve_places(&rung->ready, 2) != ESPL_OK)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	return ESPL_OK;
}

static void
add_to_top(struct rungs_rung *rung, struct rungs_place place)
{
	struct rungs_result *result = &rung->results[place.item];

	push_place(rung, &rung->top, 1, place);
	result->mark |= IN_TOP;
	if ((result->mark & (SETTLED | IN_READY)) == 0) {
		result->mark |= IN_READY;
		push_place(rung, &rung->ready, 0, place);
	}
}

/* Adds the new result to the heap where it belongs, then moves the boundary. */
static void
cut_result(const struct rungs *rungs, struct rungs_rung *rung, struct rungs_place place)
{
	uint64_t wanted =
	    ((uint64_t)rung->count + (rungs->round_up ? rungs->eta - 1 : 0)) / rungs->eta;

	ESPL_ASSERT((uint64_t)rung->top.count + rung->others.count + 1 == rung->count);
	if (rung->top.count > 0 && is_ahead(rung, place, rung->top.places[0]))
		add_to_top(rung, place);
	else
		push_place(rung, &rung->others, 0, place);
	if (rung->top.count > wanted) {
		struct rungs_place worst = pop_place(rung, &rung->top, 1);

		rung->results[worst.item].mark &= ~IN_TOP;
		push_place(rung, &rung->others, 0, worst);
	} else if (rung->top.count < wanted) {
		add_to_top(rung, pop_place(rung, &rung->others, 0));
	}
	ESPL_ASSERT(rung->top.count == wanted);
}

espl_status
rungs_record(struct rungs *rungs, uint32_t number, uint64_t trial, double loss, int may_go_on,
    int *top, struct espl_error *error)
{
	struct rungs_rung *rung = &rungs->rungs[number];
	espl_status status = make_room(rung, error);
	struct rungs_place place = { key_of(loss), rung->count };
	uint32_t item = rung->count;

	ESPL_ASSERT(rungs->magic == RUNGS_MAGIC && number < rungs->count);
	ESPL_ASSERT(trial <= UINT64_MAX >> ID_SHIFT);
	if (status != ESPL_OK)
		return status;
	rung->results[item].loss = loss;
	rung->results[item].mark = trial << ID_SHIFT | (may_go_on && !isnan(loss) ? 0 : SETTLED);
	rung->count++;
	cut_result(rungs, rung, place);
	if (top != NULL)
		*top = (rung->results[item].mark & IN_TOP) != 0 && !isnan(loss);
	return ESPL_OK;
}

/* The best trial of the top that may still be promoted; UINT32_MAX: none. Removes outdated entries.
 */
static uint32_t
best_ready(struct rungs_rung *rung)
{
	while (rung->ready.count > 0) {
		uint32_t item = rung->ready.places[0].item;

		ESPL_ASSERT(item < rung->count);
		if ((rung->results[item].mark & (IN_TOP | SETTLED)) == IN_TOP)
			return item;
		(void)pop_place(rung, &rung->ready, 0);
		rung->results[item].mark &= ~IN_READY;
	}
	return UINT32_MAX;
}

static struct rungs_result *
find_ready(struct rungs *rungs, uint64_t *trial, uint32_t *number)
{
	uint32_t i;

	ESPL_ASSERT(rungs->magic == RUNGS_MAGIC && rungs->count > 0);
	for (i = rungs->count - 1; i-- > 0;) {
		uint32_t item = best_ready(&rungs->rungs[i]);

		if (item != UINT32_MAX) {
			*number = i;
			*trial = rungs->rungs[i].results[item].mark >> ID_SHIFT;
			return &rungs->rungs[i].results[item];
		}
	}
	return NULL;
}

int
rungs_peek(struct rungs *rungs, uint64_t *trial, uint32_t *number)
{
	return find_ready(rungs, trial, number) != NULL;
}

int
rungs_promote(struct rungs *rungs, uint64_t *trial, uint32_t *number)
{
	struct rungs_result *result = find_ready(rungs, trial, number);

	if (result == NULL)
		return 0;
	result->mark |= SETTLED;
	return 1;
}

/* ---- when configurations have come to an end ---------------------------------------------- */

int
rungs_ended(const struct rungs *rungs)
{
	const struct rungs_rung *last = &rungs->rungs[rungs->count - 1];
	uint32_t i;

	ESPL_ASSERT(rungs->magic == RUNGS_MAGIC);
	for (i = 0; i < last->count; i++)
		if (!isnan(last->results[i].loss))
			return 1;
	return 0;
}

/* What is not a number is settled, too. */
static struct rungs_result *
find_rest(struct rungs *rungs, uint64_t *trial, uint32_t *number)
{
	uint32_t i, k;

	ESPL_ASSERT(rungs->magic == RUNGS_MAGIC && rungs->count > 0);
	for (i = rungs->count - 1; i-- > 0;) {
		struct rungs_rung *rung = &rungs->rungs[i];
		struct rungs_place best = { 0, UINT32_MAX };

		for (k = 0; k < rung->count; k++) {
			struct rungs_place place = { key_of(rung->results[k].loss), k };

			if ((rung->results[k].mark & SETTLED) == 0 &&
			    (best.item == UINT32_MAX || is_ahead(rung, place, best)))
				best = place;
		}
		if (best.item == UINT32_MAX)
			continue;
		*number = i;
		*trial = rung->results[best.item].mark >> ID_SHIFT;
		return &rung->results[best.item];
	}
	return NULL;
}

int
rungs_rest(struct rungs *rungs, uint64_t *trial, uint32_t *number, double *loss)
{
	const struct rungs_result *result = find_rest(rungs, trial, number);

	if (result == NULL)
		return 0;
	*loss = result->loss;
	return 1;
}

int
rungs_force(struct rungs *rungs, uint64_t *trial, uint32_t *number)
{
	struct rungs_result *result = find_rest(rungs, trial, number);

	if (result == NULL)
		return 0;
	result->mark |= SETTLED;
	return 1;
}
