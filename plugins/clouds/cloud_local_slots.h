/* cloud_local_slots.h - which slots of this machine are ours: a lock for each, that all runs here respect.
 *
 * A slot is a GPU (by its UUID) or a CPU slot (by its number).  Its lock is a file in /run/lock (or /tmp; the
 * folder that ESPALIER_SLOTS names; none where that is empty), locked while we live and naming the holder.
 * It keeps runs from using the same slot unawares; it is no protection against other users.
 */
#ifndef CLOUD_LOCAL_SLOTS_H
#define CLOUD_LOCAL_SLOTS_H
#include <stdint.h>

#define SLOT_HOLDER 240

/* A descriptor that holds the slot until it is closed; -1: another run has it, and `holder` says which;
 * -2: there are no locks here, and the slot is free for all. */
int local_slot_take(const char *slot, char holder[SLOT_HOLDER]);
#endif
