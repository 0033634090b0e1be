/* cloud_aws.h - the parts of the cloud `aws`: offers, leases, requests and answers.
 *
 * cloud_aws_query.c, cloud_aws_answer.c and cloud_aws_state.c are pure: they read no clock and do
 * no I/O, and tests drive them without a network.
 */
#ifndef CLOUD_AWS_H
#define CLOUD_AWS_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#include <espalier/util.h>

#define AWS_TEXT 600 /* of a message */
#define AWS_ID 40    /* of a machine, a subnet, an image */
#define AWS_TOKEN 65
#define AWS_NOTICE_S 120         /* between the notice of an interruption and the end */
#define AWS_FREE_S 3600          /* interrupted within this time, a spot machine costs nothing */
#define AWS_DRIVER 220           /* who runs it, as a tag: a user, a machine and a folder */
#define AWS_RESEND_S (12 * 3600) /* a token is not sent again when it is older */
#define AWS_FILTER 200u          /* values of a filter at most */
/* A machine that boots may answer with the key of its image before cloud-init has replaced it. */
#define AWS_STRANGE (30 * ESPL_SECOND)

enum {
	AWS_OPT_REGION = 0,
	AWS_OPT_PROFILE,
	AWS_OPT_ENDPOINT,
	AWS_OPT_OFFERS,
	AWS_OPT_IMAGE,
	AWS_OPT_USER,
	AWS_OPT_KEY,
	AWS_OPT_KEY_NAME,
	AWS_OPT_GROUP,
	AWS_OPT_ADDRESS,
	AWS_OPT_SSH,
	AWS_OPT_AGENT,
	AWS_OPT_TAGS,
	AWS_OPT_POLL,
	AWS_OPT_BOOT,
	AWS_OPT_SETTLE,
	AWS_OPT_ORPHAN,
	AWS_OPT_MOST,
	AWS_OPT_PRICES,
	AWS_OPT_HOST_KEY,
	AWS_OPT_COUNT
};
enum {
	AWS_COL_TYPE = 0,
	AWS_COL_ZONE,
	AWS_COL_SUBNET,
	AWS_COL_MARKET,
	AWS_COL_NODES,
	AWS_COL_PRICE,
	AWS_COL_GPUS,
	AWS_COL_GPU_TYPE,
	AWS_COL_LATENCY,
	AWS_COL_COUNT
};

/* ---- cloud_aws_query.c: what is sent ---- */

