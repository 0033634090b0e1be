/* emulate_stream.h - what an emulated stream points to: the place to queue work, and a function
 * that executes the queue. NULL: the stream has not been used yet.
 */
#ifndef EMULATE_STREAM_H
#define EMULATE_STREAM_H
#include <stddef.h>

struct emulate_stream {
	void (*queue)(void (*work)(void *), const void *data, size_t size);
	void (*finish)(void);
};
#endif
