/* planner_search.h - the cheapest plan where a lease costs more than its time: best-first search.
 *
 * With a minimum charge, rounding up, or a wait that depends on the number of new nodes, a plan is
 * more than the sum of its parts.  Beginnings of plans are prolonged, always the one whose cost so
 * far and least cost to come (planner_label.h) are the smallest, so that the first whole plan in
 * turn is the best.  A beginning is dropped if another ends on the same choice no later and no
 * dearer, and has nodes no younger.
 */
#ifndef PLANNER_SEARCH_H
#define PLANNER_SEARCH_H
#include "planner_improve.h"
#include "planner_label.h"

/* found: the best plan known, replaced by a better one.  *bound_usd: no plan in time costs less.
 * ESPL_E_LIMIT: more than `most` beginnings, or the effort is spent; *bound_usd is then below
 * found's cost. */
espl_status planner_search(struct planner_found *found, const struct planner_labels *,
    double time_s, size_t most, double *bound_usd);

#endif
