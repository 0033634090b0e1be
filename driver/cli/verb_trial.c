/* verb_trial.c - trial stop, trial add, trial note: one trial less, or one more, of a run that is
 * going on, or a text about one. */
#include "cli/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/note_ended.h"
#include "config/tree.h"

static int
refuse_usage(const char *what)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	(void)espl__fail(&diag, ESPL_E_CONFIG, "%s", what);
	espl__hint(&diag,
	    "`espalier trial stop DIR TRIAL`, `espalier trial add DIR NAME=VALUE...` or `espalier "
	    "trial note DIR TRIAL KEY TEXT`");
	return espl__cli_fail(&diag);
}

/* The arguments NAME=VALUE as a configuration: what a group of experiment.first contains. */
static int
add_trial(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *tree = NULL;
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status = espl__tree_parse("", "trial add", &tree, &diag);
	int result;

	for (uint32_t i = 2; i < args->count && status == ESPL_OK; i++)
		status = espl__tree_set(tree, args->positional[i], &diag);
	if (status == ESPL_OK)
		espl__node_print(espl__tree_root(tree), 0, &text);
	for (size_t i = 0; i < text.size; i++) /* the answer is one line */
		text.data[i] = text.data[i] == '\n' ? ' ' : text.data[i];
	while (text.size > 0 && text.data[text.size - 1] == ' ')
		text.size--;
	result = status == ESPL_OK
	    ? espl__request_send(args->positional[1], 0, "add", espl__buf_text(&text), "added")
	    : espl__cli_fail(&diag);
	espl__buf_free(&text);
	espl__tree_free(tree);
	return result;
}

static int
note_trial(const struct espl__args *args)
{
	const char *trial = args->positional[2], *key = args->positional[3];
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *text, *name;
	int result;

	if (strchr(trial, '\t') != NULL || strpbrk(key, "\t\n") != NULL)
		return refuse_usage("a trial, and the name of a note, are one line without tabs");
	if (espl__run_over(args->positional[1])) {
		if (espl__note_ended(args->positional[1], trial, key, args->positional[4], &diag) !=
		    ESPL_OK)
			return espl__cli_fail(&diag);
		printf("noted: %s of trial %s\n", key, trial);
		return ESPL__EXIT_DONE;
	}
	text = espl__format("%s\t%s\t%s", trial, key, args->positional[4]);
	name = espl__format("%s of trial %s", key, trial);
	result = espl__request_send_text(args->positional[1], 0, "note", text, name, "noted");
	free(text);
	free(name);
	return result;
}

int
espl__verb_trial(const struct espl__args *args)
{
	if (strcmp(args->positional[0], "note") == 0)
		return args->count != 5
		    ? refuse_usage("'trial note' takes a trial, a name and a text")
		    : note_trial(args);
	if (strcmp(args->positional[0], "add") == 0)
		return args->count < 3 ? refuse_usage("no configuration is given")
				       : add_trial(args);
	if (strcmp(args->positional[0], "stop") != 0)
		return refuse_usage("'trial' is followed by 'stop', 'add' or 'note'");
	if (args->count != 3)
		return refuse_usage("one trial is stopped at a time");
	return espl__request_send(args->positional[1], 0, "stop", args->positional[2], "stopped");
}
