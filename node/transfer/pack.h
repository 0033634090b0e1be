/* pack.h - a sealed directory (checkpoint/checkpoint.h) as one stream of bytes, and back.
 *
 * Stream: u32 size of MANIFEST, MANIFEST; then for each file, in its order, u32 mode, content.
 * The digest of a directory is that of its MANIFEST, which holds the check sum of every file: two
 * directories of one digest have the same content.
 *
 * All of it works with files: it belongs into a thread.
 */
#ifndef ESPL__PACK_H
#define ESPL__PACK_H
#include "base/buf.h"
#include "base/diag.h"

struct espl__pack {
	int dir, file;         /* -1: not open */
	uint64_t digest, size; /* size: of the stream */
	uint64_t left;         /* of the file at hand */
	struct espl__buf text, lines;
	char *line; /* the next in `lines` */
	int begun;  /* `text` was put into the stream */
};
espl_status espl__pack_open(struct espl__pack *, const char *dir, struct espl__diag *);
/* Appends about `most` bytes; nothing at the end.  A file that is no longer as sealed fails. */
espl_status espl__pack_read(struct espl__pack *, size_t most, struct espl__buf *,
    struct espl__diag *);
void espl__pack_close(struct espl__pack *);

struct espl__unpack {
	char *place, *part; /* part: the directory being filled, beside `place` */
	int dir, file;
	uint64_t digest, size, left;
	uint64_t entries, seen; /* as MANIFEST says; so far */
	uint32_t crc, want;     /* of the file at hand */
	size_t loose;           /* bytes of it that the disk was not asked to write yet */
	struct espl__buf text, lines, head;
	char *line;
	int stage;
};
/* A new directory for the content of `digest`, whose stream has this size. `place` keeps its
 * content until close.  The stream comes from another machine: whatever it contains, nothing
 * outside of the new directory is written, and not more than was announced. */
espl_status espl__unpack_open(struct espl__unpack *, const char *place, uint64_t digest,
    uint64_t size, struct espl__diag *);
espl_status espl__unpack_write(struct espl__unpack *, const uint8_t *, size_t, struct espl__diag *);
/* Checks that it is complete, makes it durable and moves it to its place at once; removes what was
 * there. */
espl_status espl__unpack_close(struct espl__unpack *, struct espl__diag *);
/* Frees it, and removes what was not put in place. */
void espl__unpack_drop(struct espl__unpack *);
/* Name of a new directory beside `place`, malloc'd; and what is in it into place, durable when its
 * parent is synced: then `part` holds what was there, or is gone.  -1 with errno. */
char *espl__pack_part(const char *place);
int espl__pack_place(const char *part, const char *place);
/* Names of directories being filled begin with this; those of dead processes may be removed. */
#define ESPL__UNPACK_PREFIX ".incoming-"
#endif
