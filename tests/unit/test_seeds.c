/* test_seeds.c - experiment.seeds: each configuration is trained several times, and what counts is
 * the mean, with every algorithm, with trials that fail, and after any cut.
 *
 * The means are computed here from what an observer sees of single trials.
 */
#include "exec_run.h"
#include "base/rng.h"
#include "exec/questions.h"
#include "model/trials.h"

#define TRIALS_MOST 400u
#define ITERATIONS_MOST 40u

struct seen {
	struct espl__observer observer;
	uint32_t seeds;
	double loss[TRIALS_MOST][ITERATIONS_MOST]; /* [trial][iteration] */
	uint8_t reported[TRIALS_MOST][ITERATIONS_MOST];
	const double *values[TRIALS_MOST];
	char state[TRIALS_MOST][16];
	uint64_t trials;
	struct {
		uint64_t iteration;
		double loss;
		uint32_t counted;
	} configs[TRIALS_MOST];
	uint32_t means, not_numbers, partial;
	int checks; /* what is reported of a configuration */
};

static void
see_trial(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct seen *w = ctx;

	(void)now;
	cr_assert_lt(t->id, TRIALS_MOST);
	w->trials = t->id >= w->trials ? t->id + 1 : w->trials;
	w->values[t->id] = t->values;
	(void)snprintf(w->state[t->id], sizeof w->state[0], "%s",
	    espl__exec_trial_info(w->observer.exec, t->id).word);
}

static void
see_report(void *ctx, espl_time now, const struct espl_trial *t, uint64_t iteration, double loss,
    const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct seen *w = ctx;

	(void)now, (void)metrics, (void)count, (void)share;
	cr_assert_lt(iteration, ITERATIONS_MOST);
	w->loss[t->id][iteration] = loss;
	w->reported[t->id][iteration] = 1;
}

static void
see_config(void *ctx, espl_time now, const struct espl__config_report *c)
{
	struct seen *w = ctx;
	double sum = 0, squares = 0;
	uint32_t counted = 0;

	(void)now;
	cr_assert_eq(c->seeds, w->seeds);
	cr_assert_eq(c->first, c->number * w->seeds);
	cr_assert_gt(c->iteration, w->configs[c->number].iteration, "%sit rises", run_label);
	w->configs[c->number].iteration = c->iteration;
	w->configs[c->number].loss = c->loss;
	w->configs[c->number].counted = c->counted;
	w->means++;
	w->not_numbers += isnan(c->loss) != 0;
	w->partial += c->counted < c->seeds;
	if (!w->checks)
		return;
	for (uint64_t t = c->first; t < c->first + c->seeds; t++) {
		if (strcmp(w->state[t], "failed") == 0)
			continue;
		cr_assert(w->reported[t][c->iteration],
		    "%strial %llu has not come to iteration %llu", run_label, (unsigned long long)t,
		    (unsigned long long)c->iteration);
		sum += w->loss[t][c->iteration];
		counted++;
	}
	cr_assert_eq(c->counted, counted, "%sof %u, not of %u", run_label, c->counted, counted);
	for (uint64_t t = c->first; t < c->first + c->seeds; t++)
		if (strcmp(w->state[t], "failed") != 0)
			squares += pow(w->loss[t][c->iteration] - sum / counted, 2);
	if (isnan(sum)) {
		cr_assert(isnan(c->loss), "%sone is not a number", run_label);
		return;
	}
	cr_assert_float_eq(c->loss, sum / counted, 1e-12, "%smean", run_label);
	if (counted > 1)
		cr_assert_float_eq(c->spread, sqrt(squares / (counted - 1)), 1e-9, "%sspread",
		    run_label);
	else
		cr_assert(isnan(c->spread));
}

/* ---- runs --------------------------------------------------------------------------------- */

