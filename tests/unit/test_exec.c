/* test_exec.c - whole searches through the executor on the simulated world: what is decided, that
 * it repeats, and that a run cut anywhere comes to the same end.
 */
#include "exec/items_tiers.h"
#include "exec/state.h"
#include "exec_run.h"

static const char *const head =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 3; %s };\n"
    "trial = { trainable = \"hartmann6\"; options = { bias = 2.5; noise = 2.0; }; %s\n"
    "  profile = { iteration = { mean = \"4s\"; sd = \"1s\"; }; scaling = ((1, 1.0), (2, 1.9), (4, "
    "3.4)); packing = ((1, 1.0), (2, 1.6), (3, 2.0), (4, 2.2)); start = \"2s\"; checkpoint = "
    "\"1s\"; %s }; };\n"
    "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; }; x1 = { type = \"real\"; low = "
    "0.0; high = 1.0; };\n"
    "  x2 = { type = \"real\"; low = 0.0; high = 1.0; }; x3 = { type = \"real\"; low = 0.0; high = "
    "1.0; };\n"
    "  x4 = { type = \"real\"; low = 0.0; high = 1.0; }; x5 = { type = \"real\"; low = 0.0; high = "
    "1.0; }; };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = 2; price = 3.6; market = "
    "\"on-demand\"; provision = \"15s\"; } ); nodes_max = 4; };\n"
    "%s\n";
static struct espl__observer *watching; /* by the next executor, NULL nobody */
static const char *in_place =
    ""; /* in the profile: what a resize takes, if gangs live through it */
static const char *const sha =
    "algorithm = { use = \"sha\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3; };\n"
    "allocator = { use = \"static\"; gpus = 4; }; placer = { use = \"colocate\"; };";
static const char *const unplanned =
    "algorithm = { use = \"sha\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3; };\n"
    "allocator = { use = \"fair\"; }; placer = { use = \"colocate\"; };";

static void
make(struct run *r, const char *experiment, const char *trial, const char *rest, const char *faults)
{
	char *text = espl__format(head, experiment, trial, in_place, rest);

	make_run(r, text, faults, watching);
	free(text);
}

static espl_status
whole(struct run *r, const char *experiment, const char *trial, const char *rest,
    const char *faults)
{
	make(r, experiment, trial, rest, faults);
	cr_assert_eq(r->world->ops->begin(r->world, 0, 0, &r->diag), ESPL_OK, "%s", r->diag.text);
	return pump(r, NULL, 1000000);
}

