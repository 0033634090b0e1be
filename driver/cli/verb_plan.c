/* verb_plan.c - what a search will take and cost, before a cent is spent. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/plan.h"
#include "cli/profile.h"

#define GIVEN_MAX 10000u /* stages of a plan that is given */

struct planning {
	const struct espl__args *args;
	struct espl__inputs inputs;
	struct espl__arena arena;
	struct espl__plan_answer answer;
	struct espl__frontier frontier;
	struct espl__plan_view view;
	uint32_t *gpus; /* --gpus; NULL: not given */
	uint32_t gpus_count;
};

/* "32,16,4" */
static espl_status
read_gpus(struct planning *p, const char *text, struct espl__diag *diag)
{
	const char *at = text, *end;
	char number[24];
	int64_t value;

	for (; at != NULL; at = *end == ',' ? end + 1 : NULL) {
		end = at + strcspn(at, ",");
		(void)snprintf(number, sizeof number, "%.*s", (int)(end - at < 23 ? end - at : 23),
		    at);
		if (espl__parse_int(number, &value) < 0 || value < 1 || value > 1000000 ||
		    p->gpus_count >= GIVEN_MAX) {
			(void)espl__fail(diag, ESPL_E_CONFIG,
			    "--gpus: '%s' is not a list of numbers from 1 to 1000000", text);
			espl__hint(diag,
			    "give one number per stage, as in --gpus 32,16,8, or one for all "
			    "stages");
			return ESPL_E_CONFIG;
		}
		p->gpus = espl__realloc(p->gpus, p->gpus_count + (size_t)1, sizeof *p->gpus);
		p->gpus[p->gpus_count++] = (uint32_t)value;
	}
	return ESPL_OK;
}

/* Where the user would have to write something. */
static espl_status
fail_at(const struct espl__inputs *s, const char *group, const char *name, const char *text,
    struct espl__diag *diag)
{
	const struct espl__node *node = espl__node_get(espl__tree_root(s->config->tree), group);
	const struct espl__node *member = espl__node_get(node, name);

	node = member != NULL ? member : node;
	return espl__fail_at(diag, ESPL_E_CONFIG,
	    node != NULL && node->file != NULL ? node->file : s->config->path,
	    node != NULL ? node->line : 0, "%s", text);
}

/* All that is named must be there, and there must be something to plan from. */
static espl_status
check_inputs(struct planning *p, struct espl__diag *diag)
{
	struct espl__inputs *s = &p->inputs;
	espl_status status = espl__inputs_check(s, 1, diag);
	char text[200];

	if (status != ESPL_OK)
		return status;
	if (espl__inputs_spec(s, &p->arena) == NULL) {
		(void)snprintf(text, sizeof text,
		    "algorithm '%.60s' does not declare its stages in advance, so there is nothing "
		    "to plan",
		    s->config->algorithm.use);
		status = fail_at(s, "algorithm", "use", text, diag);
		espl__hint(diag,
		    "use one that does, for example algorithm = { use = \"sha\"; trials = 27; "
		    "iterations_max = 27; }; also bohb and pbt with mode = \"sync\", and random, "
		    "sobol and tpe with trials");
	} else if (s->config->resource != NULL) {
		status = fail_at(s, "algorithm", "resource",
		    "cannot predict how many iterations a trial takes: the algorithm counts "
		    "another "
		    "resource",
		    diag);
		espl__hint(diag, "without 'resource' a plan is of iterations");
	} else if (s->profile->guessed) {
		status = fail_at(s, "trial", "profile",
		    "cannot predict how long a trial takes: it has no profile", diag);
		espl__hint(diag,
		    "measure one with `espalier profile %s`, or set trial.profile = { iteration = "
		    "{ mean = \"4s\"; }; scaling = ( (1, 1.0), (2, 1.9), (4, 3.4) ); start = "
		    "\"2s\"; }; where scaling pairs a number of GPUs with the throughput relative "
		    "to one GPU",
		    p->args->positional[0]);
	}
	return status;
}

static espl_status
load_inputs(struct planning *p, struct espl__diag *diag)
{
	const char *allocator = espl__arg(p->args, "allocator"), *gpus = espl__arg(p->args, "gpus");
	const char **sets;
	uint32_t count = espl__arg_all(p->args, "set", &sets);
	espl_status status = espl__inputs_load_auto(p->args->positional[0], sets, count,
	    ESPL__NEED_SEARCH, espl__arg(p->args, "json") == NULL, &p->inputs, diag);

	free(sets);
	if (status == ESPL_OK)
		status = espl__inputs_alone(&p->inputs, diag);
	if (status == ESPL_OK && allocator != NULL)
		status = espl__plan_allocator(&p->inputs, allocator, &p->arena, diag);
	if (status == ESPL_OK && gpus != NULL)
		status = read_gpus(p, gpus, diag);
	return status == ESPL_OK ? check_inputs(p, diag) : status;
}

