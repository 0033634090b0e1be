/* gangs_start.h - starting gangs, and detecting silent ones. */
#ifndef ESPL__EXEC_GANGS_START_H
#define ESPL__EXEC_GANGS_START_H
#include "exec/state.h"

/* gangs.c */
void espl__gang_add(struct espl__exec *, struct espl__gang *); /* to the lists and accounts */
void espl__gang_account(struct espl__exec *,
    struct espl__gang *); /* GPU time since it was done last */
void espl__gang_show(struct espl__exec *, const struct espl__gang *, enum espl__gang_phase,
    const char *text);
int espl__gang_holds(const struct espl_slot *slots, uint32_t count, const struct espl_slot *slot);
/* It kept running when the driver was gone. */
void espl__gang_outlived(struct espl__gang *);
/* The driver was restarted: of the gangs that await a reply, keeps those that outlived it. */
void espl__gangs_return(struct espl__exec *);
void espl__gangs_rejoin(struct espl__exec *); /* those that outlived it are as any others now */

/* gangs_start.c */
void espl__gangs_start(struct espl__exec *, struct espl__item *); /* on its target, which is free */
int espl__gang_started(struct espl__exec *, struct espl__gang *); /* 1: it runs now */
int espl__gang_resize(struct espl__exec *, struct espl__gang *,
    const struct espl__item *); /* 1: it is asked for */
/* The resize in place that was asked for is called off: it goes on as it was. */
void espl__gang_stay(struct espl__exec *, struct espl__gang *);
int espl__gang_resized(struct espl__exec *, const struct espl__event *); /* 1: it was to be */
void espl__gang_reply(struct espl__exec *, struct espl__gang *, enum espl__directive);

/* gangs_silent.c */
void espl__gangs_limit(struct espl__exec *); /* those whose trials have trained for long enough */
espl_time espl__gangs_limit_next(const struct espl__exec *);
void espl__gangs_alarm(struct espl__exec *);           /* those silent for too long */
espl_time espl__gangs_next(const struct espl__exec *); /* when the first will be; NEVER */
/* The driver was held up: gangs that waited for replies were neither silent nor training. */
void espl__gangs_held(struct espl__exec *, espl_span late);
#endif
