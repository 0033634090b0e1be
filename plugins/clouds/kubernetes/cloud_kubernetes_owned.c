/* cloud_kubernetes_owned.c - the pods of all runs, or of one.
 *
 * At the end of a run the answer waits until the pods of ended leases are gone, which are being
 * deleted.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud_kubernetes.h"

#define ANSWER_BY (50 * ESPL_SECOND) /* a run waits for 60 s */
#define ENDS_MOST (40 * ESPL_SECOND) /* of these, for pods that are being deleted */

espl_status
cloud_kubernetes_owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct kube_cloud *cloud = self;

	if (cloud->owned_what != ESPL_NONE)
		return espl_fail(error, ESPL_E_BUSY,
		    "an earlier request has not been answered yet");
	(void)snprintf(cloud->owned_run, sizeof cloud->owned_run, "%s", run != NULL ? run : "");
	cloud->owned_what = what;
	cloud->owned_tries = 0;
	cloud->owned_at = kube_now(cloud);
	cloud->owned_until = kube_now(cloud) + ANSWER_BY;
	cloud_kubernetes_owned_look(cloud);
	cloud_kubernetes_ends_tick(cloud);
	return ESPL_OK;
}

static void
end_owned(struct kube_cloud *cloud, espl_status status, const char *text)
{
	uint64_t what = cloud->owned_what;

	cloud->owned_what = ESPL_NONE;
	cloud_kubernetes_watch_forget(&cloud->owned_pages);
	cloud->events->done(cloud->events, what, status, text);
}

void
cloud_kubernetes_owned_look(struct kube_cloud *cloud)
{
	espl_time now = kube_now(cloud);
	char *path;

	if (cloud->owned_what == ESPL_NONE || cloud->owned_asking || now < cloud->owned_at)
		return;
	if (cloud->owned_run[0] != '\0' && cloud_kubernetes_ends_left(cloud) > 0 &&
	    now < cloud->owned_until - ANSWER_BY + ENDS_MOST)
		return;
	path = cloud_kubernetes_watch_path(cloud, cloud->owned_run, &cloud->owned_pages);
	cloud->owned_asking = path != NULL &&
	    cloud_kubernetes_proxy_ask(cloud, "GET", path, NULL, KUBE_ASK_OWNED) == ESPL_OK;
	free(path);
	if (!cloud->owned_asking)
		end_owned(cloud, ESPL_E_REMOTE, "the API server cannot be asked");
}

static void
report_owned(const struct kube_cloud *cloud, const struct kube_pod *pod)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);
	char offer[80];

	if (pod->deleted || pod->token[0] == '\0')
		return;
	kube_offer_name(cloud, offer);
	event.state = pod->finished  ? ESPL_NODE_ENDED
	    : pod->started_utc_s > 0 ? ESPL_NODE_READY
				     : ESPL_NODE_REQUESTED;
	event.reason = pod->finished ? pod->reason : 0;
	event.lease = ESPL_NONE;
	event.token = pod->token;
	event.run = pod->run;
	event.provider_id = pod->name;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	event.offer = cloud->owned_run[0] != '\0' ? offer : NULL; /* of others it may differ */
	event.market = "pod";
	event.billed_utc_s = pod->finished ? 0 : pod->started_utc_s;
	(void)cloud->events->node(cloud->events, &event);
}

void
cloud_kubernetes_owned_answer(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	char text[KUBE_TEXT];
	enum kube_class class;
	int whole;

	cloud->owned_asking = 0;
	if (cloud->owned_what == ESPL_NONE)
		return;
	if (reply->status == ESPL_OK && reply->code == 200) {
		whole = cloud_kubernetes_watch_page(&cloud->owned_pages, reply);
		if (whole < 0)
			end_owned(cloud, ESPL_E_REMOTE, "the API server's answer is not a list");
		else if (whole == 0)
			cloud_kubernetes_owned_look(cloud);
		if (whole <= 0)
			return;
		for (size_t i = 0; i < json_array_size(cloud->owned_pages.items); i++) {
			struct kube_pod pod;

			cloud_kubernetes_pod_read(json_array_get(cloud->owned_pages.items, i),
			    cloud->container, &pod);
			report_owned(cloud, &pod);
		}
		end_owned(cloud, ESPL_OK, "");
		return;
	}
	class = cloud_kubernetes_proxy_failure(cloud, reply, text);
	if (class == KUBE_EXPIRED)
		cloud_kubernetes_watch_forget(&cloud->owned_pages);
	else if (class != KUBE_LATER && class != KUBE_LOGIN)
		cloud->owned_until = 0;
	cloud->owned_at =
	    kube_now(cloud) + cloud_kubernetes_proxy_pause(cloud, cloud->owned_tries++, reply);
	if (cloud->owned_at >= cloud->owned_until)
		end_owned(cloud, ESPL_E_REMOTE, text);
}
