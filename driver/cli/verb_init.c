/* verb_init.c - init: a first configuration.
 *
 * Scripts in Python are read by the program espalier-init, which is in Python itself
 * (sdk/python/espalier/init).  For others, and without a script, there is a template.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "config/tree.h"
#include "plugin/registry.h"

#define SCRIPT_MAX ((size_t)64 << 20) /* bytes */

/* Its name ends with .py, or its first line starts Python. */
static int
is_python(const char *path, const char *text)
{
	size_t length = strlen(path), line = strcspn(text, "\r\n");
	const char *word = strstr(text, "python");

	if (length > 3 && strcmp(path + length - 3, ".py") == 0)
		return 1;
	return strncmp(text, "#!", 2) == 0 && word != NULL && (size_t)(word - text) < line;
}

/* ---- Python ------------------------------------------------------------------------------ */

/* Becomes `python3 LIBEXEC/espalier-init SCRIPT ...`; returns where that fails. */
static espl_status
start_python(const struct espl__args *args, struct espl__diag *diag)
{
	char *program = espl__format("%s/espalier-init", espl__libexec());
	const char *output = espl__arg(args, "output");
	const char *argv[8] = { "python3", program, NULL };
	size_t count = 2;

	if (output != NULL) {
		argv[count++] = "--output";
		argv[count++] = output;
	}
	if (espl__arg(args, "no-ask") != NULL)
		argv[count++] = "--no-ask";
	argv[count++] = "--";
	argv[count++] = args->positional[0];
	argv[count] = NULL;
	if (access(program, R_OK) != 0) {
		espl__fail_errno(diag, "cannot read '%s'", program);
		espl__hint(diag, "it belongs to the installation of espalier");
	} else {
		(void)execvp("python3", (char *const *)argv);
		espl__fail(diag, ESPL_E_CONFIG,
		    errno == ENOENT ? "python3, which reads the script, is not in PATH"
				    : "python3, which reads the script, cannot be started: %s",
		    strerror(errno));
		espl__hint(diag,
		    "install Python 3.9 or later; or write the configuration from the template "
		    "that `espalier init` prints without a script");
	}
	free(program);
	return ESPL_E_CONFIG;
}

/* ---- the template ------------------------------------------------------------------------ */

static void
put_word(const char *word, size_t size, struct espl__buf *to)
{
	char *copy = espl__format("%.*s", (int)size, word);
	struct espl__buf text = { NULL, 0, 0 };

	for (const char *p = copy; *p != '\0'; p++)
		espl__print(&text, *p == '{' ? "{{" : "%c", *p);
	espl__print(to, " ");
	espl__print_quoted(to, espl__buf_text(&text));
	espl__print(to, ",");
	espl__buf_free(&text);
	free(copy);
}

/* What is not executable is run by the program of its first line. */
static void
put_runner(const char *path, const char *text, struct espl__buf *to)
{
	size_t length = strlen(path), n;

	if (access(path, X_OK) == 0)
		return;
	if (strncmp(text, "#!", 2) != 0) {
		if (length > 3 && strcmp(path + length - 3, ".sh") == 0)
			put_word("sh", 2, to);
		return;
	}
	text += 2 + strspn(text + 2, " \t");
	n = strcspn(text, " \t\r\n");
	if (n >= 4 && memcmp(text + n - 4, "/env", 4) == 0)
		text += n + strspn(text + n, " \t");
	if (strncmp(text, "-S ", 3) == 0) /* of env */
		text += 3;
	for (text += strspn(text, " \t"); *text > ' ' && *text < 0x7f;
	     text += strspn(text, " \t")) {
		n = 0;
		while (text[n] > ' ' && text[n] < 0x7f)
			n++;
		put_word(text, n, to);
		text += n;
	}
}

/* On one line, and short enough for a comment. */
static void
put_comment(const char *text, struct espl__buf *to)
{
	for (size_t n = 0; text[n] != '\0' && n < 100; n++)
		espl__put_u8(to, iscntrl((unsigned char)text[n]) ? '?' : (uint8_t)text[n]);
}

