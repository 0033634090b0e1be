/* test_resize.c - gangs that grow, shrink and move while they train, over one to four agents: what
 * comes out is what a gang of one size makes, wherever it was cut, and nothing is left behind.
 */
#include "base/rng.h"
#include "resize_rig.h"

#define LAST 9

static const uint32_t sizes[] = { 1, 2, 4, 8 };

/* `world` slots on up to `nodes` nodes, in any order. */
static void
draw_slots(uint64_t *state, uint32_t nodes, uint32_t world, struct slot *to)
{
	struct slot all[RIG_RANKS];
	uint32_t count = 0;

	for (uint32_t n = 0; n < nodes; n++)
		for (uint32_t s = 0; s < RIG_SLOTS; s++)
			all[count++] = (struct slot){ n, s };
	for (uint32_t i = 0; i < world; i++) {
		uint32_t k = i + (uint32_t)(espl__split_mix(state) % (count - i));

		to[i] = all[k];
		all[k] = all[i];
	}
}

/* The metrics of the last report. */
static void
read_metrics(const struct rig *g, uint64_t iteration, double to[6])
{
	const char *at = strstr(g->line, "\"metrics\"");
	char head[40];

	snprintf(head, sizeof head, "{\"iteration\": %" PRIu64 ",", iteration);
	cr_assert_eq(strncmp(g->line, head, strlen(head)), 0, "%s", g->line);
	for (int i = 0; i < 6; i++) {
		at = strchr(at, ':');
		cr_assert(at != NULL);
		if (i == 0)
			at = strchr(at + 1, ':');
		to[i] = strtod(++at, NULL);
	}
}

static void
train_whole(const char *trainable, double to[6])
{
	struct rig g;
	struct slot one[1] = { { 0, 0 } };

	rig_open(&g, trainable, 1);
	rig_begin(&g, one, 1, 0);
	for (uint64_t i = 1; i <= LAST; i++) {
		rig_report(&g);
		rig_answer(&g, i < LAST ? "continue" : "stop");
	}
	read_metrics(&g, LAST, to);
	rig_end(&g);
	rig_close(&g);
}

static void
compare(const double whole[6], const double got[6], uint64_t seed)
{
	for (int i = 0; i < 6; i++)
		cr_assert(fabs(whole[i] - got[i]) <= 1e-4 * fabs(whole[i]),
		    "schedule %" PRIu64 ": value %d is %.9g, not %.9g", seed, i, got[i], whole[i]);
}

/* One schedule: another size at every boundary. */
static void
train_cut(struct rig *g, uint64_t seed, double to[6])
{
	uint64_t state = seed * UINT64_C(0x2545f4914f6cdd1d);
	uint32_t nodes = 1 + (uint32_t)(seed % RIG_NODES),
		 world = sizes[espl__split_mix(&state) % 4];
	struct slot slots[RIG_RANKS];

	draw_slots(&state, nodes, world, slots);
	g->wing_count = 0;
	rig_begin(g, slots, world, 0);
	for (uint64_t i = 1; i <= LAST; i++) {
		rig_report(g);
		if (i == LAST) {
			rig_answer(g, "stop");
			continue;
		}
		world = sizes[espl__split_mix(&state) % 4];
		if (espl__split_mix(&state) % 3 == 0) /* elsewhere altogether, or nearly */
			draw_slots(&state, nodes, world, slots);
		else { /* who can stays */
			struct slot fresh[RIG_RANKS];
			uint32_t keep = world < g->world ? world : g->world, count = keep;

			for (uint32_t r = 0; r < keep; r++)
				slots[r] = g->members[r].at;
			draw_slots(&state, nodes, nodes * RIG_SLOTS, fresh);
			for (uint32_t k = 0; count < world; k++) {
				int taken = 0;

				for (uint32_t r = 0; r < count; r++)
					taken |= slots[r].node == fresh[k].node &&
					    slots[r].gpu == fresh[k].gpu;
				if (!taken)
					slots[count++] = fresh[k];
			}
		}
		rig_resize(g, slots, world);
	}
	read_metrics(g, LAST, to);
	rig_end(g);
}

