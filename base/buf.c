/* buf.c - growing bytes, and the one encoding that journal, wire and checkpoints share. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

void
espl__buf_free(struct espl__buf *b)
{
	free(b->data);
	memset(b, 0, sizeof *b);
}

void
espl__buf_grow(struct espl__buf *b, size_t more)
{
	size_t need;

	ESPL__ASSERT(b->size <= b->cap);
	if (__builtin_add_overflow(b->size, more, &need) || need > SIZE_MAX / 2)
		need = SIZE_MAX / 2; /* more than there is: the allocator says so */
	if (need <= b->cap)
		return;
	if (b->cap > 0 && need < b->cap * 2)
		need = b->cap * 2;
	if (need < 64)
		need = 64;
	b->data = espl__realloc(b->data, need, 1);
	b->cap = need;
}

void
espl__put(struct espl__buf *b, const void *bytes, size_t size)
{
	if (size == 0)
		return;
	espl__buf_reserve(b, size);
	memcpy(b->data + b->size, bytes, size);
	b->size += size;
}

/* Numbers are written with their lowest byte first, which on most machines is how they are kept. */
static inline uint64_t
to_little_endian(uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return value;
#else
	return __builtin_bswap64(value);
#endif
}

static inline void
to_little(uint8_t *to, uint64_t value, unsigned bytes)
{
	value = to_little_endian(value);
	memcpy(to, &value, bytes);
}

static inline void
put_little(struct espl__buf *b, uint64_t value, unsigned bytes)
{
	espl__buf_reserve(b, bytes);
	to_little(b->data + b->size, value, bytes);
	b->size += bytes;
}

void
espl__put_u32(struct espl__buf *b, uint32_t value)
{
	put_little(b, value, 4);
}

void
espl__put_u64(struct espl__buf *b, uint64_t value)
{
	put_little(b, value, 8);
}

