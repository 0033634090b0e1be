/* outlook.h - the forecast of a run that is under way, as numbers, as JSON and in words.
 *
 * driver/futures.c makes it; `forecast.json` in the run directory keeps the last one.
 */
#ifndef ESPL__OUTLOOK_H
#define ESPL__OUTLOOK_H
#include "base/buf.h"
#include "base/diag.h"

#define ESPL__OUTLOOK_FILE "forecast.json"

/* The median, and the 10th and the 90th percentile: a band of 80 %. */
struct espl__band {
	double low, mid, high;
};
#define ESPL__TREND 16u
struct espl__outlook {
	double made_s;                      /* the run's clock when it was made */
	int64_t zero_s;                     /* UTC second of the run's time 0; 0: a simulated run */
	int64_t futures;                    /* simulated rests of the run */
	struct espl__band ends_s, cost_usd; /* the whole run's, the past included */
	struct espl__band best;             /* lowest or highest value at the end; NaN: none */
	/* chance to be done before the deadline, and within the budget; NaN: there is none */
	double keeps_deadline, keeps_budget;
	double fails; /* of the futures, those in which the run fails */
	/* The last stretch of time, about as long as the rest will be (or all there was), and what
	 * it cost and improved the best by, relative to it; NaN: there was no best before. */
	double past_s, past_usd, past_gain;
	/* the best ever at the ends of equal parts of the past; NaN: there was none yet */
	double trend[ESPL__TREND];
	double rest_s, rest_usd, rest_gain; /* medians; rest_gain: the mean */
};
/* A JSON object, without a newline. */
void espl__outlook_json(const struct espl__outlook *, struct espl__buf *);
/* The last one of a run directory, malloc'd; NULL: there is none. */
struct espl__outlook *espl__outlook_read(const char *dir);
/* "ends about 14:55, $41"; "ends after about 2h 10m, $41", where no clock is known. */
void espl__outlook_sentence(const struct espl__outlook *, struct espl__buf *);
/* A few aligned lines. */
void espl__outlook_text(const struct espl__outlook *, struct espl__buf *);
#endif
