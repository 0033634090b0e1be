/* registry.c - finds plugins by kind and name, keeps those that were loaded. */
#include "base/assert.h"
#include "plugin/registry.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/run.h"

#ifndef PKGLIBDIR
#define PKGLIBDIR "/usr/local/lib/espalier"
#endif
#ifndef PKGLIBEXECDIR
#define PKGLIBEXECDIR "/usr/local/libexec/espalier"
#endif

struct loaded {
	struct espl__plugin plugin;
	struct espl__module *module; /* NULL: builtin */
	/* of the file: the same one under two names is one plugin */
	dev_t device;
	ino_t inode;
	struct loaded *next;
};
static struct loaded *all_loaded;
static char **dirs;
static uint32_t dir_count, dir_cap;
static uint32_t given_count; /* the first ones: -P and ESPALIER_PLUGIN_PATH */
static int started;
static char *libexec;

/* ---- where plugins are ------------------------------------------------------------- */

static int
is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void
add_dir(const char *path)
{
	char full[PATH_MAX];

	if (realpath(path, full) == NULL || !is_dir(full))
		return;
	for (uint32_t i = 0; i < dir_count; i++)
		if (strcmp(dirs[i], full) == 0)
			return;
	ESPL__GROW(dirs, dir_cap, dir_count + 1);
	dirs[dir_count++] = espl__strdup(full);
}

/* The parts of a ':'-separated list; `strict`: each must be there. */
static espl_status
add_list(const char *list, int strict, struct espl__diag *diag)
{
	char *copy = espl__strdup(list), *rest = copy, *part;
	espl_status status = ESPL_OK;

	while (status == ESPL_OK && (part = strsep(&rest, ":")) != NULL) {
		if (part[0] == '\0')
			continue;
		if (strict && !is_dir(part)) {
			status = espl__fail(diag, ESPL_E_CONFIG,
			    "plugin directory '%s' does not exist", part);
			espl__hint(diag, "-P takes directories separated by ':'");
		} else {
			add_dir(part);
		}
	}
	free(copy);
	return status;
}

/* Top of the build tree that this program runs from, or NULL: it is marked by config.status, and
 * has the program, or a test three directories down at most.  Malloc'd. */
static char *
build_tree(void)
{
	char path[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);

	if (size <= 0)
		return NULL;
	path[size] = '\0';
	for (int up = 0; up < 4; up++) {
		char *slash = strrchr(path, '/'), *mark;
		int found;

		if (slash == NULL || slash == path)
			return NULL;
		*slash = '\0';
		mark = espl__format("%s/config.status", path);
		found = access(mark, F_OK) == 0;
		free(mark);
		mark = espl__format("%s/plugins", path);
		found = found && is_dir(mark);
		free(mark);
		if (found)
			return espl__strdup(path);
	}
	return NULL;
}

static void
forget_dirs(void)
{
	for (uint32_t i = 0; i < dir_count; i++)
		free(dirs[i]);
	free(dirs);
	dirs = NULL;
	dir_count = dir_cap = given_count = 0;
}

espl_status
espl__plugins_init(const char *extra_path, struct espl__diag *diag)
{
	const char *path = secure_getenv("ESPALIER_PLUGIN_PATH");
	char *tree;
	espl_status status = ESPL_OK;

	if (!started)
		status = espl__modules_init(diag);
	if (status != ESPL_OK)
		return status;
	started = 1;
	forget_dirs();
	if (extra_path != NULL)
		status = add_list(extra_path, 1, diag);
	if (status != ESPL_OK)
		return status;
	if (path != NULL)
		(void)add_list(path, 0, NULL);
	given_count = dir_count;
	tree = build_tree();
	if (tree != NULL) {
		char *plugins = espl__format("%s/plugins", tree);

		add_dir(plugins);
		free(plugins);
		free(tree);
	}
	add_dir(PKGLIBDIR "/plugins");
	return ESPL_OK;
}

char *
espl__plugins_given(void)
{
	struct espl__buf list = { NULL, 0, 0 };
	char *copy;

	for (uint32_t i = 0; i < given_count; i++)
		espl__print(&list, "%s%s", i > 0 ? ":" : "", dirs[i]);
	copy = given_count > 0 ? espl__strdup(espl__buf_text(&list)) : NULL;
	espl__buf_free(&list);
	return copy;
}

void
espl__plugins_exit(void)
{
	struct loaded *next;

	for (struct loaded *l = all_loaded; l != NULL; l = next) {
		next = l->next;
		espl__module_close(l->module);
		free((void *)l->plugin.path);
		free(l);
	}
	all_loaded = NULL;
	forget_dirs();
	free(libexec);
	libexec = NULL;
	if (started)
		espl__modules_exit();
	started = 0;
}

static espl_status
need_start(struct espl__diag *diag)
{
	return started ? ESPL_OK : espl__plugins_init(NULL, diag);
}

