/* cloud_local_gpus.c - the GPUs of this machine, by NVML's own prototypes, and its cores. */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_local_gpus.h"

typedef struct local_nvml_device *nvml_device;
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml {
	void *module;
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *);
	int (*handle)(unsigned, nvml_device *);
	int (*uuid)(nvml_device, char *, unsigned);
	int (*memory)(nvml_device, struct nvml_memory *);
	int (*name)(nvml_device, char *, unsigned);
};

static int
nvml_symbol(void *library, const char *name, void *to)
{
	void *symbol = dlsym(library, name);

	memcpy(to, &symbol, sizeof symbol);
	return symbol != NULL ? 0 : -1;
}

/* 0, or -1 with *why. */
static int
nvml_open(struct nvml *nvml, const char **why)
{
	const char *name = getenv("ESPALIER_NVML");
	int given = name != NULL && name[0] != '\0';

	nvml->module = dlopen(given ? name : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (nvml->module == NULL) {
		*why = given ? "the library that ESPALIER_NVML names cannot be opened"
			     : "NVIDIA's driver is not installed";
		return -1;
	}
	if (nvml_symbol(nvml->module, "nvmlInit_v2", &nvml->init) != 0 ||
	    nvml_symbol(nvml->module, "nvmlShutdown", &nvml->shutdown) != 0 ||
	    nvml_symbol(nvml->module, "nvmlDeviceGetCount_v2", &nvml->count) != 0 ||
	    nvml_symbol(nvml->module, "nvmlDeviceGetHandleByIndex_v2", &nvml->handle) != 0 ||
	    nvml_symbol(nvml->module, "nvmlDeviceGetUUID", &nvml->uuid) != 0)
		*why = "NVIDIA's management library lacks a function that is needed";
	else if (nvml->init() != 0)
		*why = "NVIDIA's management library does not start: is the driver loaded?";
	else
		*why = NULL;
	(void)nvml_symbol(nvml->module, "nvmlDeviceGetMemoryInfo", &nvml->memory);
	(void)nvml_symbol(nvml->module, "nvmlDeviceGetName", &nvml->name);
	if (*why == NULL)
		return 0;
	(void)dlclose(nvml->module);
	return -1;
}

/* CUDA_VISIBLE_DEVICES of the user's shell holds for espalier too: numbers or UUIDs. */
static int
visible(const char *uuid, unsigned index)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char number[16];

	if (list == NULL)
		return 1;
	(void)snprintf(number, sizeof number, "%u", index);
	while (*list != '\0') {
		size_t length = strcspn(list, ",");

		if ((length == strlen(number) && strncmp(list, number, length) == 0) ||
		    (length >= 8 && strncmp(list, uuid, length) == 0))
			return 1;
		list += length;
		list += *list == ',';
	}
	return 0;
}

espl_status
local_gpus(struct local_gpu **list, uint32_t *found, const char **why)
{
	struct nvml nvml;
	unsigned i, count = 0;

	memset(&nvml, 0, sizeof nvml);
	if (nvml_open(&nvml, why) != 0)
		return ESPL_OK;
	if (nvml.count(&count) != 0 || count > 4096)
		count = 0;
	*list = calloc(count + 1, sizeof **list);
	for (i = 0; i < count && *list != NULL; i++) {
		struct local_gpu *gpu = &(*list)[*found];
		struct nvml_memory memory = { 0, 0, 0 };
		nvml_device device;

		memset(gpu, 0, sizeof *gpu);
		if (nvml.handle(i, &device) != 0 ||
		    nvml.uuid(device, gpu->uuid, LOCAL_UUID_ROOM - 1) != 0 ||
		    gpu->uuid[0] == '\0' || strchr(gpu->uuid, ',') != NULL ||
		    !visible(gpu->uuid, i))
			continue;
		if (nvml.memory != NULL && nvml.memory(device, &memory) == 0)
			gpu->memory = memory.total;
		if (nvml.name == NULL || nvml.name(device, gpu->type, sizeof gpu->type - 1) != 0 ||
		    gpu->type[0] == '\0')
			(void)snprintf(gpu->type, sizeof gpu->type, "gpu");
		(*found)++;
	}
	(void)nvml.shutdown();
	(void)dlclose(nvml.module);
	*why = "NVIDIA's management library finds none";
	return *list != NULL ? ESPL_OK : ESPL_E_NOMEM;
}

uint32_t
local_cores(void)
{
	cpu_set_t *set = CPU_ALLOC(4096);
	size_t size = CPU_ALLOC_SIZE(4096);
	int count = 0;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (set != NULL && sched_getaffinity(0, size, set) == 0)
		count = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	if (count <= 0)
		count = online > 0 ? (int)online : 1;
	return (uint32_t)count;
}
