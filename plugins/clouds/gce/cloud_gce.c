/* cloud_gce.c - machines of Google Compute Engine, spot and on demand: what its REST API is sent,
 * and what it answers.  All else is the kit's (espalier/kit/provider.h).
 *
 * A machine has the name of its token, so Compute Engine makes no second one; a lease is pinned to
 * the zone of its offer.  Its id for the host is "ZONE/NAME".
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <espalier/kit/provider.h>

#define NOTICE (30 * ESPL_SECOND)      /* between the notice of an interruption and the end */
#define WAIT_LIMIT (150 * ESPL_SECOND) /* Compute Engine answers a wait within two minutes */
#define WAITS_MOST 10u                 /* for one request */

enum {
	GCE_PROJECT = ESPL_PROVIDER_OWN,
	GCE_IMAGE,
	GCE_NETWORK,
	GCE_SUBNETWORK,
	GCE_ADDRESS,
	GCE_DISK,
	GCE_DISK_TYPE,
	GCE_PUBLIC_KEY,
	GCE_ACCOUNT,
	GCE_ORPHAN,
	GCE_MOST,
	GCE_HOST_KEY,
	GCE_ENDPOINT
};
enum { GCE_ACCELERATOR = ESPL_OFFERS_OWN };

static const struct espl_option columns[] = { ESPL_PROVIDER_COLUMNS,
	[GCE_ACCELERATOR] = { .name = "accelerator",
	    .help = "GPUs to attach, for example \"nvidia-tesla-t4\"; default: those that the type "
		    "has itself",
	    .type = ESPL_OPT_STRING } };
