/* json_value.h - a value of a parameter, read from JSON, as programs and tables get it. */
#ifndef ESPL__JSON_VALUE_H
#define ESPL__JSON_VALUE_H
#include <jansson.h>
#include "base/buf.h"

/* Text as it is, a real with its point, true and false; lists, objects and null as JSON. */
void espl__json_value_text(const json_t *, struct espl__buf *to);
#endif
