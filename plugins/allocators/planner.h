/* planner.h - names of what the files of the planner share.
 *
 * Several plugins are made with these files, each with a copy of its own: PLANNER_OF, which the
 * makefile sets to <kind>_<name>, begins every global symbol, so that all plugins can be linked
 * into one program.
 */
#ifndef PLANNER_H
#define PLANNER_H

#ifndef PLANNER_OF
#define PLANNER_OF allocator
#endif
#define PLANNER_PASTE_(of_, name_) of_##_##name_
#define PLANNER_PASTE(of_, name_) PLANNER_PASTE_(of_, name_)
#define PLANNER(name_) PLANNER_PASTE(PLANNER_OF, name_)

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
