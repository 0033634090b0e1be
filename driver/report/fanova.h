/* fanova.h - how much of the variance of a metric each parameter explains by itself: fANOVA
 * (Hutter, Hoos and Leyton-Brown 2014) over a forest of regression trees.
 */
#ifndef ESPL__FANOVA_H
#define ESPL__FANOVA_H
#include <stdint.h>

#define ESPL__FANOVA_LABELS 64u /* of a choice; more share the last */

struct espl__fanova {
	uint32_t rows, columns;
	const double *values;   /* [column * rows + row]: in [0, 1], or the number of a label */
	const uint32_t *labels; /* [column]: of a choice; 0: the values are numbers */
	const double *metric;   /* [row], finite */
};
/* shares [column] become at least 0 and sum up to 1; all 0 where nothing varies.  The same for the
 * same data on every call. */
void espl__fanova(const struct espl__fanova *, double *shares);
#endif
