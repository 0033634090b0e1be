/* wire.h - the framed messages between a driver and an espalier-agent, over two pipes.
 *
 * Frame: u32 payload size (at most 16 MiB), u8 type, payload, u32 CRC-32C over the three.
 * Integers as in base/buf.h.  An unknown type, a bad checksum or a bad payload ends the channel.
 * The channel's end (EOF) means: end every process at once and exit.
 *
 * driver -> agent
 *   HELLO    u32 protocol, str run folder (absolute; "" none), u64 run token, u64 node, str address
 * of this node as others reach it ("127.0.0.1"), u32 heartbeat_ms (agent dies after 10 without one
 *            if not 0; the driver pings)
 *   RESERVE  v64 gang                       reserve a rendezvous port for a gang of several nodes
 *   START    see struct espl__start below
 *   REPLY    v64 gang, str line             to rank 0's report socket ("continue 27")
 *   KILL     v64 gang, v64 grace_ms         SIGTERM to all process groups, then SIGKILL; 0: at once
 *   SEAT     see struct espl__seating below a resize in place: where each rank of this gang will
 * sit COLLECT  v64 trial, v64 keep            remove checkpoints of the trial but `keep` (0 all),
 * and left-over saving-* folders PING agent -> driver HELLO    u32 protocol, str version, u32 gpus,
 * u32 cpus, v64 memory_bytes PORT     v64 gang, u32 port STARTED  v64 gang, u32 port all ranks of
 * this node have been exec'ed; port: the door of a trainable's rank 0, where later ranks will
 * knock; 0 none FAILED   v64 gang, v64 rank             a rank of a gang that is elsewhere, too,
 * has failed; what is here is being ended, and ENDED will say more LEFT     v64 gang, v64
 * generation       all whom the SEAT of this generation had told to leave are gone LINE     v64
 * gang, str text             one line of rank 0's report socket, at most 64 KiB, as written; also
 * what another rank of a trainable says at a resize GARBAGE  v64 gang, str why              what
 * came is no line: too long, binary; gang is being ended SAVED    v64 gang, v64 iteration, v64
 * bytes   {"saved": n} seen, checkpoint-n is complete CLOSED   v64 gang                       rank
 * 0 closed its report socket and is still there after its grace ENDED    v64 gang, u8 clean, u32
 * ranks, then per rank: v64 rank, z64 code (exit status, or -signal), str text (why it could not
 * start; "");  at last str said, the end of what they printed All processes of the gang on this
 * node are gone. The rank that failed by itself comes first; the others follow in order.  clean 0:
 * some process could not be killed.  A text that begins with "no checkpoint: " says that what START
 * wanted restored is missing or damaged; one that begins with "run folder: ", that nothing can be
 * written there (a full disk), or with "saving: ", that a checkpoint could not be kept for an error
 *            of the system: the gang is not to blame; nor with "gpu: " (what it shared
 *            its GPU by has failed, or the GPU is set aside) or "sharing: " (there is no MPS, but
 * the configuration wants it). GPU      u8 what, v64 gang, v64 number, str text   see enum
 * espl__gpu_news; gang 0: about the node LOG      u8 level, str text PONG
 *
 * A driver that resumes a run greets the agents of sessions that outlived the last driver
 * (session/session.h) with another HELLO.  They answer with HELLO_BACK; then, for each gang of the
 * session, STATE (v64 gang, v64 ranks; 0 ranks: it cannot be continued) and the messages about it
 * that no REPLY has answered, as they were; then STATED, which is empty.  BYE, empty, precedes the
 * end of a channel that the driver closes on purpose.
 *
 * Ranks that come later (a resize in place) are another gang for the agent, with a START and a
 * number of their own: START says that they join, and whose door they knock at.
 */
#ifndef ESPL__WIRE_H
#define ESPL__WIRE_H
#include "base/buf.h"
#include "base/diag.h"
#include "base/sharing.h"

/* 6: the HELLO of an agent ends with u64, the token that it reads in RUN/token; 0: none there. */
#define ESPL__WIRE_PROTOCOL 6u
#define ESPL__WIRE_MAX (16u << 20)
/* Exit status of a worker that stopped because another rank was lost: not the one to blame. */
#define ESPL__EXIT_PEER 75

