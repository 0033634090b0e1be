/* allocator_spottune.c - each trial alone on the machine on which its steps cost least, chosen
 * again every hour and after each interruption (SpotTune, ICDCS'20, Algorithm 1).
 *
 * What is held of an offer is what its trials need: one node for each, one more for each that moves
 * there, and nodes under notice, which are refunded only if the provider ends them.  A trial moves
 * in three steps: a node of the new offer is leased; when it is ready the trial is granted that
 * offer and its old node retires, all in one answer; it saves at its next iteration boundary.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "spottune.h"

#define REVIEW_AGAIN (5 * ESPL_SECOND) /* of a trial that was starting, or changing */
/* An offer whose machine has not come for this long, three mean boots aside, is avoided for as
 * long. */
#define WAIT_MOST (600 * ESPL_SECOND)

enum {
	MODE,
	REFUND,
	PREDICTOR,
	RATE,
	WINDOW,
	MAX_PRICE,
	MARGIN_MIN,
	MARGIN_MAX,
	MARGIN_RELATIVE,
	RENEW,
	REDEPLOY,
	LOSSES,
	HAZARD,
	HAZARD_HOURS,
	SWITCHING,
	COOLDOWN,
	ON_DEMAND,
	POLICY,
	WAIT,
	RETURNS
};

/* With policies other than `rule`, unless the user says otherwise: in the middle of what public
 * logs of capacity show. */
#define LOST_HOUR 0.3

