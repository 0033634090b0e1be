/* real.h - what the parts of the real world share; only driver/real/real*.c include it.
 *
 * One thread, one libuv loop.  Callbacks only queue events and frames; the executor is called by
 * drive.c between two turns of the loop.  Times called `tick` are monotonic (base/tick.h); times
 * of type espl_time are on the run's clock.
 */
#ifndef ESPL__REAL_H
#define ESPL__REAL_H
#include <stdio.h>
#include <sys/types.h>
#include <uv.h>
#include "base/map.h"
#include "exec/event.h"
#include "listen/listen.h"
#include "node/transfer/mover.h"
#include "node/wire.h"
#include "real/cloudio.h"
#include "real/reap.h"
#include "real/s3.h"
#include "run/world.h"

#define ESPL__REAL_SECOND INT64_C(1000000000)
#define ESPL__REAL_HELLO_LIMIT (60 * ESPL__REAL_SECOND)
#define ESPL__REAL_CLOSE_LIMIT (10 * ESPL__REAL_SECOND) /* agents that do not go: SIGKILL */
/* checkpoints are read whole first */
#define ESPL__REAL_START_LIMIT (3600 * ESPL__REAL_SECOND)
#define ESPL__REAL_AGENT_TRIES 3

struct espl__real;
struct espl__ragent;

/* The clock of a state that something waits for. */
struct espl__rwait {
	const char *state; /* in words; NULL: none */
	int64_t since;     /* tick at which it came into that state */
	int64_t say_at;    /* tick of the next line about it */
};

#define ESPL__RLEASE_MAGIC 0x746a6367u
/* A lease as the world knows it, from FX_ACQUIRE (or resume) to EV_NODE ENDED. */
struct espl__rlease {
	uint32_t magic; /* ESPL__RLEASE_MAGIC */
	uint64_t id;
	uint32_t offer;
	espl_money max_price_hour;
	char *token, *offer_name, *market;
	char *provider_id, *address, *detail; /* NULL until reported */
	char *machine;                        /* the same */
	espl_node_state cloud;                /* as the cloud last reported; 0: not yet */
	espl_node_state reported;             /* as last reported to the executor */
	uint32_t gpus;      /* READY: as the cloud said, else as the agent found */
	char *risk;         /* text of the last EV_RISK; NULL: none */
	int adopt;          /* comes from an earlier driver */
	int asked;          /* acquire or adopt was called */
	int releasing;      /* is to be given back */
	int64_t release_at; /* tick at which release is called (again) */
	int releases;       /* how often it was */
	espl_reason blame;  /* reason reported instead of the cloud's BY_USER; 0 none */
	char *why;          /* in words, why it ends; NULL: we wanted it to */
	int ended;          /* the cloud said so; reported when the agent is gone */
	espl_reason reason; /* of the end */
	espl_money charged;
	int unfit;              /* EV_UNFIT was sent */
	unsigned saved_in_vain; /* saves that failed there in a row */
	struct espl__rwait wait;
	char *said;       /* the provider's last word; NULL: none */
	int tries;        /* agents that failed in a row */
	int64_t agent_at; /* tick at which the next agent is started; 0 none */
	int64_t lost_at;  /* tick of the last EV_REACH that said so; 0: reachable */
	uint64_t epoch;   /* of its session; 0: none */
	int64_t saving;   /* tick at which a resume heard that its trials save; 0: not */
	int left;         /* `backlog` is what an agent has left in RUN/left */
	int rejoined;     /* the session outlived the last driver, and sent its state */
	/* at the end of the driver: reached by a command; its session has not been told to end */
	int distant, unheard;
	struct espl__buf backlog;   /* messages about gangs, until the state is complete */
	struct espl__ragent *agent; /* NULL: none */
};

