/* cloud_local_slots.h - which slots of this machine are ours: a lock for each, that all runs here
 * respect.
 *
 * A slot is a GPU (by its UUID) or a CPU slot (by its number).  Its lock is a file in /run/lock (or
 * /tmp; the folder that ESPALIER_SLOTS names; none where that is empty), locked while we live and
 * naming the holder, for all to read: process, user and the run's folder, but nothing of the
 * command line, where secrets may be. It keeps runs from using the same slot unawares; it is no
 * protection against other users.
 */
#ifndef CLOUD_LOCAL_SLOTS_H
#define CLOUD_LOCAL_SLOTS_H
#include <stdint.h>
#include <espalier/abi.h>
#include "agent/nvml.h"

#define SLOT_HOLDER 240

/* What other runs read of this one; folder: NULL where there is none. */
void local_slots_name(char name[SLOT_HOLDER], const char *folder);
/* A descriptor that holds the slot until it is given back; -1: another run has it, and `holder`
 * says which; -2: there is no lock, the slot is free for all, and `holder` says why; "" where that
 * is wanted. */
int local_slot_take(const char *slot, const char *name, char holder[SLOT_HOLDER]);
void local_slot_give(int lock); /* below 0: nothing is to be done */

/* ---- GPUs and cores -------------------------------------------------------------------------- */

/* The GPUs and cores of this machine. */

/* Those that CUDA_VISIBLE_DEVICES lets us see.  *list: malloc'd; where *count is 0, *why says why.
 */
espl_status local_gpus(struct espl__nvml_gpu **list, uint32_t *count, const char **why);
uint32_t local_cores(void); /* those that this process may use; at least 1 */
#endif
