/* planner_bound.c - the least that the beginning of a plan can cost; see planner_bound.h. */
#include "planner_bound.h"

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