void
espl__put_long(struct espl__buf *b, uint64_t value)
{
	espl__buf_reserve(b, 10);
	while (value >= 0x80) {
		b->data[b->size++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	b->data[b->size++] = (uint8_t)value;
}

void
espl__put_z64(struct espl__buf *b, int64_t value)
{
	espl__put_v64(b, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

static inline uint64_t
bits_of(double value)
{
	uint64_t bits = UINT64_C(0x7ff8000000000000);

	if (!isnan(value))
		memcpy(&bits, &value, sizeof bits);
	return bits;
}

void
espl__put_f64(struct espl__buf *b, double value)
{
	espl__put_u64(b, bits_of(value));
}

void
espl__put_f64s(struct espl__buf *b, const double *values, size_t count)
{
	uint8_t *to;

	ESPL__ASSERT(values != NULL || count == 0);
	espl__buf_reserve(b, count * 8);
	to = b->data + b->size;
	for (size_t i = 0; i < count; i++, to += 8) {
		uint64_t bits = bits_of(values[i]);

		to_little(to, bits, 8);
	}
	b->size += count * 8;
}

void
espl__put_bytes(struct espl__buf *b, const void *bytes, size_t size)
{
	espl__put_v64(b, size);
	espl__put(b, bytes, size);
}

void
espl__put_str(struct espl__buf *b, const char *text)
{
	espl__put_bytes(b, text, text == NULL ? 0 : strlen(text));
}

/* ---- text ------------------------------------------------------------------------------ */

void
espl__vprint(struct espl__buf *b, const char *format, va_list args)
{
	va_list again;
	int length;

	espl__buf_reserve(b, 64);
	va_copy(again, args);
	length = vsnprintf((char *)b->data + b->size, b->cap - b->size, format, args);
	ESPL__ASSERT(length >= 0);
	if ((size_t)length >= b->cap - b->size) {
		espl__buf_reserve(b, (size_t)length + 1);
		vsnprintf((char *)b->data + b->size, b->cap - b->size, format, again);
	}
	va_end(again);
	b->size += (size_t)length;
}

void
espl__print(struct espl__buf *b, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	espl__vprint(b, format, args);
	va_end(args);
}

size_t
espl__utf8_length(const unsigned char *p)
{
	size_t length;
	uint32_t c, least;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		length = 2;
		c = p[0] & 0x1fu;
		least = 0x80;
	} else if ((p[0] & 0xf0) == 0xe0) {
		length = 3;
		c = p[0] & 0x0fu;
		least = 0x800;
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		length = 4;
		c = p[0] & 0x07u;
		least = 0x10000;
	} else {
		return 0;
	}
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = (c << 6) | (p[i] & 0x3fu);
	}
	if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	return length;
}

static int
is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void
espl__print_json(struct espl__buf *b, const char *text)
{
	const unsigned char *p = (const unsigned char *)(text == NULL ? "" : text);

	espl__put_u8(b, '"');
	while (*p != '\0') {
		size_t length = 0;

		while (is_plain(p[length]))
			length++;
		if (length > 0) { /* most texts are nothing else */
			espl__put(b, p, length);
			p += length;
			continue;
		}
		length = espl__utf8_length(p);
		if (length == 0) {
			espl__put(b, "\\ufffd", 6);
			length = 1;
		} else if (*p == '"' || *p == '\\') {
			espl__put_u8(b, '\\');
			espl__put_u8(b, *p);
		} else if (*p == '\n') {
			espl__put(b, "\\n", 2);
		} else if (*p == '\t') {
			espl__put(b, "\\t", 2);
		} else if (*p < 0x20 || *p == 0x7f) {
			espl__print(b, "\\u%04x", (unsigned)*p);
		} else {
			espl__put(b, p, length);
		}
		p += length;
	}
	espl__put_u8(b, '"');
}

void
espl__print_number(struct espl__buf *b, double value)
{
	char text[32];

	if (isfinite(value))
		espl__print(b, "%s", espl__format_real(value, text));
	else
		espl__put(b, "null", 4);
}

const char *
espl__buf_text(struct espl__buf *b)
{
	espl__buf_reserve(b, 1);
	b->data[b->size] = '\0';
	return (const char *)b->data;
}

/* ---- reader ---------------------------------------------------------------------------- */

static int
has_bytes(struct espl__reader *r, uint64_t bytes)
{
	if (!r->bad && (uint64_t)(r->end - r->at) < bytes)
		r->bad = 1;
	return !r->bad;
}

static inline uint64_t
from_little(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return to_little_endian(value);
}

static inline uint64_t
get_little(struct espl__reader *r, unsigned bytes)
{
	const uint8_t *at = r->at;

	if (!has_bytes(r, bytes))
		return 0;
	r->at = at + bytes;
	return from_little(at, bytes);
}

uint8_t
espl__get_u8(struct espl__reader *r)
{
	return (uint8_t)get_little(r, 1);
}

uint32_t
espl__get_u32(struct espl__reader *r)
{
	return (uint32_t)get_little(r, 4);
}

uint64_t
espl__get_u64(struct espl__reader *r)
{
	return get_little(r, 8);
}

uint64_t
espl__get_long(struct espl__reader *r)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t byte = espl__get_u8(r);

		if (r->bad)
			return 0;
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	r->bad = 1;
	return 0;
}

int64_t
espl__get_z64(struct espl__reader *r)
{
	uint64_t value = espl__get_v64(r);

	return (int64_t)((value >> 1) ^ (~(value & 1) + 1));
}

double
espl__get_f64(struct espl__reader *r)
{
	uint64_t bits = espl__get_u64(r);
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

void
espl__get_f64s(struct espl__reader *r, double *values, size_t count)
{
	const uint8_t *at = r->at;

	ESPL__ASSERT(values != NULL || count == 0);
	if (count > SIZE_MAX / 8 || !has_bytes(r, count * 8)) {
		r->bad = 1;
		for (size_t i = 0; i < count; i++)
			values[i] = 0.0;
		return;
	}
	for (size_t i = 0; i < count; i++, at += 8) {
		uint64_t bits = from_little(at, 8);

		memcpy(&values[i], &bits, sizeof bits);
	}
	r->at = at;
}

const void *
espl__get_bytes(struct espl__reader *r, size_t *size)
{
	uint64_t length = espl__get_v64(r);
	const void *bytes;

	*size = 0;
	if (!has_bytes(r, length))
		return NULL;
	bytes = r->at;
	r->at += length;
	*size = (size_t)length;
	return bytes;
}

void
espl__get_str(struct espl__reader *r, char *to, size_t room)
{
	size_t size;
	const void *bytes = espl__get_bytes(r, &size);

	ESPL__ASSERT(room > 0);
	to[0] = '\0';
	if (bytes == NULL || size == 0)
		return;
	if (size > room - 1 || memchr(bytes, 0, size) != NULL) {
		r->bad = 1;
		return;
	}
	memcpy(to, bytes, size);
	to[size] = '\0';
}

void
espl__print_csv(struct espl__buf *b, const char *text, const char *guard)
{
	if (text == NULL || strpbrk(text, ",\"\r\n") == NULL) {
		espl__print(b, "%s%s", guard, text != NULL ? text : "");
		return;
	}
	espl__print(b, "\"%s", guard);
	for (; *text != '\0'; text++) {
		if (*text == '"')
			espl__put_u8(b, '"');
		espl__put_u8(b, (uint8_t)*text);
	}
	espl__put_u8(b, '"');
}
