/* test_outputs.c - output directories of trials that move: what arrives, what is left out, and that
 * no stream, whatever it contains, can write outside the output directory.
 *
 * SEED= repeats one damaged stream.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/rng.h"
#include "node/wire.h"
#include "transfer/mover.h"
#include "transfer/outputs.h"

#define MS INT64_C(1000000)

/* "from" and "to" are the trial's directories at both ends. */
struct rig {
	char dir[32], from[64], to[64], out[96], place[96];
};

static void
open_rig(struct rig *g)
{
	strcpy(g->dir, "/tmp/espl-outputs-XXXXXX");
	cr_assert_not_null(mkdtemp(g->dir));
	snprintf(g->from, sizeof g->from, "%s/from", g->dir);
	snprintf(g->to, sizeof g->to, "%s/to", g->dir);
	snprintf(g->out, sizeof g->out, "%s/output", g->from);
	snprintf(g->place, sizeof g->place, "%s/output", g->to);
	cr_assert_eq(espl__dir_make(g->out, NULL), ESPL_OK);
	cr_assert_eq(mkdir(g->to, 0755), 0);
}

static void
close_rig(struct rig *g)
{
	cr_assert_eq(espl__tree_remove(g->dir, NULL), ESPL_OK);
}

static void
write_in(const char *dir, const char *name, const char *text)
{
	char *path = espl__format("%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f, "%s", path);
	fputs(text, f);
	fclose(f);
	free(path);
}

static void
make_dir(const char *dir, const char *name)
{
	char *path = espl__format("%s/%s", dir, name);

	cr_assert_eq(mkdir(path, 0755), 0);
	free(path);
}

static int
holds(const char *dir, const char *name, const char *text)
{
	char *path = espl__format("%s/%s", dir, name);
	struct espl__buf b = { NULL, 0, 0 };
	int same = espl__file_read(path, 2 << 20, &b, NULL) == ESPL_OK &&
	    strcmp(espl__buf_text(&b), text) == 0;

	espl__buf_free(&b);
	free(path);
	return same;
}

static int
is_there(const char *dir, const char *name)
{
	char *path = espl__format("%s/%s", dir, name);
	struct stat st;
	int there = lstat(path, &st) == 0;

	free(path);
	return there;
}

/* The names in a directory, blanks between. */
static void
list_names(const char *dir, char to[200])
{
	struct dirent **list;
	int count = scandir(dir, &list, NULL, alphasort);

	to[0] = '\0';
	cr_assert_geq(count, 0);
	for (int i = 0; i < count; i++) {
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
			cr_assert_lt(strlen(to) + strlen(list[i]->d_name), 190);
			strcat(strcat(to, list[i]->d_name), " ");
		}
		free(list[i]);
	}
	free(list);
}

static struct espl__buf
read_all(struct espl__output_pack *p, size_t step)
{
	struct espl__buf b = { NULL, 0, 0 };
	size_t before;

	do {
		before = b.size;
		cr_assert_eq(espl__output_pack_read(p, step, &b, NULL), ESPL_OK);
	} while (b.size > before);
	cr_assert_eq(b.size, p->size, "%zu bytes, not the %llu announced", b.size,
	    (unsigned long long)p->size);
	return b;
}

static espl_status
take_all(const char *place, const struct espl__buf *b, size_t step, struct espl__diag *diag)
{
	struct espl__output_unpack u;
	espl_status status = espl__output_unpack_open(&u, place, diag);

	for (size_t at = 0; status == ESPL_OK && at < b->size; at += step)
		status = espl__output_unpack_write(&u, b->data + at,
		    b->size - at < step ? b->size - at : step, diag);
	if (status == ESPL_OK)
		status = espl__output_unpack_close(&u, diag);
	espl__output_unpack_drop(&u);
	return status;
}

/* Sends what is new; returns how many bytes that was. */
static size_t
send_new(struct rig *g, size_t step)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__output_pack p;
	struct espl__buf b;
	size_t size;

	cr_assert_eq(espl__output_pack_open(&p, g->out, &diag), ESPL_OK, "%s", diag.text);
	b = read_all(&p, step);
	cr_assert_eq(take_all(g->place, &b, step, &diag), ESPL_OK, "%s", diag.text);
	espl__output_sent(g->out);
	size = b.size;
	espl__buf_free(&b);
	espl__output_pack_close(&p);
	return size;
}

