/* allocator_naive_elastic.c - as many GPUs for each trial all the way, whatever stage it is in.
 *
 * The elastic baseline of RubberBand (EuroSys'21, 6.3): all trials of a stage train at once on the
 * same number of GPUs each, and the cluster shrinks with their number.  The plan is the cheapest
 * such number that holds deadline and budget.
 */
#include "planner.h"

static const struct espl_option options[] = { PLANNER_OPTIONS };

struct naive {
	struct planner_instance common;
};

static void
destroy(void *self)
{
	struct naive *naive = self;

	ESPL_ASSERT(naive != NULL && naive->common.magic == PLANNER_MAGIC);
	naive->common.magic = 0;
	espl_follow_free(&naive->common.follow);
	free(naive);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct naive *naive = calloc(1, sizeof *naive);

	if (naive == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	planner_instance_init(&naive->common, host, config);
	*self = naive;
	return ESPL_OK;
}

/* The GPUs of all stages with `each` for a trial.  0: too many; -1: not all trials at once. */
static int
lay_out_stages(const struct planner_problem *p, uint32_t each, uint32_t *gpus)
{
	uint32_t i;
	int all = 1;

	ESPL_ASSERT(each > 0);
	for (i = 0; i < p->stage_count; i++) {
		const struct espl_cell *cell;

		if (p->stages[i].trials > p->limit / each)
			return 0;
		gpus[i] = p->stages[i].trials * each;
		cell = planner_cell(p, i, gpus[i]);
		if ((cell->flags & ESPL_CELL_INVALID) != 0 || cell->slots < p->stages[i].trials)
			all = -1;
	}
	return all;
}

static espl_status
solve_problem(void *ctx, struct planner_problem *p, double deadline_s,
    struct planner_answer *answer)
{
	uint32_t each, best = 0;
	int fits;

	(void)ctx;
	answer->bound_usd = NAN;
	answer->least_s = INFINITY;
	for (each = 1; (fits = lay_out_stages(p, each, answer->gpus)) != 0; each++) {
		struct planner_value value;

		answer->looked++;
		if (fits < 0 || !planner_evaluate(p, answer->gpus, &value))
			continue;
		answer->least_s = fmin(answer->least_s, value.time_s);
		if (value.time_s <= deadline_s * (1 + PLANNER_CLOSE) &&
		    (best == 0 || planner_better(&value, &answer->value))) {
			best = each;
			answer->value = value;
		}
	}
	return best > 0 && lay_out_stages(p, best, answer->gpus) > 0 ? ESPL_OK : ESPL_E_INFEASIBLE;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct naive *naive = self;

	return planner_instance_allocate(&naive->common, view, sink, solve_problem, NULL, error);
}

static espl_status
plan(void *self, const struct espl_plan_view *view, struct espl_plan_sink *sink,
    struct espl_error *error)
{
	struct naive *naive = self;

	return planner_instance_plan(&naive->common, view, sink, solve_problem, NULL, error);
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
	.plan = plan,
};

ESPL_PLUGIN(allocator, naive_elastic) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "naive-elastic"),
	.version = "0.1",
	.summary = "the same number of GPUs per trial in all stages, all trials in parallel",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
