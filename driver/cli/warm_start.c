/* warm_start.c - reading earlier runs: the data of a warm start (a run directory or a CSV of
 * curves), and the curves of a run directory that a simulation replays. */
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/inputs.h"
#include "input/input.h"
#include "model/earlier.h"
#include "report/results_read.h"

#define WARM_MAX ((size_t)1 << 30)

/* All that is wrong there is the user's to mend, at the line that names it. */
static espl_status
blame_source(const struct espl__node *from, const char *what, const char *path,
    const struct espl__diag *why, struct espl__diag *diag)
{
	if (why->file[0] != '\0' && why->line != 0)
		espl__fail_at(diag, ESPL_E_CONFIG, why->file, why->line, "%s", why->text);
	else if (strstr(why->text, path) != NULL)
		espl__fail_at(diag, ESPL_E_CONFIG, from->file, from->line, "%s: %s", what,
		    why->text);
	else
		espl__fail_at(diag, ESPL_E_CONFIG, from->file, from->line, "%s: '%s': %s", what,
		    path, why->text);
	if (why->hint[0] != '\0')
		espl__hint(diag, "%s", why->hint);
	return ESPL_E_CONFIG;
}

espl_status
espl__inputs_warm(struct espl__inputs *s, struct espl__diag *diag)
{
	const struct espl__run_config *c = s->config;
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 };
	struct stat st;
	espl_status status;

	if (c->warm_from == NULL || s->space == NULL)
		return ESPL_OK;
	if (stat(c->warm_from, &st) == 0 && S_ISDIR(st.st_mode))
		status = espl__recorded_curves(c->warm_from, c->metric, &text, &why);
	else
		status = espl__file_read(c->warm_from, WARM_MAX, &text, &why);
	if (status == ESPL_OK)
		status = espl__earlier_parse(c->warm_from, &text, s->space, c->metric, c->maximize,
		    &s->earlier, &why);
	espl__buf_free(&text);
	return status == ESPL_OK
	    ? ESPL_OK
	    : blame_source(c->warm_node, "experiment.warm_start", c->warm_from, &why, diag);
}

espl_status
espl__inputs_curves(struct espl__inputs *s, struct espl__diag *diag)
{
	struct espl__trial_config *trial = &s->config->trial;
	const struct espl__node *asked = s->config->resource == NULL
	    ? espl__node_get(s->config->algorithm.group, "iterations_max")
	    : NULL;
	struct espl__diag why = ESPL__DIAG_INIT;
	struct espl__buf text = { NULL, 0, 0 }, cut = { NULL, 0, 0 };
	struct stat st;
	espl_status status;

	if (trial->curves == NULL || s->config->pool || s->space == NULL ||
	    stat(trial->curves, &st) != 0 || !S_ISDIR(st.st_mode))
		return ESPL_OK;
	status = espl__recorded_replay(trial->curves, s->config->metric, s->profile,
	    asked != NULL && asked->type == ESPL__INT ? asked->i : INT64_MAX, &text, &cut, &why);
	if (status == ESPL_OK)
		trial->curves_text = espl__strdup(espl__buf_text(&text));
	if (status == ESPL_OK && cut.size > 0)
		trial->curves_cut = espl__strdup(espl__buf_text(&cut));
	espl__buf_free(&text);
	espl__buf_free(&cut);
	return status == ESPL_OK
	    ? ESPL_OK
	    : blame_source(espl__node_get(espl__node_get(espl__tree_root(s->config->tree), "trial"),
			       "curves"),
		  "trial.curves", trial->curves, &why, diag);
}

/* How many of its configurations will be tried first: the best ones, except those in `first`. */
static uint32_t
tried_first(const struct espl__inputs *s)
{
	uint32_t count = 0;

	while (count < s->config->warm_best && espl__earlier_best(s->earlier, count) != NULL)
		count++;
	return count;
}

void
espl__inputs_warm_report(const struct espl__inputs *s, int all)
{
	const char *why;
	uint32_t configs, skipped;
	uint64_t seen;
	char first[64];

	if (s->config->trial.curves_cut != NULL)
		espl__log(ESPL_WARN, "%s", s->config->trial.curves_cut);
	for (uint32_t i = 0; i < s->entry_count; i++)
		if (s->entries[i].config->trial.curves_cut != NULL)
			espl__log(ESPL_WARN, "experiment '%s': %s", s->entries[i].config->name,
			    s->entries[i].config->trial.curves_cut);
	if (s->earlier == NULL)
		return;
	skipped = espl__earlier_skipped(s->earlier, &why);
	configs = espl__earlier_configs(s->earlier) - skipped;
	seen = espl__earlier_count(s->earlier);
	if (all) {
		uint32_t best = tried_first(s);

		(void)snprintf(first, sizeof first, "; its %u best are tried first", best);
		espl__log(ESPL_INFO,
		    "warm start: %llu observation%s of %u configuration%s taken from '%s'%s",
		    (unsigned long long)seen, seen == 1 ? "" : "s", configs,
		    configs == 1 ? "" : "s", s->config->warm_from,
		    best == 0       ? ""
			: best == 1 ? "; its best one is tried first"
				    : first);
	}
	if (skipped > 0)
		espl__log(ESPL_WARN,
		    "warm start: %u of the %u configurations in '%s' do not fit the space and are "
		    "ignored; the first: %s",
		    skipped, configs + skipped, s->config->warm_from, why);
}
