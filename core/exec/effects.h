/* effects.h - what every part of the executor may do: effects for the world, notes for observers,
 * the end of the run, and the answers of policies, journaled and replayed.
 */
#ifndef ESPL__EXEC_EFFECTS_H
#define ESPL__EXEC_EFFECTS_H
#include "exec/state.h"

/* Calls this entry of every observer that has it. */
#define ESPL__OBSERVE(x_, entry_, ...) \
	do { \
		for (struct espl__observer *o_ = (x_)->setup.observers; o_ != NULL; o_ = o_->next) \
			if (o_->entry_ != NULL) \
				o_->entry_(o_->ctx, (x_)->now, __VA_ARGS__); \
	} while (0)

/* effects.c */
struct espl__effect *espl__exec_effect(struct espl__exec *, enum espl__effect_type);
void espl__exec_note(struct espl__exec *, espl_subject, uint64_t id, const char *format, ...)
    ESPL_PRINTF(4, 5);
/* The same, and a warning in the log. */
void espl__exec_warn(struct espl__exec *, espl_subject, uint64_t id, const char *format, ...)
    ESPL_PRINTF(4, 5);
/* Passes a note of `who` (a plugin) about a subject to all observers. */
void espl__exec_spread(const struct espl__exec *x, const char *who, espl_subject about, uint64_t id,
    const char *text);
/* Ends the run: how, and the reason for RUN_FAILED (the first one is kept). */
void espl__exec_wind_up(struct espl__exec *, enum espl__run_end, const char *format, ...)
    ESPL_PRINTF(3, 4);
void espl__exec_fails(struct espl__exec *, const char *what); /* the last failure is added */
void espl__exec_interrupt(struct espl__exec *, const char *format, ...)
    ESPL_PRINTF(2, 3); /* for a reason outside the search */
const char *espl__exec_unit(const struct espl__exec *, uint64_t count); /* "GPU", "slots", ... */

/* answers.c */
#define ESPL__FAILED_FOR_GOOD UINT8_MAX
/* Takes the answer of the call just made: compares or replaces it by the recorded one, journals
 * it, and sets the reader.  `status` of the call; BUSY and failures leave an empty answer.
 * `failures`: of this plugin in a row, ESPL__FAILED_FOR_GOOD if it may not fail once more: the
 * caller ends the search or the run.  Not OK: the run cannot continue. */
espl_status espl__exec_answer(struct espl__exec *, struct espl__instance *, uint8_t *failures,
    espl_status, struct espl__diag *why, struct espl__reader *, struct espl__diag *);
/* Ends the run if this plugin failed for good, of which `why` is the last failure. */
void espl__exec_failed(struct espl__exec *, const struct espl__instance *, uint8_t failures,
    const struct espl__diag *why);
int espl__exec_next_op(struct espl__exec *, struct espl__reader *, struct espl__op *);
/* Reads the next recorded answer of the round that is replayed. */
void espl__answers_next(struct espl__exec *x);
#endif
