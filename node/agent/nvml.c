/* nvml.c - the few NVML calls needed to list and inspect GPUs. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/nvml.h"

/* As in nvml.h: handles are pointers, results are int with 0 for success. */
typedef struct nvml_device *nvml_handle;
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml_pci {
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char bus_id[32];
};
/* nvmlProcessInfo_v2_t */
struct nvml_user {
	unsigned int pid;
	unsigned long long bytes; /* all ones: not known */
	unsigned int gpu_instance, compute_instance;
};
#define NVML_TOO_SMALL 7
#define USERS_MAX 4096u

struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *);
	int (*handle)(unsigned int, nvml_handle *);
	int (*uuid)(nvml_handle, char *, unsigned int);
	int (*memory)(nvml_handle, struct nvml_memory *);
	/* may be missing */
	int (*name)(nvml_handle, char *, unsigned int);
	int (*pci)(nvml_handle, struct nvml_pci *);
	int (*by_uuid)(const char *, nvml_handle *);
	int (*users)(nvml_handle, unsigned int *, struct nvml_user *);
};

static int
load_functions(void *library, struct nvml *n)
{
	const struct {
		const char *name;
		void *to;
	} wanted[] = {
		{ "nvmlInit_v2", &n->init },
		{ "nvmlShutdown", &n->shutdown },
		{ "nvmlDeviceGetCount_v2", &n->count },
		{ "nvmlDeviceGetHandleByIndex_v2", &n->handle },
		{ "nvmlDeviceGetUUID", &n->uuid },
		{ "nvmlDeviceGetMemoryInfo", &n->memory },
	}, extra[] = {
		{ "nvmlDeviceGetName", &n->name },
		{ "nvmlDeviceGetPciInfo_v3", &n->pci },
		{ "nvmlDeviceGetHandleByUUID", &n->by_uuid },
		{ "nvmlDeviceGetComputeRunningProcesses_v3", &n->users },
	};

	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		void *symbol = dlsym(library, wanted[i].name);

		if (symbol == NULL)
			return -1;
		memcpy(wanted[i].to, &symbol, sizeof symbol);
	}
	for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++) {
		void *symbol = dlsym(library, extra[i].name);

		memcpy(extra[i].to, &symbol, sizeof symbol);
	}
	return 0;
}

struct found {
	struct espl__nvml_gpu gpu;
	char bus[32];
};

static int
by_bus(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->bus, ((const struct found *)b)->bus);
}

