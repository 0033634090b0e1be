/* replay_table.c - reads a schedule: one pass over the text, cell by cell.
 *
 * A column that is not a parameter of the space must be constant: it is one of the search's
 * constants. Cells are separated by commas, may be enclosed in double quotes ("" within is one
 * quote), and numbers are in C's notation. The cell of a parameter that is inactive in a row is
 * empty.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>
#include "replay_table.h"

#define CELL_MAX 256u
#define CONSTANTS_MAX 1024u

struct column {
	uint32_t param; /* ESPL_ANY: a constant */
	uint32_t zero;
	uint64_t hash; /* of a constant, as the first line has it */
	char name[64]; /* for messages */
};

struct reading {
	const char *name, *at, *end;
	uint32_t line;
	const struct column *column; /* that is read; NULL: none, or not known yet */
	char cell[CELL_MAX];
	int last; /* the cell is its line's last */
	struct espl_error *error;
};

/* Of a long path the end tells more. */
static espl_status
refuse_cell(const struct reading *r, const char *what)
{
	size_t length = strlen(r->name);
	const char *tail = length > 60 ? r->name + length - 57 : r->name;

	return espl_fail(r->error, ESPL_E_CONFIG, "%s%s line %u%s%s%s: %s",
	    tail == r->name ? "" : "...", tail, r->line, r->column != NULL ? ", column '" : "",
	    r->column != NULL ? r->column->name : "", r->column != NULL ? "'" : "", what);
}

static espl_status
next_cell(struct reading *r)
{
	size_t used = 0;
	int quoted = 0;

	for (;; r->at++) {
		char c = r->at < r->end ? *r->at : '\n';

		if (c == '"' && quoted && r->at + 1 < r->end && r->at[1] == '"') {
			r->at++;
		} else if (c == '"' && (quoted || used == 0)) {
			quoted = !quoted;
			continue;
		} else if ((c == ',' || c == '\n') && (!quoted || r->at >= r->end)) {
			break;
		} else if (c == '\r' && !quoted) {
			continue;
		}
		if (c == '\0' || used + 1 == sizeof r->cell)
			return refuse_cell(r, "the cell is too long or not text");
		r->cell[used++] = c;
	}
	if (quoted)
		return refuse_cell(r, "unterminated quote");
	r->cell[used] = '\0';
	r->last = r->at >= r->end || *r->at == '\n';
	r->at += r->at < r->end;
	return ESPL_OK;
}

static espl_status
count_cell(struct reading *r, uint64_t *value)
{
	const char *at = r->cell;

	for (*value = 0; *at >= '0' && *at <= '9' && at - r->cell < 18; at++)
		*value = *value * 10 + (uint64_t)(*at - '0');
	if (at == r->cell || *at != '\0')
		return refuse_cell(r, "it must be a number of iterations");
	return ESPL_OK;
}

/* Digits into *value (as many as it holds; the rest counts in *exponent only).  Returns how many
 * there were. */
static int
read_digits(const char **at, uint64_t *value, int *exponent, int fraction)
{
	int count = 0;

	for (; **at >= '0' && **at <= '9'; (*at)++, count++) {
		int fits = *value < UINT64_C(900000000000000000);

		if (fits)
			*value = *value * 10 + (uint64_t)(**at - '0');
		*exponent += (fits ? 0 : 1) - fraction;
	}
	return count;
}

/* A number as C writes it, whatever the user's locale; NaN: it is none.  Up to 15 digits and 22
 * places are read exactly, which is more than the space keeps. */
static double
parse_number(const char *at)
{
	int negative = *at == '-', exponent = 0, count, sign;
	uint64_t value = 0, power = 0;
	double result, ten = 10;

	at += *at == '-' || *at == '+';
	count = read_digits(&at, &value, &exponent, 0);
	if (*at == '.') {
		at++;
		count += read_digits(&at, &value, &exponent, 1);
	}
	if (count > 0 && (*at == 'e' || *at == 'E')) {
		at++;
		sign = *at == '-' ? -1 : 1;
		at += *at == '-' || *at == '+';
		if (read_digits(&at, &power, &count, 0) == 0 || power > 400)
			return NAN;
		exponent += sign * (int)power;
	}
	if (count == 0 || *at != '\0')
		return NAN;
	result = 1;
	for (power = (uint64_t)(exponent < 0 ? -exponent : exponent); power > 0;
	     power >>= 1, ten *= ten)
		if ((power & 1) != 0)
			result *= ten;
	result = exponent < 0 ? (double)value / result : (double)value * result;
	return negative ? -result : result;
}

