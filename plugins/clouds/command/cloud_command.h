/* cloud_command.h - the parts of the cloud `command`: machines, and the user's three commands. */
#ifndef CLOUD_COMMAND_H
#define CLOUD_COMMAND_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#include <espalier/util.h>
#include <jansson.h>

#define COMMAND_TEXT 600   /* of a message */
#define COMMAND_MISSING 2u /* lists in a row without a machine: it is gone */
#define COMMAND_WATCHED 3u /* lists in which the machine of a failed acquire may yet appear */
#define COMMAND_TOKEN_SIZE 65u

enum {
	COMMAND_OPT_ACQUIRE = 0,
	COMMAND_OPT_RELEASE,
	COMMAND_OPT_LIST,
	COMMAND_OPT_REACH,
	COMMAND_OPT_OFFERS,
	COMMAND_OPT_LIMIT,
	COMMAND_OPT_POLL,
	COMMAND_OPT_COUNT
};
enum {
	COMMAND_COL_NAME = 0,
	COMMAND_COL_GPUS,
	COMMAND_COL_TYPE,
	COMMAND_COL_CPUS,
	COMMAND_COL_MEMORY,
	COMMAND_COL_PRICE,
	COMMAND_COL_MARKET,
	COMMAND_COL_NODES,
	COMMAND_COL_BOOT,
	COMMAND_COL_MINIMUM,
	COMMAND_COL_STEP,
	COMMAND_COL_COUNT
};

/* Cookies below COMMAND_MACHINES; the others are serial numbers of machines. */
enum { COMMAND_START = 1, COMMAND_LIST, COMMAND_OWNED, COMMAND_POLL, COMMAND_MACHINES };

/* The command that is under way for a machine. */
enum command_job { COMMAND_IDLE = 0, COMMAND_ACQUIRE, COMMAND_RELEASE };

struct command_machine {
	struct command_machine *next;
	uint64_t serial; /* the cookie of its commands */
	uint64_t lease;
	char token[COMMAND_TOKEN_SIZE];
	char *id, *address; /* NULL: not known */
	uint32_t offer;     /* row of the table; ESPL_ANY: none of that name */
	espl_money max_price_hour;
	espl_node_state reported;
	enum command_job job;
	int unsure;             /* its acquire may have worked: the next list decides */
	int claimed;            /* what its id is a file of the run says, and no list yet */
	int releasing;          /* the host wants it released */
	int at_risk;            /* told */
	int over;               /* ENDED was told, but its machine may yet appear */
	uint32_t lists;         /* in a row without it */
	uint64_t since;         /* the first list that must show it */
	espl_span retry_after;  /* of its failed acquire; 0: the provider did not say */
	char why[COMMAND_TEXT]; /* its acquire failed */
};

struct command_offer {
	const struct espl_value *row;
};

struct command_cloud {
	const struct espl_host *host;
	const struct espl_config *config;
	const struct espl_io *io;
	const struct espl_cloud_events *events; /* from start on */
	struct command_offer *offers;
	uint32_t offer_count;
	struct command_machine *machines;
	uint64_t serial, list_number;
	char *run;     /* as the host named it at the last acquire; NULL: not yet */
	json_t *known; /* the machines of the last list */
	int listing, list_again, timing;
	uint64_t owned_what; /* NONE: not asked */
	char warned[COMMAND_TEXT];
};

static inline const struct espl_table *
command_table(const struct command_cloud *cloud, uint32_t option)
{
	const struct espl_value *value = &cloud->config->values[option];

	return value->source != ESPL_UNSET ? value->as.table : NULL;
}

/* cloud_command_leases.c */
espl_status cloud_command_acquire(void *self, const struct espl_acquire *const *, uint32_t count,
    struct espl_error *);
espl_status cloud_command_release(void *self, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
espl_status cloud_command_adopt(void *self, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
void cloud_command_leases_child(struct command_cloud *, const struct espl_child *);
/* What a list says of the machines that are leased. */
void cloud_command_leases_listed(struct command_cloud *);
void cloud_command_leases_free(struct command_cloud *);
uint32_t cloud_command_offer(const struct command_cloud *, const char *name, const char *market);

/* cloud_command_argv.c: the commands, what they get, and what they answer */
/* Takes over input. */
espl_status cloud_command_spawn(const struct command_cloud *, uint32_t option, json_t *input,
    uint64_t cookie);
/* What the command printed: an object, to be released with json_decref.  NULL: the reason in plain
 * words. */
json_t *cloud_command_answer(const struct command_cloud *, uint32_t option,
    const struct espl_child *, char text[COMMAND_TEXT]);
const char *cloud_command_string(const json_t *, const char *key); /* NULL: there is none */
espl_money cloud_command_money(const json_t *, const char *key);   /* -1: there is none */
const json_t *cloud_command_find(const json_t *machines, const char *token);
espl_status cloud_command_reach(void *self, const struct espl_lease *, struct espl_argv_sink *,
    struct espl_error *);

/* cloud_command.c */
void cloud_command_list(struct command_cloud *); /* soon: one at a time */
void cloud_command_watch(struct command_cloud *);
/* Once in a row. */
void cloud_command_warn(struct command_cloud *, const char *text);
#endif
