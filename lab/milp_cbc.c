/* milp_cbc.c - a decision as a mixed-integer linear program, in two formulations, given to CBC. */
#include <math.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/util.h>
#include "milp_cbc.h"

/* ---- program --------------------------------------------------------------------------------- */

/* ---- rows and columns --------------------------------------------------------------------- */

static void *
grow_list(struct milp_form *form, void *list, uint32_t room, size_t size)
{
	void *more = realloc(list, room * size);

	if (more == NULL)
		form->failed = 1;
	return more != NULL ? more : list;
}

static uint32_t
add_column(struct milp_form *form, double low, double high, double gain, int integer)
{
	uint32_t at = form->column_count;

	if (at == form->column_room) {
		uint32_t room = at > 0 ? 2 * at : 256;

		form->low = grow_list(form, form->low, room, sizeof *form->low);
		form->high = grow_list(form, form->high, room, sizeof *form->high);
		form->gain = grow_list(form, form->gain, room, sizeof *form->gain);
		form->integer = grow_list(form, form->integer, room, sizeof *form->integer);
		if (form->failed)
			return 0;
		form->column_room = room;
	}
	form->low[at] = low;
	form->high[at] = high;
	form->gain[at] = gain;
	form->integer[at] = (uint8_t)integer;
	form->column_count++;
	return at;
}

static void
add_entry(struct milp_form *form, uint32_t at, double factor)
{
	if (form->entry_count == form->entry_room) {
		uint32_t room = form->entry_room > 0 ? 2 * form->entry_room : 1024;

		form->entry = grow_list(form, form->entry, room, sizeof *form->entry);
		form->factor = grow_list(form, form->factor, room, sizeof *form->factor);
		if (form->failed)
			return;
		form->entry_room = room;
	}
	form->entry[form->entry_count] = at;
	form->factor[form->entry_count++] = factor;
}

/* Ends the row whose entries were just given. */
static void
end_row(struct milp_form *form, double low, double high)
{
	if (form->row_count + 1 >= form->row_room) {
		uint32_t room = form->row_room > 0 ? 2 * form->row_room : 256;

		form->row_low = grow_list(form, form->row_low, room, sizeof *form->row_low);
		form->row_high = grow_list(form, form->row_high, room, sizeof *form->row_high);
		form->row_from = grow_list(form, form->row_from, room, sizeof *form->row_from);
		if (form->failed)
			return;
		if (form->row_count == 0)
			form->row_from[0] = 0;
		form->row_room = room;
	}
	ESPL_ASSERT(form->row_count + 1 < form->row_room);
	form->row_low[form->row_count] = low;
	form->row_high[form->row_count] = high;
	form->row_from[++form->row_count] = form->entry_count;
}

/* ---- the formulations --------------------------------------------------------------------- */

/* Columns of a job in a step: served, then (paper: the number of nodes, then) binaries. */
static uint32_t
block_columns(const struct milp_form *form, const struct milp_job *job)
{
	return form->kind == MILP_PAPER ? 2 + 2 * job->count : 1 + job->count;
}

/* What the choice serves in the step, in steps on the least width. */
static double
served_steps(const struct milp_job *job, uint32_t step, uint32_t choice)
{
	return milp_gain(job, step, choice) / job->rate[0];
}

static void
add_columns(struct milp_form *form, const struct milp_job *job)
{
	uint32_t c;

	(void)add_column(form, 0, 1 / job->rate[0], job->weight * job->rate[0], 0);
	if (form->kind == MILP_PAPER)
		(void)add_column(form, job->width[0], job->width[job->count - 1], 0, 1);
	for (c = form->kind == MILP_PAPER ? 0 : job->count; c < 2 * job->count; c++)
		(void)add_column(form, 0, 1, 0, 1);
}

/* A job has one width in each step, and `served` grows by the speed of that width. */
static void
add_binaries(struct milp_form *form, const struct milp_job *job, uint32_t t, uint32_t at)
{
	uint32_t c;

	for (c = 0; c < job->count; c++)
		add_entry(form, at + 1 + c, 1);
	end_row(form, 1, 1);
	add_entry(form, at, 1);
	if (t > 0)
		add_entry(form, at - block_columns(form, job), -1);
	for (c = 0; c < job->count; c++)
		add_entry(form, at + 1 + c, -served_steps(job, t, c));
	end_row(form, -INFINITY, 0);
}

