/* test_plugins_fleet.c - the shipped allocators and placers through the test kit. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "testkit.h"
#include "test_plugins.h"

/* One offer of nodes with so many GPUs, at 12.24 dollars an hour. */
static struct espl_kit *
opened(const struct espl_plugin *plugin, const char *options, uint32_t gpus, uint32_t nodes_max)
{
	struct espl_kit *kit = espl_kit_new(7);
	struct espl_error error;

	cr_assert_eq(espl_kit_open(kit, plugin, options, &error), ESPL_OK, "%s", error.text);
	(void)espl_kit_offer(kit, "p3.8xlarge", gpus, nodes_max, 12.24);
	return kit;
}

static uint64_t
item(struct espl_kit *kit, uint32_t min, uint32_t max, uint32_t flags)
{
	uint64_t id = espl_kit_item(kit, min, max);

	espl_kit_item_at(kit, id)->flags |= flags;
	return id;
}

static uint32_t
gpus_of(struct espl_kit *kit, uint64_t id)
{
	return espl_kit_item_at(kit, id)->granted.gpus;
}

/* Calls, and compares what was said. */
static void
says(struct espl_kit *kit, espl_status (*call)(struct espl_kit *), const char *text)
{
	espl_status status;

	espl_kit_clear(kit);
	status = call(kit);
	cr_assert_eq(status, ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_str_eq(espl_kit_log(kit), text);
	cr_assert_eq(espl_kit_refused(kit), 0);
}

/* ---- static ------------------------------------------------------------------------------ */

/* RubberBand's table 3, third row (docs/model.md): 15 GPUs are 4 nodes, 3 trials, 4 each. */
Test(alloc_static, divides_by_stage)
{
	struct espl_kit *kit = opened(&allocator_static_LTX_espalier_plugin, "gpus=15", 4, 64);
	uint64_t a = item(kit, 1, 1000, ESPL_ITEM_COLOCATE), b, i;

	(void)item(kit, 1, 1000, ESPL_ITEM_COLOCATE);
	b = item(kit, 1, 1000, ESPL_ITEM_COLOCATE);
	says(kit, espl_kit_allocate,
	    "target offer=0 nodes=4\ngrant item=0 gpus=4\n"
	    "grant item=1 gpus=4\ngrant item=2 gpus=4\n");
	espl_kit_leave(kit, 1);
	says(kit, espl_kit_allocate, ""); /* running ones are left alone */
	espl_kit_leave(kit, a);
	espl_kit_leave(kit, b);
	for (i = 0; i < 17; i++)
		(void)item(kit, 1, 1000, ESPL_ITEM_COLOCATE);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(gpus_of(kit, 17), 1);
	cr_assert_eq(gpus_of(kit, 18), 0, "16 trials on 15 GPUs");
	espl_kit_leave(kit, 9);
	says(kit, espl_kit_allocate, "grant item=18 gpus=1\n");
	espl_kit_free(kit);
}

Test(alloc_static, shares_fit_the_nodes)
{
	/* 12 GPUs of 3 nodes among 4: three each would leave one without a node. */
	struct espl_kit *kit = opened(&allocator_static_LTX_espalier_plugin, "gpus=12", 4, 64);
	uint64_t i;

	for (i = 0; i < 4; i++)
		(void)item(kit, 1, 1000, ESPL_ITEM_COLOCATE);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	for (i = 0; i < 4; i++)
		cr_assert_eq(gpus_of(kit, i), 2);
	espl_kit_free(kit);
	/* The same without that wish, within limits, and with an uneven unit. */
	kit = opened(&allocator_static_LTX_espalier_plugin, "gpus=12", 4, 64);
	for (i = 0; i < 4; i++)
		(void)item(kit, 1, i == 0 ? 2 : 1000, 0);
	espl_kit_item_at(kit, 1)->unit = 2;
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(gpus_of(kit, 0), 2);
	cr_assert_eq(gpus_of(kit, 1), 2);
	cr_assert_eq(gpus_of(kit, 2), 3);
	espl_kit_free(kit);
	/* Larger than a node: whole nodes; what can never fit is passed over. */
	kit = opened(&allocator_static_LTX_espalier_plugin, "gpus=16", 4, 64);
	(void)item(kit, 32, 32, ESPL_ITEM_COLOCATE);
	(void)item(kit, 6, 1000, ESPL_ITEM_COLOCATE);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(gpus_of(kit, 0), 0);
	cr_assert_eq(gpus_of(kit, 1), 8);
	espl_kit_free(kit);
}

Test(alloc_static, open_groups_and_sizes)
{
	struct espl_kit *kit = opened(&allocator_static_LTX_espalier_plugin, "", 4, 2);
	struct espl_stage stage = ESPL_INIT(struct espl_stage);
	const struct espl_stage *stages = &stage;
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec spec = ESPL_INIT(struct espl_spec);

	/* More trials will come: each starts on the minimum of GPUs. */
	(void)item(kit, 1, 8, ESPL_ITEM_OPEN);
	says(kit, espl_kit_allocate, "target offer=0 nodes=2\ngrant item=0 gpus=1\n");
	(void)item(kit, 1, 8, ESPL_ITEM_OPEN);
	says(kit, espl_kit_allocate, "grant item=1 gpus=1\n");
	espl_kit_free(kit);
	/* A declared width of 5 needs two nodes of the quota of eight. */
	kit = opened(&allocator_static_LTX_espalier_plugin, "", 4, 8);
	stage.trials = 5;
	stage.iterations = 1;
	bracket.stage_count = spec.bracket_count = 1;
	bracket.stages = &stages;
	spec.brackets = &brackets;
	espl_kit_experiment(kit)->spec = &spec;
	(void)item(kit, 1, 1, 0);
	says(kit, espl_kit_allocate, "target offer=0 nodes=2\ngrant item=0 gpus=1\n");
	espl_kit_free(kit);
	/* The experiment's own limit counts, and the offer may be named. */
	kit = opened(&allocator_static_LTX_espalier_plugin, "gpus=100 offer=big", 4, 8);
	(void)espl_kit_offer(kit, "big", 8, 9, 24);
	espl_kit_experiment(kit)->gpus_limit = 16;
	(void)item(kit, 1, 1000, ESPL_ITEM_COLOCATE);
	says(kit, espl_kit_allocate, "target offer=1 nodes=2\ngrant item=0 gpus=16\n");
	espl_kit_free(kit);
}

/* 100,000 queued on 1,000 GPUs: each departure is one grant, found without walking the queue. */
static void
many_queued(const struct espl_plugin *plugin, const char *options)
{
	struct espl_kit *kit = opened(plugin, options, 8, 125);
	uint32_t i;

	for (i = 0; i < 100000; i++)
		(void)espl_kit_item(kit, 1, 1);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(espl_kit_calls(kit), 1001); /* the target, and the grants */
	for (i = 0; i < 50; i++) {
		char line[64];

		espl_kit_leave(kit, (uint64_t)i * 17);
		(void)snprintf(line, sizeof line, "grant item=%u gpus=1\n", 1000 + i);
		says(kit, espl_kit_allocate, line);
	}
	/* A thousand leave and as many come in one round. */
	for (i = 0; i < 1000; i++)
		if (i % 17 != 0 || i >= 50 * 17)
			espl_kit_leave(kit, i);
	for (i = 0; i < 1000; i++)
		(void)espl_kit_item(kit, 1, 1);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	cr_assert_eq(espl_kit_calls(kit), 950);
	cr_assert_eq(gpus_of(kit, 1999), 1);
	cr_assert_eq(gpus_of(kit, 2000), 0);
	espl_kit_free(kit);
}

/* A name that no cloud sells is the user's mistake; a known offer that is sold out is not. */
static void
offer_by_name(const struct espl_plugin *plugin)
{
	struct espl_kit *kit = opened(plugin, "gpus=4 offer=nobody", 4, 8);

	(void)item(kit, 1, 4, 0);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(espl_kit_log(kit), "no offer 'nobody'"), "%s", espl_kit_log(kit));
	espl_kit_free(kit);
	kit = opened(plugin, "gpus=4 offer=big", 4, 8);
	espl_kit_offer_at(kit, espl_kit_offer(kit, "big", 8, 9, 24))->flags |= ESPL_OFFER_GONE;
	(void)item(kit, 1, 4, 0);
	says(kit, espl_kit_allocate, "");
	espl_kit_offer_at(kit, 1)->flags = 0;
	says(kit, espl_kit_allocate, "target offer=1 nodes=1\ngrant item=0 gpus=4\n");
	espl_kit_free(kit);
}

