/* probe.h - what allocator_probe.c shows. */
#ifndef PROBE_H
#define PROBE_H
#include <espalier/allocator.h>
#include <espalier/util.h>

enum {
	PROBE_FLAG,
	PROBE_COUNT,
	PROBE_RATIO,
	PROBE_MODE,
	PROBE_PERIOD,
	PROBE_SIZE,
	PROBE_PRICE,
	PROBE_TABLE,
	PROBE_FILE,
	PROBE_DELAY,
	PROBE_KEY
};
struct probe {
	const struct espl_host *host;
	const struct espl_config *config;
	uint64_t first_random;
};
#endif
