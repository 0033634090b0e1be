/* cloud_kubernetes_pod.c - pods as JSON: building requests, parsing objects and errors.
 *
 * The state follows from the object alone, never from the type of an event: a pod that is deleted,
 * evicted or preempted looks the same on the watch.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cloud_kubernetes.h"

/* The first process of a pod. It keeps the pod while an agent is in it: also after SIGTERM, until
 * the grace period is over, because everything in the container ends with this process. It ends,
 * and the pod with it, if no agent comes within $1 s, or the last one is gone for $2 s. */
static const char keeper_script[] =
    "term= n=0 most=$1; trap 'term=1' TERM; while [ $n -lt $most ]; do "
    "sleep 2 & wait $!; n=$((n + 2)); "
    "for f in /proc/[0-9]*/comm; do c=; { read -r c <$f; } 2>/dev/null; "
    "[ \"$c\" != espalier-agent ] || { n=0 most=$2; break; }; done; "
    "[ $n -eq 0 ] || [ -z \"$term\" ] || exit 0; done; "
    "echo \"it had no agent for $most s\" >/dev/termination-log";

#define ALONE_S \
	"30" /* that a pod lasts after its last agent; a lost agent is started again sooner */

static const char *
text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

/* Printable, and no longer than there is room for. */
static void
copy_text(char *to, size_t room, const char *from)
{
	size_t n = 0;

	for (; *from != '\0' && n + 1 < room; from++)
		to[n++] = (unsigned char)*from < ' ' || *from == 127 ? ' ' : *from;
	while (n > 0 && to[n - 1] == ' ')
		n--;
	to[n] = '\0';
}

/* "2026-11-24T04:00:00Z"; 0: it is none */
static int64_t
read_time(const json_t *value)
{
	const char *text = json_string_value(value);
	struct tm tm = { .tm_isdst = 0 };

	if (text == NULL || strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
		return 0;
	return (int64_t)timegm(&tm);
}

/* ---- what an object says ---- */

static const json_t *
find_condition(const json_t *status, const char *type)
{
	const json_t *list = json_object_get(status, "conditions");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);

		if (strcmp(text_at(one, "type"), type) == 0)
			return one;
	}
	return NULL;
}

static int
is_true(const json_t *condition)
{
	return condition != NULL && strcmp(text_at(condition, "status"), "True") == 0;
}

/* "Reason: message", "Reason" or "message" */
static void
format_reason(char text[KUBE_TEXT], const char *before, const json_t *from)
{
	const char *reason = text_at(from, "reason"), *message = text_at(from, "message");
	char line[2 * KUBE_TEXT];

	(void)snprintf(line, sizeof line, "%s%s%s%s%s", before,
	    before[0] != '\0' && (reason[0] != '\0' || message[0] != '\0') ? ": " : "", reason,
	    reason[0] != '\0' && message[0] != '\0' ? ": " : "", message);
	copy_text(text, KUBE_TEXT, line);
}

/* The registry has answered, and would answer the same again. */
static int
is_answered(const char *message)
{
	static const char *const words[] = { "not found", "manifest unknown", "denied",
		"nauthorized", "no such image", "not exist" };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strstr(message, words[i]) != NULL)
			return 1;
	return 0;
}

/* The image is not for the processor of this node. */
static int
is_foreign(const char *message)
{
	return strstr(message, "no match for platform") != NULL ||
	    strstr(message, "no matching manifest for") != NULL;
}

/* The status of the container of this name; NULL: there is none yet. */
static const json_t *
find_container(const json_t *status, const char *name)
{
	const json_t *list = json_object_get(status, "containerStatuses");

	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(text_at(json_array_get(list, i), "name"), name) == 0)
			return json_array_get(list, i);
	return NULL;
}

static const json_t *
state_at(const json_t *container, const char *state)
{
	return json_object_get(json_object_get(container, "state"), state);
}

