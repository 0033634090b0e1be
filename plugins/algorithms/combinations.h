/* combinations.h - every combination of the parameters' values, once: the user's points first, then
 * a grid.
 *
 * Use: combinations_init in create, combinations_next `total` times, combinations_free in destroy.
 */
#ifndef COMBINATIONS_H
#define COMBINATIONS_H
#include <espalier/algorithm.h>

/* clang-format off */
#define COMBINATIONS_OPTIONS(when_) \
	{ .name = "points", .help = when_ "number of values per continuous parameter, evenly " \
	  "spaced on its scale, including both ends", .type = ESPL_OPT_INT, .fallback = "3", \
	  .min = "1", .max = "100000" }, \
	{ .name = "levels_max", .help = when_ "maximum number of values per integer or " \
	  "quantized parameter, evenly spaced on its scale; 0: use all values", \
	  .type = ESPL_OPT_INT, .fallback = "0", .min = "0", .max = "100000" }
/* clang-format on */

struct combinations_axis; /* of one parameter */
/* the plugin's; `total` may be read */
struct combinations {
	const struct espl_space *space;
	const struct espl_first *first; /* NULL: the user has none */
	struct combinations_axis *axes;
	double *values;
	uint64_t *seen;             /* hashes of the user's points, sorted */
	uint64_t total;             /* how many configurations there are */
	uint32_t seen_count, given; /* given: user's points already returned */
	int begun, over;            /* of the odometer */
};

/* points: of each continuous parameter; levels_max: of each other one, 0 all.  ESPL_E_UNSUPPORTED:
 * no space; ESPL_E_CONFIG: more than a million; ESPL_E_NOMEM.  After a failure combinations_free
 * must be called as well. */
espl_status combinations_init(struct combinations *, const struct espl_host *, uint64_t points,
    uint64_t levels_max, struct espl_error *);
void combinations_free(struct combinations *);
/* The next configuration, valid until the next call; NULL when all have been returned. */
espl_status combinations_next(struct combinations *, const double **values, struct espl_error *);

#endif
