/* tree.c - configuration files as trees of our own: the only file that includes libconfig.h.
 *
 * The text goes through scan.c first, so libconfig sees no include, no comment and no number that
 * it would spoil; its settings are copied, with file and line, and libconfig's are let go.
 */
#include "base/assert.h"
#include "config/tree.h"

#include <libconfig.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/scan.h"

#define ESPL__TREE_MAGIC 0x70766161u
struct espl__tree {
	struct espl__arena arena;
	uint32_t magic; /* ESPL__TREE_MAGIC */
	struct espl__node *root;
};

/* one copying of libconfig's settings */
struct build {
	struct espl__tree *tree;
	const struct espl__scan *scan;
	espl_source source;
	const char *file, *copy; /* the last file's name, and ours */
	struct espl__diag *diag;
};

/* ---- copying ----------------------------------------------------------------------- */

/* Are all bytes UTF-8 (shortest form, no surrogates)? */
static int
is_utf8(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	while (*c != '\0') {
		uint32_t code;
		int more = *c < 0x80 ? 0 : *c >= 0xf0 ? 3 : *c >= 0xe0 ? 2 : 1;

		if (*c >= 0x80 && (*c < 0xc2 || *c > 0xf4))
			return 0;
		code = more == 0 ? *c : *c & (0x3fu >> more);
		c++;
		for (int i = 0; i < more; i++, c++) {
			if ((*c & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (*c & 0x3f);
		}
		if ((more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) ||
		    (more == 3 && (code < 0x10000 || code > 0x10ffff)))
			return 0;
	}
	return 1;
}

static void
place_node(struct build *build, const config_setting_t *setting, struct espl__node *node)
{
	const char *file;

	espl__scan_place(build->scan, config_setting_source_line(setting), &file, &node->line);
	if (build->source == ESPL_COMMAND)
		node->line = 0;
	if (file != build->file || build->copy == NULL) {
		build->file = file;
		build->copy = espl__arena_strdup(&build->tree->arena, file != NULL ? file : "");
	}
	node->file = build->copy;
	node->source = build->source;
}

/* A name as the user wrote it. */
static const char *
name_of(struct espl__arena *arena, const char *coded)
{
	size_t skip = sizeof ESPL__SCAN_CODED - 1, size;
	char *name;

	if (coded == NULL || strncmp(coded, ESPL__SCAN_CODED, skip) != 0)
		return espl__arena_strdup(arena, coded);
	size = (strlen(coded) - skip) / 2;
	name = espl__arena_alloc(arena, size + 1);
	for (size_t i = 0; i < size; i++) {
		char digits[3] = { coded[skip + 2 * i], coded[skip + 2 * i + 1], '\0' };

		name[i] = (char)strtoul(digits, NULL, 16);
	}
	return name;
}

static char *
number_text(struct espl__arena *arena, const struct espl__node *node)
{
	char text[32];

	if (node->type == ESPL__INT)
		snprintf(text, sizeof text, "%lld", (long long)node->i);
	else
		espl__format_real(node->r, text);
	return espl__arena_strdup(arena, text);
}

static espl_status copy_setting(struct build *, config_setting_t *, struct espl__node **);

static espl_status
copy_children(struct build *build, config_setting_t *setting, struct espl__node *node)
{
	int count = config_setting_length(setting);
	struct espl__node **children;

	if (count <= 0)
		return ESPL_OK;
	children = espl__arena_alloc(&build->tree->arena, (size_t)count * sizeof *children);
	node->children = children;
	for (int i = 0; i < count; i++) {
		config_setting_t *child = config_setting_get_elem(setting, (unsigned int)i);
		espl_status status;

		if (child == NULL)
			return espl__fail_at(build->diag, ESPL_E_BUG, node->file, node->line,
			    "libconfig lost a setting");
		status = copy_setting(build, child, &children[i]);
		if (status != ESPL_OK)
			return status;
		node->child_count++;
	}
	return ESPL_OK;
}

static espl_status
copy_setting(struct build *build, config_setting_t *setting, struct espl__node **to)
{
	struct espl__node *node = espl__arena_alloc(&build->tree->arena, sizeof *node);
	const char *text;

	*to = node;
	place_node(build, setting, node);
	node->name = name_of(&build->tree->arena, config_setting_name(setting));
	if (node->name != NULL && !is_utf8(node->name))
		return espl__fail_at(build->diag, ESPL_E_CONFIG, node->file, node->line,
		    "the name is not valid UTF-8");
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_GROUP:
		node->type = ESPL__GROUP;
		return copy_children(build, setting, node);
	case CONFIG_TYPE_LIST: node->type = ESPL__LIST; return copy_children(build, setting, node);
	case CONFIG_TYPE_ARRAY:
		node->type = ESPL__ARRAY;
		return copy_children(build, setting, node);
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		node->type = ESPL__INT;
		node->i = config_setting_get_int64(setting);
		node->r = (double)node->i;
		node->text = number_text(&build->tree->arena, node);
		return ESPL_OK;
	case CONFIG_TYPE_FLOAT:
		node->type = ESPL__REAL;
		node->r = config_setting_get_float(setting);
		node->text = number_text(&build->tree->arena, node);
		return ESPL_OK;
	case CONFIG_TYPE_BOOL:
		node->type = ESPL__BOOL;
		node->i = config_setting_get_bool(setting) != 0;
		return ESPL_OK;
	case CONFIG_TYPE_STRING:
		node->type = ESPL__STRING;
		text = config_setting_get_string(setting);
		node->text = espl__arena_strdup(&build->tree->arena, text != NULL ? text : "");
		if (!is_utf8(node->text))
			return espl__fail_at(build->diag, ESPL_E_CONFIG, node->file, node->line,
			    "the string is not valid UTF-8");
		return ESPL_OK;
	default:
		return espl__fail_at(build->diag, ESPL_E_BUG, node->file, node->line,
		    "libconfig gave a setting of an unknown type");
	}
}

static espl_status
parse_failed(config_t *config, const struct espl__scan *scan, struct espl__diag *diag)
{
	const char *file, *text = config_error_text(config);
	uint32_t line;
	int flat = config_error_line(config);

	espl__scan_place(scan, flat > 0 ? (uint32_t)flat : 1, &file, &line);
	if (text == NULL)
		text = "syntax error";
	if (strcmp(text, "duplicate setting name") == 0) {
		espl__fail_at(diag, ESPL_E_CONFIG, file, line, "duplicate name in this group");
		espl__hint(diag, "remove one of the two settings");
	} else if (strcmp(text, "mismatched element type in array") == 0) {
		espl__fail_at(diag, ESPL_E_CONFIG, file, line,
		    "the elements of this array have different types");
		espl__hint(diag,
		    "an array [ ] contains values of one type; a list ( ) may mix types");
	} else {
		espl__fail_at(diag, ESPL_E_CONFIG, file, line, "%s", text);
		espl__hint(diag,
		    "write settings as  name = value;  groups as { }, lists as ( ), arrays of one "
		    "type as [ ]");
	}
	return ESPL_E_CONFIG;
}

/* The scanned text -> nodes in the tree's arena. */
static espl_status
build_nodes(struct espl__tree *tree, struct espl__scan *scan, espl_source source,
    struct espl__node **root, struct espl__diag *diag)
{
	struct build build = { .tree = tree, .scan = scan, .source = source, .diag = diag };
	config_t config;
	espl_status status;

	config_init(&config);
	if (config_read_string(&config, espl__buf_text(&scan->text)) == CONFIG_TRUE)
		status = copy_setting(&build, config_root_setting(&config), root);
	else
		status = parse_failed(&config, scan, diag);
	config_destroy(&config);
	return status;
}

static espl_status
finish_tree(espl_status status, const char *name, struct espl__scan *scan, struct espl__tree **to,
    struct espl__diag *diag)
{
	struct espl__tree *tree;

	*to = NULL;
	if (status == ESPL_OK) {
		tree = espl__alloc(sizeof *tree);
		tree->magic = ESPL__TREE_MAGIC;
		status = build_nodes(tree, scan, ESPL_FILE, &tree->root, diag);
		if (status == ESPL_OK &&
		    tree->root->file[0] == '\0') /* an empty file has no line to speak of */
			tree->root->file = espl__arena_strdup(&tree->arena, name);
		if (status == ESPL_OK)
			*to = tree;
		else
			espl__tree_free(tree);
	}
	espl__scan_free(scan);
	return status;
}

espl_status
espl__tree_load(const char *path, struct espl__tree **to, struct espl__diag *diag)
{
	struct espl__scan scan;
	espl_status status = espl__scan_file(&scan, path, diag);

	return finish_tree(status, path, &scan, to, diag);
}

espl_status
espl__tree_parse(const char *text, const char *name, struct espl__tree **to,
    struct espl__diag *diag)
{
	struct espl__scan scan;
	espl_status status = espl__scan_text(&scan, text, strlen(text), name, diag);

	return finish_tree(status, name, &scan, to, diag);
}

void
espl__tree_free(struct espl__tree *tree)
{
	if (tree == NULL)
		return;
	espl__arena_free(&tree->arena);
	tree->magic = 0;
	free(tree);
}

const struct espl__node *
espl__tree_root(const struct espl__tree *tree)
{
	ESPL__CHECK(tree, TREE);
	return tree->root;
}

/* ---- --set ------------------------------------------------------------------------- */

static struct espl__node *
new_node(struct espl__tree *tree, enum espl__node_type type)
{
	struct espl__node *node = espl__arena_alloc(&tree->arena, sizeof *node);

	node->type = type;
	node->file = "--set";
	node->source = ESPL_COMMAND;
	return node;
}

static int
looks_plain(const char *value)
{
	int64_t i;
	double r;
	int wide;

	if (*value != '\0' && strchr("\"{([", *value) != NULL)
		return 1;
	if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
		return 1;
	return espl__scan_number(value, strlen(value), &i, &r, &wide) != 0 || wide;
}

static espl_status
parse_value(struct espl__tree *tree, const char *value, struct espl__node **to,
    struct espl__diag *diag)
{
	struct espl__scan scan;
	struct espl__node *root;
	char *text;
	espl_status status;

	if (!looks_plain(value)) {
		*to = new_node(tree, ESPL__STRING);
		(*to)->text = espl__arena_strdup(&tree->arena, value);
		return is_utf8(value)
		    ? ESPL_OK
		    : espl__fail(diag, ESPL_E_CONFIG, "the value is not valid UTF-8");
	}
	text = espl__format("value = %s", value);
	status = espl__scan_text(&scan, text, strlen(text), "--set", diag);
	if (status == ESPL_OK)
		status = build_nodes(tree, &scan, ESPL_COMMAND, &root, diag);
	if (status == ESPL_OK && root->child_count != 1)
		status = espl__fail(diag, ESPL_E_CONFIG, "more than one value");
	if (status == ESPL_OK)
		*to = root->children[0];
	espl__scan_free(&scan);
	free(text);
	return status;
}

/* Appends (at == child_count) or replaces a child. */
static void
put_child(struct espl__tree *tree, struct espl__node *parent, uint32_t at, struct espl__node *child)
{
	uint32_t count = parent->child_count + (at == parent->child_count);
	struct espl__node **children = espl__arena_alloc(&tree->arena, count * sizeof *children);

	for (uint32_t i = 0; i < parent->child_count; i++)
		children[i] = parent->children[i];
	children[at] = child;
	parent->children = children;
	parent->child_count = count;
	if (parent->type == ESPL__ARRAY) /* its elements may differ now */
		parent->type = ESPL__LIST;
}

/* The end of the part of a path that begins here: '.', '=' or the end, none of them in quotes. */
static const char *
part_end(const char *path)
{
	int quoted = 0;

	for (; *path != '\0' && (quoted || strchr(".=", *path) == NULL); path++)
		quoted ^= *path == '"';
	return path;
}

/* The name that a part stands for, in `part`. */
static espl_status
check_name(char *part, struct espl__diag *diag)
{
	size_t length = strlen(part);

	if (length > 2 && part[0] == '"' && part[length - 1] == '"' &&
	    strchr(part + 1, '"') == part + length - 1) {
		memmove(part, part + 1, length - 2);
		part[length - 2] = '\0';
		return is_utf8(part)
		    ? ESPL_OK
		    : espl__fail(diag, ESPL_E_CONFIG, "the name is not valid UTF-8");
	}
	if (espl__scan_plain(part))
		return ESPL_OK;
	espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a name", part);
	espl__hint(diag, "put a name with other characters in double quotes: \"%s\"", part);
	return ESPL_E_CONFIG;
}

/* Index of the child that `part` names; parent->child_count if it would be new. */
static espl_status
find_child(struct espl__node *parent, char *part, uint32_t *at, struct espl__diag *diag)
{
	size_t length = strlen(part);
	int64_t index;

	if (parent->type == ESPL__GROUP) {
		espl_status status = check_name(part, diag);

		for (*at = 0; *at < parent->child_count; ++*at)
			if (strcmp(parent->children[*at]->name, part) == 0)
				break;
		return status;
	}
	if (parent->type != ESPL__LIST && parent->type != ESPL__ARRAY)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "cannot look up '%s' in %s, which is not a group", part,
		    espl__node_kind(parent));
	if (length > 2 && part[0] == '[' && part[length - 1] == ']') {
		part[length - 1] = '\0';
		part++;
	}
	if (espl__parse_int(part, &index) != 0 || index < 0 || index > parent->child_count) {
		espl__fail(diag, ESPL_E_CONFIG, "'%s' is not an element of the list", part);
		espl__hint(diag, "the elements are numbered from 0 to %u", parent->child_count);
		return ESPL_E_CONFIG;
	}
	*at = (uint32_t)index;
	return ESPL_OK;
}

