/* agent.h - the parts of espalier-agent and what they share.
 *
 *   agent_main.c      the process: descriptors, signals, devices
 *   agent_loop.c      its loop, and its end
 *   agent_channel.c   frames from the driver
 *   agent_output.c    frames to the driver
 *   agent_jobs.c      what waits for a disk
 *   agent_gang.c      life of a gang on this node: start, exits, end
 *   agent_kill.c      how a gang is ended, and which rank is blamed
 *   agent_launch.c    its ports, programs and processes
 *   agent_report.c    rank 0's report socket: lines out, replies in, {"saved": n}
 *   agent_reach.c     whether this node and others reach each other
 *   agent_resize.c    a resize in place: the slot of each rank, which ranks leave, which is rank 0
 *   agent_last_line.c the last line of a trial's log
 *   agent_files.c     a trial's directory: working files, checkpoints, collecting
 *   agent_leave.c     the end of an agent that no driver has come back to
 *   agent_setup.c     trial.setup, once for each agent and directory
 *   agent_home.c      the directory of an agent that does not see the run's
 *   agent_relay.c     ... whose checkpoints and logs are sent to the driver
 *   agent_outputs.c   ... and what trials write to ESPALIER_OUTPUT, too
 *   agent_courier.c   ... or in a bucket, to and from which they are carried
 *   agent_env.c       what a rank finds in its environment
 *   agent_sup.c       the supervisor of each rank
 *   agent_warm.h      Python commands that are forked after their imports (files of their own)
 *   agent_gpu.h       the GPUs: how they are shared, whether they are clean (files of their own)
 *
 * One thread runs all of it; what waits for a disk runs as a job in another thread, and the loop
 * continues with it when it is done.
 */
#ifndef ESPL__AGENT_H
#define ESPL__AGENT_H
#include <stdatomic.h>
#include <sys/types.h>

#include <espalier/host.h>
#include "base/buf.h"
#include "base/diag.h"
#include "base/map.h"
#include "agent/backlog.h"
#include "agent/nvml.h"
#include "node/wire.h"

struct espl__agent;
struct espl__agent_gang;
struct espl__card; /* agent_gpu.h */
struct espl__mover;
struct espl__courier_run;
struct espl__tail;
struct espl__setup;
struct espl__warm;
struct espl__launch; /* agent_warm.h */

/* head of a larger struct */
struct espl__task {
	void (*run)(struct espl__task *); /* in its thread: touches nothing but the job */
	void (*done)(struct espl__agent *, struct espl__task *); /* in the loop; frees it */
};

struct espl__held {
	int fd;
	char *path;
}; /* a directory locked while it is in use; fd -1 none */

enum espl__rank_state {
	ESPL__RANK_NONE,
	ESPL__RANK_STARTING,
	ESPL__RANK_RUNS,
	ESPL__RANK_EXITED,
	ESPL__RANK_GONE
};
struct espl__agent_rank {
	struct espl__agent_gang *gang;
	uint32_t index;              /* among this node's */
	enum espl__rank_state state; /* GONE: with all that descended from it */
	int link;                    /* to its supervisor, -1 none */
	pid_t sup;
	int64_t code; /* as in ENDED */
	int by_us;    /* was asked to end before it exited */
	char *text;   /* why it could not start, or NULL */
	struct espl__held scratch;
	struct espl__launch *launch; /* its warm start, not taken over yet; NULL none */
	/* a trainable's: our end, -1 none; the leader's is gang->report */
	int control;
	struct espl__buf words; /* from there */
	uint32_t rank, was;     /* its number in the whole gang; before the last SLOTS */
	int leaves;             /* the last SLOTS says so */
	int left;               /* it did, and this was told */
	int on_gpu;             /* holds its GPU */
};

/* What follows when a step of a gang has ended. The files for the single steps call these: they do
 * not know agent_gang.c, which is above them. */
struct espl__gang_steps {
	void (*begin)(struct espl__agent_gang *); /* its files are there */
	void (*prepared)(struct espl__agent_gang *, const struct espl__diag *);
	/* NULL: its GPUs are its own */
	void (*claimed)(struct espl__agent_gang *, const char *why_not);
	/* a checkpoint is complete in its directory */
	void (*sealed)(struct espl__agent_gang *, uint64_t iteration, uint64_t bytes);
	/* rank 0 can be read again */
	void (*saved)(struct espl__agent_gang *, uint64_t iteration, const struct espl__diag *);
};

