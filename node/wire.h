/* wire.h - the framed messages between a driver and an espalier-agent, over two pipes.
 *
 * Frame: u32 payload size (at most 16 MiB), u8 type, payload, u32 CRC-32C over the three.
 * Integers as in base/buf.h.  An unknown type, a bad checksum or a bad payload ends the channel.
 * The channel's end (EOF) means: end every process at once and exit.
 *
 * driver -> agent
 *   HELLO    u32 protocol, str run directory (absolute; "" none), u64 run token, u64 node,
 *            str address (of this node for others, such as "127.0.0.1"), u32 heartbeat_ms
 *            0: none; otherwise the driver pings, and the agent ends after 10 missed pings
 *   RESERVE  v64 number, u64 word
 *            word 0: reserve a rendezvous port for a gang on several nodes, which its START takes;
 *            otherwise listen on a port (a door) until KILL, and send each client that connects
 *            the word (u64) followed by zeros, ESPL__DOOR_BYTES in all
 *   START    struct espl__start
 *   LAUNCH   v64 gang
 *            all nodes of a gang that is launched together are ready for it
 *   TRY      v64 number, v64 doors; per door: str address, u32 port, u64 word
 *            can this node open a TCP connection to each, and does it read the word there (0: it
 *            need not)?  TRIED follows within 15 s
 *   REPLY    v64 gang, str line ("continue 27")
 *            for the report socket of rank 0
 *   KILL     v64 gang, v64 grace_ms
 *            SIGTERM to all process groups, and SIGKILL after the grace; 0: at once
 *   SLOTS     struct espl__rank_slots
 *            a resize in place: the slot of each rank of this gang afterwards
 *   COLLECT  v64 trial, v64 keep
 *            remove the trial's checkpoints except `keep` (0: all), and left-over saving-*
 * directories PING BYE      the driver is about to close the channel on purpose TAILED   v64 trial,
 * v64 offset that much of its log has arrived LEAVE    str epoch of the keeper (session/session.h),
 * never of a driver: none came within the linger time.  Trials are asked to pause, what they say is
 * kept for a driver that resumes the run (agent/agent_leave.c), and the agent ends
 *
 * agent -> driver
 *   HELLO_BACK  u32 protocol, str version, u32 gpus, u32 cpus, v64 memory_bytes, u64 run token,
 *            u64 seconds since 1970 (may be missing)
 *            the token is the one in RUN/token; 0: there is none: the node is private, it works
 *            in a directory of its own, and what is to outlive it is sent to the driver
 *   PORT     v64 gang, u32 port
 *            reserved
 *   STARTED  v64 gang, u32 port
 *            all ranks on this node have been exec'ed; port: where rank 0 of a trainable accepts
 *            ranks that join later; 0 none
 *   PREPARED v64 gang
 *            what a gang that is launched together needs is here; it waits for LAUNCH
 *   TRIED    v64 number, v64 door, str why
 *            of a TRY: which of its doors cannot be reached; why "": all can
 *   FAILED   v64 gang, v64 rank
 *            a rank of a gang on several nodes has failed; the ranks on this node are being
 *            killed, and ENDED follows
 *   LEFT     v64 gang, v64 generation
 *            all ranks that the SLOTS of this generation removes have ended
 *   LINE     v64 gang, str text
 *            a line from the report socket of rank 0, at most 64 KiB, unchanged; also what another
 *            rank of a trainable reports in a resize
 *   NOTE     v64 gang, str text
 *            a line {"notes": {...}}, which has no answer
 *   GARBAGE  v64 gang, str why
 *            the input was not a line (too long, binary); the gang is being killed
 *   SAVED    v64 gang, v64 iteration, v64 bytes
 *            the rank reported {"saved": n}, and checkpoint-n is complete
 *   CLOSED   v64 gang
 *            rank 0 closed its report socket and still runs after its grace
 *   ENDED    v64 gang, u8 clean, u32 ranks; per rank: v64 rank, z64 code (exit status, or -signal),
 *            str why it could not start (""); then str the end of the ranks' output
 *            All processes of the gang on this node have ended (clean 0: some process could not be
 *            killed).  The rank that failed by itself comes first, then the others in order.
 *            These beginnings of a text mean that the gang is not to blame:
 *              "no checkpoint: "  the checkpoint to restore is missing or damaged
 *              "run folder: "     nothing can be written there (a full disk)
 *              "store: "          the bucket did not give the checkpoint to restore
 *              "saving: "         a system error prevented a checkpoint
 *              "setup: "          trial.setup failed
 *              "gpu: "            sharing of its GPU failed, or the GPU is set aside
 *              "sharing: "        the configuration wants MPS, but there is none
 *   GPU      u8 what, v64 gang, v64 number, str text
 *            see enum espl__gpu_news; gang 0: about the node
 *   LOG      u8 level, str text
 *   PONG
 *   STATE    v64 gang, v64 ranks; see below
 *   STATED
 *   TAIL     v64 trial, v64 offset, bytes
 *            more of the trial's log on a private node; the next when this was answered by TAILED
 *
 * in both directions, between the movers of both ends (transfer/mover.h); the sender of a directory
 * numbers its offers. Names: "files", "experiments/N/files", "TRIAL/checkpoint-N", and from agents
 * "TRIAL/output", whose content is that of transfer/outputs.h
 *   TREE_ASK    str name
 *   TREE_OFFER  v64 number, str name, u64 digest, v64 bytes
 *   TREE_WANT   v64 number
 *            send it
 *   TREE_DATA   v64 number, v64 offset, bytes
 *   TREE_TAKEN  v64 number, v64 offset
 *            bytes before it have arrived, and few MB of them are not written yet
 *   TREE_KEPT   v64 number, u8 how, str why
 *            0: it is here and durable; 1: a system error prevented that; 2: it cannot be kept
 *   TREE_GONE   v64 number, str name, u8 how, str why
 *            it cannot be sent
 *   TREE_LINE   v64 number, u8 offered, str line
 *            in place of TREE_DATA where directories are in a bucket (node/courier/courier.h): a
 * line between the driver and espalier-courier on the node; offered 1: the number is of an offer of
 * the sender of this message
 *
 *   RISK        str why
 *            the provider may take the machine back: once for each HELLO
 *
 * A driver that resumes a run sends another HELLO to the agents of sessions that outlived the last
 * driver (session/session.h).  They answer with HELLO_BACK.  For each gang of the session follow
 * STATE (0 ranks: it cannot be continued) and, unchanged, the messages about the gang that no REPLY
 * has answered; then STATED.
 *
 * Ranks that join later (a resize in place) are another gang for the agent, with a number and a
 * START of their own: START says that they join, and at which address.
 */
