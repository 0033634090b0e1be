/* model_service.c - answers of the execution model to policies; see model_service.h. */
#include "base/assert.h"
#include "policy/model_service.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define RATIO_AFTER 8u /* iterations seen before their latency counts in forecasts */
/* iterations on a share before allocators learn about its measurement */
#define TOLD_AFTER 3u

/* ---- what was measured -------------------------------------------------------------------- */

static const char *
gpu_type_of(const struct espl__model_service *s, uint32_t offer)
{
	return offer < s->fleet->offer_count ? s->fleet->offers[offer]->gpu_type : NULL;
}

/* Offers with the same type of GPU are equally fast: the first of them represents all. */
static uint32_t
first_of_type(const struct espl__model_service *s, uint32_t offer)
{
	uint32_t i = 0;

	if (offer >= s->fleet->offer_count)
		return ESPL_ANY;
	while (strcmp(gpu_type_of(s, i), gpu_type_of(s, offer)) != 0)
		i++;
	return i;
}

/* offer ESPL_ANY: on whichever was measured first. */
static struct espl__model_measure *
measure_of(const struct espl__model_service *s, struct espl_share share, uint32_t offer)
{
	uint32_t first = first_of_type(s, offer);

	for (uint32_t i = 0; i < s->measured_count; i++)
		if (s->measured[i].share.gpus == share.gpus &&
		    s->measured[i].share.packing == share.packing &&
		    (first == ESPL_ANY || s->measured[i].offer == first))
			return &s->measured[i];
	return NULL;
}

int
espl__model_service_measure(struct espl__model_service *s, struct espl_share share, uint32_t offer,
    double seconds)
{
	struct espl__model_measure *m = measure_of(s, share, offer);
	double off;

	if (!(seconds >= 0))
		return 0;
	if (m == NULL) {
		ESPL__GROW(s->measured, s->measured_cap, s->measured_count + 1);
		m = &s->measured[s->measured_count++];
		memset(m, 0, sizeof *m);
		m->share = share;
		m->offer = first_of_type(s, offer);
	}
	m->count++;
	off = seconds - m->mean_s;
	m->mean_s += off / (double)m->count;
	m->square_s += off * (seconds - m->mean_s);
	if (!s->profile->guessed) {
		s->took_s += seconds;
		s->expected_s += espl__profile_iteration_s(s->profile, share) /
		    espl__profile_type_speed(s->profile, gpu_type_of(s, offer));
	}
	return m->count == TOLD_AFTER &&
	    (s->profile->guessed || (s->profile->packing_count == 0 && share.packing > 1));
}

/* Measured seconds of an iteration as a multiple of the profile's; 1: nothing was measured. */
static double
measured_ratio(const struct espl__model_service *s)
{
	uint64_t seen = 0;

	for (uint32_t i = 0; i < s->measured_count; i++)
		seen += s->measured[i].count;
	return seen >= RATIO_AFTER && s->expected_s > 0 && s->took_s > 0 ? s->took_s / s->expected_s
									 : 1.0;
}

/* ---- forecasts ---------------------------------------------------------------------------- */

int
espl__model_service_can(const struct espl__model_service *s)
{
	return s->experiment->spec != NULL && s->profile != NULL && !s->profile->guessed &&
	    !s->counts_resource;
}

struct espl__forecast *
espl__model_service_forecast(struct espl__model_service *s, uint32_t flags, struct espl__diag *diag)
{
	struct espl__forecast **at = &s->forecasts[flags & (ESPL_FROM_NOW | ESPL_AFRESH)];
	struct espl__forecast_setup setup = s->setup;

	if (*at != NULL || !espl__model_service_can(s))
		return *at;
	if ((flags & ESPL_AFRESH) != 0) {
		struct espl__forecast *other =
		    espl__model_service_forecast(s, flags & ESPL_FROM_NOW, diag);

		if (other == NULL || espl__forecast_exact(other))
			return other;
		setup.seed = espl__digest(setup.seed, "afresh", 6);
	}
	setup.gpus_max =
	    s->as_asked ? s->trial->gpus_max : espl__sold_widest(s->fleet, s->trial, s->profile);
	setup.spec = s->experiment->spec;
	setup.profile = s->profile;
	setup.offers = (const struct espl_offer *const *)s->fleet->offers;
	setup.offer_count = s->fleet->offer_count;
	if ((flags & ESPL_FROM_NOW) != 0 && s->stand != NULL) {
		setup.speed = measured_ratio(s);
		s->stand(s->ctx, &setup);
	}
	if (espl__forecast_new(&setup, at, diag) != ESPL_OK)
		*at = NULL;
	return *at;
}

