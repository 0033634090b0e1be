/* milp_jobs.c - from the view to a problem (milp_jobs.h). */
#include "milp_jobs.h"
#include <math.h>
#include <string.h>
#include "pool.h"

_Static_assert(POOL_WIDTHS <= MILP_WIDTHS, "a job has room for all widths");

/* ---- who takes part -------------------------------------------------------------------------------- */

static int
make_room(struct milp_case *c, uint32_t count)
{
	uint32_t room = 2 * count + 16;
	void    *more;

	if (count <= c->room)
		return 1;
	if ((more = realloc(c->problem.jobs, room * sizeof *c->problem.jobs)) == NULL)
		return 0;
	c->problem.jobs = more;
	if ((more = realloc(c->subjects, room * sizeof *c->subjects)) == NULL)
		return 0;
	c->subjects = more;
	c->room = room;
	return 1;
}

/* Reads the widths of an item that runs or could begin.  0: it has none. */
static uint32_t
read_widths(const struct espl_item *item, const struct espl_entry *entry, uint32_t per_node,
            uint32_t total, struct milp_job *job)
{
	memset(job, 0, sizeof *job);
	if (entry->gpus == 0 || !entry->fixed || (item->flags & ESPL_ITEM_INPLACE) != 0)
		job->count = pool_widths(item, per_node, total, job->width);
	if (job->count == 0 && entry->gpus > 0) {
		job->count = 1;			/* it may end as it is, or not at all */
		job->width[0] = entry->gpus;
	}
	return job->count;
}

/* 0: out of memory. */
static int
join(struct milp_case *c, const struct espl_alloc_view *view, struct espl_roster *roster, uint32_t index,
     uint32_t total, uint64_t *least, int always)
{
	const struct espl_entry *entry = espl_roster_at(roster, index);
	struct milp_job *job;

	if (!make_room(c, c->problem.job_count + 1))
		return 0;
	job = &c->problem.jobs[c->problem.job_count];
	if (read_widths(view->items[index], entry, roster->per_node, total, job) == 0)
		return 1;
	if (!always && *least + job->width[0] > total) {
		*least = UINT64_MAX;		/* nobody may overtake it */
		return 1;
	}
	*least += job->width[0];
	c->subjects[c->problem.job_count++] =
		(struct milp_subject){ .index = index, .now = entry->gpus };
	return 1;
}

/* Takes out the one that started last. */
static int
drop_one(struct milp_case *c, const struct espl_alloc_view *view, uint64_t *least)
{
	struct milp_problem *p = &c->problem;
	uint32_t i, last = 0;

	for (i = 1; i < p->job_count; i++)
		if (view->items[c->subjects[i].index]->started >=
		    view->items[c->subjects[last].index]->started)
			last = i;
	if (c->dropped_count == c->dropped_room) {
		uint32_t  room = 2 * c->dropped_room + 16;
		uint32_t *more = realloc(c->dropped, room * sizeof *more);

		if (more == NULL)
			return 0;
		c->dropped = more;
		c->dropped_room = room;
	}
	c->dropped[c->dropped_count++] = c->subjects[last].index;
	*least -= p->jobs[last].width[0];
	p->job_count--;
	memmove(p->jobs + last, p->jobs + last + 1, (p->job_count - last) * sizeof *p->jobs);
	memmove(c->subjects + last, c->subjects + last + 1, (p->job_count - last) * sizeof *c->subjects);
	return 1;
}

static int
gather(struct milp_case *c, const struct espl_alloc_view *view, struct espl_roster *roster, uint32_t total)
{
	uint64_t least = 0;
	uint32_t i, left = roster->granted;
	int      fine = 1;

	for (i = 0; i < roster->count && left > 0 && fine; i++) {
		if (espl_roster_at(roster, i)->gpus == 0)
			continue;
		left--;
		fine = join(c, view, roster, i, total, &least, 1);
	}
	while (fine && least > total)
		fine = drop_one(c, view, &least);
	for (i = espl_roster_waiting(roster, 0); i < roster->count && fine && least < total;
	     i = espl_roster_waiting(roster, i + 1))
		fine = join(c, view, roster, i, total, &least, 0);
	return fine;
}

/* ---- what they become ------------------------------------------------------------------------------ */

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Work left: what is estimated, not below the floor; of those without an estimate the median. */
static int
demands(struct milp_case *c, const struct espl_alloc_view *view, const struct milp_rules *rules)
{
	uint32_t i, known = 0, count = c->problem.job_count;
	double  *all = malloc((count + 1u) * sizeof *all), median = rules->period_s * rules->steps;

	if (all == NULL)
		return 0;
	for (i = 0; i < count; i++) {
		const struct espl_item *item = view->items[c->subjects[i].index];
		double demand = item->work_s, least = rules->period_s / 5;

		if (isnan(demand)) {
			c->without++;
		} else {
			double floor = item->work_total_s * rules->floor;

			c->without += demand < item->work_total_s * 1e-3;	/* it outlived it */
			if (floor > least)
				least = floor;
			demand = demand > least ? demand : least;
			all[known++] = demand;
		}
		c->subjects[i].demand_s = demand;
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

static double
weigh(const struct milp_case *c, const struct espl_alloc_view *view, const struct milp_rules *rules,
      uint32_t i)
{
	const struct milp_subject *subject = &c->subjects[i];
	const struct milp_job  *job = &c->problem.jobs[i];
	const struct espl_item *item = view->items[subject->index];
	double weight = item->weight > 0 ? item->weight : 1;
	double total = item->work_total_s > 0 ? item->work_total_s : subject->demand_s;
	double best = pool_speed(item, job->width[job->count - 1], rules->doubling), slow;

	if (rules->beta < 1)
		weight *= pow(subject->demand_s / rules->period_s, 1 - rules->beta);
	slow = (espl_seconds(view->now - item->arrived) + subject->demand_s / best) / (total / best);
	if (rules->slowdown > 0 && slow > rules->slowdown)
		weight *= slow / rules->slowdown;
	return weight;
}

/* Widths that are no faster than a smaller one are left out. */
static void
rates(struct milp_job *job, struct milp_subject *subject, const struct espl_item *item,
      const struct milp_rules *rules)
{
	double   step = rules->period_s / subject->demand_s, last = 0, share, now = 0;
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
		double before = 0;		/* made during the pause */

		if ((item->flags & ESPL_ITEM_INPLACE) != 0)
			before = now < job->rate[k] ? now : job->rate[k];
		job->first[k] = job->width[k] == subject->now ? job->rate[k]
		    : (1 - share) * job->rate[k] + share * before;
	}
}

espl_status
allocator_milp_case(struct milp_case *c, const struct espl_alloc_view *view, struct espl_roster *roster,
                    const struct milp_rules *rules, uint32_t total)
{
	uint32_t i;

	c->problem.total = total;
	c->problem.steps = rules->steps;
	c->problem.job_count = c->dropped_count = c->without = 0;
	if (!gather(c, view, roster, total) || !demands(c, view, rules))
		return ESPL_E_NOMEM;
	for (i = 0; i < c->problem.job_count; i++) {
		struct milp_job *job = &c->problem.jobs[i];

		rates(job, &c->subjects[i], view->items[c->subjects[i].index], rules);
		job->weight = weigh(c, view, rules, i);
	}
	return ESPL_OK;
}

void
allocator_milp_case_free(struct milp_case *c)
{
	free(c->problem.jobs);
	free(c->subjects);
	free(c->dropped);
	memset(c, 0, sizeof *c);
}
