/* run_files.c - trial.files: which files a search needs, and the copy of them that a run has.
 *
 * The patterns are those of glob(3), without what leads out of the directory.  A pattern that fits
 * a directory selects all that is below it.
 */
#include "input/run_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"
#include "input/run_groups.h"
#include "checkpoint/checkpoint.h"

#define IGNORE_FILE ".espalierignore"
#define IGNORE_MOST ((size_t)1 << 20)
#define BYTES_MOST ((uint64_t)1 << 30)
#define FILES_MOST 100000u
#define DEEPEST 30u
#define PART "files.new" /* the copy that is being made */
#define BLOCK ((size_t)64 << 10)

/* ---- syntax ------------------------------------------------------------------------------ */

static espl_status
refuse_pattern(const struct espl__node *node, const char *why, struct espl__diag *diag)
{
	espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line, "trial.files: %s", why);
	espl__hint(diag, "for example files = [ \"train.py\", \"lib/\", \"*.json\" ];");
	return ESPL_E_CONFIG;
}

static espl_status
check_pattern(const struct espl__node *node, struct espl__diag *diag)
{
	const char *part = node->text;

	if (node->type != ESPL__STRING || part[0] == '\0')
		return refuse_pattern(node, "each pattern must be a string that is not empty",
		    diag);
	if (part[0] == '/')
		return refuse_pattern(node,
		    "a path must be relative to the directory of the configuration file", diag);
	while (part != NULL) {
		part += part[0] == '/';
		if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
			return refuse_pattern(node,
			    "a path must not lead out of the directory of the configuration file",
			    diag);
		part = strchr(part, '/');
	}
	return ESPL_OK;
}

espl_status
espl__run_read_files(struct espl__trial_config *trial, const struct espl__node *group,
    struct espl__diag *diag)
{
	const struct espl__node *files = espl__node_get(group, "files");
	espl_status status = ESPL_OK;

	trial->files = files;
	if (files == NULL)
		return ESPL_OK;
	if (files->type == ESPL__STRING)
		return check_pattern(files, diag);
	if ((files->type != ESPL__ARRAY && files->type != ESPL__LIST) || files->child_count == 0)
		return refuse_pattern(files, "it must be an array of patterns, not empty", diag);
	for (uint32_t i = 0; i < files->child_count && status == ESPL_OK; i++)
		status = check_pattern(files->children[i], diag);
	return status;
}

/* ---- .espalierignore --------------------------------------------------------------------- */

/* Without a slash, but at its end, a pattern is about names at any depth. */
static int
fits_ignore(char *pattern, const char *path, int dir)
{
	size_t size = strlen(pattern);
	const char *name = strrchr(path, '/');

	if (size > 1 && pattern[size - 1] == '/') {
		if (!dir)
			return 0;
		pattern[size - 1] = '\0';
	}
	if (strncmp(pattern, "**/", 3) == 0) {
		for (; path != NULL; path = strchr(path, '/')) {
			path += path[0] == '/';
			if (fnmatch(pattern + 3, path, FNM_PATHNAME) == 0)
				return 1;
		}
		return 0;
	}
	if (strchr(pattern, '/') != NULL)
		return fnmatch(pattern + (pattern[0] == '/'), path, FNM_PATHNAME) == 0;
	return fnmatch(pattern, name != NULL ? name + 1 : path, 0) == 0;
}

int
espl__files_ignored(const char *rules, const char *path, int dir)
{
	while (*rules != '\0') {
		size_t size = strcspn(rules, "\n"), end = size;
		char *line;
		int fits;

		while (end > 0 && strchr(" \t\r", rules[end - 1]) != NULL)
			end--;
		line = espl__format("%.*s", (int)end, rules);
		fits = line[0] != '\0' && line[0] != '#' && fits_ignore(line, path, dir);
		free(line);
		if (fits)
			return 1;
		rules += size + (rules[size] == '\n');
	}
	return 0;
}

/* A rule that nothing would follow: what it should bring back would be missing in trials. */
static espl_status
check_rules(const char *rules, const char *path, struct espl__diag *diag)
{
	for (uint32_t line = 1; *rules != '\0'; line++) {
		size_t size = strcspn(rules, "\n");

		if (rules[0] == '!') {
			espl__fail_at(diag, ESPL_E_CONFIG, path, line,
			    "patterns that begin with '!' are not supported");
			espl__hint(diag,
			    "a file is sent if no line fits it; write narrower patterns");
			return ESPL_E_CONFIG;
		}
		rules += size + (rules[size] == '\n');
	}
	return ESPL_OK;
}

/* ---- the walk ---------------------------------------------------------------------------- */

struct walk {
	const struct espl__node *files;
	const char *to; /* the copy; NULL: the files are only counted */
	char *base;     /* absolute, without links */
	struct espl__buf rules;
	uint64_t bytes;
	uint32_t count;
	unsigned char *hit; /* [pattern] */
	struct espl__diag *diag;
};

