/* espalier kit: array.h - arrays that grow. */
#ifndef ESPALIER_KIT_ARRAY_H
#define ESPALIER_KIT_ARRAY_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Makes room for `count` elements of `size` bytes in the array `at`, which has room for `*room` and
 * comes from malloc (NULL: there is none yet).  Returns where the array is now, or NULL if there is
 * no memory: then the old one stays as it is. */
void *espl_array_grow(void *at, uint32_t *room, uint32_t count, size_t size);

#ifdef __cplusplus
}
#endif
#endif