/* An agent process and the channel to it.  Freed when all its handles are closed. */
enum espl__agent_state {
	ESPL__AGENT_HELLO = 1,
	ESPL__AGENT_READY,
	ESPL__AGENT_CLOSING,
	ESPL__AGENT_GONE
};
#define ESPL__RAGENT_MAGIC 0x74676163u
struct espl__ragent {
	uint32_t magic; /* ESPL__RAGENT_MAGIC */
	struct espl__real *real;
	struct espl__rlease *lease; /* outlives it */
	enum espl__agent_state state;
	uv_process_t process;
	uv_pipe_t to, from, log;
	uv_write_t request;
	int handles; /* open ones */
	int eof, exited, writing;
	int broken;             /* its messages are ignored */
	int refused;            /* another one on this node would be no better */
	int unfit;              /* nor a trial: trial.setup failed */
	int signalled;          /* by us */
	int kills;              /* times that SIGKILL was sent */
	int64_t born, deadline; /* ticks; deadline 0: none */
	int64_t pinged, last_received;
	int here;        /* on this machine */
	int remote;      /* reached by words of the cloud, such as ssh HOST */
	int session;     /* outlives its channel: see node/session/session.h */
	int64_t lost_at; /* session: no connection since this tick; 0: there is one */
	uint32_t gpus, cpus;
	struct espl__mover *mover; /* of a node that does not see the run directory, or NULL */
	struct espl__buf in, out, flight, text, late;
	char why[512];       /* of the failure */
	char last_line[300]; /* the last line of its standard error */
	char reason[300];    /* the line there that explains most; as last_line, with ": " */
	int reason_weight;
};

struct espl__rank_end {
	uint32_t rank;
	int32_t code;
	uint64_t lease;
	char *text, *said;
};
/* The ranks of a gang that were started together on one node: a separate gang for the agent. */
struct espl__part {
	uint64_t lease, wing; /* wing: its number with the agent */
	uint32_t first, count;
	uint32_t live, leaves; /* ranks that have not left; that will in the resize */
	/* off: it was to join, and is ended instead */
	int prepared, started, ended, lost, off;
	/* tick by which its agent must have started or ended it; 0: none */
	int64_t answer_by;
};
struct espl__rmember {
	uint32_t part, index;
	struct espl_slot slot;
}; /* index: in its part */
enum espl__rresize { ESPL__STEADY = 0, ESPL__PREPARING, ESPL__CHANGING };
/* What the trials of one search run. */
struct espl__rkind {
	const struct espl__inputs *of;
	char *options;   /* trial.options as text */
	char *directory; /* of trial.files; NULL none */
	char **environment;
	const char **setup; /* words of trial.setup */
	/* of trial.command, with {{ for each brace that begins no name; ended by NULL */
	char **command;
	uint32_t environment_count, setup_count;
	uint64_t iterations_max; /* 0: the budget of each start */
	int started;             /* a trial has been */
	int torchrun;            /* a single rank of a command has torchrun's variables, too */
	/* how the program prints, as earlier trials have shown, and trial.metrics with that; NULL:
	 * nothing is known */
	struct espl__listen_layout layout;
	char *metrics;
};
#define ESPL__RGANG_MAGIC 0x7762646bu
struct espl__rgang {
	uint32_t magic; /* ESPL__RGANG_MAGIC */
	struct espl__rgang *prev, *next;
	struct espl__rkind *kind;
	uint64_t id, trial;
	struct espl__part *parts;
	uint32_t part_count, part_cap, started, ended;
	uint64_t begun;              /* iteration it started from */
	uint64_t last;               /* iteration last reported (at first: begun) */
	uint64_t source, checkpoint; /* what it restores; source ESPL_NONE: not known any more */
	uint64_t unused;             /* lines like metrics that were not used */
	uint64_t budget, saved;      /* saved: newest seen of this gang, 0 none */
	uint64_t arrived;            /* newest checkpoint that came from a private node, 0 none */
	int waiting;                 /* a report is with the executor */
	int killed, lost, finished, warned;
	int over;                       /* all processes are gone, but not all lines are read */
	enum espl__directive directive; /* PAUSE or STOP, once sent */
	/* tick at which a rank that is to leave is killed; 0 none */
	int64_t stay_until;
	struct espl__rwait wait;
	int64_t asked_at;      /* tick of the last reply */
	char *broken;          /* how it broke the protocol; NULL: it did not */
	struct espl__buf held; /* lines that came before the reply to the one before */
	uint32_t held_count;
	struct espl__rank_end *ends;
	uint32_t end_count, end_cap;
	struct espl__rmember *members, *coming; /* by rank; coming: in the resize under way */
	uint32_t world, coming_world;
	uint32_t generation, port; /* resizes so far; the door of rank 0 */
	enum espl__rresize resize;
	struct espl__rasked *asked; /* a resize that waits until its nodes are known to reach each
				     * other; NULL: none does */
	int unmet;                  /* they do not: it was not started */
	uint32_t expected;          /* ranks that are not ready yet to join */
	int confirming;             /* all are ready, and its nodes try once more: */
	uint64_t granted;           /* the budget that it then continues with */
	int changed, failing;       /* the new ranks continue; a rank has failed */
	int64_t took;
	struct espl__start_plan *plan; /* what to start, until it was sent (waits for a port) */
};

