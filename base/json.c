/* json.c - members and elements of JSON text. */
#include "base/json.h"

#include <string.h>

void
espl__json_key(struct espl__buf *b, const char *name)
{
	if (b->size > 0 && strchr("{[,: \n", b->data[b->size - 1]) == NULL)
		espl__print(b, ", ");
	if (name != NULL) {
		espl__print_json(b, name);
		espl__print(b, ": ");
	}
}

void
espl__json_open(struct espl__buf *b, const char *name, char bracket)
{
	espl__json_key(b, name);
	espl__print(b, "%c", bracket);
}

void
espl__json_raw(struct espl__buf *b, const char *name, const char *json)
{
	espl__json_key(b, name);
	espl__print(b, "%s", json);
}

void
espl__json_text(struct espl__buf *b, const char *name, const char *text)
{
	espl__json_raw(b, name, text != NULL ? "" : "null");
	if (text != NULL)
		espl__print_json(b, text);
}

void
espl__json_int(struct espl__buf *b, const char *name, int64_t value)
{
	espl__json_key(b, name);
	espl__print(b, "%lld", (long long)value);
}

void
espl__json_real(struct espl__buf *b, const char *name, double value)
{
	espl__json_key(b, name);
	espl__print_number(b, value);
}

void
espl__json_bool(struct espl__buf *b, const char *name, int value)
{
	espl__json_raw(b, name, value ? "true" : "false");
}
