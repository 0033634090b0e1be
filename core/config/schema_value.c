/* schema_value.c - one value by one option's rules: its type, its limits, its columns.
 *
 * Values that no file holds (fallbacks and limits of a descriptor, bare words after --set) come as
 * text and may be of any scalar type; in a file the types of libconfig are insisted on.
 */
#include "base/assert.h"
#include "config/schema_value.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

/* ---- names ------------------------------------------------------------------------- */

const char *
espl__option_type_name(espl_option_type type)
{
	static const char *const names[] = {
		NULL,
		"boolean",
		"integer",
		"real",
		"string",
		"choice",
		"span",
		"bytes",
		"money",
		"path",
		"latency",
		"table",
		"plugin",
	};

	return type < sizeof names / sizeof names[0] ? names[type] : NULL;
}

/* "'name'" or "column 'c' of 'name'" into `to`. */
static const char *
label_option(const struct espl__value_by *by, char to[200])
{
	ESPL__ASSERT(by->option != NULL);
	if (by->table != NULL)
		snprintf(to, 200, "column '%.60s' of '%.60s'", by->option->name, by->table->name);
	else
		snprintf(to, 200, "'%.120s'", by->option->name);
	return to;
}

int
espl__choice_find(const char *choices, const char *text)
{
	size_t length = strlen(text);
	int index = 0;

	for (const char *at = choices; at != NULL; index++) {
		const char *bar = strchr(at, '|');
		size_t size = bar != NULL ? (size_t)(bar - at) : strlen(at);

		if (size == length && memcmp(at, text, size) == 0)
			return index;
		at = bar != NULL ? bar + 1 : NULL;
	}
	return -1;
}

uint32_t
espl__choice_count(const char *choices)
{
	uint32_t count = 1;

	for (const char *at = choices; (at = strchr(at, '|')) != NULL; at++)
		count++;
	return count;
}

void
espl__choice_at(const char *choices, uint32_t index, char *to, size_t room)
{
	const char *at = choices;

	ESPL__ASSERT(choices != NULL && room > 0);
	for (; index > 0 && at != NULL; index--) {
		at = strchr(at, '|');
		if (at != NULL)
			at++;
	}
	snprintf(to, room, "%.*s", at != NULL ? (int)strcspn(at, "|") : 0, at != NULL ? at : "");
}

/* ---- messages ---------------------------------------------------------------------- */

static const char *
wanted_type(const struct espl_option *option)
{
	static const char *const texts[] = {
		"",
		"true or false",
		"an integer",
		"a number",
		"a string",
		"a string",
		"a time span",
		"a size",
		"an amount of money",
		"a path",
		"a latency",
		"a list of rows",
		"the name of a plugin, or a group with 'use'",
	};

	return option->type < sizeof texts / sizeof texts[0] ? texts[option->type]
							     : "of a type that this version knows";
}

static const char *
example_hint(const struct espl_option *option)
{
	static const char *const texts[] = {
		NULL,
		"write true or false, without quotes",
		"write a whole number without quotes",
		"write a number without quotes",
		"write text in quotes: \"...\"",
		NULL,
		"write a time span with its unit: \"250ms\", \"90s\", \"1h30m\"",
		"write a size as a number of bytes, or with a unit: \"64KiB\", \"1.5GB\"",
		"write dollars without quotes: 12.24",
		"write the file name in quotes",
		"write a span (\"15s\") or { dist = \"normal\"; mean = \"15s\"; sd = \"2s\"; }",
		"write ( (1, 2), (3, 4) ) or ( { name = value; ... }, ... )",
		"write \"NAME\" or { use = \"NAME\"; option = value; ... }",
	};

	return option->type < sizeof texts / sizeof texts[0] ? texts[option->type] : NULL;
}