static const struct espl_option words[] = { ESPL_PROVIDER_WORDS };
static const struct espl_option options[] = {
	ESPL_PROVIDER_OPTIONS(columns, words, "command",
	    "where the access token comes from: \"command\" (token_command), \"metadata\" (the "
	    "service account of the Google machine that espalier runs on), \"file:PATH\" or "
	    "\"env:NAME\"",
	    "command that prints an access token; default: ( \"gcloud\", \"auth\", "
	    "\"print-access-token\" )"),
	[GCE_PROJECT] = { .name = "project",
	    .help = "project of the machines",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	[GCE_IMAGE] = { .name = "image",
	    .help = "image to boot, for example "
		    "\"projects/debian-cloud/global/images/family/debian-12\"",
	    .type = ESPL_OPT_STRING,
	    .flags = ESPL_OPT_REQUIRED },
	[GCE_NETWORK] = { .name = "network",
	    .help = "network of the machines; it must let ssh in from here",
	    .type = ESPL_OPT_STRING,
	    .fallback = "global/networks/default" },
	[GCE_SUBNETWORK] = { .name = "subnetwork",
	    .help = "subnetwork, \"regions/REGION/subnetworks/NAME\"; default: that of the network",
	    .type = ESPL_OPT_STRING },
	[GCE_ADDRESS] = { .name = "address",
	    .help = "address at which machines are reached; private: they get no other",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "public|private",
	    .fallback = "public" },
	[GCE_DISK] = { .name = "disk",
	    .help = "size of the boot disk; 0: that of the image",
	    .type = ESPL_OPT_BYTES,
	    .fallback = "0",
	    .min = "0" },
	[GCE_DISK_TYPE] = { .name = "disk_type",
	    .help = "type of the boot disk",
	    .type = ESPL_OPT_STRING,
	    .fallback = "pd-balanced" },
	[GCE_PUBLIC_KEY] = { .name = "public_key",
	    .help = "public key file with which `user` may log in; default: the keys that the "
		    "project has",
	    .type = ESPL_OPT_PATH },
	[GCE_ACCOUNT] = { .name = "service_account",
	    .help = "service account of the machines, which every program on them can use; "
		    "default: none",
	    .type = ESPL_OPT_STRING },
	[GCE_ORPHAN] = { .name = "orphan",
	    .help = "a machine shuts down after this time without an agent",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "15m",
	    .min = "10s" },
	[GCE_MOST] = { .name = "lease_max",
	    .help = "maximum lifetime of a machine, after which Compute Engine deletes it",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "24h",
	    .min = "1m" },
	[GCE_HOST_KEY] = { .name = "host_key",
	    .help = "ssh host keys of machines: pinned, as the guest agent of the image publishes "
		    "them, and no other is accepted; or accept, those of the first connection",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "pinned|accept",
	    .fallback = "pinned" },
	[GCE_ENDPOINT] = { .name = "endpoint",
	    .help = "address of the API",
	    .type = ESPL_OPT_STRING,
	    .fallback = "https://compute.googleapis.com/compute/v1" },
};

struct gce_machine {
	struct espl_machine machine; /* first */
	uint32_t waits;
};
struct gce_cloud {
	struct espl_provider provider; /* first */
	struct espl_provider_api api;
	char *script, *ssh_keys;  /* ssh_keys NULL: none */
	char id[140], offer[140]; /* of the machine that is read */
};

/* ---- requests ---- */

static struct gce_cloud *
cloud_of(struct espl_provider *p)
{
	return (struct gce_cloud *)p;
}

static char *__attribute__((format(printf, 1, 2))) print_text(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

/* Of a project's resource; the path is freed. */
static char *
make_url(const struct espl_provider *p, char *path)
{
	char *url = path != NULL
	    ? print_text("%s/projects/%s/%s", espl_provider_text(p, GCE_ENDPOINT),
		  espl_provider_text(p, GCE_PROJECT), path)
	    : NULL;

	free(path);
	return url;
}

/* The zone of its offer, or of its id "ZONE/NAME". */
static void
find_zone(const struct espl_provider *p, const struct espl_machine *m, char zone[64])
{
	const struct espl_provider_offer *source = espl_provider_offer_of(p, m);
	const char *id = m->lease.id != NULL ? m->lease.id : "";

	if (source != NULL)
		(void)snprintf(zone, 64, "%s", source->row[ESPL_OFFERS_ZONE].as.s);
	else
		(void)snprintf(zone, 64, "%.*s", (int)strcspn(id, "/"), id);
}

static void
fill_machine(struct espl_provider *p, const struct espl_machine *m, const char *more,
    struct espl_call *call)
{
	char zone[64];

	find_zone(p, m, zone);
	call->url = make_url(p, print_text("zones/%s/instances/%s%s", zone, m->lease.token, more));
}

static int
fill_start(struct espl_provider *p, uint32_t step, struct espl_call *call)
{
	const char *image = espl_provider_text(p, GCE_IMAGE);
	const struct espl_value *row;

	if (p->visit != NULL || step > p->source_count)
		return 0;
	if (step < p->source_count) {
		row = p->sources[step].row;
		call->url = make_url(p,
		    print_text("zones/%s/machineTypes/%s", row[ESPL_OFFERS_ZONE].as.s,
			row[ESPL_OFFERS_TYPE].as.s));
	} else if (strncmp(image, "projects/", 9) == 0) {
		call->url = print_text("%s/%s", espl_provider_text(p, GCE_ENDPOINT), image);
	} else {
		call->url = make_url(p, print_text("%s", image));
	}
	return 1;
}

static void
fill_token(struct espl_provider *p, struct espl_call *call)
{
	const char *host = getenv("GCE_METADATA_HOST");

	(void)p;
	call->header = "Metadata-Flavor: Google";
	call->url =
	    print_text("http://%s/computeMetadata/v1/instance/service-accounts/default/token",
		host != NULL && host[0] != '\0' ? host : "metadata.google.internal");
}

static void
add_metadata(json_t *items, const char *key, const char *value)
{
	if (value != NULL)
		(void)json_array_append_new(items,
		    json_pack("{s:s, s:s}", "key", key, "value", value));
}

static json_t *
pack_disk(const struct espl_provider *p, const char *zone)
{
	int64_t bytes = p->config->values[GCE_DISK].as.i;
	char type[200], size[32];
	json_t *from;

	(void)snprintf(type, sizeof type, "zones/%s/diskTypes/%.100s", zone,
	    espl_provider_text(p, GCE_DISK_TYPE));
	(void)snprintf(size, sizeof size, "%lld", (long long)((bytes + 999999999) / 1000000000));
	from = json_pack("{s:s, s:s}", "sourceImage", espl_provider_text(p, GCE_IMAGE), "diskType",
	    type);
	if (bytes > 0)
		(void)json_object_set_new(from, "diskSizeGb", json_string(size));
	return json_pack("[{s:b, s:b, s:o}]", "boot", 1, "autoDelete", 1, "initializeParams", from);
}

static json_t *
pack_network(const struct espl_provider *p)
{
	const char *sub = espl_provider_text(p, GCE_SUBNETWORK);
	json_t *network = sub[0] != '\0'
	    ? json_pack("{s:s}", "subnetwork", sub)
	    : json_pack("{s:s}", "network", espl_provider_text(p, GCE_NETWORK));

	if (p->config->values[GCE_ADDRESS].as.i == 0)
		(void)json_object_set_new(network, "accessConfigs",
		    json_pack("[{s:s, s:s}]", "type", "ONE_TO_ONE_NAT", "name", "External NAT"));
	return json_pack("[o]", network);
}

static void
fill_ask(struct espl_provider *p, struct espl_machine *m, struct espl_call *call)
{
	const struct espl_provider_offer *source = espl_provider_offer_of(p, m);
	const struct espl_value *row = source->row;
	const char *zone = row[ESPL_OFFERS_ZONE].as.s, *accelerator = row[GCE_ACCELERATOR].as.s;
	const char *account = espl_provider_text(p, GCE_ACCOUNT);
	char type[200], seconds[32];
	json_t *items = json_array(), *body;

	((struct gce_machine *)m)->waits = 0;
	(void)snprintf(type, sizeof type, "zones/%.60s/machineTypes/%.100s", zone,
	    row[ESPL_OFFERS_TYPE].as.s);
	(void)snprintf(seconds, sizeof seconds, "%lld",
	    (long long)(p->config->values[GCE_MOST].as.i / ESPL_SECOND));
	add_metadata(items, "startup-script", cloud_of(p)->script);
	add_metadata(items, "ssh-keys", cloud_of(p)->ssh_keys);
	add_metadata(items, "enable-guest-attributes", p->pinned ? "TRUE" : NULL);
	body = json_pack("{s:s, s:s, s:{s:s, s:s}, s:o, s:o, s:{s:o}, s:{s:s, s:s, s:s, s:b, "
			 "s:{s:s}}}",
	    "name", m->lease.token, "machineType", type, "labels", "espalier-run", p->run_name,
	    "espalier-token", m->lease.token, "disks", pack_disk(p, zone), "networkInterfaces",
	    pack_network(p), "metadata", "items", items, "scheduling", "provisioningModel",
	    espl_provider_is_spot(source) ? "SPOT" : "STANDARD", "instanceTerminationAction",
	    "DELETE", "onHostMaintenance", "TERMINATE", "automaticRestart", 0, "maxRunDuration",
	    "seconds", seconds);
	if (row[GCE_ACCELERATOR].source != ESPL_UNSET) {
		(void)snprintf(type, sizeof type, "zones/%.60s/acceleratorTypes/%.100s", zone,
		    accelerator);
		(void)json_object_set_new(body, "guestAccelerators",
		    json_pack("[{s:s, s:I}]", "acceleratorType", type, "acceleratorCount",
			(json_int_t)row[ESPL_OFFERS_GPUS].as.i));
	}
	if (account[0] != '\0')
		(void)json_object_set_new(body, "serviceAccounts",
		    json_pack("[{s:s, s:[s]}]", "email", account, "scopes",
			"https://www.googleapis.com/auth/cloud-platform"));
	call->method = "POST";
	call->body = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	if (call->body != NULL)
		call->url = make_url(p, print_text("zones/%s/instances", zone));
}

static void
fill_look(struct espl_provider *p, struct espl_machine *m, struct espl_call *call)
{
	fill_machine(p, m, "", call);
}

static void
fill_cancel(struct espl_provider *p, struct espl_machine *m, const char *id, struct espl_call *call)
{
	const char *name = strchr(id, '/');

	call->method = "DELETE";
	if (name != NULL) /* a listing has shown it with the token of the lease */
		call->url = make_url(p,
		    print_text("zones/%.*s/instances/%s", (int)(name - id), id, name + 1));
	else
		fill_machine(p, m, "", call);
}

static void
fill_probe(struct espl_provider *p, struct espl_machine *m, struct espl_call *call)
{
	fill_machine(p, m, "/getGuestAttributes?queryPath=hostkeys%2F", call);
}

static void
fill_list(struct espl_provider *p, const char *run, const char *page, struct espl_call *call)
{
	static const char hex[] = "0123456789ABCDEF";
	char *coded = malloc(3 * (page != NULL ? strlen(page) : 0) + 1), *at = coded;

	for (; coded != NULL && page != NULL && *page != '\0'; page++, at += 3) {
		at[0] = '%';
		at[1] = hex[(unsigned char)*page >> 4];
		at[2] = hex[*page & 15];
	}
	if (coded == NULL)
		return;
	*at = '\0';
	call->url = make_url(p,
	    print_text("aggregated/instances?maxResults=500&filter=labels.espalier-run%s%s%s%s",
		run != NULL ? "%3D" : "%3A%2A", run != NULL ? run : "",
		coded[0] != '\0' ? "&pageToken=" : "", coded));
	free(coded);
}

/* ---- answers ---- */

static const char *
get_string(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static const char *
last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/* By the code of an error, of a reply or of an operation; else what the HTTP status says. */
static void
classify_error(const char *code, struct espl_answer *a)
{
	static const struct {
		const char *code;
		enum espl_lease_failure failure;
		espl_reason reason;
	} known[] = { { "ZONE_RESOURCE_POOL_EXHAUSTED", ESPL_DID_REFUSE, ESPL_BY_CAPACITY },
		{ "RESOURCE_POOL_EXHAUSTED", ESPL_DID_REFUSE, ESPL_BY_CAPACITY },
		{ "STOCKOUT", ESPL_DID_REFUSE, ESPL_BY_CAPACITY },
		{ "QUOTA_EXCEEDED", ESPL_DID_REFUSE, ESPL_BY_QUOTA },
		{ "quotaExceeded", ESPL_DID_REFUSE, ESPL_BY_QUOTA },
		{ "rateLimitExceeded", ESPL_DID_LATER, 0 },
		{ "userRateLimitExceeded", ESPL_DID_LATER, 0 },
		{ "RATE_LIMIT_EXCEEDED", ESPL_DID_LATER, 0 },
		{ "RESOURCE_OPERATION_RATE_EXCEEDED", ESPL_DID_LATER, 0 },
		{ "resourceNotReady", ESPL_DID_LATER, 0 },
		{ "RESOURCE_NOT_READY", ESPL_DID_LATER, 0 },
		{ "RESOURCE_ALREADY_EXISTS", ESPL_DID_EXIST, 0 },
		{ "INTERNAL_ERROR", ESPL_DID_REFUSE, ESPL_BY_FAULT } };

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (strncmp(code, known[i].code, strlen(known[i].code)) != 0)
			continue;
		a->failure = known[i].failure;
		a->reason = known[i].reason;
	}
}

static void
read_error(const json_t *root, const struct espl_http_reply *reply, const char *what,
    struct espl_answer *a)
{
	const json_t *error = json_object_get(root, "error");
	const json_t *first = json_array_get(json_object_get(error, "errors"), 0);
	const char *code = get_string(first, "code"), *text = get_string(error, "message");

	if (code[0] == '\0')
		code = get_string(first, "reason");
	if (text[0] == '\0')
		text = get_string(first, "message");
	if (reply->status != ESPL_OK)
		return;
	if (error == NULL && a->failure == ESPL_DID_FINE) {
		a->failure = ESPL_DID_UNSURE;
		(void)snprintf(a->text, sizeof a->text, "%s: the answer cannot be read", what);
		return;
	}
	classify_error(code, a);
	(void)snprintf(a->text, sizeof a->text, "%s: %.60s%s%.400s", what, code,
	    code[0] != '\0' ? ": " : "", text[0] != '\0' ? text : "the request has failed");
	a->text[strcspn(a->text, "\r\n")] = '\0';
}

/* "2026-01-02T03:04:05.678-08:00"; 0: it is no time. */
static int64_t
read_time(const char *text)
{
	struct tm tm = { .tm_isdst = 0 };
	int hours = 0, minutes = 0, at = 0;
	char sign = '+';

	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		&tm.tm_hour, &tm.tm_min, &tm.tm_sec, &at) != 6 ||
	    at == 0)
		return 0;
	text += at + strcspn(text + at, "Z+-");
	(void)sscanf(text, "%c%2d:%2d", &sign, &hours, &minutes);
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return (int64_t)timegm(&tm) - (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
}

/* What an instance says, and what that means for its lease. */
static void
read_instance(struct espl_provider *p, const json_t *one, struct espl_provider_row *r)
{
	struct gce_cloud *cloud = cloud_of(p);
	const json_t *labels = json_object_get(one, "labels");
	const json_t *network = json_array_get(json_object_get(one, "networkInterfaces"), 0);
	const json_t *access = json_array_get(json_object_get(network, "accessConfigs"), 0);
	const char *zone = last_part(get_string(one, "zone")), *status = get_string(one, "status");
	const char *token = get_string(labels, "espalier-token"), *started;
	const char *host = get_string(json_object_get(one, "resourceStatus"), "physicalHost");
	int spot = strcmp(get_string(json_object_get(one, "scheduling"), "provisioningModel"),
		       "SPOT") == 0;
	struct espl_leased *lease = espl_leases_find(&p->leases, token);

	*r = (struct espl_provider_row){ .row = espl_lease_row(token, ESPL_STAGE_NONE) };
	(void)snprintf(cloud->id, sizeof cloud->id, "%.60s/%.70s", zone, get_string(one, "name"));
	(void)snprintf(cloud->offer, sizeof cloud->offer, "%.70s/%.60s",
	    last_part(get_string(one, "machineType")), zone);
	started = get_string(one, "lastStartTimestamp");
	r->row.id = cloud->id;
	r->row.address = p->config->values[GCE_ADDRESS].as.i == 0
	    ? get_string(access, "natIP")
	    : get_string(network, "networkIP");
	if (r->row.address[0] == '\0')
		r->row.address = NULL;
	r->row.machine = host[0] != '\0' ? host : NULL;
	r->run = get_string(labels, "espalier-run");
	r->offer = cloud->offer;
	r->market = spot ? "spot" : "on-demand";
	r->billed_utc_s =
	    read_time(started[0] != '\0' ? started : get_string(one, "creationTimestamp"));
	if (strcmp(status, "PROVISIONING") == 0 || strcmp(status, "STAGING") == 0) {
		r->row.stage = ESPL_STAGE_STARTING;
	} else if (strcmp(status, "RUNNING") == 0) {
		r->row.stage = r->row.address != NULL ? ESPL_STAGE_JOINING : ESPL_STAGE_STARTING;
	} else if (strcmp(status, "STOPPING") == 0 && spot) {
		r->row.notice = 1;
		r->row.ends_at = p->host->now(p->host) + NOTICE;
		r->row.text = "Compute Engine interrupts its spot machine";
	} else if (lease != NULL &&
	    (strcmp(status, "TERMINATED") == 0 || strncmp(status, "SUSPEND", 7) == 0)) {
		/* It costs its disk: it is deleted before its lease ends. */
		espl_leases_give_up(&p->leases, lease,
		    !spot                                   ? ESPL_BY_FAULT
			: lease->reported < ESPL_NODE_READY ? ESPL_BY_CAPACITY
							    : ESPL_BY_PROVIDER,
		    spot ? "Compute Engine has interrupted its spot machine"
			 : "its machine was stopped outside espalier, or shut down from within",
		    p->host->now(p->host));
	}
}

static void
read_list(struct espl_provider *p, enum espl_call_kind kind, json_t *root, struct espl_answer *a)
{
	const char *scope, *next = get_string(root, "nextPageToken");
	struct espl_provider_row r;
	json_t *part, *one;
	size_t i;

	json_object_foreach (json_object_get(root, "items"), scope, part) {
		const char *code = get_string(json_object_get(part, "warning"), "code");

		if (code[0] != '\0' && strcmp(code, "NO_RESULTS_ON_PAGE") != 0) {
			a->failure = ESPL_DID_LATER;
			(void)snprintf(a->text, sizeof a->text, "the listing lacks %.100s: %.100s",
			    scope, code);
			return;
		}
		json_array_foreach (json_object_get(part, "instances"), i, one) {
			read_instance(p, one, &r);
			if (espl_provider_row(p, kind, &r) != 0)
				a->failure = ESPL_DID_LATER;
		}
	}
	a->page = next[0] != '\0' ? strdup(next) : NULL;
	if (next[0] != '\0' && a->page == NULL)
		a->failure = ESPL_DID_LATER;
}

/* An operation: it goes on, is done, or has failed. */
static void
read_operation(struct espl_provider *p, struct espl_machine *m, json_t *root,
    const struct espl_http_reply *reply, struct espl_answer *a)
{
	struct espl_call call = { .method = "POST", .limit = WAIT_LIMIT };
	struct gce_machine *own = (struct gce_machine *)m;
	struct gce_cloud *cloud = cloud_of(p);
	char zone[64];

	find_zone(p, m, zone);
	if (json_object_get(root, "error") != NULL) {
		a->failure = ESPL_DID_REFUSE;
		read_error(root, reply, "Compute Engine has not made the machine", a);
		return;
	}
	if (strcmp(get_string(root, "status"), "DONE") == 0) {
		(void)snprintf(cloud->id, sizeof cloud->id, "%s/%s", zone, m->lease.token);
		a->row = espl_lease_row(m->lease.token, ESPL_STAGE_STARTING);
		a->row.id = cloud->id;
		return;
	}
	if (++own->waits <= WAITS_MOST) {
		call.url = make_url(p,
		    print_text("zones/%s/operations/%s/wait", zone, get_string(root, "name")));
		a->pending = espl_provider_send(p, ESPL_CALL_AWAIT, m, &call) == ESPL_OK;
	}
	if (!a->pending) {
		a->failure = ESPL_DID_UNSURE;
		(void)snprintf(a->text, sizeof a->text, "its request is not done yet");
	}
}

static void
read_look(struct espl_provider *p, const struct espl_machine *m, const json_t *root,
    struct espl_answer *a)
{
	const struct espl_provider_offer *source = espl_provider_offer_of(p, m);
	const struct espl_leased *lease = &m->lease;
	struct espl_provider_row r;

	if (a->failure == ESPL_DID_FINE) {
		read_instance(p, root, &r);
		a->row = r.row;
		if (strcmp(r.row.token, lease->token) != 0) /* somebody else's, of this name */
			a->failure = ESPL_DID_GONE;
	} else if (a->failure == ESPL_DID_GONE && lease->step == ESPL_LEASE_KNOWN &&
	    !lease->claimed && !lease->releasing && !lease->ending && source != NULL &&
	    espl_provider_is_spot(source)) {
		/* Compute Engine deletes a spot machine that it has interrupted. */
		a->failure = ESPL_DID_FINE;
		a->row = espl_lease_row(lease->token, ESPL_STAGE_ENDED);
		a->row.reason =
		    lease->reported < ESPL_NODE_READY ? ESPL_BY_CAPACITY : ESPL_BY_PROVIDER;
		a->row.text = "Compute Engine has interrupted its spot machine";
	}
}

/* The host keys of a machine, into RUN/known_hosts. */
static void
read_keys(const struct espl_provider *p, const struct espl_machine *m, const json_t *root,
    struct espl_answer *a)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789+/=-@.";
	const json_t *one, *items = json_object_get(json_object_get(root, "queryValue"), "items");
	char path[4300];
	FILE *to = NULL;
	size_t i, count = 0;

	if (a->failure != ESPL_DID_FINE) {
		if (a->failure == ESPL_DID_GONE)
			(void)snprintf(a->text, sizeof a->text,
			    "its ssh host keys are not published yet (host_key)");
		return;
	}
	if (p->run != NULL) {
		(void)snprintf(path, sizeof path, "%.4200s/known_hosts", p->run->folder);
		to = fopen(path, "ae");
	}
	json_array_foreach (items, i, one) {
		const char *kind = get_string(one, "key"), *key = get_string(one, "value");

		if (kind[0] == '\0' || key[0] == '\0' || kind[strspn(kind, letters)] != '\0' ||
		    key[strspn(key, letters)] != '\0')
			continue;
		count++;
		if (to != NULL)
			(void)fprintf(to, "%s %s %s\n", m->lease.token, kind, key);
	}
	if (count == 0)
		a->failure = ESPL_DID_LATER;
	if ((to == NULL || ferror(to)) && p->run != NULL)
		a->failure = ESPL_DID_REFUSE;
	if (to != NULL && fclose(to) != 0)
		a->failure = ESPL_DID_REFUSE;
	(void)snprintf(a->text, sizeof a->text, "%s: %s",
	    count == 0 ? "its ssh host keys" : "known_hosts",
	    count == 0 ? "there is none" : strerror(errno));
}

