/* interrupt.h - how likely a spot machine is to be interrupted within the hour.
 *
 * A predictor answers for one market: the chance that a lease made now with a certain maximum price
 * is interrupted within the next hour because the price exceeds that maximum (strictly), or, for
 * `hazard`, because the provider takes machines back at a certain rate.  Answers depend on the
 * arguments, the options and what was asked before: no clock, no environment, no files.
 *
 * Use: espl_predictor_defaults, then change options; espl_predictor_open in create, one for each
 * market; espl_predictor_train if the kind learns; espl_predictor_ask with rising `now`;
 * espl_predictor_close in destroy.
 */
#ifndef SPOTTUNE_INTERRUPT_H
#define SPOTTUNE_INTERRUPT_H
#include <espalier/fleet.h>
typedef uint32_t espl_predictor_kind;
enum {
	/* the share of one-hour rises in the window before now that exceeded the margin */
	ESPL_PREDICT_EMPIRICAL = 0,
	ESPL_PREDICT_NEVER,    /* 0 */
	ESPL_PREDICT_CONSTANT, /* `rate` */
	ESPL_PREDICT_HAZARD,   /* from logs of interruptions, with a gamma prior; not from prices */
	ESPL_PREDICT_ORACLE,   /* knows the prices after `now`: for evaluation only */
	ESPL_PREDICT_LOGISTIC, /* learns: logistic regression on empirical shares */
	ESPL_PREDICT_TRIBUTARY, /* learns: one LSTM over all inputs (SpotTune's baseline) */
	ESPL_PREDICT_REVPRED,   /* learns: SpotTune's LSTM for the past beside the present */
	/* begins as the empirical share, and learns from each hour that it sees: a logistic
	 * regression on shares, changes of the price and the margin */
	ESPL_PREDICT_ADAPTIVE,
	ESPL_PREDICT_COUNT
};
/* In the order above: as `choices` of an option, its value is the kind. */
#define ESPL_PREDICT_CHOICES \
	"empirical|never|constant|hazard|oracle|logistic|tributary|revpred|adaptive"

/* By how much the maximum price exceeds the current price, in dollars per node-hour. */
typedef uint32_t espl_margin_kind;
enum {
	ESPL_MARGIN_UNIFORM = 0, /* drawn from [low, high) */
	ESPL_MARGIN_RELATIVE,    /* low x the current price */
	ESPL_MARGIN_ALG2         /* SpotTune's Algorithm 2 */
};
struct espl_margin {
	espl_margin_kind kind;
	uint32_t zero;
	double low, high;
};

/* The networks are trained with class weights, which shift their output. */
typedef uint32_t espl_correct;
enum {
	ESPL_CORRECT_UNWEIGHT = 0, /* undo the weights */
	ESPL_CORRECT_PAPER,        /* SpotTune's Eq. 3 as printed: applies them again */
	ESPL_CORRECT_NONE          /* the output as it is */
};

struct espl_predictor_options {
	espl_predictor_kind kind;
	espl_correct correct;      /* networks */
	struct espl_margin margin; /* margins to train with; RevPred as published: ALG2 */
	espl_span window;          /* EMPIRICAL, ADAPTIVE: length of the past that is used */
	double rate;               /* CONSTANT: the probability */
	double prior_rate;   /* HAZARD: interruptions per node-hour that are assumed without data */
	double prior_hours;  /* HAZARD: weight of this prior, in node-hours */
	espl_time utc;       /* instant 0 as nanoseconds since 1970 UTC: hour and weekday */
	uint64_t seed;       /* of training */
	uint32_t log_margin; /* networks: 1: see log(maximum price - price), not the maximum */
	uint32_t hidden;     /* networks: width; a multiple of 8 */
	uint32_t samples;    /* drawn from the training period */
	uint32_t epochs;     /* networks: maximum; the epoch that is best on the last day is kept */
};

struct espl_predictor; /* of one market */

/* What to predict for.  prices are the market's records, oldest first; a price is valid until the
 * next record.  The caller may pass all of them every time, or only those since the previous call:
 * what is needed later is copied.  Records after `now` are used by the oracle alone. */
struct espl_market_case {
	const struct espl_price *prices;
	uint32_t count, zero;
	espl_time now;        /* never less than in the previous call */
	espl_money max_price; /* per node-hour; 0: none, the price cannot end the lease */
	double hazard_hour;   /* HAZARD: as in struct espl_offer; NaN unknown */
	double hazard_hours;
};

/* The margin is that of [0.00001, 0.2) dollars; for RevPred that of Algorithm 2, as published. */
void espl_predictor_defaults(struct espl_predictor_options *options, espl_predictor_kind kind);
/* ESPL_E_CONFIG: an option is outside its range; ESPL_E_NOMEM. */
espl_status espl_predictor_open(const struct espl_predictor_options *options,
    struct espl_predictor **predictor);
void espl_predictor_close(struct espl_predictor *predictor); /* NULL: nothing */

/* Trains a kind that learns (others: nothing happens) on the minutes of [from, until) whose next
 * hour is over by `until`; records before `from` serve as history, and the network of the epoch
 * that is best on the last day is kept.  The same arguments and seed give the same predictor.
 * ESPL_E_UNKNOWN: less than two days and two hours, or the price never or always exceeded the
 * maximum price within the hour; ESPL_E_NOMEM.  The predictor is unchanged then. */
espl_status espl_predictor_train(struct espl_predictor *predictor, const struct espl_price *prices,
    uint32_t count, espl_time from, espl_time until);

/* Returns the probability.  NaN: not known (the kind is not trained, there is less than an hour of
 * history, the prices that the oracle needs are missing, or memory is exhausted).  1 if the current
 * price exceeds max_price. */
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
/* The price that is valid at an instant; -1: none yet. */
espl_money espl_price_at(const struct espl_price *prices, uint32_t count, espl_time at);

#endif
