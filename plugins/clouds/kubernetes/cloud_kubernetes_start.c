/* cloud_kubernetes_start.c - the start of the cloud: the context and the namespace, the proxy, what
 * the user may do, and whether the cluster accepts a pod like ours.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_kubernetes.h"

#define VIEW_MOST (30 * ESPL_SECOND)
#define CHECK_MOST (10 * ESPL_SECOND)   /* for the API server to answer */
#define RUN_MOST (5 * 60 * ESPL_SECOND) /* a run may be resumed while it is away */
#define SOON_MOST (2 * ESPL_SECOND)     /* the proxy itself is being started */
#define SOON_PAUSE (ESPL_SECOND / 10)
#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

/* What must be allowed in the namespace. */
static const struct {
	const char *verb, *resource, *part;
} rights[] = {
	{ "create", "pods", "" },
	{ "get", "pods", "" },
	{ "list", "pods", "" },
	{ "watch", "pods", "" },
	{ "delete", "pods", "" },
	{ "create", "pods", "exec" },
};
#define RIGHTS ((uint32_t)(sizeof rights / sizeof rights[0]))

static void
end_start(struct kube_cloud *cloud, espl_status status, const char *format, ...)
{
	char text[KUBE_TEXT + 200] = "";
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	cloud->started = 1;
	if (status == ESPL_OK)
		(void)cloud_kubernetes_describe(cloud, cloud->events, NULL);
	cloud->events->done(cloud->events, 0, status, text);
}

/* ---- the context ---- */

espl_status
cloud_kubernetes_start(void *self, const struct espl_cloud_events *events, struct espl_error *error)
{
	struct kube_cloud *cloud = self;
	const char *words[] = { kube_text(cloud, KUBE_OPT_KUBECTL), "config", "view", "--minify",
		"--output=json" };

	if (cloud->io == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "it needs espl_io");
	cloud->events = events;
	return cloud_kubernetes_proxy_run(cloud, words, 5, KUBE_ASK_CONFIG, VIEW_MOST);
}

/* Inside a pod, kubectl has the pod's own service account and needs no configuration. Tests set the
 * variable. */
static int
take_account(struct kube_cloud *cloud)
{
	const char *folder = getenv("ESPALIER_KUBE_ACCOUNT");
	char path[1024], name[KUBE_NAME] = "";
	FILE *file;

	(void)snprintf(path, sizeof path, "%s/namespace", folder != NULL ? folder : ACCOUNT);
	file = fopen(path, "r");
	if (file == NULL)
		return -1;
	if (fgets(name, sizeof name, file) != NULL)
		name[strcspn(name, "\n")] = '\0';
	(void)fclose(file);
	cloud->context = strdup("");
	cloud->namespace = strdup(name);
	cloud->in_pod = 1;
	return name[0] != '\0' ? 0 : -1;
}

static void
take_view(struct kube_cloud *cloud, const char *text)
{
	json_t *view = json_loads(text, 0, NULL);
	const json_t *one = json_array_get(json_object_get(view, "contexts"), 0);
	const char *name = json_string_value(json_object_get(one, "name"));
	const char *namespace =
	    json_string_value(json_object_get(json_object_get(one, "context"), "namespace"));

	cloud->context = strdup(name != NULL ? name : "");
	cloud->namespace = strdup(namespace != NULL ? namespace : "default");
	json_decref(view);
}

static void
choose_namespace(struct kube_cloud *cloud)
{
	const char *wanted = kube_text(cloud, KUBE_OPT_NAMESPACE);

	if (wanted[0] == '\0' || cloud->namespace == NULL || strcmp(wanted, cloud->namespace) == 0)
		return;
	free(cloud->namespace);
	cloud->namespace = strdup(wanted);
	cloud->in_pod = 0; /* what owns this pod cannot own those of another namespace */
}

