/* text.c - reads and writes the numbers, spans and amounts of configuration files and messages.
 *
 * Amounts with a unit are computed in integers, so "0.1s" is 100000000 ns on every machine.  The
 * programs never call setlocale: the C library's own conversions use a point everywhere.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/assert.h"
#include "base/text.h"

static int
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int
espl__parse_int(const char *text, int64_t *to)
{
	const char *p = text;
	int negative = *p == '-';
	uint64_t value = 0, most = (uint64_t)INT64_MAX + (negative ? 1 : 0);

	if (*p == '-' || *p == '+')
		p++;
	if (!is_digit(*p))
		return -1;
	for (; is_digit(*p); p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (value > (most - digit) / 10)
			return -1;
		value = value * 10 + digit;
	}
	if (*p != '\0')
		return -1;
	*to = negative ? (int64_t)(~value + 1) : (int64_t)value;
	return 0;
}

int
espl__parse_real(const char *text, double *to)
{
	const char *p = text;
	int digits = 0;
	double value;

	if (*p == '-' || *p == '+')
		p++;
	for (; is_digit(*p); p++)
		digits = 1;
	if (*p == '.')
		for (p++; is_digit(*p); p++)
			digits = 1;
	if (!digits)
		return -1;
	if (*p == 'e' || *p == 'E') {
		p++;
		if (*p == '-' || *p == '+')
			p++;
		if (!is_digit(*p))
			return -1;
		while (is_digit(*p))
			p++;
	}
	if (*p != '\0')
		return -1;
	value = strtod(text, NULL);
	if (!isfinite(value))
		return -1;
	*to = value;
	return 0;
}

int
espl__parse_bool(const char *text, int64_t *to)
{
	static const char *const words[2][4] = { { "false", "no", "off", "0" },
		{ "true", "yes", "on", "1" } };

	ESPL__ASSERT(text != NULL && to != NULL);
	for (int value = 0; value < 2; value++)
		for (int i = 0; i < 4; i++)
			if (strcmp(text, words[value][i]) == 0) {
				*to = value;
				return 0;
			}
	return -1;
}

/* ---- decimal amounts ------------------------------------------------------------------- */

struct decimal {
	uint64_t digits;
	int exponent;
}; /* digits * 10^exponent */

/* Digits, a point, digits; moves *at behind them.  -1: no digit, or too large for anything.
 * More than 19 significant digits: those behind the point are dropped. */
static int
scan_decimal(const char **at, struct decimal *d)
{
	const char *p = *at;
	int any = 0, behind = 0;

	d->digits = 0;
	d->exponent = 0;
	for (;; p++) {
		if (*p == '.' && !behind) {
			behind = 1;
			continue;
		}
		if (!is_digit(*p))
			break;
		any = 1;
		if (d->digits > (UINT64_MAX - 9) / 10) {
			if (!behind)
				return -1;
			continue;
		}
		d->digits = d->digits * 10 + (uint64_t)(*p - '0');
		d->exponent -= behind;
	}
	*at = p;
	return any ? 0 : -1;
}

/* digits * 10^exponent * unit, rounded to the nearest; -1: beyond int64_t. */
static int
scale_decimal(struct decimal d, int64_t unit, int64_t *to)
{
	unsigned __int128 value = (unsigned __int128)d.digits * (uint64_t)unit, divisor = 1;

	if (value == 0) {
		*to = 0;
		return 0;
	}
	for (; d.exponent > 0; d.exponent--) {
		if (value > INT64_MAX)
			return -1;
		value *= 10;
	}
	if (d.exponent < -38) {
		*to = 0;
		return 0;
	}
	for (; d.exponent < 0; d.exponent++)
		divisor *= 10;
	value = value / divisor + (value % divisor >= divisor - divisor / 2 ? 1 : 0);
	if (value > INT64_MAX)
		return -1;
	*to = (int64_t)value;
	return 0;
}

struct unit {
	const char *name;
	int64_t size;
};

/* The unit whose name begins at p, the longest that fits; NULL: none. */
static const struct unit *
find_unit(const struct unit *units, size_t count, const char *p)
{
	const struct unit *best = NULL;
	size_t best_length = 0;

	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(units[i].name);

		if (length > best_length && strncmp(p, units[i].name, length) == 0) {
			best = &units[i];
			best_length = length;
		}
	}
	return best;
}

