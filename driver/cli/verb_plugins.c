/* verb_plugins.c - plugins, check-plugin, check: lists and tests what is installed or configured.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/file.h"
#include "base/fill.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/profile.h"
#include "cli/inputs.h"
#include "exec/executor.h"
#include "model/jobs.h"
#include "check/check.h"
#include "plugin/registry.h"
#include "real/try_cloud.h"

#include <espalier/model.h>

struct list {
	struct espl__buf *b;
	int json;
	uint32_t count;
	espl_kind kind;
};

static void
option_json(const struct espl_option *o, struct espl__buf *b)
{
	static const char *const types[] = { "?", "boolean", "integer", "real", "string", "choice",
		"span", "bytes", "money", "path", "latency", "table" };
	const char *type = types[o->type < sizeof types / sizeof types[0] ? o->type : 0];

	espl__json_open(b, NULL, '{');
	espl__json_text(b, "name", o->name);
	espl__json_text(b, "type", type);
	espl__json_text(b, "default", o->fallback);
	espl__json_text(b, "min", o->min);
	espl__json_text(b, "max", o->max);
	espl__json_text(b, "help", o->help);
	if (o->choices != NULL)
		espl__json_text(b, "choices", o->choices);
	espl__json_bool(b, "required", (o->flags & ESPL_OPT_REQUIRED) != 0);
	espl__print(b, "}");
}

static void
plugin_json(const struct espl__plugin *plugin, struct espl__buf *b)
{
	const struct espl_plugin *d = plugin->desc;
	uint32_t i;

	espl__json_open(b, NULL, '{');
	espl__json_text(b, "kind", espl__kind_name(d->kind));
	espl__json_text(b, "name", d->name);
	espl__json_text(b, "version", d->version);
	espl__json_text(b, "summary", d->summary);
	espl__print(b, ", \"abi\": \"%u.%u\"", d->abi >> 16, d->abi & 0xffff);
	espl__json_text(b, "path", plugin->path);
	espl__json_open(b, "options", '[');
	for (i = 0; i < d->option_count; i++)
		option_json(espl__option_at(d->options, d->option_size, i), b);
	espl__print(b, "]}");
}

static void
list_plugin(void *ctx, const struct espl__plugin *plugin)
{
	struct list *l = ctx;

	if (l->json)
		plugin_json(plugin, l->b);
	else
		espl__print(l->b, "%-11s %-20s %-9s %s\n", espl__kind_name(plugin->desc->kind),
		    plugin->desc->name, plugin->desc->version, plugin->desc->summary);
	l->count++;
}

static void
warn_broken(void *ctx, const char *path, const struct espl__diag *diag)
{
	(void)ctx;
	fprintf(stderr, "espalier: warning: skipping plugin %s: %s\n", path, diag->text);
}

int
espl__verb_plugins(const struct espl__args *args)
{
	struct espl__buf b = { NULL, 0, 0 };
	struct list l = { &b, espl__arg(args, "json") != NULL, 0, 0 };
	int status;

	espl__print(&b, l.json ? "[" : "%-11s %-20s %-9s %s\n", "KIND", "NAME", "VERSION",
	    "SUMMARY");
	espl__plugins_each(list_plugin, warn_broken, &l);
	if (l.json)
		espl__print(&b, "]\n");
	status = espl__cli_print(&b);
	espl__buf_free(&b);
	return status;
}

/* The report, line by line: to standard error if there is an error in it. */
static int
report_check(const char *file, FILE *report, int bad)
{
	struct espl__buf b = { NULL, 0, 0 };
	char *line = NULL;
	size_t room = 0;
	int result = ESPL__EXIT_USAGE;

	rewind(report);
	while (getline(&line, &room, report) >= 0) {
		if (strncmp(line, "error ", 6) == 0)
			espl__print(&b, "%s: error: %s", file, line + 6);
		else
			espl__print(&b, "%s", line);
	}
	free(line);
	if (bad)
		fputs(espl__buf_text(&b), stderr);
	else
		result = espl__cli_print(&b);
	espl__buf_free(&b);
	return result;
}

