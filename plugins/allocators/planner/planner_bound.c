/* planner_bound.c - the least that the beginning of a plan can cost, and all ways to its end that
 * are not outdone. */
#include "planner_private.h"

#define ROUNDS 12 /* of narrowing in on the right price */

static double
weigh_value(const struct planner_price *price, double time_s, double cost_usd)
{
	return price->usd * cost_usd + price->per_s * time_s;
}

/* ---- one price ---------------------------------------------------------------------------- */

/* Least to the begin of each choice of `row`: from one with as many nodes or more, from one with
 * fewer, or in the gangs of the one before. */
static void
reach_row(const struct planner_bound *b, const struct planner_price *price, uint32_t row,
    double *end, double *least_up)
{
	const struct planner_row *before = &b->net->rows[row - 1], *here = &b->net->rows[row];
	const double *reach = price->reach + b->first[row - 1];
	double *out = price->reach + b->first[row], down = INFINITY;
	uint32_t i, k;

	/* [i]: over the choices below i, with the wait for more nodes */
	least_up[0] = INFINITY;
	for (i = 0; i < before->count; i++) {
		const struct planner_choice *c = &before->choices[i];
		double up;

		end[i] = reach[i] + weigh_value(price, c->time_s, c->cost_usd);
		up = end[i] + weigh_value(price, c->wait_s, c->wait_usd);
		least_up[i + 1] = up < least_up[i] ? up : least_up[i];
	}
	for (i = before->count, k = here->count; k-- > 0;) {
		const struct planner_choice *c = &here->choices[k];
		double up;

		for (; i > c->from; i--)
			down = end[i - 1] < down ? end[i - 1] : down;
		up = least_up[c->from] + weigh_value(price, 0.0, c->come_usd);
		out[k] = c->base != k ? INFINITY : up < down ? up : down;
	}
	for (i = 0; i < before->count; i++) {
		const struct planner_choice *c = &before->choices[i];
		double on = end[i] - weigh_value(price, c->onward_s, c->onward_usd);

		if (c->onward != PLANNER_NONE && on < out[c->onward])
			out[c->onward] = on;
	}
}

static espl_status
reach_all(struct planner_bound *b, struct planner_price *price, double usd, double per_s)
{
	const struct planner_net *net = b->net;
	const struct planner_row *row = &net->rows[0];
	double *scratch = calloc(2 * (size_t)net->widest + 2, sizeof *scratch);
	uint32_t i;

	planner_spend(net->problem, 2 * (uint64_t)b->first[net->row_count]); /* there and back */
	price->usd = usd;
	price->per_s = per_s;
	price->limit = INFINITY;
	price->reach = calloc(b->first[net->row_count], sizeof *price->reach);
	if (price->reach == NULL || scratch == NULL) {
		free(scratch);
		return ESPL_E_NOMEM;
	}
	for (i = 0; i < row->count; i++)
		if (i == net->start.onward)
			price->reach[i] = -weigh_value(price, 0.0, net->start.onward_usd);
		else if (row->choices[i].base != i)
			price->reach[i] = INFINITY;
		else if (i < net->start.above)
			price->reach[i] = 0.0;
		else
			price->reach[i] = weigh_value(price, net->start.wait_s,
			    net->start.wait_usd + row->choices[i].come_usd);
	for (i = 1; i < net->row_count; i++)
		reach_row(b, price, i, scratch, scratch + net->widest);
	free(scratch);
	return ESPL_OK;
}

/* ---- the best plan at a price ------------------------------------------------------------- */

/* from choice to choice; time and cost with the wait */
struct step {
	double sum, time_s, cost_usd;
};

static struct step
step_between(const struct planner_choice *a, uint32_t from, const struct planner_choice *c,
    uint32_t to, const struct planner_price *price)
{
	struct step s = { 0 };

	if (c->base != to) {
		s.time_s = a->onward == to ? -a->onward_s : INFINITY;
		s.cost_usd = a->onward == to ? -a->onward_usd : INFINITY;
	} else if (from < c->from) {
		s.time_s = a->wait_s;
		s.cost_usd = a->wait_usd + c->come_usd;
	}
	s.sum = isinf(s.time_s) ? INFINITY : weigh_value(price, s.time_s, s.cost_usd);
	return s;
}

