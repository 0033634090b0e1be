/* emulate_nccl.cc - the calls of NCCL, and of CUDA's runtime in addition to emulate.cc, that the
 * GPU device makes, so that gangs of processes are tested on machines without a GPU.
 *
 * All ranks see the same single GPU. It is as strict as the original: it never blocks, an operation
 * makes progress while the caller queries its state, and until then no other call is accepted. Two
 * ranks of one machine on one GPU are refused. A communicator is neither finalized nor aborted
 * while a graph exists that has captured one of its calls.
 */
#include "emulate.h"
#include "emulate_stream.h"
#include <nccl.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#define RANKS 8
#define SLOT  ((size_t)4 << 20)		/* bytes of a rank in one call, at most */

struct meeting {			/* what the ranks of one communicator share */
	std::atomic<uint32_t> joined;
	std::atomic<uint64_t> arrived, left;	/* in their calls, all counted */
	char hosts[RANKS][100];
};

struct ncclComm {
	int      rank = 0, world = 0;
	meeting *at = NULL;
	char    *slots = NULL;
	uint64_t calls = 0;		/* that this rank has done */
	std::atomic<int> graphs{ 0 }, gone{ 0 };	/* that refer to it; it was aborted */
	ncclResult_t state = ncclSuccess;
	int      looks = 0;		/* until what was begun is settled */
	std::function<ncclResult_t()> begun;
	char     id[NCCL_UNIQUE_ID_BYTES] = "";

	~ncclComm()
	{
		if (at != NULL)
			munmap(at, sizeof *at + RANKS * SLOT);
	}
};
typedef std::shared_ptr<ncclComm> held;	/* a handle points to one: what is queued may outlive it */

static ncclComm *
of(ncclComm_t handle)
{
	return ((held *)(void *)handle)->get();
}

static const char *
host(void)
{
	static char name[100];		/* read once in a process */
	const char *given = getenv("NCCL_HOSTID");

	if (name[0] == '\0')
		(void)snprintf(name, sizeof name, "%s", given != NULL ? given : "this machine");
	return name;
}

static int
version(void)
{
	const char *given = getenv("EMULATE_NCCL_VERSION");

	return given != NULL ? atoi(given) : NCCL_VERSION_CODE;
}

static ncclResult_t
begin(ncclComm *c, const std::function<ncclResult_t()> &what)
{
	c->begun = what;
	c->looks = 2;
	return c->state = ncclInProgress;
}

/* ---- calls of all ranks ---------------------------------------------------------------------- */

struct call {
	held     comm;
	const char *in;
	char    *out;
	size_t   count, size;		/* size: of an element */
	int      root;			/* -1: a sum, -2: everything */
	ncclRedOp_t how;
	int      phase;
};

static float
combine(float a, float b, ncclRedOp_t how)
{
	return how == ncclMax ? (a > b ? a : b) : how == ncclMin ? (a < b ? a : b) : a + b;
}

static void
take_result(const call &k)
{
	const ncclComm *c = k.comm.get();
	size_t          bytes = k.count * k.size;

	if (k.root >= 0)
		memcpy(k.out, c->slots + (size_t)k.root * SLOT, bytes);
	for (int r = 0; r < c->world && k.root == -2; r++)
		memcpy(k.out + (size_t)r * bytes, c->slots + (size_t)r * SLOT, bytes);
	for (size_t i = 0; i < k.count && k.root == -1; i++) {
		float v = ((const float *)c->slots)[i];

		for (int r = 1; r < c->world; r++)
			v = combine(v, ((const float *)(c->slots + (size_t)r * SLOT))[i], k.how);
		((float *)k.out)[i] = k.how == ncclAvg ? v / (float)c->world : v;
	}
}

/* A kernel that waits for those of the other ranks: true when it is done. */
static bool
advance(call &k)
{
	ncclComm *c = k.comm.get();
	uint64_t  all = (c->calls + 1) * (uint64_t)c->world;

	if (c->gone)
		return true;
	if (k.phase == 0) {
		memcpy(c->slots + (size_t)c->rank * SLOT, k.in, k.count * k.size);
		c->at->arrived++;
		k.phase = 1;
	}
	if (k.phase == 1 && c->at->arrived >= all) {
		take_result(k);
		c->at->left++;
		k.phase = 2;
	}
	if (k.phase != 2 || c->at->left < all)
		return false;
	c->calls++;
	return true;
}

static ncclResult_t
collective(const void *in, void *out, size_t count, size_t size, int root, ncclRedOp_t how, ncclComm_t handle)
{
	call              k = { *(held *)(void *)handle, (const char *)in, (char *)out, count, size, root, how, 0 };
	ncclComm         *c = k.comm.get();
	unsigned          capture = emulate_capture();
	std::shared_ptr<int> hold;

	if (c->state != ncclSuccess || count * size > SLOT)
		return c->state = ncclInvalidArgument;
	if (capture != 0) {		/* as long as the graph or one made of it */
		held comm = k.comm;

		c->graphs++;
		hold = std::shared_ptr<int>(new int, [comm](int *p) { comm->graphs--; delete p; });
	}
	return begin(c, [=]() {		/* by a thread of its own, a little later: is the stream still what it was? */
		if (emulate_capture() != capture)
			return ncclInvalidUsage;
		emulate_queue_again([k, hold]() mutable { return advance(k); });
		return ncclSuccess;
	});
}