/* The type of an offer; an error of the user's is found here, before anything is leased. */
static void
read_type(struct espl_provider *p, const json_t *root, struct espl_answer *a)
{
	struct espl_provider_offer *source = &p->sources[p->step];
	const json_t *gpu = json_array_get(json_object_get(root, "accelerators"), 0);
	json_int_t count = json_integer_value(json_object_get(gpu, "guestAcceleratorCount"));
	int64_t wanted = source->row[ESPL_OFFERS_GPUS].as.i;

	source->cpus = (uint32_t)json_integer_value(json_object_get(root, "guestCpus"));
	source->memory = (uint64_t)json_integer_value(json_object_get(root, "memoryMb")) << 20;
	if (strcmp(source->row[ESPL_OFFERS_GPU_TYPE].as.s, "cpu") == 0 || count == wanted ||
	    source->row[GCE_ACCELERATOR].source != ESPL_UNSET)
		return;
	a->failure = ESPL_DID_REFUSE;
	(void)snprintf(a->text, sizeof a->text,
	    "%s has %lld GPU%s, but gpus = %lld\nset 'accelerator' of the offer, or gpu_type = "
	    "\"cpu\" for slots on its cores",
	    source->row[ESPL_OFFERS_TYPE].as.s, (long long)count, count == 1 ? "" : "s",
	    (long long)wanted);
}

