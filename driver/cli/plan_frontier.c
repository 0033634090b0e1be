/* plan_frontier.c - what each deadline would cost: the planner is asked again for deadlines from
 * the soonest that can be kept to four times that, in equal ratios. */
#include <math.h>
#include <string.h>

#include "cli/plan.h"

#define WIDEST 4.0 /* last deadline over the first */

/* The soonest, asked for with a deadline that nothing can keep. */
static double
find_soonest(struct espl__session *s, struct espl__plan_ask *how, struct espl__arena *arena,
    struct espl__frontier *frontier)
{
	struct espl__plan_answer answer;

	how->deadline = 0;
	espl__plan_find(s, how, arena, &answer);
	if (answer.status == ESPL_OK)
		return 0; /* a search that takes no time */
	if (answer.status == ESPL_E_INFEASIBLE && answer.least_s >= 0)
		return answer.least_s;
	frontier->diag = answer.diag;
	return NAN;
}

void
espl__plan_frontier(struct espl__session *s, const char *allocator, struct espl__arena *arena,
    struct espl__frontier *frontier)
{
	struct espl__plan_ask how = { .allocator = allocator, .limits = 1, .budget = INT64_MAX };
	double least;

	memset(frontier, 0, sizeof *frontier);
	least = find_soonest(s, &how, arena, frontier);
	/* Beyond this no deadline can be written down. */
	if (!(least * WIDEST < (double)ESPL_NEVER / 2e9))
		return;
	frontier->count = least > 0 ? ESPL__FRONTIER_POINTS : 1;
	for (uint32_t i = 0; i < frontier->count; i++) {
		double deadline = least * pow(WIDEST, (double)i / (ESPL__FRONTIER_POINTS - 1));

		/* Up to whole nanoseconds: the soonest plan must not miss its own time. */
		how.deadline = (espl_span)ceil(deadline * 1e9) + 1;
		frontier->deadline_s[i] = deadline;
		espl__plan_find(s, &how, arena, &frontier->answers[i]);
	}
}
