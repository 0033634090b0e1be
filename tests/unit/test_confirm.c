/* test_confirm.c - experiment.confirm: at the end the best configurations are trained again, with
 * every algorithm, with trainings that fail, within deadline and budget, and after any cut.
 */
#include "exec_run.h"
#include "exec/questions.h"

#define TRIALS_MOST 200u

struct seen {
	struct espl__observer observer;
	const double *values[TRIALS_MOST];
	double loss[TRIALS_MOST]; /* the last reported */
	uint64_t iteration[TRIALS_MOST], trials;
	uint32_t warnings;
};

static void
see_trial(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct seen *w = ctx;

	(void)now;
	cr_assert_lt(t->id, TRIALS_MOST);
	w->trials = t->id >= w->trials ? t->id + 1 : w->trials;
	w->values[t->id] = t->values;
	w->loss[t->id] = t->loss;
	w->iteration[t->id] = t->iteration;
}

static const char *const head =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 5; %s };\n"
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
	"use = \"median\"; trials = 12; iterations_max = 6;",
	"use = \"bohb\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = 3;",
	"use = \"tpe\"; trials = 12; iterations_max = 3;",
};
#define ALGORITHMS (sizeof algorithms / sizeof algorithms[0])

struct shape {
	const char *algorithm, *experiment, *faults, *allocator;
	uint32_t gpus, retries;
};

static struct seen *
make_confirm(struct run *r, const struct shape *s)
{
	struct seen *w = espl__alloc(sizeof *w);
	char *text = espl__format(head, s->experiment, s->retries, s->gpus, s->algorithm,
	    s->allocator != NULL ? s->allocator : "fair");

	(void)snprintf(run_label, sizeof run_label,
	    "%.20s, %u GPUs: ", s->algorithm + strlen("use = "), s->gpus);
	w->observer = (struct espl__observer){ .ctx = w, .trial = see_trial };
	make_run(r, text, s->faults, &w->observer);
	free(text);
	return w;
}

static struct seen *
run_confirm(struct run *r, const struct shape *s, struct tape *tape)
{
	struct seen *w = make_confirm(r, s);

	cr_assert_eq(r->world->ops->begin(r->world, 0, 0, &r->diag), ESPL_OK, "%s", r->diag.text);
	cr_assert_eq(pump(r, tape, 100000), ESPL_OK, "%s: %s", s->algorithm, r->diag.text);
	return w;
}

/* Its trials: of the same values and as far as the search; its means are theirs, and the least
 * of them wins. */
static void
check_confirmation(const struct run *r, const struct seen *w, uint32_t folds)
{
	const struct espl__confirmation *c = &r->summary.confirmation;
	uint32_t least = 0;

	cr_assert_eq(c->folds, folds, "%s%u", run_label, c->folds);
	cr_assert_gt(c->count, 0);
	cr_assert_eq(c->first + c->count * folds, w->trials);
	for (uint32_t i = 0; i < c->count; i++) {
		const struct espl__confirmed *one = &c->list[i];
		double sum = 0;

		cr_assert_eq(one->counted, folds);
		cr_assert(i == 0 || one->searched >= c->list[i - 1].searched);
		for (uint32_t fold = 0; fold < folds; fold++) {
			uint64_t t = c->first + fold * c->count + i;

			cr_assert_arr_eq(w->values[t], w->values[one->trial],
			    espl__space_count(r->inputs.space) * sizeof(double));
			cr_assert_eq(w->iteration[t], w->iteration[one->trial], "%s", run_label);
			cr_assert_eq(espl__exec_trial_info(r->exec, t).fold, fold + 1);
			cr_assert_eq(espl__exec_trial_info(r->exec, t).seed_of,
			    c->first + fold * c->count);
			cr_assert_str_eq(espl__exec_trial_info(r->exec, t).word, "completed");
			sum += w->loss[t];
		}
		cr_assert_float_eq(one->mean, sum / folds, 1e-12);
		cr_assert(one->half >= 0);
		if (one->mean < c->list[least].mean)
			least = i;
	}
	cr_assert_eq(c->winner, least);
	cr_assert_eq(r->summary.best, c->list[least].trial, "%s", run_label);
	cr_assert_float_eq(r->summary.best_loss, c->list[least].searched, 0);
}

/* ---- tests -------------------------------------------------------------------------------- */

Test(confirm, the_best_configurations_are_trained_again_at_the_end, .timeout = 60)
{
	for (uint32_t k = 0; k < 3 * ALGORITHMS; k++) {
		static const uint32_t gpus[] = { 1, 3, 8 };
		struct shape s = { .algorithm = algorithms[k % ALGORITHMS],
			.experiment = "confirm = 4;",
			.gpus = gpus[k / ALGORITHMS] };
		struct shape without = s;
		struct run r, plain;
		struct seen *w = run_confirm(&r, &s, NULL), *v;

		without.experiment = "";
		v = run_confirm(&plain, &without, NULL);
		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
		cr_assert_eq(r.summary.confirmation.first, v->trials, "the search is as it was");
		cr_assert_eq(plain.summary.best, r.summary.confirmation.list[0].trial, "%s",
		    run_label);
		cr_assert_eq(plain.summary.confirmation.folds, 0);
		check_confirmation(&r, w, 4);
		unmake(&r);
		unmake(&plain);
		free(w);
		free(v);
	}
}

