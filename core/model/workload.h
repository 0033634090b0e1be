/* workload.h - plain training jobs that arrive over time: read from a trace, or drawn.
 *
 * A trace is a CSV file with the columns job, arrives_s, work_s, nodes_min, nodes_max, in any
 * order, and of these as many as there are: nodes_asked, weight, eta_s, fate, fate_at_s, scaling.
 * Work is in seconds on one node; what a node is (the GPUs it stands for) is told beside the trace.
 * Rows are in order of arrival.
 *
 * Pure: no file is opened here, and what is drawn depends on the seed alone.
 */
#ifndef ESPL__WORKLOAD_H
#define ESPL__WORKLOAD_H
#include <espalier/model.h>
#include "base/buf.h"
#include "base/diag.h"
#include "base/mem.h"

enum espl__fate { ESPL__FATE_DONE, ESPL__FATE_BUG, ESPL__FATE_TERMINATED };

struct espl__job {
	char *name;       /* unique */
	double arrives_s; /* at least 0 */
	double work_s;    /* above 0: seconds on one node until it is done */
	double eta_s;     /* its estimate at arrival; NaN: unknown */
	double weight;    /* above 0; 1 by default */
	double fate_at_s; /* BUG: it ends when it trained for so long, on however many nodes;
			   * TERMINATED: when so much of its work is done (below work_s) */
	struct espl_point *scaling; /* x nodes, y throughput, one node being 1; rising in x */
	uint32_t scaling_count;     /* 0: the workload's law holds */
	enum espl__fate fate;
	uint32_t nodes_min, nodes_max; /* 1 <= min <= max */
	/* by its user, for a run without elasticity; nodes_min by default */
	uint32_t nodes_asked;
	uint32_t line; /* of the trace; 0: drawn */
};
struct espl__workload {
	struct espl__job *jobs; /* [count], by (arrives_s, row) */
	uint32_t count, cap;
	struct espl__arena room; /* names, scaling */
	double redraw; /* above 0: estimates are the true remaining work times a new random 1 -+
			  this */
	uint64_t seed; /* of these draws */
};

/* text: the file's, cut up here; `file` is its name for messages.  nodes: as many as there can ever
 * be, ESPL_ANY if that is not known.  E_CONFIG: FILE:LINE and why, with a hint.  Free the workload
 * also after a failure. */
espl_status espl__workload_read(struct espl__workload *, const char *file, struct espl__buf *text,
    uint32_t nodes, struct espl__diag *);
void espl__workload_free(struct espl__workload *); /* and zeroes it */
/* As a trace that reads back equal (redraw is no part of it). */
void espl__workload_print(const struct espl__workload *, struct espl__buf *);
/* Without elasticity: every job on just the nodes asked for.  E_CONFIG if that is more than there
 * can ever be. */
espl_status espl__workload_fix(struct espl__workload *, const char *file, uint32_t nodes,
    struct espl__diag *);

/* Work left of a job as allocators are told, in seconds on one node: its estimate less what is
 * served, at least 0; NaN: unknown.  draw: a number that changes when new estimates must be drawn
 * (that of the decision). */
double espl__workload_left(const struct espl__workload *, uint32_t job, double served_s,
    uint64_t draw);
/* Throughput on a number of nodes, relative to one. doubling: scaling efficiency per doubling of
 * the nodes if the job has no table (0.8 in Hu et al.). */
double espl__job_speed(const struct espl__job *, uint32_t nodes, double doubling);

/* ---- drawn (workload_draw.c) -------------------------------------------------------------- */

enum espl__arrivals { ESPL__UNIFORM, ESPL__DIURNAL, ESPL__BATCHES };

/* ModelArts' jobs as far as Hu et al. tell of them: 447 jobs of at least 5 minutes within 2981.6
 * minutes, log-normal.  The paper tells how long they trained, not on how many nodes: `m` is that
 * number. */
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