static void
add_paper(struct milp_form *form, const struct milp_job *job, uint32_t t, uint32_t at, double m)
{
	uint32_t c, nodes = at + 1, below = at + 2, above = at + 2 + job->count;
	double always = 0;

	for (c = 0; c < job->count; c++) {
		double k = job->width[c];

		add_entry(form, nodes, 1); /* (16): below is 1 iff nodes <= k */
		add_entry(form, below + c, m);
		end_row(form, -INFINITY, k + m);
		add_entry(form, nodes, 1);
		add_entry(form, below + c, m + 1 / m);
		end_row(form, k + 1 / m, INFINITY);
		add_entry(form, nodes, -1); /* (17): above is 1 iff nodes >= k */
		add_entry(form, above + c, m);
		end_row(form, -INFINITY, m - k);
		add_entry(form, nodes, -1);
		add_entry(form, above + c, m + 1 / m);
		end_row(form, 1 / m - k, INFINITY);
	}
	for (c = 0; c < 2 * job->count; c++) /* (18) */
		add_entry(form, below + c, 1);
	end_row(form, job->count + 1.0, job->count + 1.0);
	add_entry(form, at, 1); /* (19), (20) */
	if (t > 0)
		add_entry(form, at - block_columns(form, job), -1);
	for (c = 0; c < job->count; c++) {
		add_entry(form, below + c, -served_steps(job, t, c));
		add_entry(form, above + c, -served_steps(job, t, c));
		always -= served_steps(job, t, c);
	}
	end_row(form, -INFINITY, always);
}

int
milp_form_make(struct milp_form *form, const struct milp_problem *problem,
    enum milp_formulation kind, double big_m)
{
	uint32_t i, t, c, at = 0;

	memset(form, 0, sizeof *form);
	form->kind = kind;
	for (i = 0; i < problem->job_count; i++)
		for (t = 0; t < problem->steps; t++)
			add_columns(form, &problem->jobs[i]);
	for (i = 0; i < problem->job_count; i++) {
		const struct milp_job *job = &problem->jobs[i];
		double m = (double)job->width[job->count - 1] - job->width[0] + 1;

		for (t = 0; t < problem->steps; t++, at += block_columns(form, job)) {
			if (kind == MILP_PAPER)
				add_paper(form, job, t, at, m < big_m ? big_m : m);
			else
				add_binaries(form, job, t, at);
		}
	}
	for (t = 0; t < problem->steps; t++) {
		for (i = 0, at = 0; i < problem->job_count; i++) {
			const struct milp_job *job = &problem->jobs[i];
			uint32_t here = at + t * block_columns(form, job);

			if (kind == MILP_PAPER)
				add_entry(form, here + 1, 1);
			for (c = 0; kind == MILP_BINARIES && c < job->count; c++)
				add_entry(form, here + 1 + c, job->width[c]);
			at += problem->steps * block_columns(form, job);
		}
		end_row(form, -INFINITY, problem->total);
	}
	if (form->failed)
		milp_form_free(form);
	return !form->failed;
}

void
milp_form_free(struct milp_form *form)
{
	free(form->low);
	free(form->high);
	free(form->gain);
	free(form->integer);
	free(form->row_low);
	free(form->row_high);
	free(form->row_from);
	free(form->entry);
	free(form->factor);
	form->low = form->high = form->gain = form->row_low = form->row_high = form->factor = NULL;
	form->integer = NULL;
	form->row_from = form->entry = NULL;
}

/* ---- plans -------------------------------------------------------------------------------- */

