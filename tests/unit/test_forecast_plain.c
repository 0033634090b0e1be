/* test_forecast_plain.c - the execution model once more, the plain way: every node and every trial
 * by itself, constants only.  The model must agree on random cases, by its tables and its graph. */
#include "test_forecast.h"

struct node {
	double from, past;
	int held;
}; /* past: billed before the beginning */

static uint32_t
trials_of(const struct forecast_case *c, uint32_t at)
{
	return c->stages[at].trials;
}

static double
speed_at(const struct forecast_case *c, double gpus)
{
	uint32_t i = 1;

	while (i < c->profile.scaling_count && c->scaling[i].x < gpus)
		i++;
	if (i == c->profile.scaling_count)
		return c->scaling[i - 1].y;
	return c->scaling[i - 1].y +
	    (c->scaling[i].y - c->scaling[i - 1].y) * (gpus - c->scaling[i - 1].x) /
	    (c->scaling[i].x - c->scaling[i - 1].x);
}

/* May n shares of g stand side by side? */
static int
stand(uint32_t g, uint32_t n, uint32_t nodes, uint32_t per_node)
{
	uint32_t room = 0;

	if (g > per_node)
		return g % per_node == 0 && (uint64_t)n * (g / per_node) <= nodes;
	for (uint32_t i = 0; i < nodes; i++)
		for (uint32_t used = g; used <= per_node; used += g)
			room++;
	return room >= n;
}

struct laid {
	uint32_t share, nodes, slots;
};

/* gpus_min 1 and no gpus_max.  0: cannot be placed. */
static int
lay(const struct forecast_case *c, uint32_t at, struct laid *l)
{
	const struct espl_plan_stage *p = &c->entries[at];
	uint32_t per_node = c->offers[p->offer].gpus, n = trials_of(c, at);

	l->nodes = (p->gpus + per_node - 1) / per_node;
	l->share = p->gpus / n > 1 ? p->gpus / n : 1;
	while (c->setup.colocate && l->share > 1 && !stand(l->share, n, l->nodes, per_node))
		l->share--;
	if (p->gpus_per_trial > 0)
		l->share = p->gpus_per_trial;
	l->slots = n;
	while (l->slots > 0 &&
	    (l->slots * l->share > p->gpus ||
		(c->setup.colocate && !stand(l->share, l->slots, l->nodes, per_node))))
		l->slots--;
	return l->slots > 0;
}

static double
bill_of(const struct espl_offer *o, double length)
{
	double steps;

	if (length * 1e9 < (double)o->minimum_charge)
		length = (double)o->minimum_charge * 1e-9;
	if (o->billing_step > 1) {
		steps = length * 1e9 / (double)o->billing_step;
		length = ceil(steps - 1e-6) * (double)o->billing_step * 1e-9;
	}
	return length * (double)o->price_hour * 1e-6 / 3600;
}

static double
node_cost(const struct espl_offer *o, const struct node *n, double end)
{
	if (o->billing == ESPL_BILL_FUNCTION)
		return 0;
	if (n->held && n->past >= 0)
		return bill_of(o, n->past + end) - bill_of(o, n->past);
	return bill_of(o, end - n->from);
}

struct plain {
	const struct forecast_case *c;
	struct node nodes[2048]; /* oldest first */
	uint32_t count, offer;
	uint8_t taken[HELD_MAX];
	double now, train, cost; /* train: the stage's training begins */
	int first;
};

/* From node number `from` on, at an instant. */
static void
drop_some(struct plain *p, uint32_t from, uint32_t count, double end)
{
	for (uint32_t i = from; i < from + count; i++)
		p->cost += node_cost(&p->c->offers[p->offer], &p->nodes[i], end);
	memmove(p->nodes + from, p->nodes + from + count,
	    (p->count - from - count) * sizeof *p->nodes);
	p->count -= count;
}

static void
drop_oldest(struct plain *p, uint32_t count)
{
	drop_some(p, 0, count, p->now);
}

/* Trials are all alike: the last round of them stands on the oldest nodes, the others are idle when
 * it begins, and all when it ends.  What the next stage needs stays. */
static void
drop_idle(struct plain *p, uint32_t trials, const struct laid *l, double each, uint32_t floor)
{
	uint32_t per_node = p->c->offers[p->offer].gpus, last = (trials - 1) % l->slots + 1;
	uint32_t side = per_node / l->share, idle;
	uint32_t used =
	    l->share > per_node ? last * (l->share / per_node) : (last + side - 1) / side;
	double begin = p->train + (double)((trials - 1) / l->slots) * each;

	if (l->share > per_node ? l->share % per_node != 0
				: !p->c->setup.colocate && per_node % l->share != 0)
		return;
	idle = p->count - (used > floor ? used : floor);
	if (p->count > used && p->count > floor)
		drop_some(p, used, idle, begin);
	if (p->count > floor)
		drop_some(p, 0, p->count - floor, begin + each);
}

