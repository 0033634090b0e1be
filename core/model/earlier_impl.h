/* earlier_impl.h - what earlier.c and its reader (driver/input) share. */
#ifndef ESPL__EARLIER_IMPL_H
#define ESPL__EARLIER_IMPL_H
#include "base/map.h"
#include "model/earlier.h"

struct espl__earlier_config {
	uint64_t furthest; /* iteration of the last observation of all */
	double loss;       /* there */
	int fits;
};
struct espl__earlier_seen {
	double loss, raw;
	uint64_t iteration;
	uint32_t config;
};

#define ESPL__EARLIER_MAGIC 0x6266756bu
struct espl__earlier {
	uint32_t magic; /* ESPL__EARLIER_MAGIC */
	const struct espl__space *space;
	uint32_t params;
	char *metric;
	struct espl__map by_name; /* -> config + 1 as a pointer */
	struct espl__earlier_config *configs;
	uint32_t config_count, config_cap, skipped;
	double *values; /* [config][param] */
	size_t value_cap;
	struct espl__earlier_seen *seen;
	uint64_t seen_count, seen_cap;
	uint32_t *ranked; /* configs, best first */
	uint32_t ranked_count;
	char why[512];
	uint64_t digest;
};

static inline const double *
espl__earlier_values(const struct espl__earlier *e, uint32_t config)
{
	return e->values + (size_t)config * e->params;
}
/* After all was read: ranks the configurations, and takes the digest. */
void espl__earlier_index(struct espl__earlier *);
#endif
