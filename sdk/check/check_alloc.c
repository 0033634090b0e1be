/* check_alloc.c - check-plugin for allocators: a plan for a made-up experiment, then decisions on
 * an empty, a small and a huge view.  What is granted is held against what there is.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <espalier/rules.h>

#include "base/mem.h"
#include "check/check_guard.h"

struct alloc {
	struct espl__check *check;
	struct espl__instance *instance;
	const struct espl_allocator_ops *ops;
	struct espl_alloc_sink sink;
	struct espl_plan_sink plan_sink;
	/* the view */
	struct espl_alloc_view view;
	struct espl_item *items;
	const struct espl_item **item_list;
	struct espl_node *nodes;
	const struct espl_node **node_list;
	struct espl_gpu *gpus;
	const struct espl_gpu **gpu_list;
	uint32_t targets[2];
	const struct espl_experiment *experiments[1];
	/* one offer, and nobody shares a GPU: what most runs have */
	int plain;
	/* the answer */
	struct espl_share *granted;
	char *told; /* by item: the answer has a grant for it already */
	uint32_t answered[2];
	struct espl_plan plan; /* the accepted one, copied */
	struct espl_plan_stage *stages;
	const struct espl_plan_stage **stage_list;
	int planned;
};

/* A shape for planners: SHA over eight trials. */
static const struct espl_stage stage_0 = { (uint32_t)sizeof(struct espl_stage), 8, 1 };
static const struct espl_stage stage_1 = { (uint32_t)sizeof(struct espl_stage), 4, 2 };
static const struct espl_stage stage_2 = { (uint32_t)sizeof(struct espl_stage), 2, 4 };
static const struct espl_stage *const stages[] = { &stage_0, &stage_1, &stage_2 };
static const struct espl_bracket bracket = { (uint32_t)sizeof(struct espl_bracket), 3, stages };
static const struct espl_bracket *const brackets[] = { &bracket };
static const struct espl_spec spec = { .size = (uint32_t)sizeof(struct espl_spec),
	.bracket_count = 1,
	.brackets = brackets };

static const struct espl_point scaling[] = { { 1, 1 }, { 2, 1.9 }, { 4, 3.5 }, { 8, 6 } };
static const struct espl_point packing[] = { { 1, 1 }, { 2, 1.5 }, { 4, 2 } };

/* ---- sinks ------------------------------------------------------------------------- */

static struct alloc *
of(struct espl_alloc_sink *sink)
{
	return (struct alloc *)(void *)((char *)sink - offsetof(struct alloc, sink));
}

static espl_status
sink_grant(struct espl_alloc_sink *sink, const struct espl_grant *grant)
{
	struct alloc *a = of(sink);
	uint64_t bytes[6] = { grant->item, grant->share.gpus, grant->share.packing, grant->offer,
		grant->flags, (uint64_t)grant->max_price_hour };
	espl_status status = espl__check_call(a->check, "grant", bytes, sizeof bytes);
	char text[200];
	const char *wrong;

	if (status != ESPL_OK)
		return status;
	if (!espl__check_struct(a->check, "grant", grant->size, sizeof *grant, grant->zero))
		return ESPL_E_REJECTED;
	wrong = espl_grant_wrong(grant,
	    grant->item >= 1 && grant->item <= a->view.item_count ? &a->items[grant->item - 1]
								  : NULL,
	    a->view.offer_count, text, sizeof text);
	if (wrong != NULL)
		return espl__check_refuse(a->check, "grant: %s", wrong);
	if ((grant->flags & ESPL_GRANT_QUEUED) != 0)
		return ESPL_OK;
	if (a->told[grant->item - 1])
		espl__check_error(a->check,
		    "allocate: item %llu is granted twice in one answer, which is refused whole",
		    (unsigned long long)grant->item);
	a->told[grant->item - 1] = 1;
	a->granted[grant->item - 1] = grant->share;
	return ESPL_OK;
}

