/* script.h - what can be seen in the source of a Python script without running it: its options and
 * the lines that it prints.
 *
 * Calls of add_argument (argparse) and of click.option are read, and string literals.  What is not
 * a literal there is left alone, except the types of click that have values or bounds.
 */
#ifndef ESPL__SCRIPT_H
#define ESPL__SCRIPT_H
#include "base/buf.h"
#include "base/diag.h"
#include "base/mem.h"

#define ESPL__SCRIPT_MAX ((size_t)4 << 20) /* bytes of a script */
#define ESPL__SCRIPT_OPTIONS 512u          /* more are left out */

enum espl__literal {
	ESPL__LIT_ABSENT,
	ESPL__LIT_NONE,
	ESPL__LIT_BOOL, /* number: 0 or 1 */
	ESPL__LIT_INT,
	ESPL__LIT_REAL,
	ESPL__LIT_TEXT,
	ESPL__LIT_OTHER /* an expression */
};
struct espl__py_value {
	enum espl__literal kind;
	const char *text; /* of a string; else as it is written */
	double number;
};
struct espl__py_option {
	const char *flag;   /* "--batch-size", or the name of a positional argument */
	const char *name;   /* "batch_size" */
	const char *type;   /* as it is written; "" none */
	const char *action; /* "store_true"; "" none */
	const char *help;   /* one line; "" none */
	const char *group;  /* the subcommand that it belongs to; "" all */
	uint32_t rivals;    /* number of its mutually exclusive group; 0 none */
	struct espl__py_value fallback;
	struct espl__py_value *choices;
	uint32_t choice_count;
	struct espl__py_value low, high; /* of click.FloatRange and IntRange */
	int positional, required;
};
struct espl__py_line { /* a string literal, and what follows it */
	const char *text;
	int comma;  /* print("loss:", loss) */
	int print;  /* in a call of print */
	int to_err; /* it goes to standard error */
};
struct espl__script {
	struct espl__arena arena;
	struct espl__py_option options[ESPL__SCRIPT_OPTIONS];
	uint32_t option_count;
	const char *groups[16]; /* subcommands */
	uint32_t group_count;
	struct espl__py_line *lines;
	uint32_t line_count, line_cap;
	const char *runner; /* words that run it, if it is not executable; NULL none */
	int distributed;    /* it mentions DistributedDataParallel */
	int writes_json;    /* it calls json.dumps() */
	int logs_to_stdout; /* it mentions stdout: so its loggers may print there */
	int reports;        /* it imports espalier_trial or the package espalier */
	int hydra;          /* it calls hydra.main() */
};
/* `text` ends with a NUL. */
void espl__script_read(struct espl__script *, const char *text);
void espl__script_free(struct espl__script *);
#endif
