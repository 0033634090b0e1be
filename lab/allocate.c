/* allocate.c - espalier-allocate: one online decision of an allocator on a given view, for authors
 * of allocators and for cases with known answers.
 *
 * Computations that the allocator submits are run and their results passed back until it submits no
 * more.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/tick.h"
#include "lab/alloc_view.h"
#include "policy/call.h"
#include "driver/compute.h"

#define ROUNDS_MAX 1000 /* of computations: with more the allocator is in an endless loop */

enum { GRANTED = 1, QUEUED }; /* what is mentioned of an item */

struct horizon {
	uint64_t item;
	uint32_t steps;
	uint32_t *gpus;
};

struct decision {
	struct espl__inputs inputs;
	struct espl__alloc_view given;
	struct espl__caller caller;
	struct espl_compute compute;
	struct espl__instance *allocator;
	struct espl__map by_id; /* items */
	struct espl__compute **computing;
	const struct espl_outcome **outcomes;
	uint32_t computing_count, computing_cap, outcome_cap;
	double objective, bound;
	char status[64];
	struct horizon *horizons;
	uint32_t horizon_count, horizon_cap;
	int64_t elapsed;
};

static const struct espl_item *
item_of(void *ctx, uint64_t id)
{
	const struct decision *d = ctx;

	return espl__map_get(&d->by_id, id);
}

static espl_status
submit(const struct espl_compute *compute, const struct espl_compute_request *request,
    uint64_t *token, struct espl_error *error)
{
	struct decision *d = compute->ctx;

	return espl__caller_submit(&d->caller, request, token, error);
}

static void
cancel(const struct espl_compute *compute, uint64_t token)
{
	(void)compute, (void)token; /* outcomes come at once: there is nothing to recall */
}

