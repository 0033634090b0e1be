/* shared.h - what several algorithms share: options, and making configurations, the user's first,
 * then drawn ones, into one open group, until `trials` of them were added.
 *
 * Use: shared_init in create, shared_fill (or, for searches that also promote, shared_values) in
 * next_group, shared_free in destroy.
 */
#ifndef ALGORITHMS_SHARED_H
#define ALGORITHMS_SHARED_H
#include <espalier/algorithm.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/sampling.h>
#include <espalier/kit/tried.h>

/* clang-format off */
#define SHARED_OPTION_TRIALS \
	{ .name = "trials", .help = "number of configurations; 0: as many as the deadline " \
	  "or the budget allows", .type = ESPL_OPT_INT, .fallback = "0", .min = "0", \
	  .max = "1000000" }
/* clang-format on */
/* clang-format off */
#define SHARED_OPTION_ITERATIONS \
	{ .name = "iterations_max", .help = "number of iterations per configuration", \
	  .type = ESPL_OPT_INT, .fallback = "1", .min = "1", .max = "1000000000000" }
/* clang-format on */
/* Of searches that cut: iterations_min (about_: more words on it), iterations_max, eta. */
/* clang-format off */
#define SHARED_OPTIONS_CUTS(about_, eta_) \
	{ .name = "iterations_min", .help = "number of iterations before the first rung" about_, \
	  .type = ESPL_OPT_INT, .fallback = "1", .min = "1", .max = "1000000000000" }, \
	{ .name = "iterations_max", .help = "number of iterations of trials promoted to the top", \
	  .type = ESPL_OPT_INT, .min = "1", .max = "1000000000000", \
	  .flags = ESPL_OPT_REQUIRED }, \
	{ .name = "eta", .help = "at each rung the best 1/eta are promoted", .type = ESPL_OPT_INT, \
	  .fallback = (eta_), .min = "2", .max = "1000000" }
/* clang-format on */

/* the plugin's; fields may be read */
struct shared {
	const struct espl_host *host;
	const struct espl_space *space;
	const struct espl_first *first;       /* NULL: the user has none */
	const struct espl_sampling *sampling; /* NULL: draws are uniform */
	double *unit, *values;                /* room for one configuration */
	struct espl_tried tried;              /* the configurations that were made */
	uint64_t trials;              /* configurations in all; 0: until the experiment ends */
	uint64_t wanted;              /* what the user set; above trials: the space has no more */
	uint64_t added;               /* so far */
	uint32_t first_next, zero;    /* of the user's points: the next one */
	double *own;                  /* configurations that the user added meanwhile */
	uint64_t own_count, own_next; /* of them; the next one */
	uint64_t group;               /* that they are added to; ESPL_NONE: it has not begun */
};
/* Adds one trial to the group; `added` is counted for it. */
typedef espl_status shared_add(void *ctx, struct espl_search_sink *, struct espl_error *);

/* Logs, where a search begins, where its rungs are: until points to the first, `stride` bytes
 * apart. */
void shared_tell_rungs(const struct espl_host *, const uint64_t *until, size_t stride,
    uint32_t count, const char *more);

/* Whether the experiment ends by itself, which a search that never finishes needs. */
int shared_has_end(const struct espl_host *);
/* The failure if it does not: the option that would give it one, and what to write. */
espl_status shared_endless(struct espl_error *, uint32_t option, const char *give);
/* E_CONFIG, blaming the option of the first, where iterations_min is above iterations_max. */
espl_status shared_check_range(uint64_t least, uint64_t most, uint32_t option, struct espl_error *);

/* trials 0: the experiment must have an end (option: the index of 'trials'); never more than the
 * space has configurations, unless repeats are allowed (espl_tried_repeats).  E_UNSUPPORTED: no
 * space. After a failure shared_free must be called as well. */
espl_status shared_init(struct shared *, const struct espl_host *, uint64_t trials, uint32_t option,
    int repeats, struct espl_error *);
void shared_free(struct shared *);
/* The next configuration, if that is one of the user's; else NULL. */
espl_status shared_first(struct shared *, const double **values, struct espl_error *);
/* The next configuration: the user's, or one of `draw` (NULL: the sampler's,
 * or uniform) that was not tried.  Valid
 * until the next call.  E_LIMIT, without a message: all have been tried. */
espl_status shared_values(struct shared *, espl_tried_draw *draw, void *ctx, const double **values,
    struct espl_error *);
/* One more was added. */
void shared_count(struct shared *);
/* After E_LIMIT: no more are added from now on. */
void shared_exhausted(struct shared *);
/* The entry `extend` of an algorithm that ends after `trials` configurations. */
espl_status shared_extend(struct shared *, const struct espl_extension *, struct espl_error *);
/* Declares one stage of all trials, if it is known how many there are. */
espl_status shared_spec(const struct shared *, uint64_t iterations, struct espl_spec_sink *);
/* How many more trials could run now; with a sampler by espl_sampling_room. */
uint64_t shared_room(const struct shared *, const struct espl_search_view *);
/* How many to add now: as many as could run, and one where nothing else asks for GPUs; never more
 * than are left. */
uint64_t shared_want(const struct shared *, const struct espl_search_view *);
/* Begins the group, unless it has begun.  declared: 1 if its stage is. */
espl_status shared_begin(struct shared *, int declared, struct espl_search_sink *);
/* Adds `want` trials, and finishes after the last of all. */
espl_status shared_fill(struct shared *, uint64_t want, int declared, shared_add *, void *ctx,
    struct espl_search_sink *, struct espl_error *);

#endif