/* glibc keeps pieces that were freed in a cache for each thread, and counts them as used: by its
 * figures a plugin may seem to leak.  Without the cache they are exact; it can only be turned off
 * before a program starts. */
static void
restart_without_cache(void)
{
	static const char off[] = "glibc.malloc.tcache_count=0";
	const char *set = getenv("GLIBC_TUNABLES");
	struct espl__buf line = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *tunables, **argv;
	size_t count = 0, at = 0;

	if (set != NULL && strstr(set, "glibc.malloc.tcache_count=") != NULL)
		return;
	if (espl__file_read("/proc/self/cmdline", (size_t)1 << 22, &line, &diag) == ESPL_OK &&
	    line.size > 0) {
		tunables =
		    espl__format("%s%s%s", set != NULL ? set : "", set != NULL ? ":" : "", off);
		argv = espl__alloc((line.size + 1) * sizeof *argv);
		while (at < line.size) {
			argv[count++] = (char *)line.data + at;
			at += strlen(argv[count - 1]) + 1;
		}
		if (setenv("GLIBC_TUNABLES", tunables, 1) == 0)
			(void)execv("/proc/self/exe", argv); /* else it is tried as it is */
		free(argv);
		free(tunables);
	}
	espl__buf_free(&line);
}

int
espl__verb_check_plugin(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	FILE *report;
	int result;

	restart_without_cache();
	report = tmpfile(); /* written by the process that tries the plugin */
	if (report == NULL) {
		(void)espl__fail_errno(&diag, "cannot create a temporary file");
		return espl__cli_fail(&diag);
	}
	result = report_check(args->positional[0], report,
	    espl__check_plugin(args->positional[0], report));
	(void)fclose(report);
	return result;
}

/* ---- check ----------------------------------------------------------------------------------- */

static void
print_experiment(const struct espl__run_config *c, struct espl__buf *b)
{
	char text[32];

	espl__print(b, "  experiment  %s: %s %s", c->name, c->maximize ? "maximize" : "minimize",
	    c->metric);
	if (c->deadline != ESPL_NEVER)
		espl__print(b, ", deadline %s", espl__format_span(c->deadline, text));
	if (c->budget != INT64_MAX)
		espl__print(b, ", budget $%s", espl__format_money(c->budget, text));
	if (c->has_target)
		espl__print(b, ", target %s", espl__format_value(c->target, text));
	if (c->no_better > 0)
		espl__print(b, ", patience %llu trial%s", (unsigned long long)c->no_better,
		    c->no_better == 1 ? "" : "s");
	if (c->seeds > 1)
		espl__print(b, ", %u trials of each configuration", c->seeds);
	if (c->confirm > 0)
		espl__print(b, ", the best confirmed by %u trainings", c->confirm);
	espl__print(b, "\n");
}

static void
print_trial(const struct espl__inputs *s, int on_cpu, struct espl__buf *b)
{
	const struct espl__trial_config *t = &s->config->trial;
	uint32_t i;

	espl__print(b, "  trial       ");
	if (t->trainable != NULL)
		espl__print(b, "trainable %s", t->trainable);
	else if (t->curves != NULL)
		espl__print(b, "recorded curves");
	else if (t->command_count == 0)
		espl__print(b, "no program to run");
	for (i = 0; i < t->command_count; i++)
		espl__print(b, "%s%s", i > 0 ? " " : "", t->command[i]);
	if (t->gpus_max == t->gpus_min)
		espl__print(b, ", %u %s", t->gpus_min, espl__slots_word(on_cpu, t->gpus_min));
	else if (t->gpus_max == ESPL_ANY)
		espl__print(b, ", %u %s or more", t->gpus_min,
		    espl__slots_word(on_cpu, t->gpus_min));
	else
		espl__print(b, ", %u to %u %s", t->gpus_min, t->gpus_max,
		    espl__slots_word(on_cpu, 0));
	if (t->packing_max > 1)
		espl__print(b, ", up to %u per %s if the allocator shares it", t->packing_max,
		    espl__slots_word(on_cpu, 1));
	espl__print(b, "\n  profile     ");
	if (s->profile->guessed)
		espl__print(b,
		    "none; assuming 1 s per iteration and no speedup from more %s (predictions are "
		    "guesses)\n",
		    espl__slots_word(on_cpu, 0));
	else
		espl__print(b, "%.6g s per iteration on one %s, throughput known up to %.6g %s\n",
		    espl__latency_mean(&s->profile->iteration), espl__slots_word(on_cpu, 1),
		    s->profile->scaling[s->profile->scaling_count - 1].x,
		    espl__slots_word(on_cpu, 0));
}

