/* cloud_kubernetes.h - the parts of the cloud `kubernetes`: pods, leases, requests. */
#ifndef CLOUD_KUBERNETES_H
#define CLOUD_KUBERNETES_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#include <espalier/util.h>
#include <jansson.h>
#include <stdio.h>

#define KUBE_TEXT 600 /* of a message */
#define KUBE_NAME 256

enum {
	KUBE_OPT_IMAGE = 0,
	KUBE_OPT_TEMPLATE,
	KUBE_OPT_CONTEXT,
	KUBE_OPT_NAMESPACE,
	KUBE_OPT_KUBECTL,
	KUBE_OPT_GPUS,
	KUBE_OPT_TYPE,
	KUBE_OPT_RESOURCE,
	KUBE_OPT_CPUS,
	KUBE_OPT_MEMORY,
	KUBE_OPT_NODES,
	KUBE_OPT_PRICE,
	KUBE_OPT_TIME,
	KUBE_OPT_NOTICE,
	KUBE_OPT_GRACE,
	KUBE_OPT_WAIT,
	KUBE_OPT_START,
	KUBE_OPT_IDLE,
	KUBE_OPT_AGENT,
	KUBE_OPT_COUNT
};

/* ---- cloud_kubernetes_pod.c: pods as JSON; without any I/O ---- */

enum kube_state {
	KUBE_WAITING = 0, /* not scheduled, or its container is being started */
	KUBE_FULL,        /* the scheduler finds no node for it */
	KUBE_FAILING,     /* its container does not start; Kubernetes tries again */
	KUBE_UNFIT,       /* it cannot run on this node, but perhaps on another one */
	KUBE_REFUSED,     /* it can never run */
	KUBE_RUNNING,
	KUBE_LEAVING, /* it runs until ends_utc_s */
	KUBE_ENDED
};
struct kube_pod {
	char name[KUBE_NAME], uid[64], run[65], token[65], version[64];
	char address[64];
	char node[KUBE_NAME]; /* that it is, or was, on; "" none yet */
	int placed;           /* it has a node */
	char memory[64];      /* the limit of the container that trials run in; "" none */
	enum kube_state state;
	espl_reason reason;     /* KUBE_ENDED */
	char text[KUBE_TEXT];   /* why; KUBE_WAITING: what it waits for */
	int64_t ends_utc_s;     /* KUBE_LEAVING; -1: after its grace period from now on */
	int64_t deadline_utc_s; /* its activeDeadlineSeconds; 0 none */
	int64_t started_utc_s;  /* 0: not yet */
	int deleted;            /* it has a deletionTimestamp */
	int finished;           /* its phase is Succeeded or Failed: only the object is left */
	int rejected;           /* KUBE_ENDED: its node did not admit it, and nothing ran there */
	int vague;              /* KUBE_ENDED: text does not say why */
	int running;            /* the container that trials run in does */
	int unready;            /* not Ready: also if its node does not answer */
};
/* container: the name of that which trials run in; others end no pod. */
void cloud_kubernetes_pod_read(const json_t *object, const char *container, struct kube_pod *);

/* What is asked of a pod. */
struct kube_wish {
	const json_t *base; /* the user's template; NULL: none */
	const char *name, *run, *token;
	const char *image;    /* NULL: the template's */
	const char *resource; /* "" none */
	const char *cpus;     /* "" the template's */
	int64_t gpus, memory; /* of the resource; bytes, 0: the template's */
	int64_t time_s, grace_s, idle_s;
	const json_t *owner; /* an owner reference; NULL: none */
	const json_t *avoid; /* names of nodes; NULL: none */
};
/* To be released with json_decref; NULL: out of memory. */
json_t *cloud_kubernetes_pod_make(const struct kube_wish *);
/* The container in the template that trials run in: that called "espalier", or the first. */
const json_t *cloud_kubernetes_pod_container(const json_t *base);
/* The template; NULL: it is of no use, and why. */
json_t *cloud_kubernetes_pod_template(const void *bytes, size_t size, char text[KUBE_TEXT]);

/* What an answer that is no success says. */
enum kube_class {
	KUBE_LATER = 0, /* no answer, too many requests, or the server is in trouble: again */
	KUBE_EXPIRED,   /* 410: list again */
	KUBE_LOGIN,     /* the credentials are not accepted */
	KUBE_QUOTA,
	KUBE_RIGHT,  /* the user may not do this */
	KUBE_EXISTS, /* a pod of this name */
	KUBE_OTHER,  /* it is another one than was meant */
	KUBE_ABSENT, /* there is no such pod */
	KUBE_NEVER   /* refused for good */
};
enum kube_class cloud_kubernetes_pod_class(uint32_t code, const char *body, size_t size,
    char text[KUBE_TEXT]);

