/* test_kubernetes.c - cloud kubernetes without a cluster: what objects and errors of the API say,
 * and what is asked for.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "cloud_kubernetes.h"

/* ---- states ---- */

#define PHASE(phase_) "{\"status\": {\"phase\": \"" phase_ "\""
#define WAITS(reason_, message_) \
	PHASE("Pending") \
	", \"containerStatuses\": [{\"name\": \"main\", \"state\": {\"waiting\": {\"reason\": " \
	"\"" reason_ "\", \"message\": \"" message_ "\"}}}]}}"
#define CONDITION(type_, value_, reason_, message_) \
	"\"conditions\": [{\"type\": \"" type_ "\", \"status\": \"" value_ \
	"\", \"reason\": \"" reason_ "\", \"message\": \"" message_ "\"}]"
#define ON_NODE "\"spec\": {\"nodeName\": \"n1\"}"
#define WAITS_ON(reason_, message_) \
	PHASE("Pending") \
	", \"containerStatuses\": [{\"name\": \"main\", \"state\": {\"waiting\": {\"reason\": " \
	"\"" reason_ "\", \"message\": \"" message_ "\"}}}]}, " ON_NODE "}"
#define RUNS "\"containerStatuses\": [{\"name\": \"main\", \"state\": {\"running\": {}}}]"
#define BESIDE(ours_, theirs_) \
	"\"containerStatuses\": [{\"name\": \"side\", \"state\": {" theirs_ \
	"}}, {\"name\": \"main\", \"state\": {" ours_ "}}]"
#define EXITED(code_, reason_) \
	"\"containerStatuses\": [{\"name\": \"main\", \"state\": {\"terminated\": " \
	"{\"exitCode\": " code_ ", \"reason\": \"" reason_ "\"}}}]"
#define LIMITED(memory_) \
	"\"spec\": {\"containers\": [{\"name\": \"main\", \"resources\": {\"limits\": " \
	"{\"memory\": " memory_ "}}}]}"
#define DELETED "\"metadata\": {\"deletionTimestamp\": \"2026-11-24T04:00:10Z\"}"