void
milp_form_write(const struct milp_form *form, const struct milp_problem *problem,
    const uint8_t *choice, double *columns)
{
	uint32_t i, t, c, at = 0;

	memset(columns, 0, form->column_count * sizeof *columns);
	for (i = 0; i < problem->job_count; i++) {
		const struct milp_job *job = &problem->jobs[i];
		double served = 0;

		for (t = 0; t < problem->steps; t++, at += block_columns(form, job)) {
			uint32_t mine = choice[(size_t)i * problem->steps + t];

			served += served_steps(job, t, mine);
			served = served < 1 / job->rate[0] ? served : 1 / job->rate[0];
			columns[at] = served;
			if (form->kind == MILP_BINARIES) {
				columns[at + 1 + mine] = 1;
				continue;
			}
			columns[at + 1] = job->width[mine];
			for (c = 0; c < job->count; c++) {
				columns[at + 2 + c] = mine <= c;
				columns[at + 2 + job->count + c] = mine >= c;
			}
		}
	}
}

void
milp_form_read(const struct milp_form *form, const struct milp_problem *problem,
    const double *columns, uint8_t *choice)
{
	uint32_t i, t, c, at = 0;

	for (i = 0; i < problem->job_count; i++) {
		const struct milp_job *job = &problem->jobs[i];

		for (t = 0; t < problem->steps; t++, at += block_columns(form, job)) {
			uint8_t best = 0;

			for (c = 1; c < job->count; c++) {
				int nearer = form->kind == MILP_BINARIES
				    ? columns[at + 1 + c] > columns[at + 1 + best]
				    : fabs(columns[at + 1] - job->width[c]) <
					fabs(columns[at + 1] - job->width[best]);

				best = nearer ? (uint8_t)c : best;
			}
			choice[(size_t)i * problem->steps + t] = best;
		}
	}
}

/* ---- CBC ------------------------------------------------------------------------------------- */

/* CBC's C interface.
 *
 * What it says is not believed but looked at: a solution counts if its choices keep the limits, by
 * its value as computed here; "infeasible" cannot be, since the least widths always fit, and is
 * answered by another try without the preprocessing that was seen to be at fault.
 */

#ifndef HAVE_CBC /* made by configure */

int
milp_cbc_there(void)
{
	return 0;
}

espl_status
milp_cbc_solve(const struct milp_problem *problem, const struct milp_cbc *how,
    struct milp_plan *plan, struct espl_error *error)
{
	(void)problem, (void)how, (void)plan;
	return espl_fail(error, ESPL_E_UNSUPPORTED, "built without CBC");
}

#else
#include <Cbc_C_Interface.h>

int
milp_cbc_there(void)
{
	return 1;
}

static Cbc_Model *
load_model(const struct milp_form *form)
{
	Cbc_Model *model = Cbc_newModel();
	char name[24];
	uint32_t i;

	if (model == NULL)
		return NULL;
	Cbc_setLogLevel(model, 0);
	for (i = 0; i < form->column_count; i++) {
		(void)snprintf(name, sizeof name, "c%u", i);
		Cbc_addCol(model, name, form->low[i], form->high[i], form->gain[i],
		    (char)form->integer[i], 0, NULL, NULL);
	}
	for (i = 0; i < form->row_count; i++) {
		uint32_t from = form->row_from[i];
		int count = (int)(form->row_from[i + 1] - from);
		const int *entries = (const int *)(const void *)(form->entry + from);
		const double *factors = form->factor + from;

		(void)snprintf(name, sizeof name, "r%u", i);
		if (form->row_low[i] == form->row_high[i]) {
			Cbc_addRow(model, name, count, entries, factors, 'E', form->row_high[i]);
		} else if (isinf(form->row_low[i])) {
			Cbc_addRow(model, name, count, entries, factors, 'L', form->row_high[i]);
		} else {
			Cbc_addRow(model, name, count, entries, factors, 'G', form->row_low[i]);
		}
	}
	Cbc_setObjSense(model, -1);
	return model;
}

static void
set_limits(Cbc_Model *model, const struct milp_cbc *how)
{
	char text[32];

	Cbc_setParameter(model, "log", "0");
	Cbc_setParameter(model, "timeMode", "elapsed");
	if (how->limit_s > 0) {
		(void)snprintf(text, sizeof text, "%.3f", how->limit_s);
		Cbc_setParameter(model, "sec", text);
	}
	(void)snprintf(text, sizeof text, "%u", how->nodes);
	Cbc_setParameter(model, "maxN", text);
	(void)snprintf(text, sizeof text, "%.9g", how->gap > MILP_CLOSE ? how->gap : MILP_CLOSE);
	Cbc_setParameter(model, "ratioGap", text);
	Cbc_setParameter(model, "allowableGap", "1e-9");
}

