/* spottune_policy.c - when a trial waits for spot capacity, and when it takes a machine on demand.
 *
 * With a deadline: `exact`, a look-up in the solved problem of deadline.c, one for each experiment;
 * `greedy`, on demand at the point of no return; `uniform`, uniform progress (Can't Be Late,
 * NSDI'24).  All look at the same two numbers: the work left, in seconds on the fastest machine on
 * demand, and the slack beyond it, for which the work counts at an upper quantile.  A search is one
 * path to them: the trial's stage, the stages after it, and the rounds in which they run.  Without
 * a deadline a trial waits.
 */
#include <stdlib.h>
#include <string.h>
#include "spottune.h"

#define DEVIATIONS 3.0 /* of the work left that the slack leaves room for */
#define RESERVE 15.0   /* seconds: a deadline is an instant, and its last report takes its time */

/* What a policy looks at. */
struct outlook {
	double work_s, slack_s;
	double start_s;  /* of a machine on demand */
	double step_s;   /* there */
	uint32_t demand; /* the fastest offer on demand */
	uint32_t spot;   /* the cheapest that can be had; ESPL_ANY: there is no capacity */
	int here;        /* one of SPOTTUNE_AT_* */
};
enum { AT_NOTHING, AT_SPOT, AT_DEMAND };

static int
is_spot(const struct espl_offer *offer)
{
	return (offer->flags & ESPL_OFFER_REVOCABLE) != 0;
}

int
spottune_may_wait(const struct spottune *st, const struct espl_alloc_view *view)
{
	uint32_t spots = 0;

	for (uint32_t i = 0; i < view->offer_count; i++)
		spots += (uint32_t)is_spot(view->offers[i]);
	return st->options.policy != SPOTTUNE_RULE && st->options.on_demand == SPOTTUNE_DEADLINE &&
	    spots > 0 && spots < view->offer_count;
}

int
spottune_has_policy(const struct spottune *st, const struct espl_alloc_view *view,
    const struct espl_item *item)
{
	int spots = 0, demands = 0;

	if ((item->flags & ESPL_ITEM_NO_SAVE) != 0 || !spottune_may_wait(st, view))
		return 0;
	for (uint32_t i = 0; i < view->offer_count; i++)
		if (spottune_fits(item, view->offers[i])) {
			spots += is_spot(view->offers[i]);
			demands += !is_spot(view->offers[i]);
		}
	return spots > 0 && demands > 0;
}

void
spottune_forget(struct spottune *st, const struct espl_alloc_view *view)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < st->table_count; i++) {
		if (view != NULL && spottune_experiment(view, st->tables[i].experiment) != NULL) {
			st->tables[kept++] = st->tables[i];
			continue;
		}
		deadline_free(st->tables[i].solved);
	}
	st->table_count = kept;
	if (view == NULL)
		free(st->tables);
}

static struct spottune_table *
find_table(struct spottune *st, uint64_t experiment)
{
	struct spottune_table *more;

	for (uint32_t i = 0; i < st->table_count; i++)
		if (st->tables[i].experiment == experiment)
			return &st->tables[i];
	more = realloc(st->tables, (st->table_count + (size_t)1) * sizeof *more);
	if (more == NULL) {
		st->failed = 1;
		return NULL;
	}
	st->tables = more;
	st->tables[st->table_count] =
	    (struct spottune_table){ .experiment = experiment, .checked = INT64_MIN };
	return &st->tables[st->table_count++];
}

void
spottune_warn_late(struct spottune *st, const struct espl_item *item, double left_s)
{
	struct spottune_table *table = find_table(st, item->experiment);
	long minutes = left_s > 0 ? (long)(left_s / 60) : 0;

	if (table == NULL || table->warned)
		return;
	table->warned = 1;
	espl_logf(st->host, ESPL_WARN,
	    "the deadline is in %ldh%02ldm, too early for trial %llu: no machine that is started "
	    "now is expected to meet it",
	    minutes / 60, minutes % 60, (unsigned long long)item->trial);
}

