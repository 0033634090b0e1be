/* test_machines.c - machines with names: bad ones are avoided, an offer is closed only when
 * different ones fail, the first of an offer is leased alone, and one can be drained.
 *
 * A provider of machines m0, m1, ... stands between the simulated world and the executor.  It gives
 * the first that is free, as a scheduler does with a broken node that is always idle, but none that
 * it was told to avoid while there is another.
 */
#include "base/rng.h"
#include "model/ledger.h"
#include "exec_run.h"

#define MACHINES 6u
#define LEASES 400u
#define ROOM 32u

static const char *const head =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 3; };\n"
    "trial = { trainable = \"hartmann6\"; options = { bias = 2.5; noise = 2.0; }; %s\n"
    "  profile = { iteration = { mean = \"4s\"; sd = \"1s\"; }; scaling = ((1, 1.0), (2, 1.9));"
    " start = \"2s\"; checkpoint = \"1s\"; }; };\n"
    "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; }; x1 = { type = \"real\"; low = "
    "0.0; high = 1.0; };\n"
    "  x2 = { type = \"real\"; low = 0.0; high = 1.0; }; x3 = { type = \"real\"; low = 0.0; high = "
    "1.0; };\n"
    "  x4 = { type = \"real\"; low = 0.0; high = 1.0; }; x5 = { type = \"real\"; low = 0.0; high = "
    "1.0; }; };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = 2; price = 3.6; provision = "
    "\"15s\"; init = \"%s\"; } ); nodes_max = %u; };\n"
    "algorithm = { use = \"random\"; trials = %u; iterations_max = 6; };\n"
    "allocator = { use = \"%s\"; }; placer = { use = \"colocate\"; };\n";

static const char *const pool_head =
    "experiment = { name = \"t\"; seed = 3; };\n"
    "trial = { retries = 2; profile = { iteration = \"1s\"; start = \"2s\"; checkpoint = \"1s\"; "
    "}; %s };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = 2; price = 3.6; provision = "
    "\"15s\"; init = \"%s\"; } ); nodes_max = %u; };\n"
    "workload = { jobs = %u; span = \"2m\"; mean = \"1m\"; least = \"20s\"; iteration = "
    "\"5s\"; nodes_max = 2; };\n"
    "allocator = { use = \"%s\"; }; placer = { use = \"colocate\"; };\n";

static const char *init = "5s"; /* from boot to ready */
static const char *width = "gpus_max = 1;";
static int pool;

struct provider {
	struct run run;
	struct tape tape;
	uint32_t machines;        /* that it has */
	uint8_t bad[MACHINES];    /* its agent fails */
	uint8_t stuck[MACHINES];  /* it is scheduled, and never starts */
	uint8_t disobeys, canary; /* takes what it should avoid; its offer wants one alone first */
	uint8_t of[LEASES];       /* lease -> machine */
	uint8_t alive[LEASES];    /* since it was scheduled */
	uint8_t held[MACHINES];   /* drained: nothing may start there */
	uint32_t given[MACHINES]; /* leases that were on it */
	uint32_t started[MACHINES]; /* gangs that were started there */
	uint32_t asked, ready;      /* leases asked for; ready ones so far */
	uint32_t asked_before_ready, alone;
	uint64_t ended[ROOM]; /* leases to end in the world, since their machines failed */
	uint32_t ended_count;
	espl_time now;
};

static void
open_provider(struct provider *p, uint32_t nodes_max, uint32_t trials, const char *allocator)
{
	char *text =
	    espl__format(pool ? pool_head : head, width, init, nodes_max, trials, allocator);

	memset(p, 0, sizeof *p);
	p->machines = 3;
	make_run(&p->run, text, NULL, NULL);
	cr_assert_eq(p->run.world->ops->begin(p->run.world, 0, 0, &p->run.diag), ESPL_OK);
	free(text);
}

