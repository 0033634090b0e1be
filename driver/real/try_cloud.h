/* try_cloud.h - the configured cloud without a run: does it work, and which machines are there? */
#ifndef ESPL__TRY_CLOUD_H
#define ESPL__TRY_CLOUD_H
#include <espalier/cloud.h>
#include "base/diag.h"
#include "config/run.h"

/* Starts the cloud, which finds its machines and logs what it finds, and ends it again; leases
 * nothing.  Clouds without I/O have nothing to try. */
espl_status espl__try_cloud(const struct espl__run_config *, struct espl__diag *);

/* A machine that the provider lists. */
struct espl__owned {
	char *token, *run, *id, *address, *offer, *market; /* NULL: unknown */
	espl_node_state state;
	int64_t billed_utc_s;  /* 0: unknown */
	espl_money price_hour; /* of its offer now; -1: unknown */
	espl_money charged;    /* the provider's figure after its release; -1: unknown */
};

/* A cloud that was started to look at machines or to release them. */
struct espl__visit;
/* dir: of the run whose machines are meant, absolute, or NULL; it must stay until the end.
 * idle: that run does not run meanwhile, and its machines are to be released.
 * *visit NULL: machines of this cloud never outlive a run, so there is nothing to visit. */
espl_status espl__visit_begin(const struct espl__run_config *, const char *dir, int idle,
    struct espl__visit **, struct espl__diag *);
void espl__visit_end(struct espl__visit *);
/* All machines of this user's runs (run NULL), or of one; valid until the next call. */
espl_status espl__visit_owned(struct espl__visit *, const char *run, struct espl__owned **list,
    uint32_t *count, struct espl__diag *);
/* Releases those of the list for which `chosen` is set; calls `ended` for each as it ends.
 * E_LIMIT: not all have ended within `limit`. */
espl_status espl__visit_release(struct espl__visit *, const uint8_t *chosen, espl_span limit,
    void (*ended)(void *ctx, const struct espl__owned *), void *ctx, struct espl__diag *);
#endif
