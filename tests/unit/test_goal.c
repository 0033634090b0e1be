/* test_goal.c - searches that end by what they have found: experiment.target and
 * experiment.patience, with every algorithm, at the boundary, and after any cut.
 *
 * What should happen is computed here from what an observer sees: reports in their order, and
 * trials that are completed, stopped early or failed.
 */
#include <time.h>

#include "exec_run.h"
#include "base/rng.h"
#include "base/text.h"
#include "exec/questions.h"

#define TRIALS_MOST 200u
#define REPORTS_MOST 4000u

struct seen {
	struct espl__observer observer;
	struct {
		uint64_t trial, iteration;
		double loss;
	} reports[REPORTS_MOST];
	uint32_t count;
	uint8_t
	    over[TRIALS_MOST]; /* [trial]: it was seen to have ended (1) or to have failed (2) */
	double lowest;
	uint64_t best;
	uint32_t since, most; /* others that ended since the best was reported, and the most ever */
	uint32_t starts, late; /* gangs; those started when the search had ended */
	uint32_t patience;     /* that the search has; 0 none */
	double target;         /* as a loss; NaN none */
	int ended;             /* the target was reached */
};

static int
must_have_ended(const struct seen *w)
{
	return w->ended || (w->patience > 0 && w->since >= w->patience);
}

static void
see_report(void *ctx, espl_time now, const struct espl_trial *t, uint64_t iteration, double loss,
    const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct seen *w = ctx;

	(void)now, (void)metrics, (void)count, (void)share;
	if (must_have_ended(w))
		return; /* its processes end */
	cr_assert_lt(w->count, REPORTS_MOST);
	w->reports[w->count].trial = t->id;
	w->reports[w->count].iteration = iteration;
	w->reports[w->count++].loss = loss;
	if (!isfinite(loss))
		return;
	if (w->best == ESPL_NONE || loss < w->lowest) {
		w->lowest = loss;
		w->best = t->id;
		w->since = 0;
	}
	w->ended |= loss <= w->target; /* NaN: never */
}

/* The best has failed for good: the next best is, and the count begins again. */
static void
forget_best(struct seen *w)
{
	w->best = ESPL_NONE;
	w->since = 0;
	for (uint32_t i = 0; i < w->count; i++)
		if (w->over[w->reports[i].trial] != 2 && isfinite(w->reports[i].loss) &&
		    (w->best == ESPL_NONE || w->reports[i].loss < w->lowest)) {
			w->best = w->reports[i].trial;
			w->lowest = w->reports[i].loss;
		}
}

static void
see_trial(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct seen *w = ctx;
	const char *word = espl__exec_trial_info(w->observer.exec, t->id).word;

	(void)now;
	cr_assert_lt(t->id, TRIALS_MOST);
	if (must_have_ended(w) || w->over[t->id] ||
	    (strcmp(word, "completed") != 0 && strcmp(word, "stopped early") != 0 &&
		strcmp(word, "failed") != 0))
		return;
	w->over[t->id] = strcmp(word, "failed") == 0 ? 2 : 1;
	if (t->id == w->best && w->over[t->id] == 2)
		forget_best(w);
	else
		w->since += w->best != ESPL_NONE && t->id != w->best;
	w->most = w->since > w->most ? w->since : w->most;
}

static void
see_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct seen *w = ctx;

	(void)now, (void)gang, (void)trial, (void)share, (void)slots, (void)text;
	w->starts += phase == ESPL__PHASE_STARTING;
	w->late += phase == ESPL__PHASE_STARTING && must_have_ended(w);
}

/* ---- runs --------------------------------------------------------------------------------- */

