/* test_fanova.c - the shares of functions whose shares are known. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "report/fanova.h"

#define ROWS 600u
#define COLUMNS 4u

struct table {
	double values[COLUMNS * ROWS], metric[ROWS], shares[COLUMNS];
	uint32_t labels[COLUMNS], rows, columns;
};

/* Uniform numbers; where `labels` is not 0, labels. */
static struct table *
make_table(uint32_t columns, uint32_t rows, const uint32_t labels[COLUMNS])
{
	struct table *t = calloc(1, sizeof *t);
	struct espl__rng rng;

	cr_assert(t != NULL && columns <= COLUMNS && rows <= ROWS);
	t->rows = rows;
	t->columns = columns;
	espl__rng_seed(&rng, 7, "test");
	for (uint32_t n = 0; n < columns; n++) {
		t->labels[n] = labels[n];
		for (uint32_t i = 0; i < rows; i++) {
			double u = espl__rng_uniform(&rng);

			t->values[(size_t)n * rows + i] = labels[n] > 0 ? floor(u * labels[n]) : u;
		}
	}
	return t;
}

static double
value_of(const struct table *t, uint32_t column, uint32_t row)
{
	return t->values[(size_t)column * t->rows + row];
}

static void
find_shares(struct table *t)
{
	struct espl__fanova data = { t->rows, t->columns, t->values, t->labels, t->metric };

	espl__fanova(&data, t->shares);
}

static const uint32_t numbers[COLUMNS];

Test(fanova, an_additive_function_has_the_shares_of_its_variances)
{
	struct table *t = make_table(4, ROWS, numbers);

	/* 3x + 2y + z: of the variance 9, 4 and 1 of 14 parts. */
	for (uint32_t i = 0; i < ROWS; i++)
		t->metric[i] = 3 * value_of(t, 0, i) + 2 * value_of(t, 1, i) + value_of(t, 2, i);
	find_shares(t);
	cr_expect_float_eq(t->shares[0], 9 / 14.0, 0.06, "%g", t->shares[0]);
	cr_expect_float_eq(t->shares[1], 4 / 14.0, 0.06, "%g", t->shares[1]);
	cr_expect_float_eq(t->shares[2], 1 / 14.0, 0.04, "%g", t->shares[2]);
	cr_expect_lt(t->shares[3], 0.02, "%g", t->shares[3]);
	free(t);
}

Test(fanova, shares_sum_up_to_one_and_are_the_same_each_time)
{
	struct table *t = make_table(3, 200, numbers);
	double first[COLUMNS];

	for (uint32_t i = 0; i < t->rows; i++)
		t->metric[i] = sin(9 * value_of(t, 0, i)) * value_of(t, 1, i);
	find_shares(t);
	cr_expect_float_eq(t->shares[0] + t->shares[1] + t->shares[2], 1, 1e-12);
	memcpy(first, t->shares, sizeof first);
	find_shares(t);
	cr_expect(memcmp(first, t->shares, sizeof first) == 0);
	free(t);
}

Test(fanova, labels_count_by_what_they_change)
{
	static const uint32_t labels[COLUMNS] = { 3, 2, 5, 0 };
	static const double effects[] = { 0, 1, 4 };
	struct table *t = make_table(3, ROWS, labels);
	/* The variance of the effects is 26/9, that of the second column 1/4. */
	double all = 26 / 9.0 + 0.25;

	for (uint32_t i = 0; i < ROWS; i++)
		t->metric[i] = effects[(size_t)value_of(t, 0, i)] + value_of(t, 1, i);
	find_shares(t);
	cr_expect_float_eq(t->shares[0], 26 / 9.0 / all, 0.04, "%g", t->shares[0]);
	cr_expect_float_eq(t->shares[1], 0.25 / all, 0.04, "%g", t->shares[1]);
	cr_expect_lt(t->shares[2], 0.01, "%g", t->shares[2]);
	free(t);
}

Test(fanova, the_scale_of_the_metric_does_not_matter)
{
	struct table *t = make_table(2, 300, numbers);
	double plain[2];

	for (uint32_t i = 0; i < t->rows; i++)
		t->metric[i] = value_of(t, 0, i) + 0.5 * value_of(t, 1, i);
	find_shares(t);
	memcpy(plain, t->shares, sizeof plain);
	for (uint32_t i = 0; i < t->rows; i++)
		t->metric[i] = 1e140 * t->metric[i] - 3e140;
	find_shares(t);
	cr_expect_float_eq(t->shares[0], plain[0], 1e-3);
	cr_expect_float_eq(t->shares[1], plain[1], 1e-3);
	free(t);
}

Test(fanova, a_constant_metric_has_no_shares)
{
	struct table *t = make_table(3, 100, numbers);

	for (uint32_t i = 0; i < t->rows; i++)
		t->metric[i] = -4.5;
	find_shares(t);
	for (uint32_t n = 0; n < t->columns; n++)
		cr_expect_eq(t->shares[n], 0);
	free(t);
}

Test(fanova, few_rows)
{
	for (uint32_t rows = 0; rows < 3; rows++) {
		struct table *t = make_table(2, rows, numbers);

		for (uint32_t i = 0; i < rows; i++)
			t->metric[i] = i;
		find_shares(t);
		if (rows < 2)
			cr_expect(t->shares[0] == 0 && t->shares[1] == 0, "%u rows", rows);
		else
			cr_expect_float_eq(t->shares[0] + t->shares[1], 1, 1e-12);
		free(t);
	}
}

Test(fanova, one_parameter_explains_all)
{
	struct table *t = make_table(1, 50, numbers);

	for (uint32_t i = 0; i < t->rows; i++)
		t->metric[i] = fabs(value_of(t, 0, i) - 0.3);
	find_shares(t);
	cr_expect_float_eq(t->shares[0], 1, 1e-12);
	free(t);
}

Test(fanova, a_column_of_one_value_explains_nothing)
{
	struct table *t = make_table(2, 100, numbers);

	for (uint32_t i = 0; i < t->rows; i++) {
		t->values[i] = 0.5;
		t->metric[i] = value_of(t, 1, i);
	}
	find_shares(t);
	cr_expect_eq(t->shares[0], 0);
	cr_expect_float_eq(t->shares[1], 1, 1e-12);
	free(t);
}

Test(fanova, more_labels_than_are_told_apart)
{
	static const uint32_t labels[COLUMNS] = { 3 * ESPL__FANOVA_LABELS, 0, 0, 0 };
	struct table *t = make_table(2, 300, labels);

	for (uint32_t i = 0; i < t->rows; i++)
		t->metric[i] = value_of(t, 0, i) < 1 ? 50 : value_of(t, 1, i);
	find_shares(t);
	cr_expect_float_eq(t->shares[0] + t->shares[1], 1, 1e-12);
	cr_expect(t->shares[0] >= 0 && t->shares[1] >= 0);
	free(t);
}