/* ---- the path to the end --------------------------------------------------------------------- */

/* Trials of the experiment that run at once on such machines. */
static double
find_slots(const struct espl_alloc_view *view, const struct espl_experiment *e, uint32_t gpus)
{
	double slots = e->gpus_limit == ESPL_ANY ? INFINITY : (double)(e->gpus_limit / gpus);
	double nodes = 0;

	for (uint32_t i = 0; i < view->offer_count; i++)
		if (view->offers[i]->gpus == gpus)
			nodes += view->offers[i]->nodes_max == ESPL_ANY
			    ? INFINITY
			    : view->offers[i]->nodes_max;
	slots = nodes < slots ? nodes : slots;
	return slots >= 1 ? slots : 1;
}

static double
find_rounds(double trials, double slots)
{
	return trials <= slots ? 1 : ceil(trials / slots);
}

static double
trials_left(const struct espl_experiment *e, const struct espl_item *item)
{
	for (uint32_t i = 0; i < e->standing_count; i++)
		if (e->standing[i]->bracket == item->bracket &&
		    e->standing[i]->stage == item->stage)
			return e->standing[i]->trials_left;
	return 1;
}

/* What follows the trial's present stage, in steps, and in starts between them; parts (if not
 * NULL): of the whole path by steps left, *count of at most room. */
struct path {
	double steps, starts;
};
#define PARTS 64u

static void
add_part(struct deadline_part *parts, uint32_t *count, double steps, double machines)
{
	if (parts == NULL || *count == PARTS)
		return;
	parts[*count].work_s = (*count > 0 ? parts[*count - 1].work_s : 0) + steps;
	parts[(*count)++].machines = machines;
}

/* From the last stage back to the one after the trial's, and that. */
static struct path
find_path(const struct espl_alloc_view *view, const struct espl_item *item, uint32_t gpus,
    struct deadline_part *parts, uint32_t *count)
{
	const struct espl_experiment *e = spottune_experiment(view, item->experiment);
	struct path path = { 0, 0 };
	uint32_t last;
	double slots;

	*count = 0;
	if (e == NULL || e->spec == NULL || item->bracket >= e->spec->bracket_count)
		return path;
	slots = find_slots(view, e, gpus);
	last =
	    (e->spec->flags & ESPL_SPEC_PARALLEL) != 0 ? item->bracket : e->spec->bracket_count - 1;
	for (uint32_t b = last + 1; b-- > item->bracket;) {
		const struct espl_bracket *bracket = e->spec->brackets[b];
		uint32_t from = b > item->bracket ? 0 : item->stage;

		for (uint32_t s = bracket->stage_count; s-- > from;) {
			const struct espl_stage *stage = bracket->stages[s];
			int here = b == item->bracket && s == item->stage;
			double trials = here ? trials_left(e, item) : stage->trials;
			double rounds = find_rounds(trials, slots) - here;

			path.steps += rounds * (double)stage->iterations;
			path.starts += rounds;
			add_part(parts, count, (rounds + here) * (double)stage->iterations,
			    stage->trials < slots ? stage->trials : slots);
		}
	}
	return path;
}

/* ---- what a policy looks at ------------------------------------------------------------------ */

static double
step_spread(const struct spottune *st, const struct espl_item *item, const struct espl_offer *offer)
{
	struct espl_speed_query q = ESPL_INIT(struct espl_speed_query);
	struct espl_speed speed = ESPL_INIT(struct espl_speed);

	q.offer = offer->number;
	q.experiment = item->experiment;
	q.trial = item->trial;
	q.share.gpus = offer->gpus;
	q.share.packing = 1;
	if (st->model == NULL || st->model->speed(st->model, &q, &speed) != ESPL_OK ||
	    !isfinite(speed.sd_s))
		return 0;
	return speed.sd_s;
}

