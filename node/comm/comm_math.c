/* comm_math.c - the arithmetic of the communicator: fixed orders, so that bits repeat. */
#include <string.h>

#include "base/assert.h"
#include "comm/comm_private.h"

size_t
espl__dtype_size(espl_dtype type)
{
	switch (type) {
	case ESPL_F64:
	case ESPL_I64: return 8;
	case ESPL_F32:
	case ESPL_I32: return 4;
	case ESPL_F16:
	case ESPL_BF16: return 2;
	case ESPL_U8: return 1;
	default: return 0;
	}
}

int
espl__dtype_half(espl_dtype type)
{
	return type == ESPL_F16 || type == ESPL_BF16;
}

/* Integers wrap as they do in every such library; the sum is made unsigned to be defined. */
#define COMBINE(name_, type_, wide_) \
	static void name_(type_ *to, const type_ *from, uint64_t count, espl_reduce how) \
	{ \
		if (how == ESPL_SUM) \
			for (uint64_t i = 0; i < count; i++) \
				to[i] = (type_)((wide_)to[i] + (wide_)from[i]); \
		else if (how == ESPL_MIN) \
			for (uint64_t i = 0; i < count; i++) \
				to[i] = from[i] < to[i] || from[i] != from[i] ? from[i] : to[i]; \
		else \
			for (uint64_t i = 0; i < count; i++) \
				to[i] = from[i] > to[i] || from[i] != from[i] ? from[i] : to[i]; \
	}
COMBINE(combine_f32, float, float)
COMBINE(combine_f64, double, double)
COMBINE(combine_i32, int32_t, uint32_t)
COMBINE(combine_i64, int64_t, uint64_t)
COMBINE(combine_u8, uint8_t, unsigned)

void
espl__combine(void *to, const void *from, uint64_t count, espl_dtype type, espl_reduce how)
{
	ESPL__ASSERT(espl__dtype_size(type) > 0 && !espl__dtype_half(type) && how != ESPL_MEAN);
	switch (type) {
	case ESPL_F32: combine_f32(to, from, count, how); break;
	case ESPL_F64: combine_f64(to, from, count, how); break;
	case ESPL_I32: combine_i32(to, from, count, how); break;
	case ESPL_I64: combine_i64(to, from, count, how); break;
	default: combine_u8(to, from, count, how); break;
	}
}

#define DIVIDE(type_) \
	do { \
		type_ *v = data; \
		for (uint64_t i = 0; i < count; i++) \
			v[i] = (type_)(v[i] / (type_)by); \
	} while (0)

void
espl__divide(void *data, uint64_t count, espl_dtype type, uint32_t by)
{
	ESPL__ASSERT(by > 0 && !espl__dtype_half(type));
	switch (type) {
	case ESPL_F32: DIVIDE(float); break;
	case ESPL_F64: DIVIDE(double); break;
	case ESPL_I32: DIVIDE(int32_t); break;
	case ESPL_I64: DIVIDE(int64_t); break;
	default: {
		uint8_t *v = data;

		for (uint64_t i = 0; i < count; i++)
			v[i] = (uint8_t)(v[i] / by);
	}
	}
}

/* ---- half precision ---------------------------------------------------------------------- */

static float
from_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

static uint32_t
to_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return bits;
}

static float
widen_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;

	if (exponent == 31)
		return from_bits(sign | 0x7f800000 | fraction << 13);
	if (exponent == 0) { /* fraction * 2^-24, exact in float */
		float f = (float)fraction * 0x1p-24f;

		return sign != 0 ? -f : f;
	}
	return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* To the nearest, ties to even. */
static uint16_t
narrow_f16(float f)
{
	uint32_t bits = to_bits(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff, half;

	if (rest > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x1ff));
	if (rest >= 0x477ff000) /* 65520 and more round to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (rest < 0x38800000) { /* subnormal: let the float unit round the 2^-24s */
		float scaled = from_bits(rest) * 0x1p24f, whole = scaled + 0x1p23f - 0x1p23f;

		return (uint16_t)(sign | (uint32_t)whole);
	}
	half = rest - (112u << 23);
	half += 0xfff + (half >> 13 & 1);
	return (uint16_t)(sign | half >> 13);
}

static uint16_t
narrow_bf16(float f)
{
	uint32_t bits = to_bits(f);

	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void
espl__widen(float *to, const uint16_t *from, uint64_t count, espl_dtype type)
{
	ESPL__ASSERT(espl__dtype_half(type));
	for (uint64_t i = 0; i < count; i++)
		to[i] = type == ESPL_F16 ? widen_f16(from[i]) : from_bits((uint32_t)from[i] << 16);
}

void
espl__narrow(uint16_t *to, const float *from, uint64_t count, espl_dtype type)
{
	ESPL__ASSERT(espl__dtype_half(type));
	for (uint64_t i = 0; i < count; i++)
		to[i] = type == ESPL_F16 ? narrow_f16(from[i]) : narrow_bf16(from[i]);
}

/* ---- orders ------------------------------------------------------------------------------ */

void
espl__fold(void *out, const uint8_t *vectors, size_t stride, uint32_t world, uint32_t c,
    uint64_t count, espl_dtype type, espl_reduce how)
{
	ESPL__ASSERT(world > 0 && c < world);
	if (count == 0)
		return;
	memcpy(out, vectors + c * stride, count * espl__dtype_size(type));
	for (uint32_t k = 1; k < world; k++)
		espl__combine(out, vectors + (c + k) % world * stride, count, type, how);
}

int
espl__shards_order(const struct espl__span *spans, uint32_t world, uint32_t total, uint32_t *order)
{
	uint64_t next = 0;
	uint32_t placed = 0;

	ESPL__ASSERT(world > 0 && order != NULL);
	for (uint32_t r = 0; r < world; r++) /* those with none come first, in order */
		if (spans[r].mine == 0)
			order[placed++] = r;
	while (placed < world) {
		uint32_t r = 0;

		while (r < world && (spans[r].mine == 0 || spans[r].first != next))
			r++;
		if (r == world || spans[r].mine > total - next)
			return -1;
		order[placed++] = r;
		next += spans[r].mine;
	}
	return next == total ? 0 : -1;
}
