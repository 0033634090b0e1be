/* gang.c - gangs of several ranks on one GPU: does NCCL's communicator do what the SDK says, how
 * long does it take to make a new one, and is a killed rank noticed?
 *
 *     gang [--count FLOATS] [--rounds N] [--kill RANK] [--native-first] WORLD...
 *
 * One process per rank, each with espalier-worker's own device.  They make a communicator of each
 * WORLD in turn, so that all but the first start warm, as in a resize.  With --kill that rank dies
 * in the first of them while the others sum.  With --native-first NCCL's own communicator is made
 * before ours: it then is the one that starts cold.  Prints TAP, and figures as one JSON object a
 * line.
 */
#include <cuda_runtime_api.h>
#include <execinfo.h>
#include <inttypes.h>
#include <nccl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/tick.h"
#include "comm/device.h"

#define PHASES 24
#define RANKS 8

struct shared {
	atomic_int arrived[4 * PHASES], bad[PHASES], native_ready[PHASES];
	ncclUniqueId native[PHASES];
	_Atomic int64_t died_at, seen_at[RANKS];
	atomic_int no_gpu;
	char why[512];
};
static struct shared *shared;

static struct {
	uint32_t worlds[PHASES], count, most, floats, rounds;
	int kill, native_first, doors[PHASES];
	uint32_t ports[PHASES];
} plan = { .floats = 669706, .rounds = 50, .kill = -1 };

static double
seconds(int64_t from)
{
	return (double)(espl__tick() - from) / 1e9;
}

static void
nap(void)
{
	const struct timespec t = { 0, 100000 };

	(void)nanosleep(&t, NULL);
}

/* All ranks, those that sit out a phase too. */
static void
meet(uint32_t point)
{
	atomic_fetch_add(&shared->arrived[point], 1);
	while (atomic_load(&shared->arrived[point]) < (int)plan.most)
		nap();
}

struct rank {
	uint32_t me;
	struct espl__device device;
	const struct espl_comm *comm;
	cudaStream_t stream;
	float *a, *b; /* on the GPU; b has room for all ranks' parts */
	float *host;
};

/* ---- what the calls do -------------------------------------------------------------------- */

static int
fetch(struct rank *r, const void *from, size_t bytes)
{
	return r->comm->wait(r->comm) == ESPL_OK &&
	    r->device.ops->to_host(&r->device, r->host, from, bytes, ESPL_CUDA) == ESPL_OK;
}

static int
fill(struct rank *r, float value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		r->host[i] = value + (float)(i % 3);
	return r->device.ops->from_host(&r->device, r->a, r->host, count * sizeof *r->host,
		   ESPL_CUDA) == ESPL_OK;
}

static int
holds(const struct rank *r, float value, float step, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (r->host[i] != value + step * (float)(i % 3))
			return 0;
	return 1;
}

static int
reduces(struct rank *r)
{
	const struct espl_comm *c = r->comm;
	float w = (float)c->world, sum = w * (w + 1) / 2;
	size_t n = plan.floats, size = n * sizeof *r->a;

	if (!fill(r, (float)(c->rank + 1), n) ||
	    c->allreduce(c, r->a, r->b, n, ESPL_F32, ESPL_SUM) != ESPL_OK ||
	    !fetch(r, r->b, size) || !holds(r, sum, w, n))
		return 0;
	if (c->allreduce(c, r->a, r->b, n, ESPL_F32, ESPL_MEAN) != ESPL_OK ||
	    !fetch(r, r->b, size) ||
	    fabsf(r->host[n - 1] - (sum / w + (float)((n - 1) % 3))) > 1e-5f)
		return 0;
	if (!fill(r, (float)(c->rank + 1), n) ||
	    c->allreduce(c, r->a, r->a, n, ESPL_F32, ESPL_MAX) != ESPL_OK ||
	    !fetch(r, r->a, size) || !holds(r, w, 1, n))
		return 0;
	return 1;
}

static int
hands_round(struct rank *r)
{
	const struct espl_comm *c = r->comm;
	size_t n = plan.floats;
	uint32_t last = c->world - 1;
	double values[2] = { c->rank, 1 };

	if (!fill(r, (float)c->rank, n) || c->broadcast(c, r->a, n, ESPL_F32, last) != ESPL_OK ||
	    !fetch(r, r->a, n * sizeof *r->a) || !holds(r, (float)last, 1, n))
		return 0;
	if (!fill(r, (float)(10 * c->rank), 3) ||
	    c->allgather(c, r->a, r->b, 3, ESPL_F32) != ESPL_OK ||
	    !fetch(r, r->b, (size_t)3 * c->world * sizeof *r->b) ||
	    r->host[3 * last + 1] != (float)(10 * last + 1))
		return 0;
	return c->barrier(c) == ESPL_OK && c->reduce_host(c, values, 2, ESPL_SUM) == ESPL_OK &&
	    values[0] == c->world * (c->world - 1) / 2.0 && values[1] == c->world;
}

