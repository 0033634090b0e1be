/* milp_exact.c - prices, then all plans that lose little at them (milp_exact.h).
 *
 * The search begins with a small radius of loss and widens it until it finds a plan, which is then
 * the best there is, or is as wide as what the best known plan loses, which is then the best.  An
 * empty search lowers the bound by its radius.
 */
#include "milp_exact.h"
#include <math.h>
#include <string.h>
#include "milp_core.h"
#include "milp_dual.h"
#include "milp_price.h"

#define LOOKS 10u  /* at each state that may be kept */
#define FIRST 64.0 /* the first radius is this part of the gap */
#define WIDER 1.5  /* work grows with a high power of the radius */

/* Widens the search until it is over.  0: out of memory. */
static int
search_exact(const struct milp_problem *problem, const double *price, uint32_t effort, double gap,
    uint8_t *choice, struct milp_plan *plan)
{
	double lagrange = plan->bound, loss, close = gap > MILP_CLOSE ? gap : MILP_CLOSE;
	struct milp_core core = { .problem = problem, .price = price, .choice = choice };

	core.states = effort / LOOKS + 1;

	for (loss = (lagrange - plan->value) / FIRST;; loss *= WIDER) {
		enum milp_core_result result;
		int last = loss >= lagrange - plan->value;
		double value;

		core.effort = effort - plan->spent;
		core.radius = last ? lagrange - plan->value : loss;
		result = allocator_milp_core(&core);
		plan->spent += core.spent;
		if (result == MILP_CORE_NOMEM)
			return 0;
		if (result == MILP_CORE_FOUND) {
			value = allocator_milp_value(problem, choice);
			if (value > plan->value) {
				memcpy(plan->choice, choice,
				    (size_t)problem->job_count * problem->steps);
				plan->value = value;
			}
		}
		if (!core.cut && (result == MILP_CORE_FOUND || last)) {
			plan->bound = plan->value;
			break;
		}
		if (!core.cut)
			plan->bound = lagrange - core.radius;
		if (core.cut || plan->spent >= effort ||
		    plan->bound - plan->value <= close * fabs(plan->value))
			break; /* wider ones would be cut, too */
	}
	return 1;
}

int
allocator_milp_exact(const struct milp_problem *problem, uint32_t effort, double gap,
    struct milp_plan *plan)
{
	double price[MILP_STEPS];
	size_t size = (size_t)problem->job_count * problem->steps;
	uint8_t *choice;
	int done = 1;

	if (!allocator_milp_dual(problem, plan->choice, price))
		return 0;
	plan->spent = 0;
	plan->bound = allocator_milp_bound(problem, price);
	if (plan->bound < plan->value)
		plan->bound = plan->value; /* rounding */
	if (effort > 0 &&
	    plan->bound - plan->value > (gap > MILP_CLOSE ? gap : MILP_CLOSE) * fabs(plan->value)) {
		choice = malloc(size + 1);
		done = choice != NULL && search_exact(problem, price, effort, gap, choice, plan);
		free(choice);
	}
	if (plan->bound - plan->value <= MILP_CLOSE * fabs(plan->value))
		plan->status = MILP_OPTIMAL;
	else if (effort > 0)
		plan->status = MILP_BOUNDED;
	return done;
}
