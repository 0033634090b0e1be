/* cloud_kubernetes_leases.c - leases as pods, from `acquire` until the pod is certainly gone.
 *
 * The name of a pod is the token of its lease, so a create whose answer was lost is repeated: it
 * then says that the pod exists. A pod is ours if its labels and, once it is known, its uid agree.
 */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>

#include "cloud_kubernetes.h"

#define TICK ESPL_SECOND
#define LOOK_AGAIN (10 * ESPL_SECOND)  /* after a deletion without an answer */
#define FORCE_AFTER (30 * ESPL_SECOND) /* its node does not answer */
#define QUOTA_PAUSE (60 * ESPL_SECOND)

static espl_time
now_of(const struct kube_cloud *cloud)
{
	return cloud->host->now(cloud->host);
}

static struct kube_lease *
find_lease(const struct kube_cloud *cloud, const char *token)
{
	struct kube_lease *lease = cloud->leases;

	while (lease != NULL && strcmp(lease->token, token) != 0)
		lease = lease->next;
	return lease;
}

static void
start_ticking(struct kube_cloud *cloud)
{
	if (!cloud->ticking && cloud->leases != NULL)
		cloud->ticking = cloud->io->timer(cloud->io, TICK, KUBE_ASK_TICK) == ESPL_OK;
}

static struct kube_lease *
add_lease(struct kube_cloud *cloud, uint64_t number, const char *token)
{
	struct kube_lease *lease = calloc(1, sizeof *lease);
	const char *end = strrchr(token, '-');

	if (lease == NULL)
		return NULL;
	lease->serial = ++cloud->serial;
	lease->lease = number;
	lease->again = lease->full = lease->deleted = ESPL_NEVER;
	lease->since = cloud->lists + 1;
	(void)snprintf(lease->token, sizeof lease->token, "%s", token);
	if (strncmp(token, "espl-", 5) == 0 && end > token + 5) /* espl-RUN-LEASE */
		(void)snprintf(lease->run, sizeof lease->run, "%.*s", (int)(end - token - 5),
		    token + 5);
	if (cloud->run[0] == '\0')
		(void)snprintf(cloud->run, sizeof cloud->run, "%s", lease->run);
	lease->next = cloud->leases;
	cloud->leases = lease;
	start_ticking(cloud);
	cloud_kubernetes_watch_look(cloud);
	return lease;
}

/* ---- what is told ---- */

static void
tell_node(const struct kube_cloud *cloud, const struct kube_lease *lease, espl_node_state state,
    espl_reason reason, const char *address, espl_time ends_at, const char *text)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);
	char detail[3 * KUBE_NAME];

	(void)snprintf(detail, sizeof detail, "%s %s %s", lease->uid, cloud->namespace,
	    cloud->context);
	event.state = state;
	event.lease = lease->lease;
	event.token = lease->token;
	event.provider_id = lease->token;
	event.detail = lease->uid[0] != '\0' ? detail : NULL;
	event.address = address;
	event.at = ESPL_NEVER;
	event.ends_at = ends_at;
	event.reason = reason;
	event.gpus =
	    state == ESPL_NODE_READY ? (uint32_t)kube_number(cloud, KUBE_OPT_GPUS) : ESPL_ANY;
	event.charged = -1;
	event.text = text;
	if (state == ESPL_NODE_ENDED && reason == ESPL_BY_QUOTA)
		event.retry_after = QUOTA_PAUSE;
	(void)cloud->events->node(cloud->events, &event);
}

static void
tell_waiting(struct kube_cloud *cloud, struct kube_lease *lease, const char *text)
{
	char line[KUBE_TEXT + 120];

	if (lease->ready || lease->releasing || strcmp(lease->said, text) == 0)
		return;
	(void)snprintf(lease->said, sizeof lease->said, "%s", text);
	(void)snprintf(line, sizeof line, "pod %s waits: %s", lease->token, text);
	tell_node(cloud, lease, ESPL_NODE_BOOTING, 0, NULL, ESPL_NEVER,
	    text[0] != '\0' ? line : NULL);
}