static void
write_template(const char *path, const char *text, struct espl__buf *to)
{
	/* a program of this directory is not in PATH */
	int here = path != NULL && strchr(path, '/') == NULL && access(path, X_OK) == 0;
	char *program = espl__format("%s%s", here ? "./" : "", path != NULL ? path : "");

	espl__print(to, "# A template");
	if (path != NULL) {
		espl__print(to, " for ");
		put_comment(path, to);
	}
	espl__print(to,
	    ", written by `espalier init`: replace each CHANGE-ME.\n"
	    "# `espalier check FILE` validates it, `espalier run FILE` starts the search.\n"
	    "# `espalier help trial` explains the command and the metrics.\n"
	    "experiment = {\n"
	    "  name = \"search\"; # the run directory is named after it\n"
	    "  metric = \"CHANGE-ME\"; # what to optimize: a name in the pattern below\n"
	    "  goal = \"minimize\"; # or \"maximize\"\n"
	    "};\n"
	    "trial = {\n"
	    "  # {NAME} is replaced by the value of a parameter of the space, {iterations} by the "
	    "last iteration.\n"
	    "  command = [");
	if (path == NULL)
		espl__print(to, " \"python3\", \"CHANGE-ME\",");
	else {
		put_runner(path, text, to);
		put_word(program, strlen(program), to);
	}
	espl__print(to,
	    " \"CHANGE-ME\" ]; # its options, such as \"--lr={lr}\"\n"
	    "  # Copy a line of the output, and write {NAME} in place of each number: \"epoch "
	    "{iteration}: loss {loss}\".\n"
	    "  metrics = { pattern = \"CHANGE-ME\"; };\n"
	    "  gpus_max = 1; # GPUs, or slots, of a trial\n"
	    "};\n"
	    "space = {\n"
	    "  # Types: real, int, choice, ordinal.\n"
	    "  lr = { type = \"real\"; low = 1e-4; high = 0.1; scale = \"log\"; };\n"
	    "};\n"
	    "# Successive halving: of the trials that reach 1, 3, 9, ... iterations the best third "
	    "continues.\n"
	    "algorithm = { use = \"asha\"; mode = \"stopping\"; trials = 27; iterations_max = 10; "
	    "};\n"
	    "allocator = { use = \"fair\"; }; # divides the GPUs among the trials that can run\n");
	free(program);
}

/* A relative path is looked up in the directory of the configuration. */
static char *
path_from(const char *script, const char *output, struct espl__diag *diag)
{
	char full[PATH_MAX];

	if (output == NULL || strchr(output, '/') == NULL)
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
	fprintf(stderr, "wrote %s; replace each CHANGE-ME in it\n", path);
	return ESPL_OK;
}

int
espl__verb_init(const struct espl__args *args)
{
	const char *script = args->count > 0 ? args->positional[0] : NULL,
		   *output = espl__arg(args, "output");
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf source = { NULL, 0, 0 }, text = { NULL, 0, 0 };
	espl_status status = ESPL_OK;
	char *path = NULL;
	int result;

	if (script != NULL)
		status = espl__file_read(script, SCRIPT_MAX, &source, &diag);
	if (status == ESPL_OK && script != NULL && is_python(script, espl__buf_text(&source)))
		status = start_python(args, &diag);
	if (status == ESPL_OK && script != NULL &&
	    (path = path_from(script, output, &diag)) == NULL)
		status = ESPL_E_CONFIG;
	if (status == ESPL_OK) {
		write_template(path, espl__buf_text(&source), &text);
		if (output != NULL)
			status = write_new(output, &text, &diag);
	}
	result = status != ESPL_OK ? espl__cli_fail(&diag)
	    : output != NULL       ? ESPL__EXIT_DONE
				   : espl__cli_print(&text);
	espl__buf_free(&source);
	espl__buf_free(&text);
	free(path);
	return result;
}