static espl_status
sink_target(struct espl_alloc_sink *sink, const struct espl_target *target)
{
	struct alloc *a = of(sink);
	uint64_t bytes[3] = { target->offer, target->nodes, (uint64_t)target->max_price_hour };
	espl_status status = espl__check_call(a->check, "target", bytes, sizeof bytes);
	char text[200];
	const char *wrong;

	if (status != ESPL_OK)
		return status;
	if (!espl__check_struct(a->check, "target", target->size, sizeof *target, target->zero))
		return ESPL_E_REJECTED;
	wrong = espl_target_wrong(target, a->view.offers, a->view.offer_count, text, sizeof text);
	if (wrong != NULL)
		return espl__check_refuse(a->check, "target: %s", wrong);
	a->answered[target->offer] = target->nodes;
	return ESPL_OK;
}

static int
no_node(const struct alloc *a, uint64_t node)
{
	return node >= a->view.node_count; /* their ids count up from 0 */
}

static espl_status
sink_retire(struct espl_alloc_sink *sink, uint64_t node)
{
	struct alloc *a = of(sink);
	espl_status status = espl__check_call(a->check, "retire", &node, sizeof node);

	return status == ESPL_OK && no_node(a, node)
	    ? espl__check_refuse(a->check, "retire: there is no node %llu",
		  (unsigned long long)node)
	    : status;
}

static espl_status
sink_claim(struct espl_alloc_sink *sink, uint64_t node, uint32_t whose)
{
	struct alloc *a = of(sink);
	uint64_t both[2] = { node, whose };
	espl_status status = espl__check_call(a->check, "claim", both, sizeof both);

	return status == ESPL_OK && no_node(a, node)
	    ? espl__check_refuse(a->check, "claim: there is no node %llu", (unsigned long long)node)
	    : status;
}

static espl_status
record_plan(struct espl__check *check, const struct espl_plan *plan)
{
	espl_status status =
	    espl__check_call(check, "plan", &plan->stage_count, sizeof plan->stage_count);

	for (uint32_t i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *s = plan->stages[i];
		uint32_t bytes[5] = { s->bracket, s->stage, s->offer, s->gpus, s->nodes };

		status = espl__check_call(check, "stage", bytes, sizeof bytes);
	}
	return status;
}

static espl_status
sink_replan(struct espl_alloc_sink *sink, uint64_t experiment, const struct espl_plan *plan)
{
	(void)experiment;
	return record_plan(of(sink)->check, plan);
}

static espl_status
sink_wake(struct espl_alloc_sink *sink, espl_time at)
{
	return espl__check_call(of(sink)->check, "wake_at", &at, sizeof at);
}

static espl_status
sink_watch(struct espl_alloc_sink *sink, uint32_t offer, uint32_t on)
{
	struct alloc *a = of(sink);
	uint32_t bytes[2] = { offer, on };
	espl_status status = espl__check_call(a->check, "watch_prices", bytes, sizeof bytes);

	return status == ESPL_OK && offer >= a->view.offer_count
	    ? espl__check_refuse(a->check, "watch_prices: there is no offer %u", offer)
	    : status;
}

static espl_status
sink_objective(struct espl_alloc_sink *sink, double value, double bound, const char *status)
{
	double bytes[2] = { value, bound };

	(void)status;
	return espl__check_call(of(sink)->check, "objective", bytes, sizeof bytes);
}

static espl_status
sink_horizon(struct espl_alloc_sink *sink, uint64_t item, const uint32_t *gpus, uint32_t steps)
{
	struct alloc *a = of(sink);

	if (item < 1 || item > a->view.item_count || steps > 10000)
		return espl__check_refuse(a->check,
		    "horizon: %u steps for item %llu: there is no such item, or they are too many",
		    steps, (unsigned long long)item);
	return espl__check_call(a->check, "horizon", gpus, steps * sizeof *gpus);
}

static struct alloc *
of_plan(struct espl_plan_sink *sink)
{
	return (struct alloc *)(void *)((char *)sink - offsetof(struct alloc, plan_sink));
}