Test(outputs, files_arrive_and_only_new_ones_are_sent_again)
{
	struct rig g;
	struct stat st;
	char path[200], names[200];

	open_rig(&g);
	write_in(g.out, "a", "one");
	write_in(g.out, "empty", "");
	make_dir(g.out, "below");
	make_dir(g.out, "below/deep");
	write_in(g.out, "below/deep/b", "two two");
	snprintf(path, sizeof path, "%s/latest", g.out);
	cr_assert_eq(symlink("below/deep", path), 0);
	snprintf(path, sizeof path, "%s/a", g.out);
	cr_assert_eq(chmod(path, 0700), 0);
	cr_assert_gt(send_new(&g, 5), 0);
	cr_assert(holds(g.place, "a", "one") && holds(g.place, "empty", ""));
	cr_assert(holds(g.place, "below/deep/b", "two two"));
	cr_assert(holds(g.place, "latest/b", "two two"));
	snprintf(path, sizeof path, "%s/a", g.place);
	cr_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700);
	list_names(g.to, names);
	cr_assert_str_eq(names, "output ", "%s", names);
	cr_assert_eq(send_new(&g, 1000), 0, "nothing is new");
	write_in(g.out, "below/deep/b", "two, longer");
	write_in(g.place, "mine", "of another node");
	cr_assert_eq(send_new(&g, 1000), 25 + strlen("below/deep/b") + 11);
	cr_assert(holds(g.place, "below/deep/b", "two, longer"));
	cr_assert(holds(g.place, "mine", "of another node"));
	close_rig(&g);
}

Test(outputs, what_is_not_a_file_of_the_directory_is_left_out_and_named)
{
	struct rig g;
	struct espl__output_pack p;
	char path[200];

	open_rig(&g);
	write_in(g.dir, "secret", "secret");
	snprintf(path, sizeof path, "%s/up", g.out);
	cr_assert_eq(symlink("../../secret", path), 0);
	snprintf(path, sizeof path, "%s/abs", g.out);
	cr_assert_eq(symlink("/etc", path), 0);
	snprintf(path, sizeof path, "%s/pipe", g.out);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(espl__output_pack_open(&p, g.out, NULL), ESPL_OK);
	cr_assert_eq(p.size, 0);
	cr_assert_not_null(strstr(p.note, "is not a file, or is a link that leads out"));
	espl__output_pack_close(&p);
	/* the directory itself */
	cr_assert_eq(espl__tree_remove(g.out, NULL), ESPL_OK);
	cr_assert_eq(symlink("/etc", g.out), 0);
	cr_assert_neq(espl__output_pack_open(&p, g.out, NULL), ESPL_OK);
	espl__output_pack_close(&p);
	cr_assert_eq(unlink(g.out), 0);
	cr_assert_eq(espl__output_pack_open(&p, g.out, NULL), ESPL_OK, "it was removed");
	cr_assert_eq(p.size, 0);
	espl__output_pack_close(&p);
	close_rig(&g);
}

Test(outputs, files_that_change_while_they_are_read_are_sent_again)
{
	struct rig g;
	struct espl__output_pack p;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf b;
	char path[200];

	open_rig(&g);
	write_in(g.out, "gone", "1");
	write_in(g.out, "grows", "22");
	write_in(g.out, "shrinks", "333");
	make_dir(g.out, "moved");
	write_in(g.out, "moved/file", "4444");
	write_in(g.dir, "file", "5555");
	cr_assert_eq(espl__output_pack_open(&p, g.out, NULL), ESPL_OK);
	snprintf(path, sizeof path, "%s/gone", g.out);
	cr_assert_eq(unlink(path), 0);
	write_in(g.out, "grows", "22 and more");
	write_in(g.out, "shrinks", "3");
	snprintf(path, sizeof path, "%s/moved", g.out); /* a link takes its place */
	cr_assert_eq(espl__tree_remove(path, NULL), ESPL_OK);
	cr_assert_eq(symlink(g.dir, path), 0);
	b = read_all(&p, 7);
	cr_assert_eq(take_all(g.place, &b, 3, &diag), ESPL_OK, "%s", diag.text);
	cr_assert(!is_there(g.place, "gone") && holds(g.place, "grows", "22"));
	cr_assert(holds(g.place, "shrinks", "3"));
	cr_assert(!is_there(g.place, "moved"), "a link was followed");
	espl__output_sent(g.out);
	espl__buf_free(&b);
	espl__output_pack_close(&p);
	cr_assert_gt(send_new(&g, 100), 0);
	cr_assert(holds(g.place, "grows", "22 and more") && holds(g.place, "shrinks", "3"));
	cr_assert_eq(send_new(&g, 100), 0);
	close_rig(&g);
}

