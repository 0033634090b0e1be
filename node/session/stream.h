/* stream.h - a stream of bytes in each direction over channels that break.
 *
 * Each end numbers the bytes that it sends and keeps them until the other end has them.  When a
 * channel breaks, the next one begins with two greetings: how much each end has received.  Each
 * then continues with the first byte that the other lacks, so that every byte arrives once and in
 * order, whatever was lost on the way.
 *
 * Frame: u8 type, u64 number, u32 size (at most 64 KiB), payload, u32 CRC-32C over the four.
 *   GREETING  number: bytes received so far; first on every channel, in both directions
 *   DATA      number: of its first byte
 *   END       number: of bytes before it; counts as a byte itself.  The sender has no more.
 *   ACK       number: bytes received and taken by the user.  Also a sign of life.
 *
 * Pure: bytes in, bytes out; no descriptor, no clock.
 */
#ifndef ESPL__STREAM_H
#define ESPL__STREAM_H
#include "base/buf.h"

#define ESPL__STREAM_MAGIC 0x736d7472u
#define ESPL__STREAM_WINDOW ((size_t)16 << 20) /* bytes on their way, or not taken yet */
struct espl__stream {
	uint32_t magic;        /* ESPL__STREAM_MAGIC */
	int open;              /* greetings were exchanged on this channel */
	uint64_t base;         /* the other end has all bytes before this one */
	struct espl__buf kept; /* from there on, behind `gone` bytes */
	size_t gone;
	size_t sent;            /* how many of these the present channel was given */
	uint64_t got;           /* bytes received, END among them */
	uint64_t acked;         /* ... of which the other end knows */
	int ending, end_sent;   /* the input has ended; this channel was told so */
	int end_known;          /* the other end knows */
	int over;               /* the other end has sent its END */
	struct espl__buf in;    /* of the channel: no whole frame yet */
	struct espl__buf out;   /* for the channel; the writer drops what was written */
	struct espl__buf ready; /* for the user: received in order; dropped in the same way */
};
void espl__stream_init(struct espl__stream *);
void espl__stream_free(struct espl__stream *);
/* A new channel: discards what the last one left half done, and puts a greeting into out. */
void espl__stream_connect(struct espl__stream *);
/* Bytes received from the channel. -1: the other end would not send them. */
int espl__stream_feed(struct espl__stream *, const void *, size_t);
/* How many bytes of input can be accepted now, and their acceptance; not after the end. */
size_t espl__stream_room(const struct espl__stream *);
void espl__stream_put(struct espl__stream *, const void *, size_t);
void espl__stream_end(struct espl__stream *);
/* Moves what can be sent into out, as far as that holds less than 256 KiB. */
void espl__stream_pump(struct espl__stream *);
void espl__stream_ack(struct espl__stream *); /* puts an ACK into out, as a sign of life */
/* Both ends have all that the other had to send, and know so. */
int espl__stream_done(const struct espl__stream *);
#endif
