/* keep.h - the decisions of the keeper of a session; keeper.c carries them out.
 *
 * Pure: lines, bytes and times in; bytes and orders out. No descriptor, no clock.
 */
#ifndef ESPL__KEEP_H
#define ESPL__KEEP_H
#include "session/session.h"

#define ESPL__KEEP_WORD 40u /* longest lease and epoch */
#define ESPL__KEEP_UP ((size_t)1 << 20)

#define ESPL__KEEP_MAGIC 0x7065656bu
struct espl__keep {
	uint32_t magic; /* ESPL__KEEP_MAGIC */
	struct espl__stream stream;
	char epoch[ESPL__KEEP_WORD + 1];
	uint64_t driver; /* number of the present one: those of later drivers are greater */
	int64_t linger;
	int relay;   /* there is one, and a channel behind it */
	int in, out; /* the agent's standard input and output are open */
	/* Only whole messages pass, so that another driver can take over between two of them. */
	struct espl__buf down, up; /* for the agent; of the agent, not passed yet */
	int bye;                   /* the driver closes the session on purpose */
	int claimed;               /* a driver knows that the agent ended, or wants it to end */
	int64_t awaited_until;     /* a driver waits for the agent to end, if it lives; 0: none */
	int last;                  /* set by the keeper: a command is to run if it is orphaned */
	int64_t received_at;       /* tick at which --connect was last heard */
	int64_t acked_at;          /* ... at which it was last sent an ACK */
	int leaving;               /* the linger time is over: the agent was told to end */
	int64_t kill_at;           /* the agent is ending; 0: it is not */
	int64_t close_by;          /* the agent has ended; 0: it has not */
};
/* `id`: EPOCH, or EPOCH.DRIVER with a hexadecimal number.  -1: it is neither. */
int espl__keep_init(struct espl__keep *, const char *id, int64_t linger, int64_t now);
void espl__keep_free(struct espl__keep *);
/* A relay asks with a line "ID WORD" (session.h).  1: it is the relay from now on, and an earlier
 * one is none any more; 0: refused. */
int espl__keep_admit(struct espl__keep *, const char *line, int64_t now);
void espl__keep_lose(struct espl__keep *); /* the relay is gone */
/* Bytes of the relay; -1: no peer would send them, and it is gone. */
int espl__keep_receive(struct espl__keep *, const void *, size_t, int64_t now);
/* Is the agent read now?  It waits while nobody takes what it says, except at its end. */
int espl__keep_reads(const struct espl__keep *);
/* Bytes that the agent has written; its end. */
void espl__keep_send(struct espl__keep *, const void *, size_t);
void espl__keep_ended(struct espl__keep *, int64_t now);
/* Copies as many bytes as possible, to `down` and into the stream. Call it after each of the
 * others, and after bytes of `down` were written. */
void espl__keep_pass(struct espl__keep *, int64_t now);
/* Closes the agent's input: it ends everything on the node. */
void espl__keep_end(struct espl__keep *, int64_t now);
/* What is due.  1: the agent is to be killed. */
int espl__keep_tend(struct espl__keep *, int64_t now);
/* The session is over, and so is the keeper.  With `last`, a keeper whose agent ended by itself
 * while there was no driver stays for its linger time. */
int espl__keep_over(const struct espl__keep *, int64_t now);
/* It is over because no driver came within the linger time, and none has come since. */
int espl__keep_orphaned(const struct espl__keep *, int64_t now);
#endif
