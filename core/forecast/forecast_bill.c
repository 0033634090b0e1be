/* forecast_bill.c - the cost of the nodes of a plan in one sample of its times.
 *
 * The rules of ledger.c, in seconds and dollars. A step pays for the nodes while it lasts, and for
 * its new ones from the start of their bill; the cost of a lease beyond that, by minimum charge or
 * rounding up, is charged to the step at whose end it is released.
 */
#include "base/assert.h"
#include "forecast/forecast_impl.h"

double
espl__charged(const struct espl__terms *terms, double seconds)
{
	double ns, steps, whole;

	if (seconds < terms->minimum_s)
		seconds = terms->minimum_s;
	ns = seconds * 1e9;
	if (!(terms->step_ns > 0) || ns > 9e18)
		return seconds;
	ns = (double)(int64_t)(ns + 0.5); /* the ledger's instants are whole nanoseconds */
	steps = ns / terms->step_ns;
	whole = (double)(int64_t)steps;
	return (whole < steps ? whole + 1 : whole) * terms->step_ns * 1e-9;
}

/* Seconds beyond their own for which nodes that are now given back are charged. */
static double
surcharge_seconds(const struct espl__forecast *f, const struct espl__holding *h)
{
	double end = f->moments[h->last_step].end, length, sum = 0.0, past;
	const struct espl__moment *m;

	if (h->from_step == ESPL_ANY) { /* what was charged so far is spent already */
		past = f->setup.held[h->from].billed_s;
		if (past < 0)
			return espl__charged(h->terms, end) - end;
		return espl__charged(h->terms, past + end) - espl__charged(h->terms, past) - end;
	}
	m = &f->moments[h->from_step];
	if (m->rows == NULL) {
		length = end - m->base;
		return (espl__charged(h->terms, length) - length) * (h->to - h->from);
	}
	for (uint32_t j = h->from; j < h->to; j++) {
		length = end - (m->base + m->rows[j][m->at]);
		sum += espl__charged(h->terms, length) - length;
	}
	return sum;
}

void
espl__bill(struct espl__forecast *f, double *jct, double *cost)
{
	double total = 0.0, last = 0.0;

	ESPL__CHECK(f, FORECAST);
	if (f->setup.idle) {
		espl__bill_idle(f, jct, cost);
		return;
	}
	for (uint32_t i = 0; i < f->step_count; i++) {
		struct espl__step *step = &f->steps[i];
		const struct espl__moment *m = &f->moments[i];
		double usd = step->fresh * step->terms->data_usd;

		if (step->terms->function)
			usd += step->terms->usd_s * m->busy;
		else
			usd += step->terms->usd_s *
			    (step->kept * (m->end - m->begin) + (step->fresh * m->end - m->froms));
		step->begin_sum += m->begin;
		step->end_sum += m->end;
		step->cost_sum += usd;
		total += usd;
		last = m->end > last ? m->end : last;
	}
	for (uint32_t i = 0; i < f->holding_count; i++) {
		const struct espl__holding *h = &f->holdings[i];
		double usd;

		if (!h->terms->stepped)
			continue;
		usd = h->terms->usd_s * surcharge_seconds(f, h);
		f->steps[h->last_step].cost_sum += usd;
		total += usd;
	}
	*jct = last;
	*cost = total;
}
