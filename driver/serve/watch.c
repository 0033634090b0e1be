/* watch.c - looks at runs, and has their pages drawn. */
#include "base/assert.h"
#include "serve/watch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tick.h"
#include "report/results_read.h"
#include "report/runs.h"
#include "serve/child.h"

#define SECOND INT64_C(1000000000)
#define RUNS_MAX 1000u           /* more are not shown */
#define DRAWINGS_MAX 2u          /* at once */
#define PAGES_MAX 16u            /* kept; one of a huge run has some megabytes */
#define WATCHED (5 * SECOND)     /* so long after somebody has watched */
#define SCAN (2 * SECOND)        /* between two looks for new runs */
#define PACE 10                  /* times as long as a page takes, until the next */
#define DRAW_S 120               /* of processor time, for one page */
#define DRAW_MOST (600 * SECOND) /* until it is killed */

/* Of results.db and its log, and whether a driver is at work; bytes are compared. */
struct look {
	struct {
		uint64_t number, size;
		int64_t at_s, at_ns;
	} files[2];
	uint64_t held;
};

struct run {
	char *dir;
	char *row; /* JSON */
	uint64_t row_version, page_version;
	struct look seen, drawn;
	int64_t looked, watched, due; /* ticks */
	int page, kept;               /* -1: none */
	size_t page_size;
	struct espl__child drawing;
};

#define ESPL__WATCH_MAGIC 0x77617463u
struct espl__watch {
	uint32_t magic; /* ESPL__WATCH_MAGIC */
	const struct espl__serve_setup *setup;
	struct run *runs;
	uint32_t count, cap;
	uint64_t rows_version;
	int64_t watched, scanned;
};

/* ---- the list ----------------------------------------------------------------------------- */

static int
is_listed(const struct espl__watch *w, const char *dir)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (strcmp(w->runs[i].dir, dir) == 0)
			return 1;
	return 0;
}

static espl_status
scan_dirs(struct espl__watch *w, struct espl__diag *diag)
{
	struct espl__runs found = { NULL, 0, 0 };
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; status == ESPL_OK && i < w->setup->count; i++)
		status = espl__runs_find(&found, w->setup->dirs[i], diag);
	for (uint32_t i = 0; i < found.count && w->count < RUNS_MAX; i++) {
		if (is_listed(w, found.names[i]))
			continue;
		ESPL__GROW(w->runs, w->cap, w->count + 1);
		w->runs[w->count++] = (struct run){ .dir = found.names[i],
			.page = -1,
			.kept = -1,
			.drawing = { .out = -1 } };
		found.names[i] = NULL;
	}
	espl__runs_free(&found);
	w->scanned = espl__tick();
	return status;
}

static struct look
look_at(const char *dir)
{
	static const char *const names[] = { "results.db", "results.db-wal" };
	struct look look;
	struct stat st;

	memset(&look, 0, sizeof look);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char *path = espl__format("%s/%s", dir, names[i]);

		if (stat(path, &st) == 0) {
			look.files[i].number = (uint64_t)st.st_ino;
			look.files[i].size = (uint64_t)st.st_size;
			look.files[i].at_s = st.st_mtim.tv_sec;
			look.files[i].at_ns = st.st_mtim.tv_nsec;
		}
		free(path);
	}
	look.held = espl__run_held(dir) ? 2 : 1; /* never 0: nothing has been seen */
	return look;
}

static void
read_row(struct espl__watch *w, uint32_t i)
{
	struct run *run = &w->runs[i];
	struct espl__buf b = { NULL, 0, 0 }, totals = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__reading *r;

	espl__print(&b, "{");
	espl__json_int(&b, "run", i);
	espl__json_text(&b, "dir", run->dir);
	if (espl__reading_open(run->dir, &r, &diag) == ESPL_OK) {
		espl__json_bool(&b, "pool", espl__reading_pool(r));
		espl__json_bool(&b, "simulated", r->totals.simulated != 0);
		espl__totals_json(&r->totals, "run", 1, &totals);
		espl__print(&b, ", %s", espl__buf_text(&totals) + 1);
		espl__reading_free(r);
	} else {
		espl__json_text(&b, "error", diag.text);
		espl__json_text(&b, "hint", diag.hint);
		espl__print(&b, "}");
	}
	if (run->row == NULL || strcmp(run->row, espl__buf_text(&b)) != 0) {
		free(run->row);
		run->row = espl__strdup(espl__buf_text(&b));
		run->row_version++;
		w->rows_version++;
	}
	espl__buf_free(&b);
	espl__buf_free(&totals);
}

static void
look_again(struct espl__watch *w, uint32_t i, int64_t now)
{
	struct run *run = &w->runs[i];
	struct look look;

	if (run->row != NULL && now - run->looked < SECOND)
		return;
	run->looked = now;
	look = look_at(run->dir);
	if (run->row == NULL || memcmp(&look, &run->seen, sizeof look) != 0) {
		run->seen = look;
		read_row(w, i);
	}
}

/* ---- pages -------------------------------------------------------------------------------- */

/* The page that was watched longest ago makes room. */
static void
drop_page(struct espl__watch *w)
{
	struct run *oldest = NULL;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < w->count; i++) {
		struct run *run = &w->runs[i];

		if (run->page < 0)
			continue;
		kept++;
		if (oldest == NULL || run->watched < oldest->watched)
			oldest = run;
	}
	if (kept < PAGES_MAX)
		return;
	(void)close(oldest->page);
	if (oldest->kept >= 0)
		(void)close(oldest->kept);
	oldest->page = oldest->kept = -1;
	oldest->drawn = (struct look){ .held = 0 };
}

