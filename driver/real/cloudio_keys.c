/* cloudio_keys.c - the keys of AWS for the requests of one plugin: looked for when first needed,
 * and again before they end. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <espalier/util.h>
#include "base/assert.h"
#include "base/mem.h"
#include "real/aws_keys.h"
#include "real/cloudio_private.h"

#define RENEW_BEFORE 300 /* seconds before they end */
#define COMMAND_LIMIT (60 * ESPL_SECOND)

struct espl__io_keys {
	struct espl__aws_keys keys;
	char *profile; /* that they are of; NULL: none was named */
	char *program; /* of the command that prints them: its arguments may be secrets */
	int known, asking;
};

/* The text of an option; NULL: none is named, or it is not set. */
static const char *
get_option(const struct espl__cloudio *io, uint32_t option)
{
	const struct espl_config *config = &io->instance->values->config;

	if (option >= config->count || config->values[option].source == ESPL_UNSET)
		return NULL;
	return config->values[option].as.s;
}

static void
take_output(struct espl__cloudio *io, const struct espl_child *child)
{
	struct espl__io_keys *has = io->keys;
	struct espl_error error = ESPL_INIT(struct espl_error);
	const char *first = child->err != NULL ? (const char *)child->err : "";
	char *why = NULL;
	/* The user can fix what the command says, and running it again does not. */
	espl_status status = ESPL_E_CONFIG;

	first += strspn(first, "\n");
	has->asking = 0;
	if (child->status != ESPL_OK) {
		status = ESPL_E_REMOTE;
		why = child->status == ESPL_E_LIMIT
		    ? espl__format("no keys for AWS: '%.100s' took more than 60 s", has->program)
		    : espl__format("no keys for AWS: cannot run '%.100s': %s", has->program, first);
	} else if (strcmp(has->program, "aws") == 0 &&
	    (child->exit_code == 127 ||
		(child->exit_code != 0 && strncmp(first, "usage:", 6) == 0))) { /* an old AWS CLI */
		why = espl__strdup("no keys for AWS: set AWS_ACCESS_KEY_ID and "
				   "AWS_SECRET_ACCESS_KEY, write a profile to ~/.aws/credentials, "
				   "or install the AWS CLI, version 2.9 or newer");
	} else if (child->exit_code != 0) {
		why = espl__format("no keys for AWS: '%.100s' %s %d%s%.*s", has->program,
		    child->exit_code < 0 ? "was killed by signal" : "exited with status",
		    abs(child->exit_code), first[0] != '\0' ? ": " : "", (int)strcspn(first, "\n"),
		    first);
	} else if (espl__aws_keys_parse(child->out, child->out_size, &has->keys, &error) !=
	    ESPL_OK) {
		why = espl__format("no keys for AWS: '%.100s' is of no use: %s", has->program,
		    error.text);
	}
	has->known = why == NULL;
	espl__http_keys_came(io->http, why == NULL ? &has->keys : NULL, status, why);
	free(why);
}

static espl_status
ask_command(struct espl__cloudio *io, const char *command, struct espl_error *error)
{
	const char *argv[] = { "sh", "-c", command };
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	const char *word = command;
	espl_status status;

	free(io->keys->program);
	/* a variable before the program may hold a secret */
	while (word[strcspn(word, "= \t")] == '=')
		word += strcspn(word, " \t"), word += strspn(word, " \t");
	io->keys->program = espl__format("%.*s", (int)strcspn(word, " \t"), word);
	spawn.argc = 3;
	spawn.argv = argv;
	spawn.limit = COMMAND_LIMIT;
	status = espl__io_spawn(io, &spawn, take_output, error);
	io->keys->asking = status == ESPL_OK;
	return status == ESPL_OK ? ESPL_E_BUSY : status;
}

static int
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

espl_status
espl__io_keys_get(struct espl__cloudio *io, const struct espl_http *request,
    const struct espl__aws_keys **out, struct espl_error *error)
{
	const char *user = get_option(io, request->sign_user);
	const char *secret = get_option(io, request->sign_secret);
	struct espl__io_keys *has = io->keys;
	char *command = NULL;
	espl_status status;

	if (has == NULL)
		has = io->keys = espl__alloc(sizeof *has);
	if (has->asking)
		return ESPL_E_BUSY;
	if (has->known && secret == NULL && same_text(user, has->profile) &&
	    has->keys.ends - RENEW_BEFORE > (int64_t)time(NULL)) {
		*out = &has->keys;
		return ESPL_OK;
	}
	espl__aws_keys_clear(&has->keys);
	free(has->profile);
	has->profile = espl__strdup(user);
	has->known = 0;
	if (user != NULL && secret != NULL) { /* both are in the configuration */
		has->keys = (struct espl__aws_keys){ espl__strdup(user), espl__strdup(secret), NULL,
			INT64_MAX };
		status = ESPL_OK;
	} else {
		status = espl__aws_keys_find(user, &has->keys, &command, error);
	}
	if (status == ESPL_E_BUSY)
		status = ask_command(io, command, error);
	free(command);
	has->known = status == ESPL_OK && secret == NULL;
	*out = &has->keys;
	return status;
}

void
espl__io_keys_refused(struct espl__cloudio *io)
{
	if (io->keys != NULL)
		io->keys->known = 0;
}

void
espl__io_keys_free(struct espl__cloudio *io)
{
	if (io->keys == NULL)
		return;
	espl__aws_keys_clear(&io->keys->keys);
	free(io->keys->profile);
	free(io->keys->program);
	free(io->keys);
	io->keys = NULL;
}
