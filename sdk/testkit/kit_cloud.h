/* kit_cloud.h - the part of a kit for clouds: their leases, and what they request.
 */
#ifndef ESPALIER_KIT_CLOUD_H
#define ESPALIER_KIT_CLOUD_H
#include "kit.h"

enum kit_request_kind { KIT_TIMER, KIT_HTTP, KIT_CHILD };
struct kit_request {
	enum kit_request_kind kind;
	int lost;        /* its answer does not arrive */
	espl_time at;    /* when it is answered */
	espl_time until; /* its limit */
	struct espl_http http;
	struct espl_spawn spawn;
	uint64_t cookie;
};
struct kit_lease {
	struct espl_lease pub; /* as the host remembers it */
	uint32_t offer;
	espl_reason reason;
	espl_money charged;
	espl_span retry_after;
	espl_time ends_at, ready_at, release_at, ended_at;
	uint32_t releases; /* times that release was called; 0: not yet */
	uint32_t machines; /* different ids that were reported for it */
	uint32_t reports;  /* events of it, apart from answers of `owned` */
	int listed;        /* by the last answer of `owned` */
	int asked;         /* of this instance */
};
/* A machine of the run that `owned` listed and the kit does not know, to be released by token. */
#define KIT_STRAYS UINT64_C(1000000) /* their numbers as leases begin here */
struct kit_stray {
	const char *token, *id;
	int ended;
};

#define KIT_FAULTS 4u

struct kit_cloud {
	struct espl_io io;
	struct espl_cloud_events events;
	const struct espl_kit_provider *provider;
	const char *run; /* name of the run */

	struct kit_request *requests;
	uint64_t asked;               /* HTTP and children, ever */
	uint32_t request_count, sent; /* sent: HTTP and children, since the fault was set */
	struct kit_fault {
		uint32_t at; /* 0: none */
		espl_kit_fault kind;
	} faults[KIT_FAULTS];
	uint32_t fault_count;
	int struck; /* a fault has occurred */
	int dead;   /* the driver was killed, while the entry is still running */

	struct kit_lease **leases;
	uint32_t lease_count;
	struct kit_stray *strays;
	uint32_t stray_count;

	int describing, starting, owning; /* which answers may come now */
	const char *owned_run;
	uint64_t request;                /* of the last `owned` */
	int done, up, resuming, resumes; /* resumes: in a row that failed */
	uint32_t restarts;
	espl_status done_status;
	char done_text[240];
};

/* Prepares ESPL_IO and the events for a plugin that is about to be created; forgets all leases. */
void espl__kit_cloud_open(struct espl_kit *);
/* Drops all requests, because the instance is gone. */
void espl__kit_cloud_forget(struct espl_kit *);
/* Answers the first request that is due no later than `until`, by calling the plugin's entry.  0:
 * none is due. */
int espl__kit_cloud_answer(struct espl_kit *, espl_time until);
/* Lets the next thing happen that is due no later than `until`; 0: there is none. */
int espl__kit_cloud_step(struct espl_kit *, espl_time until);
void espl__kit_cloud_io(struct espl_kit *);
struct kit_cloud *espl__kit_cloud(struct espl_kit *); /* stops the test if there is none */
struct kit_lease *espl__kit_lease(struct espl_kit *, uint64_t lease);
const struct espl_cloud_ops *espl__kit_cloud_ops(struct espl_kit *, struct espl_error *);
/* Calls adopt, or acquire with the same token, for all leases that this instance does not know. */
void espl__kit_cloud_ask(struct espl_kit *);
/* Releases a machine that `owned` listed, or one that never was. */
void espl__kit_add_stray(struct espl_kit *, const char *token, const char *id);
void espl__kit_release_stray(struct espl_kit *, uint32_t stray);
#endif
