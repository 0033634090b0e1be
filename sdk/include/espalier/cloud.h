/* espalier SDK: cloud.h - where machines come from, what they cost, when they go.
 *
 * Clouds do I/O, but never block and own no thread: they ask espl_io for it and are called
 * back.  What they learn leaves through espl_cloud_events, which the host journals before
 * acting.  Clouds are not replayed: after a crash the host gives them their leases (adopt).
 * Every entry returns quickly; a failure found later is an event, not a status.
 */
#ifndef ESPALIER_CLOUD_H
#define ESPALIER_CLOUD_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- service ESPL_IO ------------------------------------------------------------------------ */
/* `cookie` is the plugin's, handed back; requests are copied.  Each is answered exactly once (an
 * espl_http with `lines` once more for each line), unless it is cancelled; answers come after the
 * submitting entry has returned. */

struct espl_http {
	uint32_t size;
	uint32_t header_count;
	const char *method, *url;   /* "GET"; https:// or http:// */
	const char *const *headers; /* "Name: value" */
	const void *body;           /* NULL: none */
	uint64_t body_size;         /* bytes */
	espl_span limit;            /* of the whole exchange; 0: 60 s */
	/* Signed by the host, so that secrets stay out of requests: "bearer" with the SECRET
	 * option sign_secret; or "aws:amz:REGION:SERVICE" (Signature Version 4; path and query of
	 * the URL percent-encoded) with the key id and the secret key that both options hold.
	 * Without sign_secret the user's own keys are found as the AWS CLI finds them: of the
	 * profile that sign_user holds, if any.  NULL: unsigned. */
	const char *sign;
	uint32_t sign_user, sign_secret; /* option index, or ESPL_ANY */
	uint64_t cookie;                 /* the plugin's, handed back */
	const char *socket;              /* path of a Unix socket to connect to; NULL: none */
	/* 1: each line of an answer with code 200 is handed over as it comes, in a reply with
	 * `more` set; the last reply holds what follows the last line end. */
	uint32_t lines;
	uint32_t zero;
};
struct espl_http_reply {
	uint32_t size;
	espl_status status; /* REMOTE: no answer; LIMIT: too late; see text */
	uint64_t cookie;    /* the request's */
	uint32_t code;      /* HTTP's, 100 to 599; 0 without an answer */
	uint32_t header_count;
	const char *const *headers; /* "Name: value", as received */
	const void *body;           /* followed by a NUL that is not counted */
	uint64_t body_size;         /* bytes */
	const char *text;           /* of the failure, or "" */
	uint32_t more;              /* 1: the body is one line, and other replies follow */
	uint32_t zero;
};
struct espl_spawn {
	uint32_t size;
	uint32_t argc;
	const char *const *argv; /* argv[0] is looked up in PATH; no shell */
	const char *const *env;  /* "NAME=value", added; or NULL */
	uint32_t env_count;
	uint32_t zero;
	const void *input;   /* its standard input; NULL: empty */
	uint64_t input_size; /* bytes */
	espl_span limit;     /* then its process group is killed; 0: none */
	uint64_t cookie;     /* the plugin's, handed back */
};
/* when it ended */
struct espl_child {
	uint32_t size;
	espl_status status; /* LIMIT, REMOTE (could not start), OK */
	uint64_t cookie;    /* the request's */
	int32_t exit_code;  /* or -signal */
	uint32_t zero;
	const void *out, *err;       /* NUL after them; at most 1 MiB each is kept */
	uint64_t out_size, err_size; /* bytes, without that NUL */
};
struct espl_io {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Answered by on_http.  E_CONFIG: no such address or signature; E_LIMIT: too many. */
	espl_status (*http)(const struct espl_io *, const struct espl_http *, struct espl_error *);
	/* Answered by on_child. */
	espl_status (
	    *spawn)(const struct espl_io *, const struct espl_spawn *, struct espl_error *);
	/* Answered by on_timer, once, `after` (>= 0) from now. */
	espl_status (*timer)(const struct espl_io *, espl_span after, uint64_t cookie);
	/* What was asked with this cookie is not answered any more; unknown ones are ignored. */
	void (*cancel)(const struct espl_io *, uint64_t cookie);
	int64_t (*utc_ns)(const struct espl_io *); /* the wall clock, for protocols only */
	/* Credentials that are not options: "env:NAME" or "file:PATH" if the user's file allows
	 * it.  Valid until the entry returns; must not be kept.  E_UNKNOWN. */
	espl_status (*secret)(const struct espl_io *, const char *name, const char **value);
};

