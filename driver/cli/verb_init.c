/* verb_init.c - init: a first configuration, for a script that is read and not run. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "init/propose.h"

/* What is not executable is run by the program of its first line. */
static void
find_runner(const char *path, const char *text, struct espl__script *s)
{
	size_t length = strlen(path), n;
	char *to;

	if (access(path, X_OK) == 0)
		return;
	if (strncmp(text, "#!", 2) != 0) {
		s->runner = length > 3 && strcmp(path + length - 3, ".sh") == 0 ? "sh" : NULL;
		return;
	}
	text += 2 + strspn(text + 2, " \t");
	n = strcspn(text, " \t\r\n");
	if (n >= 4 && memcmp(text + n - 4, "/env", 4) == 0)
		text += n + strspn(text + n, " \t");
	if (strncmp(text, "-S ", 3) == 0) /* of env */
		text += 3;
	for (n = 0; text[n] >= ' ' && text[n] < 0x7f;)
		n++;
	to = espl__arena_alloc(&s->arena, n + 1);
	memcpy(to, text, n);
	s->runner = n > 0 ? to : NULL;
}

static espl_status
read_script(const char *path, struct espl__script *s, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status = ESPL_OK;

	memset(s, 0, sizeof *s);
	if (path == NULL)
		return ESPL_OK;
	status = espl__file_read(path, ESPL__SCRIPT_MAX, &text, diag);
	if (status == ESPL_OK && text.size > 0 && memchr(text.data, 0, text.size) != NULL)
		status = ESPL_OK; /* a program: there is nothing to read */
	else if (status == ESPL_OK) {
		espl__script_read(s, espl__buf_text(&text));
		find_runner(path, espl__buf_text(&text), s);
	}
	espl__buf_free(&text);
	return status;
}

/* A relative path is looked up in the directory of the configuration. */
static char *
path_from(const char *script, const char *output, struct espl__diag *diag)
{
	char full[PATH_MAX];

	if (script == NULL || output == NULL || strchr(output, '/') == NULL)
		return espl__strdup(script);
	if (realpath(script, full) != NULL)
		return espl__strdup(full);
	espl__fail_errno(diag, "cannot resolve '%s'", script);
	return NULL;
}

static espl_status
write_new(const char *path, const struct espl__buf *text, struct espl__diag *diag)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0 && errno == EEXIST) {
		espl__fail(diag, ESPL_E_CONFIG, "'%s' exists already", path);
		espl__hint(diag, "choose another name, or remove it");
		return ESPL_E_CONFIG;
	}
	if (fd < 0 || espl__write_all(fd, text->data, text->size) != 0) {
		espl__fail_errno(diag, "cannot write '%s'", path);
		if (fd >= 0)
			(void)close(fd);
		return ESPL_E_CONFIG;
	}
	if (close(fd) != 0)
		return espl__fail_errno(diag, "cannot write '%s'", path);
	fprintf(stderr, "wrote %s; check it with `espalier check %s`\n", path, path);
	return ESPL_OK;
}

int
espl__verb_init(const struct espl__args *args)
{
	const char *script = args->count > 0 ? args->positional[0] : NULL,
		   *output = espl__arg(args, "output");
	struct espl__script *s = espl__alloc(sizeof *s);
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status = read_script(script, s, &diag);
	char *path = NULL;
	int result;

	if (status == ESPL_OK && (path = path_from(script, output, &diag)) == NULL)
		status = script != NULL ? ESPL_E_CONFIG : ESPL_OK;
	if (status == ESPL_OK) {
		espl__init_write(s, path, &text);
		if (output != NULL)
			status = write_new(output, &text, &diag);
	}
	result = status != ESPL_OK ? espl__cli_fail(&diag)
	    : output != NULL       ? ESPL__EXIT_DONE
				   : espl__cli_print(&text);
	espl__script_free(s);
	espl__buf_free(&text);
	free(path);
	free(s);
	return result;
}
