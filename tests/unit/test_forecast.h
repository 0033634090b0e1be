/* test_forecast.h - searches, offers and plans small enough to write down, for the tests of the
 * execution model. */
#ifndef TEST_FORECAST_H
#define TEST_FORECAST_H
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "forecast/forecast.h"

#define STAGES_MAX 16
#define OFFERS_MAX 3
#define HELD_MAX 64

/* A setup and all it points to.  Zeroed is a search without stages; case_init gives a start. */
struct forecast_case {
	struct espl_stage stages[STAGES_MAX];
	const struct espl_stage *stage_list[STAGES_MAX];
	struct espl_bracket brackets[STAGES_MAX];
	const struct espl_bracket *bracket_list[STAGES_MAX];
	uint32_t stage_count;
	struct espl_spec spec;
	struct espl_point scaling[8];
	struct espl__profile profile;
	struct espl_latency sync, provision[OFFERS_MAX], init[OFFERS_MAX];
	struct espl_offer offers[OFFERS_MAX];
	const struct espl_offer *offer_list[OFFERS_MAX];
	struct espl__forecast_node held[HELD_MAX];
	uint32_t next[STAGES_MAX];
	struct espl_plan_stage entries[STAGES_MAX];
	const struct espl_plan_stage *entry_list[STAGES_MAX];
	struct espl_plan plan;
	struct espl__forecast_setup setup;
};

/* One offer of 4 GPUs at 1 $/s, latencies of 10, 6, 4, 3 s on 1, 2, 4, 8 GPUs, nothing else. */
void case_init(struct forecast_case *);
/* The next stage of the last bracket, and its entry in the plan: on offer 0. */
void case_stage(struct forecast_case *, uint32_t trials, uint64_t iterations, uint32_t gpus);
/* Stages that follow belong to one more bracket (case_init has begun the first). */
void case_bracket(struct forecast_case *);
struct espl_latency seconds(double);
struct espl_latency normal(double mean, double sd);
struct espl_latency lognormal(double mean, double sd);

/* The plan's forecast by the tables (samples 0) or the graph; fails the test if there is none. */
struct espl__forecast_result predict(const struct forecast_case *, uint32_t samples,
    struct espl__forecast_stage *stages);
/* A forecast of its own, to be freed. */
struct espl__forecast *forecast_of(const struct forecast_case *);

#define near_to(got_, want_, tolerance_, ...) \
	cr_assert(fabs((got_) - (want_)) <= (tolerance_), __VA_ARGS__)

/* A random case: brackets, offers, layouts, billing, held nodes, all switches; every latency
 * constant unless `noise`. */
void case_random(struct forecast_case *, uint64_t seed, int noise);
#endif
