/* space_point.c - values a user writes: of one parameter, and of a whole configuration. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/assert.h"
#include "base/text.h"
#include "model/space_impl.h"

#define FAIL(node_, ...) \
	espl__fail_at(diag, ESPL_E_CONFIG, (node_)->file, (node_)->line, __VA_ARGS__)

int
espl__node_json(const struct espl__node *n, struct espl__buf *to)
{
	char room[32];

	switch (n->type) {
	case ESPL__INT: espl__print(to, "%" PRId64, n->i); return 0;
	case ESPL__REAL:
		espl__print(to, "%s", espl__format_value(n->r, room));
		return -!isfinite(n->r);
	case ESPL__BOOL: espl__print(to, "%s", n->i ? "true" : "false"); return 0;
	case ESPL__STRING: espl__print_json(to, n->text); return 0;
	default: break;
	}
	if (n->type == ESPL__LIST && n->child_count == 0) {
		espl__print(to, "null");
		return 0;
	}
	espl__print(to, "%s", n->type == ESPL__GROUP ? "{" : "[");
	for (uint32_t i = 0; i < n->child_count; i++) {
		espl__print(to, "%s", i > 0 ? ", " : "");
		if (n->type == ESPL__GROUP) {
			espl__print_json(to, n->children[i]->name);
			espl__print(to, ": ");
		}
		if (espl__node_json(n->children[i], to) !=
		    0) /* 64 of them in one another at most */
			return -1;
	}
	espl__print(to, "%s", n->type == ESPL__GROUP ? "}" : "]");
	return 0;
}

int
espl__constant_is(const struct espl__label *l, const struct espl__node *n)
{
	if (is_number(n))
		return l->kind == ESPL__LABEL_NUMBER && l->number == n->r;
	if (n->type == ESPL__BOOL)
		return l->kind == ESPL__LABEL_BOOL && l->number == (n->i ? 1.0 : 0.0);
	if (!is_scalar(n)) {
		struct espl__buf text = { NULL, 0, 0 };
		int is = l->kind == ESPL__LABEL_JSON && espl__node_json(n, &text) == 0 &&
		    strcmp(espl__buf_text(&text), l->text) == 0;

		espl__buf_free(&text);
		return is;
	}
	return n->type == ESPL__STRING && strcmp(l->text, n->text) == 0;
}

espl_status
espl__param_read(const struct espl__param *q, const struct espl__node *n, const char *what,
    double *value, struct espl__diag *diag)
{
	const char *name = q->pub.name;
	char low[32], high[32], own[32];
	double near;

	if (q->labels != NULL) {
		struct espl__buf json = { NULL, 0, 0 };
		char room[32];
		const char *text = n->text;
		uint32_t k;

		if (!is_scalar(n)) {
			(void)espl__node_json(n, &json);
			text = espl__buf_text(&json);
		}
		if (n->type == ESPL__BOOL)
			text = n->i ? "true" : "false";
		else if (n->type == ESPL__INT)
			(void)snprintf(room, sizeof room, "%" PRId64, n->i);
		else if (n->type == ESPL__REAL)
			(void)espl__format_value(n->r, room);
		if (is_number(n))
			text = room;
		k = espl__param_label(q, text, is_number(n) ? n->r : NAN);
		if (k == ESPL_ANY) {
			FAIL(n, "%s '%s': '%.200s' is not one of its values", what, name, text);
			text = espl__nearest(text, q->pub.labels, q->pub.label_count);
			if (text != NULL)
				espl__hint(diag, "did you mean '%s'?", text);
		}
		espl__buf_free(&json);
		if (k == ESPL_ANY)
			return ESPL_E_CONFIG;
		*value = k;
		return ESPL_OK;
	}
	if (n->type == ESPL__STRING)
		return FAIL(n, "%s '%s' is \"%.100s\", not a number", what, name, n->text);
	if (!is_number(n))
		return FAIL(n, "%s '%s' is %s, not a number", what, name, espl__node_kind(n));
	espl__format_real(n->r, own);
	if (!(n->r >= q->pub.low && n->r <= q->pub.high))
		return FAIL(n, "%s '%s' = %s is out of its bounds %s to %s", what, name, own,
		    espl__format_real(q->pub.low, low), espl__format_real(q->pub.high, high));
	near = espl__param_snap(q, n->r);
	if (q->step > 0 && fabs(near - n->r) > 1e-9 * q->step) {
		FAIL(n, "%s '%s' = %s is not one of its levels", what, name, own);
		espl__hint(diag, "the nearest is %s", espl__format_real(near, low));
		return ESPL_E_CONFIG;
	}
	*value = near;
	return ESPL_OK;
}

espl_status
espl__space_point(const struct espl__space *s, const struct espl__node *group, double *values,
    struct espl__diag *diag)
{
	ESPL__CHECK(s, SPACE);

	if (group->type != ESPL__GROUP)
		return FAIL(group, "a configuration is %s, not a group", espl__node_kind(group));
	for (uint32_t i = 0; i < group->child_count; i++) {
		const struct espl__node *n = group->children[i];
		const struct espl__setting *item = espl__space_item(s, n->name);

		if (item == NULL) {
			FAIL(n, "'%s' is not a parameter of the space", n->name);
			for (uint32_t k = 0; k < s->item_count; k++)
				if (espl__nearest(n->name, &s->items[k].name, 1) != NULL)
					espl__hint(diag, "did you mean '%s'?", s->items[k].name);
			return ESPL_E_CONFIG;
		}
		if (item->param == ESPL_ANY && !espl__constant_is(&item->constant, n))
			return FAIL(n, "'%s' is a constant of the space: %s", n->name,
			    item->constant.text);
	}
	for (uint32_t i = 0; i < s->count; i++) {
		const struct espl__param *q = &s->params[i];
		const struct espl__node *n = espl__node_get(group, q->pub.name);
		espl_status st = ESPL_OK;

		values[i] = NAN;
		if (!espl__param_active(s, i, values)) {
			if (n != NULL)
				return FAIL(n,
				    "'%s' is inactive in this configuration because its 'when' "
				    "does not match",
				    n->name);
			continue;
		}
		if (n != NULL)
			st = espl__param_read(q, n, "parameter", &values[i], diag);
		else if (!isnan(q->pub.fallback))
			values[i] = q->pub.fallback;
		else
			st =
			    FAIL(group, "the configuration does not set '%s', which has no default",
				q->pub.name);
		if (st != ESPL_OK)
			return st;
	}
	if (espl__space_broken(s, values) != NULL)
		return FAIL(group, "the configuration is forbidden: %.200s",
		    espl__expr_text(espl__space_broken(s, values)));
	return ESPL_OK;
}