Test(alloc_static, offer_by_name)
{
	offer_by_name(&allocator_static_LTX_espalier_plugin);
}

Test(alloc_fair, offer_by_name)
{
	offer_by_name(&allocator_fair_LTX_espalier_plugin);
}

Test(alloc_static, many_queued)
{
	many_queued(&allocator_static_LTX_espalier_plugin, "gpus=1000");
}

Test(alloc_fair, many_queued)
{
	many_queued(&allocator_fair_LTX_espalier_plugin, "");
}

/* A cluster that no trial fits is the user's to mend, at once. */
static void
too_small(const struct espl_plugin *plugin)
{
	struct espl_kit *kit = opened(plugin, "gpus=2", 4, 64);

	(void)item(kit, 3, 4, ESPL_ITEM_COLOCATE);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(espl_kit_log(kit), "it may hold 2 GPUs, and a trial needs 3"));
	espl_kit_free(kit);
}

Test(alloc_static, too_small)
{
	too_small(&allocator_static_LTX_espalier_plugin);
}

Test(alloc_fair, too_small)
{
	too_small(&allocator_fair_LTX_espalier_plugin);
}

/* ---- static's plans ---------------------------------------------------------------------- */

/* A made-up ruler: 600 GPU-seconds of perfectly divisible work, and a second a node to start. */
static espl_status
predict(const struct espl_model *model, const struct espl_plan *plan,
    const struct espl_predict *how, struct espl_prediction *result, struct espl_error *error)
{
	double gpus = plan->stages[0]->gpus, nodes = ceil(gpus / 4);

	(void)how;
	(void)error;
	if (model->ctx != NULL)
		return ESPL_E_UNSUPPORTED;
	result->jct_s = 600 / gpus + nodes;
	result->cost_usd = result->jct_s * nodes / 100;
	result->meets = result->jct_s <= 100;
	return ESPL_OK;
}