static const char *const head =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 5; seeds = %u; %s "
    "};\n"
    "trial = { trainable = \"hartmann6\"; options = { bias = 2.5; noise = 2.0; }; gpus_max = 1;\n"
    "  retries = %u; checkpoint_every = \"6s\";\n"
    "  profile = { iteration = { mean = \"4s\"; sd = \"1s\"; }; start = \"2s\"; checkpoint = "
    "\"1s\"; }; };\n"
    "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; }; x1 = { type = \"real\"; low = "
    "0.0; high = 1.0; };\n"
    "  x2 = { type = \"real\"; low = 0.0; high = 1.0; }; x3 = { type = \"choice\"; values = [ 0.1, "
    "0.9 ]; };\n"
    "  x4 = { type = \"real\"; low = 0.0; high = 1.0; }; x5 = 0.5; };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = %u; price = 3.6; market = "
    "\"on-demand\"; provision = \"15s\"; } ); nodes_max = 1; };\n"
    "algorithm = { %s }; allocator = { use = \"%s\"; }; placer = { use = \"colocate\"; };\n";

static const char *const algorithms[] = {
	"use = \"random\"; trials = 9; iterations_max = 5;",
	"use = \"grid\"; points = 2; iterations_max = 3;",
	"use = \"stages\"; stages = ( (6, 2), (3, 4), (1, 8) );",
	"use = \"sha\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"hyperband\"; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"asha\"; trials = 12; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"asha\"; trials = 12; iterations_min = 1; iterations_max = 9; eta = 3; mode = "
	"\"stopping\";",
	"use = \"hypersched\"; trials = 12; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"median\"; trials = 12; iterations_max = 6;",
	"use = \"bohb\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"tpe\"; trials = 12; iterations_max = 3;",
	"use = \"spottune\"; trials = 9; iterations_max = 6;",
};
#define ALGORITHMS (sizeof algorithms / sizeof algorithms[0])

struct shape {
	const char *algorithm, *experiment, *faults, *allocator;
	uint32_t seeds, gpus, retries;
};

static struct seen *
make_seeds(struct run *r, const struct shape *s)
{
	struct seen *w = espl__alloc(sizeof *w);
	char *text = espl__format(head, s->seeds,
	    s->experiment != NULL                            ? s->experiment
		: strstr(s->algorithm, "hypersched") != NULL ? "deadline = \"1h\";"
							     : "",
	    s->retries, s->gpus, s->algorithm, s->allocator != NULL ? s->allocator : "fair");

	(void)snprintf(run_label, sizeof run_label,
	    "%.20s, %u seeds, %u GPUs: ", s->algorithm + strlen("use = "), s->seeds, s->gpus);
	w->seeds = s->seeds;
	w->checks = 1;
	w->observer = (struct espl__observer){ .ctx = w,
		.report = see_report,
		.trial = see_trial,
		.config = see_config };
	make_run(r, text, s->faults, &w->observer);
	w->observer.exec = r->exec;
	free(text);
	return w;
}

static struct seen *
run_seeds(struct run *r, const struct shape *s, struct tape *tape)
{
	struct seen *w = make_seeds(r, s);

	cr_assert_eq(r->world->ops->begin(r->world, 0, 0, &r->diag), ESPL_OK, "%s", r->diag.text);
	cr_assert_eq(pump(r, tape, 100000), ESPL_OK, "%s: %s", s->algorithm, r->diag.text);
	cr_assert(espl__exec_view(r->exec).ended, "%s", s->algorithm);
	return w;
}

static int
has_ended(const struct seen *w, uint64_t trial, const char *state)
{
	return strcmp(w->state[trial], state) == 0 || strcmp(w->state[trial], "failed") == 0 ||
	    /* when the others were stopped it had trained to its end */
	    (strcmp(state, "stopped early") == 0 && strcmp(w->state[trial], "completed") == 0);
}

