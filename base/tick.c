/* tick.c - the only place where the core reads the clock; it keeps statistics of the times read. */
#include <math.h>
#include <time.h>
#include "base/assert.h"
#include "base/tick.h"

#define BIN_COUNT 512
#define BIN_FIRST_NS 25.0 /* lower edge of bin 0 */
#define BIN_RATIO 1.04    /* of one edge to the one before */

int64_t
espl__tick(void)
{
	struct timespec t;
	int rc = clock_gettime(CLOCK_MONOTONIC, &t);

	ESPL__ASSERT(rc == 0);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void
espl__quantiles_add(struct espl__quantiles *q, int64_t ns)
{
	espl__quantiles_add_many(q, ns, 1);
}

void
espl__quantiles_add_many(struct espl__quantiles *q, int64_t ns, uint64_t count)
{
	double at;
	int bin;

	if (count == 0)
		return;
	if (ns < 0)
		ns = 0;
	at = log((double)(ns > 0 ? ns : 1) / BIN_FIRST_NS) / log(BIN_RATIO);
	bin = at < 0 ? 0 : at >= BIN_COUNT ? BIN_COUNT - 1 : (int)at;
	q->bins[bin] =
	    count < UINT32_MAX - q->bins[bin] ? q->bins[bin] + (uint32_t)count : UINT32_MAX;
	if (q->count == 0 || ns > q->max)
		q->max = ns;
	q->count += count;
}

double
espl__quantiles_at(const struct espl__quantiles *q, double share)
{
	uint64_t rank, seen = 0;
	double value;
	int bin;

	if (q->count == 0)
		return 0.0;
	rank = (uint64_t)ceil(share * (double)q->count);
	if (rank < 1)
		rank = 1;
	if (rank >= q->count)
		return (double)q->max;
	for (bin = 0; bin < BIN_COUNT - 1; bin++) {
		seen += q->bins[bin];
		if (seen >= rank)
			break;
	}
	if (bin == BIN_COUNT - 1)
		return (double)q->max;
	value = BIN_FIRST_NS * pow(BIN_RATIO, bin + 0.5);
	return value < (double)q->max ? value : (double)q->max;
}
