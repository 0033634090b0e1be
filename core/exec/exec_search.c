/* exec_search.c - asking the algorithm for work, doing what it says, and its services. */
#include <stdio.h>
#include <string.h>

#include "exec/state.h"

#define ASKS_MAX 10000u		/* calls of next_group in one round: beyond it the algorithm goes in circles */

/* ---- services ---------------------------------------------------------------------------------- */

static const double *
first_at(const struct espl_first *f, uint32_t index)
{
	const struct espl__exec *x = f->ctx;

	return index < x->first_count ? x->first[index] : NULL;
}

static espl_status
submit(const struct espl_compute *c, const struct espl_compute_request *request, uint64_t *token,
    struct espl_error *error)
{
	struct espl__exec *x = c->ctx;
	struct espl__diag  diag = ESPL__DIAG_INIT;
	espl_status status = espl__caller_submit(&x->caller, request, token, &diag);

	if (status != ESPL_OK && error != NULL && error->status == ESPL_OK) {
		error->status = status;
		(void)snprintf(error->text, sizeof error->text, "%.200s", diag.text);
	}
	return status;
}

static void
cancel(const struct espl_compute *c, uint64_t token)
{
	struct espl__exec *x = c->ctx;

	for (uint32_t i = 0; i < x->computing_count; i++)
		if (x->computing[i].token == token) {
			x->computing[i] = x->computing[--x->computing_count];
			return;
		}
}

const void *
espl__exec_service(void *ctx, struct espl__instance *i, const char *id)
{
	struct espl__exec *x = ctx;
	espl_kind kind = i->plugin->desc->kind;

	if (kind == ESPL_ALGORITHM) {
		if (strcmp(id, ESPL_SPACE) == 0)
			return espl__space_view(x->setup.space);
		if (strcmp(id, ESPL_EXPERIMENT) == 0)
			return &x->experiment;
		if (strcmp(id, ESPL_FIRST) == 0)
			return &x->first_service;
		if (strcmp(id, ESPL_HISTORY) == 0) {
			if (x->history == NULL)
				x->history = espl__history_new(&x->trials, x->setup.earlier);
			espl__history_first(x->history, x->first, x->first_count);
			i->wants_history = 1;
			return espl__history_view(x->history);
		}
	}
	if ((kind == ESPL_ALGORITHM || kind == ESPL_ALLOCATOR) && strcmp(id, ESPL_COMPUTE) == 0)
		return &x->compute;
	if ((kind == ESPL_ALGORITHM || kind == ESPL_ALLOCATOR) && strcmp(id, ESPL_MODEL) == 0)
		return &x->model.pub;
	return NULL;
}

static int
is_first(const struct espl__exec *x, const double *values)
{
	const struct espl_space *view = espl__space_view(x->setup.space);
	uint64_t hash = view->hash(view, values);

	for (uint32_t i = 0; i < x->first_count; i++)
		if (view->hash(view, x->first[i]) == hash)
			return 1;
	return 0;
}

/* The best of a warm start, behind the user's own points. */
static void
best_points(struct espl__exec *x)
{
	uint32_t own = x->first_count;
	const double *values;

	for (uint32_t rank = 0; x->first_count - own < x->config->warm_best; rank++) {
		values = espl__earlier_best(x->setup.earlier, rank);
		if (values == NULL)
			return;
		if (!is_first(x, values))
			x->first[x->first_count++] = values;
	}
}

/* The user's points, checked against the space before anything runs. */
espl_status
espl__exec_first_points(struct espl__exec *x, struct espl__diag *diag)
{
	const struct espl__node *list = x->config->first;
	uint32_t count, room;

	x->compute.size = (uint32_t)sizeof x->compute;
	x->compute.ctx = x;
	x->compute.submit = submit;
	x->compute.cancel = cancel;
	x->first_service.size = (uint32_t)sizeof x->first_service;
	x->first_service.ctx = x;
	x->first_service.at = first_at;
	count = list != NULL ? list->child_count : 0;
	room = x->setup.earlier != NULL ? x->config->warm_best : 0;
	if (room > 0 && room > espl__earlier_configs(x->setup.earlier))
		room = espl__earlier_configs(x->setup.earlier);
	x->first = espl__arena_alloc(&x->arena, (count + room + (size_t)1) * sizeof *x->first);
	for (uint32_t i = 0; i < count; i++) {
		double *values = espl__arena_alloc(&x->arena, (x->trials.params + 1) * sizeof *values);
		espl_status status = espl__space_point(x->setup.space, list->children[i], values, diag);
		if (status != ESPL_OK)
			return status;
		x->first[i] = values;
	}
	x->first_count = count;
	if (x->setup.earlier != NULL)
		best_points(x);
	x->first_service.count = x->first_count;
	return ESPL_OK;
}

