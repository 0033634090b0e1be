/* fake_host.c - the kit's host table: clock, random stream, services, files, log; and loading.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include "kit_cloud.h"

void
espl__kit_stop(const char *what)
{
	(void)fprintf(stderr, "espalier-testkit: %s\n", what);
	abort();
}

void *
espl__kit_alloc(struct espl_kit *kit, size_t size)
{
	struct kit_block *block = calloc(1, sizeof *block + size);

	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	if (block == NULL)
		espl__kit_stop("out of memory");
	block->next = kit->blocks;
	kit->blocks = block;
	return block + 1;
}

char *
espl__kit_text(struct espl_kit *kit, const char *text, size_t length)
{
	char *copy = espl__kit_alloc(kit, length + 1);

	memcpy(copy, text, length);
	return copy;
}

/* Grows in powers of two: the array is copied only when count is one. */
void *
espl__kit_more(struct espl_kit *kit, const void *at, uint64_t count, size_t size)
{
	void *copy;

	if (count > 0 && (count & (count - 1)) != 0)
		return (void *)(uintptr_t)at;
	copy = espl__kit_alloc(kit, (size_t)(count > 0 ? count * 2 : 1) * size);
	if (count > 0)
		memcpy(copy, at, (size_t)count * size);
	return copy;
}

/* ---- the log ----------------------------------------------------------------------------- */

static void
append_log(struct espl_kit *kit, const char *text, size_t length)
{
	if (kit->log_used + length + 1 > kit->log_room) {
		size_t room = (kit->log_used + length + 1) * 2;
		char *log = realloc(kit->log, room);

		if (log == NULL)
			espl__kit_stop("out of memory");
		kit->log = log;
		kit->log_room = room;
	}
	memcpy(kit->log + kit->log_used, text, length);
	kit->log_used += length;
	kit->log[kit->log_used] = '\0';
}

