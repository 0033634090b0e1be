/* test_milp.c - the engines of allocator milp: against every plan there is, against one another,
 * and on instances whose optimum is known.
 *
 * The modules' allocations are the test's, so that it can make them fail (milp.am).
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "milp_cbc.h"
#include "test_milp.h"

#define EFFORT 1000000 /* the option's default */
#include "fail_alloc.h"

static int
same(double a, double b)
{
	return fabs(a - b) <= 1e-8 * (fabs(a) + fabs(b));
}

/* ---- known optima ------------------------------------------------------------------------- */

static const struct {
	uint32_t nodes, count;
	double demand[20], optimum, heuristic;
} known[] = {
	{ 4, 2, { 9.22, 444.86 }, 5.137426745, 5.137426745 },
	{ 8, 3, { 161.26, 254.37, 440.02 }, 1.935092458, 1.935092458 },
	{ 32, 5, { 304.77, 133.68, 12.86, 12.62, 89.96 }, 17.316867853, 17.31212428 },
	{ 32, 9, { 76.59, 57.35, 44.88, 7.8, 43.4, 405.06, 47.82, 202.93, 40.9 }, 28.135158568,
	    28.056481127 },
	{ 70, 5, { 8.07, 247.56, 48.63, 456.03, 30.57 }, 17.737104641, 17.737104641 },
	{ 70, 20,
	    { 150.33, 11.03, 123.71, 6.76, 295.38, 36.5, 5.25, 223.63, 22.38, 41.26, 23.16, 11.45,
		154.67, 223.6, 981.48, 58.46, 61.3, 42.4, 22.15, 387.97 },
	    62.349046314, 61.96578423 },
};

Test(milp, known_optima)
{
	for (size_t n = 0; n < sizeof known / sizeof known[0]; n++) {
		struct milp_problem p = milp_make(known[n].nodes, known[n].count, known[n].demand);
		struct milp_plan quick = milp_solve(&p, 0, 0), plan = milp_solve(&p, 1, EFFORT);
		uint64_t used[MILP_STEPS];

		cr_assert(fabs(plan.value - known[n].optimum) < 1e-8 * known[n].optimum,
		    "%zu: %.12g", n, plan.value);
		cr_assert(fabs(quick.value - known[n].heuristic) < 1e-8 * known[n].heuristic,
		    "%zu: %.12g", n, quick.value);
		cr_assert_eq(plan.status, MILP_OPTIMAL);
		cr_assert(allocator_milp_used(&p, plan.choice, used));
		cr_assert(quick.bound >= plan.value * (1 - 1e-12), "%.12g < %.12g", quick.bound,
		    plan.value);
		cr_assert(same(allocator_milp_value(&p, plan.choice), plan.value));
		allocator_milp_plan_free(&quick);
		allocator_milp_plan_free(&plan);
		milp_free(&p);
	}
}

/* ---- every plan there is ------------------------------------------------------------------ */

/* The best value of the jobs from `i` on with what is left in each step: all choices of all jobs.
 */
static double
best_of_all(const struct milp_problem *p, uint32_t i, uint32_t t, const uint32_t *free_nodes,
    uint8_t *choice)
{
	uint32_t rest[MILP_STEPS], c;
	double best = -INFINITY, value;

	if (i == p->job_count)
		return 0;
	if (t == p->steps)
		return allocator_milp_worth(&p->jobs[i], choice, p->steps) +
		    best_of_all(p, i + 1, 0, free_nodes, choice + p->steps);
	memcpy(rest, free_nodes, sizeof rest);
	for (c = 0; c < p->jobs[i].count; c++) {
		if (p->jobs[i].width[c] > free_nodes[t])
			continue;
		rest[t] = free_nodes[t] - p->jobs[i].width[c];
		choice[t] = (uint8_t)c;
		value = best_of_all(p, i, t + 1, rest, choice);
		best = value > best ? value : best;
	}
	return best;
}

/* Irregular widths, weights, and a first step of its own. */
static struct milp_problem
odd_problem(uint64_t *state)
{
	struct milp_problem p = { 0, 2 + (uint32_t)(2 * milp_draw(state)), 0, 0, NULL };
	uint32_t i, k, least = 0;

	p.job_count = 1 + (uint32_t)(4 * milp_draw(state));
	p.jobs = calloc(p.job_count, sizeof *p.jobs);
	for (i = 0; i < p.job_count; i++) {
		struct milp_job *job = &p.jobs[i];
		double rate = 0, pause = 0.5 * milp_draw(state);
		uint32_t stays = (uint32_t)(4 * milp_draw(state));

		job->count = 1 + (uint32_t)(3 * milp_draw(state));
		job->weight = 0.1 + 3 * milp_draw(state);
		for (k = 0; k < job->count; k++) {
			job->width[k] =
			    (k > 0 ? job->width[k - 1] : 0) + 1 + (uint32_t)(3 * milp_draw(state));
			rate += 0.05 + 0.4 * milp_draw(state);
			job->rate[k] = rate;
			job->first[k] = k == stays ? rate : rate * (1 - pause);
		}
		least += job->width[0];
	}
	p.total = least + (uint32_t)(6 * milp_draw(state));
	return p;
}