/* The last word about a lease, which is freed. */
static void
end_lease(struct kube_cloud *cloud, struct kube_lease *lease, espl_reason reason, const char *text)
{
	struct kube_lease **at = &cloud->leases;

	while (*at != lease)
		at = &(*at)->next;
	*at = lease->next;
	if (lease->releasing)
		tell_node(cloud, lease, ESPL_NODE_ENDED, ESPL_BY_USER, NULL, ESPL_NEVER, NULL);
	else
		tell_node(cloud, lease, ESPL_NODE_ENDED, reason, NULL, ESPL_NEVER, text);
	free(lease);
}

/* ---- requests ---- */

static void
ask_pod(struct kube_cloud *cloud, struct kube_lease *lease, const char *method, json_t *body,
    enum kube_request request)
{
	char path[3 * KUBE_NAME];

	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods%s%s", cloud->namespace,
	    request == KUBE_ASK_CREATE ? "" : "/", request == KUBE_ASK_CREATE ? "" : lease->token);
	lease->again = ESPL_NEVER;
	lease->asking = cloud_kubernetes_proxy_ask(cloud, method, path, body,
			    KUBE_COOKIE(lease->serial, request)) == ESPL_OK;
	if (!lease->asking)
		lease->again = now_of(cloud) + TICK;
}

static void
create_pod(struct kube_cloud *cloud, struct kube_lease *lease)
{
	int cpu = strcmp(kube_text(cloud, KUBE_OPT_TYPE), "cpu") == 0;
	char slots[32];
	struct kube_wish wish = { .base = cloud->base,
		.name = lease->token,
		.run = lease->run,
		.token = lease->token,
		.image =
		    kube_is_set(cloud, KUBE_OPT_IMAGE) ? kube_text(cloud, KUBE_OPT_IMAGE) : NULL,
		.resource = kube_text(cloud, KUBE_OPT_RESOURCE),
		.cpus = kube_text(cloud, KUBE_OPT_CPUS),
		.gpus = kube_number(cloud, KUBE_OPT_GPUS),
		.memory =
		    kube_is_set(cloud, KUBE_OPT_MEMORY) ? kube_number(cloud, KUBE_OPT_MEMORY) : 0,
		.time_s = kube_number(cloud, KUBE_OPT_TIME) / ESPL_SECOND,
		.grace_s = kube_number(cloud, KUBE_OPT_GRACE) / ESPL_SECOND,
		.idle_s = kube_number(cloud, KUBE_OPT_IDLE) / ESPL_SECOND };

	if (!cpu && wish.resource[0] == '\0')
		wish.resource = "nvidia.com/gpu";
	if (cpu && wish.cpus[0] == '\0') {
		(void)snprintf(slots, sizeof slots, "%lld", (long long)wish.gpus);
		wish.cpus = slots;
	}
	ask_pod(cloud, lease, "POST", cloud_kubernetes_pod_make(&wish), KUBE_ASK_CREATE);
}

static void
delete_pod(struct kube_cloud *cloud, struct kube_lease *lease, int grace_s)
{
	ESPL_ASSERT(lease->uid[0] != '\0'); /* never a pod that may belong to another run */
	ask_pod(cloud, lease, "DELETE",
	    json_pack("{s:s, s:s, s:i, s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions",
		"gracePeriodSeconds", grace_s, "preconditions", "uid", lease->uid),
	    KUBE_ASK_DELETE);
}

/* Deletes the pod and reports the end of the lease; the answer to the deletion no longer matters.
 */
static void
drop_lease(struct kube_cloud *cloud, struct kube_lease *lease, espl_reason reason, const char *text)
{
	delete_pod(cloud, lease, 1);
	end_lease(cloud, lease, reason, text);
}

/* What is due for it. */
static void
ask_next(struct kube_cloud *cloud, struct kube_lease *lease)
{
	espl_time now = now_of(cloud);

	if (lease->asking)
		return;
	if (lease->releasing && lease->uid[0] != '\0' && !lease->deleting)
		delete_pod(cloud, lease, 1);
	else if (lease->releasing && lease->deleting && lease->deleted != ESPL_NEVER &&
	    now - lease->deleted > FORCE_AFTER)
		delete_pod(cloud, lease, 0);
	else if (lease->create && !lease->releasing)
		create_pod(cloud, lease);
	else
		ask_pod(cloud, lease, "GET", NULL, KUBE_ASK_GET);
}

/* ---- what is known of a pod ---- */