/* The same decisions come out when the events are fed again. */
static void
close_provider(struct provider *p, uint32_t nodes_max, uint32_t trials, const char *allocator)
{
	char *text =
	    espl__format(pool ? pool_head : head, width, init, nodes_max, trials, allocator);
	struct run again;

	make_run(&again, text, NULL, NULL);
	cr_expect_eq(replay(&again, &p->tape, p->tape.count), ESPL_OK, "%s", again.diag.text);
	unmake(&again);
	unmake(&p->run);
	free_tape(&p->tape);
	free(text);
}

static int
is_told_to_avoid(const struct provider *p, uint32_t machine)
{
	const char *names[MACHINES];
	uint32_t count = espl__exec_avoid(p->run.exec, 0, names, MACHINES);

	for (uint32_t i = 0; i < count && i < MACHINES; i++)
		if (names[i][1] == (char)('0' + machine))
			return 1;
	return 0;
}

static uint32_t
pick_machine(const struct provider *p)
{
	for (int avoid = !p->disobeys; avoid >= 0; avoid--)
		for (uint32_t m = 0; m < p->machines; m++) {
			int taken = avoid && is_told_to_avoid(p, m);

			for (uint32_t l = 0; l < LEASES; l++)
				taken |= p->alive[l] && p->of[l] == m;
			if (!taken)
				return m;
		}
	return 0;
}

/* What the executor hears of this event of the world. */
static void
pass_event(struct provider *p, const struct espl__event *e, struct espl__event *list,
    uint32_t *count)
{
	static const char *const names[MACHINES] = { "m0", "m1", "m2", "m3", "m4", "m5" };
	static struct espl_offer offer;
	uint64_t lease = e->type == ESPL__EV_NODE ? e->as.node.lease : 0;

	cr_assert_lt(*count + 3, ROOM);
	cr_assert_lt(lease, LEASES);
	list[(*count)++] = *e;
	if (e->type == ESPL__EV_OFFER && p->canary) {
		offer = *e->as.offer;
		offer.flags |= ESPL_OFFER_CANARY;
		list[*count - 1].as.offer = &offer;
	}
	if (e->type != ESPL__EV_NODE)
		return;
	if (e->as.node.state == ESPL_NODE_BOOTING) {
		p->of[lease] = (uint8_t)pick_machine(p);
		p->alive[lease] = 1;
		p->given[p->of[lease]]++;
		list[*count] = (struct espl__event){ .type = ESPL__EV_MACHINE };
		list[*count].as.node_why.lease = lease;
		list[(*count)++].as.node_why.text = names[p->of[lease]];
	} else if (e->as.node.state == ESPL_NODE_READY && p->stuck[p->of[lease]]) {
		(*count)--;
	} else if (e->as.node.state == ESPL_NODE_READY && p->bad[p->of[lease]]) {
		list[*count - 1] = (struct espl__event){ .type = ESPL__EV_NODE_WHY };
		list[*count - 1].as.node_why.lease = lease;
		list[*count - 1].as.node_why.text = "GPU has fallen off the bus";
		list[*count] = *e;
		list[*count].as.node.state = ESPL_NODE_ENDED;
		list[(*count)++].as.node.reason = ESPL__BY_GIVING_UP;
		p->ended[p->ended_count++] = lease;
		p->alive[lease] = 0;
	} else if (e->as.node.state == ESPL_NODE_READY) {
		p->ready++;
	} else if (e->as.node.state == ESPL_NODE_ENDED) {
		p->alive[lease] = 0;
	}
}

static void
count_effects(struct provider *p, const struct espl__effect *effects, uint32_t count)
{
	uint32_t live = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (effects[i].type == ESPL__FX_ACQUIRE) {
			p->asked++;
			p->asked_before_ready += p->ready == 0;
		}
		for (uint32_t s = 0;
		     effects[i].type == ESPL__FX_START && s < effects[i].as.start.share.gpus; s++) {
			uint32_t m = p->of[effects[i].as.start.slots[s].node];

			p->started[m]++;
			cr_assert(!p->held[m], "%sa trial starts on m%u, which is drained",
			    run_label, (unsigned)m);
		}
	}
	live = espl__exec_leases(p->run.exec, NULL, 0);
	if (p->ready == 0 && live > p->alone)
		p->alone = live;
}

