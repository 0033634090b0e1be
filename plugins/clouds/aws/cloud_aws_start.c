/* cloud_aws_start.c - the queries before anything is leased: the owner of the keys, the subnet of
 * each zone, the instance types, the image, whether another driver runs its machines, whether EC2
 * would accept the requests, and the quotas; then prices.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_aws.h"

#define TRIES_MOST 5u

/* ---- offers ---- */

static espl_status
report_offer(const struct aws_offer *o, const struct espl_cloud_events *events)
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
	offer.fixed_price_hour = o->price_hour;
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
	cloud_aws_table_report(cloud);
	for (uint32_t i = 0; i < cloud->offer_count && status == ESPL_OK; i++)
		status = report_offer(&cloud->offers[i], events);
	return status;
}

/* ---- steps ---- */

void
cloud_aws_start_end(struct aws_cloud *cloud, espl_status status, const char *text)
{
	cloud->starting = 0;
	if (status == ESPL_OK)
		(void)cloud_aws_describe(cloud, cloud->events, NULL);
	for (uint32_t i = 0; status == ESPL_OK && i < cloud->offer_count; i++)
		cloud_aws_prices_report(cloud, &cloud->offers[i]);
	cloud->events->done(cloud->events, 0, status, text);
}

static int
is_spot_offered(const struct aws_cloud *cloud)
{
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		if (aws_is_spot(&cloud->offers[i]))
			return 1;
	return 0;
}

/* The run was begun, or resumed last, by another user, on another machine or in another folder:
 * that process may still be there. */
static int
is_moved(const struct aws_cloud *cloud)
{
	const char *driver = cloud_aws_record_get(cloud, "driver", "");

	return driver != NULL && strcmp(driver, cloud->driver_name) != 0 &&
	    cloud_aws_record_get(cloud, "run", "") != NULL;
}

static void
ask_foreign(struct aws_cloud *cloud)
{
	struct aws_query query;

	cloud_aws_query_listing(&query, cloud_aws_record_get(cloud, "run", ""));
	if (cloud_aws_pages(cloud, AWS_FOREIGN, &query) != 0)
		cloud_aws_start_end(cloud, ESPL_E_REMOTE, cloud->warned);
}

/* In a run that has leased machines, and where machines are only listed or released, these steps
 * are left out: what has changed must not keep machines from being found and ended. */
static int
is_left_out(const struct aws_cloud *cloud, enum aws_request step)
{
	switch (step) {
	case AWS_SUBNETS:
	case AWS_TYPES: return cloud->visit != NULL;
	case AWS_IMAGE: return cloud->visit != NULL || strncmp(cloud->image, "ssm:", 4) != 0;
	case AWS_FOREIGN: return cloud->visit != NULL || !is_moved(cloud);
	case AWS_KEYGEN:
		if (aws_number(cloud, AWS_OPT_HOST_KEY) != 0)
			return 1;
		/* fall through */
	case AWS_OFFERINGS:
	case AWS_DRY_RUN:
	case AWS_QUOTAS:
		return cloud->visit != NULL || cloud_aws_record_get(cloud, "run", "") != NULL;
	default: return 0;
	}
}

static void ask_step(struct aws_cloud *cloud, enum aws_request step);

static void
refuse_keygen(struct aws_cloud *cloud, const char *why)
{
	char text[AWS_TEXT];

	(void)snprintf(text, sizeof text,
	    "ssh-keygen, which makes the ssh host keys of machines, cannot be run%s%.300s\n"
	    "install it (it comes with ssh), or set cloud.host_key = \"accept\"",
	    why[0] != '\0' ? ": " : "", why);
	cloud_aws_start_end(cloud, ESPL_E_CONFIG, text);
}

/* Whether it is there: it prints how it is used. */
static void
ask_keygen(struct aws_cloud *cloud)
{
	static const char *const words[] = { "ssh-keygen", "-?" };
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	struct espl_error error = ESPL_INIT(struct espl_error);

	spawn.argc = 2;
	spawn.argv = words;
	spawn.limit = 20 * ESPL_SECOND;
	spawn.cookie = AWS_COOKIE(0, AWS_KEYGEN);
	if (cloud->io->spawn(cloud->io, &spawn, &error) != ESPL_OK)
		refuse_keygen(cloud, error.text);
}

