/* space.h - the search space: parsed from the `space` group, seen by plugins as espl_space.
 *
 * Repeatable to the bit: value at u is computed with + - * / and floor alone where the scale is
 * linear; log scales use exp/log of the C library (see docs/architecture.md on other machines).
 */
#ifndef ESPL__SPACE_H
#define ESPL__SPACE_H
#include <espalier/space.h>
#include <espalier/trainable.h>
#include "config/tree.h"

struct espl__space; /* the experiment's; read-only once parsed */
/* Parameters: { type = real|int|choice|ordinal; low; high; scale = linear|log|reverse-log;
 * quantum; default; values; when = { other = value | [values] }; }, or a bare scalar: a constant.
 * Conditions may name only parameters written before. */
espl_status espl__space_parse(const struct espl__node *group, struct espl__space **,
    struct espl__diag *);
/* experiment.forbid, a list of conditions (expr.h) that no configuration may meet: E_CONFIG if one
 * is not understood, or if they leave (nearly) no configuration.  NULL: there is none. */
espl_status espl__space_forbid(struct espl__space *, const struct espl__node *,
    struct espl__diag *);
/* The share of the space that rules leave, estimated; 1: there are none. */
double espl__space_allowed_share(const struct espl__space *);
void espl__space_free(struct espl__space *);
const struct espl_space *espl__space_view(const struct espl__space *);
uint32_t espl__space_count(const struct espl__space *); /* parameters, constants not counted */
/* Active parameters and constants, in the file's order.  Returns how many; strings live as
 * long as `room` (numbers are printed into it). */
struct espl__settings {
	struct espl_setting *list;
	uint32_t count;
	char *room;
};
void espl__space_settings(const struct espl__space *, const double *values,
    struct espl__settings *);
void espl__settings_free(struct espl__settings *);
/* {"lr": 0.01, "optimizer": "sgd", ...} active ones and constants. */
void espl__space_json(const struct espl__space *, const double *values, struct espl__buf *);
/* One value of a parameter as JSON, of its type. */
void espl__space_value_json(const struct espl__space *, uint32_t param, double value,
    struct espl__buf *);
/* A group of the user ({ lr = 0.1; ... }: experiment.first) -> values; absent ones take their
 * default or are an error. */
espl_status espl__space_point(const struct espl__space *, const struct espl__node *, double *values,
    struct espl__diag *);
#endif
