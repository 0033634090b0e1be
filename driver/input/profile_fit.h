/* profile_fit.h - from single measurements to a profile: means with their spread, and throughput
 * that does not fall.
 */
#ifndef ESPL__PROFILE_FIT_H
#define ESPL__PROFILE_FIT_H
#include <stdint.h>

/* Mean and spread of what was added, in one pass (Welford). */
struct espl__tally {
	uint64_t count;
	double mean, squares;
};
void espl__tally_add(struct espl__tally *, double);
/* As if the other's had been added, too. */
void espl__tally_merge(struct espl__tally *, const struct espl__tally *);
double espl__tally_sd(const struct espl__tally *); /* of the sample; 0 below two values */
/* Standard error of the mean as a part of the mean; INFINITY below two values or at mean 0. */
double espl__tally_error(const struct espl__tally *);

/* The nearest values that do not fall: weighted least squares (pool adjacent violators).  The
 * first one stays as it is, and what would lie below it is raised to it.  Weights above 0. */
void espl__fit_rising(double *values, const double *weights, uint32_t count);
#endif
