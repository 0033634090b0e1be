/* run_dir.c - a run directory: its name, the copies of all input files, run.cfg.
 *
 * run.cfg appears last and by one atomic, exclusive step, so that two drivers cannot begin in
 * one directory and a driver killed before that leaves nothing that looks like a run.
 */
#include "base/assert.h"
#include "cli/run_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ask/ask.h"
#include "base/file.h"
#include "base/mem.h"
#include "input/input.h"
#include "input/run_files.h"

#define INPUT_MAX ((size_t)1 << 30)

int
espl__run_dir_has(const char *dir, const char *name)
{
	char *path = espl__format("%s/%s", dir, name);
	struct stat st;
	int there = lstat(path, &st) == 0;

	free(path);
	return there;
}

/* What is read as a file: a pipe would be waited for, and a link may lead to one. */
static int
is_file(const char *dir, const char *name)
{
	char *path = espl__format("%s/%s", dir, name);
	struct stat st;
	int good = lstat(path, &st) == 0 && S_ISREG(st.st_mode);

	free(path);
	return good;
}

int
espl__run_dir_asked(const char *dir)
{
	struct espl__run_config *config;
	char *path = espl__format("%s/run.cfg", dir);
	int asked = 0;

	if (is_file(dir, "run.cfg") &&
	    espl__run_load(path, NULL, 0, ESPL__NEED_NOTHING, &config, NULL) == ESPL_OK) {
		asked = strcmp(config->cloud.use, ESPL__ASK_CLOUD) == 0;
		espl__run_free(config);
	}
	free(path);
	return asked;
}

espl_status
espl__run_dir_find(const char *given, char **dir, struct espl__diag *diag)
{
	char full[PATH_MAX];

	*dir = NULL;
	if (realpath(given, full) == NULL)
		return espl__fail(diag, ESPL_E_CONFIG, "cannot open '%s': %s", given,
		    strerror(errno));
	if (!espl__run_dir_has(full, "run.cfg")) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a run directory (no run.cfg)",
		    given);
		espl__hint(diag, "give the directory that `espalier run` created");
		return ESPL_E_CONFIG;
	}
	if (!is_file(full, "run.cfg"))
		return espl__fail(diag, ESPL_E_CONFIG, "'%s/run.cfg' is not a regular file", given);
	*dir = espl__strdup(full);
	return ESPL_OK;
}

static espl_status
check_entries(const char *dir, espl_status check(const char *, struct espl__diag *),
    struct espl__diag *diag)
{
	DIR *list = espl__dir_open(dir);
	struct dirent *entry;
	espl_status status = ESPL_OK;

	if (list == NULL && errno == ENOTDIR) /* what needs it says so */
		return ESPL_OK;
	if (list == NULL)
		return espl__fail_errno(diag, "cannot open '%s'", dir);
	while (status == ESPL_OK && (entry = readdir(list)) != NULL) {
		char *path = espl__format("%s/%s", dir, entry->d_name);

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			status = check(path, diag);
		free(path);
	}
	(void)closedir(list);
	return status;
}

static espl_status
check_all(const char *dir, espl_status check(const char *, struct espl__diag *),
    struct espl__diag *diag)
{
	struct stat st;
	espl_status status;

	if (lstat(dir, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
		return ESPL_OK;
	status = espl__check_own(dir, diag);
	return status == ESPL_OK ? check_entries(dir, check, diag) : status;
}

/* What a trial restores may be a program.  A trial may run as another user, such as that of a
 * container, and save links: neither is of others' making. */
static espl_status
check_saved(const char *path, struct espl__diag *diag)
{
	struct stat st;

	if (lstat(path, &st) != 0 || S_ISLNK(st.st_mode))
		return ESPL_OK;
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return espl__check_owner(path, diag);
	return S_ISDIR(st.st_mode) ? check_entries(path, check_saved, diag) : ESPL_OK;
}

static espl_status
check_trial_entry(const char *path, struct espl__diag *diag)
{
	return strncmp(strrchr(path, '/'), "/checkpoint-", 12) == 0 ? check_saved(path, diag)
								    : ESPL_OK;
}

static espl_status
check_trial(const char *path, struct espl__diag *diag)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode)
	    ? check_all(path, check_trial_entry, diag)
	    : ESPL_OK;
}

/* The directory of a run or of an experiment in it: run.cfg, what that includes, and checkpoints.
 */