/* Work and slack as if it ran on this offer on demand. */
static void
see_offer(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct espl_offer *offer, struct outlook *o)
{
	uint32_t none;
	struct path path = find_path(view, t->item, offer->gpus, NULL, &none);
	double pace = spottune_pace(st, t, offer), steps = t->steps + path.steps;
	double spread = step_spread(st, t->item, offer);

	o->start_s = st->offers[offer->number].boot_s + t->away_s;
	o->step_s = pace;
	o->work_s = steps * pace;
	o->slack_s = t->left_s - o->work_s - path.starts * o->start_s - RESERVE - pace -
	    DEVIATIONS * spread * (1 + sqrt(steps));
}

/* The fastest on demand; *cost: of the cheapest. */
static struct outlook
look_at_demand(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, double *cost)
{
	struct outlook o = { .demand = ESPL_ANY, .spot = ESPL_ANY }, x = { 0 };
	double least = INFINITY;

	*cost = INFINITY;
	for (uint32_t i = 0; i < view->offer_count; i++) {
		const struct espl_offer *offer = view->offers[i];

		if (is_spot(offer) || !spottune_fits(t->item, offer) ||
		    (offer->flags & ESPL_OFFER_GONE) != 0)
			continue;
		see_offer(st, view, t, offer, &x);
		*cost = fmin(*cost, spottune_cost(st, t, offer));
		if (o.demand != ESPL_ANY && x.work_s + x.start_s >= least)
			continue;
		least = x.work_s + x.start_s;
		x.demand = i;
		x.spot = ESPL_ANY;
		o = x;
	}
	return o;
}

/* Would it be done in time there, if all went well? */
static int
is_fast_enough(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct outlook *o, const struct espl_offer *spot)
{
	double pace;

	if (o->demand == ESPL_ANY || !isfinite(t->left_s))
		return 1;
	pace = spottune_pace(st, t, spot) / spottune_pace(st, t, view->offers[o->demand]);
	return o->work_s * pace + o->start_s <= o->work_s + o->slack_s;
}

/* Spot offers in the order in which they are preferred: the cheapest that are fast enough, then the
 * fastest. */
static double
rank_spot(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct outlook *o, const struct espl_offer *spot)
{
	double cost = spottune_cost(st, t, spot);

	return is_fast_enough(st, view, t, o, spot) ? cost
						    : cost + 1e9 * spottune_pace(st, t, spot);
}

static struct outlook
look_out(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, uint32_t at)
{
	double cost, best = INFINITY;
	struct outlook o = look_at_demand(st, view, t, &cost);

	for (uint32_t i = 0; i < view->offer_count; i++) {
		const struct espl_offer *offer = view->offers[i];
		double rank;

		if (!is_spot(offer) || !spottune_fits(t->item, offer) ||
		    spottune_cost(st, t, offer) >= cost || !spottune_available(st, view, i, at) ||
		    (st->offers[i].cool_until > view->now && i != at))
			continue;
		rank = rank_spot(st, view, t, &o, offer);
		if (o.spot == ESPL_ANY || rank < best) {
			best = rank;
			o.spot = i;
		}
	}
	o.here = at == ESPL_ANY ? AT_NOTHING : is_spot(view->offers[at]) ? AT_SPOT : AT_DEMAND;
	return o;
}

/* The cheapest on demand that is in time, or else the fastest. */
static uint32_t
choose_demand(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, uint32_t at)
{
	uint32_t best = ESPL_ANY;
	double best_cost = INFINITY;

	for (uint32_t i = 0; i < view->offer_count; i++) {
		const struct espl_offer *offer = view->offers[i];
		struct outlook o = { 0 };
		double cost, late;

		if (is_spot(offer) || !spottune_fits(t->item, offer) ||
		    !spottune_available(st, view, i, at))
			continue;
		see_offer(st, view, t, offer, &o);
		late = (i == at ? 0 : o.start_s) - o.slack_s;
		cost = spottune_cost(st, t, offer) + (late > 0 ? 1e9 * (1 + late) : 0);
		if (best == ESPL_ANY || cost < best_cost) {
			best = i;
			best_cost = cost;
		}
	}
	return best;
}

