/* agent_gpu.h - the GPUs of a node: which trials use them, how they are shared, whether they are
 * clean.
 *
 *   agent_gpu.c         a GPU from one trial to the next: claimed, held, left; faults of MPS
 *   agent_clean.c       observations by NVML: the proof that it is clean, memory in use
 *   agent_gpu_verdict.c decides from what NVML and MPS reported
 *   agent_mps.c         the private MPS daemon of one GPU
 *   mps_directory.c     its directory, and the directories that a killed agent left
 *   mps_ask.c           a question to nvidia-cuda-mps-control
 *
 * All of it runs in the agent's one thread, except for the calls of NVML, which are jobs.
 */
#ifndef ESPL__AGENT_GPU_H
#define ESPL__AGENT_GPU_H
#include "agent/agent.h"

/* ---- a question ---------------------------------------------------------------------------- */

struct espl__ask {
	pid_t pid; /* 0: none is under way */
	int out;   /* where the answer comes from, -1 closed */
	int gone;  /* the process has ended */
	int code;  /* its exit status; -1: killed, or too late */
	int64_t until;
	struct espl__buf text; /* the answer */
};
/* Runs a program with `text` for its standard input.  -1 with errno. */
int espl__ask_begin(struct espl__ask *, const char *path, char *const *env, const char *text,
    int64_t limit_ns);
void espl__ask_read(struct espl__ask *);
int espl__ask_done(struct espl__ask *,
    int64_t now);                       /* 1: it has answered, failed, or is too late */
void espl__ask_end(struct espl__ask *); /* kills it if need be; fine if there is none */

/* What nvidia-cuda-mps-control says of a server. */
enum espl__mps_status { ESPL__MPS_SILENT, ESPL__MPS_ACTIVE, ESPL__MPS_COMING, ESPL__MPS_FAULT };
struct espl__mps_answer {
	pid_t server;
	int seen;
	enum espl__mps_status status;
};
/* `known`: the server that was asked about, 0 any; `seen`: it is in the list. */
void espl__mps_read(const char *text, pid_t known, struct espl__mps_answer *);

/* ---- the daemon ---------------------------------------------------------------------------- */

struct espl__mps_directory {
	char *path;
	int lock;
}; /* lock -1: there is none */
int espl__mps_directory_make(struct espl__mps_directory *,
    const char **why); /* 0, or -1 with *why: static text */
void espl__mps_directory_remove(struct espl__mps_directory *);
/* Kills the processes in MPS directories that no agent holds, and removes the directories. Returns
 * the number of processes killed. */
size_t espl__mps_directories_sweep(void);

enum espl__mps_state {
	ESPL__MPS_OFF,
	ESPL__MPS_STARTING, /* the program that makes the daemon has not returned */
	ESPL__MPS_WAKING,   /* the daemon is there, its server is coming */
	ESPL__MPS_UP,
	ESPL__MPS_ENDING /* asked to quit, or killed, but still there */
};
struct espl__card;
struct espl__mps {
	struct espl__card *card;
	enum espl__mps_state state;
	struct espl__mps_directory directory; /* its pipe directory */
	struct espl__strings env;
	char *program;
	int link; /* to the supervisor above it, -1 none */
	pid_t sup, server;
	struct espl__ask ask;
	int question;                   /* what `ask` is about */
	uint64_t wanted, begun, proved; /* proofs of life, by number */
	int64_t until, ask_at;          /* deadline of the state; when to ask again, 0 none */
	int killed;
};
/* The number of a proof that begins from now on; it is held when `proved` has come to it. */
uint64_t espl__mps_prove(struct espl__mps *);
void espl__mps_quit(struct espl__mps *);
void espl__mps_kill(struct espl__mps *);
void espl__mps_receive(struct espl__mps *, int fd); /* its link, or the answer */
void espl__mps_tend(struct espl__mps *, int64_t now, int64_t *next);

