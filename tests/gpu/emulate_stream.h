/* emulate_stream.h - what an emulated stream points to: where to put work while a graph is captured, else NULL. */
#ifndef EMULATE_STREAM_H
#define EMULATE_STREAM_H
#include <stddef.h>

struct emulate_stream { void (*queue)(void (*work)(void *), const void *data, size_t size); };
#endif
