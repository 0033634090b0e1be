/* emulate.cc - see emulate.h: blocks and threads, a stream, graphs, memory. */
#include "emulate.h"
#include "emulate_stream.h"
#include <ucontext.h>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
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

/* ---- the stream ----------------------------------------------------------------------------- */

/* There is one stream. Queued work is not executed before the stream is queried, and the first
 * query returns `not ready`: as on a GPU, memory that is handed over or reused too early is
 * noticed. */
typedef std::function<bool()> emulate_work;	/* false: to be called again */
typedef std::vector<emulate_work> work_list;
struct emulated_event { std::shared_ptr<bool> done; bool captured; };
struct emulated_exec { work_list work; std::shared_ptr<bool> done; };	/* done: its latest launch */

static std::deque<emulate_work> pending;
static bool        asked;
static work_list  *capturing;
static unsigned    captures;
static bool        capture_spoilt;
static cudaStreamCaptureMode capture_mode;
static cudaError_t last_error;

/* `Not ready` is no error: the runtime does not keep it either. */
static cudaError_t
failed(cudaError_t code)
{
	last_error = code;
	return code;
}

static cudaError_t
spoil_capture(cudaError_t code)
{
	capture_spoilt = true;
	return failed(code);
}

/* Calls that a capture forbids, unless it is relaxed. */
static bool
forbidden(void)
{
	return capturing != NULL && capture_mode != cudaStreamCaptureModeRelaxed;
}

void
emulate_queue_again(const emulate_work &work)
{
	if (capturing != NULL)
		capturing->push_back(work);
	else
		pending.push_back(work);
}

void
emulate_queue(const std::function<void()> &work)
{
	emulate_queue_again([=]() { work(); return true; });
}

unsigned
emulate_capture(void)
{
	return capturing != NULL ? captures : 0;
}

bool
emulate_launchable(dim3 grid, dim3 block)
{
	if (grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffu && grid.y <= 65535u && grid.z <= 65535u
	    && block.x > 0 && block.x * block.y * block.z <= 1024u)
		return true;
	(void)failed(cudaErrorInvalidConfiguration);
	return false;
}

static bool
do_next(void)
{
	if (!pending.front()())
		return false;
	pending.pop_front();
	return true;
}

extern "C" void
emulate_finish(void)
{
	const struct timespec moment = { 0, 20000 };

	while (!pending.empty())
		if (!do_next())
			(void)nanosleep(&moment, NULL);
}

/* The first who asks is told to come again. */
static bool
not_ready(void)
{
	asked = !asked;
	return asked;
}

extern "C" void
emulate_queue_c(void (*work)(void *), const void *data, size_t size)
{
	std::vector<char> copy((const char *)data, (const char *)data + size);

	emulate_queue_again([=]() mutable { work(copy.data()); return true; });
}

static void
attach(cudaStream_t stream)
{
	((emulate_stream *)stream)->queue = emulate_queue_c;
	((emulate_stream *)stream)->finish = emulate_finish;
}

extern "C" {

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
	attach(stream);
	if (capturing != NULL)
		return spoil_capture(cudaErrorStreamCaptureUnsupported);
	if (!pending.empty() && not_ready())
		return cudaErrorNotReady;
	while (!pending.empty())
		if (!do_next())
			return cudaErrorNotReady;
	return cudaSuccess;
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *to, unsigned)
{
	*to = (cudaEvent_t) new emulated_event{ std::make_shared<bool>(true), false };
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e) { delete (emulated_event *)e; return cudaSuccess; }

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
	emulated_event       *e = (emulated_event *)event;
	std::shared_ptr<bool> done = std::make_shared<bool>(false);

	e->done = done;
	e->captured = capturing != NULL;
	if (capturing == NULL)
		pending.push_back([=]() { return *done = true; });
	return cudaSuccess;
}

cudaError_t
cudaEventQuery(cudaEvent_t event)
{
	const emulated_event *e = (const emulated_event *)event;

	if (e->captured)
		return spoil_capture(cudaErrorCapturedEvent);
	if (forbidden())
		return spoil_capture(cudaErrorStreamCaptureUnsupported);
	if (!*e->done && not_ready())
		return cudaErrorNotReady;
	while (!*e->done)
		if (!do_next())
			return cudaErrorNotReady;
	return cudaSuccess;
}