static const struct {
	const char *object;
	enum kube_state state;
	espl_reason reason;
	const char *text;
} states[] = {
	{ "{}", KUBE_WAITING, 0, "no scheduler has looked at it" },
	{ PHASE("Pending") "}}", KUBE_WAITING, 0, "no scheduler has looked at it" },
	{ PHASE("Pending") ", " CONDITION("PodScheduled", "False", "Unschedulable",
	      "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.") "}}",
	    KUBE_FULL, 0, "0/2 nodes are available: 2 Insufficient nvidia.com/gpu." },
	{ PHASE("Pending") ", " CONDITION("PodScheduled", "True", "", "") "}}", KUBE_WAITING, 0,
	    "its container is being created" },
	{ PHASE("Pending") ", " CONDITION("PodScheduled", "False", "SchedulingGated", "") "}}",
	    KUBE_WAITING, 0, "no scheduler has looked at it: SchedulingGated" },
	{ PHASE("Pending") "}, " ON_NODE "}", KUBE_WAITING, 0, "its container is being created" },
	/* whatever a release calls it */
	{ WAITS_ON("ContainerCreating", ""), KUBE_WAITING, 0,
	    "its container is being created: ContainerCreating" },
	{ WAITS_ON("PodInitializing", ""), KUBE_WAITING, 0,
	    "its container is being created: PodInitializing" },
	{ WAITS_ON("ResizeDeferred", "in 1.40"), KUBE_WAITING, 0,
	    "its container is being created: ResizeDeferred: in 1.40" },
	{ PHASE("Pending") ", \"initContainerStatuses\": [{\"name\": \"load\", \"state\": "
			   "{\"running\": {}}}]}, " ON_NODE "}",
	    KUBE_WAITING, 0, "its init container 'load' runs" },
	{ PHASE("Pending") ", \"initContainerStatuses\": [{\"name\": \"side\", \"started\": true, "
			   "\"state\": {\"running\": {}}}]}, " ON_NODE "}",
	    KUBE_WAITING, 0, "its container is being created" },
	{ WAITS("ErrImageNeverPull", "no image"), KUBE_UNFIT, 0,
	    "its container does not start: ErrImageNeverPull: no image" },
	{ WAITS("ErrImagePull", "no match for platform in manifest"), KUBE_UNFIT, 0,
	    "its container does not start: ErrImagePull: no match for platform in manifest" },
	{ WAITS("InvalidImageName", ""), KUBE_REFUSED, 0,
	    "its container does not start: InvalidImageName" },
	{ WAITS("CreateContainerConfigError", "secret \\\"key\\\" not found"), KUBE_REFUSED, 0,
	    "its container does not start: CreateContainerConfigError: secret \"key\" not found" },
	{ WAITS("ErrImagePull", "manifest unknown"), KUBE_REFUSED, 0,
	    "its container does not start: ErrImagePull: manifest unknown" },
	{ WAITS("ErrImagePull", "dial tcp: i/o timeout"), KUBE_FAILING, 0,
	    "its container does not start: ErrImagePull: dial tcp: i/o timeout" },
	{ WAITS("ImagePullBackOff", "Back-off"), KUBE_FAILING, 0,
	    "its container does not start: ImagePullBackOff: Back-off" },
	{ WAITS("CreateContainerError", "name is reserved"), KUBE_FAILING, 0,
	    "its container does not start: CreateContainerError: name is reserved" },
	{ WAITS("RunContainerError", ""), KUBE_FAILING, 0,
	    "its container does not start: RunContainerError" },
	{ WAITS("ImageInspectError", ""), KUBE_FAILING, 0,
	    "its container does not start: ImageInspectError" },
	/* containers beside ours end no pod, and delay none */
	{ PHASE("Running") ", " BESIDE("\"running\": {}", "\"terminated\": {\"exitCode\": 1}") "}}",
	    KUBE_RUNNING, 0, "" },
	{ PHASE("Pending") ", " BESIDE("\"running\": {}",
	      "\"waiting\": {\"reason\": \"InvalidImageName\"}") "}}",
	    KUBE_RUNNING, 0, "" },
	{ PHASE("Running") ", " BESIDE("\"waiting\": {\"reason\": \"ContainerCreating\"}",
	      "\"running\": {}") "}}",
	    KUBE_WAITING, 0, "its container is being created: ContainerCreating" },
	{ PHASE("Running") ", " BESIDE("\"terminated\": {\"exitCode\": 3}", "\"running\": {}") "}}",
	    KUBE_ENDED, ESPL_BY_FAULT, "its container ended with exit status 3" },
	{ PHASE("Pending") ", \"initContainerStatuses\": [{\"name\": \"fetch\", \"state\": "
			   "{\"waiting\": {\"reason\": \"ErrImageNeverPull\"}}}]}}",
	    KUBE_UNFIT, 0, "its container does not start: ErrImageNeverPull" },
	{ PHASE("Failed") ", \"initContainerStatuses\": [{\"name\": \"fetch\", \"state\": "
			  "{\"terminated\": {\"exitCode\": 2, \"reason\": \"Error\"}}}]}}",
	    KUBE_ENDED, ESPL_BY_FAULT,
	    "its init container 'fetch' ended with exit status 2: Error" },
	{ PHASE("Running") ", " RUNS "}}", KUBE_RUNNING, 0, "" },
	{ PHASE("Running") "}, " ON_NODE "}", KUBE_WAITING, 0, "its container is being created" },
	/* a node that is silent: the heartbeat of the agent finds out first */
	{ PHASE("Running") ", " RUNS ", " CONDITION("Ready", "False", "", "") "}}", KUBE_RUNNING, 0,
	    "" },
	{ PHASE("Running") ", " RUNS "}, " DELETED "}", KUBE_LEAVING, 0,
	    "Kubernetes takes its pod away" },
	{ PHASE("Running") ", " RUNS ", " CONDITION("DisruptionTarget", "True",
	      "PreemptionByScheduler", "preempted\\nby hi") "}}",
	    KUBE_LEAVING, 0,
	    "Kubernetes takes its pod away: PreemptionByScheduler: preempted by hi" },
	{ PHASE("Failed") ", \"reason\": \"DeadlineExceeded\"}}", KUBE_ENDED, ESPL_BY_EXPIRY,
	    "the time limit of its pod is reached" },
	{ PHASE(
	      "Failed") ", \"reason\": \"Evicted\", \"message\": \"low on memory\", " EXITED("137",
	      "Error") "}}",
	    KUBE_ENDED, ESPL_BY_PROVIDER, "its pod has ended: Evicted: low on memory" },
	{ PHASE("Failed") ", \"reason\": \"Evicted\", \"message\": \"ephemeral storage\", "
			  "\"containerStatuses\": [{\"name\": \"main\", \"state\": "
			  "{\"terminated\": {}}}], " CONDITION("DisruptionTarget", "True",
			      "TerminationByKubelet", "x") "}}",
	    KUBE_ENDED, ESPL_BY_PROVIDER, "its pod has ended: Evicted: ephemeral storage" },
	/* nothing has run there: the fault of the node, whatever it is called */
	{ PHASE("Failed") ", \"reason\": \"UnexpectedAdmissionError\", \"message\": \"GPU is "
			  "lost\"}}",
	    KUBE_ENDED, ESPL_BY_FAULT,
	    "its node refuses it: UnexpectedAdmissionError: GPU is lost" },
	{ PHASE("Failed") ", \"reason\": \"OutOfcpu\"}}", KUBE_ENDED, ESPL_BY_FAULT,
	    "its node refuses it: OutOfcpu" },
	{ PHASE("Failed") ", \"reason\": \"ResourceManagerError\"}}", KUBE_ENDED, ESPL_BY_FAULT,
	    "its node refuses it: ResourceManagerError" },
	{ PHASE("Failed") ", " EXITED("137", "OOMKilled") "}}", KUBE_ENDED, ESPL_BY_FAULT,
	    "its container ended with exit status 137: OOMKilled (it has no memory limit: its node "
	    "was "
	    "out of memory)" },
	{ PHASE("Failed") ", " EXITED("137", "OOMKilled") "}, " LIMITED("\"2Gi\"") "}", KUBE_ENDED,
	    ESPL_BY_FAULT,
	    "its container ended with exit status 137: OOMKilled (its memory limit is 2Gi)" },
	{ PHASE("Failed") ", " EXITED("137", "OOMKilled") "}, " LIMITED("\"67108864\"") "}",
	    KUBE_ENDED, ESPL_BY_FAULT,
	    "its container ended with exit status 137: OOMKilled (its memory limit is 64 MiB)" },
	{ PHASE("Succeeded") ", " EXITED("0", "Completed") "}}", KUBE_ENDED, ESPL_BY_FAULT,
	    "its container ended with exit status 0: Completed" },
	{ PHASE("Failed") ", " EXITED("143", "Error") "}, " DELETED "}", KUBE_ENDED,
	    ESPL_BY_PROVIDER, "its pod was deleted" },
};