static espl_status
set_path(struct espl__tree *tree, char *path, struct espl__node *value, struct espl__diag *diag)
{
	struct espl__node *node = tree->root;
	char *rest = path, *part;

	while ((part = rest) != NULL) {
		uint32_t at;
		struct espl__node *child;
		char *end = part + (part_end(part) - part);
		int last = *end == '\0';
		espl_status status;

		rest = last ? NULL : end + 1;
		*end = '\0';
		status = find_child(node, part, &at, diag);
		if (status != ESPL_OK)
			return status;
		if (!last && at < node->child_count) {
			node = node->children[at];
			continue;
		}
		child = last ? value : new_node(tree, ESPL__GROUP);
		child->name =
		    node->type == ESPL__GROUP ? espl__arena_strdup(&tree->arena, part) : NULL;
		put_child(tree, node, at, child);
		node = child;
	}
	return ESPL_OK;
}

espl_status
espl__tree_set(struct espl__tree *tree, const char *assignment, struct espl__diag *diag)
{
	const char *equals = part_end(assignment);
	struct espl__diag inner = ESPL__DIAG_INIT;
	struct espl__node *value = NULL;
	char *path;
	espl_status status;

	ESPL__CHECK(tree, TREE);
	while (*equals == '.')
		equals = part_end(equals + 1);
	if (*equals == '\0' || equals == assignment) {
		espl__fail_at(diag, ESPL_E_CONFIG, "--set", 0, "'%s' is not PATH=VALUE",
		    assignment);
		espl__hint(diag, "for example: --set algorithm.eta=4");
		return ESPL_E_CONFIG;
	}
	path = espl__format("%.*s", (int)(equals - assignment), assignment);
	status = parse_value(tree, equals + 1, &value, &inner);
	if (status == ESPL_OK)
		status = set_path(tree, path, value, &inner);
	if (status != ESPL_OK) {
		espl__fail_at(diag, status, "--set", 0, "%.*s: %s", (int)(equals - assignment),
		    assignment, inner.text);
		if (inner.hint[0] != '\0')
			espl__hint(diag, "%s", inner.hint);
	}
	free(path);
	return status;
}

