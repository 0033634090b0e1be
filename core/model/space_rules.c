/* space_rules.c - combinations of values that a user rules out: experiment.forbid, and a bound that
 * is another parameter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "model/space_impl.h"

#define DRAWS 10000u /* that tell how much of the space is left */

/* Numbers, and choices among numbers, are numbers in a condition. */
static int
has_numbers(const struct espl__param *p)
{
	for (uint32_t i = 0; p->labels != NULL && i < p->pub.label_count; i++)
		if (p->labels[i].kind != ESPL__LABEL_NUMBER)
			return 0;
	return 1;
}

static uint32_t
find_param(const void *ctx, const char *name, int *labels)
{
	const struct espl__space *s = ctx;

	for (uint32_t i = 0; i < s->count; i++)
		if (strcmp(s->params[i].pub.name, name) == 0) {
			*labels = !has_numbers(&s->params[i]);
			return i;
		}
	return ESPL_ANY;
}

static uint32_t
find_label(const void *ctx, uint32_t param, const char *text, double number)
{
	const struct espl__space *s = ctx;

	return espl__param_label(&s->params[param], text, number);
}

struct point {
	const struct espl__space *space;
	const double *values;
};

static double
value_of(const void *ctx, uint32_t param)
{
	const struct point *at = ctx;
	const struct espl__param *p = &at->space->params[param];
	double value = at->values[param];

	if (isnan(value) || p->labels == NULL || !has_numbers(p))
		return value;
	return p->labels[(uint32_t)value].number;
}

const struct espl__expr *
espl__space_broken(const struct espl__space *s, const double *values)
{
	struct point at = { s, values };

	ESPL__CHECK(s, SPACE);
	for (uint32_t i = 0; i < s->rule_count; i++)
		if (espl__expr_holds(s->rules[i], value_of, &at))
			return s->rules[i];
	return NULL;
}

static int
view_allowed(const struct espl_space *view, const double *values)
{
	return espl__space_broken(view->ctx, values) == NULL;
}

espl_status
espl__space_rule(struct espl__space *s, const char *text, const char *label, const char *file,
    uint32_t line, struct espl__diag *diag)
{
	const char **names = espl__alloc((s->count + 1) * sizeof *names);
	struct espl__expr_scope scope = { .ctx = s,
		.find = find_param,
		.label = find_label,
		.what = "a parameter of the space",
		.example = "layers > 8 and optimizer = 'sgd'",
		.names = names,
		.name_count = s->count };
	struct espl__expr *rule;
	espl_status status;

	ESPL__CHECK(s, SPACE);
	for (uint32_t i = 0; i < s->count; i++)
		names[i] = s->params[i].pub.name;
	status = espl__expr_parse(text, &scope, label, file, line, &rule, diag);
	if (status == ESPL_OK) {
		ESPL__GROW(s->rules, s->rule_cap, s->rule_count + 1);
		s->rules[s->rule_count++] = rule;
		s->view.allowed = view_allowed;
	}
	free(names);
	return status;
}

double
espl__space_allowed_share(const struct espl__space *s)
{
	const struct espl_space *view = &s->view;
	double *unit, *values;
	struct espl__rng rng;
	uint32_t allowed = 0;

	if (s->rule_count == 0)
		return 1;
	unit = espl__alloc((s->count + 1) * sizeof *unit);
	values = espl__alloc((s->count + 1) * sizeof *values);
	espl__rng_seed(&rng, 1, "forbid");
	for (uint32_t i = 0; i < DRAWS; i++) {
		for (uint32_t k = 0; k < s->count; k++)
			unit[k] = espl__rng_uniform(&rng);
		ESPL__ASSERT(view->from_unit(view, unit, values) == ESPL_OK);
		allowed += espl__space_broken(s, values) == NULL;
	}
	free(unit);
	free(values);
	return (double)allowed / DRAWS;
}

espl_status
espl__space_forbid(struct espl__space *s, const struct espl__node *list, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	ESPL__CHECK(s, SPACE);
	for (uint32_t i = 0; list != NULL && i < list->child_count && status == ESPL_OK; i++)
		status = espl__space_rule(s, list->children[i]->text, "experiment: forbid",
		    list->children[i]->file, list->children[i]->line, diag);
	if (status != ESPL_OK || espl__space_allowed_share(s) > 0)
		return status;
	/* The bounds of parameters may do it alone. */
	(void)espl__fail_at(diag, ESPL_E_CONFIG, list != NULL ? list->file : s->params[0].file,
	    list != NULL ? list->line : s->params[0].line,
	    "of %u configurations drawn at random all are forbidden", DRAWS);
	espl__hint(diag, "one of them: %s", espl__expr_text(s->rules[0]));
	return ESPL_E_CONFIG;
}
