/* cuda_comm.c - NCCL as the communicator of a gang on GPUs.
 *
 * The ranks meet as those on CPUs do, and keep that communicator beside NCCL's: it brings NCCL's id
 * to all, carries what is in host memory, and notices a rank that is gone, which NCCL itself does
 * not within a machine. NCCL never blocks here: what it begins is waited for with a deadline, and
 * given up (ncclCommAbort) when that has passed or a rank is lost.  Nothing is tried any more after
 * that.
 *
 * The SDK's calls have no place for a message: they say on standard error, which is the trial's
 * log, which rank, which GPU and which call it was.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/tick.h"
#include "cuda/cuda.h"

#define INIT_LIMIT (60 * ESPL_SECOND)
#define END_LIMIT (10 * ESPL_SECOND)
#define LOOK_EVERY INT64_C(20000000) /* ns between two looks at the other ranks */
#define UUID_SIZE 48u

struct gpu_comm {
	struct espl__comm base; /* first: what view.ctx is */
	struct espl__comm *host;
	struct espl__cuda *cuda;
	ncclComm_t nccl; /* NULL: alone, or given up */
	void *stage;     /* host memory for sum_shards, grows */
	size_t stage_size;
};

static struct gpu_comm *
comm_of_view(const struct espl_comm *view)
{
	return (struct gpu_comm *)view->ctx;
}

static void
print_complaint(const struct gpu_comm *c, const char *call, const char *why)
{
	fprintf(stderr, "espalier: rank %" PRIu32 " of %" PRIu32 ", GPU %d (%s): %s: %s\n",
	    c->base.view.rank, c->base.view.world, c->cuda->ordinal, c->cuda->uuid, call, why);
}

static void *
abort_main(void *nccl)
{
	(void)ncclCommAbort(nccl);
	return NULL;
}

/* In a thread of its own: it waits for what is queued, and for graphs that have captured its calls.
 */
static void
abort_nccl(struct gpu_comm *c)
{
	pthread_t thread;

	if (c->nccl != NULL && pthread_create(&thread, NULL, abort_main, c->nccl) == 0)
		(void)pthread_detach(thread);
	c->nccl = NULL;
}

/* From here on every call fails.  The others see that this rank has given up. */
static espl_status
give_up(struct gpu_comm *c, espl_status status, const char *call, const char *why)
{
	if (c->base.broken != ESPL_OK)
		return c->base.broken;
	print_complaint(c, call, why);
	c->base.broken = status;
	abort_nccl(c);
	c->base.view.native = NULL;
	espl__comm_finish(c->host);
	c->host = NULL;
	return status;
}

static espl_status
nccl_failed(struct gpu_comm *c, ncclResult_t result, const char *call)
{
	char why[400];

	(void)snprintf(why, sizeof why, "%s: %s", ncclGetErrorString(result),
	    ncclGetLastError(c->nccl));
	return give_up(c,
	    result == ncclRemoteError                                         ? ESPL_E_PEER
		: result == ncclInvalidArgument || result == ncclInvalidUsage ? ESPL_E_BUG
									      : ESPL_E_REMOTE,
	    call, why);
}

static espl_status
cuda_failed(struct gpu_comm *c, cudaError_t error, const char *call)
{
	return give_up(c, error == cudaErrorMemoryAllocation ? ESPL_E_NOMEM : ESPL_E_REMOTE, call,
	    cudaGetErrorString(error));
}

/* ---- waiting ----------------------------------------------------------------------------- */

struct patience {
	int64_t deadline, look_at, pause;
};

static struct patience
start_patience(espl_span limit)
{
	int64_t now = espl__tick();

	return (struct patience){ limit > 0 ? now + limit : 0, now + LOOK_EVERY, 0 };
}