/* A program that knows nothing of ranks is trained by each of them in full. */
static void
print_ranks(const struct espl__run_config *c, uint64_t slots, int on_cpu, struct espl__buf *b)
{
	const char *one = espl__slots_word(on_cpu, 1);

	if (c->trial.command_count > 0 && c->trial.gpus_max == ESPL_ANY && slots > 1 &&
	    c->gpus_limit > 1)
		espl__print(b,
		    "  gpus_max    not set: a trial on N %s runs as N processes (ranks); set "
		    "trial.gpus_max = 1\n"
		    "              if the program can use only one %s\n",
		    espl__slots_word(on_cpu, 0), one);
}

/* Is there such a file where a trial would look for it? */
static int
is_file_there(const struct espl__trial_config *t, const char *name, int mode)
{
	char *file =
	    name[0] == '/' ? espl__strdup(name) : espl__format("%s/%s", t->directory, name);
	int found = access(file, mode) == 0;

	free(file);
	return found;
}

/* The argument that is a script: by its ending, or the first one of an interpreter. */
static const char *
script_of(const struct espl__trial_config *t)
{
	static const char *const endings[] = { ".py", ".sh", ".R", ".jl", ".pl", ".rb", ".js",
		".lua" };
	static const char *const interpreters[] = { "python", "sh", "bash", "dash", "zsh", "ksh",
		"Rscript", "julia", "perl", "ruby", "node", "lua", "luajit" };
	const char *base = strrchr(t->command[0], '/'), *ending;
	uint32_t i;
	size_t k, length;

	for (i = 1; i < t->command_count; i++) {
		ending = strrchr(t->command[i], '.');
		for (k = 0; ending != NULL && k < sizeof endings / sizeof endings[0]; k++) {
			if (t->command[i][0] != '-' && strcmp(ending, endings[k]) == 0)
				return t->command[i];
		}
	}
	base = base != NULL ? base + 1 : t->command[0];
	length = strcspn(base, "0123456789."); /* python3.12 */
	for (k = 0; t->command_count > 1 && k < sizeof interpreters / sizeof interpreters[0]; k++) {
		if (strlen(interpreters[k]) == length &&
		    strncmp(base, interpreters[k], length) == 0 && t->command[1][0] != '-')
			return t->command[1];
	}
	return NULL;
}

/* Not an error: commands run on nodes, and this machine need not be one. */
static void
warn_of_command(const struct espl__trial_config *t)
{
	const char *path = getenv("PATH"), *end, *script;
	char *file = NULL;
	int found = 0;

	if (t->command_count == 0)
		return;
	if (espl__fill_any(t->command[0]))
		found = 1; /* which one is decided for each trial */
	else if (strchr(t->command[0], '/') != NULL)
		found = is_file_there(t, t->command[0], X_OK);
	for (; !found && path != NULL && strchr(t->command[0], '/') == NULL; path = end) {
		end = strchr(path, ':');
		file = espl__format("%.*s/%s", (int)(end != NULL ? end - path : (long)strlen(path)),
		    path, t->command[0]);
		found = access(file, X_OK) == 0;
		free(file);
		end = end != NULL ? end + 1 : NULL;
	}
	if (!found)
		fprintf(stderr, "espalier: warning: program '%s' %s on this machine%s\n",
		    t->command[0],
		    strchr(t->command[0], '/') != NULL && is_file_there(t, t->command[0], F_OK)
			? "is not executable"
			: "not found",
		    strchr(t->command[0], ' ') != NULL
			? "; write each word of trial.command as a separate element"
			: "");
	script = script_of(t);
	if (script != NULL && !espl__fill_any(script) && !is_file_there(t, script, R_OK))
		fprintf(stderr,
		    "espalier: warning: script '%s' of trial.command not found in '%s'\n", script,
		    t->directory);
}