Test(kubernetes, states)
{
	for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
		json_t *object = json_loads(states[i].object, 0, NULL);
		struct kube_pod pod;

		cr_assert_not_null(object, "%s", states[i].object);
		cloud_kubernetes_pod_read(object, "main", &pod);
		cr_assert_eq(pod.state, states[i].state, "%s", states[i].object);
		cr_assert_eq(pod.reason, states[i].reason, "%s", states[i].object);
		cr_assert_str_eq(pod.text, states[i].text, "%s", states[i].object);
		json_decref(object);
	}
}

/* The order of a list of events is not that of time. */
static const struct {
	const char *list, *text;
	int scaling;
} events[] = {
	{ "{\"items\": []}", "", 0 },
	{ "{\"items\": [{\"type\": \"Warning\", \"reason\": \"FailedMount\", \"message\": "
	  "\"no\\nvolume\", "
	  "\"lastTimestamp\": \"2026-11-24T04:00:09Z\"}, {\"type\": \"Normal\", \"reason\": "
	  "\"Scheduled\", \"message\": \"to n1\", \"lastTimestamp\": \"2026-11-24T04:00:01Z\"}]}",
	    "FailedMount: no volume", 0 },
	{ "{\"items\": [{\"type\": \"Normal\", \"reason\": \"Pulling\", \"message\": \"image\", "
	  "\"lastTimestamp\": null, \"eventTime\": \"2026-11-24T04:00:02.000001Z\"}, {\"type\": "
	  "\"Warning\", \"reason\": \"FailedScheduling\", \"message\": \"0/2\", \"eventTime\": "
	  "\"2026-11-24T04:00:01.000001Z\"}]}",
	    "Pulling: image", 0 },
	{ "{\"items\": [{\"type\": \"Normal\", \"reason\": \"TriggeredScaleUp\", \"message\": "
	  "\"1->2\", "
	  "\"lastTimestamp\": \"2026-11-24T04:00:01Z\"}, {\"type\": \"Warning\", \"reason\": "
	  "\"FailedScheduling\", \"message\": \"0/2\", \"lastTimestamp\": "
	  "\"2026-11-24T04:00:01Z\"}]}",
	    "FailedScheduling: 0/2", 1 },
};

