/* gangs.h - the processes of trials: their seats and their end. */
#ifndef ESPL__EXEC_GANGS_H
#define ESPL__EXEC_GANGS_H
#include "exec/state.h"

/* gangs.c */
struct espl__gang *espl__exec_gang(const struct espl__exec *, uint64_t id);
void espl__gang_heard(struct espl__exec *, struct espl__gang *);
int espl__gang_on(const struct espl__gang *, uint64_t node); /* has a slot there, or will have */
/* One of its nodes is unreachable. */
int espl__gang_unreachable(const struct espl__exec *, const struct espl__gang *);
void espl__exec_kill(struct espl__exec *, struct espl__gang *, espl_span grace, const char *fault);
void espl__gang_free(struct espl__exec *, struct espl__gang *); /* seats, lists, accounts */
int espl__gang_matches(const struct espl__gang *, const struct espl__item *);
void espl__gang_account(struct espl__exec *,
    struct espl__gang *); /* GPU time since it was done last */
int espl__seats_clear(const struct espl__exec *,
    const struct espl__item *); /* is its whole place free for it? */
int espl__exec_in_place(
    const struct espl__search *); /* can its gangs be resized while they live? */
int espl__gang_resize(struct espl__exec *, struct espl__gang *,
    const struct espl__item *); /* 1: it is asked for */
void espl__gang_resized(struct espl__exec *, const struct espl__event *);
void espl__gang_resize_off(struct espl__exec *,
    struct espl__gang *); /* frees the new slots that it did not move to */
/* A new gang: its last sign of life is now. */
void espl__gang_listen(struct espl__exec *x, struct espl__gang *g);
int espl__gang_holds(const struct espl_slot *slots, uint32_t count, const struct espl_slot *slot);
#endif