/* Not done yet: keep waiting? */
static espl_status
keep_waiting(struct gpu_comm *c, struct patience *p, const char *call)
{
	int64_t now = espl__tick();

	if (p->deadline != 0 && now >= p->deadline)
		return give_up(c, ESPL_E_LIMIT, call, "it did not finish in time");
	if (now >= p->look_at) {
		p->look_at = now + LOOK_EVERY;
		if (espl__comm_look(c->host) != ESPL_OK)
			return give_up(c, ESPL_E_PEER, call, "another rank of the gang was lost");
	}
	espl__cuda_nap(&p->pause);
	return ESPL_OK;
}

/* Until what NCCL has begun is settled. */
static espl_status
settle_nccl(struct gpu_comm *c, espl_span limit, const char *call)
{
	struct patience p = start_patience(limit);
	ncclResult_t state = ncclInProgress;
	espl_status status = ESPL_OK;

	while (status == ESPL_OK) {
		ncclResult_t asked = ncclCommGetAsyncError(c->nccl, &state);

		if (asked != ncclSuccess)
			return nccl_failed(c, asked, "ncclCommGetAsyncError");
		if (state == ncclSuccess)
			return ESPL_OK;
		if (state != ncclInProgress)
			return nccl_failed(c, state, call);
		status = keep_waiting(c, &p, call);
	}
	return status;
}

static espl_status
settle_begun(struct gpu_comm *c, ncclResult_t result, const char *call)
{
	if (result == ncclSuccess)
		return ESPL_OK;
	if (result == ncclInProgress)
		return settle_nccl(c, c->base.wait_limit, call);
	return nccl_failed(c, result, call);
}

static espl_status
drain_stream(struct gpu_comm *c)
{
	struct patience p = start_patience(c->base.wait_limit);
	espl_status status = c->base.broken;

	while (status == ESPL_OK) {
		cudaError_t error = cudaStreamQuery(c->cuda->stream);
		ncclResult_t state = ncclSuccess;

		if (error == cudaSuccess)
			return ESPL_OK;
		if (error != cudaErrorNotReady)
			return cuda_failed(c, error, "the work on its stream");
		if (c->nccl != NULL && ncclCommGetAsyncError(c->nccl, &state) == ncclSuccess &&
		    state != ncclSuccess && state != ncclInProgress)
			return nccl_failed(c, state, "the work on its stream");
		status = keep_waiting(c, &p, "the work on its stream");
	}
	return status;
}

/* ---- the SDK's calls --------------------------------------------------------------------- */

static int
type_of(espl_dtype type, ncclDataType_t *to, size_t *size)
{
	static const struct {
		ncclDataType_t type;
		size_t size;
	} known[] = {
		[ESPL_F32] = { ncclFloat32, 4 },
		[ESPL_F64] = { ncclFloat64, 8 },
		[ESPL_F16] = { ncclFloat16, 2 },
		[ESPL_BF16] = { ncclBfloat16, 2 },
		[ESPL_I32] = { ncclInt32, 4 },
		[ESPL_I64] = { ncclInt64, 8 },
		[ESPL_U8] = { ncclUint8, 1 },
	};

	if (type < ESPL_F32 || type > ESPL_U8)
		return -1;
	*to = known[type].type;
	*size = known[type].size;
	return 0;
}

static espl_status
copy_bytes(struct gpu_comm *c, void *to, const void *from, size_t bytes, enum cudaMemcpyKind way)
{
	cudaError_t error =
	    to == from ? cudaSuccess : cudaMemcpyAsync(to, from, bytes, way, c->cuda->stream);

	return error == cudaSuccess ? ESPL_OK : cuda_failed(c, error, "cudaMemcpyAsync");
}

