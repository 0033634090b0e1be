/* ask.h - ask and tell: the world of a run whose trials are evaluated by clients.
 *
 * When the executor starts a trial, a client that asks receives it; the result that the client
 * tells is the report of the trial. So algorithms, journal and results are those of every run, and
 * only the clients are handled here: lines of JSON on standard input and on a socket in the run
 * directory.
 *
 * A request is a round of its own (and the rounds that follow from it), in the order in which
 * requests arrive, so that the same requests have the same answers. Answers are sent when no
 * request is left; the journal is synced to the disk before that if any result arrived.
 */
#ifndef ESPL__ASK_H
#define ESPL__ASK_H
#include <jansson.h>
#include "base/map.h"
#include "run/drive.h"

#define ESPL__ASK_CLOUD "ask"       /* cloud.use in run.cfg, which no plugin is called */
#define ESPL__ASK_SOCKET "ask.sock" /* in the run directory */

struct espl__ask_client;
struct espl__asking;

/* A trial that the executor has started: a client has it, or it is queued for one. */
struct espl__ask_trial {
	uint64_t trial, gang, item;
	uint64_t iteration, budget; /* last result so far; train up to */
	uint64_t source;      /* trial whose state to restore, at `iteration`; its own, or none */
	const double *values; /* the trial's */
	struct espl__ask_client *holder; /* NULL: in the queue */
	struct espl__ask_trial *prev, *next;
	int started; /* EV_STARTED was given */
	int claimed; /* by the request that is being read */
};
/* In order of items, that is, as the algorithm chose what to train. */
struct espl__ask_list {
	struct espl__ask_trial *first, *last;
	uint64_t count;
};

enum espl__ask_what {
	ESPL__ASK_NOTHING,
	ESPL__ASK_TRIALS,
	ESPL__ASK_TELL,
	ESPL__ASK_FAIL,
	ESPL__ASK_LOOK /* at what is known, when the trials that were just handed out are known */
};
typedef void espl__ask_hear(struct espl__asking *, struct espl__ask_client *, const json_t *);
/* The request that the executor is at work on. */
struct espl__ask_request {
	enum espl__ask_what what;
	struct espl__ask_client *client; /* NULL: it has gone */
	uint64_t count;                  /* TRIALS: wanted */
	uint64_t trial;                  /* TELL, FAIL */
	enum espl__directive directive;  /* TELL: what came of it; 0 nothing */
	uint32_t dropped;                /* TELL: metrics beyond the limits */
	espl__ask_hear *look;            /* LOOK: what hears */
	json_t *looked;                  /* ... this, owned */
};

#define ESPL__ASK_MAGIC 0x61736b21u
struct espl__asking {
	struct espl__world world; /* first */
	uint32_t magic;           /* ESPL__ASK_MAGIC */
	const struct espl__inputs *inputs;
	char *dir;
	const volatile int *interrupt; /* not 0: the user wants to stop */
	/* clients.c */
	struct espl__ask_client *clients, *turn; /* in a ring: the next to be heard */
	int listener, journal;                   /* descriptors; -1 none */
	int64_t accept_at; /* tick; 0: now. It cannot accept before, for want of descriptors */
	int unsynced;      /* replies sent since the journal was last synced to the disk */
	/* trials.c */
	struct espl__map by_trial, by_gang;
	struct espl__ask_list queue;
	uint64_t open; /* queued or held */
	uint64_t out;  /* of these, handed out once */
	struct espl__batch batch[2];
	int filling, urgent; /* urgent: its round must be before the next request */
	struct espl__names metrics;
	/* requests.c */
	struct espl__ask_request request;
	int dry;          /* the algorithm had no trial for the last client that asked */
	int dropped_said; /* the warning about metrics beyond the limits was given */
	int notes_dropped, notes_cut; /* ... about notes */
	/* world.c */
	int opening; /* 1 fresh, 2 resumed; 0 done */
	int stop_wanted, stop_sent, ended;
	espl_time base, now, timer_at;
	int64_t base_tick;
	struct espl_offer offer;
	struct espl_latency latency;
};

/* ---- trials.c: the trials that are open, and the events of the next round */

struct espl__event *espl__ask_event(struct espl__asking *, enum espl__event_type);
const char *espl__ask_text(struct espl__asking *, const char *); /* as long as that round */
void espl__ask_give_round(struct espl__asking *, struct espl__round *);
struct espl__ask_trial *espl__ask_add(struct espl__asking *, const struct espl__effect *start);
/* Assigns the first trial of the queue, or this one, to the client. */
struct espl__ask_trial *espl__ask_hand(struct espl__asking *, struct espl__ask_client *);
void espl__ask_hold(struct espl__asking *, struct espl__ask_trial *, struct espl__ask_client *);
/* The client has gone: others get its trials. */
void espl__ask_return(struct espl__asking *, struct espl__ask_client *);
void espl__ask_remove(struct espl__asking *, struct espl__ask_trial *);
void espl__ask_trials_free(struct espl__asking *);

/* ---- clients.c: standard input and output, the socket, and lines */

struct espl__ask_client {
	struct espl__ask_client *next; /* in the ring */
	int in, out;                   /* -1: closed */
	struct espl__buf input, output;
	size_t parsed, sent; /* of them */
	size_t searched;     /* of the input after `parsed`: there is no end of a line in it */
	struct espl__ask_list held;
	int hung_up;  /* no more will come */
	int too_long; /* the line of which the end has not come yet: nothing of it is kept */
};
espl_status espl__ask_listen(struct espl__asking *, struct espl__diag *);
/* The next whole line, of the clients in turn; NULL: there is none.  It ends with a NUL; it is NULL
 * if it was longer than ESPL__REPORT_LINE. */
struct espl__ask_client *espl__ask_line(struct espl__asking *, char **line, size_t *size);
/* Syncs the journal if any result arrived, then sends the answers and removes clients that have
 * disconnected. */
espl_status espl__ask_flush(struct espl__asking *, struct espl__diag *);
void espl__ask_wait(struct espl__asking *, int64_t ns); /* until a client says something */
void espl__ask_hang_up(struct espl__asking *);

/* ---- requests.c: what a line asks for, and the answers */

/* Answers at once, or leaves events for a round and ask->request. NULL: the line was too long. */
void espl__ask_handle(struct espl__asking *, struct espl__ask_client *, const char *line,
    size_t size);
/* The rounds of ask->request are over. */
void espl__ask_answer(struct espl__asking *);

/* ---- world.c */

/* `open_world` of a drive. */
espl_status espl__ask_open(const struct espl__drive *, uint64_t token, struct espl__world **,
    struct espl__diag *);
/* A completed search that is not driven any more: answers clients until the last one leaves. */
espl_status espl__ask_serve(struct espl__exec *, const struct espl__inputs *, const char *dir,
    const volatile int *interrupt, struct espl__diag *);

/* ---- relay.c */

/* Connects standard input and output to the process that has the run directory open. E_BUSY: it
 * does not listen; E_LIMIT: it ended before standard input did. */
espl_status espl__ask_relay(const char *dir, struct espl__diag *);
#endif