/* ---- what was answered ---------------------------------------------------------------------------- */

/* A promoted trial whose processes still wait for the reply goes on with them (planning.warm). */
static void
keep_warm(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__gang *g = t->gang;

	if (!x->config->warm || g == NULL || !g->awaiting || g->state != ESPL__GANG_RUNNING || g->killed)
		return;
	espl__gang_heard(x, g);		/* the time at the barrier is no training */
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		struct espl__machine *n;
		if (espl__gpu_at(&x->fleet, &g->slots[i], &n) == NULL || n->pub.state != ESPL_NODE_READY ||
		    (n->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0)
			return;
	}
	g->over = 0;
	if (x->experiment.plan != NULL)
		g->saved_at = x->now;	/* trial.checkpoint_every counts from the barrier on */
	if (g->leaves != ESPL_NONE)
		espl__item_gone(x, g->leaves);
	g->leaves = ESPL_NONE;
	espl__item_grant(x, t->item, g->share, ESPL_ANY);
	espl__item_target(x, t->item, g->slots, g->share.gpus);
	espl__trial_state(&x->trials, t, ESPL_TRIAL_RUNNING);
	t->item->pub.flags |= ESPL_ITEM_RUNNING;
	t->item->pub.started = x->now;
	espl__item_progress(x, t->item, g->iteration);
}

static void
apply_add(struct espl__exec *x, uint64_t group_id, const struct espl_start *s)
{
	struct espl__trial_group *g = espl__group_at(&x->trials, group_id);
	struct espl__trial *t, *source = NULL;

	if (g == NULL)
		return;
	if (s->how == ESPL_CONTINUE) {
		t = espl__trial_at(&x->trials, s->trial);
		if (t == NULL || t->pub.state != ESPL_TRIAL_RESTING)
			return;		/* only recorded decisions of another version come here */
		espl__trial_continue(&x->trials, t, g);
		t->unsaved = 0;
	} else {
		source = s->how == ESPL_CLONE ? espl__trial_at(&x->trials, s->trial) : NULL;
		if (s->how == ESPL_CLONE && source == NULL)
			return;
		t = espl__trial_new(&x->trials, g, s->values, source);
	}
	t->pub.budget = s->budget;
	t->pub.tag = s->tag;
	if (source != NULL)
		espl__clone_begin(x, t, s);
	else if (espl__clone_waits(t) && espl__trial_restores(t) == 0)	/* paused before it began */
		espl__clone_wait(x, &(struct espl__waiter){ t, t->pub.iteration, s->weight, s->gpus_min, s->gpus_max });
	else
		t->item = espl__item_new(x, t, s->weight, s->gpus_min, s->gpus_max);
	if (s->how == ESPL_CONTINUE)
		keep_warm(x, t);
	espl__exec_note(x, ESPL_ABOUT_TRIAL, t->pub.id, "%s to iteration %llu in group %llu by %s",
	    s->how == ESPL_FRESH ? "is made, to train" : s->how == ESPL_CLONE ? "is cloned, to train" : "is continued",
	    (unsigned long long)s->budget, (unsigned long long)group_id, x->algorithm->who);
	espl__exec_show(x, t);
}

static void
apply_begin(struct espl__exec *x, const struct espl_group *wanted)
{
	struct espl__trial_group *g = espl__group_new(&x->trials, wanted);

	if (g->bracket < x->experiment.standing_count) {
		struct espl_standing *s = &x->standing[g->bracket];
		s->stage = g->stage;
		s->stage_started = x->now;
		s->trials_left = 0;
	}
	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->group != NULL)
			o->group(o->ctx, x->now, g->id, g->bracket, g->stage, 0);
}

