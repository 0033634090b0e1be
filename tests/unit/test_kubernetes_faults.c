/* test_kubernetes_faults.c - cloud kubernetes against an API server that loses, refuses and delays
 * requests, and whose nodes die: every pod is deleted or belongs to a lease.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testkit.h"

#define S ESPL_SECOND
#define HOUR (3600 * S)
#define PODS 400
#define EVENTS 4000
#define EPOCH 1700000000 /* UTC at time 0 */

extern const struct espl_plugin cloud_kubernetes_LTX_espalier_plugin;
static const char options[] = "image=any kubectl=kubectl nodes_max=4";

struct fake_pod {
	char name[70], uid[40], run[70];
	espl_time made, deleted, gone; /* ESPL_NEVER: not yet */
	int exists, running, full, lost;
};
struct server {
	struct espl_kit *kit;
	struct fake_pod pods[PODS];
	unsigned count, creates, deletes, forced, proxies, lists;
	char *events[EVENTS];
	unsigned event_count;
	const void *watch; /* the request that is answered so far, and up to which event */
	unsigned watched;
	char *answer;
	unsigned chance;       /* of a fault, in percent */
	uint64_t state;        /* of the faults */
	unsigned refuse_verbs; /* the next N deletions get 503 */
	int full;              /* no pod is scheduled */
	const char *stuck;   /* pods have a node, and do not start for this reason; NULL: they do */
	const char *event;   /* of each pod, as JSON; NULL: none */
	int broken;          /* creates fail, and nothing else does */
	int quota, no_right; /* no pod is created */
	int wedged;          /* nothing is answered until another proxy is started */
	int empty_watches;   /* end at once, and say nothing */
	espl_span ahead;     /* of its clock */
	char date[80];
	const char *header[1];
};

static uint64_t
next_random(struct server *s)
{
	s->state ^= s->state << 13;
	s->state ^= s->state >> 7;
	s->state ^= s->state << 17;
	return s->state;
}

/* ---- pods ---- */

static json_t *
utc_text(const struct server *s, espl_time at)
{
	time_t seconds = EPOCH + (time_t)((at + s->ahead) / S);
	struct tm tm;
	char text[40];

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}

static json_t *
body_of(const struct server *s, const struct fake_pod *pod)
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

static void
emit(struct server *s, const char *type, const struct fake_pod *pod)
{
	json_t *event;

	cr_assert_lt(s->event_count, EVENTS);
	s->event_count++;
	event = json_pack("{s:s, s:o}", "type", type, "object", body_of(s, pod));
	s->events[s->event_count - 1] = json_dumps(event, JSON_COMPACT);
	json_decref(event);
}

static void
remove_pod(struct server *s, struct fake_pod *pod)
{
	pod->exists = 0;
	emit(s, "DELETED", pod);
}

static void
delete_pod(struct server *s, struct fake_pod *pod, espl_span grace)
{
	espl_time now = espl_kit_time(s->kit);

	if (pod->deleted != ESPL_NEVER && grace > 0 && pod->gone <= now + grace)
		return;
	pod->deleted = now;
	pod->gone = now + grace;
	if (grace == 0 || !pod->running) /* no node knows it */
		remove_pod(s, pod);
	else
		emit(s, "MODIFIED", pod);
}

/* What the scheduler and the nodes have done by now. */
static void
advance(struct server *s)
{
	espl_time now = espl_kit_time(s->kit);

	for (unsigned i = 0; i < s->count; i++) {
		struct fake_pod *pod = &s->pods[i];

		if (!pod->exists)
			continue;
		if (!pod->running && pod->full != s->full) {
			pod->full = s->full;
			emit(s, "MODIFIED", pod);
		} else if (!pod->running && !pod->full && s->stuck == NULL &&
		    now - pod->made > 2 * S) {
			pod->running = 1;
			emit(s, "MODIFIED", pod);
		} else if (now > pod->gone && !pod->lost) {
			remove_pod(s, pod);
		}
	}
}

