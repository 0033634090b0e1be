/* earlier_read.c - what was observed before this run, from the CSV of recorded curves and as one.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "input/csv.h"
#include "input/input.h"
#include "model/earlier_impl.h"
#include "model/space_impl.h"

#define FAIL(c_, ...) espl__fail_at(diag, ESPL_E_CONFIG, (c_)->file, (c_)->line, __VA_ARGS__)

struct header {
	char **names; /* [column] */
	/* [column]: 1 + number among the space's items; 0 unknown there */
	uint32_t *items;
	uint32_t *columns; /* [param]: its column, 0 none */
	uint32_t count, iteration, metric;
};

/* ---- one configuration ----------------------------------------------------------------------- */

/* A field as the node it would be in a configuration file. */
static struct espl__node
node_of(const struct espl__csv *c, uint32_t column)
{
	struct espl__node n = { .type = ESPL__STRING,
		.line = c->line,
		.file = c->file,
		.text = c->fields[column] };

	if (espl__parse_real(n.text, &n.r) == 0)
		n.type = ESPL__REAL;
	return n;
}

static int
constant_fits(const struct espl__label *l, const struct espl__node *n)
{
	return l->kind == ESPL__LABEL_NUMBER ? n->type == ESPL__REAL && n->r == l->number
					     : strcmp(l->text, n->text) == 0;
}

/* What the space has no place for. */
static espl_status
check_names(const struct espl__csv *c, const struct espl__earlier *e, const struct header *h,
    struct espl__diag *diag)
{
	for (uint32_t i = 1; i < h->iteration; i++) {
		const struct espl__setting *item;
		struct espl__node n;

		if (c->fields[i][0] == '\0')
			continue;
		if (h->items[i] == 0)
			return FAIL(c, "the space has no parameter '%s'", h->names[i]);
		item = &e->space->items[h->items[i] - 1];
		n = node_of(c, i);
		if (item->param == ESPL_ANY && !constant_fits(&item->constant, &n))
			return FAIL(c, "'%s' is %s, but %s in the space", item->name, n.text,
			    item->constant.text);
	}
	return ESPL_OK;
}

static espl_status
read_value(const struct espl__csv *c, const struct espl__param *q, const struct espl__node *n,
    double *value, struct espl__diag *diag)
{
	uint32_t label;

	if (q->labels == NULL)
		return espl__param_read(q, n, "parameter", value, diag);
	label = espl__param_label(q, n->text, n->type == ESPL__REAL ? n->r : NAN);
	if (label == ESPL_ANY)
		return FAIL(c, "parameter '%s': '%s' is not one of its values", q->pub.name,
		    n->text);
	*value = label;
	return ESPL_OK;
}

/* The line's configuration in the space; E_CONFIG says why it has no place there. */
static espl_status
read_config(const struct espl__csv *c, const struct espl__earlier *e, const struct header *h,
    double *values, struct espl__diag *diag)
{
	espl_status status = check_names(c, e, h, diag);

	for (uint32_t p = 0; p < e->params && status == ESPL_OK; p++) {
		const struct espl__param *q = &e->space->params[p];
		struct espl__node n = { .type = ESPL__STRING, .text = "" };

		if (h->columns[p] > 0)
			n = node_of(c, h->columns[p]);
		values[p] = NAN;
		if (!espl__param_active(e->space, p, values)) {
			if (n.text[0] != '\0')
				return FAIL(c, "'%s' is inactive in this configuration",
				    q->pub.name);
		} else if (n.text[0] != '\0') {
			status = read_value(c, q, &n, &values[p], diag);
		} else if (!isnan(q->pub.fallback)) {
			values[p] = q->pub.fallback;
		} else {
			return FAIL(c, "'%s' is missing and has no default", q->pub.name);
		}
	}
	return status;
}

