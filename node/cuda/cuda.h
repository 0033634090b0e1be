/* cuda.h - what the files of the CUDA module share.  Nothing outside this directory includes CUDA.
 *
 *   cuda_device.c  one GPU and its stream behind struct espl__device
 *   cuda_comm.c    NCCL behind struct espl__comm
 *
 * Every wait looks at the stream and at the communicator in turn and has a deadline: a stream that
 * waits for a rank that is gone never gets done, and a call that waits for that stream would not
 * return.
 */
#ifndef ESPL__CUDA_H
#define ESPL__CUDA_H
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "comm/device.h"

/* espl__device.state */
struct espl__cuda {
	int ordinal;
	cudaStream_t stream;
	char uuid[48]; /* as NVML writes it */
};

espl_status espl__cuda_connect(struct espl__device *, const struct espl__comm_setup *,
    struct espl__comm **, struct espl__diag *);
/* Lets others run for a moment between two looks; longer the longer it waits.  *pause: 0 at first.
 */
void espl__cuda_nap(int64_t *pause);
#endif
