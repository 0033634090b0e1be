/* map.h - hash maps with 64-bit keys, and of names to numbers.  The order of iteration is
 * undefined; decisions must not iterate a map. */
#ifndef ESPL__MAP_H
#define ESPL__MAP_H
#include <stddef.h>
#include <stdint.h>
struct espl__map {
	uint64_t *keys;
	void **values;
	uint8_t *used;
	size_t cap, count;
};
void *espl__map_get(const struct espl__map *, uint64_t key);       /* NULL: absent */
void espl__map_set(struct espl__map *, uint64_t key, void *value); /* value not NULL */
void *espl__map_remove(struct espl__map *, uint64_t key);          /* NULL: was absent */
void espl__map_free(struct espl__map *);                           /* not the values */

/* Interned names, numbered in the order in which they were added. */
struct espl__names {
	char **names;
	uint32_t count, cap;
	uint32_t *slots; /* by hash: number + 1, or 0 */
	uint32_t slot_count;
};
uint32_t espl__names_find(const struct espl__names *, const char *); /* ESPL_ANY: absent */
uint32_t espl__names_add(struct espl__names *, const char *);        /* found or new */
void espl__names_free(struct espl__names *);
#endif