static void
print_space(const struct espl__inputs *s, struct espl__buf *b)
{
	const struct espl_space *space = espl__space_view(s->space);
	double share = espl__space_allowed_share(s->space);
	uint32_t i;

	espl__print(b, "  space       ");
	for (i = 0; i < space->param_count; i++)
		espl__print(b, "%s%s%s", i > 0 ? ", " : "", space->params[i]->name,
		    space->params[i]->when_count > 0 ? " (conditional)" : "");
	if (space->param_count == 0)
		espl__print(b, "constants only");
	if (share < 1)
		espl__print(b, "; forbidden combinations leave about %.2g %% of it", share * 100);
	espl__print(b, "\n");
}

static void
print_spec(const struct espl__inputs *s, struct espl__buf *b)
{
	struct espl__arena arena = { NULL };
	const struct espl_spec *spec = espl__inputs_spec(s, &arena);
	uint32_t i, k;

	espl__print(b, "  algorithm   %s\n", s->config->algorithm.use);
	for (i = 0; spec != NULL && i < spec->bracket_count; i++) {
		const struct espl_bracket *bracket = spec->brackets[i];

		espl__print(b, "              ");
		if (spec->bracket_count > 1)
			espl__print(b, "bracket %u: ", i);
		for (k = 0; k < bracket->stage_count; k++)
			espl__print(b, "%s%u trial%s x %llu", k > 0 ? ", then " : "",
			    bracket->stages[k]->trials, bracket->stages[k]->trials == 1 ? "" : "s",
			    (unsigned long long)bracket->stages[k]->iterations);
		espl__print(b, " iterations\n");
	}
	espl__arena_free(&arena);
}

#define BUDGET_HOURS 8 /* of all machines, for the budget that is proposed */

struct offers {
	struct espl__buf text;
	uint32_t count, others; /* others: of GPUs, not of slots of CPUs */
	uint64_t slots;         /* that there can ever be */
	/* All machines at once: how many of those that cost something, what they cost per hour; and
	 * whether any of their offers has no limit. */
	uint64_t nodes;
	espl_money hour;
	int unlimited;
};

static void
print_offer(void *ctx, const struct espl_offer *offer)
{
	struct offers *o = ctx;
	struct espl__buf *b = &o->text;
	char text[32];

	espl__print(b, "              %s", offer->name);
	if (offer->market != NULL && offer->market[0] != '\0')
		espl__print(b, " (%s)", offer->market);
	o->others += offer->gpu_type == NULL || strcmp(offer->gpu_type, "cpu") != 0;
	o->slots += (uint64_t)offer->gpus * offer->nodes_max;
	if (offer->price_hour > 0 && offer->nodes_max == ESPL_ANY) {
		o->unlimited = 1;
	} else if (offer->price_hour > 0) {
		o->nodes += offer->nodes_max;
		o->hour += offer->price_hour * (espl_money)offer->nodes_max;
	}
	espl__print(b, ": %u %s, $%s per hour", offer->gpus,
	    espl__slots_word(offer->gpu_type != NULL && strcmp(offer->gpu_type, "cpu") == 0,
		offer->gpus),
	    espl__format_money(offer->price_hour, text));
	if (offer->nodes_max != ESPL_ANY)
		espl__print(b, ", at most %u node%s", offer->nodes_max,
		    offer->nodes_max == 1 ? "" : "s");
	espl__print(b, "\n");
}

