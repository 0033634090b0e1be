/* check_kit.c - findings and recording for check-plugin; the made-up options an instance gets. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "check/check_kit.h"

void
espl__check_ok(struct espl__check *check, const char *format, ...)
{
	va_list list;

	fprintf(check->out, "ok ");
	va_start(list, format);
	vfprintf(check->out, format, list);
	va_end(list);
	fputc('\n', check->out);
	fflush(check->out); /* a crash must not take the line with it */
}

/* Do two texts say the same but for their numbers? */
static int
is_same(const char *a, const char *b)
{
	for (;;) {
		a += strspn(a, "0123456789");
		b += strspn(b, "0123456789");
		if (*a != *b)
			return 0;
		if (*a == '\0')
			return 1;
		a++;
		b++;
	}
}

static void
note_view(const struct espl__check *check, struct espl__check_finding *finding)
{
	if (finding->times++ == 0)
		snprintf(finding->view, sizeof finding->view, "%s",
		    check->view != NULL ? check->view : "");
}

/* Kept where a crash of this process does not take them along. */
void
espl__check_error(struct espl__check *check, const char *format, ...)
{
	struct espl__check_shared *shared = check->shared;
	char text[sizeof shared->findings[0].text];
	unsigned i = 0;
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	shared->errors++;
	while (i < shared->finding_count && !is_same(shared->findings[i].text, text))
		i++;
	if (i == ESPL__CHECK_FINDINGS)
		return;
	if (i == shared->finding_count) {
		memcpy(shared->findings[i].text, text, sizeof text);
		shared->finding_count++;
	}
	note_view(check, &shared->findings[i]);
}

espl_status
espl__check_refuse(struct espl__check *check, const char *format, ...)
{
	struct espl__check_finding *refused = &check->shared->refused;
	va_list list;

	if (check->refuse)
		return ESPL_E_REJECTED;
	if (refused->times == 0) {
		va_start(list, format);
		vsnprintf(refused->text, sizeof refused->text, format, list);
		va_end(list);
	}
	note_view(check, refused);
	return ESPL_E_REJECTED;
}

unsigned
espl__check_found(const struct espl__check *check)
{
	return (unsigned)check->shared->errors + check->shared->refused.times;
}

int
espl__check_struct(struct espl__check *check, const char *what, size_t size, size_t least,
    uint64_t zero)
{
	if (size < least)
		espl__check_error(check,
		    "%s: the size of its struct is not set (ESPL_INIT does it)", what);
	else if (zero != 0)
		espl__check_error(check,
		    "%s: the field 'zero' of its struct is not 0 (ESPL_INIT does it)", what);
	return size >= least && zero == 0;
}

void
espl__check_step(struct espl__check *check, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(check->shared->step, sizeof check->shared->step, format, list);
	va_end(list);
}

/* ---- recording --------------------------------------------------------------------- */

void
espl__check_begin(struct espl__check *check, int refuse)
{
	check->digest = 0;
	check->calls = 0;
	check->refuse = refuse;
}

espl_status
espl__check_call(struct espl__check *check, const char *name, const void *data, size_t size)
{
	check->digest = espl__digest(check->digest, name, strlen(name));
	check->digest = espl__digest(check->digest, data, size);
	if (++check->calls > ESPL__CHECK_CALLS) {
		/* It will hardly ever return: say so and let go of it with this process. */
		espl__check_error(check, "%s: it called its sink (%s) more than %u times%s",
		    check->shared->step, name, ESPL__CHECK_CALLS,
		    check->refuse ? ", though every call was refused: it loops" : "");
		check->shared->finished = 1;
		fflush(check->out);
		_exit(1);
	}
	return check->refuse ? ESPL_E_REJECTED : ESPL_OK;
}

int
espl__check_returned(struct espl__check *check, const char *what, espl_status status,
    const struct espl_error *error)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (status == ESPL_OK)
		return 1;
	if (status == ESPL_E_BUSY || (status == ESPL_E_INFEASIBLE && strcmp(what, "plan") == 0))
		return 0;
	if (check->refuse) /* after a refusal it may fail as it likes */
		return 0;
	espl__diag_plugin(&diag, what, status, error);
	espl__check_error(check, "%s", diag.text);
	return 0;
}

