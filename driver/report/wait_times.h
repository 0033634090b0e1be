/* wait_times.h - how long items of a pool waited, and why: the parts of a wait, from results.db
 * alone.
 *
 * At each moment of a wait exactly one holds: enough GPUs were free; enough would have been with
 * the nodes that were starting; others used them; they were set aside; or all nodes together were
 * too few.
 */
#ifndef ESPL__WAIT_TIMES_H
#define ESPL__WAIT_TIMES_H
#include "report/results_read.h"

enum espl__wait_part {
	ESPL__WAIT_IN_USE, /* others used them */
	ESPL__WAIT_COMING, /* enough nodes were requested or booting */
	/* free but not granted: the allocator's choice, or no placement was possible */
	ESPL__WAIT_FREE,
	/* there were enough, counting those set aside */
	ESPL__WAIT_ASIDE,
	ESPL__WAIT_NO_NODES, /* too few GPUs even without other users */
	ESPL__WAIT_PARTS
};
#define ESPL__WAIT_HOLDERS 3u

struct espl__wait {
	double all_s; /* the sum of the parts; 0: there was no wait */
	double part_s[ESPL__WAIT_PARTS];
	/* The largest users of GPU time while GPUs were in use, in descending order; names live as
	 * long as the waits. */
	struct {
		const char *name;
		double share;
	} holders[ESPL__WAIT_HOLDERS];
	uint32_t holder_count;
	int on_cpu; /* it waited for CPU slots */
};

/* All nodes and stays of the pool, in order of time. */
struct espl__waits;
/* E_REMOTE (diag): results.db cannot be read. */
espl_status espl__waits_open(struct espl__reading *, struct espl__waits **, struct espl__diag *);
void espl__waits_free(struct espl__waits *);
/* `who` below: the experiment of that number, or the plain job of that trial. */
#define ESPL__WAITS_EXPERIMENT(number_) ((int64_t)(number_) << ESPL__TRIAL_BITS)
#define ESPL__WAITS_JOB(trial_) ((int64_t)(trial_))
/* From its arrival to its first GPU; if it had none, until end_s (its end, or now). No wait if
 * `who` is unknown. */
void espl__waits_first(const struct espl__waits *, int64_t who, double arrived_s, double end_s,
    struct espl__wait *);
/* Of one that waits since since_s until now_s; at the earliest since it had its last GPU. */
void espl__waits_now(const struct espl__waits *, int64_t who, double since_s, double now_s,
    struct espl__wait *);

/* "40s GPUs were in use, most by pear (62 %) and a (30 %); 12s nodes were on their way": without
 * parts that round to nothing; empty if there was no wait. Names are not escaped. */
void espl__wait_text(const struct espl__wait *, struct espl__buf *);
/* {"in_use_s", "coming_s", "free_s", "aside_s", "no_nodes_s", "holders": [{"name", "share"}, ...]}
 */
void espl__wait_json(const struct espl__wait *, struct espl__buf *);
#endif
