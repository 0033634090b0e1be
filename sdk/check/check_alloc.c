/* check_alloc.c - check-plugin for allocators: a plan for a made-up experiment, then what the test
 * kit says of decisions on an empty, a small and a huge view.
 */
#include "base/assert.h"
#include "check/check_kit.h"

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

static void
make_item(struct espl_kit *kit, uint32_t i, int plain)
{
	struct espl_item *item = espl_kit_item_at(kit, espl_kit_item(kit, 1, 8));

	item->group = item->bracket = item->stage = 0;
	item->work_s = item->work_total_s = 20 + i % 7;
	item->iterations_left = 2;
	item->packing_max = plain ? 1 : 4;
	item->scaling = scaling;
	item->scaling_count = 4;
	item->packing = packing;
	item->packing_count = 3;
	item->resize_s = 4;
	item->boundary_s = 5;
	item->start_s = 2;
	if (i % 5 == 4) { /* some stand for experiments, as in a pool of two levels */
		item->flags = ESPL_ITEM_EXPERIMENT;
		item->trial = item->group = ESPL_NONE;
		item->packing_max = 1;
	}
}

static void
check_decision(struct espl__check *check, const char *what, uint32_t items, uint32_t nodes)
{
	struct espl_kit *kit = check->kit;
	int plain = kit->offer_count == 1; /* and nobody shares a GPU: what most runs have */

	ESPL__CHECK(check, CHECK);
	ESPL__ASSERT(check->instance != NULL);
	espl__check_step(check, "allocate, %s", what);
	check->view = what;
	espl__check_clear(kit);
	for (uint32_t i = 0; i < nodes; i++)
		(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	for (uint32_t i = 0; i < items; i++)
		make_item(kit, i, plain);
	for (uint32_t i = 0; i < kit->offer_count; i++)
		espl_kit_set_target(kit, i, i == 0 ? nodes : 0);
	kit->why |= ESPL_WHY_NODES;
	(void)espl_kit_allocate(kit);
	kit->now += 10 * ESPL_SECOND;
}

static void
try_plan(struct espl__check *check)
{
	const struct espl_allocator_ops *ops = (const void *)check->instance->ops;

	if (!ESPL_HAS(struct espl_allocator_ops, ops, plan))
		return;
	espl__check_step(check, "plan");
	if (espl_kit_plan(check->kit, 64) == ESPL_OK && check->kit->experiment.plan == NULL &&
	    !check->kit->refusing)
		espl__check_error(check, "plan: returned OK without an acceptable plan");
}

static int
run_script(struct espl__check *check, uint32_t flags, int refuse, int plain, uint64_t *digest)
{
	int made;

	espl__check_world(check, plain);
	espl_kit_set_refusing(check->kit, refuse);
	check->kit->experiment.flags = flags;
	check->kit->experiment.spec = &spec;
	made = espl__check_open(check);
	if (made) {
		try_plan(check);
		check_decision(check, "an empty view", 0, 0);
		check_decision(check, "items without nodes", 5, 0);
		check_decision(check, "4 items, 2 nodes", 4, 2);
		check_decision(check, "40 items, 2 nodes", 40, 2);
		check_decision(check, "nodes without items", 0, 3);
		if (!refuse && !plain)
			check_decision(check, "10000 items, 1000 nodes", 10000, 1000);
	}
	*digest = check->digest;
	espl__check_close(check);
	return made;
}

static void
live_once(struct espl__check *check)
{
	uint64_t digest;

	(void)run_script(check, 0, 0, 1, &digest);
}

void
espl__check_alloc(struct espl__check *check)
{
	uint64_t one, two;
	unsigned before = espl__check_found(check);

	if (!run_script(check, 0, 0, 0, &one))
		return;
	(void)run_script(check,
	    ESPL_EXPERIMENT_WARM | ESPL_EXPERIMENT_AHEAD | ESPL_EXPERIMENT_CHAIN |
		ESPL_EXPERIMENT_IDLE,
	    0, 0, &two);
	(void)run_script(check, 0, 0, 1, &two);
	if (espl__check_found(check) == before)
		espl__check_ok(check,
		    "allocate: valid answers for no items, a few and 10000, with every planning "
		    "option, with one offer and several");
	(void)run_script(check, 0, 0, 0, &two);
	if (one != two)
		espl__check_error(check,
		    "not deterministic: the same seed and the same views led to different "
		    "decisions");
	else
		espl__check_ok(check, "deterministic: the same seed leads to the same decisions");
	(void)run_script(check, 0, 1, 0, &two);
	espl__check_ok(check, "allocate: returns if every sink call is rejected");
	espl__check_leaks(check, live_once);
}
