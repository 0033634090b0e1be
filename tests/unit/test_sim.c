/* test_sim.c - the simulated world, fed by hand: what happens at which virtual instant. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "model/ledger.h"
#include "plugin/registry.h"
#include "sim/sim_impl.h"
#include "driver/worlds.h"
#include "input/input.h"

#define S(x_) ((espl_time)llround((x_)*1e9))

static const char usual[] =
    "experiment = { name = \"e\"; metric = \"loss\"; goal = \"minimize\"; };\n"
    "space = { lr = { type = \"real\"; low = 0.0; high = 1.0; }; };\n"
    "algorithm = { use = \"random\"; trials = 1; iterations_max = 9; };\n";
static const char quadratic[] =
    "trial = { trainable = \"quadratic\"; checkpoint = true; profile = { iteration = { mean = "
    "\"4s\"; };\n"
    " scaling = ( (1, 1.0), (2, 2.0) ); packing = ( (1, 1.0), (2, 1.6) );\n"
    " start = \"2s\"; checkpoint = \"1s\"; restore = \"0.5s\"; }; };\n";
static const char cloud[] = "cloud = { use = \"sim\"; nodes_max = 2; offers = ( { name = \"big\"; "
			    "gpus = 4; price = 12.24;\n"
			    " provision = \"15s\"; init = \"5s\"; } ); };\n";

struct bench {
	char dir[64];
	struct espl__inputs inputs;
	struct espl__world *world;
	struct espl__round round;
	struct espl__diag diag;
};

static char *
put_file(struct bench *b, const char *name, const char *text)
{
	static char path[128];
	struct espl__diag diag = ESPL__DIAG_INIT;

	snprintf(path, sizeof path, "%s/%s", b->dir, name);
	cr_assert_eq(espl__file_write(path, text, strlen(text), &diag), ESPL_OK, "%s", diag.text);
	return path;
}

static void
prepare(struct bench *b)
{
	memset(b, 0, sizeof *b);
	strcpy(b->dir, "/tmp/espalier-sim-XXXXXX");
	cr_assert_not_null(mkdtemp(b->dir));
	cr_assert_eq(espl__plugins_init(NULL, &b->diag), ESPL_OK, "%s", b->diag.text);
}

/* A world of this configuration; the status of its making. */
static espl_status
build(struct bench *b, const char *trial, const char *sky, const char *faults, uint64_t seed)
{
	char text[4000], script[200] = "";
	espl_status status;

	snprintf(text, sizeof text, "%s%s%s", usual, trial, sky);
	if (faults != NULL)
		snprintf(script, sizeof script, "%s", put_file(b, "faults.cfg", faults));
	status = espl__run_load(put_file(b, "run.cfg", text), NULL, 0, ESPL__NEED_SEARCH,
	    &b->inputs.config, &b->diag);
	cr_assert_eq(status, ESPL_OK, "%s:%u: %s", b->diag.file, b->diag.line, b->diag.text);
	status = espl__space_parse(b->inputs.config->space, &b->inputs.space, &b->diag);
	cr_assert_eq(status, ESPL_OK, "%s", b->diag.text);
	status = espl__profile_load(b->inputs.config->trial.profile, b->inputs.config->directory,
	    &b->inputs.profile, &b->diag);
	cr_assert_eq(status, ESPL_OK, "%s", b->diag.text);
	status =
	    espl__world_sim(&b->inputs, seed, faults != NULL ? script : NULL, &b->world, &b->diag);
	if (status == ESPL_OK)
		cr_assert_eq(b->world->ops->begin(b->world, 0, 0, &b->diag), ESPL_OK);
	return status;
}

static void
clear(struct bench *b)
{
	if (b->world != NULL)
		b->world->ops->close(b->world, 0, NULL);
	espl__profile_free(b->inputs.profile);
	espl__space_free(b->inputs.space);
	espl__run_free(b->inputs.config);
	b->world = NULL;
	b->inputs.profile = NULL;
	b->inputs.space = NULL;
	b->inputs.config = NULL;
	memset(&b->diag, 0, sizeof b->diag);
}

static void
finish(struct bench *b)
{
	clear(b);
	espl__tree_remove(b->dir, NULL);
	espl__plugins_exit();
}

static void
make(struct bench *b, const char *trial, const char *sky, const char *faults)
{
	espl_status status;

	prepare(b);
	status = build(b, trial, sky, faults, 1);
	cr_assert_eq(status, ESPL_OK, "%s:%u: %s", b->diag.file, b->diag.line, b->diag.text);
}

/* The next round: its instant, and how many events. */
static const struct espl__event *
next(struct bench *b, double at, uint32_t count)
{
	espl_status status = b->world->ops->next(b->world, &b->round, &b->diag);

	cr_assert_eq(status, ESPL_OK, "%s", b->diag.text);
	cr_assert_eq(b->round.now, S(at), "at %.9g, not %.9g", (double)b->round.now / 1e9, at);
	cr_assert_eq(b->round.count, count, "at %.9g: %u events, not %u", at, b->round.count,
	    count);
	return b->round.events;
}

