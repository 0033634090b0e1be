/* plan_json.c - `espalier plan --json`: docs/cli.md. */
#include <math.h>

#include "base/json.h"
#include "base/assert.h"
#include "cli/plan.h"

static void
put_spread(struct espl__buf *b, const char *name, const struct espl__spread *s)
{
	espl__json_open(b, name, '{');
	espl__json_real(b, "mean", s->mean);
	espl__json_real(b, "sd", s->sd);
	espl__json_real(b, "p95", s->p95);
	espl__print(b, "}");
}

static void
put_stages(struct espl__buf *b, const struct espl__plan_answer *a)
{
	espl__json_open(b, "stages", '[');
	for (uint32_t i = 0; i < a->row_count; i++) {
		const struct espl__plan_row *r = &a->rows[i];

		espl__json_open(b, NULL, '{');
		espl__json_int(b, "stage", r->stage);
		espl__json_int(b, "bracket", r->bracket);
		espl__json_int(b, "trials", r->trials);
		espl__json_int(b, "iterations", (int64_t)r->iterations);
		espl__json_int(b, "gpus", r->gpus);
		espl__json_int(b, "gpus_per_trial", r->gpus_per_trial);
		espl__json_int(b, "nodes", r->nodes);
		espl__json_text(b, "offer", r->offer);
		espl__json_real(b, "starts_s", r->starts_s);
		espl__json_real(b, "ends_s", r->ends_s);
		espl__json_real(b, "cost_usd", r->cost_usd);
		espl__print(b, "}");
	}
	espl__print(b, "]");
}

static void
put_least(struct espl__buf *b, const struct espl__plan_answer *a)
{
	espl__json_open(b, "least", '{');
	if (isfinite(a->least_s))
		espl__json_real(b, "jct_s", a->least_s);
	if (isfinite(a->least_usd))
		espl__json_real(b, "cost_usd", a->least_usd);
	espl__print(b, "}");
}

/* From "feasible" on; the caller opens and closes the object. */
static void
put_answer(struct espl__buf *b, const struct espl__plan_answer *a)
{
	if (a->status != ESPL_OK) {
		espl__json_bool(b, "feasible", 0);
		put_least(b, a);
		if (a->status != ESPL_E_INFEASIBLE)
			espl__json_text(b, "error", a->diag.text);
		return;
	}
	espl__json_bool(b, "feasible", a->meets);
	espl__json_bool(b, "optimal", a->optimal);
	if (!a->optimal && isfinite(a->gap))
		espl__json_real(b, "gap", a->gap);
	put_stages(b, a);
	espl__json_open(b, "predicted", '{');
	put_spread(b, "jct_s", &a->jct_s);
	put_spread(b, "cost_usd", &a->cost_usd);
	espl__print(b, "}");
	espl__json_open(b, "search", '{');
	espl__json_int(b, "plans", (int64_t)a->plans);
	espl__json_int(b, "effort", (int64_t)a->effort);
	espl__json_real(b, "elapsed_ms", a->elapsed_ms);
	espl__print(b, "}");
	if (a->interrupted == NULL)
		return;
	espl__json_open(b, "interruptions", '{');
	espl__json_text(b, "offer", a->interrupted);
	espl__json_real(b, "hazard_hour", a->hazard_hour);
	if (a->lease_max_s > 0)
		espl__json_real(b, "lease_max_s", a->lease_max_s);
	espl__json_int(b, "runs", a->tries.runs);
	if (a->tries.runs > 0) {
		espl__json_int(b, "kept", a->tries.kept);
		espl__json_real(b, "jct_s", a->tries.jct_s);
		espl__json_real(b, "cost_usd", a->tries.cost_usd);
	}
	espl__print(b, "}");
}

static void
put_frontier(struct espl__buf *b, const struct espl__frontier *f)
{
	espl__json_open(b, "frontier", '[');
	for (uint32_t i = 0; i < f->count; i++) {
		const struct espl__plan_answer *a = &f->answers[i];

		espl__json_open(b, NULL, '{');
		espl__json_real(b, "deadline_s", f->deadline_s[i]);
		espl__json_real(b, "jct_s", a->status == ESPL_OK ? a->jct_s.mean : NAN);
		espl__json_real(b, "cost_usd", a->status == ESPL_OK ? a->cost_usd.mean : NAN);
		espl__print(b, "}");
	}
	espl__print(b, "]");
}

void
espl__plan_json(const struct espl__plan_view *v, struct espl__buf *b)
{
	ESPL__ASSERT(v->answer != NULL && v->config != NULL);
	espl__print(b, "{");
	if (v->answer->status == ESPL_OK) {
		espl__json_text(b, "experiment", v->config->name);
		espl__json_text(b, "allocator", v->answer->allocator);
	}
	put_answer(b, v->answer);
	if (v->compare != NULL && v->compare_count > 0) {
		espl__json_open(b, "compare", '[');
		for (uint32_t i = 0; i < v->compare_count; i++) {
			espl__json_open(b, NULL, '{');
			espl__json_text(b, "allocator", v->compare[i].allocator);
			put_answer(b, &v->compare[i]);
			espl__print(b, "}");
		}
		espl__print(b, "]");
	}
	if (v->frontier != NULL)
		put_frontier(b, v->frontier);
	espl__print(b, "}\n");
}
