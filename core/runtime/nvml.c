/* nvml.c - the six calls of NVML that listing GPUs takes. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/nvml.h"

/* As in nvml.h: handles are pointers, results are int with 0 for success. */
typedef struct nvml_device *nvml_handle;
struct nvml_memory { unsigned long long total, free, used; };
struct nvml_pci {
	char         legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char         bus_id[32];
};
struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *);
	int (*handle)(unsigned int, nvml_handle *);
	int (*uuid)(nvml_handle, char *, unsigned int);
	int (*memory)(nvml_handle, struct nvml_memory *);
	int (*pci)(nvml_handle, struct nvml_pci *);
};

static int
load(void *library, struct nvml *n)
{
	const struct { const char *name; void *to; } wanted[] = {
		{ "nvmlInit_v2", &n->init },
		{ "nvmlShutdown", &n->shutdown },
		{ "nvmlDeviceGetCount_v2", &n->count },
		{ "nvmlDeviceGetHandleByIndex_v2", &n->handle },
		{ "nvmlDeviceGetUUID", &n->uuid },
		{ "nvmlDeviceGetMemoryInfo", &n->memory },
	};

	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		void *symbol = dlsym(library, wanted[i].name);

		if (symbol == NULL)
			return -1;
		memcpy(wanted[i].to, &symbol, sizeof symbol);
	}
	{
		void *symbol = dlsym(library, "nvmlDeviceGetPciInfo_v3");

		memcpy(&n->pci, &symbol, sizeof symbol);
	}
	return 0;
}

struct found { struct espl__gpu gpu; char bus[32]; };

static int
by_bus(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->bus, ((const struct found *)b)->bus);
}

/* Those that answer; a GPU that has fallen off the bus is left out. */
static uint32_t
ask(const struct nvml *n, struct found *found, uint32_t count)
{
	uint32_t good = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct found      *f = &found[good];
		struct nvml_memory memory = { 0, 0, 0 };
		struct nvml_pci    pci;
		nvml_handle        device;

		memset(f, 0, sizeof *f);
		if (n->handle(i, &device) != 0
		    || n->uuid(device, f->gpu.uuid, (unsigned)sizeof f->gpu.uuid) != 0)
			continue;
		f->gpu.uuid[sizeof f->gpu.uuid - 1] = '\0';
		if (f->gpu.uuid[0] == '\0' || strchr(f->gpu.uuid, ',') != NULL)
			continue;
		if (n->memory(device, &memory) == 0)
			f->gpu.memory_bytes = memory.total;
		memset(&pci, 0, sizeof pci);
		if (n->pci != NULL && n->pci(device, &pci) == 0) {
			memcpy(f->bus, pci.bus_id, sizeof f->bus - 1);
			f->bus[sizeof f->bus - 1] = '\0';
		}
		good++;
	}
	if (n->pci != NULL && good > 1)
		qsort(found, good, sizeof *found, by_bus);
	return good;
}

uint32_t
espl__nvml_list(struct espl__gpu *gpus, uint32_t room, const char **why)
{
	const char   *name = getenv("ESPALIER_NVML");
	struct nvml   n;
	struct found *found = NULL;
	unsigned int  count = 0;
	uint32_t      good = 0;
	void         *library;

	*why = "";
	library = dlopen(name != NULL && name[0] != '\0' ? name : "libnvidia-ml.so.1",
	    RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		if (name != NULL && name[0] != '\0')
			*why = "the library named by ESPALIER_NVML cannot be opened";
		return 0;
	}
	if (load(library, &n) != 0) {
		*why = "NVIDIA's management library lacks a function that is needed";
	} else if (n.init() != 0) {
		*why = "NVIDIA's management library does not start: is the driver loaded?";
	} else {
		if (n.count(&count) != 0)
			*why = "NVIDIA's management library does not count the GPUs";
		else if (count > 0 && count <= 4096)
			found = calloc(count, sizeof *found);
		if (found != NULL)
			good = ask(&n, found, count);
		if (good > room)
			good = room;
		for (uint32_t i = 0; i < good; i++)
			gpus[i] = found[i].gpu;
		free(found);
		(void)n.shutdown();
	}
	(void)dlclose(library);
	return good;
}
