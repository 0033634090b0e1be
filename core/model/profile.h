/* profile.h - how long a trial trains on how many GPUs: measured, or given by the user.
 *
 * Throughput is linear between the points of `scaling`, constant after the last (RubberBand,
 * docs/model.md).  All in seconds.  Formats: docs/config.md, `trial.profile`.
 */
#ifndef ESPL__PROFILE_H
#define ESPL__PROFILE_H
#include <espalier/fleet.h>
#include "base/rng.h"
#include "config/tree.h"

struct espl__profile {
	struct espl_latency iteration;         /* on one GPU */
	struct espl_point *scaling, *packing;  /* sorted by x, first x = 1, y = 1 */
	uint32_t scaling_count, packing_count; /* >= 1 scaling; packing 0: not known */
	struct espl_latency start, checkpoint, restore;
	struct espl_latency resize; /* nothing is trained while a gang changes in place */
	int resizes;                /* 1: `resize` is known; else it saves, starts and restores */
	int guessed;                /* nothing is known: 1 s per iteration, no scaling */
	void *arena;
};
/* node: GROUP in place, STRING path of a JSON or libconfig file (relative to directory), STRING
 * "auto" or NULL: the guessed one.  Refused: rising latency, falling or non-positive throughput,
 * unsorted or repeated points. */
espl_status espl__profile_load(const struct espl__node *, const char *directory,
    struct espl__profile **, struct espl__diag *);
void espl__profile_free(struct espl__profile *);
/* Throughput of `gpus` GPUs relative to one; of one of `packing` trials on a GPU. */
double espl__profile_speed(const struct espl__profile *, struct espl_share);
/* Mean seconds of one iteration on this share. */
double espl__profile_iteration_s(const struct espl__profile *, struct espl_share);
/* A draw, never negative. */
double espl__latency_draw(const struct espl_latency *, struct espl__rng *);
double espl__latency_mean(
    const struct espl_latency *); /* of the truncated one: sampled means are not needed exactly */
#endif