static void ESPL_PRINTF(2, 0) append_list(struct espl_kit *kit, const char *format, va_list list)
{
	char text[1024];
	int length = vsnprintf(text, sizeof text, format, list);

	if (length < 0)
		espl__kit_stop("a message cannot be formatted");
	append_log(kit, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

void
espl__kit_print(struct espl_kit *kit, const char *format, ...)
{
	va_list list;

	if (kit->watch != NULL)
		return;
	va_start(list, format);
	append_list(kit, format, list);
	va_end(list);
	append_log(kit, "\n", 1);
}

/* ---- calls of entries and sinks ---------------------------------------------------------- */

const char *
espl__kit_heard(struct espl_kit *kit, const char *call, const void *bytes, size_t size)
{
	kit->call = call;
	kit->weight = KIT_REFUSED;
	if (kit->watch != NULL)
		kit->watch->heard(kit->watch->ctx, call, bytes, size);
	return kit->refusing ? "every call is refused" : NULL;
}

const char *
espl__kit_handed(struct espl_kit *kit, const char *call, const void *bytes, size_t size,
    size_t least, uint64_t zero)
{
	const char *why = espl__kit_heard(kit, call, bytes, size);

	if (why != NULL)
		return why;
	if (*(const uint32_t *)bytes < least)
		return espl__kit_why(kit, KIT_GRAVE,
		    "the size of its struct is not set (ESPL_INIT does it)");
	if (zero != 0)
		return espl__kit_why(kit, KIT_GRAVE,
		    "the field 'zero' of its struct is not 0 (ESPL_INIT does it)");
	return NULL;
}

static const struct espl_node *
known_node(void *ctx, uint64_t id)
{
	const struct kit_node *node = espl__kit_find_node(ctx, id);

	return node != NULL ? &node->pub : NULL;
}

struct espl_judge *
espl__kit_judge(struct espl_kit *kit)
{
	struct espl_judge *judge = &kit->judge;

	memset(judge, 0, offsetof(struct espl_judge, status));
	judge->ctx = kit;
	judge->now = kit->now;
	judge->node = known_node;
	kit->stamp++;
	return judge;
}

const char *
espl__kit_why(struct espl_kit *kit, enum kit_weight weight, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	(void)vsnprintf(kit->reason, sizeof kit->reason, format, list);
	va_end(list);
	kit->weight = weight;
	return kit->reason;
}

espl_status
espl__kit_told(struct espl_kit *kit, const char *why, const char *format, ...)
{
	va_list list;

	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	kit->calls++;
	kit->refused += why != NULL;
	if (kit->watch != NULL) {
		if (why != NULL && !kit->refusing)
			kit->watch->refused(kit->watch->ctx, kit->call, kit->weight, why);
		return why == NULL ? ESPL_OK : ESPL_E_REJECTED;
	}
	if (why != NULL)
		append_log(kit, "! ", 2);
	va_start(list, format);
	append_list(kit, format, list);
	va_end(list);
	if (why != NULL) {
		append_log(kit, ": ", 2);
		append_log(kit, why, strlen(why));
	}
	append_log(kit, "\n", 1);
	return why == NULL ? ESPL_OK : ESPL_E_REJECTED;
}

void
espl__kit_wrong(struct espl_kit *kit, const char *format, ...)
{
	char text[256];
	va_list list;

	va_start(list, format);
	(void)vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (!kit->wrong && kit->watch != NULL)
		kit->watch->wrong(kit->watch->ctx, kit->entry, text);
	else if (!kit->wrong)
		espl__kit_print(kit, "!! %s", text);
	kit->wrong = 1;
}

const struct espl_ops *
espl__kit_ops(struct espl_kit *kit, espl_kind kind, struct espl_error *error)
{
	if (kit->plugin == NULL || kit->plugin->kind != kind)
		espl__kit_stop("no plugin of this kind is open");
	memset(error, 0, sizeof *error);
	error->size = (uint32_t)sizeof *error;
	error->option = error->row = ESPL_ANY;
	return kit->plugin->ops;
}

void
espl__kit_call(struct espl_kit *kit, const char *entry, const void *view)
{
	ESPL_ASSERT(kit->magic == KIT_MAGIC && kit->plugin != NULL);
	kit->entry = entry;
	kit->wrong = 0;
	if (kit->watch != NULL)
		kit->watch->called(kit->watch->ctx, entry, view);
}

espl_status
espl__kit_returned(struct espl_kit *kit, const void *view, espl_status status,
    const struct espl_error *error)
{
	if (kit->watch != NULL)
		kit->watch->returned(kit->watch->ctx, kit->entry, view, status, error);
	if (status != ESPL_OK)
		espl__kit_print(kit, "!! status %d: %s", status, error->text);
	return status;
}

const char *
espl_kit_log(const struct espl_kit *kit)
{
	return kit->log != NULL ? kit->log : "";
}

void
espl_kit_clear(struct espl_kit *kit)
{
	kit->log_used = 0;
	kit->calls = kit->refused = 0;
	if (kit->log != NULL)
		kit->log[0] = '\0';
}

uint32_t
espl_kit_calls(const struct espl_kit *kit)
{
	return kit->calls;
}

uint32_t
espl_kit_refused(const struct espl_kit *kit)
{
	return kit->refused;
}

/* ---- the table --------------------------------------------------------------------------- */

static espl_time
host_now(const struct espl_host *host)
{
	const struct espl_kit *kit = host->ctx;

	ESPL_ASSERT(kit != NULL && kit->magic == KIT_MAGIC);
	return kit->now;
}

static uint64_t
host_random(const struct espl_host *host) /* splitmix64 (Vigna, public domain) */
{
	struct espl_kit *kit = host->ctx;
	uint64_t z = kit->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void
host_log(const struct espl_host *host, espl_level level, const char *text)
{
	static const char *const names[] = { "", "debug", "info", "warn", "error" };

	espl__kit_print(host->ctx, "log %s: %s", level <= ESPL_ERROR ? names[level] : "?", text);
}

static void
host_note(const struct espl_host *host, espl_subject subject, uint64_t id, const char *text)
{
	struct espl_kit *kit = host->ctx;

	ESPL_ASSERT(kit != NULL && kit->magic == KIT_MAGIC);
	if (kit->host.verbose)
		espl__kit_print(kit, "note %u %llu: %s", subject, (unsigned long long)id, text);
}

static const void *
host_service(const struct espl_host *host, const char *id)
{
	struct espl_kit *kit = host->ctx;
	const struct kit_service *service;

	ESPL_ASSERT(kit != NULL && kit->magic == KIT_MAGIC);
	for (service = kit->services; service != NULL; service = service->next)
		if (strcmp(service->id, id) == 0)
			return service->service;
	if (kit->cloud != NULL)
		return strcmp(id, ESPL_IO) == 0 ? &kit->cloud->io : NULL;
	if (strcmp(id, ESPL_SPACE) == 0)
		return &kit->space;
	if (strcmp(id, ESPL_EXPERIMENT) == 0)
		return &kit->experiment;
	if (strcmp(id, ESPL_HISTORY) == 0 && kit->keeps)
		return &kit->history;
	return strcmp(id, ESPL_FIRST) == 0 ? &kit->first : NULL;
}

static espl_status
host_file(const struct espl_host *host, uint32_t option, uint32_t row, uint32_t column,
    const void **bytes, uint64_t *size, struct espl_error *error)
{
	const struct espl_kit *kit = host->ctx;
	const struct kit_file *file;

	ESPL_ASSERT(kit != NULL && kit->magic == KIT_MAGIC);
	for (file = kit->files; file != NULL; file = file->next)
		if (file->option == option && file->row == row && file->column == column) {
			*bytes = file->bytes;
			*size = file->size;
			return ESPL_OK;
		}
	if (error != NULL && error->status == ESPL_OK) {
		error->status = ESPL_E_UNKNOWN;
		error->option = option;
		(void)snprintf(error->text, sizeof error->text, "the test has set no such file");
	}
	return ESPL_E_UNKNOWN;
}

/* ---- making and setting ------------------------------------------------------------------ */

struct espl_kit *
espl_kit_new(uint64_t seed)
{
	static const char *const metrics[] = { "loss" };
	struct espl_kit *kit = calloc(1, sizeof *kit);

	if (kit == NULL)
		espl__kit_stop("out of memory");
	kit->magic = KIT_MAGIC;
	kit->state = seed;
	kit->host.size = (uint32_t)sizeof kit->host;
	kit->host.abi = ESPL_ABI;
	kit->host.ctx = kit;
	kit->host.now = host_now;
	kit->host.random = host_random;
	kit->host.log = host_log;
	kit->host.note = host_note;
	kit->host.service = host_service;
	kit->host.file = host_file;
	kit->host.simulated = 1;
	kit->experiment.size = (uint32_t)sizeof kit->experiment;
	kit->experiment.name = "test";
	kit->experiment.metrics = metrics;
	kit->experiment.metric_count = 1;
	kit->experiment.gpus_limit = ESPL_ANY;
	kit->experiment.deadline = ESPL_NEVER;
	kit->experiment.budget = INT64_MAX;
	kit->experiment.risk = 0.5;
	kit->experiment.weight = 1.0;
	kit->experiments[0] = &kit->experiment;
	kit->trial_limit = kit->group_limit = UINT64_MAX;
	kit->wake = ESPL_NEVER;
	kit->pace = ESPL_SECOND;
	kit->round = 1;
	espl__kit_space_init(kit);
	return kit;
}

void
espl_kit_close(struct espl_kit *kit)
{
	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	if (kit->plugin != NULL && kit->self != NULL)
		kit->plugin->destroy(kit->self);
	kit->plugin = NULL;
	kit->self = NULL;
}

void
espl_kit_free(struct espl_kit *kit)
{
	if (kit == NULL)
		return;
	espl_kit_close(kit);
	while (kit->blocks != NULL) {
		struct kit_block *next = kit->blocks->next;

		free(kit->blocks);
		kit->blocks = next;
	}
	free(kit->log);
	free(kit->answers);
	kit->magic = 0;
	free(kit);
}

void
espl_kit_set_time(struct espl_kit *kit, espl_time now)
{
	kit->now = now;
}

void
espl_kit_set_verbose(struct espl_kit *kit, int verbose)
{
	kit->host.verbose = verbose != 0;
}

void
espl_kit_set_refusing(struct espl_kit *kit, int refusing)
{
	kit->refusing = refusing != 0;
}

void
espl_kit_set_service(struct espl_kit *kit, const char *id, const void *service)
{
	struct kit_service *entry = espl__kit_alloc(kit, sizeof *entry);

	entry->id = espl__kit_text(kit, id, strlen(id));
	entry->service = service;
	entry->next = kit->services;
	kit->services = entry;
}

void
espl_kit_set_file(struct espl_kit *kit, uint32_t option, uint32_t row, uint32_t column,
    const void *bytes, uint64_t size)
{
	struct kit_file *file = espl__kit_alloc(kit, sizeof *file);
	void *copy = espl__kit_alloc(kit, (size_t)size + 1);

	memcpy(copy, bytes, (size_t)size);
	file->option = option;
	file->row = row;
	file->column = column;
	file->bytes = copy;
	file->size = size;
	file->next = kit->files;
	kit->files = file;
}

struct espl_experiment *
espl_kit_experiment(struct espl_kit *kit)
{
	return &kit->experiment;
}

void *
espl_kit_self(struct espl_kit *kit)
{
	return kit->self;
}

/* ---- the plugin -------------------------------------------------------------------------- */

const struct espl_plugin *
espl_kit_load(struct espl_kit *kit, const char *path)
{
	const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
	size_t length = strcspn(name, ".");
	char symbol[256];
	void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL), *found;

	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	if (module == NULL) {
		const char *why = dlerror();

		espl__kit_print(kit, "load: %s", why != NULL ? why : path);
		return NULL;
	}
	(void)snprintf(symbol, sizeof symbol, "%.*s_LTX_espalier_plugin", (int)length, name);
	found = dlsym(module, symbol);
	if (found == NULL)
		espl__kit_print(kit, "load: %s has no symbol %s", path, symbol);
	return found;
}

static const char *
descriptor_wrong(const struct espl_plugin *plugin)
{
	if (plugin->magic != ESPL_MAGIC)
		return "magic is not ESPL_MAGIC";
	if (plugin->abi != ESPL_ABI)
		return "it was built for another ABI";
	if (plugin->size < sizeof *plugin)
		return "size is too small";
	if (plugin->kind < ESPL_ALGORITHM || plugin->kind > ESPL_TRAINABLE)
		return "unknown kind of plugin";
	if (plugin->name == NULL || plugin->version == NULL || plugin->summary == NULL)
		return "name, version or summary is missing";
	if (plugin->option_count > 0 &&
	    (plugin->options == NULL || plugin->option_size < sizeof(struct espl_option)))
		return "options or option_size is missing";
	if (plugin->ops == NULL || plugin->create == NULL || plugin->destroy == NULL)
		return "ops, create or destroy is missing";
	return NULL;
}

espl_status
espl_kit_open(struct espl_kit *kit, const struct espl_plugin *plugin, const char *options,
    struct espl_error *error)
{
	struct espl_error own = ESPL_INIT(struct espl_error);
	const char *wrong = plugin == NULL ? "there is no plugin" : descriptor_wrong(plugin);
	espl_status status;

	ESPL_ASSERT(kit->magic == KIT_MAGIC);
	espl_kit_close(kit);
	if (error == NULL)
		error = &own;
	memset(error, 0, sizeof *error);
	error->size = (uint32_t)sizeof *error;
	error->option = error->row = ESPL_ANY;
	if (wrong != NULL) {
		error->status = ESPL_E_BUG;
		(void)snprintf(error->text, sizeof error->text, "the descriptor: %s", wrong);
		return ESPL_E_BUG;
	}
	if (plugin->kind == ESPL_CLOUD)
		espl__kit_cloud_open(kit);
	status = espl__kit_options(kit, plugin, options, error);
	if (status == ESPL_OK)
		status = plugin->create(&kit->host, &kit->config, &kit->self, error);
	if (status == ESPL_OK)
		kit->plugin = plugin;
	else
		kit->self = NULL;
	return status;
}