static espl_status
plan_plan(struct espl_plan_sink *sink, const struct espl_plan *plan)
{
	struct alloc *a = of_plan(sink);
	struct espl_prediction prediction = ESPL_INIT(struct espl_prediction);
	espl_status status = record_plan(a->check, plan);

	if (status != ESPL_OK)
		return status;
	status = a->check->model.predict(&a->check->model, plan, NULL, &prediction, NULL);
	if (status != ESPL_OK || !prediction.meets)
		return ESPL_E_REJECTED;
	a->plan = *plan;
	a->stages = espl__realloc(a->stages, plan->stage_count, sizeof *a->stages);
	a->stage_list = espl__realloc(a->stage_list, plan->stage_count, sizeof *a->stage_list);
	for (uint32_t i = 0; i < plan->stage_count; i++) {
		a->stages[i] = *plan->stages[i];
		a->stage_list[i] = &a->stages[i];
	}
	a->plan.stages = a->stage_list;
	a->planned = 1;
	return ESPL_OK;
}

static espl_status
plan_least(struct espl_plan_sink *sink, double deadline_s, double budget_usd)
{
	double bytes[2] = { deadline_s, budget_usd };

	return espl__check_call(of_plan(sink)->check, "least", bytes, sizeof bytes);
}

/* ---- views ------------------------------------------------------------------------- */

static void
make_items(struct alloc *a, uint32_t count)
{
	a->items = espl__alloc((count + 1) * sizeof *a->items);
	a->item_list = espl__alloc((count + 1) * sizeof *a->item_list);
	a->granted = espl__alloc((count + 1) * sizeof *a->granted);
	a->told = espl__alloc(count + 1);
	for (uint32_t i = 0; i < count; i++) {
		a->items[i] = (struct espl_item){ .size = (uint32_t)sizeof *a->items,
			.id = i + 1,
			.trial = i,
			.group = 0,
			.bracket = 0,
			.stage = 0,
			.arrived = 0,
			.started = ESPL_NEVER,
			.work_s = 20 + i % 7,
			.work_total_s = 20 + i % 7,
			.iterations_left = 2,
			.gpus_min = 1,
			.gpus_max = 8,
			.unit = 1,
			.packing_max = 4,
			.scaling = scaling,
			.packing = packing,
			.scaling_count = 4,
			.packing_count = 3,
			.granted = { 0, 1 },
			.offer = ESPL_ANY,
			.gpu = ESPL_ANY,
			.weight = 1,
			.resize_s = 4,
			.boundary_s = 5,
			.start_s = 2 };
		if (a->plain)
			a->items[i].packing_max = 1;
		if (i % 5 == 4) { /* some stand for experiments, as in a pool of two levels */
			a->items[i].flags = ESPL_ITEM_EXPERIMENT;
			a->items[i].trial = a->items[i].group = ESPL_NONE;
			a->items[i].packing_max = 1;
		}
		a->item_list[i] = &a->items[i];
		a->granted[i] = (struct espl_share){ 0, 1 };
	}
	a->view.items = a->view.changed = a->item_list;
	a->view.item_count = a->view.changed_count = count;
}

static void
make_nodes(struct alloc *a, uint32_t count)
{
	a->nodes = espl__alloc((count + 1) * sizeof *a->nodes);
	a->node_list = espl__alloc((count + 1) * sizeof *a->node_list);
	a->gpus = espl__alloc((count * 4 + 1) * sizeof *a->gpus);
	a->gpu_list = espl__alloc((count * 4 + 1) * sizeof *a->gpu_list);
	for (uint32_t i = 0; i < count * 4; i++) {
		a->gpus[i].size = (uint32_t)sizeof *a->gpus;
		a->gpu_list[i] = &a->gpus[i];
	}
	for (uint32_t i = 0; i < count; i++) {
		a->nodes[i] = (struct espl_node){ .size = (uint32_t)sizeof *a->nodes,
			.state = ESPL_NODE_READY,
			.id = i,
			.offer = 0,
			.gpus_idle = 4,
			.gpu_count = 4,
			.gpus = &a->gpu_list[(size_t)i * 4],
			.owner = ESPL_NONE,
			.ready_at = 0,
			.ends_at = ESPL_NEVER };
		a->node_list[i] = &a->nodes[i];
	}
	a->view.nodes = a->node_list;
	a->view.node_count = count;
	a->view.gpus = a->view.gpus_idle = count * 4;
	a->targets[0] = count;
}

