/* outputs.h - a trial's output directory as one stream of bytes, and back into a directory that may
 * contain other files.
 *
 * Unlike a checkpoint it is not sealed: its files may grow, shrink and vanish while they are read,
 * and only those that are new or changed since the last time are in the stream.  For each, in
 * the order of their sizes: u32 length of the name, name (relative), u8 'f' or 'l' (a link), u32
 * mode, u64 size, that many bytes, u64 how many of them count (ESPL__OUTPUT_VANISHED: there is
 * no such file any more).
 *
 * The name of a file never leads out of the directory, and no link is followed at either end.
 * Links that may lead out of it are not in the stream.
 *
 * All of it works with files: it belongs into a thread.
 */
#ifndef ESPL__OUTPUTS_H
#define ESPL__OUTPUTS_H
#include "base/buf.h"
#include "base/diag.h"

#define ESPL__OUTPUT_FILES 10000u                /* in one directory */
#define ESPL__OUTPUT_BYTES UINT64_C(1000000000)  /* of files in one stream */
#define ESPL__OUTPUT_STREAM UINT64_C(1100000000) /* a longer stream is refused */
#define ESPL__OUTPUT_NAME 4000u                  /* bytes of the longest name */
#define ESPL__OUTPUT_VANISHED UINT64_MAX

struct espl__output_file {
	char *name;
	uint64_t size, print; /* print: changes when the file does */
	uint32_t mode;
	char kind;
	int known; /* the other end has it: 1 before this stream, 2 because of it */
};

struct espl__output_pack {
	int opened, full;      /* full: not all files are listed */
	int dir, file;         /* -1: not open */
	uint64_t digest, size; /* size: of the stream; 0: nothing is new */
	struct espl__output_file *files;
	size_t count, cap, at; /* at: the file at hand, or the next */
	uint64_t left, good;   /* of the file at hand: bytes to come; that were read */
	int begun;             /* its head was put into the stream */
	uint64_t arrived;      /* bytes that the other end has, if the stream is given up */
	char *record;          /* path of the list of what the other end has */
	char note[400];        /* what is not in the stream, and why; "": nothing */
};
/* Lists what is new in `dir`.  What is beside it in the file .output-sent is not. */
espl_status espl__output_pack_open(struct espl__output_pack *, const char *dir,
    struct espl__diag *);
/* Appends about `most` bytes; nothing at the end. */
espl_status espl__output_pack_read(struct espl__output_pack *, size_t most, struct espl__buf *,
    struct espl__diag *);
/* Files that have `arrived` are not in the next stream. */
void espl__output_pack_close(struct espl__output_pack *);
/* The other end has all that the last stream contained: the next one will not contain it. */
void espl__output_sent(const char *dir);

struct espl__output_unpack {
	int opened;
	char *part; /* a directory beside the place, for the file at hand */
	int dir, parts, file;
	uint64_t left;
	uint32_t want; /* bytes of the part of the head that comes */
	char *name;
	char kind;
	uint32_t mode;
	struct espl__buf head, target;
	int stage, skips;          /* skips: the file at hand cannot be written */
	struct espl__diag trouble; /* of the first such file */
};
/* `place` is created if it does not exist; what it contains stays, unless a file of the same name
 * comes. */
espl_status espl__output_unpack_open(struct espl__output_unpack *, const char *place,
    struct espl__diag *);
/* A file that cannot be written is skipped, unless none could be. */
espl_status espl__output_unpack_write(struct espl__output_unpack *, const uint8_t *, size_t,
    struct espl__diag *);
/* Fails if the stream is not complete, or a file was skipped. */
espl_status espl__output_unpack_close(struct espl__output_unpack *, struct espl__diag *);
void espl__output_unpack_drop(struct espl__output_unpack *);
#endif
