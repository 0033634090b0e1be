/* test_idle.c - nothing that is paid for stands idle while a trial that fits waits: clouds that do
 * not deliver, under every allocator.
 */
#include "exec_run.h"

static const char *const config =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = %u; };\n"
    "trial = { trainable = \"hartmann6\"; %s\n"
    "  profile = { iteration = \"4s\"; scaling = ((1, 1.0), (2, 1.9), (4, 3.4)); "
    "start = \"2s\"; checkpoint = \"1s\"; }; };\n"
    "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; }; x1 = { type = \"real\"; low = "
    "0.0; high = 1.0; };\n"
    "  x2 = { type = \"real\"; low = 0.0; high = 1.0; }; x3 = { type = \"real\"; low = 0.0; high = "
    "1.0; };\n"
    "  x4 = { type = \"real\"; low = 0.0; high = 1.0; }; x5 = { type = \"real\"; low = 0.0; high = "
    "1.0; }; };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = 2; price = 3.6; provision = %s; } "
    "); nodes_max = %u; };\n"
    "%s\n%s\n";
/* a node comes at once, or after three weeks in the queue */
static const char *const queued = "{ samples = ( \"1s\", \"500h\" ); }";
static const char *const sha =
    "algorithm = { use = \"sha\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3; };";
static const char *const asha =
    "algorithm = { use = \"asha\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3; };";
static const char *const random_search =
    "algorithm = { use = \"random\"; trials = 7; iterations_max = 5; };";

static void
search(struct run *r, uint32_t seed, const char *trial, const char *provision, uint32_t nodes,
    const char *algorithm, const char *rest)
{
	char *text = espl__format(config, (unsigned)seed, trial, provision, (unsigned)nodes,
	    algorithm, rest);

	(void)snprintf(run_label, sizeof run_label, "seed %u: ", (unsigned)seed);
	make_run(r, text, NULL, NULL);
	free(text);
	cr_assert_eq(r->world->ops->begin(r->world, 0, 0, &r->diag), ESPL_OK, "%s", r->diag.text);
	cr_assert_eq(pump(r, NULL, 100000), ESPL_OK, "%s: %s", rest, r->diag.text);
}

/* Nothing stood idle for longer than is allowed. */
static void
check_idle(const struct run *r, uint32_t seed, const char *rest)
{
	cr_assert_eq(r->summary.standing_late_s, 0, "seed %u, %s: late by %g s", (unsigned)seed,
	    rest, r->summary.standing_late_s);
	cr_assert_leq(r->summary.standing_longest_s, 10, "seed %u, %s: a trial stood for %g s",
	    (unsigned)seed, rest, r->summary.standing_longest_s);
}

/* With nodes that mostly do not come, a search takes about as long as on one node alone. */
static void
compare(const char *trial, const char *algorithm, const char *rest, double slack_s)
{
	for (uint32_t seed = 0; seed < 12; seed++) {
		struct run alone, r;
		double took_s;

		search(&alone, seed, trial, "\"1s\"", 1, algorithm, rest);
		search(&r, seed, trial, queued, 4, algorithm, rest);
		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "seed %u, %s: %s", (unsigned)seed, rest,
		    r.summary.text);
		check_idle(&r, seed, rest);
		took_s = (double)r.summary.now / 1e9;
		if (took_s > 500 * 3600.0) /* the first node, too, came after three weeks */
			took_s -= 500 * 3600.0;
		/* which trials asha promotes depends on the order in which they report */
		if (algorithm != asha)
			cr_assert_leq(took_s, slack_s + 1.2 * (double)alone.summary.now / 1e9,
			    "seed %u, %s, %s, %s: %g s instead of %g s", (unsigned)seed, trial,
			    algorithm, rest, took_s, (double)alone.summary.now / 1e9);
		unmake(&r);
		unmake(&alone);
	}
}

static void
compare_all(const char *rest, double slack_s)
{
	static const char *const trials[] = { "", "gpus_max = 4;",
		"gpus_max = 4; colocate = false;", "gpus_max = 2;" };

	for (uint32_t i = 0; i < sizeof trials / sizeof *trials; i++) {
		compare(trials[i], sha, rest, slack_s);
		compare(trials[i], asha, rest, slack_s);
		compare(trials[i], random_search, rest, slack_s);
	}
}

Test(idle, fair_does_not_wait_for_nodes_that_do_not_come, .timeout = 120)
{
	compare_all("allocator = { use = \"fair\"; };", 0);
	compare_all("allocator = { use = \"fair\"; resize = \"always\"; };", 0);
}

/* It follows a plan, which waits for its nodes for as long as they should take, at most ten
 * minutes.
 */
Test(idle, static_does_not_wait_for_nodes_that_do_not_come, .timeout = 120)
{
	compare_all("allocator = { use = \"static\"; gpus = 8; };", 640);
}

Test(idle, fluid_does_not_wait_for_nodes_that_do_not_come, .timeout = 120)
{
	compare_all("allocator = { use = \"fluid\"; };", 0);
}

Test(idle, queues_do_not_wait_for_nodes_that_do_not_come, .timeout = 120)
{
	compare_all("allocator = { use = \"fifo\"; };", 0);
	compare_all("allocator = { use = \"greedy\"; };", 0);
	compare_all("allocator = { use = \"milp\"; };", 0);
}

