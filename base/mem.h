/* mem.h - memory of the core: never NULL, and growable arrays.
 *
 * Running out of memory ends the process with exit status 4 and a message: the journal holds
 * everything that matters, and `espalier resume` continues the run.
 */
#ifndef ESPL__MEM_H
#define ESPL__MEM_H
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void *espl__alloc(size_t bytes);                        /* zeroed; free() it */
void *espl__realloc(void *, size_t count, size_t each); /* checked product, tail NOT zeroed */
char *espl__strdup(const char *);                       /* NULL stays NULL */
char *espl__format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Room for at least `need` elements in a growable array (doubling). */
#define ESPL__GROW(array_, cap_, need_) \
	do { \
		if ((need_) > (cap_)) { \
			size_t cap__ = (cap_) ? (size_t)(cap_)*2 : 8; \
			while (cap__ < (size_t)(need_)) \
				cap__ *= 2; \
			(array_) = espl__realloc((array_), cap__, sizeof *(array_)); \
			(cap_) = (__typeof__(cap_))cap__; \
		} \
	} while (0)

/* Chunked store of equal records: addresses stay, index -> address is O(1).  Zeroed. */
struct espl__pool {
	size_t each;
	uint64_t count;
	void **chunks;
	size_t chunk_count, chunk_cap;
};
void espl__pool_init(struct espl__pool *, size_t each);
void *espl__pool_add(struct espl__pool *);                      /* the record with index count-1 */
void *espl__pool_at(const struct espl__pool *, uint64_t index); /* index < count */
void espl__pool_free(struct espl__pool *);

/* Bump arena: strings and small things that live together. */
struct espl__arena {
	struct espl__arena_block *last;
};
void *espl__arena_alloc(struct espl__arena *, size_t bytes);  /* zeroed, aligned to 16 */
char *espl__arena_strdup(struct espl__arena *, const char *); /* NULL stays NULL */
void espl__arena_free(struct espl__arena *);
#endif
