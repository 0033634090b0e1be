/* market.c - espalier-market: interruption predictors on recorded spot prices.
 *
 * Each market of the file is divided: a predictor that learns sees only the first days, and every
 * minute after them is predicted. Each result is printed with the majority and the training rate:
 * where interruptions are rare, a predictor that says "never" is right most of the time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/allocators/spottune/interrupt.h"

#include "base/assert.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/text.h"
#include "cli/cli.h"
#include "input/prices.h"
#include "report/totals.h"

#define MINUTE (60 * ESPL_SECOND)
#define HOUR (60 * MINUTE)
#define BINS 10u
#define STEPS 1000u /* of a threshold */

struct judging {
	const char *kind_name;
	struct espl_predictor_options options;
	struct espl_margin margin; /* asked for */
	double rate;               /* of predictor constant; NaN: the training rate */
	espl_span train;
	uint64_t draws;       /* state of the random margins */
	struct espl__buf csv; /* predictions, if they are exported */
	int export;
};
/* Predictions against what happened. */
struct score {
	uint32_t count, yes, unknown;
	uint32_t hit, alarm, right;    /* p > 0.5: rightly, at all; decisions that were right */
	uint32_t best_hit, best_alarm; /* p > threshold */
	double threshold;              /* that gave the highest F1 in the training period */
	double loss, brier, rate_loss, rate_brier;
	double rate; /* of positives in the training period */
	struct bin {
		uint32_t count, yes;
		double sum;
	} bins[BINS];
};

static espl_status
read_kind(struct judging *j, const char *name, struct espl__diag *diag)
{
	const char *names = ESPL_PREDICT_CHOICES;
	size_t length = strlen(name);

	for (espl_predictor_kind kind = 0; kind < ESPL_PREDICT_COUNT; kind++) {
		size_t n = strcspn(names, "|");

		if (n == length && strncmp(names, name, n) == 0) {
			espl_predictor_defaults(&j->options, kind);
			j->kind_name = name;
			return ESPL_OK;
		}
		names += n + (names[n] == '|');
	}
	(void)espl__fail(diag, ESPL_E_CONFIG, "--predictor: '%s' is not a predictor", name);
	espl__hint(diag, "the predictors are " ESPL_PREDICT_CHOICES);
	return ESPL_E_CONFIG;
}

static espl_status
read_margin(const char *flag, const char *text, struct espl_margin *margin, struct espl__diag *diag)
{
	struct espl_margin m = { ESPL_MARGIN_RELATIVE, 0, 0.1, 0 };
	int used = -1;

	if (sscanf(text, "uniform:%lf,%lf%n", &m.low, &m.high, &used) == 2)
		m.kind = ESPL_MARGIN_UNIFORM;
	else
		(void)sscanf(text, "relative:%lf%n", &m.low, &used);
	if (used != (int)strlen(text) || !(m.low >= 0 && m.low < 1e5) ||
	    (m.kind == ESPL_MARGIN_UNIFORM && !(m.high > m.low && m.high < 1e5))) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "--%s: '%s' is not a margin", flag, text);
		espl__hint(diag,
		    "use uniform:A,B (dollars, A < B) or relative:X (times the price)%s",
		    strcmp(flag, "margin") == 0 ? "" : ", alg2 or same");
		return ESPL_E_CONFIG;
	}
	*margin = m;
	return ESPL_OK;
}

/* The margins of the questions and of the training: published RevPred has its own. */
static espl_status
read_margins(struct judging *j, const struct espl__args *args, struct espl__diag *diag)
{
	const char *asked = espl__arg(args, "margin"), *trained = espl__arg(args, "train-margin");
	espl_status status =
	    read_margin("margin", asked != NULL ? asked : "relative:0.1", &j->margin, diag);

	if (status != ESPL_OK)
		return status;
	if (trained == NULL ? j->options.kind == ESPL_PREDICT_REVPRED
			    : strcmp(trained, "alg2") == 0) {
		j->options.margin.kind = ESPL_MARGIN_ALG2;
		return ESPL_OK;
	}
	if (trained == NULL || strcmp(trained, "same") == 0) {
		j->options.margin = j->margin;
		return ESPL_OK;
	}
	return read_margin("train-margin", trained, &j->options.margin, diag);
}