/* A label, a number, or nothing: the parameter's value in this row. */
static espl_status
value_cell(struct reading *r, const struct espl_param *p, double *value)
{
	char text[160];
	uint32_t i;

	*value = NAN;
	if (r->cell[0] == '\0')
		return ESPL_OK;
	for (i = 0; i < p->label_count; i++)
		if (strcmp(p->labels[i], r->cell) == 0)
			*value = i;
	if (p->label_count == 0)
		*value = parse_number(r->cell);
	if (!isnan(*value))
		return ESPL_OK;
	(void)snprintf(text, sizeof text, "'%.60s' is %s", r->cell,
	    p->label_count == 0 ? "not a number" : "not a value of the parameter");
	return refuse_cell(r, text);
}

static void
name_column(struct column *column, const char *name, uint32_t param)
{
	(void)snprintf(column->name, sizeof column->name, "%.60s", name);
	column->param = param;
}

/* Does a parameter of the space have no column? */
static espl_status
check_columns(struct reading *r, const struct espl_space *space, const struct column *columns,
    uint32_t count)
{
	char text[160];
	uint32_t i, k;

	for (i = 0; i < space->param_count; i++) {
		for (k = 2; k < count && columns[k].param != i; k++)
			;
		if (k < count)
			continue;
		(void)snprintf(text, sizeof text, "there is no column for parameter '%.60s'",
		    space->params[i]->name);
		return refuse_cell(r, text);
	}
	return ESPL_OK;
}

/* The first line: from, until, and every parameter of the space, with constants among them. */
static espl_status
read_head(struct reading *r, const struct espl_space *space, struct column *columns,
    uint32_t *count)
{
	static const char *const must[] = { "from", "until" };
	espl_status status;

	for (*count = 0, r->last = 0; !r->last; ++*count) {
		uint32_t i;

		status = next_cell(r);
		if (status != ESPL_OK)
			return status;
		if (*count < 2) {
			if (strcmp(r->cell, must[*count]) != 0)
				break;
			name_column(&columns[*count], r->cell, ESPL_ANY);
			continue;
		}
		if (*count == space->param_count + CONSTANTS_MAX)
			return refuse_cell(r, "too many columns");
		i = space->find(space, r->cell);
		name_column(&columns[*count], r->cell, i);
		r->column = &columns[*count];
		for (uint32_t k = 2; i != ESPL_ANY && k < *count; k++)
			if (columns[k].param == i)
				return refuse_cell(r, "the column is repeated");
		r->column = NULL;
	}
	return *count < 2 ? refuse_cell(r, "the first columns must be 'from' and 'until'")
			  : check_columns(r, space, columns, *count);
}

/* What is no parameter here must be the same in all lines. */
static espl_status
constant_cell(struct reading *r, struct column *column, int first)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const char *c;

	for (c = r->cell; *c != '\0'; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	if (first)
		column->hash = hash;
	return hash == column->hash
	    ? ESPL_OK
	    : refuse_cell(r, "its value changes, but it is not a parameter of the search space");
}

/* A valid configuration stays what it is; the space rounds others. */
static espl_status
check_row(struct reading *r, const struct espl_space *space, const struct column *columns,
    uint32_t count, double *values, double *copy)
{
	uint32_t i, k, missing = ESPL_ANY;
	espl_status status;

	ESPL_ASSERT(count >= 2);
	memcpy(copy, values, space->param_count * sizeof *copy);
	status = space->snap(space, copy, &missing);
	for (k = 2; k < count; k++) {
		i = columns[k].param;
		if (i == ESPL_ANY)
			continue;
		r->column = &columns[k];
		if (status != ESPL_OK && i == missing)
			return refuse_cell(r,
			    "the cell is empty, but the parameter is active in this row");
		if (status == ESPL_OK && isnan(copy[i]) && !isnan(values[i]))
			return refuse_cell(r,
			    "the cell must be empty, because other parameters make this one "
			    "inactive");
		if (status == ESPL_OK && !isnan(copy[i]) &&
		    !(fabs(copy[i] - values[i]) <= 1e-9 * fabs(values[i])))
			return refuse_cell(r,
			    "the value is out of the parameter's bounds or not one of its levels");
	}
	r->column = NULL;
	if (status != ESPL_OK)
		return refuse_cell(r, "the parameters are not a configuration of the search space");
	memcpy(values, copy, space->param_count * sizeof *copy);
	return ESPL_OK;
}