Test(outputs, too_large_a_file_is_left_out_and_the_others_are_sent)
{
	struct rig g;
	struct espl__output_pack p;
	char path[200];

	open_rig(&g);
	write_in(g.out, "small", "s");
	write_in(g.out, "large", "l");
	snprintf(path, sizeof path, "%s/large", g.out);
	cr_assert_eq(truncate(path, 1000000001), 0);
	cr_assert_eq(espl__output_pack_open(&p, g.out, NULL), ESPL_OK);
	cr_assert_eq(p.size, 25 + 5 + 1);
	cr_assert_not_null(strstr(p.note, "'large' is too large"), "%s", p.note);
	espl__output_pack_close(&p);
	(void)send_new(&g, 100);
	cr_assert(holds(g.place, "small", "s") && !is_there(g.place, "large"));
	close_rig(&g);
}

/* ---- hostile streams ------------------------------------------------------------------------- */

static void
put_file(struct espl__buf *b, const char *name, size_t length, char kind, const char *content,
    uint64_t good)
{
	espl__put_u32(b, (uint32_t)length);
	espl__put(b, name, length);
	espl__put_u8(b, (uint8_t)kind);
	espl__put_u32(b, 0644);
	espl__put_u64(b, strlen(content));
	if (content[0] != '\0')
		espl__put(b, content, strlen(content));
	espl__put_u64(b, good);
}

static espl_status
take_one(struct rig *g, const char *name, size_t length, char kind, const char *content,
    uint64_t good)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf b = { NULL, 0, 0 };
	espl_status status;

	put_file(&b, name, length, kind, content, good);
	status = take_all(g->place, &b, b.size, &diag);
	espl__buf_free(&b);
	return status;
}

Test(outputs, a_directory_has_one_name)
{
	static const char *const bad[] = { "output", "/output", "1/output/", "1/output/x",
		"01/output", "-1/output", " 1/output", "1/../output", "99999999999999999999/output",
		"1/outputs" };
	uint64_t trial;
	char *place;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		cr_assert_eq(espl__output_name(bad[i], &trial), -1, "%s", bad[i]);
		cr_assert_null(espl__named_place("/run", bad[i]), "%s", bad[i]);
	}
	place = espl__named_place("/run", "12/output");
	cr_assert_str_eq(place, "/run/trials/12/output");
	free(place);
	place = espl__named_place("/run", "2199023255555/output"); /* 2 << 40 | 3 */
	cr_assert_str_eq(place, "/run/experiments/2/trials/3/output");
	free(place);
}

Test(outputs, no_name_leads_out_of_the_directory)
{
	static const char *const bad[] = { "../x", "/tmp/x", "a/../../x", "a/../x", "..", ".",
		"./x", "a/./x", "a//x", "a/", "/", "x/.." };
	static const char *const targets[] = { "/etc", "..", "../..", "a/../../x", "" };
	struct rig g;
	char names[200], *many = espl__alloc(5001);

	open_rig(&g);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		cr_assert_eq(take_one(&g, bad[i], strlen(bad[i]), 'f', "x", 1), ESPL_E_CONFIG, "%s",
		    bad[i]);
		cr_assert_eq(take_one(&g, bad[i], strlen(bad[i]), 'l', "x", 1), ESPL_E_CONFIG);
	}
	for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
		cr_assert_eq(take_one(&g, "l", 1, 'l', targets[i], strlen(targets[i])),
		    ESPL_E_CONFIG, "%s", targets[i]);
	memset(many, 'n', 5000);
	cr_assert_eq(take_one(&g, many, 5000, 'f', "x", 1), ESPL_E_CONFIG);
	cr_assert_eq(take_one(&g, "a\0b", 3, 'f', "x", 1), ESPL_E_CONFIG);
	cr_assert_eq(take_one(&g, "", 0, 'f', "x", 1), ESPL_E_CONFIG);
	cr_assert_eq(take_one(&g, "a", 1, 'd', "x", 1), ESPL_E_CONFIG);
	cr_assert_eq(take_one(&g, "a", 1, 'f', "x", 2), ESPL_E_CONFIG);
	cr_assert_eq(take_one(&g, "l", 1, 'l', "x", 2), ESPL_E_CONFIG);
	list_names(g.place, names);
	cr_assert_str_eq(names, "", "%s", names);
	list_names(g.to, names);
	cr_assert_str_eq(names, "output ", "%s", names);
	cr_assert_eq(take_one(&g, "..x", 3, 'f', "x", 1), ESPL_OK);
	free(many);
	close_rig(&g);
}

