/* test_mover.c - folders that move between two ends, either of which may die at any step: each
 * arrives whole and durable, is said to have arrived once to each life, and nothing else is left.
 *
 * SEED= repeats one case; MOVER_CASES= says how many are tried from a new seed.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "node/wire.h"
#include "checkpoint/checkpoint.h"
#include "transfer/mover.h"
#include "transfer/pack.h"
#include "transfer/stored.h"

#define NAMES 5
#define TASKS 64
#define MS INT64_C(1000000)

static int fail_syncs; /* for want of room */

int
fsync(int fd)
{
	(void)fd;
	errno = ENOSPC;
	return fail_syncs ? -1 : 0;
}

int
syncfs(int fd)
{
	return fsync(fd);
}

struct rig;
struct end {
	struct rig *rig;
	int index;
	struct espl__mover *mover;
	struct espl__buf wire;        /* on its way to this end */
	int puts[NAMES], gets[NAMES]; /* wanted, and not yet done */
	unsigned lives;
};
struct rig {
	struct end ends[2];
	struct espl__move *tasks[TASKS];
	unsigned task_count;
	struct espl__rng rng;
	uint64_t seed;
	int64_t now;
	unsigned deaths, refusals;
	size_t flying_most;
	char dir[64];
};

static size_t
draw(struct rig *g, size_t below)
{
	return below == 0 ? 0 : (size_t)(espl__rng_uniform(&g->rng) * (double)below);
}

static int
number_of(const char *name)
{
	int number = atoi(name + 1);

	cr_assert(name[0] == 'n' && number >= 0 && number < NAMES);
	return number;
}

static char *
place_of(void *ctx, const char *name)
{
	const struct end *e = ctx;

	return espl__format("%s/%d/%s", e->rig->dir, e->index, name);
}

static char *
find_place(void *ctx, const char *name, int incoming)
{
	(void)incoming;
	return place_of(ctx, name);
}

static void
queue_task(void *ctx, struct espl__move *move)
{
	struct rig *g = ((struct end *)ctx)->rig;

	cr_assert_lt(g->task_count, TASKS);
	g->tasks[g->task_count++] = move;
}

static void
note_put(void *ctx, const char *name, const struct espl__diag *diag)
{
	struct end *e = ctx;
	int n = number_of(name);

	cr_assert(e->puts[n], "seed %llu: what nobody put is done",
	    (unsigned long long)e->rig->seed);
	if (diag->status != ESPL_OK) {
		cr_assert_not_null(strstr(diag->text, "No space left"), "%s", diag->text);
		e->rig->refusals++;
		espl__mover_put(e->mover, name); /* again */
		return;
	}
	e->puts[n] = 0;
}

static void
note_got(void *ctx, const char *name, const struct espl__diag *diag)
{
	struct end *e = ctx;
	struct espl__diag check = ESPL__DIAG_INIT;
	char *place = place_of(e, name);

	if (diag->status != ESPL_OK) {
		cr_assert(e->gets[number_of(name)]);
		cr_assert_not_null(strstr(diag->text, "No space left"), "%s", diag->text);
		e->rig->refusals++;
		espl__mover_get(e->mover, name);
	} else {
		cr_assert_eq(espl__checkpoint_check(place, &check), ESPL_OK, "seed %llu: %s: %s",
		    (unsigned long long)e->rig->seed, name, check.text);
		e->gets[number_of(name)] = 0;
	}
	free(place);
}

static void
begin_life(struct end *e)
{
	struct espl__mover_ops ops = { .ctx = e,
		.place = find_place,
		.work = queue_task,
		.put = note_put,
		.got = note_got };
	char name[8];

	e->mover = espl__mover_new(&ops, (uint64_t)e->rig->now * 1000);
	e->lives++;
	for (int n = 0; n < NAMES; n++) {
		snprintf(name, sizeof name, "n%d", n);
		if (e->puts[n])
			espl__mover_put(e->mover, name);
		if (e->gets[n])
			espl__mover_get(e->mover, name);
	}
}

