/* output_unpack.c - from a stream into an output directory; see outputs.h.
 *
 * The stream comes from another machine: whatever it says, nothing outside of the directory is
 * written.  A file is written beside the directory, and renamed into it when it is complete.
 */
#include "transfer/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/below.h"
#include "base/file.h"
#include "base/mem.h"
#include "transfer/pack.h"

#define TEMPORARY "file"
#define REST 13u /* kind, mode, size */

enum { LENGTH = 0, NAME, ABOUT, CONTENT, GOOD };

static espl_status
fail_stream(struct espl__diag *diag)
{
	return espl__fail(diag, ESPL_E_CONFIG, "the stream of output files is damaged");
}

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Errors that the next file would have, too. */
static int
is_general(int code)
{
	return code == ENOSPC || code == EDQUOT || code == EROFS || code == EIO;
}

/* The file at hand cannot be written.  Fails if no other could be. */
static espl_status
skip_file(struct espl__output_unpack *u, struct espl__diag *diag)
{
	int code = errno;

	close_fd(&u->file);
	u->skips = 1;
	if (is_general(code))
		return espl__fail_errno(diag, "cannot write '%.200s'", u->name);
	if (u->trouble.status == ESPL_OK)
		(void)espl__fail_errno(&u->trouble, "cannot write '%.200s'", u->name);
	return ESPL_OK;
}

