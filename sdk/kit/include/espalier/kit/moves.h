/* espalier kit: moves.h - builds the answer of a placer.
 *
 * It holds the gangs that need a place in this call (changed ones, and those without room in
 * earlier calls), the new place of each, and the order of the sink calls: first the gangs that
 * leave, then those that shrink or grow in place, then those that arrive.
 *
 * Use: espl_moves_gather, then for each open move find slots and espl_moves_settle it, then
 * espl_moves_keep and espl_moves_submit; espl_moves_free in destroy.
 */
#ifndef ESPALIER_KIT_MOVES_H
#define ESPALIER_KIT_MOVES_H
#include <espalier/kit/node_map.h>
#ifdef __cplusplus
extern "C" {
#endif

enum {
	ESPL_MOVE_OPEN = 1, /* has no place yet */
	ESPL_MOVE_STAYS,    /* resized where it is */
	ESPL_MOVE_GOES      /* has a new place */
};
struct espl_move {
	const struct espl_gang *gang;
	uint32_t at, count; /* its slots: moves->slots[at .. at + count) */
	uint32_t state, zero;
};
/* all zero to begin with */
struct espl_moves {
	struct espl_move *list;
	struct espl_slot *slots;
	uint64_t *pending; /* items to examine again in the next call */
	uint64_t *work;    /* scratch */
	uint32_t count, room, slot_count, slot_room;
	uint32_t pending_count, pending_room, work_room;
	uint32_t broken; /* 1: a call failed half way: examine all gangs in the next one */
};

void espl_moves_free(struct espl_moves *moves);
/* Index in view->gangs, or ESPL_ANY. */
uint32_t espl_gang_find(const struct espl_place_view *view, uint64_t item);
/* Does the gang hold what it was granted, on slots that it may keep? */
int espl_gang_is_settled(const struct espl_gang *gang);
/* Does it hold slots now? */
int espl_gang_holds(const struct espl_gang *gang);
/* Appends an open move and takes the gang's slots out of the node map. */
espl_status espl_moves_add(struct espl_moves *moves, struct espl_node_map *map,
    const struct espl_gang *gang);
/* Larger gangs first, shares of a GPU last, ties by item (RubberBand, algorithm 3). */
int espl_moves_by_size(const void *a, const void *b);
/* Is there anything to do in this call?  If not, espl_moves_gather need not be called. */
int espl_moves_needed(const struct espl_moves *moves, const struct espl_place_view *view);
/* Begins a call: the node map is loaded, and the gangs that need a place become open moves, largest
 * first.  A locked gang whose slots do not match its share is examined again in later calls.
 * ESPL_E_NOMEM. */
espl_status espl_moves_gather(struct espl_moves *moves, struct espl_node_map *map,
    const struct espl_place_view *view);
/* Room for the slots of a gang, to be filled and then settled; NULL: out of memory. */
struct espl_slot *espl_moves_room(struct espl_moves *moves, const struct espl_gang *gang);
/* The move takes the `count` slots just filled. */
void espl_moves_settle(struct espl_moves *moves, uint32_t index, uint32_t count, uint32_t state);
/* Settles each open move whose gang can get its share where it is. */
espl_status espl_moves_stay(struct espl_moves *moves, struct espl_node_map *map);
/* Last step: gangs of open moves whose old slots are still free keep them, train there, and are
 * checked again in the next call. */
espl_status espl_moves_keep(struct espl_moves *moves, struct espl_node_map *map);
/* Calls the sink.  All gangs of this call are examined again in the next one: those without a
 * place, and those whose new place the host may have refused. */
espl_status espl_moves_submit(struct espl_moves *moves, struct espl_place_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
