/* espalier kit: leases.h - one lease machine for all clouds: what follows from what a provider
 * answers.
 *
 * A cloud is a translator.  It sends the requests that this machine wants (struct
 * espl_lease_calls), reads the answers, and says here what they mean.  Which machine may exist,
 * when it is asked for again, and when it is certainly gone is decided here, the same for each
 * provider (struct espl_lease_rules holds what differs).  There is no I/O, no clock and no
 * randomness: each function gets the time, and what it does follows from the calls before.
 *
 * Stages, each with a clock, a line for the user after 30 s, and a limit if the rules have one:
 *
 *   REQUESTED -> SCHEDULED -> STARTING -> JOINING -> READY
 *   it is to be   the provider  it boots    it runs    it was probed, or needs no probe
 *   accepted      has no room
 *
 * From each of them a lease can begin to end: the host releases it, or the cloud gives it up.  Then
 * `cancel` is repeated, with pauses that grow and warnings, until the end is confirmed.
 *
 * The rules, one for each trouble:
 *   - The answer to `ask` is lost: there may be a machine.  enum espl_lease_lost says what settles
 * it.
 *   - Refused: the lease ends with the reason of the class, unless an earlier answer was lost.
 *   - Missing in a complete listing: one listing is no proof.  After `missing_lists` of them, which
 *     span `settle`, the lease ends; before, `look` or (cancel_tells) `cancel` is asked, if there
 * is such a proof.  Only listings count that began after the machine was made.
 *   - A lease whose end no answer has confirmed stays in the table for `late_lists` listings more:
 *     a machine that appears late is ended, and so is a second machine of one token.
 *   - A lease that is known only from a file of the run (adopt, release) is not cancelled before an
 *     answer of the provider shows it with its token.
 *   - A provider that does not answer ends nothing: listings get rarer, one line says so, one that
 *     it answers again, and no limit expires meanwhile.
 *
 * Who owns what: the table owns its leases; the cloud may put a struct espl_leased at the beginning
 * of a larger one (lease_size), whose other members are its own.  A lease is freed by
 * espl_leases_due only, so a pointer is valid until the next call of it; answers find theirs by
 * `serial`.  After each event call espl_leases_due: it sends what is due and asks for the timer.
 */
