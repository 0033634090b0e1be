/* answers.h - the answers of policies, journaled and replayed. */
#ifndef ESPL__EXEC_ANSWERS_H
#define ESPL__EXEC_ANSWERS_H
#include "exec/state.h"

/* answers.c */
/* Calls of an algorithm are made for its search: from here on until the next one. */
void espl__exec_turn(struct espl__exec *, struct espl__search *);
/* Takes the answer of the call just made: compares or replaces it by the recorded one, journals
 * it, and sets the reader.  `search`: the algorithm's, NULL for allocator and placer.  `status` of
 * the call; BUSY and failures leave an empty answer.  Not OK: the run cannot continue. */
espl_status espl__exec_answer(struct espl__exec *, struct espl__search *, struct espl__instance *,
    espl_status, struct espl__diag *why, struct espl__reader *, struct espl__diag *);
int espl__exec_next_op(struct espl__exec *, struct espl__reader *, struct espl__op *);
/* Reads the next recorded answer of the round that is replayed. */
void espl__answers_next(struct espl__exec *x);
#endif
