/* expr.h - conditions that a user writes, such as "layers > 8 and optimizer = 'sgd'".
 *
 *	CONDITION: CONDITION or CONDITION, CONDITION and CONDITION, not CONDITION, VALUE < VALUE
 *	           (also <=, >, >=, = or ==, !=)
 *	VALUE: a number, a name, {any name}, 'text' of a choice, VALUE + VALUE (also -, *, /), -
 *VALUE
 *
 * A comparison with a value that is not there (NaN: a parameter that is inactive, a metric that was
 * not reported) is false.
 */
#ifndef ESPL__EXPR_H
#define ESPL__EXPR_H
#include "base/diag.h"

/* What the names in a condition are; the functions must be pure. */
struct espl__expr_scope {
	const void *ctx;
	/* The index of a name, ESPL_ANY: there is none.  *labels: its value is one of several
	 * texts, which can only be compared for equality. */
	uint32_t (*find)(const void *ctx, const char *name, int *labels);
	/* The index of a text, or else of a number, among those of a name; ESPL_ANY: none of them.
	 */
	uint32_t (*label)(const void *ctx, uint32_t name, const char *text, double number);
	const char *what;         /* "a parameter", for messages */
	const char *example;      /* a condition, for hints */
	const char *const *names; /* for hints */
	uint32_t name_count;
};
/* The value of a name: a number, or the index of its label; NaN: none. */
typedef double espl__expr_value(const void *ctx, uint32_t name);

struct espl__expr; /* immutable */
/* E_CONFIG with file and line, and a message that says what `label` holds ("forbid"). */
espl_status espl__expr_parse(const char *text, const struct espl__expr_scope *, const char *label,
    const char *file, uint32_t line, struct espl__expr **, struct espl__diag *);
void espl__expr_free(struct espl__expr *); /* may be NULL */
/* Whether it holds.  Allocates nothing. */
int espl__expr_holds(const struct espl__expr *, espl__expr_value *, const void *ctx);
/* How far it is from holding: above 0 it does not; else it does, with so much to spare.  Of a
 * comparison of numbers that is their difference relative to them, from -1 to 1; of several that
 * must hold the worst.  NaN: a value that it needs is not there. */
double espl__expr_shortfall(const struct espl__expr *, espl__expr_value *, const void *ctx);
const char *espl__expr_text(const struct espl__expr *); /* as the user wrote it */
#endif
