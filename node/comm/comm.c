/* comm.c - the communicator as the SDK shows it, over one of the ways of moving data.
 *
 * Here is what all ways have in common: checking arguments, half precision (computed in single,
 * rounded once), means, and that nothing is tried any more after a failure.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/mem.h"
#include "comm/comm_private.h"

static struct espl__comm *
comm_of_view(const struct espl_comm *view)
{
	struct espl__comm *c = view->ctx;

	ESPL__CHECK(c, COMM);
	return c;
}

static int
is_bad_reduction(espl_dtype type, espl_reduce how)
{
	return espl__dtype_size(type) == 0 || how < ESPL_SUM || how > ESPL_MAX;
}

static void *
get_scratch(struct espl__comm *c, size_t bytes)
{
	if (c->scratch_size < bytes) {
		free(c->scratch);
		c->scratch = espl__alloc(bytes);
		c->scratch_size = bytes;
	}
	return c->scratch;
}

static espl_status
reduce_wide(struct espl__comm *c, void *data, uint64_t count, espl_dtype type, espl_reduce how)
{
	espl_reduce inner = how == ESPL_MEAN ? ESPL_SUM : how;
	espl_status status = c->way->reduce(c, data, count, type, inner);

	ESPL__ASSERT(c->view.world > 1 && c->way != NULL);
	if (status == ESPL_OK && how == ESPL_MEAN)
		espl__divide(data, count, type, c->view.world);
	return status;
}

static espl_status
comm_allreduce(const struct espl_comm *view, const void *in, void *out, uint64_t count,
    espl_dtype type, espl_reduce how)
{
	struct espl__comm *c = comm_of_view(view);
	espl_status status;
	float *wide;

	if (c->broken != ESPL_OK)
		return c->broken;
	if (is_bad_reduction(type, how))
		return ESPL_E_BUG;
	if (count == 0)
		return ESPL_OK;
	if (!espl__dtype_half(type) || view->world == 1) {
		if (in != out)
			memmove(out, in, count * espl__dtype_size(type));
		return view->world == 1 ? ESPL_OK : reduce_wide(c, out, count, type, how);
	}
	wide = get_scratch(c, count * sizeof *wide);
	espl__widen(wide, in, count, type);
	status = reduce_wide(c, wide, count, ESPL_F32, how);
	if (status == ESPL_OK)
		espl__narrow(out, wide, count, type);
	return status;
}

static espl_status
comm_broadcast(const struct espl_comm *view, void *data, uint64_t count, espl_dtype type,
    uint32_t root)
{
	struct espl__comm *c = comm_of_view(view);

	if (c->broken != ESPL_OK)
		return c->broken;
	if (espl__dtype_size(type) == 0 || root >= view->world)
		return ESPL_E_BUG;
	if (view->world == 1 || count == 0)
		return ESPL_OK;
	return c->way->broadcast(c, data, count * espl__dtype_size(type), root);
}

static espl_status
comm_allgather(const struct espl_comm *view, const void *in, void *out, uint64_t count,
    espl_dtype type)
{
	struct espl__comm *c = comm_of_view(view);
	size_t bytes = count * espl__dtype_size(type);

	if (c->broken != ESPL_OK)
		return c->broken;
	if (espl__dtype_size(type) == 0)
		return ESPL_E_BUG;
	if (count == 0)
		return ESPL_OK;
	if (view->world > 1)
		return c->way->gather(c, in, out, bytes);
	if (in != out)
		memmove(out, in, bytes);
	return ESPL_OK;
}

static espl_status
comm_barrier(const struct espl_comm *view)
{
	struct espl__comm *c = comm_of_view(view);

	if (c->broken != ESPL_OK || view->world == 1)
		return c->broken;
	return c->way->barrier(c);
}

static espl_status
shards_wide(struct espl__comm *c, const void *shards, void *out, uint64_t count, espl_dtype type,
    uint32_t first, uint32_t mine, uint32_t total)
{
	size_t bytes = count * espl__dtype_size(type);
	const uint8_t *from = shards;

	ESPL__ASSERT(total > 0 && count > 0);
	if (c->view.world > 1)
		return c->way->shards(c, shards, out, count, type, first, mine, total);
	if (first != 0 || mine != total)
		return ESPL_E_BUG;
	memmove(out, from, bytes);
	for (uint32_t i = 1; i < total; i++)
		espl__combine(out, from + i * bytes, count, type, ESPL_SUM);
	return ESPL_OK;
}

static espl_status
comm_sum_shards(const struct espl_comm *view, const void *shards, void *out, uint64_t count,
    espl_dtype type, uint32_t first, uint32_t mine, uint32_t total)
{
	struct espl__comm *c = comm_of_view(view);
	espl_status status;
	float *wide;

	if (c->broken != ESPL_OK)
		return c->broken;
	if (espl__dtype_size(type) == 0 || total == 0)
		return ESPL_E_BUG;
	if (count == 0)
		return ESPL_OK;
	if (!espl__dtype_half(type))
		return shards_wide(c, shards, out, count, type, first, mine, total);
	wide = get_scratch(c, ((size_t)mine + 1) * count * sizeof *wide);
	espl__widen(wide + count, shards, mine * count, type);
	status = shards_wide(c, wide + count, wide, count, ESPL_F32, first, mine, total);
	if (status == ESPL_OK)
		espl__narrow(out, wide, count, type);
	return status;
}

/* On CPU every call is done when it returns. */
static espl_status
comm_wait(const struct espl_comm *view)
{
	return comm_of_view(view)->broken;
}