void
espl__model_service_stale(struct espl__model_service *s, int offers_too)
{
	for (uint32_t i = 0; i < sizeof s->forecasts / sizeof s->forecasts[0]; i++)
		if (offers_too || (i & ESPL_FROM_NOW) != 0) {
			espl__forecast_free(s->forecasts[i]);
			s->forecasts[i] = NULL;
		}
}

/* ---- the service's entries ---------------------------------------------------------------- */

static espl_status
pass_error(espl_status status, const struct espl__diag *diag, struct espl_error *error)
{
	if (status != ESPL_OK && error != NULL && error->status == ESPL_OK) {
		error->status = status;
		(void)snprintf(error->text, sizeof error->text, "%.200s", diag->text);
	}
	return status;
}

static espl_status
speed(const struct espl_model *model, const struct espl_speed_query *q, struct espl_speed *out)
{
	const struct espl__model_service *s = model->ctx;
	const struct espl__model_measure *m = measure_of(s, q->share, q->offer);

	if (q->share.gpus == 0 || q->share.packing == 0)
		return ESPL_E_UNKNOWN;
	out->evidence = ESPL_PROFILED;
	out->sd_s = 0;
	out->samples = 0;
	if (m != NULL) {
		out->evidence = ESPL_MEASURED_LIKE;
		out->iteration_s = m->mean_s;
		out->sd_s = m->count > 1 ? sqrt(m->square_s / (double)(m->count - 1)) : 0;
		out->samples = m->count;
		return ESPL_OK;
	}
	if (s->profile == NULL || s->profile->guessed)
		return ESPL_E_UNKNOWN;
	out->iteration_s = espl__profile_iteration_s(s->profile, q->share) * measured_ratio(s) /
	    espl__profile_type_speed(s->profile, gpu_type_of(s, q->offer));
	return ESPL_OK;
}

static espl_status
overheads(const struct espl_model *model, uint64_t experiment, uint32_t offer,
    struct espl_overheads *out)
{
	const struct espl__model_service *s = model->ctx;
	const struct espl__profile *p = s->profile;

	if (experiment != s->experiment->id ||
	    (offer != ESPL_ANY && offer >= s->fleet->offer_count) || p == NULL)
		return ESPL_E_UNKNOWN;
	out->start_s = espl__latency_mean(&p->start);
	out->save_s = s->setup.checkpoint ? espl__latency_mean(&p->checkpoint) : 0;
	out->restore_s = s->setup.checkpoint ? espl__latency_mean(&p->restore) : 0;
	out->resize_s = out->save_s + out->start_s + out->restore_s;
	out->sync_s = s->setup.sync != NULL ? espl__latency_mean(s->setup.sync) : 0;
	out->boundary_s = espl__latency_mean(&p->iteration) / 2;
	if (out->size >= sizeof *out)
		out->save_every_s = s->setup.checkpoint ? s->setup.save_every_s : 0;
	return ESPL_OK;
}

static espl_status
stage(const struct espl_model *model, const struct espl_stage_query *q, struct espl_cell *cells)
{
	struct espl__model_service *s = model->ctx;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__forecast *f;

	if (!espl__model_service_can(s))
		return ESPL_E_UNSUPPORTED;
	if (q->experiment != s->experiment->id)
		return ESPL_E_UNKNOWN;
	f = espl__model_service_forecast(s, q->flags & ESPL_FROM_NOW, &diag);
	if (f == NULL)
		return ESPL_E_UNSUPPORTED;
	return espl__forecast_cells(f, q->bracket, q->stage, q->offer, q->gpus_from, q->gpus_to,
	    cells);
}