static void
count_standing(struct espl__exec *x, uint64_t group)
{
	const struct espl__trial_group *g = espl__group_at(&x->trials, group);

	if (g != NULL && g->bracket < x->experiment.standing_count)
		x->standing[g->bracket].trials_left++;
}

static void
apply_hint(struct espl__exec *x, const struct espl__op *op)
{
	struct espl__trial *t = espl__trial_at(&x->trials, op->as.hint.trial);
	struct espl_item   *i;

	if (t == NULL || t->item == NULL)
		return;
	i = &t->item->pub;
	i->weight = x->config->weight * (op->as.hint.weight == 0 ? 1.0 : op->as.hint.weight);
	if (op->as.hint.gpus_min >= x->config->trial.gpus_min && op->as.hint.gpus_min <= x->config->trial.gpus_max)
		i->gpus_min = op->as.hint.gpus_min;
	if (op->as.hint.gpus_max >= i->gpus_min && op->as.hint.gpus_max <= x->config->trial.gpus_max)
		i->gpus_max = op->as.hint.gpus_max;
	espl__item_changed(x, t->item, ESPL_WHY_HINT);
}

void
espl__exec_submit(struct espl__exec *x, uint64_t token, espl_kind kind)
{
	for (uint32_t i = 0; i < x->caller.submitted_count; i++) {
		struct espl__submission *s = &x->caller.submitted[i];
		struct espl_compute_request *copy;
		struct espl__effect *e;
		void *input;

		if (s->token != token)
			continue;
		ESPL__GROW(x->computing, x->computing_cap, x->computing_count + 1);
		x->computing[x->computing_count].token = token;
		x->computing[x->computing_count++].kind = kind;
		copy = espl__arena_alloc(&x->ops_arena, sizeof *copy);
		*copy = s->request;
		input = espl__arena_alloc(&x->ops_arena, (size_t)copy->input_size + 1);
		memcpy(input, s->request.input, (size_t)copy->input_size);
		copy->input = input;
		e = espl__exec_effect(x, ESPL__FX_COMPUTE);
		e->as.compute.token = token;
		e->as.compute.request = copy;
		e->as.compute.kind = kind;
	}
}

static espl_status
apply_one(struct espl__exec *x, const struct espl__op *op, struct espl__diag *diag)
{
	struct espl__trial *t;

	switch (op->type) {
	case ESPL__OP_BEGIN:
		apply_begin(x, &op->as.group);
		break;
	case ESPL__OP_ADD:
		apply_add(x, op->as.add.group, &op->as.add.start);
		count_standing(x, op->as.add.group);
		break;
	case ESPL__OP_CLOSE:
		if (espl__group_at(&x->trials, op->as.id) != NULL)
			espl__group_close(&x->trials, espl__group_at(&x->trials, op->as.id));
		break;
	case ESPL__OP_FINISH:
		x->search_finished = 1;
		espl__exec_note(x, ESPL_ABOUT_RUN, 0, "%s has finished the search", x->algorithm->who);
		break;
	case ESPL__OP_VERDICT:
		t = espl__trial_at(&x->trials, op->as.verdict.trial);
		if (t != NULL && t->pub.state != ESPL_TRIAL_ENDED && t->pub.state != ESPL_TRIAL_FAILED)
			return espl__exec_verdict(x, t, op->as.verdict.verdict, 0, diag);
		break;
	case ESPL__OP_DROP:
		t = espl__trial_at(&x->trials, op->as.id);
		if (t != NULL)
			espl__exec_drop(x, t);
		break;
	case ESPL__OP_HINT:
		apply_hint(x, op);
		break;
	case ESPL__OP_WAKE:
		if (op->as.at < x->wake_search)
			x->wake_search = op->as.at;
		break;
	case ESPL__OP_SUBMIT:
		espl__exec_submit(x, op->as.id, ESPL_ALGORITHM);
		break;
	default:
		break;
	}
	return ESPL_OK;
}

/* Applies an answer.  A verdict's end may call the algorithm again (on_trial_end), which makes
 * a new answer: so the ops are taken out first. */
