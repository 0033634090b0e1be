/* planner_exact.c - the cheapest plan within a deadline, proven: bounds, then labels, then, where a
 * lease costs more than its time, best-first search over beginnings of plans. */
#include "planner_private.h"

/* ---- search ---------------------------------------------------------------------------------- */

/* The cheapest plan where a lease costs more than its time: best-first search.
 *
 * With a minimum charge, rounding up, or a wait that depends on the number of new nodes, a plan is
 * more than the sum of its parts. Beginnings of plans are extended, always the one with the
 * smallest sum of cost so far and lower bound on the remaining cost, so that the first complete
 * plan to be taken is the best. A beginning is dropped if another one ends on the same choice no
 * later and at no higher cost, and its nodes are not younger.
 */

/* up to the start of a choice's training; or a whole plan */
struct beginning {
	double begin_s;            /* of the training; the end */
	double paid_usd;           /* for released nodes, data and functions */
	double spent_usd;          /* that, and the time of the nodes that are held */
	double bound_usd, bound_s; /* of a whole plan */
	double rank;               /* bound_usd, rounded */
	size_t before, lease_at;
	size_t alike; /* the previous one that was extended on the same choice */
	uint32_t row, choice, lease_count, zero;
};
struct search {
	const struct planner_labels *labels;
	const struct planner_net *net;
	struct planner_problem *problem;
	struct planner_found *found;
	double time_s, unit_usd;
	struct beginning *all;
	size_t count, room, most;
	struct planner_lease *leases;
	size_t lease_count, lease_room;
	size_t *heap, heap_count;
	size_t *last; /* prolonged on each choice; SIZE_MAX none */
	uint32_t *path;
};
#define NO_ONE SIZE_MAX
#define BEGINNING 10 /* steps of work, with its bound and its place in the heap */

/* ---- the heap ----------------------------------------------------------------------------- */

static int
is_before(const struct search *s, size_t a, size_t b)
{
	const struct beginning *x = &s->all[a], *y = &s->all[b];

	if (x->rank != y->rank)
		return x->rank < y->rank;
	if (x->bound_s != y->bound_s)
		return x->bound_s < y->bound_s;
	return x->row != y->row ? x->row > y->row : a < b;
}