static espl_status
wrong_type(const struct espl__value_by *by, const struct espl__node *node)
{
	char label[200];

	label_option(by, label);
	if (node->type == ESPL__STRING && !(by->option->flags & ESPL_OPT_SECRET))
		espl__fail_at(by->diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s: %s must be %s, not \"%.100s\"", by->who, label, wanted_type(by->option),
		    node->text);
	else
		espl__fail_at(by->diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s: %s must be %s, not %s", by->who, label, wanted_type(by->option),
		    espl__node_kind(node));
	if (by->option->type == ESPL_OPT_SPAN &&
	    (node->type == ESPL__INT || node->type == ESPL__REAL))
		espl__hint(by->diag, "write the unit: \"%.9gs\"", node->r);
	else if (example_hint(by->option) != NULL)
		espl__hint(by->diag, "%s", example_hint(by->option));
	return ESPL_E_CONFIG;
}

static espl_status
wrong_choice(const struct espl__value_by *by, const struct espl__node *node)
{
	const char *const *names;
	const char *near;
	char **copies;
	uint32_t count = espl__choice_count(by->option->choices);
	char label[200], list[400];

	copies = espl__arena_alloc(by->arena, count * sizeof *copies);
	list[0] = '\0';
	for (uint32_t i = 0; i < count; i++) {
		size_t used = strlen(list);

		copies[i] = espl__arena_alloc(by->arena, 128);
		espl__choice_at(by->option->choices, i, copies[i], 128);
		snprintf(list + used, sizeof list - used, "%s\"%s\"", i > 0 ? ", " : "", copies[i]);
	}
	names = (const char *const *)copies;
	espl__fail_at(by->diag, ESPL_E_CONFIG, node->file, node->line,
	    "%s: %s cannot be \"%.100s\"", by->who, label_option(by, label), node->text);
	near = espl__nearest(node->text, names, count);
	if (near != NULL)
		espl__hint(by->diag, "did you mean \"%s\"?", near);
	else
		espl__hint(by->diag, "use one of %s", list);
	return ESPL_E_CONFIG;
}

static espl_status
out_of_limits(const struct espl__value_by *by, const struct espl__node *node, const char *limit,
    int above)
{
	const struct espl_option *option = by->option;
	char label[200];

	label_option(by, label);
	if (option->type == ESPL_OPT_TABLE)
		espl__fail_at(by->diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s: %s has %u rows, %s than %s", by->who, label, node->child_count,
		    above ? "more" : "fewer", limit);
	else if ((option->flags & ESPL_OPT_SECRET) || node->text == NULL)
		espl__fail_at(by->diag, ESPL_E_CONFIG, node->file, node->line, "%s: %s is %s %s",
		    by->who, label, above ? "above" : "below", limit);
	else
		espl__fail_at(by->diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s: %s = %.100s is %s %s", by->who, label, node->text,
		    above ? "above its maximum" : "below its minimum", limit);
	if (option->min != NULL && option->max != NULL)
		espl__hint(by->diag, "the range is %s to %s", option->min, option->max);
	else if (option->min != NULL)
		espl__hint(by->diag, "the minimum is %s", option->min);
	else
		espl__hint(by->diag, "the maximum is %s", option->max);
	return ESPL_E_CONFIG;
}

/* ---- limits ------------------------------------------------------------------------ */

/* -1, 0, 1 as the value is below, equal to or above the limit; a bad limit is caught elsewhere. */
static int
compare_limit(const struct espl__value_by *by, const struct espl_value *value, const char *limit)
{
	struct espl_value other;
	struct espl__value_by quiet = *by;
	int64_t rows;

	if (by->option->type == ESPL_OPT_TABLE) {
		if (espl__parse_int(limit, &rows) != 0)
			return 0;
		return (value->as.table->row_count > rows) - (value->as.table->row_count < rows);
	}
	quiet.diag = NULL;
	if (espl__value_of_text(&quiet, limit, 0, &other) != ESPL_OK)
		return 0;
	switch (by->option->type) {
	case ESPL_OPT_REAL: return (value->as.r > other.as.r) - (value->as.r < other.as.r);
	case ESPL_OPT_LATENCY:
		return (value->as.latency->mean_s > other.as.latency->mean_s) -
		    (value->as.latency->mean_s < other.as.latency->mean_s);
	case ESPL_OPT_INT:
	case ESPL_OPT_SPAN:
	case ESPL_OPT_BYTES:
	case ESPL_OPT_MONEY: return (value->as.i > other.as.i) - (value->as.i < other.as.i);
	default: return 0;
	}
}