static void
take_running(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	lease->deadline_utc_s = pod->deadline_utc_s;
	lease->full = ESPL_NEVER;
	if (lease->ready || pod->address[0] == '\0')
		return;
	lease->ready = 1;
	tell_node(cloud, lease, ESPL_NODE_READY, 0, pod->address, ESPL_NEVER, NULL);
}

static void
take_leaving(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	espl_span grace = kube_number(cloud, KUBE_OPT_GRACE), left = grace;

	if (!lease->ready) {
		drop_lease(cloud, lease, ESPL_BY_PROVIDER, pod->text);
		return;
	}
	if (pod->ends_utc_s > 0)
		left = pod->ends_utc_s * ESPL_SECOND - cloud->io->utc_ns(cloud->io);
	if (left > grace)
		left = grace;
	(void)snprintf(lease->cause, sizeof lease->cause, "%s", pod->text);
	if (lease->noticed)
		return;
	lease->noticed = 1;
	tell_node(cloud, lease, ESPL_NODE_NOTICE, 0, NULL, now_of(cloud) + (left > 0 ? left : 0),
	    pod->text);
}

static void
take_state(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	char text[KUBE_TEXT + 200];

	switch (pod->state) {
	case KUBE_WAITING:
		lease->full = ESPL_NEVER;
		tell_waiting(cloud, lease, "");
		break;
	case KUBE_FULL:
		if (lease->full == ESPL_NEVER)
			lease->full = now_of(cloud);
		tell_waiting(cloud, lease, pod->text);
		break;
	case KUBE_PULLING:
		if (strstr(pod->text, "ImagePullBackOff") == NULL) {
			tell_waiting(cloud, lease, pod->text);
			break;
		}
		(void)snprintf(text, sizeof text, "%s",
		    lease->said[0] != '\0' ? lease->said : pod->text);
		drop_lease(cloud, lease, ESPL_BY_FAULT, text);
		break;
	case KUBE_REFUSED: drop_lease(cloud, lease, ESPL_BY_REFUSAL, pod->text); break;
	case KUBE_RUNNING: take_running(cloud, lease, pod); break;
	case KUBE_LEAVING: take_leaving(cloud, lease, pod); break;
	case KUBE_ENDED:
		(void)snprintf(text, sizeof text, "%s",
		    pod->reason == ESPL_BY_PROVIDER && lease->cause[0] != '\0' ? lease->cause
									       : pod->text);
		drop_lease(cloud, lease, pod->reason, text);
		break;
	default: break;
	}
}

static void
take_gone(struct kube_cloud *cloud, struct kube_lease *lease)
{
	char text[KUBE_TEXT];

	(void)snprintf(text, sizeof text, "%s",
	    lease->cause[0] != '\0' ? lease->cause : "its pod was deleted");
	end_lease(cloud, lease, ESPL_BY_PROVIDER, text);
}

static void
take_pod(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	if (lease->uid[0] == '\0') {
		(void)snprintf(lease->uid, sizeof lease->uid, "%s", pod->uid);
		lease->since = cloud->lists + 1; /* a list under way may be older */
	}
	lease->create = 0;
	if (!lease->releasing)
		take_state(cloud, lease, pod);
	else if (pod->deleted && lease->deleted == ESPL_NEVER)
		lease->deleted = now_of(cloud);
	else if (!lease->deleting)
		ask_next(cloud, lease);
}

void
cloud_kubernetes_leases_pod(struct kube_cloud *cloud, const struct kube_pod *pod, int gone)
{
	struct kube_lease *lease = find_lease(cloud, pod->token);

	if (lease == NULL || strcmp(pod->name, lease->token) != 0 ||
	    (lease->uid[0] != '\0' && strcmp(lease->uid, pod->uid) != 0))
		return;
	if (gone)
		take_gone(cloud, lease);
	else
		take_pod(cloud, lease, pod);
}

static int
is_listed(const struct kube_lease *lease, const json_t *items)
{
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *meta = json_object_get(json_array_get(items, i), "metadata");
		const char *uid = json_string_value(json_object_get(meta, "uid"));

		if (uid != NULL && strcmp(uid, lease->uid) == 0)
			return 1;
	}
	return 0;
}