static espl_status
no_cells(const struct espl_model *model, const struct espl_stage_query *query,
    struct espl_cell *cells)
{
	(void)model;
	(void)query;
	(void)cells;
	return ESPL_E_UNSUPPORTED;
}

Test(alloc_static, plans_the_cheapest_size)
{
	struct espl_model model = ESPL_INIT(struct espl_model);
	struct espl_stage stage = { sizeof stage, 6, 10 };
	const struct espl_stage *stages = &stage;
	struct espl_bracket bracket = { sizeof bracket, 1, &stages };
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec spec = { sizeof spec, 0, 1, 0, &brackets };
	int i;

	model.predict = predict;
	model.stage = no_cells;
	for (i = 0; i < 4; i++) {
		struct espl_kit *kit = espl_kit_new(1);

		model.ctx = i == 2 ? &model : NULL;
		if (i != 3)
			espl_kit_set_service(kit, ESPL_MODEL, &model);
		espl_kit_experiment(kit)->spec = &spec;
		cr_assert_eq(espl_kit_open(kit, &allocator_static_LTX_espalier_plugin,
				 i == 1 ? "gpus=7" : "", NULL),
		    ESPL_OK);
		(void)espl_kit_offer(kit, "p3", 4, 64, 12.24);
		cr_assert_eq(espl_kit_plan(kit, 64), ESPL_OK);
		/* 4 GPUs take 151 s, 8 take 77 s: the first that is in time is the cheapest. */
		cr_assert_str_eq(espl_kit_log(kit),
		    i == 0       ? "plan bracket=0 stage=0 offer=0 gpus=8\n"
			: i == 1 ? "plan bracket=0 stage=0 offer=0 gpus=7\n"
				 : "plan bracket=0 stage=0 offer=0 gpus=6\n");
		if (i == 0) {
			espl_kit_clear(kit);
			cr_assert_eq(espl_kit_plan(kit, 4), ESPL_E_INFEASIBLE);
			cr_assert_not_null(
			    strstr(espl_kit_log(kit), "least deadline=151 budget=1.51"));
		}
		espl_kit_free(kit);
	}
}

