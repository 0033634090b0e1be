/* buf.h - growing bytes and a reader over bytes: journal, wire and text are made of these.
 *
 * All integers are little-endian; v64 is LEB128 (7 bits a byte).  A reader never reads beyond
 * its end: the first attempt sets `bad`, and every later get returns 0.
 */
#ifndef ESPL__BUF_H
#define ESPL__BUF_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct espl__buf {
	uint8_t *data;
	size_t size, cap;
};
void espl__buf_free(struct espl__buf *); /* and zeroes it */
static inline void
espl__buf_clear(struct espl__buf *b)
{
	b->size = 0;
}
/* The same, and gives back what one great answer took; small buffers are kept. */
static inline void
espl__buf_reset(struct espl__buf *b)
{
	if (b->cap > (1u << 18))
		espl__buf_free(b);
	else
		espl__buf_clear(b);
}
void espl__buf_grow(struct espl__buf *, size_t more);
static inline void
espl__buf_reserve(struct espl__buf *b, size_t more)
{
	if (b->cap - b->size < more)
		espl__buf_grow(b, more);
}
void espl__put(struct espl__buf *, const void *, size_t);
static inline void
espl__put_u8(struct espl__buf *b, uint8_t value)
{
	espl__buf_reserve(b, 1);
	b->data[b->size++] = value;
}
void espl__put_u32(struct espl__buf *, uint32_t);
void espl__put_u64(struct espl__buf *, uint64_t);
void espl__put_long(struct espl__buf *, uint64_t);
static inline void
espl__put_v64(struct espl__buf *b, uint64_t value) /* unsigned LEB128; most are small */
{
	if (value < 0x80)
		espl__put_u8(b, (uint8_t)value);
	else
		espl__put_long(b, value);
}
void espl__put_z64(struct espl__buf *, int64_t);                 /* zig-zag LEB128 */
void espl__put_f64(struct espl__buf *, double);                  /* bits; NaN made canonical */
void espl__put_f64s(struct espl__buf *, const double *, size_t); /* one after another */
void espl__put_str(struct espl__buf *, const char *);            /* v64 length, bytes; NULL as "" */
void espl__put_bytes(struct espl__buf *, const void *, size_t);  /* v64 length, bytes */
/* Text: appended without a NUL; espl__buf_text adds one that is not counted. */
void espl__print(struct espl__buf *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void espl__vprint(struct espl__buf *, const char *format, va_list)
    __attribute__((format(printf, 2, 0)));
/* Bytes of the well-formed UTF-8 sequence at p (in a text that ends with a NUL); 0: it is none. */
size_t espl__utf8_length(const unsigned char *p);
void espl__print_json(struct espl__buf *, const char *text); /* quoted and escaped */
/* A field of CSV, in quotes where it needs them; the guard comes before its text. */
void espl__print_csv(struct espl__buf *, const char *text, const char *guard);
/* JSON: reads back the same; not finite: null */
void espl__print_number(struct espl__buf *, double);
const char *espl__buf_text(struct espl__buf *);

struct espl__reader {
	const uint8_t *at, *end;
	int bad;
};
static inline struct espl__reader
espl__reader(const void *p, size_t n)
{ /* Nothing to read may be NULL, to which not even 0 is added. */
	const uint8_t *at = p != NULL ? (const uint8_t *)p : (const uint8_t *)"";
	struct espl__reader r = { at, at + n, 0 };

	return r;
}
uint8_t espl__get_u8(struct espl__reader *);
uint32_t espl__get_u32(struct espl__reader *);
uint64_t espl__get_u64(struct espl__reader *);
uint64_t espl__get_long(struct espl__reader *);
static inline uint64_t
espl__get_v64(struct espl__reader *r) /* over 64 bits: bad */
{
	return !r->bad && r->at < r->end && *r->at < 0x80 ? *r->at++ : espl__get_long(r);
}
int64_t espl__get_z64(struct espl__reader *);
double espl__get_f64(struct espl__reader *);
void espl__get_f64s(struct espl__reader *, double *, size_t count); /* zeros if bad */
const void *espl__get_bytes(struct espl__reader *,
    size_t *size); /* points into the input; NULL if bad */
/* Copies at most room-1 bytes and a NUL; longer or with a NUL inside: bad. */
void espl__get_str(struct espl__reader *, char *to, size_t room);
#endif
