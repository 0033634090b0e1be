/* spottune_choice.c - the offer on which a trial's steps are expected to cost least. */
#include "spottune.h"
#include "spottune_cost.h"

const struct espl_experiment *
spottune_experiment(const struct espl_alloc_view *view, uint64_t id)
{
	for (uint32_t i = 0; i < view->experiment_count; i++)
		if (view->experiments[i]->id == id)
			return view->experiments[i];
	return NULL;
}

static double
machine_size(const struct espl_offer *offer)
{
	return offer->cpus > 0 ? offer->cpus : offer->gpus;
}

/* Seconds of a step on the whole machine; NaN: neither measured nor profiled. */
static double
ask_speed(const struct spottune *st, const struct espl_item *item, const struct espl_offer *offer)
{
	struct espl_speed_query q = ESPL_INIT(struct espl_speed_query);
	struct espl_speed speed = ESPL_INIT(struct espl_speed);

	if (st->model == NULL)
		return NAN;
	q.offer = offer->number;
	q.experiment = item->experiment;
	q.trial = item->trial;
	q.share.gpus = offer->gpus;
	q.share.packing = 1;
	return st->model->speed(st->model, &q, &speed) == ESPL_OK ? speed.iteration_s : NAN;
}

/* Where no speed is known of an offer: twice the size, twice as fast (the paper's C0 / CPU), going
 * by one that is known. */
static double
step_seconds(const struct spottune *st, const struct spottune_prospect *t,
    const struct espl_offer *offer)
{
	double seconds = ask_speed(st, t->item, offer);

	if (!isnan(seconds))
		return seconds;
	return isnan(t->known_s) ? 1 / machine_size(offer)
				 : t->known_s * t->known_size / machine_size(offer);
}

/* With the saves on the way, which follow a step. */
double
spottune_pace(const struct spottune *st, const struct spottune_prospect *t,
    const struct espl_offer *offer)
{
	double step = step_seconds(st, t, offer);

	return t->every_s > 0 ? step + t->save_s / ceil(t->every_s / step) : step;
}

struct spottune_prospect
spottune_weigh(const struct spottune *st, const struct espl_alloc_view *view,
    const struct espl_item *item)
{
	struct spottune_prospect t = { .item = item, .left_s = INFINITY, .known_s = NAN };
	const struct espl_experiment *e = spottune_experiment(view, item->experiment);
	struct espl_overheads o = ESPL_INIT(struct espl_overheads);

	t.steps = (double)item->iterations_left;
	if (e != NULL && e->deadline != ESPL_NEVER)
		t.left_s = espl_seconds(e->deadline - view->now);
	if (st->model != NULL &&
	    st->model->overheads(st->model, item->experiment, ESPL_ANY, &o) == ESPL_OK) {
		t.save_s = o.save_s;
		t.every_s = o.save_every_s;
		t.away_s = o.save_s + o.start_s + o.restore_s;
	}
	for (uint32_t i = 0; i < view->offer_count && isnan(t.known_s); i++) {
		t.known_s = ask_speed(st, item, view->offers[i]);
		t.known_size = machine_size(view->offers[i]);
	}
	return t;
}

int
spottune_fits(const struct espl_item *item, const struct espl_offer *offer)
{
	return offer->gpus >= item->gpus_min && offer->gpus <= item->gpus_max &&
	    (item->unit <= 1 || offer->gpus % item->unit == 0);
}

int
spottune_available(const struct spottune *st, const struct espl_alloc_view *view, uint32_t i,
    uint32_t at)
{
	const struct espl_offer *offer = view->offers[i];

	return (offer->flags & ESPL_OFFER_GONE) == 0 &&
	    (i == at || offer->nodes_max == ESPL_ANY || st->offers[i].want < offer->nodes_max);
}