static struct fake_pod *
find_pod(struct server *s, const char *name)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->pods[i].exists && strcmp(s->pods[i].name, name) == 0)
			return &s->pods[i];
	return NULL;
}

static uint32_t
count_pods(void *ctx)
{
	struct server *s = ctx;
	uint32_t count = 0;

	advance(s);
	for (unsigned i = 0; i < s->count; i++)
		count += s->pods[i].exists != 0;
	return count;
}

/* ---- answers ---- */

static void
reply_with(struct server *s, struct espl_http_reply *reply, uint32_t code, json_t *body)
{
	free(s->answer);
	s->answer = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	reply->code = code;
	reply->body = s->answer;
	reply->body_size = strlen(s->answer);
}

static void
fail_with(struct server *s, struct espl_http_reply *reply, uint32_t code, const char *reason,
    const char *message)
{
	reply_with(s, reply, code,
	    json_pack("{s:s, s:s, s:s}", "kind", "Status", "reason", reason, "message", message));
}

static void
create(struct server *s, const json_t *body, struct espl_http_reply *reply)
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
		cr_assert_lt(s->count, PODS);
		pod = &s->pods[s->count++];
		*pod = (struct fake_pod){ .made = espl_kit_time(s->kit),
			.deleted = ESPL_NEVER,
			.gone = ESPL_NEVER,
			.exists = 1 };
		(void)snprintf(pod->name, sizeof pod->name, "%s", name);
		(void)snprintf(pod->uid, sizeof pod->uid, "uid-%u", s->count);
		(void)snprintf(pod->run, sizeof pod->run, "%s",
		    json_string_value(json_object_get(labels, "espalier/run")));
		emit(s, "ADDED", pod);
		reply_with(s, reply, 201, body_of(s, pod));
	}
}

static void
handle_pod(struct server *s, const struct espl_http *request, const char *name, const json_t *body,
    struct espl_http_reply *reply)
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
		delete_pod(s, pod, grace);
	}
	reply_with(s, reply, 200, body_of(s, pod));
}

/* Two pods a page. The continue token is where the next one begins. */
static void
list(struct server *s, const char *url, struct espl_http_reply *reply)
{
	const char *next = strstr(url, "&continue="), *run = strstr(url, "run%3D");
	unsigned i = next != NULL ? (unsigned)strtoul(next + 10, NULL, 10) : 0, have = 0;
	char version[20], token[20] = "";
	json_t *items = json_array();

	s->lists++;
	for (; i < s->count && have < 2; i++) {
		size_t size = strlen(s->pods[i].run);

		if (!s->pods[i].exists ||
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
watch(struct server *s, const struct espl_http *request, struct espl_http_reply *reply)
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
serve(struct server *s, const struct espl_http *request, struct espl_http_reply *reply)
{
	const char *pods = strstr(request->url, "/pods");
	json_t *body =
	    request->body != NULL ? json_loadb(request->body, request->body_size, 0, NULL) : NULL;

	advance(s);
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
	struct server *s = ctx;
	time_t now = EPOCH + (time_t)((espl_kit_time(s->kit) + s->ahead) / S);
	struct tm tm;

	if (s->wedged) {
		lose(reply, ESPL_E_LIMIT);
		return;
	}
	if (next_random(s) % 100 >= s->chance) {
		serve(s, request, reply);
		(void)gmtime_r(&now, &tm);
		(void)strftime(s->date, sizeof s->date, "Date: %a, %d %b %Y %H:%M:%S GMT", &tm);
		s->header[0] = s->date;
		reply->headers = s->header;
		reply->header_count = 1;
		return;
	}
	switch (next_random(s) % 6) {
	case 0: lose(reply, ESPL_E_REMOTE); break;
	case 1:
	case 2:
		serve(s, request, reply);
		lose(reply, next_random(s) % 2 ? ESPL_E_LIMIT : ESPL_E_REMOTE);
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
	struct server *s = ctx;

	for (unsigned i = 0; i < s->event_count; i++)
		free(s->events[i]);
	s->event_count = s->count = 0;
	s->watch = NULL;
}

static struct espl_kit *
open_kit(struct server *s, uint64_t seed)
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
		.machines = count_pods };
	espl_kit_set_provider(s->kit, &provider);
	return s->kit;
}

static void
start_kit(struct server *s)
{
	cr_assert_eq(espl_kit_open(s->kit, &cloud_kubernetes_LTX_espalier_plugin, options, NULL),
	    ESPL_OK);
	cr_assert_eq(espl_kit_start(s->kit), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(s->kit, HOUR), ESPL_OK, "%s", espl_kit_log(s->kit));
}

static void
close_kit(struct server *s)
{
	cr_assert_eq(espl_kit_refused(s->kit), 0, "%s", espl_kit_log(s->kit));
	espl_kit_free(s->kit);
	forget(s);
	free(s->answer);
}

static int
says(const struct server *s, const char *text)
{
	return strstr(espl_kit_log(s->kit), text) != NULL;
}

/* ---- tests ---- */

Test(kubernetes_faults, one_fault_at_each_request, .timeout = 300)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 1);

	cr_assert_eq(espl_kit_trouble(kit, &cloud_kubernetes_LTX_espalier_plugin, options), ESPL_OK,
	    "%s", espl_kit_log(kit));
	cr_assert(says(&s, "trouble: "), "%s", espl_kit_log(kit));
	close_kit(&s);
}

