/* pool_sim.h - a cluster and jobs that come and go around an allocator, for tests and benches of
 * policies: Hu et al.'s section 5 without anything else of espalier.
 *
 * Time goes in whole seconds.  Who arrives or ends is seen at the next one, and the allocator is
 * called whenever something happened or it asked to be.  Every grant is checked, and so is that
 * what jobs were served is their work.
 */
#ifndef POOL_SIM_H
#define POOL_SIM_H
#include <espalier/allocator.h>
#include "model/workload.h"

/* what is to be simulated */
struct pool_sim {
	const struct espl_plugin *plugin;
	const char *options; /* of the allocator */
	const struct espl__workload *workload;
	uint32_t nodes;  /* of one GPU */
	double doubling; /* speed that a doubling keeps, where jobs tell none */
	double delay_s;  /* a start, or growing: nodes are taken at once, and the old
			  * speed lasts for so long */
	double redraw_s; /* estimates that are drawn anew are so for this long */
};
/* of a job, seconds; [job] */
struct pool_fate {
	double arrived, started, ended;
	double node_s;          /* nodes held times time */
	uint32_t resizes, most; /* most: nodes at a time */
};
struct pool_sums {
	uint32_t jobs, decisions, resizes;
	/* answers that do not fit, jobs not served by their work ... */
	uint32_t wrong;
	char why[160];           /* of the first */
	double total_s, queue_s; /* means over jobs: arrival to end, arrival to start */
	double total_p95, queue_p95, queue_max, slowdown_p99;
	double crowded_s;                /* the longest wait while jobs did not outnumber nodes */
	double makespan_s, longest_s;    /* last end; total time of the job with most work */
	double busy;                     /* part of all nodes' time until the last end */
	double decide_ms, decide_max_ms; /* processor time: mean, most */
};
/* fates: [jobs], or NULL.  ESPL_OK also if something was wrong: see there. */
espl_status pool_sim_run(const struct pool_sim *, struct pool_sums *, struct pool_fate *fates);
#endif