static const struct unit span_units[] = {
	{ "d", 86400 * ESPL_SECOND },
	{ "h", 3600 * ESPL_SECOND },
	{ "m", 60 * ESPL_SECOND },
	{ "s", ESPL_SECOND },
	{ "ms", 1000000 },
	{ "us", 1000 },
	{ "ns", 1 },
};
enum { SPAN_UNITS = sizeof span_units / sizeof span_units[0] };

int
espl__parse_span(const char *text, espl_span *to)
{
	const char *p = text;
	int64_t sum = 0, part, before = INT64_MAX;

	ESPL__ASSERT(to != NULL);
	if (strcmp(text, "0") == 0) {
		*to = 0;
		return 0;
	}
	do {
		const struct unit *unit;
		struct decimal d;

		if (scan_decimal(&p, &d) != 0)
			return -1;
		unit = find_unit(span_units, SPAN_UNITS, p);
		/* From large to small, each once. */
		if (unit == NULL || unit->size >= before)
			return -1;
		before = unit->size;
		p += strlen(unit->name);
		if (scale_decimal(d, unit->size, &part) != 0 ||
		    __builtin_add_overflow(sum, part, &sum))
			return -1;
	} while (*p != '\0');
	if (sum == ESPL_NEVER)
		return -1;
	*to = sum;
	return 0;
}

int
espl__parse_bytes(const char *text, int64_t *to)
{
	static const struct unit units[] = {
		{ "B", 1 },
		{ "kB", 1000 },
		{ "KB", 1000 },
		{ "KiB", 1024 },
		{ "MB", 1000000 },
		{ "MiB", INT64_C(1) << 20 },
		{ "GB", 1000000000 },
		{ "GiB", INT64_C(1) << 30 },
		{ "TB", INT64_C(1000000000000) },
		{ "TiB", INT64_C(1) << 40 },
		{ "PB", INT64_C(1000000000000000) },
		{ "PiB", INT64_C(1) << 50 },
	};
	const char *p = text;
	const struct unit *unit = &units[0];
	struct decimal d;

	ESPL__ASSERT(text != NULL && to != NULL);
	if (scan_decimal(&p, &d) != 0)
		return -1;
	if (*p != '\0') {
		unit = find_unit(units, sizeof units / sizeof units[0], p);
		if (unit == NULL || p[strlen(unit->name)] != '\0')
			return -1;
	}
	return scale_decimal(d, unit->size, to);
}

int
espl__parse_money(const char *text, espl_money *to)
{
	const char *p = text;
	int negative = *p == '-';
	struct decimal d;
	int64_t exponent = 0, value;

	if (*p == '-' || *p == '+')
		p++;
	if (scan_decimal(&p, &d) != 0)
		return -1;
	if (*p == 'e' || *p == 'E') {
		if (espl__parse_int(p + 1, &exponent) != 0 || exponent < -100 || exponent > 100)
			return -1;
		d.exponent += (int)exponent;
	} else if (*p != '\0') {
		return -1;
	}
	if (scale_decimal(d, ESPL_USD, &value) != 0)
		return -1;
	*to = negative ? -value : value;
	return 0;
}

/* ---- writing --------------------------------------------------------------------------- */

/* value/size as a decimal of its unit, exact: size is a power of ten. */
static int
print_part(char *to, size_t room, int64_t value, int64_t size, const char *unit)
{
	int64_t rest = value % size;
	int digits = 0, length;

	if (rest == 0)
		return snprintf(to, room, "%lld%s", (long long)(value / size), unit);
	for (int64_t i = size; i > 1; i /= 10)
		digits++;
	for (; rest % 10 == 0; digits--)
		rest /= 10;
	length = snprintf(to, room, "%lld.%0*lld%s", (long long)(value / size), digits,
	    (long long)rest, unit);
	return length;
}

