/* agent_env.c - the environment of a rank: docs/trial-protocol.md is its description.
 *
 * It begins with the agent's own, without what would make a framework believe that it was
 * started by Slurm, PMI, Open MPI or torchrun itself; then what we set; then the user's trial.env,
 * which may replace or remove anything; and last the protocol's, of which trial.env says nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ids.h"
#include "base/mem.h"
#include "agent/agent_gpu.h"
#include "agent/agent_sup.h"

#define SET(...) espl__env_set(s, espl__format(__VA_ARGS__))

static void
set_own_variables(struct espl__strings *s, const struct espl__agent_rank *rank, int reports,
    int listens)
{
	const struct espl__agent_gang *g = rank->gang;
	const struct espl__start *t = &g->start;

	SET("ESPALIER_TRIAL=%" PRIu64, t->trial & ESPL__TRIAL_NUMBER);
	SET("ESPALIER_PARAMS=%s", g->params);
	SET("ESPALIER_ITERATION=%" PRIu64, t->iteration);
	SET("ESPALIER_BUDGET=%" PRIu64, t->budget);
	SET("ESPALIER_ITERATIONS_MAX=%" PRIu64, t->iterations_max);
	SET("ESPALIER_CHECKPOINT=%s", g->restore);
	SET("ESPALIER_SAVE=%s/saving-%" PRIu64, g->dir, t->gang);
	if (t->packing > 1)
		SET("ESPALIER_SHARE=1/%" PRIu32, t->packing);
	else
		SET("ESPALIER_SHARE=%" PRIu32, t->world);
	SET("ESPALIER_SEED=%" PRIu64, t->seed);
	SET("ESPALIER_FOLD=%" PRIu32, t->fold);
	SET("ESPALIER_RUN=%s", g->agent->dir != NULL ? g->agent->dir : "");
	SET("ESPALIER_OUTPUT=%s/output", g->dir);
	SET("ESPALIER_GANG=%" PRIu64, t->join.generation > 0 ? t->of : t->gang);
	SET("ESPALIER_ATTEMPT=%" PRIu32, t->attempt);
	SET("ESPALIER_SCRATCH=%s", rank->scratch.path);
	SET("ESPALIER_THREADS=%" PRIu32, t->threads);
	SET("ESPALIER_PACKING=%" PRIu32, t->packing);
	SET("ESPALIER_DEVICE=%s", t->device_gpu && g->agent->gpus != NULL ? "cuda" : "cpu");
	if (t->trainable != NULL) {
		SET("ESPALIER_OPTIONS=%s", t->options);
		SET("ESPALIER_KEY_FD=%d", ESPL__FD_KEY);
	}
	if (t->join.generation > 0) {
		struct espl__buf line = { NULL, 0, 0 };

		espl__rank_slot_line(&t->join, rank->rank, t->local_first + rank->index, &line);
		SET("ESPALIER_SEAT=%s", espl__buf_text(&line));
		espl__buf_free(&line);
	}
	if (reports)
		SET("ESPALIER_REPORT_FD=%d", ESPL__FD_REPORT);
	if (listens)
		SET("ESPALIER_LISTEN_FD=%d", ESPL__FD_LISTEN);
}

/* What torchrun sets, so that an unmodified script is a gang. */
static void
set_torchrun_variables(struct espl__strings *s, const struct espl__agent_rank *rank)
{
	const struct espl__start *t = &rank->gang->start;
	const struct espl__start_rank *r = &t->ranks[rank->index];

	SET("RANK=%" PRIu32, r->rank);
	SET("LOCAL_RANK=%" PRIu32, r->local_rank);
	SET("WORLD_SIZE=%" PRIu32, t->world);
	SET("LOCAL_WORLD_SIZE=%" PRIu32, t->rank_count);
	SET("GROUP_RANK=%" PRIu32, t->node_rank);
	SET("GROUP_WORLD_SIZE=%" PRIu32, t->nodes);
	SET("ROLE_RANK=%" PRIu32, r->rank);
	SET("ROLE_WORLD_SIZE=%" PRIu32, t->world);
	SET("ROLE_NAME=default");
	SET("MASTER_ADDR=%s", t->nodes == 1 || t->master[0] == '\0' ? "127.0.0.1" : t->master);
	SET("MASTER_PORT=%" PRIu32, rank->gang->port);
	SET("TORCHELASTIC_RESTART_COUNT=%" PRIu32, t->attempt);
	SET("TORCHELASTIC_MAX_RESTARTS=%" PRIu32, t->attempt);
	SET("TORCHELASTIC_RUN_ID=%" PRIu64 "-%" PRIu64, t->trial, t->gang);
	SET("TORCHELASTIC_USE_AGENT_STORE=False");
}

