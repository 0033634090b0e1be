/* Plugins: found, checked, refused with a reason, hosted; and check-plugin's verdicts. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <espalier/algorithm.h>
#include <espalier/cloud.h>
#include <espalier/placer.h>
#include <espalier/trainable.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "input/input.h"
#include "check/check.h"
#include "plugin/instance.h"
#include "probe.h"

/* A module of tests/plugin, or NULL where the build makes no shared ones. */
static char *
module(const char *name)
{
	const char *top = getenv("abs_top_builddir");
	char *path = espl__format("%s/tests/plugin/%s.la", top != NULL ? top : ".", name);
	const char *base = strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name;
	char *made = espl__format("%s/tests/plugin/%.*s.libs/%s.so", top != NULL ? top : ".",
	    (int)(base - name), name, base);
	char *beside = espl__format("%s/tests/plugin/%s.so", top != NULL ? top : ".", name);

	if (access(made, R_OK) != 0 && access(beside, R_OK) != 0)
		cr_skip_test("this build makes no shared modules");
	free(made);
	free(beside);
	return path;
}

/* ---- the descriptor ---------------------------------------------------------------- */

static espl_status
no_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)host;
	(void)config;
	(void)self;
	(void)error;
	return ESPL_OK;
}

static void
no_destroy(void *self)
{
	(void)self;
}

/* Entries are never called here: what counts is whether they are there. */
struct any_table {
	struct espl_ops head;
	void (*entries[24])(void);
};

static void
some_entry(void)
{
}

static const char *
refusal(const struct espl_plugin *plugin, espl_kind kind, const char *name)
{
	static struct espl__diag diag;

	diag = (struct espl__diag)ESPL__DIAG_INIT;
	if (espl__abi_check(plugin, kind, name, "p.so", &diag) == ESPL_OK)
		return "accepted";
	return diag.text;
}

#define SAYS(text_, says_) cr_expect(strstr((text_), (says_)) != NULL, "says '%s'", (text_))

Test(abi, head_and_parts)
{
	struct any_table table = { { (uint32_t)sizeof table, 0 }, { some_entry, some_entry } };
	struct espl_plugin good = { ESPL_HEAD(ESPL_ALLOCATOR, "elastic-greedy"), .version = "1",
		.summary = "s", .ops = &table.head, .create = no_create, .destroy = no_destroy };
	struct espl_plugin p = good;

	cr_assert_str_eq(refusal(&p, ESPL_ALLOCATOR, "elastic-greedy"), "accepted");
	cr_assert_str_eq(refusal(&p, ESPL_ALLOCATOR, "elastic_greedy"), "accepted",
	    "a C symbol has no '-'");
	cr_assert_str_eq(refusal(&p, 0, NULL), "accepted");
	SAYS(refusal(NULL, 0, NULL), "no descriptor");
	SAYS(refusal(&p, ESPL_CLOUD, NULL),
	    "the file name says a cloud, but the plugin in it is an allocator");
	SAYS(refusal(&p, ESPL_ALLOCATOR, "fair"), "the file name says 'fair'");
	p.magic = 1;
	SAYS(refusal(&p, 0, NULL), "not an espalier plugin");
	p = good, p.abi = 0;
	SAYS(refusal(&p, 0, NULL), "built for ABI 0.0, but this version of espalier has ABI");
	p = good, p.abi = 1u << 16;
	SAYS(refusal(&p, 0, NULL), "built for ABI 1.0, but this version of espalier has ABI");
	p = good, p.size = 16;
	SAYS(refusal(&p, 0, NULL), "declares 16 bytes");
	p = good, p.kind = 7;
	SAYS(refusal(&p, 0, NULL), "unknown kind (7)");
	p = good, p.name = "Fair";
	SAYS(refusal(&p, 0, NULL), "no valid name");
	p = good, p.name = NULL;
	SAYS(refusal(&p, 0, NULL), "no valid name");
	p = good, p.version = NULL;
	SAYS(refusal(&p, 0, NULL), "no version");
	p = good, p.summary = NULL;
	SAYS(refusal(&p, 0, NULL), "no summary");
	p = good, p.create = NULL;
	SAYS(refusal(&p, 0, NULL), "no 'create'");
	p = good, p.destroy = NULL;
	SAYS(refusal(&p, 0, NULL), "no 'destroy'");
	p = good, p.ops = NULL;
	SAYS(refusal(&p, 0, NULL), "no table");
	p = good, p.caps = UINT64_C(1) << 40;
	SAYS(refusal(&p, 0, NULL), "does not have (bit 40)");
	p = good, p.caps = ESPL_NEED_CUDA;
	SAYS(refusal(&p, 0, NULL), "its kind cannot have (bit 34)");
	p = good, p.caps = ESPL_NEED_COMPUTE | (UINT64_C(1) << 20);
	cr_assert_str_eq(refusal(&p, 0, NULL), "accepted", "unknown promises are ignored");
	table.head.zero = 3;
	p = good;
	SAYS(refusal(&p, 0, NULL), "the field 'zero' of the table of functions is 3, not 0");
	table.head.zero = 0;
	p = good, p.option_count = 1;
	SAYS(refusal(&p, 0, NULL), "has no table");
}