struct espl__compute_job;

struct espl__start_plan {
	struct espl__start start;       /* what all parts have in common */
	struct espl__start_rank *ranks; /* of all parts, part after part */
	struct espl__buf params;
	/* a port was asked for; its nodes reach each other */
	int begun, met;
};
/* A resize that was asked for. */
struct espl__rasked {
	struct espl_slot *slots;
	double *values;
	uint32_t count, packing, attempt;
};
/* What the channel of an agent brings to those above it. */
struct espl__agent_events {
	void (*started)(struct espl__real *); /* it runs: gangs that wait for it begin */
	void (*hello)(struct espl__real *, struct espl__rlease *);
	void (*reach)(struct espl__real *, struct espl__rlease *, const char *why, int64_t lost);
	void (*risk)(struct espl__real *, struct espl__rlease *, const char *why);
	void (*gone)(struct espl__real *, struct espl__rlease *, const struct espl__ragent *);
	/* its node is private; it says something about what moves; it is gone */
	void (*private)(struct espl__ragent *);
	int (*moves)(struct espl__ragent *, uint8_t type, struct espl__reader *);
	void (*closed)(struct espl__ragent *);
	/* what it says of gangs that outlived the last driver */
	int (*state)(struct espl__rlease *, uint8_t type, const struct espl__reader *);
	void (*saving)(struct espl__rlease *); /* these save, and end */
	/* 0: read; -1: it cannot be */
	int (*gpu)(struct espl__real *, const struct espl__rlease *, struct espl__reader *);
	int (
	    *gang)(struct espl__real *, struct espl__rlease *, uint8_t type, struct espl__reader *);
};

struct espl__offer_name {
	char *name, *market;
};

/* Machines of this run that are not among its leases (real_owned.c). */
struct espl__orphan;
struct espl__sweep {
	uint64_t what; /* number of the last listing */
	int asking;
	int64_t until;            /* tick by which it must be answered */
	struct espl__names ended; /* tokens of leases that ended since it was asked for */
	struct espl__orphan **list;
	uint32_t count, cap;
};

