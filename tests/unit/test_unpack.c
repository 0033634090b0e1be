/* test_unpack.c - checkpoints that a hostile node sends: whatever the stream contains, nothing
 * outside of the directory is made, opened or changed, and what arrives can be removed again.
 *
 * SEED= repeats one random stream.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/below.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "transfer/pack.h"

/* "run" gets the checkpoint; "victim" must stay as it is. */
struct rig {
	char dir[40], run[64], victim[64], place[96], outer[16];
};

static void
open_rig(struct rig *g)
{
	char path[160];
	FILE *f;

	strcpy(g->dir, "/tmp/espl-unpack-XXXXXX");
	cr_assert_not_null(mkdtemp(g->dir));
	snprintf(g->run, sizeof g->run, "%s/run", g->dir);
	snprintf(g->victim, sizeof g->victim, "%s/victim", g->dir);
	snprintf(g->place, sizeof g->place, "%s/checkpoint-1", g->run);
	strcpy(g->outer, "../../victim");
	cr_assert(mkdir(g->run, 0755) == 0 && mkdir(g->victim, 0755) == 0);
	snprintf(path, sizeof path, "%s/secret", g->victim);
	f = fopen(path, "w");
	cr_assert(f != NULL && fputs("0123", f) >= 0 && fclose(f) == 0);
}

