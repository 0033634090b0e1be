/* cloud_sim - a cloud without machines: offers, terms and prices come from the configuration.
 *
 * Predictions need only `describe`; every entry that needs a machine fails.
 * Prices may come from a CSV file: a record holds until the next one of its market.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <espalier/host.h>
#include <espalier/util.h>
#include <espalier/kit/assert.h>
#include "cloud_sim_files.h"

enum { OPT_OFFERS = 0, OPT_NODES_MAX, OPT_PRICES, OPT_INTERRUPTIONS, OPT_START, OPT_ONLY };
enum {
	COL_NAME = 0,
	COL_GPUS,
	COL_CPUS,
	COL_PRICE,
	COL_MARKET,
	COL_BILLING,
	COL_MINIMUM,
	COL_STEP,
	COL_FROM,
	COL_BILL_INIT,
	COL_DATA,
	COL_PROVISION,
	COL_INIT,
	COL_NOTICE,
	COL_REFUND,
	COL_LEASE_MAX,
	COL_REVOCABLE,
	COL_HAZARD,
	COL_ESTIMATE,
	COL_HOURS,
	COL_FIXED,
	COL_GPU_TYPE,
	COL_ZONE,
	COL_MEMORY,
	COL_GPU_MEMORY,
	COL_NODES_MAX,
	COL_MACHINES,
	COL_FREE_FOR,
	COL_TAKEN_FOR,
	COL_WAIT,
	COL_CANARY,
	COL_COUNT
};

static const struct espl_option columns[COL_COUNT] = { [COL_NAME] = { .name = "name",
							   .help = "name of the machine type",
							   .type = ESPL_OPT_STRING,
							   .flags = ESPL_OPT_REQUIRED },
	[COL_GPUS] = { .name = "gpus",
	    .help = "number of GPUs (or slots) per node",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "65536",
	    .flags = ESPL_OPT_REQUIRED },
	[COL_CPUS] = { .name = "cpus",
	    .help = "number of cores per node; 0: unknown",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "65536" },
	[COL_PRICE] = { .name = "price",
	    .help =
		"price in dollars per node-hour, until the first one in `prices`; needed unless "
		"that is at the start or before",
	    .type = ESPL_OPT_MONEY,
	    .min = "0" },
	[COL_MARKET] = { .name = "market",
	    .help = "on-demand, spot or any other name",
	    .type = ESPL_OPT_STRING,
	    .fallback = "on-demand" },
	[COL_BILLING] = { .name = "billing",
	    .help = "charge by lease or by busy GPU-second",
	    .type = ESPL_OPT_CHOICE,
	    .fallback = "instance",
	    .choices = "instance|function" },
	[COL_MINIMUM] = { .name = "minimum_charge",
	    .help = "minimum time charged per lease",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s" },
	[COL_STEP] = { .name = "billing_step",
	    .help = "round the time of a lease up to a multiple of this; 0s: no rounding",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s" },
	[COL_FROM] = { .name = "billed_from",
	    .help = "event at which billing starts; overrides bill_init",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "request|boot|ready" },
	[COL_BILL_INIT] = { .name = "bill_init",
	    .help = "charge for the time of init",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true" },
	[COL_DATA] = { .name = "data_price_gb",
	    .help = "price in dollars per GB that a new node downloads",
	    .type = ESPL_OPT_MONEY,
	    .fallback = "0",
	    .min = "0" },
	[COL_PROVISION] = { .name = "provision",
	    .help = "time from the request to the boot",
	    .type = ESPL_OPT_LATENCY,
	    .fallback = "0s" },
	[COL_INIT] = { .name = "init",
	    .help = "time from the boot until the node is ready",
	    .type = ESPL_OPT_LATENCY,
	    .fallback = "0s" },
	[COL_NOTICE] = { .name = "notice",
	    .help = "time between the interruption notice and the end of the lease",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s" },
	[COL_REFUND] = { .name = "refund_before",
	    .help = "a lease interrupted before this time is free",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s" },
	[COL_LEASE_MAX] = { .name = "lease_max",
	    .help = "maximum duration of a lease; 0: no limit",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s" },
	[COL_REVOCABLE] = { .name = "revocable",
	    .help =
		"whether the provider may interrupt a lease; default: true if the market is spot",
	    .type = ESPL_OPT_BOOL },
	[COL_HAZARD] = { .name = "hazard_hour",
	    .help = "random interruptions per node-hour",
	    .type = ESPL_OPT_REAL,
	    .min = "0" },
	[COL_ESTIMATE] = { .name = "hazard_estimate",
	    .help = "interruptions per node-hour that policies expect; default: from the log "
		    "`interruptions` before the start, else hazard_hour",
	    .type = ESPL_OPT_REAL,
	    .min = "0" },
	[COL_HOURS] = { .name = "hazard_hours",
	    .help = "node-hours that this estimate is based on; 0: policies know no estimate; "
		    "default: that of the log, else the estimate counts as exact",
	    .type = ESPL_OPT_REAL,
	    .min = "0",
	    .max = "1e9" },
	[COL_FIXED] = { .name = "fixed_price",
	    .help = "on-demand price in dollars per node-hour; default: that of the on-demand "
		    "offer of this name",
	    .type = ESPL_OPT_MONEY,
	    .min = "0" },
	[COL_GPU_TYPE] = { .name = "gpu_type",
	    .help = "GPU model",
	    .type = ESPL_OPT_STRING,
	    .fallback = "" },
	[COL_ZONE] = { .name = "zone",
	    .help = "region or zone",
	    .type = ESPL_OPT_STRING,
	    .fallback = "" },
	[COL_MEMORY] = { .name = "memory",
	    .help = "memory per node; 0: unknown",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "0",
	    .min = "0" },
	[COL_GPU_MEMORY] = { .name = "gpu_memory",
	    .help = "memory per GPU; 0: unknown",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "0",
	    .min = "0" },
	[COL_NODES_MAX] = { .name = "nodes_max",
	    .help = "maximum number of nodes of this offer; default: nodes_max of the cloud",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "1000000" },
	[COL_MACHINES] = { .name = "machines",
	    .help = "number of machines that the provider has in truth, which policies do not "
		    "know; default: as many as are requested",
	    .type = ESPL_OPT_INT,
	    .min = "0",
	    .max = "100000" },
	[COL_FREE_FOR] = { .name = "free_for",
	    .help = "average time for which a machine can be had, before others take it",
	    .type = ESPL_OPT_SPAN,
	    .min = "1s" },
	[COL_TAKEN_FOR] = { .name = "taken_for",
	    .help = "average time for which others keep a machine; default: machines can always "
		    "be had",
	    .type = ESPL_OPT_SPAN,
	    .min = "1s" },
	[COL_WAIT] = { .name = "wait",
	    .help = "time for which a request waits for a machine before it is refused",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "0s",
	    .min = "0s" },
	[COL_CANARY] = { .name = "canary",
	    .help = "lease the first machine alone, and others once it is ready, as in clouds "
		    "whose machines are paid for",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false" } };
static const struct espl_option options[] = { [OPT_OFFERS] = { .name = "offers",
						  .help = "list of offers, one group each",
						  .type = ESPL_OPT_TABLE,
						  .columns = columns,
						  .column_count = COL_COUNT,
						  .flags = ESPL_OPT_REQUIRED },
	[OPT_NODES_MAX] = { .name = "nodes_max",
	    .help = "maximum number of nodes per offer; default: no limit",
	    .type = ESPL_OPT_INT,
	    .min = "1",
	    .max = "1000000" },
	[OPT_PRICES] = { .name = "prices",
	    .help = "CSV file of prices with the columns offer, time, price and, if needed, market "
		    "and zone",
	    .type = ESPL_OPT_PATH },
	[OPT_INTERRUPTIONS] = { .name = "interruptions",
	    .help = "CSV log of interruptions with the columns offer, time, nodes, interrupted "
		    "and, if needed, market and zone",
	    .type = ESPL_OPT_PATH },
	[OPT_START] = { .name = "start",
	    .help = "time in these files at which the run starts; default: 0, or with dates the "
		    "first at which all offers have prices",
	    .type = ESPL_OPT_STRING },
	[OPT_ONLY] = { .name = "only",
	    .help = "use only the offers with this name or market",
	    .type = ESPL_OPT_STRING } };

#define CLOUD_MAGIC 0x27181ac7u

struct cloud {
	uint32_t magic; /* CLOUD_MAGIC */
	struct cloud_sim_offer *list;
	uint32_t count;
};