static espl_status
gpu_allreduce(const struct espl_comm *view, const void *in, void *out, uint64_t count,
    espl_dtype type, espl_reduce how)
{
	static const ncclRedOp_t known[] = { [ESPL_SUM] = ncclSum,
		[ESPL_MEAN] = ncclAvg,
		[ESPL_MIN] = ncclMin,
		[ESPL_MAX] = ncclMax };
	struct gpu_comm *c = comm_of_view(view);
	ncclDataType_t nccl_type;
	size_t size;

	if (c->base.broken != ESPL_OK)
		return c->base.broken;
	if (type_of(type, &nccl_type, &size) != 0 || how < ESPL_SUM || how > ESPL_MAX)
		return ESPL_E_BUG;
	if (how == ESPL_MEAN && type >= ESPL_I32)
		return ESPL_E_UNSUPPORTED;
	if (count == 0)
		return ESPL_OK;
	if (view->world == 1)
		return copy_bytes(c, out, in, count * size, cudaMemcpyDeviceToDevice);
	return settle_begun(c,
	    ncclAllReduce(in, out, count, nccl_type, known[how], c->nccl, c->cuda->stream),
	    "ncclAllReduce");
}

static espl_status
gpu_broadcast(const struct espl_comm *view, void *data, uint64_t count, espl_dtype type,
    uint32_t root)
{
	struct gpu_comm *c = comm_of_view(view);
	ncclDataType_t nccl_type;
	size_t size;

	if (c->base.broken != ESPL_OK)
		return c->base.broken;
	if (type_of(type, &nccl_type, &size) != 0 || root >= view->world)
		return ESPL_E_BUG;
	if (view->world == 1 || count == 0)
		return ESPL_OK;
	return settle_begun(c,
	    ncclBroadcast(data, data, count, nccl_type, (int)root, c->nccl, c->cuda->stream),
	    "ncclBroadcast");
}

static espl_status
gpu_allgather(const struct espl_comm *view, const void *in, void *out, uint64_t count,
    espl_dtype type)
{
	struct gpu_comm *c = comm_of_view(view);
	ncclDataType_t nccl_type;
	size_t size;

	if (c->base.broken != ESPL_OK)
		return c->base.broken;
	if (type_of(type, &nccl_type, &size) != 0)
		return ESPL_E_BUG;
	if (count == 0)
		return ESPL_OK;
	if (view->world == 1)
		return copy_bytes(c, out, in, count * size, cudaMemcpyDeviceToDevice);
	return settle_begun(c, ncclAllGather(in, out, count, nccl_type, c->nccl, c->cuda->stream),
	    "ncclAllGather");
}

static espl_status
gpu_wait(const struct espl_comm *view)
{
	return drain_stream(comm_of_view(view));
}

static espl_status
on_host(struct gpu_comm *c, espl_status status, const char *call)
{
	return status == ESPL_OK || status == ESPL_E_BUG || status == ESPL_E_UNSUPPORTED
	    ? status
	    : give_up(c, status, call,
		  status == ESPL_E_PEER ? "another rank of the gang was lost"
					: "it did not finish in time");
}

static espl_status
gpu_barrier(const struct espl_comm *view)
{
	struct gpu_comm *c = comm_of_view(view);
	espl_status status = drain_stream(c);

	return status != ESPL_OK ? status
				 : on_host(c, c->host->view.barrier(&c->host->view), "barrier");
}

static espl_status
gpu_reduce_host(const struct espl_comm *view, double *values, uint32_t count, espl_reduce how)
{
	struct gpu_comm *c = comm_of_view(view);

	if (c->base.broken != ESPL_OK)
		return c->base.broken;
	return on_host(c, c->host->view.reduce_host(&c->host->view, values, count, how),
	    "reduce_host");
}

/* In host memory, where the order of the sum is the same for every world: not fast, but to the bit.
 */
