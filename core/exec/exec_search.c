/* exec_search.c - asking the algorithm for work, doing what it says, and its services. */
#include <stdio.h>
#include <string.h>

#include "exec/state.h"

/* calls of next_group in one round: beyond it the algorithm goes in circles */
#define ASKS_MAX 10000u

/* ---- what was answered -------------------------------------------------------------------- */

/* A trial has got its GPUs: does its stage begin to train with it? */
void
espl__exec_trains(struct espl__search *s, const struct espl__trial *t)
{
	const struct espl__trial_group *g = espl__group_at(&s->trials, t->pub.group);

	if (g != NULL && g->bracket < s->experiment.standing_count &&
	    s->standing[g->bracket].stage == g->stage &&
	    s->standing[g->bracket].trains_since == ESPL_NEVER)
		s->standing[g->bracket].trains_since = s->exec->now;
}

/* A promoted trial whose processes still wait for the reply goes on with them (planning.warm). */
static void
keep_warm(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__gang *g = t->gang;

	if (!t->search->config->warm || g == NULL || !g->awaiting ||
	    g->state != ESPL__GANG_RUNNING || g->killed)
		return;
	espl__gang_heard(x, g); /* the time at the barrier is no training */
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		struct espl__machine *n;
		if (espl__gpu_at(&x->fleet, &g->slots[i], &n) == NULL ||
		    n->pub.state != ESPL_NODE_READY ||
		    (n->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0)
			return;
		t->item->view.owner = n->pub.owner;
	}
	g->over = 0;
	if (t->search->experiment.plan != NULL)
		g->saved_at = x->now; /* trial.checkpoint_every counts from the barrier on */
	if (g->leaves != ESPL_NONE)
		espl__item_gone(t->search->tier, g->leaves, t);
	g->leaves = ESPL_NONE;
	espl__item_grant(x, t->item, g->share, ESPL_ANY);
	espl__item_target(x, t->item, g->slots, g->share.gpus);
	espl__trial_state(&t->search->trials, t, ESPL_TRIAL_RUNNING);
	t->item->pub.flags |= ESPL_ITEM_RUNNING;
	t->item->pub.started = x->now;
	espl__exec_trains(t->search, t);
	espl__item_progress(x, t->item, g->iteration);
}

static void
apply_add(struct espl__search *search, uint64_t group_id, const struct espl_start *s)
{
	struct espl__exec *x = search->exec;
	struct espl__trials *trials = &search->trials;
	struct espl__trial_group *g = espl__group_at(trials, group_id);
	struct espl__trial *t, *source = NULL;

	if (g == NULL)
		return;
	if (s->how == ESPL_CONTINUE) {
		t = espl__trial_at(trials, s->trial);
		if (t == NULL || t->pub.state != ESPL_TRIAL_RESTING)
			return; /* only recorded decisions of another version come here */
		espl__trial_continue(trials, t, g);
		t->unsaved = 0;
	} else {
		source = s->how == ESPL_CLONE ? espl__trial_at(trials, s->trial) : NULL;
		if (s->how == ESPL_CLONE && source == NULL)
			return;
		t = espl__trial_new(trials, g, s->values, source);
	}
	t->pub.budget = s->budget;
	t->pub.tag = s->tag;
	if (source != NULL)
		espl__clone_begin(x, t, s);
	else if (espl__clone_waits(t) && espl__trial_restores(t) == 0) /* paused before it began */
		espl__clone_wait(x,
		    &(struct espl__waiter){ t, t->pub.iteration, s->weight, s->gpus_min,
			s->gpus_max });
	else
		t->item = espl__item_new(x, t, s->weight, s->gpus_min, s->gpus_max);
	if (s->how == ESPL_CONTINUE)
		keep_warm(x, t);
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
	    "%s to iteration %llu in group %llu by %s",
	    s->how == ESPL_FRESH       ? "is made, to train"
		: s->how == ESPL_CLONE ? "is cloned, to train"
				       : "is continued",
	    (unsigned long long)s->budget, (unsigned long long)group_id, search->algorithm->who);
	espl__exec_show(x, t);
}

static void
show_group(const struct espl__search *s, const struct espl__trial_group *g, int ended)
{
	struct espl__exec *x = s->exec;

	for (struct espl__observer *o = x->setup.observers; o != NULL; o = o->next)
		if (o->group != NULL)
			o->group(o->ctx, x->now, (uint64_t)s->number << ESPL__TRIAL_BITS | g->id,
			    g->bracket, g->stage, ended);
}

