/* cloud_kubernetes_watch.c - one list and then one watch for all pods of the run.
 *
 * A watch that breaks begins again where it was; one that is too far behind (410) or heard nothing
 * is followed by a list. A server that does not answer ends no lease: the pods run without it.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud_kubernetes.h"

#define WATCH_S 240 /* then the server ends it, and another begins */
#define PAUSE_MOST (30 * ESPL_SECOND)

espl_span
cloud_kubernetes_watch_pause(struct kube_cloud *cloud, uint32_t tries,
    const struct espl_http_reply *reply)
{
	espl_span pause = ESPL_SECOND << (tries < 5 ? tries : 5);

	if (pause > PAUSE_MOST)
		pause = PAUSE_MOST;
	pause = pause / 2 + (espl_span)(cloud->host->random(cloud->host) % (uint64_t)(pause / 2));
	for (uint32_t i = 0; reply != NULL && i < reply->header_count; i++)
		if (strncasecmp(reply->headers[i], "Retry-After:", 12) == 0) {
			espl_span wanted = strtol(reply->headers[i] + 12, NULL, 10) * ESPL_SECOND;

			if (wanted > pause && wanted <= 600 * ESPL_SECOND)
				pause = wanted;
		}
	return pause;
}

void
cloud_kubernetes_watch_trouble(struct kube_cloud *cloud, enum kube_class class, const char *text)
{
	char line[KUBE_TEXT + 120];

	if (class == KUBE_LOGIN)
		cloud_kubernetes_proxy_renew(cloud);
	if (cloud->silent != ESPL_NEVER)
		return;
	cloud->silent = cloud->host->now(cloud->host);
	(void)snprintf(line, sizeof line, "%s%s; waiting for it, the pods keep running",
	    class == KUBE_LOGIN ? "" : "the API server does not answer: ", text);
	cloud->host->log(cloud->host, ESPL_WARN, line);
}

void
cloud_kubernetes_watch_fine(struct kube_cloud *cloud)
{
	char line[100];

	cloud->troubles = 0;
	if (cloud->silent == ESPL_NEVER)
		return;
	(void)snprintf(line, sizeof line, "the API server answers again after %lld s",
	    (long long)((cloud->host->now(cloud->host) - cloud->silent) / ESPL_SECOND));
	cloud->host->log(cloud->host, ESPL_WARN, line);
	cloud->silent = ESPL_NEVER;
}

void
cloud_kubernetes_watch_look(struct kube_cloud *cloud)
{
	char path[3 * KUBE_NAME];
	int listing = cloud->version[0] == '\0';

	if (cloud->watching || cloud->run[0] == '\0' ||
	    cloud->host->now(cloud->host) < cloud->watch_at)
		return;
	(void)snprintf(path, sizeof path,
	    "/api/v1/namespaces/%s/pods?labelSelector=app%%3Despalier%%2Cespalier%%2Frun%%3D%s",
	    cloud->namespace, cloud->run);
	if (listing) {
		cloud->lists++;
	} else {
		size_t used = strlen(path);

		(void)snprintf(path + used, sizeof path - used,
		    "&watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
		    WATCH_S, cloud->version);
	}
	cloud->heard = 0;
	cloud->watching = cloud_kubernetes_proxy_ask(cloud, "GET", path, NULL,
			      listing ? KUBE_ASK_LIST : KUBE_ASK_WATCH) == ESPL_OK;
}

static void
note_version(struct kube_cloud *cloud, const json_t *object)
{
	const char *version = json_string_value(
	    json_object_get(json_object_get(object, "metadata"), "resourceVersion"));

	if (version != NULL)
		(void)snprintf(cloud->version, sizeof cloud->version, "%.63s", version);
}

static void
take_event(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	json_t *event = json_loadb(reply->body, reply->body_size, 0, NULL);
	const char *type = json_string_value(json_object_get(event, "type"));
	const json_t *object = json_object_get(event, "object");
	struct kube_pod pod;

	cloud->heard = 1;
	if (type == NULL || strcmp(type, "ERROR") == 0) {
		cloud->version[0] = '\0'; /* mostly 410 */
	} else {
		note_version(cloud, object);
		if (strcmp(type, "BOOKMARK") != 0) {
			cloud_kubernetes_pod_read(object, &pod);
			cloud_kubernetes_leases_pod(cloud, &pod, strcmp(type, "DELETED") == 0);
		}
	}
	json_decref(event);
}

