/* space_impl.h - what space.c, space_parse.c and curves.c share about the search space: how a
 * parameter's values lie between its bounds.
 */
#ifndef ESPL__SPACE_IMPL_H
#define ESPL__SPACE_IMPL_H
#include "base/mem.h"
#include "model/expr.h"
#include "model/space.h"

enum espl__label_kind {
	ESPL__LABEL_TEXT = 1,
	ESPL__LABEL_NUMBER,
	ESPL__LABEL_BOOL,
	ESPL__LABEL_JSON /* a list, an object or null; its text is JSON */
};
/* a value of a choice or ordinal, or a constant */
struct espl__label {
	const char *text; /* as trials see it */
	double number;    /* NUMBER, BOOL (0, 1); else NaN */
	enum espl__label_kind kind;
};

/* Normal distributions end at this many standard deviations, beyond which a double near 1 does not
 * tell values apart. */
#define ESPL__NORMAL_MOST 4.0

struct espl__param {
	struct espl_param pub;
	struct espl__label *labels; /* CHOICE, ORDINAL: pub.label_count of them */
	double step;                /* INT, or REAL with a quantum: between levels; else 0 */
	double top;                 /* highest level (<= high); high where there is no step */
	double edge_low, edge_high; /* where values are not spread evenly: the sampled range; on log
				     * scales its logarithms */
	/* of a normal distribution, on a log scale of the logarithms; sd 0: it is none */
	double mean, sd;
	double share_low, share_high; /* of it below the edges */
	int grid;                     /* REAL: rounded to 10^grid (log: to 12 digits) */
	const char *file;
	uint32_t line;
};

/* in the file's order, for settings and JSON */
struct espl__setting {
	const char *name;
	uint32_t param; /* ESPL_ANY: a constant */
	uint32_t zero;
	struct espl__label constant;
};

#define ESPL__SPACE_MAGIC 0x76756466u
struct espl__space {
	struct espl_space view; /* its ctx is this struct */
	uint32_t magic;         /* ESPL__SPACE_MAGIC */
	struct espl__arena arena;
	struct espl__param *params;
	const struct espl_param **pubs;
	struct espl__setting *items;
	uint32_t count, item_count;
	struct espl__expr **rules; /* of which none may hold */
	uint32_t rule_count, rule_cap;
};

/* Where a value lies; beyond [0, 1] for one outside of the bounds (recorded curves). */
double espl__param_unit(const struct espl__param *, double value);
/* The nearest valid value. */
double espl__param_snap(const struct espl__param *, double value);
/* Do the conditions of params[param] hold?  Only earlier elements of values are read. */
int espl__param_active(const struct espl__space *, uint32_t param, const double *values);
/* Index of the label with this text, or else with this number; ESPL_ANY: none. */
uint32_t espl__param_label(const struct espl__param *, const char *text, double number);
/* Fills in step, top, edges, grid, levels from the public part; once, after parsing. */
void espl__param_prepare(struct espl__param *);
/* Adds a rule: a configuration for which it holds is forbidden. */
espl_status espl__space_rule(struct espl__space *, const char *text, const char *label,
    const char *file, uint32_t line, struct espl__diag *);
/* The first rule that forbids a configuration; NULL: none does. */
const struct espl__expr *espl__space_broken(const struct espl__space *, const double *values);
/* Connects view, pubs and functions once params and items are there. */
void espl__space_ready(struct espl__space *);
const struct espl__setting *espl__space_item(const struct espl__space *, const char *name);
/* Lists and arrays as those of JSON, groups as its objects, and the empty list () as null.  0; -1:
 * it has a number that is not finite. */
int espl__node_json(const struct espl__node *, struct espl__buf *to);
/* A scalar node as a value of the parameter (bounds checked).  `what` for the message. */
espl_status espl__param_read(const struct espl__param *, const struct espl__node *,
    const char *what, double *value, struct espl__diag *);
/* Does a constant have this value? */
int espl__constant_is(const struct espl__label *, const struct espl__node *);

static inline int
is_number(const struct espl__node *n)
{
	return n->type == ESPL__INT || n->type == ESPL__REAL;
}

static inline int
is_scalar(const struct espl__node *n)
{
	return is_number(n) || n->type == ESPL__BOOL || n->type == ESPL__STRING;
}
#endif