/* Files of ESPALIER_OUTPUT on a private node. */
enum espl__agent_outputs {
	ESPL__OUTPUTS_NOW_AND_THEN = 0, /* sent while the trial runs */
	ESPL__OUTPUTS_WAIT,             /* it has ended, but not an earlier transfer */
	ESPL__OUTPUTS_LAST,             /* sent for the last time */
	ESPL__OUTPUTS_DONE
};

#define ESPL__AGENT_GANG_MAGIC 0x6b6d6f64u
struct espl__agent_gang {
	uint32_t magic; /* ESPL__AGENT_GANG_MAGIC */
	const struct espl__gang_steps *steps;
	struct espl__agent *agent;
	struct espl__start start;
	struct espl__arena start_memory; /* of `start` */
	struct espl__agent_rank *ranks;  /* start.rank_count of them */
	char *dir;                       /* DIR/trials/ID */
	char *params;                    /* path */
	char *restore;                   /* checkpoint's directory, "" fresh */
	uint32_t port;
	uint32_t running, gone;    /* ranks */
	uint32_t leader;           /* index of the rank behind `report` */
	uint64_t slots_generation; /* generation of the last SLOTS, 0 none */
	int start_reported;
	int prepared;         /* it waits for LAUNCH */
	int launched;         /* the ranks have been forked */
	int ending;           /* SIGTERM was sent (or there was nothing to send it to) */
	int killing;          /* SIGKILL was sent */
	int64_t kill_at;      /* ns of espl__tick; 0 none */
	int64_t linger_until; /* rank 0 is done, the others have until then; 0 none */
	int64_t give_up_at;   /* what does not die by then is reported */
	int culprit;          /* index of the rank that failed first, -1 none */
	int probed;           /* it failed, and its directory was looked at */
	int lingered;         /* rank 0 was done and others had to be ended */
	int jobs;             /* threads that work for it */
	int64_t log_from;     /* where in the trial's log its own part begins */
	/* its GPUs (agent_gpu.c) */
	enum espl__sharing sharing; /* how it shares them; AUTO until it holds them */
	int claiming;               /* waits for them */
	/* that MPS lives: for its start; after its failure, 0 none */
	uint64_t proof, check;
	uint32_t checked_on;            /* of this GPU */
	int64_t check_at;               /* not asked for before */
	uint64_t gpu_now, gpu_reported; /* bytes in use per GPU: at the last look; as told */
	/* rank 0 on this node */
	int leads;
	int report;      /* our end, -1 none */
	int64_t mute_at; /* it closed its end: when to warn if it still runs; 0: open */
	int saving_now;  /* no line is read meanwhile */
	int spoilt;      /* GARBAGE was sent: nothing is read any more */
	struct espl__buf in, out;
	struct espl__backlog backlog;
	struct espl__held saving;
	/* private node: checkpoints on the way to the driver, and sealed meanwhile; 0 none */
	uint64_t putting, unsent, putting_bytes, unsent_bytes;
	int fetching;       /* waits for the one to restore, or: */
	unsigned fetches;   /* begun */
	int64_t fetch_at;   /* when it is fetched again; 0: it need not be */
	int lacks_files;    /* for the files of the search */
	const char *wanted; /* its working directory as the driver knows it */
	char *files;        /* the search's files, on a private node; NULL none */
	enum espl__agent_outputs outputs;
	/* output files: when the last transfer began; when the next one is due, 0: when this one
	 * has ended */
	int64_t outputs_begun, outputs_at;
	const struct espl__setup *setup; /* waits for it; NULL: does not */
};

/* A port for the ranks of a gang to meet, or a door. */
struct espl__reserved {
	uint64_t number; /* of the gang, or of the try whether machines reach each other */
	uint64_t word;   /* a door's; 0: it is none */
	int fd;
	uint32_t port;
};