static void
apply_begin(struct espl__search *s, const struct espl_group *wanted)
{
	struct espl__trial_group *g = espl__group_new(&s->trials, wanted);

	if (g->bracket < s->experiment.standing_count) {
		struct espl_standing *standing = &s->standing[g->bracket];
		standing->stage = g->stage;
		standing->stage_started = s->exec->now;
		standing->trains_since = ESPL_NEVER;
		standing->trials_left = 0;
	}
	show_group(s, g, 0);
}

static void
count_standing(struct espl__search *s, uint64_t group)
{
	const struct espl__trial_group *g = espl__group_at(&s->trials, group);

	if (g != NULL && g->bracket < s->experiment.standing_count)
		s->standing[g->bracket].trials_left++;
}

static void
apply_hint(struct espl__search *s, const struct espl__op *op)
{
	const struct espl__run_config *c = s->config;
	struct espl__trial *t = espl__trial_at(&s->trials, op->as.hint.trial);
	struct espl_item *i;

	if (t == NULL || t->item == NULL)
		return;
	i = &t->item->pub;
	i->weight = c->weight * (op->as.hint.weight == 0 ? 1.0 : op->as.hint.weight);
	if (op->as.hint.gpus_min >= c->trial.gpus_min && op->as.hint.gpus_min <= c->trial.gpus_max)
		i->gpus_min = op->as.hint.gpus_min;
	if (op->as.hint.gpus_max >= i->gpus_min && op->as.hint.gpus_max <= c->trial.gpus_max)
		i->gpus_max = op->as.hint.gpus_max;
	espl__inner_count(t->item, 1);
	espl__item_changed(t->item, ESPL_WHY_HINT);
}

void
espl__exec_submit(struct espl__exec *x, struct espl__search *search, struct espl__tier *tier,
    uint64_t token)
{
	for (uint32_t i = 0; i < x->caller.submitted_count; i++) {
		struct espl__submission *s = &x->caller.submitted[i];
		struct espl_compute_request *copy;
		struct espl__effect *e;
		void *input;

		if (s->token != token)
			continue;
		ESPL__GROW(x->computing, x->computing_cap, x->computing_count + 1);
		x->computing[x->computing_count++] =
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
		    : tier->inner != NULL             ? espl__inner_search(tier->inner)->config
						      : x->config;
		e->as.compute.kind = search != NULL ? ESPL_ALGORITHM : ESPL_ALLOCATOR;
	}
}

static espl_status
apply_one(struct espl__search *s, const struct espl__op *op, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	struct espl__trial *t;

	switch (op->type) {
	case ESPL__OP_BEGIN: apply_begin(s, &op->as.group); break;
	case ESPL__OP_ADD:
		apply_add(s, op->as.add.group, &op->as.add.start);
		count_standing(s, op->as.add.group);
		break;
	case ESPL__OP_CLOSE:
		if (espl__group_at(&s->trials, op->as.id) != NULL)
			espl__group_close(&s->trials, espl__group_at(&s->trials, op->as.id));
		break;
	case ESPL__OP_FINISH:
		s->finished = 1;
		espl__exec_note(x, ESPL_ABOUT_RUN, 0,
		    x->config->pool ? "%s has finished the search of experiment '%s'"
				    : "%s has finished the search",
		    s->algorithm->who, s->config->name);
		break;
	case ESPL__OP_VERDICT:
		t = espl__trial_at(&s->trials, op->as.verdict.trial);
		if (t != NULL && t->pub.state != ESPL_TRIAL_ENDED &&
		    t->pub.state != ESPL_TRIAL_FAILED)
			return espl__exec_verdict(x, t, op->as.verdict.verdict, 0, diag);
		break;
	case ESPL__OP_DROP:
		t = espl__trial_at(&s->trials, op->as.id);
		if (t != NULL)
			espl__exec_drop(x, t);
		break;
	case ESPL__OP_HINT: apply_hint(s, op); break;
	case ESPL__OP_WAKE:
		if (op->as.at < s->wake_at)
			s->wake_at = op->as.at;
		break;
	case ESPL__OP_SUBMIT: espl__exec_submit(x, s, NULL, op->as.id); break;
	default: break;
	}
	return ESPL_OK;
}

/* Applies an answer.  A verdict's end may call the algorithm again (on_trial_end), which makes
 * a new answer: so the ops are taken out first. */