void
cloud_aws_start_child(struct aws_cloud *cloud, const struct espl_child *child)
{
	if (cloud->starting != AWS_KEYGEN)
		return;
	if (child->status == ESPL_E_REMOTE)
		refuse_keygen(cloud, child->err != NULL ? child->err : "");
	else
		ask_step(cloud, AWS_KEYGEN + 1);
}

/* Sends the request of this step of start, or ends it. */
static void
ask_step(struct aws_cloud *cloud, enum aws_request step)
{
	struct aws_query query = { NULL, 0, 0, 0 };
	const char *service = "ec2";
	espl_status status;
	char text[AWS_TEXT];

	if (step == AWS_QUOTAS && cloud->starting != AWS_QUOTAS)
		cloud->quota = cloud_aws_quotas_next(cloud, 0);
	if (step == AWS_QUOTAS && cloud->quota == UINT32_MAX)
		step++;
	while (is_left_out(cloud, step))
		step++;
	if (step == AWS_PRICES && /* nothing speaks against this driver */
	    (cloud_aws_table_record(cloud, text) != 0 ||
		cloud_aws_record_put(cloud, "driver", "", cloud->driver_name, text) != 0)) {
		cloud_aws_start_end(cloud, ESPL_E_REMOTE, text);
		return;
	}
	if (step == AWS_PRICES && !is_spot_offered(cloud)) {
		cloud_aws_start_end(cloud, ESPL_OK, "");
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
		cloud_aws_add_types(cloud, &query, 0);
		break;
	case AWS_OFFERINGS: cloud_aws_check_offerings(cloud, &query); break;
	case AWS_IMAGE: service = "ssm"; break;
	case AWS_DRY_RUN: cloud_aws_check_ask(cloud, &query); break;
	case AWS_QUOTAS: service = "servicequotas"; break;
	case AWS_FOREIGN: ask_foreign(cloud); return;
	case AWS_KEYGEN: ask_keygen(cloud); return;
	default: cloud_aws_prices_ask(cloud); return;
	}
	if (step == AWS_OFFERINGS)
		status = cloud_aws_pages(cloud, step, &query) == 0 ? ESPL_OK : ESPL_E_REMOTE;
	else
		status = cloud_aws_send(cloud, &query, service, AWS_COOKIE(0, step));
	if (status != ESPL_OK)
		cloud_aws_start_end(cloud, status, cloud->warned);
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
	const char *image;
	char text[AWS_TEXT];

	if (cloud->io == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "it needs espl_io");
	cloud->events = events;
	if (cloud_aws_record_read(cloud, text) != 0)
		return espl_fail(error, ESPL_E_REMOTE, "%s", text);
	image = cloud_aws_record_get(cloud, "image", cloud->image);
	if (image != NULL)
		(void)snprintf(cloud->image, sizeof cloud->image, "%s", image);
	if (cloud_aws_record_driver(cloud) != 0)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	cloud->checked = cloud->passed = 0;
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		cloud->offers[i].too_large = 0;
	cloud->has_history = 0;
	ask_step(cloud, AWS_KEYGEN);
	return ESPL_OK;
}

/* ---- answers ---- */

/* The same as in the process that began the run; -1: it is another one. */
static int
check_same(struct aws_cloud *cloud, const char *kind, const char *value, char text[AWS_TEXT])
{
	const char *known = cloud_aws_record_get(cloud, kind, "");

	if (known == NULL || strcmp(known, value) == 0)
		return cloud_aws_record_put(cloud, kind, "", value, text);
	(void)snprintf(text, AWS_TEXT,
	    "this run began in %s %.100s, and this is %s %.100s: its machines would not be found",
	    kind, known, kind, value);
	return -1;
}

/* A run belongs to one account and region: elsewhere its machines would not be found, and would
 * run on. */
