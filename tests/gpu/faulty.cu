/* faulty.cu - a trial that harms its GPU, and one that looks for what others have left there.
 *
 *     faulty [MIB]
 *
 * A command for `trial.command` (docs/trial-protocol.md).  It takes MIB of the GPU's memory, counts
 * the words of it that another trial marked, marks it itself, and computes for 100 ms in each
 * iteration.  In the second, the trial that finds and removes the file $FAULT/illegal writes to an
 * address that is not its own, and the one that finds $FAULT/hang begins a kernel that never ends.
 * Metrics: `marked` (words), `free_mib` (before anything was taken), `trial`.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <unistd.h>

#define MARK 0xe5ba11e2u

static void
must(cudaError_t code, const char *what)
{
	if (code == cudaSuccess)
		return;
	fprintf(stderr, "faulty: %s: %s\n", what, cudaGetErrorString(code));
	_exit(3);
}

static __global__ void
count_marks(const unsigned *at, size_t words, unsigned long long *found)
{
	unsigned long long n = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
	     i += (size_t)gridDim.x * blockDim.x)
		n += at[i] == MARK;
	if (n > 0)
		atomicAdd(found, n);
}

static __global__ void
write_marks(unsigned *at, size_t words)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
	     i += (size_t)gridDim.x * blockDim.x)
		at[i] = MARK;
}

static __global__ void
spin(long long ns, volatile int *go)
{
	long long from, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(from));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (ns < 0 ? *go == 0 : now - from < ns);
}

static __global__ void
write_astray(unsigned *at)
{
	at[(size_t)1 << 44] = 1;
}

/* One trial alone finds the file. */
static int
takes(const char *name)
{
	char path[4096];
	const char *folder = getenv("FAULT");

	if (folder == NULL)
		return 0;
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return unlink(path) == 0;
}

/* 0: go on */
static int
ask(FILE *from, int fd, unsigned long long i)
{
	char line[256], path[4096];

	while (fgets(line, sizeof line, from) != NULL) {
		int pause = strncmp(line, "pause", 5) == 0;

		if (strncmp(line, "stop", 4) == 0)
			return 1;
		if (strncmp(line, "continue", 8) == 0)
			return 0;
		if (!pause && strncmp(line, "checkpoint", 10) != 0)
			continue;
		snprintf(path, sizeof path, "%s/state", getenv("ESPALIER_SAVE"));
		FILE *to = fopen(path, "w");
		if (to == NULL || fprintf(to, "%llu\n", i) < 0 || fclose(to) != 0)
			return 1;
		dprintf(fd, "{\"saved\": %llu}\n", i);
		return pause; /* after a checkpoint no other answer follows */
	}
	return 1; /* nobody listens any more */
}

int
main(int argc, char **argv)
{
	const char *given = getenv("ESPALIER_REPORT_FD"), *done = getenv("ESPALIER_ITERATION");
	size_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1024) << 20, words = bytes / 4;
	unsigned long long *found, marked = 0, i = done != NULL ? strtoull(done, NULL, 10) : 0;
	size_t free_bytes, all_bytes;
	unsigned *memory;
	int *go, fd;
	FILE *from;

	if (given == NULL) {
		fprintf(stderr, "faulty: not started by espalier\n");
		return 2;
	}
	fd = atoi(given);
	from = fdopen(dup(fd), "r");
	must(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
	must(cudaMalloc((void **)&memory, bytes), "cudaMalloc");
	must(cudaMalloc((void **)&found, sizeof *found), "cudaMalloc");
	must(cudaMalloc((void **)&go, sizeof *go), "cudaMalloc");
	must(cudaMemset(found, 0, sizeof *found), "cudaMemset");
	must(cudaMemset(go, 0, sizeof *go), "cudaMemset");
	count_marks<<<264, 256>>>(memory, words, found);
	must(cudaMemcpy(&marked, found, sizeof marked, cudaMemcpyDeviceToHost), "count_marks");
	write_marks<<<264, 256>>>(memory, words);
	must(cudaDeviceSynchronize(), "write_marks");
	for (;;) {
		i++;
		spin<<<1, 1>>>(100000000, go);
		if (i >= 2 && takes("illegal"))
			write_astray<<<1, 1>>>(memory);
		if (i >= 2 && takes("hang"))
			spin<<<1, 1>>>(-1, go);
		must(cudaDeviceSynchronize(), "an iteration");
		dprintf(fd,
		    "{\"iteration\": %llu, \"metrics\": {\"marked\": %llu, \"free_mib\": %zu, "
		    "\"trial\": %s}}\n",
		    i, marked, free_bytes >> 20, getenv("ESPALIER_TRIAL"));
		if (ask(from, fd, i) != 0)
			return 0;
	}
}
