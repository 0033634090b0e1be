/* jobs.h - the plain training jobs of a pool as the executor sees them: iterations and GPUs.
 *
 * A job is divided into iterations of equal work and may be resized after each. One setting, for
 * all jobs, is the number of GPUs of a node of the trace.
 */
#ifndef ESPL__JOBS_H
#define ESPL__JOBS_H
#include "config/run.h"
#include "model/space.h"
#include "model/workload.h"

#define ESPL__JOBS_MAGIC 0x6e6b6677u
struct espl__jobs {
	struct espl__workload list;
	uint32_t magic; /* ESPL__JOBS_MAGIC */
	/* the trace, for messages; in `room`; NULL: they were drawn */
	const char *file;
	uint32_t unit;               /* GPUs of a node */
	double iteration_s;          /* work of an iteration; 0: by the job's own */
	double step_s;               /* of a step, simulated; 0: of an iteration */
	double doubling;             /* what a doubling of the nodes keeps of each one's speed */
	struct espl_point **scaling; /* [job], x GPUs, y throughput, one node's being 1 */
	uint32_t *scaling_count;
	struct espl__arena room;
	struct espl__tree *tree; /* of the space */
};
void espl__jobs_free(struct espl__jobs *);
/* How many iterations a job has, and the work of each, in seconds on one node. */
uint64_t espl__jobs_iterations(const struct espl__jobs *, uint64_t job);
double espl__jobs_iteration_s(const struct espl__jobs *, uint64_t job);
/* Throughput on a number of GPUs, relative to one node. */
double espl__jobs_speed(const struct espl__jobs *, uint64_t job, uint32_t gpus);
#endif
