/* test_gang_loss.c - gangs that are resized: every parameter comes out as in a gang of one size, no
 * memory that they shared is left, and a rank that dies is heard of within a second, whatever the
 * gang is about.
 *
 * How a schedule is drawn and what a lost rank costs is looked at in test_resize.c.
 */
#include <limits.h>
#include "base/rng.h"
#include "resize_rig.h"
#include "base/file.h"

#define LAST 8
#define WEIGHTS 513u

static const uint32_t sizes[] = { 1, 2, 4, 8 };

/* `world` slots on up to `nodes` nodes behind the `kept` that are there. */
static void
draw_slots(uint64_t *state, uint32_t nodes, uint32_t kept, uint32_t world, struct slot *to)
{
	for (uint32_t i = kept; i < world;) {
		struct slot s = { (uint32_t)(espl__split_mix(state) % nodes),
			(uint32_t)(espl__split_mix(state) % RIG_SLOTS) };
		int taken = 0;

		for (uint32_t k = 0; k < i; k++)
			taken |= to[k].node == s.node && to[k].gpu == s.gpu;
		if (!taken)
			to[i++] = s;
	}
}

/* ---- every parameter ----------------------------------------------------------------------- */

/* Weights and momentum out of the checkpoint that the end left, wherever rank 0 was. */
static void
read_state(const struct rig *g, float to[2 * WEIGHTS])
{
	static const char *const names[] = { "weight", "speed" };
	struct espl__buf b = { NULL, 0, 0 };
	char path[PATH_MAX];
	int found = 0;

	for (uint32_t n = 0; n < RIG_NODES && !found; n++) {
		snprintf(path, sizeof path, "%s/trials/7/checkpoint-%d/regions", g->peers[n].dir,
		    LAST);
		found = g->peers[n].pid > 0 && access(path, R_OK) == 0;
	}
	cr_assert(found, "no checkpoint of iteration %d", LAST);
	cr_assert_eq(espl__file_read(path, 1 << 20, &b, NULL), ESPL_OK);
	for (uint32_t i = 0; i < 2; i++) {
		const uint8_t *at = memmem(b.data, b.size, names[i], strlen(names[i]));

		cr_assert(at != NULL);
		at += strlen(names[i]) + 8;
		cr_assert(at + WEIGHTS * sizeof *to <= b.data + b.size);
		memcpy(to + i * WEIGHTS, at, WEIGHTS * sizeof *to);
	}
	espl__buf_free(&b);
}

/* The memory of a gang has no name in any folder: it is there as long as a process has it mapped or
 * open. */
static int
shares_memory(pid_t pid)
{
	struct espl__buf b = { NULL, 0, 0 };
	struct dirent *e;
	char path[300], to[300];
	int found;
	DIR *fds;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	cr_assert_eq(espl__file_read(path, 1 << 24, &b, NULL), ESPL_OK);
	found = strstr(espl__buf_text(&b), "memfd:espalier-gang") != NULL;
	espl__buf_free(&b);
	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	fds = opendir(path);
	cr_assert(fds != NULL);
	while ((e = readdir(fds)) != NULL) {
		ssize_t size = readlinkat(dirfd(fds), e->d_name, to, sizeof to - 1);

		to[size > 0 ? size : 0] = '\0';
		found |= strstr(to, "memfd:espalier-gang") != NULL;
	}
	closedir(fds);
	return found;
}

/* Agents outlive gangs. */
static void
nothing_shared(const struct rig *g)
{
	for (uint32_t n = 0; n < RIG_NODES; n++)
		cr_assert(g->peers[n].pid <= 0 || !shares_memory(g->peers[n].pid),
		    "node %u holds a gang's memory", n);
}