static void
begin_with_held(struct plain *p, uint32_t offer, uint32_t want)
{
	uint32_t keep = 0, skip;

	p->now = 0;
	p->offer = offer;
	p->count = 0;
	for (uint32_t i = 0; i < p->c->setup.held_count; i++)
		keep += p->c->held[i].offer == offer && !p->taken[i];
	skip = keep > want ? keep - want : 0;
	for (uint32_t i = 0; i < p->c->setup.held_count; i++) {
		if (p->c->held[i].offer != offer || p->taken[i])
			continue;
		if (skip > 0) {
			skip--;
			continue;
		}
		p->taken[i] = 1;
		p->nodes[p->count++] = (struct node){ 0, p->c->held[i].billed_s, 1 };
	}
}

static void
fetch(struct plain *p, uint32_t want)
{
	const struct espl_offer *o = &p->c->offers[p->offer];
	double boot = o->provision->mean_s, ready = boot + o->init->mean_s, asked = p->now;

	if (p->count > want)
		drop_oldest(p, p->count - want);
	if (p->c->setup.ahead && !p->first) /* expected when the stage before ends, but */
		/* while it trains */
		asked = p->now - ready > p->train ? p->now - ready : p->train;
	p->train = p->now;
	if (p->count < want && asked + ready > p->train)
		p->train = asked + ready;
	for (; p->count < want; p->count++) {
		double from = o->billed_from == ESPL_BILL_FROM_REQUEST ? 0
		    : o->billed_from == ESPL_BILL_FROM_BOOT            ? boot
								       : ready;

		p->nodes[p->count] = (struct node){ asked + from, 0, 0 };
		p->cost += floor(p->c->setup.data_gb * (double)o->data_gb + 0.5) * 1e-6;
	}
}

/* Trials in order, each on the slot that comes free first; all are alike. */
static double
train_all(uint32_t trials, uint32_t slots, double each)
{
	double free_at[64] = { 0 }, end = 0;

	for (uint32_t k = 0; k < trials; k++) {
		uint32_t at = 0;

		for (uint32_t s = 1; s < slots; s++)
			if (free_at[s] < free_at[at])
				at = s;
		free_at[at] += each;
		end = free_at[at] > end ? free_at[at] : end;
	}
	return end;
}

static int
same_gangs(const struct forecast_case *c, uint32_t a, uint32_t b)
{
	struct laid la, lb;

	if (c->entries[a].bracket != c->entries[b].bracket || !lay(c, a, &la) || !lay(c, b, &lb))
		return 0;
	return c->setup.warm && c->entries[a].offer == c->entries[b].offer &&
	    la.nodes == lb.nodes && la.share == lb.share && la.slots == trials_of(c, a) &&
	    lb.slots == trials_of(c, b);
}

/* Iteration by iteration: at the end of one a checkpoint is due if the last is old enough. */
static double
saves(const struct forecast_case *c, double iterations, double each, double age)
{
	double total = 0;

	for (int i = 1; i < (int)iterations && c->setup.checkpoint && c->setup.save_every_s > 0;
	     i++) {
		age += each;
		if (age < c->setup.save_every_s - 1e-9)
			continue;
		total += c->profile.checkpoint.mean_s;
		age = 0;
	}
	return total;
}

static double
trial_time(const struct forecast_case *c, uint32_t at, const struct laid *l, int warm,
    int warm_after)
{
	double iterations = (double)c->stages[at].iterations, overhead = 0;
	double each = 10 / speed_at(c, l->share) * c->setup.speed;
	int first = c->entries[at].stage == 0;

	if (!warm) {
		overhead = c->profile.start.mean_s;
		if (!first && c->setup.checkpoint)
			overhead += c->profile.restore.mean_s;
		for (uint32_t i = 1; i <= c->entries[at].stage && !c->setup.checkpoint; i++)
			iterations += (double)c->stages[at - i].iterations;
	}
	overhead += saves(c, iterations, each, overhead);
	if (c->setup.checkpoint && !warm_after)
		overhead += c->profile.checkpoint.mean_s;
	return overhead + iterations * each;
}