#define BY_MODE "; default: by mode"
static const struct espl_option options[] = {
	[MODE] = { .name = "mode",
	    .help = "defaults of the options below: modern (spot markets of today) or paper",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "modern|paper",
	    .fallback = "modern" },
	[REFUND] = { .name = "refund",
	    .help = "count on the refund of machines interrupted in their first hour, if the offer "
		    "has one (Eq. 2)" BY_MODE " (modern: false, paper: true)",
	    .type = ESPL_OPT_BOOL },
	[PREDICTOR] = { .name = "predictor",
	    .help = "how to predict the chance of a refunded interruption" BY_MODE
		    " (modern: hazard, paper: empirical)",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "empirical|never|constant|hazard|adaptive" },
	[RATE] = { .name = "rate",
	    .help = "predictor constant: the probability",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0",
	    .min = "0",
	    .max = "1" },
	[WINDOW] = { .name = "window",
	    .help = "predictor empirical: length of the past that is used",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "48h",
	    .min = "1h",
	    .max = "10000h" },
	[MAX_PRICE] = { .name = "max_price",
	    .help = "maximum price of a machine in a market: the on-demand price, the current "
		    "price plus a random margin, the paper's Algorithm 2, or none" BY_MODE
		    " (modern: on_demand, paper: margin)",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "on_demand|margin|alg2|none" },
	[MARGIN_MIN] = { .name = "margin_min",
	    .help = "max_price margin: the smallest, in dollars per hour",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.00001",
	    .min = "0",
	    .max = "1000000" },
	[MARGIN_MAX] = { .name = "margin_max",
	    .help = "max_price margin: the largest, in dollars per hour",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.2",
	    .min = "0",
	    .max = "1000000" },
	[MARGIN_RELATIVE] = { .name = "margin_relative",
	    .help = "margins are fractions of the current price, not dollars",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false" },
	[RENEW] = { .name = "renew",
	    .help = "how long a trial stays on a machine before it chooses again",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "1h",
	    .min = "1s",
	    .max = "100000h" },
	[REDEPLOY] = { .name = "redeploy",
	    .help = "after `renew`, always take another machine, even of the same offer" BY_MODE
		    " (modern: false, paper: true)",
	    .type = ESPL_OPT_BOOL },
	[LOSSES] = { .name = "losses",
	    .help = "add the expected loss by interruptions, from the offer's hazard, to the cost "
		    "of a step" BY_MODE " (modern: true, paper: false)",
	    .type = ESPL_OPT_BOOL },
	[HAZARD] = { .name = "hazard",
	    .help = "interruptions per node-hour assumed for an offer about which little is known",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.05",
	    .min = "0.000001",
	    .max = "1000" },
	[HAZARD_HOURS] = { .name = "hazard_hours",
	    .help = "weight of the assumed hazard, in node-hours of observation",
	    .type = ESPL_OPT_REAL,
	    .fallback = "20",
	    .min = "0.001",
	    .max = "1000000" },
	[SWITCHING] = { .name = "switching",
	    .help = "move a running trial only if it saves more than the move costs" BY_MODE
		    " (modern: true, paper: false)",
	    .type = ESPL_OPT_BOOL },
	[COOLDOWN] = { .name = "cooldown",
	    .help = "how long an offer is avoided after an interruption, or if it is sold "
		    "out" BY_MODE " (modern: 10m, paper: 0s)",
	    .type = ESPL_OPT_SPAN,
	    .min = "0s",
	    .max = "100000h" },
	[ON_DEMAND] = { .name = "on_demand",
	    .help = "use of offers that cannot be interrupted: never, if the experiment's "
		    "deadline requires it (or nothing else fits), or whenever they are "
		    "cheaper" BY_MODE " (modern: deadline, paper: never)",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "never|deadline|compare" },
	[POLICY] = { .name = "policy",
	    .help = "on_demand deadline: when a machine on demand is taken: exact, where that is "
		    "expected to cost least; greedy, at the point of no return; uniform, behind "
		    "uniform progress; rule, when nothing else can be had, or one more "
		    "interruption would be too late" BY_MODE " (modern: exact, paper: rule)",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "exact|greedy|uniform|rule" },
	[WAIT] = { .name = "wait",
	    .help =
		"without a deadline: how long a trial waits for a machine that can be "
		"interrupted before it takes one on demand, with a warning (not with policy rule)",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "2h",
	    .min = "0s",
	    .max = "100000h" },
	[RETURNS] = { .name = "returns",
	    .help =
		"policy exact: returns of capacity per hour assumed for an offer that has none, "
		"with the weight of `hazard_hours`",
	    .type = ESPL_OPT_REAL,
	    .fallback = "0.6",
	    .min = "0.000001",
	    .max = "1000" },
};

/* ---- making and freeing --------------------------------------------------------------------- */

static void
destroy(void *self)
{
	struct spottune *st = self;

	ESPL_ASSERT(st != NULL && st->magic == SPOTTUNE_MAGIC);
	spottune_offers_free(st);
	spottune_forget(st, NULL);
	st->magic = 0;
	free(st->trials);
	free(st->before);
	free(st);
}

/* The user's value, or that of the mode. */
static int64_t
choose_value(const struct espl_config *config, uint32_t option, int64_t modern, int64_t paper)
{
	const struct espl_value *v = &config->values[option];

	return v->source != ESPL_UNSET                    ? v->as.i
	    : config->values[MODE].as.i == SPOTTUNE_PAPER ? paper
							  : modern;
}

static void
read_policy(struct spottune_options *o, const struct espl_config *c, const struct espl_host *host)
{
	int64_t modern = espl_follows(host, ESPL_RULES_DEADLINES) ? SPOTTUNE_EXACT : SPOTTUNE_RULE;

	o->policy = choose_value(c, POLICY, modern, SPOTTUNE_RULE);
	o->wait = c->values[WAIT].as.i;
	o->back_h = c->values[RETURNS].as.r;
	o->lost_h = c->values[HAZARD].source > ESPL_FALLBACK ? o->prior_rate : LOST_HOUR;
	o->asks_again = o->policy != SPOTTUNE_RULE && c->values[COOLDOWN].source == ESPL_UNSET;
}

static void
read_options(struct spottune_options *o, const struct espl_config *c)
{
	static const espl_predictor_kind kinds[] = { ESPL_PREDICT_EMPIRICAL, ESPL_PREDICT_NEVER,
		ESPL_PREDICT_CONSTANT, ESPL_PREDICT_HAZARD, ESPL_PREDICT_ADAPTIVE };

	o->refund = choose_value(c, REFUND, 0, 1) != 0;
	espl_predictor_defaults(&o->predictor, kinds[choose_value(c, PREDICTOR, 3, 0)]);
	o->predictor.rate = c->values[RATE].as.r;
	if (o->predictor.kind != ESPL_PREDICT_ADAPTIVE) /* it has a past of its own */
		o->predictor.window = c->values[WINDOW].as.i;
	o->max_price = choose_value(c, MAX_PRICE, SPOTTUNE_FIXED, SPOTTUNE_MARGIN);
	o->margin_min = c->values[MARGIN_MIN].as.r;
	o->margin_max = c->values[MARGIN_MAX].as.r;
	o->margin_relative = c->values[MARGIN_RELATIVE].as.i != 0;
	o->renew = c->values[RENEW].as.i;
	o->redeploy = choose_value(c, REDEPLOY, 0, 1) != 0;
	o->losses = choose_value(c, LOSSES, 1, 0) != 0;
	o->prior_rate = c->values[HAZARD].as.r;
	o->prior_hours = c->values[HAZARD_HOURS].as.r;
	o->moves = choose_value(c, SWITCHING, 1, 0) != 0;
	o->cooldown = choose_value(c, COOLDOWN, 600 * ESPL_SECOND, 0);
	o->on_demand = choose_value(c, ON_DEMAND, SPOTTUNE_DEADLINE, SPOTTUNE_NEVER);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct spottune *st = calloc(1, sizeof *st);

	if (st == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	st->magic = SPOTTUNE_MAGIC;
	st->without = ESPL_NEVER;
	st->host = host;
	st->model = host->service(host, ESPL_MODEL);
	st->market = host->service(host, ESPL_MARKET);
	read_options(&st->options, config);
	read_policy(&st->options, config, host);
	if (st->options.margin_max < st->options.margin_min) {
		destroy(st);
		return espl_blame(error, MARGIN_MAX, "margin_max is less than margin_min");
	}
	*self = st;
	return ESPL_OK;
}

/* ---- the trials ------------------------------------------------------------------------------ */

static int
compare_trials(const void *a, const void *b)
{
	const struct spottune_trial *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* One entry for each item, in the order of the view, what was known of it kept. */
static espl_status
sync_trials(struct spottune *st, const struct espl_alloc_view *view)
{
	struct spottune_trial *old = st->trials;
	uint32_t count = st->trial_count, room = st->trial_room;

	st->trials = st->before;
	st->trial_room = st->before_room;
	st->before = old;
	st->before_room = room;
	if (view->item_count > st->trial_room) {
		struct spottune_trial *more =
		    realloc(st->trials, view->item_count * 2 * sizeof *more);

		if (more == NULL)
			return ESPL_E_NOMEM;
		st->trials = more;
		st->trial_room = view->item_count * 2;
	}
	st->trial_count = view->item_count;
	if (count > 1)
		qsort(old, count, sizeof *old, compare_trials);
	for (uint32_t i = 0; i < view->item_count; i++) {
		struct spottune_trial key = { .id = view->items[i]->id,
			.node = ESPL_NONE,
			.offer =
			    view->items[i]->granted.gpus > 0 ? view->items[i]->offer : ESPL_ANY,
			.onto = ESPL_ANY,
			.review = ESPL_NEVER,
			.since = ESPL_NEVER,
			.past = { .begun = ESPL_NEVER, .waits = ESPL_NEVER, .sought = ESPL_ANY } };
		const struct spottune_trial *known =
		    count > 0 ? bsearch(&key, old, count, sizeof key, compare_trials) : NULL;

		if (known != NULL)
			key.past = known->past;
		st->trials[i] = known != NULL ? *known : key;
		if (view->items[i]->granted.gpus == 0)
			st->trials[i] = key;
	}
	return ESPL_OK;
}

static const struct espl_node *
find_node(const struct espl_alloc_view *view, uint64_t id)
{
	uint32_t low = 0, high = view->node_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (view->nodes[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < view->node_count && view->nodes[low]->id == id ? view->nodes[low] : NULL;
}

/* Nodes that the trials have and wait for.  A node of ours that is gone was interrupted. */
static void
count_wants(struct spottune *st, const struct espl_alloc_view *view)
{
	for (uint32_t i = 0; i < view->item_count; i++) {
		struct spottune_trial *t = &st->trials[i];
		const struct espl_item *item = view->items[i];
		struct spottune_offer *o = t->offer == ESPL_ANY ? NULL : &st->offers[t->offer];

		if (o == NULL)
			continue;
		o->want++;
		if (t->onto != ESPL_ANY)
			st->offers[t->onto].want++;
		if (t->node != ESPL_NONE && find_node(view, t->node) == NULL) {
			o->cool_until = view->now + st->cooldown;
			t->node = ESPL_NONE;
			t->awaited = 0;
		}
		if (item->node_count > 0) {
			t->since = ESPL_NEVER;
			continue;
		}
		if (t->since == ESPL_NEVER)
			t->since = view->now;
		o->waits++;
		if (o->spare == 0)
			continue;
		o->spare--;
		if (!t->awaited) /* it is placed after this call: its hour begins */
			st->wake_at = view->now;
		t->awaited = 1;
	}
}

/* Ended by the provider it is free. */
static int
will_be_refunded(const struct espl_alloc_view *view, const struct espl_node *n)
{
	espl_span before = view->offers[n->offer]->refund_before;

	return n->state == ESPL_NODE_NOTICE && before > 0 && n->billed_from != ESPL_NEVER &&
	    n->ends_at != ESPL_NEVER && n->ends_at - n->billed_from < before;
}

/* Nodes under notice end by themselves if that is free, else as soon as they are empty. */
static void
keep_notices(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink)
{
	for (uint32_t i = 0; i < view->node_count; i++) {
		const struct espl_node *n = view->nodes[i];

		if (n->state != ESPL_NODE_NOTICE || (n->flags & ESPL_NODE_RETIRING) != 0)
			continue;
		if (will_be_refunded(view, n))
			st->offers[n->offer].want++;
		else
			(void)sink->retire(sink, n->id);
	}
}

/* ---- one trial ------------------------------------------------------------------------------- */

/* "1h30m" */
static const char *
write_span(double seconds, char room[32])
{
	long minutes = seconds > 0 ? (long)fmin(seconds / 60, 1e8) : 0;

	if (minutes >= 60)
		(void)snprintf(room, 32, "%ldh%02ldm", minutes / 60, minutes % 60);
	else
		(void)snprintf(room, 32, "%ldm", minutes);
	return room;
}

static void
note_choice(const struct spottune *st, const struct espl_alloc_view *view,
    const struct espl_item *item, const struct spottune_choice *c, const char *what)
{
	const struct espl_offer *o = view->offers[c->offer];
	char text[400], spare[32], limit[32];
	int size;

	if (!st->host->verbose)
		return;
	size = snprintf(text, sizeof text, "%s '%s' (%s) at $%.6g per hour, a step for $%.6g", what,
	    o->name, o->market, st->offers[c->offer].price_hour, c->step / 3600);
	if (c->rents && !isnan(c->spare_s) && size > 0 && (size_t)size < sizeof text)
		size += snprintf(text + size, sizeof text - (size_t)size,
		    ", with %s to spare before the deadline", write_span(c->spare_s, spare));
	if (c->rents && !isnan(c->wait_s) && size > 0 && (size_t)size < sizeof text)
		(void)snprintf(text + size, sizeof text - (size_t)size,
		    "; it waits for spot while more than %s are to spare",
		    write_span(c->wait_s, limit));
	st->host->note(st->host, ESPL_ABOUT_ITEM, item->id, text);
}

/* It begins to wait for capacity. */
static void
note_wait(const struct spottune *st, const struct espl_item *item, const struct spottune_choice *c)
{
	char text[200], spare[32], limit[32];

	if (!st->host->verbose)
		return;
	if (isnan(c->spare_s))
		(void)snprintf(text, sizeof text,
		    "waits for spot: there is no deadline, and no machine that can be interrupted "
		    "is available");
	else
		(void)snprintf(text, sizeof text,
		    "waits for spot while more than %s are to spare (%s now)",
		    write_span(isnan(c->wait_s) ? 0 : c->wait_s, limit),
		    write_span(c->spare_s, spare));
	st->host->note(st->host, ESPL_ABOUT_ITEM, item->id, text);
}

/* The full price, although nothing has to be done by a certain time. */
static void
warn_full_price(const struct spottune *st, const struct espl_alloc_view *view, uint32_t i,
    const struct spottune_choice *c)
{
	char span[32];

	if (!c->rents || !isnan(c->spare_s) || st->trials[i].past.waits == ESPL_NEVER)
		return;
	espl_logf(st->host, ESPL_WARN,
	    "trial %llu takes a machine on demand ('%s') at $%.6g per hour: none that can be "
	    "interrupted was available for %s",
	    (unsigned long long)view->items[i]->trial, view->offers[c->offer]->name,
	    st->offers[c->offer].price_hour,
	    write_span(espl_seconds(view->now - st->trials[i].past.waits), span));
}

/* Called again when the choice may be another one. */
static void
look_again(struct spottune *st, const struct espl_alloc_view *view, const struct spottune_choice *c)
{
	if (c->look > view->now && c->look < st->wake_at)
		st->wake_at = c->look;
}

static espl_status
grant_offer(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i, uint32_t offer)
{
	struct espl_grant g = ESPL_INIT(struct espl_grant);
	struct spottune_trial *t = &st->trials[i];
	espl_status status;

	g.item = view->items[i]->id;
	g.share.gpus = view->offers[offer]->gpus;
	g.share.packing = 1;
	g.offer = offer;
	status = sink->grant(sink, &g);
	if (status == ESPL_OK) {
		t->offer = offer;
		t->onto = ESPL_ANY;
		t->node = ESPL_NONE;
		t->review = ESPL_NEVER;
		t->since = ESPL_NEVER;
		t->awaited = 0;
	}
	return status == ESPL_E_REJECTED ? ESPL_OK : status;
}

/* Has it waited for a machine of its offer for so long that the request may be in a queue for days?
 * If not, asks to be called when it will have. */
static int
is_late(struct spottune *st, const struct espl_alloc_view *view, const struct spottune_trial *t)
{
	espl_span boots = (espl_span)(3 * st->offers[t->offer].boot_s * 1e9);
	espl_time late = t->since + WAIT_MOST + boots;

	if (view->now >= late)
		return 1;
	if (late < st->wake_at)
		st->wake_at = late;
	return 0;
}

/* For a trial without a machine; how long it waits is noted and kept. */
static struct spottune_choice
choose_or_wait(struct spottune *st, const struct espl_alloc_view *view, uint32_t i)
{
	int waited = st->trials[i].past.waits != ESPL_NEVER;
	struct spottune_choice c = spottune_choose(st, view, i, ESPL_ANY);

	if (!waited && st->trials[i].past.waits != ESPL_NEVER)
		note_wait(st, view->items[i], &c);
	look_again(st, view, &c);
	return c;
}

/* It has no grant any more. */
static espl_status
drop_grant(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i)
{
	struct espl_grant g = ESPL_INIT(struct espl_grant);
	espl_status status;

	g.item = view->items[i]->id;
	g.share.packing = 1;
	g.offer = ESPL_ANY;
	status = sink->grant(sink, &g);
	if (status == ESPL_OK)
		st->trials[i].offer = ESPL_ANY;
	return status == ESPL_E_REJECTED ? ESPL_OK : status;
}

/* It has no machine: at the start, after an interruption, or because none can be leased. */
static espl_status
settle_trial(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i)
{
	struct spottune_trial *t = &st->trials[i];
	struct spottune_choice c;
	espl_status status = ESPL_OK;

	if (t->offer != ESPL_ANY) { /* chosen again as if it had no machine */
		st->offers[t->offer].want--;
		st->offers[t->offer].waits--;
		if (t->onto != ESPL_ANY)
			st->offers[t->onto].want--;
		t->onto = ESPL_ANY;
	}
	c = choose_or_wait(st, view, i);
	/* It waits with a request at the offer that it has, unless that has closed for good. */
	if (c.offer == ESPL_ANY && t->offer != ESPL_ANY &&
	    (view->offers[t->offer]->flags & ESPL_OFFER_GONE) != 0)
		return drop_grant(st, view, sink, i);
	if (c.offer == ESPL_ANY)
		c.offer = t->offer;
	if (c.offer == ESPL_ANY)
		return ESPL_OK;
	st->offers[c.offer].want++;
	st->offers[c.offer].waits++;
	if (c.offer != t->offer) {
		note_choice(st, view, view->items[i], &c, "takes");
		warn_full_price(st, view, i, &c);
		status = grant_offer(st, view, sink, i, c.offer);
	}
	t->since = view->now;
	if (t->offer != ESPL_ANY) /* the grant was not rejected */
		(void)is_late(st, view, t);
	return status;
}

/* Its node is under notice: to the machine that is on its way, or to another one. */
static espl_status
leave_node(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i)
{
	struct spottune_trial *t = &st->trials[i];
	uint32_t onto = t->onto;

	t->node = ESPL_NONE;
	t->awaited = 0;
	if (onto == ESPL_ANY) {
		st->offers[t->offer].waits++;
		return settle_trial(st, view, sink, i);
	}
	st->offers[t->offer].want--;
	st->offers[onto].waits++;
	return grant_offer(st, view, sink, i, onto);
}

/* The machine that it moves to is ready: both change hands in this answer. */
static espl_status
go_over(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i)
{
	struct spottune_trial *t = &st->trials[i];
	uint32_t onto = t->onto;

	st->offers[onto].spare--;
	st->offers[t->offer].want--;
	(void)sink->retire(sink, t->node);
	return grant_offer(st, view, sink, i, onto);
}

/* It gives up its machine on demand and waits. */
static espl_status
release_trial(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i, const struct spottune_choice *c)
{
	struct spottune_trial *t = &st->trials[i];
	uint32_t from = t->offer;
	espl_status status = drop_grant(st, view, sink, i);

	if (status != ESPL_OK || t->offer != ESPL_ANY)
		return status;
	st->offers[from].want--;
	t->past.waits = view->now;
	note_wait(st, view->items[i], c);
	return ESPL_OK;
}

/* Time to choose again: it stays, or a machine is leased to move to. */
static espl_status
review_trial(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i)
{
	struct spottune_trial *t = &st->trials[i];
	const struct espl_item *item = view->items[i];
	struct spottune_choice c = spottune_choose(st, view, i, t->offer);
	double gain =
	    isnan(c.stays) ? INFINITY : (c.stays - c.cost) * (double)item->iterations_left;
	int goes = c.offer != ESPL_ANY &&
	    (st->options.redeploy ||
		(c.offer != t->offer && (st->options.moves ? gain > c.moving : gain > 0)));

	t->review = view->now + st->options.renew;
	if (c.look < t->review && c.look > view->now)
		t->review = c.look;
	if (c.leaves)
		return release_trial(st, view, sink, i, &c);
	if (!goes || (c.offer == t->offer && !isnan(c.stays) && !st->options.redeploy))
		return ESPL_OK;
	t->onto = c.offer;
	st->offers[c.offer].want++;
	if (t->past.sought != c.offer) /* once, however often it is refused */
		note_choice(st, view, item, &c, "moves to");
	if (spottune_has_policy(st, view, item))
		t->past.sought = c.offer;
	return ESPL_OK;
}

/* On demand, a policy looks at every call whether there is capacity again. */
static int
is_watching(const struct spottune *st, const struct espl_alloc_view *view,
    const struct spottune_trial *t, const struct espl_item *item)
{
	return (view->offers[t->offer]->flags & ESPL_OFFER_REVOCABLE) == 0 &&
	    !st->options.redeploy && spottune_has_policy(st, view, item);
}

/* A running trial.  The hour counts from when its machine is paid for. */
static espl_status
watch_trial(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i)
{
	struct spottune_trial *t = &st->trials[i];
	const struct espl_item *item = view->items[i];
	const struct espl_node *n = find_node(view, item->nodes[0]);
	espl_status status = ESPL_OK;

	if (n == NULL || n->offer != t->offer)
		return ESPL_OK; /* it has yet to leave its old place */
	if (n->state == ESPL_NODE_NOTICE)
		return leave_node(st, view, sink, i);
	if (t->node != n->id) {
		espl_time from = n->billed_from != ESPL_NEVER ? n->billed_from : view->now;
		struct spottune_choice c = spottune_choose(st, view, i, t->offer);

		t->past.waits = ESPL_NEVER;
		t->past.sought = ESPL_ANY;
		t->node = n->id;
		t->review = from + st->options.renew + 1;
		if (isnan(c.stays)) /* the deadline has come too close for this offer */
			t->review = view->now;
		else if (c.look < t->review && c.look > view->now)
			t->review = c.look;
	}
	if (t->onto != ESPL_ANY && st->offers[t->onto].spare > 0)
		return go_over(st, view, sink, i);
	if (t->onto != ESPL_ANY && st->offers[t->onto].live < view->targets[t->onto]) {
		st->offers[t->onto].cool_until = view->now + st->cooldown;
		st->offers[t->onto].want--; /* sold out: it stays for now */
		t->onto = ESPL_ANY;
		t->review = view->now;
	}
	if ((view->now >= t->review || is_watching(st, view, t, item)) && t->onto == ESPL_ANY &&
	    (item->flags & ESPL_ITEM_NO_SAVE) == 0) {
		if ((item->flags & (ESPL_ITEM_RUNNING | ESPL_ITEM_CHANGING)) == ESPL_ITEM_RUNNING)
			status = review_trial(st, view, sink, i);
		else /* no call comes when it runs */
			t->review = view->now + REVIEW_AGAIN;
	}
	if (status == ESPL_OK && t->offer != ESPL_ANY && t->onto == ESPL_ANY &&
	    t->review > view->now && t->review < st->wake_at)
		st->wake_at = t->review;
	return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static uint64_t
gpus_allowed(const struct espl_alloc_view *view)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < view->experiment_count; i++) {
		if (view->experiments[i]->gpus_limit == ESPL_ANY)
			return UINT64_MAX;
		sum += view->experiments[i]->gpus_limit;
	}
	return view->experiment_count > 0 ? sum : UINT64_MAX;
}

static espl_status
send_targets(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink)
{
	for (uint32_t i = 0; i < view->offer_count; i++) {
		struct spottune_offer *o = &st->offers[i];
		struct espl_target t = ESPL_INIT(struct espl_target);
		espl_status status;

		t.offer = i;
		t.nodes =
		    o->want < view->offers[i]->nodes_max ? o->want : view->offers[i]->nodes_max;
		t.max_price_hour = o->most;
		if (t.nodes == view->targets[i] && (o->waits == 0 || o->most == o->sent))
			continue;
		status = sink->target(sink, &t);
		if (status != ESPL_OK)
			return status;
		o->sent = o->most;
	}
	return ESPL_OK;
}

/* Does no offer, now or ever, have machines that this trial can take? */
static espl_status
refuse_misfit(const struct spottune *st, const struct espl_item *item, struct espl_error *error)
{
	return espl_fail(error, ESPL_E_CONFIG,
	    "a trial has a machine to itself, but no offer%s has machines with %u to %u GPUs",
	    st->options.on_demand == SPOTTUNE_NEVER ? " that can be interrupted" : "",
	    item->gpus_min, item->gpus_max);
}

/* Its request only queues, and the slack is used up. */
static int
must_rent(struct spottune *st, const struct espl_alloc_view *view, uint32_t i)
{
	struct spottune_trial *t = &st->trials[i];
	espl_span boots = (espl_span)(2 * st->offers[t->offer].boot_s * 1e9);
	struct spottune_choice c;

	if (!spottune_has_policy(st, view, view->items[i]) ||
	    (view->offers[t->offer]->flags & ESPL_OFFER_REVOCABLE) == 0 ||
	    view->now - t->since <= boots + 60 * ESPL_SECOND)
		return 0;
	c = spottune_choose(st, view, i, ESPL_ANY);
	look_again(st, view, &c);
	return c.rents;
}

/* A trial that has no machine: its offer is asked for one, unless none can come, or none has come
 * for long. */
static espl_status
await_machine(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t i)
{
	struct spottune_trial *t = &st->trials[i];
	struct spottune_offer *o = &st->offers[t->offer];
	espl_span pause = st->cooldown;

	if (o->live >= view->targets[t->offer] &&
	    (view->offers[t->offer]->flags & ESPL_OFFER_GONE) == 0) {
		if (!is_late(st, view, t) && !must_rent(st, view, i))
			return ESPL_OK;
		if (pause < WAIT_MOST)
			pause = WAIT_MOST;
	}
	o->cool_until = view->now + pause;
	return settle_trial(st, view, sink, i);
}

static espl_status
serve_trials(struct spottune *st, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	uint64_t room = gpus_allowed(view), used = 0;
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; i < view->item_count; i++)
		used += view->items[i]->granted.gpus;
	for (uint32_t i = 0; i < view->item_count && status == ESPL_OK; i++) {
		const struct espl_item *item = view->items[i];
		struct spottune_trial *t = &st->trials[i];

		if (t->offer == ESPL_ANY) {
			struct spottune_choice c = choose_or_wait(st, view, i);

			if (c.fits == 0)
				return refuse_misfit(st, item, error);
			if (c.offer == ESPL_ANY || used + view->offers[c.offer]->gpus > room)
				continue;
			used += view->offers[c.offer]->gpus;
			status = settle_trial(st, view, sink, i);
		} else if (item->node_count > 0) {
			status = watch_trial(st, view, sink, i);
		} else {
			status = await_machine(st, view, sink, i);
		}
	}
	return status;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct spottune *st = self;
	espl_status status;

	ESPL_ASSERT(st != NULL && st->magic == SPOTTUNE_MAGIC);
	st->wake_at = ESPL_NEVER;
	st->failed = 0;
	spottune_forget(st, view);
	status = sync_trials(st, view);
	if (status == ESPL_OK)
		status = spottune_look(st, view);
	if (status != ESPL_OK)
		return espl_fail(error, status, "out of memory");
	count_wants(st, view);
	keep_notices(st, view, sink);
	status = serve_trials(st, view, sink, error);
	if (status == ESPL_OK && st->failed)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	if (status == ESPL_OK)
		status = send_targets(st, view, sink);
	if (status == ESPL_OK && st->wake_at != ESPL_NEVER)
		status = sink->wake_at(sink, st->wake_at);
	return status;
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
};

ESPL_PLUGIN(allocator, spottune) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "spottune"),
	.version = "0.1",
	.summary = "each trial on the machine whose steps cost least, chosen again every hour",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