/* ---- the cloud ---- */

/* A request under way: the low bits of its cookie. The others are the serial number of a lease. */
enum kube_request {
	KUBE_ASK_CREATE = 0,
	KUBE_ASK_GET,
	KUBE_ASK_DELETE,
	KUBE_ASK_LIST,
	KUBE_ASK_WATCH,
	KUBE_ASK_OWNED,
	KUBE_ASK_PING,
	KUBE_ASK_RIGHT,
	KUBE_ASK_SELF,   /* the pod that this program runs in */
	KUBE_ASK_TRY,    /* a pod that is not created */
	KUBE_ASK_CONFIG, /* kubectl config view */
	KUBE_ASK_PROXY,  /* kubectl proxy */
	KUBE_ASK_TICK,
	KUBE_ASK_STARTED, /* is the proxy up? */
	KUBE_ASK_EVENTS   /* of a pod that waits */
};
#define KUBE_COOKIE(serial_, request_) ((serial_)*16 + (uint64_t)(request_))

/* What a pod waits for before trials can run in it. Each has a time limit. */
enum kube_stage {
	KUBE_STAGE_NEW = 0, /* the API server has not accepted it */
	KUBE_STAGE_QUEUED,  /* it has no node */
	KUBE_STAGE_STARTING /* it has one, and its container does not run yet */
};

struct kube_lease {
	struct kube_lease *next;
	uint64_t serial, lease;
	char token[65], run[65];
	char uid[64]; /* "" not known */
	char last_line[KUBE_TEXT];
	char cause[KUBE_TEXT]; /* why its end is near */
	int create;            /* to be created if it does not exist */
	int unsure;            /* a create without an answer: it may exist */
	int asking, creating;  /* create, get or delete is under way; a create is */
	int releasing;         /* the host wants its end */
	int over;              /* its end was reported, and its pod is still to be deleted */
	int deleting;          /* the server has accepted the deletion */
	int adopted;           /* it was READY before this program began: it has an address */
	int ready, noticed;    /* reported */
	int unready;           /* the pod was not Ready when it was last seen */
	int finished;          /* nothing runs in the pod any more */
	uint32_t tries;        /* that failed */
	espl_time again;       /* when the next request is due; ESPL_NEVER: none */
	json_t *avoid;         /* nodes that its pod must not be on; NULL: none */
	char node[KUBE_NAME];  /* that its pod is, or was, on; "" not known */
	enum kube_stage stage; /* until it is ready */
	espl_time since_stage; /* it is in it since */
	char waits[KUBE_TEXT]; /* what for, as the object of its pod says */
	char event[KUBE_TEXT]; /* the last one that Kubernetes has recorded about it; "" none */
	int told;              /* that it waits, in this stage */
	int looked;            /* its pod was asked for, before that follows */
	int asking_events;     /* such a request is under way */
	int scaling;           /* a node is being added for it */
	int late;              /* its time is over, and its last event is being asked for */
	espl_time ending;      /* its end is wanted since; ESPL_NEVER: it is not */
	uint32_t warnings;     /* that it has not ended */
	espl_time failing;     /* its container does not start since */
	espl_time deleted;     /* the pod is being deleted since */
	espl_time gone;        /* the pod must be gone by then; ESPL_NEVER: not deleted */
	espl_time doubt;       /* a create without an answer may take effect until then; or 0 */
	int64_t deadline_utc_s;
	uint64_t since; /* lists begun before this one do not know it */
};

/* A list comes in pages. */
struct kube_pages {
	json_t *items; /* of the pages that have come; NULL: none has */
	char *next;    /* the token of the next page; NULL: from the beginning */
};