Test(milp, as_good_as_every_plan)
{
	uint64_t state = 77;

	for (int n = 0; n < 400; n++) {
		struct milp_problem p = odd_problem(&state);
		struct milp_plan plan = milp_solve(&p, 1, EFFORT);
		uint32_t free_nodes[MILP_STEPS];
		uint8_t choice[8 * MILP_STEPS];
		uint64_t used[MILP_STEPS];
		double best;

		for (uint32_t t = 0; t < MILP_STEPS; t++)
			free_nodes[t] = p.total;
		best = best_of_all(&p, 0, 0, free_nodes, choice);
		cr_assert(same(plan.value, best), "%d: %.12g, not %.12g", n, plan.value, best);
		cr_assert_eq(plan.status, MILP_OPTIMAL);
		cr_assert(allocator_milp_used(&p, plan.choice, used));
		allocator_milp_plan_free(&plan);
		milp_free(&p);
	}
}

Test(milp, bounds_hold_and_hurry_costs_little)
{
	uint64_t state = 5;

	for (int n = 0; n < 60; n++) {
		uint32_t nodes = 8 + (uint32_t)(182 * milp_draw(&state));
		struct milp_problem p =
		    milp_make_random(nodes, 1 + (uint32_t)(nodes * milp_draw(&state)), 100u + n);
		struct milp_plan quick = milp_solve(&p, 0, 0), cut = milp_solve(&p, 1, 1000);
		struct milp_plan plan = milp_solve(&p, 1, EFFORT);
		uint64_t used[MILP_STEPS];

		cr_assert(quick.value <= plan.value * (1 + 1e-12) &&
		    plan.value <= quick.bound * (1 + 1e-12));
		cr_assert(cut.value <= plan.value * (1 + 1e-12) &&
			plan.value <= cut.bound * (1 + 1e-12),
		    "%d: %.12g, %.12g, bound %.12g", n, cut.value, plan.value, cut.bound);
		cr_assert(cut.value >= quick.value);
		cr_assert(plan.bound <= plan.value * (1 + 1e-4), "%d", n);
		cr_assert(allocator_milp_used(&p, cut.choice, used) &&
		    allocator_milp_used(&p, plan.choice, used));
		allocator_milp_plan_free(&quick);
		allocator_milp_plan_free(&cut);
		allocator_milp_plan_free(&plan);
		milp_free(&p);
	}
}

/* Jobs of equal demand are the hard cases: hardly a state is outdone.  No decision takes more steps
 * than it may, but for the few that end a search which was cut off. */
Test(milp, no_decision_takes_more_than_its_effort)
{
	uint64_t state = 7;
	uint32_t cut = 0;

	for (int n = 0; n < 60; n++) {
		double demands[200],
		    kinds[3] = { milp_draw_demand(&state), milp_draw_demand(&state),
			    milp_draw_demand(&state) };
		uint32_t nodes = 16 + (uint32_t)(384 * milp_draw(&state)), i;
		uint32_t count = 2 + (uint32_t)((nodes / 2 - 2) * milp_draw(&state)),
			 effort = n % 2 == 0 ? EFFORT : 50000;
		struct milp_problem p;
		struct milp_plan plan;

		for (i = 0; i < count; i++)
			demands[i] = kinds[i % (1 + n % 3)];
		p = milp_make(nodes, count, demands);
		plan = milp_solve(&p, 1, effort);
		cr_assert(plan.spent <= effort + UINT64_C(400) * count + nodes * count, "%d: %llu",
		    n, (unsigned long long)plan.spent);
		cr_assert(plan.value > 0 && plan.bound >= plan.value &&
			plan.bound <= 1.2 * plan.value,
		    "%d", n);
		cut += plan.status == MILP_BOUNDED;
		allocator_milp_plan_free(&plan);
		milp_free(&p);
	}
	cr_assert(cut > 5);
}

/* ---- what must not matter ----------------------------------------------------------------- */

static double
value_of(uint32_t nodes, uint32_t count, const double *demands)
{
	struct milp_problem p = milp_make(nodes, count, demands);
	struct milp_plan plan = milp_solve(&p, 1, EFFORT);
	double value = plan.value;

	allocator_milp_plan_free(&plan);
	milp_free(&p);
	return value;
}