/* Walks back from the best end; fills b->path with the choices begun afresh that it stands for. */
static void
best_path(struct planner_bound *b, const struct planner_price *price, struct planner_value *value)
{
	const struct planner_net *net = b->net;
	uint32_t row = net->row_count - 1, at = 0, i;
	const double *reach = price->reach + b->first[row];
	const struct planner_choice *c;
	double best = INFINITY;

	for (i = 0; i < net->rows[row].count; i++) {
		c = &net->rows[row].choices[i];
		if (reach[i] + weigh_value(price, c->time_s, c->cost_usd) < best) {
			best = reach[i] + weigh_value(price, c->time_s, c->cost_usd);
			at = i;
		}
	}
	value->time_s = value->cost_usd = 0.0;
	for (;; row--) {
		struct step taken = { 0 };
		uint32_t from = 0;

		c = &net->rows[row].choices[at];
		b->path[row] = c->base;
		value->time_s += c->time_s;
		value->cost_usd += c->cost_usd;
		if (row == 0)
			break;
		reach = price->reach + b->first[row - 1];
		best = INFINITY;
		for (i = 0; i < net->rows[row - 1].count; i++) {
			const struct planner_choice *a = &net->rows[row - 1].choices[i];
			struct step s = step_between(a, i, c, at, price);

			if (reach[i] + weigh_value(price, a->time_s, a->cost_usd) + s.sum < best) {
				best =
				    reach[i] + weigh_value(price, a->time_s, a->cost_usd) + s.sum;
				taken = s;
				from = i;
			}
		}
		value->time_s += taken.time_s;
		value->cost_usd += taken.cost_usd;
		at = from;
	}
	if (at == net->start.onward) {
		value->cost_usd -= net->start.onward_usd;
	} else if (at >= net->start.above) {
		value->time_s += net->start.wait_s;
		value->cost_usd += net->start.wait_usd + net->rows[0].choices[at].come_usd;
	}
}

static espl_status
try_price(struct planner_bound *b, double usd, double per_s, struct planner_value *value,
    planner_met met, void *ctx)
{
	espl_status status;

	if (b->price_count == PLANNER_PRICES)
		return ESPL_E_LIMIT;
	status = reach_all(b, &b->prices[b->price_count], usd, per_s);
	b->price_count++;
	if (status != ESPL_OK)
		return status;
	best_path(b, &b->prices[b->price_count - 1], value);
	met(ctx, b->path);
	return ESPL_OK;
}

/* ---- together ----------------------------------------------------------------------------- */

/* Between a plan that is too slow and one that is in time: the price at which they are equal finds
 * a third, which takes the place of one of them, until there is none in between. */
static espl_status
narrow_price(struct planner_bound *b, double time_s, struct planner_value cheap,
    struct planner_value fast, planner_met met, void *ctx, double *right)
{
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0; i < ROUNDS && status == ESPL_OK; i++) {
		double per_s = (fast.cost_usd - cheap.cost_usd) / (cheap.time_s - fast.time_s), sum,
		       bound;
		struct planner_value value;

		if (!(per_s > 0) || !isfinite(per_s))
			break;
		status = try_price(b, 1.0, per_s, &value, met, ctx);
		if (status != ESPL_OK)
			break;
		*right = per_s;
		sum = value.cost_usd + per_s * value.time_s;
		bound = sum - per_s * time_s;
		if (bound > b->least_usd)
			b->least_usd = bound;
		if (sum >= (cheap.cost_usd + per_s * cheap.time_s) * (1 - PLANNER_NOISE))
			break;
		if (value.time_s <= time_s)
			fast = value;
		else
			cheap = value;
	}
	return status;
}