static void
push_heap(struct search *s, size_t which)
{
	size_t at = s->heap_count++;

	for (; at > 0 && is_before(s, which, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
		s->heap[at] = s->heap[(at - 1) / 2];
	s->heap[at] = which;
}

static size_t
pop_heap(struct search *s)
{
	size_t top = s->heap[0], last = s->heap[--s->heap_count], at = 0, child;

	for (; (child = 2 * at + 1) < s->heap_count; at = child) {
		if (child + 1 < s->heap_count && is_before(s, s->heap[child + 1], s->heap[child]))
			child++;
		if (!is_before(s, s->heap[child], last))
			break;
		s->heap[at] = s->heap[child];
	}
	s->heap[at] = last;
	return top;
}

/* ---- beginnings --------------------------------------------------------------------------- */

/* Room for one more, with so many leases. */
static espl_status
room_for(struct search *s, uint32_t leases)
{
	if (s->count == s->room) {
		size_t room = s->room > 0 ? 2 * s->room : 1024, *heap;
		struct beginning *all = realloc(s->all, room * sizeof *all);

		if (all == NULL)
			return ESPL_E_NOMEM;
		s->all = all;
		heap = realloc(s->heap, room * sizeof *heap);
		if (heap == NULL)
			return ESPL_E_NOMEM;
		s->heap = heap;
		s->room = room;
	}
	if (s->lease_count + leases > s->lease_room) {
		size_t room = 2 * s->lease_room + leases + 1024;
		struct planner_lease *more = realloc(s->leases, room * sizeof *more);

		if (more == NULL)
			return ESPL_E_NOMEM;
		s->leases = more;
		s->lease_room = room;
	}
	planner_spend(s->problem, BEGINNING + 2 * (uint64_t)leases);
	return s->count < s->most && !planner_is_spent(s->problem) ? ESPL_OK : ESPL_E_LIMIT;
}

/* Keeps the beginning of a plan that may still lead to the optimum, to be extended later. */
static void
keep_beginning(struct search *s, const struct beginning *b, const struct planner_lease *leases)
{
	const struct planner_found *found = s->found;
	struct beginning *kept = &s->all[s->count];

	*kept = *b;
	kept->rank = floor(b->bound_usd / s->unit_usd + 0.5);
	if (found->known) {
		double rank = floor(found->value.cost_usd / s->unit_usd + 0.5);

		if (kept->rank > rank ||
		    (kept->rank == rank &&
			kept->bound_s >= found->value.time_s * (1 - PLANNER_NOISE)))
			return;
	}
	kept->lease_at = s->lease_count;
	kept->alike = NO_ONE;
	if (b->lease_count > 0)
		memcpy(s->leases + s->lease_count, leases, b->lease_count * sizeof *leases);
	s->lease_count += b->lease_count;
	push_heap(s, s->count++);
}

/* A lower bound on the whole cost: what is paid, what the held nodes must cost in any case, and
 * what the remaining time must cost. */
static int
set_bound(const struct search *s, struct beginning *b, const struct planner_lease *leases)
{
	const struct planner_problem *p = s->problem;
	const struct planner_label *way =
	    planner_labels_find(s->labels, b->row, b->choice, s->time_s - b->begin_s);
	double sure = b->paid_usd;
	uint32_t i;

	b->spent_usd = b->paid_usd;
	for (i = 0; i < b->lease_count; i++) {
		double held = b->begin_s - leases[i].from_s;

		b->spent_usd += leases[i].nodes * p->node_usd_s * held;
		sure += leases[i].nodes * p->node_usd_s * planner_billable(p, held);
	}
	if (way == NULL)
		return 0;
	b->bound_usd = fmax(sure, b->spent_usd + way->cost_usd);
	/* A more expensive way may cost the same in the end where it is charged for more time than
	 * it takes. */
	b->bound_s = b->begin_s + planner_labels_least_s(s->labels, b->row, b->choice);
	return 1;
}

/* Extends `from` (NULL: nothing) by this choice, whose stage ends at end_s on `nodes` nodes;
 * leases: those of `from`, a copy with room for one more. */
static espl_status
go_on(struct search *s, size_t from, double end_s, uint32_t nodes, uint32_t row, uint32_t choice,
    struct planner_lease *leases, uint32_t count, double paid_usd)
{
	struct planner_problem *p = s->problem;
	const struct planner_choice *c = &s->net->rows[row].choices[choice];
	const struct planner_choice *last =
	    row > 0 ? &s->net->rows[row - 1].choices[s->all[from].choice] : NULL;
	struct beginning b = { .before = from,
		.row = row,
		.choice = choice,
		.begin_s = end_s,
		.paid_usd = paid_usd };
	uint32_t first = 0;
	espl_status status;

	if (c->nodes > nodes) {
		double billed, wait = planner_lead(p, c->nodes - nodes, &billed);

		if (!p->sold)
			return ESPL_OK;
		if (p->ahead && last != NULL)
			wait = wait > last->time_s ? wait - last->time_s : 0.0;
		b.begin_s += wait;
		b.paid_usd += p->data_usd * (c->nodes - nodes);
		leases[count].nodes = c->nodes - nodes;
		leases[count++].from_s = b.begin_s - billed;
	} else if (!p->by_function) {
		b.paid_usd += planner_release(p, leases, &first, nodes - c->nodes, b.begin_s);
	}
	b.lease_count = p->by_function ? 0 : count - first;
	status = room_for(s, b.lease_count);
	if (status == ESPL_OK && set_bound(s, &b, leases + first))
		keep_beginning(s, &b, leases + first);
	return status;
}

/* ---- steps -------------------------------------------------------------------------------- */

/* Whether one of the beginnings extended before on the same choice is at least as good in any case.
 */
static int
is_outdone(const struct search *s, const struct beginning *b)
{
	const struct planner_problem *p = s->problem;
	double slack = p->step_ns > 0
	    ? s->net->rows[b->row].choices[b->choice].nodes * p->node_usd_s * p->step_ns * 1e-9
	    : 0.0;
	size_t at = s->last[s->labels->bound->first[b->row] + b->choice];

	for (; at != NO_ONE && !planner_is_spent(p); at = s->all[at].alike) {
		const struct beginning *a = &s->all[at];
		const struct planner_lease *x = s->leases + a->lease_at,
					   *y = s->leases + b->lease_at;
		uint32_t i = 0, k = 0, x_left = 0, y_left = 0;

		planner_spend(p, 1);
		if (a->begin_s > b->begin_s * (1 + PLANNER_NOISE) ||
		    a->spent_usd + slack > b->spent_usd + planner_noise(b->spent_usd))
			continue;
		for (; i < a->lease_count && k < b->lease_count;) {
			double x_held = a->begin_s - x[i].from_s, y_held = b->begin_s - y[k].from_s;
			uint32_t less;

			if (x_held < p->minimum_s && x_held < y_held * (1 - PLANNER_NOISE))
				break;
			x_left = x_left > 0 ? x_left : x[i].nodes;
			y_left = y_left > 0 ? y_left : y[k].nodes;
			less = x_left < y_left ? x_left : y_left;
			x_left -= less;
			y_left -= less;
			i += x_left == 0;
			k += y_left == 0;
		}
		if (i == a->lease_count || k == b->lease_count)
			return 1;
	}
	return 0;
}

static espl_status
end_plan(struct search *s, size_t from, double end_s, uint32_t nodes, struct planner_lease *leases,
    uint32_t count, double paid_usd)
{
	struct beginning b = { .before = from,
		.row = s->net->row_count,
		.begin_s = end_s,
		.paid_usd = paid_usd };
	uint32_t first = 0;
	espl_status status = room_for(s, 0);

	if (!s->problem->by_function && count > 0)
		b.paid_usd += planner_release(s->problem, leases, &first, nodes, end_s);
	b.spent_usd = b.bound_usd = b.paid_usd;
	b.bound_s = end_s;
	if (status == ESPL_OK && end_s <= s->time_s)
		keep_beginning(s, &b, NULL);
	return status;
}

/* Whether this choice of `row` can follow c. Trials continue where they can. */
static int
may_follow(const struct planner_net *net, const struct planner_choice *c, uint32_t row, uint32_t k)
{
	const struct planner_choice *choices = net->rows[row].choices;

	return k == c->onward ||
	    (choices[k].base == k && (c->onward == PLANNER_NONE || choices[c->onward].base != k));
}

static espl_status
prolong_beginning(struct search *s, size_t which, struct planner_lease *scratch)
{
	const struct beginning b = s->all[which];
	const struct planner_choice *c = &s->net->rows[b.row].choices[b.choice];
	size_t place = s->labels->bound->first[b.row] + b.choice,
	       bytes = b.lease_count * sizeof *scratch;
	double end_s = b.begin_s + c->time_s,
	       paid_usd = b.paid_usd + (s->problem->by_function ? c->cost_usd : 0.0);
	espl_status status = ESPL_OK;
	uint32_t k;

	if (is_outdone(s, &b))
		return ESPL_OK;
	s->all[which].alike = s->last[place];
	s->last[place] = which;
	if (b.row + 1 == s->net->row_count) {
		if (bytes > 0)
			memcpy(scratch, s->leases + b.lease_at, bytes);
		return end_plan(s, which, end_s, c->nodes, scratch, b.lease_count, paid_usd);
	}
	for (k = 0; k < s->net->rows[b.row + 1].count && status == ESPL_OK; k++) {
		int on = k == c->onward;

		if (s->labels->fronts[s->labels->bound->first[b.row + 1] + k].count == 0 ||
		    !may_follow(s->net, c, b.row + 1, k))
			continue;
		if (bytes > 0)
			memcpy(scratch, s->leases + b.lease_at, bytes);
		status = go_on(s, which, on ? end_s - c->onward_s : end_s, c->nodes, b.row + 1, k,
		    scratch, b.lease_count,
		    paid_usd - (on && s->problem->by_function ? c->onward_usd : 0.0));
	}
	return status;
}

static espl_status
begin_search(struct search *s, struct planner_lease *scratch)
{
	const struct planner_problem *p = s->problem;
	espl_status status = ESPL_OK;
	uint32_t i, k, kept;

	for (k = 0; k < s->net->rows[0].count && status == ESPL_OK; k++) {
		double spent = k == s->net->start.onward ? s->net->start.onward_usd : 0.0;

		if (!may_follow(s->net, &s->net->start, 0, k))
			continue;
		kept = s->net->rows[0].choices[k].nodes;
		kept = kept < p->held_count ? kept : p->held_count;
		for (i = 0; i < kept; i++) { /* the youngest */
			scratch[i].nodes = 1;
			scratch[i].from_s = -p->held[p->held_count - kept + i];
			spent += p->node_usd_s * planner_billable(p, -scratch[i].from_s);
		}
		status = go_on(s, NO_ONE, 0.0, kept, 0, k, scratch, kept, -spent);
	}
	return status;
}

/* The whole plan that was found becomes the best one known. */
static void
take_plan(struct search *s, size_t which)
{
	size_t at = s->all[which].before;

	for (; at != NO_ONE; at = s->all[at].before)
		s->path[s->all[at].row] =
		    s->net->rows[s->all[at].row].choices[s->all[at].choice].base;
	(void)planner_found_try(s->found, s->net, s->path, s->time_s);
}

/* found: the best known plan, replaced by a better one. *bound_usd: no plan within the deadline
 * costs less. ESPL_E_LIMIT: more than `most` beginnings, or the effort is spent; *bound_usd is then
 * below the cost of `found`. */
static espl_status
search_plan(struct planner_found *found, const struct planner_labels *labels, double time_s,
    size_t most, double *bound_usd)
{
	const struct planner_net *net = labels->net;
	size_t places = labels->bound->first[net->row_count], i;
	struct search s = { .labels = labels,
		.net = net,
		.problem = net->problem,
		.found = found,
		.time_s = time_s,
		.most = most };
	struct planner_lease *scratch =
	    calloc((size_t)net->problem->held_count + net->row_count + 1, sizeof *scratch);
	espl_status status;

	s.unit_usd = 10 * planner_noise(found->known ? found->value.cost_usd : 0.0);
	s.last = calloc(places + 1, sizeof *s.last);
	s.path = calloc((size_t)net->row_count + 1, sizeof *s.path);
	status = scratch == NULL || s.last == NULL || s.path == NULL ? ESPL_E_NOMEM : ESPL_OK;
	for (i = 0; status == ESPL_OK && i < places; i++)
		s.last[i] = NO_ONE;
	if (status == ESPL_OK)
		status = begin_search(&s, scratch);
	*bound_usd = found->known ? found->value.cost_usd : INFINITY;
	while (status == ESPL_OK && s.heap_count > 0) {
		size_t which = pop_heap(&s);

		if (s.all[which].row == net->row_count) {
			take_plan(&s, which);
			*bound_usd = found->value.cost_usd;
			break;
		}
		status = prolong_beginning(&s, which, scratch);
		if (status == ESPL_E_LIMIT)
			*bound_usd = fmin(*bound_usd, s.all[which].bound_usd);
	}
	found->looked += s.count;
	free(scratch);
	free(s.all);
	free(s.leases);
	free(s.heap);
	free(s.last);
	free(s.path);
	return status;
}

/* ---- exact ----------------------------------------------------------------------------------- */

/* The cheapest plan within a deadline, proven: bounds, then labels, then, where a
 * lease costs more than its time, best-first search. */

#define FOREVER 1e29 /* seconds: no deadline */
#define SIZES 1000   /* of a cluster, tried in any case */
#define STEPS 32     /* of work for each label and beginning of a plan that may be kept */

struct work {
	struct planner_net net;
	struct planner_bound bound;
	struct planner_found found;
	struct planner_labels labels;
	double time_s;
	double least_s; /* of any plan that was met */
};

static void
on_path_met(void *ctx, const uint32_t *path)
{
	struct work *w = ctx;

	(void)planner_found_try(&w->found, &w->net, path, w->time_s);
	if (w->found.tried.time_s < w->least_s)
		w->least_s = w->found.tried.time_s;
}

/* The same nodes in all stages: good where leases should not be returned early, and where effort is
 * limited. */
static void
try_static(struct work *w, uint32_t *path)
{
	const struct planner_row *row = &w->net.rows[0];
	uint32_t i, k, most = w->net.problem->limit / w->net.problem->offer->gpus;

	for (k = 0; k < row->count && (k < SIZES || !planner_is_spent(w->net.problem)); k++) {
		if (k > 0 && row->choices[k].nodes == row->choices[k - 1].nodes)
			continue;
		for (i = 0; i < w->net.row_count; i++)
			path[i] = planner_net_find(&w->net, i,
			    row->choices[k].nodes <= most
				? row->choices[k].nodes * w->net.problem->offer->gpus
				: w->net.problem->limit);
		(void)planner_found_try(&w->found, &w->net, path, w->time_s);
	}
}

static espl_status
labels_within(struct work *w, double cost_usd, size_t most)
{
	planner_labels_free(&w->labels);
	planner_bound_limits(&w->bound, w->time_s, cost_usd);
	return planner_labels_make(&w->labels, &w->net, &w->bound, most);
}

/* The cost of a path is the sum of its parts: the labels contain the best one. Few labels remain if
 * the limit is slightly above the cost of the best path, so low limits are tried first. */
static espl_status
solve_linear(struct work *w, size_t most, double *bound_usd, uint32_t *path)
{
	static const double parts[] = { 0.02, 0.15, 1.0 };
	double least = w->bound.least_usd,
	       room = w->found.known ? w->found.value.cost_usd - least : INFINITY;
	uint32_t i = isfinite(room) ? 0 : 2;
	espl_status status = ESPL_OK;

	for (; i < 3 && status == ESPL_OK; i++) {
		double limit = isfinite(room) ? least + parts[i] * room : room;

		status = labels_within(w, limit, most);
		if (status != ESPL_OK || !planner_labels_best(&w->labels, w->time_s, path))
			continue;
		(void)planner_found_try(&w->found, &w->net, path, w->time_s);
		*bound_usd = w->found.known ? w->found.value.cost_usd : least;
		return ESPL_OK;
	}
	*bound_usd = status == ESPL_OK && w->found.known ? w->found.value.cost_usd : least;
	return status;
}

/* Held nodes may be paid for longer than the time they have been used: a plan can cost at most that
 * much less than its time. */
static double
prepaid_usd(const struct planner_problem *p)
{
	double usd = 0.0;
	uint32_t i;

	for (i = 0; i < p->held_count; i++)
		usd += p->node_usd_s * (planner_billable(p, p->held[i]) - p->held[i]);
	return usd;
}

static espl_status
solve_net(struct work *w, double *bound_usd, uint32_t *path)
{
	struct planner_effort *effort = w->net.problem->task->effort;
	espl_status status = planner_bound_make(&w->bound, &w->net, w->time_s, on_path_met, w);
	double prepaid = prepaid_usd(w->net.problem);
	uint64_t all = effort->most, left = effort->spent < all ? all - effort->spent : 0;
	size_t most = (size_t)(left / STEPS);

	effort->most = all - left / 8; /* the remaining effort goes to small changes of the
					* result */
	*bound_usd = w->bound.least_usd - prepaid;
	if (status == ESPL_OK && w->net.linear) {
		status = solve_linear(w, most, bound_usd, path);
	} else if (status == ESPL_OK) {
		try_static(w, path);
		planner_improve(&w->found, &w->net, w->time_s, 1);
		status = labels_within(w,
		    w->found.known ? w->found.value.cost_usd + prepaid : INFINITY, most);
		if (status == ESPL_OK)
			status = search_plan(&w->found, &w->labels, w->time_s, most, bound_usd);
		if (!(*bound_usd >= w->bound.least_usd - prepaid))
			*bound_usd = w->bound.least_usd - prepaid;
	}
	effort->most = all;
	if (status == ESPL_E_LIMIT) { /* what is there is good, if not proven */
		if (w->net.linear)
			try_static(w, path);
		planner_improve(&w->found, &w->net, w->time_s, 1);
		status = ESPL_OK;
	}
	return status == ESPL_OK && !w->found.known ? ESPL_E_INFEASIBLE : status;
}

espl_status
planner_exact_solve(void *ctx, struct planner_problem *p, double deadline_s,
    struct planner_answer *answer)
{
	const struct planner_exact *exact = ctx;
	struct work w;
	uint32_t *path = calloc((size_t)p->stage_count + 1, sizeof *path), i;
	espl_status status;

	memset(&w, 0, sizeof w);
	w.time_s = deadline_s < FOREVER ? deadline_s * (1 + PLANNER_CLOSE) : FOREVER;
	w.least_s = INFINITY;
	status = path != NULL ? planner_net_make(&w.net, p, exact->fair != 0) : ESPL_E_NOMEM;
	if (status == ESPL_OK)
		status = planner_found_make(&w.found, &w.net);
	if (status == ESPL_OK)
		status = solve_net(&w, &answer->bound_usd, path);
	answer->least_s = w.least_s;
	for (i = 0; status == ESPL_OK && i < p->stage_count; i++)
		answer->gpus[i] = w.net.rows[i].choices[w.found.path[i]].gpus;
	answer->value = w.found.value;
	answer->looked += w.found.looked + w.labels.list.count;
	if (p->skipped || p->idle || (!p->constant && (!w.net.linear || p->warm || p->ahead)))
		/* the tables know only the means of random latencies, and nothing about idle nodes
		 */
		answer->bound_usd = NAN;
	planner_labels_free(&w.labels);
	planner_found_free(&w.found);
	planner_bound_free(&w.bound);
	planner_net_free(&w.net);
	free(path);
	return status;
}
