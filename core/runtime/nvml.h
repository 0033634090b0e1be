/* nvml.h - the GPUs of this machine by their UUIDs, asked of NVIDIA's library if there is one.
 *
 * The library is opened at run time (libnvidia-ml.so.1, or what ESPALIER_NVML names) with
 * prototypes of our own, so that nothing of NVIDIA's is needed to build or to run without GPUs.
 */
#ifndef ESPL__NVML_H
#define ESPL__NVML_H
#include <stdint.h>

#define ESPL__UUID_ROOM 96
struct espl__gpu { char uuid[ESPL__UUID_ROOM]; uint64_t memory_bytes; };	/* memory 0: unknown */

/* Fills at most `room`, in PCI bus order.  How many there are; 0 with *why (static text, "" if
 * there simply is no library) when there are none or they cannot be listed. */
uint32_t espl__nvml_list(struct espl__gpu *, uint32_t room, const char **why);
#endif