/* Adopts cbc's solution if there is one and it is at least as good as the plan. */
static espl_status
take_solution(Cbc_Model *model, const struct milp_form *form, const struct milp_problem *problem,
    const struct milp_cbc *how, struct milp_plan *plan, struct espl_error *error)
{
	size_t size = (size_t)problem->job_count * problem->steps;
	const double *columns = Cbc_getColSolution(model);
	uint64_t used[MILP_STEPS];
	uint8_t *choice;
	double value;

	if (columns == NULL || !(fabs(Cbc_getObjValue(model)) < 1e40))
		return espl_fail(error, ESPL_E_REMOTE, "CBC found no plan within its limits");
	choice = malloc(size + 1);
	if (choice == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	milp_form_read(form, problem, columns, choice);
	value = allocator_milp_value(problem, choice);
	if (!allocator_milp_used(problem, choice, used) || value < plan->value * (1 - MILP_CLOSE)) {
		free(choice);
		return espl_fail(error, ESPL_E_REMOTE,
		    "CBC's plan does not fit or is worse than that of the heuristic");
	}
	memcpy(plan->choice, choice, size);
	free(choice);
	plan->value = value;
	plan->status = MILP_BOUNDED;
	if (Cbc_isProvenOptimal(model) && value * (1 + how->gap) < plan->bound)
		plan->bound = value * (1 + how->gap);
	if (Cbc_isProvenOptimal(model) && how->gap <= MILP_CLOSE)
		plan->status = MILP_OPTIMAL;
	return ESPL_OK;
}

/* A start from the plan's choices: the variables that are not 0. */
static espl_status
set_start(Cbc_Model *model, const struct milp_form *form, const struct milp_problem *problem,
    const struct milp_plan *plan, struct espl_error *error)
{
	double *columns = malloc(((size_t)form->column_count + 1) * sizeof *columns);
	int *where = malloc(((size_t)form->column_count + 1) * sizeof *where), count = 0;
	uint32_t i;

	if (columns != NULL && where != NULL) {
		milp_form_write(form, problem, plan->choice, columns);
		for (i = 0; i < form->column_count; i++)
			if (columns[i] > 0) {
				where[count] = (int)i;
				columns[count++] = columns[i];
			}
		Cbc_setMIPStartI(model, count, where, columns);
	}
	free(where);
	free(columns);
	return columns != NULL && where != NULL ? ESPL_OK
						: espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

/* plain 1: without preprocessing.  ESPL_E_INFEASIBLE: so it says. */
static espl_status
try_once(const struct milp_form *form, const struct milp_problem *problem,
    const struct milp_cbc *how, int plain, struct milp_plan *plan, struct espl_error *error)
{
	Cbc_Model *model = load_model(form);
	espl_status status;

	if (model == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "CBC cannot create a model");
	set_limits(model, how);
	if (plain)
		Cbc_setParameter(model, "preprocess", "off");
	status = set_start(model, form, problem, plan, error);
	if (status == ESPL_OK) {
		Cbc_solve(model);
		status = Cbc_isProvenInfeasible(model)
		    ? ESPL_E_INFEASIBLE
		    : take_solution(model, form, problem, how, plan, error);
	}
	Cbc_deleteModel(model);
	return status;
}

espl_status
milp_cbc_solve(const struct milp_problem *problem, const struct milp_cbc *how,
    struct milp_plan *plan, struct espl_error *error)
{
	struct milp_form form;
	espl_status status;

	if (!milp_form_make(&form, problem, how->formulation, how->big_m))
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	status = try_once(&form, problem, how, 0, plan, error);
	if (status == ESPL_E_INFEASIBLE)
		status = try_once(&form, problem, how, 1, plan, error);
	if (status == ESPL_E_INFEASIBLE)
		status =
		    espl_fail(error, ESPL_E_REMOTE, "CBC reports a feasible problem as infeasible");
	milp_form_free(&form);
	return status;
}
#endif