static espl_status
check_experiment(const char *dir, struct espl__diag *diag)
{
	char *path = espl__format("%s/run.cfg", dir), *inputs = espl__format("%s/inputs", dir),
	     *files = espl__format("%s/" ESPL__RUN_FILES, dir),
	     *trials = espl__format("%s/trials", dir);
	espl_status status = espl__check_own(dir, diag);

	if (status == ESPL_OK && espl__run_dir_has(dir, "run.cfg"))
		status = espl__check_own(path, diag);
	if (status == ESPL_OK)
		status = check_all(inputs, espl__check_own, diag);
	if (status == ESPL_OK && espl__run_dir_has(dir, ESPL__RUN_FILES))
		status = espl__check_own(files, diag);
	if (status == ESPL_OK)
		status = check_all(trials, check_trial, diag);
	free(trials);
	free(path);
	free(inputs);
	free(files);
	return status;
}

/* What a run reads again, or that says who may do what with it. */
static const char *const own_files[] = { "journal", "leases.json", "secret", "token", "clock",
	"lock", "faults", "results.db", "results.db-wal", "results.db-shm", "trials", "experiments",
	"spool", "trash", "aws", "aws.keys", "known_hosts" };
#define OWN_FILES (sizeof own_files / sizeof own_files[0])

espl_status
espl__run_dir_check(const char *dir, struct espl__diag *diag)
{
	char *experiments = espl__format("%s/experiments", dir),
	     *left = espl__format("%s/left", dir);
	espl_status status = check_experiment(dir, diag);

	for (size_t i = 0; i < OWN_FILES && status == ESPL_OK; i++) {
		char *path = espl__format("%s/%s", dir, own_files[i]);

		if (espl__run_dir_has(dir, own_files[i]))
			status = espl__check_own(path, diag);
		free(path);
	}
	if (status == ESPL_OK)
		status = check_all(left, espl__check_own, diag);
	if (status == ESPL_OK)
		status = check_all(experiments, check_experiment, diag);
	if (diag->hint[0] != '\0') { /* for all at once, not for one of many files */
		diag->hint[0] = '\0';
		espl__hint(diag, "if you trust everything in it, run: chmod -R go-w '%s'", dir);
	}
	free(experiments);
	free(left);
	return status;
}

/* ---- inputs --------------------------------------------------------------------------------- */

struct input_copies {
	const struct espl__inputs *inputs;
	const char *dir;
	char **names; /* "inputs/NAME", borrowed by the printer till the end */
	char **sources;
	uint32_t count, name_cap, source_cap;
	espl_status status;
	struct espl__diag *diag;
};

static espl_status
copy_file(const char *from, const char *to, struct espl__diag *diag)
{
	struct espl__buf bytes = { NULL, 0, 0 };
	espl_status status = espl__file_read(from, INPUT_MAX, &bytes, diag);

	if (status == ESPL_OK)
		status = espl__file_write_private(to, bytes.data, bytes.size, diag);
	espl__buf_free(&bytes);
	return status;
}

static int
is_name_taken(const struct input_copies *in, const char *name)
{
	uint32_t i;

	for (i = 0; i < in->count; i++) {
		if (strcmp(in->names[i], name) == 0)
			return 1;
	}
	return 0;
}

/* The input of a warm start is stored as it was read: it may be the directory of a run that is
 * still running. */
static espl_status
write_warm(const struct espl__inputs *s, const char *to, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status;

	espl__earlier_print(s->earlier, &text);
	status = espl__file_write_private(to, text.data, text.size, diag);
	espl__buf_free(&text);
	return status;
}

/* trial.env has a separate file, because users show run.cfg to others. */
static espl_status
write_env(const struct espl__node *env, const char *to, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status;

	for (uint32_t i = 0; i < env->child_count; i++)
		espl__node_print(env->children[i], 0, &text);
	status = espl__file_write_private(to, text.data, text.size, diag);
	espl__buf_free(&text);
	return status;
}

/* The curves of a run, of which there is a text. */
static int
is_replayed(const struct input_copies *in, const struct espl__node *node, const char *absolute)
{
	const struct espl__trial_config *trial = &in->inputs->config->trial;

	return node != in->inputs->config->warm_node && trial->curves_text != NULL &&
	    strcmp(absolute, trial->curves) == 0;
}

static espl_status
write_input(const struct input_copies *in, const struct espl__node *node, const char *absolute,
    const char *to)
{
	if (node != NULL && node == in->inputs->config->warm_node)
		return write_warm(in->inputs, to, in->diag);
	if (node != NULL && node == in->inputs->config->trial.env)
		return write_env(node, to, in->diag);
	if (is_replayed(in, node, absolute))
		return espl__file_write_private(to, in->inputs->config->trial.curves_text,
		    strlen(in->inputs->config->trial.curves_text), in->diag);
	return copy_file(absolute, to, in->diag);
}