/* An init container that is to run beside the others (a sidecar) delays nothing once it runs. */
static int
is_beside(const json_t *container)
{
	return state_at(container, "running") != NULL &&
	    json_is_true(json_object_get(container, "started"));
}

/* Why a container does not run yet. Most of these pass, or are the fault of one node. What is not
 * listed has the time limit of its state alone. */
static void
read_container(const json_t *waiting, struct kube_pod *pod)
{
	static const char *const never[] = { "InvalidImageName", "CreateContainerConfigError" };
	static const char *const failing[] = { "ErrImagePull", "ImagePullBackOff",
		"RegistryUnavailable", "ImageInspectError", "CreateContainerError",
		"RunContainerError" };
	const char *reason = text_at(waiting, "reason");

	for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
		if (strcmp(reason, never[i]) == 0)
			pod->state = KUBE_REFUSED;
	if (strcmp(reason, "ErrImageNeverPull") == 0) /* another node may have the image */
		pod->state = KUBE_UNFIT;
	for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++)
		if (strcmp(reason, failing[i]) == 0)
			pod->state = KUBE_FAILING;
	if (strcmp(reason, "ErrImagePull") == 0 || strcmp(reason, "ImagePullBackOff") == 0)
		pod->state = is_foreign(text_at(waiting, "message")) ? KUBE_UNFIT
		    : is_answered(text_at(waiting, "message"))       ? KUBE_REFUSED
								     : KUBE_FAILING;
	if (pod->state != KUBE_WAITING)
		format_reason(pod->text, "its container does not start", waiting);
}

/* What a pod that has a node waits for, in the words of its object. */
static void
explain_waiting(const json_t *list, const json_t *own, struct kube_pod *pod)
{
	char before[KUBE_NAME + 100] = "its container is being created";

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);
		const char *name = text_at(one, "name");

		if (state_at(one, "terminated") != NULL || is_beside(one))
			continue;
		(void)snprintf(before, sizeof before, "its init container '%.100s' %s", name,
		    state_at(one, "running") != NULL ? "runs" : "is being created");
		own = one;
		break;
	}
	format_reason(pod->text, before, state_at(own, "waiting"));
}

/* Containers beside ours do not matter; those that must end before it starts do. */
static void
read_pending(const json_t *status, const json_t *own, struct kube_pod *pod)
{
	const json_t *list = json_object_get(status, "initContainerStatuses");
	const json_t *scheduled = find_condition(status, "PodScheduled");

	read_container(state_at(own, "waiting"), pod);
	for (size_t i = 0; i < json_array_size(list) && pod->state == KUBE_WAITING; i++)
		read_container(state_at(json_array_get(list, i), "waiting"), pod);
	if (pod->state != KUBE_WAITING)
		return;
	pod->placed |= is_true(scheduled) || own != NULL || json_array_size(list) > 0;
	if (pod->placed) {
		explain_waiting(list, own, pod);
		return;
	}
	if (scheduled != NULL && text_at(scheduled, "message")[0] != '\0') {
		pod->state = KUBE_FULL;
		copy_text(pod->text, sizeof pod->text, text_at(scheduled, "message"));
		return;
	}
	format_reason(pod->text, "no scheduler has looked at it", scheduled);
}

static void
format_exit(const char *what, const json_t *ended, struct kube_pod *pod)
{
	char before[KUBE_NAME + 100];

	(void)snprintf(before, sizeof before, "%s ended with exit status %lld", what,
	    (long long)json_integer_value(json_object_get(ended, "exitCode")));
	format_reason(pod->text, before, ended);
}

/* The kernel kills the whole container since Kubernetes 1.28, the agent and all its trials. */
static void
add_memory_limit(const json_t *ended, struct kube_pod *pod)
{
	size_t size = strlen(pod->text);

	if (strcmp(text_at(ended, "reason"), "OOMKilled") != 0)
		return;
	(void)snprintf(pod->text + size, sizeof pod->text - size,
	    pod->memory[0] != '\0' ? " (its memory limit is %s)"
				   : " (it has no memory limit: its node was out of memory)",
	    pod->memory);
}

