/* call_private.h - what the files of policy/ share about a call that is under way. */
#ifndef ESPL__CALL_PRIVATE_H
#define ESPL__CALL_PRIVATE_H
#include "policy/call.h"

#define LLU(id_) ((unsigned long long)(id_)) /* an id, for %llu */

struct espl__call {
	struct espl__caller *caller;
	struct espl__instance *instance;
	int64_t began;
	struct espl_error error; /* for the plugin's entry */
};
/* entry: its name, for the message if the plugin crashes in it. */
void espl__call_begin(struct espl__call *, struct espl__caller *, struct espl__instance *,
    const char *entry);
espl_status espl__call_end(struct espl__call *, espl_status, struct espl__diag *);
/* ESPL_E_REJECTED, with a warning: what was asked for, by its numbers, and why that cannot be. */
espl_status espl__call_refuse(struct espl__call *, const char *format, ...) ESPL_PRINTF(2, 3);
/* wake_at of a policy: an instant that is not in the past. */
espl_status espl__call_wake(struct espl__call *, espl_time at, espl_time now);
void espl__call_record(struct espl__call *, const struct espl__op *);
#endif
