/* workload_input.h - where the jobs of a workload come from: a trace, or a seed. */
#ifndef ESPL__WORKLOAD_INPUT_H
#define ESPL__WORKLOAD_INPUT_H
#include "config/run.h"
#include "model/jobs.h"

/* ---- loaded (jobs_load.c) ----------------------------------------------------------------- */

/* What config->workload says: the trace is read, or the jobs are drawn; without one there are none.
 */
espl_status espl__jobs_load(const struct espl__run_config *, struct espl__jobs **,
    struct espl__diag *);
/* The parameters of a job's program: work_s, iteration_s.  Valid as long as the jobs. */
espl_status espl__jobs_space(struct espl__jobs *, struct espl__space **, struct espl__diag *);

/* ---- read (workload_read.c) --------------------------------------------------------------- */

/* text: the file's, cut up here; `file` is its name for messages.  nodes: as many as there can ever
 * be, ESPL_ANY if that is not known.  E_CONFIG: FILE:LINE and why, with a hint.  Free the workload
 * also after a failure. */
espl_status espl__workload_read(struct espl__workload *, const char *file, struct espl__buf *text,
    uint32_t nodes, struct espl__diag *);
/* Without elasticity: every job on just the nodes asked for.  E_CONFIG if that is more than there
 * can ever be. */
espl_status espl__workload_fix(struct espl__workload *, const char *file, uint32_t nodes,
    struct espl__diag *);

/* ---- drawn (workload_draw.c) -------------------------------------------------------------- */

enum espl__arrivals { ESPL__UNIFORM, ESPL__DIURNAL, ESPL__BATCHES };

/* ModelArts' jobs as described by Hu et al.: 447 jobs of at least 5 minutes within 2981.6 minutes,
 * log-normal.  The paper gives their training times but not the number of nodes: that is `m`. */
struct espl__workload_draw {
	uint64_t seed;
	uint32_t jobs;  /* of at least `least_s` */
	uint32_t small; /* additional shorter jobs (805 at ModelArts) */
	double span_s;  /* they arrive within */
	double mean_s;  /* training time, mean */
	double m;       /* nodes it was measured on: work is m times as much */
	double sigma;   /* of its logarithm */
	double least_s; /* nothing shorter (work, on one node) */
	/* 1: one job's work out of each of `jobs` ranges that are equally likely */
	uint32_t stratified;
	enum espl__arrivals arrivals; /* DIURNAL: from 22 to 9 o'clock a fifth as many; BATCHES: the
				       * same, four at a time on average, within 5 minutes */
	uint32_t nodes_max;
	uint32_t redraw; /* 1: new estimates at each decision */
	double noise;    /* estimates are off by up to this part */
	/* parts of all jobs: end within 5 minutes of training, at any time */
	double bugs, terminated;
};
#define ESPL__WORKLOAD_DRAW \
	{ \
		.seed = 1, .jobs = 447, .span_s = 178896, .mean_s = 13956, .m = 2, .sigma = 1.5, \
		.least_s = 300, .nodes_max = 16 \
	}
/* E_CONFIG: a number is out of its range, or together they are impossible. */
espl_status espl__workload_draw(struct espl__workload *, const struct espl__workload_draw *,
    struct espl__diag *);
#endif