static void
apply(struct bench *b, const struct espl__effect *effect)
{
	cr_assert_eq(b->world->ops->apply(b->world, effect, 1, &b->diag), ESPL_OK, "%s",
	    b->diag.text);
}

static void
acquire(struct bench *b, uint64_t lease, uint32_t offer, espl_money max)
{
	apply(b,
	    &(struct espl__effect){ .type = ESPL__FX_ACQUIRE,
		.as.acquire = { .lease = lease, .offer = offer, .max_price_hour = max } });
}

static void
start(struct bench *b, uint64_t gang, uint64_t trial, uint32_t gpus, uint32_t packing,
    uint64_t node, uint64_t checkpoint, uint64_t budget)
{
	static const double values[] = { 0.25 };
	struct espl_slot slots[8];

	for (uint32_t i = 0; i < gpus; i++)
		slots[i] = (struct espl_slot){ node, i, packing };
	apply(b,
	    &(struct espl__effect){ .type = ESPL__FX_START,
		.as.start = { .gang = gang,
		    .trial = trial,
		    .iteration = checkpoint,
		    .budget = budget,
		    .source = trial,
		    .checkpoint = checkpoint,
		    .share = { gpus, packing },
		    .slots = slots,
		    .values = values } });
}

static void
reply(struct bench *b, uint64_t gang, enum espl__directive directive, uint64_t budget)
{
	apply(b,
	    &(struct espl__effect){ .type = ESPL__FX_REPLY,
		.as.reply = { .gang = gang, .directive = directive, .budget = budget } });
}

static void
is_node(const struct espl__event *e, uint64_t lease, espl_node_state state, espl_reason reason)
{
	cr_assert_eq(e->type, ESPL__EV_NODE, "type %d", (int)e->type);
	cr_assert_eq(e->as.node.lease, lease);
	cr_assert_eq(e->as.node.state, state, "state %u", e->as.node.state);
	cr_assert_eq(e->as.node.reason, reason);
}

static double
is_report(const struct espl__event *e, uint64_t gang, uint64_t iteration)
{
	cr_assert_eq(e->type, ESPL__EV_REPORT, "type %d", (int)e->type);
	cr_assert_eq(e->as.report.gang, gang);
	cr_assert_eq(e->as.report.iteration, iteration, "iteration %llu",
	    (unsigned long long)e->as.report.iteration);
	cr_assert_eq(e->as.report.count, 1);
	cr_assert_eq(e->as.report.metrics[0].metric, 0);
	return e->as.report.metrics[0].value;
}

static void
is_ended(const struct espl__event *e, uint64_t gang, enum espl__gang_end how)
{
	cr_assert_eq(e->type, ESPL__EV_ENDED, "type %d", (int)e->type);
	cr_assert_eq(e->as.ended.gang, gang);
	cr_assert_eq(e->as.ended.how, how, "how %d: %s", (int)e->as.ended.how, e->as.ended.text);
}

/* START, one offer, CLOUD; then a node that is ready at 20 s. */
static void
opened(struct bench *b)
{
	const struct espl__event *e = next(b, 0, 3);

	cr_assert_eq(e[0].type, ESPL__EV_START);
	cr_assert_eq(e[1].type, ESPL__EV_OFFER);
	cr_assert_str_eq(e[1].as.offer->name, "big");
	cr_assert_eq(e[1].as.offer->price_hour, 12240000);
	cr_assert_eq(e[1].as.offer->billed_from, ESPL_BILL_FROM_BOOT);
	cr_assert_eq(e[2].type, ESPL__EV_CLOUD);
	cr_assert_eq(e[2].as.cloud.status, ESPL_OK);
}

static void
one_node(struct bench *b)
{
	opened(b);
	acquire(b, 0, 0, 0);
	is_node(next(b, 15, 1), 0, ESPL_NODE_BOOTING, 0);
	is_node(next(b, 20, 1), 0, ESPL_NODE_READY, 0);
}

Test(sim, nodes_boot_fill_the_quota_and_go)
{
	struct bench b;

	make(&b, quadratic, cloud, NULL);
	opened(&b);
	acquire(&b, 0, 0, 0);
	acquire(&b, 1, 0, 0);
	acquire(&b, 2, 0, 0); /* nodes_max is 2 */
	is_node(next(&b, 0, 1), 2, ESPL_NODE_ENDED, ESPL_BY_CAPACITY);
	apply(&b, &(struct espl__effect){ .type = ESPL__FX_RELEASE, .as.lease = 1 });
	is_node(next(&b, 0, 1), 1, ESPL_NODE_ENDED, ESPL_BY_USER);
	acquire(&b, 3, 0, 0);
	apply(&b, &(struct espl__effect){ .type = ESPL__FX_TIMER, .as.at = S(30) });
	apply(&b, &(struct espl__effect){ .type = ESPL__FX_TIMER, .as.at = S(17) });
	(void)next(&b, 15, 2);
	is_node(&b.round.events[1], 3, ESPL_NODE_BOOTING, 0);
	cr_assert_eq(next(&b, 17, 1)->type, ESPL__EV_TIMER);
	is_node(next(&b, 20, 2), 0, ESPL_NODE_READY, 0);
	cr_assert_eq(b.round.events[0].as.node.gpus, ESPL_ANY);
	/* Nothing is left that could happen: said, not waited for. */
	cr_assert_eq(b.world->ops->next(b.world, &b.round, &b.diag), ESPL_E_BUG);
	b.world->ops->stop(b.world);
	cr_assert_eq(next(&b, 20, 1)->type, ESPL__EV_STOP);
	finish(&b);
}

