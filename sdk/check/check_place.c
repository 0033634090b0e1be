/* check_place.c - check-plugin for placers: what the test kit says of placements on an empty, a
 * small and a huge view.
 */
#include "check/check_kit.h"

static void
make_view(struct espl_kit *kit, uint32_t gangs, uint32_t nodes)
{
	/* Sums to less than there is: 1, 2, 4 GPUs and quarters of one in turn. */
	static const struct espl_share shares[] = { { 1, 1 }, { 2, 1 }, { 4, 1 }, { 1, 4 } };

	espl__check_clear(kit);
	for (uint32_t i = 0; i < nodes; i++)
		(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	for (uint32_t i = 0; i < gangs; i++) {
		uint64_t item = espl_kit_item(kit, 1, 4);

		espl_kit_item_at(kit, item)->flags = ESPL_ITEM_COLOCATE;
		espl_kit_gang_at(kit, item)->move_s = 3;
		espl_kit_grant(kit, item, shares[i % 4].gpus, shares[i % 4].packing);
	}
}

static void
check_decision(struct espl__check *check, const char *what, uint32_t gangs, uint32_t nodes)
{
	struct espl_kit *kit = check->kit;
	uint32_t placed = 0;

	espl__check_step(check, "place, %s", what);
	check->view = what;
	make_view(kit, gangs, nodes);
	(void)espl_kit_place(kit);
	for (uint32_t i = 0; i < kit->item_count; i++)
		placed += kit->items[i]->placed && kit->items[i]->next_count > 0;
	if (check->counts && gangs > 0 && nodes >= gangs && placed == 0)
		espl__check_error(check, "place: placed nothing although everything is free");
	kit->now += 10 * ESPL_SECOND;
}

static int
run_script(struct espl__check *check, int refuse, uint64_t *digest)
{
	int made;

	espl__check_world(check, 0);
	espl_kit_set_refusing(check->kit, refuse);
	made = espl__check_open(check);
	if (made) {
		check_decision(check, "an empty view", 0, 0);
		check_decision(check, "gangs without nodes", 5, 0);
		check_decision(check, "4 gangs, 4 nodes", 4, 4);
		check_decision(check, "12 gangs, 2 nodes", 12, 2);
		check_decision(check, "1000 gangs, 1000 nodes", 1000, 1000);
	}
	*digest = check->digest;
	espl__check_close(check);
	return made;
}

static void
live_once(struct espl__check *check)
{
	uint64_t digest;

	(void)run_script(check, 0, &digest);
}

void
espl__check_place(struct espl__check *check)
{
	uint64_t one, two;
	unsigned before = espl__check_found(check);

	if (!run_script(check, 0, &one))
		return;
	if (espl__check_found(check) == before)
		espl__check_ok(check, "place: valid answers for no gangs, a few and 1000");
	(void)run_script(check, 0, &two);
	if (one != two)
		espl__check_error(check,
		    "not deterministic: the same views led to different placements");
	else
		espl__check_ok(check, "deterministic: the same views lead to the same placements");
	(void)run_script(check, 1, &two);
	espl__check_ok(check, "place: returns if every sink call is rejected");
	espl__check_leaks(check, live_once);
}
