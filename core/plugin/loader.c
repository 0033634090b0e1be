/* loader.c - opens one plugin file: the only file that includes ltdl.h.
 *
 * libltdl hides why a file cannot be opened ("file not found") and binds symbols lazily, so a
 * plugin that calls an undefined function would crash in the middle of a run. Therefore the file is
 * opened by dlopen(RTLD_NOW) first, which reports the real cause, and then by libltdl.
 */
#include <dlfcn.h>
#include <ltdl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/calling.h"
#include "base/mem.h"
#include "plugin/registry.h"

#define SYMBOL "espalier_plugin"

struct espl__module {
	void *now;          /* by dlopen, all symbols bound */
	lt_dlhandle handle; /* by libltdl, or NULL */
};

espl_status
espl__modules_init(struct espl__diag *diag)
{
	const char *text;

	if (lt_dlinit() == 0)
		return ESPL_OK;
	text = lt_dlerror();
	return espl__fail(diag, ESPL_E_UNSUPPORTED, "cannot initialize libltdl: %s",
	    text != NULL ? text : "unknown error");
}

void
espl__modules_exit(void)
{
	(void)lt_dlexit(); /* closes what is still open; a failure changes nothing now */
}

int
espl__module_name(const char *path, espl_kind *kind, char *name, size_t room)
{
	const char *base = strrchr(path, '/');
	const char *bar, *dot;
	char word[16];

	base = base != NULL ? base + 1 : path;
	bar = strchr(base, '_');
	dot = strrchr(base, '.');
	if (bar == NULL || dot == NULL || dot <= bar + 1 || (size_t)(bar - base) >= sizeof word ||
	    (size_t)(dot - bar - 1) >= room)
		return -1;
	if (strcmp(dot, ".so") != 0 && strcmp(dot, ".la") != 0)
		return -1;
	memcpy(word, base, (size_t)(bar - base));
	word[bar - base] = '\0';
	*kind = espl__kind_find(word);
	if (*kind == 0)
		return -1;
	memcpy(name, bar + 1, (size_t)(dot - bar - 1));
	name[dot - bar - 1] = '\0';
	return 0;
}

static espl_status
check_file(const char *path, struct espl__diag *diag)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		espl__fail_errno(diag, "cannot open plugin '%s'", path);
		return ESPL_E_CONFIG;
	}
	if (!S_ISREG(st.st_mode))
		return espl__fail_at(diag, ESPL_E_CONFIG, path, 0, "this is not a regular file");
	/* Its code would run as root although another user may have written it. */
	if (geteuid() == 0 && st.st_uid != 0 && (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
		espl__fail_at(diag, ESPL_E_CONFIG, path, 0,
		    "refusing to load a plugin as root that other users own or can write");
		espl__hint(diag, "if you trust it, use chown root and chmod go-w");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
open_failed(const char *path, struct espl__diag *diag)
{
	const char *text = dlerror();
	size_t skip = strlen(path);

	if (text == NULL)
		text = "unknown error";
	else if (strncmp(text, path, skip) == 0 && strncmp(text + skip, ": ", 2) == 0)
		text += skip + 2;
	espl__fail_at(diag, ESPL_E_CONFIG, path, 0, "cannot load the plugin: %s", text);
	if (strstr(text, "undefined symbol") != NULL)
		espl__hint(diag,
		    "it uses a symbol that none of its libraries defines; link plugins with "
		    "-Wl,-z,defs to detect this at build time");
	else if (strstr(text, "cannot open shared object file") != NULL)
		espl__hint(diag,
		    "a library that it needs is not installed, or not in the library path");
	else if (strstr(text, "ELF") != NULL || strstr(text, "too short") != NULL)
		espl__hint(diag, "it is not a shared object for this machine");
	else
		espl__hint(diag, "check it with ldd '%s'", path);
	return ESPL_E_CONFIG;
}

/* By libltdl; NULL is no failure, since dlopen has the file already. */
static lt_dlhandle
open_ltdl(const char *path)
{
	lt_dladvise advise;
	lt_dlhandle handle = NULL;

	if (lt_dladvise_init(&advise) != 0)
		return NULL;
	if (lt_dladvise_local(&advise) == 0)
		handle = lt_dlopenadvise(path, advise);
	lt_dladvise_destroy(&advise);
	return handle;
}

/* "<file's stem>_LTX_espalier_plugin", with all that C does not allow made '_'. */
static void
symbol_of(const char *path, char *to, size_t room)
{
	const char *base = strrchr(path, '/');
	size_t size;

	base = base != NULL ? base + 1 : path;
	size = strcspn(base, ".");
	snprintf(to, room, "%.*s_LTX_" SYMBOL, (int)size, base);
	for (char *c = to; *c != '\0'; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
			(*c >= '0' && *c <= '9')))
			*c = '_';
}

static espl_status
find_descriptor(const struct espl__module *module, const char *path,
    const struct espl_plugin **plugin, struct espl__diag *diag)
{
	char symbol[200];

	*plugin = module->handle != NULL ? lt_dlsym(module->handle, SYMBOL) : NULL;
	symbol_of(path, symbol, sizeof symbol);
	if (*plugin == NULL)
		*plugin = dlsym(module->now, symbol);
	if (*plugin != NULL)
		return ESPL_OK;
	espl__fail_at(diag, ESPL_E_CONFIG, path, 0, "the file exports no '%s'", symbol);
	espl__hint(diag,
	    "define the plugin with ESPL_PLUGIN(kind, name) = { ... } in the source of "
	    "<kind>_<name>.so");
	return ESPL_E_CONFIG;
}

espl_status
espl__module_open(const char *path, struct espl__module **to, const struct espl_plugin **plugin,
    struct espl__diag *diag)
{
	struct espl__module *module;
	espl_kind kind;
	char name[128];
	espl_status status = check_file(path, diag);

	*to = NULL;
	if (status != ESPL_OK)
		return status;
	if (espl__module_name(path, &kind, name, sizeof name) != 0) {
		espl__fail_at(diag, ESPL_E_CONFIG, path, 0,
		    "the file name is not <kind>_<name>.so");
		espl__hint(diag, "the kinds are algorithm, allocator, cloud, placer and trainable");
		return ESPL_E_CONFIG;
	}
	status = espl__module_whole(path, diag);
	if (status != ESPL_OK)
		return status;
	module = espl__alloc(sizeof *module);
	/* a library may have code that runs then */
	espl__calling_begin("the plugin", "loading", path);
	module->now = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	espl__calling_end();
	if (module->now == NULL) {
		status = open_failed(path, diag);
	} else {
		module->handle = open_ltdl(path);
		status = find_descriptor(module, path, plugin, diag);
	}
	if (status == ESPL_OK)
		status = espl__abi_check(*plugin, kind, name, path, diag);
	if (status != ESPL_OK) {
		espl__module_close(module);
		*plugin = NULL;
		return status;
	}
	*to = module;
	return ESPL_OK;
}

void
espl__module_close(struct espl__module *module)
{
	if (module == NULL)
		return;
	if (module->handle != NULL)
		(void)lt_dlclose(module->handle);
	if (module->now != NULL)
		(void)dlclose(module->now);
	free(module);
}