static const char *const head =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 5; %s };\n"
    "trial = { trainable = \"hartmann6\"; options = { bias = 2.5; noise = 2.0; }; gpus_max = 1;\n"
    "  checkpoint_every = \"6s\"; %s\n"
    "  profile = { iteration = { mean = \"4s\"; sd = \"1s\"; }; start = \"2s\"; checkpoint = "
    "\"1s\"; }; };\n"
    "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; }; x1 = { type = \"real\"; low = "
    "0.0; high = 1.0; };\n"
    "  x2 = { type = \"real\"; low = 0.0; high = 1.0; }; x3 = { type = \"choice\"; values = [ 0.1, "
    "0.9 ]; };\n"
    "  x4 = { type = \"real\"; low = 0.0; high = 1.0; }; x5 = 0.5; };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = %u; price = 3.6; market = "
    "\"on-demand\"; provision = \"15s\"; } ); nodes_max = 1; };\n"
    "algorithm = { %s }; allocator = { use = \"fair\"; }; placer = { use = \"colocate\"; };\n";

static const char *const algorithms[] = {
	"use = \"random\"; trials = 24; iterations_max = 5;",
	"use = \"grid\"; points = 2; iterations_max = 4;",
	"use = \"sobol\"; trials = 24; iterations_max = 5;",
	"use = \"stages\"; stages = ( (12, 2), (4, 4), (2, 8) );",
	"use = \"sha\"; trials = 18; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"hyperband\"; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"asha\"; trials = 24; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"asha\"; trials = 24; iterations_min = 1; iterations_max = 9; eta = 3; mode = "
	"\"stopping\";",
	"use = \"hypersched\"; trials = 24; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"median\"; trials = 24; iterations_max = 6;",
	"use = \"bohb\"; trials = 18; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"tpe\"; trials = 24; iterations_max = 3;",
	"use = \"pbt\"; population = 4; interval = 2; iterations_max = 8;",
	"use = \"spottune\"; trials = 12; iterations_max = 6;",
};
#define ALGORITHMS (sizeof algorithms / sizeof algorithms[0])

struct shape {
	const char *algorithm, *trial, *faults;
	uint32_t gpus, patience;
	double target; /* NaN none */
};

static struct seen *
make_goal(struct run *r, const struct shape *s)
{
	struct seen *w = espl__alloc(sizeof *w);
	char end[100] = "", *text;

	if (s->patience > 0)
		(void)snprintf(end, sizeof end, "patience = %u;", (unsigned)s->patience);
	if (!isnan(s->target))
		(void)snprintf(end + strlen(end), sizeof end - strlen(end), " target = %.17e;",
		    s->target);
	if (strstr(s->algorithm, "hypersched") != NULL)
		(void)snprintf(end + strlen(end), sizeof end - strlen(end), " deadline = \"1h\";");
	text = espl__format(head, end, s->trial != NULL ? s->trial : "", (unsigned)s->gpus,
	    s->algorithm);
	w->best = ESPL_NONE;
	w->target = s->target;
	w->patience = s->patience;
	w->observer = (struct espl__observer){ .ctx = w,
		.report = see_report,
		.trial = see_trial,
		.gang = see_gang };
	make_run(r, text, s->faults, &w->observer);
	free(text);
	return w;
}

static struct seen *
run_goal(struct run *r, const struct shape *s, struct tape *tape)
{
	struct seen *w = make_goal(r, s);

	cr_assert_eq(r->world->ops->begin(r->world, 0, 0, &r->diag), ESPL_OK, "%s", r->diag.text);
	cr_assert_eq(pump(r, tape, 100000), ESPL_OK, "%s: %s", s->algorithm, r->diag.text);
	cr_assert(espl__exec_view(r->exec).ended, "%s", s->algorithm);
	return w;
}

/* A loss that some report reaches before the search has ended by itself: a third of the way. */
static double
choose_target(const struct seen *w, double other)
{
	double lowest = INFINITY;

	for (uint32_t i = 0; i < w->count / 3; i++)
		if (w->reports[i].loss < lowest)
			lowest = w->reports[i].loss;
	return lowest < INFINITY ? lowest : other;
}

