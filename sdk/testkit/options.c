/* options.c - "key=value ..." read by a plugin's option table, as the host reads a file's group.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit.h"

struct unit {
	const char *name;
	double factor;
};
static const struct unit spans[] = {
	{ "ns", 1 },
	{ "us", 1e3 },
	{ "ms", 1e6 },
	{ "s", 1e9 },
	{ "m", 60e9 },
	{ "h", 3600e9 },
	{ "d", 86400e9 },
	{ NULL, 0 },
};
static const struct unit sizes[] = {
	{ "B", 1 },
	{ "kB", 1e3 },
	{ "MB", 1e6 },
	{ "GB", 1e9 },
	{ "KiB", 1024.0 },
	{ "MiB", 1048576.0 },
	{ "GiB", 1073741824.0 },
	{ NULL, 0 },
};

static const struct espl_option *
option_at(const struct espl_option *options, uint32_t stride, uint32_t i)
{
	return (const struct espl_option *)((uintptr_t)options + (uintptr_t)stride * i);
}

static espl_status ESPL_PRINTF(3, 4)
    bad(struct espl_error *error, uint32_t option, const char *format, ...)
{
	va_list list;

	if (error->status == ESPL_OK) {
		error->status = ESPL_E_CONFIG;
		error->option = option;
		va_start(list, format);
		(void)vsnprintf(error->text, sizeof error->text, format, list);
		va_end(list);
	}
	return ESPL_E_CONFIG;
}

/* "90s", "1h30m", "2GiB": a sum of numbers with units; a bare number counts `bare` each. */
static int
read_units(const char *text, const struct unit *units, double bare, double *sum)
{
	*sum = 0;
	do {
		char *end;
		double number = strtod(text, &end);
		size_t length;
		const struct unit *unit;

		if (end == text || !isfinite(number))
			return -1;
		length = strcspn(end, "0123456789.+-");
		if (length == 0 && *end == '\0') {
			*sum += number * bare;
			return 0;
		}
		for (unit = units; unit->name != NULL; unit++)
			if (strlen(unit->name) == length && strncmp(unit->name, end, length) == 0)
				break;
		if (unit->name == NULL)
			return -1;
		*sum += number * unit->factor;
		text = end + length;
	} while (*text != '\0');
	return 0;
}

static int
read_choice(const char *choices, const char *text, int64_t *index)
{
	size_t length;

	for (*index = 0; choices != NULL && *choices != '\0'; (*index)++) {
		length = strcspn(choices, "|");
		if (strlen(text) == length && strncmp(choices, text, length) == 0)
			return 0;
		choices += length + (choices[length] == '|');
	}
	return -1;
}

/* One value of any type but TABLE.  0, or -1: the text is none. */
static int
read_value(struct espl_kit *kit, const struct espl_option *option, const char *text,
    struct espl_value *value)
{
	struct espl_latency *latency;
	char *end;
	double number = 0;

	errno = 0;
	switch (option->type) {
	case ESPL_OPT_BOOL:
		value->as.i = strcmp(text, "true") == 0;
		return value->as.i || strcmp(text, "false") == 0 ? 0 : -1;
	case ESPL_OPT_INT:
		value->as.i = strtoll(text, &end, 0);
		return errno == 0 && end != text && *end == '\0' ? 0 : -1;
	case ESPL_OPT_REAL:
		value->as.r = strtod(text, &end);
		return end != text && *end == '\0' && !isnan(value->as.r) ? 0 : -1;
	case ESPL_OPT_STRING:
	case ESPL_OPT_PLUGIN:
	case ESPL_OPT_PATH: value->as.s = espl__kit_text(kit, text, strlen(text)); return 0;
	case ESPL_OPT_CHOICE: return read_choice(option->choices, text, &value->as.i);
	case ESPL_OPT_SPAN:
	case ESPL_OPT_LATENCY:
		if (read_units(text, spans, 1e9, &number) != 0 || fabs(number) > 9e18)
			return -1;
		value->as.i = (int64_t)number;
		if (option->type == ESPL_OPT_SPAN)
			return 0;
		latency = espl__kit_alloc(kit, sizeof *latency);
		latency->size = (uint32_t)sizeof *latency;
		latency->kind = ESPL_CONSTANT;
		latency->mean_s = number / 1e9;
		value->as.latency = latency;
		return 0;
	case ESPL_OPT_BYTES:
		if (read_units(text, sizes, 1, &number) != 0 || number < 0 || number > 9e18)
			return -1;
		value->as.i = (int64_t)number;
		return 0;
	case ESPL_OPT_MONEY:
		value->as.i = llround(strtod(text, &end) * 1e6);
		return end != text && *end == '\0' ? 0 : -1;
	default: return -1;
	}
}

/* -1: below the option's minimum, 1: above its maximum, 0: fine, or it has no order. */
static int
compare_limits(struct espl_kit *kit, const struct espl_option *option,
    const struct espl_value *value)
{
	struct espl_value limit = { { 0 }, 0, 0 };
	int real = option->type == ESPL_OPT_REAL;

	if (option->type == ESPL_OPT_STRING || option->type == ESPL_OPT_PATH ||
	    option->type == ESPL_OPT_PLUGIN || option->type == ESPL_OPT_CHOICE ||
	    option->type == ESPL_OPT_TABLE || option->type == ESPL_OPT_LATENCY)
		return 0;
	if (option->min != NULL && read_value(kit, option, option->min, &limit) == 0 &&
	    (real ? value->as.r < limit.as.r : value->as.i < limit.as.i))
		return -1;
	if (option->max != NULL && read_value(kit, option, option->max, &limit) == 0 &&
	    (real ? value->as.r > limit.as.r : value->as.i > limit.as.i))
		return 1;
	return 0;
}