/* One round; `more`: an event from elsewhere, at the same time. */
static void
feed(struct provider *p, const struct espl__round *round, const struct espl__event *more)
{
	struct espl__event list[ROOM];
	struct espl__round given = { .now = round->now, .events = list };
	const struct espl__effect *effects;
	struct espl__effect end = { .type = ESPL__FX_RELEASE };
	uint32_t count;

	p->now = round->now;
	p->ended_count = 0;
	for (uint32_t i = 0; i < round->count; i++)
		pass_event(p, &round->events[i], list, &given.count);
	if (more != NULL)
		list[given.count++] = *more;
	cr_assert_eq(espl__exec_round(p->run.exec, given.now, list, given.count, NULL, 0,
			 &p->run.diag),
	    ESPL_OK, "%s", p->run.diag.text);
	keep(&p->tape, &given, espl__exec_decisions(p->run.exec));
	effects = espl__exec_effects(p->run.exec, &count);
	count_effects(p, effects, count);
	cr_assert_eq(p->run.world->ops->apply(p->run.world, effects, count, &p->run.diag), ESPL_OK);
	for (uint32_t i = 0; i < p->ended_count; i++) {
		end.as.lease = p->ended[i];
		cr_assert_eq(p->run.world->ops->apply(p->run.world, &end, 1, &p->run.diag),
		    ESPL_OK);
	}
}

/* Until the run has ended, or reports are as many as that. */
static void
go_on(struct provider *p, uint64_t reports)
{
	struct espl__round round;

	for (uint32_t n = 0; n < 200000 && !espl__exec_view(p->run.exec).ended; n++) {
		espl__exec_summary(p->run.exec, &p->run.summary);
		if (p->run.summary.reports >= reports)
			return;
		cr_assert_eq(p->run.world->ops->next(p->run.world, &round, &p->run.diag), ESPL_OK);
		feed(p, &round, NULL);
	}
	espl__exec_summary(p->run.exec, &p->run.summary);
}

static void
say(struct provider *p, struct espl__event event)
{
	struct espl__round round = { .now = p->now };

	feed(p, &round, &event);
}

static struct espl__event
unfit(uint64_t lease)
{
	struct espl__event event = { .type = ESPL__EV_UNFIT };

	event.as.node_why.lease = lease;
	event.as.node_why.text = "cannot write to the disk of node 0: No space left on device";
	return event;
}

static struct espl__event
drain(struct provider *p, const char *name, int on)
{
	struct espl__event event = { .type = ESPL__EV_DRAIN };
	const char *why = espl__exec_drains(p->run.exec, name, on, &event.as.drain.lease);

	cr_assert_null(why, "%s", why);
	event.as.drain.on = on;
	return event;
}

/* ---- bad machines -------------------------------------------------------------------------- */

Test(machines, one_broken_machine_does_not_end_the_search_while_others_are_free, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 1, 12, "fair");
	p.bad[0] = 1;
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	cr_assert_eq(p.run.summary.finished, 12);
	cr_expect_eq(p.given[0], 1, "it is avoided after one failure");
	cr_expect_geq(p.given[1], 1);
	close_provider(&p, 1, 12, "fair");
}

Test(machines, several_broken_machines_are_tried_once_each, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 1, 12, "fair");
	p.machines = 5;
	p.bad[0] = p.bad[1] = p.bad[2] = p.bad[3] = 1;
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	for (uint32_t m = 0; m < 4; m++)
		cr_expect_eq(p.given[m], 1);
	close_provider(&p, 1, 12, "fair");
}

Test(machines, machines_whose_failure_takes_long_to_see_are_not_forgotten_meanwhile, .timeout = 60)
{
	struct provider p;

	init = "20m";
	open_provider(&p, 1, 12, "fair");
	p.machines = 4;
	p.bad[0] = p.bad[1] = p.bad[2] = 1;
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	for (uint32_t m = 0; m < 3; m++)
		cr_expect_eq(p.given[m], 1);
	close_provider(&p, 1, 12, "fair");
}

