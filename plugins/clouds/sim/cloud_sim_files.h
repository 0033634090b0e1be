/* cloud_sim_files.h - the sim cloud's price file and log of interruptions (docs/simulation.md). */
#ifndef CLOUD_SIM_FILES_H
#define CLOUD_SIM_FILES_H
#include <espalier/cloud.h>
#include <espalier/kit/prices.h>

/* A line of the log: how many of the nodes held until then were interrupted. */
struct cloud_sim_seen {
	espl_time at;
	double nodes, interrupted;
};

struct cloud_sim_offer {
	struct espl_offer offer;
	struct espl_price *prices; /* malloc'ed, relative to the run's start */
	uint32_t price_count, price_cap;
	struct cloud_sim_seen *seen; /* likewise, by time */
	uint32_t seen_count, seen_cap;
	struct espl_interruption *log; /* what of it is still to come */
	uint32_t log_count;
	double hazard_hour;                   /* at random; NaN: not configured */
	struct espl_supply supply;            /* machines that there are in truth */
	int priced;                           /* the configuration has a price */
	char zone_seen[64], product_seen[64]; /* of the lines; "": none yet */
};

/* The offers that a series of the file belongs to. */
struct cloud_sim_series {
	uint32_t first, count; /* in `belong` */
};
struct cloud_sim_reading {
	struct espl_price_reader reader;
	struct cloud_sim_offer *list;
	uint32_t offers;
	struct cloud_sim_series *series; /* [series_count], as the reader's */
	uint32_t series_count;
	uint32_t *belong; /* numbers of offers */
	uint32_t belong_count;
	int used;              /* a line belonged to an offer */
	espl_time first, last; /* of these lines */
	const char *what;      /* the option, to blame */
	uint32_t option;
	struct espl_error *error;
};

/* Reads a file (log: of interruptions) and gives its lines to the offers they belong to; errors
 * blame the option. */
espl_status cloud_sim_read(struct cloud_sim_reading *, const void *bytes, uint64_t size,
    uint32_t log);
void cloud_sim_read_end(struct cloud_sim_reading *);
/* From when on the offer has a price; ESPL_NEVER: the file has none of it. */
espl_time cloud_sim_first_price(const struct cloud_sim_offer *);
/* From when on all of them have one, those with a price of the configuration aside; the first of
 * all prices if they are only of these. */
espl_time cloud_sim_all_priced(const struct cloud_sim_offer *list, uint32_t count);
/* Of the log before the start: interruptions per node-hour, and the node-hours. */
void cloud_sim_sum_log(const struct cloud_sim_offer *, double *rate_hour, double *hours);
/* Times become those of the run, which starts at `zero`. */
espl_status cloud_sim_begin_at(struct cloud_sim_offer *list, uint32_t count, espl_time zero);
#endif
