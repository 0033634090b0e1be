/* cluster_leases.c - leasing nodes up to the targets, and pausing or giving up an offer whose
 * leases fail. */
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/cluster_health.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"

#define EXPECTED_MOST 10.0 /* seconds for which policies count on a mere request */
#define PAUSE_REFUSED (30 * ESPL_SECOND)
#define PAUSE_FAILED (5 * ESPL_SECOND)
#define PAUSE_MOST (600 * ESPL_SECOND)
#define RETRY_MOST (86400 * ESPL_SECOND)       /* what a provider may ask for */
#define REFUSED_MOST (3 * 86400 * ESPL_SECOND) /* without a single node, or anything saved */
#define INTERRUPTED_MOST 20u                   /* nodes in vain, by then */
#define REFUSING_NAMED 3u                      /* offers that the end of a run names */

static struct espl__offer_record *
record_of(struct espl__exec *x, uint32_t offer)
{
	while (x->cluster.record_count <= offer) {
		ESPL__GROW(x->cluster.records, x->cluster.record_cap, x->cluster.record_count + 1);
		x->cluster.records[x->cluster.record_count++] =
		    (struct espl__offer_record){ .retry_at = ESPL_NEVER,
			    .not_before = ESPL_NEVER,
			    .refused_since = ESPL_NEVER,
			    .failing_since = ESPL_NEVER,
			    .suspect = ESPL_NONE };
	}
	return &x->cluster.records[offer];
}

espl_time
espl__lease_retry_at(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->cluster.record_count; i++)
		if (x->cluster.records[i].retry_at < at)
			at = x->cluster.records[i].retry_at;
	return at;
}

/* ---- what became of leases ---------------------------------------------------------------- */

void
espl__lease_state(struct espl__exec *x, struct espl__machine *n, espl_node_state state,
    uint32_t gpus)
{
	struct espl__offer_record *r = record_of(x, n->pub.offer);

	ESPL__CHECK(n, MACHINE);
	espl__ledger_state(x->ledger, n->pub.id, state, x->now);
	if (state == ESPL_NODE_READY) {
		n->pub.ready_at = x->now;
		r->answered = 1;
	}
	if (state == ESPL_NODE_READY && n->pub.id >= r->last_refused) { /* else asked for before */
		r->refused = 0;
		r->refused_since = ESPL_NEVER;
	}
	espl__machine_state(&x->fleet, n, state, gpus);
	n->since = x->now;
	espl__cluster_clock(x);
	if (x->fleet.placeable_count > x->cluster.nodes_peak)
		x->cluster.nodes_peak = x->fleet.placeable_count;
}

void
espl__lease_proved(struct espl__exec *x, struct espl__machine *n)
{
	struct espl__offer_record *r = record_of(x, n->pub.offer);

	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(n, MACHINE);
	/* Where machines have names, one that works says nothing about the next that is leased
	 * unless it is new: a bad one that comes back again and again is paused for longer. */
	if (!n->proved || n->machine == NULL) {
		r->failed = r->lost = 0;
		r->failing_since = ESPL_NEVER;
	}
	n->proved = 1;
	espl__cluster_works(x, n);
}

void
espl__lease_retry(struct espl__exec *x, uint64_t lease, espl_span after)
{
	const struct espl__machine *n = espl__machine_at(&x->fleet, lease);

	ESPL__CHECK(x, EXEC);
	if (n != NULL && after > 0)
		record_of(x, n->pub.offer)->not_before =
		    x->now + (after < RETRY_MOST ? after : RETRY_MOST);
}

/* Leases that were asked for together count once. */
static void
pause_after(const struct espl__exec *x, struct espl__offer_record *r, espl_span pause,
    uint32_t *times)
{
	int paused = r->retry_at != ESPL_NEVER && r->retry_at > x->now;

	if (r->closed) /* by another lease that ended in this round */
		return;
	*times += !paused;
	for (uint32_t i = 1; i < *times && pause < PAUSE_MOST; i++)
		pause *= 2;
	if (r->not_before != ESPL_NEVER)
		r->retry_at = r->not_before;
	else if (!paused)
		r->retry_at = x->now + (pause < PAUSE_MOST ? pause : PAUSE_MOST);
	r->not_before = ESPL_NEVER;
}

/* `pausing`: those count, too. */
static int
offers_are_left(const struct espl__exec *x, int pausing)
{
	for (uint32_t i = 0; i < x->fleet.offer_count; i++)
		if (!espl__cluster_is_unwanted(x, i) &&
		    ((x->fleet.offers[i]->flags & ESPL_OFFER_GONE) == 0 ||
			(pausing && i < x->cluster.record_count && x->cluster.records[i].hidden)))
			return 1;
	return 0;
}

