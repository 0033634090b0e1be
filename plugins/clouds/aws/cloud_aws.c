/* cloud_aws.c - machines of Amazon EC2, spot and on demand: options, requests and ssh.
 *
 * EC2 is queried over HTTP; the host signs requests, so the plugin never sees keys. The cost of a
 * lease is computed from the times that EC2 reports, because EC2 does not report its charges.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/provider.h>

#include "cloud_aws.h"

static const struct espl_option columns[] = {
	[AWS_COL_TYPE] = { .name = "type",
	    .help = "type of machine, for example \"g5.xlarge\"",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	[AWS_COL_ZONE] = { .name = "zone",
	    .help = "availability zone: its letter, or its whole name",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	[AWS_COL_SUBNET] = { .name = "subnet",
	    .help = "subnet in that zone; default: the default subnet of the zone",
	    .type = ESPL_OPT_STRING },
	[AWS_COL_MARKET] = { .name = "market",
	    .help = "whether EC2 may interrupt the machine (spot) or not",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "on-demand|spot",
	    .fallback = "on-demand" },
	[AWS_COL_NODES] = { .name = "nodes_max",
	    .help = "maximum number of machines of this offer at one time",
	    .type = ESPL_OPT_INT,
	    .flags = ESPL_OPT_REQUIRED,
	    .min = "1",
	    .max = "10000" },
	[AWS_COL_PRICE] = { .name = "price_hour",
	    .help =
		"price of the type on demand, in dollars per hour; default: that of the table of "
		"prices; a run requests the price of spot machines from EC2, a plan uses this one",
	    .type = ESPL_OPT_MONEY },
	[AWS_COL_GPUS] = { .name = "gpus",
	    .help = "GPUs per machine, or slots if gpu_type is \"cpu\"",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "4096" },
	[AWS_COL_GPU_TYPE] = { .name = "gpu_type",
	    .help = "GPU model; \"cpu\": slots on the cores instead of GPUs",
	    .type = ESPL_OPT_STRING,
	    .fallback = "gpu" },
	[AWS_COL_LATENCY] = { .name = "boot",
	    .help = "time from the request until ssh answers",
	    .type = ESPL_OPT_LATENCY,
	    .fallback = "60s" },
};
static const struct espl_option ssh_words[] = {
	{ .name = "word",
	    .help = "program or argument",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option tags[] = {
	{ .name = "key",
	    .help = "name of the tag",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	{ .name = "value",
	    .help = "value of the tag",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
};
static const struct espl_option options[] = {
	[AWS_OPT_REGION] = { .name = "region",
	    .help =
		"region, for example \"eu-central-1\"; default: AWS_REGION, AWS_DEFAULT_REGION, or "
		"that of the profile",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_PROFILE] = { .name = "profile",
	    .help = "profile of the AWS CLI whose keys are used; default: the keys that the AWS "
		    "CLI would use",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_ENDPOINT] = { .name = "endpoint",
	    .help = "address of another service with the API of EC2; default: "
		    "AWS_ENDPOINT_URL_EC2, "
		    "AWS_ENDPOINT_URL, that of the profile, or EC2 in the region",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_OFFERS] = { .name = "offers",
	    .help = "list of what can be leased, one group for each type, zone and market",
	    .type = ESPL_OPT_TABLE,
	    .columns = columns,
	    .column_count = AWS_COL_COUNT,
	    .flags = ESPL_OPT_REQUIRED },
	[AWS_OPT_IMAGE] = { .name = "image",
	    .help = "image to boot: \"ami-...\", or \"ssm:NAME\" with the name of a parameter",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	[AWS_OPT_USER] = { .name = "user",
	    .help = "user of the image to log in as; default: from ssh_config",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_KEY] = { .name = "key",
	    .help = "private key file for ssh; default: from ssh_config",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_KEY_NAME] = { .name = "key_name",
	    .help = "EC2 key pair of the machines",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_GROUP] = { .name = "security_group",
	    .help =
		"security group, \"sg-...\"; it must let ssh in from here; default: the default "
		"group of the network",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_ADDRESS] = { .name = "address",
	    .help = "address at which machines are reached",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "public|private",
	    .fallback = "public" },
	[AWS_OPT_SSH] = { .name = "ssh",
	    .help = "program to use for ssh, with its first arguments; default: ( \"ssh\" )",
	    .type = ESPL_OPT_TABLE,
	    .columns = ssh_words,
	    .column_count = 1 },
	[AWS_OPT_AGENT] = { .name = "agent",
	    .help = "path of espalier-agent on the machines; default: it is sent to machines that "
		    "do not have "
		    "the same one",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_TAGS] = { .name = "tags",
	    .help = "list of additional tags for machines, disks and spot requests",
	    .type = ESPL_OPT_TABLE,
	    .columns = tags,
	    .column_count = 2 },
	[AWS_OPT_POLL] = { .name = "poll",
	    .help = "time between two polls of spot requests, and of machines that change state",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5s",
	    .min = "100ms",
	    .max = "1m" },
	[AWS_OPT_BOOT] = { .name = "boot_timeout",
	    .help = "a machine that ssh cannot reach within this time is ended",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "10m",
	    .min = "1s" },
	[AWS_OPT_SETTLE] = { .name = "settle",
	    .help = "time after which EC2 is certain to list a new machine",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5m",
	    .min = "1s" },
	[AWS_OPT_ORPHAN] = { .name = "orphan",
	    .help = "a machine shuts down after this time without an agent",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "15m",
	    .min = "10s" },
	[AWS_OPT_MOST] = { .name = "lease_max",
	    .help = "maximum lifetime of a machine, after which it shuts down",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "24h",
	    .min = "1m" },
	[AWS_OPT_PRICES] = { .name = "prices",
	    .help = "file of prices on demand, made by `espalier aws-prices`; default: the table "
		    "that comes with espalier",
	    .type = ESPL_OPT_STRING },
	[AWS_OPT_HOST_KEY] = { .name = "host_key",
	    .help =
		"ssh host keys of machines: pinned, made by espalier and given to them in their "
		"user data, and no other is accepted; or accept, those of the image at the first "
		"connection",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "pinned|accept",
	    .fallback = "pinned" },
};

void
cloud_aws_warn(struct aws_cloud *cloud, const char *text)
{
	if (text[0] == '\0')
		return; /* the host prints repeated warnings together */
	(void)snprintf(cloud->warned, sizeof cloud->warned, "%s", text);
	cloud->host->log(cloud->host, ESPL_WARN, text);
}

