/* test_failing.c - searches of which a part of the configurations fails, whenever they are tried:
 * by an error, at their start or later, or because they hang.
 *
 * Every trial that was requested is started; a configuration that has failed twice in the same way
 * is not started again; the search comes to its end. One with which nothing works ends after ten
 * attempts, and says why.
 *
 * Seeds are new on every run and printed; SEED=n repeats one, SEEDS=n says how many; SHOW=1 prints
 * how each ended.
 */
#include <time.h>

#include "base/rng.h"
#include "exec_run.h"
#include "exec/questions.h"

#define TRIALS 30u
#define ROUNDS_MOST 400000u
#define ATTEMPTS 10u /* without a report of any: the script is at fault */

struct watch {
	struct espl__observer observer;
	uint32_t *starts, *failures; /* [trial] */
	uint64_t trials;
	uint32_t starts_cap, failures_cap;
	uint32_t gangs; /* started */
};

static void
see_trial(void *ctx, espl_time now, const struct espl_trial *trial)
{
	struct watch *w = ctx;

	(void)now;
	ESPL__GROW(w->starts, w->starts_cap, trial->id + 1);
	ESPL__GROW(w->failures, w->failures_cap, trial->id + 1);
	for (; w->trials <= trial->id; w->trials++)
		w->starts[w->trials] = w->failures[w->trials] = 0;
}

static void
see_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct watch *w = ctx;

	(void)now, (void)gang, (void)share, (void)slots, (void)text;
	if (phase != ESPL__PHASE_STARTING)
		return;
	cr_assert_lt(trial, w->trials);
	/* a bad configuration always fails in the same way */
	cr_assert_lt(w->failures[trial], 2, "%strial %llu starts after two failures", run_label,
	    (unsigned long long)trial);
	w->starts[trial]++;
	w->gangs++;
}

static void
see_failure(void *ctx, espl_time now, const struct espl_trial *trial)
{
	struct watch *w = ctx;

	(void)now;
	w->failures[trial->id]++;
}

/* ---- a search ----------------------------------------------------------------------------- */

static const char *const head =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = %llu; %s };\n"
    "trial = { trainable = \"hartmann6\"; options = { bias = 2.5; noise = 2.0; }; gpus_max = 1;\n"
    "  retries = %u; report_limit = \"5m\"; grace = \"2s\";\n"
    "  profile = { iteration = { mean = \"4s\"; sd = \"1s\"; }; start = \"2s\"; "
    "checkpoint = \"1s\"; }; };\n"
    "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; };\n"
    "  x1 = { type = \"real\"; low = 0.0; high = 1.0; }; x2 = { type = \"real\"; low = 0.0; high "
    "= 1.0; };\n"
    "  x3 = { type = \"real\"; low = 0.0; high = 1.0; }; x4 = { type = \"real\"; low = 0.0; high "
    "= 1.0; };\n"
    "  x5 = { type = \"real\"; low = 0.0; high = 1.0; }; };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = %u; price = 3.6; market = "
    "\"on-demand\"; provision = \"15s\"; } ); nodes_max = %u; };\n"
    "algorithm = { use = \"%s\"; trials = %u; iterations_max = 9; };\n"
    "allocator = { use = \"fair\"; }; placer = { use = \"colocate\"; };\n";

struct shape {
	uint32_t gpus, nodes, retries;
	const char *experiment, *algorithm, *faults;
};

static struct watch *
run_whole(struct run *r, const struct shape *s, uint64_t seed)
{
	struct watch *w = espl__alloc(sizeof *w);
	char *text =
	    espl__format(head, (unsigned long long)seed, s->experiment, (unsigned)s->retries,
		(unsigned)s->gpus, (unsigned)s->nodes, s->algorithm, (unsigned)TRIALS);

	w->observer = (struct espl__observer){ .ctx = w,
		.trial = see_trial,
		.gang = see_gang,
		.failure = see_failure };
	make_run(r, text, s->faults, &w->observer);
	cr_assert_eq(r->world->ops->begin(r->world, 0, 0, &r->diag), ESPL_OK, "%s%s", run_label,
	    r->diag.text);
	cr_assert_eq(pump(r, NULL, ROUNDS_MOST), ESPL_OK, "%s%s", run_label, r->diag.text);
	cr_assert(espl__exec_view(r->exec).ended, "%sdoes not end", run_label);
	if (getenv("SHOW") != NULL)
		fprintf(stderr, "%s%s ends %d with %llu trials, %llu failed, %u starts: %s\n",
		    run_label, s->algorithm, (int)r->summary.how,
		    (unsigned long long)r->summary.trials, (unsigned long long)r->summary.failed,
		    (unsigned)w->gangs, r->summary.text);
	free(text);
	return w;
}