Test(outputs, no_link_is_followed_where_files_arrive)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf b = { NULL, 0, 0 };
	struct rig g;
	char path[200], names[200];

	open_rig(&g);
	make_dir(g.dir, "outside");
	make_dir(g.to, "output");
	snprintf(path, sizeof path, "%s/d", g.place);
	cr_assert_eq(symlink("../../outside", path), 0);
	write_in(g.dir, "mine", "mine");
	snprintf(path, sizeof path, "%s/f", g.place);
	cr_assert_eq(symlink("../../mine", path), 0);
	write_in(g.place, "was", "a file");
	make_dir(g.place, "dir");
	put_file(&b, "d/x", 3, 'f', "new", 3);
	put_file(&b, "f", 1, 'f', "new", 3);
	put_file(&b, "was/x", 5, 'f', "new", 3);
	cr_assert_eq(take_all(g.place, &b, 4, &diag), ESPL_OK, "%s", diag.text);
	cr_assert(holds(g.place, "d/x", "new") && holds(g.place, "was/x", "new"));
	snprintf(path, sizeof path, "%s/outside", g.dir);
	list_names(path, names);
	cr_assert_str_eq(names, "", "%s", names);
	cr_assert(holds(g.place, "f", "new") && holds(g.dir, "mine", "mine"));
	/* a link of the stream, and a file behind it */
	espl__buf_clear(&b);
	put_file(&b, "up", 2, 'l', "dir", 3);
	put_file(&b, "up/x", 4, 'f', "new", 3);
	cr_assert_eq(take_all(g.place, &b, 100, &diag), ESPL_OK, "%s", diag.text);
	cr_assert(holds(g.place, "up/x", "new") && !is_there(g.place, "dir/x"));
	/* a file that cannot be written does not prevent others */
	espl__buf_clear(&b);
	put_file(&b, "dir", 3, 'f', "new", 3);
	put_file(&b, "next", 4, 'f', "new", 3);
	cr_assert_eq(take_all(g.place, &b, 100, &diag), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(diag.text, "cannot write 'dir': Is a directory"), "%s",
	    diag.text);
	cr_assert(holds(g.place, "next", "new"));
	/* the place itself */
	cr_assert_eq(espl__tree_remove(g.place, NULL), ESPL_OK);
	cr_assert_eq(symlink("../outside", g.place), 0);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_neq(take_all(g.place, &b, 100, &diag), ESPL_OK);
	list_names(path, names);
	cr_assert_str_eq(names, "", "%s", names);
	espl__buf_free(&b);
	close_rig(&g);
}

Test(outputs, damaged_streams_change_nothing_else)
{
	const char *said = getenv("SEED");
	uint64_t first = said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL) * 1000000;
	char names[200];
	struct rig g;

	open_rig(&g);
	write_in(g.dir, "sentinel", "as it was");
	for (uint64_t seed = first; seed < first + (said != NULL ? 1 : 2000); seed++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__buf b = { NULL, 0, 0 };
		struct espl__rng rng;
		unsigned hits;

		espl__rng_seed(&rng, seed, "outputs");
		put_file(&b, "b./sentinel", 11, 'f', "changed", 7); /* a byte more: "../" */
		put_file(&b, "link", 4, 'l', "a", 1);
		put_file(&b, "link/sentinel", 13, 'f', "changed", 7);
		hits = 1 + (unsigned)(espl__rng_uniform(&rng) * 4);
		for (unsigned i = 0; i < hits; i++) {
			static const char use[] = "./\0\1fl~";
			size_t at = (size_t)(espl__rng_uniform(&rng) * (double)b.size);

			b.data[at] = (uint8_t)use[(size_t)(espl__rng_uniform(&rng) * 8)];
		}
		(void)take_all(g.place, &b, 1 + (size_t)(espl__rng_uniform(&rng) * 50), &diag);
		espl__buf_free(&b);
		list_names(g.dir, names);
		cr_assert_str_eq(names, "from sentinel to ", "SEED=%llu: %s",
		    (unsigned long long)seed, names);
		list_names(g.to, names);
		cr_assert_str_eq(names, "output ", "SEED=%llu: %s", (unsigned long long)seed,
		    names);
		cr_assert(holds(g.dir, "sentinel", "as it was"));
	}
	close_rig(&g);
}