/* ---- fair -------------------------------------------------------------------------------- */

Test(alloc_fair, equal_shares_the_rest_to_the_earliest)
{
	struct espl_kit *kit = opened(&allocator_fair_LTX_espalier_plugin, "", 4, 2);
	uint64_t i;

	for (i = 0; i < 3; i++)
		(void)item(kit, 1, 1000, 0);
	says(kit, espl_kit_allocate,
	    "target offer=0 nodes=2\ngrant item=0 gpus=3\n"
	    "grant item=1 gpus=3\ngrant item=2 gpus=2\n");
	/* One more: only the latest gives up GPUs, the fair share of the newcomer. */
	(void)item(kit, 1, 1000, 0);
	says(kit, espl_kit_allocate,
	    "grant item=1 gpus=2\ngrant item=0 gpus=2\n"
	    "grant item=3 gpus=2\n");
	espl_kit_leave(kit, 0);
	espl_kit_leave(kit, 3);
	says(kit, espl_kit_allocate, "grant item=1 gpus=4\ngrant item=2 gpus=4\n");
	espl_kit_free(kit);
}

Test(alloc_fair, resizes_only_when_it_pays)
{
	static const struct espl_point flat[] = { { 1, 1 }, { 2, 1.1 }, { 4, 1.15 } };
	struct espl_kit *kit = opened(&allocator_fair_LTX_espalier_plugin, "gpus=4", 4, 2);
	uint64_t a = item(kit, 1, 4, 0), b = item(kit, 1, 4, 0), c = item(kit, 1, 4, 0);

	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	espl_kit_item_at(kit, a)->work_s = 10; /* 10 s -> 9.1 s */
	espl_kit_item_at(kit, a)->resize_s = 5;
	espl_kit_item_at(kit, a)->scaling = flat;
	espl_kit_item_at(kit, a)->scaling_count = 3;
	espl_kit_item_at(kit, b)->flags |= ESPL_ITEM_NO_SAVE;
	espl_kit_leave(kit, c);
	says(kit, espl_kit_allocate, "");
	/* Plenty of work left: now it does. */
	espl_kit_item_at(kit, a)->work_s = 1000;
	espl_kit_grant(kit, a, 1, 1);
	says(kit, espl_kit_allocate, "grant item=0 gpus=2\n");
	espl_kit_free(kit);
}

Test(alloc_fair, always_keeps_shares_equal)
{
	struct espl_kit *kit = opened(&allocator_fair_LTX_espalier_plugin, "resize=always", 8, 1);
	uint64_t a = item(kit, 1, 8, 0), b = item(kit, 1, 8, 0);

	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	espl_kit_grant(kit, a, 6, 1);
	espl_kit_grant(kit, b, 2, 1);
	says(kit, espl_kit_allocate, "grant item=0 gpus=4\ngrant item=1 gpus=4\n");
	espl_kit_free(kit);
}