/* Something happens to a pod. */
static void
disturb(struct server *s)
{
	struct fake_pod *pod = s->count > 0 ? &s->pods[next_random(s) % s->count] : NULL;

	s->full = next_random(s) % 8 == 0;
	s->quota = next_random(s) % 8 == 0;
	s->no_right = next_random(s) % 16 == 0;
	advance(s);
	if (pod == NULL || !pod->exists)
		return;
	if (next_random(s) % 4 == 0 && pod->running) { /* its node dies */
		pod->lost = 1;
		emit(s, "MODIFIED", pod);
	}
	if (next_random(s) % 4 != 0)
		delete_pod(s, pod, pod->lost || next_random(s) % 2 ? 30 * S : 0);
}

static void
live_with_faults(struct server *s, uint64_t seed)
{
	struct espl_kit *kit = open_kit(s, seed);
	uint64_t leases = 0;

	start_kit(s);
	s->chance = 10 + (unsigned)(seed % 4) * 20;
	for (int i = 0; i < 12; i++) {
		if (next_random(s) % 3 != 0) {
			(void)espl_kit_acquire(kit, 0, 1);
			leases++;
		} else if (leases > 0) {
			uint64_t one = next_random(s) % leases;

			if (espl_kit_lease(kit, one)->state != ESPL_NODE_ENDED)
				(void)espl_kit_release(kit, one);
		}
		disturb(s);
		espl_kit_wait(kit, (espl_span)(next_random(s) % 60) * S);
	}
	s->chance = 0;
	s->full = s->quota = s->no_right = 0;
	for (uint64_t i = 0; i < leases; i++)
		if (espl_kit_lease(kit, i)->state != ESPL_NODE_ENDED)
			(void)espl_kit_release(kit, i);
	for (uint64_t i = 0; i < leases; i++)
		cr_assert(espl_kit_wait_node(kit, i, ESPL_NODE_ENDED, HOUR), "seed %llu lease %llu",
		    (unsigned long long)seed, (unsigned long long)i);
	espl_kit_wait(kit, 120 * S);
	for (unsigned i = 0; i < s->count; i++)
		cr_assert_not(s->pods[i].exists, "seed %llu: pod %s is left\n%s",
		    (unsigned long long)seed, s->pods[i].name, espl_kit_log(kit));
	close_kit(s);
}

