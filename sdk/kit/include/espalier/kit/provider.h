/* espalier kit: provider.h - a cloud of machines that are leased over HTTP and reached by ssh: all
 * of it except the provider's own API.
 *
 * A plugin fills in the requests of its provider (struct espl_provider_api) and reads the answers.
 * The rest is here, on the lease machine (leases.h): options and offers, access tokens, listings in
 * pages, the machines of other runs, the probe by ssh, and all entries of a cloud but `create`.  A
 * complete plugin is plugins/clouds/gce.
 *
 *	struct my_cloud { struct espl_provider provider; ... };	 the provider comes first
 *
 * A request is sent once; the lease machine decides what is sent again.  What the API must have: a
 * name or label by which a machine can be found, since a token must never make a second machine.
 */
#ifndef ESPALIER_KIT_PROVIDER_H
#define ESPALIER_KIT_PROVIDER_H
#include <espalier/kit/leases.h>
#include <espalier/util.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- options ---- */

/* The first options of the plugin's table, from ESPL_PROVIDER_OPTIONS; its own ones follow. */
enum {
	ESPL_PROVIDER_OFFERS = 0,
	ESPL_PROVIDER_TOKEN,
	ESPL_PROVIDER_TOKEN_COMMAND,
	ESPL_PROVIDER_USER,
	ESPL_PROVIDER_KEY,
	ESPL_PROVIDER_SSH,
	ESPL_PROVIDER_AGENT,
	ESPL_PROVIDER_POLL,
	ESPL_PROVIDER_BOOT,
	ESPL_PROVIDER_OWN /* the first one of the plugin */
};
/* The first columns of `offers`. */
enum {
	ESPL_OFFERS_TYPE = 0,
	ESPL_OFFERS_ZONE,
	ESPL_OFFERS_MARKET,
	ESPL_OFFERS_NODES,
	ESPL_OFFERS_PRICE,
	ESPL_OFFERS_GPUS,
	ESPL_OFFERS_GPU_TYPE,
	ESPL_OFFERS_LATENCY,
	ESPL_OFFERS_OWN
};

#define ESPL_PROVIDER_COLUMNS \
	{ .name = "type", \
		.help = "type of machine, as the provider names it", \
		.type = ESPL_OPT_STRING, \
		.flags = ESPL_OPT_REQUIRED }, \
	    { .name = "zone", \
		    .help = "zone or region of the machines", \
		    .type = ESPL_OPT_STRING, \
		    .flags = ESPL_OPT_REQUIRED }, \
	    { .name = "market", \
		    .help = "whether the provider may interrupt the machine (spot) or not", \
		    .fallback = "on-demand", \
		    .choices = "on-demand|spot", \
		    .type = ESPL_OPT_CHOICE }, \
	    { .name = "nodes_max", \
		    .help = "maximum number of machines of this offer at one time", \
		    .min = "1", \
		    .max = "10000", \
		    .type = ESPL_OPT_INT, \
		    .flags = ESPL_OPT_REQUIRED }, \
	    { .name = "price_hour", \
		    .help = "price in dollars per machine-hour", \
		    .min = "0", \
		    .type = ESPL_OPT_MONEY, \
		    .flags = ESPL_OPT_REQUIRED }, \
	    { .name = "gpus", \
		    .help = "GPUs per machine, or slots if gpu_type is \"cpu\"", \
		    .fallback = "1", \
		    .min = "1", \
		    .max = "4096", \
		    .type = ESPL_OPT_INT }, \
	    { .name = "gpu_type", \
		    .help = "GPU model; \"cpu\": slots on the cores instead of GPUs", \
		    .fallback = "gpu", \
		    .type = ESPL_OPT_STRING }, \
	{ \
		.name = "boot", .help = "time from the request until ssh answers", \
		.fallback = "60s", .type = ESPL_OPT_LATENCY \
	}
#define ESPL_PROVIDER_WORDS \
	{ \
		.name = "word", .help = "program or argument", .type = ESPL_OPT_STRING, \
		.flags = ESPL_OPT_REQUIRED \
	}