/* A paused and restored trial reports what an undisturbed one reports, later by what that costs. */
Test(sim, gangs_train_save_pause_and_go_on)
{
	struct bench b;
	double plain[4], value;

	make(&b, quadratic, cloud, NULL);
	one_node(&b);
	start(&b, 10, 7, 1, 1, 0, 0, 3);
	cr_assert_eq(next(&b, 20, 1)->type, ESPL__EV_STARTED);
	for (uint64_t i = 1; i <= 3; i++) {
		plain[i] = is_report(next(&b, 22 + 4.0 * (double)i, 1), 10, i);
		reply(&b, 10, i < 3 ? ESPL__CONTINUE : ESPL__STOP, 0);
	}
	is_ended(next(&b, 34, 1), 10, ESPL__END_DONE);

	start(&b, 11, 7, 2, 1, 0, 0, 1); /* two GPUs: 2 s an iteration */
	cr_assert_eq(next(&b, 34, 1)->type, ESPL__EV_STARTED);
	cr_assert_eq(is_report(next(&b, 38, 1), 11, 1), plain[1]);
	reply(&b, 11, ESPL__CHECKPOINT, 3);
	cr_assert_eq(next(&b, 39, 1)->type, ESPL__EV_SAVED);
	cr_assert_eq(b.round.events[0].as.saved.iteration, 1);
	cr_assert_gt(b.round.events[0].as.saved.bytes, 0);
	cr_assert_eq(is_report(next(&b, 41, 1), 11, 2), plain[2]);
	reply(&b, 11, ESPL__PAUSE, 0);
	is_ended(next(&b, 42, 2) + 1, 11, ESPL__END_DONE);
	cr_assert_eq(b.round.events[0].type, ESPL__EV_SAVED);

	start(&b, 12, 7, 1, 2, 0, 2, 3); /* half a GPU, start 2 s, restore 0.5 s */
	/* and the other half: 4 s / 0.8 each while both are there */
	start(&b, 14, 8, 1, 2, 0, 0, 1);
	cr_assert_eq(next(&b, 42, 2)->type, ESPL__EV_STARTED);
	(void)is_report(next(&b, 49, 1), 14, 1);
	reply(&b, 14, ESPL__STOP, 0);
	is_ended(next(&b, 49, 1), 14, ESPL__END_DONE);
	value = is_report(next(&b, 49.5, 1), 12, 3);
	cr_assert_eq(value, plain[3]);
	reply(&b, 12, ESPL__CONTINUE, 4);
	apply(&b, &(struct espl__effect){ .type = ESPL__FX_KILL, .as.kill = { .gang = 12 } });
	is_ended(next(&b, 49.5, 1), 12, ESPL__END_LOST);

	/* The checkpoint of iteration 1 is collected, that of 2 is kept. */
	apply(&b,
	    &(struct espl__effect){ .type = ESPL__FX_COLLECT,
		.as.collect = { .trial = 7, .keep = 2 } });
	start(&b, 13, 7, 1, 1, 0, 1, 3);
	(void)next(&b, 49.5, 1);
	is_ended(next(&b, 52, 1), 13, ESPL__END_NO_CHECKPOINT);
	finish(&b);
}

static void
kill_gang(struct bench *b, uint64_t gang, double grace)
{
	apply(b,
	    &(struct espl__effect){ .type = ESPL__FX_KILL,
		.as.kill = { .gang = gang, .grace = S(grace) } });
}

/* As trials with the helpers do: the iteration is finished, reported and saved, if the grace is
 * long enough; 4 s an iteration, 1 s a checkpoint. */
Test(sim, killed_gangs_save_if_there_is_time)
{
	const struct espl__event *e;
	struct bench b;

	make(&b, quadratic, cloud, "faults = ( { kind = \"hang\"; trial = 3; } );\n");
	one_node(&b);
	start(&b, 1, 1, 1, 1, 0, 0, 9); /* in the middle of an iteration */
	(void)next(&b, 20, 1);
	kill_gang(&b, 1, 10);
	(void)is_report(next(&b, 26, 1), 1, 1);
	reply(&b, 1, ESPL__PAUSE, 0); /* it does not wait for that */
	e = next(&b, 27, 2);
	cr_assert(e[0].type == ESPL__EV_SAVED && e[0].as.saved.iteration == 1);
	is_ended(&e[1], 1, ESPL__END_LOST);
	start(&b, 2, 1, 1, 1, 0, 1, 9); /* which is enough to go on from; waiting */
	(void)next(&b, 27, 1);
	(void)is_report(next(&b, 33.5, 1), 2, 2);
	kill_gang(&b, 2, 10);
	e = next(&b, 34.5, 2);
	cr_assert(e[0].type == ESPL__EV_SAVED && e[0].as.saved.iteration == 2);
	start(&b, 3, 2, 1, 1, 0, 0, 9); /* no time for the iteration */
	start(&b, 4, 4, 1, 1, 0, 0, 9); /* no time for the checkpoint */
	start(&b, 5, 3, 1, 1, 0, 0, 9); /* hung */
	(void)next(&b, 34.5, 3);
	kill_gang(&b, 3, 3);
	kill_gang(&b, 4, 6.5);
	kill_gang(&b, 5, 10);
	is_ended(next(&b, 37.5, 1), 3, ESPL__END_LOST);
	(void)is_report(next(&b, 40.5, 1), 4, 1);
	is_ended(next(&b, 41, 1), 4, ESPL__END_LOST);
	is_ended(next(&b, 44.5, 1), 5, ESPL__END_LOST);
	finish(&b);
}

