/* fluid_curve.c - measured tables as curves, the limits c and d, and tables measured as trials run.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fluid.h"

#define NOISE 1e-12 /* a difference of doubles below this part is none */

void
allocator_fluid_benefits(const double *times, uint32_t count, double *benefit)
{
	uint32_t p;

	for (p = 2; p <= count; p++)
		benefit[p] = 1 - (p - 1.0) / p * (times[p] / times[p - 1]);
}

uint32_t
allocator_fluid_choose_c(const double *times, uint32_t count, double benefit)
{
	double saved[FLUID_PACKING_MAX + 1];
	uint32_t c = 1;

	if (count > FLUID_PACKING_MAX)
		count = FLUID_PACKING_MAX;
	allocator_fluid_benefits(times, count, saved);
	while (c < count && saved[c + 1] > benefit + NOISE)
		c++;
	return c;
}

uint32_t
allocator_fluid_choose_d(const double *times, uint32_t first, uint32_t last, double gain)
{
	uint32_t d = first, w;

	for (w = first + 1; w <= last; w++) /* beyond a bump, too */
		if (times[w] < times[d] * pow(1 - gain, w - d) * (1 - NOISE))
			d = w;
	return d;
}

uint32_t
allocator_fluid_d_by_beta(double beta, uint32_t most)
{
	double d;

	if (!(beta > 1))
		return most > 0 ? most : 1;
	d = ceil(1 / (beta - 1) * (1 - NOISE)) - 1;
	return d < 1 || most < 1 ? 1 : d < most ? (uint32_t)d : most;
}

/* Sharing: T^p = p / (throughput of p together); between two points as a power of alpha. */
static void
fill_packed(struct fluid_curve *curve, const struct espl_point *at, uint32_t count,
    const struct fluid_rules *rules)
{
	uint32_t i, p, last = 1;

	curve->packed[1] = 1;
	for (i = 0; i < count; i++) {
		uint32_t x = (uint32_t)at[i].x;
		double base, step;

		if (at[i].x <= 1)
			continue;
		if (x > FLUID_PACKING_MAX || !(at[i].y > 0))
			break;
		base = curve->packed[last];
		step = pow(x / at[i].y / base, 1.0 / (x - last));
		for (p = last + 1; p < x; p++)
			curve->packed[p] = curve->packed[p - 1] * step;
		curve->packed[x] = x / at[i].y;
		last = x;
	}
	curve->c = allocator_fluid_choose_c(curve->packed, last, rules->benefit);
	curve->alpha = curve->c > 1 ? pow(curve->packed[curve->c], 1.0 / (curve->c - 1)) : 1;
	for (p = last + 1; p <= FLUID_PACKING_MAX; p++)
		curve->packed[p] = INFINITY;
}

/* Scaling: GPU time w * t_w between two points as a power of beta. */
static espl_status
fill_whole(struct fluid_curve *curve, const struct espl_point *at, uint32_t count)
{
	uint32_t first = curve->unit, wide = first, i, w, from = first;
	double area = first, beta = 1;

	for (i = 0; i < count; i++)
		if (at[i].x > wide && at[i].x < 1e6 && at[i].y > 0)
			wide = (uint32_t)at[i].x;
	if (wide + 1 > curve->room) {
		double *more = realloc(curve->whole, (wide + 1) * sizeof *more);

		if (more == NULL)
			return ESPL_E_NOMEM;
		curve->whole = more;
		curve->room = wide + 1;
	}
	curve->wide = wide;
	for (w = 0; w < first; w++)
		curve->whole[w] = INFINITY;
	curve->whole[first] = 1;
	for (i = 0; i < count; i++) {
		uint32_t x = (uint32_t)at[i].x;
		double step;

		if (x <= from || x > wide || !(at[i].y > 0))
			continue;
		step = pow(x / at[i].y / area, 1.0 / (x - from));
		for (w = from + 1; w < x; w++)
			curve->whole[w] = area * pow(step, w - from) / w;
		area = x / at[i].y;
		curve->whole[x] = 1 / at[i].y;
		from = x;
	}
	if (from > first)
		beta = pow(area / first, 1.0 / (from - first));
	curve->beta = beta;
	return ESPL_OK;
}

