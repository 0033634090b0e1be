/* verb_profile.c - measures the trial: on more and more GPUs, and shared; ends where the answer is
 * clear, and writes what `trial.profile` reads.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "plugin/registry.h"
#include "report/totals.h"

#define LEAST 3
#define MOST 20
#define LIMIT (10 * INT64_C(60) * ESPL_SECOND)
#define GAIN 1.05 /* what brings less than this is not worth going on for */
#define COLD 1.25 /* a first start this much slower than one from a checkpoint is not typical */
#define SHORT 60  /* seconds: a measurement that may be repeated for that */
#define TRIES 5   /* at a resize: runs in which it may fail to come */

struct profiling {
	const struct espl__args *args;
	struct espl__inputs inputs; /* the user's, with no profile */
	struct espl__subject subject;
	struct espl__profiled all;
	struct espl__measure_ask ask;
	const char **sets;
	char *dir;   /* of all measurements; NULL: not made */
	char *place; /* in the cache; NULL: none */
	int quiet;
};

/* ---- before anything is started ----------------------------------------------------------- */

static espl_status
read_flags(struct profiling *p, struct espl__diag *diag)
{
	const char *limit = espl__arg(p->args, "time-limit");
	int64_t number;
	espl_status status;

	p->quiet = espl__arg(p->args, "quiet") != NULL || espl__arg(p->args, "json") != NULL;
	p->ask.least = LEAST;
	p->ask.most = MOST;
	p->ask.limit = LIMIT;
	status = espl__arg_number(p->args, "iterations", 1, 100000, 0, &number, diag);
	if (status == ESPL_OK && number > 0)
		p->ask.least = p->ask.most = (uint32_t)number;
	if (status != ESPL_OK || limit == NULL)
		return status;
	if (espl__parse_span(limit, &p->ask.limit) < 0) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "--time-limit: '%s' is not a time span",
		    limit);
		espl__hint(diag, "for example --time-limit 20m; 0s means no limit");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

/* Only what runs can be measured. */
static espl_status
check_real(const struct espl__inputs *s, struct espl__diag *diag)
{
	const struct espl__node *trial = espl__node_get(espl__tree_root(s->config->tree), "trial");
	const struct espl__node *use = espl__node_get(s->config->cloud.group, "use");
	const struct espl__plugin *plugin;

	if (s->config->trial.curves != NULL) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, trial->file, trial->line,
		    "cannot profile recorded curves; there is no program to run");
		espl__hint(diag,
		    "write trial.profile by hand, or add a column of seconds to the curves");
		return ESPL_E_CONFIG;
	}
	if (use != NULL &&
	    espl__plugin_find(ESPL_CLOUD, s->config->cloud.use, &plugin, NULL) == ESPL_OK &&
	    (plugin->desc->caps & ESPL_CAP_SIMULATED) != 0) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, use->file, use->line,
		    "cloud '%s' has no machines to measure on", s->config->cloud.use);
		espl__hint(diag,
		    "choose a cloud on which trials can run, for example --set 'cloud={ "
		    "use=\"local\"; }'");
		return ESPL_E_CONFIG;
	}
	return espl__inputs_real(s, diag);
}

/* The configuration without a profile: the file that it names may be the one to be made. */
static espl_status
load_inputs(struct profiling *p, struct espl__diag *diag)
{
	uint32_t count = espl__arg_all(p->args, "set", &p->sets);
	espl_status status;

	p->sets = espl__realloc(p->sets, count + (size_t)1, sizeof *p->sets);
	p->sets[count++] = "trial.profile=\"auto\"";
	status = espl__inputs_load(p->args->positional[0], p->sets, count, ESPL__NEED_TRIAL,
	    &p->inputs, diag);
	if (status == ESPL_OK)
		status = espl__inputs_alone(&p->inputs, diag);
	if (status != ESPL_OK)
		return status;
	p->ask.file = p->args->positional[0];
	p->ask.sets = p->sets;
	p->ask.set_count = count;
	p->ask.subject = &p->subject;
	p->ask.checkpoint = p->inputs.config->trial.checkpoint;
	status = check_real(&p->inputs, diag);
	return status == ESPL_OK ? espl__subject_find(&p->inputs, &p->subject, diag) : status;
}

