/* agent_python.c - see agent_python.h.  python3 [OPTIONS] SCRIPT, python3 [OPTIONS] -m MODULE, or a
 * script whose first line names an interpreter, as the console scripts of venv and conda do.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "agent/agent_python.h"

#define FIRST_LINE 512
/* Options of one letter that say nothing about where modules are found. */
#define PLAIN_OPTIONS "BOEqsu"

void
espl__python_free(struct espl__python *p)
{
	free(p->program);
	free(p->name);
	free(p->entry);
	espl__strings_free(&p->options);
	espl__strings_free(&p->argv);
	memset(p, 0, sizeof *p);
}

static char *
name_in(const char *path)
{
	const char *slash = strrchr(path, '/');

	return espl__strdup(slash != NULL ? slash + 1 : path);
}

/* "/usr/bin/python3.11", "python" */
static int
names_python(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name != NULL ? name + 1 : path;
	return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

static int
is_plain_option(const char *word)
{
	return word[0] == '-' && word[1] != '\0' &&
	    word[1 + strspn(word + 1, PLAIN_OPTIONS)] == '\0';
}

/* A file, not a directory or an archive with a __main__.py, nor compiled. */
static int
is_source(const char *path, const char *dir)
{
	char *whole = path[0] == '/' ? espl__strdup(path) : espl__format("%s/%s", dir, path);
	char head[2] = { 0, 0 };
	struct stat st;
	int fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK), fits;

	fits = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    read(fd, head, sizeof head) >= 0 && memcmp(head, "PK", 2) != 0 &&
	    (strlen(path) < 4 || strcmp(path + strlen(path) - 4, ".pyc") != 0);
	if (fd >= 0)
		close(fd);
	free(whole);
	return fits;
}

/* words: those behind the interpreter's name. */
static const char *
parse_words(char *const *words, size_t count, const char *dir, struct espl__python *p)
{
	size_t at = 0;

	while (at < count && is_plain_option(words[at]))
		espl__words_add(&p->options, espl__strdup(words[at++]));
	if (at + 1 < count && strcmp(words[at], "-m") == 0) {
		p->module = 1;
		at++;
	} else if (at == count || words[at][0] == '-') {
		return "its interpreter has an option other than -m and -" PLAIN_OPTIONS
		       ", or no script";
	} else if (!is_source(words[at], dir)) {
		return "it runs something other than a script's source";
	}
	p->entry = espl__strdup(words[at]);
	p->skip = 1 + at + 1;
	return NULL;
}

/* Of "#!/usr/bin/python3 -u": the path and, if there is one, the rest. 0: it has both or one. */
static int
read_interpreter(const char *path, char line[FIRST_LINE], char **option)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got = fd >= 0 ? read(fd, line, FIRST_LINE - 1) : -1;
	char *end;

	if (fd >= 0)
		close(fd);
	if (got < 3 || memcmp(line, "#!", 2) != 0)
		return -1;
	line[got] = '\0';
	end = strchr(line, '\n');
	if (end == NULL)
		return -1;
	*end = '\0';
	while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		*--end = '\0';
	memmove(line, line + 2 + strspn(line + 2, " \t"),
	    strlen(line + 2 + strspn(line + 2, " \t")) + 1);
	*option = strpbrk(line, " \t");
	if (*option != NULL) {
		*(*option)++ = '\0';
		*option += strspn(*option, " \t");
	}
	return line[0] != '\0' ? 0 : -1;
}

static const char *
parse_script(const char *path, char *const *words, size_t count, const char *dir,
    const char *search, struct espl__python *p)
{
	static const char other[] = "its command is neither Python nor a script for it";
	char line[FIRST_LINE], *option, *name = line;

	if (read_interpreter(path, line, &option) != 0)
		return other;
	if (strcmp(line, "/usr/bin/env") == 0 && option != NULL && strpbrk(option, " \t") == NULL) {
		name = option;
		option = NULL;
	}
	if (!names_python(name) || (option != NULL && !is_plain_option(option)))
		return other;
	p->program = espl__find_program(name, dir, search);
	if (p->program == NULL)
		return other;
	espl__words_add(&p->argv, espl__strdup(name));
	espl__words_add(&p->options, espl__strdup(name));
	if (option != NULL) {
		espl__words_add(&p->argv, espl__strdup(option));
		espl__words_add(&p->options, espl__strdup(option));
	}
	p->name = name_in(name != line ? p->program : path);
	espl__words_add(&p->argv, espl__strdup(path));
	p->skip = p->argv.count;
	for (size_t i = 1; i < count; i++)
		espl__words_add(&p->argv, espl__strdup(words[i]));
	p->entry = espl__strdup(path);
	return NULL;
}

const char *
espl__python_parse(const char *path, char *const *words, size_t count, const char *dir,
    const char *search, struct espl__python *p)
{
	char line[FIRST_LINE], *option;

	memset(p, 0, sizeof *p);
	if (!names_python(path))
		return parse_script(path, words, count, dir, search, p);
	if (read_interpreter(path, line, &option) == 0)
		return "its interpreter is a script, as those of pyenv are; name the program that "
		       "it "
		       "starts";
	p->program = espl__strdup(path);
	p->name = name_in(path);
	espl__words_add(&p->options, espl__strdup(words[0]));
	for (size_t i = 0; i < count; i++)
		espl__words_add(&p->argv, espl__strdup(words[i]));
	return parse_words(words + 1, count - 1, dir, p);
}
