/* store_check.c - is a checkpoint whole?  Every byte is read before a restore: a damaged file is
 * found here and not by the trial.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/store.h"

#define LIMIT ((size_t)64 << 20) /* bytes of a MANIFEST */

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes put_name in place; -1 if it is none. */
static int
get_name(char *text)
{
	char *to = text;

	for (const char *c = text; *c != '\0'; c++) {
		if (*c != '%') {
			*to++ = *c;
			continue;
		}
		if (hex_digit(c[1]) < 0 || hex_digit(c[2]) < 0)
			return -1;
		*to = (char)(hex_digit(c[1]) * 16 + hex_digit(c[2]));
		if (*to++ == '\0')
			return -1;
		c += 2;
	}
	*to = '\0';
	return text[0] != '\0' ? 0 : -1;
}

static espl_status
check_file(int folder, char *line, uint8_t *block, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;
	uint32_t want_crc, crc;
	uint64_t want_size, size;
	int fd, at = 0;

	if (sscanf(line, "f %8" SCNx32 " %20" SCNu64 " %n", &want_crc, &want_size, &at) != 2 ||
	    at == 0 || get_name(line + at) != 0)
		return espl__fail(diag, ESPL_E_CONFIG, ESPL__MANIFEST " is damaged");
	line += at;
	fd = openat(folder, line, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return espl__fail_errno(diag, "'%s' cannot be opened", line);
	if (espl__store_sum(fd, block, &crc, &size) != 0)
		status = espl__fail_errno(diag, "'%s' cannot be read", line);
	else if (size != want_size)
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' is damaged: %" PRIu64 " bytes, not %" PRIu64, line, size, want_size);
	else if (crc != want_crc)
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' is damaged: wrong checksum", line);
	close(fd);
	return status;
}

static espl_status
check_other(int folder, char *line, struct espl__diag *diag)
{
	char target[4096], *name = line + 2, *want = NULL;
	struct stat st;
	ssize_t size;

	if (line[0] == 'l') {
		want = name;
		name = strchr(want, ' ');
		if (name == NULL)
			return espl__fail(diag, ESPL_E_CONFIG, ESPL__MANIFEST " is damaged");
		*name++ = '\0';
	}
	if (get_name(name) != 0 || (want != NULL && get_name(want) != 0))
		return espl__fail(diag, ESPL_E_CONFIG, ESPL__MANIFEST " is damaged");
	if (want == NULL) {
		if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
			return espl__fail(diag, ESPL_E_CONFIG, "the directory '%s' is missing",
			    name);
		return ESPL_OK;
	}
	size = readlinkat(folder, name, target, sizeof target - 1);
	if (size < 0)
		return espl__fail(diag, ESPL_E_CONFIG, "the link '%s' is missing", name);
	target[size] = '\0';
	if (strcmp(target, want) != 0)
		return espl__fail(diag, ESPL_E_CONFIG, "the link '%s' has a different target",
		    name);
	return ESPL_OK;
}

/* Cuts the MANIFEST's last line off, if it belongs to the rest. */
static int
check_end(char *text, size_t size, uint64_t *entries)
{
	uint32_t crc;
	char *end = size > 0 ? text + size - 1 : text;
	int at = 0;

	while (end > text && end[-1] != '\n')
		end--;
	if (size < sizeof ESPL__STORE_HEADER ||
	    memcmp(text, ESPL__STORE_HEADER, sizeof ESPL__STORE_HEADER - 1) != 0 ||
	    text[size - 1] != '\n' || strlen(text) != size ||
	    sscanf(end, "end %20" SCNu64 " %8" SCNx32 "%n", entries, &crc, &at) != 2 ||
	    end[at] != '\n' || crc != espl__crc32c(0, text, (size_t)(end - text)))
		return -1;
	*end = '\0';
	return 0;
}

static espl_status
check_entries(int folder, struct espl__buf *text, struct espl__diag *diag)
{
	uint8_t *block;
	uint64_t entries, seen = 0;
	espl_status status = ESPL_OK;
	char *line, *next;

	(void)espl__buf_text(text);
	if (check_end((char *)text->data, text->size, &entries) != 0)
		return espl__fail(diag, ESPL_E_CONFIG, ESPL__MANIFEST " is damaged");
	block = espl__alloc(ESPL__STORE_BLOCK);
	line = (char *)text->data + sizeof ESPL__STORE_HEADER - 1;
	for (; *line != '\0' && status == ESPL_OK; line = next, seen++) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (next == NULL || line[0] == '\0' || line[1] != ' ' ||
		    strchr("fdl", line[0]) == NULL)
			status = espl__fail(diag, ESPL_E_CONFIG, ESPL__MANIFEST " is damaged");
		else if (line[0] == 'f')
			status = check_file(folder, line, block, diag);
		else
			status = check_other(folder, line, diag);
	}
	free(block);
	if (status == ESPL_OK && seen != entries)
		status = espl__fail(diag, ESPL_E_CONFIG, ESPL__MANIFEST " is damaged");
	return status;
}

espl_status
espl__store_check(const char *folder, struct espl__diag *diag)
{
	struct espl__diag inner = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status;
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), list;

	if (fd < 0)
		return espl__fail_errno(diag, "its directory cannot be opened");
	list = openat(fd, ESPL__MANIFEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (list < 0) {
		status = espl__fail_errno(diag, "its " ESPL__MANIFEST " cannot be opened");
	} else {
		status = espl__fd_read(list, ESPL__MANIFEST, LIMIT, &text, &inner);
		close(list);
	}
	if (inner.status != ESPL_OK)
		(void)espl__fail(diag, status, "its " ESPL__MANIFEST " cannot be read: %s",
		    espl__reason(&inner));
	if (status == ESPL_OK)
		status = check_entries(fd, &text, diag);
	close(fd);
	espl__buf_free(&text);
	return status;
}
