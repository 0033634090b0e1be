/* cloud_kubernetes_proxy.c - requests to the API server, through `kubectl proxy`.
 *
 * The proxy has the credentials, of every kind that kubectl knows, and renews them. It listens on a
 * Unix socket in a directory that only this user may enter.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_kubernetes.h"

#define ANSWER_MOST (30 * ESPL_SECOND)
#define START_MOST (10 * ESPL_SECOND) /* until the API server has answered once */
#define START_PAUSE (ESPL_SECOND / 10)
#define WATCH_MOST (300 * ESPL_SECOND)
#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"

/* A program that is killed cannot end its proxy: $1: its process; $2: the proxy's directory. */
static const char proxy_script[] =
    "(while kill -0 $1 2>/dev/null; do sleep 1; done; rm -rf \"$2\"; kill 0) & "
    "shift 2; exec \"$@\"";

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

/* ---- requests ---- */

espl_status
cloud_kubernetes_proxy_ask(struct kube_cloud *cloud, const char *method, const char *path,
    json_t *body, uint64_t cookie)
{
	static const char *const headers[] = { "Content-Type: application/json" };
	struct espl_http request = ESPL_INIT(struct espl_http);
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL, *url = NULL;
	espl_status status = ESPL_E_NOMEM;

	if (cloud->started && !cloud->proxying)
		cloud_kubernetes_proxy_renew(cloud);
	if ((body == NULL || text != NULL) && asprintf(&url, "http://localhost%s", path) >= 0) {
		request.method = method;
		request.url = url;
		request.headers = headers;
		request.header_count = body != NULL;
		request.body = text;
		request.body_size = text != NULL ? strlen(text) : 0;
		request.limit = ANSWER_MOST;
		request.cookie = cookie;
		request.socket = cloud->socket;
		if (cookie % 16 == KUBE_ASK_WATCH) {
			request.lines = 1;
			request.limit = WATCH_MOST;
		}
		status = cloud->io->http(cloud->io, &request, NULL);
		free(url);
	}
	free(text);
	json_decref(body);
	return status;
}

/* ---- the proxy ---- */

static espl_status
run_kubectl(const struct kube_cloud *cloud, const char *const *words, uint32_t count,
    uint64_t cookie, espl_span limit)
{
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	const char *argv[16];
	char context[KUBE_NAME + 20];
	uint32_t used = 0;

	for (uint32_t i = 0; i < count; i++)
		argv[used++] = words[i];
	if (kube_text(cloud, KUBE_OPT_CONTEXT)[0] != '\0' ||
	    (cloud->context != NULL && cloud->context[0] != '\0')) {
		(void)snprintf(context, sizeof context, "--context=%s",
		    cloud->context != NULL ? cloud->context : kube_text(cloud, KUBE_OPT_CONTEXT));
		argv[used++] = context;
	}
	spawn.argc = used;
	spawn.argv = argv;
	spawn.limit = limit;
	spawn.cookie = cookie;
	return cloud->io->spawn(cloud->io, &spawn, NULL);
}

static espl_status
start_proxy(struct kube_cloud *cloud)
{
	char pid[32], socket[KUBE_NAME];
	const char *words[] = { "sh", "-c", proxy_script, "espalier", pid, cloud->folder,
		kube_text(cloud, KUBE_OPT_KUBECTL), "proxy", socket };
	espl_status status;

	(void)snprintf(pid, sizeof pid, "%ld", (long)getpid());
	(void)snprintf(socket, sizeof socket, "--unix-socket=%s", cloud->socket);
	status = run_kubectl(cloud, words, 9, KUBE_ASK_PROXY, 0);
	cloud->proxying = status == ESPL_OK;
	return status;
}

void
cloud_kubernetes_proxy_renew(struct kube_cloud *cloud)
{
	if (cloud->proxying)
		cloud->io->cancel(cloud->io, KUBE_ASK_PROXY);
	(void)start_proxy(cloud);
}

void
cloud_kubernetes_proxy_close(struct kube_cloud *cloud)
{
	if (cloud->folder[0] == '\0')
		return;
	(void)unlink(cloud->socket);
	(void)rmdir(cloud->folder);
	cloud->folder[0] = '\0';
}

/* ---- start: who we are, then the proxy, then what is allowed ---- */

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

