/* cloud_ssh.h - the parts of the cloud `ssh`: hosts, and the words of commands. */
#ifndef CLOUD_SSH_H
#define CLOUD_SSH_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#include <espalier/util.h>

#include "../words.h"

#define SSH_TEXT 600                       /* of a message about a host */
#define SSH_ANSWER_MORE (20 * ESPL_SECOND) /* for a command, after the connection */

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

/* What a lease asks for while hosts are tried for it. */
struct ssh_wish {
	uint64_t lease; /* ESPL_NONE: none, the host is free */
	char token[65];
	uint64_t since; /* hosts tried at this turn or later have been tried for it */
	int in_use;     /* a host was found that another run uses */
};

/* A command that is under way on a host. */
enum ssh_command { SSH_IDLE = 0, SSH_PROBE, SSH_LOOK };

struct ssh_host {
	const struct espl_value *row; /* its options */
	uint32_t offer;               /* index of its offer */
	enum ssh_command command;
	int usable;    /* its probe succeeded, or it was adopted */
	int ready;     /* READY was told of its wish */
	uint64_t turn; /* when it was last tried for a lease */
	struct ssh_wish wish;
	char *devices;    /* ESPALIER_AGENT_DEVICES for its agent; NULL: not known */
	char address[64]; /* as its own sshd knows it; "" not known */
};

struct ssh_cloud {
	const struct espl_host *host;
	const struct espl_config *config;
	const struct espl_io *io;
	const struct espl_run *run;
	const struct espl_cloud_events *events; /* from start on */
	struct ssh_host *hosts;
	uint32_t count, offer_count;
	uint32_t asked, answered; /* probes of start */
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

/* cloud_ssh_commands.c */
/* The words of a command on a host.  NULL list: out of memory. */
struct cloud_words cloud_ssh_words_probe(const struct ssh_cloud *, const struct ssh_host *);
struct cloud_words cloud_ssh_words_look(const struct ssh_cloud *, const struct ssh_host *,
    const char *token);
struct cloud_words cloud_ssh_words_agent(const struct ssh_cloud *, const struct ssh_host *,
    const struct espl_lease *);

/* cloud_ssh_answer.c: what a command answered.  0, or -1 with the reason in plain words. */
int cloud_ssh_answer_probe(const struct ssh_cloud *, struct ssh_host *, const struct espl_child *,
    char text[SSH_TEXT]);
/* 1: another run uses the host, text names it. */
int cloud_ssh_answer_look(const struct ssh_cloud *, const struct ssh_host *,
    const struct espl_child *, char text[SSH_TEXT]);
#endif