Test(alloc_fair, a_crowd_shares_gpus)
{
	static const struct espl_point helps[] = { { 1, 1 }, { 2, 1.6 }, { 4, 2.2 } };
	static const struct espl_point harms[] = { { 1, 1 }, { 2, 0.9 } };
	struct espl_kit *kit = opened(&allocator_fair_LTX_espalier_plugin, "packing=4", 1, 2);
	struct espl_kit *sad = opened(&allocator_fair_LTX_espalier_plugin, "packing=4", 1, 2);
	uint64_t i;

	for (i = 0; i < 5; i++) {
		struct espl_item *one = espl_kit_item_at(kit, item(kit, 1, 8, 0));
		struct espl_item *other = espl_kit_item_at(sad, item(sad, 1, 8, 0));

		one->packing_max = other->packing_max = 4;
		one->packing = helps;
		one->packing_count = 3;
		other->packing = harms;
		other->packing_count = 2;
	}
	says(kit, espl_kit_allocate,
	    "target offer=0 nodes=2\ngrant item=0 gpus=1/4\n"
	    "grant item=1 gpus=1/4\ngrant item=2 gpus=1/4\ngrant item=3 gpus=1/4\n"
	    "grant item=4 gpus=1/4\n");
	for (i = 0; i < 3; i++)
		espl_kit_leave(kit, i);
	says(kit, espl_kit_allocate, "grant item=3 gpus=1\ngrant item=4 gpus=1\n");
	/* A running trial lets others in where there is no idle GPU. */
	for (i = 5; i < 7; i++) {
		struct espl_item *one = espl_kit_item_at(kit, item(kit, 1, 8, 0));

		one->packing_max = 4;
		one->packing = helps;
		one->packing_count = 3;
	}
	says(kit, espl_kit_allocate,
	    "grant item=4 gpus=1/2\ngrant item=5 gpus=1/2\n"
	    "grant item=3 gpus=1/2\ngrant item=6 gpus=1/2\n");
	espl_kit_free(kit);
	says(sad, espl_kit_allocate,
	    "target offer=0 nodes=2\ngrant item=0 gpus=1\n"
	    "grant item=1 gpus=1\n");
	espl_kit_free(sad);
}

/* ---- placing by hand --------------------------------------------------------------------- */

static void
granted(struct espl_kit *kit, uint64_t id, uint32_t gpus, uint32_t packing)
{
	espl_kit_item_at(kit, id)->packing_max = packing;
	espl_kit_grant(kit, id, gpus, packing);
}

