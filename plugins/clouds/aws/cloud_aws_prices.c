/* cloud_aws_prices.c - the prices of spot machines: asked for at the start, and again and again.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cloud_aws.h"

#define PRICES_AGAIN (600 * ESPL_SECOND)
#define HISTORY_S (48 * 3600) /* from which policies judge the next hours */

/* Each type once. */
void
cloud_aws_add_types(const struct aws_cloud *cloud, struct aws_query *query, int spot_only)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		const char *type = cloud->offers[i].row[AWS_COL_TYPE].as.s;
		uint32_t k = 0;

		if (spot_only && !aws_is_spot(&cloud->offers[i]))
			continue;
		while (k < i &&
		    (strcmp(cloud->offers[k].row[AWS_COL_TYPE].as.s, type) != 0 ||
			(spot_only && !aws_is_spot(&cloud->offers[k]))))
			k++;
		if (k == i)
			cloud_aws_query_add(query, type, "InstanceType.%u", ++n);
	}
}

/* Two days until they have been received once; then from the earliest launch on, because the cost
 * of a lease is computed at its end. */
void
cloud_aws_prices_ask(struct aws_cloud *cloud)
{
	int64_t from_s = cloud_aws_utc(cloud);
	struct aws_query query;
	struct tm tm;
	time_t from;
	char text[40];

	for (const struct aws_lease *lease = cloud->leases; lease != NULL; lease = lease->next)
		if (lease->launch_s != 0 && lease->launch_s < from_s)
			from_s = lease->launch_s;
	if (!cloud->has_history)
		from_s -= HISTORY_S;
	from = (time_t)from_s;
	(void)gmtime_r(&from, &tm);
	(void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
	cloud_aws_query_begin(&query, "DescribeSpotPriceHistory", "2016-11-15");
	cloud_aws_add_types(cloud, &query, 1);
	cloud_aws_query_add(&query, "Linux/UNIX", "ProductDescription.1");
	cloud_aws_query_add(&query, "Linux/UNIX (Amazon VPC)", "ProductDescription.2");
	cloud_aws_query_add(&query, text, "StartTime");
	cloud_aws_query_add(&query, "1000", "MaxResults");
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		cloud->offers[i].fresh_count = 0;
	cloud->prices_at = cloud->host->now(cloud->host) + PRICES_AGAIN;
	if (cloud_aws_pages(cloud, AWS_PRICES, &query) != 0 && cloud->starting == AWS_PRICES)
		cloud_aws_start_end(cloud, ESPL_E_REMOTE, cloud->warned);
}

/* Records come in any order; the same one may come twice. */
static int
add_price(struct aws_offer *o, int64_t from_s, espl_money usd)
{
	struct aws_price *list = realloc(o->fresh, (o->fresh_count + 1) * sizeof *list);
	uint32_t at = o->fresh_count;

	if (list == NULL)
		return -1;
	o->fresh = list;
	while (at > 0 && list[at - 1].from_s > from_s)
		at--;
	if (at > 0 && list[at - 1].from_s == from_s)
		return 0;
	memmove(list + at + 1, list + at, (o->fresh_count - at) * sizeof *list);
	list[at] = (struct aws_price){ from_s, usd };
	o->fresh_count++;
	return 0;
}

static int
take_prices(struct aws_cloud *cloud, const struct aws_element *document)
{
	const struct aws_element *set = cloud_aws_answer_find(document, "spotPriceHistorySet");

	for (const struct aws_element *item = set != NULL ? set->first : NULL; item != NULL;
	     item = item->next) {
		int64_t from = cloud_aws_answer_time(cloud_aws_answer_text(item, "timestamp"));
		espl_money usd = cloud_aws_answer_money(cloud_aws_answer_text(item, "spotPrice"));

		for (uint32_t i = 0; i < cloud->offer_count; i++) {
			struct aws_offer *o = &cloud->offers[i];

			if (!aws_is_spot(o) || from == 0 || usd < 0 ||
			    strcmp(o->zone, cloud_aws_answer_text(item, "availabilityZone")) != 0 ||
			    strcmp(o->row[AWS_COL_TYPE].as.s,
				cloud_aws_answer_text(item, "instanceType")) != 0)
				continue;
			if (add_price(o, from, usd) != 0)
				return -1;
		}
	}
	return 0;
}

/* Each price change is reported to the host once, oldest first; none is in the future. */
void
cloud_aws_prices_report(struct aws_cloud *cloud, struct aws_offer *o)
{
	espl_time now = cloud->host->now(cloud->host);
	int64_t utc_s = cloud_aws_utc(cloud);
	struct espl_price *list = malloc((o->price_count + 1) * sizeof *list);
	uint32_t count = 0;

	for (uint32_t i = 0; list != NULL && i < o->price_count; i++) {
		int64_t age_s = utc_s - o->prices[i].from_s;

		if (o->prices[i].from_s <= o->latest_price_s)
			continue;
		o->latest_price_s = o->prices[i].from_s;
		list[count++] = (struct espl_price){ now - (age_s > 0 ? age_s : 0) * ESPL_SECOND,
			o->prices[i].usd_hour };
	}
	if (count > 0)
		(void)cloud->events->prices(cloud->events, o->name, aws_market(o), list, count);
	free(list);
}

static void
use_prices(struct aws_cloud *cloud)
{
	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		struct aws_offer *o = &cloud->offers[i];
		struct aws_price *old = o->prices;

		if (o->fresh_count == 0)
			continue;
		o->prices = o->fresh;
		o->price_count = o->fresh_count;
		o->fresh = old;
		o->fresh_count = 0;
	}
}

void
cloud_aws_prices_reply(struct aws_cloud *cloud, const struct espl_http_reply *reply)
{
	struct aws_element *document;
	char text[AWS_TEXT] = "";
	int more = 0;
	int fine =
	    cloud_aws_answer_reply(reply, "DescribeSpotPriceHistory", &document, text) == AWS_FINE;

	if (fine && take_prices(cloud, document) != 0)
		fine = 0;
	if (fine)
		more = cloud_aws_next(cloud, AWS_PRICES, document);
	cloud_aws_answer_free(document);
	if (more > 0)
		return;
	cloud_aws_pages_end(cloud, AWS_PRICES);
	fine &= more == 0;
	cloud->has_history |= fine;
	if (fine)
		use_prices(cloud);
	else
		cloud_aws_warn(cloud, text); /* machines can be leased without */
	if (cloud->starting == AWS_PRICES)
		cloud_aws_start_end(cloud, ESPL_OK, "");
	for (uint32_t i = 0; fine && i < cloud->offer_count; i++)
		cloud_aws_prices_report(cloud, &cloud->offers[i]);
	cloud_aws_leases_priced(cloud, fine);
}
