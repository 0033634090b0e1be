/* gce_server.c - see gce_server.h. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gce_server.h"

#define S ESPL_SECOND
#define ROOT "https://compute.googleapis.com/compute/v1/projects/"

static void
reply_json(struct gce_server *g, struct espl_http_reply *reply, uint32_t code, json_t *root)
{
	free(g->answer);
	g->answer = json_dumps(root, 0);
	json_decref(root);
	reply->code = code;
	reply->body = g->answer;
	reply->body_size = strlen(g->answer);
}

static void
reply_error(struct gce_server *g, struct espl_http_reply *reply, uint32_t code, const char *reason)
{
	reply_json(g, reply, code,
	    json_pack("{s:{s:i, s:s, s:[{s:s, s:s}]}}", "error", "code", (int)code, "message",
		"by the test", "errors", "reason", reason, "message", "by the test"));
}

static void
reply_operation(struct gce_server *g, struct espl_http_reply *reply, const char *name,
    const char *status, const char *failed)
{
	json_t *root = json_pack("{s:s, s:s}", "name", name, "status", status);

	if (failed != NULL)
		(void)json_object_set_new(root, "error",
		    json_pack("{s:[{s:s, s:s}]}", "errors", "code", failed, "message",
			"by the test"));
	reply_json(g, reply, 200, root);
}

static void
tick(struct gce_server *g)
{
	for (unsigned i = 0; i < g->count; i++)
		if (g->machines[i].there && espl_kit_time(g->kit) >= g->machines[i].ends)
			g->machines[i].there = 0;
}

static struct gce_machine_there *
find_machine(struct gce_server *g, const char *zone, const char *name)
{
	for (unsigned i = 0; i < g->count; i++)
		if (g->machines[i].there && strcmp(g->machines[i].name, name) == 0 &&
		    strcmp(g->machines[i].zone, zone) == 0)
			return &g->machines[i];
	return NULL;
}

static json_t *
show_machine(const struct gce_server *g, const struct gce_machine_there *m)
{
	const char *status = m->status != NULL         ? m->status
	    : espl_kit_time(g->kit) >= m->runs         ? "RUNNING"
	    : espl_kit_time(g->kit) + 5 * S >= m->runs ? "STAGING"
						       : "PROVISIONING";

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s}, s:{s:s}, s:[{s:s, s:[{s:s}]}]}",
	    "name", m->name, "zone", m->zone, "status", status, "machineType", m->type,
	    "creationTimestamp", "2026-01-01T00:00:00.000-08:00", "labels", "espalier-run", m->run,
	    "espalier-token", m->label != NULL ? m->label : m->name, "scheduling",
	    "provisioningModel", m->spot ? "SPOT" : "STANDARD", "networkInterfaces", "networkIP",
	    "10.0.0.7", "accessConfigs", "natIP", "192.0.2.7");
}

static const char *
get_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	cr_assert_not_null(text, "%s is missing", key);
	return text;
}

static void
insert_machine(struct gce_server *g, const char *zone, const char *body,
    struct espl_http_reply *reply)
{
	json_t *root = json_loads(body, 0, NULL);
	const char *name = get_text(root, "name");
	struct gce_machine_there *m = &g->machines[g->count];
	unsigned code = 0;
	char reason[80];

	g->inserts++;
	if (g->refuse_at_once != NULL && sscanf(g->refuse_at_once, "%u %79s", &code, reason) == 2) {
		reply_error(g, reply, code, reason);
	} else if (find_machine(g, zone, name) != NULL) {
		reply_error(g, reply, 409, "alreadyExists");
	} else if (g->refuse != NULL) {
		reply_operation(g, reply, "refused", "RUNNING", NULL);
	} else {
		cr_assert_lt(g->count, GCE_MACHINES);
		*m = (struct gce_machine_there){ .there = 1,
			.runs = espl_kit_time(g->kit) + 20 * S,
			.ends = ESPL_NEVER,
			.spot = strcmp(get_text(json_object_get(root, "scheduling"),
					   "provisioningModel"),
				    "SPOT") == 0,
			.body = json_incref(root) };
		(void)snprintf(m->name, sizeof m->name, "%s", name);
		(void)snprintf(m->zone, sizeof m->zone, "%s", zone);
		(void)snprintf(m->type, sizeof m->type, "%s", get_text(root, "machineType"));
		(void)snprintf(m->run, sizeof m->run, "%s",
		    get_text(json_object_get(root, "labels"), "espalier-run"));
		g->count++;
		reply_operation(g, reply, name, "RUNNING", NULL);
	}
	json_decref(root);
}

/* An operation of an insert: busy until the machine runs. */
static void
wait_operation(struct gce_server *g, const char *zone, const char *name,
    struct espl_http_reply *reply)
{
	const struct gce_machine_there *m = find_machine(g, zone, name);