/* Only what was there is there, as it was. */
static void
check_victim(const struct rig *g, uint64_t seed)
{
	struct dirent *e;
	struct stat st;
	DIR *dir = opendir(g->victim);
	int n = 0;

	cr_assert_not_null(dir);
	while ((e = readdir(dir)) != NULL)
		n += e->d_name[0] != '.' || e->d_name[1] != '\0';
	cr_assert_eq(n, 2, "seed %" PRIu64 ": something was made outside", seed); /* and ".." */
	cr_assert(fstatat(dirfd(dir), "secret", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size == 4 &&
	    S_ISREG(st.st_mode));
	closedir(dir);
}

static void
close_rig(struct rig *g, uint64_t seed)
{
	check_victim(g, seed);
	cr_assert_eq(espl__tree_remove(g->dir, NULL), ESPL_OK, "seed %" PRIu64, seed);
	cr_assert_eq(access(g->dir, F_OK), -1);
}

/* ---- streams ------------------------------------------------------------------------------ */

struct stream {
	struct espl__buf text, files;
	uint64_t entries;
};

static void
begin_stream(struct stream *s)
{
	memset(s, 0, sizeof *s);
	espl__print(&s->text, "%s", ESPL__CHECKPOINT_HEADER);
}

static void
add_line(struct stream *s, const char *line)
{
	espl__print(&s->text, "%s\n", line);
	s->entries++;
}

static void
add_file(struct stream *s, const char *name, const char *content, uint32_t mode)
{
	espl__print(&s->text, "f %08x %zu %s\n", espl__crc32c(0, content, strlen(content)),
	    strlen(content), name);
	s->entries++;
	espl__put_u32(&s->files, mode);
	espl__put(&s->files, content, strlen(content));
}

static espl_status
take_stream(struct stream *s, const char *place, struct espl__diag *diag)
{
	struct espl__unpack u;
	struct espl__buf all = { NULL, 0, 0 };
	uint32_t crc = espl__crc32c(0, s->text.data, s->text.size);
	espl_status status;
	uint64_t digest;

	espl__print(&s->text, "end %" PRIu64 " %08" PRIx32 "\n", s->entries, crc);
	digest = espl__digest(0, s->text.data, s->text.size);
	espl__put_u32(&all, (uint32_t)s->text.size);
	espl__put(&all, s->text.data, s->text.size);
	if (s->files.size > 0)
		espl__put(&all, s->files.data, s->files.size);
	status = espl__unpack_open(&u, place, digest, all.size, diag);
	if (status == ESPL_OK)
		status = espl__unpack_write(&u, all.data, all.size, diag);
	if (status == ESPL_OK)
		status = espl__unpack_close(&u, diag);
	espl__unpack_drop(&u);
	espl__buf_free(&all);
	espl__buf_free(&s->text);
	espl__buf_free(&s->files);
	return status;
}

/* ---- what a link may be ------------------------------------------------------------------- */

Test(unpack, links_that_stay_inside)
{
	static const struct {
		const char *name, *target;
		int inside;
	} cases[] = {
		{ "l", "x", 1 },
		{ "l", "x/y", 1 },
		{ "l", ".", 1 },
		{ "l", "..", 0 },
		{ "l", "../x", 0 },
		{ "l", "/etc", 0 },
		{ "l", "", 0 },
		{ "l", "x/..", 0 },
		{ "l", "x/../../y", 0 },
		{ "l", "x//y", 0 },
		{ "a/l", "..", 1 },
		{ "a/l", "../x", 1 },
		{ "a/l", "../..", 0 },
		{ "a/l", "../../x", 0 },
		{ "a/l", "../../run", 0 },
		{ "a/b/l", "../../x", 1 },
		{ "a/b/l", "../x/../y", 0 },
		{ "a/b/l", "../../../x", 0 },
		{ "a/b/l", "./x", 0 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		cr_assert_eq(espl__link_is_inside(cases[i].name, cases[i].target), cases[i].inside,
		    "%s -> %s", cases[i].name, cases[i].target);
}

Test(unpack, names_that_stay_inside)
{
	static const char *const good[] = { "a", "a/b", "..a", "a../b", ".hidden" };
	static const char *const bad[] = { "", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a",
		"a/../b", "a/./b" };
	char deep[400] = "a";

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		cr_assert(espl__path_is_inside(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_assert(!espl__path_is_inside(bad[i]), "%s", bad[i]);
	for (int i = 1; i < ESPL__BELOW_DEEPEST; i++)
		strcat(deep, "/a");
	cr_assert(espl__path_is_inside(deep));
	strcat(deep, "/a");
	cr_assert(!espl__path_is_inside(deep));
}

/* ---- hostile checkpoints ------------------------------------------------------------------ */

/* The second link would be made in the directory that the first one leads to. */
Test(unpack, a_link_through_a_link)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct stream s;
	struct rig g;
	char line[200];

	open_rig(&g);
	begin_stream(&s);
	add_file(&s, "state", "x", 0644);
	snprintf(line, sizeof line, "l %s zz", g.victim);
	add_line(&s, line);
	add_line(&s, "l /any/target zz/.bash_login");
	cr_assert_neq(take_stream(&s, g.place, &diag), ESPL_OK);
	close_rig(&g, 0);
}

Test(unpack, entries_below_what_is_no_directory)
{
	static const char *const lines[][2] = {
		{ "l . zz", "d zz/sub" },
		{ "l . zz", "l state zz/other" },
		{ "d zz", "l . zz" },
		{ "l sub zz", "d zz" },
		{ "d sub", "l ../../../victim sub/zz/x" },
		{ "d state", "d other" },
		{ "d state/x", "d other" },
		{ "l x state", "d other" },
		{ "l x state/y", "d other" },
	};

	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct stream s;
		struct rig g;

		open_rig(&g);
		begin_stream(&s);
		add_file(&s, "state", "x", 0644);
		add_line(&s, lines[i][0]);
		add_line(&s, lines[i][1]);
		cr_assert_neq(take_stream(&s, g.place, &diag), ESPL_OK, "%s, %s", lines[i][0],
		    lines[i][1]);
		cr_assert_eq(access(g.place, F_OK), -1);
		close_rig(&g, 0);
	}
}

/* What a trial has saved must arrive, with its links; one that leads out is made only for the trial
 * that restores it. */
Test(unpack, links_and_modes_of_a_checkpoint_that_is_whole)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct stream s;
	struct stat st;
	struct rig g;
	char target[100], line[200], path[160];

	open_rig(&g);
	begin_stream(&s);
	add_line(&s, "d sub");
	add_file(&s, "state", "x", 06777);
	add_file(&s, "sub/none", "y", 0);
	add_line(&s, "l ../state sub/latest");
	snprintf(line, sizeof line, "l %s/secret data", g.victim);
	add_line(&s, line);
	cr_assert_eq(take_stream(&s, g.place, &diag), ESPL_OK, "%s", diag.text);
	snprintf(path, sizeof path, "%s/state", g.place);
	cr_assert(stat(path, &st) == 0 && (st.st_mode & 07777) == 0755, "%o", st.st_mode);
	snprintf(path, sizeof path, "%s/sub/none", g.place);
	cr_assert(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "%o", st.st_mode);
	snprintf(path, sizeof path, "%s/sub/latest", g.place);
	cr_assert(readlink(path, target, sizeof target) == 8 && memcmp(target, "../state", 8) == 0);
	snprintf(path, sizeof path, "%s/data", g.place);
	cr_assert(lstat(path, &st) == -1 && errno == ENOENT, "the link was made on the way");
	cr_assert_eq(espl__checkpoint_check(g.place, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(lstat(path, &st), 0, "the trial that restores it has its link");
	close_rig(&g, 0);
}

Test(unpack, sizes_that_were_not_announced)
{
	static const char *const lines[] = { "f 00000000 18446744073709551615 big",
		"f 00000000 9223372036854775807 big", "f 00000000 1000 big", "f 00000000 -1 big" };

	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct stream s;
		struct rig g;

		open_rig(&g);
		begin_stream(&s);
		add_line(&s, lines[i]);
		add_line(&s, lines[i]);
		cr_assert_eq(take_stream(&s, g.place, &diag), ESPL_E_CONFIG, "%s", lines[i]);
		close_rig(&g, 0);
	}
}

Test(unpack, more_than_the_disk_holds_is_refused_at_once)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__unpack u;
	struct rig g;

	open_rig(&g);
	cr_assert_neq(espl__unpack_open(&u, g.place, 1, UINT64_C(1) << 59, &diag), ESPL_OK);
	cr_assert_not_null(strstr(diag.text, "No space left on device"), "%s", diag.text);
	espl__unpack_drop(&u);
	close_rig(&g, 0);
}

/* The other way round: a directory in the run directory, whose MANIFEST names a file that only a
 * link leads to, is not read for another node. */
Test(unpack, nothing_is_read_through_a_link)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 }, out = { NULL, 0, 0 };
	struct espl__pack p;
	struct rig g;
	char path[160];
	FILE *f;

	open_rig(&g);
	cr_assert_eq(mkdir(g.place, 0755), 0);
	snprintf(path, sizeof path, "%s/out", g.place);
	cr_assert_eq(symlink(g.victim, path), 0);
	espl__print(&text, "%sf %08x 4 out/secret\n", ESPL__CHECKPOINT_HEADER,
	    espl__crc32c(0, "0123", 4));
	espl__print(&text, "end 1 %08" PRIx32 "\n", espl__crc32c(0, text.data, text.size));
	snprintf(path, sizeof path, "%s/MANIFEST", g.place);
	f = fopen(path, "w");
	cr_assert(f != NULL && fwrite(text.data, 1, text.size, f) == text.size && fclose(f) == 0);
	cr_assert_neq(espl__checkpoint_check(g.place, &diag), ESPL_OK);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__pack_open(&p, g.place, &diag), ESPL_OK);
	cr_assert_neq(espl__pack_read(&p, 1000, &out, &diag), ESPL_OK);
	cr_assert(out.size < 4 || memmem(out.data, out.size, "0123", 4) == NULL);
	espl__pack_close(&p);
	espl__buf_free(&text);
	espl__buf_free(&out);
	close_rig(&g, 0);
}