static int
check_account(struct aws_cloud *cloud, const char *account, char text[AWS_TEXT])
{
	if (account[0] == '\0') {
		(void)snprintf(text, AWS_TEXT, "GetCallerIdentity: the answer names no account");
		return -1;
	}
	return check_same(cloud, "account", account, text) != 0
	    ? -1
	    : check_same(cloud, "region", cloud->region, text);
}

/* The subnet that the user names, or that the run has used so far; "": the default one of the zone.
 * In another subnet EC2 would answer a repeated request with a second machine. */
static int
find_wanted(const struct aws_cloud *cloud, const struct aws_offer *o, const char *key,
    const char **wanted, char text[AWS_TEXT])
{
	const char *known = cloud_aws_record_get(cloud, "subnet", key);

	*wanted = o->row[AWS_COL_SUBNET].source != ESPL_UNSET ? o->row[AWS_COL_SUBNET].as.s : "";
	if (known != NULL && (*wanted)[0] != '\0' && strcmp(known, *wanted) != 0) {
		(void)snprintf(text, AWS_TEXT,
		    "this run began with subnet %.60s for %s, and now it is to use %.60s: requests "
		    "that are under way would make a second machine",
		    known, key, *wanted);
		return -1;
	}
	if (known != NULL)
		*wanted = known;
	return 0;
}

/* A zone has one default subnet; the user may name another one. */
static int
take_subnets(struct aws_cloud *cloud, const struct aws_element *document, char text[AWS_TEXT])
{
	const struct aws_element *set = cloud_aws_answer_find(document, "subnetSet");

	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		struct aws_offer *o = &cloud->offers[i];
		const struct aws_element *item = set != NULL ? set->first : NULL;
		const char *wanted;
		char key[120];

		(void)snprintf(key, sizeof key, "%s %s", o->name, aws_market(o));
		if (find_wanted(cloud, o, key, &wanted, text) != 0)
			return -1;
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
			    "zone %s has no %s%s\nset 'subnet' of the offer", o->zone,
			    wanted[0] != '\0' ? "subnet " : "default subnet", wanted);
			return -1;
		}
		(void)snprintf(o->subnet, sizeof o->subnet, "%s",
		    cloud_aws_answer_text(item, "subnetId"));
		if (cloud_aws_record_put(cloud, "subnet", key, o->subnet, text) != 0)
			return -1;
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

struct aws_foreign {
	const char *driver;
	char *text; /* why not, if there is one */
};

/* A machine that this driver has not leased. */
static int
is_foreign(void *ctx, const struct aws_machine *m)
{
	const struct aws_foreign *foreign = ctx;

	if (m->state == AWS_ENDED || m->driver[0] == '\0' ||
	    strcmp(m->driver, foreign->driver) == 0)
		return 0;
	(void)snprintf(foreign->text, AWS_TEXT,
	    "machine %s of this run was leased by %s, which may still be running it: stop that, or "
	    "wait until its machines have shut down",
	    m->id, m->driver);
	return -1;
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
		class = cloud_aws_record_put(cloud, "image", aws_text(cloud, AWS_OPT_IMAGE), value,
			    text) == 0
		    ? AWS_FINE
		    : AWS_REFUSED;
	} else if (type != NULL) {
		(void)snprintf(text, AWS_TEXT, "GetParameter: image '%.300s': %.200s",
		    aws_text(cloud, AWS_OPT_IMAGE), type);
		class = cloud_aws_answer_class(type, reply->code);
	} else {
		(void)snprintf(text, AWS_TEXT, "GetParameter: %.300s",
		    reply->status == ESPL_OK ? "the answer cannot be read" : reply->text);
	}
	json_decref(root);
	return class;
}

