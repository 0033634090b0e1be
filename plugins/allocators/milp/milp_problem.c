/* milp_problem.c - what a plan is worth and takes, and the heuristic. */
#include <math.h>
#include <string.h>
#include "milp_problem.h"

double
allocator_milp_worth(const struct milp_job *job, const uint8_t *choice, uint32_t steps)
{
	double served = 0, sum = 0;
	uint32_t t;

	for (t = 0; t < steps; t++) {
		served += milp_gain(job, t, choice[t]);
		if (served > 1)
			served = 1;
		sum += served;
	}
	return job->weight * sum;
}

double
allocator_milp_value(const struct milp_problem *problem, const uint8_t *choice)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < problem->job_count; i++)
		sum += allocator_milp_worth(&problem->jobs[i], choice + (size_t)i * problem->steps,
		    problem->steps);
	return sum;
}

int
allocator_milp_used(const struct milp_problem *problem, const uint8_t *choice, uint64_t *used)
{
	uint32_t i, t;
	int fits = 1;

	for (t = 0; t < problem->steps; t++)
		used[t] = 0;
	for (i = 0; i < problem->job_count; i++)
		for (t = 0; t < problem->steps; t++)
			used[t] += problem->jobs[i].width[choice[(size_t)i * problem->steps + t]];
	for (t = 0; t < problem->steps; t++)
		fits &= used[t] <= problem->total;
	return fits;
}

int
allocator_milp_plan_init(struct milp_plan *plan, const struct milp_problem *problem)
{
	memset(plan, 0, sizeof *plan);
	plan->choice = calloc((size_t)problem->job_count * problem->steps + 1, 1);
	return plan->choice != NULL;
}

void
allocator_milp_plan_free(struct milp_plan *plan)
{
	free(plan->choice);
	plan->choice = NULL;
}

/* ---- heuristic ------------------------------------------------------------------------------- */

/* The heuristic.
 *
 * All jobs begin with their least width in every step.  Then, again and again, the (job, step)
 * whose next width gains most per node is widened, if it fits.  A job's gains depend on its own
 * widths alone, so a heap with each job's best offer is enough; an offer that no longer fits is
 * made anew when it comes up.
 */

struct offer {
	double gain;
	uint32_t job, step;
}; /* gain per node; 0: none is left */
struct heap {
	struct offer *at;
	uint32_t count;
};

static int
is_better(const struct offer *a, const struct offer *b)
{
	return a->gain > b->gain || (a->gain == b->gain && a->job < b->job);
}

static void
sift_heap_down(struct heap *heap, uint32_t i)
{
	struct offer offer = heap->at[i];

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count && is_better(&heap->at[child + 1], &heap->at[child]))
			child++;
		if (!is_better(&heap->at[child], &offer))
			break;
		heap->at[i] = heap->at[child];
		i = child;
	}
	heap->at[i] = offer;
}

/* The job's best step up among those that fit. */
static void
make_offer(const struct milp_problem *problem, uint8_t *choice, const uint64_t *used,
    struct offer *offer)
{
	const struct milp_job *job = &problem->jobs[offer->job];
	double now = allocator_milp_worth(job, choice, problem->steps);
	uint32_t t;

	offer->gain = 0;
	for (t = 0; t < problem->steps; t++) {
		uint32_t more;
		double gain;

		if (choice[t] + 1u >= job->count)
			continue;
		more = job->width[choice[t] + 1] - job->width[choice[t]];
		if (used[t] + more > problem->total)
			continue;
		choice[t]++;
		gain = (allocator_milp_worth(job, choice, problem->steps) - now) / more;
		choice[t]--;
		if (gain > offer->gain) {
			offer->gain = gain;
			offer->step = t;
		}
	}
}

static void
widen_jobs(const struct milp_problem *problem, struct heap *heap, uint8_t *choices, uint64_t *used)
{
	while (heap->at[0].gain > 0) {
		struct offer *offer = &heap->at[0];
		const struct milp_job *job = &problem->jobs[offer->job];
		uint8_t *choice = choices + (size_t)offer->job * problem->steps;
		uint32_t t = offer->step, more = job->width[choice[t] + 1] - job->width[choice[t]];

		if (used[t] + more <= problem->total) {
			used[t] += more;
			choice[t]++;
		}
		make_offer(problem, choice, used, offer);
		sift_heap_down(heap, 0);
	}
}

int
allocator_milp_marginal(const struct milp_problem *problem, struct milp_plan *plan)
{
	struct heap heap = { calloc(problem->job_count + 1u, sizeof *heap.at), problem->job_count };
	uint64_t used[MILP_STEPS];
	uint32_t i;

	if (heap.at == NULL)
		return 0;
	memset(plan->choice, 0, (size_t)problem->job_count * problem->steps);
	(void)allocator_milp_used(problem, plan->choice, used);
	for (i = 0; i < heap.count; i++) {
		heap.at[i].job = i;
		make_offer(problem, plan->choice + (size_t)i * problem->steps, used, &heap.at[i]);
	}
	for (i = heap.count / 2; i-- > 0;)
		sift_heap_down(&heap, i);
	if (heap.count > 0)
		widen_jobs(problem, &heap, plan->choice, used);
	free(heap.at);
	plan->value = allocator_milp_value(problem, plan->choice);
	plan->bound = INFINITY;
	plan->status = MILP_HEURISTIC;
	return 1;
}
