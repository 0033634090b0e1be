/* schema_value.h - one value by one option's rules; shared by the files of schema.h only. */
#ifndef ESPL__SCHEMA_VALUE_H
#define ESPL__SCHEMA_VALUE_H
#include "base/mem.h"
#include "config/schema.h"

/* what a value is checked against, and where errors go */
struct espl__value_by {
	const struct espl_option *option;
	const struct espl_option *table; /* the TABLE whose column `option` is, or NULL */
	uint32_t stride;
	const char *who;
	struct espl__arena *arena; /* strings, latencies and tables of values go here */
	struct espl__diag *diag;
};
/* A node the user wrote.  Type and limits are checked; source and line are set. */
espl_status espl__value_of_node(const struct espl__value_by *, const struct espl__node *,
    struct espl_value *);
/* Text of a descriptor (fallback, limits): the same rules, source ESPL_FALLBACK.  `limits`: 0
 * leaves them unchecked. */
espl_status espl__value_of_text(const struct espl__value_by *, const char *text, int limits,
    struct espl_value *);
/* Index in "a|b|c", or -1; the number of choices; choice `index` copied to `to`. */
int espl__choice_find(const char *choices, const char *text);
uint32_t espl__choice_count(const char *choices);
void espl__choice_at(const char *choices, uint32_t index, char *to, size_t room);
const char *espl__option_type_name(espl_option_type); /* "span", ...; NULL unknown */
#endif
