/* milp_jobs.c - turns the view into a problem: which jobs take part, and with what weight. */
#include <math.h>
#include <string.h>
#include <espalier/kit/array.h>
#include "../pool.h"
#include "milp_jobs.h"

/* ---- queue ----------------------------------------------------------------------------------- */

/* If the minimum widths of all jobs fit, all jobs take part. Otherwise, as published, all running
 * jobs and the first of the waiting ones. With rules->preempt, those with the least work left take
 * part, running or not: a cluster with more jobs than nodes finishes most of them soonest that way.
 * Jobs that have already taken too long come first, so that none starves.
 */

_Static_assert(POOL_WIDTHS <= MILP_WIDTHS, "a job must have room for all widths");

/* running jobs count with this fraction of their remaining work, so that a swap must pay off */
#define STAYS 0.8

/* ---- one job ------------------------------------------------------------------------------ */

static int
make_room(struct milp_case *c, uint32_t count)
{
	uint32_t room = 2 * count + 16;
	void *more;

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

/* May it not give up the GPUs it has? */
static int
is_bound(const struct espl_item *item, const struct espl_entry *entry)
{
	return entry->gpus > 0 && entry->fixed && (item->flags & ESPL_ITEM_INPLACE) == 0;
}

/* Reads the widths of an item that runs or could start. 0: it has none. */
static uint32_t
read_widths(const struct espl_item *item, const struct espl_entry *entry, uint32_t per_node,
    uint32_t total, struct milp_job *job)
{
	memset(job, 0, sizeof *job);
	if (!is_bound(item, entry))
		job->count = pool_widths(item, per_node, total, job->width);
	if (job->count == 0 && entry->gpus > 0) {
		job->count = 1; /* it may end as it is, or not at all */
		job->width[0] = entry->gpus;
	}
	return job->count;
}

/* 0: out of memory. *least: the sum of the minimum widths; UINT64_MAX: this job did not fit, and no
 * other may overtake it. */
static int
join_job(struct milp_case *c, const struct espl_alloc_view *view, struct espl_roster *roster,
    uint32_t index, uint32_t total, uint64_t *least, int always)
{
	const struct espl_entry *entry = espl_roster_at(roster, index);
	struct milp_job *job;

	if (!make_room(c, c->problem.job_count + 1))
		return 0;
	job = &c->problem.jobs[c->problem.job_count];
	if (read_widths(view->items[index], entry, roster->per_node, total, job) == 0)
		return 1;
	if (!always && *least + job->width[0] > total) {
		*least = UINT64_MAX;
		return 1;
	}
	*least += job->width[0];
	c->subjects[c->problem.job_count++] =
	    (struct milp_subject){ .index = index, .now = entry->gpus };
	return 1;
}

static int
drop_item(struct milp_case *c, uint32_t index)
{
	uint32_t *more =
	    espl_array_grow(c->dropped, &c->dropped_room, c->dropped_count + 1, sizeof *more);

	if (more == NULL)
		return 0;
	c->dropped = more;
	c->dropped[c->dropped_count++] = index;
	return 1;
}

/* Work left, not below the floor; NaN: no estimate. */
static double
estimate_left(const struct espl_item *item, const struct milp_rules *rules)
{
	double least = rules->period_s / 5, floor = item->work_total_s * rules->floor;

	if (floor > least)
		least = floor;
	return isnan(item->work_s) || item->work_s > least ? item->work_s : least;
}

/* How many times as long it takes as on its widest alone, if it has that from now on. */
static double
estimate_slowdown(const struct espl_item *item, double left_s, double best, espl_time now)
{
	double total = item->work_total_s > 0 ? item->work_total_s : left_s;

	return (espl_seconds(now - item->arrived) + left_s / best) / (total / best);
}

/* ---- in order of arrival ------------------------------------------------------------------ */

/* Takes out the one that started last. */
static int
drop_last(struct milp_case *c, const struct espl_alloc_view *view, uint64_t *least)
{
	struct milp_problem *p = &c->problem;
	uint32_t i, last = 0;

	for (i = 1; i < p->job_count; i++)
		if (view->items[c->subjects[i].index]->started >=
		    view->items[c->subjects[last].index]->started)
			last = i;
	if (!drop_item(c, c->subjects[last].index))
		return 0;
	*least -= p->jobs[last].width[0];
	p->job_count--;
	memmove(p->jobs + last, p->jobs + last + 1, (p->job_count - last) * sizeof *p->jobs);
	memmove(c->subjects + last, c->subjects + last + 1,
	    (p->job_count - last) * sizeof *c->subjects);
	return 1;
}

/* *all 0: somebody is left out. */
static int
in_turn(struct milp_case *c, const struct espl_alloc_view *view, struct espl_roster *roster,
    uint32_t total, int *all)
{
	uint64_t least = 0;
	uint32_t i, left = roster->granted;
	int fine = 1;

	for (i = 0; i < roster->count && left > 0 && fine; i++) {
		if (espl_roster_at(roster, i)->gpus == 0)
			continue;
		left--;
		fine = join_job(c, view, roster, i, total, &least, 1);
	}
	*all = least <= total;
	while (fine && least > total)
		fine = drop_last(c, view, &least);
	for (i = espl_roster_waiting(roster, 0); i < roster->count && fine && least < total;
	     i = espl_roster_waiting(roster, i + 1))
		fine = join_job(c, view, roster, i, total, &least, 0);
	*all = *all && i >= roster->count && least != UINT64_MAX;
	return fine;
}

/* ---- by what is left ---------------------------------------------------------------------- */

struct candidate {
	double first, left;    /* order: by `first`, greatest first, then by `left` */
	uint32_t index, least; /* of the roster; its least width */
	uint32_t in, zero;
};

static int
by_turn(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->first != y->first)
		return x->first > y->first ? -1 : 1;
	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int
by_index(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->index < y->index ? -1 : x->index > y->index;
}

/* 0: it cannot run here. */
static int
describe_candidate(const struct espl_item *item, const struct espl_entry *entry, uint32_t per_node,
    uint32_t total, const struct milp_rules *rules, espl_time now, struct candidate *to)
{
	struct milp_job job;
	double left = estimate_left(item, rules), late;

	if (read_widths(item, entry, per_node, total, &job) == 0)
		return 0;
	if (isnan(left))
		left = rules->period_s * rules->steps;
	to->least = job.width[0];
	to->left = left / pool_speed(item, job.width[0], rules->doubling) /
	    (item->weight > 0 ? item->weight : 1);
	to->first = 0;
	if (is_bound(item, entry)) {
		to->first = INFINITY;
		return 1;
	}
	late = estimate_slowdown(item, left,
	    pool_speed(item, job.width[job.count - 1], rules->doubling), now);
	if (rules->slowdown > 0 && late > rules->slowdown)
		to->first = late;
	if (entry->gpus > 0)
		to->left *= STAYS;
	return 1;
}

static int
by_need(struct milp_case *c, const struct espl_alloc_view *view, struct espl_roster *roster,
    const struct milp_rules *rules, uint32_t total)
{
	struct candidate *all = malloc((roster->count + 1u) * sizeof *all);
	uint64_t used = 0, least = 0;
	uint32_t i, count = 0;
	int fine = all != NULL;

	for (i = 0; i < roster->count && fine; i++) {
		all[count] = (struct candidate){ .index = i };
		count += describe_candidate(view->items[i], espl_roster_at(roster, i),
			     roster->per_node, total, rules, view->now, &all[count]) != 0;
	}
	if (fine)
		qsort(all, count, sizeof *all, by_turn);
	for (i = 0; i < count && fine; i++) {
		all[i].in = used + all[i].least <= total;
		used += all[i].in ? all[i].least : 0;
	}
	if (fine)
		qsort(all, count, sizeof *all, by_index);
	for (i = 0; i < count && fine; i++) {
		if (all[i].in)
			fine = join_job(c, view, roster, all[i].index, total, &least, 1);
		else if (espl_roster_at(roster, all[i].index)->gpus > 0)
			fine = drop_item(c, all[i].index);
	}
	free(all);
	return fine;
}

/* Fills c->problem.jobs (only the widths), c->subjects (index and current width) and c->dropped, by
 * index. 0: out of memory. */
static int
gather_jobs(struct milp_case *c, const struct espl_alloc_view *view, struct espl_roster *roster,
    const struct milp_rules *rules, uint32_t total)
{
	int all = 1;

	c->problem.job_count = c->dropped_count = 0;
	if (!in_turn(c, view, roster, total, &all))
		return 0;
	if (all || !rules->preempt)
		return 1;
	c->problem.job_count = c->dropped_count = 0;
	return by_need(c, view, roster, rules, total);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* By size, as published: progress is a fraction of the job's demand, so a minute of a short job
 * counts for more. By rank: a second of a job counts for as many jobs as wait for it. With speeds
 * k^p and known work, the mean time is minimal when the j-th longest of n jobs has c_j = (j/n)^a -
 * ((j-1)/n)^a of all nodes, a = 1 / (1 - p) (Berg et al., heSRPT); with weights of c_j^(1/a) that
 * is the optimum of the objective, as long as no limit of widths prevents it. Unlike 1/demand these
 * weights are bounded, whatever the estimates are. Two parameters modify them:
 *
 * `level` raises every job's weight towards equal shares, so that long jobs do not pay for all
 * others. `tail` is the minimum weight of the job that needs longest even at its maximum width: it
 * ends last, and every delay of it delays the end of all. */

/* weight of the other jobs by `tail`: this power of the time that they need relative to it */
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

/* [job], largest demand first; then the sum of the users' weights, and the longest time */
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
weigh_by_rank(struct milp_case *c, const struct espl_alloc_view *view,
    const struct milp_rules *rules)
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
weigh_by_size(struct milp_case *c, const struct espl_alloc_view *view,
    const struct milp_rules *rules)
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
		double late = estimate_slowdown(item, c->subjects[i].demand_s,
		    best_speed(job, item, rules), view->now);

		if (late > rules->slowdown)
			job->weight *= late / rules->slowdown;
	}
}

