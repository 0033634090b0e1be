/* format_real.c - the shortest text that reads back as the same real number.
 *
 * It is what printf prints with 15 digits, or else with 16 or 17.  Every start of a trial formats
 * its settings, so the usual numbers do without printf and strtod: from 1e-4 to 1e14, 128 bits
 * hold a number and its neighbors exactly.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"

#define HIDDEN_BIT (UINT64_C(1) << 52)

/* Each of them is a little above its power of ten, or equal to it. */
static const double tens[] = { 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8,
	1e9, 1e10, 1e11, 1e12, 1e13, 1e14 };
enum { TENS = sizeof tens / sizeof tens[0] };

/* Writes `digits`, which does not end in 0, so that the first digit stands for 10^exponent. */
static void
write_digits(char *to, uint64_t digits, int exponent)
{
	char text[24];
	int count = 0, at = (int)sizeof text;

	for (; digits > 0; digits /= 10, count++)
		text[--at] = (char)('0' + digits % 10);
	ESPL__ASSERT(count > 0 && count <= 17 && exponent >= -4 && exponent <= 14);
	if (exponent < 0) {
		memcpy(to, "0.000", 5);
		to += 1 - exponent;
		memcpy(to, text + at, (size_t)count);
		to[count] = '\0';
		return;
	}
	for (int i = 0; i < count || i <= exponent; i++) {
		if (i == exponent + 1)
			*to++ = '.';
		*to++ = i < count ? text[at + i] : '0';
	}
	*to = '\0';
}

/* 0: outside the range that it knows, or a power of two that is not short; nothing is written. */
static int
format_usual(double value, char *to)
{
	unsigned __int128 scaled;
	uint64_t bits, mantissa, whole, rest, gap = 1;
	int exponent = -4, binary, shift, power;

	if (!(value >= tens[0] && value < tens[TENS - 1]))
		return 0;
	while (value >= tens[exponent + 5])
		exponent++;
	memcpy(&bits, &value, sizeof bits);
	mantissa = (bits & (HIDDEN_BIT - 1)) | HIDDEN_BIT;
	binary = (int)(bits >> 52) - 1075; /* value = mantissa * 2^binary */
	/* value * 10^power has 17 digits before its point.  Times 2^shift it is an integer, and
	 * the gap to the next number is 5^power. */
	power = 16 - exponent;
	shift = -(binary + power);
	for (int i = 0; i < power; i++)
		gap *= 5;
	scaled = (unsigned __int128)mantissa * gap;
	ESPL__ASSERT(shift > 0 && shift < 56);
	whole = (uint64_t)(scaled >> shift);
	rest = (uint64_t)scaled & ((UINT64_C(1) << shift) - 1);
	for (uint64_t unit = 100;; unit /= 10) {
		uint64_t digits = whole / unit, size = unit << shift;
		uint64_t off = (whole % unit << shift) + rest;

		if (2 * off > size || (2 * off == size && digits % 2 == 1)) {
			digits++;
			off = size - off;
		}
		/* Below a power of two the next number is nearer. */
		if (mantissa == HIDDEN_BIT && off > 0)
			return 0;
		if (unit > 1 && (2 * off > gap || (2 * off == gap && mantissa % 2 == 1)))
			continue;
		/* Not rounded up to a power of ten, which would read back as another number. */
		while (digits % 10 == 0)
			digits /= 10;
		write_digits(to, digits, exponent);
		return 1;
	}
}

char *
espl__format_real(double value, char to[32])
{
	to[0] = '-';
	if (format_usual(fabs(value), to + (value < 0)))
		return to;
	/* Below the normal numbers fewer digits are enough. */
	for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
		snprintf(to, 32, "%.*g", digits, value);
		if (isnan(value) || strtod(to, NULL) == value)
			break;
	}
	return to;
}

char *
espl__format_value(double value, char to[32])
{
	size_t digits, rest;

	espl__format_real(value, to);
	digits = strspn(to, "-0123456789");
	rest = strlen(to + digits) + 1;
	if (!isfinite(value) || to[digits] == '.')
		return to;
	ESPL__ASSERT(digits + rest + 2 <= 32);
	memmove(to + digits + 2, to + digits, rest); /* an exponent, or nothing */
	memcpy(to + digits, ".0", 2);
	return to;
}
