/* nvml.h - the GPUs of this machine by their UUIDs, asked of NVIDIA's library if there is one.
 *
 * The library is opened at run time (libnvidia-ml.so.1, or what ESPALIER_NVML names) with
 * prototypes of our own, so that nothing of NVIDIA's is needed to build or to run without GPUs.
 * Compiled into the agent and into cloud local.
 */
#ifndef ESPL__NVML_H
#define ESPL__NVML_H
#include <stdint.h>

#define ESPL__UUID_ROOM 96
#define ESPL__GPUS_MAX 4096u
struct espl__nvml_gpu {
	char uuid[ESPL__UUID_ROOM];
	char type[ESPL__UUID_ROOM]; /* "gpu" if it is not told */
	uint64_t memory_bytes;      /* 0: unknown */
	uint32_t index;             /* in the library's order, which CUDA_VISIBLE_DEVICES counts */
};

/* Fills at most `room`, in PCI bus order.  How many there are; 0 with *why (static text, "" if
 * there simply is none, NULL if there is no library) when they cannot be listed. */
uint32_t espl__nvml_list(struct espl__nvml_gpu *, uint32_t room, const char **why);

#define ESPL__BYTES_UNKNOWN UINT64_MAX
struct espl__gpu_user {
	int64_t pid;
	uint64_t bytes;
}; /* bytes may be unknown */
struct espl__gpu_look {
	uint64_t total, used;
	struct espl__gpu_user *users; /* processes that compute there; free() it */
	uint32_t count;
	int users_known; /* 0: this driver does not list them */
};
/* Looks at one GPU.  From any thread; the library stays open from the first look to `close`.  0, or
 * -1 with *why (static text). */
int espl__nvml_look(const char *uuid, struct espl__gpu_look *, const char **why);
void espl__nvml_close(void);
#endif
