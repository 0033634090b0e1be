/* cloud_kubernetes_leases.c - leases as pods: from `acquire` or `adopt` on, as the API reports
 * them.
 *
 * The name of a pod is the token of its lease, so a create whose answer was lost is repeated: the
 * answer is then that the pod exists. A pod is ours if its labels and, once it is known, its uid
 * match.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud_kubernetes.h"

#define DOUBT (15 * ESPL_SECOND)       /* until then a create without an answer may take effect */
#define MARGIN (10 * ESPL_SECOND)      /* for a node to remove a pod whose grace period is over */
#define LEAVES_MOST (60 * ESPL_SECOND) /* after that, until it is deleted by us */

/* ---- requests ---- */

json_t *
cloud_kubernetes_leases_body(const struct kube_cloud *cloud, const char *token, const char *run,
    const json_t *avoid)
{
	int cpu = strcmp(kube_text(cloud, KUBE_OPT_TYPE), "cpu") == 0;
	char slots[32];
	struct kube_wish wish = { .base = cloud->base,
		.name = token,
		.run = run,
		.token = token,
		.image =
		    kube_is_set(cloud, KUBE_OPT_IMAGE) ? kube_text(cloud, KUBE_OPT_IMAGE) : NULL,
		.resource = kube_text(cloud, KUBE_OPT_RESOURCE),
		.cpus = kube_text(cloud, KUBE_OPT_CPUS),
		.gpus = kube_number(cloud, KUBE_OPT_GPUS),
		.memory =
		    kube_is_set(cloud, KUBE_OPT_MEMORY) ? kube_number(cloud, KUBE_OPT_MEMORY) : 0,
		.time_s = kube_number(cloud, KUBE_OPT_TIME) / ESPL_SECOND,
		.grace_s = kube_number(cloud, KUBE_OPT_GRACE) / ESPL_SECOND,
		.idle_s = kube_number(cloud, KUBE_OPT_IDLE) / ESPL_SECOND,
		.owner = cloud->owner,
		.avoid = avoid };

	if (!cpu && wish.resource[0] == '\0')
		wish.resource = "nvidia.com/gpu";
	if (cpu && wish.cpus[0] == '\0') {
		(void)snprintf(slots, sizeof slots, "%lld", (long long)wish.gpus);
		wish.cpus = slots;
	}
	return cloud_kubernetes_pod_make(&wish);
}

static void
create_pod(struct kube_cloud *cloud, struct kube_lease *lease)
{
	cloud_kubernetes_ends_ask(cloud, lease, "POST",
	    cloud_kubernetes_leases_body(cloud, lease->token, lease->run, lease->avoid),
	    KUBE_ASK_CREATE);
	lease->creating = lease->asking;
}

static void
look_at_pod(struct kube_cloud *cloud, struct kube_lease *lease)
{
	cloud_kubernetes_ends_ask(cloud, lease, "GET", NULL, KUBE_ASK_GET);
}

/* What is due for it. */
static void
ask_next(struct kube_cloud *cloud, struct kube_lease *lease)
{
	if (lease->asking)
		return;
	if (lease->releasing || lease->over)
		cloud_kubernetes_ends_step(cloud, lease);
	else if (lease->create && !lease->unsure)
		create_pod(cloud, lease);
	else
		look_at_pod(cloud, lease);
}

/* The pod does not run yet, and why; "" for what needs no words. */
static void
report_waiting(struct kube_cloud *cloud, struct kube_lease *lease, const char *text)
{
	char line[KUBE_TEXT + 120];

	if (lease->ready || strcmp(lease->last_line, text) == 0)
		return;
	(void)snprintf(lease->last_line, sizeof lease->last_line, "%s", text);
	(void)snprintf(line, sizeof line, "pod %s waits: %s", lease->token, text);
	cloud_kubernetes_ends_report(cloud, lease, ESPL_NODE_BOOTING, 0, NULL, ESPL_NEVER,
	    text[0] != '\0' ? line : NULL);
}

/* ---- what is known of a pod ---- */

