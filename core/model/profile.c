/* profile.c - the contents of a profile: speeds, times, and random draws of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "model/profile.h"

void
espl__profile_free(struct espl__profile *p)
{
	if (p == NULL)
		return;
	espl__arena_free(p->arena);
	free(p->arena);
	free(p);
}

/* ---- answers --------------------------------------------------------------------------- */

/* Linear between the points, constant after the last. */
static double
interpolate_points(const struct espl_point *points, uint32_t count, double x)
{
	uint32_t i = 1;

	if (x <= points[0].x)
		return points[0].y;
	while (i < count && points[i].x < x)
		i++;
	if (i == count)
		return points[count - 1].y;
	return points[i - 1].y +
	    (points[i].y - points[i - 1].y) * (x - points[i - 1].x) /
	    (points[i].x - points[i - 1].x);
}

double
espl__profile_speed(const struct espl__profile *p, struct espl_share share)
{
	double each;

	if (share.gpus == 0)
		return 0.0;
	if (share.packing <= 1)
		return interpolate_points(p->scaling, p->scaling_count, share.gpus);
	each = p->packing_count == 0
	    ? 1.0
	    : interpolate_points(p->packing, p->packing_count, share.packing);
	return each / share.packing;
}

double
espl__profile_type_speed(const struct espl__profile *p, const char *gpu_type)
{
	for (uint32_t i = 0; gpu_type != NULL && i < p->speed_count; i++)
		if (strcmp(p->speeds[i].gpu_type, gpu_type) == 0)
			return p->speeds[i].speed;
	return 1.0;
}

double
espl__profile_iteration_s(const struct espl__profile *p, struct espl_share share)
{
	double speed = espl__profile_speed(p, share);

	return speed > 0 ? espl__latency_mean(&p->iteration) / speed : INFINITY;
}

double
espl__latency_draw(const struct espl_latency *l, struct espl__rng *rng)
{
	double v = l->mean_s, sigma2;

	switch (l->kind) {
	case ESPL_NORMAL:
		if (!(l->sd_s > 0))
			break;
		/* Truncated, not cut off: below zero it is drawn again. */
		for (int i = 0; i < 64; i++) {
			v = l->mean_s + l->sd_s * espl__rng_normal(rng);
			if (v >= 0)
				return v;
		}
		break;
	case ESPL_LOGNORMAL:
		if (!(l->sd_s > 0) || !(l->mean_s > 0))
			break;
		sigma2 = log1p((l->sd_s / l->mean_s) * (l->sd_s / l->mean_s));
		v = exp(log(l->mean_s) - sigma2 / 2 + sqrt(sigma2) * espl__rng_normal(rng));
		break;
	case ESPL_EMPIRICAL:
		if (l->sample_count > 0)
			v = l->samples_s[(uint32_t)(espl__rng_uniform(rng) * l->sample_count)];
		break;
	default: break;
	}
	return v > 0 ? v : 0.0;
}

double
espl__latency_mean(const struct espl_latency *l)
{
	double sum = 0.0, a, tail;

	switch (l->kind) {
	case ESPL_NORMAL:
		if (!(l->sd_s > 0))
			break;
		a = -l->mean_s / l->sd_s;
		tail = 0.5 * erfc(a / sqrt(2.0));
		if (tail < 1e-9)
			return 0.0;
		return l->mean_s + l->sd_s * exp(-a * a / 2) / sqrt(2 * acos(-1.0)) / tail;
	case ESPL_EMPIRICAL:
		for (uint32_t i = 0; i < l->sample_count; i++)
			sum += l->samples_s[i];
		return l->sample_count > 0 ? sum / l->sample_count : l->mean_s;
	default: break;
	}
	return l->mean_s > 0 ? l->mean_s : 0.0;
}
