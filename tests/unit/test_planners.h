/* test_planners.h - searches to be planned, for the planners' tests and their bench: what goes in,
 * a model to plan with, what comes out. */
#ifndef TEST_PLANNERS_H
#define TEST_PLANNERS_H
#include <espalier/allocator.h>
#include "forecast/forecast.h"

#define PLAN_STAGES 32
#define PLAN_OFFERS 3
#define PLAN_HELD 16

extern const struct espl_plugin allocator_elastic_exact_LTX_espalier_plugin;
extern const struct espl_plugin allocator_elastic_greedy_LTX_espalier_plugin;
extern const struct espl_plugin allocator_naive_elastic_LTX_espalier_plugin;
extern const struct espl_plugin allocator_static_LTX_espalier_plugin;
#define EXACT &allocator_elastic_exact_LTX_espalier_plugin
#define GREEDY &allocator_elastic_greedy_LTX_espalier_plugin
#define NAIVE &allocator_naive_elastic_LTX_espalier_plugin
#define STATIC &allocator_static_LTX_espalier_plugin

/* The planners, and with the options that make another algorithm of them. */
#define PLAN_PLANNERS 4
extern const struct espl_plugin *const plan_planners[PLAN_PLANNERS];
#define PLAN_VARIANTS 5
extern const struct plan_variant {
	const struct espl_plugin *planner;
	const char *options;
} plan_variants[PLAN_VARIANTS];

/* not to be moved once it is made */
struct plan_case {
	struct espl_stage stages[PLAN_STAGES];
	const struct espl_stage *stage_list[PLAN_STAGES];
	struct espl_bracket brackets[PLAN_STAGES];
	const struct espl_bracket *bracket_list[PLAN_STAGES];
	uint32_t stage_count;
	struct espl_spec spec;
	struct espl_point scaling[16];
	struct espl__profile profile;
	struct espl_latency sync, provision[PLAN_OFFERS], init[PLAN_OFFERS];
	struct espl_offer offers[PLAN_OFFERS];
	const struct espl_offer *offer_list[PLAN_OFFERS];
	struct espl__forecast_node held[PLAN_HELD];
	uint32_t next[PLAN_STAGES];
	struct espl__forecast_setup setup;
	struct espl_experiment experiment;
	struct espl_model model;
	struct espl__forecast *forecast; /* made by plan_case_model */
	uint32_t gpus_max;               /* of the cluster */
};
struct plan_found {
	espl_status status;
	uint32_t offer, gpus[PLAN_STAGES];
	uint32_t optimal;
	double gap;
	double jct_s, cost_usd, jct_at_risk_s; /* the model's */
	int meets;
	double least_s, least_usd;
	double took_s; /* processor time of the planner */
	char text[240];
};

/* One offer of 4 GPUs at 1 $/s, latencies of 10, 6, 4 s on 1, 2, 4 GPUs, no limits. */
void plan_case_init(struct plan_case *);
void plan_case_free(struct plan_case *);
/* The next stage of the last bracket; stages that follow belong to one more bracket. */
void plan_case_stage(struct plan_case *, uint32_t trials, uint64_t iterations);
void plan_case_bracket(struct plan_case *);
/* Seconds of an iteration on 1, 2, 4, ... GPUs; 0 ends. */
void plan_case_latency(struct plan_case *, const double *seconds);
struct espl_latency plan_seconds(double mean, double sd);
/* After a change of anything. */
void plan_case_model(struct plan_case *);
/* The limits of the experiment; INFINITY: none.  Then plan_case_model. */
void plan_case_limits(struct plan_case *, double deadline_s, double budget_usd);
/* The whole of a planner's answer; options as espl_kit_open takes them. */
struct plan_found plan_case_plan(struct plan_case *, const struct espl_plugin *,
    const char *options);
/* 0: it cannot be placed. */
int plan_case_predict(struct plan_case *, const uint32_t *gpus, uint32_t offer,
    struct plan_found *);

/* Random numbers of a seed. */
double plan_uniform(uint64_t *state, double low, double high);
uint32_t plan_pick(uint64_t *state, uint32_t count);

enum plan_kind { PLAN_RESNET101, PLAN_RESNET50, PLAN_POWER, PLAN_KINDS };
/* SHA of 3 to 8 stages over 8 to 128 trials, prices, latencies and data at random, a deadline
 * of 1.02 to 6 times the fastest static cluster's; at most 192 GPUs. */
void plan_case_random(struct plan_case *, uint64_t seed, enum plan_kind, int by_function);
/* SHA(trials, r, R, 2): as many stages as that has. */
void plan_case_halving(struct plan_case *, uint32_t trials, uint64_t r, uint64_t most);
#endif