/* ---- requests ---- */

int64_t
cloud_aws_utc(const struct aws_cloud *cloud)
{
	return cloud->io->utc_ns(cloud->io) / ESPL_SECOND + cloud->ahead_s;
}

static void
name_service(const struct aws_cloud *cloud, const char *service, char url[400])
{
	cloud_aws_region_endpoint(cloud, service, url);
	if (url[0] == '\0')
		(void)snprintf(url, 400, "https://%s.%.80s.amazonaws.com%s/", service,
		    cloud->region, strncmp(cloud->region, "cn-", 3) == 0 ? ".cn" : "");
}

espl_status
cloud_aws_send(struct aws_cloud *cloud, struct aws_query *query, const char *service,
    uint64_t cookie)
{
	static const char *const forms[] = {
		"Content-Type: application/x-www-form-urlencoded; charset=utf-8"
	};
	static const char *const json[][2] = { { "Content-Type: application/x-amz-json-1.1",
						   "X-Amz-Target: AmazonSSM.GetParameter" },
		{ "Content-Type: application/x-amz-json-1.1",
		    "X-Amz-Target: ServiceQuotasV20190624.GetServiceQuota" } };
	int is_quota = strcmp(service, "servicequotas") == 0;
	int is_json = is_quota || strcmp(service, "ssm") == 0;
	struct espl_http request = ESPL_INIT(struct espl_http);
	struct espl_error error = ESPL_INIT(struct espl_error);
	char url[400], sign[160], body[400];
	espl_status status = ESPL_E_NOMEM;

	name_service(cloud, service, url);
	(void)snprintf(sign, sizeof sign, "aws:amz:%.80s:%s", cloud->region, service);
	if (is_quota)
		cloud_aws_quotas_ask(cloud, body);
	else
		(void)snprintf(body, sizeof body, "{\"Name\": \"%.380s\"}",
		    aws_text(cloud, AWS_OPT_IMAGE) + 4);
	request.method = "POST";
	request.url = url;
	request.headers = is_json ? json[is_quota] : forms;
	request.header_count = is_json ? 2 : 1;
	request.body = is_json ? body : query->text;
	request.body_size = is_json ? strlen(body) : query->size;
	request.sign = sign;
	request.sign_user =
	    aws_text(cloud, AWS_OPT_PROFILE)[0] != '\0' ? AWS_OPT_PROFILE : ESPL_ANY;
	request.sign_secret = ESPL_ANY;
	if (is_quota)
		request.limit = 10 * ESPL_SECOND; /* a run can start without */
	request.cookie = cookie;
	if (!query->failed)
		status = cloud->io->http(cloud->io, &request, &error);
	if (status != ESPL_OK)
		cloud_aws_warn(cloud, query->failed ? "out of memory" : error.text);
	cloud_aws_query_free(query);
	return status;
}

