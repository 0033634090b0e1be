/* follow.c - see follow.h. */
#include "listen/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "listen/events.h"

#define FILES_MAX 64u                 /* more matches are left out */
#define CHUNK ((size_t)64 << 10)      /* read at a time */
#define RECORD_MAX ((size_t)16 << 20) /* of a line or an event; a longer one ends the file */
#define HEADER_MAX ((size_t)1 << 20)  /* of the first line of a CSV file */
#define QUOTED_MAX ((size_t)64 << 10) /* of a row with line ends in it */

struct followed {
	char *path;
	ino_t inode;
	off_t at;               /* read up to here */
	struct espl__buf bytes; /* read, and not taken apart yet */
	char *header;           /* the first line of a CSV file */
	uint64_t rows, skip;    /* rows that were given away; and those to come that were before */
	off_t until;            /* its size when the program ended; 0: it still runs */
	int bad, late;          /* late: what was in it at the start is not read */
};

struct espl__follow {
	char *pattern;
	enum espl__follow_kind kind;
	struct followed files[FILES_MAX];
	uint32_t count;
	int full; /* that files are left out was said */
	int ended;
	char trouble[256];
};

enum espl__follow_kind
espl__follow_kind_of(const char *pattern)
{
	size_t size = strlen(pattern);

	if (strstr(pattern, "tfevents") != NULL)
		return ESPL__FOLLOW_EVENTS;
	return size > 4 && strcmp(pattern + size - 4, ".csv") == 0 ? ESPL__FOLLOW_CSV
								   : ESPL__FOLLOW_JSON;
}

static struct followed *
file_at(struct espl__follow *t, const char *path)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (strcmp(t->files[i].path, path) == 0)
			return &t->files[i];
	return NULL;
}

