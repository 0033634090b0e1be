/* profile_cache.c - profiles that were measured on this machine, by trial and hardware: where they
 * are kept, and how `trial.profile = "auto"` finds one.
 *
 * A kept profile takes the place of "auto", which is the default, before anything begins, as if the
 * user had named the file: a run copies it into its directory, and resuming looks nothing up.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/profile.h"
#include "input/input.h"
#include "report/totals.h"

espl_status
espl__profile_place(const struct espl__subject *subject, char **path, struct espl__diag *diag)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *inner = "";
	const unsigned long long digest = subject->digest;

	*path = NULL;
	/* By the XDG specification a relative one counts as none. */
	if (cache == NULL || cache[0] != '/') {
		cache = home;
		inner = "/.cache";
	}
	if (cache == NULL || cache[0] != '/') {
		(void)espl__fail(diag, ESPL_E_CONFIG,
		    "cannot store the profile: neither XDG_CACHE_HOME nor HOME is set");
		espl__hint(diag, "choose a file with -o PROFILE.json");
		return ESPL_E_CONFIG;
	}
	*path = espl__format("%s%s/espalier/profiles/%016llx.json", cache, inner, digest);
	return ESPL_OK;
}

/* The kept profile of the trial of these inputs, if there is one that can be read; free() it. */
static char *
look_up(const struct espl__inputs *s, struct stat *st)
{
	struct espl__subject subject;
	struct espl__profile *profile = NULL;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__node node = { .type = ESPL__STRING };
	char *path = NULL;

	/* Errors in the cloud or the space are reported where these are used. */
	if (espl__subject_find(s, &subject, NULL) != ESPL_OK)
		return NULL;
	if (espl__profile_place(&subject, &path, NULL) == ESPL_OK && stat(path, st) != 0) {
		free(path);
		path = NULL;
	}
	espl__subject_free(&subject);
	if (path == NULL)
		return NULL;
	node.text = path;
	if (espl__profile_load(&node, NULL, &profile, &diag) != ESPL_OK) {
		espl__log(ESPL_WARN,
		    "cannot use the stored profile '%s': %s; continuing without a profile", path,
		    diag.text);
		free(path);
		return NULL;
	}
	espl__profile_free(profile);
	return path;
}

static int
is_profile_wanted(const struct espl__inputs *s)
{
	const struct espl__node *node = s->config->trial.profile;

	return !s->config->pool &&
	    (node == NULL || (node->type == ESPL__STRING && strcmp(node->text, "auto") == 0)) &&
	    (s->config->trial.trainable != NULL || s->config->trial.command != NULL ||
		s->config->trial.curves != NULL);
}

/* Curves of the command line take the place of the file's program, but it is the program that was
 * measured. *program: there is one. */
static char *
look_up_replayed(const char *path, const char *const *sets, uint32_t set_count, struct stat *st,
    int *program)
{
	const char **all = espl__realloc(NULL, set_count + (size_t)1, sizeof *all);
	struct espl__inputs s;
	char *profile = NULL;

	for (uint32_t i = 0; i < set_count; i++)
		all[i] = sets[i];
	all[set_count] = ESPL__RUN_WITHOUT "trial.curves";
	*program =
	    espl__inputs_load(path, all, set_count + 1, ESPL__NEED_TRIAL, &s, NULL) == ESPL_OK;
	if (*program) {
		profile = look_up(&s, st);
		espl__inputs_free(&s);
	}
	free(all);
	return profile;
}

/* What a simulation without a profile gets wrong. */
static void
report_none(const struct espl__inputs *s, const char *path, int tell, int program)
{
	if (s->config->trial.curves == NULL) {
		if (tell && s->config->trial.profile != NULL)
			espl__log(ESPL_INFO,
			    "no stored profile matches this trial (trial.profile); a simulation "
			    "assumes one second per iteration on any number of GPUs. "
			    "Measure a profile with `espalier profile %s`",
			    path);
	} else if (program) {
		espl__log(ESPL_WARN,
		    "no stored profile matches this trial, so starts take no time; "
		    "measure one with `espalier profile %s`, "
		    "or name one with --set 'trial.profile=\"FILE\"'",
		    path);
	} else if (s->config->trial.curves_text != NULL) {
		espl__log(ESPL_WARN,
		    "there is no profile for these curves, so starts take no time in this "
		    "simulation; name one with --set 'trial.profile=\"FILE\"'");
	}
}

/* The same configuration with the file in the place of "auto". */
static espl_status
load_with(const char *profile, const char *path, const char *const *sets, uint32_t set_count,
    enum espl__need need, struct espl__inputs *s, struct espl__diag *diag)
{
	struct espl__buf b = { NULL, 0, 0 };
	const char **all = espl__realloc(NULL, set_count + (size_t)1, sizeof *all);
	espl_status status;

	for (uint32_t i = 0; i < set_count; i++)
		all[i] = sets[i];
	espl__print(&b, "trial.profile=");
	espl__print_quoted(&b, profile);
	all[set_count] = espl__buf_text(&b);
	espl__inputs_free(s);
	status = espl__inputs_load(path, all, set_count + 1, need, s, diag);
	espl__buf_free(&b);
	free(all);
	return status;
}

espl_status
espl__inputs_load_auto(const char *path, const char *const *sets, uint32_t set_count,
    enum espl__need need, int tell, struct espl__inputs *s, struct espl__diag *diag)
{
	espl_status status = espl__inputs_load(path, sets, set_count, need, s, diag);
	struct stat st;
	char *profile, age[32];
	int program = 1;

	if (status != ESPL_OK || !is_profile_wanted(s))
		return status;
	profile = s->config->trial.curves == NULL
	    ? look_up(s, &st)
	    : look_up_replayed(path, sets, set_count, &st, &program);
	if (profile == NULL) {
		/* `plan` cannot do without, and says so itself. */
		if (need == ESPL__NEED_TRIAL)
			report_none(s, path, tell, program);
		return ESPL_OK;
	}
	status = load_with(profile, path, sets, set_count, need, s, diag);
	if (status == ESPL_OK && tell)
		espl__log(ESPL_INFO, "using the trial's profile %s, measured %s ago", profile,
		    espl__format_seconds(difftime(time(NULL), st.st_mtime), age));
	free(profile);
	return status;
}