/* ---- options and instances --------------------------------------------------------- */

/* A value for an option, from its limits where it has some. */
static void
print_sample(const struct espl_option *option, uint32_t stride, int level, struct espl__buf *buf)
{
	switch (option->type) {
	case ESPL_OPT_BOOL: espl__print(buf, "true"); break;
	case ESPL_OPT_INT:
	case ESPL_OPT_BYTES:
	case ESPL_OPT_REAL:
	case ESPL_OPT_MONEY:
		if (option->min != NULL && option->type == ESPL_OPT_BYTES)
			espl__print(buf, "\"%s\"", option->min);
		else
			espl__print(buf, "%s",
			    option->min != NULL       ? option->min
				: option->max != NULL ? option->max
						      : "1");
		break;
	case ESPL_OPT_SPAN:
	case ESPL_OPT_LATENCY:
		espl__print(buf, "\"%s\"", option->min != NULL ? option->min : "1s");
		break;
	case ESPL_OPT_CHOICE:
		espl__print(buf, "\"%.*s\"", (int)strcspn(option->choices, "|"), option->choices);
		break;
	case ESPL_OPT_PATH: espl__print(buf, "\"/dev/null\""); break;
	case ESPL_OPT_TABLE:
		espl__print(buf, "( { ");
		for (uint32_t c = 0; c < option->column_count; c++) {
			const struct espl_option *column =
			    espl__option_at(option->columns, stride, c);

			if (!(column->flags & ESPL_OPT_REQUIRED) &&
			    (level < 1 || column->fallback != NULL))
				continue;
			espl__print(buf, "%s = ", column->name);
			print_sample(column, stride, level, buf);
			espl__print(buf, "; ");
		}
		espl__print(buf, "} )");
		break;
	default: espl__print(buf, "\"x\"");
	}
}

static void
make_group(struct espl__check *check)
{
	const struct espl_plugin *desc = check->plugin->desc;
	struct espl__buf buf = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;

	espl__print(&buf, "group = {\n");
	for (uint32_t i = 0; i < desc->option_count; i++) {
		const struct espl_option *option =
		    espl__option_at(desc->options, desc->option_size, i);

		if (!(option->flags & ESPL_OPT_REQUIRED) &&
		    (check->level < 2 || option->type != ESPL_OPT_TABLE))
			continue;
		espl__print(&buf, "\t%s = ", option->name);
		print_sample(option, desc->option_size, check->level, &buf);
		espl__print(&buf, ";\n");
	}
	espl__print(&buf, "};\n");
	if (espl__tree_parse(espl__buf_text(&buf), "(made up)", &check->tree, &diag) == ESPL_OK)
		check->group = espl__node_get(espl__tree_root(check->tree), "group");
	else
		espl__check_error(check, "no values could be made up for the required options: %s",
		    diag.text);
	espl__buf_free(&buf);
}

int
espl__check_level(struct espl__check *check)
{
	if (check->level == 2)
		return 0;
	check->level++;
	espl__tree_free(check->tree);
	check->tree = NULL;
	check->group = NULL;
	make_group(check);
	return check->group != NULL;
}

struct espl__instance *
espl__check_create(struct espl__check *check, uint64_t seed)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__instance *instance = NULL;

	if (check->tree == NULL)
		make_group(check);
	check->env.seed = seed;
	do {
		diag = (struct espl__diag)ESPL__DIAG_INIT;
		espl__check_step(check, "create");
		if (espl__instance_of(check->plugin, check->group, &check->env, &instance, &diag) ==
		    ESPL_OK)
			return instance;
	} while ((diag.status == ESPL_E_CONFIG || diag.status == ESPL_E_UNSUPPORTED) &&
	    espl__check_level(check));
	if (diag.status != ESPL_E_CONFIG && diag.status != ESPL_E_UNSUPPORTED)
		espl__check_error(check, "create: %s", diag.text);
	else if (!check->refused)
		espl__check_ok(check,
		    "create refuses the options made up for it (%s): the entries are not tried",
		    diag.text);
	check->refused = 1;
	return NULL;
}