/* Ours has ended, or one before it has failed. */
static void
read_exit(const json_t *status, const json_t *own, struct kube_pod *pod)
{
	const json_t *list = json_object_get(status, "initContainerStatuses");
	char what[KUBE_NAME];

	if (state_at(own, "terminated") != NULL) {
		format_exit("its container", state_at(own, "terminated"), pod);
		add_memory_limit(state_at(own, "terminated"), pod);
		return;
	}
	copy_text(pod->text, sizeof pod->text, "its pod has ended");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *ended = state_at(json_array_get(list, i), "terminated");

		if (json_integer_value(json_object_get(ended, "exitCode")) == 0)
			continue;
		(void)snprintf(what, sizeof what, "its init container '%.100s'",
		    text_at(json_array_get(list, i), "name"));
		format_exit(what, ended, pod);
		return;
	}
}

/* The kubelet did not admit the pod: a GPU that is lost, no room, pressure on a disk, a node that
 * shuts down, or whatever it will be called. Only that node is at fault, and none of its containers
 * has run. */
static int
is_rejected(const json_t *status, const json_t *own, const struct kube_pod *pod)
{
	return text_at(status, "reason")[0] != '\0' && !pod->deleted &&
	    state_at(own, "terminated") == NULL && state_at(own, "running") == NULL &&
	    !is_true(find_condition(status, "DisruptionTarget"));
}

static void
read_ended(const json_t *status, const json_t *own, struct kube_pod *pod)
{
	const char *reason = text_at(status, "reason");
	const json_t *disrupted = find_condition(status, "DisruptionTarget");

	pod->state = KUBE_ENDED;
	pod->reason = ESPL_BY_FAULT;
	if (strcmp(reason, "DeadlineExceeded") == 0) {
		pod->reason = ESPL_BY_EXPIRY;
		copy_text(pod->text, sizeof pod->text, "the time limit of its pod is reached");
	} else if (is_rejected(status, own, pod)) {
		pod->rejected = 1;
		format_reason(pod->text, "its node refuses it", status);
	} else if (is_true(disrupted) || reason[0] != '\0') {
		pod->reason = ESPL_BY_PROVIDER;
		format_reason(pod->text, "its pod has ended",
		    reason[0] != '\0' ? status : disrupted);
	} else if (pod->deleted) {
		pod->reason = ESPL_BY_PROVIDER;
		pod->vague = 1;
		copy_text(pod->text, sizeof pod->text, "its pod was deleted");
	} else {
		read_exit(status, own, pod);
	}
}

static void
read_metadata(const json_t *meta, struct kube_pod *pod)
{
	const json_t *labels = json_object_get(meta, "labels");

	copy_text(pod->name, sizeof pod->name, text_at(meta, "name"));
	copy_text(pod->uid, sizeof pod->uid, text_at(meta, "uid"));
	copy_text(pod->version, sizeof pod->version, text_at(meta, "resourceVersion"));
	copy_text(pod->run, sizeof pod->run, text_at(labels, "espalier/run"));
	copy_text(pod->token, sizeof pod->token, text_at(labels, "espalier/token"));
	pod->deleted = json_object_get(meta, "deletionTimestamp") != NULL;
}

/* "64Mi", or a number of bytes, which the API server writes as a text, too. */
static void
format_memory(const json_t *memory, struct kube_pod *pod)
{
	const char *text = json_is_string(memory) ? json_string_value(memory) : "";
	uint64_t bytes = json_is_integer(memory) ? (uint64_t)json_integer_value(memory)
						 : strtoull(text, NULL, 10);

	if (json_is_string(memory) && text[strspn(text, "0123456789")] != '\0')
		copy_text(pod->memory, sizeof pod->memory, text);
	else if (bytes >= 1 << 20)
		(void)snprintf(pod->memory, sizeof pod->memory, "%llu MiB",
		    (unsigned long long)(bytes >> 20));
	else if (bytes > 0)
		(void)snprintf(pod->memory, sizeof pod->memory, "%llu bytes",
		    (unsigned long long)bytes);
}

