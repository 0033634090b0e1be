/* static.h - allocator static: its instance, and the choice of its cluster size. */
#ifndef STATIC_H
#define STATIC_H
#include <stdlib.h>
#include <espalier/allocator.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/follow.h>
#include <espalier/kit/roster.h>
#include <espalier/util.h>

enum { STATIC_GPUS, STATIC_OFFER, STATIC_MOST }; /* its options */

#define FIXED_MAGIC 0x4d0869f8u

struct fixed {
	uint32_t magic; /* FIXED_MAGIC */
	const struct espl_host *host;
	const char *offer_name;
	uint32_t option;   /* gpus as the user wants it, 0 choose */
	uint32_t gpus_max; /* of a plan; 0: no limit */
	uint32_t offer;    /* ESPL_ANY: not chosen yet */
	uint32_t gpus;     /* chosen; 0 not yet */
	struct espl_roster roster;
	struct espl_follow follow; /* with a plan in force */
};

static inline uint32_t
least_of(uint64_t a, uint64_t b)
{
	uint64_t least = a < b ? a : b;

	return least > UINT32_MAX ? UINT32_MAX : (uint32_t)least;
}

/* The most GPUs that the cloud sells of this offer and these experiments may hold; ESPL_ANY: no
 * limit. */
uint32_t allocator_static_ceiling(const struct espl_offer *,
    const struct espl_experiment *const *experiments, uint32_t count);
/* Without a plan: the size that the user fixed, or what the searches can use, into fixed->gpus. */
void allocator_static_choose_size(struct fixed *, const struct espl_alloc_view *);
/* The entry `plan` of struct espl_allocator_ops. */
espl_status allocator_static_plan(void *self, const struct espl_plan_view *,
    struct espl_plan_sink *, struct espl_error *);
#endif