/* The output file must be writable before time and money are spent. */
static espl_status
find_places(struct profiling *p, struct espl__diag *diag)
{
	const char *out = espl__arg(p->args, "output"), *slash;
	struct espl__diag own = ESPL__DIAG_INIT;
	char *dir;
	espl_status status = ESPL_OK;

	if (out != NULL) {
		slash = strrchr(out, '/');
		dir = slash == NULL ? espl__strdup(".")
				    : espl__format("%.*s", (int)(slash - out) + 1, out);
		if (out[0] == '\0' || access(dir, W_OK | X_OK) != 0)
			status = espl__fail(diag, ESPL_E_CONFIG, "cannot write '%s': %s", out,
			    out[0] == '\0' ? "the file name is empty" : strerror(errno));
		free(dir);
	}
	if (status != ESPL_OK)
		return status;
	status = espl__profile_place(&p->subject, &p->place, &own);
	if (status == ESPL_OK) {
		dir = espl__format("%.*s", (int)(strrchr(p->place, '/') - p->place), p->place);
		status = espl__dir_make(dir, &own);
		if (status == ESPL_OK && access(dir, W_OK | X_OK) != 0)
			status = espl__fail(&own, ESPL_E_CONFIG, "cannot write to '%s': %s", dir,
			    strerror(errno));
		free(dir);
	}
	if (status == ESPL_OK)
		return ESPL_OK;
	free(p->place);
	p->place = NULL;
	if (out != NULL || espl__arg(p->args, "json") != NULL) {
		espl__log(ESPL_WARN, "the profile was not stored for profile = \"auto\": %s",
		    own.text);
		return ESPL_OK;
	}
	(void)espl__fail(diag, ESPL_E_CONFIG, "%s", own.text);
	espl__hint(diag, "choose a file with -o PROFILE.json");
	return ESPL_E_CONFIG;
}

/* Here, where a run directory would be: checkpoints are to be written to the same disk. */
static espl_status
make_dir(struct profiling *p, struct espl__diag *diag)
{
	p->dir = espl__format("%s-profile-XXXXXX", p->inputs.config->name);
	if (mkdtemp(p->dir) != NULL)
		return ESPL_OK;
	(void)espl__fail(diag, ESPL_E_CONFIG,
	    "cannot create a directory for the measurements here: %s", strerror(errno));
	espl__hint(diag,
	    "run the command in a directory that you can write to, on the disk where the runs will "
	    "be");
	free(p->dir);
	p->dir = NULL;
	return ESPL_E_CONFIG;
}

/* ---- measuring ---------------------------------------------------------------------------- */

static void
add_note(struct profiling *p, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	espl__vprint(&p->all.notes, format, list);
	va_end(list);
	espl__print(&p->all.notes, "\n");
}

static void
report_measurement(const struct profiling *p, const struct espl__measurement *m)
{
	char mean[32], sd[32], took[32], where[48], spread[48] = "";

	if (p->quiet)
		return;
	if (m->packing > 1)
		(void)snprintf(where, sizeof where, "%u on a %s", m->packing,
		    espl__slots_word(p->subject.on_cpu, 1));
	else
		(void)snprintf(where, sizeof where, "%u %s", m->gpus,
		    espl__slots_word(p->subject.on_cpu, m->gpus));
	if (m->iteration.count > 1)
		(void)snprintf(spread, sizeof spread, ", sd %s",
		    espl__format_latency(espl__tally_sd(&m->iteration), sd));
	espl__log(ESPL_INFO, "%s: %s per iteration%s (%llu timed, %s)", where,
	    espl__format_latency(m->iteration.mean, mean), spread,
	    (unsigned long long)m->iteration.count, espl__format_seconds(m->elapsed_s, took));
}

/* A measurement has its own trial.gpus_max; the trial is to find what it finds in a search. */
static int
has_torchrun(const struct profiling *p)
{
	const struct espl__run_config *config = p->inputs.config;

	if (config->trial.torchrun >= 0)
		return config->trial.torchrun;
	return espl__run_may_have_ranks(config) &&
	    (config->trial.gpus_max != ESPL_ANY || p->subject.gpus != 1);
}