/* ---- offers -------------------------------------------------------------------------- */

static espl_status
blame_row(struct espl_error *error, uint32_t row, const char *text, const char *name)
{
	if (error != NULL && error->status == ESPL_OK) {
		error->option = OPT_OFFERS;
		error->row = row;
	}
	return espl_fail(error, ESPL_E_CONFIG, text, name);
}

static void
fill_offer(struct cloud_sim_offer *sold, const struct espl_value *cell,
    const struct espl_value *nodes_max)
{
	struct espl_offer *o = &sold->offer;

	*o = (struct espl_offer){ .size = (uint32_t)sizeof *o,
		.number = ESPL_ANY,
		.gpus = (uint32_t)cell[COL_GPUS].as.i,
		.cpus = (uint32_t)cell[COL_CPUS].as.i,
		.nodes_max = ESPL_ANY,
		.name = cell[COL_NAME].as.s,
		.market = cell[COL_MARKET].as.s,
		.gpu_type = cell[COL_GPU_TYPE].as.s,
		.zone = cell[COL_ZONE].as.s,
		.memory_bytes = (uint64_t)cell[COL_MEMORY].as.i,
		.gpu_memory_bytes = (uint64_t)cell[COL_GPU_MEMORY].as.i,
		.data_gb = cell[COL_DATA].as.i,
		.billing = cell[COL_BILLING].as.i == 0 ? ESPL_BILL_NODE : ESPL_BILL_FUNCTION,
		.billing_step = cell[COL_STEP].as.i,
		.minimum_charge = cell[COL_MINIMUM].as.i,
		.refund_before = cell[COL_REFUND].as.i,
		.notice = cell[COL_NOTICE].as.i,
		.lease_max = cell[COL_LEASE_MAX].as.i,
		.provision = cell[COL_PROVISION].as.latency,
		.init = cell[COL_INIT].as.latency,
		.hazard_hour = NAN };
	sold->hazard_hour = NAN;
	sold->priced = cell[COL_PRICE].source != ESPL_UNSET;
	if (sold->priced)
		o->price_hour = cell[COL_PRICE].as.i;
	if (cell[COL_FIXED].source != ESPL_UNSET)
		o->fixed_price_hour = cell[COL_FIXED].as.i;
	if (cell[COL_HAZARD].source != ESPL_UNSET)
		sold->hazard_hour = cell[COL_HAZARD].as.r;
	if (cell[COL_NODES_MAX].source != ESPL_UNSET)
		o->nodes_max = (uint32_t)cell[COL_NODES_MAX].as.i;
	else if (nodes_max->source != ESPL_UNSET)
		o->nodes_max = (uint32_t)nodes_max->as.i;
	sold->supply = (struct espl_supply){ .size = (uint32_t)sizeof sold->supply,
		.machines = cell[COL_MACHINES].source != ESPL_UNSET
		    ? (uint32_t)cell[COL_MACHINES].as.i
		    : ESPL_ANY,
		.free_s = espl_seconds(cell[COL_FREE_FOR].as.i),
		.taken_s = espl_seconds(cell[COL_TAKEN_FOR].as.i),
		.wait = cell[COL_WAIT].as.i };
	if (cell[COL_FROM].source != ESPL_UNSET)
		o->billed_from = ESPL_BILL_FROM_REQUEST + (espl_bill_start)cell[COL_FROM].as.i;
	else
		o->billed_from =
		    cell[COL_BILL_INIT].as.i ? ESPL_BILL_FROM_BOOT : ESPL_BILL_FROM_READY;
	if (cell[COL_REVOCABLE].source != ESPL_UNSET ? cell[COL_REVOCABLE].as.i != 0
						     : strcmp(o->market, "spot") == 0)
		o->flags |= ESPL_OFFER_REVOCABLE;
	if (cell[COL_CANARY].as.i)
		o->flags |= ESPL_OFFER_CANARY;
}