/* Zone a gives one machine, of two that may be had there; zone b gives all. */
static const char *const zones =
    "cloud = { use = \"sim\"; offers = ( { name = \"m\"; market = \"a\"; gpus = 2; price = 1.0; "
    "nodes_max = 2; }, { name = \"m\"; market = \"b\"; gpus = 2; price = 1.2; nodes_max = 2; } ); "
    "};\n";

static void
search_zones(struct run *r, const char *rest, const char *faults)
{
	char *text = espl__format(config, 1u, "gpus_max = 1;", "\"1s\"", 1u,
	    "algorithm = { use = \"random\"; trials = 24; iterations_max = 10; };", rest);
	char *cloud = strstr(text, "cloud = "), *end = strchr(cloud, '\n');
	char *whole = espl__format("%.*s%s%s", (int)(cloud - text), text, zones, end + 1);

	make_run(r, whole, faults, NULL);
	free(text);
	free(whole);
	cr_assert_eq(r->world->ops->begin(r->world, 0, 0, &r->diag), ESPL_OK, "%s", r->diag.text);
	cr_assert_eq(pump(r, NULL, 100000), ESPL_OK, "%s: %s", rest, r->diag.text);
	cr_assert_eq(r->summary.how, ESPL__RUN_DONE, "%s: %s", rest, r->summary.text);
	cr_assert_eq(r->summary.finished, 24);
	cr_assert_eq(r->summary.nodes_leaked, 0);
	check_idle(r, 1, rest);
}

Test(idle, machines_come_from_every_zone_that_gives_them, .timeout = 60)
{
	static const char *const allocators[] = { "fair", "fluid", "fifo", "greedy", "milp" };

	for (uint32_t i = 0; i < sizeof allocators / sizeof *allocators; i++) {
		char rest[64];
		struct run r;

		(void)snprintf(rest, sizeof rest, "allocator = { use = \"%s\"; };", allocators[i]);
		search_zones(&r, rest, NULL);
		cr_assert_eq(r.summary.nodes_peak, 4, "%s: %u nodes at once", rest,
		    r.summary.nodes_peak);
		unmake(&r);
	}
}

Test(idle, a_named_offer_is_not_replaced_by_another, .timeout = 60)
{
	struct run r;

	search_zones(&r, "allocator = { use = \"fair\"; offer = \"m\"; };", NULL);
	cr_assert_eq(r.summary.nodes_peak, 4, "both have that name");
	unmake(&r);
}

/* ---- an offer with a queue ----------------------------------------------------------------- */

/* One offer only queues, for 200 hours, and is the first and the cheapest; another one has
 * machines. Of equal shape they are sources of one offer, but for plans and for bids. */
static void
check_queue(const char *allocator, uint32_t a, uint32_t b)
{
	static const char *const waiting_one =
	    "cloud = { use = \"sim\"; offers = ( { name = \"a\"; gpus = %u; price = 1.0; market = "
	    "\"spot\"; nodes_max = 2; machines = 0; wait = \"200h\"; }, { name = \"b\"; gpus = %u; "
	    "price = 3.6; nodes_max = 2; provision = \"15s\"; } ); };\n";
	/* spottune waits for spot as long as it is allowed to */
	char *rest = espl__format("allocator = { use = \"%s\"; %s };", allocator,
	    strcmp(allocator, "spottune") == 0 ? "wait = \"1m\";" : "");
	char *text = espl__format(config, 1u, "gpus_max = 1;", "\"1s\"", 1u,
	    "algorithm = { use = \"random\"; trials = 9; iterations_max = 8; };", rest);
	char *cloud = strstr(text, "cloud = "), *end = strchr(cloud, '\n');
	char *offers = espl__format(waiting_one, (unsigned)a, (unsigned)b);
	char *whole = espl__format("%.*s%s%s", (int)(cloud - text), text, offers, end + 1);
	struct run r;

	make_run(&r, whole, NULL, NULL);
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK, "%s", r.diag.text);
	cr_expect_eq(pump(&r, NULL, 100000), ESPL_OK, "%s: %s", rest, r.diag.text);
	cr_expect_eq(r.summary.how, ESPL__RUN_DONE, "%s %u %u: %s", rest, (unsigned)a, (unsigned)b,
	    r.summary.text);
	cr_expect_eq(r.summary.finished, 9);
	/* `spottune` waits for what costs less: allocator.wait */
	cr_expect_lt(r.summary.now,
	    (strcmp(allocator, "spottune") == 0 ? 3 * 3600 : 1800) * ESPL_SECOND, "%s %u %u: %g s",
	    rest, (unsigned)a, (unsigned)b, (double)r.summary.now / 1e9);
	unmake(&r);
	free(rest);
	free(text);
	free(offers);
	free(whole);
}

Test(idle, an_offer_that_only_queues_gives_way_to_one_that_has_machines, .timeout = 60)
{
	static const char *const allocators[] = { "fair", "fluid", "fifo", "greedy", "milp",
		"static", "elastic-greedy", "elastic-exact", "spottune" };

	for (uint32_t i = 0; i < sizeof allocators / sizeof *allocators; i++) {
		check_queue(allocators[i], 1, 1);
		check_queue(allocators[i], 2, 1);
		if (strcmp(allocators[i], "spottune") != 0) /* it can use machines of one GPU */
			check_queue(allocators[i], 1, 2);
	}
}
