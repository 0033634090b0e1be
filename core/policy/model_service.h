/* model_service.h - the execution model as policies see it (service ESPL_MODEL).
 *
 * Combines the inputs of the model: the experiment, the profile, the offers, the measurements, and
 * the present state of the run. Forecasts are made on demand and kept until something changes;
 * everything comes from the journal's events, so a replay asks the same.
 */
#ifndef ESPL__MODEL_SERVICE_H
#define ESPL__MODEL_SERVICE_H
#include "config/run.h"
#include "model/fleet.h"
#include "forecast/forecast.h"

/* iterations seen on one kind of share */
struct espl__model_measure {
	struct espl_share share;
	uint32_t offer; /* the first of its GPU type */
	uint64_t count;
	double mean_s, square_s; /* running mean, and sum of squared deviations */
};
struct espl__model_service {
	struct espl_model pub;
	const struct espl_experiment *experiment;
	const struct espl__profile *profile;
	const struct espl__trial_config *trial;
	int counts_resource; /* iterations are not those of the profile: nothing is predicted */
	int as_asked;        /* the user named the GPUs of the plan: no width is too much */
	const struct espl__fleet *fleet;   /* for its offers */
	struct espl__forecast_setup setup; /* what does not change in a run */
	/* by ESPL_FROM_NOW and ESPL_AFRESH; NULL: to be made */
	struct espl__forecast *forecasts[4];
	/* Fills next_stage, held, deadline_s and budget_usd with the present state of the run. */
	void (*stand)(void *ctx, struct espl__forecast_setup *);
	void *ctx;
	struct espl__model_measure *measured;
	uint32_t measured_count, measured_cap;
	double took_s, expected_s; /* all iterations seen: measured, and as the profile says */
};
void espl__model_service_init(struct espl__model_service *, const struct espl__run_config *,
    const struct espl__profile *, const struct espl_experiment *, const struct espl__fleet *);
void espl__model_service_free(struct espl__model_service *);
/* Is there anything to predict from? */
int espl__model_service_can(const struct espl__model_service *);
/* Discards forecasts: the run has advanced, or (offers_too) the offers have changed. */
void espl__model_service_stale(struct espl__model_service *, int offers_too);
/* Records the length of an iteration on this share of this offer's hardware.  1: enough were
 * measured to rely on, and no profile covers this share. */
int espl__model_service_measure(struct espl__model_service *, struct espl_share, uint32_t offer,
    double seconds);
/* flags: ESPL_FROM_NOW, ESPL_AFRESH (which makes no difference where nothing is random). */
struct espl__forecast *espl__model_service_forecast(struct espl__model_service *, uint32_t flags,
    struct espl__diag *);
#endif