static int
send_page(struct aws_cloud *cloud, enum aws_request request, const char *token)
{
	struct aws_query query = { NULL, 0, 0, 0 };

	query.text = strdup(cloud->asked[request]);
	query.failed = query.text == NULL;
	query.size = query.capacity = query.text != NULL ? strlen(query.text) : 0;
	if (token != NULL)
		cloud_aws_query_add(&query, token, "NextToken");
	if (cloud_aws_send(cloud, &query, "ec2", AWS_COOKIE(0, request)) == ESPL_OK)
		return 0;
	cloud_aws_pages_end(cloud, request);
	return -1;
}

int
cloud_aws_pages(struct aws_cloud *cloud, enum aws_request request, struct aws_query *query)
{
	if (query->failed) {
		cloud_aws_query_free(query);
		return -1;
	}
	cloud->asked[request] = query->text;
	return send_page(cloud, request, NULL);
}

int
cloud_aws_next(struct aws_cloud *cloud, enum aws_request request,
    const struct aws_element *document)
{
	const char *token = cloud_aws_answer_text(document, "nextToken");

	if (token[0] == '\0')
		return 0;
	return send_page(cloud, request, token) == 0 ? 1 : -1;
}

void
cloud_aws_pages_end(struct aws_cloud *cloud, enum aws_request request)
{
	free(cloud->asked[request]);
	cloud->asked[request] = NULL;
}

static void
aws_on_http(void *self, const struct espl_http_reply *reply)
{
	struct aws_cloud *cloud = self;
	int64_t date_s = cloud_aws_answer_date(reply);

	if (date_s != 0)
		cloud->ahead_s = date_s - cloud->io->utc_ns(cloud->io) / ESPL_SECOND;
	if (reply->cookie == AWS_COOKIE(0, AWS_PRICES))
		cloud_aws_prices_reply(cloud, reply);
	else if (reply->cookie < AWS_COOKIE(0, AWS_PRICES))
		cloud_aws_start_reply(cloud, reply);
	else
		cloud_aws_leases_reply(cloud, reply);
}

static void
aws_on_child(void *self, const struct espl_child *child)
{
	if (child->cookie == AWS_COOKIE(0, AWS_KEYGEN))
		cloud_aws_start_child(self, child);
	else
		cloud_aws_leases_child(self, child);
}

static void
aws_on_timer(void *self, uint64_t cookie)
{
	struct aws_cloud *cloud = self;

	if (cookie == AWS_COOKIE(0, AWS_RETRY)) {
		cloud_aws_start_retry(cloud);
		return;
	}
	cloud->ticking = 0;
	cloud_aws_tick(cloud);
}

