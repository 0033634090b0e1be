/* espalier SDK: cloud.h - where machines come from, what they cost, and when they end.
 *
 * Clouds do I/O, but never block and own no thread: they request it from espl_io and are called
 * back.  They report what they learn through espl_cloud_events; the host journals it before it
 * acts.  Clouds are not replayed: after a crash the host passes them their leases (adopt).  Every
 * entry returns quickly; a failure that is found later is an event, not a status.
 */
#ifndef ESPALIER_CLOUD_H
#define ESPALIER_CLOUD_H
#include <espalier/abi.h>
#include <espalier/fleet.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- service ESPL_IO ------------------------------------------------------------------------ */
/* `cookie` belongs to the plugin and is returned with the answer; requests are copied.  Each is
 * answered exactly once (an espl_http with `lines` once more for each line), unless it is
 * cancelled; answers come after the entry that made the request has returned. */

struct espl_http {
	uint32_t size;
	uint32_t header_count;
	const char *method, *url;   /* "GET"; https:// or http:// */
	const char *const *headers; /* "Name: value" */
	const void *body;           /* NULL: none */
	uint64_t body_size;         /* bytes */
	espl_span limit;            /* for the whole exchange; 0: 60 s */
	/* Signed by the host, so that secrets stay out of requests: "bearer" with the SECRET option
	 * sign_secret; or "aws:amz:REGION:SERVICE" (Signature Version 4; path and query of the URL
	 * percent-encoded) with the key id and the secret key that both options hold.  Without
	 * sign_secret the host looks for the user's own keys where the AWS CLI does, in the profile
	 * that sign_user names, if it is set.  NULL: unsigned. */
	const char *sign;
	uint32_t sign_user, sign_secret; /* option index, or ESPL_ANY */
	uint64_t cookie;                 /* the plugin's, handed back */
	const char *socket;              /* path of a Unix socket to connect to; NULL: none */
	/* 1: each line of an answer with code 200 is delivered as it comes, in a reply with `more`
	 * set; the last reply holds what follows the last line end. */
	uint32_t lines;
	uint32_t zero;
};
struct espl_http_reply {
	uint32_t size;
	espl_status status; /* REMOTE: no answer; LIMIT: no answer in time; see text */
	uint64_t cookie;    /* the request's */
	uint32_t code;      /* HTTP status, 100 to 599; 0 without an answer */
	uint32_t header_count;
	const char *const *headers; /* "Name: value", as received */
	const void *body;           /* followed by a NUL that is not counted */
	uint64_t body_size;         /* bytes */
	const char *text;           /* describes the failure, or "" */
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
	espl_span limit;     /* after this time its process group is killed; 0: no limit */
	uint64_t cookie;     /* the plugin's, handed back */
};
/* the outcome of a process */
struct espl_child {
	uint32_t size;
	espl_status status; /* OK, LIMIT, or REMOTE (it could not be started) */
	uint64_t cookie;    /* the request's */
	int32_t exit_code;  /* or -signal */
	uint32_t zero;
	const void *out, *err; /* what it wrote, followed by a NUL; at most 1 MiB each is kept */
	uint64_t out_size, err_size; /* bytes, without that NUL */
};
struct espl_io {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Answered by on_http.  E_CONFIG: the address or the signature is not valid; E_LIMIT: too
	 * many requests. */
	espl_status (*http)(const struct espl_io *, const struct espl_http *, struct espl_error *);
	/* Answered by on_child. */
	espl_status (
	    *spawn)(const struct espl_io *, const struct espl_spawn *, struct espl_error *);
	/* Answered by on_timer, once, `after` (>= 0) from now; E_REJECTED: it is negative.  A
	 * plugin that always asks to be called at once is slowed down. */
	espl_status (*timer)(const struct espl_io *, espl_span after, uint64_t cookie);
	/* Cancels the requests with this cookie: they are not answered.  An unknown cookie is
	 * ignored. */
	void (*cancel)(const struct espl_io *, uint64_t cookie);
	int64_t (*utc_ns)(const struct espl_io *); /* the wall clock, for protocols only */
	/* Credentials that are not options: "env:NAME" or "file:PATH" if the configuration file
	 * allows it.  Valid until the entry returns; must not be kept.  E_UNKNOWN: not allowed, or
	 * not found. */
	espl_status (*secret)(const struct espl_io *, const char *name, const char **value);
};

/* Service ESPL_RUN: the run that the nodes are for; not in simulations.  Its values may
 * change: read them again before each use. */
struct espl_run {
	uint32_t size;
	uint32_t gpus_min;  /* with fewer GPUs in total, one of its trials could never run */
	const char *folder; /* absolute */
};
/* Service ESPL_VISIT: machines are listed or released, none is leased. */
struct espl_visit {
	uint32_t size, zero;
	/* Directory of the run whose machines are concerned, as an absolute path.  It may be read
	 * but, unless idle is set, not written, since the run may be using it.  NULL: there is
	 * none, or it is not known. */
	const char *folder;
	/* 1: the machines of this run will be released, and it cannot run at the same time: files
	 * that are kept there for its machines may be removed.  A host that is older than this
	 * member sets a smaller size. */
	uint32_t idle;
	uint32_t zero2;
};