static void
copy_last(char to[KUBE_TEXT], const char *text)
{
	size_t end = strlen(text), begin;

	while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
		end--;
	for (begin = end; begin > 0 && text[begin - 1] != '\n'; begin--)
		continue;
	if (end - begin >= KUBE_TEXT)
		end = begin + KUBE_TEXT - 1;
	memcpy(to, text + begin, end - begin);
	to[end - begin] = '\0';
	for (char *c = to; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
}

espl_status
cloud_kubernetes_proxy_start(void *self, const struct espl_cloud_events *events,
    struct espl_error *error)
{
	struct kube_cloud *cloud = self;
	const char *words[] = { kube_text(cloud, KUBE_OPT_KUBECTL), "config", "view", "--minify",
		"--output=json" };

	if (cloud->io == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "it needs espl_io");
	cloud->events = events;
	return run_kubectl(cloud, words, 5, KUBE_ASK_CONFIG, ANSWER_MOST);
}

/* Inside a pod, kubectl has the pod's own service account and needs no configuration. */
static int
take_account(struct kube_cloud *cloud)
{
	FILE *file = fopen(ACCOUNT "namespace", "r");
	char name[KUBE_NAME] = "";

	if (file == NULL)
		return -1;
	if (fgets(name, sizeof name, file) != NULL)
		name[strcspn(name, "\n")] = '\0';
	(void)fclose(file);
	cloud->context = strdup("");
	cloud->namespace = strdup(name);
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

static int
make_folder(struct kube_cloud *cloud)
{
	const char *parent = getenv("TMPDIR");

	if (parent == NULL || parent[0] != '/' || strlen(parent) > 30)
		parent = "/tmp";
	(void)snprintf(cloud->folder, sizeof cloud->folder, "%s/espalier-kube-XXXXXX", parent);
	if (mkdtemp(cloud->folder) == NULL) {
		cloud->folder[0] = '\0';
		return -1;
	}
	(void)snprintf(cloud->socket, sizeof cloud->socket, "%s/s", cloud->folder);
	return 0;
}

static void
take_config(struct kube_cloud *cloud, const struct espl_child *child)
{
	char last[KUBE_TEXT];

	copy_last(last, child->err);
	if (child->status == ESPL_E_LIMIT) {
		end_start(cloud, ESPL_E_REMOTE, "kubectl did not answer within %lld s",
		    (long long)(ANSWER_MOST / ESPL_SECOND));
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
	if (kube_is_set(cloud, KUBE_OPT_NAMESPACE)) {
		free(cloud->namespace);
		cloud->namespace = strdup(kube_text(cloud, KUBE_OPT_NAMESPACE));
	}
	cloud->begun = cloud->host->now(cloud->host);
	if (cloud->context == NULL || cloud->namespace == NULL)
		end_start(cloud, ESPL_E_NOMEM, "out of memory");
	else if (make_folder(cloud) != 0)
		end_start(cloud, ESPL_E_REMOTE, "cannot create a directory for a socket: %s",
		    strerror(errno));
	else if (start_proxy(cloud) != ESPL_OK)
		end_start(cloud, ESPL_E_REMOTE, "cannot start kubectl");
	else
		(void)cloud->io->timer(cloud->io, START_PAUSE, KUBE_ASK_STARTED);
}

void
cloud_kubernetes_proxy_child(void *self, const struct espl_child *child)
{
	struct kube_cloud *cloud = self;
	char last[KUBE_TEXT];

	if (child->cookie == KUBE_ASK_CONFIG) {
		take_config(cloud, child);
		return;
	}
	cloud->proxying = 0;
	copy_last(last, child->err);
	if (!cloud->started)
		end_start(cloud, ESPL_E_REMOTE, "kubectl proxy has ended: %s", last);
}

void
cloud_kubernetes_proxy_ping(struct kube_cloud *cloud)
{
	char path[2 * KUBE_NAME];

	if (cloud->started)
		return;
	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods?limit=1", cloud->namespace);
	(void)cloud_kubernetes_proxy_ask(cloud, "GET", path, NULL, KUBE_ASK_PING);
}

static void
ask_rights(struct kube_cloud *cloud)
{
	cloud->rights = RIGHTS;
	for (uint32_t i = 0; i < RIGHTS; i++)
		(void)cloud_kubernetes_proxy_ask(cloud, "POST",
		    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		    json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s}}}", "apiVersion",
			"authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview", "spec",
			"resourceAttributes", "namespace", cloud->namespace, "verb", rights[i].verb,
			"resource", rights[i].resource, "subresource", rights[i].part),
		    KUBE_COOKIE((uint64_t)i, KUBE_ASK_RIGHT));
}

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
		end_start(cloud, ESPL_OK, "%s", "");
}

static void
take_ping(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	char text[KUBE_TEXT];

	if (cloud->started)
		return;
	if (reply->code == 200) {
		ask_rights(cloud);
		return;
	}
	if (cloud_kubernetes_pod_class(reply->code, reply->body, reply->body_size, text) ==
	    KUBE_LATER) {
		if (cloud->host->now(cloud->host) - cloud->begun < START_MOST)
			(void)cloud->io->timer(cloud->io, START_PAUSE, KUBE_ASK_STARTED);
		else
			end_start(cloud, ESPL_E_REMOTE, "the API server does not answer: %s",
			    reply->code != 0 ? text : reply->text);
		return;
	}
	end_start(cloud, ESPL_E_REMOTE, "%s", text);
}

void
cloud_kubernetes_proxy_answer(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	if (reply->cookie % 16 == KUBE_ASK_RIGHT)
		take_right(cloud, reply);
	else
		take_ping(cloud, reply);
}