/* ---- the GPU ------------------------------------------------------------------------------- */

enum espl__card_state {
	ESPL__CARD_NEW,   /* nothing of ours was on it yet */
	ESPL__CARD_OPEN,  /* clean, or held by gangs that share it */
	ESPL__CARD_DIRTY, /* left; not proven clean */
	ESPL__CARD_ASIDE  /* it did not become clean and is not used any more */
};
struct espl__card {
	struct espl__agent *agent;
	uint32_t index; /* of the agent's gpus */
	enum espl__card_state state;
	uint32_t ranks, mps_ranks; /* that hold it; of these, through MPS */
	char *why;                 /* ASIDE */
	/* why there is no MPS here; NULL: there is, or it was not tried */
	char *no_mps;
	uint32_t faults;      /* of its daemon, with no good end between */
	int said;             /* how it is shared, as last reported: enum espl__sharing */
	int64_t linger_until; /* until then its daemon stays without a trial */
	struct espl__mps mps;
	/* agent_clean.c */
	int looking, blind_reported, foreign_reported, ended_some, level_known;
	int64_t look_at, clean_by; /* the next look; when it is too late; 0 none */
	int64_t usage_at;          /* time of the next query of memory use */
	/* bytes in use before our first trial came; of these, by others */
	uint64_t level, strangers;
};
/* Its daemon, or what it served, is lost. */
void espl__card_fault(struct espl__card *, const char *format, ...) ESPL_PRINTF(2, 3);
void espl__card_no_mps(struct espl__card *, const char *format, ...) ESPL_PRINTF(2, 3);
void espl__card_aside(struct espl__card *, const char *format, ...) ESPL_PRINTF(2, 3);
/* agent_clean.c: one step towards OPEN or ASIDE, from NEW or DIRTY; one query of memory use. */
void espl__card_clean(struct espl__card *, int64_t now, int64_t *next);
void espl__card_usage(struct espl__card *, int64_t now, int64_t *next);

/* What one look has seen, judged. */
struct espl__seen {
	uint64_t used, total;
	uint64_t strangers;   /* bytes of processes that may be there */
	uint32_t ours, vague; /* processes that must not be there; with unknown use */
};
enum espl__verdict { ESPL__CLEAN, ESPL__PROCESSES_LEFT, ESPL__MEMORY_LEFT };
enum espl__verdict espl__seen_judge(const struct espl__seen *, uint64_t level, uint64_t strangers);

/* ---- for the other parts of the agent ------------------------------------------------------ */

void espl__gpus_open(struct espl__agent *);
void espl__gpus_free(struct espl__agent *);
/* steps->claimed is called when the gang's GPUs are its own, or cannot be. */
void espl__gpus_claim(struct espl__agent_gang *);
void espl__gpus_leave(struct espl__agent_rank *);        /* it is gone; more than once is fine */
void espl__gpus_failed(struct espl__agent_gang *);       /* a rank of it failed by itself */
int espl__gpus_settled(const struct espl__agent_gang *); /* 1: the trial that caused it is known */
void espl__gpus_bye(struct espl__agent_gang *);          /* it has ended */
void espl__gpus_env(const struct espl__agent_rank *, struct espl__strings *);
int64_t espl__gpus_tend(struct espl__agent *, int64_t now); /* the next deadline, 0 none */
int espl__gpus_over(const struct espl__agent *);            /* no daemon is left */
/* The n-th descriptor to be polled, and the n-th process that belongs to no trial; -1 and 0: no
 * more. */
int espl__gpus_fd(const struct espl__agent *, uint32_t n);
pid_t espl__gpus_pid(const struct espl__agent *, uint32_t n);
void espl__gpus_receive(struct espl__agent *, int fd);
void espl__gpus_reaped(struct espl__agent *, pid_t, int status);
void espl__gpus_report(struct espl__agent *, enum espl__gpu_news, uint64_t gang, uint64_t number,
    const char *text);
#endif
