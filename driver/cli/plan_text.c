/* plan_text.c - time and money of a plan as people read them. */
#include <math.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/text.h"
#include "cli/plan.h"

const char *
espl__plan_span(double s, char to[32])
{
	if (!isfinite(s))
		(void)snprintf(to, 32, "-");
	else if (s == 0)
		(void)snprintf(to, 32, "0s");
	else if (s < 0.9995)
		(void)snprintf(to, 32, "%.3gms", s * 1e3);
	else if (s < 59.95)
		(void)snprintf(to, 32, fabs(s - rint(s)) < 0.05 ? "%.0fs" : "%.1fs", s);
	else if (s < 3599.5)
		(void)snprintf(to, 32, "%dm%02ds", (int)rint(s) / 60, (int)rint(s) % 60);
	else if (s < 86370)
		(void)snprintf(to, 32, "%dh%02dm", (int)rint(s / 60) / 60, (int)rint(s / 60) % 60);
	else if (s < 8.64e9)
		(void)snprintf(to, 32, "%ldd%02ldh", lrint(s / 3600) / 24, lrint(s / 3600) % 24);
	else
		(void)snprintf(to, 32, "%.3gd", s / 86400);
	return to;
}

const char *
espl__plan_part(double usd, double of, char to[32])
{
	double size = fabs(of);
	int digits = 2;

	if (!isfinite(usd)) {
		(void)snprintf(to, 32, "-");
		return to;
	}
	for (; size > 0 && size < 0.0995 && digits < 9; size *= 10)
		digits++;
	(void)snprintf(to, 32, fabs(usd) < 1e12 ? "%s$%.*f" : "%s$%.*e", usd < 0 ? "-" : "", digits,
	    fabs(usd));
	return to;
}

const char *
espl__plan_money(double usd, char to[32])
{
	return espl__plan_part(usd, usd, to);
}

#define CLOSE 0.5e-9

/* Rounded up, and so that the user can write it down: it must do. */
static void
format_least_limits(double least_s, double least_usd, char time[32], char cost[32])
{
	double unit = least_s >= 10 ? 1 : 1e-3, part;
	int digits = 2;

	/* A limit is kept by what exceeds it by no more than a billionth of it. */
	(void)espl__format_span(least_s < 9e9
		? (espl_span)(ceil(least_s * (1 - CLOSE) / unit) * unit * 1e9 + 0.5)
		: ESPL_NEVER,
	    time);
	while (digits < 6 && least_usd < 0.1 &&
	    least_usd * pow(10, digits) < 1000) /* micro-dollars are the least that counts */
		digits++;
	part = pow(10, digits);
	(void)snprintf(cost, 32, "$%.*f", digits, ceil(least_usd * (1 - CLOSE) * part) / part);
}

/* "; they have one node type and no GPU sharing": where others are possible. */
static void
format_left_out(const struct espl__run_config *c, const struct espl__exec_summary *s, char to[96])
{
	const struct {
		int matters;
		const char *text;
	} all[] = { { s->offers > 1, "one node type" },
		{ c->trial.packing_max > 1, "no GPU sharing" },
		{ s->interruptible, "no interruptions" } };
	int left = all[0].matters + all[1].matters + all[2].matters, used = 0;

	to[0] = '\0';
	for (int i = 0, told = 0; i < 3; i++)
		if (all[i].matters)
			used += snprintf(to + used, 96 - (size_t)used, "%s%s",
			    told++ == 0        ? "; they have "
				: told == left ? " and "
					       : ", ",
			    all[i].text);
}

void
espl__plan_least(struct espl__diag *diag, const struct espl__run_config *c,
    const struct espl__exec_summary *s)
{
	double least_s = s->least_s, least_usd = s->least_usd;
	char time[32], cost[32], left_out[96];

	ESPL__CHECK(c, RUN_CONFIG);
	if (!isfinite(least_s) && !isfinite(least_usd))
		return;
	format_least_limits(isfinite(least_s) ? least_s : 0, isfinite(least_usd) ? least_usd : 0,
	    time, cost);
	format_left_out(c, s, left_out);
	if (isfinite(least_s) && isfinite(least_usd) && c->deadline != ESPL_NEVER &&
	    c->budget != INT64_MAX)
		espl__hint(diag,
		    "the fastest of its plans takes %s (experiment.deadline), and the cheapest "
		    "costs %s (experiment.budget)%s",
		    time, cost, left_out);
	else if (isfinite(least_s) && (c->deadline != ESPL_NEVER || !isfinite(least_usd)))
		espl__hint(diag,
		    "the shortest feasible deadline for its plans is %s "
		    "(experiment.deadline)%s",
		    time, left_out);
	else
		espl__hint(diag,
		    "the smallest feasible budget for its plans is %s (experiment.budget)%s", cost,
		    left_out);
}
