/* searches_confirm.h - experiment.confirm: the best configurations, trained again at the end. */
#ifndef ESPL__EXEC_SEARCHES_CONFIRM_H
#define ESPL__EXEC_SEARCHES_CONFIRM_H
#include "exec/questions.h"
#include "exec/state.h"

/* The search has found what it will find: 1, if there is something to confirm, which now trains. */
int espl__search_confirm(struct espl__search *);
int espl__search_confirms(const struct espl__search *); /* such trials train */
void espl__search_confirm_again(struct espl__search *); /* it has been extended */
void espl__search_confirmation(const struct espl__search *, struct espl__confirmation *);
#endif
