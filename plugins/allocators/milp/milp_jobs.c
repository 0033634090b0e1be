/* milp_jobs.c - from the view to a problem (milp_jobs.h). */
#include "milp_jobs.h"
#include <math.h>
#include <string.h>
#include "milp_queue.h"
#include "milp_weigh.h"
#include "../pool.h"

/* ---- what they become --------------------------------------------------------------------- */

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double
allocator_milp_left(const struct espl_item *item, const struct milp_rules *rules)
{
	double least = rules->period_s / 5, floor = item->work_total_s * rules->floor;

	if (floor > least)
		least = floor;
	return isnan(item->work_s) || item->work_s > least ? item->work_s : least;
}

double
allocator_milp_slowdown(const struct espl_item *item, double left_s, double best, espl_time now)
{
	double total = item->work_total_s > 0 ? item->work_total_s : left_s;

	return (espl_seconds(now - item->arrived) + left_s / best) / (total / best);
}

/* Work left of all; of those without an estimate the median. */
static int
fill_demands(struct milp_case *c, const struct espl_alloc_view *view,
    const struct milp_rules *rules)
{
	uint32_t i, known = 0, count = c->problem.job_count;
	double *all = malloc((count + 1u) * sizeof *all), median = rules->period_s * rules->steps;

	if (all == NULL)
		return 0;
	for (i = 0; i < count; i++) {
		const struct espl_item *item = view->items[c->subjects[i].index];
		double demand = allocator_milp_left(item, rules);

		c->subjects[i].demand_s = demand;
		/* it outlived it */
		c->without += isnan(demand) || item->work_s < item->work_total_s * 1e-3;
		if (!isnan(demand))
			all[known++] = demand;
	}
	qsort(all, known, sizeof *all, by_size);
	if (known > 0)
		median = all[known / 2];
	for (i = 0; i < count; i++)
		if (isnan(c->subjects[i].demand_s))
			c->subjects[i].demand_s = median;
	free(all);
	return 1;
}

/* Widths that are no faster than a smaller one are left out. */
static void
fill_rates(struct milp_job *job, struct milp_subject *subject, const struct espl_item *item,
    const struct milp_rules *rules)
{
	double step = rules->step_s / subject->demand_s, last = 0, share, now = 0;
	uint32_t k, to = 0;

	subject->pause_s = subject->now > 0 ? item->resize_s : item->start_s;
	if (!rules->delay || !(subject->pause_s > 0))
		subject->pause_s = 0;
	share = subject->pause_s < rules->period_s ? subject->pause_s / rules->period_s : 1;
	for (k = 0; k < job->count; k++) {
		double rate = step * pool_speed(item, job->width[k], rules->doubling);

		if (rate <= last && to > 0)
			continue;
		last = rate;
		job->width[to] = job->width[k];
		job->rate[to++] = rate;
		if (job->width[k] == subject->now)
			now = rate;
	}
	job->count = to;
	for (k = 0; k < to; k++) {
		double before = 0; /* made during the pause */

		if ((item->flags & ESPL_ITEM_INPLACE) != 0)
			before = now < job->rate[k] ? now : job->rate[k];
		job->first[k] = job->width[k] == subject->now
		    ? job->rate[k]
		    : (1 - share) * job->rate[k] + share * before;
	}
}

espl_status
allocator_milp_case(struct milp_case *c, const struct espl_alloc_view *view,
    struct espl_roster *roster, const struct milp_rules *rules, uint32_t total)
{
	uint32_t i;

	c->problem.total = total;
	c->problem.steps = rules->steps;
	c->without = 0;
	if (!allocator_milp_gather(c, view, roster, rules, total) || !fill_demands(c, view, rules))
		return ESPL_E_NOMEM;
	c->step_s = rules->step_s;
	for (i = 0; i < c->problem.job_count; i++)
		fill_rates(&c->problem.jobs[i], &c->subjects[i], view->items[c->subjects[i].index],
		    rules);
	return allocator_milp_weigh(c, view, rules) ? ESPL_OK : ESPL_E_NOMEM;
}

void
allocator_milp_case_free(struct milp_case *c)
{
	free(c->problem.jobs);
	free(c->subjects);
	free(c->dropped);
	memset(c, 0, sizeof *c);
}
