/* espalier kit: interrupt.h - how likely a spot machine is to be interrupted within the hour.
 *
 * A predictor answers for one market: the chance that a lease made now with a certain maximum
 * price is interrupted within the next hour because the price exceeds that maximum (strictly), or,
 * for `hazard`, because the provider takes machines back at a certain rate.  Answers depend on the
 * arguments, the options and what was asked before: no clock, no environment, no files.
 *
 * Use: espl_predictor_defaults, change what is wanted, espl_predictor_open in create, one for each
 * market; espl_predictor_ask with rising `now`; espl_predictor_close in destroy.
 */
#ifndef ESPALIER_KIT_INTERRUPT_H
#define ESPALIER_KIT_INTERRUPT_H
#include <espalier/fleet.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t espl_predictor_kind;
enum {
	/* the share of one-hour rises in the window before now that exceeded the margin */
	ESPL_PREDICT_EMPIRICAL = 0,
	ESPL_PREDICT_NEVER,    /* 0 */
	ESPL_PREDICT_CONSTANT, /* `rate` */
	ESPL_PREDICT_HAZARD,   /* from logs of interruptions, with a gamma prior; not from prices */
	ESPL_PREDICT_ORACLE    /* knows the prices after `now`: for evaluation only */
};
/* In the order above: as `choices` of an option, its value is the kind. */
#define ESPL_PREDICT_CHOICES "empirical|never|constant|hazard|oracle"

/* The networks are trained with class weights, which shift their output. */
typedef uint32_t espl_correct;
enum {
	ESPL_CORRECT_UNWEIGHT = 0, /* undo the weights */
	ESPL_CORRECT_PAPER,        /* SpotTune's Eq. 3 as printed: applies them again */
	ESPL_CORRECT_NONE          /* the output as it is */
};

struct espl_predictor_options {
	espl_predictor_kind kind;
	uint32_t zero;
	espl_span window;   /* EMPIRICAL: how much of the past counts */
	double rate;        /* CONSTANT: the probability */
	double prior_rate;  /* HAZARD: interruptions per node-hour where nothing is known */
	double prior_hours; /* HAZARD: node-hours that the prior counts for */
};

struct espl_predictor; /* of one market */

/* One question.  prices are the market's records, oldest first; a record holds until the next one.
 * The caller may pass all of them every time, or only those since the previous question: what is
 * needed later is copied.  Records after `now` are used by the oracle alone. */
struct espl_market_case {
	const struct espl_price *prices;
	uint32_t count, zero;
	espl_time now;        /* never less than in the previous question */
	espl_money max_price; /* per node-hour; 0: none, the price cannot end the lease */
	double hazard_hour;   /* HAZARD: as in struct espl_offer; NaN unknown */
	double hazard_hours;
};

void espl_predictor_defaults(struct espl_predictor_options *options, espl_predictor_kind kind);
/* ESPL_E_CONFIG: an option is outside its range; ESPL_E_NOMEM. */
espl_status espl_predictor_open(const struct espl_predictor_options *options,
    struct espl_predictor **predictor);
void espl_predictor_close(struct espl_predictor *predictor); /* NULL: nothing */

/* The probability; NaN: not known (there is less than an hour of history
 * before the last one, the future that the oracle needs is missing, or out of memory).  1 if the
 * present price exceeds max_price. */
double espl_predictor_ask(struct espl_predictor *predictor, const struct espl_market_case *ask);

/* ---- shared with allocators and evaluations ------------------------------------------------- */

/* SpotTune's Algorithm 2, as printed: the maximum price in dollars for the last of these prices,
 * one a minute, of which `count` >= 3 are given (61: the past hour).  Of the changes between
 * minutes, without the one into the present, the smallest and largest fifth are left out. */
double espl_alg2_max_price(const double *prices, uint32_t count);
/* The same from records, on the minutes now - 60 min, ..., now; NaN: no record is old enough. */
double espl_alg2_at(const struct espl_price *prices, uint32_t count, espl_time now);
/* A network's output corrected for class weights; positives: their share of the training set. */
double espl_correct_weights(double output, double positives, espl_correct correct);
/* The price in force at an instant; -1: none yet. */
espl_money espl_price_at(const struct espl_price *prices, uint32_t count, espl_time at);

#ifdef __cplusplus
}
#endif
#endif