void
espl__tree_drop(struct espl__tree *tree, const char *group, const char *name)
{
	struct espl__node *node =
	    (struct espl__node *)(uintptr_t)(group != NULL ? espl__node_get(tree->root, group)
							   : tree->root);
	struct espl__node **children;
	uint32_t count = 0;

	ESPL__CHECK(tree, TREE);
	if (espl__node_get(node, name) == NULL)
		return;
	children = espl__arena_alloc(&tree->arena, node->child_count * sizeof *children);
	for (uint32_t i = 0; i < node->child_count; i++)
		if (strcmp(node->children[i]->name, name) != 0)
			children[count++] = node->children[i];
	node->children = children;
	node->child_count = count;
}

/* ---- reading and printing ---------------------------------------------------------- */

const struct espl__node *
espl__node_get(const struct espl__node *node, const char *name)
{
	if (node == NULL || node->type != ESPL__GROUP)
		return NULL;
	for (uint32_t i = 0; i < node->child_count; i++)
		if (strcmp(node->children[i]->name, name) == 0)
			return node->children[i];
	return NULL;
}

const char *
espl__node_kind(const struct espl__node *node)
{
	switch (node->type) {
	case ESPL__GROUP: return "a group";
	case ESPL__LIST: return "a list";
	case ESPL__ARRAY: return "an array";
	case ESPL__INT: return "an integer";
	case ESPL__REAL: return "a real number";
	case ESPL__BOOL: return "true or false";
	case ESPL__STRING: return "a string";
	}
	return "nothing";
}