#ifndef ESPL__WIRE_H
#define ESPL__WIRE_H
#include "base/buf.h"
#include "base/diag.h"
#include "base/mem.h"
#include "base/sharing.h"

/* 9: the key of a gang is proved; 10: an agent may report a machine at risk; 11: trial.setup; 12:
 * a gang on several nodes is launched on all of them together; 14: whether its ranks can meet is
 * tried before; 15: the variables of torchrun are set on request, and others can be removed; 16:
 * commands can start warm; 17: machines try in both directions whether they reach each other; 18:
 * notes of trials. */
#define ESPL__WIRE_PROTOCOL 19u
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
	ESPL__MSG_SLOTS,
	ESPL__MSG_BYE,
	ESPL__MSG_TAILED,
	ESPL__MSG_LEAVE,
	ESPL__MSG_LAUNCH,
	ESPL__MSG_TRY,
	ESPL__MSG_TREE_ASK = 32,
	ESPL__MSG_TREE_OFFER,
	ESPL__MSG_TREE_WANT,
	ESPL__MSG_TREE_DATA,
	ESPL__MSG_TREE_TAKEN,
	ESPL__MSG_TREE_KEPT,
	ESPL__MSG_TREE_GONE,
	ESPL__MSG_TREE_LINE,
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
	ESPL__MSG_STATED,
	ESPL__MSG_TAIL,
	ESPL__MSG_RISK,
	ESPL__MSG_PREPARED,
	ESPL__MSG_TRIED,
	ESPL__MSG_NOTE
};
static inline int
espl__is_tree(uint8_t type)
{
	return type >= ESPL__MSG_TREE_ASK && type <= ESPL__MSG_TREE_LINE;
}

