/* report_html_impl.h - what the parts of the page share: the run as it was loaded, and the few
 * shapes of SVG that they draw with.
 *
 * All that comes from results.db is untrusted: text goes through espl__html_text, numbers through
 * an axis or espl__html_number, both of which take anything.
 */
#ifndef ESPL__REPORT_HTML_IMPL_H
#define ESPL__REPORT_HTML_IMPL_H
#include "base/ids.h"
#include "base/mem.h"
#include "report/report_html.h"

#define ESPL__HTML_COLOURS 8u
#define ESPL__HTML_NO_STAGE UINT32_MAX

/* ---- the run (report_html_load.c) ----------------------------------------------------------- */

/* a rung: of the spec, or where there is none, a budget; of a pool an experiment */
struct espl__html_stage {
	int64_t bracket, number; /* bracket -1: not of a spec */
	/* of a pool's experiment; NULL: its plain jobs, or no pool */
	const char *name;
	int64_t budget;          /* iterations at its end; 0 unknown */
	double begun_s, ended_s; /* ended NaN: it is not over */
	uint64_t trials;
	uint32_t gpus_least, gpus_most, packing; /* of a trial, as they ran; 0: none did */
	uint32_t nodes;                          /* different ones that were used */
	double busy_gpu_s, cost_usd;
	int shared;    /* others ran at the same time: the cost is a share */
	uint8_t *used; /* [node / 8] bits */
};
struct espl__html_node {
	int64_t id;
	const char *offer, *market, *state, *why; /* "" where not known */
	uint32_t gpus, first_gpu;                 /* first_gpu: those of all nodes before it */
	double requested_s, booting_s, ready_s, notice_s, ended_s, billed_s; /* NaN: never */
	double price_hour, charged_usd;
};
struct espl__html_slot {
	uint32_t node, gpu;
}; /* node: index into nodes */
struct espl__html_turn {
	double at_s;
	uint32_t stage, next;
}; /* next 0: the last */
/* or a stay of one that is resized in place */
struct espl__html_gang {
	int64_t id, trial;
	const char *text; /* how it ended; NULL in good order */
	/* running NaN never; ended: at the latest now */
	double starting_s, running_s, ended_s;
	uint32_t gpus, packing, stage; /* the stage when it started */
	uint32_t number;               /* number of stays before this one */
	uint32_t slot, slot_count;
	uint32_t turn, turn_last; /* stages that began for it while it ran; 0 none */
	int over;
};
struct espl__html_trial {
	int64_t id, iteration;
	uint32_t stage, gang; /* last ones; gang + 1, 0 none */
	double metric, gpu_s, cost_usd;
	char state[16];
};
/* a stage of a plan */
struct espl__html_row {
	int64_t bracket, stage, trials, iterations, gpus, gpus_per_trial, nodes, warm;
	const char *offer;
	double starts_s, ends_s, cost_usd;
};
struct espl__html_plan {
	int64_t number;
	double at_s, ends_s, ends_sd_s, ends_p95_s, cost_usd, cost_sd_usd, cost_p95_usd, gap;
	int optimal;
	uint32_t row, row_count;
};
struct espl__html_point {
	double at_s, usd;
};

struct espl__html {
	struct espl__reading *r;
	const struct espl__report_fixed *fixed;
	struct espl__diag *diag;
	struct espl__arena arena;
	struct espl__buf b;  /* the page so far, since it was last sent */
	double now_s, end_s; /* of the run; of the time axis */
	int64_t resizes;     /* rows of the view of that name */
	int declared;        /* stages are those of a spec, or a pool's experiments */
	int brackets;        /* there are several, or will be */
	int log_scale;       /* of learning curves: asked for */
	/* a stage is an experiment with that number; 0 are the plain jobs */
	int pool;
	/* of a pool: what is drawn now is of this experiment; -1 all */
	int64_t only;
	struct espl__html_stage *stages;
	uint32_t stage_count, stage_cap;
	struct espl__html_node *nodes;
	uint32_t node_count, node_cap, gpu_count;
	struct espl__html_slot *slots;
	uint32_t slot_count, slot_cap;
	struct espl__html_gang *gangs;
	uint32_t gang_count, gang_cap;
	struct espl__html_turn *turns;
	uint32_t turn_count, turn_cap;
	struct espl__html_trial *trials;
	uint32_t trial_count, trial_cap;
	struct espl__html_row *rows;
	uint32_t row_count, row_cap;
	struct espl__html_plan *plans;
	uint32_t plan_count, plan_cap;
	struct espl__html_point *spent;
	uint32_t spent_count, spent_cap;
};
espl_status espl__html_load(struct espl__html *);
/* "GPU", "GPUs", or of a run on CPUs "slot", "slots". */
static inline const char *
espl__html_unit(const struct espl__html *h, int64_t count)
{
	return espl__slots_word(h->r->totals.on_cpu, count);
}
#define UNIT(h_) espl__html_unit(h_, 1)
#define UNITS(h_) espl__html_unit(h_, 0)
/* report_html_money.c: what was spent over time; needs nodes and stages. */
espl_status espl__html_load_money(struct espl__html *);
double espl__html_spent(const struct espl__html *, double at_s);
void espl__html_free(struct espl__html *);
struct espl__html_trial *espl__html_trial(struct espl__html *, int64_t id); /* or NULL */
/* "stage 1", "bracket 0, stage 1", "up to iteration 9"; "" for ESPL__HTML_NO_STAGE. */
void espl__html_stage_name(const struct espl__html *, uint32_t stage, struct espl__buf *);
/* Of a spec, begun or not. */
void espl__html_row_name(const struct espl__html *, int64_t bracket, int64_t stage,
    struct espl__buf *);