/* columns_: the plugin's table of columns; words_: a table of ESPL_PROVIDER_WORDS; token_ and its
 * help: the default of `token`; command_: the help of `token_command`. */
#define ESPL_PROVIDER_OPTIONS(columns_, words_, token_, token_help_, command_) \
	{ .name = "offers", \
		.help = "list of what can be leased, one group for each type, zone and market", \
		.columns = columns_, \
		.column_count = sizeof columns_ / sizeof columns_[0], \
		.type = ESPL_OPT_TABLE, \
		.flags = ESPL_OPT_REQUIRED }, \
	    { .name = "token", .help = token_help_, .fallback = token_, .type = ESPL_OPT_STRING }, \
	    { .name = "token_command", \
		    .help = command_, \
		    .columns = words_, \
		    .column_count = 1, \
		    .type = ESPL_OPT_TABLE }, \
	    { .name = "user", \
		    .help = "user to log in as; default: from ssh_config", \
		    .type = ESPL_OPT_STRING }, \
	    { .name = "key", \
		    .help = "private key file for ssh; default: from ssh_config", \
		    .type = ESPL_OPT_STRING }, \
	    { .name = "ssh", \
		    .help = "program to use for ssh, with its first arguments; default: ( " \
			    "\"ssh\" )", \
		    .columns = words_, \
		    .column_count = 1, \
		    .type = ESPL_OPT_TABLE }, \
	    { .name = "agent", \
		    .help = "path of espalier-agent on the machines; default: it is sent to " \
			    "machines that do not have the same one", \
		    .type = ESPL_OPT_STRING }, \
	    { .name = "poll", \
		    .help = "time between two listings while machines change state, and half the " \
			    "time between two others", \
		    .fallback = "5s", \
		    .min = "100ms", \
		    .max = "1m", \
		    .type = ESPL_OPT_SPAN }, \
	{ \
		.name = "boot_timeout", \
		.help = "a machine that ssh cannot reach within this time is ended", \
		.fallback = "10m", .min = "1s", .type = ESPL_OPT_SPAN \
	}

/* ---- requests and answers ---- */

enum espl_call_kind {
	ESPL_CALL_START = 1, /* one of the requests before anything is leased */
	ESPL_CALL_TOKEN,     /* of api->token */
	ESPL_CALL_ASK,
	ESPL_CALL_AWAIT, /* what an ASK began goes on: see `pending` */
	ESPL_CALL_LOOK,
	ESPL_CALL_CANCEL,
	ESPL_CALL_PROBE,
	ESPL_CALL_LIST,
	ESPL_CALL_OWNED /* a listing, too: of the machines of all runs, or of one */
};

/* A request.  url and body are allocated, and freed by the kit; url NULL: out of memory. */
struct espl_call {
	struct espl_call *next; /* the kit's */
	uint64_t cookie;        /* the kit's */
	const char *method;     /* "GET" unless it is set */
	char *url, *body;       /* body NULL: none; else JSON */
	const char *header;     /* one more; NULL: none */
	espl_span limit;        /* 0: 60 s */
};

/* A lease; a plugin may put it at the beginning of a larger struct (machine_size). */
struct espl_machine {
	struct espl_leased lease; /* first */
	uint32_t offer;           /* ESPL_ANY: not of this configuration */
	espl_money max_price_hour;
	int probed; /* api->probe was answered: ssh is next */
};

/* What a reply means.  It is preset from the HTTP status alone: 2xx FINE; 401, 408, 425 and 429
 * LATER; 404 and 410 GONE; 409 EXIST; other 4xx REFUSE, with ESPL_BY_REFUSAL; else UNSURE, and
 * LATER if the request was not sent. */