char *
espl__format_span(espl_span span, char to[32])
{
	char *p = to;
	size_t room = 32;
	int written;

	if (span == ESPL_NEVER) {
		snprintf(to, room, "never");
		return to;
	}
	if (span < 0) {
		*p++ = '-';
		room--;
		span = span == INT64_MIN ? INT64_MAX : -span;
	}
	for (int i = 1; i <= 2; i++)
		if (span >= span_units[i].size) {
			written = snprintf(p, room, "%lld%s",
			    (long long)(span / span_units[i].size), span_units[i].name);
			p += written;
			room -= (size_t)written;
			span %= span_units[i].size;
		}
	if (span == 0 && p > to && p[-1] != '-')
		return to;
	if (span == 0 || span >= ESPL_SECOND)
		print_part(p, room, span, ESPL_SECOND, "s");
	else if (span >= 1000000)
		print_part(p, room, span, 1000000, "ms");
	else if (span >= 1000)
		print_part(p, room, span, 1000, "us");
	else
		print_part(p, room, span, 1, "ns");
	return to;
}

char *
espl__format_short(espl_span span, char to[32])
{
	const char *sign = span < 0 ? "-" : "";
	long long ns = span < 0 ? (span == INT64_MIN ? INT64_MAX : -span) : span;
	/* Rounded as it is shown, so that 59.96 s is not 59 s. */
	long long tenths = ns / 100000000 + (ns % 100000000 >= 50000000);
	long long s = ns / ESPL_SECOND + (ns % ESPL_SECOND >= ESPL_SECOND / 2);

	if (span == ESPL_NEVER)
		snprintf(to, 32, "never");
	else if (ns == 0)
		snprintf(to, 32, "0s");
	else if (ns < 1000)
		snprintf(to, 32, "%s%lldns", sign, ns);
	else if (ns < 1000000)
		snprintf(to, 32, "%s%lldus", sign, ns / 1000);
	else if (ns < 999500000)
		snprintf(to, 32, "%s%lldms", sign, (ns + 500000) / 1000000);
	else if (tenths < 100)
		snprintf(to, 32, "%s%lld.%llds", sign, tenths / 10, tenths % 10);
	else if (s < 60)
		snprintf(to, 32, "%s%llds", sign, s);
	else if (s < 3600)
		snprintf(to, 32, "%s%lldm%02llds", sign, s / 60, s % 60);
	else if (s < 86400)
		snprintf(to, 32, "%s%lldh%02lldm", sign, s / 3600, s % 3600 / 60);
	else
		snprintf(to, 32, "%s%lldd%02lldh", sign, s / 86400, s % 86400 / 3600);
	return to;
}

char *
espl__format_money(espl_money money, char to[32])
{
	uint64_t micro = money < 0 ? ~(uint64_t)money + 1 : (uint64_t)money;
	int length = snprintf(to, 32, "%s%llu.%06llu", money < 0 ? "-" : "",
	    (unsigned long long)(micro / ESPL_USD), (unsigned long long)(micro % ESPL_USD));

	for (int zeros = 0; zeros < 4 && to[length - 1] == '0'; zeros++)
		to[--length] = '\0';
	return to;
}

/* ---- nearest name ---------------------------------------------------------------------- */

enum { NEAREST_LONGEST = 63 };

/* Insertions, deletions, substitutions and swaps of neighbors; both at most NEAREST_LONGEST. */
static size_t
edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][NEAREST_LONGEST + 1];
	size_t *two_up = rows[0], *up = rows[1], *row = rows[2], *spare;

	for (size_t j = 0; j <= b_length; j++)
		up[j] = j;
	memcpy(two_up, up, sizeof rows[0]);
	for (size_t i = 1; i <= a_length; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

			if (up[j] + 1 < best)
				best = up[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    two_up[j - 2] + 1 < best)
				best = two_up[j - 2] + 1;
			row[j] = best;
		}
		spare = two_up;
		two_up = up;
		up = row;
		row = spare;
	}
	return up[b_length];
}

const char *
espl__nearest(const char *text, const char *const *names, size_t count)
{
	size_t length = strlen(text), best_distance = length / 3 + 1;
	const char *best = NULL;

	if (length > NEAREST_LONGEST)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t name_length = strlen(names[i]), d;

		if (name_length > NEAREST_LONGEST)
			continue;
		d = edit_distance(text, length, names[i], name_length);
		if (d < best_distance) {
			best_distance = d;
			best = names[i];
		}
	}
	return best;
}

void
espl__clean_text(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++) {
		/* U+0080 to U+009F, which some terminals obey, too */
		if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			c[0] = c[1] = ' ';
		else if (*c < ' ' || *c == 0x7f)
			*c = ' ';
	}
}
