/* schema.c - a group of the user's against a table of options: every option gets its value, every
 * key of the group its option.
 */
#include "base/assert.h"
#include "config/schema.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/schema_value.h"

/* ---- resolving --------------------------------------------------------------------- */

struct resolve {
	const struct espl_option *options;
	uint32_t count, stride;
	const struct espl__node *group;
	const char *const *known;
	const char *who;
	struct espl__diag *diag;
};

static int
is_known(const struct resolve *r, const char *name)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (strcmp(espl__option_at(r->options, r->stride, i)->name, name) == 0)
			return 1;
	for (const char *const *known = r->known; known != NULL && *known != NULL; known++)
		if (strcmp(*known, name) == 0)
			return 1;
	return 0;
}

static espl_status
unknown_key(const struct resolve *r, const struct espl__node *node)
{
	uint32_t count = 0, room = r->count + 1;
	const char **names, *near;
	char list[400] = "";

	for (const char *const *known = r->known; known != NULL && *known != NULL; known++)
		room++;
	names = espl__alloc(room * sizeof *names);
	for (uint32_t i = 0; i < r->count; i++)
		names[count++] = espl__option_at(r->options, r->stride, i)->name;
	for (const char *const *known = r->known; known != NULL && *known != NULL; known++)
		names[count++] = *known;
	espl__fail_at(r->diag, ESPL_E_CONFIG, node->file, node->line, "%s has no option '%s'",
	    r->who, node->name);
	near = espl__nearest(node->name, names, count);
	for (uint32_t i = 0; i < count; i++) {
		size_t used = strlen(list);

		snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
	}
	if (near != NULL)
		espl__hint(r->diag, "did you mean '%s'?", near);
	else if (count > 0)
		espl__hint(r->diag, "its options are: %s", list);
	else
		espl__hint(r->diag, "it has no options");
	free(names);
	return ESPL_E_CONFIG;
}

static espl_status
check_keys(const struct resolve *r)
{
	if (r->group == NULL)
		return ESPL_OK;
	if (r->group->type != ESPL__GROUP) {
		espl__fail_at(r->diag, ESPL_E_CONFIG, r->group->file, r->group->line,
		    "'%s' must be a group, not %s",
		    r->group->name != NULL ? r->group->name : r->who, espl__node_kind(r->group));
		espl__hint(r->diag, "write a group as { name = value; ... }");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; i < r->group->child_count; i++) {
		const struct espl__node *node = r->group->children[i];

		if (!is_known(r, node->name))
			return unknown_key(r, node);
		for (uint32_t k = 0; k < i && r->group->child_count < 1000; k++)
			if (strcmp(r->group->children[k]->name, node->name) == 0)
				return espl__fail_at(r->diag, ESPL_E_CONFIG, node->file, node->line,
				    "%s: '%s' is set twice", r->who, node->name);
	}
	return ESPL_OK;
}

static espl_status
refuse_missing(const struct resolve *r, const struct espl_option *option)
{
	espl__fail_at(r->diag, ESPL_E_CONFIG, r->group != NULL ? r->group->file : NULL,
	    r->group != NULL ? r->group->line : 0, "%s needs '%s'", r->who, option->name);
	if (option->help != NULL && option->help[0] != '\0')
		espl__hint(r->diag, "%s: %s", option->name, option->help);
	return ESPL_E_CONFIG;
}

static espl_status
resolve_option(const struct resolve *r, struct espl__values *values, uint32_t i,
    struct espl_value *value)
{
	const struct espl_option *option = espl__option_at(r->options, r->stride, i);
	const struct espl__node *node = espl__node_get(r->group, option->name);
	struct espl__value_by by = { .option = option,
		.stride = r->stride,
		.who = r->who,
		.arena = values->arena,
		.diag = r->diag };