espl_status
planner_bound_make(struct planner_bound *b, const struct planner_net *net, double time_s,
    planner_met met, void *ctx)
{
	static const double around[] = { 0.3, 0.6, 1.6, 3.0 };
	struct planner_value cheap, fast;
	espl_status status = ESPL_OK;
	double right = 0.0;
	uint32_t i;

	memset(b, 0, sizeof *b);
	b->net = net;
	b->first = calloc((size_t)net->row_count + 1, sizeof *b->first);
	b->path = calloc((size_t)net->row_count + 1, sizeof *b->path);
	if (b->first == NULL || b->path == NULL)
		return ESPL_E_NOMEM;
	for (i = 0; i < net->row_count; i++)
		b->first[i + 1] = b->first[i] + net->rows[i].count;
	status = try_price(b, 0.0, 1.0, &fast, met, ctx);
	if (status == ESPL_OK)
		status = try_price(b, 1.0, 0.0, &cheap, met, ctx);
	if (status != ESPL_OK)
		return status;
	b->least_usd = cheap.cost_usd;
	if (fast.time_s > time_s)
		return ESPL_E_INFEASIBLE;
	if (cheap.time_s <= time_s)
		return ESPL_OK;
	status = narrow_price(b, time_s, cheap, fast, met, ctx, &right);
	for (i = 0; i < sizeof around / sizeof around[0] && status == ESPL_OK && right > 0; i++)
		status = try_price(b, 1.0, right * around[i], &cheap, met, ctx);
	return status;
}

void
planner_bound_free(struct planner_bound *b)
{
	uint32_t i;

	for (i = 0; i < b->price_count; i++)
		free(b->prices[i].reach);
	free(b->first);
	free(b->path);
	memset(b, 0, sizeof *b);
}

