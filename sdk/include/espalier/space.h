/* espalier SDK: space.h - how an algorithm sees the search space.
 *
 * A configuration crosses the boundary as one array of doubles in the space's order:
 *   REAL its value; INT its value (bounds within +-2^53, so exact); CHOICE and ORDINAL the
 *   index of the label; a parameter that is inactive under its conditions is NaN.
 * A point of the unit cube has the same length: each value mapped to 0..1 without scale and
 * quantum, CHOICE as (index+0.5)/n.  Scales, steps and conditions are implemented in the host
 * alone.
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

/* frozen, 16 bytes: the condition that a parameter has this value */
struct espl_when {
	uint32_t param; /* index, always before the parameter it governs */
	uint32_t zero;
	double value; /* for CHOICE and ORDINAL: label index */
};

struct espl_param {
	uint32_t size;
	espl_param_type type;
	espl_scale scale;     /* REAL, INT; LINEAR otherwise */
	uint32_t label_count; /* CHOICE, ORDINAL */
	const char *name;     /* as in the configuration file, unique */
	double low, high;     /* REAL, INT: bounds, both included */
	double quantum;       /* values are low + k * quantum; 0: no steps */
	double fallback;      /* the user's default; NaN: none */
	uint64_t levels;      /* number of distinct values; 0: continuous (for grids, duplicates) */
	const char *const *labels;    /* CHOICE, ORDINAL, [label_count]; ORDINAL in order */
	const struct espl_when *when; /* AND over different parameters, OR over the values of one */
	uint32_t when_count;          /* 0: always active */
	uint32_t zero;
};

/* Functions of the space are pure and fast, and allocate no memory; arrays have param_count
 * elements and must not overlap. */
struct espl_space {
	uint32_t size;
	uint32_t param_count;                   /* may be 0: a space of constants */
	void *ctx;                              /* the host's */
	const struct espl_param *const *params; /* [param_count], valid until destroy */
	/* Index of a name, or ESPL_ANY. */
	uint32_t (*find)(const struct espl_space *, const char *name);
	/* Value of one parameter at u in [0, 1], whatever its conditions; for grids and new draws.
	 * NaN: no such parameter, or u out of range. */
	double (*value)(const struct espl_space *, uint32_t param, double u);
	/* unit -> configuration.  Every coordinate must be in [0, 1] (any value for inactive
	 * parameters); parameters that the conditions switch off become NaN.  Uniform coordinates
	 * make a random configuration.  ESPL_E_BUG: a coordinate is out of range. */
	espl_status (*from_unit)(const struct espl_space *, const double *unit, double *values);
	/* configuration -> unit, NaN where inactive (imputing is left to the algorithm).
	 * ESPL_E_BUG: not a valid configuration. */
	espl_status (*to_unit)(const struct espl_space *, const double *values, double *unit);
	/* Makes a nearly valid configuration valid: clamps values, rounds them to the quantum, and
	 * sets inactive ones to NaN.  ESPL_E_UNKNOWN: parameter *missing is active but NaN (a
	 * condition has just switched it on): set it and call snap again.  PBT's explore is:
	 * change, then snap. */
	espl_status (*snap)(const struct espl_space *, double *values, uint32_t *missing);
	/* Equal configurations have equal hashes, on every platform. */
	uint64_t (*hash)(const struct espl_space *, const double *values);
	/* 1: the user allows this valid configuration; 0: experiment.forbid, or a bound that is
	 * another parameter, rules it out, and the host refuses a trial of it.  Since ABI 0.2;
	 * NULL: everything is allowed.  espl_space_allows asks it, and espl_tried never makes a
	 * configuration that is not allowed. */
	int (*allowed)(const struct espl_space *, const double *values);
};

#ifdef __cplusplus
}
#endif
#endif