static void
compare_allocators(struct planning *p)
{
	const char *const *names;
	uint32_t i, count = espl__plan_allocators(&p->arena, &names);
	struct espl__plan_answer *answers =
	    espl__arena_alloc(&p->arena, (count + (size_t)1) * sizeof *answers);

	for (i = 0; i < count; i++) {
		struct espl__plan_ask how = { .allocator = names[i] };

		if (p->gpus == NULL && espl__plugin_name_equal(names[i], p->answer.allocator))
			answers[i] = p->answer;
		else
			espl__plan_find(&p->inputs, &how, &p->arena, &answers[i]);
	}
	p->view.compare = answers;
	p->view.compare_count = count;
}

/* Is the file's allocator, or that of --allocator, one of those that plan?  list: their names. */
static int
makes_plans(struct planning *p, struct espl__buf *list)
{
	const char *const *names;
	uint32_t i, count = espl__plan_allocators(&p->arena, &names);
	int found = 0;

	for (i = 0; i < count; i++) {
		found |= espl__plugin_name_equal(names[i], p->inputs.config->allocator.use);
		espl__print(list, "%s%s", i > 0 ? ", " : "", names[i]);
	}
	return found;
}

/* Finds the plan, or takes the one given with --gpus, or records why there is none. */
static void
find_plan(struct planning *p)
{
	struct espl__plan_ask how = { .gpus = p->gpus, .gpus_count = p->gpus_count };
	struct espl__plan_answer *a = &p->answer;
	struct espl__inputs *s = &p->inputs;
	struct espl__buf list = { NULL, 0, 0 };
	char text[160];

	if (p->gpus == NULL && !makes_plans(p, &list)) {
		a->allocator = s->config->allocator.use;
		a->gap = a->least_s = a->least_usd = a->idle_usd = NAN;
		(void)snprintf(text, sizeof text, "allocator '%.60s' cannot plan", a->allocator);
		a->status = fail_at(s, "allocator", "use", text, &a->diag);
		a->status = a->diag.status = ESPL_E_UNSUPPORTED;
		espl__hint(&a->diag, "choose one that can with --allocator NAME: %s",
		    espl__buf_text(&list));
	} else {
		espl__plan_find(s, &how, &p->arena, a);
	}
	if (p->gpus != NULL)
		a->allocator = "given";
	else if (a->status == ESPL_OK && a->interrupted != NULL)
		espl__plan_try(s, a);
	if (a->status == ESPL_OK && p->gpus == NULL && espl__arg(p->args, "json") == NULL)
		espl__plan_idle(s, &p->arena, a);
	espl__buf_free(&list);
}

/* Failures but those of the search for a plan leave nothing to print, unless others are to be set
 * beside it. */
static int
print_answer(struct planning *p)
{
	struct espl__plan_answer *a = &p->answer;
	struct espl__buf b = { NULL, 0, 0 };
	int json = espl__arg(p->args, "json") != NULL, result = ESPL__EXIT_DONE, printed = result;
	int frontier = espl__arg(p->args, "frontier") != NULL,
	    side_by_side = espl__arg(p->args, "compare") != NULL;

	find_plan(p);
	if (a->status != ESPL_OK &&
	    !(a->status == ESPL_E_UNSUPPORTED && side_by_side && !frontier)) {
		result = espl__cli_fail(&a->diag);
		if (a->status != ESPL_E_INFEASIBLE)
			return result;
	}
	p->view.config = p->inputs.config;
	p->view.answer = a;
	p->view.given = p->gpus != NULL;
	if (side_by_side)
		compare_allocators(p);
	if (frontier) {
		espl__plan_frontier(&p->inputs, NULL, &p->arena, &p->frontier);
		p->view.frontier = &p->frontier;
	}
	(json ? espl__plan_json : espl__plan_text)(&p->view, &b);
	if (b.size > 0)
		printed = espl__cli_print(&b);
	espl__buf_free(&b);
	return result != ESPL__EXIT_DONE ? result : printed;
}

int
espl__verb_plan(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct planning *p;
	int result;

	if (espl__arg(args, "gpus") != NULL &&
	    (espl__arg(args, "allocator") != NULL || espl__arg(args, "frontier") != NULL))
		return espl__cli_usage(args,
		    "--gpus cannot be combined with --allocator or --frontier");
	p = espl__alloc(sizeof *p);
	p->args = args;
	result = load_inputs(p, &diag) == ESPL_OK ? print_answer(p) : espl__cli_fail(&diag);
	espl__inputs_free(&p->inputs);
	espl__arena_free(&p->arena);
	free(p->gpus);
	free(p);
	return result;
}
