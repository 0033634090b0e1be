/* fuzz_workload.c - any bytes as a trace of jobs: read, checked, written, read again.
 *
 * The first byte is the number of nodes; 0: unknown.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *     -fno-sanitize-recover=undefined -I. -Icore -Isdk/include tests/fuzz/fuzz_workload.c \
 *     core/model/workload.c driver/input/csv.c base/[a-z]*.c -lm -o fuzz_workload
 *   ./fuzz_workload -max_total_time=600 -max_len=4096 \
 *     -dict=tests/fuzz/workload.dict tests/fuzz/corpus/workload
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "input/workload_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

#define CHECK(c_) \
	do { \
		if (!(c_)) \
			abort(); \
	} while (0)

static void
check_job(const struct espl__workload *w, uint32_t i, uint32_t nodes)
{
	const struct espl__job *job = &w->jobs[i];
	double left = espl__workload_left(w, i, job->work_s / 2, 1), before = 0;

	CHECK(job->name[0] != '\0' && job->work_s > 0 && job->weight > 0 && job->fate_at_s >= 0);
	CHECK(i == 0 ? job->arrives_s >= 0 : job->arrives_s >= w->jobs[i - 1].arrives_s);
	CHECK(job->nodes_min >= 1 && job->nodes_min <= job->nodes_max && job->nodes_min <= nodes);
	CHECK(isnan(job->eta_s) ? isnan(left) : left >= 0);
	for (uint32_t k = 0; k < job->scaling_count; k++) {
		CHECK(job->scaling[k].x > before && job->scaling[k].y > 0);
		before = job->scaling[k].x;
	}
	for (uint32_t n = 1; n <= 64; n *= 2)
		CHECK(espl__job_speed(job, n, 0.8) > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct espl__workload w, again;
	struct espl__buf text = { NULL, 0, 0 }, one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	uint32_t nodes;

	if (size == 0)
		return 0;
	nodes = data[0] > 0 ? data[0] : ESPL_ANY;
	espl__put(&text, data + 1, size - 1);
	if (espl__workload_read(&w, "fuzz", &text, nodes, &diag) != ESPL_OK) {
		CHECK(diag.status == ESPL_E_CONFIG && diag.text[0] != '\0' &&
		    strcmp(diag.file, "fuzz") == 0);
	} else {
		CHECK(w.count > 0);
		for (uint32_t i = 0; i < w.count; i++)
			check_job(&w, i, nodes);
		espl__workload_print(&w, &one);
		espl__buf_clear(&text);
		espl__put(&text, one.data, one.size);
		CHECK(espl__workload_read(&again, "again", &text, nodes, NULL) == ESPL_OK &&
		    again.count == w.count);
		espl__workload_print(&again, &two);
		CHECK(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
		espl__workload_free(&again);
		(void)espl__workload_fix(&w, "fuzz", nodes, NULL);
	}
	espl__workload_free(&w);
	espl__buf_free(&text);
	espl__buf_free(&one);
	espl__buf_free(&two);
	return 0;
}
