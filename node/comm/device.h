/* device.h - what a rank computes on, behind one small interface.
 *
 * The CPU is built in; a device of another kind comes as a module that fills the same struct
 * (its communicator by `connect`), so that the worker itself links nothing of it.
 */
#ifndef ESPL__DEVICE_H
#define ESPL__DEVICE_H
#include <espalier/trainable.h>
#include "base/diag.h"
#include "comm/comm.h"

struct espl__device;
struct espl__device_ops {
	const char *name; /* "cpu", "cuda": value of ESPALIER_DEVICE */
	espl_status (*open)(struct espl__device *,
	    struct espl__diag *); /* view is filled but stream, uuid */
	void (*close)(struct espl__device *);
	/* Between memory `where` says and the host's. */
	espl_status (*to_host)(struct espl__device *, void *to, const void *from, uint64_t bytes,
	    espl_device_kind where);
	espl_status (*from_host)(struct espl__device *, void *to, const void *from, uint64_t bytes,
	    espl_device_kind where);
	espl_status (*connect)(struct espl__device *, const struct espl__comm_setup *,
	    struct espl__comm **, struct espl__diag *);
};
struct espl__device {
	struct espl_device view; /* as the trainable sees it */
	const struct espl__device_ops *ops;
	void *state;
};
extern const struct espl__device_ops espl__device_cpu;

/* What a module (espl_device_NAME.so) has as `espl__device_module`; made with this core and no
 * other. */
#define ESPL__DEVICE_MODULE 1u
struct espl__device_module {
	uint32_t version;
	const struct espl__device_ops *ops;
};
extern const struct espl__device_module espl__device_module;

/* Of another device than the CPU the module is loaded, from ESPALIER_LIBEXEC's directory .libs (a
 * build tree) or where it is installed.  E_UNSUPPORTED: there is none, or it finds nothing to
 * compute on. ordinal, packing and threads of `view` are the caller's to fill before. */
espl_status espl__device_open(const char *name, struct espl__device *, struct espl__diag *);
void espl__device_close(struct espl__device *); /* fine if it never was open */
#endif
