/* lone_trial.h - a trial of a trainable in this process, as the only rank: its communicator, and
 * its state as bytes.  For simulation and check-plugin.
 */
#ifndef ESPL__LONE_TRIAL_H
#define ESPL__LONE_TRIAL_H
#include <espalier/trainable.h>
#include "base/buf.h"

void espl__lone_comm_init(struct espl_comm *);
/* The state by the trainable's save and load, or by its regions.  left: bytes that were not read.
 */
espl_status espl__lone_save(const struct espl_trainable_ops *, void *trial, struct espl__buf *,
    struct espl_error *);
espl_status espl__lone_load(const struct espl_trainable_ops *, void *trial, const void *,
    size_t size, size_t *left, struct espl_error *);
#endif
