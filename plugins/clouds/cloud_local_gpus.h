/* cloud_local_gpus.h - GPUs are found through NVIDIA's management library, opened at run time;
 * ESPALIER_NVML names another one. */
#ifndef CLOUD_LOCAL_GPUS_H
#define CLOUD_LOCAL_GPUS_H
#include <espalier/abi.h>

#define LOCAL_UUID_ROOM 96
struct local_gpu {
	char uuid[LOCAL_UUID_ROOM];
	char type[96];
	uint64_t memory;
};

/* Those that CUDA_VISIBLE_DEVICES lets us see.  *list: malloc'd; where *count is 0, *why says why.
 */
espl_status local_gpus(struct local_gpu **list, uint32_t *count, const char **why);
uint32_t local_cores(void); /* those that this process may use; at least 1 */
#endif
