/* feasibility.c - whether a trial or a job can ever run on the nodes that are offered. */
#include "base/assert.h"
#include "config/run.h"
#include "model/fleet.h"
#include "model/jobs.h"
#include "model/profile.h"

#include <string.h>

uint64_t
espl__sold_gpus(const struct espl__fleet *f, uint64_t limit)
{
	uint64_t gpus = 0;

	for (uint32_t i = 0; i < f->offer_count; i++) {
		const struct espl_offer *o = f->offers[i];

		if ((o->flags & ESPL_OFFER_GONE) == 0)
			gpus += o->nodes_max == ESPL_ANY ? UINT32_MAX / 2
							 : (uint64_t)o->nodes_max * o->gpus;
	}
	return gpus < limit ? gpus : limit;
}

uint32_t
espl__sold_most(const struct espl__fleet *f)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < f->offer_count; i++)
		if (f->offers[i]->gpus > most)
			most = f->offers[i]->gpus;
	return most;
}

uint32_t
espl__sold_widest(const struct espl__fleet *f, const struct espl__trial_config *t,
    const struct espl__profile *p)
{
	uint32_t widest = t->gpus_min, node = espl__sold_most(f);

	if (f->no_route && node > 0 && node < t->gpus_max)
		return node > t->gpus_min ? node : t->gpus_min;
	if (t->gpus_max != ESPL_ANY)
		return t->gpus_max;
	if (node == 0)
		return ESPL_ANY; /* nothing is offered yet */
	widest = widest > node ? (widest + node - 1) / node * node : node; /* whole machines */
	if (p != NULL && !p->guessed && p->scaling_count > 0 &&
	    p->scaling[p->scaling_count - 1].x > widest)
		widest = (uint32_t)p->scaling[p->scaling_count - 1].x;
	return widest;
}

/* Is there a number of GPUs from `min` to `max` that is part of one of the offer's nodes, or whole
 * nodes of it? */
static int
can_colocate(const struct espl_offer *o, uint64_t min, uint64_t max)
{
	uint64_t nodes;

	if ((o->flags & ESPL_OFFER_GONE) != 0 || o->gpus == 0)
		return 0;
	nodes = (min + o->gpus - 1) / o->gpus;
	if (nodes > 1 && nodes * o->gpus > max)
		return 0;
	return o->nodes_max == ESPL_ANY || nodes <= o->nodes_max;
}

/* Where the user wrote trial.gpus_min. */
static const char *
find_gpus_min_line(const struct espl__run_config *c, uint32_t *line)
{
	const struct espl__values *v = c->trial_values;

	for (uint32_t i = 0; v != NULL && i < v->config.count; i++)
		if (strcmp(espl__option_at(v->options, v->option_size, i)->name, "gpus_min") == 0 &&
		    v->files[i] != NULL) {
			*line = v->config.values[i].line;
			return v->files[i];
		}
	*line = 0;
	return c->path;
}

espl_status
espl__sold_suits(const struct espl__fleet *f, const struct espl__run_config *c,
    struct espl__diag *diag)
{
	const struct espl__trial_config *t = &c->trial;
	uint64_t gpus = espl__sold_gpus(f, c->gpus_limit);
	uint64_t most = t->gpus_max < gpus ? t->gpus_max : gpus;
	uint32_t line, i;
	const char *file = find_gpus_min_line(c, &line);

	ESPL__CHECK(c, RUN_CONFIG);
	if (gpus < t->gpus_min) {
		(void)espl__fail_at(diag, ESPL_E_CONFIG, file, line,
		    "a trial needs %u GPUs (trial.gpus_min), but cloud '%s' offers at most %llu",
		    (unsigned)t->gpus_min, c->cloud.use, (unsigned long long)gpus);
		espl__hint(diag,
		    "lower trial.gpus_min, or configure the cloud with more or larger nodes");
		return ESPL_E_CONFIG;
	}
	for (i = 0; i < f->offer_count && t->colocate; i++)
		if (can_colocate(f->offers[i], t->gpus_min, most))
			return ESPL_OK;
	if (!t->colocate)
		return ESPL_OK;
	if (t->gpus_min == most)
		(void)espl__fail_at(diag, ESPL_E_CONFIG, file, line,
		    "%u GPUs neither fit on one node of cloud '%s' nor are a multiple of whole "
		    "nodes",
		    (unsigned)t->gpus_min, c->cloud.use);
	else
		(void)espl__fail_at(diag, ESPL_E_CONFIG, file, line,
		    "no number of GPUs from %u to %llu fits on one node of cloud '%s' or is a "
		    "multiple of whole nodes",
		    (unsigned)t->gpus_min, (unsigned long long)most, c->cloud.use);
	espl__hint(diag,
	    "change trial.gpus_min or gpus_max, or allow any placement with trial.colocate = "
	    "false");
	return ESPL_E_CONFIG;
}

espl_status
espl__sold_suits_jobs(const struct espl__jobs *jobs, uint64_t gpus, const char *cloud,
    struct espl__diag *diag)
{
	ESPL__CHECK(jobs, JOBS);
	for (uint32_t i = 0; i < jobs->list.count; i++) {
		const struct espl__job *job = &jobs->list.jobs[i];

		if ((uint64_t)job->nodes_min * jobs->unit <= gpus)
			continue;
		(void)espl__fail_at(diag, ESPL_E_CONFIG, jobs->file, job->line,
		    "job '%s' needs %llu GPU%s, which is more than cloud '%s' offers (%llu)",
		    job->name, (unsigned long long)job->nodes_min * jobs->unit,
		    job->nodes_min * jobs->unit == 1 ? "" : "s", cloud, (unsigned long long)gpus);
		espl__hint(diag, "lower %s, or configure the cloud with more nodes",
		    jobs->file != NULL ? "its nodes_min (nodes_asked, if jobs are not elastic)"
				       : "workload.unit");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}