static void
read_spec(const json_t *spec, const char *container, struct kube_pod *pod)
{
	const json_t *list = json_object_get(spec, "containers");

	copy_text(pod->node, sizeof pod->node, text_at(spec, "nodeName"));
	pod->placed = pod->node[0] != '\0';
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);
		const json_t *memory =
		    json_object_get(json_object_get(json_object_get(one, "resources"), "limits"),
			"memory");

		if (strcmp(text_at(one, "name"), container) == 0)
			format_memory(memory, pod);
	}
}

void
cloud_kubernetes_pod_read(const json_t *object, const char *container, struct kube_pod *pod)
{
	const json_t *meta = json_object_get(object, "metadata");
	const json_t *status = json_object_get(object, "status");
	const json_t *disrupted = find_condition(status, "DisruptionTarget");
	const json_t *own = find_container(status, container);
	const char *phase = text_at(status, "phase");
	const json_t *spec = json_object_get(object, "spec");
	const json_t *limit = json_object_get(spec, "activeDeadlineSeconds");

	memset(pod, 0, sizeof *pod);
	read_metadata(meta, pod);
	read_spec(spec, container, pod);
	copy_text(pod->address, sizeof pod->address, text_at(status, "podIP"));
	pod->started_utc_s = read_time(json_object_get(status, "startTime"));
	if (pod->started_utc_s > 0 && json_is_integer(limit))
		pod->deadline_utc_s = pod->started_utc_s + json_integer_value(limit);
	pod->finished = strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0;
	pod->running = !pod->finished && state_at(own, "running") != NULL;
	pod->unready =
	    find_condition(status, "Ready") != NULL && !is_true(find_condition(status, "Ready"));
	if (pod->finished || state_at(own, "terminated") != NULL) {
		read_ended(status, own, pod);
	} else if (pod->deleted || is_true(disrupted)) {
		pod->state = KUBE_LEAVING;
		pod->ends_utc_s =
		    pod->deleted ? read_time(json_object_get(meta, "deletionTimestamp")) : -1;
		format_reason(pod->text, "Kubernetes takes its pod away",
		    is_true(disrupted) ? disrupted : NULL);
	} else if (pod->running) {
		pod->state = KUBE_RUNNING;
	} else {
		read_pending(status, own, pod);
	}
}

/* ---- what is asked for ---- */

/* The object at the key, made if it is not there. */
static json_t *
open_object(json_t *in, const char *key)
{
	json_t *object = json_object_get(in, key);

	if (!json_is_object(object)) {
		object = json_object();
		(void)json_object_set_new(in, key, object);
	}
	return object;
}

/* A pod leaves a lost node after 30 s, unless the template says otherwise. */
static void
add_toleration(json_t *spec, const char *key)
{
	json_t *list = json_object_get(spec, "tolerations");

	if (!json_is_array(list)) {
		list = json_array();
		(void)json_object_set_new(spec, "tolerations", list);
	}
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(text_at(json_array_get(list, i), "key"), key) == 0)
			return;
	(void)json_array_append_new(list,
	    json_pack("{s:s, s:s, s:s, s:i}", "key", key, "operator", "Exists", "effect",
		"NoExecute", "tolerationSeconds", 30));
}

/* Not on these nodes: in each of the terms, of which one must hold. A requirement on a field holds
 * one name. */
