/* fuzz_events.c - TensorBoard's events: as a file of records, and as the message of one. */
#include "oracle.h"

#include <jansson.h>

#include "listen/events.h"

static void
demand_json(struct espl__buf *line)
{
	json_t *root;

	if (line->size == 0)
		return;
	root = json_loadb((const char *)line->data, line->size, 0, NULL);
	/* A tag that is no UTF-8 makes no JSON: the reader passes over such a line. */
	demand(root == NULL || json_is_object(root));
	json_decref(root);
	espl__buf_clear(line);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct espl__buf line = { NULL, 0, 0 };
	double begun = fuzz_seconds();
	size_t at = 0, used = 0;

	while (at < size && espl__event_json(data + at, size - at, &used, &line) > 0) {
		demand(used > 0 && used <= size - at);
		at += used;
		demand_json(&line);
	}
	espl__buf_clear(&line);
	(void)espl__event_scalars(data, size, &line);
	demand_json(&line);
	espl__buf_free(&line);
	demand_linear(begun, size * 10);
	return 0;
}
