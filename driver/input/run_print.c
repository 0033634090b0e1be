/* run_print.c - the resolved configuration as a file: run.cfg of a run directory.
 *
 * The core's groups are printed with all their values, defaults included, so that a later version
 * with other defaults resumes the same run; the plugins' groups as the user wrote them, paths made
 * absolute (or mapped to copies) and secrets left out.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "input/run_files.h"
#include "input/input.h"
#include "plugin/instance.h"
#include "plugin/registry.h"

struct printer {
	const struct espl__run_config *config;
	espl__run_map_fn *map;
	void *ctx;
	struct espl__buf *buf;
	struct espl__arena arena;
};

/* The path to print for one the user wrote; in the arena. */
static const char *
path_of(struct printer *p, const struct espl__node *node, const char *text)
{
	char *absolute = espl__run_path(p->config, text);
	const char *mapped = p->map != NULL ? p->map(p->ctx, node, absolute) : NULL;
	const char *result = espl__arena_strdup(&p->arena, mapped != NULL ? mapped : absolute);

	free(absolute);
	return result;
}

static struct espl__node *
copy_of(struct printer *p, const struct espl__node *node)
{
	struct espl__node *copy = espl__arena_alloc(&p->arena, sizeof *copy);

	*copy = *node;
	return copy;
}

/* ---- the core's groups ------------------------------------------------------------- */

static void
print_values(struct printer *p, const struct espl__values *values, const struct espl__node *group)
{
	for (uint32_t i = 0; i < values->config.count; i++) {
		const struct espl_option *option =
		    espl__option_at(values->options, values->option_size, i);
		struct espl__buf text = { NULL, 0, 0 };

		if (option->type == ESPL_OPT_PATH) {
			if (values->config.values[i].source != ESPL_UNSET &&
			    strcmp(option->name, "directory") != 0) {
				espl__print(p->buf, "\t%s = ", option->name);
				espl__print_quoted(p->buf,
				    path_of(p, espl__node_get(group, option->name),
					values->config.values[i].as.s));
				espl__print(p->buf, ";\n");
			}
		} else if (espl__values_print(values, i, &text)) {
			espl__print(p->buf, "\t%s = %s;\n", option->name, espl__buf_text(&text));
		}
		espl__buf_free(&text);
	}
}

/* ---- the plugins' groups ----------------------------------------------------------- */

static int
sounds_secret(const char *name)
{
	return strcasestr(name, "secret") != NULL || strcasestr(name, "password") != NULL ||
	    strcasestr(name, "token") != NULL;
}

/* A table with columns of paths: the same table with those made absolute. */
static const struct espl__node *
map_table(struct printer *p, const struct espl__node *node, const struct espl_option *option,
    uint32_t stride)
{
	struct espl__node *table = copy_of(p, node);
	struct espl__node **rows =
	    espl__arena_alloc(&p->arena, (node->child_count + 1) * sizeof *rows);

	table->children = rows;
	for (uint32_t r = 0; r < node->child_count; r++) {
		const struct espl__node *row = node->children[r];
		struct espl__node **cells;
		int group = row->type == ESPL__GROUP;

		rows[r] = copy_of(p, row);
		cells = espl__arena_alloc(&p->arena, (row->child_count + 1) * sizeof *cells);
		for (uint32_t c = 0; c < row->child_count; c++) {
			const struct espl_option *column = NULL;

			cells[c] = row->children[c];
			for (uint32_t k = 0; k < option->column_count; k++) {
				column = espl__option_at(option->columns, stride, k);
				if (group ? strcmp(column->name, cells[c]->name) == 0 : k == c)
					break;
				column = NULL;
			}
			if (column == NULL || column->type != ESPL_OPT_PATH ||
			    cells[c]->type != ESPL__STRING)
				continue;
			cells[c] = copy_of(p, cells[c]);
			cells[c]->text = path_of(p, row->children[c], row->children[c]->text);
		}
		if (row->child_count > 0)
			rows[r]->children = cells;
		else if (row->type == ESPL__STRING && option->column_count == 1 &&
		    option->columns->type == ESPL_OPT_PATH)
			rows[r]->text = path_of(p, row, row->text);
	}
	return table;
}

/* A reference to a secret is kept, with an absolute path; of a secret itself, that there was one.
 */
