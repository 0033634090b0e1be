/* bench_resize.c - what a resize in place costs beside a restart, for 8 ranks on CPU slots of one
 * machine.
 *
 * Prints one JSON object a line:
 *   resize    idle_ms: how long no rank trained, measured by rank 0; ready_ms: from the order until
 *             the joining ranks were ready, while the others kept training
 *   restart   the same change by checkpoint: from "pause" to the first report of the new gang
 *   detect    from the death of a rank until the driver knows
 */
#include <stdio.h>
#include <stdlib.h>

#define PEER_PLAIN
#define cr_assert(c_, ...) \
	do { \
		if (!(c_)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c_); \
			exit(1); \
		} \
	} while (0)
#define cr_assert_eq(a_, b_, ...) cr_assert((a_) == (b_))
#define cr_assert_neq(a_, b_, ...) cr_assert((a_) != (b_))
#define cr_assert_str_eq(a_, b_, ...) cr_assert(strcmp(a_, b_) == 0)
#define cr_assert_fail(...) cr_assert(0)
#include "unit/resize_rig.h"
#include "part.h"

#define TIMES 21

static struct rig g;
static struct slot slots[2][RIG_RANKS];

static void
put_times(const char *name, double *list, int count, const char *end)
{
	printf("\"%s\": %.2f, \"%s_max\": %.2f%s", name, part(list, (uint32_t)count, 0.5), name,
	    part(list, (uint32_t)count, 1), end);
}

static double
since(int64_t from)
{
	return (double)(espl__tick() - from) / 1e6;
}

/* From `from` ranks to `to` and back, again and again; moved: to another node's slots. */
static void
resize(const char *way, uint32_t from, uint32_t to, int moved)
{
	double idle[2][TIMES], ready[2][TIMES];
	uint32_t sizes[2] = { to, from };

	rig_begin(&g, slots[0], from, 0);
	rig_report(&g);
	for (int i = 0; i < 2 * TIMES; i++) {
		struct member next[RIG_RANKS];
		int k = i % 2, other;
		int64_t begun = espl__tick();

		rig_prepare(&g, slots[moved ? !k : 0], sizes[k], next, &other);
		ready[k][i / 2] = since(begun);
		rig_commit(&g, next, sizes[k]);
		rig_wait(&g, g.resized);
		idle[k][i / 2] = (double)g.took / 1e6;
		rig_wait(&g, g.left);
		rig_wait(&g, g.ended);
		rig_report(&g);
	}
	rig_answer(&g, "stop");
	rig_end(&g);
	for (int k = 0; k < (from == to ? 1 : 2); k++) {
		printf("{\"bench\": \"resize\", \"comm\": \"%s\", \"from\": %u, \"to\": %u, "
		       "\"moved\": %s, ",
		    way, (unsigned)sizes[!k], (unsigned)sizes[k], moved ? "true" : "false");
		put_times("idle_ms", idle[k], TIMES, ", ");
		put_times("ready_ms", ready[k], TIMES, "}\n");
	}
}

static void
restart(const char *way, uint32_t ranks)
{
	double took[TIMES];
	uint64_t iteration = 0;

	for (int i = 0; i < TIMES; i++) {
		int64_t begun;

		rig_begin(&g, slots[0], ranks, iteration);
		rig_report(&g);
		iteration++;
		begun = espl__tick();
		g.saved[rig_lead(&g)]++;
		rig_answer(&g, "pause");
		rig_end(&g);
		rig_begin(&g, slots[0], ranks, iteration);
		rig_report(&g);
		took[i] = since(begun);
		iteration++;
		g.saved[rig_lead(&g)]++;
		rig_answer(&g, "pause");
		rig_end(&g);
	}
	printf("{\"bench\": \"restart\", \"comm\": \"%s\", \"ranks\": %u, ", way, (unsigned)ranks);
	put_times("idle_ms", took, TIMES, "}\n");
}

static void
detect(const char *way, uint32_t ranks)
{
	double took[TIMES];

	for (uint32_t i = 0; i < TIMES; i++) {
		int64_t begun;
		pid_t pid;

		rig_begin(&g, slots[0], ranks, 0);
		rig_report(&g);
		g.failing = 1;
		pid = rig_process(&g, i);
		begun = espl__tick();
		cr_assert_eq(kill(pid, SIGKILL), 0);
		while (g.bad == 0)
			rig_hear_any(&g);
		took[i] = since(begun);
		rig_lose(&g);
	}
	printf("{\"bench\": \"detect\", \"comm\": \"%s\", \"ranks\": %u, ", way, (unsigned)ranks);
	put_times("ms", took, TIMES, "}\n");
}

int
main(void)
{
	for (uint32_t i = 0; i < 8; i++) {
		slots[0][i] = (struct slot){ 0, i };
		slots[1][i] = (struct slot){ 1, i };
	}
	rig_open(&g, "regress", 2);
	for (int shm = 0; shm < 2; shm++) {
		const char *way = shm ? "shm" : "ring";

		rig_close(&g);
		cr_assert_eq(shm ? unsetenv("ESPALIER_COMM") : setenv("ESPALIER_COMM", "ring", 1),
		    0);
		rig_open(&g, "regress", 2);
		resize(way, 8, 4, 0);
		resize(way, 8, 1, 0);
		resize(way, 8, 8, 1);
		restart(way, 8);
		detect(way, 8);
		(void)fflush(stdout);
	}
	rig_close(&g);
	return 0;
}