struct espl_answer {
	enum espl_lease_failure failure;
	espl_reason reason;        /* of REFUSE */
	espl_span retry_after;     /* of REFUSE */
	int pending;               /* ASK: another request was sent, whose answer decides */
	struct espl_lease_row row; /* FINE, of ASK, AWAIT, LOOK */
	char *page;        /* LIST, OWNED: where the next page begins, allocated; NULL: end */
	const char *token; /* of TOKEN */
	espl_span lasts;   /* of TOKEN; 0: not known */
	void *kept; /* for api->drop, when the strings of row and token are no longer needed */
	char text[ESPL_LEASE_TEXT]; /* why it has failed */
};

struct espl_provider;
struct espl_provider_api {
	const char *name;    /* "Google Cloud" */
	size_t machine_size; /* of struct espl_machine, or more */
	/* Billing: the least time of a machine; for spot machines, before which an interruption is
	 * free, and how long before it there is notice. */
	espl_span minimum_charge, refund_before, notice;

	/* Fills in the request of a step, from 0; 0: there is no such step, and the start is done.
	 */
	int (*start)(struct espl_provider *, uint32_t step, struct espl_call *);
	/* What `token_command` is unless it is set, ended by NULL; NULL: it must be set. */
	const char *const *token_command;
	/* "metadata" as `token`: a request without one; NULL: there is no such source. */
	void (*token)(struct espl_provider *, struct espl_call *);
	void (*ask)(struct espl_provider *, struct espl_machine *, struct espl_call *);
	/* By its token, where the zone is that of its offer, or (offer ESPL_ANY) that of its id. */
	void (*look)(struct espl_provider *, struct espl_machine *, struct espl_call *);
	void (*cancel)(struct espl_provider *, struct espl_machine *, const char *id,
	    struct espl_call *);
	/* Before ssh is tried; NULL: there is nothing to ask. */
	void (*probe)(struct espl_provider *, struct espl_machine *, struct espl_call *);
	/* run NULL: of all runs; page NULL: the first. */
	void (*list)(struct espl_provider *, const char *run, const char *page, struct espl_call *);
	/* Reads a reply.  machine NULL: START, TOKEN, LIST, OWNED, and of a lease that is no more.
	 * Machines of listings are told by espl_provider_row. */
	void (*read)(struct espl_provider *, enum espl_call_kind, struct espl_machine *,
	    const struct espl_http_reply *, struct espl_answer *);
	void (*drop)(void *kept);
};

struct espl_provider_row {
	struct espl_lease_row row;
	const char *run, *offer, *market; /* OWNED only; NULL unknown */
	int64_t billed_utc_s;             /* OWNED only; 0 unknown */
};

/* What can be leased. */
struct espl_provider_offer {
	const struct espl_value *row;
	char name[100]; /* "TYPE/ZONE" */
	uint32_t cpus;
	uint64_t memory, gpu_memory; /* bytes; 0 unknown */
};

struct espl_provider_page; /* the kit's */

struct espl_provider {
	const struct espl_provider_api *api;
	const struct espl_host *host;
	const struct espl_config *config;
	const struct espl_io *io;
	const struct espl_run *run;     /* NULL: none */
	const struct espl_visit *visit; /* machines are listed or released, none is leased */
	const struct espl_cloud_events *events; /* from start on */
	struct espl_leases leases;              /* of struct espl_machine */
	struct espl_lease_rules rules; /* preset; a plugin may change them after it was created */
	struct espl_provider_offer *sources;
	uint32_t source_count;
	/* ssh accepts only keys of machines that the plugin has put into RUN/known_hosts, with the
	 * token as host name; else that of the first connection. */
	int pinned;
	/* The rest is the kit's own. */
	uint32_t step, tries; /* of start */
	char *token, *run_name;
	espl_time token_at, token_ends;
	int fetching;
	struct espl_call *waiting; /* for a token, in order */
	struct espl_provider_page *pages[2];
	uint64_t owned_what; /* ESPL_NONE: not asked */
	char *owned_run;
};

/* self is a struct of the plugin that begins with the provider, zeroed.  OK, or the reason; then
 * espl_provider_free is still to be called. */
espl_status espl_provider_create(struct espl_provider *, const struct espl_provider_api *,
    const struct espl_host *, const struct espl_config *, struct espl_error *);