	if (strcmp(name, "refused") == 0)
		reply_operation(g, reply, name, "DONE", g->refuse);
	else if (m != NULL && espl_kit_time(g->kit) < m->runs - 10 * S)
		reply->status = ESPL_E_BUSY;
	else
		reply_operation(g, reply, name,
		    m != NULL && espl_kit_time(g->kit) < m->runs ? "RUNNING" : "DONE", NULL);
}

/* One machine a page. */
static void
list_machines(struct gce_server *g, const char *query, struct espl_http_reply *reply)
{
	const char *run = strstr(query, "espalier-run%3D"), *page = strstr(query, "&pageToken=");
	unsigned from =
	    page != NULL ? (unsigned)strtoul(page + strlen("&pageToken=%3"), NULL, 10) : 0;
	json_t *root = json_pack("{s:{s:{s:{s:s}}}}", "items", "zones/us-east1-b", "warning",
		   "code", "NO_RESULTS_ON_PAGE"),
	       *items = json_object_get(root, "items");
	char scope[80], next[2] = "0";
	size_t size = run != NULL ? strcspn(run + 15, "&") : 0;

	if (page == NULL && g->silent_lists > 0) {
		g->silent_lists--;
		from = GCE_MACHINES;
	}
	for (unsigned i = from; i < g->count; i++) {
		const struct gce_machine_there *m = &g->machines[i];

		if (!m->there ||
		    (run != NULL && (strncmp(run + 15, m->run, size) != 0 || m->run[size] != '\0')))
			continue;
		(void)snprintf(scope, sizeof scope, "zones/%s", m->zone);
		(void)json_object_set_new(items, scope,
		    json_pack("{s:[o]}", "instances", show_machine(g, m)));
		next[0] = (char)('0' + (i + 1) % 10);
		if (i + 1 < g->count && i + 1 < 10)
			(void)json_object_set_new(root, "nextPageToken", json_string(next));
		if (i + 1 < 10)
			break;
	}
	if (g->unreachable != NULL)
		(void)json_object_set_new(items, g->unreachable,
		    json_pack("{s:{s:s}}", "warning", "code", "UNREACHABLE"));
	reply_json(g, reply, 200, root);
}

static void
answer_machine(struct gce_server *g, const struct espl_http *request, const char *zone,
    const char *name, const char *rest, struct espl_http_reply *reply)
{
	struct gce_machine_there *m = find_machine(g, zone, name);

	if (m == NULL) {
		reply_error(g, reply, 404, "notFound");
	} else if (strcmp(request->method, "DELETE") == 0) {
		g->deletes++;
		m->status = "STOPPING";
		if (m->ends > espl_kit_time(g->kit) + 8 * S)
			m->ends = espl_kit_time(g->kit) + 8 * S;
		reply_operation(g, reply, "deletion", "RUNNING", NULL);
	} else if (rest[0] == '\0') {
		reply_json(g, reply, 200, show_machine(g, m));
	} else if (g->keyless || espl_kit_time(g->kit) < m->runs + 5 * S) {
		reply_error(g, reply, 404, "notFound");
	} else {
		reply_json(g, reply, 200,
		    json_pack("{s:{s:[{s:s, s:s, s:s}]}}", "queryValue", "items", "namespace",
			"hostkeys", "key", "ssh-ed25519", "value", "AAAAC3NzaC1lZDI1NTE5"));
	}
}

