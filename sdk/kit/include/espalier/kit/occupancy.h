/* espalier kit: occupancy.h - which gangs are on which node, and undoing attempts.
 *
 * For placers that move gangs to make room or to empty nodes: the index is built only when it is
 * needed, in O(gangs), and a whole attempt (several gangs removed, others placed) can be undone.
 *
 * Use: espl_occupancy_begin in each call after espl_moves_gather; espl_occupancy_index before the
 * fields from, gangs and move_of are read; espl_occupancy_free in destroy.
 */
#ifndef ESPALIER_KIT_OCCUPANCY_H
#define ESPALIER_KIT_OCCUPANCY_H
#include <espalier/kit/moves.h>
#ifdef __cplusplus
extern "C" {
#endif

struct espl_undo {
	uint32_t index, zero;
	struct espl_move was;
};
struct espl_mark {
	uint32_t steps, moves, slots, undos;
}; /* a point to return to */
/* all zero to begin with */
struct espl_occupancy {
	const struct espl_place_view *view; /* of the running call */
	struct espl_node_map *map;
	struct espl_moves *moves;
	struct espl_undo *undos;
	/* gangs[from[i] .. from[i + 1]): indices into view->gangs of those on node i of the map;
	 * move_of[gang]: its move, or ESPL_ANY. */
	uint32_t *from, *gangs, *move_of;
	uint32_t undo_count, undo_room, from_room, gangs_room, move_of_room;
	uint32_t indexed; /* 0: the index is out of date */
	uint32_t counts_room;
	uint32_t *counts; /* scratch: gangs on each GPU */
};

void espl_occupancy_free(struct espl_occupancy *occupancy);
void espl_occupancy_begin(struct espl_occupancy *occupancy, const struct espl_place_view *view,
    struct espl_node_map *map, struct espl_moves *moves);

/* ---- trying and undoing ------------------------------------------------------------------ */

struct espl_mark espl_occupancy_mark(const struct espl_occupancy *occupancy);
/* Restores node map and moves to the mark.  The index is then out of date. */
void espl_occupancy_restore(struct espl_occupancy *occupancy, struct espl_mark mark);
/* To be called before a move is changed, so that the change can be undone. */
void espl_occupancy_save_move(struct espl_occupancy *occupancy, uint32_t index);

/* ---- gangs on nodes ---------------------------------------------------------------------- */

/* Where a gang (index into view->gangs) is in the working copy.  Valid until the next change. */
const struct espl_slot *espl_occupancy_slots(const struct espl_occupancy *occupancy, uint32_t gang,
    uint32_t *count);
/* Brings the index up to date.  1: it is; 0: out of memory (the map's failed is set). */
int espl_occupancy_index(struct espl_occupancy *occupancy);
/* Removes a gang from the node map; its move becomes open.  from and gangs still list it. */
void espl_occupancy_vacate(struct espl_occupancy *occupancy, uint32_t gang);
/* Treats GPUs whose gangs have ended, or have another place already and are about to leave, as idle
 * in the node map from now on. Call it before moves are settled. 0: out of memory (the map's failed
 * is set). */
int espl_occupancy_expect(struct espl_occupancy *occupancy);

#ifdef __cplusplus
}
#endif
#endif