static espl_status
read_cells(struct reading *r, struct replay_table *table, const struct espl_space *space,
    struct column *columns, uint32_t count, uint64_t bounds[2])
{
	double *values = table->values + (size_t)table->rows * space->param_count;
	espl_status status = ESPL_OK;
	uint32_t column;

	for (column = 0, r->last = 0; !r->last && status == ESPL_OK; column++) {
		r->column = column < count ? &columns[column] : NULL;
		status = next_cell(r);
		if (status == ESPL_OK && column >= count)
			status = refuse_cell(r, "the line has more cells than the first line");
		if (status == ESPL_OK)
			status = column < 2 ? count_cell(r, &bounds[column])
			    : columns[column].param == ESPL_ANY
			    ? constant_cell(r, &columns[column], table->rows == 0)
			    : value_cell(r, space->params[columns[column].param],
				  &values[columns[column].param]);
	}
	r->column = NULL;
	return status == ESPL_OK && column != count
	    ? refuse_cell(r, "the line has fewer cells than the first line")
	    : status;
}

static espl_status
read_row(struct reading *r, struct replay_table *table, const struct espl_space *space,
    struct column *columns, uint32_t count, double *copy)
{
	uint64_t before = table->rows > 0 ? table->until[table->rows - 1] : 0, bounds[2] = { 0, 0 };
	char text[160];
	espl_status status = read_cells(r, table, space, columns, count, bounds);

	if (status != ESPL_OK)
		return status;
	if (bounds[0] != before || bounds[1] <= before) {
		(void)snprintf(text, sizeof text,
		    "it goes from %" PRIu64 " until %" PRIu64 "; it must begin at %" PRIu64
		    ", where the line before it ends, and end later",
		    bounds[0], bounds[1], before);
		return refuse_cell(r, text);
	}
	status = check_row(r, space, columns, count,
	    table->values + (size_t)table->rows * space->param_count, copy);
	if (status == ESPL_OK)
		table->until[table->rows++] = bounds[1];
	return status;
}

espl_status
replay_read(struct replay_table *table, const char *name, const char *text, uint64_t size,
    const struct espl_space *space, struct espl_error *error)
{
	struct reading r = { .name = name,
		.at = text,
		.end = text + size,
		.line = 1,
		.error = error };
	size_t params = (size_t)space->param_count + 1, lines = 1;
	struct column *columns = calloc(params + CONSTANTS_MAX, sizeof *columns);
	double *copy = calloc(params, sizeof *copy);
	espl_status status;
	uint32_t count = 0;
	uint64_t i;

	ESPL_ASSERT(name != NULL && (text != NULL || size == 0));
	memset(table, 0, sizeof *table);
	for (i = 0; i < size; i++)
		lines += text[i] == '\n';
	table->until = calloc(lines, sizeof *table->until);
	table->values = calloc(lines * params, sizeof *table->values);
	if (columns == NULL || copy == NULL || table->until == NULL || table->values == NULL)
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory for a schedule of %zu lines",
		    lines);
	else
		status = read_head(&r, space, columns, &count);
	for (; status == ESPL_OK && r.at < r.end; r.line++) {
		if (r.line == 1)
			continue;
		status = read_row(&r, table, space, columns, count, copy);
	}
	if (status == ESPL_OK && table->rows == 0)
		status = refuse_cell(&r, "the schedule is empty");
	free(columns);
	free(copy);
	ESPL_ASSERT(table->rows < lines);
	return status;
}

void
replay_free(struct replay_table *table)
{
	free(table->until);
	free(table->values);
}