/* Eight shards, however they are distributed: the sum is the same to the bit. */
static int
sums_shards(struct rank *r)
{
	const struct espl_comm *c = r->comm;
	uint32_t first = 8 * c->rank / c->world, mine = 8 * (c->rank + 1) / c->world - first;
	float wanted = 0;

	for (uint32_t s = 0; s < 8; s++) {
		wanted += 1.0f / (float)(s + 3);
		if (s >= first && s < first + mine)
			for (uint32_t i = 0; i < 100; i++)
				r->host[(s - first) * 100 + i] = 1.0f / (float)(s + 3);
	}
	if (r->device.ops->from_host(&r->device, r->a, r->host, mine * 100 * sizeof *r->host,
		ESPL_CUDA) != ESPL_OK)
		return 0;
	return c->sum_shards(c, r->a, r->b, 100, ESPL_F32, first, mine, 8) == ESPL_OK &&
	    fetch(r, r->b, 100 * sizeof *r->b) && r->host[0] == wanted && r->host[99] == wanted;
}

/* ---- what they take ----------------------------------------------------------------------- */

/* Captured once and launched many times, as fashion_cuda does: the driver blocks in cudaGraphLaunch
 * while an earlier launch of that graph runs, so each is waited for before the next. */
static int
replays(struct rank *r, double *took)
{
	const struct espl_comm *c = r->comm;
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	int64_t from;
	int good;

	if (cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeRelaxed) != cudaSuccess)
		return 0;
	good = c->allreduce(c, r->a, r->a, plan.floats, ESPL_F32, ESPL_MAX) == ESPL_OK;
	good = cudaStreamEndCapture(r->stream, &graph) == cudaSuccess && good;
	good = good && cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
	if (graph != NULL)
		(void)cudaGraphDestroy(graph);
	from = espl__tick();
	for (uint32_t i = 0; i < plan.rounds && good; i++) {
		good = (i == 0 || c->wait(c) == ESPL_OK) &&
		    cudaGraphLaunch(exec, r->stream) == cudaSuccess;
		if (plan.kill == (int)r->me && i == 5) {
			atomic_store(&shared->died_at, espl__tick());
			_exit(9);
		}
	}
	if (exec != NULL)
		(void)cudaGraphExecDestroy(exec);
	good = good && c->wait(c) == ESPL_OK;
	*took = seconds(from) / plan.rounds;
	return good;
}

static int
calls(struct rank *r, double *took)
{
	const struct espl_comm *c = r->comm;
	int64_t from = espl__tick();
	int good = 1;

	for (uint32_t i = 0; i < plan.rounds && good; i++)
		good = c->allreduce(c, r->a, r->a, plan.floats, ESPL_F32, ESPL_MAX) == ESPL_OK;
	good = good && c->wait(c) == ESPL_OK;
	*took = seconds(from) / plan.rounds;
	return good;
}

/* NCCL alone, without our code: how long does it take to create and to destroy a communicator? */
static int
native(struct rank *r, uint32_t phase, double *made, double *ended)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL;
	ncclResult_t result, state = ncclInProgress;
	int64_t from;

	config.blocking = 0;
	config.maxCTAs = 2;
	if (r->me == 0) {
		if (ncclGetUniqueId(&shared->native[phase]) != ncclSuccess)
			return 0;
		atomic_store(&shared->native_ready[phase], 1);
	}
	while (!atomic_load(&shared->native_ready[phase]))
		nap();
	from = espl__tick();
	result = ncclCommInitRankConfig(&comm, (int)plan.worlds[phase], shared->native[phase],
	    (int)r->me, &config);
	while ((result == ncclSuccess || result == ncclInProgress) && state == ncclInProgress &&
	    seconds(from) < 60) {
		nap();
		result = ncclCommGetAsyncError(comm, &state);
	}
	*made = seconds(from);
	if (state != ncclSuccess) {
		fprintf(stderr, "rank %u: NCCL's own communicator: %s\n", r->me,
		    ncclGetErrorString(state));
		return 0;
	}
	from = espl__tick();
	result = ncclCommFinalize(comm);
	for (state = ncclInProgress; state == ncclInProgress && seconds(from) < 60;) {
		nap();
		if (ncclCommGetAsyncError(comm, &state) != ncclSuccess)
			return 0;
	}
	result = ncclCommDestroy(comm);
	*ended = seconds(from);
	return result == ncclSuccess || result == ncclInProgress;
}

/* ---- phases ------------------------------------------------------------------------------- */

static void
verdict(uint32_t phase, int good, const struct rank *r, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "rank %u of %u: %s failed\n", r->me, plan.worlds[phase], what);
	atomic_fetch_add(&shared->bad[phase], 1);
	_exit(4);
}

