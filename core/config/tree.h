/* tree.h - a configuration file as a tree of our own, each node knowing its file and line.
 *
 * tree.c is the only file that includes libconfig.h.  libconfig 1.5 wraps integers that do not
 * fit silently: the text is scanned for number tokens first and such ones are refused.
 */
#ifndef ESPL__TREE_H
#define ESPL__TREE_H
#include "base/buf.h"
#include "base/diag.h"

enum espl__node_type {
	ESPL__GROUP = 1,
	ESPL__LIST,
	ESPL__ARRAY,
	ESPL__INT,
	ESPL__REAL,
	ESPL__BOOL,
	ESPL__STRING
};
struct espl__node {
	enum espl__node_type type;
	uint32_t line;
	const char *file;   /* as the user named it; "--set" for overrides */
	const char *name;   /* NULL in lists and arrays */
	const char *text;   /* STRING; INT and REAL: as the parser gives it back */
	int64_t i;          /* INT, BOOL */
	double r;           /* REAL, and INT as a double */
	espl_source source; /* ESPL_FILE or ESPL_COMMAND */
	uint32_t child_count;
	struct espl__node *const *children;
};
struct espl__tree; /* owns all its nodes and strings */

/* Refused: more than 16 MiB, NUL bytes, integers beyond 64 bits, strings that are not UTF-8,
 * more than 64 groups and lists in one another.  @include works relative to the file; in
 * espl__tree_parse it is refused. */
espl_status espl__tree_load(const char *path, struct espl__tree **, struct espl__diag *);
espl_status espl__tree_parse(const char *text, const char *name, struct espl__tree **,
    struct espl__diag *);
void espl__tree_free(struct espl__tree *);
const struct espl__node *espl__tree_root(const struct espl__tree *); /* a GROUP */
/* --set PATH=VALUE: names joined by dots, list elements by number (cloud.offers.[0].price, also
 * written offers.0.price); a name that needs quotes has them (space."optimizer.lr".low).  VALUE is
 * libconfig syntax; what begins like no such value, and what begins like a number but is none
 * (20m), is taken as a string.  Makes the groups that are missing on the way; the element after a
 * list's last one is added. */
espl_status espl__tree_set(struct espl__tree *, const char *assignment, struct espl__diag *);
/* Removes a member of a group of the root, or where that is NULL of the root itself, if it is
 * there. */
void espl__tree_drop(struct espl__tree *, const char *group, const char *name);
/* Member of a group, or NULL (also when node is NULL). */
const struct espl__node *espl__node_get(const struct espl__node *, const char *name);
/* The node as libconfig text that parses back to the same (indent: tabs to begin with):
 * "name = value;" and a newline; of a root: its settings. */
void espl__node_print(const struct espl__node *, int indent, struct espl__buf *);
void espl__print_quoted(struct espl__buf *, const char *text); /* a libconfig string */
void espl__print_real(struct espl__buf *, double);      /* a libconfig real: "1.0", "1e-05" */
const char *espl__node_kind(const struct espl__node *); /* "a string", "a list", ... */
#endif
