/* bench_fluid.c - allocator fluid with 1,000 trials on 1,024 GPUs: the slowest of its first
 * decisions, by processor time. One JSON object a line: each of several repetitions, so that the
 * least of them can be taken on a machine at work.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "test_fluid.h"

#define REPEAT 10

static struct group group;
static struct course course;

int
main(void)
{
	uint64_t state = 9;

	group.count = 1000;
	group.gpus = 1024;
	group.per_node = 8;
	group.c = 3;
	group.alpha = 1.3;
	group.beta = 1.12;
	group.eps = 1;
	for (uint32_t i = 0; i < group.count; i++)
		group.h1[i] = 100 * exp(0.6 * fluid_normal(&state));
	for (uint32_t i = 0; i < REPEAT; i++) {
		memset(&course, 0, sizeof course);
		course.events = 20;
		fluid_run(&group, "", &course);
		if (course.why[0] != '\0' || course.crowded) {
			fprintf(stderr, "bench_fluid: %s\n",
			    course.why[0] != '\0' ? course.why : "a GPU holds more than it may");
			return 1;
		}
		printf("{\"bench\": \"fluid\", \"trials\": %u, \"gpus\": %u, \"slowest_ms\": "
		       "%.3f}\n",
		    group.count, group.gpus, course.slowest_s * 1e3);
	}
	return 0;
}