const char *
espl__libexec(void)
{
	const char *set = secure_getenv("ESPALIER_LIBEXEC");
	char *tree;

	if (set != NULL && set[0] != '\0')
		return set;
	if (libexec != NULL)
		return libexec;
	tree = build_tree();
	if (tree != NULL) {
		char *agent = espl__format("%s/espalier-agent", tree);

		if (access(agent, X_OK) == 0)
			libexec = espl__strdup(tree);
		free(agent);
		free(tree);
	}
	if (libexec == NULL)
		libexec = espl__strdup(PKGLIBEXECDIR);
	return libexec;
}

/* ---- loading ----------------------------------------------------------------------- */

static const struct espl__plugin *
keep_plugin(const struct espl_plugin *desc, const char *path, struct espl__module *module,
    const struct stat *st)
{
	struct loaded *l = espl__alloc(sizeof *l);

	l->plugin.desc = desc;
	l->plugin.path = espl__strdup(path);
	l->module = module;
	if (st != NULL) {
		l->device = st->st_dev;
		l->inode = st->st_ino;
	}
	l->next = all_loaded;
	all_loaded = l;
	return &l->plugin;
}

static espl_status
open_file(const char *path, const struct espl__plugin **plugin, struct espl__diag *diag)
{
	const struct espl_plugin *desc;
	struct espl__module *module;
	struct stat st;
	char here[PATH_MAX], *full;
	espl_status status;

	if (stat(path, &st) != 0 || (path[0] != '/' && getcwd(here, sizeof here) == NULL)) {
		espl__fail_errno(diag, "cannot open plugin '%s'", path);
		return ESPL_E_CONFIG;
	}
	for (struct loaded *l = all_loaded; l != NULL; l = l->next)
		if (l->module != NULL && l->device == st.st_dev && l->inode == st.st_ino) {
			*plugin = &l->plugin;
			return ESPL_OK;
		}
	full = path[0] == '/' ? espl__strdup(path) : espl__format("%s/%s", here, path);
	status = espl__module_open(full, &module, &desc, diag);
	if (status == ESPL_OK)
		*plugin = keep_plugin(desc, full, module, &st);
	free(full);
	return status;
}

static const struct espl__plugin *
find_loaded(const struct espl_plugin *desc)
{
	for (struct loaded *l = all_loaded; l != NULL; l = l->next)
		if (l->plugin.desc == desc)
			return &l->plugin;
	return NULL;
}

static espl_status
open_builtin(const struct espl_plugin *desc, const struct espl__plugin **plugin,
    struct espl__diag *diag)
{
	espl_status status;

	*plugin = find_loaded(desc);
	if (*plugin != NULL)
		return ESPL_OK;
	status = espl__abi_check(desc, 0, NULL, "(builtin)", diag);
	if (status == ESPL_OK)
		*plugin = keep_plugin(desc, "(builtin)", NULL, NULL);
	return status;
}

espl_status
espl__plugin_open(const char *path, const struct espl__plugin **plugin, struct espl__diag *diag)
{
	espl_status status = need_start(diag);
	size_t size = strlen(path);
	const char *slash = strrchr(path, '/');
	int dir = slash != NULL ? (int)(slash - path) + 1 : 0;
	char *beside, *hidden;

	*plugin = NULL;
	if (status != ESPL_OK)
		return status;
	if (size < 4 || strcmp(path + size - 3, ".la") != 0)
		return open_file(path, plugin, diag);
	beside = espl__format("%.*sso", (int)size - 2, path);
	hidden = espl__format("%.*s.libs/%.*sso", dir, path, (int)size - 2 - dir, path + dir);
	status = open_file(access(beside, F_OK) == 0 ? beside : hidden, plugin, diag);
	free(beside);
	free(hidden);
	return status;
}

/* ---- looking ----------------------------------------------------------------------- */

/* a plugin that is there, perhaps not loadable */
struct found {
	espl_kind kind;
	char name[128];
	char *path; /* NULL: builtin */
	const struct espl_plugin *builtin;
	uint32_t order; /* earlier directories come first */
};
struct catalogue {
	struct found *list;
	uint32_t count, cap;
};

static void
add_found(struct catalogue *c, espl_kind kind, const char *name, const char *path,
    const struct espl_plugin *builtin)
{
	struct found *f;

	for (uint32_t i = 0; i < c->count; i++)
		if (c->list[i].kind == kind && espl__plugin_name_equal(c->list[i].name, name))
			return;
	ESPL__GROW(c->list, c->cap, c->count + 1);
	f = &c->list[c->count];
	memset(f, 0, sizeof *f);
	f->kind = kind;
	snprintf(f->name, sizeof f->name, "%s", name);
	f->path = espl__strdup(path);
	f->builtin = builtin;
	f->order = c->count++;
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
is_wanted(const char *file, const struct found *wanted)
{
	char name[128];
	espl_kind kind;

	return wanted == NULL ||
	    (espl__module_name(file, &kind, name, sizeof name) == 0 && kind == wanted->kind &&
		espl__plugin_name_equal(name, wanted->name));
}

/* The directory's files in the order of their names: what readdir says first is an accident. */
static void
look_in(struct catalogue *c, const char *folder, const struct found *wanted)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char **names = NULL;
	size_t count = 0, cap = 0;

	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL) {
		size_t size = strlen(entry->d_name);

		if (size < 4 || strcmp(entry->d_name + size - 3, ".so") != 0 ||
		    !is_wanted(entry->d_name, wanted))
			continue;
		ESPL__GROW(names, cap, count + 1);
		names[count++] = espl__strdup(entry->d_name);
	}
	(void)closedir(dir);
	if (count > 0)
		qsort(names, count, sizeof *names, by_text);
	for (size_t i = 0; i < count; i++) {
		char *path = espl__format("%s/%s", folder, names[i]);
		char name[128];
		espl_kind kind;

		if (espl__module_name(path, &kind, name, sizeof name) == 0)
			add_found(c, kind, name, path, NULL);
		free(path);
		free(names[i]);
	}
	free(names);
}

