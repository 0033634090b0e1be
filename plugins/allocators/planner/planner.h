/* planner.h - constants that the files of the planner share.
 *
 * They make libplanner.la, which the planning allocators link.
 */
#ifndef PLANNER_H
#define PLANNER_H

#define PLANNER_NONE UINT32_MAX
/* Steps of work of a plan by default: less than 2 s.  A re-plan of a live run, whose driver has
 * other things to do meanwhile, has this part of them. */
#define PLANNER_EFFORT 100000000
#define PLANNER_LIVE_EFFORT 20
/* Sums of the same seconds or dollars in another order differ by less than this part of them. */
#define PLANNER_NOISE 1e-10
/* A limit is kept if it is exceeded by less than this part: a little less than the model allows. */
#define PLANNER_CLOSE 0.9e-9

#endif