static const struct espl__node *
map_secret(struct printer *p, const struct espl__node *node)
{
	struct espl__node *copy = copy_of(p, node);
	const char *text = node->type == ESPL__STRING ? node->text : "";
	char *path, *full;

	copy->type = ESPL__STRING;
	copy->children = NULL;
	copy->child_count = 0;
	if (strncmp(text, "file:", 5) == 0) {
		path = espl__run_path(p->config, text + 5);
		full = espl__format("file:%s", path);
		copy->text = espl__arena_strdup(&p->arena, full);
		free(full);
		free(path);
	} else if (!espl__secret_is_reference(text)) {
		copy->text = espl__arena_strdup(&p->arena, ESPL__SECRET_OMITTED);
	}
	return copy;
}

/* For config/run.h: which option of which plugin is this? */
static const struct espl_option *
find_option(espl_kind kind, const char *use, const char *name, uint32_t *stride)
{
	const struct espl__plugin *plugin;

	if (use == NULL || espl__plugin_find(kind, use, &plugin, NULL) != ESPL_OK)
		return NULL;
	*stride = plugin->desc->option_size;
	for (uint32_t i = 0; i < plugin->desc->option_count; i++) {
		const struct espl_option *option =
		    espl__option_at(plugin->desc->options, *stride, i);

		if (strcmp(option->name, name) == 0)
			return option;
	}
	return NULL;
}

static const struct espl__node *map_member(struct printer *, espl_kind, const char *use,
    const struct espl__node *);

/* The group of a plugin that an option chooses, its members as those of a section. */
static const struct espl__node *
map_plugin(struct printer *p, const struct espl__node *node)
{
	const struct espl__node *use = espl__node_get(node, "use");
	const char *name = use != NULL && use->type == ESPL__STRING ? use->text : NULL;
	struct espl__node *copy = copy_of(p, node);
	struct espl__node **members =
	    espl__arena_alloc(&p->arena, (node->child_count + 1) * sizeof *members);
	uint32_t count = 0;

	for (uint32_t i = 0; i < node->child_count; i++) {
		const struct espl__node *member =
		    map_member(p, ESPL_SAMPLER, name, node->children[i]);

		if (member != NULL)
			members[count++] = copy_of(p, member);
	}
	copy->children = members;
	copy->child_count = count;
	return copy;
}

/* What to print for a member of a plugin's group; NULL: nothing. */
static const struct espl__node *
map_member(struct printer *p, espl_kind kind, const char *use, const struct espl__node *node)
{
	uint32_t stride = 0;
	const struct espl_option *option = find_option(kind, use, node->name, &stride);

	if (option == NULL)
		return sounds_secret(node->name) ? NULL : node;
	if ((option->flags & ESPL_OPT_SECRET) != 0)
		node = map_secret(p, node);
	if (option->type == ESPL_OPT_PATH && node->type == ESPL__STRING) {
		struct espl__node *copy = copy_of(p, node);

		copy->text = path_of(p, node, node->text);
		return copy;
	}
	if (option->type == ESPL_OPT_PLUGIN && node->type == ESPL__GROUP)
		return map_plugin(p, node);
	if (option->type == ESPL_OPT_TABLE &&
	    (node->type == ESPL__LIST || node->type == ESPL__ARRAY))
		return map_table(p, node, option, stride);
	return node;
}

static void
print_member(struct printer *p, espl_kind kind, const char *use, const struct espl__node *node,
    int indent)
{
	node = map_member(p, kind, use, node);
	if (node != NULL)
		espl__node_print(node, indent, p->buf);
}

static void
print_section(struct printer *p, const char *name, espl_kind kind,
    const struct espl__section *section)
{
	espl__print(p->buf, "%s = {\n\tuse = ", name);
	espl__print_quoted(p->buf, section->use);
	espl__print(p->buf, ";\n");
	for (uint32_t i = 0; section->group != NULL && i < section->group->child_count; i++)
		if (strcmp(section->group->children[i]->name, "use") != 0)
			print_member(p, kind, section->use, section->group->children[i], 1);
	espl__print(p->buf, "};\n");
}

static void
print_profile(struct printer *p, const struct espl__node *profile)
{
	if (profile->type == ESPL__STRING && strcmp(profile->text, "auto") != 0) {
		struct espl__node *copy = copy_of(p, profile);

		copy->text = path_of(p, profile, profile->text);
		profile = copy;
	}
	espl__node_print(profile, 1, p->buf);
}

/* The values may be secrets: a run directory keeps them in a file of their own. */
static void
print_env(struct printer *p, const struct espl__node *env)
{
	const char *file = p->map != NULL ? p->map(p->ctx, env, "") : NULL;

	if (file != NULL)
		espl__print(p->buf, "\tenv = {\n@include \"%s\"\n\t};\n", file);
	else
		espl__node_print(env, 1, p->buf);
}