Test(abi, entries_of_each_kind)
{
	static const struct {
		espl_kind kind;
		size_t last;
		const char *says;
	} mandatory[] = {
		{ ESPL_ALGORITHM, offsetof(struct espl_algorithm_ops, next_group), "next_group" },
		{ ESPL_ALLOCATOR, offsetof(struct espl_allocator_ops, allocate), "allocate" },
		{ ESPL_CLOUD, offsetof(struct espl_cloud_ops, describe), "describe" },
		{ ESPL_PLACER, offsetof(struct espl_placer_ops, place), "place" },
		{ ESPL_TRAINABLE, offsetof(struct espl_trainable_ops, step), "step" },
	};
	struct any_table table;
	struct espl_plugin p = { ESPL_HEAD(ESPL_CLOUD, "x"), .version = "1", .summary = "s",
		.ops = &table.head, .create = no_create, .destroy = no_destroy };
	char says[64];
	size_t at;

	for (size_t i = 0; i < sizeof mandatory / sizeof mandatory[0]; i++) {
		for (size_t k = 0; k < 24; k++)
			table.entries[k] = some_entry;
		p.kind = mandatory[i].kind;
		table.head = (struct espl_ops){ (uint32_t)sizeof table, 0 };
		cr_expect_str_eq(refusal(&p, 0, NULL), "accepted",
		    "more entries than we know are fine");
		at = (mandatory[i].last - sizeof(struct espl_ops)) / sizeof table.entries[0];
		table.entries[at] = NULL;
		snprintf(says, sizeof says, "'%s' is NULL", mandatory[i].says);
		SAYS(refusal(&p, 0, NULL), says);
		table.entries[at] = some_entry;
		table.head.size = (uint32_t)mandatory[i].last;
		snprintf(says, sizeof says, "end before '%s'", mandatory[i].says);
		SAYS(refusal(&p, 0, NULL), says);
		table.head.size = 4;
		SAYS(refusal(&p, 0, NULL), "4 bytes");
	}
	/* A cloud needs neither owned nor history. */
	p.kind = ESPL_CLOUD;
	table.head.size = (uint32_t)(offsetof(struct espl_cloud_ops, describe) + sizeof(void *));
	table.entries[offsetof(struct espl_cloud_ops, owned) / sizeof(void *) - 1] = NULL;
	table.entries[offsetof(struct espl_cloud_ops, history) / sizeof(void *) - 1] = NULL;
	cr_assert_str_eq(refusal(&p, 0, NULL), "accepted");
	/* A trainable's state: regions, or save and load. */
	p.kind = ESPL_TRAINABLE;
	table.head.size = (uint32_t)sizeof table;
	for (size_t k = 0; k < 24; k++)
		table.entries[k] = some_entry;
	table.entries[3] = NULL;
	cr_assert_str_eq(refusal(&p, 0, NULL), "accepted");
	table.entries[5] = NULL;
	SAYS(refusal(&p, 0, NULL), "'save' without 'load'");
	table.entries[4] = NULL;
	SAYS(refusal(&p, 0, NULL), "no 'regions'");
	table.entries[3] = some_entry;
	cr_assert_str_eq(refusal(&p, 0, NULL), "accepted");
}

