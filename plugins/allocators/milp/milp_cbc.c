/* milp_cbc.c - CBC's C interface (milp_cbc.h).
 *
 * What it says is not believed but looked at: a solution counts if its choices keep the limits, by
 * its value as computed here; "infeasible" cannot be, since the least widths always fit, and is
 * answered by another try without the preprocessing that was seen to be at fault.
 */
#include "milp_cbc.h"
#include <math.h>
#include <string.h>
#include <espalier/util.h>

#ifndef MILP_CBC_LIBRARY /* made by configure: the library's file name */

int
allocator_milp_cbc_there(void)
{
	return 0;
}

espl_status
allocator_milp_cbc(const struct milp_problem *problem, const struct milp_cbc *how,
    struct milp_plan *plan, struct espl_error *error)
{
	(void)problem, (void)how, (void)plan;
	return espl_fail(error, ESPL_E_UNSUPPORTED, "this version was built without CBC");
}

#else
#include <dlfcn.h>
#include <Cbc_C_Interface.h>

/* The functions of the library that are used. */
/* clang-format off */
#define CBC_FUNCTIONS(_) \
	_(newModel) _(deleteModel) _(addCol) _(addRow) _(setObjSense) _(setParameter) \
	  _(setMIPStartI) \
	_(solve) _(status) _(isProvenOptimal) _(isProvenInfeasible) _(getColSolution) \
	  _(getObjValue) \
	_(getBestPossibleObjValue) _(setLogLevel)
/* clang-format on */
struct cbc {
	void *library;
#define CBC_FIELD(name_) __typeof__(&Cbc_##name_) name_;
	CBC_FUNCTIONS(CBC_FIELD)
};

int
allocator_milp_cbc_there(void)
{
	return 1;
}

