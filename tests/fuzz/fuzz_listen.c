/* fuzz_listen.c - what a program prints, as reports: the first line is the pattern ("" for JSON),
 * each other one a line of its output. */
#include "oracle.h"

#include "listen/listen.h"

static uint64_t
listen_to(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\n', size);
	struct espl__listen_spec spec = { .from = "stdout",
		.file = "",
		.iteration = "epoch",
		.metric = "loss",
		.first = -1,
		.per = 1 };
	struct espl__buf to = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__listen *l;
	uint64_t answer = 0;
	size_t at = end != NULL ? (size_t)(end - data) : size;
	char *pattern = strndup((const char *)data, at);

	spec.pattern = pattern;
	if (espl__listen_new(&spec, &l, &diag) != ESPL_OK) {
		demand(diag.text[0] != '\0');
		free(pattern);
		return 1;
	}
	espl__listen_begin(l, 0, 1000, 1000);
	for (at++; at < size;) {
		const uint8_t *next = memchr(data + at, '\n', size - at);
		size_t step = next != NULL ? (size_t)(next - data) - at : size - at;

		if (espl__listen_line(l, (const char *)data + at, step, &to) == 1) {
			demand(to.size > 0 && to.data[to.size - 1] == '\n' &&
			    memchr(to.data, '\n', to.size - 1) == NULL);
			for (size_t i = 0; i < to.size; i++)
				answer = answer * 31 + to.data[i];
		}
		at += step + 1;
	}
	answer += espl__listen_last(l);
	espl__listen_free(l);
	espl__buf_free(&to);
	free(pattern);
	return answer;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	double begun = fuzz_seconds();

	if (size < 2)
		return 0;
	demand(listen_to(data, size) == listen_to(data, size));
	demand_linear(begun, size * 10);
	return 0;
}