/* No node is leased, and no offer is left to lease from. */
static int
is_last(const struct espl__exec *x)
{
	return !offers_are_left(x, 1) && x->fleet.live_count == 0;
}

void
espl__lease_show_offers(struct espl__exec *x)
{
	int all = !offers_are_left(x, 0);

	for (uint32_t i = 0; i < x->cluster.record_count; i++) {
		struct espl__offer_record *r = &x->cluster.records[i];

		if (!r->hidden || (!all && r->retry_at != ESPL_NEVER && r->retry_at > x->now))
			continue;
		r->hidden = 0;
		x->fleet.offers[i]->flags &= ~ESPL_OFFER_GONE;
		x->cluster.offers_changed = 1;
	}
}

/* The offer gives no more nodes for now: it is closed, pauses, or has reached its limit.  Nodes
 * being released still count against that. */
static int
is_exhausted(struct espl__exec *x, uint32_t offer)
{
	const struct espl__offer_record *r = record_of(x, offer);
	uint32_t most = x->fleet.offers[offer]->nodes_max;

	return r->closed || (r->retry_at != ESPL_NEVER && x->now < r->retry_at) ||
	    (most != ESPL_ANY && espl__fleet_leased(&x->fleet, offer) >= most);
}

/* Does an equal offer give nodes now? */
static int
has_source(struct espl__exec *x, uint32_t offer)
{
	for (uint32_t s = 0; s < x->fleet.offer_count; s++)
		if (espl__cluster_is_source(x, offer, s) && !is_exhausted(x, s) &&
		    (x->fleet.offers[s]->flags & ESPL_OFFER_GONE) == 0)
			return 1;
	return 0;
}

/* While an offer pauses, policies see the others, if any are left. */
static void
hide_offer(struct espl__exec *x, uint32_t offer, struct espl__offer_record *r)
{
	uint32_t *flags = &x->fleet.offers[offer]->flags;

	if (espl__cluster_pools(x) && has_source(x, offer))
		return; /* its target is met from there */
	if ((*flags & ESPL_OFFER_GONE) != 0 || r->retry_at == ESPL_NEVER || r->retry_at <= x->now)
		return;
	*flags |= ESPL_OFFER_GONE;
	r->hidden = (uint8_t)offers_are_left(x, 0);
	if (!r->hidden) {
		*flags &= ~ESPL_OFFER_GONE;
		return;
	}
	x->fleet.targets[offer] = espl__fleet_nodes(&x->fleet, offer, 0);
	x->cluster.offers_changed = 1;
}

/* No policy asks for nodes of an offer that it does not see: those that end are not replaced. */
static void
forget_target(struct espl__exec *x, uint32_t offer)
{
	uint32_t held = espl__fleet_nodes(&x->fleet, offer, 0);

	if ((x->fleet.offers[offer]->flags & ESPL_OFFER_GONE) != 0 &&
	    x->fleet.targets[offer] > held)
		x->fleet.targets[offer] = held;
}

static void
close_offer(struct espl__exec *x, uint32_t offer, struct espl__offer_record *r, int refused)
{
	const char *name = x->fleet.offers[offer]->name;
	char *text;
	int last;

	r->closed = 1;
	r->retry_at = ESPL_NEVER;
	r->hidden = 0;
	x->fleet.offers[offer]->flags |= ESPL_OFFER_GONE;
	x->fleet.targets[offer] = espl__fleet_nodes(&x->fleet, offer, 0);
	x->cluster.offers_changed = 1;
	espl__cluster_own_up(x, offer);
	last = is_last(x);
	espl__lease_show_offers(x);
	text = refused || r->lost == 0
	    ? espl__strdup(r->reason)
	    : espl__format("%u node%s of offer '%s' in a row failed before any trial on "
			   "them reported: %s",
		  (unsigned)r->lost, r->lost == 1 ? "" : "s", name, r->reason);
	if (last)
		espl__exec_interrupt(x, "%s", text);
	else
		espl__exec_warn(x, ESPL_ABOUT_OFFER, offer, "offer '%s' is disabled: %s", name,
		    text);
	free(text);
}

/* The provider has delivered a machine; a request alone may stay open without limit. */
static int
something_is_provided(const struct espl__exec *x)
{
	if (!espl__exec_follows(x, ESPL__RULES_SUPPLY))
		return x->fleet.live_count > 0;
	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->state > ESPL_NODE_REQUESTED)
			return 1;
	return 0;
}

