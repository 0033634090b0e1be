/* emulate_device.c - a device module for espalier-worker whose GPU is emulated, so that whole runs
 * of fashion_cuda, including gangs, resizes and losses, are tested on machines without a GPU.
 *
 * Its communicator is the CPU's. A sum is queued in the stream, or in the graph that the trainable
 * captures; the emulated runtime (emulate.cc) stores in the stream where to queue it. Direct calls
 * of the ranks start when the stream is done, since they use the same communicator.
 */
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "emulate_stream.h"
#include "comm/device.h"

struct gang {
	struct espl__comm base;
	struct espl__comm *host;
	espl_status failed;
};
struct sum {
	struct gang *gang;
	const void *in;
	void *out;
	uint64_t count;
	espl_dtype type;
	espl_reduce how;
};

static struct emulate_stream stream;

static void
finish_stream(void)
{
	if (stream.finish != NULL)
		stream.finish();
}

static void
sum_now(void *data)
{
	const struct sum *s = data;
	struct gang *g = s->gang;
	espl_status status =
	    g->host->view.allreduce(&g->host->view, s->in, s->out, s->count, s->type, s->how);

	if (status != ESPL_OK)
		g->failed = status;
}

static espl_status
allreduce(const struct espl_comm *view, const void *in, void *out, uint64_t count, espl_dtype type,
    espl_reduce how)
{
	struct sum s = { view->ctx, in, out, count, type, how };

	if (stream.queue != NULL) {
		stream.queue(sum_now, &s, sizeof s);
		return ESPL_OK;
	}
	sum_now(&s);
	return s.gang->failed;
}

static espl_status
broadcast(const struct espl_comm *view, void *data, uint64_t count, espl_dtype type, uint32_t root)
{
	const struct gang *g = view->ctx;

	finish_stream();
	return g->host->view.broadcast(&g->host->view, data, count, type, root);
}

static espl_status
barrier(const struct espl_comm *view)
{
	const struct gang *g = view->ctx;

	finish_stream();
	return g->host->view.barrier(&g->host->view);
}

static espl_status
wait_for(const struct espl_comm *view)
{
	finish_stream();
	return ((const struct gang *)view->ctx)->failed;
}

static espl_status
reduce_host(const struct espl_comm *view, double *values, uint32_t count, espl_reduce how)
{
	const struct gang *g = view->ctx;

	finish_stream();
	return g->host->view.reduce_host(&g->host->view, values, count, how);
}

static espl_status
tell(struct espl__comm *base, void *data, uint64_t bytes, uint32_t root)
{
	finish_stream();
	return espl__comm_send_all(((struct gang *)base)->host, data, bytes, root);
}

static void
finish(struct espl__comm *base)
{
	finish_stream();
	espl__comm_finish(((struct gang *)base)->host);
	free(base);
}

static espl_status
open_device(struct espl__device *d, struct espl__diag *diag)
{
	(void)diag;
	d->view.kind = ESPL_CUDA;
	d->view.stream = &stream;
	d->view.uuid = "GPU-emulated";
	return ESPL_OK;
}

static void
close_device(struct espl__device *d)
{
	(void)d;
}

static espl_status
copy(struct espl__device *d, void *to, const void *from, uint64_t bytes, espl_device_kind where)
{
	(void)d, (void)where;
	finish_stream();
	if (bytes > 0)
		memcpy(to, from, bytes);
	return ESPL_OK;
}

static espl_status
connect_gang(struct espl__device *d, const struct espl__comm_setup *setup, struct espl__comm **to,
    struct espl__diag *diag)
{
	struct espl__comm *host;
	struct gang *g;
	espl_status status = espl__comm_init(setup, &host, diag);

	(void)d;
	*to = NULL;
	if (status != ESPL_OK)
		return status;
	g = espl__alloc(sizeof *g);
	g->base.magic = ESPL__COMM_MAGIC;
	g->host = host;
	g->base.view = host->view;
	g->base.view.ctx = g;
	g->base.view.allreduce = allreduce;
	g->base.view.broadcast = broadcast;
	g->base.view.barrier = barrier;
	g->base.view.wait = wait_for;
	g->base.view.reduce_host = reduce_host;
	g->base.finish = finish;
	g->base.tell = tell;
	g->base.node = setup->node;
	*to = &g->base;
	return ESPL_OK;
}

static const struct espl__device_ops ops = { "cuda", open_device, close_device, copy, copy,
	connect_gang };

ESPL_EXPORT const struct espl__device_module espl__device_module = { ESPL__DEVICE_MODULE, &ops };
