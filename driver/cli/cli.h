/* cli.h - what the commands share: arguments, messages, exit status. */
#ifndef ESPL__CLI_H
#define ESPL__CLI_H
#include <stdint.h>
#include <stdio.h>
#include "base/buf.h"
#include "base/diag.h"

/* docs/cli.md */
enum espl__exit {
	ESPL__EXIT_DONE = 0,
	ESPL__EXIT_FAILED = 1, /* the run failed */
	ESPL__EXIT_USAGE = 2,  /* usage or configuration error */
	ESPL__EXIT_INFEASIBLE = 3,
	ESPL__EXIT_INTERRUPTED = 4 /* can be resumed */
};

struct espl__flag {
	const char *name;  /* without dashes */
	char letter;       /* 0: none */
	const char *value; /* "DIR"; NULL: takes none */
	const char *help;
};

#define ESPL__POSITIONAL_MAX 1024u
struct espl__args;
struct espl__verb {
	const char *name;
	const char *usage;              /* what follows the name */
	const char *summary;            /* one line, no full stop */
	const char *text;               /* paragraphs for `help VERB` */
	const struct espl__flag *flags; /* ended by a NULL name; NULL: none */
	uint32_t least, most;           /* positional arguments */
	int (*run)(const struct espl__args *);
};
struct espl__given {
	const struct espl__flag *flag;
	const char *value;
};
struct espl__args {
	const struct espl__verb *verb;
	const char *positional[ESPL__POSITIONAL_MAX];
	uint32_t count;
	struct espl__given *given;
	uint32_t given_count, given_cap;
	int help;          /* --help was asked for */
	char *plugin_path; /* of -P, also before the verb, ':'-separated; NULL none */
};

extern const struct espl__flag espl__flags_common[]; /* of every verb, ended by a NULL name */
/* args.c.  Understands --name VALUE, --name=VALUE, -l VALUE, flags after positionals, --. */
espl_status espl__args_parse(const struct espl__verb *, int argc, const char *const *argv,
    struct espl__args *, struct espl__diag *);
void espl__args_free(struct espl__args *);
/* The last value given, or NULL; for a flag without a value: "" if it was given. */
const char *espl__arg(const struct espl__args *, const char *name);
/* All values of a repeatable flag, in order; free() the array. */
uint32_t espl__arg_all(const struct espl__args *, const char *name, const char ***values);
/* A whole number within limits; `otherwise` where the flag is absent. */
espl_status espl__arg_number(const struct espl__args *, const char *name, int64_t least,
    int64_t most, int64_t otherwise, int64_t *, struct espl__diag *);

/* main.c: the verbs, ended by a NULL name. */
extern const struct espl__verb espl__verbs[];
const struct espl__verb *espl__verb_find(const char *name);
int espl__main(int argc, char **argv);
/* A program of one command, `espalier-NAME`, which `espalier NAME` finds. */
int espl__main_one(const struct espl__verb *, int argc, char **argv);

/* Prints the failure to standard error and gives the exit status that belongs to it. */
int espl__cli_fail(const struct espl__diag *);
/* The same for a command line that makes no sense; names `espalier help VERB`. */
int espl__cli_usage(const struct espl__args *, const char *format, ...) ESPL_PRINTF(2, 3);
int espl__cli_exit(espl_status);
/* output.c.  Hands text to standard output; 0, or 1 with a message when it cannot be written. */
int espl__cli_print(struct espl__buf *);
/* Lets `fill` write `out` under another name and renames it, so that OUT is never incomplete.
 * A device, a pipe or a symbolic link is written in place.  out NULL: standard output. */
espl_status espl__cli_write(const char *out,
    espl_status (*fill)(void *ctx, FILE *, struct espl__diag *), void *ctx, struct espl__diag *);
/* The same for a file in a run directory: whatever is there is replaced, and no link followed. */
espl_status espl__cli_write_new(const char *out,
    espl_status (*fill)(void *ctx, FILE *, struct espl__diag *), void *ctx, struct espl__diag *);
espl_status espl__cli_write_text(const char *out, struct espl__buf *, struct espl__diag *);
/* The command that resumes the run in `dir`, with this command's -P: "espalier resume r9 -P
 * mine", to be pasted into a shell.  Malloc'd. */
char *espl__cli_resume(const struct espl__args *, const char *dir);
struct espl__drive;
/* --trials of resume and ask, if it was given. */
espl_status espl__cli_trials(const struct espl__args *, struct espl__drive *, struct espl__diag *);

/* verb_help.c */
void espl__help_verb(const struct espl__verb *, struct espl__buf *);
void espl__help_overview(struct espl__buf *);
void espl__help_flag(const struct espl__flag *, char to[64]); /* "-s, --set PATH=VALUE" */
/* help_pages.c: the manual page of the program. */
/* Options and commands with this name (whole), or whose name or help has this word in it, each with
 * its help.  Returns how many. */
uint32_t espl__help_find(const char *word, int whole, struct espl__buf *);
void espl__help_man_page(struct espl__buf *);
/* completion.c: what completes the command line in a shell: bash, zsh or fish. */
espl_status espl__help_completion(const char *shell, struct espl__buf *, struct espl__diag *);

int espl__verb_run(const struct espl__args *);
int espl__verb_ask(const struct espl__args *);
int espl__verb_resume(const struct espl__args *);
int espl__verb_plan(const struct espl__args *);
int espl__verb_simulate(const struct espl__args *);
int espl__verb_profile(const struct espl__args *);
int espl__verb_status(const struct espl__args *);
int espl__verb_submit(const struct espl__args *);
int espl__verb_cancel(const struct espl__args *);
int espl__verb_queue(const struct espl__args *);
int espl__verb_forecast(const struct espl__args *);
int espl__verb_best(const struct espl__args *);
int espl__verb_explain(const struct espl__args *);
int espl__verb_export(const struct espl__args *);
int espl__verb_report(const struct espl__args *);
int espl__verb_serve(const struct espl__args *);
int espl__verb_stop(const struct espl__args *);
int espl__verb_check(const struct espl__args *);
int espl__verb_plugins(const struct espl__args *);
int espl__verb_check_plugin(const struct espl__args *);
int espl__verb_help(const struct espl__args *);
int espl__verb_init(const struct espl__args *);
int espl__verb_nodes(const struct espl__args *);
int espl__verb_drain(const struct espl__args *);
int espl__verb_trial(const struct espl__args *);
int espl__verb_undrain(const struct espl__args *);
int espl__verb_list(const struct espl__args *);

/* ---- interrupt.c ----------------------------------------------------------------------------- */

/* Ctrl-C and similar signals, for the verbs that run something. */

/* How often the user asked to stop: 1 cleanly, 2 at once.  Never more. */
extern volatile int espl__interrupts;
/* From here on SIGINT, SIGTERM and SIGHUP are counted and end nothing by themselves; signals that
 * the parent process ignores stay ignored. */
void espl__interrupt_catch(void);
#endif