/* The next element of the list. *end receives its result. */
static espl_status
measure_next(struct profiling *p, uint32_t gpus, uint32_t packing, enum espl__measure_end *end,
    struct espl__measurement *to, struct espl__diag *diag)
{
	espl_money budget = p->inputs.config->budget;
	char *dir = espl__format("%s/%u-%u", p->dir, gpus, packing);
	espl_status status;

	p->ask.dir = dir;
	p->ask.gpus = gpus;
	p->ask.packing = packing;
	p->ask.torchrun = has_torchrun(p);
	p->ask.iteration_s = packing > 1 ? p->all.list[0].iteration.mean : 0;
	p->ask.budget = budget == INT64_MAX ? budget : budget - p->all.cost;
	if (budget != INT64_MAX && p->ask.budget <= 0) {
		*end = ESPL__MEASURE_BROKE;
		status = espl__fail(diag, ESPL_E_REMOTE, "the budget is used up");
	} else {
		status = espl__measure(&p->ask, to, diag);
		*end = to->end;
		p->all.cost += to->cost;
		p->all.gpu_s += to->gpu_s;
		p->all.elapsed_s += to->elapsed_s;
	}
	free(dir);
	if (*end != ESPL__MEASURED || p->ask.resize != ESPL__RESIZE_NONE)
		return status;
	ESPL__GROW(p->all.list, p->all.cap, p->all.wides + p->all.packs + 1);
	p->all.list[p->all.wides + p->all.packs] = *to;
	report_measurement(p, to);
	return ESPL_OK;
}

/* The most GPUs that a trial may be measured on. */
static uint32_t
widest_gpus(struct profiling *p)
{
	const struct espl__run_config *c = p->inputs.config;
	const struct espl__subject *s = &p->subject;
	uint32_t most = c->trial.gpus_max < c->gpus_limit ? c->trial.gpus_max : c->gpus_limit;
	uint32_t node = s->gpus > c->trial.gpus_min ? s->gpus : c->trial.gpus_min;

	if (c->trial.gpus_max == ESPL_ANY && node > 0 && node < most) {
		add_note(p, "trial.gpus_max is not set; measured up to %u", node);
		return node; /* as a run does, a trial stays on one machine */
	}
	if (s->gpus > 0 && s->nodes_max != ESPL_ANY && (uint64_t)s->gpus * s->nodes_max < most)
		most = s->gpus * s->nodes_max;
	return most;
}

/* The largest number up to `gpus` on which a trial can be placed. */
static uint32_t
placeable_gpus(const struct profiling *p, uint32_t gpus)
{
	uint32_t node = p->subject.gpus;

	return p->inputs.config->trial.colocate && node > 0 && gpus > node ? gpus - gpus % node
									   : gpus;
}

/* Its last line is a part of the failure's text already. */
static void
show_log(const struct espl__measurement *m)
{
	struct espl__buf clean = { NULL, 0, 0 };
	const char *at = m->log;

	if (strchr(at, '\n') == NULL)
		return;
	espl__log(ESPL_INFO, "what the trial printed last:");
	for (size_t length; *at != '\0'; at += length + (at[length] != '\0')) {
		char *line = espl__format("%.*s", (int)(length = strcspn(at, "\n")), at);

		espl__print(&clean, "  ");
		espl__print_clean(&clean, line);
		espl__print(&clean, "\n");
		free(line);
	}
	(void)fwrite(clean.data, 1, clean.size, stderr);
	espl__buf_free(&clean);
}

/* The first start on a machine reads programs and data from disk: no later one is as slow. */
static int
is_cold(const struct espl__measurement *m, const struct espl__tally *later)
{
	return m->begin.count > 0 && later->count > 0 && m->begin.mean > COLD * later->mean &&
	    m->begin.mean - later->mean > 0.1 && m->elapsed_s < SHORT;
}

/* The list's first element stays if it cannot be measured again. */
static espl_status
measure_warm(struct profiling *p, uint32_t gpus, double later_s, struct espl__measurement *m,
    struct espl__diag *diag)
{
	struct espl__measurement warm;
	enum espl__measure_end end;
	espl_status status;

