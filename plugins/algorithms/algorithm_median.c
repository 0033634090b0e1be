/* algorithm_median.c - random search with the median stopping rule of Vizier's paper (Golovin et
 * al., KDD 2017, section 3.2.1): a trial stops at step s if its best loss by then is worse than the
 * median of the running averages, up to step s, of the losses of all completed trials.
 *
 * Trials that were stopped early or failed do not count as completed. A running average that
 * includes a NaN counts as infinite, and NaN is never a best loss. Beyond the paper: nothing is
 * stopped before `trials_min` completed trials have come as far, nor within `grace` iterations, and
 * the rule may be applied every few iterations only.
 *
 * Each step has the averages in two heaps with the median between them: O(log n) for each completed
 * trial and step, O(1) for each check. Memory: 8 bytes for each completed trial and step at which
 * the rule is applied.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include "shared.h"

enum { TRIALS, ITERATIONS_MAX, TRIALS_MIN, GRACE, INTERVAL, REPEATS, SAMPLER };

static const struct espl_option options[] = {
	SHARED_OPTION_TRIALS,
	{ .name = "iterations_max",
	    .help = "number of iterations of trials that are not stopped",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "1000000000000",
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "trials_min",
	    .help = "number of completed trials before the first one is stopped",
	    .type = ESPL_OPT_INT,
	    .fallback = "5",
	    .min = "1",
	    .max = "1000000000" },
	{ .name = "grace",
	    .help = "number of iterations before a trial can be stopped",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "0",
	    .max = "1000000000000" },
	{ .name = "interval",
	    .help = "number of iterations between applications of the rule",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "1000000000000" },
	ESPL_TRIED_OPTION,
	ESPL_SAMPLER_OPTION,
};

/* One step: the lower half with its greatest in front, the upper half with its least in front. */
struct half {
	double *items;
	uint32_t count, room;
};
struct step {
	struct half low, high;
};

/* of a trial that trains; its place is the trial's tag */
struct course {
	uint64_t trial; /* ESPL_NONE: the place is free */
	double best, sum;
	uint64_t reports;
	double *averages; /* [count] at the steps passed */
	uint32_t count, room;
	uint32_t next_free, zero;
};
#define MEDIAN_MAGIC 0x08ac8eebu

struct median {
	uint32_t magic; /* MEDIAN_MAGIC */
	struct shared shared;
	struct course *courses;
	struct step *steps;
	uint32_t course_count, course_room, free_course; /* ESPL_ANY: none is free */
	uint32_t step_count;
	uint64_t trials_min, iterations, grace, interval;
};

/* ---- the median of a step ----------------------------------------------------------------- */

/* sign 1: the least in front; -1: the greatest. */
static void
sift_up(struct half *half, double value, double sign)
{
	uint32_t at = half->count++;

	ESPL_ASSERT(at < half->room);
	for (; at > 0 && sign * value < sign * half->items[(at - 1) / 2]; at = (at - 1) / 2)
		half->items[at] = half->items[(at - 1) / 2];
	half->items[at] = value;
}

static double
take_front(struct half *half, double sign)
{
	double front = half->items[0], last = half->items[--half->count];
	uint32_t at = 0;

	ESPL_ASSERT(half->count < half->room);
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= half->count)
			break;
		if (child + 1 < half->count &&
		    sign * half->items[child + 1] < sign * half->items[child])
			child++;
		if (sign * last <= sign * half->items[child])
			break;
		half->items[at] = half->items[child];
		at = child;
	}
	half->items[at] = last;
	return front;
}