static espl_status
open_library(struct cbc *cbc, struct espl_error *error)
{
	cbc->library = dlopen(MILP_CBC_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (cbc->library == NULL)
		return espl_fail(error, ESPL_E_REMOTE, "%.200s", dlerror());
#define CBC_FIND(name_) \
	cbc->name_ = (__typeof__(cbc->name_))(uintptr_t)dlsym(cbc->library, "Cbc_" #name_); \
	if (cbc->name_ == NULL) \
		return espl_fail(error, ESPL_E_REMOTE, "%s has no function Cbc_%s", \
		    MILP_CBC_LIBRARY, #name_);
	CBC_FUNCTIONS(CBC_FIND)
	return ESPL_OK;
}

static Cbc_Model *
load_model(const struct cbc *cbc, const struct milp_form *form)
{
	Cbc_Model *model = cbc->newModel();
	char name[24];
	uint32_t i;

	if (model == NULL)
		return NULL;
	cbc->setLogLevel(model, 0);
	for (i = 0; i < form->column_count; i++) {
		(void)snprintf(name, sizeof name, "c%u", i);
		cbc->addCol(model, name, form->low[i], form->high[i], form->gain[i],
		    (char)form->integer[i], 0, NULL, NULL);
	}
	for (i = 0; i < form->row_count; i++) {
		uint32_t from = form->row_from[i];
		int count = (int)(form->row_from[i + 1] - from);
		const int *entries = (const int *)(const void *)(form->entry + from);
		const double *factors = form->factor + from;

		(void)snprintf(name, sizeof name, "r%u", i);
		if (form->row_low[i] == form->row_high[i]) {
			cbc->addRow(model, name, count, entries, factors, 'E', form->row_high[i]);
		} else if (isinf(form->row_low[i])) {
			cbc->addRow(model, name, count, entries, factors, 'L', form->row_high[i]);
		} else {
			cbc->addRow(model, name, count, entries, factors, 'G', form->row_low[i]);
		}
	}
	cbc->setObjSense(model, -1);
	return model;
}

static void
set_limits(const struct cbc *cbc, Cbc_Model *model, const struct milp_cbc *how)
{
	char text[32];

	cbc->setParameter(model, "log", "0");
	cbc->setParameter(model, "timeMode", "elapsed");
	if (how->limit_s > 0) {
		(void)snprintf(text, sizeof text, "%.3f", how->limit_s);
		cbc->setParameter(model, "sec", text);
	}
	(void)snprintf(text, sizeof text, "%u", how->nodes);
	cbc->setParameter(model, "maxN", text);
	(void)snprintf(text, sizeof text, "%.9g", how->gap > MILP_CLOSE ? how->gap : MILP_CLOSE);
	cbc->setParameter(model, "ratioGap", text);
	cbc->setParameter(model, "allowableGap", "1e-9");
}

/* Takes the solution, if there is one and it is as good as the plan. */
static espl_status
take_solution(const struct cbc *cbc, Cbc_Model *model, const struct milp_form *form,
    const struct milp_problem *problem, const struct milp_cbc *how, struct milp_plan *plan,
    struct espl_error *error)
{
	size_t size = (size_t)problem->job_count * problem->steps;
	const double *columns = cbc->getColSolution(model);
	uint64_t used[MILP_STEPS];
	uint8_t *choice;
	double value;

	if (columns == NULL || !(fabs(cbc->getObjValue(model)) < 1e40))
		return espl_fail(error, ESPL_E_REMOTE, "CBC found no plan within its limits");
	choice = malloc(size + 1);
	if (choice == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	allocator_milp_form_read(form, problem, columns, choice);
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
	if (cbc->isProvenOptimal(model) && value * (1 + how->gap) < plan->bound)
		plan->bound = value * (1 + how->gap);
	if (cbc->isProvenOptimal(model) && how->gap <= MILP_CLOSE)
		plan->status = MILP_OPTIMAL;
	return ESPL_OK;
}

/* A start from the plan's choices: the variables that are not 0. */
static espl_status
set_start(const struct cbc *cbc, Cbc_Model *model, const struct milp_form *form,
    const struct milp_problem *problem, const struct milp_plan *plan, struct espl_error *error)
{
	double *columns = malloc(((size_t)form->column_count + 1) * sizeof *columns);
	int *where = malloc(((size_t)form->column_count + 1) * sizeof *where), count = 0;
	uint32_t i;

	if (columns != NULL && where != NULL) {
		allocator_milp_form_write(form, problem, plan->choice, columns);
		for (i = 0; i < form->column_count; i++)
			if (columns[i] > 0) {
				where[count] = (int)i;
				columns[count++] = columns[i];
			}
		cbc->setMIPStartI(model, count, where, columns);
	}
	free(where);
	free(columns);
	return columns != NULL && where != NULL ? ESPL_OK
						: espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

/* plain 1: without preprocessing.  ESPL_E_INFEASIBLE: so it says. */
static espl_status
try_once(const struct cbc *cbc, const struct milp_form *form, const struct milp_problem *problem,
    const struct milp_cbc *how, int plain, struct milp_plan *plan, struct espl_error *error)
{
	Cbc_Model *model = load_model(cbc, form);
	espl_status status;

	if (model == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "CBC cannot create a model");
	set_limits(cbc, model, how);
	if (plain)
		cbc->setParameter(model, "preprocess", "off");
	status = set_start(cbc, model, form, problem, plan, error);
	if (status == ESPL_OK) {
		cbc->solve(model);
		status = cbc->isProvenInfeasible(model)
		    ? ESPL_E_INFEASIBLE
		    : take_solution(cbc, model, form, problem, how, plan, error);
	}
	cbc->deleteModel(model);
	return status;
}

espl_status
allocator_milp_cbc(const struct milp_problem *problem, const struct milp_cbc *how,
    struct milp_plan *plan, struct espl_error *error)
{
	struct milp_form form;
	struct cbc cbc;
	espl_status status = open_library(&cbc, error);

	if (status != ESPL_OK)
		return status;
	if (!allocator_milp_form(&form, problem, how->formulation, how->big_m))
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	status = try_once(&cbc, &form, problem, how, 0, plan, error);
	if (status == ESPL_E_INFEASIBLE)
		status = try_once(&cbc, &form, problem, how, 1, plan, error);
	if (status == ESPL_E_INFEASIBLE)
		status =
		    espl_fail(error, ESPL_E_REMOTE, "CBC reports a feasible problem as infeasible");
	allocator_milp_form_free(&form);
	return status;
}
#endif
