/* events.c - see events.h. */
#include "listen/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

#define EVENT_MAX ((uint64_t)16 << 20) /* images and graphs are larger than scalars */
#define SCALARS_MAX 4096               /* of one event */

/* ---- records ------------------------------------------------------------------------------- */

/* Castagnoli's polynomial, and the rotation with which records hide the sums in them. */
static uint32_t
masked_sum(const uint8_t *bytes, size_t size)
{
	uint32_t sum = UINT32_C(0xffffffff);

	for (size_t i = 0; i < size; i++) {
		sum ^= bytes[i];
		for (int k = 0; k < 8; k++)
			sum = sum >> 1 ^ (sum & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	sum = ~sum;
	return (sum >> 15 | sum << 17) + UINT32_C(0xa282ead8);
}

static uint64_t
little_endian(const uint8_t *p, int bytes)
{
	uint64_t n = 0;

	for (int i = bytes - 1; i >= 0; i--)
		n = n << 8 | p[i];
	return n;
}

/* ---- protocol buffers ----------------------------------------------------------------------- */

struct message {
	const uint8_t *at, *end;
};
struct field {
	uint64_t number, wire, value; /* value: of wire types 0, 1 and 5 */
	struct message bytes;         /* of wire type 2 */
};

static int
take_varint(struct message *m, uint64_t *to)
{
	*to = 0;
	for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
		uint8_t byte = *m->at++;

		*to |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0)
			return 1;
	}
	return 0;
}

/* 1: a field; 0: the end; -1: it is damaged. */
static int
take_field(struct message *m, struct field *f)
{
	uint64_t key, size;

	if (m->at >= m->end)
		return 0;
	if (!take_varint(m, &key))
		return -1;
	f->number = key >> 3;
	f->wire = key & 7;
	if (f->wire == 0)
		return take_varint(m, &f->value) ? 1 : -1;
	if (f->wire == 2) {
		if (!take_varint(m, &size) || size > (uint64_t)(m->end - m->at))
			return -1;
	} else if (f->wire == 1 || f->wire == 5) {
		size = f->wire == 1 ? 8 : 4;
		if (size > (uint64_t)(m->end - m->at))
			return -1;
		f->value = little_endian(m->at, (int)size);
	} else {
		return -1;
	}
	f->bytes = (struct message){ m->at, m->at + size };
	m->at += size;
	return 1;
}

static double
float_of(uint64_t bits)
{
	uint32_t half = (uint32_t)bits;
	float number;

	memcpy(&number, &half, sizeof number);
	return (double)number;
}

static double
double_of(uint64_t bits)
{
	double number;

	memcpy(&number, &bits, sizeof number);
	return number;
}

/* ---- events -----------------------------------------------------------------------------------
 */

enum { DT_FLOAT = 1, DT_DOUBLE = 2, DT_INT32 = 3, DT_INT64 = 9 };

static int
number_of(uint64_t type, const uint8_t *p, size_t size, double *to)
{
	if (type == DT_FLOAT && size == 4)
		*to = float_of(little_endian(p, 4));
	else if (type == DT_DOUBLE && size == 8)
		*to = double_of(little_endian(p, 8));
	else if (type == DT_INT32 && size == 4)
		*to = (double)(int32_t)little_endian(p, 4);
	else if (type == DT_INT64 && size == 8)
		*to = (double)(int64_t)little_endian(p, 8);
	else
		return 0;
	return 1;
}

/* A tensor with one element. */
static int
take_tensor(struct message m, double *to)
{
	uint64_t type = 0, number;
	struct field f;
	int got = 0;

	while (take_field(&m, &f) > 0) {
		size_t size = (size_t)(f.bytes.end - f.bytes.at);

		if (f.number == 1 && f.wire == 0)
			type = f.value;
		else if (f.number == 4 && f.wire == 2) /* tensor_content */
			got |= number_of(type, f.bytes.at, size, to);
		else if ((f.number == 5 || f.number == 6) && f.wire != 0) /* packed or not */
			got |=
			    number_of(f.number == 5 ? DT_FLOAT : DT_DOUBLE, f.bytes.at, size, to);
		else if ((f.number == 7 || f.number == 10) &&
		    (f.wire == 0 || take_varint(&f.bytes, &number))) {
			*to = (double)(int64_t)(f.wire == 0 ? f.value : number);
			got = 1;
		}
	}
	return got;
}

static void
put_scalar(struct message m, struct espl__buf *to)
{
	char *tag = NULL, text[32];
	double number = 0;
	int got = 0;
	struct field f;

	while (take_field(&m, &f) > 0) {
		if (f.number == 1 && f.wire == 2) {
			free(tag);
			tag = espl__format("%.*s", (int)(f.bytes.end - f.bytes.at),
			    (const char *)f.bytes.at);
		} else if (f.number == 2 && f.wire == 5) {
			number = float_of(f.value);
			got = 1;
		} else if (f.number == 8 && f.wire == 2) {
			got |= take_tensor(f.bytes, &number);
		}
	}
	if (got && tag != NULL && tag[0] != '\0')
		espl__json_text(to, tag, espl__format_real(number, text));
	free(tag);
}

int
espl__event_scalars(const uint8_t *bytes, size_t size, struct espl__buf *to)
{
	struct message m = { bytes, bytes + size };
	struct message summaries[8];
	struct field f;
	uint64_t step = 0;
	int got, count = 0, scalars = 0;

	while ((got = take_field(&m, &f)) > 0) {
		if (f.number == 2 && f.wire == 0)
			step = f.value;
		else if (f.number == 5 && f.wire == 2 && count < 8)
			summaries[count++] = f.bytes;
	}
	if (got < 0 || count == 0)
		return got;
	espl__json_open(to, NULL, '{');
	espl__json_int(to, "step", (int64_t)step);
	for (int i = 0; i < count; i++)
		while (take_field(&summaries[i], &f) > 0 && scalars++ < SCALARS_MAX)
			if (f.number == 1 && f.wire == 2)
				put_scalar(f.bytes, to);
	espl__print(to, "}");
	return 0;
}

int
espl__event_json(const uint8_t *bytes, size_t size, size_t *used, struct espl__buf *to)
{
	uint64_t length;

	if (size < 12)
		return 0;
	length = little_endian(bytes, 8);
	if (length > EVENT_MAX || masked_sum(bytes, 8) != (uint32_t)little_endian(bytes + 8, 4))
		return -1;
	if (size < length + 16)
		return 0;
	if (masked_sum(bytes + 12, (size_t)length) !=
	    (uint32_t)little_endian(bytes + 12 + length, 4))
		return -1;
	*used = (size_t)length + 16;
	return espl__event_scalars(bytes + 12, (size_t)length, to) < 0 ? -1 : 1;
}