espl_status
espl__exec_apply_search(struct espl__exec *x, struct espl__search *s, struct espl__reader *answer,
    struct espl__diag *diag)
{
	uint64_t groups = s->trials.groups.count;
	size_t size = (size_t)(answer->end - answer->at);
	struct espl__reader r;
	struct espl__op op;
	espl_status status = ESPL_OK;
	uint8_t *copy;

	if (size == 0)
		return ESPL_OK;
	copy = espl__arena_alloc(&x->ops_arena, size);
	memcpy(copy, answer->at, size);
	r = espl__reader(copy, size);
	while (status == ESPL_OK && espl__exec_next_op(x, &r, &op))
		status = apply_one(s, &op, diag);
	/* A closed group closes when the call that began it is over. */
	for (uint64_t id = groups; id < s->trials.groups.count; id++) {
		struct espl__trial_group *g = espl__group_at(&s->trials, id);
		if (g->will_close)
			espl__group_close(&s->trials, g);
	}
	return status;
}

/* ---- asking ------------------------------------------------------------------------------- */

/* Trials that could be started at once beyond those that run or wait. */
static uint32_t
want(const struct espl__search *s)
{
	const struct espl__exec *x = s->exec;
	uint64_t gpus = 0, places, active = s->trials.running + s->trials.waiting;
	const struct espl__trial_config *c = &s->config->trial;

	for (uint32_t i = 0; i < x->fleet.offer_count; i++)
		gpus += (uint64_t)x->fleet.targets[i] * x->fleet.offers[i]->gpus;
	if (gpus == 0)
		gpus = espl__exec_potential(x);
	if (x->config->pool && gpus > s->config->gpus_limit)
		gpus = s->config->gpus_limit;
	places = c->gpus_min == 1 ? gpus * c->packing_max : gpus / c->gpus_min;
	if (places <= active)
		return 0;
	return places - active > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)(places - active);
}

static espl_status
ask(struct espl__search *s, uint32_t why, uint64_t group, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	struct espl_search_view view = ESPL_INIT(struct espl_search_view);
	struct espl__diag reason = ESPL__DIAG_INIT;
	struct espl__reader answer;
	espl_status status;
	uint64_t potential = espl__exec_potential(x);

	view.want = want(s);
	view.why = why | (view.want > 0 ? ESPL_ASK_CAPACITY : 0);
	view.now = x->now;
	view.group = group;
	view.trials = s->trials.trials.count;
	view.running = (uint32_t)s->trials.running;
	view.waiting = (uint32_t)s->trials.waiting;
	view.gpus = x->fleet.gpus_held;
	view.gpus_max = potential > UINT32_MAX ? UINT32_MAX : (uint32_t)potential;
	view.outcomes = s->outcomes.list;
	view.outcome_count = s->outcomes.count;
	espl__exec_turn(x, s);
	status = espl__call_next_group(&x->caller, s->algorithm, &view, &reason);
	s->outcomes.count = 0;
	status = espl__exec_answer(x, s, s->algorithm, status, &reason, &answer, diag);
	espl__arena_free(&s->outcomes.arena);
	return status == ESPL_OK ? espl__exec_apply_search(x, s, &answer, diag) : status;
}

static espl_status
search_on(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	espl_status status = espl__clones_look(s, diag);
	uint32_t asks = 0;

	while (status == ESPL_OK && x->ending == 0 && !s->finished) {
		struct espl__trial_group *g = espl__exec_group_over(s);
		uint32_t why = s->why;

		if (g == NULL && why == 0)
			break;
		if (++asks > ASKS_MAX) {
			espl__search_wind_up(s, ESPL__RUN_FAILED,
			    "%s begins groups without trials for ever", s->algorithm->who);
			break;
		}
		s->why = 0;
		if (g != NULL) {
			g->told = 1;
			show_group(s, g, 1);
			why |= ESPL_ASK_GROUP;
		}
		status = ask(s, why, g != NULL ? g->id : ESPL_NONE, diag);
		if (status == ESPL_OK)
			status = espl__clones_look(s, diag);
	}
	return status;
}

espl_status
espl__exec_search(struct espl__exec *x, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	if (!x->cloud_ready)
		return ESPL_OK;
	for (uint32_t i = 0; i < x->search_count && status == ESPL_OK; i++)
		if (x->searches[i]->algorithm != NULL && x->searches[i]->planned &&
		    x->searches[i]->come)
			status = search_on(x->searches[i], diag);
	return status;
}
