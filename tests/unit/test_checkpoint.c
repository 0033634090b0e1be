/* test_checkpoint.c - checkpoints under faults: what fsync() and syncfs() say is decided here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"

static int syncs, fail_at; /* calls so far; the call that fails, 0: none */

static int
count_sync(void)
{
	if (++syncs != fail_at)
		return 0;
	errno = EIO;
	return -1;
}

int
fsync(int fd)
{
	(void)fd;
	return count_sync();
}

int
syncfs(int fd)
{
	(void)fd;
	return count_sync();
}

struct bench {
	char dir[64], saving[96], place[96];
};

static void
make_saving(const struct bench *b, int files, const char *text)
{
	char path[160];

	cr_assert_eq(mkdir(b->saving, 0777), 0);
	for (int i = 0; i < files; i++) {
		FILE *f;

		snprintf(path, sizeof path, "%s/file%d", b->saving, i);
		f = fopen(path, "w");
		cr_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
	}
}

static void
open_bench(struct bench *b)
{
	snprintf(b->dir, sizeof b->dir, "/tmp/espalier-store-XXXXXX");
	cr_assert(mkdtemp(b->dir) != NULL);
	snprintf(b->saving, sizeof b->saving, "%s/saving-1", b->dir);
	snprintf(b->place, sizeof b->place, "%s/checkpoint-4", b->dir);
	syncs = fail_at = 0;
}

static int
has_text(const struct bench *b, const char *folder, const char *name, const char *text)
{
	struct espl__buf in = { NULL, 0, 0 };
	char *path = espl__format("%s/%s/%s", b->dir, folder, name);
	int same = espl__file_read(path, 100, &in, NULL) == ESPL_OK &&
	    strcmp(espl__buf_text(&in), text) == 0;

	espl__buf_free(&in);
	free(path);
	return same;
}

static int
entries(const char *folder)
{
	struct dirent *e;
	DIR *dir = opendir(folder);
	int n = 0;

	while (dir != NULL && (e = readdir(dir)) != NULL)
		n += e->d_name[0] != '.';
	if (dir != NULL)
		closedir(dir);
	return n;
}

Test(checkpoint, many_files_do_not_wait_for_the_disk_one_by_one)
{
	struct bench b;
	struct espl__diag d = ESPL__DIAG_INIT;
	uint64_t bytes;

	open_bench(&b);
	make_saving(&b, 20000, "x");
	cr_assert_eq(espl__checkpoint_keep(b.saving, b.place, &bytes, &d), ESPL_OK, "%s", d.text);
	cr_assert(bytes == 20000 && syncs < 100, "%d", syncs);
	cr_assert_eq(espl__checkpoint_check(b.place, &d), ESPL_OK, "%s", d.text);
	(void)espl__tree_remove(b.dir, NULL);
}

/* Wherever a sync fails: the folder is as the trial left it, the older checkpoint whole, and the
 * same call succeeds later. */
Test(checkpoint, after_a_failure_the_same_call_can_be_made_again)
{
	for (int files = 2; files <= 100; files += 98)
		for (int older = 0; older < 2; older++)
			for (int at = 1, done = 0; !done; at++) {
				struct bench b;
				struct espl__diag d = ESPL__DIAG_INIT, again = ESPL__DIAG_INIT;
				uint64_t bytes;

				open_bench(&b);
				if (older) {
					make_saving(&b, 1, "old");
					cr_assert_eq(espl__checkpoint_keep(b.saving, b.place,
							 &bytes, &d),
					    ESPL_OK);
				}
				make_saving(&b, files, "new");
				syncs = 0;
				fail_at = at;
				done =
				    espl__checkpoint_keep(b.saving, b.place, &bytes, &d) == ESPL_OK;
				fail_at = 0;
				if (!done) {
					cr_assert(strstr(d.text, "Input/output error") != NULL,
					    "%s", d.text);
					cr_assert_eq(entries(b.saving), files, "at %d", at);
					cr_assert_eq(has_text(&b, "checkpoint-4", "file0", "old"),
					    older);
					cr_assert_eq(espl__checkpoint_keep(b.saving, b.place,
							 &bytes, &again),
					    ESPL_OK, "at %d: %s", at, again.text);
				}
				cr_assert(has_text(&b, "checkpoint-4", "file1", "new"));
				cr_assert_eq(espl__checkpoint_check(b.place, &again), ESPL_OK, "%s",
				    again.text);
				cr_assert_eq(entries(b.dir), 1);
				cr_assert(at < 90, "%d", at);
				(void)espl__tree_remove(b.dir, NULL);
			}
}

Test(checkpoint, a_folder_replaced_by_a_link_is_refused)
{
	struct bench b;
	struct espl__diag d = ESPL__DIAG_INIT;
	char *away;
	uint64_t bytes;

	open_bench(&b);
	away = espl__format("%s/away", b.dir);
	make_saving(&b, 1, "x");
	cr_assert(rename(b.saving, away) == 0 && symlink(away, b.saving) == 0);
	cr_assert_eq(espl__checkpoint_keep(b.saving, b.place, &bytes, &d), ESPL_E_CONFIG);
	cr_assert(strstr(d.text, "symbolic link") != NULL, "%s", d.text);
	cr_assert_eq(entries(away), 1);
	cr_assert_eq(symlink(away, b.place), 0);
	d = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_neq(espl__checkpoint_check(b.place, &d), ESPL_OK);
	free(away);
	(void)espl__tree_remove(b.dir, NULL);
}
