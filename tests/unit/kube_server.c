/* kube_server.c - the API server of kube_server.h. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kube_server.h"

#define S ESPL_SECOND
#define HOUR (3600 * S)
#define EPOCH 1700000000 /* UTC at time 0 */

uint64_t
kube_server_random(struct kube_server *s)
{
	s->state ^= s->state << 13;
	s->state ^= s->state >> 7;
	s->state ^= s->state << 17;
	return s->state;
}

/* ---- pods ---- */

static json_t *
utc_text(const struct kube_server *s, espl_time at)
{
	time_t seconds = EPOCH + (time_t)((at + s->ahead) / S);
	struct tm tm;
	char text[40];

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}

static json_t *
body_of(const struct kube_server *s, const struct fake_pod *pod)
{
	json_t *body = json_pack("{s:{s:s, s:s, s:s, s:{s:s, s:s, s:s}}, s:{s:i}, s:{s:s}}",
	    "metadata", "name", pod->name, "uid", pod->uid, "resourceVersion", "1", "labels", "app",
	    "espalier", "espalier/run", pod->run, "espalier/token", pod->name, "spec",
	    "activeDeadlineSeconds", 86400, "status", "phase",
	    pod->running ? "Running" : "Pending");
	json_t *meta = json_object_get(body, "metadata"), *status = json_object_get(body, "status");
	char version[20];

	(void)snprintf(version, sizeof version, "%u", s->event_count);
	(void)json_object_set_new(meta, "resourceVersion", json_string(version));
	if (pod->deleted != ESPL_NEVER)
		(void)json_object_set_new(meta, "deletionTimestamp", utc_text(s, pod->gone));
	if (pod->full)
		(void)json_object_set_new(status, "conditions",
		    json_pack("[{s:s, s:s, s:s, s:s}]", "type", "PodScheduled", "status", "False",
			"reason", "Unschedulable", "message", "no room"));
	if (!pod->running && s->stuck != NULL) {
		(void)json_object_set_new(json_object_get(body, "spec"), "nodeName",
		    json_string("n1"));
		(void)json_object_set_new(status, "containerStatuses",
		    json_pack("[{s:s, s:{s:{s:s}}}]", "name", "espalier", "state", "waiting",
			"reason", s->stuck));
	}
	if (!pod->running)
		return body;
	(void)json_object_set_new(status, "podIP", json_string("10.0.0.1"));
	(void)json_object_set_new(status, "startTime", utc_text(s, pod->made));
	(void)json_object_set_new(status, "containerStatuses",
	    json_pack("[{s:s, s:{s:{}}}]", "name", "espalier", "state", "running"));
	(void)json_object_set_new(status, "conditions",
	    json_pack("[{s:s, s:s}]", "type", "Ready", "status", pod->lost ? "False" : "True"));
	return body;
}

void
kube_server_emit(struct kube_server *s, const char *type, const struct fake_pod *pod)
{
	json_t *event;

	cr_assert_lt(s->event_count, KUBE_EVENTS);
	s->event_count++;
	event = json_pack("{s:s, s:o}", "type", type, "object", body_of(s, pod));
	s->events[s->event_count - 1] = json_dumps(event, JSON_COMPACT);
	json_decref(event);
}

static void
remove_pod(struct kube_server *s, struct fake_pod *pod)
{
	pod->exists = 0;
	kube_server_emit(s, "DELETED", pod);
}

void
kube_server_delete(struct kube_server *s, struct fake_pod *pod, espl_span grace)
{
	espl_time now = espl_kit_time(s->kit);

	if (pod->deleted != ESPL_NEVER && grace > 0 && pod->gone <= now + grace)
		return;
	pod->deleted = now;
	pod->gone = now + grace;
	if (grace == 0 || !pod->running) /* no node knows it */
		remove_pod(s, pod);
	else
		kube_server_emit(s, "MODIFIED", pod);
}

/* What the scheduler and the nodes have done by now. */
void
kube_server_advance(struct kube_server *s)
{
	espl_time now = espl_kit_time(s->kit);

	for (unsigned i = 0; i < s->count; i++) {
		struct fake_pod *pod = &s->pods[i];

		if (!pod->exists)
			continue;
		if (!pod->running && pod->full != s->full) {
			pod->full = s->full;
			kube_server_emit(s, "MODIFIED", pod);
		} else if (!pod->running && !pod->full && s->stuck == NULL &&
		    now - pod->made > 2 * S) {
			pod->running = 1;
			kube_server_emit(s, "MODIFIED", pod);
		} else if (now > pod->gone && !pod->lost) {
			remove_pod(s, pod);
		}
	}
}

static struct fake_pod *
find_pod(struct kube_server *s, const char *name)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->pods[i].exists && strcmp(s->pods[i].name, name) == 0)
			return &s->pods[i];
	return NULL;
}

uint32_t
kube_server_count(void *ctx)
{
	struct kube_server *s = ctx;
	uint32_t count = 0;

	kube_server_advance(s);
	for (unsigned i = 0; i < s->count; i++)
		count += s->pods[i].exists != 0;
	return count;
}