#define ESPL__AGENT_MAGIC 0x61676e74u
struct espl__agent {
	uint32_t magic;        /* ESPL__AGENT_MAGIC */
	int in, out;           /* the channel */
	int signals;           /* signalfd */
	int jobs_out, jobs_in; /* pipe of finished jobs */
	uint32_t jobs;
	struct espl__buf inbox, outbox;
	size_t inbox_at, outbox_at; /* taken; written */
	int unread;                 /* the driver is gone, or never reads */
	int greeted;                /* HELLO came */
	struct espl__buf past;      /* STATE and backlog of gangs that have ended, newest last */
	int ending;                 /* the agent is on its way out */
	int exit_code;
	char *leaving;       /* epoch of its session: no driver has come; NULL: it is not leaving */
	int64_t leave_at;    /* since when */
	char *dir, *address; /* of HELLO */
	int own_dir;         /* dir was made by us and goes with us */
	int home_fd;         /* its lock; own_dir alone */
	int home_busy;       /* a thread looks whether it is still there */
	int home_lost;       /* it is not: how a trial ends here says nothing about the trial */
	int64_t home_at;     /* when one looks again */
	char *run_dir;       /* of HELLO, if dir is another one */
	/* NULL: the run directory is seen here */
	struct espl__mover *mover;
	int outputs_told; /* kinds of losses of output files that were reported */
	struct espl__courier_run *couriers;
	struct espl__setup *setups;
	struct espl__warm *warm;
	struct espl__tail *tails;
	uint32_t tail_count, tail_cap;
	uint64_t token, node;
	int64_t heartbeat_ns, heard_at;
	struct espl__nvml_gpu *gpus; /* NULL: CPU slots */
	uint32_t slots;
	struct espl__card *cards;  /* [slots] if there are gpus */
	int64_t gpu_limit;         /* for a GPU to come clean */
	struct espl__map suspects; /* trials that keep away from MPS for now */
	int swept;                 /* for what dead agents have left */
	char *libexec;             /* directory of espalier-worker */
	struct espl__map by_id;
	struct espl__agent_gang **gangs;
	uint32_t gang_count, gang_cap;
	struct espl__reserved *reserved;
	uint32_t reserved_count, reserved_cap;
	int dir_reported;        /* that the run directory cannot be written */
	int strays;              /* a supervisor was killed: look for its orphans */
	int changed;             /* what is to be polled */
	atomic_int reach_off;    /* the agent ends */
	struct espl__imds *imds; /* agent_imds.c; NULL: not looked for yet */
};

#define ESPL__AGENT_OUTBOX (1u << 20)    /* more than this unsent: ranks are not read */
#define ESPL__AGENT_GRACE UINT64_C(1000) /* ms: to leave in, however short trial.grace is */