static void
gce_read(struct espl_provider *p, enum espl_call_kind kind, struct espl_machine *m,
    const struct espl_http_reply *reply, struct espl_answer *a)
{
	static const char *const names[] = { [ESPL_CALL_START] = "the check",
		[ESPL_CALL_TOKEN] = "the metadata server",
		[ESPL_CALL_ASK] = "the request for a machine",
		[ESPL_CALL_AWAIT] = "the wait for a machine",
		[ESPL_CALL_LOOK] = "the look at a machine",
		[ESPL_CALL_CANCEL] = "the deletion",
		[ESPL_CALL_PROBE] = "the request for its ssh host keys",
		[ESPL_CALL_LIST] = "the listing of machines",
		[ESPL_CALL_OWNED] = "the listing of machines" };
	json_t *root =
	    reply->status == ESPL_OK ? json_loadb(reply->body, reply->body_size, 0, NULL) : NULL;

	a->kept = root;
	if (a->failure != ESPL_DID_FINE || !json_is_object(root))
		read_error(root, reply,
		    kind == ESPL_CALL_START && p->step < p->source_count ? p->sources[p->step].name
									 : names[kind],
		    a);
	if (kind == ESPL_CALL_LOOK && m != NULL)
		read_look(p, m, root, a);
	if (kind == ESPL_CALL_PROBE && m != NULL)
		read_keys(p, m, root, a);
	if (a->failure != ESPL_DID_FINE)
		return;
	switch (kind) {
	case ESPL_CALL_START:
		if (p->step < p->source_count)
			read_type(p, root, a);
		break;
	case ESPL_CALL_TOKEN:
		a->token = get_string(root, "access_token");
		a->lasts = json_integer_value(json_object_get(root, "expires_in")) * ESPL_SECOND;
		break;
	case ESPL_CALL_ASK:
	case ESPL_CALL_AWAIT:
		if (m != NULL)
			read_operation(p, m, root, reply, a);
		break;
	case ESPL_CALL_LIST:
	case ESPL_CALL_OWNED: read_list(p, kind, root, a); break;
	default: break;
	}
}