/* The trials of a configuration have the same values, and came to the same end, if not failed. */
static void
check_trials(const struct run *r, const struct seen *w)
{
	uint32_t params = espl__space_count(r->inputs.space);

	cr_assert_eq(w->trials % w->seeds, 0, "%s%llu trials", run_label,
	    (unsigned long long)w->trials);
	for (uint64_t first = 0; first < w->trials; first += w->seeds) {
		const char *state = "completed";

		for (uint64_t t = first; t < first + w->seeds; t++) {
			cr_assert_arr_eq(w->values[t], w->values[first], params * sizeof(double));
			if (strcmp(w->state[t], "stopped early") == 0)
				state = "stopped early";
		}
		for (uint64_t t = first; t < first + w->seeds; t++)
			cr_assert(has_ended(w, t, state), "%strial %llu %s, others %s", run_label,
			    (unsigned long long)t, w->state[t], state);
	}
}

/* The best mean at the largest iteration that any configuration reached. */
static void
check_best(const struct run *r, const struct seen *w)
{
	uint64_t best = 0;

	for (uint64_t c = 1; c * w->seeds < w->trials; c++)
		if (w->configs[c].iteration > w->configs[best].iteration ||
		    (w->configs[c].iteration == w->configs[best].iteration &&
			w->configs[c].loss < w->configs[best].loss))
			best = c;
	cr_assert_eq(r->summary.best / w->seeds, best, "%sbest of %llu", run_label,
	    (unsigned long long)best);
	cr_assert_eq(r->summary.best_first, best * w->seeds);
	cr_assert_eq(r->summary.seeds, w->seeds);
	cr_assert_float_eq(r->summary.best_loss, w->configs[best].loss, 0);
	cr_assert_eq(r->summary.best_counted, w->configs[best].counted);
}

static uint32_t
count_state(const struct seen *w, const char *state)
{
	uint32_t count = 0;

	for (uint64_t t = 0; t < w->trials; t++)
		count += strcmp(w->state[t], state) == 0;
	return count;
}

/* ---- tests -------------------------------------------------------------------------------- */

Test(seeds, every_algorithm_is_told_the_mean_of_a_configuration, .timeout = 120)
{
	static const uint32_t gpus[] = { 1, 4, 8 };

	for (uint32_t k = 0; k < 3 * 2 * ALGORITHMS; k++) {
		struct shape s = { .algorithm = algorithms[k % ALGORITHMS],
			.gpus = gpus[k / ALGORITHMS % 3],
			.seeds = k / ALGORITHMS < 3 ? 3 : 2 };
		struct run r;
		struct seen *w = run_seeds(&r, &s, NULL);

		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
		cr_assert_eq(r.summary.trials, w->trials);
		cr_assert_eq(r.summary.finished, w->trials, "%s", run_label);
		cr_assert_gt(w->means, w->trials / w->seeds);
		check_trials(&r, w);
		check_best(&r, w);
		unmake(&r);
		free(w);
	}
}

Test(seeds, the_trials_of_a_configuration_have_different_results)
{
	struct shape s = { .algorithm = algorithms[0], .gpus = 2, .seeds = 3 };
	struct run r;
	struct seen *w = run_seeds(&r, &s, NULL);

	cr_assert_eq(w->trials, 27);
	for (uint64_t t = 0; t < w->trials; t++)
		for (uint64_t k = t / 3 * 3; k < t; k++)
			cr_assert(w->loss[t][2] < w->loss[k][2] || w->loss[t][2] > w->loss[k][2]);
	unmake(&r);
	free(w);
}

/* Synchronous: the order of events is of no account. */
Test(seeds, the_same_means_on_any_number_of_gpus)
{
	struct shape s = { .algorithm = algorithms[3], .gpus = 1, .seeds = 3 };
	struct run a, b;
	struct seen *v = run_seeds(&a, &s, NULL), *w;

	cr_assert_eq(v->trials, 27);
	for (s.gpus = 2; s.gpus <= 8; s.gpus += 3) {
		w = run_seeds(&b, &s, NULL);
		cr_assert_eq(w->trials, v->trials);
		for (uint64_t c = 0; c < 9; c++) {
			cr_assert_eq(w->configs[c].iteration, v->configs[c].iteration);
			cr_assert_float_eq(w->configs[c].loss, v->configs[c].loss, 0);
		}
		cr_assert_eq(b.summary.best, a.summary.best);
		unmake(&b);
		free(w);
	}
	unmake(&a);
	free(v);
}