static void
take_running(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	lease->deadline_utc_s = pod->deadline_utc_s;
	lease->failing = ESPL_NEVER;
	if (lease->ready)
		return;
	if (pod->address[0] == '\0') {
		cloud_kubernetes_wait_note(cloud, lease, KUBE_STAGE_STARTING,
		    "its container runs, and it has no address");
		return;
	}
	lease->ready = 1;
	cloud_kubernetes_ends_report(cloud, lease, ESPL_NODE_READY, 0, pod->address, ESPL_NEVER,
	    NULL);
}

static void
take_leaving(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	espl_span grace = kube_number(cloud, KUBE_OPT_GRACE), left = grace;

	if (lease->adopted && pod->running)
		take_running(cloud, lease, pod); /* its trials may still save */
	if (!lease->ready) {
		cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_PROVIDER, pod->text);
		return;
	}
	if (pod->ends_utc_s > 0)
		left = pod->ends_utc_s * ESPL_SECOND - kube_utc(cloud);
	if (left > grace)
		left = grace;
	if (left < 0)
		left = 0;
	if (pod->deleted || lease->gone == ESPL_NEVER)
		lease->gone = kube_now(cloud) + left + MARGIN;
	(void)snprintf(lease->cause, sizeof lease->cause, "%s", pod->text);
	if (lease->noticed)
		return;
	lease->noticed = 1;
	cloud_kubernetes_ends_report(cloud, lease, ESPL_NODE_NOTICE, 0, NULL,
	    kube_now(cloud) + left, pod->text);
}

/* A reason of the registry says more than that it is tried again later. */
static void
take_failing(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	int again = strstr(pod->text, "ImagePullBackOff") != NULL;

	if (!again || lease->failing == ESPL_NEVER)
		report_waiting(cloud, lease, pod->text);
	if (lease->failing == ESPL_NEVER)
		lease->failing = kube_now(cloud);
}

/* What announced the end says why, unless the pod itself does. */
static void
take_ended(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	char text[KUBE_TEXT + 40];

	if (lease->ready && pod->rejected) { /* trials ran there: it was evicted */
		(void)snprintf(text, sizeof text, "its pod has ended%s", strchr(pod->text, ':'));
		cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_PROVIDER, text);
		return;
	}
	(void)snprintf(text, sizeof text, "%s",
	    pod->vague && lease->cause[0] != '\0' ? lease->cause : pod->text);
	cloud_kubernetes_ends_drop(cloud, lease, pod->reason, text);
}

static void
take_state(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	lease->unready = pod->unready;
	lease->finished = pod->finished;
	if (pod->node[0] != '\0')
		(void)snprintf(lease->node, sizeof lease->node, "%s", pod->node);
	if (!lease->ready && pod->state <= KUBE_FAILING)
		cloud_kubernetes_wait_note(cloud, lease,
		    pod->placed ? KUBE_STAGE_STARTING : KUBE_STAGE_QUEUED, pod->text);
	switch (pod->state) {
	case KUBE_FULL: report_waiting(cloud, lease, pod->text); break;
	case KUBE_FAILING: take_failing(cloud, lease, pod); break;
	case KUBE_UNFIT: cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_FAULT, pod->text); break;
	case KUBE_REFUSED:
		cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_REFUSAL, pod->text);
		break;
	case KUBE_RUNNING: take_running(cloud, lease, pod); break;
	case KUBE_LEAVING: take_leaving(cloud, lease, pod); break;
	case KUBE_ENDED: take_ended(cloud, lease, pod); break;
	default: break; /* KUBE_WAITING: its clock runs */
	}
}

static void
take_gone(struct kube_cloud *cloud, struct kube_lease *lease)
{
	char text[KUBE_TEXT];

	(void)snprintf(text, sizeof text, "%s",
	    lease->cause[0] != '\0' ? lease->cause : "its pod was deleted");
	cloud_kubernetes_ends_gone(cloud, lease, ESPL_BY_PROVIDER, text);
}

