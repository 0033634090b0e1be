/* metrics.c - see metrics.h. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include <espalier/abi.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/metrics.h"

int
espl__metric_named(const char *name)
{
	return name[0] != '\0' && strlen(name) <= ESPL__METRIC_NAME;
}

int
espl__metric_word(const char *text, double *number)
{
	int minus = text[0] == '-';
	const char *word = text + (text[0] == '-' || text[0] == '+');

	if (strcasecmp(word, "nan") == 0)
		*number = NAN;
	else if (strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0)
		*number = minus ? -INFINITY : INFINITY;
	else
		return -1;
	return 0;
}

int
espl__metric_number(const json_t *value, double *number)
{
	if (json_is_number(value))
		*number = json_number_value(value);
	else if (json_is_null(value))
		*number = NAN;
	else
		return json_is_string(value) ? espl__metric_word(json_string_value(value), number)
					     : -1;
	return 0;
}

uint64_t
espl__iteration_of(double number)
{
	return number >= 1 && number <= (double)ESPL__ITERATION_MOST && floor(number) == number
	    ? (uint64_t)number
	    : 0;
}

int
espl__metric_is_too_good(double value, int maximize)
{
	return isinf(value) && (value > 0) == (maximize != 0);
}

static int
refuse_metric(struct espl__metrics_read *read, const char *name, int wrong)
{
	read->wrong = wrong;
	read->wrong_name = name;
	return -1;
}

/* One metric, unless it is beyond a limit; `reserved`: a place is for another, which is kept. */
static void
take_metric(struct espl__metrics_read *read, const char *name, double value, int is_kept,
    int reserved, const struct espl__names *known)
{
	uint32_t number = espl__names_find(known, name);
	int beyond_report =
	    !is_kept && read->count + (reserved ? 1u : 0u) >= ESPL__METRICS_IN_REPORT;
	int beyond_run =
	    !is_kept && number == ESPL_ANY && known->count + read->fresh >= ESPL__METRICS_IN_RUN;

	if (beyond_report || beyond_run) {
		read->first_dropped = read->dropped == 0 ? name : read->first_dropped;
		read->dropped++;
		read->beyond_run += !beyond_report;
		return;
	}
	read->fresh += number == ESPL_ANY;
	read->list[read->count++] = (struct espl__metric_read){ name, number, value };
}

int
espl__metrics_read(const json_t *object, const char *kept, const struct espl__names *known,
    struct espl__metrics_read *read)
{
	json_t *members = (json_t *)(uintptr_t)object, *value;
	int reserved = kept != NULL, is_kept;
	const char *name;
	double number;

	ESPL__ASSERT(known != NULL);
	memset(read, 0, sizeof *read);
	if (json_object_size(object) == 0)
		return 0;
	read->list = espl__alloc(ESPL__METRICS_IN_REPORT * sizeof *read->list);
	json_object_foreach (members, name, value) {
		if (name[0] == '\0')
			return refuse_metric(read, name, ESPL__METRICS_NO_NAME);
		if (!espl__metric_named(name))
			return refuse_metric(read, name, ESPL__METRICS_LONG_NAME);
		if (espl__metric_number(value, &number) != 0)
			return refuse_metric(read, name, ESPL__METRICS_NO_NUMBER);
		is_kept = kept != NULL && strcmp(name, kept) == 0;
		reserved = reserved && !is_kept;
		take_metric(read, name, number, is_kept, reserved, known);
	}
	return 0;
}

void
espl__metrics_free(struct espl__metrics_read *read)
{
	free(read->list);
	memset(read, 0, sizeof *read);
}

const char *
espl__metrics_limit(const struct espl__metrics_read *read)
{
	return read->beyond_run == read->dropped ? "more than 1024 different metrics in the run"
						 : "more than 256 metrics in one report";
}
