/* check_offers.c - compares a configuration's needs with the offers of its cloud.
 *
 * This is checked before anything is started: a job that can never run is refused, at its line of
 * the trace. There is a warning if an allocator is configured for more GPUs than the cloud can
 * provide, since it would silently use fewer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/inputs.h"
#include "model/jobs.h"
#include "model/fleet.h"

/* The option of this name, if the user wrote it. */
static const struct espl_value *
find_written_option(const struct espl__values *v, const char *name, const char **file)
{
	for (uint32_t i = 0; i < v->config.count; i++) {
		if (strcmp(espl__option_at(v->options, v->option_size, i)->name, name) != 0)
			continue;
		*file = v->files[i];
		return v->config.values[i].source >= ESPL_FILE ? &v->config.values[i] : NULL;
	}
	return NULL;
}

/* GPUs that there can ever be of this offer; of all of them where `name` is NULL. */
static uint64_t
gpus_of(const struct espl__fleet *f, const char *name)
{
	for (uint32_t i = 0; name != NULL && i < f->offer_count; i++)
		if (strcmp(f->offers[i]->name, name) == 0)
			return f->offers[i]->nodes_max == ESPL_ANY
			    ? UINT64_MAX
			    : (uint64_t)f->offers[i]->nodes_max * f->offers[i]->gpus;
	return espl__sold_gpus(f, UINT64_MAX);
}

/* Allocators call the GPUs that they may hold `gpus`, and what they lease `offer`. */
void
espl__inputs_tell_gpus(const struct espl__inputs *s, const struct espl__fleet *f,
    const struct espl__values *values)
{
	const char *file = NULL, *where = NULL;
	const struct espl_value *gpus = find_written_option(values, "gpus", &where),
				*offer = find_written_option(values, "offer", &file);
	uint64_t most;
	char *line;

	if (gpus == NULL || gpus->as.i <= 0)
		return;
	most = gpus_of(f, offer != NULL ? offer->as.s : NULL);
	if ((uint64_t)gpus->as.i <= most)
		return;
	line = gpus->line > 0 ? espl__format(":%u", (unsigned)gpus->line) : espl__strdup("");
	espl__log(ESPL_WARN,
	    "%s%s: allocator '%s' is configured for %lld GPUs, but cloud '%s' offers at most %llu",
	    where != NULL ? where : s->config->path, line, s->config->allocator.use,
	    (long long)gpus->as.i, s->config->cloud.use, (unsigned long long)most);
	free(line);
}

/* A job whose iterations exceed the limit for hung trials would be killed, retried and given up. */
static void
report_silent_jobs(const struct espl__inputs *s)
{
	espl_span limit = s->config->trial.report_limit;

	for (uint32_t i = 0; limit > 0 && i < s->jobs->list.count; i++) {
		const struct espl__job *job = &s->jobs->list.jobs[i];
		double takes_s = espl__jobs_iteration_s(s->jobs, i) /
		    espl__job_speed(job, job->nodes_min, s->jobs->doubling);
		char takes[32], most[32];

		if (!(takes_s >= (double)limit / 1e9) || takes_s > 1e9)
			continue;
		espl__log(ESPL_WARN,
		    "%s: an iteration of job '%s' takes %s on %u node%s, longer than "
		    "trial.report_limit (%s), so the job would be killed as hung; shorten "
		    "workload.iteration or raise the limit",
		    s->config->path, job->name,
		    espl__format_short((espl_span)(takes_s * 1e9), takes), (unsigned)job->nodes_min,
		    job->nodes_min == 1 ? "" : "s", espl__format_short(limit, most));
		return;
	}
}

espl_status
espl__inputs_jobs_suit(const struct espl__inputs *s, const struct espl__fleet *f,
    struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	ESPL__CHECK(s->config, RUN_CONFIG);
	if (s->jobs != NULL)
		status = espl__sold_suits_jobs(s->jobs, espl__sold_gpus(f, s->config->gpus_limit),
		    s->config->cloud.use, diag);
	/* drawn */
	if (status != ESPL_OK && diag != NULL && diag->file[0] == '\0' &&
	    s->config->workload != NULL) {
		(void)snprintf(diag->file, sizeof diag->file, "%s", s->config->workload->file);
		diag->line = s->config->workload->line;
	}
	if (status == ESPL_OK && s->jobs != NULL)
		report_silent_jobs(s);
	return status;
}

uint32_t
espl__inputs_least(const struct espl__inputs *s)
{
	uint64_t least = s->config->trial.gpus_min;

	ESPL__CHECK(s->config, RUN_CONFIG);
	for (uint32_t i = 0; i < s->entry_count; i++)
		if (s->entries[i].config->trial.gpus_min > least)
			least = s->entries[i].config->trial.gpus_min;
	for (uint32_t i = 0; s->jobs != NULL && i < s->jobs->list.count; i++)
		if ((uint64_t)s->jobs->list.jobs[i].nodes_min * s->jobs->unit > least)
			least = (uint64_t)s->jobs->list.jobs[i].nodes_min * s->jobs->unit;
	return least < ESPL_ANY ? (uint32_t)least : ESPL_ANY;
}
