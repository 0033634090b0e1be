/* tick.h - monotonic nanoseconds, for statistics and real worlds only; never for a decision. */
#ifndef ESPL__TICK_H
#define ESPL__TICK_H
#include <stdint.h>
int64_t espl__tick(void);
/* Fixed-size digest of durations: any quantile within 2 % between 25 ns and 16 s, exact maximum
 * and count. */
struct espl__quantiles {
	uint64_t count;
	int64_t max;
	uint32_t bins[512];
};
void espl__quantiles_add(struct espl__quantiles *, int64_t ns);
void espl__quantiles_add_many(struct espl__quantiles *, int64_t ns,
    uint64_t count);                                                 /* each of ns */
double espl__quantiles_at(const struct espl__quantiles *, double q); /* ns; 0 if empty */
#endif