/* Its number, a new one at first sight. */
static uint32_t
find_config(const struct espl__csv *c, struct espl__earlier *e, const struct header *h)
{
	struct espl__diag why = ESPL__DIAG_INIT;
	uint64_t key = espl__digest(0, c->fields[0], strlen(c->fields[0]));
	void *known = espl__map_get(&e->by_name, key);
	uint32_t n = e->config_count;

	if (known != NULL)
		return (uint32_t)((uintptr_t)known - 1);
	ESPL__GROW(e->configs, e->config_cap, n + 1);
	ESPL__GROW(e->values, e->value_cap, (size_t)(n + 1) * (e->params + 1));
	e->configs[n] = (struct espl__earlier_config){ 0, NAN, 1 };
	if (read_config(c, e, h, e->values + (size_t)n * e->params, &why) != ESPL_OK) {
		e->configs[n].fits = 0;
		if (e->skipped++ == 0)
			(void)snprintf(e->why, sizeof e->why, "%s", why.text);
	}
	espl__map_set(&e->by_name, key, (void *)((uintptr_t)n + 1));
	return e->config_count++;
}

/* ---- the file ----------------------------------------------------------------------------- */

static espl_status
read_header(const struct espl__csv *c, const struct espl__earlier *e, struct header *h,
    struct espl__diag *diag)
{
	h->names = espl__alloc((c->count + 1) * sizeof *h->names);
	h->items = espl__alloc((c->count + 1) * sizeof *h->items);
	h->columns = espl__alloc((e->params + 1) * sizeof *h->columns);
	h->count = c->count;
	memcpy(h->names, c->fields, c->count * sizeof *h->names);
	if (strcmp(c->fields[0], "config") != 0) {
		FAIL(c, "the first column is '%s', not 'config'", c->fields[0]);
		espl__hint(diag, "header: config,PARAMETERS,iteration,METRICS");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 1; i < c->count; i++) {
		if (h->iteration == 0 && strcmp(c->fields[i], "iteration") == 0) {
			h->iteration = i;
		} else if (h->iteration == 0) {
			const struct espl__setting *item = espl__space_item(e->space, c->fields[i]);

			h->items[i] = item == NULL ? 0 : (uint32_t)(item - e->space->items) + 1;
			if (item != NULL && item->param != ESPL_ANY && h->columns[item->param] == 0)
				h->columns[item->param] = i;
		} else if (h->metric == 0 && strcmp(c->fields[i], e->metric) == 0) {
			h->metric = i;
		}
	}
	if (h->iteration == 0)
		return FAIL(c, "there is no column 'iteration'");
	if (h->metric > 0)
		return ESPL_OK;
	FAIL(c, "there is no column for metric '%s'", e->metric);
	if (h->iteration + 1 < c->count)
		espl__hint(diag, "columns after 'iteration' are metrics: '%s'%s",
		    c->fields[h->iteration + 1], h->iteration + 2 < c->count ? " and others" : "");
	return ESPL_E_CONFIG;
}

static espl_status
read_line(const struct espl__csv *c, struct espl__earlier *e, const struct header *h, int maximize,
    struct espl__diag *diag)
{
	struct espl__earlier_seen s = { 0 };
	struct espl__earlier_config *config;
	int64_t iteration;

	if (c->count != h->count)
		return FAIL(c, "%u fields, but the header has %u", c->count, h->count);
	if (espl__parse_int(c->fields[h->iteration], &iteration) != 0 || iteration < 0)
		return FAIL(c, "'%s' is not an iteration number", c->fields[h->iteration]);
	if (espl__csv_number(c->fields[h->metric], &s.raw) != 0)
		return FAIL(c, "'%s' is not a number", c->fields[h->metric]);
	if (iteration == 0)
		return ESPL_OK; /* before training began */
	s.config = find_config(c, e, h);
	config = &e->configs[s.config];
	if (!config->fits)
		return ESPL_OK;
	s.iteration = (uint64_t)iteration;
	s.loss = maximize ? 0.0 - s.raw : s.raw;
	if (s.iteration >= config->furthest) {
		config->furthest = s.iteration;
		config->loss = s.loss;
	}
	ESPL__GROW(e->seen, e->seen_cap, e->seen_count + 1);
	e->seen[e->seen_count++] = s;
	return ESPL_OK;
}

static espl_status
read_all(struct espl__csv *c, struct espl__earlier *e, struct header *h, int maximize,
    struct espl__diag *diag)
{
	int more;
	espl_status status = espl__csv_next(c, &more, diag);