static espl_status
check_supply(const struct cloud_sim_offer *sold, uint32_t row, struct espl_error *error)
{
	const struct espl_supply *s = &sold->supply;

	if (s->machines == ESPL_ANY && (s->free_s > 0 || s->taken_s > 0 || s->wait > 0))
		return espl_hint(error,
		    blame_row(error, row,
			"offer '%s' has free_for, taken_for or wait, but not machines",
			sold->offer.name),
		    "say how many machines there are: machines = 8");
	if ((s->free_s > 0) != (s->taken_s > 0))
		return blame_row(error, row,
		    "offer '%s' has one of free_for and taken_for without the other",
		    sold->offer.name);
	return ESPL_OK;
}

static espl_status
check_offer(const struct cloud *cloud, uint32_t row, const struct espl_value *cell,
    struct espl_error *error)
{
	const struct cloud_sim_offer *sold = &cloud->list[row];
	const struct espl_offer *o = &sold->offer;

	ESPL_ASSERT(row < cloud->count);
	if (o->name[0] == '\0')
		return blame_row(error, row, "an offer has an empty name%s", "");
	if (o->market[0] == '\0')
		return blame_row(error, row, "offer '%s' has an empty market", o->name);
	for (uint32_t i = 0; i < row; i++)
		if (strcmp(cloud->list[i].offer.name, o->name) == 0 &&
		    strcmp(cloud->list[i].offer.market, o->market) == 0) {
			blame_row(error, row, "offer '%s' is listed twice with the same market",
			    o->name);
			if (error != NULL && error->hint[0] == '\0')
				(void)snprintf(error->hint, sizeof error->hint,
				    "change the name or market of one of them");
			return ESPL_E_CONFIG;
		}
	if (o->billing_step < 0)
		return blame_row(error, row, "offer '%s': billing_step must not be negative",
		    o->name);
	if (cell[COL_FROM].source != ESPL_UNSET && cell[COL_BILL_INIT].source > ESPL_FALLBACK)
		return blame_row(error, row, "offer '%s' sets both billed_from and bill_init",
		    o->name);
	if ((!isnan(sold->hazard_hour) || cell[COL_ESTIMATE].source != ESPL_UNSET ||
		cell[COL_HOURS].source != ESPL_UNSET) &&
	    !(o->flags & ESPL_OFFER_REVOCABLE))
		return blame_row(error, row, "offer '%s' has a hazard but is not revocable",
		    o->name);
	if (o->refund_before > 0 && !(o->flags & ESPL_OFFER_REVOCABLE))
		return blame_row(error, row, "offer '%s' has a refund_before but is not revocable",
		    o->name);
	if (o->lease_max > 0 && o->notice > o->lease_max)
		return blame_row(error, row, "offer '%s': notice is longer than lease_max",
		    o->name);
	return check_supply(sold, row, error);
}