Test(exec, sha_trains_what_it_declares_and_leaves_nothing)
{
	struct run r;
	uint32_t at[10] = { 0 };

	cr_assert_eq(whole(&r, "", "", sha, NULL), ESPL_OK, "%s", r.diag.text);
	cr_assert_eq(r.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(r.summary.trials, 9);
	cr_assert_eq(r.summary.finished, 9);
	for (uint64_t i = 0; i < 9; i++)
		at[espl__exec_trial(r.exec, i)->iteration]++;
	cr_assert(at[1] == 6 && at[3] == 2 && at[9] == 1);
	cr_assert_eq(r.summary.best_iteration, 9);
	cr_assert_eq(r.summary.best_checkpoint, 9, "the best trial's model is kept");
	cr_assert_eq(r.summary.nodes_peak, 2);
	cr_assert_eq(r.summary.nodes_leaked, 0);
	cr_assert_eq(espl__exec_leases(r.exec, NULL, 0), 0);
	cr_assert_eq(r.summary.gpus_busy, 0);
	/* two nodes at 3.6 dollars an hour = 0.001 a second each, from boot (15 s) to the end */
	cr_assert_float_eq((double)r.summary.cost / 1e6,
	    2 * 0.001 * ((double)r.summary.now / 1e9 - 15), 0.003);
	unmake(&r);
}

Test(exec, same_seed_same_decisions_and_replay_agrees, .timeout = 60)
{
	struct run a, b, c;
	struct tape one = { 0 }, two = { 0 };

	make(&a, "", "", sha, NULL);
	cr_assert_eq(a.world->ops->begin(a.world, 0, 0, &a.diag), ESPL_OK);
	cr_assert_eq(pump(&a, &one, 100000), ESPL_OK);
	make(&b, "", "", sha, NULL);
	cr_assert_eq(b.world->ops->begin(b.world, 0, 0, &b.diag), ESPL_OK);
	cr_assert_eq(pump(&b, &two, 100000), ESPL_OK);
	cr_assert_eq(one.count, two.count);
	for (uint32_t i = 0; i < one.count; i++) {
		cr_assert_eq(one.list[i].decisions.size, two.list[i].decisions.size);
		if (one.list[i].decisions.size > 0)
			cr_assert_arr_eq(one.list[i].decisions.data, two.list[i].decisions.data,
			    one.list[i].decisions.size);
	}
	make(&c, "", "", sha, NULL);
	cr_assert_eq(replay(&c, &one, one.count), ESPL_OK, "%s", c.diag.text);
	cr_assert(espl__exec_view(c.exec).ended);
	unmake(&c);
	/* another search decides otherwise, and is found out, by name */
	make(&c, "", "",
	    "algorithm = { use = \"random\"; trials = 9; iterations_max = 9; }; allocator = { use "
	    "= \"static\"; gpus = 4; };"
	    " placer = { use = \"colocate\"; };",
	    NULL);
	cr_assert_eq(replay(&c, &one, one.count), ESPL_E_BUG);
	cr_assert(strstr(c.diag.text, "the journal says allocator 'static' chose to") != NULL, "%s",
	    c.diag.text);
	unmake(&c);
	unmake(&a);
	unmake(&b);
	free_tape(&one);
	free_tape(&two);
}

/* Cut after every single round: the same trials, the same losses, the same best, its model kept. */
Test(exec, a_run_cut_after_any_round_comes_to_the_same_end, .timeout = 120)
{
	struct run a;
	struct tape tape = { 0 };

	make(&a, "", "checkpoint_every = \"3s\";", sha, NULL);
	cr_assert_eq(a.world->ops->begin(a.world, 0, 0, &a.diag), ESPL_OK);
	cr_assert_eq(pump(&a, &tape, 100000), ESPL_OK);
	for (uint32_t cut = 1; cut + 1 < tape.count; cut++) {
		struct run b;

		make(&b, "", "checkpoint_every = \"3s\";", sha, NULL);
		cr_assert_eq(replay(&b, &tape, cut), ESPL_OK, "cut %u: %s", (unsigned)cut,
		    b.diag.text);
		if (!espl__exec_view(b.exec).ended) {
			cr_assert_eq(b.world->ops->begin(b.world, 1, tape.list[cut - 1].now,
					 &b.diag),
			    ESPL_OK);
			cr_assert_eq(pump(&b, NULL, 100000), ESPL_OK, "cut %u: %s", (unsigned)cut,
			    b.diag.text);
		}
		espl__exec_summary(b.exec, &b.summary);
		cr_assert_eq(b.summary.how, ESPL__RUN_DONE, "cut %u: %s", (unsigned)cut,
		    b.summary.text);
		cr_assert_eq(b.summary.trials, a.summary.trials);
		cr_assert_eq(b.summary.best, a.summary.best, "cut %u", (unsigned)cut);
		cr_assert_eq(b.summary.best_checkpoint, a.summary.best_checkpoint, "cut %u",
		    (unsigned)cut);
		cr_assert_eq(b.summary.nodes_leaked, 0);
		for (uint64_t i = 0; i < a.summary.trials; i++) {
			const struct espl_trial *p = espl__exec_trial(a.exec, i),
						*q = espl__exec_trial(b.exec, i);
			cr_assert_eq(p->iteration, q->iteration);
			cr_assert_eq(memcmp(&p->loss, &q->loss, sizeof p->loss), 0,
			    "cut %u trial %u", (unsigned)cut, (unsigned)i);
			cr_assert_eq(p->state, q->state);
			cr_assert_eq(p->group, q->group, "cut %u trial %u", (unsigned)cut,
			    (unsigned)i);
			cr_assert_eq(p->checkpoint, q->checkpoint, "cut %u trial %u: %u and %u",
			    (unsigned)cut, (unsigned)i, (unsigned)p->checkpoint,
			    (unsigned)q->checkpoint);
		}
		unmake(&b);
	}
	free_tape(&tape);
	unmake(&a);
}

Test(exec, failures_are_retried_and_then_final)
{
	struct run r;

	cr_assert_eq(whole(&r, "", "", sha,
			 "faults = ( { kind = \"trial-fails\"; trial = 2; iteration = 1; times = "
			 "1; }, { kind = \"trial-fails\"; trial = 5; iteration = 1; times = 9; } "
			 ");"),
	    ESPL_OK, "%s", r.diag.text);
	cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", r.summary.text);
	cr_assert_eq(r.summary.failed, 1);
	cr_assert_eq(espl__exec_trial(r.exec, 5)->state, ESPL_TRIAL_FAILED);
	cr_assert_neq(espl__exec_trial(r.exec, 2)->state, ESPL_TRIAL_FAILED);
	unmake(&r);
}

Test(exec, lost_nodes_are_replaced_and_the_search_goes_on)
{
	struct run r;

	cr_assert_eq(whole(&r, "", "", sha,
			 "faults = ( { kind = \"node-lost\"; node = 0; at = \"20s\"; }, { kind = "
			 "\"node-lost\"; node = 1; at = \"40s\"; } );"),
	    ESPL_OK, "%s", r.diag.text);
	cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", r.summary.text);
	cr_assert_eq(r.summary.finished, 9);
	cr_assert_eq(r.summary.failed, 0, "a lost node is no trial's fault");
	cr_assert_eq(r.summary.nodes_leaked, 0);
	unmake(&r);
}

Test(exec, deadline_and_budget_end_in_good_order)
{
	struct run r;

	/* an allocator that plans says so before anything begins */
	cr_assert_eq(whole(&r, "deadline = \"40s\";", "", sha, NULL), ESPL_E_INFEASIBLE);
	cr_assert_eq(r.summary.cost, 0);
	unmake(&r);
	cr_assert_eq(whole(&r, "deadline = \"40s\";", "", unplanned, NULL), ESPL_OK, "%s",
	    r.diag.text);
	cr_assert_eq(r.summary.how, ESPL__RUN_DEADLINE);
	cr_assert_neq(r.summary.best, ESPL_NONE);
	cr_assert_leq(r.summary.now, 45 * ESPL_SECOND);
	cr_assert_eq(r.summary.nodes_leaked, 0);
	unmake(&r);
	/* Trials have their grace to save and to leave in, and it is paid for. */
	cr_assert_eq(whole(&r, "budget = 0.05;", "grace = \"1s\";", unplanned, NULL), ESPL_OK, "%s",
	    r.diag.text);
	cr_assert_eq(r.summary.how, ESPL__RUN_BUDGET);
	cr_assert_leq(r.summary.cost, 55000);
	unmake(&r);
}

Test(exec, what_can_never_run_is_refused_at_once)
{
	struct run r;

	cr_assert_eq(whole(&r, "", "gpus_min = 100;", sha, NULL), ESPL_E_CONFIG);
	cr_assert(strstr(r.diag.text, "100 GPUs") != NULL, "%s", r.diag.text);
	unmake(&r);
	cr_assert_eq(whole(&r, "", "",
			 "algorithm = { use = \"random\"; trials = 2; iterations_max = 2; };\n"
			 "allocator = { use = \"fair\"; offer = \"nobody\"; }; placer = { use = "
			 "\"colocate\"; };",
			 NULL),
	    ESPL_E_CONFIG);
	cr_assert(strstr(r.diag.text, "no offer 'nobody'") != NULL, "%s", r.diag.text);
	cr_assert(r.diag.line > 0 && strcmp(r.diag.hint, "it offers 'n'") == 0, "%s", r.diag.hint);
	unmake(&r);
}

/* Three allocations a second apart: resizes go by checkpoint, losses do not depend on them. */
Test(exec, elastic_resizing_changes_no_result)
{
	struct run a, b;
	const char *fair =
	    "algorithm = { use = \"random\"; trials = 5; iterations_max = 12; };"
	    " allocator = { use = \"fair\"; resize = \"always\"; }; placer = { use = \"%s\"; };";
	char one[300], two[300];

	snprintf(one, sizeof one, fair, "colocate");
	snprintf(two, sizeof two, fair, "scatter");
	cr_assert_eq(whole(&a, "", "", one, NULL), ESPL_OK, "%s", a.diag.text);
	cr_assert_eq(whole(&b, "", "", two, NULL), ESPL_OK, "%s", b.diag.text);
	cr_assert_gt(a.summary.resizes + b.summary.resizes, 0);
	for (uint64_t i = 0; i < 5; i++) {
		cr_assert_eq(espl__exec_trial(a.exec, i)->iteration, 12);
		cr_assert_float_eq(espl__exec_trial(a.exec, i)->loss,
		    espl__exec_trial(b.exec, i)->loss, 0);
	}
	unmake(&a);
	unmake(&b);
}

/* The same where gangs live through it: nothing is saved or started for it, and a run that is cut
 * anywhere comes to the same end. */
Test(exec, resizing_in_place_changes_no_result, .timeout = 120)
{
	static const char *const fair =
	    "algorithm = { use = \"random\"; trials = 5; iterations_max = 12; };"
	    " allocator = { use = \"fair\"; resize = \"always\"; }; placer = { use = \"colocate\"; "
	    "};";
	static const char *const every = "checkpoint_every = \"9s\";";
	struct run a, b;
	struct tape tape = { 0 };
	uint32_t resized = 0;

	cr_assert_eq(whole(&a, "", every, fair, NULL), ESPL_OK, "%s", a.diag.text);
	in_place = "resize = \"500ms\";";
	make(&b, "", every, fair, NULL);
	cr_assert_eq(b.world->ops->begin(b.world, 0, 0, &b.diag), ESPL_OK);
	cr_assert_eq(pump(&b, &tape, 100000), ESPL_OK, "%s", b.diag.text);
	for (uint32_t i = 0; i < tape.count; i++)
		resized += tape.list[i].events.data[0] == ESPL__EV_RESIZED;
	cr_assert_gt(resized, 0);
	cr_assert_gt(b.summary.resizes, 0);
	cr_assert_lt(b.summary.now, a.summary.now, "it costs less than saving and starting");
	for (uint64_t i = 0; i < 5; i++)
		cr_assert_float_eq(espl__exec_trial(a.exec, i)->loss,
		    espl__exec_trial(b.exec, i)->loss, 0);
	for (uint32_t cut = 1; cut + 1 < tape.count; cut += 3) {
		struct run c;

		make(&c, "", every, fair, NULL);
		cr_assert_eq(replay(&c, &tape, cut), ESPL_OK, "cut %u: %s", (unsigned)cut,
		    c.diag.text);
		if (!espl__exec_view(c.exec).ended) {
			cr_assert_eq(c.world->ops->begin(c.world, 1, tape.list[cut - 1].now,
					 &c.diag),
			    ESPL_OK);
			cr_assert_eq(pump(&c, NULL, 100000), ESPL_OK, "cut %u: %s", (unsigned)cut,
			    c.diag.text);
		}
		espl__exec_summary(c.exec, &c.summary);
		cr_assert_eq(c.summary.how, ESPL__RUN_DONE);
		cr_assert_eq(c.summary.gpus_busy, 0);
		for (uint64_t i = 0; i < 5; i++)
			cr_assert_float_eq(espl__exec_trial(c.exec, i)->loss,
			    espl__exec_trial(b.exec, i)->loss, 0);
		unmake(&c);
	}
	in_place = "";
	free_tape(&tape);
	unmake(&a);
	unmake(&b);
}

/* ---- GPUs that are set aside -------------------------------------------------------------- */

struct notes {
	struct espl__buf text;
};

static void
take_note(void *ctx, espl_time now, const char *who, espl_subject subject, uint64_t id,
    const char *text)
{
	struct notes *n = ctx;

	(void)now, (void)who;
	espl__print(&n->text, "%u %llu %s\n", (unsigned)subject, (unsigned long long)id, text);
}

static void
take_start(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct notes *n = ctx;

	(void)now, (void)trial, (void)text;
	for (uint32_t i = 0; phase == ESPL__PHASE_STARTING && i < share.gpus; i++)
		espl__print(&n->text, "gang %llu on %llu.%u\n", (unsigned long long)gang,
		    (unsigned long long)slots[i].node, slots[i].gpu);
}

/* Tells of a GPU in a round of its own. */
static void
tell_gpu(struct run *r, struct tape *tape, espl_time now, enum espl__gpu_news what, uint64_t id,
    uint64_t number, const char *text)
{
	struct espl__event event = { .type = ESPL__EV_GPU };
	struct espl__round round = { .now = now, .events = &event, .count = 1 };
	const struct espl__effect *effects;
	uint32_t count;

	event.as.gpu.what = what;
	event.as.gpu.id = id;
	event.as.gpu.number = number;
	event.as.gpu.text = text;
	cr_assert_eq(espl__exec_round(r->exec, now, &event, 1, NULL, 0, &r->diag), ESPL_OK, "%s",
	    r->diag.text);
	keep(tape, &round, espl__exec_decisions(r->exec));
	effects = espl__exec_effects(r->exec, &count);
	cr_assert_eq(r->world->ops->apply(r->world, effects, count, &r->diag), ESPL_OK);
}

/* Nobody is placed on a GPU that was set aside, the search comes to its end without it, and so it
 * is replayed. */
Test(exec, a_gpu_that_is_set_aside_is_done_without, .timeout = 60)
{
	struct run r, again;
	struct tape tape = { 0 };
	struct notes notes = { { 0 } };
	struct espl__observer watch = { .ctx = &notes, .note = take_note, .gang = take_start };
	uint32_t at;
	char *aside;

	watching = &watch;
	make(&r, "gpus_max = 2;", "gpus_max = 1;", unplanned, NULL);
	watching = NULL;
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK);
	cr_assert_eq(pump(&r, &tape, 9), ESPL_OK, "%s", r.diag.text);
	at = tape.count - 1;
	tell_gpu(&r, &tape, tape.list[at].now, ESPL__GPU_SHARED, 0, ESPL__SHARE_TIMESLICE,
	    "because");
	tell_gpu(&r, &tape, tape.list[at].now, ESPL__GPU_MEMORY, 0, 5u << 20, "");
	tell_gpu(&r, &tape, tape.list[at].now, ESPL__GPU_FAULT, 0, 1, "its MPS server has ended");
	tell_gpu(&r, &tape, tape.list[at].now, ESPL__GPU_ASIDE, 0, 1, "7 MiB too many");
	tell_gpu(&r, &tape, tape.list[at].now, ESPL__GPU_ASIDE, 0, 1, "again");
	tell_gpu(&r, &tape, tape.list[at].now, ESPL__GPU_ASIDE, 99, 1, "no such node");
	tell_gpu(&r, &tape, tape.list[at].now, ESPL__GPU_ASIDE, 0, 7, "no such GPU");
	cr_assert_eq(pump(&r, &tape, 1000000), ESPL_OK, "%s", r.diag.text);
	cr_assert_eq(r.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(r.summary.failed, 0);
	(void)espl__buf_text(&notes.text);
	aside = strstr((char *)notes.text.data, "GPU 1 of node 0 is set aside: 7 MiB too many");
	cr_assert_not_null(aside, "%s", (char *)notes.text.data);
	cr_assert_null(strstr((char *)notes.text.data, "again"));
	cr_assert_null(strstr((char *)notes.text.data, "no such"));
	cr_assert_null(strstr(aside, " on 0.1\n"));
	cr_assert_not_null(strstr(aside, " on 0.0\n"), "%s", (char *)notes.text.data);
	cr_assert_not_null(
	    strstr((char *)notes.text.data, "not counted as a failure of any trial"));
	make(&again, "gpus_max = 2;", "gpus_max = 1;", unplanned, NULL);
	cr_assert_eq(replay(&again, &tape, tape.count), ESPL_OK, "%s", again.diag.text);
	unmake(&again);
	unmake(&r);
	free_tape(&tape);
	espl__buf_free(&notes.text);
}

/* ---- nodes that are unreachable ----------------------------------------------------------- */

/* While a node is unreachable its trials run and nothing starts there; what they did counts. */
Test(exec, nothing_starts_on_an_unreachable_node, .timeout = 60)
{
	struct run r, again;
	struct tape tape = { 0 };
	struct notes notes = { { 0 } };
	struct espl__observer watch = { .ctx = &notes, .note = take_note, .gang = take_start };
	char *from, *to;

	watching = &watch;
	make(&r, "", "gpus_max = 1;",
	    "algorithm = { use = \"random\"; trials = 24; iterations_max = 3; };\n"
	    "allocator = { use = \"fair\"; gpus = 4; }; placer = { use = \"colocate\"; };",
	    "faults = ( { kind = \"unreachable\"; node = 0; at = \"30s\"; for = \"30s\"; } );");
	watching = NULL;
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK);
	cr_assert_eq(pump(&r, &tape, 1000000), ESPL_OK, "%s", r.diag.text);
	cr_assert_eq(r.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(r.summary.finished, 24);
	(void)espl__buf_text(&notes.text);
	from = strstr((char *)notes.text.data, "node 0 is unreachable: fault script");
	cr_assert_not_null(from, "%s", (char *)notes.text.data);
	to = strstr(from, "node 0 is reachable again after 30s");
	cr_assert_not_null(to, "%s", from);
	cr_assert(strstr(from, " on 1.") < to, "%s", from);
	cr_assert_not_null(strstr(to, " on 0."), "%s", from);
	cr_assert(strstr(from, " on 0.") > to, "%s", from);
	make(&again, "", "gpus_max = 1;",
	    "algorithm = { use = \"random\"; trials = 24; iterations_max = 3; };\n"
	    "allocator = { use = \"fair\"; gpus = 4; }; placer = { use = \"colocate\"; };",
	    NULL);
	cr_assert_eq(replay(&again, &tape, tape.count), ESPL_OK, "%s", again.diag.text);
	unmake(&again);
	unmake(&r);
	free_tape(&tape);
	espl__buf_free(&notes.text);
}

static void
tell_reach(struct run *r, espl_time now, uint64_t lease, int reachable)
{
	struct espl__event event = { .type = ESPL__EV_REACH };
	const struct espl__effect *effects;
	uint32_t count;

	event.as.reach.lease = lease;
	event.as.reach.reachable = reachable;
	event.as.reach.text = "a test";
	cr_assert_eq(espl__exec_round(r->exec, now, &event, 1, NULL, 0, &r->diag), ESPL_OK, "%s",
	    r->diag.text);
	effects = espl__exec_effects(r->exec, &count);
	cr_assert_eq(r->world->ops->apply(r->world, effects, count, &r->diag), ESPL_OK);
}

/* Nothing runs and nothing can be granted, but that is not for good. */
Test(exec, a_run_whose_only_node_is_unreachable_waits, .timeout = 60)
{
	struct run r;
	struct espl__round round = { 0 };
	const struct espl__effect *effects;
	uint32_t count, n;
	int ready = 0;

	make(&r, "", "gpus_max = 1;",
	    "algorithm = { use = \"random\"; trials = 3; iterations_max = 3; };\n"
	    "allocator = { use = \"fair\"; gpus = 2; }; placer = { use = \"colocate\"; };",
	    NULL);
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK);
	for (n = 0; n < 100 && !ready; n++) {
		struct espl__event list[8];

		cr_assert_eq(r.world->ops->next(r.world, &round, &r.diag), ESPL_OK);
		cr_assert_lt(round.count, 8);
		memcpy(list, round.events, round.count * sizeof *list);
		for (uint32_t i = 0; i < round.count; i++)
			ready |= list[i].type == ESPL__EV_NODE &&
			    list[i].as.node.state == ESPL_NODE_READY;
		if (ready) {
			list[round.count] = (struct espl__event){ .type = ESPL__EV_REACH };
			list[round.count++].as.reach.text = "a test";
		}
		cr_assert_eq(espl__exec_round(r.exec, round.now, list, round.count, NULL, 0,
				 &r.diag),
		    ESPL_OK, "%s", r.diag.text);
		effects = espl__exec_effects(r.exec, &count);
		cr_assert_eq(r.world->ops->apply(r.world, effects, count, &r.diag), ESPL_OK);
	}
	espl__exec_summary(r.exec, &r.summary);
	cr_assert(ready && r.summary.how == 0, "%s", r.summary.text);
	tell_reach(&r, round.now, 0, 1);
	cr_assert_eq(pump(&r, NULL, 100000), ESPL_OK, "%s", r.diag.text);
	cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", r.summary.text);
	cr_assert_eq(r.summary.finished, 3);
	unmake(&r);
}