/* 1: there is more to ask in this step; -1: why not. */
static int
take_step(struct aws_cloud *cloud, enum aws_class class, const struct aws_element *document,
    char text[AWS_TEXT])
{
	int taken = class == AWS_FINE ? 0 : -1;

	switch (class == AWS_FINE ? cloud->starting : AWS_TICK) {
	case AWS_CALLER:
		taken = check_account(cloud,
		    cloud_aws_answer_text(document, "GetCallerIdentityResult/Account"), text);
		break;
	case AWS_SUBNETS: taken = take_subnets(cloud, document, text); break;
	case AWS_TYPES: taken = take_types(cloud, document, text); break;
	case AWS_OFFERINGS:
		cloud_aws_check_offered(cloud, document);
		taken = cloud_aws_next(cloud, AWS_OFFERINGS, document);
		if (taken == 0)
			taken = cloud_aws_check_zones(cloud, text);
		break;
	case AWS_FOREIGN:
		taken = cloud_aws_answer_each(document, 0, is_foreign,
		    &(struct aws_foreign){ cloud->driver, text });
		if (taken == 0)
			taken = cloud_aws_next(cloud, AWS_FOREIGN, document);
		break;
	default: break;
	}
	return taken;
}

/* Where to go on after this step. */
static void
end_step(struct aws_cloud *cloud, const struct espl_http_reply *reply, enum aws_class class,
    int taken, char text[AWS_TEXT])
{
	enum aws_request step = cloud->starting;
	const struct aws_offer *o = &cloud->offers[cloud->checked];
	espl_status status = class == AWS_FINE && (step < AWS_IMAGE || step == AWS_QUOTAS)
	    ? ESPL_E_CONFIG
	    : ESPL_E_REMOTE;
	char name[120] = "";

	cloud_aws_pages_end(cloud, step);
	/* Keys without this permission: the check of the request comes later. */
	if (step == AWS_OFFERINGS && class == AWS_REFUSED &&
	    strstr(text, "UnauthorizedOperation") != NULL)
		taken = 0;
	if (taken == 0) {
		ask_step(cloud, step + 1);
		return;
	}
	if (text[0] == '\0')
		(void)snprintf(text, AWS_TEXT, "%s", cloud->warned);
	if (step == AWS_DRY_RUN)
		(void)snprintf(name, sizeof name, "offer %s (%s)", o->name, aws_market(o));
	if (step == AWS_CALLER && class == AWS_FINE)
		status = ESPL_E_REMOTE; /* another account: with the right keys it can continue */
	else if (class != AWS_FINE)
		status = cloud_aws_check_failed(cloud, reply, name, text);
	cloud_aws_start_end(cloud, status, text);
}

void
cloud_aws_start_reply(struct aws_cloud *cloud, const struct espl_http_reply *reply)
{
	static const char *const actions[] = { [AWS_CALLER] = "GetCallerIdentity",
		[AWS_SUBNETS] = "DescribeSubnets",
		[AWS_TYPES] = "DescribeInstanceTypes",
		[AWS_OFFERINGS] = "DescribeInstanceTypeOfferings",
		[AWS_FOREIGN] = "DescribeInstances",
		[AWS_DRY_RUN] = "RunInstances" };
	enum aws_request step = cloud->starting;
	struct aws_element *document = NULL;
	char text[AWS_TEXT] = "";
	int taken;
	enum aws_class class = step == AWS_QUOTAS ? AWS_FINE
	    : step == AWS_IMAGE                   ? take_image(cloud, reply, text)
				: cloud_aws_answer_reply(reply, actions[step], &document, text);

	if ((class == AWS_AGAIN || class == AWS_UNKNOWN) && reply->status != ESPL_E_CONFIG &&
	    !cloud_aws_check_clock(cloud, text) && ++cloud->tries < TRIES_MOST &&
	    cloud->io->timer(cloud->io, cloud->tries * ESPL_SECOND / 2, AWS_COOKIE(0, AWS_RETRY)) ==
		ESPL_OK) {
		cloud_aws_pages_end(cloud, step); /* from the first page on */
		return;
	}
	taken = step == AWS_QUOTAS ? cloud_aws_quotas_take(cloud, reply, text)
	    : step == AWS_DRY_RUN  ? cloud_aws_check_take(cloud, class, document, text)
				   : take_step(cloud, class, document, text);
	cloud_aws_answer_free(document);
	if (taken > 0 && (step == AWS_DRY_RUN || step == AWS_QUOTAS)) {
		cloud->tries = 0;
		ask_step(cloud, step);
	} else if (taken <= 0) {
		end_step(cloud, reply, class, taken, text);
	}
}