/* Until it is done there; the machine that it is on has booted. */
static double
done_after(const struct spottune *st, const struct spottune_prospect *t,
    const struct espl_offer *offer, uint32_t at)
{
	double begun = offer->number == at ? 0 : st->offers[offer->number].boot_s + t->away_s;

	return begun + t->steps * spottune_pace(st, t, offer);
}

/* Seconds to spare if it moved now to the fastest machine that cannot be interrupted; *pace: of a
 * step there.  INFINITY: there is no deadline, or no such machine. */
static double
find_slack(const struct spottune *st, const struct espl_alloc_view *view,
    struct spottune_prospect *t, double *pace)
{
	double fastest = INFINITY;

	*pace = 0;
	t->lost = isfinite(t->left_s);
	for (uint32_t i = 0; i < view->offer_count && isfinite(t->left_s); i++) {
		const struct espl_offer *offer = view->offers[i];
		double done;

		if ((offer->flags & ESPL_OFFER_GONE) != 0 || !spottune_fits(t->item, offer))
			continue;
		t->lost = t->lost && t->steps * spottune_pace(st, t, offer) > t->left_s;
		if ((offer->flags & ESPL_OFFER_REVOCABLE) != 0)
			continue;
		done = done_after(st, t, offer, ESPL_ANY);
		if (done < fastest) {
			fastest = done;
			*pace = spottune_pace(st, t, offer);
		}
	}
	return isfinite(fastest) ? t->left_s - fastest : INFINITY;
}

/* A step that may be interrupted: refunded, or lost time. */
double
spottune_cost(const struct spottune *st, const struct spottune_prospect *t,
    const struct espl_offer *offer)
{
	const struct spottune_offer *o = &st->offers[offer->number];
	double cost = spottune_step_cost(step_seconds(st, t, offer), o->p, o->price_hour);

	if (st->options.losses)
		cost *= 1 + o->rate_hour * (o->boot_s + t->away_s) / 3600;
	return cost;
}

/* What can be lost beside the step that is under way: if the notice is too short for that and a
 * save, or the trial cannot save, what it has trained since it saved or began there. */
double
spottune_unsaved(const struct spottune *st, const struct spottune_prospect *t,
    const struct espl_offer *offer)
{
	double step = step_seconds(st, t, offer);
	int saves = (t->item->flags & ESPL_ITEM_NO_SAVE) == 0;

	if (saves && step + t->save_s <= espl_seconds(offer->notice))
		return 0;
	return saves && t->every_s > 0 ? t->every_s + step + t->save_s
				       : t->steps * spottune_pace(st, t, offer);
}

/* A loss here must leave room for the fastest machine on demand, or to finish here. */
static double
loss_there(const struct spottune *st, const struct spottune_prospect *t,
    const struct espl_offer *offer)
{
	return st->offers[offer->number].boot_s + t->away_s + spottune_pace(st, t, offer) +
	    spottune_unsaved(st, t, offer);
}

/* Are machines on demand compared with the others? */
static int
may_rent(const struct spottune *st, const struct spottune_prospect *t)
{
	return st->options.on_demand == SPOTTUNE_COMPARE ||
	    (t->lost && st->options.on_demand != SPOTTUNE_NEVER);
}

/* Fills st->costs: NaN where it may not go.  late: only machines on demand will do. */
static uint32_t
fill_costs(struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, uint32_t at, double slack, int cool, int late)
{
	int some = 0;

	for (uint32_t i = 0; i < view->offer_count; i++) {
		const struct espl_offer *offer = view->offers[i];
		int spot = (offer->flags & ESPL_OFFER_REVOCABLE) != 0;
		double done = done_after(st, t, offer, at), loss = loss_there(st, t, offer);

		st->costs[i] = NAN;
		if (!spottune_fits(t->item, offer) || !spottune_available(st, view, i, at) ||
		    (cool && st->offers[i].cool_until > view->now && i != at) ||
		    (late ? spot : !spot && !may_rent(st, t)))
			continue;
		if (spot && !t->lost && isfinite(slack) && (slack < loss || done > t->left_s))
			continue;
		/* In time if that is possible, and then cheap; else fast, to the minute. */
		st->costs[i] = spottune_cost(st, t, offer);
		if (done + (spot && !isfinite(slack) ? loss : 0) > t->left_s)
			st->costs[i] += 1e9 * (1 + floor(done / 60));
		some = 1;
	}
	return some ? spottune_least(st->costs, view->offer_count) : UINT32_MAX;
}

