/* cloud_ssh.h - the parts of the cloud `ssh`: hosts, and the words of commands. */
#ifndef CLOUD_SSH_H
#define CLOUD_SSH_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#include <espalier/kit/leases.h>
#include <espalier/util.h>
#include <stdio.h>

#include "../words.h"

#define SSH_TEXT 600                       /* of a message about a host */
#define SSH_ANSWER_MORE (20 * ESPL_SECOND) /* for a command, after the connection */
#define SSH_TRIES 5u                       /* of a command whose connection is closed */
/* Cookies of timers; those of commands are hosts. */
#define SSH_TIMER UINT64_MAX
#define SSH_LEASE_TIMER (UINT64_MAX - 1)

enum {
	SSH_OPT_HOSTS = 0,
	SSH_OPT_SSH,
	SSH_OPT_LIMIT,
	SSH_OPT_AGENT,
	SSH_OPT_MINIMUM,
	SSH_OPT_COUNT
};
enum {
	SSH_COL_NAME = 0,
	SSH_COL_ADDRESS,
	SSH_COL_USER,
	SSH_COL_PORT,
	SSH_COL_KEY,
	SSH_COL_GPUS,
	SSH_COL_TYPE,
	SSH_COL_MEMORY,
	SSH_COL_PRICE,
	SSH_COL_COUNT
};

/* A lease, for which hosts are tried until one is free. */
struct ssh_lease {
	struct espl_leased lease; /* first */
	uint32_t offer;
	struct ssh_host *host;   /* that is tried, or leased; NULL: none */
	uint64_t since;          /* hosts tried at this turn or later have been tried for it */
	int in_use;              /* a host was found that another run uses */
	struct ssh_host *passed; /* the last that was of no use; NULL: none */
	char why[SSH_TEXT];
};

/* A command on a host, or (WAY) on this machine: what its connections pass through. */
enum ssh_command { SSH_IDLE = 0, SSH_WAY, SSH_PROBE, SSH_LOOK, SSH_ROUTE };

/* What a failed command says of its host. */
enum ssh_failure {
	SSH_CLOSED = 1, /* its sshd, or one on the way, took no more connections: ask again soon */
	SSH_SILENT,     /* it cannot be reached now: it may be off, or starting */
	SSH_UNFIT       /* it was reached, or will never be: somebody must do something */
};

struct ssh_host {
	const struct espl_value *row; /* its options */
	uint32_t offer;               /* index of its offer */
	enum ssh_command command;     /* under way */
	enum ssh_command wanted;      /* to be started when `due`, and when there is room */
	espl_time due;
	int usable;               /* its last probe succeeded */
	enum ssh_failure failure; /* of its last command; 0 none */
	uint32_t failures;        /* of this command in a row */
	enum ssh_failure told;    /* the failure that the user was told of; 0 none */
	int asked_way, asked_route;
	uint32_t route_to;       /* the host that it tries to reach, or tried last */
	char way[120];           /* the jump hosts of its connections; "" none */
	int avoided;             /* the executor knows that it failed, as of the last request */
	uint64_t turn;           /* when it was last tried for a lease */
	struct ssh_lease *lease; /* that it is tried for, or is leased to; NULL: it is free */
	char *devices;           /* ESPALIER_AGENT_DEVICES for its agent; NULL: not known */
	char address[64];        /* as its own sshd knows it; "" not known */
	char lock[300];          /* the machine and the file of its lock; "" not known */
	char lockless[120];      /* why the host is not locked; "" if it is */
};

struct ssh_cloud {
	const struct espl_host *host;
	const struct espl_config *config;
	const struct espl_io *io;
	const struct espl_run *run;
	const struct espl_cloud_events *events; /* from start on */
	struct espl_leases leases;              /* of ssh_lease */
	struct ssh_host *hosts;
	uint32_t count, offer_count;
	int started;        /* its start has been answered */
	uint32_t door;      /* 1 + the host that the others are to reach; 0: not tried */
	espl_time began;    /* when it was asked to start */
	espl_time timer_at; /* when the timer wakes us; ESPL_NEVER: there is none */
	uint64_t turn;
	char folder[120];         /* private, for the sockets of shared connections; "" none */
	char why[SSH_TEXT + 120]; /* the last host that failed its probe */
};