Test(kubernetes, the_last_event)
{
	for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
		json_t *list = json_loads(events[i].list, 0, NULL);
		char text[KUBE_TEXT];
		int scaling;

		cr_assert_not_null(list, "%s", events[i].list);
		cloud_kubernetes_wait_read(list, text, &scaling);
		cr_assert_str_eq(text, events[i].text);
		cr_assert_eq(scaling, events[i].scaling, "%s", events[i].list);
		json_decref(list);
	}
}

static json_t *
make_with(const char *base, const char *avoid)
{
	json_t *template = json_loads(base, 0, NULL), *nodes = json_loads(avoid, 0, NULL);
	struct kube_wish wish = { .base = template,
		.name = "p",
		.run = "r",
		.token = "p",
		.image = "i",
		.resource = "",
		.cpus = "",
		.gpus = 1,
		.time_s = 60,
		.grace_s = 1,
		.idle_s = 60,
		.avoid = nodes };
	json_t *pod = cloud_kubernetes_pod_make(&wish);

	json_decref(template);
	json_decref(nodes);
	return pod;
}

/* A requirement on metadata.name must have one value, and terms are alternatives. */
Test(kubernetes, nodes_are_avoided_in_each_alternative_of_the_template)
{
	static const char own[] =
	    "{\"spec\": {\"containers\": [{}], \"affinity\": {\"nodeAffinity\": "
	    "{\"requiredDuringSchedulingIgnoredDuringExecution\": {\"nodeSelectorTerms\": "
	    "[{\"matchExpressions\": [{\"key\": \"a\", \"operator\": \"Exists\"}]}, "
	    "{\"matchFields\": []}]}}}}}";
	static const char rules[] =
	    "{\"key\": \"metadata.name\", \"operator\": \"NotIn\", \"values\": "
	    "[\"n1\"]}, {\"key\": \"metadata.name\", \"operator\": \"NotIn\", "
	    "\"values\": [\"n2\"]}";
	const char *bases[] = { "{\"spec\": {\"containers\": [{}]}}", own };

	for (size_t i = 0; i < 2; i++) {
		json_t *pod = make_with(bases[i], "[\"n1\", \"n2\"]"), *terms;
		json_error_t error;
		char *text;

		cr_assert_eq(json_unpack_ex(pod, &error, 0, "{s:{s:{s:{s:{s:o}}}}}", "spec",
				 "affinity", "nodeAffinity",
				 "requiredDuringSchedulingIgnoredDuringExecution",
				 "nodeSelectorTerms", &terms),
		    0, "%s", error.text);
		cr_assert_eq(json_array_size(terms), i + 1);
		for (size_t k = 0; k <= i; k++) {
			text =
			    json_dumps(json_object_get(json_array_get(terms, k), "matchFields"), 0);
			cr_assert_not_null(strstr(text, rules), "%s", text);
			free(text);
		}
		json_decref(pod);
	}
}

Test(kubernetes, meshes_add_no_container_unless_the_template_says_so)
{
	static const struct {
		const char *base, *istio;
	} cases[] = { { "{\"spec\": {\"containers\": [{}]}}", "false" },
		{ "{\"metadata\": {\"annotations\": {\"sidecar.istio.io/inject\": \"true\"}}, "
		  "\"spec\": "
		  "{\"containers\": [{}]}}",
		    "true" },
		{ "{\"metadata\": {\"labels\": {\"sidecar.istio.io/inject\": \"true\"}}, \"spec\": "
		  "{\"containers\": [{}]}}",
		    NULL } };

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		json_t *pod = make_with(cases[i].base, "[]");
		const char *istio = json_string_value(
		    json_object_get(json_object_get(json_object_get(pod, "metadata"),
					"annotations"),
			"sidecar.istio.io/inject"));

		cr_assert(
		    cases[i].istio == NULL ? istio == NULL : strcmp(istio, cases[i].istio) == 0);
		json_decref(pod);
	}
}

