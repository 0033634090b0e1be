/* part.h - what a bench says of many figures: the one that so many of them are below. */
#ifndef BENCH_PART_H
#define BENCH_PART_H
#include <stdint.h>
#include <stdlib.h>

static inline int
part_order(const void *a, const void *b)
{
	const double *x = (const double *)a, *y = (const double *)b;

	return *x < *y ? -1 : *x > *y;
}

/* 0.5: the median, 1: the greatest; 0 if there are none.  Sorts them. */
static inline double
part(double *values, uint32_t count, double at)
{
	uint32_t i = (uint32_t)(at * count);

	qsort(values, count, sizeof *values, part_order);
	return count == 0 ? 0.0 : values[i < count ? i : count - 1];
}
#endif
