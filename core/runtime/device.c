/* device.c - the CPU as a device, and the choice among those there are. */
#include <string.h>

#include "runtime/device.h"

static espl_status
cpu_open(struct espl__device *d, struct espl__diag *diag)
{
	(void)diag;
	d->view.kind = ESPL_CPU;
	d->view.uuid = "";
	return ESPL_OK;
}

static void
cpu_close(struct espl__device *d)
{
	(void)d;
}

static espl_status
cpu_copy(struct espl__device *d, void *to, const void *from, uint64_t bytes, espl_device_kind where)
{
	(void)d;
	if (where != ESPL_CPU)
		return ESPL_E_UNSUPPORTED;
	if (bytes > 0)
		memcpy(to, from, bytes);
	return ESPL_OK;
}

static espl_status
cpu_connect(struct espl__device *d, const struct espl__comm_setup *setup, struct espl__comm **to,
            struct espl__diag *diag)
{
	(void)d;
	return espl__comm_init(setup, to, diag);
}

const struct espl__device_ops espl__device_cpu = {
	"cpu", cpu_open, cpu_close, cpu_copy, cpu_copy, cpu_connect
};

espl_status
espl__device_open(const char *name, struct espl__device *d, struct espl__diag *diag)
{
	d->view.size = sizeof d->view;
	if (strcmp(name, espl__device_cpu.name) == 0)
		d->ops = &espl__device_cpu;
	else
		return espl__fail(diag, ESPL_E_UNSUPPORTED, "this build has no device '%s'", name);
	return d->ops->open(d, diag);
}

void
espl__device_close(struct espl__device *d)
{
	if (d->ops != NULL)
		d->ops->close(d);
	d->ops = NULL;
}