Test(kubernetes_faults, no_pod_is_forgotten, .timeout = 300)
{
	static struct server s;

	for (uint64_t seed = 1; seed <= 200; seed++)
		live_with_faults(&s, seed);
}

/* The server is busy just when a pod that found no node is given up. */
Test(kubernetes_faults, an_end_is_confirmed)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 3);

	start_kit(&s);
	s.full = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 100 * S);
	s.refuse_verbs = 3;
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_CAPACITY);
	cr_assert_eq(count_pods(&s), 1);
	s.full = 0; /* now it finds a node */
	/* what a run asks at its end: pods that are on their way out are not listed */
	cr_assert_eq(espl_kit_owned(kit, "kit"), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	cr_assert_not(says(&s, "owned lease=0"), "%s", espl_kit_log(kit));
	cr_assert_eq(count_pods(&s), 0, "%s", espl_kit_log(kit));
	cr_assert_eq(s.refuse_verbs, 0);
	close_kit(&s);
}

Test(kubernetes_faults, a_lost_node_ends_the_lease)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 4);
	espl_time begun;

	start_kit(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	s.pods[0].lost = 1;
	emit(&s, "MODIFIED", &s.pods[0]);
	delete_pod(&s, &s.pods[0], 30 * S);
	begun = espl_kit_time(kit);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_NOTICE, 5 * S));
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_geq(espl_kit_time(kit) - begun, 30 * S);
	cr_assert_leq(espl_kit_time(kit) - begun, 50 * S);
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_PROVIDER);
	espl_kit_wait(kit, 10 * S);
	cr_assert_eq(count_pods(&s), 0, "%s", espl_kit_log(kit));
	cr_assert_geq(s.forced, 1);
	close_kit(&s);
}

Test(kubernetes_faults, a_pod_that_leaves_is_ready_and_then_noticed_after_a_restart)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 5);
	const char *ready, *notice;

	start_kit(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	s.pods[0].deleted = espl_kit_time(kit); /* an eviction */
	s.pods[0].gone = espl_kit_time(kit) + 20 * S;
	emit(&s, "MODIFIED", &s.pods[0]);
	espl_kit_clear(kit);
	espl_kit_restart(kit);
	espl_kit_wait(kit, 5 * S);
	ready = strstr(espl_kit_log(kit), "node lease=0 READY");
	notice = strstr(espl_kit_log(kit), "node lease=0 NOTICE");
	cr_assert(ready != NULL && notice > ready, "%s", espl_kit_log(kit));
	cr_assert_eq(s.deletes, 0);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_PROVIDER);
	close_kit(&s);
}

/* kubectl proxy takes requests and answers none. */
Test(kubernetes_faults, a_wedged_proxy_is_replaced)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 6);

	start_kit(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	s.wedged = 1;
	(void)espl_kit_acquire(kit, 0, 2);
	espl_kit_clear(kit);
	espl_kit_wait(kit, 150 * S);
	cr_assert(says(&s, "kubectl proxy does not answer in time; starting another one"), "%s",
	    espl_kit_log(kit));
	cr_assert(says(&s, "child sh -c"), "%s", espl_kit_log(kit));
	s.wedged = 0;
	cr_assert(espl_kit_wait_node(kit, 2, ESPL_NODE_READY, HOUR));
	close_kit(&s);
}

Test(kubernetes_faults, a_watch_without_an_event_is_not_repeated_at_once)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 7);

	start_kit(&s);
	s.empty_watches = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	s.lists = 0;
	espl_kit_wait(kit, 300 * S);
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY);
	cr_assert_leq(s.lists, 30, "%u lists in 300 s", s.lists);
	close_kit(&s);
}