static espl_status
read_rest(struct judging *j, const struct espl__args *args, struct espl__diag *diag)
{
	static const char *const names[] = { "unweight", "paper", "none" };
	const char *correct = espl__arg(args, "correct"), *rate = espl__arg(args, "rate");
	uint32_t i = 0;

	while (correct != NULL && i < 3 && strcmp(names[i], correct) != 0)
		i++;
	if (i == 3)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "--correct: '%s' is not unweight, paper or none", correct);
	j->options.correct = i;
	j->options.log_margin = espl__arg(args, "log-margin") != NULL;
	j->rate = NAN;
	if (rate != NULL &&
	    (espl__parse_real(rate, &j->rate) != 0 || !(j->rate >= 0 && j->rate <= 1)))
		return espl__fail(diag, ESPL_E_CONFIG, "--rate: '%s' is not a probability", rate);
	return ESPL_OK;
}

static double
draw_uniform(uint64_t *state)
{
	return (double)(espl__split_mix(state) >> 11) * 0x1p-53;
}

static void
make_case(struct judging *j, const struct espl__price_series *s, espl_time now,
    struct espl_market_case *ask)
{
	espl_money price = espl_price_at(s->prices, s->count, now);
	double usd = j->margin.kind == ESPL_MARGIN_RELATIVE
	    ? j->margin.low * (double)price / (double)ESPL_USD
	    : j->margin.low + (j->margin.high - j->margin.low) * draw_uniform(&j->draws);

	ESPL__ASSERT(price >= 0);
	*ask = (struct espl_market_case){ .prices = s->prices,
		.count = s->count,
		.now = now,
		.max_price = price + llround(usd * (double)ESPL_USD),
		.hazard_hour = NAN };
	if (ask->max_price == 0)
		ask->max_price = 1; /* a free machine: 0 would mean no maximum */
}

static double
find_loss(double p, int yes)
{
	double q = yes ? p : 1 - p;

	return -log(q < 1e-3 ? 1e-3 : q);
}

static void
add_prediction(struct score *score, double p, int yes)
{
	uint32_t bin;

	if (isnan(p)) {
		score->unknown++;
		return;
	}
	bin = p >= 1 ? BINS - 1 : (uint32_t)(p * BINS);
	score->count++;
	score->yes += yes != 0;
	score->alarm += p > 0.5;
	score->hit += p > 0.5 && yes;
	score->right += (p > 0.5) == (yes != 0);
	score->best_alarm += p > score->threshold;
	score->best_hit += p > score->threshold && yes;
	score->loss += find_loss(p, yes);
	score->brier += (p - yes) * (p - yes);
	score->rate_loss += find_loss(score->rate, yes);
	score->rate_brier += (score->rate - yes) * (score->rate - yes);
	score->bins[bin].count++;
	score->bins[bin].yes += yes != 0;
	score->bins[bin].sum += p;
}

static void
export_minute(struct judging *j, const struct espl__price_series *s,
    const struct espl_market_case *ask, double got, int yes)
{
	espl__print(&j->csv, "%.3f,", (double)ask->now * 1e-9);
	espl__print_csv(&j->csv, s->offer, "");
	espl__print(&j->csv, ",");
	espl__print_csv(&j->csv, s->zone, "");
	espl__print(&j->csv, ",%.6f,", (double)ask->max_price / (double)ESPL_USD);
	if (!isnan(got))
		espl__print(&j->csv, "%.6g", got);
	espl__print(&j->csv, ",%d\n", yes);
}

/* The threshold with the highest F1; steps: predictions by size, all and positives. */
static double
choose_threshold(uint32_t steps[2][STEPS])
{
	uint32_t all = 0, alarm = 0, hit = 0;
	double best = 0, at = 0.5;

	for (uint32_t i = 0; i < STEPS; i++)
		all += steps[1][i];
	for (uint32_t i = STEPS; i-- > 1;) {
		alarm += steps[0][i];
		hit += steps[1][i];
		if (alarm > 0 && 2.0 * hit / (alarm + all) > best) {
			best = 2.0 * hit / (alarm + all);
			at = (double)i / STEPS;
		}
	}
	return at;
}

