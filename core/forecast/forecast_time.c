/* forecast_time.c - when the steps of a plan begin and end, sample by sample, from the tables. */
#include "base/assert.h"
#include "forecast/forecast_impl.h"

/* The new nodes of a step, asked for at `base`: when all are ready. */
static double
boot_nodes(struct espl__step *step, uint32_t sample, double base, struct espl__moment *m)
{
	const struct espl__terms *terms = step->terms;
	const struct espl__boot_row *row;

	m->rows = NULL;
	m->base = base + terms->from_s;
	m->froms = step->fresh * m->base;
	if (!terms->random)
		return base + terms->ready_s;
	row = &terms->rows[step->fresh - 1];
	m->at = (sample + step->sample_turn) & (row->samples - 1);
	if (terms->random_from) {
		m->rows = terms->froms;
		m->base = base;
		m->froms = step->fresh * base + row->froms[m->at];
	}
	return base + row->ready[m->at];
}

static void
walk_sample(struct espl__forecast *f, uint32_t sample)
{
	for (uint32_t i = 0; i < f->step_count; i++) {
		struct espl__step *step = &f->steps[i];
		struct espl__moment *m = &f->moments[i];
		uint32_t at = sample & step->sample_mask;
		double ready;

		m->begin = m->train = step->first ? 0.0 : m[-1].end;
		m->froms = 0.0;
		if (step->fresh > 0) {
			double base = m->begin;

			if (step->ahead && m[-1].train + step[-1].view.asks_s < base)
				base = fmax(m[-1].train + step[-1].view.asks_s, m[-1].begin);
			ready = boot_nodes(step, sample, base, m);
			m->train = ready > m->begin ? ready : m->begin;
		}
		m->busy = step->timing->busy_s[at];
		if (step->past_s > 0) {
			m->train = m->begin - step->past_s;
			m->busy *= 1 - fmin(step->past_s / step->timing->seconds[at], 1.0);
		}
		m->end = fmax(m->train + step->timing->seconds[at], m->begin);
		m->until = NULL;
		if (step->releases) {
			m->until = step->vacancy->until + (size_t)at * step->layout.entries;
			m->entry = step->vacancy->entry + (size_t)at * step->layout.entries;
		}
	}
}

void
espl__walk(struct espl__forecast *f)
{
	ESPL__CHECK(f, FORECAST);
	for (uint32_t i = 0; i < f->step_count; i++)
		if (f->steps[i].fresh > 0 && f->steps[i].terms->random)
			(void)espl__boot_row(f, f->steps[i].terms, f->steps[i].fresh);
	for (uint32_t i = 0; i < f->step_count; i++)
		if (f->steps[i].releases)
			f->steps[i].vacancy = espl__vacancy(f, &f->steps[i]);
	for (uint32_t s = 0; s < f->samples; s++) {
		walk_sample(f, s);
		espl__bill(f, &f->jct[s], &f->cost[s]);
	}
}