/* What an allocator plans for is the trials. */
Test(seeds, a_plan_counts_trials)
{
	struct shape s = { .algorithm = algorithms[3],
		.experiment = "deadline = \"1h\";",
		.allocator = "elastic-greedy",
		.gpus = 4,
		.seeds = 3 };
	struct run r;
	struct seen *w = run_seeds(&r, &s, NULL);

	cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", r.summary.text);
	cr_assert_eq(r.summary.finished, 27);
	check_trials(&r, w);
	check_best(&r, w);
	unmake(&r);
	free(w);
}

Test(seeds, one_that_fails_for_good_counts_no_more)
{
	for (uint32_t iteration = 1; iteration <= 5; iteration++)
		for (uint32_t gpus = 1; gpus <= 4; gpus += 3) {
			char *faults =
			    espl__format("faults = ( { kind = \"trial-fails\"; trial = 4; "
					 "iteration = %u; times = 9; } );",
				iteration);
			struct shape s = { .algorithm = algorithms[0],
				.faults = faults,
				.gpus = gpus,
				.seeds = 3 };
			struct run r;
			struct seen *w = run_seeds(&r, &s, NULL);

			cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", r.summary.text);
			cr_assert_eq(r.summary.failed, 1);
			cr_assert_eq(r.summary.finished, 26);
			cr_assert_eq(w->configs[1].iteration, 5);
			cr_assert_eq(w->configs[1].counted, 2);
			check_trials(&r, w);
			check_best(&r, w);
			unmake(&r);
			free(w);
			free(faults);
		}
}

/* Two of three: no result comes of the third, which is stopped. */
Test(seeds, a_configuration_most_of_whose_trials_failed_has_failed)
{
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		struct shape s = { .algorithm = algorithms[i],
			.faults =
			    "faults = ( { kind = \"trial-fails\"; trial = 3; iteration = 2; "
			    "times = 9; }, { kind = \"trial-fails\"; trial = 5; iteration = 1; "
			    "times = 9; } );",
			.gpus = 4,
			.seeds = 3 };
		struct run r;
		struct seen *w = run_seeds(&r, &s, NULL);

		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
		if (strcmp(w->state[3], "failed") == 0)
			cr_assert_eq(count_state(w, "failed"), 2, "%s", run_label);
		cr_assert(strcmp(w->state[5], "failed") == 0);
		cr_assert_neq(r.summary.best / 3, 1, "%s", run_label);
		unmake(&r);
		free(w);
	}
}

Test(seeds, the_search_ends_if_every_configuration_failed)
{
	struct shape s = { .algorithm = algorithms[0],
		.faults = "faults = ( { kind = \"crash-rate\"; probability = 1.0; } );",
		.gpus = 4,
		.seeds = 3 };
	struct run r;
	struct seen *w = run_seeds(&r, &s, NULL);

	cr_assert_eq(r.summary.how, ESPL__RUN_FAILED);
	cr_assert_eq(r.summary.best, ESPL_NONE);
	unmake(&r);
	free(w);
}

Test(seeds, the_mean_with_one_that_is_not_a_number_is_not_a_number)
{
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		struct shape s = { .algorithm = algorithms[i],
			.faults = "faults = ( { kind = \"nan\"; trial = 4; iteration = 1; } );",
			.gpus = 3,
			.seeds = 3 };
		struct run r;
		struct seen *w = run_seeds(&r, &s, NULL);

		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
		cr_assert_gt(w->not_numbers, 0, "%s", run_label);
		cr_assert_neq(r.summary.best / 3, 1, "%s", run_label);
		check_trials(&r, w);
		unmake(&r);
		free(w);
	}
}