/* A trial that is asked to pause saves within trial.save_limit, or fails; if it is killed while it
 * pauses, it still saves. */
Test(sim, a_pause_has_its_limit)
{
	static const char slow[] = "trial = { trainable = \"quadratic\"; save_limit = \"3s\";\n"
				   " profile = { iteration = \"4s\"; start = \"2s\"; checkpoint = "
				   "\"5s\"; restore = \"0s\"; }; };\n";
	const struct espl__event *e;
	struct bench b;

	make(&b, slow, cloud, NULL);
	one_node(&b);
	for (uint64_t i = 1; i <= 3; i++)
		start(&b, i, i, 1, 1, 0, 0, 9);
	(void)next(&b, 20, 3);
	(void)is_report(next(&b, 26, 3), 1, 1);
	reply(&b, 1, ESPL__PAUSE, 0);
	reply(&b, 2, ESPL__PAUSE, 0);
	kill_gang(&b, 2, 2);
	reply(&b, 3, ESPL__STOP, 0);
	kill_gang(&b, 3, 2);
	is_ended(next(&b, 26, 1), 3, ESPL__END_DONE);
	is_ended(next(&b, 28, 1), 2, ESPL__END_LOST);
	e = next(&b, 29, 1);
	is_ended(e, 1, ESPL__END_FAILED);
	cr_assert_str_eq(e->as.ended.text, "no checkpoint within 3.0s after the request to pause");
	finish(&b);
}

/* Every event of a busy little run as the journal would have it. */
static void
transcript(struct bench *b, uint64_t seed, int crowd, struct espl__buf *to, double *ends)
{
	static const char shaky[] = "trial = { trainable = \"quadratic\"; profile = { iteration = "
				    "{ dist = \"lognormal\"; mean = \"4s\";\n"
				    " sd = \"2s\"; }; start = { dist = \"normal\"; mean = \"2s\"; "
				    "sd = \"1s\"; }; checkpoint = \"1s\"; }; };\n";

	cr_assert_eq(build(b, shaky, cloud, NULL, seed), ESPL_OK, "%s", b->diag.text);
	one_node(b);
	for (uint64_t i = 0; i < (crowd ? 4u : 1u); i++)
		start(b, i, i, 1, 1, 0, 0, 5);
	for (int reports = 0; reports < (crowd ? 20 : 5);) {
		cr_assert_eq(b->world->ops->next(b->world, &b->round, &b->diag), ESPL_OK);
		for (uint32_t i = 0; i < b->round.count; i++) {
			const struct espl__event e = b->round.events[i];

			espl__put_z64(to, b->round.now);
			espl__event_put(&e, to);
			if (e.type != ESPL__EV_REPORT)
				continue;
			reports++;
			if (e.as.report.gang == 0 && e.as.report.iteration == 5)
				*ends = (double)b->round.now;
			reply(b, e.as.report.gang,
			    e.as.report.iteration % 2 ? ESPL__CONTINUE : ESPL__CHECKPOINT, 0);
		}
	}
	clear(b);
}

Test(sim, a_seed_repeats_itself_and_company_changes_nothing)
{
	struct bench b;
	struct espl__buf one = { 0 }, two = { 0 }, other = { 0 }, alone = { 0 };
	double ends[4] = { 0 };

	prepare(&b);
	transcript(&b, 1, 1, &one, &ends[0]);
	transcript(&b, 1, 1, &two, &ends[1]);
	transcript(&b, 2, 1, &other, &ends[2]);
	transcript(&b, 1, 0, &alone, &ends[3]);
	cr_assert_eq(one.size, two.size);
	cr_assert_eq(memcmp(one.data, two.data, one.size), 0);
	cr_assert(one.size != other.size || memcmp(one.data, other.data, one.size) != 0);
	cr_assert_neq(ends[0], ends[2]);
	cr_assert_eq(ends[0], ends[3], "trial 0 ends at %.9g in company, at %.9g alone", ends[0],
	    ends[3]);
	espl__buf_free(&one);
	espl__buf_free(&two);
	espl__buf_free(&other);
	espl__buf_free(&alone);
	finish(&b);
}