	espl__log(ESPL_INFO,
	    "the first start took %.2f s, a later one %.2f s; measuring again, now that the "
	    "trial's files are in memory",
	    m->begin.mean, later_s);
	status = measure_next(p, gpus, 1, &end, &warm, diag);
	if (end == ESPL__MEASURED)
		*m = warm;
	else if (end != ESPL__MEASURE_STOPPED) {
		*diag = (struct espl__diag)ESPL__DIAG_INIT;
		return ESPL_OK;
	}
	return status;
}

static espl_status
measure_wide(struct profiling *p, struct espl__diag *diag)
{
	uint32_t least = p->inputs.config->trial.gpus_min, most = widest_gpus(p),
		 node = p->subject.gpus;
	uint32_t next, gpus = least;
	enum espl__measure_end end;
	struct espl__measurement m;

	if (placeable_gpus(p, gpus) != gpus)
		gpus += node - gpus % node; /* whole nodes it must be */
	if (gpus > 1)
		add_note(p,
		    "a trial needs %u GPUs; the profile assumes that one GPU would be %u times "
		    "slower",
		    gpus, gpus);
	for (;;) {
		espl_status status = measure_next(p, gpus, 1, &end, &m, diag);
		uint32_t before = p->all.wides > 0 ? p->all.list[p->all.wides - 1].gpus : 0;

		if ((end == ESPL__MEASURE_BROKE || end == ESPL__MEASURE_LATE) && p->all.wides > 0) {
			add_note(p, "%u %s: %s", gpus, espl__slots_word(p->subject.on_cpu, gpus),
			    diag->text);
			*diag = (struct espl__diag)ESPL__DIAG_INIT;
			return ESPL_OK;
		}
		if (end == ESPL__MEASURE_FAILED && p->all.wides > 0)
			espl__hint(diag,
			    "it ran on %u; set trial.gpus_max = %u to stay below the failure",
			    before, before);
		if (end == ESPL__MEASURE_FAILED)
			show_log(&m);
		if (status == ESPL_OK && p->all.wides == 0 && is_cold(&m, &m.again))
			status = measure_warm(p, gpus, m.again.mean, &m, diag);
		if (status != ESPL_OK)
			return status;
		p->all.wides++;
		if (before > 0 &&
		    p->all.list[p->all.wides - 2].iteration.mean / m.iteration.mean <
			pow(GAIN, log2((double)gpus / before)))
			return ESPL_OK; /* more would not bring more */
		next = placeable_gpus(p, gpus <= most / 2 ? gpus * 2 : most);
		if (next <= gpus)
			return ESPL_OK;
		gpus = next;
	}
}

/* 2, 3, 4 to a GPU, then doubling. */
static espl_status
measure_packed(struct profiling *p, struct espl__diag *diag)
{
	uint32_t packing, most = p->inputs.config->trial.packing_max;
	double before = 1, speed;
	enum espl__measure_end end;
	struct espl__measurement m;

	if (most > 1 && p->all.list[0].gpus > 1) {
		add_note(p, "a trial needs more than one GPU, so sharing was not measured");
		return ESPL_OK;
	}
	for (packing = 2; packing <= most; packing += packing < 4 ? 1 : packing) {
		espl_status status = measure_next(p, 1, packing, &end, &m, diag);

		if (status != ESPL_OK && end != 0 && end != ESPL__MEASURE_STOPPED) {
			add_note(p, "%u on a %s: %s", packing,
			    espl__slots_word(p->subject.on_cpu, 1), diag->text);
			if (end == ESPL__MEASURE_FAILED)
				add_note(p, "set trial.packing_max = %u to avoid this",
				    packing > 4 ? packing / 2 : packing - 1);
			espl__log(ESPL_WARN, "%u on a %s: %s", packing,
			    espl__slots_word(p->subject.on_cpu, 1), diag->text);
			*diag = (struct espl__diag)ESPL__DIAG_INIT;
			return ESPL_OK;
		}
		if (status != ESPL_OK)
			return status;
		p->all.packs++;
		if (packing == 2 && is_cold(&p->all.list[0], &m.begin)) {
			/* it saves no checkpoints, or its first start would have been measured
			 * again */
			struct espl__measurement first = p->all.list[0];

			status = measure_warm(p, 1, m.begin.mean, &first, diag);
			if (status != ESPL_OK)
				return status;
			p->all.list[0] = first;
		}
		speed = p->all.list[0].iteration.mean / m.iteration.mean * packing;
		if (speed < before * GAIN)
			return ESPL_OK;
		before = speed;
	}
	return ESPL_OK;
}