/* What the training period shows: predictors that do not learn from prices know no more. */
static void
take_rate(struct judging *j, const struct score *score, struct espl_predictor_options *options,
    struct espl_market_case *ask)
{
	options->rate = isnan(j->rate) ? score->rate : j->rate;
	ask->hazard_hour = -log1p(-(score->rate < 0.999 ? score->rate : 0.999));
	ask->hazard_hours = (double)j->train / HOUR;
}

/* The training period: its rate, and a threshold. Both predictors are called in order of time; each
 * market has its own margins, the same for every predictor. */
static void
judge_training(struct judging *j, const struct espl__price_series *s, struct espl_predictor *p,
    struct espl_predictor *oracle, struct score *score)
{
	static uint32_t steps[2][STEPS];
	espl_time begin = s->prices[0].from + MINUTE, until = begin + j->train;
	uint32_t before = 0, yes_before = 0;
	struct espl_market_case ask;

	memset(steps, 0, sizeof steps);
	for (espl_time now = begin; now + HOUR <= until; now += MINUTE, before++) {
		double got;
		int yes;

		make_case(j, s, now, &ask);
		got = espl_predictor_ask(p, &ask);
		yes = espl_predictor_ask(oracle, &ask) > 0;
		yes_before += yes != 0;
		if (isnan(got))
			continue;
		got = got < 1 ? got * STEPS : STEPS - 1;
		steps[0][(uint32_t)got]++;
		steps[1][(uint32_t)got] += yes != 0;
	}
	score->rate = before > 0 ? (double)yes_before / before : 0;
	score->threshold = choose_threshold(steps);
}

static void
judge_minutes(struct judging *j, const struct espl__price_series *s, struct espl_predictor *p,
    struct espl_predictor *oracle, struct score *score)
{
	espl_time until = s->prices[0].from + MINUTE + j->train;
	espl_time end = s->prices[s->count - 1].from - HOUR;
	struct espl_predictor_options fixed = j->options;
	struct espl_market_case ask, told = { .hazard_hour = NAN };

	take_rate(j, score, &fixed, &told);
	for (espl_time now = until + HOUR; now <= end; now += MINUTE) {
		double got;
		int yes;

		make_case(j, s, now, &ask);
		ask.hazard_hour = told.hazard_hour;
		ask.hazard_hours = told.hazard_hours;
		got =
		    fixed.kind == ESPL_PREDICT_CONSTANT ? fixed.rate : espl_predictor_ask(p, &ask);
		yes = espl_predictor_ask(oracle, &ask) > 0;
		add_prediction(score, got, yes);
		if (j->export)
			export_minute(j, s, &ask, got, yes);
	}
}

/* "" or why this market cannot be judged. */
static const char *
judge_market(struct judging *j, const struct espl__price_series *s, struct score *score)
{
	struct espl_predictor_options future;
	struct espl_predictor *p = NULL, *oracle = NULL;
	espl_time begin = s->prices[0].from, until = begin + j->train;
	espl_status status;

	*score = (struct score){ .count = 0 };
	if (s->prices[s->count - 1].from - until < 3 * HOUR)
		return "its prices end less than 3 hours after the training period";
	espl_predictor_defaults(&future, ESPL_PREDICT_ORACLE);
	if (espl_predictor_open(&future, &oracle) != ESPL_OK ||
	    espl_predictor_open(&j->options, &p) != ESPL_OK) {
		espl_predictor_close(oracle);
		return "out of memory";
	}
	status = espl_predictor_train(p, s->prices, s->count, begin, until);
	if (status == ESPL_OK) {
		judge_training(j, s, p, oracle, score);
		judge_minutes(j, s, p, oracle, score);
	}
	espl_predictor_close(p);
	espl_predictor_close(oracle);
	if (status == ESPL_E_UNKNOWN)
		return "nothing to learn: fewer than two days of training, or one outcome only";
	if (status != ESPL_OK)
		return "out of memory";
	if (score->count == 0)
		return "the predictor has no answer for any minute";
	return score->yes == 0 ? "nothing to judge: no interruption in the test period" : "";
}

static double
find_f1(const struct score *s, uint32_t hit, uint32_t alarm)
{
	return alarm + s->yes > 0 ? 2.0 * hit / (alarm + s->yes) : 0;
}