static void
drop_document(void *kept)
{
	json_decref(kept);
}

/* ---- the instance ---- */

static const char *const token_command[] = { "gcloud", "auth", "print-access-token", NULL };

static const struct espl_provider_api api = { .name = "Compute Engine",
	.token_command = token_command,
	.machine_size = sizeof(struct gce_machine),
	.minimum_charge = 60 * ESPL_SECOND,
	.refund_before = 60 * ESPL_SECOND,
	.notice = NOTICE,
	.start = fill_start,
	.token = fill_token,
	.ask = fill_ask,
	.look = fill_look,
	.cancel = fill_cancel,
	.probe = fill_probe,
	.list = fill_list,
	.read = gce_read,
	.drop = drop_document };

static void
gce_destroy(void *self)
{
	struct gce_cloud *cloud = self;

	espl_provider_free(&cloud->provider);
	free(cloud->script);
	free(cloud->ssh_keys);
	free(cloud);
}

/* What is part of a URL, or of the name of another resource. */
static espl_status
check_names(const struct espl_provider *p, struct espl_error *error)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.:/";
	static const uint32_t named[] = { GCE_PROJECT, GCE_IMAGE, GCE_NETWORK, GCE_SUBNETWORK,
		GCE_DISK_TYPE };
	const char *endpoint = espl_provider_text(p, GCE_ENDPOINT);

	for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
		const char *text = espl_provider_text(p, named[i]);

		if (text[strspn(text, letters)] != '\0' || strstr(text, "..") != NULL ||
		    strlen(text) > 400 || (text[0] == '\0' && named[i] != GCE_SUBNETWORK))
			return espl_blame(error, named[i], "this is not a name of Compute Engine");
	}
	for (uint32_t i = 0; i < p->source_count; i++)
		if (p->sources[i].name[strspn(p->sources[i].name, letters)] != '\0')
			return espl_blame(error, ESPL_PROVIDER_OFFERS,
			    "a type or zone is not a name of Compute Engine");
	if (strncmp(endpoint, "https://", 8) != 0 && strncmp(endpoint, "http://", 7) != 0)
		return espl_blame(error, GCE_ENDPOINT, "an endpoint begins with https://");
	return ESPL_OK;
}

