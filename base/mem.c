/* mem.c - memory that is never NULL: the only place of the core that asks the C library for it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/mem.h"

enum {
	OUT_OF_MEMORY_EXIT = 4,
	POOL_SHIFT = 8,
	POOL_CHUNK = 1 << POOL_SHIFT,
	ARENA_FIRST = 1024,
	ARENA_MOST = 64 * 1024
};

static _Noreturn void
out_of_memory(void)
{
	static const char text[] = "espalier: error: out of memory\n"
				   "hint: continue an interrupted run with `espalier resume DIR`\n";

	if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
		_exit(OUT_OF_MEMORY_EXIT);
	_exit(OUT_OF_MEMORY_EXIT);
}

void *
espl__alloc(size_t bytes)
{
	void *p = calloc(1, bytes > 0 ? bytes : 1);

	if (p == NULL)
		out_of_memory();
	return p;
}

void *
espl__realloc(void *old, size_t count, size_t each)
{
	size_t bytes;
	void *p;

	ESPL__ASSERT(each > 0);
	if (__builtin_mul_overflow(count, each, &bytes))
		out_of_memory();
	p = realloc(old, bytes > 0 ? bytes : 1);
	if (p == NULL)
		out_of_memory();
	return p;
}

char *
espl__strdup(const char *text)
{
	size_t size;
	char *copy;

	if (text == NULL)
		return NULL;
	size = strlen(text) + 1;
	copy = espl__realloc(NULL, size, 1);
	memcpy(copy, text, size);
	return copy;
}

char *
espl__format(const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	ESPL__ASSERT(length >= 0);
	text = espl__realloc(NULL, (size_t)length + 1, 1);
	va_start(args, format);
	vsnprintf(text, (size_t)length + 1, format, args);
	va_end(args);
	return text;
}

/* ---- pool ------------------------------------------------------------------------------ */

void
espl__pool_init(struct espl__pool *pool, size_t each)
{
	ESPL__ASSERT(each > 0);
	memset(pool, 0, sizeof *pool);
	/* Every record aligned as the first is. */
	pool->each = (each + 7) & ~(size_t)7;
}

void *
espl__pool_add(struct espl__pool *pool)
{
	size_t chunk = (size_t)(pool->count >> POOL_SHIFT);

	ESPL__ASSERT(pool->each > 0);
	if (chunk == pool->chunk_count) {
		ESPL__GROW(pool->chunks, pool->chunk_cap, chunk + 1);
		pool->chunks[chunk] = espl__alloc(pool->each * POOL_CHUNK);
		pool->chunk_count++;
	}
	pool->count++;
	return espl__pool_at(pool, pool->count - 1);
}

void *
espl__pool_at(const struct espl__pool *pool, uint64_t index)
{
	ESPL__ASSERT(index < pool->count);
	return (char *)pool->chunks[index >> POOL_SHIFT] +
	    (size_t)(index & (POOL_CHUNK - 1)) * pool->each;
}

void
espl__pool_free(struct espl__pool *pool)
{
	for (size_t i = 0; i < pool->chunk_count; i++)
		free(pool->chunks[i]);
	free(pool->chunks);
	memset(pool, 0, sizeof *pool);
}

/* ---- arena ----------------------------------------------------------------------------- */

struct espl__arena_block {
	struct espl__arena_block *before;
	size_t size, used; /* of the bytes after this head */
	_Alignas(16) unsigned char bytes[];
};

void *
espl__arena_alloc(struct espl__arena *arena, size_t bytes)
{
	struct espl__arena_block *block = arena->last;
	size_t room, size;
	void *p;

	if (__builtin_add_overflow(bytes, (size_t)15, &room))
		out_of_memory();
	room &= ~(size_t)15;
	if (room == 0)
		room = 16;
	if (block == NULL || block->size - block->used < room) {
		size = block == NULL ? ARENA_FIRST : block->size * 2;
		if (size > ARENA_MOST)
			size = ARENA_MOST;
		if (size < room)
			size = room;
		if (size > SIZE_MAX - sizeof *block)
			out_of_memory();
		block = espl__alloc(sizeof *block + size);
		block->size = size;
		block->before = arena->last;
		arena->last = block;
	}
	p = block->bytes + block->used;
	block->used += room;
	return p;
}

char *
espl__arena_strdup(struct espl__arena *arena, const char *text)
{
	size_t size;
	char *copy;

	if (text == NULL)
		return NULL;
	size = strlen(text) + 1;
	copy = espl__arena_alloc(arena, size);
	memcpy(copy, text, size);
	return copy;
}

void
espl__arena_free(struct espl__arena *arena)
{
	struct espl__arena_block *block = arena->last;

	while (block != NULL) {
		struct espl__arena_block *before = block->before;

		free(block);
		block = before;
	}
	arena->last = NULL;
}