void
planner_bound_limits(struct planner_bound *b, double time_s, double cost_usd)
{
	uint32_t i;

	for (i = 0; i < b->price_count; i++) {
		struct planner_price *p = &b->prices[i];
		double limit = (p->usd > 0 ? p->usd * cost_usd : 0.0) +
		    (p->per_s > 0 ? p->per_s * time_s : 0.0);

		p->limit = limit + 10 * planner_noise(limit);
	}
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* ---- lists -------------------------------------------------------------------------------- */

static espl_status
room_for(struct planner_list *list, size_t count)
{
	size_t room = list->room > 0 ? list->room : 256;
	struct planner_label *all;

	if (count <= list->room)
		return ESPL_OK;
	while (room < count)
		room *= 2;
	all = realloc(list->all, room * sizeof *all);
	if (all == NULL)
		return ESPL_E_NOMEM;
	list->all = all;
	list->room = room;
	return ESPL_OK;
}

/* Appends a label behind the one that is no later, unless that one outdoes it. */
static void
append_label(struct planner_list *list, size_t first, struct planner_label label)
{
	if (list->count > first) {
		const struct planner_label *last = &list->all[list->count - 1];

		if (label.cost_usd >= last->cost_usd - planner_noise(last->cost_usd))
			return;
		if (label.time_s <= last->time_s)
			list->count--;
	}
	list->all[list->count++] = label;
}

/* Appends the front of two: what neither outdoes. */
static espl_status
merge_fronts(const struct planner_labels *l, struct planner_list *out,
    const struct planner_label *a, size_t a_count, const struct planner_label *b, size_t b_count,
    struct planner_label shift_b)
{
	size_t i = 0, k = 0, first = out->count;
	espl_status status = room_for(out, first + a_count + b_count);

	planner_spend(l->net->problem, a_count + b_count);
	while (status == ESPL_OK && (i < a_count || k < b_count)) {
		struct planner_label next = { 0 };

		if (k < b_count) {
			next.time_s = b[k].time_s + shift_b.time_s;
			next.cost_usd = b[k].cost_usd + shift_b.cost_usd;
		}
		if (k == b_count || (i < a_count && a[i].time_s <= next.time_s))
			next = a[i++];
		else
			k++;
		append_label(out, first, next);
	}
	return status;
}

/* ---- one row ------------------------------------------------------------------------------ */

static void
swap_lists(struct planner_list *a, struct planner_list *b)
{
	struct planner_list was = *a;

	*a = *b;
	*b = was;
}

/* Adds a front of the next row to those below, or above. */
static espl_status
gather_front(struct planner_labels *l, struct planner_list *sum, uint32_t row, uint32_t choice,
    double come_usd)
{
	const struct planner_front *front = &l->fronts[l->bound->first[row] + choice];
	struct planner_label shift = { 0.0, come_usd };
	espl_status status;

	if (front->count == 0 || l->net->rows[row].choices[choice].base != choice)
		return ESPL_OK;
	l->other.count = 0;
	status = merge_fronts(l, &l->other, sum->all, sum->count, l->list.all + front->at,
	    front->count, shift);
	swap_lists(sum, &l->other);
	return status;
}

/* Appends to `out` those that a plan within the limits can have behind this choice. */
static espl_status
keep_feasible(struct planner_labels *l, struct planner_list *out, const struct planner_label *from,
    size_t count, struct planner_label shift, uint32_t row, uint32_t choice)
{
	const struct planner_price *time = &l->bound->prices[0], *usd = &l->bound->prices[1];
	size_t at = l->bound->first[row] + choice, low = 0, high = count, first = out->count, i;
	double time_most = (time->limit - time->reach[at]) - shift.time_s;
	double usd_most = (usd->limit - usd->reach[at]) - shift.cost_usd;
	espl_status status = room_for(out, first + count);

	planner_spend(l->net->problem, count * (1 + l->bound->price_count / 4));
	if (status == ESPL_OK && planner_is_spent(l->net->problem))
		status = ESPL_E_LIMIT;
	while (low < high) { /* those before are too dear */
		size_t middle = low + (high - low) / 2;

		if (from[middle].cost_usd > usd_most)
			low = middle + 1;
		else
			high = middle;
	}
	for (i = low; status == ESPL_OK && i < count && from[i].time_s <= time_most; i++) {
		struct planner_label label = { from[i].time_s + shift.time_s,
			from[i].cost_usd + shift.cost_usd };

		if (planner_bound_keeps(l->bound, row, choice, label.time_s, label.cost_usd))
			append_label(out, first, label);
	}
	return status;
}

static struct planner_label
shift_choice(const struct planner_choice *c, double time_s, double cost_usd)
{
	struct planner_label label = { c->time_s + time_s, c->cost_usd + cost_usd };

	return label;
}

/* For each choice what follows on as many nodes or fewer: l->parts, by fronts[]. */
static espl_status
below_of_row(struct planner_labels *l, uint32_t row)
{
	const struct planner_row *here = &l->net->rows[row];
	espl_status status = ESPL_OK;
	uint32_t i, k = 0;

	l->below.count = l->parts.count = 0;
	for (i = 0; i < here->count && status == ESPL_OK; i++) {
		struct planner_front *front = &l->fronts[l->bound->first[row] + i];

		for (; k < here->choices[i].above && status == ESPL_OK; k++)
			status = gather_front(l, &l->below, row + 1, k, 0.0);
		front->at = l->parts.count;
		if (status == ESPL_OK)
			status = keep_feasible(l, &l->parts, l->below.all, l->below.count,
			    shift_choice(&here->choices[i], 0.0, 0.0), row, i);
		front->count = l->parts.count - front->at;
	}
	return status;
}

/* Adds what follows on more nodes, or in the same gangs; the whole goes to the list. */
static espl_status
finish_row(struct planner_labels *l, uint32_t row)
{
	const struct planner_row *here = &l->net->rows[row], *next = here + 1;
	const struct planner_label none = { 0.0, 0.0 };
	espl_status status = ESPL_OK;
	uint32_t i, k = next->count;

	l->above.count = 0;
	for (i = here->count; i-- > 0 && status == ESPL_OK;) {
		const struct planner_choice *c = &here->choices[i];
		struct planner_front *front = &l->fronts[l->bound->first[row] + i];
		size_t from = l->parts.count, at;

		for (; k > c->above && status == ESPL_OK; k--)
			status = gather_front(l, &l->above, row + 1, k - 1,
			    next->choices[k - 1].come_usd);
		if (status == ESPL_OK)
			status = keep_feasible(l, &l->parts, l->above.all, l->above.count,
			    shift_choice(c, c->wait_s, c->wait_usd), row, i);
		at = l->parts.count;
		if (status == ESPL_OK && c->onward != PLANNER_NONE) {
			const struct planner_front *on =
			    &l->fronts[l->bound->first[row + 1] + c->onward];

			status = keep_feasible(l, &l->parts, l->list.all + on->at, on->count,
			    shift_choice(c, -c->onward_s, -c->onward_usd), row, i);
		}
		l->other.count = 0;
		if (status == ESPL_OK)
			status = merge_fronts(l, &l->other, l->parts.all + front->at, front->count,
			    l->parts.all + from, at - from, none);
		front->at = l->list.count;
		if (status == ESPL_OK)
			status = merge_fronts(l, &l->list, l->other.all, l->other.count,
			    l->parts.all + at, l->parts.count - at, none);
		front->count = l->list.count - front->at;
		l->parts.count = from;
		if (status == ESPL_OK && l->list.count > l->most)
			status = ESPL_E_LIMIT;
	}
	return status;
}

espl_status
planner_labels_make(struct planner_labels *l, const struct planner_net *net,
    const struct planner_bound *bound, size_t most)
{
	const struct planner_label none = { 0.0, 0.0 };
	uint32_t row = net->row_count - 1, i;
	espl_status status = ESPL_OK;

	memset(l, 0, sizeof *l);
	l->net = net;
	l->bound = bound;
	l->most = most;
	l->fronts = calloc(bound->first[net->row_count] + 1, sizeof *l->fronts);
	if (l->fronts == NULL)
		return ESPL_E_NOMEM;
	for (i = 0; i < net->rows[row].count && status == ESPL_OK; i++) {
		struct planner_front *front = &l->fronts[bound->first[row] + i];

		front->at = l->list.count;
		status = keep_feasible(l, &l->list, &none, 1,
		    shift_choice(&net->rows[row].choices[i], 0.0, 0.0), row, i);
		front->count = l->list.count - front->at;
	}
	while (row-- > 0 && status == ESPL_OK) {
		status = below_of_row(l, row);
		if (status == ESPL_OK)
			status = finish_row(l, row);
	}
	return status;
}

void
planner_labels_free(struct planner_labels *l)
{
	free(l->list.all);
	free(l->below.all);
	free(l->above.all);
	free(l->other.all);
	free(l->parts.all);
	free(l->fronts);
	memset(l, 0, sizeof *l);
}

/* ---- the best path ------------------------------------------------------------------------ */

struct best {
	uint32_t choice;
	struct planner_label label;
	double rest_s;
};

/* Is this way better than the best so far?  Takes it then.  rest_s: of it, from the choice on. */
static void
consider_way(struct best *best, uint32_t choice, const struct planner_label *way, double time_s,
    double cost_usd)
{
	double noise;

	if (way == NULL)
		return;
	time_s += way->time_s;
	cost_usd += way->cost_usd;
	noise = best->choice != PLANNER_NONE ? 4 * planner_noise(best->label.cost_usd) : 0.0;
	if (best->choice != PLANNER_NONE && cost_usd >= best->label.cost_usd - noise &&
	    (cost_usd > best->label.cost_usd + noise ||
		time_s >= best->label.time_s * (1 - PLANNER_NOISE)))
		return;
	best->choice = choice;
	best->label.time_s = time_s;
	best->label.cost_usd = cost_usd;
	best->rest_s = way->time_s;
}

/* The best choice of `row` after this one, with time_s left behind it. */
static struct best
best_after(const struct planner_labels *l, const struct planner_choice *before, uint32_t row,
    double time_s)
{
	const struct planner_row *here = &l->net->rows[row];
	struct best best = { PLANNER_NONE, { INFINITY, INFINITY }, 0.0 };
	uint32_t k;

	for (k = 0; k < here->count; k++) {
		double wait = k < before->above ? 0.0 : before->wait_s;
		double usd = k < before->above ? 0.0 : before->wait_usd + here->choices[k].come_usd;

		if (k == before->onward) {
			wait = -before->onward_s;
			usd = -before->onward_usd;
		} else if (here->choices[k].base != k) {
			continue;
		}
		consider_way(&best, k, planner_labels_find(l, row, k, time_s - wait), wait, usd);
	}
	return best;
}

int
planner_labels_best(const struct planner_labels *l, double time_s, uint32_t *path)
{
	const struct planner_choice *before = &l->net->start;
	uint32_t row;

	for (row = 0; row < l->net->row_count; row++) {
		struct best best = best_after(l, before, row, time_s);

		if (best.choice == PLANNER_NONE)
			return 0;
		before = &l->net->rows[row].choices[best.choice];
		path[row] = before->base;
		/* The rest takes as long as was found, up to rounding, and no longer. */
		time_s = (best.rest_s - before->time_s) + PLANNER_NOISE * fabs(best.rest_s);
	}
	return 1;
}