static char *
target_text(const struct seen *w, double target)
{
	uint32_t i = 0;
	char number[32];

	while (i < w->count && !(w->reports[i].loss <= target))
		i++;
	cr_assert_lt(i, w->count);
	return espl__format("the target %s was reached by trial %llu at iteration %llu",
	    espl__format_value(target, number), (unsigned long long)w->reports[i].trial,
	    (unsigned long long)w->reports[i].iteration);
}

/* ---- tests -------------------------------------------------------------------------------- */

Test(goal, the_first_report_that_reaches_the_target_ends_the_search, .timeout = 120)
{
	for (uint32_t gpus = 1; gpus <= 4; gpus += 3)
		for (uint32_t i = 0; i < ALGORITHMS; i++) {
			struct shape s = { .algorithm = algorithms[i],
				.gpus = gpus,
				.target = NAN };
			struct run whole, r;
			struct seen *all = run_goal(&whole, &s, NULL), *w;
			char *text;

			cr_assert_eq(whole.summary.how, ESPL__RUN_DONE, "%s", algorithms[i]);
			cr_assert_eq(whole.summary.found, 0, "%s", algorithms[i]);
			s.target = choose_target(all, 0);
			text = target_text(all, s.target);
			w = run_goal(&r, &s, NULL);
			cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", algorithms[i]);
			cr_assert_eq(r.summary.found, 1, "%s", algorithms[i]);
			cr_assert_str_eq(r.summary.text, text, "%s", algorithms[i]);
			cr_assert_eq(r.summary.best, w->reports[w->count - 1].trial, "%s",
			    algorithms[i]);
			cr_assert_eq(r.summary.best_iteration, w->reports[w->count - 1].iteration);
			cr_assert_leq(r.summary.best_loss, s.target);
			cr_assert_eq(w->late, 0, "%s: starts trials after its end", algorithms[i]);
			cr_assert_lt(r.summary.now, whole.summary.now, "%s", algorithms[i]);
			cr_assert_eq(r.summary.nodes_leaked, 0);
			cr_assert_eq(espl__exec_trial(r.exec, w->reports[w->count - 1].trial)
					 ->checkpoint,
			    w->reports[w->count - 1].iteration, "%s: its model is kept",
			    algorithms[i]);
			free(text);
			unmake(&whole);
			unmake(&r);
			free(all);
			free(w);
		}
}

Test(goal, so_many_trials_without_a_better_value_end_the_search, .timeout = 120)
{
	static const uint32_t patiences[] = { 1, 2, 5 };
	uint32_t ended = 0;

	for (uint32_t k = 0; k < 3 * 2 * ALGORITHMS; k++) {
		struct shape s = { .algorithm = algorithms[k % ALGORITHMS],
			.gpus = k / ALGORITHMS % 2 == 0 ? 1 : 4,
			.patience = patiences[k / ALGORITHMS / 2],
			.target = NAN };
		char text[60];
		struct run r;
		struct seen *w = run_goal(&r, &s, NULL);

		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s: %s", s.algorithm, r.summary.text);
		(void)snprintf(text, sizeof text, "no improvement in %u trial%s",
		    (unsigned)s.patience, s.patience == 1 ? "" : "s");
		cr_assert(!r.summary.found || strcmp(r.summary.text, text) == 0, "%s",
		    r.summary.text);
		cr_assert(!r.summary.found || w->most >= s.patience, "%s: after %u of %u trials",
		    s.algorithm, (unsigned)w->most, (unsigned)s.patience);
		/* An algorithm may give up several at once, and the last may be the one too many.
		 */
		cr_assert(r.summary.found || w->most < s.patience || r.summary.waiting == 0,
		    "%s: goes on after %u of %u trials", s.algorithm, (unsigned)w->most,
		    (unsigned)s.patience);
		ended += (uint32_t)r.summary.found;
		unmake(&r);
		free(w);
	}
	cr_assert_gt(ended, 3 * ALGORITHMS, "ended: %u", (unsigned)ended);
}

