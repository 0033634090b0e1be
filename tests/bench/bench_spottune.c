/* bench_spottune.c - a file of 60 days of prices a minute of 100 markets, and decisions of
 * allocator spottune with 12 markets and 64 trials.  One JSON object a line; processor time of one
 * thread, which a machine at work distorts less than time of the clock.
 *
 * Decisions: `first` chooses for all trials with nothing known of the markets' past, `again` an
 * hour later for trials that train, `slowest` is the slowest of all calls after the first.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <espalier/market.h>
#include "base/diag.h"
#include "input/prices.h"
#include "testkit.h"

#define MARKETS 100u
#define DAYS 60u
#define OFFERS 12u
#define TRIALS 64u
#define MINUTE (60 * ESPL_SECOND)
#define PAST (3u * 1440) /* minutes of the decisions' history */
#define HOURS 3u

extern const struct espl_plugin allocator_spottune_LTX_espalier_plugin;

static double
read_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t
price_at(uint32_t market, uint32_t minute)
{
	return 100000 + (market * 7919 + minute / 7 * 104729) % 50000;
}

/* ---- loading --------------------------------------------------------------------------------- */

static int
write_file(const char *path, int dates)
{
	FILE *f = fopen(path, "w");

	if (f == NULL)
		return -1;
	(void)fprintf(f, "timestamp,instance_type,availability_zone,spot_price\n");
	for (uint32_t minute = 0; minute < DAYS * 1440; minute++) {
		time_t at = 1577836800 + (time_t)minute * 60;
		char text[40];

		if (dates)
			(void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&at));
		else
			(void)snprintf(text, sizeof text, "%u", minute * 60);
		for (uint32_t i = 0; i < MARKETS; i++)
			(void)fprintf(f, "%s,m%u.large,us-east-1%c,0.%06u\n", text, i / 4,
			    "abcd"[i % 4], price_at(i, minute));
	}
	return fclose(f);
}

static int
measure_load(int dates)
{
	char path[] = "/tmp/bench-spottune-XXXXXX";
	struct espl__price_file file;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct timespec from, to;
	double begin, used;
	uint64_t records = 0;
	int fd = mkstemp(path), bad;

	if (fd < 0)
		return 1;
	close(fd);
	bad = write_file(path, dates) != 0;
	clock_gettime(CLOCK_MONOTONIC, &from);
	begin = read_clock();
	bad = bad || espl__prices_read(path, &file, &diag) != ESPL_OK;
	used = read_clock() - begin;
	clock_gettime(CLOCK_MONOTONIC, &to);
	(void)unlink(path);
	for (uint32_t i = 0; !bad && i < file.count; i++)
		records += file.list[i].count;
	if (!bad)
		espl__prices_free(&file);
	(void)printf("{\"bench\": \"prices\", \"times\": \"%s\", \"records\": %llu, "
		     "\"load_s\": %.3f, \"wall_s\": %.3f}\n",
	    dates ? "dates" : "seconds", (unsigned long long)records, used,
	    (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9);
	return bad || records != (uint64_t)MARKETS * DAYS * 1440;
}

/* ---- decisions ------------------------------------------------------------------------------- */

static struct espl_price series[OFFERS][PAST + HOURS * 60 + 1];
static espl_time now;

static espl_status
find_history(const struct espl_market *market, uint32_t offer, espl_time from, espl_time to,
    const struct espl_price **prices, uint32_t *count)
{
	int64_t begin = from / MINUTE + PAST, end = (to < now ? to : now) / MINUTE + PAST + 1;

	(void)market;
	begin = begin < 0 ? 0 : begin;
	*prices = &series[offer][begin];
	*count = end > begin ? (uint32_t)(end - begin) : 0;
	return *count > 0 ? ESPL_OK : ESPL_E_UNKNOWN;
}

static double
find_mean(const struct espl_market *market, uint32_t offer, espl_time from, espl_time to)
{
	const struct espl_price *p;
	uint32_t count, i;
	double sum = 0;

	if (find_history(market, offer, from, to, &p, &count) != ESPL_OK)
		return NAN;
	for (i = 0; i < count; i++)
		sum += (double)p[i].usd_hour;
	return sum / count;
}

static espl_status
find_hazard(const struct espl_market *market, uint32_t offer, struct espl_hazard *hazard)
{
	(void)market;
	hazard->rate_hour = 0.05 + 0.01 * offer;
	hazard->hours = 100;
	return ESPL_OK;
}

static double slowest;
static const struct espl_allocator_ops *real;

static espl_status
time_call(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	double begin = read_clock();
	espl_status status = real->allocate(self, view, sink, error);

	slowest = fmax(slowest, read_clock() - begin);
	return status;
}

static struct espl_kit *
make_kit(const struct espl_plugin *plugin, const struct espl_market *market, const char *options)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error;

	espl_kit_set_service(kit, ESPL_MARKET, market);
	if (espl_kit_open(kit, plugin, options, &error) != ESPL_OK) {
		espl_kit_free(kit);
		return NULL;
	}
	for (uint32_t i = 0; i < OFFERS; i++) {
		struct espl_offer *offer;

		(void)espl_kit_offer(kit, "machine", 1, ESPL_ANY, 0.1);
		offer = espl_kit_offer_at(kit, i);
		offer->flags = ESPL_OFFER_MARKET | ESPL_OFFER_REVOCABLE;
		offer->market = "spot";
		offer->refund_before = 3600 * ESPL_SECOND;
		offer->fixed_price_hour = 1000000;
		offer->cpus = 4 + i;
	}
	for (uint32_t i = 0; i < TRIALS; i++)
		espl_kit_item_at(kit, espl_kit_item(kit, 1, 1))->iterations_left = 1000;
	return kit;
}

