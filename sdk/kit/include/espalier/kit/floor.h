/* espalier kit: floor.h - the nodes' GPUs as a placer's working copy.
 *
 * Nodes are kept in lists by their number of idle GPUs, so that the best or the worst fit is
 * found in O(GPUs of a node); the GPUs of a node are looked at when it is first touched; every
 * change can be undone, so that a placer may try.
 *
 * Use: espl_floor_load at the beginning of a call; espl_floor_drop the slots of gangs that may
 * move; espl_floor_seat where they go; look at `failed` (out of memory) before telling the
 * sink; espl_floor_free in destroy.
 */
#ifndef ESPALIER_KIT_FLOOR_H
#define ESPALIER_KIT_FLOOR_H
#include <espalier/placer.h>
#ifdef __cplusplus
extern "C" {
#endif

/* one GPU, as in espl_gpu */
struct espl_floor_gpu {
	uint32_t residents, packing, blocked;
};
/* one node */
struct espl_stand {
	const struct espl_node *node;
	uint32_t cells;      /* index of its first cell; ESPL_ANY: not looked at yet */
	uint32_t idle;       /* whole GPUs that are free */
	uint32_t usable;     /* takes gangs: READY, not retiring, not closed by us */
	uint32_t prev, next; /* of the same idle number; ESPL_ANY none */
};
struct espl_step {
	uint32_t stand, gpu, packing;
	int32_t sign;
}; /* a change, for undoing */
/* all zero to begin with */
struct espl_floor {
	struct espl_stand *stands; /* as the view's nodes, by id */
	struct espl_floor_gpu *cells;
	struct espl_step *steps;
	uint32_t *heads; /* first stand with that many idle GPUs */
	uint32_t count, stand_room, cell_count, cell_room, step_count, step_room, head_room;
	uint32_t widest; /* most GPUs of one node */
	uint32_t failed; /* 1: out of memory: the working copy is worthless */
};

void espl_floor_free(struct espl_floor *floor);
/* Makes room for `count` elements of `size` bytes; NULL: out of memory, the old one stands. */
void *espl_floor_grow(void *at, uint32_t *room, uint32_t count, size_t size);
/* Begins a call: nodes are the view's, by id.  ESPL_E_NOMEM. */
espl_status espl_floor_load(struct espl_floor *floor, const struct espl_node *const *nodes,
    uint32_t count);
/* Index of a node, or ESPL_ANY (it is lost). */
uint32_t espl_floor_find(const struct espl_floor *floor, uint64_t node);
/* One GPU; NULL when out of memory (sets failed).  Valid until the next call of it. */
struct espl_floor_gpu *espl_floor_cell(struct espl_floor *floor, uint32_t i, uint32_t gpu);
void espl_floor_do(struct espl_floor *floor, uint32_t i, uint32_t gpu, uint32_t packing,
    int32_t sign);
/* Takes the slots of a gang away, or puts it back (sign 1); lost nodes are passed over. */
void espl_floor_drop(struct espl_floor *floor, const struct espl_slot *slots, uint32_t count,
    int32_t sign);
/* Undoes everything since step_count was `mark`. */
void espl_floor_undo(struct espl_floor *floor, uint32_t mark);
/* May the gang be placed on this node, if there is room?  offer: ESPL_ANY, or only this one's. */
int espl_floor_admits(const struct espl_floor *floor, uint32_t i, const struct espl_gang *gang,
    uint32_t offer);
/* The node with the fewest idle GPUs that still has `gpus` of them (best fit); `worst`: with the
 * most.  ESPL_ANY: none. */
uint32_t espl_floor_fit(const struct espl_floor *floor, const struct espl_gang *gang,
    uint32_t offer, uint32_t gpus, int worst);
/* Seats `gpus` workers on idle GPUs of one node, lowest first; slots receives them.  The node
 * must have as many idle ones: returns how many it had. */
uint32_t espl_floor_seat(struct espl_floor *floor, uint32_t i, uint32_t gpus, uint32_t packing,
    struct espl_slot *slots);
/* A GPU of node i that is shared in this degree and has room, or ESPL_ANY. */
uint32_t espl_floor_hole(struct espl_floor *floor, uint32_t i, uint32_t packing);
/* Puts one worker onto a GPU that is idle, or shared in this degree and with room; 0: neither. */
uint32_t espl_floor_join(struct espl_floor *floor, uint32_t i, uint32_t gpu, uint32_t packing,
    struct espl_slot *slot);
/* Seats the gang on whole idle nodes of one offer and size; 0: there are not enough. */
uint32_t espl_floor_seat_nodes(struct espl_floor *floor, const struct espl_gang *gang,
    struct espl_slot *slots);
/* The rest of a gang's share, on idle GPUs of one offer, beside the `done` slots it has: node by
 * node, the best fit first.  share.gpus; 0: there is no room, and nothing was changed. */
uint32_t espl_floor_seat_more(struct espl_floor *floor, const struct espl_gang *gang,
    uint32_t offer, struct espl_slot *slots, uint32_t done);
/* A gang that may straddle nodes, on as few as possible, all of one offer. */
uint32_t espl_floor_seat_over(struct espl_floor *floor, const struct espl_gang *gang,
    uint32_t offer, struct espl_slot *slots);
/* Is this node empty? */
int espl_floor_empty(struct espl_floor *floor, uint32_t i);
/* By node, then GPU, for qsort. */
int espl_slot_order(const void *a, const void *b);
/* Gives up surplus nodes that have no owner and are empty.  They accept no gang any more. */
void espl_floor_give_up(struct espl_floor *floor, const struct espl_place_view *view,
    struct espl_place_sink *sink);
/* Gives a gang whose old slots have been dropped its new share without moving it: a part of what
 * it had, or that and more beside it.  Fills share.gpus slots; 0: it has to move. */
uint32_t espl_floor_stay(struct espl_floor *floor, const struct espl_gang *gang,
    struct espl_slot *slots);

#ifdef __cplusplus
}
#endif
#endif