/* 3 GPUs: many trials are interrupted and restart from their checkpoints. */
Test(seeds, interrupted_trials_and_retries_change_no_mean)
{
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		struct shape s = { .algorithm = algorithms[i],
			.faults =
			    "faults = ( { kind = \"crash-rate\"; probability = 0.1; }, { kind = "
			    "\"slow\"; factor = 2.0; from = \"9s\"; to = \"60s\"; } );",
			.gpus = 3,
			.retries = 50,
			.seeds = 2 };
		struct run r;
		struct seen *w = run_seeds(&r, &s, NULL);

		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
		cr_assert_gt(r.summary.failed_attempts, 0);
		check_trials(&r, w);
		check_best(&r, w);
		unmake(&r);
		free(w);
	}
}

Test(seeds, the_target_is_for_the_mean)
{
	struct shape s = { .algorithm = algorithms[0], .gpus = 4, .seeds = 3 };
	struct run r;
	struct seen *w = run_seeds(&r, &s, NULL);
	double single = INFINITY, mean = INFINITY;
	char text[60];

	for (uint64_t t = 0; t < w->trials; t++)
		for (uint32_t i = 1; i < 5; i++)
			single = fmin(single, w->loss[t][i]);
	for (uint64_t c = 0; c < 9; c++)
		mean = fmin(mean, w->configs[c].loss);
	unmake(&r);
	free(w);
	cr_assert_lt(single, mean + 10);
	(void)snprintf(text, sizeof text, "target = %.17e;", mean);
	s.experiment = text;
	w = run_seeds(&r, &s, NULL);
	cr_assert_eq(r.summary.found, 1);
	cr_assert(strstr(r.summary.text, "was reached by trials ") != NULL, "%s", r.summary.text);
	cr_assert_float_eq(r.summary.best_loss, mean, 0);
	unmake(&r);
	free(w);
}

/* One trial at a time: so many configurations, not trials, without a better mean. */
Test(seeds, patience_counts_configurations)
{
	struct shape s = { .algorithm = algorithms[0],
		.experiment = "patience = 2;",
		.gpus = 1,
		.seeds = 3 };
	struct run r;
	struct seen *w = run_seeds(&r, &s, NULL);

	cr_assert_eq(r.summary.found, 1, "%s", r.summary.text);
	cr_assert_eq(r.summary.finished, (r.summary.best / 3 + 1 + 2) * 3);
	unmake(&r);
	free(w);
}

/* One GPU, so that what is trained again changes no order; any cut, in the middle of the trials of
 * a configuration, too. */
Test(seeds, a_run_cut_after_any_round_comes_to_the_same_end, .timeout = 240)
{
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		struct shape s = { .algorithm = algorithms[i], .gpus = 1, .seeds = 2 };
		struct tape tape = { 0 };
		struct run a, b;
		struct seen *w, *v;

		if (strstr(s.algorithm, "hypersched") != NULL)
			continue; /* what it decides depends on the time left */
		w = run_seeds(&a, &s, &tape);
		for (uint32_t cut = 1; cut < tape.count; cut += i % 3 + 1) {
			v = make_seeds(&b, &s);
			cr_assert_eq(replay(&b, &tape, cut), ESPL_OK, "%scut %u: %s", run_label,
			    cut, b.diag.text);
			cr_assert_eq(b.world->ops->begin(b.world, 1, tape.list[cut - 1].now,
					 &b.diag),
			    ESPL_OK);
			cr_assert_eq(pump(&b, NULL, 100000), ESPL_OK, "%scut %u: %s", run_label,
			    cut, b.diag.text);
			cr_assert_eq(b.summary.how, ESPL__RUN_DONE, "%scut %u: %s", run_label, cut,
			    b.summary.text);
			cr_assert_eq(b.summary.trials, a.summary.trials, "%scut %u", run_label,
			    cut);
			cr_assert_eq(b.summary.best, a.summary.best, "%scut %u", run_label, cut);
			cr_assert_float_eq(b.summary.best_loss, a.summary.best_loss, 0);
			check_trials(&b, v);
			check_best(&b, v);
			unmake(&b);
			free(v);
		}
		unmake(&a);
		free_tape(&tape);
		free(w);
	}
}

