/* prices.h - files of spot prices: the columns of cloud sim's price file, or a provider's export.
 */
#ifndef ESPL__PRICES_H
#define ESPL__PRICES_H
#include <espalier/fleet.h>
#include "base/diag.h"

/* One offer in one zone. */
struct espl__price_series {
	char *offer, *zone; /* zone: the market where the file has no zones */
	char *product;      /* "": the file has no such column */
	struct espl_price *prices;
	uint32_t count, cap;
};
struct espl__price_file {
	struct espl__price_series *list; /* in the order of the file */
	uint32_t count, cap;
	int calendar; /* times are dates (UTC); otherwise seconds */
};
/* E_CONFIG with the line: not a number, a negative price, a time before the one before it in its
 * series, or a gap of more than 30 days. */
espl_status espl__prices_read(const char *path, struct espl__price_file *, struct espl__diag *);
void espl__prices_free(struct espl__price_file *);
#endif