static espl_status
refuse_entry(const struct walk *w, const char *path, const char *why)
{
	espl__fail_at(w->diag, ESPL_E_CONFIG, w->files->file, w->files->line,
	    "trial.files: '%s' %s", path, why);
	espl__hint(w->diag, "exclude what trials do not need with a line in " IGNORE_FILE);
	return ESPL_E_CONFIG;
}

enum { APART, ABOVE, SELECTED };

/* Is the path what the pattern selects, or a directory that leads there? */
static int
fit_pattern(const char *pattern, const char *path, int dir)
{
	size_t parts = 1, at, size;
	char *first;
	int fits;

	while (strncmp(pattern, "./", 2) == 0)
		pattern += 2 + strspn(pattern + 2, "/");
	if (pattern[0] == '\0' || strcmp(pattern, ".") == 0)
		return SELECTED;
	for (const char *c = path; *c != '\0'; c++)
		parts += *c == '/';
	for (at = strcspn(pattern, "/"); parts > 1 && pattern[at] != '\0'; parts--)
		at += 1 + strcspn(pattern + at + 1, "/");
	first = espl__format("%.*s", (int)at, pattern);
	fits = fnmatch(first, path, FNM_PATHNAME | FNM_PERIOD) == 0;
	free(first);
	size = at + strspn(pattern + at, "/");
	if (!fits || (size > at && !dir))
		return APART;
	return pattern[size] == '\0' ? SELECTED : ABOVE;
}

static int
fit_patterns(struct walk *w, const char *path, int dir)
{
	int best = APART;

	if (w->files->type == ESPL__STRING)
		return SELECTED;
	for (uint32_t i = 0; i < w->files->child_count; i++) {
		int fits = fit_pattern(w->files->children[i]->text, path, dir);

		w->hit[i] |= fits == SELECTED;
		best = fits > best ? fits : best;
	}
	return best;
}

static espl_status
copy_bytes(int from, int to, const char *name, struct espl__diag *diag)
{
	static char block[BLOCK];
	ssize_t got;

	while ((got = read(from, block, sizeof block)) > 0)
		if (espl__write_all(to, block, (size_t)got) != 0)
			return espl__fail_errno(diag, "cannot write '%s'", name);
	return got == 0 ? ESPL_OK
			: espl__fail_errno(diag, "cannot read the original of '%s'", name);
}

static espl_status
add_file(struct walk *w, const char *path, const char *from, const struct stat *st)
{
	char *to;
	espl_status status;
	int in, out = -1;

	w->bytes += (uint64_t)st->st_size;
	if (++w->count > FILES_MOST || w->bytes > BYTES_MOST)
		return refuse_entry(w, path,
		    w->bytes > BYTES_MOST ? "cannot be copied: all files together exceed 1 GiB"
					  : "cannot be copied: there are more than 100000 files");
	if (w->to == NULL && access(from, R_OK) != 0)
		return refuse_entry(w, path, "cannot be read");
	if (w->to == NULL)
		return ESPL_OK;
	to = espl__format("%s/%s", w->to, path);
	*strrchr(to, '/') = '\0';
	status = espl__dir_make(to, w->diag);
	to[strlen(to)] = '/';
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in >= 0 && status == ESPL_OK)
		out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (status != ESPL_OK)
		; /* and told */
	else if (in < 0)
		status = espl__fail_errno(w->diag, "cannot open '%s'", from);
	else if (out < 0 || fchmod(out, 0400 | (st->st_mode & 0555)) != 0)
		status = espl__fail_errno(w->diag, "cannot create '%s'", to);
	else
		status = copy_bytes(in, out, to, w->diag);
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	free(to);
	return status;
}

static int
is_inside(const struct walk *w, const char *from)
{
	char full[PATH_MAX];
	size_t size = strlen(w->base);

	return realpath(from, full) != NULL && strncmp(full, w->base, size) == 0 &&
	    (full[size] == '/' || full[size] == '\0' || size == 1);
}

/* Runs beside the configuration are not part of it. */
static int
is_run(const char *dir)
{
	char *path = espl__format("%s/run.cfg", dir), *part = espl__format("%s/" PART, dir);
	char *journal = espl__format("%s/journal", dir);
	int is = (access(path, F_OK) == 0 && access(journal, F_OK) == 0) || access(part, F_OK) == 0;

	free(path);
	free(part);
	free(journal);
	return is;
}

static espl_status walk_dir(struct walk *, const char *path, int selected, unsigned depth);

