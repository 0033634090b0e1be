/* allocator_elastic_greedy.c - RubberBand's planner (EuroSys'21, 4.3): from the best cluster of one
 * size downwards, stage by stage.  It looks at few plans and proves nothing; elastic-exact does. */
#include "planner.h"

enum { VARIANT = PLANNER_OWN, STARTS };
enum { REPAIRED, LITERAL };

static const struct espl_option options[] = {
	PLANNER_OPTIONS,
	{ .name = "variant",
	    .help = "repaired: steps release whole nodes, no stage gets too slow, and small "
		    "changes refine the result; literal: Algorithm 2 as printed",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "repaired",
	    .choices = "repaired|literal" },
	{ .name = "starts",
	    .help = "number of starting points: the best static size, twice that, ...; default: 3, "
		    "for literal 1",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "64",
	    .flags = ESPL_OPT_EXPERIMENTAL },
};

struct greedy {
	struct planner_instance common;
	struct planner_greedy how;
};

static void
destroy(void *self)
{
	struct greedy *greedy = self;

	ESPL_ASSERT(greedy != NULL && greedy->common.magic == PLANNER_MAGIC);
	greedy->common.magic = 0;
	espl_follow_free(&greedy->common.follow);
	free(greedy);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct greedy *greedy = calloc(1, sizeof *greedy);

	if (greedy == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	planner_instance_init(&greedy->common, host, config);
	greedy->how.literal = config->values[VARIANT].as.i == LITERAL;
	greedy->how.starts = config->values[STARTS].source != ESPL_UNSET
	    ? (uint32_t)config->values[STARTS].as.i
	    : greedy->how.literal ? 1
				  : 3;
	*self = greedy;
	return ESPL_OK;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct greedy *greedy = self;

	return planner_instance_allocate(&greedy->common, view, sink, planner_greedy_solve,
	    &greedy->how, error);
}

static espl_status
plan(void *self, const struct espl_plan_view *view, struct espl_plan_sink *sink,
    struct espl_error *error)
{
	struct greedy *greedy = self;

	return planner_instance_plan(&greedy->common, view, sink, planner_greedy_solve,
	    &greedy->how, error);
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
	.plan = plan,
};

ESPL_PLUGIN(allocator, elastic_greedy) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "elastic-greedy"),
	.version = "0.1",
	.summary = "RubberBand's greedy planner: remove GPUs where that saves the most",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