static const void *
find_service(void *ctx, struct espl__instance *instance, const char *id)
{
	struct decision *d = ctx;

	(void)instance;
	return strcmp(id, ESPL_COMPUTE) == 0 ? &d->compute : NULL;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void
keep_horizon(struct decision *d, const struct espl__op *op)
{
	uint32_t i, steps = op->as.horizon.steps;
	struct horizon *h = NULL;

	for (i = 0; i < d->horizon_count; i++) {
		if (d->horizons[i].item == op->as.horizon.item)
			h = &d->horizons[i];
	}
	if (h == NULL) {
		ESPL__GROW(d->horizons, d->horizon_cap, d->horizon_count + 1);
		h = &d->horizons[d->horizon_count++];
		memset(h, 0, sizeof *h);
		h->item = op->as.horizon.item;
	}
	h->gpus = espl__realloc(h->gpus, steps + 1, sizeof *h->gpus);
	memcpy(h->gpus, op->as.horizon.gpus, steps * sizeof *h->gpus);
	h->steps = steps;
}

static void
take_answer(struct decision *d)
{
	struct espl__reader r = espl__reader(d->caller.ops.data, d->caller.ops.size);
	struct espl__arena arena = { NULL };
	struct espl__op op;
	struct espl_item *item;

	while (espl__op_get(&r, 0, &arena, &op) == 1) {
		if (op.type == ESPL__OP_GRANT) {
			item = espl__map_get(&d->by_id, op.as.grant.item);
			if (item == NULL)
				continue;
			item->granted = op.as.grant.share;
			d->given.mentioned[item - d->given.items] =
			    (op.as.grant.flags & ESPL_GRANT_QUEUED) != 0 ? QUEUED : GRANTED;
		} else if (op.type == ESPL__OP_OBJECTIVE) {
			d->objective = op.as.objective.value;
			d->bound = op.as.objective.bound;
			(void)snprintf(d->status, sizeof d->status, "%s", op.as.objective.status);
		} else if (op.type == ESPL__OP_HORIZON) {
			keep_horizon(d, &op);
		}
	}
	espl__arena_free(&arena);
}

/* The grants in force may not need more than there is. */
static espl_status
check_sum(const struct decision *d, struct espl__diag *diag)
{
	uint64_t whole = 0, parts[65] = { 0 };
	uint32_t i, c;

	for (i = 0; i < d->given.view.item_count; i++) {
		const struct espl_share share = d->given.items[i].granted;

		if (d->given.mentioned[i] == QUEUED)
			continue;
		if (share.packing > 1)
			parts[share.packing]++;
		else
			whole += share.gpus;
	}
	for (c = 2; c <= 64; c++)
		whole += (parts[c] + c - 1) / c;
	if (whole > d->given.view.gpus)
		return espl__fail(diag, ESPL_E_REJECTED,
		    "%s grants %llu GPUs, but there are only %u", d->allocator->who,
		    (unsigned long long)whole, d->given.view.gpus);
	return ESPL_OK;
}

/* Runs the computations that the last call submitted; their outcomes are in the next view. */
static void
run_computations(struct decision *d)
{
	struct espl__caller *c = &d->caller;
	uint32_t i;

	for (i = 0; i < d->computing_count; i++)
		espl__compute_free(d->computing[i]);
	d->computing_count = 0;
	for (i = 0; i < c->submitted_count; i++) {
		ESPL__GROW(d->computing, d->computing_cap, i + 1);
		ESPL__GROW(d->outcomes, d->outcome_cap, i + 1);
		d->computing[i] = espl__compute_start(d->inputs.config, ESPL_ALLOCATOR,
		    c->submitted[i].token, &c->submitted[i].request, 0);
		espl__compute_wait(d->computing[i]);
		d->outcomes[i] = espl__compute_outcome(d->computing[i]);
		free((void *)(uintptr_t)c->submitted[i].request.input);
	}
	d->computing_count = c->submitted_count;
	d->given.view.outcomes = d->outcomes;
	d->given.view.outcome_count = c->submitted_count;
	d->given.view.changed_count = 0;
	d->given.view.why = ESPL_WHY_OUTCOME;
	c->submitted_count = 0;
}

static espl_status
run_decision(struct decision *d, struct espl__diag *diag)
{
	int64_t began = espl__tick();
	espl_status status;
	int rounds = 0;

	for (;;) {
		status = espl__call_allocate(&d->caller, d->allocator, &d->given.view, diag);
		if (status == ESPL_OK)
			take_answer(d);
		/* BUSY with a computation under way: asked again with its outcome. */
		if ((status != ESPL_OK && status != ESPL_E_BUSY) || d->caller.submitted_count == 0)
			break;
		if (++rounds > ROUNDS_MAX)
			return espl__fail(diag, ESPL_E_LIMIT, "%s keeps requesting computations",
			    d->allocator->who);
		if (status == ESPL_E_BUSY && diag != NULL)
			*diag = (struct espl__diag)ESPL__DIAG_INIT;
		run_computations(d);
	}
	d->elapsed = espl__tick() - began;
	return status == ESPL_OK ? check_sum(d, diag) : status;
}

/* ---- printing -------------------------------------------------------------------------------- */

static const struct horizon *
horizon_of(const struct decision *d, uint64_t item)
{
	uint32_t i;

	for (i = 0; i < d->horizon_count; i++) {
		if (d->horizons[i].item == item)
			return &d->horizons[i];
	}
	return NULL;
}

static void
print_json(const struct decision *d, struct espl__buf *b)
{
	const struct horizon *h;
	uint32_t i, k;

	espl__print(b, "{\"grants\": [");
	for (i = 0; i < d->given.view.item_count; i++) {
		const struct espl_item *item = &d->given.items[i];

		if (item->granted.gpus == 0 && !d->given.mentioned[i])
			continue;
		espl__json_open(b, NULL, '{');
		espl__json_key(b, "id");
		espl__print(b, "%llu", (unsigned long long)item->id);
		espl__json_int(b, "gpus", item->granted.gpus);
		espl__json_int(b, "packing", item->granted.packing);
		if (d->given.mentioned[i] == QUEUED)
			espl__json_bool(b, "queued", 1);
		h = horizon_of(d, item->id);
		for (k = 0; h != NULL && k < h->steps; k++)
			espl__print(b, "%s%u", k > 0 ? ", " : ", \"steps\": [", h->gpus[k]);
		espl__print(b, h != NULL && h->steps > 0 ? "]}" : "}");
	}
	espl__print(b, "]");
	espl__json_real(b, "objective", d->objective);
	if (!isnan(d->bound))
		espl__json_real(b, "bound", d->bound);
	if (d->status[0] != '\0')
		espl__json_text(b, "status", d->status);
	espl__json_real(b, "elapsed_us", (double)d->elapsed / 1e3);
	espl__print(b, "}\n");
}

static void
print_text(const struct decision *d, struct espl__buf *b)
{
	uint32_t i;

	espl__print(b, "%12s %14s %10s\n", "item", "work_s", "GPUs");
	for (i = 0; i < d->given.view.item_count; i++) {
		const struct espl_item *item = &d->given.items[i];

		espl__print(b, "%12llu %14.6g ", (unsigned long long)item->id, item->work_s);
		if (item->granted.packing > 1)
			espl__print(b, "%8s%u", "1/", item->granted.packing);
		else
			espl__print(b, "%10u", item->granted.gpus);
		espl__print(b, d->given.mentioned[i] == QUEUED ? ", waits\n" : "\n");
	}
	if (!isnan(d->objective))
		espl__print(b, "objective %.6g%s%s\n", d->objective,
		    d->status[0] != '\0' ? ", " : "", d->status);
	espl__print(b, "decided in %.1f us\n", (double)d->elapsed / 1e3);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static void
decision_free(struct decision *d)
{
	uint32_t i;

	espl__instance_destroy(d->allocator);
	for (i = 0; i < d->computing_count; i++)
		espl__compute_free(d->computing[i]);
	for (i = 0; i < d->horizon_count; i++)
		free(d->horizons[i].gpus);
	free(d->horizons);
	free(d->computing);
	free(d->outcomes);
	espl__map_free(&d->by_id);
	espl__caller_free(&d->caller);
	espl__alloc_view_free(&d->given);
	espl__inputs_free(&d->inputs);
}

static espl_status
prepare_decision(struct decision *d, const char *view, struct espl__host_env *env,
    struct espl__diag *diag)
{
	const struct espl__section *section = &d->inputs.config->allocator;
	espl_status status = espl__alloc_view_load(view, &d->inputs, &d->given, diag);
	uint32_t i;

	if (status != ESPL_OK)
		return status;
	for (i = 0; i < d->given.view.item_count; i++)
		espl__map_set(&d->by_id, d->given.items[i].id, &d->given.items[i]);
	d->caller.item = item_of;
	d->caller.items_ctx = d;
	d->caller.fleet = &d->given.fleet;
	d->compute = (struct espl_compute){ .size = (uint32_t)sizeof d->compute,
		.ctx = d,
		.submit = submit,
		.cancel = cancel };
	env->seed = d->inputs.config->seed;
	env->now = &d->given.view.now;
	env->directory = d->inputs.config->directory;
	env->ctx = d;
	env->service = find_service;
	return espl__instance_create(ESPL_ALLOCATOR, section->use, section->group, env,
	    &d->allocator, diag);
}

static int
allocate_run(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__host_env env;
	struct espl__buf b = { NULL, 0, 0 };
	struct decision d;
	const char **sets;
	uint32_t count = espl__arg_all(args, "set", &sets);
	espl_status status;
	int result;

	memset(&d, 0, sizeof d);
	memset(&env, 0, sizeof env);
	d.objective = d.bound = NAN;
	status = espl__inputs_load(args->positional[0], sets, count, ESPL__NEED_NOTHING, &d.inputs,
	    &diag);
	free(sets);
	if (status == ESPL_OK)
		status = prepare_decision(&d, args->positional[1], &env, &diag);
	if (status == ESPL_OK) {
		status = run_decision(&d, &diag);
		if (status != ESPL_OK && diag.status == ESPL_OK)
			(void)espl__fail(&diag, ESPL_E_REMOTE, "%s decided nothing",
			    d.allocator->who);
	}
	if (status == ESPL_OK) {
		(espl__arg(args, "json") != NULL ? print_json : print_text)(&d, &b);
		result = espl__cli_print(&b);
	} else {
		result = espl__cli_fail(&diag);
	}
	espl__buf_free(&b);
	decision_free(&d);
	return result;
}

static const struct espl__flag allocate_flags[] = { { "set", 's', "PATH=VALUE",
							"override a value in FILE (repeatable)" },
	{ "json", 'j', NULL, "print only JSON on standard output" }, { NULL, 0, NULL, NULL } };
static const struct espl__verb allocate = { "allocate",
	"FILE VIEW.json [--set PATH=VALUE]... [--json]",
	"show one decision of FILE's allocator for a given view",
	"For authors of allocators, and for tests.  VIEW.json contains now_s, event (arrival,\n"
	"departure, nodes or period), nodes, gpus_per_node and items.  Each item has id and "
	"work_s\n"
	"(the remaining work in seconds on one GPU) and optionally arrived_s, started_s, "
	"gpus_min,\n"
	"gpus_max, granted and open.\n",
	allocate_flags, 2, 2, allocate_run };

int
main(int argc, char **argv)
{
	return espl__main_one(&allocate, argc, argv);
}
