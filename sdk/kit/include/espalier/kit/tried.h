/* espalier kit: tried.h - which configurations a search has tried, so that it tries none twice.
 *
 * What was tried is kept by the hash of its values: those of inactive parameters do not count.  A
 * draw that repeats one is drawn again; if that does not help, the next untried point is taken, in
 * the order of a walk through the space, conditions included.  So a finite space is tried to its
 * last point, and then there is nothing left.
 *
 * What the user forbids (espl_space.allowed) counts as tried from the beginning, also where repeats
 * are allowed.
 *
 * Use: espl_tried_init in create; espl_tried_new for each new configuration, espl_tried_add for
 * one that comes from elsewhere (the user's first points); espl_tried_free in destroy.
 */
#ifndef ESPALIER_KIT_TRIED_H
#define ESPALIER_KIT_TRIED_H
#include <espalier/algorithm.h>
#include <espalier/util.h>
#ifdef __cplusplus
extern "C" {
#endif

#define ESPL_TRIED_MAGIC 0x74726965u

/* The option that allows repeats; a plugin reads it with espl_tried_repeats. */
/* clang-format off */
#define ESPL_TRIED_OPTION \
	{ .name = "repeats", .help = "true: a configuration may be tried again; false: none is " \
	  "tried twice, and the search ends when all of a finite space have been tried", \
	  .type = ESPL_OPT_BOOL, .fallback = "false" }
/* clang-format on */

/* What is logged when a space has fewer configurations (first number) than the search would make
 * (second), and when all have been made. */
#define ESPL_TRIED_FEW \
	"the space has only %llu configurations, fewer than the %llu of the search, which ends " \
	"when each has been tried (repeats = true tries them again)"
#define ESPL_TRIED_ALL "all %llu configurations of the space have been tried"

/* the plugin's; fields may be read, the functions write them */
struct espl_tried {
	const struct espl_host *host;
	const struct espl_space *space;
	uint64_t *hashes;      /* open addressing; 0: a free place */
	uint64_t room, count;  /* places (a power of two); hashes in them */
	uint64_t *digits;      /* of the walk: which value of each parameter */
	double *values, *unit; /* where the walk is; room for a draw */
	uint32_t begun, over;  /* of the walk */
	uint32_t repeats;      /* 1: repeats are allowed, and nothing is kept */
	uint32_t magic;        /* ESPL_TRIED_MAGIC between init and free */
};

/* A configuration of the caller's choice into values. */
typedef espl_status espl_tried_draw(void *ctx, double *values, struct espl_error *error);

/* Whether repeats are allowed: option is the value of ESPL_TRIED_OPTION.  A run that began before
 * repeats were avoided goes on with them. */
int espl_tried_repeats(const struct espl_host *host, const struct espl_value *option);
/* ESPL_E_UNSUPPORTED: no space; ESPL_E_NOMEM.  Call espl_tried_free also after a failure. */
espl_status espl_tried_init(struct espl_tried *tried, const struct espl_host *host, int repeats,
    struct espl_error *error);
void espl_tried_free(struct espl_tried *tried);
/* Room for so many more, so that none of the calls below fails half way through an answer.
 * ESPL_E_NOMEM: nothing has changed. */
espl_status espl_tried_reserve(struct espl_tried *tried, uint64_t more, struct espl_error *error);
/* How many different configurations there are to try, at most `most`. */
espl_status espl_tried_limit(const struct espl_tried *tried, uint64_t most, uint64_t *limit,
    struct espl_error *error);
/* Was it tried, or is it forbidden?  Of what was tried 0 where repeats are allowed. */
int espl_tried_has(const struct espl_tried *tried, const double *values);
/* *added (may be NULL): 0 if it was tried before; 1 if not, or repeats are allowed. */
espl_status espl_tried_add(struct espl_tried *tried, const double *values, int *added,
    struct espl_error *error);
/* A configuration that was not tried: of draw (NULL: uniform), a few times; then a uniform one;
 * then the next of the walk.  It counts as tried from now on.  ESPL_E_LIMIT, without a message:
 * all have been tried.  ESPL_E_CONFIG: what the user forbids leaves too little to find. */
espl_status espl_tried_new(struct espl_tried *tried, espl_tried_draw *draw, void *ctx,
    double *values, struct espl_error *error);
/* The next of the user's first points that was not tried, which then counts as tried; *next is the
 * caller's, 0 at the beginning.  NULL: there are no more. */
espl_status espl_tried_first(struct espl_tried *tried, const struct espl_first *first,
    uint32_t *next, const double **values, struct espl_error *error);
/* Up to `most` untried points, one after the other into values, of a finite space; 0: the space is
 * infinite, or has more.  They do not count as tried. */
espl_status espl_tried_rest(const struct espl_tried *tried, uint32_t most, double *values,
    uint32_t *count, struct espl_error *error);

#ifdef __cplusplus
}
#endif
#endif
