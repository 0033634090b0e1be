/* milp_bytes.c - a problem as bytes, and a plan as bytes (milp_jobs.h). */
#include "milp_jobs.h"
#include <math.h>
#include <string.h>
#include <espalier/util.h>

/* then the jobs, then the heuristic's choices */
struct request {
	uint32_t total, steps, job_count, zero;
	struct milp_cbc how;
};
struct reply {
	double value, bound;
	uint32_t status, zero;
}; /* then the choices */

/* ---- the question ------------------------------------------------------------------------- */

static espl_status
write_down(struct milp_ask *ask, const struct milp_case *c, const struct espl_alloc_view *view,
    const struct milp_plan *plan, const struct milp_cbc *how)
{
	const struct milp_problem *p = &c->problem;
	size_t jobs = p->job_count * sizeof *p->jobs, choices = (size_t)p->job_count * p->steps;
	struct request head;
	uint32_t i;

	memset(&head, 0, sizeof head);
	head.total = p->total;
	head.steps = p->steps;
	head.job_count = p->job_count;
	head.how = *how;
	allocator_milp_ask_free(ask);
	ask->size = sizeof head + jobs + choices;
	ask->input = malloc(ask->size);
	ask->ids = malloc((p->job_count + 1u) * sizeof *ask->ids);
	if (ask->input == NULL || ask->ids == NULL)
		return ESPL_E_NOMEM;
	memcpy(ask->input, &head, sizeof head);
	memcpy((char *)ask->input + sizeof head, p->jobs, jobs);
	memcpy((char *)ask->input + sizeof head + jobs, plan->choice, choices);
	for (i = 0; i < p->job_count; i++)
		ask->ids[i] = view->items[c->subjects[i].index]->id;
	ask->job_count = p->job_count;
	return ESPL_OK;
}

espl_status
allocator_milp_ask(struct milp_ask *ask, const struct espl_compute *compute,
    const struct milp_case *c, const struct espl_alloc_view *view, const struct milp_plan *plan,
    const struct milp_cbc *how, espl_span limit, espl_span assumed, struct espl_error *error)
{
	struct espl_compute_request request = ESPL_INIT(struct espl_compute_request);
	espl_status status = write_down(ask, c, view, plan, how);

	if (status != ESPL_OK)
		return espl_fail(error, status, "out of memory");
	request.what = "milp";
	request.input = ask->input;
	request.input_size = ask->size;
	request.limit = limit;
	request.assumed = assumed;
	status = compute->submit(compute, &request, &ask->token, error);
	ask->pending = status == ESPL_OK;
	return status;
}

/* ---- the child ---------------------------------------------------------------------------- */

espl_status
allocator_milp_run(void *self, const void *input, uint64_t size, struct espl_byte_sink *output,
    struct espl_error *error)
{
	const struct request *head = input;
	struct milp_problem problem;
	struct milp_plan plan;
	struct reply reply;
	size_t choices, jobs;
	espl_status status;

