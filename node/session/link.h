/* link.h - the decisions of the driver's end of a session; driver_end.c carries them out.
 *
 * Pure: bytes and times in; bytes and orders out. No descriptor, no clock.
 */
#ifndef ESPL__LINK_H
#define ESPL__LINK_H
#include "session/session.h"

enum espl__link_order {
	ESPL__LINK_WAIT = 0,
	ESPL__LINK_OPEN,  /* run the command that reaches the node */
	ESPL__LINK_CLOSE, /* end it; `why` says why */
	ESPL__LINK_EXIT   /* end it if there is one, and exit with `status` */
};

#define ESPL__LINK_MAGIC 0x6b6e696cu
struct espl__link {
	uint32_t magic; /* ESPL__LINK_MAGIC */
	struct espl__stream stream;
	int64_t patience;
	int insists;           /* tries again also before it has met the keeper (rejoin) */
	int channel;           /* the command runs */
	int heard;             /* it has brought something, at least once */
	unsigned tries;        /* of a first connection that was not made */
	int met;               /* the keeper has greeted us, at least once */
	int64_t received_at;   /* tick at which the channel last brought something */
	int64_t acked_at;      /* ... at which it was last sent an ACK */
	int64_t lost_at;       /* when the connection was lost; 0 while connected */
	int64_t next;          /* tick of the next attempt */
	int64_t pause;         /* until the one after */
	int64_t close_by;      /* the driver has closed its channel; 0: it has not */
	struct espl__buf news; /* lines for the driver (session.h); the writer drops them */
	const char *why;
	int status;
};
void espl__link_init(struct espl__link *, int64_t patience, int insists);
void espl__link_free(struct espl__link *);
void espl__link_opened(struct espl__link *, int64_t now);
/* Bytes from the channel; -1: no peer would send them, so the channel must be closed. */
int espl__link_receive(struct espl__link *, const void *, size_t, int64_t now);
/* The command has ended with this status, or could not be started.  random: of any kind, for the
 * pause.  -1: it is tried again; else the exit status.  A first connection is tried again only if
 * ssh was turned away at once, a few times. */
int espl__link_lost(struct espl__link *, int status, const char *why, uint32_t random, int64_t now);
void espl__link_end(struct espl__link *, int64_t now); /* the driver sends no more */
int espl__link_done(const struct espl__link *); /* all is sent and received: it exits with 0 */
enum espl__link_order espl__link_tend(struct espl__link *, int64_t now);
#endif