void
espl__print_quoted(struct espl__buf *buf, const char *text)
{
	espl__put_u8(buf, '"');
	for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
		switch (*c) {
		case '"': espl__print(buf, "\\\""); break;
		case '\\': espl__print(buf, "\\\\"); break;
		case '\n': espl__print(buf, "\\n"); break;
		case '\r': espl__print(buf, "\\r"); break;
		case '\t': espl__print(buf, "\\t"); break;
		default:
			if (*c < 0x20 || *c == 0x7f)
				espl__print(buf, "\\x%02x", *c);
			else
				espl__put_u8(buf, *c);
		}
	}
	espl__put_u8(buf, '"');
}

void
espl__print_real(struct espl__buf *buf, double value)
{
	char text[32];

	espl__format_real(value, text);
	espl__print(buf, "%s%s", text, strpbrk(text, ".eE") == NULL ? ".0" : "");
}

static void
print_tabs(struct espl__buf *buf, int count)
{
	for (int i = 0; i < count; i++)
		espl__put_u8(buf, '\t');
}

/* With quotes if it needs them. */
static void
print_name(struct espl__buf *buf, const char *name)
{
	if (espl__scan_plain(name))
		espl__print(buf, "%s", name);
	else
		espl__print_quoted(buf, name);
}

static void print_value(const struct espl__node *, int indent, struct espl__buf *);