	(void)self;
	memset(&problem, 0, sizeof problem);
	memset(&reply, 0, sizeof reply);
	if (size < sizeof *head || head->steps == 0 || head->steps > MILP_STEPS ||
	    size != sizeof *head + head->job_count * (sizeof *problem.jobs + head->steps))
		return espl_fail(error, ESPL_E_BUG, "the problem is incomplete");
	problem.total = head->total;
	problem.steps = head->steps;
	problem.job_count = head->job_count;
	jobs = head->job_count * sizeof *problem.jobs;
	choices = (size_t)head->job_count * head->steps;
	problem.jobs = malloc(jobs + 1);
	if (problem.jobs == NULL || !allocator_milp_plan_init(&plan, &problem)) {
		free(problem.jobs);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	memcpy(problem.jobs, (const char *)input + sizeof *head, jobs);
	memcpy(plan.choice, (const char *)input + sizeof *head + jobs, choices);
	plan.value = allocator_milp_value(&problem, plan.choice);
	plan.bound = INFINITY;
	status = allocator_milp_cbc(&problem, &head->how, &plan, error);
	reply.value = plan.value;
	reply.bound = plan.bound;
	reply.status = plan.status;
	if (status == ESPL_OK)
		status = output->write(output, &reply, sizeof reply);
	if (status == ESPL_OK)
		status = output->write(output, plan.choice, choices);
	allocator_milp_plan_free(&plan);
	free(problem.jobs);
	return status;
}

/* ---- the answer --------------------------------------------------------------------------- */

const struct espl_outcome *
allocator_milp_answered(const struct milp_ask *ask, const struct espl_alloc_view *view)
{
	uint32_t i;

	for (i = 0; ask->pending && i < view->outcome_count; i++)
		if (view->outcomes[i]->token == ask->token)
			return view->outcomes[i];
	return NULL;
}

struct known {
	uint64_t id;
	uint32_t at, zero;
};

static int
by_id(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* The asked job's widths as choices of the job as it is now; the next smaller one where there is
 * none. */
static void
translate_choices(const struct milp_job *asked, const uint8_t *from, const struct milp_job *job,
    uint8_t *to, uint32_t steps)
{
	uint32_t t;

	for (t = 0; t < steps; t++) {
		uint32_t width = from[t] < asked->count ? asked->width[from[t]] : 0, k = 0;

		while (k + 1 < job->count && job->width[k + 1] <= width)
			k++;
		to[t] = (uint8_t)k;
	}
}

static void
copy_known(const struct milp_ask *ask, const uint8_t *answer, const struct milp_case *c,
    const struct espl_alloc_view *view, struct known *known, uint8_t *choice)
{
	const struct milp_job *jobs =
	    (const void *)((const char *)ask->input + sizeof(struct request));
	uint32_t i, steps = c->problem.steps;

	for (i = 0; i < ask->job_count; i++)
		known[i] = (struct known){ ask->ids[i], i, 0 };
	qsort(known, ask->job_count, sizeof *known, by_id);
	for (i = 0; i < c->problem.job_count; i++) {
		struct known key = { view->items[c->subjects[i].index]->id, 0, 0 };
		const struct known *was =
		    bsearch(&key, known, ask->job_count, sizeof *known, by_id);

		memset(choice + (size_t)i * steps, 0, steps);
		if (was != NULL)
			translate_choices(&jobs[was->at], answer + (size_t)was->at * steps,
			    &c->problem.jobs[i], choice + (size_t)i * steps, steps);
	}
}

/* 1: the problem is the very one that was asked. */
static int
is_unchanged(const struct milp_ask *ask, const struct milp_problem *p)
{
	const struct request *head = ask->input;

	return head->total == p->total && head->job_count == p->job_count &&
	    memcmp((const char *)ask->input + sizeof *head, p->jobs,
		p->job_count * sizeof *p->jobs) == 0;
}

espl_status
allocator_milp_take(const struct milp_ask *ask, const struct espl_outcome *outcome,
    const struct milp_case *c, const struct espl_alloc_view *view, struct milp_plan *plan,
    struct espl_error *error)
{
	const struct milp_problem *p = &c->problem;
	const struct reply *reply = outcome->output;
	struct known *known;
	uint8_t *choice;
	uint64_t used[MILP_STEPS];
	double value;

	if (outcome->status != ESPL_OK)
		return espl_fail(error, ESPL_E_REMOTE, "%s",
		    outcome->status == ESPL_E_LIMIT ? "the solver exceeded its time limit"
						    : "the solver failed");
	if (outcome->output_size != sizeof *reply + (size_t)ask->job_count * p->steps)
		return espl_fail(error, ESPL_E_REMOTE, "the solver's answer is incomplete");
	known = malloc((ask->job_count + 1u) * sizeof *known);
	choice = malloc((size_t)p->job_count * p->steps + 1);
	if (known == NULL || choice == NULL) {
		free(known);
		free(choice);
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	copy_known(ask, (const uint8_t *)(reply + 1), c, view, known, choice);
	free(known);
	value = allocator_milp_value(p, choice);
	if (!allocator_milp_used(p, choice, used) || value < plan->value * (1 - MILP_CLOSE)) {
		free(choice);
		return espl_fail(error, ESPL_E_REMOTE,
		    "the solver's plan does not fit or is worse than that of the heuristic");
	}
	memcpy(plan->choice, choice, (size_t)p->job_count * p->steps);
	free(choice);
	plan->value = value;
	plan->status = MILP_BOUNDED;
	if (is_unchanged(ask, p) && fabs(value - reply->value) <= MILP_CLOSE * value) {
		if (reply->bound < plan->bound)
			plan->bound = reply->bound;
		plan->status = reply->status == MILP_OPTIMAL ? MILP_OPTIMAL : MILP_BOUNDED;
	}
	return ESPL_OK;
}

void
allocator_milp_ask_free(struct milp_ask *ask)
{
	free(ask->input);
	free(ask->ids);
	memset(ask, 0, sizeof *ask);
}
