/* codec.h - one function for a record and its bytes: it writes the fields or, from the same list,
 * reads them.
 *
 * The function names each field once, with the macro of its form: ESPL__CODE_V64(c,
 * o->memory_bytes). Writing leaves the record as it is.  Reading checks what the form allows: a bad
 * record sets `bad` of the reader, and the function continues with zeros.  ESPL__CODES lets the
 * compiler make two functions of it, as fast as if they had been written by hand.
 */
#ifndef ESPL__CODEC_H
#define ESPL__CODEC_H
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

struct espl__codec {
	struct espl__buf *to;      /* writing */
	struct espl__reader *from; /* reading; else NULL */
	struct espl__arena *arena; /* reading: for texts and lists */
};
#define ESPL__CODES static inline __attribute__((always_inline))

#define ESPL__CODE(c_, value_, put_, get_) \
	do { \
		if ((c_)->from != NULL) \
			(value_) = (__typeof__(value_))get_((c_)->from); \
		else \
			put_((c_)->to, value_); \
	} while (0)
#define ESPL__CODE_V64(c_, value_) ESPL__CODE(c_, value_, espl__put_v64, espl__get_v64)
#define ESPL__CODE_Z64(c_, value_) ESPL__CODE(c_, value_, espl__put_z64, espl__get_z64)
#define ESPL__CODE_F64(c_, value_) ESPL__CODE(c_, value_, espl__put_f64, espl__get_f64)
#define ESPL__CODE_U8(c_, value_) ESPL__CODE(c_, value_, espl__put_byte, espl__get_u8)
/* As V64; above 32 bits it is bad. */
#define ESPL__CODE_U32(c_, value_) ESPL__CODE(c_, value_, espl__put_v64, espl__get_v32)
/* The `size` that the structs of the SDK begin with. */
#define ESPL__CODE_SIZE(c_, record_) \
	do { \
		if ((c_)->from != NULL) \
			(record_).size = (uint32_t)sizeof(record_); \
	} while (0)

static inline void
espl__put_byte(struct espl__buf *b, uint64_t value)
{
	espl__put_u8(b, (uint8_t)value);
}

static inline uint32_t
espl__get_v32(struct espl__reader *r)
{
	uint64_t value = espl__get_v64(r);

	if (value > UINT32_MAX)
		r->bad = 1;
	return (uint32_t)value;
}

/* A text without a NUL, of at most `most` bytes; NULL is written as "". */
static inline void
espl__code_text(struct espl__codec *c, const char **text, size_t most)
{
	const void *bytes;
	size_t size;
	char *copy;

	if (c->from == NULL) {
		espl__put_bytes(c->to, *text, *text != NULL ? strnlen(*text, most) : 0);
		return;
	}
	*text = "";
	bytes = espl__get_bytes(c->from, &size);
	if (bytes == NULL || size > most || memchr(bytes, 0, size) != NULL) {
		c->from->bad = 1;
		return;
	}
	copy = espl__arena_alloc(c->arena, size + 1);
	memcpy(copy, bytes, size);
	*text = copy;
}

/* The count of a list and, read, the room for it.  least: bytes of a member, at least. */
static inline void *
espl__code_list(struct espl__codec *c, const void *list, uint32_t *count, size_t size, size_t least)
{
	uint64_t there;

	if (c->from == NULL) {
		espl__put_v64(c->to, *count);
		return (void *)(uintptr_t)list;
	}
	there = espl__get_v64(c->from);
	if (c->from->bad || there > (uint64_t)(c->from->end - c->from->at) / least)
		c->from->bad = 1;
	*count = c->from->bad ? 0 : (uint32_t)there;
	return espl__arena_alloc(c->arena, (*count + (size_t)1) * size);
}
#endif
