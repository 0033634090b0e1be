/* cloud_kubernetes_ends.c - until the pod of a lease is certainly gone.
 *
 * A deletion is confirmed: by the event DELETED, by a pod that is not found, or by another uid.
 * Until then it is asked for again, and finally forced, also after the end of the lease was
 * reported.
 */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>

#include "cloud_kubernetes.h"

#define TICK ESPL_SECOND
#define LOOK_SOON (2 * ESPL_SECOND)    /* after a deletion was accepted: is the pod gone? */
#define LOOK_AGAIN (10 * ESPL_SECOND)  /* the watch reports it sooner */
#define FORCE_AFTER (30 * ESPL_SECOND) /* its node does not answer */
#define QUOTA_PAUSE (60 * ESPL_SECOND)

/* ---- the list of leases ---- */

struct kube_lease *
cloud_kubernetes_ends_find(const struct kube_cloud *cloud, const char *token)
{
	struct kube_lease *lease = cloud->leases;

	while (lease != NULL && strcmp(lease->token, token) != 0)
		lease = lease->next;
	return lease;
}

void
cloud_kubernetes_ends_tick(struct kube_cloud *cloud)
{
	if (!cloud->ticking && (cloud->leases != NULL || cloud->owned_what != ESPL_NONE))
		cloud->ticking = cloud->io->timer(cloud->io, TICK, KUBE_ASK_TICK) == ESPL_OK;
}

struct kube_lease *
cloud_kubernetes_ends_add(struct kube_cloud *cloud, uint64_t number, const char *token)
{
	struct kube_lease *lease = calloc(1, sizeof *lease);
	const char *end = strrchr(token, '-');

	if (lease == NULL)
		return NULL;
	lease->serial = ++cloud->serial;
	lease->lease = number;
	lease->again = lease->ending = lease->failing = lease->deleted = lease->gone = ESPL_NEVER;
	lease->since = cloud->lists + 1;
	lease->since_stage = kube_now(cloud);
	(void)snprintf(lease->token, sizeof lease->token, "%s", token);
	if (strncmp(token, "espl-", 5) == 0 && end > token + 5) /* espl-RUN-LEASE */
		(void)snprintf(lease->run, sizeof lease->run, "%.*s", (int)(end - token - 5),
		    token + 5);
	if (cloud->run[0] == '\0')
		(void)snprintf(cloud->run, sizeof cloud->run, "%s", lease->run);
	lease->next = cloud->leases;
	cloud->leases = lease;
	cloud_kubernetes_ends_tick(cloud);
	cloud_kubernetes_watch_look(cloud);
	return lease;
}

static void
free_lease(struct kube_cloud *cloud, struct kube_lease *lease)
{
	struct kube_lease **at = &cloud->leases;

	while (*at != lease)
		at = &(*at)->next;
	*at = lease->next;
	json_decref(lease->avoid);
	free(lease);
}

uint32_t
cloud_kubernetes_ends_left(const struct kube_cloud *cloud)
{
	uint32_t count = 0;

	for (const struct kube_lease *lease = cloud->leases; lease != NULL; lease = lease->next)
		count += lease->over != 0;
	return count;
}

/* ---- what is reported ---- */

void
cloud_kubernetes_ends_report(const struct kube_cloud *cloud, const struct kube_lease *lease,
    espl_node_state state, espl_reason reason, const char *address, espl_time ends_at,
    const char *text)
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
	event.machine = lease->node[0] != '\0' ? lease->node : NULL;
	if (state == ESPL_NODE_ENDED && reason == ESPL_BY_QUOTA)
		event.retry_after = QUOTA_PAUSE;
	(void)cloud->events->node(cloud->events, &event);
}

static void
report_end(struct kube_cloud *cloud, struct kube_lease *lease, espl_reason reason, const char *text)
{
	int wanted = lease->releasing;

	if (lease->over)
		return;
	lease->over = 1;
	lease->releasing = 0;
	cloud_kubernetes_ends_report(cloud, lease, ESPL_NODE_ENDED, wanted ? ESPL_BY_USER : reason,
	    NULL, ESPL_NEVER, wanted ? NULL : text);
}

/* ---- deletions ---- */

void
cloud_kubernetes_ends_ask(struct kube_cloud *cloud, struct kube_lease *lease, const char *method,
    json_t *body, enum kube_request request)
{
	char path[3 * KUBE_NAME];

	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods%s%s", cloud->namespace,
	    request == KUBE_ASK_CREATE ? "" : "/", request == KUBE_ASK_CREATE ? "" : lease->token);
	lease->again = ESPL_NEVER;
	lease->asking = cloud_kubernetes_proxy_ask(cloud, method, path, body,
			    KUBE_COOKIE(lease->serial, request)) == ESPL_OK;
	if (!lease->asking)
		lease->again = kube_now(cloud) + TICK;
}

static void
delete_pod(struct kube_cloud *cloud, struct kube_lease *lease, int grace_s)
{
	ESPL_ASSERT(lease->uid[0] != '\0'); /* never a pod that may belong to another run */
	cloud_kubernetes_ends_ask(cloud, lease, "DELETE",
	    json_pack("{s:s, s:s, s:i, s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions",
		"gracePeriodSeconds", grace_s, "preconditions", "uid", lease->uid),
	    KUBE_ASK_DELETE);
}

