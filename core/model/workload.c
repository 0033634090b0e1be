/* workload.c - the jobs of a workload: written as a trace, and what policies see of each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "model/workload.h"

const char *const espl__fate_names[3] = { "done", "bug", "terminated" };

void
espl__workload_free(struct espl__workload *w)
{
	free(w->jobs);
	espl__arena_free(&w->room);
	memset(w, 0, sizeof *w);
}

/* ---- written ------------------------------------------------------------------------------ */

/* Quoted where it has to be. */
static void
print_name(struct espl__buf *to, const char *name)
{
	if (strpbrk(name, "\",") == NULL && name[0] != '#' && name[strlen(name) - 1] != ' ' &&
	    name[0] != ' ') {
		espl__print(to, "%s", name);
		return;
	}
	espl__print(to, "\"");
	for (; *name != '\0'; name++)
		espl__print(to, *name == '"' ? "\"\"" : "%c", *name);
	espl__print(to, "\"");
}

void
espl__workload_print(const struct espl__workload *w, struct espl__buf *to)
{
	char a[32], b[32], e[32], v[32], f[32];

	espl__print(to,
	    "job,arrives_s,work_s,nodes_min,nodes_max,nodes_asked,weight,eta_s,fate,fate_at_s,"
	    "scaling\n");
	for (uint32_t i = 0; i < w->count; i++) {
		const struct espl__job *job = &w->jobs[i];
		int done = job->fate == ESPL__FATE_DONE;

		print_name(to, job->name);
		espl__print(to, ",%s,%s,%u,%u,%u,%s,%s,%s,%s,",
		    espl__format_real(job->arrives_s, a), espl__format_real(job->work_s, b),
		    job->nodes_min, job->nodes_max, job->nodes_asked,
		    espl__format_real(job->weight, v),
		    isnan(job->eta_s) ? "" : espl__format_real(job->eta_s, e),
		    espl__fate_names[job->fate], done ? "" : espl__format_real(job->fate_at_s, f));
		for (uint32_t k = 0; k < job->scaling_count; k++)
			espl__print(to, "%s%s:%s", k > 0 ? " " : "",
			    espl__format_real(job->scaling[k].x, a),
			    espl__format_real(job->scaling[k].y, b));
		espl__print(to, "\n");
	}
}

/* ---- what is known of a job --------------------------------------------------------------- */

double
espl__workload_left(const struct espl__workload *w, uint32_t job, double served_s, uint64_t draw)
{
	const struct espl__job *j = &w->jobs[job];
	double left;

	if (w->redraw > 0) {
		uint64_t key[2] = { job, draw };
		struct espl__rng rng;

		espl__rng_seed(&rng, espl__digest(w->seed, key, sizeof key), "workload.left");
		left = (j->work_s - served_s) * (1 + w->redraw * (2 * espl__rng_uniform(&rng) - 1));
	} else {
		left = j->eta_s - served_s;
	}
	return left < 0 ? 0 : left;
}

double
espl__job_speed(const struct espl__job *job, uint32_t nodes, double doubling)
{
	const struct espl_point *p = job->scaling;
	double x = nodes;

	if (nodes == 0)
		return 0;
	if (job->scaling_count == 0)
		return x * pow(doubling, log2(x));
	for (uint32_t i = 1; i < job->scaling_count; i++)
		if (x <= p[i].x)
			return p[i - 1].y +
			    (p[i].y - p[i - 1].y) * (x - p[i - 1].x) / (p[i].x - p[i - 1].x);
	return p[job->scaling_count - 1].y;
}