Test(kubernetes, times)
{
	json_t *object =
	    json_loads("{\"metadata\": {\"name\": \"n\", \"uid\": \"u\", \"labels\": "
		       "{\"espalier/run\": \"r\", \"espalier/token\": \"t\"}, "
		       "\"deletionTimestamp\": \"2026-11-24T04:00:10Z\"}, "
		       "\"spec\": {\"activeDeadlineSeconds\": 60}, \"status\": "
		       "{\"startTime\": \"2026-11-24T04:00:00Z\", \"podIP\": \"10.0.0.7\"}}",
		0, NULL);
	struct kube_pod pod;

	cloud_kubernetes_pod_read(object, "main", &pod);
	cr_assert_eq(pod.started_utc_s, 1795492800);
	cr_assert_eq(pod.ends_utc_s, 1795492810);
	cr_assert_eq(pod.deadline_utc_s, 1795492860);
	cr_assert_str_eq(pod.name, "n");
	cr_assert_str_eq(pod.uid, "u");
	cr_assert_str_eq(pod.run, "r");
	cr_assert_str_eq(pod.token, "t");
	cr_assert_str_eq(pod.address, "10.0.0.7");
	json_decref(object);
}

/* ---- errors ---- */

#define STATUS(reason_, message_) \
	"{\"kind\": \"Status\", \"reason\": \"" reason_ "\", \"message\": \"" message_ "\"}"

static const struct {
	uint32_t code;
	const char *body;
	enum kube_class class;
	const char *text;
} errors[] = {
	{ 0, "", KUBE_LATER, "HTTP status 0" },
	{ 429, "Too many requests, please try again later.\n", KUBE_LATER,
	    "Too many requests, please try again later." },
	{ 502, "", KUBE_LATER, "HTTP status 502" },
	{ 410, STATUS("Expired", "too old"), KUBE_EXPIRED, "too old" },
	{ 401, STATUS("Unauthorized", "Unauthorized"), KUBE_LOGIN,
	    "the API server does not accept your credentials (Unauthorized); log in again" },
	{ 403, STATUS("Forbidden", "pods \\\"p\\\" is forbidden: exceeded quota: gpus"), KUBE_QUOTA,
	    "pods \"p\" is forbidden: exceeded quota: gpus" },
	{ 403, STATUS("Forbidden", "User \\\"u\\\" cannot create resource \\\"pods\\\""),
	    KUBE_RIGHT, "a right is missing: User \"u\" cannot create resource \"pods\"" },
	{ 403,
	    "{\"message\": \"cannot create new content in namespace ns because it is being "
	    "terminated\", \"details\": {\"causes\": [{\"reason\": \"NamespaceTerminating\"}]}}",
	    KUBE_NEVER,
	    "cannot create new content in namespace ns because it is being terminated" },
	{ 404, STATUS("NotFound", "pods \\\"p\\\" not found"), KUBE_ABSENT,
	    "pods \"p\" not found" },
	{ 404, STATUS("NotFound", "namespaces \\\"n\\\" not found"), KUBE_NEVER,
	    "namespaces \"n\" not found" },
	{ 409, STATUS("AlreadyExists", "pods \\\"p\\\" already exists"), KUBE_EXISTS,
	    "pods \"p\" already exists" },
	{ 409, STATUS("Conflict", "uid"), KUBE_OTHER, "uid" },
	{ 422, STATUS("Invalid", "bad name"), KUBE_NEVER, "bad name" },
};

Test(kubernetes, errors)
{
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
		char text[KUBE_TEXT];

		cr_assert_eq(cloud_kubernetes_pod_class(errors[i].code, errors[i].body,
				 strlen(errors[i].body), text),
		    errors[i].class, "%u %s", errors[i].code, errors[i].body);
		cr_assert_str_eq(text, errors[i].text);
	}
}

/* ---- what is asked for ---- */

static const char *
string_at(const json_t *object, const char *path)
{
	char key[64];

	while (*path != '\0') {
		size_t size = strcspn(path, "/");

		(void)snprintf(key, sizeof key, "%.*s", (int)size, path);
		object = json_is_array(object) ? json_array_get(object, (size_t)atoi(key))
					       : json_object_get(object, key);
		path += size + (path[size] == '/');
	}
	return json_is_string(object) ? json_string_value(object) : "";
}