void
cloud_kubernetes_leases_all(struct kube_cloud *cloud, const json_t *items, uint64_t number)
{
	struct kube_lease *lease, *next;

	for (size_t i = 0; i < json_array_size(items); i++) {
		struct kube_pod pod;

		cloud_kubernetes_pod_read(json_array_get(items, i), &pod);
		cloud_kubernetes_leases_pod(cloud, &pod, 0);
	}
	for (lease = cloud->leases; lease != NULL; lease = next) {
		next = lease->next;
		if (lease->uid[0] != '\0' && lease->since <= number && !is_listed(lease, items))
			take_gone(cloud, lease);
	}
}

/* ---- answers ---- */

static void
take_created(struct kube_cloud *cloud, struct kube_lease *lease, enum kube_class class,
    const char *text)
{
	char line[KUBE_TEXT + 100];

	switch (class) {
	case KUBE_EXISTS: ask_pod(cloud, lease, "GET", NULL, KUBE_ASK_GET); break;
	case KUBE_QUOTA: end_lease(cloud, lease, ESPL_BY_QUOTA, text); break;
	case KUBE_ABSENT:
	case KUBE_NEVER:
		(void)snprintf(line, sizeof line, "the pod is refused: %s", text);
		end_lease(cloud, lease, ESPL_BY_REFUSAL, line);
		break;
	default: break; /* again */
	}
}

/* The pod at its name, which may be somebody else's. */
static void
take_found(struct kube_cloud *cloud, struct kube_lease *lease, const json_t *object)
{
	struct kube_pod pod;

	cloud_kubernetes_pod_read(object, &pod);
	if (lease->uid[0] != '\0' && strcmp(lease->uid, pod.uid) != 0)
		take_gone(cloud, lease);
	else if (strcmp(pod.token, lease->token) != 0)
		end_lease(cloud, lease, ESPL_BY_FAULT,
		    "a pod of this name exists but does not belong to this run; it was not "
		    "touched");
	else
		take_pod(cloud, lease, &pod);
}

static void
take_failure(struct kube_cloud *cloud, struct kube_lease *lease, enum kube_request request,
    const struct espl_http_reply *reply)
{
	char text[KUBE_TEXT];
	enum kube_class class =
	    cloud_kubernetes_pod_class(reply->code, reply->body, reply->body_size, text);

	if (class == KUBE_LATER || class == KUBE_LOGIN || class == KUBE_EXPIRED ||
	    (class == KUBE_OTHER && request != KUBE_ASK_DELETE)) {
		lease->again =
		    now_of(cloud) + cloud_kubernetes_watch_pause(cloud, lease->tries++, reply);
		cloud_kubernetes_watch_trouble(cloud, class, reply->code != 0 ? text : reply->text);
	} else if (request == KUBE_ASK_CREATE) {
		if (lease->releasing && class != KUBE_EXISTS)
			end_lease(cloud, lease, ESPL_BY_USER, NULL);
		else
			take_created(cloud, lease, class, text);
	} else if (class == KUBE_ABSENT || class == KUBE_OTHER) {
		take_gone(cloud, lease);
	} else { /* a right is missing, most likely */
		if (strcmp(lease->said, text) != 0)
			cloud->host->log(cloud->host, ESPL_WARN, text);
		(void)snprintf(lease->said, sizeof lease->said, "%s", text);
		lease->again =
		    now_of(cloud) + cloud_kubernetes_watch_pause(cloud, lease->tries++, reply);
	}
}

void
cloud_kubernetes_leases_answer(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	enum kube_request request = (enum kube_request)(reply->cookie % 16);
	struct kube_lease *lease = cloud->leases;
	json_t *object;

	while (lease != NULL && lease->serial != reply->cookie / 16)
		lease = lease->next;
	if (lease == NULL)
		return;
	lease->asking = 0;
	if (reply->status != ESPL_OK || reply->code < 200 || reply->code >= 300) {
		take_failure(cloud, lease, request, reply);
		return;
	}
	lease->tries = 0;
	object = json_loadb(reply->body, reply->body_size, 0, NULL);
	if (request == KUBE_ASK_DELETE) {
		lease->deleting = 1;
		if (lease->deleted == ESPL_NEVER)
			lease->deleted = now_of(cloud);
		lease->again = now_of(cloud) + LOOK_AGAIN;
	} else {
		if (lease->releasing && lease->deleting)
			lease->again = now_of(cloud) + LOOK_AGAIN;
		take_found(cloud, lease, object);
	}
	json_decref(object);
}