static void
end_whole(struct run *r, struct watch *w)
{
	unmake(r);
	free(w->starts);
	free(w->failures);
	free(w);
}

/* ---- a part fails ------------------------------------------------------------------------- */

/* Of half of the configurations the first ten, one after the other, fail once in a thousand times:
 * then the script counts as broken. */
static int
is_bad_luck(const struct run *r, const struct watch *w)
{
	uint32_t failed = 0;

	for (uint64_t i = 0; i < w->trials; i++) {
		if (w->starts[i] > 0 && w->failures[i] == 0)
			return 0;
		failed += w->failures[i] > 0;
	}
	return r->summary.how == ESPL__RUN_FAILED && failed >= ATTEMPTS &&
	    strstr(r->summary.text, "no trial has reported the metric") != NULL;
}

/* 1: it came to its end. */
static int
check_part(const char *algorithm, const char *share, uint64_t seed)
{
	static const char *const how[] = { "", "iteration = 1;", "iteration = 3;", "silent = true;",
		"iteration = 2; silent = true;" };
	struct espl__rng rng;
	struct shape s = { .algorithm = algorithm, .experiment = "" };
	struct watch *w;
	struct run r;
	char faults[200];
	int lucky;

	espl__rng_seed(&rng, seed, "failing");
	s.gpus = 1 + (uint32_t)(espl__rng_next(&rng) % 4);
	s.nodes = 1 + (uint32_t)(espl__rng_next(&rng) % 3);
	s.retries = 1 + (uint32_t)(espl__rng_next(&rng) % 5);
	(void)snprintf(faults, sizeof faults,
	    "faults = ( { kind = \"bad-configuration\"; share = %s; %s } );", share,
	    how[espl__rng_next(&rng) % 5]);
	s.faults = faults;
	(void)snprintf(run_label, sizeof run_label, "SEED=%llu %s: ", (unsigned long long)seed,
	    algorithm);
	w = run_whole(&r, &s, seed);
	lucky = !is_bad_luck(&r, w);
	if (lucky) {
		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
		cr_assert_eq(r.summary.finished + r.summary.failed, r.summary.trials, "%s",
		    run_label);
		cr_assert_eq(r.summary.trials, TRIALS, "%s%llu trials", run_label,
		    (unsigned long long)r.summary.trials);
		for (uint64_t i = 0; i < w->trials; i++)
			cr_assert_gt(w->starts[i], 0, "%strial %llu is not started", run_label,
			    (unsigned long long)i);
	}
	end_whole(&r, w);
	return lucky;
}

