/* follow.c - see espalier/kit/follow.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include <espalier/kit/array.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/follow.h>

#define ESPL_FOLLOW_WAIT_LEAST 10.0 /* seconds that a stage's nodes are waited for, at least */
#define ESPL_FOLLOW_WAIT_MOST 600.0 /* and at most, however slow the offer is */

void
espl_follow_free(struct espl_follow *f)
{
	uint32_t i;

	for (i = 0; i < f->count; i++)
		free(f->at[i].items);
	free(f->at);
	free(f->ends);
	espl_roster_free(&f->roster);
	memset(f, 0, sizeof *f);
}

/* ---- items -------------------------------------------------------------------------------- */

static const struct espl_plan_stage *
espl_follow_row(const struct espl_plan *plan, uint32_t bracket, uint32_t stage)
{
	uint32_t i;

	for (i = 0; plan != NULL && i < plan->stage_count; i++)
		if (plan->stages[i]->bracket == bracket && plan->stages[i]->stage == stage)
			return plan->stages[i];
	return NULL;
}

static espl_status
espl_follow_room(struct espl_follow *f, uint32_t brackets)
{
	struct espl_follow_at *at;

	if (brackets <= f->count)
		return ESPL_OK;
	at = (struct espl_follow_at *)realloc(f->at, brackets * sizeof *at);
	if (at == NULL)
		return ESPL_E_NOMEM;
	memset(at + f->count, 0, (brackets - f->count) * sizeof *at);
	f->at = at;
	for (; f->count < brackets; f->count++) {
		at[f->count].ask_at = at[f->count].wait_until = ESPL_NEVER;
		at[f->count].lacks_since = at[f->count].short_since = ESPL_NEVER;
		at[f->count].stage = at[f->count].keep = ESPL_ANY;
	}
	return ESPL_OK;
}

static espl_status
espl_follow_item(struct espl_follow *f, const struct espl_item *item)
{
	struct espl_follow_at *at = &f->at[item->bracket];
	struct espl_followed *items;

	ESPL_ASSERT(item->bracket < f->count);
	if (at->stage != item->stage) { /* a stage begins: the one before is over */
		at->stage = item->stage;
		at->count = at->next = at->busy = at->begun = 0;
		at->row = NULL;
		at->ask_at = at->wait_until = at->short_since = ESPL_NEVER;
		at->keep = ESPL_ANY;
		at->strewn = at->said = 0;
	}
	items = (struct espl_followed *)espl_array_grow(at->items, &at->size, at->count + 1,
	    sizeof *items);
	if (items == NULL)
		return ESPL_E_NOMEM;
	at->items = items;
	/* espl_follow_gone searches by id. */
	ESPL_ASSERT(at->count == 0 || at->items[at->count - 1].id < item->id);
	at->items[at->count].id = item->id;
	at->items[at->count].gone = 0;
	at->items[at->count].granted = item->granted.gpus > 0;
	at->count++;
	at->active = 1;
	at->busy += at->items[at->count - 1].granted; /* it continues in its processes */
	at->strewn |= at->items[at->count - 1].granted;
	return ESPL_OK;
}

static void
espl_follow_gone(struct espl_follow *f, uint64_t id)
{
	uint32_t b;

	for (b = 0; b < f->count; b++) {
		struct espl_follow_at *at = &f->at[b];
		uint32_t low = 0, high = at->count;

		while (low < high) {
			uint32_t mid = low + (high - low) / 2;

			if (at->items[mid].id < id)
				low = mid + 1;
			else
				high = mid;
		}
		if (low == at->count || at->items[low].id != id || at->items[low].gone)
			continue;
		at->items[low].gone = 1;
		ESPL_ASSERT(at->busy >= at->items[low].granted);
		at->busy -= at->items[low].granted;
		return;
	}
}