#define ESPL__REAL_MAGIC 0x76616568u
struct espl__real {
	struct espl__world world; /* first */
	uint32_t magic;           /* ESPL__REAL_MAGIC */
	const struct espl__agent_events *agent_events;
	const struct espl__run_config *config;
	const struct espl__inputs *own; /* of the run */
	char *dir;
	uint64_t token;
	uint8_t secret[32]; /* from which the keys of gangs are made */
	uint64_t number;    /* of this driver among those of the run: rises from one to the next */
	char run[20];       /* token in hex: label of machines */
	uv_loop_t loop;
	uv_timer_t tick, timer;
	uv_prepare_t prepare;
	int ticked, begun, closing;
	int rang;                 /* the timer has, in the batch that fills */
	int troubled;             /* EV_TROUBLE was sent */
	uint64_t unfetched;       /* 1 + the last lease that could not fetch; 0: one did since */
	unsigned saved_in_vain;   /* saves that failed, with none between that did not */
	volatile int stop_wanted; /* set by stop (a signal handler may) */
	int stop_sent;
	int64_t base_tick; /* clock: base + tick - base_tick */
	int64_t last_tick; /* of the loop's own timer */
	espl_time base, now, timer_at;
	struct espl__batch batch[2];
	int filling; /* the batch that events go to */
	/* cloud */
	struct espl__host_env env;
	struct espl_run about; /* for the cloud */
	espl_time env_now;
	struct espl__instance *cloud;
	const struct espl_cloud_ops *ops;
	struct espl__cloudio *io;
	struct espl_cloud_events events;
	uint64_t notes[16]; /* digests of what the cloud noted last: it is not kept again */
	uint32_t note_count;
	int cloud_up, cloud_failed;
	struct espl__offer_name *offers;
	uint32_t offer_count, offer_cap;
	int gpus_offered;             /* at least one offer has GPUs */
	struct espl__rlease **leases; /* by number, rising */
	uint32_t lease_count, lease_cap;
	int leases_dirty;
	struct espl__sweep sweep;
	uint8_t *arrived; /* [search]: its arrival was reported to the executor */
	uint32_t arrived_count, arrived_cap;
	int64_t spool_at;              /* tick of the next look into the spool */
	struct espl__names spool_left; /* requests that were answered and cannot be removed */
	uint64_t job_next;             /* of a workload's jobs, the first that has not come */
	/* gangs */
	struct espl__rtry *tries; /* under way (real_reach.c) */
	uint64_t tried;           /* number of the last one */
	struct espl__map gang_map;
	struct espl__rgang *gangs;
	struct espl__names metrics;
	int dropped_said;             /* the warning about metrics beyond the limits was given */
	int notes_dropped, notes_cut; /* ... about notes */
	/* lines of programs that look like metrics and were not used; in the first of these trials,
	 * and in others */
	uint64_t unused_trial, unused, unused_others;
	struct espl__rkind **kinds; /* by number of the search */
	uint32_t kind_count, kind_cap;
	/* removals, computations, children */
	uint32_t works; /* removals under way */
	uint64_t trash;
	int rejoining;    /* agents that outlived the last driver are asked for their state */
	int agents_lost;  /* in this run: they may have left directories */
	int log_lost;     /* a log could not be written, and the warning was given */
	int64_t gangs_at; /* tick of the last look at the gangs */
	/* from and to private nodes that are gone; output files from there */
	struct espl__moved moved[ESPL__MOVED_KINDS];
	struct espl__compute_job *jobs;
	int s3_said;
	struct espl__s3 *s3; /* NULL: no bucket is used */
	char *ship; /* what nodes are sent (real_ship.c): path of the file; NULL: not made yet */
	uint32_t shipped; /* number of experiments whose plugins are in it */
	struct espl__pids pids;
};

/* real.c */
struct espl__event *espl__real_event(struct espl__real *,
    enum espl__event_type);                                /* valid until the next one */
struct espl__arena *espl__real_arena(struct espl__real *); /* lives as long as the queued events */
espl_time espl__real_clock(const struct espl__real *);

/* real_cloud.c: the plugin, its offers and events. */
espl_status espl__real_cloud_new(struct espl__real *, struct espl__diag *);
espl_status espl__real_cloud_start(struct espl__real *, struct espl__diag *);
void espl__real_cloud_free(struct espl__real *);
void espl__real_enter(struct espl__real *); /* before every call into the plugin */

/* real_rejoin.c: agents and gangs that outlived the last driver.  Queues EV_OUTLIVED for each gang
 * that keeps running, EV_RESUME, and what these gangs have sent since; before EV_RESUME, the
 * messages of gangs that no driver reclaimed in time.  Takes 20 s at most,
 * or as long as nodes say that trials save. */
void espl__real_rejoin(struct espl__real *);
/* A line that an agent repeats: a report that the journal does not have; or one that it has, with
 * (REPLY) or without a reply that may not have arrived. */
enum espl__rejoin_line { ESPL__REJOIN_NEW, ESPL__REJOIN_KNOWN, ESPL__REJOIN_REPLY };
enum espl__rejoin_line espl__real_rejoin_line(const struct espl__gang_info *, uint64_t iteration);
/* A message of such an agent; -1: its payload is bad. */
int espl__real_rejoin_message(struct espl__rlease *, uint8_t type, const struct espl__reader *);
void espl__real_rejoin_saving(struct espl__rlease *);

