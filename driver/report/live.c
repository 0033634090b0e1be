/* live.c - puts frames on the terminal: sizes, cursor moves, the log above the picture. */
#include "base/assert.h"
#include "report/view.h"

#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/tick.h"

#define FRAME_NS INT64_C(100000000)
#define ABOVE_MAX 4096u

#define ESPL__LIVE_MAGIC 0x686d7261u
struct espl__live {
	uint32_t magic; /* ESPL__LIVE_MAGIC */
	struct espl__view *view;
	struct espl__frame_style style;
	struct espl__buf out;
	uint16_t *widths; /* of the frame on screen */
	uint32_t lines, width_cap;
	uint32_t drawn_width, drawn_height; /* of the window it was drawn for */
	/* of lines of ours that a smaller window pushed off its top */
	uint16_t *above;
	uint32_t above_count, above_cap;
	int64_t drawn;
	int shows_log;
	pthread_mutex_t lock; /* of `log`: lines may come from any thread */
	struct espl__buf log;
};

int
espl__live_possible(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' &&
	    strcmp(term, "dumb") != 0;
}

void
espl__live_log(void *ctx, espl_level level, const char *text)
{
	struct espl__live *live = ctx;

	ESPL__CHECK(live, LIVE);
	(void)pthread_mutex_lock(&live->lock);
	espl__print(&live->log, "%s",
	    level >= ESPL_ERROR       ? "error: "
		: level == ESPL_WARN  ? "warning: "
		: level == ESPL_DEBUG ? "debug: "
				      : "");
	espl__print_clean(&live->log, text);
	espl__print(&live->log, "\n");
	(void)pthread_mutex_unlock(&live->lock);
}

struct espl__live *
espl__live_new(struct espl__view *view)
{
	struct espl__live *live = espl__alloc(sizeof *live);
	const char *plain = getenv("NO_COLOR");

	live->magic = ESPL__LIVE_MAGIC;
	live->view = view;
	live->style.color = plain == NULL || plain[0] == '\0';
	live->style.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	(void)pthread_mutex_init(&live->lock, NULL);
	live->shows_log = isatty(STDERR_FILENO);
	return live;
}

int
espl__live_shows_log(const struct espl__live *live)
{
	ESPL__CHECK(live, LIVE);
	return live->shows_log;
}

/* Writes all of it; another process may have made the terminal non-blocking. */
static void
write_terminal(const struct espl__buf *b)
{
	const uint8_t *p = b->data;
	size_t left = b->size;
	ssize_t n;

	while (left > 0) {
		n = write(STDOUT_FILENO, p, left);
		if (n > 0) {
			p += n;
			left -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			struct pollfd fd = { .fd = STDOUT_FILENO, .events = POLLOUT };

			if (poll(&fd, 1, 1000) <= 0)
				return;
		} else if (n == 0 || errno != EINTR) {
			return; /* the terminal is gone; the run is not */
		}
	}
}

/* A window that was narrowed has broken the old lines into more rows. */
static uint32_t
rows_of(const struct espl__live *live, uint16_t width)
{
	return width == 0 ? 1 : (width + live->style.width - 1u) / live->style.width;
}

/* The number of our rows above the cursor after the window was resized. Rows that do not fit any
 * more are remembered, because a window that grows again shows them again. */
static uint32_t
resized_rows(struct espl__live *live)
{
	uint32_t i, rows = 0, room = live->style.height - 1, more;

	if (live->above_count + live->lines > ABOVE_MAX)
		live->above_count = 0;
	ESPL__GROW(live->above, live->above_cap, live->above_count + live->lines);
	for (i = 0; i < live->lines; i++)
		live->above[live->above_count++] = live->widths[i];
	while (live->above_count > 0 && rows < room) {
		more = rows_of(live, live->above[live->above_count - 1]);
		if (more <= room - rows) {
			live->above_count--;
			rows += more;
		} else {
			live->above[live->above_count - 1] -=
			    (uint16_t)((room - rows) * live->style.width);
			rows = room;
		}
	}
	return rows;
}

/* To the first column of the frame's first line.  Returns by how many rows. */
static uint32_t
go_up(struct espl__live *live)
{
	uint32_t i, rows = 0;

	if (live->drawn_width != live->style.width || live->drawn_height != live->style.height)
		rows = resized_rows(live);
	else
		for (i = 0; i < live->lines; i++)
			rows += rows_of(live, live->widths[i]);
	live->drawn_width = live->style.width;
	live->drawn_height = live->style.height;
	espl__print(&live->out, "\r");
	if (rows > 0)
		espl__print(&live->out, "\033[%uA", rows);
	return rows;
}

/* Clears the frame from its first line on. Not with one command: if the frame fills the window,
 * some terminals would copy it to their history. */
static void
wipe_frame(struct espl__live *live, uint32_t rows)
{
	espl__print(&live->out, rows > 0 ? "\033[K\033[B\033[J\033[A" : "\033[J");
}

static void
measure_terminal(struct espl__live *live)
{
	struct winsize size;

	live->style.width = 80;
	live->style.height = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
		live->style.width = size.ws_col;
		live->style.height = size.ws_row;
	}
}

static void
put_log(struct espl__live *live, uint32_t rows)
{
	(void)pthread_mutex_lock(&live->lock);
	if (live->log.size > 0) {
		wipe_frame(live, rows);
		espl__print(&live->out, "%s", espl__buf_text(&live->log));
		espl__buf_clear(&live->log);
		live->above_count = 0; /* no longer next to the frame: it stays where it is */
	}
	(void)pthread_mutex_unlock(&live->lock);
}

static void
draw_frame(struct espl__live *live)
{
	struct espl__buf frame = { NULL, 0, 0 };
	struct espl__frame_style style;
	const char *at, *end;

	measure_terminal(live);
	espl__buf_clear(&live->out);
	espl__print(&live->out, "\033[?25l");
	put_log(live, go_up(live));
	ESPL__GROW(live->widths, live->width_cap, live->style.height + 1);
	/* The last column stays free: clearing the rest of a full line would erase its last
	 * character. */
	style = live->style;
	style.width -= style.width > 1;
	live->lines = espl__frame_draw(live->view, &style, &frame, live->widths);
	for (at = espl__buf_text(&frame); *at != '\0'; at = end + 1) {
		end = strchr(at, '\n');
		espl__put(&live->out, at, (size_t)(end - at));
		espl__print(&live->out, "\033[K\n");
	}
	espl__print(&live->out, "\033[J\033[?25h");
	write_terminal(&live->out);
	espl__buf_free(&frame);
}

void
espl__live_tick(struct espl__live *live, const struct espl__exec *exec)
{
	int64_t now = espl__tick();

	ESPL__CHECK(live, LIVE);
	if (live->drawn != 0 && now - live->drawn < FRAME_NS)
		return;
	live->drawn = now;
	espl__view_refresh(live->view, exec);
	draw_frame(live);
}

void
espl__live_free(struct espl__live *live)
{
	uint32_t rows;

	if (live == NULL)
		return;
	measure_terminal(live);
	espl__buf_clear(&live->out);
	rows = go_up(live);
	wipe_frame(live, rows);
	put_log(live, rows);
	write_terminal(&live->out);
	(void)pthread_mutex_destroy(&live->lock);
	espl__buf_free(&live->out);
	espl__buf_free(&live->log);
	free(live->widths);
	free(live->above);
	live->magic = 0;
	free(live);
}
