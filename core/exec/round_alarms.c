/* round_alarms.c - alarms: deadlines, budgets, and what the owners wait for. */
#include "base/assert.h"
#include "exec/cluster_leases.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"
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
	x->round.idle_wakes += espl__tiers_next(x) <= x->now;
	espl__tiers_alarm(x);
}

void
espl__round_timer(struct espl__exec *x)
{
	espl_time next = take_earlier(espl__search_next(x), espl__tiers_next(x));

	ESPL__CHECK(x, EXEC);
	next = take_earlier(next, espl__lease_retry_at(x));
	next = take_earlier(next, espl__cluster_next(x));
	next = take_earlier(next, espl__gangs_next(x));
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