#ifndef ESPALIER_KIT_LEASES_H
#define ESPALIER_KIT_LEASES_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#ifdef __cplusplus
extern "C" {
#endif

#define ESPL_LEASE_TEXT 600
#define ESPL_LEASE_TOKEN 65

enum espl_lease_stage {
	ESPL_STAGE_NONE = 0, /* the answer does not tell, except that there is a machine */
	ESPL_STAGE_REQUESTED,
	ESPL_STAGE_SCHEDULED,
	ESPL_STAGE_STARTING,
	ESPL_STAGE_JOINING, /* it runs: READY at once if the cloud has no probe */
	ESPL_STAGE_READY,
	ESPL_STAGE_ENDED, /* it is certain that it costs nothing more */
	ESPL_STAGE_COUNT
};

/* What an answer says of one machine.  Strings are copied; NULL: not known, unchanged. */
struct espl_lease_row {
	const char *token;
	const char *id, *address, *machine, *detail; /* as in struct espl_node_event */
	enum espl_lease_stage stage;
	int notice, at_risk;
	espl_time ends_at;  /* of the notice */
	espl_reason reason; /* ENDED */
	espl_money charged; /* ENDED; -1 unknown */
	const char *text;   /* what it waits for, or why it ended */
};
/* A row that says nothing yet. */
struct espl_lease_row espl_lease_row(const char *token, enum espl_lease_stage);

/* How a request has failed. */
enum espl_lease_failure {
	ESPL_DID_FINE = 0,
	ESPL_DID_LATER,  /* nothing was done: again, later */
	ESPL_DID_UNSURE, /* it may have been done */
	ESPL_DID_EXIST,  /* the token was used before */
	ESPL_DID_GONE,   /* there is no such machine (any more) */
	ESPL_DID_REFUSE  /* it was not done, for a reason */
};

/* The answer to `ask` was lost. */
enum espl_lease_lost {
	ESPL_LOST_REPEAT, /* asked again with the same token: the provider makes no second machine
			   */
	ESPL_LOST_AGAIN,  /* asked again when listings, or `look`, show that there is none */
	ESPL_LOST_FINAL /* not asked again: the lease ends when listings show that there is none */
};

struct espl_lease_rules {
	const char *provider; /* "Slurm" */
	const char *noun;     /* "job" */
	const char *missing;  /* why a lease ends that is not listed */
	const char *asking;   /* what asks: "'acquire'" */
	const char *stuck;    /* of a machine whose cancel fails: "cannot be cancelled" */
	/* What says that a machine of the run's own file does not exist; NULL: no word of it. */
	const char *listing;
	const char *waits[ESPL_STAGE_COUNT]; /* the line after 30 s; NULL: none */
	espl_span limits[ESPL_STAGE_COUNT];  /* 0 none; REQUESTED: since `ask` fails */
	espl_node_state
	    told[ESPL_STAGE_COUNT]; /* what is reported of a stage before READY; 0 nothing */
	enum espl_lease_lost lost;
	uint32_t asks_most;    /* ESPL_LOST_AGAIN: then the lease ends */
	uint32_t absent_lists; /* without a machine whose `ask` has no answer: there is none */
	uint32_t missing_lists, late_lists;
	espl_span doubt;  /* an `ask` without an answer may take effect until then */
	espl_span settle; /* the absent_lists or missing_lists must span it, if more than one */
	/* Pauses: before the first listing after a change, before the next, which is doubled up to
	 * the third; while the provider does not answer, up to the fourth. */
	espl_span soon, least, most, silent_most;
	espl_span cancel_again; /* after a cancel that was accepted */
	int list_first;         /* `ask` is sent when a listing has shown no machine */
	int cancel_ends;        /* a cancel that succeeds is the end */
	int cancel_tells; /* a machine that is missing in listings: `cancel` says if it is gone */
	int cancel_by_token; /* `cancel` needs no id: it is not put off until a listing tells it */
	int gone_ends;       /* a cancel that finds no machine is the end */
};

enum espl_lease_busy {
	ESPL_LEASE_IDLE = 0,
	ESPL_LEASE_ASKS,
	ESPL_LEASE_LOOKS,
	ESPL_LEASE_CANCELS,
	ESPL_LEASE_PROBES
};
enum espl_lease_step {
	ESPL_LEASE_WANTED = 0, /* to be asked for */
	ESPL_LEASE_LOST,       /* a machine may exist: nothing is asked, listings or `look` tell */
	ESPL_LEASE_KNOWN
};

/* One lease.  A cloud reads it, and writes only what it has added itself. */
struct espl_leased {
	struct espl_leased *next;
	uint64_t serial; /* from 1 on, never used again: for cookies */
	uint64_t lease;  /* the host's number */
	char token[ESPL_LEASE_TOKEN];
	char *id, *address, *machine, *detail; /* NULL not known */
	enum espl_lease_step step;
	enum espl_lease_stage stage;
	enum espl_lease_busy busy; /* its request under way */
	espl_node_state reported;
	int unsure;    /* an `ask` may have made a machine */
	int claimed;   /* known from a file of the run only */
	int releasing; /* the host wants its end */
	int ending;    /* the cloud does, for end_reason and why */
	int over;      /* ENDED was reported; a late or second machine is watched for */
	int doubted;   /* listings lack it, and a proof is asked for */
	int gone;      /* to be freed */
	int at_risk, told, listed, alive;
	uint32_t asks, tries, missing, clean, warnings;
	uint64_t list_since; /* the first listing that must show it */
	espl_time since, due, missing_at, failing_at, ending_at, doubt_at;
	espl_reason end_reason;
	espl_span retry_after;
	char *target; /* of the cancel under way */
	char second[128];
	char why[ESPL_LEASE_TEXT];  /* end_reason */
	char said[ESPL_LEASE_TEXT]; /* the last failure */
	char text[ESPL_LEASE_TEXT]; /* the last wait that was reported */
};

/* A cloud without list and look must know itself what became of an `ask`: nothing else settles one
 * that is unsure.  The translators.  ask, look, cancel and probe send one request, which is
 * answered by the function named beside; it may be answered before they return.  A status other
 * than OK: nothing was sent.
 */
struct espl_lease_calls {
	espl_status (*ask)(void *cloud, struct espl_leased *);  /* _made or _refused */
	espl_status (*look)(void *cloud, struct espl_leased *); /* _looked; NULL: there is none */
	espl_status (*cancel)(void *cloud, struct espl_leased *, const char *id); /* _cancelled */
	espl_status (*probe)(void *cloud, struct espl_leased *); /* _probed; NULL: not needed */
	espl_status (*list)(void *cloud); /* _listed or _unlisted; NULL: there is none */
	void (*stop)(void *cloud, struct espl_leased *); /* its request is no longer of interest */
	void (*drop)(void *cloud, struct espl_leased *); /* it is freed; NULL: nothing to do */
	/* espl_leases_timer is to be called then, and not at the time that was asked for before. */
	espl_status (*timer)(void *cloud, espl_span after);
	/* Completes an event; NULL: nothing to add. */
	void (*fill)(const void *cloud, const struct espl_leased *, struct espl_node_event *);
};

struct espl_leases {
	const struct espl_lease_calls *calls;
	const struct espl_lease_rules *rules; /* of the cloud; may change */
	void *cloud;
	const struct espl_host *host;
	const struct espl_cloud_events *events; /* set when the cloud starts */
	size_t lease_size;
	/* The rest is the machine's own. */
	struct espl_leased *first;
	uint64_t serial, list_number;
	espl_time list_at, sent_at, timer_at,
	    silent; /* silent: since then; ESPL_NEVER: it answers */
	espl_span pause;
	int listing, list_again, working;
};

void espl_leases_begin(struct espl_leases *, const struct espl_lease_calls *,
    const struct espl_lease_rules *, void *cloud, const struct espl_host *, size_t lease_size);
void espl_leases_free(struct espl_leases *); /* all; nothing is reported or stopped */
/* NULL: there is none.  find: also one whose end was reported and that is watched. */
struct espl_leased *espl_leases_find(const struct espl_leases *, const char *token);
struct espl_leased *espl_leases_serial(const struct espl_leases *, uint64_t serial);
int espl_leases_has_live(const struct espl_leases *); /* a lease whose end was not reported */

/* ---- what the host wants; NULL: out of memory ---- */

/* *fresh: 0: asked again, it is under way (its state is reported again). */
struct espl_leased *espl_leases_acquire(struct espl_leases *, const struct espl_acquire *,
    int *fresh, espl_time now);
struct espl_leased *espl_leases_adopt(struct espl_leases *, const struct espl_lease *,
    espl_time now);
struct espl_leased *espl_leases_release(struct espl_leases *, const struct espl_lease *,
    espl_time now);

/* The same for the lists that an entry of a cloud gets; then what is due is sent.  The functions
 * are called for leases that are new to the table, to complete them; NULL: there is nothing to add.
 */
espl_status espl_leases_acquire_all(struct espl_leases *, const struct espl_acquire *const *,
    uint32_t count,
    espl_status (*begin)(void *cloud, struct espl_leased *, const struct espl_acquire *),
    struct espl_error *);
/* claim: espl_leases_adopt or espl_leases_release. */
espl_status espl_leases_claim_all(struct espl_leases *,
    struct espl_leased *(*claim)(struct espl_leases *, const struct espl_lease *, espl_time now),
    const struct espl_lease *const *, uint32_t count,
    void (*begin)(void *cloud, struct espl_leased *, const struct espl_lease *),
    struct espl_error *);

/* ---- what the provider answers ---- */

void espl_leases_made(struct espl_leases *, struct espl_leased *, const struct espl_lease_row *,
    espl_time now);
/* reason: of ESPL_DID_REFUSE; retry_after as in struct espl_node_event. */
void espl_leases_refused(struct espl_leases *, struct espl_leased *, enum espl_lease_failure,
    espl_reason reason, const char *text, espl_span retry_after, espl_time now);
void espl_leases_cancelled(struct espl_leases *, struct espl_leased *, enum espl_lease_failure,
    const char *text, espl_money charged, espl_time now);
/* row: of ESPL_DID_FINE. */
void espl_leases_looked(struct espl_leases *, struct espl_leased *, enum espl_lease_failure,
    const struct espl_lease_row *, const char *text, espl_time now);
void espl_leases_probed(struct espl_leases *, struct espl_leased *, int reached, const char *text,
    espl_time now);
/* All machines of the run. */
void espl_leases_listed(struct espl_leases *, const struct espl_lease_row *, uint32_t count,
    espl_time now);
void espl_leases_unlisted(struct espl_leases *, const char *text, espl_time now);
/* News of one machine, from a watch. */
void espl_leases_seen(struct espl_leases *, struct espl_leased *, const struct espl_lease_row *,
    espl_time now);

/* ---- what the cloud decides itself ---- */

/* The lease ends for this reason, when its machine is certainly gone. */
void espl_leases_give_up(struct espl_leases *, struct espl_leased *, espl_reason, const char *text,
    espl_time now);
/* There is no machine, or none of use: it is asked for again. */
void espl_leases_again(struct espl_leases *, struct espl_leased *, espl_time now);
void espl_leases_hurry(struct espl_leases *, espl_time now); /* lists soon */
/* Sends what is due, and frees what has ended. */
void espl_leases_due(struct espl_leases *, espl_time now);
void espl_leases_timer(struct espl_leases *, espl_time now);
/* An event about it, for the cloud to complete and to report. */
struct espl_node_event espl_leases_event(const struct espl_leased *, espl_node_state);

#ifdef __cplusplus
}
#endif
#endif