/* Looks for files that are new. */
static void
find_files(struct espl__follow *t, int first)
{
	glob_t found;

	if (glob(t->pattern, GLOB_NOSORT, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc && !t->full; i++) {
		struct followed *f = &t->files[t->count];
		struct stat st;

		if (file_at(t, found.gl_pathv[i]) != NULL || stat(found.gl_pathv[i], &st) != 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (t->count == FILES_MAX) {
			t->full = 1;
			(void)snprintf(t->trouble, sizeof t->trouble,
			    "more than %u files match '%.80s': '%.80s' and others are not read",
			    FILES_MAX, t->pattern, found.gl_pathv[i]);
			break;
		}
		memset(f, 0, sizeof *f);
		f->path = espl__strdup(found.gl_pathv[i]);
		f->inode = st.st_ino;
		f->at = first ? st.st_size : 0;
		f->late = first;
		t->count++;
	}
	globfree(&found);
}

struct espl__follow *
espl__follow_new(const char *pattern, int from_now)
{
	struct espl__follow *t = espl__alloc(sizeof *t);

	t->pattern = espl__strdup(pattern);
	t->kind = espl__follow_kind_of(pattern);
	if (from_now)
		find_files(t, 1);
	return t;
}

void
espl__follow_free(struct espl__follow *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; i < t->count; i++) {
		free(t->files[i].path);
		free(t->files[i].header);
		espl__buf_free(&t->files[i].bytes);
	}
	free(t->pattern);
	free(t);
}

size_t
espl__follow_files(const struct espl__follow *t)
{
	return t->count;
}

const char *
espl__follow_trouble(struct espl__follow *t)
{
	static char text[sizeof t->trouble];

	if (t->trouble[0] == '\0')
		return NULL;
	memcpy(text, t->trouble, sizeof text);
	t->trouble[0] = '\0';
	return text;
}

static void
give_up(struct espl__follow *t, struct followed *f, const char *why)
{
	f->bad = 1;
	(void)snprintf(t->trouble, sizeof t->trouble, "'%.120s' is read no further: %s", f->path,
	    why);
}

/* ---- CSV ----------------------------------------------------------------------------------- */

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* Some locales and loggers use semicolons or tabs instead of commas. */
static char
separator_of(const char *header)
{
	static const char separators[] = ",;\t";

	for (const char *s = separators; *s != '\0'; s++)
		if (strchr(header, *s) != NULL)
			return *s;
	return ',';
}

/* One cell, without its quotes and the spaces that align it, into `to`; returns what follows. */
static const char *
take_cell(const char *p, const char *end, char separator, struct espl__buf *to)
{
	int quoted;

	while (p < end && *p == ' ')
		p++;
	quoted = p < end && *p == '"';
	for (p += quoted; p < end; p++) {
		if (quoted && *p == '"' && p + 1 < end && p[1] == '"')
			p++;
		else if (quoted && *p == '"')
			quoted = 0;
		else if (!quoted && *p == separator)
			break;
		if (!(*p == '"' && !quoted && (p + 1 == end || p[1] == separator)))
			espl__put_u8(to, (uint8_t)*p);
	}
	while (to->size > 0 && to->data[to->size - 1] == ' ')
		to->size--;
	return p;
}

static void
put_row(const char *header, const char *row, size_t size, struct espl__buf *to)
{
	const char *p = row, *end = row + size, *h = header, *h_end = header + strlen(header);
	struct espl__buf name = { NULL, 0, 0 }, cell = { NULL, 0, 0 };
	char separator = separator_of(header);

	if (strncmp(h, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		h += strlen(BYTE_ORDER_MARK);
	espl__json_open(to, NULL, '{');
	while (p <= end && h <= h_end) {
		espl__buf_clear(&name);
		espl__buf_clear(&cell);
		h = take_cell(h, h_end, separator, &name) + 1;
		p = take_cell(p, end, separator, &cell) + 1;
		if (cell.size > 0 && name.size > 0)
			espl__json_text(to, espl__buf_text(&name), espl__buf_text(&cell));
	}
	espl__print(to, "}");
	espl__buf_free(&name);
	espl__buf_free(&cell);
}

/* The first line, which may change when the program rewrites the file. NULL: not complete yet. */
static char *
read_header(int fd)
{
	struct espl__buf text = { NULL, 0, 0 };
	char *header = NULL;

	for (size_t most = 4096; header == NULL && most <= HEADER_MAX; most *= 4) {
		ssize_t got;
		size_t length;

		espl__buf_clear(&text);
		espl__buf_reserve(&text, most);
		got = pread(fd, text.data, most, 0);
		if (got <= 0)
			break;
		text.size = (size_t)got;
		length = strcspn(espl__buf_text(&text), "\r\n");
		if (length < (size_t)got)
			header = espl__format("%.*s", (int)length, espl__buf_text(&text));
		else if ((size_t)got < most)
			break;
	}
	espl__buf_free(&text);
	return header;
}

static void
begin_again(struct followed *f, uint64_t skip)
{
	f->at = 0;
	f->late = 0;
	f->rows = 0;
	f->skip = skip;
	espl__buf_clear(&f->bytes);
	free(f->header);
	f->header = NULL;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void
read_more(struct espl__follow *t, struct followed *f)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char *header = NULL;
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		(void)close(fd);
		return;
	}
	if (t->kind == ESPL__FOLLOW_CSV)
		header = read_header(fd);
	/* If an earlier rewrite was not read to its end, its rows still have to be skipped. */
	if (st.st_ino != f->inode || st.st_size < f->at)
		begin_again(f, f->late ? 0 : f->rows + f->skip);
	else if (f->header != NULL && header != NULL && strcmp(header, f->header) != 0)
		begin_again(f, f->rows + f->skip);
	f->inode = st.st_ino;
	if (t->kind == ESPL__FOLLOW_CSV && f->header == NULL) {
		f->header = header;
		header = NULL;
		if (f->header != NULL && f->at == 0) /* and its end */
			f->at = (off_t)strlen(f->header) + 1;
	}
	free(header);
	if (f->until > 0 && st.st_size > f->until)
		st.st_size = f->until;
	if (st.st_size > f->at && (t->kind != ESPL__FOLLOW_CSV || f->header != NULL)) {
		size_t room = f->bytes.size, most = CHUNK;
		ssize_t got;

		if ((off_t)most > st.st_size - f->at)
			most = (size_t)(st.st_size - f->at);

		espl__buf_reserve(&f->bytes, CHUNK);
		got = pread(fd, f->bytes.data + room, most, f->at);
		if (got > 0) {
			f->bytes.size += (size_t)got;
			f->at += got;
		}
	}
	(void)close(fd);
	if (f->bytes.size > RECORD_MAX)
		give_up(t, f, "it has a line or an event of more than 16 MiB");
}

static void
drop_bytes(struct followed *f, size_t n)
{
	memmove(f->bytes.data, f->bytes.data + n, f->bytes.size - n);
	f->bytes.size -= n;
}

/* Where the row ends: at its line end, or at the end of a later line if one of its cells has line
 * ends between quotes.  NULL: it is not complete.  A quote that is not closed soon is only a
 * character. */
static const char *
find_row_end(const char *p, size_t size, char separator)
{
	const char *first = memchr(p, '\n', size);
	int begins = 1, quoted = 0;

	if (first == NULL || memchr(p, '"', (size_t)(first - p)) == NULL)
		return first;
	for (size_t i = 0; i < size && i < QUOTED_MAX; i++) {
		if (quoted && p[i] == '"' && i + 1 < size && p[i + 1] == '"')
			i++;
		else if (p[i] == '"')
			quoted = begins && !quoted;
		else if (p[i] == '\n' && !quoted)
			return p + i;
		begins = !quoted && (p[i] == separator || (begins && p[i] == ' '));
	}
	return size < QUOTED_MAX ? NULL : first;
}

/* 1: a line; 0: no complete line is available. */
static int
take_text(struct espl__follow *t, struct followed *f, int final, struct espl__buf *to)
{
	for (;;) {
		const char *p = (const char *)f->bytes.data;
		const char *end = f->bytes.size == 0 ? NULL
		    : t->kind != ESPL__FOLLOW_CSV
		    ? memchr(p, '\n', f->bytes.size)
		    : find_row_end(p, f->bytes.size, separator_of(f->header));

		if (end == NULL && final && f->bytes.size > 0) /* a quote was not closed */
			end = memchr(p, '\n', f->bytes.size);
		size_t n = end != NULL ? (size_t)(end - p) : f->bytes.size,
		       used = n + (end != NULL);

		if (f->bytes.size == 0 || (end == NULL && !final))
			return 0;
		if (n > 0 && p[n - 1] == '\r')
			n--;
		if (t->kind == ESPL__FOLLOW_JSON)
			espl__put(to, p, n);
		else if (n > 0)
			put_row(f->header, p, n, to);
		drop_bytes(f, used);
		f->rows += n > 0;
		if (f->skip > 0 && n > 0) {
			f->skip--;
			espl__buf_clear(to);
			continue;
		}
		if (n > 0)
			return 1;
	}
}

static int
take_event(struct espl__follow *t, struct followed *f, struct espl__buf *to)
{
	for (;;) {
		size_t used = 0;
		int got = espl__event_json(f->bytes.data, f->bytes.size, &used, to);

		if (got == 0)
			return 0;
		if (got < 0) {
			give_up(t, f, "it is damaged, or not a TensorBoard event file");
			return 0;
		}
		drop_bytes(f, used);
		if (to->size > 0)
			return 1;
	}
}

static int
take(struct espl__follow *t, struct followed *f, int final, struct espl__buf *to)
{
	if (f->bad)
		return 0;
	return t->kind == ESPL__FOLLOW_EVENTS ? take_event(t, f, to) : take_text(t, f, final, to);
}

/* The program has ended: something that it left behind may write without end. */
static void
fix_sizes(struct espl__follow *t)
{
	struct stat st;

	t->ended = 1;
	for (uint32_t i = 0; i < t->count; i++)
		if (stat(t->files[i].path, &st) != 0 || st.st_size == 0)
			t->files[i].bad = 1;
		else
			t->files[i].until = st.st_size;
}

int
espl__follow_next(struct espl__follow *t, int final, struct espl__buf *to)
{
	espl__buf_clear(to);
	for (uint32_t i = 0; i < t->count; i++)
		if (take(t, &t->files[i], 0, to))
			return 1;
	if (!t->ended)
		find_files(t, 0);
	if (final && !t->ended)
		fix_sizes(t);
	for (uint32_t i = 0; i < t->count; i++) {
		struct followed *f = &t->files[i];
		off_t before;

		do {
			before = f->at;
			if (!f->bad)
				read_more(t, f);
			if (take(t, f, 0, to))
				return 1;
		} while (f->at != before && !f->bad);
		if (final && take(t, f, 1, to))
			return 1;
	}
	return 0;
}