static void
train(struct rig *g, uint64_t seed, float to[2 * WEIGHTS])
{
	uint64_t state = seed * UINT64_C(0x2545f4914f6cdd1d);
	uint32_t nodes = 1 + (uint32_t)(seed % RIG_NODES),
		 world = seed == 0 ? 1 : sizes[espl__split_mix(&state) % 4];
	struct slot slots[RIG_RANKS];

	draw_slots(&state, nodes, 0, world, slots);
	rig_begin(g, slots, world, 0);
	for (int i = 1; i < LAST; i++) {
		rig_report(g);
		if (seed == 0) {
			rig_answer(g, "continue");
			continue;
		}
		cr_assert(nodes > 1 || world == 1 || shares_memory(rig_process(g, (uint32_t)i)),
		    "nothing to look for");
		world = sizes[espl__split_mix(&state) % 4];
		draw_slots(&state, nodes, 0, world, slots);
		rig_resize(g, slots, world);
	}
	rig_report(g);
	g->saved[rig_lead(g)]++;
	rig_answer(g, "pause");
	rig_end(g);
	rig_wait(g, g->saved);
	read_state(g, to);
	nothing_shared(g);
	for (uint32_t n = 0; n < RIG_NODES; n++) {
		if (g->peers[n].pid <= 0 || !exists(&g->peers[n], "trials/7/checkpoint-8"))
			continue;
		two(&g->peers[n], ESPL__MSG_COLLECT, 7, 0);
		while (exists(&g->peers[n], "trials/7/checkpoint-8"))
			(void)poll(NULL, 0, 2);
	}
}

Test(gang_loss, every_parameter_is_that_of_one_size, .timeout = 300)
{
	static struct rig g;
	static float whole[2 * WEIGHTS], got[2 * WEIGHTS];
	double length = 0;

	rig_open(&g, "regress", RIG_NODES);
	train(&g, 0, whole);
	for (uint32_t i = 0; i < WEIGHTS; i++)
		length += (double)whole[i] * (double)whole[i] / WEIGHTS;
	for (uint64_t seed = 1; seed <= 16; seed++) {
		train(&g, seed, got);
		for (uint32_t i = 0; i < WEIGHTS; i++)
			cr_assert(fabs((double)whole[i] - (double)got[i]) <=
				1e-4 * fmax(fabs((double)whole[i]), sqrt(length)),
			    "schedule %u: weight %u is %.9g, not %.9g", (unsigned)seed, i,
			    (double)got[i], (double)whole[i]);
	}
	rig_close(&g);
}

/* ---- a lost rank ----------------------------------------------------------------------------- */

enum moment { IN_A_STEP, WAITING, PREPARED, RESIZING, MOMENTS };

/* Kills one of the gang at such a moment; those who would leave are no loss, so it only grows. */
static void
strike(struct rig *g, uint64_t *state, enum moment when)
{
	struct slot slots[RIG_RANKS];
	struct member next[RIG_RANKS];
	uint32_t world = when < PREPARED ? sizes[espl__split_mix(state) % 4]
					 : sizes[espl__split_mix(state) % 3],
		 wide = world;
	pid_t pid;
	int moved;

	draw_slots(state, RIG_NODES, 0, world, slots);
	rig_begin(g, slots, world, 0);
	rig_report(g);
	rig_answer(g, "continue");
	rig_report(g);
	if (when == IN_A_STEP)
		rig_answer(g, "continue");
	if (when >= PREPARED) {
		while (wide <= world)
			wide = sizes[espl__split_mix(state) % 4];
		for (uint32_t r = 0; r < world; r++)
			slots[r] = g->members[r].at;
		draw_slots(state, RIG_NODES, world, wide, slots);
		rig_prepare(g, slots, wide, next, &moved);
		cr_assert_eq(moved, 0);
	}
	if (when == RESIZING)
		rig_commit(g, next, wide);
	g->failing = 1;
	pid = rig_process(g, (uint32_t)espl__split_mix(state));
	cr_assert(pid > 1);
	cr_assert_eq(kill(pid, SIGKILL), 0);
}

Test(gang_loss, is_heard_of_within_a_second, .timeout = 300)
{
	static struct rig g;
	uint64_t state = 5;
	int64_t most = 0;

	cr_assert_eq(setenv("REGRESS_PACE_MS", "40", 1), 0);
	for (int ring = 0; ring < 2; ring++) {
		cr_assert_eq(ring ? setenv("ESPALIER_COMM", "ring", 1) : unsetenv("ESPALIER_COMM"),
		    0);
		rig_open(&g, "regress", RIG_NODES);
		for (int n = 0; n < 40; n++) {
			int64_t began, took;

			strike(&g, &state, (enum moment)(n % MOMENTS));
			began = espl__tick();
			while (g.bad == 0)
				rig_hear_any(&g);
			took = espl__tick() - began;
			most = took > most ? took : most;
			cr_assert(took <= INT64_C(1000000000), "%d: heard of after %.3f s", n,
			    (double)took / 1e9);
			rig_lose(&g);
			cr_assert_eq(rig_process(&g, 0), 0, "a process is left");
		}
		rig_close(&g);
	}
	printf("# a lost rank was heard of after at most %.1f ms\n", (double)most / 1e6);
}
