/* searches_services.c - what policies may ask of the host: the model, computations, first points.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_tiers.h"
#include "exec/searches_plan.h"

void
espl__searches_outcome(struct espl__exec *x, const struct espl__event *e)
{
	const struct espl_outcome *in = e->as.outcome;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->searches.computing_count; i++) {
		struct espl__search *s = x->searches.computing[i].search;
		struct espl__tier *tier = x->searches.computing[i].tier;

		if (x->searches.computing[i].token != in->token)
			continue;
		x->searches.computing[i] = x->searches.computing[--x->searches.computing_count];
		if (s != NULL) {
			espl__outcomes_add(&s->outcomes, in);
			s->why |= ESPL_ASK_OUTCOME;
		} else {
			espl__tier_outcome(tier, in);
		}
		return;
	}
}

void
espl__searches_submit(struct espl__exec *x, struct espl__search *search, struct espl__tier *tier,
    uint64_t token)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->caller.submitted_count; i++) {
		struct espl__submission *s = &x->caller.submitted[i];
		struct espl_compute_request *copy;
		struct espl__effect *e;
		void *input;

		if (s->token != token)
			continue;
		ESPL__GROW(x->searches.computing, x->searches.computing_cap,
		    x->searches.computing_count + 1);
		x->searches.computing[x->searches.computing_count++] =
		    (struct espl__pending_compute){ token, search, tier };
		copy = espl__arena_alloc(&x->ops_arena, sizeof *copy);
		*copy = s->request;
		input = espl__arena_alloc(&x->ops_arena, (size_t)copy->input_size + 1);
		memcpy(input, s->request.input, (size_t)copy->input_size);
		copy->input = input;
		e = espl__exec_effect(x, ESPL__FX_COMPUTE);
		e->as.compute.token = token;
		e->as.compute.request = copy;
		e->as.compute.config = search != NULL ? search->config
		    : tier->inner != NULL             ? tier->inner->search->config
						      : x->config;
		e->as.compute.kind = search != NULL ? ESPL_ALGORITHM : ESPL_ALLOCATOR;
	}
}

/* ---- the execution model, for allocators -------------------------------------------------- */

static const struct espl_model *
model_of(const struct espl_model *m, uint64_t experiment)
{
	const struct espl__exec *x = m->ctx;

	return experiment < x->searches.count && x->searches.list[experiment]->algorithm != NULL
	    ? &x->searches.list[experiment]->model.pub
	    : NULL;
}

static espl_status
speed(const struct espl_model *m, const struct espl_speed_query *q, struct espl_speed *out)
{
	const struct espl_model *of = model_of(m, q->experiment);

	return of != NULL ? of->speed(of, q, out) : ESPL_E_UNKNOWN;
}

static espl_status
overheads(const struct espl_model *m, uint64_t experiment, uint32_t offer,
    struct espl_overheads *out)
{
	const struct espl_model *of = model_of(m, experiment);

	return of != NULL ? of->overheads(of, experiment, offer, out) : ESPL_E_UNKNOWN;
}

static espl_status
stage(const struct espl_model *m, const struct espl_stage_query *q, struct espl_cell *cells)
{
	const struct espl_model *of = model_of(m, q->experiment);

	return of != NULL ? of->stage(of, q, cells) : ESPL_E_UNKNOWN;
}

static espl_status
predict(const struct espl_model *m, const struct espl_plan *plan, const struct espl_predict *how,
    struct espl_prediction *out, struct espl_error *error)
{
	const struct espl_model *of = model_of(m, how->experiment);

	return of != NULL ? of->predict(of, plan, how, out, error) : ESPL_E_UNSUPPORTED;
}

static espl_status
submit(const struct espl_compute *c, const struct espl_compute_request *request, uint64_t *token,
    struct espl_error *error)
{
	struct espl__exec *x = c->ctx;

	return espl__caller_submit(&x->caller, request, token, error);
}

static void
cancel(const struct espl_compute *c, uint64_t token)
{
	struct espl__exec *x = c->ctx;

	for (uint32_t i = 0; i < x->searches.computing_count; i++)
		if (x->searches.computing[i].token == token) {
			x->searches.computing[i] =
			    x->searches.computing[--x->searches.computing_count];
			return;
		}
}

void
espl__searches_init(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->searches.model = (struct espl_model){ .size = (uint32_t)sizeof x->searches.model,
		.ctx = x,
		.speed = speed,
		.overheads = overheads,
		.stage = stage,
		.predict = predict };
	x->searches.compute = (struct espl_compute){ .size = (uint32_t)sizeof x->searches.compute,
		.ctx = x,
		.submit = submit,
		.cancel = cancel };
}