Test(machines, broken_machine_that_comes_again_is_paused_and_closes_nothing, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 2, 400, "fair");
	p.machines = 2; /* no other than the broken one and the good one */
	p.bad[0] = 1;
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	cr_assert_eq(p.run.summary.finished, 400);
	cr_expect(p.given[0] > 1 && p.given[0] < 8, "it was leased %u times in %.0f s", p.given[0],
	    (double)p.run.summary.now / 1e9);
	close_provider(&p, 2, 400, "fair");
}

Test(machines, all_broken_machines_end_the_run_after_a_few_leases, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 2, 12, "fair");
	p.bad[0] = p.bad[1] = p.bad[2] = 1;
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_INTERRUPTED);
	cr_expect(strstr(p.run.summary.text, "GPU has fallen off the bus") != NULL, "%s",
	    p.run.summary.text);
	cr_expect_leq(p.asked, 8);
	close_provider(&p, 2, 12, "fair");
}

Test(machines, provider_that_ignores_the_wish_is_not_asked_without_end, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 1, 12, "fair");
	p.bad[0] = p.disobeys = 1;
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_INTERRUPTED);
	cr_expect_leq(p.asked, 8);
	close_provider(&p, 1, 12, "fair");
}

Test(machines, machine_that_never_starts_is_given_up, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 1, 12, "fair");
	p.stuck[0] = 1;
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	cr_expect_eq(p.given[0], 1);
	cr_expect_lt(p.run.summary.now, 3 * 3600 * ESPL_SECOND);
	close_provider(&p, 1, 12, "fair");
}

/* ---- the canary ---------------------------------------------------------------------------- */

Test(machines, first_machine_of_an_offer_is_leased_alone, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 3, 24, "fair");
	p.canary = 1;
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	cr_expect_eq(p.asked_before_ready, 1);
	cr_expect_eq(p.run.summary.nodes_peak, 3, "the others follow");
	close_provider(&p, 3, 24, "fair");
	open_provider(&p, 3, 24, "fair");
	go_on(&p, UINT64_MAX);
	cr_expect_eq(p.asked_before_ready, 3, "an offer without that flag");
	close_provider(&p, 3, 24, "fair");
}

Test(machines, while_no_machine_answers_never_more_than_one_is_held, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 6, 24, "fair");
	p.machines = 6;
	p.canary = 1;
	memset(p.bad, 1, sizeof p.bad);
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_INTERRUPTED);
	cr_expect_eq(p.alone, 1);
	cr_expect_leq(p.asked, 5);
	close_provider(&p, 6, 24, "fair");
}

/* ---- nodes that are of no use though their agents answer ----------------------------------- */

Test(machines, full_disk_of_one_node_is_the_affair_of_that_node, .timeout = 60)
{
	struct provider p;
	uint32_t before;

	open_provider(&p, 2, 24, "fair");
	go_on(&p, 10);
	before = p.started[p.of[0]];
	say(&p, unfit(0));
	say(&p, unfit(0)); /* said twice, it is so once */
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	cr_expect_eq(p.run.summary.finished, 24);
	cr_expect_eq(p.run.summary.failed, 0);
	cr_expect_eq(p.started[p.of[0]], before, "nothing is started there again");
	cr_expect_gt(p.given[2], 0, "another machine takes its place");
	close_provider(&p, 2, 24, "fair");
}

Test(machines, full_disks_of_all_machines_end_the_run_with_the_reason, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 1, 24, "fair");
	p.machines = 1;
	go_on(&p, 3);
	say(&p, unfit(0));
	go_on(&p, 6);
	cr_assert_eq(p.run.summary.how, 0, "%s", p.run.summary.text);
	say(&p, unfit(1)); /* the same machine, for there is no other */
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_INTERRUPTED);
	cr_expect(strstr(p.run.summary.text, "No space left on device") != NULL, "%s",
	    p.run.summary.text);
	close_provider(&p, 1, 24, "fair");
}

/* ---- drain --------------------------------------------------------------------------------- */

