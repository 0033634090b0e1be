/* try_cloud.h - see try_cloud.c. */
#ifndef ESPL__TRY_CLOUD_H
#define ESPL__TRY_CLOUD_H
#include "base/diag.h"
#include "config/run.h"

/* Starts the cloud, which finds its machines and logs what it finds, and ends it again; leases
 * nothing.  Clouds without I/O have nothing to try. */
espl_status espl__try_cloud(const struct espl__run_config *, struct espl__diag *);
#endif