/* What the same machine costs on demand. */
static void
fixed_prices(struct cloud *cloud)
{
	for (uint32_t i = 0; i < cloud->count; i++) {
		struct espl_offer *o = &cloud->list[i].offer;

		for (uint32_t j = 0; j < cloud->count && o->fixed_price_hour == 0; j++)
			if (strcmp(cloud->list[j].offer.name, o->name) == 0 &&
			    strcmp(cloud->list[j].offer.market, "on-demand") == 0)
				o->fixed_price_hour = cloud->list[j].offer.price_hour;
	}
}

/* ---- the plugin ---------------------------------------------------------------------- */

static void
cloud_sim_destroy(void *self)
{
	struct cloud *cloud = self;

	ESPL_ASSERT(cloud != NULL && cloud->magic == CLOUD_MAGIC);
	cloud->magic = 0;
	for (uint32_t i = 0; i < cloud->count; i++) {
		free(cloud->list[i].prices);
		free(cloud->list[i].seen);
		free(cloud->list[i].log);
	}
	free(cloud->list);
	free(cloud);
}

/* The price in force at the start: that of the last record until then. */
static void
present_price(struct cloud_sim_offer *sold)
{
	const struct espl_price *best = NULL;

	for (uint32_t i = 0; i < sold->price_count; i++) {
		const struct espl_price *p = &sold->prices[i];

		if (p->from <= 0 && (best == NULL || p->from >= best->from))
			best = p;
	}
	if (best != NULL)
		sold->offer.price_hour = best->usd_hour;
}

