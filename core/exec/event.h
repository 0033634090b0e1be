/* event.h - the executor's input: everything that enters a run from outside, as values.
 *
 * Events of one instant form a round.  They are journaled before the executor sees them, in
 * this encoding; a replay only feeds them again.  No paths, host names or pids.
 */
#ifndef ESPL__EVENT_H
#define ESPL__EVENT_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#include "base/buf.h"
#include "base/mem.h"
#include "base/sharing.h"

enum espl__event_type {
	ESPL__EV_START = 1, /* a fresh run begins (first event, time 0) */
	/* a new driver: gangs without an OUTLIVED are gone, nodes must be reported again */
	ESPL__EV_RESUME,
	ESPL__EV_OFFER, /* a cloud sells this (new, changed or GONE) */
	ESPL__EV_PRICE, /* market price record */
	ESPL__EV_CLOUD, /* the cloud's start is done: status OK, else why not */
	ESPL__EV_NODE,  /* a lease changed state */
	/* a metric's name, before the first report that has it: number = order */
	ESPL__EV_METRIC,
	ESPL__EV_STARTED, /* all ranks of the gang run */
	ESPL__EV_REPORT,  /* rank 0 reported an iteration, and waits for a reply */
	ESPL__EV_SAVED,   /* a checkpoint is complete on disk */
	ESPL__EV_ENDED,   /* all ranks are gone, their slots proven clean */
	ESPL__EV_TIMER,   /* the instant asked for has come */
	ESPL__EV_OUTCOME, /* of a computation */
	ESPL__EV_STOP,    /* the user asked to stop cleanly */
	ESPL__EV_TROUBLE, /* the world cannot continue, and the search is not at fault */
	ESPL__EV_RESIZED, /* the gang runs on its new slots, the others are proven clean */
	ESPL__EV_GPU,     /* what an agent reports about a GPU */
	ESPL__EV_JOB,     /* the next of the workload's jobs has come */
	/* an experiment of the pool has arrived, or was submitted: the next number */
	ESPL__EV_EXPERIMENT,
	ESPL__EV_CANCEL, /* the user cancels an experiment, a plain job, or a trial */
	/* the driver was held up: what the last round decided was done late */
	ESPL__EV_HELD,
	ESPL__EV_NODE_WHY, /* in words, why a lease is about to end: EV_NODE follows */
	ESPL__EV_REACH,    /* a node became unreachable, or reachable again; its trials run on */
	ESPL__EV_OUTLIVED, /* this gang outlived the driver: EV_RESUME follows */
	ESPL__EV_RETRY,    /* when to lease again, according to the provider: EV_NODE follows */
	ESPL__EV_ASK,      /* clients want this many trials more (config.asked) */
	ESPL__EV_RISK,     /* the provider expects to take a node back; members of node_why */
	ESPL__EV_HOST,     /* what its provider calls a machine; members of node_why */
	ESPL__EV_NOTE,     /* what a cloud has to say to `explain`, its name in front */
	/* which machine of its provider a lease is on; members of node_why */
	ESPL__EV_MACHINE,
	/* why a node is of no use although its agent answers: its disk is full, it cannot reach the
	 * store; members of node_why */
	ESPL__EV_UNFIT,
	ESPL__EV_DRAIN, /* the user holds a machine out, or gives it back */
	/* machines cannot reach each other: ranks of a gang could not meet, or it was tried.  A
	 * resize in place that could not be done for it is called off. */
	ESPL__EV_NO_ROUTE,
	/* the user wants more trials than were configured, or one of his own configuration; of a
	 * run that is complete, before RESUME */
	ESPL__EV_EXTEND,
	ESPL__EV_REOPEN, /* before RESUME: experiments of a pool that failed continue */
	/* a trial, or its user, attaches a text to it */
	ESPL__EV_TRIAL_NOTE
};