/* ---- broken files ------------------------------------------------------------------ */

Test(loader, each_broken_plugin_has_its_message)
{
	static const struct {
		const char *name, *says, *hint;
	} cases[] = {
		{ "no_symbol", "exports no 'allocator_no_symbol_LTX_espalier_plugin'",
		    "ESPL_PLUGIN" },
		{ "bad_magic", "not an espalier plugin: its descriptor starts with 0x12345678",
		    "ESPL_HEAD" },
		{ "newer_minor", "built for ABI 0.3, but this version of espalier has ABI 0.2",
		    "update" },
		{ "short_table", "too short: 8 bytes end before 'allocate'", "ESPL_TABLE" },
		{ "null_entry", "'allocate' is NULL, but it is mandatory for allocators",
		    "mandatory" },
		{ "wrong_name", "says 'wrong_name', but the name of the plugin in it is 'other'",
		    "<kind>_<name>" },
		{ "wrong_kind", "says an allocator, but the plugin in it is a placer",
		    "<kind>_<name>" },
		{ "bad_default", "'period' = 5s is below its minimum 10s", "the minimum is 10s" },
		{ "undefined_call", "undefined symbol: espalier_function_that_nobody_has",
		    "-z,defs" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		const struct espl__plugin *plugin;
		char *name = espl__format("wrong/allocator_%s", cases[i].name),
		     *path = module(name);

		cr_expect_eq(espl__plugin_open(path, &plugin, &diag), ESPL_E_CONFIG, "%s",
		    cases[i].name);
		cr_expect_null(plugin);
		SAYS(diag.text, cases[i].says);
		SAYS(diag.hint, cases[i].hint);
		SAYS(diag.file, cases[i].name);
		free(path);
		free(name);
	}
	espl__plugins_exit();
}

static void
write_file(const char *path, const void *bytes, size_t size)
{
	cr_assert_eq(espl__file_write(path, bytes, size, NULL), ESPL_OK);
}

Test(loader, files_that_are_no_plugins)
{
	char dir[] = "/tmp/espl-plugin-XXXXXX", *path, *probe = module("allocator_probe");
	const struct espl__plugin *plugin;
	struct espl__diag diag = ESPL__DIAG_INIT;

	cr_assert_not_null(mkdtemp(dir));
	path = espl__format("%s/allocator_x.so", dir);
	cr_assert_eq(espl__plugin_open(path, &plugin, &diag), ESPL_E_CONFIG);
	SAYS(diag.text, "No such file");
	write_file(path, "not code at all", 15);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__plugin_open(path, &plugin, &diag), ESPL_E_CONFIG);
	SAYS(diag.text, "cannot load the plugin");
	SAYS(diag.hint, "not a shared object");
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkdir(path, 0700), 0);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__plugin_open(path, &plugin, &diag), ESPL_E_CONFIG);
	SAYS(diag.text, "not a regular file");
	free(path);
	path = espl__format("%s/gadget_x.so", dir);
	write_file(path, "x", 1);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__plugin_open(path, &plugin, &diag), ESPL_E_CONFIG);
	SAYS(diag.text, "not <kind>_<name>.so");
	if (geteuid() == 0) {
		free(path);
		path = espl__format("%s/allocator_y.so", dir);
		write_file(path, "x", 1);
		cr_assert_eq(chown(path, 12345, 12345), 0);
		cr_assert_eq(chmod(path, 0666), 0);
		diag = (struct espl__diag)ESPL__DIAG_INIT;
		cr_assert_eq(espl__plugin_open(path, &plugin, &diag), ESPL_E_CONFIG);
		SAYS(diag.text, "refusing to load a plugin as root");
	}
	cr_assert_eq(espl__plugins_init("/nonexistent/folder", &diag), ESPL_E_CONFIG);
	free(path);
	free(probe);
	(void)espl__tree_remove(dir, NULL);
	espl__plugins_exit();
}

/* ---- finding ----------------------------------------------------------------------- */

struct listing {
	char text[4000];
	int broken;
};