/* ---- exact ----------------------------------------------------------------------------------- */

/* Zones and types of spot machines as one source: the cheapest of them is used, it is out while all
 * are, and after a loss another one may be left. */
static struct deadline_world
see_world(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct outlook *o)
{
	const struct espl_offer *demand = view->offers[o->demand], *spot = NULL;
	struct deadline_world w = { .demand_boot_s = st->offers[o->demand].boot_s,
		.away_s = t->away_s,
		.demand_usd_h = st->offers[o->demand].price_hour };
	double pace = spottune_pace(st, t, demand), none = 1;

	for (uint32_t i = 0; i < view->offer_count; i++) {
		const struct espl_offer *offer = view->offers[i];

		if (is_spot(offer) && spottune_fits(t->item, offer) &&
		    (spot == NULL ||
			rank_spot(st, view, t, o, offer) < rank_spot(st, view, t, o, spot)))
			spot = offer;
	}
	ESPL_ASSERT(spot != NULL);
	for (uint32_t i = 0; i < view->offer_count; i++) {
		const struct spottune_offer *x = &st->offers[i];

		if (!is_spot(view->offers[i]) || !spottune_fits(t->item, view->offers[i]))
			continue;
		w.back_h += x->back_h;
		if (view->offers[i] != spot)
			none *= x->lost_h / (x->lost_h + x->back_h);
	}
	w.other = 1 - none;
	w.lost_h = st->offers[spot->number].lost_h;
	w.spot_boot_s = st->offers[spot->number].boot_s;
	w.spot_usd_h = st->offers[spot->number].price_hour;
	w.slower = spottune_pace(st, t, spot) / pace;
	w.redo_s = spottune_unsaved(st, t, spot);
	w.redo_s = spottune_pace(st, t, spot) + (w.redo_s < o->work_s ? w.redo_s : o->work_s);
	return w;
}

/* The most work and slack of the experiment's trials. */
static void
see_most(const struct spottune *st, const struct espl_alloc_view *view, uint64_t experiment,
    double *work_s, double *slack_s)
{
	for (uint32_t i = 0; i < view->item_count; i++) {
		struct spottune_prospect t;
		struct outlook o;

		if (view->items[i]->experiment != experiment)
			continue;
		t = spottune_weigh(st, view, view->items[i]);
		o = look_out(st, view, &t, ESPL_ANY);
		if (o.demand == ESPL_ANY)
			continue;
		*work_s = fmax(*work_s, o.work_s);
		*slack_s = fmax(*slack_s, o.slack_s);
	}
}

static espl_status
solve_table(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct outlook *o, const struct deadline_world *world,
    struct spottune_table *table)
{
	double work_s = o->work_s, slack_s = fmax(o->slack_s, 0);
	double pace = spottune_pace(st, t, view->offers[o->demand]);
	struct deadline_part parts[PARTS];
	struct deadline *solved;
	espl_status status;
	uint32_t count;

	see_most(st, view, t->item->experiment, &work_s, &slack_s);
	(void)find_path(view, t->item, view->offers[o->demand]->gpus, parts, &count);
	for (uint32_t i = 0; i < count; i++)
		parts[i].work_s *= pace;
	/* a pace that is measured anew gives some more of both */
	status = deadline_solve(world, parts, count, work_s * 1.02, slack_s * 1.1, &solved);
	if (status != ESPL_OK)
		return status;
	deadline_free(table->solved);
	table->solved = solved;
	return ESPL_OK;
}