/* ---- graphs --------------------------------------------------------------------------------- */


cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	attach(stream);
	if (capturing != NULL)
		return failed(cudaErrorIllegalState);
	capturing = new work_list;
	captures++;
	capture_spoilt = false;
	capture_mode = mode;
	return cudaSuccess;
}

cudaError_t
cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph)
{
	work_list *made = capturing;

	*graph = NULL;
	if (made == NULL)
		return failed(cudaErrorIllegalState);
	capturing = NULL;
	if (!capture_spoilt) {
		*graph = (cudaGraph_t)made;
		return cudaSuccess;
	}
	delete made;
	return failed(cudaErrorStreamCaptureInvalidated);
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t graph, unsigned long long)
{
	*to = (cudaGraphExec_t) new emulated_exec{ *(work_list *)graph, std::make_shared<bool>(true) };
	return cudaSuccess;
}

/* As the driver does where a graph has nodes of NCCL's that run on the host: it waits for an earlier launch of this graph,
 * for ever if another rank will not do its part. */
cudaError_t
cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t)
{
	emulated_exec        *e = (emulated_exec *)graph;
	std::shared_ptr<bool> done = std::make_shared<bool>(false);
	const struct timespec moment = { 0, 100000 };

	while (!*e->done)
		if (!do_next())
			nanosleep(&moment, NULL);
	e->done = done;
	for (const auto &work : e->work)
		emulate_queue_again(work);
	pending.push_back([=]() { return *done = true; });
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g) { delete (work_list *)g; return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) { delete (emulated_exec *)g; return cudaSuccess; }

/* ---- memory and the rest ---------------------------------------------------------------------- */

enum place { PAGEABLE, PINNED, DEVICE };
static std::map<const char *, std::pair<size_t, place>> taken;	/* by where it begins */

static place
place_of(const void *at)
{
	auto next = taken.upper_bound((const char *)at);

	if (next == taken.begin())
		return PAGEABLE;
	--next;
	return (const char *)at < next->first + next->second.first ? next->second.second : PAGEABLE;
}

static cudaError_t
take(void **to, size_t bytes, place where)
{
	if (forbidden())
		return spoil_capture(cudaErrorStreamCaptureUnsupported);
	*to = aligned_alloc(256, (bytes + 255) / 256 * 256);
	if (*to == NULL)
		return failed(cudaErrorMemoryAllocation);
	memset(*to, 0xff, bytes);	/* nobody is to rely on zeros */
	taken[(const char *)*to] = { bytes, where };
	return cudaSuccess;
}

/* It waits for the GPU. */
static cudaError_t
give_back(void *at)
{
	if (forbidden())
		return spoil_capture(cudaErrorStreamCaptureUnsupported);
	if (at != NULL && taken.erase((const char *)at) == 0)
		return failed(cudaErrorInvalidValue);
	emulate_finish();
	free(at);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **to, size_t bytes) { return take(to, bytes, DEVICE); }
cudaError_t cudaMallocHost(void **to, size_t bytes) { return take(to, bytes, PINNED); }
cudaError_t cudaFree(void *at) { return give_back(at); }
cudaError_t cudaFreeHost(void *at) { return give_back(at); }
cudaError_t cudaMemGetInfo(size_t *left, size_t *all) { *left = *all = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "an emulated failure"; }

cudaError_t
cudaGetLastError(void)
{
	cudaError_t code = last_error;

	last_error = cudaSuccess;
	return code;
}

/* Unpinned memory has been read when the call returns; unpinned destinations have been written. */
cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
	bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;

	attach(stream);
	if (to_device != (place_of(to) == DEVICE) || from_device != (place_of(from) == DEVICE))
		return failed(cudaErrorInvalidValue);
	if (place_of(from) == PAGEABLE) {
		std::vector<char> staged((const char *)from, (const char *)from + bytes);

		emulate_queue([=]() { memcpy(to, staged.data(), bytes); });
	} else {
		emulate_queue([=]() { memcpy(to, from, bytes); });
	}
	if (place_of(to) == PAGEABLE && capturing == NULL)
		emulate_finish();
	return cudaSuccess;
}

cudaError_t
cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
	attach(stream);
	if (place_of(to) != DEVICE)
		return failed(cudaErrorInvalidValue);
	emulate_queue([=]() { memset(to, value, bytes); });
	return cudaSuccess;
}
}