static espl_status
take_option(struct espl_kit *kit, const struct espl_option *option, uint32_t number,
    const char *text, espl_source source, struct espl_value *value, struct espl_error *error)
{
	int out;

	if (read_value(kit, option, text, value) != 0)
		return bad(error, number, "'%s' cannot be %s", option->name, text);
	out = compare_limits(kit, option, value);
	if (out != 0)
		return bad(error, number, "'%s' is %s: %s", option->name,
		    out < 0 ? "below its minimum" : "above its maximum", text);
	value->source = source;
	return ESPL_OK;
}

/* "(32,1)(10,3)": rows of cells. */
static espl_status
read_table(struct espl_kit *kit, const struct espl_option *option, uint32_t stride, uint32_t number,
    const char *text, struct espl_value *value, struct espl_error *error)
{
	struct espl_table *table = espl__kit_alloc(kit, sizeof *table);
	struct espl_value *cells;
	uint32_t rows = 0, column;
	const char *at;

	for (at = text; *at != '\0'; at++)
		rows += *at == '(';
	cells =
	    espl__kit_alloc(kit, (size_t)(rows + 1) * (option->column_count + 1) * sizeof *cells);
	table->size = (uint32_t)sizeof *table;
	table->column_count = option->column_count;
	table->cells = cells;
	for (at = text; *at != '\0'; at += strspn(at, ",")) {
		if (*at++ != '(')
			return bad(error, number, "'%s' is not a table: %s", option->name, text);
		for (column = 0; column < option->column_count; column++) {
			const struct espl_option *cell = option_at(option->columns, stride, column);
			size_t length = strcspn(at, ",)");
			char *word = espl__kit_text(kit, at, length);
			espl_status status = ESPL_OK;

			if (length > 0)
				status = take_option(kit, cell, number, word, ESPL_FILE,
				    &cells[table->row_count * option->column_count + column],
				    error);
			if (status != ESPL_OK) {
				error->row = table->row_count;
				return status;
			}
			at += length;
			if (*at == ',' && column + 1 < option->column_count)
				at++;
		}
		if (*at != ')')
			return bad(error, number, "'%s' has a row that is too long", option->name);
		at++;
		table->row_count++;
	}
	value->as.table = table;
	value->source = ESPL_FILE;
	return ESPL_OK;
}

/* The next word, quotes taken off; NULL at the end. */
static char *
next_word(struct espl_kit *kit, const char **text)
{
	const char *at = *text + strspn(*text, " \t\n");
	char *word = espl__kit_alloc(kit, strlen(at) + 1);
	size_t n = 0;
	int quoted = 0;

	if (*at == '\0')
		return NULL;
	for (; *at != '\0' && (quoted || strchr(" \t\n", *at) == NULL); at++) {
		if (*at == '\'')
			quoted = !quoted;
		else
			word[n++] = *at;
	}
	*text = at;
	return word;
}

espl_status
espl__kit_options(struct espl_kit *kit, const struct espl_plugin *plugin, const char *text,
    struct espl_error *error)
{
	struct espl_value *values =
	    espl__kit_alloc(kit, ((size_t)plugin->option_count + 1) * sizeof *values);
	espl_status status = ESPL_OK;
	uint32_t i;
	char *word;

	while (status == ESPL_OK && text != NULL && (word = next_word(kit, &text)) != NULL) {
		char *equals = strchr(word, '=');
		const struct espl_option *option = NULL;

		if (equals != NULL)
			*equals = '\0';
		for (i = 0; i < plugin->option_count; i++) {
			option = option_at(plugin->options, plugin->option_size, i);
			if (strcmp(option->name, word) == 0)
				break;
		}
		if (equals == NULL || i == plugin->option_count)
			return bad(error, ESPL_ANY, "'%s' is not an option", word);
		status = option->type == ESPL_OPT_TABLE
		    ? read_table(kit, option, plugin->option_size, i, equals + 1, &values[i], error)
		    : take_option(kit, option, i, equals + 1, ESPL_FILE, &values[i], error);
	}
	for (i = 0; i < plugin->option_count && status == ESPL_OK; i++) {
		const struct espl_option *option =
		    option_at(plugin->options, plugin->option_size, i);

		if (values[i].source != ESPL_UNSET)
			continue;
		if ((option->flags & ESPL_OPT_REQUIRED) != 0)
			status = bad(error, i, "'%s' is missing", option->name);
		else if (option->fallback != NULL && option->type == ESPL_OPT_TABLE)
			status = read_table(kit, option, plugin->option_size, i, option->fallback,
			    &values[i], error);
		else if (option->fallback != NULL)
			status = take_option(kit, option, i, option->fallback, ESPL_FALLBACK,
			    &values[i], error);
	}
	memset(&kit->config, 0, sizeof kit->config);
	kit->config.size = (uint32_t)sizeof kit->config;
	kit->config.count = plugin->option_count;
	kit->config.instance = plugin->name;
	kit->config.values = values;
	return status;
}