static double
find_majority(const struct score *s)
{
	uint32_t no = s->count - s->yes;

	return (double)(no > s->yes ? no : s->yes) / s->count;
}

static void
print_text(struct espl__buf *b, const struct espl__price_series *s, const struct score *r,
    const char *why)
{
	double n = r->count;

	espl__print_clean(b, s->offer);
	espl__print(b, " ");
	espl__print_clean(b, s->zone);
	espl__print(b, "\n");
	if (r->count > 0) {
		espl__print(b,
		    "  %u minutes, %.2f %% interrupted within the hour (training period: %.2f "
		    "%%)\n"
		    "  accuracy %.3f (always the majority: %.3f), F1 %.3f (above %.3f: %.3f)\n"
		    "  log loss %.4f, Brier %.4f (always the training rate: %.4f, %.4f)\n",
		    r->count, 100 * r->yes / n, 100 * r->rate, r->right / n, find_majority(r),
		    find_f1(r, r->hit, r->alarm), r->threshold,
		    find_f1(r, r->best_hit, r->best_alarm), r->loss / n, r->brier / n,
		    r->rate_loss / n, r->rate_brier / n);
		if (r->unknown > 0)
			espl__print(b, "  %u minutes without an answer\n", r->unknown);
	}
	if (why[0] != '\0')
		espl__print(b, "  %s\n", why);
	else
		espl__print(b, "  predicted    mean   happened   minutes\n");
	for (uint32_t i = 0; why[0] == '\0' && i < BINS; i++)
		if (r->bins[i].count > 0)
			espl__print(b, "  %3u-%3u %%   %.3f   %.3f   %9u\n", i * 10, i * 10 + 10,
			    r->bins[i].sum / r->bins[i].count,
			    (double)r->bins[i].yes / r->bins[i].count, r->bins[i].count);
}

static void
print_json(struct espl__buf *b, const struct judging *j, const struct espl__price_series *s,
    const struct score *r, const char *why)
{
	double n = r->count > 0 ? r->count : NAN;

	espl__json_open(b, NULL, '{');
	espl__json_text(b, "event", "market");
	espl__json_text(b, "offer", s->offer);
	espl__json_text(b, "zone", s->zone);
	espl__json_text(b, "predictor", j->kind_name);
	espl__json_int(b, "minutes", r->count);
	espl__json_int(b, "unknown", r->unknown);
	espl__json_int(b, "interrupted", r->yes);
	espl__json_real(b, "training_rate", r->rate);
	espl__json_real(b, "accuracy", r->right / n);
	espl__json_real(b, "majority", r->count > 0 ? find_majority(r) : NAN);
	espl__json_real(b, "f1", r->count > 0 ? find_f1(r, r->hit, r->alarm) : NAN);
	espl__json_real(b, "threshold", r->threshold);
	espl__json_real(b, "threshold_f1",
	    r->count > 0 ? find_f1(r, r->best_hit, r->best_alarm) : NAN);
	espl__json_real(b, "log_loss", r->loss / n);
	espl__json_real(b, "brier", r->brier / n);
	espl__json_real(b, "rate_log_loss", r->rate_loss / n);
	espl__json_real(b, "rate_brier", r->rate_brier / n);
	espl__json_open(b, "calibration", '[');
	for (uint32_t i = 0; i < BINS; i++)
		if (r->bins[i].count > 0) {
			espl__json_open(b, NULL, '{');
			espl__json_real(b, "mean", r->bins[i].sum / r->bins[i].count);
			espl__json_real(b, "happened", (double)r->bins[i].yes / r->bins[i].count);
			espl__json_int(b, "minutes", r->bins[i].count);
			espl__print(b, "}");
		}
	espl__print(b, "]");
	espl__json_text(b, "why", why[0] != '\0' ? why : NULL);
	espl__print(b, "}\n");
}

static espl_status
judge_file(struct judging *j, const struct espl__args *args, const struct espl__price_file *file,
    struct espl__buf *to, struct espl__diag *diag)
{
	const char *offer = espl__arg(args, "offer"), *zone = espl__arg(args, "zone");
	uint32_t found = 0;

