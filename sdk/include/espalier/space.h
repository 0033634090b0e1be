/* espalier SDK: space.h - how an algorithm sees the search space.
 *
 * A configuration crosses the boundary as one array of doubles in the space's order:
 *   REAL its value; INT its value (bounds within +-2^53, so exact); CHOICE and ORDINAL the
 *   index of the label; a parameter that is inactive under its conditions is NaN.
 * The unit cube has the same length: scale and quantum undone, 0..1, CHOICE as (index+0.5)/n.
 * The host alone knows scales, steps and conditions; algorithms never re-implement them.
 */
#ifndef ESPALIER_SPACE_H
#define ESPALIER_SPACE_H
#include <espalier/abi.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t espl_param_type;
enum { ESPL_REAL = 1, ESPL_INT, ESPL_CHOICE, ESPL_ORDINAL }; /* constants are not listed */
typedef uint32_t espl_scale; /* of [low, high] on the unit interval; REVERSE_LOG is as
			      * fine near high as LOG is near low */
enum { ESPL_LINEAR = 1, ESPL_LOG, ESPL_REVERSE_LOG };

/* frozen, 16 bytes: parameter has one of its values */
struct espl_when {
	uint32_t param; /* index, always before the parameter it governs */
	uint32_t zero;
	double value; /* of a CHOICE or ORDINAL: label index */
};

struct espl_param {
	uint32_t size;
	espl_param_type type;
	espl_scale scale;             /* REAL, INT; LINEAR otherwise */
	uint32_t label_count;         /* CHOICE, ORDINAL */
	const char *name;             /* as in the configuration file, unique */
	double low, high;             /* REAL, INT: both included */
	double quantum;               /* values are low + k * quantum; 0: no steps */
	double fallback;              /* the user's default; NaN: none given */
	uint64_t levels;              /* distinct values; 0: a continuum (grid, duplicates) */
	const char *const *labels;    /* CHOICE, ORDINAL, [label_count]; ORDINAL in order */
	const struct espl_when *when; /* AND over different params, OR over one's values */
	uint32_t when_count;          /* 0: always active */
	uint32_t zero;
};

/* Functions of the space are pure and quick; arrays have param_count elements and may not
 * overlap.  Nothing is allocated. */
struct espl_space {
	uint32_t size;
	uint32_t param_count;                   /* may be 0: a space of constants */
	void *ctx;                              /* the host's */
	const struct espl_param *const *params; /* [param_count], valid until destroy */
	/* Index of a name, or ESPL_ANY. */
	uint32_t (*find)(const struct espl_space *, const char *name);
	/* Native value of one parameter at u in [0, 1], whatever its conditions; for grids, and
	 * for new draws.  NaN: no such parameter, or u outside. */
	double (*value)(const struct espl_space *, uint32_t param, double u);
	/* unit -> configuration.  Every coordinate must be in [0, 1] (give inactive ones any);
	 * what the conditions switch off becomes NaN.  A random configuration = uniform units.
	 * ESPL_E_BUG: a coordinate outside. */
	espl_status (*from_unit)(const struct espl_space *, const double *unit, double *values);
	/* configuration -> unit, NaN where inactive (imputing is the algorithm's affair).
	 * ESPL_E_BUG: no valid configuration. */
	espl_status (*to_unit)(const struct espl_space *, const double *values, double *unit);
	/* Makes a valid configuration of a nearly valid one: clamps, rounds to the quantum,
	 * makes inactive ones NaN.  ESPL_E_UNKNOWN: *missing is active but NaN (a condition
	 * has just switched it on): fill it and snap again.  PBT's explore: change, snap. */
	espl_status (*snap)(const struct espl_space *, double *values, uint32_t *missing);
	/* Equal configurations have equal hashes, on every platform. */
	uint64_t (*hash)(const struct espl_space *, const double *values);
};

#ifdef __cplusplus
}
#endif
#endif