/* Service ESPL_RUN: the run that the nodes are for; not in simulations.  Its values may
 * change: read them again before each use. */
struct espl_run {
	uint32_t size;
	uint32_t gpus_min;  /* with fewer in total, one of its trials could never run */
	const char *folder; /* absolute */
};
/* Service ESPL_VISIT: machines are listed or released, none is leased. */
struct espl_visit {
	uint32_t size, zero;
	/* Of the run whose machines are meant: absolute, only to be read, and perhaps in use by the
	 * run.  NULL: there is none, or it is not known. */
	const char *folder;
};

/* ---- leases ---------------------------------------------------------------------------------- */

struct espl_acquire {
	uint32_t size;
	uint32_t zero;
	uint64_t lease; /* the host's number, journaled before this call */
	/* idempotency key, <= 64 of [A-Za-z0-9-]; the same at a retry */
	const char *token;
	const char *run;            /* label: tag the machine with run and token */
	const char *offer, *market; /* the offer's name and market */
	espl_money max_price_hour;  /* 0: none */
};
/* what the host remembers of one */
struct espl_lease {
	uint32_t size;
	uint32_t state; /* espl_node_state as last reported */
	uint64_t lease;
	const char *token, *offer, *market; /* as in its espl_acquire */
	const char *provider_id;            /* NULL until reported */
	const char *address;                /* NULL until reported */
	const char *detail;                 /* what the plugin reported for its own use, or NULL */
};

typedef uint32_t espl_reason; /* why a lease ended */
enum {
	ESPL_BY_USER = 1, /* release was asked for */
	ESPL_BY_PROVIDER, /* revoked: refund rule applies */
	ESPL_BY_FAULT,    /* hardware, health check */
	ESPL_BY_CAPACITY, /* acquire could not be met; try elsewhere or later */
	ESPL_BY_QUOTA,    /* the account's limit */
	ESPL_BY_EXPIRY,   /* its wall-time limit */
	/* acquire was refused for good, as every other lease of this offer would be */
	ESPL_BY_REFUSAL
};

struct espl_node_event {
	uint32_t size;
	espl_node_state state; /* that it has now */
	uint64_t lease;        /* NONE: the host finds it by its token, or (answers
				* of `owned`) it is not one of this run's */
	const char *token;     /* as tagged; NULL if not known */
	const char *run;       /* as tagged; `owned` only */
	const char *provider_id, *address, *detail; /* NULL: unchanged */
	espl_time at;       /* when it happened, if the provider says; else NEVER */
	espl_time ends_at;  /* NOTICE, wall-time limit; else NEVER */
	espl_reason reason; /* ENDED */
	uint32_t gpus;      /* READY: as found; ESPL_ANY as offered.  What the agent finds counts */
	espl_money charged; /* ENDED: the provider's own figure; -1 unknown */
	const char *text;   /* one line for people, may be NULL */
	/* ENDED, CAPACITY or QUOTA: acquire again after this time at the earliest; 0 unknown */
	espl_span retry_after;
	const char *offer, *market; /* `owned` only, NULL unknown */
	int64_t billed_utc_s;       /* `owned` only: billed since; 0 unknown */
	/* READY: ESPL_NODE_AT_RISK (a rebalance recommendation), with text if there is more to
	 * say; may come with a repeated READY.  Trials there save at once, and no notice follows
	 * from it. */
	uint32_t flags;
	uint32_t zero;
};

/* A node held at this instant is interrupted with this probability. */
struct espl_interruption {
	espl_time at;
	double share;
}; /* frozen, 16 bytes */

/* host-owned, valid from start to destroy */
struct espl_cloud_events {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* New or changed offer; again with ESPL_OFFER_GONE to withdraw it. */
	espl_status (*offer)(const struct espl_cloud_events *, const struct espl_offer *);
	/* Records oldest first, also for the past; they may overlap what is known. */
	espl_status (*prices)(const struct espl_cloud_events *, const char *offer,
	    const char *market, const struct espl_price *, uint32_t count);
	/* States only advance; a repeated one is ignored, except for its flags. */
	espl_status (*node)(const struct espl_cloud_events *, const struct espl_node_event *);
	/* Ends a start, history or owned request: `what` is its request number, 0 for start.  A
	 * second line of the text of a start that failed is a hint. */
	void (
	    *done)(const struct espl_cloud_events *, uint64_t what, espl_status, const char *text);
	/* From describe, for simulations: what interrupts nodes of an offer, of which policies see
	 * only hazard_hour and hazard_hours.  rate_hour: at random, per node-hour, instead of
	 * hazard_hour; log: by time, rising.  NULL or missing in hosts that do not simulate. */
	espl_status (*interruptions)(const struct espl_cloud_events *, const char *offer,
	    const char *market, double rate_hour, const struct espl_interruption *log,
	    uint32_t count);
};

