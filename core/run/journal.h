/* journal.h - the write-ahead journal: every round's events, then the decisions they led to.
 *
 * File: a header record, then records.  A record: u32 payload size, u8 type, payload, u32 CRC-32C
 * over size, type, payload and the CRC of the record before (a chain: a record cannot be moved,
 * dropped or repeated unnoticed).  What lies behind the last whole record is for journal_repair.c.
 *   HEADER     format version, espalier version, seed, utc_start_s, simulated, run token, digest
 *   ROUND      v64 time delta, v64 count, events
 *   DECISIONS  answers of the round before it
 *   CLOSED     the run stopped cleanly at this time (its clock stood still until RESUME)
 * Group commit: records gather in memory and go out with one write; `sync` decides about
 * fdatasync.
 */
#ifndef ESPL__JOURNAL_H
#define ESPL__JOURNAL_H
#include "base/buf.h"
#include "base/diag.h"

/* 2: gangs are resized in place, which the executor of format 1 never asked for.
 * 3: trials start on idle slots that their allocator does not use, a missing node may be leased
 * from an equal offer, trials without gpus_max stay on one machine, and a wake_at in the past is
 * refused.  A run that began with format 2 goes on by the rules of format 2.
 * 4: searches try no configuration twice; plugins ask for the rules.
 * 5: the model of `tpe` is the sampler's of that name.
 * 6: a gang is locked while its processes start.
 * 7: requests that only wait in a queue give way to another offer.
 * 8: nodes that their provider takes back do not count as losses of the trials on them.
 * 9: allocator spottune waits for spot capacity, and a machine that was given back during its
 * notice counts as interrupted. */
#define ESPL__JOURNAL_FORMAT 9u
#define ESPL__JOURNAL_FORMAT_LEAST 2u /* that can still be read */

struct espl__journal_header {
	uint32_t format;              /* ESPL__JOURNAL_FORMAT */
	char version[32];             /* espalier's */
	uint64_t seed, token, digest; /* token: names leases; digest: espl__exec_digest */
	int64_t utc_start_s;          /* 0 in simulation */
	int simulated;
};
#define ESPL__JOURNAL_TITLE "espalier journal\n" /* begins the header */
#define ESPL__JOURNAL_TITLE_SIZE (sizeof ESPL__JOURNAL_TITLE - 1)
#define ESPL__JOURNAL_HEAD 5u  /* bytes of a record before its payload */
#define ESPL__JOURNAL_FRAME 9u /* and with the checksum behind it */
enum espl__record { ESPL__REC_HEADER = 1, ESPL__REC_ROUND, ESPL__REC_DECISIONS, ESPL__REC_CLOSED };

struct espl__journal; /* a writer */
/* Makes PATH (must not exist) and writes the header. */
espl_status espl__journal_create(const char *path, const struct espl__journal_header *,
    struct espl__journal **, struct espl__diag *);
/* Appends after `valid` bytes with that chain (from a reader that reached the end), cutting
 * off what lies behind. */
espl_status espl__journal_append_to(const char *path, uint64_t valid, uint32_t chain,
    struct espl__journal **, struct espl__diag *);
/* Into memory; nothing is written yet. */
void espl__journal_add(struct espl__journal *, enum espl__record, const void *, size_t);
/* Removes the records added since the mark, written or not. */
void espl__journal_mark(struct espl__journal *);
espl_status espl__journal_take_back(struct espl__journal *, struct espl__diag *);
/* Writes the collected records; with sync also fdatasync. A failure (full disk) leaves the file cut
 * back to its last whole record. */
espl_status espl__journal_commit(struct espl__journal *, int sync, struct espl__diag *);
size_t espl__journal_pending(const struct espl__journal *);
espl_status espl__journal_close(struct espl__journal *, struct espl__diag *); /* commits first */

struct espl__journal_reader;
/* E_CONFIG: no file, not a journal, another format; the header is damaged. */
espl_status espl__journal_open(const char *path, struct espl__journal_reader **,
    struct espl__journal_header *, struct espl__diag *);
/* 1: a record (payload valid until the next call); 0: end; *lost then says how many bytes behind
 * the last whole record are unusable (0: none).  -1: reading failed (diag). */
int espl__journal_next(struct espl__journal_reader *, enum espl__record *, struct espl__reader *,
    uint64_t *lost, struct espl__diag *);
void espl__journal_where(const struct espl__journal_reader *, uint64_t *valid, uint32_t *chain);
void espl__journal_reader_free(struct espl__journal_reader *);

/* ---- journal_repair.c ------------------------------------------------------------------------ */

/* A journal that does not end with a whole record: the damage, and how it is handled. */

/* what lies behind the last record that can be read */
struct espl__rest {
	uint64_t at, size; /* bytes */
	uint64_t records;  /* whole ones, each but for one that is missing before it */
	/* 0: a write that was cut off left it, and nothing is lost but that */
	int damaged;
};
espl_status espl__journal_find_rest(const char *path, uint64_t valid, struct espl__rest *,
    struct espl__diag *);
/* Copies the bytes from `from` on to a new file beside it, PATH.damaged (or PATH.damaged-2, ...),
 * and to the disk. *kept: its name without directories, malloc'd; NULL if there are none. */
espl_status espl__journal_keep_rest(const char *path, uint64_t from, char **kept,
    struct espl__diag *);
/* 1: the file exists, and the driver that created it died before it had written the header, so
 * nothing followed. 0: it does not exist, or it has contents. */
int espl__journal_is_empty(const char *path);
#endif
