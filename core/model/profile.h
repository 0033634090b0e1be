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

/* How fast a GPU of this type is; the hardware that was profiled: 1. */
struct espl__gpu_speed {
	const char *gpu_type;
	double speed;
};
struct espl__profile {
	struct espl_latency iteration;         /* on one GPU */
	struct espl_point *scaling, *packing;  /* sorted by x, first x = 1, y = 1 */
	uint32_t scaling_count, packing_count; /* >= 1 scaling; packing 0: not known */
	struct espl_latency start, checkpoint, restore;
	struct espl_latency resize;     /* nothing is trained while a gang changes in place */
	struct espl__gpu_speed *speeds; /* of other GPU types; types not listed: 1 */
	uint32_t speed_count;
	int resizes; /* 1: `resize` is known; else it saves, starts and restores */
	int guessed; /* nothing is known: 1 s per iteration, no scaling */
	void *arena;
};
void espl__profile_free(struct espl__profile *);
/* Throughput of `gpus` GPUs relative to one; of one of `packing` trials on a GPU. */
double espl__profile_speed(const struct espl__profile *, struct espl_share);
/* The factor of the speed on GPUs of this type (NULL: the profiled type). */
double espl__profile_type_speed(const struct espl__profile *, const char *gpu_type);
/* Mean seconds of one iteration on this share of the profiled hardware. */
double espl__profile_iteration_s(const struct espl__profile *, struct espl_share);
/* A draw, never negative. */
double espl__latency_draw(const struct espl_latency *, struct espl__rng *);
double espl__latency_mean(
    const struct espl_latency *); /* of the truncated one: sampled means are not needed exactly */
#endif
