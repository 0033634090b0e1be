/* test_health.c - the ledger of machines: which one is avoided, and until when. */
#include <criterion/criterion.h>
#include <string.h>

#include "model/health.h"

#define MINUTE (60 * ESPL_SECOND)

Test(health, machine_is_known_by_its_name_over_all_its_leases)
{
	struct espl__health_book book = { 0 };
	struct espl__health *first = espl__health_of(&book, 0, "n1", 0);

	cr_expect_eq(espl__health_of(&book, 0, "n1", 7), first);
	cr_expect_eq(first->lease, 7);
	cr_expect_neq(espl__health_of(&book, 1, "n1", 8), first, "another offer");
	cr_expect_neq(espl__health_of(&book, 0, "n2", 9), first);
	cr_expect_neq(espl__health_of(&book, 0, NULL, 7), first, "a lease without a name");
	cr_expect_eq(espl__health_of(&book, 0, NULL, 7), espl__health_of(&book, 0, NULL, 7));
	cr_expect_neq(espl__health_of(&book, 0, NULL, 7), espl__health_of(&book, 0, NULL, 8));
	espl__health_free(&book);
}

Test(health, bad_machine_is_avoided_for_a_time_that_doubles_up_to_a_limit)
{
	struct espl__health_book book = { 0 };
	struct espl__health *h = espl__health_of(&book, 0, "n1", 0);
	espl_span last = 0, pause;

	for (int i = 0; i < 40; i++) {
		espl__health_fails(h, ESPL__HEALTH_START, "no GPU", i * MINUTE);
		pause = h->avoid_until - i * MINUTE;
		cr_expect(pause == 2 * last || i == 0 || (i > 3 && pause == last) ||
			(pause > last && pause < 2 * last),
		    "failure %d", i);
		cr_expect_leq(pause, 4 * 3600 * ESPL_SECOND);
		cr_expect(espl__health_is_avoided(h, ESPL_NEVER, i * MINUTE + pause - 1));
		cr_expect_not(espl__health_is_avoided(h, ESPL_NEVER, i * MINUTE + pause));
		last = pause;
	}
	cr_expect_str_eq(h->why, "no GPU");
	espl__health_free(&book);
}

Test(health, machine_that_works_is_forgiven_and_keeps_its_history)
{
	struct espl__health_book book = { 0 };
	struct espl__health *h = espl__health_of(&book, 0, "n1", 0);
	espl_span first;

	espl__health_fails(h, ESPL__HEALTH_NODE, "its disk is full", MINUTE);
	first = h->avoid_until - MINUTE;
	espl__health_fails(h, ESPL__HEALTH_NODE, "its disk is full", 2 * MINUTE);
	espl__health_works(h, 3 * MINUTE);
	cr_expect_not(espl__health_is_avoided(h, ESPL_NEVER, 3 * MINUTE));
	cr_expect_eq(h->reported_at, 3 * MINUTE);
	cr_expect_str_eq(h->why, "its disk is full");
	cr_expect_eq(h->failed_at, 2 * MINUTE);
	espl__health_fails(h, ESPL__HEALTH_GPU, "no GPU", 4 * MINUTE);
	cr_expect_eq(h->avoid_until - 4 * MINUTE, first, "the pause begins anew");
	espl__health_free(&book);
}

Test(health, only_named_machines_of_the_offer_are_listed)
{
	struct espl__health_book book = { 0 };
	const char *names[2] = { NULL, NULL };

	espl__health_fails(espl__health_of(&book, 0, "n1", 0), ESPL__HEALTH_START, "a", 0);
	espl__health_fails(espl__health_of(&book, 0, NULL, 1), ESPL__HEALTH_START, "b", 0);
	espl__health_fails(espl__health_of(&book, 1, "n2", 2), ESPL__HEALTH_START, "c", 0);
	(void)espl__health_of(&book, 0, "n3", 3);
	espl__health_fails(espl__health_of(&book, 0, "n4", 4), ESPL__HEALTH_START, "d", 0);
	cr_expect_eq(espl__health_avoided(&book, 0, ESPL_NEVER, MINUTE, names, 1), 2,
	    "more than there is room");
	cr_expect_str_eq(names[0], "n1");
	cr_expect_null(names[1]);
	cr_expect_eq(espl__health_avoided(&book, 0, ESPL_NEVER, MINUTE, names, 2), 2);
	cr_expect_str_eq(names[1], "n4");
	cr_expect_eq(espl__health_avoided(&book, 0, ESPL_NEVER, 24 * 60 * MINUTE, names, 2), 0);
	cr_expect_eq(espl__health_avoided(&book, 0, 0, 24 * 60 * MINUTE, names, 2), 2,
	    "those of failures in a row stay");
	espl__health_free(&book);
}
