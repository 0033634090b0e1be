/* totals.h - a run in numbers, for the summary, `status`, `best` and the live view's footer.
 *
 * There is one struct and one list of its fields, so the numbers printed at the end of a run cannot
 * differ from those read from results.db later.
 */
#ifndef ESPL__TOTALS_H
#define ESPL__TOTALS_H
#include <stdio.h>
#include "exec/questions.h"
#include "report/outlook.h"

/* Owned strings; NULL where not known. */
struct espl__totals {
	char *status;  /* running done deadline budget interrupted failed */
	char *text;    /* why it failed or was interrupted; done: by what, if not by itself */
	char *failure; /* the last failure of a trial, where trials failed */
	char *causes;  /* of all: ", all: out of memory, all with layers >= 10" */
	char *experiment, *metric;
	char *best_params; /* a JSON object */
	char *experiments; /* a pool's: a JSON array; NULL none */
	char *confirmed;   /* what experiment.confirm has shown: a JSON object; NULL nothing */
	/* of a run that is under way, the last one made; NULL none.  Not stored */
	struct espl__outlook *outlook;
	int64_t maximize, simulated;
	int64_t on_cpu; /* GPUs are CPU slots */
	int64_t over;   /* the search is complete: nothing to resume */
	/* docs/glossary.md defines these; unfinished: ended with their experiment */
	int64_t trials, completed, early, failed, running, waiting, unfinished;
	int64_t failed_attempts;
	int64_t best;                 /* -1: none */
	int64_t ever, ever_iteration; /* the best value of all reports; of a pool -1 */
	int64_t best_iteration, best_checkpoint;
	/* experiment.seeds; then best_metric is the mean of best_counted trials, best_first the
	 * number of the first, and best_spread their standard deviation */
	int64_t seeds, best_first, best_counted;
	double best_spread;
	int64_t resizes, moves, nodes, nodes_peak, nodes_leaked, gpus, gpus_busy, reports,
	    decisions, calls;
	double best_metric, ever_metric, ever_s; /* as the trial reported it, and when */
	double deadline_s, budget_usd;           /* NaN: none */
	double jct_s, cost_usd, gpu_s, busy_gpu_s;
	double usd_s;                        /* what nodes cost a second at present */
	double refunded_usd, refunded_gpu_s; /* of machines that were free: not in cost_usd */
	double selected_s, selected_usd;     /* until the last promotion; NaN: there was none */
	double decision_median_us, decision_p95_us, decision_max_us;
	double call_median_us, call_p95_us, call_max_us;
	/* Plain jobs; jobs 0: there is no workload. */
	int64_t jobs, jobs_arrived, jobs_to_come, jobs_done, jobs_failed, jobs_cancelled;
	double queue_mean_s, queue_p95_s, queue_max_s, total_mean_s, total_p95_s, total_max_s,
	    makespan_s;
};

/* Sets the numbers that the configuration (may be NULL) contains; the others are unknown. */
void espl__totals_init(struct espl__totals *, const struct espl__run_config *, int simulated);
void espl__totals_free(struct espl__totals *);
/* best_params stays as it is: the caller knows the space. */
void espl__totals_take(struct espl__totals *, const struct espl__exec_summary *);
/* That many seconds have passed since, in which nothing happened. */
void espl__totals_pass(struct espl__totals *, double seconds);
/* "done", "running", "to come", ... */
const char *espl__experiment_state(const struct espl__search_summary *);
/* A pool's experiments, one by one. */
void espl__totals_experiments(struct espl__totals *, const struct espl__exec *);
const char *espl__run_end_name(enum espl__run_end);    /* "done", ...; 0: "running" */
void espl__totals_set(char **field, const char *text); /* owned copy; NULL clears */

/* {"event": EVENT, "status": ..., ...}, cli.md's fields in its order, no newline. `more`: also the
 * running trials and held nodes (status). */
void espl__totals_json(const struct espl__totals *, const char *event, int more,
    struct espl__buf *);
/* For a search that cannot keep its deadline and budget: the smallest feasible ones; unknown ones
 * (NaN) are left out. */
void espl__infeasible_json(double least_s, double least_usd, struct espl__buf *);
/* The path of a trial's checkpoint, from the run directory. */
void espl__totals_put_checkpoint(struct espl__buf *, uint64_t trial, int64_t iteration);
/* For people: a few aligned lines.  `reason`: also why it failed. */
void espl__totals_text(const struct espl__totals *, int reason, struct espl__buf *);
/* How the run is going, in one sentence, the same in `status`, in the live view and on the page. */
void espl__totals_sentence(const struct espl__totals *, struct espl__buf *);
/* The forecast that the totals may show: of a run that is under way; NULL: none. */
const struct espl__outlook *espl__totals_outlook(const struct espl__totals *);
/* Completed or stopped early. */
int64_t espl__totals_finished(const struct espl__totals *);
/* Is the best value of all reports another than that of the best trial? */
int espl__totals_ever_differs(const struct espl__totals *);
/* How it ended, for colors: "good"; "mixed", if a part came to nothing (all plain jobs failed, an
 * experiment of a pool did) or the run was cut short; "bad"; "running". */
const char *espl__totals_outcome(const struct espl__totals *);
/* Trials that hold a checkpoint and nothing else, and may be continued. */
int64_t espl__totals_paused(const struct espl__totals *);
/* What ended the trials that were unfinished when the run ended, in words; NULL: they can still
 * resume. */
const char *espl__totals_cut(const struct espl__totals *);
/* The logs of trials, from the run directory: "trials/ID/log". */
const char *espl__totals_logs(const struct espl__totals *);
/* Where to look when trials failed, or the run: a line, or nothing. */
void espl__totals_logs_text(const struct espl__totals *, const char *dir, struct espl__buf *);
/* " 0.93 ± 0.01": the metric of the best, with experiment.seeds its spread. */
void espl__totals_best_metric(const struct espl__totals *, struct espl__buf *);
/* confirmed.c: the JSON of what was confirmed (to be freed; NULL: nothing was), and lines of it,
 * each beginning with `indent` blanks. */
char *espl__confirmed_json(const struct espl__confirmation *, int maximize);
void espl__confirmed_text(const char *json, int maximize, int indent, struct espl__buf *);
/* The line of the best trial and its configuration, each beginning with `indent` blanks. */
void espl__totals_best_text(const struct espl__totals *, int indent, struct espl__buf *);

/* Fields by name, for storing. */
enum espl__total_type { ESPL__TOTAL_TEXT = 1, ESPL__TOTAL_INT, ESPL__TOTAL_REAL };
struct espl__total_field {
	const char *name;
	enum espl__total_type type;
	size_t offset;
};
extern const struct espl__total_field espl__total_fields[];
extern const uint32_t espl__total_field_count;
/* 0: it says something of experiment.seeds, which the run does not have. */
int espl__total_applies(const struct espl__totals *, const struct espl__total_field *);

/* Text that came from a file or a trial, safe for a terminal: control characters become '?'. */
void espl__print_clean(struct espl__buf *, const char *text);
/* "name=value" of each member of a JSON object of parameters, with `gap` between them. */
void espl__print_params(struct espl__buf *, const char *json, const char *gap);
/* ---- amounts.c ------------------------------------------------------------------------------- */

/* A metric for people: 6 significant digits; "-" where it is not a number. */
char *espl__format_metric(double, char to[32]);
/* Dollars for people: "$12.24", of little more digits: "$0.0045". */
char *espl__format_usd(double usd, char to[32]);
/* Seconds for people. */
char *espl__format_seconds(double s, char to[32]);
#endif
