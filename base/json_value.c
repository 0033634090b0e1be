/* json_value.c - see json_value.h. */
#include "base/json_value.h"

#include "base/text.h"

static void
put_json(const json_t *value, struct espl__buf *to)
{
	const char *name, *separator = "";
	json_t *inner;
	size_t i;

	if (json_is_string(value)) {
		espl__print_json(to, json_string_value(value));
	} else if (json_is_array(value)) {
		espl__print(to, "[");
		json_array_foreach (value, i, inner) {
			espl__print(to, "%s", i > 0 ? ", " : "");
			put_json(inner, to);
		}
		espl__print(to, "]");
	} else if (json_is_object(value)) {
		espl__print(to, "{");
		json_object_foreach ((json_t *)(uintptr_t)value, name, inner) {
			espl__print(to, "%s", separator);
			espl__print_json(to, name);
			espl__print(to, ": ");
			put_json(inner, to);
			separator = ", ";
		}
		espl__print(to, "}");
	} else {
		espl__json_value_text(value, to);
	}
}

void
espl__json_value_text(const json_t *value, struct espl__buf *to)
{
	char number[32];

	if (json_is_string(value))
		espl__print(to, "%s", json_string_value(value));
	else if (json_is_integer(value))
		espl__print(to, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		espl__print(to, "%s", espl__format_value(json_real_value(value), number));
	else if (json_is_boolean(value))
		espl__print(to, "%s", json_is_true(value) ? "true" : "false");
	else if (json_is_null(value))
		espl__print(to, "null");
	else if (json_is_array(value) || json_is_object(value))
		put_json(value, to);
}
