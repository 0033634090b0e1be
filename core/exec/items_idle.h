/* items_idle.h - nothing is held idle while a trial that fits waits. */
#ifndef ESPL__EXEC_ITEMS_IDLE_H
#define ESPL__EXEC_ITEMS_IDLE_H
#include "exec/state.h"

/* After the placer: trials that have waited for ESPL__IDLE_PAUSE beside idle slots that they could
 * use get them. */
void espl__items_fill(struct espl__exec *);
espl_time espl__items_fill_at(const struct espl__exec *); /* when the next one does; NEVER */
#endif
