/* emulate_stream.h - what an emulated stream points to: where work is put, and what does all that
 * waits.  NULL: nobody has used it yet.
 */
#ifndef EMULATE_STREAM_H
#define EMULATE_STREAM_H
#include <stddef.h>

struct emulate_stream {
	void (*queue)(void (*work)(void *), const void *data, size_t size);
	void (*finish)(void);
};
#endif