static int
by_kind_and_name(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int order;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	order = strcmp(x->name, y->name);
	return order != 0 ? order : x->order < y->order ? -1 : x->order > y->order;
}

/* `wanted`: only plugins of this kind and name; NULL: all. */
static void
look_everywhere(struct catalogue *c, const struct found *wanted)
{
	memset(c, 0, sizeof *c);
	for (const struct espl_plugin *const *b = espl__builtin_plugins; *b != NULL; b++)
		add_found(c, (*b)->kind, (*b)->name, NULL, *b);
	for (uint32_t i = 0; i < dir_count; i++) {
		char *hidden = espl__format("%s/.libs", dirs[i]);

		look_in(c, dirs[i], wanted);
		look_in(c, hidden, wanted);
		free(hidden);
	}
	if (c->count > 0)
		qsort(c->list, c->count, sizeof *c->list, by_kind_and_name);
}

static void
catalogue_free(struct catalogue *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		free(c->list[i].path);
	free(c->list);
}

static espl_status
open_found(const struct found *f, const struct espl__plugin **plugin, struct espl__diag *diag)
{
	return f->builtin != NULL ? open_builtin(f->builtin, plugin, diag)
				  : open_file(f->path, plugin, diag);
}

static espl_status
report_not_found(const struct catalogue *c, espl_kind kind, const char *name,
    struct espl__diag *diag)
{
	const char **names = espl__alloc((c->count + 1) * sizeof *names);
	const char *near;
	uint32_t count = 0;
	char searched[400] = "";

	for (uint32_t i = 0; i < c->count; i++)
		if (c->list[i].kind == kind)
			names[count++] = c->list[i].name;
	for (uint32_t i = 0; i < dir_count; i++) {
		size_t used = strlen(searched);

		snprintf(searched + used, sizeof searched - used, "%s%s", i > 0 ? ", " : "",
		    dirs[i]);
	}
	near = espl__nearest(name, names, count);
	espl__fail(diag, ESPL_E_CONFIG, "there is no %s '%.100s' (searched: %s)",
	    espl__kind_name(kind), name, dir_count > 0 ? searched : "builtin plugins only");
	if (near != NULL)
		espl__hint(diag, "did you mean '%s'?", near);
	else
		espl__hint(diag,
		    "list the plugins with `espalier plugins`; add a directory with -P DIR");
	free(names);
	return ESPL_E_CONFIG;
}

espl_status
espl__plugin_find(espl_kind kind, const char *name, const struct espl__plugin **plugin,
    struct espl__diag *diag)
{
	struct catalogue c;
	struct found wanted = { 0 };
	espl_status status = need_start(diag);

	ESPL__ASSERT(name != NULL && plugin != NULL);
	*plugin = NULL;
	if (status != ESPL_OK)
		return status;
	wanted.kind = kind;
	(void)snprintf(wanted.name, sizeof wanted.name, "%s", name);
	look_everywhere(&c, &wanted);
	status = ESPL_E_UNKNOWN;
	for (uint32_t i = 0; i < c.count; i++)
		if (c.list[i].kind == kind && espl__plugin_name_equal(c.list[i].name, name)) {
			status = open_found(&c.list[i], plugin, diag);
			break;
		}
	catalogue_free(&c);
	if (status == ESPL_E_UNKNOWN) {
		look_everywhere(&c, NULL);
		status = report_not_found(&c, kind, name, diag);
		catalogue_free(&c);
	}
	return status;
}

void
espl__plugins_each(void (*each)(void *, const struct espl__plugin *),
    void (*broken)(void *, const char *, const struct espl__diag *), void *ctx)
{
	struct catalogue c;

	ESPL__ASSERT(each != NULL);
	if (need_start(NULL) != ESPL_OK)
		return;
	look_everywhere(&c, NULL);
	for (uint32_t i = 0; i < c.count; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		const struct espl__plugin *plugin = NULL;

		if (open_found(&c.list[i], &plugin, &diag) == ESPL_OK)
			each(ctx, plugin);
		else if (broken != NULL)
			broken(ctx, c.list[i].path != NULL ? c.list[i].path : "(builtin)", &diag);
	}
	catalogue_free(&c);
}