/* Option `only` is not set, or is the offer's name or market. */
static int
is_used(const struct cloud_sim_offer *sold, const struct espl_value *only)
{
	return only->source == ESPL_UNSET || strcmp(sold->offer.name, only->as.s) == 0 ||
	    strcmp(sold->offer.market, only->as.s) == 0;
}

/* Of the lines of a file that are of offers. */
struct file_span {
	espl_time first, last;
	int some;
};

/* *calendar as the reader has it. */
static espl_status
read_file(const struct espl_host *host, struct cloud *cloud, uint32_t option, const char *what,
    struct file_span *span, int32_t *calendar, struct espl_error *error)
{
	struct cloud_sim_reading r = { .list = cloud->list,
		.offers = cloud->count,
		.what = what,
		.option = option,
		.error = error };
	const void *bytes;
	uint64_t size;
	espl_status status = host->file(host, option, ESPL_ANY, ESPL_ANY, &bytes, &size, error);

	if (status != ESPL_OK)
		return status;
	status = cloud_sim_read(&r, bytes, size, option == OPT_INTERRUPTIONS);
	*span = (struct file_span){ r.first, r.last, r.used };
	if (status == ESPL_OK && *calendar >= 0 && r.reader.calendar >= 0 &&
	    r.reader.calendar != *calendar)
		status = espl_blame(error, option,
		    "prices and interruptions must both have dates, or both seconds");
	if (r.reader.calendar >= 0)
		*calendar = r.reader.calendar;
	cloud_sim_read_end(&r);
	return status;
}

static void
format_instant(espl_time at, int32_t calendar, char text[40])
{
	time_t seconds = (time_t)(at / ESPL_SECOND);
	struct tm tm;

	if (calendar == 1 && gmtime_r(&seconds, &tm) != NULL)
		(void)strftime(text, 40, "%Y-%m-%dT%H:%M:%SZ", &tm);
	else
		(void)snprintf(text, 40, "%.15g", espl_seconds(at));
}

/* Outside the recorded prices, the first or the last one would always apply. */
static espl_status
check_start(const struct file_span *prices, int32_t calendar, espl_time zero,
    struct espl_error *error)
{
	char first[40], last[40];

	if (!prices->some || (zero >= prices->first && zero <= prices->last))
		return ESPL_OK;
	format_instant(prices->first, calendar, first);
	format_instant(prices->last, calendar, last);
	return espl_hint(error,
	    espl_blame(error, OPT_START,
		zero < prices->first ? "start is before the first of the prices"
				     : "start is after the last of the prices"),
	    "the prices of these offers are from %s to %s", first, last);
}

/* A later price must not be used at the start: it is not known yet. */
static espl_status
check_priced(const struct cloud *cloud, const struct espl_value *only, int32_t calendar,
    espl_time zero, struct espl_error *error)
{
	char text[40];

	for (uint32_t i = 0; i < cloud->count; i++) {
		const struct cloud_sim_offer *sold = &cloud->list[i];
		espl_time first = cloud_sim_first_price(sold);

		if (sold->priced || first == ESPL_NEVER || first <= zero || !is_used(sold, only))
			continue;
		format_instant(first, calendar, text);
		return espl_hint(error,
		    blame_row(error, i, "offer '%s' has no price at the start yet",
			sold->offer.name),
		    "its first price is at %s: start at that time or later, or give it a price",
		    text);
	}
	return ESPL_OK;
}

/* The instant of the files at which the run begins. */
static espl_status
find_start(const struct espl_value *start, espl_time first, int32_t calendar, espl_time *zero,
    struct espl_error *error)
{
	int32_t given;

	*zero = calendar == 1 ? first : 0;
	if (start->source == ESPL_UNSET ||
	    (espl_price_time(start->as.s, strlen(start->as.s), zero, &given) == 0 &&
		(calendar < 0 || given == calendar)))
		return ESPL_OK;
	return espl_blame(error, OPT_START,
	    calendar == 1 ? "start must be a date, like the times in the file"
			  : "start must be in seconds, like the times in the file");
}