void espl_provider_free(struct espl_provider *); /* not the struct */

static inline const char *
espl_provider_text(const struct espl_provider *p, uint32_t option)
{
	const struct espl_value *value = &p->config->values[option];

	return value->source != ESPL_UNSET ? value->as.s : "";
}
static inline const struct espl_table *
espl_provider_table(const struct espl_provider *p, uint32_t option)
{
	const struct espl_value *value = &p->config->values[option];

	return value->source != ESPL_UNSET ? value->as.table : NULL;
}
static inline int
espl_provider_is_spot(const struct espl_provider_offer *source)
{
	return source->row[ESPL_OFFERS_MARKET].as.i == 1;
}
/* NULL: its offer is not of this configuration. */
static inline const struct espl_provider_offer *
espl_provider_offer_of(const struct espl_provider *p, const struct espl_machine *machine)
{
	return machine->offer != ESPL_ANY ? &p->sources[machine->offer] : NULL;
}

/* Sends a request with the token, and frees it.  A status other than OK: it is not sent. */
espl_status espl_provider_send(struct espl_provider *, enum espl_call_kind, struct espl_machine *,
    struct espl_call *);
/* Of LIST and OWNED: a machine; it is copied.  -1: out of memory. */
int espl_provider_row(struct espl_provider *, enum espl_call_kind,
    const struct espl_provider_row *);
/* Preset as struct espl_answer describes. */
struct espl_answer espl_provider_answer(const struct espl_http_reply *);
/* The script that a machine runs when it boots (the dead man's switch): it powers the machine off
 * when no espalier-agent has run there for orphan, and after most in any case.  Allocated; NULL:
 * out of memory. */
char *espl_provider_switch(espl_span orphan, espl_span most);

/* ---- the entries of struct espl_cloud_ops ---- */

espl_status espl_provider_describe(void *self, const struct espl_cloud_events *,
    struct espl_error *);
espl_status espl_provider_start(void *self, const struct espl_cloud_events *, struct espl_error *);
espl_status espl_provider_acquire(void *self, const struct espl_acquire *const *, uint32_t count,
    struct espl_error *);
espl_status espl_provider_release(void *self, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
espl_status espl_provider_adopt(void *self, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
espl_status espl_provider_owned(void *self, const char *run, uint64_t what, struct espl_error *);
espl_status espl_provider_reach(void *self, const struct espl_lease *, struct espl_argv_sink *,
    struct espl_error *);
/* How ssh reaches a machine, for a `reach` of one's own; strings are needed during the call only.
 * Its host key is kept under the token, because addresses are used again. */
struct espl_provider_way {
	const struct espl_table *ssh; /* the user's program and its first arguments; NULL: "ssh" */
	const char *token, *address;
	const char *folder;             /* where known_hosts is; NULL: the user's own file */
	const char *key, *user, *agent; /* "": none */
	int pinned; /* the host key is known; else it is accepted at the first connection */
};
#define ESPL_PROVIDER_SSH_WORDS 30u /* rows that `ssh` may have */
/* ESPL_E_UNKNOWN: no address; ESPL_E_LIMIT: too many words; ESPL_E_NOMEM; or what the sink says. */
espl_status espl_provider_reach_by(const struct espl_provider_way *, struct espl_argv_sink *,
    struct espl_error *);
void espl_provider_on_http(void *self, const struct espl_http_reply *);
void espl_provider_on_child(void *self, const struct espl_child *);
void espl_provider_on_timer(void *self, uint64_t cookie);

#define ESPL_PROVIDER_OPS \
	ESPL_TABLE(struct espl_cloud_ops), \
	    .start = espl_provider_start, .acquire = espl_provider_acquire, \
	    .release = espl_provider_release, .adopt = espl_provider_adopt, \
	    .owned = espl_provider_owned, .reach = espl_provider_reach, \
	    .describe = espl_provider_describe, .on_http = espl_provider_on_http, \
	    .on_child = espl_provider_on_child, .on_timer = espl_provider_on_timer

#ifdef __cplusplus
}
#endif
#endif