Test(machines, drained_machine_gets_no_trials_until_it_is_given_back, .timeout = 60)
{
	struct provider p;
	uint32_t before;

	open_provider(&p, 2, 60, "fair");
	p.machines = 2;
	go_on(&p, 10);
	say(&p, drain(&p, "m0", 1));
	before = p.started[0];
	cr_expect_not_null(espl__exec_drains(p.run.exec, "m0", 1, &(uint64_t){ 0 }));
	go_on(&p, 120);
	cr_assert_eq(p.run.summary.how, 0);
	cr_expect_eq(p.started[0], before);
	say(&p, drain(&p, "m0", 0));
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	cr_expect_eq(p.run.summary.finished, 60);
	cr_expect_eq(p.run.summary.failed, 0);
	cr_expect_gt(p.started[0], before, "then it is used again");
	close_provider(&p, 2, 60, "fair");
}

Test(machines, run_whose_only_machine_is_drained_waits_for_it, .timeout = 60)
{
	struct provider p;

	open_provider(&p, 1, 12, "fair");
	p.machines = 1;
	go_on(&p, 5);
	say(&p, drain(&p, "0", 1));
	for (uint32_t n = 0; n < 200; n++) {
		struct espl__round round;

		if (p.run.world->ops->next(p.run.world, &round, &p.run.diag) != ESPL_OK ||
		    round.count == 0)
			break;
		feed(&p, &round, NULL);
	}
	espl__exec_summary(p.run.exec, &p.run.summary);
	cr_assert_eq(p.run.summary.how, 0, "%s", p.run.summary.text);
	cr_expect_eq(p.run.summary.running, 0);
	say(&p, drain(&p, "m0", 0));
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s", p.run.summary.text);
	cr_expect_eq(p.run.summary.finished, 12);
	close_provider(&p, 1, 12, "fair");
}

/* So many rounds; a world in which nothing can happen any more stands still. */
static void
go_rounds(struct provider *p, uint64_t rounds)
{
	struct espl__round round;

	while (rounds-- > 0 && !espl__exec_view(p->run.exec).ended &&
	    p->run.world->ops->next(p->run.world, &round, &p->run.diag) == ESPL_OK)
		feed(p, &round, NULL);
	p->run.diag = (struct espl__diag){ 0 };
}

static void
set_drained(struct provider *p, uint32_t m, int on)
{
	char name[8];

	(void)snprintf(name, sizeof name, "m%u", (unsigned)m);
	if (p->given[m] == 0 || p->held[m] == (on != 0) || espl__exec_view(p->run.exec).ended)
		return;
	p->held[m] = on != 0;
	say(p, drain(p, name, on));
}

/* Trials that start, run, save, move, and gangs over two machines: whatever is drained, and given
 * back at once or later. */
static void
check_drains(uint64_t seed)
{
	static const char *const allocators[] = { "fair", "fluid", "fifo", "greedy", "milp" };
	static const char *const widths[] = { "gpus_max = 1;", "", "gpus_min = 3; gpus_max = 4;" };
	uint32_t nodes_max, trials, kind;
	const char *allocator;
	struct espl__rng rng;
	struct provider p;

	espl__rng_seed(&rng, seed, "drains");
	nodes_max = 1 + (uint32_t)(espl__rng_next(&rng) % 4);
	trials = 8 + (uint32_t)(espl__rng_next(&rng) % 20);
	allocator = allocators[espl__rng_next(&rng) % 5];
	kind = (uint32_t)(espl__rng_next(&rng) % 4);
	pool = kind == 3;
	width = pool ? "" : widths[kind];
	nodes_max += (kind >= 2 && nodes_max == 1);
	(void)snprintf(run_label, sizeof run_label, "SEED=%llu, %s: ", (unsigned long long)seed,
	    allocator);
	open_provider(&p, nodes_max, trials, allocator);
	p.machines = nodes_max + (uint32_t)(espl__rng_next(&rng) % 3);
	if (getenv("SHOW") != NULL)
		fprintf(stderr, "%s%u nodes, %u machines, %u trials, kind %u\n", run_label,
		    (unsigned)nodes_max, (unsigned)p.machines, (unsigned)trials, (unsigned)kind);
	for (uint32_t i = 0; i < 15; i++) {
		uint32_t m = (uint32_t)(espl__rng_next(&rng) % p.machines), what;

		go_rounds(&p, espl__rng_next(&rng) % 25);
		what = (uint32_t)(espl__rng_next(&rng) % 8);
		set_drained(&p, m, what < 5);
		if (what < 2) /* at once */
			set_drained(&p, m, 0);
		for (m = 0; what == 7 && m < p.machines; m++)
			set_drained(&p, m, 1);
	}
	for (uint32_t m = 0; m < p.machines; m++)
		set_drained(&p, m, 0);
	go_on(&p, UINT64_MAX);
	cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "%s%s", run_label, p.run.summary.text);
	cr_assert_eq(p.run.summary.failed, 0, "%s", run_label);
	cr_assert_eq(p.run.summary.finished, trials, "%s", run_label);
	cr_assert_eq(p.run.summary.nodes_leaked, 0, "%s", run_label);
	close_provider(&p, nodes_max, trials, allocator);
	pool = 0;
	width = "gpus_max = 1;";
}

