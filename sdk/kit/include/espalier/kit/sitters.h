/* espalier kit: sitters.h - which gangs are on which node, and undoing what was tried.
 *
 * For placers that move gangs to make room or to empty nodes: the index is built only when it is
 * asked for, in O(gangs), and a whole attempt (several gangs removed, others placed) can be
 * undone.
 *
 * Use: espl_sitters_begin in each call after espl_moves_gather; espl_sitters_index before the
 * fields from, who and move_of are read; espl_sitters_free in destroy.
 */
#ifndef ESPALIER_KIT_SITTERS_H
#define ESPALIER_KIT_SITTERS_H
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
struct espl_sitters {
	const struct espl_place_view *view; /* of the running call */
	struct espl_floor *floor;
	struct espl_moves *moves;
	struct espl_undo *undos;
	/* who[from[i] .. from[i + 1]): indices into view->gangs of those on floor node i;
	 * move_of[gang]: its move, or ESPL_ANY. */
	uint32_t *from, *who, *move_of;
	uint32_t undo_count, undo_room, from_room, who_room, move_of_room;
	uint32_t indexed; /* 0: the index is out of date */
	uint32_t here_room;
	uint32_t *here; /* scratch: gangs on each GPU */
};

void espl_sitters_free(struct espl_sitters *sitters);
void espl_sitters_begin(struct espl_sitters *sitters, const struct espl_place_view *view,
    struct espl_floor *floor, struct espl_moves *moves);

/* ---- trying and undoing ------------------------------------------------------------------ */

struct espl_mark espl_sitters_mark(const struct espl_sitters *sitters);
/* Restores floor and moves to the mark.  The index is then out of date. */
void espl_sitters_back(struct espl_sitters *sitters, struct espl_mark mark);
/* To be called before a move is changed, so that the change can be undone. */
void espl_sitters_remember(struct espl_sitters *sitters, uint32_t index);

/* ---- gangs on nodes ---------------------------------------------------------------------- */

/* Where a gang (index into view->gangs) is in the working copy.  Valid until the next change. */
const struct espl_slot *espl_sitters_slots(const struct espl_sitters *sitters, uint32_t gang,
    uint32_t *count);
/* Brings the index up to date.  1: it is; 0: out of memory (the floor's failed is set). */
int espl_sitters_index(struct espl_sitters *sitters);
/* Takes a gang off the floor; its move becomes open.  from and who still list it. */
void espl_sitters_vacate(struct espl_sitters *sitters, uint32_t gang);
/* GPUs whose gangs have ended, or have another place already and are about to leave, count as idle
 * on the floor from now on.  To be called before moves are settled.  0: out of memory (the floor's
 * failed is set). */
int espl_sitters_expect(struct espl_sitters *sitters);

#ifdef __cplusplus
}
#endif
#endif