/* A folder with a few files, some in folders below, as a trial may leave it. */
static void
make_sealed(struct rig *g, int index, int n, size_t most)
{
	char path[256], *saving = espl__format("%s/%d/saving", g->dir, index),
			*place = espl__format("%s/%d/n%d", g->dir, index, n);
	static uint8_t bytes[8 << 20];
	int files = 1 + (int)draw(g, draw(g, 10) == 0 ? 80 : 4);
	struct espl__diag diag = ESPL__DIAG_INIT;
	uint64_t size;

	cr_assert_eq(mkdir(saving, 0755), 0);
	for (int i = 0; i < files; i++) {
		size_t count = draw(g, most + 1);

		snprintf(path, sizeof path, "%s/%s%d", saving, i % 3 == 2 ? "below/" : "a file", i);
		if (i == 2) {
			char *below = espl__format("%s/below", saving);

			cr_assert_eq(mkdir(below, 0755), 0);
			free(below);
		}
		for (size_t k = 0; k < count; k += 64)
			bytes[k] = (uint8_t)draw(g, 256);
		cr_assert_eq(espl__file_write(path, bytes, count, NULL), ESPL_OK);
		cr_assert_eq(chmod(path, i % 2 ? 0640 : 0755), 0);
	}
	snprintf(path, sizeof path, "%s/link", saving);
	if (draw(g, 2) == 0)
		cr_assert_eq(symlink("a file0", path), 0);
	cr_assert_eq(espl__checkpoint_keep(saving, place, &size, &diag), ESPL_OK, "%s", diag.text);
	free(saving);
	free(place);
}

static void
open_rig(struct rig *g, uint64_t seed, size_t most)
{
	memset(g, 0, sizeof *g);
	g->seed = seed;
	g->now = 1000 * MS;
	espl__rng_seed(&g->rng, seed, "mover");
	strcpy(g->dir, "/tmp/espl-mover-XXXXXX");
	cr_assert_not_null(mkdtemp(g->dir));
	for (int i = 0; i < 2; i++) {
		char *path = espl__format("%s/%d", g->dir, i);

		cr_assert_eq(mkdir(path, 0755), 0);
		free(path);
		g->ends[i].rig = g;
		g->ends[i].index = i;
	}
	for (int n = 0; n < NAMES; n++) {
		int from = (int)draw(g, 2), asks = (int)draw(g, 2);

		make_sealed(g, from, n, most);
		if (draw(g, 4) == 0) /* another one of that name is there */
			make_sealed(g, !from, n, most / 2);
		if (asks)
			g->ends[!from].gets[n] = 1;
		else
			g->ends[from].puts[n] = 1;
	}
	for (int i = 0; i < 2; i++)
		begin_life(&g->ends[i]);
}

static void
run_task(struct rig *g)
{
	unsigned i = (unsigned)draw(g, g->task_count);
	struct espl__move *move;

	if (g->task_count == 0)
		return;
	move = g->tasks[i];
	g->tasks[i] = g->tasks[--g->task_count];
	espl__move_work(move);
	espl__move_done(move, g->now);
}

static void
deliver(struct rig *g, struct end *e)
{
	struct espl__reader r;
	uint8_t type;
	size_t used;

	if (espl__frame_get(&e->wire, 0, &type, &r, &used) != 1)
		return;
	cr_assert_eq(espl__mover_receive(e->mover, type, &r, g->now), 0,
	    "seed %llu: a good message of type %u was refused", (unsigned long long)g->seed, type);
	memmove(e->wire.data, e->wire.data + used, e->wire.size - used);
	e->wire.size -= used;
}

/* An end dies: what is on its way is lost, and its threads are still at work for a while. */
static void
kill_end(struct rig *g, struct end *e)
{
	struct end *other = &g->ends[!e->index];

	g->deaths++;
	espl__mover_free(e->mover);
	espl__buf_clear(&e->wire);
	espl__buf_clear(&other->wire);
	begin_life(e);
	espl__mover_restart(other->mover);
}

static int
is_done(const struct rig *g)
{
	for (int i = 0; i < 2; i++)
		for (int n = 0; n < NAMES; n++)
			if (g->ends[i].puts[n] || g->ends[i].gets[n])
				return 0;
	return g->task_count == 0;
}

static void
check_end(struct rig *g)
{
	for (int n = 0; n < NAMES; n++) {
		char *one = espl__format("%s/0/n%d", g->dir, n),
		     *two = espl__format("%s/1/n%d", g->dir, n);
		struct stat a, b;
		char *file = espl__format("%s/a file0", one),
		     *copy = espl__format("%s/a file0", two);

		cr_assert_neq(espl__stored_digest(one), 0);
		cr_assert_eq(espl__stored_digest(one), espl__stored_digest(two));
		cr_assert_eq(espl__checkpoint_check(one, NULL), ESPL_OK);
		cr_assert_eq(espl__checkpoint_check(two, NULL), ESPL_OK);
		cr_assert(stat(file, &a) == 0 && stat(copy, &b) == 0 && a.st_mode == b.st_mode);
		free(one);
		free(two);
		free(file);
		free(copy);
	}
	for (int i = 0; i < 2; i++) {
		char *path = espl__format("%s/%d", g->dir, i);
		DIR *dir = opendir(path);
		struct dirent *e;

		while ((e = readdir(dir)) != NULL)
			cr_assert(e->d_name[0] == '.' ? strlen(e->d_name) < 3 : e->d_name[0] == 'n',
			    "seed %llu: %s is left", (unsigned long long)g->seed, e->d_name);
		closedir(dir);
		free(path);
	}
}

