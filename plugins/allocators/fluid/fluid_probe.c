/* fluid_probe.c - tables made of measured iterations; see fluid_probe.h. */
#include "fluid_probe.h"

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