espl_status
allocator_fluid_curve_fill(struct fluid_curve *curve, const struct fluid_rules *rules,
    uint32_t unit, const struct espl_point *scaling, uint32_t scaling_count,
    const struct espl_point *packing, uint32_t packing_count)
{
	espl_status status;
	uint32_t w;

	curve->scaling = scaling;
	curve->scaling_count = scaling_count;
	curve->packing = packing;
	curve->packing_count = packing_count;
	curve->unit = unit > 0 ? unit : 1;
	fill_packed(curve, packing, packing_count, rules);
	status = fill_whole(curve, scaling, scaling_count);
	if (status != ESPL_OK)
		return status;
	curve->d = allocator_fluid_choose_d(curve->whole, curve->unit, curve->wide, rules->gain);
	if (rules->by_beta) {
		uint32_t d = allocator_fluid_d_by_beta(curve->beta, curve->wide);

		curve->d = d > curve->unit ? d : curve->unit;
	}
	ESPL_ASSERT(curve->d <= curve->wide);
	curve->rising = 1;
	for (w = curve->unit; w < curve->d; w++)
		curve->rising &= curve->whole[w + 1] < curve->whole[w];
	return ESPL_OK;
}

/* ---- probing --------------------------------------------------------------------------------- */

#define SAMPLES 3u /* iterations that make a figure */

/* Seconds of an iteration on that share; 0: not measured (what a profile says does not count). */
static double
measured_seconds(const struct espl_model *model, uint64_t experiment, uint32_t gpus,
    uint32_t packing)
{
	struct espl_speed_query query = ESPL_INIT(struct espl_speed_query);
	struct espl_speed speed = ESPL_INIT(struct espl_speed);

	query.offer = ESPL_ANY;
	query.experiment = experiment;
	query.trial = ESPL_NONE;
	query.share.gpus = gpus;
	query.share.packing = packing;
	if (model->speed(model, &query, &speed) != ESPL_OK || speed.evidence < ESPL_MEASURED_LIKE ||
	    speed.samples < SAMPLES || !(speed.iteration_s > 0))
		return 0;
	return speed.iteration_s;
}

static void
read_scaling(struct fluid_probe *probe, const struct espl_model *model,
    const struct fluid_rules *rules, const struct espl_item *item, double one)
{
	uint32_t unit = item->unit > 0 ? item->unit : 1, w = unit;
	double last = one;

	ESPL_ASSERT(one > 0 && probe->scaling_count == 0);
	probe->scaling[probe->scaling_count++] = (struct espl_point){ unit, 1 };
	while (probe->scaling_count < FLUID_STEPS && w <= item->gpus_max / 2) {
		double t;

		w *= 2;
		t = measured_seconds(model, probe->experiment, w, 1);
		if (!(t > 0)) {
			probe->try_wide = w;
			return;
		}
		if (t >= last * (1 - rules->gain))
			return; /* it did not pay: this is the end of the table */
		probe->scaling[probe->scaling_count++] = (struct espl_point){ w, one / t };
		last = t;
	}
}

static void
read_packing(struct fluid_probe *probe, const struct espl_model *model,
    const struct fluid_rules *rules, const struct espl_item *item, double one)
{
	uint32_t p;
	double last = one;

	ESPL_ASSERT(one > 0 && probe->packing_count == 0);
	probe->packing[probe->packing_count++] = (struct espl_point){ 1, 1 };
	for (p = 2; p <= item->packing_max && p <= FLUID_PACKING_MAX; p++) {
		double t = measured_seconds(model, probe->experiment, 1, p);

		if (!(t > 0)) {
			probe->try_packing = p;
			return;
		}
		if (1 - (p - 1.0) / p * (t / last) <= rules->benefit)
			return;
		probe->packing[probe->packing_count++] = (struct espl_point){ p, p * one / t };
		last = t;
	}
}

void
allocator_fluid_probe_read(struct fluid_probe *probe, const struct espl_model *model,
    const struct fluid_rules *rules, const struct espl_item *item, uint64_t experiment)
{
	uint32_t unit = item->unit > 0 ? item->unit : 1;
	double one;

	probe->experiment = experiment;
	probe->scaling_count = probe->packing_count = probe->try_wide = probe->try_packing = 0;
	one = model != NULL ? measured_seconds(model, experiment, unit, 1) : 0;
	probe->iteration_s = one;
	if (!(one > 0) || item->gpus_min > unit ||
	    (item->scaling_count > 0 && item->packing_count > 0))
		return;
	read_scaling(probe, model, rules, item, one);
	if (unit == 1)
		read_packing(probe, model, rules, item, one);
}