/* Takes both over. */
static void
add_input(struct input_copies *in, char *source, char *name)
{
	ESPL__GROW(in->sources, in->source_cap, in->count + 1);
	ESPL__GROW(in->names, in->name_cap, in->count + 1);
	in->sources[in->count] = source;
	in->names[in->count++] = name;
}

/* Called for each input file of the configuration: copies it and returns where the copy is. */
static const char *
map_input(void *ctx, const struct espl__node *node, const char *absolute)
{
	struct input_copies *in = ctx;
	int warm = node != NULL && node == in->inputs->config->warm_node;
	int env = node != NULL && node == in->inputs->config->trial.env,
	    replayed = is_replayed(in, node, absolute);
	const char *base = warm ? "/warm-start.csv"
	    : env               ? "/trial.env"
	    : replayed          ? "/curves.csv"
				: strrchr(absolute, '/');
	struct stat st;
	char *name, *to;
	uint32_t i;

	for (i = 0; i < in->count && !warm && !env; i++) {
		if (strcmp(in->sources[i], absolute) == 0)
			return in->names[i];
	}
	/* Only files are copied, not directories of data or devices. */
	if (in->status != ESPL_OK ||
	    (!warm && !env && !replayed && (stat(absolute, &st) < 0 || !S_ISREG(st.st_mode))))
		return NULL;
	base = base != NULL ? base + 1 : absolute;
	name = espl__format("inputs/%s", base);
	for (i = 2; is_name_taken(in, name); i++) {
		free(name);
		name = espl__format("inputs/%u-%s", i, base);
	}
	to = espl__format("%s/inputs", in->dir);
	in->status = espl__dir_make(to, in->diag);
	free(to);
	to = espl__format("%s/%s", in->dir, name);
	if (in->status == ESPL_OK)
		in->status = write_input(in, node, absolute, to);
	free(to);
	add_input(in, espl__strdup(warm || env ? "" : absolute), name);
	return name;
}

static espl_status
write_exclusively(const char *dir, const struct espl__buf *text, struct espl__diag *diag)
{
	char *path = espl__format("%s/run.cfg", dir);
	char *temporary = espl__format("%s/run.cfg.%ld", dir, (long)getpid());
	espl_status status = espl__file_write_private(temporary, text->data, text->size, diag);
	int rc;

	if (status == ESPL_OK) {
		rc = link(temporary, path);
		/* Some filesystems know no links. */
		if (rc < 0 && errno != EEXIST && !espl__run_dir_has(dir, "run.cfg"))
			rc = rename(temporary, path);
		if (rc < 0 && errno == EEXIST)
			status = espl__fail(diag, ESPL_E_BUSY,
			    "another driver has just started in '%s'", dir);
		else if (rc < 0)
			status = espl__fail_errno(diag, "cannot create '%s'", path);
		(void)unlink(temporary);
	}
	free(path);
	free(temporary);
	return status;
}

/* One of a pool's experiments: experiments/NUMBER, with its own inputs. */
static espl_status
write_entry(const struct espl__inputs *s, const char *dir, uint32_t number, struct espl__diag *diag)
{
	char *folder = espl__format("%s/experiments/%u", dir, (unsigned)number);
	espl_status status = espl__dir_make(folder, diag);

	if (status == ESPL_OK)
		status = espl__run_dir_write(s, folder, diag);
	free(folder);
	return status;
}

espl_status
espl__run_dir_write(const struct espl__inputs *s, const char *dir, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct input_copies in;
	espl_status status = ESPL_OK;
	uint32_t i, first = s->jobs != NULL;
	char *to;

	ESPL__CHECK(s->config, RUN_CONFIG);
	ESPL__ASSERT(dir != NULL);
	memset(&in, 0, sizeof in);
	in.inputs = s;
	in.dir = dir;
	in.diag = diag;
	for (i = 0; i < s->entry_count && status == ESPL_OK; i++) {
		add_input(&in, espl__strdup(s->entries[i].config->path),
		    espl__format("experiments/%u/run.cfg", (unsigned)(first + i)));
		status = write_entry(&s->entries[i], dir, first + i, diag);
	}
	if (status == ESPL_OK && s->config->trial.curves == NULL)
		status = espl__run_copy_files(s->config, dir, diag);
	espl__run_print_mapped(s->config, map_input, &in, &text);
	if (status == ESPL_OK)
		status = in.status;
	/* Its owner's: what root is the first to put there the owner could not take. */
	if (status == ESPL_OK && s->config->pool) {
		to = espl__format("%s/spool", dir);
		status = espl__dir_make(to, diag);
		free(to);
	}
	if (status == ESPL_OK)
		status = write_exclusively(dir, &text, diag);
	for (i = 0; i < in.count; i++) {
		free(in.names[i]);
		free(in.sources[i]);
	}
	free(in.names);
	free(in.sources);
	espl__buf_free(&text);
	return status;
}