/* real_leases.c: from FX_ACQUIRE to ENDED. */
struct espl__rlease *espl__real_lease(const struct espl__real *, uint64_t id);
struct espl__rlease *espl__real_lease_add(struct espl__real *, uint64_t id, uint32_t offer,
    espl_money max_price_hour);
void espl__real_leases_ask(struct espl__real *); /* acquire or adopt what was not yet */
void espl__real_release(struct espl__real *, struct espl__rlease *, espl_reason blame);
void espl__real_lease_event(struct espl__real *, const struct espl_node_event *);
/* The provider may take its machine back: reported once. */
void espl__real_lease_risk(struct espl__real *, struct espl__rlease *, const char *text);
void espl__real_tell_ready(struct espl__real *, struct espl__rlease *);
void espl__real_lease_hello(struct espl__real *, struct espl__rlease *); /* its agent answers */
/* The connection to its agent broke for now (why), or is there again (NULL, after `lost` ns). */
void espl__real_lease_reach(struct espl__real *, struct espl__rlease *, const char *why,
    int64_t lost);
void espl__real_lease_agent_gone(struct espl__real *, struct espl__rlease *,
    const struct espl__ragent *);
void espl__real_leases_tick(struct espl__real *, int64_t tick);
espl_status espl__real_leases_resume(struct espl__real *, struct espl__diag *);
void espl__real_lease_view(const struct espl__rlease *, struct espl_lease *);
void espl__real_leases_free(struct espl__real *);

/* real_waits.c: says what has been in one state for long. */
void espl__real_waits_tick(struct espl__real *, int64_t tick);

/* real_owned.c: asks the cloud for the machines of this run; those that are not among its leases
 * are released and reported. */
void espl__real_owned_ask(struct espl__real *);
void espl__real_owned_event(struct espl__real *, const struct espl_node_event *); /* of no lease */
void espl__real_owned_done(struct espl__real *, uint64_t what, espl_status, const char *text);
void espl__real_owned_ended(struct espl__real *, const struct espl__rlease *);
void espl__real_owned_tick(struct espl__real *, int64_t tick);
void espl__real_owned_close(struct espl__real *); /* a last time, after all leases have ended */
void espl__real_owned_free(struct espl__real *);

/* real_agent.c: the process and its channel. */
void espl__agent_start(struct espl__real *, struct espl__rlease *);
void espl__agent_send(struct espl__ragent *, enum espl__message, const struct espl__buf *);
void espl__agent_close(struct espl__ragent *); /* end it: EOF, then SIGKILL */
void espl__agent_break(struct espl__ragent *, const char *format, ...) ESPL_PRINTF(2, 3);
void espl__agent_kill(struct espl__ragent *); /* SIGKILL now */
void espl__agents_flush(struct espl__real *);
void espl__agents_tick(struct espl__real *, int64_t tick);
void espl__agents_held(struct espl__real *,
    int64_t late); /* the driver was suspended this long; agents may have been, too */

/* real_command.c: the words that start an agent, ended by NULL, malloc'd; complete enough to name
 * also if it fails. */
espl_status espl__real_agent_command(struct espl__ragent *, char ***argv, struct espl__diag *);

/* real_ship.c: sending the agent to nodes that have none. */
/* Path of the file for `espalier-agent --ship`; NULL: it cannot be made. */
const char *espl__real_ship(struct espl__real *, struct espl__diag *);
/* A line that --ship wrote for us: 1; else 0. */
int espl__real_ship_line(struct espl__ragent *, const char *line, size_t length);
void espl__real_ship_free(struct espl__real *);