static espl_status
gpu_sum_shards(const struct espl_comm *view, const void *shards, void *out, uint64_t count,
    espl_dtype type, uint32_t first, uint32_t mine, uint32_t total)
{
	struct gpu_comm *c = comm_of_view(view);
	ncclDataType_t nccl_type;
	size_t size, bytes;
	espl_status status = c->base.broken;

	if (status != ESPL_OK)
		return status;
	if (type_of(type, &nccl_type, &size) != 0)
		return ESPL_E_BUG;
	bytes = ((size_t)mine + 1) * count * size;
	if (c->stage_size < bytes) {
		free(c->stage);
		c->stage = espl__alloc(bytes);
		c->stage_size = bytes;
	}
	/* such a copy waits in the driver, where a lost rank is not seen */
	status = drain_stream(c);
	if (status == ESPL_OK && mine > 0)
		status = copy_bytes(c, (char *)c->stage + count * size, shards, mine * count * size,
		    cudaMemcpyDeviceToHost);
	if (status == ESPL_OK)
		status = drain_stream(c);
	if (status == ESPL_OK)
		status = on_host(c,
		    c->host->view.sum_shards(&c->host->view, (char *)c->stage + count * size,
			c->stage, count, type, first, mine, total),
		    "sum_shards");
	if (status == ESPL_OK)
		status = copy_bytes(c, out, c->stage, count * size, cudaMemcpyHostToDevice);
	return status == ESPL_OK ? drain_stream(c) : status; /* the stage is used again */
}

static espl_status
gpu_tell(struct espl__comm *base, void *data, uint64_t bytes, uint32_t root)
{
	struct gpu_comm *c = (struct gpu_comm *)base;

	return on_host(c, espl__comm_send_all(c->host, data, bytes, root),
	    "a message among the ranks");
}

/* ---- beginning and end ------------------------------------------------------------------- */

static void
gpu_finish(struct espl__comm *base)
{
	struct gpu_comm *c = (struct gpu_comm *)base;

	ESPL__CHECK(base, COMM);
	/* A rank that finishes early must not look lost to ranks that still wait for their streams.
	 */
	if (c->base.broken == ESPL_OK && drain_stream(c) == ESPL_OK && c->host != NULL)
		(void)c->host->view.barrier(&c->host->view);
	if (c->nccl != NULL) {
		ncclResult_t result = ncclCommFinalize(c->nccl);

		if (result == ncclInProgress)
			(void)settle_nccl(c, END_LIMIT, "ncclCommFinalize");
		else if (result != ncclSuccess)
			(void)nccl_failed(c, result, "ncclCommFinalize");
	}
	if (c->nccl != NULL)
		(void)ncclCommDestroy(c->nccl);
	espl__comm_finish(c->host);
	free(c->stage);
	free(c);
}

/* Several ranks of the gang on one GPU: NCCL takes them only if each says that it is a machine of
 * its own (up to 2.30.2), or is told to (from 2.30.3 on); either way their kernels must fit side by
 * side. */
static int
share_one_gpu(struct gpu_comm *c, const struct espl__comm_setup *setup, struct espl__diag *diag,
    espl_status *status)
{
	char *all = espl__alloc((size_t)setup->world * UUID_SIZE), id[64];
	int version = 0, shared = 0;

	*status = c->host->view.allgather(&c->host->view, c->cuda->uuid, all, UUID_SIZE, ESPL_U8);
	if (*status != ESPL_OK)
		*status = espl__fail(diag, *status, "a rank was lost while the gang connected");
	for (uint32_t a = 0; a < setup->world && *status == ESPL_OK; a++)
		for (uint32_t b = 0; b < a; b++)
			shared |= memcmp(all + a * UUID_SIZE, all + b * UUID_SIZE, UUID_SIZE) == 0;
	free(all);
	if (!shared || ncclGetVersion(&version) != ncclSuccess)
		return shared;
	if (version >= 23003) {
		(void)setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
	} else {
		/* NCCL reads it once, and a resize gives this process another rank. */
		(void)snprintf(id, sizeof id, "espalier-%" PRIx64 "-%ld",
		    espl__digest((uint64_t)espl__tick(), c->cuda->uuid, UUID_SIZE), (long)getpid());
		(void)setenv("NCCL_HOSTID", id, 0);
		(void)setenv("NCCL_NET", "Socket", 0);
		(void)setenv("NCCL_NET_PLUGIN", "none", 0);
		(void)setenv("NCCL_IB_DISABLE", "1", 0);
		(void)setenv("NCCL_P2P_DISABLE", "1", 0);
		(void)setenv("NCCL_SHM_DISABLE", "1", 0);
		(void)setenv("NCCL_MNNVL_ENABLE", "0", 0);
		(void)setenv("NCCL_RAS_ENABLE", "0", 0);
		if (setup->node_world == setup->world)
			(void)setenv("NCCL_SOCKET_IFNAME", "=lo", 0);
	}
	(void)setenv("NCCL_NVLS_ENABLE", "0", 0);
	/* to try it is fatal in some machines' drivers before 595 */
	(void)setenv("NCCL_CUMEM_HOST_ENABLE", "0", 0);
	return 1;
}