static inline const char *
ssh_name(const struct ssh_host *host)
{
	return host->row[SSH_COL_NAME].as.s;
}
static inline const char *
ssh_address(const struct ssh_host *host)
{
	const struct espl_value *address = &host->row[SSH_COL_ADDRESS];

	return address->source != ESPL_UNSET ? address->as.s : ssh_name(host);
}
static inline uint32_t
ssh_gpus(const struct ssh_host *host)
{
	return (uint32_t)host->row[SSH_COL_GPUS].as.i;
}

static inline int
ssh_is_leased(const struct ssh_host *host)
{
	return host->lease != NULL && host->lease->lease.stage == ESPL_STAGE_READY;
}

/* A line about a host. */
static inline void
ssh_tell(const struct ssh_cloud *cloud, espl_level level, const struct ssh_host *host,
    const char *text)
{
	char line[SSH_TEXT + 200];

	(void)snprintf(line, sizeof line, "host '%.80s': %s", ssh_name(host), text);
	cloud->host->log(cloud->host, level, line);
}

/* ---- cloud_ssh_commands.c: the words of a command on a host; NULL list: out of memory ---- */

struct cloud_words cloud_ssh_words_way(const struct ssh_cloud *, const struct ssh_host *);
struct cloud_words cloud_ssh_words_probe(const struct ssh_cloud *, const struct ssh_host *);
struct cloud_words cloud_ssh_words_look(const struct ssh_cloud *, const struct ssh_host *,
    const char *token);
/* Does it reach the other one? */
struct cloud_words cloud_ssh_words_route(const struct ssh_cloud *, const struct ssh_host *,
    const struct ssh_host *other);
struct cloud_words cloud_ssh_words_agent(const struct ssh_cloud *, const struct ssh_host *,
    const struct espl_lease *);

/* ---- cloud_ssh_answer.c: what a command answered ---- */

void cloud_ssh_answer_way(struct ssh_host *, const struct espl_child *);
/* 0, or what its failure says of the host, with the reason in plain words. */
enum ssh_failure cloud_ssh_answer_probe(const struct ssh_cloud *, struct ssh_host *,
    const struct espl_child *, char text[SSH_TEXT]);
/* 0: it reaches the other one, or that cannot be known; else why not. */
int cloud_ssh_answer_route(const struct espl_child *, char text[SSH_TEXT]);
/* As for a probe; *used: another run uses the host, and the text names it. */
enum ssh_failure cloud_ssh_answer_look(const struct ssh_cloud *, const struct ssh_host *,
    const struct espl_child *, int *used, char text[SSH_TEXT]);

/* ---- cloud_ssh_offers.c ---- */

void cloud_ssh_offers_number(struct ssh_cloud *);
/* The offer of this name; ESPL_ANY: there is none. */
uint32_t cloud_ssh_offers_find(const struct ssh_cloud *, const char *name);
/* Reports one offer, or all (ESPL_ANY).  usable_only: hosts that failed their probe do not count,
 * and an offer without any is withdrawn. */
espl_status cloud_ssh_offers_report(const struct ssh_cloud *, const struct espl_cloud_events *,
    uint32_t which, int usable_only);

/* ---- cloud_ssh_try.c: commands on hosts, and when ---- */

/* Tries every host; the start is answered when it is known which of them can be used. */
void cloud_ssh_try_begin(struct ssh_cloud *);
/* Has a command run on a host, `after` from now and when there is room. */
void cloud_ssh_try_want(struct ssh_cloud *, struct ssh_host *, enum ssh_command, espl_span after);
void cloud_ssh_try_forget(struct ssh_cloud *, struct ssh_host *);
/* Starts what is due.  Returns a host that was to be looked at but cannot, or NULL. */
struct ssh_host *cloud_ssh_try_due(struct ssh_cloud *);
/* An answer to WAY, PROBE or ROUTE. */
void cloud_ssh_try_child(struct ssh_cloud *, struct ssh_host *, enum ssh_command,
    const struct espl_child *);
/* The pause after the failure of a host. */
espl_span cloud_ssh_try_pause(const struct ssh_cloud *, const struct ssh_host *);
#endif