/* When the slack will be used up if it trains on this machine, which is slower than the fastest;
 * until it trains, the slack shrinks as time goes by. */
static espl_time
slack_ends(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, const struct espl_offer *offer, uint32_t at, double slack,
    double pace)
{
	double step = spottune_pace(st, t, offer), after, idle = 0;

	if (!isfinite(slack) || t->lost || (offer->flags & ESPL_OFFER_REVOCABLE) == 0)
		return ESPL_NEVER;
	if (at != offer->number || (t->item->flags & ESPL_ITEM_RUNNING) == 0)
		idle = t->away_s + (at != offer->number ? st->offers[offer->number].boot_s : 0);
	after = slack - loss_there(st, t, offer);
	if (step > pace && after > idle)
		after = idle + (after - idle) / (1 - pace / step);
	return after < 1e9 ? view->now + (espl_time)((after > 1 ? after : 1) * 1e9) : ESPL_NEVER;
}

/* The offer whose steps cost least, of those that are safe enough (docs/spottune.md). */
static void
choose_by_rule(struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_prospect *t, uint32_t at, double slack, double pace,
    struct spottune_choice *c)
{
	uint32_t best = UINT32_MAX;

	if (st->options.on_demand == SPOTTUNE_NEVER)
		slack = INFINITY;
	for (int cool = 1; cool >= 0 && best == UINT32_MAX; cool--)
		best = fill_costs(st, view, t, at, slack, cool, 0);
	if (best == UINT32_MAX && st->options.on_demand != SPOTTUNE_NEVER)
		best = fill_costs(st, view, t, at, slack, 0, 1);
	if (best == UINT32_MAX)
		return;
	c->offer = best;
	c->cost = st->costs[best];
	if (at != ESPL_ANY)
		c->stays = st->costs[at];
	c->look = slack_ends(st, view, t, view->offers[best], at, slack, pace);
}

struct spottune_choice
spottune_choose(struct spottune *st, const struct espl_alloc_view *view, uint32_t i, uint32_t at)
{
	struct spottune_choice c = { .offer = ESPL_ANY,
		.stays = NAN,
		.look = ESPL_NEVER,
		.spare_s = NAN,
		.wait_s = NAN };
	const struct espl_item *item = view->items[i];
	struct spottune_prospect t = spottune_weigh(st, view, item);
	double pace, slack = find_slack(st, view, &t, &pace);

	ESPL_ASSERT(st->magic == SPOTTUNE_MAGIC && st->offer_count >= view->offer_count);
	for (uint32_t k = 0; k < view->offer_count; k++)
		c.fits += spottune_fits(item, view->offers[k]) &&
		    ((view->offers[k]->flags & ESPL_OFFER_REVOCABLE) != 0 ||
			st->options.on_demand != SPOTTUNE_NEVER);
	if (t.lost)
		spottune_warn_late(st, item, t.left_s);
	if (spottune_has_policy(st, view, item) && !t.lost)
		spottune_decide(st, view, &t, i, at, &c);
	else
		choose_by_rule(st, view, &t, at, slack, pace, &c);
	if (c.offer == ESPL_ANY)
		return c;
	c.step = spottune_cost(st, &t, view->offers[c.offer]);
	if (at != ESPL_ANY)
		c.moving = st->offers[c.offer].price_hour *
			(st->offers[c.offer].boot_s + t.away_s - t.save_s) +
		    st->offers[at].price_hour * t.save_s;
	return c;
}