static espl_status
visit_entry(struct walk *w, const char *path, int selected, unsigned depth)
{
	char *from = espl__format("%s/%s", w->base, path);
	espl_status status = ESPL_OK;
	struct stat st, own;
	int there = lstat(from, &own) == 0 && stat(from, &st) == 0, dir, ignored, fits;

	dir = there && S_ISDIR(st.st_mode);
	ignored = espl__files_ignored(espl__buf_text(&w->rules), path, dir);
	fits = ignored ? APART : fit_patterns(w, path, dir);
	if (!ignored && selected)
		fits = SELECTED;
	if (fits == APART || (fits == ABOVE && !dir) || (dir && is_run(from)))
		; /* it is not wanted */
	else if (!there)
		status = refuse_entry(w, path, "is a link to something that does not exist");
	else if (S_ISLNK(own.st_mode) && !is_inside(w, from))
		status = refuse_entry(w, path, "is a link that leads out of the directory");
	else if (strcmp(path, ESPL__MANIFEST) == 0 && w->files->type != ESPL__STRING)
		status = refuse_entry(w, path, "has a name that is reserved by espalier");
	else if (strcmp(path, ESPL__MANIFEST) == 0)
		; /* that of the copy of an earlier run */
	else if (dir && depth >= DEEPEST)
		status = refuse_entry(w, path,
		    "is nested too deeply, or is a link to a parent directory");
	else if (dir)
		status = walk_dir(w, path, fits == SELECTED, depth + 1);
	else if (S_ISREG(st.st_mode))
		status = add_file(w, path, from, &st);
	else
		status = refuse_entry(w, path, "is neither a file nor a directory");
	free(from);
	return status;
}

static espl_status
walk_dir(struct walk *w, const char *path, int selected, unsigned depth)
{
	char *from = path[0] == '\0' ? espl__strdup(w->base) : espl__format("%s/%s", w->base, path);
	DIR *list = opendir(from);
	struct dirent *entry;
	espl_status status = ESPL_OK;

	if (list == NULL)
		status = espl__fail_errno(w->diag, "trial.files: cannot open '%s'", from);
	while (status == ESPL_OK && (entry = readdir(list)) != NULL) {
		char *inner = path[0] == '\0' ? espl__strdup(entry->d_name)
					      : espl__format("%s/%s", path, entry->d_name);

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			status = visit_entry(w, inner, selected, depth);
		free(inner);
	}
	if (list != NULL)
		(void)closedir(list);
	free(from);
	return status;
}

/* ---- the copy ---------------------------------------------------------------------------- */

static espl_status
open_walk(struct walk *w, const struct espl__run_config *config)
{
	char *base = w->files->type == ESPL__STRING ? espl__run_path(config, w->files->text)
						    : espl__strdup(config->trial.directory),
	     *rules, full[PATH_MAX];
	espl_status status = ESPL_OK;
	struct stat st;

	if (realpath(base, full) == NULL)
		status = espl__fail_at(w->diag, ESPL_E_CONFIG, w->files->file, w->files->line,
		    "trial.files: cannot open '%s': %s", base, strerror(errno));
	free(base);
	if (status != ESPL_OK)
		return status;
	w->base = espl__strdup(full);
	w->hit = espl__alloc(w->files->child_count + 1);
	rules = espl__format("%s/" IGNORE_FILE, w->base);
	if (stat(rules, &st) == 0 && !S_ISREG(st.st_mode)) /* reading a pipe could block forever */
		status = espl__fail(w->diag, ESPL_E_CONFIG, "'%s' is not a file", rules);
	else if (access(rules, F_OK) == 0)
		status = espl__file_read(rules, IGNORE_MOST, &w->rules, w->diag);
	if (status == ESPL_OK)
		status = check_rules(espl__buf_text(&w->rules), rules, w->diag);
	free(rules);
	return status;
}

static espl_status
check_hits(const struct walk *w)
{
	for (uint32_t i = 0; w->files->type != ESPL__STRING && i < w->files->child_count; i++) {
		const struct espl__node *node = w->files->children[i];

		if (w->hit[i])
			continue;
		espl__fail_at(w->diag, ESPL_E_CONFIG, node->file, node->line,
		    "trial.files: nothing matches '%s' in '%s'", node->text, w->base);
		espl__hint(w->diag, "what " IGNORE_FILE " names is left out");
		return ESPL_E_CONFIG;
	}
	if (w->count > 0)
		return ESPL_OK;
	return espl__fail_at(w->diag, ESPL_E_CONFIG, w->files->file, w->files->line,
	    "trial.files: the patterns match no files");
}

espl_status
espl__run_copy_files(const struct espl__run_config *config, const char *dir,
    struct espl__diag *diag)
{
	struct walk w = { .files = config->trial.files, .diag = diag };
	char *part, *place;
	espl_status status;
	uint64_t bytes;

	ESPL__CHECK(config, RUN_CONFIG);
	if (w.files == NULL)
		return ESPL_OK;
	part = dir != NULL ? espl__format("%s/" PART, dir) : NULL;
	place = dir != NULL ? espl__format("%s/" ESPL__RUN_FILES, dir) : NULL;
	w.to = part;
	status = open_walk(&w, config);
	if (status == ESPL_OK && part != NULL)
		status = espl__dir_make(part, diag);
	if (status == ESPL_OK)
		status = walk_dir(&w, "", 0, 0);
	if (status == ESPL_OK)
		status = check_hits(&w);
	if (status == ESPL_OK && place != NULL)
		status = espl__checkpoint_keep(part, place, &bytes, diag);
	if (status != ESPL_OK && part != NULL)
		(void)espl__tree_remove(part, NULL);
	free(part);
	free(place);
	free(w.base);
	free(w.hit);
	espl__buf_free(&w.rules);
	return status;
}
