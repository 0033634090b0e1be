/* real_command.c - the command that starts the agent of a node.
 *
 * The words that reach the node come from the cloud.  In front of them are our own agent's
 * --connect, so that the session outlives its channel, and --ship, which sends the agent to a node
 * that has none; behind them is what runs on the node.
 */
#include "base/assert.h"
#include "real/real.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/mem.h"
#include "plugin/instance.h"

#define OWN_WORDS 20u /* before and after those that reach a node */

struct argv_copy {
	struct espl_argv_sink sink;
	char **argv, *agent;
	uint32_t argc;
	int named; /* the node has an agent */
};

static void
name_agent(struct espl_argv_sink *sink, const char *path)
{
	struct argv_copy *copy = (struct argv_copy *)(void *)sink;

	free(copy->agent);
	copy->agent = path != NULL ? espl__strdup(path) : NULL;
	copy->named = 1;
}

static espl_status
copy_argv(struct espl_argv_sink *sink, const char *const *argv, uint32_t argc)
{
	struct argv_copy *copy = (struct argv_copy *)(void *)sink;
	uint32_t i;

	if (copy->argv != NULL)
		return ESPL_E_REJECTED;
	copy->argv = espl__alloc((argc + OWN_WORDS) * sizeof *copy->argv);
	for (i = 0; i < argc; i++)
		copy->argv[i] = espl__strdup(argv[i]);
	copy->argc = argc;
	return ESPL_OK;
}

static void
put_first(struct argv_copy *copy, char *const *words, uint32_t count)
{
	memmove(copy->argv + count, copy->argv, copy->argc * sizeof *copy->argv);
	memcpy(copy->argv, words, count * sizeof *words);
	copy->argc += count;
}

/* To the words that reach a node: a shell that starts the agent, and sends it first if need be. */
static espl_status
add_shell(struct espl__real *real, struct argv_copy *copy, const char *program,
    struct espl__diag *diag)
{
	const char *file = espl__real_ship(real, diag);
	char *words[3];

	if (file == NULL)
		return ESPL_E_CONFIG;
	words[0] = espl__strdup(program);
	words[1] = espl__strdup("--ship");
	words[2] = espl__strdup(file);
	put_first(copy, words, 3);
	copy->argv[copy->argc++] = espl__strdup("sh");
	copy->argv[copy->argc++] = espl__strdup("-s");
	copy->argv[copy->argc++] = espl__strdup("--");
	return ESPL_OK;
}

/* For the keeper (session.h): how long it stays without a driver, and what it runs then. */
static char *
name_terms(const struct espl__run_config *config)
{
	const struct espl_table *words = config->after_linger;
	char *text = espl__format("%" PRId64, config->linger / 1000000);

	for (uint32_t i = 0; words != NULL && i < words->row_count; i++) {
		const char *word = words->cells[i].as.s;
		size_t size = strlen(text);

		text = espl__realloc(text, size + 2 * strlen(word) + 2, 1);
		text[size++] = i == 0 ? ':' : ',';
		text[size] = '\0';
		for (; *word != '\0'; word++, size += 2)
			(void)snprintf(text + size, 3, "%02x", (unsigned char)*word);
	}
	return text;
}

/* Appends the agent to the words that reach the node.  Where there are such words, and the user has
 * patience, the agent outlives the channel. */
static espl_status
complete_command(struct espl__ragent *agent, struct argv_copy *copy, struct espl__diag *diag)
{
	const struct espl__run_config *config = agent->real->config;
	char *program = espl__format("%s/espalier-agent", espl__libexec());
	espl_status status = ESPL_OK;
	uint64_t epoch = 0;

	agent->remote = copy->argc > 0;
	agent->session = agent->remote && config->patience > 0 &&
	    getrandom(&epoch, sizeof epoch, 0) == (ssize_t)sizeof epoch;
	if (agent->session && agent->real->rejoining)
		epoch = agent->lease->epoch;
	else if (agent->lease->epoch != epoch)
		agent->real->leases_dirty = 1;
	agent->lease->epoch = epoch;
	if (copy->argc > 0 && !copy->named)
		status = add_shell(agent->real, copy, program, diag);
	else
		copy->argv[copy->argc++] =
		    espl__strdup(copy->agent != NULL ? copy->agent : program);
	if (agent->session) {
		char *words[4] = { espl__strdup(program), espl__strdup("--connect"),
			espl__format("%" PRId64, config->patience / 1000000),
			espl__strdup(agent->real->rejoining ? "rejoin" : "new") };

		put_first(copy, words, 4);
		copy->argv[copy->argc++] = espl__strdup("--keep");
		copy->argv[copy->argc++] = espl__strdup(agent->lease->token);
		copy->argv[copy->argc++] =
		    espl__format("%" PRIx64 ".%" PRIx64, epoch, agent->real->number);
		copy->argv[copy->argc++] = name_terms(config);
	}
	copy->argv[copy->argc] = NULL;
	free(program);
	free(copy->agent);
	return status;
}

espl_status
espl__real_agent_command(struct espl__ragent *agent, char ***argv, struct espl__diag *diag)
{
	struct argv_copy copy = { .sink = { (uint32_t)sizeof copy.sink, 0, copy_argv,
				      name_agent } };
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct espl__real *real = agent->real;
	struct espl_lease view;
	espl_status status, completed;

	ESPL__CHECK(agent, RAGENT);
	espl__real_lease_view(agent->lease, &view);
	espl__real_enter(real);
	status = real->ops->reach(real->cloud->self, &view, &copy.sink, &error);
	if (status != ESPL_OK)
		(void)espl__fail(diag, status, "%s", error.text);
	if (copy.argv == NULL)
		copy.argv = espl__alloc(OWN_WORDS * sizeof *copy.argv);
	completed = complete_command(agent, &copy, status == ESPL_OK ? diag : NULL);
	*argv = copy.argv;
	return status != ESPL_OK ? status : completed;
}
