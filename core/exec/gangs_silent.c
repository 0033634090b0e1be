/* gangs_silent.c - gangs that have not reported for long: warned about, then ended. */
#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/gangs_start.h"

/* warn after this long without a report, unless iterations are long */
#define QUIET_LEAST (300 * ESPL_SECOND)
#define QUIET_TIMES 4.0 /* what an iteration took at most, times this */

/* One of its nodes is unreachable. */
static int
is_unreachable(const struct espl__exec *x, const struct espl__gang *g)
{
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		const struct espl__machine *n = espl__machine_at(&x->fleet, g->slots[i].node);

		if (n != NULL && (n->pub.flags & ESPL_NODE_UNREACHABLE) != 0)
			return 1;
	}
	return 0;
}

/* The gangs are in the order of their last reports: in an ordinary run, the first that runs is the
 * next.  What starts has no limit: its node may have to fetch files, or to be set up. */
static int
in_order(const struct espl__exec *x, const struct espl__gang *g)
{
	return x->searches.count == 1 && g->state != ESPL__GANG_STARTING;
}

static espl_time
silent_until(const struct espl__gang *g)
{
	espl_span limit = g->trial->search->config->trial.report_limit;

	return limit > 0 && g->state != ESPL__GANG_STARTING ? g->last_seen + limit : ESPL_NEVER;
}

/* When to warn that the gang has not reported; NEVER: already done, or the gang is killed before
 * that. */
static espl_time
quiet_until(const struct espl__gang *g)
{
	const struct espl__search *s = g->trial->search;
	espl_span quiet = QUIET_LEAST, limit = s->config->trial.report_limit;

	if (g->quiet_reported || g->state == ESPL__GANG_STARTING || s->config->asked)
		return ESPL_NEVER;
	if (s->longest_s * QUIET_TIMES > (double)QUIET_LEAST / 1e9)
		quiet = s->longest_s * QUIET_TIMES < 1e9
		    ? (espl_span)(s->longest_s * QUIET_TIMES * 1e9)
		    : ESPL_NEVER;
	return quiet != ESPL_NEVER && (limit == 0 || quiet < limit) ? g->last_seen + quiet
								    : ESPL_NEVER;
}

static void
report_quiet(struct espl__exec *x)
{
	for (struct espl__gang *g = x->gangs.oldest; g != NULL; g = g->newer) {
		const struct espl__search *s = g->trial->search;
		char since[32], limit[32], name[48];

		if (x->now < quiet_until(g)) {
			if (in_order(x, g) && !g->quiet_reported)
				return; /* the others reported later */
			continue;
		}
		g->quiet_reported = 1;
		if (g->awaiting || g->state == ESPL__GANG_LEAVING || is_unreachable(x, g))
			continue;
		espl__exec_warn(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial),
		    "trial %s: no report for %s%s; trial.report_limit is %s",
		    espl__trial_name(espl__trial_uid(g->trial), name),
		    espl__format_short(x->now - g->last_seen, since),
		    s->reported ? ""
			: s->config->trial.metrics
			? " (no line of its output matched trial.metrics)"
			: " (does the program call run.report()?)",
		    s->config->trial.report_limit > 0
			? espl__format_short(s->config->trial.report_limit, limit)
			: "not set");
	}
}

static void
end_hung(struct espl__exec *x)
{
	struct espl__gang *g, *newer;

	for (g = x->gangs.oldest; g != NULL; g = newer) {
		const struct espl__trial_config *c = &g->trial->search->config->trial;
		char span[32], grace[32], name[48], *fault;

		newer = g->newer;
		if (x->now < silent_until(g)) {
			if (in_order(x, g))
				return; /* the others reported later */
			continue;
		}
		espl__gang_seen(x, g);
		/* The executor lets it wait at a barrier, or it has nothing more to report: the
		 * world makes sure that a gang asked to leave does so. */
		if (g->awaiting || g->state == ESPL__GANG_LEAVING || is_unreachable(x, g))
			continue;
		fault =
		    espl__format("no report within %s", espl__format_short(c->report_limit, span));
		if (g->fault == NULL)
			espl__exec_warn(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial),
			    "trial %s: no report within %s (trial.report_limit); it is ended, at "
			    "the latest after %s (trial.grace)",
			    espl__trial_name(espl__trial_uid(g->trial), name), span,
			    espl__format_short(c->grace, grace));
		espl__gang_fault(x, g, fault, 0);
		free(fault);
	}
}

void
espl__gangs_alarm(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	report_quiet(x);
	end_hung(x);
}

espl_time
espl__gangs_next(const struct espl__exec *x)
{
	espl_time at = ESPL_NEVER;

	for (const struct espl__gang *g = x->gangs.oldest; g != NULL; g = g->newer) {
		espl_time quiet = quiet_until(g), silent = silent_until(g);

		at = quiet < at ? quiet : at;
		at = silent < at ? silent : at;
		if (in_order(x, g) && !g->quiet_reported)
			break;
	}
	return at;
}

void
espl__gangs_held(struct espl__exec *x, espl_span late)
{
	ESPL__CHECK(x, EXEC);
	for (struct espl__gang *g = x->gangs.first; g != NULL && late > 0; g = g->next)
		g->last_seen = g->last_seen < x->now - late ? g->last_seen + late : x->now;
}