static void
check_share(const char *share)
{
	static const char *const algorithms[] = { "random", "tpe", "bohb", "asha", "sha",
		"hyperband", "median", "sobol" };
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	uint64_t from =
	    one != NULL ? strtoull(one, NULL, 10) : (uint64_t)time(NULL) % 1000000 * 1000000;
	uint64_t count = many != NULL ? strtoull(many, NULL, 10)
	    : one != NULL             ? 1
				      : 8,
		 all, done = 0;

	fprintf(stderr, "# %llu seeds from %llu on\n", (unsigned long long)count,
	    (unsigned long long)from);
	for (uint64_t seed = from; seed < from + count; seed++)
		for (uint32_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
			done += (uint64_t)check_part(algorithms[i], share, seed);
	all = count * sizeof algorithms / sizeof algorithms[0];
	cr_assert_geq(done + 2 + all / 50, all, "%llu of %llu searches came to their end",
	    (unsigned long long)done, (unsigned long long)all);
}

Test(failing, a_quarter_of_the_configurations, .timeout = 3600)
{
	check_share("0.25");
}

Test(failing, half_of_the_configurations, .timeout = 3600)
{
	check_share("0.5");
}

/* ---- nothing works ------------------------------------------------------------------------ */

Test(failing, a_script_that_never_works_ends_after_ten_attempts, .timeout = 60)
{
	static const char *const algorithms[] = { "random", "tpe", "bohb", "asha", "sha",
		"hyperband", "median" };
	static const char *const how[] = {
		"faults = ( { kind = \"bad-configuration\"; share = 1.0; } );",
		"faults = ( { kind = \"bad-configuration\"; share = 1.0; silent = true; } );"
	};

	for (uint32_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
		for (uint32_t k = 0; k < 2; k++) {
			struct shape s = { 1, 1, 3, "", algorithms[i], how[k] };
			struct watch *w;
			struct run r;

			(void)snprintf(run_label, sizeof run_label, "%s, %u: ", algorithms[i],
			    (unsigned)k);
			w = run_whole(&r, &s, 7);
			cr_assert_eq(r.summary.how, ESPL__RUN_FAILED, "%s", run_label);
			cr_assert_not_null(strstr(r.summary.text, "10 attempts failed"), "%s%s",
			    run_label, r.summary.text);
			cr_assert_leq(w->gangs, ATTEMPTS, "%s%u starts", run_label,
			    (unsigned)w->gangs);
			end_whole(&r, w);
		}
}

/* ---- one that takes its machine down with it ---------------------------------------------- */

struct ends {
	struct espl__observer observer;
	char why[400]; /* of the trial that failed */
};

static void
note_trial(void *ctx, espl_time now, const char *who, espl_subject about, uint64_t id,
    const char *text)
{
	struct ends *e = ctx;

	(void)now, (void)who;
	if (about == ESPL_ABOUT_TRIAL && id == 3 && strstr(text, "in a row") != NULL)
		(void)snprintf(e->why, sizeof e->why, "%s", text);
}

static void
check_killers(const char *algorithm, const char *allocator, uint32_t gpus, uint32_t killers)
{
	static const char *const text =
	    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 3; };\n"
	    "trial = { trainable = \"branin\"; gpus_max = 1; profile = { iteration = \"4s\"; "
	    "start = \"2s\"; checkpoint = \"1s\"; }; };\n"
	    "space = { x1 = { type = \"real\"; low = -5.0; high = 10.0; };\n"
	    "  x2 = { type = \"real\"; low = 0.0; high = 15.0; }; };\n"
	    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = %u; price = 3.6; "
	    "provision = \"15s\"; } ); nodes_max = 2; };\n"
	    "algorithm = { use = \"%s\"; trials = 40; iterations_max = 9; };\n"
	    "allocator = { %s };\n";
	static const char *const kind = "{ kind = \"kills-node\"; iteration = 1; times = 0; says "
					"= \"its container was ended: OOMKilled\"; trial = ";
	struct ends ends = { .observer = { .ctx = &ends, .note = note_trial } };
	char *config = espl__format(text, (unsigned)gpus, algorithm, allocator);
	char *faults = killers == 1
	    ? espl__format("faults = ( %s 3; } );", kind)
	    : espl__format("faults = ( %s 3; }, %s 6; }, %s 30; } );", kind, kind, kind);
	struct run r;

	(void)snprintf(run_label, sizeof run_label, "%.8s, %.18s, %u, %u: ", algorithm,
	    allocator + 5, (unsigned)gpus, (unsigned)killers);
	make_run(&r, config, faults, &ends.observer);
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK, "%s", run_label);
	cr_assert_eq(pump(&r, NULL, ROUNDS_MOST), ESPL_OK, "%s%s", run_label, r.diag.text);
	cr_expect_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
	cr_expect_eq(r.summary.failed, killers, "%s%llu failed", run_label,
	    (unsigned long long)r.summary.failed);
	cr_expect_eq(r.summary.finished, 40 - killers, "%s%llu finished", run_label,
	    (unsigned long long)r.summary.finished);
	cr_expect_not_null(strstr(ends.why, "OOMKilled"), "%s'%s'", run_label, ends.why);
	unmake(&r);
	free(config);
	free(faults);
}

Test(failing, a_trial_that_takes_its_machine_down_fails_alone_and_says_why, .timeout = 60)
{
	static const char *const allocators[] = { "use = \"static\"; gpus = 4;", "use = \"fair\";",
		"use = \"fifo\";", "use = \"fluid\";", "use = \"milp\";", "use = \"greedy\";",
		"use = \"elastic-greedy\";", "use = \"static\";" };
	static const char *const algorithms[] = { "random", "sha", "asha", "hyperband", "bohb" };

	for (uint32_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++)
		for (uint32_t k = 0; k < sizeof algorithms / sizeof algorithms[0]; k++)
			for (uint32_t killers = 1; killers <= 3; killers += 2) {
				check_killers(algorithms[k], allocators[i], 2, killers);
				check_killers(algorithms[k], allocators[i], 8, killers);
			}
}

/* ---- a machine on which trials fail late ---------------------------------------------------- */