static void
print_trial(struct printer *p, const struct espl__node *group)
{
	const struct espl__trial_config *trial = &p->config->trial;
	const struct espl__node *command = espl__node_get(group, "command");

	espl__print(p->buf, "trial = {\n");
	print_values(p, p->config->trial_values, group);
	/* A C trainable works anywhere: its run needs no other directory than its own. */
	if (command != NULL || espl__node_get(group, "directory") != NULL) {
		espl__print(p->buf, "\tdirectory = ");
		espl__print_quoted(p->buf, trial->directory);
		espl__print(p->buf, ";\n");
	}
	if (command != NULL)
		espl__node_print(command, 1, p->buf);
	if (trial->metrics)
		espl__node_print(espl__node_get(group, "metrics"), 1, p->buf);
	if (trial->options != NULL) {
		espl__print(p->buf, "\toptions = {\n");
		for (uint32_t i = 0; i < trial->options->child_count; i++)
			print_member(p, ESPL_TRAINABLE, trial->trainable,
			    trial->options->children[i], 2);
		espl__print(p->buf, "\t};\n");
	}
	if (trial->profile != NULL)
		print_profile(p, trial->profile);
	if (trial->files != NULL && p->map != NULL) /* the copies, which are beside it */
		espl__print(p->buf, "\tfiles = \"" ESPL__RUN_FILES "\";\n");
	else if (trial->files != NULL)
		espl__node_print(trial->files, 1, p->buf);
	if (trial->setup != NULL)
		espl__node_print(trial->setup, 1, p->buf);
	if (trial->env != NULL)
		print_env(p, trial->env);
	if (trial->env_from != NULL)
		espl__node_print(trial->env_from, 1, p->buf);
	espl__print(p->buf, "};\n");
}

static void
print_pool(struct printer *p)
{
	const struct espl__run_config *config = p->config;

	for (uint32_t i = 0; i < config->entry_count; i++) {
		espl__print(p->buf, i == 0 ? "experiments = ( {\n" : ", {\n");
		print_values(p, config->entries[i].values, config->entries[i].node);
		espl__print(p->buf, i + 1 < config->entry_count ? "}" : "} );\n");
	}
	if (config->workload == NULL)
		return;
	espl__print(p->buf, "workload = {\n");
	print_values(p, config->workload_values, config->workload);
	espl__print(p->buf, "};\n");
}

void
espl__run_print_mapped(const struct espl__run_config *config, espl__run_map_fn *map, void *ctx,
    struct espl__buf *buf)
{
	const struct espl__node *root = espl__tree_root(config->tree);
	const struct espl__node *failures =
	    espl__node_get(espl__node_get(root, "experiment"), "failures_max");
	struct printer p = { .config = config, .map = map, .ctx = ctx, .buf = buf };

	ESPL__CHECK(config, RUN_CONFIG);
	espl__print(buf, "experiment = {\n");
	print_values(&p, config->experiment_values, espl__node_get(root, "experiment"));
	if (failures != NULL)
		espl__node_print(failures, 1, buf);
	if (config->forbid != NULL)
		espl__node_print(config->forbid, 1, buf);
	if (config->require != NULL)
		espl__node_print(config->require, 1, buf);
	if (config->first != NULL)
		espl__node_print(config->first, 1, buf);
	if (config->warm_from != NULL) {
		espl__print(buf, "\twarm_start = {\n");
		print_values(&p, config->warm_values,
		    espl__node_get(espl__node_get(root, "experiment"), "warm_start"));
		espl__print(buf, "\t};\n");
	}
	espl__print(buf, "};\n");
	print_trial(&p, espl__node_get(root, "trial"));
	if (config->pool) {
		print_pool(&p);
	} else {
		espl__node_print(config->space, 0, buf);
		print_section(&p, "algorithm", ESPL_ALGORITHM, &config->algorithm);
	}
	print_section(&p, "allocator", ESPL_ALLOCATOR, &config->allocator);
	print_section(&p, "cloud", ESPL_CLOUD, &config->cloud);
	print_section(&p, "placer", ESPL_PLACER, &config->placer);
	if (config->s3) {
		espl__print(buf, "store = {\n");
		print_values(&p, config->store_values, espl__node_get(root, "store"));
		espl__print(buf, "};\n");
	}
	if (config->truth != NULL) {
		espl__print(buf, "truth = {\n");
		print_profile(&p, config->truth);
		espl__print(buf, "};\n");
	}
	espl__print(buf, "planning = {\n");
	print_values(&p, config->planning_values, espl__node_get(root, "planning"));
	espl__print(buf, "};\n");
	espl__arena_free(&p.arena);
}

void
espl__run_print(const struct espl__run_config *config, struct espl__buf *buf)
{
	espl__run_print_mapped(config, NULL, NULL, buf);
}
