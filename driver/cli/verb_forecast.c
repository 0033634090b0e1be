/* verb_forecast.c - forecast: when a run will end, what it will cost, what the rest is worth. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/run_dir.h"
#include "driver/futures.h"
#include "plugin/instance.h"
#include "run/journal.h"

struct look {
	char *dir;
	struct espl__inputs inputs;
	struct espl__drive drive;
	struct espl__drive_look seen;
	struct espl__learned *learned;
};

/* The number of rounds to replay: all of them, or the share that --at gives ("50%"). */
static espl_status
rounds_of(const struct espl__args *args, const char *dir, uint64_t *most, struct espl__diag *diag)
{
	const char *at = espl__arg(args, "at");
	uint64_t rounds;
	char *end;
	double part;

	*most = UINT64_MAX;
	if (at == NULL)
		return ESPL_OK;
	part = strtod(at, &end);
	if (end == at || (strcmp(end, "%") != 0 && *end != '\0') || !(part > 0 && part <= 100))
		return espl__fail(diag, ESPL_E_CONFIG,
		    "--at must be a percentage of the run so far, such as 50%%, but is '%s'", at);
	if (espl__drive_rounds(dir, &rounds, diag) != ESPL_OK)
		return diag->status;
	*most = (uint64_t)((double)rounds * part / 100);
	*most = *most > 0 ? *most : 1;
	return ESPL_OK;
}

static espl_status
kind_of_run(struct look *look, struct espl__diag *diag)
{
	char *path = espl__format("%s/journal", look->dir);
	struct espl__journal_reader *reader = NULL;
	struct espl__journal_header header;
	espl_status status = espl__journal_open(path, &reader, &header, diag);

	free(path);
	if (status != ESPL_OK)
		return status;
	look->drive.exec.simulated = header.simulated;
	espl__journal_reader_free(reader);
	return ESPL_OK;
}

/* Replays the run, up to where it is to be looked at. */
static espl_status
look_at(struct look *look, const struct espl__args *args, struct espl__diag *diag)
{
	uint64_t most = 0;
	char *config = espl__format("%s/run.cfg", look->dir);
	espl_status status = espl__run_dir_check(look->dir, diag);

	if (status == ESPL_OK)
		status = rounds_of(args, look->dir, &most, diag);
	if (status == ESPL_OK)
		status = kind_of_run(look, diag);
	if (status == ESPL_OK)
		status = espl__inputs_load(config, NULL, 0, ESPL__NEED_TRIAL, &look->inputs, diag);
	free(config);
	if (status != ESPL_OK)
		return status;
	look->inputs.dir = espl__strdup(look->dir);
	look->drive.dir = look->dir;
	look->drive.seed = look->inputs.config->seed;
	look->drive.accept = 1;
	look->drive.exec.inputs = &look->inputs;
	look->drive.exec.load = espl__inputs_submitted;
	look->drive.exec.observers = espl__learned_observer(look->learned);
	return espl__drive_look(&look->drive, most, &look->seen, diag);
}

static espl_status
refuse_ended(const struct look *look, struct espl__diag *diag)
{
	struct espl__exec_summary sum;

	espl__exec_summary(look->seen.exec, &sum);
	if (!espl__exec_view(look->seen.exec).ended)
		return ESPL_OK;
	if (sum.how == ESPL__RUN_INTERRUPTED) {
		(void)espl__fail(diag, ESPL_E_CONFIG, "the run is interrupted");
		espl__hint(diag, "resume it; or see how it looked earlier with --at 90%%");
		return ESPL_E_CONFIG;
	}
	(void)espl__fail(diag, ESPL_E_CONFIG, "the run has ended");
	espl__hint(diag, "see how it looked in the middle with --at 50%%");
	return ESPL_E_CONFIG;
}

static int
print_forecast(const struct espl__args *args, const struct espl__outlook *outlook)
{
	struct espl__buf text = { NULL, 0, 0 };
	int result;

	if (espl__arg(args, "json") != NULL) {
		espl__outlook_json(outlook, &text);
		espl__print(&text, "\n");
	} else {
		espl__outlook_sentence(outlook, &text);
		espl__print(&text, "\n");
		espl__outlook_text(outlook, &text);
	}
	result = espl__cli_print(&text);
	espl__buf_free(&text);
	return result;
}

int
espl__verb_forecast(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__outlook outlook;
	struct look look;
	espl_status status;
	int result;

	memset(&look, 0, sizeof look);
	espl__instance_log_from(ESPL_ERROR);
	look.learned = espl__learned_new();
	status = espl__run_dir_find(args->positional[0], &look.dir, &diag);
	if (status == ESPL_OK)
		status = look_at(&look, args, &diag);
	if (status == ESPL_OK)
		status = refuse_ended(&look, &diag);
	if (status == ESPL_OK)
		status = espl__futures_make(&look.inputs, look.seen.exec, look.learned,
		    look.seen.origin_s, &outlook, &diag);
	result = status == ESPL_OK ? print_forecast(args, &outlook) : espl__cli_fail(&diag);
	espl__exec_free(look.seen.exec);
	espl__learned_free(look.learned);
	espl__inputs_free(&look.inputs);
	free(look.dir);
	return result;
}
