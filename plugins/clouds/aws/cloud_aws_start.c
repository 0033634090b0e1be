/* cloud_aws_start.c - what is asked before anything is leased: whose keys these are, the subnet of
 * each zone, the types of machines, the image; then the prices of spot machines, again and again.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cloud_aws.h"

#define TRIES_MOST 5u
#define PRICES_AGAIN (600 * ESPL_SECOND)

/* ---- offers ---- */

static espl_status
tell_offer(const struct aws_offer *o, const struct espl_cloud_events *events)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	struct espl_offer offer = ESPL_INIT(struct espl_offer);

	offer.flags = aws_is_spot(o) ? ESPL_OFFER_MARKET | ESPL_OFFER_REVOCABLE : 0;
	offer.number = ESPL_ANY;
	offer.gpus = (uint32_t)o->row[AWS_COL_GPUS].as.i;
	offer.cpus = o->cpus;
	offer.nodes_max = (uint32_t)o->row[AWS_COL_NODES].as.i;
	offer.name = o->name;
	offer.market = aws_market(o);
	offer.gpu_type = o->row[AWS_COL_GPU_TYPE].as.s;
	offer.zone = o->zone;
	offer.memory_bytes = o->memory;
	offer.gpu_memory_bytes = o->gpu_memory;
	offer.fixed_price_hour = o->row[AWS_COL_PRICE].as.i;
	offer.price_hour =
	    o->price_count > 0 ? o->prices[o->price_count - 1].usd_hour : offer.fixed_price_hour;
	offer.billing = ESPL_BILL_NODE;
	offer.billed_from = ESPL_BILL_FROM_BOOT;
	offer.billing_step = ESPL_SECOND;
	offer.minimum_charge = 60 * ESPL_SECOND;
	offer.refund_before = aws_is_spot(o) ? AWS_FREE_S * ESPL_SECOND : 0;
	offer.notice = aws_is_spot(o) ? AWS_NOTICE_S * ESPL_SECOND : 0;
	offer.provision = &none;
	offer.init = o->row[AWS_COL_LATENCY].as.latency;
	offer.hazard_hour = NAN;
	return events->offer(events, &offer);
}

espl_status
cloud_aws_describe(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	const struct aws_cloud *cloud = self;
	espl_status status = ESPL_OK;

	(void)error;
	for (uint32_t i = 0; i < cloud->offer_count && status == ESPL_OK; i++)
		status = tell_offer(&cloud->offers[i], events);
	return status;
}

/* ---- steps ---- */

static void
end_start(struct aws_cloud *cloud, espl_status status, const char *text)
{
	cloud->starting = 0;
	if (status == ESPL_OK)
		(void)cloud_aws_describe(cloud, cloud->events, NULL);
	cloud->events->done(cloud->events, 0, status, text);
}

static void
add_types(const struct aws_cloud *cloud, struct aws_query *query, int spot_only)
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

static int
is_spot_offered(const struct aws_cloud *cloud)
{
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		if (aws_is_spot(&cloud->offers[i]))
			return 1;
	return 0;
}

/* Sends the request of this step of start, or ends it. */
static void
ask_step(struct aws_cloud *cloud, enum aws_request step)
{
	struct aws_query query = { NULL, 0, 0, 0 };
	const char *service = "ec2";
	espl_status status;

	if (step == AWS_IMAGE && strncmp(cloud->image, "ssm:", 4) != 0)
		step = AWS_PRICES;
	if (step == AWS_PRICES && !is_spot_offered(cloud)) {
		end_start(cloud, ESPL_OK, "");
		return;
	}
	if (step != cloud->starting)
		cloud->tries = 0;
	cloud->starting = step;
	switch (step) {
	case AWS_CALLER:
		cloud_aws_query_begin(&query, "GetCallerIdentity", "2011-06-15");
		service = "sts";
		break;
	case AWS_SUBNETS: cloud_aws_query_begin(&query, "DescribeSubnets", "2016-11-15"); break;
	case AWS_TYPES:
		cloud_aws_query_begin(&query, "DescribeInstanceTypes", "2016-11-15");
		add_types(cloud, &query, 0);
		break;
	case AWS_IMAGE: service = "ssm"; break;
	default: cloud_aws_prices_ask(cloud); return;
	}
	status = cloud_aws_send(cloud, &query, service, AWS_COOKIE(0, step));
	if (status != ESPL_OK)
		end_start(cloud, status, cloud->warned);
}

void
cloud_aws_start_retry(struct aws_cloud *cloud)
{
	if (cloud->starting != 0)
		ask_step(cloud, cloud->starting);
}

espl_status
cloud_aws_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct aws_cloud *cloud = self;

	if (cloud->io == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "it needs espl_io");
	cloud->events = events;
	ask_step(cloud, AWS_CALLER);
	return ESPL_OK;
}

/* ---- answers ---- */

/* A run belongs to one account and region: elsewhere its machines would not be found, and would
 * run on.  -1: this is another one. */