/* Solved again when the world has changed, or the trials need a finer or larger grid. */
static const struct deadline *
renew_table(struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct outlook *o)
{
	struct spottune_table *table = find_table(st, t->item->experiment);
	struct espl_item typical = *t->item;
	struct spottune_prospect any = *t;
	struct deadline_world world;
	double work_s = o->work_s, slack_s = fmax(o->slack_s, 0);

	if (table == NULL)
		return NULL;
	if (table->solved != NULL && table->checked == view->now &&
	    deadline_holds(table->solved, work_s, slack_s))
		return table->solved;
	typical.trial = ESPL_NONE;
	any.item = &typical;
	world = see_world(st, view, &any, o);
	if (table->solved != NULL && table->checked != view->now)
		see_most(st, view, t->item->experiment, &work_s, &slack_s);
	table->checked = view->now;
	if ((table->solved == NULL || !deadline_covers(table->solved, &world, work_s, slack_s)) &&
	    solve_table(st, view, t, o, &world, table) != ESPL_OK) {
		st->failed = 1;
		return NULL;
	}
	return table->solved;
}

static enum deadline_action
act_exactly(struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct outlook *o, struct spottune_choice *c)
{
	static const enum deadline_state states[][2] = {
		[AT_NOTHING] = { DEADLINE_IDLE_OUT, DEADLINE_IDLE_IN },
		[AT_SPOT] = { DEADLINE_SPOT, DEADLINE_SPOT },
		[AT_DEMAND] = { DEADLINE_DEMAND_OUT, DEADLINE_DEMAND_IN },
	};
	enum deadline_state state = states[o->here][o->spot != ESPL_ANY];
	const struct deadline *solved = renew_table(st, view, t, o);
	enum deadline_action action;
	double lasts;

	if (solved == NULL)
		return DEADLINE_TOO_LATE;
	action = deadline_act(solved, state, o->work_s, o->slack_s);
	lasts = deadline_lasts(solved, state, o->work_s, o->slack_s);
	c->wait_s = deadline_threshold(solved, o->work_s) - o->start_s;
	if (lasts < 1e9)
		c->look = view->now + (espl_time)((lasts > 1 ? lasts : 1) * 1e9);
	return action;
}

/* ---- the published ones ---------------------------------------------------------------------- */

/* Two starts are kept: one for a spot machine that may be lost, one for the machine on demand. */
static enum deadline_action
act_as_published(struct spottune *st, const struct espl_alloc_view *view, const struct outlook *o,
    struct spottune_past *past, struct spottune_choice *c)
{
	double net = o->slack_s - 2 * (o->start_s + o->step_s), ahead, now_s, rate, look = INFINITY;

