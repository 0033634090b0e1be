/* espalier kit: node_map.h - a placer's working copy of the nodes' GPUs.
 *
 * Nodes are kept in lists by their number of idle GPUs, so that the best or the worst fit is found
 * in O(GPUs of a node); the GPUs of a node are read when it is first used; every change can be
 * undone, so that a placer can try alternatives.
 *
 * Use: espl_node_map_load at the beginning of a call; espl_node_map_drop the slots of gangs that
 * may move; espl_node_map_place those of gangs that move; check `failed` (out of memory) before
 * calling the sink; espl_node_map_free in destroy.
 */
#ifndef ESPALIER_KIT_NODE_MAP_H
#define ESPALIER_KIT_NODE_MAP_H
#include <espalier/kit/array.h>
#include <espalier/placer.h>
#ifdef __cplusplus
extern "C" {
#endif

/* one GPU, as in espl_gpu */
struct espl_node_map_gpu {
	uint32_t residents, packing, blocked;
};
/* one node */
struct espl_node_map_entry {
	const struct espl_node *node;
	uint32_t cells;      /* index of its first cell; ESPL_ANY: not read yet */
	uint32_t idle;       /* whole GPUs that are free */
	uint32_t usable;     /* accepts gangs: READY, not retiring, not given up in this call */
	uint32_t prev, next; /* of the same idle number; ESPL_ANY none */
};
struct espl_node_map_step {
	uint32_t entry, gpu, packing;
	int32_t sign;
}; /* a change, for undoing */
/* all zero to begin with */
struct espl_node_map {
	struct espl_node_map_entry *entries; /* one for each node of the view, by id */
	struct espl_node_map_gpu *cells;
	struct espl_node_map_step *steps;
	uint32_t *heads; /* first entry with that many idle GPUs */
	uint32_t count, entry_room, cell_count, cell_room, step_count, step_room, head_room;
	uint32_t widest; /* most GPUs of one node */
	uint32_t failed; /* 1: out of memory: the working copy must not be used */
};

void espl_node_map_free(struct espl_node_map *map);
/* Begins a call: nodes are the view's, by id.  ESPL_E_NOMEM. */
espl_status espl_node_map_load(struct espl_node_map *map, const struct espl_node *const *nodes,
    uint32_t count);
/* Index of a node, or ESPL_ANY (it is lost). */
uint32_t espl_node_map_find(const struct espl_node_map *map, uint64_t node);
/* One GPU; NULL when out of memory (sets failed).  Valid until the next call of it. */
struct espl_node_map_gpu *espl_node_map_cell(struct espl_node_map *map, uint32_t i, uint32_t gpu);
void espl_node_map_change(struct espl_node_map *map, uint32_t i, uint32_t gpu, uint32_t packing,
    int32_t sign);
/* Removes the slots of a gang, or restores them (sign 1); lost nodes are skipped. */
void espl_node_map_drop(struct espl_node_map *map, const struct espl_slot *slots, uint32_t count,
    int32_t sign);
/* Undoes every change made since step_count was `mark`. */
void espl_node_map_undo(struct espl_node_map *map, uint32_t mark);
/* May the gang be placed on this node, if there is room?  offer: ESPL_ANY, or only this one's. */
int espl_node_map_admits(const struct espl_node_map *map, uint32_t i, const struct espl_gang *gang,
    uint32_t offer);
/* The node with the fewest idle GPUs that still has `gpus` of them (best fit); `worst`: with the
 * most.  ESPL_ANY: none. */
uint32_t espl_node_map_find_fit(const struct espl_node_map *map, const struct espl_gang *gang,
    uint32_t offer, uint32_t gpus, int worst);
/* Places `gpus` workers on idle GPUs of one node, lowest first; slots receives them.  The node
 * must have as many idle ones: returns how many it had. */
uint32_t espl_node_map_place(struct espl_node_map *map, uint32_t i, uint32_t gpus, uint32_t packing,
    struct espl_slot *slots);
/* Finds a GPU of node i that is shared with this packing and has room, or ESPL_ANY. */
uint32_t espl_node_map_find_hole(struct espl_node_map *map, uint32_t i, uint32_t packing);
/* Places one worker on a GPU that is idle, or is shared with this packing and has room; 0: it is
 * neither. */
uint32_t espl_node_map_join(struct espl_node_map *map, uint32_t i, uint32_t gpu, uint32_t packing,
    struct espl_slot *slot);
/* Places the gang on whole idle nodes of one offer and size; 0: there are not enough. */
uint32_t espl_node_map_place_on_nodes(struct espl_node_map *map, const struct espl_gang *gang,
    struct espl_slot *slots);
/* Places the rest of a gang's share on idle GPUs of one offer, in addition to its `done` slots:
 * node by node, the best fit first. share.gpus; 0: there is no room, and nothing was changed. */
uint32_t espl_node_map_place_rest(struct espl_node_map *map, const struct espl_gang *gang,
    uint32_t offer, struct espl_slot *slots, uint32_t done);
/* Places a gang that may span nodes on as few nodes as possible, all of one offer. */
uint32_t espl_node_map_place_across(struct espl_node_map *map, const struct espl_gang *gang,
    uint32_t offer, struct espl_slot *slots);
/* Is this node empty? */
int espl_node_map_is_empty(struct espl_node_map *map, uint32_t i);
/* By node, then GPU, for qsort. */
int espl_slot_order(const void *a, const void *b);
/* Gives up surplus nodes that have no owner and are empty.  They accept no gang any more. */
void espl_node_map_give_up(struct espl_node_map *map, const struct espl_place_view *view,
    struct espl_place_sink *sink);
/* Gives a gang whose old slots have been dropped its new share without moving it: a part of its old
 * slots, or all of them and more. Fills share.gpus slots; 0: it has to move. */
uint32_t espl_node_map_stay(struct espl_node_map *map, const struct espl_gang *gang,
    struct espl_slot *slots);

#ifdef __cplusplus
}
#endif
#endif