/* ---- any checkpoint ----------------------------------------------------------------------- */

static const char *
draw_word(struct espl__rng *rng, const char *const *words, size_t count)
{
	return words[(size_t)(espl__rng_uniform(rng) * (double)count)];
}

static void
draw_path(struct espl__rng *rng, const struct rig *g, char to[300])
{
	static const char *const parts[] = { "a", "b", "zz", "..", ".", "state", "%2e%2e", "victim",
		"a%2fb", "MANIFEST", "secret" };
	int depth = 1 + (int)(espl__rng_uniform(rng) * 4);

	to[0] = '\0';
	if (espl__rng_uniform(rng) < 0.1)
		strcpy(to, g->victim);
	else if (espl__rng_uniform(rng) < 0.1)
		strcpy(to, g->outer);
	while (depth-- > 0) {
		if (to[0] != '\0')
			strcat(to, "/");
		strcat(to, draw_word(rng, parts, sizeof parts / sizeof parts[0]));
	}
}

Test(unpack, random_checkpoints)
{
	const char *said = getenv("SEED");
	uint64_t first = said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL) * 1000;
	unsigned whole = 0;

	for (uint64_t seed = first; seed < first + (said != NULL ? 1 : 800); seed++) {
		struct espl__rng rng;
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct stream s;
		struct rig g;
		int n;

		espl__rng_seed(&rng, seed, "unpack");
		n = 1 + (int)(espl__rng_uniform(&rng) * 6);
		open_rig(&g);
		begin_stream(&s);
		while (n-- > 0) {
			char name[300], target[300], line[700];
			double kind = espl__rng_uniform(&rng);

			draw_path(&rng, &g, name);
			draw_path(&rng, &g, target);
			snprintf(line, sizeof line, "l %s %s", target, name);
			if (kind < 0.3)
				add_file(&s, name, "abcd", (uint32_t)(seed * 2654435761u));
			else if (kind < 0.6)
				snprintf(line, sizeof line, "d %s", name);
			if (kind >= 0.3)
				add_line(&s, line);
		}
		if (take_stream(&s, g.place, &diag) == ESPL_OK) {
			whole++;
			/* that of two links of one name only one is there it may say */
			(void)espl__checkpoint_check(g.place, &diag);
		}
		close_rig(&g, seed);
	}
	cr_assert(said != NULL || whole > 0, "only %u of the streams were whole", whole);
}