Test(sim, a_price_above_the_maximum_revokes)
{
	static const char spot[] =
	    "cloud = { use = \"sim\"; prices = \"spot.csv\"; offers = (\n"
	    " { name = \"p3\"; gpus = 8; market = \"on-demand\"; price = 24.48; },\n"
	    " { name = \"p3\"; gpus = 8; market = \"spot\"; notice = \"120s\"; refund_before = "
	    "\"1h\"; } ); };\n";
	static const char csv[] =
	    "timestamp,instance_type,availability_zone,product_description,spot_price\n"
	    "2020-03-01T00:02:00Z,p3,a,Linux/UNIX,8.0\n"
	    "2020-03-01 00:00:00+00:00,p3,a,Linux/UNIX,7.5\n"
	    "2020-03-01T01:05:00+01:00,p3,a,Linux/UNIX,8.01\n"
	    "2020-03-01T00:01:00Z,other,a,Linux/UNIX,1.0\n";
	struct bench b;
	const struct espl__event *e;

	prepare(&b);
	(void)put_file(&b, "spot.csv", csv);
	cr_assert_eq(build(&b, quadratic, spot, NULL, 1), ESPL_OK, "%s", b.diag.text);
	e = next(&b, 0, 5);
	cr_assert_eq(e[2].as.offer->flags, ESPL_OFFER_MARKET | ESPL_OFFER_REVOCABLE);
	cr_assert_eq(e[2].as.offer->price_hour, 7500000);
	cr_assert_eq(e[2].as.offer->fixed_price_hour, 24480000);
	cr_assert_eq(e[3].type, ESPL__EV_PRICE);
	cr_assert_eq(e[3].as.price.offer, 1);
	acquire(&b, 0, 1, 8000000);
	acquire(&b, 1, 1, 9000000);
	acquire(&b, 2, 1, 7000000); /* below the present price */
	(void)next(&b, 0, 5);
	is_node(&b.round.events[2], 2, ESPL_NODE_ENDED, ESPL_BY_CAPACITY);
	start(&b, 1, 1, 1, 1, 0, 0, 1000);
	(void)next(&b, 0, 1);
	(void)is_report(next(&b, 6, 1), 1, 1);
	e = next(&b, 120, 1); /* equal to the maximum: stays */
	cr_assert_eq(e[0].as.price.price.usd_hour, 8000000);
	is_node(next(&b, 300, 2) + 1, 0, ESPL_NODE_NOTICE, 0);
	cr_assert_eq(b.round.events[1].as.node.ends_at, S(420));
	e = next(&b, 420, 2);
	is_ended(&e[0], 1, ESPL__END_LOST);
	is_node(&e[1], 0, ESPL_NODE_ENDED, ESPL_BY_PROVIDER);
	reply(&b, 1, ESPL__CONTINUE, 0); /* crossed the loss: harmless */
	finish(&b);
}

Test(sim, faults_strike_when_the_script_says)
{
	static const char script[] =
	    "faults = ( { kind = \"trial-fails\"; trial = 1; iteration = 2; },\n"
	    " { kind = \"nan\"; trial = 2; iteration = 1; }, { kind = \"hang\"; trial = 3; },\n"
	    " { kind = \"slow\"; trial = 2; factor = 2.0; }, { kind = \"node-lost\"; at = \"60s\"; "
	    "node = 0; },\n"
	    " { kind = \"no-capacity\"; from = \"21s\"; to = \"22s\"; offer = \"big\"; },\n"
	    " { kind = \"slow-boot\"; from = \"25s\"; factor = 3.0; }, { kind = \"stop\"; at = "
	    "\"61s\"; } );\n";
	struct bench b;
	const struct espl__event *e;

	make(&b, quadratic, cloud, script);
	one_node(&b);
	for (uint64_t i = 1; i <= 3; i++)
		start(&b, i, i, 1, 1, 0, 0, 2);
	(void)next(&b, 20, 3);
	apply(&b, &(struct espl__effect){ .type = ESPL__FX_TIMER, .as.at = S(21) });
	(void)next(&b, 21, 1);
	acquire(&b, 1, 0, 0);
	is_node(next(&b, 21, 1), 1, ESPL_NODE_ENDED, ESPL_BY_CAPACITY);
	(void)is_report(next(&b, 26, 1), 1, 1);
	reply(&b, 1, ESPL__CONTINUE, 0);
	acquire(&b, 2, 0, 0); /* slow: 45 s to the boot */
	e = next(&b, 30, 2);
	cr_assert(isnan(is_report(&e[0], 2, 1)));
	is_ended(&e[1], 1, ESPL__END_FAILED);
	cr_assert_eq(e[1].as.ended.node, 0);
	cr_assert_not_null(strstr(e[1].as.ended.text, "iteration 2"));
	start(&b, 4, 1, 1, 1, 0, 0, 2); /* it struck once */
	(void)next(&b, 30, 1);
	(void)is_report(next(&b, 36, 1), 4, 1);
	reply(&b, 4, ESPL__CONTINUE, 0);
	(void)is_report(next(&b, 40, 1), 4, 2);
	e = next(&b, 60, 4); /* gangs first, by number; then their node */
	is_ended(&e[0], 2, ESPL__END_LOST);
	is_ended(&e[1], 3, ESPL__END_LOST);
	is_ended(&e[2], 4, ESPL__END_LOST);
	is_node(&e[3], 0, ESPL_NODE_ENDED, ESPL_BY_FAULT);
	cr_assert_eq(next(&b, 61, 1)->type, ESPL__EV_STOP);
	is_node(next(&b, 71, 1), 2, ESPL_NODE_BOOTING, 0);
	finish(&b);
}

