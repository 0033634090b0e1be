/* output.c - what commands write: to standard output, or to the file of -o. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

int
espl__cli_print(struct espl__buf *b)
{
	if (fwrite(b->data, 1, b->size, stdout) != b->size || fflush(stdout) != 0) {
		if (errno != EPIPE)
			fprintf(stderr, "espalier: error: cannot write the output: %s\n",
			    strerror(errno));
		return ESPL__EXIT_FAILED;
	}
	return ESPL__EXIT_DONE;
}

/* A device, a pipe or a link stays what it is: nothing is renamed onto /dev/null. */
static int
is_replaced(const char *out)
{
	struct stat st;

	return lstat(out, &st) != 0 || S_ISREG(st.st_mode);
}

/* A new file, whatever lies there: in a directory of another user that may be a link. */
static FILE *
open_new(const char *path)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(path, flags, 0666);
	FILE *to;

	if (fd < 0 && errno == EEXIST && unlink(path) == 0)
		fd = open(path, flags, 0666);
	to = fd < 0 ? NULL : fdopen(fd, "w");
	if (to == NULL && fd >= 0)
		(void)close(fd);
	return to;
}

/* As /dev/stdout: what is printed after it must follow it. */
static int
is_stdout(const char *out)
{
	struct stat a, b;

	return stat(out, &a) == 0 && fstat(STDOUT_FILENO, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino;
}

static espl_status
write_output(const char *out, int anew,
    espl_status (*fill)(void *ctx, FILE *to, struct espl__diag *diag), void *ctx,
    struct espl__diag *diag)
{
	char *temporary = NULL;
	espl_status status;
	FILE *to = stdout;
	int broken;

	if (out != NULL && !anew && is_stdout(out))
		out = NULL;
	if (out != NULL && (anew || is_replaced(out)))
		temporary = espl__format("%s.%ld", out, (long)getpid());
	if (out != NULL)
		to = temporary != NULL ? open_new(temporary) : fopen(out, "we");
	if (to == NULL) {
		status =
		    espl__fail(diag, ESPL_E_CONFIG, "cannot write '%s': %s", out, strerror(errno));
		espl__hint(diag, "choose another file with -o FILE");
	} else {
		status = fill(ctx, to, diag);
		broken = fflush(to) != 0 || ferror(to);
		if (out != NULL)
			broken |= fclose(to) != 0;
		if (status == ESPL_OK && broken)
			status = espl__fail_errno(diag, "cannot write %s",
			    out != NULL ? out : "the output");
		if (status == ESPL_OK && temporary != NULL && rename(temporary, out) < 0)
			status = espl__fail_errno(diag, "cannot create '%s'", out);
		if (status != ESPL_OK && temporary != NULL)
			(void)unlink(temporary);
	}
	free(temporary);
	return status;
}

espl_status
espl__cli_write(const char *out, espl_status (*fill)(void *ctx, FILE *to, struct espl__diag *diag),
    void *ctx, struct espl__diag *diag)
{
	return write_output(out, 0, fill, ctx, diag);
}

espl_status
espl__cli_write_new(const char *out,
    espl_status (*fill)(void *ctx, FILE *to, struct espl__diag *diag), void *ctx,
    struct espl__diag *diag)
{
	return write_output(out, 1, fill, ctx, diag);
}

static espl_status
put_text(void *ctx, FILE *to, struct espl__diag *diag)
{
	const struct espl__buf *text = ctx;

	(void)diag;
	(void)fwrite(text->data, 1, text->size, to); /* the caller asks ferror */
	return ESPL_OK;
}

espl_status
espl__cli_write_text(const char *out, struct espl__buf *text, struct espl__diag *diag)
{
	return espl__cli_write(out, put_text, text, diag);
}