/* ---- resizes in place --------------------------------------------------------------------- */

/* Only trainables of ours can; programs save and start again. */
static int
can_resize(const struct espl__trial_config *trial)
{
	const struct espl__plugin *plugin;
	const struct espl_trainable_ops *ops;

	if (trial->trainable == NULL || !trial->in_place || !trial->checkpoint ||
	    espl__plugin_find(ESPL_TRAINABLE, trial->trainable, &plugin, NULL) != ESPL_OK)
		return 0;
	ops = (const struct espl_trainable_ops *)(const void *)plugin->desc->ops;
	return ESPL_HAS(struct espl_trainable_ops, ops, resize);
}

/* The numbers of GPUs that were measured, and of which half will do, too; returns how many. */
static uint32_t
list_halves(const struct profiling *p, uint32_t list[32])
{
	uint32_t i, count = 0;

	for (i = 0; i < p->all.wides && count < 32; i++) {
		uint32_t half = p->all.list[i].gpus / 2;

		if (half >= p->inputs.config->trial.gpus_min && placeable_gpus(p, half) == half)
			list[count++] = p->all.list[i].gpus;
	}
	return count;
}

/* A run in which the trial is resized from or to this many GPUs. 0: no such measurement is left. */
static int
measure_resize(struct profiling *p, enum espl__measure_resize how, uint32_t gpus,
    espl_status *status, struct espl__diag *diag)
{
	uint32_t half = gpus / 2, to = how == ESPL__RESIZE_LESS ? half : gpus;
	enum espl__measure_end end;
	struct espl__measurement m;
	char mean[32];

	/* Which of two trials is stopped depends on which arrives first: they may continue side by
	 * side. */
	p->ask.resize = how;
	for (uint32_t tries = 0; tries < TRIES; tries++) {
		*status = measure_next(p, gpus, 1, &end, &m, diag);
		if (*status != ESPL_OK || m.resize.count > 0)
			break;
	}
	p->ask.resize = ESPL__RESIZE_NONE;
	if (*status != ESPL_OK && end != 0 && end != ESPL__MEASURE_STOPPED) {
		add_note(p, "resizing in place to %u %s: %s", to,
		    espl__slots_word(p->subject.on_cpu, to), diag->text);
		espl__log(ESPL_WARN, "resizing in place to %u %s: %s", to,
		    espl__slots_word(p->subject.on_cpu, to), diag->text);
		*diag = (struct espl__diag)ESPL__DIAG_INIT;
		*status = ESPL_OK;
		return 0;
	}
	if (*status != ESPL_OK)
		return 0;
	espl__tally_merge(&p->all.resize, &m.resize);
	if (!p->quiet && m.resize.count > 0)
		espl__log(ESPL_INFO, "resizing in place from %u to %u %s: paused for %s",
		    gpus + half - to, to, espl__slots_word(p->subject.on_cpu, to),
		    espl__format_latency(m.resize.mean, mean));
	return 1;
}

/* From each of these numbers of GPUs to half of it, and back; again while that was less than three
 * times. */
static espl_status
measure_resizes(struct profiling *p, struct espl__diag *diag)
{
	uint32_t list[32], count = list_halves(p, list),
			   least = p->ask.least < LEAST ? p->ask.least : LEAST, i, round;
	int goes_on = 1;
	espl_status status = ESPL_OK;

	if (count == 0 || !can_resize(&p->inputs.config->trial))
		return ESPL_OK;
	p->all.resizes = 1;
	for (round = 0; round < LEAST && p->all.resize.count < least; round++)
		for (i = 0; i < count && goes_on; i++)
			goes_on = measure_resize(p, ESPL__RESIZE_LESS, list[i], &status, diag) &&
			    measure_resize(p, ESPL__RESIZE_MORE, list[i], &status, diag);
	return status;
}