/* ---- leases ---------------------------------------------------------------------------------- */

struct espl_acquire {
	uint32_t size;
	uint32_t zero;
	uint64_t lease; /* the host's number of the lease, journaled before this call */
	/* idempotency key, at most 64 characters of [A-Za-z0-9-]; a retry has the same one */
	const char *token;
	const char *run;            /* name of the run: tag the machine with run and token */
	const char *offer, *market; /* the offer's name and market */
	espl_money max_price_hour;  /* 0: none */
	/* Machines of this offer, as `machine` of espl_node_event names them, that failed recently:
	 * the cloud takes another one while there is any.  It may take one of these when there is
	 * no other.  May differ in a retry. */
	uint32_t avoid_count;
	uint32_t zero2;
	const char *const *avoid; /* [avoid_count] */
};
/* what the host knows about a lease */
struct espl_lease {
	uint32_t size;
	uint32_t state; /* espl_node_state as last reported */
	uint64_t lease;
	const char *token, *offer, *market; /* the same as in its espl_acquire */
	const char *provider_id;            /* NULL until reported */
	const char *address;                /* NULL until reported */
	const char *detail;                 /* what the plugin reported for its own use, or NULL */
};

typedef uint32_t espl_reason; /* why a lease ended */
enum {
	ESPL_BY_USER = 1, /* release was called */
	ESPL_BY_PROVIDER, /* revoked: the offer's refund rule applies */
	ESPL_BY_FAULT,    /* hardware, health check */
	ESPL_BY_CAPACITY, /* no capacity for acquire: try elsewhere or later */
	ESPL_BY_QUOTA,    /* the account's limit */
	ESPL_BY_EXPIRY,   /* its wall-time limit */
	/* acquire was refused permanently, as every other lease of this offer would be */
	ESPL_BY_REFUSAL
};

struct espl_node_event {
	uint32_t size;
	espl_node_state state; /* its state now */
	uint64_t lease;    /* NONE: the host looks it up by its token, or (answers to `owned`) it is
			    * not a lease of this run */
	const char *token; /* from the machine's tag; NULL if not known */
	const char *run;   /* from the machine's tag; `owned` only */
	const char *provider_id, *address, *detail; /* NULL: unchanged */
	espl_time at;       /* when it happened, if the provider says; else NEVER */
	espl_time ends_at;  /* known end: after a NOTICE, or by a wall-time limit; else NEVER */
	espl_reason reason; /* ENDED */
	uint32_t gpus;      /* READY: GPUs found; ESPL_ANY: as the offer says.  The agent's
			     * own count is used */
	espl_money charged; /* ENDED: the provider's own figure; -1 unknown */
	const char *text;   /* one line for the user, may be NULL */
	/* ENDED, CAPACITY or QUOTA: acquire again after this time at the earliest; 0 unknown */
	espl_span retry_after;
	const char *offer, *market; /* `owned` only, NULL unknown */
	int64_t billed_utc_s;       /* `owned` only: billed since; 0 unknown */
	/* READY: ESPL_NODE_AT_RISK (a rebalance recommendation), with text if there is more to
	 * say; may come with a repeated READY.  Trials there save at once, and no notice follows
	 * from it. */
	uint32_t flags;
	uint32_t zero;
	/* Name of the machine behind the node, as its provider knows it (ssh host, Slurm node,
	 * Kubernetes node, host of an instance): another lease of this offer with the same name is
	 * on the same machine.  May come with any state, ENDED included; NULL: unchanged, or not
	 * known. */
	const char *machine;
};

/* A node that is held at this instant is interrupted with this probability. */
struct espl_interruption {
	espl_time at;
	double share;
}; /* frozen, 16 bytes */

/* What a provider has of an offer; for simulations only, policies never see it. */
struct espl_supply {
	uint32_t size;
	uint32_t machines; /* ANY: as many as are asked for */
	/* How long a machine can be had, and then is in use by others, on average, in seconds
	 * (exponential); taken_s 0: it can always be had. */
	double free_s, taken_s;
	espl_span wait; /* for so long a request waits for a machine; 0: it is refused at once */
};

