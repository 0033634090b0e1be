/* requirements.c - see requirements.h. */
#include "model/requirements.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/expr.h"
#include "model/space.h"

#define ESPL__REQUIREMENTS_MAGIC 0x72657175u
struct espl__requirements {
	uint32_t magic;
	uint32_t count, cap;
	struct espl__expr **list;
	char **metrics; /* as they were met first */
	uint32_t metric_count, metric_cap;
	const struct espl_space *space; /* while it is parsed */
};

/* A metric becomes known by its name: what a program reports cannot be asked beforehand.  The name
 * of a parameter is a mistake: experiment.forbid is for these. */
static uint32_t
find_metric(const void *ctx, const char *name, int *labels)
{
	struct espl__requirements *r = (struct espl__requirements *)(uintptr_t)ctx;

	*labels = 0;
	for (uint32_t i = 0; i < r->space->param_count; i++)
		if (strcmp(r->space->params[i]->name, name) == 0)
			return ESPL_ANY;
	for (uint32_t i = 0; i < r->metric_count; i++)
		if (strcmp(r->metrics[i], name) == 0)
			return i;
	ESPL__GROW(r->metrics, r->metric_cap, r->metric_count + 1);
	r->metrics[r->metric_count] = espl__strdup(name);
	return r->metric_count++;
}

static uint32_t
find_no_label(const void *ctx, uint32_t name, const char *text, double number)
{
	(void)ctx, (void)name, (void)text, (void)number;
	return ESPL_ANY;
}

espl_status
espl__requirements_parse(const struct espl__node *list, const struct espl__space *space,
    struct espl__requirements **out, struct espl__diag *diag)
{
	struct espl__requirements *r;
	struct espl__expr_scope scope = { .find = find_metric,
		.label = find_no_label,
		.what = "a metric (parameters are for experiment.forbid)",
		.example = "latency_ms < 20" };
	espl_status status = ESPL_OK;

	*out = NULL;
	if (list == NULL || list->child_count == 0)
		return ESPL_OK;
	r = espl__alloc(sizeof *r);
	r->magic = ESPL__REQUIREMENTS_MAGIC;
	r->space = espl__space_view(space);
	scope.ctx = r;
	for (uint32_t i = 0; i < list->child_count && status == ESPL_OK; i++) {
		const struct espl__node *n = list->children[i];

		ESPL__GROW(r->list, r->cap, r->count + 1);
		status = espl__expr_parse(n->text, &scope, "experiment: require", n->file, n->line,
		    &r->list[r->count], diag);
		r->count += status == ESPL_OK;
	}
	if (status == ESPL_OK)
		*out = r;
	else
		espl__requirements_free(r);
	return status;
}

void
espl__requirements_free(struct espl__requirements *r)
{
	if (r == NULL)
		return;
	ESPL__CHECK(r, REQUIREMENTS);
	r->magic = 0;
	for (uint32_t i = 0; i < r->count; i++)
		espl__expr_free(r->list[i]);
	for (uint32_t i = 0; i < r->metric_count; i++)
		free(r->metrics[i]);
	free(r->list);
	free(r->metrics);
	free(r);
}

uint32_t
espl__requirements_count(const struct espl__requirements *r)
{
	ESPL__CHECK(r, REQUIREMENTS);
	return r->metric_count;
}

const char *
espl__requirements_metric(const struct espl__requirements *r, uint32_t index)
{
	ESPL__CHECK(r, REQUIREMENTS);
	ESPL__ASSERT(index < r->metric_count);
	return r->metrics[index];
}

static double
value_of(const void *ctx, uint32_t name)
{
	return ((const double *)ctx)[name];
}

double
espl__requirements_shortfall(const struct espl__requirements *r, const double *metrics)
{
	double most = -INFINITY;
	int unknown = 0;

	ESPL__CHECK(r, REQUIREMENTS);
	for (uint32_t i = 0; i < r->count; i++) {
		double one = espl__expr_shortfall(r->list[i], value_of, metrics);

		unknown |= isnan(one);
		most = one > most ? one : most;
	}
	return unknown && !(most > 0) ? (double)NAN : most;
}

const char *
espl__requirements_missed(const struct espl__requirements *r, const double *metrics)
{
	ESPL__CHECK(r, REQUIREMENTS);
	for (uint32_t i = 0; i < r->count; i++)
		if (!espl__expr_holds(r->list[i], value_of, metrics))
			return espl__expr_text(r->list[i]);
	return NULL;
}
