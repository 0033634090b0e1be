/* test_samplers.c - the models behind `sampler`: arithmetic against a library's, the Gaussian
 * process against a matrix solved by hand, expected improvement against its integral, pending
 * trials, iterations that differ, and the same suggestions again.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"
#include "testkit.h"

/* ---- a host ---------------------------------------------------------------------------------- */

struct world {
	struct espl_kit *kit;
	struct espl_host host;
	uint64_t drawn;
};

static const void *
find_service(const struct espl_host *host, const char *id)
{
	struct world *w = host->ctx;

	return strcmp(id, ESPL_SPACE) == 0 ? espl_kit_space(w->kit) : NULL;
}

static uint64_t
next_random(const struct espl_host *host)
{
	struct world *w = host->ctx;
	uint64_t z = w->drawn += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void
open_world(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof *w);
	w->kit = espl_kit_new(seed);
	w->host.size = (uint32_t)sizeof w->host;
	w->host.ctx = w;
	w->host.service = find_service;
	w->host.random = next_random;
	w->drawn = seed;
}

/* x, y in [0, 1]; n in 1..64 on a logarithmic scale; k one of three; z where k is the first. */
static void
mixed_space(struct world *w)
{
	espl_kit_real(w->kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_real(w->kit, "y", 1e-4, 1, ESPL_LOG, 0);
	espl_kit_int(w->kit, "n", 1, 64, ESPL_LOG);
	espl_kit_choice(w->kit, "k", "a|b|c");
	espl_kit_real(w->kit, "z", 0, 1, ESPL_LINEAR, 0);
	espl_kit_when(w->kit, "k", 0);
}

static double
mixed_loss(const double *v)
{
	double loss = pow(v[0] - 0.3, 2) + 0.1 * pow(log10(v[1]) + 2, 2) +
	    0.05 * pow(log2(v[2]) - 3, 2) + (v[3] == 0 ? 0.0 : 0.3);

	return v[3] == 0 ? loss + pow(v[4] - 0.8, 2) : loss;
}

static void
tell(struct model *model, uint64_t trial, espl_sample_state state, uint64_t iteration, double loss,
    const double *values)
{
	struct espl_sample sample = ESPL_INIT(struct espl_sample);

	sample.state = state;
	sample.trial = trial;
	sample.iteration = iteration;
	sample.loss = loss;
	sample.values = values;
	cr_assert_eq(model_tell(model, &sample, NULL), ESPL_OK);
}

static struct model_setup
setup_of(uint32_t kind)
{
	return (struct model_setup){ .kind = kind,
		.candidates = 24,
		.startup = 10,
		.top = 0.1,
		.conditional_fraction = 0.1 };
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

Test(portable, is_what_a_library_says)
{
	struct portable_table table;
	double x;

	portable_table_init(&table);
	for (x = -700; x < 700; x += 0.37)
		cr_assert_leq(fabs(portable_exp(x) / exp(x) - 1), 4e-15, "%g", x);
	for (x = 1e-300; x < 1e300; x *= 1.7)
		cr_assert_leq(fabs(portable_log(x) - log(x)), 4e-16 * (1 + fabs(log(x))), "%g", x);
	for (x = -30; x < 9; x += 0.01)
		cr_assert_leq(fabs(portable_normal(x) / (0.5 * erfc(-x / sqrt(2))) - 1), 1e-10,
		    "%g", x);
	for (x = -9; x < 9; x += 0.001)
		cr_assert_leq(fabs(portable_table_normal(&table, x) - 0.5 * erfc(-x / sqrt(2))),
		    2e-7, "%g", x);
}

/* The integral of (z - t) phi(t) for t below z, by Simpson's rule, scaled by phi(z). */
static double
improvement_by_quadrature(double z)
{
	double from = 0, until = 40, step = (until - from) / 400000, sum = 0, s;
	int i;

	for (i = 0; i <= 400000; i++) { /* s = z - t */
		s = from + i * step;
		sum += (i == 0 || i == 400000 ? 1 : i % 2 ? 4 : 2) * s * exp(-0.5 * s * s + s * z);
	}
	return log(sum * step / 3) - 0.5 * z * z - log(sqrt(2 * M_PI));
}

Test(portable, expected_improvement_is_its_integral)
{
	double z;

	for (z = -30; z <= 4; z += 0.5)
		cr_assert_leq(fabs(portable_log_improvement(z) - improvement_by_quadrature(z)),
		    1e-7 * (1 + fabs(z)), "%g: %.12g, %.12g", z, portable_log_improvement(z),
		    improvement_by_quadrature(z));
	for (z = -1; z > -1e6; z *= 1.01) /* it never is infinite, and always falls */
		cr_assert_gt(portable_log_improvement(z), portable_log_improvement(z * 1.01));
}

/* ---- the Gaussian process -------------------------------------------------------------------- */

static void
solve(double a[4][5], int n)
{
	int i, j, k;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++) {
			double part = j == i ? 0 : a[j][i] / a[i][i];

			for (k = i; k <= n && j != i; k++)
				a[j][k] -= part * a[i][k];
		}
}

static double
kernel_by_hand(const struct gp *gp, const double *x, const double *y)
{
	double square = 0, r;
	int i;

	for (i = 0; i < 2; i++)
		square += gp->inverse_scales[i] * pow(x[i] - y[i], 2);
	square += gp->inverse_scales[2] * (x[2] != y[2]);
	r = sqrt(5 * square);
	return gp->amplitude * (1 + r + r * r / 3) * exp(-r);
}

/* Four results in two numbers and a choice; the posterior at four other points. */
Test(gp, posterior_is_that_of_a_matrix_solved_by_hand)
{
	static const double at[4][3] = { { .1, .2, 0 }, { .8, .3, 1 }, { .5, .9, 0 },
		{ .4, .4, 1 } };
	static const double losses[] = { 3, 1, 2, 1.5 };
	static const double asked[4][3] = { { .1, .2, 0 }, { .6, .6, 0 }, { .9, .1, 1 },
		{ .3, .8, 1 } };
	struct world w;
	struct model model;
	struct model_setup setup = setup_of(MODEL_GP);
	double means[4], deviations[4], a[4][5];
	int i, j, q;

	open_world(&w, 1);
	espl_kit_real(w.kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_real(w.kit, "y", 0, 1, ESPL_LINEAR, 0);
	espl_kit_choice(w.kit, "k", "a|b");
	cr_assert_eq(model_init(&model, &w.host, &setup, NULL), ESPL_OK);
	for (i = 0; i < 4; i++)
		tell(&model, (uint64_t)i, ESPL_SAMPLE_SEEN, 1, losses[i], at[i]);
	cr_assert_eq(samples_rank(&model.samples, NULL), ESPL_OK);
	cr_assert_eq(gp_update(&model.gp, NULL), ESPL_OK);
	cr_assert_eq(model.gp.count, 4);
	gp_predict(&model.gp, asked[0], 4, means, deviations);
	for (q = 0; q < 4; q++) {
		double mean = 0, variance = model.gp.amplitude;

		for (i = 0; i < 4; i++) { /* K v = k */
			for (j = 0; j < 4; j++)
				a[i][j] = kernel_by_hand(&model.gp, at[i], at[j]) +
				    (i == j ? model.gp.noise + 1e-8 : 0);
			a[i][4] = kernel_by_hand(&model.gp, at[i], asked[q]);
		}
		solve(a, 4);
		for (i = 0; i < 4; i++) {
			double part = a[i][4] / a[i][i];

			/* rows of the model are those of the ranking's rows, in order */
			for (j = 0; model.gp.rows[j] != (uint32_t)i; j++)
				;
			mean += part * model.gp.losses[j];
			variance -= part * kernel_by_hand(&model.gp, at[i], asked[q]);
		}
		cr_assert_leq(fabs(means[q] - mean), 1e-8, "%g, %g", means[q], mean);
		cr_assert_leq(fabs(deviations[q] - sqrt(fmax(variance, 1e-12))), 1e-5, "%g, %g",
		    deviations[q], sqrt(variance));
	}
	model_free(&model);
	espl_kit_free(w.kit);
}

/* The factor that grew row by row is that of a model that was told everything at once. */
Test(gp, a_factor_that_grew_is_the_whole_one)
{
	struct world w, v;
	struct model grown, whole;
	struct model_setup setup = setup_of(MODEL_GP);
	double values[5], means[2][2], deviations[2][2], features[10];
	uint32_t i;

	open_world(&w, 2);
	mixed_space(&w);
	open_world(&v, 3);
	mixed_space(&v);
	cr_assert_eq(model_init(&grown, &w.host, &setup, NULL), ESPL_OK);
	cr_assert_eq(model_init(&whole, &v.host, &setup, NULL), ESPL_OK);
	for (i = 0; i < 40; i++) {
		double unit[5];

		cr_assert_eq(espl_draw(&v.host, espl_kit_space(v.kit), unit, values), ESPL_OK);
		tell(&grown, i, ESPL_SAMPLE_SEEN, 1, mixed_loss(values), values);
		tell(&whole, i, ESPL_SAMPLE_SEEN, 1, mixed_loss(values), values);
		cr_assert_eq(samples_rank(&grown.samples, NULL), ESPL_OK);
		if (i >= 2)
			cr_assert_eq(gp_update(&grown.gp, NULL), ESPL_OK);
	}
	cr_assert_eq(samples_rank(&whole.samples, NULL), ESPL_OK);
	/* with the same parameters */
	whole.gp.fit.fitted = 1;
	whole.gp.fit.next = 1000;
	memcpy(whole.gp.inverse_scales, grown.gp.inverse_scales, 5 * sizeof(double));
	whole.gp.amplitude = grown.gp.amplitude;
	whole.gp.noise = grown.gp.noise;
	cr_assert_eq(gp_update(&whole.gp, NULL), ESPL_OK);
	for (i = 0; i < 2; i++)
		gp_features(&whole.samples, samples_row(&whole.samples, i), &features[i * 5]);
	features[0] += 0.1;
	gp_predict(&grown.gp, features, 2, means[0], deviations[0]);
	gp_predict(&whole.gp, features, 2, means[1], deviations[1]);
	for (i = 0; i < 2; i++) {
		cr_assert_leq(fabs(means[0][i] - means[1][i]), 1e-7);
		cr_assert_leq(fabs(deviations[0][i] - deviations[1][i]), 1e-6);
	}
	model_free(&grown);
	model_free(&whole);
	espl_kit_free(w.kit);
	espl_kit_free(v.kit);
}

/* ---- suggestions ----------------------------------------------------------------------------- */

/* A search with `workers` at once; the best loss.  log: all configurations. */
static double
search(uint32_t kind, uint64_t seed, uint32_t trials, uint32_t workers, double *log)
{
	struct world w;
	struct model model;
	struct model_setup setup = setup_of(kind);
	double best = HUGE_VAL;
	uint32_t i, k;

	open_world(&w, seed);
	mixed_space(&w);
	cr_assert_eq(model_init(&model, &w.host, &setup, NULL), ESPL_OK);
	for (i = 0; i < trials + workers; i++) {
		if (i >= workers) {
			const double *done = &log[(i - workers) * 5];
			int fails = i % 13 == 0;

			tell(&model, i - workers, fails ? ESPL_SAMPLE_FAILED : ESPL_SAMPLE_SEEN, 1,
			    fails ? NAN : mixed_loss(done), done);
			best = fails ? best : fmin(best, mixed_loss(done));
		}
		if (i >= trials)
			continue;
		cr_assert_eq(model_ask(&model, 1, &log[i * 5], NULL), ESPL_OK);
		for (k = 0; k < i; k++)
			cr_assert_neq(espl_kit_space(w.kit)->hash(espl_kit_space(w.kit),
					  &log[i * 5]),
			    espl_kit_space(w.kit)->hash(espl_kit_space(w.kit), &log[k * 5]),
			    "%u and %u are the same", i, k);
		tell(&model, i, ESPL_SAMPLE_PENDING, 1, NAN, &log[i * 5]);
	}
	model_free(&model);
	espl_kit_free(w.kit);
	return best;
}

Test(samplers, the_same_results_lead_to_the_same_suggestions)
{
	static double one[120 * 5], two[120 * 5];
	uint32_t kind;

	for (kind = MODEL_TPE; kind <= MODEL_BOTH; kind++) {
		(void)search(kind, 7, 120, 3, one);
		(void)search(kind, 7, 120, 3, two);
		cr_assert_eq(memcmp(one, two, sizeof one), 0);
	}
}

Test(samplers, they_find_better_than_chance)
{
	static double log[80 * 5];
	double sum[4] = { 0 };
	uint64_t seed;
	uint32_t kind;

	for (seed = 1; seed <= 6; seed++) {
		struct world w;
		double unit[5], values[5], best = HUGE_VAL;

		open_world(&w, seed);
		mixed_space(&w);
		for (int i = 0; i < 80; i++) {
			cr_assert_eq(espl_draw(&w.host, espl_kit_space(w.kit), unit, values),
			    ESPL_OK);
			best = fmin(best, mixed_loss(values));
		}
		sum[0] += best;
		espl_kit_free(w.kit);
		for (kind = MODEL_TPE; kind <= MODEL_BOTH; kind++)
			sum[kind] += search(kind, seed, 80, seed % 2 == 0 ? 8 : 1, log);
	}
	for (kind = MODEL_TPE; kind <= MODEL_BOTH; kind++)
		cr_assert_lt(sum[kind], 0.7 * sum[0], "%u: %g, by chance %g", kind, sum[kind],
		    sum[0]);
}

/* What is pending is not asked for again: suggestions spread, by the mean distance of two. */
Test(samplers, pending_trials_keep_others_away)
{
	uint32_t kind;

	for (kind = MODEL_TPE; kind <= MODEL_GP; kind++) {
		double spread[2] = { 0 };

		for (uint64_t run = 0; run < 40; run++) {
			int pass = run % 2 != 0;
			struct world w;
			struct model model;
			struct model_setup setup = setup_of(kind);
			double values[1], all[8];

			open_world(&w, 5 + run / 2);
			espl_kit_real(w.kit, "x", 0, 1, ESPL_LINEAR, 0);
			cr_assert_eq(model_init(&model, &w.host, &setup, NULL), ESPL_OK);
			for (uint64_t i = 0; i < 10; i++) {
				values[0] = ((double)i + 0.5) / 10;
				tell(&model, i, ESPL_SAMPLE_SEEN, 1, sin(20 * values[0]), values);
			}
			for (uint64_t i = 0; i < 8; i++) {
				cr_assert_eq(model_ask(&model, 1, values, NULL), ESPL_OK);
				all[i] = values[0];
				if (pass)
					tell(&model, 10 + i, ESPL_SAMPLE_PENDING, 1, NAN, values);
				for (uint64_t k = 0; k < i; k++)
					spread[pass] += fabs(all[i] - all[k]);
			}
			model_free(&model);
			espl_kit_free(w.kit);
		}
		cr_assert_gt(spread[1], 1.1 * spread[0],
		    "kind %u: %g with pending ones, %g without", kind, spread[1], spread[0]);
	}
}

/* Several at once are different, and none stays behind as pending. */
Test(samplers, a_batch_is_of_different_configurations)
{
	uint32_t kind;

	for (kind = MODEL_TPE; kind <= MODEL_BOTH; kind++) {
		struct world w;
		struct model model;
		struct model_setup setup = setup_of(kind);
		double values[8 * 5], unit[5];

		open_world(&w, 4);
		mixed_space(&w);
		cr_assert_eq(model_init(&model, &w.host, &setup, NULL), ESPL_OK);
		for (uint64_t i = 0; i < 20; i++) {
			cr_assert_eq(espl_draw(&w.host, espl_kit_space(w.kit), unit, values),
			    ESPL_OK);
			tell(&model, i, ESPL_SAMPLE_SEEN, 1, mixed_loss(values), values);
		}
		cr_assert_eq(model_ask(&model, 8, values, NULL), ESPL_OK);
		for (int i = 0; i < 8; i++)
			for (int k = 0; k < i; k++)
				cr_assert(memcmp(&values[i * 5], &values[k * 5],
					      5 * sizeof *values) != 0);
		cr_assert_eq(model.samples.pending_count, 0);
		cr_assert_eq(model.samples.count, 20);
		model_free(&model);
		espl_kit_free(w.kit);
	}
}

/* Losses fall with iterations: what has trained longer is compared with what has not. */
Test(samples, losses_after_different_iterations_are_compared)
{
	struct world w;
	struct model model;
	struct model_setup setup = setup_of(MODEL_TPE);
	double values[1];
	uint64_t i;

	open_world(&w, 6);
	espl_kit_real(w.kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(model_init(&model, &w.host, &setup, NULL), ESPL_OK);
	for (i = 0; i < 30; i++) { /* the loss is i / 30, and 5 more after the first iteration */
		values[0] = (double)i / 30;
		tell(&model, i, ESPL_SAMPLE_SEEN, 1, 5 + (double)i / 30, values);
	}
	for (i = 5; i < 15; i++) { /* not the best ones are promoted */
		values[0] = (double)i / 30;
		tell(&model, i, ESPL_SAMPLE_SEEN, 3, (double)i / 30, values);
	}
	cr_assert_eq(samples_rank(&model.samples, NULL), ESPL_OK);
	cr_assert_eq(model.samples.iteration, 3);
	for (i = 0; i < 30; i++) {
		cr_assert_eq(model.samples.ranking[i], i);
		cr_assert_leq(fabs(model.samples.values[i] - (double)i / 30), 1e-9);
	}
	model_free(&model);
	espl_kit_free(w.kit);
}

/* Losses near the limits of their type are as good to learn from as others. */
Test(gp, the_largest_losses_are_still_losses)
{
	double small[6] = { 3, 1, -2, 0.5, -4, 4 }, large[6], room[6];

	for (int i = 0; i < 6; i++)
		large[i] = small[i] * 4e307;
	gp_bend(small, 6, room);
	gp_bend(large, 6, room);
	for (int i = 0; i < 6; i++)
		cr_assert_leq(fabs(large[i] - small[i]), 1e-9, "%g, %g", large[i], small[i]);
}

/* Differences between iterations beyond the largest number: such a configuration counts as bad. */
Test(samples, a_shift_that_is_not_finite_makes_none_the_best)
{
	struct world w;
	struct model model;
	struct model_setup setup = setup_of(MODEL_BOTH);
	double values[1];

	open_world(&w, 8);
	espl_kit_real(w.kit, "x", 0, 1, ESPL_LINEAR, 0);
	cr_assert_eq(model_init(&model, &w.host, &setup, NULL), ESPL_OK);
	for (uint64_t i = 0; i < 24; i++) {
		values[0] = ((double)i + 0.5) / 24;
		tell(&model, i, ESPL_SAMPLE_SEEN, 1, i % 2 == 0 ? 1e308 : -1e308, values);
		if (i % 2 == 0)
			tell(&model, i, ESPL_SAMPLE_SEEN, 2, -1e308, values);
	}
	cr_assert_eq(samples_rank(&model.samples, NULL), ESPL_OK);
	for (uint32_t i = 0; i < model.samples.finite; i++)
		cr_assert(isfinite(model.samples.values[model.samples.ranking[i]]));
	for (int i = 0; i < 8; i++)
		cr_assert_eq(model_ask(&model, 1, values, NULL), ESPL_OK);
	cr_assert(values[0] >= 0 && values[0] <= 1);
	model_free(&model);
	espl_kit_free(w.kit);
}