/* host-owned, valid from start to destroy */
struct espl_cloud_events {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* Reports a new or changed offer, or withdraws one (ESPL_OFFER_GONE). */
	espl_status (*offer)(const struct espl_cloud_events *, const struct espl_offer *);
	/* Reports price records, oldest first.  They may be of the past, and may repeat earlier
	 * ones. */
	espl_status (*prices)(const struct espl_cloud_events *, const char *offer,
	    const char *market, const struct espl_price *, uint32_t count);
	/* States only advance; a repeated one is ignored, except for its flags. */
	espl_status (*node)(const struct espl_cloud_events *, const struct espl_node_event *);
	/* Ends a start, history or owned request: `what` is its request number, 0 for start.  If a
	 * start fails, the second line of text, if any, is printed as a hint. */
	void (
	    *done)(const struct espl_cloud_events *, uint64_t what, espl_status, const char *text);
	/* Called from describe, for simulations: what interrupts the nodes of an offer.  Policies
	 * see only hazard_hour and hazard_hours.  rate_hour: random interruptions per node-hour,
	 * instead of hazard_hour; log: by time, rising.  NULL or missing in hosts that do not
	 * simulate. */
	espl_status (*interruptions)(const struct espl_cloud_events *, const char *offer,
	    const char *market, double rate_hour, const struct espl_interruption *log,
	    uint32_t count);
	/* Called from describe, for simulations: how many machines there are in truth.  NULL or
	 * missing in hosts that do not simulate. */
	espl_status (*supply)(const struct espl_cloud_events *, const char *offer,
	    const char *market, const struct espl_supply *);
};

struct espl_argv_sink {
	uint32_t size, zero;
	/* The arguments of a command that runs without a shell; argc 0: no command is needed, since
	 * the node is this machine. */
	espl_status (*argv)(struct espl_argv_sink *, const char *const *argv, uint32_t argc);
	/* Optional, before or after argv: says that espalier-agent is at this path on the node
	 * (NULL: at the same path as here), so the host does not send it.  The pointer may be NULL.
	 */
	void (*agent)(struct espl_argv_sink *, const char *path);
};

struct espl_cloud_ops {
	struct espl_ops head;
	/* Finds offers and checks credentials; then calls done(0).  Nothing is acquired before
	 * that. */
	espl_status (*start)(void *self, const struct espl_cloud_events *, struct espl_error *);
	/* Begins to lease machines; each request leads to READY or ENDED for its lease.  If the
	 * driver died meanwhile, it is called again with the same token and must not make a second
	 * machine. */
	espl_status (*acquire)(void *self, const struct espl_acquire *const *, uint32_t count,
	    struct espl_error *);
	/* Begins to release machines; the host repeats the call until ENDED is reported, also for
	 * leases that never became READY. */
	espl_status (*release)(void *self, const struct espl_lease *const *, uint32_t count,
	    struct espl_error *);
	/* Called after start when a run is resumed: watch these leases again, and report the
	 * current state of each (ENDED if the provider does not know it). */
	espl_status (*adopt)(void *self, const struct espl_lease *const *, uint32_t count,
	    struct espl_error *);
	/* Optional.  Reports, through node and with their tokens, all machines that may cost
	 * something and that carry the tag of one run, or of any run if `run` is NULL; then calls
	 * done.  If any part of the listing fails, the whole fails.  A machine that has ended and
	 * costs nothing, but must still be removed, is listed as ENDED.  The host calls this when a
	 * run starts, resumes and ends, and releases machines with the run's tag that the run does
	 * not know.  Such a lease has a token and usually a provider_id; its offer and market are
	 * "". */
	espl_status (*owned)(void *self, const char *run, uint64_t what, struct espl_error *);
	/* The command that runs another command on this node with its standard streams joined (ssh
	 * HOST, srun -w NODE, or nothing).  The host appends `sh -s --` and plain words; the script
	 * that it writes to that shell sends espalier-agent if the node has none, and starts it.
	 * With sink->agent it appends the path of espalier-agent and plain words.  The agent offers
	 * all GPUs that it finds on the machine, and where there are none, its cores.  `env
	 * ESPALIER_AGENT_DEVICES=LIST` as the last words limits that: LIST is cpu:N for N slots on
	 * cores, or UUIDs of GPUs with commas between them.  The command must depend on the lease
	 * alone.  If the provider publishes notices only on the machine itself (at a metadata
	 * address), io->spawn these words followed by a command that waits for a notice, with limit
	 * 0; on_child then means that there is one. */
	espl_status (*reach)(void *self, const struct espl_lease *, struct espl_argv_sink *,
	    struct espl_error *);
	/* A draft: no host calls it.  Prices from `from` on, for one offer; then done. */
	espl_status (*history)(void *self, const char *offer, const char *market, espl_time from,
	    uint64_t what, struct espl_error *);
	/* Mandatory.  The offers (and prices known beforehand) that follow from the configuration,
	 * through events->offer and events->prices, before this returns and without any I/O: `plan`
	 * and `simulate` call no other entry; `check` then calls start.  A cloud that must ask its
	 * provider reports what its own tables hold.  E_UNKNOWN: nothing is known. */
	espl_status (*describe)(void *self, const struct espl_cloud_events *, struct espl_error *);
	/* Answers of espl_io, one for each request, never within the entry that made the request;
	 * NULL if the plugin makes no such requests. */
	void (*on_http)(void *self, const struct espl_http_reply *);
	void (*on_child)(void *self, const struct espl_child *);
	void (*on_timer)(void *self, uint64_t cookie);
};

#ifdef __cplusplus
}
#endif
#endif
