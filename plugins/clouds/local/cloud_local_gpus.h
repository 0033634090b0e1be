/* cloud_local_gpus.h - the GPUs and cores of this machine. */
#ifndef CLOUD_LOCAL_GPUS_H
#define CLOUD_LOCAL_GPUS_H
#include <espalier/abi.h>

#include "agent/nvml.h"

/* Those that CUDA_VISIBLE_DEVICES lets us see.  *list: malloc'd; where *count is 0, *why says why.
 */
espl_status local_gpus(struct espl__nvml_gpu **list, uint32_t *count, const char **why);
uint32_t local_cores(void); /* those that this process may use; at least 1 */
#endif