static void
fill_times(const struct espl__forecast_stage *rows, uint32_t count, const struct espl_predict *how)
{
	for (uint32_t i = 0; how->stage_ends_s != NULL && i < count; i++)
		how->stage_ends_s[i] = rows[i].ends_s;
	for (uint32_t i = 0; how->stage_asks_s != NULL && i < count; i++)
		how->stage_asks_s[i] = rows[i].asks_s;
}

static espl_status
predict(const struct espl_model *model, const struct espl_plan *plan,
    const struct espl_predict *how, struct espl_prediction *out, struct espl_error *error)
{
	struct espl__model_service *s = model->ctx;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__forecast_result result;
	struct espl__forecast_stage *rows = NULL;
	struct espl__forecast *f;
	espl_status status;

	if (!espl__model_service_can(s))
		return pass_error(espl__fail(&diag, ESPL_E_UNSUPPORTED,
				      "there is no profile to predict from"),
		    &diag, error);
	f = espl__model_service_forecast(s, how->flags, &diag);
	if (f == NULL || how->experiment != s->experiment->id)
		return pass_error(ESPL_E_UNSUPPORTED, &diag, error);
	if (how->stage_ends_s != NULL || how->stage_asks_s != NULL)
		rows = espl__alloc((plan->stage_count + (size_t)1) * sizeof *rows);
	status = espl__forecast_plan(f, plan, how->quantile, how->samples, &result, rows,
	    error != NULL ? &diag : NULL);
	if (status == ESPL_OK) {
		fill_times(rows, plan->stage_count, how);
		out->meets = (uint32_t)result.meets;
		out->jct_s = result.jct_s.mean;
		out->jct_sd_s = result.jct_s.sd;
		out->jct_at_quantile_s = result.jct_at_quantile_s;
		out->cost_usd = result.cost_usd.mean;
		out->cost_sd_usd = result.cost_usd.sd;
		out->cost_at_quantile_usd = result.cost_at_quantile_usd;
	}
	free(rows);
	return pass_error(status, &diag, error);
}

void
espl__model_service_init(struct espl__model_service *s, const struct espl__run_config *config,
    const struct espl__profile *profile, const struct espl_experiment *experiment,
    const struct espl__fleet *fleet)
{
	ESPL__CHECK(config, RUN_CONFIG);
	memset(s, 0, sizeof *s);
	s->pub.size = (uint32_t)sizeof s->pub;
	s->pub.ctx = s;
	s->pub.speed = speed;
	s->pub.overheads = overheads;
	s->pub.stage = stage;
	s->pub.predict = predict;
	s->experiment = experiment;
	s->profile = profile;
	s->fleet = fleet;
	s->setup.gpus_min = config->trial.gpus_min;
	s->trial = &config->trial;
	s->counts_resource = config->resource != NULL;
	s->setup.sync = config->sync;
	s->setup.data_gb = config->data_gb;
	s->setup.speed = 1.0;
	s->setup.deadline_s =
	    config->deadline == ESPL_NEVER ? INFINITY : (double)config->deadline / 1e9;
	s->setup.budget_usd = config->budget == INT64_MAX ? INFINITY : (double)config->budget / 1e6;
	s->setup.risk = config->risk;
	s->setup.seed = config->seed;
	s->setup.samples = config->samples;
	s->setup.colocate = config->trial.colocate != 0;
	s->setup.checkpoint = config->trial.checkpoint != 0;
	s->setup.save_every_s = (double)config->trial.checkpoint_every / 1e9;
	s->setup.chain = config->queue_chain != 0;
	s->setup.warm = config->warm != 0;
	s->setup.ahead = config->acquire_ahead != 0;
	s->setup.idle = config->release_idle != 0;
}

void
espl__model_service_free(struct espl__model_service *s)
{
	espl__model_service_stale(s, 1);
	free(s->measured);
}