static void
avoid_nodes(json_t *spec, const json_t *avoid)
{
	json_t *rules, *terms;

	if (json_array_size(avoid) == 0)
		return;
	rules = open_object(open_object(open_object(spec, "affinity"), "nodeAffinity"),
	    "requiredDuringSchedulingIgnoredDuringExecution");
	terms = json_object_get(rules, "nodeSelectorTerms");
	if (!json_is_array(terms) || json_array_size(terms) == 0) {
		terms = json_array();
		(void)json_array_append_new(terms, json_object());
		(void)json_object_set_new(rules, "nodeSelectorTerms", terms);
	}
	for (size_t i = 0; i < json_array_size(terms); i++) {
		json_t *fields = json_object_get(json_array_get(terms, i), "matchFields");

		if (!json_is_array(fields)) {
			fields = json_array();
			(void)json_object_set_new(json_array_get(terms, i), "matchFields", fields);
		}
		for (size_t k = 0; k < json_array_size(avoid); k++)
			(void)json_array_append_new(fields,
			    json_pack("{s:s, s:s, s:[O]}", "key", "metadata.name", "operator",
				"NotIn", "values", json_array_get(avoid, k)));
	}
}

/* A container that a service mesh adds would keep the pod of a driver that has died, and its GPUs,
 * until `time`. What the template says of it stays. */
static void
forbid_sidecars(json_t *meta)
{
	static const struct {
		const char *key, *value;
	} words[] = { { "sidecar.istio.io/inject", "false" }, { "linkerd.io/inject", "disabled" } };
	const json_t *labels = json_object_get(meta, "labels");
	json_t *annotations = open_object(meta, "annotations");

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (json_object_get(annotations, words[i].key) == NULL &&
		    json_object_get(labels, words[i].key) == NULL)
			(void)json_object_set_new(annotations, words[i].key,
			    json_string(words[i].value));
}

static void
set_resource(json_t *resources, const char *name, json_t *amount)
{
	(void)json_object_set(open_object(resources, "requests"), name, amount);
	(void)json_object_set_new(open_object(resources, "limits"), name, amount);
}

static void
fill_container(json_t *container, const struct kube_wish *wish)
{
	json_t *resources = open_object(container, "resources");

	if (text_at(container, "name")[0] == '\0')
		(void)json_object_set_new(container, "name", json_string("espalier"));
	if (wish->image != NULL)
		(void)json_object_set_new(container, "image", json_string(wish->image));
	(void)json_object_set_new(container, "command",
	    json_pack("[s, s, s, s, o, s]", "sh", "-c", keeper_script, "espalier",
		json_sprintf("%lld", (long long)wish->idle_s), ALONE_S));
	(void)json_object_del(container, "args");
	if (wish->resource[0] != '\0')
		set_resource(resources, wish->resource, json_integer(wish->gpus));
	if (wish->cpus[0] != '\0')
		set_resource(resources, "cpu", json_string(wish->cpus));
	if (wish->memory > 0)
		set_resource(resources, "memory", json_integer(wish->memory));
}

const json_t *
cloud_kubernetes_pod_container(const json_t *base)
{
	const json_t *list = json_object_get(json_object_get(base, "spec"), "containers");

	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(text_at(json_array_get(list, i), "name"), "espalier") == 0)
			return json_array_get(list, i);
	return json_array_get(list, 0);
}

