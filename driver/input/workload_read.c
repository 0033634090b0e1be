/* workload.c - traces of jobs: read, checked line by line, written, and what policies are told of a
 * job.
 *
 * A trace out of order is refused, not sorted: rows are in order of time in every trace that was
 * written as things happened, so one that goes back in time mostly means a wrong column or two
 * files joined; and the order of rows decides who of two jobs of the same instant is first.  The
 * hint says how to sort.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/map.h"
#include "base/rng.h"
#include "base/text.h"
#include "input/csv.h"
#include "input/workload_input.h"

#define JOBS_MAX 10000000u
#define NODES_MAX 1000000
#define SECONDS_MAX 1e9 /* 31 years */
#define POINTS_MAX 64u
#define FAIL(c_, ...) espl__fail_at(diag, ESPL_E_CONFIG, (c_)->file, (c_)->line, __VA_ARGS__)

enum {
	JOB,
	ARRIVES,
	WORK,
	NODES_MIN,
	NODES_MAX_,
	MANDATORY,
	ASKED = MANDATORY,
	WEIGHT,
	ETA,
	FATE,
	FATE_AT,
	SCALING,
	COLUMNS
};
static const char *const names[COLUMNS] = { "job", "arrives_s", "work_s", "nodes_min", "nodes_max",
	"nodes_asked", "weight", "eta_s", "fate", "fate_at_s", "scaling" };

struct reading {
	struct espl__csv csv;
	uint32_t at[COLUMNS]; /* 1 + the column's place; 0: it is not there */
	uint32_t header_count, nodes;
	struct espl__map by_name; /* -> index + 1 as a pointer */
	struct espl_point *points;
	uint32_t point_cap;
};

/* ---- the header --------------------------------------------------------------------------- */

static espl_status
read_header(struct reading *r, struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;

	r->header_count = c->count;
	for (uint32_t i = 0; i < c->count; i++) {
		uint32_t k = 0;

		while (k < COLUMNS && strcmp(names[k], c->fields[i]) != 0)
			k++;
		if (k == COLUMNS) {
			const char *near = espl__nearest(c->fields[i], names, COLUMNS);

			FAIL(c, "a trace has no column '%s'", c->fields[i]);
			if (near != NULL)
				espl__hint(diag, "did you mean '%s'?", near);
			espl__hint(diag,
			    "header: "
			    "job,arrives_s,work_s,nodes_min,nodes_max[,nodes_asked][,weight][,eta_"
			    "s]"
			    "[,fate,fate_at_s][,scaling]");
			return ESPL_E_CONFIG;
		}
		if (r->at[k] > 0)
			return FAIL(c, "duplicate column '%s'", names[k]);
		r->at[k] = i + 1;
	}
	for (uint32_t k = 0; k < MANDATORY; k++)
		if (r->at[k] == 0) {
			FAIL(c, "there is no column '%s'", names[k]);
			espl__hint(diag,
			    "header: job,arrives_s,work_s,nodes_min,nodes_max, and others");
			return ESPL_E_CONFIG;
		}
	if ((r->at[FATE] > 0) != (r->at[FATE_AT] > 0))
		return FAIL(c, "the columns 'fate' and 'fate_at_s' must be used together");
	return ESPL_OK;
}

/* ---- fields ------------------------------------------------------------------------------- */

/* NULL: the column is not there, or the field is empty. */
static const char *
field_at(const struct reading *r, uint32_t column)
{
	const char *text = r->at[column] > 0 ? r->csv.fields[r->at[column] - 1] : "";

	return text[0] != '\0' ? text : NULL;
}

/* least_in 1: `least` itself is allowed. */
static espl_status
read_real(const struct reading *r, uint32_t column, double least, int least_in, double most,
    double *to, struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;
	const char *text = field_at(r, column);

	if (text == NULL && column >= MANDATORY)
		return ESPL_OK; /* the default stands */
	if (text == NULL)
		return FAIL(c, "'%s' is empty", names[column]);
	if (espl__parse_real(text, to) != 0) {
		FAIL(c, "'%s' is not a number: '%s'", names[column], text);
		espl__hint(diag, "write numbers like 90, 0.5 or 1e6, without a unit");
		return ESPL_E_CONFIG;
	}
	if (*to < least || (*to == least && !least_in))
		return FAIL(c, "'%s' is %s, but must be %s %g", names[column], text,
		    least_in ? "at least" : "above", least);
	if (*to > most)
		return FAIL(c, "'%s' is %s, but must be at most %g", names[column], text, most);
	return ESPL_OK;
}

static espl_status
read_nodes(const struct reading *r, uint32_t column, uint32_t *to, struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;
	const char *text = field_at(r, column);
	int64_t number;

	if (text == NULL && column >= MANDATORY)
		return ESPL_OK;
	if (text == NULL)
		return FAIL(c, "'%s' is empty", names[column]);
	if (espl__parse_int(text, &number) != 0)
		return FAIL(c, "'%s' is not a whole number: '%s'", names[column], text);
	if (number < 1 || number > NODES_MAX)
		return FAIL(c, "'%s' is %s, but must be from 1 to %d", names[column], text,
		    NODES_MAX);
	*to = (uint32_t)number;
	return ESPL_OK;
}