/* "offer 'a'", "offers 'a' and 'b'": those that have been asked in vain. */
static char *
name_refusing(const struct espl__exec *x)
{
	char *text = espl__strdup(""), *longer;
	uint32_t count = 0, named = 0;

	for (uint32_t i = 0; i < x->cluster.record_count; i++)
		count += x->cluster.records[i].refused > 0;
	for (uint32_t i = 0; i < x->cluster.record_count && named < REFUSING_NAMED; i++) {
		if (x->cluster.records[i].refused == 0)
			continue;
		longer = espl__format("%s%s'%s'", text,
		    named == 0                                          ? ""
			: named + 1 == count && count <= REFUSING_NAMED ? " and "
									: ", ",
		    x->fleet.offers[i]->name);
		free(text);
		text = longer;
		named++;
	}
	longer = count > named ? espl__format("offers %s and %u others", text, count - named)
			       : espl__format("offer%s %s", count == 1 ? "" : "s", text);
	free(text);
	return longer;
}

static void
count_refusal(struct espl__exec *x, const struct espl__machine *n, struct espl__offer_record *r,
    const char *why)
{
	char *offers;

	/* Count only the time during which no offer has provided a machine. */
	if (r->refused == 0 ||
	    (espl__exec_follows(x, ESPL__RULES_MARKET) && something_is_provided(x)))
		r->refused_since = x->now;
	r->last_refused = n->pub.id;
	pause_after(x, r, PAUSE_REFUSED, &r->refused);
	if (something_is_provided(x) || x->now - r->refused_since <= REFUSED_MOST)
		return;
	offers = name_refusing(x);
	espl__exec_interrupt(x, "the cloud has not provided a node of %s for %d days%s%s%s", offers,
	    (int)((x->now - r->refused_since) / ESPL_SECOND / 86400),
	    why[0] != '\0' ? " (the last answer: " : "", why, why[0] != '\0' ? ")" : "");
	free(offers);
}

/* Money in vain, unless a gang that ran before the first of these nodes ended still does. */
static void
count_interruption(struct espl__exec *x)
{
	struct espl__cluster *c = &x->cluster;

	if (c->interrupted++ == 0)
		c->interrupted_since = x->now, c->interrupted_gang = x->gangs.next;
	if (c->interrupted > INTERRUPTED_MOST && x->now - c->interrupted_since > REFUSED_MOST &&
	    (x->gangs.first == NULL || x->gangs.first->id >= c->interrupted_gang))
		espl__exec_interrupt(x,
		    "for %d days the provider has interrupted nodes, %u of them, and no trial has "
		    "saved a checkpoint or ended",
		    (int)(REFUSED_MOST / ESPL_SECOND / 86400), (unsigned)c->interrupted);
}

/* Trials run on a machine of the offer. */
static int
is_working(const struct espl__exec *x, uint32_t offer)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		if (n->pub.offer == offer && n->proved &&
		    (n->pub.flags & (ESPL_NODE_QUARANTINED | ESPL_NODE_RETIRING)) == 0)
			return 1;
	}
	return 0;
}

/* The same for every machine of the offer: enough tries in a row have failed, and while one of its
 * machines works, on as many different ones. */
static int
is_hopeless(const struct espl__exec *x, uint32_t offer, const struct espl__offer_record *r)
{
	return r->failed >= x->config->give_up &&
	    (!is_working(x, offer) ||
		espl__health_failed_since(&x->cluster.health, offer, r->failing_since) >=
		    x->config->give_up);
}

/* ---- requests that only queue --------------------------------------------------------------- */

/* All requests of the offer, as if the provider had said that it has none: the offer pauses, and
 * policies see the others. */
static void
withdraw_requests(struct espl__exec *x, const struct espl__machine *first)
{
	uint32_t offer = first->pub.offer, count = 0;
	struct espl__offer_record *r = record_of(x, offer);
	char span[32];

	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);

		if (n->pub.offer != offer || (n->pub.flags & ESPL_NODE_RETIRING) != 0)
			continue;
		count++;
		n->withdrawn = 1;
		espl__machine_flag(&x->fleet, n, ESPL_NODE_RETIRING, 0);
		espl__cluster_show_node(x, n, "its request is withdrawn");
	}
	espl__exec_warn(x, ESPL_ABOUT_OFFER, offer,
	    "requests for %u node%s of offer '%s' have waited for %s and are withdrawn, because "
	    "another offer may have machines",
	    (unsigned)count, count == 1 ? "" : "s", x->fleet.offers[offer]->name,
	    espl__format_short(x->now - first->since, span));
	r->not_before = x->now + 2 * (x->now - first->since); /* planners wait for it first, too */
	count_refusal(x, first, r, "");
	x->cluster.dirty = 1;
}