/* ---- the user ----------------------------------------------------------------------------- */

static uint32_t
pick(struct espl__rng *rng, uint32_t below)
{
	return (uint32_t)(espl__rng_next(rng) % below);
}

/* Pumps, with what the user wants among the events: up to five times more configurations, and
 * trials that are stopped. */
static void
pump_user(struct run *r, struct espl__rng *rng, int stops, struct tape *tape, uint64_t *wanted)
{
	for (uint32_t n = 0; n < 100000 && !espl__exec_view(r->exec).ended; n++) {
		struct espl__round round;
		struct espl__event events[64];
		const struct espl__effect *effects;
		uint32_t count;

		cr_assert_eq(r->world->ops->next(r->world, &round, &r->diag), ESPL_OK);
		cr_assert_lt(round.count, 63);
		memcpy(events, round.events, round.count * sizeof *events);
		if (pick(rng, 30) == 0 && *wanted < 5 && espl__exec_extends(r->exec, 0) == NULL) {
			memset(&events[round.count], 0, sizeof *events);
			events[round.count].type = ESPL__EV_EXTEND;
			events[round.count++].as.extend.trials = 1;
			++*wanted;
		} else if (stops && pick(rng, 15) == 0) {
			memset(&events[round.count], 0, sizeof *events);
			events[round.count].type = ESPL__EV_CANCEL;
			events[round.count].as.cancel.number = 0;
			events[round.count++].as.cancel.trial = pick(rng, 27);
		}
		round.events = events;
		cr_assert_eq(espl__exec_round(r->exec, round.now, round.events, round.count, NULL,
				 0, &r->diag),
		    ESPL_OK, "%s%s", run_label, r->diag.text);
		keep(tape, &round, espl__exec_decisions(r->exec));
		effects = espl__exec_effects(r->exec, &count);
		cr_assert_eq(r->world->ops->apply(r->world, effects, count, &r->diag), ESPL_OK);
	}
	espl__exec_summary(r->exec, &r->summary);
}

Test(seeds, a_search_can_be_extended_and_its_trials_stopped, .timeout = 120)
{
	for (uint32_t k = 0; k < 60; k++) {
		struct shape s = { .algorithm = algorithms[k % 2 == 0 ? 0
					   : k % 4 == 1               ? 5
								      : 6],
			.faults = k % 5 == 4 ? "faults = ( { kind = \"crash-rate\"; probability = "
					       "0.05; } );"
					     : NULL,
			.gpus = 1 + k % 5,
			.retries = 1,
			.seeds = 3 };
		struct run r, again;
		struct seen *w = make_seeds(&r, &s), *v;
		struct tape tape = { 0 };
		struct espl__rng rng;
		uint64_t wanted = 0;

		w->checks = k % 3 != 0;
		espl__rng_seed(&rng, k, "user");
		cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK);
		pump_user(&r, &rng, k % 3 == 0, &tape, &wanted);
		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
		cr_assert_eq(w->trials, 3 * ((k % 2 == 0 ? 9 : 12) + wanted), "%s%u: %u + %u",
		    run_label, k, (unsigned)w->trials, (unsigned)wanted);
		cr_assert_eq(r.summary.running + r.summary.waiting, 0);
		v = make_seeds(&again, &s);
		v->checks = 0;
		cr_assert_eq(replay(&again, &tape, tape.count), ESPL_OK, "%s%s", run_label,
		    again.diag.text);
		espl__exec_summary(again.exec, &again.summary);
		cr_assert_eq(again.summary.best, r.summary.best);
		unmake(&r);
		unmake(&again);
		free(w);
		free(v);
		free_tape(&tape);
	}
}
