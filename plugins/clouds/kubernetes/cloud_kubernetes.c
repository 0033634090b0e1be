/* cloud_kubernetes.c - nodes of a Kubernetes cluster: each lease is a pod.
 *
 * Pods are made and watched with HTTP through `kubectl proxy`, and reached with `kubectl exec`: so
 * kubectl alone deals with credentials, certificates and contexts. A server that does not answer is
 * waited for: it ends no lease. A pod without an agent ends by itself.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_kubernetes.h"

static const struct espl_option options[] = {
	[KUBE_OPT_IMAGE] = { .name = "image",
	    .help =
		"container image of the pods; it needs sh, sleep, sha256sum and glibc; default: "
		"that of the template",
	    .type = ESPL_OPT_STRING },
	[KUBE_OPT_TEMPLATE] = { .name = "template",
	    .help = "file with a pod in JSON that the pods are made from: volumes, secrets, node "
		    "selector, tolerations, priority class, service account",
	    .type = ESPL_OPT_PATH },
	[KUBE_OPT_CONTEXT] = { .name = "context",
	    .help = "context of kubectl; default: the current one",
	    .type = ESPL_OPT_STRING },
	[KUBE_OPT_NAMESPACE] = { .name = "namespace",
	    .help = "namespace of the pods; default: that of the context",
	    .type = ESPL_OPT_STRING },
	[KUBE_OPT_KUBECTL] = { .name = "kubectl",
	    .help = "name or path of kubectl",
	    .type = ESPL_OPT_STRING,
	    .fallback = "kubectl" },
	[KUBE_OPT_GPUS] = { .name = "gpus",
	    .help = "number of GPUs per pod, or of slots if gpu_type is \"cpu\"",
	    .type = ESPL_OPT_INT,
	    .fallback = "1",
	    .min = "1",
	    .max = "4096" },
	[KUBE_OPT_TYPE] = { .name = "gpu_type",
	    .help = "GPU model, in messages and reports; \"cpu\": slots on cores instead of GPUs",
	    .type = ESPL_OPT_STRING,
	    .fallback = "gpu" },
	[KUBE_OPT_RESOURCE] = { .name = "gpu_resource",
	    .help =
		"resource that a pod requests, `gpus` of it; default: \"nvidia.com/gpu\", or none "
		"if gpu_type is \"cpu\"",
	    .type = ESPL_OPT_STRING },
	[KUBE_OPT_CPUS] = { .name = "cpus",
	    .help = "cores per pod, as Kubernetes writes them (\"4\", \"500m\"); default: the "
		    "template's, or one per slot if gpu_type is \"cpu\"",
	    .type = ESPL_OPT_STRING },
	[KUBE_OPT_MEMORY] = { .name = "memory",
	    .help = "memory per pod; default: the template's",
	    .type = ESPL_OPT_BYTES,
	    .min = "1" },
	[KUBE_OPT_NODES] = { .name = "nodes_max",
	    .help = "maximum number of pods at one time",
	    .type = ESPL_OPT_INT,
	    .fallback = "4",
	    .min = "1",
	    .max = "4096" },
	[KUBE_OPT_PRICE] = { .name = "price_gpu_hour",
	    .help = "price in dollars per GPU-hour",
	    .type = ESPL_OPT_MONEY,
	    .fallback = "0",
	    .min = "0" },
	[KUBE_OPT_TIME] = { .name = "time",
	    .help = "time limit of a pod (activeDeadlineSeconds), after which the cluster ends it",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "24h",
	    .min = "1s" },
	[KUBE_OPT_NOTICE] = { .name = "notice",
	    .help = "how long before the time limit of a pod its trials are moved",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "2m",
	    .min = "0s" },
	[KUBE_OPT_GRACE] = { .name = "grace",
	    .help = "time that a pod gets when it is evicted or preempted, for its trials to save",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "30s",
	    .min = "1s",
	    .max = "1h" },
	[KUBE_OPT_WAIT] = { .name = "wait",
	    .help = "a pod that cannot be scheduled within this time is deleted",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5m",
	    .min = "0s" },
	[KUBE_OPT_START] = { .name = "start",
	    .help = "a pod that has a node, and whose container does not run within this time, is "
		    "deleted, and its node is avoided; also the longest wait for a node that the "
		    "cluster's autoscaler adds",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "15m",
	    .min = "1s" },
	[KUBE_OPT_IDLE] = { .name = "idle",
	    .help = "a pod to which no agent is sent ends after this time",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5m",
	    .min = "10s" },
	[KUBE_OPT_AGENT] = { .name = "agent",
	    .help = "path of espalier-agent in the image; default: where it is on this machine, "
		    "else it is sent",
	    .type = ESPL_OPT_STRING },
};

/* ---- offers ---- */

