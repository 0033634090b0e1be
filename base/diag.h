/* diag.h - what went wrong, in one line with a hint: the core's error value.
 *
 * Caller-owned, filled by the callee, may be NULL everywhere.  The first failure wins, so a
 * caller may pass one diag through several calls and print it once.
 */
#ifndef ESPL__DIAG_H
#define ESPL__DIAG_H
#include <stdio.h>
#include <espalier/abi.h>

struct espl__diag {
	espl_status status; /* ESPL_OK: nothing happened yet */
	uint32_t line;      /* 0: no place in a file */
	char file[512];     /* "" none; of a longer name the tail */
	char text[512];     /* what is wrong, one line, no full stop */
	char hint[512];     /* what to do about it, may be "" */
	uint32_t late;      /* a later failure came: its hint does not belong here */
};
#define ESPL__DIAG_INIT \
	{ \
		ESPL_OK, 0, "", "", "", 0 \
	}

/* Fills *diag unless NULL or already filled.  Returns status: return espl__fail(...). */
espl_status espl__fail(struct espl__diag *, espl_status, const char *format, ...) ESPL_PRINTF(3, 4);
/* The same at a place of a file (file may be NULL). */
espl_status espl__fail_at(struct espl__diag *, espl_status, const char *file, uint32_t line,
    const char *format, ...) ESPL_PRINTF(5, 6);
/* Adds a hint to the failure just recorded (kept if there is one already). */
void espl__hint(struct espl__diag *, const char *format, ...) ESPL_PRINTF(2, 3);
/* Failure of a system call: text is "what: strerror(errno)".  ENOENT gives E_UNKNOWN, a full
 * disk or table E_LIMIT, ENOMEM E_NOMEM, everything else E_REMOTE. */
espl_status espl__fail_errno(struct espl__diag *, const char *format, ...) ESPL_PRINTF(2, 3);
/* "FILE:LINE: error: text\n" and "hint: ...\n"; without a file "espalier: error: text\n". */
void espl__diag_print(FILE *, const struct espl__diag *);
/* From a plugin's error (text and hint), prefixed by `who` ("algorithm 'sha'"). */
espl_status espl__diag_plugin(struct espl__diag *, const char *who, espl_status,
    const struct espl_error *);
/* From what a plugin said when it was done: a second line is the hint. */
espl_status espl__diag_said(struct espl__diag *, espl_status, const char *file, uint32_t line,
    const char *who, const char *text);

/* What each returns is known to the compiler to be its argument, or a failure: after
 * `return espl__fail(...)` it does not take a caller's result for possibly unset. */
#define espl__fail(diag_, status_, ...) \
	__extension__({ \
		espl_status espl__failed = (status_); \
		(espl__fail)((diag_), espl__failed, __VA_ARGS__); \
		espl__failed; \
	})
#define espl__fail_at(diag_, status_, file_, line_, ...) \
	__extension__({ \
		espl_status espl__failed = (status_); \
		(espl__fail_at)((diag_), espl__failed, (file_), (line_), __VA_ARGS__); \
		espl__failed; \
	})
#define espl__fail_errno(diag_, ...) \
	__extension__({ \
		espl_status espl__failed = (espl__fail_errno)((diag_), __VA_ARGS__); \
		if (espl__failed == ESPL_OK) \
			__builtin_unreachable(); \
		espl__failed; \
	})
#endif
