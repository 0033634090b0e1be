/* rng.c - xoshiro256** (Blackman and Vigna), its state spread by splitmix64 from seed and name. */
#include <math.h>
#include <string.h>
#include "base/hash.h"
#include "base/rng.h"

void
espl__rng_seed(struct espl__rng *rng, uint64_t seed, const char *name)
{
	uint64_t state = espl__digest(seed, name, strlen(name));

	for (int i = 0; i < 4; i++)
		rng->s[i] = espl__split_mix(&state);
	if ((rng->s[0] | rng->s[1] | rng->s[2] | rng->s[3]) == 0)
		rng->s[0] = 1; /* the one state it could never leave */
}

static uint64_t
rotate_left(uint64_t x, int by)
{
	return (x << by) | (x >> (64 - by));
}

uint64_t
espl__rng_next(struct espl__rng *rng)
{
	uint64_t *s = rng->s;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

double
espl__rng_uniform(struct espl__rng *rng)
{
	return (double)(espl__rng_next(rng) >> 11) * 0x1p-53;
}

/* The second value of a pair is thrown away, so that the stream is all the state there is. */
double
espl__rng_normal(struct espl__rng *rng)
{
	double x, y, r;

	do {
		x = 2.0 * espl__rng_uniform(rng) - 1.0;
		y = 2.0 * espl__rng_uniform(rng) - 1.0;
		r = x * x + y * y;
	} while (r >= 1.0 || r <= 0.0);
	return x * sqrt(-2.0 * log(r) / r);
}
