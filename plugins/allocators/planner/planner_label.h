/* planner_label.h - all ways to the end of a plan that are not outdone, choice by choice.
 *
 * A label is (seconds, dollars) from the begin of a choice's training to the end of the plan; a
 * front holds those of a choice of which none is both sooner and cheaper.  Made from the last stage
 * backwards, leaving out what no plan within the limits can have (planner_bound.h).  What a front
 * says is exact where a path costs the sum of its parts, and the least possible elsewhere.
 */
#ifndef PLANNER_LABEL_H
#define PLANNER_LABEL_H
#include "planner_bound.h"

struct planner_label {
	double time_s, cost_usd;
};
struct planner_list {
	struct planner_label *all;
	size_t count, room;
};
struct planner_front {
	size_t at, count;
}; /* by time, cost falling */

struct planner_labels {
	const struct planner_net *net;
	const struct planner_bound *bound;
	struct planner_list list;
	struct planner_front *fronts;                   /* [bound->first[row] + choice] */
	struct planner_list below, above, other, parts; /* scratch */
	size_t most;                                    /* labels, at most */
};

/* Within the limits of the bound.  ESPL_E_NOMEM; ESPL_E_LIMIT: too many, or the effort is spent. */
espl_status planner_labels_make(struct planner_labels *, const struct planner_net *,
    const struct planner_bound *, size_t most);
void planner_labels_free(struct planner_labels *);
/* The cheapest path within time_s, the soonest of these; 0: none. */
int planner_labels_best(const struct planner_labels *, double time_s, uint32_t *path);

/* The cheapest way from a choice to the end within time_s; NULL: none. */
static inline const struct planner_label *
planner_labels_find(const struct planner_labels *labels, uint32_t row, uint32_t choice,
    double time_s)
{
	const struct planner_front *front = &labels->fronts[labels->bound->first[row] + choice];
	const struct planner_label *list = labels->list.all + front->at;
	size_t low = 0, high = front->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].time_s <= time_s)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? &list[low - 1] : NULL;
}

/* The soonest way from a choice that has one. */
static inline double
planner_labels_least_s(const struct planner_labels *labels, uint32_t row, uint32_t choice)
{
	return labels->list.all[labels->fronts[labels->bound->first[row] + choice].at].time_s;
}

#endif
