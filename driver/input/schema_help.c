/* schema_help.c - an option table as text for people: terminal, Markdown, groff.  Help, man pages
 * and docs/config.md are made here, so that they say what the parser does.
 */
#include <string.h>

#include "config/schema_value.h"

/* "span, default 60s, from 0s to 1h, required" */
static void
describe_option(const struct espl_option *option, struct espl__buf *buf)
{
	const char *type = espl__option_type_name(option->type);

	if (option->type == ESPL_OPT_CHOICE && option->choices != NULL) {
		uint32_t count = espl__choice_count(option->choices);
		char text[128];

		for (uint32_t i = 0; i < count; i++) {
			espl__choice_at(option->choices, i, text, sizeof text);
			espl__print(buf, "%s\"%s\"",
			    i == 0              ? ""
				: i + 1 < count ? ", "
						: " or ",
			    text);
		}
	} else {
		espl__print(buf, "%s", type != NULL ? type : "unknown");
	}
	if (option->flags & ESPL_OPT_REQUIRED)
		espl__print(buf, ", required");
	if (option->fallback != NULL)
		espl__print(buf, ", default %s",
		    option->fallback[0] != '\0' ? option->fallback : "\"\"");
	if (option->min != NULL && option->max != NULL)
		espl__print(buf, ", from %s to %s", option->min, option->max);
	else if (option->min != NULL)
		espl__print(buf, ", %s or more", option->min);
	else if (option->max != NULL)
		espl__print(buf, ", at most %s", option->max);
	if (option->type == ESPL_OPT_TABLE && (option->min != NULL || option->max != NULL))
		espl__print(buf, " rows");
	if (option->flags & ESPL_OPT_SECRET)
		espl__print(buf, ", secret");
	if (option->flags & ESPL_OPT_EXPERIMENTAL)
		espl__print(buf, ", experimental");
	if (option->flags & ESPL_OPT_DEPRECATED)
		espl__print(buf, ", deprecated");
}

void
espl__help_wrap(const char *text, int column, int indent, struct espl__buf *buf)
{
	int width = ESPL__HELP_WIDTH - indent;

	while (*text != '\0') {
		size_t word = strcspn(text, " \n\t");

		if (word == 0) {
			text++;
			continue;
		}
		if (column > 0 && column + 1 + (int)word > width) {
			espl__put_u8(buf, '\n');
			column = 0;
		}
		if (column == 0)
			espl__print(buf, "%*s", indent, "");
		else if (column > 0)
			espl__put_u8(buf, ' ');
		else
			column = 0;
		espl__put(buf, text, word);
		column += (int)word + (column > 0);
		text += word;
	}
	espl__put_u8(buf, '\n');
}

void
espl__help_entry(const char *left, const char *text, int indent, int column, struct espl__buf *buf)
{
	espl__print(buf, "%*s%-*s ", indent, "", column, left);
	if ((int)strlen(left) > column)
		espl__print(buf, "\n%*s", indent + column + 1, "");
	espl__help_wrap(text, -1, indent + column + 1, buf);
}

static void
help_text(const struct espl_option *option, uint32_t stride, int indent, struct espl__buf *buf)
{
	struct espl__buf line = { NULL, 0, 0 };

	describe_option(option, &line);
	espl__help_entry(option->name, espl__buf_text(&line), indent, 18, buf);
	espl__buf_free(&line);
	if (option->help != NULL && option->help[0] != '\0')
		espl__help_wrap(option->help, 0, indent + 4, buf);
	for (uint32_t c = 0; option->columns != NULL && c < option->column_count; c++)
		help_text(espl__option_at(option->columns, stride, c), stride, indent + 4, buf);
}

/* Text inside a cell of a Markdown table. */
static void
put_markdown(const char *text, struct espl__buf *buf)
{
	for (; *text != '\0'; text++) {
		if (*text == '|' || *text == '<' || *text == '*' || *text == '_')
			espl__put_u8(buf, '\\');
		espl__put_u8(buf, *text == '\n' ? ' ' : (uint8_t)*text);
	}
}

static void
help_markdown(const struct espl_option *option, uint32_t stride, const char *parent,
    struct espl__buf *buf)
{
	struct espl__buf line = { NULL, 0, 0 };

	espl__print(buf, "| `%s%s%s` | ", parent != NULL ? parent : "", parent != NULL ? "." : "",
	    option->name);
	describe_option(option, &line);
	put_markdown(espl__buf_text(&line), buf);
	espl__print(buf, " | ");
	put_markdown(option->help != NULL ? option->help : "", buf);
	espl__print(buf, " |\n");
	espl__buf_free(&line);
	for (uint32_t c = 0; option->columns != NULL && c < option->column_count; c++)
		help_markdown(espl__option_at(option->columns, stride, c), stride, option->name,
		    buf);
}

/* groff: backslashes doubled, '-' kept a minus, no line that begins with a control character. */
void
espl__help_groff(const char *text, struct espl__buf *buf)
{
	if (*text == '.' || *text == '\'')
		espl__print(buf, "\\&");
	for (; *text != '\0'; text++) {
		if (*text == '\\')
			espl__print(buf, "\\e");
		else if (*text == '-')
			espl__print(buf, "\\-");
		else
			espl__put_u8(buf, *text == '\n' ? ' ' : (uint8_t)*text);
	}
}

static void
help_man(const struct espl_option *option, uint32_t stride, struct espl__buf *buf)
{
	struct espl__buf line = { NULL, 0, 0 };

	espl__print(buf, ".TP\n.B ");
	espl__help_groff(option->name, buf);
	espl__put_u8(buf, '\n');
	describe_option(option, &line);
	espl__print(buf, "(");
	espl__help_groff(espl__buf_text(&line), buf);
	espl__print(buf, ")\n.br\n");
	espl__help_groff(option->help != NULL ? option->help : "", buf);
	espl__put_u8(buf, '\n');
	espl__buf_free(&line);
	if (option->columns == NULL)
		return;
	espl__print(buf, ".RS\n");
	for (uint32_t c = 0; c < option->column_count; c++)
		help_man(espl__option_at(option->columns, stride, c), stride, buf);
	espl__print(buf, ".RE\n");
}

void
espl__schema_help(const struct espl_option *options, uint32_t count, uint32_t stride,
    enum espl__help_form form, struct espl__buf *buf)
{
	uint32_t experimental = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct espl_option *option = espl__option_at(options, stride, i);

		if (form == ESPL__HELP_MARKDOWN)
			help_markdown(option, stride, NULL, buf);
		else if (form == ESPL__HELP_MAN)
			help_man(option, stride, buf);
		else if (form == ESPL__HELP_TEXT && (option->flags & ESPL_OPT_EXPERIMENTAL) != 0)
			experimental++;
		else
			help_text(option, stride, 2, buf);
	}
	if (experimental > 0)
		espl__print(buf, "\n%u experimental option%s: see `espalier help --all`.\n",
		    experimental, experimental > 1 ? "s" : "");
}
