/* cloud_kubernetes_watch.c - one list and then one watch for all pods of the run.
 *
 * A broken watch restarts where it was; one that is too far behind (410) or was silent is followed
 * by a list. A server that does not answer ends no lease: the pods run without it.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud_kubernetes.h"

#define WATCH_S 240             /* then the server ends it, and another begins */
#define PAGE 500                /* pods in an answer */
#define LIVED (5 * ESPL_SECOND) /* a watch that lasted this long did not fail */

/* ---- pages ---- */

char *
cloud_kubernetes_watch_path(const struct kube_cloud *cloud, const char *run,
    const struct kube_pages *pages)
{
	char *path;
	int size = asprintf(&path,
	    "/api/v1/namespaces/%s/pods?labelSelector=app%%3Despalier%s%s&limit=%d%s%s",
	    cloud->namespace, run[0] != '\0' ? "%2Cespalier%2Frun%3D" : "", run, PAGE,
	    pages->next != NULL ? "&continue=" : "", pages->next != NULL ? pages->next : "");

	return size >= 0 ? path : NULL;
}

void
cloud_kubernetes_watch_forget(struct kube_pages *pages)
{
	json_decref(pages->items);
	free(pages->next);
	*pages = (struct kube_pages){ NULL, NULL };
}

int
cloud_kubernetes_watch_page(struct kube_pages *pages, const struct espl_http_reply *reply)
{
	json_t *list = json_loadb(reply->body, reply->body_size, 0, NULL);
	json_t *items = json_object_get(list, "items");
	const char *next =
	    json_string_value(json_object_get(json_object_get(list, "metadata"), "continue"));
	int more = next != NULL && next[0] != '\0';

	if (!json_is_array(items)) {
		json_decref(list);
		cloud_kubernetes_watch_forget(pages);
		return -1;
	}
	free(pages->next);
	pages->next = more ? strdup(next) : NULL;
	if (pages->items == NULL)
		pages->items = json_incref(items);
	else
		(void)json_array_extend(pages->items, items);
	json_decref(list);
	return !more;
}

/* ---- the watch ---- */

static espl_status
ask_list(struct kube_cloud *cloud)
{
	char *path = cloud_kubernetes_watch_path(cloud, cloud->run, &cloud->pages);
	espl_status status = ESPL_E_NOMEM;

	if (cloud->pages.items == NULL)
		cloud->lists++;
	if (path != NULL)
		status = cloud_kubernetes_proxy_ask(cloud, "GET", path, NULL, KUBE_ASK_LIST);
	free(path);
	return status;
}

static espl_status
ask_watch(struct kube_cloud *cloud)
{
	char path[3 * KUBE_NAME];

	(void)snprintf(path, sizeof path,
	    "/api/v1/namespaces/%s/pods?labelSelector=app%%3Despalier%%2Cespalier%%2Frun%%3D%s"
	    "&watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
	    cloud->namespace, cloud->run, WATCH_S, cloud->version);
	cloud->answered = 0;
	cloud->watch_begun = kube_now(cloud);
	return cloud_kubernetes_proxy_ask(cloud, "GET", path, NULL, KUBE_ASK_WATCH);
}

void
cloud_kubernetes_watch_look(struct kube_cloud *cloud)
{
	if (cloud->watching || cloud->run[0] == '\0' || kube_now(cloud) < cloud->watch_at)
		return;
	cloud->watching =
	    (cloud->version[0] == '\0' ? ask_list(cloud) : ask_watch(cloud)) == ESPL_OK;
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

	if (type == NULL || strcmp(type, "ERROR") == 0) {
		cloud->version[0] = '\0'; /* mostly 410 */
	} else {
		cloud->answered = 1;
		cloud->troubles = 0;
		note_version(cloud, object);
		if (strcmp(type, "BOOKMARK") != 0) {
			cloud_kubernetes_pod_read(object, cloud->container, &pod);
			cloud_kubernetes_leases_pod(cloud, &pod, strcmp(type, "DELETED") == 0);
		}
	}
	json_decref(event);
}

static void
watch_later(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	cloud->watch_at =
	    kube_now(cloud) + cloud_kubernetes_proxy_pause(cloud, cloud->troubles++, reply);
}

static void
take_list(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	int whole = cloud_kubernetes_watch_page(&cloud->pages, reply);
	json_t *list, *items;

	if (whole < 0)
		watch_later(cloud, NULL);
	if (whole <= 0)
		return;
	list = json_loadb(reply->body, reply->body_size, 0, NULL);
	note_version(cloud, list);
	json_decref(list);
	items = json_incref(cloud->pages.items);
	cloud_kubernetes_watch_forget(&cloud->pages);
	cloud_kubernetes_leases_all(cloud, items, cloud->lists);
	json_decref(items);
}

void
cloud_kubernetes_watch_answer(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	enum kube_class class;
	char text[KUBE_TEXT];
	int listing = reply->cookie % 16 == KUBE_ASK_LIST;

	if (reply->more) {
		take_event(cloud, reply);
		return;
	}
	cloud->watching = 0;
	if (reply->status == ESPL_OK && reply->code == 200) {
		if (listing) {
			take_list(cloud, reply);
		} else if (!cloud->answered) { /* not even a bookmark: of another etcd? */
			cloud->version[0] = '\0';
			watch_later(cloud, reply);
		} else {
			cloud->watch_at = kube_now(cloud) + ESPL_SECOND;
		}
		cloud_kubernetes_watch_look(cloud);
		return;
	}
	watch_later(cloud, reply);
	if (!listing && reply->status == ESPL_E_REMOTE &&
	    kube_now(cloud) - cloud->watch_begun > LIVED)
		return;
	class = cloud_kubernetes_proxy_failure(cloud, reply, text);
	if (class == KUBE_EXPIRED || reply->status == ESPL_E_LIMIT) {
		cloud->version[0] = '\0';
		cloud_kubernetes_watch_forget(&cloud->pages);
	}
}