/* What the run may cost at worst, and which of budget and deadline bounds it. */
static void
print_worst(const struct espl__run_config *c, const struct offers *o, struct espl__buf *b)
{
	const char *group = c->pool ? "pool" : "experiment";
	char hour[32], text[32], span[32];
	double limit;

	if (o->hour == 0 && !o->unlimited)
		return;
	espl__print(b, "  at worst    ");
	if (o->unlimited)
		espl__print(b, "no limit on machines: set nodes_max");
	else
		espl__print(b, "$%s per hour (%llu machine%s)", espl__format_money(o->hour, hour),
		    (unsigned long long)o->nodes, o->nodes == 1 ? "" : "s");
	if (c->budget != INT64_MAX) {
		espl__print(b, "; the budget ends the run at $%s\n",
		    espl__format_money(c->budget, text));
		return;
	}
	if (c->deadline != ESPL_NEVER && !o->unlimited) {
		limit = (double)o->hour / 1e6 * (double)c->deadline / 3600e9;
		espl__print(b, "; $%.2f by the deadline of %s\n", limit,
		    espl__format_span(c->deadline, span));
		return;
	}
	espl__print(b, "; no budget is set\n");
	if (!o->unlimited)
		espl__print(b,
		    "              %s.budget = %.2f would end the run at what all machines cost in "
		    "%d hours\n",
		    group, (double)o->hour / 1e6 * BUDGET_HOURS, BUDGET_HOURS);
}

/* The experiments of a pool and their arrivals; details of one experiment are printed by `check` of
 * its file. */
static void
print_pool(const struct espl__inputs *s, int on_cpu, struct espl__buf *b)
{
	const struct espl__run_config *c = s->config;
	uint32_t count = s->jobs != NULL ? s->jobs->list.count : 0;
	char span[32];

	espl__print(b, "  pool        %s", c->name);
	if (c->deadline != ESPL_NEVER)
		espl__print(b, ", deadline %s", espl__format_span(c->deadline, span));
	espl__print(b, "\n");
	for (uint32_t i = 0; i < s->entry_count; i++) {
		const struct espl__run_config *e = s->entries[i].config;

		espl__print(b, "  %-11s %u %s: %s %s by %s, arrives at %s\n",
		    i == 0 ? "experiments" : "", i + 1, e->name,
		    e->maximize ? "maximize" : "minimize", e->metric, e->algorithm.use,
		    espl__format_span(c->entries[i].arrives, span));
	}
	if (count == 0)
		return;
	espl__print(b, "  plain jobs  %u, the first arrives at %.6g s, the last at %.6g s\n", count,
	    s->jobs->list.jobs[0].arrives_s, s->jobs->list.jobs[count - 1].arrives_s);
	print_trial(s, on_cpu, b);
}

int
espl__verb_check(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__inputs s;
	struct offers offers = { .count = 0 };
	const char **sets;
	uint32_t count = espl__arg_all(args, "set", &sets);
	int on_cpu;
	espl_status status = espl__inputs_check_all(args->positional[0], sets, count, &s, &diag);
	int result;

	free(sets);
	if (status == ESPL_OK) {
		espl__inputs_warm_report(&s, 1);
		warn_of_command(&s.config->trial);
		espl__inputs_env_report(&s);
		status = espl__inputs_offers(&s, print_offer, &offers, &offers.count, &diag);
	}
	if (status == ESPL_OK) {
		on_cpu = offers.count > 0 && offers.others == 0;
		espl__print(&b, "%s: ok\n", args->positional[0]);
		if (s.config->pool) {
			print_pool(&s, on_cpu, &b);
		} else {
			print_experiment(s.config, &b);
			print_trial(&s, on_cpu, &b);
			espl__check_words(&s, &b);
			print_ranks(s.config, offers.slots, on_cpu, &b);
			print_space(&s, &b);
			print_spec(&s, &b);
		}
		espl__print(&b, "  allocator   %s\n  cloud       %s\n", s.config->allocator.use,
		    s.config->cloud.use);
		espl__put(&b, offers.text.data, offers.text.size);
		print_worst(s.config, &offers, &b);
		espl__print(&b, "  placer      %s\n", s.config->placer.use);
		status = espl__check_output(&s, espl__arg(args, "output"), &b, &diag);
	}
	result = status == ESPL_OK ? espl__cli_print(&b) : espl__cli_fail(&diag);
	if (status == ESPL_OK && result == 0 && espl__try_cloud(s.config, &diag) != ESPL_OK)
		result = espl__cli_fail(&diag);
	espl__inputs_free(&s);
	espl__buf_free(&offers.text);
	espl__buf_free(&b);
	return result;
}
