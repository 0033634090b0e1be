/* fake_nvml.c - a management library with NVML's calls, whose GPUs are lines of the file FAKE_NVML:
 *
 *   gpu UUID TOTAL USED [BUS]   in MiB; USED by no listed process; BUS "lost": it does not answer
 *   process UUID PID MIB        PID a number, or @FILE that holds one; MIB may be ?: not known
 *   old                         a library from before processes could be listed
 *   broken                      it does not start
 *
 * The file is read again at every call.  A process that is dead is on no GPU and uses nothing.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX 64
#define MIB (1ull << 20)

struct user {
	unsigned int pid;
	unsigned long long bytes;
	unsigned int gpu_instance, compute_instance;
};
struct gpu {
	char uuid[96], bus[32];
	unsigned long long total, used;
	struct user users[MAX];
	unsigned int count;
};
struct machine {
	struct gpu gpus[8];
	unsigned int count;
	int old, broken;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle);
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle);
EXPORT int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int room);
EXPORT int nvmlDeviceGetName(void *handle, char *name, unsigned int room);
EXPORT int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long memory[3]);
EXPORT int nvmlDeviceGetPciInfo_v3(void *handle, char *pci);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count,
    struct user *list);

static char handles[8]; /* a handle is the address of the GPU's place here */

static struct gpu *
find(struct machine *m, const char *uuid)
{
	for (unsigned int i = 0; i < m->count; i++)
		if (strcmp(m->gpus[i].uuid, uuid) == 0)
			return &m->gpus[i];
	return NULL;
}

static long
pid_of(const char *word)
{
	long pid = 0;
	FILE *f;

	if (word[0] != '@')
		return strtol(word, NULL, 10);
	f = fopen(word + 1, "r");
	if (f != NULL && fscanf(f, "%ld", &pid) != 1)
		pid = 0;
	if (f != NULL)
		fclose(f);
	return pid;
}

static void
add_user(struct gpu *g, const char *pid_word, const char *mib)
{
	long pid = pid_of(pid_word);
	int known = mib[0] != '?';

	if (g == NULL || g->count == MAX || pid <= 0 || kill((pid_t)pid, 0) != 0)
		return;
	g->users[g->count].pid = (unsigned int)pid;
	g->users[g->count++].bytes = known ? strtoull(mib, NULL, 10) * MIB : ~0ull;
	/* "?100": so much, but not told */
	g->used += strtoull(known ? mib : mib + 1, NULL, 10) * MIB;
}

static struct machine *
look(void)
{
	static _Thread_local struct machine m;
	const char *name = getenv("FAKE_NVML");
	FILE *f = name != NULL ? fopen(name, "r") : NULL;
	char line[512], a[96], b[256], c[96], d[32];

	memset(&m, 0, sizeof m);
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		int n;

		strcpy(d, "00");
		n = sscanf(line, "gpu %95s %255s %95s %31s", a, b, c, d);
		if (n >= 3 && m.count < 8) {
			struct gpu *g = &m.gpus[m.count++];

			snprintf(g->uuid, sizeof g->uuid, "%s", a);
			snprintf(g->bus, sizeof g->bus, "%s", d);
			g->total = strtoull(b, NULL, 10) * MIB;
			g->used += strtoull(c, NULL, 10) * MIB;
		} else if (sscanf(line, "process %95s %255s %95s", a, b, c) == 3) {
			add_user(find(&m, a), b, c);
		}
		m.old |= strncmp(line, "old", 3) == 0;
		m.broken |= strncmp(line, "broken", 6) == 0;
	}
	if (f != NULL)
		fclose(f);
	return &m;
}

/* The GPU behind a handle, NULL if it has gone or is lost. */
static struct gpu *
behind(struct machine *m, void *handle)
{
	size_t i = (size_t)((char *)handle - handles);

	return i < m->count && strcmp(m->gpus[i].bus, "lost") != 0 ? &m->gpus[i] : NULL;
}

int
nvmlInit_v2(void)
{
	return look()->broken ? 9 : 0;
}

int
nvmlShutdown(void)
{
	return 0;
}

int
nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = look()->count;
	return 0;
}

int
nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle)
{
	*handle = index < 8 ? &handles[index] : NULL;
	return *handle != NULL && behind(look(), *handle) != NULL ? 0 : 15;
}

int
nvmlDeviceGetHandleByUUID(const char *uuid, void **handle)
{
	struct machine *m = look();
	struct gpu *g = find(m, uuid);

	*handle = g != NULL ? &handles[g - m->gpus] : NULL;
	return g != NULL ? 0 : 6;
}

int
nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int room)
{
	struct gpu *g = behind(look(), handle);

	if (g != NULL)
		snprintf(uuid, room, "%s", g->uuid);
	return g != NULL ? 0 : 15;
}

int
nvmlDeviceGetName(void *handle, char *name, unsigned int room)
{
	(void)handle;
	snprintf(name, room, "Fake GPU");
	return 0;
}

int
nvmlDeviceGetMemoryInfo(void *handle, unsigned long long memory[3])
{
	struct gpu *g = behind(look(), handle);

	if (g == NULL)
		return 15;
	memory[0] = g->total;
	memory[1] = g->total - g->used;
	memory[2] = g->used;
	return 0;
}

int
nvmlDeviceGetPciInfo_v3(void *handle, char *pci)
{
	struct gpu *g = behind(look(), handle);

	if (g != NULL)
		snprintf(pci + 36, 32, "00000000:%s:00.0", g->bus);
	return g != NULL ? 0 : 15;
}

int
nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, struct user *list)
{
	struct machine *m = look();
	struct gpu *g = behind(m, handle);
	unsigned int room = *count;

	if (g == NULL || m->old)
		return m->old ? 3 : 15;
	*count = g->count;
	if (g->count > room)
		return 7;
	memcpy(list, g->users, g->count * sizeof *list);
	return 0;
}