/* ---- two movers ------------------------------------------------------------------------------ */

struct end {
	struct rig *rig;
	int driver;
	struct espl__mover *mover;
	struct espl__buf wire; /* on its way to this end */
	int puts, gots;
	struct espl__diag how;
};
static struct espl__move *tasks[16];
static unsigned task_count;

static char *
place_of(void *ctx, const char *name)
{
	const struct end *e = ctx;

	return strcmp(name, "0/output") == 0 ? espl__strdup(e->driver ? e->rig->place : e->rig->out)
					     : NULL;
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
	(void)ctx;
	cr_assert_lt(task_count, 16);
	tasks[task_count++] = move;
}

static void
note_put(void *ctx, const char *name, const struct espl__diag *diag)
{
	struct end *e = ctx;

	(void)name;
	e->puts++;
	e->how = *diag;
}

static void
note_got(void *ctx, const char *name, const struct espl__diag *diag)
{
	struct end *e = ctx;

	(void)name;
	e->gots++;
	e->how = *diag;
}

static void
no_bucket(void *ctx, struct espl__move *move)
{
	(void)ctx;
	cr_assert_fail("'%s' goes to a bucket", espl__move_view(move).name);
}

static void
open_ends(struct end ends[2], struct rig *g)
{
	task_count = 0;
	memset(ends, 0, 2 * sizeof ends[0]);
	for (int i = 0; i < 2; i++) {
		struct espl__mover_ops ops = { .ctx = &ends[i],
			.place = find_place,
			.work = queue_task,
			.put = note_put,
			.got = note_got,
			.store = i ? no_bucket : NULL };

		ends[i].rig = g;
		ends[i].driver = i;
		ends[i].mover = espl__mover_new(&ops, 1000);
	}
}

static void
turn(struct end ends[2], int64_t *now)
{
	*now += MS;
	while (task_count > 0) {
		struct espl__move *move = tasks[--task_count];

		espl__move_work(move);
		espl__move_done(move, *now);
	}
	for (int i = 0; i < 2; i++) {
		struct espl__reader r;
		uint8_t type;
		size_t used;

		(void)espl__mover_pump(ends[i].mover, &ends[!i].wire, SIZE_MAX, *now);
		while (espl__frame_get(&ends[!i].wire, 0, &type, &r, &used) == 1) {
			cr_assert_eq(espl__mover_receive(ends[!i].mover, type, &r, *now), 0);
			memmove(ends[!i].wire.data, ends[!i].wire.data + used,
			    ends[!i].wire.size - used);
			ends[!i].wire.size -= used;
		}
	}
}

static void
close_ends(struct end ends[2])
{
	for (int i = 0; i < 2; i++) {
		espl__mover_free(ends[i].mover);
		espl__buf_free(&ends[i].wire);
	}
	while (task_count > 0) {
		struct espl__move *move = tasks[--task_count];

		espl__move_work(move);
		espl__move_done(move, 0);
	}
}