static espl_status
check_limits(const struct espl__value_by *by, const struct espl__node *node,
    const struct espl_value *value)
{
	if (by->option->min != NULL && compare_limit(by, value, by->option->min) < 0)
		return out_of_limits(by, node, by->option->min, 0);
	if (by->option->max != NULL && compare_limit(by, value, by->option->max) > 0)
		return out_of_limits(by, node, by->option->max, 1);
	return ESPL_OK;
}

/* ---- tables ------------------------------------------------------------------------ */

static const struct espl_option *
column_at(const struct espl__value_by *by, uint32_t column)
{
	return espl__option_at(by->option->columns, by->stride, column);
}

/* The node of a column in a row, or NULL. */
static const struct espl__node *
cell_of(const struct espl__value_by *by, const struct espl__node *row, uint32_t column)
{
	if (row->type == ESPL__GROUP)
		return espl__node_get(row, column_at(by, column)->name);
	if (row->type == ESPL__LIST || row->type == ESPL__ARRAY)
		return column < row->child_count ? row->children[column] : NULL;
	return column == 0 ? row : NULL; /* a table of one column may list bare values */
}

static espl_status
check_row(const struct espl__value_by *by, const struct espl__node *row)
{
	const char **names;

	if (row->type == ESPL__LIST || row->type == ESPL__ARRAY) {
		if (row->child_count <= by->option->column_count)
			return ESPL_OK;
		espl__fail_at(by->diag, ESPL_E_CONFIG, row->file, row->line,
		    "%s: a row of '%s' has %u values for %u columns", by->who, by->option->name,
		    row->child_count, by->option->column_count);
		return ESPL_E_CONFIG;
	}
	if (row->type != ESPL__GROUP) {
		if (by->option->column_count == 1)
			return ESPL_OK;
		espl__fail_at(by->diag, ESPL_E_CONFIG, row->file, row->line,
		    "%s: a row of '%s' must be a list or a group, not %s", by->who,
		    by->option->name, espl__node_kind(row));
		espl__hint(by->diag, "%s", example_hint(by->option));
		return ESPL_E_CONFIG;
	}
	names = espl__arena_alloc(by->arena, by->option->column_count * sizeof *names);
	for (uint32_t c = 0; c < by->option->column_count; c++)
		names[c] = column_at(by, c)->name;
	for (uint32_t i = 0; i < row->child_count; i++) {
		const struct espl__node *cell = row->children[i];
		const char *near;
		uint32_t c;

		for (c = 0; c < by->option->column_count && strcmp(names[c], cell->name) != 0; c++)
			;
		if (c < by->option->column_count)
			continue;
		espl__fail_at(by->diag, ESPL_E_CONFIG, cell->file, cell->line,
		    "%s: '%s' has no column '%s'", by->who, by->option->name, cell->name);
		near = espl__nearest(cell->name, names, by->option->column_count);
		if (near != NULL)
			espl__hint(by->diag, "did you mean '%s'?", near);
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
read_row(const struct espl__value_by *by, const struct espl__node *row, struct espl_value *cells)
{
	espl_status status = check_row(by, row);

	for (uint32_t c = 0; status == ESPL_OK && c < by->option->column_count; c++) {
		const struct espl__node *node = cell_of(by, row, c);
		struct espl__value_by cell = *by;

		cell.option = column_at(by, c);
		cell.table = by->option;
		if (node != NULL)
			status = espl__value_of_node(&cell, node, &cells[c]);
		else if (cell.option->fallback != NULL)
			status = espl__value_of_text(&cell, cell.option->fallback, 1, &cells[c]);
		else if (cell.option->flags & ESPL_OPT_REQUIRED)
			status = espl__fail_at(by->diag, ESPL_E_CONFIG, row->file, row->line,
			    "%s: this row of '%s' has no '%s'", by->who, by->option->name,
			    cell.option->name);
	}
	return status;
}

static espl_status
read_table(const struct espl__value_by *by, const struct espl__node *node, struct espl_value *value)
{
	struct espl_table *table;
	struct espl_value *cells;
	espl_status status = ESPL_OK;

	if (node->type != ESPL__LIST && node->type != ESPL__ARRAY)
		return wrong_type(by, node);
	table = espl__arena_alloc(by->arena, sizeof *table);
	table->size = (uint32_t)sizeof *table;
	table->row_count = node->child_count;
	table->column_count = by->option->column_count;
	cells = espl__arena_alloc(by->arena,
	    ((size_t)node->child_count * table->column_count + 1) * sizeof *cells);
	for (uint32_t row = 0; status == ESPL_OK && row < node->child_count; row++)
		status =
		    read_row(by, node->children[row], &cells[(size_t)row * table->column_count]);
	table->cells = cells;
	value->as.table = table;
	return status;
}

/* ---- scalars ----------------------------------------------------------------------- */

static int
read_bool(const struct espl__node *node, int loose, struct espl_value *value)
{
	if (node->type == ESPL__BOOL) {
		value->as.i = node->i;
		return 0;
	}
	if (!loose || node->text == NULL)
		return -1;
	return espl__parse_bool(node->text, &value->as.i);
}

static int
read_number(const struct espl__value_by *by, const struct espl__node *node, int loose,
    struct espl_value *value)
{
	if (node->type == ESPL__STRING && !loose)
		return -1;
	if (by->option->type == ESPL_OPT_INT) {
		value->as.i = node->i;
		if (node->type == ESPL__STRING)
			return espl__parse_int(node->text, &value->as.i);
		return node->type == ESPL__INT ? 0 : -1;
	}
	value->as.r = node->r;
	if (node->type == ESPL__STRING)
		return espl__parse_real(node->text, &value->as.r);
	return node->type == ESPL__INT || node->type == ESPL__REAL ? 0 : -1;
}

/* Spans and sizes are text for their units; money has none. */
static int
read_amount(const struct espl__value_by *by, const struct espl__node *node, int loose,
    struct espl_value *value)
{
	int number = node->type == ESPL__INT || node->type == ESPL__REAL;

	if (node->type != ESPL__STRING && !number)
		return -1;
	switch (by->option->type) {
	case ESPL_OPT_SPAN:
		value->as.i = 0;
		return number ? (node->r == 0 ? 0 : -1)
			      : espl__parse_span(node->text, &value->as.i);
	case ESPL_OPT_BYTES:
		if (node->type == ESPL__REAL || (number && node->i < 0))
			return -1;
		return espl__parse_bytes(node->text, &value->as.i);
	default:
		if (!number && !loose)
			return -1;
		return espl__parse_money(node->text, &value->as.i);
	}
}

static espl_status
read_choice(const struct espl__value_by *by, const struct espl__node *node,
    struct espl_value *value)
{
	int index;

	if (node->type != ESPL__STRING)
		return wrong_type(by, node);
	index = espl__choice_find(by->option->choices, node->text);
	if (index < 0)
		return wrong_choice(by, node);
	value->as.i = index;
	return ESPL_OK;
}

static espl_status
read_text(const struct espl__value_by *by, const struct espl__node *node, int loose,
    struct espl_value *value)
{
	char label[200];

	if (node->type != ESPL__STRING && !(loose && node->text != NULL))
		return wrong_type(by, node);
	if (by->option->type == ESPL_OPT_PATH && node->text[0] == '\0')
		return espl__fail_at(by->diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s: %s must be a path, but is empty", by->who, label_option(by, label));
	value->as.s = espl__arena_strdup(by->arena, node->text);
	return ESPL_OK;
}

/* The name; the group's other members are read when that plugin is made. */
static int
read_plugin(const struct espl__value_by *by, const struct espl__node *node,
    struct espl_value *value)
{
	if (node->type == ESPL__GROUP)
		node = espl__node_get(node, "use");
	if (node == NULL || node->type != ESPL__STRING || node->text[0] == '\0')
		return -1;
	value->as.s = espl__arena_strdup(by->arena, node->text);
	return 0;
}

static espl_status
read_value(const struct espl__value_by *by, const struct espl__node *node, struct espl_value *value)
{
	int loose = node->source != ESPL_FILE;
	int bad;
	char name[200];

	switch (by->option->type) {
	case ESPL_OPT_BOOL: bad = read_bool(node, loose, value); break;
	case ESPL_OPT_INT:
	case ESPL_OPT_REAL: bad = read_number(by, node, loose, value); break;
	case ESPL_OPT_SPAN:
	case ESPL_OPT_BYTES:
	case ESPL_OPT_MONEY: bad = read_amount(by, node, loose, value); break;
	case ESPL_OPT_STRING:
	case ESPL_OPT_PATH: return read_text(by, node, loose, value);
	case ESPL_OPT_CHOICE: return read_choice(by, node, value);
	case ESPL_OPT_LATENCY:
		snprintf(name, sizeof name, "%.80s: '%.80s'", by->who, by->option->name);
		return espl__latency_parse(node, name, by->arena, &value->as.latency, by->diag);
	case ESPL_OPT_TABLE: return read_table(by, node, value);
	case ESPL_OPT_PLUGIN: bad = read_plugin(by, node, value); break;
	default: bad = -1;
	}
	return bad ? wrong_type(by, node) : ESPL_OK;
}

espl_status
espl__value_of_node(const struct espl__value_by *by, const struct espl__node *node,
    struct espl_value *value)
{
	espl_status status;

	ESPL__ASSERT(by->option != NULL && node != NULL);
	memset(value, 0, sizeof *value);
	status = read_value(by, node, value);
	if (status == ESPL_OK)
		status = check_limits(by, node, value);
	if (status != ESPL_OK) {
		memset(value, 0, sizeof *value);
		return status;
	}
	value->source = node->source;
	value->line = node->line;
	return ESPL_OK;
}

/* The cells of a default table were read like a file's, but stand in none. */
static void
unplace_cells(const struct espl_table *table)
{
	/* our own, from the arena */
	struct espl_value *cells = (struct espl_value *)table->cells;

	for (size_t i = 0; i < (size_t)table->row_count * table->column_count; i++) {
		if (cells[i].source != ESPL_UNSET)
			cells[i].source = ESPL_FALLBACK;
		cells[i].line = 0;
	}
}

espl_status
espl__value_of_text(const struct espl__value_by *by, const char *text, int limits,
    struct espl_value *value)
{
	struct espl__node bare = { .type = ESPL__STRING, .text = text, .source = ESPL_FALLBACK };
	const struct espl__node *node = &bare;
	struct espl__tree *tree = NULL;
	espl_status status = ESPL_OK;

	ESPL__ASSERT(by->option != NULL && text != NULL);
	memset(value, 0, sizeof *value);
	if (by->option->type == ESPL_OPT_TABLE ||
	    (by->option->type == ESPL_OPT_LATENCY && text[0] == '{')) {
		char *setting = espl__format("v = %s", text);

		status = espl__tree_parse(setting, "(default)", &tree, by->diag);
		free(setting);
		if (status != ESPL_OK)
			return status;
		node = espl__tree_root(tree)->child_count == 1 ? espl__tree_root(tree)->children[0]
							       : NULL;
		if (node == NULL)
			status = espl__fail(by->diag, ESPL_E_CONFIG,
			    "%s: the default of '%s' is not a single value", by->who,
			    by->option->name);
	}
	if (status == ESPL_OK)
		status = read_value(by, node, value);
	if (status == ESPL_OK && limits)
		status = check_limits(by, node, value);
	espl__tree_free(tree);
	if (status == ESPL_OK) {
		value->source = ESPL_FALLBACK;
		value->line = 0;
		if (by->option->type == ESPL_OPT_TABLE)
			unplace_cells(value->as.table);
	}
	return status;
}

const struct espl_option *
espl__option_at(const struct espl_option *options, uint32_t stride, uint32_t i)
{
	return (
	    const struct espl_option *)(const void *)((const char *)options + (size_t)stride * i);
}