/* ---- answers ---- */

static void
reply_with(struct kube_server *s, struct espl_http_reply *reply, uint32_t code, json_t *body)
{
	free(s->answer);
	s->answer = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	reply->code = code;
	reply->body = s->answer;
	reply->body_size = strlen(s->answer);
}

static void
fail_with(struct kube_server *s, struct espl_http_reply *reply, uint32_t code, const char *reason,
    const char *message)
{
	reply_with(s, reply, code,
	    json_pack("{s:s, s:s, s:s}", "kind", "Status", "reason", reason, "message", message));
}

static void
create(struct kube_server *s, const json_t *body, struct espl_http_reply *reply)
{
	const json_t *meta = json_object_get(body, "metadata");
	const json_t *labels = json_object_get(meta, "labels");
	const char *name = json_string_value(json_object_get(meta, "name"));
	struct fake_pod *pod;

	s->creates++;
	if (s->broken) {
		fail_with(s, reply, 500, "InternalError", "failed calling webhook \"x\": EOF");
	} else if (s->quota) {
		fail_with(s, reply, 403, "Forbidden", "pods is forbidden: exceeded quota: gpus");
	} else if (s->no_right) {
		fail_with(s, reply, 403, "Forbidden",
		    "pods is forbidden: User \"me\" cannot create resource \"pods\"");
	} else if (find_pod(s, name) != NULL) {
		fail_with(s, reply, 409, "AlreadyExists", "it exists");
	} else {
		cr_assert_lt(s->count, KUBE_PODS);
		pod = &s->pods[s->count++];
		*pod = (struct fake_pod){ .made = espl_kit_time(s->kit),
			.deleted = ESPL_NEVER,
			.gone = ESPL_NEVER,
			.exists = 1 };
		(void)snprintf(pod->name, sizeof pod->name, "%s", name);
		(void)snprintf(pod->uid, sizeof pod->uid, "uid-%u", s->count);
		(void)snprintf(pod->run, sizeof pod->run, "%s",
		    json_string_value(json_object_get(labels, "espalier/run")));
		kube_server_emit(s, "ADDED", pod);
		reply_with(s, reply, 201, body_of(s, pod));
	}
}

static void
handle_pod(struct kube_server *s, const struct espl_http *request, const char *name,
    const json_t *body, struct espl_http_reply *reply)
{
	struct fake_pod *pod = find_pod(s, name);
	const char *uid =
	    json_string_value(json_object_get(json_object_get(body, "preconditions"), "uid"));
	espl_span grace =
	    json_integer_value(json_object_get(body, "gracePeriodSeconds")) * ESPL_SECOND;

	if (pod == NULL) {
		fail_with(s, reply, 404, "NotFound", "pods not found");
		return;
	}
	if (strcmp(request->method, "DELETE") == 0) {
		if (s->refuse_verbs > 0) {
			s->refuse_verbs--;
			reply->code = 503;
			return;
		}
		if (uid != NULL && strcmp(uid, pod->uid) != 0) {
			fail_with(s, reply, 409, "Conflict", "the uid differs");
			return;
		}
		s->deletes++;
		s->forced += grace == 0;
		kube_server_delete(s, pod, grace);
	}
	reply_with(s, reply, 200, body_of(s, pod));
}

/* Two pods a page. The continue token is where the next one begins. */
static void
list(struct kube_server *s, const char *url, struct espl_http_reply *reply)
{
	const char *next = strstr(url, "&continue="), *run = strstr(url, "run%3D");
	unsigned i = next != NULL ? (unsigned)strtoul(next + 10, NULL, 10) : 0, have = 0;
	char version[20], token[20] = "";
	json_t *items = json_array();

	s->lists++;
	for (; i < s->count && have < 2; i++) {
		size_t size = strlen(s->pods[i].run);

		if (!s->pods[i].exists || s->hides ||
		    (run != NULL && (strncmp(run + 6, s->pods[i].run, size) != 0)))
			continue;
		have++;
		(void)json_array_append_new(items, body_of(s, &s->pods[i]));
	}
	if (i < s->count)
		(void)snprintf(token, sizeof token, "%u", i);
	(void)snprintf(version, sizeof version, "%u", s->event_count);
	reply_with(s, reply, 200,
	    json_pack("{s:{s:s, s:s}, s:o}", "metadata", "resourceVersion", version, "continue",
		token, "items", items));
}

static void
watch(struct kube_server *s, const struct espl_http *request, struct espl_http_reply *reply)
{
	const char *from = strstr(request->url, "resourceVersion=");
	size_t size = 1;

	if (s->empty_watches)
		return;
	if (s->watch != request->url) { /* each request has its own copy */
		s->watch = request->url;
		s->watched = (unsigned)strtoul(from + 16, NULL, 10);
	}
	for (unsigned i = s->watched; i < s->event_count; i++)
		size += strlen(s->events[i]) + 1;
	free(s->answer);
	s->answer = calloc(1, size);
	for (unsigned i = s->watched, used = 0; i < s->event_count; i++)
		used += (unsigned)snprintf(s->answer + used, size - used, "%s\n", s->events[i]);
	s->watched = s->event_count;
	reply->status = ESPL_E_BUSY;
	reply->body = s->answer;
	reply->body_size = size - 1;
}

