/* milp_queue.c - who takes part (milp_queue.h).
 *
 * If everybody's least width fits, everybody does.  Else, as published, all that run and of those
 * that wait the first ones; or, with rules->preempt, those with the least left, whether they run or
 * not: a cluster with more jobs than nodes serves most of them soonest that way.  Who takes too
 * long already goes before, so that nobody starves.
 */
#include "milp_queue.h"
#include <math.h>
#include <string.h>
#include "../pool.h"

_Static_assert(POOL_WIDTHS <= MILP_WIDTHS, "a job must have room for all widths");

/* who runs counts as having this part of its work left: a swap has to pay */
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

/* Reads the widths of an item that runs or could begin.  0: it has none. */
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

/* 0: out of memory.  *least: what all take at least; UINT64_MAX: this one did not fit, and nobody
 * may overtake it. */
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
	if (c->dropped_count == c->dropped_room) {
		uint32_t room = 2 * c->dropped_room + 16;
		uint32_t *more = realloc(c->dropped, room * sizeof *more);

		if (more == NULL)
			return 0;
		c->dropped = more;
		c->dropped_room = room;
	}
	c->dropped[c->dropped_count++] = index;
	return 1;
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
	double left = allocator_milp_left(item, rules), late;

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
	late = allocator_milp_slowdown(item, left,
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

int
allocator_milp_gather(struct milp_case *c, const struct espl_alloc_view *view,
    struct espl_roster *roster, const struct milp_rules *rules, uint32_t total)
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