static void
print_elements(const struct espl__node *node, int indent, struct espl__buf *buf)
{
	int lines = 0; /* one element a line? */

	for (uint32_t i = 0; i < node->child_count; i++)
		if (node->children[i]->type <= ESPL__ARRAY)
			lines = 1;
	espl__print(buf, node->type == ESPL__LIST ? "(" : "[");
	for (uint32_t i = 0; i < node->child_count; i++) {
		if (lines) {
			espl__put_u8(buf, '\n');
			print_tabs(buf, indent + 1);
		} else {
			espl__put_u8(buf, ' ');
		}
		print_value(node->children[i], indent + 1, buf);
		if (i + 1 < node->child_count)
			espl__put_u8(buf, ',');
	}
	if (lines) {
		espl__put_u8(buf, '\n');
		print_tabs(buf, indent);
	} else {
		espl__put_u8(buf, ' ');
	}
	espl__print(buf, node->type == ESPL__LIST ? ")" : "]");
}

/* Its value alone, no newline after it. */
static void
print_value(const struct espl__node *node, int indent, struct espl__buf *buf)
{
	switch (node->type) {
	case ESPL__GROUP:
		espl__print(buf, "{\n");
		for (uint32_t i = 0; i < node->child_count; i++)
			espl__node_print(node->children[i], indent + 1, buf);
		print_tabs(buf, indent);
		espl__print(buf, "}");
		break;
	case ESPL__LIST:
	case ESPL__ARRAY: print_elements(node, indent, buf); break;
	case ESPL__INT: espl__print(buf, "%lld", (long long)node->i); break;
	case ESPL__REAL: espl__print_real(buf, node->r); break;
	case ESPL__BOOL: espl__print(buf, node->i ? "true" : "false"); break;
	case ESPL__STRING: espl__print_quoted(buf, node->text); break;
	}
}

void
espl__node_print(const struct espl__node *node, int indent, struct espl__buf *buf)
{
	if (node->name == NULL && node->type == ESPL__GROUP) {
		for (uint32_t i = 0; i < node->child_count; i++)
			espl__node_print(node->children[i], indent, buf);
		return;
	}
	print_tabs(buf, indent);
	if (node->name != NULL) {
		print_name(buf, node->name);
		espl__print(buf, " = ");
	}
	print_value(node, indent, buf);
	espl__print(buf, ";\n");
}