static void
list_plugin(void *ctx, const struct espl__plugin *plugin)
{
	struct listing *l = ctx;
	size_t used = strlen(l->text);

	snprintf(l->text + used, sizeof l->text - used, "%s/%s ",
	    espl__kind_name(plugin->desc->kind), plugin->desc->name);
}

static void
list_broken(void *ctx, const char *path, const struct espl__diag *diag)
{
	cr_assert_eq(path[0], '/');
	cr_assert_str_neq(diag->text, "");
	((struct listing *)ctx)->broken++;
}

Test(registry, finds_and_lists)
{
	char dir[] = "/tmp/espl-plugin-XXXXXX", real[4096], *path,
	     *probe = module("allocator_probe"), *link;
	const struct espl__plugin *plugin, *same;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct listing list = { "", 0 };

	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(unsetenv("ESPALIER_PLUGIN_PATH"), 0);
	cr_assert_eq(espl__plugin_open(probe, &plugin, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(plugin->path[0], '/');
	cr_assert_not_null(realpath(plugin->path, real));
	link = espl__format("%s/allocator_probe.so", dir);
	cr_assert_eq(symlink(real, link), 0);
	path = espl__format("%s/allocator_broken.so", dir);
	write_file(path, "x", 1);
	cr_assert_eq(espl__plugins_init(dir, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(espl__plugin_find(ESPL_ALLOCATOR, "probe", &same, &diag), ESPL_OK, "%s",
	    diag.text);
	cr_assert_eq(plugin, same, "one file is one plugin, whatever path leads to it");
	espl__plugins_each(list_plugin, list_broken, &list);
	SAYS(list.text, "allocator/probe ");
	cr_assert_geq(list.broken, 1);
	cr_assert_eq(espl__plugin_find(ESPL_ALLOCATOR, "probr", &same, &diag), ESPL_E_CONFIG);
	SAYS(diag.text, "there is no allocator 'probr'");
	SAYS(diag.text, dir);
	SAYS(diag.hint, "did you mean 'probe'");
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__plugin_find(ESPL_CLOUD, "probe", &same, &diag), ESPL_E_CONFIG);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__plugin_find(ESPL_ALLOCATOR, "broken", &same, &diag), ESPL_E_CONFIG);
	SAYS(diag.text, "cannot load the plugin");
	cr_assert_eq(espl__kind_find("placer"), ESPL_PLACER);
	cr_assert_eq(espl__kind_find("plaser"), 0);
	cr_assert_str_eq(espl__kind_name(77), "?");
	cr_assert_eq(setenv("ESPALIER_LIBEXEC", "/somewhere", 1), 0);
	cr_assert_str_eq(espl__libexec(), "/somewhere");
	cr_assert_eq(unsetenv("ESPALIER_LIBEXEC"), 0);
	cr_assert_eq(espl__libexec()[0], '/');
	espl__plugins_exit();
	(void)espl__tree_remove(dir, NULL);
	free(link);
	free(path);
	free(probe);
}

/* ---- hosting ----------------------------------------------------------------------- */

struct heard {
	char log[300], note[100];
	int service;
};
static struct heard heard;
static const struct espl_model the_model = { .size = sizeof the_model };

static void
hear_log(void *ctx, espl_level level, const char *text)
{
	(void)ctx;
	(void)level;
	snprintf(heard.log, sizeof heard.log, "%s", text);
}

static void
hear_note(void *ctx, struct espl__instance *instance, espl_subject about, uint64_t id,
    const char *text)
{
	(void)ctx;
	(void)instance;
	snprintf(heard.note, sizeof heard.note, "%u %llu %s", about, (unsigned long long)id, text);
}

static const void *
give_service(void *ctx, struct espl__instance *instance, const char *id)
{
	(void)ctx;
	(void)instance;
	heard.service++;
	return strcmp(id, ESPL_MODEL) == 0 ? &the_model : NULL;
}

static const struct probe *
shown(const struct espl__instance *instance)
{
	return instance->plugin->desc->extension(instance->self, "probe");
}

static void
check_host(const struct espl__instance *instance)
{
	const struct espl_host *host = shown(instance)->host;
	const void *bytes;
	uint64_t size;
	struct espl_error error = ESPL_INIT(struct espl_error);

	cr_assert_eq(host->now(host), 42);
	cr_assert_eq(host->abi, ESPL_ABI);
	host->log(host, ESPL_WARN, "hello");
	cr_assert_str_eq(heard.log, "allocator 'probe': hello");
	host->note(host, ESPL_ABOUT_TRIAL, 9, "because");
	cr_assert_str_eq(heard.note, "2 9 because");
	cr_assert_eq(host->service(host, ESPL_MODEL), &the_model);
	cr_assert_null(host->service(host, ESPL_HISTORY), "not for allocators");
	cr_assert_null(host->service(host, "espl.unknown/0"));
	cr_assert_eq(heard.service, 1, "the core is asked for what this kind may have only");
	cr_assert_eq(host->file(host, PROBE_FILE, ESPL_ANY, ESPL_ANY, &bytes, &size, &error),
	    ESPL_OK);
	cr_assert(size == 5 && memcmp(bytes, "bytes", 5) == 0);
	cr_assert_eq(host->file(host, PROBE_TABLE, 1, 2, &bytes, &size, &error), ESPL_OK);
	cr_assert_eq(size, 0, "an empty file");
	cr_assert_eq(host->file(host, PROBE_TABLE, 0, 2, &bytes, &size, &error), ESPL_E_UNKNOWN);
	cr_assert_eq(host->file(host, PROBE_COUNT, ESPL_ANY, ESPL_ANY, &bytes, &size, &error),
	    ESPL_E_UNKNOWN);
}

Test(instance, options_files_and_host)
{
	static const char text[] =
	    "allocator = { use = \"probe\"; count = 7; file = \"data\"; api_key = \"hush\";\n"
	    "table = ( ( 1 ), { count = 2; file = \"none\"; } ); };";
	char dir[] = "/tmp/espl-plugin-XXXXXX", *path, *probe = module("allocator_probe");
	espl_time now = 42;
	struct espl__host_env env = { .seed = 1,
		.verbose = 1,
		.now = &now,
		.directory = dir,
		.service = give_service,
		.note = hear_note };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *tree;
	struct espl__instance *one, *two;
	const struct espl__plugin *plugin;
	const struct espl__node *group;
	const struct espl_value *v;
	uint64_t digest;

	cr_assert_not_null(mkdtemp(dir));
	path = espl__format("%s/data", dir);
	write_file(path, "bytes", 5);
	espl__log_to(hear_log, NULL, ESPL_DEBUG);
	cr_assert_eq(espl__tree_parse(text, "t.cfg", &tree, &diag), ESPL_OK);
	group = espl__node_get(espl__tree_root(tree), "allocator");
	cr_assert_eq(espl__plugin_open(probe, &plugin, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(espl__instance_of(plugin, group, &env, &one, &diag), ESPL_E_CONFIG);
	SAYS(diag.text, "allocator 'probe': 'table': cannot open");
	cr_assert(diag.line == 2 && strcmp(diag.file, "t.cfg") == 0);
	free(path);
	path = espl__format("%s/none", dir);
	write_file(path, "", 0);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__instance_of(plugin, group, &env, &one, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_str_eq(one->who, "allocator 'probe'");
	v = shown(one)->config->values;
	cr_assert_eq(v[PROBE_COUNT].as.i, 7);
	cr_assert_eq(v[PROBE_MODE].as.i, 1);
	cr_assert_eq(v[PROBE_PERIOD].as.i, 90 * ESPL_SECOND);
	cr_assert_eq(v[PROBE_RATIO].source, ESPL_UNSET);
	cr_assert_eq(v[PROBE_DELAY].as.latency->sd_s, 0.5);
	cr_assert_str_eq(v[PROBE_KEY].as.s, "hush");
	check_host(one);
	/* The stream of random numbers depends on seed and name alone; the digest on the files. */
	cr_assert_eq(espl__instance_of(plugin, group, &env, &two, &diag), ESPL_OK);
	cr_assert_eq(shown(one)->first_random, shown(two)->first_random);
	cr_assert_eq(one->files_digest, two->files_digest);
	digest = two->files_digest;
	espl__instance_destroy(two);
	env.seed = 2;
	write_file(path, "other", 5);
	cr_assert_eq(espl__instance_of(plugin, group, &env, &two, &diag), ESPL_OK);
	cr_assert_neq(shown(one)->first_random, shown(two)->first_random);
	cr_assert_neq(digest, two->files_digest);
	espl__instance_destroy(two);
	espl__instance_destroy(one);
	espl__instance_destroy(NULL);
	espl__tree_free(tree);
	espl__plugins_exit();
	espl__log_to(NULL, NULL, ESPL_INFO);
	(void)espl__tree_remove(dir, NULL);
	free(path);
	free(probe);
}

Test(instance, refusals_name_the_line)
{
	static const char text[] = "\nallocator = { use = \"create_fails\";\n  share = 0.1; "
				   "};\ncloud = { use = \"nothere\"; };";
	char *path = module("wrong/allocator_create_fails");
	struct espl__host_env env = { .directory = "" };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *tree;
	struct espl__instance *instance;
	const struct espl__plugin *plugin;

	cr_assert_eq(espl__tree_parse(text, "t.cfg", &tree, &diag), ESPL_OK);
	cr_assert_eq(espl__plugin_open(path, &plugin, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(espl__instance_of(plugin, espl__node_get(espl__tree_root(tree), "allocator"),
			 &env, &instance, &diag),
	    ESPL_E_CONFIG);
	cr_assert_str_eq(diag.text, "allocator 'create_fails': 'share' never suits it");
	cr_assert_str_eq(diag.file, "t.cfg");
	cr_assert_eq(diag.line, 3);
	diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__instance_create(ESPL_CLOUD, "nothere",
			 espl__node_get(espl__tree_root(tree), "cloud"), &env, &instance, &diag),
	    ESPL_E_CONFIG);
	SAYS(diag.text, "there is no cloud 'nothere'");
	cr_assert_eq(diag.line, 4);
	espl__tree_free(tree);
	espl__plugins_exit();
	free(path);
}

/* ---- run.cfg knows secrets and paths ----------------------------------------------- */

Test(instance, run_print_asks_the_plugin)
{
	static const char text[] =
	    "experiment = { name = \"e\"; metric = \"m\"; goal = \"minimize\"; };\n"
	    "trial = { command = [ \"true\" ]; };\nspace = { x = 1; };\nalgorithm = { use = "
	    "\"random\"; sampler = { use = \"keyed\"; key = \"hushed\"; prior = \"known\"; }; };\n"
	    "allocator = { use = \"probe\"; api_key = \"hush\"; file = \"data\"; ratio = 0.5;\n"
	    "table = ( ( 1, 0.5, \"cell\" ), { count = 2; file = \"/abs\"; } ); };\n";
	char dir[] = "/tmp/espl-plugin-XXXXXX", *path, *probe = module("allocator_probe"), *wanted,
	     *folder;
	struct espl__run_config *config;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf buf = { NULL, 0, 0 };
	const struct espl__plugin *plugin;
	const char *printed;

	cr_assert_not_null(mkdtemp(dir));
	path = espl__format("%s/a.cfg", dir);
	write_file(path, text, sizeof text - 1);
	cr_assert_eq(espl__plugin_open(probe, &plugin, &diag), ESPL_OK, "%s", diag.text);
	folder = espl__strdup(plugin->path);
	*strrchr(folder, '/') = '\0';
	cr_assert_eq(espl__plugins_init(folder, &diag), ESPL_OK);
	cr_assert_eq(espl__run_load(path, NULL, 0, ESPL__NEED_TRIAL, &config, &diag), ESPL_OK, "%s",
	    diag.text);
	espl__run_print(config, &buf);
	printed = espl__buf_text(&buf);
	cr_assert_null(strstr(printed, "hush"));
	SAYS(printed, "api_key = \"" ESPL__SECRET_OMITTED "\"");
	wanted = espl__format("file = \"%s/data\"", config->directory);
	SAYS(printed, wanted);
	free(wanted);
	wanted = espl__format("( 1, 0.5, \"%s/cell\" )", config->directory);
	SAYS(printed, wanted);
	SAYS(printed, "file = \"/abs\"");
	free(wanted);
	SAYS(printed, "key = \"" ESPL__SECRET_OMITTED "\""); /* of the algorithm's sampler */
	wanted = espl__format("prior = \"%s/known\"", config->directory);
	SAYS(printed, wanted);
	free(wanted);
	espl__buf_free(&buf);
	espl__run_free(config);
	espl__plugins_exit();
	(void)espl__tree_remove(dir, NULL);
	free(folder);
	free(path);
	free(probe);
}

/* ---- help, check-plugin ------------------------------------------------------------ */

Test(check, help_and_verdicts)
{
	static const struct {
		const char *name;
		int bad;
		const char *says[8];
	} cases[] = {
		{ "allocator_probe", 0,
		    { "ok loads: allocator 'probe' 1.2",
			"ok symbols: the file exports only the descriptor", "same decisions",
			"ok allocate: valid answers" } },
		{ "wrong/allocator_lies", 1,
		    { "allocate: grants 40 GPUs, but the nodes it asked for have 0 (first with: "
		      "items without nodes; ",
			"not deterministic", "although every call was rejected", "" } },
		{ "wrong/allocator_bad_magic", 1,
		    { "error this is not an espalier plugin", "\nhint: ", "", "" } },
		{ "wrong/allocator_slips", 1,
		    { "error 15 calls of its sinks are rejected, the first: a grant of 1000 GPUs "
		      "for "
		      "item 1, which takes 1 to 8 (with: items without nodes)",
			"same decisions" } },
		{ "wrong/allocator_twice", 1,
		    { "error allocate: grants item 1 twice in one answer "
		      "(first with: items without nodes; 15 times)" } },
		{ "wrong/algorithm_slips", 1,
		    { "calls of its sinks are rejected, the first: a verdict on trial 99, which "
		      "has "
		      "ended or does not exist (with: a search with generated trials)",
			"ok spec: returned OK without declaring stages" } },
		{ "wrong/allocator_create_fails", 0,
		    { "create rejected the generated options", "", "", "" } },
		{ "wrong/cloud_lies", 1,
		    { "start: reported done twice", "leased two machines",
			"reach: reported a command 0 times", "did not report the current state",
			"owned: reported a machine without its token",
			"owned: was asked for run 'check' and reported a machine of run 'other'",
			"owned: never reported done", "release: the lease never ends" } },
		{ "wrong/cloud_far", 0,
		    { "no offers without a connection",
			"start: failed with 'check-plugin does not provide a network' without a "
			"network, so leases were not tested" } },
	};
	struct espl__buf buf = { NULL, 0, 0 };
	const struct espl__plugin *plugin;
	char *path = module("allocator_probe");

	cr_assert_eq(espl__plugin_open(path, &plugin, NULL), ESPL_OK);
	free(path);
	espl__plugin_help(plugin->desc, ESPL__HELP_TEXT, &buf);
	SAYS(espl__buf_text(&buf), "allocator = { use = \"probe\"; ... };");
	espl__plugin_help(plugin->desc, ESPL__HELP_MARKDOWN, &buf);
	SAYS(espl__buf_text(&buf), "### allocator `probe`");
	espl__plugin_help(plugin->desc, ESPL__HELP_MAN, &buf);
	SAYS(espl__buf_text(&buf), ".SS allocator probe");
	espl__buf_free(&buf);
	espl__plugins_exit();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *text = NULL;
		size_t size = 0;
		FILE *out = tmpfile();

		cr_assert_not_null(out);
		path = module(cases[i].name);
		cr_expect_eq(espl__check_plugin(path, out), cases[i].bad, "%s", cases[i].name);
		size = (size_t)ftell(out);
		cr_assert_eq(fseek(out, 0, SEEK_END), 0);
		size = (size_t)ftell(out);
		text = espl__alloc(size + 1);
		rewind(out);
		cr_assert_eq(fread(text, 1, size, out), size);
		for (int k = 0; k < 8; k++)
			if (cases[i].says[k] != NULL)
				SAYS(text, cases[i].says[k]);
		cr_expect((strstr(text, "error ") != NULL) == cases[i].bad, "%s", text);
		fclose(out);
		free(text);
		free(path);
	}
}