enum espl__message {
	ESPL__MSG_HELLO = 1,
	ESPL__MSG_RESERVE,
	ESPL__MSG_START,
	ESPL__MSG_REPLY,
	ESPL__MSG_KILL,
	ESPL__MSG_COLLECT,
	ESPL__MSG_PING,
	ESPL__MSG_SEAT,
	ESPL__MSG_BYE,
	ESPL__MSG_HELLO_BACK = 64,
	ESPL__MSG_PORT,
	ESPL__MSG_STARTED,
	ESPL__MSG_LINE,
	ESPL__MSG_GARBAGE,
	ESPL__MSG_SAVED,
	ESPL__MSG_CLOSED,
	ESPL__MSG_ENDED,
	ESPL__MSG_LOG,
	ESPL__MSG_PONG,
	ESPL__MSG_LEFT,
	ESPL__MSG_FAILED,
	ESPL__MSG_GPU,
	ESPL__MSG_STATE,
	ESPL__MSG_STATED
};

/* The ranks reconnect: what all ranks of a gang must know. */
struct espl__meeting {
	uint32_t generation; /* rises with every resize; 0 none */
	/* rank 0 leaves when it has handed its state over */
	int moved;
	const char *door;     /* address of the current rank 0 */
	uint32_t port;        /* its door */
	const char *master;   /* address of the new rank 0's node */
	uint32_t world, node; /* new ranks; number of this node among theirs */
	uint32_t local_world; /* how many of them are on this node */
};

/* What a START carries: the part of one gang that runs on this node. */
/* gpu: index of the node's GPU or slot */
struct espl__start_rank {
	uint32_t rank, local_rank, gpu;
};
struct espl__start {
	uint64_t gang, trial;
	/* ranks and nodes of the whole gang; this node's place */
	uint32_t world, nodes, node_rank;
	uint32_t rank_count;
	const struct espl__start_rank *ranks; /* on this node, local_rank from 0 */
	uint32_t packing;                     /* 1: GPUs are exclusive */
	enum espl__sharing sharing;           /* how, if they are not */
	uint32_t attempt;
	const char *master;      /* address of rank 0's node */
	uint32_t port;           /* 0: the agent picks one (gang of one node) */
	int device_gpu;          /* 1: slots are GPUs, 0: CPU slots */
	uint32_t threads;        /* CPU threads a rank may use */
	const char *const *argv; /* command, or NULL with `trainable` */
	uint32_t argc;
	const char *trainable;  /* name of a C trainable, NULL: a command */
	const char *options;    /* trial.options as libconfig text, "" none */
	const char *params;     /* JSON object */
	const char *directory;  /* working folder */
	const char *const *env; /* "NAME=value" */
	uint32_t env_count;
	uint64_t iteration, budget, iterations_max, seed;
	/* restore trials/SOURCE/checkpoint-CHECKPOINT; 0 none */
	uint64_t source, checkpoint;
	int64_t file_max;          /* RLIMIT_FSIZE, 0 none */
	int64_t log_limit;         /* bytes of the trial's log, 0 none */
	uint64_t grace_ms;         /* used when the agent ends a gang by itself */
	struct espl__meeting join; /* generation 0: they come together by themselves */
	uint64_t of;               /* gang that they join */
	uint32_t local_first;      /* ranks on this node before them */
};
void espl__start_put(const struct espl__start *, struct espl__buf *);
/* Strings point into an arena-like block that *free_me frees.  0, or -1 if the payload is bad. */
int espl__start_get(struct espl__reader *, struct espl__start *, void **free_me);

/* What a SEAT carries: for each rank of the agent's gang, in the order of its START, the new one;
 * meet.world: it leaves.  Those that have left before are not asked.  No rank: nothing comes of it.
 */
struct espl__seating {
	uint64_t gang;
	struct espl__meeting meet;
	uint32_t count;
	const struct espl__start_rank *ranks;
};
void espl__seating_put(const struct espl__seating *, struct espl__buf *);
int espl__seating_get(struct espl__reader *, struct espl__seating *,
    void **free_me); /* as start_get */

/* Appends a whole frame. */
void espl__frame_put(struct espl__buf *, enum espl__message, const void *payload, size_t);
/* The same without a copy: begin, put the payload into the buffer, end with what begin gave. */
size_t espl__frame_begin(struct espl__buf *, enum espl__message);
void espl__frame_end(struct espl__buf *, size_t mark);
/* Takes frames off the front of `in`: 1 a frame (payload points into `in`, valid until bytes are
 * dropped; *used: bytes to drop), 0 more bytes are needed, -1 broken. */
int espl__frame_get(const struct espl__buf *in, size_t from, uint8_t *type,
    struct espl__reader *payload, size_t *used);
#endif