espl_status
espl__exec_apply_search(struct espl__exec *x, struct espl__reader *answer, struct espl__diag *diag)
{
	uint64_t groups = x->trials.groups.count;
	size_t   size = (size_t)(answer->end - answer->at);
	struct espl__reader r;
	struct espl__op     op;
	espl_status status = ESPL_OK;
	uint8_t *copy;

	if (size == 0)
		return ESPL_OK;
	copy = espl__arena_alloc(&x->ops_arena, size);
	memcpy(copy, answer->at, size);
	r = espl__reader(copy, size);
	while (status == ESPL_OK && espl__exec_next_op(x, &r, &op))
		status = apply_one(x, &op, diag);
	/* A closed group closes when the call that began it is over. */
	for (uint64_t id = groups; id < x->trials.groups.count; id++) {
		struct espl__trial_group *g = espl__group_at(&x->trials, id);
		if (g->will_close)
			espl__group_close(&x->trials, g);
	}
	return status;
}

/* ---- asking ------------------------------------------------------------------------------------------ */

/* Trials that could be started at once beyond those that run or wait. */
static uint32_t
want(const struct espl__exec *x)
{
	uint64_t gpus = 0, places, active = x->trials.running + x->trials.waiting;
	const struct espl__trial_config *c = &x->config->trial;

	for (uint32_t i = 0; i < x->fleet.offer_count; i++)
		gpus += (uint64_t)x->fleet.targets[i] * x->fleet.offers[i]->gpus;
	if (gpus == 0)
		gpus = espl__exec_potential(x);
	places = c->gpus_min == 1 ? gpus * c->packing_max : gpus / c->gpus_min;
	if (places <= active)
		return 0;
	return places - active > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)(places - active);
}

static espl_status
ask(struct espl__exec *x, uint32_t why, uint64_t group, struct espl__diag *diag)
{
	struct espl_search_view view = ESPL_INIT(struct espl_search_view);
	struct espl__diag   reason = ESPL__DIAG_INIT;
	struct espl__reader answer;
	espl_status status;
	uint64_t potential = espl__exec_potential(x);

	view.want = want(x);
	view.why = why | (view.want > 0 ? ESPL_ASK_CAPACITY : 0);
	view.now = x->now;
	view.group = group;
	view.trials = x->trials.trials.count;
	view.running = (uint32_t)x->trials.running;
	view.waiting = (uint32_t)x->trials.waiting;
	view.gpus = x->fleet.gpus_held;
	view.gpus_max = potential > UINT32_MAX ? UINT32_MAX : (uint32_t)potential;
	view.outcomes = x->outcomes[0].list;
	view.outcome_count = x->outcomes[0].count;
	status = espl__call_next_group(&x->caller, x->algorithm, &view, &reason);
	x->outcomes[0].count = 0;
	status = espl__exec_answer(x, x->algorithm, status, &reason, &answer, diag);
	espl__arena_free(&x->outcome_arena[0]);
	return status == ESPL_OK ? espl__exec_apply_search(x, &answer, diag) : status;
}

espl_status
espl__exec_search(struct espl__exec *x, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;
	uint32_t asks = 0;

	if (!x->cloud_ready || !x->planned)
		return ESPL_OK;
	status = espl__clones_look(x, diag);
	while (status == ESPL_OK && x->ending == 0 && !x->search_finished) {
		struct espl__trial_group *g = espl__exec_group_over(x);
		uint32_t why = x->search_why;

		if (g == NULL && why == 0)
			break;
		if (++asks > ASKS_MAX) {
			espl__exec_wind_up(x, ESPL__RUN_FAILED, "%s begins groups without trials for ever", x->algorithm->who);
			break;
		}
		x->search_why = 0;
		if (g != NULL) {
			g->told = 1;
			for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
				if (o->group != NULL)
					o->group(o->ctx, x->now, g->id, g->bracket, g->stage, 1);
			why |= ESPL_ASK_GROUP;
		}
		status = ask(x, why, g != NULL ? g->id : ESPL_NONE, diag);
		if (status == ESPL_OK)
			status = espl__clones_look(x, diag);
	}
	return status;
}
