/* checkpoint_check.c - is a checkpoint whole?  Every byte is read before a restore: a damaged file
 * is found here and not by the trial.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/below.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "checkpoint/checkpoint.h"

#define LIMIT ((size_t)64 << 20) /* bytes of a MANIFEST */

/* ---- MANIFEST ----------------------------------------------------------------------------- */

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

espl_status
espl__manifest_read(int dir, struct espl__buf *text, struct espl__diag *diag)
{
	struct espl__diag inner = ESPL__DIAG_INIT;
	int fd = openat(dir, ESPL__MANIFEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	espl_status status;

	if (fd < 0)
		return espl__fail_errno(diag, "its " ESPL__MANIFEST " cannot be opened");
	status = espl__fd_read(fd, ESPL__MANIFEST, LIMIT, text, &inner);
	close(fd);
	if (status != ESPL_OK)
		return espl__fail(diag, status, "its " ESPL__MANIFEST " cannot be read: %s",
		    espl__reason(&inner));
	return ESPL_OK;
}

char *
espl__manifest_lines(struct espl__buf *from, uint64_t *entries)
{
	char *text = (char *)(uintptr_t)espl__buf_text(from);
	size_t size = from->size;
	char *end = size > 0 ? text + size - 1 : text;
	uint32_t crc;
	int at = 0;

	while (end > text && end[-1] != '\n')
		end--;
	if (size < sizeof ESPL__CHECKPOINT_HEADER ||
	    memcmp(text, ESPL__CHECKPOINT_HEADER, sizeof ESPL__CHECKPOINT_HEADER - 1) != 0 ||
	    text[size - 1] != '\n' || strlen(text) != size ||
	    sscanf(end, "end %20" SCNu64 " %8" SCNx32 "%n", entries, &crc, &at) != 2 ||
	    end[at] != '\n' || crc != espl__crc32c(0, text, (size_t)(end - text)))
		return NULL;
	*end = '\0';
	return text + sizeof ESPL__CHECKPOINT_HEADER - 1;
}

/* The list itself is none of its entries. */
static int
is_reserved(const char *name)
{
	const size_t size = sizeof ESPL__MANIFEST - 1;

	return strncmp(name, ESPL__MANIFEST, size) == 0 &&
	    (name[size] == '\0' || name[size] == '/');
}

int
espl__manifest_next(char **lines, struct espl__sealed *e)
{
	char *line = *lines, *next = strchr(line, '\n');
	int at = 0;

	memset(e, 0, sizeof *e);
	if (line[0] == '\0')
		return 0;
	if (next == NULL || line[1] != ' ' || strchr("fdl", line[0]) == NULL)
		return -1;
	*next = '\0';
	*lines = next + 1;
	e->kind = line[0];
	e->name = line + 2;
	if (line[0] == 'f') {
		if (sscanf(line, "f %8" SCNx32 " %20" SCNu64 " %n", &e->crc, &e->size, &at) != 2 ||
		    at == 0)
			return -1;
		e->name = line + at;
	} else if (line[0] == 'l') {
		e->target = e->name;
		e->name = strchr(e->target, ' ');
		if (e->name == NULL)
			return -1;
		*e->name++ = '\0';
		if (get_name(e->target) != 0)
			return -1;
	}
	return get_name(e->name) != 0 || !espl__path_is_inside(e->name) || is_reserved(e->name) ? -1
												: 1;
}

/* ---- the check ---------------------------------------------------------------------------- */

static espl_status
check_file(int dir, const struct espl__sealed *e, uint8_t *block, struct espl__diag *diag)
{
	int fd = espl__below_open(dir, e->name, O_RDONLY, 0);
	espl_status status = ESPL_OK;
	struct stat st;
	uint32_t crc;
	uint64_t size;

	if (fd < 0)
		return espl__fail_errno(diag, "'%s' cannot be opened", e->name);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a file", e->name);
	else if (espl__checkpoint_sum(fd, block, &crc, &size) != 0)
		status = espl__fail_errno(diag, "'%s' cannot be read", e->name);
	else if (size != e->size)
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' is damaged: %" PRIu64 " bytes, not %" PRIu64, e->name, size, e->size);
	else if (crc != e->crc)
		status =
		    espl__fail(diag, ESPL_E_CONFIG, "'%s' is damaged: wrong checksum", e->name);
	close(fd);
	return status;
}

static espl_status
check_dir(int dir, const struct espl__sealed *e, struct espl__diag *diag)
{
	int fd = espl__below_open(dir, e->name, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return espl__fail(diag, ESPL_E_CONFIG, "the directory '%s' is missing", e->name);
	close(fd);
	return ESPL_OK;
}

/* A link that leads out of the checkpoint is not made where a checkpoint arrives (transfer/pack.c),
 * only here, for the trial that saved it. */
static espl_status
check_link(int dir, const struct espl__sealed *e, struct espl__diag *diag)
{
	char target[4096];
	ssize_t size = espl__below_readlink(dir, e->name, target, sizeof target - 1);

	if (size < 0 && errno == ENOENT && !espl__link_is_inside(e->name, e->target))
		return espl__below_symlink(dir, e->name, e->target) == 0
		    ? ESPL_OK
		    : espl__fail_errno(diag, "cannot create the link '%s'", e->name);
	if (size < 0)
		return espl__fail(diag, ESPL_E_CONFIG, "the link '%s' is missing", e->name);
	target[size] = '\0';
	if (strcmp(target, e->target) != 0)
		return espl__fail(diag, ESPL_E_CONFIG, "the link '%s' has a different target",
		    e->name);
	return ESPL_OK;
}

static espl_status
check_entry(int dir, const struct espl__sealed *e, uint8_t *block, struct espl__diag *diag)
{
	if (e->kind == 'f')
		return check_file(dir, e, block, diag);
	return e->kind == 'd' ? check_dir(dir, e, diag) : check_link(dir, e, diag);
}

static espl_status
check_entries(int dir, struct espl__buf *text, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;
	uint64_t entries = 0, seen = 0;
	char *lines = espl__manifest_lines(text, &entries);
	uint8_t *block = espl__alloc(ESPL__STORE_BLOCK);
	struct espl__sealed e;
	int got = -1;

	while (lines != NULL && status == ESPL_OK && (got = espl__manifest_next(&lines, &e)) == 1) {
		status = check_entry(dir, &e, block, diag);
		seen++;
	}
	free(block);
	if (status == ESPL_OK && (got != 0 || seen != entries))
		status = espl__fail(diag, ESPL_E_CONFIG, ESPL__MANIFEST " is damaged");
	return status;
}

espl_status
espl__checkpoint_check(const char *dir, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return espl__fail_errno(diag, "its directory cannot be opened");
	status = espl__manifest_read(fd, &text, diag);
	if (status == ESPL_OK)
		status = check_entries(fd, &text, diag);
	close(fd);
	espl__buf_free(&text);
	return status;
}
