/* jobs_load.c - reads or draws the jobs of a configuration's workload. */
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "input/run_groups.h"
#include "input/workload_input.h"

#define TRACE_MAX (256u << 20) /* bytes of a trace */

/* ---- tables ------------------------------------------------------------------------------- */

/* Points at the powers of two: what allocators grant, and the law says. */
static void
tabulate_scaling(struct espl__jobs *jobs, uint32_t number)
{
	const struct espl__job *job = &jobs->list.jobs[number];
	struct espl_point *points =
	    espl__arena_alloc(&jobs->room, (job->scaling_count + (size_t)34) * sizeof *points);
	uint32_t n = 0;

	for (uint32_t i = 0; i < job->scaling_count; i++, n++) {
		points[n].x = job->scaling[i].x * jobs->unit;
		points[n].y = job->scaling[i].y;
	}
	for (uint64_t k = 1; job->scaling_count == 0; k *= 2) {
		points[n].x = (double)(k * jobs->unit);
		points[n++].y = espl__job_speed(job, (uint32_t)k, jobs->doubling);
		if (k >= job->nodes_max || k >= UINT32_C(1) << 30)
			break;
	}
	jobs->scaling[number] = points;
	jobs->scaling_count[number] = n;
}

/* ---- reading and drawing ------------------------------------------------------------------ */

static const struct espl_value *
value_of(const struct espl__run_config *c, uint32_t option)
{
	return &c->workload_values->config.values[option];
}

static espl_status
draw_workload(struct espl__jobs *jobs, const struct espl__run_config *c, struct espl__diag *diag)
{
	struct espl__workload_draw how = ESPL__WORKLOAD_DRAW;
	struct espl__diag why = ESPL__DIAG_INIT;
	espl_status status;

	how.seed = c->seed;
	how.jobs = (uint32_t)value_of(c, WORKLOAD_JOBS)->as.i;
	how.small = (uint32_t)value_of(c, WORKLOAD_SMALL)->as.i;
	how.span_s = (double)value_of(c, WORKLOAD_SPAN)->as.i / 1e9;
	how.mean_s = (double)value_of(c, WORKLOAD_MEAN)->as.i / 1e9;
	how.m = value_of(c, WORKLOAD_M)->as.r;
	how.sigma = value_of(c, WORKLOAD_SIGMA)->as.r;
	how.least_s = (double)value_of(c, WORKLOAD_LEAST)->as.i / 1e9;
	how.stratified = value_of(c, WORKLOAD_STRATIFIED)->as.i != 0;
	how.arrivals = (enum espl__arrivals)value_of(c, WORKLOAD_ARRIVALS)->as.i;
	how.nodes_max = (uint32_t)value_of(c, WORKLOAD_NODES_MAX)->as.i;
	how.redraw = value_of(c, WORKLOAD_REDRAW)->as.i != 0;
	how.noise = value_of(c, WORKLOAD_NOISE)->as.r;
	how.bugs = value_of(c, WORKLOAD_BUGS)->as.r;
	how.terminated = value_of(c, WORKLOAD_TERMINATED)->as.r;
	status = espl__workload_draw(&jobs->list, &how, &why);
	if (status != ESPL_OK) {
		const struct espl__node *group =
		    espl__node_get(espl__tree_root(c->tree), "workload");

		(void)espl__fail_at(diag, status, group->file, group->line, "workload: %s",
		    why.text);
		if (why.hint[0] != '\0')
			espl__hint(diag, "%s", why.hint);
	}
	return status;
}

static espl_status
read_trace(struct espl__jobs *jobs, const struct espl__run_config *c, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status;

	jobs->file = espl__arena_strdup(&jobs->room, c->trace);
	status = espl__file_read(c->trace, TRACE_MAX, &text, diag);
	if (status == ESPL_OK)
		status = espl__workload_read(&jobs->list, jobs->file, &text, ESPL_ANY, diag);
	if (status == ESPL_OK && value_of(c, WORKLOAD_REDRAW)->as.i != 0) {
		jobs->list.redraw = value_of(c, WORKLOAD_NOISE)->as.r;
		jobs->list.seed = c->seed;
	}
	espl__buf_free(&text);
	return status;
}

espl_status
espl__jobs_space(struct espl__jobs *jobs, struct espl__space **space, struct espl__diag *diag)
{
	static const char text[] =
	    "space = { work_s = { type = \"real\"; low = 0.0; high = 1e15; }; iteration_s = { type "
	    "= \"real\"; low = 0.0; high = 1e15; }; };";
	espl_status status = espl__tree_parse(text, "jobs", &jobs->tree, diag);

	ESPL__CHECK(jobs, JOBS);
	if (status == ESPL_OK)
		status = espl__space_parse(espl__node_get(espl__tree_root(jobs->tree), "space"),
		    space, diag);
	return status;
}

espl_status
espl__jobs_load(const struct espl__run_config *c, struct espl__jobs **to, struct espl__diag *diag)
{
	struct espl__jobs *jobs = espl__alloc(sizeof *jobs);
	espl_status status;

	ESPL__CHECK(c, RUN_CONFIG);
	jobs->magic = ESPL__JOBS_MAGIC;
	*to = NULL;
	jobs->unit = 1;
	jobs->doubling = 0.8;
	if (c->workload == NULL) {
		*to = jobs;
		return ESPL_OK;
	}
	jobs->unit = (uint32_t)value_of(c, WORKLOAD_UNIT)->as.i;
	jobs->iteration_s = (double)value_of(c, WORKLOAD_ITERATION)->as.i / 1e9;
	jobs->step_s = (double)value_of(c, WORKLOAD_STEP)->as.i / 1e9;
	jobs->doubling = value_of(c, WORKLOAD_DOUBLING)->as.r;
	status = c->trace != NULL ? read_trace(jobs, c, diag) : draw_workload(jobs, c, diag);
	if (status == ESPL_OK && value_of(c, WORKLOAD_ELASTIC)->as.i == 0)
		status = espl__workload_fix(&jobs->list, c->trace != NULL ? jobs->file : "workload",
		    ESPL_ANY, diag);
	if (status != ESPL_OK) {
		espl__jobs_free(jobs);
		return status;
	}
	jobs->scaling =
	    espl__arena_alloc(&jobs->room, (jobs->list.count + (size_t)1) * sizeof *jobs->scaling);
	jobs->scaling_count = espl__arena_alloc(&jobs->room,
	    (jobs->list.count + (size_t)1) * sizeof *jobs->scaling_count);
	for (uint32_t i = 0; i < jobs->list.count; i++)
		tabulate_scaling(jobs, i);
	*to = jobs;
	return ESPL_OK;
}