/* START, the offers, CLOUD. */
static void
begin_with(struct bench *b, const char *sky, const char *faults, uint32_t offers)
{
	make(b, quadratic, sky, faults);
	cr_assert_eq(next(b, 0, 2 + offers)[0].type, ESPL__EV_START);
}

static void
release(struct bench *b, uint64_t lease)
{
	apply(b, &(struct espl__effect){ .type = ESPL__FX_RELEASE, .as.lease = lease });
}

/* BOOTING, and the name of the machine before it. */
static void
boots_on(struct bench *b, double at, uint64_t lease, const char *machine)
{
	const struct espl__event *e = next(b, at, 2);

	cr_assert_eq(e[0].type, ESPL__EV_MACHINE);
	cr_assert_eq(e[0].as.node_why.lease, lease);
	cr_assert_str_eq(e[0].as.node_why.text, machine);
	is_node(&e[1], lease, ESPL_NODE_BOOTING, 0);
}

#define TWO_MACHINES \
	"cloud = { use = \"sim\"; offers = ( { name = \"big\"; gpus = 2; price = 1.0; " \
	"provision = \"15s\"; init = \"5s\"; machines = 2; "

Test(sim, requests_beyond_the_machines_are_refused)
{
	struct bench b;

	begin_with(&b, TWO_MACHINES "} ); };\n", NULL, 1);
	for (uint64_t i = 0; i < 3; i++)
		acquire(&b, i, 0, 0);
	is_node(next(&b, 0, 1), 2, ESPL_NODE_ENDED, ESPL_BY_CAPACITY);
	(void)next(&b, 15, 4); /* both boot */
	release(&b, 0);
	is_node(next(&b, 15, 1), 0, ESPL_NODE_ENDED, ESPL_BY_USER);
	acquire(&b, 3, 0, 0);
	is_node(next(&b, 20, 1), 1, ESPL_NODE_READY, 0);
	boots_on(&b, 30, 3, "big-on-demand-0"); /* the one that was returned */
	finish(&b);
}

Test(sim, requests_wait_in_order_and_not_for_ever)
{
	struct bench b;

	begin_with(&b, TWO_MACHINES "wait = \"1m\"; } ); };\n", NULL, 1);
	for (uint64_t i = 0; i < 5; i++)
		acquire(&b, i, 0, 0);
	(void)next(&b, 15, 4);
	(void)next(&b, 20, 2);
	release(&b, 2); /* it waits, and does not have to */
	release(&b, 1);
	(void)next(&b, 20, 2);
	boots_on(&b, 35, 3, "big-on-demand-1");
	is_node(next(&b, 40, 1), 3, ESPL_NODE_READY, 0);
	is_node(next(&b, 60, 1), 4, ESPL_NODE_ENDED, ESPL_BY_CAPACITY);
	finish(&b);
}

/* Of all nodes of two machines that others want, too: how many are taken back, and refused. */
static void
play_market(uint64_t seed, const char *market, uint32_t *taken, uint32_t *refused)
{
	struct bench b;
	char sky[400];
	uint64_t lease = 0;

	*taken = *refused = 0;
	(void)snprintf(sky, sizeof sky,
	    TWO_MACHINES "free_for = \"1h\"; taken_for = \"30m\"; %s } ); };\n", market);
	prepare(&b);
	cr_assert_eq(build(&b, quadratic, sky, NULL, seed), ESPL_OK);
	(void)next(&b, 0, 3);
	acquire(&b, lease++, 0, 0);
	while (lease < 200) {
		cr_assert_eq(b.world->ops->next(b.world, &b.round, &b.diag), ESPL_OK);
		for (uint32_t i = 0; i < b.round.count; i++) {
			const struct espl__event *e = &b.round.events[i];

			if (e->type == ESPL__EV_TIMER ||
			    (e->type == ESPL__EV_NODE && e->as.node.state == ESPL_NODE_READY &&
				strstr(market, "spot") == NULL)) {
				if (e->type == ESPL__EV_NODE)
					release(&b, e->as.node.lease);
			} else if (e->type != ESPL__EV_NODE ||
			    e->as.node.state != ESPL_NODE_ENDED) {
				continue;
			} else {
				*taken += e->as.node.reason == ESPL_BY_PROVIDER;
				*refused += e->as.node.reason == ESPL_BY_CAPACITY;
			}
			if (e->type == ESPL__EV_TIMER)
				acquire(&b, lease++, 0, 0);
			else if (e->as.node.state == ESPL_NODE_ENDED)
				apply(&b,
				    &(struct espl__effect){ .type = ESPL__FX_TIMER,
					.as.at = b.round.now + 600 * ESPL_SECOND });
		}
	}
	finish(&b);
}