static void
take_pod(struct kube_cloud *cloud, struct kube_lease *lease, const struct kube_pod *pod)
{
	if (lease->uid[0] == '\0') {
		(void)snprintf(lease->uid, sizeof lease->uid, "%s", pod->uid);
		lease->since = cloud->lists + 1; /* a list under way may be older */
	}
	lease->create = 0;
	if (lease->releasing || lease->over)
		cloud_kubernetes_ends_seen(cloud, lease, pod);
	else
		take_state(cloud, lease, pod);
}

void
cloud_kubernetes_leases_pod(struct kube_cloud *cloud, const struct kube_pod *pod, int gone)
{
	struct kube_lease *lease = cloud_kubernetes_ends_find(cloud, pod->token);

	if (lease == NULL || strcmp(pod->name, lease->token) != 0 ||
	    (lease->uid[0] != '\0' && strcmp(lease->uid, pod->uid) != 0))
		return;
	if (!gone)
		take_pod(cloud, lease, pod);
	else if (lease->uid[0] != '\0') /* else it is the news of an earlier pod */
		take_gone(cloud, lease);
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
	for (size_t i = 0; i < json_array_size(items); i++) {
		struct kube_pod pod;

		cloud_kubernetes_pod_read(json_array_get(items, i), cloud->container, &pod);
		cloud_kubernetes_leases_pod(cloud, &pod, 0);
	}
	/* A single list may be incomplete, so asks for the pod itself. */
	for (struct kube_lease *lease = cloud->leases; lease != NULL; lease = lease->next)
		if (lease->uid[0] != '\0' && lease->since <= number && !lease->asking &&
		    !is_listed(lease, items))
			look_at_pod(cloud, lease);
}

/* ---- answers ---- */

/* A create that was refused. A right may be given back, and a quota raised. */
static void
take_refusal(struct kube_cloud *cloud, struct kube_lease *lease, enum kube_class class,
    const char *text)
{
	char line[KUBE_TEXT + 100];

	(void)snprintf(line, sizeof line, "the pod is refused: %s", text);
	if (class == KUBE_EXISTS)
		look_at_pod(cloud, lease);
	else if (class == KUBE_QUOTA || class == KUBE_RIGHT)
		cloud_kubernetes_ends_gone(cloud, lease, ESPL_BY_QUOTA, text);
	else
		cloud_kubernetes_ends_gone(cloud, lease, ESPL_BY_REFUSAL, line);
}

/* The pod with this name, which may belong to another run. If two were created for the lease, one
 * without an answer, the older one is gone. */
static void
take_found(struct kube_cloud *cloud, struct kube_lease *lease, const json_t *object, int created)
{
	struct kube_pod pod;
	int other;

	lease->unsure = 0;
	cloud_kubernetes_pod_read(object, cloud->container, &pod);
	other = lease->uid[0] != '\0' && strcmp(lease->uid, pod.uid) != 0;
	if (strcmp(pod.token, lease->token) != 0 && other) {
		take_gone(cloud, lease);
	} else if (strcmp(pod.token, lease->token) != 0) {
		cloud_kubernetes_ends_gone(cloud, lease, ESPL_BY_FAULT,
		    "a pod of this name exists but does not belong to this run; it was not "
		    "touched");
	} else {
		if (other) {
			(void)snprintf(lease->uid, sizeof lease->uid, "%s", pod.uid);
			lease->deleting = lease->finished = 0;
			lease->deleted = lease->gone = ESPL_NEVER;
		}
		if (other && !created && !lease->releasing && !lease->over)
			cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_PROVIDER,
			    "its pod was deleted");
		else
			take_pod(cloud, lease, &pod);
	}
}

/* Why the API server does not accept a pod: also a webhook that fails while all else works. */
static void
explain_create(struct kube_cloud *cloud, struct kube_lease *lease, const char *text)
{
	char line[KUBE_TEXT];

	(void)snprintf(line, sizeof line, "the API server has not accepted it: %.500s", text);
	cloud_kubernetes_wait_note(cloud, lease, KUBE_STAGE_NEW, line);
}

