/* mover_private.h - what the parts of a mover share; only node/transfer/mover*.c include it.
 *
 * mover.c       what is wanted, and what comes from the other end
 * mover_list.c  the moves, and the short messages about one of them
 * mover_store.c  ... -> STORING -> gone: content that is in a bucket
 * mover_send.c  WAITING -> OPENING (thread) -> OFFERED -> SENDING (threads read ahead) -> gone
 * mover_take.c  ASKED -> CHECKING (thread) -> TAKING (threads write) -> gone
 */
#ifndef ESPL__MOVER_PRIVATE_H
#define ESPL__MOVER_PRIVATE_H
#include "node/wire.h"
#include "transfer/mover.h"
#include "transfer/outputs.h"
#include "transfer/pack.h"

#define ESPL__MOVE_WINDOW ((size_t)16 << 10) /* the smallest */
#define ESPL__MOVE_UNWRITTEN \
	((uint64_t)4 << 20) /* bytes that were taken and need not be written yet */
#define ESPL__MOVE_NAME 200 /* bytes of the longest name */

enum espl__move_stage {
	ESPL__MOVE_WAITING = 1,
	ESPL__MOVE_OPENING,
	ESPL__MOVE_OFFERED,
	ESPL__MOVE_SENDING,
	ESPL__MOVE_ASKED,
	ESPL__MOVE_CHECKING,
	ESPL__MOVE_TAKING,
	ESPL__MOVE_STORING /* its lines go to and fro, and nothing else */
};

#define ESPL__MOVE_MAGIC 0x65766f6du
struct espl__move {
	uint32_t magic; /* ESPL__MOVE_MAGIC */
	struct espl__move *next;
	struct espl__mover *mover;
	char *name, *place;
	int outgoing;
	int loose; /* a trial's output directory: not sealed */
	int asked; /* outgoing: by the other end; incoming: by us */
	enum espl__move_stage stage;
	int working, over; /* a task has it; it is of no more use */
	int same;          /* ESPL__MOVE_CHECKING: it is here already */
	int stored;        /* outgoing: it is in a bucket */
	void *slot;        /* the user's */
	uint64_t serial, digest, size;
	uint64_t passed, known;     /* sent and taken there; or received and written here */
	uint64_t told;              /* incoming: taken, as the sender knows */
	uint64_t probe;             /* when that much is taken there: a measurement */
	int64_t probe_at, since;    /* since: of the offer */
	struct espl__pack pack;     /* outgoing */
	struct espl__unpack unpack; /* incoming */
	struct espl__output_pack output_pack; /* the same, of one that is loose */
	struct espl__output_unpack output_unpack;
	struct espl__buf ready, block; /* block: the task's */
	size_t at;                     /* in ready */
	int read_all;
	struct espl__diag diag;
};

#define ESPL__MOVER_MAGIC 0x7265766fu
struct espl__mover {
	uint32_t magic; /* ESPL__MOVER_MAGIC */
	struct espl__mover_ops ops;
	int closed;
	unsigned working;
	struct espl__move *moves, *turn; /* turn: the sender of the last chunk */
	uint64_t serial;
	struct espl__buf notes;
	size_t window, flying;
	int64_t least, mean; /* ns until a chunk is taken: one alone, lately */
	int64_t best;        /* of the chunks that go alone now */
	int alone;           /* how many of them are left */
	int64_t alone_at;    /* not before */
	int64_t moved_at;
	struct espl__moved sums[ESPL__MOVED_KINDS]; /* by espl__mover_sums */
};

/* mover_list.c */
struct espl__move *espl__move_add(struct espl__mover *, const char *name, int outgoing, int asked,
    enum espl__move_stage);
struct espl__move *espl__move_by_name(const struct espl__mover *, const char *name, int outgoing);
struct espl__move *espl__move_by_serial(const struct espl__mover *, uint64_t, int outgoing);
/* It is of no more use; a thread that has it is waited for. */
void espl__move_end(struct espl__move *);
/* The same, and the user may hear how it ended. */
void espl__move_finish(struct espl__move *, int tell, const struct espl__diag *how);
void espl__move_start(struct espl__move *); /* a task for it */
void espl__move_sum(const struct espl__move *, int64_t now);
void espl__move_note(struct espl__mover *, enum espl__message, const struct espl__move *);
void espl__move_tell_offer(struct espl__mover *, const struct espl__move *);
void espl__move_tell_taken(struct espl__mover *, const struct espl__move *);
/* How it ended here; `diag` NULL: well. */
void espl__move_tell_end(struct espl__mover *, enum espl__message, const struct espl__move *,
    const struct espl__diag *);
void espl__move_read_end(struct espl__reader *, struct espl__diag *);
/* mover_send.c */
void espl__mover_open(struct espl__mover *); /* those that wait, as many as may move at once */
void espl__move_opened(struct espl__move *, int64_t now); /* its task is done */
int espl__mover_take_answer(struct espl__mover *, uint8_t type, uint64_t serial,
    struct espl__reader *, int64_t now);
/* mover_take.c */
void espl__move_written(struct espl__move *, int64_t now); /* its task is done */
int espl__mover_take_offer(struct espl__mover *, uint64_t serial, struct espl__reader *,
    int64_t now);
void espl__move_store(struct espl__move *); /* instead of sending its content */
int espl__move_take_data(struct espl__move *, struct espl__reader *, int64_t now);
/* mover_store.c */
int espl__mover_take_line(struct espl__mover *, uint64_t serial, struct espl__reader *,
    int64_t now);
int espl__mover_take_gone(struct espl__mover *, uint64_t serial, struct espl__reader *);
#endif
