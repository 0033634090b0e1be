/* events.h - records of TensorBoard's event files: a record is its length, a checksum of that, a
 * message of protocol buffers and its checksum.
 */
#ifndef ESPL__LISTEN_EVENTS_H
#define ESPL__LISTEN_EVENTS_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Takes one record from `bytes`.  1: *used bytes are it, and its scalars are appended to `to` as
 * {"step": N, "TAG": VALUE, ...} (nothing, if it has none); 0: it is not whole yet; -1: it is none.
 */
int espl__event_json(const uint8_t *bytes, size_t size, size_t *used, struct espl__buf *to);
/* The message alone; 0, or -1: it is damaged. */
int espl__event_scalars(const uint8_t *bytes, size_t size, struct espl__buf *to);
#endif