static void
take_list(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	json_t *list = json_loadb(reply->body, reply->body_size, 0, NULL);
	const json_t *items = json_object_get(list, "items");

	if (json_is_array(items)) {
		note_version(cloud, list);
		cloud_kubernetes_leases_all(cloud, items, cloud->lists);
	} else {
		cloud->watch_at = cloud->host->now(cloud->host) +
		    cloud_kubernetes_watch_pause(cloud, cloud->troubles++, NULL);
	}
	json_decref(list);
}

void
cloud_kubernetes_watch_answer(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	enum kube_class class;
	char text[KUBE_TEXT];
	int listing = reply->cookie % 16 == KUBE_ASK_LIST;

	if (reply->more) {
		cloud_kubernetes_watch_fine(cloud);
		take_event(cloud, reply);
		return;
	}
	cloud->watching = 0;
	if (reply->status == ESPL_OK && reply->code == 200) {
		cloud_kubernetes_watch_fine(cloud);
		if (listing)
			take_list(cloud, reply);
		else if (!cloud->heard)
			cloud->version[0] = '\0'; /* not even a bookmark: of another etcd? */
		else
			cloud->watch_at = cloud->host->now(cloud->host) + ESPL_SECOND;
		cloud_kubernetes_watch_look(cloud);
		return;
	}
	class = cloud_kubernetes_pod_class(reply->code, reply->body, reply->body_size, text);
	if (class == KUBE_EXPIRED || reply->status == ESPL_E_LIMIT)
		cloud->version[0] = '\0';
	cloud->watch_at = cloud->host->now(cloud->host) +
	    cloud_kubernetes_watch_pause(cloud, cloud->troubles++, reply);
	if (listing || reply->code != 0 ||
	    cloud->troubles > 1) /* a single broken watch is not significant */
		cloud_kubernetes_watch_trouble(cloud, class, reply->code != 0 ? text : reply->text);
}

/* ---- the pods of all runs ---- */

espl_status
cloud_kubernetes_watch_owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct kube_cloud *cloud = self;
	char path[3 * KUBE_NAME];
	espl_status status;

	if (cloud->owned_what != ESPL_NONE)
		return espl_fail(error, ESPL_E_BUSY, "an earlier request is not answered yet");
	(void)snprintf(cloud->owned_run, sizeof cloud->owned_run, "%s", run != NULL ? run : "");
	(void)snprintf(path, sizeof path,
	    "/api/v1/namespaces/%s/pods?labelSelector=app%%3Despalier%s%s", cloud->namespace,
	    run != NULL ? "%2Cespalier%2Frun%3D" : "", run != NULL ? run : "");
	status = cloud_kubernetes_proxy_ask(cloud, "GET", path, NULL, KUBE_ASK_OWNED);
	if (status != ESPL_OK)
		return espl_fail(error, status, "the API server cannot be asked");
	cloud->owned_what = what;
	return ESPL_OK;
}

static void
tell_owned(const struct kube_cloud *cloud, const struct kube_pod *pod)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);
	char offer[80];

	if (pod->deleted || pod->token[0] == '\0')
		return;
	kube_offer_name(cloud, offer);
	event.state = pod->started_utc_s > 0 ? ESPL_NODE_READY : ESPL_NODE_REQUESTED;
	event.lease = ESPL_NONE;
	event.token = pod->token;
	event.run = pod->run;
	event.provider_id = pod->name;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	event.offer = cloud->owned_run[0] != '\0' ? offer : NULL; /* of others it may differ */
	event.market = "pod";
	event.billed_utc_s = pod->started_utc_s;
	(void)cloud->events->node(cloud->events, &event);
}

void
cloud_kubernetes_watch_listed(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	json_t *list = NULL;
	uint64_t what = cloud->owned_what;
	char text[KUBE_TEXT] = "";

	cloud->owned_what = ESPL_NONE;
	if (reply->status == ESPL_OK && reply->code == 200)
		list = json_loadb(reply->body, reply->body_size, 0, NULL);
	if (!json_is_array(json_object_get(list, "items"))) {
		(void)cloud_kubernetes_pod_class(reply->code, reply->body, reply->body_size, text);
		cloud->events->done(cloud->events, what, ESPL_E_REMOTE,
		    reply->code != 0 ? text : reply->text);
	} else {
		const json_t *items = json_object_get(list, "items");

		for (size_t i = 0; i < json_array_size(items); i++) {
			struct kube_pod pod;

			cloud_kubernetes_pod_read(json_array_get(items, i), &pod);
			tell_owned(cloud, &pod);
		}
		cloud->events->done(cloud->events, what, ESPL_OK, "");
	}
	json_decref(list);
}
