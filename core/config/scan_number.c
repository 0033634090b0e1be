/* scan_number.c - helpers of the scan: numbers with their ranges checked (libconfig 1.5 wraps
 * integers that do not fit and makes large reals infinite, silently), where a line came from, and
 * which names need no quotes.
 */
#include "base/assert.h"
#include "config/scan.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

static int
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int
is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static size_t
skip_digits(const char *text, size_t size, size_t at)
{
	while (at < size && is_digit(text[at]))
		at++;
	return at;
}

static char
hex_number(const char *text, size_t size, int64_t *i, int *wide)
{
	uint64_t value = 0;
	size_t at = 2;

	for (; at < size && is_hex(text[at]); at++) {
		uint64_t digit = is_digit(text[at]) ? (uint64_t)(text[at] - '0')
						    : (uint64_t)((text[at] | 0x20) - 'a') + 10;

		if (value >> 59 != 0)
			*wide = 1;
		value = value << 4 | digit;
	}
	if (at == 2)
		return 0;
	for (int count = 0; count < 2 && at < size && text[at] == 'L'; count++)
		at++;
	if (at != size)
		return 0;
	if (*wide)
		return 0;
	*i = (int64_t)value;
	return 'i';
}

static char
decimal_number(const char *text, size_t digits_end, int64_t *i, int *wide)
{
	char copy[32];

	if (digits_end >= sizeof copy) {
		*wide = 1;
		return 0;
	}
	memcpy(copy, text, digits_end);
	copy[digits_end] = '\0';
	if (espl__parse_int(copy, i) != 0) {
		*wide = 1;
		return 0;
	}
	return 'i';
}

char
espl__scan_number(const char *text, size_t size, int64_t *i, double *r, int *wide)
{
	size_t at = 0, whole;
	char copy[512];

	ESPL__ASSERT(text != NULL || size == 0);
	*wide = 0;
	if (size >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return hex_number(text, size, i, wide);
	if (at < size && (text[at] == '-' || text[at] == '+'))
		at++;
	whole = at;
	at = skip_digits(text, size, at);
	if (at > whole) {
		size_t mark = at;

		for (int count = 0; count < 2 && mark < size && text[mark] == 'L'; count++)
			mark++;
		if (mark == size)
			return decimal_number(text, at, i, wide);
	}
	whole = at - whole;
	if (at < size && text[at] == '.') {
		size_t point = ++at;

		at = skip_digits(text, size, at);
		whole += at - point;
	}
	if (whole == 0)
		return 0;
	if (at < size && (text[at] == 'e' || text[at] == 'E')) {
		size_t mark = at + 1;

		if (mark < size && (text[mark] == '-' || text[mark] == '+'))
			mark++;
		at = skip_digits(text, size, mark);
		if (at == mark)
			return 0;
	}
	if (at != size)
		return 0;
	if (size >= sizeof copy) {
		*wide = 1;
		return 0;
	}
	memcpy(copy, text, size);
	copy[size] = '\0';
	if (espl__parse_real(copy, r) != 0) {
		*wide = 1;
		return 0;
	}
	return 'r';
}

void
espl__scan_place(const struct espl__scan *scan, uint32_t flat, const char **file, uint32_t *line)
{
	uint32_t low = 0, high = scan->part_count;

	*file = NULL;
	*line = 0;
	if (high == 0)
		return;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (scan->parts[mid].flat <= flat)
			low = mid;
		else
			high = mid;
	}
	*file = scan->parts[low].file;
	*line = scan->parts[low].line +
	    (flat > scan->parts[low].flat ? flat - scan->parts[low].flat : 0);
}

int
espl__scan_plain(const char *name)
{
	size_t i;

	if (strcasecmp(name, "true") == 0 || strcasecmp(name, "false") == 0 ||
	    strncmp(name, ESPL__SCAN_CODED, sizeof ESPL__SCAN_CODED - 1) == 0)
		return 0;
	for (i = 0; name[i] != '\0'; i++) {
		char c = name[i];
		int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '*';

		if (!letter && (i == 0 || !(is_digit(c) || c == '-' || c == '_')))
			return 0;
	}
	return i > 0;
}