static void
take_config(struct kube_cloud *cloud, const struct espl_child *child)
{
	char last[KUBE_TEXT];
	const char *why;

	cloud_kubernetes_proxy_last(last, child->err);
	if (child->status == ESPL_E_LIMIT) {
		end_start(cloud, ESPL_E_REMOTE, "kubectl did not answer within %lld s",
		    (long long)(VIEW_MOST / ESPL_SECOND));
		return;
	}
	if (child->status != ESPL_OK) {
		end_start(cloud, ESPL_E_REMOTE,
		    "there is no '%s' here; install kubectl, or set cloud.kubectl",
		    kube_text(cloud, KUBE_OPT_KUBECTL));
		return;
	}
	if (child->exit_code == 0)
		take_view(cloud, child->out);
	else if (kube_is_set(cloud, KUBE_OPT_CONTEXT) || take_account(cloud) != 0) {
		end_start(cloud, ESPL_E_REMOTE, "kubectl has no cluster to talk to: %s", last);
		return;
	}
	choose_namespace(cloud);
	cloud->begun = kube_now(cloud);
	if (cloud->context == NULL || cloud->namespace == NULL) {
		end_start(cloud, ESPL_E_NOMEM, "out of memory");
		return;
	}
	why = cloud_kubernetes_proxy_open(cloud);
	if (why != NULL)
		end_start(cloud, ESPL_E_REMOTE, "kubectl proxy cannot be started: %s", why);
	else
		(void)cloud->io->timer(cloud->io, SOON_PAUSE, KUBE_ASK_STARTED);
}

void
cloud_kubernetes_start_child(void *self, const struct espl_child *child)
{
	struct kube_cloud *cloud = self;

	if (child->cookie == KUBE_ASK_CONFIG) {
		take_config(cloud, child);
		return;
	}
	cloud_kubernetes_proxy_ended(cloud, child);
	if (!cloud->started)
		end_start(cloud, ESPL_E_REMOTE, "kubectl proxy has ended: %s", cloud->proxy_end);
}

/* ---- questions ---- */

static void
ask_pods(struct kube_cloud *cloud, const char *method, const char *more, json_t *body,
    enum kube_request request)
{
	char path[3 * KUBE_NAME];

	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods%s", cloud->namespace, more);
	if (cloud_kubernetes_proxy_ask(cloud, method, path, body, request) != ESPL_OK)
		end_start(cloud, ESPL_E_REMOTE, "a request cannot be sent to the API server");
}

void
cloud_kubernetes_start_timer(struct kube_cloud *cloud)
{
	if (!cloud->started)
		ask_pods(cloud, "GET", "?limit=1", NULL, KUBE_ASK_PING);
}

static void
ask_rights(struct kube_cloud *cloud)
{
	cloud->rights = RIGHTS;
	cloud->missing = 0;
	for (uint32_t i = 0; i < RIGHTS; i++)
		(void)cloud_kubernetes_proxy_ask(cloud, "POST",
		    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		    json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s}}}", "apiVersion",
			"authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview", "spec",
			"resourceAttributes", "namespace", cloud->namespace, "verb", rights[i].verb,
			"resource", rights[i].resource, "subresource", rights[i].part),
		    KUBE_COOKIE((uint64_t)i, KUBE_ASK_RIGHT));
}

/* What a pod in the namespace must satisfy is known to the API server alone. */
static void
try_pod(struct kube_cloud *cloud)
{
	ask_pods(cloud, "POST", "?dryRun=All",
	    cloud_kubernetes_leases_body(cloud, "espl-check", "check", NULL), KUBE_ASK_TRY);
}

static void
ask_self(struct kube_cloud *cloud)
{
	char more[KUBE_NAME] = "/";

	if (!cloud->in_pod || gethostname(more + 1, sizeof more - 2) != 0)
		try_pod(cloud);
	else
		ask_pods(cloud, "GET", more, NULL, KUBE_ASK_SELF);
}

/* ---- answers ---- */

/* Only a clear no counts: not every cluster answers this question. */
static void
take_right(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	json_t *review =
	    reply->code == 201 ? json_loadb(reply->body, reply->body_size, 0, NULL) : NULL;
	char text[KUBE_TEXT] = "";
	size_t used = 0;

	if (json_is_false(json_object_get(json_object_get(review, "status"), "allowed")))
		cloud->missing |= UINT32_C(1) << (reply->cookie / 16);
	json_decref(review);
	if (--cloud->rights > 0)
		return;
	for (uint32_t i = 0; i < RIGHTS; i++)
		if (cloud->missing >> i & 1)
			used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s%s%s",
			    used > 0 ? ", " : "", rights[i].verb, rights[i].resource,
			    rights[i].part[0] != '\0' ? "/" : "", rights[i].part);
	if (used > 0)
		end_start(cloud, ESPL_E_REMOTE,
		    "rights are missing in namespace '%s': %s; docs/kubernetes.md has a Role",
		    cloud->namespace, text);
	else
		ask_self(cloud);
}

