/* cloudio_private.h - between cloudio.c and cloudio_http.c. */
#ifndef ESPL__CLOUDIO_PRIVATE_H
#define ESPL__CLOUDIO_PRIVATE_H
#include "base/buf.h"
#include "real/cloudio.h"

struct espl__http_hub;
struct espl__io_timer;
struct espl__io_child;
#define ESPL__CLOUDIO_MAGIC 0x646b6872u
struct espl__cloudio {
	struct espl__cloudio_setup setup;
	uint32_t magic; /* ESPL__CLOUDIO_MAGIC */
	struct espl_io io;
	struct espl__instance *instance;
	const struct espl_cloud_ops *ops;
	int dead; /* cancel_all was called */
	struct espl__io_timer *timers;
	struct espl__io_child *children;
	struct espl__http_hub *http;
	struct espl__buf secret; /* the value given last */
};
espl_status espl__http_new(struct espl__cloudio *, struct espl__http_hub **, struct espl__diag *);
espl_status espl__http_submit(struct espl__http_hub *, const struct espl_http *,
    struct espl_error *);
void espl__http_cancel(struct espl__http_hub *, uint64_t cookie, int all);
void espl__http_stop(struct espl__http_hub *); /* closes its handles on the loop */
int espl__http_busy(const struct espl__http_hub *);
void espl__http_free(struct espl__http_hub *);
#endif