static void
open_alloc(struct alloc *a, struct espl__check *check, uint32_t flags, int refuse)
{
	memset(a, 0, sizeof *a);
	a->check = check;
	a->ops = (const struct espl_allocator_ops *)(const void *)check->plugin->desc->ops;
	a->sink = (struct espl_alloc_sink){ .size = (uint32_t)sizeof a->sink,
		.grant = sink_grant,
		.target = sink_target,
		.retire = sink_retire,
		.plan = sink_replan,
		.wake_at = sink_wake,
		.watch_prices = sink_watch,
		.objective = sink_objective,
		.horizon = sink_horizon,
		.claim = sink_claim };
	a->plan_sink = (struct espl_plan_sink){ .size = (uint32_t)sizeof a->plan_sink,
		.plan = plan_plan,
		.least = plan_least };
	check->now = 0;
	check->experiment.flags = flags;
	check->experiment.spec = &spec;
	check->experiment.plan = NULL;
	check->experiment.standing = NULL;
	check->experiment.standing_count = 0;
	espl__check_begin(check, refuse);
	a->instance = espl__check_create(check, 7);
}

static void
forget_view(struct alloc *a)
{
	free(a->items);
	free(a->item_list);
	free(a->granted);
	free(a->told);
	free(a->nodes);
	free(a->node_list);
	free(a->gpus);
	free(a->gpu_list);
	memset(&a->view, 0, sizeof a->view);
	a->items = NULL;
	a->item_list = NULL;
	a->granted = NULL;
	a->told = NULL;
	a->nodes = NULL;
	a->node_list = NULL;
	a->gpus = NULL;
	a->gpu_list = NULL;
}

static void
close_alloc(struct alloc *a)
{
	a->check->view = NULL;
	espl__check_step(a->check, "destroy");
	espl__instance_destroy(a->instance);
	forget_view(a);
	free(a->stages);
	free(a->stage_list);
	a->check->experiment.plan = NULL;
	a->check->experiment.spec = NULL;
	a->check->experiment.flags = 0;
}

/* ---- decisions --------------------------------------------------------------------- */

static void
try_plan(struct alloc *a)
{
	struct espl_plan_view view = { .size = (uint32_t)sizeof view,
		.gpus_max = 64,
		.experiment = &a->check->experiment,
		.offers = a->check->offers,
		.offer_count = a->plain ? 1 : a->check->offer_count };
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	if (!ESPL_HAS(struct espl_allocator_ops, a->ops, plan))
		return;
	error.option = error.row = ESPL_ANY;
	espl__check_step(a->check, "plan");
	status = a->ops->plan(a->instance->self, &view, &a->plan_sink, &error);
	if (espl__check_returned(a->check, "plan", status, &error) && !a->planned &&
	    !a->check->refuse)
		espl__check_error(a->check, "plan: it returned OK without an acceptable plan");
	if (a->planned)
		a->check->experiment.plan = &a->plan;
}

/* Do the grants fit the nodes that are to be held? */
static void
check_sum(const struct alloc *a)
{
	uint64_t gpus = 0, shares[257] = { 0 }, held = 0;

	for (uint32_t i = 0; i < a->view.item_count; i++) {
		if (a->granted[i].packing > 1 && a->granted[i].packing <= 256)
			shares[a->granted[i].packing]++;
		else
			gpus += a->granted[i].gpus;
	}
	for (uint32_t c = 2; c <= 256; c++)
		gpus += (shares[c] + c - 1) / c;
	for (uint32_t o = 0; o < 2; o++)
		held += (uint64_t)a->answered[o] * a->check->offers[o]->gpus;
	if (gpus > held)
		espl__check_error(a->check,
		    "allocate: %llu GPUs are granted, but the targets hold %llu",
		    (unsigned long long)gpus, (unsigned long long)held);
}