static void
take_failure(struct kube_cloud *cloud, struct kube_lease *lease, enum kube_request request,
    const struct espl_http_reply *reply)
{
	char text[KUBE_TEXT];
	enum kube_class class = cloud_kubernetes_proxy_failure(cloud, reply, text);
	int creating = request == KUBE_ASK_CREATE;

	if (creating && (reply->code == 0 || reply->code >= 500)) {
		lease->unsure = 1;
		lease->doubt = kube_now(cloud) + DOUBT;
	}
	if (class == KUBE_LATER || class == KUBE_LOGIN || class == KUBE_EXPIRED ||
	    (creating ? class == KUBE_OTHER : class == KUBE_RIGHT)) {
		lease->again =
		    kube_now(cloud) + cloud_kubernetes_proxy_pause(cloud, lease->tries++, reply);
		if (creating)
			explain_create(cloud, lease, text);
		return;
	}
	if (creating) {
		take_refusal(cloud, lease, class, text);
	} else if (reply->code == 404 || class == KUBE_OTHER) {
		lease->unsure = 0;
		if (lease->create && !lease->releasing && !lease->over)
			create_pod(cloud, lease);
		else
			take_gone(cloud, lease);
	} else {
		if (strcmp(lease->last_line, text) != 0)
			cloud->host->log(cloud->host, ESPL_WARN, text);
		(void)snprintf(lease->last_line, sizeof lease->last_line, "%s", text);
		lease->again =
		    kube_now(cloud) + cloud_kubernetes_proxy_pause(cloud, lease->tries++, reply);
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
	if (request == KUBE_ASK_EVENTS) {
		cloud_kubernetes_wait_answer(cloud, lease, reply);
		return;
	}
	lease->asking = lease->creating = 0;
	if (reply->status != ESPL_OK || reply->code < 200 || reply->code >= 300) {
		take_failure(cloud, lease, request, reply);
		return;
	}
	lease->tries = 0;
	if (request == KUBE_ASK_DELETE) {
		cloud_kubernetes_ends_accepted(cloud, lease);
		return;
	}
	object = json_loadb(reply->body, reply->body_size, 0, NULL);
	take_found(cloud, lease, object, request == KUBE_ASK_CREATE);
	json_decref(object);
}

/* ---- time ---- */

/* A pod that comes near its deadline, and one that its node does not remove. */
static void
check_end(struct kube_cloud *cloud, struct kube_lease *lease)
{
	espl_time now = kube_now(cloud);
	espl_span left = lease->deadline_utc_s * ESPL_SECOND - kube_utc(cloud);
	char text[KUBE_TEXT + 60];

	if (cloud->silent == ESPL_NEVER && lease->gone != ESPL_NEVER &&
	    now > lease->gone + (lease->unready ? 0 : LEAVES_MOST)) {
		(void)snprintf(text, sizeof text, "%.450s; %s", lease->cause,
		    lease->unready ? "its node does not answer" : "it does not end");
		cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_PROVIDER, text);
		return;
	}
	if (lease->noticed || lease->deadline_utc_s == 0 ||
	    left > kube_number(cloud, KUBE_OPT_NOTICE))
		return;
	lease->noticed = 1;
	cloud_kubernetes_ends_report(cloud, lease, ESPL_NODE_NOTICE, 0, NULL,
	    now + (left > 0 ? left : 0), "the time limit of its pod is near");
}

void
cloud_kubernetes_leases_timer(void *self, uint64_t cookie)
{
	struct kube_cloud *cloud = self;
	struct kube_lease *lease, *next;

	if (cookie == KUBE_ASK_STARTED) {
		cloud_kubernetes_start_timer(cloud);
		return;
	}
	cloud->ticking = 0;
	for (lease = cloud->leases; lease != NULL; lease = next) {
		next = lease->next;
		if (lease->again <= kube_now(cloud))
			ask_next(cloud, lease);
		if (lease->releasing || lease->over)
			cloud_kubernetes_ends_check(cloud, lease);
		else if (lease->ready)
			check_end(cloud, lease);
		else
			cloud_kubernetes_wait_check(cloud, lease);
	}
	cloud_kubernetes_watch_look(cloud);
	cloud_kubernetes_owned_look(cloud);
	cloud_kubernetes_ends_tick(cloud);
}