/* Its machine was to be avoided, so the cloud has no other at present: while one works there is no
 * hurry. */
static void
wait_for_another(struct espl__exec *x, const struct espl__machine *n, struct espl__offer_record *r)
{
	espl_time until = espl__cluster_avoided_until(x, n);

	if (n->avoided && !r->closed && is_working(x, n->pub.offer) && until != ESPL_NEVER &&
	    until > r->retry_at)
		r->retry_at = until;
}

int
espl__lease_replaces(const struct espl__exec *x, const struct espl__machine *n)
{
	uint64_t nodes = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->fleet.offer_count; i++)
		if ((x->fleet.offers[i]->flags & ESPL_OFFER_GONE) == 0)
			nodes += x->fleet.offers[i]->nodes_max;
	return n->machine != NULL || nodes > 1;
}

/* As far as is known, another machine can be leased. */
static int
others_can_be_had(const struct espl__exec *x, const struct espl__machine *n)
{
	for (uint32_t i = 0; i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->id != n->pub.id &&
		    (x->fleet.live[i]->flags & (ESPL_NODE_QUARANTINED | ESPL_NODE_RETIRING)) == 0)
			return 1;
	if (n->avoided) /* the cloud had to take it, and it has failed again */
		return 0;
	return espl__lease_replaces(x, n);
}

int
espl__lease_unfit(struct espl__exec *x, struct espl__machine *n, enum espl__health_fault fault,
    const char *why)
{
	struct espl__offer_record *r = record_of(x, n->pub.offer);

	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(n, MACHINE);
	ESPL__ASSERT(n->live && n->unfit == NULL);
	n->unfit = espl__arena_strdup(&x->fleet.arena, why);
	if (r->failing_since == ESPL_NEVER)
		r->failing_since = x->now;
	espl__cluster_fails(x, n, fault, why);
	espl__machine_flag(&x->fleet, n, ESPL_NODE_QUARANTINED | ESPL_NODE_RETIRING, 0);
	espl__cluster_show_node(x, n, why);
	x->cluster.dirty = 1;
	espl__exec_warn(x, ESPL_ABOUT_NODE, n->pub.id, "node %llu%s%s%s is set aside: %s",
	    (unsigned long long)n->pub.id, n->host != NULL ? " (" : "",
	    n->host != NULL ? n->host : "", n->host != NULL ? ")" : "", why);
	return others_can_be_had(x, n);
}

void
espl__lease_on_machine(struct espl__exec *x, struct espl__machine *n)
{
	ESPL__CHECK(x, EXEC);
	if (n->live && n->unfit == NULL && espl__cluster_trials_failed(x, n) &&
	    espl__exec_follows(x, ESPL__RULES_ROW) && is_working(x, n->pub.offer))
		(void)espl__lease_unfit(x, n, ESPL__HEALTH_TRIALS,
		    "trials failed on its machine, and the cloud has no other one");
}

/* It was of no use: it ended before any trial on it reported, or was given up since. */
static int
was_useless(const struct espl__machine *n, espl_reason reason)
{
	return n->unfit != NULL ||
	    ((reason == ESPL_BY_FAULT || reason == ESPL__BY_GIVING_UP ||
		 reason == ESPL__BY_REFUSAL) &&
		!n->proved);
}

/* Trials wait for a node like the one that was given back, because of a notice for instance. */
static int
is_missed(const struct espl__exec *x)
{
	return espl__exec_follows(x, ESPL__RULES_SUPPLY) && x->items.count > 0;
}

/* Nodes that are lost one after the other with the same trial, alone on each, say no more about the
 * offer than the first of them. */
static int
is_same_suspect(const struct espl__machine *n, const struct espl__offer_record *r)
{
	return n->unfit == NULL && n->suspect != ESPL_NONE && n->suspect == r->suspect;
}

