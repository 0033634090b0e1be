/* Predictors that learn, on prices from a process whose one-hour probabilities are known.
 *
 * Calm and rough days alternate at random.  In each minute the price may jump above the base for
 * that minute, rarely in calm and often in rough times, by an exponential amount.  In rough times
 * the base jitters, so that the hour before shows the state. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include "plugins/allocators/spottune/interrupt.h"

#define MINUTE (60 * ESPL_SECOND)
#define DAY 1440u
#define BASE 0.5
#define SIZE 0.1 /* mean jump in dollars */

struct process {
	double jumps[2];  /* a minute, by state */
	double leaves[2]; /* the state, a minute */
};
static const struct process fast = { { 0.0005, 0.02 }, { 1.0 / (3 * DAY), 1.0 / DAY } };
static const struct process slow = { { 0.01, 0.05 }, { 1.0 / (40 * DAY), 1.0 / (40 * DAY) } };

struct made {
	const struct process *process;
	struct espl_price *prices; /* one a minute */
	uint8_t *rough, *high;     /* state; whether a jump is there */
	uint32_t count;
};

static uint64_t state;

static double
draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)((state * UINT64_C(0x2545f4914f6cdd1d)) >> 11) * 0x1p-53;
}

static struct made
make_market(const struct process *process, uint32_t days, uint64_t seed)
{
	struct made m = { .process = process, .count = days * DAY };
	uint8_t rough = 0;

	state = seed;
	m.prices = calloc(m.count, sizeof *m.prices);
	m.rough = calloc(m.count, 1);
	m.high = calloc(m.count, 1);
	for (uint32_t i = 0; i < m.count; i++) {
		double price = BASE;

		if (i > 0 && draw() < process->leaves[rough])
			rough = !rough;
		m.rough[i] = rough;
		if (rough)
			price -= 0.001 * (double)(i % 3);
		if (draw() < process->jumps[rough]) {
			price = BASE - SIZE * log(1 - draw()) + 0.0001;
			m.high[i] = 1;
		}
		m.prices[i].from = (espl_time)i * MINUTE;
		m.prices[i].usd_hour = llround(price * ESPL_USD);
	}
	return m;
}

/* Of a jump above BASE + margin within 60 minutes of minute i: the state is a chain of two. */
static double
know_probability(const struct made *m, uint32_t i, double above)
{
	double none[2] = { 1, 1 };

	for (uint32_t k = 0; k < 60; k++) {
		double next[2];

		for (uint32_t s = 0; s < 2; s++) {
			double quiet[2];

			for (uint32_t to = 0; to < 2; to++)
				quiet[to] =
				    (1 - m->process->jumps[to] * exp(-above / SIZE)) * none[to];
			next[s] = (1 - m->process->leaves[s]) * quiet[s] +
			    m->process->leaves[s] * quiet[!s];
		}
		none[0] = next[0];
		none[1] = next[1];
	}
	return 1 - none[m->rough[i]];
}

struct judged {
	double bayes, predicted, rate; /* log losses */
	double trained;                /* share of positives in the training period */
};

static double
lose(double p, int yes)
{
	p = p < 1e-3 ? 1e-3 : p > 1 - 1e-3 ? 1 - 1e-3 : p;
	return -log(yes ? p : 1 - p);
}

static struct judged
judge(const struct made *m, struct espl_predictor *p, uint32_t train_days)
{
	struct judged sum = { .bayes = 0 };
	uint32_t from = train_days * DAY + 60, n = 0, yes_before = 0, before = 0;

	for (uint32_t i = 3 * DAY; i + 60 < m->count; i += 7) {
		double margin = 0.01 + 0.19 * draw(), known, got;
		espl_money price = m->prices[i].usd_hour;
		struct espl_market_case ask = { m->prices, m->count, 0, m->prices[i].from,
			price + llround(margin * ESPL_USD), NAN, 0 };
		int yes = 0;

		for (uint32_t k = i + 1; k <= i + 60; k++)
			yes |= m->prices[k].usd_hour > ask.max_price;
		if (i + 60 < from) {
			yes_before += yes != 0;
			before++;
			continue;
		}
		sum.trained = (double)yes_before / before;
		known = know_probability(m, i, (double)ask.max_price / ESPL_USD - BASE);
		got = espl_predictor_ask(p, &ask);
		cr_assert(got >= 0 && got <= 1, "%g", got);
		sum.bayes += lose(known, yes);
		sum.predicted += lose(got, yes);
		sum.rate += lose(sum.trained, yes);
		n++;
	}
	sum.bayes /= n;
	sum.predicted /= n;
	sum.rate /= n;
	return sum;
}