espl_status
cloud_kubernetes_describe(void *self, const struct espl_cloud_events *events,
    struct espl_error *error)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	static const struct espl_latency init = { .size = sizeof init,
		.kind = ESPL_CONSTANT,
		.mean_s = 2 };
	const struct kube_cloud *cloud = self;
	struct espl_offer offer = ESPL_INIT(struct espl_offer);
	char name[80];

	(void)error;
	kube_offer_name(cloud, name);
	offer.number = ESPL_ANY;
	offer.gpus = (uint32_t)kube_number(cloud, KUBE_OPT_GPUS);
	offer.nodes_max = (uint32_t)kube_number(cloud, KUBE_OPT_NODES);
	offer.name = name;
	offer.market = "pod";
	offer.gpu_type = kube_text(cloud, KUBE_OPT_TYPE);
	offer.zone = "";
	if (kube_is_set(cloud, KUBE_OPT_MEMORY))
		offer.memory_bytes = (uint64_t)kube_number(cloud, KUBE_OPT_MEMORY);
	offer.price_hour = kube_number(cloud, KUBE_OPT_PRICE) * offer.gpus;
	offer.fixed_price_hour = offer.price_hour;
	offer.billing = ESPL_BILL_NODE;
	offer.billed_from = ESPL_BILL_FROM_READY;
	offer.billing_step = ESPL_SECOND;
	offer.provision = &none;
	offer.init = &init;
	offer.hazard_hour = NAN;
	return events->offer(events, &offer);
}

/* ---- reach ---- */

/* The lease contains the place of its pod as its detail, "UID NAMESPACE CONTEXT". */
static espl_status
kube_reach(void *self, const struct espl_lease *lease, struct espl_argv_sink *sink,
    struct espl_error *error)
{
	const struct kube_cloud *cloud = self;
	const char *at = lease->detail != NULL ? strchr(lease->detail, ' ') : NULL;
	char namespace[KUBE_NAME + 20], context[KUBE_NAME + 20], devices[64];
	const char *words[12];
	uint32_t count = 0;

	if (at == NULL)
		return espl_fail(error, ESPL_E_UNKNOWN, "its pod is not running yet");
	(void)snprintf(namespace, sizeof namespace, "--namespace=%.*s", (int)strcspn(at + 1, " "),
	    at + 1);
	at += 1 + strcspn(at + 1, " ");
	(void)snprintf(context, sizeof context, "--context=%.255s", *at == ' ' ? at + 1 : at);
	words[count++] = kube_text(cloud, KUBE_OPT_KUBECTL);
	if (context[sizeof "--context=" - 1] != '\0')
		words[count++] = context;
	words[count++] = namespace;
	words[count++] = "exec";
	words[count++] = "-i";
	words[count++] = lease->token;
	words[count++] = "-c";
	words[count++] = cloud->container;
	words[count++] = "--";
	if (strcmp(kube_text(cloud, KUBE_OPT_TYPE), "cpu") == 0) {
		(void)snprintf(devices, sizeof devices, "ESPALIER_AGENT_DEVICES=cpu:%lld",
		    (long long)kube_number(cloud, KUBE_OPT_GPUS));
		words[count++] = "env";
		words[count++] = devices;
	}
	if (sink->agent != NULL && kube_is_set(cloud, KUBE_OPT_AGENT))
		sink->agent(sink, kube_text(cloud, KUBE_OPT_AGENT));
	return sink->argv(sink, words, count);
}

/* ---- answers ---- */

static void
kube_on_http(void *self, const struct espl_http_reply *reply)
{
	struct kube_cloud *cloud = self;

	cloud_kubernetes_proxy_note(cloud, reply);
	switch (reply->cookie % 16) {
	case KUBE_ASK_PING:
	case KUBE_ASK_RIGHT:
	case KUBE_ASK_SELF:
	case KUBE_ASK_TRY: cloud_kubernetes_start_answer(cloud, reply); break;
	case KUBE_ASK_LIST:
	case KUBE_ASK_WATCH: cloud_kubernetes_watch_answer(cloud, reply); break;
	case KUBE_ASK_OWNED: cloud_kubernetes_owned_answer(cloud, reply); break;
	default: cloud_kubernetes_leases_answer(cloud, reply); break;
	}
}

/* ---- the rest ---- */

