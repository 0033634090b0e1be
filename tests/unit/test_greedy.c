/* test_greedy.c - allocator greedy as a policy: the examples of Hu et al. for its four scenarios.
 */
#include "pool_kit.h"

extern const struct espl_plugin allocator_greedy_LTX_espalier_plugin;
#define GREEDY &allocator_greedy_LTX_espalier_plugin

Test(greedy, idle_ones_go_to_the_shortest)
{
	struct espl_kit *kit = leased(GREEDY, "", 10);
	uint64_t ids[4];
	static const double since[] = { 15, 12, 5, 1 };

	for (int i = 0; i < 4; i++)
		ids[i] = running(kit, 100, 2, since[i]);
	decide(kit);
	cr_assert_eq(gpus(kit, ids[3]), 4);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(gpus(kit, ids[i]), 2);
	espl_kit_free(kit);
}

Test(greedy, the_longest_is_halved_for_the_queue)
{
	struct espl_kit *kit = leased(GREEDY, "", 10);
	uint64_t five, six, seven, eight;

	five = running(kit, 100, 4, 15);
	six = running(kit, 100, 4, 12);
	seven = running(kit, 100, 2, 5);
	eight = job(kit, 100);
	decide(kit);
	cr_assert_eq(gpus(kit, five), 2);
	cr_assert_eq(gpus(kit, six), 4);
	cr_assert_eq(gpus(kit, seven), 2);
	cr_assert_eq(gpus(kit, eight), 2);
	espl_kit_free(kit);
}

Test(greedy, one_halving_or_all_that_it_takes)
{
	for (int one = 0; one < 2; one++) {
		struct espl_kit *kit = leased(GREEDY, one ? "halvings=one" : "", 8);
		uint64_t old, ids[5];
		uint32_t begun = 0;

		old = running(kit, 100, 8, 15);
		for (int i = 0; i < 5; i++)
			ids[i] = job(kit, 100);
		decide(kit);
		for (int i = 0; i < 5; i++)
			begun += gpus(kit, ids[i]) > 0;
		cr_assert_eq(begun, one ? 1 : 5, "%u\n%s", begun, espl_kit_log(kit));
		cr_assert_eq(gpus(kit, old), one ? 4 : 1);
		espl_kit_free(kit);
	}
}

Test(greedy, first_come_first_served_between_decisions)
{
	struct espl_kit *kit = pool(GREEDY, "", 1, 4);
	uint64_t a = job(kit, 100), b, c;

	decide(kit);
	cr_assert_eq(gpus(kit, a), 4);
	espl_kit_set_time(kit, 60 * ESPL_SECOND);
	b = job(kit, 10);
	c = job(kit, 10);
	decide(kit); /* no decision yet: nobody is halved */
	cr_assert(gpus(kit, a) == 4 && gpus(kit, b) == 0);
	espl_kit_leave(kit, a);
	decide(kit); /* but idle GPUs do not wait */
	cr_assert(gpus(kit, b) == 4 && gpus(kit, c) == 0);
	espl_kit_set_time(kit, 300 * ESPL_SECOND);
	decide(kit);
	cr_assert(gpus(kit, b) == 2 && gpus(kit, c) == 2);
	espl_kit_free(kit);
}