void
espl__lease_ended(struct espl__exec *x, const struct espl__machine *n, espl_reason reason,
    const char *why)
{
	struct espl__offer_record *r = record_of(x, n->pub.offer);
	char pause[32];

	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(n, MACHINE);
	espl__cluster_own_up(x, n->pub.offer);
	if (n->withdrawn) {
		hide_offer(x, n->pub.offer, r);
		x->cluster.offers_changed = 1; /* a policy may only now leave it */
	} else if (reason == ESPL_BY_CAPACITY || reason == ESPL_BY_QUOTA) {
		count_refusal(x, n, r, why);
		hide_offer(x, n->pub.offer, r);
	} else if (reason == ESPL_BY_PROVIDER) {
		count_interruption(x);
	}
	forget_target(x, n->pub.offer);
	if (r->closed && (reason != ESPL_BY_USER || is_missed(x)) && x->round.ending == 0 &&
	    is_last(x))
		espl__exec_interrupt(x, "%s", r->reason);
	/* The only machine that can be leased is one that the user has drained. */
	if (n->drained && n->avoided && n->unfit == NULL && x->round.ending == 0) {
		count_refusal(x, n, r, why);
		hide_offer(x, n->pub.offer, r);
	}
	if (!was_useless(n, reason) || x->round.ending != 0 || is_same_suspect(n, r))
		return;
	r->lost++;
	r->suspect = n->suspect;
	if (r->failing_since == ESPL_NEVER)
		r->failing_since = x->now;
	if (n->unfit == NULL)
		espl__cluster_fails(x, n, ESPL__HEALTH_START, why);
	else
		why = n->unfit;
	free(r->reason);
	r->reason = espl__strdup(why);
	pause_after(x, r, PAUSE_FAILED, &r->failed);
	if (r->closed)
		return;
	if (reason == ESPL__BY_REFUSAL || is_hopeless(x, n->pub.offer, r)) {
		close_offer(x, n->pub.offer, r, reason == ESPL__BY_REFUSAL);
	} else {
		wait_for_another(x, n, r);
		hide_offer(x, n->pub.offer, r);
	}
	if (!r->closed)
		espl__exec_warn(x, ESPL_ABOUT_NODE, n->pub.id,
		    n->unfit != NULL
			? "node %llu of offer '%s' was given up (%s); leasing the next one in %s"
			: "node %llu of offer '%s' ended before any trial on it reported (%s); "
			  "leasing the next one in %s",
		    (unsigned long long)n->pub.id, x->fleet.offers[n->pub.offer]->name, why,
		    espl__format_short(r->retry_at - x->now, pause));
}

void
espl__lease_alarm(struct espl__exec *x)
{
	char span[32], text[120];

	ESPL__CHECK(x, EXEC);
	if (espl__cluster_next(x) > x->now)
		return;
	for (uint32_t i = 0; i < x->fleet.live_count; i++) {
		struct espl__machine *n = espl__machine_at(&x->fleet, x->fleet.live[i]->id);
		espl_span limit = espl__cluster_limit(x, n);

		if (limit == 0 || x->now < n->since + limit)
			continue;
		if (n->pub.state == ESPL_NODE_REQUESTED &&
		    espl__cluster_queue_limit(x, n->pub.offer) > 0) {
			withdraw_requests(x, n);
			continue;
		}
		(void)snprintf(text, sizeof text, "it was %s for %s and did not become ready",
		    espl__node_state_word(n->pub.state), espl__format_short(limit, span));
		(void)espl__lease_unfit(x, n, ESPL__HEALTH_START, text);
	}
	espl__cluster_clock(x);
}

void
espl__lease_resume(struct espl__exec *x, int forgive)
{
	ESPL__CHECK(x, EXEC);
	x->cluster.dirty = 1;
	x->cluster.cloud_waits = 1;
	x->cluster.cloud_ready = 0;
	espl__cluster_again(x);
	espl__cluster_clock(x);
	if (!forgive)
		return;
	x->cluster.unused = x->cluster.interrupted = 0;
	espl__cluster_forgive_machines(x);
	for (uint32_t i = 0; i < x->cluster.record_count; i++) {
		struct espl__offer_record *r = &x->cluster.records[i];

		if (r->closed || r->hidden)
			x->fleet.offers[i]->flags &= ~ESPL_OFFER_GONE;
		free(r->reason);
		*r = (struct espl__offer_record){ .retry_at = ESPL_NEVER,
			.not_before = ESPL_NEVER,
			.refused_since = ESPL_NEVER,
			.failing_since = ESPL_NEVER,
			.suspect = ESPL_NONE,
			.answered = r->answered };
	}
}

/* ---- up to the targets -------------------------------------------------------------------- */

/* While leases of an offer keep failing, one is tried at a time, but a ready node on which nothing
 * runs does not count.  The cluster stays marked: the next event may allow another lease. */