uint32_t espl__html_colour(const struct espl__html *, uint32_t stage);
/* A stage as a plan had it; `plan` ESPL__HTML_LAST: as the last plan but the first that still had
 * it to come.  NULL: it had none such. */
#define ESPL__HTML_LAST UINT32_MAX
const struct espl__html_row *espl__html_planned(const struct espl__html *, uint32_t plan,
    int64_t bracket, int64_t stage);
/* All trials (of h->only), the furthest and best first; free() it. */
uint32_t *espl__html_ranked(const struct espl__html *, uint32_t *count);
/* `part` once; of a pool once for each experiment that has reported, with its own metric and best.
 */
espl_status espl__html_each_search(struct espl__html *, espl_status (*part)(struct espl__html *));
/* The heading of such a part. */
void espl__html_heading(struct espl__html *, const char *what);

/* ---- text and shapes (report_html_svg.c) -------------------------------------------------- */

#define ESPL__HTML_WIDTH 1120.0
#define ESPL__HTML_LEFT 104.0
#define ESPL__HTML_RIGHT 1104.0

enum espl__html_kind { ESPL__HTML_EVEN, ESPL__HTML_LOG };
struct espl__html_axis {
	double low, high, from, to; /* values, and where they lie */
	enum espl__html_kind kind;
};
double espl__html_at(const struct espl__html_axis *, double value); /* within from..to */
struct espl__html_axis espl__html_time(const struct espl__html *);

/* Escaped, as XML allows it; after `most` characters an ellipsis. */
void espl__html_text(struct espl__buf *, const char *, uint32_t most);
void espl__html_number(struct espl__buf *, double); /* a coordinate: one decimal */
void espl__html_rect(struct espl__buf *, const char *classes, double x, double y, double w,
    double h);
void espl__html_line(struct espl__buf *, const char *classes, double x1, double y1, double x2,
    double y2);
/* The text is the program's own. */
void espl__html_label(struct espl__buf *, const char *classes, double x, double y,
    const char *text);
void espl__html_open(struct espl__buf *, double height, const char *what);
/* Lines and words for times, from top to bottom; and for values, across. */
void espl__html_time_grid(struct espl__buf *, const struct espl__html_axis *, double top,
    double bottom);
void espl__html_value_grid(struct espl__buf *, const struct espl__html_axis *, const char *unit);
/* `rungs`: iterations that have a tick of their own, rising. */
void espl__html_iteration_grid(struct espl__buf *, const struct espl__html_axis *, double top,
    double bottom, const int64_t *rungs, uint32_t rung_count);
/* The least of 1, 2, 5 * 10^k that is not below. */
double espl__html_round_up(double);

char *espl__html_seconds(double, char to[32]); /* "-" where not finite */
char *espl__html_money(double usd, char to[32]);

/* ---- parts of the page -------------------------------------------------------------------- */

extern const char espl__html_style[];
void espl__html_head(struct espl__html *);  /* report_html_head.c */
void espl__html_gantt(struct espl__html *); /* report_html_gantt.c */
/* Both draw from *y on down, and move it.  The strips of plan and stages (report_html_strips.c)
 * return how many stages found no room; the second draws many nodes by how busy they were. */
uint32_t espl__html_strips(struct espl__html *, double *y);
void espl__html_density(struct espl__html *, double *y);
espl_status espl__html_pool(struct espl__html *);   /* report_html_pool.c: of a pool */
void espl__html_lines(struct espl__html *);         /* report_html_lines.c: GPUs, cost */
espl_status espl__html_gpus(struct espl__html *);   /* report_html_gpus.c: used how much; resizes */
espl_status espl__html_curves(struct espl__html *); /* report_html_curves.c */
espl_status espl__html_trials(struct espl__html *); /* report_html_tables.c */
void espl__html_stages(struct espl__html *);
espl_status espl__html_trouble(struct espl__html *);
#endif