struct kube_cloud {
	const struct espl_host *host;
	const struct espl_config *config;
	const struct espl_io *io;
	const struct espl_cloud_events *events; /* from start on */
	int in_run;                             /* not in `check` or `nodes` */
	json_t *base;                           /* the template, or NULL */
	char container[KUBE_NAME];
	char *context, *namespace; /* "" in a pod; known after start */
	int in_pod;                /* the service account of this pod is used */
	json_t *owner;             /* what owns this pod, and should own others; NULL: nothing */
	char folder[64];           /* of the proxy's socket; "" none */
	char socket[80];
	int proxying;              /* the proxy is being run */
	char proxy_end[KUBE_TEXT]; /* what the last one wrote at its end */
	espl_time renewed;         /* when it was started */
	uint32_t late;             /* answers in a row that did not come in time */
	int started;               /* done(0) was called */
	espl_time begun;
	uint32_t tries;   /* of the start */
	uint32_t rights;  /* answers that are still missing */
	uint32_t missing; /* a bit for each right */
	struct kube_lease *leases;
	uint64_t serial;
	int ticking;
	char run[65];     /* the run that is watched; "" none yet */
	char version[64]; /* that the watch begins at; "" list first */
	uint64_t lists;   /* begun */
	struct kube_pages pages;
	int watching; /* a list or a watch is under way */
	int answered; /* it has sent an event */
	espl_time watch_begun;
	uint32_t troubles;
	espl_time watch_at;
	espl_time silent;      /* since when requests fail; ESPL_NEVER: the server answers */
	int silence_reported;  /* 1: it was printed; 2: also that the credentials are to blame */
	char lacks[KUBE_TEXT]; /* the missing right that was reported last */
	int without;           /* the next pod is made without avoiding nodes: no other was found */
	espl_span skew;        /* the server's clock is ahead by this */
	uint64_t owned_what;   /* ESPL_NONE: not asked */
	char owned_run[65];
	int owned_asking;
	uint32_t owned_tries;
	espl_time owned_at, owned_until; /* when to ask; when to give up */
	struct kube_pages owned_pages;
};

static inline int
kube_is_set(const struct kube_cloud *cloud, uint32_t option)
{
	return cloud->config->values[option].source != ESPL_UNSET;
}
static inline int64_t
kube_number(const struct kube_cloud *cloud, uint32_t option)
{
	return cloud->config->values[option].as.i;
}
static inline const char *
kube_text(const struct kube_cloud *cloud, uint32_t option)
{
	return kube_is_set(cloud, option) ? cloud->config->values[option].as.s : "";
}
static inline void
kube_offer_name(const struct kube_cloud *cloud, char name[80])
{
	(void)snprintf(name, 80, "%ux%.50s", (unsigned)kube_number(cloud, KUBE_OPT_GPUS),
	    kube_text(cloud, KUBE_OPT_TYPE));
}
static inline espl_time
kube_now(const struct kube_cloud *cloud)
{
	return cloud->host->now(cloud->host);
}
/* By the server's clock, ns. */
static inline int64_t
kube_utc(const struct kube_cloud *cloud)
{
	return cloud->io->utc_ns(cloud->io) + cloud->skew;
}
espl_status cloud_kubernetes_describe(void *, const struct espl_cloud_events *,
    struct espl_error *);

/* ---- cloud_kubernetes_proxy.c: the proxy, requests through it, and how they fare ---- */

/* NULL: it has begun; else why not. */
const char *cloud_kubernetes_proxy_open(struct kube_cloud *);
espl_status cloud_kubernetes_proxy_run(const struct kube_cloud *, const char *const *words,
    uint32_t count, uint64_t cookie, espl_span limit);
void cloud_kubernetes_proxy_ended(struct kube_cloud *, const struct espl_child *);
/* Starts another one, which reads the credentials again. */
void cloud_kubernetes_proxy_renew(struct kube_cloud *);
void cloud_kubernetes_proxy_close(struct kube_cloud *);
/* Takes over the body, which may be NULL. The path begins with '/'. */
espl_status cloud_kubernetes_proxy_ask(struct kube_cloud *, const char *method, const char *path,
    json_t *body, uint64_t cookie);
/* Every reply, before it is acted on: is the proxy alive, and which time is it there? */
void cloud_kubernetes_proxy_note(struct kube_cloud *, const struct espl_http_reply *);
/* After a request that failed: the class of the error, its text, and how long to wait. */
enum kube_class cloud_kubernetes_proxy_failure(struct kube_cloud *, const struct espl_http_reply *,
    char text[KUBE_TEXT]);
espl_span cloud_kubernetes_proxy_pause(struct kube_cloud *, uint32_t tries,
    const struct espl_http_reply *);
/* The last line, printable. */
void cloud_kubernetes_proxy_last(char to[KUBE_TEXT], const char *text);

/* ---- cloud_kubernetes_start.c: who we are, what is allowed, and whether a pod would do ---- */

espl_status cloud_kubernetes_start(void *, const struct espl_cloud_events *, struct espl_error *);
void cloud_kubernetes_start_child(void *, const struct espl_child *);
void cloud_kubernetes_start_answer(struct kube_cloud *, const struct espl_http_reply *);
void cloud_kubernetes_start_timer(struct kube_cloud *);

/* ---- cloud_kubernetes_watch.c: one list and one watch for all pods of the run ---- */