void
cloud_kubernetes_ends_step(struct kube_cloud *cloud, struct kube_lease *lease)
{
	espl_time now = kube_now(cloud);
	int forced = lease->finished ||
	    (lease->deleted != ESPL_NEVER && now - lease->deleted > FORCE_AFTER) ||
	    (lease->unready && now > lease->gone);

	ESPL_ASSERT(lease->releasing || lease->over);
	if (lease->ending == ESPL_NEVER)
		lease->ending = now;
	if (lease->asking)
		return;
	if (lease->uid[0] == '\0' || (lease->deleting && !forced))
		cloud_kubernetes_ends_ask(cloud, lease, "GET", NULL, KUBE_ASK_GET);
	else
		delete_pod(cloud, lease, forced ? 0 : 1);
}

void
cloud_kubernetes_ends_seen(struct kube_cloud *cloud, struct kube_lease *lease,
    const struct kube_pod *pod)
{
	int finished = lease->finished;

	lease->finished = pod->finished; /* a kubelet may leave the object of such a pod for long */
	if (pod->deleted && lease->deleted == ESPL_NEVER)
		lease->deleted = kube_now(cloud);
	if (!lease->deleting || (pod->finished && !finished))
		cloud_kubernetes_ends_step(cloud, lease);
	else if (lease->again == ESPL_NEVER)
		lease->again = kube_now(cloud) + (pod->finished ? TICK : LOOK_AGAIN);
}

void
cloud_kubernetes_ends_accepted(struct kube_cloud *cloud, struct kube_lease *lease)
{
	lease->again = kube_now(cloud) + (lease->deleting ? LOOK_AGAIN : LOOK_SOON);
	lease->deleting = 1;
	if (lease->deleted == ESPL_NEVER)
		lease->deleted = kube_now(cloud);
}

void
cloud_kubernetes_ends_drop(struct kube_cloud *cloud, struct kube_lease *lease, espl_reason reason,
    const char *text)
{
	report_end(cloud, lease, reason, text);
	cloud_kubernetes_ends_step(cloud, lease);
}

void
cloud_kubernetes_ends_gone(struct kube_cloud *cloud, struct kube_lease *lease, espl_reason reason,
    const char *text)
{
	int doubt = lease->unsure || kube_now(cloud) < lease->doubt;

	report_end(cloud, lease, reason, text);
	if (!doubt && !lease->creating) {
		free_lease(cloud, lease);
		return;
	}
	lease->uid[0] = '\0'; /* there may be another one */
	lease->finished = 0;
	lease->deleting = 0;
	lease->deleted = lease->gone = ESPL_NEVER;
	if (doubt)
		lease->again = lease->unsure ? kube_now(cloud) : lease->doubt;
}

/* ---- time ---- */

/* When to warn again of a pod that does not end. */
static espl_span
find_patience(uint32_t warnings)
{
	static const espl_span minutes[] = { 2, 5, 15 };
	const uint32_t count = sizeof minutes / sizeof minutes[0];

	return 60 * ESPL_SECOND *
	    (warnings < count ? minutes[warnings] : 60 * (espl_span)(warnings - count + 1));
}

/* Nothing runs in a pod that is finished: a finalizer keeps its object, which costs nothing. */
void
cloud_kubernetes_ends_check(struct kube_cloud *cloud, struct kube_lease *lease)
{
	espl_span passed = lease->ending != ESPL_NEVER ? kube_now(cloud) - lease->ending : 0;
	char text[KUBE_TEXT];

	if (lease->uid[0] == '\0' || passed < find_patience(lease->warnings))
		return;
	lease->warnings++;
	(void)snprintf(text, sizeof text,
	    "pod %s is still there, %lld minutes after its end was first requested; trying again: "
	    "%s",
	    lease->token, (long long)(passed / (60 * ESPL_SECOND)),
	    lease->finished       ? "nothing runs in it any more, but a finalizer keeps it"
		: lease->deleting ? "the API server accepts the deletion, and its node does not "
				    "end it"
				  : "the API server has not accepted the deletion");
	cloud->host->log(cloud->host, ESPL_WARN, text);
	if (lease->finished)
		report_end(cloud, lease, ESPL_BY_PROVIDER, "its pod has ended");
}

/* ---- the entry ---- */

espl_status
cloud_kubernetes_ends_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct kube_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct kube_lease *lease = cloud_kubernetes_ends_find(cloud, list[i]->token);

		if (lease == NULL) {
			lease = cloud_kubernetes_ends_add(cloud, list[i]->lease, list[i]->token);
			if (lease == NULL)
				return espl_fail(error, ESPL_E_NOMEM, "out of memory");
			if (list[i]->detail != NULL) /* "UID NAMESPACE CONTEXT" */
				(void)snprintf(lease->uid, sizeof lease->uid, "%.*s",
				    (int)strcspn(list[i]->detail, " "), list[i]->detail);
		}
		if (lease->releasing)
			continue; /* the host repeats itself; we do, too */
		lease->lease = list[i]->lease;
		lease->over = 0;
		lease->releasing = 1;
		lease->ending = kube_now(cloud);
		cloud_kubernetes_ends_step(cloud, lease);
	}
	return ESPL_OK;
}