/* How a gang ended. */
enum espl__gang_end {
	ESPL__END_DONE = 1, /* all ranks exit 0 after pause or stop, or after `finished` */
	ESPL__END_FINISHED, /* reported {"finished": true}: complete before its budget */
	ESPL__END_FAILED,   /* a rank failed, or broke the protocol: counts as a failure */
	/* its node or agent was lost, or the driver killed it: not its fault */
	ESPL__END_LOST,
	ESPL__END_NO_CHECKPOINT, /* what it should restore is missing or damaged */
	ESPL__END_UNSAVED /* was to pause; all ranks exit 0, but its last iteration is not saved */
};

struct espl__metric {
	uint32_t metric;
	uint32_t zero;
	double value;
};

struct espl__event {
	enum espl__event_type type;
	union {                                 /* strings and latencies live in the arena */
		const struct espl_offer *offer; /* OFFER */
		const char *metric;             /* METRIC: its name */
		uint64_t gang;                  /* STARTED, OUTLIVED */
		uint64_t count;                 /* ASK */
		uint64_t number;                /* JOB, EXPERIMENT: of its search */
		espl_span late;                 /* HELD: above 0 */
		const struct espl_outcome *outcome;
		const char *text; /* TROUBLE: must be fixed before the run is resumed; NOTE */
		struct {
			uint32_t offer;
			struct espl_price price;
		} price;
		struct {
			espl_status status;
			const char *text;
		} cloud;
		struct {
			uint64_t lease;
			espl_node_state state;
			/* ENDED; or one of ledger.h */
			espl_reason reason;
			uint32_t gpus;      /* READY: as found; ESPL_ANY as offered */
			espl_time ends_at;  /* NOTICE; else NEVER */
			espl_money charged; /* ENDED: provider's figure, -1 unknown */
		} node;
		struct {
			uint64_t lease;
			const char *text;
		} node_why;
		struct {
			uint64_t lease;
			espl_span after;
		} retry;
		struct {
			uint64_t lease;
			int reachable;
			const char *text; /* why it is not, or after how long it is again */
		} reach;
		struct {
			uint64_t lease; /* the newest on the machine; it may have ended */
			int on;
		} drain;
		struct {
			uint64_t lease; /* which cannot reach another */
			uint64_t gang;  /* that stays as it was; ESPL_NONE: no resize */
			const char *text;
		} no_route;
		struct {
			uint64_t number;      /* of the search */
			uint64_t trials;      /* further ones */
			uint32_t count;       /* of values: 0, or those of the space */
			const double *values; /* of one that the user chose */
		} extend;
		struct {
			uint64_t gang, iteration;
			uint32_t count;
			const struct espl__metric *metrics;
		} report;
		struct {
			uint64_t gang, iteration, bytes;
		} saved;
		struct {
			uint64_t gang;
			enum espl__gang_end how;
			/* FAILED: lease number of the failing rank's node; LOST: of a node that
			 * failed it; or NONE */
			uint64_t node;
			/* composed by us: "rank 1: exit status 3"; "" none */
			const char *text;
		} ended;
		/* took: time without training */
		struct {
			uint64_t gang;
			espl_span took;
		} resized;
		struct {
			enum espl__gpu_news what;
			uint64_t id;     /* SHARED, MEMORY: gang; FAULT, ASIDE: lease */
			uint64_t number; /* as in sharing.h */
			const char *text;
		} gpu;
		struct {
			uint64_t number, trial;
		} cancel; /* trial NONE: all of the search */
		struct {
			uint64_t trial;         /* with its search, as espl__trial_uid says */
			const char *key, *text; /* within the limits of base/notes.h */
		} trial_note;
	} as;
};

void espl__event_put(const struct espl__event *, struct espl__buf *);
/* Decodes one; memory from the arena.  0, or -1 if the bytes are no event. */
int espl__event_get(struct espl__reader *, struct espl__arena *, struct espl__event *);

/* What a world collects for one round: events, and the texts and lists that they point to. */
struct espl__batch {
	struct espl__event *list;
	uint32_t count, cap;
	struct espl__arena arena;
};
/* A new event, all zero but its type.  It moves when the next one is added. */
struct espl__event *espl__batch_add(struct espl__batch *, enum espl__event_type);
void espl__batch_clear(struct espl__batch *); /* room for events is kept */
void espl__batch_free(struct espl__batch *);
#endif
