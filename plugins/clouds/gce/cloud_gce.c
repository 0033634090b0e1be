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

#include "cloud_gce.h"

#define WAIT_LIMIT (150 * ESPL_SECOND) /* Compute Engine answers a wait within two minutes */
#define WAITS_MOST 10u                 /* for one request */

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

/* ---- requests ---- */

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

void
cloud_gce_zone(const struct espl_provider *p, const struct espl_machine *m, char zone[64])
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

	cloud_gce_zone(p, m, zone);
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
	add_metadata(items, "startup-script", gce_of(p)->script);
	add_metadata(items, "ssh-keys", gce_of(p)->ssh_keys);
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

/* ---- the instance ---- */

espl_status
cloud_gce_await(struct espl_provider *p, struct espl_machine *m, const char *operation)
{
	struct espl_call call = { .method = "POST", .limit = WAIT_LIMIT };
	char zone[64];

	if (++((struct gce_machine *)m)->waits > WAITS_MOST)
		return ESPL_E_LIMIT;
	cloud_gce_zone(p, m, zone);
	call.url = make_url(p, print_text("zones/%s/operations/%s/wait", zone, operation));
	return espl_provider_send(p, ESPL_CALL_AWAIT, m, &call);
}

/* ---- the instance ---- */

static const char *const token_command[] = { "gcloud", "auth", "print-access-token", NULL };

static const struct espl_provider_api api = { .name = "Compute Engine",
	.token_command = token_command,
	.machine_size = sizeof(struct gce_machine),
	.minimum_charge = 60 * ESPL_SECOND,
	.refund_before = 60 * ESPL_SECOND,
	.notice = GCE_NOTICE,
	.start = fill_start,
	.token = fill_token,
	.ask = fill_ask,
	.look = fill_look,
	.cancel = fill_cancel,
	.probe = fill_probe,
	.list = fill_list,
	.read = cloud_gce_read,
	.drop = cloud_gce_drop };

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
