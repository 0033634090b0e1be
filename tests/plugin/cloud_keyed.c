/* cloud_keyed.c - a cloud that needs a secret, as providers with an HTTP API do: its machines are
 * files in a directory, and it refuses every request without the right key.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <espalier/cloud.h>
#include <espalier/util.h>

#define RIGHT "open sesame"

enum { KEY, FOLDER };
static const struct espl_option options[] = {
	{ .name = "key",
	    .help = "API key",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED | ESPL_OPT_SECRET },
	{ .name = "folder",
	    .help = "directory that stands for the provider",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
};

struct keyed {
	const char *key, *folder;
	const struct espl_cloud_events *events;
};

static void
make_path(const struct keyed *keyed, const char *token, char to[600])
{
	(void)snprintf(to, 600, "%s/%s", keyed->folder, token);
}

static void
report_state(const struct keyed *keyed, uint64_t lease, const char *token, const char *run,
    espl_node_state state)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	event.state = state;
	event.lease = lease;
	event.token = event.provider_id = token;
	event.run = run;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	if (state == ESPL_NODE_ENDED)
		event.reason = ESPL_BY_USER;
	(void)keyed->events->node(keyed->events, &event);
}

static espl_status
describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct espl_offer offer = ESPL_INIT(struct espl_offer);

	(void)self;
	(void)error;
	offer.name = "box";
	offer.market = "on-demand";
	offer.gpu_type = "cpu";
	offer.gpus = 2;
	offer.price_hour = 1000000;
	offer.nodes_max = 1;
	return events->offer(events, &offer);
}

static espl_status
start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct keyed *keyed = self;

	keyed->events = events;
	if (describe(self, events, error) != ESPL_OK)
		return ESPL_E_BUG;
	if (strcmp(keyed->key, RIGHT) == 0)
		events->done(events, 0, ESPL_OK, "");
	else
		events->done(events, 0, ESPL_E_CONFIG, "the provider does not accept the key");
	return ESPL_OK;
}

static espl_status
acquire(void *self, const struct espl_acquire *const *wanted, uint32_t count,
    struct espl_error *error)
{
	struct keyed *keyed = self;
	char path[600];

	for (uint32_t i = 0; i < count; i++) {
		FILE *file;

		make_path(keyed, wanted[i]->token, path);
		file = fopen(path, "w");
		if (file == NULL)
			return espl_fail(error, ESPL_E_REMOTE, "cannot make '%s'", path);
		fputs(wanted[i]->run, file);
		(void)fclose(file);
		report_state(keyed, wanted[i]->lease, wanted[i]->token, NULL, ESPL_NODE_READY);
	}
	return ESPL_OK;
}

static espl_status
release(void *self, const struct espl_lease *const *leases, uint32_t count,
    struct espl_error *error)
{
	struct keyed *keyed = self;
	char path[600];

	(void)error;
	for (uint32_t i = 0; i < count; i++) {
		make_path(keyed, leases[i]->token, path);
		(void)unlink(path);
		report_state(keyed, leases[i]->lease, leases[i]->token, NULL, ESPL_NODE_ENDED);
	}
	return ESPL_OK;
}

static espl_status
adopt(void *self, const struct espl_lease *const *leases, uint32_t count, struct espl_error *error)
{
	struct keyed *keyed = self;
	char path[600];

	(void)error;
	for (uint32_t i = 0; i < count; i++) {
		make_path(keyed, leases[i]->token, path);
		report_state(keyed, leases[i]->lease, leases[i]->token, NULL,
		    access(path, F_OK) == 0 ? ESPL_NODE_READY : ESPL_NODE_ENDED);
	}
	return ESPL_OK;
}

static espl_status
owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct keyed *keyed = self;
	DIR *list = opendir(keyed->folder);
	const struct dirent *entry;

	if (list == NULL)
		return espl_fail(error, ESPL_E_REMOTE, "cannot open '%s'", keyed->folder);
	while ((entry = readdir(list)) != NULL) {
		char path[600], label[100] = "";
		FILE *file;

		make_path(keyed, entry->d_name, path);
		file = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
		if (file == NULL)
			continue;
		if (fgets(label, sizeof label, file) != NULL &&
		    (run == NULL || strcmp(run, label) == 0))
			report_state(keyed, ESPL_NONE, entry->d_name, label, ESPL_NODE_READY);
		(void)fclose(file);
	}
	(void)closedir(list);
	keyed->events->done(keyed->events, what, ESPL_OK, "");
	return ESPL_OK;
}

static espl_status
reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)lease;
	(void)error;
	return sink->argv(sink, NULL, 0);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct keyed *keyed = calloc(1, sizeof *keyed);

	(void)host;
	if (keyed == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	keyed->key = config->values[KEY].as.s;
	keyed->folder = config->values[FOLDER].as.s;
	*self = keyed;
	return ESPL_OK;
}

static void
destroy(void *self)
{
	free(self);
}

static const struct espl_cloud_ops ops = { ESPL_TABLE(struct espl_cloud_ops), .start = start,
	.acquire = acquire, .release = release, .adopt = adopt, .owned = owned, .reach = reach,
	.describe = describe };

ESPL_PLUGIN(cloud, keyed) = { ESPL_HEAD(ESPL_CLOUD, "keyed"), .version = "0.1",
	.summary = "a cloud that needs a secret", .caps = ESPL_NEED_IO, ESPL_OPTIONS(options),
	.ops = &ops.head, .create = create, .destroy = destroy };