static espl_status
comm_reduce_host(const struct espl_comm *view, double *values, uint32_t count, espl_reduce how)
{
	return comm_allreduce(view, values, values, count, ESPL_F64, how);
}

espl_status
espl__comm_send_all(struct espl__comm *c, void *data, uint64_t bytes, uint32_t root)
{
	ESPL__CHECK(c, COMM);
	if (c->broken != ESPL_OK || c->view.world == 1 || bytes == 0)
		return c->broken;
	return c->tell(c, data, bytes, root);
}

espl_status
espl__comm_look(struct espl__comm *c)
{
	ESPL__CHECK(c, COMM);
	if (c->broken != ESPL_OK || c->view.world == 1)
		return c->broken;
	return c->way->look(c);
}

static espl_status
comm_tell(struct espl__comm *c, void *data, uint64_t bytes, uint32_t root)
{
	espl_span limit = c->wait_limit;
	espl_status status;

	ESPL__ASSERT(c->way != NULL && root < c->view.world);
	c->wait_limit = 0;
	status = c->way->broadcast(c, data, bytes, root);
	c->wait_limit = limit;
	return status;
}

static void
comm_finish(struct espl__comm *c)
{
	ESPL__CHECK(c, COMM);
	if (c->way != NULL)
		c->way->finish(c);
	c->magic = 0;
	free(c->scratch);
	free(c);
}

void
espl__comm_finish(struct espl__comm *c)
{
	if (c != NULL)
		c->finish(c);
}

espl_status
espl__comm_init(const struct espl__comm_setup *s, struct espl__comm **to, struct espl__diag *diag)
{
	struct espl__comm *c;
	struct espl__met met;
	espl_status status = ESPL_OK;

	*to = NULL;
	if (s->world == 0 || s->rank >= s->world)
		return espl__fail(diag, ESPL_E_BUG, "rank %u of %u", s->rank, s->world);
	c = espl__alloc(sizeof *c);
	c->magic = ESPL__COMM_MAGIC;
	c->view = (struct espl_comm){
		.size = sizeof c->view,
		.rank = s->rank,
		.world = s->world,
		.node_rank = s->node_rank,
		.node_world = s->node_world,
		.generation = s->generation,
		.ctx = c,
		.allreduce = comm_allreduce,
		.broadcast = comm_broadcast,
		.allgather = comm_allgather,
		.barrier = comm_barrier,
		.sum_shards = comm_sum_shards,
		.wait = comm_wait,
		.reduce_host = comm_reduce_host,
	};
	c->finish = comm_finish;
	c->tell = comm_tell;
	c->wait_limit = s->wait_limit;
	c->node = s->node;
	if (s->world > 1) {
		status = espl__comm_meet(s, &met, diag);
		if (status == ESPL_OK)
			status = met.shm ? espl__shm_open(c, &met) : espl__ring_open(c, &met);
	}
	if (status != ESPL_OK) {
		c->finish(c);
		return status;
	}
	*to = c;
	return ESPL_OK;
}