static espl_status
read_name(struct reading *r, struct espl__workload *w, struct espl__job *job,
    struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;
	const char *text = field_at(r, JOB);
	uint64_t key;
	void *known;

	if (text == NULL)
		return FAIL(c, "the job has no name");
	for (const char *p = text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			return FAIL(c, "the job's name contains a control character");
	key = espl__digest(0, text, strlen(text));
	known = espl__map_get(&r->by_name, key);
	if (known != NULL && strcmp(w->jobs[(uintptr_t)known - 1].name, text) == 0) {
		FAIL(c, "duplicate job '%s', first used in line %u", text,
		    w->jobs[(uintptr_t)known - 1].line);
		espl__hint(diag, "the names of jobs must be unique");
		return ESPL_E_CONFIG;
	}
	espl__map_set(&r->by_name, key, (void *)((uintptr_t)w->count + 1));
	job->name = espl__arena_strdup(&w->room, text);
	return ESPL_OK;
}

static espl_status
read_fate(const struct reading *r, struct espl__job *job, struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;
	const char *text = field_at(r, FATE);
	uint32_t k = 0;

	if (text == NULL && field_at(r, FATE_AT) != NULL)
		return FAIL(c, "'fate_at_s' is set, but 'fate' is not");
	if (text == NULL)
		return ESPL_OK;
	while (k < 3 && strcmp(espl__fate_names[k], text) != 0)
		k++;
	if (k == 3) {
		FAIL(c, "unknown fate '%s'", text);
		espl__hint(diag, "use done, bug or terminated");
		return ESPL_E_CONFIG;
	}
	job->fate = (enum espl__fate)k;
	if (job->fate == ESPL__FATE_DONE)
		return ESPL_OK;
	if (field_at(r, FATE_AT) == NULL)
		return FAIL(c, "'fate_at_s' is empty, but the fate of the job is %s", text);
	if (read_real(r, FATE_AT, 0, 1, SECONDS_MAX, &job->fate_at_s, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	if (job->fate == ESPL__FATE_TERMINATED && job->fate_at_s >= job->work_s)
		return FAIL(c, "it is terminated after %g s of work, but is done after %g s",
		    job->fate_at_s, job->work_s);
	return ESPL_OK;
}

/* "1:1 2:1.6 4:2.56" */
static espl_status
read_scaling(struct reading *r, struct espl__workload *w, struct espl__job *job,
    struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;
	uint32_t n = 0;
	char *p, *save = NULL;

	if (field_at(r, SCALING) == NULL)
		return ESPL_OK;
	for (p = strtok_r(c->fields[r->at[SCALING] - 1], " \t", &save); p != NULL;
	     p = strtok_r(NULL, " \t", &save)) {
		struct espl_point point;
		char *colon = strchr(p, ':');

		if (colon != NULL)
			*colon = '\0';
		if (colon == NULL || espl__parse_real(p, &point.x) != 0 ||
		    espl__parse_real(colon + 1, &point.y) != 0) {
			FAIL(c, "'scaling' must be a list of NODES:SPEED, error near '%s'", p);
			espl__hint(diag, "for example 1:1 2:1.6 4:2.56, relative to one node");
			return ESPL_E_CONFIG;
		}
		if (n == 0 && (point.x != 1 || point.y != 1))
			return FAIL(c,
			    "'scaling' must start with 1:1 because work is given for one node");
		if ((n > 0 && !(point.x > r->points[n - 1].x)) || !(point.y > 0) ||
		    point.x > NODES_MAX || point.y > NODES_MAX)
			return FAIL(c,
			    "'scaling': nodes must increase and speeds must be above 0, error at "
			    "%g:%g",
			    point.x, point.y);
		if (n == POINTS_MAX)
			return FAIL(c, "'scaling' has more than %u points", POINTS_MAX);
		ESPL__GROW(r->points, r->point_cap, n + 1);
		r->points[n++] = point;
	}
	job->scaling = espl__arena_alloc(&w->room, (n + 1) * sizeof *job->scaling);
	job->scaling_count = n;
	for (uint32_t i = 0; i < n; i++)
		job->scaling[i] = r->points[i];
	return ESPL_OK;
}

/* ---- rows --------------------------------------------------------------------------------- */

static espl_status
check_nodes(const struct reading *r, struct espl__job *job, struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;

	if (job->nodes_max < job->nodes_min)
		return FAIL(c, "job '%s' needs at least %u nodes but accepts at most %u", job->name,
		    job->nodes_min, job->nodes_max);
	if (r->nodes == ESPL_ANY || job->nodes_min <= r->nodes)
		return ESPL_OK;
	FAIL(c, "job '%s' needs at least %u nodes, but there are at most %u", job->name,
	    job->nodes_min, r->nodes);
	espl__hint(diag,
	    "configure the cloud with more nodes, or lower its nodes_min; otherwise the job waits "
	    "forever");
	return ESPL_E_CONFIG;
}

static espl_status
check_order(const struct espl__csv *c, const struct espl__workload *w, const struct espl__job *job,
    struct espl__diag *diag)
{
	const struct espl__job *last = w->count > 0 ? &w->jobs[w->count - 1] : NULL;

	if (last == NULL || job->arrives_s >= last->arrives_s)
		return ESPL_OK;
	FAIL(c,
	    "job '%s' arrives at %g s, before '%s' in line %u (%g s); rows must be in order of "
	    "arrival",
	    job->name, job->arrives_s, last->name, last->line, last->arrives_s);
	espl__hint(diag,
	    "sort by 'arrives_s' with (head -n 1 TRACE; tail -n +2 TRACE | sort -s -t, -k N,Ng) > "
	    "SORTED, where it is column N");
	return ESPL_E_CONFIG;
}

static espl_status
read_row(struct reading *r, struct espl__workload *w, struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;
	struct espl__job job = { .weight = 1, .eta_s = NAN, .line = c->line };

	if (c->count != r->header_count)
		return FAIL(c, "the row has %u fields, but the header has %u", c->count,
		    r->header_count);
	if (w->count == JOBS_MAX)
		return FAIL(c, "more than %u jobs", JOBS_MAX);
	if (read_name(r, w, &job, diag) != ESPL_OK ||
	    read_real(r, ARRIVES, 0, 1, SECONDS_MAX, &job.arrives_s, diag) != ESPL_OK ||
	    read_real(r, WORK, 0, 0, SECONDS_MAX, &job.work_s, diag) != ESPL_OK ||
	    read_nodes(r, NODES_MIN, &job.nodes_min, diag) != ESPL_OK ||
	    read_nodes(r, NODES_MAX_, &job.nodes_max, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	job.nodes_asked = job.nodes_min;
	if (r->at[ETA] == 0)
		/* no column: estimates are right; an empty field: there is none */
		job.eta_s = job.work_s;
	if (read_nodes(r, ASKED, &job.nodes_asked, diag) != ESPL_OK ||
	    read_real(r, WEIGHT, 0, 0, 1e6, &job.weight, diag) != ESPL_OK ||
	    read_real(r, ETA, 0, 1, SECONDS_MAX, &job.eta_s, diag) != ESPL_OK ||
	    read_fate(r, &job, diag) != ESPL_OK || read_scaling(r, w, &job, diag) != ESPL_OK ||
	    check_nodes(r, &job, diag) != ESPL_OK || check_order(c, w, &job, diag) != ESPL_OK)
		return ESPL_E_CONFIG;
	ESPL__GROW(w->jobs, w->cap, w->count + 1);
	w->jobs[w->count++] = job;
	return ESPL_OK;
}

static espl_status
read_all(struct reading *r, struct espl__workload *w, struct espl__diag *diag)
{
	const struct espl__csv *c = &r->csv;
	espl_status status;
	int more;

	status = espl__csv_next(&r->csv, &more, diag);
	if (status == ESPL_OK && !more) {
		FAIL(c, "the trace is empty");
		espl__hint(diag,
		    "header: job,arrives_s,work_s,nodes_min,nodes_max; then a row for each job");
		return ESPL_E_CONFIG;
	}
	if (status == ESPL_OK)
		status = read_header(r, diag);
	while (status == ESPL_OK) {
		status = espl__csv_next(&r->csv, &more, diag);
		if (status != ESPL_OK || !more)
			break;
		status = read_row(r, w, diag);
	}
	return status == ESPL_OK && w->count == 0 ? FAIL(c, "the trace has a header but no jobs")
						  : status;
}

espl_status
espl__workload_read(struct espl__workload *w, const char *file, struct espl__buf *text,
    uint32_t nodes, struct espl__diag *diag)
{
	struct reading r = { .nodes = nodes };
	espl_status status;

	memset(w, 0, sizeof *w);
	espl__csv_open(&r.csv, file, text);
	status = read_all(&r, w, diag);
	espl__csv_close(&r.csv);
	espl__map_free(&r.by_name);
	free(r.points);
	return status;
}

espl_status
espl__workload_fix(struct espl__workload *w, const char *file, uint32_t nodes,
    struct espl__diag *diag)
{
	for (uint32_t i = 0; i < w->count; i++) {
		struct espl__job *job = &w->jobs[i];

		if (nodes != ESPL_ANY && job->nodes_asked > nodes) {
			espl__fail_at(diag, ESPL_E_CONFIG, file, job->line,
			    "job '%s' requests %u nodes, but there are at most %u", job->name,
			    job->nodes_asked, nodes);
			espl__hint(diag,
			    "configure the cloud with more nodes, or make jobs elastic so that "
			    "they need fewer");
			return ESPL_E_CONFIG;
		}
		job->nodes_min = job->nodes_max = job->nodes_asked;
	}
	return ESPL_OK;
}
