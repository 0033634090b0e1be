/* test_profile.c - what `espalier profile` makes of its measurements: means, the fit, the file. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/profile.h"
#include "input/input.h"

static int
near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(1.0, fmax(fabs(a), fabs(b)));
}

/* ---- means -------------------------------------------------------------------------------- */

Test(profile, a_tally_is_mean_and_deviation_and_two_can_be_merged)
{
	static const double values[] = { 3.0, 1.5, 4.25, 1.0, 5.5, 9.0, 2.0 };
	struct espl__tally all = { 0, 0, 0 }, a = all, b = all, none = all;
	double sum = 0, squares = 0;
	size_t count = sizeof values / sizeof values[0];

	cr_assert(espl__tally_sd(&all) == 0.0 && isinf(espl__tally_error(&all)));
	for (size_t i = 0; i < count; i++) {
		espl__tally_add(&all, values[i]);
		espl__tally_add(i < 3 ? &a : &b, values[i]);
		sum += values[i];
	}
	for (size_t i = 0; i < count; i++)
		squares += (values[i] - sum / (double)count) * (values[i] - sum / (double)count);
	cr_assert(near(all.mean, sum / (double)count));
	cr_assert(near(espl__tally_sd(&all), sqrt(squares / (double)(count - 1))));
	cr_assert(
	    near(espl__tally_error(&all), espl__tally_sd(&all) / sqrt((double)count) / all.mean));
	espl__tally_merge(&a, &b);
	espl__tally_merge(&a, &none);
	cr_assert(a.count == all.count && near(a.mean, all.mean) && near(a.squares, all.squares));
	espl__tally_merge(&none, &all);
	cr_assert(none.count == all.count && near(none.mean, all.mean) &&
	    near(none.squares, all.squares));
}

/* ---- the fit ------------------------------------------------------------------------------ */

static double
badness(const double *fit, const double *values, const double *weights, uint32_t count)
{
	double sum = 0;

	for (uint32_t i = 1; i < count; i++)
		sum += weights[i] * (fit[i] - values[i]) * (fit[i] - values[i]);
	return sum;
}

Test(profile, a_fit_keeps_what_rises_and_pools_what_falls)
{
	double rising[] = { 1, 1.9, 3.4, 5.6 }, falling[] = { 1, 2.0, 3.0, 2.0 },
	       below[] = { 1, 0.5, 0.7 };
	const double even[] = { 1, 1, 1, 1 }, uneven[] = { 1, 1, 3, 1 };

	espl__fit_rising(rising, even, 4);
	cr_assert(rising[0] == 1 && rising[1] == 1.9 && rising[2] == 3.4 && rising[3] == 5.6);
	espl__fit_rising(falling, uneven, 4);
	cr_assert(falling[0] == 1 && falling[1] == 2.0 && near(falling[2], 2.75) &&
	    near(falling[3], 2.75));
	espl__fit_rising(below, even, 3);
	cr_assert(below[0] == 1 && below[1] == 1 && below[2] == 1,
	    "the first one stays, nothing is below it");
	espl__fit_rising(below, even, 1);
	cr_assert(below[0] == 1);
}

/* No other non-falling values that begin alike are nearer: random ones, and small steps away. */
Test(profile, a_fit_is_the_nearest)
{
	struct espl__rng rng;

	espl__rng_seed(&rng, 7, "fit");
	for (int round = 0; round < 200; round++) {
		uint32_t count = 2 + (uint32_t)(espl__rng_uniform(&rng) * 6);
		double values[8], weights[8], fit[8], other[8];

		for (uint32_t i = 0; i < count; i++) {
			values[i] = i == 0 ? 1 : 0.5 + 4 * espl__rng_uniform(&rng);
			weights[i] = 0.1 + espl__rng_uniform(&rng);
			fit[i] = values[i];
		}
		espl__fit_rising(fit, weights, count);
		cr_assert(fit[0] == 1);
		for (uint32_t i = 1; i < count; i++)
			cr_assert(fit[i] >= fit[i - 1]);
		for (int k = 0; k < 200; k++) {
			double step = k % 2 == 0 ? 0.05 : 2.0;

			other[0] = 1;
			for (uint32_t i = 1; i < count; i++)
				other[i] = fmax(other[i - 1],
				    fit[i] + step * (espl__rng_uniform(&rng) - 0.5));
			cr_assert(badness(fit, values, weights, count) <=
			    badness(other, values, weights, count) + 1e-12);
		}
	}
}