/* One trial at a time, each of which ends by itself: exactly that many, the best not counted. */
Test(goal, patience_counts_exactly)
{
	for (uint32_t patience = 1; patience < 9; patience++) {
		struct shape s = { .algorithm = algorithms[0],
			.gpus = 1,
			.patience = patience,
			.target = NAN };
		struct run r;
		struct seen *w = run_goal(&r, &s, NULL);

		cr_assert_eq(r.summary.found, 1);
		cr_assert_eq(w->most, patience);
		cr_assert_eq(r.summary.finished, w->best + 1 + patience, "the best is trial %llu",
		    (unsigned long long)w->best);
		unmake(&r);
		free(w);
	}
}

/* Trials 1 to 3 fail for good: they have ended without a better value. Before the first value
 * nothing is counted. */
Test(goal, failed_trials_count)
{
	struct shape s = { .algorithm = algorithms[0],
		.trial = "retries = 0;",
		.faults =
		    "faults = ( { kind = \"trial-fails\"; trial = 0; iteration = 1; times = 9; "
		    "}, { kind = \"trial-fails\"; trial = 2; iteration = 1; times = 9; }, "
		    "{ kind = \"trial-fails\"; trial = 3; iteration = 1; times = 9; } );",
		.gpus = 1,
		.patience = 2,
		.target = NAN };
	struct run r;
	struct seen *w = run_goal(&r, &s, NULL);

	cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", r.summary.text);
	cr_assert_str_eq(r.summary.text, "no improvement in 2 trials");
	cr_assert_eq(r.summary.finished, 1, "%u completed", (unsigned)r.summary.finished);
	cr_assert_eq(r.summary.failed, 3);
	unmake(&r);
	free(w);
}

/* A value that turned out to be worth nothing is not waited for. */
Test(goal, when_the_best_trial_fails_the_count_begins_again)
{
	for (uint32_t trial = 0; trial < 8; trial++) {
		struct shape s = { .algorithm = algorithms[0],
			.trial = "retries = 0;",
			.gpus = 1,
			.patience = 3,
			.target = NAN };
		char *faults = espl__format("faults = ( { kind = \"trial-fails\"; trial = %u; "
					    "iteration = 5; times = 9; } );",
		    (unsigned)trial);
		struct run r;
		struct seen *w;

		s.faults = faults;
		w = run_goal(&r, &s, NULL);
		cr_assert_eq(r.summary.found, 1);
		cr_assert_eq(w->since, 3);
		cr_assert_eq(w->most, 3);
		unmake(&r);
		free(w);
		free(faults);
	}
}

Test(goal, no_number_that_is_not_finite_reaches_a_target)
{
	struct shape s = { .algorithm = algorithms[0],
		.faults = "faults = ( { kind = \"nan\"; trial = 3; iteration = 2; } );",
		.gpus = 1,
		.target = -1e300 };
	struct run r;
	struct seen *w = run_goal(&r, &s, NULL);

	cr_assert_eq(r.summary.found, 0);
	cr_assert_str_eq(r.summary.text, "the search is complete");
	cr_assert_eq(r.summary.finished, 24);
	unmake(&r);
	free(w);
}

/* Cut after every single round: a run that had ended has, and one that goes on comes to the same
 * end. One trial at a time, so that what is trained again changes no order. */
