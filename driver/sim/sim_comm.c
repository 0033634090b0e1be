/* sim_comm.c - the communicator of a gang of one: what trainables get in simulation.
 *
 * Every collective of one rank is a copy or nothing at all.
 */
#include <string.h>
#include "sim/sim_impl.h"

static uint64_t
element_size(espl_dtype type)
{
	switch (type) {
	case ESPL_F32:
	case ESPL_I32: return 4;
	case ESPL_F64:
	case ESPL_I64: return 8;
	case ESPL_F16:
	case ESPL_BF16: return 2;
	case ESPL_U8: return 1;
	default: return 0;
	}
}

static espl_status
copy(const void *in, void *out, uint64_t count, espl_dtype type)
{
	uint64_t each = element_size(type), bytes;

	if (each == 0)
		return ESPL_E_UNSUPPORTED;
	if (__builtin_mul_overflow(count, each, &bytes) || bytes > SIZE_MAX)
		return ESPL_E_LIMIT;
	if (in != out && bytes > 0)
		memmove(out, in, (size_t)bytes);
	return ESPL_OK;
}

static espl_status
allreduce(const struct espl_comm *comm, const void *in, void *out, uint64_t count, espl_dtype type,
    espl_reduce how)
{
	(void)comm;
	if (how < ESPL_SUM || how > ESPL_MAX)
		return ESPL_E_UNSUPPORTED;
	return copy(in, out, count, type);
}

static espl_status
broadcast(const struct espl_comm *comm, void *data, uint64_t count, espl_dtype type, uint32_t root)
{
	(void)comm;
	(void)data;
	(void)count;
	return element_size(type) == 0 || root != 0 ? ESPL_E_UNSUPPORTED : ESPL_OK;
}

static espl_status
allgather(const struct espl_comm *comm, const void *in, void *out, uint64_t count, espl_dtype type)
{
	(void)comm;
	return copy(in, out, count, type);
}

static espl_status
nothing(const struct espl_comm *comm)
{
	(void)comm;
	return ESPL_OK;
}

#define SUM_SHARDS(ctype_) \
	do { \
		const ctype_ *from = shards; \
		ctype_ *to = out; \
		for (uint64_t i = 0; i < count; i++) { \
			ctype_ sum = from[i]; \
			for (uint64_t s = 1; s < mine; s++) \
				sum = (ctype_)(sum + from[s * count + i]); \
			to[i] = sum; \
		} \
	} while (0)

static espl_status
sum_shards(const struct espl_comm *comm, const void *shards, void *out, uint64_t count,
    espl_dtype type, uint32_t first, uint32_t mine, uint32_t total)
{
	(void)comm;
	if (first != 0 || mine != total || total == 0)
		return ESPL_E_BUG; /* one rank holds them all */
	switch (type) {
	case ESPL_F32: SUM_SHARDS(float); return ESPL_OK;
	case ESPL_F64: SUM_SHARDS(double); return ESPL_OK;
	case ESPL_I32: SUM_SHARDS(uint32_t); return ESPL_OK;
	case ESPL_I64: SUM_SHARDS(uint64_t); return ESPL_OK;
	case ESPL_U8: SUM_SHARDS(uint8_t); return ESPL_OK;
	default: return ESPL_E_UNSUPPORTED;
	}
}

static espl_status
reduce_host(const struct espl_comm *comm, double *values, uint32_t count, espl_reduce how)
{
	(void)comm;
	(void)values;
	(void)count;
	return how < ESPL_SUM || how > ESPL_MAX ? ESPL_E_UNSUPPORTED : ESPL_OK;
}

void
espl__sim_comm_init(struct espl_comm *comm)
{
	*comm = (struct espl_comm){ .size = (uint32_t)sizeof *comm,
		.rank = 0,
		.world = 1,
		.node_rank = 0,
		.node_world = 1,
		.generation = 0,
		.allreduce = allreduce,
		.broadcast = broadcast,
		.allgather = allgather,
		.barrier = nothing,
		.sum_shards = sum_shards,
		.wait = nothing,
		.reduce_host = reduce_host };
}
