/* espalier SDK: placer.h - which rank runs on which GPU of which machine.
 *
 * Called after each accepted allocation and each change of nodes.  As with an allocator, an answer
 * is a list of changes that is applied as a whole: a gang that is not mentioned stays where it is.
 * A slot can be used if its GPU is not blocked, its node has the gang's owner and is of its offer,
 * and either the node is READY and neither retiring, quarantined nor unreachable, or the gang has
 * this very slot already.  The sink checks this call by call.  When the entry has returned, the
 * host checks that no GPU is given to more gangs than can share it, and that all on it have the
 * same packing; else it discards the answer.
 */
#ifndef ESPALIER_PLACER_H
#define ESPALIER_PLACER_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#ifdef __cplusplus
extern "C" {
#endif

/* One GPU (or 1/packing of it) of one node: the slot of one rank.  gpu: from 0 to the node's
 * gpu_count - 1; packing: 1, or that of the share. */
struct espl_slot {
	uint64_t node;
	uint32_t gpu, packing;
}; /* frozen, 16 bytes */

/* placed, but its processes are still starting or ending, or it is being resized: its slots are
 * reserved and may not be given to others (RubberBand's `reserved`).  A gang that MUST move is not
 * locked. */
#define ESPL_GANG_LOCKED 0x1u
#define ESPL_GANG_UNPLACED 0x2u /* holds no slots now */
#define ESPL_GANG_MUST 0x4u     /* is on a node that is lost, under notice or retiring */
#define ESPL_GANG_COLOCATE 0x8u /* must be on one node, or on whole nodes (RubberBand 4.4.1) */
/* the allocator wants it to make room on the GPU that it shares: it should move before others do */
#define ESPL_GANG_YIELDS 0x10u

struct espl_gang {
	uint32_t size;
	uint32_t flags;                /* ESPL_GANG_* */
	uint64_t item;                 /* id of the item it trains */
	struct espl_share share;       /* what it is to be placed with */
	uint32_t offer;                /* only nodes of this offer; ESPL_ANY: of any */
	uint32_t slot_count;           /* slots of its current placement: may differ from share */
	const struct espl_slot *slots; /* in order of rank, [slot_count] */
	uint64_t owner; /* owner of the nodes that it must use; NONE: nodes without an owner */
	double move_s;  /* seconds lost by moving it (a resize in place costs less);
			 * NaN unknown */
	uint64_t gpu_memory_bytes; /* per GPU, 0 unknown */
	/* not on the node before this number (its number + 1): it failed there, and may work
	 * elsewhere; 0: on any */
	uint64_t avoid;
};
struct espl_give_up {
	uint32_t offer, nodes;
}; /* frozen, 8 bytes: how many nodes of this offer */

struct espl_place_view {
	uint32_t size;
	uint32_t why; /* ESPL_WHY_* of fleet.h */
	espl_time now;
	const struct espl_gang *const *gangs; /* all with a grant, by item */
	/* those of `gangs` that are new, altered, displaced or MUST since the last call; the others
	 * may stay as they are */
	const struct espl_gang *const *changed;
	const struct espl_node *const *nodes; /* READY and NOTICE, by id */
	/* The counts of a GPU include all slots held or reserved there, also those of `gangs`. */
	const struct espl_give_up *give_up; /* nodes above target, per offer */
	uint32_t gang_count, changed_count, node_count, give_up_count;
};
struct espl_place_sink {
	uint32_t size, zero;
	/* Replaces the gang's placement: one slot per GPU, in order of rank (slots of one node
	 * together).  count 0: the gang waits; displace gangs like this first.  If called more than
	 * once for a gang, the last placement counts.  E_REJECTED: no such gang, a locked gang, not
	 * as many slots as its share has, a slot that it cannot use or twice, or slots on parts of
	 * several nodes for a gang with ESPL_GANG_COLOCATE. */
	espl_status (*place)(struct espl_place_sink *, uint64_t item, const struct espl_slot *,
	    uint32_t count);
	/* Names a node to release, ideally one that is empty after the moves, and as many nodes as
	 * give_up asks for.  A node that still holds gangs is released when it is empty; no gang
	 * may be placed there any more.  Nodes above target that are not named are released as soon
	 * as they are empty.  E_REJECTED: no such node. */
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