/* real_start.c, real_gangs.c, real_lines.c */
espl_status espl__real_gangs_new(struct espl__real *, struct espl__diag *);
void espl__real_gangs_free(struct espl__real *);
void espl__real_kinds_free(struct espl__real *);
espl_status espl__real_start(struct espl__real *, const struct espl__effect *, struct espl__diag *);
void espl__real_reply(struct espl__real *, const struct espl__effect *);
void espl__real_kill(struct espl__real *, const struct espl__effect *);
void espl__real_gangs_tick(struct espl__real *, int64_t tick);
void espl__real_gangs_held(struct espl__real *, int64_t late);
/* A node was unreachable for this long: the deadlines of its gangs are extended by as much. */
void espl__real_gangs_away(struct espl__real *, uint64_t lease, int64_t lost);
void espl__real_gangs_agent(struct espl__real *); /* a new agent: gangs that wait for it begin */
/* A gang that runs already, on one node, as recorded in the journal; NULL: it cannot be one. */
struct espl__rgang *espl__real_gang_again(struct espl__real *, const struct espl__gang_info *);
/* What is the same in the start messages of all parts of a gang; `params` must live as long. */
void espl__real_start_fill(struct espl__real *, const struct espl__rgang *,
    const struct espl__rlease *first, const double *values, struct espl__start *,
    struct espl__buf *params);
void espl__real_start_port(struct espl__real *, struct espl__rgang *, uint32_t port); /* came */
void espl__real_plan_free(struct espl__rgang *);
/* 32 bytes that only this run can know, from its secret. */
void espl__real_key(const struct espl__real *, const char *what, uint64_t number,
    uint8_t key[ESPL__GANG_KEY]);
void espl__real_asked_free(struct espl__rgang *); /* a resize that has not begun */
void espl__real_gang_free(struct espl__real *, struct espl__rgang *);
struct espl__ragent *espl__real_part_agent(const struct espl__real *,
    const struct espl__part *); /* NULL: none that works */
/* One of its nodes is unreachable at present. */
int espl__real_gang_unreachable(const struct espl__real *, const struct espl__rgang *);
struct espl__rgang *espl__real_gang(const struct espl__real *, uint64_t id);
/* A message of the agent of `lease`; -1: its payload is bad. */
int espl__real_gang_message(struct espl__real *, struct espl__rlease *, uint8_t type,
    struct espl__reader *);
void espl__real_gangs_lost(struct espl__real *, uint64_t lease); /* all its processes are gone */
void espl__real_gang_finish(struct espl__real *, struct espl__rgang *); /* EV_ENDED; frees it */
void espl__real_gang_kill_parts(struct espl__real *, struct espl__rgang *, uint64_t grace_ms);
/* The gang is ended unless it leaves within the span. */
void espl__real_stay_at_most(struct espl__rgang *, espl_span);
void espl__real_leave_soon(struct espl__rgang *);
void espl__real_gang_break(struct espl__real *, struct espl__rgang *, const char *format, ...)
    ESPL_PRINTF(3, 4);
void espl__real_send_reply(struct espl__real *, struct espl__rgang *, enum espl__directive,
    uint64_t budget);
void espl__real_send_line(struct espl__real *, const struct espl__rgang *, const char *text);
void espl__real_line(struct espl__real *, struct espl__rgang *, const char *text, size_t);
/* {"notes": {...}} */
/* One warning, if programs printed what looks like metrics and was not used. */
void espl__real_lines_report(const struct espl__real *);
void espl__real_line_note(struct espl__real *, struct espl__rgang *, const char *text, size_t);
/* The iteration of a line that is a report; 0: it is not one. */
uint64_t espl__real_line_iteration(const char *text, size_t);
void espl__real_lines_held(struct espl__real *,
    struct espl__rgang *); /* the next of those held back */
/* real_resize.c: gangs that change while they live. */
void espl__real_resize(struct espl__real *, const struct espl__effect *);
int espl__real_resize_now(struct espl__real *, struct espl__rgang *,
    uint64_t budget);                                                  /* 1: instead of CONTINUE */
void espl__real_resize_off(struct espl__real *, struct espl__rgang *); /* it must leave instead */
int espl__real_resize_line(struct espl__real *, struct espl__rgang *, const char *text,
    size_t); /* 1: it was one */
void espl__real_resize_left(struct espl__real *, struct espl__rgang *, struct espl__part *);
/* real_gpu.c: news of GPUs (-1: its payload is bad); did they end the gang, and must the run stop
 * for it? */
int espl__real_gpu_message(struct espl__real *, const struct espl__rlease *, struct espl__reader *);
int espl__real_gpu_fault(const struct espl__rgang *);
/* How the first rank ended whose text begins with the prefix; NULL: none. */
const struct espl__rank_end *espl__real_end_with(const struct espl__rgang *, const char *prefix);