espl_status
espl__output_unpack_open(struct espl__output_unpack *u, const char *place, struct espl__diag *diag)
{
	memset(u, 0, sizeof *u);
	u->dir = u->parts = u->file = -1;
	u->opened = 1;
	u->want = 4;
	if (espl__dir_make(place, diag) != ESPL_OK)
		return diag->status;
	u->dir = open(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u->dir < 0)
		return espl__fail_errno(diag, "cannot open directory '%s'", place);
	u->part = espl__pack_part(place);
	if (espl__tree_remove(u->part, diag) != ESPL_OK ||
	    espl__dir_make_private(u->part, diag) != ESPL_OK)
		return diag->status;
	u->parts = open(u->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return u->parts >= 0 ? ESPL_OK
			     : espl__fail_errno(diag, "cannot open directory '%s'", u->part);
}

/* ---- its head ------------------------------------------------------------------------- */

static espl_status
begin_file(struct espl__output_unpack *u, struct espl__diag *diag)
{
	struct espl__reader r = espl__reader(u->head.data, u->head.size);

	u->kind = (char)espl__get_u8(&r);
	u->mode = espl__get_u32(&r);
	u->left = espl__get_u64(&r);
	if ((u->kind != 'f' && u->kind != 'l') || u->left > ESPL__OUTPUT_BYTES ||
	    (u->kind == 'l' && u->left > ESPL__OUTPUT_NAME))
		return fail_stream(diag);
	u->skips = 0;
	u->stage = CONTENT;
	espl__buf_clear(&u->target);
	if (u->kind == 'l')
		return ESPL_OK;
	(void)unlinkat(u->parts, TEMPORARY, 0);
	u->file =
	    openat(u->parts, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return u->file >= 0 ? ESPL_OK : skip_file(u, diag);
}

/* ---- into its place ------------------------------------------------------------------- */

static espl_status
place_file(struct espl__output_unpack *u, struct espl__diag *diag)
{
	const char *last;
	int dir, bad, code;

	if (u->kind == 'l') {
		const char *target = espl__buf_text(&u->target);

		if (strlen(target) != u->target.size || !espl__link_is_inside(u->name, target))
			return fail_stream(diag);
		(void)unlinkat(u->parts, TEMPORARY, 0);
		if (symlinkat(target, u->parts, TEMPORARY) != 0)
			return skip_file(u, diag);
	}
	dir = espl__below_parent(u->dir, u->name, 1, &last); /* of two the later one wins */
	bad = dir < 0 || renameat(u->parts, TEMPORARY, dir, last) != 0;
	code = errno;
	if (dir >= 0)
		close(dir);
	errno = code;
	return bad ? skip_file(u, diag) : ESPL_OK;
}

static espl_status
end_file(struct espl__output_unpack *u, struct espl__diag *diag)
{
	struct espl__reader r = espl__reader(u->head.data, u->head.size);
	uint64_t good = espl__get_u64(&r);
	espl_status status = ESPL_OK;
	struct stat st;

	if (good == ESPL__OUTPUT_VANISHED || u->skips) {
		close_fd(&u->file);
		return ESPL_OK;
	}
	if (u->kind == 'l')
		return good == u->target.size ? place_file(u, diag) : fail_stream(diag);
	if (fstat(u->file, &st) != 0 || good > (uint64_t)st.st_size)
		return fail_stream(diag);
	if (fchmod(u->file, espl__mode_below(u->mode)) != 0 || ftruncate(u->file, (off_t)good) != 0)
		status = skip_file(u, diag);
	close_fd(&u->file);
	return status == ESPL_OK && !u->skips ? place_file(u, diag) : status;
}

/* ---- the stream ----------------------------------------------------------------------- */

/* A part of the head, or what follows the content, is complete. */
static espl_status
take_part(struct espl__output_unpack *u, struct espl__diag *diag)
{
	struct espl__reader r = espl__reader(u->head.data, u->head.size);
	espl_status status = ESPL_OK;
	uint32_t length;

	switch (u->stage) {
	case LENGTH:
		length = espl__get_u32(&r);
		if (length == 0 || length > ESPL__OUTPUT_NAME)
			return fail_stream(diag);
		u->want = length;
		u->stage = NAME;
		break;
	case NAME:
		free(u->name);
		u->name = espl__strdup(espl__buf_text(&u->head));
		if (strlen(u->name) != u->head.size || !espl__path_is_inside(u->name))
			return espl__fail(diag, ESPL_E_CONFIG,
			    "the name of an output file leads out of its directory");
		u->want = REST;
		u->stage = ABOUT;
		break;
	case ABOUT:
		status = begin_file(u, diag);
		u->want = 8;
		break;
	default:
		status = end_file(u, diag);
		u->want = 4;
		u->stage = LENGTH;
	}
	espl__buf_clear(&u->head);
	return status;
}

static espl_status
take_content(struct espl__output_unpack *u, const uint8_t *at, size_t size, struct espl__diag *diag)
{
	u->left -= size;
	if (u->kind == 'l')
		espl__put(&u->target, at, size);
	else if (!u->skips && espl__write_all(u->file, at, size) != 0)
		return skip_file(u, diag);
	return ESPL_OK;
}

espl_status
espl__output_unpack_write(struct espl__output_unpack *u, const uint8_t *at, size_t size,
    struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	while (status == ESPL_OK && size > 0) {
		size_t step;

		if (u->stage == CONTENT && u->left == 0)
			u->stage = GOOD;
		step = u->stage == CONTENT          ? (u->left < size ? (size_t)u->left : size)
		    : u->want - u->head.size < size ? u->want - u->head.size
						    : size;
		if (u->stage == CONTENT) {
			status = take_content(u, at, step, diag);
		} else {
			espl__put(&u->head, at, step);
			if (u->head.size == u->want)
				status = take_part(u, diag);
		}
		at += step;
		size -= step;
	}
	return status;
}

espl_status
espl__output_unpack_close(struct espl__output_unpack *u, struct espl__diag *diag)
{
	if (u->stage != LENGTH || u->head.size > 0)
		return fail_stream(diag);
	if (u->trouble.status != ESPL_OK)
		return espl__fail(diag, ESPL_E_CONFIG, "%s", u->trouble.text);
	return ESPL_OK;
}

void
espl__output_unpack_drop(struct espl__output_unpack *u)
{
	if (!u->opened)
		return;
	close_fd(&u->dir);
	close_fd(&u->parts);
	close_fd(&u->file);
	if (u->part != NULL)
		(void)espl__tree_remove(u->part, NULL);
	free(u->part);
	free(u->name);
	espl__buf_free(&u->head);
	espl__buf_free(&u->target);
	memset(u, 0, sizeof *u);
}