Test(sim, others_take_machines_of_an_offer_that_is_revocable)
{
	uint32_t taken, refused;

	play_market(3, "market = \"spot\"; notice = \"1m\";", &taken, &refused);
	cr_expect_gt(taken, 50, "%u", taken);
	cr_expect_gt(refused, 10, "%u", refused);
	play_market(3, "", &taken, &refused);
	cr_expect_eq(taken, 0, "%u", taken);
	cr_expect_gt(refused, 10, "%u", refused);
}

Test(sim, refusals_are_of_several_kinds)
{
	struct bench b;
	const struct espl__event *e;

	begin_with(&b, TWO_MACHINES "} ); };\n",
	    "faults = ( { kind = \"no-capacity\"; reason = \"quota\"; to = \"10s\"; retry_after = "
	    "\"7s\"; }, { kind = \"no-capacity\"; reason = \"refused\"; from = \"14s\"; } );\n",
	    1);
	acquire(&b, 0, 0, 0);
	e = next(&b, 0, 2);
	cr_assert_eq(e[0].type, ESPL__EV_RETRY);
	cr_assert_eq(e[0].as.retry.after, S(7));
	is_node(&e[1], 0, ESPL_NODE_ENDED, ESPL_BY_QUOTA);
	apply(&b, &(struct espl__effect){ .type = ESPL__FX_TIMER, .as.at = S(14) });
	cr_assert_eq(next(&b, 14, 1)->type, ESPL__EV_TIMER);
	acquire(&b, 1, 0, 0);
	e = next(&b, 14, 2);
	cr_assert_eq(e[0].type, ESPL__EV_NODE_WHY);
	is_node(&e[1], 1, ESPL_NODE_ENDED, ESPL__BY_REFUSAL);
	finish(&b);
}

Test(sim, a_bad_machine_is_bad_whoever_leases_it)
{
	struct bench b;
	const struct espl__event *e;

	begin_with(&b, TWO_MACHINES "} ); };\n",
	    "faults = ( { kind = \"boot-fails\"; machine = \"big-on-demand-0\"; after = \"60s\"; "
	    "},\n"
	    " { kind = \"bad-gpu\"; machine = \"big-on-demand-1\"; gpu = 1; },\n"
	    " { kind = \"slow\"; machine = \"big-on-demand-1\"; factor = 3.0; } );\n",
	    1);
	acquire(&b, 0, 0, 0);
	acquire(&b, 1, 0, 0);
	(void)next(&b, 15, 4);
	e = next(&b, 20, 2);
	is_node(&e[0], 1, ESPL_NODE_READY, 0);
	cr_assert_eq(e[1].type, ESPL__EV_GPU);
	cr_assert_eq(e[1].as.gpu.id, 1);
	cr_assert_eq(e[1].as.gpu.number, 1);
	start(&b, 0, 0, 1, 1, 1, 0, 9);
	cr_assert_eq(next(&b, 20, 1)->type, ESPL__EV_STARTED);
	(void)is_report(next(&b, 20 + 2 + 12, 1), 0, 1);
	finish(&b);
	begin_with(&b, TWO_MACHINES "} ); };\n",
	    "faults = ( { kind = \"boot-fails\"; machine = \"big-on-demand-0\"; after = \"60s\"; } "
	    ");\n",
	    1);
	for (uint64_t lease = 0; lease < 2; lease++) {
		double from = 75.0 * (double)lease;

		acquire(&b, lease, 0, 0);
		boots_on(&b, from + 15, lease, "big-on-demand-0");
		e = next(&b, from + 75, 2);
		cr_assert_eq(e[0].type, ESPL__EV_NODE_WHY);
		is_node(&e[1], lease, ESPL_NODE_ENDED, ESPL__BY_GIVING_UP);
	}
	finish(&b);
}

Test(sim, a_notice_may_not_come)
{
	struct bench b;

	begin_with(&b, TWO_MACHINES "market = \"spot\"; notice = \"1m\"; } ); };\n",
	    "faults = ( { kind = \"notice\"; node = 0; at = \"30s\"; }, { kind = \"no-notice\"; } "
	    ");\n",
	    1);
	acquire(&b, 0, 0, 0);
	boots_on(&b, 15, 0, "big-spot-0");
	is_node(next(&b, 20, 1), 0, ESPL_NODE_READY, 0);
	is_node(next(&b, 30, 1), 0, ESPL_NODE_ENDED, ESPL_BY_PROVIDER);
	finish(&b);
}

