/* effects.h - what every part of the executor may say and mark. */
#ifndef ESPL__EXEC_EFFECTS_H
#define ESPL__EXEC_EFFECTS_H
#include "exec/state.h"

/* effects.c */
struct espl__effect *espl__exec_effect(struct espl__exec *, enum espl__effect_type);
void espl__exec_note(struct espl__exec *, espl_subject, uint64_t id, const char *format, ...)
    ESPL_PRINTF(4, 5);
/* The same, and a warning in the log. */
void espl__exec_warn(struct espl__exec *, espl_subject, uint64_t id, const char *format, ...)
    ESPL_PRINTF(4, 5);
/* Ends the run: how, and for RUN_FAILED why (the first reason stands). */
void espl__exec_wind_up(struct espl__exec *, enum espl__run_end, const char *format, ...)
    ESPL_PRINTF(3, 4);
/* Whether the algorithm receives results: also while an interrupted run stops, because it will be
 * resumed. */
int espl__exec_hears(const struct espl__search *);
void espl__exec_capacity(struct espl__exec *); /* GPUs came free: algorithms are asked */
const char *espl__exec_unit(const struct espl__exec *, uint64_t count); /* "GPU", "slots", ... */
void espl__exec_why(struct espl__exec *, uint32_t why); /* call all allocators in this round */
void espl__exec_fails(struct espl__exec *, const char *what); /* the last failure is added */
void espl__exec_interrupt(struct espl__exec *, const char *format, ...)
    ESPL_PRINTF(2, 3); /* not for the search's fault */
/* Passes a note of `who` (a plugin) about a subject to all observers. */
void espl__exec_spread(const struct espl__exec *x, const char *who, espl_subject about, uint64_t id,
    const char *text);
#endif
