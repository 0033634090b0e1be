/* round_alarms.c - what is due at an instant: deadlines, budgets, and trials that have not reported
 * for long. */
#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/state.h"

/* warn after this long without a report, unless iterations are long */
#define QUIET_LEAST (300 * ESPL_SECOND)
#define QUIET_TIMES 4.0 /* what an iteration took at most, times this */

static espl_time
take_earlier(espl_time a, espl_time b)
{
	return a < b ? a : b;
}

/* The instant at which the money runs out at present prices. */
static espl_time
broke_at(const struct espl__exec *x)
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

static espl_time
silent_until(const struct espl__gang *g)
{
	espl_span limit = g->trial->search->config->trial.report_limit;

	return limit > 0 ? g->heard + limit : ESPL_NEVER;
}

/* When to warn that the gang has not reported; NEVER: already done, or the gang is killed before
 * that. */
static espl_time
quiet_until(const struct espl__gang *g)
{
	const struct espl__search *s = g->trial->search;
	espl_span quiet = QUIET_LEAST, limit = s->config->trial.report_limit;

	if (g->quiet_told || s->config->asked)
		return ESPL_NEVER;
	if (s->longest_s * QUIET_TIMES > (double)QUIET_LEAST / 1e9)
		quiet = s->longest_s * QUIET_TIMES < 1e9
		    ? (espl_span)(s->longest_s * QUIET_TIMES * 1e9)
		    : ESPL_NEVER;
	return quiet != ESPL_NEVER && (limit == 0 || quiet < limit) ? g->heard + quiet : ESPL_NEVER;
}

static void
tell_quiet(struct espl__exec *x)
{
	for (struct espl__gang *g = x->gangs.oldest; g != NULL; g = g->newer) {
		const struct espl__search *s = g->trial->search;
		char since[32], limit[32];

		if (x->now < quiet_until(g)) {
			if (x->searches.count == 1 && !g->quiet_told)
				return; /* the others reported later */
			continue;
		}
		g->quiet_told = 1;
		if (g->awaiting || g->state == ESPL__GANG_LEAVING || espl__gang_unreachable(x, g))
			continue;
		espl__exec_warn(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial),
		    s->config->trial.report_limit > 0
			? "trial %llu: no report for %s%s; trial.report_limit is %s"
			: "trial %llu: no report for %s%s; trial.report_limit is not set",
		    (unsigned long long)g->trial->pub.id,
		    espl__format_short(x->now - g->heard, since),
		    s->reported                    ? ""
			: s->config->trial.metrics ? " (no line of its output fits trial.metrics)"
						   : " (does the program call run.report()?)",
		    espl__format_short(s->config->trial.report_limit, limit));
	}
}

/* When that will be due first. */
static espl_time
quiet_at(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	for (const struct espl__gang *g = x->gangs.oldest; g != NULL; g = g->newer) {
		at = take_earlier(at, quiet_until(g));
		if (x->searches.count == 1 && !g->quiet_told)
			break;
	}
	return at;
}

static void
end_hung(struct espl__exec *x)
{
	struct espl__gang *g, *newer;

	for (g = x->gangs.oldest; g != NULL; g = newer) {
		const struct espl__trial_config *c = &g->trial->search->config->trial;
		char span[32], *fault;

		newer = g->newer;
		if (x->now < silent_until(g)) {
			if (x->searches.count == 1)
				return; /* the others reported later */
			continue;
		}
		espl__gang_heard(x, g);
		/* The executor lets it wait at a barrier, or it has nothing more to report: the
		 * world makes sure that a gang asked to leave does so. */
		if (g->awaiting || g->state == ESPL__GANG_LEAVING || espl__gang_unreachable(x, g))
			continue;
		fault =
		    espl__format("no report within %s", espl__format_short(c->report_limit, span));
		espl__exec_kill(x, g, c->grace, fault);
		free(fault);
	}
}

/* When the first gang will have been silent for too long. */
static espl_time
hung_at(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	for (const struct espl__gang *g = x->gangs.oldest; g != NULL; g = g->newer) {
		at = take_earlier(at, silent_until(g));
		if (x->searches.count == 1)
			break;
	}
	return at;
}

void
espl__exec_alarms(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	if (!espl__exec_needs_no_nodes(x) && x->config->deadline != ESPL_NEVER &&
	    x->now > x->config->deadline)
		espl__exec_wind_up(x, ESPL__RUN_DEADLINE, "the deadline was reached");
	if (!espl__exec_needs_no_nodes(x) && x->config->budget != INT64_MAX &&
	    espl__ledger_total(x->ledger, x->now) >= x->config->budget)
		espl__exec_wind_up(x, ESPL__RUN_BUDGET, "the budget was used up");
	espl__lease_show_offers(x);
	espl__search_alarms(x);
	tell_quiet(x);
	end_hung(x);
	x->round.idle_wakes += espl__tiers_next(x) <= x->now;
	for (uint32_t i = 0; i < x->searches.count; i++)
		if (x->searches.list[i]->wake_at <= x->now) {
			x->round.idle_wakes++;
			x->searches.list[i]->wake_at = ESPL_NEVER;
			x->searches.list[i]->why |= ESPL_ASK_TIME;
		}
	espl__tiers_alarm(x);
}

void
espl__exec_timer(struct espl__exec *x)
{
	espl_time next = take_earlier(espl__search_next(x), espl__tiers_next(x));

	ESPL__CHECK(x, EXEC);
	next = take_earlier(next, espl__lease_retry_at(x));
	next = take_earlier(next, hung_at(x));
	next = take_earlier(next, quiet_at(x));
	next = take_earlier(next, espl__search_limits_at(x));
	if (x->round.ending == 0 && !espl__exec_needs_no_nodes(x)) {
		if (x->config->deadline != ESPL_NEVER)
			/* finishing exactly at the deadline is in time */
			next = take_earlier(next, x->config->deadline + 1);
		next = take_earlier(next, broke_at(x));
	}
	if (x->round.ended)
		next = ESPL_NEVER;
	/* An alarm that is too early does no harm, and moving it with every report would cost more.
	 */
	if (next >= x->round.timer)
		return;
	x->round.timer = next;
	espl__exec_effect(x, ESPL__FX_TIMER)->as.timer.at = next;
}