/* Pods belong to what controls this one, such as a Job: with it, Kubernetes deletes them. */
static void
take_self(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	json_t *self = json_loadb(reply->body, reply->body_size, 0, NULL);
	const json_t *meta = json_object_get(self, "metadata");
	const json_t *list = json_object_get(meta, "ownerReferences");
	static const char *const copied[] = { "apiVersion", "kind", "name", "uid" };

	if (!json_is_string(json_object_get(meta, "uid"))) {
		json_decref(self);
		try_pod(cloud);
		return;
	}
	json_decref(cloud->owner);
	cloud->owner = json_pack("{s:s, s:s, s:O, s:O}", "apiVersion", "v1", "kind", "Pod", "name",
	    json_object_get(meta, "name"), "uid", json_object_get(meta, "uid"));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);

		if (!json_is_true(json_object_get(one, "controller")))
			continue;
		for (size_t k = 0; k < sizeof copied / sizeof copied[0]; k++)
			(void)json_object_set(cloud->owner, copied[k],
			    json_object_get(one, copied[k]));
	}
	json_decref(self);
	try_pod(cloud);
}

static void
take_tried(struct kube_cloud *cloud, enum kube_class class, uint32_t code, const char *text)
{
	char line[KUBE_TEXT + 100];

	if (class == KUBE_QUOTA) {
		(void)snprintf(line, sizeof line, "no pod can be created at present: %s", text);
		cloud->host->log(cloud->host, ESPL_WARN, line);
	} else if (class != KUBE_EXISTS && (code != 400 || strstr(text, "dry run") == NULL)) {
		/* a webhook that knows no dry runs says nothing about the pod */
		end_start(cloud, ESPL_E_REMOTE, "a pod is refused: %s", text);
		return;
	}
	end_start(cloud, ESPL_OK, "%s", "");
}

/* The pod as the cluster would run it. A container beside that of trials keeps it running. */
static void
take_accepted(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	json_t *pod = json_loadb(reply->body, reply->body_size, 0, NULL);
	const json_t *list = json_object_get(json_object_get(pod, "spec"), "containers");
	char names[KUBE_NAME] = "", line[KUBE_TEXT];
	size_t used = 0;

	for (size_t i = 0; i < json_array_size(list) && used < sizeof names; i++) {
		const char *name =
		    json_string_value(json_object_get(json_array_get(list, i), "name"));

		if (name != NULL && strcmp(name, cloud->container) != 0)
			used += (size_t)snprintf(names + used, sizeof names - used, "%s%.100s",
			    used > 0 ? ", " : "", name);
	}
	json_decref(pod);
	if (names[0] != '\0') {
		(void)snprintf(line, sizeof line,
		    "pods have other containers (%s): if this program dies and is not resumed, a "
		    "pod ends after cloud.time (%lld s) at the latest, and not by itself",
		    names, (long long)(kube_number(cloud, KUBE_OPT_TIME) / ESPL_SECOND));
		cloud->host->log(cloud->host, ESPL_WARN, line);
	}
	end_start(cloud, ESPL_OK, "%s", "");
}

/* 1: the whole question is asked again. */
static int
wait_more(struct kube_cloud *cloud, const struct espl_http_reply *reply, const char *text)
{
	espl_span passed = kube_now(cloud) - cloud->begun;
	espl_span pause = passed < SOON_MOST
	    ? SOON_PAUSE
	    : cloud_kubernetes_proxy_pause(cloud, cloud->tries++, reply);

	if (passed > (cloud->in_run ? RUN_MOST : CHECK_MOST)) {
		end_start(cloud, ESPL_E_REMOTE, "the API server does not answer: %s", text);
		return 0;
	}
	return cloud->io->timer(cloud->io, pause, KUBE_ASK_STARTED) == ESPL_OK;
}

void
cloud_kubernetes_start_answer(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	enum kube_request request = (enum kube_request)(reply->cookie % 16);
	char text[KUBE_TEXT];
	enum kube_class class;

	if (cloud->started)
		return;
	if (request == KUBE_ASK_RIGHT) {
		take_right(cloud, reply);
		return;
	}
	if (reply->status == ESPL_OK && reply->code >= 200 && reply->code < 300) {
		if (request == KUBE_ASK_PING)
			ask_rights(cloud);
		else if (request == KUBE_ASK_SELF)
			take_self(cloud, reply);
		else
			take_accepted(cloud, reply);
		return;
	}
	class = cloud_kubernetes_proxy_failure(cloud, reply, text);
	if (class == KUBE_LATER)
		(void)wait_more(cloud, reply, text);
	else if (request == KUBE_ASK_TRY && class != KUBE_LOGIN)
		take_tried(cloud, class, reply->code, text);
	else if (request == KUBE_ASK_SELF)
		try_pod(cloud); /* its host name may be another one */
	else
		end_start(cloud, ESPL_E_REMOTE, "%s", text);
}