const void *
espl__searches_service(void *ctx, struct espl__instance *i, const char *id)
{
	struct espl__exec *x = ctx;

	ESPL__CHECK(i, INSTANCE);
	if (i->plugin->desc->kind != ESPL_ALLOCATOR)
		return NULL;
	if (strcmp(id, ESPL_COMPUTE) == 0)
		return &x->searches.compute;
	if (strcmp(id, ESPL_MARKET) == 0)
		return &x->market.pub;
	if (strcmp(id, ESPL_MODEL) == 0)
		return x->config->pool ? &x->searches.model : &x->searches.list[0]->model.pub;
	return NULL;
}

const void *
espl__search_service(void *ctx, struct espl__instance *i, const char *id)
{
	struct espl__search *s = ctx;

	ESPL__CHECK(i, INSTANCE);
	if (strcmp(id, ESPL_COMPUTE) == 0)
		return &s->exec->searches.compute;
	if (strcmp(id, ESPL_MODEL) == 0)
		return &s->model.pub;
	if (i->plugin->desc->kind != ESPL_ALGORITHM && i->plugin->desc->kind != ESPL_SAMPLER)
		return NULL;
	if (strcmp(id, ESPL_SPACE) == 0)
		return espl__space_view(s->inputs->space);
	if (strcmp(id, ESPL_EXPERIMENT) == 0)
		return &s->experiment;
	if (strcmp(id, ESPL_FIRST) == 0)
		return &s->first_service;
	if (strcmp(id, ESPL_HISTORY) == 0) {
		if (s->history == NULL)
			s->history = espl__history_new(s->configs, s->inputs->earlier);
		espl__history_first(s->history, s->first, s->first_count);
		return espl__history_view(s->history);
	}
	return NULL;
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* Notes of the executor and of plugins about their decisions, translated from
 * items to trials and experiments.
 *
 * Users know trials and experiments. Allocators and placers know the items that represent them, and
 * the algorithm of one of a pool's experiments has its own numbers for trials and groups. Here all
 * of them become the names in the run's records. */

/* Begins with what it is about: the run's list of reasons holds all sorts. */
static void
spread_of(const struct espl__exec *x, const char *who, espl_subject about, uint64_t id,
    const char *kind, const char *name, const char *text)
{
	struct espl__buf whole = { NULL, 0, 0 };

	espl__print(&whole, "%s '%s': %s", kind, name, text);
	espl__exec_spread(x, who, about, id, (const char *)whole.data);
	espl__buf_free(&whole);
}

/* The trial of an item that is listed as gone in the current view; NONE: it is not listed. */
static uint64_t
gone_trial(const struct espl__tier *tier, uint64_t id)
{
	for (uint32_t i = 0; i < tier->gone_count; i++)
		if (tier->gone[i] == id)
			return tier->gone_of[i];
	return ESPL_NONE;
}

static void
spread_item(const struct espl__exec *x, const char *who, const struct espl__tier *tier, uint64_t id,
    const char *text)
{
	const struct espl__item *item = espl__item_at(tier, id);
	uint64_t trial;

	if (item == NULL)
		/* the placer's may be of an experiment's own allocator */
		item = espl__item_granted(x, id);
	if (item == NULL) {
		trial = gone_trial(tier, id);
		espl__exec_spread(x, who, trial != ESPL_NONE ? ESPL_ABOUT_TRIAL : ESPL_ABOUT_ITEM,
		    trial != ESPL_NONE ? trial : id, text);
	} else if (item->trial != NULL) {
		espl__exec_spread(x, who, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial), text);
	} else {
		spread_of(x, who, ESPL_ABOUT_RUN, 0, "experiment",
		    item->whole->search->config->name, text);
	}
}

void
espl__searches_plugin_note(void *exec, struct espl__instance *i, espl_subject about, uint64_t id,
    const char *text)
{
	const struct espl__exec *x = exec;

	ESPL__CHECK(i, INSTANCE);
	if (about == ESPL_ABOUT_ITEM)
		spread_item(x, i->who, &x->items.top, id, text);
	else if (about == ESPL_ABOUT_OFFER && id < x->fleet.offer_count)
		spread_of(x, i->who, about, id, "offer", x->fleet.offers[id]->name, text);
	else
		espl__exec_spread(x, i->who, about, id, text);
}

void
espl__search_plugin_note(void *search, struct espl__instance *i, espl_subject about, uint64_t id,
    const char *text)
{
	const struct espl__search *s = search;

	ESPL__CHECK(i, INSTANCE);
	if (about == ESPL_ABOUT_ITEM) {
		spread_item(s->exec, i->who, s->tier, id, text);
		return;
	}
	if (about == ESPL_ABOUT_TRIAL || about == ESPL_ABOUT_GROUP)
		id |= (uint64_t)s->number << ESPL__TRIAL_BITS;
	espl__exec_spread(s->exec, i->who, about, id, text);
}
