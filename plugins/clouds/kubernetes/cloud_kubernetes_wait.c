/* cloud_kubernetes_wait.c - how long a pod may wait, and what is said of it.
 *
 * The time limit belongs to the stage that a pod is in, whatever Kubernetes calls the reason: the
 * reasons are different in each release, and the most frequent ones are only in events.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud_kubernetes.h"

#define TOLD_AFTER (30 * ESPL_SECOND)   /* a shorter wait is not worth a line */
#define FAILING_MOST (30 * ESPL_SECOND) /* that Kubernetes tries to start a container */
#define AVOID_MOST (60 * ESPL_SECOND)   /* for another node than those that failed */
#define EVENTS_MOST 500                 /* that are looked at */

static const char *
text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

/* ---- events ---- */

/* When it was last seen: times of one format are compared as texts. Events of newer recorders have
 * no lastTimestamp. */
static const char *
time_of(const json_t *event)
{
	const char *series = text_at(json_object_get(event, "series"), "lastObservedTime");
	const char *last = text_at(event, "lastTimestamp");

	if (series[0] != '\0')
		return series;
	if (last[0] != '\0')
		return last;
	return text_at(event, "eventTime");
}

/* Of the autoscaler of clusters, and of Karpenter. */
static int
is_scaling(const json_t *event)
{
	return strcmp(text_at(event, "reason"), "TriggeredScaleUp") == 0 ||
	    strcmp(text_at(event, "reason"), "Nominated") == 0;
}

void
cloud_kubernetes_wait_read(const json_t *list, char text[KUBE_TEXT], int *scaling)
{
	const json_t *items = json_object_get(list, "items"), *newest = NULL;
	char line[2 * KUBE_TEXT];

	text[0] = '\0';
	*scaling = 0;
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *one = json_array_get(items, i);
		int order = newest != NULL ? strcmp(time_of(one), time_of(newest)) : 1;

		*scaling |= is_scaling(one);
		/* of the same second: a warning says more */
		if (order > 0 || (order == 0 && strcmp(text_at(newest, "type"), "Warning") != 0))
			newest = one;
	}
	if (newest == NULL)
		return;
	(void)snprintf(line, sizeof line, "%s: %s", text_at(newest, "reason"),
	    text_at(newest, "message"));
	(void)snprintf(text, KUBE_TEXT, "%.*s", KUBE_TEXT - 1, line);
	for (char *c = text; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = ' ';
}

static void
ask_events(struct kube_cloud *cloud, struct kube_lease *lease)
{
	char path[3 * KUBE_NAME];

	if (lease->uid[0] == '\0' || lease->asking_events)
		return;
	(void)snprintf(path, sizeof path,
	    "/api/v1/namespaces/%s/events?fieldSelector=involvedObject.uid%%3D%s&limit=%d",
	    cloud->namespace, lease->uid, EVENTS_MOST);
	lease->asking_events = cloud_kubernetes_proxy_ask(cloud, "GET", path, NULL,
				   KUBE_COOKIE(lease->serial, KUBE_ASK_EVENTS)) == ESPL_OK;
}

/* ---- stages ---- */

static espl_span
limit_of(const struct kube_cloud *cloud, const struct kube_lease *lease)
{
	espl_span wait = kube_number(cloud, KUBE_OPT_WAIT);
	espl_span start = kube_number(cloud, KUBE_OPT_START);

	if (lease->stage != KUBE_STAGE_QUEUED)
		return start;
	if (lease->scaling)
		return wait > start ? wait : start;
	return lease->avoid != NULL && wait > AVOID_MOST ? AVOID_MOST : wait;
}

void
cloud_kubernetes_wait_note(struct kube_cloud *cloud, struct kube_lease *lease,
    enum kube_stage stage, const char *text)
{
	(void)snprintf(lease->waits, sizeof lease->waits, "%s", text);
	if (stage == lease->stage)
		return;
	lease->stage = stage;
	lease->since_stage = kube_now(cloud);
	lease->told = lease->late = 0;
}

static void
format_wait(const struct kube_cloud *cloud, const struct kube_lease *lease, char text[KUBE_TEXT])
{
	espl_span passed = (kube_now(cloud) - lease->since_stage) / ESPL_SECOND;

	(void)snprintf(text, KUBE_TEXT, "%.250s, for %lld s%s%.250s",
	    lease->waits[0] != '\0' ? lease->waits : "the API server has not accepted it",
	    (long long)passed, lease->event[0] != '\0' ? "; the last event: " : "", lease->event);
}