/* ---- reach ---- */

espl_status
cloud_aws_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	const struct aws_cloud *cloud = self;
	const struct espl_provider_way way = { .ssh = aws_table(cloud, AWS_OPT_SSH),
		.token = lease->token,
		.address = lease->address,
		.folder = cloud->run != NULL ? cloud->run->folder : NULL,
		.key = aws_text(cloud, AWS_OPT_KEY),
		.user = aws_text(cloud, AWS_OPT_USER),
		.agent = aws_text(cloud, AWS_OPT_AGENT),
		.pinned = cloud_aws_hostkey_pinned(cloud, lease->token) };

	if (way.pinned && lease->address != NULL && lease->address[0] != '\0') {
		espl_status status = cloud_aws_hostkey_pin(cloud, lease->token, error);

		if (status != ESPL_OK)
			return status;
	}
	return espl_provider_reach_by(&way, sink, error);
}

/* ---- the instance ---- */

static void
aws_destroy(void *self)
{
	struct aws_cloud *cloud = self;

	cloud_aws_leases_free(cloud);
	for (int i = 0; i < AWS_REQUESTS; i++)
		free(cloud->asked[i]);
	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		free(cloud->offers[i].prices);
		free(cloud->offers[i].fresh);
	}
	free(cloud->offers);
	cloud_aws_record_free(cloud);
	free(cloud->driver_name);
	free(cloud->table);
	free(cloud->user_data);
	free(cloud);
}

static int
is_word(const char *text, const char *more)
{
	if (!isalnum((unsigned char)text[0]))
		return 0;
	for (; *text != '\0'; text++)
		if (!isalnum((unsigned char)*text) && strchr(more, *text) == NULL)
			return 0;
	return 1;
}

static espl_status
read_offer(struct aws_cloud *cloud, struct aws_offer *o, struct espl_error *error)
{
	const char *type = o->row[AWS_COL_TYPE].as.s, *zone = o->row[AWS_COL_ZONE].as.s;
	const char *region = cloud->region;

	if (!is_word(type, ".-") || strlen(type) >= AWS_ID)
		return espl_fail(error, ESPL_E_CONFIG, "'%.60s' is not an instance type", type);
	if (isalpha((unsigned char)zone[0]) && zone[1] == '\0')
		(void)snprintf(o->zone, sizeof o->zone, "%.30s%s", region, zone);
	else
		(void)snprintf(o->zone, sizeof o->zone, "%.39s", zone);
	if (strncmp(o->zone, region, strlen(region)) != 0 || !is_word(o->zone, "-"))
		return espl_fail(error, ESPL_E_CONFIG, "zone '%.60s' is not in region '%s'", zone,
		    region);
	(void)snprintf(o->name, sizeof o->name, "%s/%s", type, o->zone);
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		if (strcmp(cloud->offers[i].name, o->name) == 0 &&
		    aws_is_spot(&cloud->offers[i]) == aws_is_spot(o))
			return espl_fail(error, ESPL_E_CONFIG, "offer %s (%s) is listed twice",
			    o->name, aws_market(o));
	return cloud_aws_table_price(cloud, o, error);
}

