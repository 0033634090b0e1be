/* profile_subject.c - the subject of a profile: the trial, the hardware, and the digest by which a
 * cached profile is found.
 *
 * The digest covers what affects the length of an iteration: program (with the files that its
 * command names), options, environment, limits, the measured configuration, processor and GPU.
 */
#include "base/assert.h"
#include "cli/profile.h"

#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "plugin/registry.h"

#define PROGRAM_MAX (1 << 20) /* files of a command beyond this are data, not programs */

/* ---- the configuration ---------------------------------------------------------------------- */

/* The user's first one; else the middle of every parameter's range, whatever its scale. */
static espl_status
find_values(const struct espl__inputs *s, double *values, struct espl__diag *diag)
{
	const struct espl_space *space = espl__space_view(s->space);
	const struct espl__node *first = s->config->first;
	double *unit;
	espl_status status;

	if (first != NULL && first->child_count > 0)
		return espl__space_point(s->space, first->children[0], values, diag);
	unit = espl__alloc((space->param_count + (size_t)1) * sizeof *unit);
	for (uint32_t i = 0; i < space->param_count; i++)
		unit[i] = 0.5;
	status = space->from_unit(space, unit, values);
	free(unit);
	return status == ESPL_OK
	    ? status
	    : espl__fail(diag, status, "cannot find a middle configuration of the space");
}

/* Is it an integer that libconfig reads with an L behind it only? */
static int
is_long(const char *text, double value)
{
	return fabs(value) > INT32_MAX && text[strspn(text, "-0123456789")] == '\0';
}

/* As a member of experiment.first, in libconfig's syntax. */
static char *
write_point(const struct espl__space *space, const double *values)
{
	struct espl__settings settings;
	struct espl__buf b = { NULL, 0, 0 };
	char *text;

	espl__space_settings(space, values, &settings);
	espl__print(&b, "{");
	for (uint32_t i = 0; i < settings.count; i++) {
		const struct espl_setting *one = &settings.list[i];

		espl__print(&b, " %s = ", one->name);
		if (isnan(one->value))
			espl__print_quoted(&b, one->text);
		else
			espl__print(&b, "%s%s", one->text,
			    is_long(one->text, one->value) ? "L" : "");
		espl__print(&b, ";");
	}
	espl__print(&b, " }");
	espl__settings_free(&settings);
	text = espl__strdup(espl__buf_text(&b));
	espl__buf_free(&b);
	return text;
}

/* ---- the hardware --------------------------------------------------------------------------- */

struct seen {
	const char *wanted;
	struct espl__subject *to;
	char *gpu_type;
	uint32_t cpus;
};

/* The offer that would be leased: the one that the allocator is configured for, or the first. */
static void
take_offer(void *ctx, const struct espl_offer *offer)
{
	struct seen *seen = ctx;

	if (seen->to->offer != NULL || offer->gpus == 0 ||
	    (seen->wanted != NULL && strcmp(seen->wanted, offer->name) != 0))
		return;
	seen->to->offer = espl__strdup(offer->name);
	seen->to->gpus = offer->gpus;
	seen->to->nodes_max = offer->nodes_max;
	seen->gpu_type = espl__strdup(offer->gpu_type);
	seen->to->on_cpu = offer->gpu_type != NULL && strcmp(offer->gpu_type, "cpu") == 0;
	seen->cpus = offer->cpus;
}

