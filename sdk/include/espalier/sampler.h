/* espalier SDK: sampler.h - which configurations are worth trying, whatever schedules them.
 *
 * A sampler is chosen inside an algorithm's group (sampler = { use = "gp"; };).  The algorithm
 * decides when a configuration starts and how far it trains, and asks the sampler which; it tells
 * the sampler of every configuration that starts, and of every result.  A sampler does not save its
 * state: the same calls in the same order make the same answers (ESPL_CAP_PURE).
 *
 * The host's services are those of an algorithm: ESPL_SPACE, ESPL_EXPERIMENT, ESPL_HISTORY (the
 * observations of an earlier run), ESPL_FIRST.
 */
#ifndef ESPALIER_SAMPLER_H
#define ESPALIER_SAMPLER_H
#include <espalier/abi.h>
#include <espalier/host.h>
#include <espalier/space.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t espl_sample_state;
enum {
	ESPL_SAMPLE_PENDING = 1, /* it starts now; what comes of it is not known */
	ESPL_SAMPLE_SEEN,        /* it has this loss after this iteration, and may go on later */
	ESPL_SAMPLE_FAILED       /* it failed for good */
};

/* What is known of one configuration; told again whenever more is known. */
struct espl_sample {
	uint32_t size;
	espl_sample_state state;
	uint64_t trial;        /* its id, the same each time */
	uint64_t iteration;    /* SEEN, FAILED: up to which it trained; PENDING: to which it will */
	double loss;           /* SEEN: the objective, lower is better; NaN: not a number */
	double cost;           /* GPU-seconds so far; NaN: not known */
	const double *values;  /* the configuration */
	const double *metrics; /* raw, in the experiment's order; NULL: not known */
	uint32_t metric_count;
	uint32_t zero;
	/* SEEN: the objective itself, where loss says that it misses what the user requires
	 * (ESPL_LOSS_UNMET), and by how much: as in espl_trial; NaN: not known */
	double objective, shortfall;
};

/* What is asked for. */
struct espl_wish {
	uint32_t size;
	uint32_t count;     /* how many configurations, which will be pending together */
	uint64_t iteration; /* to which they will train first; 0: not known */
};

struct espl_sampler_ops {
	struct espl_ops head;
	/* Mandatory. */
	espl_status (*tell)(void *self, const struct espl_sample *, struct espl_error *);
	/* Mandatory.  Writes wish->count configurations, one after the other, into values.  A
	 * configuration that was tried before is asked for again, a few times. */
	espl_status (
	    *ask)(void *self, const struct espl_wish *, double *values, struct espl_error *);
};

/* Service ESPL_SAMPLING, for algorithms: the sampler that the user chose for this instance.  The
 * host checks that configurations belong to the space (ESPL_E_BUG). */
struct espl_sampling {
	uint32_t size, zero;
	void *ctx; /* the host's */
	espl_status (
	    *tell)(const struct espl_sampling *, const struct espl_sample *, struct espl_error *);
	espl_status (*ask)(const struct espl_sampling *, const struct espl_wish *, double *values,
	    struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