	if (o->here != AT_SPOT && net < 0)
		past->locked = 1;
	if (past->locked)
		return o->here == AT_SPOT ? DEADLINE_TAKE : DEADLINE_RENT;
	if (o->spot != ESPL_ANY || o->here == AT_SPOT)
		return DEADLINE_TAKE;
	now_s = espl_seconds(view->now - past->begun);
	rate = past->left_s > 0 ? past->work_s / past->left_s : 1;
	ahead = past->work_s - o->work_s - now_s * rate; /* of uniform progress, in work */
	c->wait_s = o->start_s;
	if (st->options.policy == SPOTTUNE_UNIFORM && o->here == AT_DEMAND) {
		ahead -= 2 * o->start_s * rate;
		if (ahead >= 0)
			return DEADLINE_WAIT;
		look = rate < 1 ? -ahead / (1 - rate) : INFINITY;
	} else if (st->options.policy == SPOTTUNE_UNIFORM && ahead < 0) {
		return DEADLINE_RENT;
	} else if (st->options.policy == SPOTTUNE_UNIFORM) {
		look = fmin(net, ahead / rate);
	} else {
		look = net;
	}
	if (look < 1e9)
		c->look = view->now + (espl_time)((look + 1) * 1e9);
	return o->here == AT_DEMAND ? DEADLINE_RENT : DEADLINE_WAIT;
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* Without a deadline it waits, as long as the user wants.  Where none was there for so long, trials
 * that come later do not wait once more. */
static enum deadline_action
act_without(const struct spottune *st, const struct espl_alloc_view *view, const struct outlook *o,
    const struct spottune_past *past, struct spottune_choice *c)
{
	espl_time since = past->waits != ESPL_NEVER ? past->waits : view->now;

	if (o->spot != ESPL_ANY || o->here == AT_SPOT)
		return DEADLINE_TAKE;
	if (o->here == AT_DEMAND)
		return DEADLINE_RENT;
	if (st->without < since)
		since = st->without;
	if (view->now - since >= st->options.wait)
		return DEADLINE_RENT;
	c->look = since + st->options.wait;
	return DEADLINE_WAIT;
}

/* No spot machine would be cheaper, at present prices. */
static int
spot_is_dear(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t)
{
	double spot = INFINITY, demand = INFINITY;

	for (uint32_t i = 0; i < view->offer_count; i++) {
		double *least = is_spot(view->offers[i]) ? &spot : &demand;

		if (spottune_fits(t->item, view->offers[i]))
			*least = fmin(*least, spottune_cost(st, t, view->offers[i]));
	}
	return demand <= spot;
}

static void
take_spot(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct outlook *o, uint32_t at,
    struct spottune_choice *c)
{
	c->offer = o->spot;
	if (o->here != AT_SPOT)
		return;
	c->stays = spottune_cost(st, t, view->offers[at]);
	c->cost = o->spot != ESPL_ANY ? spottune_cost(st, t, view->offers[o->spot]) : c->stays;
	if (o->spot != ESPL_ANY && !is_fast_enough(st, view, t, o, view->offers[at]) &&
	    is_fast_enough(st, view, t, o, view->offers[o->spot])) {
		c->stays = NAN;
	} else if (o->spot == ESPL_ANY ||
	    o->slack_s < 4 * (st->offers[o->spot].boot_s + o->start_s)) {
		/* a move to a cheaper one uses up slack as a loss does */
		c->offer = at;
		c->cost = c->stays;
	}
}

static void
take_demand(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct outlook *o, uint32_t at,
    struct spottune_choice *c)
{
	c->offer = choose_demand(st, view, t, at);
	c->rents = 1;
	if (o->here != AT_DEMAND || c->offer == ESPL_ANY)
		return;
	c->stays = spottune_cost(st, t, view->offers[at]);
	c->cost = spottune_cost(st, t, view->offers[c->offer]);
	if (c->cost > c->stays) /* faster: the one that it has would be late */
		c->stays = NAN;
}

void
spottune_decide(struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, uint32_t i, uint32_t at, struct spottune_choice *c)
{
	struct spottune_past *past = &st->trials[i].past;
	struct outlook o = look_out(st, view, t, at);
	enum deadline_action action;

	if (o.demand == ESPL_ANY || !isfinite(t->left_s)) {
		action = act_without(st, view, &o, past, c);
		if (action == DEADLINE_WAIT && spot_is_dear(st, view, t))
			action = DEADLINE_RENT;
	} else {
		c->spare_s = o.slack_s - o.start_s;
		if (past->begun == ESPL_NEVER) {
			past->begun = view->now;
			past->work_s = o.work_s;
			past->left_s = t->left_s;
		}
		action = st->options.policy == SPOTTUNE_EXACT
		    ? act_exactly(st, view, t, &o, c)
		    : act_as_published(st, view, &o, past, c);
	}
	if (action == DEADLINE_TOO_LATE && o.here == AT_NOTHING && o.slack_s < 0)
		spottune_warn_late(st, t->item, t->left_s);
	if (action == DEADLINE_TOO_LATE)
		action = o.here == AT_SPOT && o.slack_s < t->away_s ? DEADLINE_TAKE : DEADLINE_RENT;
	if (action == DEADLINE_TAKE)
		take_spot(st, view, t, &o, at, c);
	else if (action == DEADLINE_RENT)
		take_demand(st, view, t, &o, at, c);
	c->leaves = action == DEADLINE_WAIT && o.here == AT_DEMAND;
	if (o.here == AT_NOTHING && action == DEADLINE_WAIT && past->waits == ESPL_NEVER)
		past->waits = view->now;
}