static void
print_processor(struct espl__buf *to)
{
	static const char name[] = "\nmodel name";
	struct espl__buf text = { NULL, 0, 0 };
	struct utsname machine;
	const char *at = NULL;

	if (espl__file_read("/proc/cpuinfo", (size_t)64 << 20, &text, NULL) == ESPL_OK)
		at = strstr(espl__buf_text(&text), name);
	if (at != NULL)
		at = strstr(at, ": ");
	if (at != NULL)
		espl__print(to, "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
	else
		espl__print(to, "%s", uname(&machine) == 0 ? machine.machine : "processor");
	espl__buf_free(&text);
}

static unsigned
count_cores(void)
{
	cpu_set_t *set = CPU_ALLOC(4096);
	size_t size = CPU_ALLOC_SIZE(4096);
	int count = 0;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (set != NULL && sched_getaffinity(0, size, set) == 0)
		count = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	return count > 0 ? (unsigned)count : online > 0 ? (unsigned)online : 1;
}

static espl_status
find_hardware(const struct espl__inputs *s, struct espl__subject *to, struct espl__buf *all,
    struct espl__diag *diag)
{
	const struct espl__node *wanted = espl__node_get(s->config->allocator.group, "offer");
	struct seen seen = { NULL, to, NULL, 0 };
	struct espl__buf device = { NULL, 0, 0 };
	uint32_t count;
	espl_status status;

	if (wanted != NULL && wanted->type == ESPL__STRING)
		seen.wanted = wanted->text;
	status = espl__inputs_offers(s, take_offer, &seen, &count, diag);
	if (status == ESPL_OK && count > 0 && to->offer == NULL)
		status = espl__fail_at(diag, ESPL_E_CONFIG,
		    wanted != NULL ? wanted->file : s->config->path,
		    wanted != NULL ? wanted->line : 0, "cloud '%s' has no offer%s%s%s with GPUs",
		    s->config->cloud.use, seen.wanted != NULL ? " '" : "",
		    seen.wanted != NULL ? seen.wanted : "", seen.wanted != NULL ? "'" : "");
	print_processor(&device);
	espl__print(all, "%s\n%s %s %u %u\n%s %u\n", s->config->cloud.use,
	    to->offer != NULL ? to->offer : "", seen.gpu_type != NULL ? seen.gpu_type : "",
	    to->gpus, seen.cpus, espl__buf_text(&device), count_cores());
	if (seen.gpu_type != NULL && seen.gpu_type[0] != '\0' &&
	    strcmp(seen.gpu_type, "cpu") != 0) {
		to->device = espl__strdup(seen.gpu_type);
	} else {
		espl__print(&device, ", %u core%s", count_cores(), count_cores() == 1 ? "" : "s");
		to->device = espl__strdup(espl__buf_text(&device));
	}
	espl__buf_free(&device);
	free(seen.gpu_type);
	return status;
}

/* ---- the program ---------------------------------------------------------------------------- */

/* A word of the command that names a small file is taken for a program of the user's. */
static void
put_file(const char *directory, const char *word, struct espl__buf *all)
{
	char *path = word[0] == '/' ? espl__strdup(word) : espl__format("%s/%s", directory, word);
	struct espl__buf bytes = { NULL, 0, 0 };
	struct stat st;

	if (word[0] != '\0' && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size <= PROGRAM_MAX &&
	    espl__file_read(path, PROGRAM_MAX, &bytes, NULL) == ESPL_OK)
		espl__print(all, "file %016llx\n",
		    (unsigned long long)espl__digest(0, bytes.data, bytes.size));
	espl__buf_free(&bytes);
	free(path);
}

static void
put_program(const struct espl__trial_config *trial, struct espl__buf *all)
{
	const struct espl__plugin *plugin;

	if (trial->trainable != NULL) {
		espl__print(all, "trainable %s", trial->trainable);
		if (espl__plugin_find(ESPL_TRAINABLE, trial->trainable, &plugin, NULL) == ESPL_OK &&
		    plugin->desc->version != NULL)
			espl__print(all, " %s", plugin->desc->version);
		espl__print(all, "\n");
	} else {
		espl__print(all, "command in %s\n", trial->directory);
	}
	for (uint32_t i = 0; i < trial->command_count; i++) {
		espl__print_json(all, trial->command[i]);
		espl__print(all, "\n");
		put_file(trial->directory, trial->command[i], all);
	}
	if (trial->options != NULL)
		espl__node_print(trial->options, 0, all);
	if (trial->env != NULL)
		espl__node_print(trial->env, 0, all);
	if (trial->torchrun >= 0)
		espl__print(all, "torchrun %d\n", trial->torchrun);
	espl__print(all, "%u %u %u %d %d\n", trial->gpus_min, trial->gpus_max, trial->packing_max,
	    trial->checkpoint, trial->colocate);
}

/* ---- together ------------------------------------------------------------------------------- */

espl_status
espl__subject_find(const struct espl__inputs *s, struct espl__subject *to, struct espl__diag *diag)
{
	struct espl__buf all = { NULL, 0, 0 };
	espl_status status;

	ESPL__CHECK(s->config, RUN_CONFIG);
	memset(to, 0, sizeof *to);
	to->values = espl__alloc((espl__space_count(s->space) + (size_t)1) * sizeof *to->values);
	status = find_values(s, to->values, diag);
	if (status == ESPL_OK) {
		to->point = write_point(s->space, to->values);
		espl__space_json(s->space, to->values, &all);
		to->json = espl__strdup(espl__buf_text(&all));
		espl__print(&all, "\n");
		put_program(&s->config->trial, &all);
		status = find_hardware(s, to, &all, diag);
	}
	to->digest = espl__digest(0, all.data, all.size);
	espl__buf_free(&all);
	if (status != ESPL_OK)
		espl__subject_free(to);
	return status;
}

void
espl__subject_free(struct espl__subject *subject)
{
	free(subject->values);
	free(subject->point);
	free(subject->json);
	free(subject->offer);
	free(subject->device);
	memset(subject, 0, sizeof *subject);
}