static espl_status
read_offers(struct aws_cloud *cloud, struct espl_error *error)
{
	const struct espl_table *table = aws_table(cloud, AWS_OPT_OFFERS);

	if (table == NULL || table->row_count == 0)
		return espl_blame(error, AWS_OPT_OFFERS, "'offers' is empty");
	cloud->offers = calloc(table->row_count, sizeof *cloud->offers);
	if (cloud->offers == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (uint32_t i = 0; i < table->row_count; i++) {
		espl_status status;

		cloud->offers[i].row = table->cells + (size_t)i * table->column_count;
		status = read_offer(cloud, &cloud->offers[i], error);
		if (status != ESPL_OK) {
			if (error != NULL) {
				error->option = AWS_OPT_OFFERS;
				error->row = i;
			}
			return status;
		}
		cloud->offer_count = i + 1;
	}
	return ESPL_OK;
}

static espl_status
check_options(const struct aws_cloud *cloud, struct espl_error *error)
{
	const char *image = aws_text(cloud, AWS_OPT_IMAGE);
	const char *endpoint = aws_text(cloud, AWS_OPT_ENDPOINT);
	const struct espl_table *ssh = aws_table(cloud, AWS_OPT_SSH);

	if (cloud->region[0] == '\0')
		return espl_hint(error,
		    espl_blame(error, AWS_OPT_REGION, "the region of cloud 'aws' is not known"),
		    "set cloud.region, AWS_REGION, or 'region' of the profile in ~/.aws/config");
	if (!is_word(cloud->region, "-"))
		return espl_blame(error, AWS_OPT_REGION, "this is not a region");
	if (strncmp(image, "ami-", 4) != 0 && strncmp(image, "ssm:/", 5) != 0)
		return espl_blame(error, AWS_OPT_IMAGE,
		    "an image is \"ami-...\", or \"ssm:/...\" for the name of a parameter");
	if (strlen(image) > 380 || strpbrk(image, "\"\\\t\n") != NULL ||
	    (image[0] == 'a' && strlen(image) >= AWS_ID))
		return espl_blame(error, AWS_OPT_IMAGE, "this cannot be an image");
	if (endpoint[0] != '\0' && strncmp(endpoint, "http://", 7) != 0 &&
	    strncmp(endpoint, "https://", 8) != 0)
		return espl_blame(error, AWS_OPT_ENDPOINT, "an endpoint begins with https://");
	if (strpbrk(aws_text(cloud, AWS_OPT_AGENT), " \t\n'\"\\$`;&|<>()*?[]#~!{}") != NULL)
		return espl_blame(error, AWS_OPT_AGENT,
		    "the path must not hold spaces or characters that a shell interprets");
	if (ssh != NULL && ssh->row_count > ESPL_PROVIDER_SSH_WORDS)
		return espl_blame(error, AWS_OPT_SSH, "there are more than 30 words");
	return ESPL_OK;
}

static espl_status
aws_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct aws_cloud *cloud = calloc(1, sizeof *cloud);
	char text[AWS_TEXT];
	espl_status status;

	if (cloud == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	cloud->host = host;
	cloud->config = config;
	cloud->io = host->service(host, ESPL_IO);
	cloud->run = host->service(host, ESPL_RUN);
	cloud->visit = host->service(host, ESPL_VISIT);
	(void)cloud_aws_record_read(cloud, text); /* start reports what is wrong with it */
	cloud_aws_region_find(cloud);
	status = check_options(cloud, error);
	if (status == ESPL_OK)
		status = read_offers(cloud, error);
	(void)snprintf(cloud->image, sizeof cloud->image, "%s", aws_text(cloud, AWS_OPT_IMAGE));
	cloud->user_data = espl_provider_switch(aws_number(cloud, AWS_OPT_ORPHAN),
	    aws_number(cloud, AWS_OPT_MOST));
	if (status == ESPL_OK && cloud->user_data == NULL)
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	if (status != ESPL_OK) {
		aws_destroy(cloud);
		return status;
	}
	*self = cloud;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = {
	ESPL_TABLE(struct espl_cloud_ops),
	.start = cloud_aws_start,
	.acquire = cloud_aws_acquire,
	.release = cloud_aws_release,
	.adopt = cloud_aws_adopt,
	.owned = cloud_aws_owned,
	.reach = cloud_aws_reach,
	.describe = cloud_aws_describe,
	.on_http = aws_on_http,
	.on_child = aws_on_child,
	.on_timer = aws_on_timer,
};

ESPL_PLUGIN(cloud, aws) = {
	ESPL_HEAD(ESPL_CLOUD, "aws"),
	.version = "1",
	.summary = "machines of Amazon EC2, spot and on demand",
	.caps = ESPL_NEED_IO,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = aws_create,
	.destroy = aws_destroy,
};
