/* schema_check.c - is a table of options itself sane?  The loader refuses a plugin whose own
 * defaults would fail, before a user meets them.
 *
 * Names, counts and pointers are checked before they are used: the table comes from a
 * plugin's author, perhaps from another version.
 */
#include <string.h>

#include "base/text.h"
#include "config/schema_value.h"

#define OPTIONS_MAX 4096u
#define STRIDE_MAX 4096u
#define NAME_MAX_LENGTH 64u
#define KNOWN_FLAGS \
	(ESPL_OPT_REQUIRED | ESPL_OPT_SECRET | ESPL_OPT_EXPERIMENTAL | ESPL_OPT_DEPRECATED)

struct check {
	const struct espl_option *options; /* these, or the columns of `table` */
	uint32_t count, stride;
	const struct espl_option *table;
	const char *who;
	struct espl__arena arena;
	struct espl__diag *diag;
};

static espl_status
refuse_option(const struct check *check, const struct espl_option *option, const char *text)
{
	espl__fail(check->diag, ESPL_E_CONFIG, "%s: %s '%.64s'%s%s: %s", check->who,
	    check->table != NULL ? "column" : "option", option->name,
	    check->table != NULL ? " of " : "", check->table != NULL ? check->table->name : "",
	    text);
	return ESPL_E_CONFIG;
}

/* A name that libconfig can read back: a letter, then letters, digits, '-' and '_'. */
static int
name_is_good(const char *name)
{
	size_t length = strnlen(name, NAME_MAX_LENGTH + 1);

	if (length == 0 || length > NAME_MAX_LENGTH)
		return 0;
	for (size_t i = 0; i < length; i++) {
		char c = name[i];
		int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!letter && (i == 0 || !((c >= '0' && c <= '9') || c == '-' || c == '_')))
			return 0;
	}
	return 1;
}

static espl_status
check_name(const struct check *check, uint32_t i)
{
	const struct espl_option *option = espl__option_at(check->options, check->stride, i);

	if (option->name == NULL || !name_is_good(option->name)) {
		espl__fail(check->diag, ESPL_E_CONFIG, "%s: %s number %u has no valid name",
		    check->who, check->table != NULL ? "column" : "option", i);
		espl__hint(check->diag,
		    "a name starts with a letter, followed by letters, digits, '-' or '_', at most "
		    "%u characters",
		    NAME_MAX_LENGTH);
		return ESPL_E_CONFIG;
	}
	if (check->table == NULL && strcmp(option->name, "use") == 0)
		return refuse_option(check, option, "this name is reserved by espalier");
	for (uint32_t k = 0; k < i; k++)
		if (strcmp(espl__option_at(check->options, check->stride, k)->name, option->name) ==
		    0)
			return refuse_option(check, option, "this name is used twice");
	return ESPL_OK;
}

static espl_status
check_type(const struct check *check, const struct espl_option *option)
{
	int limited;

	if (option->type == 0 || espl__option_type_name(option->type) == NULL)
		return refuse_option(check, option, "its type is unknown to this version");
	if (option->help == NULL || option->help[0] == '\0')
		return refuse_option(check, option, "it has no help text");
	if ((option->flags & ~KNOWN_FLAGS) != 0)
		return refuse_option(check, option, "its flags are unknown to this version");
	if (option->zero != 0)
		return refuse_option(check, option, "its field 'zero' is not 0");
	if (option->type == ESPL_OPT_CHOICE) {
		if (option->choices == NULL || option->choices[0] == '\0')
			return refuse_option(check, option, "it is a choice but has no choices");
	} else if (option->type == ESPL_OPT_PLUGIN) {
		if (option->choices == NULL || strcmp(option->choices, "sampler") != 0)
			return refuse_option(check, option, "it must be a plugin of kind sampler");
		if (check->table != NULL || option->fallback != NULL)
			return refuse_option(check, option,
			    "a plugin cannot be a column, nor have a default");
	} else if (option->choices != NULL) {
		return refuse_option(check, option, "it has choices but is not a choice");
	}
	if (option->type == ESPL_OPT_TABLE) {
		if (check->table != NULL)
			return refuse_option(check, option, "tables cannot be nested");
		if (option->columns == NULL || option->column_count == 0 ||
		    option->column_count > OPTIONS_MAX)
			return refuse_option(check, option, "it is a table but has no columns");
	} else if (option->columns != NULL || option->column_count != 0) {
		return refuse_option(check, option, "it has columns but is not a table");
	}
	limited = option->type == ESPL_OPT_INT || option->type == ESPL_OPT_REAL ||
	    option->type == ESPL_OPT_SPAN || option->type == ESPL_OPT_BYTES ||
	    option->type == ESPL_OPT_MONEY || option->type == ESPL_OPT_LATENCY ||
	    option->type == ESPL_OPT_TABLE;
	if (!limited && (option->min != NULL || option->max != NULL))
		return refuse_option(check, option, "limits are not allowed for its type");
	if (check->table != NULL && (option->flags & ESPL_OPT_SECRET))
		return refuse_option(check, option, "a column cannot be secret");
	return ESPL_OK;
}