/* Whether a part of it that has not ended is on the node of this lease. */
int espl__real_gang_is_on(const struct espl__rgang *, uint64_t lease);
/* real_reach.c: whether machines reach each other. */
void espl__real_reach_join(struct espl__real *, const struct espl__rlease *);
/* Of a gang that is to start on these slots or to be resized: what then happens. */
struct espl__reach_then {
	void (*tried)(struct espl__real *, struct espl__rgang *, int met); /* may free it */
	uint32_t (*rank)(const struct espl__rgang *, uint64_t lease);      /* its first there */
};
void espl__real_reach_gang(struct espl__real *, const struct espl__rgang *,
    const struct espl_slot *, uint32_t count, const struct espl__reach_then *);
void espl__real_reach_drop(struct espl__real *, uint64_t gang); /* cancels the check */
void espl__real_reach_gone(struct espl__real *, const struct espl__rlease *); /* no agent */
int espl__real_reach_is_try(uint64_t number); /* a try, not a gang */
int espl__real_reach_message(struct espl__real *, const struct espl__rlease *, uint8_t type,
    uint64_t number, struct espl__reader *); /* -1: its payload is bad */
void espl__real_reach_tick(struct espl__real *, int64_t tick, int64_t since);
void espl__real_reach_held(struct espl__real *, int64_t late);
void espl__real_reach_free(struct espl__real *);
/* real_relay.c: nodes that do not see the run directory. */
void espl__real_relay_begin(struct espl__ragent *);
int espl__real_relay_receive(struct espl__ragent *, uint8_t type, struct espl__reader *);
void espl__real_relay_end(struct espl__ragent *);
void espl__real_relay_rejoined(struct espl__real *); /* what they said meanwhile */
void espl__real_relay_collect(struct espl__real *, uint64_t trial, uint64_t keep);
/* Has it arrived while its SAVED has not? */
int espl__real_relay_holds(const struct espl__real *, uint64_t trial, uint64_t checkpoint);
/* Is a checkpoint of its trial on its way, and moving? */
int espl__real_relay_busy(const struct espl__real *, const struct espl__rgang *, int64_t tick);
void espl__real_relay_report(const struct espl__real *);

/* real_store.c: checkpoints in a bucket; the first three for movers of agents */
void espl__real_store_begin(void *agent, struct espl__move *);
void espl__real_store_line(void *agent, struct espl__move *, const char *line);
void espl__real_store_gone(void *agent, struct espl__move *);
/* Is the bucket fit for it?  Nothing if none is configured. */
espl_status espl__real_store_open(struct espl__real *, struct espl__diag *);
/* In a thread: removes the objects of the checkpoint in this directory, if it has any. */
espl_status espl__real_store_remove(struct espl__s3 *, const char *dir, struct espl__diag *);
/* real_collect.c: when a run is over */
void espl__real_collect(struct espl__real *);

/* spool.c: requests of users to a running pool. */
void espl__spool_tick(struct espl__real *, int64_t tick);

/* real_dir.c: DIR/leases.json and the removal of checkpoints. */
/* DIR/token: by it an agent proves that it sees the run directory.  DIR/secret, which only the
 * user can read: gangs that outlive this driver keep their keys. */
espl_status espl__real_dir_mark(struct espl__real *, struct espl__diag *);
espl_status espl__real_dir_save_leases(const struct espl__real *, struct espl__diag *);
/* Fills the strings of the leases that are known to the world already. */
espl_status espl__real_dir_load_leases(struct espl__real *, struct espl__diag *);
void espl__real_dir_collect(struct espl__real *, uint64_t trial, uint64_t keep);
/* Removes the directory of this name from the run directory, or warns. */
void espl__real_dir_clean(struct espl__real *, const char *name);
void espl__real_dir_close(struct espl__real *); /* nothing empty is left */

/* real_compute.c: computations of policies in child processes. */
void espl__real_compute(struct espl__real *, const struct espl__effect *);
void espl__real_compute_tick(struct espl__real *, int64_t tick);
void espl__real_compute_close(struct espl__real *);
#endif