static espl_status
read_files(const struct espl_host *host, struct cloud *cloud, const struct espl_config *config,
    struct espl_error *error)
{
	const struct espl_value *start = &config->values[OPT_START];
	int prices = config->values[OPT_PRICES].source != ESPL_UNSET;
	int log = config->values[OPT_INTERRUPTIONS].source != ESPL_UNSET;
	struct file_span priced = { 0, 0, 0 }, logged = { 0, 0, 0 };
	espl_time zero = 0;
	int32_t calendar = -1;
	espl_status status = ESPL_OK;

	if (!prices && !log)
		return start->source == ESPL_UNSET
		    ? ESPL_OK
		    : espl_blame(error, OPT_START, "start requires prices or interruptions");
	if (prices)
		status = read_file(host, cloud, OPT_PRICES, "prices", &priced, &calendar, error);
	if (status == ESPL_OK && log)
		status = read_file(host, cloud, OPT_INTERRUPTIONS, "interruptions", &logged,
		    &calendar, error);
	if (status == ESPL_OK)
		status = find_start(start,
		    prices ? cloud_sim_all_priced(cloud->list, cloud->count) : logged.first,
		    calendar, &zero, error);
	if (status == ESPL_OK && start->source != ESPL_UNSET)
		status = check_start(&priced, calendar, zero, error);
	if (status == ESPL_OK)
		status = check_priced(cloud, &config->values[OPT_ONLY], calendar, zero, error);
	return status == ESPL_OK ? cloud_sim_begin_at(cloud->list, cloud->count, zero) : status;
}

/* What policies see of an offer's interruptions. */
static espl_status
estimate_hazard(struct cloud *cloud, uint32_t row, const struct espl_value *cell,
    struct espl_error *error)
{
	struct cloud_sim_offer *sold = &cloud->list[row];
	struct espl_offer *o = &sold->offer;
	double logged, hours;

	if (sold->seen_count > 0 && !(o->flags & ESPL_OFFER_REVOCABLE))
		return blame_row(error, row,
		    "offer '%s' has interruptions in the log but is not revocable", o->name);
	cloud_sim_sum_log(sold, &logged, &hours);
	o->hazard_hour = cell[COL_ESTIMATE].source != ESPL_UNSET ? cell[COL_ESTIMATE].as.r
	    : sold->seen_count > 0                               ? logged
								 : sold->hazard_hour;
	o->hazard_hours = cell[COL_ESTIMATE].source == ESPL_UNSET ? hours : 0;
	if (cell[COL_HOURS].source != ESPL_UNSET) {
		o->hazard_hours = cell[COL_HOURS].as.r;
		if (!(o->hazard_hours > 0))
			o->hazard_hour = NAN;
	}
	return ESPL_OK;
}

/* Leaves the offers with this name or market alone. */
static espl_status
keep_only(struct cloud *cloud, const struct espl_value *only, struct espl_error *error)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < cloud->count; i++) {
		struct cloud_sim_offer *sold = &cloud->list[i], dropped = *sold;

		if (!is_used(sold, only))
			continue;
		*sold = cloud->list[kept];
		cloud->list[kept++] = dropped;
	}
	if (kept == 0)
		return espl_blame(error, OPT_ONLY, "no offer has this name or market");
	while (cloud->count > kept) {
		struct cloud_sim_offer *sold = &cloud->list[--cloud->count];

		free(sold->prices);
		free(sold->seen);
		free(sold->log);
	}
	return ESPL_OK;
}

static espl_status
cloud_sim_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	const struct espl_table *table = config->values[OPT_OFFERS].as.table;
	struct cloud *cloud;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(table != NULL && table->column_count == COL_COUNT);
	if (table->row_count == 0)
		return espl_blame(error, OPT_OFFERS, "the list of offers is empty");
	cloud = calloc(1, sizeof *cloud);
	if (cloud == NULL)
		return ESPL_E_NOMEM;
	cloud->magic = CLOUD_MAGIC;
	cloud->list = calloc(table->row_count, sizeof *cloud->list);
	if (cloud->list == NULL) {
		free(cloud);
		return ESPL_E_NOMEM;
	}
	for (uint32_t row = 0; row < table->row_count && status == ESPL_OK; row++) {
		const struct espl_value *cell = table->cells + (size_t)row * table->column_count;

		fill_offer(&cloud->list[row], cell, &config->values[OPT_NODES_MAX]);
		cloud->count = row + 1;
		status = check_offer(cloud, row, cell, error);
	}
	if (status == ESPL_OK)
		status = read_files(host, cloud, config, error);
	for (uint32_t i = 0; i < cloud->count && status == ESPL_OK; i++) {
		if (!cloud->list[i].priced && cloud->list[i].price_count == 0)
			status = blame_row(error, i,
			    "offer '%s' has neither a price nor a record in prices",
			    cloud->list[i].offer.name);
		else
			status = estimate_hazard(cloud, i,
			    table->cells + (size_t)i * table->column_count, error);
		present_price(&cloud->list[i]);
	}
	if (status == ESPL_OK)
		fixed_prices(cloud);
	if (status == ESPL_OK && config->values[OPT_ONLY].source != ESPL_UNSET)
		status = keep_only(cloud, &config->values[OPT_ONLY], error);
	if (status != ESPL_OK) {
		cloud_sim_destroy(cloud);
		return status;
	}
	*self = cloud;
	return ESPL_OK;
}