/* "USER:KEY", as the metadata of a machine has it. */
static espl_status
read_public_key(struct gce_cloud *cloud, struct espl_error *error)
{
	struct espl_provider *p = &cloud->provider;
	const char *user = espl_provider_text(p, ESPL_PROVIDER_USER);
	const void *bytes;
	uint64_t size;
	espl_status status;

	if (p->config->values[GCE_PUBLIC_KEY].source == ESPL_UNSET)
		return ESPL_OK;
	if (user[0] == '\0')
		return espl_blame(error, GCE_PUBLIC_KEY, "a public key needs 'user'");
	status = p->host->file(p->host, GCE_PUBLIC_KEY, ESPL_ANY, ESPL_ANY, &bytes, &size, error);
	if (status != ESPL_OK)
		return status;
	if (size < 4 || memchr(bytes, '\0', size) != NULL || memcmp(bytes, "----", 4) == 0)
		return espl_blame(error, GCE_PUBLIC_KEY, "this is not a public key");
	cloud->ssh_keys = print_text("%s:%.*s", user, (int)size, (const char *)bytes);
	return cloud->ssh_keys != NULL ? ESPL_OK : espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

static espl_status
gce_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct gce_cloud *cloud = calloc(1, sizeof *cloud);
	struct espl_provider *p;
	espl_status status;

	if (cloud == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	p = &cloud->provider;
	cloud->api = api;
	p->pinned = config->values[GCE_HOST_KEY].as.i == 0;
	if (!p->pinned)
		cloud->api.probe = NULL;
	status = espl_provider_create(p, &cloud->api, host, config, error);
	if (status == ESPL_OK)
		status = check_names(p, error);
	if (status == ESPL_OK)
		status = read_public_key(cloud, error);
	cloud->script =
	    espl_provider_switch(config->values[GCE_ORPHAN].as.i, config->values[GCE_MOST].as.i);
	if (status == ESPL_OK && cloud->script == NULL)
		status = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	if (status != ESPL_OK) {
		gce_destroy(cloud);
		return status;
	}
	*self = cloud;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = { ESPL_PROVIDER_OPS };

ESPL_PLUGIN(cloud, gce) = {
	ESPL_HEAD(ESPL_CLOUD, "gce"),
	.version = "1",
	.summary = "machines of Google Compute Engine, spot and on demand",
	.caps = ESPL_NEED_IO,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = gce_create,
	.destroy = gce_destroy,
};