Test(confirm, with_several_seeds)
{
	struct shape s = { .algorithm = algorithms[0],
		.experiment = "confirm = 3; seeds = 2;",
		.gpus = 4 };
	struct run r;
	struct seen *w = run_confirm(&r, &s, NULL);

	cr_assert_eq(w->trials, 18 + 9);
	check_confirmation(&r, w, 3);
	unmake(&r);
	free(w);
}

/* 14 s a training; 3 GPUs: 9 trainings take 42 s more. */
Test(confirm, it_respects_deadline_and_budget)
{
	struct shape s = { .algorithm = algorithms[0], .experiment = "confirm = 3;", .gpus = 3 };
	struct run r;
	struct seen *w = run_confirm(&r, &s, NULL);
	double whole_s = (double)r.summary.now / 1e9, usd = (double)r.summary.cost / 1e6;
	char text[80];

	check_confirmation(&r, w, 3);
	unmake(&r);
	free(w);
	for (int i = 0; i < 4; i++) {
		static const double parts[] = { 1.3, 0.8, 1.3, 0.8 };

		if (i < 2)
			(void)snprintf(text, sizeof text, "confirm = 3; deadline = \"%.0fs\";",
			    whole_s * parts[i]);
		else
			(void)snprintf(text, sizeof text, "confirm = 3; budget = %.6f;",
			    usd * parts[i]);
		s.experiment = text;
		w = run_confirm(&r, &s, NULL);
		cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s: %s", text, r.summary.text);
		cr_assert_eq(w->trials, i % 2 == 0 ? 18 : 9, "%s: %u trials", text,
		    (unsigned)w->trials);
		cr_assert_eq(r.summary.confirmation.folds, i % 2 == 0 ? 3 : 0);
		unmake(&r);
		free(w);
	}
}

Test(confirm, a_plan_has_no_stage_for_it)
{
	struct shape s = { .algorithm = algorithms[3],
		.experiment = "confirm = 3; deadline = \"1h\";",
		.allocator = "elastic-greedy",
		.gpus = 4 };
	struct run r;
	struct seen *w = run_confirm(&r, &s, NULL);

	cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", r.summary.text);
	cr_assert_eq(r.summary.confirmation.folds, 0);
	cr_assert_eq(w->trials, 9);
	unmake(&r);
	free(w);
}

/* Trials 9, 12 and 15 are those of the best. */
Test(confirm, a_training_that_fails_counts_no_more)
{
	struct shape s = { .algorithm = algorithms[0],
		.experiment = "confirm = 3;",
		.faults =
		    "faults = ( { kind = \"trial-fails\"; trial = 12; iteration = 2; times = 9; "
		    "} );",
		.gpus = 3 };
	struct run r;
	struct seen *w = run_confirm(&r, &s, NULL);
	const struct espl__confirmation *c = &r.summary.confirmation;

	cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s", r.summary.text);
	cr_assert_eq(c->folds, 3);
	cr_assert_eq(c->list[0].counted, 2);
	cr_assert_eq(c->list[1].counted, 3);
	cr_assert_float_eq(c->list[0].mean, (w->loss[9] + w->loss[15]) / 2, 1e-12);
	cr_assert_neq(c->winner, ESPL_ANY);
	unmake(&r);
	free(w);
	s.faults =
	    "faults = ( { kind = \"trial-fails\"; trial = 12; iteration = 2; times = 9; }, { "
	    "kind = \"trial-fails\"; trial = 15; iteration = 1; times = 9; } );";
	w = run_confirm(&r, &s, NULL);
	cr_assert_eq(c->list[0].counted, 1);
	cr_assert_neq(c->winner, 0, "most of its trainings failed");
	unmake(&r);
	free(w);
}

/* One GPU, so that what is trained again changes no order. */
Test(confirm, a_run_cut_after_any_round_comes_to_the_same_end, .timeout = 120)
{
	for (uint32_t i = 0; i < ALGORITHMS; i++) {
		struct shape s = { .algorithm = algorithms[i],
			.experiment = "confirm = 2;",
			.gpus = 1 };
		struct tape tape = { 0 };
		struct run a, b;
		struct seen *w = run_confirm(&a, &s, &tape), *v;

		for (uint32_t cut = 1 + i; cut < tape.count; cut += 5) {
			v = make_confirm(&b, &s);
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
			check_confirmation(&b, v, 2);
			unmake(&b);
			free(v);
		}
		unmake(&a);
		free_tape(&tape);
		free(w);
	}
}
