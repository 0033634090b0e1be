/* option_files.c - the files that PATH options name.
 *
 * Plugins open no files: what they were given is read here once and its digest kept, so that a
 * resumed run notices a file that has changed.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "plugin/instance.h"

#define FILE_LIMIT ((size_t)1 << 30)

struct file {
	uint32_t option, row, column;
	struct espl__buf bytes;
};

static char *
full_path(const struct espl__instance *instance, const char *path)
{
	const char *dir = instance->env->directory;

	if (path[0] == '/' || dir == NULL || dir[0] == '\0')
		return espl__strdup(path);
	return espl__format("%s/%s", dir, path);
}

static espl_status
read_file(struct espl__instance *instance, const struct espl_value *value, uint32_t option,
    uint32_t row, uint32_t column, struct espl__diag *diag)
{
	const struct espl_option *desc =
	    espl__option_at(instance->values->options, instance->values->option_size, option);
	struct espl__diag inner = ESPL__DIAG_INIT;
	struct file *files = instance->files, *file;
	char *path = full_path(instance, value->as.s);
	struct stat st;
	uint64_t key[4] = { option, row, column, 0 };
	espl_status status = ESPL_OK;

	files = espl__realloc(files, instance->file_count + 1, sizeof *files);
	instance->files = files;
	file = &files[instance->file_count++];
	memset(file, 0, sizeof *file);
	file->option = option;
	file->row = row;
	file->column = column;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		status = espl__fail(&inner, ESPL_E_CONFIG, "'%s' is a directory, not a file", path);
	if (status == ESPL_OK)
		status = espl__file_read(path, FILE_LIMIT, &file->bytes, &inner);
	if (status != ESPL_OK) {
		espl__fail_at(diag, ESPL_E_CONFIG, instance->values->files[option], value->line,
		    "%s: '%s': %s", instance->who, desc->name, inner.text);
		espl__hint(diag, "relative paths start at the directory of the configuration file");
		free(path);
		return ESPL_E_CONFIG;
	}
	free(path);
	key[3] = file->bytes.size;
	instance->files_digest = espl__digest(instance->files_digest, key, sizeof key);
	instance->files_digest =
	    espl__digest(instance->files_digest, file->bytes.data, file->bytes.size);
	return ESPL_OK;
}

static espl_status
read_table(struct espl__instance *instance, uint32_t option, struct espl__diag *diag)
{
	const struct espl__values *values = instance->values;
	const struct espl_option *desc =
	    espl__option_at(values->options, values->option_size, option);
	const struct espl_table *table = values->config.values[option].as.table;
	espl_status status = ESPL_OK;

	for (uint32_t row = 0; status == ESPL_OK && row < table->row_count; row++)
		for (uint32_t c = 0; status == ESPL_OK && c < table->column_count; c++) {
			const struct espl_value *cell =
			    &table->cells[(size_t)row * table->column_count + c];

			if (cell->source != ESPL_UNSET &&
			    espl__option_at(desc->columns, values->option_size, c)->type ==
				ESPL_OPT_PATH)
				status = read_file(instance, cell, option, row, c, diag);
		}
	return status;
}

espl_status
espl__files_read(struct espl__instance *instance, struct espl__diag *diag)
{
	const struct espl__values *values = instance->values;
	espl_status status = ESPL_OK;

	ESPL__CHECK(instance, INSTANCE);
	for (uint32_t i = 0; status == ESPL_OK && i < values->config.count; i++) {
		const struct espl_option *desc =
		    espl__option_at(values->options, values->option_size, i);

		if (values->config.values[i].source == ESPL_UNSET)
			continue;
		if (desc->type == ESPL_OPT_PATH)
			status = read_file(instance, &values->config.values[i], i, ESPL_ANY,
			    ESPL_ANY, diag);
		else if (desc->type == ESPL_OPT_TABLE)
			status = read_table(instance, i, diag);
	}
	return status;
}

void
espl__files_free(struct espl__instance *instance)
{
	struct file *files = instance->files;

	ESPL__CHECK(instance, INSTANCE);
	for (uint32_t i = 0; i < instance->file_count; i++)
		espl__buf_free(&files[i].bytes);
	free(files);
	instance->files = NULL;
	instance->file_count = 0;
}

const void *
espl__files_get(const struct espl__instance *instance, uint32_t option, uint32_t row,
    uint32_t column, uint64_t *size)
{
	const struct file *files = instance->files;

	ESPL__CHECK(instance, INSTANCE);
	for (uint32_t i = 0; i < instance->file_count; i++) {
		if (files[i].option != option || files[i].row != row ||
		    (row != ESPL_ANY && files[i].column != column))
			continue;
		*size = files[i].bytes.size;
		return files[i].bytes.data != NULL ? (const void *)files[i].bytes.data : "";
	}
	return NULL;
}