static int
check_account(struct aws_cloud *cloud, const char *account, char text[AWS_TEXT])
{
	char path[4200], line[200], known[200] = "";
	FILE *file;

	if (cloud->run == NULL) /* `check` */
		return 0;
	(void)snprintf(path, sizeof path, "%s/aws-account", cloud->run->folder);
	(void)snprintf(line, sizeof line, "%.60s %.60s\n", account,
	    aws_text(cloud, AWS_OPT_REGION));
	file = fopen(path, "r");
	if (file != NULL) {
		if (fgets(known, sizeof known, file) == NULL)
			known[0] = '\0';
		(void)fclose(file);
	}
	cloud->resumed = known[0] != '\0';
	if (strcmp(known, line) == 0)
		return 0;
	if (known[0] != '\0') {
		known[strcspn(known, "\n")] = line[strcspn(line, "\n")] = '\0';
		(void)snprintf(text, AWS_TEXT,
		    "this run began with account and region %s, and these keys are of %s: its "
		    "machines would not be found",
		    known, line);
		return -1;
	}
	file = fopen(path, "w");
	if (file == NULL || fputs(line, file) == EOF || fclose(file) != 0) {
		(void)snprintf(text, AWS_TEXT, "cannot write %.400s: %s", path, strerror(errno));
		return -1;
	}
	return 0;
}

/* A zone has one default subnet; the user may name another one. */
static int
take_subnets(struct aws_cloud *cloud, const struct aws_element *document, char text[AWS_TEXT])
{
	const struct aws_element *set = cloud_aws_answer_find(document, "subnetSet");

	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		struct aws_offer *o = &cloud->offers[i];
		const char *wanted =
		    o->row[AWS_COL_SUBNET].source != ESPL_UNSET ? o->row[AWS_COL_SUBNET].as.s : "";
		const struct aws_element *item = set != NULL ? set->first : NULL;

		for (; item != NULL; item = item->next) {
			const char *id = cloud_aws_answer_text(item, "subnetId");
			const char *zone = cloud_aws_answer_text(item, "availabilityZone");
			const char *is = cloud_aws_answer_text(item, "defaultForAz");

			if (strcmp(zone, o->zone) == 0 &&
			    (wanted[0] != '\0' ? strcmp(id, wanted) == 0 : strcmp(is, "true") == 0))
				break;
		}
		if (item == NULL) {
			(void)snprintf(text, AWS_TEXT,
			    "zone %s has no %s%s; set 'subnet' of the offer", o->zone,
			    wanted[0] != '\0' ? "subnet " : "default subnet", wanted);
			return -1;
		}
		(void)snprintf(o->subnet, sizeof o->subnet, "%s",
		    cloud_aws_answer_text(item, "subnetId"));
	}
	return 0;
}

static uint64_t
read_number(const struct aws_element *item, const char *path)
{
	return strtoull(cloud_aws_answer_text(item, path), NULL, 10);
}

/* -1: the type has other GPUs than the user says. */
static int
take_type(struct aws_offer *o, const struct aws_element *item, char text[AWS_TEXT])
{
	const struct aws_element *gpu = cloud_aws_answer_find(item, "gpuInfo/gpus/item");
	uint64_t count = read_number(gpu, "count"), shares = read_number(gpu, "logicalGpuCount");
	uint64_t wanted = (uint64_t)o->row[AWS_COL_GPUS].as.i;

	if (count < shares)
		count = shares; /* parts of one GPU */
	o->cpus = (uint32_t)read_number(item, "vCpuInfo/defaultVCpus");
	o->memory = read_number(item, "memoryInfo/sizeInMiB") << 20;
	o->gpu_memory = read_number(gpu, "memoryInfo/sizeInMiB") << 20;
	if (strcmp(o->row[AWS_COL_GPU_TYPE].as.s, "cpu") == 0 || count == wanted)
		return 0;
	(void)snprintf(text, AWS_TEXT,
	    "%s has %llu GPU%s, but gpus = %llu; for slots on its cores set gpu_type = \"cpu\"",
	    o->row[AWS_COL_TYPE].as.s, (unsigned long long)count, count == 1 ? "" : "s",
	    (unsigned long long)wanted);
	return -1;
}

static int
take_types(struct aws_cloud *cloud, const struct aws_element *document, char text[AWS_TEXT])
{
	const struct aws_element *set = cloud_aws_answer_find(document, "instanceTypeSet");

	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		const char *type = cloud->offers[i].row[AWS_COL_TYPE].as.s;
		const struct aws_element *item = set != NULL ? set->first : NULL;

		while (
		    item != NULL && strcmp(cloud_aws_answer_text(item, "instanceType"), type) != 0)
			item = item->next;
		if (item == NULL) {
			(void)snprintf(text, AWS_TEXT, "there is no type %s in this region", type);
			return -1;
		}
		if (take_type(&cloud->offers[i], item, text) != 0)
			return -1;
	}
	return 0;
}

