/* rng.h - random streams derived from (seed, name), so that one more stream shifts no other. */
#ifndef ESPL__RNG_H
#define ESPL__RNG_H
#include <stdint.h>
struct espl__rng {
	uint64_t s[4];
}; /* xoshiro256** */
void espl__rng_seed(struct espl__rng *, uint64_t seed, const char *name);
uint64_t espl__rng_next(struct espl__rng *);
double espl__rng_uniform(struct espl__rng *); /* [0, 1), 53 bits */
double espl__rng_normal(struct espl__rng *);  /* polar method, no state kept */

/* Every bit of the result depends on every bit of z. */
static inline uint64_t
espl__mix_bits(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* splitmix64 (Vigna), where a state of 64 bits is enough */
static inline uint64_t
espl__split_mix(uint64_t *state)
{
	return espl__mix_bits(*state += UINT64_C(0x9e3779b97f4a7c15));
}
#endif