/* Choices: none empty, none twice. */
static espl_status
check_choices(const struct check *check, const struct espl_option *option)
{
	uint32_t count;
	char text[256];

	if (option->type != ESPL_OPT_CHOICE)
		return ESPL_OK;
	if (strnlen(option->choices, 4096) == 4096)
		return refuse_option(check, option, "its choices are too long");
	count = espl__choice_count(option->choices);
	for (uint32_t i = 0; i < count; i++) {
		espl__choice_at(option->choices, i, text, sizeof text);
		if (text[0] == '\0' || espl__choice_find(option->choices, text) != (int)i)
			return refuse_option(check, option,
			    "one of its choices is empty, too long or repeated");
	}
	return ESPL_OK;
}

static espl_status
check_limit(struct check *check, const struct espl_option *option, const char *limit,
    const char *what)
{
	struct espl__value_by by = { .option = option,
		.stride = check->stride,
		.who = check->who,
		.arena = &check->arena };
	struct espl_value value;
	char text[200];
	int64_t rows;
	int wrong;

	if (limit == NULL)
		return ESPL_OK;
	if (option->type == ESPL_OPT_TABLE)
		wrong = espl__parse_int(limit, &rows) != 0 || rows < 0;
	else
		wrong = espl__value_of_text(&by, limit, 0, &value) != ESPL_OK;
	if (!wrong)
		return ESPL_OK;
	snprintf(text, sizeof text, "its %s '%.100s' is not a valid %s", what, limit,
	    option->type == ESPL_OPT_TABLE ? "number of rows"
					   : espl__option_type_name(option->type));
	return refuse_option(check, option, text);
}

static espl_status
check_default(struct check *check, const struct espl_option *option)
{
	struct espl__diag inner = ESPL__DIAG_INIT;
	struct espl__value_by by = { .option = option,
		.table = check->table,
		.stride = check->stride,
		.who = check->who,
		.arena = &check->arena,
		.diag = &inner };
	struct espl_value value;

	if (option->min != NULL && option->max != NULL && option->type != ESPL_OPT_TABLE) {
		struct espl_option narrow = *option;

		narrow.max = NULL;
		by.option = &narrow;
		if (espl__value_of_text(&by, option->max, 1, &value) != ESPL_OK)
			return refuse_option(check, option, "its minimum is above its maximum");
		by.option = option;
	}
	if (option->fallback == NULL)
		return ESPL_OK;
	if (option->flags & ESPL_OPT_REQUIRED)
		return refuse_option(check, option, "a required option cannot have a default");
	if (espl__value_of_text(&by, option->fallback, 1, &value) == ESPL_OK)
		return ESPL_OK;
	espl__fail(check->diag, ESPL_E_CONFIG, "%s: the default of '%s' is invalid: %s", check->who,
	    option->name, inner.text);
	if (inner.hint[0] != '\0')
		espl__hint(check->diag, "%s", inner.hint);
	return ESPL_E_CONFIG;
}

static espl_status check_options(struct check *);

static espl_status
check_option(struct check *check, uint32_t i)
{
	const struct espl_option *option = espl__option_at(check->options, check->stride, i);
	espl_status status = check_name(check, i);

	if (status == ESPL_OK)
		status = check_type(check, option);
	if (status == ESPL_OK)
		status = check_choices(check, option);
	if (status == ESPL_OK && option->type == ESPL_OPT_TABLE) {
		struct check columns = { .options = option->columns,
			.count = option->column_count,
			.stride = check->stride,
			.table = option,
			.who = check->who,
			.diag = check->diag };

		status = check_options(&columns);
		espl__arena_free(&columns.arena);
	}
	if (status == ESPL_OK)
		status = check_limit(check, option, option->min, "minimum");
	if (status == ESPL_OK)
		status = check_limit(check, option, option->max, "maximum");
	if (status == ESPL_OK)
		status = check_default(check, option);
	return status;
}

static espl_status
check_options(struct check *check)
{
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; status == ESPL_OK && i < check->count; i++)
		status = check_option(check, i);
	return status;
}

espl_status
espl__schema_check(const struct espl_option *options, uint32_t count, uint32_t stride,
    const char *who, struct espl__diag *diag)
{
	struct check check = { .options = options,
		.count = count,
		.stride = stride,
		.who = who,
		.diag = diag };
	espl_status status;

	if (count == 0)
		return ESPL_OK;
	if (options == NULL)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "%s: the descriptor declares %u options but has no table", who, count);
	if (count > OPTIONS_MAX)
		return espl__fail(diag, ESPL_E_CONFIG, "%s: %u options exceed the limit of %u", who,
		    count, OPTIONS_MAX);
	if (stride < sizeof(struct espl_option) || stride > STRIDE_MAX ||
	    stride % sizeof(void *) != 0) {
		espl__fail(diag, ESPL_E_CONFIG, "%s: option_size is %u, must be at least %zu", who,
		    stride, sizeof(struct espl_option));
		espl__hint(diag, "write ESPL_OPTIONS(table) in the descriptor");
		return ESPL_E_CONFIG;
	}
	status = check_options(&check);
	espl__arena_free(&check.arena);
	return status;
}