/* agent_channel.c */
void espl__agent_receive(struct espl__agent *); /* reads the channel, acts on frames */
/* agent_output.c */
void espl__agent_flush(struct espl__agent *); /* writes what it can */
size_t espl__agent_unsent(const struct espl__agent *);
void espl__agent_log(struct espl__agent *, espl_level, const char *format, ...) ESPL_PRINTF(3, 4);
void espl__agent_keep(struct espl__agent_gang *, size_t mark); /* of the frame just ended */
void espl__agent_gang_over(struct espl__agent_gang *);         /* ENDED was its last frame */
void espl__agent_put_state(const struct espl__agent_gang *, struct espl__buf *);
/* agent_jobs.c */
void espl__agent_job(struct espl__agent *, struct espl__task *); /* run, later done */
void espl__jobs_finish(struct espl__agent *);                    /* those that have run */
/* agent_loop.c */
void espl__agent_run(struct espl__agent *); /* until the end of the channel */
/* agent_imds.c */
void espl__imds_greet(struct espl__agent *); /* a driver has come */
/* When it wants to be called again; 0: when a job is done, or never. */
int64_t espl__imds_tend(struct espl__agent *, int64_t now);
/* agent_gang.c */
void espl__gang_start(struct espl__agent *, struct espl__start *, struct espl__arena *);
void espl__agent_end(struct espl__agent *, int code); /* kill all, then exit */
void espl__gang_note(struct espl__agent_rank *);      /* its supervisor sent something */
/* Handles deadlines and removes ended gangs; returns the next deadline (0 none). */
int64_t espl__gang_tend(struct espl__agent *, int64_t now);
/* agent_kill.c */
struct espl__agent_gang *espl__gang_find(const struct espl__agent *, uint64_t id);
/* Launches it, or calls it off if it is ending; nothing if it does not wait for that. */
void espl__gang_together(struct espl__agent_gang *);
void espl__gang_kill(struct espl__agent_gang *, uint64_t grace_ms);
void espl__gang_kill_now(struct espl__agent_gang *);
/* It ends, and that was not its doing. */
void espl__gang_excuse(struct espl__agent_gang *, const char *text);
void espl__rank_fail(struct espl__agent_rank *, const char *format, ...) ESPL_PRINTF(2, 3);
/* agent_launch.c */
int espl__gang_launch(struct espl__agent_gang *); /* 0, or -1: a rank carries the reason */
/* The process that was to fork it did not. */
void espl__launch_cold(struct espl__agent_rank *);
void espl__agent_reserve(struct espl__agent *, uint64_t number, uint64_t word);
void espl__agent_unreserve(struct espl__agent *, uint64_t number);
void espl__agent_close_doors(struct espl__agent *); /* the driver is another one */
/* agent_reach.c */
int espl__reach_try(struct espl__agent *, struct espl__reader *); /* TRY came; -1: it is bad */
void espl__reach_answer(struct espl__agent *, int door);          /* somebody connects */
/* agent_report.c */
void espl__report_read(struct espl__agent_gang *);
void espl__report_take(struct espl__agent_gang *); /* acts on lines already read */
void espl__report_reply(struct espl__agent_gang *, const char *line);
void espl__report_write(struct espl__agent_gang *); /* the socket can take more */
void espl__report_mute(struct espl__agent_gang *);  /* mute_at has come */
/* Everything that a dead rank 0 had written is forwarded: nothing more can follow. */
int espl__report_drained(struct espl__agent_gang *);
void espl__report_garbage(struct espl__agent_gang *, const char *format, ...) ESPL_PRINTF(2, 3);
/* agent_resize.c */
int espl__gang_new_slots(struct espl__agent_gang *,
    const struct espl__rank_slots *); /* -1: not what it has */
void espl__control_read(struct espl__agent_rank *);
/* Sends LEFT when it is due. */
void espl__gang_tell_left(struct espl__agent_gang *);
/* One line, as a rank understands it; `local` among the node's ranks. */
void espl__rank_slot_line(const struct espl__meeting *, uint32_t rank, uint32_t local,
    struct espl__buf *);
/* agent_setup.c */
/* Its node must be set up first: 1, then steps->begin, or steps->claimed with the reason. */
int espl__setup_awaited(struct espl__agent_gang *);
int espl__setup_fd(const struct espl__agent *, uint32_t index);    /* -1: there are no more */
pid_t espl__setup_pid(const struct espl__agent *, uint32_t index); /* 0: no more */
void espl__setup_receive(struct espl__agent *, int fd);
int64_t espl__setup_tend(struct espl__agent *, int64_t now); /* the next deadline (0 none) */
void espl__setup_free(struct espl__agent *);
/* agent_files.c */
espl_status espl__files_make(struct espl__agent_gang *, struct espl__diag *);
int espl__files_log(const struct espl__agent_gang *); /* descriptor, -1 with errno */
espl_status espl__files_lead(struct espl__agent_gang *,
    struct espl__diag *);                          /* rank 0 saves here from now on */