static void
close_rig(struct rig *g)
{
	for (int i = 0; i < 2; i++) {
		espl__mover_free(g->ends[i].mover);
		espl__buf_free(&g->ends[i].wire);
	}
	cr_assert_eq(g->task_count, 0);
	(void)espl__tree_remove(g->dir, NULL);
}

static struct rig
run_case(uint64_t seed, size_t most)
{
	struct rig g;
	unsigned steps = 0, until;

	open_rig(&g, seed, most);
	until = (unsigned)draw(&g, 400); /* then nothing dies or fails any more */
	while (!is_done(&g)) {
		struct end *e = &g.ends[draw(&g, 2)];

		cr_assert_lt(++steps, 1000000, "seed %llu: it does not end",
		    (unsigned long long)seed);
		g.now += (int64_t)draw(&g, 8) * MS;
		fail_syncs = steps < until && draw(&g, 20) == 0;
		switch (draw(&g, steps < until ? 41 : 40)) {
		case 40: kill_end(&g, e); break;
		default:
			if (steps % 3 == 0)
				run_task(&g);
			else if (steps % 3 == 1)
				deliver(&g, e);
			else
				(void)espl__mover_pump(e->mover, &g.ends[!e->index].wire,
				    g.ends[!e->index].wire.size + draw(&g, 100000), g.now);
		}
	}
	fail_syncs = 0;
	check_end(&g);
	close_rig(&g);
	return g;
}

Test(mover, folders_arrive_whole_though_either_end_dies_at_any_step)
{
	const char *said = getenv("SEED"), *many = getenv("MOVER_CASES");
	uint64_t first = said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL) * 1000000;
	uint64_t count = said != NULL ? 1
	    : many != NULL            ? strtoull(many, NULL, 10)
				      : 400,
		 deaths = 0, refusals = 0;

	fprintf(stderr, "mover: %llu cases from SEED=%llu\n", (unsigned long long)count,
	    (unsigned long long)first);
	for (uint64_t i = 0; i < count; i++) {
		struct rig g = run_case(first + i, i % 20 == 0 ? 300000 : 3000);

		deaths += g.deaths;
		refusals += g.refusals;
	}
	cr_assert(said != NULL || deaths > count / 2, "hardly anything died: %llu deaths",
	    (unsigned long long)deaths);
	cr_assert(said != NULL || refusals > 0, "no disk was full");
}

/* A rig with nothing to do but to put one folder of that size. */
static void
put_one(struct rig *g, size_t size)
{
	open_rig(g, 7, 1000);
	for (int i = 0; i < 2; i++)
		for (int n = 0; n < NAMES; n++)
			g->ends[i].puts[n] = g->ends[i].gets[n] = 0;
	for (int i = 0; i < 2; i++)
		kill_end(g, &g->ends[i]);
	make_sealed(g, 0, 0, size);
	while (g->task_count > 0)
		run_task(g);
	g->ends[0].puts[0] = 1;
	espl__mover_put(g->ends[0].mover, "n0");
}

/* A link of 1 MB/s: what is put into it waits there no longer than some ms, and it is never idle.
 */
Test(mover, a_slow_link_holds_little)
{
	struct rig g;
	struct end *from, *to;
	size_t most = 0, sent = 0;
	int64_t begun, queue_ns = 0;

	put_one(&g, (1 << 20) - 1);
	from = &g.ends[0];
	to = &g.ends[1];
	begun = g.now;
	while (from->puts[0]) {
		size_t before;

		while (g.task_count > 0)
			run_task(&g);
		(void)espl__mover_pump(from->mover, &to->wire, to->wire.size + 262144, g.now);
		(void)espl__mover_pump(to->mover, &from->wire, SIZE_MAX, g.now);
		before = to->wire.size;
		most = sent > 200000 && before > most ? before : most;
		deliver(&g, to);
		deliver(&g, from);
		sent += before - to->wire.size;
		queue_ns = (int64_t)(before - to->wire.size) * 1000; /* a byte takes 1 us */
		g.now += queue_ns > 0 ? queue_ns : MS;
		cr_assert_lt(g.now - begun, 60000 * MS);
	}
	cr_assert_lt(most, 40000, "%zu bytes wait in a link of 1 MB/s", most);
	cr_assert_lt(g.now - begun, (int64_t)(sent * 1000) * 3 / 2, "the link was idle");
	close_rig(&g);
}