static enum aws_class
take_image(struct aws_cloud *cloud, const struct espl_http_reply *reply, char text[AWS_TEXT])
{
	json_t *root =
	    reply->status == ESPL_OK ? json_loadb(reply->body, reply->body_size, 0, NULL) : NULL;
	const char *value =
	    json_string_value(json_object_get(json_object_get(root, "Parameter"), "Value"));
	const char *type = json_string_value(json_object_get(root, "__type"));
	enum aws_class class = AWS_UNKNOWN;

	if (reply->code == 200 && value != NULL && strncmp(value, "ami-", 4) == 0 &&
	    strlen(value) < sizeof cloud->image) {
		(void)snprintf(cloud->image, sizeof cloud->image, "%s", value);
		class = AWS_FINE;
	} else if (type != NULL) {
		(void)snprintf(text, AWS_TEXT, "image '%.300s': %.200s",
		    aws_text(cloud, AWS_OPT_IMAGE), type);
		class = cloud_aws_answer_class(type, reply->code);
	} else {
		(void)snprintf(text, AWS_TEXT, "GetParameter: %.300s",
		    reply->status == ESPL_OK ? "the answer cannot be read" : reply->text);
	}
	json_decref(root);
	return class;
}

void
cloud_aws_start_reply(struct aws_cloud *cloud, const struct espl_http_reply *reply)
{
	static const char *const actions[] = { [AWS_CALLER] = "GetCallerIdentity",
		[AWS_SUBNETS] = "DescribeSubnets",
		[AWS_TYPES] = "DescribeInstanceTypes" };
	enum aws_request step = cloud->starting;
	struct aws_element *document = NULL;
	char text[AWS_TEXT] = "";
	int failed = 0;
	enum aws_class class = step == AWS_IMAGE
	    ? take_image(cloud, reply, text)
	    : cloud_aws_answer_reply(reply, actions[step], &document, text);

	if ((class == AWS_AGAIN || class == AWS_UNKNOWN) && ++cloud->tries < TRIES_MOST &&
	    cloud->io->timer(cloud->io, cloud->tries * ESPL_SECOND / 2, AWS_COOKIE(0, AWS_RETRY)) ==
		ESPL_OK)
		return;
	if (class != AWS_FINE)
		failed = -1;
	else if (step == AWS_CALLER)
		failed = check_account(cloud,
		    cloud_aws_answer_text(document, "GetCallerIdentityResult/Account"), text);
	else if (step == AWS_SUBNETS)
		failed = take_subnets(cloud, document, text);
	else if (step == AWS_TYPES)
		failed = take_types(cloud, document, text);
	cloud_aws_answer_free(document);
	if (failed != 0)
		end_start(cloud, ESPL_E_REMOTE, text);
	else
		ask_step(cloud, step + 1);
}

/* ---- prices ---- */

/* From the earliest launch on: what a lease has cost is summed up at its end. */
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
	from = (time_t)from_s;
	(void)gmtime_r(&from, &tm);
	(void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
	cloud_aws_query_begin(&query, "DescribeSpotPriceHistory", "2016-11-15");
	add_types(cloud, &query, 1);
	cloud_aws_query_add(&query, "Linux/UNIX", "ProductDescription.1");
	cloud_aws_query_add(&query, "Linux/UNIX (Amazon VPC)", "ProductDescription.2");
	cloud_aws_query_add(&query, text, "StartTime");
	cloud_aws_query_add(&query, "1000", "MaxResults");
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		cloud->offers[i].fresh_count = 0;
	cloud->prices_at = cloud->host->now(cloud->host) + PRICES_AGAIN;
	if (cloud_aws_pages(cloud, AWS_PRICES, &query) != 0 && cloud->starting == AWS_PRICES)
		end_start(cloud, ESPL_E_REMOTE, cloud->warned);
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

/* Each price change is reported to the host once; none is in the future. */
static void
tell_prices(struct aws_cloud *cloud, struct aws_offer *o)
{
	espl_time now = cloud->host->now(cloud->host);
	int64_t utc_s = cloud_aws_utc(cloud);

	for (uint32_t i = 0; i < o->price_count; i++) {
		int64_t age_s = utc_s - o->prices[i].from_s;
		struct espl_price price = { now - (age_s > 0 ? age_s : 0) * ESPL_SECOND,
			o->prices[i].usd_hour };

		if (o->prices[i].from_s <= o->told_s)
			continue;
		o->told_s = o->prices[i].from_s;
		(void)cloud->events->prices(cloud->events, o->name, aws_market(o), &price, 1);
	}
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
	if (fine)
		use_prices(cloud);
	else
		cloud_aws_warn(cloud, text); /* machines can be leased without */
	if (cloud->starting == AWS_PRICES)
		end_start(cloud, ESPL_OK, "");
	for (uint32_t i = 0; fine && i < cloud->offer_count; i++)
		tell_prices(cloud, &cloud->offers[i]);
	cloud_aws_leases_priced(cloud, fine);
}
