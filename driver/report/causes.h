/* causes.h - why trials failed, and which values of parameters those that failed share.
 *
 * Kept trial by trial, as they end, by each observer that fills totals.
 */
#ifndef ESPL__CAUSES_H
#define ESPL__CAUSES_H
#include <espalier/algorithm.h>
#include <espalier/space.h>
#include "base/buf.h"

#define ESPL__CAUSES_MAX 8u
struct espl__cause {
	char text[80];
	uint64_t count;
};
/* The values of one parameter among trials. */
struct espl__range {
	double low, high;
	uint64_t count; /* trials in which it is active */
};
struct espl__causes {
	uint64_t failed, others; /* trials that failed; others that have ended or paused */
	struct espl__cause list[ESPL__CAUSES_MAX]; /* beyond: counted as failed alone */
	uint32_t count, params;
	struct espl__range *of_failed, *of_others; /* [params] */
	uint64_t ended;                            /* trial whose processes ended last, and why */
	char text[512];
};
void espl__causes_free(struct espl__causes *);
/* The processes of a trial ended for this reason; NULL: for none. */
void espl__causes_gang(struct espl__causes *, uint64_t trial, const char *text);
/* A trial has failed, or has ended or paused for the first time; space: NULL where trials are of
 * several. */
void espl__causes_trial(struct espl__causes *, const struct espl_trial *,
    const struct espl_space *);
/* ", all out of memory, all with layers >= 10"; nothing where no trial failed. */
void espl__causes_text(const struct espl__causes *, const struct espl_space *, struct espl__buf *);
#endif
