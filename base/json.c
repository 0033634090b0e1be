/* json.c - members and elements of JSON text. */
#include "base/json.h"

#include <string.h>

void
espl__json_key(struct espl__buf *b, const char *name)
{
	if (b->size > 0 && strchr("{[,: \n", b->data[b->size - 1]) == NULL)
		espl__put(b, ", ", 2);
	if (name != NULL) {
		espl__print_json(b, name);
		espl__put(b, ": ", 2);
	}
}

void
espl__json_open(struct espl__buf *b, const char *name, char bracket)
{
	espl__json_key(b, name);
	espl__put_u8(b, (uint8_t)bracket);
}

void
espl__json_raw(struct espl__buf *b, const char *name, const char *json)
{
	espl__json_key(b, name);
	espl__put(b, json, strlen(json));
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

const char *
espl__json_quote(const char *text, size_t *size, struct espl__buf *to)
{
	size_t i;
	int inside = 0, found = 0;

	for (i = 0; i < *size && !found; i++)
		found = text[i] == 'N' || text[i] == 'I';
	if (!found)
		return text;
	for (i = 0; i < *size; i++) {
		size_t left = *size - i;
		const char *word = NULL;

		if (inside && text[i] == '\\' && left > 1) {
			espl__put(to, text + i++, 1);
		} else if (text[i] == '"') {
			inside = !inside;
		} else if (!inside) {
			if (left >= 9 && memcmp(text + i, "-Infinity", 9) == 0)
				word = "-Infinity";
			else if (left >= 8 && memcmp(text + i, "Infinity", 8) == 0)
				word = "Infinity";
			else if (left >= 3 && memcmp(text + i, "NaN", 3) == 0)
				word = "NaN";
		}
		if (word != NULL) {
			espl__print(to, "\"%s\"", word);
			i += strlen(word) - 1;
		} else {
			espl__put(to, text + i, 1);
		}
	}
	*size = to->size;
	return espl__buf_text(to);
}