Test(sim, recorded_curves_are_trials)
{
	static const char trial[] =
	    "trial = { curves = \"curves.csv\"; profile = { iteration = { mean = \"4s\"; };\n"
	    " scaling = ( (1, 1.0), (2, 2.0) ); start = \"1s\"; }; };\n";
	static const char csv[] = "config,lr,iteration,loss,error,seconds\n"
				  "a,0.2,1,0.9,0.5,3\na,0.2,2,0.8,0.4,5\nb,0.9,1,2.0,0.7,1\n";
	struct bench b;
	const struct espl__event *e;

	prepare(&b);
	(void)put_file(&b, "curves.csv", csv);
	cr_assert_eq(build(&b, trial, cloud, NULL, 1), ESPL_OK, "%s", b.diag.text);
	one_node(&b);
	start(&b, 0, 0, 2, 1, 0, 0, 9);
	(void)next(&b, 20, 1);
	e = next(&b, 22.5, 2); /* 1 s, and 3 s on two GPUs */
	cr_assert_eq(e[0].type, ESPL__EV_METRIC);
	cr_assert_str_eq(e[0].as.metric, "error");
	cr_assert_eq(e[1].as.report.count, 2);
	cr_assert_eq(e[1].as.report.metrics[0].value, 0.9);
	cr_assert_eq(e[1].as.report.metrics[1].metric, 1);
	reply(&b, 0, ESPL__PAUSE, 0);
	is_ended(next(&b, 22.5, 2) + 1, 0, ESPL__END_DONE);
	start(&b, 1, 0, 1, 1, 0, 1, 9); /* its checkpoint cost nothing and is there */
	(void)next(&b, 22.5, 1);
	e = next(&b, 28.5, 1);
	cr_assert_eq(e[0].as.report.metrics[0].value, 0.8);
	reply(&b, 1, ESPL__CONTINUE, 0);
	is_ended(next(&b, 28.5, 1), 1, ESPL__END_FINISHED);
	finish(&b);
}

Test(sim, what_cannot_be_simulated_is_refused)
{
	static const struct {
		const char *trial, *sky, *faults, *says;
	} bad[] = {
		{ "trial = { command = [ \"true\" ]; };", cloud, NULL,
		    "cannot simulate a command" },
		{ "", cloud, NULL, "nothing to simulate" },
		{ quadratic, cloud, "faults = ( { kind = \"hang\"; iteratoin = 1; } );",
		    "no option 'iteratoin'" },
		{ quadratic, cloud, "faults = ( { kind = \"node-gone\"; } );",
		    "unknown fault 'node-gone'" },
		{ quadratic, cloud, "faults = ( { kind = \"node-lost\"; node = 1; } );",
		    "needs 'at'" },
		{ quadratic, cloud, "fault = ( );", "must not contain 'fault'" },
		{ quadratic, cloud,
		    "faults = ( { kind = \"no-capacity\"; from = \"2s\"; to = \"1s\"; } );",
		    "must be later than" },
		{ quadratic, "cloud = { use = \"sim\"; offers = ( ); };", NULL,
		    "list of offers is empty" },
		{ quadratic,
		    "cloud = { use = \"sim\"; offers = ( { name = \"a\"; gpus = 0; price = 1.0; } "
		    "); };",
		    NULL, "gpus" },
		{ quadratic,
		    "cloud = { use = \"sim\"; offers = ( { name = \"a\"; gpus = 1; price = -1.0; } "
		    "); };",
		    NULL, "price" },
		{ quadratic,
		    "cloud = { use = \"sim\"; offers = ( { name = \"a\"; gpus = 1; price = 1.0; "
		    "},\n"
		    " { name = \"a\"; gpus = 2; price = 1.0; } ); };",
		    NULL, "listed twice" },
		{ quadratic,
		    "cloud = { use = \"sim\"; offers = ( { name = \"a\"; gpus = 1; } ); };", NULL,
		    "neither a price" },
		{ quadratic,
		    "cloud = { use = \"sim\"; prices = \"bad.csv\"; offers = ( { name = \"a\"; "
		    "gpus = 1; } ); };",
		    NULL, "line 3" },
	};
	struct bench b;

	prepare(&b);
	(void)put_file(&b, "bad.csv", "offer,time,price\na,0,1.5\na,60,much\n");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		espl_status status = build(&b, bad[i].trial, bad[i].sky, bad[i].faults, 1);

		cr_assert_eq(status, ESPL_E_CONFIG, "%s: status %d", bad[i].says, (int)status);
		cr_assert_not_null(strstr(b.diag.text, bad[i].says), "'%s' is not in: %s",
		    bad[i].says, b.diag.text);
		cr_assert(i < 2 || b.diag.line > 0, "no line in: %s", b.diag.text);
		clear(&b);
	}
	finish(&b);
}

Test(sim, the_agenda_is_in_order)
{
	struct espl__sim_heap heap = { 0 };
	struct espl__rng rng;
	struct espl__sim_due last = { .at = -1 };

	espl__rng_seed(&rng, 1, "heap");
	for (int i = 0; i < 5000; i++) {
		espl__sim_heap_add(&heap, (espl_time)(espl__rng_next(&rng) % 100), ESPL__DUE_GANG,
		    0, 0);
		if (i % 3 == 2)
			(void)espl__sim_heap_take(&heap);
	}
	while (espl__sim_heap_top(&heap) != NULL) {
		struct espl__sim_due due = espl__sim_heap_take(&heap);

		cr_assert(due.at > last.at || (due.at == last.at && due.seq > last.seq));
		last = due;
	}
	free(heap.list);
}