/* Nodes that the stage after this one has of the same offer. */
static uint32_t
next_nodes(const struct forecast_case *c, uint32_t at)
{
	const struct espl_plan_stage *e = &c->entries[at], *next = e + 1;
	struct laid l;

	while (next < c->entries + c->stage_count && c->setup.next_stage != NULL &&
	    next->stage < c->next[next->bracket])
		next++;
	if (next == c->entries + c->stage_count || next->offer != e->offer ||
	    ((c->spec.flags & ESPL_SPEC_PARALLEL) != 0 && next->bracket != e->bracket))
		return 0;
	return lay(c, (uint32_t)(next - c->entries), &l) ? l.nodes : 0;
}

/* 0: the plan cannot be placed. */
static int
replay(const struct forecast_case *c, double *jct, double *cost)
{
	static struct plain p;
	int began = 0;

	memset(&p, 0, sizeof p);
	p.c = c;
	*jct = 0;
	for (uint32_t i = 0; i < c->stage_count; i++) {
		const struct espl_plan_stage *e = &c->entries[i];
		int before, after, held_all = 0;
		double each;
		struct laid l;

		if (c->setup.next_stage != NULL && e->stage < c->next[e->bracket])
			continue;
		if (!lay(c, i, &l))
			return 0;
		p.first = !began ||
		    ((c->spec.flags & ESPL_SPEC_PARALLEL) != 0 && e->stage == c->next[e->bracket]);
		if (p.first) {
			drop_oldest(&p, p.count);
			begin_with_held(&p, e->offer, l.nodes);
			held_all = p.count == l.nodes;
		} else if (p.offer != e->offer) {
			drop_oldest(&p, p.count);
			p.offer = e->offer;
		}
		began = 1;
		fetch(&p, l.nodes);
		before = e->stage > 0 && same_gangs(c, i - 1, i) && (!p.first || held_all);
		after = i + 1 < c->stage_count && same_gangs(c, i, i + 1);
		each = trial_time(c, i, &l, before, after);
		if (c->setup.idle && !before && !after)
			drop_idle(&p, trials_of(c, i), &l, each, next_nodes(c, i));
		p.now = p.train + train_all(trials_of(c, i), l.slots, each) + c->sync.mean_s;
		*jct = p.now > *jct ? p.now : *jct;
		if (c->offers[e->offer].billing == ESPL_BILL_FUNCTION)
			p.cost += ((after ? p.now - p.train : each) * trials_of(c, i) +
				      (after && c->setup.checkpoint ? c->profile.checkpoint.mean_s *
						  (trials_of(c, i) - trials_of(c, i + 1))
								    : 0.0)) *
			    l.share * (double)c->offers[e->offer].price_hour * 1e-6 / 3600 /
			    c->offers[e->offer].gpus;
	}
	drop_oldest(&p, p.count);
	*cost = p.cost;
	return 1;
}

Test(forecast, constants_are_exact_on_random_cases)
{
	uint32_t placed = 0;

	for (uint64_t seed = 0; seed < 600; seed++) {
		struct espl__forecast_result tables, graph;
		struct espl__forecast *f;
		struct forecast_case c;
		espl_status status;
		double jct, cost;

		case_random(&c, seed, 0);
		f = forecast_of(&c);
		cr_assert(espl__forecast_exact(f));
		status = espl__forecast_plan(f, &c.plan, 0, 0, &tables, NULL, NULL);
		if (!replay(&c, &jct, &cost)) {
			cr_assert_eq(status, ESPL_E_INFEASIBLE, "%llu", (unsigned long long)seed);
			espl__forecast_free(f);
			continue;
		}
		cr_assert_eq(status, ESPL_OK, "%llu: %d", (unsigned long long)seed, status);
		cr_assert_eq(espl__forecast_plan(f, &c.plan, 0, 9, &graph, NULL, NULL), ESPL_OK);
		espl__forecast_free(f);
		placed++;
		near_to(tables.jct_s.mean, jct, 1e-9 * (1 + jct), "%llu: %.12g s, not %.12g",
		    (unsigned long long)seed, tables.jct_s.mean, jct);
		near_to(tables.cost_usd.mean, cost, 1e-9 * (1 + cost), "%llu: %.12g $, not %.12g",
		    (unsigned long long)seed, tables.cost_usd.mean, cost);
		near_to(graph.jct_s.mean, jct, 1e-9 * (1 + jct), "graph, %llu: %.12g s, not %.12g",
		    (unsigned long long)seed, graph.jct_s.mean, jct);
		near_to(graph.cost_usd.mean, cost, 1e-9 * (1 + cost),
		    "graph, %llu: %.12g $, not %.12g", (unsigned long long)seed,
		    graph.cost_usd.mean, cost);
	}
	cr_assert_gt(placed, 300, "only %u cases could be placed", placed);
}