static void
cut_everywhere(const struct shape *s, const char *same)
{
	struct run a, b;
	struct tape tape = { 0 };
	struct seen *w = run_goal(&a, s, &tape);

	cr_assert_eq(a.summary.found, 1, "%s", s->algorithm);
	for (uint32_t cut = 1; cut < tape.count; cut++) {
		struct seen *v = make_goal(&b, s);

		cr_assert_eq(replay(&b, &tape, cut), ESPL_OK, "%s, cut %u: %s", s->algorithm,
		    (unsigned)cut, b.diag.text);
		cr_assert_eq(b.world->ops->begin(b.world, 1, tape.list[cut - 1].now, &b.diag),
		    ESPL_OK);
		cr_assert_eq(pump(&b, NULL, 100000), ESPL_OK, "%s, cut %u: %s", s->algorithm,
		    (unsigned)cut, b.diag.text);
		cr_assert_eq(b.summary.how, ESPL__RUN_DONE, "%s, cut %u: %s", s->algorithm,
		    (unsigned)cut, b.summary.text);
		cr_assert_eq(b.summary.found, 1, "%s, cut %u: %s", s->algorithm, (unsigned)cut,
		    b.summary.text);
		cr_assert_eq(strncmp(b.summary.text, same != NULL ? same : a.summary.text,
				 strlen(same != NULL ? same : a.summary.text)),
		    0, "%s, cut %u: %s, and uncut: %s", s->algorithm, (unsigned)cut, b.summary.text,
		    a.summary.text);
		if (same == NULL) {
			cr_assert_eq(b.summary.best, a.summary.best);
			cr_assert_eq(b.summary.trials, a.summary.trials, "%s, cut %u", s->algorithm,
			    (unsigned)cut);
		}
		cr_assert_eq(b.summary.nodes_leaked, 0);
		unmake(&b);
		free(v);
	}
	unmake(&a);
	free_tape(&tape);
	free(w);
}

Test(goal, a_run_cut_after_any_round_comes_to_the_same_end, .timeout = 240)
{
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		struct shape s = { .algorithm = algorithms[i], .gpus = 1, .target = NAN };
		struct run whole;
		struct seen *all;

		if (strstr(s.algorithm, "hypersched") != NULL)
			continue; /* what it decides depends on the time left */
		all = run_goal(&whole, &s, NULL);
		unmake(&whole);
		s.target = choose_target(all, 0);
		free(all);
		cut_everywhere(&s, NULL);
		s.gpus = 3; /* others train meanwhile: which of them is first may change */
		cut_everywhere(&s, "the target ");
	}
	cut_everywhere(&(struct shape){ .algorithm = algorithms[0],
			   .gpus = 1,
			   .patience = 3,
			   .target = NAN },
	    NULL);
}

/* ---- any search, any faults --------------------------------------------------------------- */

static uint32_t
pick(struct espl__rng *rng, uint32_t below)
{
	return (uint32_t)(espl__rng_next(rng) % below);
}

static char *
draw_faults(struct espl__rng *rng)
{
	struct espl__buf b = { NULL, 0, 0 };
	char *text;

	espl__print(&b,
	    "faults = ( { kind = \"slow\"; factor = 1.5; from = \"9s\"; to = \"30s\"; }");
	for (uint32_t i = pick(rng, 5); i > 0; i--) {
		unsigned trial = pick(rng, 9), iteration = 1 + pick(rng, 5), at = pick(rng, 120);

		switch (pick(rng, 6)) {
		case 0: espl__print(&b, ", { kind = \"crash-rate\"; probability = 0.05; }"); break;
		case 1: espl__print(&b, ", { kind = \"bad-configuration\"; share = 0.2; }"); break;
		case 2:
			espl__print(&b, ", { kind = \"node-lost\"; node = 0; at = \"%us\"; }", at);
			break;
		default:
			espl__print(&b,
			    ", { kind = \"%s\"; trial = %u; iteration = %u; times = %u; }",
			    at % 3 == 0       ? "trial-fails"
				: at % 3 == 1 ? "trial-lost"
					      : "nan",
			    trial, iteration, 1 + at % 4);
		}
	}
	espl__print(&b, " );");
	text = espl__strdup(espl__buf_text(&b));
	espl__buf_free(&b);
	return text;
}

