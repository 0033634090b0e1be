/* plan_interrupt.c - plans on nodes that the provider may take back.  The model knows nothing of
 * that, so the run is simulated. */
#include <string.h>
#include <time.h>

#include "cli/plan.h"
#include "plugin/instance.h"
#include "run/drive.h"
#include "driver/worlds.h"

#define RUNS 20u
#define SPENT 2.0 /* seconds after which no further run begins */

static double
seconds_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void
espl__plan_try(struct espl__session *s, struct espl__plan_answer *a)
{
	struct espl__plan_tries *tries = &a->tries;
	struct espl__exec_summary summary;
	struct espl__diag diag = ESPL__DIAG_INIT;
	double began = seconds_now();

	espl__instance_log_from(ESPL_WARN);
	for (uint32_t i = 0; i < RUNS && seconds_now() - began < SPENT; i++) {
		struct espl__drive drive = { .exec = { .session = s, .simulated = 1 },
			.open_world = espl__world_open,
			.seed = s->config->seed + i };

		memset(&summary, 0, sizeof summary);
		if (espl__drive(&drive, &summary, &diag) != ESPL_OK)
			return;
		tries->kept += summary.how == ESPL__RUN_DONE;
		tries->jct_s += ((double)summary.now / 1e9 - tries->jct_s) / (i + 1);
		tries->cost_usd += ((double)summary.cost / 1e6 - tries->cost_usd) / (i + 1);
		tries->runs++;
	}
}
