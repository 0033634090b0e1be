/* diag.c - fills and prints the core's error value: one failure, one line, one hint. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include "base/assert.h"
#include "base/diag.h"

/* One line whatever the user's file, a trial or a plugin put in; a cut text says so. */
static void
one_line(char *text, size_t room, int needed)
{
	for (char *c = text; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	if (needed >= 0 && (size_t)needed >= room) {
		size_t at = room - 4;

		while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
			at--;
		memcpy(text + at, "...", 4);
	}
}

static void
set_file(struct espl__diag *diag, const char *file)
{
	size_t length;

	diag->file[0] = '\0';
	if (file == NULL)
		return;
	length = strlen(file);
	if (length < sizeof diag->file)
		memcpy(diag->file, file, length + 1);
	else
		snprintf(diag->file, sizeof diag->file, "...%s",
		    file + length - (sizeof diag->file - 4));
}

static void __attribute__((format(printf, 5, 0))) fill(struct espl__diag *diag, espl_status status,
    const char *file, uint32_t line, const char *format, va_list args)
{
	if (diag == NULL)
		return;
	if (diag->status != ESPL_OK) {
		diag->late = 1;
		return;
	}
	diag->status = status;
	diag->line = line;
	diag->late = 0;
	diag->hint[0] = '\0';
	set_file(diag, file);
	one_line(diag->text, sizeof diag->text,
	    vsnprintf(diag->text, sizeof diag->text, format, args));
}

espl_status(espl__fail)(struct espl__diag *diag, espl_status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fill(diag, status, NULL, 0, format, args);
	va_end(args);
	return status;
}

espl_status(espl__fail_at)(struct espl__diag *diag, espl_status status, const char *file,
    uint32_t line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fill(diag, status, file, line, format, args);
	va_end(args);
	return status;
}

void
espl__hint(struct espl__diag *diag, const char *format, ...)
{
	va_list args;

	if (diag == NULL || diag->status == ESPL_OK || diag->late || diag->hint[0] != '\0')
		return;
	va_start(args, format);
	one_line(diag->hint, sizeof diag->hint,
	    vsnprintf(diag->hint, sizeof diag->hint, format, args));
	va_end(args);
}

static espl_status
status_of_errno(int code)
{
	switch (code) {
	case ENOMEM: return ESPL_E_NOMEM;
	case ENOENT: return ESPL_E_UNKNOWN;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EMFILE:
	case ENFILE: return ESPL_E_LIMIT;
	default: return ESPL_E_REMOTE;
	}
}

espl_status(espl__fail_errno)(struct espl__diag *diag, const char *format, ...)
{
	int code = errno;
	espl_status status = status_of_errno(code);
	char what[sizeof diag->text];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	/* The reason must survive a long name in front of it. */
	espl__fail(diag, status, "%.400s: %s", what, strerror(code));
	errno = code;
	return status;
}

void
espl__diag_print(FILE *to, const struct espl__diag *diag)
{
	if (diag->file[0] == '\0')
		fprintf(to, "espalier: error: %s\n", diag->text);
	else if (diag->line == 0)
		fprintf(to, "%s: error: %s\n", diag->file, diag->text);
	else
		fprintf(to, "%s:%u: error: %s\n", diag->file, (unsigned)diag->line, diag->text);
	if (diag->hint[0] != '\0')
		fprintf(to, "hint: %s\n", diag->hint);
}

static const char *
status_text(espl_status status)
{
	switch (status) {
	case ESPL_OK: return "no failure";
	case ESPL_E_CONFIG: return "an option is not valid";
	case ESPL_E_NOMEM: return "out of memory";
	case ESPL_E_BUSY: return "not possible now";
	case ESPL_E_INFEASIBLE: return "nothing satisfies the constraints";
	case ESPL_E_REMOTE: return "something outside this process failed";
	case ESPL_E_REJECTED: return "its decision was rejected";
	case ESPL_E_BUG: return "it reached a state that should not occur";
	case ESPL_E_PEER: return "a rank of the gang was lost";
	case ESPL_E_LIMIT: return "a limit was reached";
	case ESPL_E_UNSUPPORTED: return "not supported here";
	case ESPL_E_UNKNOWN: return "unknown name or value";
	default: return "an unknown status";
	}
}

espl_status
espl__diag_plugin(struct espl__diag *diag, const char *who, espl_status status,
    const struct espl_error *error)
{
	ESPL__ASSERT(who != NULL && status != ESPL_OK);
	if (error == NULL || error->text[0] == '\0')
		return espl__fail(diag, status, "%s: %s (status %d, without a message)", who,
		    status_text(status), (int)status);
	espl__fail(diag, status, "%s: %.*s", who, (int)sizeof error->text, error->text);
	if (error->hint[0] != '\0')
		espl__hint(diag, "%.*s", (int)sizeof error->hint, error->hint);
	return status;
}

espl_status
espl__diag_said(struct espl__diag *diag, espl_status status, const char *file, uint32_t line,
    const char *who, const char *text)
{
	size_t size = strcspn(text, "\n");

	espl__fail_at(diag, status, file, line, "%s: %.*s", who, (int)size, text);
	if (text[size] != '\0')
		espl__hint(diag, "%s", text + size + 1);
	return status;
}