static int
one_is_tried(struct espl__exec *x, uint32_t offer, const struct espl__offer_record *r)
{
	for (uint32_t i = 0; r->failed > 0 && i < x->fleet.live_count; i++)
		if (x->fleet.live[i]->offer == offer &&
		    (x->fleet.live[i]->state != ESPL_NODE_READY || x->gangs.count > 0) &&
		    !espl__machine_at(&x->fleet, x->fleet.live[i]->id)->proved)
			return x->cluster.dirty = 1;
	return 0;
}

/* The first machine of an offer whose machines cost money is leased alone: if nothing joins from
 * it, nothing would have from the others.  Its answer marks the cluster. */
static int
canary_is_out(const struct espl__exec *x, uint32_t offer, const struct espl__offer_record *r,
    uint32_t live)
{
	return (x->fleet.offers[offer]->flags & ESPL_OFFER_CANARY) != 0 && !r->answered && live > 0;
}

/* When a machine that is requested now is expected, by what the cloud says of its offer; soon,
 * since it may as well be refused, or queue for days.  A machine that boots is waited for. */
static espl_time
expect_ready(const struct espl__exec *x, const struct espl_offer *offer)
{
	return x->now + (espl_span)(espl__offer_wait_s(offer, EXPECTED_MOST) * 1e9);
}

/* From this source, toward the target of `offer`. */
static void
lease_one(struct espl__exec *x, uint32_t offer, uint32_t source)
{
	espl_money max_price = offer == source ? x->fleet.target_price[offer] : 0;
	struct espl__machine *n = espl__machine_lease(&x->fleet, source, max_price);
	struct espl__effect *e = espl__exec_effect(x, ESPL__FX_ACQUIRE);

	x->cluster.leased = 1;
	n->asked_at = x->now;
	n->pub.ready_at = expect_ready(x, x->fleet.offers[source]);
	n->since = x->now;
	espl__cluster_clock(x);
	if (source != offer) {
		espl__machine_stand(&x->fleet, n, offer);
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id,
		    "node %llu is requested from '%s', because '%s' gives no more now",
		    (unsigned long long)n->pub.id, x->fleet.offers[source]->name,
		    x->fleet.offers[offer]->name);
	}
	e->as.acquire.lease = n->pub.id;
	e->as.acquire.offer = source;
	e->as.acquire.max_price_hour = max_price;
	espl__ledger_open(x->ledger, n->pub.id, x->fleet.offers[source], x->config->data_gb,
	    x->now);
	espl__cluster_show_node(x, n, "requested");
}

/* Leases what the target of `offer` lacks from this source. */
static void
lease_from(struct espl__exec *x, uint32_t offer, uint32_t source)
{
	uint32_t held = espl__fleet_nodes(&x->fleet, offer, 0);

	if (is_exhausted(x, source))
		return;
	record_of(x, source)->retry_at = ESPL_NEVER;
	for (; held < x->fleet.targets[offer] && !is_exhausted(x, source) &&
	     !canary_is_out(x, source, record_of(x, source),
		 espl__fleet_leased(&x->fleet, source)) &&
	     !one_is_tried(x, source, record_of(x, source));
	     held++)
		lease_one(x, offer, source);
}

/* Offers in the order of the configuration; a policy that bids a price chooses the offer itself. */
void
espl__lease_nodes(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (x->cluster.cloud_waits)
		return;
	for (uint32_t o = 0; o < x->fleet.offer_count; o++) {
		lease_from(x, o, o);
		for (uint32_t s = 0; s < x->fleet.offer_count && espl__cluster_pools(x); s++)
			if (is_exhausted(x, o) && x->fleet.target_price[o] == 0 &&
			    espl__cluster_is_source(x, o, s) &&
			    (x->fleet.offers[s]->flags & ESPL_OFFER_GONE) == 0)
				lease_from(x, o, s);
	}
}

void
espl__lease_offered(struct espl__exec *x, uint32_t offer)
{
	const struct espl__offer_record *r = record_of(x, offer);

	ESPL__CHECK(x, EXEC);
	if ((r->closed || r->hidden) && espl__exec_follows(x, ESPL__RULES_SUPPLY))
		x->fleet.offers[offer]->flags |= ESPL_OFFER_GONE;
}

void
espl__lease_forget_retries(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->cluster.record_count; i++)
		x->cluster.records[i].retry_at = ESPL_NEVER;
	espl__lease_show_offers(x);
}
