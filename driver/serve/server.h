/* server.h - the parts of `espalier serve`: clients, their requests, feeds of events.
 *
 * All run in one thread, between two calls of libmicrohttpd; what takes long has a process of its
 * own (child.h), for which requests and feeds are suspended.
 */
#ifndef ESPL__SERVER_H
#define ESPL__SERVER_H
#include <microhttpd.h>
#include "base/buf.h"
#include "serve/child.h"
#include "serve/request.h"
#include "serve/serve.h"
#include "serve/watch.h"

#define ESPL__SERVE_COMMANDS 4u /* cancel, submit, stop: at once */

/* a connection */
struct espl__client {
	struct espl__client *next;
	int fd;
	int known; /* it has shown the token */
	int64_t since;
};

struct espl__server;
struct espl__request {
	struct espl__request *next;
	struct espl__server *server;
	struct MHD_Connection *connection;
	struct espl__route route;
	int refused;   /* the answer has been given */
	int set_token; /* as a cookie: it was in the address */
	int suspended;
	int64_t since;
	struct MHD_PostProcessor *post;
	struct espl__buf value; /* of the form's one field */
	struct espl__child command;
};

/* an answer that does not end */
struct espl__feed {
	struct espl__feed *next;
	struct espl__server *server;
	struct MHD_Connection *connection;
	int fd;  /* of its connection; -1 unknown */
	int all; /* of the list of runs; else of `run` */
	uint32_t run;
	int suspended;
	int gone;           /* its client has closed the connection */
	uint64_t row, page; /* versions that were sent */
	int64_t sent;
	struct espl__buf out;
	size_t out_at;
};

#define ESPL__SERVER_MAGIC 0x73657276u
struct espl__server {
	uint32_t magic; /* ESPL__SERVER_MAGIC */
	const struct espl__serve_setup *setup;
	struct espl__watch *watch;
	/* key: for requests that change something, known to the page's script alone */
	char token[2 * ESPL__ACCESS_ROOM + 1], room[2 * ESPL__ACCESS_ROOM + 1],
	    key[2 * ESPL__ACCESS_ROOM + 1];
	int door;          /* where it listens */
	int64_t accept_at; /* tick: it could not accept, for want of descriptors, and waits until
			      then */
	struct espl__client *clients;
	uint32_t client_count;
	struct espl__request *requests;
	struct espl__feed *feeds;
	struct espl__buf draw_script;
	int ending;
};

/* request.c: admits a request, or answers why not. */
enum MHD_Result espl__request_admit(struct espl__request *, const char *url, const char *method);
/* Whether its page or output is ready. */
int espl__request_ready(struct espl__request *);
/* answer.c: answers a request that was admitted, or suspends it. */
enum MHD_Result espl__request_answer(struct espl__request *);
enum MHD_Result espl__answer_text(struct espl__request *, unsigned status, const char *text);
void espl__answer_scripts(struct espl__server *); /* once, before the first answer */
/* The end of a trial's log: at most its last `most` bytes, from the beginning of a line; E_UNKNOWN
 * where there is none. Follows no link below the run directory. */
espl_status espl__tail_log(const char *dir, uint64_t trial, size_t most, struct espl__buf *,
    struct espl__diag *);
/* live.js and live.css; the build writes live_page.c. */
extern const char espl__live_script[], espl__live_style[];
/* feed.c */
struct MHD_Response *espl__feed_open(struct espl__request *, int all);
/* Wakes feeds that have something to send. */
void espl__feed_tick(struct espl__server *);
#endif