Test(milp, order_and_more_nodes)
{
	double demands[12], turned[12], last = 0;
	uint64_t state = 3;

	for (int i = 0; i < 12; i++)
		turned[11 - i] = demands[i] = milp_draw_demand(&state);
	for (uint32_t nodes = 12; nodes < 60; nodes++) {
		double value = value_of(nodes, 12, demands);

		cr_assert(same(value, value_of(nodes, 12, turned)), "%u nodes", nodes);
		cr_assert(value >= last * (1 - 1e-12), "%u nodes", nodes);
		last = value;
	}
}

Test(milp, a_node_for_each_job)
{
	struct milp_problem p = milp_make_random(40, 40, 9);
	struct milp_plan plan = milp_solve(&p, 1, 1000);

	for (uint32_t i = 0; i < 40 * p.steps; i++)
		cr_assert_eq(plan.choice[i], 0);
	cr_assert_eq(plan.status, MILP_OPTIMAL);
	allocator_milp_plan_free(&plan);
	milp_free(&p);
}

/* ---- the programs for solvers ------------------------------------------------------------- */

/* Are all rows and bounds kept, and what is the objective? */
static double
check_form(const struct milp_form *form, const double *columns)
{
	double value = 0;

	for (uint32_t i = 0; i < form->column_count; i++) {
		cr_assert(columns[i] >= form->low[i] - 1e-9 && columns[i] <= form->high[i] + 1e-9,
		    "column %u", i);
		value += form->gain[i] * columns[i];
	}
	for (uint32_t r = 0; r < form->row_count; r++) {
		double sum = 0;

		for (uint32_t e = form->row_from[r]; e < form->row_from[r + 1]; e++)
			sum += form->factor[e] * columns[form->entry[e]];
		cr_assert(sum >= form->row_low[r] - 1e-6 && sum <= form->row_high[r] + 1e-6,
		    "row %u: %g", r, sum);
	}
	return value;
}

Test(milp, plans_satisfy_both_formulations)
{
	uint64_t state = 11;

	for (int n = 0; n < 40; n++) {
		struct milp_problem p = odd_problem(&state);
		struct milp_plan plan = milp_solve(&p, 1, 1000);

		for (int kind = 0; kind < 2; kind++) {
			struct milp_form form;
			uint8_t back[8 * MILP_STEPS];
			double *columns;

			cr_assert(milp_form_make(&form, &p, (enum milp_formulation)kind, 0));
			columns = calloc(form.column_count, sizeof *columns);
			milp_form_write(&form, &p, plan.choice, columns);
			cr_assert(same(check_form(&form, columns), plan.value), "%d %d", n, kind);
			milp_form_read(&form, &p, columns, back);
			cr_assert_arr_eq(back, plan.choice, p.job_count * p.steps);
			free(columns);
			milp_form_free(&form);
		}
		allocator_milp_plan_free(&plan);
		milp_free(&p);
	}
}

Test(milp, cbc_agrees)
{
	uint64_t state = 21;

	if (!milp_cbc_there())
		cr_skip_test("built without CBC");
	for (int n = 0; n < 30; n++) {
		uint32_t count = 2 + (uint32_t)(8 * milp_draw(&state)),
			 nodes = count + (uint32_t)(24 * milp_draw(&state));
		struct milp_problem p =
		    n % 3 == 0 ? odd_problem(&state) : milp_make_random(nodes, count, 900u + n);
		struct milp_plan plan = milp_solve(&p, 1, EFFORT);
		int proven = 0;
		double value = milp_by_cbc(&p, n % 3 == 0, 60, NULL, &proven);

		cr_assert(proven, "%d", n);
		cr_assert(fabs(value - plan.value) <= 1e-7 * plan.value, "%d: %.12g, not %.12g", n,
		    value, plan.value);
		allocator_milp_plan_free(&plan);
		milp_free(&p);
	}
}

/* ---- out of memory ------------------------------------------------------------------------ */

Test(milp, says_that_memory_is_short)
{
	struct milp_problem p = milp_make(32, 9, known[3].demand);
	struct milp_plan plan = milp_solve(&p, 1, 1000);
	struct milp_form form;
	double best = plan.value;
	uint32_t n, done = 0, forms = 0;

	for (n = 1; n < 2000 && !done; n++) {
		cr_assert(allocator_milp_marginal(&p, &plan));
		test_left = n;
		done = allocator_milp_exact(&p, 1000, 0, &plan) && test_left > 0;
		test_left = UINT32_MAX;
		cr_assert(plan.value >= 28.05 && plan.value <= best);
	}
	cr_assert(done && n > 20 && same(plan.value, best), "%u", n);
	for (n = 1; n < 200 && !forms; n++) {
		test_left = n;
		forms = milp_form_make(&form, &p, MILP_PAPER, 0) && test_left > 0;
		test_left = UINT32_MAX;
	}
	cr_assert(forms && n > 5);
	milp_form_free(&form);
	test_left = 1;
	cr_assert_not(allocator_milp_marginal(&p, &plan));
	test_left = UINT32_MAX;
	allocator_milp_plan_free(&plan);
	milp_free(&p);
}
