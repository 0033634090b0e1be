/* rig_alone.c - the communicator of a gang of one. */
#include <string.h>
#include "rig.h"

static size_t
size_of(espl_dtype type)
{
	return type == ESPL_F64 || type == ESPL_I64 ? 8
	    : type == ESPL_F32 || type == ESPL_I32  ? 4
	    : type == ESPL_U8                       ? 1
						    : 2;
}

static espl_status
allreduce(const struct espl_comm *c, const void *in, void *out, uint64_t count, espl_dtype type,
    espl_reduce how)
{
	(void)c;
	(void)how;
	if (in != out)
		memmove(out, in, count * size_of(type));
	return ESPL_OK;
}

static espl_status
broadcast(const struct espl_comm *c, void *data, uint64_t count, espl_dtype type, uint32_t root)
{
	(void)c, (void)data, (void)count, (void)type, (void)root;
	return ESPL_OK;
}

static espl_status
allgather(const struct espl_comm *c, const void *in, void *out, uint64_t count, espl_dtype type)
{
	return allreduce(c, in, out, count, type, ESPL_SUM);
}

static espl_status
nothing(const struct espl_comm *c)
{
	(void)c;
	return ESPL_OK;
}

#define SUM(type_) \
	do { \
		const type_ *from = shards; \
		for (uint64_t i = 0; i < count; i++) { \
			type_ sum = from[i]; \
			for (uint32_t s = 1; s < mine; s++) \
				sum += from[s * count + i]; \
			((type_ *)out)[i] = sum; \
		} \
	} while (0)

static espl_status
sum_shards(const struct espl_comm *c, const void *shards, void *out, uint64_t count,
    espl_dtype type, uint32_t first, uint32_t mine, uint32_t total)
{
	(void)c;
	if (first != 0 || mine != total || mine == 0)
		return ESPL_E_BUG;
	if (type == ESPL_F32)
		SUM(float);
	else if (type == ESPL_F64)
		SUM(double);
	else
		return ESPL_E_UNSUPPORTED;
	return ESPL_OK;
}

static espl_status
reduce_host(const struct espl_comm *c, double *values, uint32_t count, espl_reduce how)
{
	(void)c, (void)values, (void)count, (void)how;
	return ESPL_OK;
}

const struct espl_comm *
rig_cpu_comm(void)
{
	static const struct espl_comm alone = { .size = sizeof alone,
		.world = 1,
		.node_world = 1,
		.allreduce = allreduce,
		.broadcast = broadcast,
		.allgather = allgather,
		.barrier = nothing,
		.sum_shards = sum_shards,
		.wait = nothing,
		.reduce_host = reduce_host };

	return &alone;
}
