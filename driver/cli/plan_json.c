/* plan_json.c - `espalier plan --json`: docs/cli.md. */
#include <math.h>

#include "cli/plan.h"

static void
put_number(struct espl__buf *b, const char *name, double value)
{
	espl__print(b, "%s", name);
	espl__print_number(b, value);
}

static void
put_spread(struct espl__buf *b, const char *name, const struct espl__spread *s)
{
	espl__print(b, "\"%s\": ", name);
	put_number(b, "{\"mean\": ", s->mean);
	put_number(b, ", \"sd\": ", s->sd);
	put_number(b, ", \"p95\": ", s->p95);
	espl__print(b, "}");
}

static void
put_stages(struct espl__buf *b, const struct espl__plan_answer *a)
{
	espl__print(b, ", \"stages\": [");
	for (uint32_t i = 0; i < a->row_count; i++) {
		const struct espl__plan_row *r = &a->rows[i];

		espl__print(b,
		    "%s{\"stage\": %u, \"bracket\": %u, \"trials\": %u, \"iterations\": %llu, "
		    "\"gpus\": %u, \"gpus_per_trial\": %u, \"nodes\": %u, \"offer\": ",
		    i > 0 ? ", " : "", r->stage, r->bracket, r->trials,
		    (unsigned long long)r->iterations, r->gpus, r->gpus_per_trial, r->nodes);
		espl__print_json(b, r->offer);
		put_number(b, ", \"starts_s\": ", r->starts_s);
		put_number(b, ", \"ends_s\": ", r->ends_s);
		put_number(b, ", \"cost_usd\": ", r->cost_usd);
		espl__print(b, "}");
	}
	espl__print(b, "]");
}

static void
put_least(struct espl__buf *b, const struct espl__plan_answer *a)
{
	espl__print(b, ", \"least\": {");
	if (isfinite(a->least_s))
		put_number(b, "\"jct_s\": ", a->least_s);
	if (isfinite(a->least_usd))
		put_number(b,
		    isfinite(a->least_s) ? ", \"cost_usd\": " : "\"cost_usd\": ", a->least_usd);
	espl__print(b, "}");
}

/* From "feasible" on; the caller opens and closes the object. */
static void
put_answer(struct espl__buf *b, const struct espl__plan_answer *a)
{
	if (a->status != ESPL_OK) {
		espl__print(b, "\"feasible\": false");
		put_least(b, a);
		if (a->status != ESPL_E_INFEASIBLE) {
			espl__print(b, ", \"error\": ");
			espl__print_json(b, a->diag.text);
		}
		return;
	}
	espl__print(b, "\"feasible\": %s, \"optimal\": %s", a->meets ? "true" : "false",
	    a->optimal ? "true" : "false");
	if (!a->optimal && isfinite(a->gap))
		put_number(b, ", \"gap\": ", a->gap);
	put_stages(b, a);
	espl__print(b, ", \"predicted\": {");
	put_spread(b, "jct_s", &a->jct_s);
	espl__print(b, ", ");
	put_spread(b, "cost_usd", &a->cost_usd);
	espl__print(b, "}, \"search\": {\"plans\": %llu, \"effort\": %llu",
	    (unsigned long long)a->plans, (unsigned long long)a->effort);
	put_number(b, ", \"elapsed_ms\": ", a->elapsed_ms);
	espl__print(b, "}");
	if (a->interrupted == NULL)
		return;
	espl__print(b, ", \"interruptions\": {\"offer\": ");
	espl__print_json(b, a->interrupted);
	put_number(b, ", \"hazard_hour\": ", a->hazard_hour);
	espl__print(b, ", \"runs\": %u", (unsigned)a->tries.runs);
	if (a->tries.runs > 0) {
		espl__print(b, ", \"kept\": %u", (unsigned)a->tries.kept);
		put_number(b, ", \"jct_s\": ", a->tries.jct_s);
		put_number(b, ", \"cost_usd\": ", a->tries.cost_usd);
	}
	espl__print(b, "}");
}

static void
put_frontier(struct espl__buf *b, const struct espl__frontier *f)
{
	espl__print(b, ", \"frontier\": [");
	for (uint32_t i = 0; i < f->count; i++) {
		const struct espl__plan_answer *a = &f->answers[i];

		put_number(b,
		    i > 0 ? ", {\"deadline_s\": " : "{\"deadline_s\": ", f->deadline_s[i]);
		put_number(b, ", \"jct_s\": ", a->status == ESPL_OK ? a->jct_s.mean : NAN);
		put_number(b, ", \"cost_usd\": ", a->status == ESPL_OK ? a->cost_usd.mean : NAN);
		espl__print(b, "}");
	}
	espl__print(b, "]");
}

void
espl__plan_json(const struct espl__plan_view *v, struct espl__buf *b)
{
	espl__print(b, "{");
	if (v->answer->status == ESPL_OK) {
		espl__print(b, "\"experiment\": ");
		espl__print_json(b, v->config->name);
		espl__print(b, ", \"allocator\": ");
		espl__print_json(b, v->answer->allocator);
		espl__print(b, ", ");
	}
	put_answer(b, v->answer);
	for (uint32_t i = 0; v->compare != NULL && i < v->compare_count; i++) {
		espl__print(b, "%s{\"allocator\": ", i > 0 ? ", " : ", \"compare\": [");
		espl__print_json(b, v->compare[i].allocator);
		espl__print(b, ", ");
		put_answer(b, &v->compare[i]);
		espl__print(b, "}");
	}
	if (v->compare != NULL && v->compare_count > 0)
		espl__print(b, "]");
	if (v->frontier != NULL)
		put_frontier(b, v->frontier);
	espl__print(b, "}\n");
}
