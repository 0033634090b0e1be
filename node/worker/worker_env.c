/* worker_env.c - parses the environment of a rank into numbers, and its parameters into settings.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_value.h"
#include "base/mem.h"
#include "base/text.h"
#include "worker/worker.h"

static espl_status
get_number(const char *name, uint64_t most, uint64_t *to, struct espl__diag *diag)
{
	const char *text = getenv(name);
	char *end;

	if (text == NULL)
		return espl__fail(diag, ESPL_E_CONFIG, "%s is not set", name);
	errno = 0;
	*to = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || *to > most)
		return espl__fail(diag, ESPL_E_CONFIG, "%s is not a number: '%s'", name, text);
	return ESPL_OK;
}

static const char *
get_text(const char *name)
{
	const char *text = getenv(name);

	return text != NULL ? text : "";
}

struct wanted {
	const char *name;
	uint64_t *big;
	uint32_t *small;
	const char *absent;
};

static espl_status
get_numbers(struct espl__worker_env *e, struct espl__diag *diag)
{
	const struct wanted wanted[] = {
		{ "ESPALIER_TRIAL", &e->trial, NULL, NULL },
		{ "ESPALIER_ITERATION", &e->iteration, NULL, NULL },
		{ "ESPALIER_BUDGET", &e->budget, NULL, NULL },
		{ "ESPALIER_ITERATIONS_MAX", &e->iterations_max, NULL, NULL },
		{ "ESPALIER_SEED", &e->seed, NULL, NULL },
		{ "ESPALIER_GANG", &e->gang, NULL, NULL },
		{ "ESPALIER_ATTEMPT", NULL, &e->attempt, NULL },
		{ "ESPALIER_THREADS", NULL, &e->threads, NULL },
		{ "ESPALIER_PACKING", NULL, &e->packing, NULL },
		{ "RANK", NULL, &e->rank, NULL },
		{ "WORLD_SIZE", NULL, &e->world, NULL },
		{ "LOCAL_RANK", NULL, &e->local_rank, NULL },
		{ "LOCAL_WORLD_SIZE", NULL, &e->local_world, NULL },
		{ "GROUP_RANK", NULL, &e->node, NULL },
		{ "MASTER_PORT", NULL, &e->port, NULL },
		{ "ESPALIER_REPORT_FD", NULL, (uint32_t *)&e->report_fd, "none" },
		{ "ESPALIER_LISTEN_FD", NULL, (uint32_t *)&e->listen_fd, "none" },
	};

	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		const struct wanted *w = &wanted[i];
		uint64_t n;
		espl_status status;

		if (w->absent != NULL && getenv(w->name) == NULL)
			continue;
		status = get_number(w->name, w->big != NULL ? UINT64_MAX : INT32_MAX, &n, diag);
		if (status != ESPL_OK)
			return status;
		if (w->big != NULL)
			*w->big = n;
		else
			*w->small = (uint32_t)n;
	}
	if (e->world == 0 || e->rank >= e->world || e->local_world == 0 ||
	    e->local_rank >= e->local_world)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "RANK %" PRIu32 " and WORLD_SIZE %" PRIu32 " are inconsistent", e->rank,
		    e->world);
	return ESPL_OK;
}

/* ---- parameters -------------------------------------------------------------------------- */

static void
set_one(struct espl__worker_env *e, const char *name, const json_t *value)
{
	struct espl_setting *s = &e->settings[e->setting_count];
	struct espl__buf text = { NULL, 0, 0 };
	char **texts = &e->texts[(size_t)e->setting_count * 2];

	s->value = NAN;
	if (json_is_number(value))
		s->value = json_number_value(value);
	else if (json_is_boolean(value))
		s->value = json_is_true(value) ? 1.0 : 0.0;
	espl__json_value_text(value, &text);
	texts[1] = espl__strdup(espl__buf_text(&text));
	espl__buf_free(&text);
	texts[0] = espl__strdup(name);
	s->name = texts[0];
	s->text = texts[1];
	e->setting_count++;
}

static espl_status
read_params(struct espl__worker_env *e, struct espl__diag *diag)
{
	json_error_t error;
	json_t *root = json_load_file(e->params, JSON_REJECT_DUPLICATES, &error), *value;
	const char *name;

	if (!json_is_object(root)) {
		json_decref(root);
		return espl__fail(diag, ESPL_E_CONFIG, "cannot read the parameters '%s': %s",
		    e->params, root == NULL ? error.text : "not an object");
	}
	e->settings = espl__alloc((json_object_size(root) + 1) * sizeof *e->settings);
	e->texts = espl__alloc((json_object_size(root) + 1) * 2 * sizeof *e->texts);
	json_object_foreach (root, name, value)
		set_one(e, name, value);
	json_decref(root);
	return ESPL_OK;
}

/* The descriptor can be read only once. A worker started by hand has none. */
static espl_status
read_key(struct espl__worker_env *e, struct espl__diag *diag)
{
	const char *text = get_text("ESPALIER_KEY_FD");
	int fd = text[0] != '\0' ? atoi(text) : -1;
	ssize_t got;

	if (fd < 0)
		return ESPL_OK;
	got = read(fd, e->key, sizeof e->key);
	close(fd);
	(void)unsetenv("ESPALIER_KEY_FD");
	return got == (ssize_t)sizeof e->key
	    ? ESPL_OK
	    : espl__fail(diag, ESPL_E_CONFIG, "ESPALIER_KEY_FD: the key of the gang is missing");
}

espl_status
espl__worker_env_read(struct espl__worker_env *e, struct espl__diag *diag)
{
	espl_status status;

	memset(e, 0, sizeof *e);
	e->report_fd = e->listen_fd = -1;
	e->params = get_text("ESPALIER_PARAMS");
	e->options = get_text("ESPALIER_OPTIONS");
	e->checkpoint = get_text("ESPALIER_CHECKPOINT");
	e->save = get_text("ESPALIER_SAVE");
	e->scratch = get_text("ESPALIER_SCRATCH");
	e->device = get_text("ESPALIER_DEVICE");
	e->slot = get_text("ESPALIER_SEAT");
	e->master = get_text("MASTER_ADDR");
	status = read_key(e, diag);
	if (status == ESPL_OK)
		status = get_numbers(e, diag);
	return status == ESPL_OK ? read_params(e, diag) : status;
}

void
espl__worker_env_free(struct espl__worker_env *e)
{
	for (uint32_t i = 0; i < e->setting_count; i++) {
		free(e->texts[(size_t)i * 2]);
		free(e->texts[(size_t)i * 2 + 1]);
	}
	free(e->texts);
	free(e->settings);
	memset(e, 0, sizeof *e);
}
