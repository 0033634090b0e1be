/* variables.c - the names; docs/trial-protocol.md has a table of them. */
#include "base/variables.h"

#include <string.h>

#include "base/assert.h"

static const char *const protocol[] = { "ESPALIER_TRIAL", "ESPALIER_PARAMS", "ESPALIER_ITERATION",
	"ESPALIER_BUDGET", "ESPALIER_ITERATIONS_MAX", "ESPALIER_CHECKPOINT", "ESPALIER_SAVE",
	"ESPALIER_SHARE", "ESPALIER_SEED", "ESPALIER_FOLD", "ESPALIER_RUN", "ESPALIER_OUTPUT",
	"ESPALIER_GANG", "ESPALIER_ATTEMPT", "ESPALIER_SCRATCH", "ESPALIER_THREADS",
	"ESPALIER_PACKING", "ESPALIER_DEVICE", "ESPALIER_SHARING", "ESPALIER_OPTIONS",
	"ESPALIER_SEAT", "ESPALIER_EXPERIMENT", "ESPALIER_TRIAL_NAME", "ESPALIER_REPORT_FD",
	"ESPALIER_LISTEN_FD", "ESPALIER_KEY_FD", "ESPALIER_AGENT_DEVICES", NULL };
static const char *const torchrun[] = { "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
	"GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME",
	"MASTER_ADDR", "MASTER_PORT", NULL };
/* Any name that begins so. */
static const char *const torchrun_more[] = { "TORCHELASTIC_", NULL };
static const char *const launchers[] = { "SLURM_", "PMI", "OMPI_", "HYDRA_", NULL };

static int
is_one_of(const char *const *names, const char *text)
{
	size_t length = strcspn(text, "=");

	for (size_t i = 0; names[i] != NULL; i++)
		if (strlen(names[i]) == length && strncmp(names[i], text, length) == 0)
			return 1;
	return 0;
}

static int
begins_as_one_of(const char *const *starts, const char *text)
{
	for (size_t i = 0; starts[i] != NULL; i++)
		if (strncmp(starts[i], text, strlen(starts[i])) == 0)
			return 1;
	return 0;
}

enum espl__variable
espl__variable_of(const char *text)
{
	ESPL__ASSERT(text != NULL);
	if (is_one_of(protocol, text))
		return ESPL__VARIABLE_PROTOCOL;
	if (is_one_of(torchrun, text) || begins_as_one_of(torchrun_more, text))
		return ESPL__VARIABLE_TORCHRUN;
	return begins_as_one_of(launchers, text) ? ESPL__VARIABLE_LAUNCHER : ESPL__VARIABLE_USER;
}
