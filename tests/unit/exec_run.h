/* exec_run.h - an executor and a simulated world for tests, made from texts, and pumped; what
 * happened can be kept on a tape and replayed.
 */
#ifndef EXEC_RUN_H
#define EXEC_RUN_H
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "input/workload_input.h"
#include "driver/worlds.h"
#include "input/input.h"

#define EXEC_RUN_UNUSED __attribute__((unused))

/* Begins the messages of what cannot be made. */
static char run_label[40] EXEC_RUN_UNUSED;

struct run {
	struct espl__inputs inputs;
	struct espl__world *world;
	struct espl__exec *exec;
	struct espl__exec_summary summary;
	struct espl__diag diag;
};
struct record {
	espl_time now;
	struct espl__buf events, decisions;
	uint32_t count;
};
struct tape {
	struct record *list;
	uint32_t count, cap;
};

static EXEC_RUN_UNUSED void
quiet(void *ctx, espl_level level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)text;
}

/* Makes both from the texts of a configuration and of a fault script (NULL none). */
static EXEC_RUN_UNUSED void
make_run(struct run *r, const char *text, const char *faults, struct espl__observer *observers)
{
	char name[] = "/tmp/espl-exec-XXXXXX", fault_name[] = "/tmp/espl-fault-XXXXXX";
	struct espl__exec_setup setup = { .simulated = 1, .verbose = 1, .observers = observers };
	int fd = mkstemp(name), ff = mkstemp(fault_name);
	FILE *f = fdopen(fd, "w"), *g = fdopen(ff, "w");

	memset(r, 0, sizeof *r);
	espl__log_to(quiet, NULL, ESPL_ERROR);
	fputs(text, f);
	fclose(f);
	fputs(faults != NULL ? faults : "", g);
	fclose(g);
	cr_assert_eq(espl__plugins_init(NULL, &r->diag), ESPL_OK, "%s%s", run_label, r->diag.text);
	cr_assert_eq(espl__run_load(name, NULL, 0, ESPL__NEED_TRIAL, &r->inputs.config, &r->diag),
	    ESPL_OK, "%s%s", run_label, r->diag.text);
	if (r->inputs.config->pool)
		cr_assert_eq(espl__jobs_load(r->inputs.config, &r->inputs.jobs, &r->diag), ESPL_OK,
		    "%s%s", run_label, r->diag.text);
	if (r->inputs.jobs != NULL)
		cr_assert_eq(espl__jobs_space(r->inputs.jobs, &r->inputs.space, &r->diag), ESPL_OK,
		    "%s%s", run_label, r->diag.text);
	else
		cr_assert_eq(espl__space_parse(r->inputs.config->space, &r->inputs.space, &r->diag),
		    ESPL_OK, "%s%s", run_label, r->diag.text);
	cr_assert_eq(espl__profile_load(r->inputs.config->trial.profile,
			 r->inputs.config->directory, &r->inputs.profile, &r->diag),
	    ESPL_OK, "%s%s", run_label, r->diag.text);
	setup.inputs = &r->inputs;
	cr_assert_eq(espl__exec_new(&setup, &r->exec, &r->diag), ESPL_OK, "%s%s", run_label,
	    r->diag.text);
	cr_assert_eq(espl__world_sim(&r->inputs, r->inputs.config->seed,
			 faults != NULL ? fault_name : NULL, &r->world, &r->diag),
	    ESPL_OK, "%s%s", run_label, r->diag.text);
	r->world->exec = r->exec;
	unlink(name);
	unlink(fault_name);
}

static EXEC_RUN_UNUSED void
unmake(struct run *r)
{
	r->world->ops->close(r->world, 0, NULL);
	espl__exec_free(r->exec);
	espl__profile_free(r->inputs.profile);
	espl__space_free(r->inputs.space);
	espl__jobs_free(r->inputs.jobs);
	espl__run_free(r->inputs.config);
}

static EXEC_RUN_UNUSED void
keep(struct tape *tape, const struct espl__round *round, const struct espl__buf *decisions)
{
	struct record *k;

	ESPL__GROW(tape->list, tape->cap, tape->count + 1);
	k = &tape->list[tape->count++];
	memset(k, 0, sizeof *k);
	k->now = round->now;
	k->count = round->count;
	for (uint32_t i = 0; i < round->count; i++)
		espl__event_put(&round->events[i], &k->events);
	espl__put(&k->decisions, decisions->data, decisions->size);
}

/* Pumps to the end (or `most` rounds); OK or what stopped it. */
static EXEC_RUN_UNUSED espl_status
pump(struct run *r, struct tape *tape, uint32_t most)
{
	for (uint32_t n = 0; n < most && !espl__exec_view(r->exec).ended; n++) {
		struct espl__round round;
		const struct espl__effect *effects;
		uint32_t count;
		espl_status status = r->world->ops->next(r->world, &round, &r->diag);

		if (status != ESPL_OK)
			return status;
		cr_assert_gt(round.count, 0,
		    "the world has nothing to tell and the run has not ended");
		status = espl__exec_round(r->exec, round.now, round.events, round.count, NULL, 0,
		    &r->diag);
		if (status != ESPL_OK)
			return status;
		if (tape != NULL)
			keep(tape, &round, espl__exec_decisions(r->exec));
		effects = espl__exec_effects(r->exec, &count);
		status = r->world->ops->apply(r->world, effects, count, &r->diag);
		if (status != ESPL_OK)
			return status;
	}
	espl__exec_summary(r->exec, &r->summary);
	return ESPL_OK;
}

static EXEC_RUN_UNUSED espl_status
replay(struct run *r, const struct tape *tape, uint32_t upto)
{
	for (uint32_t i = 0; i < upto; i++) {
		struct espl__arena arena = { 0 };
		struct espl__event events[64];
		struct espl__reader reader =
		    espl__reader(tape->list[i].events.data, tape->list[i].events.size);
		espl_status status;

		cr_assert_leq(tape->list[i].count, 64);
		for (uint32_t k = 0; k < tape->list[i].count; k++)
			cr_assert_eq(espl__event_get(&reader, &arena, &events[k]), 0);
		status = espl__exec_round(r->exec, tape->list[i].now, events, tape->list[i].count,
		    &tape->list[i].decisions, 0, &r->diag);
		espl__arena_free(&arena);
		if (status != ESPL_OK)
			return status;
	}
	return ESPL_OK;
}

static EXEC_RUN_UNUSED void
free_tape(struct tape *tape)
{
	for (uint32_t i = 0; i < tape->count; i++) {
		espl__buf_free(&tape->list[i].events);
		espl__buf_free(&tape->list[i].decisions);
	}
	free(tape->list);
}
#endif
