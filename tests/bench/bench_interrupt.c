/* bench_interrupt.c - interruption predictors: training and one prediction on a market whose price
 * changes every few minutes.  One JSON object a line; processor time of one thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "plugins/allocators/spottune/interrupt.h"

#define MINUTE (60 * ESPL_SECOND)
#define MINUTES (13u * 1440)
#define ASKED 1440u

static double
read_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int
measure_kind(const char *name, espl_predictor_kind kind, const struct espl_price *prices)
{
	struct espl_predictor_options options;
	struct espl_predictor *p = NULL;
	double begin = read_clock(), trained, asked, first = 0;
	uint32_t train = MINUTES - ASKED - 60, i;
	espl_status status;

	espl_predictor_defaults(&options, kind);
	options.margin = (struct espl_margin){ ESPL_MARGIN_UNIFORM, 0, 0.00001, 0.2 };
	if (espl_predictor_open(&options, &p) != ESPL_OK)
		return 1;
	status = espl_predictor_train(p, prices, MINUTES, 0, prices[train].from);
	trained = read_clock() - begin;
	for (i = 0; i <= ASKED && status == ESPL_OK; i++) {
		struct espl_market_case ask = { prices, MINUTES, 0, prices[train + i].from,
			prices[train + i].usd_hour + 50000, NAN, 0 };

		if (i == 1)
			first = read_clock(); /* the first one reads the history */
		if (isnan(espl_predictor_ask(p, &ask)))
			status = ESPL_E_UNKNOWN;
	}
	asked = (read_clock() - first) / ASKED;
	espl_predictor_close(p);
	(void)printf("{\"bench\": \"interrupt\", \"predictor\": \"%s\", \"samples\": %u, "
		     "\"epochs\": %u, \"train_s\": %.3f, \"ask_us\": %.2f}\n",
	    name, options.samples, options.epochs, trained, asked * 1e6);
	return status != ESPL_OK;
}

int
main(void)
{
	struct espl_price *prices = calloc(MINUTES, sizeof *prices);
	uint64_t state = 1;
	int bad = prices == NULL;

	for (uint32_t i = 0; !bad && i < MINUTES; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		prices[i].from = i * MINUTE;
		prices[i].usd_hour = i > 0 ? prices[i - 1].usd_hour : 300000;
		if (state % 5 == 0)
			prices[i].usd_hour = 300000 + (espl_money)(state >> 40) % 150000;
	}
	bad = bad || measure_kind("empirical", ESPL_PREDICT_EMPIRICAL, prices) ||
	    measure_kind("adaptive", ESPL_PREDICT_ADAPTIVE, prices) ||
	    measure_kind("logistic", ESPL_PREDICT_LOGISTIC, prices) ||
	    measure_kind("tributary", ESPL_PREDICT_TRIBUTARY, prices) ||
	    measure_kind("revpred", ESPL_PREDICT_REVPRED, prices);
	free(prices);
	return bad;
}
