/* rig_cuda.c - the device that espalier-worker passes to a trainable on a GPU, and a gang of one
 * rank on it.
 */
#include <stdlib.h>
#include <string.h>
#include "comm/device.h"
#include "rig.h"

struct real {
	struct espl__device device;
	struct espl__comm *comm;
};

const char *
rig_open(struct rig *r)
{
	static struct espl__diag diag;
	struct espl__comm_setup alone = { .world = 1, .node_world = 1, .listen_fd = -1 };
	struct real *real = calloc(1, sizeof *real);

	memset(r, 0, sizeof *r);
	if (real == NULL)
		return "out of memory";
	real->device.view.packing = real->device.view.threads = 1;
	if (espl__device_open("cuda", &real->device, &diag) != ESPL_OK ||
	    real->device.ops->connect(&real->device, &alone, &real->comm, &diag) != ESPL_OK) {
		espl__device_close(&real->device);
		free(real);
		return diag.text;
	}
	r->device = real->device.view;
	r->comm = &real->comm->view;
	r->state = real;
	return NULL;
}

void
rig_close(struct rig *r)
{
	struct real *real = r->state;

	espl__comm_finish(real->comm);
	espl__device_close(&real->device);
	free(real);
}

int
rig_to_host(struct rig *r, void *to, const void *from, uint64_t bytes)
{
	struct real *real = r->state;

	return real->device.ops->to_host(&real->device, to, from, bytes, ESPL_CUDA) == ESPL_OK ? 0
											       : -1;
}