	if (node != NULL) {
		values->files[i] = espl__arena_strdup(values->arena, node->file);
		if (option->flags & ESPL_OPT_DEPRECATED)
			espl__log(ESPL_WARN, "%s:%u: %s: '%s' is deprecated: %s", node->file,
			    node->line, r->who, option->name,
			    option->help != NULL ? option->help : "");
		return espl__value_of_node(&by, node, value);
	}
	if (option->fallback != NULL)
		return espl__value_of_text(&by, option->fallback, 1, value);
	if (option->flags & ESPL_OPT_REQUIRED)
		return refuse_missing(r, option);
	return ESPL_OK;
}

espl_status
espl__schema_resolve(const struct espl_option *options, uint32_t count, uint32_t stride,
    const struct espl__node *group, const char *const *known, const char *who, const char *instance,
    struct espl__values **to, struct espl__diag *diag)
{
	struct resolve r = { .options = options,
		.count = count,
		.stride = stride,
		.group = group,
		.known = known,
		.who = who,
		.diag = diag };
	struct espl__values *values;
	struct espl_value *list;
	espl_status status = check_keys(&r);

	ESPL__ASSERT(to != NULL && (count == 0 || options != NULL));
	*to = NULL;
	if (status != ESPL_OK)
		return status;
	values = espl__alloc(sizeof *values);
	values->magic = ESPL__VALUES_MAGIC;
	values->arena = espl__alloc(sizeof(struct espl__arena));
	values->options = options;
	values->option_size = stride;
	values->files = espl__arena_alloc(values->arena, (count + 1) * sizeof *values->files);
	list = espl__arena_alloc(values->arena, (count + 1) * sizeof *list);
	values->config.size = (uint32_t)sizeof values->config;
	values->config.count = count;
	values->config.instance =
	    espl__arena_strdup(values->arena, instance != NULL ? instance : "");
	values->config.values = list;
	for (uint32_t i = 0; status == ESPL_OK && i < count; i++)
		status = resolve_option(&r, values, i, &list[i]);
	if (status != ESPL_OK) {
		espl__values_free(values);
		return status;
	}
	*to = values;
	return ESPL_OK;
}

void
espl__values_free(struct espl__values *values)
{
	if (values == NULL)
		return;
	espl__arena_free(values->arena);
	free(values->arena);
	values->magic = 0;
	free(values);
}

void
espl__values_replace(struct espl__values *values, uint32_t option, const char *text)
{
	/* Read-only for plugins, but the list was made here. */
	struct espl_value *list = (struct espl_value *)(uintptr_t)values->config.values;

	ESPL__CHECK(values, VALUES);
	ESPL__ASSERT(option < values->config.count);
	ESPL__ASSERT(
	    espl__option_at(values->options, values->option_size, option)->type == ESPL_OPT_STRING);
	list[option].as.s = espl__arena_strdup(values->arena, text);
}

void
espl__values_blame(const struct espl__values *values, const struct espl_error *error,
    struct espl__diag *diag)
{
	const struct espl_value *value;
	uint32_t line;

	ESPL__CHECK(values, VALUES);
	if (diag == NULL || error == NULL || error->option >= values->config.count)
		return;
	value = &values->config.values[error->option];
	line = value->line;
	if (value->source != ESPL_UNSET && value->as.table != NULL &&
	    espl__option_at(values->options, values->option_size, error->option)->type ==
		ESPL_OPT_TABLE &&
	    error->row < value->as.table->row_count) {
		const struct espl_table *table = value->as.table;

		for (uint32_t c = 0; c < table->column_count; c++) {
			const struct espl_value *cell =
			    &table->cells[(size_t)error->row * table->column_count + c];

			if (cell->line != 0) {
				line = cell->line;
				break;
			}
		}
	}
	if (values->files[error->option] == NULL || diag->file[0] != '\0')
		return;
	snprintf(diag->file, sizeof diag->file, "%s", values->files[error->option]);
	diag->line = line;
}

/* ---- printing ---------------------------------------------------------------------- */

static void
print_span(struct espl__buf *buf, espl_span span)
{
	char text[32];

	espl__print(buf, "\"%s\"", espl__format_span(span, text));
}