/* ---- gangs that start --------------------------------------------------------------------- */

struct starts {
	struct run *run;
	uint32_t starting, unlocked, kept;
};

/* Placers must see that a gang is locked as long as its processes start, and no longer. */
static void
see_locks(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct starts *s = ctx;
	const struct espl__items *items = &s->run->exec->items;

	(void)now, (void)trial, (void)share, (void)slots, (void)text;
	for (uint32_t i = 0; i < items->gangs_count; i++) {
		const struct espl__gang *g = espl__item_of_gang(items->gangs_view[i])->trial->gang;
		int locked = (items->gangs_view[i]->flags & ESPL_GANG_LOCKED) != 0;

		if (g == NULL)
			continue;
		if (g->state == ESPL__GANG_STARTING && phase == ESPL__PHASE_STARTING) {
			s->starting++;
			s->unlocked += !locked;
		}
		s->kept +=
		    g->state == ESPL__GANG_RUNNING && g->onto == NULL && g->id != gang && locked;
	}
}

Test(exec, a_gang_is_locked_while_it_starts)
{
	struct run r;
	struct starts starts = { .run = &r };
	struct espl__observer observer = { .ctx = &starts, .gang = see_locks };

	watching = &observer;
	cr_assert_eq(whole(&r, "", "", unplanned, NULL), ESPL_OK, "%s", r.diag.text);
	watching = NULL;
	cr_expect(starts.starting >= 9, "%u", starts.starting);
	cr_expect_eq(starts.unlocked, 0, "%u of %u", starts.unlocked, starts.starting);
	cr_expect_eq(starts.kept, 0, "%u", starts.kept);
	unmake(&r);
}