static void
kube_destroy(void *self)
{
	struct kube_cloud *cloud = self;

	while (cloud->leases != NULL) {
		struct kube_lease *next = cloud->leases->next;

		json_decref(cloud->leases->avoid);
		free(cloud->leases);
		cloud->leases = next;
	}
	cloud_kubernetes_proxy_close(cloud);
	cloud_kubernetes_watch_forget(&cloud->pages);
	cloud_kubernetes_watch_forget(&cloud->owned_pages);
	json_decref(cloud->owner);
	json_decref(cloud->base);
	free(cloud->context);
	free(cloud->namespace);
	free(cloud);
}

/* A word that needs no quotes in a URL and is no option of a command. */
static int
is_plain(const char *text)
{
	return text[0] != '-' &&
	    text[strspn(text,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-/")] == '\0';
}

static espl_status
read_template(struct kube_cloud *cloud, struct espl_error *error)
{
	const void *bytes;
	uint64_t size;
	char text[KUBE_TEXT];
	const char *name;
	espl_status status;

	if (kube_is_set(cloud, KUBE_OPT_TEMPLATE)) {
		status = cloud->host->file(cloud->host, KUBE_OPT_TEMPLATE, ESPL_ANY, ESPL_ANY,
		    &bytes, &size, error);
		if (status != ESPL_OK)
			return status;
		cloud->base = cloud_kubernetes_pod_template(bytes, (size_t)size, text);
		if (cloud->base == NULL)
			return espl_blame(error, KUBE_OPT_TEMPLATE, text);
	}
	name =
	    json_string_value(json_object_get(cloud_kubernetes_pod_container(cloud->base), "name"));
	(void)snprintf(cloud->container, sizeof cloud->container, "%s",
	    name != NULL ? name : "espalier");
	if (!kube_is_set(cloud, KUBE_OPT_IMAGE) &&
	    json_object_get(cloud_kubernetes_pod_container(cloud->base), "image") == NULL)
		return espl_blame(error, KUBE_OPT_IMAGE,
		    "set 'image', or name an image in the template");
	return ESPL_OK;
}

static espl_status
check_options(const struct kube_cloud *cloud, struct espl_error *error)
{
	static const uint32_t plain[] = { KUBE_OPT_NAMESPACE, KUBE_OPT_RESOURCE, KUBE_OPT_CPUS };

	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		if (!is_plain(kube_text(cloud, plain[i])))
			return espl_blame(error, plain[i], "it must be one plain word");
	if (strlen(kube_text(cloud, KUBE_OPT_NAMESPACE)) >= KUBE_NAME / 2 ||
	    strlen(kube_text(cloud, KUBE_OPT_CONTEXT)) >= KUBE_NAME)
		return espl_blame(error, KUBE_OPT_NAMESPACE, "it is too long");
	if (kube_number(cloud, KUBE_OPT_TIME) <= kube_number(cloud, KUBE_OPT_NOTICE))
		return espl_blame(error, KUBE_OPT_TIME, "'time' must be longer than 'notice'");
	return ESPL_OK;
}

static espl_status
kube_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct kube_cloud *cloud = calloc(1, sizeof *cloud);
	espl_status status;

	if (cloud == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	cloud->host = host;
	cloud->config = config;
	cloud->io = host->service(host, ESPL_IO);
	cloud->in_run = host->service(host, ESPL_RUN) != NULL;
	cloud->silent = ESPL_NEVER;
	cloud->owned_what = ESPL_NONE;
	status = check_options(cloud, error);
	if (status == ESPL_OK)
		status = read_template(cloud, error);
	if (status != ESPL_OK) {
		kube_destroy(cloud);
		return status;
	}
	*self = cloud;
	return ESPL_OK;
}

static const struct espl_cloud_ops ops = {
	ESPL_TABLE(struct espl_cloud_ops),
	.start = cloud_kubernetes_start,
	.acquire = cloud_kubernetes_leases_acquire,
	.release = cloud_kubernetes_ends_release,
	.adopt = cloud_kubernetes_leases_adopt,
	.owned = cloud_kubernetes_owned,
	.reach = kube_reach,
	.describe = cloud_kubernetes_describe,
	.on_http = kube_on_http,
	.on_child = cloud_kubernetes_start_child,
	.on_timer = cloud_kubernetes_leases_timer,
};

ESPL_PLUGIN(cloud, kubernetes) = {
	ESPL_HEAD(ESPL_CLOUD, "kubernetes"),
	.version = "1",
	.summary = "pods of a Kubernetes cluster",
	.caps = ESPL_NEED_IO,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = kube_create,
	.destroy = kube_destroy,
};