/* ---- time ---- */

/* A pod that waits for room too long, and one that comes near its deadline. */
static void
check_times(struct kube_cloud *cloud, struct kube_lease *lease)
{
	espl_time now = now_of(cloud);
	espl_span left = lease->deadline_utc_s * ESPL_SECOND - cloud->io->utc_ns(cloud->io);
	char text[KUBE_TEXT];

	if (lease->releasing)
		return;
	if (lease->full != ESPL_NEVER && now - lease->full > kube_number(cloud, KUBE_OPT_WAIT)) {
		(void)snprintf(text, sizeof text, "%s", lease->said);
		drop_lease(cloud, lease, ESPL_BY_CAPACITY, text);
		return;
	}
	if (!lease->ready || lease->noticed || lease->deadline_utc_s == 0 ||
	    left > kube_number(cloud, KUBE_OPT_NOTICE))
		return;
	lease->noticed = 1;
	tell_node(cloud, lease, ESPL_NODE_NOTICE, 0, NULL, now + (left > 0 ? left : 0),
	    "the time limit of its pod comes near");
}

void
cloud_kubernetes_leases_timer(void *self, uint64_t cookie)
{
	struct kube_cloud *cloud = self;
	struct kube_lease *lease, *next;

	if (cookie == KUBE_ASK_STARTED) {
		cloud_kubernetes_proxy_ping(cloud);
		return;
	}
	cloud->ticking = 0;
	for (lease = cloud->leases; lease != NULL; lease = next) {
		next = lease->next;
		if (lease->again <= now_of(cloud))
			ask_next(cloud, lease);
		check_times(cloud, lease);
	}
	cloud_kubernetes_watch_look(cloud);
	start_ticking(cloud);
}

/* ---- entries ---- */

espl_status
cloud_kubernetes_leases_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct kube_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct kube_lease *lease = find_lease(cloud, list[i]->token);

		if (lease != NULL)
			continue; /* asked again: it is under way */
		lease = add_lease(cloud, list[i]->lease, list[i]->token);
		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		(void)snprintf(lease->run, sizeof lease->run, "%s", list[i]->run);
		lease->create = 1;
		create_pod(cloud, lease);
	}
	return ESPL_OK;
}

/* "UID NAMESPACE CONTEXT", as it was told. */
static void
take_detail(struct kube_lease *lease, const char *detail)
{
	if (detail != NULL)
		(void)snprintf(lease->uid, sizeof lease->uid, "%.*s", (int)strcspn(detail, " "),
		    detail);
}

espl_status
cloud_kubernetes_leases_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct kube_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct kube_lease *lease = find_lease(cloud, list[i]->token);

		if (lease == NULL) {
			lease = add_lease(cloud, list[i]->lease, list[i]->token);
			if (lease == NULL)
				return espl_fail(error, ESPL_E_NOMEM, "out of memory");
			take_detail(lease, list[i]->detail);
		}
		if (lease->releasing)
			continue; /* the host repeats itself; we do, too */
		lease->releasing = 1;
		ask_next(cloud, lease);
	}
	return ESPL_OK;
}

espl_status
cloud_kubernetes_leases_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct kube_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct kube_lease *lease = add_lease(cloud, list[i]->lease, list[i]->token);
		const char *detail = list[i]->detail, *where;
		char here[2 * KUBE_NAME], text[KUBE_TEXT];

		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		take_detail(lease, detail);
		(void)snprintf(here, sizeof here, "%s %s", cloud->namespace, cloud->context);
		where = detail != NULL ? strchr(detail, ' ') : NULL;
		if (where != NULL && strcmp(where + 1, here) != 0) {
			(void)snprintf(text, sizeof text,
			    "its pod is in '%.200s' (namespace and context), not in '%.200s' as "
			    "now; it ends by itself",
			    where + 1, here);
			end_lease(cloud, lease, ESPL_BY_FAULT, text);
			continue;
		}
		ask_pod(cloud, lease, "GET", NULL, KUBE_ASK_GET);
	}
	return ESPL_OK;
}