/* Those that answer; a GPU that has fallen off the bus is left out. */
static uint32_t
ask_gpus(const struct nvml *n, struct found *found, uint32_t count)
{
	uint32_t good = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct found *f = &found[good];
		struct nvml_memory memory = { 0, 0, 0 };
		struct nvml_pci pci;
		nvml_handle device;

		memset(f, 0, sizeof *f);
		if (n->handle(i, &device) != 0 ||
		    n->uuid(device, f->gpu.uuid, (unsigned)sizeof f->gpu.uuid) != 0)
			continue;
		f->gpu.uuid[sizeof f->gpu.uuid - 1] = '\0';
		if (f->gpu.uuid[0] == '\0' || strchr(f->gpu.uuid, ',') != NULL)
			continue;
		f->gpu.index = i;
		if (n->name == NULL || n->name(device, f->gpu.type, sizeof f->gpu.type - 1) != 0 ||
		    f->gpu.type[0] == '\0')
			memcpy(f->gpu.type, "gpu", sizeof "gpu");
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

/* The library, started.  NULL with *why. */
static void *
start_library(struct nvml *n, const char **why)
{
	const char *name = getenv("ESPALIER_NVML");
	int given = name != NULL && name[0] != '\0';
	void *library = dlopen(given ? name : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	*why = "";
	if (library == NULL) {
		*why = given ? "cannot open the library named by ESPALIER_NVML" : NULL;
		return NULL;
	}
	if (load_functions(library, n) != 0)
		*why = "the NVIDIA management library lacks a required function";
	else if (n->init() != 0)
		*why = "cannot initialize the NVIDIA management library (is the driver loaded?)";
	else
		return library;
	(void)dlclose(library);
	return NULL;
}

uint32_t
espl__nvml_list(struct espl__nvml_gpu *gpus, uint32_t room, const char **why)
{
	struct nvml n;
	struct found *found = NULL;
	unsigned int count = 0;
	uint32_t good = 0;
	void *library = start_library(&n, why);

	if (library == NULL)
		return 0;
	if (n.count(&count) != 0)
		*why = "the NVIDIA management library cannot count the GPUs";
	else if (count > 0 && count <= ESPL__GPUS_MAX)
		found = calloc(count, sizeof *found);
	if (found != NULL)
		good = ask_gpus(&n, found, count);
	if (good > room)
		good = room;
	for (uint32_t i = 0; i < good; i++)
		gpus[i] = found[i].gpu;
	free(found);
	(void)n.shutdown();
	(void)dlclose(library);
	return good;
}

/* ---- one GPU, again and again ------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvml kept; /* under the lock until it is open, then only read */
static void *kept_library;

static int
keep_open(const char **why)
{
	int open;

	(void)pthread_mutex_lock(&lock);
	if (kept_library == NULL)
		kept_library = start_library(&kept, why);
	open = kept_library != NULL;
	(void)pthread_mutex_unlock(&lock);
	if (!open && *why == NULL)
		*why = "the NVIDIA management library is not available";
	return open ? 0 : -1;
}

void
espl__nvml_close(void)
{
	(void)pthread_mutex_lock(&lock);
	if (kept_library != NULL) {
		(void)kept.shutdown();
		(void)dlclose(kept_library);
	}
	kept_library = NULL;
	(void)pthread_mutex_unlock(&lock);
}

static int
find_device(const char *uuid, nvml_handle *to)
{
	char text[ESPL__UUID_ROOM];
	unsigned int count = 0;

	if (kept.by_uuid != NULL)
		return kept.by_uuid(uuid, to) == 0 ? 0 : -1;
	if (kept.count(&count) != 0)
		return -1;
	for (unsigned int i = 0; i < count; i++)
		if (kept.handle(i, to) == 0 && kept.uuid(*to, text, (unsigned)sizeof text) == 0 &&
		    strncmp(text, uuid, sizeof text) == 0)
			return 0;
	return -1;
}

/* It may rise between the call that says how many there are and the next. */
static int
list_users(nvml_handle device, struct espl__gpu_look *l)
{
	struct nvml_user *list = NULL;
	unsigned int room = 32, count = 0;
	int got = NVML_TOO_SMALL;

	if (kept.users == NULL)
		return -1;
	while (got == NVML_TOO_SMALL && room <= USERS_MAX) {
		free(list);
		list = calloc(room, sizeof *list);
		if (list == NULL)
			return -1;
		count = room;
		got = kept.users(device, &count, list);
		if (got == NVML_TOO_SMALL)
			room = (count > room ? count : room) + 32;
	}
	l->users = got == 0 ? calloc((size_t)count + 1, sizeof *l->users) : NULL;
	for (unsigned int i = 0; l->users != NULL && i < count; i++)
		l->users[l->count++] = (struct espl__gpu_user){ (int64_t)list[i].pid,
			list[i].bytes == ~0ull ? ESPL__BYTES_UNKNOWN : list[i].bytes };
	free(list);
	return l->users != NULL ? 0 : -1;
}

int
espl__nvml_look(const char *uuid, struct espl__gpu_look *l, const char **why)
{
	struct nvml_memory memory = { 0, 0, 0 };
	nvml_handle device;

	memset(l, 0, sizeof *l);
	if (keep_open(why) != 0)
		return -1;
	if (find_device(uuid, &device) != 0) {
		*why = "the NVIDIA management library does not find it";
		return -1;
	}
	if (kept.memory(device, &memory) != 0) {
		*why = "the NVIDIA management library does not report memory use";
		return -1;
	}
	l->total = memory.total;
	l->used = memory.used;
	l->users_known = list_users(device, l) == 0;
	return 0;
}