static struct espl_kit *
kit_with_nodes(const struct espl_plugin *plugin, uint32_t nodes, uint32_t gpus)
{
	struct espl_kit *kit = opened(plugin, "", gpus, 100);

	while (nodes-- > 0)
		(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	return kit;
}

/* A gang on some GPUs of one node, from `first` on. */
static uint64_t
sitting(struct espl_kit *kit, uint64_t node, uint32_t first, uint32_t gpus)
{
	uint64_t id = item(kit, 1, 100, ESPL_ITEM_COLOCATE);
	struct espl_slot slots[16];
	uint32_t i;

	for (i = 0; i < gpus; i++) {
		slots[i].node = node;
		slots[i].gpu = first + i;
		slots[i].packing = 1;
	}
	espl_kit_grant(kit, id, gpus, 1);
	espl_kit_put(kit, id, slots, gpus);
	return id;
}

Test(colocate, best_fit_and_staying)
{
	struct espl_kit *kit = kit_with_nodes(&placer_colocate_LTX_espalier_plugin, 3, 4);
	uint64_t a = sitting(kit, 1, 0, 2), b;

	b = item(kit, 1, 100, ESPL_ITEM_COLOCATE);
	granted(kit, b, 2, 1);
	says(kit, espl_kit_place, "place item=1 1.2 1.3\n"); /* the fullest that has room */
	granted(kit, a, 1, 1);
	says(kit, espl_kit_place, "place item=0 1.0\n"); /* shrinks in place */
	granted(kit, b, 3, 1);
	says(kit, espl_kit_place, "place item=1 1.2 1.3 1.1\n"); /* grows in place */
	granted(kit, a, 4, 1);
	says(kit, espl_kit_place, "place item=0 nowhere\nplace item=0 0.0 0.1 0.2 0.3\n");
	granted(kit, a, 8, 1); /* whole nodes more; there is only one beside it */
	says(kit, espl_kit_place, "place item=0 0.0 0.1 0.2 0.3 2.0 2.1 2.2 2.3\n");
	says(kit, espl_kit_place, "");
	espl_kit_free(kit);
}

/* A node at risk is taken only when no other one has room. */
Test(placers, node_at_risk)
{
	const struct espl_plugin *const placers[] = { &placer_colocate_LTX_espalier_plugin,
		&placer_scatter_LTX_espalier_plugin };

	for (size_t i = 0; i < 2; i++) {
		struct espl_kit *kit = kit_with_nodes(placers[i], 2, 4);

		(void)sitting(kit, 0, 0, 1); /* the fullest, and the emptiest */
		(void)sitting(kit, 1, 0, 1);
		espl_kit_node_flags(kit, 0, ESPL_NODE_AT_RISK, ESPL_NONE);
		granted(kit, item(kit, 1, 100, ESPL_ITEM_COLOCATE), 3, 1);
		says(kit, espl_kit_place, "place item=2 1.1 1.2 1.3\n");
		granted(kit, item(kit, 1, 100, ESPL_ITEM_COLOCATE), 3, 1);
		says(kit, espl_kit_place, "place item=3 0.1 0.2 0.3\n");
		espl_kit_free(kit);
	}
}

/* An unreachable node takes no gang, and keeps those that it has, also smaller ones. */
Test(placers, unreachable_node)
{
	const struct espl_plugin *const placers[] = { &placer_colocate_LTX_espalier_plugin,
		&placer_scatter_LTX_espalier_plugin };

	for (size_t i = 0; i < 2; i++) {
		struct espl_kit *kit = kit_with_nodes(placers[i], 2, 4);
		uint64_t there = sitting(kit, 0, 0, 2);

		(void)sitting(kit, 1, 0, 1);
		cr_assert_eq(espl_kit_place(kit), ESPL_OK);
		espl_kit_node_flags(kit, 0, ESPL_NODE_UNREACHABLE, ESPL_NONE);
		granted(kit, item(kit, 1, 100, ESPL_ITEM_COLOCATE), 2, 1);
		says(kit, espl_kit_place, "place item=2 1.1 1.2\n");
		granted(kit, item(kit, 1, 100, ESPL_ITEM_COLOCATE), 2, 1);
		says(kit, espl_kit_place, "");
		granted(kit, there, 1, 1);
		says(kit, espl_kit_place, "place item=0 0.0\n");
		espl_kit_node_flags(kit, 0, 0, ESPL_NONE);
		says(kit, espl_kit_place, "place item=3 0.1 0.2\n");
		espl_kit_free(kit);
	}
}

/* Its idle GPUs are lost for now; its gangs and the target stay. */
Test(alloc_fair, unreachable_node)
{
	struct espl_kit *kit = opened(&allocator_fair_LTX_espalier_plugin, "", 2, 2);
	uint64_t there = item(kit, 1, 1, 0);

	(void)item(kit, 1, 4, 0);
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK);
	espl_kit_provision(kit);
	granted(kit, there, 1, 1);
	(void)sitting(kit, 1, 0, 1);
	espl_kit_node_flags(kit, 1, ESPL_NODE_UNREACHABLE, ESPL_NONE);
	says(kit, espl_kit_allocate,
	    "grant item=1 gpus=1\n"); /* what is there, not what may come */
	espl_kit_free(kit);
}