static espl_status
reserve_item(struct half *half, struct espl_error *error)
{
	uint32_t room = half->room == 0 ? 4 : half->room + half->room / 2;
	double *items;

	if (half->count < half->room)
		return ESPL_OK;
	items = realloc(half->items, room * sizeof *items);
	if (items == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u averages", room);
	half->items = items;
	half->room = room;
	return ESPL_OK;
}

/* The lower half has as many as the upper one, or one more. */
static espl_status
insert_average(struct step *step, double value, struct espl_error *error)
{
	espl_status status = reserve_item(&step->low, error);

	if (status == ESPL_OK)
		status = reserve_item(&step->high, error);
	if (status != ESPL_OK)
		return status;
	if (step->low.count > step->high.count) {
		sift_up(&step->low, value, -1);
		sift_up(&step->high, take_front(&step->low, -1), 1);
	} else {
		sift_up(&step->high, value, 1);
		sift_up(&step->low, take_front(&step->high, 1), -1);
	}
	ESPL_ASSERT(step->low.count == step->high.count || step->low.count == step->high.count + 1);
	return ESPL_OK;
}

static double
median_of(const struct step *step)
{
	ESPL_ASSERT(step->low.count > 0);
	if (step->low.count > step->high.count)
		return step->low.items[0];
	return isinf(step->high.items[0]) ? step->high.items[0]
					  : step->low.items[0] / 2 + step->high.items[0] / 2;
}

/* ---- making ------------------------------------------------------------------------------- */

static void
destroy(void *self)
{
	struct median *search = self;
	uint32_t i;

	ESPL_ASSERT(search != NULL && search->magic == MEDIAN_MAGIC);
	search->magic = 0;
	for (i = 0; i < search->course_count; i++)
		free(search->courses[i].averages);
	for (i = 0; i < search->step_count; i++) {
		free(search->steps[i].low.items);
		free(search->steps[i].high.items);
	}
	free(search->courses);
	free(search->steps);
	shared_free(&search->shared);
	free(search);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct median *search = calloc(1, sizeof *search);
	espl_status status;

	if (search == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	search->magic = MEDIAN_MAGIC;
	search->iterations = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	search->trials_min = (uint64_t)config->values[TRIALS_MIN].as.i;
	search->grace = (uint64_t)config->values[GRACE].as.i;
	search->interval = (uint64_t)config->values[INTERVAL].as.i;
	search->free_course = ESPL_ANY;
	status = shared_init(&search->shared, host, (uint64_t)config->values[TRIALS].as.i, TRIALS,
	    espl_tried_repeats(host, &config->values[REPEATS]), error);
	if (status != ESPL_OK) {
		destroy(search);
		return status;
	}
	*self = search;
	return ESPL_OK;
}

/* ---- courses ------------------------------------------------------------------------------ */

/* Reserves room for this many more trials before any of them is added: half an answer cannot be
 * undone.
 */
static espl_status
reserve_courses(struct median *search, uint64_t more, struct espl_error *error)
{
	uint64_t room = search->course_count + more;
	struct course *courses;

	if (room <= search->course_room)
		return ESPL_OK;
	room += room / 2;
	courses =
	    room < UINT32_MAX ? realloc(search->courses, (size_t)room * sizeof *courses) : NULL;
	if (courses == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %llu trials",
		    (unsigned long long)room);
	search->courses = courses;
	search->course_room = (uint32_t)room;
	return ESPL_OK;
}

static uint32_t
take_course(struct median *search)
{
	uint32_t place = search->free_course;

	if (place != ESPL_ANY) {
		search->free_course = search->courses[place].next_free;
		return place;
	}
	ESPL_ASSERT(search->course_count < search->course_room);
	place = search->course_count++;
	memset(&search->courses[place], 0, sizeof search->courses[place]);
	return place;
}

static void
give_back(struct median *search, uint32_t place)
{
	ESPL_ASSERT(place < search->course_count);
	search->courses[place].trial = ESPL_NONE;
	search->courses[place].next_free = search->free_course;
	search->free_course = place;
}

static struct course *
find_course(struct median *search, const struct espl_trial *trial)
{
	struct course *course =
	    trial->tag < search->course_count ? &search->courses[trial->tag] : NULL;

	return course != NULL && course->trial == trial->id ? course : NULL;
}

/* The present average is that of every step passed since the last report. */
static espl_status
pass_steps(struct course *course, uint64_t steps, struct espl_error *error)
{
	double average = course->sum / (double)course->reports;

	ESPL_ASSERT(course->reports > 0);
	if (isnan(average))
		average = INFINITY;
	if (steps > UINT32_MAX / 2)
		return espl_fail(error, ESPL_E_LIMIT,
		    "the rule was applied more than %u times to one trial; raise 'interval'",
		    UINT32_MAX / 2);
	if (steps > course->room) {
		uint32_t room = (uint32_t)steps + (uint32_t)steps / 2 + 4;
		double *averages = realloc(course->averages, room * sizeof *averages);

		if (averages == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u averages",
			    room);
		course->averages = averages;
		course->room = room;
	}
	while (course->count < steps)
		course->averages[course->count++] = average;
	return ESPL_OK;
}

static espl_status
on_report(void *self, const struct espl_trial *trial, const struct espl_observation *seen,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct median *search = self;
	struct course *course = find_course(search, trial);
	const struct step *step;
	espl_status status;
	uint32_t before;

	ESPL_ASSERT(search != NULL && search->magic == MEDIAN_MAGIC);
	if (course == NULL)
		return ESPL_OK;
	before = course->count;
	course->reports++;
	course->sum += seen->loss;
	if (seen->loss < course->best)
		course->best = seen->loss;
	status = pass_steps(course, seen->iteration / search->interval, error);
	if (status != ESPL_OK || course->count == before || seen->iteration < search->grace ||
	    seen->iteration >= search->iterations || course->count > search->step_count)
		return status;
	step = &search->steps[course->count - 1];
	if ((uint64_t)step->low.count + step->high.count < search->trials_min ||
	    !(course->best > median_of(step)))
		return ESPL_OK;
	return sink->verdict(sink, trial->id, ESPL_STOP);
}

/* A completed trial's averages are from now on what others are held to. */
static espl_status
complete_course(struct median *search, const struct course *course, struct espl_error *error)
{
	espl_status status = ESPL_OK;
	uint32_t i;

	if (course->count > search->step_count) {
		struct step *steps = realloc(search->steps, course->count * sizeof *steps);

		if (steps == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory for %u steps",
			    course->count);
		memset(steps + search->step_count, 0,
		    (course->count - search->step_count) * sizeof *steps);
		search->steps = steps;
		search->step_count = course->count;
	}
	for (i = 0; i < course->count && status == ESPL_OK; i++)
		status = insert_average(&search->steps[i], course->averages[i], error);
	return status;
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct median *search = self;
	struct course *course = find_course(search, trial);
	espl_status status = ESPL_OK;

	ESPL_ASSERT(search != NULL && search->magic == MEDIAN_MAGIC);
	(void)sink;
	if (course == NULL)
		return ESPL_OK;
	status = espl_sampling_ended(search->shared.sampling, trial, how, error);
	if (status == ESPL_OK && (how == ESPL_END_BUDGET || how == ESPL_END_ITSELF))
		status = complete_course(search, course, error);
	give_back(search, (uint32_t)trial->tag);
	return status;
}

/* ---- new trials --------------------------------------------------------------------------- */

static espl_status
add_one(void *self, struct espl_search_sink *sink, struct espl_error *error)
{
	struct median *search = self;
	struct espl_start start = ESPL_INIT(struct espl_start);
	struct course *course;
	uint32_t place = take_course(search);
	uint64_t trial;
	espl_status status = shared_values(&search->shared, NULL, NULL, &start.values, error);

	ESPL_ASSERT(search != NULL && search->magic == MEDIAN_MAGIC);
	start.how = ESPL_FRESH;
	start.budget = search->iterations;
	start.tag = place;
	if (status == ESPL_OK)
		status = sink->add(sink, search->shared.group, &start, &trial);
	if (status != ESPL_OK) {
		give_back(search, place);
		return status;
	}
	course = &search->courses[place];
	course->trial = trial;
	course->best = INFINITY;
	course->sum = 0;
	course->reports = 0;
	course->count = 0;
	return espl_sampling_started(search->shared.sampling, trial, start.budget, start.values,
	    error);
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct median *search = self;
	uint64_t want = shared_want(&search->shared, view);
	espl_status status = reserve_courses(search, want, error);

	ESPL_ASSERT(search != NULL && search->magic == MEDIAN_MAGIC);
	return status != ESPL_OK
	    ? status
	    : shared_fill(&search->shared, want, 0, add_one, search, sink, error);
}

static espl_status
extend(void *self, const struct espl_extension *more, struct espl_error *error)
{
	struct median *search = self;

	ESPL_ASSERT(search != NULL && search->magic == MEDIAN_MAGIC);
	return shared_extend(&search->shared, more, error);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_report = on_report,
	.on_trial_end = on_trial_end,
	.extend = extend,
};

ESPL_PLUGIN(algorithm, median) = {
	ESPL_HEAD(ESPL_ALGORITHM, "median"),
	.version = "0.1",
	.summary = "random search that stops trials worse than the median of earlier trials",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
