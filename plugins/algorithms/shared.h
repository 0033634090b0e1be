/* shared.h - names of what several algorithms share.
 *
 * Each plugin is made with a copy of its own: SHARED_OF, which the makefile sets to algorithm_<name>,
 * begins every global symbol, so that all plugins can be linked into one program.
 */
#ifndef ALGORITHMS_SHARED_H
#define ALGORITHMS_SHARED_H
#include <espalier/algorithm.h>

#ifndef SHARED_OF
# define SHARED_OF algorithm
#endif
#define SHARED_PASTE_(of_, name_) of_##_##name_
#define SHARED_PASTE(of_, name_)  SHARED_PASTE_(of_, name_)
#define SHARED(name_)             SHARED_PASTE(SHARED_OF, name_)

/* Does the experiment end by itself?  A search without an end of its own needs that. */
static inline int
shared_has_end(const struct espl_host *host)
{
	const struct espl_experiment *experiment =
		(const struct espl_experiment *)host->service(host, ESPL_EXPERIMENT);

	return experiment != NULL && (experiment->deadline != ESPL_NEVER ||
	                              experiment->budget != INT64_MAX);
}

#endif