/* Where policies do not know it. */
static espl_status
describe_truth(const struct cloud_sim_offer *sold, const struct espl_cloud_events *events)
{
	double rate = isnan(sold->hazard_hour) ? 0 : sold->hazard_hour;

	if (!ESPL_KNOWS(struct espl_cloud_events, events, interruptions) ||
	    events->interruptions == NULL ||
	    (sold->log_count == 0 &&
		(sold->offer.hazard_hour == rate ||
		    (isnan(sold->offer.hazard_hour) && isnan(sold->hazard_hour)))))
		return ESPL_OK;
	return events->interruptions(events, sold->offer.name, sold->offer.market, rate, sold->log,
	    sold->log_count);
}

static espl_status
cloud_sim_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	const struct cloud *cloud = self;

	ESPL_ASSERT(cloud != NULL && cloud->magic == CLOUD_MAGIC);
	for (uint32_t i = 0; i < cloud->count; i++) {
		const struct cloud_sim_offer *sold = &cloud->list[i];
		espl_status status = events->offer(events, &sold->offer);

		if (status == ESPL_OK && sold->price_count > 0)
			status = events->prices(events, sold->offer.name, sold->offer.market,
			    sold->prices, sold->price_count);
		if (status == ESPL_OK)
			status = describe_truth(sold, events);
		if (status == ESPL_OK && sold->supply.machines != ESPL_ANY &&
		    ESPL_KNOWS(struct espl_cloud_events, events, supply) && events->supply != NULL)
			status = events->supply(events, sold->offer.name, sold->offer.market,
			    &sold->supply);
		if (status != ESPL_OK)
			return espl_fail(error, status, "offer '%s' was rejected",
			    sold->offer.name);
	}
	return ESPL_OK;
}

#define NO_MACHINES "the sim cloud has no machines; use `espalier simulate`"

static espl_status
cloud_sim_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	(void)self;
	(void)error;
	events->done(events, 0, ESPL_E_UNSUPPORTED, NO_MACHINES);
	return ESPL_OK;
}

static espl_status
cloud_sim_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	(void)self;
	(void)list;
	(void)count;
	return espl_fail(error, ESPL_E_UNSUPPORTED, NO_MACHINES);
}

static espl_status
cloud_sim_leases(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	(void)self;
	(void)list;
	(void)count;
	return espl_fail(error, ESPL_E_UNSUPPORTED, NO_MACHINES);
}

static espl_status
cloud_sim_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)lease;
	(void)sink;
	return espl_fail(error, ESPL_E_UNSUPPORTED, NO_MACHINES);
}

static const struct espl_cloud_ops ops = { ESPL_TABLE(struct espl_cloud_ops),
	.start = cloud_sim_start, .acquire = cloud_sim_acquire, .release = cloud_sim_leases,
	.adopt = cloud_sim_leases, .reach = cloud_sim_reach, .describe = cloud_sim_describe };

ESPL_PLUGIN(cloud, sim) = { ESPL_HEAD(ESPL_CLOUD, "sim"), .version = "0.1",
	.summary = "simulated offers and prices, without machines",
	.caps = ESPL_CAP_PURE | ESPL_CAP_SIMULATED, ESPL_OPTIONS(options), .ops = &ops.head,
	.create = cloud_sim_create, .destroy = cloud_sim_destroy };