/* One of two machines has a defect that shows only after some iterations, so that each trial that
 * begins there reports, and its slots are always the first to be free. */
static void
check_sick_machine(const char *algorithm, const char *allocator, uint32_t iteration)
{
	static const char *const text =
	    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 3; };\n"
	    "trial = { trainable = \"branin\"; gpus_max = 1; retries = 2; profile = { iteration = "
	    "\"4s\"; start = \"2s\"; checkpoint = \"1s\"; }; };\n"
	    "space = { x1 = { type = \"real\"; low = -5.0; high = 10.0; };\n"
	    "  x2 = { type = \"real\"; low = 0.0; high = 15.0; }; };\n"
	    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = 2; price = 3.6; "
	    "provision = \"15s\"; machines = 2; } ); nodes_max = 2; };\n"
	    "algorithm = { use = \"%s\"; trials = 40; iterations_max = 9; };\n"
	    "allocator = { %s };\n";
	char *config = espl__format(text, algorithm, allocator);
	char *faults =
	    espl__format("faults = ( { kind = \"trial-fails\"; machine = \"n-on-demand-0\"; "
			 "iteration = %u; times = 0; } );",
		(unsigned)iteration);
	struct run r;

	(void)snprintf(run_label, sizeof run_label, "%.8s, %.18s, %u: ", algorithm, allocator + 5,
	    (unsigned)iteration);
	make_run(&r, config, faults, NULL);
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK, "%s", run_label);
	cr_assert_eq(pump(&r, NULL, ROUNDS_MOST), ESPL_OK, "%s%s", run_label, r.diag.text);
	cr_expect_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
	/* at the end the other machine may be gone */
	cr_expect_leq(r.summary.failed, 3, "%s%llu of %llu failed", run_label,
	    (unsigned long long)r.summary.failed, (unsigned long long)r.summary.trials);
	cr_expect_leq(r.summary.failed_attempts, 30, "%s%llu attempts failed", run_label,
	    (unsigned long long)r.summary.failed_attempts);
	unmake(&r);
	free(config);
	free(faults);
}

Test(failing, a_machine_on_which_trials_fail_late_is_found, .timeout = 60)
{
	static const char *const allocators[] = { "use = \"static\"; gpus = 4;", "use = \"fair\";",
		"use = \"fifo\";", "use = \"fluid\";", "use = \"milp\";", "use = \"greedy\";" };
	static const char *const algorithms[] = { "random", "sha", "asha", "hyperband", "bohb" };

	for (uint32_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++)
		for (uint32_t k = 0; k < sizeof algorithms / sizeof algorithms[0]; k++)
			for (uint32_t iteration = 1; iteration <= 5; iteration++)
				check_sick_machine(algorithms[k], allocators[i], iteration);
}

/* ---- experiment.failures_max -------------------------------------------------------------- */

static void
check_limit(const char *experiment, const char *says, uint64_t failed, uint64_t ended_least)
{
	struct shape s = { 1, 1, 3, experiment, "random",
		"faults = ( { kind = \"bad-configuration\"; share = 0.5; } );" };
	struct watch *w;
	struct run r;

	(void)snprintf(run_label, sizeof run_label, "%s: ", experiment);
	w = run_whole(&r, &s, 3);
	cr_assert_eq(r.summary.how, says != NULL ? ESPL__RUN_FAILED : ESPL__RUN_DONE, "%s%s",
	    run_label, r.summary.text);
	if (says != NULL)
		cr_assert_not_null(strstr(r.summary.text, says), "%s%s", run_label, r.summary.text);
	if (failed > 0)
		cr_assert_eq(r.summary.failed, failed, "%s%llu failed", run_label,
		    (unsigned long long)r.summary.failed);
	cr_assert_geq(r.summary.failed + r.summary.finished, ended_least, "%s", run_label);
	end_whole(&r, w);
}

Test(failing, failures_max_is_a_number_or_a_share, .timeout = 60)
{
	check_limit("failures_max = 4;", "5 trials failed, and experiment.failures_max is 4", 5, 5);
	check_limit("failures_max = \"20%\";", "and experiment.failures_max is 20%", 0, 10);
	check_limit("failures_max = 0.2;", "and experiment.failures_max is 20%", 0, 10);
	check_limit("failures_max = \"90%\";", NULL, 0, TRIALS);
	check_limit("failures_max = 30;", NULL, 0, TRIALS);
	check_limit("", NULL, 0, TRIALS);
}