Test(machines, any_machine_is_drained_and_given_back_at_any_moment, .timeout = 600)
{
	uint64_t seed = getenv("SEED") != NULL ? strtoull(getenv("SEED"), NULL, 10) : 1;
	uint32_t seeds =
	    getenv("SEEDS") != NULL ? (uint32_t)strtoul(getenv("SEEDS"), NULL, 10) : 60;

	while (seeds-- > 0)
		check_drains(seed++);
	check_drains(285); /* the host starts an item that fluid has in its queue */
	check_drains(986);
}

/* ---- any of them ---------------------------------------------------------------------------- */

/* Whatever is bad, drained or full: if one machine works the search is completed, bad ones are
 * leased a few times only, and a replay agrees. */
Test(machines, searches_over_machines_of_all_kinds, .timeout = 600)
{
	static const char *const allocators[] = { "fair", "fluid", "fifo", "greedy", "milp" };
	uint64_t seed = getenv("SEED") != NULL ? strtoull(getenv("SEED"), NULL, 10) : 1;
	uint32_t seeds =
	    getenv("SEEDS") != NULL ? (uint32_t)strtoul(getenv("SEEDS"), NULL, 10) : 40;

	for (uint32_t n = 0; n < seeds; n++, seed++) {
		struct espl__rng rng;
		struct provider p;
		const char *allocator;
		uint32_t nodes_max, trials, good;

		espl__rng_seed(&rng, seed, "machines");
		nodes_max = 1 + (uint32_t)(espl__rng_next(&rng) % 4);
		trials = 8 + (uint32_t)(espl__rng_next(&rng) % 40);
		allocator = allocators[espl__rng_next(&rng) % 5];
		open_provider(&p, nodes_max, trials, allocator);
		p.machines = MACHINES;
		p.canary = espl__rng_next(&rng) % 2 == 0;
		good = (uint32_t)(espl__rng_next(&rng) % MACHINES);
		for (uint32_t m = 0; m < MACHINES; m++)
			if (m != good && m != (good + 1) % MACHINES)
				p.bad[m] = espl__rng_next(&rng) % 2 == 0;
		go_on(&p, 1 + espl__rng_next(&rng) % 20);
		if (p.run.summary.how == 0 && p.ready > 0 && espl__rng_next(&rng) % 2 == 0)
			for (uint64_t lease = 0; lease < p.asked; lease++)
				if (p.alive[lease] && p.of[lease] != good) {
					say(&p, unfit(lease));
					break;
				}
		go_on(&p, UINT64_MAX);
		cr_assert_eq(p.run.summary.how, ESPL__RUN_DONE, "SEED=%llu (%s): %s",
		    (unsigned long long)seed, allocator, p.run.summary.text);
		cr_assert_eq(p.run.summary.finished, trials, "SEED=%llu", (unsigned long long)seed);
		cr_assert_eq(p.run.summary.nodes_leaked, 0);
		for (uint32_t m = 0; m < MACHINES; m++)
			cr_assert(!p.bad[m] || p.given[m] <= 4,
			    "SEED=%llu: m%u, which is bad, was leased %u times",
			    (unsigned long long)seed, m, p.given[m]);
		close_provider(&p, nodes_max, trials, allocator);
	}
}