struct aws_query {
	char *text; /* NULL: empty, or out of memory */
	size_t size, capacity;
	int failed;
};
void cloud_aws_query_begin(struct aws_query *, const char *action, const char *version);
/* The name is a format; the value is percent-encoded. */
void cloud_aws_query_add(struct aws_query *, const char *value, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
void cloud_aws_query_free(struct aws_query *);

/* All that makes a machine: the same for the same token, else EC2 refuses to repeat itself. */
struct aws_wish {
	const char *token, *run, *driver, *type, *image, *subnet, *group, *key_name, *user_data;
	int spot, dry_run;             /* dry_run: EC2 only checks it */
	espl_money max_price_hour;     /* 0: none */
	const struct espl_table *tags; /* NULL: none */
};
/* Machines that cost something, of this run or (NULL) of any. */
void cloud_aws_query_listing(struct aws_query *, const char *run);
void cloud_aws_query_run(struct aws_query *, const struct aws_wish *);

/* ---- cloud_aws_answer.c: what is answered ---- */

/* An element; the text is that of leaves, trimmed. */
struct aws_element {
	char *name, *text;
	size_t size, room; /* of the text */
	struct aws_element *first, *last, *next;
};
struct aws_element *cloud_aws_answer_parse(const void *xml, size_t size); /* NULL: it is no XML */
void cloud_aws_answer_free(struct aws_element *);
/* By a path "a/b/c" below this one; NULL: there is none. */
const struct aws_element *cloud_aws_answer_find(const struct aws_element *, const char *path);
const char *cloud_aws_answer_text(const struct aws_element *, const char *path); /* or "" */
int64_t cloud_aws_answer_time(const char *text);     /* UTC seconds; 0: it is no time */
espl_money cloud_aws_answer_money(const char *text); /* "1.006000"; -1: not a price */
/* EC2's own clock, of the header Date, in UTC seconds; 0: there is none. */
int64_t cloud_aws_answer_date(const struct espl_http_reply *);

/* 0: the answer does not tell, and nothing follows from that. */
enum aws_state { AWS_PENDING = 1, AWS_RUNNING, AWS_STOPPED, AWS_ENDED };
struct aws_machine {
	char id[AWS_ID], token[AWS_TOKEN], run[AWS_TOKEN], type[AWS_ID], zone[AWS_ID];
	char driver[AWS_DRIVER];
	char public_address[64], private_address[64];
	char why[64];        /* stateReason/code */
	char text[AWS_TEXT]; /* stateReason/message */
	enum aws_state state;
	int spot;
	int64_t launch_s, end_s; /* UTC; 0 unknown */
	int64_t seen_s;          /* EC2's time of this answer */
};
void cloud_aws_answer_machine(const struct aws_element *item, int64_t seen_s, struct aws_machine *);

/* Each machine of a listing, until one is answered with something else than 0: that. */
int cloud_aws_answer_each(const struct aws_element *document, int64_t seen_s,
    int (*take)(void *ctx, const struct aws_machine *), void *ctx);

/* What is to be done about a failure. */
enum aws_class {
	AWS_FINE = 0,
	AWS_AGAIN,    /* nothing was done: again, later */
	AWS_UNKNOWN,  /* it may have been done */
	AWS_CAPACITY, /* none of this type in this zone and market */
	AWS_QUOTA,    /* the account's limit */
	AWS_REFUSED,  /* for good */
	AWS_MISSING,  /* no such machine (yet, or any more) */
	AWS_MISMATCH  /* the token was used before, so an earlier request was accepted */
};
/* By the code of the error first: EC2 says InsufficientInstanceCapacity with status 500. */
enum aws_class cloud_aws_answer_class(const char *code, uint32_t http);
/* Of a reply; its document where it is fine (to be freed), else NULL and why in plain words. */
enum aws_class cloud_aws_answer_reply(const struct espl_http_reply *, const char *action,
    struct aws_element **, char text[AWS_TEXT]);

/* ---- cloud_aws_state.c: a lease from the wish to the end ---- */

enum aws_step {
	AWS_WANTED = 0, /* RunInstances is to be sent, or sent again with the same token */
	AWS_ASKED,      /* RunInstances is under way */
	AWS_LOST,       /* a machine may exist; nothing is sent, listings tell */
	AWS_KNOWN       /* its machine is known */
};
/* What a machine waits for before trials can run there. Each of these ends by a limit. */
enum aws_wait {
	AWS_NO_WAIT = 0,
	AWS_WAITS_ACCEPTED,
	AWS_WAITS_LISTED,
	AWS_WAITS_RUNNING,
	AWS_WAITS_SSH
};
enum aws_duty { AWS_NOTHING = 0, AWS_SEND_RUN, AWS_SEND_TERMINATE, AWS_PROBE, AWS_TELL_END };

struct aws_lease {
	struct aws_lease *next;
	uint64_t serial; /* the upper part of its cookies */
	uint64_t lease;
	uint64_t listing; /* the last one that it was in */
	int listed;       /* it is in the one under way */
	char token[AWS_TOKEN], run[AWS_TOKEN], id[AWS_ID], address[64];
	char detail[48]; /* what the host keeps for a later process */
	uint32_t offer;  /* its index */
	espl_money max_price_hour;
	enum aws_step step;
	espl_node_state reported;
	int unsure;      /* an earlier request may have made a machine */
	int old;         /* EC2 may have forgotten its token, and the machine */
	int releasing;   /* the host wants its end */
	int ending;      /* the driver does, for end_reason and why */
	int busy;        /* a command or request for it is under way */
	int running;     /* the machine runs */
	int unbilled;    /* it was ended before it ran */
	int used;        /* it was READY, perhaps in an earlier process */
	int interrupted; /* EC2 took it */
	int priced;      /* 1: it waits for the prices of its last hour, 2: they came, -1: not */
	uint32_t price_tries;
	espl_time price_at;     /* not asked for again before it */
	uint32_t tries;         /* in a row */
	espl_time due;          /* nothing is sent before it */
	espl_time since;        /* the step began, or RunInstances was answered */
	espl_time missing;      /* not in complete listings since; ESPL_NEVER: it was there */
	int doubted;            /* listings do not have it: TerminateInstances tells, and ends it */
	espl_time asked_at;     /* TerminateInstances was first sent; ESPL_NEVER: not yet */
	uint32_t warnings;      /* that it has not ended */
	int counted;            /* its next RunInstances, by cloud_aws_count_run */
	int keyless;            /* its private host key was removed */
	espl_time strange_at;   /* another host key than it was given answered; ESPL_NEVER: none */
	char trouble[AWS_TEXT]; /* why TerminateInstances failed last; "": it did not */
	char said[AWS_TEXT];    /* the last failure of RunInstances, or of ssh */
	espl_time failing_at;   /* RunInstances fails since; ESPL_NEVER: it does not */
	enum aws_wait wait;     /* what it waits for, and since when */
	espl_time wait_at;
	int told; /* that it waits */
	/* UTC by EC2's clock; 0 unknown. EC2 charges from the time at which the machine runs, but
	 * does not report it: billed_s is the last time at which it was not running yet. */
	int64_t launch_s, billed_s, notice_s, end_s;
	int64_t status_s;  /* the spot request said that it ends */
	espl_time ends_at; /* of a notice, the run's clock */
	int over;          /* nothing runs: AWS_TELL_END is due */
	espl_reason end_reason;
	int never; /* no machine was made: nothing to pay */
	char why[AWS_TEXT];
};
struct aws_limits {
	espl_span settle; /* a new machine is in listings after this time */
	espl_span boot;   /* from the request until ssh answers */
	int inner;        /* machines are reached at their private addresses */
};
void cloud_aws_state_begin(struct aws_lease *, espl_time now);
/* RunInstances has failed. */
void cloud_aws_state_failed(struct aws_lease *, enum aws_class, const char *text, espl_time now);
/* A machine of RunInstances, or of a complete listing; NULL: the listing does not have it. */
void cloud_aws_state_made(struct aws_lease *, const struct aws_machine *, int spot, espl_time now);
void cloud_aws_state_listed(struct aws_lease *, const struct aws_machine *,
    const struct aws_limits *, espl_time now);
/* What the spot request says; 1: that is a notice, and a new one. */
int cloud_aws_state_spot(struct aws_lease *, const char *code, int64_t update_s, int64_t utc_s,
    espl_time now);
void cloud_aws_state_release(struct aws_lease *, espl_time now);
/* RunInstances must not be sent again: listings show whether there is a machine. */
void cloud_aws_state_lost(struct aws_lease *, espl_time now);
/* TerminateInstances was answered (before: the state in which it met the machine), or ssh was. */
void cloud_aws_state_terminated(struct aws_lease *, enum aws_class, const char *before,
    espl_time now);
/* How long after `asked_at` it is due to warn that the machine has not ended. */
espl_span cloud_aws_state_patience(uint32_t warnings);
void cloud_aws_state_reached(struct aws_lease *, int answers, const char *text,
    const struct aws_limits *, espl_time now);
/* It answered with another host key: it is ended, now or (1) if it goes on with that. */
int cloud_aws_state_strange(struct aws_lease *, const char *text, espl_time now);
/* RunInstances has failed for too long. */
void cloud_aws_state_expire(struct aws_lease *, const struct aws_limits *, espl_time now);
/* 1: it is time to say what it waits for: text. */
int cloud_aws_state_waits(struct aws_lease *, espl_time now, char text[AWS_TEXT]);
enum aws_duty cloud_aws_state_duty(const struct aws_lease *, espl_time now);

struct aws_price {
	int64_t from_s; /* UTC */
	espl_money usd_hour;
};
/* The maximum that EC2 charges, given the known start and end; -1: the prices of that time are not
 * known. */
espl_money cloud_aws_state_charge(const struct aws_lease *, int spot, const struct aws_price *,
    uint32_t count);

/* ---- the instance ---- */

struct aws_offer {
	const struct espl_value *row;
	char name[80], zone[AWS_ID], subnet[AWS_ID];
	espl_money price_hour; /* on demand */
	char price_date[11];   /* of the table that it is from; "": of the configuration */
	uint32_t recorded;     /* 1: the price was recorded when the run began */
	uint32_t cpus;
	uint64_t memory, gpu_memory;
	struct aws_price *prices, *fresh; /* by time; fresh: of the listing under way */
	uint32_t price_count, fresh_count;
	int64_t latest_price_s; /* the last price that the host knows */
	int offered;            /* the zone has the type */
	int too_large;          /* for the account's quota */
	uint32_t dry;           /* times in a row that there was no capacity */
	espl_time dry_until;
};

/* What the run has recorded (RUN/aws). */
struct aws_fact {
	char *kind, *key, *value;
};

/* Cookies: a lease's serial number times 32, or 0, and one of these. */
enum aws_request {
	AWS_TICK = 0,
	AWS_KEYGEN,
	AWS_CALLER,
	AWS_SUBNETS,
	AWS_TYPES,
	AWS_OFFERINGS,
	AWS_IMAGE,
	AWS_FOREIGN,
	AWS_DRY_RUN,
	AWS_QUOTAS,
	AWS_PRICES,
	AWS_LISTING,
	AWS_SPOTS,
	AWS_OWNED,
	AWS_RETRY,
	AWS_RUN,
	AWS_TERMINATE,
	AWS_REACH,
	AWS_REQUESTS
};
#define AWS_COOKIE(serial_, request_) ((serial_)*32 + (uint64_t)(request_))

struct aws_cloud {
	const struct espl_host *host;
	const struct espl_config *config;
	const struct espl_io *io;
	const struct espl_visit *visit; /* machines are listed or released, none is leased */
	const struct espl_run *run;
	const struct espl_cloud_events *events; /* from start on */
	struct aws_offer *offers;
	uint32_t offer_count;
	char region[80], image[400], *user_data;
	enum aws_request starting; /* the request of start that is under way; 0: none */
	uint32_t tries;            /* of it */
	uint32_t checked, passed;  /* offers that EC2 has checked; those it would accept */
	uint32_t quota;            /* the one that is asked for: a number of cloud_aws_quotas.c */
	int has_history;           /* of prices */
	struct aws_lease *leases;
	uint64_t serial, listing;  /* numbers */
	struct aws_machine *found; /* by the listing under way */
	uint32_t found_count;
	char *asked[AWS_REQUESTS]; /* the request whose answer is read in pages; NULL: none is
				    * under way */
	int unpinned;              /* it was said that some machines have no key of ours */
	int ticking;
	int64_t ahead_s;        /* EC2's clock, of this machine's */
	struct aws_fact *facts; /* cloud_aws_record.c */
	uint32_t fact_count;
	int cut;                 /* its last line was cut off by a crash */
	char *table;             /* the file of cloud.prices, once it was read */
	char *driver_name;       /* who runs it, in full */
	char driver[AWS_DRIVER]; /* the same as a tag */
	espl_time list_at, spots_at, prices_at;
	uint32_t failures;   /* of listings, in a row */
	espl_time run_at;    /* RunInstances is not sent much before it */
	uint64_t owned_what; /* ESPL_NONE: not asked */
	char owned_run[AWS_TOKEN];
	char warned[AWS_TEXT]; /* the last warning */
};

static inline const char *
aws_text(const struct aws_cloud *cloud, uint32_t option)
{
	const struct espl_value *value = &cloud->config->values[option];

	return value->source != ESPL_UNSET ? value->as.s : "";
}
static inline int64_t
aws_number(const struct aws_cloud *cloud, uint32_t option)
{
	return cloud->config->values[option].as.i;
}
static inline const struct espl_table *
aws_table(const struct aws_cloud *cloud, uint32_t option)
{
	const struct espl_value *value = &cloud->config->values[option];

	return value->source != ESPL_UNSET ? value->as.table : NULL;
}
static inline int
aws_is_spot(const struct aws_offer *offer)
{
	return offer->row[AWS_COL_MARKET].as.i == 1;
}
static inline const char *
aws_market(const struct aws_offer *offer)
{
	return aws_is_spot(offer) ? "spot" : "on-demand";
}

/* cloud_aws_start.c: the queries before anything is leased, and the prices */
espl_status cloud_aws_start(void *self, const struct espl_cloud_events *, struct espl_error *);
espl_status cloud_aws_describe(void *self, const struct espl_cloud_events *, struct espl_error *);
void cloud_aws_start_reply(struct aws_cloud *, const struct espl_http_reply *);
void cloud_aws_start_child(struct aws_cloud *, const struct espl_child *);
void cloud_aws_start_retry(struct aws_cloud *);
void cloud_aws_start_end(struct aws_cloud *, espl_status, const char *text);

/* cloud_aws_region.c: the region ("": it is not known) and the address of a service ("": that of
 * AWS), from the options, the environment or the profile. */
void cloud_aws_region_find(struct aws_cloud *);
void cloud_aws_region_endpoint(const struct aws_cloud *, const char *service, char to[400]);

/* cloud_aws_check.c: what a start finds wrong.  The text may get a second line, a hint. */
int cloud_aws_check_clock(const struct aws_cloud *, const char *text); /* 1: that is why */
/* As cloud_aws_answer_reply; what a wrong clock has failed is done later. */
enum aws_class cloud_aws_check_reply(const struct aws_cloud *, const struct espl_http_reply *,
    const char *action, struct aws_element **, char text[AWS_TEXT]);
espl_status cloud_aws_check_failed(struct aws_cloud *, const struct espl_http_reply *,
    const char *offer, char text[AWS_TEXT]);
void cloud_aws_check_offerings(struct aws_cloud *, struct aws_query *);
void cloud_aws_check_offered(struct aws_cloud *, const struct aws_element *document);
int cloud_aws_check_zones(const struct aws_cloud *, char text[AWS_TEXT]);
void cloud_aws_check_ask(struct aws_cloud *, struct aws_query *);
int cloud_aws_check_take(struct aws_cloud *, enum aws_class, const struct aws_element *document,
    char text[AWS_TEXT]);

/* cloud_aws_table.c: prices on demand, from a table of lines "region,type,usd_hour,date". */
struct aws_tabled {
	espl_money usd_hour; /* 0: the table does not have it */
	char date[11];
};
extern const char cloud_aws_shipped[]; /* the table that comes with espalier */
/* Of an offer without price_hour: from the record of the run, or from the table. */
espl_status cloud_aws_table_price(struct aws_cloud *, struct aws_offer *, struct espl_error *);
/* How old the prices are that are from a table; nothing if none is. */
void cloud_aws_table_report(const struct aws_cloud *);               /* once */
int cloud_aws_table_record(struct aws_cloud *, char text[AWS_TEXT]); /* -1: why not */

/* cloud_aws_hostkey.c: the ssh host keys that machines are given. */
/* A key must be made before this token is sent; the answer goes to cloud_aws_hostkey_take. */
int cloud_aws_hostkey_due(const struct aws_cloud *, const char *token);
enum aws_class cloud_aws_hostkey_make(struct aws_cloud *, const char *token, uint64_t cookie,
    char text[AWS_TEXT]);
enum aws_class cloud_aws_hostkey_take(struct aws_cloud *, const char *token,
    const struct espl_child *, char text[AWS_TEXT]);
/* The machine of this token has a key of ours, or will have it. */
int cloud_aws_hostkey_pinned(const struct aws_cloud *, const char *token);
/* What it gets: the key, and cloud->user_data.  To be freed; NULL: the key is lost, or memory. */
char *cloud_aws_hostkey_user_data(const struct aws_cloud *, const char *token);
/* RUN/known_hosts has the key under the name of the token. */
espl_status cloud_aws_hostkey_pin(const struct aws_cloud *, const char *token, struct espl_error *);
/* ssh ended because it does not accept the key of the machine. */
int cloud_aws_hostkey_refused(const struct espl_child *);
/* The private key is removed: the request is not repeated, or not with it. */
void cloud_aws_hostkey_forget(const struct aws_cloud *, const char *token);
void cloud_aws_hostkey_forget_all(const struct aws_cloud *); /* those of all tokens */

/* cloud_aws_record.c: facts that hold for all processes of the run.  -1: why not. */
/* The directory of the run, also of one that is only visited; NULL: there is none. */
const char *cloud_aws_record_folder(const struct aws_cloud *);
int cloud_aws_record_read(struct aws_cloud *, char text[AWS_TEXT]);
int cloud_aws_record_put(struct aws_cloud *, const char *kind, const char *key, const char *value,
    char text[AWS_TEXT]);
const char *cloud_aws_record_get(const struct aws_cloud *, const char *kind, const char *key);
void cloud_aws_record_free(struct aws_cloud *);
/* Who runs this, and what machines are tagged with, to see that another process runs them.  -1: out
 * of memory. */
int cloud_aws_record_driver(struct aws_cloud *);
/* Shortens a name of any length to the value of a tag; a digest keeps shortened names distinct. */
void cloud_aws_record_tag(const char *name, char tag[AWS_DRIVER]);

/* cloud_aws_quotas.c: the account's quotas of vCPUs, and what the offers may hold at once.  The
 * first one from this number on that an offer needs; UINT32_MAX: none. */
uint32_t cloud_aws_quotas_next(const struct aws_cloud *, uint32_t from);
void cloud_aws_quotas_ask(const struct aws_cloud *, char body[120]);
/* Warns if a quota is too low.  1: ask for the next; 0: the run can start; -1: it cannot, and why.
 */
int cloud_aws_quotas_take(struct aws_cloud *, const struct espl_http_reply *, char text[AWS_TEXT]);

/* cloud_aws_prices.c */
void cloud_aws_add_types(const struct aws_cloud *, struct aws_query *, int spot_only);
void cloud_aws_prices_ask(struct aws_cloud *);
void cloud_aws_prices_report(struct aws_cloud *, struct aws_offer *);
void cloud_aws_prices_reply(struct aws_cloud *, const struct espl_http_reply *);

/* cloud_aws.c: the time by EC2's clock, in UTC seconds. */
int64_t cloud_aws_utc(const struct aws_cloud *);
/* cloud_aws.c: sends, and frees the query; the service is "ec2", "sts", "ssm" or "servicequotas" */
espl_status cloud_aws_send(struct aws_cloud *, struct aws_query *, const char *service,
    uint64_t cookie);
/* Begins to read in pages (takes over the query), -1: it cannot; asks for the page after this one,
 * 0: there is none, -1: it cannot. */
int cloud_aws_pages(struct aws_cloud *, enum aws_request, struct aws_query *);
int cloud_aws_next(struct aws_cloud *, enum aws_request, const struct aws_element *document);
void cloud_aws_pages_end(struct aws_cloud *, enum aws_request);
void cloud_aws_warn(struct aws_cloud *, const char *text); /* once in a row */

/* cloud_aws_leases.c */
espl_status cloud_aws_acquire(void *self, const struct espl_acquire *const *, uint32_t count,
    struct espl_error *);
espl_status cloud_aws_release(void *self, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
espl_status cloud_aws_adopt(void *self, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
void cloud_aws_tick(struct aws_cloud *);
void cloud_aws_leases_reply(struct aws_cloud *, const struct espl_http_reply *);
void cloud_aws_leases_child(struct aws_cloud *, const struct espl_child *);
void cloud_aws_leases_priced(struct aws_cloud *, int fine); /* the prices came, or did not */
void cloud_aws_leases_free(struct aws_cloud *);
/* What a request for a machine of this offer says, but for its token, run and price. */
void cloud_aws_wish(const struct aws_cloud *, const struct aws_offer *, struct aws_wish *);
void cloud_aws_count_run(struct aws_cloud *);
struct aws_limits cloud_aws_limits(const struct aws_cloud *);
int cloud_aws_is_spot(const struct aws_cloud *, const struct aws_lease *);
void cloud_aws_report(const struct aws_cloud *, struct aws_lease *, espl_node_state);
void cloud_aws_tell_state(const struct aws_cloud *, struct aws_lease *);
void cloud_aws_do(struct aws_cloud *, struct aws_lease *); /* what is due; may free it */

/* cloud_aws_listing.c */
void cloud_aws_list(struct aws_cloud *);
void cloud_aws_list_spots(struct aws_cloud *);
void cloud_aws_listing_reply(struct aws_cloud *, const struct espl_http_reply *);
void cloud_aws_spots_reply(struct aws_cloud *, const struct espl_http_reply *);
void cloud_aws_owned_reply(struct aws_cloud *, const struct espl_http_reply *);
espl_status cloud_aws_owned(void *self, const char *run, uint64_t what, struct espl_error *);

/* cloud_aws.c */
espl_status cloud_aws_reach(void *self, const struct espl_lease *, struct espl_argv_sink *,
    struct espl_error *);
#endif