json_t *
cloud_kubernetes_pod_make(const struct kube_wish *wish)
{
	json_t *pod = wish->base != NULL ? json_deep_copy(wish->base) : json_object();
	json_t *meta = open_object(pod, "metadata"), *spec = open_object(pod, "spec");
	json_t *labels = open_object(meta, "labels");
	json_t *container = (json_t *)(uintptr_t)cloud_kubernetes_pod_container(pod);

	if (container == NULL) {
		json_t *list = json_array();

		(void)json_array_append_new(list, json_object());
		container = json_array_get(list, 0);
		(void)json_object_set_new(spec, "containers", list);
	}
	(void)json_object_set_new(pod, "apiVersion", json_string("v1"));
	(void)json_object_set_new(pod, "kind", json_string("Pod"));
	(void)json_object_set_new(meta, "name", json_string(wish->name));
	(void)json_object_del(meta, "generateName");
	(void)json_object_del(meta, "namespace");
	(void)json_object_set_new(labels, "app", json_string("espalier"));
	(void)json_object_set_new(labels, "espalier/run", json_string(wish->run));
	(void)json_object_set_new(labels, "espalier/token", json_string(wish->token));
	(void)json_object_set_new(spec, "restartPolicy", json_string("Never"));
	(void)json_object_set_new(spec, "activeDeadlineSeconds", json_integer(wish->time_s));
	(void)json_object_set_new(spec, "terminationGracePeriodSeconds",
	    json_integer(wish->grace_s));
	if (wish->owner != NULL) {
		json_t *owners = json_array();

		(void)json_array_append_new(owners, json_deep_copy(wish->owner));
		(void)json_object_set_new(meta, "ownerReferences", owners);
	}
	forbid_sidecars(meta);
	avoid_nodes(spec, wish->avoid);
	add_toleration(spec, "node.kubernetes.io/not-ready");
	add_toleration(spec, "node.kubernetes.io/unreachable");
	fill_container(container, wish);
	return pod;
}

json_t *
cloud_kubernetes_pod_template(const void *bytes, size_t size, char text[KUBE_TEXT])
{
	json_error_t error;
	json_t *base = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
	const json_t *spec = json_object_get(base, "spec");

	if (base == NULL)
		(void)snprintf(text, KUBE_TEXT,
		    "the template is not JSON: line %d: %s (kubectl create --dry-run=client -o "
		    "json -f FILE converts YAML to JSON)",
		    error.line, error.text);
	else if (!json_is_object(spec) || json_object_get(spec, "template") != NULL)
		(void)snprintf(text, KUBE_TEXT,
		    "the template must be a pod: an object with 'spec' and 'spec.containers'");
	else if (json_is_true(json_object_get(spec, "hostPID")))
		(void)snprintf(text, KUBE_TEXT,
		    "the template must not set 'spec.hostPID': a pod could not tell its own agent "
		    "from those of other pods");
	else
		return base;
	json_decref(base);
	return NULL;
}

/* ---- what an error says ---- */

enum kube_class
cloud_kubernetes_pod_class(uint32_t code, const char *body, size_t size, char text[KUBE_TEXT])
{
	json_t *status = size > 0 ? json_loadb(body, size, 0, NULL) : NULL; /* 429 is plain text */
	const char *message = text_at(status, "message"), *reason = text_at(status, "reason");
	enum kube_class class = KUBE_NEVER;
	char line[KUBE_TEXT];

	if (code == 0 || code == 429 || code >= 500 || code == 408)
		class = KUBE_LATER;
	else if (code == 401)
		class = KUBE_LOGIN;
	else if (code == 410)
		class = KUBE_EXPIRED;
	else if (code == 409)
		class = strcmp(reason, "AlreadyExists") == 0 ? KUBE_EXISTS : KUBE_OTHER;
	else if (code == 404 && strstr(message, "namespaces ") == NULL)
		class = KUBE_ABSENT;
	else if (code == 403 && strstr(message, "exceeded quota") != NULL)
		class = KUBE_QUOTA;
	else if (code == 403 && strstr(message, "User ") != NULL &&
	    strstr(message, " cannot ") != NULL)
		class = KUBE_RIGHT;
	copy_text(line, sizeof line, message[0] != '\0' ? message : size > 0 ? body : "");
	if (line[0] == '\0')
		(void)snprintf(line, sizeof line, "HTTP status %u", code);
	if (class == KUBE_LOGIN)
		(void)snprintf(text, KUBE_TEXT,
		    "the API server does not accept your credentials (%.400s); log in again", line);
	else if (class == KUBE_RIGHT)
		(void)snprintf(text, KUBE_TEXT, "a right is missing: %.500s", line);
	else
		(void)snprintf(text, KUBE_TEXT, "%s", line);
	json_decref(status);
	return class;
}