static void
take_part(struct rank *r, uint32_t phase)
{
	const uint32_t world = plan.worlds[phase];
	struct espl__comm_setup setup = { .rank = r->me,
		.world = world,
		.node_rank = r->me,
		.node_world = world,
		.generation = phase + 1,
		.key = { 47 },
		.master = "127.0.0.1",
		.port = plan.ports[phase],
		.listen_fd = r->me == 0 ? plan.doors[phase] : -1,
		.init_limit = 60 * ESPL_SECOND,
		.wait_limit = 60 * ESPL_SECOND };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__comm *comm;
	double connect, first, graph = 0, eager = 0, end, made = 0, ended = 0;
	int64_t from;

	if (world > 1 && plan.native_first)
		verdict(phase, native(r, phase, &made, &ended), r, "NCCL alone");
	from = espl__tick();
	if (r->device.ops->connect(&r->device, &setup, &comm, &diag) != ESPL_OK) {
		espl__diag_print(stderr, &diag);
		verdict(phase, 0, r, "coming together");
	}
	connect = seconds(from);
	r->comm = &comm->view;
	from = espl__tick();
	verdict(phase,
	    r->comm->allreduce(r->comm, r->a, r->a, plan.floats, ESPL_F32, ESPL_SUM) == ESPL_OK &&
		r->comm->wait(r->comm) == ESPL_OK,
	    r, "the first sum");
	first = seconds(from);
	verdict(phase, reduces(r), r, "allreduce");
	verdict(phase, hands_round(r), r, "broadcast, allgather, barrier or reduce_host");
	verdict(phase, sums_shards(r), r, "sum_shards");
	if (plan.kill >= 0) {
		int good = replays(r, &graph);

		atomic_store(&shared->seen_at[r->me], espl__tick());
		fprintf(stderr, "rank %u: %s\n", r->me,
		    good ? "noticed nothing" : "noticed the loss");
		_exit(good ? 5 : 0);
	}
	verdict(phase, replays(r, &graph), r, "a captured sum");
	verdict(phase, calls(r, &eager), r, "many sums");
	from = espl__tick();
	espl__comm_finish(comm);
	end = seconds(from);
	if (world > 1 && !plan.native_first)
		verdict(phase, native(r, phase, &made, &ended), r, "NCCL alone");
	if (r->me == 0) {
		printf("{\"figure\": \"gang\", \"phase\": %u, \"world\": %u, \"connect_s\": %.4f, "
		       "\"first_sum_s\": %.4f, \"end_s\": %.4f, \"nccl_init_s\": %.4f, "
		       "\"nccl_end_s\": %.4f, \"floats\": %u, \"sum_graph_us\": %.1f, "
		       "\"sum_call_us\": %.1f, \"mps\": %s, \"first\": \"%s\"}\n",
		    phase, world, connect, first, end, made, ended, plan.floats, graph * 1e6,
		    eager * 1e6, getenv("CUDA_MPS_PIPE_DIRECTORY") != NULL ? "true" : "false",
		    plan.native_first ? "nccl" : "espalier");
		fflush(stdout);
	}
}

/* A rank that waits for ever says where. */
static void
say_where(int signal_number)
{
	static const char text[] = "a rank waits here:\n";
	void *at[40];

	(void)signal_number;
	(void)!write(2, text, sizeof text - 1);
	backtrace_symbols_fd(at, backtrace(at, 40), 2);
	_exit(7);
}

static void __attribute__((noreturn)) rank_main(uint32_t me)
{
	struct rank r = { .me = me };
	struct espl__diag diag = ESPL__DIAG_INIT;
	size_t size = (size_t)plan.floats * sizeof(float);
	int64_t from = espl__tick();
	espl_status status;
	void *loaded[1];

	if (plan.native_first) { /* what the device sets where ranks share a GPU */
		char id[32];

		(void)snprintf(id, sizeof id, "gang-%ld", (long)getpid());
		(void)setenv("NCCL_HOSTID", id, 0);
	}
	(void)backtrace(loaded, 1); /* loads what it needs, which a handler must not */
	(void)signal(SIGALRM, say_where);
	(void)alarm(plan.kill >= 0 ? 10 : 240);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	r.device.view.packing = r.device.view.threads = 1;
	status = espl__device_open("cuda", &r.device, &diag);
	if (status != ESPL_OK && status != ESPL_E_UNSUPPORTED) {
		espl__diag_print(stderr, &diag);
		_exit(3);
	}
	if (status != ESPL_OK) {
		if (!atomic_exchange(&shared->no_gpu, 1))
			(void)snprintf(shared->why, sizeof shared->why, "%s", diag.text);
		_exit(6);
	}
	r.stream = r.device.view.stream;
	r.host = malloc(size);
	if (r.host == NULL || cudaSetDevice(0) != cudaSuccess ||
	    cudaMalloc((void **)&r.a, size) != cudaSuccess ||
	    cudaMalloc((void **)&r.b, size) != cudaSuccess ||
	    cudaMemset(r.a, 0, size) != cudaSuccess) {
		fprintf(stderr, "rank %u: no memory on the GPU\n", me);
		_exit(3);
	}
	if (me == 0) {
		printf("{\"figure\": \"context\", \"ranks\": %u, \"open_s\": %.4f}\n", plan.most,
		    seconds(from));
		fflush(stdout);
	}
	for (uint32_t p = 0; p < plan.count; p++) {
		if (me < plan.worlds[p])
			take_part(&r, p);
		meet(p);
	}
	espl__device_close(&r.device);
	_exit(0);
}

