/* cloud_command.h - the parts of the cloud `command`: machines, and the user's three commands. */
#ifndef CLOUD_COMMAND_H
#define CLOUD_COMMAND_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#include <espalier/kit/leases.h>
#include <espalier/util.h>
#include <jansson.h>

#define COMMAND_TEXT 600 /* of a message */

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

/* Cookies up to COMMAND_MACHINES; the others are that and the serial number of a lease. */
enum { COMMAND_START = 1, COMMAND_LIST, COMMAND_OWNED, COMMAND_POLL, COMMAND_MACHINES };

struct command_machine {
	struct espl_leased lease; /* first */
	uint32_t offer;           /* row of the table; ESPL_ANY: none of that name */
	espl_money max_price_hour;
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
	struct espl_leases leases;
	struct espl_lease_rules rules;
	char *run;           /* as the host named it at the last acquire; NULL: not yet */
	json_t *known;       /* the machines of the last list */
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
void cloud_command_leases_begin(struct command_cloud *);
void cloud_command_leases_child(struct command_cloud *, const struct espl_child *);
/* The machines of a list. */
void cloud_command_leases_listed(struct command_cloud *);
void cloud_command_leases_due(struct command_cloud *);
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
espl_status cloud_command_list(const struct command_cloud *, const char *run, uint64_t cookie);
/* Once in a row. */
void cloud_command_warn(struct command_cloud *, const char *text);
#endif
