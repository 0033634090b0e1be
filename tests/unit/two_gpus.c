/* two_gpus.c - a management library with NVML's calls and two GPUs, listed in the wrong order. */
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle);
EXPORT int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int room);
EXPORT int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long memory[3]);
EXPORT int nvmlDeviceGetPciInfo_v3(void *handle, char *pci);

static int gpus[3];

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
	*count = 3;
	return 0;
}

int
nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle)
{
	*handle = &gpus[index];
	return index == 1 ? 15 : 0;	/* this one has fallen off the bus */
}

int
nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int room)
{
	snprintf(uuid, room, "GPU-%d", (int)((int *)handle - gpus));
	return 0;
}

int
nvmlDeviceGetMemoryInfo(void *handle, unsigned long long memory[3])
{
	(void)handle;
	memory[0] = 80ull << 30;
	memory[1] = memory[2] = 0;
	return 0;
}

int
nvmlDeviceGetPciInfo_v3(void *handle, char *pci)
{
	snprintf(pci + 36, 32, "00000000:%02X:00.0", handle == &gpus[0] ? 9 : 3);
	return 0;
}