static void
begin_drawing(struct espl__watch *w, struct run *run)
{
	struct rlimit time = { DRAW_S, DRAW_S };
	int kept, status;
	FILE *to;

	drop_page(w);
	if (run->kept < 0)
		run->kept = memfd_create("kept", MFD_CLOEXEC);
	kept = run->kept;
	run->drawn = run->seen;
	status = espl__child_fork(&run->drawing, &kept, 1);
	if (status < 0) { /* later, then */
		run->drawn = (struct look){ .held = 0 };
		run->due = espl__tick() + SECOND;
	}
	if (status != 1)
		return;
	to = fdopen(run->drawing.out, "w");
	if (to == NULL || setrlimit(RLIMIT_CPU, &time) != 0)
		_exit(1);
	w->setup->draw(run->dir, kept, to);
	_exit(fflush(to) != 0 || ferror(to));
}

static void
take_page(struct run *run)
{
	static const char broken[] = "{\"error\":\"the page of this run could not be drawn\"}\n";
	struct stat st;

	if (!run->drawing.well && ftruncate(run->drawing.out, 0) == 0)
		(void)espl__write_all(run->drawing.out, broken, sizeof broken - 1);
	if (run->page >= 0)
		(void)close(run->page);
	run->page = run->drawing.out;
	run->drawing.out = -1;
	run->page_size = fstat(run->page, &st) == 0 ? (size_t)st.st_size : 0;
	run->page_version++;
}

/* Ends drawings that are done, and begins those that are due. */
static void
draw_pages(struct espl__watch *w, int64_t now)
{
	uint32_t drawing = 0;

	for (uint32_t i = 0; i < w->count; i++) {
		struct run *run = &w->runs[i];

		if (run->drawing.pid == 0)
			continue;
		if (espl__child_check(&run->drawing) && now - run->drawing.since < DRAW_MOST) {
			drawing++;
			continue;
		}
		espl__child_kill(&run->drawing); /* if it has not ended */
		take_page(run);
		run->due =
		    now + (run->drawing.took * PACE > SECOND ? run->drawing.took * PACE : SECOND);
		espl__child_end(&run->drawing);
	}
	for (uint32_t i = 0; i < w->count && drawing < DRAWINGS_MAX; i++) {
		struct run *run = &w->runs[i];

		if (run->drawing.pid == 0 && run->watched != 0 && now - run->watched < WATCHED &&
		    now >= run->due && memcmp(&run->seen, &run->drawn, sizeof run->seen) != 0) {
			begin_drawing(w, run);
			drawing++;
		}
	}
}

/* ---- from outside ------------------------------------------------------------------------- */

espl_status
espl__watch_open(const struct espl__serve_setup *setup, struct espl__watch **to,
    struct espl__diag *diag)
{
	struct espl__watch *w = espl__alloc(sizeof *w);
	espl_status status;

	w->magic = ESPL__WATCH_MAGIC;
	w->setup = setup;
	status = scan_dirs(w, diag);
	if (status != ESPL_OK) {
		espl__watch_free(w);
		w = NULL;
	}
	*to = w;
	return status;
}

void
espl__watch_free(struct espl__watch *w)
{
	if (w == NULL)
		return;
	for (uint32_t i = 0; i < w->count; i++) {
		struct run *run = &w->runs[i];

		espl__child_end(&run->drawing);
		if (run->page >= 0)
			(void)close(run->page);
		if (run->kept >= 0)
			(void)close(run->kept);
		free(run->row);
		free(run->dir);
	}
	free(w->runs);
	w->magic = 0;
	free(w);
}

void
espl__watch_all(struct espl__watch *w)
{
	ESPL__CHECK(w, WATCH);
	w->watched = espl__tick();
}

void
espl__watch_one(struct espl__watch *w, uint32_t run)
{
	ESPL__CHECK(w, WATCH);
	ESPL__ASSERT(run < w->count);
	w->runs[run].watched = espl__tick();
}

void
espl__watch_tick(struct espl__watch *w)
{
	int64_t now = espl__tick();
	int all;

	ESPL__CHECK(w, WATCH);
	all = w->watched != 0 && now - w->watched < WATCHED;
	if (all && now - w->scanned >= SCAN)
		(void)scan_dirs(w, NULL); /* a directory may have gone; its runs say so */
	for (uint32_t i = 0; i < w->count; i++) {
		struct run *run = &w->runs[i];

		if (all || (run->watched != 0 && now - run->watched < WATCHED))
			look_again(w, i, now);
	}
	draw_pages(w, now);
}

uint32_t
espl__watch_count(const struct espl__watch *w)
{
	ESPL__CHECK(w, WATCH);
	return w->count;
}

const char *
espl__watch_dir(const struct espl__watch *w, uint32_t run)
{
	ESPL__ASSERT(run < w->count);
	return w->runs[run].dir;
}

const char *
espl__watch_row(struct espl__watch *w, uint32_t run)
{
	ESPL__ASSERT(run < w->count);
	look_again(w, run, espl__tick());
	return w->runs[run].row;
}

uint64_t
espl__watch_rows_version(const struct espl__watch *w)
{
	ESPL__CHECK(w, WATCH);
	return w->rows_version;
}

uint64_t
espl__watch_row_version(const struct espl__watch *w, uint32_t run)
{
	ESPL__ASSERT(run < w->count);
	return w->runs[run].row_version;
}

int
espl__watch_page(const struct espl__watch *w, uint32_t run, size_t *size)
{
	ESPL__ASSERT(run < w->count);
	*size = w->runs[run].page_size;
	return w->runs[run].page < 0 ? -1 : fcntl(w->runs[run].page, F_DUPFD_CLOEXEC, 3);
}

uint64_t
espl__watch_page_version(const struct espl__watch *w, uint32_t run)
{
	ESPL__ASSERT(run < w->count);
	return w->runs[run].page_version;
}
