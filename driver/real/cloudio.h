/* cloudio.h - ESPL_IO for one cloud plugin on a libuv loop: HTTP, child processes, timers.
 *
 * Answers always come from the loop, never from within the submitting entry.
 */
#ifndef ESPL__CLOUDIO_H
#define ESPL__CLOUDIO_H
#include <uv.h>
#include <espalier/cloud.h>
#include "plugin/instance.h"
#include "real/reap.h"

struct espl__cloudio;
struct espl__cloudio_setup {
	uv_loop_t *loop;
	/* the user's cloud group: what files may be read as secrets; may be NULL */
	const struct espl__node *group;
	struct espl__pids *pids;  /* children started here are entered */
	void (*enter)(void *ctx); /* called before every call into the plugin */
	void *ctx;
};
espl_status espl__cloudio_new(const struct espl__cloudio_setup *, struct espl__cloudio **,
    struct espl__diag *);
const struct espl_io *espl__cloudio_service(struct espl__cloudio *);
/* The plugin is made after its service: from here on answers can be given. */
void espl__cloudio_bind(struct espl__cloudio *, struct espl__instance *);
/* Cancels all requests, ends all children; nothing is answered any more.  Before the plugin is
 * destroyed.  The loop must be run until its handles are closed. */
void espl__cloudio_cancel_all(struct espl__cloudio *);
/* Children or exchanges that have not closed yet (after cancel_all: run the loop until 0). */
int espl__cloudio_busy(const struct espl__cloudio *);
/* After the loop was closed. */
void espl__cloudio_free(struct espl__cloudio *);
#endif
