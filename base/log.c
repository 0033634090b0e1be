/* log.c - where the core's lines for people go; callable from any thread once it is set up. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/log.h"

static espl__log_fn *log_fn;
static void *log_ctx;
static espl_level log_least = ESPL_INFO;

void
espl__log_to(espl__log_fn *fn, void *ctx, espl_level least)
{
	log_fn = fn;
	log_ctx = ctx;
	log_least = least;
}

int
espl__log_wants(espl_level level)
{
	return level >= log_least;
}

static const char *
level_prefix(espl_level level)
{
	switch (level) {
	case ESPL_DEBUG: return "debug: ";
	case ESPL_WARN: return "warning: ";
	case ESPL_ERROR: return "error: ";
	default: return "";
	}
}

/* Whatever is quoted, a terminal only prints it. */
static void
clean_lines(char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (((unsigned char)text[i] < ' ' && text[i] != '\n' && text[i] != '\t') ||
		    text[i] == 0x7f)
			text[i] = ' ';
}

void
espl__log(espl_level level, const char *format, ...)
{
	struct espl__buf text = { NULL, 0, 0 };
	va_list args;

	if (!espl__log_wants(level))
		return;
	va_start(args, format);
	espl__vprint(&text, format, args);
	va_end(args);
	clean_lines((char *)text.data, text.size);
	if (log_fn != NULL)
		log_fn(log_ctx, level, espl__buf_text(&text));
	else
		fprintf(stderr, "espalier: %s%s\n", level_prefix(level), espl__buf_text(&text));
	espl__buf_free(&text);
}
