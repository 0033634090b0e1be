/* same_gpu.c - a management library that lists one GPU several times, to check gangs on a machine
 * with one GPU.
 *
 * ESPALIER_NVML names this library, and SAME_GPU_COUNT is the number of GPUs to list. Their UUIDs
 * are invented: the trials' CUDA_VISIBLE_DEVICES must name the real one. It reports no processes
 * and no memory in use.
 */
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST 16u

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle);
EXPORT int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int room);
EXPORT int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long memory[3]);
EXPORT int nvmlDeviceGetName(void *handle, char *name, unsigned int room);

static int gpus[MOST];

int
nvmlInit_v2(void)
{
	return 0;
}

int
nvmlShutdown(void)
{
	return 0;
}

int
nvmlDeviceGetCount_v2(unsigned int *count)
{
	const char *text = getenv("SAME_GPU_COUNT");
	long n = text != NULL ? strtol(text, NULL, 10) : 1;

	*count = n > 0 && n <= (long)MOST ? (unsigned)n : 1;
	return 0;
}

int
nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle)
{
	if (index >= MOST)
		return 2;
	*handle = &gpus[index];
	return 0;
}

int
nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int room)
{
	(void)snprintf(uuid, room, "GPU-5a3e0000-0000-0000-0000-%012d",
	    (int)((int *)handle - gpus));
	return 0;
}

int
nvmlDeviceGetMemoryInfo(void *handle, unsigned long long memory[3])
{
	(void)handle;
	memory[0] = memory[1] = 16ull << 30;
	memory[2] = 0;
	return 0;
}

int
nvmlDeviceGetName(void *handle, char *name, unsigned int room)
{
	(void)handle;
	(void)snprintf(name, room, "the same GPU");
	return 0;
}