static void
decide(struct alloc *a, const char *what, uint32_t items, uint32_t nodes, uint32_t why)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct espl__extent parts[6];
	espl_status status;
	uint64_t before;

	espl__check_step(a->check, "allocate, %s", what);
	a->check->view = what;
	forget_view(a);
	make_items(a, items);
	make_nodes(a, nodes);
	parts[0] = (struct espl__extent){ &a->view, sizeof a->view };
	parts[1] = (struct espl__extent){ a->items, items * sizeof *a->items };
	parts[2] = (struct espl__extent){ a->item_list, items * sizeof *a->item_list };
	parts[3] = (struct espl__extent){ a->nodes, nodes * sizeof *a->nodes };
	parts[4] = (struct espl__extent){ a->node_list, nodes * sizeof *a->node_list };
	parts[5] = (struct espl__extent){ a->gpus, (size_t)nodes * 4 * sizeof *a->gpus };
	a->experiments[0] = &a->check->experiment;
	a->view.size = (uint32_t)sizeof a->view;
	a->view.why = why;
	a->view.now = a->check->now;
	a->view.experiments = a->experiments;
	a->view.experiment_count = 1;
	a->view.offers = a->check->offers;
	a->view.offer_count = a->plain ? 1 : a->check->offer_count;
	a->view.targets = a->targets;
	a->targets[1] = 0;
	a->answered[0] = a->targets[0];
	a->answered[1] = a->targets[1];
	error.option = error.row = ESPL_ANY;
	before = espl__parts_digest(parts, sizeof parts / sizeof parts[0]);
	status = a->ops->allocate(a->instance->self, &a->view, &a->sink, &error);
	espl__parts_same(a->check, "allocate", parts, sizeof parts / sizeof parts[0], before);
	if (espl__check_returned(a->check, "allocate", status, &error) && !a->check->refuse)
		check_sum(a);
	a->check->now += 10 * ESPL_SECOND;
}

static int
script(struct espl__check *check, uint32_t flags, int refuse, int plain, uint64_t *digest)
{
	struct alloc a;
	int made;

	open_alloc(&a, check, flags, refuse);
	a.plain = plain;
	made = a.instance != NULL;
	if (made) {
		try_plan(&a);
		decide(&a, "nothing there", 0, 0, ESPL_WHY_NODES);
		decide(&a, "items without nodes", 5, 0, ESPL_WHY_ARRIVAL);
		decide(&a, "4 items, 2 nodes", 4, 2, ESPL_WHY_ARRIVAL | ESPL_WHY_NODES);
		decide(&a, "40 items, 2 nodes", 40, 2, ESPL_WHY_ARRIVAL);
		decide(&a, "nodes without items", 0, 3, ESPL_WHY_DEPARTURE);
		if (!refuse && !plain)
			decide(&a, "10000 items, 1000 nodes", 10000, 1000, ESPL_WHY_ARRIVAL);
	}
	*digest = check->digest;
	close_alloc(&a);
	return made;
}

static void
live(struct espl__check *check)
{
	uint64_t digest;

	(void)script(check, 0, 0, 1, &digest);
}

void
espl__check_alloc(struct espl__check *check)
{
	uint64_t one, two;
	unsigned before = espl__check_found(check);

	if (!script(check, 0, 0, 0, &one))
		return;
	(void)script(check, ESPL_EXPERIMENT_WARM | ESPL_EXPERIMENT_AHEAD | ESPL_EXPERIMENT_CHAIN, 0,
	    0, &two);
	(void)script(check, 0, 0, 1, &two);
	if (espl__check_found(check) == before)
		espl__check_ok(check,
		    "allocate: answers fit, for no items, a few and 10000, with every planning "
		    "option, with one offer and several");
	(void)script(check, 0, 0, 0, &two);
	if (one != two)
		espl__check_error(check,
		    "the same seed and the same views led to other decisions: it is not "
		    "deterministic");
	else
		espl__check_ok(check, "the same seed leads to the same decisions");
	(void)script(check, 0, 1, 0, &two);
	espl__check_ok(check, "allocate: returns when every call is refused");
	espl__check_leaks(check, live);
}
