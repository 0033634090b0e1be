/* round_alarms.c - alarms: deadlines, budgets, and what the owners wait for. */
#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
#include "exec/items.h"
#include "exec/items_idle.h"
#include "exec/items_tiers.h"
#include "exec/searches_end.h"

static espl_time
take_earlier(espl_time a, espl_time b)
{
	return a < b ? a : b;
}

/* The instant at which the money runs out at present prices. */
static espl_time
find_budget_end(const struct espl__exec *x)
{
	espl_money left;
	double rate;

	if (x->config->budget == INT64_MAX)
		return ESPL_NEVER;
	rate = espl__ledger_rate(x->ledger);
	left = x->config->budget - espl__ledger_total(x->ledger, x->now);
	if (left <= 0)
		return x->now;
	if (rate <= 0 || (double)left / rate > 1e9)
		return ESPL_NEVER;
	return x->now + (espl_time)((double)left / rate * 1e9) + 1;
}

void
espl__round_alarms(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (!espl__searches_need_no_nodes(x) && x->config->deadline != ESPL_NEVER &&
	    x->now > x->config->deadline)
		espl__exec_wind_up(x, ESPL__RUN_DEADLINE, "the deadline was reached");
	if (!espl__searches_need_no_nodes(x) && x->config->budget != INT64_MAX &&
	    espl__ledger_total(x->ledger, x->now) >= x->config->budget)
		espl__exec_wind_up(x, ESPL__RUN_BUDGET, "the budget was used up");
	espl__lease_alarm(x);
	espl__lease_show_offers(x);
	espl__round_news(x);
	x->round.idle_wakes += espl__searches_alarm(x);
	espl__gangs_alarm(x);
	espl__gangs_limit(x);
	x->round.idle_wakes += espl__tiers_next(x) <= x->now;
	espl__tiers_alarm(x);
}

/* ---- policies that never let time pass ------------------------------------------------------ */

/* Rounds at one instant in which no trial was made, reported or ended. */
#define AT_INSTANT_MOST 100000u

/* A policy asked for the round, and nothing followed from it. */
static int
is_in_vain(const struct espl__exec *x)
{
	for (uint32_t i = 0; i < x->round.effect_count; i++)
		if (x->round.effects[i].type != ESPL__FX_TIMER)
			return 0;
	return x->round.only_alarms;
}

static void
end_hasty(struct espl__exec *x)
{
	static const char text[] =
	    "%s asked %u times to be called again within a millisecond, although nothing had "
	    "changed: wake_at takes an instant in nanoseconds";
	int in_vain = is_in_vain(x);
	const struct espl__tier *tier = espl__tiers_hasty(x, in_vain);
	struct espl__search *s = espl__searches_hasty(x, in_vain);

	if (s != NULL)
		espl__search_wind_up(s, ESPL__RUN_FAILED, text, s->algorithm->who,
		    ESPL__HASTE_MOST);
	if (tier != NULL && tier->inner != NULL)
		espl__search_wind_up(tier->inner->search, ESPL__RUN_FAILED, text,
		    tier->allocator->who, ESPL__HASTE_MOST);
	else if (tier != NULL)
		espl__exec_wind_up(x, ESPL__RUN_FAILED, text, tier->allocator->who,
		    ESPL__HASTE_MOST);
	if (s != NULL || tier != NULL)
		espl__tier_wake(&x->items.top, x->now + 1);
}

/* Rises whenever a trial is made, reports, fails or ends. */
static uint64_t
sum_progress(const struct espl__exec *x)
{
	uint64_t sum = x->searches.reports;

	for (uint32_t i = 0; i < x->searches.count; i++) {
		const struct espl__search *s = x->searches.list[i];

		sum +=
		    s->trials.trials.count + s->trials.finished + s->trials.unfinished + s->failed;
	}
	return sum;
}

/* Only a simulation can stand at one instant: an algorithm, allocator or placer changes its mind
 * again and again, and all that follows takes no time. */
static void
end_standing(struct espl__exec *x)
{
	const struct espl__last_decision *last;
	uint64_t progress;

	if (x->now != x->round.instant) {
		x->round.instant = x->now;
		x->round.at_instant = 0;
		return;
	}
	progress = sum_progress(x);
	if (progress != x->round.progress)
		x->round.at_instant = 0;
	x->round.progress = progress;
	if (++x->round.at_instant < AT_INSTANT_MOST)
		return;
	x->round.at_instant = 0;
	last = &x->round.last[(x->round.last_count - 1) % ESPL__LAST_DECISIONS];
	if (x->round.last_count > 0)
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "time stands still: %u rounds at %.9g s without progress; the last decision "
		    "was "
		    "that of %s",
		    AT_INSTANT_MOST, (double)x->now / 1e9, last->by);
	else
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "time stands still: %u rounds at %.9g s without progress", AT_INSTANT_MOST,
		    (double)x->now / 1e9);
}

void
espl__round_haste(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (x->round.ending != 0 || !espl__exec_follows(x, ESPL__RULES_SUPPLY))
		return;
	end_hasty(x);
	end_standing(x);
	/* What a run needs to end follows in the next round. */
	if (x->round.ending != 0)
		espl__tier_wake(&x->items.top, x->now);
}

void
espl__round_timer(struct espl__exec *x)
{
	espl_time next = take_earlier(espl__search_next(x), espl__tiers_next(x));

	ESPL__CHECK(x, EXEC);
	next = take_earlier(next, espl__lease_retry_at(x));
	next = take_earlier(next, espl__cluster_next(x));
	next = take_earlier(next, espl__gangs_next(x));
	next = take_earlier(next, espl__gangs_limit_next(x));
	next = take_earlier(next, espl__items_part_at(x));
	next = take_earlier(next, espl__search_limits_at(x));
	if (x->round.ending == 0)
		next = take_earlier(next, espl__items_fill_at(x));
	if (x->round.ending == 0 && !espl__searches_need_no_nodes(x)) {
		if (x->config->deadline != ESPL_NEVER)
			/* finishing exactly at the deadline is in time */
			next = take_earlier(next, x->config->deadline + 1);
		next = take_earlier(next, find_budget_end(x));
	}
	if (x->round.ended)
		next = ESPL_NEVER;
	/* An alarm that is too early does no harm, and moving it with every report would cost more;
	 * but one for a node that has started since is taken back. */
	if (next >= x->round.timer && x->round.timer != x->round.node_timer)
		return;
	x->round.node_timer = espl__cluster_next(x);
	if (next == x->round.timer)
		return;
	x->round.timer = next;
	espl__exec_effect(x, ESPL__FX_TIMER)->as.at = next;
}
