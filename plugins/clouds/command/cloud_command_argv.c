/* cloud_command_argv.c - the user's commands: their words, what they get, what they answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_command.h"

static const char *
name_option(uint32_t option)
{
	static const char *const names[] = { "acquire", "release", "list", "reach" };

	return names[option];
}

espl_status
cloud_command_spawn(const struct command_cloud *cloud, uint32_t option, json_t *input,
    uint64_t cookie)
{
	const struct espl_table *words = command_table(cloud, option);
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	const char **argv = calloc(words->row_count, sizeof *argv);
	char *text = json_dumps(input, JSON_COMPACT);
	espl_status status = ESPL_E_NOMEM;

	json_decref(input);
	for (uint32_t i = 0; argv != NULL && i < words->row_count; i++)
		argv[i] = words->cells[i].as.s;
	if (argv != NULL && text != NULL) {
		spawn.argc = words->row_count;
		spawn.argv = argv;
		spawn.input = text;
		spawn.input_size = strlen(text);
		spawn.limit = cloud->config->values[COMMAND_OPT_LIMIT].as.i;
		spawn.cookie = cookie;
		status = cloud->io->spawn(cloud->io, &spawn, NULL);
	}
	free(argv);
	free(text);
	return status;
}

/* ---- answers ---- */

/* The last line that is not empty, behind a colon; "" if there is none. */
static void
quote_last(char to[300], const char *text)
{
	const char *begin, *end = text != NULL ? text + strlen(text) : text;
	size_t size;

	to[0] = '\0';
	while (end > text && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
		end--;
	for (begin = end; begin > text && begin[-1] != '\n';)
		begin--;
	if (begin == end)
		return;
	(void)snprintf(to, 300, ": %.*s", (int)(end - begin < 280 ? end - begin : 280), begin);
	size = strlen(to);
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)to[i] < ' ' || to[i] == 127)
			to[i] = ' ';
}

static void
explain_child(const struct command_cloud *cloud, const char *name, const struct espl_child *child,
    char text[COMMAND_TEXT])
{
	char last[300];

	quote_last(last, child->err);
	if (child->status == ESPL_E_LIMIT)
		(void)snprintf(text, COMMAND_TEXT, "'%s' did not end within %.10g s%s", name,
		    espl_seconds(cloud->config->values[COMMAND_OPT_LIMIT].as.i), last);
	else if (child->status != ESPL_OK)
		(void)snprintf(text, COMMAND_TEXT, "'%s'%s", name, last);
	else if (child->exit_code < 0)
		(void)snprintf(text, COMMAND_TEXT, "'%s' was killed by signal %d%s", name,
		    (int)-child->exit_code, last);
	else if (child->exit_code > 0)
		(void)snprintf(text, COMMAND_TEXT, "'%s' exited with status %d%s", name,
		    (int)child->exit_code, last);
	else
		(void)snprintf(text, COMMAND_TEXT, "'%s' did not print a JSON object%s", name,
		    last);
}

json_t *
cloud_command_answer(const struct command_cloud *cloud, uint32_t option,
    const struct espl_child *child, char text[COMMAND_TEXT])
{
	json_t *answer = NULL;
	const char *error;

	if (child->status == ESPL_OK && child->out_size > 0)
		answer = json_loadb(child->out, child->out_size, 0, NULL);
	if (answer == NULL && child->status == ESPL_OK && child->exit_code == 0 &&
	    option == COMMAND_OPT_RELEASE && child->out_size == 0)
		return json_object(); /* nothing to add */
	error = cloud_command_string(answer, "error");
	if (error != NULL && option != COMMAND_OPT_ACQUIRE)
		(void)snprintf(text, COMMAND_TEXT, "'%s': %.500s", name_option(option), error);
	else if (json_is_object(answer) && (child->exit_code == 0 || error != NULL))
		return answer;
	else
		explain_child(cloud, name_option(option), child, text);
	json_decref(answer);
	return NULL;
}

const char *
cloud_command_string(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL && text[0] != '\0' ? text : NULL;
}

espl_money
cloud_command_money(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	double usd = json_is_number(value) ? json_number_value(value) : -1;

	return usd >= 0 && usd < 1e12 ? (espl_money)(usd * 1e6 + 0.5) : -1;
}

const json_t *
cloud_command_find(const json_t *machines, const char *token)
{
	for (size_t i = 0; i < json_array_size(machines); i++) {
		const json_t *one = json_array_get(machines, i);
		const char *its = cloud_command_string(one, "token");

		if (its != NULL && strcmp(its, token) == 0)
			return one;
	}
	return NULL;
}

/* ---- reach ---- */

/* The word with {id}, {address} and {token} replaced.  NULL: `missing` is not known, or there is no
 * memory. */
static char *
fill_word(const char *word, const struct espl_lease *lease, const char **missing)
{
	static const char *const names[] = { "{id}", "{address}", "{token}" };
	const char *const values[] = { lease->provider_id, lease->address, lease->token };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	*missing = NULL;
	while (out != NULL && *word != '\0') {
		size_t k = 0;

		while (k < 3 && strncmp(word, names[k], strlen(names[k])) != 0)
			k++;
		if (k == 3) {
			(void)fputc(*word++, out);
			continue;
		}
		if (values[k] == NULL)
			*missing = names[k];
		else
			(void)fputs(values[k], out);
		word += strlen(names[k]);
	}
	if (out == NULL || fclose(out) != 0 || *missing != NULL) {
		free(text);
		return NULL;
	}
	return text;
}

/* The agent finds the GPUs itself; on a machine without any it must know the number of slots. */
espl_status
cloud_command_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	const struct command_cloud *cloud = self;
	const struct espl_table *words = command_table(cloud, COMMAND_OPT_REACH);
	uint32_t count = words->row_count, used = 0,
		 offer = cloud_command_offer(cloud, lease->offer, lease->market);
	char **argv = calloc(count + 2, sizeof *argv);
	const char *missing = NULL;
	espl_status status;

	if (argv == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	while (used < count &&
	    (argv[used] = fill_word(words->cells[used].as.s, lease, &missing)) != NULL)
		used++;
	if (used == count && offer != ESPL_ANY &&
	    strcmp(cloud->offers[offer].row[COMMAND_COL_TYPE].as.s, "cpu") == 0) {
		argv[used++] = strdup("env");
		if (asprintf(&argv[used++], "ESPALIER_AGENT_DEVICES=cpu:%lld",
			(long long)cloud->offers[offer].row[COMMAND_COL_GPUS].as.i) < 0)
			argv[used - 1] = NULL;
	}
	if (missing != NULL)
		status = espl_fail(error, ESPL_E_REMOTE,
		    "%s in 'reach' is not known: neither 'acquire' nor 'list' printed it", missing);
	else if (used < count || argv[used - 1] == NULL)
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	else
		status = sink->argv(sink, (const char *const *)argv, used);
	for (uint32_t i = 0; i < used; i++)
		free(argv[i]);
	free(argv);
	return status;
}
