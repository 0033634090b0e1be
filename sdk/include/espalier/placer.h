/* espalier SDK: placer.h - which rank runs on which GPU of which machine.
 *
 * Called after each accepted allocation and each change of nodes.  Like the allocator's, an
 * answer is a transaction of changes: a gang that is not mentioned stays where it is.  The
 * host checks the whole: no GPU beyond its share, no blocked GPU, bindings and owners kept.
 */
#ifndef ESPALIER_PLACER_H
#define ESPALIER_PLACER_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#ifdef __cplusplus
extern "C" {
#endif

/* One GPU (or 1/packing of it) of one node: the slot of one rank.  gpu: from 0 to the node's
 * gpu_count - 1; packing: 1, or the share's. */
struct espl_slot {
	uint64_t node;
	uint32_t gpu, packing;
}; /* frozen, 16 bytes */

#define ESPL_GANG_LOCKED \
	0x1u                    /* placed, but its processes are still starting or ending: \
				 * its slots are reserved and may not be given to others \
				 * (RubberBand's `reserved`) */
#define ESPL_GANG_UNPLACED 0x2u /* holds nothing now */
#define ESPL_GANG_MUST 0x4u     /* is on a node that is lost, under notice or retiring */
#define ESPL_GANG_COLOCATE 0x8u /* one node, or whole nodes (RubberBand 4.4.1) */
#define ESPL_GANG_YIELDS \
	0x10u /* the allocator wants it to make room on the GPU that it \
	       * shares: it should move before others do */

struct espl_gang {
	uint32_t size;
	uint32_t flags;                /* ESPL_GANG_* */
	uint64_t item;                 /* id of the item it trains */
	struct espl_share share;       /* to be satisfied */
	uint32_t offer;                /* ESPL_ANY, or only nodes of it */
	uint32_t slot_count;           /* of the placement in force: may differ from share */
	const struct espl_slot *slots; /* in order of rank, [slot_count] */
	uint64_t owner;                /* the owner of the nodes it must use; NONE: shared ones */
	double move_s;                 /* seconds lost by moving it (a resize in place costs less);
					* NaN unknown */
	uint64_t gpu_memory_bytes;     /* per GPU, 0 unknown */
};
struct espl_give_up {
	uint32_t offer, nodes;
}; /* frozen, 8 bytes: how many of this offer */

struct espl_place_view {
	uint32_t size;
	uint32_t why; /* ESPL_WHY_* of fleet.h */
	espl_time now;
	const struct espl_gang *const *gangs;   /* all with a grant, by item */
	const struct espl_gang *const *changed; /* of these: new, altered, displaced or MUST since
						 * the last call; the others may stay as they are */
	const struct espl_node *const *nodes;   /* READY and NOTICE, by id */
	/* The numbers of a GPU include all slots held or reserved there, those of `gangs` too. */
	const struct espl_give_up *give_up; /* nodes above target, per offer */
	uint32_t gang_count, changed_count, node_count, give_up_count;
};
struct espl_place_sink {
	uint32_t size, zero;
	/* Replaces the gang's placement: one slot per GPU, in order of rank (slots of one node
	 * together).  count 0: it waits; call this for displaced gangs first.
	 * E_REJECTED: no such gang, a locked one, or a number of slots that is not its share's. */
	espl_status (*place)(struct espl_place_sink *, uint64_t item, const struct espl_slot *,
	    uint32_t count);
	/* This node is (after the moves) empty and may be released: ideally give_up of them.  One
	 * that still holds gangs is released when it is empty; no gang may be placed there any
	 * more.  Nodes above target that are not named are released as soon as they are empty.
	 * E_REJECTED: no such node. */
	espl_status (*give_up)(struct espl_place_sink *, uint64_t node);
};
struct espl_placer_ops {
	struct espl_ops head;
	/* Mandatory. */
	espl_status (*place)(void *self, const struct espl_place_view *, struct espl_place_sink *,
	    struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
