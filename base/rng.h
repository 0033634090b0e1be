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
#endif
