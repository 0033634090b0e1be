/* device.c - the CPU as a device, and the choice among those there are. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "comm/device.h"

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

const struct espl__device_ops espl__device_cpu = { "cpu", cpu_open, cpu_close, cpu_copy, cpu_copy,
	cpu_connect };

/* The module stays loaded until exit: resources of its libraries must not be released before. */
static const struct espl__device_module *
load_module(const char *name, struct espl__diag *diag)
{
	const char *libexec = secure_getenv("ESPALIER_LIBEXEC"), *why = NULL;
	char *paths[2] = { libexec != NULL
		    ? espl__format("%s/.libs/espl_device_%s.so", libexec, name)
		    : NULL,
		espl__format(PKGLIBDIR "/espl_device_%s.so", name) };
	void *module = NULL;
	const struct espl__device_module *found = NULL;

	for (int i = 0; i < 2 && module == NULL; i++) {
		if (paths[i] == NULL)
			continue;
		module = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
		if (module == NULL)
			why = dlerror();
	}
	if (module == NULL) {
		(void)espl__fail(diag, ESPL_E_UNSUPPORTED, "cannot load device '%s': %s", name,
		    why);
		espl__hint(diag,
		    "it is only built if configure finds CUDA and NCCL, and needs their libraries "
		    "at run time");
	} else if ((found = dlsym(module, "espl__device_module")) == NULL ||
	    found->version != ESPL__DEVICE_MODULE) {
		(void)espl__fail(diag, ESPL_E_UNSUPPORTED,
		    "the module of device '%s' belongs to another version of espalier", name);
	}
	free(paths[0]);
	free(paths[1]);
	return found != NULL && found->version == ESPL__DEVICE_MODULE ? found : NULL;
}

espl_status
espl__device_open(const char *name, struct espl__device *d, struct espl__diag *diag)
{
	const struct espl__device_module *module;

	ESPL__ASSERT(d->ops == NULL);
	d->view.size = sizeof d->view;
	if (strcmp(name, espl__device_cpu.name) == 0) {
		d->ops = &espl__device_cpu;
	} else {
		module = load_module(name, diag);
		if (module == NULL)
			return ESPL_E_UNSUPPORTED;
		d->ops = module->ops;
	}
	return d->ops->open(d, diag);
}

void
espl__device_close(struct espl__device *d)
{
	if (d->ops != NULL)
		d->ops->close(d);
	d->ops = NULL;
}