/* ---- entries ---- */

/* If no other node was found for the last pod, this one may be on any. */
static void
note_avoided(struct kube_cloud *cloud, struct kube_lease *lease, const struct espl_acquire *acquire)
{
	if (acquire->avoid_count == 0)
		return;
	if (cloud->without) {
		cloud->without = 0;
		return;
	}
	lease->avoid = json_array();
	for (uint32_t i = 0; i < acquire->avoid_count; i++)
		(void)json_array_append_new(lease->avoid, json_string(acquire->avoid[i]));
}

espl_status
cloud_kubernetes_leases_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct kube_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct kube_lease *lease = cloud_kubernetes_ends_find(cloud, list[i]->token);

		if (lease != NULL)
			continue; /* asked again: it is under way */
		lease = cloud_kubernetes_ends_add(cloud, list[i]->lease, list[i]->token);
		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		(void)snprintf(lease->run, sizeof lease->run, "%s", list[i]->run);
		lease->create = 1;
		note_avoided(cloud, lease, list[i]);
		create_pod(cloud, lease);
	}
	return ESPL_OK;
}

/* "UID NAMESPACE CONTEXT": the part behind the uid, or NULL. */
static const char *
find_place(const struct espl_lease *lease)
{
	const char *at = lease->detail != NULL ? strchr(lease->detail, ' ') : NULL;

	return at != NULL ? at + 1 : NULL;
}

static int
is_here(const struct kube_cloud *cloud, const char *place)
{
	char here[2 * KUBE_NAME];

	(void)snprintf(here, sizeof here, "%s %s", cloud->namespace, cloud->context);
	return strcmp(place, here) == 0;
}

/* A run stays where its pods are, whatever the configuration and kubectl's current context say now.
 */
static espl_status
follow_pods(struct kube_cloud *cloud, const char *place)
{
	size_t size = strcspn(place, " ");
	char *namespace = strndup(place, size);
	char *context = strdup(place[size] == ' ' ? place + size + 1 : "");
	char text[KUBE_TEXT];

	if (namespace == NULL || context == NULL) {
		free(namespace);
		free(context);
		return ESPL_E_NOMEM;
	}
	(void)snprintf(text, sizeof text,
	    "the pods of this run are in namespace '%.100s' of context '%.100s', which it keeps "
	    "using, and not in '%.100s' of '%.100s' as configured now",
	    namespace, context, cloud->namespace, cloud->context);
	cloud->host->log(cloud->host, ESPL_WARN, text);
	free(cloud->namespace);
	free(cloud->context);
	cloud->namespace = namespace;
	cloud->context = context;
	json_decref(cloud->owner);
	cloud->owner = NULL;
	cloud_kubernetes_proxy_renew(cloud);
	return ESPL_OK;
}

espl_status
cloud_kubernetes_leases_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct kube_cloud *cloud = self;
	const char *place = NULL;

	for (uint32_t i = 0; i < count && place == NULL; i++)
		place = find_place(list[i]);
	if (place != NULL && !is_here(cloud, place) && follow_pods(cloud, place) != ESPL_OK)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	for (uint32_t i = 0; i < count; i++) {
		struct kube_lease *lease =
		    cloud_kubernetes_ends_add(cloud, list[i]->lease, list[i]->token);

		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		place = find_place(list[i]);
		if (place != NULL && !is_here(cloud, place)) {
			cloud_kubernetes_ends_gone(cloud, lease, ESPL_BY_FAULT,
			    "its pod is in another namespace or context than others of the run; it "
			    "ends by itself");
			continue;
		}
		if (place != NULL)
			(void)snprintf(lease->uid, sizeof lease->uid, "%.*s",
			    (int)(place - 1 - list[i]->detail), list[i]->detail);
		lease->adopted = list[i]->address != NULL;
		look_at_pod(cloud, lease);
	}
	return ESPL_OK;
}