/* Sets the weights of all jobs from the remaining work of the subjects. 0: out of memory. */
static int
weigh_jobs(struct milp_case *c, const struct espl_alloc_view *view, const struct milp_rules *rules)
{
	if (!rules->rank)
		weigh_by_size(c, view, rules);
	else if (!weigh_by_rank(c, view, rules))
		return 0;
	favour_late(c, view, rules);
	return 1;
}

/* ---- what they become --------------------------------------------------------------------- */

static int
compare_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Remaining work of all jobs; the median for those without an estimate. */
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
		double demand = estimate_left(item, rules);

		c->subjects[i].demand_s = demand;
		/* it outlived it */
		c->without += isnan(demand) || item->work_s < item->work_total_s * 1e-3;
		if (!isnan(demand))
			all[known++] = demand;
	}
	qsort(all, known, sizeof *all, compare_size);
	if (known > 0)
		median = all[known / 2];
	for (i = 0; i < count; i++)
		if (isnan(c->subjects[i].demand_s))
			c->subjects[i].demand_s = median;
	free(all);
	return 1;
}

/* Drops widths that are not faster than a smaller one. */
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
	if (!gather_jobs(c, view, roster, rules, total) || !fill_demands(c, view, rules))
		return ESPL_E_NOMEM;
	c->step_s = rules->step_s;
	for (i = 0; i < c->problem.job_count; i++)
		fill_rates(&c->problem.jobs[i], &c->subjects[i], view->items[c->subjects[i].index],
		    rules);
	return weigh_jobs(c, view, rules) ? ESPL_OK : ESPL_E_NOMEM;
}

void
allocator_milp_case_free(struct milp_case *c)
{
	free(c->problem.jobs);
	free(c->subjects);
	free(c->dropped);
	memset(c, 0, sizeof *c);
}
