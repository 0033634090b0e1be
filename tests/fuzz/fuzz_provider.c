/* fuzz_provider.c - answers of providers: EC2's XML and pods of Kubernetes. */
#include "oracle.h"

#include <jansson.h>

#include "cloud_aws.h"
#include "cloud_kubernetes.h"

static uint64_t
digest_of(const void *bytes, size_t size)
{
	const uint8_t *p = bytes;
	uint64_t h = size;

	for (size_t i = 0; i < size; i++)
		h = h * 31 + p[i];
	return h;
}

static int
see_machine(void *ctx, const struct aws_machine *m)
{
	uint64_t *answer = ctx;

	demand(memchr(m->id, 0, sizeof m->id) != NULL);
	*answer = *answer * 31 + digest_of(m->id, strlen(m->id)) + (uint64_t)m->state;
	return 0;
}

static uint64_t
read_aws(const uint8_t *data, size_t size)
{
	struct aws_element *e = cloud_aws_answer_parse(data, size);
	uint64_t answer = 0;

	if (e == NULL)
		return 1;
	(void)cloud_aws_answer_each(e, 7, see_machine, &answer);
	answer += digest_of(cloud_aws_answer_text(e, ""), strlen(cloud_aws_answer_text(e, "")));
	answer += (uint64_t)cloud_aws_answer_time(cloud_aws_answer_text(e, "requestId"));
	answer += (uint64_t)cloud_aws_answer_money(cloud_aws_answer_text(e, "requestId"));
	cloud_aws_answer_free(e);
	return answer;
}

static uint64_t
read_pod(const uint8_t *data, size_t size)
{
	json_t *object = json_loadb((const char *)data, size, 0, NULL);
	struct kube_pod pod;
	char text[KUBE_TEXT] = "";
	uint64_t answer = (uint64_t)cloud_kubernetes_pod_class(409, (const char *)data, size, text);
	json_t *made = cloud_kubernetes_pod_template(data, size, text);

	demand(made != NULL || text[0] != '\0');
	json_decref(made);
	if (object == NULL)
		return answer;
	memset(&pod, 0, sizeof pod);
	cloud_kubernetes_pod_read(object, "main", &pod);
	answer = answer * 31 + (uint64_t)pod.running;
	json_decref(object);
	return answer;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	double begun = fuzz_seconds();
	uint8_t *body;

	if (size < 2)
		return 0;
	body = malloc(size); /* an answer's body is followed by a NUL */
	memcpy(body, data + 1, size - 1);
	body[size - 1] = 0;
	if (data[0] % 2 == 0)
		demand(read_aws(body, size - 1) == read_aws(body, size - 1));
	else
		demand(read_pod(body, size - 1) == read_pod(body, size - 1));
	free(body);
	demand_linear(begun, size);
	return 0;
}