/* Whatever the reason is called, and also if it changes all the time. */
Test(kubernetes_faults, a_pod_that_has_a_node_and_does_not_start_is_given_up)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 11);

	start_kit(&s);
	s.stuck = "ContainerCreating";
	s.event = "{\"type\": \"Warning\", \"reason\": \"FailedCreatePodSandBox\", \"message\": "
		  "\"failed to assign an IP address\"}";
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 25 * S);
	cr_assert_not(says(&s, "waits"), "%s", espl_kit_log(kit));
	espl_kit_wait(kit, 20 * S);
	cr_assert(says(&s, "waits: its container is being created: ContainerCreating, for 3"), "%s",
	    espl_kit_log(kit));
	cr_assert(says(&s, "FailedCreatePodSandBox: failed to assign an IP address"));
	for (int i = 0; i < 14; i++) {
		s.stuck = i % 2 ? "ContainerCreating" : "PodInitializing";
		emit(&s, "MODIFIED", &s.pods[0]);
		cr_assert_neq(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "%s",
		    espl_kit_log(kit));
		espl_kit_wait(kit, 60 * S);
	}
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, 120 * S), "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_FAULT);
	espl_kit_wait(kit, 10 * S);
	cr_assert_eq(count_pods(&s), 0);
	close_kit(&s);
}

/* An autoscaler adds a node for it: `wait` is too short, and `start` bounds it. */
Test(kubernetes_faults, a_pod_for_which_a_node_is_added_is_waited_for)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 12);

	start_kit(&s);
	s.full = 1;
	s.event = "{\"reason\": \"TriggeredScaleUp\", \"message\": \"1->2\"}";
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 14 * 60 * S);
	cr_assert_neq(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "%s", espl_kit_log(kit));
	cr_assert(says(&s, "TriggeredScaleUp: 1->2"), "%s", espl_kit_log(kit));
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, 120 * S), "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_CAPACITY);
	close_kit(&s);
}

/* A webhook fails for pods alone: the server is not away. */
Test(kubernetes_faults, a_pod_that_is_never_accepted_is_given_up)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 13);

	start_kit(&s);
	s.broken = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 60 * S);
	cr_assert(says(&s, "waits: the API server has not accepted it: failed calling webhook"),
	    "%s", espl_kit_log(kit));
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR), "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_CAPACITY);
	close_kit(&s);
}

/* The scheduler cannot be heard, so the time for it does not pass. */
Test(kubernetes_faults, silence_does_not_count_as_no_room)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 8);

	start_kit(&s);
	s.full = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 200 * S);
	s.chance = 100;
	s.watch = NULL;
	espl_kit_wait(kit, 900 * S);
	cr_assert_neq(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "%s", espl_kit_log(kit));
	s.chance = 0;
	s.full = 0;
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY, "%s", espl_kit_log(kit));
	close_kit(&s);
}

/* activeDeadlineSeconds is counted by the clocks of the cluster: `time` is 24 h, `notice` 2 min. */
Test(kubernetes_faults, time_limits_are_by_the_clock_of_the_server)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 9);
	espl_time ready;

	s.ahead = 5 * HOUR;
	start_kit(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	ready = espl_kit_time(kit);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_NOTICE, 48 * HOUR));
	cr_assert_geq(espl_kit_time(kit) - ready, 24 * HOUR - 130 * S);
	cr_assert_leq(espl_kit_time(kit) - ready, 24 * HOUR - 110 * S);
	close_kit(&s);
}

Test(kubernetes_faults, a_quota_and_a_right_are_waited_for)
{
	static struct server s;
	struct espl_kit *kit = open_kit(&s, 10);

	start_kit(&s);
	s.quota = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	s.quota = 0;
	s.no_right = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 1, ESPL_NODE_ENDED, HOUR));
	for (uint64_t i = 0; i < 2; i++) {
		cr_assert_eq(espl_kit_reason(kit, i), ESPL_BY_QUOTA);
		cr_assert_eq(espl_kit_retry_after(kit, i), 60 * S);
	}
	cr_assert(says(&s, "a right is missing: pods is forbidden: User \"me\" cannot create"),
	    "%s", espl_kit_log(kit));
	close_kit(&s);
}
