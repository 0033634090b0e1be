/* plan.h - the parts of `espalier plan`: one planner's answer, how it is computed and how it is
 * printed. */
#ifndef ESPL__PLAN_H
#define ESPL__PLAN_H
#include "base/mem.h"
#include "cli/inputs.h"
#include "exec/questions.h"

/* a stage of a plan, in the plan's order */
struct espl__plan_row {
	const char *offer;
	uint32_t bracket, stage, trials;
	uint32_t gpus, gpus_per_trial, nodes;
	uint64_t iterations;
	double starts_s, ends_s, cost_usd;
};
/* simulated runs of a plan whose nodes may be interrupted */
struct espl__plan_tries {
	uint32_t runs, kept;    /* kept: done within deadline and budget */
	double jct_s, cost_usd; /* means */
};
struct espl__plan_answer {
	const char *allocator;
	const char *interrupted; /* an offer of the plan with preemptible nodes; NULL: none */
	double hazard_hour; /* its interruptions per node-hour; 0: only lease_max_s ends them */
	double lease_max_s; /* that a node of the plan would exceed; 0: none does */
	struct espl__plan_tries tries;
	/* ESPL_E_INFEASIBLE: see least_*; else why there is no plan */
	espl_status status;
	struct espl__diag diag;
	int on_cpu;             /* what it plans are slots of CPUs */
	int meets;              /* deadline and budget; not sure of a plan that was given */
	int optimal;            /* proven */
	double gap;             /* how far from a proven bound at most; NaN unknown */
	uint64_t plans, effort; /* looked at; steps of work, 0 unknown */
	double elapsed_ms;      /* of the planner */
	struct espl__spread jct_s, cost_usd;
	double least_s, least_usd; /* that would do; NaN unknown */
	double idle_usd; /* its cost with planning.release = "idle", where that is less; else NaN */
	struct espl__plan_row *rows;
	uint32_t row_count, brackets; /* brackets: how many the search has */
};

/* ---- plan_find.c: asking ---- */

/* instead of what the configuration says */
struct espl__plan_ask {
	const char *allocator; /* NULL: the file's */
	/* NULL: the allocator plans; else per stage, or one for all */
	const uint32_t *gpus;
	uint32_t gpus_count;
	int limits; /* deadline and budget below count, not the file's */
	espl_span deadline;
	espl_money budget;
};
/* Runs the executor up to its plan, without any machines. All strings and rows go into the arena.
 */
void espl__plan_find(struct espl__inputs *, const struct espl__plan_ask *, struct espl__arena *,
    struct espl__plan_answer *);
/* Prices the plan with planning.release = "idle": idle_usd. */
void espl__plan_idle(struct espl__inputs *, struct espl__arena *, struct espl__plan_answer *);
/* Simulates runs of the inputs, whose nodes may be interrupted; no runs: they cannot be simulated.
 */
void espl__plan_try(struct espl__inputs *, struct espl__plan_answer *);
/* Chooses another allocator for these inputs.  It gets those options of the file's allocator that
 * it knows by the same name and type. */
espl_status espl__plan_allocator(struct espl__inputs *, const char *name, struct espl__arena *,
    struct espl__diag *);
/* The allocators that can plan: `static` first, then RubberBand's, then others by name. */
uint32_t espl__plan_allocators(struct espl__arena *, const char *const **names);

/* what each deadline would cost */

#define ESPL__FRONTIER_POINTS 10u
struct espl__frontier {
	uint32_t count; /* 0: the fastest completion is not known */
	double deadline_s[ESPL__FRONTIER_POINTS];
	struct espl__plan_answer answers[ESPL__FRONTIER_POINTS];
	struct espl__diag diag; /* why count is 0 */
};
void espl__plan_frontier(struct espl__inputs *, const char *allocator, struct espl__arena *,
    struct espl__frontier *);

/* ---- plan_json.c, plan_table.c: writing ---- */

/* all that one call of the verb found */
struct espl__plan_view {
	const struct espl__run_config *config;
	const struct espl__plan_answer *answer;
	const struct espl__plan_answer *compare; /* NULL: not asked for */
	uint32_t compare_count;
	const struct espl__frontier *frontier; /* NULL: not asked for */
	int given;                             /* the plan is the user's */
};
void espl__plan_json(const struct espl__plan_view *, struct espl__buf *);
void espl__plan_text(const struct espl__plan_view *, struct espl__buf *);

/* ---- plan_text.c ---- */

/* Seconds and dollars as people read them: "1h 02m", "$12.24". */
const char *espl__plan_span(double s, char to[32]);
const char *espl__plan_money(double usd, char to[32]);
/* Cents, or as many digits as two of `of` take: for amounts in one column. */
const char *espl__plan_part(double usd, double of, char to[32]);
/* A hint: the shortest deadline and the lowest budget that suffice for the allocator's plans, if
 * known, and what these plans leave out that might do with less. */
void espl__plan_least(struct espl__diag *, const struct espl__run_config *,
    const struct espl__exec_summary *);
#endif