/* ---- the parent: nothing of CUDA here, which would not survive the fork ------------------- */

static int
read_arguments(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int option = strcmp(argv[i], "--count") == 0 ? 1
		    : strcmp(argv[i], "--kill") == 0         ? 2
		    : strcmp(argv[i], "--rounds") == 0       ? 3
							     : 0;

		if (strcmp(argv[i], "--native-first") == 0) {
			plan.native_first = 1;
			continue;
		}
		long n = strtol(argv[option && i + 1 < argc ? ++i : i], NULL, 10);

		if (option == 1 && n > 800)
			plan.floats = (uint32_t)n;
		else if (option == 2)
			plan.kill = (int)n;
		else if (option == 3 && n >= 1)
			plan.rounds = (uint32_t)n;
		else if (option == 0 && n >= 1 && n <= RANKS && plan.count < PHASES)
			plan.worlds[plan.count++] = (uint32_t)n;
		else
			return -1;
	}
	for (uint32_t p = 0; p < plan.count; p++)
		plan.most = plan.worlds[p] > plan.most ? plan.worlds[p] : plan.most;
	return plan.count > 0 ? 0 : -1;
}

/* A rank that fails gives the others some time to report why they fail. */
static int
wait_for(pid_t *pids)
{
	int bad = 0, left = (int)plan.most;
	int64_t first_bad = 0;

	while (left > 0) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid <= 0) {
			nap();
			if (first_bad != 0 && seconds(first_bad) > 90)
				for (uint32_t i = 0; i < plan.most; i++)
					(void)kill(pids[i], SIGKILL);
			continue;
		}
		left--;
		if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9))
			continue;
		bad++;
		if (WIFSIGNALED(status))
			fprintf(stderr, "a rank was ended by signal %d\n", WTERMSIG(status));
		if (first_bad == 0) {
			first_bad = espl__tick();
			for (uint32_t i = 0; i < 4 * PHASES; i++) /* nobody waits for it */
				atomic_fetch_add(&shared->arrived[i], (int)plan.most);
		}
	}
	return bad;
}

static int
report(int bad)
{
	if (atomic_load(&shared->no_gpu)) {
		printf("1..0 # SKIP %s\n", shared->why);
		return 0;
	}
	if (plan.kill < 0) {
		printf("%sok 1 - gangs of", bad ? "not " : "");
		for (uint32_t p = 0; p < plan.count; p++)
			printf(" %u", plan.worlds[p]);
		printf(" ranks on one GPU\n1..1\n");
		return bad != 0;
	}
	for (uint32_t i = 0; i < plan.most; i++)
		if ((int)i != plan.kill) {
			double late = (double)(shared->seen_at[i] - shared->died_at) / 1e9;

			printf("{\"figure\": \"loss\", \"world\": %u, \"rank\": %u, \"seen_s\": "
			       "%.4f}\n",
			    plan.most, i, late);
			bad += shared->seen_at[i] == 0 || shared->died_at == 0 || late > 1.0;
		}
	printf("%sok 1 - rank %d of %u is killed, and all others see it within a second\n1..1\n",
	    bad ? "not " : "", plan.kill, plan.most);
	return bad != 0;
}

int
main(int argc, char **argv)
{
	pid_t pids[RANKS];

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (read_arguments(argc, argv) != 0) {
		fprintf(stderr,
		    "usage: gang [--count FLOATS] [--rounds N] [--kill RANK] [--native-first] "
		    "WORLD...\n");
		return 2;
	}
	shared =
	    mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("gang");
		return 2;
	}
	for (uint32_t p = 0; p < plan.count; p++)
		if ((plan.doors[p] = espl__comm_door("127.0.0.1", &plan.ports[p])) < 0) {
			perror("gang: a door");
			return 2;
		}
	for (uint32_t i = 0; i < plan.most; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			rank_main(i);
		if (pids[i] < 0) {
			perror("gang: fork");
			return 2;
		}
	}
	return report(wait_for(pids));
}