/* The ranks reconnect: what all ranks of a gang must know. */
struct espl__meeting {
	uint32_t generation; /* rises with every resize; 0 none */
	/* rank 0 leaves when it has handed its state over */
	int moved;
	const char *door;     /* address of the current rank 0 */
	uint32_t port;        /* at which it accepts ranks */
	const char *master;   /* address of the new rank 0's node */
	uint32_t world, node; /* new ranks; number of this node among theirs */
	uint32_t local_world; /* how many of them are on this node */
};

/* More than any packet holds, so that a path that loses large packets is noticed. */
#define ESPL__DOOR_BYTES 16384u

/* What a START carries: the part of one gang that runs on this node. */
/* gpu: index of the node's GPU or slot */
struct espl__start_rank {
	uint32_t rank, local_rank, gpu;
};
#define ESPL__GANG_KEY 32
struct espl__start {
	uint64_t gang, trial;
	/* ranks and nodes of the whole gang; this node's place */
	uint32_t world, nodes, node_rank;
	int together; /* it is launched by LAUNCH */
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
	const char *metrics;      /* of a command that does not report: listen/listen.h; else "" */
	const char *trainable;    /* name of a C trainable, NULL: a command */
	const char *options;      /* trial.options as libconfig text, "" none */
	const char *params;       /* JSON object */
	const char *directory;    /* working directory */
	int anywhere;             /* a node that lacks this directory uses another one */
	const char *const *setup; /* what runs there first, once for each agent */
	uint32_t setup_count;     /* 0 none */
	const char *const *env;   /* "NAME=value", or "NAME": it is removed */
	uint32_t env_count;
	uint64_t iteration, budget, iterations_max, seed;
	uint32_t fold; /* of a confirmation, from 1; else 0 */
	/* restore trials/SOURCE/checkpoint-CHECKPOINT; 0 none */
	uint64_t source, checkpoint;
	int64_t file_max;            /* RLIMIT_FSIZE, 0 none */
	int64_t log_limit;           /* bytes of the trial's log, 0 none */
	uint64_t grace_ms;           /* used when the agent ends a gang by itself */
	struct espl__meeting join;   /* generation 0: they come together by themselves */
	uint64_t of;                 /* gang that they join */
	uint32_t local_first;        /* ranks on this node before them */
	uint8_t key[ESPL__GANG_KEY]; /* by which the ranks recognize each other */
	int torchrun;                /* a command's rank has torchrun's variables, if alone too */
	int warm;                    /* a command is forked from a process that has its imports */
};
void espl__start_put(const struct espl__start *, struct espl__buf *);
/* Texts and lists are in the arena, which is empty before.  0, or -1 if the payload is bad: then
 * the arena is empty again. */
int espl__start_get(struct espl__reader *, struct espl__start *, struct espl__arena *);

/* What a SLOTS carries: for each rank of the agent's gang, in the order of its START, the new one;
 * meet.world: it leaves. Entries of ranks that have left are ignored. No rank: the resize is
 * cancelled.
 */
struct espl__rank_slots {
	uint64_t gang;
	struct espl__meeting meet;
	uint32_t count;
	const struct espl__start_rank *ranks;
};
void espl__rank_slots_put(const struct espl__rank_slots *, struct espl__buf *);
int espl__rank_slots_get(struct espl__reader *, struct espl__rank_slots *,
    struct espl__arena *); /* as start_get */

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
