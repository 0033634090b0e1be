/* emulate.cc - see emulate.h: blocks and threads, graphs, memory. */
#include "emulate.h"
#include "emulate_stream.h"
#include <ucontext.h>
#include <cstdlib>
#include <vector>

uint3 emulate_thread, emulate_block_index;
dim3  emulate_block, emulate_grid_size;

/* ---- threads ------------------------------------------------------------------------------- */

#define STACK 65536u

struct fiber { ucontext_t context; uint3 index; bool done; };
static std::vector<fiber> fibers;
static std::vector<char>  stacks;
static ucontext_t         scheduler;
static size_t             running;
static const std::function<void()> *body;

static void
fiber_main(void)
{
	(*body)();
	fibers[running].done = true;
}

void
emulate_barrier(void)
{
	size_t me = running;

	swapcontext(&fibers[me].context, &scheduler);
	emulate_thread = fibers[me].index;
}

/* Each thread up to its next barrier, again and again until all are done. */
static void
run_block(unsigned count)
{
	bool left = true;

	for (unsigned i = 0; i < count; i++) {
		fiber &f = fibers[i];

		f.done = false;
		f.index = make_uint3(i, 0, 0);
		getcontext(&f.context);
		f.context.uc_stack.ss_sp = &stacks[(size_t)i * STACK];
		f.context.uc_stack.ss_size = STACK;
		f.context.uc_link = &scheduler;
		makecontext(&f.context, fiber_main, 0);
	}
	while (left) {
		left = false;
		for (running = 0; running < count; running++) {
			if (fibers[running].done)
				continue;
			emulate_thread = fibers[running].index;
			swapcontext(&scheduler, &fibers[running].context);
			left |= !fibers[running].done;
		}
	}
}

void
emulate_grid(dim3 grid, dim3 block, bool barriers, const std::function<void()> &thread)
{
	emulate_grid_size = grid;
	emulate_block = block;
	if (barriers && fibers.size() < block.x) {
		fibers.resize(block.x);
		stacks.resize((size_t)block.x * STACK);
	}
	body = &thread;
	for (unsigned z = 0; z < grid.z; z++)
		for (unsigned y = 0; y < grid.y; y++)
			for (unsigned x = 0; x < grid.x; x++) {
				emulate_block_index = make_uint3(x, y, z);
				if (barriers) {
					run_block(block.x);
					continue;
				}
				for (unsigned t = 0; t < block.x; t++) {
					emulate_thread = make_uint3(t, 0, 0);
					thread();
				}
			}
}

/* ---- graphs --------------------------------------------------------------------------------- */

typedef std::vector<std::function<void()>> work_list;
static work_list *capturing;

void
emulate_queue(const std::function<void()> &work)
{
	if (capturing != NULL)
		capturing->push_back(work);
	else
		work();
}

extern "C" {

void
emulate_queue_c(void (*work)(void *), const void *data, size_t size)
{
	std::vector<char> copy((const char *)data, (const char *)data + size);

	emulate_queue([=]() mutable { work(copy.data()); });
}

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
	if (capturing != NULL)
		return cudaErrorStreamCaptureUnsupported;
	capturing = new work_list;
	((emulate_stream *)stream)->queue = emulate_queue_c;
	return cudaSuccess;
}

cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	((emulate_stream *)stream)->queue = NULL;
	if (capturing == NULL)
		return cudaErrorIllegalState;
	*graph = (cudaGraph_t)capturing;
	capturing = NULL;
	return cudaSuccess;
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t graph, unsigned long long)
{
	*to = (cudaGraphExec_t) new work_list(*(work_list *)graph);
	return cudaSuccess;
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t)
{
	for (const auto &work : *(work_list *)graph)
		work();
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g) { delete (work_list *)g; return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) { delete (work_list *)g; return cudaSuccess; }

/* ---- memory and the rest ---------------------------------------------------------------------- */

cudaError_t
cudaMalloc(void **to, size_t bytes)
{
	*to = aligned_alloc(256, (bytes + 255) / 256 * 256);
	return *to != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaMallocHost(void **to, size_t bytes) { return cudaMalloc(to, bytes); }
cudaError_t cudaFree(void *at) { free(at); return cudaSuccess; }
cudaError_t cudaFreeHost(void *at) { free(at); return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *left, size_t *all) { *left = *all = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "an emulated failure"; }

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind, cudaStream_t)
{
	emulate_queue([=]() { memcpy(to, from, bytes); });
	return cudaSuccess;
}

cudaError_t
cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t)
{
	emulate_queue([=]() { memset(to, value, bytes); });
	return cudaSuccess;
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *to, unsigned)
{
	*to = (cudaEvent_t)malloc(1);
	return *to != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t e) { free(e); return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
}