Test(colocate, displaces_the_fewest)
{
	/* Two idle GPUs, on two nodes; nodes 0: 1+2, 1: 3, 2: 4 (locked). */
	struct espl_kit *kit = kit_with_nodes(&placer_colocate_LTX_espalier_plugin, 3, 4);
	uint64_t one = sitting(kit, 0, 0, 1), big, locked;

	(void)sitting(kit, 0, 1, 2);
	(void)sitting(kit, 1, 0, 3);
	locked = sitting(kit, 2, 0, 4);
	espl_kit_lock(kit, locked, 1);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	big = item(kit, 1, 100, ESPL_ITEM_COLOCATE);
	granted(kit, big, 2, 1);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_str_eq(espl_kit_log(kit),
	    "place item=0 nowhere\nplace item=4 0.0 0.3\n"
	    "place item=0 1.3\n");
	cr_assert_eq(espl_kit_moved(kit), 1);
	(void)one;
	/* Five GPUs in all: nothing could help, so nobody is disturbed. */
	granted(kit, item(kit, 1, 100, ESPL_ITEM_COLOCATE), 4, 1);
	says(kit, espl_kit_place, "");
	/* Room comes: it is remembered. */
	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	says(kit, espl_kit_place, "place item=5 3.0 3.1 3.2 3.3\n");
	espl_kit_free(kit);
}

/* Who has a place and has not begun there keeps it, or gets another, whoever grows. */
Test(colocate, a_place_that_is_waited_for_is_kept)
{
	struct espl_kit *kit = kit_with_nodes(&placer_colocate_LTX_espalier_plugin, 1, 4);
	uint32_t count, a = (uint32_t)sitting(kit, 0, 0, 1), b = (uint32_t)sitting(kit, 0, 2, 2);

	granted(kit, a, 3, 1);
	says(kit, espl_kit_place, ""); /* it trains on where it is */
	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	cr_assert(espl_kit_slots(kit, a, &count) != NULL && count == 3 &&
	    espl_kit_slots(kit, b, &count) != NULL && count == 2);
	espl_kit_free(kit);
}

Test(colocate, whole_nodes_and_lost_ones)
{
	struct espl_kit *kit = kit_with_nodes(&placer_colocate_LTX_espalier_plugin, 4, 4);
	uint64_t a = sitting(kit, 0, 0, 1), b = sitting(kit, 1, 0, 1), c, d;
	uint32_t count;

	(void)b;
	/* Three whole nodes: one of the small ones has to go, to the other's node. */
	c = item(kit, 1, 100, ESPL_ITEM_COLOCATE);
	granted(kit, c, 12, 1);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_slots(kit, c, &count)[0].node / 4, 0);
	cr_assert_eq(count, 12);
	cr_assert_eq(espl_kit_moved(kit), 1);
	cr_assert_eq(espl_kit_slots(kit, a, &count)->node, espl_kit_slots(kit, b, &count)->node);
	espl_kit_leave(kit, c);
	/* The node they are on is lost; and a node of one item's own is not for others. */
	d = espl_kit_slots(kit, a, &count)->node;
	espl_kit_node_state(kit, d, ESPL_NODE_NOTICE);
	for (c = 0; c < 4; c++)
		if (c != d && c != (d + 1) % 4)
			espl_kit_node_flags(kit, c, 0, b);
	espl_kit_gang_at(kit, b)->owner = b;
	cr_assert_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_slots(kit, a, &count)->node, (d + 1) % 4);
	cr_assert_neq(espl_kit_slots(kit, b, &count)->node, (d + 1) % 4);
	/* All gone: both wait. */
	for (c = 0; c < 4; c++)
		espl_kit_node_state(kit, c, ESPL_NODE_ENDED);
	says(kit, espl_kit_place, "place item=0 nowhere\nplace item=1 nowhere\n");
	espl_kit_free(kit);
}