static void
print_latency(struct espl__buf *buf, const struct espl_latency *latency)
{
	static const char *const names[] = { "", "constant", "normal", "lognormal", "empirical" };

	if (latency->kind == ESPL_CONSTANT) {
		print_span(buf, (espl_span)llround(latency->mean_s * 1e9));
		return;
	}
	espl__print(buf, "{ dist = \"%s\"; ", names[latency->kind]);
	if (latency->kind == ESPL_EMPIRICAL) {
		espl__print(buf, "samples = [ ");
		for (uint32_t i = 0; i < latency->sample_count; i++) {
			espl__print(buf, "%s", i > 0 ? ", " : "");
			espl__print_real(buf, latency->samples_s[i]);
		}
		espl__print(buf, " ]; }");
		return;
	}
	espl__print(buf, "mean = ");
	print_span(buf, (espl_span)llround(latency->mean_s * 1e9));
	espl__print(buf, "; sd = ");
	print_span(buf, (espl_span)llround(latency->sd_s * 1e9));
	espl__print(buf, "; }");
}

static void print_value(const struct espl_option *, uint32_t stride, const struct espl_value *,
    struct espl__buf *);

static void
print_row(const struct espl_option *option, uint32_t stride, const struct espl_value *cells,
    struct espl__buf *buf)
{
	espl__print(buf, "{ ");
	for (uint32_t c = 0; c < option->column_count; c++) {
		const struct espl_option *column = espl__option_at(option->columns, stride, c);

		if (cells[c].source == ESPL_UNSET || (column->flags & ESPL_OPT_SECRET))
			continue;
		espl__print(buf, "%s = ", column->name);
		print_value(column, stride, &cells[c], buf);
		espl__print(buf, "; ");
	}
	espl__print(buf, "}");
}

static void
print_money(struct espl__buf *buf, espl_money money)
{
	char text[32];

	espl__format_money(money, text);
	/* Beyond this a double does not hold every micro-dollar. */
	if (money < INT64_C(1000000000) * ESPL_USD && money > -INT64_C(1000000000) * ESPL_USD)
		espl__print(buf, "%s", text);
	else
		espl__print(buf, "\"%s\"", text);
}

/* One value as libconfig text. */
static void
print_value(const struct espl_option *option, uint32_t stride, const struct espl_value *value,
    struct espl__buf *buf)
{
	char text[256];

	switch (option->type) {
	case ESPL_OPT_BOOL: espl__print(buf, value->as.i ? "true" : "false"); break;
	case ESPL_OPT_INT:
	case ESPL_OPT_BYTES: espl__print(buf, "%lld", (long long)value->as.i); break;
	case ESPL_OPT_REAL: espl__print_real(buf, value->as.r); break;
	case ESPL_OPT_SPAN: print_span(buf, value->as.i); break;
	case ESPL_OPT_MONEY: print_money(buf, value->as.i); break;
	case ESPL_OPT_CHOICE:
		espl__choice_at(option->choices, (uint32_t)value->as.i, text, sizeof text);
		espl__print_quoted(buf, text);
		break;
	case ESPL_OPT_LATENCY: print_latency(buf, value->as.latency); break;
	case ESPL_OPT_TABLE:
		espl__print(buf, "( ");
		for (uint32_t row = 0; row < value->as.table->row_count; row++) {
			espl__print(buf, "%s", row > 0 ? ",\n\t\t" : "");
			print_row(option, stride,
			    &value->as.table->cells[(size_t)row * value->as.table->column_count],
			    buf);
		}
		espl__print(buf, " )");
		break;
	default: espl__print_quoted(buf, value->as.s);
	}
}

int
espl__values_print(const struct espl__values *values, uint32_t option, struct espl__buf *buf)
{
	const struct espl_option *desc =
	    espl__option_at(values->options, values->option_size, option);
	const struct espl_value *value = &values->config.values[option];

	ESPL__ASSERT(option < values->config.count);
	ESPL__CHECK(values, VALUES);
	if ((desc->flags & ESPL_OPT_SECRET) || value->source == ESPL_UNSET)
		return 0;
	print_value(desc, values->option_size, value, buf);
	return 1;
}
