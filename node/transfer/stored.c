/* stored.c - see stored.h. */
#include "transfer/stored.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/below.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "transfer/pack.h"

#define TEXT_MOST ((size_t)4 << 10)

void
espl__stored_free(struct espl__stored *at)
{
	free(at->key);
	memset(at, 0, sizeof *at);
}

static int
parse_record(const char *text, struct espl__stored *at, char key[TEXT_MOST])
{
	return sscanf(text, "espalier-stored 1\n%16" SCNx64 " %20" SCNu64 " %4000s", &at->digest,
		   &at->size, key) == 3 &&
		espl__path_is_inside(key)
	    ? 0
	    : -1;
}

/* A trial may save a file of this name: beside a MANIFEST it is no record. */
espl_status
espl__stored_read(const char *place, struct espl__stored *at, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status = ESPL_OK;
	char key[TEXT_MOST];
	int dir = open(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), file = -1;

	memset(at, 0, sizeof *at);
	if (dir >= 0 && faccessat(dir, ESPL__MANIFEST, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		status = espl__fail(diag, ESPL_E_UNKNOWN, "'%s' is not in a bucket", place);
	else if (dir < 0 || (file = espl__below_open(dir, ESPL__STORED, O_RDONLY, 0)) < 0)
		status = espl__fail_errno(diag, "cannot open '%s/" ESPL__STORED "'", place);
	else
		status = espl__fd_read(file, ESPL__STORED, TEXT_MOST - 1, &text, diag);
	if (status == ESPL_OK && parse_record(espl__buf_text(&text), at, key) != 0)
		status = espl__fail(diag, ESPL_E_CONFIG, "'%s/" ESPL__STORED "' is damaged", place);
	if (status == ESPL_OK)
		at->key = espl__strdup(key);
	if (file >= 0)
		close(file);
	if (dir >= 0)
		close(dir);
	espl__buf_free(&text);
	return status;
}

espl_status
espl__stored_write(const char *place, const struct espl__stored *at, struct espl__diag *diag)
{
	char *part = espl__pack_part(place), *path = espl__format("%s/" ESPL__STORED, part), *text;
	char *slash = strrchr(part, '/');
	espl_status status = espl__tree_remove(part, diag);
	int parent = -1;

	text = espl__format("espalier-stored 1\n%016" PRIx64 " %" PRIu64 " %s\n", at->digest,
	    at->size, at->key);
	if (status == ESPL_OK)
		status = espl__dir_make(part, diag);
	if (status == ESPL_OK)
		status = espl__file_write(path, text, strlen(text), diag);
	if (status == ESPL_OK && espl__pack_place(part, place) != 0)
		status = espl__fail_errno(diag, "cannot move '%s' into place", part);
	(void)espl__tree_remove(part, NULL);
	*slash = '\0';
	if (status == ESPL_OK)
		parent = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (status == ESPL_OK && (parent < 0 || fsync(parent) != 0))
		status = espl__fail_errno(diag, "cannot sync '%s'", part);
	if (parent >= 0)
		close(parent);
	free(text);
	free(path);
	free(part);
	return status;
}

uint64_t
espl__stored_digest(const char *dir)
{
	struct espl__buf text = { NULL, 0, 0 };
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct espl__stored at = { 0, 0, NULL };
	uint64_t digest = 0;

	if (fd >= 0 && espl__manifest_read(fd, &text, NULL) == ESPL_OK)
		digest = espl__digest(0, text.data, text.size);
	else if (fd >= 0 && espl__stored_read(dir, &at, NULL) == ESPL_OK)
		digest = at.digest;
	espl__stored_free(&at);
	if (fd >= 0)
		close(fd);
	espl__buf_free(&text);
	return digest;
}
