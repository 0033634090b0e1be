/* run_file.h - a run's configuration file: read, checked, changed by --set, printed. */
#ifndef ESPL__RUN_FILE_H
#define ESPL__RUN_FILE_H
#include "config/run.h"

/* Which sections must be there: those of a search (experiment, space, algorithm); also something
 * that trains; or none, as for one decision of an allocator. */
enum espl__need { ESPL__NEED_SEARCH, ESPL__NEED_TRIAL, ESPL__NEED_NOTHING };
/* sets: --set assignments.  Checks all core groups, unknown top-level names, and that what is
 * needed is there.  Without an experiment its members are as if nothing but a name were given. */
espl_status espl__run_load(const char *path, const char *const *sets, uint32_t set_count,
    enum espl__need, struct espl__run_config **, struct espl__diag *);
/* One assignment of --set; or of `check` alone, without this section, or this value of one:
 * "\001GROUP.NAME". */
#define ESPL__RUN_WITHOUT "\001"
espl_status espl__run_set(struct espl__tree *, const char *text, struct espl__diag *);
void espl__run_say_format(const char *path, struct espl__diag *); /* adds to the hint */
void espl__run_free(struct espl__run_config *);
/* The resolved configuration as a file that loads back to the same run: all paths in it
 * absolute, secrets left out. */
void espl__run_print(const struct espl__run_config *, struct espl__buf *);
/* The same; `map` is called for each input file (trial.curves, a profile's file, warm_start.from,
 * PATH options of plugins; trial.env, with "" for a path; not trial.directory) and returns the path
 * to write in its place (borrowed until the next call; relative: to the folder of the file that is
 * printed), or NULL for `absolute`.  So a run's folder can hold copies of its inputs and be moved.
 */
typedef const char *espl__run_map_fn(void *ctx, const struct espl__node *, const char *absolute);
void espl__run_print_mapped(const struct espl__run_config *, espl__run_map_fn *, void *ctx,
    struct espl__buf *);
/* Path as the user wrote it -> absolute by config->directory.  Malloc'd. */
char *espl__run_path(const struct espl__run_config *, const char *path);
/* The core's groups for help and docs; name NULL at the end of the list.  `members` are those
 * that no option type can express (trial.command); each has a name, a type and help. */
struct espl__core_member {
	const char *name, *type, *help;
};
struct espl__core_group {
	const char *name, *summary;
	const struct espl_option *options;
	uint32_t count, member_count;
	const struct espl__core_member *members;
};
const struct espl__core_group *espl__core_groups(void);
void espl__core_group_help(const struct espl__core_group *, enum espl__help_form,
    struct espl__buf *);
#endif
