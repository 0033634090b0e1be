/* map.c - open addressing with linear probing; removal shifts back, so no slot is ever wasted. */
#include <string.h>
#include <espalier/abi.h>
#include "base/assert.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"

static size_t
home_index(const struct espl__map *map, uint64_t key)
{
	return (size_t)espl__mix_bits(key) & (map->cap - 1);
}

/* The slot of key, or the empty one where it would go; cap > 0 and one slot empty. */
static size_t
slot_of(const struct espl__map *map, uint64_t key)
{
	size_t i = home_index(map, key);

	while (map->used[i] && map->keys[i] != key)
		i = (i + 1) & (map->cap - 1);
	return i;
}

static void
grow_map(struct espl__map *map)
{
	struct espl__map bigger = { .cap = map->cap > 0 ? map->cap * 2 : 8, .count = map->count };

	ESPL__ASSERT(map->count <= map->cap);
	bigger.keys = espl__realloc(NULL, bigger.cap, sizeof *bigger.keys);
	bigger.values = espl__realloc(NULL, bigger.cap, sizeof *bigger.values);
	bigger.used = espl__alloc(bigger.cap);
	for (size_t i = 0; i < map->cap; i++) {
		size_t to;

		if (!map->used[i])
			continue;
		to = slot_of(&bigger, map->keys[i]);
		bigger.keys[to] = map->keys[i];
		bigger.values[to] = map->values[i];
		bigger.used[to] = 1;
	}
	espl__map_free(map);
	*map = bigger;
}

void *
espl__map_get(const struct espl__map *map, uint64_t key)
{
	size_t i;

	if (map->count == 0)
		return NULL;
	i = slot_of(map, key);
	return map->used[i] ? map->values[i] : NULL;
}

void
espl__map_set(struct espl__map *map, uint64_t key, void *value)
{
	size_t i;

	ESPL__ASSERT(value != NULL);
	if (map->count + 1 > map->cap / 4 * 3)
		grow_map(map);
	i = slot_of(map, key);
	if (!map->used[i]) {
		map->used[i] = 1;
		map->keys[i] = key;
		map->count++;
	}
	map->values[i] = value;
}

void *
espl__map_remove(struct espl__map *map, uint64_t key)
{
	size_t mask = map->cap - 1, hole, i;
	void *value;

	if (map->count == 0)
		return NULL;
	hole = slot_of(map, key);
	if (!map->used[hole])
		return NULL;
	value = map->values[hole];
	for (i = (hole + 1) & mask; map->used[i]; i = (i + 1) & mask) {
		size_t want = home_index(map, map->keys[i]);

		/* Move it back unless its home lies after the hole on its way here. */
		if (((i - want) & mask) >= ((i - hole) & mask)) {
			map->keys[hole] = map->keys[i];
			map->values[hole] = map->values[i];
			hole = i;
		}
	}
	map->used[hole] = 0;
	map->count--;
	return value;
}

void
espl__map_free(struct espl__map *map)
{
	free(map->keys);
	free(map->values);
	free(map->used);
	memset(map, 0, sizeof *map);
}

/* ---- names ----------------------------------------------------------------------------- */

/* The slot of the name, or the empty one where it would go; some are empty. */
static uint32_t
slot_of_name(const struct espl__names *names, const char *name)
{
	uint32_t mask = names->slot_count - 1,
		 i = (uint32_t)espl__digest(0, name, strlen(name)) & mask;

	while (names->slots[i] != 0 && strcmp(names->names[names->slots[i] - 1], name) != 0)
		i = (i + 1) & mask;
	return i;
}

static void
grow_names(struct espl__names *names)
{
	ESPL__ASSERT(names->slot_count <= UINT32_MAX / 4);
	names->slot_count = names->slot_count > 0 ? names->slot_count * 2 : 16;
	free(names->slots);
	names->slots = espl__alloc(names->slot_count * sizeof *names->slots);
	for (uint32_t i = 0; i < names->count; i++)
		names->slots[slot_of_name(names, names->names[i])] = i + 1;
}

uint32_t
espl__names_find(const struct espl__names *names, const char *name)
{
	uint32_t found;

	ESPL__ASSERT(name != NULL);
	if (names->count == 0)
		return ESPL_ANY;
	found = names->slots[slot_of_name(names, name)];
	return found != 0 ? found - 1 : ESPL_ANY;
}

uint32_t
espl__names_add(struct espl__names *names, const char *name)
{
	uint32_t i = espl__names_find(names, name);

	if (i != ESPL_ANY)
		return i;
	ESPL__ASSERT(names->count < ESPL_ANY - 1);
	if (names->count >= names->slot_count / 2)
		grow_names(names);
	ESPL__GROW(names->names, names->cap, names->count + 1);
	names->names[names->count] = espl__strdup(name);
	names->slots[slot_of_name(names, name)] = names->count + 1;
	return names->count++;
}

void
espl__names_free(struct espl__names *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		free(names->names[i]);
	free(names->names);
	free(names->slots);
	memset(names, 0, sizeof *names);
}
