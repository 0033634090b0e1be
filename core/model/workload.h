/* workload.h - plain training jobs that arrive over time: read from a trace, or drawn at random.
 *
 * A trace is a CSV file with the columns job, arrives_s, work_s, nodes_min, nodes_max, in any
 * order, and optionally nodes_asked, weight, eta_s, fate, fate_at_s, scaling. Work is in seconds on
 * one node. The number of GPUs of a node is configured, not part of the trace. Rows are in order of
 * arrival.
 *
 * Pure: no file is opened here, and random draws depend only on the seed.
 */
#ifndef ESPL__WORKLOAD_H
#define ESPL__WORKLOAD_H
#include <espalier/model.h>
#include "base/buf.h"
#include "base/diag.h"
#include "base/mem.h"

enum espl__fate { ESPL__FATE_DONE, ESPL__FATE_BUG, ESPL__FATE_TERMINATED };
extern const char *const espl__fate_names[3]; /* as a trace has them */

struct espl__job {
	char *name;       /* unique */
	double arrives_s; /* at least 0 */
	double work_s;    /* above 0: seconds on one node until it is done */
	double eta_s;     /* its estimate at arrival; NaN: unknown */
	double weight;    /* above 0; 1 by default */
	double fate_at_s; /* BUG: the training time at which it ends, on any number of nodes;
			   * TERMINATED: the work done at which it ends (below work_s) */
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

void espl__workload_free(struct espl__workload *); /* and zeroes it */
/* As a trace that reads back equal (without redraw). */
void espl__workload_print(const struct espl__workload *, struct espl__buf *);
/* Remaining work of a job as allocators see it, in seconds on one node: its estimate less the
 * work done, at least 0; NaN: unknown.  draw: a number that changes when new estimates must be
 * drawn (that of the decision). */
double espl__workload_left(const struct espl__workload *, uint32_t job, double served_s,
    uint64_t draw);
/* Throughput on a number of nodes, relative to one. doubling: scaling efficiency per doubling of
 * the nodes if the job has no table (0.8 in Hu et al.). */
double espl__job_speed(const struct espl__job *, uint32_t nodes, double doubling);

#endif
