/* call_private.h - what the files of policy/ share about a call that is under way. */
#ifndef ESPL__CALL_PRIVATE_H
#define ESPL__CALL_PRIVATE_H
#include "kit/judge.h"
#include "policy/call.h"

struct espl__call {
	struct espl__caller *caller;
	struct espl__instance *instance;
	int64_t began;
	struct espl_judge judge;
	struct espl_error error; /* for the plugin's entry */
};
/* entry: its name, for the message if the plugin crashes in it. */
void espl__call_begin(struct espl__call *, struct espl__caller *, struct espl__instance *,
    const char *entry);
espl_status espl__call_end(struct espl__call *, espl_status, struct espl__diag *);
/* With a warning: a call of a sink is refused, for this reason.  Returns the judge's status. */
espl_status espl__call_refuse(struct espl__call *, const char *why);
/* Records the call if there is nothing against it. */
espl_status espl__call_take(struct espl__call *, const char *why, const struct espl__op *);
/* What the judge asks of a caller (ctx). */
const struct espl_node *espl__caller_node(void *ctx, uint64_t id);
const struct espl_item *espl__caller_item(void *ctx, uint64_t id);
const struct espl_gang *espl__caller_gang(void *ctx, uint64_t item);
void espl__call_record(struct espl__call *, const struct espl__op *);
#endif