/* ---- the directory ------------------------------------------------------------------------ */

/* Files that a run creates, and that are removed if the run is undone. */
static const char *const own_names[] = { "run.cfg", "journal", "results.db", "results.db-wal",
	"results.db-shm", "trials", "experiments", "spool", "inputs", ESPL__RUN_FILES, "faults",
	"clock", "ask.sock", "aws", "aws.keys", "known_hosts", "lock" };
#define OWN_NAMES (sizeof own_names / sizeof own_names[0])

static espl_status
refuse_used_dir(const char *dir, struct espl__diag *diag)
{
	(void)espl__fail(diag, ESPL_E_CONFIG, "'%s' already contains a run", dir);
	espl__hint(diag, "continue it with `espalier resume %s`, or choose another --dir", dir);
	return ESPL_E_CONFIG;
}

/* NAME-YYYYMMDD-HHMMSS, made by mkdir: the one step that cannot succeed twice. */
static espl_status
make_named(const struct espl__inputs *s, char **path, struct espl__diag *diag)
{
	time_t now = time(NULL);
	struct tm local;
	char stamp[32];
	int i;

	if (localtime_r(&now, &local) == NULL ||
	    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local) == 0)
		return espl__fail(diag, ESPL_E_REMOTE,
		    "cannot read the date from the system clock");
	*path = espl__format("%s-%s", s->config->name, stamp);
	for (i = 2; mkdir(*path, 0700) < 0; i++) {
		if (errno != EEXIST || i > 99)
			return espl__fail(diag, ESPL_E_CONFIG, "cannot create directory '%s': %s",
			    *path, strerror(errno));
		free(*path);
		*path = espl__format("%s-%s-%d", s->config->name, stamp, i);
	}
	return ESPL_OK;
}

static espl_status
make_given(const char *given, int *made, struct espl__diag *diag)
{
	struct stat st;
	size_t i;

	*made = stat(given, &st) < 0;
	if (!*made && !S_ISDIR(st.st_mode))
		return espl__fail(diag, ESPL_E_CONFIG, "'%s' is not a directory", given);
	if (!*made && (espl__run_dir_has(given, "run.cfg") || espl__run_dir_has(given, "journal")))
		return refuse_used_dir(given, diag);
	/* Files with these names belong to others: neither overwrite nor remove them. */
	for (i = 0; !*made && i < OWN_NAMES; i++) {
		if (strcmp(own_names[i], "lock") == 0 || !espl__run_dir_has(given, own_names[i]))
			continue;
		(void)espl__fail(diag, ESPL_E_CONFIG,
		    "'%s' already contains '%s', which a run would create", given, own_names[i]);
		espl__hint(diag, "choose a new directory");
		return ESPL_E_CONFIG;
	}
	if (*made && espl__dir_make_private(given, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	if (access(given, W_OK | X_OK) < 0)
		return espl__fail(diag, ESPL_E_CONFIG, "cannot write to '%s': %s", given,
		    strerror(errno));
	return ESPL_OK;
}

espl_status
espl__run_dir_make(const struct espl__inputs *s, const char *given, const char *faults, char **dir,
    int *made, struct espl__diag *diag)
{
	char *path = espl__strdup(given), *to, full[PATH_MAX];
	espl_status status;

	*dir = NULL;
	*made = 1;
	status = given == NULL ? make_named(s, &path, diag) : make_given(given, made, diag);
	if (status == ESPL_OK && realpath(path, full) == NULL)
		status = espl__fail_errno(diag, "cannot resolve '%s'", path);
	if (status == ESPL_OK && !*made)
		status = espl__check_owner(full, diag); /* resume would refuse it */
	free(path);
	if (status != ESPL_OK)
		return status;
	*dir = espl__strdup(full);
	if (faults != NULL) {
		to = espl__format("%s/faults", *dir);
		status = copy_file(faults, to, diag);
		free(to);
	}
	if (status == ESPL_OK)
		status = espl__run_dir_write(s, *dir, diag);
	if (status != ESPL_OK) {
		/* BUSY: what is there now belongs to the other driver. */
		if (status != ESPL_E_BUSY)
			espl__run_dir_undo(*dir, *made);
		free(*dir);
		*dir = NULL;
	}
	return status;
}

void
espl__run_dir_undo(const char *dir, int made)
{
	size_t i;
	char *path;

	for (i = 0; i < OWN_NAMES; i++) {
		path = espl__format("%s/%s", dir, own_names[i]);
		(void)espl__tree_remove(path, NULL);
		free(path);
	}
	if (made)
		(void)rmdir(dir);
}
