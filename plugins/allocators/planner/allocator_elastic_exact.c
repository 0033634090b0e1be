/* allocator_elastic_exact.c - the cheapest plan there is, proven: dynamic programming over the
 * stages, and best-first search where minimum charges count.  Says how far off it may be if it had
 * to stop early. */
#include "planner.h"

enum { ALLOCATIONS = PLANNER_OWN, EFFORT };
enum { ANY, FAIR };

static const struct espl_option options[] = {
	PLANNER_OPTIONS,
	{ .name = "allocations",
	    .help = "any: every number of GPUs; fair: factors and multiples of a stage's trials",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "any",
	    .choices = "any|fair" },
	{ .name = "effort",
	    .help = "maximum number of search steps per plan (100 million take less than 2 s), and "
		    "1/20 of that for re-planning a live run; at the limit, the plan reports its "
		    "distance from the optimum",
	    .type = ESPL_OPT_INT,
	    .fallback = "100000000",
	    .min = "1000",
	    .max = "1000000000000" },
};

struct proven {
	struct planner_instance common;
	struct planner_exact how;
};

static void
destroy(void *self)
{
	struct proven *proven = self;

	ESPL_ASSERT(proven != NULL && proven->common.magic == PLANNER_MAGIC);
	proven->common.magic = 0;
	espl_follow_free(&proven->common.follow);
	free(proven);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct proven *proven = calloc(1, sizeof *proven);

	if (proven == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	planner_instance_init(&proven->common, host, config);
	proven->how.fair = config->values[ALLOCATIONS].as.i == FAIR;
	proven->common.effort = (uint64_t)config->values[EFFORT].as.i;
	*self = proven;
	return ESPL_OK;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct proven *proven = self;

	return planner_instance_allocate(&proven->common, view, sink, planner_exact_solve,
	    &proven->how, error);
}

static espl_status
plan(void *self, const struct espl_plan_view *view, struct espl_plan_sink *sink,
    struct espl_error *error)
{
	struct proven *proven = self;

	return planner_instance_plan(&proven->common, view, sink, planner_exact_solve, &proven->how,
	    error);
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
	.plan = plan,
};

ESPL_PLUGIN(allocator, elastic_exact) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "elastic-exact"),
	.version = "0.1",
	.summary = "cheapest plan within deadline and budget, proven optimal",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