Test(kubernetes, template)
{
	static const char base[] =
	    "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"theirs\", \"namespace\": \"theirs\", "
	    "\"labels\": {\"team\": \"pear\"}}, \"spec\": {\"restartPolicy\": \"Always\", "
	    "\"nodeSelector\": {\"disk\": \"ssd\"}, \"tolerations\": [{\"key\": "
	    "\"node.kubernetes.io/not-ready\", \"tolerationSeconds\": 5}], \"containers\": "
	    "[{\"name\": \"beside\", \"image\": \"b\"}, {\"name\": \"espalier\", \"image\": "
	    "\"theirs\", \"args\": [\"x\"], \"resources\": {\"limits\": {\"cpu\": \"8\"}}}]}}";
	char text[KUBE_TEXT];
	json_t *parsed = cloud_kubernetes_pod_template(base, strlen(base), text), *pod;
	struct kube_wish wish = { .base = parsed,
		.name = "t",
		.run = "r",
		.token = "t",
		.resource = "nvidia.com/gpu",
		.cpus = "",
		.gpus = 2,
		.time_s = 60,
		.grace_s = 5,
		.idle_s = 900 };
	const json_t *spec, *container;
	json_t *owner = json_pack("{s:s}", "kind", "Job");

	cr_assert_not_null(parsed, "%s", text);
	pod = cloud_kubernetes_pod_make(&wish);
	spec = json_object_get(pod, "spec");
	container = cloud_kubernetes_pod_container(pod);
	cr_assert_str_eq(string_at(pod, "metadata/name"), "t");
	cr_assert_str_eq(string_at(pod, "metadata/namespace"), "");
	cr_assert_str_eq(string_at(pod, "metadata/labels/team"), "pear");
	cr_assert_str_eq(string_at(pod, "metadata/labels/app"), "espalier");
	cr_assert_str_eq(string_at(spec, "restartPolicy"), "Never");
	cr_assert_str_eq(string_at(spec, "nodeSelector/disk"), "ssd");
	cr_assert_eq(json_array_size(json_object_get(spec, "tolerations")), 2);
	cr_assert_str_eq(string_at(spec, "tolerations/1/key"), "node.kubernetes.io/unreachable");
	cr_assert_eq(json_array_size(json_object_get(spec, "containers")), 2);
	cr_assert_str_eq(string_at(container, "image"), "theirs");
	cr_assert_str_eq(string_at(container, "command/0"), "sh");
	cr_assert_str_eq(string_at(container, "command/4"), "900");
	cr_assert_str_eq(string_at(container, "command/5"), "30");
	cr_assert_null(json_object_get(json_object_get(pod, "metadata"), "ownerReferences"));
	cr_assert_null(json_object_get(container, "args"));
	cr_assert_str_eq(string_at(container, "resources/limits/cpu"), "8");
	cr_assert_eq(json_integer_value(
			 json_object_get(json_object_get(json_object_get(container, "resources"),
					     "requests"),
			     "nvidia.com/gpu")),
	    2);
	cr_assert_str_eq(string_at(parsed, "metadata/name"), "theirs", "the template is changed");
	json_decref(pod);
	wish.base = NULL;
	wish.image = "ours";
	wish.owner = owner;
	pod = cloud_kubernetes_pod_make(&wish);
	cr_assert_str_eq(string_at(pod, "spec/containers/0/name"), "espalier");
	cr_assert_str_eq(string_at(pod, "spec/containers/0/image"), "ours");
	cr_assert_str_eq(string_at(pod, "metadata/ownerReferences/0/kind"), "Job");
	json_decref(owner);
	json_decref(pod);
	json_decref(parsed);
}

Test(kubernetes, templates_of_no_use)
{
	static const char *const list[] = { "", "apiVersion: v1", "[]", "{}",
		"{\"spec\": {\"template\": {}}}", "{\"spec\": {\"hostPID\": true}}",
		"{\"a\": 1, \"a\": 2}" };

	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		char text[KUBE_TEXT] = "";

		cr_assert_null(cloud_kubernetes_pod_template(list[i], strlen(list[i]), text), "%s",
		    list[i]);
		cr_assert_neq(text[0], '\0');
	}
}