static void
schedules(const char *trainable, uint64_t from, uint64_t to)
{
	static struct rig g;
	double whole[6], got[6];

	train_whole(trainable, whole);
	rig_open(&g, trainable, RIG_NODES);
	for (uint64_t seed = from; seed < to; seed++) {
		train_cut(&g, seed, got);
		compare(whole, got, seed);
	}
	rig_close(&g);
}

Test(resize, any_schedule_ends_as_one_size_does, .timeout = 600)
{
	schedules("regress", 0, 140);
}

Test(resize, so_it_does_with_a_state_of_bytes, .timeout = 600)
{
	schedules("regress_bytes", 1000, 1040);
}

Test(resize, and_over_the_ring, .timeout = 600)
{
	cr_assert_eq(setenv("ESPALIER_COMM", "ring", 1), 0);
	schedules("regress", 2000, 2020);
}

/* ---- killed ranks ------------------------------------------------------------------------ */

enum moment { IN_A_STEP, WAITING, PREPARED, RESIZING };

static void
strike(struct rig *g, uint64_t *state)
{
	pid_t pid = rig_process(g, (uint32_t)espl__split_mix(state));

	cr_assert(pid > 1);
	g->failing = 1;
	(void)kill(pid, SIGKILL); /* it may just have left */
}

/* Trains to the fifth report with a checkpoint of the third, and is struck then. */
static void
train_and_lose(struct rig *g, uint64_t *state, enum moment when)
{
	struct slot slots[RIG_RANKS];
	struct member next[RIG_RANKS];
	uint32_t world = 1 + (uint32_t)(espl__split_mix(state) % 8);
	int moved;

	draw_slots(state, RIG_NODES, world, slots);
	rig_begin(g, slots, world, 0);
	for (int i = 1; i < 5; i++) {
		rig_report(g);
		g->saved[rig_lead(g)] += i == 3;
		rig_answer(g, i == 3 ? "checkpoint" : "continue");
	}
	rig_report(g);
	if (when == IN_A_STEP)
		rig_answer(g, "continue");
	if (when == PREPARED || when == RESIZING) {
		world = sizes[espl__split_mix(state) % 4];
		draw_slots(state, RIG_NODES, world, slots);
		rig_prepare(g, slots, world, next, &moved);
	}
	if (when == RESIZING) {
		rig_commit(g, next, world);
		(void)poll(NULL, 0, (int)(espl__split_mix(state) % 3));
		if (rig_process(g, 0) == 0)
			return;
	}
	strike(g, state);
}

Test(resize, a_killed_rank_costs_what_came_after_the_checkpoint, .timeout = 600)
{
	static struct rig g;
	double whole[6], got[6];
	uint64_t state = 77;

	train_whole("regress", whole);
	rig_open(&g, "regress", RIG_NODES);
	for (uint64_t n = 0; n < 40; n++) {
		uint32_t world = sizes[espl__split_mix(&state) % 4], node = 0;
		struct slot slots[RIG_RANKS];

		train_and_lose(&g, &state, (enum moment)(n % 4));
		rig_lose(&g);
		cr_assert_eq(rig_process(&g, 0), 0, "a process is left");
		/* rank 0 may be anywhere, and has no more than its own disk */
		for (uint32_t k = 0; k < RIG_NODES; k++)
			if (exists(&g.peers[k], "trials/7/checkpoint-3"))
				node = k;
		draw_slots(&state, RIG_NODES, world, slots);
		slots[0] = (struct slot){ node, 7 };
		for (uint32_t r = 1; r < world; r++)
			slots[r] = (struct slot){ (node + r) % RIG_NODES, r / RIG_NODES };
		rig_begin(&g, slots, world, 3);
		for (uint64_t i = 4; i <= LAST; i++) {
			rig_report(&g);
			rig_answer(&g, i < LAST ? "continue" : "stop");
		}
		read_metrics(&g, LAST, got);
		rig_end(&g);
		compare(whole, got, n);
		two(&g.peers[node], ESPL__MSG_COLLECT, 7, 0);
		while (exists(&g.peers[node], "trials/7/checkpoint-3"))
			(void)poll(NULL, 0, 2);
	}
	rig_close(&g);
}
