/* fuzz_mover.c - frames of an agent about directories that move, at the driver's end.
 *
 * Each message: u8 type, u8 size, payload.  Type 255: one task runs.  Places are those of the
 * driver;
 * "@" in a name stands for the directory of a victim.
 */
#include "oracle.h"

#include "base/file.h"
#include "base/ids.h"
#include "base/mem.h"
#include "node/wire.h"
#include "transfer/mover.h"

#define TASKS 64

int
fsync(int fd)
{
	(void)fd;
	return 0;
}
int
syncfs(int fd)
{
	(void)fd;
	return 0;
}

struct world {
	struct fuzz_place place;
	struct espl__mover *mover;
	struct espl__move *tasks[TASKS];
	unsigned count;
	int64_t now;
};

static char *
find_place(void *ctx, const char *name, int incoming)
{
	const struct world *w = ctx;

	(void)incoming;
	return espl__named_place(w->place.run, name);
}

static void
run_task(struct world *w)
{
	struct espl__move *move = w->tasks[0];

	w->count--;
	memmove(w->tasks, w->tasks + 1, w->count * sizeof w->tasks[0]);
	espl__move_work(move);
	espl__move_done(move, w->now++);
}

static void
queue_task(void *ctx, struct espl__move *move)
{
	struct world *w = ctx;

	demand(w->count < TASKS);
	w->tasks[w->count++] = move;
}

static void
note(void *ctx, const char *name, const struct espl__diag *diag)
{
	char *place = espl__named_place("", name);

	(void)ctx;
	demand(place != NULL || diag->status != ESPL_OK);
	free(place);
}

/* Returns the bytes that it answers, as a digest. */
static uint64_t
play(struct world *w, const uint8_t *data, size_t size)
{
	struct espl__buf out = { NULL, 0, 0 };
	uint64_t answer = 0;

	for (size_t at = 0; size - at >= 2;) {
		uint8_t type = data[at];
		size_t step = data[at + 1];
		struct espl__reader r;

		at += 2;
		if (step > size - at)
			break;
		r = espl__reader(data + at, step);
		at += step;
		if (type == 255 || w->count >= TASKS / 2) {
			while (w->count > 0)
				run_task(w);
			continue;
		}
		if (espl__mover_receive(w->mover, (uint8_t)(ESPL__MSG_TREE_ASK + type % 8), &r,
			w->now++) != 0)
			break;
		(void)espl__mover_pump(w->mover, &out, 1 << 16, w->now++);
		for (size_t i = 0; i < out.size; i++)
			answer = answer * 31 + out.data[i];
		espl__buf_clear(&out);
	}
	espl__buf_free(&out);
	return answer;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	double begun = fuzz_seconds();
	uint64_t answers[2];

	for (int i = 0; i < 2; i++) {
		struct world w = { .now = 1 };
		struct espl__mover_ops ops = { .ctx = &w,
			.place = find_place,
			.work = queue_task,
			.put = note,
			.got = note };

		fuzz_open(&w.place);
		w.mover = espl__mover_new(&ops, 1);
		answers[i] = play(&w, data, size);
		espl__mover_free(w.mover);
		while (w.count > 0)
			run_task(&w);
		demand(espl__tree_remove(w.place.run, NULL) == ESPL_OK);
		fuzz_close(&w.place);
	}
	demand(answers[0] == answers[1]);
	demand_linear(begun, size * 64);
	return 0;
}
