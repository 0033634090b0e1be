/* mover.h - sealed directories (checkpoint/checkpoint.h), and output directories of trials
 * (transfer/outputs.h), that move over the channel between driver and agent.
 *
 * Each end has a mover.  A directory has a name, the same at both ends, and each end knows the
 * place that belongs to it.  `put` gives the other end what is here; `get` asks it for what is
 * there. Whatever has the digest already is not sent again, so that both can be repeated at any
 * time.
 *
 * An output directory can only be put.  Its chunks come after those of all sealed ones, and it
 * never goes to a bucket.
 *
 * What moves is cut into chunks, which wait until the other end has taken those before.  How much
 * may be on its way follows from how long that takes: a chunk never waits behind more than a
 * few ms of others, and neither does any other message.  Messages of the movers themselves,
 * and everything else on the channel, come before chunks.
 *
 * The channel loses nothing while both ends live.  An end whose other end is a new process calls
 * restart: what had not come to its end begins again, and partial directories are removed.
 *
 * Nothing here waits: files are read and written by tasks that the user runs in threads.
 */
#ifndef ESPL__MOVER_H
#define ESPL__MOVER_H
#include "base/buf.h"
#include "base/diag.h"

struct espl__move;
struct espl__mover;

struct espl__mover_ops {
	void *ctx;
	/* Malloc'd path of the directory of this name, which comes or goes; NULL: there can be
	 * none, or the other end has no business with it. */
	char *(*place)(void *ctx, const char *name, int incoming);
	/* Calls espl__move_work in a thread, then espl__move_done in the loop. */
	void (*work)(void *ctx, struct espl__move *);
	/* The directory is durable at the other end, or never will be (diag).  Of an output
	 * directory, the text says what is missing there although the status is ESPL_OK. */
	void (*put)(void *ctx, const char *name, const struct espl__diag *);
	/* It is durable here, because it was asked for or put by the other end; or it was asked
	 * for and cannot be had (diag). */
	void (*got)(void *ctx, const char *name, const struct espl__diag *);
	/* NULL: the content goes over the channel. Otherwise the directory is in a bucket, or will
	 * be, and lines are exchanged (espl__move_send_line) until espl__move_stored. */
	void (*store)(void *ctx, struct espl__move *);
	/* A line of the other end.  The first one moves a directory that is not ours to send on. */
	void (*line)(void *ctx, struct espl__move *, const char *text);
	/* The move ends: frees what espl__move_slot holds.  Also after espl__mover_free. */
	void (*gone)(void *ctx, struct espl__move *);
};
/* What was moved, for people. */
struct espl__moved {
	uint64_t count, bytes;
	int64_t ns; /* from offer to end, added up */
};

/* Numbers of offers begin above `first`, which no earlier mover of this end may have used: such as
 * a tick. */
struct espl__mover *espl__mover_new(const struct espl__mover_ops *, uint64_t first);
/* Calls none of the ops from now on; freed when the last task is done. */
void espl__mover_free(struct espl__mover *);
void espl__mover_put(struct espl__mover *, const char *name);
/* An output directory need not be put any more.  What has arrived of it stays. */
void espl__mover_cancel(struct espl__mover *, const char *name);
void espl__mover_get(struct espl__mover *, const char *name); /* once, if asked for twice */
void espl__mover_restart(struct espl__mover *);
/* Takes a message; -1: it is not one of a mover. */
int espl__mover_receive(struct espl__mover *, uint8_t type, struct espl__reader *, int64_t now);
/* Appends what may be sent now, while out has less than `most` bytes.  Returns how many. */
size_t espl__mover_pump(struct espl__mover *, struct espl__buf *out, size_t most, int64_t now);
/* Whether anything moves whose name begins like this, and has made progress since the tick. */
int espl__mover_busy(const struct espl__mover *, const char *prefix, int64_t since);
enum { ESPL__MOVED_IN = 0, ESPL__MOVED_OUT, ESPL__MOVED_OUTPUTS, ESPL__MOVED_KINDS };
const struct espl__moved *espl__mover_sums(const struct espl__mover *, int kind);

/* For callers that use a bucket. */
struct espl__move_view {
	const char *name, *place;
	int outgoing;
	uint64_t digest, size;
};
struct espl__move_view espl__move_view(const struct espl__move *);
void **espl__move_slot(struct espl__move *); /* the user's, at first NULL */
void espl__move_send_line(struct espl__move *, const char *line);
/* The taker has the directory, durable, or never will (diag): the last word about the move. */
void espl__move_stored(struct espl__move *, const struct espl__diag *, int64_t now);
void espl__move_work(struct espl__move *);
void espl__move_done(struct espl__move *, int64_t now);
#endif
