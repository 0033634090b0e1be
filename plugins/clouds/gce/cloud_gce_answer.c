/* cloud_gce_answer.c - what Compute Engine answers, for the kit: instances, operations, errors. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cloud_gce.h"

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
	struct gce_cloud *cloud = gce_of(p);
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
		r->row.ends_at = p->host->now(p->host) + GCE_NOTICE;
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
	struct gce_cloud *cloud = gce_of(p);
	char zone[64];

	cloud_gce_zone(p, m, zone);
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
	a->pending = cloud_gce_await(p, m, get_string(root, "name")) == ESPL_OK;
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

void
cloud_gce_read(struct espl_provider *p, enum espl_call_kind kind, struct espl_machine *m,
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

void
cloud_gce_drop(void *kept)
{
	json_decref(kept);
}