static espl_status
start_nccl(struct gpu_comm *c, const struct espl__comm_setup *setup, struct espl__diag *diag)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	espl_status status;
	ncclResult_t result = ncclSuccess;

	config.blocking = 0;
	if (share_one_gpu(c, setup, diag, &status))
		config.maxCTAs = 2;
	if (status != ESPL_OK)
		return status;
	memset(&id, 0, sizeof id);
	if (setup->rank == 0)
		result = ncclGetUniqueId(&id);
	if (result != ncclSuccess)
		return espl__fail(diag, ESPL_E_REMOTE, "rank 0, GPU %d: ncclGetUniqueId: %s: %s",
		    c->cuda->ordinal, ncclGetErrorString(result), ncclGetLastError(NULL));
	status = espl__comm_send_all(c->host, &id, sizeof id, 0);
	if (status != ESPL_OK)
		return espl__fail(diag, status, "a rank was lost while the gang connected");
	result = ncclCommInitRankConfig(&c->nccl, (int)setup->world, id, (int)setup->rank, &config);
	if (result != ncclSuccess && result != ncclInProgress) {
		status = nccl_failed(c, result, "ncclCommInitRankConfig");
	} else {
		status = settle_nccl(c,
		    setup->init_limit > 0 && setup->init_limit < INIT_LIMIT * 10 ? setup->init_limit
										 : INIT_LIMIT,
		    "ncclCommInitRankConfig");
	}
	if (status != ESPL_OK) /* it has been told why */
		return espl__fail(diag, status,
		    "rank %" PRIu32 ", GPU %d: NCCL's communicator of %" PRIu32
		    " ranks could not be created",
		    setup->rank, c->cuda->ordinal, setup->world);
	c->base.view.native = c->nccl;
	return ESPL_OK;
}

espl_status
espl__cuda_connect(struct espl__device *d, const struct espl__comm_setup *setup,
    struct espl__comm **to, struct espl__diag *diag)
{
	struct espl__comm *host;
	struct gpu_comm *c;
	espl_status status = espl__comm_init(setup, &host, diag);

	*to = NULL;
	if (status != ESPL_OK)
		return status;
	c = espl__alloc(sizeof *c);
	c->base.magic = ESPL__COMM_MAGIC;
	c->host = host;
	c->cuda = d->state;
	c->base.view = host->view; /* rank, world, node, generation */
	c->base.view.ctx = c;
	c->base.view.allreduce = gpu_allreduce;
	c->base.view.broadcast = gpu_broadcast;
	c->base.view.allgather = gpu_allgather;
	c->base.view.barrier = gpu_barrier;
	c->base.view.sum_shards = gpu_sum_shards;
	c->base.view.wait = gpu_wait;
	c->base.view.reduce_host = gpu_reduce_host;
	c->base.finish = gpu_finish;
	c->base.tell = gpu_tell;
	c->base.wait_limit = setup->wait_limit;
	c->base.node = setup->node;
	if (setup->world > 1)
		status = start_nccl(c, setup, diag);
	if (status != ESPL_OK) {
		abort_nccl(c);
		espl__comm_finish(c->host);
		free(c);
		return status;
	}
	*to = &c->base;
	return ESPL_OK;
}