/* The gang's GPUs on this node, the same list for each of its ranks: LOCAL_RANK is the index.
 * Several ranks on one GPU name it once. */
static void
set_visible_devices(struct espl__strings *s, const struct espl__agent_rank *rank)
{
	const struct espl__start *t = &rank->gang->start;
	const struct espl__agent *a = rank->gang->agent;
	struct espl__buf list = { NULL, 0, 0 };

	for (uint32_t i = 0; t->device_gpu && a->gpus != NULL && i < t->rank_count; i++) {
		int again = 0;

		for (uint32_t j = 0; j < i; j++)
			again |= t->ranks[j].gpu == t->ranks[i].gpu;
		if (!again)
			espl__print(&list, "%s%s", list.size > 0 ? "," : "",
			    a->gpus[t->ranks[i].gpu].uuid);
	}
	if (list.size > 0)
		SET("CUDA_DEVICE_ORDER=PCI_BUS_ID");
	SET("CUDA_VISIBLE_DEVICES=%s", espl__buf_text(&list));
	espl__buf_free(&list);
}

/* Unless it is inherited: what the user's shell or the machine says is meant. */
static void
set_default(struct espl__strings *s, char *text)
{
	char *name = espl__format("%.*s", (int)strcspn(text, "="), text);

	if (espl__env_get(s, name) == NULL)
		espl__env_set(s, text);
	else
		free(text);
	free(name);
}

static void
set_defaults(struct espl__strings *s, const struct espl__start *t, int reports)
{
	if (t->threads > 0) {
		set_default(s, espl__format("OMP_NUM_THREADS=%" PRIu32, t->threads));
		set_default(s, espl__format("OPENBLAS_NUM_THREADS=%" PRIu32, t->threads));
	}
	/* Else the lines of a Python script come when its buffer is full. */
	if (reports && t->trainable == NULL && t->metrics[0] != '\0')
		set_default(s, espl__strdup("PYTHONUNBUFFERED=1"));
}

/* Trainables that were sent with this agent come before those that the node has. */
static void
add_sent_plugins(struct espl__strings *s, const char *libexec)
{
	char *mark = espl__format("%s/.sent", libexec);
	const char *more = espl__env_get(s, "ESPALIER_PLUGIN_PATH");

	if (access(mark, F_OK) == 0)
		SET("ESPALIER_PLUGIN_PATH=%s/plugins%s%s", libexec, more != NULL ? ":" : "",
		    more != NULL ? more : "");
	free(mark);
}

void
espl__env_common(const struct espl__agent_rank *rank, int listens, struct espl__strings *s)
{
	const struct espl__start *t = &rank->gang->start;

	espl__env_inherit(s);
	SET("CUDA_VISIBLE_DEVICES="); /* nothing that happens there is for a GPU */
	set_defaults(s, t, listens);
	espl__env_apply(s, t->env, t->env_count);
}

void
espl__env_make(const struct espl__agent_rank *rank, int reports, int listens,
    struct espl__strings *s)
{
	const struct espl__start *t = &rank->gang->start;
	char *label;

	espl__env_inherit(s);
	if (t->torchrun || t->world > 1)
		set_torchrun_variables(s, rank);
	set_visible_devices(s, rank);
	espl__gpus_env(rank, s);
	set_defaults(s, t, reports);
	espl__env_apply(s, t->env, t->env_count);
	set_own_variables(s, rank, reports, listens);
	if (t->trainable != NULL) /* its worker reads them, whatever the width */
		set_torchrun_variables(s, rank);
	label = espl__trial_label(espl__env_get(s, "ESPALIER_EXPERIMENT"), t->trial);
	SET("ESPALIER_TRIAL_NAME=%s", label);
	free(label);
	if (t->trainable != NULL)
		add_sent_plugins(s, rank->gang->agent->libexec);
}
