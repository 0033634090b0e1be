/* cloudio_private.h - between cloudio.c, cloudio_http.c and cloudio_keys.c. */
#ifndef ESPL__CLOUDIO_PRIVATE_H
#define ESPL__CLOUDIO_PRIVATE_H
#include "base/buf.h"
#include "model/haste.h"
#include "real/cloudio.h"
#include "real/sigv4.h"

struct espl__http_hub;
struct espl__io_timer;
struct espl__io_child;
struct espl__io_keys;
#define ESPL__CLOUDIO_MAGIC 0x646b6872u
struct espl__cloudio {
	struct espl__cloudio_setup setup;
	uint32_t magic; /* ESPL__CLOUDIO_MAGIC */
	struct espl_io io;
	struct espl__instance *instance;
	const struct espl_cloud_ops *ops;
	int dead;                 /* cancel_all was called */
	struct espl__haste haste; /* of calls that it asked for at once */
	int answering; /* the plugin is called with an answer, and has not asked for more yet */
	int haste_said, negative_said; /* the warnings were given */
	struct espl__io_timer *timers;
	struct espl__io_child *children;
	struct espl__http_hub *http;
	struct espl__io_keys *keys; /* of AWS; NULL until a request needs some */
	struct espl__buf secret;    /* the value given last */
};
/* Like the plugin's own spawn, but answered here; cancelling a cookie does not end it. */
typedef void espl__io_answer(struct espl__cloudio *, const struct espl_child *);
espl_status espl__io_spawn(struct espl__cloudio *, const struct espl_spawn *, espl__io_answer *,
    struct espl_error *);

/* The keys that sign a request: valid until the loop runs again.  E_BUSY: they are being asked
 * for, and espl__http_keys_came is called. */
espl_status espl__io_keys_get(struct espl__cloudio *, const struct espl_http *,
    const struct espl__aws_keys **, struct espl_error *);
void espl__io_keys_refused(struct espl__cloudio *); /* look for newer ones */
void espl__io_keys_free(struct espl__cloudio *);

espl_status espl__http_new(struct espl__cloudio *, struct espl__http_hub **, struct espl__diag *);
espl_status espl__http_submit(struct espl__http_hub *, const struct espl_http *,
    struct espl_error *);
/* Signs and sends the requests that wait for keys; NULL: there are no keys, for the reason `why`.
 */
void espl__http_keys_came(struct espl__http_hub *, const struct espl__aws_keys *,
    espl_status status, const char *why);
void espl__http_cancel(struct espl__http_hub *, uint64_t cookie, int all);
void espl__http_stop(struct espl__http_hub *); /* closes its handles on the loop */
int espl__http_busy(const struct espl__http_hub *);
void espl__http_free(struct espl__http_hub *);
#endif