static espl_status
espl_follow_changes(struct espl_follow *f, const struct espl_alloc_view *view,
    const struct espl_experiment *e)
{
	espl_status status = espl_follow_room(f, e->spec->bracket_count);
	uint64_t seen = f->seen;
	uint32_t i;

	ESPL_ASSERT(e->spec != NULL);
	for (i = 0; i < view->gone_count; i++)
		espl_follow_gone(f, view->gone[i]);
	/* new ones stand at the end of the list */
	for (i = view->item_count; i > 0 && view->items[i - 1]->id >= seen; i--)
		;
	for (; i < view->item_count && status == ESPL_OK; i++) {
		if (view->items[i]->bracket < f->count)
			status = espl_follow_item(f, view->items[i]);
		f->seen = view->items[i]->id + 1;
	}
	return status;
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* Brackets side by side have nodes of their own; else there is one row of stages, on nodes without
 * an owner. */
static int
espl_follow_beside(const struct espl_experiment *e)
{
	return (e->spec->flags & ESPL_SPEC_PARALLEL) != 0;
}

static uint64_t
espl_follow_owner(const struct espl_experiment *e, uint32_t bracket)
{
	return espl_follow_beside(e) ? ESPL_OWNER_BRACKET | bracket : ESPL_NONE;
}

/* Ready nodes that the running stage of bracket b can have. */
static uint32_t
espl_follow_share(const struct espl_follow *f, const struct espl_alloc_view *view,
    const struct espl_experiment *e, uint32_t b)
{
	const struct espl_plan_stage *row = f->at[b].row;
	uint32_t ready =
	    espl_hold_ready(view, row->offer, espl_follow_owner(e, b)) + f->at[b].claimed;

	ESPL_ASSERT(row != NULL && row->offer < view->offer_count);
	return ready < row->nodes ? ready : row->nodes;
}

/* Nodes that the running stage of a bracket needs of an offer, those asked for ahead included. */
static uint32_t
espl_follow_need(const struct espl_follow_at *at, uint32_t offer)
{
	if (at->row == NULL || !at->active || at->row->offer != offer)
		return 0;
	if (at->keep < at->row->nodes)
		return at->keep;
	return at->ahead > at->row->nodes ? at->ahead : at->row->nodes;
}

/* Has a bracket asked for nodes at an earlier instant, and there are none? */
static int
espl_follow_starves(struct espl_follow_at *at, const struct espl_alloc_view *view, uint32_t offer)
{
	uint32_t need = espl_follow_need(at, offer);

	if (need <= at->held)
		at->lacks_since = need > 0 ? ESPL_NEVER : at->lacks_since;
	else if (at->lacks_since > view->now)
		at->lacks_since = view->now;
	return need > at->held && at->lacks_since < view->now;
}

/* Each bracket takes the nodes requested for it, in order of the leases, which does not change the
 * result. Nodes that it does not need go to brackets whose nodes do not arrive, or are released.
 */
static espl_status
espl_follow_divide(struct espl_follow *f, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, const struct espl_experiment *e, uint32_t offer)
{
	espl_status status = ESPL_OK;
	uint32_t b, k, next = 0;

	for (b = 0; b < f->count && status == ESPL_OK; b++) {
		struct espl_follow_at *at = &f->at[b];
		uint32_t need = espl_follow_need(at, offer);

		at->held = espl_hold_count(view, offer, espl_follow_owner(e, b));
		if (at->row != NULL && at->row->offer == offer) {
			ESPL_ASSERT(at->freed <= at->held);
			at->held -= at->freed;
		}
		need = need > at->held ? need - at->held : 0;
		status =
		    espl_hold_claim(view, sink, offer, b, need, &next, &at->held, &at->claimed);
		(void)espl_follow_starves(at, view, offer);
	}
	for (b = 0; b < f->count && status == ESPL_OK; b++) {
		uint32_t need = espl_follow_need(&f->at[b], offer),
			 spare = f->at[b].held > need ? f->at[b].held - need : 0;

		for (k = 0; k < f->count && spare > 0 && status == ESPL_OK; k++) {
			uint32_t lacks = espl_follow_need(&f->at[k], offer) - f->at[k].held,
				 had = f->at[k].claimed;

			if (!espl_follow_starves(&f->at[k], view, offer))
				continue;
			status = espl_hold_pass_on(view, sink, offer, espl_follow_owner(e, b), k,
			    lacks < spare ? lacks : spare, &f->at[k].claimed);
			f->at[k].held += f->at[k].claimed - had;
			spare -= f->at[k].claimed - had;
		}
		if (status == ESPL_OK && spare > 0)
			status =
			    espl_hold_retire(view, sink, offer, espl_follow_owner(e, b), spare);
	}
	return status;
}

static espl_status
espl_follow_targets(struct espl_follow *f, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, const struct espl_experiment *e)
{
	espl_status status = ESPL_OK;
	uint32_t o, b, held, freed;

	for (o = 0; o < view->offer_count && status == ESPL_OK; o++) {
		struct espl_target target = ESPL_INIT(struct espl_target);
		uint64_t need = 0, spare = espl_follow_beside(e) ? 0 : espl_hold_spare(view, o),
			 most = view->offers[o]->nodes_max;

		for (b = 0, freed = 0; b < f->count; b++) {
			need += espl_follow_need(&f->at[b], o);
			freed +=
			    f->at[b].row != NULL && f->at[b].row->offer == o ? f->at[b].freed : 0;
		}
		target.offer = o;
		target.nodes = (uint32_t)(need == 0 ? 0
			: need + spare < most       ? need + spare
						    : most);
		if (target.nodes != view->targets[o])
			status = sink->target(sink, &target);
		if (status == ESPL_OK && espl_follow_beside(e)) {
			status = espl_follow_divide(f, view, sink, e, o);
		} else if (status == ESPL_OK && target.nodes != view->targets[o]) {
			held = espl_hold_count(view, o, ESPL_NONE);
			ESPL_ASSERT(freed <= held);
			held -= freed;
			if (held > target.nodes)
				status =
				    espl_hold_retire(view, sink, o, ESPL_NONE, held - target.nodes);
		}
	}
	return status;
}

/* Minimum number of nodes occupied by this many trials of a stage. */
static uint32_t
espl_follow_nodes(uint32_t trials, uint32_t each, uint32_t per_node)
{
	ESPL_ASSERT(each > 0 && per_node > 0);
	return each > per_node ? trials * (each / per_node)
			       : (trials + per_node / each - 1) / (per_node / each);
}

/* planning.release: once the last trial of the stage has its GPUs, empty nodes that the next stage
 * does not need are released; the forecast does the same (docs/model.md). A trial that returns
 * because its result was lost gets a node again. */
static espl_status
espl_follow_release(const struct espl_follow *f, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, const struct espl_experiment *e, uint32_t b)
{
	struct espl_follow_at *at = &f->at[b];
	const struct espl_plan_stage *row = at->row,
				     *next = espl_follow_row(e->plan, b, at->stage + 1);
	uint64_t owner = espl_follow_owner(e, b);
	uint32_t i, held, spare, need, gpus = view->offers[row->offer]->gpus, trials = at->busy;

	ESPL_ASSERT(row->offer < view->offer_count && at->next <= at->count);
	if (at->strewn || view->offers[row->offer]->billing == ESPL_BILL_FUNCTION)
		return ESPL_OK;
	for (i = at->next; i < at->count; i++)
		trials += !at->items[i].granted && !at->items[i].gone;
	need = espl_follow_nodes(trials, at->each, gpus);
	if (at->next < at->count || at->count < e->spec->brackets[b]->stages[at->stage]->trials) {
		at->keep = at->keep < need ? need : at->keep;
		return ESPL_OK;
	}
	if (next == NULL && !espl_follow_beside(e))
		next = espl_follow_row(e->plan, b + 1, 0);
	if (next != NULL && next->offer == row->offer && next->nodes > need)
		need = next->nodes;
	held = espl_hold_count(view, row->offer, owner);
	spare = espl_follow_beside(e) ? 0 : espl_hold_spare(view, row->offer);
	held = held > spare ? held - spare : 0;
	if (need < held) {
		at->freed = espl_hold_empty(view, row->offer, owner);
		at->freed = at->freed < held - need ? at->freed : held - need;
	}
	at->keep = held - at->freed > need ? held - at->freed : need;
	ESPL_ASSERT(at->freed <= held);
	return espl_hold_retire_empty(view, sink, row->offer, owner, at->freed);
}

/* ---- grants ------------------------------------------------------------------------------- */

/* Number of trials of a stage that can run at once on this many of its nodes. */
static uint32_t
espl_follow_slots(const struct espl_plan_stage *row, uint32_t each, const struct espl_item *item,
    uint32_t ready, uint32_t per_node)
{
	uint64_t slots = row->gpus / each, room;

	ESPL_ASSERT(each > 0);
	room = (item->flags & ESPL_ITEM_COLOCATE) != 0 ? espl_side_by_side(each, ready, per_node)
						       : (uint64_t)ready * per_node / each;
	return (uint32_t)(slots < room ? slots : room);
}

static espl_status
espl_follow_grant(struct espl_follow_at *at, uint32_t index, struct espl_alloc_sink *sink,
    uint32_t flags)
{
	struct espl_grant grant = ESPL_INIT(struct espl_grant);

	ESPL_ASSERT(index < at->count && !at->items[index].granted && !at->items[index].gone);
	ESPL_ASSERT(at->each > 0);
	grant.flags = flags;
	grant.item = at->items[index].id;
	grant.share.gpus = at->each;
	grant.share.packing = 1;
	grant.offer = at->row->offer;
	at->items[index].granted = 1;
	at->busy++;
	return sink->grant(sink, &grant);
}

/* In order of arrival; in a chain, trial k when trial k - slots is gone. */
static espl_status
espl_follow_serve(struct espl_follow_at *at, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, const struct espl_experiment *e, uint32_t ready)
{
	uint32_t chain = e->flags & ESPL_EXPERIMENT_CHAIN,
		 flags = espl_follow_beside(e) ? ESPL_GRANT_BRACKET : 0;
	const struct espl_offer *offer = view->offers[at->row->offer];
	espl_status status = ESPL_OK;
	uint32_t i, slots;

	ESPL_ASSERT(at->begun && at->row->offer < view->offer_count);
	if (at->next == at->count || view->item_count == 0)
		return ESPL_OK;
	slots = espl_follow_slots(at->row, at->each, view->items[view->item_count - 1], ready,
	    offer->gpus);
	for (i = at->next; i < at->count && at->busy < slots && status == ESPL_OK; i++) {
		if (chain && i >= slots && i - slots >= at->next && !at->items[i - slots].granted)
			break; /* nor can anybody after it */
		if (at->items[i].granted || at->items[i].gone ||
		    (chain && i >= slots && !at->items[i - slots].gone))
			continue;
		status = espl_follow_grant(at, i, sink, flags);
	}
	while (at->next < at->count && (at->items[at->next].granted || at->items[at->next].gone))
		at->next++;
	return status;
}

/* ---- beginning ---------------------------------------------------------------------------- */

/* How long nodes of an offer are waited for. */
static espl_span
espl_follow_patience(const struct espl_offer *offer)
{
	double wait = 2 * (espl_hold_longest(offer->provision) + espl_hold_longest(offer->init));

	ESPL_ASSERT(wait >= 0);
	wait = wait < ESPL_FOLLOW_WAIT_MOST ? wait : ESPL_FOLLOW_WAIT_MOST;
	wait = wait > ESPL_FOLLOW_WAIT_LEAST ? wait : ESPL_FOLLOW_WAIT_LEAST;
	return (espl_span)(wait * 1e9);
}

/* A stage's nodes are waited for: until when? */
static void
espl_follow_await(struct espl_follow_at *at, const struct espl_alloc_view *view)
{
	at->wait_until = view->now + espl_follow_patience(view->offers[at->row->offer]);
}

/* Have nodes been missing for a while that are not on their way either: refused, or not to be had?
 */
static int
espl_follow_is_short(const struct espl_follow_at *at, const struct espl_alloc_view *view,
    const struct espl_experiment *e, uint32_t b)
{
	return at->short_since != ESPL_NEVER &&
	    at->short_since + (espl_span)(ESPL_FOLLOW_WAIT_LEAST * 1e9) <= view->now &&
	    espl_hold_count(view, at->row->offer, espl_follow_owner(e, b)) + at->claimed <
	    at->row->nodes;
}

/* Nodes are missing that are not on their way, while others stand idle: from when on? */
static void
espl_follow_note_short(struct espl_follow_at *at, const struct espl_alloc_view *view,
    const struct espl_experiment *e, uint32_t b, uint32_t ready)
{
	uint32_t there =
	    espl_hold_count(view, at->row->offer, espl_follow_owner(e, b)) + at->claimed;

	if (there >= at->row->nodes || ready == 0)
		at->short_since = ESPL_NEVER;
	else if (at->short_since == ESPL_NEVER)
		at->short_since = view->now;
}

/* GPUs of a trial on the available nodes: the plan's, or as many as fit; 0: not even the minimum.
 */
static uint32_t
espl_follow_each(const struct espl_follow_at *at, const struct espl_alloc_view *view,
    uint32_t ready)
{
	const struct espl_item *item = view->items[view->item_count - 1];
	uint32_t per_node = view->offers[at->row->offer]->gpus, each = at->row->gpus_per_trial;

	ESPL_ASSERT(view->item_count > 0);
	if (each == 0)
		each = 1;
	if ((uint64_t)ready * per_node < each) {
		each = ready * per_node; /* whole nodes, or one */
		if (each < item->gpus_min)
			each = 0;
	}
	return each;
}

static uint32_t
espl_follow_ready(const struct espl_alloc_view *view)
{
	uint32_t i, ready = 0;

	for (i = 0; i < view->node_count; i++)
		ready += view->nodes[i]->state == ESPL_NODE_READY;
	return ready;
}

/* The same nodes would lead to the same plan. Once each offer has had its turn, the pauses between
 * two such answers double; a new node or a new stage resets them. */
static int
espl_follow_is_pausing(struct espl_follow_at *at, const struct espl_alloc_view *view)
{
	espl_span most = (espl_span)(ESPL_FOLLOW_WAIT_MOST * 1e9), pause;
	uint32_t ready = espl_follow_ready(view), rounds;

	ESPL_ASSERT(at->row != NULL && view->offer_count > 0);
	if (ready > at->said_ready)
		at->said = 0;
	at->said_ready = ready;
	if (at->said > 0 && view->now < at->say_at)
		return 1;
	pause = espl_follow_patience(view->offers[at->row->offer]);
	for (rounds = at->said / view->offer_count; rounds > 0 && pause < most; rounds--)
		pause *= 2;
	at->say_at = view->now + (pause < most ? pause : most);
	at->said++;
	return 0;
}

int
espl_follow_waits(struct espl_follow *f, const struct espl_alloc_view *view, uint32_t *offer)
{
	const struct espl_experiment *e = view->experiment_count == 1 ? view->experiments[0] : NULL;
	uint32_t b;

	for (b = 0; e != NULL && e->plan != NULL && f->plan == e->plan && b < f->count; b++) {
		struct espl_follow_at *at = &f->at[b];

		if (at->active && !at->begun && at->row != NULL &&
		    (at->wait_until <= view->now || espl_follow_is_short(at, view, e, b)) &&
		    !espl_follow_is_pausing(at, view)) {
			*offer = at->row->offer;
			return 1;
		}
	}
	return 0;
}

/* May the trials of a stage start on the `ready` nodes it can have?  Else there is a call when to
 * see. */
static espl_status
espl_follow_begin(struct espl_follow_at *at, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, const struct espl_experiment *e, uint32_t b, uint32_t ready)
{
	int late = espl_follow_is_short(at, view, e, b) || view->now >= at->wait_until;
	espl_time look;
	uint32_t colocate = view->items[view->item_count - 1]->flags & ESPL_ITEM_COLOCATE,
		 per_node = view->offers[at->row->offer]->gpus;

	at->each = espl_follow_each(at, view, ready);
	if (at->each > 0)
		at->strewn |= at->each > per_node ? at->each % per_node > 0
						  : colocate == 0 && per_node % at->each > 0;
	if (at->each > 0 && (late || ready == at->row->nodes)) {
		at->begun = 1;
		at->wait_until = at->short_since = ESPL_NEVER;
		return ESPL_OK;
	}
	if (view->now >= at->wait_until ||
	    at->wait_until == ESPL_NEVER) /* nothing to begin with yet */
		espl_follow_await(at, view);
	espl_follow_note_short(at, view, e, b, ready);
	look = at->wait_until;
	if (at->short_since != ESPL_NEVER &&
	    at->short_since + (espl_span)(ESPL_FOLLOW_WAIT_LEAST * 1e9) > view->now)
		look = at->short_since + (espl_span)(ESPL_FOLLOW_WAIT_LEAST * 1e9);
	return sink->wake_at(sink, look < at->wait_until ? look : at->wait_until);
}

/* ---- ahead of the next stage -------------------------------------------------------------- */

/* The stage's trials start: when must the next stage's nodes be requested to be ready when it ends?
 */
static void
espl_follow_look_ahead(struct espl_follow *f, struct espl_follow_at *at,
    const struct espl_alloc_view *view, const struct espl_experiment *e, uint32_t bracket)
{
	const struct espl_plan_stage *next = espl_follow_row(e->plan, bracket, at->stage + 1);
	double wait;
	uint32_t i;

	if (next == NULL && !espl_follow_beside(e))
		next = espl_follow_row(e->plan, bracket + 1, 0);
	if (f->asks == NULL || next == NULL || at->row == &at->instead ||
	    next->offer != at->row->offer || next->nodes <= at->row->nodes)
		return;
	for (i = 0; e->plan->stages[i] != at->row; i++)
		ESPL_ASSERT(i + 1 < e->plan->stage_count);
	wait = f->asks[i];
	at->ask_at = view->now + (wait > 0 ? (espl_span)(wait * 1e9) : 0);
	at->ahead = 0;
}

static espl_status
espl_follow_ahead(struct espl_follow *f, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, const struct espl_experiment *e)
{
	espl_status status = ESPL_OK;
	uint32_t b;

	for (b = 0; b < f->count && status == ESPL_OK; b++) {
		struct espl_follow_at *at = &f->at[b];
		const struct espl_plan_stage *next;

		if (at->ask_at == ESPL_NEVER)
			continue;
		if (at->ask_at > view->now) {
			status = sink->wake_at(sink, at->ask_at);
			continue;
		}
		at->ask_at = ESPL_NEVER;
		next = espl_follow_row(e->plan, b, at->stage + 1);
		if (next == NULL)
			next = espl_follow_row(e->plan, b + 1, 0);
		if (next != NULL)
			at->ahead = next->nodes;
	}
	return status;
}

/* ---- leaving the plan --------------------------------------------------------------------- */

/* What the plan in force predicts, once. */
static espl_status
espl_follow_expect(struct espl_follow *f, const struct espl_alloc_view *view,
    const struct espl_experiment *e)
{
	struct espl_prediction result = ESPL_INIT(struct espl_prediction);
	struct espl_predict how = ESPL_INIT(struct espl_predict);

	ESPL_ASSERT(e->plan != NULL);
	if (f->plan == e->plan || f->model == NULL)
		return ESPL_OK;
	free(f->ends);
	f->asks = NULL;
	f->ends = (double *)calloc(2 * ((size_t)e->plan->stage_count + 1), sizeof *f->ends);
	if (f->ends == NULL)
		return ESPL_E_NOMEM;
	f->asks = f->ends + e->plan->stage_count + 1;
	how.experiment = e->id;
	how.flags = ESPL_AFRESH | (f->plan != NULL ? ESPL_FROM_NOW : 0);
	how.stage_ends_s = f->ends;
	how.stage_asks_s = f->asks;
	if (f->model->predict(f->model, e->plan, &how, &result, NULL) != ESPL_OK) {
		free(f->ends);
		f->ends = f->asks = NULL;
	}
	f->plan = e->plan;
	f->sd_s = result.jct_sd_s;
	f->from = view->now;
	return ESPL_OK;
}

int
espl_follow_strays(struct espl_follow *f, const struct espl_alloc_view *view, uint32_t *bracket)
{
	const struct espl_experiment *e = view->experiment_count == 1 ? view->experiments[0] : NULL;
	const struct espl_item *last;
	double off, end;
	uint32_t i;

	if (e == NULL || e->plan == NULL || f->plan != e->plan || f->ends == NULL ||
	    view->item_count == 0)
		return 0;
	last = view->items[view->item_count - 1];
	if (last->id < f->strays_seen || last->bracket >= f->count || last->stage == 0 ||
	    f->at[last->bracket].row == NULL || f->at[last->bracket].stage == last->stage)
		return 0;
	f->strays_seen = last->id + 1;
	for (i = 0; i < e->plan->stage_count; i++)
		if (e->plan->stages[i]->bracket == last->bracket &&
		    e->plan->stages[i]->stage + 1 == last->stage)
			break;
	if (i == e->plan->stage_count)
		return 0;
	ESPL_ASSERT(view->now >= f->from);
	end = f->ends[i];
	off = espl_seconds(view->now - f->from) - end;
	*bracket = last->bracket;
	off = off < 0 ? -off : off;
	return off > 0.05 * end && off > 3 * f->sd_s;
}

espl_status
espl_follow_again(struct espl_follow *f, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink)
{
	espl_status status = espl_follow_changes(f, view, view->experiments[0]);

	ESPL_ASSERT(view->experiment_count == 1);
	return status == ESPL_OK ? sink->wake_at(sink, view->now) : status;
}

/* ---- the planned offer is gone -------------------------------------------------------------- */

/* GPUs of a trial on this offer, at most as many as planned if that is enough; 0: none fits. */
static uint32_t
espl_follow_width(const struct espl_offer *offer, const struct espl_item *item, uint32_t planned)
{
	uint64_t most = (uint64_t)offer->nodes_max * offer->gpus;
	uint32_t each;

	if (planned == 0)
		planned = 1;
	if (planned > most) /* the offer is a smaller one */
		planned = (uint32_t)most;
	each = planned > 0 ? espl_fit(item, offer->gpus, planned) : 0;
	if (each == 0)
		each = espl_least(item, offer->gpus);
	return most >= each ? each : 0;
}

/* The nodes that a bracket has, or may claim, of an offer that gives no more hold no trial. */
static int
espl_follow_is_stranded(const struct espl_follow_at *at, const struct espl_alloc_view *view,
    const struct espl_experiment *e, uint32_t b, uint32_t offer)
{
	const struct espl_item *item = view->items[view->item_count - 1];
	uint64_t owner = espl_follow_owner(e, b), nodes = espl_hold_count(view, offer, owner);
	uint32_t i;

	for (i = 0; i < at->count && at->items[i].gone; i++)
		;
	if (i == at->count || (view->offers[offer]->flags & ESPL_OFFER_GONE) == 0)
		return 0;
	if (owner != ESPL_NONE)
		nodes += espl_hold_count(view, offer, ESPL_NONE);
	return nodes * view->offers[offer]->gpus < (at->begun ? at->each : item->gpus_min);
}

/* The offer to go on with: one with nodes of the bracket's (*held is 1), else the first;
 * ESPL_ANY: none. */
static uint32_t
espl_follow_other(const struct espl_alloc_view *view, const struct espl_experiment *e, uint32_t b,
    uint32_t planned, int *held)
{
	const struct espl_item *item = view->items[view->item_count - 1];
	uint32_t o, each, first = ESPL_ANY;

	*held = 0;
	for (o = 0; o < view->offer_count; o++) {
		if ((view->offers[o]->flags & ESPL_OFFER_GONE) != 0 || view->offers[o]->gpus == 0)
			continue;
		each = espl_follow_width(view->offers[o], item, planned);
		if (each == 0 || each > e->gpus_limit)
			continue;
		*held = espl_hold_count(view, o, espl_follow_owner(e, b)) > 0;
		if (*held)
			return o;
		first = first == ESPL_ANY ? o : first;
	}
	return first;
}

/* The stage begins anew: each of its trials is granted again. */
static void
espl_follow_restart(struct espl_follow_at *at)
{
	uint32_t i;

	for (i = 0; i < at->count; i++)
		at->items[i].granted = 0;
	at->next = at->busy = at->begun = at->ahead = 0;
	at->ask_at = at->wait_until = at->short_since = ESPL_NEVER;
	at->keep = ESPL_ANY;
	at->strewn = 1;
}

/* About as many GPUs of another offer as the row has; its nodes are waited for anew. */
static void
espl_follow_replace(struct espl_follow_at *at, const struct espl_alloc_view *view,
    const struct espl_plan_stage *row, uint32_t other)
{
	const struct espl_offer *offer = view->offers[other];
	struct espl_plan_stage *instead = &at->instead;
	uint64_t nodes;

	*instead = *row;
	instead->offer = other;
	instead->max_price_hour = 0;
	instead->gpus_per_trial =
	    espl_follow_width(offer, view->items[view->item_count - 1], row->gpus_per_trial);
	if (instead->gpus < instead->gpus_per_trial)
		instead->gpus = instead->gpus_per_trial;
	nodes = ((uint64_t)instead->gpus + offer->gpus - 1) / offer->gpus;
	instead->nodes = (uint32_t)(nodes < offer->nodes_max ? nodes : offer->nodes_max);
	at->row = instead;
	at->planned = row;
	espl_follow_restart(at);
}

/* The row of the running stage: the plan's, or another one if its offer is gone. */
static void
espl_follow_pick(const struct espl_follow *f, struct espl_follow_at *at,
    const struct espl_alloc_view *view, const struct espl_experiment *e, uint32_t b)
{
	const struct espl_plan_stage *row = espl_follow_row(e->plan, b, at->stage);
	uint32_t other;
	int held;

	if (at->row != &at->instead || (at->planned != row && !at->begun))
		at->row = row;
	if (f->stays || at->row == NULL || !at->active || view->item_count == 0 ||
	    !espl_follow_is_stranded(at, view, e, b, at->row->offer))
		return;
	other = espl_follow_other(view, e, b, row->gpus_per_trial, &held);
	/* Nodes are waited for first: it may be back soon, or there is a better plan. */
	if (other != ESPL_ANY &&
	    (at->begun || at->busy > 0 || held || at->row == &at->instead ||
		at->wait_until <= view->now))
		espl_follow_replace(at, view, row, other);
}

/* ---- all together ------------------------------------------------------------------------- */

static espl_status
espl_follow_plan(struct espl_follow *f, const struct espl_alloc_view *view,
    struct espl_alloc_sink *sink, const struct espl_experiment *e)
{
	espl_status status = espl_follow_changes(f, view, e);
	uint32_t b;

	if (status == ESPL_OK)
		status = espl_follow_expect(f, view, e);
	for (b = 0; b < f->count; b++) {
		struct espl_follow_at *at = &f->at[b];

		if (at->count > 0)
			espl_follow_pick(f, at, view, e, b);
		/* In sequence a bracket has ended when the next one has begun. */
		if (!espl_follow_beside(e) && b > 0 && at->count > 0)
			f->at[b - 1].active = 0;
		if (espl_follow_beside(e) && b < e->standing_count &&
		    e->standing[b]->stage == e->spec->brackets[b]->stage_count &&
		    at->next == at->count && at->busy == 0)
			at->active = 0;
		if (!at->begun && at->row != NULL)
			at->ahead = 0;
		at->claimed = at->freed = 0;
		if (status == ESPL_OK && (e->flags & ESPL_EXPERIMENT_IDLE) != 0 && at->begun &&
		    at->row != NULL && at->active)
			status = espl_follow_release(f, view, sink, e, b);
	}
	if (status == ESPL_OK && (e->flags & ESPL_EXPERIMENT_AHEAD) != 0)
		status = espl_follow_ahead(f, view, sink, e);
	if (status == ESPL_OK)
		status = espl_follow_targets(f, view, sink, e);
	for (b = 0; b < f->count && status == ESPL_OK; b++) {
		struct espl_follow_at *at = &f->at[b];
		uint32_t ready, next;

		if (at->row == NULL || !at->active)
			continue;
		ready = espl_follow_share(f, view, e, b);
		if (!at->begun && view->item_count > 0) {
			status = espl_follow_begin(at, view, sink, e, b, ready);
			if (at->begun && (e->flags & ESPL_EXPERIMENT_AHEAD) != 0) {
				espl_follow_look_ahead(f, at, view, e, b);
				if (at->ask_at != ESPL_NEVER)
					status = sink->wake_at(sink,
					    at->ask_at > view->now ? at->ask_at : view->now);
			}
		}
		next = at->next;
		if (at->begun && status == ESPL_OK)
			status = espl_follow_serve(at, view, sink, e, ready);
		if (next < at->next && at->next == at->count && status == ESPL_OK &&
		    (e->flags & ESPL_EXPERIMENT_IDLE) != 0) /* what is idle when all are placed? */
			status = sink->wake_at(sink, view->now);
	}
	return status;
}

espl_status
espl_follow(struct espl_follow *f, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    uint32_t offer, struct espl_error *error)
{
	const struct espl_experiment *e = view->experiment_count == 1 ? view->experiments[0] : NULL;
	espl_status status;

	if (e != NULL && e->plan != NULL && e->spec != NULL)
		status = espl_follow_plan(f, view, sink, e);
	else if (offer < view->offer_count)
		status = espl_hold_least(&f->roster, view, sink, offer);
	else
		return ESPL_OK;
	return status == ESPL_OK
	    ? status
	    : espl_fail(error, status,
		  status == ESPL_E_NOMEM ? "out of memory"
					 : "the host rejected a grant or target of the plan");
}
