/* lone_trial.c - see lone_trial.h.  Every collective of one rank is a copy or nothing at all. */
#include "base/assert.h"
#include "check/lone_trial.h"

#include <string.h>

/* ---- communicator ------------------------------------------------------------------------ */

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
copy_elements(const void *in, void *out, uint64_t count, espl_dtype type)
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
reduce_all(const struct espl_comm *comm, const void *in, void *out, uint64_t count, espl_dtype type,
    espl_reduce how)
{
	(void)comm;
	if (how < ESPL_SUM || how > ESPL_MAX)
		return ESPL_E_UNSUPPORTED;
	return copy_elements(in, out, count, type);
}

static espl_status
send_all(const struct espl_comm *comm, void *data, uint64_t count, espl_dtype type, uint32_t root)
{
	(void)comm;
	(void)data;
	(void)count;
	return element_size(type) == 0 || root != 0 ? ESPL_E_UNSUPPORTED : ESPL_OK;
}

static espl_status
gather_all(const struct espl_comm *comm, const void *in, void *out, uint64_t count, espl_dtype type)
{
	(void)comm;
	return copy_elements(in, out, count, type);
}

static espl_status
do_nothing(const struct espl_comm *comm)
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
sum_all_shards(const struct espl_comm *comm, const void *shards, void *out, uint64_t count,
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
reduce_values(const struct espl_comm *comm, double *values, uint32_t count, espl_reduce how)
{
	(void)comm;
	(void)values;
	(void)count;
	return how < ESPL_SUM || how > ESPL_MAX ? ESPL_E_UNSUPPORTED : ESPL_OK;
}

void
espl__lone_comm_init(struct espl_comm *comm)
{
	*comm = (struct espl_comm){ .size = (uint32_t)sizeof *comm,
		.rank = 0,
		.world = 1,
		.node_rank = 0,
		.node_world = 1,
		.generation = 0,
		.allreduce = reduce_all,
		.broadcast = send_all,
		.allgather = gather_all,
		.barrier = do_nothing,
		.sum_shards = sum_all_shards,
		.wait = do_nothing,
		.reduce_host = reduce_values };
}

/* ---- state ------------------------------------------------------------------------------- */

struct save_sink {
	struct espl_byte_sink head;
	struct espl__buf *to;
};
struct load_source {
	struct espl_byte_source head;
	const uint8_t *at;
};
struct region_sink {
	struct espl_region_sink head;
	struct espl__buf *to; /* NULL: restore */
	struct espl__reader from;
};

static espl_status
write_bytes(struct espl_byte_sink *head, const void *bytes, uint64_t count)
{
	espl__put(((struct save_sink *)(void *)head)->to, bytes, (size_t)count);
	return ESPL_OK;
}

static espl_status
read_bytes(struct espl_byte_source *head, void *bytes, uint64_t count)
{
	struct load_source *source = (struct load_source *)(void *)head;

	if (count > head->left)
		return ESPL_E_LIMIT;
	if (count > 0)
		memcpy(bytes, source->at, (size_t)count);
	source->at += count;
	head->left -= count;
	return ESPL_OK;
}

/* Regions one after another, each with its size: enough, as a trial's are always the same. */
static espl_status
take_region(struct espl_region_sink *head, const char *name, void *data, uint64_t bytes,
    espl_device_kind where)
{
	struct region_sink *sink = (struct region_sink *)(void *)head;
	const void *from;
	size_t size;

	(void)name;
	if (where != ESPL_CPU)
		return ESPL_E_UNSUPPORTED;
	if (sink->to != NULL) {
		espl__put_bytes(sink->to, data, (size_t)bytes);
		return ESPL_OK;
	}
	from = espl__get_bytes(&sink->from, &size);
	if (from == NULL || size != bytes)
		return ESPL_E_LIMIT;
	if (size > 0)
		memcpy(data, from, size);
	return ESPL_OK;
}

static int
saves_itself(const struct espl_trainable_ops *ops)
{
	return ESPL_HAS(struct espl_trainable_ops, ops, save) &&
	    ESPL_HAS(struct espl_trainable_ops, ops, load);
}

espl_status
espl__lone_save(const struct espl_trainable_ops *ops, void *trial, struct espl__buf *to,
    struct espl_error *error)
{
	struct save_sink sink = { { (uint32_t)sizeof sink.head, 0, write_bytes }, to };
	struct region_sink regions = { .head = { (uint32_t)sizeof regions.head, 0, take_region },
		.to = to };

	ESPL__ASSERT(trial != NULL && to != NULL);
	return saves_itself(ops) ? ops->save(trial, &sink.head, error)
				 : ops->regions(trial, &regions.head, error);
}

espl_status
espl__lone_load(const struct espl_trainable_ops *ops, void *trial, const void *bytes, size_t size,
    size_t *left, struct espl_error *error)
{
	struct load_source source = { { (uint32_t)sizeof source.head, 0, read_bytes, size },
		bytes };
	struct region_sink regions = { .head = { (uint32_t)sizeof regions.head, 0, take_region },
		.from = espl__reader(bytes, size) };
	espl_status status = saves_itself(ops) ? ops->load(trial, &source.head, error)
					       : ops->regions(trial, &regions.head, error);

	ESPL__ASSERT(trial != NULL && (bytes != NULL || size == 0));
	*left = saves_itself(ops) ? (size_t)source.head.left
				  : (size_t)(regions.from.end - regions.from.at);
	return status;
}