Test(colocate, shares)
{
	struct espl_kit *kit = kit_with_nodes(&placer_colocate_LTX_espalier_plugin, 2, 2);
	uint64_t i;

	(void)sitting(kit, 1, 0, 1);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	for (i = 1; i < 4; i++)
		granted(kit, item(kit, 1, 4, ESPL_ITEM_COLOCATE), 1, 2);
	/* The fullest node's idle GPU first, then the slot beside, then another GPU. */
	says(kit, espl_kit_place, "place item=1 1.1\nplace item=2 1.1\nplace item=3 0.0\n");
	/* Another degree cannot sit with them. */
	granted(kit, item(kit, 1, 4, ESPL_ITEM_COLOCATE), 1, 4);
	says(kit, espl_kit_place, "place item=4 0.1\n");
	/* In place from a share to the whole GPU, when it is alone there. */
	granted(kit, 3, 1, 1);
	says(kit, espl_kit_place, "place item=3 0.0\n");
	espl_kit_free(kit);

	/* Two lone sharers on two GPUs: brought together, they make room for a whole one. */
	kit = kit_with_nodes(&placer_colocate_LTX_espalier_plugin, 2, 1);
	for (i = 0; i < 2; i++) {
		struct espl_slot slot = { i, 0, 2 };

		granted(kit, item(kit, 1, 4, ESPL_ITEM_COLOCATE), 1, 2);
		espl_kit_put(kit, i, &slot, 1);
	}
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	granted(kit, item(kit, 1, 4, ESPL_ITEM_COLOCATE), 1, 1);
	says(kit, espl_kit_place, "place item=0 nowhere\nplace item=2 0.0\nplace item=0 1.0\n");
	espl_kit_free(kit);
}

Test(colocate, gives_up_what_is_empty_or_cheap_to_empty)
{
	struct espl_kit *kit = kit_with_nodes(&placer_colocate_LTX_espalier_plugin, 4, 4);

	(void)sitting(kit, 0, 0, 2);
	(void)sitting(kit, 0, 2, 1);
	(void)sitting(kit, 1, 0, 2);
	(void)sitting(kit, 3, 0, 3);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	espl_kit_surplus(kit, 0, 1);
	says(kit, espl_kit_place, "give_up node=2\n");
	/* Node 1 has one gang, of two GPUs, but no other place for it; node 3 neither; node 0's
	 * gangs do: two beside node 1's, one beside node 3's. */
	espl_kit_surplus(kit, 0, 1);
	says(kit, espl_kit_place,
	    "place item=0 nowhere\nplace item=1 nowhere\n"
	    "place item=0 1.2 1.3\nplace item=1 3.3\ngive_up node=0\n");
	/* Nobody can go anywhere: nobody is asked to. */
	espl_kit_surplus(kit, 0, 1);
	says(kit, espl_kit_place, "");
	espl_kit_free(kit);
}

Test(scatter, spreads_and_never_displaces)
{
	struct espl_kit *kit = kit_with_nodes(&placer_scatter_LTX_espalier_plugin, 3, 4);
	uint64_t i;

	(void)sitting(kit, 1, 0, 2);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	granted(kit, item(kit, 1, 8, ESPL_ITEM_COLOCATE), 1, 1);
	says(kit, espl_kit_place, "place item=1 0.0\n");
	granted(kit, item(kit, 1, 8, 0), 3, 1); /* need not stay together */
	says(kit, espl_kit_place, "place item=2 0.1 2.0 2.1\n");
	granted(kit, item(kit, 1, 8, ESPL_ITEM_COLOCATE), 3, 1);
	says(kit, espl_kit_place, ""); /* six are idle, two a node */
	for (i = 0; i < 2; i++)
		granted(kit, item(kit, 1, 8, ESPL_ITEM_COLOCATE), 1, 4);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	espl_kit_surplus(kit, 0, 1);
	says(kit, espl_kit_place, ""); /* no node is empty */
	espl_kit_leave(kit, 2);
	espl_kit_leave(kit, 1);
	espl_kit_leave(kit, 4);
	espl_kit_leave(kit, 5);
	espl_kit_surplus(kit, 0, 1);
	espl_kit_clear(kit);
	cr_assert_eq(espl_kit_place(kit), ESPL_OK);
	cr_assert_str_eq(espl_kit_log(kit), "place item=3 0.0 0.1 0.2\ngive_up node=2\n");
	espl_kit_free(kit);
}
