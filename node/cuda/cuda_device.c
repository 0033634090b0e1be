/* cuda_device.c - a GPU as a device of a rank: chosen, given a stream, and copied to and from.
 *
 * The module has one symbol, which comm/device.c looks up.  Errors name the GPU and the call, and
 * quote CUDA's message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cuda/cuda.h"

void
espl__cuda_nap(int64_t *pause)
{
	struct timespec span = { 0, 0 };

	*pause = *pause == 0 ? 1000 : *pause < 1000000 ? *pause * 2 : 1000000;
	span.tv_nsec = (long)*pause;
	(void)nanosleep(&span, NULL);
}

static espl_status
fail_cuda(struct espl__diag *diag, const struct espl__device *d, cudaError_t error,
    const char *call)
{
	return espl__fail(diag, error == cudaErrorMemoryAllocation ? ESPL_E_NOMEM : ESPL_E_REMOTE,
	    "GPU %u: %s: %s (%s)", (unsigned)d->view.ordinal, call, cudaGetErrorString(error),
	    cudaGetErrorName(error));
}

static void
format_uuid(const cudaUUID_t *uuid, char to[48])
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	(void)snprintf(to, 48,
	    "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
	    b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
	    b[15]);
}

static espl_status
choose_gpu(const struct espl__device *d, struct espl__cuda *c, struct espl__diag *diag)
{
	struct cudaDeviceProp about;
	int count = 0;
	cudaError_t error = cudaGetDeviceCount(&count);

	if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice ||
	    (error == cudaSuccess && count == 0))
		return espl__fail(diag, ESPL_E_UNSUPPORTED, "no GPU is visible to this process: %s",
		    error == cudaSuccess ? "CUDA_VISIBLE_DEVICES is empty"
					 : cudaGetErrorString(error));
	if (error != cudaSuccess)
		return fail_cuda(diag, d, error, "cudaGetDeviceCount");
	if (d->view.ordinal >= (uint32_t)count)
		return espl__fail(diag, ESPL_E_UNSUPPORTED,
		    "GPU %u was requested, but only %d are visible to this process",
		    (unsigned)d->view.ordinal, count);
	c->ordinal = (int)d->view.ordinal;
	error = cudaSetDevice(c->ordinal);
	if (error != cudaSuccess)
		return fail_cuda(diag, d, error, "cudaSetDevice");
	error = cudaGetDeviceProperties(&about, c->ordinal);
	if (error != cudaSuccess)
		return fail_cuda(diag, d, error, "cudaGetDeviceProperties");
	format_uuid(&about.uuid, c->uuid);
	error = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
	return error == cudaSuccess ? ESPL_OK
				    : fail_cuda(diag, d, error, "cudaStreamCreateWithFlags");
}

static espl_status
cuda_open(struct espl__device *d, struct espl__diag *diag)
{
	struct espl__cuda *c = espl__alloc(sizeof *c);
	espl_status status = choose_gpu(d, c, diag);

	if (status != ESPL_OK) {
		free(c);
		return status;
	}
	d->state = c;
	d->view.kind = ESPL_CUDA;
	d->view.stream = c->stream;
	d->view.uuid = c->uuid;
	return ESPL_OK;
}

static void
cuda_close(struct espl__device *d)
{
	struct espl__cuda *c = d->state;

	if (c == NULL)
		return;
	(void)cudaStreamDestroy(c->stream); /* what is on it still is done by the driver */
	d->view.stream = NULL;
	d->state = NULL;
	free(c);
}

/* Copies are short, and nothing on the stream waits for other ranks when they are made: so there is
 * no deadline, but the processor is not kept busy either. */
static espl_status
copy_bytes(struct espl__device *d, void *to, const void *from, uint64_t bytes,
    espl_device_kind where, enum cudaMemcpyKind way)
{
	struct espl__cuda *c = d->state;
	int64_t pause = 0;
	cudaError_t error;

	if (where == ESPL_CPU) {
		if (bytes > 0)
			memcpy(to, from, bytes);
		return ESPL_OK;
	}
	if (where != ESPL_CUDA)
		return ESPL_E_UNSUPPORTED;
	error = cudaMemcpyAsync(to, from, bytes, way, c->stream);
	while (error == cudaSuccess && (error = cudaStreamQuery(c->stream)) == cudaErrorNotReady) {
		espl__cuda_nap(&pause);
		error = cudaSuccess;
	}
	return error == cudaSuccess              ? ESPL_OK
	    : error == cudaErrorMemoryAllocation ? ESPL_E_NOMEM
						 : ESPL_E_REMOTE;
}

static espl_status
cuda_to_host(struct espl__device *d, void *to, const void *from, uint64_t bytes,
    espl_device_kind where)
{
	return copy_bytes(d, to, from, bytes, where, cudaMemcpyDeviceToHost);
}

static espl_status
cuda_from_host(struct espl__device *d, void *to, const void *from, uint64_t bytes,
    espl_device_kind where)
{
	return copy_bytes(d, to, from, bytes, where, cudaMemcpyHostToDevice);
}

static const struct espl__device_ops ops = { "cuda", cuda_open, cuda_close, cuda_to_host,
	cuda_from_host, espl__cuda_connect };

ESPL_EXPORT const struct espl__device_module espl__device_module = { ESPL__DEVICE_MODULE, &ops };