/* What is on its way arrives, then the replies, and a fifth of a millisecond passes. */
static void
pass_on(struct rig *g, struct end *from, struct end *to)
{
	while (to->wire.size > 0)
		deliver(g, to);
	(void)espl__mover_pump(to->mover, &from->wire, SIZE_MAX, g->now);
	while (from->wire.size > 0)
		deliver(g, from);
	g->now += MS / 5;
}

/* A fast link, whose ends have their turns only now and then: all that was sent has been taken when
 * the sender has its next turn, which must not keep its chunks small. */
Test(mover, chunks_of_a_fast_link_are_large)
{
	struct rig g;
	struct end *from, *to;
	size_t sent = 0, count = 0;

	put_one(&g, (8 << 20) - 1);
	from = &g.ends[0];
	to = &g.ends[1];
	while (from->puts[0]) {
		while (g.task_count > 0)
			run_task(&g);
		(void)espl__mover_pump(from->mover, &to->wire, SIZE_MAX, g.now);
		if (to->wire.size > 4000) {
			sent += to->wire.size;
			for (size_t left = SIZE_MAX; to->wire.size < left;) {
				left = to->wire.size;
				deliver(&g, to);
				count++;
			}
		}
		pass_on(&g, from, to);
		cr_assert_lt(g.now, 600000 * MS);
	}
	cr_assert_gt(sent / count, 20000, "%zu bytes in %zu chunks", sent, count);
	close_rig(&g);
}

/* A disk that takes nothing for a while does not stop the sender before some MB wait for it. */
Test(mover, a_slow_disk_stops_the_sender_late)
{
	struct rig g;
	struct end *from, *to;
	size_t sent = 0;

	put_one(&g, (8 << 20) - 1);
	from = &g.ends[0];
	to = &g.ends[1];
	for (int turn = 0; turn < 3000; turn++) {
		while (g.task_count > 0 && sent == 0)
			run_task(&g);
		for (unsigned i = g.task_count; i > 0 && sent > 0; i--)
			if (espl__move_view(g.tasks[i - 1]).outgoing) {
				struct espl__move *move = g.tasks[i - 1];

				g.tasks[i - 1] = g.tasks[--g.task_count];
				espl__move_work(move);
				espl__move_done(move, g.now);
			}
		(void)espl__mover_pump(from->mover, &to->wire, SIZE_MAX, g.now);
		sent += to->wire.size > 4000 ? to->wire.size : 0;
		pass_on(&g, from, to);
	}
	cr_assert_gt(sent, (size_t)3 << 20, "%zu bytes were sent", sent);
	cr_assert_lt(sent, (size_t)6 << 20, "%zu bytes were sent", sent);
	while (from->puts[0]) {
		while (g.task_count > 0)
			run_task(&g);
		(void)espl__mover_pump(from->mover, &to->wire, SIZE_MAX, g.now);
		(void)espl__mover_pump(to->mover, &from->wire, SIZE_MAX, g.now);
		deliver(&g, to);
		deliver(&g, from);
		g.now += MS / 5;
	}
	close_rig(&g);
}

/* What it must not do: write outside of the folder, or believe another digest. */
Test(mover, a_stream_that_is_not_as_announced_is_refused)
{
	struct espl__unpack u;
	struct espl__pack p;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf stream = { NULL, 0, 0 };
	struct rig g;
	char *from, *to;

	open_rig(&g, 11, 1000);
	make_sealed(&g, 0, 0, 1000);
	from = place_of(&g.ends[0], "n0");
	to = place_of(&g.ends[1], "n0");
	cr_assert_eq(espl__pack_open(&p, from, &diag), ESPL_OK);
	while (stream.size < p.size)
		cr_assert_eq(espl__pack_read(&p, 1000, &stream, &diag), ESPL_OK);
	cr_assert_eq(espl__unpack_open(&u, to, p.digest + 1, p.size, &diag), ESPL_OK);
	cr_assert_eq(espl__unpack_write(&u, stream.data, stream.size, &diag), ESPL_E_CONFIG);
	espl__unpack_drop(&u);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	stream.data[stream.size - 1] ^= 1; /* a byte of a file, or of a mode */
	cr_assert_eq(espl__unpack_open(&u, to, p.digest, p.size, &diag), ESPL_OK);
	(void)espl__unpack_write(&u, stream.data, stream.size - 1, &diag);
	cr_assert_eq(espl__unpack_close(&u, &diag), ESPL_E_CONFIG, "it is not complete");
	espl__unpack_drop(&u);
	espl__pack_close(&p);
	espl__buf_free(&stream);
	free(from);
	free(to);
	while (g.task_count > 0)
		run_task(&g);
	close_rig(&g);
}