/* All trials choose, then train, and after each hour choose again. */
static int
measure_decisions(const struct espl_plugin *plugin, const char *options)
{
	const struct espl_market market = { .size = (uint32_t)sizeof market,
		.history = find_history,
		.mean = find_mean,
		.hazard = find_hazard };
	struct espl_kit *kit = make_kit(plugin, &market, options);
	double first = 0, again = 0, worst = 0;
	int bad = kit == NULL;

	for (uint32_t minute = 0; !bad && minute < HOURS * 60; minute++) {
		now = minute * MINUTE + 30 * ESPL_SECOND;
		espl_kit_set_time(kit, now);
		slowest = 0;
		bad = espl_kit_allocate(kit) != ESPL_OK;
		if (minute == 0)
			first = slowest;
		else
			worst = fmax(worst, slowest);
		if (minute % 60 == 1 && minute > 1)
			again = fmax(again, slowest);
		espl_kit_provision(kit);
		for (uint64_t i = 0; i < TRIALS; i++)
			espl_kit_item_at(kit, i)->flags |= ESPL_ITEM_RUNNING;
	}
	(void)printf("{\"bench\": \"spottune\", \"options\": \"%s\", \"markets\": %u, \"trials\": "
		     "%u, \"first_ms\": %.3f, \"again_ms\": %.3f, \"slowest_ms\": %.3f}\n",
	    options, OFFERS, TRIALS, first * 1e3, again * 1e3, worst * 1e3);
	espl_kit_free(kit);
	return bad;
}

int
main(void)
{
	static const char *const options[] = { "mode=modern", "mode=paper",
		"mode=paper max_price=alg2", "mode=paper predictor=hazard max_price=on_demand" };
	struct espl_plugin plugin = allocator_spottune_LTX_espalier_plugin;
	struct espl_allocator_ops ops;
	int bad = 0;

	real = (const struct espl_allocator_ops *)(const void *)plugin.ops;
	ops = *real;
	ops.allocate = time_call;
	plugin.ops = &ops.head;
	for (uint32_t offer = 0; offer < OFFERS; offer++)
		for (uint32_t i = 0; i < PAST + HOURS * 60 + 1; i++) {
			series[offer][i].from = ((int64_t)i - PAST) * MINUTE;
			series[offer][i].usd_hour = price_at(offer, i);
		}
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		bad = measure_decisions(&plugin, options[i]) || bad;
	return measure_load(0) || measure_load(1) || bad;
}