void espl__files_leave(struct espl__agent_gang *); /* removes what is of no more use */
void espl__files_save(struct espl__agent_gang *, uint64_t iteration);
void espl__files_verify(struct espl__agent_gang *); /* then steps->prepared */
/* Can the run directory be written at all?  If not, that is why the gang failed. */
void espl__files_probe(struct espl__agent_gang *);
void espl__files_collect(struct espl__agent *, uint64_t trial, uint64_t keep);
void espl__files_tell_saved(struct espl__agent_gang *, uint64_t iteration, uint64_t bytes);
/* agent_leave.c */
void espl__leave_begin(struct espl__agent *, const char *epoch); /* LEAVE came */
int64_t espl__leave_tend(struct espl__agent *, int64_t now);     /* the next deadline (0 none) */
void espl__leave_write(const struct espl__agent *);              /* at its end */
/* agent_home.c */
int espl__home_make(struct espl__agent *);   /* becomes dir; -1: there can be none */
void espl__home_leave(struct espl__agent *); /* removes it */
/* Is it still there?  Returns when it wants to be called again; 0: when a job is done, or never. */
int64_t espl__home_tend(struct espl__agent *, int64_t now);
/* Was the directory behind `fd` removed, or is there another one at its path?  In any thread. */
int espl__home_is_gone(int fd, const char *path);
/* agent_relay.c: only where the run directory is not visible, unless stated otherwise */
int espl__relay_begin(struct espl__agent *);
void espl__relay_free(struct espl__agent *);
void espl__relay_again(struct espl__agent *); /* the driver is a new one */
int espl__relay_receive(struct espl__agent *, uint8_t type, struct espl__reader *);
/* Sends what is due; returns the next deadline (0 none).  Anywhere. */
int64_t espl__relay_tend(struct espl__agent *, int64_t now);
/* A complete checkpoint is on its way: then espl__files_tell_saved. */
void espl__relay_save(struct espl__agent_gang *, uint64_t iteration, uint64_t bytes);
/* Has to get the files of the search first: 1, then steps->begin. */
int espl__relay_files(struct espl__agent_gang *);
void espl__relay_fetch(struct espl__agent_gang *); /* then espl__files_verify */
/* Nothing of it is still to be sent.  Anywhere. */
int espl__relay_settled(struct espl__agent_gang *);
/* agent_outputs.c: only where the run directory is not visible */
/* A put has ended: 1, if it was one of output files. */
int espl__outputs_put(struct espl__agent *, const char *name, const struct espl__diag *);
/* The gang has ended otherwise: 1, if its end need not wait for its output files. */
int espl__outputs_settled(struct espl__agent_gang *);
/* Of a gang that was launched.  Sends what is due; returns the next deadline (0 none). */
int64_t espl__outputs_tend(struct espl__agent_gang *, int64_t now);
/* agent_courier.c: for movers */
struct espl__move;
/* How a directory was not fetched: its courier died; the bucket did not give it. */
#define ESPL__COURIER_DIED ESPL_E_BUSY
#define ESPL__COURIER_REFUSED ESPL_E_PEER
void espl__courier_line(void *agent, struct espl__move *, const char *line);
void espl__courier_gone(void *agent, struct espl__move *);
int espl__courier_fd(const struct espl__agent *, uint32_t index);    /* -1: there are no more */
pid_t espl__courier_pid(const struct espl__agent *, uint32_t index); /* 0: no more */
void espl__courier_receive(struct espl__agent *, int fd);
/* agent_last_line.c */
#define ESPL__LAST_LINE_MAX 201u
/* The last line in its log that is not empty, fit to be printed; "" none. */
void espl__gang_last_line(const struct espl__agent_gang *, char to[ESPL__LAST_LINE_MAX]);
void espl__last_line(const char *text, size_t size, char *to, size_t room); /* text[size] is 0 */
struct espl__strings {
	char **list;
	size_t count, cap;
};
/* agent_env.c */
void espl__env_make(const struct espl__agent_rank *, int reports, int listens,
    struct espl__strings *);
/* What trials of one kind have in common: without the variables in which they differ. */
void espl__env_common(const struct espl__agent_rank *, int listens, struct espl__strings *);
/* agent_argv.c */
const char *espl__env_get(const struct espl__strings *, const char *name); /* NULL absent */
void espl__strings_free(struct espl__strings *);
void espl__words_add(struct espl__strings *, char *text);                      /* takes it over */
char *espl__find_program(const char *name, const char *dir, const char *path); /* NULL: nowhere */
/* Appends the words to run, with values for their names; through espalier-listen if
 * the rank's output is read.  Returns the program, or NULL if it is nowhere. */
char *espl__agent_words(const struct espl__agent_rank *, const struct espl__strings *env,
    int listens, struct espl__strings *);
void espl__env_inherit(struct espl__strings *);         /* the agent's own, cleaned */
void espl__env_set(struct espl__strings *, char *text); /* takes over "NAME=value" */
/* "NAME=value" sets, "NAME" removes; one after the other. */
void espl__env_apply(struct espl__strings *, const char *const *given, uint32_t count);
#endif