struct espl_argv_sink {
	uint32_t size, zero;
	/* The words of a command, without a shell; argc 0: none is needed, the node is here. */
	espl_status (*argv)(struct espl_argv_sink *, const char *const *argv, uint32_t argc);
	/* Optional, before or after argv: espalier-agent is at this path on the node (NULL: at
	 * the same one as here), and the host sends none.  May be NULL itself. */
	void (*agent)(struct espl_argv_sink *, const char *path);
};

struct espl_cloud_ops {
	struct espl_ops head;
	/* Find offers, check credentials; then done(0).  Nothing is acquired before it. */
	espl_status (*start)(void *self, const struct espl_cloud_events *, struct espl_error *);
	/* Begin; every request ends in READY or ENDED under its lease.  Called again with the
	 * same token when the driver died in between: must not make a second machine. */
	espl_status (*acquire)(void *self, const struct espl_acquire *const *, uint32_t count,
	    struct espl_error *);
	/* Begin; repeated by the host until ENDED is reported.  Also for leases never READY. */
	espl_status (*release)(void *self, const struct espl_lease *const *, uint32_t count,
	    struct espl_error *);
	/* After start at resume: watch these again; report the present state of each (those
	 * that the provider does not know: ENDED). */
	espl_status (*adopt)(void *self, const struct espl_lease *const *, uint32_t count,
	    struct espl_error *);
	/* Optional.  All machines tagged by espalier (run NULL) or by one run that may cost
	 * something, through node with their tokens; then done.  If any part of the listing failed,
	 * so does the whole.  What has ENDED and costs nothing, but must still be removed, is
	 * listed with that state.  Called at the start, at resume and at the end: machines with the
	 * tag of the run that it does not know are released.  Such a lease has a token and mostly a
	 * provider_id; its offer and market are "". */
	espl_status (*owned)(void *self, const char *run, uint64_t what, struct espl_error *);
	/* The command that runs another command on this node with its standard streams joined
	 * (ssh HOST, srun -w NODE, or nothing).  The host appends `sh -s --` and plain words; the
	 * script that it writes to that shell sends espalier-agent if the node has none, and
	 * starts it.  With sink->agent it appends the path of espalier-agent and plain words.
	 * The agent offers all GPUs that it finds on the machine, and where there are none, its
	 * cores.  `env ESPALIER_AGENT_DEVICES=LIST` as the last words limits that: LIST is cpu:N
	 * for N slots on cores, or UUIDs of GPUs with commas between them.
	 * It must depend on the lease alone.  What the provider says on the machine only (notices
	 * at a metadata address) needs no further entry: io->spawn with these words and a command
	 * that waits for it, limit 0; on_child is the notice. */
	espl_status (*reach)(void *self, const struct espl_lease *, struct espl_argv_sink *,
	    struct espl_error *);
	/* Optional, and a draft: nothing calls it.  Prices from `from` on, for one offer; then
	 * done. */
	espl_status (*history)(void *self, const char *offer, const char *market, espl_time from,
	    uint64_t what, struct espl_error *);
	/* Mandatory.  The offers (and prices known beforehand) that follow from the configuration,
	 * through events->offer and events->prices, before this returns and without any I/O:
	 * `plan` and `simulate` need it and call no other entry; `check` then calls start.
	 * A cloud that must ask its provider reports what its own tables hold.  E_UNKNOWN: nothing
	 * is known. */
	espl_status (*describe)(void *self, const struct espl_cloud_events *, struct espl_error *);
	/* Answers of espl_io, one for each request, never within the entry that asked; NULL where
	 * the plugin never asks. */
	void (*on_http)(void *self, const struct espl_http_reply *);
	void (*on_child)(void *self, const struct espl_child *);
	void (*on_timer)(void *self, uint64_t cookie);
};

#ifdef __cplusplus
}
#endif
#endif