	for (uint32_t i = 0; i < file->count; i++) {
		const struct espl__price_series *s = &file->list[i];
		struct score score;
		const char *why;

		if ((offer != NULL && strcmp(offer, s->offer) != 0) ||
		    (zone != NULL && strcmp(zone, s->zone) != 0))
			continue;
		found++;
		why = judge_market(j, s, &score);
		if (espl__arg(args, "json") != NULL)
			print_json(to, j, s, &score, why);
		else
			print_text(to, s, &score, why);
	}
	if (found == 0)
		return espl__fail(diag, ESPL_E_CONFIG, "'%s' has no prices of such a market",
		    args->positional[0]);
	if (j->export)
		return espl__cli_write_text(espl__arg(args, "output"), &j->csv, diag);
	return ESPL_OK;
}

static int
market_run(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__price_file file = { NULL, 0, 0, 0 };
	struct judging j = { .export = espl__arg(args, "output") != NULL };
	struct espl__buf text = { NULL, 0, 0 };
	const char *kind = espl__arg(args, "predictor");
	int64_t days = 9, seed = 1;
	espl_status status = read_kind(&j, kind != NULL ? kind : "adaptive", &diag);
	int result;

	if (status == ESPL_OK)
		status = read_margins(&j, args, &diag);
	if (status == ESPL_OK)
		status = read_rest(&j, args, &diag);
	if (status == ESPL_OK)
		status = espl__arg_number(args, "train-days", 1, 3650, 9, &days, &diag);
	if (status == ESPL_OK)
		status = espl__arg_number(args, "seed", 0, INT64_MAX, 1, &seed, &diag);
	j.train = days * 24 * HOUR;
	j.options.seed = (uint64_t)seed;
	j.draws = (uint64_t)seed;
	if (j.export)
		espl__print(&j.csv, "time,offer,zone,max_price,probability,interrupted\n");
	if (status == ESPL_OK)
		status = espl__prices_read(args->positional[0], &file, &diag);
	if (status == ESPL_OK)
		status = judge_file(&j, args, &file, &text, &diag);
	result = status == ESPL_OK ? espl__cli_print(&text) : espl__cli_fail(&diag);
	espl__buf_free(&text);
	espl__buf_free(&j.csv);
	espl__prices_free(&file);
	return result;
}

static const struct espl__flag market_flags[] = { { "offer", 0, "NAME",
						      "only this offer (instance type)" },
	{ "zone", 0, "ZONE", "only this zone" },
	{ "predictor", 'p', "KIND",
	    "adaptive (default), empirical, never, constant, hazard, oracle, logistic, tributary "
	    "or "
	    "revpred" },
	{ "train-days", 0, "N", "days for training at the beginning (default: 9)" },
	{ "margin", 'm', "MARGIN",
	    "maximum price above the current price: uniform:A,B dollars or relative:X times the "
	    "price (default: relative:0.1)" },
	{ "train-margin", 0, "MARGIN",
	    "margins that networks are trained on: as --margin, alg2 (default of revpred) or same "
	    "(default of the others)" },
	{ "log-margin", 0, NULL, "networks see the margin's logarithm, not the maximum price" },
	{ "correct", 0, "HOW",
	    "class weights of networks: unweight (default), paper (Eq. 3 as printed) or none" },
	{ "rate", 0, "P", "the probability of predictor constant (default: the training rate)" },
	{ "seed", 0, "N", "random seed of margins and training (default: 1)" },
	{ "output", 'o', "OUT", "also write each prediction to this CSV file" },
	{ "json", 'j', NULL, "print only JSON on standard output" }, { NULL, 0, NULL, NULL } };
static const struct espl__verb market = { "market",
	"FILE [--offer NAME] [--zone ZONE] [--predictor KIND] [--train-days N] [--margin MARGIN] "
	"[--seed N] [-o OUT] [--json]",
	"evaluate interruption predictors on recorded spot prices",
	"FILE is a price file as for cloud sim, or a provider's export (CSV).  Each market is\n"
	"predicted minute by minute after the training period: is a machine leased now "
	"interrupted\n"
	"within an hour because the price exceeds its maximum?  Prints accuracy, F1, log loss,\n"
	"Brier score and calibration beside those of the majority and of the training rate.\n",
	market_flags, 1, 1, market_run };

int
main(int argc, char **argv)
{
	return espl__main_one(&market, argc, argv);
}