static struct judged
try_kind(const struct process *process, uint64_t seed, espl_predictor_kind kind, int log_margin,
    uint32_t samples, uint32_t epochs)
{
	struct made m = make_market(process, 60, seed);
	struct espl_predictor_options options;
	struct espl_predictor *p = NULL;
	struct judged result;

	espl_predictor_defaults(&options, kind);
	options.margin = (struct espl_margin){ ESPL_MARGIN_UNIFORM, 0, 0.01, 0.2 };
	options.log_margin = log_margin;
	options.samples = samples;
	options.epochs = epochs;
	options.seed = 5;
	cr_assert_eq(espl_predictor_open(&options, &p), ESPL_OK);
	cr_assert_eq(espl_predictor_train(p, m.prices, m.count, 0, m.prices[40 * DAY].from),
	    ESPL_OK);
	result = judge(&m, p, 40);
	cr_log_info("kind %u, seed %llu: Bayes %.4f, predicted %.4f, training rate %.4f\n", kind,
	    (unsigned long long)seed, result.bayes, result.predicted, result.rate);
	cr_expect_lt(result.predicted, result.rate, "kind %u: %g, rate %g, Bayes %g", kind,
	    result.predicted, result.rate, result.bayes);
	espl_predictor_close(p);
	free(m.prices);
	free(m.rough);
	free(m.high);
	return result;
}

/* Log loss to that of Bayes, the mean of several markets. */
static double
compare_kind(const struct process *process, espl_predictor_kind kind)
{
	double sum = 0;

	for (uint64_t seed = 99; seed < 99 + 4; seed++) {
		struct judged j = try_kind(process, seed, kind, 0, 5760, 1);

		sum += j.predicted / j.bayes / 4;
	}
	cr_log_info("kind %u: %.3f of Bayes\n", kind, sum);
	return sum;
}

/* The default, without any training. */
Test(learn, adaptive_is_within_5_percent_of_the_best_possible)
{
	cr_expect_lt(compare_kind(&fast, ESPL_PREDICT_ADAPTIVE), 1.05);
	cr_expect_lt(compare_kind(&slow, ESPL_PREDICT_ADAPTIVE), 1.05);
}

Test(learn, logistic_is_within_15_percent)
{
	cr_expect_lt(compare_kind(&fast, ESPL_PREDICT_LOGISTIC), 1.15);
}

/* A share of two days follows what changes more slowly than that. */
Test(learn, empirical_follows_a_slow_market)
{
	double late = compare_kind(&fast, ESPL_PREDICT_EMPIRICAL);

	cr_expect_lt(compare_kind(&slow, ESPL_PREDICT_EMPIRICAL), 1.1);
	cr_expect_gt(late, 1.2, "%g: the fast process is no test of the others", late);
}

Test(learn, revpred_is_within_15_percent)
{
	struct judged j;

	if (getenv("ESPALIER_TEST_NIGHT") == NULL)
		return; /* half a minute; by day it is trained below, and is the same twice */
	j = try_kind(&fast, 99, ESPL_PREDICT_REVPRED, 1, 2880, 6);
	cr_expect_lt(j.predicted, 1.15 * j.bayes, "%g, Bayes %g", j.predicted, j.bayes);
}

Test(learn, tributary)
{
	struct judged j;

	if (getenv("ESPALIER_TEST_NIGHT") ==
	    NULL) /* half a minute, most of it what revpred does, too */
		return;
	j = try_kind(&fast, 99, ESPL_PREDICT_TRIBUTARY, 0, 2880, 6);

	cr_expect_lt(j.predicted, 1.2 * j.bayes, "%g, Bayes %g", j.predicted, j.bayes);
}

/* The same arguments and seed give the same predictor, another seed another one. */
Test(learn, deterministic)
{
	static const espl_predictor_kind kinds[] = { ESPL_PREDICT_LOGISTIC, ESPL_PREDICT_TRIBUTARY,
		ESPL_PREDICT_REVPRED, ESPL_PREDICT_ADAPTIVE };
	struct made m = make_market(&fast, 12, 99);

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		double got[3];

		for (uint32_t k = 0; k < 3; k++) {
			struct espl_market_case ask = { m.prices, m.count, 0,
				m.prices[10 * DAY].from, m.prices[10 * DAY].usd_hour + 50000, NAN,
				0 };
			struct espl_predictor_options options;
			struct espl_predictor *p = NULL;

			espl_predictor_defaults(&options, kinds[i]);
			options.margin = (struct espl_margin){ ESPL_MARGIN_UNIFORM, 0, 0.01, 0.2 };
			options.samples = 256;
			options.epochs = 2;
			options.seed = k < 2 ? 5 : 6;
			cr_assert_eq(espl_predictor_open(&options, &p), ESPL_OK);
			cr_assert_eq(espl_predictor_train(p, m.prices, m.count, 0,
					 m.prices[9 * DAY].from),
			    ESPL_OK);
			got[k] = espl_predictor_ask(p, &ask);
			cr_assert(got[k] >= 0 && got[k] <= 1);
			espl_predictor_close(p);
		}
		cr_expect_eq(got[0], got[1], "kind %u", kinds[i]);
		cr_expect_neq(got[0], got[2], "kind %u", kinds[i]);
	}
	free(m.prices);
	free(m.rough);
	free(m.high);
}
