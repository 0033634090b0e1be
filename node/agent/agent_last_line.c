/* agent_last_line.c - the last line that a gang printed, which usually shows why it failed.
 *
 * A log may contain any bytes, and the line goes into a message. So control characters, invalid
 * UTF-8, colors and text that a progress bar has overwritten are removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "agent/agent.h"

#define WINDOW 8192 /* bytes at the log's end that are looked at */

/* The length of the terminal control sequence that begins here; 0: none does. */
static size_t
sequence_length(const char *p, const char *end)
{
	const char *at = p + 2;

	if (p[0] != '\033' || p + 1 == end)
		return 0;
	if (p[1] != '[')
		return 2;
	while (at < end && *at >= 0x20 && *at < 0x40)
		at++;
	return (size_t)(at - p) + (at < end);
}

static int
is_break(char c)
{
	return c == '\n' || c == '\r';
}

/* C1 controls are the bytes c2 80..9f. */
static int
is_control(const char *p)
{
	const unsigned char *at = (const unsigned char *)p;

	return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0);
}

/* As much of a line as fits, clean and without blanks at its ends; 0: nothing is left of it. */
static size_t
clean_line(const char *p, const char *end, char *to, size_t room)
{
	size_t size = 0, length, cut;
	int blank;

	while (p < end) {
		if ((length = sequence_length(p, end)) > 0) {
			p += length;
			continue;
		}
		length = espl__utf8_length((const unsigned char *)p);
		blank = *p == ' ' || is_control(p);
		if (size + (length > 1 && !blank ? length : 1) > room) {
			for (cut = room - 3;
			     cut > 0 && cut < size && ((unsigned char)to[cut] & 0xc0) == 0x80;
			     cut--)
				;
			memcpy(to + cut, "...", 3);
			return cut + 3;
		}
		if (blank && size > 0)
			to[size++] = ' ';
		else if (length == 0)
			to[size++] = '?';
		else if (!blank) {
			memcpy(to + size, p, length);
			size += length;
		}
		p += length > 0 ? length : 1;
	}
	while (size > 0 && to[size - 1] == ' ')
		size--;
	return size;
}

/* A bar of tqdm, as " 40%|####  | 2/5 [00:01<00:02, 1.9it/s]".  It is drawn once more when the
 * program ends, after the message that says why.
 */
static int
is_progress_bar(const char *line)
{
	const char *bar = strstr(line, "%|");

	return bar != NULL && strchr(bar, '[') != NULL && line[strlen(line) - 1] == ']';
}

void
espl__last_line(const char *text, size_t size, char *to, size_t room)
{
	const char *end = text + size, *bar = NULL, *bar_end = NULL;

	to[0] = '\0';
	while (end > text && to[0] == '\0') {
		const char *from = end;

		while (from > text && !is_break(from[-1]))
			from--;
		to[clean_line(from, end, to, room - 1)] = '\0';
		if (to[0] != '\0' && is_progress_bar(to)) {
			if (bar == NULL) {
				bar = from;
				bar_end = end;
			}
			to[0] = '\0';
		}
		end = from > text ? from - 1 : text;
	}
	if (to[0] == '\0' && bar != NULL)
		to[clean_line(bar, bar_end, to, room - 1)] = '\0';
}

void
espl__gang_last_line(const struct espl__agent_gang *g, char to[ESPL__LAST_LINE_MAX])
{
	char *path = espl__format("%s/log", g->dir), *text = espl__alloc(WINDOW + 1);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int64_t from = g->log_from;
	ssize_t got = 0;
	struct stat st;

	ESPL__CHECK(g, AGENT_GANG);
	to[0] = '\0';
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		if (st.st_size - from > WINDOW)
			from = st.st_size - WINDOW;
		do
			got = pread(fd, text, WINDOW, (off_t)from);
		while (got < 0 && errno == EINTR);
	}
	if (got > 0)
		espl__last_line(text, (size_t)got, to, ESPL__LAST_LINE_MAX);
	if (fd >= 0)
		close(fd);
	free(path);
	free(text);
}