	if (status == ESPL_OK && !more) {
		c->line = 1;
		status = FAIL(c, "the file with earlier results is empty");
	}
	if (status == ESPL_OK)
		status = read_header(c, e, h, diag);
	while (status == ESPL_OK) {
		status = espl__csv_next(c, &more, diag);
		if (status != ESPL_OK || !more)
			break;
		status = read_line(c, e, h, maximize, diag);
	}
	if (status != ESPL_OK)
		return status;
	if (e->config_count == 0)
		return espl__fail_at(diag, ESPL_E_CONFIG, c->file, 0,
		    "it contains no observations");
	if (e->seen_count == 0)
		return espl__fail_at(diag, ESPL_E_CONFIG, c->file, 0,
		    "none of the %u configurations fits the space; the first: %s", e->config_count,
		    e->why);
	return ESPL_OK;
}

espl_status
espl__earlier_parse(const char *name, struct espl__buf *text, const struct espl__space *space,
    const char *metric, int maximize, struct espl__earlier **to, struct espl__diag *diag)
{
	struct espl__earlier *e = espl__alloc(sizeof *e);
	struct header h = { 0 };
	struct espl__csv csv;
	espl_status status;

	e->magic = ESPL__EARLIER_MAGIC;
	*to = NULL;
	e->space = space;
	e->params = espl__space_count(space);
	e->metric = espl__strdup(metric);
	espl__csv_open(&csv, name, text);
	status = read_all(&csv, e, &h, maximize, diag);
	espl__csv_close(&csv);
	free(h.names);
	free(h.items);
	free(h.columns);
	espl__map_free(&e->by_name);
	if (status != ESPL_OK) {
		espl__earlier_free(e);
		return status;
	}
	espl__earlier_index(e);
	*to = e;
	return ESPL_OK;
}

/* ---- as a file ---------------------------------------------------------------------------- */

void
espl__earlier_field(struct espl__buf *b, const char *text)
{
	if (strpbrk(text, ",\"\n\r") == NULL && text[0] != ' ' && text[0] != '\t' &&
	    text[0] != '#' &&
	    (text[0] == '\0' ||
		(text[strlen(text) - 1] != ' ' && text[strlen(text) - 1] != '\t'))) {
		espl__print(b, "%s", text);
		return;
	}
	espl__put_u8(b, '"');
	for (; *text != '\0'; text++) {
		/* A line cannot be broken: such a value is none of the space's when it is read
		 * again. */
		espl__put_u8(b, (uint8_t)(*text == '\n' || *text == '\r' ? ' ' : *text));
		if (*text == '"')
			espl__put_u8(b, '"');
	}
	espl__put_u8(b, '"');
}

static void
print_value(const struct espl__earlier *e, uint32_t param, double value, struct espl__buf *b)
{
	const struct espl__param *q = &e->space->params[param];
	char room[32];

	espl__put_u8(b, ',');
	if (isnan(value))
		return;
	if (q->labels != NULL)
		espl__earlier_field(b, q->labels[(uint32_t)value].text);
	else if (q->pub.type == ESPL_INT)
		espl__print(b, "%" PRId64, (int64_t)value);
	else
		espl__print(b, "%s", espl__format_value(value, room));
}

void
espl__earlier_print(const struct espl__earlier *e, struct espl__buf *b)
{
	char room[32];

	ESPL__CHECK(e, EARLIER);
	espl__print(b, "config");
	for (uint32_t p = 0; p < e->params; p++) {
		espl__put_u8(b, ',');
		espl__earlier_field(b, e->space->params[p].pub.name);
	}
	espl__print(b, ",iteration,");
	espl__earlier_field(b, e->metric);
	espl__put_u8(b, '\n');
	for (uint64_t i = 0; i < e->seen_count; i++) {
		const struct espl__earlier_seen *s = &e->seen[i];

		espl__print(b, "%u", s->config);
		for (uint32_t p = 0; p < e->params; p++)
			print_value(e, p, espl__earlier_values(e, s->config)[p], b);
		espl__print(b, ",%llu,%s\n", (unsigned long long)s->iteration,
		    isnan(s->raw) ? "nan" : espl__format_real(s->raw, room));
	}
}