/* It ends as what was seen says that it must. */
static void
check_ends(const struct run *r, const struct seen *w, const struct shape *s)
{
	const struct espl__exec_summary *sum = &r->summary;
	char *text;

	cr_assert_neq(sum->how, ESPL__RUN_INTERRUPTED, "%s%s", run_label, sum->text);
	cr_assert_eq(w->late, 0, "%sstarts trials after its end", run_label);
	if (sum->how == ESPL__RUN_FAILED)
		return; /* of faults that came first */
	cr_assert_eq(sum->found, w->ended || strstr(sum->text, "no improvement") != NULL,
	    "%s%s: %s", run_label, s->algorithm, sum->text);
	if (w->ended) {
		text = target_text(w, s->target);
		cr_assert_str_eq(sum->text, text, "%s%s", run_label, s->algorithm);
		cr_assert_eq(sum->best, w->reports[w->count - 1].trial, "%s", run_label);
		free(text);
	} else if (sum->found) {
		cr_assert_geq(w->since, s->patience, "%s%s: %u of %u, %s", run_label, s->algorithm,
		    (unsigned)w->since, (unsigned)s->patience, sum->text);
	}
}

static void
check_seed(uint64_t seed)
{
	struct shape s = { .target = NAN };
	struct tape tape = { 0 };
	struct espl__rng rng;
	struct run r, again;
	struct seen *w, *v;
	char *faults;

	espl__rng_seed(&rng, seed, "goal");
	(void)snprintf(run_label, sizeof run_label, "SEED=%llu ", (unsigned long long)seed);
	s.algorithm = algorithms[pick(&rng, ALGORITHMS)];
	s.gpus = 1 + pick(&rng, 4);
	s.trial = pick(&rng, 2) == 0 ? "retries = 0;" : "";
	if (pick(&rng, 3) > 0)
		s.patience = 1 + pick(&rng, 6);
	if (pick(&rng, 3) > 0)
		s.target = 1.0 - 0.1 * pick(&rng, 25);
	s.faults = faults = draw_faults(&rng);
	w = run_goal(&r, &s, &tape);
	check_ends(&r, w, &s);
	/* The same events, the same end; and cut somewhere it comes to one. */
	v = make_goal(&again, &s);
	cr_assert_eq(replay(&again, &tape, tape.count), ESPL_OK, "%s%s", run_label,
	    again.diag.text);
	espl__exec_summary(again.exec, &again.summary);
	cr_assert_eq(again.summary.how, r.summary.how, "%s", run_label);
	cr_assert_str_eq(again.summary.text, r.summary.text, "%s", run_label);
	unmake(&again);
	free(v);
	v = make_goal(&again, &s);
	cr_assert_eq(replay(&again, &tape, 1 + pick(&rng, tape.count - 1)), ESPL_OK, "%s%s",
	    run_label, again.diag.text);
	cr_assert_eq(again.world->ops->begin(again.world, 1, r.summary.now, &again.diag), ESPL_OK);
	cr_assert_eq(pump(&again, NULL, 100000), ESPL_OK, "%s%s", run_label, again.diag.text);
	check_ends(&again, v, &s);
	unmake(&again);
	unmake(&r);
	free_tape(&tape);
	free(faults);
	free(w);
	free(v);
}

/* Seeds are new on every run and printed; SEED=n repeats one, SEEDS=n says how many. */
Test(goal, whatever_fails_it_ends_as_what_was_seen_says, .timeout = 600)
{
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	uint64_t from =
	    one != NULL ? strtoull(one, NULL, 10) : (uint64_t)time(NULL) % 1000000 * 1000000;
	uint64_t count = many != NULL ? strtoull(many, NULL, 10) : one != NULL ? 1 : 100;

	fprintf(stderr, "# %llu seeds from %llu on\n", (unsigned long long)count,
	    (unsigned long long)from);
	for (uint64_t seed = from; seed < from + count; seed++)
		check_seed(seed);
}
