/* price_grid.h - a market's price minute by minute, and how far it rose in the hour after. */
#ifndef ESPL_PRICE_GRID_H
#define ESPL_PRICE_GRID_H
#include <espalier/fleet.h>

#define ESPL_MINUTE (60 * ESPL_SECOND)
#define ESPL_GRID_HOUR 60u /* length of the hour, in minutes */

struct espl_minute {
	espl_money price;  /* held at this minute */
	espl_money top;    /* highest after the minute before, up to this one */
	espl_time set_at;  /* when the price was set */
	int64_t changes;   /* of the price, since the grid began */
	int64_t price_sum; /* of the minutes before this one, since the grid began */
};
/* all zero to begin with */
struct espl_price_grid {
	struct espl_minute *minutes;
	espl_money *rises; /* [risen]: largest rise of the price in the hour after each minute */
	int64_t first;     /* minute number of minutes[0]: time / 60 s */
	uint32_t count;    /* minutes up to now */
	uint32_t risen;    /* those among them whose hour is over */
	uint32_t room;     /* of both arrays */
	uint32_t keep;     /* minutes that must be kept; 0: all */
	espl_time read_to; /* records up to this time have been read */
	espl_money price;  /* the last record's */
	espl_time set_at;  /* of that price */
	int64_t changes;
};

void espl_grid_free(struct espl_price_grid *grid);
/* Adds what is known up to `now`; records before read_to are skipped.  ESPL_E_NOMEM. */
espl_status espl_grid_extend(struct espl_price_grid *grid, const struct espl_price *prices,
    uint32_t count, espl_time now);
/* Index of the first record after `at`. */
uint32_t espl_price_after(const struct espl_price *prices, uint32_t count, espl_time at);
/* Returns how many of the `window` rises before `end` exceed the margin; *of: how many there are.
 */
uint32_t espl_grid_exceeding(const struct espl_price_grid *grid, uint32_t end, uint32_t window,
    espl_money margin, uint32_t *of);
#endif
