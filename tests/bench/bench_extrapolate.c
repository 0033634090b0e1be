/* bench_extrapolate.c - how long a prediction takes, by processor time, for each extrapolator and
 * several lengths of the prefix.  One JSON object a line; the median and p95 of noisy curves of
 * random shape.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "plugins/algorithms/spottune/extrapolate.h"

#define CURVES 300u
#define POINTS_MAX 10000u
#define ROUNDS 5 /* the least of them is taken */

static double
uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 11) * 0x1.0p-53;
}

static void
draw_curve(uint64_t *state, struct espl_point *points, uint32_t count)
{
	double rate = exp(4 * uniform(state) - 1) / count, power = 0.3 + uniform(state);
	double floor = uniform(state), noise = 0.05 * uniform(state);

	for (uint32_t i = 0; i < count; i++) {
		points[i].x = i + 1;
		points[i].y = (floor + pow(1 + rate * points[i].x, -power)) *
		    (1 + noise * (uniform(state) - 0.5));
	}
}

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int
compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int
main(void)
{
	static const char *const kinds[] = { "earlycurve", "slaq", "power", "damped" };
	static const uint32_t lengths[] = { 10, 50, 100, 1000, POINTS_MAX };
	static struct espl_point points[POINTS_MAX];
	static double took[CURVES];

	for (uint32_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
		for (uint32_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
			struct espl_extrapolator e;
			uint64_t state = 1;
			double value, sum = 0;
			char text[200];

			if (espl_extrapolator_read(&e, kinds[k], text, sizeof text) != NULL)
				return 1;
			for (uint32_t c = 0; c < CURVES; c++) {
				draw_curve(&state, points, lengths[l]);
				took[c] = INFINITY;
				for (int round = 0; round < ROUNDS; round++) {
					double from = now_us();

					(void)espl_extrapolate(&e, points, lengths[l],
					    1.4 * lengths[l], &value);
					took[c] = fmin(took[c], now_us() - from);
				}
				sum += value;
			}
			qsort(took, CURVES, sizeof *took, compare_reals);
			printf("{\"bench\": \"extrapolate\", \"extrapolator\": \"%s\", \"points\": "
			       "%u, \"median_us\": %.1f, \"p95_us\": %.1f, \"mean\": %.6f}\n",
			    kinds[k], lengths[l], took[CURVES / 2], took[CURVES * 95 / 100],
			    sum / CURVES);
		}
	return 0;
}