static void
serve(struct kube_server *s, const struct espl_http *request, struct espl_http_reply *reply)
{
	const char *pods = strstr(request->url, "/pods");
	json_t *body =
	    request->body != NULL ? json_loadb(request->body, request->body_size, 0, NULL) : NULL;

	kube_server_advance(s);
	if (strstr(request->url, "/events?fieldSelector=involvedObject.uid%3D") != NULL)
		reply_with(s, reply, 200,
		    json_pack("{s:[o*]}", "items",
			s->event != NULL ? json_loads(s->event, 0, NULL) : NULL));
	else if (pods == NULL)
		reply_with(s, reply, 201, json_pack("{s:{s:b}}", "status", "allowed", 1));
	else if (strstr(pods, "dryRun=All") != NULL)
		reply_with(s, reply, 201, json_object());
	else if (strcmp(request->method, "POST") == 0)
		create(s, body, reply);
	else if (pods[5] == '/')
		handle_pod(s, request, pods + 6, body, reply);
	else if (strstr(pods, "watch=1") != NULL)
		watch(s, request, reply);
	else
		list(s, request->url, reply);
	json_decref(body);
}

static void
lose(struct espl_http_reply *reply, espl_status status)
{
	reply->status = status;
	reply->code = 0;
	reply->body = "";
	reply->body_size = 0;
	reply->text = "the connection was lost";
}

static void
run_http(void *ctx, const struct espl_http *request, struct espl_http_reply *reply)
{
	struct kube_server *s = ctx;
	time_t now = EPOCH + (time_t)((espl_kit_time(s->kit) + s->ahead) / S);
	struct tm tm;

	if (s->wedged) {
		lose(reply, ESPL_E_LIMIT);
		return;
	}
	if (kube_server_random(s) % 100 >= s->chance) {
		serve(s, request, reply);
		(void)gmtime_r(&now, &tm);
		(void)strftime(s->date, sizeof s->date, "Date: %a, %d %b %Y %H:%M:%S GMT", &tm);
		s->header[0] = s->date;
		reply->headers = s->header;
		reply->header_count = 1;
		return;
	}
	switch (kube_server_random(s) % 6) {
	case 0: lose(reply, ESPL_E_REMOTE); break;
	case 1:
	case 2:
		serve(s, request, reply);
		lose(reply, kube_server_random(s) % 2 ? ESPL_E_LIMIT : ESPL_E_REMOTE);
		break;
	case 3:
		reply->code = 429;
		reply->body = "Too many requests, please try again later.\n";
		reply->body_size = strlen(reply->body);
		s->header[0] = "Retry-After: 1";
		reply->headers = s->header;
		reply->header_count = 1;
		break;
	case 4: reply->code = 500; break;
	default: reply->code = 504; break;
	}
}

static void
run_child(void *ctx, const struct espl_spawn *spawn, struct espl_child *child)
{
	static const char view[] = "{\"contexts\": [{\"name\": \"c\", \"context\": {}}]}";

	(void)ctx;
	if (strcmp(spawn->argv[0], "kubectl") == 0) {
		child->out = view;
		child->out_size = sizeof view - 1;
		return;
	}
	child->status = ESPL_E_BUSY; /* the proxy runs */
}

static void
forget(void *ctx)
{
	struct kube_server *s = ctx;

	for (unsigned i = 0; i < s->event_count; i++)
		free(s->events[i]);
	s->event_count = s->count = 0;
	s->watch = NULL;
}

struct espl_kit *
kube_server_open(struct kube_server *s, uint64_t seed)
{
	static struct espl_kit_provider provider;

	memset(s, 0, sizeof *s);
	s->state = seed * 2654435761u + 1;
	s->kit = espl_kit_new(seed);
	provider = (struct espl_kit_provider){ .size = sizeof provider,
		.ctx = s,
		.http = run_http,
		.child = run_child,
		.reset = forget,
		.machines = kube_server_count };
	espl_kit_set_provider(s->kit, &provider);
	return s->kit;
}

void
kube_server_start(struct kube_server *s)
{
	cr_assert_eq(espl_kit_open(s->kit, &cloud_kubernetes_LTX_espalier_plugin, KUBE_OPTIONS,
			 NULL),
	    ESPL_OK);
	cr_assert_eq(espl_kit_start(s->kit), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(s->kit, HOUR), ESPL_OK, "%s", espl_kit_log(s->kit));
}

void
kube_server_close(struct kube_server *s)
{
	cr_assert_eq(espl_kit_refused(s->kit), 0, "%s", espl_kit_log(s->kit));
	espl_kit_free(s->kit);
	forget(s);
	free(s->answer);
}

int
kube_server_says(const struct kube_server *s, const char *text)
{
	return strstr(espl_kit_log(s->kit), text) != NULL;
}