static int
has_token(const struct espl_http *request)
{
	for (uint32_t i = 0; i < request->header_count; i++)
		if (strcmp(request->headers[i], "Authorization: Bearer ya29.test") == 0)
			return 1;
	return 0;
}

static void
answer_http(void *ctx, const struct espl_http *request, struct espl_http_reply *reply)
{
	struct gce_server *g = ctx;
	const char *path = request->url + strlen(ROOT);
	char zone[64], name[80], type[80], rest[100] = "";

	tick(g);
	cr_assert(strncmp(request->url, ROOT, strlen(ROOT)) == 0, "%s", request->url);
	if (!has_token(request) || g->expired > 0) {
		g->expired -= g->expired > 0;
		reply_error(g, reply, 401, "authError");
	} else if (strcmp(path, "debian-cloud/global/images/family/debian-12") == 0) {
		reply_json(g, reply, 200, json_pack("{s:s}", "name", "debian-12-bookworm"));
	} else if (strncmp(path, "lab/aggregated/instances?", 25) == 0) {
		list_machines(g, path + 25, reply);
	} else if (sscanf(path, "lab/zones/%63[^/]/machineTypes/%79s", zone, type) == 2) {
		reply_json(g, reply, 200,
		    json_pack("{s:s, s:i, s:i}", "name", type, "guestCpus", 4, "memoryMb", 15360));
	} else if (sscanf(path, "lab/zones/%63[^/]/operations/%79[^/]/wait", zone, name) == 2) {
		wait_operation(g, zone, name, reply);
	} else if (sscanf(path, "lab/zones/%63[^/]/instances/%79[^/]/%99s", zone, name, rest) >=
	    2) {
		answer_machine(g, request, zone, name, rest, reply);
	} else {
		cr_assert_eq(sscanf(path, "lab/zones/%63[^/]/instances", zone), 1, "%s", path);
		cr_assert_str_eq(request->method, "POST");
		insert_machine(g, zone, request->body, reply);
	}
}

/* gcloud prints a token; ssh reaches what runs. */
static void
answer_child(void *ctx, const struct espl_spawn *spawn, struct espl_child *child)
{
	struct gce_server *g = ctx;
	int runs = 0;

	tick(g);
	if (strcmp(spawn->argv[0], "gcloud") == 0) {
		g->tokens++;
		child->exit_code = g->logged_out;
		child->out = "ya29.test\n";
		child->out_size = 10;
		return;
	}
	for (unsigned i = 0; i < g->count; i++)
		runs |= g->machines[i].there && espl_kit_time(g->kit) >= g->machines[i].runs;
	child->exit_code = runs ? 0 : 255;
}

uint32_t
gce_server_machines(void *ctx)
{
	struct gce_server *g = ctx;
	uint32_t count = 0;

	tick(g);
	for (unsigned i = 0; i < g->count; i++)
		count += g->machines[i].there != 0;
	return count;
}

static void
forget_machines(void *ctx)
{
	struct gce_server *g = ctx;

	for (unsigned i = 0; i < g->count; i++)
		json_decref(g->machines[i].body);
	g->count = 0;
}

void
gce_server_interrupt(struct gce_server *g, unsigned number)
{
	g->machines[number].status = "STOPPING";
	g->machines[number].ends = espl_kit_time(g->kit) + 30 * S;
}

struct espl_kit *
gce_server_open(struct gce_server *g, uint64_t seed)
{
	static struct espl_kit_provider provider = { .size = sizeof provider,
		.http = answer_http,
		.child = answer_child,
		.reset = forget_machines,
		.machines = gce_server_machines };

	*g = (struct gce_server){ .kit = espl_kit_new(seed) };
	provider.ctx = g;
	espl_kit_set_provider(g->kit, &provider);
	return g->kit;
}