void cloud_kubernetes_watch_look(struct kube_cloud *); /* lists or watches if it is time */
void cloud_kubernetes_watch_answer(struct kube_cloud *, const struct espl_http_reply *);
/* Adds a page: 1: all have come; 0: another one is to be asked for; -1: this is not a page. */
int cloud_kubernetes_watch_page(struct kube_pages *, const struct espl_http_reply *);
void cloud_kubernetes_watch_forget(struct kube_pages *);
/* The path of the pods of a run, or of all ("") runs, from the next page on; for free(). */
char *cloud_kubernetes_watch_path(const struct kube_cloud *, const char *run,
    const struct kube_pages *);

/* ---- cloud_kubernetes_owned.c: the pods of all runs ---- */

espl_status cloud_kubernetes_owned(void *, const char *run, uint64_t what, struct espl_error *);
void cloud_kubernetes_owned_answer(struct kube_cloud *, const struct espl_http_reply *);
void cloud_kubernetes_owned_look(struct kube_cloud *); /* asks if it is time */

/* ---- cloud_kubernetes_leases.c: from acquire or adopt to the end of a lease ---- */

espl_status cloud_kubernetes_leases_acquire(void *, const struct espl_acquire *const *,
    uint32_t count, struct espl_error *);
espl_status cloud_kubernetes_leases_adopt(void *, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
void cloud_kubernetes_leases_answer(struct kube_cloud *, const struct espl_http_reply *);
void cloud_kubernetes_leases_timer(void *, uint64_t cookie);
/* State of one of the run's pods; gone: it no longer exists. */
void cloud_kubernetes_leases_pod(struct kube_cloud *, const struct kube_pod *, int gone);
/* These are all pods of the run, as list number `number` found them. */
void cloud_kubernetes_leases_all(struct kube_cloud *, const json_t *items, uint64_t number);
/* A pod as this cloud makes them; avoid NULL: on any node. NULL: out of memory. */
json_t *cloud_kubernetes_leases_body(const struct kube_cloud *, const char *token, const char *run,
    const json_t *avoid);

/* ---- cloud_kubernetes_wait.c: how long a pod may wait, and what is said of it ---- */

/* Its pod is in this stage now, and waits for that. */
void cloud_kubernetes_wait_note(struct kube_cloud *, struct kube_lease *, enum kube_stage,
    const char *text);
/* Says that it waits, or gives it up, when it is time. */
void cloud_kubernetes_wait_check(struct kube_cloud *, struct kube_lease *);
/* The events of its pod. */
void cloud_kubernetes_wait_answer(struct kube_cloud *, struct kube_lease *,
    const struct espl_http_reply *);
/* What the newest event of a list says, and whether a node is being added for the pod. */
void cloud_kubernetes_wait_read(const json_t *list, char text[KUBE_TEXT], int *scaling);

/* ---- cloud_kubernetes_ends.c: until the pod of a lease is certainly gone ---- */

espl_status cloud_kubernetes_ends_release(void *, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
struct kube_lease *cloud_kubernetes_ends_find(const struct kube_cloud *, const char *token);
/* NULL: out of memory. */
struct kube_lease *cloud_kubernetes_ends_add(struct kube_cloud *, uint64_t number,
    const char *token);
void cloud_kubernetes_ends_tick(struct kube_cloud *); /* the next tick, if there is a need */
void cloud_kubernetes_ends_report(const struct kube_cloud *, const struct kube_lease *,
    espl_node_state, espl_reason, const char *address, espl_time ends_at, const char *text);
void cloud_kubernetes_ends_ask(struct kube_cloud *, struct kube_lease *, const char *method,
    json_t *body, enum kube_request);
/* Reports the end of the lease. Its pod is deleted, until it is gone for certain. */
void cloud_kubernetes_ends_drop(struct kube_cloud *, struct kube_lease *, espl_reason,
    const char *text);
/* The pod does not exist: the end of the lease, which may be freed. */
void cloud_kubernetes_ends_gone(struct kube_cloud *, struct kube_lease *, espl_reason,
    const char *text);
/* The next step to the end of its pod. */
void cloud_kubernetes_ends_step(struct kube_cloud *, struct kube_lease *);
/* The pod of a lease that ends, or has ended, still exists. */
void cloud_kubernetes_ends_seen(struct kube_cloud *, struct kube_lease *, const struct kube_pod *);
/* Warns, again and again, of a pod that does not end. */
void cloud_kubernetes_ends_check(struct kube_cloud *, struct kube_lease *);
/* The server has accepted the deletion. */
void cloud_kubernetes_ends_accepted(struct kube_cloud *, struct kube_lease *);
/* How many ended leases have a pod. */
uint32_t cloud_kubernetes_ends_left(const struct kube_cloud *);
#endif
