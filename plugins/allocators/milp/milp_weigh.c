/* milp_weigh.c - weights (milp_weigh.h).
 *
 * By size, as published: progress is the part of a job's demand, so a short job's minute counts for
 * more.  By rank: what a job does in a second counts for as much as there are others to wait for
 * it.  With speeds k^p and known work, the mean time is least when the j-th longest of n jobs has
 * c_j = (j/n)^a - ((j-1)/n)^a of all nodes, a = 1 / (1 - p) (Berg et al., heSRPT); with weights of
 * c_j^(1/a) the objective's optimum is just that, as long as no limit of widths is in the way.
 * Unlike 1/demand they are bounded, whatever the estimates are.  Two things temper them:
 *
 *   level  everybody's weight is raised by it: towards equal shares, so that long jobs do not pay
 * for all tail   the job that needs longest even on its widest has at least this weight: it ends
 * last, and what it waits for everything lasts longer
 */
#include "milp_weigh.h"
#include <math.h>
#include "../pool.h"

/* of the others' `tail`: with this power of what they need, beside it */
#define STEEP 2

struct ranked {
	double demand, weight; /* weight: the user's */
	double longest;        /* seconds that it needs on its widest */
	uint32_t job, zero;
};

static double
own_weight(const struct espl_item *item)
{
	return item->weight > 0 ? item->weight : 1;
}

static double
best_speed(const struct milp_job *job, const struct espl_item *item, const struct milp_rules *rules)
{
	return pool_speed(item, job->width[job->count - 1], rules->doubling);
}

static int
compare_demand(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->demand != y->demand)
		return x->demand > y->demand ? -1 : 1;
	return x->job > y->job ? -1 : x->job < y->job;
}

/* [job], the greatest demand first; the sum of the users' weights, and the longest time. */
static void
rank_jobs(const struct milp_case *c, const struct espl_alloc_view *view,
    const struct milp_rules *rules, struct ranked *all, double *sum, double *longest)
{
	uint32_t i;

	*sum = *longest = 0;
	for (i = 0; i < c->problem.job_count; i++) {
		const struct espl_item *item = view->items[c->subjects[i].index];

		all[i].demand = c->subjects[i].demand_s;
		all[i].weight = own_weight(item);
		all[i].longest = all[i].demand / best_speed(&c->problem.jobs[i], item, rules);
		all[i].job = i;
		*sum += all[i].weight;
		*longest = all[i].longest > *longest ? all[i].longest : *longest;
	}
	qsort(all, c->problem.job_count, sizeof *all, compare_demand);
}

static int
by_rank(struct milp_case *c, const struct espl_alloc_view *view, const struct milp_rules *rules)
{
	struct ranked *all = malloc((c->problem.job_count + 1u) * sizeof *all);
	double p = 1 + log2(rules->doubling), a = 1 / (1 - (p < 0.9 ? p : 0.9)), sum, longest,
	       before = 0;
	uint32_t i;

	if (all == NULL)
		return 0;
	rank_jobs(c, view, rules, all, &sum, &longest);
	for (i = 0; i < c->problem.job_count; i++) {
		double now = before + all[i].weight / sum, own = pow(all[i].weight, 1 / a);
		double weight = pow(pow(now, a) - pow(before, a), 1 / a) + rules->level * own;
		double least = rules->tail * pow(all[i].longest / longest, STEEP) * own;

		c->problem.jobs[all[i].job].weight =
		    (weight > least ? weight : least) * all[i].demand / rules->step_s;
		before = now;
	}
	free(all);
	return 1;
}

static void
by_size(struct milp_case *c, const struct espl_alloc_view *view, const struct milp_rules *rules)
{
	uint32_t i;

	for (i = 0; i < c->problem.job_count; i++)
		c->problem.jobs[i].weight = own_weight(view->items[c->subjects[i].index]) *
		    pow(c->subjects[i].demand_s / rules->step_s, 1 - rules->beta);
}

/* Who takes too long weighs more. */
static void
favour_late(struct milp_case *c, const struct espl_alloc_view *view, const struct milp_rules *rules)
{
	uint32_t i;

	for (i = 0; i < c->problem.job_count && rules->slowdown > 0; i++) {
		struct milp_job *job = &c->problem.jobs[i];
		const struct espl_item *item = view->items[c->subjects[i].index];
		double late = allocator_milp_slowdown(item, c->subjects[i].demand_s,
		    best_speed(job, item, rules), view->now);

		if (late > rules->slowdown)
			job->weight *= late / rules->slowdown;
	}
}

int
allocator_milp_weigh(struct milp_case *c, const struct espl_alloc_view *view,
    const struct milp_rules *rules)
{
	if (!rules->rank)
		by_size(c, view, rules);
	else if (!by_rank(c, view, rules))
		return 0;
	favour_late(c, view, rules);
	return 1;
}
