/* milp_ask.h - asking a child process for a plan (ESPL_COMPUTE), and what it answered.
 *
 * The answer comes later, when some of the jobs may have gone and others come: it is matched by id
 * against the problem of that day.
 */
#ifndef MILP_ASK_H
#define MILP_ASK_H
#include <espalier/host.h>
#include "milp_cbc.h"
#include "milp_jobs.h"

/* all zero to begin with */
struct milp_ask {
	uint64_t token; /* of what is under way */
	uint32_t pending, job_count;
	size_t size;   /* of the input */
	void *input;   /* as submitted */
	uint64_t *ids; /* of its jobs */
};

/* Submits the problem with the heuristic's plan.  The status is submit's, or ESPL_E_NOMEM. */
espl_status allocator_milp_ask(struct milp_ask *, const struct espl_compute *,
    const struct milp_case *, const struct espl_alloc_view *, const struct milp_plan *,
    const struct milp_cbc *, espl_span limit, espl_span assumed, struct espl_error *);
/* The outcome for which it waits, or NULL. */
const struct espl_outcome *allocator_milp_answered(const struct milp_ask *,
    const struct espl_alloc_view *);
/* Takes the answer over into a plan that the heuristic made for the problem as it is now, if it is
 * as good. ESPL_E_REMOTE: it is not; ESPL_E_NOMEM. */
espl_status allocator_milp_take(const struct milp_ask *, const struct espl_outcome *,
    const struct milp_case *, const struct espl_alloc_view *, struct milp_plan *,
    struct espl_error *);
/* The child's part. */
espl_status allocator_milp_run(void *self, const void *input, uint64_t size,
    struct espl_byte_sink *, struct espl_error *);
void allocator_milp_ask_free(struct milp_ask *);

#endif
