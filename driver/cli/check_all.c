/* check_all.c - check: all mistakes of a configuration at once.
 *
 * The parser stops at the first mistake.  So print the mistake, remove the offending value, and
 * read the file again, until no mistake is left or the offending value cannot be identified.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/profile.h"
#include "input/input.h"

#define MISTAKES_MAX 50u

struct blamed {
	const struct espl__node *section, *member;
	uint32_t count;
};

/* Is it, or something in it, at this place? */
static int
lies_at(const struct espl__node *node, const struct espl__diag *diag)
{
	int found =
	    node->line == diag->line && node->file != NULL && strcmp(node->file, diag->file) == 0;

	for (uint32_t i = 0; i < node->child_count && !found; i++)
		found = lies_at(node->children[i], diag);
	return found;
}

static int
is_quoted(const char *word, const struct espl__diag *diag)
{
	char *text = espl__format("'%s'", word);
	int found = strstr(diag->text, text) != NULL;

	free(text);
	return found;
}

enum how { BY_LINE, BY_NAME, BY_VALUE };

/* Does the message name it, or something in it? */
static int
names_node(const struct espl__node *node, const struct espl__diag *diag, enum how how)
{
	const char *word = how == BY_NAME ? node->name
	    : node->type == ESPL__STRING  ? node->text
					  : NULL;
	int found = word != NULL && is_quoted(word, diag);

	for (uint32_t i = 0; i < node->child_count && !found; i++)
		found = names_node(node->children[i], diag, how);
	return found;
}

/* The member of a section, or the section, that the message is about; by the line, and where a line
 * has several by name or by value. */
static void
find_blamed(const struct espl__tree *tree, const struct espl__diag *diag, struct blamed *to)
{
	const struct espl__node *root = espl__tree_root(tree);

	for (enum how how = BY_LINE; how <= BY_VALUE && to->count != 1; how++) {
		memset(to, 0, sizeof *to);
		for (uint32_t i = 0; i < root->child_count; i++) {
			const struct espl__node *section = root->children[i];
			int inner = section->type == ESPL__GROUP;

			for (uint32_t k = 0; inner && k < section->child_count; k++) {
				const struct espl__node *member = section->children[k];

				if (!lies_at(member, diag) ||
				    (how != BY_LINE && !names_node(member, diag, how)))
					continue;
				*to = (struct blamed){ section, member, to->count + 1 };
			}
			if (to->section != section && section->line == diag->line &&
			    (!inner || how == BY_NAME) && names_node(section, diag, BY_NAME))
				*to = (struct blamed){ section, NULL, to->count + 1 };
		}
	}
}

/* The part to skip because of this error, as for espl__run_load; NULL: skipping does not help. */
static char *
leave_out(const char *path, const char *const *sets, uint32_t count, const struct espl__diag *diag)
{
	struct espl__tree *tree = NULL;
	struct blamed to = { NULL, NULL, 0 };
	char *text = NULL;

	if (diag->line == 0 || espl__tree_load(path, &tree, NULL) != ESPL_OK)
		return NULL;
	for (uint32_t i = 0; i < count; i++)
		(void)espl__run_set(tree, sets[i], NULL);
	find_blamed(tree, diag, &to);
	if (to.count == 1 && to.member != NULL && strcmp(to.member->name, "use") == 0)
		to.member = NULL; /* without its plugin a section means nothing */
	if (to.count == 1 && strcmp(to.section->name, "space") == 0 && to.section->child_count == 1)
		/* an empty space would be another mistake */
		text = espl__strdup("space={ left_out = 0; }");
	else if (to.count == 1 && to.member != NULL && strcmp(to.member->name, "command") == 0)
		/* so would be metrics without a command */
		text = espl__strdup("trial.command=[ \"sh\" ]");
	else if (to.count == 1)
		text = espl__format(ESPL__RUN_WITHOUT "%s%s%s", to.section->name,
		    to.member != NULL ? "." : "", to.member != NULL ? to.member->name : "");
	espl__tree_free(tree);
	return text;
}

/* The part whose omission caused this failure; NULL: it is the user's mistake. */
static const char **
find_follow_up(const char **sets, uint32_t from, uint32_t count, const struct espl__diag *diag)
{
	const char **found = NULL;

	for (uint32_t i = from; i < count && found == NULL; i++) {
		const char *dot = strchr(sets[i], '.');

		if (strncmp(sets[i], ESPL__RUN_WITHOUT, strlen(ESPL__RUN_WITHOUT)) == 0 &&
		    is_quoted(dot != NULL ? dot + 1 : sets[i] + strlen(ESPL__RUN_WITHOUT), diag))
			found = &sets[i];
	}
	return found;
}

/* In place of what cannot be left out: something that is right. */
static char *
put_in(const char *without)
{
	const char *what = without + strlen(ESPL__RUN_WITHOUT);

	if (strncmp(what, "experiment.", 11) == 0)
		/* a goal, or a name like any other */
		return espl__format("%s=\"minimize\"", what);
	if (strncmp(what, "algorithm", 9) == 0)
		return espl__strdup(
		    "algorithm={ use = \"random\"; trials = 1; iterations_max = 1; }");
	if (strncmp(what, "allocator", 9) == 0)
		return espl__strdup("allocator={ use = \"fair\"; }");
	if (strncmp(what, "cloud.", 6) == 0 || strncmp(what, "placer.", 7) == 0)
		return espl__format(ESPL__RUN_WITHOUT "%.*s", (int)strcspn(what, "."), what);
	return NULL;
}

static void
pass_over(void *ctx, const struct espl_offer *offer)
{
	(void)ctx, (void)offer;
}

espl_status
espl__inputs_check_all(const char *path, const char *const *given, uint32_t given_count,
    struct espl__inputs *s, struct espl__diag *diag)
{
	const char **sets = espl__alloc((given_count + MISTAKES_MAX) * sizeof *sets);
	uint32_t count = given_count, offers;
	struct espl__diag told = ESPL__DIAG_INIT;
	espl_status status;

	for (uint32_t i = 0; i < given_count; i++)
		sets[i] = given[i];
	for (;;) {
		const char **follows;
		char *out;

		*diag = (struct espl__diag)ESPL__DIAG_INIT;
		status = espl__inputs_load_auto(path, sets, count, ESPL__NEED_SEARCH, 0, s, diag);
		if (status == ESPL_OK)
			status = espl__inputs_check(s, 0, diag);
		if (status == ESPL_OK)
			status = espl__inputs_offers(s, pass_over, NULL, &offers, diag);
		if (status == ESPL_OK)
			break;
		follows = find_follow_up(sets, given_count, count, diag);
		if (follows != NULL) {
			out = put_in(*follows);
			if (out == NULL)
				break;
			free((void *)(uintptr_t)*follows);
			*follows = out;
			espl__inputs_free(s);
			continue;
		}
		out = count < given_count + MISTAKES_MAX - 1 ? leave_out(path, sets, count, diag)
							     : NULL;
		if (told.status != ESPL_OK)
			espl__diag_print(stderr, &told);
		told = *diag;
		if (out == NULL)
			break;
		sets[count++] = out;
		espl__inputs_free(s);
	}
	/* The caller tells the last one. */
	if (told.status != ESPL_OK) {
		*diag = told;
		status = told.status;
	}
	for (uint32_t i = given_count; i < count; i++)
		free((void *)(uintptr_t)sets[i]);
	free(sets);
	return status;
}