Test(outputs, a_mover_puts_a_directory_and_says_what_is_missing)
{
	struct end ends[2];
	struct rig g;
	int64_t now = 1000 * MS;
	char path[200];

	open_rig(&g);
	write_in(g.out, "a", "one");
	snprintf(path, sizeof path, "%s/large", g.out);
	write_in(g.out, "large", "l");
	cr_assert_eq(truncate(path, 1000000001), 0);
	open_ends(ends, &g);
	espl__mover_put(ends[0].mover, "0/output");
	for (int i = 0; i < 100; i++)
		turn(ends, &now);
	cr_assert_eq(ends[0].puts, 1);
	cr_assert_eq(ends[0].how.status, ESPL_OK, "%s", ends[0].how.text);
	cr_assert_not_null(strstr(ends[0].how.text, "'large' is too large"));
	cr_assert(holds(g.place, "a", "one"));
	cr_assert_eq(espl__mover_sums(ends[0].mover, ESPL__MOVED_OUTPUTS)->count, 1);
	cr_assert_eq(espl__mover_sums(ends[0].mover, ESPL__MOVED_OUT)->count, 0);
	/* nothing is new */
	espl__mover_put(ends[0].mover, "0/output");
	for (int i = 0; i < 100; i++)
		turn(ends, &now);
	cr_assert_eq(ends[0].puts, 2);
	cr_assert_eq(espl__mover_sums(ends[0].mover, ESPL__MOVED_OUTPUTS)->count, 1);
	/* nobody can ask for it */
	espl__mover_get(ends[1].mover, "0/output");
	for (int i = 0; i < 100; i++)
		turn(ends, &now);
	cr_assert_eq(ends[1].how.status, ESPL_E_UNKNOWN);
	cr_assert_eq(ends[0].puts, 2);
	close_ends(ends);
	close_rig(&g);
}

Test(outputs, a_put_is_cancelled_at_any_step_and_can_be_repeated)
{
	for (int steps = 0; steps < 40; steps++) {
		struct end ends[2];
		struct rig g;
		int64_t now = 1000 * MS;
		char names[200], *text = espl__alloc(300001);

		open_rig(&g);
		memset(text, 'x', 300000);
		write_in(g.out, "a", "one");
		write_in(g.out, "b", text);
		open_ends(ends, &g);
		espl__mover_put(ends[0].mover, "0/output");
		for (int i = 0; i < steps; i++)
			turn(ends, &now);
		espl__mover_cancel(ends[0].mover, "0/output");
		cr_assert(!espl__mover_busy(ends[0].mover, "0/output", INT64_MIN));
		for (int i = 0; i < 100; i++)
			turn(ends, &now);
		cr_assert_leq(ends[0].puts, 1);
		list_names(g.to, names);
		cr_assert(strcmp(names, "") == 0 || strcmp(names, "output ") == 0, "%s", names);
		ends[0].puts = 0;
		espl__mover_put(ends[0].mover, "0/output");
		if (steps % 2 == 0) { /* the driver is another one */
			turn(ends, &now);
			espl__mover_restart(ends[0].mover);
			espl__mover_restart(ends[1].mover);
		}
		for (int i = 0; i < 300; i++)
			turn(ends, &now);
		cr_assert_eq(ends[0].puts, 1);
		cr_assert_eq(ends[0].how.status, ESPL_OK, "%s", ends[0].how.text);
		cr_assert(holds(g.place, "a", "one") && holds(g.place, "b", text));
		list_names(g.to, names);
		cr_assert_str_eq(names, "output ", "%s", names);
		free(text);
		close_ends(ends);
		close_rig(&g);
	}
}

Test(outputs, what_has_arrived_of_a_cancelled_put_is_not_sent_again)
{
	struct end ends[2];
	struct rig g;
	int64_t now = 1000 * MS;
	char name[16], *text = espl__alloc((1 << 20) + 1);
	uint64_t bytes;

	open_rig(&g);
	memset(text, 'x', 1 << 20);
	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof name, "%02d", i);
		write_in(g.out, name, text);
	}
	open_ends(ends, &g);
	espl__mover_put(ends[0].mover, "0/output");
	for (int i = 0; i < 100000 && !is_there(g.place, "11"); i++)
		turn(ends, &now);
	espl__mover_cancel(ends[0].mover, "0/output");
	turn(ends, &now);
	espl__mover_put(ends[0].mover, "0/output");
	for (int i = 0; i < 100000 && ends[0].puts == 0; i++)
		turn(ends, &now);
	cr_assert_eq(ends[0].how.status, ESPL_OK, "%s", ends[0].how.text);
	bytes = espl__mover_sums(ends[0].mover, ESPL__MOVED_OUTPUTS)->bytes;
	cr_assert(bytes > (uint64_t)4 << 20 && bytes < (uint64_t)12 << 20, "%llu bytes",
	    (unsigned long long)bytes);
	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof name, "%02d", i);
		cr_assert(holds(g.place, name, text), "%s", name);
	}
	free(text);
	close_ends(ends);
	close_rig(&g);
}