/* ---- the result --------------------------------------------------------------------------- */

/* Where the profile is, and the verb that it was measured for. */
static void
print_kept_profile(const struct profiling *p, struct espl__buf *b)
{
	const struct espl__node *node = p->inputs.config->trial.profile;
	const char *file = p->args->positional[0];

	espl__print(b, "  stored as   %s\n", p->place);
	if (node != NULL && (node->type != ESPL__STRING || strcmp(node->text, "auto") != 0))
		espl__print(b,
		    "  next        remove trial.profile, then `espalier plan %s --compare` uses "
		    "this profile\n",
		    file);
	else
		espl__print(b, "  next        espalier plan %s --compare\n", file);
}

static int
write_all(struct profiling *p, struct espl__diag *diag)
{
	const char *out = espl__arg(p->args, "output");
	int json = espl__arg(p->args, "json") != NULL, result;
	struct espl__buf text = { NULL, 0, 0 }, file = { NULL, 0, 0 };
	struct espl__diag own = ESPL__DIAG_INIT;
	espl_status status = ESPL_OK;

	espl__profiled_fit(&p->all);
	espl__profiled_json(&p->all, 1, &file);
	if (json)
		espl__profiled_json(&p->all, 0, &text);
	else
		espl__profiled_text(&p->all, &text);
	if (out != NULL)
		status = espl__cli_write_text(out, &file, diag);
	if (status != ESPL_OK)
		status = diag->status = ESPL_E_REMOTE; /* time was spent: no usage error */
	if (p->place != NULL && espl__file_write(p->place, file.data, file.size, &own) == ESPL_OK) {
		if (!json)
			print_kept_profile(p, &text);
	} else if (p->place != NULL && out == NULL && !json) {
		status = espl__fail(diag, ESPL_E_REMOTE, "%s", own.text);
	} else if (p->place != NULL) {
		espl__log(ESPL_WARN, "the profile was not stored for profile = \"auto\": %s",
		    own.text);
	}
	if (status == ESPL_OK && out != NULL && !json)
		espl__print(&text, "  profile     %s\n", out);
	result = espl__cli_print(&text);
	espl__buf_free(&text);
	espl__buf_free(&file);
	return status != ESPL_OK ? espl__cli_fail(diag) : result;
}

static int
run_profile(struct profiling *p)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	espl_status status;

	status = read_flags(p, &diag);
	if (status == ESPL_OK)
		status = load_inputs(p, &diag);
	if (status == ESPL_OK)
		status = find_places(p, &diag);
	if (status != ESPL_OK)
		return espl__cli_fail(&diag);
	espl__interrupt_catch();
	p->all.inputs = &p->inputs;
	p->all.subject = &p->subject;
	status = make_dir(p, &diag);
	if (status == ESPL_OK)
		status = measure_wide(p, &diag);
	if (status == ESPL_OK)
		status = measure_packed(p, &diag);
	if (status == ESPL_OK)
		status = measure_resizes(p, &diag);
	if (p->dir != NULL)
		(void)espl__tree_remove(p->dir, NULL);
	if (espl__interrupts > 0) {
		fprintf(stderr, "espalier: interrupted; no profile was written\n");
		return ESPL__EXIT_INTERRUPTED;
	}
	return status == ESPL_OK ? write_all(p, &diag) : espl__cli_fail(&diag);
}

int
espl__verb_profile(const struct espl__args *args)
{
	struct profiling *p;
	int result;

	if (espl__arg(args, "quiet") != NULL && espl__arg(args, "json") != NULL)
		return espl__cli_usage(args, "--quiet and --json exclude each other");
	p = espl__alloc(sizeof *p);
	p->args = args;
	result = run_profile(p);
	espl__subject_free(&p->subject);
	espl__inputs_free(&p->inputs);
	espl__buf_free(&p->all.notes);
	free(p->all.list);
	free(p->sets);
	free(p->dir);
	free(p->place);
	free(p);
	return result;
}
