/* journal_repair.c - a journal that does not end with a whole record.
 *
 * A killed driver leaves the beginning of a record, which is not a loss. If whole records follow
 * the gap, something has changed the file: only the user can decide whether to continue without
 * them.
 */
#include "run/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

#define HEAD ESPL__JOURNAL_HEAD
#define FRAME ESPL__JOURNAL_FRAME
/* longer records are not searched for: the checksums would take too long */
#define RECORD_MAX ((size_t)1 << 20)
#define WINDOW (4 * RECORD_MAX)
#define HEADER_MAX 256u /* of the header's record */

/* As many bytes from `at` on as there are, and fit.  -1 with errno. */
static ssize_t
read_at(int fd, void *to, size_t room, uint64_t at)
{
	size_t done = 0;

	while (done < room) {
		ssize_t got = pread(fd, (char *)to + done, room - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* Length of the whole record at p, which follows from the 4 bytes before it; 0: there is none. */
static size_t
record_at(const uint8_t *p, size_t left)
{
	struct espl__reader r = espl__reader(p - 4, left + 4);
	uint32_t chain = espl__get_u32(&r), length = espl__get_u32(&r);
	uint8_t type = espl__get_u8(&r);

	if (type < ESPL__REC_HEADER || type > ESPL__REC_CLOSED || length > RECORD_MAX ||
	    length > left - FRAME)
		return 0;
	r = espl__reader(p + HEAD + length, 4);
	return espl__get_u32(&r) == espl__crc32c(chain, p, HEAD + length) ? length + FRAME : 0;
}

static int
count_records(int fd, uint8_t *window, struct espl__rest *rest)
{
	uint64_t base = rest->at;

	for (;;) {
		ssize_t got = read_at(fd, window, WINDOW, base);
		size_t i = 4, size = (size_t)got;

		if (got < 0)
			return -1;
		while (i + FRAME <= size && (size < WINDOW || i + FRAME + RECORD_MAX <= size)) {
			size_t length = record_at(window + i, size - i);

			rest->records += length > 0;
			i += length > 0 ? length : 1;
		}
		if (size < WINDOW)
			return 0;
		base += i - 4;
	}
}

static espl_status
inspect_journal(int fd, const char *path, struct espl__rest *rest, struct espl__diag *diag)
{
	uint8_t *window = espl__alloc(WINDOW);
	struct stat st;
	int bad = fstat(fd, &st) != 0 || count_records(fd, window, rest) != 0 ||
	    read_at(fd, window, HEAD, rest->at) < 0;
	espl_status status =
	    bad ? espl__fail_errno(diag, "cannot read the journal '%s'", path) : ESPL_OK;

	if (!bad && (uint64_t)st.st_size > rest->at) {
		struct espl__reader r = espl__reader(window, HEAD);

		rest->size = (uint64_t)st.st_size - rest->at;
		/* A record that is all there was changed, too. */
		rest->damaged = rest->records > 0 ||
		    (rest->size >= FRAME && (uint64_t)espl__get_u32(&r) + FRAME <= rest->size);
	}
	free(window);
	return status;
}

espl_status
espl__journal_find_rest(const char *path, uint64_t valid, struct espl__rest *rest,
    struct espl__diag *diag)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	espl_status status;

	memset(rest, 0, sizeof *rest);
	rest->at = valid;
	if (fd < 0)
		return espl__fail_errno(diag, "cannot open the journal '%s'", path);
	status = inspect_journal(fd, path, rest, diag);
	(void)close(fd);
	return status;
}

/* ---- what is cut off ---------------------------------------------------------------------- */

static int
copy_rest(int from, uint64_t at, int to)
{
	uint8_t *window = espl__alloc(RECORD_MAX);
	ssize_t got;

	while ((got = read_at(from, window, RECORD_MAX, at)) > 0) {
		if (espl__write_all(to, window, (size_t)got) != 0)
			break;
		at += (uint64_t)got;
	}
	free(window);
	return got == 0 && fsync(to) == 0 ? 0 : -1;
}

static int
new_file(const char *path, char **name)
{
	int fd = -1;

	for (int i = 1; fd < 0 && i < 1000; i++) {
		free(*name);
		*name = i == 1 ? espl__format("%s.damaged", path)
			       : espl__format("%s.damaged-%d", path, i);
		fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

espl_status
espl__journal_keep_rest(const char *path, uint64_t from, char **kept, struct espl__diag *diag)
{
	int in = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), out = -1;
	char *name = NULL;
	struct stat st;
	espl_status status = ESPL_OK;

	*kept = NULL;
	if (in < 0 || fstat(in, &st) != 0) {
		status = espl__fail_errno(diag, "cannot open the journal '%s'", path);
	} else if ((uint64_t)st.st_size > from) {
		out = new_file(path, &name);
		if (out < 0 || copy_rest(in, from, out) != 0) {
			status = espl__fail_errno(diag,
			    "cannot save the discarded part of the journal as '%s'", name);
			if (out >= 0)
				(void)unlink(name);
		} else {
			*kept = espl__strdup(
			    strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name);
		}
	}
	if (in >= 0)
		(void)close(in);
	if (out >= 0)
		(void)close(out);
	free(name);
	return status;
}

/* ---- the beginning ------------------------------------------------------------------------ */

/* The beginning of a header's record, or nothing but zeros, which is what a machine that lost its
 * power leaves. */
static int
is_hollow(const uint8_t *bytes, size_t size)
{
	struct espl__reader r = espl__reader(bytes, size);
	uint64_t length;
	size_t i, shown;

	for (i = 0; i < size && bytes[i] == 0; i++)
		;
	if (i == size || size < HEAD)
		return 1;
	length = espl__get_u32(&r);
	shown = size - HEAD < ESPL__JOURNAL_TITLE_SIZE ? size - HEAD : ESPL__JOURNAL_TITLE_SIZE;
	return espl__get_u8(&r) == ESPL__REC_HEADER && length + FRAME <= HEADER_MAX &&
	    size < length + FRAME && memcmp(bytes + HEAD, ESPL__JOURNAL_TITLE, shown) == 0;
}

int
espl__journal_is_empty(const char *path)
{
	uint8_t bytes[HEADER_MAX];
	struct stat st;
	ssize_t got = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size < (off_t)sizeof bytes)
		got = read_at(fd, bytes, sizeof bytes, 0);
	if (fd >= 0)
		(void)close(fd);
	return got >= 0 && is_hollow(bytes, (size_t)got);
}