static size_t
size_of(ncclDataType_t type)
{
	return type == ncclFloat32 || type == ncclInt32 ? 4 : type == ncclFloat64 || type == ncclInt64 ? 8 :
	    type == ncclFloat16 || type == ncclBfloat16 ? 2 : 1;
}

extern "C" {

ncclResult_t
ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t how, ncclComm_t comm, cudaStream_t)
{
	return type == ncclFloat32 ? collective(in, out, count, 4, -1, how, comm) : ncclInvalidArgument;
}

ncclResult_t
ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t)
{
	return collective(in, out, count, size_of(type), root, ncclSum, comm);
}

ncclResult_t
ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t)
{
	return collective(in, out, count, size_of(type), -2, ncclSum, comm);
}

/* ---- beginning and end ------------------------------------------------------------------------ */

ncclResult_t
ncclGetUniqueId(ncclUniqueId *id)
{
	static int made;
	int        fd;

	memset(id, 0, sizeof *id);
	(void)snprintf(id->internal, sizeof id->internal, "/emulated-nccl-%ld-%d", (long)getpid(), made++);
	fd = shm_open(id->internal, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)(sizeof(meeting) + RANKS * SLOT)) != 0)
		return ncclSystemError;
	close(fd);
	return ncclSuccess;
}

/* Is it one GPU a rank? */
static ncclResult_t
look_round(ncclComm *c)
{
	const char *allowed = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

	(void)shm_unlink(c->id);	/* all have it */
	for (int a = 0; a < c->world; a++)
		for (int b = 0; b < a; b++)
			if (strcmp(c->at->hosts[a], c->at->hosts[b]) == 0
			    && (version() < 23003 || allowed == NULL || strcmp(allowed, "1") != 0))
				return ncclInvalidUsage;
	return ncclSuccess;
}

ncclResult_t
ncclCommInitRankConfig(ncclComm_t *to, int world, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	held *h = new held(std::make_shared<ncclComm>());
	ncclComm *c = h->get();
	void *at = MAP_FAILED;
	int   fd = shm_open(id.internal, O_RDWR, 0);

	*to = (ncclComm_t)(void *)h;
	if (fd >= 0) {
		at = mmap(NULL, sizeof(meeting) + RANKS * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	if (at == MAP_FAILED || config == NULL || config->blocking != 0 || world > RANKS || rank >= world)
		return c->state = ncclInvalidArgument;
	c->rank = rank;
	c->world = world;
	c->at = (meeting *)at;
	c->slots = (char *)at + sizeof(meeting);
	memcpy(c->id, id.internal, sizeof c->id);
	(void)snprintf(c->at->hosts[rank], sizeof c->at->hosts[rank], "%s", host());
	c->at->joined++;
	return begin(c, [c]() { return c->at->joined < (uint32_t)c->world ? ncclInProgress : look_round(c); });
}

ncclResult_t
ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
	ncclComm *c = of(comm);

	if (c->state == ncclInProgress && --c->looks <= 0) {
		c->looks = 1;
		c->state = c->begun();
	}
	*state = c->state;
	return ncclSuccess;
}

ncclResult_t
ncclCommFinalize(ncclComm_t comm)
{
	ncclComm *c = of(comm);

	if (c->state != ncclSuccess)
		return ncclInvalidArgument;
	return begin(c, [c]() { return c->graphs > 0 ? ncclInProgress : ncclSuccess; });
}

ncclResult_t
ncclCommDestroy(ncclComm_t comm)
{
	if (of(comm)->state == ncclInProgress)
		return ncclInvalidArgument;
	delete (held *)(void *)comm;
	return ncclSuccess;
}

ncclResult_t
ncclCommAbort(ncclComm_t comm)
{
	const struct timespec moment = { 0, 1000000 };
	ncclComm *c = of(comm);

	c->gone = 1;
	if (c->id[0] != '\0')
		(void)shm_unlink(c->id);
	while (c->graphs > 0)
		(void)nanosleep(&moment, NULL);
	delete (held *)(void *)comm;
	return ncclSuccess;
}

ncclResult_t
ncclGetVersion(int *to)
{
	*to = version();
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r) { return r == ncclInvalidUsage ? "invalid usage" : "an emulated failure"; }
const char *ncclGetLastError(ncclComm_t) { return ""; }

/* ---- the GPU --------------------------------------------------------------------------------- */

cudaError_t
cudaGetDeviceCount(int *count)
{
	*count = 1;
	return cudaSuccess;
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *about, int)
{
	memset(about, 0, sizeof *about);
	memset(&about->uuid, 0xe5, sizeof about->uuid);
	return cudaSuccess;
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *to, unsigned)
{
	static emulate_stream stream;

	*to = (cudaStream_t)&stream;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
const char *cudaGetErrorName(cudaError_t) { return "emulated"; }

cudaError_t
cudaMemset(void *to, int value, size_t bytes)
{
	memset(to, value, bytes);
	return cudaSuccess;
}
}
