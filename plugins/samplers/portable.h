/* portable.h - exp, log and the normal distribution from the four operations and sqrt alone, so
 * that a model decides the same on every processor, whatever its mathematical library.
 */
#ifndef SAMPLERS_PORTABLE_H
#define SAMPLERS_PORTABLE_H

/* To about 1e-15, relatively; 0 below -708, capped at 709. */
double portable_exp(double x);
/* x > 0; else -708. */
double portable_log(double x);
/* The standard normal distribution function, to 1e-13. */
double portable_normal(double x);
/* log(phi(z) + z Phi(z)): the logarithm of the expected improvement of a normal whose mean lies z
 * deviations below the best, in deviations.  Exact also far below, where the sum would be 0. */
double portable_log_improvement(double z);

#define PORTABLE_STEPS 256u /* of a table from -8 to 8 */
/* Phi by cubic interpolation, to 1e-7, for sums of many. */
struct portable_table {
	double value[PORTABLE_STEPS + 1], slope[PORTABLE_STEPS + 1];
};
void portable_table_init(struct portable_table *);
double portable_table_normal(const struct portable_table *, double x);

#endif