/* ---- the file ----------------------------------------------------------------------------- */

static struct espl__measurement
measured(uint32_t gpus, uint32_t packing, double mean, double spread)
{
	struct espl__measurement m = { .end = ESPL__MEASURED, .gpus = gpus, .packing = packing };

	for (int i = 0; i < 4; i++)
		espl__tally_add(&m.iteration, mean + (i % 2 == 0 ? spread : -spread));
	if (packing == 1) {
		espl__tally_add(&m.begin, mean + 2.0);
		espl__tally_add(&m.again, mean + 2.5);
		espl__tally_add(&m.save, 0.25);
	}
	return m;
}

/* Written, and read back by what reads trial.profile. */
static struct espl__profile *
round_trip(struct espl__profiled *p, int lines, char **text)
{
	static struct espl__run_config config = { .name = "pear",
		.trial = { .trainable = "sleep", .checkpoint = 1 } };
	static struct espl__inputs inputs = { .config = &config };
	static char json[] = "{\"x\": 0.5}", device[] = "a \"GPU\"";
	static struct espl__subject subject = { .json = json, .device = device };
	struct espl__node node = { .type = ESPL__STRING };
	struct espl__profile *profile = NULL;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf b = { NULL, 0, 0 };
	char *path = espl__format("%s/espl-profile-XXXXXX.json",
	    getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	int fd = mkstemps(path, 5);

	cr_assert_geq(fd, 0);
	close(fd);
	p->inputs = &inputs;
	p->subject = &subject;
	espl__profiled_fit(p);
	espl__profiled_json(p, lines, &b);
	cr_assert_eq(espl__file_write(path, b.data, b.size, &diag), ESPL_OK, "%s", diag.text);
	node.text = path;
	cr_assert_eq(espl__profile_load(&node, NULL, &profile, &diag), ESPL_OK, "%s in %s",
	    diag.text, espl__buf_text(&b));
	*text = espl__strdup(espl__buf_text(&b));
	espl__buf_free(&b);
	cr_assert_eq(remove(path), 0);
	free(path);
	return profile;
}

Test(profile, what_is_written_is_read_back)
{
	struct espl__measurement list[] = { measured(1, 1, 4, 0.1), measured(2, 1, 2.5, 0.1),
		measured(4, 1, 2.6, 0.1), measured(8, 1, 2, 0.1), measured(1, 2, 5, 0.1) };
	struct espl__profiled p = { .list = list, .wides = 4, .packs = 1 };
	struct espl__profile *profile;
	struct espl_share two = { 2, 1 }, four = { 4, 1 }, half = { 1, 2 };
	json_t *root;
	char *text;

	espl__tally_add(&p.resize, 0.010);
	espl__tally_add(&p.resize, 0.014);
	espl__print(&p.notes, "one\ntwo \"2\"\n");
	profile = round_trip(&p, 1, &text);
	root = json_loads(text, 0, NULL);
	cr_assert_not_null(root, "%s", text);
	cr_assert_eq(json_array_size(json_object_get(json_object_get(root, "measured"), "runs")),
	    5);
	cr_assert_eq(json_array_size(json_object_get(json_object_get(root, "measured"), "notes")),
	    2);
	json_decref(root);
	cr_assert(
	    fabs(profile->iteration.mean_s - 4) < 1e-6 && profile->iteration.kind == ESPL_NORMAL);
	cr_assert(fabs(profile->iteration.sd_s - 0.1 * sqrt(4.0 / 3)) < 1e-6);
	cr_assert(fabs(profile->start.mean_s - 2) < 1e-6 &&
	    fabs(profile->checkpoint.mean_s - 0.25) < 1e-6);
	cr_assert(fabs(profile->restore.mean_s - 0.5) < 1e-6);
	cr_assert(profile->resizes && fabs(profile->resize.mean_s - 0.012) < 1e-6 &&
	    profile->resize.kind == ESPL_NORMAL);
	/* 1.60 and 1.54 times one GPU: made one, between the two. */
	cr_assert(near(espl__profile_speed(profile, two), espl__profile_speed(profile, four)));
	cr_assert(espl__profile_speed(profile, two) > 4 / 2.6 &&
	    espl__profile_speed(profile, two) < 4 / 2.5);
	cr_assert(fabs(espl__profile_speed(profile, half) - 0.8) < 1e-9);
	espl__profile_free(profile);
	free(text);
	profile = round_trip(&p, 0, &text);
	cr_assert(strchr(text, '\n') == text + strlen(text) - 1, "of one line");
	espl__profile_free(profile);
	free(text);
	espl__buf_free(&p.notes);
}

/* The third is by far the surest value: in a fit of all three it would count for more. */
Test(profile, what_comes_after_the_fastest_is_left_out)
{
	struct espl__measurement list[] = { measured(1, 1, 4, 0.1), measured(2, 1, 2.2, 0.1),
		measured(4, 1, 5, 0.001), measured(1, 2, 10, 0.1) };
	struct espl__profiled p = { .list = list, .wides = 3, .packs = 1 };
	struct espl_share two = { 2, 1 };
	struct espl__profile *profile;
	struct espl__buf b = { NULL, 0, 0 };
	char *text;

	profile = round_trip(&p, 1, &text);
	cr_assert(fabs(espl__profile_speed(profile, two) - 4 / 2.2) < 1e-9);
	cr_assert_eq(profile->scaling_count, 2);
	cr_assert_eq(profile->packing_count, 1);
	cr_assert_not_null(strstr(text, "\"gpus\": 4"), "the measurement is still recorded");
	espl__profiled_text(&p, &b);
	cr_assert_not_null(strstr(espl__buf_text(&b), "left out    4 GPUs: measured 0.80 times"));
	cr_assert_null(strstr(espl__buf_text(&b), "adjusted"));
	espl__buf_free(&b);
	espl__profile_free(profile);
	free(text);
}

Test(profile, a_trial_that_needs_two_gpus)
{
	struct espl__measurement list[] = { measured(2, 1, 3, 0.0), measured(4, 1, 2, 2.0) };
	struct espl__profiled p = { .list = list, .wides = 2 };
	struct espl_share two = { 2, 1 }, four = { 4, 1 };
	struct espl__profile *profile;
	char *text;

	list[0].save = list[1].save = list[0].again = list[1].again =
	    (struct espl__tally){ 0, 0, 0 };
	profile = round_trip(&p, 1, &text);
	cr_assert(fabs(espl__profile_iteration_s(profile, two) - 3) < 1e-6);
	cr_assert(fabs(espl__profile_iteration_s(profile, four) - 2) < 1e-6);
	cr_assert(strstr(text, "\"checkpoint\"") == NULL && strstr(text, "\"restore\"") == NULL);
	cr_assert(!profile->resizes && strstr(text, "\"resize\"") == NULL);
	cr_assert(profile->iteration.kind == ESPL_CONSTANT && profile->packing_count == 0);
	espl__profile_free(profile);
	free(text);
}

Test(profile, durations_for_people)
{
	static const struct {
		double s;
		const char *text;
	} cases[] = { { 0, "0s" }, { 1e-9, "0s" }, { 2.5e-6, "2.50us" }, { 0.0123, "12.3ms" },
		{ 0.123, "123ms" }, { 1, "1.00s" }, { 9.999, "10.0s" }, { 99.94, "99.9s" },
		{ 125, "2m05s" } };
	char room[32];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		cr_assert_str_eq(espl__format_latency(cases[i].s, room), cases[i].text);
}