/* The name of the pod, and what it waits for. The message of the scheduler was printed already. */
static void
tell_wait(struct kube_cloud *cloud, struct kube_lease *lease)
{
	char text[KUBE_TEXT], line[KUBE_TEXT + 120];

	lease->told = 1;
	if (lease->failing != ESPL_NEVER)
		return;
	if (strcmp(lease->waits, lease->last_line) == 0 && lease->event[0] == '\0')
		return;
	format_wait(cloud, lease, text);
	(void)snprintf(line, sizeof line, "pod %s waits: %s", lease->token, text);
	cloud_kubernetes_ends_report(cloud, lease, ESPL_NODE_BOOTING, 0, NULL, ESPL_NEVER, line);
}

static void
give_up(struct kube_cloud *cloud, struct kube_lease *lease)
{
	char text[KUBE_TEXT];

	format_wait(cloud, lease, text);
	if (lease->stage == KUBE_STAGE_STARTING) {
		cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_FAULT, text);
		return;
	}
	if (lease->stage == KUBE_STAGE_QUEUED && lease->avoid != NULL)
		cloud->without = 1;
	cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_CAPACITY, text);
}

/* Its events are known, or cannot be. */
static void
go_on(struct kube_cloud *cloud, struct kube_lease *lease)
{
	espl_span passed = kube_now(cloud) - lease->since_stage;

	if (passed > limit_of(cloud, lease)) {
		give_up(cloud, lease);
		return;
	}
	lease->late = 0; /* a node is being added */
	if (passed > TOLD_AFTER && !lease->told)
		tell_wait(cloud, lease);
}

void
cloud_kubernetes_wait_answer(struct kube_cloud *cloud, struct kube_lease *lease,
    const struct espl_http_reply *reply)
{
	char text[KUBE_TEXT];
	json_t *list;

	lease->asking_events = 0;
	if (reply->status == ESPL_OK && reply->code == 200) {
		list = json_loadb(reply->body, reply->body_size, 0, NULL);
		cloud_kubernetes_wait_read(list, lease->event, &lease->scaling);
		json_decref(list);
	} else if (reply->code == 403) {
		(void)snprintf(lease->event, sizeof lease->event,
		    "not known, since the right to list events is missing");
	} else if (reply->code == 0) {
		(void)cloud_kubernetes_proxy_failure(cloud, reply, text);
		lease->late = 0; /* asked again when the server answers */
		return;
	}
	if (!lease->ready && !lease->releasing && !lease->over)
		go_on(cloud, lease);
}

/* The watch may be silent: the pod itself is asked for before anything follows from its wait. 1:
 * its answer is here. */
static int
is_fresh(struct kube_cloud *cloud, struct kube_lease *lease)
{
	if (lease->uid[0] == '\0')
		return 1;
	if (!lease->looked && !lease->asking && lease->again == ESPL_NEVER)
		lease->again = kube_now(cloud);
	lease->looked = 1;
	return !lease->asking && lease->again == ESPL_NEVER;
}

/* Time does not pass while the server cannot report that the wait is over. */
void
cloud_kubernetes_wait_check(struct kube_cloud *cloud, struct kube_lease *lease)
{
	espl_time now = kube_now(cloud);
	espl_span passed = now - lease->since_stage, limit = limit_of(cloud, lease);
	int late = passed > limit;
	char text[KUBE_TEXT];

	if (cloud->silent != ESPL_NEVER && lease->stage != KUBE_STAGE_NEW)
		return;
	if (lease->failing != ESPL_NEVER && now - lease->failing > FAILING_MOST) {
		(void)snprintf(text, sizeof text, "%s", lease->last_line);
		cloud_kubernetes_ends_drop(cloud, lease, ESPL_BY_FAULT, text);
		return;
	}
	if (lease->asking_events || (late ? lease->late : passed <= TOLD_AFTER || lease->told))
		return;
	if (!is_fresh(cloud, lease) && passed <= 2 * limit)
		return;
	lease->looked = 0;
	lease->late = late;
	ask_events(cloud, lease);
	if (!lease->asking_events)
		go_on(cloud, lease);
}
